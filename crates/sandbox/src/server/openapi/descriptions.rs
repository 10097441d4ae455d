//! Type names and field descriptions in OpenAPI documents, for `kubectl explain`.

use crate::api::ServerProfile;

/// Named types of Kubernetes, by their first field path.
const TYPE_NAMES: &[(&str, &str)] = &[
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
    ("Pod.status", "io.k8s.api.core.v1.PodStatus"),
    ("Pod.status.conditions[]", "io.k8s.api.core.v1.PodCondition"),
    ("PodDisruptionBudget", "io.k8s.api.policy.v1.PodDisruptionBudget"),
    ("PodDisruptionBudget.spec", "io.k8s.api.policy.v1.PodDisruptionBudgetSpec"),
    ("PodDisruptionBudget.status", "io.k8s.api.policy.v1.PodDisruptionBudgetStatus"),
    ("ReplicaSet", "io.k8s.api.apps.v1.ReplicaSet"),
    ("ReplicaSet.spec", "io.k8s.api.apps.v1.ReplicaSetSpec"),
    ("ReplicaSet.status", "io.k8s.api.apps.v1.ReplicaSetStatus"),
    ("SelfSubjectAccessReview", "io.k8s.api.authorization.v1.SelfSubjectAccessReview"),
    ("SelfSubjectReview", "io.k8s.api.authentication.v1.SelfSubjectReview"),
    ("VolumeAttachment", "io.k8s.api.storage.v1.VolumeAttachment"),
];

/// Field paths that share the type of another path.
const SAME_TYPE: &[(&str, &str)] = &[
    ("Event.deprecatedSource", "Event.source"),
    ("Event.regarding", "Event.involvedObject"),
    ("Event.related", "Event.involvedObject"),
    ("Node.status.config.active", "Node.spec.configSource"),
    ("Node.status.config.assigned", "Node.spec.configSource"),
    ("Node.status.config.lastKnownGood", "Node.spec.configSource"),
];

const DESCRIPTIONS: &[(&str, &str)] = &[
    ("ConfigMap", "Configuration that pods and nodes read: texts and bytes by key."),
    ("ConfigMap.binaryData", "Bytes by key, in base64. Keys must not occur in data."),
    ("ConfigMap.data", "Texts by key. Keys consist of letters, digits, '-', '_' and '.'."),
    ("ConfigMap.immutable", "When true, the data cannot be changed; the object can only be deleted."),
    ("CustomResourceDefinition", "Defines a resource for the API server to serve, named <plural>.<group>."),
    ("CustomResourceDefinition.spec", "Definition of the resource."),
    ("CustomResourceDefinition.spec.group", "API group of the resource."),
    ("CustomResourceDefinition.spec.names", "Names of the resource and its kind."),
    ("CustomResourceDefinition.spec.scope", "Cluster or Namespaced."),
    ("CustomResourceDefinition.spec.versions", "Versions of the resource, each with its schema."),
    ("CustomResourceDefinition.status", "State of the served resource."),
    ("Event", "Report of an occurrence that concerns an object."),
    ("Event.action", "Action taken on the object."),
    ("Event.count", "Number of occurrences."),
    ("Event.eventTime", "Time of the first occurrence, in microseconds."),
    ("Event.firstTimestamp", "Time of the first occurrence."),
    ("Event.involvedObject", "Object that the event concerns."),
    ("Event.lastTimestamp", "Time of the last occurrence."),
    ("Event.message", "Description of the event."),
    ("Event.reason", "Machine-readable reason, one CamelCase word."),
    ("Event.note", "Description of the event."),
    ("Event.regarding", "Object that the event concerns."),
    ("Event.related", "Second object that the event concerns."),
    ("Event.reportingComponent", "Controller that sent the event."),
    ("Event.reportingInstance", "Instance of the controller that sent the event."),
    ("Event.series", "Repetitions of the event, if it continued."),
    ("Event.source", "Component that sent the event."),
    ("Event.type", "Normal or Warning."),
    ("Lease", "Claim that one holder has for a limited time and renews."),
    ("Lease.spec", "Holder and duration of the lease."),
    ("Lease.spec.acquireTime", "Time when the current holder acquired the lease."),
    ("Lease.spec.holderIdentity", "Identity of the current holder."),
    ("Lease.spec.leaseDurationSeconds", "Seconds after renewTime before another holder may acquire the lease."),
    ("Lease.spec.leaseTransitions", "Number of changes of the holder."),
    ("Lease.spec.renewTime", "Time when the current holder last renewed the lease."),
    ("Namespace", "A scope for names."),
    ("Namespace.spec", "Desired state of the namespace."),
    ("Namespace.spec.finalizers", "Finalizers to remove before the namespace is deleted."),
    ("Namespace.status", "Current state of the namespace."),
    ("Namespace.status.phase", "Active or Terminating."),
    ("Node", "A machine of the cluster, with a unique name. Its kubelet reports the status."),
    ("Node.spec", "Desired state of the node."),
    ("Node.spec.configSource.configMap", "ConfigMap with the configuration."),
    ("Node.spec.configSource.configMap.kubeletConfigKey", "Key of the KubeletConfiguration in the ConfigMap."),
    ("Node.spec.configSource.configMap.name", "Name of the ConfigMap."),
    ("Node.spec.configSource.configMap.namespace", "Namespace of the ConfigMap."),
    (
        "Node.spec.configSource.configMap.resourceVersion",
        "Version of the ConfigMap that the node loaded. Set in status, forbidden in spec.",
    ),
    (
        "Node.spec.configSource.configMap.uid",
        "UID of the ConfigMap that the node loaded. Set in status, forbidden in spec.",
    ),
    ("Node.spec.podCIDR", "Address range of the node's pods."),
    ("Node.spec.podCIDRs", "Address ranges of the node's pods, one per address family."),
    ("Node.spec.providerID", "Identifier of the machine at the cloud provider: <provider>://<id>."),
    ("Node.spec.taints", "Taints, which repel pods that do not tolerate them."),
    ("Node.spec.taints[].effect", "NoSchedule, PreferNoSchedule or NoExecute."),
    ("Node.spec.taints[].key", "Key of the taint, in the format of a label key."),
    ("Node.spec.taints[].timeAdded", "Time when the taint was added; for NoExecute only."),
    ("Node.spec.taints[].value", "Value of the taint, in the format of a label value."),
    ("Node.spec.unschedulable", "When true, no new pods are scheduled on the node."),
    ("Node.status", "Current state of the node, reported by its kubelet."),
    ("Node.status.addresses", "Addresses of the node."),
    ("Node.status.allocatable", "Resources available to pods."),
    ("Node.status.capacity", "Total resources of the node."),
    ("Node.status.conditions", "Conditions of the node, most importantly Ready."),
    ("Node.status.config.active", "Configuration that the kubelet runs; absent for the local configuration."),
    ("Node.status.config.assigned", "Configuration that the node accepted as its assignment."),
    ("Node.status.config.error", "Problem with the assignment. Empty or absent without a problem."),
    (
        "Node.status.config.lastKnownGood",
        "Configuration that the node rolls back to; absent for the local configuration.",
    ),
    ("Node.status.daemonEndpoints", "Ports of the node's daemons."),
    ("Node.status.images", "Container images on the node."),
    ("Node.status.nodeInfo", "Versions and identifiers of the machine."),
    ("Node.status.nodeInfo.kubeletVersion", "Version of the kubelet."),
    ("Node.status.phase", "Deprecated and unused."),
    ("ObjectMeta", OBJECT_META),
    ("ObjectMeta.annotations", "Metadata of tools by key, not usable in selectors."),
    ("ObjectMeta.creationTimestamp", "Time of creation."),
    ("ObjectMeta.deletionTimestamp", "Time since which the object is being deleted."),
    ("ObjectMeta.finalizers", "Finalizers to remove before the object is deleted."),
    ("ObjectMeta.generateName", "Prefix of a name that the server completes; used when name is empty."),
    ("ObjectMeta.generation", "Number of the current desired state."),
    ("ObjectMeta.labels", "Keys and values for selectors."),
    ("ObjectMeta.managedFields", "Fields by the manager that last set them."),
    ("ObjectMeta.name", "Name of the object, unique among its kind in its namespace."),
    ("ObjectMeta.namespace", "Namespace of the object."),
    ("ObjectMeta.ownerReferences", "Owners, whose deletion also deletes this object."),
    ("ObjectMeta.resourceVersion", "Opaque version of the object."),
    ("ObjectMeta.uid", "Identifier of the object, unique in time and space."),
    ("Pod", "Containers that run together on a node. The sandbox simulates them."),
    ("Pod.spec", "Desired state of the pod."),
    ("Pod.status", "Current state of the pod, reported by the kubelet of its node."),
    ("Pod.status.conditions", "Conditions of the pod, most importantly Ready."),
    ("Pod.status.phase", "Pending, Running, Succeeded, Failed or Unknown."),
    ("PodDisruptionBudget", "Limits how many pods of a set evictions may take at the same time."),
    ("PodDisruptionBudget.spec.maxUnavailable", "Number or percentage of pods that may be unavailable."),
    ("PodDisruptionBudget.spec.minAvailable", "Number or percentage of pods that must stay available."),
    ("PodDisruptionBudget.spec.selector", "Labels of the pods; an empty selector selects all of the namespace."),
    ("PodDisruptionBudget.status.currentHealthy", "Number of healthy pods."),
    ("PodDisruptionBudget.status.desiredHealthy", "Number of pods that must stay healthy."),
    ("PodDisruptionBudget.status.disruptedPods", "Evicted pods that the controller has not noticed yet, with time."),
    ("PodDisruptionBudget.status.disruptionsAllowed", "Number of pods that may be evicted now."),
    ("PodDisruptionBudget.status.expectedPods", "Number of pods that the budget counts."),
    ("ReplicaSet", "Keeps a number of equal pods."),
    ("ReplicaSet.spec.replicas", "Desired number of pods."),
    ("ReplicaSet.spec.selector", "Labels of the pods."),
    ("ReplicaSet.spec.template", "Pod to create."),
    ("SelfSubjectAccessReview", "Checks whether the current user may perform an action."),
    ("SelfSubjectReview", "Returns the current user."),
    ("VolumeAttachment", "Attaches a volume to a node."),
    ("VolumeAttachment.spec.nodeName", "Node of the volume."),
    ("VolumeAttachment.status.attached", "Whether the volume is attached."),
];

/// Description of the metadata of every kind.
pub(super) const OBJECT_META: &str = "Metadata of the object: name, labels, annotations and history.";

const DESCRIPTIONS_1_21: &[(&str, &str)] = &[
    (
        "Node.spec.configSource",
        "Source of the kubelet's configuration, which replaces the local configuration. The kubelet must run with the \
         DynamicKubeletConfig feature gate and --dynamic-config-dir.",
    ),
    ("Node.status.config", "State of the configuration in spec.configSource."),
];

const DESCRIPTIONS_1_36: &[(&str, &str)] = &[
    (
        "Node.spec.configSource",
        "Removed: source of the kubelet's configuration for the removed DynamicKubeletConfig feature. The field is \
         dropped on write.",
    ),
    ("Node.status.config", "Removed with the DynamicKubeletConfig feature. The field is dropped on write."),
];

/// First field path with the type of the value at `path`.
pub(super) fn canonical(path: &str) -> &str {
    SAME_TYPE.iter().find(|(field, _)| *field == path).map_or(path, |(_, first)| first)
}

/// Name of the type of the value at `path`, if the type has one.
pub(super) fn type_name(path: &str) -> Option<&'static str> {
    let path = canonical(path);
    TYPE_NAMES.iter().find(|(field, _)| *field == path).map(|(_, name)| *name)
}

/// Description of the value at `path`.
pub(super) fn of(profile: ServerProfile, path: &str) -> Option<&'static str> {
    let own = match profile {
        ServerProfile::V1_21 => DESCRIPTIONS_1_21,
        ServerProfile::V1_36 => DESCRIPTIONS_1_36,
    };
    own.iter().chain(DESCRIPTIONS).find(|(field, _)| *field == path).map(|(_, description)| *description)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Every named or described field path.
    pub(crate) fn paths() -> impl Iterator<Item = &'static str> {
        let tables = [TYPE_NAMES, SAME_TYPE, DESCRIPTIONS, DESCRIPTIONS_1_21, DESCRIPTIONS_1_36];
        tables.into_iter().flatten().map(|(field, _)| *field)
    }
}
