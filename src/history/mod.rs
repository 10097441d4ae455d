//! The revisions of one pool: in which commits the configuration of its nodes changed, which ConfigMaps of it a cluster has, and
//! how many nodes are on each. Pure: commits and snapshots come in one by one, newest first, and what is observed at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use jiff::Timestamp;
use serde::Serialize;

use crate::repository::RepositoryError;
use crate::repository::history::{Logged, WalkEnd};
use kubelet_config::finding::{Finding, Strictness};
use nodecfg_contract::ConfigSource;
use nodecfg_contract::ContentHash;
use nodecfg_contract::names::{CommitId, FleetName, NamespaceName, NodeName, PoolName};
use nodecfg_contract::observed::{ConfigMapKey, ManagedConfigMap, Node, Observed};
use nodecfg_contract::printable::remark;
use nodecfg_planning::desired::{Desired, Draft, Pool, PoolTarget, draft};
use nodecfg_planning::snapshot::Snapshot;

mod content;
mod frame;
mod nodes;

pub use content::{Content, content_of};
pub use frame::{Frame, frame, held};
pub use nodes::{Nodes, OtherConfigMap, Subject, Whereabouts};

/// A revision that changed what the pool's nodes shall run.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Revision {
    /// The commit.
    pub commit: CommitId,
    /// When it was committed.
    pub time: Timestamp,
    /// Who wrote it, as they call themselves; control characters taken out.
    pub author: String,
    /// The first line of its message; control characters taken out.
    pub subject: String,
    /// What the pool's nodes shall run since then.
    pub content: Content,
    /// Whether that is what the pool's nodes shall run at the revision that was asked about.
    pub current: bool,
    /// Whether it may have been so before this commit: older ones are not here, or were not gone through.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub or_before: bool,
    /// A later revision with just this content, on which the nodes are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_as: Option<CommitId>,
    /// Its ConfigMap is in the cluster; unset without a cluster, and where there is none to have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exists: Option<bool>,
    /// The nodes that are on it; unset without a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Nodes>,
}

/// Takes in commits, newest first, and keeps those that changed the pool.
#[derive(Debug)]
pub struct Log {
    pool: PoolName,
    gate: Strictness,
    limit: usize,
    revisions: Vec<Revision>,
    /// The oldest commit so far with the content that is being gone through.
    run: Option<(Logged, Content)>,
}

impl Log {
    /// Nothing seen yet; `limit` is how many revisions are kept.
    #[must_use]
    pub fn new(pool: PoolName, gate: Strictness, limit: usize) -> Self {
        Self { pool, gate, limit, revisions: Vec::new(), run: None }
    }

    /// Takes in the next older commit. Breaks when there are as many revisions as are kept.
    pub fn take(&mut self, logged: Logged, snapshot: Result<Snapshot, RepositoryError>) -> ControlFlow<()> {
        let content = match snapshot {
            Ok(snapshot) => content_of(&snapshot, &self.pool, self.gate),
            Err(RepositoryError::NoSuchFolder { .. }) => Content::Absent,
            Err(error) => Content::Invalid { problem: remark(&error.to_string()) },
        };
        match &mut self.run {
            Some((oldest, known)) if known.is_same(&content) => *oldest = logged,
            _ => {
                self.close(false);
                if self.revisions.len() >= self.limit {
                    return ControlFlow::Break(());
                }
                self.run = Some((logged, content));
            }
        }
        ControlFlow::Continue(())
    }

    fn close(&mut self, or_before: bool) {
        let Some((Logged { commit, time, author, subject }, content)) = self.run.take() else { return };
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
            nodes: None,
        });
    }

    /// The revisions, newest first. Before the pool's first there is nothing to list.
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

/// The newest revision before the current one that can be gone back to: another content, one that can be read, and one that nodes
/// have run, which is known once [`Subject::find`] has looked. `Err`: the newest that no node has run, as far as can be seen, if
/// there is any.
///
/// # Errors
/// When there is none.
pub fn previous(revisions: &[Revision]) -> Result<&Revision, Option<&Revision>> {
    let Some(now) = revisions.first() else { return Err(None) };
    let other = |revision: &&Revision| {
        matches!(revision.content, Content::Config { .. } | Content::Local) && !revision.content.is_same(&now.content)
    };
    let mut others = revisions.iter().skip(1).filter(other);
    others.clone().find(|revision| revision.was_run()).ok_or_else(|| others.next())
}

impl Revision {
    /// Whether nodes have run it, as far as can be seen. Every node has run its local configuration.
    fn was_run(&self) -> bool {
        let on = |nodes: &Nodes| nodes.active > 0 || nodes.last_known_good > 0;
        self.content == Content::Local || self.exists == Some(true) || self.nodes.as_ref().is_some_and(on)
    }
}

#[cfg(test)]
mod tests;
