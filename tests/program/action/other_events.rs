//! Tests of runs without a pull request, and of `validate`.

use crate::action::github::Github;
use crate::action::job::{Job, possible};
use crate::action::workspace::{KUBELET, Workspace, changed};

#[test]
fn push_has_summary_and_no_comment() {
    if !possible() {
        return;
    }
    let github = Github::start();
    let workspace = changed();
    let job = || Job::push(&workspace, &github).with("command", "diff").with("against", "HEAD^1");
    let outcome = job().run();
    outcome.passed();
    assert!(outcome.summary.contains("maxPods"), "{}", outcome.summary);
    assert_eq!(outcome.output("comment-url"), "");
    assert!(github.state().requests.is_empty());
    job().with("comment", "true").run().failed_in("Comment on the pull request", "has no pull request");
}

#[test]
fn input_selects_which_results_fail_the_job() {
    if !possible() {
        return;
    }
    let github = Github::start();
    let workspace = changed();
    let job = |limit: &str| {
        Job::push(&workspace, &github).with("command", "diff").with("against", "HEAD^1").with("fail-on", limit).run()
    };
    let changes = job("changes");
    changes.failed_in("Pass or fail", "diff found changes");
    // The result is reported nevertheless.
    assert!(changes.summary.contains("maxPods"), "{}", changes.summary);
    job("restart").failed_in("Pass or fail", "gpu (");
    job("never").passed();
}

#[test]
fn finding_annotations_are_relative_to_the_checkout() {
    if !possible() {
        return;
    }
    let github = Github::start();
    let invalid = [(
        "fleets/eu/pools/gpu/kubelet.yaml",
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: -5\n",
    )];
    let workspace = Workspace::of(&[("fleets/eu/pools/gpu/kubelet.yaml", KUBELET)]).merging(&invalid).fetched(2);
    for command in ["validate", "diff"] {
        let job = Job::pull_request("acme/fleet", &workspace, &github).with("command", command);
        let outcome = job.with("path", "fleets/eu").run();
        outcome.failed_in("Pass or fail", "exit code 3");
        let place = "error file=fleets/eu/pools/gpu/kubelet.yaml,line=3,col=10,";
        let placed = outcome.commands.iter().filter(|command| command.starts_with(place));
        assert_eq!(placed.count(), 1, "{command}: {:#?}", outcome.commands);
        assert!(outcome.summary.contains("maxPods"), "{command}: {}", outcome.summary);
        assert_eq!(outcome.output("exit-code"), "3");
    }
    assert!(github.state().comments.is_empty(), "nothing to review");
}

#[test]
fn valid_repository_is_reported_with_counts() {
    if !possible() {
        return;
    }
    let github = Github::start();
    let workspace = Workspace::of(&[("pools/gpu/kubelet.yaml", KUBELET)]);
    let outcome = Job::push(&workspace, &github).run();
    outcome.passed();
    let counts: serde_json::Value = serde_json::from_str(outcome.output("counts")).unwrap();
    assert_eq!((&counts["pools"], &counts["errors"]), (&1.into(), &0.into()), "{counts}");
    assert_eq!((outcome.output("changed"), outcome.output("exit-code")), ("", "0"));
    assert!(outcome.summary.contains("1 pool valid"), "{}", outcome.summary);
}
