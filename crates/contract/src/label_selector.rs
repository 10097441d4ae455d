//! Label selectors with the semantics of metav1 `LabelSelector`.

use std::collections::BTreeMap;
use std::fmt;

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
        self.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.match_expressions.iter().all(|requirement| requirement.matches(labels))
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
                let value = candidates.into_iter().find(|value| {
                    let one = BTreeMap::from([(requirement.key.clone(), (*value).to_owned())]);
                    all().all(|other| other.matches(&one))
                })?;
                labels.insert(requirement.key.clone(), value.to_owned());
            }
        }
        self.matches(&labels).then_some(labels)
    }
}

impl Requirement {
    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        match self.operator {
            Operator::In => value.is_some_and(|value| self.values.contains(value)),
            Operator::NotIn => value.is_none_or(|value| !self.values.contains(value)),
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
}
