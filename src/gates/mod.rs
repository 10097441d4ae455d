//! Answers for the gates of a rollout: asks Prometheus and the API server. Must not judge the answers; that is
//! `nodecfg_rollout::judge`.

mod ask;
mod prometheus;
#[cfg(test)]
mod stand_in;
mod wire;

pub use ask::{Evaluator, GateWatch};
pub use prometheus::{Prometheus, PrometheusAddress, Token};
