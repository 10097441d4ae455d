//! A review as GitHub-flavoured markdown for a pull request: the verdict, a table of pools, the details of each pool
//! (collapsed, worst risk first), other nodes, warnings, and a footer that explains nodecfg.
//!
//! Texts from the repository or the cluster stand in code spans or are escaped: they create no markup and no
//! notification.

use std::io::{self, Write};

use super::group::title;
use super::pointers::changes_beside_assignments;
use super::sentences;
use super::verdict::verdict;
use crate::report::findings;
use crate::report::markdown::{code, prose};
use crate::report::{count, names};
use crate::review::{FileChangeKind, PoolReview, Review, Side, groups};
use kubelet_config::risk::Class;

mod fit;
mod pool;
#[cfg(test)]
mod tests;

use fit::Parts;

/// The smallest supported length limit, in UTF-16 units.
pub const LEAST_CHARS: i64 = 2000;
/// The maximum names in a list.
const MAX_NAMES: usize = 12;

/// Writes the review within `most` UTF-16 units, so that the limit holds for characters too.
///
/// # Errors
/// When `out` cannot be written.
pub fn write(out: &mut dyn Write, review: &Review, most: Option<usize>) -> io::Result<()> {
    out.write_all(render(review, most).as_bytes())
}

/// The review as a string.
pub(super) fn render(review: &Review, most: Option<usize>) -> String {
    let shown: Vec<&PoolReview> = review.pools.iter().filter(|pool| is_shown(pool)).collect();
    if shown.is_empty() && !review.is_changed() && review.base_findings.is_empty() {
        return format!("**nodecfg**: this {} ({}).\n", prose(&verdict(review)), compared(review));
    }
    let groups = groups(shown.iter().copied());
    let mut parts = Parts {
        head: head(review),
        table: pool::table_head(review),
        rows: groups.iter().map(|group| pool::row(review, group)).collect(),
        after_rows: unchanged(review),
        pools: groups.iter().map(|group| pool::details(review, group)).collect(),
        names: groups.iter().map(|group| (title(group.names()), group.pools.len())).collect(),
        others: others(review),
        findings: warnings(review),
        foot: foot(review),
        all: code(&full_command(review)),
    };
    if shown.is_empty() {
        parts.table.clear();
    }
    parts.within(most)
}

/// Reports whether a pool has changes, work to do, blocked nodes or a pause.
fn is_shown(pool: &PoolReview) -> bool {
    let busy = |rollout: &crate::review::Rollout| {
        rollout.waves.iter().any(|wave| !wave.steps.is_empty())
            || rollout.left_alone.iter().any(|left| left.blocked)
            || rollout.pause.is_some()
    };
    pool.is_changed() || pool.rollout.as_ref().is_some_and(busy)
}

/// The verdict and the compared revisions.
fn head(review: &Review) -> String {
    let subject = match (&review.from, &review.to) {
        (_, Side::Local) => "Resetting",
        (Side::Cluster, _) => "Syncing this",
        _ => "Merging this",
    };
    let mut head = format!("**{subject} {}.**\n\n{}\n", prose(&verdict(review)), compared(review));
    for setting in &review.settings {
        let value = |value: &Option<String>| value.as_ref().map_or_else(|| "–".to_owned(), |value| code(value));
        let (old, new) = (value(&setting.old), value(&setting.new));
        head.push_str(&format!("\n`{}` of the fleet: {old} → {new} ({})\n", setting.path, setting.meaning));
    }
    if !review.base_findings.is_empty() {
        let errors = count(review.base_findings.len(), "error");
        head.push_str(&format!(
            "\n> [!NOTE]\n> {} is invalid ({errors}). The comparison covers its readable parts only.\n",
            side(&review.from)
        ));
    }
    head.push('\n');
    head
}

fn compared(review: &Review) -> String {
    format!("fleet `{}`, {} compared with {}", review.fleet, side(&review.to), side(&review.from))
}

/// A side of the comparison, with names as code.
fn side(side: &Side) -> String {
    match side {
        Side::Revision { name: Some(name), commit, .. } if !commit.as_str().starts_with(name.as_str()) => {
            format!("{} (`{}`)", code(&sentences::clipped(name, 60)), commit.short())
        }
        Side::Revision { commit, .. } => format!("`{}`", commit.short()),
        Side::WorkingTree => "the working tree".to_owned(),
        Side::Local => "the local configuration".to_owned(),
        Side::Cluster => "the cluster".to_owned(),
    }
}

/// The unchanged pools, and files with formatting changes only.
fn unchanged(review: &Review) -> String {
    let pools: Vec<String> =
        review.pools.iter().filter(|pool| !is_shown(pool)).map(|pool| format!("`{}`", pool.name)).collect();
    let mut text = String::new();
    if !pools.is_empty() {
        text.push_str(&format!("\nUnchanged: {}.\n", names(pools.iter().map(String::as_str), MAX_NAMES)));
    }
    let formatted: Vec<String> = review
        .files()
        .into_iter()
        .filter(|(_, kind)| *kind == FileChangeKind::Formatting)
        .map(|(path, _)| code(&sentences::clipped(path, 100)))
        .collect();
    if !formatted.is_empty() {
        let listed = names(formatted.iter().map(String::as_str), MAX_NAMES);
        text.push_str(&format!("\nReformatted, without effect on nodes: {listed}.\n"));
    }
    text.push('\n');
    text
}

/// Whether nodes may move, nodes that change their pool, and nodes without a pool.
fn others(review: &Review) -> String {
    let mut text = String::new();
    if review.nodes_may_move {
        text.push_str(
            "Nodes may move between pools. To see which, compare with a cluster (`nodecfg diff` with \
             `--kubeconfig` or `--context`).\n\n",
        );
    }
    if let Some(restarts) = sentences::restarts(review) {
        text.push_str(&format!("{}.\n\n", prose(&restarts)));
    }
    let Some(cluster) = &review.cluster else { return text };
    for change in changes_beside_assignments(cluster) {
        text.push_str(&format!("Sync {}.\n\n", prose(&change)));
    }
    let listed = |nodes: Vec<String>| names(nodes.iter().map(String::as_str), MAX_NAMES);
    let mut moves: std::collections::BTreeMap<(String, String), Vec<String>> = std::collections::BTreeMap::new();
    for one in &cluster.moves {
        let pool = |pool: &Option<nodecfg_contract::names::PoolName>| {
            pool.as_ref().map_or_else(|| "no pool".to_owned(), |pool| format!("pool `{pool}`"))
        };
        moves.entry((pool(&one.from), pool(&one.to))).or_default().push(format!("`{}`", one.node));
    }
    for ((from, to), nodes) in moves {
        text.push_str(&format!("From {from} to {to}: {}\n\n", listed(nodes)));
    }
    for line in sentences::unpooled(cluster, |node| format!("`{node}`")) {
        text.push_str(&format!("{line}\n\n"));
    }
    text
}

/// The findings about the configurations, collapsed.
fn warnings(review: &Review) -> String {
    if review.findings.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "<details><summary>{} about the configuration</summary>\n\n| severity | place | message | fix \
         |\n|---|---|---|---|\n",
        count(review.findings.len(), "warning")
    );
    for finding in &review.findings {
        text.push_str(&findings::row(finding));
        text.push('\n');
    }
    text.push_str("\n</details>\n\n");
    text
}

/// The footer: what nodecfg is, the meaning of the risk classes in the review, the assumed version and the plan.
fn foot(review: &Review) -> String {
    let mut text = String::from(
        "<sub>nodecfg keeps the configuration of kubelets, the agents that run the pods of each node, in this \
         repository. `nodecfg sync` creates a ConfigMap from it and assigns it to the nodes of a pool, a few at a \
         time. Each node's kubelet restarts to read it; pods keep running",
    );
    text.push_str(if review.drains() > 0 { ", except on drained nodes." } else { "." });
    let classes: Vec<String> = Class::ALL
        .into_iter()
        .filter(|class| review.pools.iter().any(|pool| !sentences::risks(pool, |of| of == *class).is_empty()))
        .map(|class| format!("**{class}** {}", class.means()))
        .collect();
    if !classes.is_empty() {
        text.push_str(&format!(" Risk of a change: {}.", classes.join("; ")));
    }
    if let Some(minor) = review.assumed_version {
        text.push_str(&format!(" Checked for kubelet {minor} in pools without a version."));
    }
    if let Some(cluster) = &review.cluster {
        text.push_str(&format!(" Plan `{}`.", cluster.plan));
    }
    text.push_str("</sub>\n");
    text
}

/// The command that shows the full review.
fn full_command(review: &Review) -> String {
    match &review.from {
        Side::Revision { commit, .. } => format!("nodecfg diff --against {}", commit.short()),
        Side::WorkingTree | Side::Local | Side::Cluster => "nodecfg diff".to_owned(),
    }
}
