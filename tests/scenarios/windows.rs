//! Scenarios of windows and exclusions.

use crate::harness::{ClusterSetup, Repository};

scenarios! {
    Anything {
        held_nodes_are_no_failure_and_start_when_windows_are_ignored,
        saved_plan_contains_the_windows_of_its_pools,
        rollback_respects_windows,
    }
}

/// Excludes every time of this century.
const FREEZE: &str = "exclusions: [{from: 2000-01-01T00:00:00Z, to: 2100-01-01T00:00:00Z, reason: freeze}]";
const HELD: &str = "excluded (freeze); no opening within a year";
/// Ends the hold of a pool.
const INCIDENT: [&str; 3] = ["--ignore-windows", "--reason", "incident 4711"];

fn excluded() -> String {
    format!("{{maxUnavailable: 100%, {FREEZE}}}")
}

async fn held_nodes_are_no_failure_and_start_when_windows_are_ignored(start: ClusterSetup) {
    let cluster = start.pool("a", 3).up().await;
    let repository = Repository::of_pool("registryPullQPS: 6", &excluded());
    let run = cluster.run("diff", &repository, &[]).await.exits(1);
    run.prints(&format!("held: {HELD}")).prints("3 nodes held (p1:");
    let run = cluster.run("diff", &repository, &["-o", "json"]).await.exits(1);
    let document = run.json();
    let start = &document["pools"][0]["rollout"]["start"];
    assert_eq!((start["kind"].as_str(), start["hold"]["kind"].as_str()), (Some("held"), Some("exclusion")), "{run}");
    assert_eq!(document["cluster"]["outlook"]["held"], 3, "{run}");

    let folder = tempfile::tempdir().unwrap();
    let (report, page) = (folder.path().join("report.md"), folder.path().join("page.html"));
    let (markdown, html) = (format!("markdown={}", report.display()), page.display().to_string());
    let run = cluster.sync(&repository, &["--report", &markdown, "--report", &html]).await.exits(0);
    run.prints(&format!("held: pool a, 3 nodes: {HELD}")).prints("3 nodes: 3 held.");
    let report = std::fs::read_to_string(report).unwrap();
    assert!(report.contains(&format!("- **held:** pool `a`, 3 nodes: {HELD}")), "{report}");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains(HELD), "{page}");
    for (name, state) in cluster.states().await {
        assert!(state.source.is_none(), "{name}: {state:?}");
    }
    cluster.run("status", &repository, &[]).await.exits(0).prints(&format!("held: a {HELD}"));
    let run = cluster.sync(&repository, &["-o", "json"]).await.exits(0);
    let end = run.json_lines().pop().unwrap();
    assert_eq!(end["pools"]["a"]["held"]["reason"], "freeze", "{run}");
    assert_eq!(end["pools"]["a"]["nodes"][0]["end"]["state"], "held", "{run}");

    cluster.sync(&repository, &["--ignore-windows"]).await.exits(2).prints("--reason");
    let run = cluster.sync(&repository, &INCIDENT).await.exits(0);
    run.prints("windows ignored: incident 4711").prints("3 nodes: 3 converged");
    let events = cluster.events("a-1").await;
    assert!(events.iter().any(|(_, message)| message.contains("windows ignored: incident 4711")), "{events:?}");
    cluster.down().await;
}

async fn saved_plan_contains_the_windows_of_its_pools(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let repository = Repository::of_pool("registryPullQPS: 6", &excluded());
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.json");
    let plan = plan.to_str().unwrap();
    cluster.run("diff", &repository, &["--out", plan]).await.exits(1);
    let saved: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(plan).unwrap()).unwrap();
    let schedule = "always; not 2000-01-01T00:00:00Z to 2100-01-01T00:00:00Z (freeze)";
    assert_eq!(saved["plan"]["pools"]["a"]["policy"]["spec.rollout.windows"], schedule, "{saved}");
    cluster.sync(&repository, &["--plan", plan]).await.exits(0).prints("1 node: 1 held.");
    let edited = std::fs::read_to_string(plan).unwrap().replace(schedule, "always");
    std::fs::write(plan, edited).unwrap();
    cluster.sync(&repository, &["--plan", plan]).await.exits(7);
    cluster.run("diff", &repository, &["--out", plan]).await.exits(1);
    cluster
        .sync(&repository, &[&["--plan", plan], &INCIDENT[..]].concat())
        .await
        .exits(0)
        .prints("1 node: 1 converged");
    cluster.down().await;
}

async fn rollback_respects_windows(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let repository = Repository::of_pool("registryPullQPS: 6", "{maxUnavailable: 1}");
    cluster.sync(&repository, &[]).await.exits(0);
    repository.change("a", "registryPullQPS: 7");
    cluster.sync(&repository, &[]).await.exits(0);
    repository.fleet("test", &excluded());
    repository.commit();
    let path = repository.path().to_str().unwrap();
    let roll_back = ["rollback", "a", path, "--no-pause"];
    cluster.call(&roll_back).await.exits(0).prints("1 node: 1 held.");
    cluster
        .call(&[&roll_back[..], &["--reason", "incident 4711"]].concat())
        .await
        .exits(2)
        .prints("omit --reason or --no-pause");
    cluster.call(&[&roll_back[..], &INCIDENT].concat()).await.exits(0).prints("1 node: 1 converged");
    cluster.down().await;
}
