//! Tests of the installation manifests: snapshots and required properties.

use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use k8s_openapi::api::apps::v1::DaemonSet as TypedDaemonSet;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Serialize;
use serde::de::DeserializeOwned;

use nodecfg_contract::installation::AGENT_NAMESPACE;

use super::*;
use nodecfg_cluster::writing::apply::Target;

fn name(text: &str) -> NamespaceName {
    NamespaceName::new(text).expect("a name")
}

pub(crate) fn pods(host: Host) -> Agent {
    Agent::DaemonSet(DaemonSet {
        namespace: name(AGENT_NAMESPACE),
        image: "registry.example/nodecfg-agent:0.1".to_owned(),
        host,
    })
}

fn drop_in() -> Host {
    Host { kubelet_config_dir: Some("/etc/kubernetes/kubelet.conf.d".to_owned()), ..Host::default() }
}

fn installed(agent: Option<Agent>) -> Vec<Value> {
    objects(&installation(NAMESPACE, agent))
}

fn installation(namespace: &str, agent: Option<Agent>) -> Installation {
    Installation { namespace: name(namespace), config_map_writers: Vec::new(), agent, joins: false, boot: Vec::new() }
}

/// Installation whose nodes join.
pub(crate) fn joining(agent: Agent) -> Installation {
    let boot = [("prod", "gpu"), ("prod", "cpu")];
    let boot = boot.map(|(fleet, pool)| (FleetName::new(fleet).expect("a name"), PoolName::new(pool).expect("a name")));
    Installation { joins: true, boot: boot.into(), ..installation(NAMESPACE, Some(agent)) }
}

pub(crate) fn join_host() -> Host {
    let join = Join { fleet: FleetName::new("prod").expect("a name"), namespace: name(NAMESPACE) };
    Host { join: Some(join), ..Host::default() }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn yaml<'a>(objects: impl IntoIterator<Item = &'a Value>) -> String {
    let documents = objects.into_iter().map(|object| serde_saphyr::to_string(object).expect("YAML"));
    documents.collect::<Vec<_>>().join("---\n")
}

/// The definition has its own snapshot.
fn without_definition(objects: &[Value]) -> String {
    yaml(objects.iter().filter(|object| text(object, "/kind") != "CustomResourceDefinition"))
}

#[test]
fn without_agents() {
    insta::assert_snapshot!(without_definition(&installed(None)));
}

#[test]
fn agents_as_pods() {
    let objects = installed(Some(pods(Host::default())));
    let without: Vec<Value> = installed(None);
    insta::assert_snapshot!(without_definition(
        &objects.into_iter().filter(|object| !without.contains(object)).collect::<Vec<_>>()
    ));
}

#[test]
fn agents_as_pods_with_drop_ins() {
    let of = |host| installed(Some(pods(host))).pop().expect("the DaemonSet");
    let (file, drop_in) = (of(Host::default()), of(drop_in()));
    assert_eq!(text(&drop_in, "/kind"), "DaemonSet");
    assert_ne!(file, drop_in);
    insta::assert_snapshot!(yaml([
        &drop_in["spec"]["template"]["spec"]["containers"][1],
        &drop_in["spec"]["template"]["spec"]["volumes"]
    ]));
}

#[test]
fn agents_on_the_host() {
    let objects = installed(Some(Agent::Systemd));
    let without: Vec<Value> = installed(None);
    insta::assert_snapshot!(without_definition(
        &objects.into_iter().filter(|object| !without.contains(object)).collect::<Vec<_>>()
    ));
}

/// Objects that joining adds or changes.
fn joined(agent: Agent, plain: Agent) -> String {
    let without = installed(Some(plain));
    let changed: Vec<Value> = objects(&joining(agent)).into_iter().filter(|object| !without.contains(object)).collect();
    without_definition(&changed)
}

#[test]
fn joining_agents_as_pods() {
    insta::assert_snapshot!(joined(pods(join_host()), pods(Host::default())));
}

#[test]
fn joining_agents_on_the_host() {
    insta::assert_snapshot!(joined(Agent::Systemd, Agent::Systemd));
    let unit = unit("/usr/local/bin/nodecfg-agent", "/etc/kubernetes/kubelet.conf", &join_host());
    assert!(unit.contains("--fleet=prod") && unit.contains("--namespace=nodecfg-system"), "{unit}");
}

#[test]
fn units() {
    insta::assert_snapshot!(unit("/usr/local/bin/nodecfg-agent", "/etc/kubernetes/kubelet.conf", &Host::default()));
    let odd = Host { kubelet_root: "/data/my kubelet/100%".to_owned(), ..drop_in() };
    let unit = unit("/opt/bin/nodecfg", "/etc/kubernetes/kubelet.conf", &odd);
    assert!(unit.contains("\nReadWritePaths=\"/data/my kubelet/100%%\" /etc/kubernetes/kubelet.conf.d\n"), "{unit}");
    assert!(unit.contains("\n  \"--kubelet-root-dir=/data/my kubelet/100%%\""), "{unit}");
}

#[test]
fn boot_units() {
    insta::assert_snapshot!(boot_unit("/usr/local/bin/nodecfg-agent", &Host::default()));
    let odd = Host { kubelet_root: "/data/my kubelet/100%".to_owned(), ..drop_in() };
    let unit = boot_unit("/opt/bin/nodecfg agent", &odd);
    let paths = "\nReadWritePaths=\"-/data/my kubelet/100%%\" -/etc/kubernetes/kubelet.conf.d\n";
    assert!(unit.contains("\nConditionPathExists=/etc/kubernetes/kubelet.conf.d\n"), "{unit}");
    assert!(unit.contains(paths) && unit.contains("\nExecStart=\"/opt/bin/nodecfg agent\" boot "), "{unit}");
}

/// A boot that fails or hangs must not keep the kubelet from starting.
#[test]
fn kubelet_starts_after_failed_boot() {
    let unit = boot_unit("/usr/local/bin/nodecfg-agent", &Host::default());
    let has = |line: &str| unit.lines().any(|found| found == line);
    assert!(has("Type=oneshot") && has("Before=kubelet.service") && has("WantedBy=kubelet.service"), "{unit}");
    assert!(!unit.contains("Require") && !unit.contains("RemainAfterExit"), "{unit}");
    let limit = unit.lines().find_map(|line| line.strip_prefix("TimeoutStartSec=")?.strip_suffix('s')).expect("is set");
    assert!(limit.parse::<u64>().expect("seconds") > 60 + 10 + 5);
}

/// Checks that the API type has a field for every value.
fn fits<T: DeserializeOwned + Serialize>(object: &Value) {
    let typed: T = serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{error}: {object}"));
    assert_eq!(&serde_json::to_value(typed).expect("serializes"), object);
}

#[test]
fn every_object_fits_its_api_type() {
    let agents = [None, Some(Agent::Systemd), Some(pods(Host::default())), Some(pods(drop_in()))];
    let namespaces = [NAMESPACE, AGENT_NAMESPACE, "default", "kube-node-lease"];
    let plain = agents.iter().flat_map(|agent| namespaces.map(|namespace| installation(namespace, agent.clone())));
    for installed in plain.chain([joining(Agent::Systemd), joining(pods(join_host()))]) {
        let objects = objects(&installed);
        for object in &objects {
            match text(object, "/kind") {
                "Namespace" => fits::<Namespace>(object),
                "ServiceAccount" => fits::<ServiceAccount>(object),
                "CustomResourceDefinition" => {
                    let typed: CustomResourceDefinition = serde_json::from_value(object.clone()).expect("a definition");
                    assert!(typed.status.is_none());
                }
                "ClusterRole" => fits::<ClusterRole>(object),
                "ClusterRoleBinding" => fits::<ClusterRoleBinding>(object),
                "Role" => fits::<Role>(object),
                "RoleBinding" => fits::<RoleBinding>(object),
                "ValidatingAdmissionPolicy" => fits::<ValidatingAdmissionPolicy>(object),
                "ValidatingAdmissionPolicyBinding" => fits::<ValidatingAdmissionPolicyBinding>(object),
                "DaemonSet" => fits::<TypedDaemonSet>(object),
                kind => panic!("{kind}: is it applied?"),
            }
            assert!(Target::of(object).is_some(), "cannot be applied: {object}");
        }
        let mut names: Vec<String> =
            objects.iter().filter_map(Target::of).map(|target| format!("{target:?}")).collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all, "each once");
    }
}

#[test]
fn dependencies_come_first() {
    let rank = |object: &Value| match text(object, "/kind") {
        "Namespace" => 0,
        "CustomResourceDefinition" => 1,
        "ValidatingAdmissionPolicy" => 2,
        "ValidatingAdmissionPolicyBinding" => 3,
        // A right must not exist before the policy that restricts it.
        "ServiceAccount" | "ClusterRole" | "ClusterRoleBinding" | "Role" | "RoleBinding" => 4,
        _ => 5,
    };
    let ranks: Vec<i32> = installed(Some(pods(Host::default()))).iter().map(rank).collect();
    assert!(ranks.is_sorted(), "{ranks:?}");
    assert_eq!(ranks.last(), Some(&5));
}

/// Teams may have fleets in namespaces of their own.
#[test]
fn second_installation_keeps_the_rights_of_the_first() {
    let bindings = |objects: Vec<Value>| -> Vec<Value> {
        objects.into_iter().filter(|object| text(object, "/kind").ends_with("RoleBinding")).collect()
    };
    let place =
        |object: &Value| ["/kind", "/metadata/namespace", "/metadata/name"].map(|field| text(object, field).to_owned());
    let first = bindings(objects(&installation(NAMESPACE, Some(pods(Host::default())))));
    let second = bindings(objects(&installation("team-b", Some(pods(Host::default())))));
    // The API server replaces objects of the same kind, namespace and name.
    let left = first.iter().filter(|binding| !second.iter().any(|other| place(other) == place(binding)));
    let left: Vec<&Value> = left.chain(&second).collect();
    for binding in first.iter().chain(&second) {
        let same = |other: &&&Value| {
            ["/metadata/namespace", "/roleRef", "/subjects"]
                .iter()
                .all(|field| other.pointer(field) == binding.pointer(field))
        };
        assert!(left.iter().any(|other| same(&other)), "{binding}");
    }
}

/// Labels on kube-system would change its Pod Security level, which could break the cluster.
#[test]
fn keeps_namespaces_of_kubernetes_unchanged() {
    let agent =
        Agent::DaemonSet(DaemonSet { namespace: name("kube-system"), image: "i".to_owned(), host: Host::default() });
    let objects = objects(&installation("kube-system", Some(agent)));
    assert!(!objects.iter().any(|object| text(object, "/kind") == "Namespace"));
    let together =
        Agent::DaemonSet(DaemonSet { namespace: name("both"), image: "i".to_owned(), host: Host::default() });
    let objects = super::objects(&installation("both", Some(together)));
    let namespaces: Vec<&Value> = objects.iter().filter(|object| text(object, "/kind") == "Namespace").collect();
    assert_eq!(namespaces.len(), 1);
    assert_eq!(namespaces[0]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "privileged");
}

/// The container with credentials has no privileges, and the privileged container has no credentials.
#[test]
fn separates_privileges_and_credentials() {
    for host in [Host::default(), drop_in()] {
        let object = installed(Some(pods(host))).pop().expect("the DaemonSet");
        let pod = &object["spec"]["template"]["spec"];
        assert_eq!(pod["automountServiceAccountToken"], false);
        assert!(pod.get("hostIPC").is_none());
        let mounts = |container: &Value| -> Vec<String> {
            let mounts = container["volumeMounts"].as_array().expect("mounts");
            mounts.iter().map(|mount| text(mount, "/name").to_owned()).collect()
        };
        let [step, agent] = pod["containers"].as_array().expect("containers").as_slice() else { panic!("two") };
        assert!(mounts(agent).contains(&"token".to_owned()));
        assert_eq!(mounts(step), ["socket"]);
        let security = &agent["securityContext"];
        assert_eq!(security["privileged"], false);
        assert_eq!(security["allowPrivilegeEscalation"], false);
        assert_eq!(security["capabilities"], json!({"drop": ["ALL"]}));
        for container in [agent, step] {
            assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
        }
        // Every volume is mounted, and every mount has a volume.
        let mut mounted: Vec<String> = mounts(agent).into_iter().chain(mounts(step)).collect();
        mounted.sort();
        mounted.dedup();
        let mut volumes: Vec<&str> =
            pod["volumes"].as_array().expect("volumes").iter().map(|volume| text(volume, "/name")).collect();
        volumes.sort_unstable();
        assert_eq!(volumes, mounted);
    }
}

/// Termination during a restart would leave the kubelet stopped.
#[test]
fn grace_period_covers_both_restart_commands() {
    let both = 2 * COMMAND_LIMIT.as_secs();
    let unit = unit("/usr/local/bin/nodecfg-agent", "/etc/kubernetes/kubelet.conf", &Host::default());
    let timeout =
        unit.lines().find_map(|line| line.strip_prefix("TimeoutStopSec=")?.strip_suffix('s')).expect("is set");
    assert!(timeout.parse::<u64>().expect("seconds") > both);
    let object = installed(Some(pods(Host::default()))).pop().expect("the DaemonSet");
    assert!(object["spec"]["template"]["spec"]["terminationGracePeriodSeconds"].as_u64() > Some(both));
}

/// The mount of a file keeps showing the file from the start of the pod.
#[test]
fn mounts_folders_of_replaced_files() {
    let folders = |config: &str, config_dir: &str| -> Vec<String> {
        let host = Host {
            kubelet_config: config.to_owned(),
            kubelet_config_dir: Some(config_dir.to_owned()),
            ..Host::default()
        };
        let object = installed(Some(pods(host))).pop().expect("the DaemonSet");
        let volumes = object["spec"]["template"]["spec"]["volumes"].as_array().cloned().unwrap_or_default();
        assert!(volumes.iter().all(|volume| text(volume, "/hostPath/type") != "File"));
        volumes.iter().filter_map(|volume| Some(volume.pointer("/hostPath/path")?.as_str()?.to_owned())).collect()
    };
    assert_eq!(folders("/etc/a/config.yaml", "/etc/b"), ["/var/lib/nodecfg", "/etc/b", "/etc/a"]);
    // No path is mounted twice.
    assert_eq!(folders("/etc/b/config.yaml", "/etc/b/"), ["/var/lib/nodecfg", "/etc/b/"]);
}

#[test]
fn folders_of_paths() {
    for (path, folder) in [("/a/b/c", "/a/b"), ("/a", "/")] {
        assert_eq!(parent(path), folder);
    }
}
