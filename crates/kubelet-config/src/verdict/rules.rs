//! The table of rules: every refusal of a kubelet, with stage, versions, message and source
//! (`crates/kubelet-config/data/rules.csv`). The checks themselves are in `verdict`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::{Minor, table};

static TEXT: &str = include_str!("../../data/rules.csv");
static TABLE: LazyLock<BTreeMap<String, Rule>> =
    LazyLock::new(|| table::rows(TEXT).filter_map(|cells| rule(&cells)).map(|rule| (rule.id.clone(), rule)).collect());

/// The stage at which the kubelet refuses.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum RuleStage {
    /// While the file is decoded.
    Load,
    /// While feature gates are applied.
    Gates,
    /// In `ValidateKubeletConfiguration`.
    Validate,
    /// Later, when a component starts.
    Startup,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The identifier, also the code of the rule's findings.
    pub id: String,
    /// The stage at which the kubelet applies the rule.
    pub stage: RuleStage,
    /// The first minor that has the rule.
    pub since: Minor,
    /// The last minor that has the rule. [`NEWEST`](crate::NEWEST) means that it still exists.
    pub until: Minor,
    /// Paths of the fields that the rule checks.
    pub fields: Vec<String>,
    /// The requirement, in one sentence.
    pub description: String,
    /// The source in Kubernetes.
    pub source: String,
}

impl Rule {
    /// Reports whether kubelets of this version have the rule.
    #[must_use]
    pub fn applies_to(&self, minor: Minor) -> bool {
        (self.since..=self.until).contains(&minor)
    }
}

/// Returns the rule with an identifier.
#[must_use]
pub fn lookup(id: &str) -> Option<&'static Rule> {
    TABLE.get(id)
}

/// Returns every rule, ordered by identifier.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    TABLE.values()
}

fn rule(cells: &[String]) -> Option<Rule> {
    let [id, stage, since, until, fields, description, source] = cells else { return None };
    Some(Rule {
        id: id.clone(),
        stage: table::word(stage)?,
        since: table::minor(since)?,
        until: table::minor(until)?,
        fields: fields.split(' ').filter(|path| !path.is_empty()).map(str::to_owned).collect(),
        description: description.clone(),
        source: source.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields;

    #[test]
    fn table_of_rules_is_well_formed() {
        assert_eq!(TEXT.lines().next(), Some("id,stage,since,until,fields,description,source"));
        assert_eq!(all().count(), TEXT.lines().count() - 1, "every line reads, and no identifier appears twice");
        for rule in all() {
            assert!(rule.since <= rule.until, "{}", rule.id);
            assert!(rule.description.ends_with('.') && !rule.source.is_empty(), "{}", rule.id);
            assert!(rule.id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'), "{}", rule.id);
            for path in &rule.fields {
                assert!(fields::lookup(path).is_some(), "{}: there is no field {path}", rule.id);
            }
        }
    }
}
