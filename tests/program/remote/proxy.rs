//! HTTP proxy that opens tunnels and records their targets.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

pub struct Proxy {
    pub url: String,
    tunnels: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let tunnels = Arc::new(Mutex::new(Vec::new()));
        let made = Arc::clone(&tunnels);
        // The thread ends with the test process.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let made = Arc::clone(&made);
                thread::spawn(move || tunnel(client, &made));
            }
        });
        Self { url, tunnels }
    }

    /// Hosts and ports of the requested tunnels.
    pub fn tunnels(&self) -> Vec<String> {
        self.tunnels.lock().unwrap().clone()
    }
}

fn tunnel(client: TcpStream, made: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(client.try_clone().unwrap());
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or_default() == 0 || line.trim().is_empty() {
            break;
        }
        head.push(line);
    }
    let Some(to) = head.first().and_then(|line| line.strip_prefix("CONNECT ")) else { return };
    let to = to.split(' ').next().unwrap().to_owned();
    let Ok(server) = TcpStream::connect(&to) else { return };
    made.lock().unwrap().push(to);
    (&client).write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
    let (mut from_server, mut to_client) = (server.try_clone().unwrap(), client);
    let back = thread::spawn(move || {
        let _ = std::io::copy(&mut from_server, &mut to_client);
        let _ = to_client.shutdown(std::net::Shutdown::Both);
    });
    let mut to_server = server;
    let _ = std::io::copy(&mut reader, &mut to_server);
    let _ = to_server.shutdown(std::net::Shutdown::Both);
    back.join().unwrap();
}
