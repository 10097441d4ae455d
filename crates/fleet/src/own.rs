//! Check of a configuration as nodes place it: as the whole, or merged over their own (`placement: overlay`).
//!
//! An overlay is refused for certain only by what no own configuration changes. Where the repository has the own
//! configuration (`spec.kubelet.own`), the merged one is checked. Agents may place an overlay as a drop-in, which some
//! versions merge by other rules.

use std::collections::{BTreeMap, BTreeSet};

use super::Pool;
use super::checked::{Checked, check_document};
use kubelet_config::document::{Document, Node};
use kubelet_config::effective::{ConfigDir, ConfigFile, Effective, FolderEntry, Kubelet, Refused, effective, overlaid};
use kubelet_config::finding::{Finding, Place};
use kubelet_config::verdict::rules::{self, RuleStage};
use kubelet_config::verdict::{Refusal, Stage, Verdict};
use kubelet_config::{API_VERSION, KIND, Minor, NEWEST_RELEASED};
use nodecfg_contract::Placement;

/// How the nodes of a pool place its configuration.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed<'d> {
    /// As the repository declares it.
    pub placement: Option<Placement>,
    /// The own configuration of the nodes.
    pub own: Option<&'d Document>,
}

/// The oldest version whose nodes can merge: NodeConfigs carry their assignments. Older kubelets follow their Nodes.
const FIRST_OVERLAY: Minor = Minor(24);
/// The oldest version with drop-ins.
const FIRST_DROP_IN: Minor = Minor(28);
/// Rules of several fields each of which is refused alone.
const EACH_ALONE: [&str; 7] = [
    "certificate-key-algorithm",
    "eviction-signal",
    "eviction-threshold",
    "reserved-memory-duplicate",
    "reserved-quantity",
    "reserved-resource",
    "runtime-endpoint",
];
/// Rules that hold only while a feature gate is on, which the own configuration may turn off.
const GATED: [&str; 2] = ["shutdown-grace-period", "shutdown-grace-period-critical-pods"];
/// Advice about fields that are unset, or equal to a default, which the own configuration may set.
const ABOUT_UNSET: [&str; 3] = ["cluster-dns-missing", "default-changes-next", "equals-default"];

impl Placed<'_> {
    /// Reports whether nodes of this version merge. An unset placement merges from 1.24 on.
    pub(super) fn overlays(self, minor: Minor) -> bool {
        self.placement.map_or(minor >= FIRST_OVERLAY, |placement| placement == Placement::Overlay)
    }
}

impl Pool {
    /// How the nodes place the configuration, as far as the repository tells: a pool without a placement merges where
    /// every kubelet that it declares is 1.24 or newer.
    #[must_use]
    pub fn placement_of_kubelets(&self) -> Placement {
        let placed = Placed { placement: self.placement, own: None };
        let newest = [NEWEST_RELEASED];
        let minors = if self.kubelets.is_empty() { &newest[..] } else { &self.kubelets };
        if minors.iter().all(|minor| placed.overlays(*minor)) { Placement::Overlay } else { Placement::Replace }
    }
}

/// Checks a configuration for these versions.
pub(super) fn check(document: &Document, placed: Placed<'_>, minors: &[Minor]) -> Checked {
    let (over, of_whole): (Vec<Minor>, Vec<Minor>) = minors.iter().partition(|minor| placed.overlays(**minor));
    if over.is_empty() {
        return check_document(document, minors);
    }
    let mut checked = if of_whole.is_empty() { Checked::default() } else { check_document(document, &of_whole) };
    let part = match placed.own {
        Some(own) => check_over(own, document, &over),
        None => check_alone(document, &over),
    };
    checked.verdicts.extend(part.verdicts);
    checked.verdicts.sort_by_key(|verdict| verdict.minor);
    checked.findings.extend(part.findings);
    checked.findings.extend(drop_in_findings(placed.own, document, &over));
    checked
}

/// Checks the configuration that results over an own one. The own one belongs to the nodes, so it is reported only for
/// what a kubelet refuses.
fn check_over(own: &Document, document: &Document, minors: &[Minor]) -> Checked {
    let mut checked = check_document(&overlaid(Some(own), document), minors);
    let of_own = |place: &Place| place.file == own.root.place.file && place.file != document.root.place.file;
    checked.findings.retain(|finding| {
        let is_refusal = rules::lookup(finding.code).is_some();
        is_refusal || (!finding.place.as_ref().is_some_and(of_own) && finding.code != "equals-default")
    });
    checked
}

/// Checks an overlay over unknown configurations.
fn check_alone(document: &Document, minors: &[Minor]) -> Checked {
    let mut checked = check_document(document, minors);
    let mut unknown: BTreeMap<String, BTreeSet<Minor>> = BTreeMap::new();
    let mut certain: BTreeSet<(&'static str, String)> = BTreeSet::new();
    for of_whole in std::mem::take(&mut checked.verdicts) {
        let (verdict, depending) = alone(of_whole, document);
        certain.extend(verdict.reasons().chain(&verdict.later).map(|refusal| (refusal.rule, refusal.field.clone())));
        for refusal in depending {
            unknown.entry(refusal.field).or_default().insert(verdict.minor);
        }
        checked.verdicts.push(verdict);
    }
    checked.findings.retain(|finding| {
        let refusal = (finding.code, finding.field.clone().unwrap_or_default());
        !ABOUT_UNSET.contains(&finding.code) && (rules::lookup(finding.code).is_none() || certain.contains(&refusal))
    });
    if !unknown.is_empty() {
        let fields: Vec<&str> = unknown.keys().map(String::as_str).collect();
        let message =
            format!("the own configuration of the nodes decides whether kubelets accept {}", fields.join(", "));
        let finding = Finding::note("depends-on-own", message).at(whole(document));
        let help = "name a file with it in spec.kubelet.own, as `nodecfg capture` writes it";
        checked.findings.push(finding.kubelets(unknown.into_values().flatten().collect::<BTreeSet<_>>()).help(help));
    }
    checked
}

/// Reduces the verdict on an overlay to what no own configuration changes. Returns the other refusals, too.
fn alone(verdict: Verdict, document: &Document) -> (Verdict, Vec<Refusal>) {
    let mut depending = Vec::new();
    let mut keep = |refusals: Vec<Refusal>| -> Vec<Refusal> {
        let (certain, others): (Vec<_>, Vec<_>) = refusals.into_iter().partition(|one| is_certain(one, document));
        depending.extend(others);
        certain
    };
    let mut certain = Verdict {
        refusals: keep(verdict.refusals),
        startup: keep(verdict.startup),
        later: keep(verdict.later),
        ..verdict
    };
    if certain.refusals.is_empty() && certain.stage != Stage::Ok {
        let is_startup = |one: &Refusal| rules::lookup(one.rule).is_some_and(|rule| rule.stage == RuleStage::Startup);
        (certain.startup, certain.refusals) = std::mem::take(&mut certain.later).into_iter().partition(is_startup);
        certain.stage = if certain.refusals.is_empty() { Stage::Ok } else { Stage::Validate };
    }
    (certain, depending)
}

/// Reports whether no own configuration prevents a refusal: it is about the text, or the overlay names every field that
/// the rule reads.
fn is_certain(refusal: &Refusal, document: &Document) -> bool {
    let Some(rule) = rules::lookup(refusal.rule) else { return true };
    let named = |path: &String| named(document, path);
    match rule.stage {
        RuleStage::Load => true,
        // The own configuration may set the feature gate.
        RuleStage::Gates => rule.id != "feature-gate-dependency",
        _ if rule.id.ends_with("-gate") || rule.id.ends_with("-option") || GATED.contains(&refusal.rule) => false,
        _ if rule.fields.len() == 1 || EACH_ALONE.contains(&refusal.rule) => named(&refusal.field).is_some(),
        // A map keeps the own keys that the overlay does not name.
        _ => rule.fields.iter().all(|field| named(field).is_some_and(|node| node.mapping().is_none())),
    }
}

/// The value at a path. A path into a list or a map with free keys ends there.
fn named<'d>(document: &'d Document, path: &str) -> Option<&'d Node> {
    let fixed = path.split(['[', '{']).next().unwrap_or_default();
    let mut node = &document.root;
    for name in fixed.split('.') {
        match node.get(name) {
            Some(child) => node = child,
            // A key with dots, such as a signal of evictionHard.
            None if node.mapping().is_some_and(|map| map.keys().any(|key| fixed.ends_with(key.as_str()))) => break,
            None => return None,
        }
    }
    (!node.is_null()).then_some(node)
}

/// What versions do differently with the overlay as a drop-in.
fn drop_in_findings(own: Option<&Document>, document: &Document, minors: &[Minor]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let beneath = own.map_or_else(|| format!("apiVersion: {API_VERSION}\nkind: {KIND}\n"), Document::canonical);
    let Some(own) = Document::parse(OWN_FILE, &beneath).document else { return findings };
    let merged = overlaid(Some(&own), document).canonical();
    let overlay = FolderEntry::File(document.canonical());
    let entries = BTreeMap::from([(DROP_IN.to_owned(), overlay)]);
    let folder = ConfigDir { path: DROP_INS.to_owned(), root: Some(FolderEntry::Folder(entries)) };
    let help = "use agents with `--activation file` on these versions, or upgrade their kubelets";
    for minor in minors.iter().filter(|minor| **minor >= FIRST_DROP_IN) {
        let run = |text: &str, config_dir| -> Result<Effective, Refused> {
            let config = Some(ConfigFile { path: OWN_FILE, text });
            effective(&Kubelet { minor: *minor, config, config_dir, drop_in_alpha: true, flags: &[] })
        };
        // What a kubelet refuses as a file has a finding already.
        let Ok(as_file) = run(&merged, None) else { continue };
        let as_drop_in = match run(&beneath, Some(&folder)) {
            Ok(as_drop_in) => as_drop_in,
            Err(refused) => {
                let field = refused.refusals.first().map_or("the file", |refusal| &refusal.field);
                let message = format!("agents that write drop-ins cannot place it: the kubelet refuses {field} there");
                findings
                    .push(Finding::note("drop-in-differs", message).at(whole(document)).kubelets([*minor]).help(help));
                continue;
            }
        };
        let differing = as_file
            .values
            .iter()
            .filter(|(path, value)| as_drop_in.values.get(*path).is_none_or(|other| other.value != value.value));
        for (path, node) in differing.filter_map(|(path, _)| Some((path, named(document, path)?))) {
            let message = format!("agents that write drop-ins cannot set `{path}`: the kubelet runs another value");
            let finding = Finding::note("drop-in-differs", message).at(node.place.clone());
            findings.push(finding.field(path.clone()).kubelets([*minor]).help(help));
        }
    }
    kubelet_config::finding::merged(findings)
}

/// Names of files as agents place them. Messages name none of them.
const OWN_FILE: &str = "/var/lib/kubelet/config.yaml";
const DROP_INS: &str = "/etc/kubernetes/kubelet.conf.d";
const DROP_IN: &str = "90-nodecfg.conf";

/// Place of a finding about the whole configuration.
fn whole(document: &Document) -> Place {
    Place { len: 0, ..document.root.place.clone() }
}

#[cfg(test)]
#[path = "own_tests.rs"]
mod tests;
