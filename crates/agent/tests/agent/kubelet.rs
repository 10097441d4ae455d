//! Simulated kubelet process. Reads `--config` and `--config-dir` like the kubelet, serves `/healthz` on the
//! configured port, and injects faults. The process is this test program, started again with its arguments in the
//! environment, because the test harness parses the command line.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::exit;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Environment variable with the folder of the simulated kubelet: its faults and its journal.
pub const FOLDER: &str = "STAND_IN_FOLDER";
/// Environment variable with the kubelet's `--config`.
pub const CONFIG: &str = "STAND_IN_CONFIG";
/// Environment variable with the kubelet's `--config-dir`; unset for none.
pub const CONFIG_DIR: &str = "STAND_IN_CONFIG_DIR";

/// Faults by configuration, identified by its `maxPods`.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct KubeletFaults {
    /// Fails to start.
    pub refuse: Vec<i64>,
    /// Writes this line to its log and exits.
    pub exit: BTreeMap<i64, String>,
    /// Starts and exits after this number of milliseconds.
    pub die: BTreeMap<i64, u64>,
    /// Runs and is never healthy.
    pub unhealthy: Vec<i64>,
}

/// Entry point of the simulated kubelet.
#[test]
#[ignore = "this is the kubelet of the other tests"]
fn kubelet() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let journal = |line: String| {
        let mut file = OpenOptions::new().create(true).append(true).open(folder.join("journal")).unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    };
    let config = read(Path::new(&std::env::var_os(CONFIG).unwrap()), std::env::var_os(CONFIG_DIR).map(PathBuf::from));
    let pods = config["maxPods"].as_i64().unwrap();
    let faults: KubeletFaults = serde_json::from_str(&fs::read_to_string(folder.join("faults")).unwrap()).unwrap();
    if faults.refuse.contains(&pods) {
        journal(format!("refused {pods}"));
        exit(1);
    }
    if let Some(line) = faults.exit.get(&pods) {
        eprintln!("{line}");
        fs::write(folder.join("exited"), "").unwrap();
        journal(format!("exited {pods}"));
        exit(1);
    }
    let port = u16::try_from(config["healthzPort"].as_i64().unwrap()).unwrap();
    let listener = listen(port);
    journal(format!("started {pods}"));
    if let Some(after) = faults.die.get(&pods).copied() {
        let folder = folder.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(after));
            let mut file = OpenOptions::new().create(true).append(true).open(folder.join("journal")).unwrap();
            file.write_all(format!("died {pods}\n").as_bytes()).unwrap();
            exit(1);
        });
    }
    let answer = if faults.unhealthy.contains(&pods) {
        "HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\nContent-Length: 17\r\n\r\nnot well: hunter2"
    } else {
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
    };
    for stream in listener.incoming() {
        let Ok(mut stream) = stream else { continue };
        let mut buffer = [0; 1024];
        let _ = stream.read(&mut buffer);
        let _ = stream.write_all(answer.as_bytes());
    }
}

/// Listens on the port. Retries while the previous kubelet still holds it.
fn listen(port: u16) -> TcpListener {
    loop {
        match TcpListener::bind(("127.0.0.1", port)) {
            Ok(listener) => return listener,
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// Merges the fields of every `*.conf` of the folder over the file, in the order of names.
pub fn read(file: &Path, folder: Option<PathBuf>) -> Map<String, Value> {
    let mut config: Map<String, Value> = serde_saphyr::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let entries = folder.and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in files.into_iter().filter(|file| file.extension().is_some_and(|extension| extension == "conf")) {
        config.extend(serde_saphyr::from_str::<Map<String, Value>>(&fs::read_to_string(file).unwrap()).unwrap());
    }
    config
}
