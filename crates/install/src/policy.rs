//! ValidatingAdmissionPolicies, for what RBAC cannot express.
//!
//! One restricts an agent to the status of its own node's NodeConfig, and to its creation if nodes join. RBAC gives every
//! agent the same rights. Without the policy, an attacker with control of one node could falsify the status of other
//! nodes, and a failing rollout would continue.
//!
//! One restricts an agent to the removal of the startup taint from its own Node.
//!
//! One for each namespace keeps ConfigMaps of nodecfg out of the hands of other writers there. Agents refuse other
//! content anyway, but a deleted ConfigMap stops a rollout.
//!
//! The API server evaluates them after it has prepared the object: a generated name is set, and an update of a status has
//! the metadata and the spec of the old object (k8s.io/apiserver `pkg/registry/generic/registry/store.go`,
//! apiextensions-apiserver `pkg/registry/customresource/status_strategy.go`).

use nodecfg_contract::ContentHash;
use nodecfg_contract::installation::{
    FORMER_CONFIG_MAPS_POLICY, NOT_A_WRITER, OWN_NODE_POLICY, OWN_STATUS_POLICY, config_maps_policy,
};
use nodecfg_contract::labels::{MANAGED_BY_LABEL, MANAGER};
use nodecfg_contract::nodeconfig::CONFIG_READY;
use nodecfg_contract::pool_pointer::{STARTUP_TAINT, STARTUP_TAINT_EFFECT};
use serde_json::{Value, json};

use super::identity::Identity;
use super::{AGENT, PRUNER, RECONCILER, labels};

/// CEL condition: the request is for the object itself, not for a subresource.
const WHOLE: &str = "(!has(request.subResource) || request.subResource == '')";

/// CEL condition: the maps at this path are equal before and after the request, except for these keys. It compares key by
/// key, so that it covers fields of later versions of Kubernetes.
fn same(path: &str, except: &[&str]) -> String {
    let except = json!(except);
    format!(
        "object.{path}.all(key, key in {except} || \
         key in oldObject.{path} && object.{path}[key] == oldObject.{path}[key]) && \
         oldObject.{path}.all(key, key in {except} || key in object.{path})"
    )
}

/// CEL condition: all keys of a map are among these.
fn only(map: &str, keys: &[&str]) -> String {
    format!("{map}.all(key, key in {})", json!(keys))
}

/// The policy and its binding for NodeConfigs, for both kinds of agents, regardless of which was installed last. A user
/// without a known node may not write. `creates`: agents may also create the NodeConfig of their node.
pub fn own_status_only(creates: bool) -> [Value; 2] {
    let own_status = format!(
        "request.operation == 'UPDATE' && has(request.subResource) && request.subResource == 'status' && \
         request.name == variables.node && {}",
        same("metadata", &["managedFields", "resourceVersion"])
    );
    let create = format!("request.operation == 'CREATE' && {WHOLE} && object.metadata.name == variables.node");
    let (own, allowed) = match creates {
        false => (own_status, "write nothing but the status of the NodeConfig of its own node"),
        true => {
            let allowed = "do nothing but create the NodeConfig of its own node and write its status";
            (format!("({own_status} || {create})"), allowed)
        }
    };
    let mut validations = vec![(format!("variables.node != '' && {own}"), of_agent(allowed))];
    if creates {
        let form = format!("request.operation != 'CREATE' || {}", created());
        let message = "create a NodeConfig only as nodecfg-agent does: owned by its Node alone, with spec.selfAssigned \
                       and a content hash, without other labels, annotations, finalizers or fields";
        validations.push((form, of_agent(message)));
    }
    policy_of_agents(&AgentPolicy {
        name: OWN_STATUS_POLICY,
        group: "nodecfg.dev",
        resources: &["nodeconfigs", "nodeconfigs/*"],
        identities: &Identity::ALL,
        variables: vec![("nodeUid", Identity::node_uid())],
        validations,
    })
}

/// CEL condition: the object is a NodeConfig as an agent creates it (`crates/agent/src/api/join.rs`). The API server adds
/// uid, creation time, generation and managed fields. The claim of a pod's token gives the uid of its Node; the identity
/// of a kubelet has none.
fn created() -> String {
    let metadata = ["creationTimestamp", "generation", "labels", "managedFields", "name", "ownerReferences", "uid"];
    let owner = format!(
        "object.metadata.ownerReferences.all(owner, {} && owner.apiVersion == 'v1' && owner.kind == 'Node' && \
         owner.name == variables.node && (variables.nodeUid == '' || owner.uid == variables.nodeUid))",
        only("owner", &["apiVersion", "kind", "name", "uid"])
    );
    let conditions = [
        only("object.metadata", &metadata),
        format!("object.metadata.labels == {}", json!({MANAGED_BY_LABEL: MANAGER})),
        "size(object.metadata.ownerReferences) == 1".to_owned(),
        owner,
        format!(
            "(!has(object.metadata.managedFields) || \
             object.metadata.managedFields.all(entry, entry.manager == '{AGENT}'))"
        ),
        only("object.spec", &["configSource", "contentHash", "maxDisruption", "placement", "selfAssigned"]),
        "object.spec.selfAssigned".to_owned(),
        format!("object.spec.contentHash.matches('^{}[0-9a-f]{{64}}$')", ContentHash::PREFIX),
        // A booted node, and a node with the startup taint.
        "object.spec.maxDisruption in ['restart', 'drain']".to_owned(),
        only("object.spec.configSource", &["configMap"]),
        only("object.spec.configSource.configMap", &["kubeletConfigKey", "name", "namespace"]),
    ];
    conditions.join(" && ")
}

/// The policy and its binding for Nodes, for every ServiceAccount with the agent's name. An agent may make two changes of its
/// own Node: remove the startup taint, and set the condition that repeats Ready of its NodeConfig.
pub fn own_node_only() -> [Value; 2] {
    let expression = format!(
        "variables.node != '' && request.operation == 'UPDATE' && request.name == variables.node && {} && ({} || {})",
        same("metadata", &["generation", "managedFields", "resourceVersion"]),
        startup_taint_removed(),
        condition_set()
    );
    let managed = |object: &str| format!("has({object}.metadata.managedFields) ? {object}.metadata.managedFields : []");
    policy_of_agents(&AgentPolicy {
        name: OWN_NODE_POLICY,
        group: "",
        resources: &["nodes", "nodes/*"],
        identities: &[Identity::Pod],
        variables: vec![("fields", managed("object")), ("oldFields", managed("oldObject"))],
        validations: vec![
            (
                expression,
                of_agent(
                    "change nothing of Nodes but its own: remove the startup taint, and set the condition ConfigReady",
                ),
            ),
            (
                format!("request.operation != 'UPDATE' || {}", same_owners_of_fields()),
                of_agent("not change managedFields of its Node beyond the owner of the taints and of its condition"),
            ),
        ],
    })
}

/// CEL condition: the request removes the startup taint, or nothing. The API server itself ignores changes of the status in
/// such a request.
fn startup_taint_removed() -> String {
    let taints = |object: &str| format!("(has({object}.spec.taints) ? {object}.spec.taints : [])");
    format!(
        "{WHOLE} && {} && {} == {}.filter(taint, \
         !(taint.key == '{STARTUP_TAINT}' && taint.effect == '{STARTUP_TAINT_EFFECT}'))",
        same("spec", &["taints"]),
        taints("object"),
        taints("oldObject")
    )
}

/// CEL condition: the request sets the condition ConfigReady of a status and changes nothing else of it.
fn condition_set() -> String {
    let conditions = |object: &str| format!("(has({object}.status.conditions) ? {object}.status.conditions : [])");
    let others = |object: &str| format!("{}.filter(found, found.type != '{CONFIG_READY}')", conditions(object));
    // Two of one type would break every later server-side apply of the status.
    format!(
        "has(request.subResource) && request.subResource == 'status' && object.spec == oldObject.spec && {} && \
         {} == {} && {}.exists_one(found, found.type == '{CONFIG_READY}')",
        same("status", &["conditions"]),
        others("object"),
        others("oldObject"),
        conditions("object"),
    )
}

/// CEL condition: the request changes only the entries of `managedFields` that an update of the taints or of the condition
/// changes. The API server
/// - removes `f:taints` from the entries of others, and then entries without fields (structured-merge-diff
///   `merge/update.go`);
/// - writes the entry of the agent, unless no taint is left;
/// - merges old entries into `ancient-changes` if there are more than ten of updates (apimachinery
///   `pkg/util/managedfields/internal/capmanagers.go`).
///
/// It takes everything else of `managedFields` from the request, also an empty list, and entries in the name of others:
/// their next apply would remove the fields that such an entry names.
fn same_owners_of_fields() -> String {
    let agent = |entry: &str| format!("{entry}.manager == '{AGENT}' && {entry}.operation == 'Update'");
    let own_only = |entry: &str| {
        let condition = format!("k:{}", json!({"type": CONFIG_READY}));
        format!(
            "{entry}.fieldsV1.all(key, {entry}.fieldsV1[key].all(field, key == 'f:spec' && field == 'f:taints' || \
             key == 'f:status' && field == 'f:conditions' && \
             {entry}.fieldsV1[key][field].all(item, item in ['.', '{condition}'])))"
        )
    };
    let same = "(entry.manager == old.manager && \
                entry.all(key, key == 'fieldsV1' || key in old && entry[key] == old[key]) && \
                old.all(key, key == 'fieldsV1' || key in entry) && \
                entry.fieldsV1.all(key, key in old.fieldsV1 && (key == 'f:spec' ? \
                entry.fieldsV1[key].all(field, field in old.fieldsV1[key] && \
                entry.fieldsV1[key][field] == old.fieldsV1[key][field]) : \
                entry.fieldsV1[key] == old.fieldsV1[key])) && \
                old.fieldsV1.all(key, key == 'f:spec' ? \
                old.fieldsV1[key].all(field, field == 'f:taints' || \
                key in entry.fieldsV1 && field in entry.fieldsV1[key]) : key in entry.fieldsV1))";
    let many = "size(variables.oldFields.filter(old, old.operation == 'Update')) >= 10";
    let ancient = "entry.manager == 'ancient-changes' && entry.operation == 'Update'";
    format!(
        "variables.oldFields.all(old, {} || {} || variables.fields.exists(entry, {same}) || \
         {many} && old.operation == 'Update' && variables.fields.exists(entry, {ancient}) && \
         size(variables.fields.filter(entry, entry.operation == 'Update')) >= 10) && \
         variables.fields.all(entry, {} && {} || variables.oldFields.exists(old, {same}) || {many} && {ancient})",
        agent("old"),
        own_only("old"),
        agent("entry"),
        own_only("entry"),
    )
}

/// CEL expression for the message of a refusal.
fn of_agent(may: &str) -> String {
    format!("'the agent of ' + (variables.node == '' ? 'an unknown node' : 'node ' + variables.node) + ' may {may}'")
}

/// Policy for writes of agents.
struct AgentPolicy<'a> {
    name: &'a str,
    group: &'a str,
    resources: &'a [&'a str],
    /// Users to whom it applies.
    identities: &'a [Identity],
    /// Names and CEL expressions, beside `node`.
    variables: Vec<(&'a str, String)>,
    /// CEL conditions, and expressions for the messages.
    validations: Vec<(String, String)>,
}

fn policy_of_agents(policy: &AgentPolicy<'_>) -> [Value; 2] {
    let AgentPolicy { name, group, resources, identities, variables, validations } = policy;
    let node = [("node", Identity::node_of(identities))];
    let variables = node.iter().chain(variables).map(|(name, text)| json!({"name": name, "expression": text}));
    let validations = validations.iter().map(
        |(expression, message)| json!({"expression": expression, "messageExpression": message, "reason": "Forbidden"}),
    );
    [
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name, "labels": labels(Some("agent"))},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "resourceRules": [{
                        "apiGroups": [group],
                        "apiVersions": ["*"],
                        // Also what a later right may allow, such as CONNECT to nodes/proxy.
                        "operations": ["*"],
                        "resources": resources,
                    }],
                },
                "matchConditions": [{"name": "agents", "expression": Identity::any(identities)}],
                "variables": variables.collect::<Vec<_>>(),
                "validations": validations.collect::<Vec<_>>(),
            },
        }),
        binding(name, "agent"),
    ]
}

/// Label of a namespace with its name, which the API server sets and keeps.
const NAMESPACE_LABEL: &str = "kubernetes.io/metadata.name";
/// Start of the expression of the policy for ConfigMaps, before the list of writers.
const IS_WRITER: &str = "request.userInfo.username in ";

/// Users who may write the ConfigMaps of a namespace: the ServiceAccounts of the reconciler and of `prune`, and `others`.
#[must_use]
pub fn config_map_writers(namespace: &str, others: &[String]) -> Vec<String> {
    let own = [RECONCILER, PRUNER].map(|name| format!("system:serviceaccount:{namespace}:{name}"));
    own.into_iter().chain(others.iter().cloned()).collect()
}

/// Users whom a policy of [`config_maps_of`] allows to write. Empty for a policy with another expression.
#[must_use]
pub fn writers_of(policy: &Value) -> Vec<String> {
    let expression = policy.pointer("/spec/validations/0/expression").and_then(Value::as_str).unwrap_or_default();
    let list = expression.strip_prefix(IS_WRITER).unwrap_or_default();
    serde_json::Deserializer::from_str(list).into_iter().next().and_then(Result::ok).unwrap_or_default()
}

/// Namespace whose ConfigMaps a policy of [`config_maps_of`] protects. `None` for other policies.
#[must_use]
pub fn protected_namespace(policy: &Value) -> Option<&str> {
    policy.pointer("/spec/matchConstraints/namespaceSelector/matchLabels")?.get(NAMESPACE_LABEL)?.as_str()
}

/// The policy of earlier versions for the same ConfigMaps, and its binding, which come first.
#[must_use]
pub fn former_config_maps_policy() -> [Value; 2] {
    ["ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"].map(|kind| {
        let metadata = json!({"name": FORMER_CONFIG_MAPS_POLICY});
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": metadata})
    })
}

/// The policy and its binding for labeled ConfigMaps of a namespace, with its [writers](config_map_writers). The
/// namespace controller may delete, so that the namespace can be deleted.
pub fn config_maps_of(namespace: &str, others: &[String]) -> [Value; 2] {
    // A list of JSON strings is a list in CEL.
    let writers = json!(config_map_writers(namespace, others));
    let name = config_maps_policy(namespace);
    let message = format!(
        "'only the reconciler of nodecfg and the users that nodecfg install names (--config-map-writer) may ' + \
         '{NOT_A_WRITER}' + request.userInfo.username"
    );
    [
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name, "labels": labels(Some("reconciler"))},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "namespaceSelector": {"matchLabels": {NAMESPACE_LABEL: namespace}},
                    // Applies to the object before and after the request: removing the label is a write, too.
                    "objectSelector": {"matchLabels": {MANAGED_BY_LABEL: MANAGER}},
                    "resourceRules": [{
                        "apiGroups": [""],
                        "apiVersions": ["*"],
                        "operations": ["CREATE", "UPDATE", "DELETE"],
                        "resources": ["configmaps"],
                    }],
                },
                "validations": [{
                    "expression": format!(
                        "{IS_WRITER}{writers} || request.operation == 'DELETE' && \
                         request.userInfo.username == 'system:serviceaccount:kube-system:namespace-controller'"
                    ),
                    "messageExpression": message,
                    "reason": "Forbidden",
                }],
            },
        }),
        binding(&name, "reconciler"),
    ]
}

fn binding(policy: &str, component: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": policy, "labels": labels(Some(component))},
        "spec": {"policyName": policy, "validationActions": ["Deny"]},
    })
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
