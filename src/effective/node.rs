//! The configuration that the kubelet of a node of the cluster runs, by its own answer.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json};

use crate::arguments::cluster::BoundClusterArgs;
use crate::arguments::unknown_name::unknown_node;
use crate::report::effective::EffectiveConfiguration;
use crate::terminal::failure::CommandError;
use kubelet_config::effective::{ConfigFile, Effective, Kubelet, Origin, effective};
use kubelet_config::{API_VERSION, KIND, Minor};
use nodecfg_cluster::{CONFIGZ_PATIENCE, ClusterReader, LabelKeys};
use nodecfg_contract::names::NodeName;
use nodecfg_observed::{ConfigMapKey, Node};

/// Origin of a value that neither the ConfigMap nor a default of the version explains.
const OWN: &str = "node";

/// What the kubelet of a node answers, and which kubelet that is.
pub(crate) async fn answer(
    name: &NodeName,
    args: &BoundClusterArgs,
    changed: bool,
) -> Result<(EffectiveConfiguration, String), CommandError> {
    let reader = args.reader(LabelKeys::Only(BTreeSet::new())).await?;
    let Some(node) = reader.node(name).await? else { return Err(unknown_node(&reader, name).await) };
    let minor = node.kubelet_version.map(|version| Minor(version.minor)).filter(|minor| minor.is_known());
    let running = reader.configz(name, CONFIGZ_PATIENCE).await?;
    let assigned = active_text(&reader, &node).await?;
    let known = minor.map(|minor| known_values(minor, assigned.as_ref())).unwrap_or_default();
    let mut values = BTreeMap::new();
    flatten(running, "", &mut values);
    let with_origin = |(path, value): (String, Json)| {
        let by =
            known.get(&path).filter(|(known, _)| *known == value).map_or_else(|| OWN.to_owned(), |(_, by)| by.clone());
        (path, (value, by))
    };
    let version = node.kubelet_version.map(|version| format!("{version} ")).unwrap_or_default();
    Ok((
        EffectiveConfiguration::of_node(values.into_iter().map(with_origin), changed),
        format!("{version}of node {name}"),
    ))
}

/// Name and text of the ConfigMap that the kubelet runs. `None` for the node's own configuration.
async fn active_text(reader: &ClusterReader, node: &Node) -> Result<Option<(String, String)>, CommandError> {
    let Some(active) = &node.status.active else { return Ok(None) };
    let (Some(key), Some(map)) = (ConfigMapKey::of(active), &active.config_map) else { return Ok(None) };
    let found = reader.config_map(&key.namespace, &key.name).await?;
    let text = found.and_then(|found| found.data.get(&map.kubelet_config_key).cloned());
    Ok(text.map(|text| (format!("ConfigMap {}/{}", key.namespace, key.name), text)))
}

/// The values that a ConfigMap sets, and the defaults of a version, with their origins.
fn known_values(minor: Minor, assigned: Option<&(String, String)>) -> BTreeMap<String, (Json, String)> {
    let of_file = |text: &str| -> Option<Effective> {
        let config = Some(ConfigFile { path: "kubelet.yaml", text });
        effective(&Kubelet { minor, config, config_dir: None, drop_in_alpha: false, flags: &[] }).ok()
    };
    let defaults = of_file(&format!("apiVersion: {API_VERSION}\nkind: {KIND}\n"));
    let mut known: BTreeMap<String, (Json, String)> = BTreeMap::new();
    for (path, value) in defaults.into_iter().flat_map(|effective| effective.values) {
        known.insert(path, (value.value, Origin::Default.to_string()));
    }
    if let Some((name, text)) = assigned {
        let named = of_file(text).into_iter().flat_map(|effective| effective.values);
        for (path, value) in named.filter(|(_, value)| value.by == Origin::Config) {
            known.insert(path, (value.value, name.clone()));
        }
    }
    known
}

/// Adds the values of an object by path. A list is one value, and an empty object is none.
fn flatten(object: Map<String, Json>, parent: &str, values: &mut BTreeMap<String, Json>) {
    for (key, value) in object {
        let path = if parent.is_empty() { key } else { format!("{parent}.{key}") };
        match value {
            Json::Object(below) => flatten(below, &path, values),
            Json::Null => {}
            value => drop(values.insert(path, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_the_configmap_and_defaults_are_told_apart() {
        let text =
            format!("apiVersion: {API_VERSION}\nkind: {KIND}\nmaxPods: 60\nevictionHard: {{memory.available: 1Gi}}\n");
        let known = known_values(Minor(36), Some(&("ConfigMap ns/a".to_owned(), text)));
        let by = |path: &str| known.get(path).map(|(value, by)| (value.clone(), by.as_str()));
        assert_eq!(by("maxPods"), Some((json!(60), "ConfigMap ns/a")));
        assert_eq!(by("evictionHard.memory.available"), Some((json!("1Gi"), "ConfigMap ns/a")));
        assert_eq!(by("registryPullQPS"), Some((json!(5), "default")));
        // A text that the kubelet refuses alone, as an overlay may be, leaves the defaults.
        let refused = known_values(Minor(36), Some(&("ConfigMap ns/a".to_owned(), "maxPods: -1".to_owned())));
        assert_eq!(refused.get("maxPods").map(|(value, _)| value), Some(&json!(110)));
    }

    #[test]
    fn objects_are_flattened_and_lists_are_not() {
        let Json::Object(object) = json!({"a": {"b": 1, "c": {}}, "d": [{"e": 2}], "f": null}) else { unreachable!() };
        let mut values = BTreeMap::new();
        flatten(object, "", &mut values);
        assert_eq!(values, BTreeMap::from([("a.b".to_owned(), json!(1)), ("d".to_owned(), json!([{"e": 2}]))]));
    }
}
