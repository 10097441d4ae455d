//! What scenarios are made of: a cluster, a repository, and runs of the binary.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Once;
use std::time::Duration;

use nodecfg_contract::names::NodeName;
use nodecfg_sandbox::kubelets::{Fault, FaultSpec};
use nodecfg_sandbox::nodes::NodeSpec;

mod cluster;
mod command;
mod control_plane;
mod history;
mod repository;
mod sandboxed;

pub use cluster::{Cluster, NodeRecord};
pub use command::{Run, Running};
pub use repository::{KUBELET, Repository};

/// How long a condition is waited for, on a busy machine, before the test fails.
const PATIENCE: Duration = Duration::from_secs(180);
/// How long a whole scenario may take.
const LIMIT: Duration = Duration::from_secs(600);
/// How much faster than real the kubelets are: a transition takes about a tenth of a second.
const SPEED: f64 = 150.0;
/// The folder with a real control plane.
const ASSETS: &str = "KUBEBUILDER_ASSETS";

/// What a scenario needs of its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: it tells the same story wherever the assignments are.
    Anything,
    /// Powers that only the sandbox has, such as faults on the wire; whichever the binding.
    Sandbox,
    /// Kubelets that follow their Nodes.
    Kubelets,
    /// An API server that drops `configSource`, and nothing installed that would do without.
    Dropping,
}

/// Declares scenarios, by what they need, as tests against each kind of cluster that has it. Those that need `Agents` run
/// against a sandbox of node agents and nothing else.
macro_rules! scenarios {
    ($($needs:ident { $($(#[$attribute:meta])* $name:ident),* $(,)? })*) => {
        mod sandbox {
            $($( scenario!(sandbox $needs $(#[$attribute])* $name); )*)*
        }
        mod agents {
            $($( scenario!(agents $needs $(#[$attribute])* $name); )*)*
        }
        mod real {
            $($( scenario!(real $needs $(#[$attribute])* $name); )*)*
        }
    };
}

/// One scenario against one kind of cluster, or nothing where it makes no sense.
macro_rules! scenario {
    (sandbox Agents $($rest:tt)*) => {};
    (agents Kubelets $($rest:tt)*) => {};
    (agents Dropping $($rest:tt)*) => {};
    (real Agents $($rest:tt)*) => {};
    (sandbox $needs:ident $(#[$attribute:meta])* $name:ident) => {
        $(#[$attribute])*
        #[test]
        fn $name() {
            $crate::harness::on_sandbox($crate::harness::Needs::$needs, super::$name);
        }
    };
    (agents $needs:ident $(#[$attribute:meta])* $name:ident) => {
        $(#[$attribute])*
        #[test]
        fn $name() {
            $crate::harness::on_agents(super::$name);
        }
    };
    (real $needs:ident $(#[$attribute:meta])* $name:ident) => {
        $(#[$attribute])*
        #[test]
        fn $name() {
            let name = concat!(module_path!(), "::", stringify!($name));
            $crate::harness::on_real(name, $crate::harness::Needs::$needs, super::$name);
        }
    };
}

/// Runs a scenario against a sandbox of kubelets that follow their Nodes, or one that drops the assignments.
pub fn on_sandbox<F: Future<Output = ()>>(needs: Needs, scenario: impl FnOnce(Start) -> F) {
    let host = if needs == Needs::Dropping { Host::Dropping } else { Host::Kubelets };
    block_on(scenario(Start::new(host)));
}

/// Runs a scenario against a sandbox of node agents.
pub fn on_agents<F: Future<Output = ()>>(scenario: impl FnOnce(Start) -> F) {
    block_on(scenario(Start::new(Host::Agents)));
}

/// Runs a scenario against a real API server, where there is one and it fits; otherwise says why not.
pub fn on_real<F: Future<Output = ()>>(name: &str, needs: Needs, scenario: impl FnOnce(Start) -> F) {
    static UNSET: Once = Once::new();
    let Some(assets) = std::env::var_os(ASSETS).filter(|folder| !folder.is_empty()).map(PathBuf::from) else {
        return UNSET.call_once(|| say(&format!("skipped: {ASSETS} is not set")));
    };
    let keeps = control_plane::keeps_config_source(&assets);
    let reason = match needs {
        Needs::Sandbox => "it needs powers that only the sandbox has",
        Needs::Anything | Needs::Kubelets if !keeps => "this API server drops configSource",
        Needs::Dropping if keeps => "this API server keeps configSource",
        _ => {
            return block_on(scenario(Start::new(Host::Real(assets))));
        }
    };
    say(&format!("skipped {name}: {reason}"));
}

/// Writes a line that is seen even when the test passes: print macros are captured, the stream itself is not.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn block_on(scenario: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(LIMIT, scenario).await.expect("the scenario takes too long") });
}

/// Waits until a condition holds.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    until_within(PATIENCE, what, &mut holds).await;
}

async fn until_within(patience: Duration, what: &str, holds: &mut impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + patience;
    while !holds().await {
        assert!(tokio::time::Instant::now() < deadline, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Where a scenario runs.
enum Host {
    /// A sandbox of character 1.21.
    Kubelets,
    /// A sandbox of character 1.36, with everything installed.
    Agents,
    /// A sandbox of character 1.36, with nothing installed.
    Dropping,
    /// A real API server, with the sandbox's kubelets.
    Real(PathBuf),
}

/// A cluster that is about to be.
pub struct Start {
    host: Host,
    nodes: Vec<NodeSpec>,
    faults: Vec<FaultSpec>,
    later: Vec<(String, Fault)>,
    large: bool,
}

impl Start {
    fn new(host: Host) -> Self {
        Self { host, nodes: Vec::new(), faults: Vec::new(), later: Vec::new(), large: false }
    }

    fn version(&self) -> &'static str {
        match &self.host {
            Host::Agents | Host::Dropping => "v1.36.2",
            Host::Kubelets | Host::Real(_) => "v1.21.14",
        }
    }

    /// The resource that carries the assignments.
    pub fn carriers(&self) -> &'static str {
        if matches!(self.host, Host::Agents) { "nodeconfigs" } else { "nodes" }
    }

    /// Nodes `<pool>-1`, `<pool>-2`, …, labelled as the pool's.
    pub fn pool(mut self, pool: &str, count: usize) -> Self {
        for number in 1..=count {
            self = self.node(&format!("{pool}-{number}"), &[("nodecfg.dev/pool", pool)]);
        }
        self
    }

    /// One node with these labels.
    pub fn node(self, name: &str, labels: &[(&str, &str)]) -> Self {
        let version = self.version();
        self.node_of_version(name, labels, version)
    }

    /// One node whose kubelet has this version.
    pub fn node_of_version(mut self, name: &str, labels: &[(&str, &str)], version: &str) -> Self {
        let labels: BTreeMap<String, String> =
            labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        self.nodes.push(NodeSpec::new(NodeName::new(name).unwrap(), labels, version));
        self
    }

    /// Hundreds of nodes: where each has an agent and a kubelet that it watches, their time passes more slowly.
    pub fn large(self) -> Self {
        Self { large: true, ..self }
    }

    /// What goes wrong on a node from the start.
    pub fn fault(mut self, node: &str, fault: Fault) -> Self {
        self.faults.push(FaultSpec { node: Some(NodeName::new(node).unwrap()), fault });
        self
    }

    /// What goes wrong on a node that has started well: one that stops to acknowledge looks like any other beforehand.
    pub fn later(mut self, node: &str, fault: Fault) -> Self {
        self.later.push((node.to_owned(), fault));
        self
    }

    /// Starts it.
    pub async fn up(self) -> Cluster {
        Cluster::start(self).await
    }
}
