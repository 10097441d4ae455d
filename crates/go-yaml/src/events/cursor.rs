//! A position in a YAML text, and the character classes of YAML 1.1.

use super::Mark;

/// yaml.v2 takes a text in pieces of this size in bytes, and checks the characters of a piece when it
/// reads the piece. Forbidden characters in unread pieces go unnoticed.
const PIECE: usize = 512;

#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    pub(super) mark: Mark,
    /// Characters before the mark.
    pub(super) index: usize,
    /// Offset of the first forbidden character.
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

    /// Returns the character `ahead` of the current one; NUL after the end of the text.
    pub(super) fn at(&self, ahead: usize) -> char {
        self.text.get(self.mark.offset..).and_then(|rest| rest.chars().nth(ahead)).unwrap_or('\0')
    }

    /// Returns the current character; NUL at the end of the text.
    pub(super) fn here(&self) -> char {
        self.at(0)
    }

    /// Returns the column, from 0.
    pub(super) fn column(&self) -> usize {
        self.mark.column - 1
    }

    /// Skips a character that is not a line break.
    pub(super) fn skip(&mut self) {
        let c = self.here();
        if self.mark.offset < self.text.len() {
            self.mark.offset += c.len_utf8();
            self.mark.column += 1;
            self.index += 1;
        }
    }

    /// Appends the current character, and skips it. Does nothing at the end of the text.
    pub(super) fn read(&mut self, into: &mut String) {
        if self.mark.offset < self.text.len() {
            into.push(self.here());
            self.skip();
        }
    }

    /// Skips a line break, if any.
    pub(super) fn skip_line(&mut self) {
        self.read_line(&mut String::new());
    }

    /// Reads a line break, if any: as `\n`, or unchanged for a separator.
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

    /// Skips blanks, and a comment after them.
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

    /// Returns the character of a `---` or `...` at the start of a line, followed by a blank or the end.
    pub(super) fn document_indicator(&self) -> Option<char> {
        let c = self.here();
        let all = self.column() == 0 && (c == '-' || c == '.') && self.at(1) == c && self.at(2) == c;
        (all && is_blank_or_end(self.at(3))).then_some(c)
    }

    /// Reports whether yaml.v2 has reached a forbidden character.
    pub(super) fn is_forbidden(&self) -> bool {
        let reached = (self.mark.offset + 4).next_multiple_of(PIECE);
        self.forbidden.is_some_and(|at| at < reached)
    }

    /// Returns the first forbidden character.
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

/// Reports whether a character can be part of the name of an anchor, tag or directive.
pub(super) fn is_name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}
