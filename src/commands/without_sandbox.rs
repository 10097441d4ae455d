//! `nodecfg sandbox` and `sync --sandbox` in a build without the feature `sandbox`. Their error names the build that has
//! it. Images and archives are built so, so that a production program contains no API server.

use super::{CommandError, CommandResult, Terminal};
use crate::arguments::repository::Loaded;
use nodecfg_clock::ScaledClock;

/// Run a test cluster. This build lacks it.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[arg(hide = true, allow_hyphen_values = true, trailing_var_arg = true)]
    arguments: Vec<String>,
}

pub(super) async fn run(_args: &Args, _terminal: &mut Terminal) -> CommandResult {
    Err(missing())
}

fn missing() -> CommandError {
    CommandError::Sandbox {
        message: "this build has no sandbox: images and archives contain no API server".to_owned(),
        help: "run it from a clone of nodecfg's repository: `cargo run -- sandbox`".to_owned(),
    }
}

/// This build has no such example.
pub(super) const SANDBOX_EXAMPLE: &str = "";

/// What nodes that match a repository start with.
pub(super) const START_CONFIGURATION: &str = "";

/// Arguments that run `sync` against an embedded cluster.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct SandboxArgs {
    /// Run against an embedded cluster. This build lacks it.
    #[arg(long, hide = true)]
    sandbox: bool,
    #[command(flatten)]
    options: Options,
}

/// Options of the embedded cluster, so that a command with them gets the error about it.
#[derive(Debug, Clone, clap::Args)]
struct Options {
    #[arg(long, hide = true, requires = "sandbox")]
    fault: Vec<String>,
    #[arg(long, hide = true, requires = "sandbox")]
    pod_fault: Vec<String>,
    #[arg(long, hide = true, requires = "sandbox")]
    seed: Option<String>,
    #[arg(long, hide = true, requires = "sandbox")]
    sandbox_nodes: Option<String>,
    #[arg(long, hide = true, requires = "sandbox")]
    sandbox_pods: Option<String>,
    #[arg(long, hide = true, requires = "sandbox")]
    sandbox_speed: Option<String>,
    #[arg(long, hide = true, requires = "sandbox")]
    sandbox_version: Option<String>,
}

/// The embedded cluster, which this build lacks.
pub(super) enum Embedded {}

impl SandboxArgs {
    /// Speed of the nodes' time.
    pub(super) fn speed(&self) -> f64 {
        1.0
    }

    /// The embedded cluster in messages.
    pub(super) fn server(&self) -> String {
        String::new()
    }

    /// Refuses to start an embedded cluster.
    pub(super) async fn start(&self, _: &Loaded, _: &mut Terminal) -> Result<Option<Embedded>, CommandError> {
        if self.sandbox { Err(missing()) } else { Ok(None) }
    }
}

impl Embedded {
    /// In-process client.
    pub(super) fn client(&self) -> kube::Client {
        match *self {}
    }

    /// Server name in errors.
    pub(super) fn in_process_server(&self) -> &'static str {
        match *self {}
    }

    /// Clock for limits.
    pub(super) fn limits_clock(&self) -> ScaledClock {
        match *self {}
    }

    /// Stops the cluster.
    pub(super) async fn stop(self, serving: Option<()>) {
        let _ = serving;
        match self {}
    }
}
