//! Configurations of the crash tests, and the kubelet's behaviour on each.

use std::collections::BTreeMap;

use nodecfg_agent::content;

/// Behaviour of a kubelet on a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    Good,
    /// Would not start; the agent must detect that in advance.
    Refused,
    /// Never answers.
    Silent,
    /// Answers for 20 s after its first start on the configuration.
    Dies,
    /// Answers for 5 s, then fails for 5 s, repeatedly.
    Loops,
    /// Answers, but its Node is never Ready.
    Unready,
    /// Its restart command fails.
    NoRestart,
}

/// The node's own configuration. An overlay keeps its last field.
pub const LOCAL: &str =
    "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 110\nregistryBurst: 20\n";
/// The field that no other configuration has.
const OWN_FIELD: &str = "registryBurst: 20\n";

/// Text of an overlay merged over the node's own configuration. `None` if it cannot be read.
pub fn over_local(text: &str) -> Option<String> {
    content::merged_text(&content::Underneath::file(LOCAL.to_owned()), Some(text), None)
}

/// What a text and the overlay of it have in common.
pub fn essence(text: &str) -> String {
    content::canonical(text).unwrap_or_else(|| text.to_owned()).replace(OWN_FIELD, "")
}

/// Names of all configurations. `maxPods` encodes the behaviour.
pub const NAMES: [&str; 12] = [
    "good-a",
    "good-b",
    "good-c",
    "unknown-field",
    "bad-value",
    "bad-yaml",
    "silent",
    "dies",
    "loops",
    "unready",
    "no-restart",
    "empty",
];

/// Text of a configuration. `edition` changes the text but not the behaviour.
pub fn text(name: &str, edition: u32) -> String {
    let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    let pods = match name {
        "good-a" => 1_000,
        "good-b" => 1_010,
        "good-c" => 1_020,
        "unknown-field" => 1_030,
        "silent" => 2_000,
        "dies" => 2_010,
        "loops" => 2_020,
        "unready" => 2_030,
        "no-restart" => 2_040,
        "bad-yaml" => return format!("maxPods: [{edition}\n"),
        "empty" => return String::new(),
        _ => return format!("{head}maxPods: -5\npodsPerCore: {edition}\n"),
    };
    let more = if name == "unknown-field" { "noSuchFieldAnywhere: 1\n" } else { "" };
    format!("{head}maxPods: {pods}\npodsPerCore: {edition}\n{more}")
}

/// Payload of a ConfigMap.
pub fn payload(name: &str, edition: u32) -> BTreeMap<String, String> {
    BTreeMap::from([("kubelet".to_owned(), text(name, edition)), ("README".to_owned(), format!("{name}\n"))])
}

fn pods(text: &str) -> Option<i64> {
    text.lines().find_map(|line| line.strip_prefix("maxPods: "))?.parse().ok()
}

/// Behaviour of a kubelet on a text.
pub fn behaviour(text: &str) -> Behaviour {
    match pods(text) {
        Some(2_000) => Behaviour::Silent,
        Some(2_010) => Behaviour::Dies,
        Some(2_020) => Behaviour::Loops,
        Some(2_030) => Behaviour::Unready,
        Some(2_040) => Behaviour::NoRestart,
        Some(pods) if pods > 0 => Behaviour::Good,
        _ => Behaviour::Refused,
    }
}

/// Reports whether a kubelet starts with a text.
pub fn runs(text: &str) -> bool {
    behaviour(text) != Behaviour::Refused
}

/// Name of the configuration with this text.
pub fn name(text: &str) -> &'static str {
    let names = NAMES.into_iter().filter(|name| runs(&self::text(name, 0)));
    let found =
        pods(text).and_then(|pods| names.into_iter().find(|name| self::pods(&self::text(name, 0)) == Some(pods)));
    if text == LOCAL { "local" } else { found.unwrap_or("unknown") }
}
