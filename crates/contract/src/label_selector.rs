//! Label selectors with the semantics of metav1 `LabelSelector`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Selects the objects whose labels meet every requirement; without requirements, every object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LabelSelector {
    /// Labels that a node must have with exactly these values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Requirements on labels, all of which a node must meet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<Requirement>,
}

/// One requirement on a label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Requirement {
    /// Key of the label.
    pub key: String,
    /// Relation between the label and the values.
    pub operator: Operator,
    /// Values: at least one for In and NotIn, none for Exists and DoesNotExist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// Relation between a label and the values of a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Operator {
    /// The label exists and has one of the values.
    In,
    /// The label is missing or has none of the values.
    NotIn,
    /// The label exists.
    Exists,
    /// The label is missing.
    DoesNotExist,
}

impl Operator {
    /// All operators with their names.
    pub const ALL: [(&'static str, Self); 4] =
        [("In", Self::In), ("NotIn", Self::NotIn), ("Exists", Self::Exists), ("DoesNotExist", Self::DoesNotExist)];
}

impl LabelSelector {
    /// Selects the nodes with one label of one value.
    #[must_use]
    pub fn of_label(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self { match_labels: BTreeMap::from([(key.into(), value.into())]), match_expressions: Vec::new() }
    }

    /// Reports whether there is no requirement, so that every node is selected.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// Reports whether a node with these labels is selected.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.matches_values(|key| labels.get(key).map(String::as_str))
    }

    /// Reports whether an object is selected. `value_of` returns the value of a label of the object.
    #[must_use]
    pub fn matches_values<'l>(&self, value_of: impl Fn(&str) -> Option<&'l str>) -> bool {
        self.match_labels.iter().all(|(key, value)| value_of(key) == Some(value))
            && self.match_expressions.iter().all(|requirement| requirement.fits(value_of(&requirement.key)))
    }

    /// Label keys of all requirements, possibly repeated.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        let expressions = self.match_expressions.iter().map(|requirement| requirement.key.as_str());
        self.match_labels.keys().map(String::as_str).chain(expressions)
    }

    /// Returns labels that meet all requirements, to create matching nodes. `None` if the requirements contradict
    /// each other or exclude every value that is tried.
    #[must_use]
    pub fn example(&self) -> Option<BTreeMap<String, String>> {
        let mut labels = self.match_labels.clone();
        for requirement in &self.match_expressions {
            if matches!(requirement.operator, Operator::In | Operator::Exists) && !labels.contains_key(&requirement.key)
            {
                // One value must satisfy all requirements on the key.
                let all = || self.match_expressions.iter().filter(|other| other.key == requirement.key);
                let candidates = requirement.values.iter().map(String::as_str).chain(["", "true", "x"]);
                let value = candidates.into_iter().find(|value| all().all(|other| other.fits(Some(value))))?;
                labels.insert(requirement.key.clone(), value.to_owned());
            }
        }
        self.matches(&labels).then_some(labels)
    }
}

impl Requirement {
    /// Reports whether the label may have this value, or be missing.
    fn fits(&self, value: Option<&str>) -> bool {
        let is_listed = |value: &str| self.values.iter().any(|listed| listed == value);
        match self.operator {
            Operator::In => value.is_some_and(is_listed),
            Operator::NotIn => !value.is_some_and(is_listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}

impl fmt::Display for LabelSelector {
    /// Notation of kubectl's `--selector`: `a=b,c in (d,e),!f`; `<everything>` without requirements.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_everything() {
            return f.write_str("<everything>");
        }
        let labels = self.match_labels.iter().map(|(key, value)| format!("{key}={value}"));
        let all: Vec<_> = labels.chain(self.match_expressions.iter().map(ToString::to_string)).collect();
        f.write_str(&all.join(","))
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, values) = (&self.key, self.values.join(","));
        match self.operator {
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
        }
    }
}

impl FromStr for LabelSelector {
    type Err = String;

    /// Parses the notation of kubectl's `--selector`. Commas separate requirements: `a=b`, `a==b`, `a!=b`, `a in (b,c)`,
    /// `a notin (b,c)`, `a`, `!a`. An empty text selects everything.
    ///
    /// # Errors
    /// Describes the first invalid part.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut selector = Self::default();
        if !text.trim().is_empty() {
            for part in split_requirements(text)? {
                selector.add(part.trim())?;
            }
        }
        Ok(selector)
    }
}

impl LabelSelector {
    fn require(&mut self, key: &str, operator: Operator, values: Vec<String>) {
        self.match_expressions.push(Requirement { key: key.to_owned(), operator, values });
    }

    /// Adds a requirement in kubectl's notation.
    fn add(&mut self, part: &str) -> Result<(), String> {
        if let Some((key, list)) = part.split_once('(') {
            let list = list.strip_suffix(')').ok_or_else(|| format!("{part:?}: unexpected text after the list"))?;
            let values = list.split(',').map(label_value).collect::<Result<_, _>>()?;
            let (key, operator) = match key.split_whitespace().collect::<Vec<_>>().as_slice() {
                [key, "in"] => (*key, Operator::In),
                [key, "notin"] => (*key, Operator::NotIn),
                _ => return Err(format!("{part:?} is not a requirement: KEY in (VALUE,…) or KEY notin (VALUE,…)")),
            };
            self.require(label_key(key)?, operator, values);
        } else if let Some((key, value)) = part.split_once("!=") {
            self.require(label_key(key)?, Operator::NotIn, vec![label_value(value)?]);
        } else if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
            let (key, value) = (label_key(key)?, label_value(value)?);
            // No label has two values.
            if self.match_labels.get(key).is_some_and(|known| *known != value) {
                self.require(key, Operator::In, vec![value]);
            } else {
                self.match_labels.insert(key.to_owned(), value);
            }
        } else if let Some(key) = part.strip_prefix('!') {
            self.require(label_key(key)?, Operator::DoesNotExist, Vec::new());
        } else {
            self.require(label_key(part)?, Operator::Exists, Vec::new());
        }
        Ok(())
    }
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

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    fn requirement(key: &str, operator: Operator, values: &[&str]) -> Requirement {
        Requirement { key: key.to_owned(), operator, values: values.iter().map(|v| (*v).to_owned()).collect() }
    }

    #[test]
    fn matches_by_each_operator() {
        for (operator, values, absent, a, c) in [
            (Operator::In, &["a", "b"][..], false, true, false),
            (Operator::NotIn, &["a", "b"][..], true, false, true),
            (Operator::Exists, &[][..], false, true, true),
            (Operator::DoesNotExist, &[][..], true, false, false),
        ] {
            let selector = LabelSelector {
                match_expressions: vec![requirement("k", operator, values)],
                ..LabelSelector::default()
            };
            assert_eq!(selector.matches(&labels(&[])), absent, "{selector}");
            assert_eq!(selector.matches(&labels(&[("k", "a")])), a, "{selector}");
            assert_eq!(selector.matches(&labels(&[("k", "c")])), c, "{selector}");
        }
    }

    #[test]
    fn requires_all_requirements() {
        let selector = LabelSelector {
            match_labels: labels(&[("a", "b")]),
            match_expressions: vec![
                requirement("c", Operator::In, &["d", "e"]),
                requirement("f", Operator::DoesNotExist, &[]),
                requirement("g", Operator::Exists, &[]),
                requirement("h", Operator::NotIn, &["i"]),
            ],
        };
        assert_eq!(selector.to_string(), "a=b,c in (d,e),!f,g,h notin (i)");
        assert!(selector.matches(&labels(&[("a", "b"), ("c", "e"), ("g", "")])));
        assert!(!selector.matches(&labels(&[("a", "b"), ("c", "e")])));
        assert_eq!(selector.keys().collect::<Vec<_>>(), ["a", "c", "f", "g", "h"]);
        assert_eq!(selector.example(), Some(labels(&[("a", "b"), ("c", "d"), ("g", "")])));
    }

    #[test]
    fn empty_selector_selects_everything() {
        assert!(LabelSelector::default().matches(&labels(&[])));
        assert_eq!(LabelSelector::default().to_string(), "<everything>");
    }

    #[test]
    fn contradictory_selector_has_no_example() {
        let selector = LabelSelector {
            match_labels: labels(&[("a", "b")]),
            match_expressions: vec![requirement("a", Operator::DoesNotExist, &[])],
        };
        assert_eq!(selector.example(), None);
    }

    #[test]
    fn normalizes_selectors() {
        for (text, written) in [
            ("a=b", "a=b"),
            (" a == b , c ", "a=b,c"),
            ("a!=b,!c", "a notin (b),!c"),
            ("x.io/y in (d, e),f notin (g)", "x.io/y in (d,e),f notin (g)"),
            ("a=", "a="),
            ("a=b,a=c,a=b", "a=b,a in (c)"),
            (" ", "<everything>"),
        ] {
            assert_eq!(
                text.parse().map(|selector: LabelSelector| selector.to_string()).as_deref(),
                Ok(written),
                "{text}"
            );
        }
    }

    #[test]
    fn rejects_invalid_selectors() {
        for text in [
            ",",
            "a,",
            "a=b=c",
            "a in b",
            "a in (b",
            "a in ((b))",
            "a)",
            "a in (b) c",
            "a in (b c)",
            "a b",
            "=a",
            "!",
            "a>1",
            "ü=1",
        ] {
            assert!(text.parse::<LabelSelector>().is_err(), "{text}");
        }
    }
}
