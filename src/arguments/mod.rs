//! Groups of arguments that commands share, each with what it reads: a repository, a cluster, a set of nodes, outputs.

pub(crate) mod cluster;
pub(crate) mod dry_run;
pub(crate) mod fleet;
pub(crate) mod gates;
pub(crate) mod git;
pub(crate) mod output;
pub(crate) mod reports;
pub(crate) mod repository;
pub(crate) mod rollout;
pub(crate) mod scope;
pub(crate) mod selector;
pub(crate) mod signers;
pub(crate) mod telemetry;
pub(crate) mod unknown_name;
