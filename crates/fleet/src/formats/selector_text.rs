//! Parser of label selectors in the notation of kubectl's `--selector`: `a=b,c in (d,e),!f`.

use nodecfg_contract::label_selector::{LabelSelector, Operator, Requirement};

/// Parses a selector. Commas separate requirements: `a=b`, `a==b`, `a!=b`, `a in (b,c)`, `a notin (b,c)`, `a`, `!a`.
///
/// # Errors
/// Describes the first invalid part.
pub fn parse_selector(text: &str) -> Result<LabelSelector, String> {
    let mut selector = LabelSelector::default();
    for part in split_requirements(text)? {
        add_requirement(part.trim(), &mut selector)?;
    }
    if selector.is_everything() { Err("a selector needs a requirement".to_owned()) } else { Ok(selector) }
}

/// Splits at commas outside of parentheses.
fn split_requirements(text: &str) -> Result<Vec<&str>, String> {
    let (mut parts, mut start, mut within) = (Vec::new(), 0, false);
    for (at, character) in text.char_indices() {
        match character {
            '(' if within => return Err("parentheses are nested".to_owned()),
            '(' => within = true,
            ')' if !within => return Err("unmatched closing parenthesis".to_owned()),
            ')' => within = false,
            ',' if !within => {
                parts.push(text.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
    }
    if within {
        return Err("unmatched opening parenthesis".to_owned());
    }
    parts.push(text.get(start..).unwrap_or_default());
    Ok(parts)
}

fn add_requirement(part: &str, selector: &mut LabelSelector) -> Result<(), String> {
    let mut require = |key: &str, operator, values: Vec<String>| {
        selector.match_expressions.push(Requirement { key: key.to_owned(), operator, values });
    };
    if let Some((key, list)) = part.split_once('(') {
        let list = list.strip_suffix(')').ok_or_else(|| format!("{part:?}: unexpected text after the list"))?;
        let values: Vec<String> = list.split(',').map(|value| value.trim().to_owned()).collect();
        let (key, operator) = match key.split_whitespace().collect::<Vec<_>>().as_slice() {
            [key, "in"] => (*key, Operator::In),
            [key, "notin"] => (*key, Operator::NotIn),
            _ => return Err(format!("{part:?} is not a requirement: KEY in (VALUE,…) or KEY notin (VALUE,…)")),
        };
        require(label_key(key)?, operator, values);
    } else if let Some((key, value)) = part.split_once("!=") {
        require(label_key(key)?, Operator::NotIn, vec![label_value(value)?]);
    } else if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        let (key, value) = (label_key(key)?.to_owned(), label_value(value)?);
        // A label has one value, so a second one is a contradiction.
        if selector.match_labels.get(&key).is_some_and(|known| *known != value) {
            return Err(format!("{key} requires two different values"));
        }
        selector.match_labels.insert(key, value);
    } else if let Some(key) = part.strip_prefix('!') {
        require(label_key(key)?, Operator::DoesNotExist, Vec::new());
    } else {
        require(label_key(part)?, Operator::Exists, Vec::new());
    }
    Ok(())
}

/// Trims a label key. Checks its characters, but neither its length nor its form.
fn label_key(text: &str) -> Result<&str, String> {
    let text = text.trim();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    if text.is_empty() || !text.chars().all(fits) { Err(format!("{text:?} is not a label key")) } else { Ok(text) }
}

/// Trims a label value. Checks its characters, but neither its length nor its form.
fn label_value(text: &str) -> Result<String, String> {
    let text = text.trim();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.chars().all(fits) { Ok(text.to_owned()) } else { Err(format!("{text:?} is not a label value")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalizes_selectors() {
        for (text, written) in [
            ("a=b", "a=b"),
            (" a == b , c ", "a=b,c"),
            ("a!=b,!c", "a notin (b),!c"),
            ("x.io/y in (d, e),f notin (g)", "x.io/y in (d,e),f notin (g)"),
            ("a=", "a="),
        ] {
            assert_eq!(parse_selector(text).map(|selector| selector.to_string()).as_deref(), Ok(written), "{text}");
        }
    }

    #[test]
    fn rejects_invalid_selectors() {
        for text in ["", ",", "a=b=c", "a in b", "a in (b", "a in ((b))", "a)", "a in (b) c", "a b", "a=b,a=c", "ü=1"]
        {
            assert!(parse_selector(text).is_err(), "{text}");
        }
    }
}
