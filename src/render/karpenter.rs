//! An `EC2NodeClass` of Karpenter for Amazon Linux 2023.
//!
//! Schema: `pkg/apis/crds/karpenter.k8s.aws_ec2nodeclasses.yaml` of aws/karpenter-provider-aws, 1.0 to 1.14. Karpenter
//! calculates with `spec.kubelet`, which has few fields, and writes it over the NodeConfig in `spec.userData`. Other
//! fields belong there (`website/content/en/docs/concepts/nodeclasses.md`, "spec.kubelet").

use kubelet_config::document::Node;
use kubelet_config::values::quantity::Quantity;

use super::nodeadm::{fields, is_header, node_config};
use super::{Subject, indented};

/// Fields of `spec.kubelet`.
pub(super) const FIELDS: [&str; 12] = [
    "clusterDNS",
    "cpuCFSQuota",
    "evictionHard",
    "evictionMaxPodGracePeriod",
    "evictionSoft",
    "evictionSoftGracePeriod",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "kubeReserved",
    "maxPods",
    "podsPerCore",
    "systemReserved",
];

/// Signals of the eviction fields of `spec.kubelet`.
const SIGNALS: [&str; 6] = [
    "imagefs.available",
    "imagefs.inodesFree",
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "pid.available",
];

/// Resources of `kubeReserved` and `systemReserved` in `spec.kubelet`.
const RESOURCES: [&str; 4] = ["cpu", "ephemeral-storage", "memory", "pid"];

pub(super) fn render(subject: &Subject<'_>, name: &str) -> String {
    let stated = |key: &str| FIELDS.contains(&key) && is_accepted(&subject.rendered.document.root, key);
    let lines = ["Add these fields to your EC2NodeClass. Karpenter replaces its nodes when they change.".to_owned()];
    // Comments are outside of the user data, in which each change replaces nodes.
    let mut out = subject.heading(&lines)
        + &format!(
            "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata:\n  name: {name:?}\nspec:\n  amiFamily: AL2023\n"
        );
    if let Some(kubelet) = fields(subject, stated) {
        out += &format!("  kubelet:\n{}", indented(&kubelet.canonical(), 4));
    }
    if let Some(others) = fields(subject, |key| !stated(key) && !is_header(key)) {
        out += &format!("  userData: |\n{}", indented(&node_config(Some(&others)), 4));
    }
    out
}

/// Reports whether the schema of `spec.kubelet` accepts the value of a field.
pub(super) fn is_accepted(root: &Node, field: &str) -> bool {
    let Some(value) = root.get(field) else { return false };
    let keys = |known: &[&str]| value.mapping().is_some_and(|map| map.keys().all(|key| known.contains(&key.as_str())));
    let values = |accepts: fn(&str) -> bool| {
        value.mapping().is_some_and(|map| map.values().all(|entry| entry.value.text().is_some_and(accepts)))
    };
    match field {
        "evictionHard" => keys(&SIGNALS) && values(is_threshold),
        // The schema requires the same signals in both.
        "evictionSoft" | "evictionSoftGracePeriod" => {
            let signals = |field| root.get(field).and_then(Node::mapping).map(|map| map.keys().collect::<Vec<_>>());
            let soft = root.get("evictionSoft").and_then(Node::mapping);
            let thresholds =
                soft.is_some_and(|map| map.values().all(|entry| entry.value.text().is_some_and(is_threshold)));
            keys(&SIGNALS) && thresholds && signals("evictionSoft") == signals("evictionSoftGracePeriod")
        }
        "kubeReserved" | "systemReserved" => keys(&RESOURCES) && values(is_amount),
        _ => true,
    }
}

fn is_amount(text: &str) -> bool {
    Quantity::parse(text).is_ok_and(|amount| !amount.is_negative()) && !text.starts_with('-')
}

/// Reports whether the schema accepts a threshold: a quantity, or a percentage with at most two decimals.
fn is_threshold(text: &str) -> bool {
    let Some(percent) = text.strip_suffix('%') else { return Quantity::parse(text).is_ok() };
    let (whole, decimals) = percent.split_once('.').unwrap_or((percent, "0"));
    let digits = |text: &str| (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    digits(decimals) && (digits(whole) || whole == "100" && decimals.bytes().all(|byte| byte == b'0'))
}
