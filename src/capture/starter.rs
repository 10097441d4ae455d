//! Files of a repository that changes no node.
//!
//! Nodes with a ConfigMap keep its exact content, so planning finds them converged. Nodes on their local
//! configuration keep it (`spec.kubelet.local`). Where pools overlay, their captured configuration is in own.yaml, and
//! kubelet.yaml names no field yet; elsewhere it is in kubelet.yaml. Pools whose nodes differ are paused
//! (`spec.rollout.paused`) until the user decides.

use std::collections::BTreeMap;

use super::agreement::Common;
use super::configz::secret_fields;
use super::pools::{Group, Selection};
use super::remarks::{comments, is_same_yaml, wrapped};
use super::{kubelet_file, names};
use kubelet_config::document::canonical_text;
use nodecfg_contract::labels::POOL_LABEL;
use nodecfg_contract::names::{FleetName, NamespaceName, PoolName};
use nodecfg_fleet::FLEET_FILE;

/// Current configuration of a pool's nodes.
#[derive(Debug, Clone, PartialEq)]
pub enum CurrentConfig {
    /// The local configuration.
    Local,
    /// Content of ConfigMaps.
    Content(String),
}

/// Pool of the new repository.
#[derive(Debug, Clone, PartialEq)]
pub struct StarterPool {
    /// Name and nodes.
    pub group: Group,
    /// Current configuration: that of most nodes when they differ.
    pub runs: CurrentConfig,
    /// Reasons to pause the pool; empty for none.
    pub pause_reasons: Vec<String>,
    /// Whether pools overlay by default: the nodes then need no more than the fields to change.
    pub overlays: bool,
    /// Whether the nodes run the content of ConfigMaps as the whole configuration, although pools overlay by default.
    pub replaces: bool,
    /// Captured configuration of some nodes.
    pub captured: Option<Common>,
}

/// The files of a new repository, by path.
pub(crate) type RepositoryFiles = BTreeMap<String, String>;

const POOL: &str = "apiVersion: nodecfg.dev/v1alpha1\nkind: NodePool\nmetadata:\n";
const LOCAL: &str = r"  kubelet:
    # These nodes run their local configuration. kubelet.yaml contains it as far as it
    # is known. nodecfg checks kubelet.yaml and does not use it. To roll it out, remove
    # this line.
    local: true
";

const LOCAL_BENEATH: &str = r"  kubelet:
    # These nodes keep what they run. To change a field, write it to kubelet.yaml, and
    # remove this line.
    local: true
";
const OWN: &str = r"    # Their configuration, as far as it is known. nodecfg checks kubelet.yaml over it.
    own: own.yaml
";
const OVERLAY: &str = "\
# These fields are merged over the own configuration of each node, which keeps the
# values of all others. Write the fields to change, such as maxPods: 120.
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
";

/// Omits the content of ConfigMaps that may contain secrets. The pool is then paused, and its nodes keep their
/// configuration.
#[must_use]
pub(super) fn without_secrets(runs: CurrentConfig, mut pause_reasons: Vec<String>) -> (CurrentConfig, Vec<String>) {
    let CurrentConfig::Content(text) = &runs else { return (runs, pause_reasons) };
    let fields = secret_fields(text);
    if fields.is_empty() {
        return (runs, pause_reasons);
    }
    pause_reasons.push(format!(
        "The content of their ConfigMap is omitted: {} may contain a secret, which does not belong in git. Copy the rest \
         to kubelet.yaml (nodecfg capture omits secrets in files), provide static pods by staticPodPath or by a URL without \
         credentials, and remove local and paused.",
        fields.join(", ")
    ));
    (CurrentConfig::Local, pause_reasons)
}

/// Repository with these pools.
pub(crate) fn starter_repository(
    fleet: &FleetName,
    namespace: Option<&NamespaceName>,
    pools: &[StarterPool],
) -> RepositoryFiles {
    let mut files = BTreeMap::from([
        (FLEET_FILE.to_owned(), fleet_file(fleet, namespace)),
        ("README.md".to_owned(), readme(pools.iter().map(|pool| &pool.group.name))),
    ]);
    for pool in pools {
        let folder = format!("pools/{}", pool.group.name);
        files.insert(format!("{folder}/pool.yaml"), pool_file(pool));
        let captured = captured_file(pool);
        let (kubelet, own) = match &pool.runs {
            CurrentConfig::Content(text) => (Some(text.clone()), None),
            CurrentConfig::Local if pool.overlays => (Some(OVERLAY.to_owned()), captured),
            CurrentConfig::Local => (captured, None),
        };
        for (name, text) in [("kubelet.yaml", kubelet), ("own.yaml", own)] {
            if let Some(text) = text {
                files.insert(format!("{folder}/{name}"), text);
            }
        }
    }
    files
}

/// What captured nodes of a pool run on their local configuration.
fn captured_file(pool: &StarterPool) -> Option<String> {
    let common = pool.captured.as_ref()?;
    let from = format!("Configuration of {}, of {} in the pool.", names(&common.nodes), pool.group.nodes.len());
    kubelet_file(common, &from)
}

fn fleet_file(fleet: &FleetName, namespace: Option<&NamespaceName>) -> String {
    let namespace = namespace.map(|namespace| format!("  namespace: {namespace}\n")).unwrap_or_default();
    format!(
        "apiVersion: nodecfg.dev/v1alpha1\nkind: Fleet\nmetadata:\n  name: {fleet}\nspec:\n{namespace}  rollout:\n    \
         maxUnavailable: 10%\n    canary: {{nodes: 1, soak: 10m}}\n"
    )
}

/// A pool.yaml with these lines in its spec.
fn pool_yaml(name: &PoolName, spec: &str) -> String {
    let spec = if spec.is_empty() { "spec: {}\n".to_owned() } else { format!("spec:\n{spec}") };
    format!("{POOL}  name: {name}\n{spec}")
}

fn pool_file(pool: &StarterPool) -> String {
    let bare = pool_text(pool, &[]);
    let commented = pool_text(pool, &pool.pause_reasons);
    // Comments contain text from nodes and ConfigMaps, which must not change the parsed content.
    if is_same_yaml(&commented, &bare) { commented } else { bare }
}

fn pool_text(pool: &StarterPool, reasons: &[String]) -> String {
    let mut spec = selector(&pool.group.selection);
    match &pool.runs {
        CurrentConfig::Local if pool.overlays => {
            spec.push_str(LOCAL_BENEATH);
            spec.push_str(if pool.captured.is_some() { OWN } else { "" });
        }
        CurrentConfig::Local => spec.push_str(LOCAL),
        CurrentConfig::Content(_) if pool.replaces => spec.push_str("  kubelet:\n    placement: replace\n"),
        CurrentConfig::Content(_) => {}
    }
    if !pool.pause_reasons.is_empty() {
        spec.push_str(&paused(reasons));
    }
    pool_yaml(&pool.group.name, &spec)
}

/// Pause of a pool, with its reasons.
fn paused(reasons: &[String]) -> String {
    let reasons: String = reasons.iter().map(|reason| indented(reason, 4)).collect();
    format!(
        "  rollout:\n{reasons}    # nodecfg changes these nodes only after this line is removed.\n    paused: true\n"
    )
}

/// Comment of at most 78 columns with this indentation.
fn indented(text: &str, depth: usize) -> String {
    let room = 78_usize.saturating_sub(depth);
    let lines = comments(&wrapped(text, room, ""));
    lines.lines().map(|line| format!("{}{line}\n", " ".repeat(depth))).collect()
}

/// Paused pool.yaml for a captured configuration. `elsewhere`: the captured nodes may lack the label of the pool.
#[must_use]
pub fn captured_pool(name: &PoolName, elsewhere: bool) -> String {
    let note = if elsewhere { "Select the nodes in spec.nodeSelector. Default:" } else { "Nodes:" };
    let which = indented(&format!("{note} the nodes labeled {POOL_LABEL}={name}."), 2);
    pool_yaml(
        name,
        &format!(
            "{which}{}",
            paused(&["The configuration was captured. Review it before the first rollout.".to_owned()])
        ),
    )
}

fn selector(selection: &Selection) -> String {
    let absent = |keys: &[String]| {
        let one = |key: &String| format!("      - {{key: {}, operator: DoesNotExist}}\n", canonical_text(key));
        keys.iter().map(one).collect::<String>()
    };
    let expressions = |lines: String| format!("  nodeSelector:\n    matchExpressions:\n{lines}");
    match selection {
        Selection::ByName(_) => String::new(),
        Selection::Label(key, value) => {
            format!("  nodeSelector:\n    matchLabels:\n      {}: {}\n", canonical_text(key), canonical_text(value))
        }
        Selection::Marked(key, without) => {
            expressions(format!("      - {{key: {}, operator: Exists}}\n{}", canonical_text(key), absent(without)))
        }
        Selection::Without(keys) => expressions(absent(keys)),
    }
}

/// Example repository, without a cluster.
pub(crate) fn empty_repository(fleet: &FleetName) -> RepositoryFiles {
    const NAME: &str = "general";
    const SPEC: &str = "  # Default: the nodes labeled nodecfg.dev/pool=general.
  nodeSelector:
    matchLabels:
      nodecfg.dev/pool: general
  rollout:
    maxUnavailable: 10%
    # The worst allowed effect of a change on running pods.
    allowDisruption: restart
";
    let kubelet = "\
# Where node agents run, these fields are merged over the own configuration of each
# node, which keeps the values of all others (placement: overlay). Kubelets up to 1.23
# need a complete file: nodecfg capture NODE > pools/general/kubelet.yaml
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerLogMaxSize: 20Mi
";
    let general = PoolName::new(NAME).ok();
    let pool = general.as_ref().map(|name| pool_yaml(name, SPEC)).unwrap_or_default();
    let files = [
        (FLEET_FILE.to_owned(), fleet_file(fleet, None)),
        ("README.md".to_owned(), readme(general.iter())),
        (format!("pools/{NAME}/pool.yaml"), pool),
        (format!("pools/{NAME}/kubelet.yaml"), kubelet.to_owned()),
    ];
    files.into()
}

fn readme<'p>(pools: impl Iterator<Item = &'p PoolName>) -> String {
    let pools: String = pools.map(|pool| format!("- [{pool}](pools/{pool}/pool.yaml)\n")).collect();
    format!(
        "# Kubelet configuration\n\nConfigurations of the kubelets of this cluster, managed by nodecfg. Pools:\n\n{pools}\n\
         Before a merge: `nodecfg validate` and `nodecfg diff`. After it: `nodecfg sync`.\n\n\
         A pool with `local: true` in its `pool.yaml` runs the local configuration of its nodes. To roll out its\n\
         `kubelet.yaml`, a few nodes at a time: remove that line, check `nodecfg diff`, and merge.\n\n\
         Editors with yaml-language-server check the files against the schemas in `.nodecfg`. After an upgrade of the nodes:\n\
         `nodecfg schema kubelet --kubernetes-version VERSION > .nodecfg/kubelet.schema.json`.\n"
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use kubelet_config::finding::{Severity, Strictness};
    use nodecfg_contract::Placement;
    use nodecfg_contract::names::NodeName;
    use nodecfg_fleet::snapshot::Snapshot;
    use nodecfg_fleet::{Checks, Kubelets, build};

    fn pool(name: &str, selection: Selection, runs: CurrentConfig, pause_reasons: &[&str]) -> StarterPool {
        let nodes = BTreeSet::from([NodeName::new("n1").unwrap()]);
        let pause_reasons = pause_reasons.iter().map(|reason| (*reason).to_owned()).collect();
        StarterPool {
            group: Group { name: PoolName::new(name).unwrap(), selection, nodes },
            runs,
            pause_reasons,
            overlays: name == "d",
            replaces: name == "replaced",
            captured: None,
        }
    }

    fn built(repository: &RepositoryFiles) -> nodecfg_fleet::Desired {
        let snapshot = Snapshot::of_texts(repository.iter().map(|(path, text)| (path.as_str(), text.as_str())));
        let built = build(&snapshot, &Checks { gate: Strictness::Strict, kubelets: Kubelets::OfNodes });
        let loud: Vec<_> = built.findings.iter().filter(|finding| finding.severity != Severity::Note).collect();
        assert!(loud.is_empty(), "{loud:#?}");
        built.desired.unwrap()
    }

    #[test]
    fn every_kind_of_pool_is_read_back_unchanged() {
        let fleet = FleetName::new("prod").unwrap();
        let content = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 7\nauthentication:\n  x509:\n    clientCAFile: /ca\n";
        let repository = starter_repository(
            &fleet,
            NamespaceName::new("kube-system").ok().as_ref(),
            &[
                pool(
                    "a",
                    Selection::ByName(PoolName::new("a").unwrap()),
                    CurrentConfig::Content(content.to_owned()),
                    &[],
                ),
                pool(
                    "b",
                    Selection::Label("x.io/pool".to_owned(), "yes".to_owned()),
                    CurrentConfig::Local,
                    &["They differ: #1\nx: y.\u{2028}    paused: false"],
                ),
                pool("c", Selection::Marked("r/1".to_owned(), vec!["r/0".to_owned()]), CurrentConfig::Local, &[]),
                pool("d", Selection::Without(vec!["x.io/pool".to_owned()]), CurrentConfig::Local, &[]),
                pool(
                    "replaced",
                    Selection::ByName(PoolName::new("replaced").unwrap()),
                    CurrentConfig::Content(content.to_owned()),
                    &[],
                ),
            ],
        );
        let desired = built(&repository);
        assert_eq!((desired.fleet.as_str(), desired.pools.len()), ("prod", 5));
        let by_name = |name: &str| &desired.pools[&PoolName::new(name).unwrap()];
        assert_eq!(by_name("a").selector.to_string(), "nodecfg.dev/pool=a");
        assert_eq!(by_name("b").selector.to_string(), "x.io/pool=yes");
        assert!(by_name("b").policy.paused && !by_name("a").policy.paused);
        assert!(by_name("c").rendered().is_none() && by_name("a").rendered().is_some());
        let placements = ["a", "b", "replaced"].map(|name| by_name(name).placement);
        assert_eq!(placements, [None, None, Some(Placement::Replace)]);
        assert_eq!(repository["pools/a/kubelet.yaml"], content);
        assert_eq!(repository["pools/d/kubelet.yaml"], OVERLAY, "no field of its own, whatever the nodes run");
    }

    #[test]
    fn omits_secrets_of_a_config_map() {
        let header = "kind: KubeletConfiguration\nstaticPodURLHeader:\n  X-Token: [s3cr3t]\n".to_owned();
        let (runs, pause_reasons) = without_secrets(CurrentConfig::Content(header), Vec::new());
        let pause_reasons: Vec<&str> = pause_reasons.iter().map(String::as_str).collect();
        let selection = Selection::ByName(PoolName::new("a").unwrap());
        let repository =
            starter_repository(&FleetName::new("prod").unwrap(), None, &[pool("a", selection, runs, &pause_reasons)]);
        let all = format!("{:?}", repository);
        assert!(!all.contains("s3cr3t") && all.contains("staticPodURLHeader"), "{all}");
        let pool = &built(&repository).pools[&PoolName::new("a").unwrap()];
        assert!(pool.policy.paused && pool.rendered().is_none());
        let plain = CurrentConfig::Content("maxPods: 1\n".to_owned());
        assert_eq!(without_secrets(plain.clone(), Vec::new()), (plain, Vec::new()));
    }

    #[test]
    fn selects_nodes_by_an_empty_label() {
        let selection = Selection::Label("x.io/pool".to_owned(), String::new());
        let repository = starter_repository(
            &FleetName::new("prod").unwrap(),
            None,
            &[pool("a", selection, CurrentConfig::Local, &[])],
        );
        let selector = &built(&repository).pools[&PoolName::new("a").unwrap()].selector;
        let labels =
            |value: Option<&str>| value.map(|value| ("x.io/pool".to_owned(), value.to_owned())).into_iter().collect();
        assert_eq!([Some(""), Some("y"), None].map(|value| selector.matches(&labels(value))), [true, false, false]);
    }

    #[test]
    fn captured_pool_is_paused_and_names_its_nodes() {
        let name = PoolName::new("gpu").unwrap();
        let mut repository = empty_repository(&FleetName::new("default").unwrap());
        let kubelet = repository["pools/general/kubelet.yaml"].clone();
        for (elsewhere, says) in [(false, "# Nodes: the nodes labeled"), (true, "in spec.nodeSelector")] {
            let text = captured_pool(&name, elsewhere);
            assert!(text.contains(says) && text.lines().all(|line| line.chars().count() <= 80), "{text}");
            repository.insert("pools/gpu/pool.yaml".to_owned(), text);
            repository.insert("pools/gpu/kubelet.yaml".to_owned(), kubelet.clone());
            let pool = &built(&repository).pools[&name];
            assert!(pool.policy.paused);
            assert_eq!(pool.selector.to_string(), "nodecfg.dev/pool=gpu");
        }
    }

    #[test]
    fn example_repository_is_valid() {
        assert_eq!(built(&empty_repository(&FleetName::new("default").unwrap())).pools.len(), 1);
    }
}
