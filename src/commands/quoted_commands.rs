//! Every command that a text of the program quotes is one that the program accepts: in help lines, findings, tables of
//! codes, explanations, hints and examples. Reads the sources and the snapshots of outputs, so that a new text is
//! checked without being listed.

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
const PROSE: &[&str] = &[
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

static TOKEN: LazyLock<Regex> = LazyLock::new(|| {
    let token = r##"(?msx)
        (?P<doc> (?: ^[\t\ ]*//[/!][^\n]*\n )+ )
        | //[^\n]* | '(?: \\. | [^'\\\n] )'
        | r\#*"(?P<raw>[^"]*)"\#*
        | "(?P<text> (?: [^"\\] | \\. )* )"
    "##;
    Regex::new(token).unwrap()
});
/// The end of a line of a string literal that continues on the next.
static CONTINUED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\\\n\s*").unwrap());
/// A value in a format string.
static VALUE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\{[a-z_0-9.]*(?::[^{}]*)?\}").unwrap());
/// A placeholder that continues a word.
static CONTINUING: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?P<before>[a-z0-9…])…").unwrap());
/// The name of a program, before another word.
static NAME: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?:^|[^\w./-])(?P<command>nodecfg(?:-agent)? )").unwrap());
/// A line of examples: a command, after a prompt or a pipe, and its description.
static EXAMPLE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(?:\$ |  (?:\S.* \| )?)(?P<command>nodecfg(?:-agent)? .*?)(?:  .*)?$").unwrap());

/// A text that users read, and where it is.
struct Text {
    place: String,
    text: String,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Files with this extension below these folders, without those of tests unless `tests`.
fn files(folders: &[&str], extension: &str, tests: bool) -> Vec<(String, String)> {
    let is_test = |path: &Path| {
        let stem = path.file_stem().unwrap().to_str().unwrap();
        stem == "tests" || stem.ends_with("_tests") || path.iter().any(|part| part == "tests")
    };
    let entries = folders.iter().flat_map(|folder| WalkDir::new(root().join(folder)).sort_by_file_name());
    entries
        .map(|entry| entry.unwrap().into_path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .map(|path| path.strip_prefix(root()).unwrap().to_path_buf())
        .filter(|path| tests || !is_test(path))
        .map(|path| (path.display().to_string(), fs::read_to_string(root().join(&path)).unwrap()))
        .collect()
}

/// String literals and doc comments of Rust code, without its trailing test module.
fn texts_of_rust(file: &str, code: &str) -> Vec<Text> {
    let code = code.split("\n#[cfg(test)]\nmod tests {").next().unwrap();
    let mut found = Vec::new();
    for token in TOKEN.captures_iter(code) {
        let line = code.get(..token.get(0).unwrap().start()).unwrap().lines().count().max(1);
        let text = if let Some(doc) = token.name("doc") {
            // Only code in a comment is a command.
            let lines: Vec<&str> = doc.as_str().lines().map(|line| line.trim_start().get(3..).unwrap_or("")).collect();
            spans(&lines.join(" ")).iter().map(|span| format!("`{span}`\n")).collect()
        } else if let Some(raw) = token.name("raw") {
            raw.as_str().to_owned()
        } else if let Some(text) = token.name("text") {
            CONTINUED.replace_all(text.as_str(), "").replace("\\n", "\n").replace("\\\"", "\"")
        } else {
            continue;
        };
        found.push(Text { place: format!("{file}:{line}"), text: unformatted(&text) });
    }
    found
}

/// A format string with a placeholder for each value, and without values that continue a word.
fn unformatted(text: &str) -> String {
    CONTINUING.replace_all(&VALUE.replace_all(text, "…"), "$before").into_owned()
}

/// The texts in backticks.
fn spans(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// A command that a text quotes, as its words, or the reason why it is none.
type Quoted = Result<Vec<String>, String>;

/// The commands of a line. A command with arguments is in backticks, is a line of examples, or ends the line. In prose,
/// the name of a command has no arguments.
fn commands(line: &str) -> Vec<Quoted> {
    let mut found = Vec::new();
    let mut prose = String::new();
    for (index, part) in line.split('`').enumerate() {
        let piped = part.find("| nodecfg ").map(|pipe| pipe + 2);
        let is_command = part.starts_with("nodecfg ") || part.starts_with("nodecfg-agent ");
        match piped.or(is_command.then_some(0)).and_then(|start| part.get(start..)) {
            Some(command) if index % 2 == 1 => found.push(split(command)),
            _ => prose.push_str(if index % 2 == 1 { "code" } else { part }),
        }
    }
    if let Some(example) = EXAMPLE.captures(&prose) {
        found.push(split(&example["command"]));
        return found;
    }
    for start in NAME.captures_iter(&prose).map(|found| found.name("command").unwrap().start()) {
        let (before, command) = prose.split_at(start);
        let words: Vec<&str> = command.split_whitespace().take(3).collect();
        let [program, name, next @ ..] = words.as_slice() else { continue };
        let is_last = before.is_empty() || before.ends_with(": ") || before.ends_with('"');
        let ends_with_command = is_last && !command.contains(". ") && !is_prose(command);
        let is_argument = |word: &&str| word.starts_with(['-', '…', '<']) || is_placeholder(word.trim_end_matches(')'));
        let word = name.split([',', '.', ';', ':', ')', '"', '\'']).next().unwrap_or_default();
        if PROSE.contains(&word) || name.starts_with('…') || name.starts_with('(') || before.ends_with("-n ") {
            continue;
        }
        if ends_with_command {
            found.push(split(command.trim_end_matches(['"', '\''])));
        } else if word == *name && next.first().is_some_and(is_argument) {
            found.push(Err(format!(
                "a command with arguments is not in backticks: {program} {name} {}…",
                next.concat()
            )));
        } else {
            found.push(Ok(vec![(*program).to_owned(), word.to_owned()]));
        }
    }
    found
}

/// Reports whether a text from a command on continues as prose: with several words that are no values.
fn is_prose(command: &str) -> bool {
    let is_word = |word: &&str| word.trim_end_matches(',').chars().all(|c| c.is_ascii_lowercase());
    command.contains(',') || command.split_whitespace().skip(2).filter(is_word).count() > 1
}

/// The words of a command line up to a redirection or a pipe.
fn split(line: &str) -> Quoted {
    let words = shlex::split(line).ok_or_else(|| format!("{line:?} has an open quote"))?;
    Ok(words.into_iter().take_while(|word| !matches!(word.as_str(), ">" | "|" | "#" | "\\" | "&&")).collect())
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
fn rejected(words: &[String]) -> Option<String> {
    let program = match words.first().map(String::as_str) {
        Some("nodecfg") => declared(),
        Some("nodecfg-agent") => nodecfg_agent::cli::command(),
        _ => return Some("it starts with another word".to_owned()),
    };
    if let [_, name] = words
        && (program.find_subcommand(name).is_some() || name == "help")
    {
        return None;
    }
    if let [_, help, name] = words
        && help == "help"
        && is_placeholder(name)
    {
        return None;
    }
    // `nodecfg COMMAND --help` stands for each command.
    let words: Vec<String> =
        words.iter().map(|word| if word == "COMMAND" { "sync" } else { word }.to_owned()).collect();
    let words = command_first(&words.iter().map(OsString::from).collect::<Vec<_>>());
    let parsed = |program: clap::Command| match program.try_get_matches_from(&words) {
        Err(error) if !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => Some(error),
        _ => None,
    };
    let error = parsed(program.clone())?;
    let has_placeholder = words.iter().any(|word| is_placeholder(&word.to_string_lossy()));
    let error = if has_placeholder { parsed(with_placeholders(program))? } else { error };
    Some(error.to_string().lines().next().unwrap_or_default().to_owned())
}

/// The rejected commands of these texts, and the number of accepted ones.
fn check(texts: impl IntoIterator<Item = Text>) -> (Vec<String>, usize) {
    let (mut wrong, mut accepted) = (Vec::new(), 0);
    for Text { place, text } in texts {
        for quoted in text.lines().flat_map(commands) {
            let problem = match &quoted {
                Ok(words) => rejected(words).map(|why| format!("`{}`: {why}", words.join(" "))),
                Err(problem) => Some(problem.clone()),
            };
            match problem {
                Some(problem) => wrong.push(format!("{place}: {problem}")),
                None => accepted += 1,
            }
        }
    }
    (wrong, accepted)
}

#[test]
fn texts_of_the_program_quote_commands_that_it_accepts() {
    let code = files(&["src", "crates"], "rs", false);
    let code = code.iter().filter(|(file, _)| file != file!() && file.contains("src/"));
    let tables = files(&["data", "crates/kubelet-config/data"], "csv", false).into_iter();
    let rows = tables.flat_map(|(file, text)| {
        let row =
            move |(index, line): (usize, &str)| Text { place: format!("{file}:{}", index + 1), text: line.to_owned() };
        text.lines().enumerate().map(row).collect::<Vec<_>>()
    });
    // Outputs show commands that the program composes of words.
    let outputs = files(&["src", "crates", "tests"], "snap", true).into_iter();
    let spans = outputs.map(|(file, text)| {
        let commands = text.lines().flat_map(spans).map(|span| format!("`{span}`\n"));
        Text { place: file, text: commands.collect() }
    });
    let texts = code.flat_map(|(file, text)| texts_of_rust(file, text)).chain(rows).chain(spans);
    let (wrong, accepted) = check(texts);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(accepted > 150, "only {accepted} commands; does the test still find them?");
}

#[test]
fn finds_commands_in_texts() {
    let (wrong, accepted) = check(
        [
            "run `nodecfg lint .`",
            "run nodecfg sync --dry-run first",
            "see `nodecfg sync --bogus`, and `nodecfg schema pod`",
            "to continue: nodecfg resume --bogus",
            "  nodecfg diff --revision main  compare",
            "`nodecfg-agent stats`",
        ]
        .map(|text| Text { place: "a".to_owned(), text: text.to_owned() }),
    );
    assert_eq!((wrong.len(), accepted), (7, 0), "{wrong:#?}");
    let code = "/// Runs `nodecfg sync\n/// --bogus`.\nconst A: &str = \"a \\\n    `nodecfg diff --bogus {x}` \\\"\"; // `nodecfg no`\n";
    assert_eq!(check(texts_of_rust("a", code)).0.len(), 2);
    let right =
        "  nodecfg validate -o sarif > a.sarif  write\nrun `nodecfg reset --pool POOL` or `nodecfg install --agent …`";
    let (wrong, accepted) = check([Text { place: "a".to_owned(), text: right.to_owned() }]);
    assert_eq!((wrong, accepted), (Vec::new(), 3));
    assert_eq!(unformatted("nodecfg sync{repository} --rev {} {a}{b:?}"), "nodecfg sync --rev … …");
}
