//! What a child does: the real driver over the real file system, until it is told to end, or is at rest, or comes to the
//! effect at which it dies.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kubelet_config::risk::StateFile;
use nodecfg_agent::api::{AgentClient, AgentClientOptions};
use nodecfg_agent::disk::real::RealDisk;
use nodecfg_agent::disk::{Disk, Entry};
use nodecfg_agent::driver::{self, Options};
use nodecfg_agent::host::{Healthz, Host, RestartError};
use nodecfg_agent::placement::Placement;
use nodecfg_agent::runtime::{AgentRuntime, Paths};
use nodecfg_agent::state::Settings;
use nodecfg_contract::names::NodeName;
use nodecfg_contract::observed::KubeletVersion;

use crate::contents::{self, Behaviour};
use crate::server;

/// Holds the order of a child.
pub const ORDER: &str = "NODECFG_CRASH_CHILD";
/// Holds the folder of its node.
pub const FOLDER: &str = "NODECFG_CRASH_FOLDER";

/// When a child ends if nobody kills it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// When its input ends: the agent as a service.
    Told,
    /// When there is nothing left to do: the agent that is run now and then.
    Idle,
}

/// What a child is to do.
#[derive(Debug, Clone, Copy)]
pub struct Order {
    pub ending: Ending,
    /// The effect at which it dies, counted from 0.
    pub at: u64,
}

impl Order {
    pub fn encode(self, server: &str, node: &str) -> String {
        let told = self.ending == Ending::Told;
        serde_json::json!({"server": server, "node": node, "told": told, "at": self.at}).to_string()
    }
}

/// The kubelet's configuration of a node.
pub fn config(folder: &Path) -> PathBuf {
    folder.join("kubelet/config.yaml")
}

/// What the kubelet of a node was started on.
pub fn journal(folder: &Path) -> PathBuf {
    folder.join("test-journal")
}

/// What the children of a node wrote.
pub fn log(folder: &Path) -> PathBuf {
    folder.join("test-log")
}

/// Whether a file is none of the agent's.
pub fn is_of_the_test(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("test-"))
}

/// Counts effects, and ends the process at one of them.
#[derive(Debug, Clone)]
struct Reaper {
    count: Arc<AtomicU64>,
    at: u64,
}

impl Reaper {
    /// Whether this is the one.
    fn is_due(&self) -> bool {
        self.count.fetch_add(1, Ordering::SeqCst) == self.at
    }

    fn pass(&self) {
        if self.is_due() {
            std::process::abort();
        }
    }
}

/// The file system, with death at an operation that changes it.
#[derive(Debug)]
struct DeadlyDisk {
    disk: RealDisk,
    reaper: Reaper,
}

impl Disk for DeadlyDisk {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
        self.disk.read(path, limit)
    }

    fn write(&self, path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
        // Once before anything was written, once after half of it.
        self.reaper.pass();
        if self.reaper.is_due() {
            let _ = self.disk.write(path, &content[..content.len() / 2], mode);
            std::process::abort();
        }
        self.disk.write(path, content, mode)
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        self.reaper.pass();
        self.disk.sync(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.reaper.pass();
        self.disk.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.reaper.pass();
        self.disk.remove_file(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.reaper.pass();
        self.disk.remove_folder(path)
    }

    fn make_folder(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.reaper.pass();
        self.disk.make_folder(path, mode)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.disk.list(path)
    }

    fn look(&self, path: &Path) -> io::Result<Option<Entry>> {
        self.disk.look(path)
    }
}

/// A kubelet that notes what it is started on, with death before and after whatever is done to it.
struct DeadlyHost {
    folder: PathBuf,
    reaper: Reaper,
}

impl DeadlyHost {
    /// What the kubelet was started on.
    fn runs(&self) -> String {
        let text = std::fs::read_to_string(journal(&self.folder)).unwrap_or_default();
        text.lines().last().map_or_else(|| contents::LOCAL.to_owned(), |line| serde_json::from_str(line).unwrap())
    }
}

impl Host for DeadlyHost {
    async fn version(&self) -> Option<KubeletVersion> {
        KubeletVersion::parse("v1.36.2")
    }

    async fn restart(&self, _remove: &[StateFile]) -> Result<(), RestartError> {
        let failed = |error: io::Error| RestartError::Failed(error.to_string());
        self.reaper.pass();
        let content = std::fs::read_to_string(config(&self.folder)).map_err(failed)?;
        let line = format!("{}\n", serde_json::Value::from(content.clone()));
        let file = OpenOptions::new().create(true).append(true).open(journal(&self.folder));
        file.and_then(|mut file: File| file.write_all(line.as_bytes())).map_err(failed)?;
        self.reaper.pass();
        match contents::behaviour(&content) {
            Behaviour::NoRestart => Err(RestartError::Failed("exit status 1".to_owned())),
            _ => Ok(()),
        }
    }

    async fn healthz(&self, _at: &Healthz) -> Result<(), String> {
        let answer = match contents::behaviour(&self.runs()) {
            Behaviour::Good => Ok(()),
            _ => Err("connection refused".to_owned()),
        };
        // A kubelet that fails is looked at until time is over: how often depends on the machine.
        if answer.is_ok() {
            self.reaper.pass();
        }
        answer
    }
}

/// Everything that takes time is short: nothing here that is good is ever ailing.
fn settings() -> Settings {
    Settings {
        health_timeout: Duration::from_millis(150),
        trial_period: Duration::from_millis(60),
        probe_interval: Duration::from_millis(20),
        ..Settings::default()
    }
}

/// Lives a child's life.
pub fn obey(order: &str) {
    let order: serde_json::Value = serde_json::from_str(order).unwrap();
    let text = |name: &str| order[name].as_str().unwrap().to_owned();
    let ending = if order["told"] == true { Ending::Told } else { Ending::Idle };
    let order = Order { ending, at: order["at"].as_u64().unwrap() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(live(Path::new(&std::env::var(FOLDER).unwrap()), &text("server"), &text("node"), order));
}

/// Lives as the agent of a node.
pub async fn live(folder: &Path, server: &str, node: &str, order: Order) {
    let reaper = Reaper { count: Arc::default(), at: order.at };
    let agent = folder.join("agent");
    let disk = DeadlyDisk { disk: RealDisk::open(&agent).unwrap(), reaper: reaper.clone() };
    let paths = Paths { folder: agent, placement: Placement::File { config: config(folder) } };
    let runtime = AgentRuntime::open(&paths, settings(), disk, order.at).unwrap();
    let host = DeadlyHost { folder: folder.to_owned(), reaper };
    let name = NodeName::new(node).unwrap();
    let client = AgentClient::new(server::client(server), server, name, AgentClientOptions::default());
    match order.ending {
        Ending::Told => {
            let told = async {
                let _ = tokio::task::spawn_blocking(|| io::stdin().read_to_end(&mut Vec::new())).await;
            };
            driver::run(runtime, client, &host, Options::default(), told).await.unwrap();
        }
        Ending::Idle => {
            let limit = Duration::from_secs(50);
            driver::once(runtime, client, &host, Options::default(), limit, limit).await.unwrap();
        }
    }
}
