//! What one snapshot says that the nodes of one pool shall run.

use super::{ContentHash, Draft, Finding, Pool, PoolName, PoolTarget, Serialize, Snapshot, Strictness, draft};
use nodecfg_contract::printable::remark;

/// What a pool's nodes shall run at some revision.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Content {
    /// A configuration.
    #[serde(rename_all = "camelCase")]
    Config {
        /// Its hash.
        #[schemars(with = "String")]
        hash: ContentHash,
        /// Its ConfigMap.
        config_map: String,
    },
    /// The configuration that they were provisioned with.
    Local,
    /// There is no such pool.
    Absent,
    /// It cannot be read.
    Invalid {
        /// What is wrong first.
        problem: String,
    },
}

impl Content {
    /// The hash of the configuration, where it is one.
    #[must_use]
    pub fn hash(&self) -> Option<ContentHash> {
        match self {
            Self::Config { hash, .. } => Some(*hash),
            _ => None,
        }
    }

    /// Whether the nodes shall run the same. What is invalid is as invalid as anything else.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Config { hash, .. }, Self::Config { hash: other, .. }) => hash == other,
            (Self::Invalid { .. }, Self::Invalid { .. }) => true,
            _ => self == other,
        }
    }
}

/// What a snapshot says of one pool. What is wrong with others does not matter.
#[must_use]
pub fn content_of(snapshot: &Snapshot, pool: &PoolName, gate: Strictness) -> Content {
    // A pool is made of few files, as a rule of its own and of what pools share.
    let alone = of_draft(&draft(&without_others(snapshot, pool), gate), snapshot, pool);
    match alone {
        Content::Invalid { .. } => of_draft(&draft(snapshot, gate), snapshot, pool),
        content => content,
    }
}

fn of_draft(draft: &Draft, snapshot: &Snapshot, pool: &PoolName) -> Content {
    let folder = format!("pools/{pool}/");
    let found = draft.desired.as_ref().and_then(|desired| desired.pools.get(pool));
    if let Some(error) = draft.errors.iter().find(|error| is_about(error, found, &folder)) {
        return Content::Invalid { problem: remark(&error.message) };
    }
    match found.map(|pool| &pool.target) {
        Some(PoolTarget::Config(rendered)) => {
            Content::Config { hash: rendered.hash, config_map: rendered.config_map.clone() }
        }
        Some(PoolTarget::Local) => Content::Local,
        None if snapshot.files.keys().any(|path| path.starts_with(&folder)) => {
            Content::Invalid { problem: "it cannot be put together".to_owned() }
        }
        None => Content::Absent,
    }
}

/// Whether an error is about the pool: about a file that it is made of, or about no file at all.
fn is_about(error: &Finding, pool: Option<&Pool>, folder: &str) -> bool {
    let Some(place) = &error.place else { return true };
    place.file.starts_with(folder) || pool.is_some_and(|pool| pool.files.contains(&*place.file))
}

fn without_others(snapshot: &Snapshot, pool: &PoolName) -> Snapshot {
    let own = |path: &str| path.strip_prefix("pools/").is_none_or(|rest| rest.split('/').next() == Some(pool.as_str()));
    let files = snapshot.files.iter().filter(|(path, _)| own(path));
    Snapshot {
        files: files.map(|(path, file)| (path.clone(), file.clone())).collect(),
        commit: snapshot.commit.clone(),
        signer: None,
        source: snapshot.source,
        findings: Vec::new(),
    }
}
