//! A configuration without what the kubelet fills in by itself.

use serde_json::{Map, Value as Json};

use kubelet_config::Minor;
use kubelet_config::defaults::filled;

/// The configuration without the values that kubelets of this version take anyway. A value is only dropped where the kubelet
/// ends up with the very same configuration without it, so one that other defaults hang on stays.
#[must_use]
pub fn without_defaults(configuration: &Map<String, Json>, minor: Minor) -> Map<String, Json> {
    let meant = filled(configuration, minor);
    let mut lean = configuration.clone();
    // What one default hangs on may be droppable once the other is gone.
    while drop_some(&mut lean, &meant, minor) {}
    lean
}

fn drop_some(lean: &mut Map<String, Json>, meant: &Map<String, Json>, minor: Minor) -> bool {
    let mut dropped = false;
    for path in paths(lean) {
        let mut tried = lean.clone();
        remove(&mut tried, &path);
        if filled(&tried, minor) == *meant {
            *lean = tried;
            dropped = true;
        }
    }
    dropped
}

/// Every value but what a kubelet has to be told what it reads; outer ones first.
fn paths(map: &Map<String, Json>) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    let mut todo: Vec<(Vec<String>, &Map<String, Json>)> = vec![(Vec::new(), map)];
    while let Some((prefix, map)) = todo.pop() {
        for (key, value) in map {
            if prefix.is_empty() && (key == "apiVersion" || key == "kind") {
                continue;
            }
            let path: Vec<String> = prefix.iter().chain([key]).cloned().collect();
            if let Json::Object(inner) = value {
                todo.push((path.clone(), inner));
            }
            paths.push(path);
        }
    }
    paths
}

fn remove(map: &mut Map<String, Json>, path: &[String]) {
    match path {
        [] => {}
        [key] => {
            map.remove(key);
        }
        [key, rest @ ..] => {
            if let Some(Json::Object(inner)) = map.get_mut(key) {
                remove(inner, rest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn lean(configuration: Json, minor: u32) -> Json {
        Json::Object(without_defaults(configuration.as_object().unwrap(), Minor(minor)))
    }

    #[test]
    fn defaults_go_and_all_else_stays() {
        let shown = json!({
            "apiVersion": "a", "kind": "b", "maxPods": 250, "port": 10250, "syncFrequency": "1m0s",
            "authentication": {"anonymous": {"enabled": false}, "x509": {"clientCAFile": "/ca"}},
            "evictionHard": {"memory.available": "100Mi"}, "ofTomorrow": 1,
        });
        let kept = json!({
            "apiVersion": "a", "kind": "b", "maxPods": 250, "authentication": {"x509": {"clientCAFile": "/ca"}},
            "evictionHard": {"memory.available": "100Mi"}, "ofTomorrow": 1,
        });
        assert_eq!(lean(shown, 36), kept);
    }

    #[test]
    fn what_another_default_hangs_on_stays() {
        let both = json!({"nodeStatusUpdateFrequency": "10s", "nodeStatusReportFrequency": "5m0s"});
        assert_eq!(lean(both, 30), json!({}));
        let reported_as_often = json!({"nodeStatusUpdateFrequency": "10s", "nodeStatusReportFrequency": "10s"});
        assert_ne!(lean(reported_as_often, 30), json!({}));
        let pulls = json!({"maxParallelImagePulls": 3, "serializeImagePulls": false});
        assert_eq!(lean(pulls.clone(), 30), json!({"maxParallelImagePulls": 3}));
        assert_eq!(
            lean(json!({"evictionHard": {}, "enforceNodeAllocatable": []}), 30),
            json!({"evictionHard": {}, "enforceNodeAllocatable": []})
        );
    }

    fn configurations() -> impl Strategy<Value = Json> {
        let choice = |name: &'static str, values: Vec<Json>| {
            proptest::option::of(proptest::sample::select(values))
                .prop_map(move |value| value.map(|value| (name, value)))
        };
        (
            choice("maxPods", vec![json!(0), json!(110), json!(7)]),
            choice("nodeStatusUpdateFrequency", vec![json!("0s"), json!("10s"), json!("5m")]),
            choice("nodeStatusReportFrequency", vec![json!("10s"), json!("5m0s"), json!("300s")]),
            choice("serializeImagePulls", vec![json!(true), json!(false), Json::Null]),
            choice("maxParallelImagePulls", vec![json!(1), json!(5), Json::Null]),
            choice("evictionHard", vec![json!({}), json!({"memory.available": "100Mi"}), Json::Null]),
            choice("authentication", vec![json!({}), json!({"webhook": {"enabled": true, "cacheTTL": "120s"}})]),
            choice("eventBurst", vec![json!(10), json!(100)]),
            choice(
                "logging",
                vec![json!({"format": "text", "verbosity": 0}), json!({"flushFrequency": 5_000_000_000_i64})],
            ),
        )
            .prop_map(|(a, b, c, d, e, f, g, h, i)| {
                let set = [a, b, c, d, e, f, g, h, i].into_iter().flatten();
                Json::Object(set.map(|(name, value)| (name.to_owned(), value)).collect())
            })
    }

    proptest! {
        #[test]
        fn a_kubelet_makes_the_same_of_it(configuration in configurations(), minor in 12_u32..=37) {
            let whole = configuration.as_object().unwrap();
            let lean = without_defaults(whole, Minor(minor));
            prop_assert_eq!(filled(&lean, Minor(minor)), filled(whole, Minor(minor)));
            prop_assert_eq!(without_defaults(&lean, Minor(minor)), lean);
        }
    }
}
