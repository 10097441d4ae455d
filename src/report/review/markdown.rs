//! A review for a pull request.

use std::io::{self, Write};

use super::words;
use crate::report::markdown::prose;
use crate::review::Review;

/// The fewest characters that a review can be kept within.
pub const LEAST_CHARS: i64 = 1000;

/// Writes the review as GitHub-flavoured markdown, within so many characters.
///
/// # Errors
/// When the writer does.
pub fn write(out: &mut dyn Write, review: &Review, _most: Option<usize>) -> io::Result<()> {
    writeln!(out, "**nodecfg**: this {}", prose(&words::verdict(review)))
}
