//! Collects refusals, and runs rules in the versions that the table of rules lists.

use super::{Config, Refusal};
use crate::finding::Place;
use crate::verdict::rules;

/// A rule: the identifier in the table of rules, and its check.
pub(super) type Check = (&'static str, fn(&Config<'_>, &mut Refusals));

/// The refusals so far.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    rule: &'static str,
    list: Vec<Refusal>,
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

    /// Refuses a field of the table, at its value or the nearest place in the file.
    pub(super) fn field(&mut self, config: &Config<'_>, path: &str, message: impl Into<String>) -> &mut Self {
        self.at(path, config.place(path), message)
    }

    /// Refuses a value at a place, such as a value inside a list or a map.
    pub(super) fn at(&mut self, field: impl Into<String>, place: Place, message: impl Into<String>) -> &mut Self {
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
        if let Some(last) = self.list.last_mut() {
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
        if let Some(last) = self.list.last_mut() {
            last.help = Some(help.into());
        }
        self
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
