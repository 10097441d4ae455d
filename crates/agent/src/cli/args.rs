//! Arguments that more than one command of the agent takes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::parse_duration;
use crate::host::command::CommandLine;
use crate::host::system::Actions;

/// Where the agent keeps what must survive it.
pub(super) const STORE: &str = "/var/lib/nodecfg";

/// The agent's folder.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct StoreArgs {
    /// Folder of the agent: the checkpoints, and what is assigned and last known good.
    #[arg(long, value_name = "DIR", default_value = STORE)]
    store_dir: PathBuf,
}

impl StoreArgs {
    pub(super) fn folder(&self) -> &Path {
        &self.store_dir
    }
}

/// How a log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum LogFormat {
    /// For people.
    Text,
    /// For programs: an object a line.
    Json,
}

/// How the log is written.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct LogArgs {
    /// How to write the log: text, or json for an object a line.
    #[arg(long, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT", hide_possible_values = true)]
    log_format: LogFormat,
}

impl LogArgs {
    pub(super) fn format(self) -> LogFormat {
        self.log_format
    }
}

/// The kubelet's folder.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct RootArgs {
    /// The kubelet's --root-dir, where its state files are.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/kubelet", help_heading = KUBELET)]
    kubelet_root_dir: PathBuf,
}

pub(super) const KUBELET: &str = "Kubelet";

/// How the kubelet is restarted and asked for its version.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = KUBELET)]
pub(super) struct ActionArgs {
    /// Command that restarts the kubelet, and starts one that does not run. Split into words as a shell does, but run without
    /// one; what it writes to standard error is in the error when it fails.
    #[arg(long, value_name = "COMMAND", default_value = "systemctl restart kubelet")]
    restart_command: CommandLine,
    /// Command that stops the kubelet, for changes that need its state files removed.
    #[arg(long, value_name = "COMMAND", default_value = "systemctl stop kubelet")]
    stop_command: CommandLine,
    /// How long each of the two may take before it is killed and counts as failed.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = parse_duration)]
    restart_timeout: Duration,
    /// The kubelet's binary, a command to which --version is appended. When it cannot be run, the version that the Node shows
    /// counts.
    #[arg(long, value_name = "COMMAND", default_value = "kubelet")]
    kubelet: CommandLine,
    #[command(flatten)]
    root: RootArgs,
}

impl ActionArgs {
    pub(super) fn actions(&self) -> Actions {
        Actions {
            restart: self.restart_command.clone(),
            stop: self.stop_command.clone(),
            limit: self.restart_timeout,
            root: self.root.kubelet_root_dir.clone(),
            kubelet: self.kubelet.clone(),
        }
    }

    /// The longest that a restart may take.
    pub(super) fn longest_restart(&self) -> Duration {
        self.restart_timeout.saturating_mul(2)
    }
}
