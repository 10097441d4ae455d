//! What a downloaded configuration is worth: what the kubelet of this host would say of it, whether it is what it claims to
//! be, where the kubelet will answer on it, and which state files do not survive it. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::host::Healthz;
use super::signals::{FetchError, Verdict};
use crate::desired::ContentHash;
use crate::document::{self, Document, Node, lay_over};
use crate::kubelet::minor::{Minor, NEWEST, NEWEST_RELEASED, OLDEST};
use crate::kubelet::risk::{self, StateFile};
use crate::observed::KubeletVersion;
use crate::verdict::{self, Refusal, Stage};

/// How many reasons of a refusal are told.
const TOLD: usize = 3;

/// What the kubelet of this host would say of one key of a ConfigMap. `underneath` are the texts that ours is laid over, as
/// the kubelet does with the files of its `--config-dir` (`mergeKubeletConfigurations`, 1.28 on): its `--config` first.
///
/// A kubelet that is not known, or newer or older than the tables, is judged as the nearest that they have; the message says
/// so.
#[must_use]
pub fn judge(
    payload: &BTreeMap<String, String>,
    key: &str,
    underneath: &[String],
    kubelet: Option<KubeletVersion>,
) -> Verdict {
    let (minor, judged_as) = nearest(kubelet);
    let kubelet = kubelet.map(|version| version.to_string());
    let not_loaded =
        |message: String| Verdict::NotLoaded { message: format!("{message}{judged_as}"), kubelet: kubelet.clone() };
    let Some(text) = payload.get(key) else {
        let keys: Vec<&str> = payload.keys().map(String::as_str).collect();
        let has = if keys.is_empty() { "no keys".to_owned() } else { format!("the keys {}", keys.join(", ")) };
        return not_loaded(format!("the ConfigMap has no key {key:?}, but {has}"));
    };
    let own = match read(text) {
        Ok(document) => document,
        Err(message) => return not_loaded(message),
    };
    let mut answer = verdict::assess(&own, minor);
    // A file of the folder must load by itself; its values are judged together with those underneath.
    if !underneath.is_empty() && answer.stage != Stage::Load {
        match laid_over(underneath, &own) {
            Ok(whole) => answer = verdict::assess(&whole, minor),
            Err(message) => return not_loaded(format!("the configuration underneath cannot be read: {message}")),
        }
    }
    if answer.runs() {
        return Verdict::Accepted;
    }
    let message = told(answer.reasons());
    match answer.stage {
        Stage::Load => not_loaded(message),
        Stage::Gates | Stage::Validate | Stage::Ok => {
            Verdict::NotValid { message: format!("{message}{judged_as}"), kubelet }
        }
    }
}

/// The configuration that a kubelet ends up with which lays a text over others, in canonical form. `None` when one of them
/// cannot be read.
#[must_use]
pub fn whole(underneath: &[String], text: &str) -> Option<String> {
    laid_over(underneath, &read(text).ok()?).ok().map(|document| document.canonical())
}

fn laid_over(underneath: &[String], own: &Document) -> Result<Document, String> {
    let mut whole: Option<Node> = None;
    for text in underneath {
        whole = Some(lay_over(whole, &read(text)?.root));
    }
    Ok(Document { root: lay_over(whole, &own.root), ..own.clone() })
}

/// The version to judge as, and what to add to a message when it is not the kubelet's own.
fn nearest(kubelet: Option<KubeletVersion>) -> (Minor, String) {
    match kubelet {
        None => (NEWEST_RELEASED, format!(" (the kubelet's version is not known; judged as {NEWEST_RELEASED})")),
        Some(version) => {
            let minor = Minor(version.minor);
            if minor.is_known() && version.major == 1 {
                return (minor, String::new());
            }
            let nearest = if minor < OLDEST { OLDEST } else { NEWEST };
            (nearest, format!(" (nothing is known of kubelet {version}; judged as {nearest})"))
        }
    }
}

fn read(text: &str) -> Result<Document, String> {
    let parsed = Document::parse("kubelet", text);
    parsed.document.ok_or_else(|| {
        let first = parsed.findings.into_iter().next();
        first.map_or_else(|| "it is empty".to_owned(), |finding| finding.message)
    })
}

fn told<'r>(refusals: impl Iterator<Item = &'r Refusal>) -> String {
    let said: Vec<String> = refusals
        .map(|refusal| match refusal.field.as_str() {
            "" => refusal.message.clone(),
            field if refusal.message.contains(field) => refusal.message.clone(),
            field => format!("{field}: {}", refusal.message),
        })
        .collect();
    let mut text = said.iter().take(TOLD).cloned().collect::<Vec<_>>().join("; ");
    if said.len() > TOLD {
        text.push_str(&format!("; and {} more", said.len() - TOLD));
    }
    text
}

/// Whether a ConfigMap holds what its annotation `nodecfg.dev/content-hash` says. One without the annotation, or with a hash
/// of a version that is not known, says nothing that could be wrong; one without the key is the verdict's business.
///
/// # Errors
/// [`FetchError::HashDiffers`], with both hashes.
pub fn check_hash(payload: &BTreeMap<String, String>, key: &str, annotation: Option<&str>) -> Result<(), FetchError> {
    let (Some(text), Some(said)) = (payload.get(key), annotation.and_then(ContentHash::parse)) else { return Ok(()) };
    let of_bytes = ContentHash::of(text.as_bytes());
    if of_bytes == said {
        return Ok(());
    }
    // The hash is over the canonical form: another spelling of the same content is the same content.
    let found = read(text).map_or(of_bytes, |document| ContentHash::of(document.canonical().as_bytes()));
    if found == said {
        return Ok(());
    }
    Err(FetchError::HashDiffers(format!("the content hashes to {found}; the annotation says {said}")))
}

/// Where a kubelet with this configuration answers whether it is healthy; the defaults where it does not say.
#[must_use]
pub fn healthz(text: &str) -> Healthz {
    let root = read(text).ok().map(|document| document.root.to_json());
    let field = |name: &str| root.as_ref().and_then(|root| root.get(name));
    let address = field("healthzBindAddress").and_then(|value| value.as_str()).filter(|address| !address.is_empty());
    let port = field("healthzPort").and_then(serde_json::Value::as_u64).and_then(|port| u16::try_from(port).ok());
    Healthz { address: address.unwrap_or("127.0.0.1").to_owned(), port: port.unwrap_or(10248) }
}

/// The state files that a kubelet does not start with when it goes from one configuration to another.
#[must_use]
pub fn state_files(from: &str, to: &str) -> Vec<StateFile> {
    let (from, to) = (read(from).ok(), read(to).ok());
    let changed = document::changes(from.as_ref(), to.as_ref());
    let files: BTreeSet<StateFile> = changed
        .iter()
        .flat_map(|change| risk::of_change(&change.path, change.old.as_deref(), change.new.as_deref()).state_files)
        .filter(|file| [&from, &to].into_iter().flatten().any(|document| makes_use_of(document, *file)))
        .collect();
    files.into_iter().collect()
}

/// Whether a configuration makes anything of a state file.
fn makes_use_of(document: &Document, file: StateFile) -> bool {
    let (field, value) = file.policy();
    document.root.get(field).and_then(Node::text) == Some(value)
}
