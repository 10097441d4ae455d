//! A plan for a pull request: a table of pools, then each pool that changes, folded.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::markdown::{code, prose};
use super::plan_text::reason;
use super::{count, disruption, whole_duration};
use crate::kubelet::risk::Risk;
use crate::plan::{Action, ChangedField, Plan, PoolPlan, WaveKind};

/// How many nodes a list names.
const NAMES: usize = 12;

/// Writes the plan as GitHub-flavoured markdown.
///
/// # Errors
/// When the writer does.
pub fn write(out: &mut dyn Write, plan: &Plan) -> io::Result<()> {
    let counts = plan.counts();
    let revision = plan
        .commit
        .as_ref()
        .map_or_else(|| "from the working tree".to_owned(), |commit| format!("at `{}`", commit.short()));
    if !plan.has_changes() && counts.await_ == 0 && counts.blocked == 0 {
        return writeln!(
            out,
            "**nodecfg**: fleet `{}` {revision} changes nothing on {}.",
            plan.fleet,
            count(counts.settled, "node")
        );
    }
    writeln!(out, "### nodecfg: fleet `{}` {revision}\n", plan.fleet)?;
    writeln!(out, "| pool | nodes | to assign | at a time | fields | risk | left alone |")?;
    writeln!(out, "|---|--:|--:|--:|--:|---|---|")?;
    for pool in &plan.pools {
        writeln!(out, "{}", row(pool))?;
    }
    writeln!(out)?;
    for pool in plan
        .pools
        .iter()
        .filter(|pool| pool.steps().next().is_some() || pool.left_alone.iter().any(|left| left.why.is_blocked()))
    {
        write_pool(out, plan, pool)?;
    }
    if !plan.unpooled.is_empty() {
        writeln!(
            out,
            "{} in no pool: {}\n",
            count(plan.unpooled.len(), "node"),
            nodes(plan.unpooled.iter().map(|node| node.node.as_str()))
        )?;
    }
    writeln!(out, "<sub>plan `{}`</sub>", plan.id)
}

fn row(pool: &PoolPlan) -> String {
    let fields = pool.changes.iter().map(|set| set.fields.len()).max().unwrap_or(0);
    let settled = pool.left_alone.iter().filter(|left| left.why.is_settled()).count();
    let blocked = pool.left_alone.iter().filter(|left| left.why.is_blocked()).count();
    let skipped = pool.left_alone.len() - settled - blocked;
    let mut left = Vec::new();
    for (number, what) in [(settled, "as wanted"), (skipped, "skipped"), (blocked, "**blocked**")] {
        if number > 0 {
            left.push(format!("{number} {what}"));
        }
    }
    let assign = pool.assignments();
    let at_a_time = if assign > 0 { pool.budget.to_string() } else { "–".to_owned() };
    let left = left.join(", ");
    let risk = risk(pool);
    format!("| `{}` | {} | {assign} | {at_a_time} | {fields} | {risk} | {left} |", pool.name, pool.nodes)
}

/// The worst class of a pool's changes, in a word or two.
fn risk(pool: &PoolPlan) -> String {
    match pool.disruption.worst {
        Some(class) if pool.disruption.refused => format!("**{class}, refused**"),
        Some(class) => class.to_string(),
        None if pool.disruption.unknown > 0 => "not known".to_owned(),
        None => "–".to_owned(),
    }
}

fn write_pool(out: &mut dyn Write, plan: &Plan, pool: &PoolPlan) -> io::Result<()> {
    writeln!(
        out,
        "<details><summary><b>{}</b>: {} of {}</summary>\n",
        pool.name,
        pool.assignments(),
        count(pool.nodes, "node")
    )?;
    for set in &pool.changes {
        let from = match &set.from {
            None => "the local configuration (content not known)".to_owned(),
            Some(from) => format!("`{from}`"),
        };
        writeln!(out, "{} from {from}:\n", count(set.nodes, "node"))?;
        writeln!(out, "| field | now | new | risk | set by |\n|---|---|---|---|---|")?;
        for field in &set.fields {
            writeln!(out, "{}", field_row(field))?;
        }
        writeln!(out)?;
    }
    if let Some(worst) = disruption::worst(pool) {
        writeln!(out, "Risk: {}\n", prose(&worst))?;
    }
    if let Some(refused) = disruption::refused(pool) {
        writeln!(out, "**Refused by sync**: {}\n", prose(&refused))?;
        write_reasons(out, pool)?;
    }
    if let Some(map) = plan.config_maps.iter().find(|map| map.pool == pool.name) {
        writeln!(out, "ConfigMap `{}/{}` ({})\n", plan.namespace, map.name, if map.create { "new" } else { "exists" })?;
    }
    for wave in &pool.waves {
        let label = match wave.kind {
            WaveKind::Unavailable => "first, broken already".to_owned(),
            WaveKind::Canary { soak_seconds } => format!("canary, {} soak", whole_duration(soak_seconds)),
            WaveKind::Rest => format!("then, {} at a time", pool.budget),
        };
        let listed: Vec<&str> = wave
            .steps
            .iter()
            .filter(|step| matches!(step.action, Action::Assign { .. }))
            .map(|step| step.node.as_str())
            .collect();
        if !listed.is_empty() {
            writeln!(out, "- {label}: {}", nodes(listed))?;
        }
    }
    let blocked: Vec<_> = pool.left_alone.iter().filter(|left| left.why.is_blocked()).collect();
    if blocked.len() > NAMES {
        writeln!(out, "- **{} blocked**, the first {NAMES} of them:", count(blocked.len(), "node"))?;
    }
    for left in blocked.into_iter().take(NAMES) {
        writeln!(out, "- **blocked** `{}`: {}", left.node, prose(&reason(&left.why)))?;
    }
    writeln!(out, "\n</details>\n")
}

/// Up to [`NAMES`] nodes, and how many more there are.
fn nodes<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    super::names(names.iter().map(String::as_str), NAMES)
}

/// Why the fields are refused that are.
fn write_reasons(out: &mut dyn Write, pool: &PoolPlan) -> io::Result<()> {
    let mut reasons: BTreeMap<&str, &Risk> = BTreeMap::new();
    for field in pool.changes.iter().flat_map(|set| &set.fields) {
        if let Some(risk) = field.risk.as_ref().filter(|risk| risk.class > pool.policy.allow_disruption) {
            let worst = reasons.entry(&field.change.path).or_insert(risk);
            if risk.class > worst.class {
                *worst = risk;
            }
        }
    }
    for (path, risk) in reasons {
        writeln!(out, "- {}: {}", code(path), prose(&disruption::why_and_source(risk)))?;
    }
    writeln!(out)
}

fn field_row(field: &ChangedField) -> String {
    let value = |value: &Option<String>| value.as_ref().map_or_else(|| "–".to_owned(), |value| code(value));
    let risk = field.risk.as_ref().map_or("not known", |risk| risk.class.as_str());
    let change = &field.change;
    let place = change.place.as_ref().map_or_else(String::new, |place| code(&place.to_string()));
    format!("| {} | {} | {} | {risk} | {place} |", code(&change.path), value(&change.old), value(&change.new))
}
