//! One pool of a review as markdown: its table row, and its details in full and brief form.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::super::group::title;
use super::super::sentences::Fact;
use super::super::{drains, group, outlook, sentences};
use super::MAX_NAMES;
use crate::report::markdown::{code, prose};
use crate::report::{count, names};
use crate::review::{Changes, Group, LeftAlone, PoolChange, PoolReview, Review, Rollout, Scope};
use kubelet_config::risk::{Class, Risk};
use nodecfg_plan::state::State;
use nodecfg_plan::{Action, ChangedField, Step};
use nodecfg_rollout::PoolStart;

/// Maximum number of fields in brief form, worst risk first, and of reasons, by path.
const MAX_BRIEF: usize = 10;
/// The maximum length of a value in brief form, in characters.
const BRIEF_VALUE: usize = 80;

/// The details of a pool.
pub(super) struct Details {
    /// The full form.
    pub(super) full: String,
    /// The brief form.
    pub(super) brief: String,
}

/// The header of the table.
pub(super) fn table_head(review: &Review) -> String {
    if review.cluster.is_some() {
        "| pool | change | risk | nodes | to assign | at a time | unchanged |\n|---|---|---|--:|--:|--:|---|\n"
            .to_owned()
    } else {
        "| pool | change | risk |\n|---|---|---|\n".to_owned()
    }
}

/// The row of pools with the same change.
pub(super) fn row(review: &Review, group: &Group<'_>) -> String {
    let pool = &*group.merged;
    let names: Vec<String> = group.names().map(|name| format!("`{name}`")).collect();
    let mut names = title(names.iter().map(String::as_str));
    if group.is_several() {
        names.push_str(&format!(" ({})", count(group.pools.len(), "pool")));
    }
    let mut row = format!("| {names} | {} | {} |", sentences::headline(pool), risk(pool));
    if review.cluster.is_some() {
        match &pool.rollout {
            Some(rollout) => {
                let at_a_time = match group::budgets(group) {
                    None => "–".to_owned(),
                    Some(budgets) if group.is_several() => format!("{budgets} each"),
                    Some(budgets) => budgets,
                };
                let (nodes, assign, left) = (rollout.nodes, rollout.assign, left_alone(rollout));
                // Writing to a string does not fail.
                let _ = write!(row, " {nodes} | {assign} | {at_a_time} | {left} |");
            }
            None => row.push_str(" – | – | – |  |"),
        }
    }
    row.push('\n');
    row
}

fn left_alone(rollout: &Rollout) -> String {
    let up_to_date = rollout.left_alone.iter().filter(|left| left.why.state() == State::Settled).count();
    let blocked = rollout.left_alone.iter().filter(|left| left.blocked).count();
    let skipped = rollout.left_alone.len() - up_to_date - blocked;
    let is_paused = rollout.pause.is_some() && !rollout.despite_pause;
    let skipped_word = if is_paused { "paused" } else { "skipped" };
    let mut parts = Vec::new();
    for (number, what) in [(up_to_date, "up to date"), (skipped, skipped_word), (blocked, "**blocked**")] {
        if number > 0 {
            parts.push(format!("{number} {what}"));
        }
    }
    parts.join(", ")
}

/// The worst risk of a pool's changes.
fn risk(pool: &PoolReview) -> String {
    let partly = sentences::unknown_suffix(pool);
    match pool.risk.worst {
        Some(class) if pool.risk.refused.is_some() => format!("**{class}, refused**{partly}"),
        Some(class) if class >= Class::Drain => format!("**{class}**{partly}"),
        Some(class) => format!("{class}{partly}"),
        None if pool.risk.unknown => "unknown".to_owned(),
        None => "–".to_owned(),
    }
}

/// The details of pools with the same change, collapsed.
pub(super) fn details(review: &Review, group: &Group<'_>) -> Details {
    let full = collapsed(review, group, false);
    let brief = collapsed(review, group, true);
    // Falls back to the full form if the brief one is not shorter.
    let brief = if brief.len() < full.len() { brief } else { full.clone() };
    Details { full, brief }
}

fn collapsed(review: &Review, group: &Group<'_>, brief: bool) -> String {
    let pool = &*group.merged;
    let several = if group.is_several() { format!("{}, ", count(group.pools.len(), "pool")) } else { String::new() };
    let mut text = format!("<details><summary><b>{}</b>: {several}{}", title(group.names()), sentences::headline(pool));
    if let Some(class) = pool.risk.worst {
        let refused = if pool.risk.refused.is_some() { ", refused" } else { "" };
        text.push_str(&format!(", {class}{refused}{}", sentences::unknown_suffix(pool)));
    }
    if let Some(rollout) = &pool.rollout {
        let stops = match rollout.start {
            PoolStart::Stops { .. } => "stops at once, ",
            PoolStart::Held { .. } => "held, ",
            PoolStart::Starts | PoolStart::Waits => "",
        };
        text.push_str(&format!(", {stops}{} of {}", rollout.assign, count(rollout.nodes, "node")));
    }
    text.push_str("</summary>\n\n");
    if let Some(meaning) = sentences::explanation(pool, review.cluster.is_some())
        && review.from != crate::review::Side::Cluster
    {
        text.push_str(&format!("{}.\n\n", capital(meaning)));
    }
    for set in &pool.changes {
        write_changes(&mut text, review, pool, set, brief);
    }
    write_risk(&mut text, pool, brief);
    write_drain(&mut text, group);
    write_settings(&mut text, pool);
    write_scope(&mut text, group);
    write_config_map(&mut text, review, pool);
    if let Some(maps) = group::config_maps(group) {
        text.push_str(&format!("{maps}\n\n"));
    }
    if let Some(rollout) = &pool.rollout {
        write_rollout(&mut text, rollout, group.is_several());
    }
    write_files(&mut text, pool);
    text.push_str("</details>\n\n");
    text
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

fn write_changes(text: &mut String, review: &Review, pool: &PoolReview, set: &Changes, brief: bool) {
    if let Some(line) = sentences::origin(review, pool, set) {
        text.push_str(&format!("{}:\n\n", prose(&line)));
    }
    if set.fields.is_empty() {
        return;
    }
    text.push_str("| field | now | new | risk | set by |\n|---|---|---|---|---|\n");
    let mut fields: Vec<&ChangedField> = set.fields.iter().collect();
    if brief && fields.len() > MAX_BRIEF {
        // The sort is stable: equal risks keep the order of paths.
        fields.sort_by_key(|field| std::cmp::Reverse(field.risk.as_ref().map(|risk| risk.class)));
        fields.truncate(MAX_BRIEF);
    }
    for field in &fields {
        text.push_str(&field_row(field, brief));
    }
    if fields.len() < set.fields.len() {
        text.push_str(&format!("\n… and {} more.\n", count(set.fields.len() - fields.len(), "field")));
    }
    text.push('\n');
}

fn field_row(field: &ChangedField, brief: bool) -> String {
    let clipped = |text: &str| if brief { code(&sentences::clipped(text, BRIEF_VALUE)) } else { code(text) };
    let value = |value: &Option<String>| value.as_ref().map_or_else(|| "–".to_owned(), |value| clipped(value));
    let risk = field.risk.as_ref().map_or("unknown", |risk| risk.class.as_str());
    let change = &field.change;
    let place = change.place.as_ref().map_or_else(String::new, |place| clipped(&place.to_string()));
    let (old, new) = sentences::values(field);
    format!("| {} | {} | {} | {risk} | {place} |\n", clipped(&change.path), value(&old), value(&new))
}

/// Writes the worst risk, the reasons of risks from restart (brief form: from drain), and the fix if a sync refuses
/// the change.
fn write_risk(text: &mut String, pool: &PoolReview, brief: bool) {
    let Some(risk) = sentences::risk(pool) else { return };
    text.push_str(&format!("**Risk**: {}.\n", prose(&risk)));
    let least = if brief { Class::Drain } else { Class::Restart };
    let reasons: BTreeMap<&str, &Risk> = sentences::risks(pool, |class| class >= least);
    let most = if brief { MAX_BRIEF } else { usize::MAX };
    for (path, risk) in reasons.into_iter().take(most) {
        let source = if risk.source.is_empty() { String::new() } else { format!(" ({})", code(&risk.source)) };
        let path = if brief { code(&sentences::clipped(path, BRIEF_VALUE)) } else { code(path) };
        text.push_str(&format!("\n- {path}, {}: {}{source}", risk.class, prose(&risk.why)));
    }
    text.push_str("\n\n");
    if let (Some(refused), Some(refusal)) = (sentences::refused(pool), &pool.risk.refused) {
        let help = capital(&refusal.help);
        text.push_str(&format!("**Refused by sync**: {}. {}.\n\n", prose(&refused), prose(&help)));
    }
}

/// Writes the drain of the pools, and what it does to pods.
fn write_drain(text: &mut String, group: &Group<'_>) {
    let Some((summary, drain)) = drains::summary(group).zip(group.merged.drain()) else { return };
    text.push_str(&format!("**Drain**: {}.\n\n", prose(&summary)));
    let facts = drains::pod_facts(drain);
    for fact in &facts {
        let label = fact.label.map_or_else(String::new, |label| format!("**{}**: ", label.trim_end_matches(':')));
        text.push_str(&format!("- {label}{}\n", prose(&sentences::clipped(&fact.text, 600))));
    }
    if !facts.is_empty() {
        text.push('\n');
    }
}

fn write_settings(text: &mut String, pool: &PoolReview) {
    if pool.settings.is_empty() {
        return;
    }
    text.push_str("| setting | now | new | meaning |\n|---|---|---|---|\n");
    for setting in &pool.settings {
        let value = |value: &Option<String>| {
            value.as_ref().map_or_else(|| "–".to_owned(), |value| code(&sentences::clipped(value, 500)))
        };
        let (old, new) = (value(&setting.old), value(&setting.new));
        text.push_str(&format!("| `{}` | {old} | {new} | {} |\n", setting.path, setting.meaning));
    }
    text.push('\n');
}

/// Writes which nodes the pool selects and how many change at a time, for a review without a cluster.
fn write_scope(text: &mut String, group: &Group<'_>) {
    let pool = &*group.merged;
    let limits = group::limits(group);
    if !limits.is_empty() && pool.change != PoolChange::Removed {
        limits.iter().for_each(|line| text.push_str(&format!("- {}\n", prose(line))));
        text.push('\n');
        return;
    }
    if pool.rollout.is_some() || !pool.changes_nodes() || pool.change == PoolChange::Removed {
        return;
    }
    let Scope { selector, max_unavailable, canary } = &pool.scope;
    let canary = canary.as_ref().map_or_else(String::new, |canary| format!(", after a canary ({canary})"));
    let nodes = selector.as_ref().filter(|_| !group.is_several()).map_or_else(
        || if group.is_several() { "of each pool".to_owned() } else { "selected by name".to_owned() },
        |selector| format!("with labels {}", code(&sentences::clipped(selector, 500))),
    );
    text.push_str(&format!("Nodes: {nodes}, at most {max_unavailable} at a time{canary}.\n\n"));
}

fn write_config_map(text: &mut String, review: &Review, pool: &PoolReview) {
    let Some(after) = pool.config_map.after.as_ref().filter(|_| pool.changes_nodes()) else { return };
    let before = pool.config_map.before.as_ref().filter(|before| *before != after);
    let before = before.map_or_else(String::new, |before| format!("`{before}` → "));
    let namespace = review.cluster.as_ref().map_or_else(String::new, |cluster| format!("{}/", cluster.namespace));
    let state = match pool.config_map.create {
        Some(true) => " (new)",
        Some(false) => " (exists)",
        None => "",
    };
    text.push_str(&format!("ConfigMap {before}`{namespace}{after}`{state}\n\n"));
}

fn write_rollout(text: &mut String, rollout: &Rollout, several: bool) {
    let before = text.len();
    for Fact { label, text: fact } in outlook::conditions(rollout) {
        let label = label.map_or_else(String::new, |label| format!("**{}** ", label.trim_end_matches(':')));
        text.push_str(&format!("- {label}{}\n", prose(&sentences::clipped(&fact, 600))));
    }
    for wave in rollout.waves.iter().take(outlook::MAX_WAVES) {
        let pace = match several {
            true => "as the budget of each pool allows".to_owned(),
            false => format!("{} at a time", rollout.budget),
        };
        let label = prose(&outlook::wave(wave, &pace));
        let assign = wave.steps.iter().filter(|step| step.action == Action::Assign);
        let listed: Vec<String> = assign.map(|step| format!("`{}`", step.node)).collect();
        if !listed.is_empty() {
            text.push_str(&format!("- {label}: {}\n", names(listed.iter().map(String::as_str), MAX_NAMES)));
        }
    }
    if let Some(more) = outlook::more_waves(rollout) {
        text.push_str(&format!("- {more}\n"));
    }
    let awaited = |step: &&Step| step.action != Action::Assign;
    let awaited = rollout.waves.iter().flat_map(|wave| &wave.steps).filter(awaited).count();
    if awaited > 0 {
        text.push_str(&format!("- {} assigned earlier, watched\n", count(awaited, "node")));
    }
    let blocked: Vec<&LeftAlone> = rollout.left_alone.iter().filter(|left| left.blocked).collect();
    if blocked.len() > MAX_NAMES {
        text.push_str(&format!("- **{} blocked**, the first {MAX_NAMES} of them:\n", count(blocked.len(), "node")));
    }
    for left in blocked.into_iter().take(MAX_NAMES) {
        let reason = sentences::clipped(&left.reason, 500);
        text.push_str(&format!("- **blocked** `{}`: {}\n", left.node, prose(&reason)));
    }
    if text.len() > before {
        text.push('\n');
    }
}

fn write_files(text: &mut String, pool: &PoolReview) {
    if pool.files.is_empty() {
        return;
    }
    let file = |file: &crate::review::FileChange| {
        format!("{} ({})", code(&sentences::clipped(&file.path, 100)), sentences::file_change(file.change))
    };
    let files: Vec<String> = pool.files.iter().map(file).collect();
    text.push_str(&format!("Files: {}\n\n", names(files.iter().map(String::as_str), MAX_NAMES)));
}
