//! Reader of `nodecfg.yaml` and `pool.yaml`: converts documents into the types of [`formats`](crate::formats) and
//! reports findings with their positions.

use std::collections::BTreeMap;
use std::time::Duration;

use super::fields::{Fields, text};
use super::{drain_fields, gate_fields, kubelet_fields, node_order, pool_order, proposals, schedule_fields};
use crate::formats::{
    API_VERSION, CanarySpec, FLEET, FleetFile, FleetSpec, Metadata, NODE_POOL, NodePoolFile, NodePoolSpec, RolloutSpec,
};
use crate::{DEFAULT_FLEET, MaxUnavailable};
use kubelet_config::document::{Document, Node, Reading, path_of};
use kubelet_config::finding::{Finding, Place};
use kubelet_config::label::{check_label_key, check_label_value};
use kubelet_config::minor::{NEWEST, NEWEST_RELEASED, OLDEST};
use kubelet_config::risk::Class;
use kubelet_config::spelling::nearest;
use kubelet_config::{Minor, duration, units};
use nodecfg_contract::label_selector::{LabelSelector, Operator, Requirement};
use nodecfg_contract::names::{FleetName, NameError, NamespaceName, PoolName};

/// Keys of both kinds of file.
pub(crate) const FILE: [&str; 4] = ["apiVersion", "kind", "metadata", "spec"];
/// Keys of `metadata`.
pub(crate) const METADATA: [&str; 1] = ["name"];
/// Keys of `spec` of a Fleet.
pub(crate) const FLEET_SPEC: [&str; 5] = ["namespace", "maxUnavailable", "poolPointers", "kubelet", "rollout"];
/// Keys of `spec` of a NodePool.
pub(crate) const POOL_SPEC: [&str; 6] =
    ["nodeSelector", "priority", "requireNodes", "kubelet", "kubernetesVersion", "rollout"];
/// Keys of `spec.rollout`.
pub(crate) const ROLLOUT: [&str; 15] = [
    "maxUnavailable",
    "canary",
    "maxFailures",
    "convergenceTimeout",
    "paused",
    "allowDisruption",
    "drain",
    "windows",
    "exclusions",
    "outsideWindows",
    "order",
    "after",
    "gates",
    "rollbackOnGateFailure",
    "checkPods",
];
/// Keys of `spec.rollout.canary`.
pub(crate) const CANARY: [&str; 2] = ["nodes", "soak"];
/// Keys of `spec.nodeSelector`.
pub(crate) const SELECTOR: [&str; 2] = ["matchLabels", "matchExpressions"];
/// Keys of a requirement.
pub(crate) const REQUIREMENT: [&str; 3] = ["key", "operator", "values"];

/// Reads `nodecfg.yaml`. Returns the file and the fleet's name, or `None` without a valid name.
pub(crate) fn fleet(document: &Document, findings: &mut Vec<Finding>) -> Option<(FleetFile, FleetName)> {
    let file = Fields::open(&document.root, "", &FILE, findings)?;
    check_header(&file, FLEET, findings);
    let name = metadata_name(&file, DEFAULT_FLEET, findings).and_then(|(name, place)| match FleetName::new(name) {
        Ok(name) => Some(name),
        Err(error) => {
            findings.push(bad_name(&error).at(place.clone()));
            None
        }
    });
    let mut spec = FleetSpec::default();
    if let Some(fields) = file.object("spec", &FLEET_SPEC, findings) {
        spec.namespace = fields.text("namespace", findings).and_then(|(text, place)| match NamespaceName::new(text) {
            Ok(namespace) => Some(namespace),
            Err(error) => {
                findings.push(bad_name(&error).at(place.clone()));
                None
            }
        });
        spec.max_unavailable = max_unavailable(&fields, findings);
        spec.pool_pointers = fields.boolean("poolPointers", findings).unwrap_or_default();
        spec.kubelet = kubelet_fields::of_fleet(&fields, findings);
        spec.rollout = rollout(&fields, findings);
        findings.extend(pool_order::of_fleet(&spec.rollout));
    }
    let name = name?;
    let metadata = Metadata { name: name.to_string() };
    Some((FleetFile { api_version: API_VERSION.to_owned(), kind: FLEET.to_owned(), metadata, spec }, name))
}

/// Reads a `pool.yaml`, in the folder of this name if known.
pub(crate) fn node_pool(
    document: &Document,
    folder: Option<&PoolName>,
    findings: &mut Vec<Finding>,
) -> Option<NodePoolFile> {
    let file = Fields::open(&document.root, "", &FILE, findings)?;
    check_header(&file, NODE_POOL, findings);
    let name = metadata_name(&file, folder.map_or("general", PoolName::as_str), findings);
    if let Some((name, place)) = name {
        findings.extend(pool_name_problem(name, folder).map(|finding| finding.at(place.clone())));
    }
    let mut spec = NodePoolSpec::default();
    let before = findings.len();
    if let Some(fields) = file.object("spec", &POOL_SPEC, findings) {
        fix_misplaced(findings.get_mut(before..).unwrap_or_default());
        spec.node_selector = node_selector(&fields, findings);
        spec.priority = fields.integer("priority", "a whole number of 64 bits", findings).unwrap_or_default();
        spec.require_nodes = fields.boolean("requireNodes", findings);
        spec.kubelet = kubelet_fields::of_pool(&fields, findings);
        spec.kubernetes_version = kubernetes_version(&fields, findings);
        spec.rollout = rollout(&fields, findings);
    }
    let metadata = Metadata { name: name.map(|(name, _)| name.to_owned()).unwrap_or_default() };
    Some(NodePoolFile { api_version: API_VERSION.to_owned(), kind: NODE_POOL.to_owned(), metadata, spec })
}

/// Proposes the right map for fields that are written directly under `spec`.
fn fix_misplaced(findings: &mut [Finding]) {
    for finding in findings.iter_mut().filter(|finding| finding.code == "unknown-field") {
        let Some(name) = finding.field.as_deref().and_then(|field| field.strip_prefix("spec.")) else { continue };
        let parent = [("rollout", &ROLLOUT[..]), ("kubelet", &kubelet_fields::OF_POOL[..])]
            .into_iter()
            .find(|(_, keys)| keys.contains(&name));
        if let Some((parent, _)) = parent {
            finding.help = Some(format!("did you mean `spec.{parent}.{name}`?"));
        }
    }
}

fn pool_name_problem(name: &str, folder: Option<&PoolName>) -> Option<Finding> {
    match folder {
        Some(folder) if folder.as_str() == name => None,
        Some(folder) => {
            let folder = folder.as_str();
            let message = format!("the pool name {name:?} differs from the folder name {folder:?}");
            let renamed = if PoolName::new(name).is_ok() {
                format!(", or rename the folder to pools/{name}")
            } else {
                String::new()
            };
            Some(Finding::error("pool-name", message).help(format!("write {folder:?}{renamed}")))
        }
        None => PoolName::new(name).err().map(|error| bad_name(&error)),
    }
}

fn bad_name(error: &NameError) -> Finding {
    let finding = Finding::error("bad-name", error.to_string());
    match proposals::dns_label(&error.value) {
        Some(name) => finding.help(format!("write {name}")),
        None => finding.help("write lower-case letters, digits and `-`"),
    }
}

fn check_header(file: &Fields<'_>, kind: &str, findings: &mut Vec<Finding>) {
    for (key, wanted) in [("apiVersion", API_VERSION), ("kind", kind)] {
        match file.get(key) {
            None => findings.push(missing_field(file, key, &format!("{key}: {wanted}"))),
            Some(node) => {
                if let Some(found) = text(node, key, findings)
                    && found != wanted
                {
                    let code = if key == "kind" { "wrong-kind" } else { "wrong-api-version" };
                    findings.push(
                        Finding::error(code, format!("`{key}` must be {wanted}, not {found:?}"))
                            .at(node.place.clone())
                            .help(format!("write {key}: {wanted}")),
                    );
                }
            }
        }
    }
}

pub(crate) fn missing_field(fields: &Fields<'_>, key: &str, help: &str) -> Finding {
    Finding::error("missing-field", format!("`{}` is missing", fields.path(key)))
        .at(fields.place().clone())
        .field(fields.path(key))
        .help(format!("write {help}"))
}

/// The name, or a finding that proposes `example`.
fn metadata_name<'n>(file: &Fields<'n>, example: &str, findings: &mut Vec<Finding>) -> Option<(&'n str, &'n Place)> {
    if file.get("metadata").is_none() {
        findings.push(missing_field(file, "metadata", &format!("metadata: {{name: {example}}}")));
        return None;
    }
    let metadata = file.object("metadata", &METADATA, findings)?;
    if metadata.get("name").is_none() {
        findings.push(missing_field(&metadata, "name", &format!("name: {example}")));
    }
    metadata.text("name", findings)
}

pub(crate) fn texts<'n>(fields: &Fields<'n>, key: &str, findings: &mut Vec<Finding>) -> Vec<(&'n str, &'n Place)> {
    let path = fields.path(key);
    let mut texts = Vec::new();
    for (at, node) in fields.list(key, findings).iter().enumerate() {
        if let Some(text) = text(node, &format!("{path}[{at}]"), findings) {
            texts.push((text, &node.place));
        }
    }
    texts
}

fn rollout(spec: &Fields<'_>, findings: &mut Vec<Finding>) -> RolloutSpec {
    let Some(fields) = spec.object("rollout", &ROLLOUT, findings) else { return RolloutSpec::default() };
    let canary = fields.object("canary", &CANARY, findings).map(|canary| CanarySpec {
        nodes: canary.integer("nodes", "a number of nodes", findings).unwrap_or(1),
        soak: duration_of(&canary, "soak", findings).unwrap_or_default(),
    });
    let timeout = duration_of(&fields, "convergenceTimeout", findings);
    if timeout == Some(Duration::ZERO)
        && let Some(node) = fields.get("convergenceTimeout")
    {
        let finding = fields.bad_value("convergenceTimeout", node, "it must be greater than 0");
        findings.push(finding.help("write 5m, the default: a kubelet takes 5 to 15 s to acknowledge an assignment"));
    }
    RolloutSpec {
        max_unavailable: max_unavailable(&fields, findings),
        canary,
        max_failures: fields.integer("maxFailures", "a number of nodes", findings),
        convergence_timeout: timeout,
        paused: fields.boolean("paused", findings),
        allow_disruption: class(&fields, "allowDisruption", findings),
        drain: drain_fields::drain(&fields, findings),
        windows: schedule_fields::windows(&fields, findings),
        exclusions: schedule_fields::exclusions(&fields, findings),
        outside_windows: class(&fields, "outsideWindows", findings),
        order: node_order::order(&fields, findings),
        after: pool_order::after(&fields, findings),
        gates: gate_fields::gates(&fields, findings),
        rollback_on_gate_failure: fields.boolean("rollbackOnGateFailure", findings),
        check_pods: fields.boolean("checkPods", findings),
    }
}

fn kubernetes_version(spec: &Fields<'_>, findings: &mut Vec<Finding>) -> Vec<Minor> {
    const KEY: &str = "kubernetesVersion";
    let Some(node) = spec.get(KEY) else { return Vec::new() };
    let path = spec.path(KEY);
    let listed: Vec<(String, &Node)> = match node.sequence() {
        Some([]) => {
            findings.push(spec.bad_value(KEY, node, "the list is empty").help("remove the field, or list a version"));
            return Vec::new();
        }
        Some(items) => items.iter().enumerate().map(|(at, item)| (format!("{path}[{at}]"), item)).collect(),
        None => vec![(path, node)],
    };
    let mut minors = Vec::new();
    for (path, node) in listed {
        let Some(version) = text(node, &path, findings) else { continue };
        match Minor::parse_known(version) {
            Ok(minor) => minors.push(minor),
            Err(problem) => {
                let message = format!("`{path}`: {problem}");
                let help =
                    format!("write a version from {OLDEST} to {NEWEST} in quotes, such as \"{NEWEST_RELEASED}\"");
                findings.push(Finding::error("bad-value", message).at(node.place.clone()).field(path).help(help));
            }
        }
    }
    minors.sort_unstable();
    minors.dedup();
    minors
}

fn class(fields: &Fields<'_>, key: &str, findings: &mut Vec<Finding>) -> Option<Class> {
    let (name, place) = fields.text(key, findings)?;
    let class = Class::parse(name);
    if class.is_none() {
        let help = match nearest(name, Class::ALL.map(Class::as_str)) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("use one of {}", Class::ALL.map(Class::as_str).join(", ")),
        };
        let message = format!("`{}`: unknown class {name:?}", fields.path(key));
        findings.push(Finding::error("bad-value", message).at(place.clone()).field(fields.path(key)).help(help));
    }
    class
}

pub(crate) fn duration_of(fields: &Fields<'_>, key: &str, findings: &mut Vec<Finding>) -> Option<Duration> {
    let node = fields.get(key)?;
    let Some(text) = node.text() else {
        findings.extend(super::fields::wrong_type(&fields.path(key), "a duration such as 10m", node));
        return None;
    };
    duration::parse(text)
        .map_err(|problem| {
            let problem = problem.split("; ").next().unwrap_or(problem);
            let finding = fields.bad_value(key, node, &format!("{text:?} {problem}"));
            findings.push(finding.help(units::duration_help(text)));
        })
        .ok()
}

fn max_unavailable(fields: &Fields<'_>, findings: &mut Vec<Finding>) -> Option<MaxUnavailable> {
    const KEY: &str = "maxUnavailable";
    const HELP: &str = "write a number of nodes such as 3, or a percentage from 1% to 100%";
    let node = fields.get(KEY)?;
    let value = match node.reading() {
        Some(Reading::Int(value)) => u32::try_from(value).ok().filter(|count| *count > 0).map(MaxUnavailable::Count),
        Some(Reading::Text(text)) => text
            .strip_suffix('%')
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0'))
            .and_then(|digits| digits.parse().ok())
            .filter(|percent| (1..=100).contains(percent))
            .map(MaxUnavailable::Percent),
        _ => {
            let expected = "a whole number or a percentage";
            findings.extend(super::fields::wrong_type(&fields.path(KEY), expected, node).map(|f| f.help(HELP)));
            return None;
        }
    };
    if value.is_none() {
        let problem = match node.reading() {
            Some(Reading::Int(0)) => "0 would prevent every change; pause the pool instead".to_owned(),
            _ => format!("{} is not a budget", node.describe()),
        };
        let number = node.text().filter(|text| text.parse::<u32>().is_ok_and(|count| count > 0));
        let help = number.map_or_else(|| HELP.to_owned(), |number| format!("write {number}, without quotes"));
        findings.push(fields.bad_value(KEY, node, &problem).help(help));
    }
    value
}

fn node_selector(spec: &Fields<'_>, findings: &mut Vec<Finding>) -> Option<LabelSelector> {
    const KEY: &str = "nodeSelector";
    const ALL: &str = "to select every node, write `nodeSelector: {}`; to select by the default label, omit it";
    let node = spec.raw(KEY)?;
    if node.is_null() {
        findings.push(spec.bad_value(KEY, node, "the value is null").help(ALL));
        return None;
    }
    let before = findings.len();
    let fields = spec.object(KEY, &SELECTOR, findings)?;
    // A label directly under nodeSelector, as in a Pod.
    for finding in findings.iter_mut().skip(before).filter(|finding| finding.code == "unknown-field") {
        let label = finding.field.as_deref().and_then(|field| field.strip_prefix(&spec.path(KEY))).unwrap_or_default();
        if check_label_key(label.trim_start_matches('.')).is_ok() {
            finding.help = Some(format!("did you mean `{}{label}`?", path_of(&spec.path(KEY), "matchLabels")));
        }
    }
    let selector = selector_of(&fields, findings);
    match node.mapping().map(BTreeMap::len) {
        Some(0) => findings.push(
            Finding::warning("selects-everything", "the pool selects every node of the cluster")
                .at(node.place.clone())
                .help("this is valid for a pool of low priority that takes the remaining nodes"),
        ),
        // Kubernetes selects every node as well, but the author probably forgot a requirement.
        _ if selector.is_everything() && !kubelet_config::finding::any_error(findings) => findings
            .push(spec.bad_value(KEY, node, "without a requirement, it selects every node of the cluster").help(ALL)),
        _ => {}
    }
    Some(selector)
}

/// Reads the requirements of a selector.
pub(crate) fn selector_of(fields: &Fields<'_>, findings: &mut Vec<Finding>) -> LabelSelector {
    LabelSelector {
        match_labels: match_labels(fields, findings),
        match_expressions: fields
            .list("matchExpressions", findings)
            .iter()
            .enumerate()
            .filter_map(|(at, node)| requirement(node, &format!("{}[{at}]", fields.path("matchExpressions")), findings))
            .collect(),
    }
}

fn match_labels(selector: &Fields<'_>, findings: &mut Vec<Finding>) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    let Some(node) = selector.get("matchLabels") else { return labels };
    let path = selector.path("matchLabels");
    let Some(map) = node.mapping() else {
        findings.extend(super::fields::wrong_type(&path, "a map of text", node));
        return labels;
    };
    for (key, entry) in map {
        if let Err(problem) = check_label_key(key) {
            let message = format!("`{path}`: the label key {key:?} {problem}");
            findings.push(Finding::error("bad-value", message).at(entry.key_place.clone()));
        }
        let path = path_of(&path, key);
        if let Some(value) = text(&entry.value, &path, findings) {
            report_bad_label_value(value, &path, &entry.value.place, findings);
            labels.insert(key.clone(), value.to_owned());
        }
    }
    labels
}

fn report_bad_label_value(value: &str, path: &str, place: &Place, findings: &mut Vec<Finding>) {
    if let Err(problem) = check_label_value(value) {
        let message = format!("`{path}`: the label value {value:?} {problem}");
        findings.push(Finding::error("bad-value", message).at(place.clone()));
    }
}

fn requirement(node: &Node, path: &str, findings: &mut Vec<Finding>) -> Option<Requirement> {
    let fields = Fields::open(node, path, &REQUIREMENT, findings)?;
    for key in ["key", "operator"] {
        if fields.get(key).is_none() {
            findings.push(missing_field(&fields, key, "key, operator and, for In and NotIn, values"));
        }
    }
    let key = fields.text("key", findings);
    if let Some((key, place)) = key
        && let Err(problem) = check_label_key(key)
    {
        let message = format!("`{path}`: the label key {key:?} {problem}");
        findings.push(Finding::error("bad-value", message).at(place.clone()));
    }
    let values = texts(&fields, "values", findings);
    for (value, place) in &values {
        report_bad_label_value(value, &fields.path("values"), place, findings);
    }
    let (name, place) = fields.text("operator", findings)?;
    let Some((_, operator)) = Operator::ALL.into_iter().find(|(known, _)| *known == name) else {
        let help = match nearest(name, Operator::ALL.map(|(known, _)| known)) {
            Some(near) => format!("did you mean {near}?"),
            None => "use one of In, NotIn, Exists, DoesNotExist".to_owned(),
        };
        let message = format!("`{}`: unknown operator {name:?}", fields.path("operator"));
        findings.push(Finding::error("bad-value", message).at(place.clone()).help(help));
        return None;
    };
    let needs_values = matches!(operator, Operator::In | Operator::NotIn);
    if needs_values && fields.get("values").and_then(Node::sequence).is_none_or(<[Node]>::is_empty) {
        let message = format!("`{path}`: {name} needs at least one value");
        let help = "set operator: Exists for any value, or add the values";
        findings.push(Finding::error("bad-value", message).at(node.place.clone()).field(path).help(help));
    }
    if !needs_values && !values.is_empty() {
        let message = format!("`{path}`: {name} takes no values");
        let finding = Finding::error("bad-value", message).at(node.place.clone()).field(path);
        findings.push(finding.help(format!("remove {path}.values")));
    }
    let values = values.into_iter().map(|(value, _)| value.to_owned()).collect();
    key.map(|(key, _)| Requirement { key: key.to_owned(), operator, values })
}
