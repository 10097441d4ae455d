//! The functions and macros that rules may call: those of CEL's standard library and of Kubernetes' for texts and lists.

use std::borrow::Cow;

use regex::Regex;
use serde_json::Value;

use super::parse::Node;

/// A function; the target of a method is its first argument.
#[derive(Debug, Clone)]
pub(super) enum Function {
    Size,
    StartsWith,
    EndsWith,
    Contains,
    /// With a pattern that is known beforehand.
    Matches(Regex),
    Lower,
    Upper,
    Trim,
    Split,
    Join,
    Text,
    Whole,
}

/// What is done with each element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Macro {
    All,
    Exists,
    ExistsOne,
    Map,
    Filter,
}

impl Macro {
    pub(super) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "all" => Self::All,
            "exists" => Self::Exists,
            "exists_one" => Self::ExistsOne,
            "map" => Self::Map,
            "filter" => Self::Filter,
            _ => return None,
        })
    }
}

/// A call, if there is such a function that takes so many arguments.
pub(super) fn call(name: &str, target: Option<Node>, arguments: Vec<Node>) -> Result<Node, String> {
    let method = target.is_some();
    let count = arguments.len();
    let function = match (name, method, count) {
        ("size", true, 0) | ("size", false, 1) => Function::Size,
        ("startsWith", true, 1) => Function::StartsWith,
        ("endsWith", true, 1) => Function::EndsWith,
        ("contains", true, 1) => Function::Contains,
        ("matches", true, 1) | ("matches", false, 2) => {
            let Some(Node::Literal(Value::String(pattern))) = arguments.last() else {
                return Err("matches() takes a pattern in quotes here".to_owned());
            };
            Function::Matches(Regex::new(pattern).map_err(|error| format!("invalid matches argument: {error}"))?)
        }
        ("lowerAscii", true, 0) => Function::Lower,
        ("upperAscii", true, 0) => Function::Upper,
        ("trim", true, 0) => Function::Trim,
        ("split", true, 1) => Function::Split,
        ("join", true, 0 | 1) => Function::Join,
        ("string", false, 1) => Function::Text,
        ("int", false, 1) => Function::Whole,
        _ => return Err(format!("undeclared reference to '{name}'")),
    };
    Ok(Node::Call(function, target.into_iter().chain(arguments).collect()))
}

fn overload() -> String {
    "no such overload".to_owned()
}

fn count(length: usize) -> Value {
    i64::try_from(length).unwrap_or(i64::MAX).into()
}

impl Function {
    /// What it comes to.
    pub(super) fn apply(&self, arguments: &[Cow<'_, Value>]) -> Result<Value, String> {
        let first = arguments.first().map(AsRef::as_ref).ok_or_else(overload)?;
        let second = arguments.get(1).map(AsRef::as_ref);
        let text = || first.as_str().ok_or_else(overload);
        let other = || second.and_then(Value::as_str).ok_or_else(overload);
        Ok(match self {
            Self::Size => match first {
                Value::String(text) => count(text.chars().count()),
                Value::Array(list) => count(list.len()),
                Value::Object(map) => count(map.len()),
                _ => return Err(overload()),
            },
            Self::StartsWith => text()?.starts_with(other()?).into(),
            Self::EndsWith => text()?.ends_with(other()?).into(),
            Self::Contains => text()?.contains(other()?).into(),
            Self::Matches(pattern) => pattern.is_match(text()?).into(),
            Self::Lower => text()?.to_ascii_lowercase().into(),
            Self::Upper => text()?.to_ascii_uppercase().into(),
            Self::Trim => text()?.trim().into(),
            Self::Split => text()?.split(other()?).map(Value::from).collect(),
            Self::Join => {
                let items = first.as_array().ok_or_else(overload)?;
                let items: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
                items.ok_or_else(overload)?.join(second.and_then(Value::as_str).unwrap_or_default()).into()
            }
            Self::Text => match first {
                Value::String(text) => text.clone().into(),
                Value::Number(_) | Value::Bool(_) => first.to_string().into(),
                _ => return Err(overload()),
            },
            Self::Whole => match first {
                Value::String(text) => {
                    text.parse::<i64>().map_err(|_| format!("type conversion error: {text:?}"))?.into()
                }
                Value::Number(number) if number.is_i64() => first.clone(),
                _ => return Err(overload()),
            },
        })
    }
}
