//! Bad input: each kind ends with one clear report and the right exit code, and nothing is written.

use std::fs;

use serde_json::json;

use crate::harness::{Cluster, KUBELET, Repository, Run, Start};

scenarios! {
    Anything {
        an_invalid_repository_is_reported_with_file_and_line,
        all_findings_come_at_once,
        a_repository_that_cannot_be_read_is_named,
        a_bad_kubeconfig_is_named,
        an_unknown_context_is_answered_with_those_there_are,
        credentials_that_are_not_accepted_are_told_apart,
        a_missing_namespace_is_named,
        a_config_map_of_the_right_name_with_other_content_is_never_overwritten,
        a_config_map_of_the_right_name_that_is_mutable_is_not_relied_upon,
    }
    Sandbox {
        a_forbidden_verb_is_named_with_the_rule_to_grant,
        events_are_done_without_where_they_are_forbidden,
    }
}

/// Runs `nodecfg sync`, which must fail with this exit code and these words, having written nothing.
async fn fails(cluster: &Cluster, repository: &Repository, more: &[&str], code: i32, words: &[&str]) -> Run {
    let before = cluster.written().await;
    let mut run = cluster.sync(repository, more).await.exits(code);
    for text in words {
        run = run.says(text);
    }
    assert_eq!(run.lines_with("panicked"), 0, "{run}");
    assert_eq!(cluster.written().await, before, "{run}");
    run
}

async fn an_invalid_repository_is_reported_with_file_and_line(start: Start) {
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

async fn all_findings_come_at_once(start: Start) {
    let cluster = start.pool("a", 1).up().await;
    let repository = Repository::of_pool("maxPodz: 3\nfailSwapOn: off\nmaxPods: many", "");
    repository.pool_spec("a", "{priorty: 3}");
    repository.commit();
    let words = ["maxPodz", "failSwapOn", "maxPods", "priorty", "4 errors"];
    fails(&cluster, &repository, &[], 3, &words).await;
    cluster.down().await;
}

async fn a_repository_that_cannot_be_read_is_named(start: Start) {
    let cluster = start.pool("a", 1).up().await;
    let repository = Repository::of_pool("maxPods: 110", "");
    fails(&cluster, &repository, &["--rev", "no-such-branch"], 3, &["no-such-branch"]).await;
    let empty = Repository::empty();
    fails(&cluster, &empty, &[], 3, &["commit"]).await;
    let gone = Repository::empty();
    fs::remove_dir_all(gone.path()).unwrap();
    fails(&cluster, &gone, &[], 3, &[gone.path().to_str().unwrap()]).await;
    cluster.down().await;
}

/// A kubeconfig beside the good one, made of it.
fn kubeconfig(cluster: &Cluster, change: impl FnOnce(String) -> String) -> String {
    let path = cluster.home().join("changed");
    fs::write(&path, change(fs::read_to_string(cluster.kubeconfig()).unwrap())).unwrap();
    path.to_str().unwrap().to_owned()
}

async fn a_bad_kubeconfig_is_named(start: Start) {
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

async fn an_unknown_context_is_answered_with_those_there_are(start: Start) {
    let cluster = start.pool("a", 1).up().await;
    let repository = Repository::of_pool("maxPods: 110", "");
    let words = ["the kubeconfig has no context \"prod\"; it has nodecfg-sandbox", "--context"];
    fails(&cluster, &repository, &["--context", "prod"], 4, &words).await;
    cluster.down().await;
}

async fn credentials_that_are_not_accepted_are_told_apart(start: Start) {
    let cluster = start.pool("a", 1).up().await;
    let repository = Repository::of_pool("maxPods: 110", "");
    let wrong = kubeconfig(&cluster, |text| {
        let (head, rest) = text.split_once("token: ").unwrap();
        format!("{head}token: \"expired\"\n{}", rest.split_once('\n').unwrap().1)
    });
    let words = ["does not accept the credentials", "the credentials are wrong or have expired"];
    let run = fails(&cluster, &repository, &["--kubeconfig", &wrong], 4, &words).await;
    let run = run.never_says("\"expired\"");
    assert!(run.err.contains("https://127.0.0.1:"), "{run}");
    // An authority that did not sign the server's certificate.
    let other = rcgen::generate_simple_self_signed(vec!["somebody.example".to_owned()]).unwrap().cert.pem();
    let foreign = kubeconfig(&cluster, |text| {
        use base64::Engine as _;
        let ca = base64::engine::general_purpose::STANDARD.encode(other);
        let (head, rest) = text.split_once("certificate-authority-data: ").unwrap();
        format!("{head}certificate-authority-data: {ca}\n{}", rest.split_once('\n').unwrap().1)
    });
    fails(&cluster, &repository, &["--kubeconfig", &foreign], 4, &["TLS:", "certificate-authority-data"]).await;
    cluster.down().await;
}

async fn a_missing_namespace_is_named(start: Start) {
    let cluster = start.pool("a", 1).up().await;
    let repository = Repository::of_pool("maxPods: 110", "");
    let words = ["namespace \"nowhere\" does not exist", "kubectl create namespace nowhere"];
    fails(&cluster, &repository, &["--namespace", "nowhere"], 4, &words).await;
    cluster.down().await;
}

/// The name of the ConfigMap that a sync would create.
async fn planned(cluster: &Cluster, repository: &Repository) -> String {
    let diff = cluster.run("diff", repository, &["-o", "json"]).await.exits(1).json();
    let map = &diff["pools"][0]["configMap"];
    assert_eq!(map["create"], true, "{diff}");
    map["after"].as_str().unwrap().to_owned()
}

async fn a_config_map_of_the_right_name_with_other_content_is_never_overwritten(start: Start) {
    let cluster = start.pool("a", 1).up().await;
    let repository = Repository::of_pool("maxPods: 110", "");
    let name = planned(&cluster, &repository).await;
    cluster.create_config_map(&name, &format!("{KUBELET}maxPods: 3\n"), true, None).await;
    let words = [
        &format!("ConfigMap {}/{name} exists with other content than its name says", cluster.namespace()),
        "delete it when no node needs it",
    ];
    fails(&cluster, &repository, &[], 4, &words).await;
    cluster.down().await;
}

async fn a_config_map_of_the_right_name_that_is_mutable_is_not_relied_upon(start: Start) {
    let cluster = start.pool("a", 1).up().await;
    let repository = Repository::of_pool("maxPods: 110", "");
    let name = planned(&cluster, &repository).await;
    cluster.create_config_map(&name, &format!("{KUBELET}maxPods: 110\n"), false, None).await;
    let way_out = format!("kubectl -n {} patch configmap", cluster.namespace());
    let words = ["has the right content but is not immutable", &way_out];
    fails(&cluster, &repository, &[], 4, &words).await;
    // The way out that it names.
    let path = format!("/api/v1/namespaces/{}/configmaps/{name}", cluster.namespace());
    cluster.patch(&path, json!({"immutable": true})).await;
    cluster.sync(&repository, &[]).await.exits(0).says("1 converged");
    cluster.down().await;
}

async fn a_forbidden_verb_is_named_with_the_rule_to_grant(start: Start) {
    let cluster = start.pool("a", 2).up().await;
    let repository = Repository::of_pool("maxPods: 110", "");
    let inside = format!("in namespace {}", cluster.namespace());
    let (leases, everywhere) = ("leases.coordination.k8s.io", "in the cluster");
    let mut cases = vec![
        ("get", "leases", leases, &*inside),
        // There is no Lease yet; from the next on there is.
        ("create", "leases", leases, &inside),
        ("list", "nodes", "nodes", everywhere),
        ("watch", "nodes", "nodes", everywhere),
        ("list", "configmaps", "configmaps", &inside),
        ("get", "configmaps", "configmaps", &inside),
        ("create", "configmaps", "configmaps", &inside),
        ("update", "leases", leases, &inside),
    ];
    match cluster.carriers() {
        "nodes" => cases.push(("patch", "nodes", "nodes", everywhere)),
        carriers => {
            let verbs = ["list", "watch", "get", "create", "patch"];
            cases.extend(verbs.map(|verb| (verb, carriers, "nodeconfigs.nodecfg.dev", everywhere)));
        }
    }
    for (verb, resource, qualified, place) in cases {
        let sandbox = cluster.sandbox();
        sandbox.forbid(verb, resource);
        let run = fails(&cluster, &repository, &[], 4, &[]).await;
        let run = run.says(&format!("may not {verb} {qualified} {place}"));
        run.says("grant it with this rule:").says(&format!("resources: [{resource}] verbs: [{verb}]"));
        sandbox.api().allow_again();
    }
    cluster.sync(&repository, &[]).await.exits(0);
    cluster.down().await;
}

async fn events_are_done_without_where_they_are_forbidden(start: Start) {
    let cluster = start.pool("a", 2).up().await;
    cluster.sandbox().forbid("create", "events");
    let run = cluster.sync(&Repository::of_pool("maxPods: 110", ""), &[]).await.exits(0);
    assert_eq!(run.lines_with("the rollout goes on without events"), 1, "{run}");
    cluster.down().await;
}
