//! A plan for a pull request: a table of pools, then each pool that changes, folded.

use std::io::{self, Write};

use super::markdown::{code, prose};
use super::plan_text::reason;
use super::{count, whole_duration};
use crate::document::FieldChange;
use crate::plan::{Action, Plan, PoolPlan, WaveKind};

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
    writeln!(out, "| pool | nodes | to assign | at a time | fields | left alone |")?;
    writeln!(out, "|---|--:|--:|--:|--:|---|")?;
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
    format!("| `{}` | {} | {assign} | {at_a_time} | {fields} | {} |", pool.name, pool.nodes, left.join(", "))
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
        writeln!(out, "| field | now | new | set by |\n|---|---|---|---|")?;
        for field in &set.fields {
            writeln!(out, "{}", field_row(field))?;
        }
        writeln!(out)?;
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

fn field_row(field: &FieldChange) -> String {
    let value = |value: &Option<String>| value.as_ref().map_or_else(|| "–".to_owned(), |value| code(value));
    let place = field.place.as_ref().map_or_else(String::new, |place| code(&place.to_string()));
    format!("| {} | {} | {} | {place} |", code(&field.path), value(&field.old), value(&field.new))
}
