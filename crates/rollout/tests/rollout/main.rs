//! Scenarios and properties of the state machine of a rollout, without a cluster.

use nodecfg_rollout::machine::Machine;

mod domain_oracle;
mod drain_properties;
mod drain_scenarios;
mod gate_properties;
mod pool_order;
mod properties;
mod scenarios;
