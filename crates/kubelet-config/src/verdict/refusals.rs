//! Collects refusals, and runs rules in the versions that the table of rules lists.

use super::{Config, Refusal};
use crate::Minor;
use crate::finding::Place;
use crate::verdict::rules;

/// A rule: the identifier in the table of rules, and its check.
pub(super) type Check = (&'static str, fn(&Config<'_>, &mut Refusals));

/// The refusals so far.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    rule: &'static str,
    list: Vec<Refusal>,
    /// Whether the last refusal was left out, because its rule does not apply.
    is_left_out: bool,
}

impl Refusals {
    /// Runs the rules that apply to the configuration's version, in order.
    pub(super) fn run(&mut self, checks: &[Check], config: &Config<'_>) {
        for (id, check) in checks {
            if rules::lookup(id).is_some_and(|rule| rule.applies_to(config.minor())) {
                self.rule = id;
                check(config, self);
            }
        }
    }

    /// Returns the rule that is running.
    pub(super) fn rule(&self) -> &'static str {
        self.rule
    }

    /// Sets the rule of the following refusals.
    pub(super) fn by(&mut self, rule: &'static str) -> &mut Self {
        self.rule = rule;
        self
    }

    /// Refuses a value by a rule, if the version has the rule.
    pub(super) fn refuse(
        &mut self,
        rule: &'static str,
        minor: Minor,
        field: impl Into<String>,
        place: &Place,
        message: String,
    ) -> &mut Self {
        if rules::lookup(rule).is_some_and(|row| row.applies_to(minor)) {
            return self.by(rule).at(field, place.clone(), message);
        }
        self.is_left_out = true;
        self
    }

    /// Refuses a field that requires a feature gate, if the gate is off. `state`: what the field is; `otherwise`: the fix
    /// without the gate.
    pub(super) fn require_gate(&mut self, config: &Config<'_>, path: &str, state: &str, gate: &str, otherwise: &str) {
        if !config.gate(gate) {
            self.field(config, path, format!("{path} {state}, but the feature gate {gate} is off"))
                .help(format!("set featureGates.{gate}: true, or {otherwise}"));
        }
    }

    /// Refuses a field of the table, at its value or the nearest place in the file.
    pub(super) fn field(&mut self, config: &Config<'_>, path: &str, message: impl Into<String>) -> &mut Self {
        self.at(path, config.place(path), message)
    }

    /// Refuses a value at a place, such as a value inside a list or a map.
    pub(super) fn at(&mut self, field: impl Into<String>, place: Place, message: impl Into<String>) -> &mut Self {
        self.is_left_out = false;
        self.list.push(Refusal {
            rule: self.rule,
            field: field.into(),
            message: message.into(),
            place,
            related: Vec::new(),
            help: None,
        });
        self
    }

    /// Adds a related place to the last refusal.
    pub(super) fn related(&mut self, place: Place, label: impl Into<String>) -> &mut Self {
        if let Some(last) = self.last() {
            last.related.push((place, label.into()));
        }
        self
    }

    /// Adds a related field to the last refusal, if the file sets the field.
    pub(super) fn related_field(&mut self, config: &Config<'_>, path: &str, label: impl Into<String>) -> &mut Self {
        if config.given(path).is_some() { self.related(config.place(path), label) } else { self }
    }

    /// Sets the fix of the last refusal.
    pub(super) fn help(&mut self, help: impl Into<String>) -> &mut Self {
        if let Some(last) = self.last() {
            last.help = Some(help.into());
        }
        self
    }

    fn last(&mut self) -> Option<&mut Refusal> {
        if self.is_left_out { None } else { self.list.last_mut() }
    }

    /// Returns all refusals.
    pub(super) fn into_list(self) -> Vec<Refusal> {
        self.list
    }

    /// Reports whether nothing is refused so far.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}
