//! Example pages of runs, small and large.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kubelet_config::document::FieldChange;
use kubelet_config::finding::Place;
use nodecfg::report::document::Report;
use nodecfg::report::progress::RunHeader;
use nodecfg::report::run::{Run, RunEnd, whole};
use nodecfg::report::timeline::RunTimeline;
use nodecfg::review::{Changes, ConfigMapChange, Origin, PoolChange, PoolReview, PoolRisk, Review, Scope, Side};
use nodecfg_contract::ConfigSource;
use nodecfg_contract::names::{FleetName, NamespaceName, NodeName, PoolName};
use nodecfg_observed::Obstacle;
use nodecfg_plan::convergence::{ConvergenceFailure, Target, Waiting};
use nodecfg_plan::{ChangedField, Why};
use nodecfg_rollout::progress::{Event, Progress};
use nodecfg_rollout::{End, NodeOutcome, Outcome, PoolOutcome, StopReason};

fn pool_name(name: &str) -> PoolName {
    PoolName::new(name).unwrap()
}

fn node_name(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

fn header(server: &str) -> RunHeader {
    RunHeader {
        fleet: FleetName::new("prod-eu").unwrap(),
        commit: None,
        signer: None,
        namespace: NamespaceName::new("kube-system").unwrap(),
        server: server.to_owned(),
        ignored_windows: None,
    }
}

fn review(pools: &[PoolName], value: &str) -> Review {
    let field = |path: &str, old: Option<&str>| ChangedField {
        change: FieldChange {
            path: path.to_owned(),
            old: old.map(str::to_owned),
            new: Some(value.to_owned()),
            place: Some(Place { file: Arc::from("pools/gpu/kubelet.yaml"), offset: 0, len: 0, line: 12, column: 3 }),
        },
        old_default: None,
        new_default: None,
        no_effect: false,
        in_effect: Vec::new(),
        risk: None,
        loss: None,
    };
    let pool = |name: &PoolName| PoolReview {
        name: name.clone(),
        change: PoolChange::Changed,
        scope: Scope::default(),
        risk: PoolRisk::default(),
        placement: None,
        config_map: ConfigMapChange { before: None, after: Some(format!("prod-eu-{name}-x")), create: Some(true) },
        changes: vec![Changes {
            from: Origin::Base,
            nodes: Some(3),
            merged: false,
            from_placement: None,
            from_known: true,
            sample: None,
            fields: vec![field("maxPods", Some("110")), field("evictionHard[\"memory.available\"]", None)],
        }],
        sizes: Vec::new(),
        reserve: None,
        settings: Vec::new(),
        files: Vec::new(),
        rollout: None,
    };
    Review {
        from: Side::Cluster,
        to: Side::WorkingTree,
        paused: None,
        fleet: FleetName::new("prod-eu").unwrap(),
        settings: Vec::new(),
        pools: pools.iter().map(pool).collect(),
        nodes_may_move: false,
        base_findings: Vec::new(),
        findings: Vec::new(),
        assumed_version: None,
        cluster: None,
    }
}

fn end(index: usize) -> End {
    let refused = "failed to validate config, see Kubelet log for details";
    match index % 97 {
        3 => End::Failed { failure: ConvergenceFailure::Refused { error: refused.to_owned() }, rolled_back: false },
        5 => End::Failed {
            failure: ConvergenceFailure::TimedOut { waiting: Waiting::NotAcknowledged },
            rolled_back: true,
        },
        7 => End::LeftAlone { why: Why::Obstacle(Obstacle::AgentSilent) },
        9 => End::Changed { to: None },
        11 => End::InFlight,
        13 => End::LeftAlone { why: Why::Deleting },
        15 => End::Gone,
        16..=18 => End::NotStarted,
        19..=40 => End::LeftAlone { why: Why::Converged },
        _ => End::Converged,
    }
}

/// Page of a run with `nodes` nodes in `pools` pools, some of which failed.
pub fn run(nodes: usize, pools: usize) -> Report {
    let start: Timestamp = "2026-05-04T03:02:01Z".parse().unwrap();
    let names: Vec<PoolName> = (0..pools).map(|index| pool_name(&format!("pool-{index:02}"))).collect();
    let mut timeline = RunTimeline::new(start);
    let mut outcome = Outcome { pools: std::collections::BTreeMap::new() };
    let mut last = start;
    for (number, pool) in names.iter().enumerate() {
        let mut ended = PoolOutcome { stopped: None, held: None, nodes: Vec::new() };
        for index in 0..nodes / pools {
            let node = node_name(&format!("ip-10-{number}-{}-{}.ec2.internal", index / 250, index % 250));
            let end = end(index);
            let began = start + SignedDuration::from_millis(350 * i64::try_from(index).unwrap());
            let took = SignedDuration::from_secs(8 + i64::try_from(index * 7 % 30).unwrap());
            let at = || (pool.clone(), node.clone());
            let name = format!("prod-eu-{pool}-t6zx99gcbz");
            let to = Target::named(Some(&ConfigSource::config_map("kube-system", &name, "kubelet")));
            if matches!(end, End::Converged | End::Failed { .. } | End::InFlight) {
                let (pool, node) = at();
                timeline.record(
                    began,
                    &Event::from(Progress::Assigned { from: None, to: to.clone() }).of(pool).about(node),
                );
                last = last.max(began + took);
            }
            let (of, node) = at();
            match &end {
                End::Converged => {
                    timeline.record(
                        began + took,
                        &Event::from(Progress::Converged { seconds: took.as_secs_f64(), trial: None })
                            .of(of)
                            .about(node),
                    );
                }
                End::Failed { failure, .. } => {
                    timeline.record(
                        began + took,
                        &Event::from(Progress::Failed { failure: failure.clone() }).of(of).about(node),
                    );
                }
                _ => {}
            }
            let (_, node) = at();
            ended.nodes.push(NodeOutcome {
                node,
                from: None,
                to,
                end,
                trial: None,
                seconds: Some(took.as_secs_f64()),
                drain: None,
                recovery: None,
                marked: false,
            });
        }
        if number == 0 {
            let reason = StopReason::TooManyFailures { failures: 2, max_failures: 1 };
            timeline.record(last, &Event::from(Progress::Stopped { reason: reason.clone() }).of(pool.clone()));
            ended.stopped = Some(reason);
        }
        outcome.pools.insert(pool.clone(), ended);
    }
    let run =
        Run { command: "sync", header: header("https://api.prod-eu.example:6443"), review: review(&names, "220") };
    let end = RunEnd { outcome: &outcome, at: last, seconds: last.duration_since(start).as_secs_f64() };
    whole(&run, end, 5, None, timeline)
}

/// Texts that attempt to inject markup or scripts.
pub const HOSTILE: [&str; 6] = [
    "<script>document.title='owned'</script>",
    "\"onmouseover=\"document.title='owned'\" x=\"",
    "<img src=x onerror=document.title='owned'>",
    "javascript:document.title='owned'",
    "</style></title></script><svg onload=document.title='owned'>",
    "\u{202e}lamron si siht\u{202c}\u{0}\u{1b}[31m&lt;b&gt;",
];

/// Page of a run with hostile text in every untyped field.
pub fn hostile() -> Report {
    let pool = pool_name("gpu");
    let node = |(index, text): (usize, &str)| NodeOutcome {
        node: node_name(&format!("n{index}")),
        from: Some(ConfigSource::config_map("kube-system", text, text)),
        to: Target::Local,
        end: match index % 2 {
            0 => End::Failed { failure: ConvergenceFailure::Refused { error: text.to_owned() }, rolled_back: false },
            _ => End::Refused { error: text.to_owned() },
        },
        seconds: None,
        drain: None,
        recovery: None,
        marked: false,
        trial: None,
    };
    let all = HOSTILE.concat();
    let stopped = Some(StopReason::ClusterFailed { error: all.clone() });
    let ended = PoolOutcome { stopped, held: None, nodes: HOSTILE.into_iter().enumerate().map(node).collect() };
    let outcome = Outcome { pools: [(pool.clone(), ended)].into() };
    let start: Timestamp = "2026-05-04T03:02:01Z".parse().unwrap();
    let mut review = review(&[pool], &all);
    for set in review.pools.iter_mut().flat_map(|pool| &mut pool.changes) {
        set.fields.iter_mut().for_each(|field| field.change.path.clone_from(&all));
    }
    let run = Run { command: "sync", header: header(&all), review };
    whole(&run, RunEnd { outcome: &outcome, at: start, seconds: 1.0 }, 5, None, RunTimeline::new(start))
}
