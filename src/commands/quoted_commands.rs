//! Every command that a text of the program or a document quotes is one that the program accepts: in help lines,
//! findings, tables of codes, explanations, hints and examples. Reads the sources, the snapshots of outputs and the
//! documents, so that a new text is checked without being listed.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use clap::builder::TypedValueParser as _;
use clap::error::ErrorKind;
use regex::Regex;
use walkdir::WalkDir;

use crate::commands::command_line::{command_first, declared};

/// Words after the name of a program that are no command. Any other word must be one, so that a misspelt command is
/// found.
const NO_COMMANDS: &[&str] = &[
    "and",
    "but",
    "changes",
    "checks",
    "does",
    "downloads",
    "follows",
    "itself",
    "keeps",
    "manages",
    "manual",
    "never",
    "node",
    "reads",
    "requires",
    "supports",
    "that",
    "is",
    "uses",
    "version",
    "waits",
    "wrote",
];

/// The end of a line of a string literal that continues on the next.
static CONTINUED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\\\n\s*").unwrap());
/// The start of a line of a comment.
static COMMENT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\n\s*//[/!]? ?").unwrap());
/// A value in a format string.
static VALUE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\{[a-z_0-9.]*(?::[^{}]*)?\}").unwrap());
/// A placeholder that continues a word.
static CONTINUING: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?P<before>[a-z0-9…])…").unwrap());
/// A command in backticks, also after a pipe.
static SPAN: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"`(?:[a-z][^`\n]*\| )?(?P<command>nodecfg(?:-agent)? [^`]*)`").unwrap());
/// A line of examples: a command, after a prompt or a pipe, and its description.
static EXAMPLE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(?:\$ |  (?:\S.* \| )?)(?P<command>nodecfg(?:-agent)? .*?)(?:  .*)?$").unwrap());
/// A command in prose: its name, and everything after it if the next word is an argument. The word before an object in
/// the namespace nodecfg is `-n`.
static PROSE: LazyLock<Regex> = LazyLock::new(|| {
    let command = r"nodecfg(?:-agent)? (?P<name>[a-z][a-z-]*)(?: (?:[-…<].*|[A-Z|_-]+(?: .*)?$))?";
    Regex::new(&format!(r"(?P<before>^|-n |[^\w./-])(?P<command>{command})")).unwrap()
});
/// An option in backticks.
static OPTION: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"`(--[a-z][a-z.-]*)").unwrap());

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Files with this extension below these folders, without those of tests unless `tests`.
fn files(folders: &[&str], extension: &str, tests: bool) -> Vec<(String, String)> {
    let is_test = |path: &Path| {
        let stem = path.file_stem().unwrap().to_str().unwrap();
        stem == "tests" || stem.ends_with("_tests") || path.iter().any(|part| part == "tests")
    };
    let is_source = |entry: &walkdir::DirEntry| entry.file_name() != "target" && entry.file_name() != ".git";
    let walk = |folder| WalkDir::new(root().join(folder)).sort_by_file_name().into_iter().filter_entry(is_source);
    let entries = folders.iter().flat_map(walk);
    entries
        .map(|entry| entry.unwrap().into_path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .map(|path| path.strip_prefix(root()).unwrap().to_path_buf())
        .filter(|path| tests || !is_test(path))
        .map(|path| (path.display().to_string(), fs::read_to_string(root().join(&path)).unwrap()))
        .collect()
}

/// Commands in a text. Commands outside of backticks are looked for only in code and tables.
fn commands(file: &str, text: &str) -> Vec<String> {
    let is_rust = file.ends_with(".rs");
    let text = match is_rust {
        true => unformatted(text.split("\n#[cfg(test)]\nmod tests {").next().unwrap()),
        false => text.replace("cargo run -- ", "nodecfg "),
    };
    let uncommented = COMMENT.replace_all(&text, " ");
    let mut found: Vec<String> = SPAN.captures_iter(&uncommented).map(|found| found["command"].to_owned()).collect();
    if is_rust || file.ends_with(".csv") {
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            let line = line.replace("\\\"", "'").replace("\\n", "\n");
            found.extend(line.split(['"', '\n']).flat_map(bare_commands));
        }
    }
    found
}

/// Code with a placeholder for each value of a format string, and without values that continue a word.
fn unformatted(code: &str) -> String {
    let code = CONTINUED.replace_all(code, "");
    CONTINUING.replace_all(&VALUE.replace_all(&code, "…"), "$before").into_owned()
}

/// Commands outside of backticks in a line.
fn bare_commands(line: &str) -> Vec<String> {
    let prose = line.split('`').step_by(2).collect::<Vec<_>>().join("code");
    if let Some(example) = EXAMPLE.captures(&prose) {
        return vec![example["command"].to_owned()];
    }
    let found = PROSE.captures_iter(&prose);
    let found = found.filter(|found| &found["before"] != "-n " && !NO_COMMANDS.contains(&&found["name"]));
    found.map(|found| found["command"].to_owned()).collect()
}

/// The words of a command line up to a redirection or a pipe.
fn split(line: &str) -> Option<Vec<String>> {
    let words = shlex::split(line)?;
    Some(words.into_iter().take_while(|word| !matches!(word.as_str(), ">" | "|" | "#" | "\\" | "&&")).collect())
}

/// Reports whether a word stands for a value: `POOL`, `a…`.
fn is_placeholder(word: &str) -> bool {
    word.contains('…') || word.chars().all(|c| c.is_ascii_uppercase() || "|-_".contains(c))
}

/// The command, with placeholders accepted as values.
fn with_placeholders(command: clap::Command) -> clap::Command {
    let relaxed = |argument: clap::Arg| {
        if !argument.get_action().takes_values() {
            return argument;
        }
        let possible = argument.get_possible_values();
        let parser = clap::builder::StringValueParser::new().try_map(move |text| {
            let known = possible.is_empty() || possible.iter().any(|value| value.matches(&text, false));
            if known || is_placeholder(&text) { Ok(text) } else { Err("neither a possible value nor a placeholder") }
        });
        argument.value_parser(parser)
    };
    command.mut_args(relaxed).mut_subcommands(with_placeholders)
}

/// The reason why the program does not accept a command. The name of a command alone only refers to it.
fn rejected(command: &str) -> Option<String> {
    let Some(words) = split(command) else { return Some("it has an open quote".to_owned()) };
    let program = match words.first().map(String::as_str) {
        Some("nodecfg") => declared(),
        Some("nodecfg-agent") => nodecfg_agent::cli::command(),
        _ => return Some("it starts with another word".to_owned()),
    };
    if let [_, name] = words.as_slice()
        && (program.find_subcommand(name).is_some() || name == "help")
    {
        return None;
    }
    if let [_, help, name] = words.as_slice()
        && help == "help"
        && is_placeholder(name)
    {
        return None;
    }
    // `nodecfg COMMAND --help` stands for each command.
    let words: Vec<String> =
        words.iter().map(|word| if word == "COMMAND" { "sync" } else { word }.to_owned()).collect();
    let mut words = command_first(&words.iter().map(OsString::from).collect::<Vec<_>>());
    let parsed = |program: clap::Command, words: &[OsString]| match program.try_get_matches_from(words) {
        Err(error) if !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => Some(error),
        _ => None,
    };
    let mut error = parsed(program.clone(), &words)?;
    let relaxed = with_placeholders(program);
    if words.iter().any(|word| is_placeholder(&word.to_string_lossy())) {
        error = parsed(relaxed.clone(), &words)?;
    }
    // An option at the end without its value only refers to the option.
    let ends_with_option = words.last().is_some_and(|word| word.to_string_lossy().starts_with("--"));
    if error.kind() == ErrorKind::InvalidValue && ends_with_option {
        words.push("…".into());
        error = parsed(relaxed, &words)?;
    }
    Some(error.to_string().lines().next().unwrap_or_default().to_owned())
}

/// The rejected commands of these files, and the number of accepted ones.
fn check(files: impl IntoIterator<Item = (String, String)>) -> (Vec<String>, usize) {
    let (mut wrong, mut accepted) = (Vec::new(), 0);
    for (file, text) in files {
        for command in commands(&file, &text) {
            match rejected(&command) {
                Some(why) => wrong.push(format!("{file}: `{command}`: {why}")),
                None => accepted += 1,
            }
        }
    }
    (wrong, accepted)
}

#[test]
fn texts_of_the_program_quote_commands_that_it_accepts() {
    let code = files(&["src", "crates"], "rs", false).into_iter();
    let code = code.filter(|(file, _)| file != file!() && file.contains("src/"));
    let tables = files(&["data", "crates/kubelet-config/data"], "csv", false);
    // Outputs show commands that the program composes of words.
    let outputs = files(&["src", "crates", "tests"], "snap", true);
    let (wrong, accepted) = check(code.chain(tables).chain(outputs));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(accepted > 150, "only {accepted} commands; does the test still find them?");
}

/// Options of other programs that documents name alone, with their program.
const OPTIONS_OF_OTHERS: [(&str, &str); 17] = [
    ("--annotate-nodes", "kured"),
    ("--collector.textfile.directory", "node_exporter"),
    ("--config-dir", "kubelet"),
    ("--default-sig-expire", "gpg"),
    ("--digest-algo", "gpg"),
    ("--dynamic-config-dir", "kubelet up to 1.23"),
    ("--feature-gates", "kubelet"),
    ("--hostname-override", "kubelet"),
    ("--kube-reserved", "kubelet"),
    ("--lines", "journalctl"),
    ("--mode", "talosctl"),
    ("--node-ip", "kubelet"),
    ("--patches", "kubeadm"),
    ("--seccomp-default", "kubelet"),
    ("--since", "journalctl"),
    ("--textmode", "gpg"),
    ("--vmodule", "kubelet"),
];

/// Long options of a command and its commands.
fn options(command: &clap::Command) -> BTreeSet<String> {
    let own = command.get_arguments().filter(|argument| !argument.is_hide_set()).filter_map(clap::Arg::get_long);
    let own = own.map(|long| format!("--{long}"));
    own.chain(command.get_subcommands().flat_map(options)).collect()
}

#[test]
fn documents_quote_commands_and_options_that_exist() {
    let documents = files(&[""], "md", true);
    let mut known = options(&declared());
    known.extend(options(&nodecfg_agent::cli::command()));
    known.extend(["--help", "--version"].map(str::to_owned));
    let (mut others, mut seen) = (BTreeSet::new(), 0);
    let (mut wrong, accepted) = check(documents.iter().cloned());
    for (file, text) in &documents {
        for option in OPTION.captures_iter(text) {
            seen += 1;
            match OPTIONS_OF_OTHERS.iter().find(|(theirs, _)| *theirs == &option[1]) {
                Some((theirs, _)) => drop(others.insert(*theirs)),
                None if known.contains(&option[1]) => {}
                None => wrong.push(format!("{file}: no command has {}", &option[1])),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        accepted > 150 && seen > 200,
        "only {accepted} commands and {seen} options; does the test still find them?"
    );
    let unused: Vec<&str> =
        OPTIONS_OF_OTHERS.iter().map(|(option, _)| *option).filter(|option| !others.contains(option)).collect();
    assert_eq!(unused, Vec::<&str>::new(), "no document names these options of other programs");
}

#[test]
fn finds_commands_in_texts() {
    let code = r#"/// Runs `nodecfg sync
/// --bogus`.
const A: &[&str] = &["run `nodecfg lint .`", "run nodecfg sync --bogus first", "to continue: nodecfg resume --bogus",
    "see `nodecfg sync --bogus`, and `nodecfg schema pod`\n  nodecfg diff --revision main  compare\n`nodecfg-agent stats`",
    "a \
    `nodecfg diff --bogus {x}` \"", "nodecfg lints"]; // `nodecfg no`
"#;
    let (wrong, accepted) = check([("a.rs".to_owned(), code.to_owned())]);
    assert_eq!((wrong.len(), accepted), (11, 0), "{wrong:#?}");
    let right = r#""  nodecfg validate -o sarif > a.sarif  write
run `nodecfg reset --pool POOL`, `kubectl get a | nodecfg validate --files-from -` or `nodecfg install --agent …`; nodecfg sync waits"#;
    let (wrong, accepted) = check([("a.rs".to_owned(), right.to_owned())]);
    assert_eq!((wrong, accepted), (Vec::new(), 5));
    assert_eq!(unformatted("nodecfg sync{repository} --rev {} {a}{b:?}"), "nodecfg sync --rev … …");
}
