//! Tests of what converged means.

use std::sync::Arc;

use super::*;
use nodecfg_contract::ConfigStatus;
use nodecfg_contract::kubelet_values::OverriddenValue;
use nodecfg_contract::names::NodeName;
use nodecfg_observed::NodeContent;

fn spec(name: &str) -> ConfigSource {
    ConfigSource::config_map("kube-system", name, "kubelet")
}

/// A source as status names it, with uid and version.
fn accepted(name: &str, version: &str) -> ConfigSource {
    let mut source = spec(name);
    if let Some(map) = source.config_map_mut() {
        map.uid = Some(format!("uid-of-{name}"));
        map.resource_version = Some(version.to_owned());
    }
    source
}

fn node(source: Option<ConfigSource>, status: ConfigStatus) -> Node {
    Node { source, status, ..Node::named(NodeName::new("n1").unwrap()) }
}

fn status(assigned: Option<&str>, active: Option<&str>, error: Option<&str>) -> ConfigStatus {
    ConfigStatus {
        assigned: assigned.map(|name| accepted(name, "1")),
        active: active.map(|name| accepted(name, "1")),
        last_known_good: None,
        error: error.map(str::to_owned),
    }
}

fn verdict(target: &str, status: ConfigStatus) -> Convergence {
    evaluate(&Target::Source(spec(target).into()), &node(Some(spec(target)), status), WaitContext::STATE_ONLY)
}

const REFUSED: &str = error_text::VALIDATE;

#[test]
fn requires_assigned_active_and_no_error() {
    assert_eq!(verdict("b", status(Some("b"), Some("b"), None)), Convergence::Converged);
    assert_eq!(verdict("b", status(Some("b"), Some("b"), Some(""))), Convergence::Converged);
    assert_eq!(verdict("b", status(Some("b"), Some("a"), None)), Convergence::Waiting(Waiting::Activating));
    assert_eq!(verdict("b", status(Some("b"), None, None)), Convergence::Waiting(Waiting::Activating));
}

#[test]
fn converged_node_is_on_trial_until_its_target_is_the_last_known_good() {
    let target = Target::Source(spec("b").into());
    let with_good = |good: Option<&str>, status: ConfigStatus| {
        let last_known_good = good.map(|name| accepted(name, "1"));
        node(Some(spec("b")), ConfigStatus { last_known_good, ..status })
    };
    let converged = || status(Some("b"), Some("b"), None);
    for good in [None, Some("a")] {
        assert_eq!(trial(&target, &with_good(good, converged())), Some(Trial::default()));
    }
    assert_eq!(trial(&target, &with_good(Some("b"), converged())), None);
    // The ConfigMap was deleted and created again since.
    let mut recreated = with_good(Some("b"), converged());
    recreated.status.last_known_good = Some(accepted("b", "0"));
    assert!(trial(&target, &recreated).is_some());
    let failed = status(Some("b"), Some("a"), Some("failed trial: it died"));
    assert_eq!(trial(&target, &with_good(Some("a"), failed)), None);
    let failing = status(Some("b"), Some("b"), Some(REFUSED));
    assert_eq!(trial(&target, &with_good(Some("a"), failing)), None);
    assert_eq!(trial(&Target::Source(spec("c").into()), &with_good(None, converged())), None, "another target");
    assert_eq!(trial(&Target::Local, &node(None, ConfigStatus::default())), None);
    let returned = ConfigStatus { last_known_good: Some(accepted("a", "1")), ..ConfigStatus::default() };
    assert_eq!(trial(&Target::Local, &node(None, returned)), None, "the local configuration has no trial");
    let ends = Some(Timestamp::UNIX_EPOCH);
    let reported = Node { trial_ends: ends, ..with_good(None, converged()) };
    assert_eq!(trial(&target, &reported), Some(Trial { ends_at: ends }));
    assert_eq!(Trial::default().or_known(Some(Trial { ends_at: ends })), Trial { ends_at: ends });
}

#[test]
fn rejects_older_version_of_the_config_map() {
    let mut observed = status(Some("b"), Some("b"), None);
    observed.active = Some(accepted("b", "0"));
    assert_eq!(verdict("b", observed), Convergence::Waiting(Waiting::Activating));
}

#[test]
fn ignores_error_of_previous_assignment() {
    let waiting = Convergence::Waiting(Waiting::NotAcknowledged);
    assert_eq!(verdict("b", status(Some("a"), None, Some(REFUSED))), waiting);
    assert_eq!(verdict("b", status(None, None, None)), waiting);
}

#[test]
fn fails_once_assigned_names_the_target() {
    assert_eq!(
        verdict("b", status(Some("b"), Some("a"), Some(REFUSED))),
        Convergence::Failed(ConvergenceFailure::Refused { error: REFUSED.to_owned() })
    );
}

#[test]
fn waits_on_sync_errors() {
    let error = format!("{}{}", error_text::SYNC_PREFIX, error_text::DOWNLOAD);
    for assigned in [None, Some("a"), Some("b")] {
        assert_eq!(
            verdict("b", status(assigned, assigned, Some(&error))),
            Convergence::Waiting(Waiting::Syncing { error: error_text::DOWNLOAD.to_owned() })
        );
    }
}

#[test]
fn times_out_with_waiting_reason() {
    let target = Target::Source(spec("b").into());
    let observed = node(Some(spec("b")), ConfigStatus::default());
    let wait = |seconds| WaitContext {
        was_ready: true,
        resources: None,
        waited: Duration::from_secs(seconds),
        timeout: Some(Duration::from_secs(10)),
    };
    assert_eq!(evaluate(&target, &observed, wait(9)), Convergence::Waiting(Waiting::NotAcknowledged));
    assert_eq!(
        evaluate(&target, &observed, wait(10)),
        Convergence::Failed(ConvergenceFailure::TimedOut { waiting: Waiting::NotAcknowledged })
    );
}

#[test]
fn requires_readiness_if_node_was_ready() {
    let target = Target::Source(spec("b").into());
    let mut observed = node(Some(spec("b")), status(Some("b"), Some("b"), None));
    let wait = |was_ready| WaitContext { was_ready, ..WaitContext::STATE_ONLY };
    for ready in [Readiness::NotReady, Readiness::Unknown] {
        observed.ready = ready;
        assert_eq!(evaluate(&target, &observed, wait(true)), Convergence::Waiting(Waiting::NotReady));
        assert_eq!(evaluate(&target, &observed, wait(false)), Convergence::Converged);
    }
    observed.ready = Readiness::Ready;
    assert_eq!(evaluate(&target, &observed, wait(true)), Convergence::Converged);
}

#[test]
fn requires_the_resources_of_before() {
    let target = Target::Source(spec("b").into());
    let before = ExtendedResources::from([("nvidia.com/gpu", 8), ("rdma/hca", 2)]);
    let state = |present: ExtendedResources, ready: Readiness, observed: ConfigStatus| {
        let node = Node { ready, extended_resources: present, ..node(Some(spec("b")), observed) };
        evaluate(&target, &node, WaitContext { was_ready: true, resources: Some(&before), ..WaitContext::STATE_ONLY })
    };
    let converged = || status(Some("b"), Some("b"), None);
    let missing = |resource: &str, present, before| {
        Convergence::Waiting(Waiting::ResourceMissing { resource: resource.to_owned(), present, before })
    };
    let gpus = |number| ExtendedResources::from([("nvidia.com/gpu", number), ("rdma/hca", 2)]);
    assert_eq!(state(ExtendedResources::default(), Readiness::Ready, converged()), missing("nvidia.com/gpu", 0, 8));
    assert_eq!(state(gpus(7), Readiness::Ready, converged()), missing("nvidia.com/gpu", 7, 8));
    let half = ExtendedResources::from([("nvidia.com/gpu", 8), ("rdma/hca", 1)]);
    assert_eq!(state(half, Readiness::Ready, converged()), missing("rdma/hca", 1, 2));
    for number in [8, 9] {
        assert_eq!(state(gpus(number), Readiness::Ready, converged()), Convergence::Converged);
    }
    // What the node waits for before its devices is reported first.
    assert_eq!(state(gpus(0), Readiness::NotReady, converged()), Convergence::Waiting(Waiting::NotReady));
    let activating = status(Some("b"), Some("a"), None);
    assert_eq!(state(gpus(0), Readiness::Ready, activating), Convergence::Waiting(Waiting::Activating));
    let refused = status(Some("b"), Some("a"), Some(REFUSED));
    assert!(matches!(state(gpus(8), Readiness::Ready, refused), Convergence::Failed(_)));
    assert_eq!(
        missing("nvidia.com/gpu", 0, 8),
        Convergence::Waiting(Waiting::resource_missing(before.missing_from(&gpus(0)).unwrap()))
    );
    let late = WaitContext {
        was_ready: false,
        resources: Some(&before),
        waited: Duration::from_secs(10),
        timeout: Some(Duration::from_secs(10)),
    };
    let Convergence::Failed(failure) = evaluate(&target, &node(Some(spec("b")), converged()), late) else {
        panic!("the time limit has passed");
    };
    assert_eq!(failure.to_string(), "timed out: active, waiting for nvidia.com/gpu: 0 of 8 are back");
}

#[test]
fn local_target_requires_empty_status() {
    let local = |observed: ConfigStatus| evaluate(&Target::Local, &node(None, observed), WaitContext::STATE_ONLY);
    assert_eq!(local(ConfigStatus::default()), Convergence::Converged);
    assert_eq!(local(status(Some("a"), Some("a"), None)), Convergence::Waiting(Waiting::NotAcknowledged));
    assert_eq!(local(status(None, Some("a"), None)), Convergence::Waiting(Waiting::Activating));
    assert_eq!(local(status(None, None, Some(REFUSED))), Convergence::Waiting(Waiting::NotAcknowledged));
}

#[test]
fn reports_other_spec_as_not_assigned() {
    let observed = node(Some(spec("a")), status(Some("b"), Some("b"), None));
    assert_eq!(
        evaluate(&Target::Source(spec("b").into()), &observed, WaitContext::STATE_ONLY),
        Convergence::Waiting(Waiting::NotAssigned)
    );
    assert_eq!(
        evaluate(&Target::Local, &observed, WaitContext::STATE_ONLY),
        Convergence::Waiting(Waiting::NotAssigned)
    );
}

#[test]
fn agent_must_report_the_wanted_content() {
    let hash = |text: &str| Some(ContentHash::of(text.as_bytes()));
    let wanted = WantedSource { hash: hash("good"), ..spec("b").into() };
    let state = |content: Option<NodeContent>, wanted: &WantedSource| {
        let node = Node { content, ..node(Some(spec("b")), status(Some("b"), Some("b"), None)) };
        evaluate(&Target::Source(wanted.clone()), &node, WaitContext::STATE_ONLY)
    };
    let reporting = |active| Some(NodeContent { active, ..NodeContent::default() });
    assert_eq!(state(reporting(hash("good")), &wanted), Convergence::Converged);
    for other in [hash("evil"), None] {
        assert_eq!(state(reporting(other), &wanted), Convergence::Waiting(Waiting::OtherContent));
    }
    assert_eq!(state(reporting(None), &spec("b").into()), Convergence::Converged, "any content counts");
    // A kubelet reports no hash, but the uid of the ConfigMap.
    assert_eq!(state(None, &wanted), Convergence::Converged);
    let with_uid = |uid: &str| WantedSource { uid: Some(uid.to_owned()), ..wanted.clone() };
    assert_eq!(state(None, &with_uid("uid-of-b")), Convergence::Converged);
    assert_eq!(state(None, &with_uid("recreated")), Convergence::Waiting(Waiting::OtherContent));
    // An agent adopts a ConfigMap that was created again, within the hour.
    assert_eq!(state(reporting(hash("good")), &with_uid("recreated")), Convergence::Converged);
}

#[test]
fn refusal_without_drain_is_a_failure_of_the_present_assignment() {
    let error = format!("{}{}cpuManagerPolicy", error_text::SYNC_PREFIX, error_text::NEEDS_DRAIN_PREFIX);
    let expected = ConvergenceFailure::NotPrepared { error: "needs a drained node: cpuManagerPolicy".to_owned() };
    assert_eq!(verdict("b", status(Some("a"), Some("a"), Some(&error))), Convergence::Failed(expected));
}

/// The kubelet does not answer yet on the assignment that its agent has accepted.
#[test]
fn handled_assignment_is_acknowledged_before_the_status_shows_it() {
    let content = |handled| NodeContent { reported: true, handled, ..NodeContent::default() };
    let waiting = |handled| {
        let node =
            Node { content: Some(content(handled)), ..node(Some(spec("b")), status(Some("a"), Some("a"), None)) };
        evaluate(&Target::Source(spec("b").into()), &node, WaitContext::STATE_ONLY)
    };
    assert_eq!(waiting(false), Convergence::Waiting(Waiting::NotAcknowledged));
    assert_eq!(waiting(true), Convergence::Waiting(Waiting::Activating));
}

/// A change of the placement alone keeps source and hash.
#[test]
fn agent_must_report_the_wanted_placement() {
    let (overlay, replace) = (Some(Placement::Overlay), Some(Placement::Replace));
    let wanted = Target::Source(WantedSource { placement: overlay, ..spec("b").into() });
    let state = |placement, active_placement, status: ConfigStatus| {
        let content = NodeContent { placement, active_placement, reported: true, ..NodeContent::default() };
        let node = Node { content: Some(content), ..node(Some(spec("b")), status) };
        evaluate(&wanted, &node, WaitContext::STATE_ONLY)
    };
    let running = || status(Some("b"), Some("b"), None);
    let waiting = |reported| Convergence::Waiting(Waiting::OtherPlacement { reported });
    assert_eq!(state(overlay, overlay, running()), Convergence::Converged);
    assert_eq!(state(None, overlay, running()), Convergence::Converged, "what an unset placement means to it");
    for spec in [None, replace] {
        assert_eq!(state(spec, replace, running()), Convergence::Waiting(Waiting::NotAssigned));
    }
    assert_eq!(state(overlay, replace, running()), waiting(replace));
    assert_eq!(state(overlay, None, running()), waiting(None), "an agent that does not know placements");
    assert_eq!(state(None, None, running()), waiting(None));
    let refused = status(Some("b"), Some("b"), Some("failed to validate config: it needs --activation file"));
    assert!(matches!(state(overlay, replace, refused), Convergence::Failed(ConvergenceFailure::Refused { .. })));
    // A kubelet that follows its Node reports none, and knows only replace.
    let kubelet = node(Some(spec("b")), running());
    assert_eq!(evaluate(&wanted, &kubelet, WaitContext::STATE_ONLY), Convergence::Converged);
}

/// An agent reports what its kubelet runs beside the reviewed values.
#[test]
fn overridden_values_fail_a_node_that_runs_its_target() {
    let value = |field: &str| OverriddenValue {
        field: field.to_owned(),
        reviewed: Some("60".to_owned()),
        running: Some("50".to_owned()),
        by: Some("--a-flag".to_owned()),
    };
    let state = |fields: &[&str], more, accepted: Option<&[&str]>, status: ConfigStatus| {
        let may_override = accepted.map(|accepted| accepted.iter().map(ToString::to_string).collect());
        let target = Target::Source(WantedSource { may_override, ..spec("b").into() });
        let overridden = fields.iter().map(|field| value(field)).collect();
        let proof = Some(Arc::new(Proof::Known { overridden, more, above: Vec::new() }));
        let node = Node { proof, ..node(Some(spec("b")), status) };
        match evaluate(&target, &node, WaitContext::STATE_ONLY) {
            Convergence::Failed(failure) => {
                assert!(!failure.may_be_the_configuration());
                failure.to_string()
            }
            other => format!("{other:?}"),
        }
    };
    let running = || status(Some("b"), Some("b"), None);
    let converged = "Converged";
    let failed = |field: &str| format!("{field} is 50 by the flag --a-flag, reviewed is 60");
    assert_eq!(state(&["maxPods"], 0, Some(&[]), running()), failed("maxPods"));
    assert_eq!(state(&["maxPods", "port"], 0, Some(&["maxPods"]), running()), failed("port"));
    assert_eq!(state(&["maxPods"], 2, Some(&[]), running()), failed("maxPods") + "; and 2 more");
    let unlisted = "the kubelet overrides 2 reviewed values that its agent does not list";
    assert_eq!(state(&[], 2, Some(&["maxPods"]), running()), unlisted);
    assert_eq!(state(&["maxPods"], 2, Some(&["maxPods"]), running()), converged, "the list has every field");
    assert_eq!(state(&["maxPods"], 0, Some(&["maxPods"]), running()), converged);
    assert_eq!(state(&["maxPods"], 0, None, running()), converged, "any counts");
    // A field with all its keys, one key, and no other name that begins so.
    let key = "evictionHard.memory.available";
    assert_eq!(state(&[key], 0, Some(&["evictionHard"]), running()), converged);
    assert_eq!(state(&[key], 0, Some(&[key]), running()), converged);
    assert_eq!(state(&["evictionHardX"], 0, Some(&["evictionHard"]), running()), failed("evictionHardX"));
    assert_eq!(state(&["evictionHard"], 0, Some(&[key]), running()), failed("evictionHard"));
    // Before it runs the target, what it runs says nothing about the target.
    assert_eq!(state(&["maxPods"], 0, Some(&[]), status(Some("b"), Some("a"), None)), "Waiting(Activating)");
    let unknown = Node {
        proof: Some(Arc::new(Proof::Unknown { reason: "no process".to_owned() })),
        ..node(Some(spec("b")), running())
    };
    let target = Target::Source(WantedSource { may_override: Some(BTreeSet::new()), ..spec("b").into() });
    assert_eq!(evaluate(&target, &unknown, WaitContext::STATE_ONLY), Convergence::Converged);
}
