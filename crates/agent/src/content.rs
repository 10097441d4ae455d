//! Checks of a downloaded configuration: whether it is the content that was reviewed, whether this host's kubelet
//! accepts it, and what a change to it does to running pods. Also reads the address of `/healthz`, and lists the state
//! files that contradict a change. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::events::{ConfigCheck, Download, FetchError};
use super::host::Healthz;
use kubelet_config::document::{self, Document, Node, apply_merge_patch};
use kubelet_config::effective::{self, EffectiveChange, ValueChange};
use kubelet_config::minor::{Minor, NEWEST, NEWEST_RELEASED, OLDEST};
use kubelet_config::risk::{self, Class, Risk, StateFile};
use kubelet_config::startup_error;
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

/// Canonical form of a text. `None` if it is unreadable.
#[must_use]
pub fn canonical(text: &str) -> Option<String> {
    read(text).ok().map(|document| document.canonical())
}

/// Adds the field that it concerns to an error of the kubelet, by the configuration that the kubelet was started with.
#[must_use]
pub fn with_field(error: &str, configuration: Option<&str>) -> String {
    let document = configuration.and_then(|text| read(text).ok());
    startup_error::with_field(error, document.as_ref())
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

/// Hashes of a text: of its bytes, and of its canonical form, which formatting does not change.
fn hashes(text: &str) -> [ContentHash; 2] {
    let of_bytes = ContentHash::of(text.as_bytes());
    [of_bytes, read(text).map_or(of_bytes, |document| ContentHash::of(document.canonical().as_bytes()))]
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

/// Field of a change whose class is the highest, with this class. `None` if the kubelet does not notice the change:
/// defaults of its version count as set.
#[must_use]
pub fn worst_change(from: &str, to: &str, kubelet: Option<KubeletVersion>) -> Option<(Class, String)> {
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
mod tests {
    use super::*;
    use nodecfg_contract::ConfigSource;

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
            ("healthzPort: 1e4\n", "accepted"),
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

    fn download(name: &str, payload: BTreeMap<String, String>) -> Download {
        Download { source: ConfigSource::config_map("ns", name, "kubelet"), payload, ..Download::default() }
    }

    fn hash_of(body: &str) -> ContentHash {
        ContentHash::of(read(&payload(body)["kubelet"]).unwrap().canonical().as_bytes())
    }

    #[test]
    fn accepts_only_required_content() {
        let (good, evil) = (hash_of("maxPods: 5\n"), hash_of("maxPods: 6\n"));
        let required = good.to_string();
        for same in ["maxPods: 5\n", "# five\nmaxPods:   5\n"] {
            assert_eq!(verify(&download("a", payload(same)), Some(&required), None), Ok(good), "{same}");
        }
        // Neither the name nor the present assignment replaces spec.contentHash.
        let named = format!("fleet-a-{}", evil.short());
        for accepted in [None, Some(evil.to_string())] {
            let refused = verify(&download(&named, payload("maxPods: 6\n")), Some(&required), accepted.as_deref());
            let Err(FetchError::OtherContent(why)) = refused else { panic!("{refused:?}") };
            assert!(why.contains(&required) && why.contains(&evil.to_string()), "{why}");
        }
        for malformed in ["", "v9:other:00", &required.to_uppercase()] {
            assert!(verify(&download("a", payload("maxPods: 5\n")), Some(malformed), None).is_err(), "{malformed}");
        }
        for body in [BTreeMap::new(), payload("[\n")] {
            assert!(verify(&download("a", body), Some(&required), None).is_err());
        }
    }

    #[test]
    fn without_required_hash_accepts_only_the_hash_in_the_name() {
        let good = hash_of("maxPods: 5\n");
        let named = |name: &str| verify(&download(name, payload("maxPods: 5\n")), None, None);
        assert_eq!(named(&format!("fleet-a-{}", good.short())), Ok(good));
        for other in
            ["a".to_owned(), format!("fleet-a-{}", hash_of("").short()), good.short(), format!("{}-a", good.short())]
        {
            assert!(matches!(named(&other), Err(FetchError::OtherContent(_))), "{other}");
        }
        // An assignment from before spec.contentHash keeps its content, and only that.
        let accepted = good.to_string();
        assert_eq!(verify(&download("a", payload("maxPods: 5\n")), None, Some(&accepted)), Ok(good));
        assert!(verify(&download("a", payload("maxPods: 6\n")), None, Some(&accepted)).is_err());
    }

    #[test]
    fn finds_worst_change_beyond_defaults() {
        let worst = |from: &str, to: &str| {
            let text = |body: &str| format!("{HEADER}{body}");
            worst_change(&text(from), &text(to), version("v1.36.2")).map(|(class, field)| format!("{class} {field}"))
        };
        assert_eq!(worst("maxPods: 5\n", "maxPods: 5\n"), None);
        assert_eq!(worst("", "cpuManagerPolicy: static\n").as_deref(), Some("drain cpuManagerPolicy"));
        assert_eq!(
            worst("cpuManagerPolicy: static\nmaxPods: 5\n", "maxPods: 6\n").as_deref(),
            Some("drain cpuManagerPolicy")
        );
        assert_eq!(worst("", "noSuchField: 1\n").as_deref(), Some("drain noSuchField"));
        // The worst of several, and the first of equal ones.
        let several =
            "clusterDNS: [10.0.0.9]\ncpuManagerPolicy: static\nenableControllerAttachDetach: false\nmaxPods: 250\n";
        assert_eq!(worst("", several).as_deref(), Some("drain cpuManagerPolicy"));
        // More pods harm none; fewer may.
        assert_eq!(worst("maxPods: 5\n", "maxPods: 6\n").as_deref(), Some("restart maxPods"));
        assert_eq!(worst("maxPods: 6\n", "maxPods: 5\n").as_deref(), Some("drain maxPods"));
        // The previous configuration cannot be read, so it may have had any value.
        assert_eq!(
            worst_change("[", &format!("{HEADER}cpuManagerPolicy: static\n"), version("v1.36.2")),
            Some((Class::Drain, "cpuManagerPolicy".to_owned()))
        );
        // kubeadm writes zero durations, which the kubelet replaces by its defaults.
        let zeros = "cpuManagerReconcilePeriod: 0s\nevictionPressureTransitionPeriod: 0s\nfileCheckFrequency: 0s\n\
                     httpCheckFrequency: 0s\nimageMinimumGCAge: 0s\nnodeStatusReportFrequency: 0s\n\
                     nodeStatusUpdateFrequency: 0s\nruntimeRequestTimeout: 0s\nshutdownGracePeriod: 0s\n\
                     shutdownGracePeriodCriticalPods: 0s\nstreamingConnectionIdleTimeout: 0s\nsyncFrequency: 0s\n\
                     volumeStatsAggPeriod: 0s\nlogging: {flushFrequency: 0, options: {json: {infoBufferSize: \"0\"}}, \
                     verbosity: 0}\nmemorySwap: {}\nimageMaximumGCAge: 0s\ncontainerRuntimeEndpoint: \"\"\n\
                     cpuManagerPolicy: none\n";
        assert_eq!(worst(zeros, ""), None);
        assert_eq!(worst("", zeros), None);
        // An older kubelet has no such default.
        let with_workers = format!("{HEADER}containerLogMaxWorkers: 1\n");
        assert_eq!(worst_change(HEADER, &with_workers, version("v1.36.2")), None);
        assert!(worst_change(HEADER, &with_workers, version("v1.21.14")).is_some());
    }

    #[test]
    fn reads_healthz_address() {
        for (body, address, port) in [
            ("", "127.0.0.1", 10248),
            ("healthzPort: 10250\n", "127.0.0.1", 10250),
            ("healthzPort: 0\n", "127.0.0.1", 0),
            ("healthzPort: 1e4\n", "127.0.0.1", 10_000),
            ("healthzPort: 10249.0\n", "127.0.0.1", 10_249),
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
