//! Warnings about programs that predict the pods of a new node by other values than its kubelet.
//!
//! - Karpenter: `pkg/providers/instancetype/types.go` of aws/karpenter-provider-aws, and `registerWithTaints` in
//!   `pkg/providers/amifamily/bootstrap/nodeadm.go`. Fields that `spec.kubelet` does not state cause no warning: for them
//!   Karpenter has the defaults of nodeadm (`kubeReservedResources`, `evictionThreshold`, `pods`), which a drop-in leaves
//!   in force.
//! - nodeadm: `withDefaultReservedResources` in `nodeadm/internal/kubelet/config.go` of awslabs/amazon-eks-ami.
//! - Cluster Autoscaler: `cluster-autoscaler/cloudprovider/clusterapi/clusterapi_nodegroup.go` of kubernetes/autoscaler
//!   (`defaultMaxPods`, `TemplateNodeInfo`).

use std::collections::BTreeSet;

use kubelet_config::document::Node;
use kubelet_config::finding::Finding;
use kubelet_config::values::quantity::Quantity;

use super::{Consumer, Subject, karpenter};

/// Pods of a node in an empty node group of Cluster Autoscaler, and the kubelet's default of `maxPods`.
const DEFAULT_PODS: i128 = 110;

/// Warnings about the configuration of a pool for a consumer.
#[must_use]
pub fn findings(subject: &Subject<'_>, consumer: Consumer) -> Vec<Finding> {
    let estimates = Estimates { subject, root: &subject.rendered.document.root };
    match consumer {
        Consumer::Karpenter => {
            let mut found = estimates.karpenter();
            found.extend(estimates.nodeadm());
            found
        }
        Consumer::Nodeadm => estimates.nodeadm(),
        Consumer::ClusterApi => estimates.cluster_autoscaler(),
        Consumer::File | Consumer::DropIn | Consumer::CloudInit | Consumer::KubeadmPatch => Vec::new(),
    }
}

struct Estimates<'a> {
    subject: &'a Subject<'a>,
    root: &'a Node,
}

impl Estimates<'_> {
    fn karpenter(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        if self.reserves_cpus() && !self.states_reserved_cpus() {
            found.push(self.warning(
                "reservedSystemCPUs",
                "Karpenter ignores `reservedSystemCPUs`, and subtracts `kubeReserved.cpu` and `systemReserved.cpu` \
                 instead"
                    .to_owned(),
                "set `kubeReserved.cpu` to the number of these CPUs, which the kubelet ignores beside \
                 `reservedSystemCPUs`",
            ));
        }
        if self.root.get("registerWithTaints").is_some() {
            found.push(self.warning(
                "registerWithTaints",
                "Karpenter replaces `registerWithTaints` by the taints of the NodePool".to_owned(),
                "state these taints in spec.template.spec.taints of the NodePool",
            ));
        }
        let refused = karpenter::FIELDS
            .iter()
            .filter(|field| self.root.get(field).is_some() && !karpenter::is_accepted(self.root, field));
        found.extend(refused.map(|field| {
            self.warning(
                field,
                format!("spec.kubelet of an EC2NodeClass does not accept this `{field}`, so Karpenter ignores it"),
                "use only the signals, resources and notations that Karpenter documents for spec.kubelet",
            )
        }));
        found
    }

    fn nodeadm(&self) -> Vec<Finding> {
        let cgroups = ["kubeReservedCgroup", "systemReservedCgroup"];
        let is_cleared = |field: &str| self.root.get(field).and_then(Node::text) == Some("");
        if !self.reserves_cpus() || cgroups.into_iter().all(is_cleared) {
            return Vec::new();
        }
        let message = format!(
            "pool {}: nodeadm sets `kubeReservedCgroup` and `systemReservedCgroup`, and a kubelet with one of them and \
             `reservedSystemCPUs` does not start",
            self.subject.pool
        );
        let help = "write kubeReservedCgroup: \"\" and systemReservedCgroup: \"\"";
        vec![self.placed(Finding::warning("nodeadm-conflict", message), "reservedSystemCPUs").help(help)]
    }

    fn cluster_autoscaler(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        let whole = |field| self.root.get(field).and_then(Node::reading).and_then(|reading| reading.whole());
        let pods = whole("maxPods").unwrap_or(DEFAULT_PODS);
        if pods != DEFAULT_PODS {
            found.push(self.warning(
                "maxPods",
                format!(
                    "Cluster Autoscaler calculates with {DEFAULT_PODS} pods for each node of an empty node group, and \
                     `maxPods` is {pods}"
                ),
                format!(
                    "annotate the MachineDeployment with capacity.cluster-autoscaler.kubernetes.io/maxPods: \"{pods}\""
                ),
            ));
        }
        let reserving = ["kubeReserved", "systemReserved", "reservedSystemCPUs"].into_iter();
        if let Some(field) = reserving.into_iter().find(|field| self.root.get(field).is_some()) {
            found.push(self.warning(
                field,
                format!("Cluster Autoscaler ignores `{field}` for an empty node group, and calculates with the capacity"),
                "annotate the MachineDeployment with capacity.cluster-autoscaler.kubernetes.io/cpu and memory, less the \
                 reservations",
            ));
        }
        found
    }

    fn reserves_cpus(&self) -> bool {
        self.root.get("reservedSystemCPUs").and_then(Node::text).is_some_and(|cpus| !cpus.is_empty())
    }

    /// Reports whether the reservations that Karpenter reads are as many CPUs as the kubelet reserves.
    fn states_reserved_cpus(&self) -> bool {
        let amount = |field: &str| {
            let text = self.root.get(field).and_then(|map| map.get("cpu")).and_then(Node::text);
            text.map(|text| Quantity::parse(text).unwrap_or(Quantity::whole(-1)))
        };
        let system = amount("systemReserved").unwrap_or(Quantity::whole(0));
        let reserved = amount("kubeReserved").map(|kube| kube.plus(system).rounded_up_thousandths());
        let list = self.root.get("reservedSystemCPUs").and_then(Node::text);
        reserved.is_some() && reserved == list.and_then(cpus).map(|cpus| cpus.saturating_mul(1000))
    }

    fn warning(&self, field: &str, message: String, help: impl Into<String>) -> Finding {
        let message = format!("pool {}: {message}", self.subject.pool);
        self.placed(Finding::warning("scheduling-estimate", message), field).help(help)
    }

    /// The finding at the value of a field, or at the configuration if the field is unset.
    fn placed(&self, finding: Finding, field: &str) -> Finding {
        let place = self.root.get(field).unwrap_or(self.root).place.clone();
        finding.at(place).field(field)
    }
}

/// The number of CPUs in a list such as `0-3,8` (`k8s.io/utils/cpuset`). `None` for other texts.
fn cpus(list: &str) -> Option<i64> {
    let mut all = BTreeSet::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
        all.extend(first..=last);
    }
    i64::try_from(all.len()).ok()
}
