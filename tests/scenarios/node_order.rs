//! Scenarios of nodes that start in the order of a label, and in steps.

use crate::harness::{Cluster, ClusterSetup, Repository};

scenarios! {
    Anything {
        zones_follow_each_other,
        steps_soak_before_more_nodes_start,
        diff_shows_the_steps_that_are_left,
    }
}

/// Nodes a-1 in zone b, a-2 and a-3 in zone a, a-4 without a zone.
async fn set_zones(cluster: &Cluster) {
    for (node, zone) in [("a-1", "b"), ("a-2", "a"), ("a-3", "a")] {
        let labels = serde_json::json!({"metadata": {"labels": {"zone": zone, "slot": node}}});
        cluster.patch(&format!("/api/v1/nodes/{node}"), labels).await;
    }
}

async fn zones_follow_each_other(start: ClusterSetup) {
    let cluster = start.pool("a", 4).up().await;
    set_zones(&cluster).await;
    let repository = Repository::of_pool("registryPullQPS: 6", "{maxUnavailable: 2, order: {by: zone, soak: 1s}}");
    let run = cluster.run("diff", &repository, &[]).await.exits(1);
    run.prints("then zone=a, as the budget allows: a-2, a-3")
        .prints("then, after 1s soak, zone=b, as the budget allows: a-1")
        .prints("then, after 1s soak, nodes without zone, as the budget allows: a-4");
    cluster.run("status", &repository, &[]).await.exits(0).prints("order: a zone=a (1 of 3): 0 of 2 converged");

    cluster.sync(&repository, &["-l", "slot=a-2"]).await.exits(0);
    cluster.run("status", &repository, &[]).await.exits(0).prints("order: a zone=a (1 of 3): 1 of 2 converged");
    let run = cluster.run("status", &repository, &["-o", "json"]).await.exits(0);
    let domain = &run.json()["pools"][0]["domain"];
    assert_eq!((&domain["label"], &domain["value"]), (&"zone".into(), &"a".into()), "{run}");

    let run = cluster.sync(&repository, &["-o", "json"]).await.exits(0);
    let told: Vec<String> = run
        .json_lines()
        .iter()
        .filter_map(|line| {
            let text = |value: &serde_json::Value| value.as_str().unwrap_or("-").to_owned();
            match line["event"].as_str()? {
                "assigned" => Some(text(&line["node"])),
                "domainStarted" => Some(format!("{} begins", text(&line["domain"]["value"]))),
                "domainSoaking" => Some(format!("soak before {}", text(&line["next"]["value"]))),
                _ => None,
            }
        })
        .collect();
    let expected = ["a begins", "a-3", "soak before b", "b begins", "a-1", "soak before -", "- begins", "a-4"];
    assert_eq!(told, expected, "{run}");
    let run = cluster.run("status", &repository, &[]).await.exits(0);
    run.does_not_print("Order:");
    cluster.down().await;
}

async fn diff_shows_the_steps_that_are_left(start: ClusterSetup) {
    let cluster = start.pool("a", 6).up().await;
    let spec = "{maxUnavailable: 6, steps: [1, 50%], soak: 1500ms, interval: 100ms}";
    let repository = Repository::of_pool("registryPullQPS: 6", spec);
    for (node, expected) in [("a-1", "at most 1, then 3 of 6 nodes"), ("a-2", "at most 3 of 6 nodes")] {
        cluster
            .patch(&format!("/api/v1/nodes/{node}"), serde_json::json!({"metadata": {"labels": {"slot": node}}}))
            .await;
        cluster.sync(&repository, &["-l", &format!("slot={node}")]).await.exits(0);
        let run = cluster.run("diff", &repository, &[]).await.exits(1);
        run.prints(&format!("in steps: {expected}, each with 2s soak")).prints("one start each 1s");
    }
    cluster.sync(&repository, &[]).await.exits(0);
    cluster.down().await;
}

async fn steps_soak_before_more_nodes_start(start: ClusterSetup) {
    let cluster = start.pool("a", 6).up().await;
    let spec = "{maxUnavailable: 6, steps: [1, 50%], soak: 1s, interval: 100ms}";
    let repository = Repository::of_pool("registryPullQPS: 6", spec);
    let run = cluster.run("diff", &repository, &[]).await.exits(1);
    run.prints("in steps: at most 1, then 3 of 6 nodes, each with 1s soak, then the rest");
    cluster.run("status", &repository, &[]).await.exits(0).prints("step: a 1 of 2: 0 of at most 1 nodes have");

    let labels = serde_json::json!({"metadata": {"labels": {"slot": "first"}}});
    cluster.patch("/api/v1/nodes/a-1", labels).await;
    cluster.sync(&repository, &["-l", "slot=first"]).await.exits(0);
    cluster.run("status", &repository, &[]).await.exits(0).prints("step: a 1 of 2: 1 of at most 1 nodes have");

    let run = cluster.sync(&repository, &["-o", "json"]).await.exits(0);
    let tell = |line: &serde_json::Value| match line["event"].as_str()? {
        "assigned" => Some(line["node"].as_str().unwrap_or_default().to_owned()),
        "stepSoaking" => Some(format!("{} soak", line["begun"])),
        "stepStarted" => Some(format!("up to {}", line["limit"])),
        _ => None,
    };
    let told: Vec<String> = run.json_lines().iter().filter_map(tell).collect();
    let expected = ["1 soak", "up to 3", "a-2", "a-3", "3 soak", "up to null", "a-4", "a-5", "a-6"];
    assert_eq!(told, expected, "{run}");
    cluster.run("status", &repository, &[]).await.exits(0).does_not_print("step:");
    cluster.down().await;
}
