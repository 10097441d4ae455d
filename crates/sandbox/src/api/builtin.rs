//! Shapes of the built-in kinds, after `k8s.io/api` and apimachinery `ObjectMeta` (1.21 to 1.36).

use serde_json::{Value, json};

use super::server_profile::ServerProfile;
use super::shape::{
    Field, Shape, always, atomic, atomic_map, boolean, integer, keyed, map, opt, ptr, scalar, set, string, structure,
};

/// An empty struct.
pub(super) fn empty() -> Value {
    json!({})
}

/// apimachinery `ObjectMeta`.
pub(crate) fn object_meta() -> Shape {
    structure([
        ("name", opt(string())),
        ("generateName", opt(string())),
        ("namespace", opt(string())),
        ("selfLink", opt(string())),
        ("uid", opt(string())),
        ("resourceVersion", opt(string())),
        ("generation", opt(integer())),
        ("creationTimestamp", opt(string())),
        ("deletionTimestamp", ptr(string())),
        ("deletionGracePeriodSeconds", ptr(integer())),
        ("labels", opt(map(string()))),
        ("annotations", opt(map(string()))),
        (
            "ownerReferences",
            opt(keyed(
                "uid",
                structure([
                    ("apiVersion", always(string(), "")),
                    ("kind", always(string(), "")),
                    ("name", always(string(), "")),
                    ("uid", always(string(), "")),
                    ("controller", ptr(boolean())),
                    ("blockOwnerDeletion", ptr(boolean())),
                ]),
            )),
        ),
        ("finalizers", opt(set(string()))),
        ("managedFields", opt(atomic(Shape::Untyped))),
    ])
}

/// An object with the given fields beside apiVersion, kind and metadata.
pub(super) fn object<const N: usize>(fields: [(&str, Field); N]) -> Shape {
    let mut all = std::collections::BTreeMap::from([
        ("apiVersion".to_owned(), opt(string())),
        ("kind".to_owned(), opt(string())),
        ("metadata".to_owned(), always(object_meta(), empty())),
    ]);
    all.extend(fields.into_iter().map(|(name, field)| (name.to_owned(), field)));
    Shape::Struct(std::sync::Arc::new(all))
}

fn node_config_source() -> Shape {
    structure([(
        "configMap",
        ptr(structure([
            ("kubeletConfigKey", always(string(), "")),
            ("name", always(string(), "")),
            ("namespace", always(string(), "")),
            ("resourceVersion", opt(string())),
            ("uid", opt(string())),
        ])),
    )])
}

/// A condition with times of these names.
pub(super) fn condition(times: &[&str]) -> Shape {
    let mut fields = std::collections::BTreeMap::from([
        ("type".to_owned(), always(string(), "")),
        ("status".to_owned(), always(string(), "")),
        ("reason".to_owned(), opt(string())),
        ("message".to_owned(), opt(string())),
    ]);
    fields.extend(times.iter().map(|time| ((*time).to_owned(), always(string(), Value::Null))));
    Shape::Struct(std::sync::Arc::new(fields))
}

/// core/v1 `Node`.
pub(crate) fn node() -> Shape {
    let info = [
        "architecture",
        "bootID",
        "containerRuntimeVersion",
        "kernelVersion",
        "kubeProxyVersion",
        "kubeletVersion",
        "machineID",
        "operatingSystem",
        "osImage",
        "systemUUID",
    ];
    let mut node_info: std::collections::BTreeMap<_, _> =
        info.iter().map(|name| ((*name).to_owned(), always(string(), ""))).collect();
    node_info.insert("swap".to_owned(), ptr(Shape::Untyped));
    let zero_info: serde_json::Map<String, Value> = info.iter().map(|name| ((*name).to_owned(), "".into())).collect();
    object([
        (
            "spec",
            always(
                structure([
                    ("podCIDR", opt(string())),
                    ("podCIDRs", opt(set(string()))),
                    ("providerID", opt(string())),
                    ("unschedulable", opt(boolean())),
                    (
                        "taints",
                        opt(atomic(structure([
                            ("key", always(string(), "")),
                            ("value", opt(string())),
                            ("effect", always(string(), "")),
                            ("timeAdded", ptr(string())),
                        ]))),
                    ),
                    ("configSource", ptr(node_config_source())),
                    ("externalID", opt(string())),
                    ("podPreemptionPolicy", ptr(Shape::Untyped)),
                ]),
                empty(),
            ),
        ),
        (
            "status",
            always(
                structure([
                    ("capacity", opt(map(scalar()))),
                    ("allocatable", opt(map(scalar()))),
                    ("phase", opt(string())),
                    ("conditions", opt(keyed("type", condition(&["lastHeartbeatTime", "lastTransitionTime"])))),
                    (
                        "addresses",
                        opt(keyed(
                            "type",
                            structure([("type", always(string(), "")), ("address", always(string(), ""))]),
                        )),
                    ),
                    (
                        "daemonEndpoints",
                        always(
                            structure([(
                                "kubeletEndpoint",
                                always(structure([("Port", always(integer(), 0))]), json!({"Port": 0})),
                            )]),
                            json!({"kubeletEndpoint": {"Port": 0}}),
                        ),
                    ),
                    ("nodeInfo", always(Shape::Struct(std::sync::Arc::new(node_info)), zero_info)),
                    ("images", opt(atomic(Shape::Untyped))),
                    ("volumesInUse", opt(atomic(string()))),
                    ("volumesAttached", opt(atomic(Shape::Untyped))),
                    (
                        "config",
                        ptr(structure([
                            ("assigned", ptr(node_config_source())),
                            ("active", ptr(node_config_source())),
                            ("lastKnownGood", ptr(node_config_source())),
                            ("error", opt(string())),
                        ])),
                    ),
                    ("runtimeHandlers", opt(atomic(Shape::Untyped))),
                    ("features", ptr(Shape::Untyped)),
                    ("declaredFeatures", opt(atomic(string()))),
                ]),
                empty(),
            ),
        ),
    ])
}

/// core/v1 `ConfigMap`.
pub(crate) fn config_map() -> Shape {
    object([("immutable", ptr(boolean())), ("data", opt(map(string()))), ("binaryData", opt(map(string())))])
}

/// core/v1 `Namespace`.
pub(crate) fn namespace() -> Shape {
    object([
        ("spec", always(structure([("finalizers", opt(atomic(string())))]), empty())),
        (
            "status",
            always(
                structure([
                    ("phase", opt(string())),
                    ("conditions", opt(keyed("type", condition(&["lastTransitionTime"])))),
                ]),
                empty(),
            ),
        ),
    ])
}

/// core/v1 `Event`. References are owned as a whole since 1.22.
pub(crate) fn event(profile: ServerProfile) -> Shape {
    let reference = || {
        let fields = structure([
            ("kind", opt(string())),
            ("namespace", opt(string())),
            ("name", opt(string())),
            ("uid", opt(string())),
            ("apiVersion", opt(string())),
            ("resourceVersion", opt(string())),
            ("fieldPath", opt(string())),
        ]);
        if profile == ServerProfile::V1_21 { fields } else { atomic_map(fields) }
    };
    object([
        ("involvedObject", always(reference(), empty())),
        ("reason", opt(string())),
        ("message", opt(string())),
        ("source", always(structure([("component", opt(string())), ("host", opt(string()))]), empty())),
        ("firstTimestamp", always(string(), Value::Null)),
        ("lastTimestamp", always(string(), Value::Null)),
        ("count", opt(integer())),
        ("type", opt(string())),
        ("eventTime", always(string(), Value::Null)),
        ("series", ptr(structure([("count", opt(integer())), ("lastObservedTime", always(string(), Value::Null))]))),
        ("action", opt(string())),
        ("related", ptr(reference())),
        ("reportingComponent", always(string(), "")),
        ("reportingInstance", always(string(), "")),
    ])
}

/// coordination.k8s.io/v1 `Lease`.
pub(crate) fn lease() -> Shape {
    object([(
        "spec",
        always(
            structure([
                ("holderIdentity", ptr(string())),
                ("leaseDurationSeconds", ptr(integer())),
                ("acquireTime", ptr(string())),
                ("renewTime", ptr(string())),
                ("leaseTransitions", ptr(integer())),
                ("strategy", ptr(string())),
                ("preferredHolder", ptr(string())),
            ]),
            empty(),
        ),
    )])
}

/// apiextensions.k8s.io/v1 `CustomResourceDefinition`.
pub(crate) fn custom_resource_definition() -> Shape {
    let names = || {
        structure([
            ("plural", always(string(), "")),
            ("singular", opt(string())),
            ("shortNames", opt(atomic(string()))),
            ("kind", always(string(), "")),
            ("listKind", opt(string())),
            ("categories", opt(atomic(string()))),
        ])
    };
    object([
        (
            "spec",
            always(
                structure([
                    ("group", always(string(), "")),
                    ("names", always(names(), json!({"plural": "", "kind": ""}))),
                    ("scope", always(string(), "")),
                    ("versions", always(atomic(Shape::Untyped), Value::Null)),
                    (
                        "conversion",
                        ptr(structure([("strategy", always(string(), "")), ("webhook", ptr(Shape::Untyped))])),
                    ),
                    ("preserveUnknownFields", opt(boolean())),
                ]),
                empty(),
            ),
        ),
        (
            "status",
            always(
                structure([
                    ("conditions", always(keyed("type", condition(&["lastTransitionTime"])), Value::Null)),
                    ("acceptedNames", always(names(), json!({"plural": "", "kind": ""}))),
                    ("storedVersions", always(atomic(string()), Value::Null)),
                    ("observedGeneration", opt(integer())),
                ]),
                empty(),
            ),
        ),
    ])
}

/// authorization.k8s.io/v1 `SelfSubjectAccessReview`.
pub(crate) fn self_subject_access_review() -> Shape {
    object([
        (
            "spec",
            always(
                structure([
                    (
                        "resourceAttributes",
                        ptr(structure([
                            ("namespace", opt(string())),
                            ("verb", opt(string())),
                            ("group", opt(string())),
                            ("version", opt(string())),
                            ("resource", opt(string())),
                            ("subresource", opt(string())),
                            ("name", opt(string())),
                            ("fieldSelector", ptr(Shape::Untyped)),
                            ("labelSelector", ptr(Shape::Untyped)),
                        ])),
                    ),
                    ("nonResourceAttributes", ptr(structure([("path", opt(string())), ("verb", opt(string()))]))),
                ]),
                empty(),
            ),
        ),
        (
            "status",
            always(
                structure([
                    ("allowed", always(boolean(), false)),
                    ("denied", opt(boolean())),
                    ("reason", opt(string())),
                    ("evaluationError", opt(string())),
                ]),
                json!({"allowed": false}),
            ),
        ),
    ])
}
