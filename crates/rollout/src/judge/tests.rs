//! Tests of the judge.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Answer, GateState, KnownSeries, Series, judge};
use nodecfg_contract::names::{GateName, NamespaceName};
use nodecfg_contract::{ObjectId, ObjectRef};
use nodecfg_fleet::gates::json_path::JsonPath;
use nodecfg_fleet::gates::{Baseline, Gate, GateCheck, Moment, PATIENCE, PrometheusQuery, Wanted};
use nodecfg_fleet::gates::{parse_condition, parse_json_path_value};

fn prometheus(baseline: Baseline) -> Gate {
    let query = PrometheusQuery { query: "errors > 1".to_owned(), present: "errors".to_owned() };
    Gate {
        name: GateName::new("errors").unwrap(),
        check: GateCheck::Prometheus { query, baseline },
        at: Moment::ALL.into(),
        patience: PATIENCE,
    }
}

fn series(labels: &[(&str, &str)]) -> Series {
    let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Series { labels: Arc::new(labels.collect()), value: "7".to_owned() }
}

fn answer(firing: &[&[(&str, &str)]], present: usize) -> Answer {
    Answer::Prometheus { firing: Ok(firing.iter().map(|labels| series(labels)).collect()), present: Ok(present) }
}

fn why(state: &GateState) -> String {
    state.why().expect("a gate that does not pass")
}

#[test]
fn empty_result_passes_only_with_present_data() {
    let gate = prometheus(Baseline::Use);
    let judge = |present| judge(&gate, &answer(&[], present), &KnownSeries::default());
    assert_eq!(judge(1), GateState::Passes { known: 0 });
    assert_eq!(judge(0), GateState::Unknown { why: "`present` has no data: errors".to_owned() });
}

#[test]
fn each_new_series_blocks() {
    let gate = prometheus(Baseline::Use);
    let known = KnownSeries::of(&answer(&[&[("__name__", "errors"), ("job", "a")]], 1)).unwrap();
    let state = |firing: &[&[(&str, &str)]]| judge(&gate, &answer(firing, 1), &known);
    assert_eq!(state(&[&[("__name__", "errors"), ("job", "a")]]), GateState::Passes { known: 1 });
    // Another value of a label, a further label, a missing label and another metric are other series.
    for other in [
        &[("__name__", "errors"), ("job", "b")][..],
        &[("__name__", "errors"), ("job", "a"), ("pod", "x")],
        &[("__name__", "errors")],
        &[("__name__", "failures"), ("job", "a")],
        &[],
    ] {
        let state = state(&[&[("__name__", "errors"), ("job", "a")], other]);
        assert!(matches!(&state, GateState::Blocks { reasons } if reasons.len() == 1), "{other:?}: {state:?}");
    }
    let blocked = state(&[&[("__name__", "errors"), ("job", "b")]]);
    assert_eq!(why(&blocked), "errors{job=\"b\"} is 7");
    assert!(!blocked.passes());
    // A new series blocks even if `present` has no data.
    assert!(matches!(judge(&gate, &answer(&[&[("job", "b")]], 0), &known), GateState::Blocks { .. }));
}

/// Each pool has a baseline for each of its gates, and one answer may have thousands of series.
#[test]
fn baselines_share_the_labels_of_the_answer() {
    let answer = answer(&[&[("job", "a")]], 1);
    let baselines: Vec<KnownSeries> = (0..100).filter_map(|_| KnownSeries::of(&answer)).collect();
    let Answer::Prometheus { firing: Ok(firing), .. } = &answer else { panic!("series") };
    assert_eq!((baselines.len(), Arc::strong_count(&firing[0].labels)), (100, 101));
}

#[test]
fn known_series_prove_no_presence() {
    let gate = prometheus(Baseline::Use);
    let old = answer(&[&[("job", "a")]], 0);
    let known = KnownSeries::of(&old).unwrap();
    assert!(matches!(judge(&gate, &old, &known), GateState::Unknown { .. }));
}

#[test]
fn known_series_block_without_baseline() {
    let gate = prometheus(Baseline::Ignore);
    let old = answer(&[&[("job", "a")]], 1);
    let known = KnownSeries::of(&old).unwrap();
    assert_eq!(why(&judge(&gate, &old, &known)), "{job=\"a\"} is 7");
}

#[test]
fn failed_answers_are_unknown_and_no_baseline() {
    let gate = prometheus(Baseline::Use);
    let failed = Answer::Prometheus { firing: Err("no response in 10s".to_owned()), present: Ok(1) };
    assert_eq!(KnownSeries::of(&failed), None);
    assert_eq!(why(&judge(&gate, &failed, &KnownSeries::default())), "unknown: no response in 10s");
    let half = Answer::Prometheus { firing: Ok(Vec::new()), present: Err("no response in 10s".to_owned()) };
    assert_eq!(why(&judge(&gate, &half, &KnownSeries::default())), "unknown: `present`: no response in 10s");
    let other = Answer::Object(Ok(json!({})));
    assert!(matches!(judge(&gate, &other, &KnownSeries::default()), GateState::Unknown { .. }));
}

#[test]
fn reasons_are_few_ordered_and_printable() {
    let gate = prometheus(Baseline::Use);
    let firing: Vec<Series> = ["e", "d", "c", "b", "a"].iter().map(|job| series(&[("job", job)])).collect();
    let state = judge(&gate, &Answer::Prometheus { firing: Ok(firing), present: Ok(1) }, &KnownSeries::default());
    let GateState::Blocks { reasons } = state else { panic!("{state:?}") };
    assert_eq!(reasons, ["{job=\"a\"} is 7", "{job=\"b\"} is 7", "{job=\"c\"} is 7", "5 series in total"]);
    let three: Vec<Series> = ["c", "b", "a"].iter().map(|job| series(&[("job", job)])).collect();
    let three = Answer::Prometheus { firing: Ok(three), present: Ok(1) };
    assert!(!why(&judge(&gate, &three, &KnownSeries::default())).contains("total"));

    let mut hostile =
        series(&[("__name__", "a\u{1b}[2J\nb"), ("job", "x\u{202e}\ny\u{200b}"), ("long", &"z".repeat(5000))]);
    hostile.value = "1\u{7}\n::error::".to_owned();
    let firing = Answer::Prometheus { firing: Ok(vec![hostile]), present: Ok(1) };
    let text = why(&judge(&gate, &firing, &KnownSeries::default()));
    assert!(!text.chars().any(|c| nodecfg_contract::printable::is_hidden(c) || c == '\n'), "{text:?}");
    assert!(text.chars().count() < 500, "{text}");
    let failed = Answer::Prometheus { firing: Err("a\u{1b}\nb".repeat(900)), present: Ok(1) };
    let text = why(&judge(&gate, &failed, &KnownSeries::default()));
    assert!(!text.contains(['\n', '\u{1b}']) && text.chars().count() < 300, "{text:?}");
}

fn object(wanted: Wanted, found: &Value) -> GateState {
    let object = ObjectRef {
        api_version: "apps/v1".to_owned(),
        kind: "Deployment".to_owned(),
        namespace: NamespaceName::new("mesh").ok(),
        by: ObjectId::Name("gw".to_owned()),
    };
    let gate = Gate { check: GateCheck::Object { object, wanted }, ..prometheus(Baseline::Use) };
    judge(&gate, &Answer::Object(Ok(found.clone())), &KnownSeries::default())
}

fn deployment(status: &str, generation: u64, observed: u64) -> Value {
    json!({
        "metadata": {"name": "gw", "generation": generation},
        "status": {
            "observedGeneration": observed, "phase": "Up", "replicas": 3, "ok": true, "list": [1], "nothing": null,
            "conditions": [
                {"type": "Progressing", "status": "True"},
                {"type": "Available", "status": status, "reason": "Few", "message": "2 of 3\npods"},
            ],
        },
    })
}

#[test]
fn condition_passes_blocks_or_is_unknown() {
    let wanted = || parse_condition("Available=True").unwrap();
    assert_eq!(object(wanted(), &deployment("True", 2, 2)), GateState::Passes { known: 0 });
    let reasons = vec!["Deployment mesh/gw: Available is False: Few: 2 of 3 pods".to_owned()];
    assert_eq!(object(wanted(), &deployment("False", 2, 2)), GateState::Blocks { reasons });
    assert!(why(&object(wanted(), &deployment("Unknown", 2, 2))).starts_with("unknown: Deployment mesh/gw: Available"));
    assert!(why(&object(wanted(), &deployment("maybe", 2, 2))).starts_with("unknown: "));
    for empty in [json!({}), json!({"status": {}}), json!({"status": {"conditions": "x"}}), json!(5)] {
        assert_eq!(why(&object(wanted(), &empty)), "unknown: Deployment mesh/gw has no condition Available");
    }
    let unknown = parse_condition("Available=Unknown").unwrap();
    assert!(object(unknown, &deployment("Unknown", 2, 2)).passes());
    let negative = parse_condition("Available=False").unwrap();
    assert!(object(negative.clone(), &deployment("False", 2, 2)).passes());
    assert!(matches!(object(negative, &deployment("True", 2, 2)), GateState::Blocks { .. }));
}

#[test]
fn status_of_an_earlier_generation_is_unknown() {
    let condition = || parse_condition("Available=True").unwrap();
    let expected = "unknown: the status of Deployment mesh/gw is of generation 2, the object has 3";
    assert_eq!(why(&object(condition(), &deployment("True", 3, 2))), expected);
    for path in ["{.status.phase}=Up", "{['status'].phase}=Up", "{$.status.phase}=Up"] {
        let path = parse_json_path_value(path).unwrap();
        assert_eq!(why(&object(path, &deployment("True", 3, 2))), expected);
    }
    // The spec is always of this generation.
    let path = parse_json_path_value("{.metadata.name}=gw").unwrap();
    assert!(object(path, &deployment("True", 3, 2)).passes());
    let mut of_condition = deployment("True", 3, 3);
    of_condition["status"]["conditions"][1]["observedGeneration"] = json!(2);
    assert_eq!(why(&object(condition(), &of_condition)), expected);
    assert!(object(condition(), &deployment("True", 3, 4)).passes());
}

#[test]
fn json_path_selects_one_value() {
    let check = |text: &str| object(parse_json_path_value(text).unwrap(), &deployment("True", 1, 1));
    for passing in [
        "{.status.phase}=Up",
        "{$.status.phase}=Up",
        "{.status.replicas}=3",
        "{.status.ok}=true",
        "{.status['phase']}=Up",
        "{.status.conditions[0].status}=True",
        "{.status.conditions[-1].type}=Available",
    ] {
        assert_eq!(check(passing), GateState::Passes { known: 0 }, "{passing}");
    }
    assert_eq!(why(&check("{.status.phase}=Down")), "Deployment mesh/gw: {.status.phase} is Up, not Down");
    assert!(matches!(check("{.status.phase}=up"), GateState::Blocks { .. }));
    for (unknown, reason) in [
        ("{.status.missing}=a", "no value"),
        ("{.status.conditions[2].status}=True", "no value"),
        ("{.status.list}=[1]", "not a text"),
        ("{.status.nothing}=null", "not a text"),
        ("{.status.conditions[0]}=True", "not a text"),
    ] {
        let why = why(&check(unknown));
        assert!(why.starts_with("unknown: ") && why.contains(reason), "{unknown}: {why}");
    }
}

#[test]
fn refuses_texts_that_are_no_wanted_state() {
    for bad in ["", ".a=b", "{.a}", "{.a}=", "{.a=b", "{}=", "{.a..}=b", "{.[}=b", "{a}=b", "{.a}}=b", "{..}=x"] {
        assert!(parse_json_path_value(bad).is_err(), "{bad}");
    }
    for bad in ["", "Ready", "=True", "Ready=true", "Ready=", "Ready=True=False"] {
        assert!(parse_condition(bad).is_err(), "{bad}");
    }
    // A value may contain any character.
    let wanted = parse_json_path_value("{.a}=b}=c").unwrap();
    assert_eq!(wanted, Wanted::JsonPath { path: JsonPath::parse(".a").unwrap(), value: "b}=c".to_owned() });
    assert_eq!(wanted.to_string(), "{.a}=b}=c");
}
