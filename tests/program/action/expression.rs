//! Evaluator of the subset of GitHub expressions in action.yml. Unsupported expressions fail the test.

use std::collections::BTreeMap;

/// Context of expressions: `inputs.command`, `steps.run.outputs.changed`, `github.token`.
#[derive(Debug, Clone, Default)]
pub struct Context {
    pub values: BTreeMap<String, String>,
    /// IDs of earlier steps, whose outputs are available.
    pub steps: Vec<String>,
    /// Set while no step has failed.
    pub success: bool,
    /// Set if the job was cancelled.
    pub cancelled: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Name(String),
    Text(String),
    Sign(&'static str),
}

const SIGNS: [&str; 8] = ["==", "!=", "&&", "||", "()", "!", "(", ")"];

fn tokens(text: &str) -> Vec<Token> {
    let mut rest = text.trim();
    let mut tokens = Vec::new();
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix('\'') {
            let (text, after) = quoted.split_once('\'').expect("a closing quote");
            tokens.push(Token::Text(text.to_owned()));
            rest = after;
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            tokens.push(Token::Sign(sign));
            rest = &rest[sign.len()..];
        } else {
            let end = rest.find(|c: char| !(c.is_alphanumeric() || "._-".contains(c))).unwrap_or(rest.len());
            assert!(end > 0, "no expression: {text}");
            tokens.push(Token::Name(rest[..end].to_owned()));
            rest = &rest[end..];
        }
        rest = rest.trim_start();
    }
    tokens
}

/// Parser of an expression. Every value is a string; booleans are `true` and `false`.
struct Parser<'a> {
    tokens: Vec<Token>,
    at: usize,
    context: &'a Context,
}

fn truthy(value: &str) -> bool {
    !matches!(value, "" | "false")
}

fn word(value: bool) -> String {
    if value { "true" } else { "false" }.to_owned()
}

impl Parser<'_> {
    fn accept(&mut self, sign: &'static str) -> bool {
        let found = self.tokens.get(self.at) == Some(&Token::Sign(sign));
        self.at += usize::from(found);
        found
    }

    fn or(&mut self) -> String {
        let mut value = self.and();
        while self.accept("||") {
            let other = self.and();
            value = if truthy(&value) { value } else { other };
        }
        value
    }

    fn and(&mut self) -> String {
        let mut value = self.equal();
        while self.accept("&&") {
            let other = self.equal();
            value = if truthy(&value) { other } else { value };
        }
        value
    }

    fn equal(&mut self) -> String {
        let value = self.one();
        if self.accept("==") {
            return word(value.eq_ignore_ascii_case(&self.one()));
        }
        if self.accept("!=") {
            return word(!value.eq_ignore_ascii_case(&self.one()));
        }
        value
    }

    fn one(&mut self) -> String {
        if self.accept("!") {
            return word(!truthy(&self.one()));
        }
        if self.accept("(") {
            let value = self.or();
            assert!(self.accept(")"), "a closing parenthesis");
            return value;
        }
        let token = self.tokens.get(self.at).cloned().expect("a value");
        self.at += 1;
        match token {
            Token::Text(text) => text,
            Token::Name(name) if name == "always" && self.accept("()") => word(true),
            Token::Name(name) if name == "cancelled" && self.accept("()") => word(self.context.cancelled),
            Token::Name(name) => self.context.look_up(&name),
            Token::Sign(sign) => panic!("a value, not {sign}"),
        }
    }
}

impl Context {
    fn look_up(&self, name: &str) -> String {
        if let Some(step) = name.strip_prefix("steps.") {
            let (id, output) = step.split_once(".outputs.").expect("an output of a step");
            assert!(self.steps.iter().any(|step| step == id), "no earlier step has the id {id}");
            // An output that a step did not set, or of a skipped step, is empty.
            return self.values.get(&format!("steps.{id}.outputs.{output}")).cloned().unwrap_or_default();
        }
        self.values.get(name).cloned().unwrap_or_else(|| panic!("{name} is not known"))
    }

    fn value(&self, expression: &str) -> String {
        let mut parser = Parser { tokens: tokens(expression), at: 0, context: self };
        let value = parser.or();
        assert_eq!(parser.at, parser.tokens.len(), "more than an expression: {expression}");
        value
    }

    /// Evaluates the expressions `${{ … }}` in a text.
    pub fn fill(&self, text: &str) -> String {
        let mut parts = text.split("${{");
        let mut filled = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (expression, rest) = part.split_once("}}").expect("an end of the expression");
            filled.push_str(&self.value(expression));
            filled.push_str(rest);
        }
        filled
    }

    /// Reports whether a step with this `if` runs.
    pub fn allows(&self, condition: Option<&str>) -> bool {
        let condition = condition.unwrap_or("true");
        // `if` works with and without `${{ }}`, which is required if the condition starts with `!`, a YAML tag.
        let bare = condition.strip_prefix("${{").and_then(|rest| rest.strip_suffix("}}")).unwrap_or(condition);
        let holds = condition == "true" || truthy(&self.value(bare));
        let has_status_function = ["always()", "cancelled()"].iter().any(|function| bare.contains(function));
        holds && (has_status_function || (self.success && !self.cancelled))
    }
}

#[test]
fn evaluates_expressions_like_github() {
    let mut context = Context { success: true, steps: vec!["a".to_owned()], ..Context::default() };
    context.values.insert("inputs.x-y".to_owned(), "Yes".to_owned());
    context.values.insert("inputs.empty".to_owned(), String::new());
    assert_eq!(context.fill("<${{ inputs.x-y }}|${{ steps.a.outputs.b || inputs.x-y }}>"), "<Yes|Yes>");
    assert_eq!(context.fill("${{ inputs.empty == '' }} ${{ inputs.x-y != 'yes' }}"), "true false");
    assert!(context.allows(Some("inputs.x-y == 'yes' && !(inputs.empty == 'a')")));
    assert!(!context.allows(Some("inputs.x-y == 'no' || inputs.empty")));
    context.success = false;
    assert!(!context.allows(None));
    assert!(context.allows(Some("always() && inputs.x-y != 'none'")));
    assert!(context.allows(Some("${{ !cancelled() && inputs.x-y != 'none' }}")));
    context.cancelled = true;
    assert!(!context.allows(Some("${{ !cancelled() && inputs.x-y != 'none' }}")));
    context.success = true;
    assert!(!context.allows(None));
    assert!(context.allows(Some("always()")));
}
