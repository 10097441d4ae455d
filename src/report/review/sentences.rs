//! The sentences of a review. They contain names and values unescaped; the formats escape them.

use crate::report::document::{Item, Text};
use crate::report::{clipped, count};
use crate::review::{Changes, ClusterReview, FileChangeKind, Origin, PoolChange, PoolReview, Review, Side};
use nodecfg_plan::{ChangedField, Sample, Unpooled, lost_sentence};

/// The first line on standard error: the revision and the base of a command.
#[must_use]
pub fn header_line(review: &Review) -> String {
    let signed = match &review.to {
        Side::Revision { signer: Some(signer), .. } => format!(" signed by {signer}"),
        _ => String::new(),
    };
    format!("fleet {} {}{signed}, compared with {}", review.fleet, with_preposition(&review.to), side(&review.from))
}

/// A side with a preposition: `at commit 8f7f378c28`, `in the working tree`.
pub(super) fn with_preposition(side: &Side) -> String {
    match side {
        Side::Revision { .. } => format!("at {}", self::side(side)),
        Side::WorkingTree => "in the working tree".to_owned(),
        Side::Local => "in the local configuration".to_owned(),
        Side::Cluster => "in the cluster".to_owned(),
    }
}

/// A side, with the requested name of a revision as a name: anyone may choose it.
pub(super) fn side_text(side: &Side) -> Text {
    match side {
        Side::Revision { name: Some(name), commit, .. } if !commit.as_str().starts_with(name.as_str()) => {
            Text::name(clipped(name, 60)).then(format!(" ({})", commit.short()))
        }
        Side::Revision { commit, .. } => Text::from("commit ").then(Text::name(commit.short())),
        side => self::side(side).into(),
    }
}

/// A side with its requested name and its commit.
pub(super) fn side(side: &Side) -> String {
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

/// The change of a pool in a few words.
pub(super) fn headline(pool: &PoolReview) -> String {
    match pool.change {
        PoolChange::Added => "new pool".to_owned(),
        PoolChange::Removed => "removed".to_owned(),
        PoolChange::Changed => match most_fields(pool, |field| !field.no_effect) {
            0 if most_fields(pool, |_| true) > 0 => "no value in effect changes".to_owned(),
            0 => "reassigned".to_owned(),
            1 => "1 field changes".to_owned(),
            fields => format!("{fields} fields change"),
        },
        PoolChange::ToLocal => "returns to local configuration".to_owned(),
        PoolChange::FromLocal => "leaves local configuration".to_owned(),
        PoolChange::Selection => "other nodes".to_owned(),
        PoolChange::PolicyOnly => "policy only".to_owned(),
        PoolChange::Unknown => "cannot be compared".to_owned(),
        PoolChange::Drift => "unchanged, nodes differ".to_owned(),
        PoolChange::Unchanged => "unchanged".to_owned(),
    }
}

/// The highest number of such fields in the changes from one configuration.
fn most_fields(pool: &PoolReview, is: impl Fn(&ChangedField) -> bool) -> usize {
    pool.changes.iter().map(|set| set.fields.iter().filter(|field| is(field)).count()).max().unwrap_or(0)
}

/// The old and the new value of a field, or the default in effect, with a mark.
pub(super) fn values(field: &ChangedField) -> (Option<String>, Option<String>) {
    let value = |default: &Option<String>, written: &Option<String>| {
        default.as_ref().map(|default| format!("{default} (default)")).or_else(|| written.clone())
    };
    (value(&field.old_default, &field.change.old), value(&field.new_default, &field.change.new))
}

/// Explains a pool change that is not self-explanatory.
pub(super) fn explanation(pool: &PoolReview, cluster: bool) -> Option<&'static str> {
    Some(match pool.change {
        PoolChange::Added => "the current configuration of the nodes is only known when comparing with a cluster",
        PoolChange::Removed => {
            "the repository no longer has this pool. Its nodes keep their configuration and get no more changes, \
             unless another pool selects them"
        }
        PoolChange::ToLocal => "the nodes return to their local configuration, which nodecfg does not know",
        PoolChange::FromLocal => "the nodes leave their local configuration, which the repository does not have",
        PoolChange::Selection if cluster => "the configuration stays the same; the set of nodes changes",
        PoolChange::Selection => {
            "the configuration stays the same. Nodes may move between pools and get the configuration of their new \
             pool. To see which nodes, compare with a cluster"
        }
        PoolChange::PolicyOnly => "no node changes: only the rollout or the checks of later changes",
        PoolChange::Unknown => "the base revision of this pool is invalid, so every field is listed as set",
        PoolChange::Drift => {
            "the revisions are equal, but these nodes do not run the configuration yet; a sync would \
                              assign it"
        }
        PoolChange::Changed | PoolChange::Unchanged => return None,
    })
}

/// The worst risk of a pool's changes, and the number of nodes with unknown risk. `None` if no change has a risk.
pub(super) fn risk(pool: &PoolReview) -> Option<String> {
    let risk = &pool.risk;
    let nodes = risk.unknown_nodes.filter(|nodes| *nodes > 0);
    let Some(class) = risk.worst else {
        let mut open = pool.changes.iter().filter(|set| !set.has_risk()).peekable();
        let only_beneath = open.peek().is_some() && open.all(|set| set.merged && set.from_known);
        let unknown = match pool.change {
            PoolChange::ToLocal => "unknown (the local configuration is unknown)",
            _ if only_beneath => "unknown (the nodes' own values are unknown)",
            _ => "unknown (the current configuration is unknown)",
        };
        return risk.unknown.then(|| unknown.to_owned());
    };
    let mut line = format!("{class}: {}", class.means());
    if !risk.state_files.is_empty() {
        let files: Vec<&str> = risk.state_files.iter().map(|file| file.as_str()).collect();
        line.push_str(&format!(", and {} removed", files.join(" and ")));
    }
    if let Some((read, of)) = sampled(pool) {
        line.push_str(&format!(" (from configz of {read} of {})", count(of, "node")));
    }
    match nodes {
        Some(nodes) => line.push_str(&format!("; unknown for {}", count(nodes, "node"))),
        None if risk.unknown => line.push_str("; partly unknown"),
        None => {}
    }
    Some(line)
}

/// The effect of the kubelets' restarts on running pods, which no class of a field states. `None` if no kubelet has it.
pub(super) fn restarts(review: &Review) -> Option<String> {
    let nodes: usize = review.pools.iter().filter_map(|pool| pool.risk.unready_nodes).sum();
    let nodes = (nodes > 0).then(|| count(nodes, "node"))?;
    Some(format!("On {nodes}, the kubelet restart makes containers with probes not ready briefly (KEP-4781)"))
}

/// Nodes without a pool: those that had one, and the others.
pub(super) fn unpooled(cluster: &ClusterReview) -> Vec<Item> {
    let (left, none): (Vec<_>, Vec<_>) = cluster.unpooled.iter().partition(|node| node.still_on.is_some());
    let text = |nodes: &[&Unpooled], what: &str| {
        let listed = Text::nodes(nodes.iter().map(|node| (None, &node.node)));
        Text::from(format!("{} {what}: ", count(nodes.len(), "node"))).then(listed)
    };
    let left = (!left.is_empty())
        .then(|| Item::warning("note", text(&left, "no longer in any pool, configuration unchanged")));
    let none = (!none.is_empty()).then(|| Item::quiet(text(&none, "in no pool")));
    left.into_iter().chain(none).collect()
}

/// Why a sync refuses the changes of a pool, if it does.
pub(super) fn refused(pool: &PoolReview) -> Option<String> {
    let refusal = pool.risk.refused.as_ref()?;
    let allowed = refusal.allowed;
    let class = format!("the pool allows no more than {allowed} (spec.rollout.allowDisruption)");
    let class = (refusal.lost.is_empty() || pool.risk.worst > Some(allowed)).then_some(class);
    Some(class.into_iter().chain(lost_sentence(&refusal.lost)).collect::<Vec<_>>().join("; "))
}

/// The nodes and the origin of a set of changes, if not obvious.
pub(super) fn origin(review: &Review, pool: &PoolReview, set: &Changes) -> Option<String> {
    let nodes = set.nodes.map_or_else(|| "nodes".to_owned(), |nodes| count(nodes, "node"));
    let origin = origin_of(review, pool, set, &nodes);
    let placed = match (set.from_placement, set.merged) {
        (Some(_), true) => "from now on merged over each node's own configuration, instead of replacing it",
        (Some(_), false) => "from now on replacing each node's own configuration, instead of being merged over it",
        (None, true) if pool.change != PoolChange::ToLocal => "merged over each node's own configuration",
        (None, _) => return origin,
    };
    Some(format!("{}, {placed}", origin.unwrap_or(nodes)))
}

fn origin_of(review: &Review, pool: &PoolReview, set: &Changes, nodes: &str) -> Option<String> {
    let back = if pool.change == PoolChange::ToLocal { " to the local configuration" } else { "" };
    match &set.from {
        // Pools of a group, each with its own ConfigMap.
        Origin::Base if review.from == Side::Cluster => {
            let unreadable = if set.from_known { "" } else { " (content not readable)" };
            let needed = pool.changes.len() > 1 || !set.from_known || !back.is_empty();
            needed.then(|| format!("{nodes} from earlier ConfigMaps{unreadable}{back}"))
        }
        Origin::Base if pool.changes.len() > 1 || set.nodes == Some(0) => {
            Some(format!("{nodes} from {}{back}", side(&review.from)))
        }
        Origin::Base | Origin::Nothing | Origin::Unreadable => None,
        Origin::Local => Some(format!("{nodes} from the local configuration ({})", content(set, "content unknown"))),
        Origin::ConfigMap { source } if !set.from_known || set.sample.is_some() => {
            Some(format!("{nodes} from {source} ({})", content(set, "content unreadable")))
        }
        Origin::ConfigMap { source } if pool.changes.len() > 1 || !back.is_empty() => {
            Some(format!("{nodes} from {source}{back}"))
        }
        Origin::ConfigMap { .. } | Origin::BySize => None,
    }
}

/// What is known of a configuration that only its kubelets know. `unknown` if none was asked.
fn content(set: &Changes, unknown: &str) -> String {
    match set.sample {
        None => unknown.to_owned(),
        Some(Sample { read: 0, unread, .. }) => {
            unread.map_or_else(|| unknown.to_owned(), |reason| format!("{unknown}: {reason}"))
        }
        Some(Sample { read, same, .. }) => {
            let of = set.nodes.map_or_else(String::new, |nodes| format!(" of {}", count(nodes, "node")));
            let worst =
                if same < read { format!("; the worst, on {same} of {read} sampled nodes") } else { String::new() };
            format!("from configz of {read}{of}{worst}")
        }
    }
}

/// The numbers of sampled and of all nodes whose risk follows from a sample. `None` without a sample.
fn sampled(pool: &PoolReview) -> Option<(usize, usize)> {
    let sets: Vec<(usize, usize)> = pool
        .changes
        .iter()
        .filter_map(|set| Some((set.sample.filter(|sample| sample.read > 0)?.read, set.nodes?)))
        .collect();
    let sum = |number: fn(&(usize, usize)) -> usize| sets.iter().map(number).sum();
    (!sets.is_empty()).then(|| (sum(|set| set.0), sum(|set| set.1)))
}

/// The change of a file in a few words.
pub(super) fn file_change(kind: FileChangeKind) -> &'static str {
    match kind {
        FileChangeKind::Added => "added",
        FileChangeKind::Modified => "modified",
        FileChangeKind::Formatting => "formatting only, no effect on nodes",
        FileChangeKind::Removed => "removed",
    }
}
