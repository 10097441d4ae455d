//! `spec.kubelet` of a Fleet and of a NodePool, and `spec.kubernetesVersion`.

use std::borrow::Cow;
use std::collections::BTreeSet;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::Reserve;
use crate::fields::{At, Located, ReadField, bad_value, choices, map};
use kubelet_config::finding::nearest;
use kubelet_config::risk::removals;
use kubelet_config::{Minor, NEWEST, NEWEST_RELEASED, OLDEST, fields};
use nodecfg_contract::Placement;

/// Maximum number of patches of a pool. A file may be named several times, and each costs a merge.
const MAX_PATCHES: usize = 50;

map! {
    /// How the configurations of a fleet are placed.
    #[derive(Default)]
    pub struct FleetKubeletSpec {
        /// How nodes combine the configuration of their pool with their own. Default: overlay where NodeConfigs carry
        /// the assignments, replace where Nodes do.
        "placement" => placement: Option<Placement>,
        /// Path of the nodes' own KubeletConfiguration, as `nodecfg capture` writes it, for pools without such a path.
        "own" => own: Option<Located<String>>,
        /// Fields that the pools may omit although their loss harms the nodes, beside those of each pool. Default:
        /// none.
        "acceptRemoved" => accept_removed: BTreeSet<RemovableField>,
        /// Fields that a flag or a later file may set to another value, beside those of each pool. Default: none.
        "acceptOverridden" => accept_overridden: BTreeSet<OverridableField>,
    }
}

map! {
    /// Configuration of a pool: base, then the pool's kubelet.yaml, then patches in order.
    #[derive(Default)]
    pub struct KubeletSpec {
        /// Path of a base KubeletConfiguration, relative to the pool's folder. The pool's own file is merged over it.
        "base" => base: Option<Located<String>>,
        /// Paths of merge patches (RFC 7386) or JSON patches (RFC 6902), relative to the pool's folder, applied in
        /// order.
        #[check(few_patches)]
        "patches" => patches: Vec<Located<String>>,
        /// Reservations that follow from the size of each node. They are merged over kubelet.yaml, before the patches.
        "reserve" => reserve: Option<Located<Reserve>>,
        /// Use the local configuration of each node: spec.configSource is removed. Default {default}.
        #[default(false)]
        "local" => local: bool,
        /// How nodes combine the configuration with their own: merged over it (overlay), or as the whole (replace).
        /// Default: that of the fleet.
        "placement" => placement: Option<Placement>,
        /// Path of the nodes' own KubeletConfiguration, as `nodecfg capture` writes it, relative to the pool's folder.
        /// An overlay is checked over it. Default: that of the fleet.
        "own" => own: Option<Located<String>>,
        /// Fields that a configuration which replaces that of the nodes may omit although their loss harms the nodes.
        /// Without an entry, a sync refuses to take such a field away from nodes that run it. A pool has the entries of
        /// its fleet, too.
        "acceptRemoved" => accept_removed: BTreeSet<RemovableField>,
        /// Fields that a flag of the kubelet or a later file may set to another value, such as maxPods or
        /// evictionHard.memory.available. Without an entry, such a node does not converge. A pool has the entries of
        /// its fleet, too.
        "acceptOverridden" => accept_overridden: BTreeSet<OverridableField>,
    }
}

choices! {
    Placement: "value", Placement::ALL.map(|placement| (placement.as_str(), placement));
}

fn few_patches(mut patches: Vec<Located<String>>, at: &mut At<'_>) -> Option<Vec<Located<String>>> {
    if patches.len() > MAX_PATCHES {
        at.refuse(&format!("{} entries, at most {MAX_PATCHES} are allowed", patches.len()), "combine patches");
        patches.truncate(MAX_PATCHES);
    }
    Some(patches)
}

/// A field of the table of removals.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RemovableField(pub String);

impl ReadField for RemovableField {
    type Schema = Self;

    fn read(at: &mut At<'_>) -> Option<Self> {
        let text = at.text()?;
        let known = || removals::all().map(|removal| removal.field.as_str());
        let problem = || format!("the removal of {text:?} needs no acceptance");
        known()
            .any(|field| field == text)
            .then(|| Self(text.to_owned()))
            .or_else(|| not_accepted(at, &problem(), nearest(text, known())))
    }
}

impl JsonSchema for RemovableField {
    fn schema_name() -> Cow<'static, str> {
        "RemovableField".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A field whose loss harms a node that had a value.",
            "enum": removals::all().map(|removal| removal.field.as_str()).collect::<Vec<_>>(),
        })
    }
}

/// A field of a KubeletConfiguration, or a key of such a field, that something else may set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OverridableField(pub String);

impl ReadField for OverridableField {
    type Schema = String;

    fn read(at: &mut At<'_>) -> Option<Self> {
        let text = at.text()?;
        let top = text.split('.').next().unwrap_or_default();
        let known = || fields::all().map(|field| field.path.as_str()).filter(|path| !path.contains('.'));
        let problem = || format!("no KubeletConfiguration has a field {text:?}");
        fields::lookup(top)
            .map(|_| Self(text.to_owned()))
            .or_else(|| not_accepted(at, &problem(), nearest(top, known())))
    }
}

/// Reports an item of a list of accepted fields.
fn not_accepted<T>(at: &mut At<'_>, problem: &str, near: Option<&str>) -> Option<T> {
    let help = near.map_or_else(|| "remove it".to_owned(), |near| format!("did you mean {near}?"));
    let list = at.path.rsplit_once('[').map_or(at.path, |(list, _)| list);
    at.findings.push(bad_value(list, at.node, problem).help(help));
    None
}

/// One version or several, in order.
#[derive(Debug, Clone, Default)]
pub struct KubernetesVersions(pub Vec<Minor>);

impl ReadField for KubernetesVersions {
    type Schema = Self;

    fn read(at: &mut At<'_>) -> Option<Self> {
        let version = |at: &mut At<'_>| {
            let help = || format!("write a version from {OLDEST} to {NEWEST} in quotes, such as \"{NEWEST_RELEASED}\"");
            at.parse(|version| Minor::parse_known(version).map_err(|problem| (problem.to_string(), help())))
        };
        let mut minors = match at.node.sequence() {
            Some([]) => {
                at.refuse("the list is empty", "remove the field, or list a version");
                return None;
            }
            Some(_) => at.items(version),
            None => version(at).into_iter().collect(),
        };
        minors.sort_unstable();
        minors.dedup();
        Some(Self(minors))
    }
}

impl JsonSchema for KubernetesVersions {
    fn schema_name() -> Cow<'static, str> {
        "KubernetesVersions".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let known: Vec<String> = Minor::all().map(|minor| minor.0.to_string()).collect();
        let one = json_schema!({"type": "string", "pattern": format!(r"^v?1\.({})([-.+].*)?$", known.join("|"))});
        json_schema!({
            "description": "A Kubernetes version, or a list of them. Quote it: without quotes, 1.30 is the number 1.3.",
            "anyOf": [one, {"type": "array", "minItems": 1, "items": one}],
        })
    }
}
