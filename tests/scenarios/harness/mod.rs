//! Test harness of the scenarios: clusters, repositories, and runs of the binary.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Once;
use std::time::Duration;

use kubelet_config::capacity::Capacity;
use nodecfg_contract::names::{FleetName, NodeName};
use nodecfg_sandbox::kubelets::{Fault, FaultSpec, HostSpec};
use nodecfg_sandbox::nodes::NodeSpec;
use nodecfg_sandbox::workloads::WorkloadSpec;

mod cluster;
mod command;
mod control_plane;
mod history;
mod real_objects;
mod real_servers;
mod repository;
mod sandbox_server;

use real_servers::ASSETS;

pub use cluster::{Cluster, DRAIN_REASON, NODE_LEASES, NodeRecord};
pub use command::{Run, Running};
pub use repository::{AFTER, BEFORE, KUBELET, Repository};

/// Time limit for a condition, sized for a busy machine.
const CONDITION_LIMIT: Duration = Duration::from_secs(180);
/// Time limit for a scenario.
const LIMIT: Duration = Duration::from_secs(600);
/// Speed of the kubelets, where 1 is real time. A transition takes about 0.1 s.
const SPEED: f64 = 150.0;

/// Requirements of a scenario on its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// No requirements; the result is the same for Nodes and NodeConfigs.
    Anything,
    /// The sandbox, for example for injected request faults, with either binding.
    Sandbox,
    /// Kubelets that follow their Nodes.
    Kubelets,
    /// An API server that drops `configSource`, without installed NodeConfigs.
    Dropping,
    /// Nodes with agents.
    Agents,
    /// Pods, with the components of a cluster that start, move and end them.
    Workloads,
}

/// Declares scenarios by their requirements, as one test for each suitable kind of cluster. Scenarios with `Agents`
/// need node agents. A real API server has kubelets or agents, depending on its version.
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

/// Declares one scenario for one kind of cluster, or nothing if unsuitable.
macro_rules! scenario {
    (sandbox Agents $($rest:tt)*) => {};
    // Agents of the sandbox alone.
    (sandbox SandboxAgents $($rest:tt)*) => {};
    (real SandboxAgents $($rest:tt)*) => {};
    (agents Kubelets $($rest:tt)*) => {};
    (agents Dropping $($rest:tt)*) => {};
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

/// Runs a scenario against a sandbox whose kubelets follow their Nodes, or one that drops assignments.
pub fn on_sandbox<F: Future<Output = ()>>(needs: Needs, scenario: impl FnOnce(ClusterSetup) -> F) {
    let kind = if needs == Needs::Dropping { ClusterKind::Dropping } else { ClusterKind::Kubelets };
    block_on(scenario(ClusterSetup::new(kind)));
}

/// Runs a scenario against a sandbox with node agents.
pub fn on_agents<F: Future<Output = ()>>(scenario: impl FnOnce(ClusterSetup) -> F) {
    block_on(scenario(ClusterSetup::new(ClusterKind::Agents)));
}

/// Runs a scenario against a real API server if a suitable one exists; otherwise prints why the scenario is skipped.
pub fn on_real<F: Future<Output = ()>>(name: &str, needs: Needs, scenario: impl FnOnce(ClusterSetup) -> F) {
    static UNSET: Once = Once::new();
    let Some(assets) = std::env::var_os(ASSETS).filter(|folder| !folder.is_empty()).map(PathBuf::from) else {
        return UNSET.call_once(|| print_line(&format!("skipped: {ASSETS} is not set")));
    };
    let minor = real_servers::minor(&assets);
    let keeps = control_plane::keeps_config_source(minor);
    let reason = match needs {
        Needs::Sandbox => "it needs features of the sandbox",
        Needs::Kubelets if !keeps => "this API server drops configSource",
        Needs::Agents if keeps => "agents need an API server that drops configSource",
        Needs::Dropping if keeps => "this API server keeps configSource",
        Needs::Workloads if minor < 22 => "this API server has no evictions of policy/v1",
        // Agents need the ValidatingAdmissionPolicies of `nodecfg install`.
        Needs::Anything | Needs::Agents | Needs::Workloads if (26..30).contains(&minor) => {
            "this API server has no admission policies"
        }
        _ => {
            let agents = !keeps && needs != Needs::Dropping;
            return block_on(scenario(ClusterSetup::new(ClusterKind::Real { assets, agents })));
        }
    };
    print_line(&format!("skipped {name}: {reason}"));
}

/// Seeds of a campaign: `PROPTEST_CASES` seeds from `PROPTEST_RNG_SEED`, by default the number of the test.
pub fn seeds(default: u64) -> Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("PROPTEST_RNG_SEED").unwrap_or(0);
    first..first + number("PROPTEST_CASES").unwrap_or(default)
}

/// Writes a line that is visible even if the test passes: the test runner captures print macros, but not the stream.
pub fn print_line(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn block_on(scenario: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(LIMIT, scenario).await.expect("the scenario takes too long") });
}

/// Waits until a condition holds.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    until_within(CONDITION_LIMIT, what, &mut holds).await;
}

async fn until_within(limit: Duration, what: &str, holds: &mut impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + limit;
    while !holds().await {
        assert!(tokio::time::Instant::now() < deadline, "timed out waiting until {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Kind of cluster.
enum ClusterKind {
    /// A 1.21 sandbox.
    Kubelets,
    /// A 1.36 sandbox with `nodecfg install` applied.
    Agents,
    /// A 1.36 sandbox without installed objects.
    Dropping,
    /// A real API server, with the sandbox's kubelets, or with the objects of `nodecfg install` and node agents.
    Real { assets: PathBuf, agents: bool },
}

/// Builder of a scenario's cluster.
pub struct ClusterSetup {
    kind: ClusterKind,
    nodes: Vec<NodeSpec>,
    faults: Vec<FaultSpec>,
    later: Vec<(String, Fault)>,
    large: bool,
    kubeadm: bool,
    drop_ins: bool,
    workloads: Option<WorkloadSpec>,
    joins: Option<FleetName>,
}

impl ClusterSetup {
    fn new(kind: ClusterKind) -> Self {
        Self {
            kind,
            nodes: Vec::new(),
            faults: Vec::new(),
            later: Vec::new(),
            large: false,
            kubeadm: false,
            drop_ins: false,
            workloads: None,
            joins: None,
        }
    }

    fn version(&self) -> &'static str {
        match &self.kind {
            ClusterKind::Agents | ClusterKind::Dropping | ClusterKind::Real { agents: true, .. } => "v1.36.2",
            ClusterKind::Kubelets | ClusterKind::Real { .. } => "v1.21.14",
        }
    }

    /// Resource that holds the assignments.
    pub fn assignment_resource(&self) -> &'static str {
        let agents = matches!(self.kind, ClusterKind::Agents | ClusterKind::Real { agents: true, .. });
        if agents { "nodeconfigs" } else { "nodes" }
    }

    /// Adds the nodes `<pool>-1`, `<pool>-2`, … with the pool's label.
    pub fn pool(mut self, pool: &str, count: usize) -> Self {
        for number in 1..=count {
            self = self.node(&format!("{pool}-{number}"), &[("nodecfg.dev/pool", pool)]);
        }
        self
    }

    /// Adds a node with these labels.
    pub fn node(self, name: &str, labels: &[(&str, &str)]) -> Self {
        let version = self.version();
        self.node_of_version(name, labels, version)
    }

    /// Adds a node with this kubelet version.
    pub fn node_of_version(mut self, name: &str, labels: &[(&str, &str)], version: &str) -> Self {
        let labels: BTreeMap<String, String> =
            labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        // Without other fields, the agent of the node compares only those of the test's repository.
        let file = (!self.kubeadm).then(|| KUBELET.to_owned());
        let host = HostSpec { file, writes_drop_in: self.drop_ins, ..HostSpec::default() };
        self.nodes.push(NodeSpec { host, ..NodeSpec::new(NodeName::new(name).unwrap(), labels, version) });
        self
    }

    /// Adds a node of pool `a` with this capacity.
    pub fn machine(mut self, name: &str, cpu: &str, memory: &str) -> Self {
        self = self.node(name, &[("nodecfg.dev/pool", "a")]);
        let added = self.nodes.last_mut().unwrap();
        added.capacity = Capacity::parse(Some(cpu), Some(memory), Some("100Gi"));
        self
    }

    /// Provisions the nodes added from now on as kubeadm does. A change of a field of kubeadm may need a drained node.
    pub fn kubeadm(self) -> Self {
        Self { kubeadm: true, ..self }
    }

    /// Lets the agents of the nodes added from now on write drop-ins.
    pub fn drop_ins(self) -> Self {
        Self { drop_ins: true, ..self }
    }

    /// Slows simulated time for hundreds of nodes with agents.
    pub fn large(self) -> Self {
        Self { large: true, ..self }
    }

    /// Runs pods on the nodes.
    pub fn workloads(self, workloads: WorkloadSpec) -> Self {
        Self { workloads: Some(workloads), ..self }
    }

    /// Lets agents of new nodes join this fleet. Only in the sandbox.
    pub fn joining(self, fleet: &str) -> Self {
        Self { joins: Some(FleetName::new(fleet).unwrap()), ..self }
    }

    /// Sets the initial fault of a node.
    pub fn fault(mut self, node: &str, fault: Fault) -> Self {
        self.faults.push(FaultSpec { node: Some(NodeName::new(node).unwrap()), fault });
        self
    }

    /// Sets a fault that begins after the node's start. A node that stops acknowledging looks healthy before.
    pub fn later(mut self, node: &str, fault: Fault) -> Self {
        self.later.push((node.to_owned(), fault));
        self
    }

    /// Starts the cluster.
    pub async fn up(self) -> Cluster {
        Cluster::start(self).await
    }
}
