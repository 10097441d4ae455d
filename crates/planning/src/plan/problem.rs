//! Why there can be no plan: what the repository and the cluster together make impossible, each with its way out.

use serde::Serialize;

use super::disruption;
use kubelet_config::Minor;
use kubelet_config::finding::Finding;
use kubelet_config::risk::{Class, StateFile};
use nodecfg_contract::ContentHash;
use nodecfg_contract::names::{FleetName, NamespaceName, NodeName, PoolName};

/// Why there can be no plan. Nothing has been written when one of these is reported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Problem {
    /// The repository has no pool.
    #[error("the repository has no pool: nothing under pools/")]
    NoPools,
    /// The cluster has nodes, and no pool selects any.
    #[error("the pools ({pools}) select none of the nodes of the cluster ({nodes})")]
    NothingSelected {
        /// Nodes in the cluster.
        nodes: usize,
        /// Pools in the repository.
        pools: usize,
    },
    /// A pool selects nothing, while nodes still run its configuration.
    #[error("pool {pool} selects no node, but {nodes} nodes still run its configuration, {example} among them")]
    PoolLostItsNodes {
        /// The pool.
        pool: PoolName,
        /// Nodes that still point at one of its ConfigMaps.
        nodes: usize,
        /// One of them.
        example: NodeName,
    },
    /// Several pools of the same priority select the same nodes.
    #[error("pools {} have equal priority and both select node {example}{}", list(pools), others(*nodes))]
    Contested {
        /// The pools.
        pools: Vec<PoolName>,
        /// How many nodes they share.
        nodes: usize,
        /// One of them.
        example: NodeName,
    },
    /// A ConfigMap is not what its name says.
    #[error(
        "ConfigMap {namespace}/{name} exists with other content than its name says (wanted {wanted}, found {})",
        found.map_or_else(|| "no readable configuration".to_owned(), |hash| hash.to_string())
    )]
    ContentDiffers {
        /// Its namespace.
        namespace: NamespaceName,
        /// Its name.
        name: String,
        /// Hash of the content that belongs there.
        wanted: ContentHash,
        /// Hash of the content that is there.
        found: Option<ContentHash>,
    },
    /// A ConfigMap of the right name and content can still be changed.
    #[error(
        "ConfigMap {namespace}/{name} has the right content but is not immutable: a change would restart every kubelet that uses it"
    )]
    NotImmutable {
        /// Its namespace.
        namespace: NamespaceName,
        /// Its name.
        name: String,
    },
    /// The ConfigMap that nodes point at is gone.
    #[error("ConfigMap {namespace}/{name} is gone{}, and {nodes} nodes still point at it, {example} among them",
        if *deleting { " (it is being deleted)" } else { "" })]
    TargetGone {
        /// Its namespace.
        namespace: NamespaceName,
        /// Its name.
        name: String,
        /// Whether it is still there, being deleted.
        deleting: bool,
        /// How many nodes point at it.
        nodes: usize,
        /// One of them.
        example: NodeName,
    },
    /// A ConfigMap of the right name belongs to another fleet.
    #[error("ConfigMap {namespace}/{name} belongs to another fleet, {}", fleet.as_ref().map_or("unnamed", |fleet| fleet.as_str()))]
    NameTaken {
        /// Its namespace.
        namespace: NamespaceName,
        /// Its name.
        name: String,
        /// Whose it is.
        fleet: Option<FleetName>,
    },
    /// A kubelet of the pool would refuse its configuration, or drop a part of it.
    #[error(
        "pool {pool}: {}, which {nodes} of its nodes have ({example} for one), would not run its configuration as it is written: {}",
        kubelet_list(kubelets),
        reasons(findings)
    )]
    Refused {
        /// The pool.
        pool: PoolName,
        /// The versions of the kubelets.
        kubelets: Vec<Minor>,
        /// How many nodes have such a kubelet and would get the configuration.
        nodes: usize,
        /// One of them.
        example: NodeName,
        /// The errors.
        findings: Vec<Finding>,
    },
    /// A change does more to running pods than the pool allows. Such a plan can be shown, not carried out.
    #[error("pool {pool}: what changes {} ({worst}), and the pool allows no more than {allowed}: {}",
        worst.means(), classed(fields))]
    TooDisruptive {
        /// The pool.
        pool: PoolName,
        /// The worst class of its changes.
        worst: Class,
        /// The worst class that its policy allows.
        allowed: Class,
        /// The fields beyond that, by path.
        fields: Vec<(String, Class)>,
        /// State files that must be gone when the kubelet starts again.
        state_files: Vec<StateFile>,
    },
}

/// How many fields a problem names.
const FIELDS: usize = 5;

fn classed(fields: &[(String, Class)]) -> String {
    let mut listed: Vec<String> = fields.iter().take(FIELDS).map(|(path, class)| format!("{path} ({class})")).collect();
    if fields.len() > FIELDS {
        listed.push(format!("{} more", fields.len() - FIELDS));
    }
    listed.join(", ")
}

fn list(pools: &[PoolName]) -> String {
    pools.iter().map(PoolName::as_str).collect::<Vec<_>>().join(" and ")
}

fn others(nodes: usize) -> String {
    match nodes.saturating_sub(1) {
        0 => String::new(),
        1 => " and 1 other".to_owned(),
        more => format!(" and {more} others"),
    }
}

fn kubelet_list(minors: &[Minor]) -> String {
    let texts: Vec<String> = minors.iter().map(ToString::to_string).collect();
    format!("{} {}", if minors.len() == 1 { "kubelet" } else { "kubelets" }, texts.join(", "))
}

fn reasons(findings: &[Finding]) -> String {
    let first = findings.first().map_or("", |finding| finding.message.as_str());
    match findings.len() {
        0 | 1 => first.to_owned(),
        more => format!("{first} (and {} more)", more - 1),
    }
}

impl Problem {
    /// The way out.
    #[must_use]
    pub fn help(&self) -> String {
        match self {
            Self::NoPools => {
                "is this the right directory and revision? A pool is a folder pools/<pool> with a kubelet.yaml. \
                              Pass --allow-empty if there shall be none"
                    .to_owned()
            }
            Self::NothingSelected { .. } => "is this the right cluster? Compare the pools' nodeSelector with \
                                             `kubectl get nodes --show-labels`, or pass --allow-empty"
                .to_owned(),
            Self::PoolLostItsNodes { pool, .. } => format!(
                "check the nodeSelector of pool {pool} and the nodes' labels. If the nodes left the pool on purpose, pass \
                 --allow-empty: they keep the configuration that they have"
            ),
            Self::Contested { .. } => {
                "give one of them a higher spec.priority, or make their nodeSelectors exclude each other".to_owned()
            }
            Self::ContentDiffers { namespace, name, .. } => format!(
                "somebody made or replaced it by hand. Look at it with `kubectl -n {namespace} get configmap {name} -o yaml`; \
                 delete it when no node needs it, and run again"
            ),
            Self::NotImmutable { namespace, name } => format!(
                "`kubectl -n {namespace} patch configmap {name} --type merge -p '{{\"immutable\":true}}'` makes it so without \
                 restarting anything"
            ),
            Self::TargetGone { .. } => "the nodes go on running what they have, but lose it when they are made anew. Made again \
                                        under its name, it would restart all of them at once. Change the pool's \
                                        configuration (any field will do): that has another name, and is rolled out within \
                                        the budget"
                .to_owned(),
            Self::TooDisruptive { pool, worst, state_files, .. } => {
                format!("{}. `nodecfg diff -v` says why", disruption::way_out(pool, *worst, state_files))
            }
            Self::Refused { pool, kubelets, .. } => {
                let minors: Vec<String> = kubelets.iter().map(ToString::to_string).collect();
                format!(
                    "`nodecfg validate --kubernetes-version {}` shows every finding without a cluster; nodes of other \
                     versions can be a pool of their own beside {pool}",
                    minors.join(",")
                )
            }
            Self::NameTaken { .. } => "give this fleet another metadata.name in nodecfg.yaml".to_owned(),
        }
    }

    /// Whether the way out is in the repository, and not in the cluster alone.
    #[must_use]
    pub fn is_of_repository(&self) -> bool {
        matches!(
            self,
            Self::NoPools
                | Self::NothingSelected { .. }
                | Self::PoolLostItsNodes { .. }
                | Self::Contested { .. }
                | Self::Refused { .. }
                | Self::TooDisruptive { .. }
        )
    }

    /// Stable identifier in kebab case.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoPools => "no-pools",
            Self::NothingSelected { .. } => "nothing-selected",
            Self::PoolLostItsNodes { .. } => "pool-lost-its-nodes",
            Self::Contested { .. } => "contested-nodes",
            Self::ContentDiffers { .. } => "config-map-differs",
            Self::NotImmutable { .. } => "config-map-mutable",
            Self::TargetGone { .. } => "config-map-gone",
            Self::Refused { .. } => "configuration-refused",
            Self::NameTaken { .. } => "config-map-of-another-fleet",
            Self::TooDisruptive { .. } => "too-disruptive",
        }
    }
}
