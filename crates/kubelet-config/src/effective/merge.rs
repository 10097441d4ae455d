//! The merge of drop-ins over the configuration of `--config` (`cmd/kubelet/app/server.go`,
//! `mergeKubeletConfigurations`). The rules changed twice:
//!
//! | versions | a drop-in | the merge |
//! |---|---|---|
//! | 1.28 | is loaded as a file of `--config`, with all defaults | each value that is not zero replaces, defaults too |
//! | 1.29 to 1.31 | is decoded strictly | JSON over the internal type: null and `resolvConf` have no effect, zero stays zero |
//! | from 1.32 | is decoded strictly, as v1beta1 | RFC 7386, then defaults once more |
//!
//! In all of them the configuration below has its defaults before the merge.

use serde_json::json;

use super::folder::DropIn;
use super::printed::is_omitted;
use super::traced::{
    Eviction, Names, decoded, default_place, in_go_form, merge_into, tree, with_defaults, with_header,
};
use super::{Origin, Origins, Refused, load, parse};
use crate::Minor;
use crate::defaults::{is_struct, is_zero, is_zero_of};
use crate::document::{Document, Entry, Node, Value, apply_merge_patch};
use crate::fields::child;
use crate::verdict::{self, Stage};

/// The first version that merges JSON.
const JSON: Minor = Minor(29);
/// The first version that merges v1beta1 and sets defaults once more.
const VERSIONED: Minor = Minor(32);
/// The first version that applies the gates while it sets defaults.
pub(super) const DEFAULTS_APPLY_GATES: Minor = Minor(32);
/// The first version that fills in `evictionHard` only while it loads a file.
const EVICTION_OF_FILES: Minor = Minor(26);

/// Returns the configuration of a kubelet without `--config`: other defaults, to keep the meaning of its flags
/// (`cmd/kubelet/app/options/options.go`, `applyLegacyDefaults`).
pub(super) fn without_config(minor: Minor) -> Node {
    let legacy = json!({
        "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"},
        "readOnlyPort": 10255,
    });
    let eviction = if minor >= EVICTION_OF_FILES { Eviction::Left } else { Eviction::Filled };
    let none = Node::empty_mapping(default_place());
    with_defaults(&tree(&legacy, &default_place()), minor, &none, eviction)
}

/// Merges drop-ins, in order, over a configuration with defaults.
pub(super) fn drop_ins(
    mut base: Node,
    files: Vec<DropIn<'_>>,
    minor: Minor,
    of_flags: &Document,
    origins: &Origins,
) -> Result<Node, Refused> {
    // From 1.32 on, the kubelet merges over the configuration as it prints it. Before, its own type has other names
    // than the drop-ins, so that no drop-in removes a value of the base.
    let below = if minor >= VERSIONED { omit(&base, "", minor) } else { Node::empty_mapping(default_place()) };
    let mut merged = below;
    for DropIn { path, text } in files {
        let by = Origin::DropIn(path.clone());
        let text = text.map_err(|reason| Refused::new(by.clone(), reason))?;
        if minor < JSON {
            override_with(&mut base, load(&path, text, minor, of_flags, origins, by)?, "", minor);
        } else {
            merged = apply_merge_patch(Some(merged), &read(&path, text, minor, &by, origins)?.root);
        }
    }
    if minor < JSON {
        return Ok(base);
    }
    let names = if minor >= VERSIONED { Names::Folded } else { Names::Internal };
    let document = Document { root: with_header(decoded(&merged, "", minor, names)), ..super::empty() };
    let refusals = verdict::load_refusals(&document, minor);
    if !refusals.is_empty() {
        return Err(Refused::by_rules(Stage::Load, refusals, origins, &document));
    }
    if minor < VERSIONED {
        merge_into(&mut base, document.root);
        return Ok(in_go_form(base, minor));
    }
    super::check_gates(&super::overlaid(Some(of_flags), &document), minor, origins)?;
    Ok(with_defaults(&document.root, minor, &of_flags.root, Eviction::Left))
}

/// Reads a drop-in as an untyped map. Duplicate keys and a wrong header stop the kubelet; unknown fields do not.
fn read(path: &str, text: &str, minor: Minor, by: &Origin, origins: &Origins) -> Result<Document, Refused> {
    let (document, findings) = parse(path, text, by)?;
    if let Some(duplicate) = findings.into_iter().find(|finding| finding.code == "duplicate-key") {
        return Err(Refused::new(by.clone(), duplicate.message));
    }
    let refusals = verdict::untyped_refusals(&document, minor, minor >= VERSIONED);
    if refusals.is_empty() {
        return Ok(document);
    }
    Err(Refused::by_rules(Stage::Load, refusals, origins, &document))
}

/// The configuration without the lists, maps and zero values that the kubelet omits when it prints it.
fn omit(node: &Node, parent: &str, minor: Minor) -> Node {
    let Value::Mapping(map) = &node.value else { return node.clone() };
    let keep = |(key, entry): (&String, &Entry)| {
        let field = child(parent, key);
        let value = match field {
            Some(field) if is_struct(field) => omit(&entry.value, &field.path, minor),
            _ => entry.value.clone(),
        };
        let is_lost = field.is_some_and(|field| is_omitted(&value, field, minor));
        (!is_lost).then(|| (key.clone(), Entry { value, ..entry.clone() }))
    };
    Node { value: Value::Mapping(map.iter().filter_map(keep).collect()), place: node.place.clone() }
}

/// Merges a loaded drop-in as mergo does with `WithOverride`: values that are not zero replace, objects merge.
fn override_with(base: &mut Node, over: Node, parent: &str, minor: Minor) {
    let (Value::Mapping(base), Value::Mapping(over)) = (&mut base.value, over.value) else { return };
    for (key, entry) in over {
        let field = child(parent, &key);
        let is_empty = match &entry.value.value {
            Value::Mapping(map) => map.is_empty(),
            Value::Sequence(list) => list.is_empty(),
            Value::Scalar(_) => {
                let json = entry.value.to_json();
                field.map_or_else(|| is_zero(&json), |field| is_zero_of(field, &json, minor))
            }
        };
        if is_empty {
            continue;
        }
        match base.get_mut(&key) {
            Some(Entry { value, .. }) if value.mapping().is_some() && entry.value.mapping().is_some() => {
                override_with(value, entry.value, field.map_or("", |field| &field.path), minor);
            }
            _ => {
                base.insert(key, entry);
            }
        }
    }
}
