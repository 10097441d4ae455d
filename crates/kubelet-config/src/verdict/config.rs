//! A decoded configuration with defaults, accessed by the paths of the table of fields. Fields that the kubelet drops
//! are absent, null is unset, and unset scalars have their default. Lists and maps have no default here, except those with
//! a method of their own.

use std::cell::OnceCell;

use serde_json::{Map, Value as Json};

use crate::Minor;
use crate::defaults::Defaults;
use crate::document::{Document, Entry, Node, Reading};
use crate::fields::{self, Field};
use crate::finding::Place;
use crate::gates::EnabledGates;
use crate::values::duration;

/// A decoded configuration with the defaults of one version.
#[derive(Debug)]
pub struct Config<'d> {
    root: &'d Node,
    minor: Minor,
    gates: EnabledGates,
    /// Whether a missing or zero value has a default.
    has_defaults: bool,
    filled: OnceCell<Map<String, Json>>,
}

impl<'d> Config<'d> {
    /// Wraps a document for a kubelet of this version, with the effective gates.
    pub(crate) fn new(document: &'d Document, minor: Minor, gates: EnabledGates) -> Self {
        Self { root: &document.root, minor, gates, has_defaults: true, filled: OnceCell::new() }
    }

    /// Wraps a document that writes out every default, so that a missing or zero value has none.
    pub(crate) fn explicit(document: &'d Document, minor: Minor, gates: EnabledGates) -> Self {
        Self { has_defaults: false, ..Self::new(document, minor, gates) }
    }

    /// Returns a value of the configuration with all defaults, also those that depend on gates and other fields. `key`:
    /// the key in an object or a map.
    pub(crate) fn filled(&self, field: &str, key: Option<&str>) -> Option<&Json> {
        let whole = self.filled.get_or_init(|| {
            let Json::Object(given) = self.root.to_json() else { return Map::new() };
            if !self.has_defaults {
                return given;
            }
            Defaults { minor: self.minor, eviction: true, gates: None, enabled: Some(&self.gates) }.fill(&given)
        });
        let value = whole.get(field).filter(|_| fields::child("", field).is_some_and(|f| f.is_known_to(self.minor)))?;
        match key {
            None => Some(value),
            Some(key) => value.get(key),
        }
    }

    /// Returns the version of the kubelet.
    pub(crate) fn minor(&self) -> Minor {
        self.minor
    }

    /// Reports whether a feature gate is on.
    pub(crate) fn gate(&self, name: &str) -> bool {
        self.gates.is_on(name)
    }

    /// Returns the value of a field in the file, if this version has the field and the value is not null.
    pub(crate) fn given(&self, path: &str) -> Option<&'d Node> {
        let field = fields::lookup(path)?;
        debug_assert!(!path.contains(['[', '{']), "{path} is inside a list or a map");
        if !field.is_known_to(self.minor) {
            return None;
        }
        self.root.at(path).filter(|node| !node.is_null())
    }

    /// Returns a whole number, or its default if unset (or zero, where zero means unset). `None` if unset and without
    /// a default.
    #[must_use]
    pub fn int(&self, path: &str) -> Option<i64> {
        let field = fields::lookup(path)?;
        let given = self.given(path).and_then(|node| i64::try_from(whole(node)?).ok());
        given
            .filter(|value| *value != 0 || field.keeps_zero(self.minor))
            .or_else(|| self.default(field)?.as_i64())
            .or(given)
    }

    /// Returns a number, under the same rules as [`Self::int`].
    pub(crate) fn number(&self, path: &str) -> Option<f64> {
        let field = fields::lookup(path)?;
        let given = self.given(path).and_then(|node| match node.reading()? {
            // Exact enough: the kubelet uses a float64 too.
            Reading::Int(value) => Some(value as f64),
            Reading::Float(value) => Some(value),
            _ => None,
        });
        given
            .filter(|value| *value != 0.0 || field.keeps_zero(self.minor))
            .or_else(|| self.default(field)?.as_f64())
            .or(given)
    }

    /// Returns a text, or its default if unset (or empty, where empty means unset). Empty if unset and without a
    /// default.
    pub(crate) fn text(&self, path: &str) -> &'d str {
        let Some(field) = fields::lookup(path) else { return "" };
        let given = self.given(path).and_then(Node::text);
        given
            .filter(|text| !text.is_empty() || field.keeps_zero(self.minor))
            .or_else(|| self.default(field)?.as_str())
            .unwrap_or_default()
    }

    /// Returns a boolean, or its default if unset. `None` if unset and without a default.
    pub(crate) fn flag(&self, path: &str) -> Option<bool> {
        let field = fields::lookup(path)?;
        let given = self.given(path).and_then(|node| match node.reading()? {
            Reading::Bool(value) => Some(value),
            _ => None,
        });
        given.or_else(|| self.default(field)?.as_bool())
    }

    /// Returns a boolean; false if unset and without a default.
    pub(crate) fn is(&self, path: &str) -> bool {
        self.flag(path).unwrap_or(false)
    }

    /// Returns a duration in nanoseconds, or its default if unset (or zero, where zero means unset). `None` if unset
    /// and without a default. A whole number is in nanoseconds.
    pub(crate) fn duration(&self, path: &str) -> Option<i64> {
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

    /// Returns the items of a list in the file; `None` if unset.
    pub(crate) fn list(&self, path: &str) -> Option<&'d [Node]> {
        self.given(path)?.sequence()
    }

    /// Returns the entries of a map in the file; empty if unset.
    pub(crate) fn entries(&self, path: &str) -> impl Iterator<Item = (&'d str, &'d Entry)> + use<'d> {
        self.given(path).and_then(Node::mapping).into_iter().flatten().map(|(key, entry)| (key.as_str(), entry))
    }

    /// Returns the entries of a map of strings in the file. Null is empty; other values that are not text are omitted.
    pub(crate) fn texts(&self, path: &str) -> impl Iterator<Item = (&'d str, &'d str, &'d Entry)> + use<'d> {
        self.entries(path).filter_map(|(key, entry)| Some((key, text_of(&entry.value)?, entry)))
    }

    /// Returns the items of a list of strings in the file, each with its path. Null is empty; other values that are not
    /// text are omitted.
    pub(crate) fn items(&self, path: &str) -> impl Iterator<Item = (String, &'d str, &'d Node)> + use<'d> {
        let path = path.to_owned();
        let list = self.list(&path).unwrap_or_default().iter().enumerate();
        list.filter_map(move |(at, node)| Some((format!("{path}[{at}]"), text_of(node)?, node)))
    }

    /// Returns the place of a field. For an unset field this is the closest enclosing object, or the start of the
    /// document.
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
        if self.has_defaults && field.is_known_to(self.minor) { field.default.at(self.minor) } else { None }
    }
}

fn text_of(node: &Node) -> Option<&str> {
    if node.is_null() { Some("") } else { node.text() }
}

/// Returns the whole number that the kubelet reads from a scalar.
pub(crate) fn whole(node: &Node) -> Option<i128> {
    node.reading()?.whole()
}

impl Config<'_> {
    /// Returns `crashLoopBackOff.maxContainerRestartPeriod` in nanoseconds. `None` if it is unset and the gate
    /// `KubeletCrashLoopBackOffMax` is off.
    pub(crate) fn max_container_restart_period(&self) -> Option<i64> {
        duration::nanoseconds(self.filled("crashLoopBackOff", Some("maxContainerRestartPeriod"))?.as_str()?).ok()
    }

    /// Returns `imagePullCredentialsVerificationPolicy`. Empty if it is unset and the gate
    /// `KubeletEnsureSecretPulledImages` is off.
    pub(crate) fn image_pull_credentials_verification_policy(&self) -> &str {
        self.filled("imagePullCredentialsVerificationPolicy", None).and_then(Json::as_str).unwrap_or_default()
    }

    /// Returns `serializeImagePulls`. Since 1.27 the default is false if several parallel pulls are allowed.
    pub(crate) fn serialize_image_pulls(&self) -> bool {
        self.filled("serializeImagePulls", None).and_then(Json::as_bool).unwrap_or_default()
    }

    /// Returns `enforceNodeAllocatable`, each value with its index in the file. An unset list means `[pods]`; an empty
    /// list stays empty.
    pub(crate) fn enforcements(&self) -> Vec<(Option<usize>, &str)> {
        match self.list("enforceNodeAllocatable") {
            None => {
                let items = self.filled("enforceNodeAllocatable", None).and_then(Json::as_array);
                items.into_iter().flatten().map(|item| (None, item.as_str().unwrap_or_default())).collect()
            }
            Some(items) => {
                items.iter().enumerate().map(|(i, item)| (Some(i), item.text().unwrap_or_default())).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str, minor: u32, test: impl FnOnce(Config<'_>)) {
        let document = Document::parse("kubelet.yaml", text).document.unwrap();
        test(Config::new(&document, Minor(minor), EnabledGates::default()));
    }

    #[test]
    fn sets_defaults_of_the_version() {
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
    fn omits_fields_of_other_versions() {
        config("podLogsDir: /a", 21, |config| assert!(config.given("podLogsDir").is_none()));
        config("podLogsDir: /a", 36, |config| assert!(config.given("podLogsDir").is_some()));
    }

    #[test]
    fn pulls_are_serialized_unless_several_are_allowed() {
        for (text, minor, serial) in [
            ("maxPods: 1", 27, true),
            ("maxParallelImagePulls: 1", 27, true),
            ("maxParallelImagePulls: 2", 27, false),
            ("maxParallelImagePulls: 2", 26, true),
            ("maxParallelImagePulls: 2\nserializeImagePulls: true", 27, true),
            ("maxParallelImagePulls: 1\nserializeImagePulls: false", 27, false),
        ] {
            config(text, minor, |config| assert_eq!(config.serialize_image_pulls(), serial, "{text}"));
        }
    }

    #[test]
    fn unset_enforcements_mean_pods() {
        config("enforceNodeAllocatable: null", 30, |config| assert_eq!(config.enforcements(), [(None, "pods")]));
        config("enforceNodeAllocatable: []", 30, |config| assert!(config.enforcements().is_empty()));
        config("enforceNodeAllocatable: [none]", 30, |config| {
            assert_eq!(config.enforcements(), [(Some(0), "none")]);
        });
    }
}
