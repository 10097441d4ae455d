//! Tests of overlays, alone and over own configurations.

use super::*;
use crate::snapshot::Snapshot;
use crate::{Checks, Kubelets, build};
use kubelet_config::verdict::assess;

const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

/// Findings of pool `a` with these fields for these versions, as `<severity> <code> <versions>: <message>`.
fn findings(spec: &str, fields: &str, own: Option<&str>, minors: &[u32]) -> Vec<String> {
    let pool = format!(
        "apiVersion: nodecfg.dev/v1alpha1\nkind: NodePool\nmetadata: {{name: a}}\nspec: {{kubelet: {{{spec}}}}}\n"
    );
    let mut files =
        vec![("pools/a/pool.yaml".to_owned(), pool), ("pools/a/kubelet.yaml".to_owned(), format!("{HEAD}{fields}\n"))];
    files.extend(own.map(|own| ("base/own.yaml".to_owned(), format!("{HEAD}{own}\n"))));
    let snapshot = Snapshot::of_texts(files.iter().map(|(path, text)| (path.as_str(), text.as_str())));
    let kubelets = Kubelets::Given(minors.iter().copied().map(Minor).collect());
    let shown = |finding: &Finding| {
        let versions: Vec<String> = finding.kubelets.iter().map(ToString::to_string).collect();
        format!("{} {} {}: {}", finding.severity, finding.code, versions.join(" "), finding.message)
    };
    build(&snapshot, &Checks { kubelets, ..Checks::default() }).findings.iter().map(shown).collect()
}

const OWN: &str = "own: ../../base/own.yaml";

#[test]
fn overlay_alone_is_refused_for_what_every_own_configuration_leaves_refused() {
    // The low threshold is 80 unless the own configuration sets another one.
    let high = "imageGCHighThresholdPercent: 70";
    let note = "note depends-on-own 1.36: pool a: the own configuration of the nodes decides whether kubelets accept \
                imageGCLowThresholdPercent";
    assert_eq!(findings("", high, None, &[36]), [note]);
    assert_eq!(findings("placement: overlay", high, None, &[36]), [note]);
    let refused = "error image-gc-thresholds 1.36:";
    assert!(findings("placement: replace", high, None, &[36])[0].starts_with(refused));
    let both = format!("{high}\nimageGCLowThresholdPercent: 75");
    assert!(findings("", &both, None, &[36])[0].starts_with(refused));
    assert!(findings("", "maxPods: -1", None, &[36])[0].starts_with("error max-pods 1.36:"));
    // Kubelets up to 1.23 know no overlay.
    let mixed = findings("", high, None, &[23, 24]);
    assert!(mixed[0].starts_with("error image-gc-thresholds 1.23:"), "{mixed:?}");
    assert!(mixed[1].starts_with("note depends-on-own 1.24:"), "{mixed:?}");
}

#[test]
fn overlay_is_checked_over_the_own_configuration() {
    let high = "imageGCHighThresholdPercent: 70";
    assert_eq!(findings(OWN, high, Some("imageGCLowThresholdPercent: 60"), &[36]), [""; 0]);
    let refused = findings(OWN, high, Some("imageGCLowThresholdPercent: 75"), &[36]);
    assert!(refused[0].starts_with("error image-gc-thresholds 1.36:"), "{refused:?}");
    // A field that the overlay replaces is not the own one.
    assert_eq!(findings(OWN, "maxPods: 50", Some("maxPods: 60"), &[36]), [""; 0]);
    // Advice about own fields is not the pool's.
    assert_eq!(findings(OWN, "maxPods: 50", Some("clusterDNS: []"), &[36]), [""; 0]);
    let wrong = findings(OWN, "maxPods: 50", Some("maxPod: 60"), &[36]);
    assert!(wrong[0].starts_with("error unknown-field "), "{wrong:?}");
    let missing = findings("own: ../../base/own.yaml", "maxPods: 50", None, &[36]);
    assert!(missing[0].starts_with("error bad-path "), "{missing:?}");
}

/// Recorded: kubelets 1.29 to 1.31 ignore `resolvConf` and zero values of drop-ins.
#[test]
fn versions_that_merge_drop_ins_otherwise_are_named() {
    let differing = findings("", "resolvConf: /etc/other.conf\nmaxPods: 50", None, &[27, 28, 29, 30, 31, 32, 36]);
    let expected = "note drop-in-differs 1.29 1.30 1.31: agents that write drop-ins cannot set `resolvConf`: the kubelet runs \
                    another value";
    assert_eq!(differing, [expected]);
    assert_eq!(findings("placement: replace", "resolvConf: /etc/other.conf", None, &[30]), [""; 0]);
}

#[test]
fn fleet_names_the_own_configuration_of_its_pools() {
    let fleet =
        "apiVersion: nodecfg.dev/v1alpha1\nkind: Fleet\nmetadata: {name: f}\nspec: {kubelet: {own: base/own.yaml}}\n";
    let files = [
        ("nodecfg.yaml", fleet),
        ("base/own.yaml", &format!("{HEAD}imageGCLowThresholdPercent: 60\n")),
        ("pools/a/kubelet.yaml", &format!("{HEAD}imageGCHighThresholdPercent: 70\n")),
    ];
    let built =
        build(&Snapshot::of_texts(files), &Checks { kubelets: Kubelets::Given(vec![Minor(36)]), ..Checks::default() });
    assert_eq!(built.findings, []);
    assert!(built.files["a"].contains("base/own.yaml"));
    let desired = built.desired.unwrap();
    let pool = desired.pools.values().next().unwrap();
    assert_eq!(pool.own.as_ref().map(|own| own.path.as_str()), Some("base/own.yaml"));
}

/// Columns of `tests/data/rules.txt`: rule, versions, field, refused and accepted configuration.
fn examples() -> impl Iterator<Item = [&'static str; 5]> {
    let lines = include_str!("../../../tests/data/rules.txt").lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split(" | ").collect::<Vec<_>>().try_into().unwrap())
}

fn document(fields: &str) -> Document {
    let text = match fields.strip_prefix('{') {
        Some(rest) => format!("# \n{{apiVersion: {API_VERSION}, kind: {KIND}, {rest}"),
        None => format!("{HEAD}{fields}\n"),
    };
    Document::parse("kubelet.yaml", &text).document.unwrap()
}

/// An error that depends on the node would block a valid change. So whatever is certain stays refused over each own
/// configuration that sets one of the fields which the rule reads, or feature gates.
#[test]
fn certain_refusals_hold_over_every_own_configuration() {
    let gates = ["featureGates: {AllAlpha: true, AllBeta: true}", "featureGates: {AllBeta: false}"];
    let owns: Vec<(String, Document)> = examples()
        .flat_map(|[.., refused, accepted]| [refused, accepted])
        .chain(gates)
        .map(|fields| (fields.to_owned(), document(fields)))
        .collect();
    let (mut certain, mut depending) = (0, BTreeSet::new());
    for [rule, _, _, refused, _] in examples() {
        let overlay = document(refused);
        let reads = rules::lookup(rule).map(|rule| rule.fields.clone()).unwrap_or_default();
        let top = |path: &str| path.split(['.', '[', '{']).next().unwrap_or_default().to_owned();
        let sets = |own: &Document| {
            reads.iter().chain([&"featureGates".to_owned()]).any(|field| own.root.get(&top(field)).is_some())
        };
        let (verdict, others) = alone(assess(&overlay, NEWEST_RELEASED), &overlay);
        depending.extend(others.iter().map(|refusal| refusal.rule));
        if verdict.runs() {
            continue;
        }
        certain += 1;
        for (fields, own) in owns.iter().filter(|(_, own)| sets(own)) {
            let over = assess(&overlaid(Some(own), &overlay), NEWEST_RELEASED);
            assert!(!over.runs(), "{rule}: {refused} is accepted over {fields}");
        }
    }
    assert!(certain > 50, "{certain}");
    assert!(depending.contains("image-gc-thresholds") && depending.len() > 10, "{depending:?}");
}
