//! `--report FORMAT=FILE`: additional outputs of one run.
//!
//! One run writes all formats. Several runs could print different results, because the cluster changes between them.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::str::FromStr;

use anstream::StripStream;
use clap::ValueEnum as _;

use super::CommandError;
use super::output::Output;
use crate::report::{self, html, run_summary};

/// Argument that requests additional outputs.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct ReportArgs {
    /// Also write the result to FILE in this format, such as json=FILE; FILE.html writes an HTML page (sync,
    /// rollback, verify, status). An existing file is replaced, and errors are written too. May be repeated.
    #[arg(long = "report", value_name = "FORMAT=FILE")]
    reports: Vec<Report>,
}

/// One additional output.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Report {
    output: Output,
    path: PathBuf,
}

impl FromStr for Report {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (format, path) = text.split_once('=').unwrap_or((text, ""));
        let output = match Output::from_str(format, false) {
            Ok(output) => output,
            // The extension selects the HTML format.
            Err(_) if text.ends_with(".html") => return Ok(Self { output: Output::Html, path: PathBuf::from(text) }),
            Err(_) => return Err(format!("unknown format `{format}`")),
        };
        if path.is_empty() {
            return Err(format!("the file name is missing: use {format}=FILE"));
        }
        Ok(Self { output, path: PathBuf::from(path) })
    }
}

/// The format of a report, and the writer to its file.
type Opened = (Output, Box<dyn Write + Send>);

impl Report {
    fn failed(&self, error: &io::Error) -> CommandError {
        CommandError::usage(
            format!("cannot write the report {}: {error}", self.path.display()),
            "name a file in an existing, writable folder",
        )
    }
}

impl ReportArgs {
    /// Truncates the files, so that none contains the result of an earlier run. Rejects formats that the command
    /// cannot write.
    ///
    /// # Errors
    /// A file cannot be written. Nothing else was done yet.
    pub(super) fn create(&self, possible: impl Fn(Output) -> Result<(), CommandError>) -> Result<(), CommandError> {
        for report in &self.reports {
            possible(report.output)?;
            File::create(&report.path).map_err(|error| report.failed(&error))?;
        }
        Ok(())
    }

    /// Appends to every report by `write`.
    ///
    /// # Errors
    /// A file cannot be written, or `write` fails.
    pub(super) fn each<E: Into<CommandError>>(
        &self,
        mut write: impl FnMut(Output, &mut dyn Write) -> Result<(), E>,
    ) -> Result<(), CommandError> {
        for (output, mut writer) in self.writers()? {
            write(output, &mut writer).map_err(Into::into)?;
            writer.flush()?;
        }
        Ok(())
    }

    /// Writes the failure of a command to its reports: to JSON and YAML as one document, to others only if they are
    /// empty. Write errors are ignored.
    pub(super) fn write_failure(&self, command: &'static str, failure: &CommandError) {
        let Ok(document) = failure.document() else { return };
        let (exit, errors) = (failure.exit() as u8, failure.error_messages());
        let silent = |report: &&Report| std::fs::metadata(&report.path).is_ok_and(|file| file.len() == 0);
        let people: Vec<Report> = self.reports.iter().filter(silent).cloned().collect();
        let _ = Self { reports: people }.each(|output, out| match output {
            Output::Markdown => run_summary::failed(out, command, exit, &errors),
            Output::Html => html::write(out, &html::failed(command, nodecfg_clock::now(), exit, errors.clone())),
            _ => Ok(()),
        });
        let documents = |report: &&Report| matches!(report.output, Output::Json | Output::Yaml);
        let programs: Vec<Report> = self.reports.iter().filter(documents).cloned().collect();
        let _ = Self { reports: programs }.each(|output, out| match output {
            Output::Yaml => report::yaml(out, &document),
            _ => writeln!(out, "{document}"),
        });
    }

    /// Reports whether any report has this format.
    pub(super) fn contains(&self, output: Output) -> bool {
        self.reports.iter().any(|report| report.output == output)
    }

    /// A writer for every report, without colors.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn writers(&self) -> Result<Vec<Opened>, CommandError> {
        let open = |report: &Report| {
            let file = OpenOptions::new().append(true).create(true).open(&report.path);
            let file = file.map_err(|error| report.failed(&error))?;
            let writer: Box<dyn Write + Send> = Box::new(BufWriter::new(StripStream::new(file)));
            Ok((report.output, writer))
        };
        self.reports.iter().map(open).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_format_and_file() {
        let parsed = |text: &str| text.parse::<Report>();
        assert_eq!(parsed("json=a=b.json"), Ok(Report { output: Output::Json, path: PathBuf::from("a=b.json") }));
        for (text, path) in [("html=x", "x"), ("a/b.html", "a/b.html"), ("a=b.html", "a=b.html")] {
            assert_eq!(parsed(text), Ok(Report { output: Output::Html, path: PathBuf::from(path) }));
        }
        assert_eq!(parsed("xml=x"), Err("unknown format `xml`".to_owned()));
        assert_eq!(parsed("json="), Err("the file name is missing: use json=FILE".to_owned()));
        assert_eq!(parsed("json"), Err("the file name is missing: use json=FILE".to_owned()));
    }

    #[test]
    fn replaces_earlier_report_and_strips_colors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.txt");
        std::fs::write(&path, "stale").unwrap();
        let args = ReportArgs { reports: vec![format!("text={}", path.display()).parse().unwrap()] };
        args.create(|_| Ok(())).unwrap();
        for word in ["\u{1b}[31mone\u{1b}[0m ", "two"] {
            args.each(|_, out| out.write_all(word.as_bytes())).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one two");
        let nowhere = ReportArgs { reports: vec!["json=/nowhere/at/all".parse().unwrap()] };
        assert!(matches!(nowhere.create(|_| Ok(())), Err(CommandError::Usage { .. })));
    }
}
