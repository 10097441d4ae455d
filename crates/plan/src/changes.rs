//! Changes of the values that a kubelet runs, each with its risk, and values that it would lose.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use kubelet_config::Minor;
use kubelet_config::capacity::Capacity;
use kubelet_config::document::{Document, Entry, FieldChange, Mapping, Node, Value, changes, path_of};
use kubelet_config::effective::{self, EffectiveChange, ValueChange};
use kubelet_config::fields::{self, secrets};
use kubelet_config::risk::removals::{self, Removal};
use kubelet_config::risk::{self, Class, Risk};
use nodecfg_contract::{ConfigSource, Placement};
use nodecfg_observed::{OwnValues, UnreadReason};

/// Changed fields of the nodes that leave one configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeSet {
    /// Size of the nodes. `None`: all nodes of the pool have the same target.
    pub size: Option<Capacity>,
    /// Current configuration; `None`: the local configuration, whose content is unknown.
    pub from: Option<ConfigSource>,
    /// Placement of the current configuration; `None` if it is unknown, and for the local configuration.
    pub placement: Option<Placement>,
    /// Number of nodes. A node in transition counts for both its configurations.
    pub nodes: usize,
    /// Whether kubelets merge the new configuration over the node's own. A field that it does not name then has the node's
    /// own value.
    pub merged: bool,
    /// Whether fields may change that no configuration names: with another placement, they get the nodes' own values, or
    /// lose them.
    pub may_change_more: bool,
    /// Whether the current content is known, if only of sampled nodes. If not, every field of the new content is listed
    /// as added.
    pub from_known: bool,
    /// Sample of the nodes, if their current content is unknown and some were asked.
    pub sample: Option<Sample>,
    /// Changes per field.
    pub fields: Vec<ChangedField>,
}

impl ChangeSet {
    /// Reports whether both sides of all changes are known, so that the risk is known.
    #[must_use]
    pub fn has_risk(&self) -> bool {
        self.from_known && !self.may_change_more && self.fields.iter().all(|field| field.risk.is_some())
    }

    /// Reports whether the current content is known only of sampled nodes.
    #[must_use]
    pub(crate) fn is_sampled(&self) -> bool {
        self.sample.is_some_and(|sample| sample.read > 0)
    }
}

/// A changed field with its risk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangedField {
    /// The change as written. Both values are unset if only a default changes.
    #[serde(flatten)]
    pub change: FieldChange,
    /// The default in effect instead of the old value. Unset without one, and if the kubelet versions of the nodes have
    /// different ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_default: Option<String>,
    /// The default in effect instead of the new value. Unset without one, and if the kubelet versions of the nodes have
    /// different ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_default: Option<String>,
    /// Whether the value in effect stays the same, so that no kubelet notices the change.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_effect: bool,
    /// The distinct changes of the value in effect, over the kubelet versions of the nodes. Empty if both sides of the
    /// change are known and no kubelet notices it.
    #[serde(skip)]
    pub in_effect: Vec<ValueChange>,
    /// Effect on a node with running pods; `None` if only one side of the change is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk: Option<Risk>,
    /// What the nodes lose if the loss harms them: the configuration replaces theirs and omits the field, or has another
    /// place for static pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<&'static Removal>,
}

impl ChangedField {
    /// Reports whether the new configuration has a value. Null means unset.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.change.new.as_deref().is_some_and(|new| new != "null")
    }
}

/// A field that nodes run and the new configuration omits, so that it returns to the default.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OmittedField {
    /// Path of the field.
    pub path: String,
    /// The value that the nodes run, in canonical form. Unset if nodes run different ones, or if it may be secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<String>,
}

/// The omitted ones of these fields, by path.
pub(super) fn omitted_fields<'a>(fields: impl Iterator<Item = &'a ChangedField>) -> Vec<OmittedField> {
    let mut omitted: BTreeMap<&str, Option<&str>> = BTreeMap::new();
    for field in fields {
        let ChangedField { change, old_default, .. } = field;
        let Some(old) = change.old.as_deref().or(old_default.as_deref()).filter(|_| !field.is_set()) else {
            continue;
        };
        // A field that no kubelet knows has no effect.
        if fields::lookup(change.path.split(['.', '[']).next().unwrap_or_default()).is_none() {
            continue;
        }
        let running = Some(old).filter(|old| !old.contains(secrets::NOT_SHOWN));
        let known = omitted.entry(&change.path).or_insert(running);
        *known = known.filter(|known| Some(*known) == running);
    }
    let field = |(path, running): (&str, Option<&str>)| OmittedField {
        path: path.to_owned(),
        running: running.map(str::to_owned),
    };
    omitted.into_iter().map(field).collect()
}

/// The highest class of changed fields; `None` if none has a known class.
pub(super) fn worst<'a>(fields: impl IntoIterator<Item = &'a ChangedField>) -> Option<Class> {
    fields.into_iter().filter_map(|field| field.risk.as_ref()).map(|risk| risk.class).max()
}

/// Returns the changed fields between two configurations with their risk: the highest over kubelets of these versions,
/// whose defaults count as set. An unknown configuration counts as empty, and its changes have no known risk.
#[must_use]
pub fn changed_fields(
    old: Option<&Document>,
    new: Option<&Document>,
    minors: &BTreeSet<Option<Minor>>,
) -> Vec<ChangedField> {
    let (Some(old), Some(new)) = (old, new) else {
        return changes(old, new).into_iter().map(without_risk).collect();
    };
    let field = |found: EffectiveChange| {
        let loss = removals::loss(&found, new);
        // Redacted first, so that the checker computes the same risk.
        let (path, change) = (found.change.path.clone(), redacted(found.change));
        let in_effect: Vec<ValueChange> = found.in_effect.into_iter().map(|pair| redacted_pair(&path, pair)).collect();
        let risks = in_effect.iter().map(|pair| risk_of(&path, pair, old, new));
        let worst = risks.reduce(|worst, next| if next.class > worst.class { next } else { worst });
        ChangedField {
            change,
            old_default: found.old_default.map(|value| secrets::redacted(&path, &value)),
            new_default: found.new_default.map(|value| secrets::redacted(&path, &value)),
            no_effect: in_effect.is_empty(),
            in_effect,
            risk: Some(worst.unwrap_or_else(Risk::no_effect)),
            loss,
        }
    };
    effective::changes(old, new, minors).into_iter().map(field).collect()
}

/// Returns the changed fields between two configurations with these placements. The risk of a field is unknown if an
/// overlay does not name it, because the node's own value takes its place. The placement of the old configuration may be
/// unknown.
#[must_use]
pub fn placed_fields(
    old: (&Document, Option<Placement>),
    new: (&Document, Placement),
    minors: &BTreeSet<Option<Minor>>,
) -> Vec<ChangedField> {
    returning_fields(old, new, None, minors)
}

/// As [`placed_fields`], for nodes whose own values are known for the fields that leave an overlay: these are the next
/// values.
pub(super) fn returning_fields(
    old: (&Document, Option<Placement>),
    new: (&Document, Placement),
    own: Option<&OwnValues>,
    minors: &BTreeSet<Option<Minor>>,
) -> Vec<ChangedField> {
    let replaces = (old.1 == Some(Placement::Replace), new.1 == Placement::Replace);
    let left = own.map(|_| leaving(old.0, new.0)).unwrap_or_default();
    let next = own.map(|own| with_own(new.0, old.0, own));
    let placed = |mut field: ChangedField| {
        if left.contains(&field.change.path) {
            // The value is on no line of the repository.
            field.change.place = None;
        }
        match (&field.change.old, &field.change.new) {
            // A default that depends on another field. The node's own value decides.
            (None, None) if replaces != (true, true) => None,
            (named, renamed) => {
                let has_no_own = || own.is_some_and(|own| own.complete) && !field.change.path.contains(['.', '[']);
                let is_known = (named.is_some() || replaces.0) && (renamed.is_some() || replaces.1 || has_no_own());
                Some(if is_known { field } else { without_risk(field.change) })
            }
        }
    };
    changed_fields(Some(old.0), Some(next.as_ref().unwrap_or(new.0)), minors).into_iter().filter_map(placed).collect()
}

/// A change of which only one side is known.
pub(super) fn without_risk(change: FieldChange) -> ChangedField {
    let change = redacted(change);
    ChangedField {
        change,
        old_default: None,
        new_default: None,
        no_effect: false,
        in_effect: Vec::new(),
        risk: None,
        loss: None,
    }
}

/// Redacts values that may be secrets, or contain one.
fn redacted(mut change: FieldChange) -> FieldChange {
    for value in change.old.iter_mut().chain(&mut change.new) {
        *value = secrets::redacted(&change.path, value);
    }
    change
}

fn redacted_pair(path: &str, mut pair: ValueChange) -> ValueChange {
    for value in pair.old.iter_mut().chain(&mut pair.new) {
        *value = secrets::redacted(path, value);
    }
    pair
}

/// Risk of a change by the risk table, without state files that neither configuration uses.
fn risk_of(path: &str, pair: &ValueChange, old: &Document, new: &Document) -> Risk {
    let mut risk = risk::of_change(path, pair.old.as_deref(), pair.new.as_deref());
    risk.state_files.retain(|file| {
        let (field, value) = file.policy();
        [old, new].iter().any(|document| document.root.get(field).and_then(Node::text) == Some(value))
    });
    risk
}

/// An omitted field whose loss harms the nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LostField {
    /// The field.
    #[serde(flatten)]
    pub omitted: OmittedField,
    /// What the loss means.
    pub loss: &'static Removal,
}

/// What the nodes lose, and the consequences. `None` if they lose nothing.
#[must_use]
pub fn sentence(lost: &[LostField]) -> Option<String> {
    let (paths, consequences) = (paths(lost), consequences(lost));
    (!lost.is_empty()).then(|| format!("its nodes lose {paths}, which the configuration omits. {consequences}"))
}

/// The paths of lost fields, as a list.
#[must_use]
pub fn paths(lost: &[LostField]) -> String {
    lost.iter().map(|field| field.omitted.path.as_str()).collect::<Vec<_>>().join(", ")
}

/// Each lost field with its consequence.
fn consequences(lost: &[LostField]) -> String {
    let texts: BTreeMap<&str, &str> = lost.iter().map(|field| (&*field.loss.field, &*field.loss.consequence)).collect();
    let text = |(field, consequence): (&str, &str)| format!("{field}: {consequence}");
    texts.into_iter().map(text).collect::<Vec<_>>().join(" ").trim_end_matches('.').to_owned()
}

/// Answers of some nodes with an unknown configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    /// Number of asked nodes.
    pub asked: usize,
    /// Number of nodes whose configuration was read. The changes of the group are those of the riskiest one, with what the
    /// others lose.
    pub read: usize,
    /// Number of read nodes with these changes.
    pub same: usize,
    /// Why the configuration of another asked node was not read. Unset if all were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread: Option<UnreadReason>,
}

impl Sample {
    /// The answers of both groups.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            asked: self.asked + other.asked,
            read: self.read + other.read,
            same: self.same + other.same,
            unread: self.unread.max(other.unread),
        }
    }
}

/// Paths of the fields that one overlay names and the next one does not.
pub(super) fn leaving(old: &Document, new: &Document) -> BTreeSet<String> {
    let left = changes(Some(old), Some(new)).into_iter().filter(|change| change.old.is_some() && change.new.is_none());
    left.map(|change| change.path).collect()
}

/// The next overlay with the own values of the fields that leave the old one.
pub(super) fn with_own(new: &Document, old: &Document, own: &OwnValues) -> Document {
    let root = node_with_own(Some(&new.root), &old.root, "", own);
    Document { root: root.unwrap_or_else(|| new.root.clone()), syntax: new.syntax }
}

/// `new` with the own values of the fields that only `old` names. `None` without any value.
fn node_with_own(new: Option<&Node>, old: &Node, parent: &str, own: &OwnValues) -> Option<Node> {
    let Some(fields) = old.mapping().filter(|_| new.is_none_or(|new| new.mapping().is_some())) else {
        return new.cloned();
    };
    let mut map: Mapping = new.and_then(Node::mapping).cloned().unwrap_or_default();
    for (key, entry) in fields {
        let path = path_of(parent, key);
        let named = map.get(key).map(|entry| &entry.value);
        let value = match own.values.get(&path).filter(|_| named.is_none()) {
            Some(text) => value_of(text),
            None => node_with_own(named, &entry.value, &path, own),
        };
        if let Some(value) = value {
            map.insert(key.clone(), Entry { value, ..entry.clone() });
        }
    }
    let place = new.unwrap_or(old).place.clone();
    (new.is_some() || !map.is_empty()).then_some(Node { value: Value::Mapping(map), place })
}

/// Reads a value in JSON.
fn value_of(text: &str) -> Option<Node> {
    const KEY: &str = "value";
    Document::parse("own", &format!("{{\"{KEY}\": {text}}}")).document?.root.get(KEY).cloned()
}
