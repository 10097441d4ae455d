//! Tests of the formulas of reservations: published amounts, reading and findings.

use super::*;
use kubelet_config::finding::Severity;

/// Published amounts, each with the address of its source. Memory that AKS documents in MB stands in Mi.
const PUBLISHED: &str = include_str!("../tests/data/published-reservations.csv");

fn read(text: &str) -> (Option<Reserve>, Vec<String>) {
    let document = Document::parse("pool.yaml", text).document.expect("a document");
    let mut findings = Vec::new();
    let reserve = Reserve::read(&mut At { node: &document.root, path: "reserve", findings: &mut findings });
    (reserve, findings.into_iter().map(|finding| finding.message).collect())
}

fn good(text: &str) -> Reserve {
    let (reserve, findings) = read(text);
    assert!(findings.is_empty(), "{findings:?}");
    reserve.expect("a formula")
}

fn pods(most: u32) -> Pods {
    Pods { most, per_core: 0 }
}

fn amounts(reserve: &Reserve, capacity: Capacity, pods: Pods) -> Vec<String> {
    let text = |(resource, amount): (Resource, String)| format!("{} {amount}", resource.as_str());
    reserve.reserved().amounts(capacity, pods).map(text).collect()
}

#[test]
fn presets_reserve_what_providers_publish() {
    let mut cases = 0;
    for line in PUBLISHED.lines().skip(1) {
        let columns: Vec<&str> = line.split(',').collect();
        let [preset, cores, memory, most, disk, resource, reserved, _source] = columns[..] else { panic!("{line}") };
        let preset = Preset::ALL.into_iter().find(|known| known.as_str() == preset).expect("a preset");
        let given = |text: &'static str| Some(text).filter(|text| !text.is_empty());
        let capacity = Capacity::parse(given(cores), given(memory), given(disk));
        let pods = pods(most.parse().unwrap_or(110));
        let mut amounts = preset.reserved().amounts(capacity, pods);
        let found = amounts.find(|(found, _)| found.as_str() == resource).expect("an amount").1;
        let is_same = Quantity::parse(&found) == Quantity::parse(reserved);
        assert!(is_same, "{line}: {found}");
        cases += 1;
    }
    assert_eq!(cases, 69);
}

#[test]
fn preset_files_have_no_findings() {
    for preset in Preset::ALL {
        let parsed = Document::parse(preset.as_str(), preset.text());
        let mut findings = parsed.findings;
        let document = parsed.document.expect("a document");
        let read = Reserved::read(&mut At { node: &document.root, path: "", findings: &mut findings });
        assert!(findings.is_empty() && read.is_some(), "{findings:?}");
        assert!(preset.reserved().formulas().count() >= 2, "{preset:?}");
    }
}

#[test]
fn design_example_is_the_formula_of_eks() {
    let written = good(
        "kubeReserved:\n  cpu: {tiers: [{first: 1, percent: 6}, {next: 1, percent: 1}, {next: 2, percent: 0.5}, \
         {percent: 0.25}]}\n  memory: {base: 255Mi, perPod: 11Mi}\n",
    );
    let eks = good("preset: eks");
    for (cores, most) in [("2", 29), ("96", 737)] {
        let capacity = Capacity::parse(Some(cores), None, None);
        assert_eq!(amounts(&written, capacity, pods(most)), amounts(&eks, capacity, pods(most))[..2]);
    }
    assert_eq!(
        written.to_string(),
        "cpu: 6% of the first 1, 1% of the next 1, 0.5% of the next 2, 0.25% of the rest; memory: 255Mi + 11Mi for each pod"
    );
}

#[test]
fn only_resources_that_amounts_depend_on_make_sizes() {
    let machine = Capacity::parse(Some("4"), Some("15996Mi"), Some("94Gi"));
    let size = |text: &str, pods: Pods| machine.rounded_up(good(text).steps(pods)).expect("known").to_string();
    assert_eq!(size("preset: gke", pods(110)), "4 CPU, 16Gi, 100Gi disk");
    assert_eq!(size("preset: eks", pods(110)), "4 CPU");
    assert_eq!(size("preset: aks\nroundTo: {memory: 12Gi}", pods(110)), "4 CPU, 24Gi");
    // Below the step: its half, its quarter and so on.
    assert_eq!(size("preset: aks\nroundTo: {memory: 64Gi}", pods(110)), "4 CPU, 16Gi");
    let largest = Capacity::default().with(Resource::Memory, u64::MAX);
    let step = Capacity::default().with(Resource::Memory, 1 << 30);
    assert_eq!(largest.rounded_up(step), Some(largest));
    let memory = "kubeReserved: {memory: {base: 100Mi, perPod: 1Mi}}";
    assert_eq!(size(memory, pods(110)), "");
    // The number of pods follows from the cores.
    let per_core = Pods { most: 110, per_core: 10 };
    assert_eq!(size(memory, per_core), "4 CPU");
    assert_eq!(amounts(&good(memory), machine, per_core), ["memory 140Mi"]);
}

#[test]
fn unknown_capacity_has_no_amount() {
    assert_eq!(amounts(&good("preset: gke"), Capacity::parse(Some("4"), None, None), pods(110)), ["cpu 80m"]);
    assert_eq!(Capacity::default().rounded_up(good("preset: gke").steps(pods(110))), None);
}

#[test]
fn limits_bound_amounts() {
    let of = |text: &str, memory: &str| {
        let reserve = good(&format!("kubeReserved: {{memory: {{{text}}}}}"));
        amounts(&reserve, Capacity::parse(None, Some(memory), None), pods(110)).concat()
    };
    assert_eq!(of("tiers: [{percent: 10}], atLeast: 1Gi", "4Gi"), "memory 1Gi");
    assert_eq!(of("tiers: [{percent: 10}], atMost: 2Gi", "64Gi"), "memory 2Gi");
    assert_eq!(of("base: 6Gi, tiers: [{percent: 35}], atMost: [50%, 100Gi]", "10Gi"), "memory 5Gi");
    assert_eq!(of("base: 3Gi", "1Gi"), "memory 3Gi");
    // More than any machine has, and no overflow.
    assert_eq!(of("base: 9223372036854775807, perPod: 9223372036854775807", "1Gi"), "memory 17592186044415Mi");
}

#[test]
fn reports_what_is_wrong() {
    for (text, wanted) in [
        ("roundTo: {memory: 1Gi}", "`reserve.preset` is missing"),
        ("kubeReserved: {}", "`reserve.kubeReserved.memory` is missing"),
        ("kubeReserved: {cpu: {}}", "`reserve.kubeReserved.cpu.base` is missing"),
        ("kubeReserved: {cpu: {atMost: 1}}", "`reserve.kubeReserved.cpu.base` is missing"),
        ("preset: oke", "`reserve.preset`: unknown preset \"oke\""),
        ("preset: gke\nkubeReserved: {cpu: {base: 1}}", "`reserve.kubeReserved`: a preset has the formulas already"),
        ("kubeReserved: {gpu: {base: 1}}", "unknown field \"gpu\" in `reserve.kubeReserved`"),
        ("kubeReserved: {cpu: {base: -1}}", "`reserve.kubeReserved.cpu.base`: \"-1\" is not a quantity"),
        ("kubeReserved: {cpu: {base: 1x}}", "`reserve.kubeReserved.cpu.base`: \"1x\" is not a quantity"),
        ("kubeReserved: {cpu: {tiers: [{first: 1}]}}", "`reserve.kubeReserved.cpu.tiers[0].percent` is missing"),
        ("kubeReserved: {cpu: {tiers: [{percent: 0.001}]}}", "\"0.001\" is not a percentage"),
        ("kubeReserved: {cpu: {tiers: [{percent: 101}]}}", "\"101\" is not a percentage"),
        ("kubeReserved: {cpu: {tiers: [{next: 1, percent: 1}]}}", "the first tier has `next`"),
        (
            "kubeReserved: {cpu: {tiers: [{first: 1, percent: 1}, {first: 1, percent: 1}]}}",
            "only the first tier has `first`",
        ),
        ("kubeReserved: {cpu: {tiers: [{percent: 1}, {next: 1, percent: 1}]}}", "only the last tier covers the rest"),
        ("kubeReserved: {cpu: {atMost: 101%}}", "`reserve.kubeReserved.cpu.atMost`: it is not a percentage"),
        ("preset: gke\nroundTo: {memory: 0}", "`reserve.roundTo.memory`: it must be greater than 0"),
    ] {
        let (_, findings) = read(text);
        assert!(findings.iter().any(|found| found.contains(wanted)), "{text}: {findings:?}");
    }
    let severity = |text: &str| {
        let document = Document::parse("pool.yaml", text).document.expect("a document");
        let mut findings = Vec::new();
        let _ = Reserve::read(&mut At { node: &document.root, path: "reserve", findings: &mut findings });
        findings.into_iter().all(|finding| finding.severity == Severity::Error && finding.help.is_some())
    };
    assert!(severity("kubeReserved: {cpu: {base: x, tiers: [{percent: y}], atMost: z%}}"));
}
