//! Targets of the nodes of a pool.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::convergence::{Target, WantedSource};
use crate::verdicts::PoolReservations;
use crate::{Step, Why};
use kubelet_config::Minor;
use kubelet_config::capacity::{Capacity, Resource};
use kubelet_config::finding::Finding;
use nodecfg_contract::Placement;
use nodecfg_contract::config_map::PoolConfig;
use nodecfg_contract::names::{NamespaceName, NodeName};
use nodecfg_fleet::{Checked, MAX_SIZES, Pool, PoolTarget, Rendered, SizedPool, Sizes, judge_document};
use nodecfg_observed::{ConfigMapKey, Node, Observed};

/// What the nodes of a pool should run: all nodes the same, or the nodes of each size.
#[derive(Debug, Clone, PartialEq)]
pub struct Targets {
    by_size: Vec<SizeTarget>,
    /// Position of the target of each node. Empty if all nodes have the same.
    of_node: Arc<HashMap<NodeName, usize>>,
}

/// What the nodes of one size should run.
#[derive(Debug, Clone, PartialEq)]
pub struct SizeTarget {
    /// The size. `None`: all nodes have this target.
    pub size: Option<Capacity>,
    /// The target.
    pub target: Arc<Target>,
    /// Number of nodes.
    pub nodes: usize,
}

impl Targets {
    /// Target of a node of the pool. `None` if it depends on a capacity that was unknown when the plan was made.
    #[must_use]
    pub fn of(&self, node: &NodeName) -> Option<&Arc<Target>> {
        self.position(node).and_then(|at| self.by_size.get(at)).map(|found| &found.target)
    }

    /// Position of a node's target among [`by_size`](Self::by_size).
    pub(crate) fn position(&self, node: &NodeName) -> Option<usize> {
        if self.is_sized() { self.of_node.get(node).copied() } else { Some(0) }
    }

    /// Size of a node whose target follows from it.
    pub(crate) fn size_of(&self, node: &NodeName) -> Option<Capacity> {
        self.position(node).and_then(|at| self.by_size.get(at)).and_then(|found| found.size)
    }

    /// Steps by the position of their targets.
    pub(crate) fn split<'s>(&self, steps: impl Iterator<Item = &'s Step>) -> Vec<Vec<&'s Step>> {
        let mut split = vec![Vec::new(); self.by_size.len()];
        for step in steps {
            let of_size = self.position(&step.node).and_then(|at| split.get_mut(at));
            of_size.into_iter().for_each(|steps| steps.push(step));
        }
        split
    }

    /// The targets, by size.
    #[must_use]
    pub fn by_size(&self) -> &[SizeTarget] {
        &self.by_size
    }

    /// Reports whether the target of a node follows from its size.
    #[must_use]
    pub fn is_sized(&self) -> bool {
        !matches!(self.by_size.as_slice(), [SizeTarget { size: None, .. }])
    }

    /// The target, if all nodes have the same.
    #[must_use]
    pub fn only(&self) -> Option<&Target> {
        self.by_size.first().filter(|_| !self.is_sized()).map(|only| &*only.target)
    }

    /// Reports whether the nodes should run their local configurations.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.only() == Some(&Target::Local)
    }

    /// How the nodes combine the configuration with their own. `None` for the local configuration, and without nodes of any
    /// size.
    #[must_use]
    pub fn placement(&self) -> Option<Placement> {
        self.by_size.first().and_then(|first| first.target.placement())
    }
}

impl From<Target> for Targets {
    /// The same target for all nodes.
    fn from(target: Target) -> Self {
        let only = SizeTarget { size: None, target: Arc::new(target), nodes: 0 };
        Self { by_size: vec![only], of_node: Arc::default() }
    }
}

/// The nodes of a pool that have the same target.
pub struct SizeGroup<'a> {
    /// The pool, as these nodes have it.
    pub pool: SizedPool<'a>,
    /// The nodes.
    pub nodes: Vec<&'a Node>,
    /// What the configuration reserves.
    pub(super) reservations: PoolReservations,
    judged: OnceCell<Checked>,
}

impl<'a> SizeGroup<'a> {
    fn new(pool: SizedPool<'a>, nodes: Vec<&'a Node>) -> Self {
        Self { reservations: PoolReservations::new(&pool.target), pool, nodes, judged: OnceCell::new() }
    }

    /// What the kubelets of the nodes do with the configuration. `None` for the local configuration.
    pub(super) fn judged(&self) -> Option<&Checked> {
        let document = &self.pool.target.rendered()?.document;
        Some(self.judged.get_or_init(|| {
            let minors: BTreeSet<Minor> = self.nodes.iter().filter_map(|node| node.known_minor()).collect();
            judge_document(document, &minors.into_iter().collect::<Vec<Minor>>())
        }))
    }
}

/// Nodes of a pool by size. A pool without sizes has one group.
pub struct SizeGroups<'a> {
    /// The groups, by size.
    pub groups: Vec<SizeGroup<'a>>,
    /// Nodes without a target, and why.
    pub left_out: Vec<(&'a Node, Why)>,
    /// Warning of a pool whose nodes have too many sizes.
    pub warning: Option<Finding>,
}

impl<'a> SizeGroups<'a> {
    /// Groups the nodes of a pool.
    #[must_use]
    pub fn of(pool: &'a Pool, nodes: &[&'a Node]) -> Self {
        let Some(sizes) = pool.targets.sizes() else {
            let group = pool.for_node(Capacity::default()).map(|pool| SizeGroup::new(pool, nodes.to_vec()));
            return Self { groups: group.into_iter().collect(), left_out: Vec::new(), warning: None };
        };
        let mut by_size: BTreeMap<Capacity, Vec<&'a Node>> = BTreeMap::new();
        let mut left_out = Vec::new();
        for node in nodes.iter().copied() {
            match node.capacity.rounded_up(sizes.steps()) {
                Some(size) => by_size.entry(size).or_default().push(node),
                None => left_out.push((node, Why::SizeUnknown { missing: sizes.missing(node.capacity).next() })),
            }
        }
        let number = by_size.len();
        let warning = (number > MAX_SIZES).then(|| too_many(pool, sizes, number, nodes));
        // A node reports its own capacity, so one node must not stop a pool: rare sizes are left out.
        let mut by_frequency: Vec<(Capacity, Vec<&'a Node>)> = by_size.into_iter().collect();
        by_frequency.sort_by_key(|(_, nodes)| std::cmp::Reverse(nodes.len()));
        let mut groups = Vec::new();
        for (size, nodes) in by_frequency {
            if groups.len() >= MAX_SIZES {
                left_out.extend(nodes.into_iter().map(|node| (node, Why::TooManySizes { sizes: number })));
                continue;
            }
            match pool.for_node(size) {
                Some(pool) => groups.push(SizeGroup::new(pool, nodes)),
                None => left_out.extend(nodes.into_iter().map(|node| (node, Why::SizeUnknown { missing: None }))),
            }
        }
        groups.sort_by_key(|group| group.pool.size);
        Self { groups, left_out, warning }
    }

    /// Names of the ConfigMaps of the groups.
    pub(super) fn config_maps(&self) -> impl Iterator<Item = String> {
        self.groups.iter().filter_map(|group| Some(group.pool.target.rendered()?.config_map.clone()))
    }

    /// The targets of the nodes.
    pub(super) fn targets(&self, namespace: &NamespaceName, observed: &Observed) -> Targets {
        let target = |group: &SizeGroup<'_>| SizeTarget {
            size: group.pool.size,
            target: Arc::new(pool_target(&group.pool, namespace, observed)),
            nodes: group.nodes.len(),
        };
        let mut targets = Targets { by_size: self.groups.iter().map(target).collect(), of_node: Arc::default() };
        if targets.is_sized() {
            let positions = self.groups.iter().enumerate();
            let named = positions.flat_map(|(at, group)| group.nodes.iter().map(move |node| (node.name.clone(), at)));
            targets.of_node = Arc::new(named.collect());
        }
        targets
    }
}

/// Warning of a pool with too many sizes, with the step that makes them few enough.
fn too_many(pool: &Pool, sizes: &Sizes, number: usize, nodes: &[&Node]) -> Finding {
    let number_with = |steps: Capacity| {
        let of_nodes = nodes.iter().filter_map(|node| node.capacity.rounded_up(steps));
        of_nodes.collect::<BTreeSet<Capacity>>().len()
    };
    let step = [Resource::Memory, Resource::EphemeralStorage].into_iter().find_map(|resource| {
        let present = sizes.steps().of(resource)?;
        // Twice the step each time.
        let steps = (1..16).filter_map(|double| present.checked_shl(double));
        let mut few = steps.filter(|step| number_with(sizes.steps().with(resource, *step)) <= MAX_SIZES);
        few.next().map(|step| format!("{}: {}", resource.as_str(), resource.amount_text(step)))
    });
    let help = step.map_or_else(
        || "divide the pool into pools of similar machines".to_owned(),
        |step| format!("write roundTo: {{{step}}} under spec.kubelet.reserve"),
    );
    let message = format!(
        "pool {}: its nodes have {number} sizes, at most {MAX_SIZES} are allowed: nodes of the rarest sizes are left unchanged",
        pool.name
    );
    Finding::warning("too-many-sizes", message).at(sizes.reserve.place.clone()).help(help)
}

/// How the nodes of a pool must combine its configuration with their own.
#[must_use]
pub(crate) fn pool_placement(pool: &Pool, observed: &Observed) -> Placement {
    pool.placement.unwrap_or_else(|| observed.default_placement())
}

/// The rendered configuration of a pool, as a ConfigMap contains it.
pub(super) fn pool_config(pool: &Pool, rendered: &Rendered, observed: &Observed) -> PoolConfig {
    PoolConfig {
        config_map: rendered.config_map.clone(),
        hash: rendered.hash,
        kubelet: rendered.canonical.clone(),
        placement: Some(pool_placement(pool, observed)),
    }
}

/// Target of the nodes of a pool when ConfigMaps are in `namespace`, with the uid of its ConfigMap if that exists.
#[must_use]
pub fn pool_target(pool: &SizedPool<'_>, namespace: &NamespaceName, observed: &Observed) -> Target {
    let PoolTarget::Config(rendered) = &*pool.target else { return Target::Local };
    let source = rendered.source(namespace);
    let uid = ConfigMapKey::of(&source).and_then(|key| observed.uid_of(&key)).map(str::to_owned);
    let placement = Some(pool_placement(pool, observed));
    let may_override = Some(pool.policy.accept_overridden.clone());
    Target::Source(WantedSource { source, hash: Some(rendered.hash), uid, placement, may_override })
}
