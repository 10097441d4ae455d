//! What is assigned is run, tried, kept, followed and taken back.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::scenarios;
use crate::site::Site;
use crate::until;

scenarios! {
    from_an_assignment_to_the_last_known_good_and_back,
    a_drop_in_over_what_the_node_was_provisioned_with,
    a_config_map_that_changes_is_followed,
    an_assignment_during_a_trial_supersedes_it,
    a_change_that_needs_the_state_files_removed,
    the_resource_is_waited_for,
    #[cfg(target_os = "linux")]
    an_agent_of_a_settled_node_sleeps_and_is_small,
}

async fn from_an_assignment_to_the_last_known_good_and_back(site: Site) {
    let agent = site.usual_agent();
    site.assign(None).await;
    site.until_it_says("-/-/-").await;
    assert_eq!(site.host.journal(), ["started 110"], "a node that runs its local configuration is left alone");

    site.config_map("a", &site.host.configuration(50));
    let said = site.follow().await;
    site.assign(Some("a")).await;
    site.until_it_says("a/a/a").await;
    assert_eq!(site.host.last(), "started 50");
    until("it has said that it was on trial", async || said.lock().unwrap().contains(&"a/a/-".to_owned())).await;
    assert_eq!(fs::read_to_string(site.host.config()).unwrap(), site.host.configuration(50));
    assert_eq!(site.condition("Active"), "True Active");
    assert_eq!(site.condition("KnownGood"), "True KnownGood");
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(site.host.config()), 0o644, "the file keeps its mode");
    assert_eq!(mode(site.host.path("store")), 0o700);
    let assigned = fs::read_to_string(site.host.path("store/store/meta/assigned")).unwrap();
    assert!(assigned.contains("kind: SerializedNodeConfigSource") && assigned.contains("name: a"), "{assigned}");

    site.assign(None).await;
    site.until_kubelet("started 110").await;
    site.until_it_says("-/-/-").await;
    assert_eq!(fs::read_to_string(site.host.config()).unwrap(), site.host.configuration(110));
    assert_eq!(site.host.journal(), ["started 110", "started 50", "started 110"], "nothing was restarted in vain");
    assert_eq!(
        site.events().await,
        [
            "KubeletConfigChanged: Kubelet restarting to use /api/v1/namespaces/nodecfg-system/configmaps/a",
            "KubeletConfigChanged: Kubelet restarting to use local config",
        ]
    );
    agent.interrupt();
    agent.end().await.exits(0);
}

async fn a_drop_in_over_what_the_node_was_provisioned_with(site: Site) {
    let agent = site.agent(&format!("--activation drop-in --trial-period 1s {}", site.own_hands()));
    let part =
        |pods: i64| format!("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: {pods}\n");
    site.config_map("a", &part(50));
    site.assign(Some("a")).await;
    site.until_it_says("a/a/a").await;
    // healthzPort is that of the provisioned file: otherwise it would never have been healthy.
    assert_eq!(site.host.last(), "started 50");
    let drop_in = site.host.path("kubelet.conf.d/90-nodecfg.conf");
    assert_eq!(fs::read_to_string(&drop_in).unwrap(), part(50));
    assert_eq!(fs::read_to_string(site.host.config()).unwrap(), site.host.configuration(110), "untouched");

    site.config_map("b", &part(60));
    site.assign(Some("b")).await;
    site.until_it_says("b/b/b").await;
    site.config_map("bad", &part(-1));
    site.assign(Some("bad")).await;
    site.until_it_says("bad/b/b failed to validate config, see Kubelet log for details").await;
    assert_eq!(site.host.last(), "started 60");

    site.assign(None).await;
    site.until_it_says("-/-/-").await;
    site.until_kubelet("started 110").await;
    assert!(!drop_in.exists());
    drop(agent);
}

async fn a_config_map_that_changes_is_followed(site: Site) {
    let _agent = site.agent(&format!("--follow-interval 1s --trial-period 1s {}", site.own_hands()));
    site.any_config_map("a", &site.host.configuration(50), false);
    site.assign(Some("a")).await;
    site.until_it_says("a/a/a").await;
    let version = || site.status()["config"]["assigned"]["configMap"]["resourceVersion"].clone();
    let before = version();
    site.change_config_map("a", &site.host.configuration(60)).await;
    site.until_kubelet("started 60").await;
    site.until_it_says("a/a/a").await;
    until("the new version is the last known good", async || {
        let config = &site.status()["config"];
        config["lastKnownGood"] == config["assigned"] && config["assigned"]["configMap"]["resourceVersion"] != before
    })
    .await;
    assert_eq!(site.status()["config"]["active"], site.status()["config"]["assigned"]);
    // The same content again is no news.
    site.a_while().await;
    assert_eq!(site.host.journal(), ["started 110", "started 50", "started 60"]);
}

async fn an_assignment_during_a_trial_supersedes_it(site: Site) {
    let _agent = site.agent(&format!("--trial-period 1h {}", site.own_hands()));
    for (name, pods) in [("a", 50), ("b", 60)] {
        site.config_map(name, &site.host.configuration(pods));
        site.assign(Some(name)).await;
        site.until_it_says(&format!("{name}/{name}/-")).await;
    }
    assert_eq!(site.condition("KnownGood"), "False OnTrial");
    site.assign(None).await;
    site.until_it_says("-/-/-").await;
    assert_eq!(site.host.journal(), ["started 110", "started 50", "started 60", "started 110"]);
}

async fn a_change_that_needs_the_state_files_removed(site: Site) {
    let _agent = site.usual_agent();
    fs::write(site.host.path("root/cpu_manager_state"), "{}").unwrap();
    site.config_map(
        "a",
        &format!("cpuManagerPolicy: static\nkubeReserved:\n  cpu: 500m\n{}", site.host.configuration(50)),
    );
    site.assign(Some("a")).await;
    site.until_it_says("a/a/a").await;
    // Stopped while the file is there, started when it is gone.
    assert_eq!(site.host.commands(), ["restart", "stop cpu_manager_state", "restart"]);
}

async fn the_resource_is_waited_for(site: Site) {
    site.remove_resource().await;
    let mut agent = site.usual_agent();
    agent.until_it_says("this cluster has no nodeconfigs.nodecfg.dev; trying again. `nodecfg install` adds it").await;
    site.add_resource();
    site.config_map("a", &site.host.configuration(50));
    site.assign(Some("a")).await;
    site.until_it_says("a/a/a").await;
}

/// Threads of a process, and how often they have gone to sleep since they began.
#[cfg(target_os = "linux")]
fn sleeps(process: u32) -> Vec<u64> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let mut sleeps = Vec::new();
    for thread in threads {
        let status = fs::read_to_string(thread.unwrap().path().join("status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        sleeps.extend(line.and_then(|count| count.trim().parse::<u64>().ok()));
    }
    sleeps
}

#[cfg(target_os = "linux")]
async fn an_agent_of_a_settled_node_sleeps_and_is_small(site: Site) {
    let agent = site.usual_agent();
    site.config_map("a", &site.host.configuration(50));
    let assigned = std::time::Instant::now();
    site.assign(Some("a")).await;
    site.until_it_says("a/a/a").await;
    let good = assigned.elapsed();
    // The thread that made the client ends when it has had nothing to do for ten seconds.
    until("there is one thread", async || sleeps(agent.id()).len() == 1).await;
    site.a_while().await;
    loop {
        let (watches, before) = (site.requests("watch", "nodeconfigs"), sleeps(agent.id()));
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        let woken = sleeps(agent.id())[0] - before[0];
        // A watch that ends after its minute is begun anew, which is something to do.
        if site.requests("watch", "nodeconfigs") == watches {
            assert!(woken <= 2, "woken {woken} times with nothing to do");
            break;
        }
    }
    assert!(site.requests("watch", "nodeconfigs") <= 1 + assigned.elapsed().as_secs() / 60, "more than one watch");
    let status = fs::read_to_string(format!("/proc/{}/status", agent.id())).unwrap();
    let kilobytes = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        value.trim_end_matches("kB").trim().parse::<u64>().unwrap()
    };
    let (all, own) = (kilobytes("VmRSS:"), kilobytes("RssAnon:"));
    println!("assigned to known good: {good:?}; resident: {all} kB, {own} kB of it its own");
    // The rest is the program, which is large in this build and shared with all that run it.
    assert!(own < 12_000, "{own} kB");
}
