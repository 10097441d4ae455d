//! The nodes: whether they follow what they are told, whether their agents are alive, and what they report.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::{Check, Facts, Few, Signs, count};
use nodecfg_contract::observed::{Node, NodeSupport, Observed, Readiness};
use nodecfg_planning::judge::{Convergence, Failure, Target, WaitContext, Waiting, judge};

/// An agent writes its status at least every 72 minutes; one that has not been heard of for this long has missed two.
pub const SILENCE: SignedDuration = SignedDuration::from_hours(3);
/// As much as a node's clock may be ahead before somebody should know. That one is behind does not show: what it wrote may be
/// as old as that.
const AHEAD: SignedDuration = SignedDuration::from_mins(1);

pub(super) fn examine(facts: &Facts, checks: &mut Vec<Check>) {
    let (Some(observed), Some(now)) = (facts.observed(), facts.now()) else { return };
    halves(facts, observed, checks);
    if facts.has_agents() {
        agents(facts, observed, now, checks);
    }
    readiness(observed, checks);
    reports(facts, observed, checks);
    clocks(facts, now, checks);
}

/// The nodes that cannot or do not follow what they are pointed at, by the reason.
/// Of those in pools of the repository, [`super::fleet`] tells that they are left out.
fn halves(facts: &Facts, observed: &Observed, checks: &mut Vec<Check>) {
    let (mut unable, mut silent, mut agentless, mut outlived) =
        (Few::default(), Few::default(), Few::default(), Few::default());
    let left_out = facts.left_out_by_their_half();
    for node in observed.nodes.values().filter(|node| !left_out.contains(&node.name)) {
        match node.half {
            NodeSupport::Follows => {}
            NodeSupport::KubeletUnable { .. } => unable.add(&node.name),
            NodeSupport::KubeletSilent => silent.add(&node.name),
            NodeSupport::AgentSilent => agentless.add(&node.name),
            NodeSupport::Outlived => outlived.add(&node.name),
        }
    }
    let before = checks.len();
    let mut tell = |subject: &str, few: &Few, seen: &str, mend: &str| {
        if few.number > 0 {
            let seen = format!("{seen} on {}", few.counted("node"));
            checks.push(Check::warning("node-half", seen).about(subject).mend(mend));
        }
    };
    tell(
        "kubelet",
        &unable,
        "kubelets without dynamic configuration, which is in those of 1.11 to 1.23,",
        "keep them out of the pools; or, where all kubelets are like that, say --binding nodeconfig and install agents: \
         nodecfg install --agent daemonset --image IMAGE",
    );
    tell(
        "dynamic-config-dir",
        &silent,
        "no status.config, of kubelets without --dynamic-config-dir or that have only just started,",
        "start them with --dynamic-config-dir and the feature gate DynamicKubeletConfig",
    );
    tell(
        "agent",
        &agentless,
        "assignments on which no agent has ever reported,",
        "look why none runs there: kubectl -n nodecfg-agent get pods -o wide, or on the node systemctl status nodecfg-agent; \
         nodecfg install --agent installs them",
    );
    if outlived.number > 0 {
        let seen = format!("{}: the NodeConfig is of an earlier node of that name", outlived.counted("node"));
        checks.push(
            Check::note("node-half", seen)
                .about("outlived")
                .mend("nothing to do: the garbage collector is about to remove them. One that stays: kubectl delete nodeconfig NODE"),
        );
    }
    if checks.len() == before {
        let others = observed.nodes.len().saturating_sub(left_out.len());
        let seen = format!("{}, none that could not follow", count(others, "node"));
        let beside = if left_out.is_empty() { "" } else { ", beside those left out" };
        checks.push(Check::ok("node-half", format!("{seen}{beside}")));
    }
}

/// When agents were last heard of, and which they are. An agent has a say only where there is a NodeConfig.
fn agents(facts: &Facts, observed: &Observed, now: Timestamp, checks: &mut Vec<Check>) {
    let (mut silent, mut versions, mut heard, mut mute) =
        (Few::default(), BTreeMap::<&str, Few>::new(), 0_usize, 0_usize);
    let mut longest: Option<Timestamp> = None;
    for node in observed.nodes.values().filter(|node| node.half == NodeSupport::Follows && reports_anything(node)) {
        let Some(agent) = facts.signs.get(&node.name).and_then(|Signs { agent, .. }| agent.as_ref()) else {
            mute += 1;
            continue;
        };
        versions.entry(&agent.version).or_default().add(&node.name);
        match agent.heard {
            Some(at) if now.duration_since(at) > SILENCE => {
                longest = Some(longest.map_or(at, |longest| longest.min(at)));
                silent.add(&node.name);
            }
            _ => heard += 1,
        }
    }
    checks.push(match longest {
        Some(since) => Check::warning(
            "agent-silent",
            format!("no agent was heard of on {} for three hours and more, the longest since {since:.0}", silent.counted("node")),
        )
        .mend(
            "a node that is away says nothing either: kubectl get nodes. Otherwise look at its agent: kubectl -n nodecfg-agent \
             get pods -o wide, or on the node systemctl status nodecfg-agent and nodecfg-agent status",
        ),
        None if heard == 0 && mute == 0 => Check::ok("agent-silent", "nothing is assigned that an agent would report on"),
        None => Check::ok("agent-silent", format!("{} heard of within three hours", count(heard, "agent"))),
    });
    let others: Vec<String> = versions
        .iter()
        .filter(|(version, _)| **version != facts.program)
        .map(|(version, few)| format!("{version} on {}", few.counted("node")))
        .chain((mute > 0).then(|| format!("one that does not say on {}", count(mute, "node"))))
        .collect();
    checks.push(if others.is_empty() {
        Check::ok("agent-version", format!("none of another than {}, as this program is", facts.program))
    } else {
        Check::note("agent-version", format!("agents of other versions than this program ({}): {}", facts.program, others.join(", ")))
            .mend("nodecfg install of the version that they shall be; agents of one minor version and the next understand each other")
    });
}

fn reports_anything(node: &Node) -> bool {
    node.source.is_some() || node.status != Default::default()
}

fn readiness(observed: &Observed, checks: &mut Vec<Check>) {
    let away = Few::of(observed.nodes.values().filter(|node| node.ready != Readiness::Ready).map(|node| &node.name));
    checks.push(match away.number {
        0 => Check::ok("node-ready", format!("{} Ready", count(observed.nodes.len(), "node"))),
        _ => Check::note(
            "node-ready",
            format!("{} not Ready: they count against the budget of their pools", away.counted("node")),
        )
        .mend("look why: kubectl describe node NODE"),
    });
}

/// What the nodes say of what they are pointed at.
fn reports(facts: &Facts, observed: &Observed, checks: &mut Vec<Check>) {
    let (mut waiting, mut failed) = (Few::default(), BTreeMap::<String, Few>::new());
    let mut oldest: Option<Timestamp> = None;
    for node in observed.nodes.values().filter(|node| node.half == NodeSupport::Follows) {
        let present = node.source.clone().map_or(Target::Local, Target::Source);
        match judge(&present, node, WaitContext::STATE_ONLY) {
            Convergence::Failed(Failure::Refused { error }) => failed.entry(error).or_default().add(&node.name),
            Convergence::Waiting(Waiting::Syncing { error }) => {
                failed.entry(format!("{error} (tried again)")).or_default().add(&node.name);
            }
            Convergence::Waiting(Waiting::NotAcknowledged) => {
                waiting.add(&node.name);
                let heard = facts.signs.get(&node.name).and_then(|signs| signs.agent.as_ref()?.heard);
                oldest = oldest.into_iter().chain(heard).min();
            }
            _ => {}
        }
    }
    checks.push(match waiting.number {
        0 => Check::ok("node-acknowledge", "every node took what it is pointed at"),
        _ => {
            let heard = oldest.map(|at| format!("; the agent longest silent among them was heard of at {at:.0}")).unwrap_or_default();
            Check::warning("node-acknowledge", format!("the assignment is not taken on {}{heard}", waiting.counted("node")))
                .mend(
                    "a kubelet takes up to 15 s for it, an agent one second: run this again. A node that stays like that does not \
                     follow: look at the log of its agent, or of its kubelet",
                )
        }
    });
    if failed.is_empty() {
        return checks.push(Check::ok("node-failed", "no node reports an error"));
    }
    // The worst first: what most nodes say.
    let mut failed: Vec<(String, Few)> = failed.into_iter().collect();
    failed.sort_by_key(|(_, few)| std::cmp::Reverse(few.number));
    let more = failed.len().saturating_sub(super::EXAMPLES);
    for (error, few) in failed.into_iter().take(super::EXAMPLES) {
        checks.push(
            Check::warning("node-failed", format!("{}: {error}", few.counted("node")))
                .about(error)
                .mend("nodecfg status has each node's words, and nodecfg diff what the configuration changes"),
        );
    }
    if more > 0 {
        checks.push(
            Check::warning("node-failed", format!("{} more: nodecfg status", count(more, "error"))).about("others"),
        );
    }
}

fn clocks(facts: &Facts, now: Timestamp, checks: &mut Vec<Check>) {
    let ahead = Few::of(facts.signs.iter().filter_map(|(name, signs)| {
        let heard = signs.agent.as_ref().and_then(|agent| agent.heard);
        let by = signs.heartbeat.into_iter().chain(heard).max()?.duration_since(now);
        (by > AHEAD)
            .then(|| format!("{name} by {}", count(usize::try_from(by.as_secs()).unwrap_or(usize::MAX), "second")))
    }));
    checks.push(match ahead.number {
        0 => Check::ok("node-clock", "no node's clock is ahead"),
        _ => Check::warning(
            "node-clock",
            format!("the clocks of {} are ahead of the API server's", ahead.counted("node")),
        )
        .mend(
            "set them by NTP: certificates that are new there are not valid yet elsewhere, and that an agent has fallen silent \
             shows only that much later",
        ),
    });
}
