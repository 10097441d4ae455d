//! Checks of the nodes: support for assignments, agents, readiness, reported errors and clocks.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::{Check, Facts, NameSample, NodeActivity, count};
use nodecfg_contract::printable::one_line;
use nodecfg_observed::{Node, Observed, Obstacle, Proof, Readiness};
use nodecfg_plan::convergence::{Convergence, ConvergenceFailure, Target, WaitContext, Waiting, evaluate};

/// Time after which an agent counts as silent. An agent writes its status at least every 72 minutes, so two writes
/// are missing.
pub const SILENCE: SignedDuration = SignedDuration::from_hours(3);
/// Tolerance for a node's clock that is ahead. A clock behind is undetectable: the last report may be old.
const AHEAD: SignedDuration = SignedDuration::from_mins(1);

pub(super) fn examine(facts: &Facts, checks: &mut Vec<Check>) {
    let (Some(observed), Some(now)) = (facts.observed(), facts.now()) else { return };
    support(facts, observed, checks);
    if facts.has_agents() {
        agents(facts, observed, now, checks);
        proofs(observed, checks);
    }
    readiness(observed, checks);
    reports(facts, observed, checks);
    clocks(facts, now, checks);
}

/// Checks for nodes that cannot or do not follow their assignment, by reason. [`super::fleet`] reports those in pools
/// of the repository.
fn support(facts: &Facts, observed: &Observed, checks: &mut Vec<Check>) {
    let (mut unable, mut silent, mut agentless, mut outlived) =
        (NameSample::default(), NameSample::default(), NameSample::default(), NameSample::default());
    let mut unreadable = NameSample::default();
    let left_out = facts.nodes_without_support();
    for node in observed.nodes.values().filter(|node| !left_out.contains(&node.name)) {
        match &node.obstacle {
            None => {}
            Some(Obstacle::Unsupported { .. }) => unable.add(&node.name),
            Some(Obstacle::NoDynamicConfig) => silent.add(&node.name),
            Some(Obstacle::AgentSilent) => agentless.add(&node.name),
            Some(Obstacle::Outlived) => outlived.add(&node.name),
            Some(Obstacle::Unreadable(field)) => unreadable.add(format!("{} ({field})", node.name)),
        }
    }
    let before = checks.len();
    let mut warn = |subject: &str, few: &NameSample, seen: &str, fix: &str| {
        if few.number > 0 {
            let seen = format!("{seen} on {}", few.counted("node"));
            checks.push(Check::warning("node-support", seen).about(subject).fix(fix));
        }
    };
    warn(
        "kubelet",
        &unable,
        "no dynamic configuration, which kubelets 1.11 to 1.23 support,",
        "keep these nodes out of the pools; or, when all kubelets lack the support, pass --binding nodeconfig and install \
         agents: `nodecfg install --agent daemonset --image IMAGE`",
    );
    warn(
        "dynamic-config-dir",
        &silent,
        "no status.config, because the kubelet lacks --dynamic-config-dir or has just started,",
        "start the kubelets with --dynamic-config-dir and the feature gate DynamicKubeletConfig",
    );
    warn(
        "agent",
        &agentless,
        "no report of an agent",
        "check the agent: `kubectl -n nodecfg-agent get pods -o wide`, or on the node `systemctl status nodecfg-agent`; \
         `nodecfg install --agent daemonset --image IMAGE` installs agents",
    );
    warn(
        "unreadable",
        &unreadable,
        "an unreadable value",
        "correct the value: kubectl get node NODE -o yaml prints it. The node's own credentials may have written it",
    );
    if outlived.number > 0 {
        let seen = format!("{}: the NodeConfig belongs to an earlier node of that name", outlived.counted("node"));
        checks.push(
            Check::note("node-support", seen).about("outlived").fix(
                "nothing to do: the garbage collector removes it soon. If it stays: kubectl delete nodeconfig NODE",
            ),
        );
    }
    if checks.len() == before {
        let others = observed.nodes.len().saturating_sub(left_out.len());
        let seen = format!("{}, all support assignments", count(others, "node"));
        let beside = if left_out.is_empty() { "" } else { ", not counting skipped nodes" };
        checks.push(Check::ok("node-support", format!("{seen}{beside}")));
    }
}

/// Checks of the last heartbeat and the version of agents. An agent reports only on a NodeConfig, so nodes without
/// assignment and report are skipped.
fn agents(facts: &Facts, observed: &Observed, now: Timestamp, checks: &mut Vec<Check>) {
    let (mut silent, mut versions, mut active, mut unreported) =
        (NameSample::default(), BTreeMap::<&str, NameSample>::new(), 0_usize, 0_usize);
    let mut longest: Option<Timestamp> = None;
    for node in observed.nodes.values().filter(|node| node.obstacle.is_none() && reports_anything(node)) {
        let Some(agent) = facts.signs.get(&node.name).and_then(|NodeActivity { agent, .. }| agent.as_ref()) else {
            unreported += 1;
            continue;
        };
        versions.entry(&agent.version).or_default().add(&node.name);
        if agent.last_seen.is_some_and(|at| now.duration_since(at) <= SILENCE) {
            active += 1;
        } else {
            longest = longest.into_iter().chain(agent.last_seen).min();
            silent.add(&node.name);
        }
    }
    let since = longest.map(|since| format!(", the longest since {since:.0}")).unwrap_or_default();
    checks.push(match silent.number {
        1.. => Check::warning(
            "agent-silent",
            format!("no heartbeat of the agent for more than three hours on {}{since}", silent.counted("node")),
        )
        .fix(
            "check the node: kubectl get nodes. If it is Ready, check its agent: `kubectl -n nodecfg-agent get pods -o wide`, or \
             on the node `systemctl status nodecfg-agent` and `nodecfg-agent status`",
        ),
        0 if active > 0 || unreported > 0 => {
            Check::ok("agent-silent", format!("{} with a heartbeat within three hours", count(active, "agent")))
        }
        // Before the first sync, there is nothing to report on.
        0 if facts.has_agents() => {
            Check::warning("agent-silent", "no agent has reported yet, so it is unknown whether agents run").fix(
                "check them before the first sync: `kubectl -n nodecfg-agent get pods -o wide`, or on a node `systemctl status \
                 nodecfg-agent`",
            )
        }
        0 => Check::ok("agent-silent", "the kubelets follow assignments, without agents"),
    });
    let others: Vec<String> = versions
        .iter()
        .filter(|(version, _)| **version != facts.program)
        .map(|(version, few)| format!("{version} on {}", few.counted("node")))
        .chain((unreported > 0).then(|| format!("unknown on {}", count(unreported, "node"))))
        .collect();
    checks.push(if others.is_empty() {
        Check::ok("agent-version", format!("all agents have the version of this program, {}", facts.program))
    } else {
        Check::note(
            "agent-version",
            format!("agents of other versions than this program ({}): {}", facts.program, others.join(", ")),
        )
        .fix(
            "run nodecfg install of the intended version; agents and programs of adjacent minor versions work together",
        )
    });
}

/// Maximum number of different texts about what kubelets run.
const MAX_PROOFS: usize = 3;

/// Checks of what the agents report about the values that their kubelets run.
fn proofs(observed: &Observed, checks: &mut Vec<Check>) {
    let (mut same, mut other) = (0, BTreeMap::<String, NameSample>::new());
    let runs = |node: &&Node| node.obstacle.is_none() && node.status.active.is_some();
    for node in observed.nodes.values().filter(runs) {
        let text = match node.proof.as_deref() {
            Some(Proof::Known { overridden, more: 0, .. }) if overridden.is_empty() => {
                same += 1;
                continue;
            }
            Some(Proof::Known { overridden, more, .. }) => {
                let failure = ConvergenceFailure::Overridden { values: overridden.clone(), more: *more };
                failure.to_string()
            }
            Some(Proof::Unknown { reason }) => format!("unknown: {}", one_line(reason)),
            None => "unknown: its agent does not report it".to_owned(),
        };
        other.entry(text).or_default().add(&node.name);
    }
    if other.is_empty() {
        let seen = match same {
            0 => "no configuration that an agent would compare".to_owned(),
            1 => "1 kubelet runs every reviewed value".to_owned(),
            more => format!("{more} kubelets run every reviewed value"),
        };
        return checks.push(Check::ok("node-proof", seen));
    }
    for (text, few) in other.iter().take(MAX_PROOFS) {
        let (seen, fix) = match text.strip_prefix("unknown: ") {
            Some(reason) => (
                format!("what the kubelet runs is unknown on {}: {reason}", few.counted("node")),
                "see the condition Effective: kubectl get nodeconfig NODE -o yaml. The agent must see the processes of the \
                 host, and a kubelet under its usual name",
            ),
            None => (
                format!("{}: {text}", few.counted("node")),
                "see status.effective and the condition Effective: kubectl get nodeconfig NODE -o yaml. Remove the flag or \
                 the file from the node, or accept the value with spec.kubelet.acceptOverridden",
            ),
        };
        checks.push(Check::note("node-proof", seen).about(text.clone()).fix(fix));
    }
    if let Some(more) = other.len().checked_sub(MAX_PROOFS).filter(|more| *more > 0) {
        checks.push(Check::note("node-proof", format!("{more} more: nodecfg status")).about("others"));
    }
}

fn reports_anything(node: &Node) -> bool {
    node.source.is_some() || node.status != Default::default()
}

fn readiness(observed: &Observed, checks: &mut Vec<Check>) {
    let not_ready =
        NameSample::of(observed.nodes.values().filter(|node| node.ready != Readiness::Ready).map(|node| &node.name));
    checks.push(match not_ready.number {
        0 => Check::ok("node-ready", format!("{} Ready", count(observed.nodes.len(), "node"))),
        _ => Check::note(
            "node-ready",
            format!("{} not Ready: they count against the budget of their pools", not_ready.counted("node")),
        )
        .fix("check the conditions: kubectl describe node NODE"),
    });
}

/// Checks of the nodes' reports on their assignments.
fn reports(facts: &Facts, observed: &Observed, checks: &mut Vec<Check>) {
    let (mut waiting, mut failed) = (NameSample::default(), BTreeMap::<String, NameSample>::new());
    let mut oldest: Option<Timestamp> = None;
    for node in observed.nodes.values().filter(|node| node.obstacle.is_none()) {
        let present = Target::present(node);
        match evaluate(&present, node, WaitContext::STATE_ONLY) {
            Convergence::Failed(ConvergenceFailure::Refused { error }) => {
                failed.entry(error).or_default().add(&node.name)
            }
            Convergence::Waiting(Waiting::Syncing { error }) => {
                failed.entry(format!("{error} (retried)")).or_default().add(&node.name);
            }
            Convergence::Waiting(Waiting::NotAcknowledged) => {
                waiting.add(&node.name);
                let last_seen = facts.signs.get(&node.name).and_then(|signs| signs.agent.as_ref()?.last_seen);
                oldest = oldest.into_iter().chain(last_seen).min();
            }
            _ => {}
        }
    }
    checks.push(match waiting.number {
        0 => Check::ok("node-acknowledge", "every node acknowledged its assignment"),
        _ => {
            let suffix = oldest.map(|at| format!("; oldest heartbeat of an agent at {at:.0}")).unwrap_or_default();
            Check::warning(
                "node-acknowledge",
                format!("assignment not acknowledged on {}{suffix}", waiting.counted("node")),
            )
            .fix(
                "a kubelet needs up to 15 s, an agent one second: run this again. If it persists, check the log of the \
                     node's agent or kubelet",
            )
        }
    });
    if failed.is_empty() {
        return checks.push(Check::ok("node-failed", "no node reports an error"));
    }
    // The most frequent error first.
    let mut failed: Vec<(String, NameSample)> = failed.into_iter().collect();
    failed.sort_by_key(|(_, few)| std::cmp::Reverse(few.number));
    let more = failed.len().saturating_sub(super::EXAMPLES);
    for (error, few) in failed.into_iter().take(super::EXAMPLES) {
        checks.push(Check::warning("node-failed", format!("{}: {error}", few.counted("node"))).about(error).fix(
            "see nodecfg status for the error of each node. A node does not try again what failed there: correct its \
                     configuration, or repair it, `nodecfg reset NODE` and sync again",
        ));
    }
    if more > 0 {
        checks.push(
            Check::warning("node-failed", format!("{} more: nodecfg status", count(more, "error"))).about("others"),
        );
    }
}

fn clocks(facts: &Facts, now: Timestamp, checks: &mut Vec<Check>) {
    let ahead = NameSample::of(facts.signs.iter().filter_map(|(name, signs)| {
        let last_seen = signs.agent.as_ref().and_then(|agent| agent.last_seen);
        let by = signs.heartbeat.into_iter().chain(last_seen).max()?.duration_since(now);
        (by > AHEAD)
            .then(|| format!("{name} by {}", count(usize::try_from(by.as_secs()).unwrap_or(usize::MAX), "second")))
    }));
    checks.push(match ahead.number {
        0 => Check::ok("node-clock", "no clock of a node is ahead"),
        _ => Check::warning(
            "node-clock",
            format!("the clocks of {} are ahead of the API server's", ahead.counted("node")),
        )
        .fix(
            "synchronize the clocks by NTP: other machines reject new certificates of these nodes, and silent agents are \
             detected late",
        ),
    });
}
