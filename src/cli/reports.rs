//! `--report FORMAT=FILE`: the result once more, in other formats, out of the same run.
//!
//! A pipeline that wants text in its log, markdown in a pull request and JSON for its next step must not run a command three
//! times: the cluster moves in between, and the three would disagree.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::str::FromStr;

use anstream::StripStream;
use clap::ValueEnum as _;

use super::CommandError;
use super::output::Output;
use crate::report::{self, html, run_summary};

/// Further outputs of a command.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct ReportArgs {
    /// Also write the result to a file, in the format named: json=FILE, for instance. FILE.html alone is a page for a browser,
    /// of sync, rollback, verify and status. May be repeated. The file of an earlier run is replaced; an error goes into it as well.
    #[arg(long = "report", value_name = "FORMAT=FILE")]
    reports: Vec<Report>,
}

/// One of them.
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
            // A page is known by its name.
            Err(_) if text.ends_with(".html") => return Ok(Self { output: Output::Html, path: PathBuf::from(text) }),
            Err(_) => return Err(format!("`{format}` is no format")),
        };
        if path.is_empty() {
            return Err(format!("it names no file: {format}=FILE"));
        }
        Ok(Self { output, path: PathBuf::from(path) })
    }
}

/// A report, and what writes its file.
type Opened = (Output, Box<dyn Write + Send>);

impl Report {
    fn failed(&self, error: &io::Error) -> CommandError {
        CommandError::usage(
            format!("cannot write the report {}: {error}", self.path.display()),
            "name a file in a folder that exists and can be written to",
        )
    }
}

impl ReportArgs {
    /// Empties the files, so that none holds what an earlier run said, and refuses formats that the command cannot write.
    ///
    /// # Errors
    /// When a file cannot be written, before anything was done.
    pub(super) fn create(&self, possible: impl Fn(Output) -> Result<(), CommandError>) -> Result<(), CommandError> {
        for report in &self.reports {
            possible(report.output)?;
            File::create(&report.path).map_err(|error| report.failed(&error))?;
        }
        Ok(())
    }

    /// Writes every report of those formats that `write` makes something of. What is there stays, for reports that grow.
    ///
    /// # Errors
    /// When a file cannot be written, or as `write` does.
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

    /// Writes the failure that a command ended with into the reports for programs, as one line, since some are lines already,
    /// and into those for people that say nothing yet. What cannot be written is no second failure.
    pub(super) fn fail(&self, command: &'static str, failure: &CommandError) {
        let Ok(document) = failure.document() else { return };
        let (exit, errors) = (failure.exit() as u8, failure.told());
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

    /// Whether one of them is of this format.
    pub(super) fn have(&self, output: Output) -> bool {
        self.reports.iter().any(|report| report.output == output)
    }

    /// A writer for every report, without colours.
    ///
    /// # Errors
    /// When a file cannot be written.
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
    fn a_report_is_a_format_and_a_file() {
        let parsed = |text: &str| text.parse::<Report>();
        assert_eq!(parsed("json=a=b.json"), Ok(Report { output: Output::Json, path: PathBuf::from("a=b.json") }));
        for (text, path) in [("html=x", "x"), ("a/b.html", "a/b.html"), ("a=b.html", "a=b.html")] {
            assert_eq!(parsed(text), Ok(Report { output: Output::Html, path: PathBuf::from(path) }));
        }
        assert_eq!(parsed("xml=x"), Err("`xml` is no format".to_owned()));
        assert_eq!(parsed("json="), Err("it names no file: json=FILE".to_owned()));
        assert_eq!(parsed("json"), Err("it names no file: json=FILE".to_owned()));
    }

    #[test]
    fn an_earlier_runs_report_is_gone_and_what_is_written_has_no_colours() {
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
