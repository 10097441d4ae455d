//! Check of a KubeletConfiguration, or a merge patch of one, against the field table: names and types, for any
//! kubelet version.
//!
//! An unknown field is an error here. The kubelet would fall back to lenient decoding and ignore it, against the
//! intent of its author.

use crate::fields::{NO_NUMBER, fix_ambiguous_boolean, unknown, wrong_type};
use kubelet_config::document::{Document, Entry, Mapping, Node, Reading, Value, path_of};
use kubelet_config::fields::{self, Field, FieldType};
use kubelet_config::finding::{Finding, Proposals, nearest};
use kubelet_config::values::{duration, quantity, units};
use kubelet_config::{API_VERSION, KIND, NEWEST};

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
            None => findings.push(unknown(key, path, entry, unknown_field_help(key, entry, (map, table), proposals))),
        }
    }
}

fn unknown_field_help(key: &str, entry: &Entry, (map, table): (&Mapping, &str), proposals: &Proposals) -> String {
    if !proposals.take() {
        return "correct its name, or remove it".to_owned();
    }
    if let Some(near) = nearest(key, fields::children(table).iter().map(|field| field.name())) {
        return format!("did you mean {near:?}?");
    }
    let inner = entry.value.mapping().filter(|inner| !inner.is_empty());
    if inner.is_some_and(|inner| inner.keys().all(|key| fields::child(table, key).is_some())) {
        return "move its entries up one level".to_owned();
    }
    if let Some(parent) = map_of_key(key, entry, map, table) {
        return format!("did you mean `{parent}.{key}`?");
    }
    let named = |field: &&Field| field.name().eq_ignore_ascii_case(key);
    match fields::all().find(named) {
        Some(field) => format!("did you mean `{}`?", field.path),
        None => format!("remove it: no kubelet from 1.12 to {NEWEST} supports it"),
    }
}

/// A map in `table` that takes this key, such as `evictionHard` for the key `memory.available` without indentation.
/// Of several maps that of the nearest line above, else the first of the table.
fn map_of_key(key: &str, entry: &Entry, map: &Mapping, table: &str) -> Option<String> {
    let takes = |field: &&&Field| field.keys.iter().any(|(_, _, keys)| keys.iter().any(|known| known == key));
    let above = |name: &str| map.get(name).filter(|other| other.key_place.offset < entry.key_place.offset);
    let candidates: Vec<&str> = fields::children(table).iter().filter(takes).map(|field| field.name()).collect();
    let nearest = candidates.iter().filter_map(|name| Some((above(name)?.key_place.offset, *name))).max();
    let parent = nearest.map(|(_, name)| name).or_else(|| candidates.first().copied())?;
    Some(path_of(table, parent))
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
    if types == [FieldType::Boolean] && is_ambiguous(node) && proposals.take() {
        fix_ambiguous_boolean(node, findings);
    }
    if !types.iter().any(|one| has_type(node, *one)) {
        let expected = types.iter().map(|one| one.phrase()).collect::<Vec<_>>().join(" or ");
        findings.extend(wrong_type(path, &expected, node).map(|finding| with_unit_help(finding, node, path, &types)));
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

fn is_ambiguous(node: &Node) -> bool {
    matches!(&node.value, Value::Scalar(scalar) if scalar.ambiguity().is_some())
}

/// A map for a value that is written like a flag, such as `MemoryQoS=true`, or like the only field of the map.
fn map_of(node: &Node, path: &str) -> Option<String> {
    let Value::Scalar(scalar) = &node.value else { return None };
    let text_values = fields::lookup(&format!("{path}{{}}")).map(|field| field.any_types() == [FieldType::String]);
    if let Some(text_values) = text_values {
        let pair = |pair: &str| {
            let (key, value) = pair.split_once(['=', '<'])?;
            let is_name =
                |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-._%/".contains(c));
            let value = if text_values { format!("{value:?}") } else { value.to_owned() };
            (is_name(key) && is_name(value.trim_matches('"'))).then(|| format!("{key}: {value}"))
        };
        let pairs: Option<Vec<String>> = scalar.text.split(',').map(|text| pair(text.trim())).collect();
        return pairs.map(|pairs| pairs.join(", "));
    }
    let children = fields::children(path).iter();
    let named = |field: &&&Field| match scalar.read() {
        Reading::Bool(_) => field.any_types() == [FieldType::Boolean],
        Reading::Text(text) => field.allowed.at(NEWEST).is_some_and(|allowed| allowed.iter().any(|one| one == text)),
        _ => false,
    };
    let field = children.filter(|field| field.is_known_to(NEWEST)).find(named)?;
    Some(format!("{}: {}", field.name(), scalar.text))
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

/// Sets the fix for a duration or an amount whose unit is missing or unknown.
fn with_unit_help(finding: Finding, node: &Node, path: &str, types: &[FieldType]) -> Finding {
    let text = node.text().unwrap_or_default();
    let number = node.reading().and_then(|reading| reading.whole());
    if types.contains(&FieldType::Duration) {
        return finding.help(
            number.map_or_else(|| units::duration_help(text), |number| units::seconds_help(&number.to_string())),
        );
    }
    if types.contains(&FieldType::Quantity) {
        return finding.help(units::quantity_help(text, "1Gi"));
    }
    if types == [FieldType::Object]
        && let Some(map) = map_of(node, path)
    {
        return finding.help(format!("write {{{map}}}"));
    }
    if types == [FieldType::Array]
        && let Value::Scalar(scalar) = &node.value
        && fields::items(path).is_some_and(|item| item.any_types() == [FieldType::Integer])
    {
        return finding.help(format!("write [{}]", scalar.text));
    }
    if let Some(help) = number.and_then(|number| units::number_help(path, number)) {
        return finding.help(help);
    }
    let default = fields::lookup(path).and_then(|field| field.default.at(NEWEST)).and_then(serde_json::Value::as_i64);
    match default.filter(|_| types == [FieldType::Integer] && finding.help.as_deref() == Some(NO_NUMBER)) {
        Some(default) => finding.help(format!("write a whole number such as {default}")),
        None => finding,
    }
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
                "unknown-field: unknown field \"nothingLikeIt\" in `logging` (remove it: no kubelet from 1.12 to {NEWEST} supports it)",
            ),
            (
                "maxPods: '110'",
                "wrong-type: `maxPods` must be a whole number, not the text \"110\" (write 110, without quotes)",
            ),
            (
                "maxPods: 1.5",
                "wrong-type: `maxPods` must be a whole number, not the number 1.5 (write a whole number such as 110)",
            ),
            (
                "failSwapOn: 'false'",
                "wrong-type: `failSwapOn` must be a boolean, not the text \"false\" (write false, without quotes)",
            ),
            (
                "evictionHard: {a: 5}",
                "wrong-type: `evictionHard.a` must be text, not the number 5 (write \"5\", in quotes)",
            ),
            (
                "clusterDNS: 10.0.0.10",
                "wrong-type: `clusterDNS` must be a list, not the text \"10.0.0.10\" (write [\"10.0.0.10\"])",
            ),
            ("clusterDNS: [~]", "wrong-type: `clusterDNS[0]` must be text, not null (remove it, or write text)"),
            (
                "authentication: []",
                "wrong-type: `authentication` must be a map, not a list (remove it, or write a map)",
            ),
            (
                "syncFrequency: 10",
                "wrong-type: `syncFrequency` must be a duration, not the number 10 (write 10s for seconds, or another unit: ms, m, h)",
            ),
            (
                "evictionHard: {nodefs.available: 10}",
                "wrong-type: `evictionHard[\"nodefs.available\"]` must be text, not the number 10 (write \"10%\" for a share of the capacity, \
                 or write \"10Mi\" for mebibytes)",
            ),
            (
                "kubeReserved: {memory: 512}",
                "wrong-type: `kubeReserved.memory` must be text, not the number 512 (write \"512Mi\" for mebibytes)",
            ),
            (
                "kubeReserved: {cpu: 1}",
                "wrong-type: `kubeReserved.cpu` must be text, not the number 1 (write \"1\", in quotes)",
            ),
            (
                "evictionHard: {memory.available: 1073741824}",
                "wrong-type: `evictionHard[\"memory.available\"]` must be text, not the number 1073741824 (write \"1073741824\", in quotes)",
            ),
            (
                "reservedMemory: [{limits: {memory: 1GB}}]",
                "wrong-type: `reservedMemory[0].limits.memory` must be a quantity such as 100Mi, not the text \"1GB\" (write \"1Gi\")",
            ),
            (
                "syncFrequency: 1d",
                "wrong-type: `syncFrequency` must be a duration, not the text \"1d\" (write 24h: a day is no unit)",
            ),
            (
                "kind: Kubelet",
                "wrong-kind: `kind` must be KubeletConfiguration, not \"Kubelet\" (write kind: KubeletConfiguration)",
            ),
        ] {
            assert_eq!(check_text(text), [finding.replace("{NEWEST}", &NEWEST.to_string())], "{text}");
        }
    }

    #[test]
    fn reports_ambiguous_scalar_once() {
        assert_eq!(check_text("failSwapOn: no").len(), 1);
        assert_eq!(check_text("clusterDomain: no").len(), 1);
    }
}
