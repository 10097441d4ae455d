//! Groups of pools with the same change, which reports show once. The JSON document lists every pool.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::{Discriminant, discriminant};

use super::{
    Changes, ConfigMapChange, FileChange, Origin, PlannedDrain, PoolChange, PoolReview, Refusal, Rollout, Setting,
};
use kubelet_config::finding::Place;
use kubelet_config::risk::{Class, StateFile};
use nodecfg_contract::names::PoolName;
use nodecfg_fleet::hold::Hold;
use nodecfg_observed::Pause;
use nodecfg_plan::{ChangedField, LostField, Sample, Wave, WaveDomain, WaveKind};
use nodecfg_rollout::PoolStart;

/// Pools with the same change: equal fields, settings, files, risk, drain and pause. Their nodes, budgets and canaries may
/// differ.
#[derive(Debug, Clone)]
pub struct Group<'a> {
    /// The pools, in the order of the review.
    pub pools: Vec<&'a PoolReview>,
    /// The pools as one, with the nodes of all. Places and files in the folder of a pool stand for those of all pools.
    pub merged: Cow<'a, PoolReview>,
}

impl Group<'_> {
    /// Reports whether the group has several pools.
    #[must_use]
    pub fn is_several(&self) -> bool {
        self.pools.len() > 1
    }

    /// The names of the pools.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.pools.iter().map(|pool| pool.name.as_str())
    }

    /// The pools by a fact in which they may differ, such as their budget.
    #[must_use]
    pub fn by<K: Ord>(&self, fact: impl Fn(&PoolReview) -> Option<K>) -> BTreeMap<K, Vec<&str>> {
        let mut pools: BTreeMap<K, Vec<&str>> = BTreeMap::new();
        for pool in &self.pools {
            if let Some(fact) = fact(pool) {
                pools.entry(fact).or_default().push(pool.name.as_str());
            }
        }
        pools
    }
}

/// The pools in groups, in the order of the first pool of each group.
#[must_use]
pub fn groups<'a>(pools: impl IntoIterator<Item = &'a PoolReview>) -> Vec<Group<'a>> {
    let mut groups: Vec<(Change, Vec<&PoolReview>)> = Vec::new();
    for pool in pools {
        let change = Change::of(pool);
        match groups.iter_mut().find(|(other, _)| *other == change) {
            Some((_, group)) => group.push(pool),
            None => groups.push((change, vec![pool])),
        }
    }
    groups.into_iter().filter_map(|(_, pools)| group(pools)).collect()
}

fn group(pools: Vec<&PoolReview>) -> Option<Group<'_>> {
    let first = *pools.first()?;
    let merged = if pools.len() > 1 { Cow::Owned(merge(first, &pools)) } else { Cow::Borrowed(first) };
    Some(Group { pools, merged })
}

/// What is equal in all pools of a group.
#[derive(PartialEq)]
struct Change<'a> {
    kind: PoolChange,
    settings: &'a [Setting],
    fields: Vec<Changes>,
    files: BTreeSet<FileChange>,
    risk: (Option<Class>, &'a [StateFile], bool),
    refused: Option<(Class, &'a [LostField])>,
    local: bool,
    rollout: Option<(Discriminant<PoolStart>, bool, Option<&'a Pause>, bool)>,
    /// Why the pools are held, the pools that they wait for, and the label that orders their nodes.
    order: Option<(Option<&'a Hold>, &'a BTreeSet<PoolName>, Option<&'a str>)>,
    /// Their steps and the soak of each.
    steps: Option<(&'a str, u64)>,
    /// The time between two starts.
    interval: Option<u64>,
    drain: Option<PlannedDrain>,
}

impl<'a> Change<'a> {
    fn of(pool: &'a PoolReview) -> Self {
        let refused = pool.risk.refused.as_ref().map(|refusal| (refusal.allowed, refusal.lost.as_slice()));
        let rollout = pool.rollout.as_ref();
        Self {
            kind: pool.change,
            settings: &pool.settings,
            fields: changes(pool, true),
            files: files(pool),
            risk: (pool.risk.worst, &pool.risk.state_files, pool.risk.unknown),
            refused,
            local: pool.config_map.after.is_none(),
            rollout: rollout.map(|rollout| {
                (discriminant(&rollout.start), rollout.paused, rollout.pause.as_ref(), rollout.despite_pause)
            }),
            order: rollout.map(|rollout| {
                let held = match &rollout.start {
                    PoolStart::Held { hold } => Some(hold),
                    _ => None,
                };
                let domain = rollout.waves.iter().find_map(|wave| wave.domain.as_ref());
                (held, &rollout.after, domain.map(|of| of.domain.label.as_str()))
            }),
            steps: rollout
                .and_then(|rollout| rollout.steps.as_ref())
                .map(|steps| (steps.shares.as_str(), steps.soak_seconds)),
            interval: rollout.and_then(|rollout| rollout.interval_seconds),
            drain: pool.drain().map(|drain| PlannedDrain {
                fields: drain.fields.clone(),
                nodes: 0,
                least_seconds: 0,
                pods: None,
                ..*drain
            }),
        }
    }
}

/// The changed fields per current configuration, without what is specific to the pool.
fn changes(pool: &PoolReview, without_places: bool) -> Vec<Changes> {
    let set = |set: &Changes| Changes {
        // The name of a ConfigMap contains the name of its pool.
        from: match &set.from {
            Origin::ConfigMap { .. } | Origin::BySize => Origin::Base,
            from => from.clone(),
        },
        nodes: if without_places { None } else { set.nodes },
        // Pools of different sizes have samples of different sizes.
        sample: set.sample.map(|sample| match without_places {
            true => Sample { asked: 0, read: sample.read.min(1), same: 0, ..sample },
            false => sample,
        }),
        fields: set.fields.iter().map(|field| general_field(field, &pool.name, without_places)).collect(),
        ..set.clone()
    };
    pool.changes.iter().map(set).collect()
}

fn general_field(field: &ChangedField, pool: &PoolName, without_place: bool) -> ChangedField {
    let mut field = field.clone();
    field.change.place = field.change.place.take().map(|place| {
        let file = general_path(&place.file, pool);
        if without_place { Place::whole_file(file) } else { Place { file: file.into(), ..place } }
    });
    field
}

/// The path of a file that stands for the same file of every pool of a group.
fn general_path(path: &str, pool: &PoolName) -> String {
    match path.strip_prefix(&format!("pools/{pool}/")) {
        Some(rest) => format!("pools/<pool>/{rest}"),
        None => path.to_owned(),
    }
}

fn files(pool: &PoolReview) -> BTreeSet<FileChange> {
    let file = |file: &FileChange| FileChange { path: general_path(&file.path, &pool.name), change: file.change };
    pool.files.iter().map(file).collect()
}

/// The pools as one.
fn merge(first: &PoolReview, pools: &[&PoolReview]) -> PoolReview {
    let total = |number: fn(&PoolReview) -> Option<usize>| {
        let numbers: Vec<usize> = pools.iter().filter_map(|pool| number(pool)).collect();
        (!numbers.is_empty()).then(|| numbers.into_iter().sum())
    };
    let mut merged = first.clone();
    merged.risk.unknown_nodes = total(|pool| pool.risk.unknown_nodes);
    merged.risk.unready_nodes = total(|pool| pool.risk.unready_nodes);
    merged.risk.refused = first.risk.refused.as_ref().map(|refusal| Refusal {
        help: refusal.help.replace(&format!("pools/{}/", first.name), "pools/<pool>/"),
        ..refusal.clone()
    });
    merged.config_map = ConfigMapChange::default();
    merged.changes = changes(first, false);
    for (number, set) in merged.changes.iter_mut().enumerate() {
        let nodes = pools.iter().filter_map(|pool| pool.changes.get(number)?.nodes);
        set.nodes = set.nodes.map(|_| nodes.sum());
        let samples = pools.iter().filter_map(|pool| pool.changes.get(number)?.sample);
        set.sample = samples.reduce(|a, b| Sample {
            asked: a.asked + b.asked,
            read: a.read + b.read,
            same: a.same + b.same,
            unread: a.unread.max(b.unread),
        });
    }
    merged.files = files(first).into_iter().collect();
    merged.rollout = first.rollout.as_ref().map(|rollout| merge_rollouts(rollout, pools));
    merged
}

fn merge_rollouts(first: &Rollout, pools: &[&PoolReview]) -> Rollout {
    let rollouts = || pools.iter().filter_map(|pool| pool.rollout.as_ref());
    let mut waves: BTreeMap<(WaveKind, Option<WaveDomain>), Wave> = BTreeMap::new();
    for wave in rollouts().flat_map(|rollout| &rollout.waves) {
        let empty = || Wave { steps: Vec::new(), ..wave.clone() };
        let merged = waves.entry((wave.kind, wave.domain.clone())).or_insert_with(empty);
        merged.steps.extend(wave.steps.iter().cloned());
    }
    Rollout {
        nodes: rollouts().map(|rollout| rollout.nodes).sum(),
        budget: rollouts().map(|rollout| rollout.budget).max().unwrap_or_default(),
        assign: rollouts().map(|rollout| rollout.assign).sum(),
        drain: PlannedDrain::merged(rollouts().filter_map(|rollout| rollout.drain.as_ref())),
        waves: waves.into_values().collect(),
        left_alone: rollouts().flat_map(|rollout| rollout.left_alone.iter().cloned()).collect(),
        ..first.clone()
    }
}
