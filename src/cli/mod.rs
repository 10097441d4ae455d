//! The command line: one file per command, each with its arguments and one function.
//!
//! Here the environment is read, streams are opened and the runtime is started; errors of every stage become an exit code
//! and a report in `failure`, and nowhere else. The library below never looks at the terminal or the environment.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::{ExitCode, Termination as _};

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

mod cluster_args;
mod completions;
mod diff;
mod exit;
mod failure;
mod logging;
mod observe;
mod repository_args;
mod run;
mod sandbox;
mod schema;
mod status;
mod sync;
mod terminal;
mod validate;
mod verify;

pub use exit::Exit;
use failure::Failure;
use terminal::{Color, Terminal};

use crate::report::Format;

/// Keep the kubelet configuration of every node pool in git, roll it out safely, and prove that each node converged.
#[derive(Debug, Parser)]
#[command(name = "nodecfg", version, propagate_version = true, after_help = exit::TABLE, max_term_width = 100)]
pub struct Cli {
    /// Output format.
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    output: Format,
    /// When to use colours.
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    color: Color,
    /// Log more; twice for every request.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Validate(validate::Args),
    Diff(diff::Args),
    Sync(sync::Args),
    Verify(verify::Args),
    Status(status::Args),
    Sandbox(sandbox::Args),
    Schema(schema::Args),
    Completions(completions::Args),
}

/// Runs the program with these arguments, the first of them its name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::command().try_get_matches_from(arguments).and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors; a closed pipe while printing them is none either.
            let exit = if error.use_stderr() { Exit::Failed } else { Exit::Done };
            let _ = error.print();
            return exit.report();
        }
    };
    let mut terminal = Terminal::standard(cli.color);
    logging::start(cli.verbose, terminal.colored_logs());
    let format = cli.output;
    let result = dispatch(cli, &mut terminal);
    let exit = result.unwrap_or_else(|failure| failure.report(&mut terminal, format));
    let flushed = terminal.out.flush();
    match flushed {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Exit::Failed.report(),
        _ => exit.report(),
    }
}

fn dispatch(cli: Cli, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let format = cli.output;
    match cli.command {
        Command::Validate(args) => validate::run(&args, format, terminal),
        Command::Schema(args) => schema::run(&args, terminal),
        Command::Completions(args) => completions::run(&args, terminal),
        Command::Diff(args) => block_on(diff::run(&args, format, terminal)),
        Command::Sync(args) => block_on(sync::run(&args, format, cli.verbose, terminal)),
        Command::Verify(args) => block_on(verify::run(&args, format, cli.verbose, terminal)),
        Command::Status(args) => block_on(status::run(&args, format, terminal)),
        Command::Sandbox(args) => block_on(sandbox::run(&args, terminal)),
    }
}

fn block_on<F: Future<Output = Result<Exit, Failure>>>(future: F) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::Runtime)?;
    let result = runtime.block_on(future);
    // Background work, such as a watch that is no longer needed, must not delay the end.
    runtime.shutdown_background();
    result
}
