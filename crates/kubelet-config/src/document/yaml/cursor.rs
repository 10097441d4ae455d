//! A position in a YAML text, and the classes of characters that YAML 1.1 tells apart.

use super::Mark;

/// How much of a text is looked over for characters that may not be in it before a token is read from it: the kubelet's
/// reader takes a text in pieces of this size, and does not see what is in a piece that it does not need.
const PIECE: usize = 512;

#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    pub(super) mark: Mark,
    /// Characters before the mark.
    pub(super) index: usize,
    /// Where the first character is that may not be in a text.
    forbidden: Option<usize>,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let forbidden = text.char_indices().find(|(_, c)| !is_allowed(*c)).map(|(at, _)| at);
        let mut cursor = Self { text, mark: Mark { offset: 0, line: 1, column: 1 }, index: 0, forbidden };
        if text.starts_with('\u{feff}') {
            cursor.mark.offset = '\u{feff}'.len_utf8();
        }
        cursor
    }

    /// The character `ahead` of this one; NUL behind the end of the text.
    pub(super) fn at(&self, ahead: usize) -> char {
        self.text.get(self.mark.offset..).and_then(|rest| rest.chars().nth(ahead)).unwrap_or('\0')
    }

    /// The character here; NUL at the end of the text.
    pub(super) fn here(&self) -> char {
        self.at(0)
    }

    /// Columns from the start of the line, from 0.
    pub(super) fn column(&self) -> usize {
        self.mark.column - 1
    }

    /// Steps over a character that is no line break.
    pub(super) fn skip(&mut self) {
        let c = self.here();
        if self.mark.offset < self.text.len() {
            self.mark.offset += c.len_utf8();
            self.mark.column += 1;
            self.index += 1;
        }
    }

    /// Steps over a character and keeps it.
    pub(super) fn read(&mut self, into: &mut String) {
        if self.mark.offset < self.text.len() {
            into.push(self.here());
            self.skip();
        }
    }

    /// Steps over a line break, if there is one.
    pub(super) fn skip_line(&mut self) {
        self.read_line(&mut String::new());
    }

    /// Steps over a line break, if there is one, and keeps it: as `\n`, or as the separator that it is.
    pub(super) fn read_line(&mut self, into: &mut String) {
        match self.here() {
            c @ ('\u{2028}' | '\u{2029}') => into.push(c),
            '\r' | '\n' | '\u{85}' => into.push('\n'),
            _ => return,
        }
        if self.here() == '\r' && self.at(1) == '\n' {
            self.skip();
        }
        self.skip();
        self.mark.line += 1;
        self.mark.column = 1;
    }

    /// Steps over blanks, and a comment if one follows.
    pub(super) fn skip_comment(&mut self) {
        while is_blank(self.here()) {
            self.skip();
        }
        if self.here() == '#' {
            while !is_break_or_end(self.here()) {
                self.skip();
            }
        }
    }

    /// Whether `---` or `...` stands here, at the start of a line and alone.
    pub(super) fn document_indicator(&self) -> Option<char> {
        let c = self.here();
        let all = self.column() == 0 && (c == '-' || c == '.') && self.at(1) == c && self.at(2) == c;
        (all && is_blank_or_end(self.at(3))).then_some(c)
    }

    /// Whether the kubelet's reader has come across a character that may not be in a text.
    pub(super) fn is_forbidden(&self) -> bool {
        let reached = (self.mark.offset + 4).next_multiple_of(PIECE);
        self.forbidden.is_some_and(|at| at < reached)
    }

    /// A character that may not be in a text.
    pub(super) fn forbidden(&self) -> Option<char> {
        self.text.get(self.forbidden?..)?.chars().next()
    }
}

fn is_allowed(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..)
}

pub(super) fn is_blank(c: char) -> bool {
    c == ' ' || c == '\t'
}

pub(super) fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

pub(super) fn is_break_or_end(c: char) -> bool {
    is_break(c) || c == '\0'
}

pub(super) fn is_blank_or_end(c: char) -> bool {
    is_blank(c) || is_break_or_end(c)
}

/// A character of the names of anchors, tags and directives.
pub(super) fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}
