//! Agent process of the abort tests: the real driver over the real file system. It ends on request, when idle, or by
//! aborting at a given effect.

use std::fs::{File, OpenOptions};
use std::io;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use nodecfg_agent::api::{AgentClient, AgentClientOptions};
use nodecfg_agent::disk::real::RealDisk;
use nodecfg_agent::disk::{Disk, Entry};
use nodecfg_agent::driver;
use nodecfg_agent::driver::Options;
use nodecfg_agent::host::problem::{CommandError, HealthzError, OsError, RestartProblem};
use nodecfg_agent::host::{Healthz, Host, RestartError, StateFiles};
use nodecfg_agent::placement::Activation;
use nodecfg_agent::runtime::{AgentRuntime, Paths};
use nodecfg_agent::settings::Settings;
use nodecfg_contract::KubeletVersion;
use nodecfg_contract::names::NodeName;

use crate::crash::contents::Behaviour;
use crate::crash::{contents, server};

/// Environment variable with the order of a child process.
pub const ORDER: &str = "NODECFG_CRASH_CHILD";
/// Environment variable with the folder of the child's node.
pub const FOLDER: &str = "NODECFG_CRASH_FOLDER";

/// Condition that ends a child process without an abort.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopCondition {
    /// The standard input is closed; the agent runs as a service.
    InputClosed,
    /// No work is left; the agent runs with `--once`.
    Idle,
}

/// Order for a child process.
#[derive(Debug, Clone, Copy)]
pub struct ChildOrder {
    pub stop: StopCondition,
    /// Number of the effect at which the process aborts, counted from 0.
    pub at: u64,
}

impl ChildOrder {
    pub fn encode(self, server: &str, node: &str) -> String {
        let until_input_closed = self.stop == StopCondition::InputClosed;
        serde_json::json!({"server": server, "node": node, "untilInputClosed": until_input_closed, "at": self.at})
            .to_string()
    }
}

/// The kubelet's configuration file of a node.
pub fn config(folder: &Path) -> PathBuf {
    folder.join("kubelet/config.yaml")
}

/// File with the configurations that the kubelet of a node was started on.
pub fn journal(folder: &Path) -> PathBuf {
    folder.join("test-journal")
}

/// File with the output of a node's child processes.
pub fn log(folder: &Path) -> PathBuf {
    folder.join("test-log")
}

/// Reports whether a file belongs to the test and not to the agent.
pub fn is_test_file(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("test-"))
}

/// Counts effects and aborts the process at one of them.
#[derive(Debug, Clone)]
struct AbortCounter {
    count: Arc<AtomicU64>,
    at: u64,
}

impl AbortCounter {
    /// Counts an effect. Reports whether it is the one to abort at.
    fn is_reached(&self) -> bool {
        self.count.fetch_add(1, Ordering::SeqCst) == self.at
    }

    fn count_effect(&self) {
        if self.is_reached() {
            std::process::abort();
        }
    }
}

/// File system that aborts at a given operation of those that change or sync it.
#[derive(Debug)]
struct AbortingDisk {
    disk: RealDisk,
    aborts: AbortCounter,
}

impl Disk for AbortingDisk {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
        self.disk.read(path, limit)
    }

    fn write(&self, path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
        // Aborts before the write, or after half of it.
        self.aborts.count_effect();
        if self.aborts.is_reached() {
            let _ = self.disk.write(path, &content[..content.len() / 2], mode);
            std::process::abort();
        }
        self.disk.write(path, content, mode)
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        self.aborts.count_effect();
        self.disk.sync(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.aborts.count_effect();
        self.disk.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.aborts.count_effect();
        self.disk.remove_file(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.aborts.count_effect();
        self.disk.remove_folder(path)
    }

    fn make_folder(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.aborts.count_effect();
        self.disk.make_folder(path, mode)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.disk.list(path)
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Entry>> {
        self.disk.stat(path)
    }

    fn changed_at(&self, path: &Path) -> io::Result<Option<Timestamp>> {
        self.disk.changed_at(path)
    }
}

/// Kubelet that records its starts. Aborts before a restart, after its start, or during a successful probe.
struct AbortingHost {
    folder: PathBuf,
    aborts: AbortCounter,
}

impl AbortingHost {
    /// Configuration that the kubelet was last started on.
    fn runs(&self) -> String {
        let text = std::fs::read_to_string(journal(&self.folder)).unwrap_or_default();
        text.lines().last().map_or_else(|| contents::LOCAL.to_owned(), |line| serde_json::from_str(line).unwrap())
    }
}

impl Host for AbortingHost {
    async fn version(&self) -> Option<KubeletVersion> {
        KubeletVersion::parse("v1.36.2")
    }

    async fn discard_state_files(&self) -> Result<(), RestartError> {
        Ok(())
    }

    async fn restart(&self, _state: &StateFiles) -> Result<(), RestartError> {
        let failed = |error: io::Error| {
            RestartError::Failed(RestartProblem::Restart(CommandError::NotStarted(OsError::from(&error))).into())
        };
        self.aborts.count_effect();
        let content = std::fs::read_to_string(config(&self.folder)).map_err(failed)?;
        let line = format!("{}\n", serde_json::Value::from(content.clone()));
        let file = OpenOptions::new().create(true).append(true).open(journal(&self.folder));
        file.and_then(|mut file: File| file.write_all(line.as_bytes())).map_err(failed)?;
        self.aborts.count_effect();
        match contents::behaviour(&content) {
            Behaviour::NoRestart => Err(RestartError::Failed(RestartProblem::Restart(CommandError::exited(1)).into())),
            _ => Ok(()),
        }
    }

    async fn healthz(&self, _endpoint: &Healthz) -> Result<(), HealthzError> {
        let answer = match contents::behaviour(&self.runs()) {
            Behaviour::Good => Ok(()),
            _ => Err(HealthzError::refused()),
        };
        // A failing kubelet is probed until its timeout, so the number of probes depends on the machine. Those probes
        // are not counted.
        if answer.is_ok() {
            self.aborts.count_effect();
        }
        answer
    }
}

/// Short times; a good configuration is never unhealthy here.
fn settings() -> Settings {
    Settings {
        health_timeout: Duration::from_millis(150),
        trial_period: Duration::from_millis(60),
        probe_interval: Duration::from_millis(20),
        ..Settings::default()
    }
}

/// Runs the child process of an order.
pub fn run_child(order: &str) {
    let order: serde_json::Value = serde_json::from_str(order).unwrap();
    let text = |name: &str| order[name].as_str().unwrap().to_owned();
    let stop = if order["untilInputClosed"] == true { StopCondition::InputClosed } else { StopCondition::Idle };
    let order = ChildOrder { stop, at: order["at"].as_u64().unwrap() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(run_agent(Path::new(&std::env::var(FOLDER).unwrap()), &text("server"), &text("node"), order));
}

/// Runs the agent of a node.
pub async fn run_agent(folder: &Path, server: &str, node: &str, order: ChildOrder) {
    let aborts = AbortCounter { count: Arc::default(), at: order.at };
    let agent = folder.join("agent");
    let disk = AbortingDisk { disk: RealDisk::open(&agent).unwrap(), aborts: aborts.clone() };
    let paths = Paths { folder: agent, activation: Activation::File { config: config(folder) } };
    let runtime = AgentRuntime::open(&paths, settings(), disk, order.at).unwrap();
    let host = AbortingHost { folder: folder.to_owned(), aborts };
    let name = NodeName::new(node).unwrap();
    let client = AgentClient::new(server::client(server), server, name, AgentClientOptions::default());
    match order.stop {
        StopCondition::InputClosed => {
            let input_closed = async {
                let _ = tokio::task::spawn_blocking(|| io::stdin().read_to_end(&mut Vec::new())).await;
            };
            driver::run(runtime, client, &host, Options::default(), input_closed).await.unwrap();
        }
        StopCondition::Idle => {
            let limit = Duration::from_secs(50);
            driver::once(runtime, client, &host, Options::default(), limit, limit).await.unwrap();
        }
    }
}
