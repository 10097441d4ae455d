//! Property: what a plan foretells of an overlay is what the kubelet then runs. The kubelet is computed by
//! [`effective`], from random own files, drop-ins, flags and overlays.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use kubelet_config::NEWEST_RELEASED;
use kubelet_config::document::{Document, Node as Value, path_of};
use kubelet_config::effective::{ConfigDir, ConfigFile, Effective, FolderEntry, Kubelet, effective, overlaid};
use kubelet_config::risk::Class;
use nodecfg_contract::{KubeletVersion, Placement};
use nodecfg_fleet::{Pool, PoolTarget};
use nodecfg_observed::{Node, NodeConfigList, NodeContent, Observed, OwnValues, Readiness, RunningConfig};
use nodecfg_plan::change_fixtures::{planned, wants};
use nodecfg_plan::fixtures::{fetched, namespace, node, observed, on, rendered_of, replacing, with_config_map};
use nodecfg_plan::{ChangedField, Plan};

/// Fields with values that every kubelet accepts in any combination.
const FIELDS: [(&str, &[&str]); 11] = [
    ("maxPods", &["60", "110", "150"]),
    ("registryPullQPS", &["5", "7"]),
    ("clusterDomain", &["cluster.local", "a.b"]),
    ("clusterDNS", &["[10.96.0.10]", "[10.96.0.11, 10.96.0.12]"]),
    ("failSwapOn", &["true", "false"]),
    ("syncFrequency", &["1m0s", "90s"]),
    ("kubeReserved", &["{cpu: 100m}", "{cpu: 200m, memory: 1Gi}"]),
    ("evictionHard", &["{}", "{memory.available: 200Mi}", "{memory.available: 300Mi, nodefs.available: 5%}"]),
    ("authentication", &["{anonymous: {enabled: true}}", "{webhook: {cacheTTL: 1m0s}}"]),
    ("containerLogMaxSize", &["10Mi", "20Mi"]),
    ("nodeStatusUpdateFrequency", &["10s", "20s"]),
];
/// Flags with their fields.
const FLAGS: [(&str, &str); 3] = [
    ("--max-pods=70", "maxPods"),
    ("--cluster-domain=flag.local", "clusterDomain"),
    ("--fail-swap-on=false", "failSwapOn"),
];

fn fields(most: usize) -> impl Strategy<Value = BTreeMap<&'static str, &'static str>> {
    subsequence(FIELDS.to_vec(), 0..=most).prop_flat_map(|chosen| {
        let one = |(name, values): (&'static str, &'static [&'static str])| {
            select(values).prop_map(move |value| (name, value))
        };
        chosen.into_iter().map(one).collect::<Vec<_>>().prop_map(|fields| fields.into_iter().collect())
    })
}

fn text(fields: &BTreeMap<&str, &str>) -> String {
    fields.iter().map(|(name, value)| format!("{name}: {value}\n")).collect()
}

fn document(fields: &BTreeMap<&str, &str>) -> Document {
    rendered_of("a", &text(fields)).document
}

/// The parts of a node that its agent does not write.
#[derive(Debug, Clone)]
struct Host {
    own: BTreeMap<&'static str, &'static str>,
    /// A drop-in that the kubelet merges after the agent's.
    later: BTreeMap<&'static str, &'static str>,
    flags: Vec<(&'static str, &'static str)>,
}

impl Host {
    /// What the kubelet runs with an overlay.
    fn runs(&self, overlay: Option<&Document>) -> Effective {
        let own = document(&self.own);
        let whole = overlay.map_or_else(|| own.clone(), |overlay| overlaid(Some(&own), overlay)).canonical();
        let entries = [("95-other.conf".to_owned(), FolderEntry::File(document(&self.later).canonical()))].into();
        let folder = ConfigDir { path: "/d".to_owned(), root: Some(FolderEntry::Folder(entries)) };
        let flags: Vec<String> = self.flags.iter().map(|(flag, _)| (*flag).to_owned()).collect();
        effective(&Kubelet {
            minor: NEWEST_RELEASED,
            config: Some(ConfigFile { path: "/k.yaml", text: &whole }),
            config_dir: Some(&folder),
            drop_in_alpha: true,
            flags: &flags,
        })
        .expect("an accepted configuration")
    }

    /// Fields that drop-ins and flags set over any overlay. No plan sees these: the proof of the agent does.
    fn overridden(&self) -> BTreeSet<&'static str> {
        self.later.keys().copied().chain(self.flags.iter().map(|(_, field)| *field)).collect()
    }
}

/// Values of the own file for the fields of an overlay, as the agent reports them.
fn own_values(own: &Value, overlay: &Value, path: &str, found: &mut BTreeMap<String, String>) {
    match (own.mapping(), overlay.mapping()) {
        (Some(own), Some(overlay)) => {
            for (key, entry) in overlay.iter().filter(|(key, _)| !matches!(key.as_str(), "apiVersion" | "kind")) {
                if let Some(own) = own.get(key) {
                    own_values(&own.value, &entry.value, &path_of(path, key), found);
                }
            }
        }
        _ => drop(found.insert(path.to_owned(), own.to_json().to_string())),
    }
}

/// A plan from one overlay to another one. `None`: from the node's own configuration. The kubelet answers.
fn plan(host: &Host, old: Option<&BTreeMap<&str, &str>>, new: &BTreeMap<&str, &str>) -> Plan {
    let before = old.map(|fields| rendered_of("a", &text(fields)));
    let mut observed: Observed = observed([]);
    let mut member = Node {
        kubelet_version: KubeletVersion::parse(&format!("v{NEWEST_RELEASED}.0")),
        ready: Readiness::Ready,
        ..node("n1", "a")
    };
    let placement = Some(Placement::Overlay);
    let mut content = NodeContent { active_placement: placement, ..replacing() };
    content.placement = None;
    if let Some(before) = &before {
        let mut values = BTreeMap::new();
        own_values(&document(&host.own).root, &before.document.root, "", &mut values);
        member = on(member, &before.source(&namespace()));
        member.own_values = Some(Arc::new(OwnValues { values, complete: true }));
        let hash = Some(before.hash);
        content = NodeContent { assigned: hash, active: hash, placement, ..content };
        with_config_map(&mut observed, "a", before);
        observed.contents.extend([fetched(&before.source(&namespace()), &before.canonical, true)]);
    }
    member.content = Some(content);
    let running = host.runs(before.as_ref().map(|before| &before.document));
    observed.running.insert(member.name.clone(), RunningConfig::Read(running.document.canonical()));
    observed.nodes.insert(member.name.clone(), member);
    observed.versions.node_configs = Some(NodeConfigList::default());
    let mut desired = wants("maxPods: 1", Class::Never);
    for pool in desired.pools.values_mut() {
        *pool = Pool { targets: PoolTarget::Config(Box::new(rendered_of("a", &text(new)))).into(), ..pool.clone() };
    }
    planned(&desired, &observed)
}

fn top(path: &str) -> &str {
    path.split(['.', '[']).next().unwrap_or_default()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn foretold_changes_are_those_of_the_kubelet(
        own in fields(6),
        later in fields(1),
        flags in subsequence(FLAGS.to_vec(), 0..=1),
        old in prop::option::of(fields(5)),
        new in fields(5),
    ) {
        let host = Host { own, later, flags };
        prop_assume!(old.as_ref() != Some(&new));
        let [before, after] = [old.as_ref().map(document), Some(document(&new))].map(|overlay| host.runs(overlay.as_ref()));
        let paths = before.values.keys().chain(after.values.keys());
        let value = |of: &Effective, path: &str| of.values.get(path).map(|value| value.value.clone());
        let changed: BTreeSet<&str> = paths.filter(|path| value(&before, path) != value(&after, path)).map(|path| top(path)).collect();

        let plan = plan(&host, old.as_ref(), &new);
        let foretold: Vec<&ChangedField> = plan.pools[0].changes.iter().flat_map(|set| &set.fields).collect();
        let (known, unknown): (Vec<&ChangedField>, Vec<&ChangedField>) =
            foretold.into_iter().filter(|field| !field.no_effect).partition(|field| field.risk.is_some());
        let names = |fields: &[&ChangedField]| -> BTreeSet<String> {
            fields.iter().map(|field| top(&field.change.path).to_owned()).collect()
        };
        let (known, unknown) = (names(&known), names(&unknown));
        let overridden = host.overridden();
        // It follows nodeStatusUpdateFrequency in the same file, and the kubelet does not tell that from a value.
        let follows = [&host.own, &new].into_iter().chain(&old).any(|of| of.contains_key("nodeStatusUpdateFrequency"));
        for field in changed.iter().filter(|field| !(follows && **field == "nodeStatusReportFrequency")) {
            prop_assert!(known.contains(*field) || unknown.contains(*field), "{field} changes, and the plan does not say so");
        }
        for field in &known {
            let really = changed.contains(field.as_str()) || overridden.contains(field.as_str());
            prop_assert!(really, "{field} does not change, although the plan says so");
        }
        // Keys of maps without an own value are unknown, and defaults that depend on other fields.
        for field in &unknown {
            let may_be = ["kubeReserved", "evictionHard", "authentication", "nodeStatusReportFrequency"];
            prop_assert!(may_be.contains(&field.as_str()), "{field} is unknown");
        }
    }
}
