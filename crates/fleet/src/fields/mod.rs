//! Typed access to the maps of a document. Invalid values become findings with positions, and reading continues.
//! Independent of any format.
//!
//! - [`map!`](declare) declares a map with its fields: struct, reader, JSON Schema and table of fields follow.
//! - [`ReadField`] reads the value of a field. Each type of value implements it once.

mod declare;
mod values;

pub(crate) use declare::{FieldInfo, FieldType, Map, info, map, map_schema};
pub(crate) use values::{Entries, Located, ReadField, choice, choices, dns_label_schema};

use kubelet_config::document::{Entry, Mapping, Node, Reading, Value, path_of};
use kubelet_config::finding::{Finding, Place, nearest};
use kubelet_config::values::units;

/// A map whose keys are being read.
pub(crate) struct Fields<'n> {
    map: &'n Mapping,
    /// Dotted path of the map; empty at the root.
    path: String,
    place: &'n Place,
    /// Keys that are treated as unset.
    hidden: &'static [&'static str],
}

/// A value at its path, with the list of findings.
pub(crate) struct At<'a> {
    pub node: &'a Node,
    pub path: &'a str,
    pub findings: &'a mut Vec<Finding>,
}

impl<'a> At<'a> {
    /// Text of the value; otherwise adds a finding.
    pub(crate) fn text(&mut self) -> Option<&'a str> {
        text(self.node, self.path, self.findings)
    }

    /// Adds a finding for a value of the wrong type.
    pub(crate) fn wrong_type(&mut self, expected: &str) {
        self.findings.extend(wrong_type(self.path, expected, self.node));
    }

    /// Adds a finding for an invalid value of the right type.
    pub(crate) fn refuse(&mut self, problem: &str, help: impl Into<String>) {
        self.findings.push(bad_value(self.path, self.node, problem).help(help));
    }

    /// Parses the text of the value. The error is the problem and its fix.
    pub(crate) fn parse<T>(&mut self, parse: impl FnOnce(&'a str) -> Result<T, (String, String)>) -> Option<T> {
        parse(self.text()?).map_err(|(problem, help)| self.refuse(&problem, help)).ok()
    }

    /// Reads each item of a list.
    pub(crate) fn items<T>(&mut self, mut read: impl FnMut(&mut At<'_>) -> Option<T>) -> Vec<T> {
        let Some(list) = self.node.sequence() else {
            self.wrong_type("a list");
            return Vec::new();
        };
        let path = self.path;
        let item = |(at, node)| read(&mut At { node, path: &format!("{path}[{at}]"), findings: self.findings });
        list.iter().enumerate().filter_map(item).collect()
    }
}

/// Finding for an unknown key.
pub(crate) fn unknown(key: &str, path: &str, entry: &Entry, help: String) -> Finding {
    let owner = if path.is_empty() { String::new() } else { format!(" in `{path}`") };
    Finding::error("unknown-field", format!("unknown field {key:?}{owner}"))
        .at(entry.key_place.clone())
        .field(path_of(path, key))
        .help(help)
}

/// Finding for a value of the wrong type; an empty path means the file. `None` if the value was already reported as
/// ambiguous.
pub(crate) fn wrong_type(path: &str, expected: &str, node: &Node) -> Option<Finding> {
    let what = if path.is_empty() { "the file".to_owned() } else { format!("`{path}`") };
    let mut finding = Finding::error("wrong-type", format!("{what} must be {expected}, not {}", node.describe()))
        .at(node.place.clone())
        .label(format!("must be {expected}"));
    if !path.is_empty() {
        finding = finding.field(path);
    }
    let Value::Scalar(scalar) = &node.value else { return Some(finding.help(general_fix(expected))) };
    if scalar.ambiguity().is_some() {
        return None;
    }
    match scalar.read() {
        Reading::Int(_) | Reading::Float(_) | Reading::Bool(_) if expected.contains("text") => {
            Some(finding.help(format!("write {:?}, in quotes", scalar.text)))
        }
        // In quotes, because a value in quotes can be redacted.
        _ if expected.contains("list") && !node.is_null() => {
            let items: Vec<String> = scalar.text.split(',').map(|item| format!("{:?}", item.trim())).collect();
            Some(finding.help(format!("write [{}]", items.join(", "))))
        }
        Reading::Int(number) if expected.contains("duration") => {
            Some(finding.help(units::seconds_help(&number.to_string())))
        }
        Reading::Text(text) => {
            let plain = kubelet_config::document::Scalar::plain(text);
            let fix = match plain.read() {
                // Unquoted `yes` would be ambiguous.
                Reading::Bool(value) if expected.contains("boolean") => format!("write {value}, without quotes"),
                Reading::Int(_) | Reading::Float(_) if expected.contains("number") => {
                    format!("write {text}, without quotes")
                }
                _ => general_fix(expected),
            };
            Some(finding.help(fix))
        }
        _ => Some(finding.help(general_fix(expected))),
    }
}

/// Replaces the fix of an ambiguous value where only a boolean is allowed: its text would be invalid.
pub(crate) fn fix_ambiguous_boolean(node: &Node, findings: &mut [Finding]) {
    if let Value::Scalar(scalar) = &node.value
        && let (Some(_), Reading::Bool(value)) = (scalar.ambiguity(), scalar.read())
        && let Some(finding) =
            findings.iter_mut().rfind(|one| one.code == "ambiguous-scalar" && one.place.as_ref() == Some(&node.place))
    {
        finding.help = Some(format!("write {value}"));
    }
}

/// The fix for a value that is no whole number.
pub(crate) const NO_NUMBER: &str = "write a whole number such as 1";

/// The fix for a value from which the right one cannot be derived.
fn general_fix(expected: &str) -> String {
    match expected {
        "a whole number" => NO_NUMBER.to_owned(),
        "a boolean" => "write true, or false".to_owned(),
        _ => format!("remove it, or write {expected}"),
    }
}

impl<'n> Fields<'n> {
    /// Opens a map and reports unknown keys. `None` if `node` is no map.
    pub(crate) fn open(node: &'n Node, path: &str, known: &[&str], findings: &mut Vec<Finding>) -> Option<Self> {
        let Value::Mapping(map) = &node.value else {
            findings.extend(wrong_type(path, "a map", node));
            return None;
        };
        for (key, entry) in map.iter().filter(|(key, _)| !known.contains(&key.as_str())) {
            let help = match nearest(key, known.iter().copied()) {
                Some(near) => format!("did you mean {near:?}?"),
                None => format!("remove it; the known fields are {}", known.join(", ")),
            };
            findings.push(unknown(key, path, entry, help));
        }
        Some(Self { map, path: path.to_owned(), place: &node.place, hidden: &[] })
    }

    /// Dotted path of a key.
    pub(crate) fn path(&self, key: &str) -> String {
        path_of(&self.path, key)
    }

    /// Value of a key, including null.
    pub(crate) fn raw(&self, key: &str) -> Option<&'n Node> {
        self.map.get(key).filter(|_| !self.hidden.contains(&key)).map(|entry| &entry.value)
    }

    /// Value of a key; as in Kubernetes, null means unset.
    pub(crate) fn get(&self, key: &str) -> Option<&'n Node> {
        self.raw(key).filter(|node| !node.is_null())
    }

    /// Value of a key. `None` if it is unset, or invalid with a finding.
    pub(crate) fn value<T: ReadField>(&self, key: &str, findings: &mut Vec<Finding>) -> Option<T> {
        let node = self.raw(key).filter(|node| T::TAKES_NULL || !node.is_null())?;
        T::read(&mut At { node, path: &self.path(key), findings })
    }

    /// Reports a missing field. `example` is the text to write.
    pub(crate) fn require(&self, key: &str, example: &str, findings: &mut Vec<Finding>) {
        if self.get(key).is_none() {
            findings.push(self.missing(key, example));
        }
    }

    /// Finding for a missing field.
    pub(crate) fn missing(&self, key: &str, example: &str) -> Finding {
        Finding::error("missing-field", format!("`{}` is missing", self.path(key)))
            .at(self.place.clone())
            .field(self.path(key))
            .help(format!("write {example}"))
    }

    /// The same map without some keys.
    pub(crate) fn without(self, hidden: &'static [&'static str]) -> Self {
        Self { hidden, ..self }
    }
}

/// Finding for an invalid value of the right type.
pub(crate) fn bad_value(path: &str, node: &Node, problem: &str) -> Finding {
    Finding::error("bad-value", format!("`{path}`: {problem}")).at(node.place.clone()).field(path)
}

/// Text of a node; otherwise adds a finding.
pub(crate) fn text<'n>(node: &'n Node, path: &str, findings: &mut Vec<Finding>) -> Option<&'n str> {
    let text = node.text();
    if text.is_none() {
        findings.extend(wrong_type(path, "text", node));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubelet_config::document::Document;

    map! {
        /// An example.
        struct Example {
            /// Number of spare nodes. Default {default}.
            #[default(3)]
            "spareNodes" => spare_nodes: u32,
            /// Name.
            #[required("name: a")]
            "name" => name: String,
            /// Whether it is on. Default {default}.
            #[default(true)]
            "isOn" => is_on: Option<bool>,
        }
    }

    fn read(text: &str) -> (Option<Example>, Vec<String>) {
        let document = Document::parse("a.yaml", text).document.unwrap();
        let mut findings = Vec::new();
        let example = <Example as ReadField>::read(&mut At { node: &document.root, path: "", findings: &mut findings });
        (example, findings.into_iter().map(|finding| finding.message).collect())
    }

    #[test]
    fn declared_field_is_read() {
        let (example, findings) = read("spareNodes: 5\nname: a\nisOn: false\n");
        let example = example.unwrap();
        assert_eq!((example.spare_nodes, example.name.as_str(), example.is_on()), (5, "a", false));
        assert!(findings.is_empty());
        let (example, _) = read("name: a\n");
        let example = example.unwrap();
        assert_eq!((example.spare_nodes, example.is_on, example.is_on()), (3, None, true));
    }

    #[test]
    fn optional_field_falls_back_to_other_map() {
        let (own, other) = (read("name: a\n").0.unwrap(), read("spareNodes: 5\nname: b\nisOn: false\n").0.unwrap());
        let both = own.or(&other);
        assert_eq!((both.spare_nodes, both.name.as_str(), both.is_on()), (3, "a", false));
    }

    #[test]
    fn declared_field_is_known_and_checked() {
        assert_eq!(Example::KEYS, ["spareNodes", "name", "isOn"]);
        let (example, findings) = read("spareNode: 5\nspareNodes: -1\n");
        assert!(example.is_none());
        assert_eq!(
            findings,
            ["unknown field \"spareNode\"", "`name` is missing", "`spareNodes`: -1 is not a number of nodes"]
        );
    }

    #[test]
    fn declared_field_is_in_schema_and_table() {
        let schema = crate::formats::schema::of::<Example>("example");
        let spare = &schema["properties"]["spareNodes"];
        assert_eq!(
            (&spare["description"], &spare["default"]),
            (&"Number of spare nodes. Default 3.".into(), &3.into())
        );
        assert_eq!(schema["required"], serde_json::json!(["name"]));
        assert!(schema["properties"]["isOn"]["default"].is_null());
        let table: Vec<_> = Example::fields().into_iter().map(|one| (one.key, one.default, one.is_required)).collect();
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(table, [("spareNodes", text("3"), false), ("name", None, true), ("isOn", text("true"), false)]);
    }
}
