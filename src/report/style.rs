//! Text styles of all outputs.

use std::fmt::Display;

use owo_colors::OwoColorize as _;

pub(super) fn heading(text: impl Display) -> String {
    text.bold().to_string()
}

pub(super) fn added(text: impl Display) -> String {
    text.green().to_string()
}

pub(super) fn removed(text: impl Display) -> String {
    text.red().to_string()
}

pub(super) fn changed(text: impl Display) -> String {
    text.yellow().to_string()
}

pub(super) fn good(text: impl Display) -> String {
    text.green().to_string()
}

pub(super) fn bad(text: impl Display) -> String {
    text.red().bold().to_string()
}

pub(super) fn warning(text: impl Display) -> String {
    text.yellow().bold().to_string()
}

pub(super) fn quiet(text: impl Display) -> String {
    text.dimmed().to_string()
}
