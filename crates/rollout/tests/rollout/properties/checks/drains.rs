//! Drains: pods are evicted only of marked nodes, a drained node is assigned without pods, and no mark stays that the
//! outcome does not state.

use super::Step;
use crate::properties::cluster::is_of_daemon_set;
use nodecfg_fleet::drain::OnTimeout;
use nodecfg_rollout::machine::{Command, Input};

pub(super) fn check(command: &Command, step: &Step) {
    let cluster = step.cluster;
    match command {
        Command::Mark(name, ..)
        | Command::Show(name, ..)
        | Command::WatchPods(name)
        | Command::UnwatchPods(name)
        | Command::Evict(name, _)
        | Command::CountVolumes(name)
        | Command::DeletePod(name, _)
        | Command::Release(name, _) => assert!(cluster.drains(name), "no change needs a drain: {command:?}\n{step}"),
        Command::ListPods(_) => assert!(step.mode.list_pods, "pods must not be listed: {command:?}\n{step}"),
        _ => {}
    }
    match command {
        Command::WatchPods(name) => {
            assert!(cluster.is_marked(name), "pods of the unmarked {name} are watched\n{step}");
            let pool = step.pool_of(name);
            let watched = cluster.watched.iter().filter(|node| *node != name && cluster.pool(node) == &pool.name);
            let watched = watched.count() + 1;
            assert!(watched <= pool.budget, "{watched} watches of pods\n{step}");
        }
        Command::Evict(name, pod) => {
            assert!(cluster.is_marked(name), "a pod of the unmarked {name} is evicted\n{step}");
            assert!(!is_of_daemon_set(pod), "{pod:?}\n{step}");
        }
        Command::Assign(name, _) if cluster.drains(name) => {
            let left = cluster.pods_of(name).filter(|pod| !is_of_daemon_set(pod)).count();
            assert_eq!(left, 0, "{name} is assigned with pods\n{step}");
            let is_marked = cluster.is_marked(name) || cluster.unmarked.contains(name);
            assert!(is_marked, "{name} is assigned without a mark\n{step}");
        }
        _ => {}
    }
}

pub(super) fn check_end(step: &Step) {
    assert!(step.cluster.watched.is_empty(), "{:?}\n{step}", step.cluster.watched);
    let outcome = step.machine.outcome();
    for end in outcome.pools.values().flat_map(|pool| &pool.nodes) {
        let Some(node) = step.cluster.nodes.get(&end.node) else { continue };
        let explained = end.marked || step.cluster.unmarked.contains(&end.node);
        assert!(node.drain_mark.is_none() || explained, "{end:?} {node:?}\n{step}");
        let is_refused = |input: &Input| matches!(input, Input::Released(node, Err(_)) if *node == end.node);
        let may_stay = step.log.iter().any(|(_, input, _)| is_refused(input))
            || step.pool_of(&end.node).policy.drain.on_timeout == OnTimeout::Hold;
        assert!(!end.marked || may_stay, "{end:?}\n{step}");
        assert!(!end.marked || !outcome.is_complete(), "{end:?}\n{step}");
    }
}
