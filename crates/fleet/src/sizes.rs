//! Configurations of a pool whose reservations follow from the size of each node: one for each size.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::PoolTarget;
use crate::fields::Located;
use crate::own::Placed;
use crate::render::{Layers, Named, merge};
use crate::reserve::{Pods, Reserve};
use kubelet_config::Minor;
use kubelet_config::capacity::{Capacity, Resource};
use kubelet_config::document::{Document, Entry, Mapping, Node, Scalar, Value};
use kubelet_config::finding::Finding;
use nodecfg_contract::names::FleetName;

/// Maximum number of sizes of the nodes of a pool. Each is a ConfigMap.
pub const MAX_SIZES: usize = 20;
/// Cores and GiB of memory of typical machines, for values without a cluster.
pub const TYPICAL: [(u64, u64); 7] = [(2, 8), (4, 16), (8, 32), (16, 64), (32, 128), (64, 256), (96, 384)];
/// The typical machine whose configuration stands for all others where only one is shown.
pub const REFERENCE: (u64, u64) = (4, 16);
/// Storage of a typical machine, in GiB.
const TYPICAL_STORAGE: u64 = 100;
/// The field that the formulas set.
const FIELD: &str = "kubeReserved";

/// Capacity of a typical machine with these cores and GiB of memory.
fn machine((cores, memory): (u64, u64)) -> Capacity {
    Capacity::default()
        .with(Resource::Cpu, cores * 1000)
        .with(Resource::Memory, memory << 30)
        .with(Resource::EphemeralStorage, TYPICAL_STORAGE << 30)
}

/// Capacities of typical machines.
pub fn typical_sizes() -> impl Iterator<Item = Capacity> {
    TYPICAL.into_iter().map(machine)
}

/// Configurations of a pool by the size of its nodes.
pub struct Sizes {
    /// The formulas, as `pool.yaml` has them.
    pub reserve: Located<Reserve>,
    /// The number of pods that the formulas count.
    pub pods: Pods,
    layers: Layers,
    named: Named,
    /// Steps of the resources on which the amounts depend.
    steps: Capacity,
    /// The configuration of the typical machine.
    reference: Arc<PoolTarget>,
    /// Configurations that were rendered already. `None`: its patches do not fit the size.
    known: Mutex<BTreeMap<Capacity, Option<Arc<PoolTarget>>>>,
}

impl fmt::Debug for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sizes")
            .field("reserve", &self.reserve)
            .field("reference", &self.reference)
            .finish_non_exhaustive()
    }
}

impl Sizes {
    /// Merges the files of a pool for the typical machine. `placed` has the own configuration of the nodes. Returns `None` if
    /// the files do not merge; errors are findings.
    pub(crate) fn new(
        layers: Layers,
        reserve: &Located<Reserve>,
        named: Named,
        (minors, placed): (&[Minor], Placed<'_>),
        findings: &mut Vec<Finding>,
    ) -> Option<(Self, Document)> {
        let unset = Pods::DEFAULT;
        let size = |pods| machine(REFERENCE).rounded_up(reserve.value.steps(pods)).unwrap_or_default();
        // The nodes' own configuration counts where every kubelet merges.
        let merging = minors.iter().filter(|minor| placed.overlays(**minor)).count();
        let own = placed.own.filter(|_| merging == minors.len());
        let merged =
            |size, pods, findings: &mut Vec<Finding>| merge(&layers, Some(&overlay(reserve, size, pods)), findings);
        // The number of pods does not depend on the reservations.
        let first = merged(size(unset), unset, &mut Vec::new());
        let number = |field: &str| {
            let documents = first.iter().chain(own);
            let mut values = documents.filter_map(|document| document.root.get(field)?.to_json().as_u64());
            values.next().and_then(|number| u32::try_from(number).ok())
        };
        let pods = Pods {
            most: number("maxPods").filter(|most| *most > 0).unwrap_or(unset.most),
            per_core: number("podsPerCore").unwrap_or(0),
        };
        let steps = reserve.value.steps(pods);
        let document = merged(size(pods), pods, findings)?;
        for size in typical_sizes().filter_map(|machine| machine.rounded_up(steps)) {
            let mut problems = Vec::new();
            if merged(size, pods, &mut problems).is_none() {
                problems
                    .iter_mut()
                    .for_each(|problem| problem.message = format!("nodes of {size}: {}", problem.message));
                findings.extend(problems);
                return None;
            }
        }
        findings.extend(conflicts(&layers, reserve, &document));
        // Without a file of it, the nodes' own configuration may have another number.
        let is_certain = own.is_some() || merging == 0;
        findings.extend(default_pods(reserve, pods).filter(|_| number("maxPods").is_none() && !is_certain));
        let sizes = Self {
            reserve: reserve.clone(),
            pods,
            steps,
            reference: Arc::new(PoolTarget::Config(Box::new(named.rendered(document.clone())))),
            layers,
            named,
            known: Mutex::default(),
        };
        findings.push(sizes.values());
        Some((sizes, document))
    }

    /// Note with the amounts of typical machines.
    fn values(&self) -> Finding {
        let machine = |capacity: Capacity| {
            let size = capacity.rounded_up(self.steps).unwrap_or_default();
            let amounts = self.amounts(size).map(|(resource, amount)| format!("{} {amount}", resource.as_str()));
            let amounts = amounts.collect::<Vec<_>>().join(", ");
            // Amounts that depend on no capacity are those of every machine.
            if size == Capacity::default() { amounts } else { format!("{size}: {amounts}") }
        };
        let mut machines: Vec<String> = typical_sizes().map(machine).collect();
        machines.dedup();
        let message =
            format!("kubeReserved of typical machines, computed as {}: {}", self.reserve.value, machines.join("; "));
        let finding = Finding::note("reserve-computed", message).at(self.reserve.place.clone());
        finding
            .help("compare with the machines of the pool; `nodecfg diff` with a cluster shows the values of its nodes")
    }

    /// Steps to which capacities are rounded, without the resources on which no amount depends.
    #[must_use]
    pub fn steps(&self) -> Capacity {
        self.steps
    }

    /// Resources on which an amount depends, and which this capacity lacks.
    pub fn missing(&self, capacity: Capacity) -> impl Iterator<Item = Resource> {
        let steps = self.steps;
        Resource::ALL.into_iter().filter(move |of| steps.of(*of).is_some() && capacity.of(*of).is_none())
    }

    /// The configuration of a typical machine.
    #[must_use]
    pub fn reference(&self) -> &Arc<PoolTarget> {
        &self.reference
    }

    /// Size and configuration of a node with this capacity. `None` if the node reports no capacity on which an amount
    /// depends, or if a patch does not fit its size.
    #[must_use]
    pub fn of(&self, capacity: Capacity) -> Option<(Capacity, Arc<PoolTarget>)> {
        let size = capacity.rounded_up(self.steps)?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let target = known.entry(size).or_insert_with(|| {
            let reserved = overlay(&self.reserve, size, self.pods);
            let document = merge(&self.layers, Some(&reserved), &mut Vec::new())?;
            Some(Arc::new(PoolTarget::Config(Box::new(self.named.rendered(document)))))
        });
        Some((size, Arc::clone(target.as_ref()?)))
    }

    /// Paths of the fields that the formulas set.
    pub fn computed_fields(&self) -> impl Iterator<Item = String> {
        self.reserve.value.reserved().formulas().map(|(resource, _)| reserved_field(resource))
    }

    /// The reserved amounts of a size.
    pub fn amounts(&self, size: Capacity) -> impl Iterator<Item = (Resource, String)> {
        self.reserve.value.reserved().amounts(size, self.pods)
    }

    /// Reports whether nodes of each size run the same configuration by both: the formulas are the same, and so are the
    /// configurations of typical machines, which patches may change.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let formulas = |sizes: &Self| (sizes.steps, sizes.pods, sizes.reserve.value.to_string());
        let hash = |sizes: &Self, machine| sizes.of(machine).and_then(|(_, target)| target.hash());
        formulas(self) == formulas(other) && typical_sizes().all(|machine| hash(self, machine) == hash(other, machine))
    }

    /// The same configurations in a fleet of another name.
    #[must_use]
    pub fn in_fleet(&self, fleet: &FleetName) -> Self {
        let named = Named { fleet: fleet.clone(), ..self.named.clone() };
        Self {
            reserve: self.reserve.clone(),
            layers: self.layers.clone(),
            reference: Arc::new(self.reference.in_fleet(fleet, &named.pool)),
            named,
            known: Mutex::default(),
            ..*self
        }
    }
}

/// Path of the field with the reservation of a resource.
#[must_use]
pub fn reserved_field(resource: Resource) -> String {
    format!("{FIELD}.{}", resource.as_str())
}

/// The reservations of a size, to be merged over the files of a pool. They have the place of the formulas.
fn overlay(reserve: &Located<Reserve>, size: Capacity, pods: Pods) -> Node {
    let entry = |(key, value): (&str, Value)| {
        let value = Node { value, place: reserve.place.clone() };
        (key.to_owned(), Entry { key_place: reserve.place.clone(), value, earlier: Vec::new() })
    };
    let amounts = reserve.value.reserved().amounts(size, pods);
    let amounts = amounts.map(|(resource, amount)| entry((resource.as_str(), Value::Scalar(Scalar::quoted(&amount)))));
    let fields = Mapping::from([entry((FIELD, Value::Mapping(amounts.collect())))]);
    Node { value: Value::Mapping(fields), place: reserve.place.clone() }
}

/// Findings about values that contradict the formulas.
fn conflicts(layers: &Layers, reserve: &Located<Reserve>, document: &Document) -> Vec<Finding> {
    let mut findings = Vec::new();
    let root = &document.root;
    for (resource, _) in reserve.value.reserved().formulas() {
        let path = reserved_field(resource);
        let fixed = layers.files.iter().filter_map(|file| file.root.at(&path)).find(|value| !value.is_null());
        if let Some(fixed) = fixed {
            let message =
                format!("`{path}` is fixed here, and spec.kubelet.reserve computes it from the size of each node");
            let finding = Finding::error("reserve-conflict", message).at(fixed.place.clone()).field(path.as_str());
            findings.push(finding.related(reserve.place.clone(), "computed here").help("remove it"));
        }
        let without_effect = match resource {
            Resource::Cpu => {
                root.get("reservedSystemCPUs").filter(|value| value.text().is_some_and(|text| !text.is_empty()))
            }
            Resource::EphemeralStorage => root
                .get("localStorageCapacityIsolation")
                .filter(|value| value.to_json() == serde_json::Value::Bool(false)),
            Resource::Memory => None,
        };
        let field = if resource == Resource::Cpu { "reservedSystemCPUs" } else { "localStorageCapacityIsolation" };
        if let Some(value) = without_effect {
            let message =
                format!("with `{field}`, the kubelet ignores the `{path}` that spec.kubelet.reserve computes");
            let finding = Finding::error("reserve-conflict", message).at(value.place.clone()).field(field);
            let help = format!("remove it, or {} from spec.kubelet.reserve", resource.as_str());
            findings.push(finding.related(reserve.place.clone(), "computed here").help(help));
        }
        let last = root.at(&path).filter(|value| value.place != reserve.place);
        if let Some(patched) = last.filter(|_| fixed.is_none()) {
            let message = format!("a patch sets `{path}`, so that all sizes have the same value");
            let finding = Finding::warning("reserve-patched", message).at(patched.place.clone()).field(path.as_str());
            findings.push(finding.related(reserve.place.clone(), "computed here").help("remove it"));
        }
        let is_static = root.get("memoryManagerPolicy").and_then(Node::text) == Some("Static");
        let reserved = root.get("reservedMemory").filter(|_| resource == Resource::Memory && is_static);
        if let Some(value) = reserved {
            let message = "`reservedMemory` must equal the sum of kubeReserved, systemReserved and evictionHard, which \
                           follows from the size of each node";
            let finding = Finding::error("reserve-conflict", message).at(value.place.clone()).field("reservedMemory");
            let help = "make a pool for each size of machines, with a fixed kubeReserved";
            findings.push(finding.related(reserve.place.clone(), "computed here").help(help));
        }
    }
    if let Some(enforced) = root.get("enforceNodeAllocatable") {
        let entries: Vec<&str> = enforced.sequence().into_iter().flatten().filter_map(Node::text).collect();
        if !entries.contains(&"pods") {
            let message = "without pods in `enforceNodeAllocatable`, pods may use what spec.kubelet.reserve reserves";
            let finding = Finding::warning("reserve-pods-unlimited", message).at(enforced.place.clone());
            findings.push(finding.field("enforceNodeAllocatable").help("remove it"));
        }
    }
    findings
}

/// Warns that a formula counts the default number of pods. `None` if no formula counts pods.
fn default_pods(reserve: &Located<Reserve>, pods: Pods) -> Option<Finding> {
    let (_, formula) = reserve.value.reserved().formulas().find(|(_, formula)| formula.per_pod.is_some())?;
    let message =
        format!("`{formula}` counts {} pods, the default of kubelets: the configuration has no maxPods", pods.most);
    let finding = Finding::warning("reserve-default-pods", message).at(reserve.place.clone());
    Some(finding.help("set maxPods in kubelet.yaml to the number of pods that the nodes allow"))
}

#[cfg(test)]
#[path = "sizes_tests.rs"]
mod tests;
