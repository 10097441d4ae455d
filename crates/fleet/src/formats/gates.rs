//! `spec.rollout.gates`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::json;

use crate::RolloutPolicy;
use crate::fields::{At, Fields, Located, Map, ReadField, bad_value, choices, dns_label_schema, map};
use crate::gates::{
    Baseline, Gate, GateCheck, MAX_GATES, MAX_JSON_PATH, MAX_QUERY, Moment, NODE, PATIENCE, PrometheusQuery, Wanted,
    parse_condition, parse_json_path_value,
};
use kubelet_config::document::Node;
use kubelet_config::finding::{Finding, Place};
use kubelet_config::values::label::{check_dns_subdomain, check_label_key, check_label_value};
use nodecfg_contract::names::{GateName, NamespaceName};
use nodecfg_contract::{ObjectId, ObjectRef};

map! {
    /// A condition that must hold before a step of a rollout. Exactly one of prometheus and object.
    #[schema(json!({"oneOf": [{"required": ["prometheus"]}, {"required": ["object"]}]}))]
    pub struct GateSpec {
        /// Name, unique among the gates of fleet or pool: lower-case letters, digits and '-', up to 63 characters. A
        /// gate of a pool replaces the gate of the fleet with the same name.
        #[required("name: error-rate")]
        #[schema(dns_label_schema())]
        "name" => name: Located<GateName>,
        /// Query of Prometheus. Its address is an option of the command line.
        "prometheus" => prometheus: Option<PrometheusSpec>,
        /// State of a Kubernetes object.
        "object" => object: Option<ObjectSpec>,
        /// Steps that the gate guards: start (before the first node), node (before each further node), soak (during the
        /// soak of canaries, of a step, or of a domain). [] switches the gate off. Default: all.
        #[default(BTreeSet::from(Moment::ALL))]
        "at" => at: BTreeSet<Moment>,
        /// Time that a rollout waits for the gate between nodes, or at the end of a soak, before it stops. Default
        /// {default}.
        #[default(PATIENCE)]
        "patience" => patience: Duration,
    }
}

map! {
    /// Query of Prometheus.
    pub struct PrometheusSpec {
        /// PromQL expression. Each series of its result is a problem; without a series, the gate passes.
        #[required("query: \"<expression>\", whose series are problems")]
        #[schema(json!({"minLength": 1, "maxLength": MAX_QUERY}))]
        #[check(expression)]
        "query" => query: String,
        /// PromQL expression that has a result if the data of the query is collected. Without it, missing data would
        /// pass.
        #[required("present: \"<expression>\", which has data while the query is collected; without it, missing data would pass")]
        #[schema(json!({"minLength": 1, "maxLength": MAX_QUERY}))]
        #[check(expression)]
        "present" => present: String,
        /// Whether series of the query that fired before the first node block: no (use), or yes (ignore). Default
        /// {default}.
        #[default(Baseline::Use)]
        "baseline" => baseline: Baseline,
    }
}

map! {
    /// State of a Kubernetes object. Exactly one of name and label, and one of condition and jsonPath. Secrets are not allowed.
    #[schema(json!({
        "allOf": [
            {"oneOf": [{"required": ["name"]}, {"required": ["label"]}]},
            {"oneOf": [{"required": ["condition"]}, {"required": ["jsonPath"]}]},
        ],
        "not": {"properties": {"apiVersion": {"const": "v1"}, "kind": {"const": "Secret"}}, "required": ["apiVersion", "kind"]},
    }))]
    #[check(one_wanted)]
    pub struct ObjectSpec {
        /// v1, or GROUP/VERSION.
        #[required("apiVersion: apps/v1")]
        #[schema(json!({"pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?v[a-z0-9]+$"}))]
        "apiVersion" => api_version: ApiVersion,
        /// Kind, such as Deployment.
        #[required("kind: Deployment")]
        #[schema(json!({"pattern": r"^[A-Z][A-Za-z0-9]{0,62}$"}))]
        "kind" => kind: Kind,
        /// Namespace. Unset for objects of the cluster.
        #[schema(dns_label_schema())]
        "namespace" => namespace: Option<ObjectNamespace>,
        /// Name. {node} in it stands for the name of each node: the gate is asked for a node right before it starts, and
        /// guards nothing else.
        #[schema(json!({
            "minLength": 1,
            "maxLength": 253,
            "pattern": r"^([A-Za-z0-9:]|\{node\})(([-A-Za-z0-9_.:]|\{node\})*([A-Za-z0-9:]|\{node\}))?$",
        }))]
        "name" => name: Option<ObjectName>,
        /// Instead of a name, a label with {node} in its value, such as "example.com/node={node}". One object must have it.
        #[schema(json!({"pattern": r"^[-A-Za-z0-9_./]+=[-A-Za-z0-9_.]*\{node\}[-A-Za-z0-9_.]*$"}))]
        "label" => label: Option<NodeLabel>,
        /// Condition of the status, such as "Available=True".
        #[schema(json!({"pattern": r"^[^=]+=(True|False|Unknown)$"}))]
        "condition" => condition: Option<Condition>,
        /// JSONPath of names and indexes, and the value, such as "{.status.phase}=Running".
        #[schema(json!({
            "maxLength": MAX_JSON_PATH,
            "pattern": r#"^\{\$?(\.(\\[^}]|[^\\.\[\](){}*?'"\s])+|\[(-?[0-9]+|'(\\.|[^'\\])+'|"(\\.|[^"\\])+")\])+\}=.+$"#,
        }))]
        "jsonPath" => json_path: Option<JsonPathValue>,
    }
}

/// Gates of a fleet or pool, with different names.
#[derive(Debug, Clone, Default)]
pub struct Gates(pub Vec<Gate>);

impl ReadField for Gates {
    type Schema = Vec<GateSpec>;

    fn read(at: &mut At<'_>) -> Option<Self> {
        let length = at.node.sequence().map_or(0, <[Node]>::len);
        if length > MAX_GATES {
            at.refuse(&format!("{length} gates are too many"), format!("keep at most {MAX_GATES} gates"));
            return None;
        }
        let mut places: BTreeMap<GateName, Place> = BTreeMap::new();
        Some(Self(at.items(|at| {
            let fields = Fields::open(at.node, at.path, GateSpec::KEYS, at.findings)?;
            fix_boolean_key(&fields, at.findings);
            let fields = with_one_check(fields, at);
            let gate = GateSpec::read_fields(&fields, at.findings)?;
            let Located { value: name, place } = &gate.name;
            if let Some(first) = places.insert(name.clone(), place.clone()) {
                let problem = format!("two gates have the name {name}");
                let finding = bad_value(&fields.path("name"), fields.get("name")?, &problem);
                at.findings.push(finding.related(first, "the other gate").help(format!("write {name}-2")));
            }
            let mut gate = gate.gate()?;
            if let Some((key, node)) = literal_node(&fields, at.path) {
                let problem = format!("{NODE} stands for a node in the name and the label of an object only");
                at.findings.push(bad_value(&key, node, &problem).help(format!("write no {NODE} here")));
            }
            match fields.get("at") {
                _ if !gate.is_of_nodes() => {}
                None => gate.at = [Moment::Node].into(),
                Some(node) if gate.at.iter().any(|moment| *moment != Moment::Node) => {
                    let problem = format!("a gate with {NODE} is asked before each node, and guards no other step");
                    at.findings.push(bad_value(&fields.path("at"), node, &problem).help("write [node]"));
                }
                Some(_) => {}
            }
            Some(gate)
        })))
    }
}

impl Gates {
    /// Gates of a pool: its own, and those of its fleet with other names. In the order of their names.
    pub(super) fn merged(&self, fleet: &Self) -> Vec<Gate> {
        let named = |gate: &Gate| (gate.name.clone(), gate.clone());
        let all: BTreeMap<GateName, Gate> = fleet.0.iter().chain(&self.0).map(named).collect();
        all.into_values().collect()
    }
}

/// Proposes the right field for `on`, which YAML 1.1 reads as the boolean true.
fn fix_boolean_key(gate: &Fields<'_>, findings: &mut [Finding]) {
    let paths = [gate.path("true"), gate.path("on")].map(Some);
    for finding in findings.iter_mut().filter(|one| paths.contains(&one.field)) {
        finding.help = Some("did you mean \"at\"?".to_owned());
    }
}

/// The first field of a gate with a `{node}` that nothing replaces, and its path.
fn literal_node<'n>(gate: &Fields<'n>, path: &str) -> Option<(String, &'n Node)> {
    const TEXTS: [(&str, &str); 4] =
        [("prometheus", "query"), ("prometheus", "present"), ("object", "condition"), ("object", "jsonPath")];
    TEXTS.iter().find_map(|(check, key)| {
        let node = gate.get(check)?.get(key)?;
        node.text().is_some_and(|text| text.contains(NODE)).then(|| (format!("{path}.{check}.{key}"), node))
    })
}

/// Reports a gate without exactly one check. The fields of two checks stay unread.
fn with_one_check<'n>(gate: Fields<'n>, at: &mut At<'_>) -> Fields<'n> {
    const CHECKS: [&str; 2] = ["prometheus", "object"];
    match CHECKS.iter().filter(|key| gate.get(key).is_some()).count() {
        0 => at.findings.push(gate.missing("prometheus", "prometheus or object; one of them is required")),
        1 => {}
        _ => {
            let finding = Finding::error("bad-value", format!("`{}` has prometheus and object", at.path));
            let finding = finding.at(at.node.place.clone()).field(gate.path("object"));
            at.findings.push(finding.help("remove it, and write a second gate"));
            return gate.without(&CHECKS);
        }
    }
    gate
}

impl GateSpec {
    /// The gate. `None` without a valid check.
    fn gate(self) -> Option<Gate> {
        let prometheus = self.prometheus.map(|PrometheusSpec { query, present, baseline }| GateCheck::Prometheus {
            query: PrometheusQuery { query, present },
            baseline,
        });
        let check = prometheus.or_else(|| {
            let ObjectSpec { api_version, kind, namespace, name, label, condition, json_path } = self.object?;
            let object = ObjectRef {
                api_version: api_version.0,
                kind: kind.0,
                namespace: namespace.map(|namespace| namespace.0),
                by: name.map(|name| ObjectId::Name(name.0)).or(label.map(|label| label.0))?,
            };
            let wanted = condition.map(|one| one.0).or(json_path.map(|one| one.0))?;
            Some(GateCheck::Object { object, wanted })
        })?;
        Some(Gate { name: self.name.value, check, at: self.at, patience: self.patience })
    }
}

/// Reports a pool that has too many gates together with its fleet.
pub(crate) fn report_too_many(policy: &RolloutPolicy, place: &Place, findings: &mut Vec<Finding>) {
    let gates = policy.gates.len();
    if gates > MAX_GATES {
        let message = format!("the pool has {gates} gates, with those of the fleet; the limit is {MAX_GATES}");
        let finding = Finding::error("bad-value", message).at(place.clone()).field("spec.rollout.gates");
        findings.push(finding.help(format!("keep at most {MAX_GATES} gates in pool and fleet")));
    }
}

choices! {
    Moment: "step", Moment::ALL.map(|moment| (moment.as_str(), moment));
}

impl ReadField for Baseline {
    type Schema = Self;

    fn read(at: &mut At<'_>) -> Option<Self> {
        at.parse(|text| match text {
            "use" => Ok(Self::Use),
            "ignore" => Ok(Self::Ignore),
            other => Err((format!("unknown value {other:?}"), "use one of use, ignore".to_owned())),
        })
    }

    fn notation(&self) -> String {
        match self {
            Self::Use => "use",
            Self::Ignore => "ignore",
        }
        .to_owned()
    }
}

/// Checks an expression of PromQL, whose syntax only Prometheus can check.
fn expression(text: String, at: &mut At<'_>) -> Option<String> {
    let length = text.chars().count();
    let problem = if text.trim().is_empty() {
        "it is empty".to_owned()
    } else if length > MAX_QUERY {
        format!("{length} characters are too many; the limit is {MAX_QUERY}")
    } else {
        return Some(text);
    };
    at.refuse(&problem, "use a recording rule, and write its name");
    None
}

/// Checks what concerns several fields of an object.
fn one_wanted(object: Option<ObjectSpec>, fields: &Fields<'_>, findings: &mut Vec<Finding>) -> Option<ObjectSpec> {
    let before = findings.len();
    let text = |key: &str| fields.get(key).and_then(Node::text);
    if text("apiVersion") == Some("v1")
        && text("kind") == Some("Secret")
        && let Some(node) = fields.get("kind")
    {
        let problem = "a gate must not read Secrets, because reports show what it reads";
        findings.push(bad_value(&fields.path("kind"), node, problem).help("write ConfigMap, or another kind"));
    }
    match (fields.get("condition"), fields.get("jsonPath")) {
        (Some(_), Some(node)) => {
            let finding = bad_value(&fields.path("jsonPath"), node, "the gate has a condition, too");
            findings.push(finding.help("remove it, and write a second gate"));
        }
        (None, None) => {
            findings.push(fields.missing("condition", "condition: \"Available=True\", or write a jsonPath"));
        }
        _ => {}
    }
    match (fields.get("name"), fields.get("label")) {
        (Some(_), Some(node)) => {
            let finding = bad_value(&fields.path("label"), node, "the object has a name, too");
            findings.push(finding.help("remove the label, or the name"));
        }
        (None, None) => findings.push(fields.missing("name", "name: gateway, or write a label")),
        _ => {}
    }
    let is_complete = |object: &ObjectSpec| object.namespace.is_some() == fields.get("namespace").is_some();
    object.filter(|object| findings.len() == before && is_complete(object))
}

/// Declares types of texts, each with its parser, and the fix for a text that the parser refuses.
macro_rules! texts {
    ($($(#[doc = $doc:literal])+ $type:ident($content:ty): $parse:expr, $help:expr;)+) => {$(
        $(#[doc = $doc])+
        #[derive(Debug, Clone)]
        pub struct $type(pub $content);

        impl ReadField for $type {
            type Schema = String;

            fn read(at: &mut At<'_>) -> Option<Self> {
                let help: fn(&str) -> &str = $help;
                let parse: fn(&str) -> Result<$content, String> = $parse;
                at.parse(|text| parse(text).map_err(|problem| (format!("{text:?} {problem}"), help(text).to_owned()))).map(Self)
            }
        }
    )+};
}

texts! {
    /// API version of an object.
    ApiVersion(String): check_api_version, |_| "write v1, or <group>/<version>";
    /// Kind of an object.
    Kind(String): check_kind, |_| "write the kind of the object, such as Deployment";
    /// Namespace of an object.
    ObjectNamespace(NamespaceName): |text| NamespaceName::new(text).map_err(|error| error.problem),
        |_| "write the name of the object";
    /// Name of an object.
    ObjectName(String): check_object_name, |_| "write the name of the object";
    /// Label that identifies the object of a node.
    NodeLabel(ObjectId): check_node_label, |_| "write a key and a value with {node}, such as example.com/node={node}";
    /// Wanted condition of an object.
    Condition(Wanted): condition, |_| "write a type and a status such as \"Available=True\"";
    /// Wanted value of an object.
    JsonPathValue(Wanted): json_path, |text| match text.contains("[?") {
        // The usual filter selects a condition by its type.
        true => "for a condition of the status, replace jsonPath by condition: \"Ready=True\"; otherwise select an item by its index",
        false => "write a path and its value such as \"{.status.phase}=Running\"",
    };
}

fn check_api_version(text: &str) -> Result<String, String> {
    let (group, version) = text.split_once('/').map_or((None, text), |(group, version)| (Some(group), version));
    let is_group = group.is_none_or(|group| check_dns_subdomain(group).is_ok());
    let rest = version.strip_prefix('v').unwrap_or_default();
    let is_version = !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    if is_group && is_version { Ok(text.to_owned()) } else { Err("is not an API version".to_owned()) }
}

fn check_kind(text: &str) -> Result<String, String> {
    let is_kind = text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.len() <= 63
        && text.bytes().all(|b| b.is_ascii_alphanumeric());
    if is_kind { Ok(text.to_owned()) } else { Err("is not a kind".to_owned()) }
}

/// Names of objects are segments of paths. Most are DNS subdomains; those of RBAC also have upper case and colons.
fn check_object_name(text: &str) -> Result<String, String> {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    let outer = |c: char| c.is_ascii_alphanumeric() || c == ':';
    let named = text.replace(NODE, "n");
    let is_name = (1..=253).contains(&text.len())
        && named.chars().all(inner)
        && named.starts_with(outer)
        && named.ends_with(outer);
    if is_name { Ok(text.to_owned()) } else { Err("is not the name of an object".to_owned()) }
}

fn check_node_label(text: &str) -> Result<ObjectId, String> {
    let Some((key, value)) = text.split_once('=').filter(|(_, value)| value.contains(NODE)) else {
        return Err("has not the form <key>=<value> with {node} in the value".to_owned());
    };
    check_label_key(key)?;
    // The longest name of a node may not fit; its object is then unknown.
    check_label_value(&value.replace(NODE, "n"))?;
    Ok(ObjectId::Label { key: key.to_owned(), value: value.to_owned() })
}

fn condition(text: &str) -> Result<Wanted, String> {
    let wanted = parse_condition(text)?;
    match &wanted {
        Wanted::Condition { condition, .. } => check_label_key(condition).map(|()| wanted),
        Wanted::JsonPath { .. } => Ok(wanted),
    }
}

fn json_path(text: &str) -> Result<Wanted, String> {
    if text.chars().count() > MAX_JSON_PATH {
        return Err(format!("is longer than {MAX_JSON_PATH} characters"));
    }
    parse_json_path_value(text)
}
