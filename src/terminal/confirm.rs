//! Confirmation prompts before destructive changes.

use std::io::{self, BufRead as _, IsTerminal as _, Write};

use crate::terminal::failure::CommandError;
use crate::terminal::streams::Terminal;

/// Argument that skips the prompt.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct ConfirmArgs {
    /// Skip the confirmation prompt, which needs a terminal as standard input and standard error.
    #[arg(short, long)]
    yes: bool,
}

impl ConfirmArgs {
    /// Reports whether --yes is given.
    pub(crate) fn is_given(self) -> bool {
        self.yes
    }

    /// Fails before any other work if a prompt is needed but there is no terminal.
    pub(crate) fn require_terminal(self) -> Result<(), CommandError> {
        if self.yes || (io::stdin().is_terminal() && io::stderr().is_terminal()) {
            return Ok(());
        }
        Err(CommandError::usage(
            "cannot ask for confirmation: standard input or standard error is not a terminal",
            "pass --yes to skip the confirmation",
        ))
    }

    /// Prints the question and reads the answer. Only `y` and `yes` confirm.
    pub(crate) async fn ask(self, question: &str, terminal: &mut Terminal) -> Result<bool, CommandError> {
        if self.yes {
            return Ok(true);
        }
        terminal.out.flush()?;
        write!(terminal.err, "\n{question} [y/N] ")?;
        terminal.err.flush()?;
        let mut line = PromptLine { out: &mut *terminal.err, open: true };
        let reading = tokio::task::spawn_blocking(|| {
            let mut line = String::new();
            io::stdin().lock().read_line(&mut line).map(|_| line)
        });
        let answer = reading.await.map_err(io::Error::other)??;
        // Terminals echo the newline of the answer; the end of the input has none.
        line.open = !answer.ends_with('\n');
        drop(line);
        let yes = is_yes(&answer);
        if !yes {
            writeln!(terminal.info(), "Not confirmed; nothing was changed.")?;
        }
        Ok(yes)
    }
}

/// The line of the prompt. Dropping it without an answer, as on Ctrl-C, prints a newline.
struct PromptLine<'a> {
    out: &'a mut dyn Write,
    open: bool,
}

impl Drop for PromptLine<'_> {
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
    fn ends_prompt_line_without_answer() {
        for (open, text) in [(true, "sure? \n"), (false, "sure? ")] {
            let mut out = b"sure? ".to_vec();
            drop(PromptLine { out: &mut out, open });
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }

    #[test]
    fn accepts_only_yes() {
        for yes in ["y\n", "Y", " yes ", "YES\r\n"] {
            assert!(is_yes(yes), "{yes:?}");
        }
        for no in ["", "\n", "n", "no", "ye", "yy", "ja"] {
            assert!(!is_yes(no), "{no:?}");
        }
    }
}
