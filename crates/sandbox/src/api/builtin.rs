//! The shapes of the built-in kinds, after `k8s.io/api` and apimachinery `ObjectMeta` (1.21 to 1.36).

use serde_json::{Value, json};

use super::character::ServerProfile;
use super::shape::{
    Field, Shape, always, atomic, boolean, integer, keyed, map, opt, ptr, scalar, set, structure, text, whole,
};

fn empty() -> Value {
    json!({})
}

/// apimachinery `ObjectMeta`.
pub(crate) fn object_meta() -> Shape {
    structure([
        ("name", opt(text())),
        ("generateName", opt(text())),
        ("namespace", opt(text())),
        ("selfLink", opt(text())),
        ("uid", opt(text())),
        ("resourceVersion", opt(text())),
        ("generation", opt(integer())),
        ("creationTimestamp", opt(text())),
        ("deletionTimestamp", ptr(text())),
        ("deletionGracePeriodSeconds", ptr(integer())),
        ("labels", opt(map(text()))),
        ("annotations", opt(map(text()))),
        (
            "ownerReferences",
            opt(keyed(
                "uid",
                structure([
                    ("apiVersion", always(text(), "")),
                    ("kind", always(text(), "")),
                    ("name", always(text(), "")),
                    ("uid", always(text(), "")),
                    ("controller", ptr(boolean())),
                    ("blockOwnerDeletion", ptr(boolean())),
                ]),
            )),
        ),
        ("finalizers", opt(set(text()))),
        ("managedFields", opt(atomic(Shape::Free))),
    ])
}

fn object<const N: usize>(fields: [(&str, Field); N]) -> Shape {
    let mut all = std::collections::BTreeMap::from([
        ("apiVersion".to_owned(), opt(text())),
        ("kind".to_owned(), opt(text())),
        ("metadata".to_owned(), always(object_meta(), empty())),
    ]);
    all.extend(fields.into_iter().map(|(name, field)| (name.to_owned(), field)));
    Shape::Struct(std::sync::Arc::new(all))
}

fn node_config_source() -> Shape {
    structure([(
        "configMap",
        ptr(structure([
            ("kubeletConfigKey", always(text(), "")),
            ("name", always(text(), "")),
            ("namespace", always(text(), "")),
            ("resourceVersion", opt(text())),
            ("uid", opt(text())),
        ])),
    )])
}

fn condition(times: &[&str]) -> Shape {
    let mut fields = std::collections::BTreeMap::from([
        ("type".to_owned(), always(text(), "")),
        ("status".to_owned(), always(text(), "")),
        ("reason".to_owned(), opt(text())),
        ("message".to_owned(), opt(text())),
    ]);
    fields.extend(times.iter().map(|time| ((*time).to_owned(), always(text(), Value::Null))));
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
        info.iter().map(|name| ((*name).to_owned(), always(text(), ""))).collect();
    node_info.insert("swap".to_owned(), ptr(Shape::Free));
    let zero_info: serde_json::Map<String, Value> = info.iter().map(|name| ((*name).to_owned(), "".into())).collect();
    object([
        (
            "spec",
            always(
                structure([
                    ("podCIDR", opt(text())),
                    ("podCIDRs", opt(set(text()))),
                    ("providerID", opt(text())),
                    ("unschedulable", opt(boolean())),
                    (
                        "taints",
                        opt(atomic(structure([
                            ("key", always(text(), "")),
                            ("value", opt(text())),
                            ("effect", always(text(), "")),
                            ("timeAdded", ptr(text())),
                        ]))),
                    ),
                    ("configSource", ptr(node_config_source())),
                    ("externalID", opt(text())),
                    ("podPreemptionPolicy", ptr(Shape::Free)),
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
                    ("phase", opt(text())),
                    ("conditions", opt(keyed("type", condition(&["lastHeartbeatTime", "lastTransitionTime"])))),
                    (
                        "addresses",
                        opt(keyed("type", structure([("type", always(text(), "")), ("address", always(text(), ""))]))),
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
                    ("images", opt(atomic(Shape::Free))),
                    ("volumesInUse", opt(atomic(text()))),
                    ("volumesAttached", opt(atomic(Shape::Free))),
                    (
                        "config",
                        ptr(structure([
                            ("assigned", ptr(node_config_source())),
                            ("active", ptr(node_config_source())),
                            ("lastKnownGood", ptr(node_config_source())),
                            ("error", opt(text())),
                        ])),
                    ),
                    ("runtimeHandlers", opt(atomic(Shape::Free))),
                    ("features", ptr(Shape::Free)),
                    ("declaredFeatures", opt(atomic(text()))),
                ]),
                empty(),
            ),
        ),
    ])
}

/// core/v1 `ConfigMap`.
pub(crate) fn config_map() -> Shape {
    object([("immutable", ptr(boolean())), ("data", opt(map(text()))), ("binaryData", opt(map(text())))])
}

/// core/v1 `Namespace`.
pub(crate) fn namespace() -> Shape {
    object([
        ("spec", always(structure([("finalizers", opt(atomic(text())))]), empty())),
        (
            "status",
            always(
                structure([
                    ("phase", opt(text())),
                    ("conditions", opt(keyed("type", condition(&["lastTransitionTime"])))),
                ]),
                empty(),
            ),
        ),
    ])
}

/// core/v1 `Event`. References have been owned whole since 1.22.
pub(crate) fn event(character: ServerProfile) -> Shape {
    let reference = || {
        let fields = structure([
            ("kind", opt(text())),
            ("namespace", opt(text())),
            ("name", opt(text())),
            ("uid", opt(text())),
            ("apiVersion", opt(text())),
            ("resourceVersion", opt(text())),
            ("fieldPath", opt(text())),
        ]);
        if character == ServerProfile::V1_21 { fields } else { whole(fields) }
    };
    object([
        ("involvedObject", always(reference(), empty())),
        ("reason", opt(text())),
        ("message", opt(text())),
        ("source", always(structure([("component", opt(text())), ("host", opt(text()))]), empty())),
        ("firstTimestamp", always(text(), Value::Null)),
        ("lastTimestamp", always(text(), Value::Null)),
        ("count", opt(integer())),
        ("type", opt(text())),
        ("eventTime", always(text(), Value::Null)),
        ("series", ptr(structure([("count", opt(integer())), ("lastObservedTime", always(text(), Value::Null))]))),
        ("action", opt(text())),
        ("related", ptr(reference())),
        ("reportingComponent", always(text(), "")),
        ("reportingInstance", always(text(), "")),
    ])
}

/// coordination.k8s.io/v1 `Lease`.
pub(crate) fn lease() -> Shape {
    object([(
        "spec",
        always(
            structure([
                ("holderIdentity", ptr(text())),
                ("leaseDurationSeconds", ptr(integer())),
                ("acquireTime", ptr(text())),
                ("renewTime", ptr(text())),
                ("leaseTransitions", ptr(integer())),
                ("strategy", ptr(text())),
                ("preferredHolder", ptr(text())),
            ]),
            empty(),
        ),
    )])
}

/// apiextensions.k8s.io/v1 `CustomResourceDefinition`.
pub(crate) fn custom_resource_definition() -> Shape {
    let names = || {
        structure([
            ("plural", always(text(), "")),
            ("singular", opt(text())),
            ("shortNames", opt(atomic(text()))),
            ("kind", always(text(), "")),
            ("listKind", opt(text())),
            ("categories", opt(atomic(text()))),
        ])
    };
    object([
        (
            "spec",
            always(
                structure([
                    ("group", always(text(), "")),
                    ("names", always(names(), json!({"plural": "", "kind": ""}))),
                    ("scope", always(text(), "")),
                    ("versions", always(atomic(Shape::Free), Value::Null)),
                    ("conversion", ptr(structure([("strategy", always(text(), "")), ("webhook", ptr(Shape::Free))]))),
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
                    ("storedVersions", always(atomic(text()), Value::Null)),
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
                            ("namespace", opt(text())),
                            ("verb", opt(text())),
                            ("group", opt(text())),
                            ("version", opt(text())),
                            ("resource", opt(text())),
                            ("subresource", opt(text())),
                            ("name", opt(text())),
                            ("fieldSelector", ptr(Shape::Free)),
                            ("labelSelector", ptr(Shape::Free)),
                        ])),
                    ),
                    ("nonResourceAttributes", ptr(structure([("path", opt(text())), ("verb", opt(text()))]))),
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
                    ("reason", opt(text())),
                    ("evaluationError", opt(text())),
                ]),
                json!({"allowed": false}),
            ),
        ),
    ])
}
