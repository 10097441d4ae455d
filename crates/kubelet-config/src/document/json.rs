//! The JSON parser, with the rules of Go's encoding/json: RFC 8259 without comments, trailing commas and trailing
//! text. An unpaired surrogate becomes U+FFFD.
//!
//! The last of several equal keys wins, but maps under equal keys are merged, because Go decodes the second into the
//! first.

use go_yaml::Span;

use super::context::{ParseContext, Stop, place};
use super::{Entry, MAX_DEPTH, MAX_KEY, MAX_NODES, Mapping, Node, Scalar, Unread, Value, canonical_text};
use crate::finding::{Finding, Place};

/// The maximum nesting in encoding/json.
const GO_MAX_DEPTH: usize = 10_000;

/// Parses the single value of a text.
pub(super) fn read(text: &str, context: &mut ParseContext) -> Result<Node, Stop> {
    let mut reader = Reader { text, context, at: Span { offset: 0, len: 0, line: 1, column: 1 }, nodes: 0 };
    reader.blanks();
    let root = reader.value(1)?;
    reader.blanks();
    if reader.peek().is_some() { reader.unexpected("the end of the file") } else { Ok(root) }
}

struct Reader<'a, 'l> {
    text: &'a str,
    context: &'l mut ParseContext,
    /// The position.
    at: Span,
    /// Values so far.
    nodes: usize,
}

impl<'a> Reader<'a, '_> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at.offset..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn step(&mut self) {
        if let Some(c) = self.peek() {
            self.at.offset += c.len_utf8();
            if c == '\n' {
                self.at = Span { line: self.at.line + 1, column: 1, ..self.at };
            } else {
                self.at.column += 1;
            }
        }
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t' | '\r' | '\n')) {
            self.step();
        }
    }

    fn place(&self, start: Span) -> Place {
        place(Span { len: self.at.offset - start.offset, ..start }, &self.context.file)
    }

    fn unexpected<T>(&mut self, wanted: &str) -> Result<T, Stop> {
        let what = match self.peek() {
            Some(c) => format!("expected {wanted}, found {c:?}"),
            None => format!("expected {wanted}, found the end of the file"),
        };
        self.malformed(&what)
    }

    fn malformed<T>(&mut self, problem: &str) -> Result<T, Stop> {
        let finding = Finding::error("malformed-json", format!("the file is not valid JSON: {problem}"))
            .at(self.place(self.at))
            .help("the kubelet reads a file that starts with `{` as JSON; write `---` above it if the file is YAML");
        self.context.stop(finding);
        Err(Stop)
    }

    /// Counts a value, and stops at the limit. Their text needs no count: it is part of the file.
    fn count(&mut self, place: &Place) -> Result<(), Stop> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            let finding = Finding::error("too-many-values", super::too_many()).at(place.clone());
            self.context.refuse(finding, Unread::Bounds);
            return Err(Stop);
        }
        Ok(())
    }

    /// Parses the value at the cursor.
    fn value(&mut self, depth: usize) -> Result<Node, Stop> {
        let start = self.at;
        if depth > MAX_DEPTH && matches!(self.peek(), Some('{' | '[')) {
            self.skip(depth)?;
            let place = self.place(start);
            self.context.too_deep(&place);
            return Ok(Node { value: Value::Scalar(Scalar::plain("null")), place });
        }
        let place = self.place(start);
        self.count(&place)?;
        match self.peek() {
            Some('{') => {
                self.step();
                let place = self.place(start);
                Ok(Node { value: Value::Mapping(self.entries(depth)?), place })
            }
            Some('[') => {
                self.step();
                let place = self.place(start);
                Ok(Node { value: Value::Sequence(self.items(depth)?), place })
            }
            _ => {
                let scalar = self.scalar()?;
                let place = self.place(start);
                self.context.check_scalar(&scalar, &place);
                Ok(Node { value: Value::Scalar(scalar), place })
            }
        }
    }

    /// Skips blanks, and consumes `wanted` if it follows. Reports whether it did.
    fn consume(&mut self, wanted: char) -> bool {
        self.blanks();
        let found = self.peek() == Some(wanted);
        if found {
            self.step();
        }
        found
    }

    fn items(&mut self, depth: usize) -> Result<Vec<Node>, Stop> {
        let mut items = Vec::new();
        if self.consume(']') {
            return Ok(items);
        }
        loop {
            self.blanks();
            items.push(self.value(depth + 1)?);
            if self.consume(']') {
                return Ok(items);
            }
            if !self.consume(',') {
                return self.unexpected("`,` or `]`");
            }
        }
    }

    fn entries(&mut self, depth: usize) -> Result<Mapping, Stop> {
        let mut map = Mapping::new();
        if self.consume('}') {
            return Ok(map);
        }
        loop {
            let (key, key_place) = self.key()?;
            let value = self.value(depth + 1)?;
            insert(&mut map, key, Entry { key_place, value, earlier: Vec::new() }, self.context);
            if self.consume('}') {
                return Ok(map);
            }
            if !self.consume(',') {
                return self.unexpected("`,` or `}`");
            }
        }
    }

    /// Parses a key and the colon after it.
    fn key(&mut self) -> Result<(String, Place), Stop> {
        self.blanks();
        let start = self.at;
        if self.peek() != Some('"') {
            return self.unexpected("a key in double quotes");
        }
        let key = self.string()?;
        let place = self.place(start);
        if canonical_text(&key).len() > MAX_KEY {
            self.context.key_too_long(&place);
        }
        if !self.consume(':') {
            return self.unexpected("`:`");
        }
        self.blanks();
        Ok((key, place))
    }

    fn scalar(&mut self) -> Result<Scalar, Stop> {
        match self.peek() {
            Some('"') => Ok(Scalar::quoted(self.string()?)),
            Some('-' | '0'..='9') => self.number(),
            _ => {
                for word in ["true", "false", "null"] {
                    if self.rest().starts_with(word) {
                        word.chars().for_each(|_| self.step());
                        return Ok(Scalar::plain(word));
                    }
                }
                self.unexpected("a value")
            }
        }
    }

    fn number(&mut self) -> Result<Scalar, Stop> {
        let start = self.at.offset;
        if self.peek() == Some('-') {
            self.step();
        }
        if self.peek() == Some('0') {
            self.step();
        } else {
            self.digits()?;
        }
        if self.peek() == Some('.') {
            self.step();
            self.digits()?;
        }
        if matches!(self.peek(), Some('e' | 'E')) {
            self.step();
            if matches!(self.peek(), Some('+' | '-')) {
                self.step();
            }
            self.digits()?;
        }
        Ok(Scalar::plain(self.text.get(start..self.at.offset).unwrap_or_default()))
    }

    fn digits(&mut self) -> Result<(), Stop> {
        if !matches!(self.peek(), Some('0'..='9')) {
            return self.unexpected("a digit");
        }
        while matches!(self.peek(), Some('0'..='9')) {
            self.step();
        }
        Ok(())
    }

    /// Parses the string at the cursor.
    fn string(&mut self) -> Result<String, Stop> {
        let mut text = String::new();
        self.step();
        loop {
            match self.peek() {
                Some('"') => {
                    self.step();
                    return Ok(text);
                }
                Some('\\') => {
                    self.step();
                    text.push(self.escape()?);
                }
                Some(c) if c >= ' ' => {
                    text.push(c);
                    self.step();
                }
                Some(_) => return self.malformed("a string contains a control character"),
                None => return self.unexpected("`\"`"),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Stop> {
        let c = match self.peek() {
            Some(c @ ('"' | '\\' | '/')) => c,
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('u') => {
                self.step();
                return self.unicode();
            }
            _ => return self.unexpected("a JSON escape"),
        };
        self.step();
        Ok(c)
    }

    /// Parses the four digits of an escape, and the escape of a paired surrogate.
    fn unicode(&mut self) -> Result<char, Stop> {
        let high = self.hex()?;
        if (0xd800..0xdc00).contains(&high) {
            let before = self.at;
            if self.rest().starts_with("\\u") {
                self.step();
                self.step();
                let low = self.hex()?;
                if (0xdc00..0xe000).contains(&low) {
                    let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                    return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
            }
            self.at = before;
        }
        Ok(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn hex(&mut self) -> Result<u32, Stop> {
        let mut code = 0;
        for _ in 0..4 {
            let Some(digit) = self.peek().and_then(|c| c.to_digit(16)) else {
                return self.unexpected("a hexadecimal digit");
            };
            code = code * 16 + digit;
            self.step();
        }
        Ok(code)
    }

    /// Skips a list or map that is too deep for the tree, without recursion. Its syntax is still checked.
    fn skip(&mut self, depth: usize) -> Result<(), Stop> {
        let mut open: Vec<char> = Vec::new();
        loop {
            self.blanks();
            let start = self.at;
            let mut opened = None;
            match self.peek() {
                Some('{') => opened = Some('}'),
                Some('[') => opened = Some(']'),
                _ => {
                    self.scalar()?;
                }
            }
            let place = self.place(start);
            self.count(&place)?;
            if let Some(end) = opened {
                self.step();
                open.push(end);
                if depth + open.len() > GO_MAX_DEPTH + 1 {
                    return self.malformed(&format!("it is nested deeper than Go's limit of {GO_MAX_DEPTH} levels"));
                }
                if !self.consume(end) {
                    if end == '}' {
                        self.key()?;
                    }
                    continue;
                }
                open.pop();
            }
            // After a value: the closing brackets of the containers that it completes, then a comma.
            loop {
                let Some(end) = open.last().copied() else { return Ok(()) };
                if self.consume(end) {
                    open.pop();
                    continue;
                }
                if !self.consume(',') {
                    return self.unexpected(&format!("`,` or `{end}`"));
                }
                if end == '}' {
                    self.key()?;
                }
                break;
            }
        }
    }
}

/// Sets a key. A map under an existing key is merged into the existing map.
fn insert(map: &mut Mapping, key: String, entry: Entry, context: &mut ParseContext) {
    let Some(before) = map.get_mut(&key) else {
        map.insert(key, entry);
        return;
    };
    context.duplicate(&key, entry.key_place.clone(), before.key_place.clone());
    merge(before, entry);
}

fn merge(before: &mut Entry, mut entry: Entry) {
    match (&mut before.value.value, entry.value.value) {
        (Value::Mapping(map), Value::Mapping(more)) => {
            for (key, entry) in more {
                match map.get_mut(&key) {
                    Some(before) => merge(before, entry),
                    None => {
                        map.insert(key, entry);
                    }
                }
            }
        }
        (_, value) => {
            let value = Node { value, place: entry.value.place };
            before.earlier.push(std::mem::replace(&mut before.value, value));
        }
    }
    before.earlier.append(&mut entry.earlier);
}

#[cfg(test)]
mod tests {
    use super::super::{Document, Syntax};

    fn problem(text: &str) -> String {
        let parsed = Document::parse("f.json", text);
        assert!(parsed.document.is_none(), "{text}");
        let finding = &parsed.findings[0];
        format!("{} {}", finding.place.as_ref().expect("a place"), finding.message)
    }

    fn json(text: &str) -> String {
        let parsed = Document::parse("f.json", text);
        let document = parsed.document.unwrap_or_else(|| panic!("{text}: {:?}", parsed.findings));
        assert_eq!(document.syntax, Syntax::Json);
        document.to_json().to_string()
    }

    #[test]
    fn reads_what_go_reads() {
        for (text, same) in [
            (" {\"a\" : [1,\t2.5, true ,false,null, {} , []]}\r\n", "{\"a\":[1,2.5,true,false,null,{},[]]}"),
            (r#"{"é\u00e9\n\/":"\ud83d\ude00"}"#, "{\"éé\\n/\":\"😀\"}"),
            (
                r#"{"a":"\ud800","b":"\ud800\u0041","c":"\ude00x"}"#,
                "{\"a\":\"\u{fffd}\",\"b\":\"\u{fffd}A\",\"c\":\"\u{fffd}x\"}",
            ),
            (r#"{"a":{"x":1,"z":{"y":1}},"a":{"y":2,"z":{"x":2}}}"#, r#"{"a":{"x":1,"y":2,"z":{"x":2,"y":1}}}"#),
            (r#"{"a":[1,2],"a":[3],"b":{"c":1},"b":5}"#, r#"{"a":[3],"b":5}"#),
        ] {
            assert_eq!(json(text), same);
        }
    }

    #[test]
    fn refuses_what_go_refuses() {
        for (text, message) in [
            ("{\"a\":1} x", "f.json:1:9 the file is not valid JSON: expected the end of the file, found 'x'"),
            ("{'a':1}", "f.json:1:2 the file is not valid JSON: expected a key in double quotes, found '\\''"),
            ("{\"a\":1,}", "f.json:1:8 the file is not valid JSON: expected a key in double quotes, found '}'"),
            ("{\"a\"\n1}", "f.json:2:1 the file is not valid JSON: expected `:`, found '1'"),
            ("{\"a\":01}", "f.json:1:7 the file is not valid JSON: expected `,` or `}`, found '1'"),
            ("{\"a\":+1}", "f.json:1:6 the file is not valid JSON: expected a value, found '+'"),
            ("{\"a\":1.}", "f.json:1:8 the file is not valid JSON: expected a digit, found '}'"),
            ("{\"a\":[1 2]}", "f.json:1:9 the file is not valid JSON: expected `,` or `]`, found '2'"),
            ("{\"a\":\"\\x41\"}", "f.json:1:8 the file is not valid JSON: expected a JSON escape, found 'x'"),
            ("{\"a\":\"\t\"}", "f.json:1:7 the file is not valid JSON: a string contains a control character"),
            ("{\"a\":\"b", "f.json:1:8 the file is not valid JSON: expected `\"`, found the end of the file"),
            ("{\"a\":nul}", "f.json:1:6 the file is not valid JSON: expected a value, found 'n'"),
            ("{", "f.json:1:2 the file is not valid JSON: expected a key in double quotes, found the end of the file"),
        ] {
            assert_eq!(problem(text), message, "{text}");
        }
    }

    #[test]
    fn skips_values_that_are_too_deep() {
        let nested = |levels: usize, inner: &str| {
            format!("{{\"a\":{}{inner}{},\"b\":1}}", "[{\"x\":".repeat(levels), "}]".repeat(levels))
        };
        let parsed = Document::parse("f.json", &nested(4000, "[1,{},[]]"));
        assert_eq!(parsed.findings.iter().map(|f| f.code).collect::<Vec<_>>(), ["too-deep"]);
        assert!(parsed.document.is_some_and(|document| document.root.get("b").is_some()));
        assert!(problem(&nested(5000, "[]")).contains("10000 levels"));
        assert!(problem(&nested(100, "[1 2]")).contains("`,` or `]`"));
    }

    #[test]
    fn reports_duplicate_keys() {
        let parsed = Document::parse("f.json", "{\"a\":1,\n\"a\":2}");
        assert_eq!(parsed.findings.len(), 1);
        assert_eq!((parsed.findings[0].code, parsed.findings[0].related[0].0.line), ("duplicate-key", 1));
    }
}
