//! Output formats of `-o` and `--report`, and the formats that each command writes.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Command, ValueEnum as _};

use crate::report::Format;
use crate::report::validation::ReportFormat;
use crate::terminal::failure::CommandError;

/// Help heading of the options that every command accepts.
pub(crate) const GLOBAL: &str = "Global options";

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Output {
    /// For people.
    #[default]
    Text,
    /// For programs: one document, or one line per event of a long-running command.
    Json,
    /// The JSON document as YAML.
    Yaml,
    /// For a pull request.
    Markdown,
    /// SARIF 2.1.0 for code scanning; `validate` only.
    Sarif,
    /// JUnit XML for test reports; `validate` only.
    Junit,
    /// A line per item with all columns; `status`, `history` and `gates` only.
    Wide,
    /// A name per line, as kubectl accepts it; `status`, `history` and `gates` only.
    Name,
    /// A page for a browser; as a report of `diff`, `sync`, `rollback`, `reset`, `verify` and `status` only.
    Html,
}

impl From<Format> for Output {
    fn from(format: Format) -> Self {
        match format {
            Format::Text => Self::Text,
            Format::Json => Self::Json,
            Format::Yaml => Self::Yaml,
            Format::Markdown => Self::Markdown,
        }
    }
}

impl Output {
    /// Requires a format in which a result can be written to a file: a document or a page.
    pub(crate) fn of_report(self) -> Result<(), CommandError> {
        match self {
            Self::Html => Ok(()),
            document => document.format().map(drop),
        }
    }

    /// The format of messages about the result.
    pub(crate) fn messages(self) -> Format {
        self.format().unwrap_or_default()
    }

    /// The format, for commands that do not report on files.
    pub(crate) fn format(self) -> Result<Format, CommandError> {
        match self.shape()? {
            ReportFormat::Format(format) => Ok(format),
            ReportFormat::Sarif | ReportFormat::Junit => Err(CommandError::usage(
                "this command does not write sarif or junit, which hold findings about files",
                "use -o text, json, yaml or markdown",
            )),
        }
    }

    /// The format, for reports about files.
    pub(crate) fn shape(self) -> Result<ReportFormat, CommandError> {
        Ok(match self {
            Self::Text => ReportFormat::Format(Format::Text),
            Self::Json => ReportFormat::Format(Format::Json),
            Self::Yaml => ReportFormat::Format(Format::Yaml),
            Self::Markdown => ReportFormat::Format(Format::Markdown),
            Self::Sarif => ReportFormat::Sarif,
            Self::Junit => ReportFormat::Junit,
            Self::Wide | Self::Name => {
                return Err(CommandError::usage(
                    "only status, history and gates write wide and name, and only to standard output",
                    "use -o wide or -o name with one of these commands",
                ));
            }
            Self::Html => {
                return Err(CommandError::usage(
                    "html is only written as a report of diff, sync, rollback, reset, verify and status",
                    "use --report FILE.html with one of these commands",
                ));
            }
        })
    }
}

/// Formats of a document.
const DOCUMENT: &[Output] = &[Output::Text, Output::Json, Output::Yaml, Output::Markdown];

/// The formats that a command writes, and what it writes.
fn formats(command: &str) -> (&'static [Output], &'static str) {
    use Output::{Json, Junit, Markdown, Name, Sarif, Text, Wide, Yaml};
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
struct Formats(&'static [Output]);

impl Formats {
    fn values(&self) -> impl Iterator<Item = PossibleValue> + '_ {
        // Without the descriptions, which would take a line each in every help text.
        self.0.iter().filter_map(Output::to_possible_value).map(|value| value.help(None::<&'static str>))
    }
}

impl TypedValueParser for Formats {
    type Value = Output;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, value: &OsStr) -> Result<Output, clap::Error> {
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
        "html" => Some("diff, sync, rollback, reset, verify and status write a page with --report FILE.html"),
        "sarif" | "junit" => Some("nodecfg validate writes this format"),
        "jsonpath" | "go-template" | "custom-columns" => Some("use -o json and a program such as jq"),
        _ => None,
    }
}
