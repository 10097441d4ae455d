//! Prints failures: of a command, and of outputs beside its result.

use std::io;
use std::io::Write as _;

use super::failure::CommandError;
use crate::report;
use crate::report::error::ErrorMessage;
use crate::report::{Format, findings, stale};
use crate::telemetry::facts::RunFailure;
use crate::terminal::exit::Exit;
use crate::terminal::streams::Terminal;
use nodecfg_plan::Problem;

impl CommandError {
    /// Prints the failure in the output format of the command.
    pub(crate) fn report(&self, terminal: &mut Terminal, format: Format) -> Exit {
        let exit = self.exit();
        let written = match (self, format) {
            (Self::Output(_), _) => {
                terminal.close_out();
                self.write_text(terminal)
            }
            (_, Format::Json | Format::Yaml) => self.write_document(terminal, format),
            _ => self.write_text(terminal),
        };
        // If the report cannot be written, the exit code still reports the failure.
        let _ = written;
        exit
    }

    /// Prints the failure for people.
    pub(crate) fn write_text(&self, terminal: &mut Terminal) -> io::Result<()> {
        if let Self::Invalid { findings, snapshot } = self {
            return findings::text(&mut terminal.err, snapshot, findings, 0, terminal.err_width);
        }
        if let Self::Problems { problems, snapshot } = self {
            for (index, problem) in problems.iter().enumerate() {
                if index > 0 {
                    writeln!(terminal.err)?;
                }
                findings::message(&mut terminal.err, &problem.to_string(), &problem.help())?;
                if let Problem::Refused { findings, .. } = problem {
                    writeln!(terminal.err)?;
                    findings::write_each(
                        &mut terminal.err,
                        &|file| snapshot.text(file),
                        findings.iter(),
                        terminal.err_width,
                    )?;
                }
            }
            return terminal.err.flush();
        }
        if let Self::Stale { path, differences } = self {
            stale::text(&mut terminal.err, path, differences)?;
            return terminal.err.flush();
        }
        for ErrorMessage { message, help, .. } in self.error_messages() {
            findings::message(&mut terminal.err, &message, &help)?;
        }
        terminal.err.flush()
    }

    fn write_document(&self, terminal: &mut Terminal, format: Format) -> io::Result<()> {
        let document = self.document()?;
        match format {
            Format::Yaml => report::yaml(&mut terminal.out, &document),
            // One line, because some commands write JSON lines.
            _ => report::json_line(&mut terminal.out, &document),
        }
    }
}

impl Terminal {
    /// Ends a command with a result and an exit code. Prints which outputs are missing or incomplete: they end the command
    /// with code 2, unless the result is an error.
    pub(crate) fn end(&mut self, exit: Exit, printed: io::Result<()>, unwritten: &[CommandError]) -> Exit {
        match self.print_unwritten(printed, unwritten) {
            None => exit,
            Some(kind) => {
                self.record.failure.get_or_insert(kind);
                exit.max(Exit::Failed)
            }
        }
    }

    /// Prints which outputs are missing or incomplete, after the result that was `printed`. Returns the kind of the first.
    pub(crate) fn print_unwritten(
        &mut self,
        printed: io::Result<()>,
        unwritten: &[CommandError],
    ) -> Option<RunFailure> {
        let lost = printed.and_then(|()| self.out.flush()).err().map(CommandError::Output);
        if lost.is_some() {
            self.close_out();
        }
        let errors = || lost.iter().chain(unwritten);
        for error in errors() {
            // Nothing else can report that standard error is not writable either.
            let _ = error.write_text(self);
        }
        errors().next().map(CommandError::kind)
    }

    /// Prints what to do after a result, which stays as it is if this cannot be printed.
    pub(crate) fn advise(&mut self, advice: std::fmt::Arguments<'_>) {
        self.print_unwritten(Ok(()), &[]);
        let _ = writeln!(self.info(), "{advice}");
    }
}
