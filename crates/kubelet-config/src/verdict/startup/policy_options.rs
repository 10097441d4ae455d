//! The options of the CPU and topology managers: one gate for all options, and for each option a name, the gate of its
//! stage, and a boolean or a number. The table of fields lists the options of each version, and
//! `crates/kubelet-config/data/policy-options.csv` has their types and gates.
//!
//! Sources: `pkg/kubelet/cm/cpumanager/policy_options.go`, `pkg/kubelet/cm/topologymanager/policy_options.go`, KEP-2625,
//! KEP-3545 and the KEPs of the single options.

use std::sync::LazyLock;

use crate::document::Entry;
use crate::table::{self, Spans};
use crate::values::strconv;
use crate::verdict::Config;
use crate::verdict::refusals::Refusals;
use crate::verdict::startup::did_you_mean;
use crate::{Minor, fields};

static TEXT: &str = include_str!("../../../data/policy-options.csv");
static TABLE: LazyLock<Vec<PolicyOption>> =
    LazyLock::new(|| table::rows(TEXT).filter_map(|cells| option(&cells)).collect());

/// The type of an option's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum OptionType {
    /// A boolean in Go's syntax.
    Boolean,
    /// A whole number.
    Integer,
}

/// One option.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PolicyOption {
    /// The field that has the option as a key.
    field: String,
    /// The name.
    name: String,
    /// The type of the value.
    value_type: OptionType,
    /// The gate that the option requires at its stage. A stable option requires none.
    gate: Spans<String>,
}

/// Returns the options of a field in this version: the keys that the table of fields lists.
fn known(field: &str, minor: Minor) -> impl Iterator<Item = &'static PolicyOption> {
    let keys = fields::lookup(field).and_then(|field| field.keys.at(minor)).map(Vec::as_slice).unwrap_or_default();
    TABLE.iter().filter(move |option| option.field == field && keys.contains(&option.name))
}

fn option(cells: &[String]) -> Option<PolicyOption> {
    let [field, name, value_type, gate] = cells else { return None };
    Some(PolicyOption {
        field: field.clone(),
        name: name.clone(),
        value_type: table::word(value_type)?,
        gate: Spans::read(gate, |name| Some(name.to_owned()))?,
    })
}

/// The minimum of `max-allowable-numa-nodes`, and the limit without this option
/// (`pkg/kubelet/cm/topologymanager/topology_manager.go`).
pub(super) const NUMA_NODES: i64 = 8;

/// Refuses the map, even an empty one, if the gate for all its options is off.
pub(super) fn gate(config: &Config<'_>, refusals: &mut Refusals, path: &str, gate: &str) {
    if config.given(path).is_some() && !config.gate(gate) {
        let message = format!("{path} is set, but the feature gate {gate} is off");
        refusals.field(config, path, message).help(format!("set featureGates: {{{gate}: true}}, or remove {path}"));
    }
}

/// Refuses unknown options, options whose gate is off, and invalid values.
pub(super) fn options(config: &Config<'_>, refusals: &mut Refusals, path: &str) {
    for (name, text, entry) in config.texts(path) {
        let field = format!("{path}.{name}");
        let Some(option) = known(path, config.minor()).find(|option| option.name == name) else {
            let message = format!("{path} contains the option {name:?}, which kubelet {} lacks", config.minor());
            let names: Vec<_> = known(path, config.minor()).map(|option| option.name.as_str()).collect();
            refusals.at(field, entry.key_place.clone(), message).help(did_you_mean(name, names.into_iter()));
            continue;
        };
        if let Some(gate) = option.gate.at(config.minor()).filter(|gate| !config.gate(gate)) {
            let message = format!("the option {name} requires the feature gate {gate}, which is off");
            refusals.at(field, entry.key_place.clone(), message).help(format!("set featureGates: {{{gate}: true}}"));
            continue;
        }
        let (why, help) = match option.value_type {
            OptionType::Boolean if strconv::boolean(text).is_none() => {
                ("is neither \"true\" nor \"false\"".to_owned(), "write \"true\", or \"false\"".to_owned())
            }
            OptionType::Integer => {
                let help = format!("write \"{NUMA_NODES}\" in quotes, or a larger number");
                match strconv::integer(text) {
                    None => ("is not a whole number".to_owned(), help),
                    Some(number) if number < NUMA_NODES => (format!("is below {NUMA_NODES}"), help),
                    Some(_) => continue,
                }
            }
            OptionType::Boolean => continue,
        };
        let message = format!("{field} {text:?} {why}");
        refusals.at(field, entry.value.place.clone(), message).help(help);
    }
}

/// Returns the entry of an option that this version has and the file switches on.
pub(super) fn switched_on<'d>(config: &Config<'d>, path: &str, name: &str) -> Option<&'d Entry> {
    let (_, _, entry) =
        config.texts(path).find(|(key, text, _)| *key == name && strconv::boolean(text) == Some(true))?;
    known(path, config.minor()).any(|option| option.name == name).then_some(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_of_policy_options_is_well_formed() {
        assert_eq!(TEXT.lines().next(), Some("field,option,value_type,gate"));
        assert_eq!(TABLE.len(), TEXT.lines().count() - 1, "every line reads");
        assert!(TABLE.is_sorted_by_key(|option| (&option.field, &option.name)));
        for option in TABLE.iter() {
            assert!(
                Minor::all().any(|minor| known(&option.field, minor).any(|known| known == option)),
                "{}",
                option.name
            );
            for (from, to, gate) in option.gate.iter() {
                let has_option = |minor| known(&option.field, minor).any(|known| known.name == option.name);
                assert!(gate.ends_with("AlphaOptions") || gate.ends_with("BetaOptions"), "{gate}");
                assert!(from == Minor(0) || (has_option(from) && has_option(to)), "{}", option.name);
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
