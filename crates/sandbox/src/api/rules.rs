//! Rules of a structural schema that are written in CEL (`x-kubernetes-validations`), after apiextensions-apiserver
//! `pkg/apiserver/schema/cel`: read once for a version of a definition, evaluated on every write.
//!
//! The sandbox does not evaluate CEL. It knows the rules of nodecfg's own definitions by their text, each as a function, and refuses a
//! definition with any other rule: no rule is ever ignored. The tests compare the functions with an evaluator of CEL.
//!
//! Rules hold where their schema is, for the value there. One that asks for `oldSelf` is a transition rule: it is evaluated when
//! there was a value before. A rule that a value breaks which has not changed is passed over (ratcheting, since 1.30).

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

use super::status::FieldError;

/// The keyword.
const KEYWORD: &str = "x-kubernetes-validations";

/// What a rule asks of a value and of the one before.
#[derive(Debug)]
enum Check {
    Known(fn(&Value, Option<&Value>) -> bool),
    Matches(Regex),
}

/// One rule.
#[derive(Debug)]
struct Rule {
    check: Check,
    text: String,
    message: Option<String>,
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
    /// Reads the rules of a schema. `at` is its place in the definition.
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

    /// Evaluates them on a value; `old` is what was there before. `path` is empty for the object itself.
    pub(crate) fn check(&self, value: &Value, old: Option<&Value>, path: &str, errors: &mut Vec<FieldError>) {
        for rule in &self.here {
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
                        // Items of a list without keys cannot be told to be the same as before.
                        below.check(item, None, &format!("{path}[{index}]"), errors);
                    }
                }
            }
            _ => {}
        }
    }
}

impl Check {
    fn of(text: &str) -> Option<Self> {
        if let Some(pattern) = text.strip_prefix("self.matches('").and_then(|rest| rest.strip_suffix("')")) {
            // Another quote or escape makes it another expression.
            let plain = !pattern.replace(r"\\", "").contains(['\\', '\'']);
            return Regex::new(&pattern.replace(r"\\", r"\")).ok().filter(|_| plain).map(Self::Matches);
        }
        Some(Self::Known(match text {
            "self == ''" => |this, _| this == "",
            "self == oldSelf" => |this, old| Some(this) == old,
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

impl Rule {
    fn compile(rule: &Value, at: &str, errors: &mut Vec<FieldError>) -> Option<Self> {
        let word = |key: &str| rule.get(key).and_then(Value::as_str);
        let Some(text) = word("rule").map(str::trim).filter(|text| !text.is_empty()) else {
            errors.push(FieldError::required(format!("{at}.rule"), "rule is not specified"));
            return None;
        };
        let why = "the sandbox knows no CEL beyond the rules of nodecfg's own definitions";
        let check = Check::of(text);
        if check.is_none() {
            errors.push(FieldError::invalid(format!("{at}.rule"), text, why));
        }
        if let Some(text) = word("messageExpression") {
            errors.push(FieldError::invalid(format!("{at}.messageExpression"), text, why));
        }
        Some(Self {
            check: check?,
            text: text.to_owned(),
            message: word("message").map(|message| message.trim().to_owned()),
            field_path: word("fieldPath").unwrap_or_default().to_owned(),
            reason: word("reason").unwrap_or_default().to_owned(),
        })
    }

    fn check(&self, value: &Value, old: Option<&Value>, path: &str) -> Option<FieldError> {
        if self.check.holds(value, old) {
            return None;
        }
        let field = match (path, self.field_path.as_str()) {
            ("", "") => "<nil>".to_owned(),
            ("", below) => below.strip_prefix('.').unwrap_or(below).to_owned(),
            (path, below) => format!("{path}{below}"),
        };
        let why = self.message.clone().unwrap_or_else(|| format!("failed rule: {}", self.text));
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
    use std::collections::BTreeSet;

    use proptest::prelude::*;
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
                "properties": {"name": {KEYWORD: [{"rule": "self.matches('^[a-w]+$')", "message": " not so "}]}},
                KEYWORD: [{"rule": "self == oldSelf", "fieldPath": ".n"}],
            },
            "list": {"items": {KEYWORD: [{"rule": "self == ''"}]}},
            "map": {"additionalProperties": {KEYWORD: [{"rule": "self == ''", "reason": "FieldValueForbidden"}]}},
        }});
        let good = json!({"spec": {"name": "a", "n": 2}, "list": ["", ""], "map": {"k": ""}});
        assert_eq!(complaints(&schema, &good, None), None);
        let bad = json!({"spec": {"name": "x", "n": 0}, "list": ["", "a"], "map": {"k": "b"}});
        assert_eq!(
            complaints(&schema, &bad, Some(&good)).unwrap(),
            "K.g \"n\" is invalid: [spec.n: Invalid value: failed rule: self == oldSelf, spec.name: Invalid value: \"x\": not \
             so, list[1]: Invalid value: \"a\": failed rule: self == '', map.k: Forbidden: failed rule: self == '']"
        );
    }

    #[test]
    fn rules_of_change_need_something_before_and_others_leave_alone_what_has_not_changed() {
        let schema = json!({"properties": {"a": {KEYWORD: [
            {"rule": "self == oldSelf", "message": "is immutable"},
            {"rule": "self == ''", "message": "must be empty"},
        ]}}});
        assert_eq!(complaints(&schema, &json!({"a": ""}), None), None);
        assert_eq!(complaints(&schema, &json!({"a": ""}), Some(&json!({}))), None);
        assert_eq!(complaints(&schema, &json!({"a": "x"}), Some(&json!({"a": "x"}))), None);
        let both = complaints(&schema, &json!({"a": "y"}), Some(&json!({"a": "x"}))).unwrap();
        assert!(both.contains("is immutable") && both.contains("must be empty"), "{both}");
    }

    #[test]
    fn a_rule_that_is_not_known_is_refused_with_its_definition() {
        let schema = json!({"properties": {"spec": {KEYWORD: [
            {"rule": "self.x.frob()"}, {}, {"rule": "self == ''", "messageExpression": "self"},
        ]}}});
        let mut errors = Vec::new();
        Rules::compile(&schema, "schema", &mut errors);
        let message = ApiError::invalid("K", "g", "n", &errors).message;
        assert!(message.contains("schema.properties[spec].x-kubernetes-validations[0].rule"), "{message}");
        assert!(message.contains("\"self.x.frob()\": the sandbox knows no CEL beyond"), "{message}");
        assert!(message.contains("[1].rule: Required") && message.contains("[2].messageExpression"), "{message}");
        for other in
            ["self.matches('a') || self.matches('b')", r"self.matches('\d')", "self.matches('(')", "self  == ''"]
        {
            assert!(Check::of(other).is_none(), "{other}");
        }
    }

    /// Every rule of a schema and of those below it.
    fn texts(schema: &Value, found: &mut BTreeSet<String>) {
        match schema {
            Value::Object(map) => {
                let here = map.get(KEYWORD).and_then(Value::as_array).into_iter().flatten();
                found.extend(here.filter_map(|rule| rule["rule"].as_str()).map(str::to_owned));
                map.values().for_each(|below| texts(below, found));
            }
            Value::Array(list) => list.iter().for_each(|below| texts(below, found)),
            _ => {}
        }
    }

    proptest! {
        #[test]
        fn known_rules_are_as_cel_evaluates_them(
            this in r"[-._a-zA-Z0-9/\n]{0,4}|\.{0,3}|[a-z0-9]([-a-z0-9]{0,2}[a-z0-9])?(\.[a-z0-9]){0,2}|\PC{0,3}",
            old in "[a-c.]{0,1}",
        ) {
            let mut rules = BTreeSet::from(["self == oldSelf".to_owned()]);
            texts(&nodecfg_contract::nodeconfig::definition(), &mut rules);
            prop_assert!(rules.len() >= 6, "{rules:?}");
            for text in rules {
                let check = Check::of(&text).expect("a rule of nodecfg");
                let program = cel::Program::compile(&text).expect("a rule in CEL");
                for old in [old.as_str(), this.as_str()] {
                    let mut context = cel::Context::default();
                    context.add_variable("self", this.as_str()).expect("a text");
                    context.add_variable("oldSelf", old).expect("a text");
                    let holds = check.holds(&json!(this), Some(&json!(old)));
                    prop_assert_eq!(program.execute(&context), Ok(cel::Value::Bool(holds)), "{} of {:?}", text, this);
                }
            }
        }
    }
}
