//! Command line of the agent: arguments, environment, logging and exit codes.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use anstream::ColorChoice;
use clap::{CommandFactory as _, Parser as _};
use kubelet_config::values::duration;
use nodecfg_contract::json_document::{Document, Kind};
use serde::Serialize;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

mod args;
mod boot;
pub mod description;
mod failure;
mod host_step;
pub mod log_field;
pub mod pass;
mod run;
mod status;
pub mod stop_signals;
pub mod usage;

use args::LogFormat;
use failure::{AgentError, Exit};

/// Run the node agent, which makes this node's kubelet run the configuration that its NodeConfig assigns.
///
/// Watches the NodeConfig of this node, downloads and checks the assigned ConfigMap, and saves it on disk. Places it
/// for the kubelet, restarts the kubelet and watches its health during a trial. Rolls back to the last known good if
/// the trial fails, and reports in the status of the NodeConfig. After a reboot it continues from disk, with or
/// without the API server. Logs to standard error.
///
/// Exits with 0 on SIGTERM and SIGINT, after finishing a started restart of the kubelet. Exits with 2 if it cannot
/// start: its folder is unreadable or in use by another agent, or the listen address is in use. Exits with 4 if no
/// API server is configured, or if the API server refuses the credentials for five minutes; the service manager then
/// restarts it with the current credentials. Waits for an API server that does not answer.
#[derive(Debug, clap::Parser)]
#[command(name = "nodecfg-agent", version, args_conflicts_with_subcommands = true, after_help = run::EXAMPLES)]
#[command(max_term_width = 100)]
struct Cli {
    /// Output format: text, json or yaml.
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    #[arg(hide_possible_values = true, help_heading = GLOBAL, display_order = 100)]
    output: Format,
    /// When to use colors: auto (on a terminal, unless NO_COLOR is set), always or never.
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    #[arg(hide_possible_values = true, help_heading = GLOBAL, display_order = 101)]
    color: Color,
    /// Log every step and every request.
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = GLOBAL, display_order = 102)]
    verbose: u8,
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: run::RunArgs,
}

const GLOBAL: &str = "Global options";

#[derive(Debug, clap::Subcommand)]
enum Command {
    Status(status::Args),
    Boot(Box<boot::Args>),
    HostStep(Box<host_step::Args>),
}

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Text for people.
    Text,
    /// One JSON document.
    Json,
    /// The same document as YAML.
    Yaml,
}

/// When to use colors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Declared arguments, for tests of unit files and manifests that start the agent.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the program with these arguments; the first is its name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if arguments.get(1).is_some_and(|word| word == "agent") {
        let message = "unknown command agent: nodecfg-agent itself is the agent";
        let help = "remove the word agent from the unit or manifest; `nodecfg install` writes both";
        return reject_arguments(&arguments, message, help);
    }
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => {
            if error.use_stderr() && usage::asks_for_json(&arguments) {
                return reject_arguments(&arguments, &usage::message(&error), "see --help");
            }
            // Help and version are not errors; nor is a pipe closed while they are printed.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { Exit::Failed } else { Exit::Done } as u8);
        }
    };
    match cli.color {
        Color::Auto => ColorChoice::Auto,
        Color::Always => ColorChoice::AlwaysAnsi,
        Color::Never => ColorChoice::Never,
    }
    .write_global();
    let style = match &cli.command {
        None => Some(cli.run.log_format()),
        Some(Command::HostStep(args)) => Some(args.log_format()),
        Some(Command::Boot(args)) => Some(args.log_format()),
        Some(Command::Status(_)) => None,
    };
    start_logging(style, cli.verbose);
    let format = cli.output;
    let mut out = Vec::new();
    let result = match cli.command {
        None => block_on(run::run(cli.run, format, &mut out)),
        Some(Command::Status(args)) => status::run(&args, format, &mut out),
        Some(Command::HostStep(args)) => block_on(host_step::run(*args)),
        Some(Command::Boot(args)) => block_on(boot::run(*args)),
    };
    let exit = result.unwrap_or_else(|failure| failure.report(format, &mut out));
    finish(exit, &out)
}

/// Reports invalid arguments and returns the exit code.
fn reject_arguments(arguments: &[OsString], message: &str, help: &str) -> ExitCode {
    let format = if usage::asks_for_json(arguments) { Format::Json } else { Format::Text };
    let mut out = Vec::new();
    let exit = AgentError::usage(message, help).report(format, &mut out);
    finish(exit, &out)
}

/// Prints the output and returns the exit code: that of a failure if printing fails.
fn finish(exit: Exit, out: &[u8]) -> ExitCode {
    ExitCode::from(if print(out).is_ok() { exit } else { Exit::Failed } as u8)
}

/// Writes a result in a format: as text by the function `text`, otherwise as a document.
fn write<T: Kind + Serialize>(
    out: &mut Vec<u8>,
    format: Format,
    body: T,
    text: impl FnOnce(&mut Vec<u8>) -> io::Result<()>,
) -> Result<(), AgentError> {
    let document = Document::value(body)?;
    match format {
        Format::Text => text(out)?,
        Format::Json => writeln!(out, "{}", serde_json::to_string_pretty(&document)?)?,
        Format::Yaml => out.extend(serde_saphyr::to_string(&document).map_err(io::Error::other)?.into_bytes()),
    }
    Ok(())
}

/// Writes to standard output. A closed pipe is not an error.
fn print(bytes: &[u8]) -> io::Result<()> {
    let mut out = anstream::stdout();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Starts logging to standard error: a service logs its actions, a command only its problems. NODECFG_LOG overrides
/// the filter, in the syntax of `tracing_subscriber::filter::Targets`. Warns if it cannot be read.
fn start_logging(service: Option<LogFormat>, verbose: u8) {
    let level = match (service, verbose) {
        (None, 0) => "warn",
        (Some(_), 0) => "info",
        _ => "debug",
    };
    let requested = std::env::var_os("NODECFG_LOG").filter(|text| !text.is_empty());
    let requested = requested.map(|text| text.to_string_lossy().parse::<Targets>());
    let (requested, problem) = match requested {
        Some(Ok(filter)) => (Some(filter), None),
        Some(Err(problem)) => (None, Some(problem)),
        None => (None, None),
    };
    let filter =
        requested.or_else(|| format!("nodecfg={level},kubelet_config={level}").parse().ok()).unwrap_or_default();
    let logs = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(false)
        // A message about a closed standard error would itself go to standard error and panic.
        .log_internal_errors(false)
        .with_target(false);
    let logs = match service {
        None => logs.compact().fmt_fields(debug_fn(log_field::write).delimited(" ")).without_time().boxed(),
        Some(LogFormat::Text) => logs.compact().fmt_fields(debug_fn(log_field::write).delimited(" ")).boxed(),
        Some(LogFormat::Json) => logs.json().flatten_event(true).boxed(),
    };
    // A second start in one process, as in tests, keeps the first logger.
    let _ = tracing_subscriber::registry().with(logs.with_filter(filter)).try_init();
    if let Some(problem) = problem {
        tracing::warn!("NODECFG_LOG is ignored: {problem}");
    }
}

/// Runs a future on one thread. The agent does one thing at a time, and every thread costs memory on every node.
fn block_on<F: Future<Output = Result<Exit, AgentError>>>(future: F) -> Result<Exit, AgentError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
        AgentError::agent(
            format!("cannot start the asynchronous runtime: {error}"),
            "check the limits on threads and open files (`ulimit -a`)",
        )
    })?;
    let result = runtime.block_on(future);
    // Background work, such as an unused watch, must not delay the exit.
    runtime.shutdown_background();
    result
}

/// Completes on a signal to end. If signals cannot be handled, never completes; they keep their default effect.
async fn stopped() {
    if stop_signals::signalled().await.is_none() {
        std::future::pending::<()>().await;
    }
}

/// Parses a duration as Go and kubectl write it: `30s`, `5m`, `1h30m`, or a number of seconds.
fn parse_duration(text: &str) -> Result<Duration, String> {
    duration::parse_argument(text).map_err(|problem| format!("it {problem}"))
}

/// Parses a timeout, of which 0 means no limit, as for kubectl.
fn parse_timeout(text: &str) -> Result<Duration, String> {
    parse_duration(text).map(|limit| if limit.is_zero() { Duration::MAX } else { limit })
}

/// Parses a duration of at least one second: an interval, or a limit that must exist.
fn parse_second_or_more(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text)?;
    if duration < Duration::from_secs(1) { Err("it must be at least 1s".to_owned()) } else { Ok(duration) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declares_valid_arguments() {
        command().debug_assert();
    }
}
