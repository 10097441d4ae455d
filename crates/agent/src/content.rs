//! Checks of a downloaded configuration: whether it is the content that was reviewed, whether this host's kubelet
//! accepts it, and what a change to it does to running pods. Also reads the address of `/healthz`, and lists the state
//! files that contradict a change. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::events::{ConfigCheck, Download, FetchError};
use super::host::Healthz;
use super::host::preflight::Unmet;
use super::proof;
use kubelet_config::document::{self, Document, Node};
use kubelet_config::effective::{
    self, ConfigDir, ConfigFile, Effective, EffectiveChange, FolderEntry, Kubelet, Origin, Refused, ValueChange,
};
use kubelet_config::fields::{self, Target, secrets};
use kubelet_config::risk::{self, Class, Risk, StateFile};
use kubelet_config::startup_error::{LastError, StartupError};
use kubelet_config::verdict::{self, HostCondition, Refusal, Stage, Verdict, rules};
use kubelet_config::{Minor, NEWEST, NEWEST_RELEASED, OLDEST};
use nodecfg_contract::kubelet_values::OwnValue;
use nodecfg_contract::nodeconfig::EffectiveStatus;
use nodecfg_contract::printable::at_most;
use nodecfg_contract::{ContentHash, KubeletVersion};

/// The file of the reviewed configuration in places, and that of the node's own one.
const REVIEWED: &str = "/reviewed.conf";
const OWN: &str = "own";
/// Maximum number of refusal reasons in a message.
const MAX_REASONS: usize = 3;
/// Maximum length of a message, in characters. The author of a configuration could otherwise make it arbitrarily
/// long.
const MAX_MESSAGE: usize = 1024;

/// The node's own texts that a reviewed text is laid over. Empty for a replacement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Underneath {
    /// Text of the file of `--config`.
    pub config: Option<String>,
    /// Texts of the drop-ins that the kubelet reads before the reviewed one, in their order.
    pub drop_ins: Vec<String>,
    /// Whether the kubelet merges the reviewed text as a drop-in, by the rules of its version. Otherwise the agent merges it
    /// into one file.
    pub by_kubelet: bool,
}

impl Underneath {
    /// The node's own configuration as the text of one file.
    #[must_use]
    pub fn file(text: String) -> Self {
        Self { config: Some(text), ..Self::default() }
    }

    /// All texts, in the order in which they are merged.
    pub fn texts(&self) -> impl Iterator<Item = &String> {
        self.config.iter().chain(&self.drop_ins)
    }

    /// What a kubelet makes of these files and a reviewed text. `None` if the agent merges them, or if the rules of the
    /// kubelet's version are unknown.
    fn run(&self, reviewed: Option<&str>, kubelet: Option<KubeletVersion>) -> Option<Result<Effective, Refused>> {
        let minor = proof::version(kubelet).ok().filter(|_| self.by_kubelet)?;
        let own = self.drop_ins.iter().enumerate().map(|(at, text)| (format!("{at:04}.conf"), text.as_str()));
        let files = own.chain(reviewed.map(|text| (REVIEWED.trim_start_matches('/').to_owned(), text)));
        let entries = files.map(|(name, text)| (name, FolderEntry::File(text.to_owned()))).collect();
        let folder = ConfigDir { path: String::new(), root: Some(FolderEntry::Folder(entries)) };
        Some(effective::effective(&Kubelet {
            minor,
            config: self.config.as_deref().map(|text| ConfigFile { path: OWN, text }),
            config_dir: Some(&folder),
            drop_in_alpha: true,
            flags: &[],
        }))
    }
}

/// Checks one key of a ConfigMap for the kubelet of this host.
///
/// A kubelet version outside the tables is checked as the nearest version in them, and the message names that
/// version. Feature gates that a newer kubelet may have are accepted. If the version is unknown, only configurations
/// that every version refuses are refused.
///
/// A configuration that disables `/healthz` is refused too, because the agent could not check the kubelet's health.
#[must_use]
pub fn check_config(
    payload: &BTreeMap<String, String>,
    key: &str,
    underneath: &Underneath,
    kubelet: Option<KubeletVersion>,
) -> ConfigCheck {
    let (minor, version_note) = nearest(kubelet);
    let known = kubelet;
    let kubelet = kubelet.map(|version| version.to_string());
    let not_loaded = |message: String| ConfigCheck::NotLoaded {
        message: at_most(&message, MAX_MESSAGE) + &version_note,
        kubelet: kubelet.clone(),
    };
    let Some(text) = payload.get(key) else {
        let keys: Vec<&str> = payload.keys().map(String::as_str).collect();
        let has = if keys.is_empty() { "no keys".to_owned() } else { format!("the keys {}", keys.join(", ")) };
        return not_loaded(format!("the ConfigMap has no key {key:?}, but {has}"));
    };
    let own = match read(text) {
        Ok(document) => document,
        Err(message) => return not_loaded(message),
    };
    let mut whole = own;
    let mut answer = verdict::assess(&whole, minor);
    let mut alone = None;
    // A drop-in must load by itself. Its values are checked after merging.
    if underneath.texts().next().is_some() && answer.stage != Stage::Load {
        let Some((merged, on_node)) = on_node(underneath, text, &whole, minor, known) else {
            let message = "the node's own configuration cannot be read: correct the file of the kubelet's --config, \
                           and the files before 90-nodecfg.conf in its --config-dir";
            return not_loaded(message.to_owned());
        };
        whole = merged;
        alone = Some(std::mem::replace(&mut answer, on_node));
    }
    if answer.runs() && healthz_of(Some(&whole)).port == 0 {
        let message = "healthzPort is 0: the agent could not check the kubelet's health".to_owned();
        return ConfigCheck::NotValid { message, kubelet };
    }
    let newer = known.is_some_and(|version| (version.major, Minor(version.minor)) > (1, NEWEST));
    if answer.runs() || (newer && answer.stage == Stage::Gates) || (known.is_none() && some_version_runs(&whole)) {
        return ConfigCheck::Accepted;
    }
    let message = join_reasons(&answer, alone.as_ref().map(|alone| (alone, &whole)));
    match answer.stage {
        Stage::Load => not_loaded(message),
        Stage::Gates | Stage::Validate | Stage::Ok => {
            ConfigCheck::NotValid { message: at_most(&message, MAX_MESSAGE) + &version_note, kubelet }
        }
    }
}

/// The whole configuration of the node with a reviewed text, and the verdict on it. `None` if a text of the node is
/// unreadable.
fn on_node(
    underneath: &Underneath,
    text: &str,
    reviewed: &Document,
    minor: Minor,
    kubelet: Option<KubeletVersion>,
) -> Option<(Document, Verdict)> {
    let merged = || merge_over(underneath.texts(), reviewed);
    let verdict = |stage, refusals, startup| Verdict {
        minor,
        stage,
        refusals,
        startup,
        later: Vec::new(),
        host_conditions: Vec::new(),
    };
    Some(match underneath.run(Some(text), kubelet) {
        Some(Ok(Effective { document, startup, .. })) => (document, verdict(Stage::Ok, Vec::new(), startup)),
        Some(Err(Refused { stage, refusals, .. })) if !refusals.is_empty() => {
            (merged()?, verdict(stage, refusals, Vec::new()))
        }
        Some(Err(Refused { by: Some(Origin::Config | Origin::DropIn(_)), .. })) => return None,
        // By its version, the kubelet reads no drop-ins.
        Some(Err(_)) | None => {
            let merged = merged()?;
            let verdict = verdict::assess(&merged, minor);
            (merged, verdict)
        }
    })
}

/// Reports whether a kubelet of any known version runs a configuration.
fn some_version_runs(document: &Document) -> bool {
    (OLDEST.0..=NEWEST.0).map(Minor).any(|minor| verdict::assess(document, minor).runs())
}

/// Conditions on the host that a configuration sets for a kubelet of this version. Empty if the rules of the version are
/// unknown.
#[must_use]
pub fn host_conditions(text: &str, kubelet: KubeletVersion) -> Vec<HostCondition> {
    let conditions = |(document, minor): (Document, Minor)| verdict::assess(&document, minor).host_conditions;
    read(text).ok().zip(proof::version(Some(kubelet)).ok()).map(conditions).unwrap_or_default()
}

/// Refusal of a configuration on a host that does not meet its conditions. Those that the reviewed text does not have by
/// itself depend on the node's own files, which only the node's administrators may read.
#[must_use]
pub(crate) fn unmet(unmet: &[(HostCondition, Unmet)], reviewed: &str, kubelet: KubeletVersion) -> String {
    let public = host_conditions(reviewed, kubelet);
    let reasons = unmet.iter().map(|(condition, unmet)| {
        let HostCondition { field, need, .. } = condition;
        if public.iter().any(|public| public.field == *field && public.need == *need) {
            format!("{field}: {unmet}")
        } else {
            format!("{field}: this host lacks what the value needs together with the node's own configuration")
        }
    });
    at_most(&join(&reasons.collect::<Vec<_>>()), MAX_MESSAGE)
}

/// What the kubelet runs with a reviewed text over the node's own ones, in canonical form. `None`: only with the own ones.
/// If the kubelet merges them, its version's defaults are written out. `None` if a text is unreadable.
#[must_use]
pub fn merged_text(underneath: &Underneath, reviewed: Option<&str>, kubelet: Option<KubeletVersion>) -> Option<String> {
    if let Some(Ok(effective)) = underneath.run(reviewed, kubelet) {
        return Some(effective.document.canonical());
    }
    let mut texts: Vec<&String> = underneath.texts().collect();
    let over = match reviewed {
        Some(reviewed) => read(reviewed),
        None => read(texts.pop()?),
    };
    merge_over(texts, &over.ok()?).map(|document| document.canonical())
}

/// Values of the node's own configuration for the fields that an overlay sets. `None` if any text is unreadable.
#[must_use]
pub fn beneath(underneath: &Underneath, overlay: &str) -> Option<EffectiveStatus> {
    let mut texts: Vec<&String> = underneath.texts().collect();
    let last = texts.pop()?;
    let own = merge_over(texts, &read(last).ok()?)?;
    let mut found = EffectiveStatus::default();
    add_beneath(&mut found, "", &own.root, &read(overlay).ok()?.root);
    Some(found)
}

fn add_beneath(found: &mut EffectiveStatus, path: &str, own: &Node, overlay: &Node) {
    if let (Some(own), Some(overlay)) = (own.mapping(), overlay.mapping()) {
        for (key, entry) in overlay {
            let identifies = path.is_empty() && matches!(key.as_str(), "apiVersion" | "kind");
            if let Some(own) = own.get(key).map(|own| &own.value).filter(|own| !own.is_null() && !identifies) {
                add_beneath(found, &document::path_of(path, key), own, &entry.value);
            }
        }
        return;
    }
    let value = own.to_json().to_string();
    let is_short = |text: &str, most: usize| text.chars().nth(most).is_none();
    let is_listed = found.beneath.len() < EffectiveStatus::MAX_BENEATH
        && is_short(path, OwnValue::MAX_FIELD)
        && is_short(&value, OwnValue::MAX_VALUE)
        && !secrets::is_secret(path)
        && secrets::redacted(path, &value) == value;
    if is_listed {
        found.beneath.push(OwnValue { field: path.to_owned(), value });
    } else {
        found.beneath_more = found.beneath_more.saturating_add(1);
    }
}

/// Reports whether a text is a KubeletConfiguration. A file that another program has emptied or cut may be none.
#[must_use]
pub fn is_configuration(text: &str) -> bool {
    read(text).is_ok_and(|document| document.root.get("kind").and_then(Node::text) == Some("KubeletConfiguration"))
}

/// Canonical form of a text. `None` if it is unreadable.
#[must_use]
pub fn canonical(text: &str) -> Option<String> {
    read(text).ok().map(|document| document.canonical())
}

/// Explains the last error of the kubelet by the configuration that the kubelet was started with, and the part of it that
/// was reviewed.
#[must_use]
pub fn explain(
    error: &LastError,
    configuration: Option<&str>,
    reviewed: Option<&str>,
    log: &'static str,
) -> StartupError {
    let document = |text: Option<&str>| text.and_then(|text| read(text).ok());
    error.explain(document(configuration).as_ref(), document(reviewed).as_ref(), log)
}

/// Merges a document over texts. `None` if any text is unreadable.
fn merge_over<'a>(underneath: impl IntoIterator<Item = &'a String>, own: &Document) -> Option<Document> {
    let mut whole: Option<Document> = None;
    for text in underneath {
        whole = Some(effective::overlaid(whole.as_ref(), &read_as(OWN, text).ok()?));
    }
    Some(effective::overlaid(whole.as_ref(), own))
}

/// Version to check as, and a note for messages unless that is the kubelet's version.
fn nearest(kubelet: Option<KubeletVersion>) -> (Minor, String) {
    match kubelet {
        None => (NEWEST_RELEASED, format!(" (the kubelet's version is unknown; checked as {NEWEST_RELEASED})")),
        Some(version) => {
            let minor = Minor(version.minor);
            if minor.is_known() && version.major == 1 {
                return (minor, String::new());
            }
            let older = (version.major, minor) < (1, OLDEST);
            let nearest = if older { OLDEST } else { NEWEST };
            (nearest, format!(" (no rules for kubelet {version}; checked as {nearest})"))
        }
    }
}

fn read(text: &str) -> Result<Document, String> {
    read_as(REVIEWED, text)
}

/// Reads a text. The places of its values have this file.
fn read_as(file: &str, text: &str) -> Result<Document, String> {
    let parsed = Document::parse(file, text);
    parsed.document.ok_or_else(|| {
        let first = parsed.findings.into_iter().next();
        first.map_or_else(|| "it is empty".to_owned(), |finding| finding.message)
    })
}

/// Joins the reasons of a refusal. `merged`: verdict on the overlay alone, and the overlay merged over the node's own
/// configuration. A reason that the verdict does not have may quote values of the node's own files, which only the node's
/// administrators may read.
fn join_reasons(answer: &Verdict, merged: Option<(&Verdict, &Document)>) -> String {
    let is_public = |refusal: &Refusal| {
        merged.is_none_or(|(alone, _)| alone.reasons().any(|alone| alone.message == refusal.message))
    };
    let reasons: Vec<String> = answer
        .reasons()
        .map(|refusal| {
            if is_public(refusal) {
                return refusal.sentence();
            }
            let field = known_part(&refusal.field).unwrap_or_else(|| "the merged configuration".to_owned());
            let sides = merged.map(|(_, whole)| sides(refusal, whole)).unwrap_or_default();
            format!(
                "{field}: the kubelet refuses the value with the node's own configuration ({}){sides}",
                refusal.rule
            )
        })
        .collect();
    join(&reasons)
}

fn join(reasons: &[String]) -> String {
    let mut text = reasons.iter().take(MAX_REASONS).cloned().collect::<Vec<_>>().join("; ");
    if reasons.len() > MAX_REASONS {
        text.push_str(&format!("; and {} more", reasons.len() - MAX_REASONS));
    }
    text
}

/// Which side sets the fields that a rule has compared: `; A is from the reviewed configuration, B from the node's own`.
fn sides(refusal: &Refusal, whole: &Document) -> String {
    let of_rule = rules::lookup(refusal.rule).map_or(&[][..], |rule| &rule.fields);
    let fields: BTreeSet<String> =
        std::iter::once(&refusal.field).chain(of_rule).filter_map(|path| known_part(path)).collect();
    let (mut reviewed, mut own) = (Vec::new(), Vec::new());
    for field in fields {
        let Some(node) = field.split('.').try_fold(&whole.root, |node, name| node.get(name)) else { continue };
        // A map may have values of both. A default has no file.
        if has_value_of(&|file| file == REVIEWED, node) {
            reviewed.push(field.clone());
        }
        if has_value_of(&|file| file != REVIEWED && !file.is_empty(), node) {
            own.push(field);
        }
    }
    let verb = |fields: &[String]| if fields.len() == 1 { "is" } else { "are" };
    let (reviewed_text, own_text) = (reviewed.join(", "), own.join(", "));
    match (reviewed.is_empty(), own.is_empty()) {
        (true, true) => String::new(),
        (true, false) => format!("; {own_text} {} from the node's own configuration", verb(&own)),
        (false, true) => format!("; {reviewed_text} {} from the reviewed configuration", verb(&reviewed)),
        (false, false) => format!(
            "; {reviewed_text} {} from the reviewed configuration, {own_text} from the node's own",
            verb(&reviewed)
        ),
    }
}

/// Reports whether a value, or one in it, is from such a file.
fn has_value_of(is_such: &impl Fn(&str) -> bool, node: &Node) -> bool {
    match node.mapping() {
        Some(map) if !map.is_empty() => map.values().any(|entry| has_value_of(is_such, &entry.value)),
        _ => is_such(&node.place.file),
    }
}

/// Hash of a downloaded content, if it is the content that the assignment requires: that of `required`
/// (`spec.contentHash`). Without it, the content must have the short hash at the end of the ConfigMap's name, or the
/// hash `accepted` that the node already has for this assignment.
///
/// # Errors
/// [`FetchError::OtherContent`].
pub fn verify(download: &Download, required: Option<&str>, accepted: Option<&str>) -> Result<ContentHash, FetchError> {
    let map = download.source.config_map.as_ref();
    let (name, key) = map.map_or(("", ""), |map| (map.name.as_str(), map.kubelet_config_key.as_str()));
    let Some(text) = download.payload.get(key) else {
        return Err(FetchError::OtherContent(format!("{} has no key {key:?}", download.source)));
    };
    let is_expected = |hash: &ContentHash| match required {
        Some(required) => hash.to_string() == required,
        None => {
            accepted == Some(&hash.to_string()) || name.rsplit_once('-').is_some_and(|(_, end)| end == hash.short())
        }
    };
    let found = hashes(text);
    found.into_iter().find(is_expected).ok_or_else(|| {
        let wanted = match required {
            Some(required) => format!("spec.contentHash is {required}"),
            None => "spec.contentHash is missing, and the ConfigMap's name has another hash".to_owned(),
        };
        FetchError::OtherContent(format!("the content of {} has the hash {}; {wanted}", download.source, found[1]))
    })
}

/// Hashes of a text: of its bytes, and of its canonical form, which formatting does not change. A text that a kubelet may read
/// in another way, such as one with a key twice, has only the first.
fn hashes(text: &str) -> [ContentHash; 2] {
    let of_bytes = ContentHash::of(text.as_bytes());
    let parsed = Document::parse(REVIEWED, text);
    let document = parsed.document.filter(|_| parsed.findings.is_empty());
    [of_bytes, document.map_or(of_bytes, |document| ContentHash::of(document.canonical().as_bytes()))]
}

/// Reports whether a checkpoint has the hash with which it was accepted.
#[must_use]
pub fn has_hash(text: &str, accepted: &str) -> bool {
    hashes(text).iter().any(|hash| hash.to_string() == accepted)
}

/// Health endpoint of a kubelet with this configuration, with defaults for missing and unreadable values.
#[must_use]
pub fn healthz(text: &str) -> Healthz {
    healthz_of(read(text).ok().as_ref())
}

fn healthz_of(document: Option<&Document>) -> Healthz {
    let root = document.map(|document| document.root.to_json());
    let field = |name: &str| root.as_ref().and_then(|root| root.get(name));
    let address = field("healthzBindAddress").and_then(|value| value.as_str()).filter(|address| !address.is_empty());
    let port = field("healthzPort").and_then(serde_json::Value::as_u64).and_then(|port| u16::try_from(port).ok());
    Healthz { address: address.unwrap_or("127.0.0.1").to_owned(), port: port.unwrap_or(10248) }
}

/// The field of a path, without the key of a map. `None` if no kubelet has the field.
fn known_part(path: &str) -> Option<String> {
    match fields::find(path).ok()? {
        Target::Root => None,
        Target::Field(field) | Target::Key(field, _) => Some(fields::plain(&field.path)),
    }
}

/// The path of a change that may be published: a key of a map that the reviewed content lacks is from the node.
#[must_use]
pub(crate) fn public_path(path: &str, reviewed: Option<&str>) -> String {
    match fields::find(path) {
        Ok(Target::Field(_)) => path.to_owned(),
        Ok(Target::Key(_, key)) if reviewed.is_some_and(|text| text.contains(&key)) => path.to_owned(),
        _ => known_part(path).unwrap_or_else(|| "an unknown field".to_owned()),
    }
}

/// Field of a change whose class is the highest, with this class. `None` if the kubelet does not notice the change:
/// defaults of its version count as set.
#[must_use]
pub(crate) fn worst_change(from: &str, to: &str, kubelet: Option<KubeletVersion>) -> Option<(Class, String)> {
    let (minor, _) = nearest(kubelet);
    let classes: Vec<(Class, String)> = match (read(from).ok(), read(to).ok()) {
        (Some(from), Some(to)) => effective::changes(&from, &to, &BTreeSet::from([Some(minor)]))
            .into_iter()
            .filter_map(|EffectiveChange { change, in_effect, .. }| {
                let class =
                    |pair: &ValueChange| risk::of_change(&change.path, pair.old.as_deref(), pair.new.as_deref()).class;
                Some((in_effect.iter().map(class).max()?, change.path))
            })
            .collect(),
        (from, to) => risks(from.as_ref(), to.as_ref()).map(|(field, risk)| (risk.class, field)).collect(),
    };
    // The first of equal classes.
    classes.into_iter().reduce(|worst, next| if next.0 > worst.0 { next } else { worst })
}

/// Changed fields between two configurations, with the risk of each.
fn risks(from: Option<&Document>, to: Option<&Document>) -> impl Iterator<Item = (String, Risk)> {
    document::changes(from, to).into_iter().map(|change| {
        let risk = risk::of_change(&change.path, change.old.as_deref(), change.new.as_deref());
        (change.path, risk)
    })
}

/// State files that contradict a change between these configurations: the kubelet would not start with them.
#[must_use]
pub fn state_files(from: &str, to: &str) -> Vec<StateFile> {
    let (from, to) = (read(from).ok(), read(to).ok());
    let files: BTreeSet<StateFile> = risks(from.as_ref(), to.as_ref())
        .flat_map(|(_, risk)| risk.state_files)
        .filter(|file| [&from, &to].into_iter().flatten().any(|document| uses_state_file(document, *file)))
        .collect();
    files.into_iter().collect()
}

/// Reports whether a configuration has the policy for which the kubelet writes this state file.
fn uses_state_file(document: &Document, file: StateFile) -> bool {
    let (field, value) = file.policy();
    document.root.get(field).and_then(Node::text) == Some(value)
}

#[cfg(test)]
#[path = "content_tests.rs"]
mod tests;
