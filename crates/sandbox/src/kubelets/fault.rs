//! Faults of simulated nodes, and the parser of `--fault <node>=<kind>`.
//!
//! A fault belongs to a node, not to a configuration, and lasts until it is replaced or removed. Kubelets that follow
//! `configSource` (`kubelets::machine`) and nodes with an agent (`sandbox::agents`) share the kinds; some need an
//! agent.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde_json::{Value, json};

use crate::running::set;
use kubelet_config::API_VERSION;
use kubelet_config::effective::flag_of;
use kubelet_config::fields::{self, Target};
use nodecfg_contract::names::NodeName;

/// Kind of fault of a node. Effects on nodes with an agent are listed where they differ. There, a *new* configuration
/// is one that the node did not run when the fault began.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// The kubelet dies on the first configuration it restarts into. The Node changes from Ready to Unknown after 40
    /// s, and `assigned` does not change until the fault is removed. With an agent, the host goes down and loses
    /// writes that were not durable. It boots again when the fault is removed.
    Crash,
    /// All operations are slower by this factor; `slow` alone means 10, `slow:3` means 3.
    Slow(f64),
    /// The kubelet activates its assignment and is then not Ready. The local configuration works. An agent rolls
    /// back.
    NotReady,
    /// The kubelet runs without `--dynamic-config-dir`, or the node has no agent: Ready, and `status.config` never
    /// changes.
    NeverAcknowledges,
    /// The kubelet cannot read any ConfigMap: every new assignment is `failed to sync: …`, retried forever.
    SyncError,
    /// The kubelet fails to load every configuration it restarts into.
    LoadError,
    /// The kubelet refuses every configuration it restarts into.
    ValidateError,
    /// The node converges, and after 20 s alternates between not Ready and Ready every 20 s.
    Flap,
    /// The kubelet does not run: Ready is Unknown, and nothing is acknowledged.
    Deaf,
    /// The kubelet refuses `configz` requests of the API server, as without the authorization for it.
    RefusesConfigz,
    /// The node has 8 GPUs, which return 15 s after each restart of its kubelet.
    SlowDevices,
    /// The node has 8 GPUs, which do not return after a restart of its kubelet.
    LostDevices,
    /// Each restarted kubelet refuses the first pod of its node that was Ready.
    RefusesPod,
    /// The pods of the node are not Ready any more when its kubelet has restarted.
    UnreadyPods,
    /// The kubelet's command line sets a field; `flag` alone sets maxPods to 50.
    Flag(Setting),
    /// Needs an agent: the kubelet does not start with a new configuration.
    NoStart,
    /// Needs an agent: the kubelet starts with a new configuration and dies 15 s later, repeatedly.
    Dies,
    /// Needs an agent: the restart command of the kubelet fails for a new configuration.
    RestartFails,
    /// Needs an agent: the agent cannot reach the API server for this many seconds; `api-outage` alone means 60.
    ApiOutage(f64),
    /// Needs an agent: writes to the host's disk fail.
    DiskFull,
    /// Needs an agent: another program's drop-in `95-other.conf` sets a field; `later-drop-in` alone sets maxPods to 50.
    LaterDropIn(Setting),
    /// Needs an agent: when the node runs a new configuration for the first time, another program writes the kubelet's
    /// own file again, with containerLogMaxFiles set to 4, and restarts the kubelet, as with `kubeadm upgrade node`.
    RewrittenFile,
}

/// A value of a field, written as `FIELD=VALUE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Path of the field, such as `authentication.anonymous.enabled`.
    pub field: Cow<'static, str>,
    /// The value as text.
    pub value: Cow<'static, str>,
}

impl Setting {
    /// Argument of a kubelet's command line that sets the field. `None` if no flag sets it.
    pub(crate) fn flag(&self) -> Option<String> {
        Some(format!("--{}={}", flag_of(&self.field)?, self.value))
    }

    /// Drop-in that sets the field. A value that is no JSON is a text.
    pub(crate) fn drop_in(&self) -> String {
        let value: Value = serde_json::from_str(&self.value).unwrap_or_else(|_| Value::from(&*self.value));
        let mut whole = json!({"apiVersion": API_VERSION, "kind": "KubeletConfiguration"});
        whole.as_object_mut().into_iter().for_each(|whole| set(whole, &self.field, value.clone()));
        whole.to_string()
    }
}

/// Setting of faults without another one.
const FIFTY_PODS: Setting = Setting { field: Cow::Borrowed("maxPods"), value: Cow::Borrowed("50") };

/// Fault kinds, as their names alone mean them in the syntax of `--fault`, with names and descriptions. See [`Fault`] for
/// details.
pub static KINDS: [(Fault, &str, &str); 22] = [
    (Fault::Crash, "crash", "dies on its new configuration"),
    (Fault::Slow(10.0), "slow", "takes 10 times as long; slow:<factor> sets another factor"),
    (Fault::NotReady, "not-ready", "activates its configuration and is then not Ready"),
    (Fault::NeverAcknowledges, "never-acknowledges", "runs without --dynamic-config-dir, or without an agent"),
    (Fault::SyncError, "sync-error", "cannot read its ConfigMap"),
    (Fault::LoadError, "load-error", "cannot load its configuration"),
    (Fault::ValidateError, "validate-error", "refuses its configuration"),
    (Fault::Flap, "flap", "converges, then is not Ready every other 20 s"),
    (Fault::Deaf, "deaf", "does not run; Ready is Unknown"),
    (Fault::RefusesConfigz, "refuses-configz", "refuses requests for its configuration"),
    (Fault::SlowDevices, "slow-devices", "has 8 GPUs, which return 15 s after a restart"),
    (Fault::LostDevices, "lost-devices", "has 8 GPUs, which do not return after a restart"),
    (Fault::RefusesPod, "refuses-pod", "refuses one of its pods after a restart"),
    (Fault::UnreadyPods, "unready-pods", "has no Ready pods after a restart"),
    (Fault::Flag(FIFTY_PODS), "flag", "has the flag --max-pods=50; flag:<field>=<value> sets another field"),
    (Fault::NoStart, "no-start", "does not start with a new configuration"),
    (Fault::Dies, "dies", "starts with a new configuration and dies during the trial"),
    (Fault::RestartFails, "restart-fails", "cannot be restarted with a new configuration"),
    (Fault::ApiOutage(60.0), "api-outage", "loses the API server for 60 s; api-outage:<seconds> sets another time"),
    (Fault::DiskFull, "disk-full", "cannot write to the disk"),
    (
        Fault::LaterDropIn(FIFTY_PODS),
        "later-drop-in",
        "has another drop-in, maxPods: 50 or later-drop-in:<field>=<value>",
    ),
    (Fault::RewrittenFile, "rewritten-file", "has its file rewritten, as by kubeadm upgrade, on a new configuration"),
];

/// Error in the text of a fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FaultError(String);

/// Kind with a name, from a table of kinds with names and descriptions.
pub(crate) fn kind_of<F: Clone>(name: &str, kinds: &[(F, &str, &str)]) -> Result<F, FaultError> {
    match kinds.iter().find(|(_, known, _)| *known == name) {
        Some((kind, ..)) => Ok(kind.clone()),
        None => {
            let names: Vec<&str> = kinds.iter().map(|(_, name, _)| *name).collect();
            Err(FaultError(format!("fault kind {name:?} is unknown; kinds are {}", names.join(", "))))
        }
    }
}

/// Parses `<node>=<kind>`.
pub(crate) fn parse_with_node<F: FromStr<Err = FaultError>>(text: &str) -> Result<(NodeName, F), FaultError> {
    let (node, kind) =
        text.split_once('=').ok_or_else(|| FaultError(format!("fault {text:?} is invalid; use <node>=<kind>")))?;
    let fault = kind.parse()?;
    let invalid =
        |problem| FaultError(format!("fault {text:?} names no valid node: {problem}; use the name of a node"));
    Ok((NodeName::new(node).map_err(invalid)?, fault))
}

impl Fault {
    /// Reports whether this fault needs an agent.
    #[must_use]
    pub fn needs_agent(&self) -> bool {
        matches!(
            self,
            Self::NoStart
                | Self::Dies
                | Self::RestartFails
                | Self::ApiOutage(_)
                | Self::DiskFull
                | Self::LaterDropIn(_)
                | Self::RewrittenFile
        )
    }
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let (name, parameter) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let fault = kind_of(name, &KINDS)?;
        let Some(parameter) = parameter else { return Ok(fault) };
        let invalid = |why: &str| FaultError(format!("fault kind {text:?} {why}"));
        let number = |most: f64, why| {
            let number = parameter.parse().ok().filter(|number| (1.0..=most).contains(number));
            number.ok_or_else(|| invalid(why))
        };
        let setting = || {
            let why = format!("sets no field; use {name}:<field>=<value>, such as {name}:maxPods=50");
            setting(parameter).ok_or_else(|| invalid(&why))
        };
        match fault {
            Self::Slow(_) => {
                let why = "has an invalid factor; use slow:<factor> with a number from 1 to 1000, such as slow:3";
                number(1000.0, why).map(Self::Slow)
            }
            Self::ApiOutage(_) => {
                let why = "has an invalid time; use api-outage:<seconds> with a number from 1 to 86400";
                number(86_400.0, why).map(Self::ApiOutage)
            }
            Self::Flag(_) => match setting()? {
                setting if setting.flag().is_some() => Ok(Self::Flag(setting)),
                _ => Err(invalid("names a field that no flag of the kubelet sets; use later-drop-in:<field>=<value>")),
            },
            Self::LaterDropIn(_) => setting().map(Self::LaterDropIn),
            _ => Err(invalid(&format!("has a parameter; use {name}"))),
        }
    }
}

/// Parses `FIELD=VALUE` with a field that a kubelet has.
fn setting(text: &str) -> Option<Setting> {
    let (field, value) = text.split_once('=')?;
    fields::find(field).ok().filter(|target| !matches!(target, Target::Root))?;
    Some(Setting { field: field.to_owned().into(), value: value.to_owned().into() })
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = std::mem::discriminant(self);
        let name = KINDS.iter().find(|(fault, ..)| std::mem::discriminant(fault) == kind).map(|(_, name, _)| *name);
        f.write_str(name.unwrap_or_default())?;
        match self {
            Self::Slow(number) | Self::ApiOutage(number) => write!(f, ":{number}"),
            Self::Flag(Setting { field, value }) | Self::LaterDropIn(Setting { field, value }) => {
                write!(f, ":{field}={value}")
            }
            _ => Ok(()),
        }
    }
}

/// A parsed `--fault`: `<node>=<kind>`, or `*=<kind>` for every node.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultSpec {
    /// The node; `None` means all.
    pub node: Option<NodeName>,
    /// Fault of the node.
    pub fault: Fault,
}

impl FromStr for FaultSpec {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        if let Some(kind) = text.strip_prefix("*=") {
            return Ok(Self { node: None, fault: kind.parse()? });
        }
        parse_with_node(text).map(|(node, fault)| Self { node: Some(node), fault })
    }
}

/// Faults of a run: one for all nodes, and those of single nodes, which win.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Faults {
    everywhere: Option<Fault>,
    by_node: BTreeMap<NodeName, Fault>,
}

impl Faults {
    /// The fault of a node.
    #[must_use]
    pub fn of(&self, node: &NodeName) -> Option<Fault> {
        self.by_node.get(node).or(self.everywhere.as_ref()).cloned()
    }

    /// All configured faults: those of single nodes, then the one for all nodes.
    pub fn all(&self) -> impl Iterator<Item = &Fault> {
        self.by_node.values().chain(&self.everywhere)
    }

    /// Nodes that faults name, so that the caller can report unknown ones.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeName> {
        self.by_node.keys()
    }
}

impl FromIterator<FaultSpec> for Faults {
    /// The later of two faults for the same node wins.
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
    fn every_kind_round_trips() {
        for (_, name, _) in &KINDS {
            let fault: Fault = name.parse().expect(name);
            assert_eq!(fault.to_string().parse::<Fault>(), Ok(fault));
        }
        assert_eq!("slow:2.5".parse::<Fault>(), Ok(Fault::Slow(2.5)));
        assert_eq!("api-outage:5".parse::<Fault>(), Ok(Fault::ApiOutage(5.0)));
    }

    #[test]
    fn parse_errors_name_the_mistake() {
        for (bad, mistake) in [
            ("n1", "use <node>=<kind>"),
            ("n1=", "kinds are crash, slow,"),
            ("n1=explode", "kinds are crash, slow,"),
            ("n1=crash:1", "has a parameter; use crash"),
            ("=crash", "names no valid node"),
            ("N_1=crash", "node name \"N_1\""),
            ("n1=slow:", "from 1 to 1000"),
            ("n1=slow:0.5", "from 1 to 1000"),
            ("*=slow:NaN", "from 1 to 1000"),
            ("n1=api-outage:x", "from 1 to 86400"),
            ("n1=api-outage:0", "from 1 to 86400"),
            ("n1=flag:maxPods", "use flag:<field>=<value>"),
            ("n1=flag:nope=1", "use flag:<field>=<value>"),
            ("n1=later-drop-in:", "use later-drop-in:<field>=<value>"),
            ("n1=flag:crashLoopBackOff.maxContainerRestartPeriod=1m", "that no flag of the kubelet sets"),
        ] {
            let error = bad.parse::<FaultSpec>().expect_err(bad).to_string();
            assert!(error.contains(mistake), "{bad}: {error}");
        }
    }

    #[test]
    fn settings_become_arguments_and_drop_ins() {
        let Ok(Fault::Flag(setting)) = "flag:evictionHard=memory.available<5%".parse() else { panic!("no setting") };
        assert_eq!(setting.flag().as_deref(), Some("--eviction-hard=memory.available<5%"));
        let Ok(Fault::LaterDropIn(setting)) = "later-drop-in:evictionHard.memory.available=5%".parse() else {
            panic!("no setting")
        };
        let text = setting.drop_in();
        assert!(text.contains(r#""evictionHard":{"memory.available":"5%"}"#), "{text}");
        assert!(FIFTY_PODS.drop_in().contains(r#""maxPods":50"#));
    }

    #[test]
    fn fault_of_node_overrides_fault_of_all() {
        let faults: Faults =
            ["n1=crash", "*=slow", "n1=flap"].into_iter().map(|s| s.parse::<FaultSpec>().expect(s)).collect();
        let node = |name: &str| NodeName::new(name).expect(name);
        assert_eq!(faults.of(&node("n1")), Some(Fault::Flap));
        assert_eq!(faults.of(&node("n2")), Some(Fault::Slow(10.0)));
        assert_eq!(Faults::default().of(&node("n1")), None);
        assert_eq!(faults.nodes().collect::<Vec<_>>(), [&node("n1")]);
    }
}
