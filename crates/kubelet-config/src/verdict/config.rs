//! A configuration as the kubelet holds it once it is decoded and its defaults are set: what the kubelet dropped is not
//! there, null is unset, and what is unset has its default. It is read by the paths of the table of fields.

use serde_json::Value as Json;

use crate::document::{Document, Entry, Node, Reading};
use crate::fields::{self, Field};
use crate::finding::Place;
use crate::gates::Enabled;
use crate::{Minor, duration};

/// A decoded configuration with the defaults of one version.
#[derive(Debug)]
pub struct Config<'d> {
    root: &'d Node,
    minor: Minor,
    gates: Enabled,
}

impl<'d> Config<'d> {
    /// Reads a document that a kubelet of this version decodes, with its gates as they stand.
    #[must_use]
    pub fn new(document: &'d Document, minor: Minor, gates: Enabled) -> Self {
        Self { root: &document.root, minor, gates }
    }

    /// The version of the kubelet.
    #[must_use]
    pub fn minor(&self) -> Minor {
        self.minor
    }

    /// Whether a feature gate is on.
    #[must_use]
    pub fn gate(&self, name: &str) -> bool {
        self.gates.is_on(name)
    }

    /// The value that the file gives a field of the table, when this version knows the field and it is not null.
    #[must_use]
    pub fn given(&self, path: &str) -> Option<&'d Node> {
        let field = fields::lookup(path)?;
        debug_assert!(!path.contains(['[', '{']), "{path} is inside a list or a map");
        if !field.is_known_to(self.minor) {
            return None;
        }
        let mut node = self.root;
        for name in path.split('.') {
            node = node.get(name)?;
        }
        (!node.is_null()).then_some(node)
    }

    /// A whole number, its default when it is unset (or zero, where zero means unset), `None` when there is neither.
    #[must_use]
    pub fn int(&self, path: &str) -> Option<i64> {
        let field = fields::lookup(path)?;
        let given = self.given(path).and_then(|node| i64::try_from(whole(node)?).ok());
        given
            .filter(|value| *value != 0 || field.keeps_zero(self.minor))
            .or_else(|| self.default(field)?.as_i64())
            .or(given)
    }

    /// Any number, as [`Self::int`].
    #[must_use]
    pub fn number(&self, path: &str) -> Option<f64> {
        let field = fields::lookup(path)?;
        let given = self.given(path).and_then(|node| match node.reading()? {
            // Exact enough: the kubelet holds these in a float64 too.
            Reading::Int(value) => Some(value as f64),
            Reading::Float(value) => Some(value),
            _ => None,
        });
        given
            .filter(|value| *value != 0.0 || field.keeps_zero(self.minor))
            .or_else(|| self.default(field)?.as_f64())
            .or(given)
    }

    /// A text, its default when it is unset (or empty, where that means unset); empty when there is neither.
    #[must_use]
    pub fn text(&self, path: &str) -> &'d str {
        let Some(field) = fields::lookup(path) else { return "" };
        let given = self.given(path).and_then(Node::text);
        given
            .filter(|text| !text.is_empty() || field.keeps_zero(self.minor))
            .or_else(|| self.default(field)?.as_str())
            .unwrap_or_default()
    }

    /// A boolean, or its default; `None` when there is neither.
    #[must_use]
    pub fn flag(&self, path: &str) -> Option<bool> {
        let field = fields::lookup(path)?;
        let given = self.given(path).and_then(|node| match node.reading()? {
            Reading::Bool(value) => Some(value),
            _ => None,
        });
        given.or_else(|| self.default(field)?.as_bool())
    }

    /// A boolean that is false when it is unset and has no default.
    #[must_use]
    pub fn is(&self, path: &str) -> bool {
        self.flag(path).unwrap_or(false)
    }

    /// A duration in nanoseconds, its default when it is unset (or zero, where zero means unset); `None` when there is
    /// neither. A whole number is nanoseconds.
    #[must_use]
    pub fn duration(&self, path: &str) -> Option<i64> {
        let field = fields::lookup(path)?;
        let given = self.given(path).and_then(|node| match node.text() {
            Some(text) => duration::nanoseconds(text).ok(),
            None => i64::try_from(whole(node)?).ok(),
        });
        let default = || match self.default(field)? {
            Json::String(text) => duration::nanoseconds(text).ok(),
            other => other.as_i64(),
        };
        given.filter(|value| *value != 0 || field.keeps_zero(self.minor)).or_else(default).or(given)
    }

    /// The items of a list that the file gives; empty when it is unset. `None` tells unset from empty.
    #[must_use]
    pub fn list(&self, path: &str) -> Option<&'d [Node]> {
        self.given(path)?.sequence()
    }

    /// The entries of a map that the file gives; empty when it is unset.
    pub fn entries(&self, path: &str) -> impl Iterator<Item = (&'d str, &'d Entry)> + use<'d> {
        self.given(path).and_then(Node::mapping).into_iter().flatten().map(|(key, entry)| (key.as_str(), entry))
    }

    /// Where a field is written; for one that is not, the closest object around it, at the worst the whole document.
    #[must_use]
    pub fn place(&self, path: &str) -> Place {
        let mut node = self.root;
        for name in path.split('.') {
            match node.get(name) {
                Some(below) => node = below,
                None => break,
            }
        }
        if std::ptr::eq(node, self.root) { Place { len: 0, ..node.place.clone() } } else { node.place.clone() }
    }

    fn default(&self, field: &'static Field) -> Option<&'static Json> {
        if field.is_known_to(self.minor) { field.default.at(self.minor) } else { None }
    }
}

/// The whole number that a scalar is to the kubelet.
#[must_use]
pub fn whole(node: &Node) -> Option<i128> {
    node.reading()?.whole()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str, minor: u32, test: impl FnOnce(Config<'_>)) {
        let document = Document::parse("kubelet.yaml", text).document.unwrap();
        test(Config::new(&document, Minor(minor), Enabled::default()));
    }

    #[test]
    fn defaults_are_set_as_the_version_sets_them() {
        let text = "maxPods: 0\neventRecordQPS: 0\nresolvConf: ''\npodLogsDir: null\nhttpCheckFrequency: 0s\ntlsCertFile: /a\n";
        config(text, 21, |config| {
            assert_eq!(config.int("maxPods"), Some(110));
            assert_eq!(config.int("eventRecordQPS"), Some(0));
            assert_eq!(config.int("podPidsLimit"), Some(-1));
            assert_eq!(config.text("resolvConf"), "/etc/resolv.conf");
            assert_eq!(config.text("podLogsDir"), "");
            assert_eq!(config.text("tlsCertFile"), "/a");
            assert_eq!(config.duration("httpCheckFrequency"), Some(20_000_000_000));
            assert_eq!(config.int("kubeAPIBurst"), Some(10));
            assert_eq!(config.number("memoryThrottlingFactor"), None);
        });
        config(text, 36, |config| {
            assert_eq!(config.text("resolvConf"), "");
            assert_eq!(config.text("podLogsDir"), "/var/log/pods");
            assert_eq!(config.number("memoryThrottlingFactor"), Some(0.9));
            assert_eq!(config.flag("failCgroupV1"), Some(true));
            assert_eq!(config.flag("runOnce"), Some(false));
            assert_eq!(config.place("podLogsDir").line, 4);
            assert_eq!(config.place("logging.format").line, 1);
        });
    }

    #[test]
    fn fields_that_the_version_does_not_know_are_not_there() {
        config("podLogsDir: /a", 21, |config| assert!(config.given("podLogsDir").is_none()));
        config("podLogsDir: /a", 36, |config| assert!(config.given("podLogsDir").is_some()));
    }
}
