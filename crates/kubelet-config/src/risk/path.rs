//! Lookup keys for paths of a file in the table of risk.

use crate::fields;

/// Returns the row paths for a path of a file, from general to specific. For a key of a map with free keys these are
/// `map{}` and `map.key`.
pub(super) fn steps(path: &str) -> Vec<String> {
    let mut steps: Vec<String> = Vec::new();
    // The path in the table of fields.
    let mut at = String::new();
    let mut rest = path;
    while !rest.is_empty() {
        if !at.is_empty() && fields::items(&at).is_some() {
            let Some((_, after)) = rest.split_once(']') else { break };
            at.push_str("[]");
            steps.push(at.clone());
            rest = after;
            continue;
        }
        let free = if at.is_empty() { None } else { fields::lookup(&format!("{at}{{}}")) };
        let (key, after) = next_key(rest, free.is_some_and(|values| fields::items(&values.path).is_none()));
        match free {
            Some(values) => {
                steps.push(values.path.clone());
                if key != "{}" {
                    steps.push(format!("{at}.{key}"));
                }
                at.clone_from(&values.path);
            }
            None => {
                at = if at.is_empty() { key } else { format!("{at}.{key}") };
                steps.push(at.clone());
            }
        }
        rest = after;
    }
    steps
}

/// Splits off the first key of a path. A key that extends `to_the_end` may contain dots.
fn next_key(path: &str, to_the_end: bool) -> (String, &str) {
    if let Some(quoted) = path.strip_prefix('[')
        && let Some((key, after)) = quoted.split_once(']')
    {
        return (serde_json::from_str(key).unwrap_or_else(|_| key.to_owned()), after);
    }
    if let Some(after) = path.strip_prefix("{}") {
        return ("{}".to_owned(), after);
    }
    let path = path.strip_prefix('.').unwrap_or(path);
    if to_the_end {
        return (path.to_owned(), "");
    }
    // A path that starts with a separator is one key, so that the loop always ends.
    let end = path.find(['.', '[', '{']).filter(|end| *end > 0).unwrap_or(path.len());
    let (key, after) = path.split_at(end);
    (key.to_owned(), after)
}

/// Returns the top-level field of a path.
pub(super) fn parent(path: &str) -> &str {
    path.find(['.', '[', '{']).and_then(|end| path.get(..end)).unwrap_or_default()
}
