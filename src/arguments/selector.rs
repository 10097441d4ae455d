//! Values of `--selector`.

use nodecfg_contract::label_selector::{LabelSelector, Operator, Requirement};

/// Parses a label selector that selects some nodes.
///
/// # Errors
/// Describes the first invalid part. An empty selector is a mistake, and so are two values of one label.
pub(crate) fn parse_selector(text: &str) -> Result<LabelSelector, String> {
    let selector: LabelSelector = text.parse()?;
    let is_contradiction = |requirement: &&Requirement| {
        let value = selector.match_labels.get(&requirement.key);
        requirement.operator == Operator::In && value.is_some_and(|value| !requirement.values.contains(value))
    };
    match selector.match_expressions.iter().find(is_contradiction) {
        Some(Requirement { key, .. }) => Err(format!("{key} requires two different values")),
        None if selector.is_everything() => Err("a selector needs a requirement".to_owned()),
        None => Ok(selector),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_selectors_of_all_nodes_and_of_none() {
        for text in ["", " ", "a=b,a=c", "a in (c,d),a=b", "a in b"] {
            assert!(parse_selector(text).is_err(), "{text:?}");
        }
        for text in ["a=b,a=b", "a=b,a in (b,c)", "a=b,a notin (c)"] {
            assert!(parse_selector(text).is_ok(), "{text}");
        }
    }
}
