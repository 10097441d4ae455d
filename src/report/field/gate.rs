//! Explanation of a feature gate.

use serde::Serialize;

use super::UnknownField;
use kubelet_config::finding::nearest;
use kubelet_config::gates::{self, GateStage, Span};
use kubelet_config::{Minor, NEWEST, OLDEST, fields};

/// A feature gate in one version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Gate")]
pub struct FeatureGate {
    /// The name of the gate.
    pub name: String,
    /// The state of the gate. Unset if the version does not know the gate.
    #[serde(flatten)]
    pub state: Option<GateState>,
}

/// State of a gate in a range of versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Spell")]
pub struct GateState {
    /// The first version.
    pub since: Minor,
    /// The last version.
    pub until: Minor,
    /// The stage of the feature.
    pub stage: GateStage,
    /// The default value.
    pub default: bool,
    /// Whether the default cannot be changed.
    pub locked: bool,
}

/// History of a gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GateHistory {
    #[serde(skip)]
    name: String,
    #[serde(skip)]
    kubelet: bool,
    /// The states of the gate, oldest first.
    pub history: Vec<GateState>,
    /// The gates that must be on if this gate is on.
    pub needs: Vec<&'static str>,
    /// The gates that must be off if this gate is off.
    pub needed_by: Vec<&'static str>,
    /// The fields that need this gate.
    pub fields_that_need_it: Vec<String>,
}

impl From<&Span> for GateState {
    fn from(span: &Span) -> Self {
        Self {
            since: span.since,
            until: span.until,
            stage: span.at.stage,
            default: span.at.default,
            locked: span.at.locked,
        }
    }
}

impl GateState {
    /// `beta, on`, `GA, on and locked`.
    #[must_use]
    pub fn summary(&self) -> String {
        let default = if self.default { "on" } else { "off" };
        let locked = if self.locked { " and locked" } else { "" };
        format!("{}, {default}{locked}", self.stage)
    }
}

impl FeatureGate {
    pub(super) fn at(name: &str, minor: Minor) -> Self {
        let state = gates::history(name).iter().find(|span| (span.since..=span.until).contains(&minor));
        Self { name: name.to_owned(), state: state.map(GateState::from) }
    }
}

impl GateHistory {
    pub(super) fn of(name: &str, minor: Minor) -> Result<Self, UnknownField> {
        let Some((since, until)) = gates::known_by(name) else {
            return Err(UnknownField {
                message: format!("no kubelet from {OLDEST} to {NEWEST} has a feature gate {name:?}"),
                help: match nearest(name, gates::all()) {
                    Some(near) => format!("did you mean `featureGates.{near}`?"),
                    None => "see the list of feature gates in the Kubernetes documentation".to_owned(),
                },
            });
        };
        if !(since..=until).contains(&minor) {
            let range = if until == NEWEST { format!("since {since}") } else { format!("from {since} to {until}") };
            let other = if minor < since { since } else { until };
            return Err(UnknownField {
                message: format!("kubelet {minor} has no feature gate {name:?}: it exists {range}"),
                help: format!("run `nodecfg explain featureGates.{name} --kubernetes-version {other}`"),
            });
        }
        let needing = gates::all().filter(|other| gates::needs(other, minor).any(|gate| gate == name));
        let fields = fields::all().filter(|field| field.gate.at(minor).is_some_and(|gate| gate == name));
        Ok(Self {
            name: name.to_owned(),
            kubelet: gates::lookup(name, minor).is_some_and(|at| at.kubelet),
            history: gates::history(name).iter().map(GateState::from).collect(),
            needs: gates::needs(name, minor).collect(),
            needed_by: needing.collect(),
            fields_that_need_it: fields
                .filter(|field| !field.path.ends_with([']', '}']))
                .map(|field| fields::plain(&field.path))
                .collect(),
        })
    }

    fn at(&self, minor: Minor) -> Option<&GateState> {
        self.history.iter().find(|state| (state.since..=state.until).contains(&minor))
    }

    pub(super) fn default(&self, minor: Minor) -> Option<bool> {
        self.at(minor).map(|state| state.default)
    }

    pub(super) fn version_range(&self) -> (Minor, Option<Minor>) {
        let until = self.history.last().map(|state| state.until).filter(|until| *until != NEWEST);
        (self.history.first().map_or(OLDEST, |state| state.since), until)
    }

    pub(super) fn describe(&self, minor: Minor) -> String {
        let state = match self.at(minor) {
            Some(state) if state.locked => format!(
                "The feature gate {}. In {minor} it is {} and locked: any other value keeps the kubelet from starting.",
                self.name,
                if state.default { "on" } else { "off" }
            ),
            Some(state) => {
                format!("The feature gate {}. In {minor} it is {} by default.", self.name, on_off(state))
            }
            None => format!("The feature gate {}.", self.name),
        };
        if self.kubelet { state } else { format!("{state} The kubelet accepts it but does not use it.") }
    }
}

fn on_off(state: &GateState) -> &'static str {
    if state.default { "on" } else { "off" }
}
