//! Tests of pull requests: one comment, which later runs update.

use crate::action::github::{Answer, BOT, Github};
use crate::action::job::{Job, Outcome, possible};
use crate::action::workspace::{KUBELET, Workspace, changed, unchanged};

const MARKER: &str = "<!-- nodecfg diff . -->";
const UP_TO_DATE: &str = "acme/fleet";

fn diff(workspace: &Workspace, github: &Github) -> Outcome {
    Job::pull_request(UP_TO_DATE, workspace, github).with("command", "diff").run()
}

#[test]
fn first_run_comments_and_later_runs_update_the_comment() {
    if !possible() {
        return;
    }
    let github = Github::start();
    let workspace = changed();
    let first = diff(&workspace, &github);
    first.passed();
    {
        let state = github.state();
        assert_eq!(state.comments.len(), 1);
        let body = state.body(0);
        assert!(body.starts_with(MARKER), "{body}");
        assert!(body.contains("maxPods") && body.contains("`64`"), "{body}");
        assert!(!body.contains("web") || body.find("gpu") < body.find("web"), "{body}");
        assert!(body.contains("/acme/fleet/actions/runs/4711"), "{body}");
        assert_eq!(first.output("comment-url"), state.comments[0]["html_url"]);
    }
    assert!(first.summary.contains("maxPods"), "{}", first.summary);
    assert!(!first.summary.contains(MARKER));
    assert_eq!((first.output("changed"), first.output("exit-code")), ("true", "1"));
    assert!(std::path::Path::new(first.output("report-json")).exists());
    assert!(std::path::Path::new(first.output("report-markdown")).exists());

    // An unchanged diff writes nothing.
    let again = diff(&workspace, &github);
    again.passed();
    assert_eq!(again.output("comment-url"), first.output("comment-url"));
    assert_eq!(github.state().requests.iter().filter(|request| !request.starts_with("GET")).count(), 1);

    let other = Workspace::of(&[("pools/gpu/kubelet.yaml", KUBELET)])
        .merging(&[("pools/gpu/kubelet.yaml", &KUBELET.replace("32", "99"))])
        .fetched(2);
    diff(&other, &github).passed();
    let state = github.state();
    assert_eq!(state.comments.len(), 1);
    assert!(state.body(0).contains("`99`") && !state.body(0).contains("`64`"), "{}", state.body(0));
}

#[test]
fn run_without_changes_updates_only_an_existing_comment() {
    if !possible() {
        return;
    }
    let github = Github::start();
    let workspace = unchanged();
    let quiet = || diff(&workspace, &github);
    let first = quiet();
    first.passed();
    assert_eq!((first.output("changed"), first.output("exit-code")), ("false", "0"));
    assert_eq!(first.output("comment-url"), "");
    assert!(github.state().comments.is_empty());

    github.state().comment(BOT, &format!("{MARKER}\nchanges of an earlier commit"));
    quiet().passed();
    let state = github.state();
    let body = state.body(0).trim_end().to_owned();
    assert!(body.starts_with(MARKER) && !body.contains("earlier"), "{body}");
    // The marker, the text, what was compared, the pool, and the commit.
    assert_eq!(body.lines().filter(|line| !line.is_empty()).count(), 5, "{body}");
    assert!(body.ends_with(&format!("<sub>of commit {}</sub>", &workspace.commits()[2][..12])), "{body}");
}

#[test]
fn changes_only_own_comment_with_own_marker() {
    if !possible() {
        return;
    }
    let github = Github::start();
    {
        let mut state = github.state();
        state.comment("mallory", &format!("{MARKER}\nnot by us"));
        state.comment(BOT, "<!-- nodecfg diff other -->\nof another fleet");
        state.comment(BOT, "a comment of another action");
        state.comment("ghost", &format!("quoted: {MARKER}"));
    }
    diff(&changed(), &github).passed();
    let state = github.state();
    assert_eq!(state.comments.len(), 5);
    assert!(!state.requests.iter().any(|request| request.starts_with("PATCH")), "{:?}", state.requests);
}

#[test]
fn finds_comment_on_second_page_and_retires_duplicate() {
    if !possible() {
        return;
    }
    let github = Github::start();
    let (first, second) = {
        let mut state = github.state();
        for _ in 0..120 {
            state.comment("somebody", "words");
        }
        let key = "<!-- nodecfg diff prod%20%3E%20eu -->";
        (state.comment(BOT, &format!("{key}\nold")), state.comment(BOT, &format!("{key}\nof a run at the same time")))
    };
    let workspace = changed();
    let job = Job::pull_request(UP_TO_DATE, &workspace, &github).with("command", "diff");
    let outcome = job.with("comment-key", "prod > eu").run();
    outcome.passed();
    let state = github.state();
    assert_eq!(state.comments.len(), 122);
    assert!(state.body(120).contains("maxPods"), "{}", state.body(120));
    assert!(state.body(121).starts_with("Superseded by [this comment]"), "{}", state.body(121));
    assert!(outcome.output("comment-url").ends_with(&first.to_string()));
    assert!(state.requests.contains(&format!("PATCH /repos/acme/fleet/issues/comments/{second}")));
}

#[test]
fn fork_without_permission_has_summary_and_no_comment() {
    if !possible() {
        return;
    }
    let github = Github::start();
    github.state().always = Some(Answer::of(403, "Resource not accessible by integration"));
    let workspace = changed();
    let job = |comment: &str, head: &str| {
        Job::pull_request(head, &workspace, &github).with("command", "diff").with("comment", comment).run()
    };
    let forked = job("auto", "mallory/fleet");
    forked.passed();
    assert!(forked.summary.contains("maxPods"), "{}", forked.summary);
    assert!(forked.commands.iter().any(|command| command.starts_with("notice ")), "{:?}", forked.commands);

    job("true", "mallory/fleet").failed_in("Comment on the pull request", "pull-requests: write");
    // Not a fork: the permission is missing in the workflow.
    job("auto", "acme/fleet").failed_in("Comment on the pull request", "pull-requests: write");
    let never = job("false", "acme/fleet");
    never.passed();
    assert!(never.summary.contains("maxPods"), "{}", never.summary);
}

#[test]
fn too_long_diff_is_shortened_in_comment() {
    if !possible() {
        return;
    }
    let fields = [
        "maxPods",
        "podPidsLimit",
        "registryPullQPS",
        "registryBurst",
        "eventRecordQPS",
        "eventBurst",
        "kubeAPIQPS",
        "kubeAPIBurst",
        "maxOpenFiles",
        "nodeStatusMaxImages",
    ];
    let head = KUBELET.replace("maxPods: 32\n", "");
    // Pools with the same change would be shown once.
    let pool = |index: usize, value: usize| {
        let fields: String = fields.iter().map(|field| format!("{field}: {}\n", value + index)).collect();
        (format!("pools/pool-{index:03}/kubelet.yaml"), format!("{head}{fields}"))
    };
    let files = |pods| (0..150).map(|index| pool(index, pods)).collect::<Vec<_>>();
    fn named(files: &[(String, String)]) -> Vec<(&str, &str)> {
        files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect()
    }
    let workspace = Workspace::of(&named(&files(4100))).merging(&named(&files(4200))).fetched(2);
    let github = Github::start();
    let outcome = diff(&workspace, &github);
    outcome.passed();
    let state = github.state();
    let length = state.body(0).chars().count();
    assert!((30_000..=65_536).contains(&length), "{length}");
    assert!(outcome.summary.len() > length, "the job summary contains the whole diff");
}

#[test]
fn pull_request_content_is_no_runner_command() {
    if !possible() {
        return;
    }
    let evil = KUBELET.replace("32", "64")
        + "clusterDomain: \"x ##[add-mask]maxPods\"\nnodeLeaseDurationSeconds: \"\\n::add-mask::y\"\n";
    let workspace =
        Workspace::of(&[("pools/gpu/kubelet.yaml", KUBELET)]).merging(&[("pools/gpu/kubelet.yaml", &evil)]).fetched(2);
    let github = Github::start();
    for command in ["diff", "validate"] {
        let outcome = Job::pull_request(UP_TO_DATE, &workspace, &github).with("command", command).run();
        let obeyed: Vec<&String> = outcome.commands.iter().filter(|command| command.contains("add-mask]")).collect();
        let others = outcome
            .commands
            .iter()
            .filter(|command| !["error ", "warning ", "notice "].iter().any(|known| command.starts_with(known)));
        assert_eq!(others.collect::<Vec<_>>(), Vec::<&String>::new(), "{}", outcome.log());
        // Inside an annotation's text, a command is plain text.
        assert!(obeyed.iter().all(|command| command.starts_with("error ") || command.starts_with("warning ")));
    }
}

#[test]
fn missing_base_and_wrong_checkout_are_reported() {
    if !possible() {
        return;
    }
    let github = Github::start();
    let shallow = Workspace::of(&[("pools/gpu/kubelet.yaml", KUBELET)]).merging(&[("a", "b")]).fetched(1);
    diff(&shallow, &github).failed_in("Pass or fail", "fetch-depth: 2");
    let head = Workspace::of(&[("pools/gpu/kubelet.yaml", KUBELET)]).then(&[("a", "b")]);
    diff(&head, &github).failed_in("Pass or fail", "not the merge commit");
}

#[test]
fn path_outside_checkout_has_no_default_base() {
    if !possible() {
        return;
    }
    let (github, workspace) = (Github::start(), changed());
    let url = format!("file://{}", workspace.path().display());
    let diff = || Job::pull_request("acme/fleet", &workspace, &github).with("command", "diff");
    for (input, value, saying) in [
        ("path", "https://git.example/fleet", "input path is a git URL"),
        ("path", "git@git.example:fleet", "input path is a git URL"),
        ("path", url.as_str(), "input path is a git URL"),
        ("revision", "main", "input revision is set"),
    ] {
        let outcome = diff().with(input, value).run();
        outcome.failed_in("Check the inputs", saying).failed_in("Check the inputs", "(input against)");
    }
    assert!(github.state().comments.is_empty());
    diff().with("revision", "HEAD").with("against", "HEAD^1").run().passed();
}

#[test]
fn branch_that_merged_main_is_not_the_merge_commit() {
    if !possible() {
        return;
    }
    let github = Github::start();
    let files = [("pools/gpu/kubelet.yaml", KUBELET)];
    let harmful = KUBELET.replace("32", "64");
    let branch = Workspace::branch_that_merged_main(&files, &[("pools/gpu/kubelet.yaml", &harmful)]);
    let commits = branch.commits();
    assert_eq!(commits.len(), 3);
    let job = || Job::pull_request(UP_TO_DATE, &branch, &github).with("command", "diff").head(&commits[0]);
    job().run().failed_in("Pass or fail", "not the merge commit").failed_in("Pass or fail", "(--against)");
    let outcome = job().with("against", "main").run();
    outcome.passed();
    assert!(outcome.summary.contains("maxPods"), "{}", outcome.summary);
}

#[test]
fn bare_repository_in_pull_request_runs_nothing() {
    if !possible() {
        return;
    }
    let outside = tempfile::tempdir().unwrap();
    let marker = outside.path().join("marker");
    let command = format!("touch {}", marker.display());
    // git reads HEAD of this repository and fetches the missing commit, by a command of the configuration.
    let config = format!(
        "[core]\nrepositoryformatversion = 1\nbare = true\nfsmonitor = {command}\nsshCommand = {command}\n\
         [extensions]\npartialClone = origin\n\
         [remote \"origin\"]\nurl = .\npromisor = true\nuploadpack = {command};\n"
    );
    let head = format!("{}\n", "1".repeat(40));
    let files = [
        ("prod/HEAD", head.as_str()),
        ("prod/config", &config),
        ("prod/objects/keep", ""),
        ("prod/refs/heads/keep", ""),
        ("prod/pools/gpu/kubelet.yaml", KUBELET),
    ];
    for depth in [1, 2] {
        let workspace = Workspace::of(&[("prod/pools/gpu/kubelet.yaml", KUBELET)]).merging(&files).fetched(depth);
        let github = Github::start();
        for (command, path) in [("diff", "prod"), ("validate", "prod"), ("diff", "prod/pools"), ("sync", "prod")] {
            let job = Job::pull_request(UP_TO_DATE, &workspace, &github).with("command", command).with("path", path);
            let outcome = job.run();
            assert!(!marker.exists(), "{command} {path} runs a command of the pull request:\n{}", outcome.log());
            outcome.failed_in("Pass or fail", "prod is a bare git repository inside the checkout");
            outcome.failed_in("Pass or fail", "(exit code 3)");
        }
    }
}

#[test]
fn failed_diff_marks_older_comment_as_outdated() {
    if !possible() {
        return;
    }
    let github = Github::start();
    github.state().comment(BOT, &format!("{MARKER}\nchanges of an earlier commit"));
    let workspace = changed();
    let job = || Job::pull_request(UP_TO_DATE, &workspace, &github).with("command", "diff");
    let head = &workspace.commits()[2][..12];
    let body = || github.state().body(0).to_owned();

    // Failures before the checkout, before the download, and of nodecfg.
    let runs = [
        ("Check the inputs", "the diff failed", job().with("fail-on", "whatever")),
        ("Download nodecfg", "the diff failed", job().with("version", "9.9.9")),
        ("Pass or fail", "ended with exit code 3", job().head(&"b".repeat(40))),
    ];
    for (step, words, run) in runs {
        github.state().comments[0]["body"] = format!("{MARKER}\nchanges of an earlier commit").into();
        let outcome = run.run();
        assert_eq!(outcome.failed(), Some(step), "{}", outcome.log());
        assert!(body().starts_with(MARKER) && body().contains(words), "{step}: {}", body());
        assert!(body().contains("/acme/fleet/actions/runs/4711") && !body().contains("changes of"), "{}", body());
    }
    job().run().passed();
    assert!(body().contains("maxPods") && body().contains(&format!("<sub>of commit {head} · ")), "{}", body());
    assert_eq!(github.state().comments.len(), 1);

    // Without an older comment, none is created.
    github.state().comments.clear();
    job().with("version", "9.9.9").run().failed_in("Download nodecfg", "9.9.9");
    assert!(github.state().comments.is_empty());
}

#[test]
fn run_for_older_push_keeps_newer_comment() {
    if !possible() {
        return;
    }
    let github = Github::start();
    let workspace = changed();
    github.state().comment(BOT, &format!("{MARKER}\nof the newer push"));
    github.state().head = Some("c".repeat(40));
    let late = diff(&workspace, &github);
    late.passed();
    assert!(late.commands.iter().any(|command| command.starts_with("notice ")), "{:?}", late.commands);
    assert!(github.state().body(0).contains("of the newer push"));
    assert!(late.summary.contains("maxPods"), "{}", late.summary);

    github.state().head = Some(workspace.commits()[2].clone());
    diff(&workspace, &github).passed();
    assert!(github.state().body(0).contains("maxPods"), "{}", github.state().body(0));
}

#[test]
fn short_page_is_not_the_last_page() {
    if !possible() {
        return;
    }
    // A shortened page and an empty page.
    for hidden in [1, 100] {
        let github = Github::start();
        {
            let mut state = github.state();
            for _ in 0..100 {
                let id = state.comment("somebody", "words");
                if state.hidden.len() < hidden {
                    state.hidden.push(id);
                }
            }
            state.comment(BOT, &format!("{MARKER}\nold"));
        }
        diff(&changed(), &github).passed();
        let state = github.state();
        assert_eq!(state.comments.len(), 101, "{hidden}");
        assert!(state.body(100).contains("maxPods"), "{}", state.body(100));
    }
}
