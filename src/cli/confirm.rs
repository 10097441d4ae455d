//! Asks on a terminal before something is done that is not easily undone.

use std::io::{self, BufRead as _, IsTerminal as _, Write};

use super::{CommandError, Terminal};

/// Whether to ask.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(super) struct ConfirmArgs {
    /// Do it without asking. Needed where standard input or standard error is no terminal.
    #[arg(short, long)]
    yes: bool,
}

impl ConfirmArgs {
    /// Whether nobody need be asked.
    pub(super) fn is_given(self) -> bool {
        self.yes
    }

    /// Makes sure that there will be somebody to ask, or that nobody need be: before anything is looked at.
    pub(super) fn possible(self) -> Result<(), CommandError> {
        if self.yes || (io::stdin().is_terminal() && io::stderr().is_terminal()) {
            return Ok(());
        }
        Err(CommandError::usage(
            "this asks before it changes anything, and there is no terminal to ask on",
            "pass --yes to do it without being asked, or --dry-run to see what it would do",
        ))
    }

    /// Asks, and answers whether it shall be done. Everything but yes is no.
    pub(super) async fn ask(self, question: &str, terminal: &mut Terminal) -> Result<bool, CommandError> {
        if self.yes {
            return Ok(true);
        }
        terminal.out.flush()?;
        write!(terminal.err, "\n{question} [y/N] ")?;
        terminal.err.flush()?;
        let mut line = OpenLine { out: &mut *terminal.err, open: true };
        let reading = tokio::task::spawn_blocking(|| {
            let mut line = String::new();
            io::stdin().lock().read_line(&mut line).map(|_| line)
        });
        let answer = reading.await.map_err(io::Error::other)??;
        // Whoever answers ends the line, unless by the end of the input.
        line.open = !answer.ends_with('\n');
        drop(line);
        let yes = is_yes(&answer);
        if !yes {
            writeln!(terminal.aside(), "Not confirmed; nothing was changed.")?;
        }
        Ok(yes)
    }
}

/// The line of the question: ended for whatever is said next when nobody answers, as with Ctrl-C.
struct OpenLine<'a> {
    out: &'a mut dyn Write,
    open: bool,
}

impl Drop for OpenLine<'_> {
    fn drop(&mut self) {
        if self.open {
            let _ = writeln!(self.out);
        }
    }
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_without_an_answer_ends_its_line() {
        for (open, text) in [(true, "sure? \n"), (false, "sure? ")] {
            let mut out = b"sure? ".to_vec();
            drop(OpenLine { out: &mut out, open });
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }

    #[test]
    fn only_yes_is_yes() {
        for yes in ["y\n", "Y", " yes ", "YES\r\n"] {
            assert!(is_yes(yes), "{yes:?}");
        }
        for no in ["", "\n", "n", "no", "ye", "yy", "ja"] {
            assert!(!is_yes(no), "{no:?}");
        }
    }
}
