//! Tests of decoding: each refusal with its rule and field.

use std::collections::BTreeSet;

use super::{check, is_rfc3339, json_number, jsoniter};
use crate::Minor;
use crate::document::Document;
use crate::verdict::rules::{self, RuleStage};

const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

fn refusals(text: &str, minor: u32) -> Vec<String> {
    let parsed = Document::parse("kubelet.yaml", text);
    let document = parsed.document.unwrap_or_else(|| panic!("{text}: {:?}", parsed.findings));
    check(&document, Minor(minor))
        .into_iter()
        .map(|r| format!("{} {}: {} ({})", r.rule, r.field, r.message, r.help.unwrap_or_default()))
        .collect()
}

fn decodes(fields: &str, minor: u32) -> bool {
    refusals(&format!("{HEAD}{fields}\n"), minor).is_empty()
}

/// For each rule: a refused configuration, a version, the message, and a similar accepted configuration.
const EXAMPLES: [(&str, &str, u32, &str, &str); 17] = [
    (
        "field-types",
        "maxPods: '110'",
        36,
        "maxPods: maxPods must be a whole number, not the text \"110\" (write 110, without quotes)",
        "maxPods: 110",
    ),
    ("field-types", "maxPods: 1.5", 21, "maxPods: maxPods must be a whole number, not 1.5 ()", "maxPods: 1.0"),
    (
        "field-types",
        "evictionHard: {memory.available: 5}",
        36,
        "evictionHard.memory.available: evictionHard.memory.available must be text, not the number 5 (write \"5%\" for a share of the capacity, or write \"5Mi\" for mebibytes)",
        "evictionHard: {memory.available: ~}",
    ),
    (
        "field-types",
        "clusterDomain: no",
        36,
        "clusterDomain: clusterDomain must be text, not the boolean false (write \"no\", in quotes)",
        "clusterDomain: 'no'",
    ),
    (
        "field-types",
        "clusterDNS: a",
        36,
        "clusterDNS: clusterDNS must be a list, not the text \"a\" ()",
        "clusterDNS: [~, a]",
    ),
    (
        "field-types",
        "registerWithTaints: [{key: a}, {key: []}]",
        36,
        "registerWithTaints[1].key: registerWithTaints[1].key must be text, not a list ()",
        "registerWithTaints: [{key: a}, ~]",
    ),
    (
        "field-types",
        "syncFrequency: 10",
        36,
        "syncFrequency: syncFrequency must be a duration, not the number 10 (write 10s for seconds, or another unit: ms, m, h)",
        "syncFrequency: 10s",
    ),
    (
        "field-types",
        "logging: {flushFrequency: 5s}",
        27,
        "logging.flushFrequency: logging.flushFrequency must be a whole number, not the text \"5s\" ()",
        "logging: {flushFrequency: 5000000000}",
    ),
    (
        "number-bounds",
        "maxPods: 2147483648",
        36,
        "maxPods: maxPods is 2147483648; the field allows -2147483648 to 2147483647 (the closest allowed value is 2147483647)",
        "maxPods: -2147483648",
    ),
    (
        "number-bounds",
        "logging: {verbosity: -0.0}",
        36,
        "logging.verbosity: logging.verbosity is -0; the field allows 0 to 4294967295 (the closest allowed value is 0)",
        "logging: {verbosity: -0}",
    ),
    (
        "durations",
        "syncFrequency: ~",
        36,
        "syncFrequency: syncFrequency is null, which is not a duration (omit the key for the default, or write a \
         duration such as 30s)",
        "cpuCFSQuotaPeriod: ~",
    ),
    (
        "durations",
        "syncFrequency: 1d",
        36,
        "syncFrequency: syncFrequency is \"1d\", which is not a duration (write 24h: a day is no unit)",
        "syncFrequency: 24h",
    ),
    (
        "quantities",
        "reservedMemory: [{limits: {memory: 1GiB}}]",
        21,
        "reservedMemory[0].limits.memory: reservedMemory[0].limits.memory is \"1GiB\", which is not a quantity (write \"1Gi\")",
        "reservedMemory: [{limits: {memory: ' 1Gi ', cpu: 1.5, other: ~, large: 1e30}}]",
    ),
    (
        "times",
        "registerWithTaints: [{timeAdded: ''}]",
        36,
        "registerWithTaints[0].timeAdded: registerWithTaints[0].timeAdded is \"\", which is not a time (remove it: the kubelet \
         refuses every time)",
        "registerWithTaints: [{timeAdded: 2024-01-01T00:00:00Z}, {timeAdded: ~}]",
    ),
    (
        "finite-numbers",
        "unknown: [{a: -.inf}]",
        36,
        "unknown[0].a: unknown[0].a is -.inf, which JSON cannot represent as a number (write a finite number, or the text in quotes: \
         \"-.inf\")",
        "unknown: [{a: 1e999}]",
    ),
    (
        "finite-numbers",
        "unknown: .inf\nunknown: 1\nmaxPods: .nan",
        36,
        "maxPods: maxPods is .nan, which JSON cannot represent as a number (write a finite number, or the text in quotes: \".nan\")",
        "unknown: .inf\nunknown: 1",
    ),
    (
        "kind",
        "Kind: 5\nkind: KubeletConfiguration",
        36,
        "kind: kind must be text, not the number 5 (write kind: KubeletConfiguration)",
        "Kind: Pod",
    ),
];

#[test]
fn each_rule_refuses_its_example_only() {
    for (rule, bad, minor, message, good) in EXAMPLES {
        let found = refusals(&format!("{HEAD}{bad}\n"), minor);
        assert_eq!(found.first(), Some(&format!("{rule} {message}")), "{bad}");
        assert!(decodes(good, minor), "{good}: {:?}", refusals(&format!("{HEAD}{good}\n"), minor));
    }
}

#[test]
fn each_row_of_the_table_has_an_example() {
    let rows: BTreeSet<&str> =
        rules::all().filter(|rule| rule.stage == RuleStage::Load).map(|rule| rule.id.as_str()).collect();
    let examples: BTreeSet<&str> =
        EXAMPLES.iter().map(|(rule, ..)| *rule).chain(["api-version", "top-level-map"]).collect();
    assert_eq!(rows, examples);
}

#[test]
fn checks_api_version_and_kind() {
    for (text, start) in [
        ("kind: KubeletConfiguration", "api-version apiVersion: apiVersion is missing"),
        (
            "apiVersion: v1\nkind: KubeletConfiguration",
            "api-version apiVersion: apiVersion is \"v1\"; the kubelet accepts",
        ),
        ("apiVersion: ''\nkind: KubeletConfiguration", "api-version apiVersion: apiVersion is empty"),
        ("apiVersion: kubelet.config.k8s.io/v1beta1", "kind kind: kind is missing"),
        ("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfigurationList", "kind kind: kind is \"Kubelet"),
        ("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: ~", "kind kind: kind is missing"),
        ("- a", "top-level-map : the file must be a map, not a list"),
        ("hello", "top-level-map : the file must be a map, not the text \"hello\""),
        (
            r#"{"kind":"KubeletConfiguration","apiVersion":"kubelet.config.k8s.io/v1beta1","Kind":"Pod"}"#,
            "kind kind: kind is \"Pod\"",
        ),
    ] {
        let found = refusals(text, 36);
        assert!(found.len() == 1 && found[0].starts_with(start), "{text}: {found:?}");
    }
    for text in [
        "APIVERSION: kubelet.config.k8s.io/v1beta1\nKIND: KubeletConfiguration",
        "Kind: Pod\napiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration",
        "\u{212a}ind: KubeletConfiguration\napiVer\u{17f}ion: kubelet.config.k8s.io/v1beta1",
        r#"{"Kind":"Pod","kind":"KubeletConfiguration","apiVersion":"kubelet.config.k8s.io/v1beta1"}"#,
    ] {
        assert_eq!(refusals(text, 36), Vec::<String>::new(), "{text}");
    }
    // Fields of another kind are not checked.
    assert_eq!(refusals("apiVersion: v1\nkind: Pod\nmaxPods: x", 36).len(), 2);
}

#[test]
fn drops_fields_of_other_versions() {
    assert!(decodes("MaxPods: x\nauthentication: {X509: 5, x509: {foo: []}}\nspec: {maxPods: x}", 36));
    assert!(decodes("podLogsDir: 5\nregisterWithTaints: 5", 21));
    assert!(!decodes("podLogsDir: 5", 36) && !decodes("registerWithTaints: 5", 36));
    assert!(decodes("dynamicKubeletConfigDir: 5", 36));
}

#[test]
fn decodes_json_without_conversion() {
    let json = |fields: &str| {
        refusals(
            &format!(r#"{{"apiVersion":"kubelet.config.k8s.io/v1beta1","kind":"KubeletConfiguration",{fields}}}"#),
            36,
        )
    };
    assert_eq!(
        json(r#""maxPods":10.0"#),
        [
            "field-types maxPods: maxPods must be a whole number, not 10.0 (write 10: JSON allows neither a point nor an \
             exponent in a whole number)"
        ]
    );
    assert_eq!(json(r#""maxPods":1e2"#).len(), 1);
    assert_eq!(
        json(r#""memoryThrottlingFactor":1e400"#),
        [
            "number-bounds memoryThrottlingFactor: memoryThrottlingFactor is 1e400, which is out of range (write a finite number)"
        ]
    );
    assert_eq!(json(r#""clusterDomain":1e400"#).len(), 1);
    assert_eq!(json(r#""unknown":1e400,"maxPods":-0,"memoryThrottlingFactor":1e-1"#), Vec::<String>::new());
    assert_eq!(json(r#""reservedMemory":[{"limits":{"memory":1e3}}]"#), Vec::<String>::new());
}

#[test]
fn reports_every_refusal() {
    let found = refusals(&format!("{HEAD}maxPods: a\nport: b\nauthentication: {{webhook: {{cacheTTL: 5}}}}\n"), 36);
    let fields: Vec<_> = found.iter().filter_map(|line| line.split([' ', ':']).nth(1)).collect();
    assert_eq!(fields, ["authentication.webhook.cacheTTL", "maxPods", "port"]);
}

#[test]
fn decodes_every_value_of_a_json_key() {
    for (body, refusals) in [
        (r#""port": "x", "port": 1"#, 1),
        (r#""port": [], "port": {}, "port": 1"#, 2),
        (r#""authentication": {"x509": 1}, "authentication": {"x509": {}}"#, 1),
        (r#""port": 1, "port": 2"#, 0),
    ] {
        let text =
            format!(r#"{{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", {body}}}"#);
        let document = Document::parse("kubelet.json", &text).document.expect("a document");
        for minor in [21, 36] {
            assert_eq!(check(&document, Minor(minor)).len(), refusals, "{body}");
        }
    }
}

#[test]
fn formats_numbers_as_go_does() {
    for (value, text) in [
        (5.0, "5"),
        (-0.0, "-0"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1.5e-7, "1.5e-7"),
        (0.25, "0.25"),
        (9_007_199_254_740_993.0, "9007199254740992"),
    ] {
        assert_eq!(json_number(value), text);
    }
}

#[test]
fn parses_numbers_as_json_iterator_does() {
    for (sign, digits, bits, value) in [
        ("", "0", 32, Some(0)),
        ("-", "2147483648", 32, Some(-2_147_483_648)),
        ("", "4294967295", 32, Some(4_294_967_295)),
        ("", "4294967296", 32, None),
        ("", "10000000000", 32, Some(1_410_065_408)),
        ("", "100000000000", 32, None),
        ("", "18446744073709551615", 64, Some(18_446_744_073_709_551_615)),
        ("", "18446744073709551616", 64, None),
        ("", "30000000000000000000", 64, Some(11_553_255_926_290_448_384)),
        ("", "100000000000000000000", 64, None),
    ] {
        assert_eq!(jsoniter(sign, digits, bits), value, "{sign}{digits}");
    }
}

#[test]
fn parses_times_as_go_does() {
    for good in [
        "2006-01-02T15:04:05Z",
        "2006-01-02T5:04:05Z",
        "2024-02-29T00:00:00.123456789+23:59",
        "2006-01-02T15:04:05,5-07:00",
        "0000-01-01T00:00:00Z",
    ] {
        assert!(is_rfc3339(good), "{good}");
    }
    for bad in [
        "",
        "2006-01-02",
        "2006-01-02 15:04:05Z",
        "2006-01-02T15:04:05",
        "2006-01-02t15:04:05z",
        "2006-1-02T15:04:05Z",
        "2023-02-29T00:00:00Z",
        "2006-01-02T24:00:00Z",
        "2006-01-02T15:04:60Z",
        "2006-01-02T15:04:05.Z",
        "2006-01-02T15:04:05+0700",
        "2006-01-02T15:04:05Zx",
        "2006-01-02T:04:05Z",
    ] {
        assert!(!is_rfc3339(bad), "{bad}");
    }
}
