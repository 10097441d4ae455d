//! Helps that are not an edit of a file, by code, with the reason; and codes whose examples are in other tests.

/// Codes, and why no edit follows from their help alone.
const NOT_EDITS: &[(&str, &str)] = &[
    ("address-not-ip", "the address of the node is unknown"),
    ("bad-merge-key", "the map that the author meant is unknown"),
    ("bad-patch", "the path or value that the author meant is unknown"),
    ("bad-path", "the content of the missing file is unknown"),
    ("bad-value", "the label that the author meant is unknown; the message has the allowed characters"),
    ("cluster-dns-missing", "the address of the cluster's DNS service is unknown"),
    ("cluster-dns-not-ip", "the address of the cluster's DNS service is unknown"),
    ("cluster-dns-too-many", "the name servers to keep are unknown"),
    ("default-pod-sysctls-name", "the sysctl that the author meant is unknown"),
    ("drop-in-differs", "how agents place a configuration is an argument of theirs"),
    ("empty-document", "the content of the file is unknown"),
    ("finite-numbers", "whether a number or the text is meant is unknown"),
    ("gate-alpha", "an alpha feature may be intended on test nodes"),
    ("gate-deprecated", "the node must be prepared for the other value first"),
    ("gate-soon-locked", "the node must be prepared for the other value first"),
    ("gates-wholesale", "the required gates are unknown"),
    ("malformed-json", "the end of the broken value is unknown"),
    ("malformed-yaml", "the end of the broken value is unknown"),
    ("missing-field", "the label that the pool selects is unknown"),
    ("no-pools", "the configuration of the pool is unknown"),
    ("number-bounds", "the number that the author meant is unknown"),
    ("patch-failed", "the operation that the author meant is unknown"),
    ("pod-logs-dir-ascii", "the folder that the author meant is unknown"),
    ("port-twice", "the free ports of the node are unknown"),
    ("recursive-alias", "the value that the author meant is unknown"),
    ("reservation-not-enforced", "the cgroup must exist on the node first; most nodes need no change"),
    ("reserve-computed", "it shows values, and needs no change"),
    ("reserve-conflict", "the sizes of the machines are unknown"),
    ("reserve-default-pods", "the number of pods of the machines is unknown"),
    ("reserved-memory-duplicate", "the amount that the author meant is unknown"),
    ("reserved-memory-mismatch", "the NUMA nodes of the host are unknown; the help has their sum"),
    ("reserved-memory-resource", "the amount of another resource is unknown"),
    ("second-document", "the document that the author meant is unknown"),
    ("selects-everything", "it may be intended, and then needs no change"),
    ("serving-certificate-approval", "the approver runs in the cluster"),
    ("window-too-short", "whether the window or the time limits should change is unknown"),
    ("unsupported-tag", "whether the text or its meaning is meant is unknown"),
    ("unknown-field", "the operation of the patch that the author meant is unknown"),
];

/// Right fixes that show a further problem of the same file: the fixed code, the shown one, and why.
const FOLLOWS: &[(&str, &str, &str)] = &[
    ("cpu-cfs-quota-period-gate", "cpu-cfs-quota-period", "the value is checked only with the gate"),
    ("enforce-node-allocatable-compressible", "enforced-without-reservation", "the file reserves nothing"),
    ("enforce-node-allocatable", "enforce-node-allocatable-duplicate", "the right name is in the list already"),
    ("memory-manager-policy", "reserved-memory-mismatch", "the policy requires a reservation"),
    ("number-bounds", "user-namespace-ids", "a number of pods that fits its type may be too large for the kubelet"),
    ("preloaded-images-gate", "preloaded-images-policy", "the list is checked only with the gate"),
    ("reserved-memory-unused", "reserved-memory-mismatch", "the reservation is checked only with the policy"),
    ("shutdown-critical-pods-within", "shutdown-grace-period-critical-pods", "the total is itself invalid"),
    ("shutdown-grace-period-gate", "shutdown-critical-pods-within", "the periods are compared only with the gate"),
    ("user-namespaces-ids-per-pod", "user-namespace-ids", "the largest number of IDs suffices only for one pod"),
];

/// Codes without an example here, and the reason.
const ELSEWHERE: &[(&str, &str)] = &[
    ("ambiguous-merge-key", "the fix is the order of keys"),
    ("bad-link", "about a file system or a commit"),
    ("depends-on-own", "about a pool that names no own configuration"),
    ("empty-pool", "about a cluster"),
    ("excessive-aliases", "the file is made to be slow"),
    ("field-not-in-version", "the fix depends on several versions"),
    ("file-too-large", "the file is larger than an example"),
    ("findings-left-out", "counts other findings"),
    ("key-too-long", "the file is made to be slow"),
    ("lfs-pointer", "about a commit"),
    ("missing-object", "about a commit"),
    ("nodeadm-conflict", "about nodeadm: src/render/tests.rs"),
    ("not-a-file", "about a file system or a commit"),
    ("not-in-git", "about a file system"),
    ("not-utf-8", "an example is UTF-8"),
    ("not-utf-8-name", "about a file system or a commit"),
    ("nothing-checked", "about arguments: tests/program/cli/mistakes.rs"),
    ("overlay-as-file", "about an image: src/render/tests.rs"),
    ("pool-pointer-changed", "about a cluster"),
    ("pool-without-sandbox-node", "about the sandbox"),
    ("repository", "about arguments"),
    ("reservations-near-capacity", "about a cluster"),
    ("scheduling-estimate", "about Karpenter and Cluster Autoscaler: src/render/tests.rs"),
    ("similar-label", "about a cluster"),
    ("submodule", "about a commit"),
    ("too-deep", "the file is made to be slow"),
    ("too-many-values", "the file is made to be slow"),
    ("too-much-text", "the file is made to be slow"),
    ("uncommitted-changes", "about a working tree"),
    ("too-many-sizes", "about a cluster"),
    ("unreadable-file", "about a file system"),
    ("value-lost", "about a change"),
    ("value-overridden", "about a cluster"),
    ("verified-commit", "about a commit"),
    ("version-contradicts", "about a cluster"),
    ("version-not-judged", "about a cluster"),
];

/// Why a code's help is no edit.
pub fn reason(code: &str) -> Option<&'static str> {
    NOT_EDITS.iter().find(|(other, _)| *other == code).map(|(_, reason)| *reason)
}

/// Reports whether a right fix may show an error of another code.
pub fn follows(code: &str, new: &str) -> bool {
    FOLLOWS.iter().any(|(fixed, shown, _)| *fixed == code && *shown == new)
}

pub fn codes() -> impl Iterator<Item = &'static str> {
    NOT_EDITS.iter().map(|(code, _)| *code)
}

pub fn elsewhere(code: &str) -> Option<&'static str> {
    ELSEWHERE.iter().find(|(other, _)| *other == code).map(|(_, reason)| *reason)
}
