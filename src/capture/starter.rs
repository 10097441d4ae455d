//! The files of a repository that changes nothing: every pool is written down as its nodes are.
//!
//! Nodes that point at a ConfigMap keep its content, word for word: planning then finds that they run it already. Nodes on
//! their local configuration stay there (`spec.kubelet.local`), with what they run beside. Nodes of one pool that do not
//! agree are left alone (`spec.rollout.paused`) until somebody decides.

use std::collections::BTreeMap;

use super::agreement::Common;
use super::pools::{Group, Picks};
use super::taken::secret_fields;
use super::words::{comments, say_the_same, wrapped};
use super::{kubelet_file, names};
use kubelet_config::document::canonical_text;
use nodecfg_contract::names::{FleetName, NamespaceName, PoolName};
use nodecfg_contract::observed::POOL_LABEL;
use nodecfg_planning::desired::FLEET_FILE;

/// What the nodes of a pool run.
#[derive(Debug, Clone, PartialEq)]
pub enum Runs {
    /// The configuration that they were provisioned with.
    Local,
    /// The content of ConfigMaps.
    Content(String),
}

/// A pool to be written down.
#[derive(Debug, Clone, PartialEq)]
pub struct StarterPool {
    /// Its name and nodes.
    pub group: Group,
    /// What they run; where they do not agree, what most of them do.
    pub runs: Runs,
    /// Why its nodes are to be left alone for now; empty when there is no reason.
    pub doubts: Vec<String>,
    /// What some of them were found to run, and how many were asked.
    pub captured: Option<Common>,
}

/// A repository to begin with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Start {
    /// Its files by path.
    pub files: BTreeMap<String, String>,
}

const POOL: &str = "apiVersion: nodecfg.dev/v1alpha1\nkind: NodePool\nmetadata:\n";
const LOCAL: &str = r"  kubelet:
    # These nodes run the configuration that they were provisioned with. What that
    # is, as far as it is known, is in kubelet.yaml. It is checked, and not used until
    # this line is removed: then nodecfg rolls it out, and the pool is yours.
    local: true
";

/// What is written of nodes whose ConfigMap may hold secrets: nothing, and why. Left to itself, such a pool is paused, and its
/// nodes keep what they run.
#[must_use]
pub(super) fn without_secrets(runs: Runs, mut doubts: Vec<String>) -> (Runs, Vec<String>) {
    let Runs::Content(text) = &runs else { return (runs, doubts) };
    let fields = secret_fields(text);
    if fields.is_empty() {
        return (runs, doubts);
    }
    doubts.push(format!(
        "What their ConfigMap holds is not written down: {} may hold a secret, which does not belong into git. Take the rest \
         into kubelet.yaml (nodecfg capture --write leaves secrets out), give the nodes their static pods by staticPodPath or \
         a URL without credentials, and remove local and paused.",
        fields.join(", ")
    ));
    (Runs::Local, doubts)
}

/// The files for these pools.
#[must_use]
pub fn start(fleet: &FleetName, namespace: Option<&NamespaceName>, pools: &[StarterPool]) -> Start {
    let mut files = BTreeMap::from([
        (FLEET_FILE.to_owned(), fleet_file(fleet, namespace)),
        ("README.md".to_owned(), readme(pools.iter().map(|pool| &pool.group.name))),
    ]);
    for pool in pools {
        let folder = format!("pools/{}", pool.group.name);
        files.insert(format!("{folder}/pool.yaml"), pool_file(pool));
        if let Some(text) = configuration(pool) {
            files.insert(format!("{folder}/kubelet.yaml"), text);
        }
    }
    Start { files }
}

fn configuration(pool: &StarterPool) -> Option<String> {
    match (&pool.runs, &pool.captured) {
        (Runs::Content(text), _) => Some(text.clone()),
        (Runs::Local, Some(common)) => {
            let all = pool.group.nodes.len();
            let from = format!("What {} run, of {all} in the pool.", names(&common.nodes));
            kubelet_file(common, &from)
        }
        (Runs::Local, None) => None,
    }
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
    let told = pool_text(pool, &pool.doubts);
    // What is told of a pool is in the words of nodes and ConfigMaps, too, and may say nothing in the file.
    if say_the_same(&told, &bare) { told } else { bare }
}

fn pool_text(pool: &StarterPool, told: &[String]) -> String {
    let mut spec = selector(&pool.group.picks);
    if pool.runs == Runs::Local {
        spec.push_str(LOCAL);
    }
    if !pool.doubts.is_empty() {
        spec.push_str(&paused(told));
    }
    pool_yaml(&pool.group.name, &spec)
}

/// The pause of a pool, with the reasons.
fn paused(reasons: &[String]) -> String {
    let reasons: String = reasons.iter().map(|reason| indented(reason, 4)).collect();
    format!("  rollout:\n{reasons}    # Nothing is done to them until this line is removed.\n    paused: true\n")
}

/// A comment at this depth.
fn indented(text: &str, depth: usize) -> String {
    let room = 78_usize.saturating_sub(depth);
    let lines = comments(&wrapped(text, room, ""));
    lines.lines().map(|line| format!("{}{line}\n", " ".repeat(depth))).collect()
}

/// The pool.yaml of a pool whose configuration was captured: nothing is done to it before somebody says so. `elsewhere`: the nodes
/// that were asked may be others than those that are labelled with its name.
#[must_use]
pub fn captured_pool(name: &PoolName, elsewhere: bool) -> String {
    let note = if elsewhere { "Which nodes these are, say in spec.nodeSelector; without it," } else { "These are" };
    let which = indented(&format!("{note} those labelled {POOL_LABEL}={name}."), 2);
    pool_yaml(
        name,
        &format!("{which}{}", paused(&["What nodes run was captured, and nobody has looked at it.".to_owned()])),
    )
}

fn selector(picks: &Picks) -> String {
    let absent = |keys: &[String]| {
        let one = |key: &String| format!("      - {{key: {}, operator: DoesNotExist}}\n", canonical_text(key));
        keys.iter().map(one).collect::<String>()
    };
    let expressions = |lines: String| format!("  nodeSelector:\n    matchExpressions:\n{lines}");
    match picks {
        Picks::ByName(_) => String::new(),
        Picks::Label(key, value) => {
            format!("  nodeSelector:\n    matchLabels:\n      {}: {}\n", canonical_text(key), canonical_text(value))
        }
        Picks::Marked(key, without) => {
            expressions(format!("      - {{key: {}, operator: Exists}}\n{}", canonical_text(key), absent(without)))
        }
        Picks::Without(keys) => expressions(absent(keys)),
    }
}

/// A repository to begin with where no cluster is at hand.
#[must_use]
pub fn empty_start(fleet: &FleetName) -> Start {
    const NAME: &str = "general";
    const SPEC: &str = "  # Which nodes; those labelled nodecfg.dev/pool=general where this is left out.
  nodeSelector:
    matchLabels:
      nodecfg.dev/pool: general
  rollout:
    maxUnavailable: 10%
    # The worst that a change may do to running pods.
    allowDisruption: restart
";
    let kubelet = "\
# The whole KubeletConfiguration of the pool: what is not in here takes the
# kubelet's own default, not what the node was provisioned with. To begin with what
# a node runs: nodecfg capture NODE > pools/general/kubelet.yaml
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  x509:
    clientCAFile: /etc/kubernetes/pki/ca.crt
cgroupDriver: systemd
clusterDNS:
- 10.96.0.10
clusterDomain: cluster.local
rotateCertificates: true
staticPodPath: /etc/kubernetes/manifests
";
    let general = PoolName::new(NAME).ok();
    let pool = general.as_ref().map(|name| pool_yaml(name, SPEC)).unwrap_or_default();
    let files = [
        (FLEET_FILE.to_owned(), fleet_file(fleet, None)),
        ("README.md".to_owned(), readme(general.iter())),
        (format!("pools/{NAME}/pool.yaml"), pool),
        (format!("pools/{NAME}/kubelet.yaml"), kubelet.to_owned()),
    ];
    Start { files: files.into() }
}

fn readme<'p>(pools: impl Iterator<Item = &'p PoolName>) -> String {
    let pools: String = pools.map(|pool| format!("- [{pool}](pools/{pool}/pool.yaml)\n")).collect();
    format!(
        "# Kubelet configuration\n\nWhat the kubelets of this cluster run, kept by nodecfg. Pools:\n\n{pools}\n\
         Before a merge: `nodecfg validate` and `nodecfg diff`. After it: `nodecfg sync`.\n\n\
         A pool with `local: true` in its `pool.yaml` runs what its nodes were provisioned with. Remove that line, look at\n\
         `nodecfg diff`, and merge: nodecfg then rolls out the `kubelet.yaml` beside it, a few nodes at a time.\n"
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use kubelet_config::finding::{Severity, Strictness};
    use nodecfg_contract::names::NodeName;
    use nodecfg_planning::desired::{Checks, Kubelets, PoolTarget, build};
    use nodecfg_planning::snapshot::Snapshot;

    fn pool(name: &str, picks: Picks, runs: Runs, doubts: &[&str]) -> StarterPool {
        let nodes = BTreeSet::from([NodeName::new("n1").unwrap()]);
        let doubts = doubts.iter().map(|doubt| (*doubt).to_owned()).collect();
        StarterPool { group: Group { name: PoolName::new(name).unwrap(), picks, nodes }, runs, doubts, captured: None }
    }

    fn built(start: &Start) -> nodecfg_planning::desired::Desired {
        let snapshot = Snapshot::of_texts(start.files.iter().map(|(path, text)| (path.as_str(), text.as_str())));
        let built = build(&snapshot, &Checks { gate: Strictness::Strict, kubelets: Kubelets::OfNodes });
        let loud: Vec<_> = built.findings.iter().filter(|finding| finding.severity != Severity::Note).collect();
        assert!(loud.is_empty(), "{loud:#?}");
        built.desired.unwrap()
    }

    #[test]
    fn every_kind_of_pool_reads_back_as_it_was_meant() {
        let fleet = FleetName::new("prod").unwrap();
        let content = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 7\nauthentication:\n  x509:\n    clientCAFile: /ca\n";
        let start = start(
            &fleet,
            NamespaceName::new("kube-system").ok().as_ref(),
            &[
                pool("a", Picks::ByName(PoolName::new("a").unwrap()), Runs::Content(content.to_owned()), &[]),
                pool(
                    "b",
                    Picks::Label("x.io/pool".to_owned(), "yes".to_owned()),
                    Runs::Local,
                    &["They differ: #1\nx: y.\u{2028}    paused: false"],
                ),
                pool("c", Picks::Marked("r/1".to_owned(), vec!["r/0".to_owned()]), Runs::Local, &[]),
                pool("d", Picks::Without(vec!["x.io/pool".to_owned()]), Runs::Local, &[]),
            ],
        );
        let desired = built(&start);
        assert_eq!((desired.fleet.as_str(), desired.pools.len()), ("prod", 4));
        let by_name = |name: &str| &desired.pools[&PoolName::new(name).unwrap()];
        assert_eq!(by_name("a").selector.to_string(), "nodecfg.dev/pool=a");
        assert_eq!(by_name("b").selector.to_string(), "x.io/pool=yes");
        assert!(by_name("b").policy.paused && !by_name("a").policy.paused);
        assert!(
            matches!(by_name("c").target, PoolTarget::Local) && matches!(by_name("a").target, PoolTarget::Config(_))
        );
        assert_eq!(start.files["pools/a/kubelet.yaml"], content);
    }

    #[test]
    fn secrets_of_a_config_map_are_in_no_file() {
        let header = "kind: KubeletConfiguration\nstaticPodURLHeader:\n  X-Token: [s3cr3t]\n".to_owned();
        let (runs, doubts) = without_secrets(Runs::Content(header), Vec::new());
        let doubts: Vec<&str> = doubts.iter().map(String::as_str).collect();
        let picks = Picks::ByName(PoolName::new("a").unwrap());
        let start = start(&FleetName::new("prod").unwrap(), None, &[pool("a", picks, runs, &doubts)]);
        let all = format!("{:?}", start.files);
        assert!(!all.contains("s3cr3t") && all.contains("staticPodURLHeader"), "{all}");
        let pool = &built(&start).pools[&PoolName::new("a").unwrap()];
        assert!(pool.policy.paused && matches!(pool.target, PoolTarget::Local));
        let plain = Runs::Content("maxPods: 1\n".to_owned());
        assert_eq!(without_secrets(plain.clone(), Vec::new()), (plain, Vec::new()));
    }

    #[test]
    fn nodes_with_an_empty_label_are_selected_by_it() {
        let picks = Picks::Label("x.io/pool".to_owned(), String::new());
        let start = start(&FleetName::new("prod").unwrap(), None, &[pool("a", picks, Runs::Local, &[])]);
        let selector = &built(&start).pools[&PoolName::new("a").unwrap()].selector;
        let labels =
            |value: Option<&str>| value.map(|value| ("x.io/pool".to_owned(), value.to_owned())).into_iter().collect();
        assert_eq!([Some(""), Some("y"), None].map(|value| selector.matches(&labels(value))), [true, false, false]);
    }

    #[test]
    fn a_pool_that_was_captured_is_paused_and_says_which_nodes_are_its() {
        let name = PoolName::new("gpu").unwrap();
        let mut start = empty_start(&FleetName::new("default").unwrap());
        let kubelet = start.files["pools/general/kubelet.yaml"].clone();
        for (elsewhere, says) in [(false, "# These are those labelled"), (true, "say in spec.nodeSelector")] {
            let text = captured_pool(&name, elsewhere);
            assert!(text.contains(says) && text.lines().all(|line| line.chars().count() <= 80), "{text}");
            start.files.insert("pools/gpu/pool.yaml".to_owned(), text);
            start.files.insert("pools/gpu/kubelet.yaml".to_owned(), kubelet.clone());
            let pool = &built(&start).pools[&name];
            assert!(pool.policy.paused);
            assert_eq!(pool.selector.to_string(), "nodecfg.dev/pool=gpu");
        }
    }

    #[test]
    fn a_repository_without_a_cluster_is_valid() {
        assert_eq!(built(&empty_start(&FleetName::new("default").unwrap())).pools.len(), 1);
    }
}
