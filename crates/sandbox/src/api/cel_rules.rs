//! CEL rules of structural schemas (`x-kubernetes-validations`), after apiextensions-apiserver
//! `pkg/apiserver/schema/cel`. Rules are compiled once for each version of a definition and evaluated on every write.
//!
//! The sandbox has no CEL evaluator. It implements each rule of nodecfg's own definitions as a function, selected by
//! the text of the rule. It refuses a definition with any other rule, so that no rule is ignored. The tests compare
//! the functions with a CEL evaluator.
//!
//! A rule applies to the value at its schema. A transition rule uses `oldSelf` and applies only if the value existed
//! before. Other rules skip unchanged values (ratcheting, since 1.30).

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

use super::status::FieldError;

/// Schema keyword of the rules.
const KEYWORD: &str = "x-kubernetes-validations";

/// Condition on a value and its previous value.
#[derive(Debug)]
enum Condition {
    Known(fn(&Value, Option<&Value>) -> bool),
    Matches(Regex),
}

/// One rule.
#[derive(Debug)]
struct CelRule {
    condition: Condition,
    text: String,
    message: Option<String>,
    /// Path below the schema, with a leading dot.
    field_path: String,
    reason: String,
}

/// Rules of a schema and of its nested schemas.
#[derive(Debug, Default)]
pub(crate) struct CelRules {
    own: Vec<CelRule>,
    fields: BTreeMap<String, CelRules>,
    items: Option<Box<CelRules>>,
    values: Option<Box<CelRules>>,
}

impl CelRules {
    /// Compiles the rules of a schema. `at` is the path of the schema in the definition.
    pub(crate) fn compile(schema: &Value, at: &str, errors: &mut Vec<FieldError>) -> Self {
        let mut rules = Self::default();
        let listed = schema.get(KEYWORD).and_then(Value::as_array).into_iter().flatten();
        for (index, rule) in listed.enumerate() {
            let at = format!("{at}.{KEYWORD}[{index}]");
            rules.own.extend(CelRule::compile(rule, &at, errors));
        }
        let known = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        for (name, below) in known {
            let below = Self::compile(below, &format!("{at}.properties[{name}]"), errors);
            if !below.is_empty() {
                rules.fields.insert(name.clone(), below);
            }
        }
        let mut inner = |key: &str| {
            let below = schema.get(key).filter(|below| below.is_object())?;
            let below = Self::compile(below, &format!("{at}.{key}"), errors);
            (!below.is_empty()).then(|| Box::new(below))
        };
        rules.items = inner("items");
        rules.values = inner("additionalProperties");
        rules
    }

    /// Reports whether the schema has no rules.
    pub(crate) fn is_empty(&self) -> bool {
        self.own.is_empty() && self.fields.is_empty() && self.items.is_none() && self.values.is_none()
    }

    /// Evaluates the rules on a value and its previous value. `path` is empty for the object itself.
    pub(crate) fn check(&self, value: &Value, old: Option<&Value>, path: &str, errors: &mut Vec<FieldError>) {
        for rule in &self.own {
            let due = if rule.text.contains("oldSelf") { old.is_some() } else { old != Some(value) };
            if due {
                errors.extend(rule.check(value, old, path));
            }
        }
        match value {
            Value::Object(map) => {
                for (key, child) in map {
                    let below = self.fields.get(key).or(self.values.as_deref());
                    let at = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    if let Some(below) = below {
                        below.check(child, old.and_then(|old| old.get(key)), &at, errors);
                    }
                }
            }
            Value::Array(list) => {
                if let Some(below) = &self.items {
                    for (index, item) in list.iter().enumerate() {
                        // Without list keys, an item has no known previous value.
                        below.check(item, None, &format!("{path}[{index}]"), errors);
                    }
                }
            }
            _ => {}
        }
    }
}

impl Condition {
    fn of(text: &str) -> Option<Self> {
        if let Some(pattern) = text.strip_prefix("self.matches('").and_then(|rest| rest.strip_suffix("')")) {
            // A further quote or escape makes the text another expression.
            let plain = !pattern.replace(r"\\", "").contains(['\\', '\'']);
            return Regex::new(&pattern.replace(r"\\", r"\")).ok().filter(|_| plain).map(Self::Matches);
        }
        Some(Self::Known(match text {
            "self == ''" => |this, _| this == "",
            "self == oldSelf" => |this, old| Some(this) == old,
            "!has(self.configSource) || has(self.contentHash) || has(oldSelf.configSource) && \
             self.configSource == oldSelf.configSource" => |this, old| {
                let source = this.get("configSource");
                source.is_none()
                    || this.get("contentHash").is_some()
                    || source == old.and_then(|old| old.get("configSource"))
            },
            "self != '.' && !self.startsWith('..')" => {
                |this, _| this.as_str().is_some_and(|text| text != "." && !text.starts_with(".."))
            }
            _ => return None,
        }))
    }

    fn holds(&self, value: &Value, old: Option<&Value>) -> bool {
        match self {
            Self::Known(holds) => holds(value, old),
            Self::Matches(pattern) => value.as_str().is_some_and(|text| pattern.is_match(text)),
        }
    }
}

impl CelRule {
    fn compile(rule: &Value, at: &str, errors: &mut Vec<FieldError>) -> Option<Self> {
        let string_value = |key: &str| rule.get(key).and_then(Value::as_str);
        let Some(text) = string_value("rule").map(str::trim).filter(|text| !text.is_empty()) else {
            errors.push(FieldError::required(format!("{at}.rule"), "rule is not specified"));
            return None;
        };
        let why = "the sandbox supports only the CEL rules of nodecfg's own definitions";
        let condition = Condition::of(text);
        if condition.is_none() {
            errors.push(FieldError::invalid(format!("{at}.rule"), text, why));
        }
        if let Some(text) = string_value("messageExpression") {
            errors.push(FieldError::invalid(format!("{at}.messageExpression"), text, why));
        }
        Some(Self {
            condition: condition?,
            text: text.to_owned(),
            message: string_value("message").map(|message| message.trim().to_owned()),
            field_path: string_value("fieldPath").unwrap_or_default().to_owned(),
            reason: string_value("reason").unwrap_or_default().to_owned(),
        })
    }

    fn check(&self, value: &Value, old: Option<&Value>, path: &str) -> Option<FieldError> {
        if self.condition.holds(value, old) {
            return None;
        }
        let field = match (path, self.field_path.as_str()) {
            ("", "") => "<nil>".to_owned(),
            ("", below) => below.strip_prefix('.').unwrap_or(below).to_owned(),
            (path, below) => format!("{path}{below}"),
        };
        let why = self.message.clone().unwrap_or_else(|| format!("failed rule: {}", self.text));
        // Messages omit maps and lists.
        let shown = match value {
            Value::Object(_) | Value::Array(_) => String::new(),
            scalar => scalar.to_string(),
        };
        Some(match self.reason.as_str() {
            "FieldValueForbidden" => FieldError::forbidden(field, &why),
            "FieldValueRequired" => FieldError::required(field, &why),
            "FieldValueDuplicate" => FieldError::duplicate(field, &shown, &why),
            _ => FieldError::invalid_shown(field, &shown, &why),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use serde_json::json;

    use super::super::status::ApiError;
    use super::*;

    fn compiled(schema: &Value) -> CelRules {
        let mut errors = Vec::new();
        let rules = CelRules::compile(schema, "schema", &mut errors);
        assert_eq!(errors, []);
        rules
    }

    fn violations(schema: &Value, value: &Value, old: Option<&Value>) -> Option<String> {
        let mut errors = Vec::new();
        compiled(schema).check(value, old, "", &mut errors);
        (!errors.is_empty()).then(|| ApiError::invalid("K", "g", "n", &errors).message)
    }

    #[test]
    fn applies_rules_to_the_value_at_their_schema() {
        let schema = json!({"properties": {
            "spec": {
                "properties": {"name": {KEYWORD: [{"rule": "self.matches('^[a-w]+$')", "message": " not so "}]}},
                KEYWORD: [{"rule": "self == oldSelf", "fieldPath": ".n"}],
            },
            "list": {"items": {KEYWORD: [{"rule": "self == ''"}]}},
            "map": {"additionalProperties": {KEYWORD: [{"rule": "self == ''", "reason": "FieldValueForbidden"}]}},
        }});
        let good = json!({"spec": {"name": "a", "n": 2}, "list": ["", ""], "map": {"k": ""}});
        assert_eq!(violations(&schema, &good, None), None);
        let bad = json!({"spec": {"name": "x", "n": 0}, "list": ["", "a"], "map": {"k": "b"}});
        assert_eq!(
            violations(&schema, &bad, Some(&good)).unwrap(),
            "K.g \"n\" is invalid: [spec.n: Invalid value: failed rule: self == oldSelf, spec.name: Invalid value: \"x\": not \
             so, list[1]: Invalid value: \"a\": failed rule: self == '', map.k: Forbidden: failed rule: self == '']"
        );
    }

    #[test]
    fn transition_rules_need_an_old_value_and_other_rules_skip_unchanged_values() {
        let schema = json!({"properties": {"a": {KEYWORD: [
            {"rule": "self == oldSelf", "message": "is immutable"},
            {"rule": "self == ''", "message": "must be empty"},
        ]}}});
        assert_eq!(violations(&schema, &json!({"a": ""}), None), None);
        assert_eq!(violations(&schema, &json!({"a": ""}), Some(&json!({}))), None);
        assert_eq!(violations(&schema, &json!({"a": "x"}), Some(&json!({"a": "x"}))), None);
        let both = violations(&schema, &json!({"a": "y"}), Some(&json!({"a": "x"}))).unwrap();
        assert!(both.contains("is immutable") && both.contains("must be empty"), "{both}");
    }

    #[test]
    fn refuses_definition_with_unknown_rule() {
        let schema = json!({"properties": {"spec": {KEYWORD: [
            {"rule": "self.x.frob()"}, {}, {"rule": "self == ''", "messageExpression": "self"},
        ]}}});
        let mut errors = Vec::new();
        CelRules::compile(&schema, "schema", &mut errors);
        let message = ApiError::invalid("K", "g", "n", &errors).message;
        assert!(message.contains("schema.properties[spec].x-kubernetes-validations[0].rule"), "{message}");
        assert!(message.contains("\"self.x.frob()\": the sandbox supports only the CEL rules"), "{message}");
        assert!(message.contains("[1].rule: Required") && message.contains("[2].messageExpression"), "{message}");
        for other in
            ["self.matches('a') || self.matches('b')", r"self.matches('\d')", "self.matches('(')", "self  == ''"]
        {
            assert!(Condition::of(other).is_none(), "{other}");
        }
    }

    /// Collects the text of every rule of a schema and of its nested schemas.
    fn rule_texts(schema: &Value, found: &mut BTreeSet<String>) {
        match schema {
            Value::Object(map) => {
                let own = map.get(KEYWORD).and_then(Value::as_array).into_iter().flatten();
                found.extend(own.filter_map(|rule| rule["rule"].as_str()).map(str::to_owned));
                map.values().for_each(|below| rule_texts(below, found));
            }
            Value::Array(list) => list.iter().for_each(|below| rule_texts(below, found)),
            _ => {}
        }
    }

    /// A text, or a spec of a NodeConfig.
    fn values() -> impl Strategy<Value = Value> {
        let text = r"[-._a-zA-Z0-9/\n]{0,4}|\.{0,3}|[a-z0-9]([-a-z0-9]{0,2}[a-z0-9])?(\.[a-z0-9]){0,2}|\PC{0,3}";
        text.prop_map(Value::from)
    }

    fn specs() -> impl Strategy<Value = Value> {
        let field =
            |name: &'static str| proptest::option::of("[ab]").prop_map(move |text| text.map(|text| (name, text)));
        (field("configSource"), field("contentHash"))
            .prop_map(|fields| json!(BTreeMap::from_iter([fields.0, fields.1].into_iter().flatten())))
    }

    proptest! {
        #[test]
        fn known_rules_agree_with_a_cel_evaluator(
            texts in (values(), "[a-c.]{0,1}".prop_map(Value::from)),
            specs in (specs(), specs()),
        ) {
            let mut rules = BTreeSet::from(["self == oldSelf".to_owned()]);
            rule_texts(&nodecfg_contract::nodeconfig::definition(), &mut rules);
            prop_assert!(rules.len() >= 7, "{rules:?}");
            for text in rules {
                let condition = Condition::of(&text).expect("a rule of nodecfg");
                let program = cel::Program::compile(&text).expect("a rule in CEL");
                let (this, other) = if text.contains("has(") { &specs } else { &texts };
                for old in [other, this] {
                    let mut context = cel::Context::default();
                    context.add_variable("self", this).expect("a value");
                    context.add_variable("oldSelf", old).expect("a value");
                    let holds = condition.holds(this, Some(old));
                    prop_assert_eq!(program.execute(&context), Ok(cel::Value::Bool(holds)), "{} of {:?}", text, this);
                }
            }
        }
    }
}
