//! Writes a result in any format, to standard output and to the files of `--report`.

use std::io;
use std::io::Write;

use serde::Serialize;

use crate::arguments::reports::ReportArgs;
use crate::report;
use crate::report::Format;
use crate::report::document::json::Noticed;
use crate::report::document::terminal::Layout;
use crate::report::document::{Report, html, markdown, terminal as text};
use crate::terminal::exit::Exit;
use crate::terminal::streams::Terminal;
use nodecfg_contract::json_document::{Document, Kind};

/// A result as a document for programs and as a report for people.
pub(crate) struct Shown<B> {
    /// The body of the document.
    pub(crate) body: B,
    /// The report.
    pub(crate) report: Report,
    /// The layout of text on standard output.
    pub(crate) printed: Layout,
    /// The layout of text in a file.
    pub(crate) in_file: Layout,
    /// The maximum length of markdown on standard output, in UTF-16 units.
    pub(crate) most: Option<usize>,
}

impl<B: Kind + Serialize> Shown<B> {
    /// A result of a command that shows all of it.
    pub(crate) fn of(body: B, report: Report, terminal: &Terminal) -> Self {
        let printed = Layout { width: terminal.out_line, all: true, all_option: "" };
        Self { body, report, printed, in_file: Layout { width: usize::MAX, ..printed }, most: None }
    }

    /// Prints a result, then writes its reports, and returns `exit` unless standard output could not be written. A report
    /// that cannot be written is an error message after the result.
    pub(crate) fn emit(&self, output: Format, reports: &ReportArgs, exit: Exit, terminal: &mut Terminal) -> Exit {
        let printed = self.write(&mut terminal.out, output);
        let unwritten = reports.each(|output, out| self.write_in(out, output, self.in_file, None));
        terminal.end(exit, printed, &unwritten)
    }

    /// Prints the result of a command without `--report`.
    pub(crate) fn print(&self, output: Format, exit: Exit, terminal: &mut Terminal) -> Exit {
        self.emit(output, &ReportArgs::default(), exit, terminal)
    }

    /// Prints a result to standard output.
    pub(crate) fn write(&self, out: &mut dyn Write, output: Format) -> io::Result<()> {
        self.write_in(out, output, self.printed, self.most)
    }

    fn write_in(&self, out: &mut dyn Write, output: Format, layout: Layout, most: Option<usize>) -> io::Result<()> {
        match output {
            Format::Text => text::write(out, &self.report, layout),
            Format::Markdown => markdown::write(out, &self.report, layout.all, most),
            Format::Json => report::json(out, &Document::new(Noticed::of(&self.body, &self.report))),
            Format::Yaml => report::yaml(out, &Document::value(Noticed::of(&self.body, &self.report))?),
            Format::Html => html::write(out, &self.report, nodecfg_clock::now()),
            Format::Wide => text::write_wide(out, &self.report),
            Format::Name => self.report.names.iter().try_for_each(|name| writeln!(out, "{name}")),
            // Findings about files, which `validate` writes while it reads.
            Format::Sarif | Format::Junit => Ok(()),
        }
    }
}
