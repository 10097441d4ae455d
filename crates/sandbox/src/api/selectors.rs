//! Label and field selectors, with the error messages of apimachinery `pkg/labels` and `pkg/fields`.

use serde_json::Value;

use super::object::StoredObject;
use super::resource::ResourceType;
use super::status::{ApiError, ApiResult};

#[derive(Debug, Clone, PartialEq, Eq)]
enum Operator {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
    Greater(i64),
    Less(i64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
}

/// A label selector. The empty selector selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Labels(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Sign(&'static str),
    End,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::Word(word) => word,
            Self::Sign(sign) => sign,
            Self::End => "",
        }
    }
}

const SIGNS: [&str; 10] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<", " "];

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        rest = rest.trim_start();
        if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            tokens.push(Token::Sign(sign));
            rest = rest.get(sign.len()..).unwrap_or_default();
            continue;
        }
        let end = rest.find(|c: char| c.is_whitespace() || "=!(),<>".contains(c)).unwrap_or(rest.len());
        let (word, tail) = rest.split_at(end);
        if !word.is_empty() {
            tokens.push(Token::Word(word.to_owned()));
        }
        rest = tail;
    }
    tokens
}

struct Parser {
    tokens: std::iter::Peekable<std::vec::IntoIter<Token>>,
}

impl Parser {
    fn next(&mut self) -> Token {
        self.tokens.next().unwrap_or(Token::End)
    }

    fn peek(&mut self) -> Token {
        self.tokens.peek().cloned().unwrap_or(Token::End)
    }

    fn requirements(&mut self) -> Result<Vec<Requirement>, String> {
        let mut all = Vec::new();
        loop {
            match self.peek() {
                Token::Word(_) | Token::Sign("!") => {
                    let requirement =
                        self.requirement().map_err(|why| format!("unable to parse requirement: {why}"))?;
                    all.push(requirement);
                    match self.next() {
                        Token::End => return Ok(all),
                        Token::Sign(",") => match self.peek() {
                            Token::Word(_) | Token::Sign("!") => {}
                            other => return Err(format!("found '{}', expected: identifier after ','", other.text())),
                        },
                        other => return Err(format!("found '{}', expected: ',' or 'end of string'", other.text())),
                    }
                }
                Token::End => return Ok(all),
                other => return Err(format!("found '{}', expected: !, identifier, or 'end of string'", other.text())),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let absent = self.peek() == Token::Sign("!");
        if absent {
            self.next();
        }
        let key = match self.next() {
            Token::Word(word) => word,
            other => return Err(format!("found '{}', expected: identifier", other.text())),
        };
        check_key(&key)?;
        if absent {
            return Ok(Requirement { key, operator: Operator::Absent });
        }
        if matches!(self.peek(), Token::End | Token::Sign(",")) {
            return Ok(Requirement { key, operator: Operator::Exists });
        }
        let operator = match self.next() {
            Token::Word(word) if word == "in" => Operator::In(self.values()?),
            Token::Word(word) if word == "notin" => Operator::NotIn(self.values()?),
            Token::Sign("=" | "==") => Operator::In(vec![self.value()?]),
            Token::Sign("!=") => Operator::NotIn(vec![self.value()?]),
            Token::Sign(sign @ (">" | "<")) => {
                let value = self.value()?;
                let bound = value.parse().map_err(|_| {
                    format!(
                        "values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
                    )
                })?;
                if sign == ">" { Operator::Greater(bound) } else { Operator::Less(bound) }
            }
            other => {
                return Err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", other.text()));
            }
        };
        Ok(Requirement { key, operator })
    }

    fn value(&mut self) -> Result<String, String> {
        match self.peek() {
            Token::End | Token::Sign(",") => Ok(String::new()),
            Token::Word(word) => {
                self.next();
                check_value(&word)?;
                Ok(word)
            }
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        match self.next() {
            Token::Sign("(") => {}
            other => return Err(format!("found '{}' expected: '('", other.text())),
        }
        let mut values = Vec::new();
        loop {
            match self.next() {
                Token::Word(word) => {
                    check_value(&word)?;
                    values.push(word);
                    match self.next() {
                        Token::Sign(",") => {
                            if self.peek() == Token::Sign(")") {
                                values.push(String::new());
                            }
                        }
                        Token::Sign(")") => return Ok(values),
                        other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
                    }
                }
                Token::Sign(",") => values.push(String::new()),
                Token::Sign(")") => {
                    if values.is_empty() {
                        values.push(String::new());
                    }
                    return Ok(values);
                }
                other => return Err(format!("found '{}', expected: ',', ')' or identifier", other.text())),
            }
        }
    }
}

fn check_key(key: &str) -> Result<(), String> {
    match super::validate::names::qualified_name(key).as_slice() {
        [] => Ok(()),
        reasons => Err(format!("key: Invalid value: {key:?}: {}", reasons.join("; "))),
    }
}

fn check_value(value: &str) -> Result<(), String> {
    match super::validate::names::label_value(value).as_slice() {
        [] => Ok(()),
        reasons => Err(format!("values[0]: Invalid value: {value:?}: {}", reasons.join("; "))),
    }
}

impl Labels {
    /// Parses a label selector.
    ///
    /// # Errors
    /// 400 with the message of the API server.
    pub(crate) fn parse(text: &str) -> ApiResult<Self> {
        let mut parser = Parser { tokens: tokens(text).into_iter().peekable() };
        parser.requirements().map(Self).map_err(ApiError::bad_request)
    }

    /// Reports whether the selector selects everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn matches(&self, labels: &[(Box<str>, Box<str>)]) -> bool {
        self.0.iter().all(|requirement| {
            let value = labels.iter().find(|(key, _)| **key == *requirement.key).map(|(_, value)| &**value);
            match &requirement.operator {
                Operator::Exists => value.is_some(),
                Operator::Absent => value.is_none(),
                Operator::In(values) => value.is_some_and(|value| values.iter().any(|wanted| wanted == value)),
                Operator::NotIn(values) => value.is_none_or(|value| !values.iter().any(|wanted| wanted == value)),
                Operator::Greater(bound) => value.and_then(|v| v.parse::<i64>().ok()).is_some_and(|v| v > *bound),
                Operator::Less(bound) => value.and_then(|v| v.parse::<i64>().ok()).is_some_and(|v| v < *bound),
            }
        })
    }
}

/// A field selector.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fields(Vec<(String, bool, String)>);

fn is_field(resource_type: ResourceType, field: &str) -> bool {
    let of_events = || {
        matches!(field, "reason" | "type" | "source" | "reportingComponent" | "reportingController")
            || field.strip_prefix("involvedObject.").or_else(|| field.strip_prefix("regarding.")).is_some_and(|below| {
                matches!(below, "kind" | "namespace" | "name" | "uid" | "apiVersion" | "resourceVersion" | "fieldPath")
            })
    };
    match field {
        "metadata.name" => true,
        "metadata.namespace" => true,
        "spec.unschedulable" => resource_type == ResourceType::Node,
        "status.phase" | "name" if resource_type == ResourceType::Namespace => true,
        "spec.nodeName"
        | "spec.restartPolicy"
        | "spec.schedulerName"
        | "spec.serviceAccountName"
        | "status.phase"
        | "status.podIP"
        | "status.nominatedNodeName" => resource_type == ResourceType::Pod,
        _ => matches!(resource_type, ResourceType::Event | ResourceType::EventsV1) && of_events(),
    }
}

impl Fields {
    /// Parses a field selector for a resource type.
    ///
    /// # Errors
    /// 400 for a malformed selector, or for a field that the resource type does not support.
    pub(crate) fn parse(text: &str, resource_type: ResourceType) -> ApiResult<Self> {
        let mut terms = Vec::new();
        for term in text.split(',').map(str::trim).filter(|term| !term.is_empty()) {
            let split = |sign: &str| term.split_once(sign);
            let (field, equal, value) = match (split("!="), split("=="), split("=")) {
                (Some((field, value)), _, _) => (field, false, value),
                (_, Some((field, value)), _) | (_, _, Some((field, value))) => (field, true, value),
                _ => {
                    let why = format!("invalid selector: '{text}'; can't understand '{term}'");
                    return Err(ApiError::bad_request(why));
                }
            };
            if !is_field(resource_type, field) {
                return Err(ApiError::bad_request(format!("field label not supported: {field}")));
            }
            terms.push((field.to_owned(), equal, value.to_owned()));
        }
        Ok(Self(terms))
    }

    /// Reports whether the selector selects everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the name that the selector requires, if any.
    pub(crate) fn name(&self) -> Option<&str> {
        self.0.iter().find(|(field, equal, _)| field == "metadata.name" && *equal).map(|(_, _, value)| value.as_str())
    }

    fn matches(&self, stored: &StoredObject) -> bool {
        let mut decoded: Option<Value> = None;
        self.0.iter().all(|(field, equal, wanted)| {
            let is_wanted = match field.as_str() {
                "metadata.name" | "name" => *stored.name == **wanted,
                "metadata.namespace" => *stored.namespace == **wanted,
                // Without decoding: each watch of a node's pods tests every event of every pod.
                "spec.nodeName" => *stored.node_name == **wanted,
                "status.phase" => *stored.phase == **wanted,
                other => lookup(decoded.get_or_insert_with(|| stored.value()), other) == *wanted,
            };
            is_wanted == *equal
        })
    }
}

fn lookup(object: &Value, field: &str) -> String {
    let field = match field.strip_prefix("regarding.") {
        Some(below) => format!("involvedObject.{below}"),
        None => field.to_owned(),
    };
    let path = match field.as_str() {
        "source" => "/source/component".to_owned(),
        "reportingController" => "/reportingComponent".to_owned(),
        other => format!("/{}", other.replace('.', "/")),
    };
    match object.pointer(&path) {
        Some(Value::String(text)) => text.clone(),
        None | Some(Value::Null) if field == "spec.unschedulable" => "false".to_owned(),
        None | Some(Value::Null) => String::new(),
        Some(other) => other.to_string(),
    }
}

/// Label and field selector of a list or watch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selector {
    /// Label selector.
    pub(crate) labels: Labels,
    /// Field selector.
    pub(crate) fields: Fields,
}

impl Selector {
    /// Reports whether the selector selects everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Reports whether the selector selects an object.
    pub(crate) fn matches(&self, stored: &StoredObject) -> bool {
        self.labels.matches(&stored.labels) && self.fields.matches(stored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(selector: &str, labels: &[(&str, &str)]) -> bool {
        let labels: Vec<(Box<str>, Box<str>)> = labels.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        Labels::parse(selector).unwrap().matches(&labels)
    }

    #[test]
    fn matches_equality_and_set_requirements() {
        let gpu = [("pool", "gpu"), ("zone", "a")];
        for good in
            ["", "pool=gpu", "pool==gpu,zone", "pool in (gpu, cpu)", "pool notin (x),zone!=b", "!other", "other!=x"]
        {
            assert!(selects(good, &gpu), "{good}");
        }
        for bad in
            ["pool=cpu", "other", "!pool", "pool in (cpu)", "pool notin (gpu)", "zone!=a", "other=", "zone in ()"]
        {
            assert!(!selects(bad, &gpu), "{bad}");
        }
        assert!(selects("cores>4", &[("cores", "8")]) && !selects("cores<4", &[("cores", "8")]));
    }

    #[test]
    fn error_messages_match_the_servers() {
        let why = |text: &str| Labels::parse(text).unwrap_err().message;
        assert_eq!(why("pool in a"), "unable to parse requirement: found 'a' expected: '('");
        assert_eq!(why("a b"), "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt");
        assert_eq!(why("a,"), "found '', expected: identifier after ','");
        assert_eq!(
            Fields::parse("spec.x=1", ResourceType::Node).unwrap_err().message,
            "field label not supported: spec.x"
        );
    }
}
