//! Reading of Nodes and NodeConfigs with unreadable values. The credentials of a single node suffice to write such a
//! value, for example a time of the year 9999, so it must not make the list of all nodes unreadable.
//!
//! An object that decodes as a whole costs nothing extra. Otherwise its fields are decoded one by one: an unreadable
//! field counts as unset, and the object carries the first one. Only an object without a readable name is an error.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::wire::{NodeMeta, WireNode, WireNodeSpec, WireNodeStatus};
use nodecfg_contract::UnreadableField;
use nodecfg_contract::nodeconfig::{Metadata, NodeConfig, NodeConfigSpec, NodeConfigStatus};
use nodecfg_contract::printable::{at_most, one_line};
use nodecfg_observed::CreationTime;

/// Maximum length of a reason in characters. Decoders quote values, which may be long.
const MAX_REASON: usize = 160;

/// JSON object whose values are not decoded yet.
pub(crate) type Fields<'a> = BTreeMap<String, &'a RawValue>;

/// First unreadable field of an object, if any.
#[derive(Default)]
pub(crate) struct Damage(Option<UnreadableField>);

impl Damage {
    /// Decodes one field. An unreadable field is noted and, like a missing one, yields the default.
    pub(crate) fn take<'a, T: Deserialize<'a> + Default>(&mut self, fields: &Fields<'a>, path: &str, key: &str) -> T {
        let Some(raw) = fields.get(key) else { return T::default() };
        // An optional field may be null.
        match serde_json::from_str::<Option<T>>(raw.get()) {
            Ok(value) => value.unwrap_or_default(),
            Err(error) => {
                let field = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
                self.0.get_or_insert_with(|| UnreadableField { field, reason: reason(&error) });
                T::default()
            }
        }
    }
}

/// Text of a decoder's error without its place, which refers to the value alone. Without semicolons, because the text
/// may quote the value, and reports print a fix after a semicolon.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let text = text.strip_suffix(&place).unwrap_or(&text).replace(';', ",");
    one_line(&at_most(&text, MAX_REASON))
}

/// Creation time of a Node. An unreadable one counts as unknown.
fn created(metadata: &Fields<'_>) -> Option<CreationTime> {
    let text: String = serde_json::from_str(metadata.get("creationTimestamp")?.get()).ok()?;
    CreationTime::parse(&text)
}

/// Fields of the object and of its metadata. Fails unless the name is readable.
fn fields<'a>(item: &'a [u8], damage: &mut Damage) -> serde_json::Result<(Fields<'a>, Fields<'a>, String)> {
    #[derive(Deserialize)]
    struct Named {
        metadata: NameOnly,
    }
    #[derive(Deserialize)]
    struct NameOnly {
        name: String,
    }
    let name = serde_json::from_slice::<Named>(item)?.metadata.name;
    let object: Fields<'a> = serde_json::from_slice(item)?;
    let metadata = damage.take(&object, "", "metadata");
    Ok((object, metadata, name))
}

impl WireNode {
    /// Reads a Node from JSON.
    ///
    /// # Errors
    /// The JSON is no object with a name.
    pub(crate) fn read(item: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(item).or_else(|_| Self::salvage(item))
    }

    fn salvage(item: &[u8]) -> serde_json::Result<Self> {
        let mut damage = Damage::default();
        let (object, metadata, name) = fields(item, &mut damage)?;
        let spec: Fields<'_> = damage.take(&object, "", "spec");
        let status: Fields<'_> = damage.take(&object, "", "status");
        Ok(Self {
            metadata: NodeMeta {
                name,
                uid: damage.take(&metadata, "metadata", "uid"),
                labels: damage.take(&metadata, "metadata", "labels"),
                annotations: damage.take(&metadata, "metadata", "annotations"),
                created: created(&metadata),
                deletion_timestamp: damage.take(&metadata, "metadata", "deletionTimestamp"),
            },
            spec: Some(WireNodeSpec {
                config_source: damage.take(&spec, "spec", "configSource"),
                pod_cidr: damage.take(&spec, "spec", "podCIDR"),
                unschedulable: damage.take(&spec, "spec", "unschedulable"),
                taints: damage.take(&spec, "spec", "taints"),
            }),
            status: Some(WireNodeStatus {
                config: damage.take(&status, "status", "config"),
                conditions: damage.take(&status, "status", "conditions"),
                node_info: damage.take(&status, "status", "nodeInfo"),
                capacity: damage.take(&status, "status", "capacity"),
                allocatable: damage.take(&status, "status", "allocatable"),
            }),
            unreadable: damage.0,
        })
    }
}

/// Reads a NodeConfig from JSON. Unlike in the agent, which replaces its status, an unreadable status makes the
/// NodeConfig unreadable.
///
/// # Errors
/// The JSON is no object with a name.
pub(crate) fn read_node_config(item: &[u8]) -> serde_json::Result<NodeConfig> {
    #[derive(Deserialize)]
    struct Whole {
        metadata: Metadata,
        spec: Option<NodeConfigSpec>,
        status: Option<NodeConfigStatus>,
    }
    if let Ok(Whole { metadata, spec, status }) = serde_json::from_slice(item) {
        let (spec, status) = (spec.unwrap_or_default(), status.unwrap_or_default());
        return Ok(NodeConfig { metadata, spec, status, unreadable: None });
    }
    let mut damage = Damage::default();
    let (object, metadata, name) = fields(item, &mut damage)?;
    Ok(NodeConfig {
        metadata: Metadata {
            name,
            uid: damage.take(&metadata, "metadata", "uid"),
            generation: damage.take(&metadata, "metadata", "generation"),
            owner_references: damage.take(&metadata, "metadata", "ownerReferences"),
            creation_timestamp: damage.take(&metadata, "metadata", "creationTimestamp"),
            deletion_timestamp: damage.take(&metadata, "metadata", "deletionTimestamp"),
            finalizers: damage.take(&metadata, "metadata", "finalizers"),
        },
        spec: damage.take(&object, "", "spec"),
        status: damage.take(&object, "", "status"),
        unreadable: damage.0,
    })
}

#[cfg(test)]
#[path = "salvage_tests.rs"]
mod tests;
