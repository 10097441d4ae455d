//! Shapes of pods and of the kinds around them, after `k8s.io/api` (1.21 to 1.36). Parts that the sandbox only stores
//! have no fields.

use serde_json::{Value, json};

use super::builtin::{condition, empty, object};
use super::server_profile::ServerProfile;
use super::shape::{Field, Shape, always, atomic, boolean, integer, keyed, map, opt, ptr, scalar, string, structure};

/// core/v1 `Pod`.
pub(crate) fn pod() -> Shape {
    let status = structure([
        ("observedGeneration", opt(integer())),
        ("phase", opt(string())),
        ("conditions", opt(keyed("type", pod_condition()))),
        ("message", opt(string())),
        ("reason", opt(string())),
        ("nominatedNodeName", opt(string())),
        ("hostIP", opt(string())),
        ("hostIPs", opt(atomic(Shape::Untyped))),
        ("podIP", opt(string())),
        ("podIPs", opt(keyed("ip", Shape::Untyped))),
        ("startTime", ptr(string())),
        ("initContainerStatuses", opt(atomic(Shape::Untyped))),
        ("containerStatuses", opt(atomic(Shape::Untyped))),
        ("ephemeralContainerStatuses", opt(atomic(Shape::Untyped))),
        ("qosClass", opt(string())),
        ("resize", opt(string())),
        ("resourceClaimStatuses", opt(atomic(Shape::Untyped))),
    ]);
    object([("spec", always(Shape::Untyped, empty())), ("status", always(status, empty()))])
}

fn pod_condition() -> Shape {
    structure([
        ("type", always(string(), "")),
        ("observedGeneration", opt(integer())),
        ("status", always(string(), "")),
        ("lastProbeTime", always(string(), Value::Null)),
        ("lastTransitionTime", always(string(), Value::Null)),
        ("reason", opt(string())),
        ("message", opt(string())),
    ])
}

/// apps/v1 `ReplicaSet`.
pub(crate) fn replica_set() -> Shape {
    object([
        (
            "spec",
            always(
                structure([
                    ("replicas", ptr(integer())),
                    ("minReadySeconds", opt(integer())),
                    ("selector", always(Shape::Untyped, Value::Null)),
                    ("template", opt(Shape::Untyped)),
                ]),
                empty(),
            ),
        ),
        (
            "status",
            always(
                structure([
                    ("replicas", always(integer(), 0)),
                    ("fullyLabeledReplicas", opt(integer())),
                    ("readyReplicas", opt(integer())),
                    ("availableReplicas", opt(integer())),
                    ("terminatingReplicas", ptr(integer())),
                    ("observedGeneration", opt(integer())),
                    ("conditions", opt(keyed("type", condition(&["lastTransitionTime"])))),
                ]),
                json!({"replicas": 0}),
            ),
        ),
    ])
}

/// Status of a new PodDisruptionBudget, which the controller has not processed.
pub(crate) fn empty_budget_status() -> Value {
    json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0})
}

/// policy/v1 `PodDisruptionBudget`. `unhealthyPodEvictionPolicy` exists since 1.26.
pub(crate) fn pod_disruption_budget(profile: ServerProfile) -> Shape {
    let mut spec: std::collections::BTreeMap<String, Field> =
        [("minAvailable", ptr(scalar())), ("selector", ptr(Shape::Untyped)), ("maxUnavailable", ptr(scalar()))]
            .into_iter()
            .map(|(name, field)| (name.to_owned(), field))
            .collect();
    if profile != ServerProfile::V1_21 {
        spec.insert("unhealthyPodEvictionPolicy".to_owned(), ptr(string()));
    }
    object([
        ("spec", always(Shape::Struct(std::sync::Arc::new(spec)), empty())),
        (
            "status",
            always(
                structure([
                    ("observedGeneration", opt(integer())),
                    ("disruptedPods", opt(map(string()))),
                    ("disruptionsAllowed", always(integer(), 0)),
                    ("currentHealthy", always(integer(), 0)),
                    ("desiredHealthy", always(integer(), 0)),
                    ("expectedPods", always(integer(), 0)),
                    ("conditions", opt(keyed("type", budget_condition()))),
                ]),
                empty_budget_status(),
            ),
        ),
    ])
}

fn budget_condition() -> Shape {
    structure([
        ("type", always(string(), "")),
        ("status", always(string(), "")),
        ("observedGeneration", opt(integer())),
        ("lastTransitionTime", always(string(), Value::Null)),
        ("reason", always(string(), "")),
        ("message", always(string(), "")),
    ])
}

/// storage.k8s.io/v1 `VolumeAttachment`.
pub(crate) fn volume_attachment() -> Shape {
    object([
        (
            "spec",
            always(
                structure([
                    ("attacher", always(string(), "")),
                    ("source", always(Shape::Untyped, empty())),
                    ("nodeName", always(string(), "")),
                ]),
                empty(),
            ),
        ),
        (
            "status",
            always(
                structure([
                    ("attached", always(boolean(), false)),
                    ("attachmentMetadata", opt(map(string()))),
                    ("attachError", ptr(Shape::Untyped)),
                    ("detachError", ptr(Shape::Untyped)),
                ]),
                json!({"attached": false}),
            ),
        ),
    ])
}
