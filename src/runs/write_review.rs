//! Writes a review, and the reports of it.

use crate::arguments::output::require_page_or_document;
use crate::arguments::reports::ReportArgs;
use crate::report::document::terminal::Layout;
use crate::report::{Format, findings, review as shown};
use crate::review::Review;
use crate::runs::emit::Shown;
use crate::terminal::exit::Exit;
use crate::terminal::failure::CommandError;
use crate::terminal::streams::Terminal;

/// Creates the `--report` files of a review.
pub(crate) fn create_reports(reports: &ReportArgs) -> Result<(), CommandError> {
    reports.create(require_page_or_document)
}

/// Writes a review by `command` and its reports. `max_chars` limits only standard output. Returns the exit code of a
/// command without other results.
pub(crate) fn write(
    command: &'static str,
    review: &Review,
    format: Format,
    max_chars: Option<u32>,
    reports: &ReportArgs,
    verbose: u8,
    terminal: &mut Terminal,
) -> Exit {
    let printed = layout(terminal.out_width, verbose > 0);
    let shown = Shown {
        body: shown::body(review),
        report: shown::report(command, review),
        printed,
        in_file: Layout { width: findings::WIDTH, ..printed },
        most: max_chars.map(|number| usize::try_from(number).unwrap_or(usize::MAX)),
    };
    shown.emit(format, reports, Exit::Done, terminal)
}

/// The layout of a command with `-v`.
pub(crate) fn layout(width: usize, verbose: bool) -> Layout {
    Layout { width, all: verbose, all_option: "-v" }
}
