//! Advice on the next version: the kubelet after the newest of the given versions.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::defaults;
use super::fields::{deprecated, replacement};
use super::remarks::Remarks;
use crate::document::Document;
use crate::fields::{self, Field};
use crate::verdict::{Config, Verdict, assess};
use crate::{Minor, NEWEST};

/// Fields that are removed, or whose default changes.
static CHANGING: LazyLock<Vec<&'static Field>> = LazyLock::new(|| {
    let changes = |field: &&Field| field.until < NEWEST || field.default.iter().count() > 1;
    fields::all().filter(|field| !field.path.contains(['[', '{'])).filter(changes).collect()
});

pub(super) fn check(document: &Document, newest: &Verdict, config: &Config<'_>, next: Minor, remarks: &mut Remarks) {
    remarks.set_version(newest);
    let known: BTreeSet<_> = newest.reasons().map(|refusal| (refusal.rule, refusal.field.as_str())).collect();
    let coming = assess(document, next);
    for refusal in coming.reasons() {
        if known.contains(&(refusal.rule, refusal.field.as_str())) {
            continue;
        }
        let message = format!("{next} refuses this: {}", refusal.message);
        remarks.at("next-version", refusal.field.clone(), refusal.place.clone(), message);
        for (place, label) in &refusal.related {
            remarks.related(place.clone(), label.clone());
        }
        let help = format!("change it before nodes run {next}");
        remarks.help(refusal.help.as_ref().map_or_else(|| help.clone(), |known| format!("{help}: {known}")));
    }
    let is_over = |field: &&&Field| field.until == newest.minor;
    for path in CHANGING.iter().filter(is_over).map(|field| field.path.as_str()) {
        if config.given(path).is_some() {
            let message = format!("`{path}` has no effect from {next} on: kubelets drop it");
            remarks.field(config, "dropped-next", path, message).help(format!("remove it before nodes run {next}"));
        }
    }
    for field in deprecated(next).filter(|field| field.deprecated_since == Some(next)) {
        let path = field.path.as_str();
        if defaults::is_set(config, path) {
            remarks
                .field(config, "deprecated-next", path, format!("`{path}` is deprecated from {next} on"))
                .help(replacement(field));
        }
    }
    for field in CHANGING.iter().filter(|field| field.is_known_to(newest.minor) && field.is_known_to(next)) {
        let (path, now, then) = (field.path.as_str(), field.default.at(newest.minor), field.default.at(next));
        if let (Some(now), Some(then)) = (now, then)
            && now != then
            && !defaults::is_set(config, path)
            // The field has no effect while its feature gate is off.
            && field.gate.at(newest.minor).is_none_or(|gate| config.gate(gate))
        {
            let message = format!("`{path}` is not set, and its default changes from {now} to {then} in {next}");
            remarks
                .field(config, "default-changes-next", path, message)
                .help(format!("set {path}: {now} to keep the current behavior"));
        }
    }
}
