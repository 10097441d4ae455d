//! Facts of a finished run in words: the results of nodes, their counts, and the next steps that follow from them.

use jiff::Timestamp;

use super::{count, explain, names, next_opening, source};
use nodecfg_plan::Why;
use nodecfg_plan::convergence::ConvergenceFailure;
use nodecfg_plan::state::State;
use nodecfg_rollout::{End, NodeOutcome, Outcome};

/// The maximum number of names in a list.
const MAX_NAMES: usize = 8;

/// The display priority of a result; 0 is the most urgent. Coarser than the order of states: groups results by the
/// action that they need.
pub(super) fn priority(end: &End) -> u8 {
    match end {
        End::Failed { .. } | End::Refused { .. } => 0,
        End::Changed { .. } => 1,
        End::LeftAlone { .. } => 2,
        End::InFlight => 3,
        End::RolledBack => 4,
        End::NotStarted | End::Held | End::NotPermitted { .. } => 5,
        End::Gone => 6,
        End::Converged => 7,
    }
}

/// The result of a node in one or two words. More specific than its state for some results.
#[must_use]
pub fn state(end: &End) -> &'static str {
    match end {
        End::LeftAlone { why } => why.word(),
        End::Failed { rolled_back: true, .. } => "failed, rolled back",
        End::Failed { failure: ConvergenceFailure::TimedOut { .. }, .. } => "timed out",
        End::Failed { failure: ConvergenceFailure::Drain { failure }, .. } if failure.prevented_change() => {
            "not drained"
        }
        End::Refused { .. } => "refused",
        _ => end.state().word(),
    }
}

/// The kind of problem of a node and its message. `None` for results without a problem.
pub(super) fn problem(end: &End) -> Option<(&'static str, String)> {
    Some(match end {
        End::Failed { failure: ConvergenceFailure::TimedOut { waiting }, .. } => ("timed out", waiting.to_string()),
        End::Failed { failure: ConvergenceFailure::Drain { failure }, .. } if failure.prevented_change() => {
            ("not drained", failure.to_string())
        }
        End::Failed { failure, .. } => ("failed", failure.to_string()),
        End::Refused { error } => ("refused", error.clone()),
        End::LeftAlone { why } if why.is_blocked() => ("blocked", why.to_string()),
        End::NotPermitted { gate, why } => ("not permitted", format!("its gate {gate} did not pass: {why}")),
        End::Changed { to } => {
            ("changed", format!("changed by another client to {}; left unchanged", source::full(to.as_ref())))
        }
        _ => return None,
    })
}

/// The next steps that follow from nodes: those that keep the mark of a drain, and in a complete run those on trial.
pub(super) fn next_steps_of_nodes(outcome: &Outcome) -> Vec<String> {
    let nodes = outcome.pools.values().flat_map(|pool| &pool.nodes);
    let marked: Vec<&str> = nodes.filter(|node| node.marked).map(|node| node.node.as_str()).collect();
    let marks = (!marked.is_empty()).then(|| {
        let names = names(marked.iter().copied(), MAX_NAMES);
        let (what, it) = match marked.len() {
            1 => ("which keeps the mark of its drain", "it"),
            _ => ("which keep the mark of their drain", "them"),
        };
        format!(
            "no new pods start on {names}, {what}: the next sync continues or releases {it}, or `nodecfg release NODE`"
        )
    });
    let on_trial = (outcome.is_complete() && outcome.trials().next().is_some()).then(|| {
        "pass --wait-trial to wait for the end of the trials; a node that fails its trial rolls back by itself"
            .to_owned()
    });
    marks.into_iter().chain(on_trial).collect()
}

/// The number of nodes, and the number per state: `3 nodes: 2 converged, 1 failed`. Good states come first,
/// then the number of these nodes that are on trial, then the worst.
pub(super) fn node_counts(outcome: &Outcome, at: Timestamp) -> String {
    const GOOD: [State; 2] = [State::Converged, State::Settled];
    let mut states = outcome.states();
    let all = count(states.values().sum(), "node");
    // A reason says more than "skipped".
    let skipped = |is: fn(&Why) -> bool| {
        let nodes = outcome.pools.values().flat_map(|pool| &pool.nodes);
        nodes.filter(|node| matches!(&node.end, End::LeftAlone { why } if is(why))).count()
    };
    let reasons = [
        ("paused", skipped(|why| matches!(why, Why::Paused { .. }))),
        ("new", skipped(|why| matches!(why, Why::New { .. }))),
        ("not requested", skipped(|why| matches!(why, Why::OutOfScope))),
    ];
    if let Some(skipped) = states.get_mut(&State::Skipped) {
        *skipped -= reasons.iter().map(|(_, number)| number).sum::<usize>();
    }
    states.retain(|_, number| *number > 0);
    let others = states.keys().copied().filter(|state| !GOOD.contains(state));
    let part = |state: State| {
        let number = states.get(&state)?;
        Some(match state {
            State::Settled => format!("{number} already up to date"),
            State::Held => {
                format!("{number} held{}", next_opening(outcome.pools.values().map(|pool| pool.held.as_ref()?.next)))
            }
            _ => format!("{number} {}", state.word()),
        })
    };
    let good = GOOD.into_iter().filter_map(part);
    let mut parts: Vec<String> = good.chain(trial_count(outcome, at)).chain(others.filter_map(part)).collect();
    parts.extend(reasons.iter().filter(|(_, number)| *number > 0).map(|(reason, number)| format!("{number} {reason}")));
    if parts.is_empty() { all } else { format!("{all}: {}", parts.join(", ")) }
}

/// The number of nodes on trial, with the time until the last trial ends if every end is known: `3 on trial (up to 8m
/// left)`. `None` without such nodes.
fn trial_count(outcome: &Outcome, at: Timestamp) -> Option<String> {
    let ends: Vec<Option<Timestamp>> = outcome.trials().map(|(_, trial)| trial.ends_at).collect();
    // An unknown end sorts first.
    let last = ends.iter().min().copied().flatten().and(ends.iter().max().copied().flatten());
    let left = last.and_then(|last| super::time_left(at, last));
    let left = left.map(|left| format!(" (up to {left} left)")).unwrap_or_default();
    (!ends.is_empty()).then(|| format!("{} {}{left}", ends.len(), State::OnTrial))
}

/// The explanation of a node's result, if one exists.
pub(super) fn explanation(node: &NodeOutcome) -> Option<explain::Explanation> {
    match &node.end {
        End::Failed { failure, .. } => Some(explain::failure(&node.node, failure)),
        End::LeftAlone { why } => explain::blocked(&node.node, why),
        _ => None,
    }
}
