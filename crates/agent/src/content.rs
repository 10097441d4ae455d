//! What a downloaded configuration is worth: what the kubelet of this host would say of it, whether it is what it claims to
//! be, where the kubelet will answer on it, and which state files do not survive it. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::events::{ConfigCheck, FetchError};
use super::host::Healthz;
use kubelet_config::document::{self, Document, Node, lay_over};
use kubelet_config::minor::{Minor, NEWEST, NEWEST_RELEASED, OLDEST};
use kubelet_config::risk::{self, StateFile};
use kubelet_config::verdict::{self, Refusal, Stage};
use nodecfg_contract::ContentHash;
use nodecfg_contract::observed::KubeletVersion;

/// How many reasons of a refusal are told.
const TOLD: usize = 3;
/// How long a message may be, in characters: whoever wrote the configuration can make it as long as that is.
const LONGEST: usize = 1024;

/// What the kubelet of this host would say of one key of a ConfigMap. `underneath` are the texts that ours is laid over, as
/// the kubelet does with the files of its `--config-dir` (`mergeKubeletConfigurations`, 1.28 on): its `--config` first.
///
/// A kubelet that is newer or older than the tables is judged as the nearest that they have, and the message says so; the
/// feature gates of a newer one are left to it. Where the version is not known, only what the kubelets of all versions refuse
/// is refused. A configuration without `/healthz` is refused too: nobody could see then whether it works.
#[must_use]
pub fn judge(
    payload: &BTreeMap<String, String>,
    key: &str,
    underneath: &[String],
    kubelet: Option<KubeletVersion>,
) -> ConfigCheck {
    let (minor, judged_as) = nearest(kubelet);
    let known = kubelet;
    let kubelet = kubelet.map(|version| version.to_string());
    let not_loaded =
        |message: String| ConfigCheck::NotLoaded { message: short(&message) + &judged_as, kubelet: kubelet.clone() };
    let Some(text) = payload.get(key) else {
        let keys: Vec<&str> = payload.keys().map(String::as_str).collect();
        let has = if keys.is_empty() { "no keys".to_owned() } else { format!("the keys {}", keys.join(", ")) };
        return not_loaded(format!("the ConfigMap has no key {key:?}, but {has}"));
    };
    let own = match read(text) {
        Ok(document) => document,
        Err(message) => return not_loaded(message),
    };
    let whole = laid_over(underneath, &own);
    let mut answer = verdict::assess(&own, minor);
    // A file of the folder must load by itself; its values are judged together with those underneath.
    if !underneath.is_empty() && answer.stage != Stage::Load {
        match &whole {
            Ok(whole) => answer = verdict::assess(whole, minor),
            Err(message) => return not_loaded(format!("the configuration underneath cannot be read: {message}")),
        }
    }
    if answer.runs() && healthz_of(whole.as_ref().ok()).port == 0 {
        let message = "healthzPort is 0: the agent could not see whether the kubelet works on it".to_owned();
        return ConfigCheck::NotValid { message, kubelet };
    }
    let newer = known.is_some_and(|version| (version.major, Minor(version.minor)) > (1, NEWEST));
    if answer.runs()
        || (newer && answer.stage == Stage::Gates)
        || (known.is_none() && whole.is_ok_and(|whole| some_version_runs(&whole)))
    {
        return ConfigCheck::Accepted;
    }
    let message = told(answer.reasons());
    match answer.stage {
        Stage::Load => not_loaded(message),
        Stage::Gates | Stage::Validate | Stage::Ok => {
            ConfigCheck::NotValid { message: short(&message) + &judged_as, kubelet }
        }
    }
}

/// Whether a kubelet of any version that is known runs a configuration.
fn some_version_runs(document: &Document) -> bool {
    (OLDEST.0..=NEWEST.0).map(Minor).any(|minor| verdict::assess(document, minor).runs())
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
            let older = (version.major, minor) < (1, OLDEST);
            let nearest = if older { OLDEST } else { NEWEST };
            (nearest, format!(" (nothing is known of kubelet {version}; judged as {nearest})"))
        }
    }
}

/// A message that fits into a status.
#[must_use]
pub fn short(message: &str) -> String {
    match message.char_indices().nth(LONGEST) {
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
    healthz_of(read(text).ok().as_ref())
}

fn healthz_of(document: Option<&Document>) -> Healthz {
    let root = document.map(|document| document.root.to_json());
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

    /// What is said of it by a kubelet 1.36.2, with its kind.
    fn said(payload: &BTreeMap<String, String>, underneath: &[&str]) -> String {
        let underneath: Vec<String> = underneath.iter().map(|text| (*text).to_owned()).collect();
        match judge(payload, "kubelet", &underneath, version("v1.36.2")) {
            ConfigCheck::Accepted => "accepted".to_owned(),
            ConfigCheck::NotLoaded { message, kubelet } => format!("{} does not load: {message}", kubelet.unwrap()),
            ConfigCheck::NotValid { message, kubelet } => format!("{} refuses: {message}", kubelet.unwrap()),
        }
    }

    #[test]
    fn every_stage_of_a_kubelet_has_its_verdict() {
        for (body, verdict) in [
            ("maxPods: 250\n", "accepted"),
            ("noSuchField: 5\n", "accepted"),
            ("maxPods: many\n", "v1.36.2 does not load: "),
            ("maxPods: [\n", "v1.36.2 does not load: "),
            ("maxPods: -5\n", "v1.36.2 refuses: "),
            ("featureGates: {NodeSwap: false}\n", "v1.36.2 refuses: "),
            // Accepted, and the kubelet does not start on it.
            ("evictionHard: {no.such.signal: 5%}\n", "v1.36.2 refuses: "),
        ] {
            let said = said(&payload(body), &[]);
            assert!(
                said.starts_with(verdict) && (verdict == "accepted" || said.len() > verdict.len()),
                "{body}: {said}"
            );
        }
        let missing = BTreeMap::from([("config".to_owned(), String::new())]);
        assert_eq!(
            said(&missing, &[]),
            "v1.36.2 does not load: the ConfigMap has no key \"kubelet\", but the keys config"
        );
        assert!(said(&BTreeMap::new(), &[]).ends_with("but no keys"));
    }

    #[test]
    fn many_reasons_are_counted() {
        let body = "maxPods: -5\nport: -1\noomScoreAdj: 5000\nhealthzPort: -1\n";
        let said = said(&payload(body), &[]);
        assert!(said.ends_with("; and 1 more") && said.contains("maxPods"), "{said}");
    }

    #[test]
    fn a_drop_in_is_judged_with_what_is_underneath() {
        let base = format!("{HEADER}imageGCHighThresholdPercent: 70\n");
        let over = payload("imageGCLowThresholdPercent: 75\n");
        assert_eq!(said(&over, &[]), "accepted");
        assert!(said(&over, &[&base]).starts_with("v1.36.2 refuses: "));
        // Between them, in order.
        assert_eq!(said(&over, &[&base, &base.replace("70", "90")]), "accepted");
        // What the kubelet merges must load by itself.
        let bare = BTreeMap::from([("kubelet".to_owned(), "maxPods: 5\n".to_owned())]);
        assert!(said(&bare, &[&base]).starts_with("v1.36.2 does not load: "));
        assert!(said(&over, &["["]).contains("the configuration underneath cannot be read"));
        let whole = whole(&[base], &over["kubelet"]).unwrap();
        assert!(whole.contains("imageGCHighThresholdPercent: 70\nimageGCLowThresholdPercent: 75\n"), "{whole}");
    }

    #[test]
    fn a_kubelet_that_is_not_known_is_judged_as_the_nearest() {
        for (kubelet, words) in [
            (None, format!(" (the kubelet's version is not known; judged as {NEWEST_RELEASED})")),
            (version("v1.99.0"), format!(" (nothing is known of kubelet v1.99.0; judged as {NEWEST})")),
            (version("v1.5.0"), format!(" (nothing is known of kubelet v1.5.0; judged as {OLDEST})")),
            (version("v2.0.0"), format!(" (nothing is known of kubelet v2.0.0; judged as {NEWEST})")),
        ] {
            let bad = judge(&payload("maxPods: -5\n"), "kubelet", &[], kubelet);
            assert!(matches!(bad, ConfigCheck::NotValid { message, .. } if message.ends_with(&words)), "{words}");
            assert_eq!(judge(&payload("maxPods: 5\n"), "kubelet", &[], kubelet), ConfigCheck::Accepted);
        }
    }

    #[test]
    fn what_cannot_be_known_of_a_kubelet_is_left_to_it() {
        let gate = |name: &str, kubelet| {
            judge(&payload(&format!("featureGates: {{{name}: true}}\n")), "kubelet", &[], kubelet)
        };
        assert_eq!(gate("NotInventedYet", version("v1.99.0")), ConfigCheck::Accepted);
        assert!(matches!(gate("NotInventedYet", version("v1.36.2")), ConfigCheck::NotValid { .. }));
        // A gate that the newest kubelets have lost and older ones have.
        assert_eq!(gate("DynamicKubeletConfig", None), ConfigCheck::Accepted);
        assert!(matches!(gate("DynamicKubeletConfig", version("v1.36.2")), ConfigCheck::NotValid { .. }));
        assert!(matches!(gate("NotInventedYet", None), ConfigCheck::NotValid { .. }), "no kubelet has it");
    }

    #[test]
    fn a_kubelet_that_nobody_could_ask_is_not_tried() {
        assert!(said(&payload("healthzPort: 0\n"), &[]).contains("healthzPort is 0"));
        assert_eq!(said(&payload("healthzPort: 10249\n"), &[&format!("{HEADER}healthzPort: 0\n")]), "accepted");
    }

    #[test]
    fn no_message_is_longer_than_a_status_takes() {
        let said = said(&payload(&format!("maxPods: {}\n", "x".repeat(50_000))), &[]);
        assert!(said.chars().count() < LONGEST + 100 && said.contains('…'), "{}", said.len());
        let keys: BTreeMap<String, String> = (0..5000).map(|n| (format!("key-{n}"), String::new())).collect();
        let ConfigCheck::NotLoaded { message, .. } = judge(&keys, "kubelet", &[], None) else { panic!("no such key") };
        assert!(message.chars().count() < LONGEST + 100, "{}", message.len());
    }

    #[test]
    fn a_hash_is_of_the_content_however_it_is_spelled() {
        let map = payload("maxPods: 5\n");
        let canonical = read(&map["kubelet"]).unwrap().canonical();
        let hash = ContentHash::of(canonical.as_bytes()).to_string();
        for same in
            [map.clone(), payload("# five\nmaxPods:   5\n"), BTreeMap::from([("kubelet".to_owned(), canonical)])]
        {
            assert_eq!(check_hash(&same, "kubelet", Some(&hash)), Ok(()));
        }
        let other = check_hash(&payload("maxPods: 6\n"), "kubelet", Some(&hash));
        assert!(matches!(&other, Err(FetchError::HashDiffers(why)) if why.contains(&hash)), "{other:?}");
        assert!(check_hash(&payload("[\n"), "kubelet", Some(&hash)).is_err());
        for nothing in [None, Some(""), Some("v9:other:00")] {
            assert_eq!(check_hash(&payload("maxPods: 6\n"), "kubelet", nothing), Ok(()));
        }
        assert_eq!(check_hash(&map, "other", Some(&hash)), Ok(()), "a missing key is the verdict's business");
    }

    #[test]
    fn healthz_is_where_the_configuration_says() {
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
    fn state_files_go_where_a_policy_changes() {
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
        assert_eq!(names("", "evictionHard: {memory.available: 1Gi}\n"), "", "nobody makes anything of the file");
    }
}
