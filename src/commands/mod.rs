//! Command-line interface: argument parsing, the dispatch to one file per command, and the exit code.
//!
//! Only this layer reads the environment, opens streams and starts the runtime. `failure` converts errors of every
//! stage into an exit code and a report. `reconcile` is the only path that assigns nodes. What a user of the library
//! would need belongs into another module.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::{ExitCode, Termination as _};

use clap::{Parser, Subcommand};
use clap_complete::CompleteEnv;
use nodecfg_agent::cli::usage;
use tokio::runtime::Builder;

mod abort;
mod capture;
pub(crate) mod command_line;
mod complete;
mod completions;
mod diff;
mod doctor;
mod effective;
mod explain;
mod gates;
mod history;
mod init;
mod install;
mod man;
mod pause;
mod prune;
#[cfg(test)]
mod quoted_commands;
mod release;
mod render;
mod reset;
mod resume;
mod rollback;
#[cfg(feature = "sandbox")]
mod sandbox;
#[cfg(not(feature = "sandbox"))]
#[path = "without_sandbox.rs"]
mod sandbox;
mod schema;
mod status;
mod sync;
mod validate;
mod verify;
mod version;

use crate::arguments::output::GLOBAL;
use crate::arguments::reports::ReportArgs;
use crate::arguments::telemetry::Telemetry;
use crate::report::Format;
use crate::report::validation;
use crate::runs::run;
use crate::terminal::exit::{self, Exit};
use crate::terminal::failure::{CommandError, CommandResult};
use crate::terminal::streams::{Color, Terminal};
use crate::terminal::{github_actions, logging};
use nodecfg_contract::printable::escaped;

/// Keep the kubelet configuration of every node pool in git, roll it out safely, and prove that each node converged.
#[derive(Debug, Parser)]
#[command(name = "nodecfg", version, propagate_version = true, after_help = exit::TABLE, max_term_width = 100)]
pub struct Cli {
    /// Print the result as text, json, yaml or markdown; the help of a command lists its formats.
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    #[arg(hide_possible_values = true, help_heading = GLOBAL, display_order = 100)]
    output: Format,
    /// Use colors: auto (on a terminal, unless NO_COLOR is set), always or never.
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    #[arg(hide_possible_values = true, help_heading = GLOBAL, display_order = 101)]
    color: Color,
    /// Print more details and log each step; -vv or -v=2 logs every request.
    #[arg(short, long, global = true, num_args = 0..=1, require_equals = true, default_missing_value = "1")]
    #[arg(action = clap::ArgAction::Append, value_name = "N", help_heading = GLOBAL, display_order = 102)]
    verbose: Vec<u8>,
    /// Print only warnings, errors and the result.
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = GLOBAL, display_order = 103)]
    quiet: bool,
    #[command(subcommand)]
    command: Command,
}

impl Cli {
    /// The level of `-v`: `-v -v`, `-vv` and `-v=2` are level 2.
    fn verbosity(&self) -> u8 {
        self.verbose.iter().copied().fold(0, u8::saturating_add)
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    Init(init::Args),
    Capture(capture::Args),
    Validate(validate::Args),
    Diff(diff::Args),
    Sync(sync::Args),
    Verify(verify::Args),
    Status(status::Args),
    Doctor(doctor::Args),
    Gates(gates::Args),
    History(history::Args),
    Rollback(rollback::Args),
    Pause(pause::Args),
    Resume(resume::Args),
    Abort(abort::Args),
    Reset(reset::Args),
    Release(release::Args),
    Prune(prune::Args),
    Install(install::Args),
    Render(render::Args),
    Sandbox(sandbox::Args),
    Effective(effective::Args),
    Explain(explain::Args),
    Schema(schema::Args),
    Completions(completions::Args),
    Man(man::Args),
    Version(version::Args),
}

impl Command {
    /// The `--report` arguments of a command, with the command name used in reports.
    fn reports(&self) -> Option<(&'static str, &ReportArgs)> {
        match self {
            Self::Validate(args) => Some(("validate", &args.reports)),
            Self::Diff(args) => Some(("diff", &args.reports)),
            Self::Sync(args) => Some(("sync", &args.reports)),
            Self::Verify(args) => Some(("verify", &args.reports)),
            Self::Status(args) => Some(("status", &args.reports)),
            Self::Rollback(args) => Some(("rollback", &args.reports)),
            _ => None,
        }
    }

    /// The folder that file paths in messages start from. `validate` may read several and annotates them itself.
    fn root(&self) -> Option<String> {
        match self {
            Self::Diff(args) => Some(args.repository.root()),
            Self::Sync(args) => Some(args.repository.root()),
            Self::Verify(args) => Some(args.repository.root()),
            Self::Gates(args) => Some(args.repository.root()),
            Self::History(args) => Some(args.repository.root()),
            Self::Rollback(args) => Some(args.repository.root()),
            Self::Render(args) => Some(args.repository.root()),
            _ => None,
        }
    }

    /// Telemetry of the commands that report to monitoring.
    fn telemetry(&self) -> Option<Telemetry> {
        match self {
            Self::Diff(args) => Some(Telemetry::of(args.name(), &args.metrics)),
            Self::Sync(args) => Some(Telemetry::of(args.name(), &args.metrics)),
            Self::Verify(args) => Some(Telemetry::of(args.name(), &args.metrics)),
            _ => None,
        }
    }
}

/// Runs the program with these arguments, the first of them its name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    // Shells request completions by an environment variable. Other values of that variable do not request any.
    let folder = std::env::current_dir().ok();
    let completing = CompleteEnv::with_factory(complete::with_completers).var(completions::VARIABLE).bin("nodecfg");
    if completing.try_complete(arguments.clone(), folder.as_deref()).unwrap_or(false) {
        return Exit::Done.report();
    }
    let cli = match command_line::parse(&arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version exit with 0, even if their output pipe is closed.
            if !error.use_stderr() {
                let _ = error.print();
                return Exit::Done.report();
            }
            if usage::asks_for_json(&arguments) {
                let help = command_line::hint(&error).unwrap_or("see --help");
                let failure = CommandError::usage(usage::message(&error), help);
                return failure.report(&mut Terminal::standard(Color::Auto, false), Format::Json).report();
            }
            // The message repeats arguments, which a pipeline may take from a branch or a label.
            let shown = |word: &OsString| OsString::from(escaped(&word.to_string_lossy()));
            let error = command_line::parse(&arguments.iter().map(shown).collect::<Vec<_>>()).err().unwrap_or(error);
            // Nothing else can report that standard error is not writable.
            let _ = write!(Terminal::standard(Color::Auto, false).err, "{}", error.render().ansi());
            return Exit::Failed.report();
        }
    };
    let mut terminal = Terminal::standard(cli.color, cli.quiet);
    let telemetry = cli.command.telemetry();
    let export = telemetry.as_ref().and_then(Telemetry::export);
    logging::start(cli.verbosity(), terminal.colored_err(), terminal.status_area.clone(), export);
    let format = cli.output;
    let reports = cli.command.reports().map(|(command, reports)| (command, reports.clone()));
    let root = cli.command.root();
    let span = telemetry.as_ref().map_or_else(tracing::Span::none, Telemetry::span);
    let result = span.in_scope(|| dispatch(cli, &mut terminal));
    let exit = result.unwrap_or_else(|failure| {
        terminal.record.failure = Some(failure.kind());
        if let Some((command, reports)) = reports {
            reports.write_failure(command, &failure);
        }
        if let Some(root) = root {
            github_actions::annotate(&mut terminal.commands(), &failure, &root);
        }
        // The message on standard error and the exit code still report the failure.
        let _ = validation::failed(format, &mut terminal.out, &failure.error_messages());
        failure.report(&mut terminal, format)
    });
    if let Some(telemetry) = telemetry {
        telemetry.finish(span, std::mem::take(&mut terminal.record), exit);
    }
    terminal.end(exit, Ok(()), &[]).report()
}

fn dispatch(cli: Cli, terminal: &mut Terminal) -> CommandResult {
    let (format, verbose) = (cli.output, cli.verbosity());
    match cli.command {
        Command::Validate(args) => {
            finish(Builder::new_current_thread(), validate::run(&args, format, verbose, terminal))
        }
        Command::Effective(args) => block_on(run::until_signal(effective::run(&args, format, terminal))),
        Command::Explain(args) => explain::run(&args, format, terminal),
        Command::Schema(args) => schema::run(&args, terminal),
        Command::Completions(args) => completions::run(&args, terminal),
        Command::Diff(args) => block_on(run::until_signal(diff::run(&args, format, verbose, terminal))),
        Command::Sync(args) => block_on(run::until_signal(sync::run(&args, format, verbose, terminal))),
        Command::Verify(args) => block_on(run::until_signal(verify::run(&args, format, verbose, terminal))),
        Command::Status(args) => block_on(status::run(&args, format, terminal)),
        Command::Init(args) => block_on(run::until_signal(init::run(&args, format, terminal))),
        Command::Capture(args) => block_on(run::until_signal(capture::run(&args, format, terminal))),
        Command::Doctor(args) => block_on(run::until_signal(doctor::run(&args, format, verbose, terminal))),
        Command::Gates(args) => block_on(run::until_signal(gates::run(&args, format, terminal))),
        Command::History(args) => block_on(run::until_signal(history::run(&args, format, terminal))),
        Command::Rollback(args) => block_on(run::until_signal(rollback::run(&args, format, verbose, terminal))),
        Command::Pause(args) => block_on(run::until_signal(pause::run(&args, format, terminal))),
        Command::Resume(args) => block_on(run::until_signal(resume::run(&args, format, terminal))),
        Command::Abort(args) => block_on(run::until_signal(abort::run(&args, format, terminal))),
        Command::Reset(args) => block_on(run::until_signal(reset::run(&args, format, verbose, terminal))),
        Command::Release(args) => block_on(run::until_signal(release::run(&args, format, terminal))),
        Command::Prune(args) => block_on(run::until_signal(prune::run(&args, format, verbose, terminal))),
        Command::Man(args) => man::run(&args, terminal),
        Command::Version(_) => version::run(format, terminal),
        Command::Install(args) => block_on(install::run(&args, format, terminal)),
        Command::Render(args) => block_on(run::until_signal(render::run(&args, verbose, terminal))),
        Command::Sandbox(args) => block_on(sandbox::run(&args, terminal)),
    }
}

fn block_on<F: Future<Output = CommandResult>>(future: F) -> CommandResult {
    finish(Builder::new_multi_thread(), future)
}

fn finish<F: Future<Output = CommandResult>>(mut builder: Builder, future: F) -> CommandResult {
    let runtime = builder.enable_all().build().map_err(CommandError::Runtime)?;
    let result = runtime.block_on(future);
    // Background work, such as an open watch, must not delay the exit.
    runtime.shutdown_background();
    result
}
