//! The options of the CPU and topology managers: one gate for all options, and for each option a name, the gate of
//! its stage, and a boolean or a number.

use super::{did_you_mean, texts};
use crate::document::Entry;
use crate::values::strconv;
use crate::verdict::Config;
use crate::verdict::policy_options::{OptionType, known};
use crate::verdict::refusals::Refusals;

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
    for (name, text, entry) in texts(config, path) {
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
        texts(config, path).find(|(key, text, _)| *key == name && strconv::boolean(text) == Some(true))?;
    known(path, config.minor()).any(|option| option.name == name).then_some(entry)
}
