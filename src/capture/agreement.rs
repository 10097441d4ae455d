//! Comparison of several nodes' configurations: their common configuration and their differences.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value as Json};

use super::configz::{NodeConfiguration, OmissionReason, OmittedField, path};
use nodecfg_contract::names::NodeName;

/// Fields that are omitted when they differ: the most common value would be wrong on every other node.
const NEVER_SHARED: [&str; 2] = ["address", "healthzBindAddress"];

/// Common configuration of several nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct Common {
    /// The nodes, by name.
    pub nodes: Vec<NodeName>,
    /// For every field, the value that most nodes have.
    pub configuration: Map<String, Json>,
    /// Fields that differ, by path.
    pub differences: Vec<Difference>,
    /// Fields that the configurations or their common configuration omit.
    pub left_out: Vec<OmittedField>,
}

/// Field that differs between nodes.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Differing")]
pub struct Difference {
    /// Path of the field.
    pub field: String,
    /// Values, the most common first.
    #[serde(rename = "values")]
    pub shares: Vec<Share>,
}

/// Value and its nodes.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Held")]
pub struct Share {
    /// The value; null where the field is unset.
    pub value: Option<Json>,
    /// The nodes, by name.
    pub nodes: Vec<NodeName>,
}

/// Compares nodes. Of equally common values, uses the value of the first node by name.
#[must_use]
pub fn common(captured: &[NodeConfiguration]) -> Common {
    let mut captured: Vec<&NodeConfiguration> = captured.iter().collect();
    captured.sort_by(|a, b| a.node.cmp(&b.node));
    let mut left_out: BTreeSet<OmittedField> = captured.iter().flat_map(|one| one.left_out.iter().cloned()).collect();
    let mut configuration = Map::new();
    let mut differences = Vec::new();
    for names in leaves(&captured) {
        let shares = shares(&captured, &names);
        let Some(most) = shares.first() else { continue };
        let field = path(&names);
        if shares.len() > 1 && NEVER_SHARED.contains(&field.as_str()) {
            left_out.insert(OmittedField { field: field.clone(), why: OmissionReason::Differs });
        } else if let Some(value) = &most.value {
            insert_at(&mut configuration, &names, value.clone());
        }
        if shares.len() > 1 {
            differences.push(Difference { field, shares });
        }
    }
    let nodes = captured.iter().map(|one| one.node.clone()).collect();
    Common { nodes, configuration, differences, left_out: left_out.into_iter().collect() }
}

/// Paths of the compared values: values other than maps, and maps that are empty or not a map on some node.
fn leaves(captured: &[&NodeConfiguration]) -> BTreeSet<Vec<String>> {
    let mut leaves = BTreeSet::new();
    let mut todo = vec![Vec::new()];
    while let Some(prefix) = todo.pop() {
        let maps: Vec<&Map<String, Json>> =
            captured.iter().filter_map(|one| map_at(&one.configuration, &prefix)).collect();
        let keys: BTreeSet<&String> = maps.iter().flat_map(|map| map.keys()).collect();
        for key in keys {
            let names: Vec<String> = prefix.iter().chain([key]).cloned().collect();
            let is_map = |value: &Json| value.as_object().is_some_and(|map| !map.is_empty());
            let all_maps = maps.iter().filter_map(|map| map.get(key)).all(is_map);
            if all_maps {
                todo.push(names);
            } else {
                leaves.insert(names);
            }
        }
    }
    leaves
}

fn map_at<'m>(map: &'m Map<String, Json>, names: &[String]) -> Option<&'m Map<String, Json>> {
    names.iter().try_fold(map, |map, name| map.get(name)?.as_object())
}

fn value_at<'m>(map: &'m Map<String, Json>, names: &[String]) -> Option<&'m Json> {
    let (last, parents) = names.split_last()?;
    map_at(map, parents)?.get(last)
}

fn shares(captured: &[&NodeConfiguration], names: &[String]) -> Vec<Share> {
    // By the text of the value, with the index of its first node.
    let mut shares: BTreeMap<Option<String>, (usize, Share)> = BTreeMap::new();
    for (number, one) in captured.iter().enumerate() {
        let value = value_at(&one.configuration, names);
        let (_, share) = shares
            .entry(value.map(Json::to_string))
            .or_insert_with(|| (number, Share { value: value.cloned(), nodes: Vec::new() }));
        share.nodes.push(one.node.clone());
    }
    let mut shares: Vec<(usize, Share)> = shares.into_values().collect();
    shares.sort_by_key(|(first, share)| (Reverse(share.nodes.len()), *first));
    shares.into_iter().map(|(_, share)| share).collect()
}

fn insert_at(map: &mut Map<String, Json>, names: &[String], value: Json) {
    match names {
        [] => {}
        [name] => {
            map.insert(name.clone(), value);
        }
        [name, rest @ ..] => {
            let inner = map.entry(name.clone()).or_insert_with(|| Json::Object(Map::new()));
            if let Json::Object(inner) = inner {
                insert_at(inner, rest, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn node(name: &str, configuration: Json) -> NodeConfiguration {
        NodeConfiguration {
            node: NodeName::new(name).unwrap(),
            minor: None,
            configuration: configuration.as_object().unwrap().clone(),
            left_out: Vec::new(),
        }
    }

    #[test]
    fn uses_the_most_common_value_and_lists_the_others() {
        let all = [
            node("c", json!({"maxPods": 250, "a": {"b": 1, "c": 2}, "evictionHard": {}})),
            node("a", json!({"maxPods": 110, "a": {"b": 1}, "evictionHard": {"x": "1"}})),
            node("b", json!({"maxPods": 250, "a": {"b": 1}, "evictionHard": {"x": "1"}})),
        ];
        let common = common(&all);
        assert_eq!(
            Json::Object(common.configuration),
            json!({"maxPods": 250, "a": {"b": 1}, "evictionHard": {"x": "1"}})
        );
        type Listed = (String, Vec<(Option<Json>, usize)>);
        let listed: Vec<Listed> = common
            .differences
            .into_iter()
            .map(|one| (one.field, one.shares.into_iter().map(|share| (share.value, share.nodes.len())).collect()))
            .collect();
        assert_eq!(
            listed,
            [
                ("a.c".to_owned(), vec![(None, 2), (Some(json!(2)), 1)]),
                ("evictionHard".to_owned(), vec![(Some(json!({"x": "1"})), 2), (Some(json!({})), 1)]),
                ("maxPods".to_owned(), vec![(Some(json!(250)), 2), (Some(json!(110)), 1)]),
            ]
        );
    }

    #[test]
    fn omits_the_address_of_a_node() {
        let common = common(&[node("a", json!({"address": "10.0.0.1"})), node("b", json!({"address": "10.0.0.2"}))]);
        assert_eq!(common.configuration.get("address"), None);
        assert_eq!(common.left_out, [OmittedField { field: "address".to_owned(), why: OmissionReason::Differs }]);
        assert_eq!(common.differences[0].shares[0].nodes[0].as_str(), "a");
    }

    proptest! {
        #[test]
        fn equal_configurations_are_the_common_one(pods in 1..300_i32, gate: bool, count in 1_usize..5) {
            let value = json!({"maxPods": pods, "featureGates": {"X": gate}, "list": [1, {"a": 2}]});
            let all: Vec<NodeConfiguration> = (0..count).map(|number| node(&format!("n{number}"), value.clone())).collect();
            let common = common(&all);
            prop_assert_eq!(Json::Object(common.configuration), value);
            prop_assert!(common.differences.is_empty());
        }
    }
}
