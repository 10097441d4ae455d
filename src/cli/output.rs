//! Output formats of `-o` and `--report`.

use super::CommandError;
use crate::report::Format;
use crate::report::validation::ReportFormat;

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(super) enum Output {
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
    /// A page for a browser; as a report of `sync`, `rollback`, `verify` and `status` only.
    Html,
}

impl Output {
    /// The format, for commands that do not report on files.
    pub(super) fn format(self) -> Result<Format, CommandError> {
        match self.shape()? {
            ReportFormat::Format(format) => Ok(format),
            ReportFormat::Sarif | ReportFormat::Junit => Err(CommandError::usage(
                "this command does not write sarif or junit, which hold findings about files",
                "use -o text, json, yaml or markdown",
            )),
        }
    }

    /// The format, for reports about files.
    pub(super) fn shape(self) -> Result<ReportFormat, CommandError> {
        Ok(match self {
            Self::Text => ReportFormat::Format(Format::Text),
            Self::Json => ReportFormat::Format(Format::Json),
            Self::Yaml => ReportFormat::Format(Format::Yaml),
            Self::Markdown => ReportFormat::Format(Format::Markdown),
            Self::Sarif => ReportFormat::Sarif,
            Self::Junit => ReportFormat::Junit,
            Self::Html => {
                return Err(CommandError::usage(
                    "html is only written as a report of sync, rollback, verify and status",
                    "use --report FILE.html with one of these commands",
                ));
            }
        })
    }
}
