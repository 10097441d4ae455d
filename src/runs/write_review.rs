//! Writes a review, and the reports of it.

use std::io;
use std::io::Write;

use crate::arguments::reports::ReportArgs;
use crate::report;
use crate::report::{Format, findings, review as shown};
use crate::review::Review;
use crate::terminal::exit::Exit;
use crate::terminal::failure::CommandError;
use crate::terminal::streams::Terminal;
use nodecfg_contract::json_document::Document;

/// Creates the `--report` files of a review.
pub(crate) fn create_reports(reports: &ReportArgs) -> Result<(), CommandError> {
    reports.create(|output| output.format().map(drop))
}

/// Writes a review and its reports. `max_chars` limits only standard output. Returns the exit code of a command without
/// other results.
pub(crate) fn write(
    review: &Review,
    format: Format,
    max_chars: Option<u32>,
    reports: &ReportArgs,
    verbose: u8,
    terminal: &mut Terminal,
) -> Exit {
    let max_chars = max_chars.map(|number| usize::try_from(number).unwrap_or(usize::MAX));
    let width = terminal.out_width;
    let printed = write_one(&mut terminal.out, review, format, max_chars, verbose, width);
    let unwritten = reports.each(|output, out| {
        // Other formats were rejected before.
        output.format().map_or(Ok(()), |format| write_one(out, review, format, None, verbose, findings::WIDTH))
    });
    terminal.end(Exit::Done, printed, &unwritten)
}

fn write_one(
    out: &mut dyn Write,
    review: &Review,
    format: Format,
    max_chars: Option<usize>,
    verbose: u8,
    width: usize,
) -> io::Result<()> {
    match format {
        Format::Text => shown::text(out, review, verbose > 0, width),
        Format::Markdown => shown::markdown(out, review, max_chars),
        Format::Json => report::json(out, &Document::new(shown::body(review))),
        Format::Yaml => report::yaml(out, &Document::value(shown::body(review))?),
    }
}
