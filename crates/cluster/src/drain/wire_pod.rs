//! Decoding of pods and PodDisruptionBudgets. A pod with an unreadable field counts as a pod that a drain must not end
//! without permission: nothing recreates it, and its data is lost. So no value of a pod makes a node look empty, or
//! makes the list of a whole cluster unreadable.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::reading::salvage::{Damage, Fields};
use kubelet_config::values::quantity::Quantity;
use nodecfg_contract::label_selector::LabelSelector;
use nodecfg_contract::names::NodeName;
use nodecfg_observed::drain::{DRAIN_TAINT, DRAIN_TAINT_EFFECT, DRAIN_TAINT_VALUE};
use nodecfg_observed::pods::Controller;
use nodecfg_observed::{Pod, PodBudget, Rejection};

/// Reads a pod from JSON. `None` for a pod without a node.
///
/// # Errors
/// The JSON is no object with namespace, name, uid and a readable node.
pub(crate) fn read_pod(item: &[u8]) -> serde_json::Result<Option<Pod>> {
    match serde_json::from_slice::<Parts>(item) {
        Ok(parts) => Ok(parts.into_pod(false)),
        Err(_) => Ok(Parts::salvage(item)?.into_pod(true)),
    }
}

/// The parts of a pod that are read.
#[derive(Debug, Deserialize)]
struct Parts {
    metadata: Meta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    namespace: String,
    name: String,
    uid: String,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    annotations: Annotations,
    #[serde(default)]
    owner_references: Option<Vec<Owner>>,
    #[serde(default)]
    deletion_timestamp: Option<IgnoredAny>,
}

/// Other annotations may be long.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Annotations {
    #[serde(rename = "kubernetes.io/config.mirror")]
    mirror: Option<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Owner {
    kind: String,
    name: String,
    controller: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    node_name: Option<String>,
    priority: Option<i32>,
    tolerations: Option<Vec<Toleration>>,
    volumes: Option<Vec<Volume>>,
    containers: Option<Vec<Container>>,
    init_containers: Option<Vec<Container>>,
}

/// core/v1 Toleration.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Toleration {
    key: Option<String>,
    operator: Option<String>,
    value: Option<String>,
    effect: Option<String>,
}

impl Toleration {
    /// Reports whether the scheduler tolerates the taint of a drain (core/v1 `Toleration.ToleratesTaint`).
    fn covers_drain(&self) -> bool {
        let is =
            |text: &Option<String>, wanted: &str| text.as_deref().is_none_or(|text| text.is_empty() || text == wanted);
        let value = match self.operator.as_deref() {
            Some("Exists") => true,
            None | Some("" | "Equal") => self.value.as_deref() == Some(DRAIN_TAINT_VALUE),
            Some(_) => false,
        };
        // Without a key, only Exists is valid, and covers every key.
        is(&self.key, DRAIN_TAINT) && is(&self.effect, DRAIN_TAINT_EFFECT) && value
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Volume {
    empty_dir: Option<IgnoredAny>,
    persistent_volume_claim: Option<IgnoredAny>,
    /// Volume with a claim of its own.
    ephemeral: Option<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Container {
    resources: Resources,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Resources {
    requests: Option<Requests>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Requests {
    cpu: Option<String>,
}

impl Container {
    /// Reports whether the container requests whole CPUs, as the static policy of the CPU manager requires
    /// (kubernetes, `pkg/kubelet/cm/cpumanager/policy_static.go`: `guaranteedCPUs`).
    fn requests_whole_cpus(&self) -> bool {
        let cpu = self.resources.requests.as_ref().and_then(|requests| requests.cpu.as_deref());
        let thousandths = cpu.and_then(|text| Quantity::parse(text).ok()).map_or(0, Quantity::rounded_up_thousandths);
        thousandths > 0 && thousandths % 1000 == 0
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: Option<String>,
    reason: Option<String>,
    message: Option<String>,
    qos_class: Option<String>,
    conditions: Option<Vec<Condition>>,
}

/// core/v1 PodCondition.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl Parts {
    /// Reads each field on its own. An unreadable one counts as unset, except identity and node.
    fn salvage(item: &[u8]) -> serde_json::Result<Self> {
        #[derive(Deserialize)]
        struct Identity {
            metadata: Names,
            #[serde(default)]
            spec: Placement,
        }
        #[derive(Deserialize)]
        struct Names {
            namespace: String,
            name: String,
            uid: String,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Placement {
            node_name: Option<String>,
        }
        let Identity { metadata: Names { namespace, name, uid }, spec: Placement { node_name } } =
            serde_json::from_slice(item)?;
        let mut damage = Damage::default();
        let object: Fields<'_> = serde_json::from_slice(item)?;
        let metadata: Fields<'_> = damage.take(&object, "", "metadata");
        let spec: Fields<'_> = damage.take(&object, "", "spec");
        let status: Fields<'_> = damage.take(&object, "", "status");
        Ok(Self {
            metadata: Meta {
                namespace,
                name,
                uid,
                labels: damage.take(&metadata, "metadata", "labels"),
                annotations: damage.take(&metadata, "metadata", "annotations"),
                owner_references: damage.take(&metadata, "metadata", "ownerReferences"),
                deletion_timestamp: damage.take(&metadata, "metadata", "deletionTimestamp"),
            },
            spec: Spec {
                node_name,
                priority: damage.take(&spec, "spec", "priority"),
                tolerations: damage.take(&spec, "spec", "tolerations"),
                volumes: damage.take(&spec, "spec", "volumes"),
                containers: damage.take(&spec, "spec", "containers"),
                init_containers: damage.take(&spec, "spec", "initContainers"),
            },
            status: Status {
                phase: damage.take(&status, "status", "phase"),
                reason: damage.take(&status, "status", "reason"),
                message: damage.take(&status, "status", "message"),
                qos_class: damage.take(&status, "status", "qosClass"),
                conditions: damage.take(&status, "status", "conditions"),
            },
        })
    }

    /// The pod. `None` without a node, or with a name of a node that no Node can have.
    fn into_pod(self, damaged: bool) -> Option<Pod> {
        let (meta, spec, status) = (self.metadata, self.spec, self.status);
        let node = NodeName::new(spec.node_name?).ok()?;
        let controller =
            meta.owner_references.into_iter().flatten().find(|owner| owner.controller == Some(true) && !damaged);
        let conditions = || status.conditions.iter().flatten();
        let volumes = || spec.volumes.iter().flatten();
        let containers = || spec.containers.iter().chain(&spec.init_containers).flatten();
        Some(Pod {
            namespace: meta.namespace,
            name: meta.name,
            uid: meta.uid,
            node,
            labels: meta.labels.unwrap_or_default(),
            controller: controller.map(|Owner { kind, name, .. }| Controller { kind, name }),
            mirror: meta.annotations.mirror.is_some(),
            finished: matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")),
            deleting: meta.deletion_timestamp.is_some(),
            pending: status.phase.as_deref() == Some("Pending"),
            ready: damaged || conditions().any(|condition| condition.kind == "Ready" && condition.status == "True"),
            priority: spec.priority.unwrap_or_default(),
            empty_dir: damaged || volumes().any(|volume| volume.empty_dir.is_some()),
            claims: volumes()
                .filter(|volume| volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some())
                .count(),
            tolerates_drain: spec.tolerations.iter().flatten().any(Toleration::covers_drain),
            exclusive_cpus: status.qos_class.as_deref() == Some("Guaranteed")
                && containers().any(Container::requests_whole_cpus),
            rejection: Rejection::read(status.phase.as_deref(), status.reason.as_deref(), status.message.as_deref())
                .map(Box::new),
        })
    }
}

/// Reads a PodDisruptionBudget from JSON. An unreadable budget covers every pod of its namespace and allows no
/// eviction.
///
/// # Errors
/// The JSON is no object with name and namespace.
pub(crate) fn read_pod_budget(item: &[u8]) -> serde_json::Result<PodBudget> {
    #[derive(Deserialize)]
    struct Named {
        metadata: NamedMeta,
    }
    #[derive(Deserialize)]
    struct NamedMeta {
        namespace: String,
        name: String,
    }
    #[derive(Deserialize)]
    #[serde(default)]
    struct Budget {
        spec: BudgetSpec,
        status: BudgetStatus,
    }
    impl Default for Budget {
        fn default() -> Self {
            let spec = BudgetSpec { selector: Some(LabelSelector::default()), ..BudgetSpec::default() };
            Self { spec, status: BudgetStatus::default() }
        }
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct BudgetSpec {
        selector: Option<LabelSelector>,
        unhealthy_pod_eviction_policy: Option<String>,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct BudgetStatus {
        disruptions_allowed: i32,
        current_healthy: i32,
        desired_healthy: i32,
    }
    let NamedMeta { namespace, name } = serde_json::from_slice::<Named>(item)?.metadata;
    let Budget { spec, status } = serde_json::from_slice(item).unwrap_or_default();
    Ok(PodBudget {
        namespace,
        name,
        selector: spec.selector,
        allowed: status.disruptions_allowed,
        healthy: status.current_healthy,
        required: status.desired_healthy,
        spares_unready: spec.unhealthy_pod_eviction_policy.as_deref() == Some("AlwaysAllow"),
    })
}

#[cfg(test)]
#[path = "wire_pod_tests.rs"]
mod tests;
