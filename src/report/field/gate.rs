//! What there is to know about a feature gate.

use serde::Serialize;

use super::Absent;
use kubelet_config::gates::{self, GateStage, Span};
use kubelet_config::minor::{NEWEST, OLDEST};
use kubelet_config::spelling::nearest;
use kubelet_config::{Minor, address, fields};

/// A feature gate as it stands in one version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Gate")]
pub struct FeatureGate {
    /// Its name.
    pub name: String,
    /// How it is; unset where the table does not know it.
    #[serde(flatten)]
    pub spell: Option<Spell>,
}

/// How a gate is for some versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Spell {
    /// The first of these versions.
    pub since: Minor,
    /// The last of them.
    pub until: Minor,
    /// How far the feature has come.
    pub stage: GateStage,
    /// Whether it is on when nobody says anything.
    pub default: bool,
    /// Whether it keeps its default.
    pub locked: bool,
}

/// What became of a gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GateHistory {
    #[serde(skip)]
    name: String,
    #[serde(skip)]
    kubelet: bool,
    /// How it was, oldest first.
    pub history: Vec<Spell>,
    /// The gates that must be on for this one to be on.
    pub needs: Vec<&'static str>,
    /// The gates that must be off for this one to be off.
    pub needed_by: Vec<&'static str>,
    /// The fields that need it.
    pub fields_that_need_it: Vec<String>,
}

impl From<&Span> for Spell {
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

impl Spell {
    /// `beta, on`, `GA, on and locked`.
    #[must_use]
    pub fn words(&self) -> String {
        let default = if self.default { "on" } else { "off" };
        let locked = if self.locked { " and locked" } else { "" };
        format!("{}, {default}{locked}", self.stage)
    }
}

impl FeatureGate {
    pub(super) fn at(name: &str, minor: Minor) -> Self {
        let spell = gates::history(name).iter().find(|span| (span.since..=span.until).contains(&minor));
        Self { name: name.to_owned(), spell: spell.map(Spell::from) }
    }
}

impl GateHistory {
    pub(super) fn of(name: &str, minor: Minor) -> Result<Self, Absent> {
        let Some((since, until)) = gates::known_by(name) else {
            return Err(Absent {
                message: format!("no kubelet from {OLDEST} to {NEWEST} knows a feature gate {name:?}"),
                help: match nearest(name, gates::all()) {
                    Some(near) => format!("did you mean `featureGates.{near}`?"),
                    None => "the names are those of Kubernetes' list of feature gates".to_owned(),
                },
            });
        };
        if !(since..=until).contains(&minor) {
            let there = if until == NEWEST { format!("since {since}") } else { format!("from {since} to {until}") };
            let other = if minor < since { since } else { until };
            return Err(Absent {
                message: format!("kubelet {minor} knows no feature gate {name:?}: it is there {there}"),
                help: format!("`nodecfg explain featureGates.{name} --kubernetes-version {other}` explains it"),
            });
        }
        let needing = gates::all().filter(|other| gates::needs(other, minor).any(|gate| gate == name));
        let fields = fields::all().filter(|field| field.gate.at(minor).is_some_and(|gate| gate == name));
        Ok(Self {
            name: name.to_owned(),
            kubelet: gates::lookup(name, minor).is_some_and(|at| at.kubelet),
            history: gates::history(name).iter().map(Spell::from).collect(),
            needs: gates::needs(name, minor).collect(),
            needed_by: needing.collect(),
            fields_that_need_it: fields
                .filter(|field| !field.path.ends_with([']', '}']))
                .map(|field| address::plain(&field.path))
                .collect(),
        })
    }

    fn at(&self, minor: Minor) -> Option<&Spell> {
        self.history.iter().find(|spell| (spell.since..=spell.until).contains(&minor))
    }

    pub(super) fn default(&self, minor: Minor) -> Option<bool> {
        self.at(minor).map(|spell| spell.default)
    }

    pub(super) fn known(&self) -> (Minor, Option<Minor>) {
        let until = self.history.last().map(|spell| spell.until).filter(|until| *until != NEWEST);
        (self.history.first().map_or(OLDEST, |spell| spell.since), until)
    }

    pub(super) fn describe(&self, minor: Minor) -> String {
        let state = match self.at(minor) {
            Some(spell) if spell.locked => format!(
                "The feature gate {}. In {minor} it is {} and locked: any other value keeps the kubelet from starting.",
                self.name,
                if spell.default { "on" } else { "off" }
            ),
            Some(spell) => {
                format!("The feature gate {}. In {minor} it is {} unless you say otherwise.", self.name, on_off(spell))
            }
            None => format!("The feature gate {}.", self.name),
        };
        if self.kubelet { state } else { format!("{state} The kubelet knows it and does not ask for it.") }
    }
}

fn on_off(spell: &Spell) -> &'static str {
    if spell.default { "on" } else { "off" }
}
