//! Tests that the permissions of deploy/ and of agents are sufficient, and that none is unnecessary.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::pin::pin;
use std::process::Command;
use std::time::Duration;

use futures::StreamExt as _;
use nodecfg_agent::api::{AgentClient, AgentClientOptions};
use nodecfg_agent::events::Announcement;
use nodecfg_agent::joining::{JoinAnswer, JoinRequest};
use nodecfg_agent::settings::Settings;
use nodecfg_cluster::connection::connect::{ConnectOptions, Environment, connect};
use nodecfg_cluster::writing::permission::Needs;
use nodecfg_cluster::{ClusterReader, ReaderOptions};
use nodecfg_contract::names::{NamespaceName, NodeName, PoolName};
use nodecfg_contract::nodeconfig::{Condition, NodeConfigSpec, NodeConfigStatus, READY};
use nodecfg_contract::pool_pointer::{STARTUP_TAINT, STARTUP_TAINT_EFFECT};
use nodecfg_contract::{ConfigSource, ConfigStatus, nodeconfig};
use nodecfg_install::{Agent, DaemonSet, Host, Installation};
use nodecfg_sandbox::api::{Api, ApiOptions, Rule, ServerProfile, User};
use nodecfg_sandbox::server::kubeconfig::Kubeconfig;
use nodecfg_sandbox::server::serve::{Options, Serving, serve};
use nodecfg_sandbox::server::wire::{ApiRequest, Wire};
use nodecfg_sandbox::{Embedded, EmbeddedOptions, agents, kubelets, machines, nodes};
use serde_json::{Value, json};

const TOKEN: &str = "the-user";

/// Verb, resource and namespace.
type Grant = (String, String, String);

/// Rules of roles, each with its namespace.
fn rules_of(roles: impl IntoIterator<Item = Value>) -> Vec<Rule> {
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let mut rules = Vec::new();
    for role in roles {
        let namespace = match role["kind"].as_str().unwrap() {
            "ClusterRole" => None,
            "Role" => Some(role["metadata"]["namespace"].as_str().unwrap().to_owned()),
            kind => panic!("{kind}"),
        };
        for rule in role["rules"].as_array().unwrap() {
            rules.push(Rule {
                verbs: texts(&rule["verbs"]),
                groups: texts(&rule["apiGroups"]),
                resources: texts(&rule["resources"]),
                namespace: namespace.clone(),
                names: rule.get("resourceNames").map(texts).unwrap_or_default(),
            });
        }
    }
    rules
}

/// Rules of the roles among these objects.
fn rules(objects: Vec<Value>) -> Vec<Rule> {
    rules_of(objects.into_iter().filter(|object| matches!(object["kind"].as_str(), Some("Role" | "ClusterRole"))))
}

fn grants(rules: &[Rule]) -> BTreeSet<Grant> {
    let of = |rule: &Rule| {
        let namespace = rule.namespace.clone().unwrap_or_default();
        let pairs = rule.verbs.iter().flat_map(|verb| rule.resources.iter().map(move |resource| (verb, resource)));
        pairs.map(|(verb, resource)| (verb.clone(), resource.clone(), namespace.clone())).collect::<Vec<_>>()
    };
    rules.iter().flat_map(of).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reconciler_needs_every_right_and_no_more() {
    let rules = rules([nodecfg_install::reconciler_of_nodes(), nodecfg_install::saved_plans()].concat());
    let granted = grants(&rules);
    assert!(granted.len() >= 8, "{granted:?}");

    let api = Api::new(ApiOptions {
        tokens: BTreeMap::from([(TOKEN.to_owned(), User::with_rules("nodecfg", rules))]),
        ..ApiOptions::default()
    });
    let pools = ["general", "gpu"].map(|pool| PoolName::new(pool).unwrap());
    let specs = nodes::generic(4, &pools, "v1.21.14").unwrap();
    nodes::create(&api.client(), specs, nodecfg_clock::now(), 0).await.unwrap();
    let kubelets = kubelets::start(api.client(), machines::Options { speed: 100.0, ..machines::Options::default() })
        .await
        .unwrap();
    let wire = Wire::new();
    let serving = serve(wire.wrap(api.router()), Options::default()).await.unwrap();
    let home = tempfile::tempdir().unwrap();
    let kubeconfig = home.path().join("kubeconfig");
    Kubeconfig { server: serving.url(), ca_pem: serving.ca_pem().to_owned(), token: TOKEN.to_owned() }
        .save(&kubeconfig)
        .unwrap();

    let plan = home.path().join("plan.json");
    for (command, exit) in [("diff", 1), ("sync", 0), ("verify", 0), ("status", 0), ("diff", 0)] {
        let mut nodecfg = Command::new(env!("CARGO_BIN_EXE_nodecfg"));
        nodecfg.arg(command).arg("--kubeconfig").arg(&kubeconfig);
        match command {
            "diff" => drop(nodecfg.arg("--out").arg(&plan)),
            "sync" => drop(nodecfg.arg("--plan").arg(&plan)),
            _ => {}
        }
        if command != "status" {
            nodecfg.arg("--worktree").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/zero-config"));
        }
        let output = tokio::task::spawn_blocking(move || nodecfg.output()).await.unwrap().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(exit), "{command}: {stderr}");
    }

    let entries = wire.log.entries();
    let refused: Vec<String> = entries
        .iter()
        // This right is optional, and too strong for the roles.
        .filter(|entry| entry.status.is_some_and(|status| status == 403) && entry.request.resource != "nodes/proxy")
        .map(ToString::to_string)
        .collect();
    assert!(refused.is_empty(), "the roles do not allow: {refused:#?}");
    let used: BTreeSet<Grant> = entries
        .iter()
        .map(|entry| {
            let request = &entry.request;
            (request.verb.to_owned(), request.resource.clone(), request.namespace.clone())
        })
        .collect();
    // A Node is only read again if another client changed it between plan and patch.
    let seldom = ("get".to_owned(), "nodes".to_owned(), String::new());
    let unused: Vec<&Grant> = granted.difference(&used).filter(|grant| **grant != seldom).collect();
    assert!(unused.is_empty(), "the roles allow more than is used: {unused:?}, used: {used:?}");

    kubelets.stop().await;
}

/// Roles of agents, as created by `nodecfg install`.
fn agent_rules(agent: Agent, joins: bool) -> Vec<Rule> {
    let namespace = NamespaceName::new(nodecfg_contract::installation::NAMESPACE).unwrap();
    let objects = nodecfg_install::objects(&Installation {
        namespace,
        config_map_writers: Vec::new(),
        agent: Some(agent),
        joins,
        boot: Vec::new(),
    });
    rules_of(objects.into_iter().filter(|object| {
        matches!(object["kind"].as_str(), Some("Role" | "ClusterRole"))
            && object["metadata"]["labels"]["app.kubernetes.io/component"] == "agent"
    }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_need_every_right_and_no_more() {
    let pods = Agent::DaemonSet(DaemonSet {
        namespace: NamespaceName::new(nodecfg_contract::installation::AGENT_NAMESPACE).unwrap(),
        image: "agent".to_owned(),
        host: Host::default(),
    });
    every_request_of_an_agent(agent_rules(pods.clone(), false), Vec::new(), Joins::No).await;
    every_request_of_an_agent(agent_rules(pods, true), Vec::new(), Joins::WithTaint).await;
    // The rights that the Node authorizer grants to kubelets, as far as an agent with that identity needs them.
    let by_the_authorizer = [
        ("", "nodes", "get", None),
        ("", "nodes/status", "patch", None),
        ("", "events", "create", Some("default")),
        ("coordination.k8s.io", "leases", "get", Some("kube-node-lease")),
    ];
    let by_the_authorizer: Vec<Rule> = by_the_authorizer
        .into_iter()
        .map(|(group, resource, verb, namespace)| Rule {
            verbs: vec![verb.to_owned()],
            groups: vec![group.to_owned()],
            resources: vec![resource.to_owned()],
            namespace: namespace.map(str::to_owned),
            names: Vec::new(),
        })
        .collect();
    every_request_of_an_agent(agent_rules(Agent::Systemd, false), by_the_authorizer.clone(), Joins::No).await;
    every_request_of_an_agent(agent_rules(Agent::Systemd, true), by_the_authorizer, Joins::Booted).await;
}

/// How the node of an agent joins.
#[derive(Clone, Copy, PartialEq)]
enum Joins {
    No,
    /// It has booted with its configuration.
    Booted,
    /// It has the startup taint.
    WithTaint,
}

async fn every_request_of_an_agent(rules: Vec<Rule>, other_rules: Vec<Rule>, joins: Joins) {
    let granted: BTreeSet<Grant> = grants(&rules).union(&grants(&other_rules)).cloned().collect();
    assert_eq!(granted.len(), 9 + joins as usize, "{granted:?}");
    let user = User::with_rules("agent", rules.into_iter().chain(other_rules).collect());
    let api = Api::new(ApiOptions {
        profile: ServerProfile::V1_36,
        tokens: BTreeMap::from([(TOKEN.to_owned(), user)]),
        ..ApiOptions::default()
    });
    let create = |group: &str, resource: &str, namespace: &str, object: Value| {
        api.create(group, resource, namespace, object, "test").unwrap_or_else(|_| panic!("{resource}"));
    };
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"kubelet": ""}});
    create("apiextensions.k8s.io", "customresourcedefinitions", "", nodeconfig::definition());
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": nodecfg_contract::installation::NAMESPACE}});
    create("", "namespaces", "", namespace);
    create("", "configmaps", nodecfg_contract::installation::NAMESPACE, map);
    let taint = json!({"key": STARTUP_TAINT, "effect": STARTUP_TAINT_EFFECT});
    let spec = json!({"taints": [taint]});
    create("", "nodes", "", json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "spec": spec}));
    let source = ConfigSource::config_map(nodecfg_contract::installation::NAMESPACE, "a", "kubelet");
    create(
        "nodecfg.dev",
        "nodeconfigs",
        "",
        json!({"apiVersion": "nodecfg.dev/v1alpha1", "kind": "NodeConfig", "metadata": {"name": "n1"},
            "spec": {"configSource": source}}),
    );
    let wire = Wire::new();
    let serving = serve(wire.wrap(api.router()), Options::default()).await.unwrap();
    let home = tempfile::tempdir().unwrap();
    let kubeconfig = home.path().join("kubeconfig");
    Kubeconfig { server: serving.url(), ca_pem: serving.ca_pem().to_owned(), token: TOKEN.to_owned() }
        .save(&kubeconfig)
        .unwrap();
    let options = ConnectOptions { kubeconfig: Some(kubeconfig), context: None };
    let connection = connect(&options, &Environment::default()).await.unwrap();
    let node = NodeName::new("n1").unwrap();
    let client = AgentClient::new(connection.client, &connection.server, node, AgentClientOptions::default());

    let mut seen = pin!(client.follow());
    let wanted = seen.next().await.unwrap().unwrap().expect("its NodeConfig");
    assert!(client.node_config(Duration::from_secs(10)).await.unwrap().is_some());
    client.config_map(&wanted.spec.config_source.unwrap().config_map.unwrap()).await.unwrap();
    assert!(client.node_health().await.is_some());
    let ready = Condition {
        kind: READY.to_owned(),
        status: "True".to_owned(),
        reason: "Converged".to_owned(),
        last_transition_time: "2026-11-20T13:38:30Z".to_owned(),
        ..Condition::default()
    };
    let conditions = vec![ready];
    let status = NodeConfigStatus { config: Some(ConfigStatus::default()), conditions, ..wanted.status };
    client.report(&status).await.unwrap();
    let announcement = Announcement { reason: "KubeletConfigChanged", message: "m".to_owned(), warning: false };
    client.announce(&announcement, nodecfg_clock::now()).await;
    // The first object comes from a list, the next from a watch.
    assert!(seen.next().await.unwrap().unwrap().is_some());
    if joins != Joins::No {
        request_to_join(&client, joins).await;
    }

    let entries = wire.log.entries();
    let refused: Vec<String> = entries
        .iter()
        .filter(|entry| entry.status.is_some_and(|status| status == 403))
        .map(ToString::to_string)
        .collect();
    assert!(refused.is_empty(), "the agent's roles do not allow: {refused:#?}");
    let of = |request: &ApiRequest| (request.verb.to_owned(), request.resource.clone(), request.namespace.clone());
    let used: BTreeSet<Grant> = entries.iter().map(|entry| of(&entry.request)).collect();
    assert_eq!(used, granted);
}

/// Every request of a node that joins. Its NodeConfig exists, and its pointer does not.
async fn request_to_join(client: &AgentClient, joins: Joins) {
    let JoinAnswer::Node(Ok(node)) = client.join(&JoinRequest::ReadNode).await else { panic!("cannot read the Node") };
    let source = ConfigSource::config_map(nodecfg_contract::installation::NAMESPACE, "a", "kubelet");
    let spec = NodeConfigSpec { config_source: Some(source), self_assigned: true, ..NodeConfigSpec::default() };
    let create = JoinRequest::Create { node_uid: node.uid.clone(), spec: Box::new(spec) };
    assert_eq!(client.join(&create).await, JoinAnswer::Created(Ok(None)));
    if joins == Joins::WithTaint {
        client.join(&JoinRequest::ReadPointer("a".to_owned())).await;
        assert_eq!(client.join(&JoinRequest::RemoveTaint(node.uid)).await, JoinAnswer::TaintRemoved(Ok(())));
    }
}

/// A cluster with two nodes, and a repository for runs of the program as a user with restricted rules.
struct Workspace {
    embedded: Embedded,
    // Keep the servers alive: one for the user, one for the administrator.
    _serving: [Serving; 2],
    home: tempfile::TempDir,
}

/// Expected exit codes.
const OK: i32 = 0;
const CHANGES: i32 = 1;
const NOT_CONVERGED: i32 = 5;

/// A command and its expected exit code.
type Step = (&'static str, i32);

/// Prefix of commands that run as an administrator.
const AS_ADMIN: &str = "as-admin ";

/// No command: the lock of a sync that was killed.
const KILLED_SYNC: &str = "killed sync";

/// Commands of a cron job and its operators.
const CRON_STEPS: &[Step] = &[("diff", CHANGES), ("sync", OK), ("verify", OK), ("diff", OK)];
/// Commands of a pipeline that applies approved plans.
const SAVED_PLAN_STEPS: &[Step] =
    &[("diff --out plan.json", CHANGES), ("sync --plan plan.json", OK), ("verify", OK), ("diff", OK)];
/// Commands of a pipeline that only reads while another client rolls out.
const READER_STEPS: &[Step] = &[
    ("diff --out plan.json", CHANGES),
    // The nodes are not assigned yet, so verify waits and watches until the lock expires.
    (KILLED_SYNC, OK),
    ("verify --timeout 5s", NOT_CONVERGED),
    ("as-admin sync", OK),
    ("verify", OK),
    ("status", OK),
    ("diff --out plan.json", OK),
];

/// Prunes the ConfigMaps of an earlier rollout that no node uses anymore.
const PRUNER_STEPS: &[Step] =
    &[("as-admin sync", OK), ("as-admin reset --all --yes", OK), ("prune --keep 1 --yes", OK)];

/// Captures nodes by name and by pool.
const CAPTURE_STEPS: &[Step] = &[("capture general-1", OK), ("capture --pool general", OK)];

/// Result of one command.
#[derive(Debug)]
struct CommandResult {
    command: String,
    expected: i32,
    exit: Option<i32>,
    err: String,
}

impl Workspace {
    async fn with(profile: ServerProfile, rules: Vec<Rule>) -> Self {
        let options = EmbeddedOptions {
            profile,
            nodes: machines::Options { speed: 100.0, ..machines::Options::default() },
            agents: agents::Options {
                // A long real time, so that a busy machine makes no kubelet unhealthy.
                settings: Settings { health_timeout: Duration::from_secs(1000), ..Settings::default() },
                log: false,
                ..agents::Options::default()
            },
            images: 0,
            ..EmbeddedOptions::default()
        };
        let mut specs = nodes::generic(2, &[PoolName::new("general").unwrap()], profile.git_version()).unwrap();
        // No field of the local configuration differs from the repository, so no change needs a drained node.
        let local = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
        specs.iter_mut().for_each(|spec| spec.host.file = Some(local.to_owned()));
        let embedded = Embedded::start(options, specs).await.unwrap();
        let home = tempfile::tempdir().unwrap();
        let user = serve_as(&embedded, User::with_rules("user", rules), &home.path().join("kubeconfig")).await;
        let admin = serve_as(&embedded, User::admin("admin"), &home.path().join("kubeconfig-admin")).await;
        let workspace = Self { embedded, _serving: [user, admin], home };
        workspace.set_max_pods(31);
        workspace
    }

    /// Changes the configuration in the repository.
    fn set_max_pods(&self, pods: u32) {
        let pool = self.home.path().join("repository/pools/general");
        std::fs::create_dir_all(&pool).unwrap();
        let text = format!(
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nregistryPullQPS: {pods}\n\
             authentication: {{x509: {{clientCAFile: /etc/kubernetes/pki/ca.crt}}}}\n"
        );
        std::fs::write(pool.join("kubelet.yaml"), text).unwrap();
    }

    async fn run(&self, command: &str, expected: i32) -> CommandResult {
        let (words, kubeconfig) = match command.strip_prefix(AS_ADMIN) {
            Some(words) => (words, "kubeconfig-admin"),
            None => (command, "kubeconfig"),
        };
        let mut nodecfg = Command::new(env!("CARGO_BIN_EXE_nodecfg"));
        nodecfg.env_clear().current_dir(self.home.path()).args(words.split_whitespace());
        nodecfg.args(["--kubeconfig", kubeconfig]);
        if ["diff", "sync", "verify"].contains(&words.split(' ').next().unwrap_or_default()) {
            nodecfg.args(["--worktree", "repository"]);
        }
        let output = tokio::task::spawn_blocking(move || nodecfg.output()).await.unwrap().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        CommandResult { command: command.to_owned(), expected, exit: output.status.code(), err }
    }

    /// Leaves a lock that expires after a second.
    async fn leave_lock(&self) {
        let agents = self.embedded.api().profile() == ServerProfile::V1_36;
        let namespace = if agents { nodecfg_contract::installation::NAMESPACE } else { "kube-system" };
        let name = format!("nodecfg-{}", nodecfg_fleet::DEFAULT_FLEET);
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"holderIdentity": "killed", "leaseDurationSeconds": 1, "renewTime": "2026-01-01T00:00:00.000000Z"},
        });
        let path =
            format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}?fieldManager=killed&force=true");
        let request = http::Request::patch(path)
            .header("Content-Type", "application/apply-patch+yaml")
            .body(lease.to_string().into_bytes())
            .unwrap();
        self.embedded.api().client().request::<Value>(request).await.unwrap();
    }

    /// Runs these commands until one fails.
    async fn run_all(self, steps: &[Step]) -> Vec<CommandResult> {
        let mut results = Vec::new();
        // The second round finds an existing ConfigMap.
        for pods in [31, 32] {
            self.set_max_pods(pods);
            for (command, expected) in steps {
                if *command == KILLED_SYNC {
                    self.leave_lock().await;
                    continue;
                }
                results.push(self.run(command, *expected).await);
                if results.last().is_some_and(|result| result.exit != Some(result.expected)) {
                    self.embedded.stop(None).await;
                    return results;
                }
            }
        }
        self.embedded.stop(None).await;
        results
    }
}

/// Serves a cluster to one user, by a kubeconfig.
async fn serve_as(embedded: &Embedded, user: User, kubeconfig: &Path) -> Serving {
    let as_user = axum::middleware::map_request(move |mut request: axum::extract::Request| {
        request.extensions_mut().insert(user.clone());
        std::future::ready(request)
    });
    let router = embedded.wire().wrap(embedded.api().router().layer(as_user));
    let serving = serve(router, Options::default()).await.unwrap();
    embedded.save_kubeconfig(&serving, kubeconfig).unwrap();
    serving
}

/// All variants of the rules without one verb on one resource.
fn without_one(rules: &[Rule]) -> Vec<(String, String, Vec<Rule>)> {
    let mut all = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                let mut left = rules.to_vec();
                let mut others = rule.clone();
                others.resources.retain(|other| other != resource);
                let mut same = Rule { resources: vec![resource.clone()], ..rule.clone() };
                same.verbs.retain(|other| other != verb);
                left.splice(index..=index, [others, same]);
                all.push((verb.clone(), resource.clone(), left));
            }
        }
    }
    all
}

async fn check_every_right_is_needed(profile: ServerProfile, objects: Vec<Value>, steps: &[Step], rights: usize) {
    let rules = rules(objects);
    let workspace = Workspace::with(profile, rules.clone()).await;
    for result in workspace.run_all(steps).await {
        assert_eq!(result.exit, Some(result.expected), "{result:?}");
        // The sync of the administrator warns that it takes over the lock of the killed one.
        let warns = result.err.contains("warn") || result.err.contains("WARN");
        assert!(!warns || result.command.starts_with(AS_ADMIN), "{result:?}");
        assert!(!result.err.to_lowercase().contains("forbidden"), "{result:?}");
    }
    let every = without_one(&rules);
    assert_eq!(every.len(), rights, "{every:?}");
    let mut unnoticed = Vec::new();
    for (verb, resource, left) in every {
        let results = Workspace::with(profile, left).await.run_all(steps).await;
        // A message or warning names the missing verb and resource.
        let reported = results.iter().any(|result| {
            let named = result.err.contains(&verb) && result.err.contains(&resource);
            named && (result.exit != Some(result.expected) || result.err.contains("WARN"))
        });
        let last = results.last().unwrap();
        eprintln!("without {verb} {resource}: {} ends with {:?}: {}", last.command, last.exit, last.err.trim());
        if !reported {
            unnoticed.push(format!("{verb} {resource}: {results:#?}"));
        }
    }
    assert!(unnoticed.is_empty(), "no command reports that these rights are missing: {}", unnoticed.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cron_job_needs_every_right_with_nodes() {
    check_every_right_is_needed(ServerProfile::V1_21, nodecfg_install::reconciler_of_nodes(), CRON_STEPS, 11).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cron_job_needs_every_right_with_node_configs() {
    check_every_right_is_needed(ServerProfile::V1_36, nodecfg_install::reconciler(), CRON_STEPS, 15).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn saved_plans_need_one_more_right_with_nodes() {
    let objects = [nodecfg_install::reconciler_of_nodes(), nodecfg_install::saved_plans()].concat();
    check_every_right_is_needed(ServerProfile::V1_21, objects, SAVED_PLAN_STEPS, 12).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn saved_plans_need_one_more_right_with_node_configs() {
    let objects = [nodecfg_install::reconciler(), nodecfg_install::saved_plans()].concat();
    check_every_right_is_needed(ServerProfile::V1_36, objects, SAVED_PLAN_STEPS, 16).await;
}

/// Each right of the component is checked before the first write, and a missing one is named.
#[tokio::test]
async fn drain_checks_every_right_of_its_component() {
    let rules = rules(nodecfg_install::drainer());
    let check = async |rules: Vec<Rule>| {
        let api = Api::new(ApiOptions { profile: ServerProfile::V1_36, ..ApiOptions::default() });
        let client = api.client_as(User::with_rules("user", rules));
        let reader = ClusterReader::new(client, "https://sandbox", ReaderOptions::default());
        reader.check_all_allowed(Needs { drain: true, ..Needs::default() }).await
    };
    assert_eq!(check(rules.clone()).await, Ok(()));
    let every = without_one(&rules);
    assert_eq!(every.len(), 8, "{every:?}");
    for (verb, resource, left) in every {
        let error = check(left).await.unwrap_err();
        let named = error.to_string();
        assert!(named.contains(&format!("may not {verb} {resource}")), "{verb} {resource}: {named}");
    }
    let error = check(Vec::new()).await.unwrap_err();
    assert_eq!(error.help(), "bind the user to the ClusterRole nodecfg-drainer of deploy/drainer");
}

/// The forecast of a `diff` needs each right of its component. Scenarios show what a `diff` reports without them.
#[tokio::test]
async fn forecast_needs_every_right_of_its_component() {
    let rules = rules(nodecfg_install::forecaster());
    let read = async |rules: Vec<Rule>| {
        let api = Api::new(ApiOptions { profile: ServerProfile::V1_36, ..ApiOptions::default() });
        let client = api.client_as(User::with_rules("user", rules));
        let reader = ClusterReader::new(client, "https://sandbox", ReaderOptions::default());
        reader.list_pod_budgets().await?;
        reader.list_pods_on(&NodeName::new("n1").unwrap()).await?;
        reader.list_pods(|_| Some(())).await.map(drop)
    };
    assert_eq!(read(rules.clone()).await, Ok(()));
    let every = without_one(&rules);
    assert_eq!(every.len(), 2, "{every:?}");
    for (verb, resource, left) in every {
        let named = read(left).await.unwrap_err().to_string();
        assert!(named.contains(&format!("may not {verb} {resource}")), "{verb} {resource}: {named}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reader_needs_every_right_with_nodes() {
    check_every_right_is_needed(ServerProfile::V1_21, nodecfg_install::reader_of_nodes(), READER_STEPS, 6).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reader_needs_every_right_with_node_configs() {
    check_every_right_is_needed(ServerProfile::V1_36, nodecfg_install::reader(), READER_STEPS, 8).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pruner_needs_every_right_with_nodes() {
    check_every_right_is_needed(ServerProfile::V1_21, nodecfg_install::pruner_of_nodes(), PRUNER_STEPS, 6).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pruner_needs_every_right_with_node_configs() {
    check_every_right_is_needed(ServerProfile::V1_36, nodecfg_install::pruner(), PRUNER_STEPS, 7).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn capture_needs_every_right() {
    check_every_right_is_needed(ServerProfile::V1_36, nodecfg_install::capture(), CAPTURE_STEPS, 3).await;
}

#[test]
fn reader_only_reads() {
    for granted in
        [nodecfg_install::reader(), nodecfg_install::reader_of_nodes()].map(|objects| grants(&rules(objects)))
    {
        assert!(granted.iter().all(|(verb, ..)| ["get", "list", "watch"].contains(&verb.as_str())), "{granted:?}");
    }
}

/// A missing right to move pool pointers is found before the first write, and names the component.
#[tokio::test]
async fn pool_pointers_check_the_right_of_their_component() {
    let base = || rules([nodecfg_install::reconciler(), nodecfg_install::pool_pointers()].concat());
    let check = async |rules: Vec<Rule>| {
        let api = Api::new(ApiOptions { profile: ServerProfile::V1_36, ..ApiOptions::default() });
        let client = api.client_as(User::with_rules("user", rules));
        let reader = ClusterReader::new(client, "https://sandbox", ReaderOptions::default());
        reader.check_all_allowed(Needs { pointers_in: Some("nodecfg-system"), ..Needs::default() }).await
    };
    assert_eq!(check(base()).await, Ok(()));
    let error = check(rules(nodecfg_install::reconciler())).await.unwrap_err();
    assert!(error.to_string().contains("may not update configmaps"), "{error}");
    assert_eq!(error.help(), "bind the user to the Role nodecfg-pool-pointers of deploy/pool-pointers");
}
