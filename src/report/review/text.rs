//! A review for a terminal: per pool what changes, on which nodes, in which order, and why the others are left alone.

use std::io::{self, Write};

use textwrap::wrap;

use super::{nodes, words};
use crate::layout::{self, within};
use crate::report::style::{added, changed, heading, quiet, removed, warning};
use crate::report::{count, names};
use crate::review::{Changes, FileChangeKind, PoolChange, PoolReview, Review, Scope, Setting, Side};
use kubelet_config::document::FieldChange;
use kubelet_config::risk::Class;
use nodecfg_planning::plan::{ChangedField, Plan};

/// The least width of the column of fields: narrower, and hardly a field would fit.
const FIELD_WIDTH: usize = 36;
/// How many fields of a configuration whose predecessor is not known are listed one by one.
const FRESH_FIELDS: usize = 25;
/// How wide the class of a field is in its column.
const CLASS_WIDTH: usize = 7;

/// Where text goes, and how wide it may be there.
pub(super) struct Page<'a> {
    pub(super) out: &'a mut dyn Write,
    pub(super) width: usize,
}

impl Page<'_> {
    /// Prose of nodecfg's own, in lines that fit, the first after `indent` columns and the others two columns further in.
    pub(super) fn prose(&mut self, indent: usize, text: &str, style: fn(&str) -> String) -> io::Result<()> {
        let mut margin = indent;
        for line in wrap(text, within(self.width.saturating_sub(indent + 2))) {
            writeln!(self.out, "{}{}", " ".repeat(margin), style(&line))?;
            margin = indent + 2;
        }
        Ok(())
    }
}

/// How the line begins which says that sync will not carry it out.
const REFUSED: &str = "refused by sync:";

/// A line of a refusal, of which the beginning stands out.
fn refusing(line: &str) -> String {
    line.strip_prefix(REFUSED).map_or_else(|| line.to_owned(), |rest| format!("{}{rest}", warning(REFUSED)))
}

fn plain(text: &str) -> String {
    text.to_owned()
}

fn dim(text: &str) -> String {
    quiet(text)
}

/// Writes the review in lines of about so many columns. With `all`, long lists of fields are not cut short, and every field
/// says why it has its class.
///
/// # Errors
/// When the writer does.
pub fn write(out: &mut dyn Write, review: &Review, all: bool, width: usize) -> io::Result<()> {
    let mut page = Page { out, width };
    write_base(&mut page, review)?;
    for setting in &review.settings {
        writeln!(page.out, "{}  {}", heading(format!("fleet {}", review.fleet)), setting_text(setting))?;
        page.prose(2, setting.meaning, dim)?;
    }
    if !review.settings.is_empty() {
        writeln!(page.out)?;
    }
    let (settled, others): (Vec<&PoolReview>, Vec<&PoolReview>) =
        review.pools.iter().partition(|pool| is_settled(pool));
    for pool in others {
        write_pool(&mut page, review, pool, all)?;
    }
    write_settled(&mut page, &settled)?;
    nodes::write_cluster(&mut page, review)?;
    write_totals(&mut page, review)
}

/// Writes which nodes are waited for, for those who will change nothing.
///
/// # Errors
/// When the writer does.
pub fn awaited(out: &mut dyn Write, plan: &Plan) -> io::Result<()> {
    let width = plan.pools.iter().map(|pool| pool.name.as_str().len()).max().unwrap_or(0);
    for pool in &plan.pools {
        let steps = pool.steps().count();
        let state = match (pool.nodes, steps) {
            (0, _) => "no nodes".to_owned(),
            (nodes, 0) => format!("{}, none to wait for", count(nodes, "node")),
            (nodes, steps) => format!("{}, waiting for {steps}", count(nodes, "node")),
        };
        writeln!(out, "{}  {state}", heading(format!("{:width$}", pool.name.as_str())))?;
    }
    Ok(())
}

/// What is wrong with the base revision: it is no fault of the change, and limits what can be said.
fn write_base(page: &mut Page<'_>, review: &Review) -> io::Result<()> {
    if review.base_findings.is_empty() {
        return Ok(());
    }
    let base = words::side(&review.from);
    let errors = count(review.base_findings.len(), "error");
    writeln!(page.out, "{} {base} is invalid ({errors}); compared as far as it can be read:", warning("note:"))?;
    for finding in &review.base_findings {
        let place = finding.place.as_ref().map_or_else(String::new, |place| format!("{place}: "));
        page.prose(2, &format!("{place}{}", finding.message), dim)?;
    }
    writeln!(page.out)
}

/// Whether there is nothing to say of a pool but that it is as wanted.
fn is_settled(pool: &PoolReview) -> bool {
    pool.change == PoolChange::Unchanged && pool.files.is_empty() && pool.rollout.as_ref().is_none_or(nodes::is_settled)
}

fn write_settled(page: &mut Page<'_>, pools: &[&PoolReview]) -> io::Result<()> {
    let width = pools.iter().map(|pool| pool.name.as_str().len()).max().unwrap_or(0);
    for pool in pools {
        let target = pool.config_map.after.as_deref().unwrap_or("the local configuration");
        let state = match pool.rollout.as_ref().map(|rollout| rollout.nodes) {
            None => "unchanged".to_owned(),
            Some(0) => "no nodes".to_owned(),
            Some(nodes) if pool.rollout.as_ref().is_some_and(nodes::is_out_of_scope) => {
                format!("{}, not asked for", count(nodes, "node"))
            }
            Some(1) => format!("1 node, on {target}"),
            Some(nodes) => format!("{nodes} nodes, all on {target}"),
        };
        writeln!(page.out, "{}  {}", heading(format!("{:width$}", pool.name.as_str())), quiet(state))?;
    }
    if pools.is_empty() { Ok(()) } else { writeln!(page.out) }
}

/// The last line: what the change does, in numbers.
fn write_totals(page: &mut Page<'_>, review: &Review) -> io::Result<()> {
    let Some(cluster) = &review.cluster else {
        if review.nodes_may_move {
            page.prose(0, "Nodes may come to another pool by this; which ones shows in a cluster alone.", dim)?;
            writeln!(page.out)?;
        }
        return page.prose(0, &format!("This {}.", words::verdict(review)), |line| heading(line));
    };
    let counts = cluster.counts;
    let mut parts = Vec::new();
    if review.from != Side::Cluster {
        let pools = review.counts();
        parts.push(format!("{} of {} changed", pools.changed, count(pools.pools, "pool")));
    }
    if counts.create > 0 {
        parts.push(format!("{} to create", count(counts.create, "ConfigMap")));
    }
    if counts.assign > 0 {
        parts.push(format!("{} to assign", count(counts.assign, "node")));
    }
    if counts.await_ > 0 {
        parts.push(format!("{} assigned before", count(counts.await_, "node")));
    }
    if counts.settled > 0 || parts.is_empty() {
        parts.push(format!("{} as wanted", count(counts.settled, "node")));
    }
    if counts.skipped > 0 {
        parts.push(format!("{} skipped", counts.skipped));
    }
    if counts.blocked > 0 {
        parts.push(warning(format!("{} blocked", counts.blocked)));
    }
    if counts.unpooled > 0 {
        parts.push(format!("{} in no pool", counts.unpooled));
    }
    let what = match (cluster.changed, review.is_changed()) {
        (true, _) => "Plan:",
        (false, true) => "No changes of nodes:",
        (false, false) => "No changes:",
    };
    // Enough of the plan's name to tell it from any other that one is likely to see.
    let id: String = cluster.plan.to_string().chars().take("p1:0123456789ab".len()).collect();
    writeln!(page.out, "{} {} {}", heading(what), parts.join(", "), quiet(format!("({id})")))
}

fn write_pool(page: &mut Page<'_>, review: &Review, pool: &PoolReview, all: bool) -> io::Result<()> {
    let compared = review.from != Side::Cluster;
    let mut parts = Vec::new();
    if compared {
        parts.push(words::headline(pool));
    }
    if let Some(rollout) = &pool.rollout {
        parts.extend(nodes::header(rollout));
    }
    writeln!(page.out, "{}  {}", heading(&pool.name), parts.join(", "))?;
    if let Some(meaning) = words::explained(pool, review.cluster.is_some()).filter(|_| compared) {
        page.prose(2, meaning, dim)?;
    }
    for set in &pool.changes {
        write_changes(page, review, pool, set, all)?;
    }
    if let Some(risk) = words::risk(pool) {
        page.prose(2, &format!("risk: {risk}"), plain)?;
    }
    if let (Some(refused), Some(refusal)) = (words::refused(pool), &pool.risk.refused) {
        page.prose(2, &format!("{REFUSED} {refused}"), refusing)?;
        page.prose(4, &format!("way out: {}", refusal.help), plain)?;
    }
    if pool.rollout.is_none() && pool.changes_nodes() && pool.change != PoolChange::Removed {
        let Scope { selector, max_unavailable, canary } = &pool.scope;
        let canary = canary.as_ref().map_or_else(String::new, |canary| format!(", canary: {canary}"));
        let selector = selector.as_deref().unwrap_or("by name");
        page.prose(2, &format!("nodes: {selector}, at most {max_unavailable} unavailable at a time{canary}"), plain)?;
    }
    write_settings(page, pool)?;
    write_files(page, pool)?;
    nodes::write_rollout(page, review, pool)?;
    writeln!(page.out)
}

fn write_changes(page: &mut Page<'_>, review: &Review, pool: &PoolReview, set: &Changes, all: bool) -> io::Result<()> {
    if let Some(line) = words::leaving(review, pool, set) {
        page.prose(2, &line, dim)?;
    }
    if !all && !set.from_known && set.fields.len() > FRESH_FIELDS {
        page.prose(4, &format!("+ {}; -v lists them", words::sums(&set.fields)), |line| added(line))?;
    } else {
        write_fields(page, pool, &set.fields, all)?;
    }
    if set.fields.is_empty() && pool.change != PoolChange::ToLocal {
        page.prose(4, "no field changes: the content is the same, the node does not prove that it runs it", dim)?;
    }
    Ok(())
}

/// One field a line, classes and places in a column each. Why a class is what it is stands below a field that is refused,
/// and with `all` below each.
fn write_fields(page: &mut Page<'_>, pool: &PoolReview, fields: &[ChangedField], all: bool) -> io::Result<()> {
    let allowed = pool.risk.refused.as_ref().map(|refusal| refusal.allowed);
    let texts: Vec<(String, &ChangedField)> = fields.iter().map(|field| (field_text(&field.change), field)).collect();
    let place = |field: &ChangedField| field.change.place.as_ref().map_or_else(String::new, ToString::to_string);
    let classes = fields.iter().any(|field| field.risk.is_some());
    let columns = fields.iter().map(|field| layout::width(&place(field))).max().unwrap_or(0)
        + if classes { CLASS_WIDTH + 2 } else { 0 };
    let most = page.width.saturating_sub(4 + 2 + columns).max(FIELD_WIDTH);
    let width = texts.iter().map(|(text, _)| layout::width(text)).filter(|width| *width <= most).max().unwrap_or(4);
    for (text, field) in texts {
        let styled = match (&field.change.old, &field.change.new) {
            (None, Some(_)) => added(&text),
            (Some(_), None) => removed(&text),
            _ => changed(&text),
        };
        let refused = |class: Class| allowed.is_some_and(|allowed| class > allowed);
        let class = words::class(field.risk.as_ref());
        // Nothing follows the class of a field that goes, and trailing spaces are nobody's friend.
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
            _ if columns.is_empty() => writeln!(page.out, "    {styled}")?,
            Some(gap) => writeln!(page.out, "    {styled}{}  {columns}", " ".repeat(gap))?,
            None => writeln!(page.out, "    {styled}\n    {}  {columns}", " ".repeat(width))?,
        }
        match &field.risk {
            Some(risk) if all => page.prose(6, &words::why_and_source(risk), dim)?,
            Some(risk) if refused(risk.class) => page.prose(6, &risk.why, dim)?,
            _ => {}
        }
    }
    Ok(())
}

fn field_text(field: &FieldChange) -> String {
    change_text(&field.path, field.old.as_deref(), field.new.as_deref())
}

fn setting_text(setting: &Setting) -> String {
    change_text(setting.path, setting.old.as_deref(), setting.new.as_deref())
}

fn change_text(path: &str, old: Option<&str>, new: Option<&str>) -> String {
    match (old, new) {
        (None, Some(new)) => format!("+ {path}: {new}"),
        (Some(old), None) => format!("- {path}: {old}"),
        (Some(old), Some(new)) => format!("~ {path}: {old} → {new}"),
        (None, None) => path.to_owned(),
    }
}

fn write_settings(page: &mut Page<'_>, pool: &PoolReview) -> io::Result<()> {
    for setting in &pool.settings {
        let text = setting_text(setting);
        let styled = match (&setting.old, &setting.new) {
            (None, Some(_)) => added(&text),
            (Some(_), None) => removed(&text),
            _ => changed(&text),
        };
        writeln!(page.out, "  {styled}  {}", quiet(format!("({})", setting.meaning)))?;
    }
    Ok(())
}

fn write_files(page: &mut Page<'_>, pool: &PoolReview) -> io::Result<()> {
    for kind in [FileChangeKind::Added, FileChangeKind::Modified, FileChangeKind::Removed, FileChangeKind::Formatting] {
        let files: Vec<&str> =
            pool.files.iter().filter(|file| file.change == kind).map(|file| file.path.as_str()).collect();
        if !files.is_empty() {
            page.prose(2, &format!("{}: {}", words::file(kind), names(files, 8)), dim)?;
        }
    }
    Ok(())
}
