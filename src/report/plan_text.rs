//! A plan for people: per pool what changes, on which nodes, in which order, and why the others are left alone.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::style::{added, changed, heading, quiet, removed, warning};
use super::{count, disruption, names, whole_duration};
use crate::document::FieldChange;
use crate::judge::Target;
use crate::plan::{Action, ChangeSet, ChangedField, LeftAlone, Owner, Plan, PoolPlan, Step, Wave, WaveKind, Why};

/// How many node names a line shows.
const NAMES: usize = 8;

/// How wide a changed field may be before its place goes on a line of its own: four columns before it, two and a place
/// behind it, and most lines fit a terminal of 80 columns.
const FIELD_WIDTH: usize = 54;
/// How many fields of a configuration whose predecessor is not known are listed one by one.
const FRESH_FIELDS: usize = 25;

/// Writes the plan. With `all`, long lists of fields are not cut short.
///
/// # Errors
/// When the writer does.
pub fn write(out: &mut dyn Write, plan: &Plan, all: bool) -> io::Result<()> {
    let (settled, others): (Vec<&PoolPlan>, Vec<&PoolPlan>) = plan.pools.iter().partition(|pool| is_settled(pool));
    write_settled(out, &settled)?;
    for pool in others {
        write_pool(out, plan, pool, all)?;
    }
    write_unpooled(out, plan)?;
    if !plan.prunable.is_empty() {
        let names = names(plan.prunable.iter().map(String::as_str), 3);
        writeln!(out, "{}\n", quiet(format!("{} no longer used: {names}", count(plan.prunable.len(), "ConfigMap"))))?;
    }
    writeln!(out, "{}", totals(plan))
}

/// Writes which nodes are waited for, for those who will change nothing.
///
/// # Errors
/// When the writer does.
pub fn write_awaited(out: &mut dyn Write, plan: &Plan) -> io::Result<()> {
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

/// Whether there is nothing to say of a pool but that it is as wanted.
fn is_settled(pool: &PoolPlan) -> bool {
    pool.steps().next().is_none() && pool.left_alone.iter().all(|left| left.why == Why::Converged)
}

fn write_settled(out: &mut dyn Write, pools: &[&PoolPlan]) -> io::Result<()> {
    let width = pools.iter().map(|pool| pool.name.as_str().len()).max().unwrap_or(0);
    for pool in pools {
        let state = match pool.nodes {
            0 => "no nodes".to_owned(),
            1 => format!("1 node, on {}", pool.target),
            nodes => format!("{nodes} nodes, all on {}", pool.target),
        };
        writeln!(out, "{}  {}", heading(format!("{:width$}", pool.name.as_str())), quiet(state))?;
    }
    if pools.is_empty() { Ok(()) } else { writeln!(out) }
}

/// The last line: what would be done, in numbers.
#[must_use]
pub fn totals(plan: &Plan) -> String {
    let counts = plan.counts();
    let mut parts = Vec::new();
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
    let what = if plan.has_changes() { heading("Plan:") } else { heading("No changes:") };
    format!("{what} {} {}", parts.join(", "), quiet(format!("({})", short_id(plan))))
}

/// Enough of the plan's name to tell it from any other that one is likely to see.
fn short_id(plan: &Plan) -> String {
    plan.id.to_string().chars().take("p1:0123456789ab".len()).collect()
}

fn write_pool(out: &mut dyn Write, plan: &Plan, pool: &PoolPlan, all: bool) -> io::Result<()> {
    writeln!(out, "{}  {}", heading(&pool.name), header(pool))?;
    for set in &pool.changes {
        write_changes(out, pool, set, all)?;
    }
    if let Some(worst) = disruption::worst(pool) {
        writeln!(out, "  risk: {worst}")?;
    }
    if let Some(refused) = disruption::refused(pool) {
        writeln!(out, "  {} {refused}", warning("refused by sync:"))?;
    }
    if let Some(map) = plan.config_maps.iter().find(|map| map.pool == pool.name) {
        let state = if map.create { added("to be created") } else { quiet("exists") };
        writeln!(out, "  ConfigMap {}/{} {state}", plan.namespace, map.name)?;
    }
    for wave in &pool.waves {
        write_wave(out, wave)?;
    }
    write_left_alone(out, pool)?;
    writeln!(out)
}

fn header(pool: &PoolPlan) -> String {
    let mut parts = vec![count(pool.nodes, "node")];
    let assignments = pool.assignments();
    if assignments > 0 {
        parts.push(format!("{assignments} to assign, at most {} unavailable at a time", pool.budget));
    }
    if pool.policy.paused {
        parts.push("paused".to_owned());
    }
    parts.join(", ")
}

fn write_changes(out: &mut dyn Write, pool: &PoolPlan, set: &ChangeSet, all: bool) -> io::Result<()> {
    if let Some(line) = leaving(pool, set) {
        writeln!(out, "  {}", quiet(line))?;
    }
    if !all && !set.from_known && set.fields.len() > FRESH_FIELDS {
        writeln!(out, "    {}", added(format!("+ {}", sums(&set.fields))))?;
    } else {
        write_fields(out, pool, &set.fields, all)?;
    }
    if set.fields.is_empty() && pool.target != Target::Local {
        writeln!(
            out,
            "    {}",
            quiet("no field changes: the content is the same, the node does not prove that it runs it")
        )?;
    }
    Ok(())
}

/// One field a line, places and classes in a column each. Why a class is what it is stands below a field that is refused,
/// and with `all` below each.
fn write_fields(out: &mut dyn Write, pool: &PoolPlan, fields: &[ChangedField], all: bool) -> io::Result<()> {
    let texts: Vec<(String, &ChangedField)> = fields.iter().map(|field| (field_text(&field.change), field)).collect();
    let width = texts.iter().map(|(text, _)| text.chars().count()).filter(|width| *width <= FIELD_WIDTH).max();
    let place = |field: &ChangedField| field.change.place.as_ref().map_or_else(String::new, ToString::to_string);
    let places = fields.iter().map(|field| place(field).chars().count()).max().unwrap_or(0);
    for (text, field) in texts {
        let styled = match (&field.change.old, &field.change.new) {
            (None, Some(_)) => added(&text),
            (Some(_), None) => removed(&text),
            _ => changed(&text),
        };
        let refused = field.risk.as_ref().is_some_and(|risk| risk.class > pool.policy.allow_disruption);
        let class = disruption::class(field.risk.as_ref());
        let columns = match (place(field), class) {
            (place, "") if place.is_empty() => String::new(),
            (place, "") => quiet(place),
            (place, class) if refused => format!("{}  {}", quiet(format!("{place:places$}")), warning(class)),
            (place, class) => format!("{}  {}", quiet(format!("{place:places$}")), quiet(class)),
        };
        match width.and_then(|width| width.checked_sub(text.chars().count())) {
            _ if columns.is_empty() => writeln!(out, "    {styled}")?,
            Some(gap) => writeln!(out, "    {styled}{}  {columns}", " ".repeat(gap))?,
            None => writeln!(out, "    {styled}\n    {}  {columns}", " ".repeat(width.unwrap_or(4)))?,
        }
        match &field.risk {
            Some(risk) if all => writeln!(out, "      {}", quiet(disruption::why_and_source(risk)))?,
            Some(risk) if refused => writeln!(out, "      {}", quiet(&risk.why))?,
            _ => {}
        }
    }
    Ok(())
}

/// How many fields each file sets, where there are too many to list.
fn sums(fields: &[ChangedField]) -> String {
    let mut files: BTreeMap<&str, usize> = BTreeMap::new();
    for place in fields.iter().filter_map(|field| field.change.place.as_ref()) {
        *files.entry(&place.file).or_default() += 1;
    }
    let files: Vec<String> = files.into_iter().map(|(file, number)| format!("{number} set by {file}")).collect();
    format!("{}: {}; -v lists them", count(fields.len(), "field"), files.join(", "))
}

/// Which nodes a set of changes is about, where that is not plain.
fn leaving(pool: &PoolPlan, set: &ChangeSet) -> Option<String> {
    let nodes = count(set.nodes, "node");
    match (&set.from, &pool.target) {
        (None, _) => Some(format!("{nodes} from the local configuration (its content is not known here)")),
        (Some(from), Target::Local) => Some(format!("{nodes} from {from} back to the local configuration")),
        (Some(from), _) if !set.from_known => Some(format!("{nodes} from {from} (its content cannot be read)")),
        (Some(from), _) if pool.changes.len() > 1 => Some(format!("{nodes} from {from}")),
        _ => None,
    }
}

fn field_text(field: &FieldChange) -> String {
    match (&field.old, &field.new) {
        (None, Some(new)) => format!("+ {}: {new}", field.path),
        (Some(old), None) => format!("- {}: {old}", field.path),
        (Some(old), Some(new)) => format!("~ {}: {old} → {new}", field.path),
        (None, None) => field.path.clone(),
    }
}

fn write_wave(out: &mut dyn Write, wave: &Wave) -> io::Result<()> {
    let (assign, awaited): (Vec<&Step>, Vec<&Step>) =
        wave.steps.iter().partition(|step| matches!(step.action, Action::Assign { .. }));
    if !assign.is_empty() || matches!(wave.kind, WaveKind::Canary { .. }) {
        let label = match wave.kind {
            WaveKind::Unavailable => "first, broken already:".to_owned(),
            WaveKind::Canary { soak_seconds: 0 } => "canary:".to_owned(),
            WaveKind::Canary { soak_seconds } => format!("canary, then {} soak:", whole_duration(soak_seconds)),
            WaveKind::Rest => "then, as the budget allows:".to_owned(),
        };
        let listed = if assign.is_empty() && awaited.is_empty() {
            "converged already".to_owned()
        } else {
            names(wave.steps.iter().map(|step| step.node.as_str()), NAMES)
        };
        writeln!(out, "  {label} {listed}")?;
    }
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for step in awaited {
        if let Action::Await { waiting, error } = &step.action {
            let state = match (waiting, error) {
                (_, Some(error)) => warning(error),
                (Some(waiting), None) => waiting.to_string(),
                (None, None) => "on the way".to_owned(),
            };
            groups.entry(state).or_default().push(step.node.as_str());
        }
    }
    for (state, nodes) in groups {
        writeln!(out, "  assigned before: {}: {state}", names(nodes, NAMES))?;
    }
    Ok(())
}

fn write_left_alone(out: &mut dyn Write, pool: &PoolPlan) -> io::Result<()> {
    let settled = pool.left_alone.iter().filter(|left| left.why == Why::Converged).count();
    if settled > 0 {
        writeln!(out, "  {}", quiet(format!("{} converged already", count(settled, "node"))))?;
    }
    let mut groups: BTreeMap<String, Vec<&LeftAlone>> = BTreeMap::new();
    for left in pool.left_alone.iter().filter(|left| left.why != Why::Converged) {
        groups.entry(reason(&left.why)).or_default().push(left);
    }
    for (reason, group) in groups {
        let blocked = group.iter().any(|left| left.why.is_blocked());
        let listed = names(group.iter().map(|left| left.node.as_str()), NAMES);
        let line = format!("{listed}: {reason}");
        writeln!(
            out,
            "  {}",
            if blocked { format!("{} {line}", warning("blocked:")) } else { format!("left alone: {line}") }
        )?;
    }
    Ok(())
}

/// Why a node is left alone, with the way out where there is one.
#[must_use]
pub fn reason(why: &Why) -> String {
    match why {
        Why::Converged => "converged already".to_owned(),
        Why::Adopted { source } => format!("runs the wanted content from {source} already; no restart needed"),
        Why::Paused => "the pool is paused (spec.rollout.paused)".to_owned(),
        Why::Conflict { source, owner: Owner::Fleet { fleet } } => {
            format!("points at {source} of fleet {fleet}; remove it there, or pass --take-over")
        }
        Why::Conflict { source, owner: Owner::Unknown } => {
            format!("points at {source}, which nodecfg does not manage; pass --take-over to move it")
        }
        Why::Unsupported { version } => format!(
            "kubelet {version} does not know configSource: dynamic kubelet configuration is in kubelets 1.11 to 1.23"
        ),
        Why::WouldRefuse { kubelet, reason } => format!("its kubelet is now {kubelet} and would refuse this: {reason}"),
        Why::NoDynamicConfig => {
            "its kubelet reports no status.config: it runs without --dynamic-config-dir, or has only just started"
                .to_owned()
        }
        Why::AgentSilent => {
            "no node agent has ever reported from it; install the agent (nodecfg install --agent …), or look why \
            it does not run there"
                .to_owned()
        }
        Why::Outlived => {
            "its NodeConfig is that of an earlier node of this name, and about to be removed; run this again".to_owned()
        }
        Why::Deleting => "the node is being deleted".to_owned(),
    }
}

fn write_unpooled(out: &mut dyn Write, plan: &Plan) -> io::Result<()> {
    let (orphans, others): (Vec<_>, Vec<_>) = plan.unpooled.iter().partition(|node| node.still_on.is_some());
    if !orphans.is_empty() {
        let listed = names(orphans.iter().map(|node| node.node.as_str()), NAMES);
        writeln!(
            out,
            "{} {listed}: in no pool any more, and still on its configuration; left as it is",
            warning("note:")
        )?;
    }
    if !others.is_empty() {
        let listed = names(others.iter().map(|node| node.node.as_str()), NAMES);
        writeln!(out, "{}", quiet(format!("in no pool: {listed}")))?;
    }
    if plan.unpooled.is_empty() { Ok(()) } else { writeln!(out) }
}
