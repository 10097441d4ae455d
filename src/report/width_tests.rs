//! Tests of the width and length of text reports, with names as long as Kubernetes allows.

use std::collections::BTreeSet;
use std::io::Write;

use jiff::Timestamp;

use super::document::Report;
use super::document::terminal::{self, Layout};
use super::document::tests::text;
use super::initialization::{InitialPool, InitialRuns, Initialization};
use super::progress::{Lines, Listener as _};
use super::pruning::{PruneEnd, PrunedConfigMap, Pruning};
use super::release::{Release, ReleaseEnd, ReleasedNode};
use super::run::{RunEnd, tests::run};
use super::{code_explanation, doctor, field, findings, orders, pruning, release, review, run as runs, status};
use crate::doctor::{Check, CheckResult};
use crate::layout;
use crate::review::{Base, Head, Side, compare, of_plan};
use crate::status::tests::{at, compared};
use kubelet_config::NEWEST_RELEASED;
use kubelet_config::finding::Strictness;
use nodecfg_contract::error_text;
use nodecfg_contract::names::{FleetName, NamespaceName, NodeName, PoolName};
use nodecfg_fleet::snapshot::Snapshot;
use nodecfg_fleet::{Checks, Kubelets, build};
use nodecfg_observed::Obstacle;
use nodecfg_observed::{Maintainer, Node, Pause, Protection, RemovedMark};
use nodecfg_plan::convergence::{ConvergenceFailure, Target, Waiting};
use nodecfg_plan::fixtures::{
    desired, namespace, node, node_name, observed, on, options, policy, pool, pool_name, refusing, rendered, source,
    with_config_map,
};
use nodecfg_plan::{Domain, Kept, Why, make};
use nodecfg_rollout::progress::{Event, Progress};
use nodecfg_rollout::{End, NodeOutcome, Outcome, PoolOutcome, StopReason};

/// The widths of terminals.
const WIDTHS: [usize; 3] = [60, 80, 200];

/// A node name of 253 characters.
fn long_node(number: usize) -> NodeName {
    let label = "n".repeat(63);
    node_name(&format!("{number:061}.{label}.{label}.{label}"))
}

/// A pool name of 63 characters.
fn long_pool(number: usize) -> PoolName {
    pool_name(&format!("p{}{number}", "o".repeat(61)))
}

/// A label of the greatest length that Kubernetes allows.
fn long_domain() -> Domain {
    Domain { label: format!("{}.example.com/{}", "prefix".repeat(20), "n".repeat(63)), value: Some("v".repeat(63)) }
}

fn long_source() -> nodecfg_contract::ConfigSource {
    source(&format!("fleet-{}-{}", long_pool(0), "x".repeat(10)))
}

/// Asserts that no line is wider than each of several widths, apart from lines of one word.
#[track_caller]
fn assert_fits(name: &str, write: impl Fn(&mut dyn Write, usize)) {
    assert_fits_at(&WIDTHS, name, write);
}

#[track_caller]
fn assert_report_fits(widths: &[usize], name: &str, report: &Report, all: bool) {
    assert_fits_at(widths, name, |out, width| {
        terminal::write(out, report, Layout { width, all, all_option: "-v" }).unwrap();
    });
}

#[track_caller]
fn assert_fits_at(widths: &[usize], name: &str, write: impl Fn(&mut dyn Write, usize)) {
    for &width in widths {
        let mut out = Vec::new();
        write(&mut out, width);
        let text = anstream::adapter::strip_str(&String::from_utf8(out).unwrap()).to_string();
        assert!(!text.trim().is_empty(), "{name}");
        for line in text.lines() {
            let one_word = layout::hanging(line.trim_start(), 0, 1).lines().count() <= 1;
            assert!(layout::width(line) <= width || one_word, "{name} at {width}: {line}\n{text}");
        }
    }
}

fn ends() -> Vec<End> {
    let failed = |failure| End::Failed { failure, rolled_back: false };
    vec![
        End::Converged,
        failed(ConvergenceFailure::Refused { error: error_text::VALIDATE.to_owned() }),
        failed(ConvergenceFailure::Refused { error: "节点 e\u{301}rror ".repeat(40) }),
        failed(ConvergenceFailure::TimedOut { waiting: Waiting::NotAcknowledged }),
        End::Refused { error: "admission webhook denied the request ".repeat(5) },
        End::LeftAlone { why: Why::Maintained { by: Maintainer::ClusterAutoscaler } },
        End::LeftAlone { why: Why::Obstacle(Obstacle::AgentSilent) },
        End::Changed { to: Some(long_source()) },
        End::NotStarted,
    ]
}

#[test]
fn summary_fits() {
    let pool = |number: usize, stopped| {
        let pause = Pause {
            by: "ada".to_owned(),
            at: at(),
            reason: "disks and more disks ".repeat(9),
            whole_fleet: false,
            allowed: None,
        };
        let paused = (number == 0).then_some(End::LeftAlone { why: Why::Paused { order: Some(Box::new(pause)) } });
        let node = |(index, end)| NodeOutcome {
            node: long_node(100 * number + index),
            from: Some(long_source()),
            to: Target::Source(long_source().into()),
            end,
            seconds: Some(12.5),
            trial: None,
            drain: None,
            recovery: None,
            marked: false,
        };
        let nodes = ends().into_iter().chain(paused).enumerate().map(node).collect();
        (long_pool(number), PoolOutcome { stopped, held: None, nodes })
    };
    let canary = StopReason::CanaryFailed { node: long_node(1) };
    let budget = StopReason::BudgetExhausted { budget: 1, unavailable: 3, examples: (0..3).map(long_node).collect() };
    for pools in
        [vec![pool(0, Some(canary.clone()))], vec![pool(0, Some(canary)), pool(1, Some(budget)), pool(2, None)]]
    {
        let outcome = Outcome { pools: pools.into_iter().collect() };
        let report =
            runs::report(&run("https://cluster.example"), RunEnd { outcome: &outcome, at: at(), seconds: 61.0 });
        assert_report_fits(&WIDTHS, "run", &report, false);
    }
}

#[test]
fn progress_fits() {
    let (pool, node) = (long_pool(0), long_node(0));
    let named = || (pool.clone(), node.clone());
    let mut all = vec![
        Progress::ConfigMapCreated { name: long_source().to_string() }.into(),
        Event::from(Progress::Soaking { until: at() }).of(pool.clone()),
        Event::from(Progress::Stopped { reason: StopReason::CanaryFailed { node: node.clone() } }).of(pool.clone()),
        Event::from(Progress::DomainSoaking { until: at(), next: long_domain() }).of(pool.clone()),
        Event::from(Progress::DomainStarted { domain: long_domain(), nodes: 15_000 }).of(pool.clone()),
    ];
    let (pool, node) = named();
    all.push(
        Event::from(Progress::Assigned { from: None, to: Target::Source(long_source().into()) }).of(pool).about(node),
    );
    let (pool, node) = named();
    all.push(Event::from(Progress::Refused { error: "the API server says no ".repeat(20) }).of(pool).about(node));
    let (pool, node) = named();
    all.push(
        Event::from(Progress::Held { why: Why::Maintained { by: Maintainer::ClusterAutoscaler } }).of(pool).about(node),
    );
    assert_fits("progress", |out, width| {
        let mut lines = Lines::new(out, width, Timestamp::UNIX_EPOCH, true);
        for progress in &all {
            lines.event(at(), progress).unwrap();
        }
    });
}

/// Pools with findings: settings of `pool.yaml`, and fields of `kubelet.yaml`.
const FAULTY: [(&str, &str); 8] = [
    ("name: gpus", "maxPods: 30\n"),
    ("name: gpu", "maxPod: 32\nmaxPods: \"5\"\n"),
    ("name: gpu", "systemReserved: {memory: 1GB}\niptablesDropBit: 12\n"),
    ("name: gpu", "systemReserved:\n  memory: 1Gi\n cpu: 100m\n"),
    ("name: gpu", "featureGates: {MemoryQos: true}\nevictionHard: {nodefs.available: 10}\n"),
    ("name: gpu", "evictionHard: {memory.available: 1Gi}\niptablesDropBit: 12\ncontainerLogMaxFiles: 1\n"),
    ("name: gpu", "readOnlyPort: 10255\nauthentication: {anonymous: {enabled: true}}\nmaxPods: 1000\n"),
    ("name: gpu", "maxPods: 30\nmaxPods: 40\nenableServer: yes\n"),
];

#[test]
fn findings_fit() {
    let mut codes = BTreeSet::new();
    for (name, fields) in FAULTY {
        let pool = format!(
            "apiVersion: nodecfg.dev/v1alpha1\nkind: NodePool\nmetadata: {{{name}}}\nspec: {{kubernetesVersion: \"1.36\", \
             nodeSelector: {{matchLabels: {{a: b}}}}}}\n"
        );
        let kubelet = format!("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{fields}");
        let files = [("pools/gpu/pool.yaml", pool.as_str()), ("pools/gpu/kubelet.yaml", kubelet.as_str())];
        let snapshot = Snapshot::of_texts(files);
        let checks = Checks { gate: Strictness::Strict, kubelets: Kubelets::Declared(vec![NEWEST_RELEASED]) };
        let found = build(&snapshot, &checks).findings;
        codes.extend(found.iter().map(|finding| finding.code));
        assert_fits_at(&[40, 80, 120], "findings", |out, width| {
            findings::text(out, &snapshot, &found, 1, width).unwrap();
        });
    }
    assert!(codes.len() > 12, "{codes:?}");
}

#[test]
fn explanations_fit() {
    for name in ["", "evictionHard", "registerWithTaints.effect", "featureGates.NodeSwap", "logging", "tlsCipherSuites"]
    {
        for recursive in [false, true] {
            let explanation = field::explain(name, NEWEST_RELEASED, recursive).unwrap();
            assert_fits_at(&[40, 80, 120], name, |out, width| {
                field::text(out, &explanation, NEWEST_RELEASED, width).unwrap();
            });
        }
    }
    for code in code_explanation::all_codes() {
        let explanation = code_explanation::explain(code).unwrap();
        assert_fits_at(&[40, 80, 120], code, |out, width| {
            code_explanation::text(out, &explanation, width).unwrap();
        });
    }
}

#[test]
fn status_fits() {
    let (pools, nodes) = (["a".repeat(63), "b".repeat(63)], 0..40);
    let wanted = desired(pools.iter().map(|name| pool(name, 110, policy(1))));
    let nodes = nodes.map(|number| {
        let node = node(long_node(number).as_str(), &pools[number % 2]);
        if number % 3 == 0 {
            refusing(node, &long_source(), "no such thing, anywhere on this node, at all")
        } else {
            node
        }
    });
    let status = compared(&wanted, &observed(nodes), Vec::new());
    for all in [false, true] {
        assert_report_fits(&WIDTHS, "status", &status::report(&status), all);
    }
}

#[test]
fn review_fits() {
    let pools = ["a".repeat(63), "b".repeat(63)];
    let wanted = desired(pools.iter().map(|name| pool(name, 110, policy(1))));
    let nodes = (0..12).map(|number| {
        let node = node(long_node(number).as_str(), &pools[number % 2]);
        let source = rendered(&pools[number % 2], 110).source(&namespace());
        match number {
            0 => refusing(node, &source, "no such thing, anywhere on this node, at all"),
            1 => Node { maintainer: Some(Maintainer::ClusterAutoscaler), ..node },
            2 | 3 => Node { labels: Default::default(), ..node },
            4 => on(node, &source),
            5 => on(node, &long_source()),
            _ => node,
        }
    });
    let mut observed = observed(nodes);
    for name in &pools {
        with_config_map(&mut observed, name, &rendered(name, 110));
    }
    let plan = make(&wanted, &observed, &options()).unwrap();
    let review = of_plan(Side::WorkingTree, &wanted, &plan, Timestamp::UNIX_EPOCH);
    for all in [false, true] {
        assert_report_fits(&WIDTHS, "review", &review::report("diff", &review), all);
    }
}

#[test]
fn long_values_of_a_review_fit_and_stay_whole() {
    let snapshot = |letter: &str| {
        let (word, taint) = (letter.repeat(200), letter.repeat(60));
        let kubelet = format!(
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nclusterDomain: {word}\n\
             volumePluginDir: /{letter}\nregisterWithTaints: [{{key: {taint}, effect: NoSchedule}}]\n"
        );
        let pool = format!(
            "apiVersion: nodecfg.dev/v1alpha1\nkind: NodePool\nmetadata: {{name: {}}}\n\
             spec: {{nodeSelector: {{matchLabels: {{{taint}: {taint}}}}}}}\n",
            long_pool(0)
        );
        let folder = format!("pools/{}", long_pool(0));
        let files = [(format!("{folder}/pool.yaml"), pool), (format!("{folder}/kubelet.yaml"), kubelet)];
        Snapshot::of_texts(files.iter().map(|(path, text)| (path.as_str(), text.as_str())))
    };
    let (old, new) = (snapshot("a"), snapshot("b"));
    let built = |snapshot| build(snapshot, &Checks::default()).desired.unwrap();
    let (was, is) = (built(&old), built(&new));
    let base = Base { side: &Side::WorkingTree, desired: Some(&was), snapshot: &old, errors: &[] };
    let review = compare(&base, &Head { side: &Side::WorkingTree, desired: &is, snapshot: &new });
    for all in [false, true] {
        assert_report_fits(&[40, 80, 120], "values", &review::report("diff", &review), all);
    }
    let text: String = text(&review::report("diff", &review), 40, false).split_whitespace().collect();
    assert!(text.contains(&format!("~clusterDomain:{}→{}", "a".repeat(200), "b".repeat(200))), "{text}");
}

#[test]
fn doctor_fits() {
    let check = |verdict| Check {
        code: "node-failed",
        subject: None,
        verdict,
        seen: format!("refused by 2 nodes ({}, {}): no such thing", long_node(0), long_node(1)),
        fix: Some(format!("run `nodecfg rollback {}`, or correct the configuration of the pool", long_pool(0))),
        failure: None,
    };
    let checks = [CheckResult::Problem, CheckResult::Warning, CheckResult::Unknown, CheckResult::Ok].map(check);
    let findings = doctor::Findings { checks: &checks, failure: None, exit_code: |_| 0 };
    for all in [false, true] {
        assert_report_fits(&WIDTHS, "doctor", &doctor::report(&findings), all);
    }
}

#[test]
fn pruning_fits() {
    let why = Kept::InUse { nodes: 7, example: long_node(0).to_string() };
    let ends = [PruneEnd::ToDelete, PruneEnd::Changed, PruneEnd::Kept { reason: why.to_string(), why }];
    let map = |end| PrunedConfigMap {
        name: long_source().to_string(),
        pool: Some(long_pool(0)),
        created: Some(at()),
        commit: Some("0123456789".repeat(4)),
        end,
    };
    let pruning = Pruning {
        fleet: FleetName::new("fleet").unwrap(),
        namespace: NamespaceName::new("kube-system").unwrap(),
        keep: 3,
        dry_run: true,
        config_maps: ends.map(map).into(),
    };
    assert_report_fits(&WIDTHS, "pruning", &pruning::report(&pruning), true);
}

#[test]
fn release_fits() {
    let whole = RemovedMark { taint: true, annotation: true, protections: Protection::ALL.into(), cordoned: true };
    let ends = [
        ReleaseEnd::ToRelease { tainted: false, cordoned: true },
        ReleaseEnd::Released(whole),
        ReleaseEnd::Unattributed,
        ReleaseEnd::Gone,
    ];
    let node = |end| ReleasedNode { node: long_node(0), pool: Some(long_pool(0)), since: Some(at()), end };
    let release = Release {
        fleet: FleetName::new("fleet").unwrap(),
        namespace: NamespaceName::new("kube-system").unwrap(),
        dry_run: false,
        nodes: ends.map(node).into(),
    };
    assert_report_fits(&WIDTHS, "release", &release::report(&release), true);
}

#[test]
fn orders_fit() {
    let pause = |reason: &str| Pause {
        by: "system:serviceaccount:ci:deployer".repeat(3),
        at: at(),
        reason: reason.repeat(20),
        whole_fleet: false,
        allowed: None,
    };
    let order = |number| orders::PoolOrder {
        pool: Some(long_pool(number)),
        result: orders::PoolResult::Updated,
        pause: Some(pause("new disks ")),
        before: Some(pause("old disks ")),
        known: false,
    };
    let orders = orders::PoolOrders {
        fleet: FleetName::new("fleet").unwrap(),
        namespace: NamespaceName::new("kube-system").unwrap(),
        pools: (0..3).map(order).collect(),
        paused: None,
        also_paused: BTreeSet::new(),
        running: Some(orders::Holder { identity: "ci-runner".repeat(20), since: Some(at()) }),
    };
    assert_report_fits(&WIDTHS, "orders", &orders::pools("pause", &orders, " --fleet-name prod"), true);
}

#[test]
fn initialization_fits() {
    let pool = |number| InitialPool {
        name: long_pool(number),
        nodes: 15_000,
        runs: InitialRuns::Local,
        paused: true,
        captured: Vec::new(),
    };
    let initialization = Initialization {
        folder: "kubelet-configuration".to_owned(),
        fleet: FleetName::new("fleet").unwrap(),
        label: Some(format!("{}/{}", "d".repeat(40), "l".repeat(40))),
        pools: (0..3).map(pool).collect(),
        files: vec!["nodecfg.yaml".to_owned()],
        remarks: Vec::new(),
    };
    assert_report_fits(&WIDTHS, "init", &initialization.report(&[]), true);
}

#[test]
fn verify_counts_pools_without_awaited_nodes() {
    let names = ["a", "b", "c", "d", "e", "web"];
    let wanted = desired(names.map(|name| pool(name, 110, policy(1))));
    let nodes = names.map(|name| match name {
        "web" => node("web-1", name),
        _ => on(node(&format!("{name}-1"), name), &rendered(name, 110).source(&namespace())),
    });
    let mut observed = observed(nodes);
    for name in names {
        with_config_map(&mut observed, name, &rendered(name, 110));
    }
    let plan = make(&wanted, &observed, &options()).unwrap();
    let review = of_plan(Side::WorkingTree, &wanted, &plan, at());
    let text = text(&review::awaited(&plan, &review), 80, false);
    assert_eq!(text, "web: 1 node, waiting for 1\n5 pools, 5 nodes: none to wait for\n");
}

#[test]
fn messages_of_nodes_cannot_control_the_terminal() {
    let evil = format!("no\u{1b}]0;owned\u{7}\r\n\u{1b}[2Jfailed {}", "long ".repeat(10_000));
    let failure = ConvergenceFailure::Refused { error: evil.clone() };
    let (pool, node) = (long_pool(0), long_node(0));
    let mut out = Vec::new();
    let mut lines = Lines::new(&mut out, usize::MAX, Timestamp::UNIX_EPOCH, true);
    for progress in [
        Event::from(Progress::Failed { failure: failure.clone() }).of(pool.clone()).about(node.clone()),
        Event::from(Progress::Refused { error: evil.clone() }).of(pool.clone()).about(node.clone()),
        Event::from(Progress::Waiting { waiting: Waiting::Syncing { error: evil.clone() } })
            .of(pool.clone())
            .about(node.clone()),
        Event::from(Progress::Stopped { reason: StopReason::ClusterFailed { error: evil.clone() } }).of(pool.clone()),
    ] {
        lines.event(at(), &progress).unwrap();
    }
    let to = Target::Local;
    let end = End::Failed { failure, rolled_back: false };
    let nodes = vec![NodeOutcome {
        node,
        from: None,
        to,
        end,
        seconds: None,
        trial: None,
        drain: None,
        recovery: None,
        marked: false,
    }];
    let stopped = Some(StopReason::ClusterFailed { error: evil });
    let outcome = Outcome { pools: [(pool, PoolOutcome { stopped, held: None, nodes })].into() };
    let report = runs::report(&run("https://cluster.example"), RunEnd { outcome: &outcome, at: at(), seconds: 1.0 });
    terminal::write(&mut out, &report, Layout { width: usize::MAX, all: false, all_option: "-v" }).unwrap();
    let text = String::from_utf8(out).unwrap();
    for control in ["\u{1b}]", "\u{1b}[2J", "\u{7}", "\r", "\n failed"] {
        assert!(!text.contains(control), "{control:?}\n{text}");
    }
    assert!(text.len() < 15_000, "{}", text.len());
}
