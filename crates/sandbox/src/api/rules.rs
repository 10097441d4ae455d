//! Rules of a structural schema that are written in CEL (`x-kubernetes-validations`), after apiextensions-apiserver
//! `pkg/apiserver/schema/cel`: compiled once for a version of a definition, carried out on every write.
//!
//! Rules hold where their schema is, for the value there. One that asks for `oldSelf` is a rule of change: it is asked when
//! there was a value before. A rule that a value breaks which has not changed is passed over (ratcheting, since 1.30).

use std::collections::BTreeMap;

use serde_json::Value;

use super::cel::{Program, Scope};
use super::status::FieldError;

/// The keyword.
const KEYWORD: &str = "x-kubernetes-validations";

/// One rule.
#[derive(Debug)]
struct Rule {
    program: Program,
    text: String,
    message: Option<String>,
    message_program: Option<Program>,
    /// Below the place of the schema, with its dot.
    field_path: String,
    reason: String,
}

/// The rules of a schema and of those below it.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    here: Vec<Rule>,
    fields: BTreeMap<String, Rules>,
    items: Option<Box<Rules>>,
    values: Option<Box<Rules>>,
}

impl Rules {
    /// Compiles the rules of a schema. `at` is its place in the definition.
    pub(crate) fn compile(schema: &Value, at: &str, errors: &mut Vec<FieldError>) -> Self {
        let mut rules = Self::default();
        let listed = schema.get(KEYWORD).and_then(Value::as_array).into_iter().flatten();
        for (index, rule) in listed.enumerate() {
            let at = format!("{at}.{KEYWORD}[{index}]");
            rules.here.extend(Rule::compile(rule, &at, errors));
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

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.here.is_empty() && self.fields.is_empty() && self.items.is_none() && self.values.is_none()
    }

    /// Carries them out on a value; `old` is what was there before. `path` is empty for the object itself.
    pub(crate) fn check(&self, value: &Value, old: Option<&Value>, path: &str, errors: &mut Vec<FieldError>) {
        let unchanged = old == Some(value);
        for rule in self.here.iter().filter(|rule| old.is_some() || !rule.program.uses_old()) {
            if !unchanged || rule.program.uses_old() {
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
                        // Items of a list without keys cannot be told to be the same as before.
                        below.check(item, None, &format!("{path}[{index}]"), errors);
                    }
                }
            }
            _ => {}
        }
    }
}

impl Rule {
    fn compile(rule: &Value, at: &str, errors: &mut Vec<FieldError>) -> Option<Self> {
        let word = |key: &str| rule.get(key).and_then(Value::as_str);
        let Some(text) = word("rule").map(str::trim).filter(|text| !text.is_empty()) else {
            errors.push(FieldError::required(format!("{at}.rule"), "rule is not specified"));
            return None;
        };
        let mut compiled = |key: &str, text: &str| match Program::compile(text) {
            Ok(program) => Some(program),
            Err(why) => {
                let why = format!("compilation failed: ERROR: {why}");
                errors.push(FieldError::invalid(format!("{at}.{key}"), text, &why));
                None
            }
        };
        let program = compiled("rule", text)?;
        let message_program = word("messageExpression").and_then(|text| compiled("messageExpression", text));
        Some(Self {
            program,
            text: text.to_owned(),
            message: word("message").map(|message| message.trim().to_owned()),
            message_program,
            field_path: word("fieldPath").unwrap_or_default().to_owned(),
            reason: word("reason").unwrap_or_default().to_owned(),
        })
    }

    fn check(&self, value: &Value, old: Option<&Value>, path: &str) -> Option<FieldError> {
        let scope = Scope::of(value, old);
        let field = match (path, self.field_path.as_str()) {
            ("", "") => "<nil>".to_owned(),
            ("", below) => below.strip_prefix('.').unwrap_or(below).to_owned(),
            (path, below) => format!("{path}{below}"),
        };
        let why = match self.program.evaluate(&scope) {
            Ok(Value::Bool(true)) => return None,
            Ok(Value::Bool(false)) => {
                let told = self.message_program.as_ref().and_then(|program| program.evaluate(&scope).ok());
                let told = told.as_ref().and_then(Value::as_str).map(str::trim).filter(|told| !told.is_empty());
                told.or(self.message.as_deref()).map_or_else(|| format!("failed rule: {}", self.text), str::to_owned)
            }
            Ok(_) => format!("rule evaluated to no boolean: {}", self.text),
            Err(why) => format!("rule evaluation error: {why} evaluating rule: {}", self.text),
        };
        // Maps and lists are not shown.
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
    use serde_json::json;

    use super::super::status::ApiError;
    use super::*;

    fn compiled(schema: &Value) -> Rules {
        let mut errors = Vec::new();
        let rules = Rules::compile(schema, "schema", &mut errors);
        assert_eq!(errors, []);
        rules
    }

    fn complaints(schema: &Value, value: &Value, old: Option<&Value>) -> Option<String> {
        let mut errors = Vec::new();
        compiled(schema).check(value, old, "", &mut errors);
        (!errors.is_empty()).then(|| ApiError::invalid("K", "g", "n", &errors).message)
    }

    #[test]
    fn a_rule_speaks_for_the_value_at_its_place() {
        let schema = json!({"properties": {
            "spec": {
                "properties": {"name": {KEYWORD: [{"rule": "self != 'x'", "messageExpression": "'not ' + self"}]}},
                KEYWORD: [{"rule": "has(self.name)", "message": "name it"}, {"rule": "self.n > 1", "fieldPath": ".n"}],
            },
            "list": {"items": {KEYWORD: [{"rule": "self > 0"}]}},
            "map": {"additionalProperties": {KEYWORD: [{"rule": "self", "reason": "FieldValueForbidden"}]}},
        }});
        let good = json!({"spec": {"name": "a", "n": 2}, "list": [1, 2], "map": {"k": true}});
        assert_eq!(complaints(&schema, &good, None), None);
        let bad = json!({"spec": {"name": "x", "n": 0}, "list": [1, 0], "map": {"k": false}});
        assert_eq!(
            complaints(&schema, &bad, None).unwrap(),
            "K.g \"n\" is invalid: [spec.n: Invalid value: failed rule: self.n > 1, spec.name: Invalid value: \"x\": not x, \
             list[1]: Invalid value: 0: failed rule: self > 0, map.k: Forbidden: failed rule: self]"
        );
        let missing = json!({"spec": {"n": 2}});
        assert_eq!(complaints(&schema, &missing, None).unwrap(), "K.g \"n\" is invalid: spec: Invalid value: name it");
    }

    #[test]
    fn rules_of_change_need_something_before_and_others_leave_alone_what_has_not_changed() {
        let schema = json!({"properties": {"a": {KEYWORD: [
            {"rule": "self == oldSelf", "message": "is immutable"},
            {"rule": "self > 0", "message": "must be positive"},
        ]}}});
        assert_eq!(complaints(&schema, &json!({"a": 1}), None), None);
        assert_eq!(complaints(&schema, &json!({"a": 1}), Some(&json!({}))), None);
        assert_eq!(complaints(&schema, &json!({"a": 0}), Some(&json!({"a": 0}))), None);
        let both = complaints(&schema, &json!({"a": -1}), Some(&json!({"a": 0}))).unwrap();
        assert!(both.contains("is immutable") && both.contains("must be positive"), "{both}");
    }

    #[test]
    fn a_rule_that_fails_to_run_refuses() {
        let schema = json!({KEYWORD: [{"rule": "self.a.b == 1"}]});
        let why = complaints(&schema, &json!({"a": {}}), None).unwrap();
        assert!(why.contains("rule evaluation error: no such key: b"), "{why}");
    }

    #[test]
    fn a_rule_that_is_not_understood_is_refused_with_its_definition() {
        let schema = json!({"properties": {"spec": {KEYWORD: [{"rule": "self.x.frob()"}, {}]}}});
        let mut errors = Vec::new();
        assert!(Rules::compile(&schema, "schema", &mut errors).is_empty());
        let message = ApiError::invalid("K", "g", "n", &errors).message;
        assert!(message.contains("schema.properties[spec].x-kubernetes-validations[0].rule"), "{message}");
        assert!(message.contains("undeclared reference to 'frob'") && message.contains("[1].rule"), "{message}");
    }
}
