//! Tests of unmodified kubectl against both server profiles of the sandbox. Prints a note and passes without kubectl
//! on the PATH.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Once, mpsc};
use std::time::Duration;

use nodecfg_contract::names::NodeName;
use nodecfg_sandbox::api::{Api, ApiOptions, ServerProfile, User};
use nodecfg_sandbox::server::kubeconfig::Kubeconfig;
use nodecfg_sandbox::server::serve::{Options, Serving, serve};
use nodecfg_sandbox::server::wire::Wire;
use nodecfg_sandbox::workloads::{Application, Budget, DaemonSet, PodFault, WorkloadSpec};
use nodecfg_sandbox::{Embedded, EmbeddedOptions, machines, nodes};
use serde_json::{Value, json};

const TOKEN: &str = "sandbox-token";
/// How long to wait for a line of kubectl on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);

struct Sandbox {
    profile: ServerProfile,
    // Dropped in this order, because the server and the workloads run on the runtime.
    _serving: Serving,
    _embedded: Option<Embedded>,
    _runtime: tokio::runtime::Runtime,
    home: tempfile::TempDir,
    wire: Wire,
}

/// Result of one kubectl run.
struct Run {
    ok: bool,
    out: String,
    err: String,
}

impl Run {
    #[track_caller]
    fn succeeds(self) -> String {
        assert!(self.ok, "kubectl failed\n--- stdout\n{}--- stderr\n{}", self.out, self.err);
        self.out
    }

    #[track_caller]
    fn fails(self) -> String {
        assert!(!self.ok, "kubectl succeeded\n--- stdout\n{}", self.out);
        self.err
    }
}

impl Sandbox {
    fn start(profile: ServerProfile) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let wire = Wire::new();
        let serving = runtime.block_on(async {
            let api = Api::new(ApiOptions {
                profile,
                tokens: [(TOKEN.to_owned(), User::admin("kubernetes-admin"))].into(),
                ..ApiOptions::default()
            });
            serve(wire.wrap(api.router()), Options::default()).await.unwrap()
        });
        let home = tempfile::tempdir().unwrap();
        let kubeconfig =
            Kubeconfig { server: serving.url(), ca_pem: serving.ca_pem().to_owned(), token: TOKEN.to_owned() };
        kubeconfig.save(&home.path().join("config")).unwrap();
        Self { profile, _serving: serving, _embedded: None, _runtime: runtime, home, wire }
    }

    /// Three nodes with pods.
    fn with_workloads(profile: ServerProfile, workloads: WorkloadSpec) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let home = tempfile::tempdir().unwrap();
        let (embedded, serving) = runtime.block_on(async {
            let options = EmbeddedOptions {
                profile,
                installed: false,
                nodes: machines::Options { speed: 100.0, ..machines::Options::default() },
                images: 0,
                workloads: Some(workloads),
                ..EmbeddedOptions::default()
            };
            let nodes = nodes::generic(3, &[], profile.git_version()).unwrap();
            let embedded = Embedded::start(options, nodes).await.unwrap();
            let serving = embedded.serve(None).await.unwrap();
            embedded.save_kubeconfig(&serving, &home.path().join("config")).unwrap();
            (embedded, serving)
        });
        let wire = embedded.wire().clone();
        Self { profile, _serving: serving, _embedded: Some(embedded), _runtime: runtime, home, wire }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        command
            .args(arguments)
            .env("KUBECONFIG", self.home.path().join("config"))
            // A separate cache, because another sandbox may have used the same port.
            .env("HOME", self.home.path())
            .env_remove("KUBECTL_EXTERNAL_DIFF")
            .stdin(Stdio::null());
        command
    }

    /// Runs kubectl until it exits.
    fn run(&self, arguments: &[&str]) -> Run {
        self.run_with_input(arguments, "")
    }

    /// Runs kubectl with this standard input until it exits.
    fn run_with_input(&self, arguments: &[&str], input: &str) -> Run {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        Run {
            ok: output.status.success(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    #[track_caller]
    fn ok(&self, arguments: &[&str]) -> String {
        let shown = arguments.join(" ");
        let run = self.run(arguments);
        assert!(run.ok, "{:?}: kubectl {shown}\n--- stdout\n{}--- stderr\n{}", self.profile, run.out, run.err);
        run.out
    }

    #[track_caller]
    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[arguments, &["-o", "json"]].concat())).expect("is JSON")
    }

    #[track_caller]
    fn create(&self, object: &Value) {
        self.run_with_input(&["create", "-f", "-"], &object.to_string()).succeeds();
    }

    /// Starts kubectl without waiting, and sends its lines through the channel.
    fn follow(&self, arguments: &[&str]) -> Follow {
        let mut child = self.command(arguments).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let (lines, received) = mpsc::channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if lines.send(line).is_err() {
                    return;
                }
            }
        });
        Follow { child, lines: received }
    }
}

struct Follow {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Follow {
    #[track_caller]
    fn line(&self) -> String {
        self.lines.recv_timeout(TIMEOUT).expect("a line")
    }

    #[track_caller]
    fn assert_success(mut self) {
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a test against both server profiles, if kubectl is installed.
fn on_both_profiles(test: impl Fn(&Sandbox)) {
    with_kubectl(|profile| test(&Sandbox::start(profile)));
}

/// Runs a test for both server profiles, if kubectl is installed.
fn with_kubectl(test: impl Fn(ServerProfile)) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let kubectl: Option<PathBuf> =
        std::env::split_paths(&path).map(|folder| folder.join("kubectl")).find(|file| file.is_file());
    if kubectl.is_none() {
        static SKIPPED: Once = Once::new();
        // Written to standard error directly, because the harness hides the output of passing tests.
        return SKIPPED.call_once(|| drop(writeln!(std::io::stderr(), "skipped: no kubectl on the PATH")));
    }
    for profile in [ServerProfile::V1_21, ServerProfile::V1_36] {
        test(profile);
    }
}

fn node(name: &str, pool: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"pool": pool}},
        "status": {
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "capacity": {"cpu": "4", "memory": "8Gi"}, "allocatable": {"cpu": "4", "memory": "8Gi"},
            "nodeInfo": {"kubeletVersion": "v1.21.1", "osImage": "Linux", "kernelVersion": "6.1", "containerRuntimeVersion":
                "containerd://1.6", "architecture": "amd64", "operatingSystem": "linux", "machineID": "", "systemUUID": "",
                "bootID": "", "kubeProxyVersion": ""}
        }
    })
}

fn config_map(name: &str, namespace: &str) -> Value {
    let metadata = json!({"name": name, "namespace": namespace});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"kubelet": "x"}})
}

/// Columns of a line.
fn columns(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
fn gets_in_every_format() {
    on_both_profiles(|sandbox| {
        for (name, pool) in [("n1", "a"), ("n2", "a"), ("n3", "b")] {
            sandbox.create(&node(name, pool));
        }
        let table = sandbox.ok(&["get", "nodes"]);
        let lines: Vec<_> = table.lines().map(columns).collect();
        assert_eq!(lines[0], ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]);
        assert_eq!((lines.len(), lines[1][0], lines[1][1], lines[1][4]), (4, "n1", "Ready", "v1.21.1"));
        let wide = sandbox.ok(&["get", "no", "n1", "-o", "wide"]);
        assert!(
            wide.contains("INTERNAL-IP") && wide.contains("10.0.0.1") && wide.contains("containerd://1.6"),
            "{wide}"
        );
        assert_eq!(sandbox.ok(&["get", "nodes", "-o", "name"]), "node/n1\nnode/n2\nnode/n3\n");
        assert_eq!(sandbox.ok(&["get", "nodes", "-l", "pool=b", "-o", "name"]), "node/n3\n");
        assert_eq!(sandbox.ok(&["get", "nodes", "-l", "pool in (b,c)", "--no-headers"]).lines().count(), 1);
        assert_eq!(sandbox.ok(&["get", "nodes", "--chunk-size=1", "--no-headers"]).lines().count(), 3);
        assert_eq!(sandbox.ok(&["get", "node", "n1", "-o", "jsonpath={.metadata.labels.pool}"]), "a");
        assert!(sandbox.ok(&["get", "nodes", "--show-labels"]).contains("pool=a"));
        assert_eq!(columns(&sandbox.ok(&["get", "nodes", "-L", "pool", "--no-headers"]))[5], "a");
        let yaml = sandbox.ok(&["get", "node", "n1", "-o", "yaml"]);
        assert!(yaml.starts_with("apiVersion: v1\n") && yaml.contains("kind: Node"), "{yaml}");
        assert_eq!(sandbox.json(&["get", "nodes"])["items"].as_array().unwrap().len(), 3);
        assert_eq!(sandbox.json(&["get", "node/n2"])["kind"], "Node");
        let missing = sandbox.run(&["get", "node", "nowhere"]).fails();
        assert!(missing.contains(r#"nodes "nowhere" not found"#), "{missing}");
        assert!(sandbox.ok(&["get", "namespaces"]).contains("kube-system"));
        let custom = sandbox.ok(&["get", "nodes", "--sort-by=.metadata.name", "-o", "custom-columns=N:.metadata.name"]);
        assert_eq!(custom, "N\nn1\nn2\nn3\n");
        assert!(sandbox.ok(&["get", "nodes,namespaces"]).contains("namespace/default"));
    });
}

#[test]
fn watch_prints_changes() {
    on_both_profiles(|sandbox| {
        sandbox.create(&node("n1", "a"));
        let watch = sandbox.follow(&["get", "nodes", "-w"]);
        assert_eq!(columns(&watch.line())[0], "NAME");
        assert_eq!(columns(&watch.line())[..2], ["n1", "Ready"]);
        sandbox.create(&node("n2", "a"));
        assert_eq!(columns(&watch.line())[..2], ["n2", "Ready"]);
        sandbox.ok(&["patch", "node", "n1", "-p", r#"{"spec":{"unschedulable":true}}"#]);
        let mut line = watch.line();
        // On a real cluster, the taint manager follows. The next event is about n1 in either case.
        while columns(&line)[1] == "Ready" {
            line = watch.line();
        }
        assert_eq!(columns(&line)[..2], ["n1", "Ready,SchedulingDisabled"]);
        let named = sandbox.follow(&["get", "node", "n2", "-o", "name", "--watch-only"]);
        while sandbox.wire.log.count("watch", "nodes") < 2 {
            std::thread::sleep(Duration::from_millis(20));
        }
        sandbox.ok(&["label", "node", "n2", "x=y"]);
        assert_eq!(named.line(), "node/n2");
    });
}

#[test]
fn describes_objects() {
    on_both_profiles(|sandbox| {
        sandbox.create(&node("n1", "a"));
        sandbox.create(&json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "n1.1", "namespace": "default"}, "type": "Normal",
            "reason": "NodeConfigAssigned", "message": "assigned x", "source": {"component": "nodecfg"}, "count": 1,
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z",
            "involvedObject": {"kind": "Node", "name": "n1", "uid": "n1", "apiVersion": "v1"}
        }));
        let text = sandbox.ok(&["describe", "node", "n1"]);
        assert!(
            text.contains("pool=a") && text.contains("KubeletReady") && text.contains("NodeConfigAssigned"),
            "{text}"
        );
        sandbox.create(&config_map("c", "default"));
        assert!(sandbox.ok(&["describe", "configmap", "c"]).contains("kubelet:"));
        let events = sandbox.ok(&["get", "events", "--field-selector", "involvedObject.name=n1"]);
        assert!(events.contains("assigned x") && events.contains("node/n1"), "{events}");
        assert!(sandbox.ok(&["events", "--for", "node/n1"]).contains("assigned x"));
    });
}

#[test]
fn creates_and_deletes() {
    on_both_profiles(|sandbox| {
        let create = |object: &Value, more: &[&str]| {
            sandbox.run_with_input(&[&["create", "-f", "-"], more].concat(), &object.to_string())
        };
        sandbox.create(&config_map("c", "kube-system"));
        assert_eq!(sandbox.json(&["get", "cm", "c", "-n", "kube-system"])["data"]["kubelet"], "x");
        assert_eq!(columns(&sandbox.ok(&["get", "cm", "-A", "--no-headers"]))[..3], ["kube-system", "c", "1"]);
        let again = create(&config_map("c", "kube-system"), &[]).fails();
        assert!(again.contains("already exists"), "{again}");
        let dry = create(&config_map("d", "default"), &["--dry-run=server"]).succeeds();
        assert_eq!(dry, "configmap/d created (server dry run)\n");
        sandbox.run(&["get", "cm", "d"]).fails();
        let team = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
        assert_eq!(create(&team, &[]).succeeds(), "namespace/team created\n");
        sandbox.create(&config_map("u", "default"));
        let immutable = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "i"}, "immutable": true, "data": {"a": "1"}
        });
        sandbox.create(&immutable);
        let refused = sandbox.run(&["patch", "cm", "i", "-p", r#"{"data":{"a":"2"}}"#]).fails();
        assert!(refused.contains("immutable"), "{refused}");
        // Newer versions of kubectl also print the namespace.
        let deleted = sandbox.ok(&["delete", "configmap", "u", "i"]);
        assert!(
            deleted.contains("configmap \"u\" deleted") && deleted.contains("configmap \"i\" deleted"),
            "{deleted}"
        );
        sandbox.run(&["get", "cm", "u"]).fails();
        sandbox.ok(&["delete", "cm", "nothing", "--ignore-not-found"]);
        sandbox.create(&config_map("x", "default"));
        sandbox.ok(&["delete", "cm", "--all"]);
        assert_eq!(sandbox.ok(&["get", "cm", "-o", "name"]), "");
    });
}

#[test]
fn patches_with_every_type() {
    on_both_profiles(|sandbox| {
        sandbox.create(&node("n1", "a"));
        sandbox.ok(&["patch", "node", "n1", "--type=merge", "-p", r#"{"metadata":{"labels":{"merge":"1"}}}"#]);
        sandbox.ok(&[
            "patch",
            "node",
            "n1",
            "--type=json",
            "-p",
            r#"[{"op":"add","path":"/metadata/labels/json","value":"1"}]"#,
        ]);
        sandbox.ok(&["patch", "node", "n1", "-p", r#"{"metadata":{"labels":{"strategic":"1"}}}"#]);
        let labels = sandbox.json(&["get", "node", "n1"])["metadata"]["labels"].clone();
        assert_eq!(labels, json!({"pool": "a", "merge": "1", "json": "1", "strategic": "1"}));
        let test = r#"[{"op":"test","path":"/metadata/labels/json","value":"2"}]"#;
        sandbox.run(&["patch", "node", "n1", "--type=json", "-p", test]).fails();
        let strategic = r#"{"status":{"conditions":[{"type":"Extra","status":"True"}]}}"#;
        sandbox.ok(&["patch", "node", "n1", "--subresource=status", "-p", strategic]);
        let conditions = sandbox.json(&["get", "node", "n1"])["status"]["conditions"].clone();
        assert_eq!(conditions.as_array().unwrap().len(), 2, "merged by type: {conditions}");
        let source = r#"{"spec":{"configSource":{"configMap":{"name":"c","namespace":"kube-system","kubeletConfigKey":"kubelet"}}}}"#;
        sandbox.ok(&["patch", "node", "n1", "--type=merge", "-p", source]);
        let kept = sandbox.json(&["get", "node", "n1"])["spec"]["configSource"].is_object();
        assert_eq!(kept, sandbox.profile == ServerProfile::V1_21);
    });
}

#[test]
fn labels_annotates_cordons_and_taints() {
    on_both_profiles(|sandbox| {
        sandbox.create(&node("n1", "a"));
        assert_eq!(sandbox.ok(&["label", "node", "n1", "tier=gold"]), "node/n1 labeled\n");
        sandbox.run(&["label", "node", "n1", "tier=silver"]).fails();
        sandbox.ok(&["label", "node", "n1", "tier=silver", "--overwrite"]);
        sandbox.ok(&["label", "node", "n1", "pool-"]);
        assert_eq!(sandbox.json(&["get", "node", "n1"])["metadata"]["labels"], json!({"tier": "silver"}));
        assert!(sandbox.ok(&["annotate", "nodes", "--all", "note=x"]).starts_with("node/n1 annotate"));
        assert_eq!(sandbox.json(&["get", "node", "n1"])["metadata"]["annotations"]["note"], "x");
        sandbox.ok(&["cordon", "n1"]);
        assert_eq!(columns(&sandbox.ok(&["get", "node", "n1", "--no-headers"]))[1], "Ready,SchedulingDisabled");
        sandbox.ok(&["uncordon", "n1"]);
        sandbox.ok(&["taint", "node", "n1", "k=v:NoSchedule"]);
        assert!(sandbox.json(&["get", "node", "n1"])["spec"]["taints"].to_string().contains(r#""key":"k""#));
    });
}

#[test]
fn waits_for_conditions() {
    on_both_profiles(|sandbox| {
        let mut unready = node("n1", "a");
        unready["status"]["conditions"][0]["status"] = "False".into();
        sandbox.create(&unready);
        sandbox.run(&["wait", "node/n1", "--for=condition=Ready", "--timeout=1s"]).fails();
        let ready = sandbox.follow(&["wait", "node/n1", "--for=condition=Ready", "--timeout=120s"]);
        let value = sandbox.follow(&["wait", "node/n1", "--for=jsonpath={.metadata.labels.x}=y", "--timeout=120s"]);
        let deleted = sandbox.follow(&["wait", "node/n1", "--for=delete", "--timeout=120s"]);
        let status = r#"{"status":{"conditions":[{"type":"Ready","status":"True"}]}}"#;
        sandbox.ok(&["patch", "node", "n1", "--subresource=status", "-p", status]);
        assert_eq!(ready.line(), "node/n1 condition met");
        sandbox.ok(&["label", "node", "n1", "x=y"]);
        assert_eq!(value.line(), "node/n1 condition met");
        sandbox.ok(&["delete", "node", "n1"]);
        ready.assert_success();
        value.assert_success();
        deleted.assert_success();
    });
}

#[test]
fn applies_client_side() {
    on_both_profiles(|sandbox| {
        let map = |data: Value| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}).to_string()
        };
        let apply = |input: &str| sandbox.run_with_input(&["apply", "-f", "-"], input).succeeds();
        assert_eq!(apply(&map(json!({"a": "1", "b": "1"}))), "configmap/c created\n");
        assert_eq!(apply(&map(json!({"a": "1", "b": "1"}))), "configmap/c unchanged\n");
        assert_eq!(apply(&map(json!({"a": "2"}))), "configmap/c configured\n");
        assert_eq!(sandbox.json(&["get", "cm", "c"])["data"], json!({"a": "2"}));
        let diff = sandbox.run_with_input(&["diff", "-f", "-"], &map(json!({"a": "3"})));
        assert!(!diff.ok && diff.out.contains("+  a: \"3\""), "{}{}", diff.out, diff.err);
        assert_eq!(sandbox.json(&["get", "cm", "c"])["data"], json!({"a": "2"}), "diff changed something");
        sandbox.run_with_input(&["diff", "-f", "-"], &map(json!({"a": "2"}))).succeeds();
        // The conditions of a Node merge by type, which kubectl reads from the schema or has built in.
        assert_eq!(apply(&node("n1", "a").to_string()), "node/n1 created\n");
        assert_eq!(apply(&node("n1", "b").to_string()), "node/n1 configured\n");
        assert_eq!(sandbox.json(&["get", "node", "n1"])["metadata"]["labels"]["pool"], "b");
        let replaced = sandbox.run_with_input(&["replace", "-f", "-"], &map(json!({"z": "1"}))).succeeds();
        assert_eq!(replaced, "configmap/c replaced\n");
    });
}

#[test]
fn applies_server_side() {
    on_both_profiles(|sandbox| {
        let map = |value: &str| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": value}})
                .to_string()
        };
        let apply = |manager: &str, value: &str, more: &[&str]| {
            let manager = format!("--field-manager={manager}");
            sandbox.run_with_input(&[&["apply", "--server-side", &manager, "-f", "-"], more].concat(), &map(value))
        };
        assert_eq!(apply("one", "1", &[]).succeeds(), "configmap/c serverside-applied\n");
        let conflict = apply("two", "2", &[]).fails();
        assert!(conflict.contains("conflict with \"one\""), "{conflict}");
        apply("two", "2", &["--force-conflicts"]).succeeds();
        apply("two", "3", &["--dry-run=server"]).succeeds();
        let object = sandbox.json(&["get", "cm", "c", "--show-managed-fields"]);
        assert_eq!(object["data"]["a"], "2");
        let managers: Vec<_> = object["metadata"]["managedFields"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["manager"].clone())
            .collect();
        assert!(managers.contains(&"two".into()), "{managers:?}");
    });
}

#[test]
fn reads_discovery_and_openapi() {
    on_both_profiles(|sandbox| {
        let resources = sandbox.ok(&["api-resources"]);
        for row in [
            "nodes no v1 false Node",
            "configmaps cm v1 true ConfigMap",
            "leases coordination.k8s.io/v1 true Lease",
            "customresourcedefinitions crd,crds apiextensions.k8s.io/v1 false CustomResourceDefinition",
        ] {
            let found = resources.lines().any(|line| columns(line) == columns(row));
            assert!(found, "{row}\n{resources}");
        }
        let namespaced = sandbox.ok(&["api-resources", "--namespaced=true", "--verbs=list", "-o", "name"]);
        assert!(namespaced.contains("configmaps") && !namespaced.contains("nodes"), "{namespaced}");
        let versions = sandbox.ok(&["api-versions"]);
        assert!(versions.lines().any(|line| line == "v1") && versions.contains("coordination.k8s.io/v1"), "{versions}");
        let version = sandbox.json(&["version"]);
        let minor = if sandbox.profile == ServerProfile::V1_21 { "21" } else { "36" };
        assert_eq!(version["serverVersion"]["minor"], minor);

        assert_eq!(sandbox.ok(&["get", "--raw", "/healthz"]).trim(), "ok");
    });
}

#[test]
fn handles_custom_resources() {
    on_both_profiles(|sandbox| {
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.dev"},
            "spec": {
                "group": "example.dev", "scope": "Namespaced",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList",
                    "shortNames": ["wg"]},
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                        "spec": {"type": "object", "description": "What is wanted.", "required": ["size"],
                            "properties": {"size": {"type": "integer", "description": "How big."}}},
                        "status": {"type": "object", "properties": {"ready": {"type": "string"}}}}}},
                    "additionalPrinterColumns": [
                        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                        {"name": "Ready", "type": "string", "jsonPath": ".status.ready"},
                        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]
                }]
            }
        });
        assert!(
            sandbox.run_with_input(&["apply", "-f", "-"], &definition.to_string()).succeeds().ends_with("created\n")
        );
        sandbox.ok(&["wait", "crd/widgets.example.dev", "--for=condition=Established", "--timeout=120s"]);
        assert!(sandbox.ok(&["get", "crd"]).contains("CREATED AT"));
        let widget = |size: Value| {
            json!({"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": size}})
                .to_string()
        };
        let apply = |input: &str| sandbox.run_with_input(&["apply", "-f", "-"], input);
        assert_eq!(apply(&widget(json!(1))).succeeds(), "widget.example.dev/w created\n");
        assert_eq!(apply(&widget(json!(2))).succeeds(), "widget.example.dev/w configured\n");
        apply(&widget(json!("big"))).fails();
        sandbox.ok(&[
            "patch",
            "widget",
            "w",
            "--type=merge",
            "--subresource=status",
            "-p",
            r#"{"status":{"ready":"yes"}}"#,
        ]);
        let table = sandbox.ok(&["get", "wg"]);
        let lines: Vec<_> = table.lines().map(columns).collect();
        assert_eq!(lines[0], ["NAME", "SIZE", "READY", "AGE"]);
        assert_eq!(lines[1][..3], ["w", "2", "yes"]);
        assert!(sandbox.ok(&["explain", "widget.spec"]).contains("How big."));
        let server_side =
            sandbox.run_with_input(&["apply", "--server-side", "--force-conflicts", "-f", "-"], &widget(json!(3)));
        server_side.succeeds();
        assert_eq!(sandbox.json(&["get", "widget", "w"])["spec"]["size"], 3);
        assert!(sandbox.ok(&["api-resources", "--api-group=example.dev"]).contains("Widget"));
        sandbox.ok(&["delete", "widget", "w"]);
        sandbox.ok(&["delete", "crd", "widgets.example.dev"]);
        sandbox.run(&["get", "widgets"]).fails();
    });
}

/// An application of four pods and a DaemonSet, with more pods on a node.
fn workloads(node: &str, faults: &[PodFault]) -> WorkloadSpec {
    let web = Application::new("shop", "web", 6).with_budget(Budget::MaxUnavailable("1".to_owned()));
    let daemon = DaemonSet { name: "proxy".to_owned(), tolerates_all: true, exclusive_cpus: false };
    let spec = WorkloadSpec { applications: vec![web], daemon_sets: vec![daemon], faults: Vec::new() };
    let node = NodeName::new(node).unwrap();
    faults.iter().fold(spec, |spec, fault| spec.with_fault(&node, *fault))
}

#[test]
fn prints_pods_and_what_belongs_to_them() {
    with_kubectl(|profile| {
        let sandbox = Sandbox::with_workloads(profile, workloads("node-1", &[PodFault::StuckVolume]));
        let pods = sandbox.ok(&["get", "pods", "-n", "shop"]);
        let lines: Vec<_> = pods.lines().collect();
        assert_eq!((columns(lines[0]), lines.len()), (vec!["NAME", "READY", "STATUS", "RESTARTS", "AGE"], 7));
        assert_eq!(columns(lines[1])[1..4], ["1/1", "Running", "0"]);
        let wide = sandbox.ok(&["get", "po", "-A", "-o", "wide", "--field-selector", "spec.nodeName=node-2"]);
        let lines: Vec<_> = wide.lines().collect();
        assert!(lines[0].contains("NODE") && lines[1..].iter().all(|line| columns(line)[7] == "node-2"), "{wide}");
        let described = sandbox.ok(&["describe", "pods", "-n", "shop"]);
        assert!(
            described.contains("Controlled By:  ReplicaSet/web") && described.contains("QoS Class:"),
            "{described}"
        );
        let node = sandbox.ok(&["describe", "node", "node-1"]);
        assert!(node.contains("Non-terminated Pods:          (4 in total)"), "{node}");
    });
}

#[test]
fn drain_moves_pods_to_other_nodes() {
    with_kubectl(|profile| {
        let sandbox = Sandbox::with_workloads(profile, workloads("node-1", &[PodFault::EmptyDir, PodFault::Mirror]));
        let refused = sandbox.run(&["drain", "node-1", "--ignore-daemonsets"]).fails();
        assert!(refused.contains("cannot delete Pods with local storage"), "{refused}");
        let options = ["--ignore-daemonsets", "--delete-emptydir-data", "--timeout=110s"];
        let drained = sandbox.ok(&[&["drain", "node-1"][..], &options].concat());
        assert!(
            drained.contains("pod/empty-dir-node-1 evicted") && drained.ends_with("node/node-1 drained\n"),
            "{drained}"
        );
        let left = sandbox.json(&["get", "pods", "-A", "--field-selector", "spec.nodeName=node-1"]);
        let mut left: Vec<&str> =
            left["items"].as_array().unwrap().iter().map(|pod| pod["metadata"]["name"].as_str().unwrap()).collect();
        left.sort_unstable();
        assert_eq!((left.len(), left[0], &left[1][..6]), (2, "mirror-node-1", "proxy-"));
        sandbox.ok(&["wait", "pods", "-n", "shop", "--all", "--for=condition=Ready", "--timeout=60s"]);
        let moved = sandbox.json(&["get", "pods", "-n", "shop"]);
        let nodes = moved["items"].as_array().unwrap().iter().map(|pod| pod["spec"]["nodeName"].as_str().unwrap());
        assert_eq!((nodes.clone().count(), nodes.filter(|node| *node == "node-1").count()), (6, 0));
    });
}

#[test]
fn drain_reports_a_budget_that_allows_nothing() {
    with_kubectl(|profile| {
        for (fault, why) in [
            (PodFault::BlockedBudget, "Cannot evict pod as it would violate the pod's disruption budget."),
            (PodFault::TwoBudgets, "This pod has more than one PodDisruptionBudget"),
        ] {
            let sandbox = Sandbox::with_workloads(profile, workloads("node-1", &[fault]));
            let failed = sandbox.run(&["drain", "node-1", "--ignore-daemonsets", "--timeout=4s"]).fails();
            assert!(failed.contains(why), "{failed}");
        }
    });
}
