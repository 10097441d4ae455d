//! Description of the workloads of a sandbox at its start.

use nodecfg_contract::names::NodeName;

use super::fault::{PodFault, PodFaultSpec};

/// Pods of an application of [`WorkloadSpec::filling`].
const REPLICAS: usize = 10;
/// Maximum number of pods of a node, as kubelets report it by default (`maxPods`).
pub const MAX_PODS: u8 = 110;
/// Applications in a namespace of [`WorkloadSpec::filling`].
const APPLICATIONS: usize = 10;

/// Workloads of a sandbox.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkloadSpec {
    /// ReplicaSets, whose pods are spread over the nodes.
    pub applications: Vec<Application>,
    /// DaemonSets, with a pod on each node.
    pub daemon_sets: Vec<DaemonSet>,
    /// Additional pods of nodes.
    pub faults: Vec<PodFaultSpec>,
}

/// A ReplicaSet.
#[derive(Debug, Clone, PartialEq)]
pub struct Application {
    /// Namespace, which is created if missing.
    pub namespace: String,
    /// Name of the ReplicaSet and its budget, and value of the label `app` of its pods.
    pub name: String,
    /// Number of pods.
    pub replicas: usize,
    /// Its PodDisruptionBudget.
    pub budget: Option<Budget>,
}

/// Limit of a PodDisruptionBudget, as a number or a percentage such as `25%`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Budget {
    /// Pods that must stay available.
    MinAvailable(String),
    /// Pods that may be unavailable.
    MaxUnavailable(String),
}

/// A DaemonSet in the namespace `kube-system`.
#[derive(Debug, Clone, PartialEq)]
pub struct DaemonSet {
    /// Name of the DaemonSet, and value of the label `app` of its pods.
    pub name: String,
    /// Tolerates every taint, as system components do. Otherwise a deleted pod does not return to a tainted node.
    pub tolerates_all: bool,
    /// Has exclusive CPUs under the static policy of the CPU manager.
    pub exclusive_cpus: bool,
}

impl Application {
    /// An application without a budget.
    #[must_use]
    pub fn new(namespace: &str, name: &str, replicas: usize) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned(), replicas, budget: None }
    }

    /// Adds a budget.
    #[must_use]
    pub fn with_budget(mut self, budget: Budget) -> Self {
        self.budget = Some(budget);
        self
    }
}

impl WorkloadSpec {
    /// Workloads with `pods` pods for each of `nodes` nodes: two DaemonSets, and applications of 10 pods, of which
    /// budgets allow a quarter to be unavailable.
    #[must_use]
    pub fn filling(nodes: usize, pods: usize) -> Self {
        let daemon =
            |name: &str, tolerates_all| DaemonSet { name: name.to_owned(), tolerates_all, exclusive_cpus: false };
        let daemon_sets: Vec<DaemonSet> =
            [daemon("kube-proxy", true), daemon("node-exporter", false)].into_iter().take(pods).collect();
        let total = nodes * (pods - daemon_sets.len());
        let applications = (0..total.div_ceil(REPLICAS)).map(|index| {
            let namespace = format!("team-{:03}", index / APPLICATIONS + 1);
            let replicas = REPLICAS.min(total - index * REPLICAS);
            let budget = Budget::MaxUnavailable("25%".to_owned());
            Application::new(&namespace, &format!("app-{:04}", index + 1), replicas).with_budget(budget)
        });
        Self { applications: applications.collect(), daemon_sets, faults: Vec::new() }
    }

    /// Adds a pod to a node.
    #[must_use]
    pub fn with_fault(mut self, node: &NodeName, fault: PodFault) -> Self {
        self.faults.push(PodFaultSpec { node: node.clone(), fault });
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filling_has_the_wanted_number_of_pods() {
        for (nodes, pods) in [(3, 0), (3, 1), (3, 2), (7, 9), (1000, 30)] {
            let spec = WorkloadSpec::filling(nodes, pods);
            let of_applications: usize = spec.applications.iter().map(|application| application.replicas).sum();
            assert_eq!(of_applications + nodes * spec.daemon_sets.len(), nodes * pods);
        }
    }
}
