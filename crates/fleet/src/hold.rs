//! Holds: why nodes of a pool do not start now although nothing has failed. A later run starts them.

use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use nodecfg_contract::names::{GateName, PoolName};
use nodecfg_contract::printable::one_line;

/// Why the remaining nodes of a pool do not start now, without a failure of the pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Hold {
    /// The reason.
    #[serde(flatten)]
    pub why: HoldReason,
    /// The next time at which the windows and exclusions permit a start. Null: not within a year, or another reason.
    pub next: Option<Timestamp>,
}

/// Reason of a hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum HoldReason {
    /// No window is open.
    NoWindow,
    /// The open time ends before the node would be done.
    TooShort {
        /// End of the open time.
        until: Timestamp,
    },
    /// An exclusion is in effect.
    Exclusion {
        /// Its reason.
        reason: String,
    },
    /// A pool that goes first has not converged.
    Pool {
        /// The pool.
        pool: PoolName,
    },
    /// A gate does not pass, before the first node of its pool.
    Gate {
        /// The gate.
        gate: GateName,
        /// Why it does not pass.
        reason: String,
    },
}

impl fmt::Display for HoldReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoWindow => f.write_str("outside of the windows"),
            Self::TooShort { until } => write!(f, "too little time until {until:.0}"),
            Self::Gate { gate, reason } => write!(f, "gate {gate} does not pass: {reason}"),
            Self::Exclusion { reason } => write!(f, "excluded ({})", one_line(reason)),
            Self::Pool { pool } => write!(f, "waits for pool {pool}, which has not converged in this run"),
        }
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.next {
            Some(next) => write!(f, "{}; next opening {next:.0}", self.why),
            None if matches!(self.why, HoldReason::Pool { .. } | HoldReason::Gate { .. }) => self.why.fmt(f),
            None => write!(f, "{}; no opening within a year", self.why),
        }
    }
}
