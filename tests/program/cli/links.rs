//! Tests that no command follows a link of a repository out of it, and that paths which a user types still work.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::cli::program::{Run, nodecfg, run, run_with};
use crate::cli::repository::{FLEET, Folder, KUBELET, gpu};

/// Part of every file outside of the repository, and of the environment of the program.
const TOKEN: &str = "s3cr3tOutside";

/// Files that a runner has beside the checkout.
fn outside() -> Folder {
    let text = format!("kind: KubeletConfiguration\n{TOKEN}: [\n{TOKEN}\n");
    let pool = format!("{KUBELET}clusterDomain: {TOKEN}\nmaxPods: -1\n");
    let docker = format!("{{\"auths\": {{\"example.com\": {{\"auth\": \"{TOKEN}\"}}}}}}");
    Folder::with(&[
        ("token.yaml", &text),
        ("config.json", &docker),
        ("pools/gpu/kubelet.yaml", &pool),
        ("plain", TOKEN),
    ])
}

/// The names of entries of a repository that lead out of it, or that are no files.
fn hostile(folder: &Folder, outside: &Folder) -> Vec<String> {
    let at = |path: &str| folder.path().join(path);
    let name = outside.path().file_name().unwrap().to_str().unwrap();
    let absolute = outside.path().display();
    std::fs::create_dir_all(at("base")).unwrap();
    let config = at(".git/config");
    if config.exists() {
        let text = std::fs::read_to_string(&config).unwrap();
        std::fs::write(&config, format!("{text}[http]\n\textraheader = {TOKEN}\n")).unwrap();
    }
    for (target, link) in [
        ("/proc/self/environ".to_owned(), "base/environ.yaml"),
        ("/proc/self/fd/0".to_owned(), "base/input.yaml"),
        ("/dev/zero".to_owned(), "base/zero.yaml"),
        (format!("{absolute}/token.yaml"), "base/absolute.yaml"),
        (format!("../../{name}/config.json"), "base/relative.json"),
        ("absolute.yaml".to_owned(), "base/chained.yaml"),
        (absolute.to_string(), "through"),
        ("through".to_owned(), "twice"),
        // The token of actions/checkout.
        ("../.git/config".to_owned(), "base/git.yaml"),
    ] {
        symlink(target, at(link)).unwrap();
    }
    assert!(Command::new("mkfifo").arg(at("base/pipe.yaml")).status().unwrap().success());
    [
        "environ.yaml",
        "input.yaml",
        "zero.yaml",
        "absolute.yaml",
        "relative.json",
        "chained.yaml",
        "pipe.yaml",
        "git.yaml",
    ]
    .map(|name| format!("base/{name}"))
    .into_iter()
    .chain(["through/token.yaml", "through/pools/gpu/kubelet.yaml", "twice/token.yaml"].map(str::to_owned))
    .collect()
}

/// Runs the program with the token in its environment, as in a workflow of GitHub.
fn run_in_job(folder: &Folder, arguments: &str, input: &str) -> Run {
    let workspace = folder.path().to_str().unwrap();
    let environment = [("TOKEN", TOKEN), ("GITHUB_ACTIONS", "true"), ("GITHUB_WORKSPACE", workspace)];
    run_with(folder.path(), arguments, input, &environment)
}

fn assert_refused(run: &Run, entries: &[String]) {
    assert_eq!(run.exit, 3, "{}", run.shown());
    assert!(!run.shown().contains(TOKEN), "{}", run.shown());
    for entry in entries {
        assert!(run.out.contains(entry.as_str()), "{entry}: {}", run.shown());
    }
}

/// Repositories: with the files of nodecfg, in git alone, and with neither in a job, which then has no git.
fn repositories() -> [Folder; 3] {
    [gpu(), Folder::committed(&[("README.md", "")]), Folder::with(&[("README.md", "")])]
}

#[test]
fn files_lead_nowhere_else() {
    let outside = outside();
    for folder in repositories() {
        let entries = hostile(&folder, &outside);
        for format in ["text", "json", "yaml", "sarif", "junit", "json --report sarif=report --report junit=report2"] {
            let named = run_in_job(&folder, &format!("validate {} -o {format}", entries.join(" ")), TOKEN);
            assert_refused(&named, &entries);
            let listed = run_in_job(&folder, &format!("validate --files-from - -o {format}"), &entries.join("\n"));
            assert_refused(&listed, &entries);
        }
        for report in ["report", "report2"] {
            let text = std::fs::read_to_string(folder.path().join(report)).unwrap();
            assert!(text.contains("bad-link") && !text.contains(TOKEN), "{text}");
        }
        let text = run_in_job(&folder, "validate base/chained.yaml base/pipe.yaml", "");
        let link = "base/chained.yaml leads through a symbolic link to";
        assert!(text.out.contains(link) && text.out.contains("copy the file into the repository"), "{}", text.shown());
        assert!(text.out.contains("base/pipe.yaml is neither a file nor a folder"), "{}", text.shown());
        assert!(text.err.contains("::error file=base/chained.yaml"), "{}", text.shown());
    }
}

#[test]
fn links_within_a_repository_work() {
    for folder in repositories() {
        folder.write("base/kubelet.yaml", &format!("{KUBELET}maxPod: 1\n"));
        folder.write("nodes/real/a.yaml", KUBELET);
        symlink("../base/kubelet.yaml", folder.path().join("nodes/linked.yaml")).unwrap();
        symlink("../base", folder.path().join("nodes/folder")).unwrap();
        symlink("real", folder.path().join("nodes/around")).unwrap();
        let files = "nodes/linked.yaml nodes/folder/kubelet.yaml nodes/around/a.yaml";
        let run = run_in_job(&folder, &format!("validate {files} -o json"), "");
        assert_eq!((run.exit, run.out.matches("\"unknown-field\"").count()), (3, 2), "{}", run.shown());
        assert!(!run.out.contains("bad-link"), "{}", run.shown());
    }
}

#[test]
fn entries_of_a_list_stay_in_the_repository() {
    let outside = outside();
    let absolute = outside.path().join("token.yaml").display().to_string();
    let relative = format!("../{}/token.yaml", outside.path().file_name().unwrap().to_str().unwrap());
    let around = format!("base/../{relative}");
    for folder in repositories() {
        folder.write("good.yaml", KUBELET);
        folder.write("-", &format!("{KUBELET}maxPod: 1\n"));
        let list =
            [&absolute, &relative, &around, "/proc/self/environ", "/dev/stdin", "..", ".git/config"].map(str::to_owned);
        folder.write("list", &list.join("\n"));
        let run = run_in_job(&folder, "validate --files-from list -o json", TOKEN);
        assert_refused(&run, &list);
        assert_eq!(run.out.matches("\"bad-path\"").count(), list.len(), "{}", run.shown());
        // Also from a folder below, names up to the top of the checkout are inside.
        let good = folder.path().canonicalize().unwrap().join("good.yaml");
        let run =
            run_in_job(&folder, "validate --files-from - -o json", &format!("{}\n-\n./good.yaml\n", good.display()));
        assert_eq!((run.exit, run.out.matches("\"unknown-field\"").count()), (3, 1), "{}", run.shown());
        assert!(!run.out.contains("bad-path") && !run.out.contains("stdin"), "{}", run.shown());
    }
}

#[test]
fn folders_lead_nowhere_else() {
    let outside = outside();
    for folder in repositories() {
        hostile(&folder, &outside);
        for entry in ["through", "twice", "through/pools", "through/pools/gpu"] {
            for arguments in ["validate through", "validate --worktree --path through ."] {
                let run = run_in_job(&folder, &arguments.replace("through", entry), "");
                assert_eq!(run.exit, 3, "{}", run.shown());
                assert!(!run.shown().contains(TOKEN) && !run.shown().contains("-1"), "{}", run.shown());
            }
            let listed = run_in_job(&folder, "validate --files-from -", entry);
            assert_refused(&listed, &[entry.to_owned()]);
        }
    }
    // Commands that read a whole repository. The repository around it has no files of nodecfg.
    let folder = Folder::committed(&[("README.md", "")]);
    hostile(&folder, &outside);
    for arguments in
        ["validate", "validate --worktree", "render gpu --format file", "diff --against HEAD", "history gpu"]
    {
        for entry in ["through", "twice"] {
            let run = run(folder.path(), &format!("{arguments} {entry}"));
            assert!(!run.shown().contains(TOKEN), "{}", run.shown());
            assert!(run.err.contains("leads through a symbolic link to"), "{}", run.shown());
            assert!(run.err.contains("or name the folder that the link leads to"), "{}", run.shown());
        }
    }
}

#[test]
fn files_of_options_lead_nowhere_else() {
    let outside = outside();
    let folder = gpu();
    symlink(outside.path().join("plain"), folder.path().join("plain")).unwrap();
    for arguments in ["validate --files-from plain", "validate --verify-commits plain", "sync --plan plain"] {
        let run = run_in_job(&folder, arguments, "");
        assert!(run.exit == 1 || run.exit == 2, "{}", run.shown());
        assert!(!run.shown().contains(TOKEN), "{}", run.shown());
        assert!(run.err.contains("it leads through a symbolic link to"), "{}", run.shown());
    }
}

/// What a person types outside of repositories is opened like other programs do.
#[test]
fn paths_of_a_user_work() {
    let folder = Folder::with(&[("real/kubelet.yaml", KUBELET), ("fleet/pools/a/kubelet.yaml", KUBELET)]);
    let elsewhere = Folder::with(&[("README.md", "")]);
    let at = |path: &str| folder.path().join(path).display().to_string();
    symlink("real/kubelet.yaml", folder.path().join("config.yaml")).unwrap();
    symlink(folder.path().join("fleet"), elsewhere.path().join("fleet")).unwrap();
    for arguments in [
        format!("validate {}", at("config.yaml")),
        format!("validate {}", at("real/../config.yaml")),
        "validate /dev/stdin".to_owned(),
        "validate /proc/self/fd/0".to_owned(),
        "validate -".to_owned(),
        "validate --files-from /dev/stdin".to_owned(),
        format!("validate {}", elsewhere.path().join("fleet").display()),
    ] {
        let input = if arguments.contains("files-from") { "kubelet.yaml" } else { KUBELET };
        let current = folder.path().join("real");
        let run = run_with(&current, &arguments, input, &[]);
        assert_eq!(run.exit, 0, "{}", run.shown());
    }
    let substituted = shell(folder.path(), "\"$NODECFG\" validate <(cat config.yaml)");
    assert_eq!(substituted.exit, 0, "{}", substituted.shown());
    // In a repository, too.
    folder.write("nodecfg.yaml", FLEET);
    let listed = shell(folder.path(), "\"$NODECFG\" validate --files-from <(echo real/kubelet.yaml)");
    assert_eq!(listed.exit, 0, "{}", listed.shown());
    let substituted = shell(folder.path(), "\"$NODECFG\" validate <(cat config.yaml)");
    assert_eq!(substituted.exit, 0, "{}", substituted.shown());
}

/// Runs a script of bash, in which `$NODECFG` is the program.
fn shell(folder: &Path, script: &str) -> Run {
    let mut command = Command::new("bash");
    command.args(["-c", script]).current_dir(folder).env("NODECFG", nodecfg(folder).get_program());
    Run::of(command)
}

#[test]
fn reports_are_not_written_through_links() {
    let outside = outside();
    for folder in repositories() {
        hostile(&folder, &outside);
        symlink(outside.path().join("plain"), folder.path().join("outside.xml")).unwrap();
        symlink(".git/config", folder.path().join("config.xml")).unwrap();
        for path in ["outside.xml", "config.xml", "through/plain", "through/new"] {
            let run = run_in_job(&folder, &format!("validate --report junit={path}"), "");
            assert!(run.exit == 2 && run.err.contains("symbolic link"), "{}", run.shown());
        }
    }
    let folder = gpu();
    hostile(&folder, &outside);
    symlink(outside.path().join("plain"), folder.path().join("plan.json")).unwrap();
    for path in ["plan.json", "through/plain", "through/new"] {
        let run = run_in_job(&folder, &format!("render gpu --format file --out {path}"), "");
        assert!(run.exit == 2 && run.err.contains("symbolic link"), "{}", run.shown());
    }
    assert_eq!(std::fs::read_to_string(outside.path().join("plain")).unwrap(), TOKEN);
    assert!(!outside.path().join("new").exists());
}

/// A part of a name at the start of a line would be a command to GitHub's runner.
#[test]
fn names_begin_no_lines() {
    let folder = gpu();
    let names =
        ["pools/gpu/a\n::error::b.yaml", "pools/c\n::error::d/kubelet.yaml", "base/e\r::error::\u{1b}[2Jf.yaml"];
    for name in names {
        folder.write(name, KUBELET);
    }
    let listed = run_with(folder.path(), "validate --files-from -", "base/e\r::error::\u{1b}[2Jf.yaml", &[]);
    let mut named = nodecfg(folder.path());
    named.arg("validate").args(names);
    folder.commit();
    for run in [run(folder.path(), "validate"), run(folder.path(), "validate --worktree"), listed, Run::of(named)] {
        assert!(!run.out.contains(['\r', '\u{1b}']), "{}", run.shown());
        assert!(!run.out.lines().any(|line| line.trim_start().starts_with("::")), "{}", run.shown());
    }
    let run = run(folder.path(), "validate -o json");
    assert_eq!(run.out.matches("\"bad-name\"").count(), 3, "{}", run.shown());
}
