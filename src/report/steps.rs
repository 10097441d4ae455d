//! Progress of a large rollout as few lines: the first event of each kind per pool in full, equal ones as a number,
//! and the state of all nodes at each tenth. The number of lines does not depend on the number of nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::io::Write;
use std::mem::take;

use jiff::Timestamp;

use super::progress::{Listener, count_labels, event_text, timed, timed_text};
use super::style::{good, heading};
use super::{count, duration};
use nodecfg_contract::names::PoolName;
use nodecfg_plan::{Plan, PoolPlan};
use nodecfg_rollout::progress::{Event, NodeCounts, Progress};

/// The maximum number of nodes of a small rollout, whose output lists every node.
pub const SMALL_ROLLOUT: usize = 12;
/// The maximum number of pools whose stages are all printed. With more pools, only the first one's.
pub const FEW_POOLS: usize = 4;
/// The maximum number of domains or steps of few pools that are printed in full.
const MAX_STAGES: usize = 40;
/// The maximum number of problems of one kind that are printed in full.
const MAX_IN_FULL: usize = 8;

/// Reports whether a rollout of this plan is large.
#[must_use]
pub fn is_large(plan: &Plan) -> bool {
    plan.pools.iter().flat_map(PoolPlan::steps).count() > SMALL_ROLLOUT
}

/// The events of a rollout that were printed in full, by kind.
#[derive(Debug, Clone, Default)]
pub struct Printed(BTreeMap<Kind, BTreeSet<String>>);

impl Printed {
    /// Reports whether an event is one of the first of its kind, of a rollout of `pools` pools. Remembers that.
    pub fn is_first(&mut self, pools: usize, now: Timestamp, event: &Event) -> bool {
        let Some(kind) = Kind::of(&event.progress) else { return true };
        let pool = event.pool.as_ref().map(PoolName::as_str).unwrap_or_default();
        let (text, most) = match kind {
            Kind::DrainBlocked | Kind::Counted(_) | Kind::Node(_) | Kind::PoolHeld | Kind::Stopped => {
                (format!("{pool} {}", event_text(now, event)), MAX_IN_FULL)
            }
            Kind::DomainSoaking | Kind::DomainStarted | Kind::StepSoaking | Kind::StepStarted if pools <= FEW_POOLS => {
                (format!("{pool} {}", event_text(now, event)), MAX_STAGES)
            }
            _ if pools <= FEW_POOLS => (pool.to_owned(), FEW_POOLS),
            _ => (pool.to_owned(), 1),
        };
        let printed = self.0.entry(kind).or_default();
        printed.len() < most && printed.insert(text)
    }
}

/// Text output of a large rollout.
pub struct Steps<W> {
    out: W,
    width: usize,
    start: Timestamp,
    /// The nodes of each pool by stage, by its latest event.
    pools: BTreeMap<PoolName, NodeCounts>,
    /// Created ConfigMaps that no line counts yet, and the time of the last one.
    config_maps: (usize, Timestamp),
    /// The tenths of all nodes that have ended.
    tenths: usize,
    printed: Printed,
    /// The number of events that no line shows yet, by kind.
    folded: BTreeMap<Kind, usize>,
    /// The pools whose end was printed.
    ended: BTreeSet<PoolName>,
}

/// Kind of an event, as far as lines are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    DrainStarted,
    DrainBlocked,
    Drained,
    Assigned,
    Soaking,
    Soaked,
    DomainSoaking,
    DomainStarted,
    StepSoaking,
    StepStarted,
    AwaitingTrials,
    /// A problem of a node that the state of all nodes counts.
    Counted(&'static str),
    /// Another problem of a node, in a word.
    Node(&'static str),
    PointerNotMoved,
    PoolHeld,
    GateClosed,
    GateOpened,
    Stopped,
}

impl Kind {
    /// The kind of an event. `None` for an event without a line of its own.
    fn of(progress: &Progress) -> Option<Self> {
        Some(match progress {
            Progress::ConfigMapCreated { .. }
            | Progress::MarkReleased
            | Progress::PointerMoved { .. }
            | Progress::ContentHashesAdded { .. }
            | Progress::Waiting { .. }
            | Progress::Converged { .. }
            | Progress::Permitted
            | Progress::TrialPassed => return None,
            Progress::DrainStarted { .. } => Self::DrainStarted,
            Progress::DrainBlocked { .. } => Self::DrainBlocked,
            Progress::Drained { .. } => Self::Drained,
            Progress::Assigned { .. } => Self::Assigned,
            Progress::Failed { .. } => Self::Counted("failed"),
            Progress::Refused { .. } => Self::Counted("refused"),
            Progress::RolledBack { .. } => Self::Node("rolled back"),
            Progress::RollbackFailed { .. } => Self::Node("failed to roll back"),
            Progress::NotRolledBack { .. } => Self::Node("not rolled back"),
            Progress::NotReleased { .. } => Self::Node("not released"),
            Progress::Changed { .. } => Self::Counted("changed"),
            Progress::Held { .. } => Self::Counted("held"),
            Progress::NotPermitted { .. } => Self::Node("waiting for their gates"),
            Progress::Unacknowledged { .. } => Self::Node("without acknowledgement"),
            Progress::Gone => Self::Counted("gone"),
            Progress::PointerNotMoved { .. } => Self::PointerNotMoved,
            Progress::PoolHeld { .. } => Self::PoolHeld,
            Progress::GateClosed { .. } => Self::GateClosed,
            Progress::GateOpened { .. } => Self::GateOpened,
            Progress::Soaking { .. } => Self::Soaking,
            Progress::Soaked => Self::Soaked,
            Progress::DomainSoaking { .. } => Self::DomainSoaking,
            Progress::DomainStarted { .. } => Self::DomainStarted,
            Progress::StepSoaking { .. } => Self::StepSoaking,
            Progress::StepStarted { .. } => Self::StepStarted,
            Progress::AwaitingTrials { .. } => Self::AwaitingTrials,
            Progress::Stopped { .. } => Self::Stopped,
        })
    }

    /// The number of events of this kind in words. `None` if the state of all nodes counts them.
    fn more(self, number: usize) -> Option<String> {
        let pools = count(number, "more pool");
        Some(match self {
            Self::DrainStarted | Self::Drained | Self::Assigned | Self::Counted(_) => return None,
            Self::DrainBlocked => format!("{} of drains", count(number, "more block")),
            Self::Node(what) => format!("{} {what}", count(number, "more node")),
            Self::Soaking => format!("{pools}: canaries converged"),
            Self::Soaked => format!("{pools}: canaries passed"),
            Self::DomainSoaking => format!("{pools} soaking between domains"),
            Self::DomainStarted => format!("{pools} continuing with the next domain"),
            Self::StepSoaking => format!("{pools} soaking after a step"),
            Self::StepStarted => format!("{pools} continuing after a step"),
            Self::AwaitingTrials => format!("{pools} waiting for trials"),
            Self::PointerNotMoved => format!("{pools} without a moved pointer"),
            Self::PoolHeld => format!("{pools} held"),
            Self::GateClosed => format!("{pools} waiting for gates"),
            Self::GateOpened => format!("{pools} delayed by gates no longer"),
            Self::Stopped => format!("{pools} stopped"),
        })
    }
}

impl<W: Write> Steps<W> {
    /// Writes to `out`, `width` columns wide.
    pub fn new(out: W, width: usize, plan: &Plan, start: Timestamp) -> Self {
        let counts = |pending| NodeCounts { pending, ..NodeCounts::default() };
        let pools = plan.pools.iter().map(|pool| (pool.name.clone(), pool.steps().count()));
        Self {
            out,
            width,
            start,
            pools: pools.filter(|(_, steps)| *steps > 0).map(|(pool, steps)| (pool, counts(steps))).collect(),
            config_maps: (0, start),
            tenths: 0,
            printed: Printed::default(),
            folded: BTreeMap::new(),
            ended: BTreeSet::new(),
        }
    }

    fn line(&mut self, now: Timestamp, text: &str) -> io::Result<()> {
        writeln!(self.out, "{}", timed_text(self.start, now, text, self.width))
    }

    fn write_config_maps(&mut self) -> io::Result<()> {
        let (created, at) = self.config_maps;
        self.config_maps.0 = 0;
        if created == 0 { Ok(()) } else { self.line(at, &format!("{} created", count(created, "ConfigMap"))) }
    }

    /// Writes the number of events that no line shows yet.
    fn write_folded(&mut self, now: Timestamp) -> io::Result<()> {
        for (kind, number) in take(&mut self.folded) {
            if let Some(text) = kind.more(number) {
                self.line(now, &text)?;
            }
        }
        Ok(())
    }

    /// Writes the end of one of several pools, and the state of all nodes at each tenth.
    fn write_state(&mut self, now: Timestamp, pool: &PoolName) -> io::Result<()> {
        let mut all = NodeCounts::default();
        self.pools.values().for_each(|counts| all.add(counts));
        let tenths = ((all.done + all.failed + all.left) * 10).checked_div(all.total()).unwrap_or(0);
        if tenths > self.tenths {
            self.tenths = tenths;
            self.write_folded(now)?;
            let mut parts = vec![format!("{} of {} {}", all.done, all.total(), good("converged"))];
            parts.extend(count_labels(&all));
            if all.pending > 0 {
                parts.push(format!("{} not started", all.pending));
            }
            self.line(now, &heading(parts.join(", ")))?;
        }
        let few = (2..=FEW_POOLS).contains(&self.pools.len());
        let is_done = self.pools.get(pool).is_some_and(|counts| counts.done == counts.total());
        if few && is_done && self.ended.insert(pool.clone()) {
            let nodes = self.pools.get(pool).map_or(0, NodeCounts::total);
            let took = duration(now.duration_since(self.start).as_secs_f64().max(0.0));
            self.line(now, &format!("{pool} {} in {took}: {}", good("done"), count(nodes, "node")))?;
        }
        Ok(())
    }
}

impl<W: Write> Listener for Steps<W> {
    fn event(&mut self, now: Timestamp, event: &Event) -> io::Result<()> {
        let progress = &event.progress;
        if matches!(progress, Progress::ConfigMapCreated { .. }) {
            self.config_maps = (self.config_maps.0 + 1, now);
            return Ok(());
        }
        self.write_config_maps()?;
        match Kind::of(progress) {
            Some(_) if self.printed.is_first(self.pools.len(), now, event) => {
                writeln!(self.out, "{}", timed(self.start, now, event, self.width))?;
            }
            Some(kind) => *self.folded.entry(kind).or_default() += 1,
            None if event.pool.is_none() => writeln!(self.out, "{}", timed(self.start, now, event, self.width))?,
            None => {}
        }
        if let (Some(pool), Some(state)) = (&event.pool, &event.state) {
            self.pools.insert(pool.clone(), state.counts);
            self.write_state(now, pool)?;
        }
        self.out.flush()
    }

    fn finish(&mut self, now: Timestamp) -> io::Result<()> {
        self.write_config_maps()?;
        self.write_folded(now)?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use jiff::ToSpan as _;

    use super::*;
    use nodecfg_contract::error_text;
    use nodecfg_plan::fixtures::{
        canary, desired, namespace, node, observed, on, options, policy, pool, refusing, rendered,
    };
    use nodecfg_plan::make;
    use nodecfg_rollout::StopReason;
    use nodecfg_rollout::instant::{Instant, Now};
    use nodecfg_rollout::machine::{Command, Input, Machine, Mode, StateMachine as _};

    const MODE: Mode = Mode { concurrency: 16, ..Mode::ASSIGN };

    fn at(second: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH.checked_add(second.seconds()).unwrap()
    }

    fn both(second: i64) -> Now {
        let passed = std::time::Duration::from_secs(second.unsigned_abs());
        Now { instant: Instant::after_start(passed), time: at(second) }
    }

    /// The output of a rollout of `pools` pools with `nodes` nodes each. Each answer of a node takes a second. Nodes of
    /// the pools `failing` refuse their configuration. The run is interrupted after `interrupted` answers.
    fn output(pools: usize, nodes: usize, failing: &[&str], interrupted: usize) -> String {
        let names: Vec<String> = (1..=pools).map(|number| format!("p{number:02}")).collect();
        let policies = names.iter().map(|name| {
            let mut policy = policy(4);
            policy.canary = canary(1, 3);
            pool(name, 50, policy)
        });
        let cluster =
            names.iter().flat_map(|name| (1..=nodes).map(move |number| node(&format!("{name}-{number:02}"), name)));
        let plan = make(&desired(policies), &observed(cluster), &options()).unwrap();
        let (mut machine, mut out, mut now) = (Machine::new(&plan, MODE), Vec::new(), 0);
        let mut lines = Steps::new(&mut out, usize::MAX, &plan, at(0));
        for map in plan.created() {
            let progress = Progress::ConfigMapCreated { name: map.config.config_map.clone() };
            lines.event(at(0), &progress.into()).unwrap();
        }
        let mut inputs = VecDeque::from([Input::Start]);
        while !machine.is_finished() {
            now += 1;
            if usize::try_from(now).unwrap() == interrupted {
                inputs.push_front(Input::Stop(StopReason::Interrupted));
            }
            for command in machine.step(inputs.pop_front().unwrap_or(Input::Tick), both(now)) {
                match command {
                    Command::Report(event) => lines.event(at(now), &event).unwrap(),
                    Command::RollBack(..) => {}
                    Command::Assign(name, _) => {
                        let pool = name.as_str().split('-').next().unwrap();
                        let target = rendered(pool, 50).source(&namespace());
                        let seen = match failing.contains(&pool) {
                            true => refusing(node(name.as_str(), pool), &target, error_text::VALIDATE),
                            false => on(node(name.as_str(), pool), &target),
                        };
                        inputs.extend([Input::Assigned(name), Input::Observed(Box::new(seen))]);
                    }
                    other => panic!("no change needs a drain: {other:?}"),
                }
            }
        }
        lines.finish(at(now)).unwrap();
        anstream::adapter::strip_str(&String::from_utf8(out).unwrap()).to_string()
    }

    #[test]
    fn few_pools_show_their_stages() {
        insta::assert_snapshot!("few-pools", output(2, 20, &[], 0));
    }

    #[test]
    fn many_pools_show_problems_and_totals() {
        insta::assert_snapshot!("many-pools", output(12, 20, &["p03", "p07"], 0));
    }

    #[test]
    fn equal_problems_are_counted() {
        let text = output(12, 20, &[], 30);
        assert_eq!(text.matches("stopped: interrupted").count(), MAX_IN_FULL, "{text}");
        assert!(text.contains(" 4 more pools stopped\n"), "{text}");
        let all: Vec<String> = (1..=12).map(|number| format!("p{number:02}")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let text = output(12, 20, &all, 0);
        assert_eq!(text.matches("failed: failed to validate").count(), MAX_IN_FULL, "{text}");
        assert!(text.ends_with(" 4 more pools stopped\n"), "{text}");
    }

    #[test]
    fn number_of_lines_does_not_depend_on_the_number_of_nodes() {
        let lines = |nodes| output(5, nodes, &["p02"], 0).lines().count();
        assert_eq!(lines(20), lines(80));
    }
}
