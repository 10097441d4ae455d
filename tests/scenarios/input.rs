//! Scenarios with invalid input: each fails with one clear report and the right exit code, without writes.

use std::fs;

use serde_json::json;

use crate::harness::{Cluster, ClusterSetup, KUBELET, Repository, Run};

scenarios! {
    Anything {
        invalid_repository_is_reported_with_file_and_line,
        all_findings_are_reported_together,
        unreadable_repository_is_named,
        invalid_kubeconfig_is_named,
        unknown_context_lists_existing_ones,
        credential_errors_are_distinguished,
        missing_namespace_is_named,
        config_map_with_other_content_is_never_overwritten,
        refuses_mutable_config_map_of_same_name,
    }
    Sandbox {
        forbidden_verb_is_named_with_rbac_rule,
        sync_works_without_permission_for_events,
    }
}

/// Runs `nodecfg sync`, which must fail with this exit code and these texts, without writes.
async fn fails(cluster: &Cluster, repository: &Repository, more: &[&str], code: i32, words: &[&str]) -> Run {
    let before = cluster.written().await;
    let mut run = cluster.sync(repository, more).await.exits(code);
    for text in words {
        run = run.prints(text);
    }
    assert_eq!(run.lines_with("panicked"), 0, "{run}");
    assert_eq!(cluster.written().await, before, "{run}");
    run
}

async fn invalid_repository_is_reported_with_file_and_line(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let bomb = {
        let mut text = format!("{KUBELET}nodeLabels: &a0 [x, x, x, x, x, x, x, x, x]\n");
        for level in 1..12 {
            let below = format!("*a{}, ", level - 1).repeat(9);
            text.push_str(&format!("k{level}: &a{level} [{below}]\n"));
        }
        text
    };
    let pool = |spec: &str| {
        format!("apiVersion: nodecfg.dev/v1alpha1\nkind: NodePool\nmetadata: {{name: a}}\nspec:\n  {spec}\n")
    };
    let kubelet = "pools/a/kubelet.yaml";
    for (path, text, words) in [
        (kubelet, format!("{KUBELET}clusterDNS: [10.0.0.1\nmaxPods: 3\n"), ["pools/a/kubelet.yaml:", "error"]),
        (kubelet, format!("{KUBELET}maxPods: 3\nmaxPods: 4\n"), ["pools/a/kubelet.yaml:4", "maxPods"]),
        (kubelet, bomb, ["pools/a/kubelet.yaml:", "alias"]),
        (kubelet, format!("{KUBELET}maxPodz: 3\n"), ["pools/a/kubelet.yaml:3", "maxPods"]),
        (kubelet, format!("{KUBELET}maxPods: many\n"), ["pools/a/kubelet.yaml:3", "maxPods"]),
        (kubelet, format!("{KUBELET}failSwapOn: off\n"), ["pools/a/kubelet.yaml:3", "failSwapOn"]),
        (
            kubelet,
            "apiVersion: apps/v1\nkind: Deployment\n".to_owned(),
            ["pools/a/kubelet.yaml:", "KubeletConfiguration"],
        ),
        ("pools/a/pool.yaml", pool("nodeSelectr: {}"), ["pools/a/pool.yaml:5", "nodeSelector"]),
        ("pools/a/pool.yaml", pool("rollout: {maxUnavailable: 0}"), ["pools/a/pool.yaml:5", "maxUnavailable"]),
        (
            "pools/a/pool.yaml",
            pool("nodeSelector: {matchExpressions: [{key: zone, operator: Inn, values: [a]}]}"),
            ["pools/a/pool.yaml:5", "did you mean In?"],
        ),
        (
            "pools/a/pool.yaml",
            pool("nodeSelector: {matchExpressions: [{key: zone, operator: In}]}"),
            ["pools/a/pool.yaml:5", "In needs at least one value"],
        ),
        (
            "nodecfg.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n".to_owned(),
            ["nodecfg.yaml:", "Fleet"],
        ),
    ] {
        let repository = Repository::of_pool("maxPods: 110", "");
        repository.write(path, &text);
        repository.commit();
        let run = fails(&cluster, &repository, &[], 3, &words).await;
        assert_eq!(run.lines_with("Invalid:"), 1, "{run}");
    }
    cluster.down().await;
}

async fn all_findings_are_reported_together(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let repository = Repository::of_pool("maxPodz: 3\nfailSwapOn: off\nmaxPods: many", "");
    repository.pool_spec("a", "{priorty: 3}");
    repository.commit();
    let words = ["maxPodz", "failSwapOn", "maxPods", "priorty", "4 errors"];
    fails(&cluster, &repository, &[], 3, &words).await;
    cluster.down().await;
}

async fn unreadable_repository_is_named(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let repository = Repository::of_pool("maxPods: 110", "");
    fails(&cluster, &repository, &["--rev", "no-such-branch"], 3, &["no-such-branch"]).await;
    let empty = Repository::empty();
    fails(&cluster, &empty, &[], 3, &["commit"]).await;
    let missing = Repository::empty();
    fs::remove_dir_all(missing.path()).unwrap();
    fails(&cluster, &missing, &[], 3, &[missing.path().to_str().unwrap()]).await;
    cluster.down().await;
}

/// Writes a changed copy of the kubeconfig.
fn kubeconfig(cluster: &Cluster, change: impl FnOnce(String) -> String) -> String {
    let path = cluster.home().join("changed");
    fs::write(&path, change(fs::read_to_string(cluster.kubeconfig()).unwrap())).unwrap();
    path.to_str().unwrap().to_owned()
}

async fn invalid_kubeconfig_is_named(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let repository = Repository::of_pool("maxPods: 110", "");
    let words = ["kubeconfig /no/such/file (--kubeconfig) cannot be read", "check the path"];
    fails(&cluster, &repository, &["--kubeconfig", "/no/such/file"], 4, &words).await;
    let broken = kubeconfig(&cluster, |_| "clusters: [\n".to_owned());
    fails(&cluster, &repository, &["--kubeconfig", &broken], 4, &["is not a kubeconfig", "kubectl config view"]).await;
    let token = kubeconfig(&cluster, |text| text.replace("server: \"https:", "server: \"gopher:"));
    fails(&cluster, &repository, &["--kubeconfig", &token], 4, &["gopher"]).await;
    cluster.down().await;
}

async fn unknown_context_lists_existing_ones(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let repository = Repository::of_pool("maxPods: 110", "");
    let words = ["the kubeconfig has no context \"prod\"; it has nodecfg-sandbox", "--context"];
    fails(&cluster, &repository, &["--context", "prod"], 4, &words).await;
    cluster.down().await;
}

async fn credential_errors_are_distinguished(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let repository = Repository::of_pool("maxPods: 110", "");
    let wrong = kubeconfig(&cluster, |text| {
        let (head, rest) = text.split_once("token: ").unwrap();
        format!("{head}token: \"expired\"\n{}", rest.split_once('\n').unwrap().1)
    });
    let words = ["does not accept the credentials", "does not accept the credentials"];
    let run = fails(&cluster, &repository, &["--kubeconfig", &wrong], 4, &words).await;
    let run = run.does_not_print("\"expired\"");
    assert!(run.err.contains("https://127.0.0.1:"), "{run}");
    // An authority that did not sign the server's certificate.
    let other = rcgen::generate_simple_self_signed(vec!["client.example".to_owned()]).unwrap().cert.pem();
    let foreign = kubeconfig(&cluster, |text| {
        use base64::Engine as _;
        let ca = base64::engine::general_purpose::STANDARD.encode(other);
        let (head, rest) = text.split_once("certificate-authority-data: ").unwrap();
        format!("{head}certificate-authority-data: {ca}\n{}", rest.split_once('\n').unwrap().1)
    });
    fails(&cluster, &repository, &["--kubeconfig", &foreign], 4, &["TLS:", "certificate-authority-data"]).await;
    cluster.down().await;
}

async fn missing_namespace_is_named(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let repository = Repository::of_pool("maxPods: 110", "");
    let words = ["namespace \"nowhere\" does not exist", "kubectl create namespace nowhere"];
    fails(&cluster, &repository, &["--namespace", "nowhere"], 4, &words).await;
    cluster.down().await;
}

/// Name of the ConfigMap that a sync would create.
async fn planned(cluster: &Cluster, repository: &Repository) -> String {
    let diff = cluster.run("diff", repository, &["-o", "json"]).await.exits(1).json();
    let map = &diff["pools"][0]["configMap"];
    assert_eq!(map["create"], true, "{diff}");
    map["after"].as_str().unwrap().to_owned()
}

async fn config_map_with_other_content_is_never_overwritten(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let repository = Repository::of_pool("maxPods: 110", "");
    let name = planned(&cluster, &repository).await;
    cluster.create_config_map(&name, &format!("{KUBELET}maxPods: 3\n"), true, None).await;
    let words = [
        &format!("ConfigMap {}/{name} does not have the content that its name states", cluster.namespace()),
        "delete it once no node refers to it",
    ];
    fails(&cluster, &repository, &[], 4, &words).await;
    cluster.down().await;
}

async fn refuses_mutable_config_map_of_same_name(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let repository = Repository::of_pool("maxPods: 110", "");
    let name = planned(&cluster, &repository).await;
    cluster.create_config_map(&name, &format!("{KUBELET}maxPods: 110\n"), false, None).await;
    let way_out = format!("kubectl -n {} patch configmap", cluster.namespace());
    let words = ["has the right content but is not immutable", &way_out];
    fails(&cluster, &repository, &[], 4, &words).await;
    // The fix in the error message.
    let path = format!("/api/v1/namespaces/{}/configmaps/{name}", cluster.namespace());
    cluster.patch(&path, json!({"immutable": true})).await;
    cluster.sync(&repository, &[]).await.exits(0).prints("1 converged");
    cluster.down().await;
}

async fn forbidden_verb_is_named_with_rbac_rule(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let repository = Repository::of_pool("maxPods: 110", "");
    let inside = format!("in namespace {}", cluster.namespace());
    let (leases, everywhere) = ("leases.coordination.k8s.io", "in the cluster");
    let mut cases = vec![
        ("get", "leases", leases, &*inside),
        // The Lease is missing at first and exists from then on.
        ("create", "leases", leases, &inside),
        ("list", "nodes", "nodes", everywhere),
        ("watch", "nodes", "nodes", everywhere),
        ("list", "configmaps", "configmaps", &inside),
        ("get", "configmaps", "configmaps", &inside),
        ("create", "configmaps", "configmaps", &inside),
        ("update", "leases", leases, &inside),
    ];
    match cluster.assignment_resource() {
        "nodes" => cases.push(("patch", "nodes", "nodes", everywhere)),
        node_configs => {
            let verbs = ["list", "watch", "get", "create", "patch"];
            cases.extend(verbs.map(|verb| (verb, node_configs, "nodeconfigs.nodecfg.dev", everywhere)));
        }
    }
    for (verb, resource, qualified, place) in cases {
        let sandbox = cluster.sandbox();
        sandbox.forbid(verb, resource);
        let run = fails(&cluster, &repository, &[], 4, &[]).await;
        let run = run.prints(&format!("may not {verb} {qualified} {place}"));
        run.prints("with the rule {apiGroups:").prints(&format!("resources: [{resource}], verbs: [{verb}]"));
        sandbox.api().clear_denials();
    }
    cluster.sync(&repository, &[]).await.exits(0);
    cluster.down().await;
}

async fn sync_works_without_permission_for_events(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    cluster.sandbox().forbid("create", "events");
    let run = cluster.sync(&Repository::of_pool("maxPods: 110", ""), &[]).await.exits(0);
    assert_eq!(run.lines_with("the rollout continues without events"), 1, "{run}");
    cluster.down().await;
}
