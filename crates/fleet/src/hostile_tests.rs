//! Files that are made to be slow: many findings, deep nesting, long names.

use std::fmt::Write as _;

use super::*;
use crate::snapshot::Snapshot;
use crate::{build, check_file};
use kubelet_config::NEWEST;
use kubelet_config::finding::{MAX_PER_FILE, Severity};

const HEADER: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
const MANY: usize = 40_000;
const FEWER: usize = 10_000;

fn lines(number: usize, line: impl Fn(usize) -> String) -> String {
    (0..number).fold(HEADER.to_owned(), |mut text, index| {
        let _ = writeln!(text, "{}", line(index));
        text
    })
}

fn unknown_gates() -> String {
    let gates: String = (0..MANY).map(|index| format!("  Gate{index}: true\n")).collect();
    format!("{HEADER}featureGates:\n{gates}")
}

fn hostile_files() -> Vec<(&'static str, String)> {
    vec![
        ("unknown fields", lines(MANY, |index| format!("field{index}: 1"))),
        ("duplicate keys", lines(MANY, |_| "maxPods: 5".to_owned())),
        ("duplicate keys in JSON", format!("{{{}\"maxPods\": 5}}", "\"maxPods\": -5,".repeat(MANY))),
        ("secret fields", lines(FEWER, |index| format!("staticPodURL{index}: x"))),
        ("deep nesting", format!("{HEADER}a: {}{}", "[".repeat(MANY), "]".repeat(MANY))),
        ("long keys", lines(900, |index| format!("{}{index}: 1", "k".repeat(1000)))),
        ("a long name of a gate", format!("{HEADER}featureGates: {{\"{}\": true}}\n", "G".repeat(900_000))),
        ("wrong items", format!("{HEADER}clusterDNS: [{}]\n", "{},".repeat(FEWER))),
    ]
}

#[test]
fn lists_a_bounded_number_of_findings_and_stays_an_error() {
    for (name, text) in hostile_files() {
        let checked = check_file("kubelet.yaml", &text, &[NEWEST], Strictness::Strict);
        assert!((1..=MAX_PER_FILE + 1).contains(&checked.findings.len()), "{name}: {}", checked.findings.len());
        assert!(checked.findings.iter().any(|finding| finding.severity == Severity::Error), "{name}");
    }
}

#[test]
fn refuses_many_unknown_gates_and_counts_those_left_out() {
    let checked = check_file("kubelet.yaml", &unknown_gates(), &[NEWEST], Strictness::Lenient);
    assert_eq!(checked.verdicts[0].stage, Stage::Gates);
    assert!(checked.findings.iter().any(|finding| finding.severity == Severity::Error));
    let left_out: Vec<&Finding> = checked.findings.iter().filter(|found| found.code == "findings-left-out").collect();
    let [left_out] = left_out.as_slice() else { panic!("{left_out:?}") };
    assert_eq!(left_out.message, "39900 further findings about kubelet.yaml are not listed");
    assert_eq!(checked.findings.len(), MAX_PER_FILE + 1);
}

#[test]
fn proposes_names_for_the_first_unknown_ones_only() {
    let fields: String = (10..90).map(|index| format!("maxPods{index}: 5\n")).collect();
    let gates: String = (10..90).map(|index| format!("  NodeSwap{index}: true\n")).collect();
    for text in [fields, format!("featureGates:\n{gates}")] {
        let checked = check_file("kubelet.yaml", &format!("{HEADER}{text}"), &[NEWEST], Strictness::Strict);
        let proposed =
            |finding: &&Finding| finding.help.as_deref().is_some_and(|help| help.starts_with("did you mean"));
        assert_eq!((checked.findings.len(), checked.findings.iter().filter(proposed).count()), (80, 20));
    }
}

#[test]
fn refuses_many_patches_of_one_pool() {
    let patches = "p.yaml, ".repeat(MANY);
    let pool = format!(
        "apiVersion: nodecfg.dev/v1alpha1\nkind: NodePool\nmetadata: {{name: a}}\nspec: {{kubelet: {{patches: [{patches}]}}}}\n"
    );
    let files =
        [("pools/a/pool.yaml", pool.as_str()), ("pools/a/kubelet.yaml", HEADER), ("pools/a/p.yaml", "maxPods: 5\n")];
    let built = build(&Snapshot::of_texts(files), &Checks::default());
    let found: Vec<&str> = built.findings.iter().map(|finding| finding.message.as_str()).collect();
    assert!(built.desired.is_none());
    assert_eq!(found, ["`spec.kubelet.patches`: 40000 entries, at most 50 are allowed"]);
}

/// The last patch removes what the others add, so the result is small.
#[test]
fn merges_a_bounded_number_of_bytes() {
    let pool = |name: &str| {
        format!(
            "apiVersion: nodecfg.dev/v1alpha1\nkind: NodePool\nmetadata: {{name: {name}}}\n\
             spec: {{kubelet: {{patches: [{} ../../none.yaml]}}}}\n",
            "../../large.yaml, ".repeat(40)
        )
    };
    let (large, own) = (format!("clusterDomain: {}\n", "x".repeat(10_000)), HEADER.to_owned());
    let mut files =
        vec![("large.yaml".to_owned(), large), ("none.yaml".to_owned(), "clusterDomain: null\n".to_owned())];
    for name in (0..9).map(|at| format!("p{at}")) {
        files.extend([
            (format!("pools/{name}/pool.yaml"), pool(&name)),
            (format!("pools/{name}/kubelet.yaml"), own.clone()),
        ]);
    }
    let files = files.iter().map(|(path, text)| (path.as_str(), text.as_str()));
    let built = build(&Snapshot::of_texts(files), &Checks::default());
    let codes: Vec<&str> =
        built.findings.iter().map(|finding| finding.code).filter(|code| *code != "no-fleet").collect();
    assert_eq!((codes, built.checked.len()), (vec!["too-much-text"], 2), "1 MiB has two pools with 400 kB of patches");
}

#[test]
fn renders_a_bounded_number_of_bytes() {
    let base = format!("{HEADER}clusterDomain: {}\n", "x".repeat(300_000));
    let pool = |name: &str| {
        format!(
            "apiVersion: nodecfg.dev/v1alpha1\nkind: NodePool\nmetadata: {{name: {name}}}\n\
             spec: {{kubelet: {{base: ../../base/b.yaml}}}}\n"
        )
    };
    let names: Vec<String> = (0..9).map(|at| format!("p{at}")).collect();
    let mut files: Vec<(String, String)> =
        names.iter().map(|name| (format!("pools/{name}/pool.yaml"), pool(name))).collect();
    files.push(("base/b.yaml".to_owned(), base));
    let files = files.iter().map(|(path, text)| (path.as_str(), text.as_str()));
    let built = build(&Snapshot::of_texts(files), &Checks::default());
    let too_much: Vec<&Finding> = built.findings.iter().filter(|finding| finding.code == "too-much-text").collect();
    let [too_much] = too_much.as_slice() else { panic!("{too_much:?}") };
    assert!(too_much.message.ends_with("bytes together"), "{}", too_much.message);
    assert_eq!((built.desired.is_none(), built.checked.len()), (true, 4), "the first pool beyond is the last one");
}
