//! Evaluator of admission policies for tests: which requests they cover, and their CEL expressions.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use serde_json::{Value, json};

pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn list<'a>(object: &'a Value, pointer: &str) -> Vec<&'a Value> {
    object.pointer(pointer).and_then(Value::as_array).into_iter().flatten().collect()
}

thread_local! {
    /// Compiled expressions, because tests evaluate the same ones for many requests.
    static PROGRAMS: RefCell<HashMap<String, Rc<cel::Program>>> = RefCell::default();
}

fn compile(expression: &str) -> Rc<cel::Program> {
    let compile = || cel::Program::compile(expression).unwrap_or_else(|error| panic!("{error}: {expression}"));
    PROGRAMS.with_borrow_mut(|programs| {
        Rc::clone(programs.entry(expression.to_owned()).or_insert_with(|| Rc::new(compile())))
    })
}

/// Evaluates an expression. An error is `None`, by which a policy that fails refuses the request.
fn evaluate(expression: &str, variables: &HashMap<&str, cel::Value>) -> Option<cel::Value> {
    let program = compile(expression);
    let mut context = cel::Context::default();
    // Not in the Rust implementation. Kubernetes has it in the string library.
    let added = context.add_function(
        "substring",
        |cel::extractors::This(text): cel::extractors::This<std::sync::Arc<String>>, from: i64| {
            text.chars().skip(usize::try_from(from).unwrap_or_default()).collect::<String>()
        },
    );
    added.expect("a function");
    for (name, value) in variables {
        context.add_variable_from_value(*name, value.clone());
    }
    program.execute(&context).ok()
}

fn holds(expression: &str, variables: &HashMap<&str, cel::Value>) -> bool {
    evaluate(expression, variables) == Some(cel::Value::Bool(true))
}

fn to_cel(value: &Value) -> cel::Value {
    cel::to_value(value).expect("a value")
}

/// Request as the API server passes it to admission.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) user: Value,
    pub(crate) operation: &'static str,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    /// Empty for a generated name and for a collection.
    pub(crate) name: String,
    pub(crate) object: Value,
    pub(crate) old: Value,
    pub(crate) dry_run: bool,
}

impl Request {
    /// The variables of expressions.
    fn variables(&self) -> HashMap<&'static str, cel::Value> {
        let mut sent = json!({
            "uid": "uid-of-request", "operation": self.operation, "userInfo": self.user, "dryRun": self.dry_run,
            "resource": {"group": self.group, "version": "v1", "resource": self.resource},
        });
        for (field, value) in [("name", &self.name), ("namespace", &self.namespace), ("subResource", &self.subresource)]
        {
            if !value.is_empty() {
                sent[field] = json!(value);
            }
        }
        [("request", &sent), ("object", &self.object), ("oldObject", &self.old)]
            .map(|(name, value)| (name, to_cel(value)))
            .into()
    }

    /// Reports whether `matchConstraints` covers the request (k8s.io/apiserver
    /// `pkg/admission/plugin/policy/matching` and `pkg/admission/plugin/webhook/predicates/rules`).
    fn is_covered(&self, constraints: &Value) -> bool {
        let selects = |selector: &str, labels: &Value| {
            let selector = constraints.get(selector).cloned().unwrap_or_default();
            let known = selector.as_object().is_none_or(|fields| fields.keys().all(|field| field == "matchLabels"));
            assert!(known, "{selector}");
            let wanted = selector["matchLabels"].as_object().cloned().unwrap_or_default();
            wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
        };
        let in_namespace = self.namespace.is_empty()
            || selects("namespaceSelector", &json!({"kubernetes.io/metadata.name": self.namespace}));
        let objects = [&self.object, &self.old].map(|object| &object["metadata"]["labels"]);
        let by_rule = |rule: &&Value| {
            let has = |pointer: &str, wanted: &str| {
                list(rule, pointer).iter().any(|found| **found == "*" || **found == wanted)
            };
            let resource = list(rule, "/resources").iter().filter_map(|pattern| pattern.as_str()).any(|pattern| {
                let (resource, subresource) = pattern.split_once('/').unwrap_or((pattern, ""));
                ["*", &self.resource].contains(&resource) && ["*", &self.subresource].contains(&subresource)
            });
            has("/apiGroups", &self.group)
                && has("/apiVersions", "v1")
                && has("/operations", self.operation)
                && resource
        };
        in_namespace
            && objects.iter().any(|labels| selects("objectSelector", labels))
            && list(constraints, "/resourceRules").iter().any(by_rule)
    }

    /// Answer of a policy: `None` if it does not apply, and the messages of its refusals.
    pub(crate) fn answer(&self, policy: &Value) -> Option<Vec<String>> {
        let spec = &policy["spec"];
        assert_eq!(spec["failurePolicy"], "Fail");
        let mut variables = self.variables();
        let conditions = list(spec, "/matchConditions");
        let applies = |condition: &&Value| {
            // An error refuses the request of every user.
            let value = evaluate(text(condition, "/expression"), &variables);
            assert!(matches!(value, Some(cel::Value::Bool(_))), "{condition}: {value:?} for {}", self.user);
            value == Some(cel::Value::Bool(true))
        };
        if !self.is_covered(&spec["matchConstraints"]) || !conditions.iter().all(applies) {
            return None;
        }
        let mut own: HashMap<String, cel::Value> = HashMap::new();
        for variable in list(spec, "/variables") {
            // An expression that reads the variable fails, too.
            if let Some(value) = evaluate(text(variable, "/expression"), &variables) {
                own.insert(text(variable, "/name").to_owned(), value);
            }
            variables.insert("variables", own.clone().into());
        }
        let refusals = list(spec, "/validations")
            .into_iter()
            .filter(|validation| !holds(text(validation, "/expression"), &variables));
        let message = |validation: &Value| match evaluate(text(validation, "/messageExpression"), &variables) {
            Some(cel::Value::String(message)) => message.to_string(),
            other => panic!("{validation}: {other:?}"),
        };
        Some(refusals.map(message).collect())
    }

    /// Answer of all policies of an installation: whether they allow it, or `None` if none applies.
    pub(crate) fn allowed(&self, installed: &[Value]) -> Option<bool> {
        let bound = policies_of(installed);
        let answers: Vec<Vec<String>> = bound.iter().filter_map(|policy| self.answer(policy)).collect();
        (!answers.is_empty()).then(|| answers.iter().all(Vec::is_empty))
    }
}

/// Policies with a binding that denies.
fn policies_of(installed: &[Value]) -> Vec<&Value> {
    let is_bound = |policy: &&Value| {
        let binding = |object: &&Value| object["kind"] == "ValidatingAdmissionPolicyBinding";
        installed.iter().filter(binding).any(|binding| {
            binding["spec"] == json!({"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]})
        })
    };
    let policies: Vec<&Value> =
        installed.iter().filter(|object| object["kind"] == "ValidatingAdmissionPolicy").collect();
    assert!(policies.iter().all(is_bound));
    policies
}
