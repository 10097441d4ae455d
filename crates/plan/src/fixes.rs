//! Texts of the fixes for changes that a plan refuses.

use crate::changes::{LostField, OmittedField};
use kubelet_config::risk::{Class, StateFile};
use nodecfg_contract::names::PoolName;

/// Maximum number of omitted fields that a fix lists.
const MAX_LISTED_FIELDS: usize = 5;

/// Fix for a change of a class that the pool does not allow.
#[must_use]
pub fn fix(pool: &PoolName, worst: Class, state_files: &[StateFile], omitted: &[OmittedField]) -> String {
    let name = name_fields(omitted, MAX_LISTED_FIELDS);
    let (alternative, drain) = (alternative(worst), drain(worst, state_files));
    format!("{name}{alternative}set spec.rollout.allowDisruption: {worst} in pools/{pool}/pool.yaml{drain}")
}

/// Fix for a refused rollback, which an option of the command can allow. Not even this option allows
/// [`Class::Never`].
#[must_use]
pub fn rollback_fix(pool: &PoolName, worst: Class, state_files: &[StateFile]) -> String {
    if worst == Class::Never {
        return fix(pool, worst, state_files, &[]);
    }
    let (alternative, drain) = (alternative(worst), drain(worst, state_files));
    format!(
        "{alternative}pass --allow-disruption {worst} --reason TEXT{drain}; `nodecfg rollback {pool} --dry-run -v` shows \
         each field"
    )
}

/// Fix for refused losses.
#[must_use]
pub fn loss_fix(pool: &PoolName, lost: &[LostField]) -> String {
    let omitted: Vec<OmittedField> = lost.iter().map(|field| field.omitted.clone()).collect();
    let mut fields: Vec<&str> = lost.iter().map(|field| field.loss.field.as_str()).collect();
    fields.dedup();
    let name = name_fields(&omitted, usize::MAX);
    format!("{name}set spec.kubelet.acceptRemoved: [{}] in pools/{pool}/pool.yaml", fields.join(", "))
}

/// Fix for fields that the configuration omits, of which at most `most` are listed: naming them keeps what the nodes run.
/// Ends before an alternative.
fn name_fields(omitted: &[OmittedField], most: usize) -> String {
    if omitted.is_empty() {
        return String::new();
    }
    let line = |field: &OmittedField| match field.running.as_deref().filter(|running| is_plain(running)) {
        Some(running) => format!("{}: {running}", field.path),
        None => field.path.clone(),
    };
    let mut lines: Vec<String> = omitted.iter().take(most).map(line).collect();
    if omitted.len() > most {
        lines.push(format!("{} more", omitted.len() - most));
    }
    format!("write {}, which the configuration omits, to keep what the nodes run; or ", lines.join(", "))
}

/// Reports whether a value may stand in a sentence. Others come from a node or a repository, and could pass for text of
/// the report; the field diff shows them as code.
fn is_plain(value: &str) -> bool {
    value.len() <= 80 && value.chars().all(|letter| letter.is_ascii_alphanumeric() || "._-/:,%\"[] ".contains(letter))
}

/// What to do instead of the change, or to accept.
fn alternative(worst: Class) -> &'static str {
    match worst {
        Class::None | Class::Restart | Class::Drain => "",
        Class::Replace => "create new nodes with this configuration, or ",
        Class::Never => "revert the change, or accept the loss of pods and ",
    }
}

/// What nodecfg does before the change, and what it leaves to the user.
fn drain(worst: Class, state_files: &[StateFile]) -> String {
    if worst < Class::Drain {
        return String::new();
    }
    let files: Vec<String> = state_files.iter().map(|file| format!("/var/lib/kubelet/{file}")).collect();
    let files = match files.as_slice() {
        [] => String::new(),
        files => format!("; without node agents, delete {} while a node is drained", files.join(" and ")),
    };
    format!(", which drains each node first{files}")
}
