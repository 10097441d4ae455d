//! Format formats of `-o` and `--report`, and the formats that each command writes.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Command, ValueEnum as _};

use crate::report::Format;
use crate::terminal::failure::CommandError;

/// Help heading of the options that every command accepts.
pub(crate) const GLOBAL: &str = "Global options";

/// Requires a format in which a result can be written to a file: a document or a page.
pub(crate) fn require_page_or_document(format: Format) -> Result<(), CommandError> {
    match format {
        Format::Sarif | Format::Junit => Err(CommandError::usage(
            "this command does not write sarif or junit, which hold findings about files",
            "use -o text, json, yaml or markdown",
        )),
        Format::Html => Ok(()),
        other => require_findings(other),
    }
}

/// Requires a format in which findings about files can be written to a file.
pub(crate) fn require_findings(format: Format) -> Result<(), CommandError> {
    match format {
        Format::Text | Format::Json | Format::Yaml | Format::Markdown | Format::Sarif | Format::Junit => Ok(()),
        Format::Wide | Format::Name => Err(CommandError::usage(
            "only status, history and gates write wide and name, and only to standard output",
            "use -o wide or -o name with one of these commands",
        )),
        Format::Html => Err(CommandError::usage(
            "html is only written as a report of diff, sync, rollback, verify and status",
            "use --report FILE.html with one of these commands",
        )),
    }
}

/// Formats of a document.
const DOCUMENT: &[Format] = &[Format::Text, Format::Json, Format::Yaml, Format::Markdown];

/// The formats that a command writes, and what it writes.
fn formats(command: &str) -> (&'static [Format], &'static str) {
    use Format::{Json, Junit, Markdown, Name, Sarif, Text, Wide, Yaml};
    match command {
        "validate" => (&[Text, Json, Yaml, Markdown, Sarif, Junit], "Print the findings in this format"),
        "sync" | "rollback" | "reset" => {
            (DOCUMENT, "Print the run as text or json (one line per event); with --dry-run also as yaml or markdown")
        }
        "verify" => (&[Text, Json], "Print the run as text or json (one line per event)"),
        "status" => (
            &[Text, Wide, Name, Json, Yaml, Markdown],
            "Print the status in this format: wide is a line per node with all columns, name is node/NAME for other \
             programs; with --watch text or json (one line per change)",
        ),
        "history" => (
            &[Text, Wide, Name, Json, Yaml, Markdown],
            "Print the history in this format: wide is a line per revision, name is configmap/NAME for other programs",
        ),
        "gates" => (
            &[Text, Wide, Name, Json, Yaml, Markdown],
            "Print the answers in this format: wide is a line per gate and pool, name is gate/NAME",
        ),
        "install" => {
            (&[Text, Json, Yaml], "Print the result in this format; with --dry-run the objects as yaml or json")
        }
        "completions" | "help" | "man" | "render" | "sandbox" | "schema" => {
            (&[Text, Json, Yaml], "Print errors in this format")
        }
        _ => (DOCUMENT, "Print the result in this format"),
    }
}

/// The argument `-o` of a command, which accepts the formats that this command writes.
pub(crate) fn argument(command: &str) -> Arg {
    let (formats, help) = formats(command);
    let argument = Arg::new("output").short('o').long("output").value_name("FORMAT").help(help);
    argument.value_parser(Formats(formats)).default_value("text").help_heading(GLOBAL).display_order(100)
}

/// Parser of the formats that a command writes.
#[derive(Clone)]
struct Formats(&'static [Format]);

impl Formats {
    fn values(&self) -> impl Iterator<Item = PossibleValue> + '_ {
        // Without the descriptions, which would take a line each in every help text.
        self.0.iter().filter_map(Format::to_possible_value).map(|value| value.help(None::<&'static str>))
    }
}

impl TypedValueParser for Formats {
    type Value = Format;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, value: &OsStr) -> Result<Format, clap::Error> {
        let names = PossibleValuesParser::new(self.values());
        let name = names.parse_ref(command, argument, value).map_err(|mut error| {
            if let Some(tip) = value.to_str().and_then(alternative) {
                error.remove(ContextKind::SuggestedValue);
                error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
            }
            error
        })?;
        let found =
            self.0.iter().find(|format| format.to_possible_value().is_some_and(|value| value.matches(&name, false)));
        found.copied().ok_or_else(|| clap::Error::new(clap::error::ErrorKind::InvalidValue).with_cmd(command))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.values()))
    }
}

/// What replaces a format that exists elsewhere: in a report, in another command or in kubectl.
fn alternative(format: &str) -> Option<&'static str> {
    let kind = format.split('=').next().unwrap_or(format);
    match kind {
        "html" => Some("diff, sync, rollback, verify and status write a page with --report FILE.html"),
        "sarif" | "junit" => Some("nodecfg validate writes this format"),
        "jsonpath" | "go-template" | "custom-columns" => Some("use -o json and a program such as jq"),
        _ => None,
    }
}
