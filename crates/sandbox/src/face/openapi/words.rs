//! What fields are called and mean, for `kubectl explain`.

use crate::api::ServerProfile;

/// The types that have a name of their own in Kubernetes, by where they stand first.
const TYPES: &[(&str, &str)] = &[
    ("ConfigMap", "io.k8s.api.core.v1.ConfigMap"),
    ("CustomResourceDefinition", "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"),
    ("Event", "io.k8s.api.core.v1.Event"),
    ("Event.involvedObject", "io.k8s.api.core.v1.ObjectReference"),
    ("Event.source", "io.k8s.api.core.v1.EventSource"),
    ("Lease", "io.k8s.api.coordination.v1.Lease"),
    ("Lease.spec", "io.k8s.api.coordination.v1.LeaseSpec"),
    ("Namespace", "io.k8s.api.core.v1.Namespace"),
    ("Namespace.spec", "io.k8s.api.core.v1.NamespaceSpec"),
    ("Namespace.status", "io.k8s.api.core.v1.NamespaceStatus"),
    ("Node", "io.k8s.api.core.v1.Node"),
    ("Node.spec", "io.k8s.api.core.v1.NodeSpec"),
    ("Node.spec.configSource", "io.k8s.api.core.v1.NodeConfigSource"),
    ("Node.spec.configSource.configMap", "io.k8s.api.core.v1.ConfigMapNodeConfigSource"),
    ("Node.spec.taints[]", "io.k8s.api.core.v1.Taint"),
    ("Node.status", "io.k8s.api.core.v1.NodeStatus"),
    ("Node.status.addresses[]", "io.k8s.api.core.v1.NodeAddress"),
    ("Node.status.conditions[]", "io.k8s.api.core.v1.NodeCondition"),
    ("Node.status.config", "io.k8s.api.core.v1.NodeConfigStatus"),
    ("Node.status.daemonEndpoints", "io.k8s.api.core.v1.NodeDaemonEndpoints"),
    ("Node.status.nodeInfo", "io.k8s.api.core.v1.NodeSystemInfo"),
    ("Pod", "io.k8s.api.core.v1.Pod"),
    ("SelfSubjectAccessReview", "io.k8s.api.authorization.v1.SelfSubjectAccessReview"),
    ("SelfSubjectReview", "io.k8s.api.authentication.v1.SelfSubjectReview"),
];

/// Places whose type is that of another place.
const SAME: &[(&str, &str)] = &[
    ("Event.deprecatedSource", "Event.source"),
    ("Event.regarding", "Event.involvedObject"),
    ("Event.related", "Event.involvedObject"),
    ("Node.status.config.active", "Node.spec.configSource"),
    ("Node.status.config.assigned", "Node.spec.configSource"),
    ("Node.status.config.lastKnownGood", "Node.spec.configSource"),
];

const WORDS: &[(&str, &str)] = &[
    ("ConfigMap", "Configuration that pods and nodes read: texts and bytes by key."),
    ("ConfigMap.binaryData", "Bytes by key, in base64. No key may stand in data as well."),
    ("ConfigMap.data", "Texts by key. Keys have letters, digits, '-', '_' and '.'."),
    ("ConfigMap.immutable", "When true, the data can never change again; only the whole object can be deleted."),
    ("CustomResourceDefinition", "Defines a resource that the API server shall serve, named <plural>.<group>."),
    ("CustomResourceDefinition.spec", "What is to be served."),
    ("CustomResourceDefinition.spec.group", "API group of the resource."),
    ("CustomResourceDefinition.spec.names", "What the resource and its kind are called."),
    ("CustomResourceDefinition.spec.scope", "Cluster or Namespaced."),
    ("CustomResourceDefinition.spec.versions", "The versions of the resource, each with its schema."),
    ("CustomResourceDefinition.status", "What is served."),
    ("Event", "Something that happened to an object."),
    ("Event.action", "What was done about the object."),
    ("Event.count", "How often it happened."),
    ("Event.eventTime", "When it was first seen, to the microsecond."),
    ("Event.firstTimestamp", "When it first happened."),
    ("Event.involvedObject", "What it happened to."),
    ("Event.lastTimestamp", "When it last happened."),
    ("Event.message", "What happened, for people."),
    ("Event.reason", "Why, in one CamelCase word for machines."),
    ("Event.note", "What happened, for people."),
    ("Event.regarding", "What it happened to."),
    ("Event.related", "A second object that is concerned."),
    ("Event.reportingComponent", "The controller that sent it."),
    ("Event.reportingInstance", "Which instance of that controller."),
    ("Event.series", "How it went on, when it went on."),
    ("Event.source", "Who sent it."),
    ("Event.type", "Normal or Warning."),
    ("Lease", "A claim that one holder has for a time and renews."),
    ("Lease.spec", "Who holds the lease, and until when."),
    ("Lease.spec.acquireTime", "When the present holder took it."),
    ("Lease.spec.holderIdentity", "Who holds it."),
    ("Lease.spec.leaseDurationSeconds", "How many seconds after renewTime others must wait before they take it."),
    ("Lease.spec.leaseTransitions", "How often it has changed hands."),
    ("Lease.spec.renewTime", "When the present holder last renewed it."),
    ("Namespace", "A scope for names."),
    ("Namespace.spec", "What is wanted of the namespace."),
    ("Namespace.spec.finalizers", "Who must let go before the namespace is gone."),
    ("Namespace.status", "How the namespace is."),
    ("Namespace.status.phase", "Active or Terminating."),
    ("Node", "A machine of the cluster. Each has a unique name, under which its kubelet reports."),
    ("Node.spec", "What is wanted of the node."),
    ("Node.spec.configSource.configMap", "The ConfigMap that holds the configuration."),
    (
        "Node.spec.configSource.configMap.kubeletConfigKey",
        "The key of the ConfigMap under which the KubeletConfiguration lies.",
    ),
    ("Node.spec.configSource.configMap.name", "Name of the ConfigMap."),
    ("Node.spec.configSource.configMap.namespace", "Namespace of the ConfigMap."),
    (
        "Node.spec.configSource.configMap.resourceVersion",
        "The version of the ConfigMap that the node took. Set in status, forbidden in spec.",
    ),
    (
        "Node.spec.configSource.configMap.uid",
        "The uid of the ConfigMap that the node took. Set in status, forbidden in spec.",
    ),
    ("Node.spec.podCIDR", "The addresses of the node's pods."),
    ("Node.spec.podCIDRs", "The addresses of the node's pods, one range an address family."),
    ("Node.spec.providerID", "What the cloud calls the machine: <provider>://<id>."),
    ("Node.spec.taints", "What keeps pods away that do not tolerate it."),
    ("Node.spec.taints[].effect", "NoSchedule, PreferNoSchedule or NoExecute."),
    ("Node.spec.taints[].key", "Key of the taint, like that of a label."),
    ("Node.spec.taints[].timeAdded", "When it was added; for NoExecute only."),
    ("Node.spec.taints[].value", "Value of the taint, like that of a label."),
    ("Node.spec.unschedulable", "When true, no new pods are placed on the node."),
    ("Node.status", "How the node is, as its kubelet reports it."),
    ("Node.status.addresses", "Where the node can be reached."),
    ("Node.status.allocatable", "What of its resources pods may use."),
    ("Node.status.capacity", "What resources it has."),
    ("Node.status.conditions", "Its conditions; Ready above all."),
    (
        "Node.status.config.active",
        "The configuration that the kubelet runs; absent for the one it was provisioned with.",
    ),
    ("Node.status.config.assigned", "The configuration that the node has taken as its assignment."),
    ("Node.status.config.error", "What is wrong with the assignment. Empty or absent when nothing is."),
    (
        "Node.status.config.lastKnownGood",
        "The configuration that the node falls back to; absent for the one it was provisioned with.",
    ),
    ("Node.status.daemonEndpoints", "Where the node's daemons listen."),
    ("Node.status.images", "The images on the node."),
    ("Node.status.nodeInfo", "Versions and identifiers of the machine."),
    ("Node.status.nodeInfo.kubeletVersion", "Version of the kubelet."),
    ("Node.status.phase", "Unused since long ago."),
    ("ObjectMeta", "What every object has: its name, labels, annotations and history."),
    ("ObjectMeta.annotations", "Notes of tools, by key. Nothing selects by them."),
    ("ObjectMeta.creationTimestamp", "When the object was created."),
    ("ObjectMeta.deletionTimestamp", "Since when the object is being deleted."),
    ("ObjectMeta.finalizers", "Who must let go before the object is gone."),
    ("ObjectMeta.generateName", "Begins the name when none is given; the server completes it."),
    ("ObjectMeta.generation", "Counts the changes of what is wanted."),
    ("ObjectMeta.labels", "Keys and values to select the object by."),
    ("ObjectMeta.managedFields", "Which manager last set which field."),
    ("ObjectMeta.name", "Name of the object, unique among its kind in its namespace."),
    ("ObjectMeta.namespace", "Namespace of the object."),
    ("ObjectMeta.ownerReferences", "The objects with which this one goes."),
    ("ObjectMeta.resourceVersion", "The version of the object; opaque."),
    ("ObjectMeta.uid", "Identifies the object in time and space."),
    ("Pod", "Containers that run together on a node. The sandbox runs none."),
    ("SelfSubjectAccessReview", "Asks whether the one who asks may do something."),
    ("SelfSubjectReview", "Asks who asks."),
];

const WORDS_1_21: &[(&str, &str)] = &[
    (
        "Node.spec.configSource",
        "Where the kubelet takes its configuration from, in place of the one that it was provisioned with. The kubelet \
         must run with the DynamicKubeletConfig feature gate and --dynamic-config-dir.",
    ),
    ("Node.status.config", "What became of the configuration that spec.configSource asks for."),
];

const WORDS_1_36: &[(&str, &str)] = &[
    (
        "Node.spec.configSource",
        "Removed: the source of the kubelet's configuration, for the DynamicKubeletConfig feature that is gone. The field \
         is dropped on write.",
    ),
    ("Node.status.config", "Removed with the DynamicKubeletConfig feature. The field is dropped on write."),
];

/// The place where the type of the value at `path` stands first.
pub(super) fn canonical(path: &str) -> &str {
    SAME.iter().find(|(place, _)| *place == path).map_or(path, |(_, first)| first)
}

/// The name of the type of the value at `path`, when it has one.
pub(super) fn type_name(path: &str) -> Option<&'static str> {
    let path = canonical(path);
    TYPES.iter().find(|(place, _)| *place == path).map(|(_, name)| *name)
}

/// What the value at `path` means.
pub(super) fn of(character: ServerProfile, path: &str) -> Option<&'static str> {
    let own = match character {
        ServerProfile::V1_21 => WORDS_1_21,
        ServerProfile::V1_36 => WORDS_1_36,
    };
    own.iter().chain(WORDS).find(|(place, _)| *place == path).map(|(_, words)| *words)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Every place that is named or described.
    pub(crate) fn places() -> impl Iterator<Item = &'static str> {
        let tables = [TYPES, SAME, WORDS, WORDS_1_21, WORDS_1_36];
        tables.into_iter().flatten().map(|(place, _)| *place)
    }
}
