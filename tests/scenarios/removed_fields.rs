//! Scenarios of configurations that replace those of the nodes and omit what the nodes need.

use serde_json::json;

use crate::harness::{ClusterSetup, Repository, Running};

scenarios! {
    Sandbox {
        replacing_without_cluster_dns_is_refused_until_accepted,
        field_that_leaves_a_repository_is_refused,
    }
}

fn path(repository: &Repository) -> &str {
    repository.path().to_str().unwrap()
}

/// Specification of a pool whose configuration is the whole.
const REPLACE: &str = "{kubelet: {placement: replace}}";

/// A repository whose pool has these fields and no others.
fn replacing(fields: &str) -> Repository {
    let repository = Repository::of_pool(fields, "{maxUnavailable: 100%}");
    repository.pool_spec("a", REPLACE);
    repository.commit();
    repository
}

/// The fields of nodes as kubeadm makes them, without `clusterDNS`, and with another `maxPods`.
const KEPT: &str = "\
authentication: {x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}}
cgroupDriver: systemd
clusterDomain: cluster.local
maxPods: 150
resolvConf: /run/systemd/resolve/resolv.conf
rotateCertificates: true
staticPodPath: /etc/kubernetes/manifests";

async fn replacing_without_cluster_dns_is_refused_until_accepted(start: ClusterSetup) {
    let cluster = start.kubeadm().pool("a", 3).up().await;
    let repository = replacing(KEPT);
    let diff = cluster.run("diff", &repository, &[]).await.exits(1);
    diff.prints("refused by sync: its nodes lose clusterDNS, which the configuration omits")
        .prints("Refused: nodes of pool a would lose clusterDNS, so sync changes none of 3 nodes");
    let json = cluster.run("diff", &repository, &["-o", "json"]).await.exits(1).json();
    let lost = &json["pools"][0]["risk"]["refused"]["lost"][0];
    assert_eq!((&lost["path"], &lost["running"]), (&json!("clusterDNS"), &json!(r#"["10.96.0.10"]"#)), "{json}");
    let before = cluster.written().await;
    let refused = cluster.sync(&repository, &[]).await.exits(3);
    refused
        .prints("pool a: its nodes lose clusterDNS, which the configuration omits. clusterDNS: New pods get the DNS servers")
        .prints("write clusterDNS: [\"10.96.0.10\"], which the configuration omits, to keep what the nodes run; or set")
        .prints("spec.kubelet.acceptRemoved: [clusterDNS] in pools/a/pool.yaml");
    assert_eq!(cluster.written().await, before);

    // Both fixes work.
    repository.pool_spec("a", "{kubelet: {placement: replace, acceptRemoved: [clusterDNS]}}");
    repository.commit();
    let accepted = cluster.run("diff", &repository, &[]).await.exits(1);
    accepted.prints("value-lost").prints("omits clusterDNS, which is [\"10.96.0.10\"] now").does_not_print("refused");
    repository.pool_spec("a", REPLACE);
    repository.change("a", &format!("{KEPT}\nclusterDNS: [10.96.0.10]"));
    cluster.sync(&repository, &[]).await.exits(0).prints("3 nodes: 3 converged");
    assert_eq!(cluster.running("a-1").await["clusterDNS"], json!(["10.96.0.10"]));
    cluster.down().await;
}

async fn field_that_leaves_a_repository_is_refused(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let repository = replacing("clusterDNS: [10.96.0.10]\nclusterDomain: a.b");
    cluster.sync(&repository, &[]).await.exits(0).prints("2 nodes: 2 converged");
    repository.change("a", "clusterDomain: a.b");
    // Also without a cluster, and without the answers of kubelets.
    let offline =
        Running::start(cluster.home(), &["diff", path(&repository), "--against", "HEAD~1"]).end().await.exits(1);
    offline.prints("refused by sync: its nodes lose clusterDNS").prints("acceptRemoved: [clusterDNS]");
    cluster.sync(&repository, &["--ask-kubelets", "none"]).await.exits(3).prints("its nodes lose clusterDNS");

    repository.pool_spec("a", "{kubelet: {placement: replace, acceptRemoved: [clusterDNS]}}");
    repository.commit();
    cluster.sync(&repository, &[]).await.exits(0).prints("2 nodes: 2 converged");
    assert_eq!(cluster.running("a-1").await["clusterDNS"], json!(null));

    // A rollback of an addition removes what was added.
    repository.change("a", "clusterDomain: a.b\nclusterDNS: [10.96.0.10]");
    cluster.sync(&repository, &[]).await.exits(0);
    let back = cluster.call(&["rollback", "a", path(&repository)]).await.exits(0);
    back.prints("2 converged");
    assert_eq!(cluster.running("a-1").await["clusterDNS"], json!(null));
    cluster.down().await;
}
