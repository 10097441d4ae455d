//! Fuzz target of the answers of Prometheus: after the first byte, what the server sends: the body of an answer, or all of
//! it with the head. A reason is one line without the token.

#![no_main]

use std::sync::{Arc, LazyLock, Mutex};

use libfuzzer_sys::fuzz_target;
use nodecfg::gates::{Prometheus, PrometheusAddress, Token};
use nodecfg_contract::printable::is_hidden;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

const TOKEN: &str = "hunter2-hunter2";

/// Heads of answers to which the input is the body.
const HEADS: [&str; 3] = ["200 OK", "400 Bad Request", "503 Service Unavailable"];

struct Server {
    runtime: Runtime,
    client: Prometheus,
    answer: Arc<Mutex<Vec<u8>>>,
}

static SERVER: LazyLock<Server> = LazyLock::new(|| {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let answer = Arc::new(Mutex::new(Vec::new()));
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let shown = Arc::clone(&answer);
    runtime.spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let answer = shown.lock().unwrap().clone();
            let _ = connection.read(&mut [0; 4096]).await;
            let _ = connection.write_all(&answer).await;
            let _ = connection.shutdown().await;
        }
    });
    let token = Token::Text(TOKEN.to_owned());
    let client = Prometheus::new(PrometheusAddress::parse(&url).unwrap(), token, None).unwrap();
    Server { runtime, client, answer }
});

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let head = HEADS
        .get(usize::from(kind & 3))
        .map(|status| format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", bytes.len()));
    *SERVER.answer.lock().unwrap() = [head.unwrap_or_default().as_bytes(), bytes].concat();
    if let Err(why) = SERVER.runtime.block_on(SERVER.client.query("up")) {
        assert!(!why.contains('\n') && !why.chars().any(is_hidden), "{why:?}");
        assert!(!why.contains(TOKEN) && why.chars().count() <= 201, "{why}");
    }
});
