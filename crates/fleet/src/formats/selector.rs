//! Reader of label selectors: `spec.nodeSelector`, and the pods that a drain skips.

use std::collections::BTreeMap;

use crate::fields::{At, Fields, ReadField, text, wrong_type};
use kubelet_config::document::{Node, path_of};
use kubelet_config::finding::{Finding, Place, any_error, nearest};
use kubelet_config::values::label::{check_label_key, check_label_value};
use nodecfg_contract::label_selector::{LabelSelector, Operator, Requirement};

/// Keys of a selector.
const SELECTOR: [&str; 2] = ["matchLabels", "matchExpressions"];
/// Keys of a requirement.
const REQUIREMENT: [&str; 3] = ["key", "operator", "values"];

/// Selector of the nodes of a pool.
#[derive(Debug, Clone)]
pub struct NodeSelector(pub LabelSelector);

impl ReadField for NodeSelector {
    type Schema = LabelSelector;
    // Null would select the nodes with the default label, or every node: the author has to decide.
    const TAKES_NULL: bool = true;

    fn read(at: &mut At<'_>) -> Option<Self> {
        const ALL: &str = "to select every node, write `nodeSelector: {}`; to select by the default label, omit it";
        if at.node.is_null() {
            at.refuse("the value is null", ALL);
            return None;
        }
        let before = at.findings.len();
        let fields = Fields::open(at.node, at.path, &SELECTOR, at.findings)?;
        // A label directly under nodeSelector, as in a Pod.
        for finding in at.findings.iter_mut().skip(before).filter(|finding| finding.code == "unknown-field") {
            let label = finding.field.as_deref().and_then(|field| field.strip_prefix(at.path)).unwrap_or_default();
            if check_label_key(label.trim_start_matches('.')).is_ok() {
                finding.help = Some(format!("did you mean `{}{label}`?", path_of(at.path, "matchLabels")));
            }
        }
        let selector = requirements(&fields, at.findings);
        match at.node.mapping().map(BTreeMap::len) {
            Some(0) => at.findings.push(
                Finding::warning("selects-everything", "the pool selects every node of the cluster")
                    .at(at.node.place.clone())
                    .help("this is valid for a pool of low priority that takes the remaining nodes"),
            ),
            // Kubernetes selects every node as well, but the author probably forgot a requirement.
            _ if selector.is_everything() && !any_error(at.findings) => {
                at.refuse("without a requirement, it selects every node of the cluster", ALL);
            }
            _ => {}
        }
        Some(Self(selector))
    }
}

/// Selector of pods. Without a requirement it would select every pod.
impl ReadField for LabelSelector {
    type Schema = Self;

    fn read(at: &mut At<'_>) -> Option<Self> {
        let before = at.findings.len();
        let selector = requirements(&Fields::open(at.node, at.path, &SELECTOR, at.findings)?, at.findings);
        if selector.is_everything() && at.findings.len() == before {
            at.refuse("without a requirement, it selects every pod", "remove it, or add a label of the pods that stay");
        }
        Some(selector).filter(|selector| !selector.is_everything())
    }
}

/// Reads the requirements of a selector.
fn requirements(fields: &Fields<'_>, findings: &mut Vec<Finding>) -> LabelSelector {
    let mut selector = LabelSelector { match_labels: match_labels(fields, findings), ..LabelSelector::default() };
    if let Some(node) = fields.get("matchExpressions") {
        selector.match_expressions = At { node, path: &fields.path("matchExpressions"), findings }.items(requirement);
    }
    selector
}

fn match_labels(selector: &Fields<'_>, findings: &mut Vec<Finding>) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    let Some(node) = selector.get("matchLabels") else { return labels };
    let path = selector.path("matchLabels");
    let Some(map) = node.mapping() else {
        findings.extend(wrong_type(&path, "a map of text", node));
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

fn requirement(at: &mut At<'_>) -> Option<Requirement> {
    let fields = Fields::open(at.node, at.path, &REQUIREMENT, at.findings)?;
    let (path, findings) = (at.path, &mut *at.findings);
    for key in ["key", "operator"] {
        fields.require(key, "key, operator and, for In and NotIn, values", findings);
    }
    let text_of = |key: &str, findings: &mut Vec<Finding>| {
        let node = fields.get(key)?;
        text(node, &fields.path(key), findings).map(|text| (text, &node.place))
    };
    let key = text_of("key", findings);
    if let Some((key, place)) = key
        && let Err(problem) = check_label_key(key)
    {
        let message = format!("`{path}`: the label key {key:?} {problem}");
        findings.push(Finding::error("bad-value", message).at(place.clone()));
    }
    let mut values = Vec::new();
    if let Some(node) = fields.get("values") {
        let value = |at: &mut At<'_>| at.text().map(|text| (text.to_owned(), at.node.place.clone()));
        values = At { node, path: &fields.path("values"), findings }.items(value);
    }
    for (value, place) in &values {
        report_bad_label_value(value, &fields.path("values"), place, findings);
    }
    let (name, place) = text_of("operator", findings)?;
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
        let help = "set operator: Exists for any value, or add the values";
        at.refuse(&format!("{name} needs at least one value"), help);
    }
    if !needs_values && !values.is_empty() {
        at.refuse(&format!("{name} takes no values"), format!("remove {path}.values"));
    }
    let values = values.into_iter().map(|(value, _)| value).collect();
    key.map(|(key, _)| Requirement { key: key.to_owned(), operator, values })
}
