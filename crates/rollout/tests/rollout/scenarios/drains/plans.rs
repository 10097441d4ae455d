//! What plans say about drains: nodes that need one, and marks of earlier runs.

use super::*;

#[test]
fn next_run_continues_or_releases_each_mark() {
    let marked = |node: Node| Node { drain_mark: Some(Box::new(mark("a"))), ..node };
    let mut cluster = cluster(&["n1", "n2", "n3"]);
    let converged = marked(on(node("n2", "a"), &source(NEW)));
    let pending = marked(cluster.nodes[&node_name("n1")].clone());
    let assigned = Node { source: Some(source(NEW)), ..marked(on(node("n3", "a"), &source(OLD))) };
    cluster.nodes.extend([pending, converged, assigned].map(|node| (node.name.clone(), node)));
    let plan = planned(drains(1), &cluster);
    assert_eq!(plan.releases.iter().map(|release| release.node.as_str()).collect::<Vec<_>>(), ["n2"]);
    assert_eq!(plan.pools[0].drains(), 1, "n3 is awaited");
    let mut scenario = rollout_over(&cluster, drains(1));
    assert_eq!(scenario.send(Input::Start), ["watch n1"], "n1 is marked already, and n3 is assigned");
    scenario.observe("n3", |node| on(node, &source(NEW)));
    assert_eq!(scenario.wait(30), ["release n3"]);
    scenario.send(Input::Released(node_name("n3"), Ok(())));
    scenario.pods("n1", []);
    let sent = scenario.send(Input::Volumes(node_name("n1"), Ok(0)));
    assert_eq!(sent, ["unwatch n1", "assign n1 drain"]);
}

#[test]
fn policy_decides_which_nodes_are_drained() {
    let drained = |fields: &str, policy: RolloutPolicy| {
        let cluster = cluster(&["n1"]);
        let desired = wants(fields, policy);
        let plan = make(&desired, &cluster, &options()).unwrap();
        assert_eq!(check(&plan, &desired, &cluster, &Scope::Everything), []);
        let step = plan.pools[0].steps().next().unwrap().clone();
        (step.drain, step.assignment.max_disruption)
    };
    let mut accepting = drains(1);
    accepting.drain.mode = DrainMode::Accept;
    assert_eq!(drained(NEW, drains(1)), (true, Class::Drain));
    assert_eq!(drained(NEW, accepting), (false, Class::Drain));
    assert_eq!(drained("cpuManagerPolicy: none\nclusterDNS: [10.0.0.9]\n", drains(1)), (false, Class::Restart));
    assert_eq!(drained(NEW, RolloutPolicy { allow_disruption: Class::Replace, ..policy(1) }), (true, Class::Replace));
}

#[test]
fn unknown_local_configuration_is_drained_unless_a_sample_and_an_agent_say_otherwise() {
    let answer = |fields: &str| RunningConfig::Read(format!("{{{fields}}}"));
    let same = r#""cpuManagerPolicy": "static", "reservedSystemCPUs": "0""#;
    let other = r#""cpuManagerPolicy": "none""#;
    for (has_agents, answered, drained) in [
        (true, None, [true, true]),
        (true, Some(same), [false, false]),
        (true, Some(other), [true, true]),
        (false, None, [true, true]),
        // No agent compares again on n2.
        (false, Some(same), [false, true]),
    ] {
        let content = has_agents.then(NodeContent::default);
        let mut cluster = observed(["n1", "n2"].map(|name| Node { content, ..node(name, "a") }));
        cluster.running.extend(answered.map(|fields| (node_name("n1"), answer(fields))));
        let plan = planned(drains(1), &cluster);
        let found: Vec<bool> = plan.pools[0].steps().map(|step| step.drain).collect();
        assert_eq!(found, drained, "{has_agents} {answered:?}");
    }
}

#[test]
fn node_with_the_mark_of_another_fleet_is_left_alone() {
    let mut cluster = cluster(&["n1"]);
    let mut other = mark("a");
    other.drain.as_mut().unwrap().fleet = nodecfg_contract::names::FleetName::new("other").unwrap();
    cluster.nodes.get_mut(&node_name("n1")).unwrap().drain_mark = Some(Box::new(other));
    let plan = planned(drains(1), &cluster);
    assert_eq!(
        plan.pools[0].left_alone[0].why.to_string(),
        "fleet other drains the node; run this again when it has finished"
    );
    assert_eq!(plan.releases, []);
}
