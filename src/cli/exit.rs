//! Exit codes: documented, and the same for every command.

use std::process::{ExitCode, Termination};

/// How a command ends. Scripts depend on these numbers; they never change their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// Done, nothing to report.
    Done = 0,
    /// `diff` found changes.
    Changes = 1,
    /// Wrong usage, or an unexpected error.
    Failed = 2,
    /// The repository or a file is invalid, there was nothing to check, or the repository asks for a change that one of its pools does not allow.
    InvalidRepository = 3,
    /// The cluster refused or cannot be reached.
    Cluster = 4,
    /// Not every node is where it should be: nodes failed, timed out, or could not be touched.
    NotConverged = 5,
    /// Another sync holds the lock.
    Locked = 6,
    /// The saved plan is stale: something has changed since it was made; or it is damaged.
    StalePlan = 7,
}

/// The table that `--help` ends with.
pub const TABLE: &str = "\
Exit codes:
  0  done, nothing to report
  1  diff found changes
  2  wrong usage, or an unexpected error
  3  the repository or a file is invalid, or a pool changes in a way that it does not allow
  4  the cluster refused or cannot be reached
  5  nodes failed, timed out, or were left out
  6  another sync holds the lock, or the lock was lost on the way
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
    fn the_table_lists_every_code() {
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
