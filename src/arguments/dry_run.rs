//! Argument `--dry-run`, in the syntax of kubectl.

use clap::ArgAction;

/// Argument that previews a command.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct DryRunArgs {
    /// Show the plan and change nothing. The strategies are those of kubectl: client, the default of --dry-run, and none.
    #[arg(long, value_name = "STRATEGY", num_args = 0..=1, require_equals = true, value_parser = is_dry)]
    #[arg(default_value = "none", default_missing_value = "client", hide_default_value = true, action = ArgAction::Set)]
    dry_run: bool,
}

impl DryRunArgs {
    /// Reports whether the command must change nothing.
    pub(crate) fn is_requested(self) -> bool {
        self.dry_run
    }
}

/// Whether a strategy of kubectl is a dry run.
fn is_dry(name: &str) -> Result<bool, &'static str> {
    match name {
        "client" => Ok(true),
        "none" => Ok(false),
        "server" => Err("an API server cannot try out a change that waits for nodes; use client, which reads the \
                         cluster and writes nothing"),
        _ => Err("the strategy must be client or none"),
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, FromArgMatches as _};

    use super::*;

    #[test]
    fn reads_strategies_of_kubectl() {
        let requested = |line: &str| {
            let command = DryRunArgs::augment_args(clap::Command::new("sync")).arg(clap::Arg::new("repository"));
            let matches = command.try_get_matches_from(line.split(' ')).ok()?;
            Some(DryRunArgs::from_arg_matches(&matches).ok()?.is_requested())
        };
        for (line, expected) in [
            ("sync", Some(false)),
            ("sync --dry-run", Some(true)),
            ("sync --dry-run=client", Some(true)),
            ("sync --dry-run=none", Some(false)),
            ("sync --dry-run .", Some(true)),
            ("sync --dry-run=server", None),
            ("sync --dry-run=true", None),
            ("sync --dry-run=", None),
        ] {
            assert_eq!(requested(line), expected, "{line}");
        }
    }
}
