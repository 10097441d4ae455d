//! Changes of a fleet without a rollout, by `prune` and `release`: shown, confirmed, and made under the lock.

use std::collections::BTreeSet;
use std::io;

use tokio::sync::watch;

use crate::arguments::dry_run::DryRunArgs;
use crate::arguments::fleet::{FleetArgs, FleetLocation};
use crate::arguments::repository::RepositoryArgs;
use crate::arguments::rollout::LockArgs;
use crate::report::{Format, progress};
use crate::runs::run;
use crate::terminal::confirm::ConfirmArgs;
use crate::terminal::exit::Exit;
use crate::terminal::failure::{CommandError, CommandResult};
use crate::terminal::streams::Terminal;
use nodecfg_cluster::{ClusterWriter, LabelKeys};
use nodecfg_fleet::Desired;

/// Arguments of a change.
#[derive(Debug, clap::Args)]
pub(crate) struct FleetChangeArgs {
    #[command(flatten)]
    pub(crate) dry_run: DryRunArgs,
    #[command(flatten)]
    confirm: ConfirmArgs,
    #[command(flatten)]
    lock: LockArgs,
    #[command(flatten)]
    fleet: FleetArgs,
}

/// A change, with its report.
pub(crate) trait FleetChange {
    /// What the first signal does.
    const STOPPING: &'static str;

    /// What to confirm. `None`: there is nothing to change.
    fn question(&self) -> Option<String>;

    /// Makes the change, and records the results in the report. Stops at the first error, or if `stop` is set.
    async fn make(
        &mut self,
        location: &FleetLocation,
        writer: ClusterWriter,
        stop: &watch::Receiver<bool>,
    ) -> Result<(), CommandError>;

    /// The exit code, before or after the change.
    fn exit(&self) -> Exit;
}

impl FleetChangeArgs {
    /// Reads the repository, if one is named, and finds and prints the fleet. Fails if a question could not be asked.
    pub(crate) async fn locate(
        &self,
        repository: &RepositoryArgs,
        format: Format,
        terminal: &mut Terminal,
    ) -> Result<(FleetLocation, Option<Desired>), CommandError> {
        if !self.dry_run.is_requested() {
            self.confirm.require_terminal()?;
        }
        let desired = repository.load_named(terminal).await?.map(|loaded| loaded.desired);
        let location = self.fleet.locate(desired.as_ref(), LabelKeys::Only(BTreeSet::new())).await?;
        if format.is_for_people() {
            let place = progress::place(Some(&location.namespace), location.reader.server());
            writeln!(terminal.info(), "fleet {} {place}\n", location.fleet)?;
            location.show_pause(desired.as_ref(), terminal).await?;
        }
        Ok((location, desired))
    }

    /// Shows the change, and makes it unless the user refuses. `write` prints its report.
    pub(crate) async fn carry_out<C: FleetChange>(
        &self,
        mut change: C,
        location: &FleetLocation,
        write: impl Fn(&C, &mut Terminal) -> io::Result<()>,
        format: Format,
        terminal: &mut Terminal,
    ) -> CommandResult {
        let question = change.question().filter(|_| !self.dry_run.is_requested());
        if format == Format::Text || question.is_none() {
            write(&change, terminal)?;
        }
        let Some(question) = question else {
            return Ok(if self.dry_run.is_requested() { Exit::Done } else { change.exit() });
        };
        if !self.confirm.ask(&question, terminal).await? {
            return Ok(Exit::Failed);
        }
        let mut stop = run::defer_signals(C::STOPPING);
        let lock = tokio::select! {
            lock = self.lock.take(location) => lock?,
            Ok(_) = stop.wait_for(|stopped| *stopped) => return Err(CommandError::Interrupted),
        };
        let result = change.make(location, ClusterWriter::new(location.reader.clone(), &lock), &stop).await;
        lock.release().await;
        // Changes before a failure are printed too, unless the failure replaces the document.
        let printed = match format {
            Format::Text => writeln!(terminal.out).and_then(|()| write(&change, terminal)),
            _ if result.is_ok() || format == Format::Markdown => write(&change, terminal),
            _ => Ok(()),
        };
        let exit = terminal.end(change.exit(), printed, &[]);
        result.map(|()| exit)
    }
}
