//! The table of policy options (`crates/kubelet-config/data/policy-options.csv`): the keys of
//! `cpuManagerPolicyOptions` and `topologyManagerPolicyOptions`, by version.
//!
//! Sources: `pkg/kubelet/cm/cpumanager/policy_options.go`, `pkg/kubelet/cm/topologymanager/policy_options.go`,
//! KEP-2625, KEP-3545 and the KEPs of the single options.

use std::sync::LazyLock;

use crate::Minor;
use crate::table::{self, Spans};

static TEXT: &str = include_str!("../../data/policy-options.csv");
static TABLE: LazyLock<Vec<PolicyOption>> =
    LazyLock::new(|| table::rows(TEXT).filter_map(|cells| option(&cells)).collect());

/// The type of an option's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OptionType {
    /// A boolean in Go's syntax.
    Boolean,
    /// A whole number.
    Integer,
}

/// One option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PolicyOption {
    /// The field that has the option as a key.
    pub(super) field: String,
    /// The name.
    pub(super) name: String,
    /// The first minor that has the option.
    pub(super) since: Minor,
    /// The last minor that has the option. [`NEWEST`](crate::NEWEST) means that it still exists.
    pub(super) until: Minor,
    /// The type of the value.
    pub(super) value_type: OptionType,
    /// The gate that the option requires at its stage. A stable option requires none.
    pub(super) gate: Spans<String>,
}

/// Returns the options of a field in this version.
pub(super) fn known(field: &str, minor: Minor) -> impl Iterator<Item = &'static PolicyOption> {
    TABLE.iter().filter(move |option| option.field == field && (option.since..=option.until).contains(&minor))
}

fn option(cells: &[String]) -> Option<PolicyOption> {
    let [field, name, since, until, value_type, gate] = cells else { return None };
    Some(PolicyOption {
        field: field.clone(),
        name: name.clone(),
        since: table::minor(since)?,
        until: table::minor(until)?,
        value_type: match value_type.as_str() {
            "boolean" => OptionType::Boolean,
            "integer" => OptionType::Integer,
            _ => return None,
        },
        gate: Spans::read(gate, |name| Some(name.to_owned()))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields;

    #[test]
    fn table_of_policy_options_is_well_formed() {
        assert_eq!(TEXT.lines().next(), Some("field,option,since,until,value_type,gate"));
        assert_eq!(TABLE.len(), TEXT.lines().count() - 1, "every line reads");
        assert!(TABLE.is_sorted_by_key(|option| (&option.field, &option.name)));
        for option in TABLE.iter() {
            assert!(option.since <= option.until, "{}", option.name);
            for (from, to, gate) in option.gate.iter() {
                assert!(gate.ends_with("AlphaOptions") || gate.ends_with("BetaOptions"), "{gate}");
                assert!(from == Minor(0) || (option.since <= from && to <= option.until), "{}", option.name);
            }
        }
    }

    #[test]
    fn options_match_keys_in_table_of_fields() {
        for path in ["cpuManagerPolicyOptions", "topologyManagerPolicyOptions"] {
            let field = fields::lookup(path).unwrap();
            for minor in Minor::all().filter(|minor| field.is_known_to(*minor)) {
                let keys = field.keys.at(minor).into_iter().flatten().filter(|key| *key != "*");
                let mut keys: Vec<_> = keys.map(String::as_str).collect();
                keys.sort_unstable();
                let known: Vec<_> = known(path, minor).map(|option| option.name.as_str()).collect();
                assert_eq!(known, keys, "{path} in {minor}");
            }
        }
    }
}
