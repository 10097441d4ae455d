//! Collects what rules refuse, and runs a list of rules in the versions that the table gives them.

use super::{Config, Refusal};
use crate::finding::Place;
use crate::rules;

/// A rule: the identifier of its row in the table, and what it looks at.
pub(super) type Check = (&'static str, fn(&Config<'_>, &mut Refusals));

/// What has been refused so far.
#[derive(Debug, Default)]
pub struct Refusals {
    rule: &'static str,
    list: Vec<Refusal>,
}

impl Refusals {
    /// Runs the rules that kubelets of this configuration's version have, in order.
    pub(super) fn run(&mut self, checks: &[Check], config: &Config<'_>) {
        for (id, check) in checks {
            if rules::lookup(id).is_some_and(|rule| rule.applies_to(config.minor())) {
                self.rule = id;
                check(config, self);
            }
        }
    }

    /// The rule that is running.
    #[must_use]
    pub fn rule(&self) -> &'static str {
        self.rule
    }

    /// Refuses a field of the table; the place is the value's, or the closest that the file has.
    pub fn field(&mut self, config: &Config<'_>, path: &str, message: impl Into<String>) -> &mut Self {
        self.at(path, config.place(path), message)
    }

    /// Refuses a value inside a list or a map.
    pub fn at(&mut self, field: impl Into<String>, place: Place, message: impl Into<String>) -> &mut Self {
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

    /// Points the last refusal at another value that belongs to it.
    pub fn related(&mut self, place: Place, words: impl Into<String>) -> &mut Self {
        if let Some(last) = self.list.last_mut() {
            last.related.push((place, words.into()));
        }
        self
    }

    /// Points the last refusal at another field, when the file has it.
    pub fn related_field(&mut self, config: &Config<'_>, path: &str, words: impl Into<String>) -> &mut Self {
        if config.given(path).is_some() { self.related(config.place(path), words) } else { self }
    }

    /// Says the way out of the last refusal.
    pub fn help(&mut self, help: impl Into<String>) -> &mut Self {
        if let Some(last) = self.list.last_mut() {
            last.help = Some(help.into());
        }
        self
    }

    /// Everything refused.
    #[must_use]
    pub fn into_list(self) -> Vec<Refusal> {
        self.list
    }

    /// Whether nothing was refused so far.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}
