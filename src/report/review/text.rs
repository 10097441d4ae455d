//! A review as text: the changes per pool, the affected nodes, their order, and why other nodes stay unchanged.

use std::io;
use std::io::Write;

use textwrap::wrap;

use super::group::{all_names, config_maps, limits, title};
use super::outlook::last_line;
use super::page::Page;
use super::verdict::verdict;
use super::{nodes, sentences};
use crate::layout;
use crate::layout::within;
use crate::report::style::{added, changed, heading, quiet, removed, warning};
use crate::report::table::MAX_ALIKE;
use crate::report::{count, names};
use crate::review::{Changes, FileChangeKind, Group, PoolChange, PoolReview, Review, Scope, Setting, Side, groups};
use kubelet_config::risk::Class;
use nodecfg_contract::Placement;
use nodecfg_contract::printable::{escaped, one_line};
use nodecfg_plan::{ChangedField, Plan, PoolPlan, Why};

/// Maximum number of listed fields of a configuration without a known predecessor.
const MAX_NEW_FIELDS: usize = 25;
/// Minimum number of pools that are up to date and share one line.
const MIN_FOLDED: usize = 4;
/// Maximum number of listed fields whose value in effect stays the same.
const MAX_WITHOUT_EFFECT: usize = 3;
/// The width of the risk column, in columns.
const CLASS_WIDTH: usize = 7;

/// The label of a refusal.
const REFUSED: &str = "refused by sync:";

/// Highlights the label of a refusal.
fn highlight_refusal(line: &str) -> String {
    line.strip_prefix(REFUSED).map_or_else(|| line.to_owned(), |rest| format!("{}{rest}", warning(REFUSED)))
}

fn plain(text: &str) -> String {
    text.to_owned()
}

fn dim(text: &str) -> String {
    quiet(text)
}

/// Writes the review, `width` columns wide. With `all`, lists all fields and the reason of each risk.
///
/// # Errors
/// When `out` cannot be written.
pub fn write(out: &mut dyn Write, review: &Review, all: bool, width: usize) -> io::Result<()> {
    let mut page = Page { out, width };
    write_base(&mut page, review)?;
    for setting in &review.settings {
        page.change(0, &format!("{}  {}", heading(format!("fleet {}", review.fleet)), setting_text(setting)), plain)?;
        page.prose(2, setting.meaning, dim)?;
    }
    if !review.settings.is_empty() {
        writeln!(page.out)?;
    }
    let (unchanged, others): (Vec<&PoolReview>, Vec<&PoolReview>) =
        review.pools.iter().partition(|pool| is_unchanged(pool));
    for group in groups(others) {
        write_group(&mut page, review, &group, all)?;
    }
    write_unchanged(&mut page, &unchanged, all)?;
    nodes::write_cluster(&mut page, review)?;
    if let Some(restarts) = sentences::restarts(review) {
        page.prose(0, &format!("{restarts}."), plain)?;
        writeln!(page.out)?;
    }
    write_totals(&mut page, review)
}

/// Writes per pool the number of nodes and of awaited nodes, for a run that changes nothing.
///
/// # Errors
/// When `out` cannot be written.
pub fn awaited(out: &mut dyn Write, plan: &Plan) -> io::Result<()> {
    let (settled, others): (Vec<&PoolPlan>, Vec<&PoolPlan>) =
        plan.pools.iter().partition(|pool| pool.nodes > 0 && pool.steps().next().is_none());
    let is_folded = settled.len() > MAX_ALIKE;
    let listed = if is_folded { others } else { plan.pools.iter().collect() };
    let width = listed.iter().map(|pool| pool.name.as_str().len()).max().unwrap_or(0);
    for pool in listed {
        let steps = pool.steps().count();
        let state = match (pool.nodes, steps) {
            (0, _) => "no nodes".to_owned(),
            (nodes, 0) if pool.left_alone.iter().all(|left| left.why == Why::OutOfScope) => {
                format!("{}, not requested", count(nodes, "node"))
            }
            (nodes, 0) => format!("{}, none to wait for", count(nodes, "node")),
            (nodes, steps) => format!("{}, waiting for {steps}", count(nodes, "node")),
        };
        writeln!(out, "{}  {state}", heading(format!("{:width$}", pool.name.as_str())))?;
    }
    if is_folded {
        let nodes = count(settled.iter().map(|pool| pool.nodes).sum(), "node");
        writeln!(out, "{}", quiet(format!("{}, {nodes}: none to wait for", count(settled.len(), "pool"))))?;
    }
    Ok(())
}

/// Writes the errors of the base revision, which limit the comparison.
fn write_base(page: &mut Page<'_>, review: &Review) -> io::Result<()> {
    if review.base_findings.is_empty() {
        return Ok(());
    }
    let base = sentences::side(&review.from);
    let errors = count(review.base_findings.len(), "error");
    writeln!(
        page.out,
        "{} {base} is invalid ({errors}); the comparison covers its readable parts only:",
        warning("note:")
    )?;
    for finding in &review.base_findings {
        let place = finding.place.as_ref().map_or_else(String::new, |place| format!("{place}: "));
        page.prose(2, &one_line(&format!("{place}{}", finding.message)), dim)?;
    }
    writeln!(page.out)
}

/// Reports whether a pool has no changes, also not to its files, and needs no details of its nodes.
fn is_unchanged(pool: &PoolReview) -> bool {
    pool.change == PoolChange::Unchanged
        && pool.files.is_empty()
        && pool.rollout.as_ref().is_none_or(nodes::needs_no_details)
}

/// Writes a line per unchanged pool. Many pools that are up to date share one, unless `all` is set.
fn write_unchanged(page: &mut Page<'_>, pools: &[&PoolReview], all: bool) -> io::Result<()> {
    let folds = |pool: &&&PoolReview| {
        pool.rollout.as_ref().is_some_and(|rollout| rollout.nodes > 0 && !nodes::is_out_of_scope(rollout))
    };
    let (mut folded, mut listed): (Vec<&PoolReview>, Vec<&PoolReview>) = pools.iter().partition(folds);
    if all || folded.len() < MIN_FOLDED {
        (folded, listed) = (Vec::new(), pools.to_vec());
    }
    let width = listed.iter().map(|pool| pool.name.as_str().len()).max().unwrap_or(0);
    if !folded.is_empty() {
        let nodes = folded.iter().filter_map(|pool| pool.rollout.as_ref()).map(|rollout| rollout.nodes).sum();
        let names = title(folded.iter().map(|pool| pool.name.as_str()));
        let state = format!("{}, {}, all up to date", count(folded.len(), "pool"), count(nodes, "node"));
        page.prose(0, &format!("{}  {}", heading(names), quiet(state)), plain)?;
    }
    for pool in listed {
        let target = pool.config_map.after.as_deref().unwrap_or("the local configuration");
        let state = match pool.rollout.as_ref().map(|rollout| rollout.nodes) {
            None => "unchanged".to_owned(),
            Some(0) => "no nodes".to_owned(),
            Some(nodes) if pool.rollout.as_ref().is_some_and(nodes::is_out_of_scope) => {
                format!("{}, not requested", count(nodes, "node"))
            }
            Some(1) => format!("1 node, on {target}"),
            Some(nodes) => format!("{nodes} nodes, all on {target}"),
        };
        let name = heading(format!("{:width$}", pool.name.as_str()));
        page.prose(0, &format!("{name}  {}", quiet(state)), plain)?;
    }
    if pools.is_empty() { Ok(()) } else { writeln!(page.out) }
}

/// Writes the last line: the changes in numbers with a cluster, otherwise the verdict.
fn write_totals(page: &mut Page<'_>, review: &Review) -> io::Result<()> {
    let Some(cluster) = &review.cluster else {
        if review.nodes_may_move {
            page.prose(0, "Nodes may move between pools. To see which, compare with a cluster.", dim)?;
            writeln!(page.out)?;
        }
        return page.prose(0, &format!("This {}.", verdict(review)), |line| heading(line));
    };
    page.prose(0, &last_line(review, cluster), plain)
}

/// Writes pools with the same change. With `all`, lists the names of all pools.
fn write_group(page: &mut Page<'_>, review: &Review, group: &Group<'_>, all: bool) -> io::Result<()> {
    let (pool, compared) = (&*group.merged, review.from != Side::Cluster);
    let mut parts = Vec::new();
    if group.is_several() {
        parts.push(count(group.pools.len(), "pool"));
    }
    if compared {
        parts.push(sentences::headline(pool));
    }
    if let Some(rollout) = &pool.rollout {
        parts.extend(nodes::header_parts(rollout, group));
    }
    if pool.placement == Some(Placement::Replace) && pool.changes_nodes() {
        parts.push("replaces the whole configuration".to_owned());
    }
    page.prose(0, &format!("{}  {}", heading(title(group.names())), parts.join(", ")), plain)?;
    if let Some(names) = all_names(group).filter(|_| all) {
        page.prose(2, &names, dim)?;
    }
    if let Some(meaning) = sentences::explanation(pool, review.cluster.is_some()).filter(|_| compared) {
        page.prose(2, meaning, dim)?;
    }
    for set in &pool.changes {
        write_changes(page, review, pool, set, all)?;
    }
    if let Some(risk) = sentences::risk(pool) {
        page.prose(2, &format!("risk: {risk}"), plain)?;
    }
    if let (Some(refused), Some(refusal)) = (sentences::refused(pool), &pool.risk.refused) {
        page.prose(2, &format!("{REFUSED} {refused}"), highlight_refusal)?;
        page.prose(4, &format!("fix: {}", refusal.help), plain)?;
    }
    nodes::write_drain(page, group, all)?;
    let differing = limits(group);
    if !differing.is_empty() && pool.change != PoolChange::Removed {
        for line in &differing {
            page.prose(2, line, plain)?;
        }
    } else if pool.rollout.is_none() && pool.changes_nodes() && pool.change != PoolChange::Removed {
        let Scope { selector, max_unavailable, canary } = &pool.scope;
        let canary = canary.as_ref().map_or_else(String::new, |canary| format!(", canary: {canary}"));
        let own = if group.is_several() { "by the selector of each pool" } else { "by name" };
        let selector = selector.as_deref().filter(|_| !group.is_several()).unwrap_or(own);
        page.prose(2, &format!("nodes: {selector}, at most {max_unavailable} unavailable at a time{canary}"), plain)?;
    }
    write_settings(page, pool)?;
    write_files(page, pool)?;
    if let Some(maps) = config_maps(group) {
        page.prose(2, &maps, plain)?;
    }
    nodes::write_rollout(page, review, pool)?;
    writeln!(page.out)
}

fn write_changes(page: &mut Page<'_>, review: &Review, pool: &PoolReview, set: &Changes, all: bool) -> io::Result<()> {
    if let Some(line) = sentences::origin(review, pool, set) {
        page.prose(2, &line, dim)?;
    }
    if !all && !set.from_known && set.fields.len() > MAX_NEW_FIELDS {
        page.prose(4, &format!("+ {}; -v lists them", sentences::field_counts(&set.fields)), |line| added(line))?;
    } else {
        let without_effect = set.fields.iter().filter(|field| field.no_effect).count();
        let fold = !all && without_effect > MAX_WITHOUT_EFFECT;
        let listed: Vec<&ChangedField> = set.fields.iter().filter(|field| !(fold && field.no_effect)).collect();
        write_fields(page, pool, &listed, all)?;
        if fold {
            let folded = count(without_effect, "field");
            page.prose(4, &format!("= {folded} with the same value in effect; -v lists them"), dim)?;
        }
    }
    if set.fields.is_empty() && pool.change != PoolChange::ToLocal {
        let why = match set.sample {
            Some(_) => "no field changes: the sampled nodes run these values already",
            None => "no field changes: the content is the same, but the node does not report running it",
        };
        page.prose(4, why, dim)?;
    }
    Ok(())
}

/// Writes one field per line, with columns for risk and place. Adds the reason of the risk below refused fields, and
/// with `all` below every field.
fn write_fields(page: &mut Page<'_>, pool: &PoolReview, fields: &[&ChangedField], all: bool) -> io::Result<()> {
    let allowed = pool.risk.refused.as_ref().map(|refusal| refusal.allowed);
    // Values come from files and kubelets: none may control the terminal.
    let texts: Vec<(String, &ChangedField)> =
        fields.iter().map(|field| (escaped(&field_text(field)), *field)).collect();
    let place = |field: &ChangedField| field.change.place.as_ref().map_or_else(String::new, ToString::to_string);
    let classes = fields.iter().any(|field| field.risk.is_some());
    let columns = fields.iter().map(|field| layout::width(&place(field))).max().unwrap_or(0)
        + if classes { CLASS_WIDTH + 2 } else { 0 };
    let most = page.width.saturating_sub(4 + 2 + columns);
    let width = texts.iter().map(|(text, _)| layout::width(text)).filter(|width| *width <= most).max().unwrap_or(4);
    for (text, field) in texts {
        let (old, new) = sentences::values(field);
        let style = if field.no_effect { dim } else { style_of(old.as_ref(), new.as_ref()) };
        let refused = |class: Class| allowed.is_some_and(|allowed| class > allowed);
        let class = sentences::class(field.risk.as_ref());
        // A removed field has no place, so its risk needs no padding.
        let class = if place(field).is_empty() { class.to_owned() } else { format!("{class:CLASS_WIDTH$}") };
        let class = match &field.risk {
            Some(risk) if refused(risk.class) => warning(class),
            _ => quiet(class),
        };
        let columns = match (classes, place(field)) {
            (false, place) if place.is_empty() => String::new(),
            (false, place) => quiet(place),
            (true, place) if place.is_empty() => class,
            (true, place) => format!("{class}  {}", quiet(place)),
        };
        match width.checked_sub(layout::width(&text)) {
            Some(gap) if !columns.is_empty() => {
                writeln!(page.out, "    {}{}  {columns}", style(&text), " ".repeat(gap))?;
            }
            _ => {
                page.change(4, &text, style)?;
                // A place that is wider than the page has its own line.
                let margin = (6 + width).min(page.width.saturating_sub(layout::width(&columns))).max(6);
                let below = wrap(&columns, within(page.width.saturating_sub(margin))).into_iter();
                for line in below.filter(|line| !line.is_empty()) {
                    writeln!(page.out, "{}{line}", " ".repeat(margin))?;
                }
            }
        }
        match &field.risk {
            Some(risk) if all => page.prose(6, &sentences::reason_and_source(risk), dim)?,
            Some(risk) if refused(risk.class) => page.prose(6, &risk.why, dim)?,
            _ => {}
        }
    }
    Ok(())
}

/// The change of a field. One without an effect has the mark `=`, and one value if a side is the default.
fn field_text(field: &ChangedField) -> String {
    let path = &field.change.path;
    let (old, new) = sentences::values(field);
    let default = field.old_default.as_ref().and(old.as_ref()).or(field.new_default.as_ref().and(new.as_ref()));
    match (field.no_effect, default) {
        (true, Some(default)) => format!("= {path}: {default}"),
        (true, None) => format!("= {path}: {}", [old, new].into_iter().flatten().collect::<Vec<_>>().join(" → ")),
        (false, _) => change_text(path, old.as_deref(), new.as_deref()),
    }
}

/// The color of a change between two values.
fn style_of(old: Option<&String>, new: Option<&String>) -> fn(&str) -> String {
    match (old, new) {
        (None, Some(_)) => |line| added(line),
        (Some(_), None) => |line| removed(line),
        _ => |line| changed(line),
    }
}

fn setting_text(setting: &Setting) -> String {
    escaped(&change_text(setting.path, setting.old.as_deref(), setting.new.as_deref()))
}

fn change_text(path: &str, old: Option<&str>, new: Option<&str>) -> String {
    match (old, new) {
        (None, Some(new)) => format!("+ {path}: {new}"),
        (Some(old), None) => format!("- {path}: {old}"),
        (Some(old), Some(new)) => format!("~ {path}: {old} → {new}"),
        // Only a default changes, and it differs between the kubelet versions.
        (None, None) => format!("~ {path}: another default"),
    }
}

fn write_settings(page: &mut Page<'_>, pool: &PoolReview) -> io::Result<()> {
    for setting in &pool.settings {
        let (text, meaning) = (setting_text(setting), format!("({})", setting.meaning));
        let style = style_of(setting.old.as_ref(), setting.new.as_ref());
        if 4 + layout::width(&text) + layout::width(&meaning) <= page.width {
            writeln!(page.out, "  {}  {}", style(&text), quiet(meaning))?;
        } else {
            page.change(2, &text, style)?;
            page.prose(4, &meaning, dim)?;
        }
    }
    Ok(())
}

fn write_files(page: &mut Page<'_>, pool: &PoolReview) -> io::Result<()> {
    for kind in [FileChangeKind::Added, FileChangeKind::Modified, FileChangeKind::Removed, FileChangeKind::Formatting] {
        let files: Vec<&str> =
            pool.files.iter().filter(|file| file.change == kind).map(|file| file.path.as_str()).collect();
        if !files.is_empty() {
            page.prose(2, &format!("{}: {}", sentences::file_change(kind), names(files, 8)), dim)?;
        }
    }
    Ok(())
}
