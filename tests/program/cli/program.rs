//! Runs of the built program and their output.

use std::path::Path;
use std::process::{Command, Stdio};

use assert_cmd::cargo::CommandCargoExt as _;

/// The program in a clean environment: no home, kubeconfig or terminal.
pub fn nodecfg(folder: &Path) -> Command {
    let mut command = Command::cargo_bin("nodecfg").unwrap();
    command.env_clear().env("HOME", folder.join("no-home")).current_dir(folder).stdin(Stdio::null());
    command
}

/// Result of one run.
pub struct Run {
    pub line: String,
    pub exit: i32,
    pub out: String,
    pub err: String,
}

impl Run {
    pub fn of(mut command: Command) -> Self {
        let arguments: Vec<String> =
            command.get_args().map(|argument| argument.to_string_lossy().into_owned()).collect();
        let output = command.output().unwrap();
        Self {
            line: format!("nodecfg {}", arguments.join(" ")),
            exit: output.status.code().expect("an exit code"),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Output and exit code, for snapshots.
    pub fn shown(&self) -> String {
        let Self { line, exit, out, err } = self;
        let lines = |text: &str| text.lines().map(|line| format!("{line}\n")).collect::<String>();
        format!("$ {line}\n--- standard output\n{}--- standard error\n{}--- exit code {exit}\n", lines(out), lines(err))
    }

    /// The JSON lines of standard output, except those about waiting nodes, whose number depends on timing.
    pub fn json_lines(&self) -> Vec<serde_json::Value> {
        let lines = self.out.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        lines.filter(|line| line["event"] != "waiting").collect()
    }
}

/// Runs the program in a folder with these arguments, split at spaces.
pub fn run(folder: &Path, arguments: &str) -> Run {
    let mut command = nodecfg(folder);
    command.args(arguments.split_whitespace());
    Run::of(command)
}

/// The same with standard input and environment variables.
pub fn run_with(folder: &Path, arguments: &str, input: &str, environment: &[(&str, &str)]) -> Run {
    let given = folder.join("standard-input");
    std::fs::write(&given, input).unwrap();
    let mut command = nodecfg(folder);
    command.args(arguments.split_whitespace()).envs(environment.iter().copied());
    command.stdin(std::fs::File::open(&given).unwrap());
    let run = Run::of(command);
    std::fs::remove_file(given).unwrap();
    run
}

/// Variable parts of the output, and their replacements.
const VOLATILE: &[(&str, &str)] = &[
    (r"127\.0\.0\.1:\d+", "127.0.0.1:[port]"),
    (r"p1:[0-9a-f]+", "p1:[plan]"),
    // Nodes are created concurrently, so their uids differ between runs.
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "[uid]"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "[time]"),
    // Elapsed time of a progress line, padded to six columns.
    (r"(?m)^ *(\d+m)?\d+(\.\d)?s (?P<rest>[a-zA-Z])", "[since] $rest"),
    (r"\b(?P<word>in|after) (\d+m)?\d+(\.\d)?s\b", "$word [duration]"),
    // Time left of a trial.
    (r"(?P<word>on trial(, | \(up to ))(\d+m)?(\d+s)? left", "$word[left] left"),
    // Durations of nodes in a table.
    (r"(?m)(?P<before>\S  )(\d+m)?\d+(\.\d)?s$", "$before[took]"),
    (r"\| (\d+m)?\d+(\.\d)?s \|", "| [took] |"),
    (r#""seconds": ?\d+\.\d+"#, r#""seconds": "[seconds]""#),
];

/// Compares a text with the snapshot of this name.
macro_rules! shows {
    ($name:expr, $text:expr) => {
        $crate::cli::program::volatile().bind(|| insta::assert_snapshot!($name, $text));
    };
}
pub(crate) use shows;

/// Snapshot settings that replace variable parts.
pub fn volatile() -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.set_omit_expression(true);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_snapshot_path("snapshots");
    for (pattern, name) in VOLATILE {
        settings.add_filter(pattern, *name);
    }
    settings
}
