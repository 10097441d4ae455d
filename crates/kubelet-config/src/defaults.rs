//! What a kubelet of one version makes of the values that a configuration leaves out: the defaults of its code
//! (`pkg/kubelet/apis/config/v1beta1/defaults.go`), filled in. Two configurations that come out alike are one to the kubelet.
//!
//! Defaults that depend on feature gates are not filled in: a value that may be one of them counts as set.

use serde_json::{Map, Value as Json};

use super::Minor;
use super::duration;
use super::fields::{Field, FieldType, child, children, items};

/// Fields whose defaults depend on a feature gate.
const GATED: [&str; 2] = ["imagePullCredentialsVerificationPolicy", "crashLoopBackOff.maxContainerRestartPeriod"];
const REPORT: &str = "nodeStatusReportFrequency";
const UPDATE: &str = "nodeStatusUpdateFrequency";
const SERIALIZE: &str = "serializeImagePulls";
const PARALLEL: &str = "maxParallelImagePulls";

/// The configuration with all defaults of this version, and with its durations as Go writes them. Fields that the version
/// does not know stay as they are.
#[must_use]
pub fn filled(configuration: &Map<String, Json>, minor: Minor) -> Map<String, Json> {
    let mut whole = configuration.clone();
    let set = |name: &str| configuration.get(name).filter(|value| !is_zero(value));
    // Since 1.27 several pulls at a time are not serialized unless the file says so.
    let several = minor >= Minor(27) && set(PARALLEL).and_then(Json::as_i64).is_some_and(|pulls| pulls > 1);
    if several && configuration.get(SERIALIZE).is_none_or(Json::is_null) {
        whole.insert(SERIALIZE.to_owned(), Json::Bool(false));
    }
    if let (None, Some(update)) = (set(REPORT), set(UPDATE)) {
        whole.insert(REPORT.to_owned(), update.clone());
    }
    fill(&mut whole, "", minor);
    whole
}

fn fill(map: &mut Map<String, Json>, parent: &str, minor: Minor) {
    for name in children(parent) {
        let Some(field) = child(parent, name).filter(|field| field.is_known_to(minor)) else { continue };
        let given = map.remove(name).filter(|value| !value.is_null());
        let value = if is_struct(field) {
            struct_of(field, given, minor)
        } else {
            value_of(field, given.map(|value| written(value, field, minor)), minor)
        };
        if let Some(value) = value {
            map.insert(name.clone(), value);
        }
    }
}

/// An object with fields of its own. One that is a pointer in Go stays unset.
fn struct_of(field: &Field, given: Option<Json>, minor: Minor) -> Option<Json> {
    match given {
        None if field.keeps_zero(minor) => None,
        None => {
            let mut map = Map::new();
            fill(&mut map, &field.path, minor);
            Some(Json::Object(map))
        }
        Some(Json::Object(mut map)) => {
            fill(&mut map, &field.path, minor);
            Some(Json::Object(map))
        }
        other => other,
    }
}

fn value_of(field: &Field, given: Option<Json>, minor: Minor) -> Option<Json> {
    let default = field.default.at(minor).filter(|value| !value.is_null()).cloned();
    let default = default.map(|value| written(value, field, minor));
    match given {
        // An empty list or map without a default is as good as none; with one, it says that it is not wanted.
        Some(value) if is_empty(&value) => default.map(|_| value),
        Some(value) if field.keeps_zero(minor) || !is_zero(&value) => Some(value),
        _ if GATED.contains(&field.path.as_str()) => None,
        _ => default.or_else(|| zero(field, minor)),
    }
}

/// Whether it is an object with fields of its own, rather than one with free keys.
#[must_use]
pub fn is_struct(field: &Field) -> bool {
    !children(&field.path).is_empty()
}

/// Whether the default of a list or a map is one that is not empty, so that an empty one means something.
#[must_use]
pub fn has_filled_default(field: &Field, minor: Minor) -> bool {
    let filled = |value: &Json| match value {
        Json::Array(list) => !list.is_empty(),
        Json::Object(map) => !map.is_empty(),
        _ => false,
    };
    !is_struct(field) && field.is_known_to(minor) && field.default.at(minor).is_some_and(filled)
}

/// The zero value of a field that is no pointer in Go.
fn zero(field: &Field, minor: Minor) -> Option<Json> {
    if field.keeps_zero(minor) {
        return None;
    }
    match field.types.at(minor)?.first()? {
        FieldType::String => Some("".into()),
        FieldType::Boolean => Some(false.into()),
        FieldType::Integer => Some(0.into()),
        FieldType::Duration => Some("0s".into()),
        FieldType::Quantity => Some("0".into()),
        FieldType::Number | FieldType::Object | FieldType::Array => None,
    }
}

/// A value as the kubelet writes it back: durations in Go's form.
fn written(value: Json, field: &Field, minor: Minor) -> Json {
    let is_duration = field.types.at(minor).is_some_and(|types| types.contains(&FieldType::Duration));
    match value {
        Json::Number(number) if is_duration => match number.as_i64() {
            Some(nanos) => Json::String(duration::go(nanos)),
            None => Json::Number(number),
        },
        Json::String(text) => match duration::nanoseconds(&text) {
            Ok(nanos) if is_duration => Json::String(duration::go(nanos)),
            _ => Json::String(text),
        },
        Json::Array(list) => match items(&field.path) {
            Some(item) => Json::Array(list.into_iter().map(|value| written(value, item, minor)).collect()),
            None => Json::Array(list),
        },
        // The values of maps, and the fields of what is in a list.
        Json::Object(map) => Json::Object(
            map.into_iter()
                .map(|(key, value)| match child(&field.path, &key) {
                    Some(field) => (key, written(value, field, minor)),
                    None => (key, value),
                })
                .collect(),
        ),
        other => other,
    }
}

/// Whether Go takes it for the zero value.
#[must_use]
pub fn is_zero(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::Bool(value) => !value,
        Json::Number(number) => number.as_f64() == Some(0.0),
        Json::String(text) => text.is_empty() || duration::nanoseconds(text) == Ok(0),
        Json::Array(_) | Json::Object(_) => false,
    }
}

fn is_empty(value: &Json) -> bool {
    match value {
        Json::Array(list) => list.is_empty(),
        Json::Object(map) => map.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn filled_of(configuration: Json, minor: u32) -> Map<String, Json> {
        filled(configuration.as_object().unwrap(), Minor(minor))
    }

    #[test]
    fn what_is_not_said_takes_the_default_of_the_version() {
        let (old, new) = (filled_of(json!({}), 21), filled_of(json!({}), 36));
        assert_eq!((&old["eventBurst"], &new["eventBurst"]), (&json!(10), &json!(100)));
        assert_eq!(new["streamingConnectionIdleTimeout"], "4h0m0s");
        assert_eq!(new["cpuCFSQuotaPeriod"], "100ms");
        assert_eq!(new["evictionHard"]["memory.available"], "100Mi");
        assert_eq!(new["authentication"]["webhook"]["cacheTTL"], "2m0s");
        assert_eq!((new.get("tracing"), old.get("seccompDefault")), (None, None));
        assert_eq!(new["logging"]["flushFrequency"], "5s");
    }

    #[test]
    fn zero_is_the_default_unless_it_is_a_pointer() {
        let whole = filled_of(json!({"maxPods": 0, "registryPullQPS": 0, "syncFrequency": "0s", "port": null}), 30);
        assert_eq!((&whole["maxPods"], &whole["registryPullQPS"]), (&json!(110), &json!(0)));
        assert_eq!((&whole["syncFrequency"], &whole["port"]), (&json!("1m0s"), &json!(10250)));
    }

    #[test]
    fn an_empty_list_says_something_where_the_default_has_values() {
        let whole = filled_of(json!({"enforceNodeAllocatable": [], "evictionHard": {}, "clusterDNS": []}), 30);
        assert_eq!((&whole["enforceNodeAllocatable"], &whole["evictionHard"]), (&json!([]), &json!({})));
        assert_eq!(whole.get("clusterDNS"), None);
        assert!(has_filled_default(child("", "evictionHard").unwrap(), Minor(30)));
        assert!(!has_filled_default(child("", "clusterDNS").unwrap(), Minor(30)));
    }

    #[test]
    fn defaults_that_hang_together() {
        let report = |text: Json| filled_of(text, 30)["nodeStatusReportFrequency"].clone();
        assert_eq!(report(json!({})), "5m0s");
        assert_eq!(report(json!({"nodeStatusUpdateFrequency": "20s"})), "20s");
        assert_eq!(report(json!({"nodeStatusUpdateFrequency": "20s", "nodeStatusReportFrequency": "1m"})), "1m0s");
        assert_eq!(filled_of(json!({"maxParallelImagePulls": 4}), 30)["serializeImagePulls"], false);
        assert_eq!(filled_of(json!({"maxParallelImagePulls": 4}), 26)["serializeImagePulls"], true);
    }

    #[test]
    fn filling_in_twice_changes_nothing() {
        for minor in Minor::all() {
            let once = filled(&Map::new(), minor);
            assert_eq!(filled(&once, minor), once, "{minor}");
        }
    }
}
