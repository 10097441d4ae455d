//! A configuration laid over a node's own file, by the two ways that a kubelet can read it: as the text of one file, and
//! as a drop-in. The results differ only by the rules that are named here.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Map, Value as Json, json};

use super::*;
use crate::{API_VERSION, KIND};

/// Why the two ways differ: a name, the fields that the own file or the configuration must name, and the fields whose
/// values may differ then.
const RULES: [(&str, &[&str], &[&str]); 5] = [
    (
        "the thresholds of the own file have their defaults before a drop-in is merged",
        &["evictionHard", "mergeDefaultEvictionSettings"],
        &["evictionHard"],
    ),
    (
        "reports follow updates only where both are in one file",
        &["nodeStatusReportFrequency", "nodeStatusUpdateFrequency"],
        &["nodeStatusReportFrequency"],
    ),
    (
        "several parallel pulls turn off serial ones only in one file",
        &["maxParallelImagePulls"],
        &["serializeImagePulls"],
    ),
    (
        "an empty list of the own file is lost when a drop-in is merged",
        &["enforceNodeAllocatable"],
        &["enforceNodeAllocatable"],
    ),
    (
        "relative paths start at the folder of the file, and stay relative in a drop-in",
        &["staticPodPath"],
        &["staticPodPath"],
    ),
];

/// Values of fields of every kind: numbers, texts, durations, lists, maps, objects, and those of the rules.
fn samples() -> Vec<(&'static str, Vec<Json>)> {
    vec![
        ("maxPods", vec![json!(60), json!(0), Json::Null]),
        ("registryPullQPS", vec![json!(0), json!(7), Json::Null]),
        ("failSwapOn", vec![json!(true), json!(false)]),
        ("syncFrequency", vec![json!("90s"), json!("0s")]),
        ("cpuCFSQuotaPeriod", vec![json!("50ms"), Json::Null]),
        ("clusterDomain", vec![json!("a.b"), json!("")]),
        ("clusterDNS", vec![json!(["10.0.0.1", "10.0.0.2"]), json!(["10.0.0.3"]), json!([]), Json::Null]),
        ("kubeReserved", vec![json!({"cpu": "100m", "memory": "1Gi"}), json!({"memory": "2Gi"}), json!({"cpu": null})]),
        (
            "evictionHard",
            vec![json!({"memory.available": "5%"}), json!({"nodefs.available": "6%"}), json!({}), Json::Null],
        ),
        ("mergeDefaultEvictionSettings", vec![json!(true), json!(false)]),
        ("nodeStatusUpdateFrequency", vec![json!("20s"), json!("0s")]),
        ("nodeStatusReportFrequency", vec![json!("1m"), json!("0s")]),
        ("maxParallelImagePulls", vec![json!(4), json!(1), Json::Null]),
        ("serializeImagePulls", vec![json!(true), json!(false), Json::Null]),
        ("enforceNodeAllocatable", vec![json!(["pods"]), json!([]), json!(["none"])]),
        ("registerWithTaints", vec![json!([{"key": "a", "effect": "NoSchedule"}]), json!([])]),
        ("reservedMemory", vec![json!([{"numaNode": 0, "limits": {"memory": "1024Mi"}}])]),
        (
            "authentication",
            vec![json!({"webhook": {"enabled": false}}), json!({"x509": {"clientCAFile": "/a"}}), Json::Null],
        ),
        ("logging", vec![json!({"verbosity": 4}), json!({"flushFrequency": "7s", "verbosity": 0}), Json::Null]),
        ("crashLoopBackOff", vec![json!({}), json!({"maxContainerRestartPeriod": "10s"}), Json::Null]),
        ("tracing", vec![json!({"samplingRatePerMillion": 5}), json!({}), Json::Null]),
        ("featureGates", vec![json!({"CPUManagerPolicyAlphaOptions": true}), json!({"AllAlpha": false}), Json::Null]),
        ("staticPodPath", vec![json!("/a"), json!("b")]),
        ("noSuchField", vec![json!(1)]),
    ]
}

/// Configurations of a few fields. `nulls`: whether a value may be null.
fn configurations(nulls: bool) -> impl Strategy<Value = Map<String, Json>> {
    let samples: Vec<_> = samples()
        .into_iter()
        .map(|(name, values)| (name, values.into_iter().filter(|value| nulls || !value.is_null()).collect::<Vec<_>>()))
        .collect();
    subsequence(samples, 0..6).prop_flat_map(|chosen| {
        let fields: Vec<_> = chosen
            .into_iter()
            .map(|(name, values)| select(values).prop_map(move |value| (name.to_owned(), value)))
            .collect();
        fields.prop_map(|fields| fields.into_iter().collect())
    })
}

fn document(fields: &Map<String, Json>) -> Document {
    let mut whole = fields.clone();
    whole.insert("apiVersion".to_owned(), API_VERSION.into());
    whole.insert("kind".to_owned(), KIND.into());
    Document::parse("configuration", &Json::Object(whole).to_string()).document.expect("a document")
}

fn run(minor: u32, text: &str, drop_in: Option<&str>) -> Result<Effective, Refused> {
    let entries = drop_in.map(|text| ("a.conf".to_owned(), FolderEntry::File(text.to_owned()))).into_iter().collect();
    let folder = ConfigDir { path: "/d".to_owned(), root: Some(FolderEntry::Folder(entries)) };
    effective(&Kubelet {
        minor: Minor(minor),
        config: Some(ConfigFile { path: "/etc/kubelet.yaml", text }),
        config_dir: drop_in.map(|_| &folder),
        drop_in_alpha: true,
        flags: &[],
    })
}

/// How one file differs from a file with a drop-in.
#[derive(Debug)]
enum Difference {
    /// The fields with other values.
    Values(Vec<String>),
    /// Only one of them is refused, by a rule about these fields.
    Refusal(Vec<String>),
}

fn difference(own: &Map<String, Json>, overlay: &Map<String, Json>, minor: u32) -> Difference {
    let (own, overlay) = (document(own), document(overlay));
    let file = run(minor, &overlaid(Some(&own), &overlay).canonical(), None);
    let drop_in = run(minor, &own.canonical(), Some(&overlay.canonical()));
    let top = |path: &str| path.split('.').next().unwrap_or_default().to_owned();
    match (file, drop_in) {
        (Ok(file), Ok(drop_in)) => {
            let paths = file.values.keys().chain(drop_in.values.keys());
            let value = |effective: &Effective, path: &str| effective.values.get(path).map(|value| value.value.clone());
            let mut fields: Vec<String> =
                paths.filter(|path| value(&file, path) != value(&drop_in, path)).map(|path| top(path)).collect();
            fields.dedup();
            Difference::Values(fields)
        }
        (Err(_), Err(_)) => Difference::Values(Vec::new()),
        (Err(refused), Ok(_)) | (Ok(_), Err(refused)) => {
            let rules = refused.refusals.iter().filter_map(|refusal| verdict::rules::lookup(refusal.rule));
            Difference::Refusal(rules.flat_map(|rule| rule.fields.iter().map(|field| top(field))).collect())
        }
    }
}

/// Reports whether a rule explains a difference.
fn is_explained(field: &str, own: &Map<String, Json>, overlay: &Map<String, Json>) -> bool {
    RULES.iter().any(|(_, named, fields)| {
        fields.contains(&field) && named.iter().any(|name| own.contains_key(*name) || overlay.contains_key(*name))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn one_file_and_a_drop_in_differ_by_named_rules(
        own in configurations(false),
        overlay in configurations(true),
        minor in 32..=38_u32,
    ) {
        let found = difference(&own, &overlay, minor);
        let is_explained = |field: &String| is_explained(field, &own, &overlay);
        let is_named = match &found {
            Difference::Values(fields) => fields.iter().all(is_explained),
            Difference::Refusal(fields) => fields.iter().any(is_explained),
        };
        prop_assert!(is_named, "{found:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// Any texts and arguments have an answer.
    #[test]
    fn answers_any_input(
        text in any::<String>(),
        body in "(apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n)?[a-zA-Z: {}\\[\\],.0-9<&*\"\n-]{0,60}",
        flags in prop::collection::vec("(--?[a-z-]{0,12}|--max-pods|--cluster-dns|--reserved-memory)(=[ -~]{0,12})?", 0..3),
        minor in 16..=38_u32,
    ) {
        let entries = [("a.conf".to_owned(), FolderEntry::File(body.clone()))].into();
        let folder = ConfigDir { path: text.clone(), root: Some(FolderEntry::Folder(entries)) };
        for (config, config_dir, flags) in [(&text, None, &[][..]), (&body, Some(&folder), &[]), (&body, None, &flags)] {
            let config = Some(ConfigFile { path: &text, text: config });
            let kubelet = Kubelet { minor: Minor(minor), config, config_dir, drop_in_alpha: true, flags };
            if let Err(refused) = effective(&kubelet) {
                prop_assert!(!refused.to_string().is_empty());
            }
        }
    }
}

/// Each rule makes a difference.
#[test]
fn every_rule_has_an_example() {
    let map = |value: Json| value.as_object().expect("a map").clone();
    let examples = [
        (json!({}), json!({"evictionHard": {"memory.available": "1Gi"}})),
        (json!({}), json!({"nodeStatusUpdateFrequency": "20s"})),
        (json!({}), json!({"maxParallelImagePulls": 4})),
        (json!({"enforceNodeAllocatable": []}), json!({"maxPods": 7})),
        (json!({}), json!({"staticPodPath": "b"})),
    ];
    for ((rule, named, fields), (own, overlay)) in RULES.iter().zip(examples) {
        let (own, overlay) = (map(own), map(overlay));
        assert!(named.iter().any(|name| own.contains_key(*name) || overlay.contains_key(*name)), "{rule}");
        let (Difference::Values(found) | Difference::Refusal(found)) = difference(&own, &overlay, 36);
        assert!(found.iter().any(|field| fields.contains(&field.as_str())), "{rule}: {found:?}");
    }
}
