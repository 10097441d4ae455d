//! The command line as users of kubectl, terraform and cargo write it: options before or after the command, names of
//! commands in other tools, and the name of a kubectl plugin.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args as _, CommandFactory as _, FromArgMatches as _};

use crate::arguments::cluster::{BoundClusterArgs, ClusterArgs};
use crate::arguments::output;
use crate::commands::Cli;

/// File name of the program as a plugin of kubectl: `kubectl nodecfg` runs it.
const PLUGIN: &str = "kubectl-nodecfg";

/// Commands of other tools, with the nodecfg command of the same purpose.
const ELSEWHERE: &[(&str, &str)] = &[
    ("agent", "start nodecfg-agent, a program of its own; nodecfg install puts it on nodes"),
    ("apply", "use nodecfg sync"),
    ("check", "use nodecfg validate for files, or nodecfg verify for nodes"),
    ("crd", "use `nodecfg install --print crd`"),
    ("deploy", "use nodecfg sync"),
    ("get", "use nodecfg status"),
    ("lint", "use nodecfg validate"),
    ("log", "use `nodecfg history POOL`"),
    ("logs", "use `nodecfg history POOL`"),
    ("plan", "use nodecfg diff"),
    ("rollout", "use nodecfg sync to start a rollout, or nodecfg status to follow it"),
    ("undo", "use `nodecfg rollback POOL`"),
];

/// The declared commands and options. `-o` of each command accepts the formats that this command writes.
pub(crate) fn declared() -> clap::Command {
    Cli::command().mut_subcommands(|command| {
        let output = output::argument(command.get_name());
        with_summary(command.arg(output))
    })
}

/// Options that a summary omits, because few runs need them.
const OMITTED: [&str; 2] = ["concurrency", "request_timeout"];
/// Headings of options that few runs need. A summary names the heading alone.
const RARE: [&str; 5] = ["Agents", "Gates", "Monitoring", "Remote repositories", "Sandbox"];

/// The command with two help texts, as cargo has them: `-h` and `--help` print a summary that fits a screen, with the
/// first sentence about each option, and `help COMMAND` and the manual page describe all.
fn with_summary(command: clap::Command) -> clap::Command {
    let name = command.get_name().to_owned();
    let examples = command.get_after_help().map(ToString::to_string);
    // A list of faults, for example, is no part of a summary.
    let shown = examples.as_deref().and_then(|text| Some(&text[text.find("Example")?..])).map(str::to_owned);
    let is_in_examples = |argument: &clap::Arg| {
        let option = argument.get_long().map(|long| format!("--{long}")).unwrap_or_default();
        let mut words = shown.iter().flat_map(|text| text.split([' ', '=', '\n']));
        words.any(|word| word == option)
    };
    let is_rare = |argument: &clap::Arg| {
        let is_of_rare_group = argument.get_help_heading().is_some_and(|heading| RARE.contains(&heading));
        is_of_rare_group && !argument.is_hide_set() && !is_in_examples(argument)
    };
    let rare: BTreeSet<String> = command
        .get_arguments()
        .filter(|argument| is_rare(argument))
        .filter_map(clap::Arg::get_help_heading)
        .map(str::to_lowercase)
        .collect();
    let more = match rare.is_empty() {
        true => format!("`nodecfg help {name}` describes all options."),
        false => {
            let rare: Vec<&str> = rare.iter().map(String::as_str).collect();
            format!("`nodecfg help {name}` describes all options, also rare ones: {}.", rare.join(", "))
        }
    };
    let summary = shown.iter().cloned().chain([more]).collect::<Vec<_>>().join("\n\n");
    let command = command.mut_args(|argument| {
        let is_hidden = is_rare(&argument) || OMITTED.contains(&argument.get_id().as_str());
        let full = argument.get_long_help().or_else(|| argument.get_help()).map(ToString::to_string);
        let argument = argument.hide_short_help(is_hidden);
        match full {
            Some(full) => argument.help(first_sentence(&full).to_owned()).long_help(full),
            None => argument,
        }
    });
    let help = clap::Arg::new("help").short('h').long("help").action(clap::ArgAction::HelpShort);
    command
        .disable_help_flag(true)
        .arg(help.help_heading(None::<&str>).help("Print this summary"))
        .after_help(summary)
        .after_long_help(examples.unwrap_or_default())
}

/// The text up to the first period, semicolon, colon or bracket.
fn first_sentence(text: &str) -> &str {
    let ends = [". ", "; ", ": ", " ["].into_iter().filter_map(|end| text.find(end)).min();
    ends.map_or_else(|| text.trim_end_matches('.'), |end| &text[..end])
}

/// Parses the arguments of the program, the first of them its name.
pub(super) fn parse(arguments: &[OsString]) -> Result<Cli, clap::Error> {
    let mut program = declared();
    if arguments.first().is_some_and(|name| Path::new(name).file_stem() == Some(OsStr::new(PLUGIN))) {
        program = program.bin_name(PLUGIN.replacen('-', " ", 1));
    }
    let words = help_of_help(command_first(arguments));
    let matches = program.try_get_matches_from(words).map_err(with_hint)?;
    Cli::from_arg_matches(&matches)
}

/// The nodecfg command of the same purpose, if the error is about a command of another tool.
pub(super) fn hint(error: &clap::Error) -> Option<&'static str> {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    ELSEWHERE.iter().find(|(other, _)| other == name).map(|(_, hint)| *hint)
}

/// Replaces clap's proposal where it misleads: a command of similar spelling, and the option as an argument.
fn with_hint(mut error: clap::Error) -> clap::Error {
    let hint = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::InvalidSubcommand, _) => hint(&error),
        (ErrorKind::UnknownArgument, Some(ContextValue::String(option))) if selects_cluster(option) => {
            Some("omit this option: the command contacts no cluster")
        }
        _ => None,
    };
    if let Some(hint) = hint {
        error.remove(ContextKind::SuggestedSubcommand);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
    }
    error
}

/// Reports whether all commands with a cluster have this option.
fn selects_cluster(option: &str) -> bool {
    let cluster = ClusterArgs::augment_args(clap::Command::new("cluster"));
    let names = |argument: &clap::Arg| {
        let short = argument.get_short().map(|letter| format!("-{letter}"));
        argument.get_long().is_some_and(|long| option == format!("--{long}")) || short.as_deref() == Some(option)
    };
    cluster.get_arguments().any(names)
}

/// Moves the command before the options of output and cluster that precede it: `--context prod status` becomes `status
/// --context prod`. So each command still accepts only its own options. Other arguments keep their order.
pub(super) fn command_first(arguments: &[OsString]) -> Vec<OsString> {
    let mut ordered = arguments.to_vec();
    let options = leading_options(arguments.get(1..).unwrap_or_default());
    if let Some(words) = options.and_then(|options| ordered.get_mut(1..=options + 1)) {
        words.rotate_right(1);
    }
    ordered
}

/// Removes `--help` behind the command `help`, which takes no options: `help sync --help` becomes `help sync`, and `help
/// --help` becomes `help help`.
fn help_of_help(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let is_option = |word: &OsString| word == "--help" || word == "-h";
    if arguments.get(1).is_some_and(|command| command == "help") && arguments.iter().any(is_option) {
        arguments.retain(|word| !is_option(word));
        if arguments.len() == 2 {
            arguments.push("help".into());
        }
    }
    arguments
}

/// The number of words before the command. Unset without a command, and after an unknown option.
fn leading_options(words: &[OsString]) -> Option<usize> {
    let global = Cli::command();
    let cluster = BoundClusterArgs::augment_args(clap::Command::new("cluster"));
    let known = || global.get_arguments().chain(cluster.get_arguments());
    let separate_value = |option: &clap::Arg| option.get_action().takes_values() && !option.is_require_equals_set();
    let mut position = 0;
    loop {
        let word = words.get(position)?.to_str()?;
        let value_follows = if let Some(long) = word.strip_prefix("--") {
            let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            let option = known().find(|option| option.get_long() == Some(name))?;
            value.is_none() && separate_value(option)
        } else if let Some(cluster) = word.strip_prefix('-').filter(|cluster| !cluster.is_empty()) {
            value_follows(cluster, |letter| known().find(|option| option.get_short() == Some(letter)), separate_value)?
        } else {
            return Some(position);
        };
        position += if value_follows { 2 } else { 1 };
    }
}

/// Whether the value of the last of these short options is the next word. Unset if one is unknown.
fn value_follows<'o>(
    letters: &str,
    known: impl Fn(char) -> Option<&'o clap::Arg>,
    separate_value: impl Fn(&clap::Arg) -> bool,
) -> Option<bool> {
    let mut rest = letters.chars();
    while let Some(letter) = rest.next() {
        if separate_value(known(letter)?) {
            return Some(rest.as_str().is_empty());
        }
        if rest.as_str().starts_with('=') {
            return Some(false);
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout;

    #[test]
    fn declares_consistent_arguments() {
        declared().debug_assert();
    }

    #[test]
    fn summary_fits_a_screen() {
        let mut program = declared().term_width(100);
        program.build();
        for command in program.get_subcommands_mut() {
            let help = command.render_help().to_string();
            assert!(help.lines().count() < 60, "{} has {} lines", command.get_name(), help.lines().count());
        }
    }

    #[test]
    fn first_sentence_ends_at_a_period_semicolon_or_colon() {
        assert_eq!(first_sentence("Wait this long; 0 sets no limit. Default: 1m"), "Wait this long");
        assert_eq!(first_sentence("Use colors: auto or never"), "Use colors");
        assert_eq!(first_sentence("Read this folder [default: its root]"), "Read this folder");
        assert_eq!(first_sentence("Use 1.5 times as many"), "Use 1.5 times as many");
    }

    #[test]
    fn help_fits_the_terminal() {
        fn assert_fits(command: &mut clap::Command, width: usize) {
            for help in [command.render_help(), command.render_long_help()] {
                for line in help.to_string().lines() {
                    // clap does not wrap the line of the usage.
                    let stays = line.split_whitespace().count() <= 1 || width < 80 && line.starts_with("Usage: ");
                    assert!(layout::width(line) <= width || stays, "{} at {width}: {line}", command.get_name());
                }
            }
            command.get_subcommands_mut().for_each(|command| assert_fits(command, width));
        }
        for width in [40, 80, 120] {
            let mut program = declared().term_width(width);
            program.build();
            assert_fits(&mut program, width);
        }
    }

    #[test]
    fn moves_command_before_options() {
        for (given, expected) in [
            ("--context prod status", "status --context prod"),
            ("--context=prod -n kube-system -v sync . --dry-run", "sync --context=prod -n kube-system -v . --dry-run"),
            ("-vo json diff", "diff -vo json"),
            ("-ojson -v=2 --verbose=1 diff", "diff -ojson -v=2 --verbose=1"),
            ("-nkube-system -vv --request-timeout 5 status", "status -nkube-system -vv --request-timeout 5"),
            // Nothing to move, or unknown options: clap reports these.
            ("status --context prod", "status --context prod"),
            ("--bogus x status", "--bogus x status"),
            ("-vX status", "-vX status"),
            ("--context", "--context"),
            ("--context prod", "--context prod"),
            ("-- status", "-- status"),
            ("- status", "- status"),
            ("--help status", "--help status"),
            ("", ""),
        ] {
            let words = |line: &str| -> Vec<OsString> {
                ["nodecfg"].into_iter().chain(line.split_whitespace()).map(OsString::from).collect()
            };
            assert_eq!(command_first(&words(given)), words(expected), "{given}");
        }
        assert_eq!(command_first(&[]), [] as [OsString; 0]);
    }

    #[test]
    fn help_has_help() {
        for (line, shows) in [
            ("help --help", "Usage: nodecfg help"),
            ("help -h", "Usage: nodecfg help"),
            ("help sync --help", "Usage: nodecfg sync"),
            ("help", "Usage: nodecfg [OPTIONS] <COMMAND>"),
        ] {
            let words: Vec<OsString> = ["nodecfg"].into_iter().chain(line.split(' ')).map(OsString::from).collect();
            let shown = parse(&words).err().filter(|error| error.kind() == ErrorKind::DisplayHelp);
            assert!(shown.is_some_and(|help| help.to_string().contains(shows)), "{line}");
        }
        let words = ["nodecfg", "help", "--bogus"].map(OsString::from);
        assert!(parse(&words).is_err_and(|error| error.use_stderr()));
    }

    #[test]
    fn names_of_other_tools_are_no_commands() {
        let names: Vec<String> = declared().get_subcommands().map(|command| command.get_name().to_owned()).collect();
        for (other, hint) in ELSEWHERE {
            assert!(!names.iter().any(|name| name == other), "{other}");
            let named: Vec<&str> =
                hint.split("nodecfg ").skip(1).filter_map(|rest| rest.split([' ', ',']).next()).collect();
            assert!(!named.is_empty() && named.iter().all(|named| names.iter().any(|name| name == named)), "{hint}");
        }
        assert!(ELSEWHERE.is_sorted());
    }
}
