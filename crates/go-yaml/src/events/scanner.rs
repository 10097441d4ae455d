//! The scanner: splits a text into tokens.
//!
//! Only the colon after a text shows that the text is a key, and indentation opens and closes blocks without a
//! character. The scanner therefore inserts tokens before ones that it has read.

use std::collections::{BTreeMap, VecDeque};

use super::cursor::{Cursor, is_blank, is_blank_or_end, is_break};
use super::{Malformed, Mark};

/// The maximum nesting of flow collections, and of blocks.
const MAX_DEPTH: usize = 10_000;
/// The maximum length of a key without `?`, in characters.
const MAX_KEY_LENGTH: usize = 1024;

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    StreamEnd,
    VersionDirective,
    TagDirective,
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias,
    Anchor,
    Tag,
    Scalar { plain: bool },
}

/// A token.
#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) start: Mark,
    pub(super) end: Mark,
    /// The text of a scalar, the name of an anchor or alias, the handle of a tag, or the version of `%YAML`.
    pub(super) text: String,
    /// The suffix of a tag, or the prefix of a handle.
    pub(super) suffix: String,
}

/// A token that a colon may turn into a key.
#[derive(Clone, Copy)]
struct SimpleKey {
    possible: bool,
    /// Only a key is valid here.
    required: bool,
    token: usize,
    mark: Mark,
    index: usize,
}

pub(super) struct Scanner<'a> {
    pub(super) cursor: Cursor<'a>,
    tokens: VecDeque<Token>,
    /// Number of tokens taken.
    taken: usize,
    /// A possible key for each open flow collection, and one for the block around them.
    keys: Vec<SimpleKey>,
    /// Indexes into `keys`, by the number of the token.
    keys_by_token: BTreeMap<usize, usize>,
    pub(super) key_allowed: bool,
    pub(super) flow_level: usize,
    /// The column of the innermost block, from 0; -1 outside all blocks.
    pub(super) indent: isize,
    indents: Vec<isize>,
    ended: bool,
    /// Start of the last scalar, if no token follows it.
    scalar: Option<Mark>,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let cursor = Cursor::new(text);
        let none = SimpleKey { possible: false, required: false, token: 0, mark: cursor.mark, index: 0 };
        Self {
            cursor,
            tokens: VecDeque::new(),
            taken: 0,
            keys: vec![none],
            keys_by_token: BTreeMap::new(),
            key_allowed: true,
            flow_level: 0,
            indent: -1,
            indents: Vec::new(),
            ended: false,
            scalar: None,
        }
    }

    /// Returns the kind, start and end of the next token.
    pub(super) fn peek(&mut self) -> Result<(Kind, Mark, Mark), Malformed> {
        loop {
            if let Some(token) = self.tokens.front() {
                let found = (token.kind, token.start, token.end);
                // The token may still become a key.
                let open = match self.keys_by_token.get(&self.taken).copied() {
                    Some(at) => self.is_possible(at)?,
                    None => false,
                };
                if !open {
                    return Ok(found);
                }
            }
            self.fetch()?;
        }
    }

    /// Takes the next token.
    pub(super) fn take(&mut self) -> Result<Token, Malformed> {
        self.peek()?;
        self.taken += 1;
        self.tokens.pop_front().ok_or_else(|| self.malformed("the text ends too early"))
    }

    pub(super) fn malformed(&self, problem: impl Into<String>) -> Malformed {
        Malformed::new(problem, self.cursor.mark)
    }

    pub(super) fn push(&mut self, kind: Kind, start: Mark, end: Mark) {
        self.push_text(kind, start, end, String::new(), String::new());
    }

    pub(super) fn push_text(&mut self, kind: Kind, start: Mark, end: Mark, text: String, suffix: String) {
        self.scalar = matches!(kind, Kind::Scalar { .. }).then_some(start);
        self.tokens.push_back(Token { kind, start, end, text, suffix });
    }

    /// Inserts a token before the token with this number, counted from the start of the text. Without a number,
    /// inserts it at the end.
    fn insert(&mut self, number: Option<usize>, kind: Kind, mark: Mark) {
        let at = number.map_or(self.tokens.len(), |number| number.saturating_sub(self.taken).min(self.tokens.len()));
        let token = Token { kind, start: mark, end: mark, text: String::new(), suffix: String::new() };
        self.tokens.insert(at, token);
    }

    fn fetch(&mut self) -> Result<(), Malformed> {
        if self.ended {
            return Err(self.malformed("the text ends too early"));
        }
        self.skip_to_token();
        self.check_characters()?;
        self.unroll(isize::try_from(self.cursor.column()).unwrap_or(isize::MAX));
        self.token()?;
        self.check_characters()
    }

    fn check_characters(&self) -> Result<(), Malformed> {
        if self.cursor.is_forbidden() {
            let code = u32::from(self.cursor.forbidden().unwrap_or_default());
            return Err(self.malformed(format!("control characters are not allowed (U+{code:04X})")));
        }
        Ok(())
    }

    fn token(&mut self) -> Result<(), Malformed> {
        let (c, next) = (self.cursor.here(), self.cursor.at(1));
        let flow = self.flow_level > 0;
        if c == '\0' {
            return self.stream_end();
        }
        let directive = self.cursor.column() == 0 && c == '%';
        let indicator = self.cursor.document_indicator();
        if directive || indicator.is_some() {
            self.unroll(-1);
            self.remove_key()?;
            self.key_allowed = false;
        }
        if directive {
            return self.directive();
        }
        if let Some(indicator) = indicator {
            self.indicator(if indicator == '-' { Kind::DocumentStart } else { Kind::DocumentEnd }, 3);
            return Ok(());
        }
        match c {
            '[' => self.flow_start(Kind::FlowSequenceStart),
            '{' => self.flow_start(Kind::FlowMappingStart),
            ']' => self.flow_end(Kind::FlowSequenceEnd),
            '}' => self.flow_end(Kind::FlowMappingEnd),
            ',' => {
                self.remove_key()?;
                self.key_allowed = true;
                self.indicator(Kind::FlowEntry, 1);
                Ok(())
            }
            '-' if is_blank_or_end(next) => self.block_entry(),
            '?' if flow || is_blank_or_end(next) => self.key(),
            ':' if flow || is_blank_or_end(next) => self.value(),
            '|' | '>' if !flow => {
                self.remove_key()?;
                self.key_allowed = true;
                self.block_scalar(c == '|')
            }
            _ if "*&!'\"".contains(c) || starts_plain(c, next, flow) => {
                self.save_key()?;
                self.key_allowed = false;
                match c {
                    '*' => self.anchor(Kind::Alias),
                    '&' => self.anchor(Kind::Anchor),
                    '!' => self.tag(),
                    '\'' | '"' => self.quoted_scalar(c == '\''),
                    _ => self.plain_scalar(),
                }
            }
            _ => Err(self.malformed("found character that cannot start any token")),
        }
    }

    /// Skips blanks, comments and line breaks. A tab is allowed only where no block can start.
    fn skip_to_token(&mut self) {
        loop {
            while self.cursor.here() == ' '
                || (self.cursor.here() == '\t' && (self.flow_level > 0 || !self.key_allowed))
            {
                self.cursor.skip();
            }
            if self.cursor.here() == '#' {
                self.cursor.skip_comment();
            }
            if !is_break(self.cursor.here()) {
                return;
            }
            self.cursor.skip_line();
            if self.flow_level == 0 {
                self.key_allowed = true;
            }
        }
    }

    /// Reads a token of `length` characters.
    fn indicator(&mut self, kind: Kind, length: usize) {
        let start = self.cursor.mark;
        (0..length).for_each(|_| self.cursor.skip());
        self.push(kind, start, self.cursor.mark);
    }

    /// Reports whether a colon may still turn the token into a key: on the same line and within the maximum length.
    fn is_possible(&mut self, at: usize) -> Result<bool, Malformed> {
        let Some(key) = self.keys.get_mut(at).filter(|key| key.possible) else { return Ok(false) };
        let same_line = key.mark.line == self.cursor.mark.line && !self.ended;
        key.possible = same_line && key.index + MAX_KEY_LENGTH >= self.cursor.index;
        if key.required && !key.possible {
            let mark = key.mark;
            return Err(self.malformed("could not find expected ':'").began([mark]));
        }
        Ok(key.possible)
    }

    /// Records that the token at the cursor may be a key.
    fn save_key(&mut self) -> Result<(), Malformed> {
        if !self.key_allowed {
            return Ok(());
        }
        self.remove_key()?;
        let key = SimpleKey {
            possible: true,
            required: self.flow_level == 0 && usize::try_from(self.indent) == Ok(self.cursor.column()),
            token: self.taken + self.tokens.len(),
            mark: self.cursor.mark,
            index: self.cursor.index,
        };
        let at = self.keys.len() - 1;
        if let Some(last) = self.keys.last_mut() {
            *last = key;
            self.keys_by_token.insert(key.token, at);
        }
        Ok(())
    }

    fn remove_key(&mut self) -> Result<(), Malformed> {
        if let Some(key) = self.keys.last_mut().filter(|key| key.possible) {
            if key.required {
                let mark = key.mark;
                return Err(self.malformed("could not find expected ':'").began([mark]));
            }
            key.possible = false;
            self.keys_by_token.remove(&key.token);
        }
        Ok(())
    }

    fn flow_start(&mut self, kind: Kind) -> Result<(), Malformed> {
        self.save_key()?;
        let none = SimpleKey { possible: false, required: false, token: 0, mark: self.cursor.mark, index: 0 };
        self.keys.push(SimpleKey { token: self.taken + self.tokens.len(), ..none });
        self.flow_level += 1;
        if self.flow_level > MAX_DEPTH {
            return Err(self.malformed(format!("exceeded max depth of {MAX_DEPTH}")));
        }
        self.key_allowed = true;
        self.indicator(kind, 1);
        Ok(())
    }

    fn flow_end(&mut self, kind: Kind) -> Result<(), Malformed> {
        self.remove_key()?;
        if self.flow_level > 0 {
            self.flow_level -= 1;
            if let Some(key) = self.keys.pop() {
                self.keys_by_token.remove(&key.token);
            }
        }
        self.key_allowed = false;
        self.indicator(kind, 1);
        Ok(())
    }

    fn block_entry(&mut self) -> Result<(), Malformed> {
        if self.flow_level == 0 {
            if !self.key_allowed {
                return Err(self.malformed("block sequence entries are not allowed in this context"));
            }
            self.roll(self.cursor.mark, None, Kind::BlockSequenceStart)?;
        }
        self.remove_key()?;
        self.key_allowed = true;
        self.indicator(Kind::BlockEntry, 1);
        Ok(())
    }

    fn key(&mut self) -> Result<(), Malformed> {
        if self.flow_level == 0 {
            if !self.key_allowed {
                return Err(self.malformed("mapping keys are not allowed in this context"));
            }
            self.roll(self.cursor.mark, None, Kind::BlockMappingStart)?;
        }
        self.remove_key()?;
        self.key_allowed = self.flow_level == 0;
        self.indicator(Kind::Key, 1);
        Ok(())
    }

    fn value(&mut self) -> Result<(), Malformed> {
        let at = self.keys.len() - 1;
        let key = self.keys.last().copied();
        if let Some(key) = key
            && self.is_possible(at)?
        {
            self.insert(Some(key.token), Kind::Key, key.mark);
            self.roll(key.mark, Some(key.token), Kind::BlockMappingStart)?;
            if let Some(key) = self.keys.get_mut(at) {
                key.possible = false;
            }
            self.keys_by_token.remove(&key.token);
            self.key_allowed = false;
        } else {
            if self.flow_level == 0 {
                if !self.key_allowed {
                    let problem = self.malformed("mapping values are not allowed in this context");
                    return Err(problem.began(self.scalar));
                }
                self.roll(self.cursor.mark, None, Kind::BlockMappingStart)?;
            }
            self.key_allowed = self.flow_level == 0;
        }
        self.indicator(Kind::Value, 1);
        Ok(())
    }

    /// Opens a block if the column is beyond the innermost one.
    fn roll(&mut self, mark: Mark, number: Option<usize>, kind: Kind) -> Result<(), Malformed> {
        let column = isize::try_from(mark.column - 1).unwrap_or(isize::MAX);
        if self.flow_level == 0 && self.indent < column {
            self.indents.push(self.indent);
            self.indent = column;
            if self.indents.len() > MAX_DEPTH {
                return Err(self.malformed(format!("exceeded max depth of {MAX_DEPTH}")));
            }
            self.insert(number, kind, mark);
        }
        Ok(())
    }

    /// Closes the blocks beyond a column.
    fn unroll(&mut self, column: isize) {
        while self.flow_level == 0 && self.indent > column {
            self.insert(None, Kind::BlockEnd, self.cursor.mark);
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }

    fn stream_end(&mut self) -> Result<(), Malformed> {
        self.unroll(-1);
        self.remove_key()?;
        self.key_allowed = false;
        self.ended = true;
        self.push(Kind::StreamEnd, self.cursor.mark, self.cursor.mark);
        Ok(())
    }
}

/// Reports whether a plain scalar can start with these two characters.
fn starts_plain(c: char, next: char, flow: bool) -> bool {
    match c {
        '-' => !is_blank(next),
        '?' | ':' => !flow && !is_blank_or_end(next),
        _ => !is_blank_or_end(c) && !",[]{}#&*!|>'\"%@`".contains(c),
    }
}
