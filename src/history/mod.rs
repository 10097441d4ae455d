//! History of one pool: the commits that changed the configuration of its nodes, their ConfigMaps in a cluster, and
//! the number of nodes on each. Pure: takes commits with snapshots, newest first, then the observed cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use jiff::Timestamp;
use serde::Serialize;

use crate::repository::RepositoryError;
use crate::repository::history::{Logged, WalkEnd};
use kubelet_config::finding::{Finding, Strictness};
use nodecfg_contract::names::{CommitId, FleetName, NamespaceName, NodeName, PoolName};
use nodecfg_contract::printable::remark;
use nodecfg_contract::{ConfigSource, ContentHash, Placement};
use nodecfg_fleet::snapshot::Snapshot;
use nodecfg_fleet::{Desired, Draft, Pool, PoolTarget, draft};
use nodecfg_observed::{ConfigMapKey, ManagedConfigMap, Node, Observed};

mod content;
mod nodes;
mod readable_pools;

pub use content::{Content, content_of};
pub use nodes::{Nodes, OtherConfigMap, Subject, Whereabouts};
pub use readable_pools::{ReadablePools, certain_nodes, readable_pools};

/// Revision that changed the content of the pool.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Revision {
    /// The commit.
    pub commit: CommitId,
    /// Commit time.
    pub time: Timestamp,
    /// Author, as in the commit; control characters are removed.
    pub author: String,
    /// First line of the commit message; control characters are removed.
    pub subject: String,
    /// Content that the pool's nodes should run since this revision.
    pub content: Content,
    /// True if the requested revision has the same content.
    pub current: bool,
    /// True if an older commit may have introduced the content: older commits are missing or were not read.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub or_before: bool,
    /// Later revision with the same content, which has the node counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_as: Option<CommitId>,
    /// True if its ConfigMap exists; unset without a cluster or without a ConfigMap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exists: Option<bool>,
    /// Placement that its ConfigMap records, to which a rollback returns; unset without a cluster, and if it records none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// Nodes on the revision; unset without a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Nodes>,
    /// True if the pointer of the pool names the content, so that new nodes start with it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub new_nodes: bool,
}

/// Collects commits, newest first, and keeps those that changed the pool.
#[derive(Debug)]
pub struct Log {
    pool: PoolName,
    gate: Strictness,
    limit: usize,
    revisions: Vec<Revision>,
    /// Oldest commit so far with the current content.
    current_run: Option<(Logged, Content)>,
}

impl Log {
    /// Empty log that keeps at most `limit` revisions.
    #[must_use]
    pub fn new(pool: PoolName, gate: Strictness, limit: usize) -> Self {
        Self { pool, gate, limit, revisions: Vec::new(), current_run: None }
    }

    /// Adds the next older commit. Breaks when the commit would exceed the limit.
    pub fn push(&mut self, logged: Logged, snapshot: Result<Snapshot, RepositoryError>) -> ControlFlow<()> {
        let content = match snapshot {
            Ok(snapshot) => content_of(&snapshot, &self.pool, self.gate),
            Err(RepositoryError::NoSuchFolder { .. }) => Content::Absent,
            Err(error) => Content::Invalid { problem: remark(&error.to_string()) },
        };
        match &mut self.current_run {
            Some((oldest, known)) if known.is_same(&content) => *oldest = logged,
            _ => {
                self.close(false);
                if self.revisions.len() >= self.limit {
                    return ControlFlow::Break(());
                }
                self.current_run = Some((logged, content));
            }
        }
        ControlFlow::Continue(())
    }

    fn close(&mut self, or_before: bool) {
        let Some((Logged { commit, time, author, subject }, content)) = self.current_run.take() else { return };
        let same = |earlier: &&Revision| content.hash().is_some() && earlier.content.hash() == content.hash();
        let same_as = self.revisions.iter().find(same).map(|earlier| earlier.commit.clone());
        self.revisions.push(Revision {
            commit,
            time,
            author: remark(&author),
            subject: remark(&subject),
            current: self.revisions.is_empty(),
            content,
            or_before,
            same_as,
            exists: None,
            placement: None,
            nodes: None,
            new_nodes: false,
        });
    }

    /// The revisions, newest first, without the time before the pool existed.
    #[must_use]
    pub fn end(mut self, end: WalkEnd) -> Vec<Revision> {
        if self.revisions.len() < self.limit {
            self.close(matches!(end, WalkEnd::Shallow | WalkEnd::TooMany));
        }
        if self.revisions.last().is_some_and(|oldest| oldest.content == Content::Absent && !oldest.or_before) {
            self.revisions.pop();
        }
        self.revisions
    }
}

/// Newest earlier revision for a rollback: a configuration with other content that nodes have run. Requires
/// [`Subject::find`] before.
///
/// # Errors
/// The newest configuration with other content, which no node is known to have run, or `None`.
pub fn previous(revisions: &[Revision]) -> Result<&Revision, Option<&Revision>> {
    let Some(now) = revisions.first() else { return Err(None) };
    let other = |revision: &&Revision| {
        matches!(revision.content, Content::Config { .. } | Content::BySize { .. } | Content::Local)
            && !revision.content.is_same(&now.content)
    };
    let mut others = revisions.iter().skip(1).filter(other);
    others.clone().find(|revision| revision.was_run()).ok_or_else(|| others.next())
}

impl Revision {
    /// Reports whether nodes have run the revision: nodes report so, or its ConfigMap exists. Every node has run its
    /// local configuration. Nodes of some sizes may run the same by another revision, which proves nothing.
    fn was_run(&self) -> bool {
        let on = |nodes: &Nodes| nodes.active > 0 || nodes.last_known_good > 0;
        let is_on = || !matches!(self.content, Content::BySize { .. }) && self.nodes.as_ref().is_some_and(on);
        self.content == Content::Local || self.exists == Some(true) || is_on()
    }
}

#[cfg(test)]
mod tests;
