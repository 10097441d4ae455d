//! Reader of `spec.rollout.gates`.

use std::collections::{BTreeMap, BTreeSet};

use super::fields::{Fields, text};
use super::proposals;
use super::read::{duration_of, missing_field};
use crate::RolloutPolicy;
use crate::gates::wanted::{parse_condition, parse_json_path_value};
use crate::gates::{
    Baseline, Gate, GateCheck, MAX_GATES, MAX_JSON_PATH, MAX_QUERY, Moment, ObjectRef, PATIENCE, PrometheusQuery,
    Wanted,
};
use kubelet_config::document::Node;
use kubelet_config::finding::{Finding, Place};
use kubelet_config::label::{check_dns_subdomain, check_label_key};
use kubelet_config::spelling::nearest;
use nodecfg_contract::names::{GateName, NamespaceName};

/// Keys of a gate.
pub(crate) const GATE: [&str; 5] = ["name", "prometheus", "object", "at", "patience"];
/// Keys of `prometheus`.
pub(crate) const PROMETHEUS: [&str; 3] = ["query", "present", "baseline"];
/// Keys of `object`.
pub(crate) const OBJECT: [&str; 6] = ["apiVersion", "kind", "namespace", "name", "condition", "jsonPath"];

const KEY: &str = "gates";

/// Reads the gates of a rollout policy.
pub(crate) fn gates(rollout: &Fields<'_>, findings: &mut Vec<Finding>) -> Vec<Gate> {
    let nodes = rollout.list(KEY, findings);
    if nodes.len() > MAX_GATES
        && let Some(node) = rollout.get(KEY)
    {
        let finding = rollout.bad_value(KEY, node, &format!("{} gates are too many", nodes.len()));
        findings.push(finding.help(format!("keep at most {MAX_GATES} gates")));
        return Vec::new();
    }
    let mut places: BTreeMap<GateName, &Place> = BTreeMap::new();
    let mut gates = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        let Some(fields) = Fields::open(node, &format!("{}[{at}]", rollout.path(KEY)), &GATE, findings) else {
            continue;
        };
        fix_boolean_key(&fields, findings);
        let gate = gate(&fields, node, findings);
        let Some((name, place)) = gate_name(&fields, findings) else { continue };
        if let Some(first) = places.insert(name.clone(), place) {
            let message = format!("`{}`: two gates have the name {name}", fields.path("name"));
            let finding = Finding::error("bad-value", message).at(place.clone()).field(fields.path("name"));
            findings.push(finding.related(first.clone(), "the other gate").help(format!("write {name}-2")));
        }
        gates.extend(gate.map(|gate| Gate { name, ..gate }));
    }
    gates
}

/// Proposes the right field for `on`, which YAML 1.1 reads as the boolean true.
fn fix_boolean_key(gate: &Fields<'_>, findings: &mut [Finding]) {
    let paths = [gate.path("true"), gate.path("on")].map(Some);
    for finding in findings.iter_mut().filter(|one| paths.contains(&one.field)) {
        finding.help = Some("did you mean \"at\"?".to_owned());
    }
}

/// Gates of a pool: its own, and those of its fleet with other names. In the order of their names.
pub(crate) fn merged(own: &[Gate], fleet: &[Gate]) -> Vec<Gate> {
    let named = |gate: &Gate| (gate.name.clone(), gate.clone());
    let all: BTreeMap<GateName, Gate> = fleet.iter().map(named).chain(own.iter().map(named)).collect();
    all.into_values().collect()
}

/// Reports a pool that has too many gates together with its fleet.
pub(crate) fn report_too_many(policy: &RolloutPolicy, place: &Place, findings: &mut Vec<Finding>) {
    let gates = policy.gates.len();
    if gates > MAX_GATES {
        let message = format!("the pool has {gates} gates, with those of the fleet; the limit is {MAX_GATES}");
        let finding = Finding::error("bad-value", message).at(place.clone()).field(format!("spec.rollout.{KEY}"));
        findings.push(finding.help(format!("keep at most {MAX_GATES} gates in pool and fleet")));
    }
}

fn gate_name<'n>(gate: &Fields<'n>, findings: &mut Vec<Finding>) -> Option<(GateName, &'n Place)> {
    if gate.get("name").is_none() {
        findings.push(missing_field(gate, "name", "name: error-rate"));
    }
    let (name, place) = gate.text("name", findings)?;
    match GateName::new(name) {
        Ok(name) => Some((name, place)),
        Err(error) => {
            let help = match proposals::dns_label(name) {
                Some(name) => format!("write {name}"),
                None => "write lower-case letters, digits and `-`".to_owned(),
            };
            let finding = Finding::error("bad-name", error.to_string()).at(place.clone());
            findings.push(finding.field(gate.path("name")).help(help));
            None
        }
    }
}

/// Reads all of a gate but its name.
fn gate(fields: &Fields<'_>, node: &Node, findings: &mut Vec<Finding>) -> Option<Gate> {
    let at = moments(fields, findings);
    let patience = duration_of(fields, "patience", findings).unwrap_or(PATIENCE);
    let check = match (fields.get("prometheus").is_some(), fields.get("object").is_some()) {
        (true, true) => {
            let message = format!("`{}` has prometheus and object", fields.path(""));
            let finding = Finding::error("bad-value", message.replace(".`", "`")).at(node.place.clone());
            findings.push(finding.field(fields.path("object")).help("remove it, and write a second gate"));
            return None;
        }
        (false, false) => {
            findings.push(missing_field(fields, "prometheus", "prometheus or object; one of them is required"));
            return None;
        }
        (true, false) => prometheus(&fields.object("prometheus", &PROMETHEUS, findings)?, findings),
        (false, true) => object(&fields.object("object", &OBJECT, findings)?, findings),
    };
    // The caller knows the name.
    Some(Gate { name: GateName::new("unnamed").ok()?, check: check?, at, patience })
}

fn moments(gate: &Fields<'_>, findings: &mut Vec<Finding>) -> BTreeSet<Moment> {
    if gate.get("at").is_none() {
        return Moment::ALL.into();
    }
    let path = gate.path("at");
    let mut moments = BTreeSet::new();
    for (at, node) in gate.list("at", findings).iter().enumerate() {
        let path = format!("{path}[{at}]");
        let Some(name) = text(node, &path, findings) else { continue };
        match Moment::ALL.into_iter().find(|moment| moment.as_str() == name) {
            Some(moment) => {
                moments.insert(moment);
            }
            None => {
                let names = || Moment::ALL.map(Moment::as_str);
                let help = match nearest(name, names()) {
                    Some(near) => format!("did you mean {near}?"),
                    None => format!("use one of {}", names().join(", ")),
                };
                let message = format!("`{path}`: unknown step {name:?}");
                findings.push(Finding::error("bad-value", message).at(node.place.clone()).field(path).help(help));
            }
        }
    }
    moments
}

fn prometheus(fields: &Fields<'_>, findings: &mut Vec<Finding>) -> Option<GateCheck> {
    let query = expression(fields, "query", "query: \"<expression>\", whose series are problems", findings);
    let present = expression(
        fields,
        "present",
        "present: \"<expression>\", which has data while the query is collected; without it, missing data would pass",
        findings,
    );
    let baseline = match fields.text("baseline", findings) {
        None | Some(("use", _)) => Baseline::Use,
        Some(("ignore", _)) => Baseline::Ignore,
        Some((other, place)) => {
            let message = format!("`{}`: unknown value {other:?}", fields.path("baseline"));
            let finding = Finding::error("bad-value", message).at(place.clone()).field(fields.path("baseline"));
            findings.push(finding.help("use one of use, ignore"));
            Baseline::Use
        }
    };
    Some(GateCheck::Prometheus { query: PrometheusQuery { query: query?, present: present? }, baseline })
}

/// Reads an expression of PromQL, which only Prometheus can check.
fn expression(fields: &Fields<'_>, key: &str, example: &str, findings: &mut Vec<Finding>) -> Option<String> {
    let Some(node) = fields.get(key) else {
        findings.push(missing_field(fields, key, example));
        return None;
    };
    let (text, _) = fields.text(key, findings)?;
    let length = text.chars().count();
    let problem = if text.trim().is_empty() {
        "it is empty".to_owned()
    } else if length > MAX_QUERY {
        format!("{length} characters are too many; the limit is {MAX_QUERY}")
    } else {
        return Some(text.to_owned());
    };
    findings.push(fields.bad_value(key, node, &problem).help("use a recording rule, and write its name"));
    None
}

fn object(fields: &Fields<'_>, findings: &mut Vec<Finding>) -> Option<GateCheck> {
    let before = findings.len();
    let api_version = checked(fields, "apiVersion", Some("apiVersion: apps/v1"), check_api_version, findings);
    let kind = checked(fields, "kind", Some("kind: Deployment"), check_kind, findings);
    let namespace =
        checked(fields, "namespace", None, |text| NamespaceName::new(text).map_err(|e| e.problem), findings);
    let name = checked(fields, "name", Some("name: gateway"), check_object_name, findings);
    if api_version.as_deref() == Some("v1")
        && kind.as_deref() == Some("Secret")
        && let Some(node) = fields.get("kind")
    {
        let finding =
            fields.bad_value("kind", node, "a gate must not read Secrets, because reports show what it reads");
        findings.push(finding.help("write ConfigMap, or another kind"));
    }
    let condition = checked(fields, "condition", None, condition, findings);
    let path = checked(fields, "jsonPath", None, json_path, findings);
    match (fields.get("condition"), fields.get("jsonPath")) {
        (Some(_), Some(node)) => {
            let finding = fields.bad_value("jsonPath", node, "the gate has a condition, too");
            findings.push(finding.help("remove it, and write a second gate"));
        }
        (None, None) => {
            findings.push(missing_field(fields, "condition", "condition: \"Available=True\", or write a jsonPath"));
        }
        _ => {}
    }
    let object = ObjectRef { api_version: api_version?, kind: kind?, namespace, name: name? };
    let wanted = condition.or(path)?;
    (findings.len() == before).then_some(GateCheck::Object { object, wanted })
}

/// Reads a text and checks it. `example` is the fix for a missing field that is required.
fn checked<T>(
    fields: &Fields<'_>,
    key: &str,
    example: Option<&str>,
    check: impl Fn(&str) -> Result<T, String>,
    findings: &mut Vec<Finding>,
) -> Option<T> {
    if let Some(example) = example.filter(|_| fields.get(key).is_none()) {
        findings.push(missing_field(fields, key, example));
    }
    let node = fields.get(key)?;
    let (text, _) = fields.text(key, findings)?;
    match check(text) {
        Ok(value) => Some(value),
        Err(problem) => {
            findings.push(fields.bad_value(key, node, &format!("{text:?} {problem}")).help(form(key, text)));
            None
        }
    }
}

/// The fix for an invalid value.
fn form(key: &str, text: &str) -> &'static str {
    match key {
        "apiVersion" => "write v1, or <group>/<version>",
        "kind" => "write the kind of the object, such as Deployment",
        "condition" => "write a type and a status such as \"Available=True\"",
        // The usual filter selects a condition by its type.
        "jsonPath" if text.contains("[?") => {
            "for a condition of the status, replace jsonPath by condition: \"Ready=True\"; otherwise select an item by its index"
        }
        "jsonPath" => "write a path and its value such as \"{.status.phase}=Running\"",
        _ => "write the name of the object",
    }
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
    let is_name =
        (1..=253).contains(&text.len()) && text.chars().all(inner) && text.starts_with(outer) && text.ends_with(outer);
    if is_name { Ok(text.to_owned()) } else { Err("is not the name of an object".to_owned()) }
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
