//! How results are written: what `-o` takes.

use super::CommandError;
use crate::report::Format;
use crate::report::validation::Shape;

/// What `-o` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(super) enum Output {
    /// For people.
    #[default]
    Text,
    /// For programs: one document, or one line per event where a command runs for long.
    Json,
    /// The same document as YAML.
    Yaml,
    /// For a pull request.
    Markdown,
    /// For code scanning, SARIF 2.1.0; of `validate` alone.
    Sarif,
    /// For the test reports of a pipeline, JUnit XML; of `validate` alone.
    Junit,
    /// A page for a browser; as a report of `sync`, `verify` and `status` alone.
    Html,
}

impl Output {
    /// The format of a command that reports about other things than files.
    pub(super) fn format(self) -> Result<Format, CommandError> {
        match self.shape()? {
            Shape::Format(format) => Ok(format),
            Shape::Sarif | Shape::Junit => Err(CommandError::usage(
                "this command writes neither sarif nor junit, which are for findings about files",
                "use -o text, json, yaml or markdown; `nodecfg validate` writes sarif and junit",
            )),
        }
    }

    /// The format of a report about files.
    pub(super) fn shape(self) -> Result<Shape, CommandError> {
        Ok(match self {
            Self::Text => Shape::Format(Format::Text),
            Self::Json => Shape::Format(Format::Json),
            Self::Yaml => Shape::Format(Format::Yaml),
            Self::Markdown => Shape::Format(Format::Markdown),
            Self::Sarif => Shape::Sarif,
            Self::Junit => Shape::Junit,
            Self::Html => {
                return Err(CommandError::usage(
                    "html is a page about nodes, in a file of its own",
                    "`nodecfg sync`, `rollback`, `verify` and `status` write it with --report FILE.html",
                ));
            }
        })
    }
}
