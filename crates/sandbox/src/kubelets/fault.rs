//! How a simulated node misbehaves, and how the user asks for it: `--fault <node>=<kind>`.
//!
//! A fault belongs to a node, not to a configuration: it lasts until another fault or none is injected. Kubelets that follow
//! `configSource` themselves ([`super::machine`]) and those with an agent (`sandbox::agents`) share the kinds; some need an
//! agent to go wrong.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use nodecfg_contract::names::NodeName;

/// A way for a node to misbehave. What it does to a node with an agent is said where that differs: there, a *new*
/// configuration is one that the node did not run when it began to misbehave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fault {
    /// Dies on the first configuration it restarts into: the Node goes from Ready to Unknown after 40 s, `assigned`
    /// never moves, and assignments go unseen until the fault is lifted. With an agent the whole host goes down, what its disk
    /// had not made durable is lost, and it comes up again once the fault is lifted.
    Crash,
    /// Does everything, this many times slower. `slow` alone means 10 times, `slow:3` three times.
    Slow(f64),
    /// Takes and activates its assignment, and is not Ready with it. Local configuration, before or after, is fine. An agent
    /// falls back.
    NotReady,
    /// Runs without `--dynamic-config-dir`, or without an agent: Ready, and `status.config` never changes.
    NeverAcknowledges,
    /// May not read any ConfigMap: every new assignment is `failed to sync: …`, retried for ever.
    SyncError,
    /// Cannot load any configuration it restarts into, whatever its text.
    LoadError,
    /// Refuses every configuration it restarts into, whatever its text.
    ValidateError,
    /// Converges, and 20 s later begins to alternate between not Ready and Ready, 20 s each.
    Flap,
    /// Does not run at all: Unknown from the moment of the fault, and nothing is acknowledged.
    Deaf,
    /// Refuses the API server what it shows of its configuration (`configz`), as one does that was never told who may see it.
    RefusesConfigz,
    /// Needs an agent: the kubelet does not start with a new configuration, whatever its text.
    NoStart,
    /// Needs an agent: the kubelet starts with a new configuration, and dies 15 s later, again and again.
    Dies,
    /// Needs an agent: the command that restarts the kubelet fails when there is a new configuration.
    RestartFails,
    /// Needs an agent: it does not reach the API server for so many seconds from the moment of the fault. `api-outage` alone
    /// means 60.
    ApiOutage(f64),
    /// Needs an agent: nothing can be written to the host's disk.
    DiskFull,
}

/// The kinds as the user writes them, each with what it does; [`Fault`] has the details.
pub const KINDS: [(&str, &str); 15] = [
    ("crash", "dies on its new configuration"),
    ("slow", "takes 10 times as long; slow:<factor> for another factor"),
    ("not-ready", "activates its configuration and is not Ready with it"),
    ("never-acknowledges", "runs without --dynamic-config-dir, or without an agent"),
    ("sync-error", "cannot read its ConfigMap"),
    ("load-error", "cannot load its configuration"),
    ("validate-error", "refuses its configuration"),
    ("flap", "converges, then is not Ready every other 20 s"),
    ("deaf", "does not run, Ready is Unknown"),
    ("refuses-configz", "its kubelet shows nobody its configuration"),
    ("no-start", "its kubelet does not start with a new configuration"),
    ("dies", "its kubelet starts with a new configuration and dies in the trial"),
    ("restart-fails", "its kubelet cannot be restarted with a new configuration"),
    ("api-outage", "its agent is cut off for 60 s; api-outage:<seconds> for another time"),
    ("disk-full", "its agent cannot write to the disk"),
];

/// How many times slower `slow` is when no factor is given.
const SLOW_FACTOR: f64 = 10.0;
/// How many seconds `api-outage` lasts when no time is given.
const OUTAGE: f64 = 60.0;

/// Why a `--fault` could not be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// No `=`, or nothing on one side of it.
    #[error("fault {0:?} is not of the form <node>=<kind> or *=<kind>; kinds are {kinds}", kinds = kinds())]
    Form(String),
    /// The node's name is no name.
    #[error("fault {spec:?} is for no node: {problem}; use the name of a node, or * for all of them")]
    Node {
        /// The fault as given.
        spec: String,
        /// What is wrong with the name.
        problem: String,
    },
    /// No such kind.
    #[error("fault kind {0:?} is unknown; kinds are {kinds}", kinds = kinds())]
    Kind(String),
    /// The factor of `slow` is no number of at least 1.
    #[error("fault kind {0:?} has no usable factor; write slow:<factor> with a number from 1 to 1000, such as slow:3")]
    Factor(String),
    /// The time of `api-outage` is no number of at least 1.
    #[error("fault kind {0:?} has no usable time; write api-outage:<seconds> with a number from 1 to 86400")]
    Time(String),
}

fn kinds() -> String {
    KINDS.map(|(name, _)| name).join(", ")
}

impl Fault {
    /// Whether it takes an agent to go wrong like this.
    #[must_use]
    pub fn needs_agent(self) -> bool {
        matches!(self, Self::NoStart | Self::Dies | Self::RestartFails | Self::ApiOutage(_) | Self::DiskFull)
    }
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        if let Some(factor) = text.strip_prefix("slow:") {
            return match factor.parse::<f64>() {
                Ok(factor) if (1.0..=1000.0).contains(&factor) => Ok(Self::Slow(factor)),
                _ => Err(FaultError::Factor(text.to_owned())),
            };
        }
        if let Some(seconds) = text.strip_prefix("api-outage:") {
            return match seconds.parse::<f64>() {
                Ok(seconds) if (1.0..=86_400.0).contains(&seconds) => Ok(Self::ApiOutage(seconds)),
                _ => Err(FaultError::Time(text.to_owned())),
            };
        }
        Ok(match text {
            "crash" => Self::Crash,
            "slow" => Self::Slow(SLOW_FACTOR),
            "not-ready" => Self::NotReady,
            "never-acknowledges" => Self::NeverAcknowledges,
            "sync-error" => Self::SyncError,
            "load-error" => Self::LoadError,
            "validate-error" => Self::ValidateError,
            "flap" => Self::Flap,
            "deaf" => Self::Deaf,
            "refuses-configz" => Self::RefusesConfigz,
            "no-start" => Self::NoStart,
            "dies" => Self::Dies,
            "restart-fails" => Self::RestartFails,
            "api-outage" => Self::ApiOutage(OUTAGE),
            "disk-full" => Self::DiskFull,
            other => return Err(FaultError::Kind(other.to_owned())),
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Crash => "crash",
            Self::Slow(factor) => return write!(f, "slow:{factor}"),
            Self::NotReady => "not-ready",
            Self::NeverAcknowledges => "never-acknowledges",
            Self::SyncError => "sync-error",
            Self::LoadError => "load-error",
            Self::ValidateError => "validate-error",
            Self::Flap => "flap",
            Self::Deaf => "deaf",
            Self::RefusesConfigz => "refuses-configz",
            Self::NoStart => "no-start",
            Self::Dies => "dies",
            Self::RestartFails => "restart-fails",
            Self::ApiOutage(seconds) => return write!(f, "api-outage:{seconds}"),
            Self::DiskFull => "disk-full",
        })
    }
}

/// One `--fault` as given: `<node>=<kind>`, or `*=<kind>` for every node. There are no other patterns.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultSpec {
    /// The node; `None` means all.
    pub node: Option<NodeName>,
    /// What goes wrong there.
    pub fault: Fault,
}

impl FromStr for FaultSpec {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let (node, kind) = text
            .split_once('=')
            .filter(|(node, kind)| !node.is_empty() && !kind.is_empty())
            .ok_or_else(|| FaultError::Form(text.to_owned()))?;
        let fault = kind.parse()?;
        let node = match node {
            "*" => None,
            name => Some(
                NodeName::new(name)
                    .map_err(|error| FaultError::Node { spec: text.to_owned(), problem: error.to_string() })?,
            ),
        };
        Ok(Self { node, fault })
    }
}

/// The faults of a run: one for all nodes, and those of single nodes, which win.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Faults {
    everywhere: Option<Fault>,
    by_node: BTreeMap<NodeName, Fault>,
}

impl Faults {
    /// The fault of a node.
    #[must_use]
    pub fn of(&self, node: &NodeName) -> Option<Fault> {
        self.by_node.get(node).copied().or(self.everywhere)
    }

    /// Every fault that some node has.
    pub fn all(&self) -> impl Iterator<Item = Fault> {
        self.by_node.values().copied().chain(self.everywhere)
    }

    /// The nodes that faults name; whoever creates the nodes can tell the user about one that does not exist.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeName> {
        self.by_node.keys()
    }
}

impl FromIterator<FaultSpec> for Faults {
    /// Of two faults for the same node the later wins.
    fn from_iter<I: IntoIterator<Item = FaultSpec>>(specs: I) -> Self {
        let mut faults = Self::default();
        for FaultSpec { node, fault } in specs {
            match node {
                Some(node) => {
                    faults.by_node.insert(node, fault);
                }
                None => faults.everywhere = Some(fault),
            }
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_reads_back_as_it_is_written() {
        for (name, _) in KINDS {
            let fault: Fault = name.parse().expect(name);
            assert_eq!(fault.to_string().parse::<Fault>(), Ok(fault));
        }
        assert_eq!("slow:2.5".parse::<Fault>(), Ok(Fault::Slow(2.5)));
        assert_eq!("api-outage:5".parse::<Fault>(), Ok(Fault::ApiOutage(5.0)));
    }

    #[test]
    fn a_fault_that_is_not_understood_lists_the_kinds() {
        for bad in ["n1", "n1=", "=crash", "n1=explode"] {
            let error = bad.parse::<FaultSpec>().expect_err(bad).to_string();
            for (name, _) in KINDS {
                assert!(error.contains(name), "{bad}: {error}");
            }
        }
        for bad in ["n1=slow:", "n1=slow:0.5", "n1=slow:x", "n1=slow:NaN"] {
            assert!(matches!(bad.parse::<FaultSpec>(), Err(FaultError::Factor(_))), "{bad}");
        }
        for bad in ["n1=api-outage:", "n1=api-outage:0", "n1=api-outage:x"] {
            assert!(matches!(bad.parse::<FaultSpec>(), Err(FaultError::Time(_))), "{bad}");
        }
        let error = "N_1=crash".parse::<FaultSpec>().expect_err("no name").to_string();
        assert!(error.contains("node name \"N_1\""), "{error}");
    }

    #[test]
    fn a_nodes_own_fault_wins_over_that_of_all() {
        let faults: Faults =
            ["n1=crash", "*=slow", "n1=flap"].into_iter().map(|s| s.parse::<FaultSpec>().expect(s)).collect();
        let node = |name: &str| NodeName::new(name).expect(name);
        assert_eq!(faults.of(&node("n1")), Some(Fault::Flap));
        assert_eq!(faults.of(&node("n2")), Some(Fault::Slow(10.0)));
        assert_eq!(Faults::default().of(&node("n1")), None);
        assert_eq!(faults.nodes().collect::<Vec<_>>(), [&node("n1")]);
    }
}
