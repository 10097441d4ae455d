//! Checks of a downloaded configuration: whether this host's kubelet accepts the content, and whether its hash
//! matches. Also reads the address of `/healthz`, and lists the state files to remove before a change. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::events::{ConfigCheck, FetchError};
use super::host::Healthz;
use kubelet_config::document::{self, Document, Node, apply_merge_patch};
use kubelet_config::minor::{Minor, NEWEST, NEWEST_RELEASED, OLDEST};
use kubelet_config::risk::{self, StateFile};
use kubelet_config::verdict::{self, Refusal, Stage};
use nodecfg_contract::ContentHash;
use nodecfg_contract::observed::KubeletVersion;

/// Maximum number of refusal reasons in a message.
const MAX_REASONS: usize = 3;
/// Maximum length of a message, in characters. The author of a configuration could otherwise make it arbitrarily
/// long.
const MAX_MESSAGE: usize = 1024;

/// Checks one key of a ConfigMap for the kubelet of this host. `underneath`: texts that a kubelet merges this key's
/// text over, in order (`mergeKubeletConfigurations`, 1.28 on). The first is the file of `--config`.
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
    underneath: &[String],
    kubelet: Option<KubeletVersion>,
) -> ConfigCheck {
    let (minor, version_note) = nearest(kubelet);
    let known = kubelet;
    let kubelet = kubelet.map(|version| version.to_string());
    let not_loaded = |message: String| ConfigCheck::NotLoaded {
        message: truncate(&message) + &version_note,
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
    let whole = merge_over(underneath, &own);
    let mut answer = verdict::assess(&own, minor);
    // A drop-in must load by itself. Its values are checked after merging.
    if !underneath.is_empty() && answer.stage != Stage::Load {
        match &whole {
            Ok(whole) => answer = verdict::assess(whole, minor),
            Err(message) => {
                return not_loaded(format!("the configuration below the drop-in cannot be read: {message}"));
            }
        }
    }
    if answer.runs() && healthz_of(whole.as_ref().ok()).port == 0 {
        let message = "healthzPort is 0: the agent could not check the kubelet's health".to_owned();
        return ConfigCheck::NotValid { message, kubelet };
    }
    let newer = known.is_some_and(|version| (version.major, Minor(version.minor)) > (1, NEWEST));
    if answer.runs()
        || (newer && answer.stage == Stage::Gates)
        || (known.is_none() && whole.is_ok_and(|whole| some_version_runs(&whole)))
    {
        return ConfigCheck::Accepted;
    }
    let message = join_reasons(answer.reasons());
    match answer.stage {
        Stage::Load => not_loaded(message),
        Stage::Gates | Stage::Validate | Stage::Ok => {
            ConfigCheck::NotValid { message: truncate(&message) + &version_note, kubelet }
        }
    }
}

/// Reports whether a kubelet of any known version runs a configuration.
fn some_version_runs(document: &Document) -> bool {
    (OLDEST.0..=NEWEST.0).map(Minor).any(|minor| verdict::assess(document, minor).runs())
}

/// Merges a text over others, as a kubelet does, and returns the canonical form. `None` if any text is unreadable.
#[must_use]
pub fn merged_text(underneath: &[String], text: &str) -> Option<String> {
    merge_over(underneath, &read(text).ok()?).ok().map(|document| document.canonical())
}

fn merge_over(underneath: &[String], own: &Document) -> Result<Document, String> {
    let mut whole: Option<Node> = None;
    for text in underneath {
        whole = Some(apply_merge_patch(whole, &read(text)?.root));
    }
    Ok(Document { root: apply_merge_patch(whole, &own.root), ..own.clone() })
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

/// Cuts a message to 1,024 characters, so that it fits into the status.
#[must_use]
pub fn truncate(message: &str) -> String {
    match message.char_indices().nth(MAX_MESSAGE) {
        Some((end, _)) => format!("{}…", message.get(..end).unwrap_or_default()),
        None => message.to_owned(),
    }
}

fn read(text: &str) -> Result<Document, String> {
    let parsed = Document::parse("kubelet", text);
    parsed.document.ok_or_else(|| {
        let first = parsed.findings.into_iter().next();
        first.map_or_else(|| "it is empty".to_owned(), |finding| finding.message)
    })
}

fn join_reasons<'r>(refusals: impl Iterator<Item = &'r Refusal>) -> String {
    let reasons: Vec<String> = refusals
        .map(|refusal| match refusal.field.as_str() {
            "" => refusal.message.clone(),
            field if refusal.message.contains(field) => refusal.message.clone(),
            field => format!("{field}: {}", refusal.message),
        })
        .collect();
    let mut text = reasons.iter().take(MAX_REASONS).cloned().collect::<Vec<_>>().join("; ");
    if reasons.len() > MAX_REASONS {
        text.push_str(&format!("; and {} more", reasons.len() - MAX_REASONS));
    }
    text
}

/// Verifies the annotation `nodecfg.dev/content-hash` of a ConfigMap. A missing annotation, a hash of an unknown
/// version and a missing key pass; the config check reports a missing key.
///
/// # Errors
/// [`FetchError::HashMismatch`], with both hashes.
pub fn check_hash(payload: &BTreeMap<String, String>, key: &str, annotation: Option<&str>) -> Result<(), FetchError> {
    let (Some(text), Some(expected)) = (payload.get(key), annotation.and_then(ContentHash::parse)) else {
        return Ok(());
    };
    let of_bytes = ContentHash::of(text.as_bytes());
    if of_bytes == expected {
        return Ok(());
    }
    // The annotation holds the hash of the canonical form, so formatting does not matter.
    let found = read(text).map_or(of_bytes, |document| ContentHash::of(document.canonical().as_bytes()));
    if found == expected {
        return Ok(());
    }
    Err(FetchError::HashMismatch(format!("the content has the hash {found}; the annotation has {expected}")))
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

/// State files to remove for a change between these configurations: the kubelet would not start with them.
#[must_use]
pub fn state_files(from: &str, to: &str) -> Vec<StateFile> {
    let (from, to) = (read(from).ok(), read(to).ok());
    let changed = document::changes(from.as_ref(), to.as_ref());
    let files: BTreeSet<StateFile> = changed
        .iter()
        .flat_map(|change| risk::of_change(&change.path, change.old.as_deref(), change.new.as_deref()).state_files)
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
mod tests {
    use super::*;

    const HEADER: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

    fn payload(body: &str) -> BTreeMap<String, String> {
        BTreeMap::from([("kubelet".to_owned(), format!("{HEADER}{body}"))])
    }

    fn version(text: &str) -> Option<KubeletVersion> {
        KubeletVersion::parse(text)
    }

    /// Result for a kubelet 1.36.2, as text.
    fn outcome(payload: &BTreeMap<String, String>, underneath: &[&str]) -> String {
        let underneath: Vec<String> = underneath.iter().map(|text| (*text).to_owned()).collect();
        match check_config(payload, "kubelet", &underneath, version("v1.36.2")) {
            ConfigCheck::Accepted => "accepted".to_owned(),
            ConfigCheck::NotLoaded { message, kubelet } => format!("{} does not load: {message}", kubelet.unwrap()),
            ConfigCheck::NotValid { message, kubelet } => format!("{} refuses: {message}", kubelet.unwrap()),
        }
    }

    #[test]
    fn checks_every_stage() {
        for (body, expected) in [
            ("maxPods: 250\n", "accepted"),
            ("noSuchField: 5\n", "accepted"),
            ("maxPods: many\n", "v1.36.2 does not load: "),
            ("maxPods: [\n", "v1.36.2 does not load: "),
            ("maxPods: -5\n", "v1.36.2 refuses: "),
            ("featureGates: {NodeSwap: false}\n", "v1.36.2 refuses: "),
            // The kubelet accepts this value and then fails to start.
            ("evictionHard: {no.such.signal: 5%}\n", "v1.36.2 refuses: "),
        ] {
            let result = outcome(&payload(body), &[]);
            assert!(
                result.starts_with(expected) && (expected == "accepted" || result.len() > expected.len()),
                "{body}: {result}"
            );
        }
        let missing = BTreeMap::from([("config".to_owned(), String::new())]);
        assert_eq!(
            outcome(&missing, &[]),
            "v1.36.2 does not load: the ConfigMap has no key \"kubelet\", but the keys config"
        );
        assert!(outcome(&BTreeMap::new(), &[]).ends_with("but no keys"));
    }

    #[test]
    fn limits_listed_reasons() {
        let body = "maxPods: -5\nport: -1\noomScoreAdj: 5000\nhealthzPort: -1\n";
        let result = outcome(&payload(body), &[]);
        assert!(result.ends_with("; and 1 more") && result.contains("maxPods"), "{result}");
    }

    #[test]
    fn checks_drop_in_merged_with_base() {
        let base = format!("{HEADER}imageGCHighThresholdPercent: 70\n");
        let over = payload("imageGCLowThresholdPercent: 75\n");
        assert_eq!(outcome(&over, &[]), "accepted");
        assert!(outcome(&over, &[&base]).starts_with("v1.36.2 refuses: "));
        // Files are merged in order.
        assert_eq!(outcome(&over, &[&base, &base.replace("70", "90")]), "accepted");
        // Every merged file must load by itself.
        let bare = BTreeMap::from([("kubelet".to_owned(), "maxPods: 5\n".to_owned())]);
        assert!(outcome(&bare, &[&base]).starts_with("v1.36.2 does not load: "));
        assert!(outcome(&over, &["["]).contains("the configuration below the drop-in cannot be read"));
        let whole = merged_text(&[base], &over["kubelet"]).unwrap();
        assert!(whole.contains("imageGCHighThresholdPercent: 70\nimageGCLowThresholdPercent: 75\n"), "{whole}");
    }

    #[test]
    fn checks_unknown_kubelet_as_nearest_version() {
        for (kubelet, words) in [
            (None, format!(" (the kubelet's version is unknown; checked as {NEWEST_RELEASED})")),
            (version("v1.99.0"), format!(" (no rules for kubelet v1.99.0; checked as {NEWEST})")),
            (version("v1.5.0"), format!(" (no rules for kubelet v1.5.0; checked as {OLDEST})")),
            (version("v2.0.0"), format!(" (no rules for kubelet v2.0.0; checked as {NEWEST})")),
        ] {
            let bad = check_config(&payload("maxPods: -5\n"), "kubelet", &[], kubelet);
            assert!(matches!(bad, ConfigCheck::NotValid { message, .. } if message.ends_with(&words)), "{words}");
            assert_eq!(check_config(&payload("maxPods: 5\n"), "kubelet", &[], kubelet), ConfigCheck::Accepted);
        }
    }

    #[test]
    fn checks_gates_for_newer_and_unknown_kubelets() {
        let gate = |name: &str, kubelet| {
            check_config(&payload(&format!("featureGates: {{{name}: true}}\n")), "kubelet", &[], kubelet)
        };
        assert_eq!(gate("NotInventedYet", version("v1.99.0")), ConfigCheck::Accepted);
        assert!(matches!(gate("NotInventedYet", version("v1.36.2")), ConfigCheck::NotValid { .. }));
        // Newer kubelets lack this gate; older ones have it.
        assert_eq!(gate("DynamicKubeletConfig", None), ConfigCheck::Accepted);
        assert!(matches!(gate("DynamicKubeletConfig", version("v1.36.2")), ConfigCheck::NotValid { .. }));
        assert!(
            matches!(gate("NotInventedYet", None), ConfigCheck::NotValid { .. }),
            "no kubelet version has the gate"
        );
    }

    #[test]
    fn refuses_disabled_healthz() {
        assert!(outcome(&payload("healthzPort: 0\n"), &[]).contains("healthzPort is 0"));
        assert_eq!(outcome(&payload("healthzPort: 10249\n"), &[&format!("{HEADER}healthzPort: 0\n")]), "accepted");
    }

    #[test]
    fn truncates_messages() {
        let result = outcome(&payload(&format!("maxPods: {}\n", "x".repeat(50_000))), &[]);
        assert!(result.chars().count() < MAX_MESSAGE + 100 && result.contains('…'), "{}", result.len());
        let keys: BTreeMap<String, String> = (0..5000).map(|n| (format!("key-{n}"), String::new())).collect();
        let ConfigCheck::NotLoaded { message, .. } = check_config(&keys, "kubelet", &[], None) else {
            panic!("no such key")
        };
        assert!(message.chars().count() < MAX_MESSAGE + 100, "{}", message.len());
    }

    #[test]
    fn hash_ignores_formatting() {
        let map = payload("maxPods: 5\n");
        let canonical = read(&map["kubelet"]).unwrap().canonical();
        let hash = ContentHash::of(canonical.as_bytes()).to_string();
        for same in
            [map.clone(), payload("# five\nmaxPods:   5\n"), BTreeMap::from([("kubelet".to_owned(), canonical)])]
        {
            assert_eq!(check_hash(&same, "kubelet", Some(&hash)), Ok(()));
        }
        let other = check_hash(&payload("maxPods: 6\n"), "kubelet", Some(&hash));
        assert!(matches!(&other, Err(FetchError::HashMismatch(why)) if why.contains(&hash)), "{other:?}");
        assert!(check_hash(&payload("[\n"), "kubelet", Some(&hash)).is_err());
        for nothing in [None, Some(""), Some("v9:other:00")] {
            assert_eq!(check_hash(&payload("maxPods: 6\n"), "kubelet", nothing), Ok(()));
        }
        assert_eq!(check_hash(&map, "other", Some(&hash)), Ok(()), "check_config reports a missing key");
    }

    #[test]
    fn reads_healthz_address() {
        for (body, address, port) in [
            ("", "127.0.0.1", 10248),
            ("healthzPort: 10250\n", "127.0.0.1", 10250),
            ("healthzPort: 0\n", "127.0.0.1", 0),
            ("healthzBindAddress: 10.0.0.7\nhealthzPort: null\n", "10.0.0.7", 10248),
            ("healthzBindAddress: ''\nhealthzPort: 99999\n", "127.0.0.1", 10248),
        ] {
            assert_eq!(healthz(&format!("{HEADER}{body}")), Healthz { address: address.to_owned(), port }, "{body}");
        }
        assert_eq!(healthz("["), Healthz { address: "127.0.0.1".to_owned(), port: 10248 });
    }

    #[test]
    fn lists_state_files_of_changed_policies() {
        let text = |body: &str| format!("{HEADER}{body}");
        let names = |from: &str, to: &str| {
            state_files(&text(from), &text(to)).iter().map(|file| file.as_str()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names("maxPods: 5\n", "maxPods: 6\n"), "");
        assert_eq!(names("", "cpuManagerPolicy: static\n"), "cpu_manager_state");
        assert_eq!(names("cpuManagerPolicy: static\n", "cpuManagerPolicy: none\n"), "cpu_manager_state");
        assert_eq!(names("memoryManagerPolicy: Static\n", ""), "memory_manager_state");
        assert_eq!(
            names("", "cpuManagerPolicy: static\nmemoryManagerPolicy: Static\n"),
            "cpu_manager_state memory_manager_state"
        );
        assert_eq!(names("", "evictionHard: {memory.available: 1Gi}\n"), "", "no policy uses the file");
    }
}
