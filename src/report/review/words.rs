//! The sentences of a review, the same in every format. Values and names stand in them as they are: whoever puts them into
//! markup sees to it that they stay text.

use std::collections::BTreeMap;

use crate::report::count;
use crate::review::{Changes, FileChangeKind, PoolChange, PoolReview, Review, Side, Start};
use kubelet_config::risk::{Class, Risk};
use nodecfg_contract::printable::at_most;
use nodecfg_planning::plan::ChangedField;

/// Says on what a command is about to work: the first line on standard error.
#[must_use]
pub fn opening(review: &Review) -> String {
    let signed = match &review.to {
        Side::Revision { signer: Some(signer), .. } => format!(" signed by {signer}"),
        _ => String::new(),
    };
    format!("fleet {} {}{signed}, compared with {}", review.fleet, at(&review.to), side(&review.from))
}

/// A side after a preposition: `at commit 8f7f378c28`, `in the working tree`.
pub(super) fn at(side: &Side) -> String {
    match side {
        Side::Revision { .. } => format!("at {}", self::side(side)),
        Side::WorkingTree => "in the working tree".to_owned(),
        Side::Local => "in the local configuration".to_owned(),
        Side::Cluster => "in the cluster".to_owned(),
    }
}

/// One side, as it was asked for and with its commit.
pub(in crate::report) fn side(side: &Side) -> String {
    match side {
        Side::Revision { name: Some(name), commit, .. } if !commit.as_str().starts_with(name.as_str()) => {
            format!("{} ({})", clipped(name, 60), commit.short())
        }
        Side::Revision { commit, .. } => format!("commit {}", commit.short()),
        Side::WorkingTree => "the working tree".to_owned(),
        Side::Local => "the local configuration".to_owned(),
        Side::Cluster => "the cluster".to_owned(),
    }
}

/// A text cut after so many characters, which shows that it was.
pub(in crate::report) fn clipped(text: &str, most: usize) -> String {
    if text.chars().count() <= most { text.to_owned() } else { at_most(text, most.saturating_sub(1)) }
}

/// What the change does as a whole, to follow "this": `changes 2 of 5 pools and 37 nodes; the worst is drain: …`.
pub(in crate::report) fn verdict(review: &Review) -> String {
    let counts = review.counts();
    let cluster = review.cluster.as_ref();
    if !review.is_changed() {
        return nothing(review);
    }
    let touching = counts.changed - counts.settings_only;
    let nodes = cluster.map_or_else(String::new, |cluster| format!(", {}", count(cluster.counts.assign, "node")));
    let pools = count(counts.pools, "pool");
    let mut text = match (touching, counts.settings_only) {
        (0, 0) => "changes settings of the fleet".to_owned(),
        (0, only) => format!("changes settings of {only} of {pools}, and on no node what it runs"),
        (some, 0) => format!("changes {some} of {pools}{nodes}"),
        (some, only) => format!("changes {some} of {pools}{nodes}, and only settings of {only} more"),
    };
    let unknown = review.pools.iter().filter(|pool| pool.risk.unknown).count();
    match review.worst() {
        Some(class) if unknown > 0 => {
            let means = class.means();
            text.push_str(&format!(
                "; the worst that is known is {class}: it {means}; for {unknown} of {pools} it is not known"
            ));
        }
        Some(class) => text.push_str(&format!("; the worst is {class}: it {}", class.means())),
        None if unknown > 0 => text.push_str("; its risk is not known"),
        None => {}
    }
    text.push_str(&blocked(review));
    if counts.refused > 0 {
        text.push_str(&format!(". nodecfg sync will refuse {}", of_pools(counts.refused)));
    }
    text
}

/// How many nodes cannot be brought to what they shall run, to follow what changes.
fn blocked(review: &Review) -> String {
    match review.cluster.as_ref().map_or(0, |cluster| cluster.counts.blocked) {
        0 => String::new(),
        1 => "; 1 node is blocked".to_owned(),
        nodes => format!("; {nodes} nodes are blocked"),
    }
}

fn of_pools(number: usize) -> String {
    if number == 1 {
        "it: 1 pool does not allow that".to_owned()
    } else {
        format!("it: {number} pools do not allow that")
    }
}

/// That nothing changes, and what differs all the same.
fn nothing(review: &Review) -> String {
    let who = match &review.cluster {
        Some(cluster) if cluster.counts.settled > 0 => {
            format!("changes nothing on {}{}", count(cluster.counts.settled, "node"), blocked(review))
        }
        _ => format!("changes nothing on any node{}", blocked(review)),
    };
    let files = review.files();
    match files.len() {
        0 => who,
        number if files.values().all(|kind| *kind == FileChangeKind::Formatting) => {
            format!("{who}: {} only in formatting", differ(number))
        }
        number => format!("{who}: what {number} files say differently comes to the same"),
    }
}

fn differ(files: usize) -> String {
    if files == 1 { "1 file differs".to_owned() } else { format!("{files} files differ") }
}

/// What happens to a pool, in a few words.
pub(in crate::report) fn headline(pool: &PoolReview) -> String {
    match pool.change {
        PoolChange::Added => "new pool".to_owned(),
        PoolChange::Removed => "removed".to_owned(),
        PoolChange::Changed => match pool.changes.iter().map(|set| set.fields.len()).max().unwrap_or(0) {
            0 => "assigned anew".to_owned(),
            1 => "1 field changes".to_owned(),
            fields => format!("{fields} fields change"),
        },
        PoolChange::ToLocal => "back to the local configuration".to_owned(),
        PoolChange::FromLocal => "from the local configuration".to_owned(),
        PoolChange::Selection => "other nodes".to_owned(),
        PoolChange::PolicyOnly => "policy only".to_owned(),
        PoolChange::Unknown => "cannot be compared".to_owned(),
        PoolChange::Drift => "unchanged, nodes differ".to_owned(),
        PoolChange::Unchanged => "unchanged".to_owned(),
    }
}

/// What that means to somebody who has never seen it, where it is not plain.
pub(in crate::report) fn explained(pool: &PoolReview, cluster: bool) -> Option<&'static str> {
    Some(match pool.change {
        PoolChange::Added => "a new pool: what its nodes run now shows in a cluster alone",
        PoolChange::Removed => {
            "the pool is gone from the repository. Its nodes keep what they run, and get no more changes, unless another \
             pool selects them"
        }
        PoolChange::ToLocal => {
            "the nodes go back to the configuration that they were provisioned with, which nodecfg does not know"
        }
        PoolChange::FromLocal => {
            "the nodes leave the configuration that they were provisioned with, which nodecfg does not know"
        }
        PoolChange::Selection if cluster => "what the pool runs stays the same; which nodes belong to it changes",
        PoolChange::Selection => {
            "what the pool runs stays the same. Nodes may come from or go to other pools, and then run what those do; \
             which ones shows in a cluster alone"
        }
        PoolChange::PolicyOnly => "no node is touched: only how later changes are rolled out or checked",
        PoolChange::Unknown => "the base revision is invalid where this pool is, so every field is listed as set",
        PoolChange::Drift => "the revisions agree; these nodes do not run it yet, and a sync would assign it",
        PoolChange::Changed | PoolChange::Unchanged => return None,
    })
}

/// The worst that the changes of a pool do, and for how many nodes that is not known. `None` when nothing changes.
pub(in crate::report) fn risk(pool: &PoolReview) -> Option<String> {
    let risk = &pool.risk;
    let nodes = risk.unknown_nodes.filter(|nodes| *nodes > 0);
    let Some(class) = risk.worst else {
        let to_local = pool.change == PoolChange::ToLocal;
        let side = if to_local { "they shall run" } else { "they run now" };
        return risk.unknown.then(|| match pool.change {
            PoolChange::Added | PoolChange::Unknown if nodes.is_none() => {
                "not known, since what its nodes run now is not".to_owned()
            }
            _ => format!("not known, since what {side} is not"),
        });
    };
    let mut line = format!("{class}: {}", class.means());
    if !risk.state_files.is_empty() {
        let files: Vec<&str> = risk.state_files.iter().map(|file| file.as_str()).collect();
        line.push_str(&format!(", and {} removed", files.join(" and ")));
    }
    match nodes {
        Some(nodes) => line.push_str(&format!("; not known for {}", count(nodes, "node"))),
        None if risk.unknown => line.push_str("; partly not known"),
        None => {}
    }
    Some(line)
}

/// Why a sync refuses the changes of a pool, where it does.
pub(in crate::report) fn refused(pool: &PoolReview) -> Option<String> {
    let refusal = pool.risk.refused.as_ref()?;
    let allowed = refusal.allowed;
    Some(format!("the pool allows no more than {allowed} (spec.rollout.allowDisruption)"))
}

/// What a class alone does not say of a pool, to follow it.
pub(super) fn partly(pool: &PoolReview) -> &'static str {
    if pool.risk.worst.is_some() && pool.risk.unknown { ", partly not known" } else { "" }
}

/// The class of one field for a column, empty where it is not known.
pub(super) fn class(risk: Option<&Risk>) -> &'static str {
    risk.map_or("", |risk| risk.class.as_str())
}

/// Why a field has its class, and who says so.
pub(in crate::report) fn why_and_source(risk: &Risk) -> String {
    if risk.source.is_empty() { risk.why.clone() } else { format!("{} [{}]", risk.why, risk.source) }
}

/// Each field with its worst risk, of those classes that are asked for, by path.
pub(super) fn risks(pool: &PoolReview, wanted: impl Fn(Class) -> bool) -> BTreeMap<&str, &Risk> {
    let mut worst: BTreeMap<&str, &Risk> = BTreeMap::new();
    for field in pool.changes.iter().flat_map(|set| &set.fields) {
        if let Some(risk) = field.risk.as_ref().filter(|risk| wanted(risk.class)) {
            let known = worst.entry(&field.change.path).or_insert(risk);
            if risk.class > known.class {
                *known = risk;
            }
        }
    }
    worst
}

/// Which nodes a set of changes is about, where that is not plain.
pub(in crate::report) fn leaving(review: &Review, pool: &PoolReview, set: &Changes) -> Option<String> {
    let nodes = set.nodes.map_or_else(|| "nodes".to_owned(), |nodes| count(nodes, "node"));
    let back = if pool.change == PoolChange::ToLocal { " back to the local configuration" } else { "" };
    match &set.from {
        Start::Base if pool.changes.len() > 1 || set.nodes == Some(0) => {
            Some(format!("{nodes} from {}{back}", side(&review.from)))
        }
        Start::Base | Start::Nothing | Start::Unreadable => None,
        Start::Local => Some(format!("{nodes} from the local configuration (its content is not known here)")),
        Start::ConfigMap { source } if !set.from_known => {
            Some(format!("{nodes} from {source} (its content cannot be read)"))
        }
        Start::ConfigMap { source } if pool.changes.len() > 1 || !back.is_empty() => {
            Some(format!("{nodes} from {source}{back}"))
        }
        Start::ConfigMap { .. } => None,
    }
}

/// What happened to a file, in a few words.
pub(in crate::report) fn file(kind: FileChangeKind) -> &'static str {
    match kind {
        FileChangeKind::Added => "added",
        FileChangeKind::Modified => "modified",
        FileChangeKind::Formatting => "formatting only, no effect on any node",
        FileChangeKind::Removed => "removed",
    }
}

/// How many fields each file sets, where there are too many to list.
pub(super) fn sums(fields: &[ChangedField]) -> String {
    let mut files: BTreeMap<&str, usize> = BTreeMap::new();
    for place in fields.iter().filter_map(|field| field.change.place.as_ref()) {
        *files.entry(&place.file).or_default() += 1;
    }
    let files: Vec<String> = files.into_iter().map(|(file, number)| format!("{number} set by {file}")).collect();
    format!("{}: {}", count(fields.len(), "field"), files.join(", "))
}
