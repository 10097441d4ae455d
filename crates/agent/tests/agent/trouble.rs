//! What goes wrong: configurations that are refused or do not work, a kubelet that cannot be restarted, an API server that
//! is away, and power that fails.

use std::collections::BTreeMap;

use crate::kubelet::Orders;
use crate::scenarios;
use crate::site::Site;
use crate::until;

scenarios! {
    a_configuration_that_is_refused_is_never_given_to_the_kubelet,
    a_kubelet_that_dies_on_trial_goes_back_without_the_api_server,
    a_kubelet_that_never_is_healthy_goes_back,
    a_kubelet_that_cannot_be_restarted,
    an_api_server_that_is_away_changes_nothing,
    a_reboot_without_the_api_server,
    an_agent_that_was_killed_on_trial_goes_on_with_it,
    a_config_map_that_is_not_there_yet,
}

async fn a_configuration_that_is_refused_is_never_given_to_the_kubelet(site: Site) {
    let _agent = site.usual_agent();
    for (name, text, error) in [
        ("invalid", site.host.configuration(-1), "failed to validate config"),
        ("garbled", "maxPods: [".to_owned(), "failed to load config"),
    ] {
        site.config_map(name, &text);
        site.assign(Some(name)).await;
        site.until_it_says(&format!("{name}/-/- {error}, see Kubelet log for details")).await;
    }
    assert_eq!(site.condition("Active"), "False LoadFailed");
    assert_eq!(site.host.journal(), ["started 110"]);
    // The way out is another assignment.
    site.config_map("a", &site.host.configuration(50));
    site.assign(Some("a")).await;
    site.until_it_says("a/a/a").await;
    // From here on, what is refused leads back to it, which is where the kubelet is.
    site.assign(Some("invalid")).await;
    site.until_it_says("invalid/a/a failed to validate config, see Kubelet log for details").await;
    assert_eq!(site.host.journal(), ["started 110", "started 50"]);
}

async fn a_kubelet_that_dies_on_trial_goes_back_without_the_api_server(mut site: Site) {
    site.host.order(&Orders { die: BTreeMap::from([(13, 1500)]), ..Orders::default() });
    let agent = site.usual_agent();
    site.config_map("good", &site.host.configuration(50));
    site.assign(Some("good")).await;
    site.until_it_says("good/good/good").await;
    agent.kill();

    let _agent = site.agent(&format!("--trial-period 1h --health-timeout 3s {}", site.own_hands()));
    site.config_map("fatal", &site.host.configuration(13));
    site.assign(Some("fatal")).await;
    until("the kubelet was started", async || site.host.journal().contains(&"started 13".to_owned())).await;
    site.crash().await;
    site.until_kubelet("started 50").await;
    assert_eq!(site.host.journal(), ["started 110", "started 50", "started 13", "died 13", "started 50"]);
    site.recover().await;
    until("the status tells of the failed trial", async || site.says().starts_with("fatal/good/good failed trial: "))
        .await;
    assert_eq!(site.condition("Active"), "False TrialFailed");
}

async fn a_kubelet_that_never_is_healthy_goes_back(site: Site) {
    site.host.order(&Orders { sick: vec![50], refuse: vec![60], ..Orders::default() });
    let _agent = site.agent(&format!("--trial-period 1s --health-timeout 2s {}", site.own_hands()));
    for (name, pods) in [("sick", 50), ("refused", 60)] {
        site.config_map(name, &site.host.configuration(pods));
        site.assign(Some(name)).await;
        site.until_it_says(&format!("{name}/-/- failed trial: kubelet /healthz did not answer within 2 s")).await;
        site.until_kubelet("started 110").await;
    }
    assert_eq!(
        site.host.journal(),
        ["started 110", "started 50", "started 110", "refused 60", "started 110"],
        "tried once each, and gone back from"
    );
    let events = site.events().await;
    assert!(events[1].starts_with("KubeletConfigRolledBack: Kubelet restarting to go back from "), "{events:?}");
}

async fn a_kubelet_that_cannot_be_restarted(site: Site) {
    let mut agent = site.usual_agent();
    site.host.lose_service(true);
    site.config_map("a", &site.host.configuration(50));
    site.assign(Some("a")).await;
    agent.until_it_says("failed (exit status: 5): Unit kubelet.service not found.").await;
    until("the status says that it cannot be restarted", async || {
        site.says() == "a/a/- failed to restart the kubelet, see condition Active for details"
            || site.says() == "a/-/- failed to restart the kubelet, see condition Active for details"
    })
    .await;
    assert_eq!(site.condition("Active"), "False RestartFailed");
    // What it falls back to is in place by now, whether or not it is restarted.
    assert_eq!(std::fs::read_to_string(site.host.config()).unwrap(), site.host.configuration(110));
    site.host.lose_service(false);
    site.until_it_says("a/-/- failed to restart the kubelet, see condition Active for details").await;
    until("the kubelet is restarted on its local configuration", async || {
        site.host.journal() == ["started 110", "started 110"]
    })
    .await;
}

async fn an_api_server_that_is_away_changes_nothing(mut site: Site) {
    let _agent = site.usual_agent();
    site.config_map("a", &site.host.configuration(50));
    site.assign(Some("a")).await;
    site.until_it_says("a/a/a").await;
    for (name, pods) in [("b", 60), ("c", 70)] {
        site.crash().await;
        site.a_while().await;
        site.config_map(name, &site.host.configuration(pods));
        site.assign(Some(name)).await;
        site.a_while().await;
        assert_eq!(site.says(), if name == "b" { "a/a/a" } else { "b/b/b" });
        site.recover().await;
        site.until_it_says(&format!("{name}/{name}/{name}")).await;
    }
    assert_eq!(site.host.journal(), ["started 110", "started 50", "started 60", "started 70"]);
}

async fn a_reboot_without_the_api_server(mut site: Site) {
    let agent = site.usual_agent();
    site.config_map("a", &site.host.configuration(50));
    site.assign(Some("a")).await;
    site.until_it_says("a/a/a").await;
    site.crash().await;
    agent.kill();
    site.host.run("stop");
    // Up again: the kubelet reads what is in place, and the agent finds nothing to do.
    site.host.run("restart");
    site.until_kubelet("started 50").await;
    let mut agent = site.usual_agent();
    agent.until_it_says("cannot list nodeconfigs").await;
    // Somebody put the provisioned file back meanwhile; the agent knows better, and needs nobody for it.
    agent.kill();
    std::fs::write(site.host.config(), site.host.configuration(110)).unwrap();
    site.host.run("restart");
    site.until_kubelet("started 110").await;
    let _agent = site.usual_agent();
    site.until_kubelet("started 50").await;
    site.recover().await;
    site.until_it_says("a/a/a").await;
}

async fn an_agent_that_was_killed_on_trial_goes_on_with_it(site: Site) {
    let agent = site.agent(&format!("--trial-period 1h {}", site.own_hands()));
    site.config_map("a", &site.host.configuration(50));
    site.assign(Some("a")).await;
    site.until_it_says("a/a/-").await;
    agent.kill();
    let _agent = site.usual_agent();
    site.until_it_says("a/a/a").await;
    assert_eq!(site.host.journal(), ["started 110", "started 50"], "not restarted again");
}

async fn a_config_map_that_is_not_there_yet(site: Site) {
    let _agent = site.usual_agent();
    site.assign(Some("late")).await;
    site.until_it_says("-/-/- failed to sync: failed to download config, see Kubelet log for details").await;
    site.config_map("late", &site.host.configuration(50));
    site.until_it_says("late/late/late").await;
}
