//! Simple JSONPaths of printer columns: `.a.b`, `.a\.b`, `['a']`, `[0]`, `[*]` and `[?(@.a=="b")]`.
//!
//! Other JSONPath features (slices, unions, recursion) select nothing.

use serde_json::Value;

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Field(String),
    Index(i64),
    All,
    /// Items in which a path selects this text, or does not.
    Where {
        path: Vec<Step>,
        equal: bool,
        text: String,
    },
}

/// First value that a path selects in a document. `None` without a value, or for an unsupported path.
pub(super) fn first<'a>(path: &str, document: &'a Value) -> Option<&'a Value> {
    select(&parse(path)?, document).into_iter().next()
}

fn select<'a>(steps: &[Step], document: &'a Value) -> Vec<&'a Value> {
    steps
        .iter()
        .fold(vec![document], |values, step| values.into_iter().flat_map(|value| apply_step(step, value)).collect())
}

fn apply_step<'a>(step: &Step, value: &'a Value) -> Vec<&'a Value> {
    match (step, value) {
        (Step::Field(name), Value::Object(fields)) => fields.get(name).into_iter().collect(),
        (Step::Index(index), Value::Array(items)) => {
            let from_end = || items.len().checked_sub(usize::try_from(index.checked_neg()?).ok()?);
            let index = usize::try_from(*index).ok().or_else(from_end);
            index.and_then(|index| items.get(index)).into_iter().collect()
        }
        (Step::All, Value::Array(items)) => items.iter().collect(),
        (Step::All, Value::Object(fields)) => fields.values().collect(),
        (Step::Where { path, equal, text }, Value::Array(items)) => {
            let fits =
                |item: &&Value| select(path, item).first().is_some_and(|found| (plain(found) == *text) == *equal);
            items.iter().filter(fits).collect()
        }
        _ => Vec::new(),
    }
}

/// Text of a scalar for comparisons and cells; JSON for other values.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn parse(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.trim();
    if let Some(inner) = rest.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        rest = inner;
    }
    rest = rest.strip_prefix('$').unwrap_or(rest);
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let (inner, after) = bracket(after)?;
            steps.push(parse_bracket(inner)?);
            rest = after;
        } else {
            let (name, after) = name(rest.strip_prefix('.').unwrap_or(rest));
            // A single dot selects the document.
            if !name.is_empty() {
                steps.push(if name == "*" { Step::All } else { Step::Field(name) });
            } else if after == rest || !after.is_empty() && !after.starts_with('[') {
                return None;
            }
            rest = after;
        }
    }
    Some(steps)
}

/// Parses a field name up to the next unescaped dot or bracket.
fn name(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|(_, escaped)| escaped)),
            '.' | '[' => return (name, text.get(at..).unwrap_or_default()),
            _ => name.push(c),
        }
    }
    (name, "")
}

/// Returns the text up to the closing bracket, and the rest. Brackets within quotes or brackets are skipped.
fn bracket(text: &str) -> Option<(&str, &str)> {
    let (mut depth, mut quote) = (0_usize, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some((text.get(..at)?, text.get(at + 1..)?)),
            (None, ']') => depth -= 1,
            _ => {}
        }
    }
    None
}

fn parse_bracket(inner: &str) -> Option<Step> {
    let inner = inner.trim();
    if inner == "*" {
        return Some(Step::All);
    }
    if let Some(name) = quoted(inner) {
        return Some(Step::Field(name.to_owned()));
    }
    if let Some(condition) = inner.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
        let (path, text, equal) = match condition.split_once("==") {
            Some((path, text)) => (path, text, true),
            None => condition.split_once("!=").map(|(path, text)| (path, text, false))?,
        };
        let path = parse(path.trim().strip_prefix('@')?)?;
        let text = text.trim();
        return Some(Step::Where { path, equal, text: quoted(text).unwrap_or(text).to_owned() });
    }
    inner.parse().ok().map(Step::Index)
}

fn quoted(text: &str) -> Option<&str> {
    ['\'', '"'].into_iter().find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selects_first_value_of_supported_paths() {
        let document = json!({
            "spec": {"size": 3, "a.b": "dotted", "list": [10, 20, 30]},
            "status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Synced", "status": "True"}]}
        });
        for (path, wanted) in [
            (".spec.size", json!(3)),
            ("{.spec.size}", json!(3)),
            ("$.spec.size", json!(3)),
            ("spec.size", json!(3)),
            (r".spec.a\.b", json!("dotted")),
            (".spec['a.b']", json!("dotted")),
            (".spec.list[1]", json!(20)),
            (".spec.list[-1]", json!(30)),
            (".spec.list[*]", json!(10)),
            (r#".status.conditions[?(@.type=="Synced")].status"#, json!("True")),
            (".status.conditions[?(@.type == 'Ready')].status", json!("False")),
            (".status.conditions[?(@.type!='Ready')].type", json!("Synced")),
        ] {
            assert_eq!(first(path, &document), Some(&wanted), "{path}");
        }
        for path in [
            ".spec.nothing",
            ".spec.size.more",
            ".spec.list[7]",
            ".spec.list[-4]",
            ".spec..size",
            ".spec[",
            ".spec[0:2]",
        ] {
            assert_eq!(first(path, &document), None, "{path}");
        }
        assert_eq!(first(".", &document), Some(&document));
    }
}
