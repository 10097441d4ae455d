//! Reads a text by JSON's rules as Go's encoding/json has them: nothing after the value, no comments, no comma at the
//! end, numbers and escapes exactly as in RFC 8259; a surrogate without its other half becomes U+FFFD.
//!
//! Of several equal keys the last one counts, but maps under equal keys are merged: Go decodes the second into the first.

use super::parse::{Ledger, Stop};
use super::{Entry, MAX_DEPTH, MAX_KEY, Mapping, Node, Scalar, Value, canonical_text, key_too_long};
use crate::finding::{Finding, Place};

/// The deepest nesting that encoding/json reads.
const GO_DEPTH: usize = 10_000;

/// Reads the one value of a text.
pub(super) fn read(text: &str, ledger: &mut Ledger) -> Result<Node, Stop> {
    let mut reader = Reader { text, ledger, at: Cursor { offset: 0, line: 1, column: 1 } };
    reader.blanks();
    let root = reader.value(1)?;
    reader.blanks();
    if reader.peek().is_some() { reader.unexpected("the end of the file") } else { Ok(root) }
}

/// A position in the text; lines and columns count from 1.
#[derive(Clone, Copy)]
struct Cursor {
    offset: usize,
    line: usize,
    column: usize,
}

struct Reader<'a, 'l> {
    text: &'a str,
    ledger: &'l mut Ledger,
    at: Cursor,
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
                self.at = Cursor { line: self.at.line + 1, column: 1, ..self.at };
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

    fn place(&self, start: Cursor) -> Place {
        let (line, column) = (start.line, start.column);
        Place { file: self.ledger.file.clone(), offset: start.offset, len: self.at.offset - start.offset, line, column }
    }

    fn unexpected<T>(&mut self, wanted: &str) -> Result<T, Stop> {
        let what = match self.peek() {
            Some(c) => format!("{c:?} stands where {wanted} should"),
            None => format!("the file ends where {wanted} should stand"),
        };
        self.malformed(&what)
    }

    fn malformed<T>(&mut self, problem: &str) -> Result<T, Stop> {
        let finding = Finding::error("malformed-json", format!("the file is not valid JSON: {problem}"))
            .at(self.place(self.at))
            .help(
                "the kubelet reads a file that starts with `{` as JSON; write `---` above it to have it read as YAML",
            );
        self.ledger.stop(finding)
    }

    /// Reads the value that begins here.
    fn value(&mut self, depth: usize) -> Result<Node, Stop> {
        let start = self.at;
        if depth > MAX_DEPTH && matches!(self.peek(), Some('{' | '[')) {
            self.skip(depth)?;
            let place = self.place(start);
            self.ledger.too_deep(&place);
            return Ok(Node { value: Value::Scalar(Scalar::plain("null")), place });
        }
        let place = self.place(start);
        self.ledger.charge(1, 0, &place)?;
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
                let node = Node { value: Value::Scalar(scalar), place: self.place(start) };
                self.ledger.charge(0, node.place.len, &node.place)?;
                self.ledger.check_scalar(&node);
                Ok(node)
            }
        }
    }

    /// Takes one character after blanks; whether it was there.
    fn takes(&mut self, wanted: char) -> bool {
        self.blanks();
        let there = self.peek() == Some(wanted);
        if there {
            self.step();
        }
        there
    }

    fn items(&mut self, depth: usize) -> Result<Vec<Node>, Stop> {
        let mut items = Vec::new();
        if self.takes(']') {
            return Ok(items);
        }
        loop {
            self.blanks();
            items.push(self.value(depth + 1)?);
            if self.takes(']') {
                return Ok(items);
            }
            if !self.takes(',') {
                return self.unexpected("`,` or `]`");
            }
        }
    }

    fn entries(&mut self, depth: usize) -> Result<Mapping, Stop> {
        let mut map = Mapping::new();
        if self.takes('}') {
            return Ok(map);
        }
        loop {
            let (key, key_place) = self.key()?;
            let value = self.value(depth + 1)?;
            insert(&mut map, key, Entry { key_place, value, earlier: Vec::new() }, self.ledger);
            if self.takes('}') {
                return Ok(map);
            }
            if !self.takes(',') {
                return self.unexpected("`,` or `}`");
            }
        }
    }

    /// Reads a key and its colon.
    fn key(&mut self) -> Result<(String, Place), Stop> {
        self.blanks();
        let start = self.at;
        if self.peek() != Some('"') {
            return self.unexpected("a key in double quotes");
        }
        let key = self.string()?;
        let place = self.place(start);
        self.ledger.charge(0, place.len, &place)?;
        if canonical_text(&key).len() > MAX_KEY {
            self.ledger.push(Finding::error("key-too-long", key_too_long()).at(place.clone()));
        }
        if !self.takes(':') {
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

    /// Reads a string that begins here.
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
                Some(_) => return self.malformed("a control character stands in a string"),
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
            _ => return self.unexpected("an escape of JSON"),
        };
        self.step();
        Ok(c)
    }

    /// Four digits of an escape, and the four of the surrogate that belongs to it.
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

    /// Reads a list or map that is too deep for the tree, without a step into it on the stack.
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
            self.ledger.charge(1, place.len, &place)?;
            if let Some(end) = opened {
                self.step();
                open.push(end);
                if depth + open.len() > GO_DEPTH + 1 {
                    return self.malformed(&format!("it is nested deeper than the {GO_DEPTH} levels that Go reads"));
                }
                if !self.takes(end) {
                    if end == '}' {
                        self.key()?;
                    }
                    continue;
                }
                open.pop();
            }
            // After a value: the ends of what it completes, then a comma.
            loop {
                let Some(end) = open.last().copied() else { return Ok(()) };
                if self.takes(end) {
                    open.pop();
                    continue;
                }
                if !self.takes(',') {
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

/// Sets a key; under one that is there already, a map goes into the map.
fn insert(map: &mut Mapping, key: String, entry: Entry, ledger: &mut Ledger) {
    let Some(before) = map.get_mut(&key) else {
        map.insert(key, entry);
        return;
    };
    ledger.duplicate(&key, entry.key_place.clone(), before.key_place.clone());
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
    fn what_go_reads() {
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
    fn what_go_does_not_read() {
        for (text, message) in [
            ("{\"a\":1} x", "f.json:1:9 the file is not valid JSON: 'x' stands where the end of the file should"),
            ("{'a':1}", "f.json:1:2 the file is not valid JSON: '\\'' stands where a key in double quotes should"),
            ("{\"a\":1,}", "f.json:1:8 the file is not valid JSON: '}' stands where a key in double quotes should"),
            ("{\"a\"\n1}", "f.json:2:1 the file is not valid JSON: '1' stands where `:` should"),
            ("{\"a\":01}", "f.json:1:7 the file is not valid JSON: '1' stands where `,` or `}` should"),
            ("{\"a\":+1}", "f.json:1:6 the file is not valid JSON: '+' stands where a value should"),
            ("{\"a\":1.}", "f.json:1:8 the file is not valid JSON: '}' stands where a digit should"),
            ("{\"a\":[1 2]}", "f.json:1:9 the file is not valid JSON: '2' stands where `,` or `]` should"),
            ("{\"a\":\"\\x41\"}", "f.json:1:8 the file is not valid JSON: 'x' stands where an escape of JSON should"),
            ("{\"a\":\"\t\"}", "f.json:1:7 the file is not valid JSON: a control character stands in a string"),
            ("{\"a\":\"b", "f.json:1:8 the file is not valid JSON: the file ends where `\"` should stand"),
            ("{\"a\":nul}", "f.json:1:6 the file is not valid JSON: 'n' stands where a value should"),
            ("{", "f.json:1:2 the file is not valid JSON: the file ends where a key in double quotes should stand"),
        ] {
            assert_eq!(problem(text), message, "{text}");
        }
    }

    #[test]
    fn what_is_too_deep_is_read_without_being_kept() {
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
    fn duplicates_are_findings() {
        let parsed = Document::parse("f.json", "{\"a\":1,\n\"a\":2}");
        assert_eq!(parsed.findings.len(), 1);
        assert_eq!((parsed.findings[0].code, parsed.findings[0].related[0].0.line), ("duplicate-key", 1));
    }
}
