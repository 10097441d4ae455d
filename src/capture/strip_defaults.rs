//! Removal of default values from a configuration.

use serde_json::{Map, Value as Json};

use kubelet_config::Minor;
use kubelet_config::defaults::with_defaults;

/// Configuration without the values that equal the defaults of this kubelet version. Removes a value only if the
/// kubelet's effective configuration stays the same: other defaults may depend on the value.
#[must_use]
pub fn without_defaults(configuration: &Map<String, Json>, minor: Minor) -> Map<String, Json> {
    let effective = with_defaults(configuration, minor);
    let mut stripped = configuration.clone();
    // A removed value may make another one removable.
    while drop_some(&mut stripped, &effective, minor) {}
    stripped
}

fn drop_some(stripped: &mut Map<String, Json>, effective: &Map<String, Json>, minor: Minor) -> bool {
    let mut dropped = false;
    for path in paths(stripped) {
        let mut tried = stripped.clone();
        remove(&mut tried, &path);
        if with_defaults(&tried, minor) == *effective {
            *stripped = tried;
            dropped = true;
        }
    }
    dropped
}

/// Paths of all values except `apiVersion` and `kind`; outer values first.
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

    fn stripped(configuration: Json, minor: u32) -> Json {
        Json::Object(without_defaults(configuration.as_object().unwrap(), Minor(minor)))
    }

    #[test]
    fn removes_only_defaults() {
        let shown = json!({
            "apiVersion": "a", "kind": "b", "maxPods": 250, "port": 10250, "syncFrequency": "1m0s",
            "authentication": {"anonymous": {"enabled": false}, "x509": {"clientCAFile": "/ca"}},
            "evictionHard": {"memory.available": "100Mi"}, "ofTomorrow": 1,
        });
        let kept = json!({
            "apiVersion": "a", "kind": "b", "maxPods": 250, "authentication": {"x509": {"clientCAFile": "/ca"}},
            "evictionHard": {"memory.available": "100Mi"}, "ofTomorrow": 1,
        });
        assert_eq!(stripped(shown, 36), kept);
    }

    #[test]
    fn removes_defaults_of_gates() {
        let shown = json!({"crashLoopBackOff": {"maxContainerRestartPeriod": "5m0s"},
            "imagePullCredentialsVerificationPolicy": "NeverVerifyPreloadedImages"});
        assert_eq!(stripped(shown, 36), json!({}));
        let gate = json!({"featureGates": {"KubeletCrashLoopBackOffMax": true}});
        assert_eq!(stripped(gate.clone(), 34), gate, "it brings a default");
    }

    #[test]
    fn keeps_values_that_other_defaults_depend_on() {
        let both = json!({"nodeStatusUpdateFrequency": "10s", "nodeStatusReportFrequency": "5m0s"});
        assert_eq!(stripped(both, 30), json!({}));
        let reported_as_often = json!({"nodeStatusUpdateFrequency": "10s", "nodeStatusReportFrequency": "10s"});
        assert_ne!(stripped(reported_as_often, 30), json!({}));
        let pulls = json!({"maxParallelImagePulls": 3, "serializeImagePulls": false});
        assert_eq!(stripped(pulls.clone(), 30), json!({"maxParallelImagePulls": 3}));
        assert_eq!(
            stripped(json!({"evictionHard": {}, "enforceNodeAllocatable": []}), 30),
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
            choice("featureGates", vec![json!({"KubeletCrashLoopBackOffMax": true}), json!({"AllBeta": false})]),
            choice(
                "logging",
                vec![json!({"format": "text", "verbosity": 0}), json!({"flushFrequency": 5_000_000_000_i64})],
            ),
        )
            .prop_map(|(a, b, c, d, e, f, g, h, i, j)| {
                let set = [a, b, c, d, e, f, g, h, i, j].into_iter().flatten();
                Json::Object(set.map(|(name, value)| (name.to_owned(), value)).collect())
            })
    }

    proptest! {
        #[test]
        fn kubelet_gets_the_same_configuration(configuration in configurations(), minor in 12_u32..=37) {
            let whole = configuration.as_object().unwrap();
            let stripped = without_defaults(whole, Minor(minor));
            prop_assert_eq!(with_defaults(&stripped, Minor(minor)), with_defaults(whole, Minor(minor)));
            prop_assert_eq!(without_defaults(&stripped, Minor(minor)), stripped);
        }
    }
}
