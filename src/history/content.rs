//! Content of one pool in one snapshot: what its nodes should run.

use std::sync::Arc;

use super::{ContentHash, Draft, Finding, Pool, PoolName, PoolTarget, Serialize, Snapshot, Strictness, draft};
use nodecfg_contract::printable::remark;
use nodecfg_fleet::{PoolTargets, Sizes};

/// Content that a pool's nodes should run at a revision.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Content {
    /// A configuration.
    #[serde(rename_all = "camelCase")]
    Config {
        /// Hash of the configuration.
        #[schemars(with = "String")]
        hash: ContentHash,
        /// Name of its ConfigMap.
        config_map: String,
    },
    /// A configuration for each size of the nodes.
    #[serde(rename_all = "camelCase")]
    BySize {
        /// Hash of the configuration of a machine with 4 cores and 16 GiB of memory.
        #[schemars(with = "String")]
        hash: ContentHash,
        /// The formulas of the reservations.
        reserve: String,
        /// The configurations.
        #[serde(skip)]
        sizes: SizedContent,
    },
    /// The local configuration of the nodes.
    Local,
    /// The pool does not exist.
    Absent,
    /// The pool is invalid.
    Invalid {
        /// The first error.
        problem: String,
    },
}

/// Configurations by the size of nodes.
#[derive(Debug, Clone)]
pub struct SizedContent(pub Arc<Sizes>);

impl PartialEq for SizedContent {
    fn eq(&self, other: &Self) -> bool {
        self.0.is_same(&other.0)
    }
}

impl Content {
    /// Hash of the configuration, if any.
    #[must_use]
    pub fn hash(&self) -> Option<ContentHash> {
        match self {
            Self::Config { hash, .. } | Self::BySize { hash, .. } => Some(*hash),
            _ => None,
        }
    }

    /// Name of the ConfigMap, if any.
    #[must_use]
    pub fn config_map(&self) -> Option<&str> {
        match self {
            Self::Config { config_map, .. } => Some(config_map),
            _ => None,
        }
    }

    /// Reports whether two contents are the same. All invalid contents count as the same.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Config { hash, .. }, Self::Config { hash: other, .. }) => hash == other,
            (Self::BySize { sizes, .. }, Self::BySize { sizes: other, .. }) => sizes == other,
            (Self::Invalid { .. }, Self::Invalid { .. }) => true,
            _ => self == other,
        }
    }
}

/// Content of one pool in a snapshot. Errors in files of other pools do not matter.
#[must_use]
pub fn content_of(snapshot: &Snapshot, pool: &PoolName, gate: Strictness) -> Content {
    // Reads only the pool's own and the shared files first, which is faster. The pool may use files of other pools,
    // so an invalid content is checked again with all files.
    let alone = of_draft(&draft(&without_other_pools(snapshot, pool), gate), snapshot, pool);
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
    if let Some(PoolTargets::BySize(sizes)) = found.map(|pool| &pool.targets)
        && let Some(hash) = sizes.reference().hash()
    {
        let (reserve, sizes) = (sizes.reserve.value.to_string(), SizedContent(Arc::clone(sizes)));
        return Content::BySize { hash, reserve, sizes };
    }
    match found.map(|pool| &**pool.targets.typical()) {
        Some(PoolTarget::Config(rendered)) => {
            Content::Config { hash: rendered.hash, config_map: rendered.config_map.clone() }
        }
        Some(PoolTarget::Local) => Content::Local,
        None if snapshot.files.keys().any(|path| path.starts_with(&folder)) => {
            Content::Invalid { problem: "its files cannot be combined".to_owned() }
        }
        None => Content::Absent,
    }
}

/// Reports whether an error concerns the pool: one of its files, or no file.
fn is_about(error: &Finding, pool: Option<&Pool>, folder: &str) -> bool {
    let Some(place) = &error.place else { return true };
    place.file.starts_with(folder) || pool.is_some_and(|pool| pool.files.contains(&*place.file))
}

fn without_other_pools(snapshot: &Snapshot, pool: &PoolName) -> Snapshot {
    let own = |path: &str| path.strip_prefix("pools/").is_none_or(|rest| rest.split('/').next() == Some(pool.as_str()));
    let files = snapshot.files.iter().filter(|(path, _)| own(path));
    Snapshot {
        files: files.map(|(path, file)| (path.clone(), file.clone())).collect(),
        commit: snapshot.commit.clone(),
        uncommitted: 0,
        signer: None,
        source: snapshot.source,
        findings: Vec::new(),
    }
}
