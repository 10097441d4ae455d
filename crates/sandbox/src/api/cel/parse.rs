//! From text to a tree, after the grammar of cel-spec `doc/langdef.md`.

use serde_json::{Number, Value};

use super::functions::{self, Function, Macro};

/// How deep expressions may be nested: real rules stay below ten.
const DEPTH: usize = 64;

/// A binary operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binary {
    Or,
    And,
    Equal,
    Differs,
    Less,
    AtMost,
    Greater,
    AtLeast,
    In,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// An expression.
#[derive(Debug, Clone)]
pub(super) enum Node {
    Literal(Value),
    Variable(String),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
    Select(Box<Node>, String),
    Index(Box<Node>, Box<Node>),
    Has(Box<Node>, String),
    Not(Box<Node>),
    Negative(Box<Node>),
    Binary(Binary, Box<Node>, Box<Node>),
    Choice(Box<Node>, Box<Node>, Box<Node>),
    Call(Function, Vec<Node>),
    Each { what: Macro, over: Box<Node>, variable: String, body: Box<Node> },
}

impl Node {
    /// Whether it reads this variable.
    pub(super) fn names(&self, variable: &str) -> bool {
        let any = |nodes: &[Self]| nodes.iter().any(|node| node.names(variable));
        match self {
            Self::Literal(_) => false,
            Self::Variable(name) => name == variable,
            Self::List(nodes) | Self::Call(_, nodes) => any(nodes),
            Self::Map(pairs) => pairs.iter().any(|(key, value)| key.names(variable) || value.names(variable)),
            Self::Select(of, _) | Self::Has(of, _) | Self::Not(of) | Self::Negative(of) => of.names(variable),
            Self::Index(a, b) | Self::Binary(_, a, b) => a.names(variable) || b.names(variable),
            Self::Choice(a, b, c) => a.names(variable) || b.names(variable) || c.names(variable),
            Self::Each { over, body, .. } => over.names(variable) || body.names(variable),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Word(String),
    Literal(Value),
    Sign(&'static str),
    End,
}

const SIGNS: [&str; 24] = [
    "&&", "||", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", "(", ")", "[", "]", "{", "}",
    ",", ".",
];

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let raw = rest.strip_prefix(['r', 'R']).filter(|tail| tail.starts_with(['\'', '"']));
        let taken = if first == '\'' || first == '"' || raw.is_some() {
            let (literal, taken) = quoted(raw.unwrap_or(rest), raw.is_some())?;
            tokens.push(Token::Literal(Value::String(literal)));
            taken + usize::from(raw.is_some())
        } else if first.is_ascii_digit() {
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.')).unwrap_or(rest.len());
            let word = rest.get(..end).unwrap_or_default();
            tokens.push(Token::Literal(number(word)?));
            end
        } else if first.is_ascii_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
            let word = rest.get(..end).unwrap_or_default();
            tokens.push(match word {
                "true" => Token::Literal(Value::Bool(true)),
                "false" => Token::Literal(Value::Bool(false)),
                "null" => Token::Literal(Value::Null),
                _ => Token::Word(word.to_owned()),
            });
            end
        } else {
            let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
            let sign = sign.ok_or_else(|| format!("token recognition error at: '{first}'"))?;
            tokens.push(Token::Sign(sign));
            sign.len()
        };
        rest = rest.get(taken..).unwrap_or_default().trim_start();
    }
    Ok(tokens)
}

fn number(word: &str) -> Result<Value, String> {
    let bad = || format!("invalid number '{word}'");
    if let Some(hex) = word.strip_prefix("0x") {
        return i64::from_str_radix(hex, 16).map(Value::from).map_err(|_| bad());
    }
    let whole = word.strip_suffix(['u', 'U']).unwrap_or(word);
    if whole.bytes().all(|byte| byte.is_ascii_digit()) {
        return whole.parse::<i64>().map(Value::from).map_err(|_| bad());
    }
    let number = word.parse::<f64>().ok().and_then(Number::from_f64);
    number.map(Value::Number).ok_or_else(bad)
}

/// A text in quotes, and how many bytes it takes with them.
fn quoted(text: &str, raw: bool) -> Result<(String, usize), String> {
    let mut characters = text.char_indices();
    let Some((_, quote)) = characters.next() else { return Err("text expected".to_owned()) };
    let mut literal = String::new();
    while let Some((at, character)) = characters.next() {
        match character {
            _ if character == quote => return Ok((literal, at + quote.len_utf8())),
            '\\' if !raw => match characters.next() {
                Some((_, escaped)) => literal.push(match escaped {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    '\\' | '\'' | '"' | '`' | '?' => escaped,
                    _ => return Err(format!("escape '\\{escaped}' is not known")),
                }),
                None => break,
            },
            _ => literal.push(character),
        }
    }
    Err("text without its closing quote".to_owned())
}

/// Reads an expression.
///
/// # Errors
/// What is not understood.
pub(super) fn parse(text: &str) -> Result<Node, String> {
    let mut parser = Parser {
        tokens: tokens(text)?.into_iter().peekable(),
        variables: vec!["self".to_owned(), "oldSelf".to_owned()],
        depth: 0,
    };
    let node = parser.expression()?;
    match parser.next() {
        Token::End => Ok(node),
        other => Err(unexpected(&other)),
    }
}

fn unexpected(token: &Token) -> String {
    match token {
        Token::Word(word) => format!("unexpected '{word}'"),
        Token::Literal(value) => format!("unexpected {value}"),
        Token::Sign(sign) => format!("unexpected '{sign}'"),
        Token::End => "unexpected end of the expression".to_owned(),
    }
}

struct Parser {
    tokens: std::iter::Peekable<std::vec::IntoIter<Token>>,
    /// What is in scope.
    variables: Vec<String>,
    depth: usize,
}

/// Operators from the loosest to the tightest.
const LEVELS: [&[(&str, Binary)]; 5] = [
    &[("||", Binary::Or)],
    &[("&&", Binary::And)],
    &[
        ("==", Binary::Equal),
        ("!=", Binary::Differs),
        ("<", Binary::Less),
        ("<=", Binary::AtMost),
        (">", Binary::Greater),
        (">=", Binary::AtLeast),
        ("in", Binary::In),
    ],
    &[("+", Binary::Add), ("-", Binary::Subtract)],
    &[("*", Binary::Multiply), ("/", Binary::Divide), ("%", Binary::Remainder)],
];

impl Parser {
    fn next(&mut self) -> Token {
        self.tokens.next().unwrap_or(Token::End)
    }

    fn takes(&mut self, sign: &str) -> bool {
        let fits = |token: &Token| match token {
            Token::Sign(found) => *found == sign,
            Token::Word(found) => found == sign,
            _ => false,
        };
        self.tokens.next_if(fits).is_some()
    }

    fn require(&mut self, sign: &str) -> Result<(), String> {
        if self.takes(sign) { Ok(()) } else { Err(format!("{}, '{sign}' expected", unexpected(&self.next()))) }
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, String>) -> Result<T, String> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(format!("nested more than {DEPTH} deep"));
        }
        let node = read(self);
        self.depth -= 1;
        node
    }

    fn expression(&mut self) -> Result<Node, String> {
        self.deeper(|parser| {
            let condition = parser.binary(0)?;
            if !parser.takes("?") {
                return Ok(condition);
            }
            let yes = parser.binary(0)?;
            // What stands between may be a choice itself only in brackets, after the grammar; servers take it bare.
            let yes = if parser.takes("?") { parser.rest_of_choice(yes)? } else { yes };
            parser.require(":")?;
            let no = parser.expression()?;
            Ok(Node::Choice(Box::new(condition), Box::new(yes), Box::new(no)))
        })
    }

    fn rest_of_choice(&mut self, condition: Node) -> Result<Node, String> {
        let yes = self.expression()?;
        self.require(":")?;
        let no = self.binary(0)?;
        Ok(Node::Choice(Box::new(condition), Box::new(yes), Box::new(no)))
    }

    fn binary(&mut self, level: usize) -> Result<Node, String> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        let mut chain = 0;
        while let Some((_, operator)) = operators.iter().find(|(sign, _)| self.takes(sign)) {
            // A chain is as deep a tree as it is long.
            chain += 1;
            if chain > DEPTH {
                return Err(format!("more than {DEPTH} operands in a row"));
            }
            let right = self.binary(level + 1)?;
            left = Node::Binary(*operator, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Node, String> {
        if self.takes("!") {
            return self.deeper(|parser| Ok(Node::Not(Box::new(parser.unary()?))));
        }
        if self.takes("-") {
            return self.deeper(|parser| Ok(Node::Negative(Box::new(parser.unary()?))));
        }
        let mut node = self.primary()?;
        let mut chain = 0;
        loop {
            chain += 1;
            if chain > DEPTH {
                return Err(format!("more than {DEPTH} fields in a row"));
            }
            node = if self.takes(".") {
                let Token::Word(name) = self.next() else {
                    return Err("a field's name is expected after '.'".to_owned());
                };
                if self.takes("(") { self.method(node, &name)? } else { Node::Select(Box::new(node), unescaped(&name)) }
            } else if self.takes("[") {
                let index = self.expression()?;
                self.require("]")?;
                Node::Index(Box::new(node), Box::new(index))
            } else {
                return Ok(node);
            };
        }
    }

    fn primary(&mut self) -> Result<Node, String> {
        match self.next() {
            Token::Literal(value) => Ok(Node::Literal(value)),
            Token::Sign("(") => {
                let node = self.expression()?;
                self.require(")")?;
                Ok(node)
            }
            Token::Sign("[") => self.list("]").map(Node::List),
            Token::Sign("{") => self.map(),
            Token::Word(name) if self.takes("(") => {
                let arguments = self.list(")")?;
                if name == "has" {
                    return match <[Node; 1]>::try_from(arguments) {
                        Ok([Node::Select(of, field)]) => Ok(Node::Has(of, field)),
                        _ => Err("invalid argument to has() macro".to_owned()),
                    };
                }
                functions::call(&name, None, arguments)
            }
            Token::Word(name) if self.variables.contains(&name) => Ok(Node::Variable(name)),
            Token::Word(name) => Err(format!("undeclared reference to '{name}'")),
            other => Err(unexpected(&other)),
        }
    }

    fn list(&mut self, end: &str) -> Result<Vec<Node>, String> {
        let mut nodes = Vec::new();
        while !self.takes(end) {
            nodes.push(self.expression()?);
            if !self.takes(",") {
                self.require(end)?;
                break;
            }
        }
        Ok(nodes)
    }

    fn map(&mut self) -> Result<Node, String> {
        let mut pairs = Vec::new();
        while !self.takes("}") {
            let key = self.expression()?;
            self.require(":")?;
            pairs.push((key, self.expression()?));
            if !self.takes(",") {
                self.require("}")?;
                break;
            }
        }
        Ok(Node::Map(pairs))
    }

    fn method(&mut self, target: Node, name: &str) -> Result<Node, String> {
        let Some(what) = Macro::of(name) else {
            let arguments = self.list(")")?;
            return functions::call(name, Some(target), arguments);
        };
        let Token::Word(variable) = self.next() else {
            return Err(format!("{name}() takes the name of a variable first"));
        };
        self.require(",")?;
        self.variables.push(variable.clone());
        let body = self.expression();
        self.variables.pop();
        let body = Box::new(body?);
        self.require(")")?;
        Ok(Node::Each { what, over: Box::new(target), variable, body })
    }
}

/// The field that an escaped name stands for (`x-kubernetes-validations`, on names that are no identifiers).
fn unescaped(name: &str) -> String {
    const KEYWORDS: [&str; 20] = [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
    ];
    if let Some(keyword) = name.strip_prefix("__").and_then(|name| name.strip_suffix("__"))
        && KEYWORDS.contains(&keyword)
    {
        return keyword.to_owned();
    }
    name.replace("__dash__", "-").replace("__dot__", ".").replace("__slash__", "/").replace("__underscores__", "__")
}
