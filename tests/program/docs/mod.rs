//! Execution of the documents: every `sh` block of every Markdown file runs as `bash -euo pipefail`.
//!
//! The blocks of a document run in order, each in its own shell. Exported variables and the current folder are
//! carried over. A document starts in a scratch folder:
//!
//! - The folder is a git repository: [examples/repo-layout](../../examples/repo-layout) with two commits on the
//!   branch `main`. The first, tagged `v1.0.0`, has a smaller `maxPods` in the pool `edge`. The remote `origin` is at
//!   the second. With `setting clone` it is a clone of this project, with `target/debug/nodecfg`.
//! - `KUBECONFIG` names a served sandbox cluster with four nodes for each pool of examples/repo-layout and no rollout
//!   yet. It has agents and Kubernetes 1.36, unless `cluster 1.21` or `cluster none` is set.
//! - `PATH` contains `nodecfg`, the fakes of [`stand_ins`], and the programs of the machine. A block that names a
//!   missing program of [`OPTIONAL`] is skipped with a message, and so are blocks that depend on that block
//!   (`needs`).
//! - `HOME` contains only a `.gitconfig` with a name and an email address. It redirects the addresses at
//!   git.example.com in the documents to local repositories ([`scratch`]).
//!
//! A comment before the fence, which readers do not see, sets directives:
//!
//! | comment | meaning |
//! |---|---|
//! | `<!-- test: exit 1 -->` | at least one command of the block exits with code 1, and all others with 0; `exit 1, 5` expects both codes |
//! | `<!-- test: background until FILE -->` | the command keeps running. The next block starts when FILE exists; at the end of the document the command gets SIGTERM |
//! | `<!-- test: setting clone -->`, `<!-- test: setting repository -->` | a new scratch folder and cluster from here on |
//! | `<!-- test: cluster 1.21 -->`, `cluster 1.36`, `cluster none` | a new scratch folder with this cluster from here on |
//! | `<!-- test: needs kubectl -->` | the block depends on one that needs this program, and is skipped with it |
//! | `<!-- test: file PATH -->` | for a block of any language: its text is written to this file of the scratch folder |
//! | `<!-- test: output -->` | for a block of any language but `sh`: the preceding `sh` block printed each line. A line `…` stands for any lines, `…` within a line for any text; durations and plan ids are not compared |
//!
//! `;` separates directives in one comment. No directive excludes a block: text that is no command belongs in a
//! `text` block, and a program that a test cannot run has a fake in [`stand_ins::TABLE`].
//!
//! `DOCS=docs/how-to/saved-plans.md cargo test --test program docs` runs the documents whose path contains this text.
//! `WITHOUT=kubectl,jq` runs them as if these programs were missing.

mod document;
mod scratch;
mod session;
mod stand_ins;

use std::path::PathBuf;
use std::sync::Mutex;

use document::{Directive, Document};
use session::Session;

/// Programs that may be missing on a test machine. All others are required.
const OPTIONAL: &[&str] = &["kubectl", "jq", "ssh-keygen", "gpg", "shellcheck"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// All Markdown files of the project, sorted, with `/` as path separator.
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
fn commands_of_documents_succeed() {
    let filter = std::env::var("DOCS").unwrap_or_default();
    let all = documents();
    let selected: Vec<&Document> = all.iter().filter(|document| document.file.contains(&filter)).collect();
    assert!(!selected.is_empty(), "no document path contains {filter:?}");
    let queue = Mutex::new(selected.into_iter());
    let failures = Mutex::new(Vec::new());
    // The documents mostly wait for the simulated cluster.
    let workers = 10;
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

/// Counts blocks independently of the parser, so that none is skipped silently.
#[test]
fn every_block_of_commands_is_run() {
    let mut found = Vec::new();
    for document in documents() {
        let text = std::fs::read_to_string(root().join(&document.file)).unwrap();
        let fences = text.lines().filter(|line| line.trim_start().starts_with("```sh")).count();
        let run = document.blocks.iter().filter(|block| block.is_shell()).count();
        if fences != run {
            found.push(format!("{}: {fences} blocks, only {run} of them run", document.file));
        }
        let comments = text.lines().filter(|line| line.trim_start().starts_with("<!-- test:")).count();
        let parsed = document.blocks.iter().filter(|block| block.has_comment).count();
        if comments != parsed {
            found.push(format!(
                "{}: {comments} directive comments, only {parsed} directly before a block",
                document.file
            ));
        }
        found.extend(document.blocks.iter().filter_map(|block| {
            let mislabeled = ["bash", "shell", "console", "zsh", "shell-session"].contains(&block.language.as_str());
            mislabeled.then(|| format!("{}:{}: use sh as the language of commands", document.file, block.line))
        }));
        // Commands must not be in text blocks either, unless the text is compared with an output.
        found.extend(document.blocks.iter().filter_map(|block| {
            let commands = ["nodecfg", "kubectl", "git", "curl", "ssh-keyscan", "ssh-keygen", "cargo", "docker"];
            let is_command = |line: &str| {
                let line = line.trim_start().trim_start_matches("$ ");
                line.split_whitespace().next().is_some_and(|word| commands.contains(&word))
            };
            let text = ["", "text", "txt"].contains(&block.language.as_str())
                && !block.directives.contains(&Directive::Output);
            let line = block.text.lines().position(is_command).filter(|_| text)?;
            Some(format!("{}:{}: move this command to a block of language sh", document.file, block.line + 1 + line))
        }));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    let shell: usize =
        documents().iter().flat_map(|document| &document.blocks).filter(|block| block.is_shell()).count();
    assert!(shell > 10, "the documents have only {shell} blocks of commands; does the parser still find them?");
}
