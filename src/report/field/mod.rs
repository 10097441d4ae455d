//! Explanation of a field of KubeletConfiguration or of a feature gate, for one kubelet version.

use serde::Serialize;
use serde_json::Value as Json;

use kubelet_config::fields::{self, Field, FieldType, Format, Range, Target, TlsKind, tls_names};
use kubelet_config::finding::nearest;
use kubelet_config::risk::{self, Class, Risk};
use kubelet_config::verdict::rules::{self, Rule};
use kubelet_config::{API_VERSION, KIND, Minor, NEWEST, OLDEST, gates};
use nodecfg_contract::json_document::{Document, Kind as DocumentKind};

mod gate;
mod text;

pub use gate::{FeatureGate, GateHistory, GateState};
pub use text::{markdown, text};

/// A field explained for one version.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The path of the field. Empty for the whole configuration.
    pub field: String,
    /// The type, in kubectl's notation.
    #[serde(rename = "type")]
    pub kind: String,
    /// The purpose.
    pub description: String,
    /// The default in this version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Json>,
    /// All defaults with their versions, if the default changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub defaults: Vec<PastDefault>,
    /// The allowed values.
    pub allowed: Allowed,
    /// The allowed items of a list, or values of a map.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub each: Option<Allowed>,
    /// The first version with this field.
    pub since: Minor,
    /// The last version with this field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Minor>,
    /// The version that deprecated the field, even if later than this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated_since: Option<Minor>,
    /// What to use instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<String>,
    /// The feature gate that the field needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<FeatureGate>,
    /// The checks of this kubelet version.
    pub rules: Vec<FieldRule>,
    /// The effect of a change on a running node. Unset if it depends on the inner fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk: Option<Risk>,
    /// The history of a feature gate.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub history: Option<GateHistory>,
    /// The inner fields.
    pub fields: Vec<InnerField>,
}

/// A field of KubeletConfiguration in one kubelet version.
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

/// A default and its versions.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Was")]
pub struct PastDefault {
    /// The first version.
    pub since: Minor,
    /// The last version.
    pub until: Minor,
    /// The default.
    pub value: Json,
}

/// Allowed values.
#[derive(Debug, Clone, Default, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Allowed {
    /// The values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// The least allowed number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum: Option<i64>,
    /// The number that values must exceed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub above: Option<i64>,
    /// The greatest allowed number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum: Option<i64>,
    /// The number that values must be a multiple of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multiple_of: Option<i64>,
    /// The format of a string.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<&'static str>,
    /// The allowed keys of a map.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
}

/// A rule for a field.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Checked")]
pub struct FieldRule {
    /// The identifier, equal to the code of its findings.
    pub id: &'static str,
    /// When the kubelet checks the rule.
    pub stage: rules::RuleStage,
    /// The requirement.
    pub says: &'static str,
    /// The upstream source.
    pub source: &'static str,
}

/// A field in the field list of an object.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Listed")]
pub struct InnerField {
    /// The name within the object.
    pub name: String,
    /// The type.
    #[serde(rename = "type")]
    pub kind: String,
    /// The purpose.
    pub description: String,
    /// Whether the field is deprecated in this version.
    pub deprecated: bool,
    /// The risk of a change for a running node.
    pub risk: Class,
    /// The inner fields. Filled with `--recursive` only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<InnerField>,
}

/// Error for an unknown field or gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownField {
    /// What is missing.
    pub message: String,
    /// How to fix the error.
    pub help: String,
}

/// The field whose keys are feature gates.
const GATES: &str = "featureGates";

/// The JSON document of an explanation.
///
/// # Errors
/// When serialization fails, which is a bug.
pub fn document(explanation: &Explanation, minor: Minor) -> Result<Json, serde_json::Error> {
    Document::value(Explained { kubernetes_version: minor, explanation })
}

/// Explains a field, a feature gate or a key of a map.
///
/// # Errors
/// When kubelet `minor` has no field, gate or key `text`.
pub fn explain(text: &str, minor: Minor, recursive: bool) -> Result<Explanation, UnknownField> {
    match fields::find(text) {
        Ok(Target::Root) => Ok(root_explanation(minor, recursive)),
        Ok(Target::Field(field)) => of_field(field, minor, recursive),
        Ok(Target::Key(values, key)) => of_key(values, &key, minor),
        Err(missing) => {
            let of = if missing.parent.is_empty() { String::new() } else { format!(" in `{}`", missing.parent) };
            Err(UnknownField {
                message: format!("unknown field `{}`{of}", missing.name),
                help: match missing.near {
                    _ if gates::known_by(&missing.name).is_some() => {
                        format!("it is a feature gate: run `nodecfg explain featureGates.{}`", missing.name)
                    }
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "run `nodecfg explain` to list all fields".to_owned(),
                },
            })
        }
    }
}

fn root_explanation(minor: Minor, recursive: bool) -> Explanation {
    Explanation {
        field: String::new(),
        kind: KIND.to_owned(),
        description: format!("The configuration of a kubelet, in a file that starts with `apiVersion: {API_VERSION}`."),
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
        fields: inner_fields("", minor, recursive),
    }
}

fn of_field(field: &'static Field, minor: Minor, recursive: bool) -> Result<Explanation, UnknownField> {
    let name = fields::plain(&field.path);
    if !field.is_known_to(minor) {
        let range = match field.until {
            NEWEST => format!("it exists since {}", field.since),
            until if field.since.is_known() => format!("it existed from {} to {until}", field.since),
            until => format!("it existed until {until}"),
        };
        let other = if minor < field.since { field.since } else { field.until };
        return Err(UnknownField {
            message: format!("kubelet {minor} has no field `{name}`: {range}"),
            help: format!("run `nodecfg explain {name} --kubernetes-version {other}`"),
        });
    }
    let inner = fields::items(&field.path).or_else(|| fields::child(&field.path, "any key").filter(|_| is_map(field)));
    let mut defaults: Vec<PastDefault> = field
        .default
        .iter()
        .map(|(since, until, value)| (since.max(field.since).max(OLDEST), until.min(field.until), value))
        .filter(|(since, until, _)| since <= until)
        .map(|(since, until, value)| PastDefault { since, until, value: value.clone() })
        .collect();
    if defaults.len() < 2 {
        defaults.clear();
    }
    Ok(Explanation {
        field: name,
        kind: type_of(field, minor),
        description: field.description.clone(),
        default: field.default.at(minor).filter(|default| !default.is_null()).cloned(),
        defaults,
        allowed: allowed(field, minor),
        each: inner.map(|inner| allowed(inner, minor)).filter(|allowed| *allowed != Allowed::default()),
        since: field.since,
        until: (field.until != NEWEST).then_some(field.until),
        deprecated_since: field.deprecated_since,
        replaced_by: field.replaced_by.clone(),
        gate: field.gate.at(minor).map(|name| FeatureGate::at(name, minor)),
        rules: rules_for(&field.path, minor),
        // The fields of an unclassified object have their own risks, so the object has none.
        risk: Some(risk::of(&field.path))
            .filter(|risk| risk.is_classified() || fields::children(&field.path).is_empty()),
        history: None,
        fields: inner_fields(&field.path, minor, recursive),
    })
}

/// Explains a key of a map from the map and its values.
fn of_key(values: &'static Field, key: &str, minor: Minor) -> Result<Explanation, UnknownField> {
    let map = fields::lookup(values.path.trim_end_matches("{}")).unwrap_or(values);
    if map.path == GATES {
        let history = GateHistory::of(key, minor)?;
        let mut explanation = of_field(values, minor, false)?;
        explanation.description = history.describe(minor);
        explanation.field = format!("{GATES}.{key}");
        explanation.default = history.default(minor).map(Json::Bool);
        explanation.risk = Some(risk::of(&explanation.field));
        explanation.rules = rules_for(GATES, minor);
        (explanation.since, explanation.until) = history.version_range();
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
            return Err(UnknownField {
                message: format!("kubelet {minor} has no key {key:?} in `{}`", whole.field),
                help: match near {
                    Some(near) => format!("did you mean `{}.{near}`?", whole.field),
                    None => format!("known keys: {}", keys.join(", ")),
                },
            });
        }
    }
    let of_default = |json: &Json| json.get(key).cloned();
    let mut explanation = of_field(values, minor, false)?;
    explanation.field = format!("{}.{key}", whole.field);
    explanation.description = format!("{} {}", map.description, values.description);
    explanation.default = whole.default.as_ref().and_then(of_default);
    explanation.defaults = whole
        .defaults
        .iter()
        .filter_map(|was| Some(PastDefault { value: of_default(&was.value)?, since: was.since, until: was.until }))
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

/// The type in kubectl's notation: `string`, `[]string`, `map[string]string`, `Object`.
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
    let Range { minimum, exclusive, maximum, multiple_of } = field.range.at(minor).copied().unwrap_or_default();
    let values = match field.format {
        Some(Format::CipherSuite) => tls_names(TlsKind::Cipher, minor).map(|name| name.value.clone()).collect(),
        Some(Format::Curve) => {
            tls_names(TlsKind::Curve, minor).map(|name| format!("{} ({})", name.value, name.common_name)).collect()
        }
        _ => field.allowed.at(minor).cloned().unwrap_or_default(),
    };
    // A list of values replaces the format; the type implies these two formats.
    let shown = |format: &Format| values.is_empty() && !matches!(format, Format::Int64 | Format::Uint32);
    Allowed {
        format: field.format.filter(shown).map(Format::phrase),
        minimum: minimum.filter(|_| !exclusive && values.is_empty()),
        above: minimum.filter(|_| exclusive),
        maximum: maximum.filter(|_| values.is_empty()),
        multiple_of,
        keys: field.keys.at(minor).into_iter().flatten().filter(|key| *key != "*").cloned().collect(),
        values,
    }
}

/// The rules for a field, its items and its values.
fn rules_for(path: &str, minor: Minor) -> Vec<FieldRule> {
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
        .map(|rule| FieldRule { id: &rule.id, stage: rule.stage, says: &rule.description, source: &rule.source })
        .collect()
}

/// The fields of an object, or of the objects in a list, in one version.
fn inner_fields(path: &str, minor: Minor, recursive: bool) -> Vec<InnerField> {
    let object = if path.is_empty() { path } else { fields::items(path).map_or(path, |items| items.path.as_str()) };
    fields::children(object)
        .iter()
        .filter(|field| field.is_known_to(minor))
        .map(|field| InnerField {
            name: field.name().to_owned(),
            kind: type_of(field, minor),
            description: field.description.clone(),
            deprecated: field.is_deprecated_in(minor),
            risk: risk::of(&field.path).class,
            fields: if recursive { inner_fields(&field.path, minor, true) } else { Vec::new() },
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
    fn explains_fields_in_exactly_their_versions() {
        for minor in Minor::all() {
            for one in fields::all() {
                let explained = explain(&one.path, minor, true);
                assert_eq!(explained.is_ok(), one.is_known_to(minor), "{} in {minor}", one.path);
                let Ok(explained) = explained else { continue };
                assert_eq!(explained.description, one.description);
                let mut shown = Vec::new();
                text(&mut shown, &explained, minor, 80).unwrap();
                markdown(&mut shown, &explained, minor).unwrap();
                let document = document(&explained, minor).unwrap();
                assert!(document.get("description").is_some_and(Json::is_string));
            }
        }
    }

    #[test]
    fn explains_gates_in_exactly_their_versions() {
        for minor in Minor::all() {
            for gate in gates::all() {
                let explained = explain(&format!("featureGates.{gate}"), minor, false);
                let at = gates::lookup(gate, minor);
                assert_eq!(explained.ok().and_then(|gate| gate.default), at.map(|at| Json::Bool(at.default)), "{gate}");
            }
        }
    }

    #[test]
    fn text_fits_80_columns() {
        for one in fields::all() {
            let Ok(explained) = explain(&one.path, NEWEST, false) else { continue };
            let mut shown = Vec::new();
            text(&mut shown, &explained, NEWEST, 80).unwrap();
            let shown = anstream::adapter::strip_str(std::str::from_utf8(&shown).unwrap()).to_string();
            for line in shown.lines().filter(|line| line.trim().contains(' ')) {
                assert!(line.chars().count() <= 80, "{}: {line}", one.path);
            }
        }
    }

    #[test]
    fn lists_changed_defaults() {
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
    fn lists_rules_of_the_version_with_items_and_values() {
        let ids = |text: &str, minor| field(text, minor).rules.iter().map(|rule| rule.id).collect::<Vec<_>>();
        assert_eq!(ids("imageMinimumGCAge", 35), ["image-gc-ages"]);
        assert_eq!(ids("imageMinimumGCAge", 36), ["image-gc-ages", "image-minimum-gc-age"]);
        assert!(ids("reservedMemory.limits", 36).contains(&"reserved-memory-zero"));
        assert!(!ids("reservedMemory", 36).contains(&"reserved-memory-zero"), "a rule of limits");
        assert!(ids("reservedMemory.limits.memory", 36).contains(&"reserved-memory-zero"));
    }

    #[test]
    fn formats_types_as_kubectl() {
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
