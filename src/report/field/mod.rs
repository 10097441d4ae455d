//! What there is to know about a field of KubeletConfiguration, or about a feature gate, put together from the tables, for
//! one version of the kubelet. `text` shows it to people.

use serde::Serialize;
use serde_json::Value as Json;

use kubelet_config::address::{self, Target};
use kubelet_config::fields::{self, Field, FieldType, Range};
use kubelet_config::format::Format;
use kubelet_config::gates;
use kubelet_config::minor::{NEWEST, OLDEST};
use kubelet_config::risk::{self, Class, Risk};
use kubelet_config::rules::{self, Rule};
use kubelet_config::spelling::nearest;
use kubelet_config::tls::{self, Kind};
use kubelet_config::{API_VERSION, KIND, Minor};
use nodecfg_contract::json_document::{Document, Kind as DocumentKind};

mod gate;
mod text;

pub use gate::{FeatureGate, GateHistory, Spell};
pub use text::{markdown, text};

/// A field explained for one version.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The field as people write it; empty for the whole configuration.
    pub field: String,
    /// Its type, as kubectl writes types.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it does.
    pub description: String,
    /// The default in this version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Json>,
    /// All defaults that it had, where it had several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub defaults: Vec<Was>,
    /// What it may be.
    pub allowed: Allowed,
    /// The same of the items of a list or the values of a map.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub each: Option<Allowed>,
    /// The first version that knows it.
    pub since: Minor,
    /// The last version that knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Minor>,
    /// Since when it is deprecated, whether or not it is in this version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated_since: Option<Minor>,
    /// What to do in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<String>,
    /// The feature gate that it needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<FeatureGate>,
    /// What the kubelet of this version checks.
    pub rules: Vec<Checked>,
    /// What a change of it does to a running node; unset where that is up to its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk: Option<Risk>,
    /// What became of a feature gate.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub history: Option<GateHistory>,
    /// The fields within it.
    pub fields: Vec<Listed>,
}

/// What a field of KubeletConfiguration is for kubelets of one version.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explained<'a> {
    /// The version.
    pub kubernetes_version: Minor,
    /// The field.
    #[serde(flatten)]
    pub explanation: &'a Explanation,
}

impl DocumentKind for Explained<'_> {
    const KIND: &'static str = "Explanation";
}

/// A default and the versions that had it.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Was {
    /// The first version.
    pub since: Minor,
    /// The last version.
    pub until: Minor,
    /// The default.
    pub value: Json,
}

/// What a value may be.
#[derive(Debug, Clone, Default, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Allowed {
    /// The values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// The least number, and whether it is the least itself or anything above it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum: Option<i64>,
    /// Anything above this number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub above: Option<i64>,
    /// The greatest number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum: Option<i64>,
    /// Multiples of this number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multiple_of: Option<i64>,
    /// What the text holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<&'static str>,
    /// The keys of a map.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
}

/// A rule that a field is held to.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Checked {
    /// Its identifier, which is the code of its findings.
    pub id: &'static str,
    /// When it is checked.
    pub stage: rules::RuleStage,
    /// What it asks for.
    pub says: &'static str,
    /// Where upstream has it.
    pub source: &'static str,
}

/// A field in the list of an object.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Listed {
    /// Its name within the object.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it does.
    pub description: String,
    /// Whether this version calls it deprecated.
    pub deprecated: bool,
    /// How bad a change of it is for a running node.
    pub risk: Class,
    /// The fields within it, when asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<Listed>,
}

/// Why there is nothing to explain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absent {
    /// What there is not.
    pub message: String,
    /// The way out.
    pub help: String,
}

/// The field whose keys are feature gates.
const GATES: &str = "featureGates";

/// An explanation as a document for programs.
///
/// # Errors
/// When it cannot be written as JSON, which is a bug.
pub fn document(explanation: &Explanation, minor: Minor) -> Result<Json, serde_json::Error> {
    Document::value(Explained { kubernetes_version: minor, explanation })
}

/// Explains what a name stands for.
///
/// # Errors
/// When no kubelet, or not that of this version, knows it.
pub fn explain(text: &str, minor: Minor, recursive: bool) -> Result<Explanation, Absent> {
    match address::find(text) {
        Ok(Target::Root) => Ok(whole(minor, recursive)),
        Ok(Target::Field(field)) => of_field(field, minor, recursive),
        Ok(Target::Key(values, key)) => of_key(values, &key, minor),
        Err(missing) => {
            let of = if missing.parent.is_empty() { String::new() } else { format!(" in `{}`", missing.parent) };
            Err(Absent {
                message: format!("there is no field `{}`{of}", missing.name),
                help: match missing.near {
                    _ if gates::known_by(&missing.name).is_some() => {
                        format!("it is a feature gate: `nodecfg explain featureGates.{}`", missing.name)
                    }
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "`nodecfg explain` lists all fields".to_owned(),
                },
            })
        }
    }
}

fn whole(minor: Minor, recursive: bool) -> Explanation {
    Explanation {
        field: String::new(),
        kind: KIND.to_owned(),
        description: format!("The configuration of a kubelet: a file that begins with `apiVersion: {API_VERSION}`."),
        default: None,
        defaults: Vec::new(),
        allowed: Allowed::default(),
        each: None,
        since: OLDEST,
        until: None,
        deprecated_since: None,
        replaced_by: None,
        gate: None,
        rules: Vec::new(),
        risk: None,
        history: None,
        fields: listed("", minor, recursive),
    }
}

fn of_field(field: &'static Field, minor: Minor, recursive: bool) -> Result<Explanation, Absent> {
    let name = address::plain(&field.path);
    if !field.is_known_to(minor) {
        let there = match field.until {
            NEWEST => format!("it is there since {}", field.since),
            until if field.since.is_known() => format!("it was there from {} to {until}", field.since),
            until => format!("it was there until {until}"),
        };
        let other = if minor < field.since { field.since } else { field.until };
        return Err(Absent {
            message: format!("kubelet {minor} has no field `{name}`: {there}"),
            help: format!("`nodecfg explain {name} --kubernetes-version {other}` explains it"),
        });
    }
    let inner = fields::items(&field.path).or_else(|| fields::child(&field.path, "any key").filter(|_| is_map(field)));
    let mut defaults: Vec<Was> = field
        .default
        .iter()
        .map(|(since, until, value)| (since.max(field.since).max(OLDEST), until.min(field.until), value))
        .filter(|(since, until, _)| since <= until)
        .map(|(since, until, value)| Was { since, until, value: value.clone() })
        .collect();
    if defaults.len() < 2 {
        defaults.clear();
    }
    Ok(Explanation {
        field: name,
        kind: type_of(field, minor),
        description: field.says.clone(),
        default: field.default.at(minor).filter(|default| !default.is_null()).cloned(),
        defaults,
        allowed: allowed(field, minor),
        each: inner.map(|inner| allowed(inner, minor)).filter(|allowed| *allowed != Allowed::default()),
        since: field.since,
        until: (field.until != NEWEST).then_some(field.until),
        deprecated_since: field.deprecated_since,
        replaced_by: field.replaced_by.clone(),
        gate: field.gate.at(minor).map(|name| FeatureGate::at(name, minor)),
        rules: checked(&field.path, minor),
        // An object without a row of its own: each of its fields has one.
        risk: Some(risk::of(&field.path))
            .filter(|risk| risk.is_classified() || fields::children(&field.path).is_empty()),
        history: None,
        fields: listed(&field.path, minor, recursive),
    })
}

/// A key of a map: what the map says of it, and what its value may be.
fn of_key(values: &'static Field, key: &str, minor: Minor) -> Result<Explanation, Absent> {
    let map = fields::lookup(values.path.trim_end_matches("{}")).unwrap_or(values);
    if map.path == GATES {
        let history = GateHistory::of(key, minor)?;
        let mut explanation = of_field(values, minor, false)?;
        explanation.description = history.describe(minor);
        explanation.field = format!("{GATES}.{key}");
        explanation.default = history.default(minor).map(Json::Bool);
        explanation.risk = Some(risk::of(&explanation.field));
        explanation.rules = checked(GATES, minor);
        (explanation.since, explanation.until) = history.known();
        explanation.history = Some(history);
        return Ok(explanation);
    }
    let whole = of_field(map, minor, false)?;
    if let Some(keys) = map.keys.at(minor) {
        let fits = |known: &String| match known.strip_suffix('*') {
            Some(beginning) => key.starts_with(beginning),
            None => key == known,
        };
        if !keys.iter().any(fits) {
            let near = nearest(key, keys.iter().map(String::as_str).filter(|known| !known.contains('*')));
            return Err(Absent {
                message: format!("kubelet {minor} knows no {key:?} in `{}`", whole.field),
                help: match near {
                    Some(near) => format!("did you mean `{}.{near}`?", whole.field),
                    None => format!("there are {}", keys.join(", ")),
                },
            });
        }
    }
    let of_default = |json: &Json| json.get(key).cloned();
    let mut explanation = of_field(values, minor, false)?;
    explanation.field = format!("{}.{key}", whole.field);
    explanation.description = format!("{} {}", map.says, values.says);
    explanation.default = whole.default.as_ref().and_then(of_default);
    explanation.defaults = whole
        .defaults
        .iter()
        .filter_map(|was| Some(Was { value: of_default(&was.value)?, since: was.since, until: was.until }))
        .collect();
    if explanation.defaults.windows(2).all(|pair| matches!(pair, [one, other] if one.value == other.value)) {
        explanation.defaults.clear();
    }
    explanation.gate = explanation.gate.or(whole.gate);
    explanation.rules = whole.rules;
    explanation.risk = Some(risk::of(&explanation.field));
    Ok(explanation)
}

fn is_map(field: &Field) -> bool {
    fields::lookup(&format!("{}{{}}", field.path)).is_some()
}

/// A type as kubectl writes it: `string`, `[]string`, `map[string]string`, `Object`.
fn type_of(field: &Field, minor: Minor) -> String {
    let types = field.types.at(minor).map(Vec::as_slice).unwrap_or_default();
    let names: Vec<String> = types
        .iter()
        .map(|one| match one {
            FieldType::Array => {
                format!("[]{}", fields::items(&field.path).map_or_else(String::new, |items| type_of(items, minor)))
            }
            FieldType::Object => match fields::lookup(&format!("{}{{}}", field.path)) {
                Some(values) => format!("map[string]{}", type_of(values, minor)),
                None => "Object".to_owned(),
            },
            FieldType::String => "string".to_owned(),
            FieldType::Integer => "integer".to_owned(),
            FieldType::Number => "number".to_owned(),
            FieldType::Boolean => "boolean".to_owned(),
            FieldType::Duration => "duration".to_owned(),
            FieldType::Quantity => "quantity".to_owned(),
        })
        .collect();
    names.join(" or ")
}

fn allowed(field: &Field, minor: Minor) -> Allowed {
    let Range { least, above, greatest, step } = field.range.at(minor).copied().unwrap_or_default();
    let values = match field.format {
        Some(Format::CipherSuite) => tls::known(Kind::Cipher, minor).map(|name| name.value.clone()).collect(),
        Some(Format::Curve) => {
            tls::known(Kind::Curve, minor).map(|name| format!("{} ({})", name.value, name.called)).collect()
        }
        _ => field.allowed.at(minor).cloned().unwrap_or_default(),
    };
    // Of what its values show by themselves nothing needs to be said.
    let shown = |format: &Format| values.is_empty() && !matches!(format, Format::Int64 | Format::Uint32);
    Allowed {
        format: field.format.filter(shown).map(Format::words),
        minimum: least.filter(|_| !above && values.is_empty()),
        above: least.filter(|_| above),
        maximum: greatest.filter(|_| values.is_empty()),
        multiple_of: step,
        keys: field.keys.at(minor).into_iter().flatten().filter(|key| *key != "*").cloned().collect(),
        values,
    }
}

/// The rules about a field, or about its items and values.
fn checked(path: &str, minor: Minor) -> Vec<Checked> {
    let about = |rule: &&Rule| {
        rule.applies_to(minor)
            && rule.fields.iter().any(|one| {
                one.strip_prefix(path)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with(['[', '{']) && !rest.contains('.'))
            })
    };
    let mut rules: Vec<_> = rules::all().filter(about).collect();
    rules.sort_by_key(|rule| (rule.stage, &rule.id));
    rules
        .iter()
        .map(|rule| Checked { id: &rule.id, stage: rule.stage, says: &rule.says, source: &rule.source })
        .collect()
}

/// The fields of an object, or of the objects of a list, that this version knows.
fn listed(path: &str, minor: Minor, recursive: bool) -> Vec<Listed> {
    let object = if path.is_empty() { path } else { fields::items(path).map_or(path, |items| items.path.as_str()) };
    fields::children(object)
        .iter()
        .filter_map(|name| Some((name, fields::child(object, name)?)))
        .filter(|(_, field)| field.is_known_to(minor))
        .map(|(name, field)| Listed {
            name: name.clone(),
            kind: type_of(field, minor),
            description: field.says.clone(),
            deprecated: field.is_deprecated_in(minor),
            risk: risk::of(&field.path).class,
            fields: if recursive { listed(&field.path, minor, true) } else { Vec::new() },
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use kubelet_config::gates;

    fn field(text: &str, minor: u32) -> Explanation {
        explain(text, Minor(minor), false).unwrap_or_else(|absent| panic!("{text}: {}", absent.message))
    }

    #[test]
    fn every_field_is_explained_in_every_version_that_has_it_and_in_no_other() {
        for minor in Minor::all() {
            for one in fields::all() {
                let explained = explain(&one.path, minor, true);
                assert_eq!(explained.is_ok(), one.is_known_to(minor), "{} in {minor}", one.path);
                let Ok(explained) = explained else { continue };
                assert_eq!(explained.description, one.says);
                let mut shown = Vec::new();
                text(&mut shown, &explained, minor).unwrap();
                markdown(&mut shown, &explained, minor).unwrap();
                let document = document(&explained, minor).unwrap();
                assert!(document.get("description").is_some_and(Json::is_string));
            }
        }
    }

    #[test]
    fn every_gate_is_explained_in_every_version_that_has_it_and_in_no_other() {
        for minor in Minor::all() {
            for gate in gates::all() {
                let explained = explain(&format!("featureGates.{gate}"), minor, false);
                let at = gates::lookup(gate, minor);
                assert_eq!(explained.ok().and_then(|gate| gate.default), at.map(|at| Json::Bool(at.default)), "{gate}");
            }
        }
    }

    #[test]
    fn text_is_80_columns_wide() {
        for one in fields::all() {
            let Ok(explained) = explain(&one.path, NEWEST, false) else { continue };
            let mut shown = Vec::new();
            text(&mut shown, &explained, NEWEST).unwrap();
            let shown = anstream::adapter::strip_str(std::str::from_utf8(&shown).unwrap()).to_string();
            for line in shown.lines().filter(|line| line.trim().contains(' ')) {
                assert!(line.chars().count() <= 80, "{}: {line}", one.path);
            }
        }
    }

    #[test]
    fn defaults_say_how_they_changed() {
        let burst = field("eventBurst", 26);
        assert_eq!(burst.default, Some(json!(10)));
        let was: Vec<_> = burst.defaults.iter().map(|was| (was.since, was.until, was.value.clone())).collect();
        assert_eq!(was, [(OLDEST, Minor(26), json!(10)), (Minor(27), NEWEST, json!(100))]);
        assert!(field("maxPods", 26).defaults.is_empty());
        assert!(field("evictionHard.memory.available", 36).defaults.is_empty(), "it never changed");
        assert_eq!(field("evictionHard.imagefs.inodesFree", 36).default, Some(json!("5%")));
        assert_eq!(field("evictionHard.imagefs.inodesFree", 29).default, None);
    }

    #[test]
    fn rules_are_those_of_the_version_and_of_items_and_values() {
        let ids = |text: &str, minor| field(text, minor).rules.iter().map(|rule| rule.id).collect::<Vec<_>>();
        assert_eq!(ids("imageMinimumGCAge", 35), ["image-gc-ages"]);
        assert_eq!(ids("imageMinimumGCAge", 36), ["image-gc-ages", "image-minimum-gc-age"]);
        assert!(ids("reservedMemory.limits", 36).contains(&"reserved-memory-zero"));
        assert!(!ids("reservedMemory", 36).contains(&"reserved-memory-zero"), "that is said of limits");
        assert!(ids("reservedMemory.limits.memory", 36).contains(&"reserved-memory-zero"));
    }

    #[test]
    fn types_are_written_as_kubectl_does() {
        for (text, kind) in [
            ("maxPods", "integer"),
            ("clusterDNS", "[]string"),
            ("evictionHard", "map[string]string"),
            ("staticPodURLHeader", "map[string][]string"),
            ("reservedMemory", "[]Object"),
            ("reservedMemory.limits", "map[string]quantity"),
            ("logging", "Object"),
            ("logging.flushFrequency", "duration or integer"),
            ("", "KubeletConfiguration"),
        ] {
            assert_eq!(field(text, 36).kind, kind, "{text}");
        }
    }
}
