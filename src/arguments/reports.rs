//! `--report FORMAT=FILE`: additional outputs of one run.
//!
//! One run writes all formats. Several runs could print different results, because the cluster changes between them.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::str::FromStr;

use anstream::StripStream;
use clap::ValueEnum as _;

use crate::report::document::{html, markdown};
use crate::report::validation;
use crate::report::{self, Format, findings, run};
use crate::repository::Enclosing;
use crate::terminal::failure::CommandError;
use crate::terminal::github_actions;

/// Argument that requests additional outputs.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ReportArgs {
    /// Also write the result to FILE, such as json=FILE or FILE.html. Pages are those of diff, sync, rollback,
    /// verify and status. An existing file is replaced, and errors are written too. May be repeated.
    #[arg(long = "report", value_name = "FORMAT=FILE")]
    reports: Vec<Report>,
}

/// One additional output.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Report {
    output: Format,
    path: PathBuf,
}

impl FromStr for Report {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (format, path) = text.split_once('=').unwrap_or((text, ""));
        let output = match Format::from_str(format, false) {
            Ok(output) => output,
            // The extension selects the HTML format.
            Err(_) if text.ends_with(".html") => return Ok(Self { output: Format::Html, path: PathBuf::from(text) }),
            Err(_) => return Err(format!("unknown format `{format}`")),
        };
        if path.is_empty() {
            return Err(format!("the file name is missing: use {format}=FILE"));
        }
        Ok(Self { output, path: PathBuf::from(path) })
    }
}

/// A report that is being written.
pub(crate) struct OpenReport {
    pub(crate) output: Format,
    path: PathBuf,
    /// The file, or why it could not be opened or written. Later writes to a broken report are omitted, so that it has no
    /// gaps.
    file: Result<Box<dyn Write + Send>, io::Error>,
}

impl Report {
    /// The path of the file. In a checkout, the author of a pull request may have placed a link there.
    fn file(&self) -> io::Result<PathBuf> {
        Ok(Enclosing::with(github_actions::checkout()).new_file(&self.path)?)
    }

    /// Opens the file, to append without colors.
    fn open(&self) -> OpenReport {
        let file = self.file().and_then(|path| OpenOptions::new().append(true).create(true).open(path));
        let file = file.map(|file| Box::new(BufWriter::new(StripStream::new(file))) as Box<dyn Write + Send>);
        OpenReport { output: self.output, path: self.path.clone(), file }
    }
}

impl OpenReport {
    /// Writes a part of the report, unless an earlier part could not be written.
    pub(crate) fn write(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
        let Ok(file) = &mut self.file else { return };
        if let Err(error) = write(file).and_then(|()| file.flush()) {
            self.file = Err(error);
        }
    }

    /// Ends the report. Returns why it is missing or incomplete, if it is.
    pub(crate) fn close(self) -> Option<CommandError> {
        let Self { path, file, .. } = self;
        file.err().map(|error| CommandError::Report { path, error })
    }
}

impl ReportArgs {
    /// Truncates the files, so that none contains the result of an earlier run. Rejects formats that the command
    /// cannot write.
    ///
    /// # Errors
    /// A file cannot be written. Nothing else was done yet.
    pub(crate) fn create(&self, possible: impl Fn(Format) -> Result<(), CommandError>) -> Result<(), CommandError> {
        for report in &self.reports {
            possible(report.output)?;
            let created = report.file().and_then(File::create);
            created.map_err(|error| CommandError::Report { path: report.path.clone(), error })?;
        }
        Ok(())
    }

    /// Appends to every report by `write`. Returns the errors: a report that cannot be written prevents no other one.
    #[must_use]
    pub(crate) fn each(&self, mut write: impl FnMut(Format, &mut dyn Write) -> io::Result<()>) -> Vec<CommandError> {
        let one = |mut report: OpenReport| {
            let output = report.output;
            report.write(|out| write(output, out));
            report.close()
        };
        self.open().into_iter().filter_map(one).collect()
    }

    /// Opens every report.
    pub(crate) fn open(&self) -> Vec<OpenReport> {
        self.reports.iter().map(Report::open).collect()
    }

    /// Writes the failure of a command to its reports: to JSON and YAML as one document, to others only if they are
    /// empty. Write errors are ignored.
    pub(crate) fn write_failure(&self, command: &'static str, failure: &CommandError) {
        let Ok(document) = failure.document() else { return };
        let errors = failure.error_messages();
        let shown = run::failed(command, failure.exit() as u8, &errors);
        for report in &self.reports {
            let is_document = matches!(report.output, Format::Json | Format::Yaml);
            let is_empty = std::fs::metadata(&report.path).is_ok_and(|file| file.len() == 0);
            if !is_document && !is_empty {
                continue;
            }
            let mut open = report.open();
            open.write(|out| match report.output {
                Format::Json => writeln!(out, "{document}"),
                Format::Yaml => report::yaml(out, &document),
                Format::Markdown => markdown::write(out, &shown, false, None),
                Format::Html => html::write(out, &shown, nodecfg_clock::now()),
                Format::Junit => validation::failed(Format::Junit, out, &errors),
                Format::Sarif => validation::failed(Format::Sarif, out, &errors),
                Format::Text | Format::Wide | Format::Name => {
                    errors.iter().try_for_each(|error| findings::message(out, &error.message, &error.help))
                }
            });
        }
    }

    /// Reports whether no report is requested.
    pub(crate) fn is_empty(&self) -> bool {
        self.reports.is_empty()
    }

    /// Reports whether any report has this format.
    pub(crate) fn contains(&self, output: Format) -> bool {
        self.reports.iter().any(|report| report.output == output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_format_and_file() {
        let parsed = |text: &str| text.parse::<Report>();
        assert_eq!(parsed("json=a=b.json"), Ok(Report { output: Format::Json, path: PathBuf::from("a=b.json") }));
        for (text, path) in [("html=x", "x"), ("a/b.html", "a/b.html"), ("a=b.html", "a=b.html")] {
            assert_eq!(parsed(text), Ok(Report { output: Format::Html, path: PathBuf::from(path) }));
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
            assert!(args.each(|_, out| out.write_all(word.as_bytes())).is_empty());
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one two");
        let nowhere = ReportArgs { reports: vec!["json=/nowhere/at/all".parse().unwrap()] };
        assert!(matches!(nowhere.create(|_| Ok(())), Err(CommandError::Report { .. })));
    }

    #[test]
    fn broken_report_has_no_gap_and_prevents_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.txt");
        let reports = ["text=/nowhere/at/all".to_owned(), format!("text={}", path.display())];
        let args = ReportArgs { reports: reports.map(|report| report.parse().unwrap()).into() };
        let errors = args.each(|_, out| out.write_all(b"one "));
        assert!(
            matches!(errors.as_slice(), [CommandError::Report { path, .. }] if path.ends_with("all")),
            "{errors:?}"
        );
        let mut open = args.open().pop().unwrap();
        open.write(|_| Err(io::ErrorKind::StorageFull.into()));
        open.write(|out| out.write_all(b"two"));
        assert!(
            matches!(open.close(), Some(CommandError::Report { error, .. }) if error.kind() == io::ErrorKind::StorageFull)
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one ");
    }
}
