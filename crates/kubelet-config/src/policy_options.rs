//! The table of policy options (`crates/kubelet-config/data/policy-options.csv`): what `cpuManagerPolicyOptions` and
//! `topologyManagerPolicyOptions` may hold, by version (`pkg/kubelet/cm/cpumanager/policy_options.go`,
//! `pkg/kubelet/cm/topologymanager/policy_options.go`; KEP-2625, KEP-3545 and the KEPs of the single options).

use std::sync::LazyLock;

use super::minor::Minor;
use super::table::{self, Spans};

static TEXT: &str = include_str!("../data/policy-options.csv");
static TABLE: LazyLock<Vec<PolicyOption>> =
    LazyLock::new(|| table::rows(TEXT).filter_map(|cells| option(&cells)).collect());

/// What the text of an option holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// A boolean as Go reads it.
    Boolean,
    /// A whole number.
    Integer,
}

/// One option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyOption {
    /// The field that it is a key of.
    pub field: String,
    /// Its name.
    pub name: String,
    /// The first minor that knows it.
    pub since: Minor,
    /// The last minor that knows it; 1.37 says that it still does.
    pub until: Minor,
    /// What its text holds.
    pub takes: Takes,
    /// The gate without which it is refused: that of its stage. A stable option needs none.
    pub gate: Spans<String>,
}

/// The options of a field that kubelets of this version know.
pub fn known(field: &str, minor: Minor) -> impl Iterator<Item = &'static PolicyOption> {
    TABLE.iter().filter(move |option| option.field == field && (option.since..=option.until).contains(&minor))
}

fn option(cells: &[String]) -> Option<PolicyOption> {
    let [field, name, since, until, takes, gate] = cells else { return None };
    Some(PolicyOption {
        field: field.clone(),
        name: name.clone(),
        since: table::minor(since)?,
        until: table::minor(until)?,
        takes: match takes.as_str() {
            "boolean" => Takes::Boolean,
            "integer" => Takes::Integer,
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
    fn the_table_is_well_formed() {
        assert_eq!(TEXT.lines().next(), Some("field,option,since,until,takes,gate"));
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
    fn it_agrees_with_the_keys_in_the_table_of_fields() {
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
