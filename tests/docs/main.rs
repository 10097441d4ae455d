//! The documents are executed: every `sh` block of every Markdown file of the project runs here, as `bash -euo pipefail`.
//!
//! The blocks of one document run in order, each in a shell of its own; exported variables and the current folder are carried
//! from one to the next. A document begins in a scratch folder like this:
//!
//! - The folder is a git repository: [examples/repo-layout](../../examples/repo-layout) with two commits on the branch `main`
//!   (the first, tagged `v1.0.0`, gives the pool `edge` a smaller `maxPods`) and a remote `origin` that is at the second.
//!   With `setting clone` it is a clone of this project instead, with `target/release/nodecfg` in its place.
//! - `KUBECONFIG` names a served sandbox cluster with four nodes for each pool of examples/repo-layout. Nothing has been rolled
//!   out to it. It is one of today, with agents, unless `cluster 1.21` or `cluster none` says otherwise.
//! - On `PATH` are `nodecfg`, the stand-ins below, and whatever the machine has. A block that names kubectl or another
//!   of [`OPTIONAL`] is not run where that is not installed, nor is one that goes on from it (`needs`); this is said.
//! - `HOME` is an empty folder but for a `.gitconfig` with a name and an address; and with the addresses of
//!   git.example.com that documents name, which lead to repositories beside the folder ([`scratch`]).
//!
//! What else a block needs is said in a comment right before its fence, which readers do not see:
//!
//! | comment | meaning |
//! |---|---|
//! | `<!-- test: exit 1 -->` | commands of this block end with exit code 1, at least one of them; `exit 1, 5` allows and expects both. Without it each must end with 0 |
//! | `<!-- test: background until FILE -->` | a command that runs on, in a terminal of its own: what follows begins when FILE is there, and at the end of the document it gets SIGTERM |
//! | `<!-- test: setting clone -->`, `<!-- test: setting repository -->` | a fresh scratch folder and cluster from here on |
//! | `<!-- test: cluster 1.21 -->`, `cluster 1.36`, `cluster none` | the same with another cluster |
//! | `<!-- test: needs kubectl -->` | the block goes on from one that needs this program, and is not run without it either |
//! | `<!-- test: file PATH -->` | before a block of any language: its text is written to this file of the scratch folder |
//! | `<!-- test: output -->` | before a block of any language but `sh`: each of its lines was written by the `sh` block before it. A line `…` stands for any lines, `…` within a line for any text; durations and the ids of plans are not compared |
//!
//! Several go into one comment with `;` between them. There is no comment that leaves a block out: what no shell would run
//! goes into a `text` block, and what a test machine must not do, or cannot, has a stand-in in [`stand_ins::TABLE`].
//!
//! `DOCS=docs/plans.md cargo test --test docs` runs the documents whose path contains that, and `WITHOUT=kubectl,jq` runs them as
//! where these are not installed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stderr)]

mod document;
mod scratch;
mod session;
mod stand_ins;

use std::path::PathBuf;
use std::sync::Mutex;

use document::{Document, Wish};
use session::Session;

/// Programs that a machine for tests need not have. Everything else that the documents call is there or is missed.
const OPTIONAL: &[&str] = &["kubectl", "jq", "ssh-keygen", "gpg", "shellcheck"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every Markdown file of the project, with `/` between the parts of its path; sorted.
fn documents() -> Vec<Document> {
    let own = |name: &std::ffi::OsStr| ![".git", "target"].iter().any(|other| name == *other);
    let mut files: Vec<String> = walkdir::WalkDir::new(root())
        .into_iter()
        .filter_entry(|entry| entry.depth() != 1 || own(entry.file_name()))
        .map(|entry| entry.expect("readable"))
        .filter(|entry| entry.file_type().is_file() && entry.path().extension().is_some_and(|end| end == "md"))
        .map(|entry| entry.path().strip_prefix(root()).unwrap().to_str().unwrap().to_owned())
        .collect();
    files.sort();
    files.into_iter().map(|file| Document::read(&root(), file)).collect()
}

#[test]
fn every_command_of_the_documents_runs() {
    let asked = std::env::var("DOCS").unwrap_or_default();
    let all = documents();
    let chosen: Vec<&Document> = all.iter().filter(|document| document.file.contains(&asked)).collect();
    assert!(!chosen.is_empty(), "no document has {asked:?} in its path");
    let queue = Mutex::new(chosen.into_iter());
    let failures = Mutex::new(Vec::new());
    // Most of the time they wait for what the cluster simulates.
    let workers = 6;
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(document) = { queue.lock().unwrap().next() } {
                    if let Err(failure) = Session::run(document) {
                        failures.lock().unwrap().push(failure);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// Counted by other means than those that find what is run: no block may be lost on the way.
#[test]
fn no_block_is_run_by_nothing() {
    let mut found = Vec::new();
    for document in documents() {
        let text = std::fs::read_to_string(root().join(&document.file)).unwrap();
        let fences = text.lines().filter(|line| line.trim_start().starts_with("```sh")).count();
        let run = document.blocks.iter().filter(|block| block.is_shell()).count();
        if fences != run {
            found.push(format!("{}: {fences} blocks, {run} of them run", document.file));
        }
        let comments = text.lines().filter(|line| line.trim_start().starts_with("<!-- test:")).count();
        let heard = document.blocks.iter().filter(|block| block.commented).count();
        if comments != heard {
            found.push(format!("{}: {comments} comments for the test, {heard} right before a block", document.file));
        }
        found.extend(document.blocks.iter().filter_map(|block| {
            let disguised = ["bash", "shell", "console", "zsh", "shell-session"].contains(&block.language.as_str());
            disguised.then(|| format!("{}:{}: a block to run is called sh", document.file, block.line))
        }));
        // Nor as a text, unless it is one that is compared with what was written.
        found.extend(document.blocks.iter().filter_map(|block| {
            let commands = ["nodecfg", "kubectl", "git", "curl", "ssh-keyscan", "ssh-keygen", "cargo", "docker"];
            let is_command = |line: &str| {
                let line = line.trim_start().trim_start_matches("$ ");
                line.split_whitespace().next().is_some_and(|word| commands.contains(&word))
            };
            let text = ["", "text", "txt"].contains(&block.language.as_str()) && !block.wishes.contains(&Wish::Output);
            let line = block.text.lines().position(is_command).filter(|_| text)?;
            Some(format!("{}:{}: a command is run, in a block called sh", document.file, block.line + 1 + line))
        }));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    let shell: usize =
        documents().iter().flat_map(|document| &document.blocks).filter(|block| block.is_shell()).count();
    assert!(shell > 10, "the documents have only {shell} blocks of commands; are they still found?");
}
