//! What `rollback` rolls out: HEAD, with the configuration of one pool from an earlier revision.

use std::collections::BTreeSet;

use crate::arguments::cluster::label_keys;
use crate::arguments::fleet::FleetLocation;
use crate::arguments::repository::{Loaded, RepositoryArgs};
use crate::arguments::rollout::DisruptionArgs;
use crate::history::{Content, ReadablePools, Revision, Subject, certain_nodes, content_of, previous, readable_pools};
use crate::report::history::note;
use crate::report::{count, names};
use crate::runs::pool_history::{PoolHistory, unknown_pool};
use crate::terminal::failure::CommandError;
use crate::terminal::streams::Terminal;
use kubelet_config::risk::removals;
use nodecfg_cluster::LabelKeys;
use nodecfg_cluster::reading::observe::list;
use nodecfg_contract::names::PoolName;
use nodecfg_fleet::{Desired, Pool, RolloutPolicy};
use nodecfg_observed::{ConfigMapKey, Node};

/// Number of revisions searched for the previous configuration.
const SEARCH_LIMIT: usize = 50;

/// HEAD, as far as it is valid, for the rollback of one pool.
pub(crate) struct RollbackHead<'a> {
    repository: &'a RepositoryArgs,
    pool: &'a PoolName,
    pub(crate) desired: Desired,
    /// Folders of pools whose node selector cannot be read.
    unread: BTreeSet<String>,
    /// Whether HEAD has errors.
    invalid: bool,
}

/// Target of a rollback.
pub(crate) struct RollbackTarget {
    /// HEAD, with the configuration of the pool from the earlier revision.
    pub(crate) loaded: Loaded,
    /// Whether HEAD already has that configuration.
    pub(crate) unchanged: bool,
}

impl<'a> RollbackHead<'a> {
    /// Reads HEAD. Invalid pools are accepted if the selectors of the others are known.
    pub(crate) async fn read(
        repository: &'a RepositoryArgs,
        pool: &'a PoolName,
        terminal: &mut Terminal,
    ) -> Result<Self, CommandError> {
        let (readable, invalid) = match repository.load(terminal).await {
            Ok(Loaded { desired, .. }) => (ReadablePools { desired, unread: BTreeSet::new(), errors: 0 }, false),
            Err(CommandError::Invalid { findings, snapshot }) => match readable_pools(&snapshot, repository.gate()) {
                Some(readable) => (readable, true),
                None => return Err(CommandError::Invalid { findings, snapshot }),
            },
            Err(failure) => return Err(failure),
        };
        let ReadablePools { desired, unread, errors } = readable;
        terminal.record.read(&desired.fleet, desired.commit.as_ref());
        if !desired.pools.contains_key(pool) && !unread.contains(pool.as_str()) {
            return Err(unknown_pool(pool, Some(&desired)));
        }
        if invalid {
            let errors = count(errors, "error");
            writeln!(terminal.err, "warning: HEAD is invalid ({errors}); run nodecfg validate to list them.")?;
        }
        Ok(Self { repository, pool, desired, unread, invalid })
    }

    /// Labels to read. All, if some selectors are unknown.
    pub(crate) fn label_keys(&self) -> LabelKeys {
        if self.invalid { LabelKeys::All } else { label_keys(&self.desired) }
    }

    /// The default target: the newest earlier revision that nodes have run.
    pub(crate) async fn previous_revision(
        &self,
        location: &FleetLocation,
        terminal: &mut Terminal,
    ) -> Result<String, CommandError> {
        let FleetLocation { reader, fleet, namespace } = location;
        let pool = self.pool;
        let PoolHistory { mut revisions, end, .. } =
            PoolHistory::read(self.repository, pool, SEARCH_LIMIT, terminal).await?;
        let observed = list(reader, Some(namespace.as_str())).await?;
        let subject = Subject { fleet, pool, namespace, desired: Some(&self.desired) };
        let _ = subject.find(&mut revisions, &observed, &BTreeSet::new());
        let describe = |revision: &Revision| format!("{} ({})", revision.commit.short(), revision.subject);
        let (message, help) = match previous(&revisions) {
            Ok(revision) => {
                writeln!(terminal.info(), "rollback target of pool {pool}: {}", describe(revision))?;
                return Ok(revision.commit.to_string());
            }
            Err(Some(never)) => (
                format!(
                    "pool {pool} has no earlier configuration that is known to have run: {} has neither a ConfigMap in \
                     the cluster nor a node",
                    describe(never)
                ),
                format!("if that revision is right, run `nodecfg rollback {pool} --to {}`", never.commit.short()),
            ),
            Err(None) => (
                format!("pool {pool} has no earlier configuration in this repository"),
                note(end).unwrap_or_else(|| {
                    format!("return the nodes to local configuration with `nodecfg reset --pool {pool}`")
                }),
            ),
        };
        Err(CommandError::usage(message, help))
    }

    /// HEAD, with the configuration of the pool from the earlier revision.
    pub(crate) async fn target(
        &self,
        revision: &str,
        disruption: DisruptionArgs,
        terminal: &mut Terminal,
    ) -> Result<RollbackTarget, CommandError> {
        let (pool, arguments) = (self.pool, self.repository.at(revision));
        // It must be signed like HEAD.
        let (snapshot, draft) = arguments.draft(arguments.revision.signers.read()?, terminal).await?;
        let then = match content_of(&snapshot, pool, arguments.gate()) {
            Content::Config { .. } | Content::BySize { .. } | Content::Local => draft
                .desired
                .and_then(|mut desired| desired.pools.remove(pool))
                .ok_or_else(|| format!("revision {revision} cannot be read")),
            Content::Absent => Err(format!("revision {revision} has no pool {pool}")),
            Content::Invalid { problem } => {
                Err(format!("the configuration of pool {pool} is invalid at revision {revision}: {problem}"))
            }
        };
        let mut then = then.map_err(|message| {
            CommandError::usage(message, format!("choose another revision from `nodecfg history {pool}`"))
        })?;
        let mut desired = self.desired.clone();
        // The fleet may have been renamed since.
        then.targets = then.targets.in_fleet(&desired.fleet, pool);
        let mut unchanged = false;
        let target = match desired.pools.remove(pool) {
            Some(now) => {
                // The target of an invalid HEAD is unknown.
                unchanged = !self.invalid && now.targets.is_same(&then.targets);
                Pool { targets: then.targets, placement: then.placement, ..now }
            }
            None => {
                writeln!(
                    terminal.err,
                    "warning: pools/{pool}/pool.yaml cannot be read at HEAD; the selector and policy\n\
                     of {revision} apply."
                )?;
                then
            }
        };
        // The pause applies to other commands. The configuration of a rollback is fixed, so what it omits is accepted.
        let accept_removed = removals::all().map(|removal| removal.field.clone()).collect();
        let mut policy = RolloutPolicy { paused: false, fleet_paused: false, accept_removed, ..target.policy };
        disruption.apply(&mut policy);
        desired.pools.insert(pool.clone(), Pool { policy, ..target });
        desired.commit.clone_from(&snapshot.commit);
        Ok(RollbackTarget { loaded: Loaded { desired, snapshot, findings: Vec::new(), arguments }, unchanged })
    }

    /// Completes a target by the state of the cluster.
    ///
    /// Restricts it to nodes that certainly belong to the pool, if an unreadable pool may select any other node. Sets how
    /// nodes combine a configuration with their own whose revision does not say it: as nodes report that run it, or else as
    /// its ConfigMap records it, which another client can change, or else as the repository says now.
    pub(crate) async fn complete(
        &self,
        back: &mut Loaded,
        location: &FleetLocation,
        terminal: &mut Terminal,
    ) -> Result<(), CommandError> {
        let Some(pool) = back.desired.pools.get_mut(self.pool) else { return Ok(()) };
        let is_unplaced = pool.placement.is_none() && pool.rendered().is_some();
        if self.unread.is_empty() && !is_unplaced {
            return Ok(());
        }
        let observed = list(&location.reader, Some(location.namespace.as_str())).await?;
        if !self.unread.is_empty() {
            let held = certain_nodes(&location.fleet, pool, &observed);
            let unread = names(self.unread.iter().map(String::as_str), 3);
            if held.is_empty() {
                return Err(CommandError::usage(
                    format!("the nodes of pool {} are unknown: HEAD has no valid selector for {unread}", self.pool),
                    "fix pool.yaml in these folders",
                ));
            }
            writeln!(
                terminal.err,
                "warning: HEAD has no valid selector for these pools: {unread}.\n\
                 Only nodes on ConfigMaps of pool {} are changed: {}.",
                self.pool,
                count(held.len(), "node")
            )?;
            pool.named = Some(held);
        }
        if is_unplaced {
            let source = |node: &Node| {
                let of_size = pool.for_node(node.capacity)?;
                Some(of_size.target.rendered()?.source(&location.namespace))
            };
            let reported = observed.nodes.values().filter_map(|node| {
                let runs = node.status.active.as_ref()?.names_same(&source(node)?);
                node.content.filter(|_| runs)?.active_placement
            });
            let recorded = observed.nodes.values().filter_map(|node| {
                let key = ConfigMapKey::of(&source(node)?)?;
                observed.config_maps.get(&key)?.placement
            });
            let now = self.desired.pools.get(self.pool).and_then(|pool| pool.placement);
            let placement = reported.min().or_else(|| recorded.min()).or(now);
            pool.placement = placement;
        }
        Ok(())
    }
}
