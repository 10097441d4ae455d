//! Advice on eviction: lost default thresholds, thresholds without effect, and likely inverted percentages.

use std::collections::{BTreeMap, BTreeSet};

use super::remarks::Remarks;
use crate::fields;
use crate::finding::Place;
use crate::values::quantity::Quantity;
use crate::verdict::Config;

/// A threshold above this percentage of free space is probably meant as used space.
const LIKELY_INVERTED: f64 = 50.0;

pub(super) fn check(config: &Config<'_>, remarks: &mut Remarks) {
    lost(config, remarks);
    soft(config, remarks);
    without_threshold(config, remarks);
    if config.duration("evictionPressureTransitionPeriod").is_some_and(|period| period < 0) {
        let path = "evictionPressureTransitionPeriod";
        let message =
            format!("`{path}` is negative: the node never reports pressure, and gets more pods while it evicts");
        remarks
            .field(config, "pressure-never-reported", path, message)
            .help("write a duration such as 5m, or remove it");
    }
    for map in ["evictionHard", "evictionSoft"] {
        for (signal, entry) in config.entries(map) {
            let Some(Amount::Percent(percent)) = entry.value.text().and_then(Amount::read) else { continue };
            if percent > LIKELY_INVERTED {
                // Remove rounding errors of binary fractions.
                let rest = ((100.0 - percent) * 100.0).round() / 100.0;
                remarks
                    .at(
                        "eviction-percent-high",
                        format!("{map}.{signal}"),
                        entry.value.place.clone(),
                        format!("`{map}.{signal}` evicts pods when less than {percent}% is free"),
                    )
                    .help(format!("the value is the free share; to evict at {percent}% usage, write \"{rest}%\""));
            }
        }
    }
}

/// The value of a threshold.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Amount {
    Percent(f64),
    Absolute(Quantity),
}

impl Amount {
    /// Parses a threshold; `None` for 0% and 100%, which disable it, and for invalid texts.
    fn read(text: &str) -> Option<Self> {
        if text == "0%" || text == "100%" {
            return None;
        }
        if text.ends_with('%') {
            return text.trim_end_matches('%').parse().ok().filter(|p| (0.0..=100.0).contains(p)).map(Self::Percent);
        }
        Quantity::parse(text).ok().map(Self::Absolute)
    }

    /// Reports whether this threshold is reached at the same time as another or later; `None` if this depends on the
    /// host.
    fn is_no_earlier_than(self, other: Self) -> Option<bool> {
        match (self, other) {
            (Self::Percent(a), Self::Percent(b)) => Some(a <= b),
            (Self::Absolute(a), Self::Absolute(b)) => Some(a <= b),
            _ => None,
        }
    }
}

/// Returns the default hard thresholds: signal and value.
fn default_hard(config: &Config<'_>) -> impl Iterator<Item = (&'static str, &'static str)> {
    fields::lookup("evictionHard")
        .and_then(|field| field.default.at(config.minor())?.as_object())
        .into_iter()
        .flatten()
        .filter_map(|(signal, value)| Some((signal.as_str(), value.as_str()?)))
}

/// Returns the effective hard thresholds (`cmd/kubelet/app/server.go`, `loadConfigFile`): the given ones, and the
/// defaults if the field is unset or if the defaults are merged. A given threshold has a place.
pub(super) fn hard<'d>(config: &Config<'d>) -> BTreeMap<&'d str, (&'d str, Option<Place>)> {
    let mut hard: BTreeMap<&'d str, (&'d str, Option<Place>)> = BTreeMap::new();
    if config.given("evictionHard").is_none() || config.is("mergeDefaultEvictionSettings") {
        hard.extend(default_hard(config).map(|(signal, value)| (signal, (value, None))));
    }
    for (signal, entry) in config.entries("evictionHard") {
        hard.insert(signal, (entry.value.text().unwrap_or_default(), Some(entry.value.place.clone())));
    }
    hard
}

/// Returns the free share, in percent, of a hard threshold. `None` for a quantity, and without an active threshold.
pub(super) fn hard_percent(config: &Config<'_>, signal: &str) -> Option<f64> {
    match Amount::read(hard(config).get(signal)?.0)? {
        Amount::Percent(percent) => Some(percent),
        Amount::Absolute(_) => None,
    }
}

/// Finds default thresholds that an incomplete or empty evictionHard removes.
fn lost(config: &Config<'_>, remarks: &mut Remarks) {
    let Some(given) = config.given("evictionHard").and_then(|node| node.mapping()) else { return };
    if config.is("mergeDefaultEvictionSettings") {
        return;
    }
    if given.is_empty() {
        let message = "`evictionHard` is empty: the kubelet never evicts pods, even if a resource runs out";
        remarks
            .field(config, "eviction-hard-empty", "evictionHard", message)
            .help("remove the line to get the default thresholds; keep it if the node must never evict");
        return;
    }
    let lost: Vec<_> = default_hard(config).filter(|(signal, _)| !given.contains_key(*signal)).collect();
    if lost.is_empty() {
        return;
    }
    let images_alone = lost.iter().all(|(signal, _)| signal.starts_with("imagefs."));
    let code = if images_alone { "eviction-image-defaults-lost" } else { "eviction-defaults-lost" };
    let signals = lost.iter().map(|(signal, _)| *signal).collect::<Vec<_>>().join(", ");
    let lines = lost.iter().map(|(signal, value)| format!("{signal}: \"{value}\"")).collect::<Vec<_>>().join(", ");
    let help = format!(
        "add {lines} to evictionHard, or \"0%\" for a signal without a threshold; from 1.33 on, \
         mergeDefaultEvictionSettings: true keeps the defaults too"
    );
    let message = format!("`evictionHard` omits {signals}: these signals lose their default thresholds");
    remarks.field(config, code, "evictionHard", message).help(help);
}

/// Finds soft thresholds that the hard one precedes or that give pods no grace period, and a pod grace period without
/// soft thresholds.
fn soft(config: &Config<'_>, remarks: &mut Remarks) {
    let hard = hard(config);
    let mut active = false;
    for (signal, entry) in config.entries("evictionSoft") {
        let Some((text, soft)) = entry.value.text().and_then(|text| Some((text, Amount::read(text)?))) else {
            continue;
        };
        active = true;
        let Some((hard_text, hard_place)) = hard.get(signal) else { continue };
        if Amount::read(hard_text).and_then(|hard| soft.is_no_earlier_than(hard)) == Some(true) {
            let kind = if hard_place.is_some() { "" } else { "default " };
            remarks
                .at(
                    "soft-below-hard",
                    format!("evictionSoft.{signal}"),
                    entry.value.place.clone(),
                    format!(
                        "the soft threshold {text} for {signal} is never reached before the {kind}hard one, {hard_text}"
                    ),
                )
                .help("raise the soft threshold above the hard one, or remove it");
            if let Some(place) = hard_place {
                remarks.related(place.clone(), "the hard threshold");
            }
        }
    }
    let pod_grace = config.int("evictionMaxPodGracePeriod").unwrap_or(0);
    if active && pod_grace <= 0 {
        let acts = if pod_grace < 0 { format!("{pod_grace}, which acts as 0") } else { "0".to_owned() };
        let message = format!(
            "`evictionMaxPodGracePeriod` is {acts}: a soft eviction gives pods no grace period, like a hard one"
        );
        remarks
            .field(config, "soft-eviction-kills-at-once", "evictionSoft", message)
            .help("set evictionMaxPodGracePeriod: 60, or another maximum grace period in seconds");
    }
    if !active && pod_grace != 0 {
        let message = format!("`evictionMaxPodGracePeriod` is {pod_grace}, but has no effect without soft thresholds");
        remarks
            .field(config, "pod-grace-unused", "evictionMaxPodGracePeriod", message)
            .help("remove it, or set thresholds in evictionSoft and evictionSoftGracePeriod");
    }
}

/// Finds grace periods and minimum reclaims for signals without a threshold.
fn without_threshold(config: &Config<'_>, remarks: &mut Remarks) {
    let soft: BTreeSet<&str> = config.entries("evictionSoft").map(|(signal, _)| signal).collect();
    let hard = hard(config);
    for (signal, entry) in config.entries("evictionSoftGracePeriod") {
        if !soft.contains(signal) {
            remarks
                .at(
                    "grace-without-threshold",
                    format!("evictionSoftGracePeriod.{signal}"),
                    entry.value.place.clone(),
                    format!("`evictionSoftGracePeriod` contains {signal}, but `evictionSoft` does not"),
                )
                .help(format!("set a threshold for {signal} in evictionSoft, or remove its grace period"));
        }
    }
    for (signal, entry) in config.entries("evictionMinimumReclaim") {
        if !soft.contains(signal) && !hard.contains_key(signal) {
            remarks
                .at(
                    "reclaim-without-threshold",
                    format!("evictionMinimumReclaim.{signal}"),
                    entry.value.place.clone(),
                    format!(
                        "`evictionMinimumReclaim` contains {signal}, which has neither a hard nor a soft threshold"
                    ),
                )
                .help(format!("set a threshold for {signal} in evictionHard or evictionSoft, or remove the line"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_thresholds_of_the_same_unit() {
        let no_earlier = |a, b| Amount::read(a)?.is_no_earlier_than(Amount::read(b)?);
        assert_eq!(no_earlier("50Mi", "100Mi"), Some(true));
        assert_eq!(no_earlier("0.1Gi", "100Mi"), Some(false));
        assert_eq!(no_earlier("5%", "5.0%"), Some(true));
        assert_eq!(no_earlier("5%", "100Mi"), None);
        assert_eq!(Amount::read("0%"), None);
        assert_eq!(Amount::read("100%"), None);
        assert_eq!(Amount::read("NaN%"), None);
        assert_eq!(Amount::read("0.0%"), Some(Amount::Percent(0.0)));
    }
}
