//! The table of rules: everything that a kubelet refuses, by the stage at which it does, with the versions that have the
//! rule and its source (`crates/kubelet-config/data/rules.csv`). What each rule does is code, in `verdict`; what it says, where it comes
//! from and which versions have it is written here alone.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::minor::Minor;
use super::table;

static TEXT: &str = include_str!("../data/rules.csv");
static TABLE: LazyLock<BTreeMap<String, Rule>> =
    LazyLock::new(|| table::rows(TEXT).filter_map(|cells| rule(&cells)).map(|rule| (rule.id.clone(), rule)).collect());

/// When the kubelet refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, schemars::JsonSchema)]
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
    /// Its identifier, also the code of its findings.
    pub id: String,
    /// When the kubelet applies it.
    pub stage: RuleStage,
    /// The first minor that has it.
    pub since: Minor,
    /// The last minor that has it; 1.37 says that it is still there.
    pub until: Minor,
    /// Paths in the table of fields that it is about.
    pub fields: Vec<String>,
    /// What it asks for, in one sentence.
    pub says: String,
    /// Where upstream has it.
    pub source: String,
}

impl Rule {
    /// Whether kubelets of this version have it.
    #[must_use]
    pub fn applies_to(&self, minor: Minor) -> bool {
        (self.since..=self.until).contains(&minor)
    }
}

/// The rule of this name.
#[must_use]
pub fn lookup(id: &str) -> Option<&'static Rule> {
    TABLE.get(id)
}

/// Every rule, by identifier.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    TABLE.values()
}

fn rule(cells: &[String]) -> Option<Rule> {
    let [id, stage, since, until, fields, says, source] = cells else { return None };
    Some(Rule {
        id: id.clone(),
        stage: match stage.as_str() {
            "load" => RuleStage::Load,
            "gates" => RuleStage::Gates,
            "validate" => RuleStage::Validate,
            "startup" => RuleStage::Startup,
            _ => return None,
        },
        since: table::minor(since)?,
        until: table::minor(until)?,
        fields: fields.split(' ').filter(|path| !path.is_empty()).map(str::to_owned).collect(),
        says: says.clone(),
        source: source.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields;

    #[test]
    fn the_table_is_well_formed() {
        assert_eq!(TEXT.lines().next(), Some("id,stage,since,until,fields,says,source"));
        assert_eq!(all().count(), TEXT.lines().count() - 1, "every line reads, and no identifier appears twice");
        for rule in all() {
            assert!(rule.since <= rule.until, "{}", rule.id);
            assert!(rule.says.ends_with('.') && !rule.source.is_empty(), "{}", rule.id);
            assert!(rule.id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'), "{}", rule.id);
            for path in &rule.fields {
                assert!(fields::lookup(path).is_some(), "{}: there is no field {path}", rule.id);
            }
        }
    }
}
