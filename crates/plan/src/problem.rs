//! Problems that prevent a plan or its execution, each with its fix.

use crate::changes::{LostField, OmittedField, sentence};
use kubelet_config::Minor;
use kubelet_config::finding::Finding;
use kubelet_config::risk::{Class, StateFile};
use nodecfg_contract::ContentHash;
use nodecfg_contract::names::{FleetName, NamespaceName, NodeName, PoolName};
use nodecfg_contract::printable::one_line;
use nodecfg_fleet::Pool;
use schemars::JsonSchema;
use serde::Serialize;

/// A problem that prevents a plan, or its execution ([`TooDisruptive`](Self::TooDisruptive),
/// [`HarmfulRemoval`](Self::HarmfulRemoval)). Nothing has been written at that point.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Problem {
    /// The repository has no pool.
    #[error("the repository has no pool: nothing under pools/")]
    NoPools,
    /// The cluster has nodes, but no pool selects one.
    #[error("the pools ({pools}) select none of the nodes of the cluster ({nodes})")]
    NothingSelected {
        /// Nodes in the cluster.
        nodes: usize,
        /// Pools in the repository.
        pools: usize,
    },
    /// A pool selects no node, but nodes still run its configuration.
    #[error(
        "pool {pool} selects no node, but {}{}",
        still_run(*nodes, example),
        and_near(near.as_deref())
    )]
    PoolLostItsNodes {
        /// The pool.
        pool: PoolName,
        /// Number of nodes in no pool that still point at a ConfigMap of this pool.
        nodes: usize,
        /// One of them.
        example: NodeName,
        /// Label of nodes in no pool that is close to the selector.
        near: Option<Box<NearLabel>>,
    },
    /// A pool selects no node, but requires nodes (`spec.requireNodes`).
    #[error("pool {pool} selects no node, but its spec.requireNodes is true{}", and_near(near.as_deref()))]
    RequiredNodesMissing {
        /// The pool.
        pool: PoolName,
        /// Label of nodes in no pool that is close to the selector.
        near: Option<Box<NearLabel>>,
    },
    /// The content of a ConfigMap does not match its name.
    #[error(
        "ConfigMap {namespace}/{name} does not have the content that its name states (wanted {wanted}, found {})",
        found.map_or_else(|| "no readable configuration".to_owned(), |hash| hash.to_string())
    )]
    ContentMismatch {
        /// Its namespace.
        namespace: NamespaceName,
        /// Its name.
        name: String,
        /// Hash in the name.
        wanted: ContentHash,
        /// Hash of the actual content.
        found: Option<ContentHash>,
    },
    /// A ConfigMap has the right name and content but is mutable.
    #[error(
        "ConfigMap {namespace}/{name} has the right content but is not immutable: a change would restart every kubelet that uses it"
    )]
    NotImmutable {
        /// Its namespace.
        namespace: NamespaceName,
        /// Its name.
        name: String,
    },
    /// Nodes point at a ConfigMap that is missing or being deleted.
    #[error("ConfigMap {namespace}/{name} {}, but {nodes} nodes point at it (for example {example})",
        if *deleting { "is being deleted" } else { "is missing" })]
    ConfigMapMissing {
        /// Its namespace.
        namespace: NamespaceName,
        /// Its name.
        name: String,
        /// Whether the ConfigMap still exists but is being deleted.
        deleting: bool,
        /// Number of nodes that point at it.
        nodes: usize,
        /// One of them.
        example: NodeName,
    },
    /// Nodes would be pointed at a ConfigMap that is being deleted.
    #[error("ConfigMap {namespace}/{name} is being deleted and waits for its finalizers, but {nodes} nodes need it")]
    ConfigMapDeleting {
        /// Its namespace.
        namespace: NamespaceName,
        /// Its name.
        name: String,
        /// Number of nodes that would be assigned to it.
        nodes: usize,
    },
    /// A ConfigMap of the right name belongs to another fleet.
    #[error("ConfigMap {namespace}/{name} belongs to another fleet, {}", fleet.as_ref().map_or("unnamed", |fleet| fleet.as_str()))]
    NameTaken {
        /// Its namespace.
        namespace: NamespaceName,
        /// Its name.
        name: String,
        /// Fleet in its labels, if any.
        fleet: Option<FleetName>,
    },
    /// Another client changed the pointer of a pool. Only a verification ends with it; a sync writes the pointer again.
    #[error("another client changed the pointer {namespace}/{} of pool {pool}: {}", change.name, change.fault)]
    PointerChanged {
        /// Its namespace.
        namespace: NamespaceName,
        /// The pool.
        pool: PoolName,
        /// What changed.
        #[serde(skip)]
        change: PointerChange,
    },
    /// A pointer that must move is immutable.
    #[error("the pointer {namespace}/{name} must move and is immutable, which nodecfg never makes a pointer")]
    PointerImmutable {
        /// Its namespace.
        namespace: NamespaceName,
        /// Its name.
        name: String,
    },
    /// The pool has the placement overlay, but Nodes carry the assignments.
    #[error(
        "pool {pool} has the placement overlay, but its nodes follow assignments themselves, which replace the whole configuration"
    )]
    OverlayOnNodes {
        /// The pool.
        pool: PoolName,
    },
    /// Kubelets of the pool would refuse its configuration, or the strict checks do.
    #[error(
        "pool {pool}: {} on {nodes} of its nodes (for example {example}) would not run the configuration as written: {}",
        kubelet_list(kubelets),
        first_reason(findings)
    )]
    Refused {
        /// The pool.
        pool: PoolName,
        /// Versions of these kubelets.
        kubelets: Vec<Minor>,
        /// Number of nodes with such a kubelet that a step or a paused pool concerns.
        nodes: usize,
        /// One of them.
        example: NodeName,
        /// All errors of the configuration.
        findings: Vec<Finding>,
    },
    /// A change disrupts running pods more than the pool allows. Such a plan can be shown but not carried out.
    #[error("pool {pool}: the change {} ({worst}), but the pool allows at most {allowed}: {}",
        worst.means(), fields_with_class(fields))]
    TooDisruptive {
        /// The pool.
        pool: PoolName,
        /// Highest class of its changes.
        worst: Class,
        /// Highest class that the policy allows.
        allowed: Class,
        /// Fields above that class, by path.
        fields: Vec<(String, Class)>,
        /// Those of them that the configuration omits, by path.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        omitted: Vec<OmittedField>,
        /// State files that must be deleted before the kubelet starts again.
        state_files: Vec<StateFile>,
        /// Whether the change is a rollback, which an option of the command can allow.
        #[serde(skip)]
        rollback: bool,
    },
    /// A configuration that replaces that of the nodes omits fields whose loss harms them. Such a plan can be shown but not
    /// carried out.
    #[error("pool {pool}: {}", sentence(lost).unwrap_or_default())]
    HarmfulRemoval {
        /// The pool.
        pool: PoolName,
        /// The fields, by path.
        lost: Vec<LostField>,
    },
}

/// Maximum number of fields that a message lists.
const MAX_LISTED_FIELDS: usize = 5;

fn fields_with_class(fields: &[(String, Class)]) -> String {
    let mut listed: Vec<String> =
        fields.iter().take(MAX_LISTED_FIELDS).map(|(path, class)| format!("{path} ({class})")).collect();
    if fields.len() > MAX_LISTED_FIELDS {
        listed.push(format!("{} more", fields.len() - MAX_LISTED_FIELDS));
    }
    listed.join(", ")
}

fn still_run(nodes: usize, example: &NodeName) -> String {
    match nodes {
        1 => format!("node {example} still runs its configuration"),
        _ => format!("{nodes} nodes still run its configuration (for example {example})"),
    }
}

/// The end of a sentence: the label that is close to the selector, if any.
fn and_near(near: Option<&NearLabel>) -> String {
    near.map(|near| format!("; {}", near.text())).unwrap_or_default()
}

fn kubelet_list(minors: &[Minor]) -> String {
    let texts: Vec<String> = minors.iter().map(ToString::to_string).collect();
    format!("{} {}", if minors.len() == 1 { "kubelet" } else { "kubelets" }, texts.join(", "))
}

fn first_reason(findings: &[Finding]) -> String {
    let first = findings.first().map_or("", |finding| finding.message.as_str());
    match findings.len() {
        0 | 1 => first.to_owned(),
        more => format!("{first} (and {} more)", more - 1),
    }
}

impl Problem {
    /// Fix for this problem.
    #[must_use]
    pub fn help(&self) -> String {
        match self {
            Self::NoPools => {
                "check the directory and the revision, or pass --allow-empty to accept a repository without pools"
                    .to_owned()
            }
            Self::NothingSelected { .. } => {
                "check the kubeconfig context and the pools' nodeSelector, or pass --allow-empty".to_owned()
            }
            Self::RequiredNodesMissing { pool, near: Some(near) }
            | Self::PoolLostItsNodes { pool, near: Some(near), .. } => correct_label(pool, near),
            Self::PoolLostItsNodes { pool, near: None, .. } => format!(
                "check the nodeSelector of pool {pool}, or pass --allow-empty: the nodes then keep their configuration"
            ),
            Self::RequiredNodesMissing { pool, near: None } => {
                format!("check the nodeSelector of pool {pool} and the labels of its nodes, or pass --allow-empty")
            }
            Self::ContentMismatch { namespace, name, .. } => format!(
                "inspect it with `kubectl get configmap -n {namespace} {name} -o yaml`, and delete it once no node refers \
                 to it"
            ),
            Self::NotImmutable { namespace, name } => format!(
                "run `kubectl -n {namespace} patch configmap {name} --type merge -p '{{\"immutable\":true}}'`, which \
                 restarts no kubelet"
            ),
            Self::ConfigMapMissing { .. } => {
                "change any field of the pool's configuration, so that its nodes move to a ConfigMap of another name"
                    .to_owned()
            }
            Self::ConfigMapDeleting { namespace, name, .. } => format!(
                "remove its finalizers with `kubectl -n {namespace} patch configmap {name} --type merge -p \
                 '{{\"metadata\":{{\"finalizers\":null}}}}'`, or wait for their owners; then the next sync creates it again"
            ),
            Self::TooDisruptive { pool, worst, state_files, rollback: true, .. } => {
                rollback_fix(pool, *worst, state_files)
            }
            Self::TooDisruptive { pool, worst, state_files, omitted, .. } => fix(pool, *worst, state_files, omitted),
            Self::HarmfulRemoval { pool, lost } => loss_fix(pool, lost),
            Self::Refused { kubelets, .. } => {
                let minors: Vec<String> = kubelets.iter().map(ToString::to_string).collect();
                format!("fix the fields, until `nodecfg validate --kubernetes-version {}` succeeds", minors.join(","))
            }
            Self::OverlayOnNodes { pool } => format!(
                "write placement: replace under spec.kubelet in pools/{pool}/pool.yaml, and name every field that its nodes need"
            ),
            Self::PointerChanged { namespace, change, .. } => change.help(namespace),
            Self::PointerImmutable { namespace, name } => {
                format!("run `kubectl -n {namespace} delete configmap {name}`, so that the next sync creates it")
            }
            Self::NameTaken { .. } => "give this fleet another metadata.name in nodecfg.yaml".to_owned(),
        }
    }

    /// The same problem of a rollback.
    #[must_use]
    pub fn of_rollback(mut self) -> Self {
        if let Self::TooDisruptive { rollback, .. } = &mut self {
            *rollback = true;
        }
        self
    }

    /// Reports whether the repository causes the problem, rather than the state of the cluster. This determines the
    /// exit code. The fix may still be a change of the repository if this is false.
    #[must_use]
    pub fn is_of_repository(&self) -> bool {
        matches!(
            self,
            Self::NoPools
                | Self::NothingSelected { .. }
                | Self::PoolLostItsNodes { .. }
                | Self::RequiredNodesMissing { .. }
                | Self::OverlayOnNodes { .. }
                | Self::Refused { .. }
                | Self::TooDisruptive { .. }
                | Self::HarmfulRemoval { .. }
        )
    }

    /// Stable identifier in kebab case.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoPools => "no-pools",
            Self::NothingSelected { .. } => "nothing-selected",
            Self::PoolLostItsNodes { .. } => "pool-lost-its-nodes",
            Self::RequiredNodesMissing { .. } => "required-nodes-missing",
            Self::ContentMismatch { .. } => "config-map-differs",
            Self::NotImmutable { .. } => "config-map-mutable",
            Self::ConfigMapMissing { .. } => "config-map-gone",
            Self::ConfigMapDeleting { .. } => "config-map-deleting",
            Self::OverlayOnNodes { .. } => "overlay-on-nodes",
            Self::Refused { .. } => "configuration-refused",
            Self::NameTaken { .. } => "config-map-of-another-fleet",
            Self::PointerChanged { .. } => "pool-pointer-differs",
            Self::PointerImmutable { .. } => "pool-pointer-immutable",
            Self::TooDisruptive { .. } => "too-disruptive",
            Self::HarmfulRemoval { .. } => "harmful-removal",
        }
    }
}

/// Change of a pool pointer by another client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointerChange {
    /// Name of the pointer.
    pub name: String,
    /// How it differs from what the reconciler writes.
    pub fault: String,
    /// Whether no client can change it back.
    pub immutable: bool,
}

impl PointerChange {
    /// Warning of a plan.
    pub(super) fn warning(&self, pool: &Pool, namespace: &NamespaceName) -> Finding {
        let Self { name, fault, .. } = self;
        let message = format!("pool {}: another client changed the pointer {namespace}/{name}: {fault}", pool.name);
        Finding::warning("pool-pointer-changed", message).at(pool.place.clone()).help(self.help(namespace))
    }

    /// Instruction that repairs the pointer.
    #[must_use]
    pub fn help(&self, namespace: &NamespaceName) -> String {
        let first = "find out which client wrote it";
        match self.immutable {
            true => {
                format!("{first}, run `kubectl -n {namespace} delete configmap {}`, then `nodecfg sync`", self.name)
            }
            false => {
                format!("{first}, then run `nodecfg sync`, which writes it again once nodes prove the configuration")
            }
        }
    }
}

/// A label of nodes in no pool that is close to what a selector requires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NearLabel {
    /// Label of the nodes: `key=value`.
    pub label: String,
    /// Label that the selector requires.
    pub wanted: String,
    /// Number of these nodes.
    pub nodes: usize,
    /// One of them.
    pub example: NodeName,
}

impl NearLabel {
    /// The label with its nodes, in a sentence.
    pub(super) fn text(&self) -> String {
        let Self { label, wanted, nodes, example } = self;
        let label = one_line(label);
        if *nodes == 1 {
            format!("node {example} in no pool has the label {label}, which is close to {wanted}")
        } else {
            format!(
                "{nodes} nodes in no pool (for example {example}) have the label {label}, which is close to {wanted}"
            )
        }
    }
}

/// The fix of a spelling error in a selector or a label.
pub(super) fn correct_label(pool: &PoolName, near: &NearLabel) -> String {
    format!("write {} in the nodeSelector of pool {pool}, or label the nodes {}", one_line(&near.label), near.wanted)
}

/// Fix for a change of a class that the pool does not allow.
#[must_use]
pub fn fix(pool: &PoolName, worst: Class, state_files: &[StateFile], omitted: &[OmittedField]) -> String {
    let name = name_fields(omitted, MAX_LISTED_FIELDS);
    let (alternative, drain) = (alternative(worst), drain(worst, state_files));
    format!("{name}{alternative}set spec.rollout.allowDisruption: {worst} in pools/{pool}/pool.yaml{drain}")
}

/// Fix for a refused rollback, which an option of the command can allow. Not even this option allows
/// [`Class::Never`].
#[must_use]
pub fn rollback_fix(pool: &PoolName, worst: Class, state_files: &[StateFile]) -> String {
    if worst == Class::Never {
        return fix(pool, worst, state_files, &[]);
    }
    let (alternative, drain) = (alternative(worst), drain(worst, state_files));
    format!(
        "{alternative}pass --allow-disruption {worst} --reason TEXT{drain}; `nodecfg rollback {pool} --dry-run -v` shows \
         each field"
    )
}

/// Fix for refused losses.
#[must_use]
pub fn loss_fix(pool: &PoolName, lost: &[LostField]) -> String {
    let omitted: Vec<OmittedField> = lost.iter().map(|field| field.omitted.clone()).collect();
    let mut fields: Vec<&str> = lost.iter().map(|field| field.loss.field.as_str()).collect();
    fields.dedup();
    let name = name_fields(&omitted, usize::MAX);
    format!("{name}set spec.kubelet.acceptRemoved: [{}] in pools/{pool}/pool.yaml", fields.join(", "))
}

/// Fix for fields that the configuration omits, of which at most `most` are listed: naming them keeps what the nodes run.
/// Ends before an alternative.
fn name_fields(omitted: &[OmittedField], most: usize) -> String {
    if omitted.is_empty() {
        return String::new();
    }
    let line = |field: &OmittedField| match field.running.as_deref().filter(|running| is_plain(running)) {
        Some(running) => format!("{}: {running}", field.path),
        None => field.path.clone(),
    };
    let mut lines: Vec<String> = omitted.iter().take(most).map(line).collect();
    if omitted.len() > most {
        lines.push(format!("{} more", omitted.len() - most));
    }
    format!("write {}, which the configuration omits, to keep what the nodes run; or ", lines.join(", "))
}

/// Reports whether a value may stand in a sentence. Others come from a node or a repository, and could pass for text of
/// the report; the field diff shows them as code.
fn is_plain(value: &str) -> bool {
    value.len() <= 80 && value.chars().all(|letter| letter.is_ascii_alphanumeric() || "._-/:,%\"[] ".contains(letter))
}

/// What to do instead of the change, or to accept.
fn alternative(worst: Class) -> &'static str {
    match worst {
        Class::None | Class::Restart | Class::Drain => "",
        Class::Replace => "create new nodes with this configuration, or ",
        Class::Never => "revert the change, or accept the loss of pods and ",
    }
}

/// What nodecfg does before the change, and what it leaves to the user.
fn drain(worst: Class, state_files: &[StateFile]) -> String {
    if worst < Class::Drain {
        return String::new();
    }
    let files: Vec<String> = state_files.iter().map(|file| format!("/var/lib/kubelet/{file}")).collect();
    let files = match files.as_slice() {
        [] => String::new(),
        files => format!("; without node agents, delete {} while a node is drained", files.join(" and ")),
    };
    format!(", which drains each node first{files}")
}
