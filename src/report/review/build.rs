//! The report of a review.

use super::group::{all_names, budgets, config_maps, limit, limits, title};
use super::outlook::{MAX_NAMES, result};
use super::pointers::changes_beside_assignments;
use super::verdict::verdict;
use super::{drains, order, sentences};
use crate::report::document::{Block, Cell, Conclusion, Field, FieldRisk, Fields, Item, Report, Section, Table, Text};
use crate::report::{count, findings, paused};
use crate::review::{
    Changes, FileChangeKind, Group, Move, PoolChange, PoolReview, ReservedAmount, Review, Rollout, Setting, Side,
    SizeReview, groups,
};
use crate::status::Grade;
use kubelet_config::finding::{Finding, Severity};
use kubelet_config::risk::Class;
use nodecfg_contract::Placement;
use nodecfg_contract::names::PoolName;
use nodecfg_plan::state::State;
use nodecfg_plan::{ChangedField, Plan, PoolPlan, Why};
use nodecfg_rollout::PoolStart;

/// The minimum number of unchanged pools that share a line.
const MIN_FOLDED: usize = 4;

/// The report of a review by `command`.
#[must_use]
pub fn report(command: &'static str, review: &Review) -> Report {
    let (unchanged, others): (Vec<&PoolReview>, Vec<&PoolReview>) =
        review.pools.iter().partition(|pool| is_unchanged(pool));
    let groups = groups(others);
    let paused = paused::items(review.paused.as_ref()).map(Block::Item);
    let mut blocks: Vec<Block> = paused.chain(base(review)).collect();
    if !review.settings.is_empty() {
        let subject = format!("fleet {}", review.fleet);
        let fields = settings(subject.clone(), &review.settings);
        blocks.push(Block::Section(Section { title: subject.into(), blocks: vec![fields], ..Section::default() }));
    }
    if !groups.is_empty() {
        blocks.push(Block::Table(overview(review, &groups)));
    }
    blocks.extend(groups.iter().map(|group| Block::Section(pool(review, group))));
    blocks.extend(unchanged_pools(&unchanged));
    blocks.extend(aside(review));
    Report {
        command,
        lead: Some(lead(command, review)),
        result: review.cluster.as_ref().map(|cluster| result(review, cluster)),
        facts: facts(review),
        blocks,
        about: review.is_changed().then(|| about(review)),
        whole: Some(match &review.from {
            Side::Revision { commit, .. } => format!("nodecfg diff --against {}", commit.short()),
            Side::WorkingTree | Side::Local | Side::Cluster => "nodecfg diff".to_owned(),
        }),
        ..Report::default()
    }
}

/// The effect of the change, and whether the comparison covers it.
fn lead(command: &str, review: &Review) -> Conclusion {
    let base = match review.base_findings.len() {
        0 => String::new(),
        errors => format!("; the comparison is incomplete, because the base has {}", count(errors, "error")),
    };
    let is_refused = review.counts().refused > 0;
    let grade = if is_refused || !base.is_empty() { Grade::Warning } else { Grade::Good };
    Conclusion::sentence(grade, format!("{} {}{base}.", subject(command, review), verdict(review)))
}

/// What has the effect that the verdict states.
fn subject(command: &str, review: &Review) -> &'static str {
    match (&review.from, &review.to) {
        _ if command == "rollback" => "Rolling back",
        (_, Side::Local) => "Resetting",
        (Side::Cluster, _) => "Syncing this",
        _ => "Merging this",
    }
}

fn facts(review: &Review) -> Vec<(&'static str, Text)> {
    let mut facts = vec![("fleet", Text::name(review.fleet.as_str()))];
    let label = if matches!(review.to, Side::Revision { .. }) { "at" } else { "from" };
    facts.push((label, sentences::side_text(&review.to)));
    if let Side::Revision { signer: Some(signer), .. } = &review.to {
        facts.push(("signed by", Text::name(signer.to_string())));
    }
    facts.push(("compared with", sentences::side_text(&review.from)));
    if let Some(cluster) = &review.cluster {
        facts.push(("namespace", Text::name(cluster.namespace.as_str())));
        facts.push(("plan", Text::name(cluster.plan.to_string())));
    }
    facts
}

/// The errors of the base revision, which limit the comparison.
fn base(review: &Review) -> Option<Block> {
    let errors = &review.base_findings;
    let text = sentences::side_text(&review.from)
        .then(format!(" is invalid ({}); the comparison covers its readable parts only", count(errors.len(), "error")));
    let error = |finding: &Finding| {
        let place = finding.place.as_ref().map_or_else(String::new, |place| format!("{place}: "));
        Item::quiet(format!("{place}{}", finding.message))
    };
    let more = errors.len().checked_sub(MAX_NAMES).filter(|more| *more > 0);
    let more =
        more.map(|more| Item::quiet(format!("{} more; `nodecfg validate --rev REV` lists them", count(more, "error"))));
    let errors = errors.iter().take(MAX_NAMES).map(error).chain(more);
    (!review.base_findings.is_empty()).then(|| Item::warning("note", text).with(errors).into())
}

/// Reports whether a pool has no changes, also not to its files, and needs no details: its nodes are up to date and it is
/// not paused, or the plan excludes all of them.
fn is_unchanged(pool: &PoolReview) -> bool {
    let needs_none = |rollout: &Rollout| {
        rollout.waves.iter().all(|wave| wave.steps.is_empty())
            && (is_out_of_scope(rollout)
                || rollout.pause.is_none() && rollout.left_alone.iter().all(|left| left.why == Why::Converged))
    };
    pool.change == PoolChange::Unchanged && pool.files.is_empty() && pool.rollout.as_ref().is_none_or(needs_none)
}

/// Reports whether the plan excludes all nodes of the pool.
fn is_out_of_scope(rollout: &Rollout) -> bool {
    !rollout.left_alone.is_empty()
        && rollout.waves.is_empty()
        && rollout.left_alone.iter().all(|left| left.why == Why::OutOfScope)
}

/// A row for each group of pools.
fn overview(review: &Review, groups: &[Group<'_>]) -> Table {
    let with_nodes = review.cluster.is_some();
    let row = |group: &Group<'_>| {
        let pool = &*group.merged;
        let mut name = title(group.names());
        if group.is_several() {
            name.push_str(&format!(" ({})", count(group.pools.len(), "pool")));
        }
        let name = if group.is_several() { Cell::Words(name) } else { Cell::Name(name) };
        let mut row = vec![name, Cell::Words(sentences::headline(pool)), risk_cell(pool)];
        if with_nodes {
            let each = if group.is_several() { " each" } else { "" };
            let number = |of: fn(&Rollout) -> usize| {
                pool.rollout.as_ref().map_or(Cell::Empty, |of_pool| Cell::Number(of(of_pool)))
            };
            row.extend([
                number(|rollout| rollout.nodes),
                number(|rollout| rollout.assign),
                budgets(group).map_or(Cell::Empty, |budgets| Cell::Words(format!("{budgets}{each}"))),
                pool.rollout.as_ref().map_or(Cell::Empty, left_alone),
            ]);
        }
        row
    };
    let nodes = ["nodes", "to assign", "at a time", "unchanged"];
    Table {
        caption: "Pools".to_owned(),
        columns: ["pool", "change", "risk"].into_iter().chain(nodes.into_iter().filter(|_| with_nodes)).collect(),
        rows: groups.iter().map(row).collect(),
        overview: true,
        ..Table::default()
    }
}

fn risk_cell(pool: &PoolReview) -> Cell {
    match (risk_in_words(pool), pool.risk.worst) {
        (None, _) => Cell::Empty,
        (Some(words), Some(class)) if class >= Class::Drain || pool.risk.refused.is_some() => {
            Cell::Graded(Grade::Warning, words)
        }
        (Some(words), _) => Cell::Words(words),
    }
}

/// The worst risk of a pool in a few words: `drain, refused, partly unknown`.
fn risk_in_words(pool: &PoolReview) -> Option<String> {
    let Some(class) = pool.risk.worst else { return pool.risk.unknown.then(|| "unknown".to_owned()) };
    let refused = if pool.risk.refused.is_some() { ", refused" } else { "" };
    let partly = if pool.risk.unknown { ", partly unknown" } else { "" };
    Some(format!("{class}{refused}{partly}"))
}

/// How many nodes stay unchanged: `2 up to date, 1 paused, 2 blocked`.
fn left_alone(rollout: &Rollout) -> Cell {
    let number = |is: fn(&crate::review::LeftAlone) -> bool| rollout.left_alone.iter().filter(|left| is(left)).count();
    let (current, blocked) = (number(|left| left.why.state() == State::Settled), number(|left| left.blocked));
    let skipped = rollout.left_alone.len() - current - blocked;
    let word = if rollout.paused { "paused" } else { "skipped" };
    let parts: Vec<String> = [(current, "up to date"), (skipped, word), (blocked, "blocked")]
        .into_iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!("{number} {what}"))
        .collect();
    let words = parts.join(", ");
    if blocked > 0 { Cell::Graded(Grade::Warning, words) } else { Cell::words(words) }
}

/// Pools with the same change.
fn pool(review: &Review, group: &Group<'_>) -> Section {
    let (pool, names) = (&*group.merged, title(group.names()));
    let mut facts = Vec::new();
    if group.is_several() {
        facts.push(count(group.pools.len(), "pool"));
    }
    facts.push(sentences::headline(pool));
    facts.extend(risk_in_words(pool).map(|risk| format!("risk {risk}")));
    facts.extend(pool.rollout.iter().flat_map(|rollout| nodes(rollout, group)));
    if pool.placement == Some(Placement::Replace) && pool.changes_nodes() {
        facts.push("replaces the whole configuration".to_owned());
    }
    let mut blocks: Vec<Block> = Vec::new();
    blocks.extend(all_names(group).map(|names| Block::Detail(vec![Item::quiet(names).into()])));
    let meaning = sentences::explanation(pool, review.cluster.is_some()).filter(|_| review.from != Side::Cluster);
    blocks.extend(meaning.map(|meaning| Item::quiet(meaning).into()));
    blocks.extend(pool.changes.iter().flat_map(|set| changes(review, pool, &names, set)));
    blocks.extend(sizes(pool));
    blocks.extend(risk(pool).into_iter().map(Block::Item));
    blocks.extend(drains::blocks(group));
    blocks.extend(scope(group).into_iter().map(|text| Item::new(text).into()));
    if !pool.settings.is_empty() {
        blocks.push(settings(names.clone(), &pool.settings));
    }
    blocks.extend(config_maps(group).or_else(|| config_map(review, pool)).map(|text| Item::new(text).into()));
    blocks.extend(
        pool.rollout
            .iter()
            .flat_map(|rollout| order::items(rollout, group.is_several(), review.paused.is_some()))
            .map(Block::Item),
    );
    blocks.extend(files(pool).into_iter().map(Block::Item));
    Section {
        title: Text::name(names),
        facts: facts.into_iter().map(Text::from).collect(),
        folded: true,
        number: group.pools.len(),
        blocks,
        ..Section::default()
    }
}

/// The number of nodes, of changes and a pause.
fn nodes(rollout: &Rollout, group: &Group<'_>) -> Vec<String> {
    let mut parts = vec![count(rollout.nodes, "node")];
    if rollout.assign > 0 {
        parts.push(match rollout.start {
            PoolStart::Stops { .. } => format!("{} not assigned", rollout.assign),
            PoolStart::Held { .. } => format!("{} held", rollout.assign),
            _ => format!("{} to assign, {}", rollout.assign, limit(group).unwrap_or_default()),
        });
    }
    if rollout.paused {
        parts.push("paused".to_owned());
    }
    parts
}

/// The changes from one configuration, with its origin if that is not obvious.
fn changes(review: &Review, pool: &PoolReview, names: &str, set: &Changes) -> Vec<Block> {
    let mut blocks: Vec<Block> =
        sentences::origin(review, pool, set).into_iter().map(|origin| Item::quiet(origin).into()).collect();
    if !set.fields.is_empty() {
        let allowed = pool.risk.refused.as_ref().map(|refusal| refusal.allowed);
        blocks.push(Block::Fields(Fields {
            subject: names.to_owned(),
            are_settings: false,
            from_known: set.from_known,
            fields: set.fields.iter().map(|changed| field(changed, allowed)).collect(),
        }));
    } else if pool.change != PoolChange::ToLocal && pool.sizes.is_empty() {
        let why = match set.sample {
            Some(_) => "no field changes: the sampled nodes run these values already",
            None => "no field changes: the content is the same, but the node does not report running it",
        };
        blocks.push(Item::quiet(why).into());
    }
    blocks
}

/// The reservations of each size of the nodes.
fn sizes(pool: &PoolReview) -> Vec<Block> {
    let Some(first) = pool.sizes.first().filter(|_| pool.changes_nodes()) else { return Vec::new() };
    let amount = |amount: &ReservedAmount| match (&amount.old, &amount.new) {
        // Any change restarts the kubelet.
        (Some(old), Some(new)) => match amount.risk.filter(|risk| *risk > Class::Restart) {
            Some(risk) => format!("{old} → {new} ({risk})"),
            None => format!("{old} → {new}"),
        },
        (Some(old), None) => format!("{old} → none"),
        (None, Some(new)) => new.clone(),
        (None, None) => String::new(),
    };
    let row = |size: &SizeReview| {
        let nodes = size.nodes.map(Cell::Number);
        let amounts = size.reserved.iter().map(|reserved| Cell::words(amount(reserved)));
        let map = size.config_map.as_ref().map(|map| Cell::Name(map.clone()));
        [Cell::Words(size.size.clone())].into_iter().chain(nodes).chain(amounts).chain(map).collect()
    };
    let caption = match first.nodes {
        Some(_) => "Reservations by size",
        None => "Reservations of typical machines",
    };
    let resources = first.reserved.iter().map(|amount| amount.resource.as_str());
    let table = Table {
        caption: caption.to_owned(),
        columns: ["size"]
            .into_iter()
            .chain(first.nodes.map(|_| "nodes"))
            .chain(resources)
            .chain(first.config_map.as_ref().map(|_| "ConfigMap"))
            .collect(),
        rows: pool.sizes.iter().map(row).collect(),
        ..Table::default()
    };
    let formulas =
        pool.reserve.iter().map(|reserve| Item::quiet(format!("kubeReserved of each node: {reserve}")).into());
    formulas.chain([Block::Table(table)]).collect()
}

fn field(changed: &ChangedField, allowed: Option<Class>) -> Field {
    let (old, new) = sentences::values(changed);
    Field {
        path: changed.change.path.clone(),
        old,
        new,
        no_effect: changed.no_effect,
        risk: changed.risk.as_ref().map(|risk| FieldRisk {
            class: risk.class,
            refused: allowed.is_some_and(|allowed| risk.class > allowed),
            why: risk.why.clone(),
            source: risk.source.clone(),
        }),
        place: changed.change.place.as_ref().map(ToString::to_string),
        meaning: "",
    }
}

fn settings(subject: String, settings: &[Setting]) -> Block {
    let field = |setting: &Setting| Field {
        path: setting.path.to_owned(),
        old: setting.old.clone(),
        new: setting.new.clone(),
        meaning: setting.meaning,
        ..Field::default()
    };
    Block::Fields(Fields {
        subject,
        are_settings: true,
        from_known: true,
        fields: settings.iter().map(field).collect(),
    })
}

/// The worst risk, and why a sync refuses it, if it does.
fn risk(pool: &PoolReview) -> Vec<Item> {
    let worst = sentences::risk(pool).map(|risk| Item::labeled("risk", risk));
    let refused = sentences::refused(pool).zip(pool.risk.refused.as_ref()).map(|(refused, refusal)| {
        Item::warning("refused by sync", refused).with([Item::labeled("fix", refusal.help.clone())])
    });
    worst.into_iter().chain(refused).collect()
}

/// Which nodes a pool selects and how many change at a time, for a review without a cluster. For pools that differ in
/// it: the limit of each.
fn scope(group: &Group<'_>) -> Vec<String> {
    let pool = &*group.merged;
    if pool.change == PoolChange::Removed {
        return Vec::new();
    }
    let differing = limits(group);
    if !differing.is_empty() || pool.rollout.is_some() || !pool.changes_nodes() {
        return differing;
    }
    let canary = pool.scope.canary.as_ref().map_or_else(String::new, |canary| format!(", canary: {canary}"));
    let own = if group.is_several() { "by the selector of each pool" } else { "by name" };
    let selector = pool.scope.selector.as_deref().filter(|_| !group.is_several()).unwrap_or(own);
    vec![format!("nodes: {selector}, at most {} unavailable at a time{canary}", pool.scope.max_unavailable)]
}

fn config_map(review: &Review, pool: &PoolReview) -> Option<Text> {
    let map = &pool.config_map;
    let after = map.after.as_ref()?;
    match (&review.cluster, map.create) {
        (Some(cluster), Some(create)) => {
            let state = if create { " to be created" } else { " exists" };
            Some(Text::from("ConfigMap ").then(Text::name(format!("{}/{after}", cluster.namespace))).then(state))
        }
        (None, _) if pool.changes_nodes() => {
            let before = map.before.as_ref().filter(|before| *before != after);
            let before = before.map_or_else(Text::default, |before| Text::name(before.as_str()).then(" → "));
            Some(Text::from("ConfigMap ").then(before).then(Text::name(after.as_str())))
        }
        _ => None,
    }
}

/// The changed files, by the kind of change.
fn files(pool: &PoolReview) -> Vec<Item> {
    use FileChangeKind::{Added, Formatting, Modified, Removed};
    let item = |kind: FileChangeKind| {
        let files = pool.files.iter().filter(|file| file.change == kind).map(|file| file.path.as_str());
        let text = Text::from(format!("{}: ", sentences::file_change(kind))).then(Text::names(files.clone()));
        (files.count() > 0).then(|| Item::quiet(text))
    };
    [Added, Modified, Removed, Formatting].into_iter().filter_map(item).collect()
}

/// A line per unchanged pool. Many in the same state share one, with a line each as a detail.
fn unchanged_pools(pools: &[&PoolReview]) -> Vec<Block> {
    let mut states: Vec<(&'static str, Vec<&PoolReview>)> = Vec::new();
    for pool in pools {
        let state = unchanged_state(pool);
        match states.iter_mut().find(|(other, _)| *other == state) {
            Some((_, pools)) => pools.push(pool),
            None => states.push((state, vec![pool])),
        }
    }
    let each = |pool: &PoolReview| -> Block {
        let nodes =
            pool.rollout.as_ref().filter(|rollout| rollout.nodes > 0).map(|rollout| count(rollout.nodes, "node"));
        let target = pool.config_map.after.as_deref().unwrap_or("the local configuration");
        let state = match (unchanged_state(pool), nodes) {
            (UP_TO_DATE, Some(nodes)) => format!("{nodes}, up to date with {target}"),
            (state, Some(nodes)) => format!("{nodes}, {state}"),
            (state, None) => state.to_owned(),
        };
        Item::quiet(Text::name(pool.name.as_str()).then(format!(": {state}"))).into()
    };
    let of_state = |(state, pools): (&'static str, Vec<&PoolReview>)| {
        if pools.len() < MIN_FOLDED {
            return pools.into_iter().map(each).collect::<Vec<_>>();
        }
        let nodes: usize = pools.iter().filter_map(|pool| pool.rollout.as_ref()).map(|rollout| rollout.nodes).sum();
        let nodes = if nodes > 0 { format!(", {}", count(nodes, "node")) } else { String::new() };
        let names = Text::name(title(pools.iter().map(|pool| pool.name.as_str())));
        let folded = Item::quiet(names.then(format!(": {}{nodes}, {state}", count(pools.len(), "pool"))));
        vec![folded.into(), Block::Detail(pools.into_iter().map(each).collect())]
    };
    states.into_iter().flat_map(of_state).collect()
}

/// The state of an unchanged pool whose nodes run its configuration.
const UP_TO_DATE: &str = "up to date";

fn unchanged_state(pool: &PoolReview) -> &'static str {
    match &pool.rollout {
        None => "unchanged",
        Some(rollout) if rollout.nodes == 0 => "no nodes",
        Some(rollout) if is_out_of_scope(rollout) => "not requested",
        Some(_) => UP_TO_DATE,
    }
}

/// What changes beside the nodes of pools, and what does not.
fn beside_pools(review: &Review) -> Vec<Item> {
    let mut items = Vec::new();
    if review.nodes_may_move {
        items.push(Item::quiet(
            "nodes may move between pools. To see which, compare with a cluster (`nodecfg diff` with `--kubeconfig` or \
             `--context`)",
        ));
    }
    items.extend(sentences::restarts(review).map(Item::new));
    let Some(cluster) = &review.cluster else { return items };
    items.extend(changes_beside_assignments(cluster).map(|change| Item::new(format!("a sync {change}"))));
    let mut moves: Vec<(String, Vec<&Move>)> = Vec::new();
    for one in &cluster.moves {
        let pool =
            |pool: &Option<PoolName>| pool.as_ref().map_or_else(|| "no pool".to_owned(), |pool| format!("pool {pool}"));
        let direction = format!("from {} to {}", pool(&one.from), pool(&one.to));
        match moves.iter_mut().find(|(other, _)| *other == direction) {
            Some((_, nodes)) => nodes.push(one),
            None => moves.push((direction, vec![one])),
        }
    }
    items.extend(moves.into_iter().map(|(direction, nodes)| {
        let nodes = Text::nodes(nodes.iter().map(|one| (None, &one.node)));
        Item::new(Text::from(format!("nodes moving {direction}: ")).then(nodes))
    }));
    items.extend(sentences::unpooled(cluster));
    if !cluster.prunable.is_empty() {
        let number = count(cluster.prunable.len(), "ConfigMap");
        items.push(Item::quiet(Text::from(format!("{number} unused: ")).then(Text::names(&cluster.prunable))));
    }
    items
}

/// What changes beside the nodes of pools, what does not, and the warnings.
pub(in crate::report) fn aside(review: &Review) -> Vec<Block> {
    let items = beside_pools(review).into_iter().map(Block::Item);
    items.chain(warnings(review).map(Block::Section)).collect()
}

/// The warnings, which a terminal prints as messages.
fn warnings(review: &Review) -> Option<Section> {
    let warnings: Vec<Finding> =
        review.findings.iter().filter(|finding| finding.severity != Severity::Note).cloned().collect();
    (!warnings.is_empty()).then(|| Section {
        title: count(warnings.len(), "warning").into(),
        folded: true,
        messages: true,
        blocks: vec![Block::Table(findings::table(&warnings))],
        ..Section::default()
    })
}

/// What nodecfg is, the meaning of the classes of risk in the review, and the assumed version.
fn about(review: &Review) -> Text {
    let drained = if review.drains() > 0 { ", except on drained nodes." } else { "." };
    let mut text = format!(
        "nodecfg keeps the configuration of kubelets, the agents that run the pods of each node, in this repository. \
         `nodecfg sync` creates a ConfigMap from it and assigns it to the nodes of a pool, a few at a time. Each node's \
         kubelet restarts to read it; pods keep running{drained}"
    );
    let fields = || review.pools.iter().flat_map(|pool| &pool.changes).flat_map(|set| &set.fields);
    let is_used = |class: &Class| fields().any(|field| field.risk.as_ref().is_some_and(|risk| risk.class == *class));
    let classes: Vec<String> =
        Class::ALL.into_iter().filter(is_used).map(|class| format!("{class}: {}", class.means())).collect();
    if !classes.is_empty() {
        text.push_str(&format!(" Risk of a change: {}.", classes.join("; ")));
    }
    if let Some(minor) = review.assumed_version {
        text.push_str(&format!(" Checked for kubelet {minor} in pools without a version."));
    }
    text.into()
}

/// The number of nodes and of awaited nodes per pool, for a run that changes nothing, after the pause of the fleet.
#[must_use]
pub fn awaited(plan: &Plan, review: &Review) -> Report {
    let first = paused::items(review.paused.as_ref()).map(Block::Item);
    let item = |pool: &PoolPlan| -> Block {
        let state = match (pool.nodes, pool.steps().count()) {
            (0, _) => "no nodes".to_owned(),
            (nodes, 0) if pool.left_alone.iter().all(|left| left.why == Why::OutOfScope) => {
                format!("{}, not requested", count(nodes, "node"))
            }
            (nodes, 0) => format!("{}, none to wait for", count(nodes, "node")),
            (nodes, steps) => format!("{}, waiting for {steps}", count(nodes, "node")),
        };
        Item::new(Text::name(pool.name.as_str()).then(format!(": {state}"))).into()
    };
    let (settled, others): (Vec<&PoolPlan>, Vec<&PoolPlan>) =
        plan.pools.iter().partition(|pool| pool.nodes > 0 && pool.steps().next().is_none());
    if settled.len() < MIN_FOLDED {
        return Report { blocks: first.chain(plan.pools.iter().map(item)).collect(), ..Report::default() };
    }
    let nodes = count(settled.iter().map(|pool| pool.nodes).sum(), "node");
    let folded = Item::quiet(format!("{}, {nodes}: none to wait for", count(settled.len(), "pool")));
    let pools = others.into_iter().map(item).chain([folded.into()]);
    Report { blocks: first.chain(pools).collect(), ..Report::default() }
}
