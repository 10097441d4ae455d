//! Exit codes of all commands, and their table in the help text.

use std::process::{ExitCode, Termination};

/// Exit code of a command. The numbers are stable, because scripts depend on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// Success.
    Done = 0,
    /// `diff` found changes, or `gates` a gate that does not pass.
    Changes = 1,
    /// Wrong usage or an unexpected error.
    Failed = 2,
    /// The repository or a file is invalid, nothing was checked, or a change is not allowed by its pool.
    InvalidRepository = 3,
    /// The cluster refused a request or cannot be reached.
    Cluster = 4,
    /// Nodes failed, timed out or were skipped.
    NotConverged = 5,
    /// Another sync holds the lock.
    Locked = 6,
    /// The saved plan is stale or damaged.
    StalePlan = 7,
}

/// Exit code table at the end of `--help`.
pub const TABLE: &str = "\
Exit codes:
  0  success
  1  diff found changes, or a gate does not pass
  2  wrong usage, or an unexpected error
  3  the repository or a file is invalid, or a pool does not allow one of its changes
  4  the cluster refused a request or cannot be reached
  5  nodes failed, timed out, or were skipped
  6  another sync holds the lock, or the lock was lost during the run
  7  the saved plan is stale or damaged";

impl Termination for Exit {
    fn report(self) -> ExitCode {
        ExitCode::from(self as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_lists_every_code() {
        let codes = [
            Exit::Done,
            Exit::Changes,
            Exit::Failed,
            Exit::InvalidRepository,
            Exit::Cluster,
            Exit::NotConverged,
            Exit::Locked,
            Exit::StalePlan,
        ];
        for (line, code) in TABLE.lines().skip(1).zip(codes) {
            assert!(line.starts_with(&format!("  {}  ", code as u8)), "{line}");
        }
        assert_eq!(TABLE.lines().count(), codes.len() + 1);
    }
}
