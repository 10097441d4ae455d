//! Tests of `install`: output, rejected arguments and requests.

use std::io::Write as _;
use std::sync::{Arc, Mutex};

use axum::Json;
use axum::http::{Method, StatusCode, Uri};
use serde_json::{Value, json};

use crate::cli::program::{Run, run, shows};

#[test]
fn dry_run_prints_objects_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = run(folder.path(), "install --agent daemonset --image agent:1 --namespace fleet --dry-run");
    assert_eq!((yaml.exit, yaml.err.as_str()), (0, ""));
    let from_yaml: Vec<Value> =
        yaml.out.split("\n---\n").map(|document| serde_saphyr::from_str(document).unwrap()).collect();
    let json = run(folder.path(), "install --agent daemonset --image agent:1 --namespace fleet --dry-run -o json");
    let list: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(list["kind"], "List");
    assert_eq!(list["items"].as_array().unwrap(), &from_yaml);
    let line = |object: &Value| {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or("-").to_owned();
        format!("{} {} {}", object["kind"].as_str().unwrap(), text("namespace"), text("name"))
    };
    let lines: Vec<String> = from_yaml.iter().map(line).collect();
    insta::assert_snapshot!("install-order", lines.join("\n"));
}

#[test]
fn prints_only_unit_file() {
    let folder = tempfile::tempdir().unwrap();
    let shown = run(folder.path(), "install --print agent-unit --kubelet-config-dir /etc/kubernetes/kubelet.conf.d");
    assert_eq!((shown.exit, shown.err.as_str()), (0, ""));
    assert!(shown.out.contains("\nReadWritePaths=/etc/kubernetes/kubelet.conf.d /var/lib/kubelet\n"), "{}", shown.out);
    assert!(shown.out.contains("--activation=drop-in"), "{}", shown.out);
}

/// systemd checks the units of a node: their settings, and that none waits for itself.
#[test]
fn systemd_accepts_units() {
    let folder = tempfile::tempdir().unwrap();
    if std::process::Command::new("systemd-analyze").arg("--version").output().is_err() {
        // Written to standard error directly, because the harness hides the output of passing tests.
        let _ = writeln!(std::io::stderr(), "skipped: no systemd-analyze on the PATH: units are not checked");
        return;
    }
    let write = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).unwrap();
        folder.path().join(name)
    };
    // systemd-analyze checks that programs exist.
    let program = "--program /bin/true";
    for options in ["", "--kubelet-config-dir /etc/kubernetes/kubelet.conf.d --kubelet-root-dir /data/kubelet"] {
        let print = |kind: &str| run(folder.path(), &format!("install {kind} {program} {options}")).out;
        let units = [
            write("nodecfg-boot.service", &print("--print boot-unit")),
            write("nodecfg-agent.service", &print("--print agent-unit")),
            write("kubelet.service", "[Unit]\nWants=nodecfg-boot.service\n[Service]\nExecStart=/bin/true\n"),
        ];
        let checked = std::process::Command::new("systemd-analyze").arg("verify").args(&units).output().unwrap();
        let problems = String::from_utf8(checked.stderr).unwrap();
        // Problems of other units on this machine are not of interest.
        let ours: Vec<&str> =
            problems.lines().filter(|line| line.contains("nodecfg") || line.contains("kubelet")).collect();
        assert!(checked.status.success() && ours.is_empty(), "{problems}");
    }
}

#[test]
fn rejects_invalid_arguments() {
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        "install --agent daemonset --dry-run",
        "install --print nothing",
        "install --dry-run --force-conflicts",
        "install --print agent-unit --dry-run",
        "install --print boot-unit --config-map-writer ci",
        "install --agent systemd --image x --dry-run",
        "install --dry-run -o markdown",
        "install --dry-run --kubelet-config var/lib/kubelet/config.yaml",
        "install --dry-run --kubelet-config-dir /etc/../kubelet",
        "install --dry-run --listen 9348",
        "install",
    ];
    let shown: Vec<String> = cases
        .iter()
        .map(|case| {
            let shown = run(folder.path(), case);
            assert_eq!((shown.out.as_str(), shown.exit == 2 || *case == "install"), ("", true), "{case}");
            shown.shown().replace(&folder.path().display().to_string(), "[folder]")
        })
        .collect();
    shows!("install-refused", shown.join("\n"));
}

/// Starts an API server that accepts every apply and reports the definition as established on the second read. With
/// `policies`, it has a policy of an earlier installation that names the user `ci`. Returns its address and the log of
/// requests. A policy of earlier versions is for the namespace `former`.
async fn server(policies: bool, former: Option<&'static str>) -> (String, Arc<Mutex<Vec<String>>>) {
    let log = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&log);
    let answer = move |method: Method, uri: Uri| {
        let line = format!("{method} {uri}");
        let mut log = kept.lock().unwrap();
        let looked = log.contains(&line);
        log.push(line);
        let served: &[_] =
            if policies { &["validatingadmissionpolicies", "validatingadmissionpolicybindings"] } else { &[] };
        let resources: Vec<Value> = served.iter().map(|name| json!({"name": name})).collect();
        let body = match (method.as_str(), uri.path()) {
            ("PATCH", _) => json!({}),
            ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews") => {
                json!({"status": {"userInfo": {"username": "kubernetes-admin"}}})
            }
            ("GET", path)
                if policies && path.ends_with("/validatingadmissionpolicies/nodecfg-configmaps-nodecfg-system") =>
            {
                let [policy, _] = nodecfg_install::config_maps_of("nodecfg-system", &["ci".to_owned()]);
                policy
            }
            ("GET", path) if former.is_some() && path.ends_with("/validatingadmissionpolicies/nodecfg-configmaps") => {
                let [policy, _] = nodecfg_install::config_maps_of(former.unwrap(), &["bob".to_owned()]);
                policy
            }
            ("DELETE", _) => json!({}),
            ("GET", "/apis/admissionregistration.k8s.io/v1") => {
                json!({"kind": "APIResourceList", "resources": resources})
            }
            ("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodeconfigs.nodecfg.dev") => {
                let holds = if looked { "True" } else { "False" };
                json!({"status": {"conditions": [{"type": "Established", "status": holds}]}})
            }
            _ => json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}),
        };
        let status = if body["reason"] == "NotFound" { StatusCode::NOT_FOUND } else { StatusCode::OK };
        std::future::ready((status, Json(body)))
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, axum::Router::new().fallback(answer)).await });
    (address, log)
}

/// Runs `install` against that server.
async fn installed(policies: bool, arguments: &str) -> (Run, Vec<String>) {
    installed_over(policies, None, arguments).await
}

/// Runs `install` against that server, which has a policy of earlier versions for the namespace `former`.
async fn installed_over(policies: bool, former: Option<&'static str>, arguments: &str) -> (Run, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let (server, log) = server(policies, former).await;
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [{"name": "u", "user": {}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    });
    std::fs::write(folder.path().join("kubeconfig"), kubeconfig.to_string()).unwrap();
    let line = format!("install --kubeconfig kubeconfig {arguments}");
    let shown = tokio::task::spawn_blocking(move || run(folder.path(), &line)).await.unwrap();
    let log = log.lock().unwrap().clone();
    (shown, log)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn applies_and_prints_objects_in_order() {
    let (shown, log) = installed(true, "--agent daemonset --image agent:1 --force-conflicts").await;
    assert_eq!(shown.exit, 0);
    insta::assert_snapshot!("install-applied", format!("{}\n{}\n{}", shown.out, shown.err, log.join("\n")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_who_may_write_config_maps() {
    let (shown, _) = installed(true, "--config-map-writer ci --config-map-writer kubernetes-admin").await;
    assert!(shown.err.ends_with("nodecfg-pruner, ci, kubernetes-admin\n"), "{}", shown.err);
    assert!(!shown.err.contains("warning") && !shown.err.contains("To run"), "{}", shown.err);
    let (shown, _) = installed(true, "-o json").await;
    let document: Value = serde_json::from_str(&shown.out).unwrap();
    let own = ["reconciler", "pruner"].map(|name| format!("system:serviceaccount:nodecfg-system:nodecfg-{name}"));
    assert_eq!(document["configMapWriters"], json!(own));
    assert!(shown.err.contains("no longer among the users who may write ConfigMaps of nodecfg: ci."), "{}", shown.err);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn skips_admission_policies_without_support() {
    let (shown, log) = installed(false, "--agent systemd -o json").await;
    assert_eq!(shown.exit, 0);
    assert!(!log.iter().any(|line| line.starts_with("PATCH") && line.contains("admissionregistration")), "{log:#?}");
    assert!(shown.err.contains("each agent may write the status of every NodeConfig"), "{}", shown.err);
    let document: Value = serde_json::from_str(&shown.out).unwrap();
    let results: Vec<&str> =
        document["objects"].as_array().unwrap().iter().map(|object| object["result"].as_str().unwrap()).collect();
    assert_eq!(results.iter().filter(|result| **result == "skipped").count(), 4);
    assert_eq!(document.get("configMapWriters"), None);
    assert_eq!(results.iter().filter(|result| **result == "serverside-applied").count(), log.len() - 6);
}

/// Without the policy, the agent of one node could rewrite the status of every Node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn condition_of_nodes_needs_admission_policies() {
    for policies in [false, true] {
        let (shown, log) = installed(policies, "--agent daemonset --image agent:1 --force-conflicts").await;
        assert_eq!(shown.exit, 0, "{}", shown.err);
        let applied = log.iter().filter(|line| line.starts_with("PATCH") && line.contains("node-condition")).count();
        assert_eq!(applied, if policies { 2 } else { 0 }, "{log:#?}");
    }
}

/// Both policies together would admit only users whom both name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replaces_the_policy_of_earlier_versions_for_the_same_namespace() {
    let deleted = |log: &[String]| log.iter().filter(|line| line.starts_with("DELETE")).cloned().collect::<Vec<_>>();
    let (shown, log) = installed_over(true, Some("team-b"), "--namespace team-b").await;
    assert_eq!(shown.exit, 0, "{}", shown.err);
    let group = "/apis/admissionregistration.k8s.io/v1";
    let former = ["validatingadmissionpolicybindings", "validatingadmissionpolicies"]
        .map(|kind| format!("DELETE {group}/{kind}/nodecfg-configmaps"));
    assert_eq!(deleted(&log), former);
    let bound = format!("PATCH {group}/validatingadmissionpolicybindings/nodecfg-configmaps-team-b");
    let place = |start: &str| log.iter().position(|line| line.starts_with(start)).unwrap();
    assert!(place(&bound) < place("DELETE"), "{log:#?}");
    assert!(shown.out.ends_with("validatingadmissionpolicy.admissionregistration.k8s.io/nodecfg-configmaps deleted\n"));
    assert!(shown.err.contains("no longer among the users who may write ConfigMaps of nodecfg: bob."), "{}", shown.err);

    let (shown, log) = installed_over(true, Some("nodecfg-system"), "--namespace team-b").await;
    assert_eq!((shown.exit, deleted(&log)), (0, Vec::new()), "that of another namespace stays");
    assert!(!shown.err.contains("no longer among"), "{}", shown.err);
}

/// Users who may write ConfigMaps could otherwise give new nodes any configuration.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rights_of_new_nodes_need_admission_policies() {
    for arguments in ["--boot prod/gpu", "--agent systemd --join-fleet prod", "--agent systemd --boot prod/gpu"] {
        let (shown, log) = installed(false, arguments).await;
        let option = if arguments.contains("--join-fleet") { "--join-fleet" } else { "--boot" };
        assert_eq!(shown.exit, 2, "{}", shown.err);
        assert!(shown.err.contains(&format!("{option} requires ValidatingAdmissionPolicy")), "{}", shown.err);
        assert!(shown.err.contains(&format!("omit {option}, or upgrade the cluster")), "{}", shown.err);
        assert!(log.iter().all(|line| line.starts_with("GET")), "{log:#?}");
        let (shown, _) = installed(true, arguments).await;
        assert_eq!(shown.exit, 0, "{}", shown.err);
    }
}
