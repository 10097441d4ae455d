//! Tests of invalid inputs, refused API requests, and cancelled jobs.

use std::fs;

use crate::action::github::{Answer, Github, TOKEN};
use crate::action::job::{Job, possible};
use crate::action::workspace::{KUBELET, Workspace, changed};

const COMMENT: &str = "Comment on the pull request";

#[test]
fn invalid_inputs_are_refused_before_download() {
    if !possible() {
        return;
    }
    let github = Github::start();
    let workspace = Workspace::of(&[("pools/gpu/kubelet.yaml", KUBELET)]);
    for (command, input, value, saying) in [
        ("apply", "comment", "auto", "one of: validate diff sync verify"),
        ("diff", "comment", "maybe", "one of: auto true false"),
        ("diff", "fail-on", "whatever", "one of: error changes"),
        ("sync", "fail-on", "changes", "input fail-on is for command: diff"),
        ("sync", "against", "main", "input against is for command: diff"),
        ("diff", "plan", "plan.json", "input plan is for command: sync"),
        ("verify", "plan-out", "plan.json", "input plan-out is for command: diff"),
        ("validate", "kubeconfig", "{}", "input kubeconfig is for command: diff sync verify"),
        ("validate", "kubeconfig", "", "input kubeconfig is for command: diff sync verify"),
        ("validate", "kubeconfig-path", "kubeconfig", "input kubeconfig-path is for command: diff sync verify"),
        ("validate", "context", "prod", "input context is for command: diff sync verify"),
        ("diff", "path", "", "input path is empty"),
        ("diff", "sha256", "abc", "is not a SHA-256"),
        ("sync", "kubeconfig", "", "input kubeconfig is empty"),
        ("sync", "kubeconfig-path", "nowhere", "file nowhere does not exist"),
    ] {
        let outcome = Job::push(&workspace, &github).with("command", command).with(input, value).run();
        outcome.failed_in("Check the inputs", saying);
        // Only steps that run after a failure have run.
        assert!(outcome.steps.len() <= 2, "{}", outcome.log());
    }
    let spaces = Job::push(&workspace, &github).with("command", "sync").with("kubeconfig", " \n").run();
    spaces.failed_in("Write the kubeconfig", "only spaces");
    assert!(spaces.left("kubeconfig").is_empty());
}

#[test]
fn token_is_in_no_argument_and_no_variable_of_other_programs() {
    if !possible() {
        return;
    }
    let (github, workspace, notes) = (Github::start(), changed(), tempfile::tempdir().unwrap());
    let seen = notes.path().join("seen");
    let path = std::env::var("PATH").unwrap();
    let curl = format!(
        "#!/bin/sh\n{{ printf '%s\\n' \"$@\"; env; }} >>'{}'\nPATH='{path}' exec curl \"$@\"\n",
        seen.display()
    );
    let job = Job::pull_request("acme/fleet", &workspace, &github).with("command", "diff");
    job.program("curl", &curl).run().passed();
    let seen = fs::read_to_string(seen).unwrap();
    assert!(seen.contains("/issues/7/comments") && !seen.contains(TOKEN));
    assert_eq!(github.state().comments.len(), 1);
}

#[test]
fn refusals_are_reported_once_with_required_permission() {
    if !possible() {
        return;
    }
    let (github, workspace) = (Github::start(), changed());
    let job = || {
        Job::pull_request("acme/fleet", &workspace, &github)
            .with("command", "diff")
            .variable("NODECFG_ACTION_PAUSE", "0")
    };
    let later = Answer::of(403, "API rate limit exceeded")
        .header("x-ratelimit-remaining", 0)
        .header("x-ratelimit-reset", u32::MAX);
    for (answer, tries, saying) in [
        (Answer::of(403, "Resource not accessible by integration"), 1, "403"),
        (Answer::of(404, "Not Found"), 1, "404"),
        (Answer::of(422, "Validation Failed"), 1, "422"),
        (Answer::of(301, "Moved Permanently"), 1, "301"),
        (later, 1, "requests a pause of"),
        (Answer::of(429, "Too many").header("retry-after", 4000), 1, "requests a pause of 4000 s"),
        (Answer::of(500, "Server Error"), 5, "each of 5 tries"),
    ] {
        github.state().requests.clear();
        github.state().always = Some(answer.clone());
        let outcome = job().run();
        outcome
            .failed_in(COMMENT, saying)
            .failed_in(COMMENT, "pull-requests: write")
            .failed_in(COMMENT, answer.message);
        let errors = outcome.commands.iter().filter(|command| command.starts_with("error "));
        assert_eq!(errors.count(), 1, "{:#?}", outcome.commands);
        let posts = github.state().requests.iter().filter(|request| request.starts_with("POST")).count();
        assert_eq!(posts, tries, "{saying}");
        assert!(outcome.summary.contains("maxPods"), "{}", outcome.summary);
    }
    job().with("token", "another").run().failed_in(COMMENT, "401");
    job().with("token", "").run().failed_in(COMMENT, "input token is empty");
    job().variable("GITHUB_API_URL", "http://127.0.0.1:1").run().failed_in(COMMENT, "each of 5 tries");
}

#[test]
fn transient_refusals_are_retried() {
    if !possible() {
        return;
    }
    let (github, workspace) = (Github::start(), changed());
    github.state().instead.extend([
        Answer::of(429, "Too many").header("Retry-After", 0),
        Answer::of(502, "Bad gateway"),
        Answer::of(403, "You have exceeded a secondary rate limit").header("retry-after", 1),
    ]);
    let job = Job::pull_request("acme/fleet", &workspace, &github).with("command", "diff");
    job.variable("NODECFG_ACTION_PAUSE", "0").run().passed();
    assert_eq!(github.state().comments.len(), 1);
}

#[test]
fn comment_with_lost_response_is_not_duplicated() {
    if !possible() {
        return;
    }
    let (github, workspace) = (Github::start(), changed());
    let mark = github.state().comments.len();
    github.state().instead.push_back(Answer::of(504, "Gateway timeout"));
    // The proxy timed out, but the comment exists.
    github
        .state()
        .comment(crate::action::github::BOT, "<!-- nodecfg diff . -->\nmade by the request without an answer");
    let job = Job::pull_request("acme/fleet", &workspace, &github).with("command", "diff");
    job.variable("NODECFG_ACTION_PAUSE", "0").run().passed();
    assert_eq!(github.state().comments.len(), mark + 1);
}

/// Replaces nodecfg in a job by a shell script.
pub fn with_program(job: Job, script: &str) -> Job {
    let cargo = format!(
        "#!/bin/sh\nwhile [ $# -gt 0 ]; do [ \"$1\" = --target-dir ] && target=$2; shift; done\nmkdir -p \"$target/release\"\n\
         cat >\"$target/release/nodecfg\" <<'END_OF_PROGRAM'\n#!/bin/sh\n{script}\nEND_OF_PROGRAM\n\
         chmod +x \"$target/release/nodecfg\"\n"
    );
    job.local().with("build", "true").program("cargo", &cargo)
}

#[test]
fn cancelled_job_interrupts_nodecfg_and_waits() {
    if !possible() {
        return;
    }
    let (github, notes) = (Github::start(), tempfile::tempdir().unwrap());
    let workspace = Workspace::of(&[("pools/gpu/kubelet.yaml", KUBELET)]);
    let (started, ended) = (notes.path().join("started"), notes.path().join("ended"));
    // Stops like sync: with a delay, its own exit code, and output.
    let program = format!(
        "trap stopping=true TERM INT\necho started >&2\n: >'{}'\nn=0\nwhile [ -z \"$stopping\" ]; do sleep 0.05; \
         n=$((n+1)); [ $n -lt 1200 ] || exit 9; done\nsleep 0.3\necho 'the nodes in transition are done' >&2\necho $$ >'{}'\nexit 5",
        started.display(),
        ended.display()
    );
    let job = Job::push(&workspace, &github).with("command", "sync").with("kubeconfig", "{}");
    let outcome = with_program(job, &program).cancelled_at(started).run();
    assert!(ended.exists(), "nodecfg was not stopped: {}", outcome.log());
    assert_eq!(outcome.output("exit-code"), "5");
    assert!(outcome.log().contains("the nodes in transition are done"), "{}", outcome.log());
    // Of the later steps, only the cleanup runs.
    let last = outcome.steps.last().unwrap();
    assert_eq!(last.name, "Remove the kubeconfig", "{}", outcome.log());
    assert!(outcome.left("kubeconfig").is_empty());
}

#[test]
fn report_too_long_for_job_summary_is_shortened() {
    if !possible() {
        return;
    }
    let github = Github::start();
    let workspace = Workspace::of(&[("pools/gpu/kubelet.yaml", KUBELET)]);
    // Prints as many bytes as configured, and the short form for comments. The job limits every page to 1 MiB.
    let program = |bytes: usize| {
        format!(
            "for argument; do case $argument in\n--report=markdown=*) head -c {bytes} /dev/zero | tr '\\0' x \
             >\"${{argument#--report=markdown=}}\" ;;\nesac; done\necho the short form"
        )
    };
    let run = |command: &str, bytes| {
        let outcome = with_program(Job::push(&workspace, &github).with("command", command), &program(bytes)).run();
        outcome.passed();
        let report = fs::read(outcome.output("report-markdown")).unwrap();
        assert_eq!(report.len(), bytes, "the output contains the whole report");
        outcome.summary
    };
    assert_eq!(run("diff", 1_000_000).len(), 1_000_000);
    assert_eq!(run("diff", 1_200_000), "the short form\n");
    let validate = run("validate", 1_200_000);
    assert!(validate.contains("nodecfg validate ended with exit code 0"), "{validate}");
    assert!(validate.contains("too long for this page"), "{validate}");
}
