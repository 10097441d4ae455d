//! Tests of the judgement of pods: tables, and properties over arbitrary lists.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::drain::fixtures::pod;
use nodecfg_observed::Rejection;

fn ready(name: &str) -> Pod {
    Pod { ready: true, ..pod(name) }
}

fn unready(name: &str) -> Pod {
    Pod { ready: false, ..pod(name) }
}

fn refused(name: &str, reason: &str) -> Pod {
    let rejection = Rejection { reason: reason.to_owned(), message: format!("Pod was rejected: {name}") };
    Pod { ready: false, finished: true, rejection: Some(Box::new(rejection)), ..pod(name) }
}

fn judge(before: &[Pod], after: &[Pod]) -> PodsVerdict {
    PodsBefore::of(before).judge(after)
}

fn late(pods: usize, examples: &[&str]) -> PodsVerdict {
    let examples = examples.iter().map(|name| format!("web/{name}")).collect();
    PodsVerdict::Late(LatePods { pods, examples })
}

fn refusal(pods: usize, name: &str, reason: &str) -> PodsVerdict {
    PodsVerdict::Refused(RefusedPods {
        pods,
        pod: format!("web/{name}"),
        code: reason.to_owned(),
        message: format!("Pod was rejected: {name}"),
    })
}

const ERROR: &str = "UnexpectedAdmissionError";

#[test]
fn pods_that_were_ready_must_be_ready() {
    assert_eq!(judge(&[], &[]), PodsVerdict::Back);
    assert_eq!(judge(&[ready("a")], &[ready("a")]), PodsVerdict::Back);
    assert_eq!(judge(&[ready("a")], &[unready("a")]), late(1, &["a"]));
    let before = ["d", "b", "a", "c", "e"].map(ready);
    let after = ["d", "b", "a", "c"].map(unready);
    assert_eq!(judge(&before, &after), late(4, &["a", "b", "c"]));
}

#[test]
fn other_pods_that_are_not_ready_do_not_count() {
    let ended = Pod { finished: true, ..unready("a") };
    let deleting = Pod { deleting: true, ..unready("a") };
    let replaced = Pod { uid: "another".to_owned(), ..unready("a") };
    for after in [vec![], vec![ended.clone()], vec![deleting.clone()], vec![replaced]] {
        assert_eq!(judge(&[ready("a")], &after), PodsVerdict::Back, "{after:?}");
    }
    // A pod that was not Ready, had ended or was being deleted owes nothing.
    for before in [vec![], vec![unready("a")], vec![ended], vec![Pod { ready: true, ..deleting }]] {
        assert_eq!(judge(&before, &[unready("a")]), PodsVerdict::Back, "{before:?}");
    }
    let done = Pod { finished: true, ..ready("a") };
    assert_eq!(judge(&[done], &[unready("a")]), PodsVerdict::Back);
}

#[test]
fn refused_pods_count_once_the_node_was_assigned() {
    for before in [vec![], vec![ready("a")], vec![unready("a")]] {
        assert_eq!(judge(&before, &[refused("a", ERROR)]), refusal(1, "a", ERROR), "{before:?}");
    }
    // The kubelet had refused the pod before.
    assert_eq!(judge(&[refused("a", ERROR)], &[refused("a", ERROR)]), PodsVerdict::Back);
    // Its controller deletes the refused pod and replaces it.
    let deleted = Pod { deleting: true, ..refused("a", ERROR) };
    assert_eq!(judge(&[ready("a")], &[deleted, ready("b")]), refusal(1, "a", ERROR));
    let others = [refused("c", "NodeAffinity"), refused("b", "SMTAlignmentError"), unready("a")];
    assert_eq!(judge(&[ready("a")], &others), refusal(2, "b", "SMTAlignmentError"));
}

/// The scheduler and the kubelet may disagree for a moment whether a new pod fits.
#[test]
fn lack_of_room_counts_for_pods_that_were_here() {
    for before in [ready("a"), unready("a")] {
        assert_eq!(judge(&[before], &[refused("a", "OutOfpods")]), refusal(1, "a", "OutOfpods"));
    }
    assert_eq!(judge(&[ready("b")], &[refused("a", "OutOfpods"), ready("b")]), PodsVerdict::Back);
    let both = [refused("a", "OutOfcpu"), refused("b", ERROR)];
    assert_eq!(judge(&[], &both), refusal(1, "b", ERROR));
}

#[test]
fn idle_node_has_no_pods_that_run_or_wait() {
    let ended = Pod { finished: true, ready: false, ..pod("a") };
    for (pods, idle, count) in [
        (vec![], true, 0),
        (vec![ended.clone(), refused("b", ERROR), Pod { deleting: true, ..ready("c") }], true, 0),
        (vec![ready("a")], false, 1),
        (vec![unready("a")], false, 0),
        (vec![ready("a"), ready("b"), unready("c"), ended], false, 2),
    ] {
        let before = PodsBefore::of(&pods);
        assert_eq!((before.is_idle(), before.ready(), ready_pods(&pods)), (idle, count, count), "{pods:?}");
    }
}

#[test]
fn failures_name_pods_and_the_kubelets_message() {
    let text = |verdict: PodsVerdict| match verdict {
        PodsVerdict::Late(late) => late.to_string(),
        PodsVerdict::Refused(refused) => refused.to_string(),
        PodsVerdict::Back => String::new(),
    };
    assert_eq!(text(late(1, &["a"])), "1 pod is not Ready again: web/a");
    assert_eq!(text(late(3, &["a", "b", "c"])), "3 pods are not Ready again: web/a, web/b, web/c");
    assert_eq!(text(late(5, &["a", "b", "c"])), "5 pods are not Ready again: web/a, web/b, web/c, and 2 more");
    assert_eq!(
        text(refusal(1, "a", ERROR)),
        "the kubelet refused pod web/a: UnexpectedAdmissionError: Pod was rejected: a"
    );
    assert_eq!(
        text(refusal(2, "a", ERROR)),
        "the kubelet refused pod web/a and 1 more pod: UnexpectedAdmissionError: Pod was rejected: a"
    );
    let silent =
        RefusedPods { pods: 3, pod: "web/a".to_owned(), code: "NodeAffinity".to_owned(), message: String::new() };
    assert_eq!(silent.to_string(), "the kubelet refused pod web/a and 2 more pods: NodeAffinity");
}

fn pods() -> impl Strategy<Value = Vec<Pod>> {
    let reasons = prop_oneof![
        4 => Just(None),
        1 => Just(Some(ERROR)),
        1 => Just(Some("OutOfcpu")),
    ];
    let one = (0..12_usize, any::<bool>(), any::<bool>(), any::<bool>(), reasons);
    vec(one, 0..12).prop_map(|list| {
        let mut pods: Vec<Pod> = Vec::new();
        for (name, ready, finished, deleting, reason) in list {
            let name = format!("p{name}");
            let pod = match reason {
                Some(reason) => refused(&name, reason),
                None => Pod { ready, finished, deleting, ..pod(&name) },
            };
            if pods.iter().all(|other| other.uid != pod.uid) {
                pods.push(pod);
            }
        }
        pods
    })
}

proptest! {
    /// A node whose pods did not change is never blamed.
    #[test]
    fn unchanged_pods_are_back(pods in pods()) {
        prop_assert_eq!(judge(&pods, &pods), PodsVerdict::Back);
    }

    /// The order of a list decides nothing.
    #[test]
    fn order_of_the_lists_decides_nothing(before in pods(), after in pods()) {
        let reversed = |pods: &[Pod]| pods.iter().rev().cloned().collect::<Vec<_>>();
        prop_assert_eq!(judge(&before, &after), judge(&reversed(&before), &reversed(&after)));
    }

    /// Compares with a statement of the rules, pod by pod.
    #[test]
    fn verdict_follows_the_rules(before in pods(), after in pods()) {
        let was = |pod: &Pod| before.iter().find(|other| other.uid == pod.uid);
        let runs = |pod: &Pod| !pod.finished && !pod.deleting;
        let is_refused = |pod: &&Pod| match (&pod.rejection, was(pod)) {
            (None, _) => false,
            (Some(rejection), None) => rejection.reason == ERROR,
            (Some(rejection), Some(old)) => {
                old.rejection.is_none() && (runs(old) || rejection.reason == ERROR)
            }
        };
        let is_late = |pod: &&Pod| runs(pod) && !pod.ready && was(pod).is_some_and(|old| runs(old) && old.ready);
        let (refused, late) = (after.iter().filter(is_refused).count(), after.iter().filter(is_late).count());
        match judge(&before, &after) {
            PodsVerdict::Refused(found) => prop_assert_eq!(found.pods, refused),
            PodsVerdict::Late(found) => {
                prop_assert_eq!((0, found.pods), (refused, late));
                prop_assert_eq!(found.examples.len(), late.min(3));
            }
            PodsVerdict::Back => prop_assert_eq!((refused, late), (0, 0)),
        }
    }
}
