//! What a simulated kubelet runs: the only place that computes it, for `/configz`, health and restarts.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value as Json, json};

use crate::api::ProxyResult;
use crate::kubelets::Fault;
use crate::machines::unreachable;
use kubelet_config::defaults::{fill_in_certificate, is_struct};
use kubelet_config::effective::{ConfigDir, ConfigFile, Effective, FolderEntry, Kubelet, Refused, effective};
use kubelet_config::fields::child;
use kubelet_config::risk::StateFile;
use kubelet_config::verdict::Stage;
use kubelet_config::{Minor, NEWEST, OLDEST};
use nodecfg_contract::error_text;

/// File of the kubelet's `--config` (kubeadm).
pub(crate) const CONFIG_FILE: &str = "/var/lib/kubelet/config.yaml";
/// Folder of the kubelet's `--config-dir`.
pub(crate) const CONFIG_DIR: &str = "/etc/kubernetes/kubelet.conf.d";
/// Maximum number of cached configurations.
const CAPACITY: usize = 1024;

/// What a kubelet reads when it starts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Inputs {
    /// Version of the kubelet.
    pub(crate) minor: Minor,
    /// Content of the file of `--config`. Empty if it is missing.
    pub(crate) file: Arc<[u8]>,
    /// Files in the folder of `--config-dir`, by their path below it. `None` without the flag.
    pub(crate) drop_ins: Option<BTreeMap<String, Arc<[u8]>>>,
    /// Other arguments of the command line.
    pub(crate) flags: Vec<String>,
}

impl Inputs {
    /// A kubelet with only a file.
    pub(crate) fn of_file(minor: Minor, file: &[u8]) -> Self {
        Self { minor, file: file.into(), drop_ins: None, flags: Vec::new() }
    }

    /// Configuration that the kubelet accepts.
    pub(crate) fn effective(&self) -> Result<Effective, Refused> {
        let text = std::str::from_utf8(&self.file).map_err(|_| Refused {
            stage: Stage::Load,
            by: None,
            message: format!("{CONFIG_FILE} is not UTF-8"),
            refusals: Vec::new(),
        })?;
        let config_dir = self.drop_ins.as_ref().map(|files| ConfigDir {
            path: CONFIG_DIR.to_owned(),
            root: Some(FolderEntry::Folder(entries(files.iter().map(|(path, content)| (path.as_str(), &**content))))),
        });
        effective(&Kubelet {
            minor: self.minor,
            config: Some(ConfigFile { path: CONFIG_FILE, text }),
            config_dir: config_dir.as_ref(),
            drop_in_alpha: true,
            flags: &self.flags,
        })
    }
}

/// Entries of a folder with these files.
fn entries<'f>(files: impl Iterator<Item = (&'f str, &'f [u8])>) -> BTreeMap<String, FolderEntry> {
    let mut entries = BTreeMap::new();
    let mut folders: BTreeMap<&str, Vec<(&str, &[u8])>> = BTreeMap::new();
    for (path, content) in files {
        if let Some((folder, below)) = path.split_once('/') {
            folders.entry(folder).or_default().push((below, content));
        } else {
            let text = std::str::from_utf8(content).map(|text| FolderEntry::File(text.to_owned()));
            let entry = text.unwrap_or_else(|_| FolderEntry::Unreadable("is not UTF-8".to_owned()));
            entries.insert(path.to_owned(), entry);
        }
    }
    let folder =
        |(name, files): (&str, Vec<_>)| (name.to_owned(), FolderEntry::Folder(self::entries(files.into_iter())));
    entries.extend(folders.into_iter().map(folder));
    entries
}

/// Supported Kubernetes version closest to a kubelet's version string.
pub(crate) fn minor_of(version: &str) -> Minor {
    Minor::parse(version).unwrap_or(NEWEST).clamp(OLDEST, NEWEST)
}

/// What a kubelet does with its inputs.
#[derive(Debug)]
pub(crate) struct Running {
    /// The inputs.
    pub(crate) inputs: Inputs,
    outcome: Result<Map<String, Json>, String>,
    /// Stage at which the kubelet refuses its configuration, except at its start.
    refused_at: Option<Stage>,
}

impl Running {
    /// Computes what a kubelet does with its inputs.
    pub(crate) fn new(inputs: Inputs) -> Self {
        let effective = inputs.effective();
        let refused_at = effective.as_ref().err().map(|refused| refused.stage);
        let outcome = match effective {
            Err(refused) if refused.stage == Stage::Load => {
                Err(format!("failed to load kubelet config file: {refused}"))
            }
            Err(refused) => Err(messages(&refused.refusals).unwrap_or_else(|| refused.to_string())),
            Ok(effective) => match messages(&effective.startup) {
                Some(messages) => Err(messages),
                None => {
                    let mut whole = Map::new();
                    for (path, value) in effective.values {
                        set(&mut whole, &path, value.value);
                    }
                    fill_in_certificate(&mut whole);
                    Ok(whole)
                }
            },
        };
        Self { inputs, outcome, refused_at }
    }

    /// The whole configuration, as `/configz` returns it, or the error with which the kubelet exits.
    pub(crate) fn configuration(&self) -> Result<&Map<String, Json>, &str> {
        self.outcome.as_ref().map_err(String::as_str)
    }

    /// Response of the kubelet to a request of the API server: `/configz` with the running configuration.
    ///
    /// The content follows the kubelet (`cmd/kubelet/app/server.go`, `initConfigz`): the internal configuration with all
    /// defaults, converted back. `apiVersion`, `kind` and the values that Go's `omitempty` drops are missing.
    pub(crate) fn answer(&self, path: &str, fault: Option<&Fault>) -> ProxyResult {
        let plain =
            |status, body: &str| ProxyResult::Response { status, content_type: "text/plain", body: body.to_owned() };
        let Ok(configuration) = self.configuration() else { return unreachable() };
        let is_off = |field: &str| configuration.get(field) == Some(&Json::Bool(false));
        if is_off("enableServer") {
            return unreachable();
        }
        if fault == Some(&Fault::RefusesConfigz) {
            let recent = self.inputs.minor >= Minor(33);
            let subresource = if recent { "subresource(s)=[configz proxy]" } else { "subresource=proxy" };
            let who = "user=kube-apiserver-kubelet-client, verb=get, resource=nodes";
            return plain(403, &format!("Forbidden ({who}, {subresource})"));
        }
        if path != "/configz" || is_off("enableDebuggingHandlers") {
            return plain(404, "404: Page Not Found");
        }
        let body = json!({"kubeletconfig": configuration}).to_string();
        ProxyResult::Response { status: 200, content_type: "application/json", body }
    }

    /// Error that a kubelet with Dynamic Kubelet Configuration writes to `status.config.error` if it refuses the
    /// configuration. A refusal at the start of the kubelet has no such error.
    pub(crate) fn dynamic_error(&self) -> Option<&'static str> {
        match self.refused_at? {
            Stage::Load => Some(error_text::LOAD),
            // These kubelets apply the gates within `ValidateKubeletConfiguration`.
            Stage::Ok | Stage::Gates | Stage::Validate => Some(error_text::VALIDATE),
        }
    }

    /// Value of a top-level field.
    pub(crate) fn value(&self, field: &str) -> Option<&Json> {
        self.outcome.as_ref().ok()?.get(field)
    }

    /// Policies for the state files of the kubelet's managers. A file with another policy prevents the start.
    pub(crate) fn policies(&self) -> BTreeMap<StateFile, String> {
        let policy = |file: StateFile| self.value(file.policy().0).and_then(Json::as_str).unwrap_or("none");
        StateFile::ALL.map(|file| (file, policy(file).to_ascii_lowercase())).into()
    }
}

fn messages(refusals: &[kubelet_config::verdict::Refusal]) -> Option<String> {
    let messages: Vec<&str> = refusals.iter().map(|refusal| refusal.message.as_str()).collect();
    (!messages.is_empty()).then(|| messages.join("; "))
}

/// Sets the value at a path whose dots separate fields. After the name of a map, the rest of the path is a key.
pub(crate) fn set(map: &mut Map<String, Json>, path: &str, value: Json) {
    let (mut at, mut rest, mut parent) = (map, path, String::new());
    while let Some((name, below)) = rest.split_once('.')
        && let Some(field) = child(&parent, name)
    {
        let Json::Object(inner) = at.entry(name).or_insert_with(|| json!({})) else { return };
        (at, rest, parent) = (inner, below, field.path.clone());
        if !is_struct(field) {
            break;
        }
    }
    at.insert(rest.to_owned(), value);
}

/// Cache of what kubelets do with their inputs, shared by all nodes.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunningCache(Arc<Mutex<HashMap<Inputs, Arc<Running>>>>);

impl RunningCache {
    /// Returns what a kubelet does with its inputs, from the cache if possible. A full cache is cleared before an
    /// insertion.
    pub(crate) fn of(&self, inputs: Inputs) -> Arc<Running> {
        if let Some(known) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&inputs) {
            return Arc::clone(known);
        }
        let running = Arc::new(Running::new(inputs.clone()));
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= CAPACITY {
            known.clear();
        }
        known.insert(inputs, Arc::clone(&running));
        running
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubelets::KUBEADM_FILE;

    const KIND: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

    fn running(body: &str) -> Running {
        Running::new(Inputs::of_file(Minor(36), format!("{KIND}{body}").as_bytes()))
    }

    #[test]
    fn kubelet_refuses_what_checker_refuses() {
        assert!(running("maxPods: 50\n").configuration().is_ok());
        assert!(running("maxPods: -5\n").configuration().unwrap_err().contains("-5"));
        for file in [&b"\xff"[..], b"", b"[", b"a: b"] {
            assert!(Running::new(Inputs::of_file(Minor(36), file)).configuration().is_err(), "{file:?}");
        }
    }

    #[test]
    fn policies_of_state_files_are_those_of_the_configuration() {
        let policy = |body: &str| running(body).policies()[&StateFile::CpuManagerState].clone();
        assert_eq!(policy(""), "none");
        assert_eq!(policy("cpuManagerPolicy: none\n"), "none");
        assert_eq!(policy("cpuManagerPolicy: static\nkubeReserved: {cpu: 500m}\n"), "static");
    }

    #[test]
    fn drop_ins_and_flags_override_the_file() {
        let mut inputs = running("maxPods: 50\nevictionHard: {memory.available: 1Gi}\n").inputs;
        let drop_in = |body: &str| Arc::from(format!("{KIND}{body}").as_bytes());
        inputs.drop_ins = Some(BTreeMap::from([
            ("80-a.conf".to_owned(), drop_in("maxPods: 60\npodPidsLimit: 70")),
            ("sub/a.conf".to_owned(), drop_in("podPidsLimit: 80")),
            ("note.txt".to_owned(), drop_in("maxPods: 1")),
        ]));
        inputs.flags = vec!["--max-pods=90".to_owned()];
        let running = Running::new(inputs.clone());
        assert_eq!((running.value("maxPods"), running.value("podPidsLimit")), (Some(&json!(90)), Some(&json!(80))));
        assert_eq!(running.value("evictionHard").unwrap()["memory.available"], "1Gi");
        for (flag, named) in [("--max-pods=many", "--max-pods"), ("--no-such-flag=1", "--no-such-flag")] {
            inputs.flags = vec![flag.to_owned()];
            let running = Running::new(inputs.clone());
            assert!(running.configuration().unwrap_err().contains(named), "{running:?}");
        }
    }

    fn respond_with(text: &str, minor: u32) -> ProxyResult {
        Running::new(Inputs::of_file(Minor(minor), text.as_bytes())).answer("/configz", None)
    }

    fn configz(body: &str, minor: u32) -> Json {
        let text = format!("{KIND}{body}");
        let ProxyResult::Response { status: 200, body, .. } = respond_with(&text, minor) else {
            panic!("no response");
        };
        serde_json::from_str::<Json>(&body).unwrap()["kubeletconfig"].clone()
    }

    #[test]
    fn configz_contains_defaults_and_omits_empty_fields() {
        let ProxyResult::Response { body, .. } = respond_with(KUBEADM_FILE, 36) else { panic!("no response") };
        let shown = serde_json::from_str::<Json>(&body).unwrap()["kubeletconfig"].clone();
        assert_eq!((&shown["cgroupDriver"], &shown["clusterDNS"][0]), (&json!("systemd"), &json!("10.96.0.10")));
        assert_eq!((&shown["syncFrequency"], &shown["imageMaximumGCAge"]), (&json!("1m0s"), &json!("0s")));
        assert_eq!((&configz("", 36)["authentication"]["x509"], &shown["memorySwap"]), (&json!({}), &json!({})));
        assert_eq!(shown["tlsCertFile"], json!("/var/lib/kubelet/pki/kubelet.crt"));
        assert_eq!((&shown["podPidsLimit"], &shown["failSwapOn"]), (&json!(-1), &json!(true)));
        for omitted in ["apiVersion", "kind", "readOnlyPort", "providerID", "featureGates", "tracing"] {
            assert_eq!(shown.get(omitted), None, "{omitted}");
        }
        let old = configz("maxPods: 7\nseccompDefault: true\nevictionHard: {}", 21);
        assert_eq!((&old["maxPods"], &old["eventBurst"]), (&json!(7), &json!(10)));
        assert_eq!((old.get("seccompDefault"), old.get("evictionHard")), (None, None));
    }

    #[test]
    fn configz_returns_404_without_debugging_handlers() {
        let response = respond_with(&format!("{KIND}enableDebuggingHandlers: false"), 30);
        assert!(matches!(response, ProxyResult::Response { status: 404, .. }));
    }

    fn problem_of(text: &str) -> Option<&'static str> {
        Running::new(Inputs::of_file(Minor(21), text.as_bytes())).dynamic_error()
    }

    fn problem(body: &str) -> Option<&'static str> {
        problem_of(&format!("{KIND}{body}"))
    }

    #[test]
    fn accepts_valid_configuration_and_unknown_fields() {
        assert_eq!(problem("maxPods: 110\n"), None);
        assert_eq!(problem("maxPods: null\n"), None);
        assert_eq!(problem("maxPods: 1e2\nenableServer: yes\noomScoreAdj: -0999\n"), None);
        assert_eq!(problem("maxPods: many\nmaxPods: 5\n"), None, "the last of two keys wins");
        assert_eq!(problem("maxPods: 5\n---\n[\n"), None, "only the first document counts");
        assert_eq!(problem("nosuchField: 5\nauthentication: {nosuchField: [5]}\n"), None);
        // Fields of a later version are unknown to 1.21.
        assert_eq!(problem("podLogsDir: 5\n"), None);
    }

    #[test]
    fn undecodable_configuration_is_load_error() {
        assert_eq!(problem("maxPods: many\n"), Some(error_text::LOAD));
        assert_eq!(problem("maxPods: '5'\n"), Some(error_text::LOAD));
        assert_eq!(problem("maxPods: [\n"), Some(error_text::LOAD));
        assert_eq!(problem("maxPods: 1.5\n"), Some(error_text::LOAD));
        assert_eq!(problem("maxPods: 3000000000\n"), Some(error_text::LOAD));
        assert_eq!(problem("maxOpenFiles: 3000000000\n"), None);
        assert_eq!(problem("syncFrequency: 60\n"), Some(error_text::LOAD));
        assert_eq!(problem("syncFrequency: 1d\n"), Some(error_text::LOAD));
        assert_eq!(problem("syncFrequency: null\n"), Some(error_text::LOAD));
        assert_eq!(problem("clusterDNS: 10.0.0.10\n"), Some(error_text::LOAD));
        assert_eq!(problem("clusterDNS: [10]\n"), Some(error_text::LOAD));
        assert_eq!(problem("authentication: {anonymous: {enabled: 'no'}}\n"), Some(error_text::LOAD));
        assert_eq!(problem("evictionHard: {memory.available: 100}\n"), Some(error_text::LOAD));
        for text in ["", "a", "kind: KubeletConfiguration\n", "apiVersion: kubelet.config.k8s.io/v1beta1\n"] {
            assert_eq!(problem_of(text), Some(error_text::LOAD), "{text:?}");
        }
    }

    #[test]
    fn json_is_parsed_as_json() {
        let json = r#"{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "maxPods": -5}"#;
        assert_eq!(problem_of(json), Some(error_text::VALIDATE));
        let flow = json.replace('"', "");
        assert_eq!(problem_of(&flow), Some(error_text::LOAD));
    }

    #[test]
    fn invalid_value_is_validate_error_unless_decoding_fails() {
        assert_eq!(problem("maxPods: -5\n"), Some(error_text::VALIDATE));
        assert_eq!(problem("oomScoreAdj: -1001\n"), Some(error_text::VALIDATE));
        assert_eq!(problem("maxPods: -5\nport: x\n"), Some(error_text::LOAD));
        assert_eq!(problem("featureGates: {NoSuchGate: true}\n"), Some(error_text::VALIDATE));
        assert_eq!(problem("evictionHard: {no.such.signal: 5%}\n"), None, "refused only at kubelet start");
    }
}
