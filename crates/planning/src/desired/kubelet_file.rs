//! Check of a KubeletConfiguration, or a merge patch of one, against the field table: names and types, for any
//! kubelet version.
//!
//! An unknown field is an error here. The kubelet would fall back to lenient decoding and ignore it, against the
//! intent of its author.

use super::fields::{unknown, wrong_type};
use kubelet_config::document::{Document, Mapping, Node, Reading, Value, path_of};
use kubelet_config::fields::{self, Field, FieldType};
use kubelet_config::finding::Finding;
use kubelet_config::minor::NEWEST;
use kubelet_config::spelling::{Proposals, nearest};
use kubelet_config::{API_VERSION, KIND, duration, quantity};

/// Checks the fields of a complete or partial KubeletConfiguration. `apiVersion` and `kind` may be missing, but not
/// wrong.
pub(super) fn check(document: &Document, findings: &mut Vec<Finding>) {
    let Value::Mapping(map) = &document.root.value else {
        findings.extend(wrong_type("", "a map", &document.root));
        return;
    };
    for (key, wanted, code) in [("apiVersion", API_VERSION, "wrong-api-version"), ("kind", KIND, "wrong-kind")] {
        if let Some(node) = document.root.get(key)
            && let Some(found) = node.text()
            && found != wanted
        {
            let finding = Finding::error(code, format!("`{key}` must be {wanted}, not {found:?}"));
            findings.push(finding.at(node.place.clone()).field(key).help(format!("write {key}: {wanted}")));
        }
    }
    // An object of another kind is no misspelled KubeletConfiguration, so its fields are not checked.
    let text_of = |key: &str| document.root.get(key).and_then(|node| node.text());
    let group = API_VERSION.split('/').next().unwrap_or_default();
    let other = text_of("kind").is_some_and(|kind| kind != KIND)
        && text_of("apiVersion").is_some_and(|version| version.split('/').next() != Some(group));
    if !other {
        check_object(map, "", "", &Proposals::default(), findings);
    }
}

/// Checks that a complete document has `apiVersion` and `kind`. nodecfg adds neither.
pub(super) fn check_header(document: &Document, findings: &mut Vec<Finding>) {
    for (key, wanted) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        // The kubelet accepts both keys in any case. The check of names reports the wrong case.
        let named = |map: &Mapping| map.keys().any(|name| name.eq_ignore_ascii_case(key));
        if !document.root.mapping().is_some_and(named) {
            findings.push(
                Finding::error("missing-field", format!("the configuration has no `{key}`"))
                    .at(document.root.place.clone())
                    .field(key)
                    .help(format!("write {key}: {wanted}")),
            );
        }
    }
}

/// Checks the entries of the object at `table` in the field table and at `path` in the document.
fn check_object(map: &Mapping, table: &str, path: &str, proposals: &Proposals, findings: &mut Vec<Finding>) {
    for (key, entry) in map {
        match fields::child(table, key) {
            Some(field) => check_value(&entry.value, field, &path_of(path, key), true, proposals, findings),
            None => findings.push(unknown(key, path, entry, unknown_field_help(key, table, proposals))),
        }
    }
}

fn unknown_field_help(key: &str, table: &str, proposals: &Proposals) -> String {
    if !proposals.take() {
        return "correct its name, or remove it".to_owned();
    }
    if let Some(near) = nearest(key, fields::children(table).iter().map(String::as_str)) {
        return format!("did you mean {near:?}?");
    }
    let named = |field: &&Field| field.path.rsplit('.').next().is_some_and(|name| name.eq_ignore_ascii_case(key));
    match fields::all().find(named) {
        Some(field) => format!("did you mean `{}`?", field.path),
        None => format!("remove it: no kubelet from 1.12 to {NEWEST} supports it"),
    }
}

/// Checks a value. Null means the default, or removes the value of a base; it is invalid in a list.
fn check_value(
    node: &Node,
    field: &Field,
    path: &str,
    null_allowed: bool,
    proposals: &Proposals,
    findings: &mut Vec<Finding>,
) {
    if null_allowed && node.is_null() {
        return;
    }
    let types = field.any_types();
    if !types.iter().any(|one| has_type(node, *one)) {
        let expected = types.iter().map(|one| one.phrase()).collect::<Vec<_>>().join(" or ");
        findings.extend(wrong_type(path, &expected, node).map(|finding| with_duration_help(finding, node, &types)));
        return;
    }
    if types.contains(&FieldType::Integer)
        && let Some(number) = node.reading().and_then(|reading| reading.whole())
    {
        let (least, largest) = (i128::from(field.min_value()), i128::from(field.max_value()));
        if !(least..=largest).contains(&number) {
            let message = format!("`{path}`: {number} is beyond what the field holds, {least} to {largest}");
            findings.push(Finding::error("bad-value", message).at(node.place.clone()).field(path));
        }
    }
    match &node.value {
        Value::Mapping(map) => check_object(map, &field.path, path, proposals, findings),
        Value::Sequence(list) => {
            for (at, item) in list.iter().enumerate() {
                if let Some(field) = fields::items(&field.path) {
                    check_value(item, field, &format!("{path}[{at}]"), false, proposals, findings);
                }
            }
        }
        Value::Scalar(_) => {}
    }
}

fn has_type(node: &Node, one: FieldType) -> bool {
    match (&node.value, one) {
        (Value::Mapping(_), FieldType::Object) | (Value::Sequence(_), FieldType::Array) => true,
        (Value::Scalar(scalar), one) => match (scalar.read(), one) {
            (Reading::Text(_), FieldType::String)
            | (Reading::Bool(_), FieldType::Boolean)
            | (Reading::Int(_) | Reading::Float(_), FieldType::Number | FieldType::Quantity) => true,
            (reading, FieldType::Integer) => reading.whole().is_some(),
            (Reading::Text(text), FieldType::Duration) => duration::nanoseconds(text).is_ok(),
            (Reading::Text(text), FieldType::Quantity) => quantity::is_quantity(text),
            _ => false,
        },
        _ => false,
    }
}

fn with_duration_help(finding: Finding, node: &Node, types: &[FieldType]) -> Finding {
    if types.contains(&FieldType::Duration) && finding.help.is_none() {
        let text = node.text().unwrap_or_default();
        return match duration::nanoseconds(text) {
            Err(problem) if !text.is_empty() => finding.help(format!("{text:?} {problem}")),
            _ => finding.help("write a number and a unit (ns, us, ms, s, m, h), such as 30s, 10m or 1h30m"),
        };
    }
    finding
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_text(text: &str) -> Vec<String> {
        let parsed = Document::parse("kubelet.yaml", text);
        let mut findings = parsed.findings;
        if let Some(document) = parsed.document {
            check(&document, &mut findings);
        }
        findings.iter().map(|f| format!("{}: {} ({})", f.code, f.message, f.help.clone().unwrap_or_default())).collect()
    }

    #[test]
    fn accepts_valid_fields() {
        let good = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 110\nport: 1e4\n\
                    evictionHard: {memory.available: 5%, imagefs.available: ~}\nclusterDNS: [10.0.0.10]\nsyncFrequency: 1m\n\
                    reservedMemory: [{numaNode: 0, limits: {memory: 1Gi, hugepages-2Mi: 5}}]\nfeatureGates: {Anything: true}\n\
                    memoryThrottlingFactor: 0.9\npodPidsLimit: 2147483648\nlogging: {flushFrequency: 5s}\nstaticPodURLHeader: {a.b: [c]}\nregisterNode: null\n";
        assert_eq!(check_text(good), Vec::<String>::new());
        assert_eq!(check_text("logging: {flushFrequency: 5000000000}"), Vec::<String>::new());
    }

    #[test]
    fn rejects_invalid_names_and_types() {
        for (text, finding) in [
            ("MaxPods: 5", "unknown-field: unknown field \"MaxPods\" (did you mean \"maxPods\"?)"),
            (
                "clientCAFile: /a",
                "unknown-field: unknown field \"clientCAFile\" (did you mean `authentication.x509.clientCAFile`?)",
            ),
            (
                "authentication: {x509: {clientCaFiles: /a}}",
                "unknown-field: unknown field \"clientCaFiles\" in `authentication.x509` (did you mean \"clientCAFile\"?)",
            ),
            (
                "logging: {nothingLikeIt: 1}",
                "unknown-field: unknown field \"nothingLikeIt\" in `logging` (remove it: no kubelet from 1.12 to 1.37 supports it)",
            ),
            (
                "maxPods: '110'",
                "wrong-type: `maxPods` must be a whole number, not the text \"110\" (write 110, without quotes)",
            ),
            ("maxPods: 1.5", "wrong-type: `maxPods` must be a whole number, not the number 1.5 ()"),
            (
                "failSwapOn: 'false'",
                "wrong-type: `failSwapOn` must be a boolean, not the text \"false\" (write false, without quotes)",
            ),
            (
                "evictionHard: {a: 5}",
                "wrong-type: `evictionHard.a` must be text, not the number 5 (write \"5\", in quotes)",
            ),
            ("clusterDNS: 10.0.0.10", "wrong-type: `clusterDNS` must be a list, not the text \"10.0.0.10\" ()"),
            ("clusterDNS: [~]", "wrong-type: `clusterDNS[0]` must be text, not null ()"),
            ("authentication: []", "wrong-type: `authentication` must be a map, not a list ()"),
            (
                "syncFrequency: 10",
                "wrong-type: `syncFrequency` must be a duration, not the number 10 (write a number and a unit (ns, us, ms, s, m, h), \
                 such as 30s, 10m or 1h30m)",
            ),
            (
                "syncFrequency: 1d",
                "wrong-type: `syncFrequency` must be a duration, not the text \"1d\" (\"1d\" is not a duration; write a number and a \
                 unit (ns, us, ms, s, m, h), such as 30s, 10m or 1h30m)",
            ),
            (
                "kind: Kubelet",
                "wrong-kind: `kind` must be KubeletConfiguration, not \"Kubelet\" (write kind: KubeletConfiguration)",
            ),
        ] {
            assert_eq!(check_text(text), [finding], "{text}");
        }
    }

    #[test]
    fn reports_ambiguous_scalar_once() {
        assert_eq!(check_text("failSwapOn: no").len(), 1);
        assert_eq!(check_text("clusterDomain: no").len(), 1);
    }
}
