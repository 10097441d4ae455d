//! The defaults of one kubelet version, filled into a configuration (`pkg/kubelet/apis/config/v1beta1/defaults.go`).
//! Two configurations with equal results are the same to the kubelet.
//!
//! Also the values that the kubelet writes into its own configuration at its start, so that `configz` shows them although
//! no file has them. A value counts as filled in if the kubelet would fill in the same one again. So a configuration
//! without it means the same, even if a person wrote it. Other values in `configz` may come from the host, too, and stay:
//!
//! - `cgroupDriver`, since 1.35 that of the container runtime (kubernetes/kubernetes#134743). Only some runtimes report
//!   it, and with others a kubelet without the field does not start;
//! - the own certificate below another folder than the default of `--cert-dir`: a person may have made it;
//! - flags of the kubelet.

use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock};

use serde_json::{Map, Value as Json};

use super::Minor;
use super::fields::{Field, FieldType, child, children, items};
use super::gates::{self, EnabledGates};
use crate::values::duration;

/// Fields whose defaults depend on a feature gate, which must be on: path, gate, default.
const GATED: [(&str, &str, &str); 2] = [
    ("imagePullCredentialsVerificationPolicy", "KubeletEnsureSecretPulledImages", "NeverVerifyPreloadedImages"),
    ("crashLoopBackOff.maxContainerRestartPeriod", "KubeletCrashLoopBackOffMax", "5m0s"),
];
const REPORT: &str = "nodeStatusReportFrequency";
const UPDATE: &str = "nodeStatusUpdateFrequency";
const EVICTION: &str = "evictionHard";
const MERGE_EVICTION: &str = "mergeDefaultEvictionSettings";
const SERIALIZE: &str = "serializeImagePulls";
const PARALLEL: &str = "maxParallelImagePulls";

/// Returns the configuration with all defaults of this version, and with durations in Go's form. Fields that the
/// version does not have stay unchanged.
#[must_use]
pub fn with_defaults(configuration: &Map<String, Json>, minor: Minor) -> Map<String, Json> {
    Defaults { minor, eviction: true, gates: None, enabled: None }.fill(configuration)
}

/// How a kubelet sets defaults.
pub(crate) struct Defaults<'g> {
    /// The version.
    pub(crate) minor: Minor,
    /// Whether `evictionHard` has a default. Since 1.26 it has one only in a file of `--config`.
    pub(crate) eviction: bool,
    /// Gates of the command line. Those of the configuration override them.
    pub(crate) gates: Option<&'g Map<String, Json>>,
    /// The effective gates, if the caller has them.
    pub(crate) enabled: Option<&'g EnabledGates>,
}

impl Defaults<'_> {
    /// Returns the configuration with all defaults, as [`with_defaults`] does.
    pub(crate) fn fill(&self, configuration: &Map<String, Json>) -> Map<String, Json> {
        let minor = self.minor;
        let mut whole = configuration.clone();
        let set = |name: &str| {
            configuration.get(name).filter(|value| child("", name).is_none_or(|field| !is_zero_of(field, value, minor)))
        };
        // Since 1.27 several parallel pulls are not serialized unless the file sets serializeImagePulls.
        let several = minor >= Minor(27) && set(PARALLEL).and_then(Json::as_i64).is_some_and(|pulls| pulls > 1);
        if several && configuration.get(SERIALIZE).is_none_or(Json::is_null) {
            whole.insert(SERIALIZE.to_owned(), Json::Bool(false));
        }
        if let (None, Some(update)) = (set(REPORT), set(UPDATE)) {
            whole.insert(REPORT.to_owned(), update.clone());
        }
        if self.eviction && whole.get(MERGE_EVICTION) == Some(&Json::Bool(true)) {
            merge_eviction(&mut whole, minor);
        }
        let has_eviction = whole.get(EVICTION).is_some_and(|value| !value.is_null());
        fill_root(&mut whole, minor);
        if !self.eviction && !has_eviction {
            whole.remove(EVICTION);
        }
        self.fill_gated(&mut whole);
        whole
    }

    /// Fills in the defaults whose gates are on. A kubelet that refuses the gates has none.
    fn fill_gated(&self, whole: &mut Map<String, Json>) {
        let enabled = self.enabled.cloned().unwrap_or_else(|| {
            let written = whole.get("featureGates").and_then(Json::as_object);
            let given = self.gates.into_iter().flatten().chain(written.into_iter().flatten());
            let given = given.filter_map(|(gate, on)| Some((gate.clone(), on.as_bool()?))).collect();
            gates::apply(self.minor, &given).unwrap_or_default()
        });
        for (path, gate, default) in GATED {
            if !enabled.is_on(gate) {
                continue;
            }
            let place = match path.split_once('.') {
                None => Some((&mut *whole, path)),
                Some((parent, name)) => whole.get_mut(parent).and_then(Json::as_object_mut).map(|map| (map, name)),
            };
            if let Some((map, name)) = place {
                map.entry(name).or_insert_with(|| default.into());
            }
        }
    }
}

/// Adds the default thresholds of signals that `evictionHard` omits (1.33 on, `cmd/kubelet/app/server.go`,
/// `loadConfigFile`).
fn merge_eviction(whole: &mut Map<String, Json>, minor: Minor) {
    let merges = child("", MERGE_EVICTION).is_some_and(|field| field.is_known_to(minor));
    let defaults = child("", EVICTION).filter(|_| merges).and_then(|field| field.default.at(minor)?.as_object());
    if let (Some(defaults), Some(Json::Object(given))) = (defaults, whole.get_mut(EVICTION)) {
        for (signal, value) in defaults {
            given.entry(signal).or_insert_with(|| value.clone());
        }
    }
}

/// The defaults of all fields by version, each computed once: a configuration sets few of the fields.
static OF_UNSET: LazyLock<BTreeMap<Minor, OnceLock<Map<String, Json>>>> =
    LazyLock::new(|| Minor::all().map(|minor| (minor, OnceLock::new())).collect());

/// Fills in the fields of the whole configuration.
fn fill_root(map: &mut Map<String, Json>, minor: Minor) {
    let computed = || {
        let mut map = Map::new();
        fill(&mut map, "", |field, given| value_of(field, given, minor), minor);
        map
    };
    let of_unset = OF_UNSET.get(&minor).map(|defaults| defaults.get_or_init(computed));
    let value = |field: &Field, given: Option<Json>| match (given, of_unset) {
        (None, Some(defaults)) => defaults.get(field.name()).cloned(),
        (given, _) => value_of(field, given, minor),
    };
    fill(map, "", value, minor);
}

/// Fills in the fields of an object with what `value` returns for a field and its given value.
fn fill(map: &mut Map<String, Json>, parent: &str, value: impl Fn(&Field, Option<Json>) -> Option<Json>, minor: Minor) {
    for field in children(parent).iter().filter(|field| field.is_known_to(minor)) {
        let given = map.remove(field.name()).filter(|value| !value.is_null());
        if let Some(value) = value(field, given) {
            map.insert(field.name().to_owned(), value);
        }
    }
}

/// The value of a field in effect.
fn value_of(field: &Field, given: Option<Json>, minor: Minor) -> Option<Json> {
    if is_struct(field) {
        return struct_of(field, given, minor);
    }
    leaf_of(field, given.map(|value| written(value, field, minor)), minor)
}

/// Fills in an object with declared fields. A Go pointer stays unset.
fn struct_of(field: &Field, given: Option<Json>, minor: Minor) -> Option<Json> {
    let mut map = match given {
        None if field.keeps_zero(minor) => return None,
        None => Map::new(),
        Some(Json::Object(map)) => map,
        other => return other,
    };
    fill(&mut map, &field.path, |field, given| value_of(field, given, minor), minor);
    Some(Json::Object(map))
}

fn leaf_of(field: &Field, given: Option<Json>, minor: Minor) -> Option<Json> {
    let default = field.default.at(minor).filter(|value| !value.is_null()).cloned();
    let default = default.map(|value| written(value, field, minor));
    match given {
        // An empty list or map overrides a default. Without a default it means the same as an unset value.
        Some(value) if is_empty(&value) => default.map(|_| value),
        Some(value) if field.keeps_zero(minor) || !is_zero_of(field, &value, minor) => Some(value),
        _ if GATED.iter().any(|(path, ..)| *path == field.path) => None,
        _ => default.or_else(|| zero(field, minor)),
    }
}

/// Reports whether the field is an object with declared fields, as opposed to a map with free keys.
#[must_use]
pub fn is_struct(field: &Field) -> bool {
    !children(&field.path).is_empty()
}

/// Reports whether the default of a list or map has entries, so that an empty value overrides it.
#[must_use]
pub fn has_nonempty_default(field: &Field, minor: Minor) -> bool {
    let non_empty = |value: &Json| (value.is_array() || value.is_object()) && !is_empty(value);
    !is_struct(field) && field.is_known_to(minor) && field.default.at(minor).is_some_and(non_empty)
}

/// Returns the zero value of a field that is not a Go pointer.
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

/// Returns a value as the kubelet writes it, with durations in Go's form.
pub(crate) fn written(value: Json, field: &Field, minor: Minor) -> Json {
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
        // The values of maps, and the fields of list items.
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

/// Reports whether the value is the zero value of a field. A text may be a duration of zero.
pub(crate) fn is_zero_of(field: &Field, value: &Json, minor: Minor) -> bool {
    let is_duration = field.types.at(minor).is_some_and(|types| types.contains(&FieldType::Duration));
    is_zero(value) || (is_duration && value.as_str().is_some_and(|text| duration::nanoseconds(text) == Ok(0)))
}

/// Reports whether the value is the zero value in Go of a field that is no duration.
#[must_use]
pub fn is_zero(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::Bool(value) => !value,
        Json::Number(number) => number.as_f64() == Some(0.0),
        Json::String(text) => text.is_empty(),
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

/// The default of `--cert-dir`, where a kubelet makes its own certificate.
const OWN_CERTIFICATE: [(&str, &str); 2] =
    [("tlsCertFile", "/var/lib/kubelet/pki/kubelet.crt"), ("tlsPrivateKeyFile", "/var/lib/kubelet/pki/kubelet.key")];

/// Values that the kubelet fills in together.
struct FilledIn {
    /// The fields, with the key for a value in a map.
    paths: &'static [[&'static str; 2]],
    /// Whether the kubelet has filled in, or would overwrite, the values in this configuration.
    applies: fn(&Map<String, Json>) -> bool,
}

/// Sources: cmd/kubelet/app/server.go, `InitializeTLS` for the certificate, `run` for the reserved CPUs (since 1.17).
const TABLE: [FilledIn; 2] = [
    FilledIn { paths: &[["tlsCertFile", ""], ["tlsPrivateKeyFile", ""]], applies: has_own_certificate },
    // The kubelet deletes the one, and replaces the other by the number of CPUs.
    FilledIn { paths: &[["kubeReserved", "cpu"], ["systemReserved", "cpu"]], applies: reserves_cpus },
];

/// Removes what the kubelet fills in.
pub fn remove_filled_in(configuration: &mut Map<String, Json>) {
    for FilledIn { paths, applies } in TABLE {
        if !applies(configuration) {
            continue;
        }
        for [field, key] in paths {
            let map = configuration.get_mut(*field).and_then(Json::as_object_mut);
            let is_empty = map.is_none_or(|map| {
                map.remove(*key);
                map.is_empty()
            });
            if is_empty {
                configuration.remove(*field);
            }
        }
    }
}

/// Fills in the certificate that a kubelet with this configuration makes.
pub fn fill_in_certificate(configuration: &mut Map<String, Json>) {
    if !bootstraps(configuration) && OWN_CERTIFICATE.iter().all(|(field, _)| text(configuration, field).is_empty()) {
        configuration.extend(OWN_CERTIFICATE.map(|(field, file)| (field.to_owned(), file.into())));
    }
}

fn has_own_certificate(configuration: &Map<String, Json>) -> bool {
    !bootstraps(configuration) && OWN_CERTIFICATE.iter().all(|(field, file)| text(configuration, field) == *file)
}

/// Reports whether the API server signs the kubelet's certificate, so that the kubelet makes none.
fn bootstraps(configuration: &Map<String, Json>) -> bool {
    configuration.get("serverTLSBootstrap") == Some(&Json::Bool(true))
}

fn reserves_cpus(configuration: &Map<String, Json>) -> bool {
    !text(configuration, "reservedSystemCPUs").is_empty()
}

fn text<'c>(configuration: &'c Map<String, Json>, field: &str) -> &'c str {
    configuration.get(field).and_then(Json::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn filled_of(configuration: Json, minor: u32) -> Map<String, Json> {
        with_defaults(configuration.as_object().unwrap(), Minor(minor))
    }

    #[test]
    fn unset_fields_take_default_of_version() {
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
    fn zero_means_default_unless_pointer() {
        let whole = filled_of(json!({"maxPods": 0, "registryPullQPS": 0, "syncFrequency": "0s", "port": null}), 30);
        assert_eq!((&whole["maxPods"], &whole["registryPullQPS"]), (&json!(110), &json!(0)));
        assert_eq!((&whole["syncFrequency"], &whole["port"]), (&json!("1m0s"), &json!(10250)));
        assert_eq!(filled_of(json!({"reservedSystemCPUs": "0"}), 30)["reservedSystemCPUs"], "0", "a CPU, no duration");
    }

    #[test]
    fn empty_list_overrides_default_with_values() {
        let whole = filled_of(json!({"enforceNodeAllocatable": [], "evictionHard": {}, "clusterDNS": []}), 30);
        assert_eq!((&whole["enforceNodeAllocatable"], &whole["evictionHard"]), (&json!([]), &json!({})));
        assert_eq!(whole.get("clusterDNS"), None);
        assert!(has_nonempty_default(child("", "evictionHard").unwrap(), Minor(30)));
        assert!(!has_nonempty_default(child("", "clusterDNS").unwrap(), Minor(30)));
    }

    #[test]
    fn some_defaults_depend_on_other_fields() {
        let report = |text: Json| filled_of(text, 30)["nodeStatusReportFrequency"].clone();
        assert_eq!(report(json!({})), "5m0s");
        assert_eq!(report(json!({"nodeStatusUpdateFrequency": "20s"})), "20s");
        assert_eq!(report(json!({"nodeStatusUpdateFrequency": "20s", "nodeStatusReportFrequency": "1m"})), "1m0s");
        assert_eq!(filled_of(json!({"maxParallelImagePulls": 4}), 30)["serializeImagePulls"], false);
        assert_eq!(filled_of(json!({"maxParallelImagePulls": 4}), 26)["serializeImagePulls"], true);
    }

    /// As a kubelet 1.36 shows them in its configz. The gates are off before 1.35.
    #[test]
    fn some_defaults_depend_on_gates() {
        let gated = |configuration: Json, minor| {
            let whole = filled_of(configuration, minor);
            let policy = whole.get("imagePullCredentialsVerificationPolicy").and_then(Json::as_str);
            let period = whole.get("crashLoopBackOff").and_then(|at| at.get("maxContainerRestartPeriod"));
            (policy.unwrap_or_default().to_owned(), period.and_then(Json::as_str).unwrap_or_default().to_owned())
        };
        let is = |policy: &str, period: &str| (policy.to_owned(), period.to_owned());
        let both = is("NeverVerifyPreloadedImages", "5m0s");
        assert_eq!((gated(json!({}), 36), gated(json!({}), 34)), (both.clone(), is("", "")));
        let off = |gate: &str| json!({"featureGates": {gate: false}});
        assert_eq!(gated(off("KubeletCrashLoopBackOffMax"), 36), is("NeverVerifyPreloadedImages", ""));
        assert_eq!(gated(off("AllBeta"), 36), is("", ""));
        let on = json!({"featureGates": {"KubeletCrashLoopBackOffMax": true}});
        assert_eq!(gated(on, 34), is("", "5m0s"));
        let own = json!({"imagePullCredentialsVerificationPolicy": "AlwaysVerify",
            "crashLoopBackOff": {"maxContainerRestartPeriod": "60s"}});
        assert_eq!(gated(own, 36), is("AlwaysVerify", "1m0s"));
        assert_eq!(gated(json!({"featureGates": {"NoSuchGate": true}}), 36), is("", ""), "refused");
    }

    #[test]
    fn merges_default_thresholds_on_request() {
        let hard = |merge: bool, minor| {
            let whole = filled_of(
                json!({"mergeDefaultEvictionSettings": merge, "evictionHard": {"memory.available": "1Gi"}}),
                minor,
            );
            whole["evictionHard"].as_object().unwrap().len()
        };
        assert_eq!((hard(true, 33), hard(false, 33), hard(true, 32)), (5, 1, 1));
    }

    #[test]
    fn filling_is_idempotent() {
        for minor in Minor::all() {
            let once = with_defaults(&Map::new(), minor);
            assert_eq!(with_defaults(&once, minor), once, "{minor}");
        }
    }

    fn without(configuration: Json) -> Json {
        let mut map = configuration.as_object().expect("a map").clone();
        remove_filled_in(&mut map);
        Json::Object(map)
    }

    #[test]
    fn removes_what_a_kubelet_fills_in() {
        let mut shown = Map::from_iter([("maxPods".to_owned(), json!(7))]);
        fill_in_certificate(&mut shown);
        assert_eq!(shown["tlsCertFile"], "/var/lib/kubelet/pki/kubelet.crt");
        assert_eq!(without(Json::Object(shown)), json!({"maxPods": 7}));
        let cpus = json!({"reservedSystemCPUs": "0", "systemReserved": {"cpu": "1", "memory": "1Gi"}, "kubeReserved": {"cpu": "2"}});
        assert_eq!(without(cpus), json!({"reservedSystemCPUs": "0", "systemReserved": {"memory": "1Gi"}}));
    }

    #[test]
    fn keeps_values_that_a_person_chose() {
        for chosen in [
            json!({"tlsCertFile": "/etc/k/kubelet.crt", "tlsPrivateKeyFile": "/etc/k/kubelet.key"}),
            json!({"tlsCertFile": "/var/lib/kubelet/pki/kubelet.crt", "tlsPrivateKeyFile": "/etc/k/kubelet.key"}),
            json!({"tlsCertFile": "/var/lib/kubelet/kubelet.crt", "tlsPrivateKeyFile": "/var/lib/kubelet/kubelet.key"}),
            json!({"tlsCertFile": "/var/lib/kubelet/pki/kubelet.crt", "tlsPrivateKeyFile": "/var/lib/kubelet/pki/kubelet.key", "serverTLSBootstrap": true}),
            json!({"systemReserved": {"cpu": "1"}, "kubeReserved": {"cpu": "1"}}),
            json!({"systemReserved": {"cpu": "1"}, "reservedSystemCPUs": ""}),
            json!({"cgroupDriver": "systemd"}),
        ] {
            assert_eq!(without(chosen.clone()), chosen);
        }
    }
}
