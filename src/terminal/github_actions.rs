//! Detection of GitHub Actions, annotations of files in its checkout, and output that the runner does not obey.

use std::borrow::Cow;
use std::env;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::failure::CommandError;
use crate::report::validation::{Batch, FileReport, Location, annotations};

/// Reports whether the process runs in GitHub Actions, which turns workflow commands into annotations.
pub(crate) fn is_active() -> bool {
    env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true")
}

/// The folder of the checkout, which may have no `.git`: without git on the machine, actions/checkout downloads files.
pub(crate) fn checkout() -> Option<PathBuf> {
    let workspace = env::var_os("GITHUB_WORKSPACE").filter(|_| is_active()).map(PathBuf::from);
    workspace.filter(|folder| folder.is_absolute())
}

/// The current folder relative to the checkout. Outside GitHub Actions, the root is the current folder.
pub(crate) fn location() -> Location {
    let current = env::current_dir().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
    let root = if is_active() { env::var("GITHUB_WORKSPACE").unwrap_or_default() } else { String::new() };
    Location { current, root }
}

/// Writer of text that may quote other authors. The runner obeys `::command::` at the start of a line and `##[command]`
/// anywhere in it (actions/runner, `src/Runner.Common/ActionCommand.cs`), for example `::stop-commands::`, which hides
/// later annotations, and `::set-output`. A zero-width space breaks up both.
pub(crate) struct WithoutCommands<W> {
    inner: W,
    before: Before,
    /// Whether the next bytes belong to a style of nodecfg, which the stream may remove.
    in_style: bool,
}

/// The text, in GitHub Actions without workflow commands.
pub(crate) fn without_commands(text: &str) -> Cow<'_, str> {
    let mut out = WithoutCommands::new(Vec::new());
    // Writing to memory does not fail.
    if !is_active() || out.write_all(text.as_bytes()).is_err() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(String::from_utf8_lossy(&out.inner).into_owned())
}

/// The part of a line before the next byte, as far as it may begin a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// Nothing but white space, also that of other scripts.
    Start,
    /// Such a start and a colon.
    Colon,
    /// A number sign.
    Sign,
    /// Several number signs.
    Signs,
    Text,
}

impl<W> WithoutCommands<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self { inner, before: Before::Start, in_style: false }
    }
}

impl<W: Write> Write for WithoutCommands<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut shown = Vec::with_capacity(bytes.len());
        for byte in bytes {
            // A style is `ESC [ 3 1 ; 1 m`. Anything else in it may be the start of a line.
            let is_style = self.in_style && (matches!(byte, b'[' | b';' | b'0'..=b'9') || byte.is_ascii_alphabetic());
            self.in_style = *byte == b'\x1b' || (is_style && !byte.is_ascii_alphabetic());
            if self.in_style || is_style {
                shown.push(*byte);
                continue;
            }
            let (before, breaks) = match (self.before, byte) {
                (_, b'\n' | b'\r') => (Before::Start, false),
                (Before::Start, byte) if byte.is_ascii_whitespace() || !byte.is_ascii() => (Before::Start, false),
                (Before::Start, b':') => (Before::Colon, false),
                (Before::Colon, b':') => (Before::Text, true),
                (Before::Sign | Before::Signs, b'#') => (Before::Signs, false),
                (_, b'#') => (Before::Sign, false),
                (Before::Signs, b'[') => (Before::Text, true),
                _ => (Before::Text, false),
            };
            if breaks {
                shown.extend("\u{200b}".as_bytes());
            }
            shown.push(*byte);
            self.before = before;
        }
        self.inner.write_all(&shown)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Annotates the repository lines that made a command fail. Write errors are ignored: the failure itself is printed
/// too.
pub(crate) fn annotate(out: &mut dyn Write, failure: &CommandError, root: &str) {
    // A fetched repository has no files in this checkout.
    if !is_active() || !Path::new(root).is_dir() {
        return;
    }
    let Some((findings, snapshot)) = failure.findings() else { return };
    let files = [FileReport { findings: findings.into_iter().cloned().collect(), ..FileReport::default() }];
    let batch = Batch { root, files: &files, findings: &[], texts: &|file| snapshot.text(file) };
    let _ = annotations::write(out, &batch, &location(), false);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text as written, in parts of this size.
    fn written(text: &str, size: usize) -> String {
        let mut out = WithoutCommands::new(Vec::new());
        text.as_bytes().chunks(size).for_each(|part| out.write_all(part).unwrap());
        String::from_utf8(out.inner).unwrap()
    }

    #[test]
    fn breaks_up_commands() {
        for (text, shown) in [
            ("::error::x", ":^:error::x"),
            ("a\n \t::stop-commands::x", "a\n \t:^:stop-commands::x"),
            ("a\r::error::x", "a\r:^:error::x"),
            ("\u{a0}\u{3000}::error::x", "\u{a0}\u{3000}:^:error::x"),
            ("\u{1b}[1;31m::\u{1b}[0merror", "\u{1b}[1;31m:^:\u{1b}[0merror"),
            (":\u{1b}[0m:error", ":\u{1b}[0m^:error"),
            ("a\u{1b}\r::error", "a\u{1b}\r:^:error"),
            ("\u{1b}::error", "\u{1b}:^:error"),
            ("\u{1b}[3\n::error", "\u{1b}[3\n:^:error"),
            ("a ##[error]x ###[x]", "a ##^[error]x ###^[x]"),
        ] {
            for size in [1, 2, 100] {
                assert_eq!(written(text, size), shown.replace('^', "\u{200b}"), "{text:?}");
            }
        }
    }

    #[test]
    fn keeps_other_text() {
        for text in ["std::fs ::x", "a: b:: c", "# [x] #[y]", ": :", "pool/a ::1\n"] {
            assert_eq!(written(text, 1), text);
        }
    }
}
