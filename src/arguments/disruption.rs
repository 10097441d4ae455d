//! Argument that allows one run more disruption of running pods than the pool does.

use kubelet_config::risk::Class;
use nodecfg_fleet::RolloutPolicy;

/// Argument that allows disruption.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct DisruptionArgs {
    /// Allow disruption of running pods up to this class in this run: none, restart, drain or replace. Default: what
    /// the pool allows in the repository, otherwise restart. A node agent compares with what its node really runs.
    #[arg(long, value_name = "CLASS", value_parser = parse_class)]
    pub(crate) allow_disruption: Option<Class>,
}

impl DisruptionArgs {
    /// Sets the class in the policy of a pool.
    pub(crate) fn apply(self, policy: &mut RolloutPolicy) {
        policy.allow_disruption = self.allow_disruption.unwrap_or(policy.allow_disruption);
    }
}

/// Parses a class that a node can be prepared for.
fn parse_class(name: &str) -> Result<Class, String> {
    let class = Class::parse(name).filter(|class| *class != Class::Never);
    class.ok_or_else(|| "the class must be none, restart, drain or replace".to_owned())
}
