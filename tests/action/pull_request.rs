//! Pull requests: one comment, kept up to date.

use crate::github::{Answer, BOT, Github};
use crate::job::{Job, Outcome, possible};
use crate::workspace::{KUBELET, Workspace, changed, unchanged};

const MARKER: &str = "<!-- nodecfg diff . -->";
const UP_TO_DATE: &str = "acme/fleet";

fn diff(workspace: &Workspace, github: &Github) -> Outcome {
    Job::pull_request(UP_TO_DATE, workspace, github).with("command", "diff").run()
}

#[test]
fn the_first_run_comments_and_later_ones_update_that() {
    if !possible() {
        return;
    }
    let github = Github::start();
    let workspace = changed();
    let first = diff(&workspace, &github);
    first.passed();
    {
        let world = github.world();
        assert_eq!(world.comments.len(), 1);
        let body = world.body(0);
        assert!(body.starts_with(MARKER), "{body}");
        assert!(body.contains("maxPods") && body.contains("`64`"), "{body}");
        assert!(!body.contains("web") || body.find("gpu") < body.find("web"), "{body}");
        assert!(body.contains("/acme/fleet/actions/runs/4711"), "{body}");
        assert_eq!(first.output("comment-url"), world.comments[0]["html_url"]);
    }
    assert!(first.summary.contains("maxPods"), "{}", first.summary);
    assert!(!first.summary.contains(MARKER));
    assert_eq!((first.output("changed"), first.output("exit-code")), ("true", "1"));
    assert!(std::path::Path::new(first.output("report-json")).exists());
    assert!(std::path::Path::new(first.output("report-markdown")).exists());

    // The same again: nothing to write.
    let again = diff(&workspace, &github);
    again.passed();
    assert_eq!(again.output("comment-url"), first.output("comment-url"));
    assert_eq!(github.world().requests.iter().filter(|request| !request.starts_with("GET")).count(), 1);

    let other = Workspace::of(&[("pools/gpu/kubelet.yaml", KUBELET)])
        .merging(&[("pools/gpu/kubelet.yaml", &KUBELET.replace("32", "99"))])
        .fetched(2);
    diff(&other, &github).passed();
    let world = github.world();
    assert_eq!(world.comments.len(), 1);
    assert!(world.body(0).contains("`99`") && !world.body(0).contains("`64`"), "{}", world.body(0));
}

#[test]
fn without_changes_there_is_no_new_comment_and_an_old_one_says_so() {
    if !possible() {
        return;
    }
    let github = Github::start();
    let workspace = unchanged();
    let quiet =
        || Job::pull_request(UP_TO_DATE, &workspace, &github).with("command", "diff").head(&"b".repeat(40)).run();
    let first = quiet();
    first.passed();
    assert_eq!((first.output("changed"), first.output("exit-code")), ("false", "0"));
    assert_eq!(first.output("comment-url"), "");
    assert!(github.world().comments.is_empty());

    github.world().comment(BOT, &format!("{MARKER}\nchanges of an earlier commit"));
    quiet().passed();
    let world = github.world();
    let body = world.body(0).trim_end().to_owned();
    assert!(body.starts_with(MARKER) && !body.contains("earlier"), "{body}");
    // The marker, what there is to say, and of which commit.
    assert_eq!(body.lines().filter(|line| !line.is_empty()).count(), 3, "{body}");
    assert!(body.ends_with(&format!("<sub>of commit {}</sub>", &"b".repeat(12))), "{body}");
}

#[test]
fn only_our_own_comment_with_our_own_marker_is_changed() {
    if !possible() {
        return;
    }
    let github = Github::start();
    {
        let mut world = github.world();
        world.comment("mallory", &format!("{MARKER}\nnot by us"));
        world.comment(BOT, "<!-- nodecfg diff other -->\nof another fleet");
        world.comment(BOT, "a comment of another action");
        world.comment("ghost", &format!("quoted: {MARKER}"));
    }
    diff(&changed(), &github).passed();
    let world = github.world();
    assert_eq!(world.comments.len(), 5);
    assert!(!world.requests.iter().any(|request| request.starts_with("PATCH")), "{:?}", world.requests);
}

#[test]
fn a_comment_on_the_second_page_is_found_and_a_second_one_is_retired() {
    if !possible() {
        return;
    }
    let github = Github::start();
    let (first, second) = {
        let mut world = github.world();
        for _ in 0..120 {
            world.comment("somebody", "words");
        }
        let key = "<!-- nodecfg diff prod%20%3E%20eu -->";
        (world.comment(BOT, &format!("{key}\nold")), world.comment(BOT, &format!("{key}\nof a run at the same time")))
    };
    let workspace = changed();
    let job = Job::pull_request(UP_TO_DATE, &workspace, &github).with("command", "diff");
    let outcome = job.with("comment-key", "prod > eu").run();
    outcome.passed();
    let world = github.world();
    assert_eq!(world.comments.len(), 122);
    assert!(world.body(120).contains("maxPods"), "{}", world.body(120));
    assert!(world.body(121).starts_with("Superseded by [this comment]"), "{}", world.body(121));
    assert!(outcome.output("comment-url").ends_with(&first.to_string()));
    assert!(world.requests.contains(&format!("PATCH /repos/acme/fleet/issues/comments/{second}")));
}

#[test]
fn a_fork_without_rights_has_its_summary_and_no_comment() {
    if !possible() {
        return;
    }
    let github = Github::start();
    github.world().always = Some(Answer::of(403, "Resource not accessible by integration"));
    let workspace = changed();
    let job = |comment: &str, head: &str| {
        Job::pull_request(head, &workspace, &github).with("command", "diff").with("comment", comment).run()
    };
    let forked = job("auto", "mallory/fleet");
    forked.passed();
    assert!(forked.summary.contains("maxPods"), "{}", forked.summary);
    assert!(forked.commands.iter().any(|command| command.starts_with("notice ")), "{:?}", forked.commands);

    job("true", "mallory/fleet").failed_in("Comment on the pull request", "pull-requests: write");
    // Not a fork: somebody forgot the permission.
    job("auto", "acme/fleet").failed_in("Comment on the pull request", "pull-requests: write");
    let never = job("false", "acme/fleet");
    never.passed();
    assert!(never.summary.contains("maxPods"), "{}", never.summary);
}

#[test]
fn a_diff_that_is_too_long_still_is_a_comment() {
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
    let pool = |index: usize, value: usize| {
        let fields: String = fields.iter().map(|field| format!("{field}: {value}\n")).collect();
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
    let world = github.world();
    let length = world.body(0).chars().count();
    assert!((30_000..=65_536).contains(&length), "{length}");
    assert!(outcome.summary.len() > length, "the job summary has room for all of it");
}

#[test]
fn what_a_pull_request_says_is_no_command_to_the_runner() {
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
        // Within the text of an annotation it is text.
        assert!(obeyed.iter().all(|command| command.starts_with("error ") || command.starts_with("warning ")));
    }
}

#[test]
fn a_base_that_was_not_fetched_and_a_checkout_of_something_else_are_told() {
    if !possible() {
        return;
    }
    let github = Github::start();
    let shallow = Workspace::of(&[("pools/gpu/kubelet.yaml", KUBELET)]).merging(&[("a", "b")]).fetched(1);
    diff(&shallow, &github).failed_in("Run nodecfg", "fetch-depth: 2");
    let head = Workspace::of(&[("pools/gpu/kubelet.yaml", KUBELET)]).then(&[("a", "b")]);
    diff(&head, &github).failed_in("Run nodecfg", "not the merge commit");
}

#[test]
fn what_is_not_checked_out_has_no_base_by_itself() {
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
        ("revision", "main", "input revision is read"),
    ] {
        let outcome = diff().with(input, value).run();
        outcome.failed_in("Check the inputs", saying).failed_in("Check the inputs", "(input against)");
    }
    assert!(github.world().comments.is_empty());
    diff().with("revision", "HEAD").with("against", "HEAD^1").run().passed();
}

#[test]
fn a_branch_that_merged_main_is_not_taken_for_the_merge_commit() {
    if !possible() {
        return;
    }
    let github = Github::start();
    let files = [("pools/gpu/kubelet.yaml", KUBELET)];
    let harmful = KUBELET.replace("32", "64");
    let branch = Workspace::branch_that_merged_main(&files, &[("pools/gpu/kubelet.yaml", &harmful)]);
    let commits = branch.commits();
    assert_eq!(commits.len(), 3);
    let merge = "a".repeat(40);
    let job = || {
        let job = Job::pull_request(UP_TO_DATE, &branch, &github).with("command", "diff");
        job.head(&commits[0]).variable("GITHUB_SHA", merge.clone())
    };
    job().run().failed_in("Run nodecfg", "not the merge commit").failed_in("Run nodecfg", "(input against)");
    let said = job().with("against", "main").run();
    said.passed();
    assert!(said.summary.contains("maxPods"), "{}", said.summary);

    // One of the two is enough: GitHub may have made the merge commit anew since, or the event have no commit.
    let workspace = changed();
    let job = || Job::pull_request(UP_TO_DATE, &workspace, &github).with("command", "diff");
    for merge in [job().variable("GITHUB_SHA", merge.clone()), job().head("")] {
        let outcome = merge.run();
        outcome.passed();
        assert_eq!(outcome.output("changed"), "true");
    }
}

#[test]
fn a_diff_that_could_not_be_made_leaves_no_older_one_as_if_it_were_current() {
    if !possible() {
        return;
    }
    let github = Github::start();
    github.world().comment(BOT, &format!("{MARKER}\nchanges of an earlier commit"));
    let workspace = changed();
    let job = || Job::pull_request(UP_TO_DATE, &workspace, &github).with("command", "diff");
    let head = &workspace.commits()[2][..12];
    let body = || github.world().body(0).to_owned();

    // Before there is a folder, before there is a program, and before nodecfg runs.
    let runs = [
        ("Check the inputs", job().with("fail-on", "whatever")),
        ("Download nodecfg", job().with("version", "9.9.9")),
        ("Run nodecfg", job().head(&"b".repeat(40)).variable("GITHUB_SHA", "a".repeat(40))),
    ];
    for (step, run) in runs {
        github.world().comments[0]["body"] = format!("{MARKER}\nchanges of an earlier commit").into();
        let outcome = run.run();
        assert_eq!(outcome.failed(), Some(step), "{}", outcome.log());
        assert!(body().starts_with(MARKER) && body().contains("the diff could not be made"), "{step}: {}", body());
        assert!(body().contains("/acme/fleet/actions/runs/4711") && !body().contains("changes of"), "{}", body());
    }
    job().run().passed();
    assert!(body().contains("maxPods") && body().contains(&format!("<sub>of commit {head} · ")), "{}", body());
    assert_eq!(github.world().comments.len(), 1);

    // Where there was nothing to take for current, nothing is made.
    github.world().comments.clear();
    job().with("version", "9.9.9").run().failed_in("Download nodecfg", "9.9.9");
    assert!(github.world().comments.is_empty());
}

#[test]
fn a_run_of_an_older_push_leaves_the_comment_of_a_newer_one() {
    if !possible() {
        return;
    }
    let github = Github::start();
    let workspace = changed();
    github.world().comment(BOT, &format!("{MARKER}\nof the newer push"));
    github.world().head = Some("c".repeat(40));
    let late = diff(&workspace, &github);
    late.passed();
    assert!(late.commands.iter().any(|command| command.starts_with("notice ")), "{:?}", late.commands);
    assert!(github.world().body(0).contains("of the newer push"));
    assert!(late.summary.contains("maxPods"), "{}", late.summary);

    github.world().head = Some(workspace.commits()[2].clone());
    diff(&workspace, &github).passed();
    assert!(github.world().body(0).contains("maxPods"), "{}", github.world().body(0));
}

#[test]
fn a_short_page_is_not_taken_for_the_last_one() {
    if !possible() {
        return;
    }
    // One that is short, and one that has nothing left.
    for hidden in [1, 100] {
        let github = Github::start();
        {
            let mut world = github.world();
            for _ in 0..100 {
                let id = world.comment("somebody", "words");
                if world.hidden.len() < hidden {
                    world.hidden.push(id);
                }
            }
            world.comment(BOT, &format!("{MARKER}\nold"));
        }
        diff(&changed(), &github).passed();
        let world = github.world();
        assert_eq!(world.comments.len(), 101, "{hidden}");
        assert!(world.body(100).contains("maxPods"), "{}", world.body(100));
    }
}
