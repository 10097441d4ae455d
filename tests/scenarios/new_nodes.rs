//! Scenarios of nodes that join after a sync: `status` and `verify --new-nodes-within`.

use serde_json::{Value, json};

use crate::harness::{Cluster, ClusterSetup, Repository};

scenarios! {
    Anything {
        node_that_joined_is_new_until_its_sync,
    }
}

/// Creates a node like a-1, with a kubelet that follows assignments.
async fn join(cluster: &Cluster, name: &str) {
    let like = cluster.get("/api/v1/nodes/a-1").await;
    let mut labels = like["metadata"]["labels"].clone();
    labels["kubernetes.io/hostname"] = json!(name);
    let status =
        json!({"nodeInfo": like["status"]["nodeInfo"], "conditions": like["status"]["conditions"], "config": {}});
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status,
    });
    cluster.create("/api/v1/nodes", node).await;
}

fn pool(document: &Value) -> &Value {
    &document["pools"][0]
}

async fn node_that_joined_is_new_until_its_sync(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let repository = Repository::of_pool("maxPods: 110", "{maxUnavailable: 100%}");
    cluster.sync(&repository, &[]).await.exits(0);
    let before = cluster.run("status", &repository, &["-o", "json"]).await.exits(0);
    assert_eq!(pool(&before.json()).get("newNodes"), None, "{before}");

    join(&cluster, "a-3").await;
    let status = cluster.run("status", &repository, &[]).await.exits(0);
    status.prints("new: a 1 node never had its configuration, for ").prints("s: a-3");
    let status = cluster.run("status", &repository, &["-o", "json"]).await.exits(0);
    let document = status.json();
    assert_eq!(
        (&pool(&document)["newNodes"]["nodes"], &pool(&document)["newNodes"]["oldest"]),
        (&json!(1), &json!("a-3"))
    );
    let new = document["nodes"].as_array().unwrap().iter().filter(|node| node.get("newSince").is_some());
    assert_eq!(new.map(|node| &node["node"]).collect::<Vec<_>>(), [&json!("a-3")], "{status}");

    // By default, a new node is a node like the others.
    let run = cluster.run("verify", &repository, &[]).await.exits(5);
    run.prints("failed: a-3: not assigned, and no sync runs").does_not_print("new:");
    let run = cluster.run("verify", &repository, &["--timeout", "600", "--new-nodes-within", "1h"]).await.exits(0);
    run.prints("new: pool a: a-3 joined ").prints(" 1 new");
    let run = cluster.run("verify", &repository, &["--new-nodes-within", "0"]).await.exits(5);
    run.prints("failed: a-3: joined ")
        .prints("ago, and never had its pool's configuration; run `nodecfg sync`")
        .prints("docs/how-to/new-nodes.md");
    let lines =
        cluster.run("verify", &repository, &["--new-nodes-within", "1h", "-o", "json"]).await.exits(0).json_lines();
    let pool = &lines.last().unwrap()["pools"]["a"];
    assert!(pool["nodes"].to_string().contains(r#""kind":"new""#), "{pool}");
    assert_eq!((&pool["newNodes"]["nodes"], &pool["newNodes"]["oldest"]), (&json!(1), &json!("a-3")));
    let (markdown, page) = (cluster.home().join("verified.md"), cluster.home().join("verified.html"));
    let (markdown_report, page_report) = (format!("markdown={}", markdown.display()), page.display().to_string());
    let reports = ["--new-nodes-within", "1h", "--report", &markdown_report, "--report", &page_report];
    cluster.run("verify", &repository, &reports).await.exits(0);
    for report in [markdown, page] {
        let text = std::fs::read_to_string(&report).unwrap();
        let text = text.replace('`', "");
        assert!(text.contains("a-3</a> joined ") || text.contains("a-3 joined "), "{text}");
        assert!(text.contains("and never had its configuration"), "{text}");
    }

    cluster.delete("/api/v1/nodes/a-3").await;
    cluster.run("verify", &repository, &["--new-nodes-within", "0"]).await.exits(0).does_not_print("new:");
    cluster.down().await;
}
