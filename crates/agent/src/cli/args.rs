//! Arguments shared by several commands of the agent.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::parse_timeout;
use crate::host::actions::Actions;
use crate::host::command::CommandLine;
use crate::placement::Activation;
use crate::settings::Settings;
use nodecfg_cluster::connection::connect::Environment;

/// Default of --store-dir.
pub(super) const STORE: &str = "/var/lib/nodecfg";

/// Folder of the agent.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct StoreArgs {
    /// Folder for the agent's state: checkpoints, assignment and last known good.
    #[arg(long, value_name = "DIR", default_value = STORE)]
    store_dir: PathBuf,
}

impl StoreArgs {
    pub(super) fn folder(&self) -> &Path {
        &self.store_dir
    }
}

/// Format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum LogFormat {
    /// Text for people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Log arguments.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct LogArgs {
    /// Format of the log: text, or json with one object per line.
    #[arg(long, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT", hide_possible_values = true)]
    log_format: LogFormat,
}

impl LogArgs {
    pub(super) fn format(self) -> LogFormat {
        self.log_format
    }
}

/// Activation arguments.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Activation")]
pub(super) struct ActivationArgs {
    /// How to activate a configuration: file (writes the kubelet's --config file and keeps the original as the node's own)
    /// or drop-in (writes 90-nodecfg.conf in its --config-dir, for overlays only; kubelets from 1.28).
    #[arg(long, value_enum, default_value_t = Mode::File, value_name = "MODE", hide_possible_values = true)]
    activation: Mode,
    /// The kubelet's --config file.
    #[arg(long, value_name = "FILE", default_value = "/var/lib/kubelet/config.yaml")]
    kubelet_config: PathBuf,
    /// The kubelet's --config-dir.
    #[arg(long, value_name = "DIR", default_value = "/etc/kubernetes/kubelet.conf.d")]
    kubelet_config_dir: PathBuf,
}

impl ActivationArgs {
    pub(super) fn activation(&self) -> Activation {
        let config = self.kubelet_config.clone();
        match self.activation {
            Mode::File => Activation::File { config },
            Mode::DropIn => Activation::DropIn { config_dir: self.kubelet_config_dir.clone(), config: Some(config) },
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    /// Replaces the kubelet's --config file.
    File,
    /// Adds a file to its --config-dir.
    DropIn,
}

/// Folder of the kubelet.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct RootArgs {
    /// The kubelet's --root-dir, which holds its state files.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/kubelet", help_heading = KUBELET)]
    kubelet_root_dir: PathBuf,
}

impl RootArgs {
    pub(super) fn folder(&self) -> &Path {
        &self.kubelet_root_dir
    }
}

pub(super) const KUBELET: &str = "Kubelet";

const LOG_COMMAND: &str = "journalctl --unit=kubelet --output=cat --no-pager --reverse --lines=1000";

/// Commands that restart the kubelet, and that print its version, exits and log.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = KUBELET)]
pub(super) struct ActionArgs {
    /// Command that restarts the kubelet, or starts it if it is stopped. Split into words like a shell does, but run
    /// without a shell.
    #[arg(long, value_name = "COMMAND", default_value = "systemctl restart kubelet")]
    restart_command: CommandLine,
    /// Command that stops the kubelet, for changes that remove its state files.
    #[arg(long, value_name = "COMMAND", default_value = "systemctl stop kubelet")]
    stop_command: CommandLine,
    /// Time limit of each of the two commands; a command that exceeds it is killed and counts as failed. 0 sets no limit.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = parse_timeout)]
    restart_timeout: Duration,
    /// Command of the kubelet's binary, to which --version is appended. If it fails, the version in the Node's status
    /// is used.
    #[arg(long, value_name = "COMMAND", default_value = "kubelet")]
    kubelet: CommandLine,
    /// Command that prints how often the service manager has started the kubelet again. After three exits in a trial,
    /// the agent rolls back.
    #[arg(long, value_name = "COMMAND", default_value = "systemctl show kubelet --property=NRestarts --value")]
    restarts_command: CommandLine,
    /// Command that prints the kubelet's log, newest line first, to which --since=@SECONDS is appended. The last error
    /// in it explains a failed restart or trial.
    #[arg(
        long,
        value_name = "COMMAND",
        default_value = LOG_COMMAND
    )]
    log_command: CommandLine,
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
            host_root: (!Environment::capture().in_pod).then(|| PathBuf::from("/")),
            kubelet: self.kubelet.clone(),
            restarts: Some(self.restarts_command.clone()),
            log: Some(self.log_command.clone()),
        }
    }

    /// Where on the node the kubelet's log is. A command of the node is not published.
    pub(super) fn kubelet_log(&self) -> &'static str {
        let is_default = self.log_command.to_string() == LOG_COMMAND;
        if is_default { Settings::default().kubelet_log } else { "the command of the agent's --log-command" }
    }

    /// Longest possible time of a restart: the stop command and the restart command.
    pub(super) fn longest_restart(&self) -> Duration {
        self.restart_timeout.saturating_mul(2)
    }
}
