//! What kubelets 1.21.1 and 1.36.2 themselves said of thousands of small files, and what nodecfg says of them: the same.
//!
//! `data/oracle/cases.jsonl` holds a file per line with each kubelet's stage, its errors, and what it refused later, at
//! start-up. They were taken on a host with cgroup v2.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use nodecfg::document::Document;
use nodecfg::kubelet::Minor;
use nodecfg::verdict::{Stage, assess};
use serde::Deserialize;

#[derive(Deserialize)]
struct Case {
    id: String,
    yaml: String,
    #[serde(flatten)]
    said: BTreeMap<String, serde_json::Value>,
}

#[derive(Deserialize)]
struct Said {
    stage: String,
    #[serde(default)]
    errors: Vec<String>,
    #[serde(default)]
    startup: Vec<String>,
}

fn cases() -> Vec<Case> {
    let text = include_str!("data/oracle/cases.jsonl");
    text.lines().map(|line| serde_json::from_str(line).expect("the cases are JSON lines")).collect()
}

/// Agreement on stage (and with it on acceptance) and on whether the kubelet starts.
fn agreement(minor: u32) {
    let (mut right, mut wrong) = (0, String::new());
    let cases = cases();
    for case in &cases {
        let said: Said = serde_json::from_value(case.said[&format!("1.{minor}")].clone()).expect("a verdict");
        let (stage, startup) = match Document::parse("kubelet.yaml", &case.yaml).document {
            None => (Stage::Load, Vec::new()),
            Some(document) => {
                let verdict = assess(&document, Minor(minor));
                (verdict.stage, verdict.startup)
            }
        };
        let stage = serde_json::to_value(stage).expect("a stage");
        if stage == said.stage && startup.is_empty() == said.startup.is_empty() {
            right += 1;
        } else {
            let _ = writeln!(
                wrong,
                "{}: kubelet {} {:?}{:?}, nodecfg {stage} {startup:?}",
                case.id, said.stage, said.errors, said.startup
            );
        }
    }
    println!("kubelet 1.{minor}: {right} of {} verdicts agree", cases.len());
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn verdicts_agree_with_kubelet_1_21() {
    agreement(21);
}

#[test]
fn verdicts_agree_with_kubelet_1_36() {
    agreement(36);
}
