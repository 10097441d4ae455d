//! From a tree and values to a value. Errors are values of the language: `&&` and `||` go on when the other side decides.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

use super::functions::Macro;
use super::parse::{Binary, Node};

/// What a rule can name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope<'a> {
    this: &'a Value,
    old: Option<&'a Value>,
    /// The variable of the innermost macro, and what is around it.
    inner: Option<(&'a str, &'a Value, &'a Scope<'a>)>,
}

impl<'a> Scope<'a> {
    /// `self`, and `oldSelf` when there was something before.
    pub(crate) fn of(this: &'a Value, old: Option<&'a Value>) -> Self {
        Self { this, old, inner: None }
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        match self.inner {
            Some((variable, value, _)) if variable == name => Some(value),
            Some((_, _, around)) => around.get(name),
            None if name == "self" => Some(self.this),
            None if name == "oldSelf" => self.old,
            None => None,
        }
    }
}

type Outcome<'a> = Result<Cow<'a, Value>, String>;

fn overload() -> String {
    "no such overload".to_owned()
}

fn owned<'a>(value: impl Into<Value>) -> Cow<'a, Value> {
    Cow::Owned(value.into())
}

fn truth(outcome: Outcome<'_>) -> Result<bool, String> {
    outcome.and_then(|value| value.as_bool().ok_or_else(overload))
}

fn field<'a>(of: Cow<'a, Value>, name: &str) -> Outcome<'a> {
    let missing = || format!("no such key: {name}");
    match of {
        Cow::Borrowed(Value::Object(map)) => map.get(name).map(Cow::Borrowed).ok_or_else(missing),
        Cow::Owned(Value::Object(mut map)) => map.shift_remove(name).map(Cow::Owned).ok_or_else(missing),
        _ => Err(overload()),
    }
}

fn element<'a>(of: Cow<'a, Value>, index: &Value) -> Outcome<'a> {
    if let (Value::Object(_), Value::String(key)) = (of.as_ref(), index) {
        return field(of, key);
    }
    let Some(position) = index.as_i64().filter(|_| of.is_array()) else { return Err(overload()) };
    let at = usize::try_from(position).unwrap_or(usize::MAX);
    let found = match of {
        Cow::Borrowed(list) => list.get(at).map(Cow::Borrowed),
        Cow::Owned(list) => list.get(at).cloned().map(Cow::Owned),
    };
    found.ok_or_else(|| format!("index out of bounds: {position}"))
}

/// What an expression comes to.
pub(super) fn evaluate<'a>(node: &'a Node, scope: &Scope<'a>) -> Outcome<'a> {
    match node {
        Node::Literal(value) => Ok(Cow::Borrowed(value)),
        Node::Variable(name) => scope.get(name).map(Cow::Borrowed).ok_or_else(|| format!("no such attribute: {name}")),
        Node::List(nodes) => {
            let items: Result<Vec<Value>, String> =
                nodes.iter().map(|node| evaluate(node, scope).map(Cow::into_owned)).collect();
            Ok(owned(items?))
        }
        Node::Map(pairs) => {
            let mut map = Map::new();
            for (key, value) in pairs {
                let key = evaluate(key, scope)?.as_str().ok_or_else(overload)?.to_owned();
                map.insert(key, evaluate(value, scope)?.into_owned());
            }
            Ok(owned(map))
        }
        Node::Select(of, name) => field(evaluate(of, scope)?, name),
        Node::Index(of, index) => {
            let index = evaluate(index, scope)?;
            element(evaluate(of, scope)?, &index)
        }
        Node::Has(of, name) => match evaluate(of, scope)?.as_ref() {
            Value::Object(map) => Ok(owned(map.contains_key(name))),
            _ => Err(overload()),
        },
        Node::Not(of) => truth(evaluate(of, scope)).map(|truth| owned(!truth)),
        Node::Negative(of) => match evaluate(of, scope)?.as_ref() {
            Value::Number(number) => match number.as_i64() {
                Some(whole) => whole.checked_neg().map(owned).ok_or_else(overflow),
                None => number.as_f64().map(|real| owned(-real)).ok_or_else(overload),
            },
            _ => Err(overload()),
        },
        Node::Choice(condition, yes, no) => {
            let taken = if truth(evaluate(condition, scope))? { yes } else { no };
            evaluate(taken, scope)
        }
        Node::Binary(Binary::And, a, b) => decide(a, b, scope, false),
        Node::Binary(Binary::Or, a, b) => decide(a, b, scope, true),
        Node::Binary(operator, a, b) => {
            let (a, b) = (evaluate(a, scope)?, evaluate(b, scope)?);
            combine(*operator, &a, &b).map(Cow::Owned)
        }
        Node::Call(function, arguments) => {
            let arguments: Result<Vec<Cow<'a, Value>>, String> =
                arguments.iter().map(|argument| evaluate(argument, scope)).collect();
            function.apply(&arguments?).map(Cow::Owned)
        }
        Node::Each { what, over, variable, body } => {
            let over = evaluate(over, scope)?;
            let elements: Vec<Value> = match over.as_ref() {
                Value::Array(list) => list.clone(),
                Value::Object(map) => map.keys().map(|key| Value::from(key.as_str())).collect(),
                _ => return Err(overload()),
            };
            each(*what, &elements, variable, body, scope).map(Cow::Owned)
        }
    }
}

/// `&&` and `||`: the side that decides counts, whatever becomes of the other.
fn decide<'a>(a: &'a Node, b: &'a Node, scope: &Scope<'a>, deciding: bool) -> Outcome<'a> {
    let first = truth(evaluate(a, scope));
    if first == Ok(deciding) {
        return Ok(owned(deciding));
    }
    let second = truth(evaluate(b, scope));
    if second == Ok(deciding) {
        return Ok(owned(deciding));
    }
    first.and(second).map(owned)
}

fn each(what: Macro, elements: &[Value], variable: &str, body: &Node, scope: &Scope<'_>) -> Result<Value, String> {
    let mut kept = Vec::new();
    let mut hits = 0_usize;
    let mut failed = None;
    for value in elements {
        let inner = Scope { this: scope.this, old: scope.old, inner: Some((variable, value, scope)) };
        let outcome = evaluate(body, &inner);
        if what == Macro::Map {
            kept.push(outcome?.into_owned());
            continue;
        }
        match (truth(outcome), what) {
            (Ok(false), Macro::All) => return Ok(false.into()),
            (Ok(true), Macro::Exists) => return Ok(true.into()),
            (Ok(true), Macro::Filter) => kept.push(value.clone()),
            (Ok(hit), _) => hits += usize::from(hit),
            (Err(why), Macro::All | Macro::Exists) => failed = Some(why),
            (Err(why), _) => return Err(why),
        }
    }
    match (what, failed) {
        (_, Some(why)) => Err(why),
        (Macro::All, None) => Ok(true.into()),
        (Macro::Exists, None) => Ok(false.into()),
        (Macro::ExistsOne, None) => Ok((hits == 1).into()),
        (Macro::Map | Macro::Filter, None) => Ok(kept.into()),
    }
}

fn overflow() -> String {
    "integer overflow".to_owned()
}

/// Values are equal across kinds of numbers.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            a.as_f64() == b.as_f64() && (a.as_i64() == b.as_i64() || a.is_f64() || b.is_f64())
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        (a, b) => a == b,
    }
}

fn ordered(a: &Value, b: &Value) -> Result<Ordering, String> {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => Ok(a.cmp(&b)),
            _ => a.as_f64().zip(b.as_f64()).and_then(|(a, b)| a.partial_cmp(&b)).ok_or_else(overload),
        },
        (Value::String(a), Value::String(b)) => Ok(a.cmp(b)),
        (Value::Bool(a), Value::Bool(b)) => Ok(a.cmp(b)),
        _ => Err(overload()),
    }
}

fn combine(operator: Binary, a: &Value, b: &Value) -> Result<Value, String> {
    Ok(match operator {
        Binary::Equal => equal(a, b).into(),
        Binary::Differs => (!equal(a, b)).into(),
        Binary::Less => ordered(a, b)?.is_lt().into(),
        Binary::AtMost => ordered(a, b)?.is_le().into(),
        Binary::Greater => ordered(a, b)?.is_gt().into(),
        Binary::AtLeast => ordered(a, b)?.is_ge().into(),
        Binary::In => match (a, b) {
            (_, Value::Array(list)) => list.iter().any(|item| equal(a, item)).into(),
            (Value::String(key), Value::Object(map)) => map.contains_key(key).into(),
            _ => return Err(overload()),
        },
        Binary::Add => match (a, b) {
            (Value::String(a), Value::String(b)) => format!("{a}{b}").into(),
            (Value::Array(a), Value::Array(b)) => a.iter().chain(b).cloned().collect(),
            _ => arithmetic(operator, a, b)?,
        },
        _ => arithmetic(operator, a, b)?,
    })
}

fn arithmetic(operator: Binary, a: &Value, b: &Value) -> Result<Value, String> {
    let (Value::Number(a), Value::Number(b)) = (a, b) else { return Err(overload()) };
    if let (Some(a), Some(b)) = (a.as_i64(), b.as_i64()) {
        if b == 0 && matches!(operator, Binary::Divide | Binary::Remainder) {
            let what = if operator == Binary::Divide { "division" } else { "modulus" };
            return Err(format!("{what} by zero"));
        }
        let result = match operator {
            Binary::Add => a.checked_add(b),
            Binary::Subtract => a.checked_sub(b),
            Binary::Multiply => a.checked_mul(b),
            Binary::Divide => a.checked_div(b),
            Binary::Remainder => a.checked_rem(b),
            _ => return Err(overload()),
        };
        return result.map(Value::from).ok_or_else(overflow);
    }
    // Whole and real numbers are not mixed.
    let (true, true, Some(a), Some(b)) = (a.is_f64(), b.is_f64(), a.as_f64(), b.as_f64()) else {
        return Err(overload());
    };
    let result = match operator {
        Binary::Add => a + b,
        Binary::Subtract => a - b,
        Binary::Multiply => a * b,
        Binary::Divide => a / b,
        _ => return Err(overload()),
    };
    Number::from_f64(result).map(Value::Number).ok_or_else(|| "the result is no number".to_owned())
}
