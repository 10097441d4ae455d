//! Scanning of scalars, including the folding of their lines.

use super::Malformed;
use super::cursor::{is_blank, is_blank_or_end, is_break, is_break_or_end};
use super::scanner::{Kind, Scanner};

/// Blanks and line breaks between two parts of a scalar's text.
#[derive(Default)]
struct Gap {
    /// Blanks on the line of the preceding text.
    blanks: String,
    /// The first line break; empty if it was escaped.
    first: String,
    /// The following line breaks.
    more: String,
    /// True if the gap contains a line break.
    broken: bool,
}

impl Gap {
    /// Writes the folded gap: blanks unchanged, a single line break as a blank, several without the first. The
    /// separators U+2028 and U+2029 are kept.
    fn fold(&mut self, into: &mut String) {
        let gap = std::mem::take(self);
        if !gap.broken {
            into.push_str(&gap.blanks);
        } else if !gap.first.starts_with('\n') {
            into.push_str(&gap.first);
            into.push_str(&gap.more);
        } else if gap.more.is_empty() {
            into.push(' ');
        } else {
            into.push_str(&gap.more);
        }
    }
}

impl Scanner<'_> {
    /// Reads a blank or a line break of a gap.
    fn gap(&mut self, gap: &mut Gap) {
        if is_blank(self.cursor.here()) {
            if gap.broken { self.cursor.skip() } else { self.cursor.read(&mut gap.blanks) }
        } else if gap.broken {
            self.cursor.read_line(&mut gap.more);
        } else {
            gap.blanks.clear();
            self.cursor.read_line(&mut gap.first);
            gap.broken = true;
        }
    }

    /// Reads a plain scalar. It ends at `: `, at ` #` or at a document indicator. Inside a flow collection it also
    /// ends at a flow indicator. Outside it ends at a line that is not indented further than the enclosing block.
    pub(super) fn plain_scalar(&mut self) -> Result<(), Malformed> {
        let start = self.cursor.mark;
        let (mut text, mut gap, mut end) = (String::new(), Gap::default(), start);
        let flow = self.flow_level > 0;
        let is_outside = |column: usize, indent: isize| isize::try_from(column).is_ok_and(|column| column <= indent);
        while self.cursor.document_indicator().is_none() && self.cursor.here() != '#' {
            loop {
                let c = self.cursor.here();
                let ends = (c == ':' && is_blank_or_end(self.cursor.at(1))) || (flow && ",?[]{}".contains(c));
                if is_blank_or_end(c) || ends {
                    break;
                }
                gap.fold(&mut text);
                self.cursor.read(&mut text);
                end = self.cursor.mark;
            }
            if !(is_blank(self.cursor.here()) || is_break(self.cursor.here())) {
                break;
            }
            while is_blank(self.cursor.here()) || is_break(self.cursor.here()) {
                if gap.broken && self.cursor.here() == '\t' && is_outside(self.cursor.column(), self.indent) {
                    return Err(self.malformed("found a tab character that violates indentation"));
                }
                self.gap(&mut gap);
            }
            if !flow && is_outside(self.cursor.column(), self.indent) {
                break;
            }
        }
        if gap.broken {
            self.key_allowed = true;
        }
        self.push_text(Kind::Scalar { plain: true }, start, end, text, String::new());
        Ok(())
    }

    /// Reads a quoted scalar: single-quoted if `single`, otherwise double-quoted.
    pub(super) fn quoted_scalar(&mut self, single: bool) -> Result<(), Malformed> {
        let start = self.cursor.mark;
        let quote = self.cursor.here();
        self.cursor.skip();
        let mut text = String::new();
        loop {
            if self.cursor.document_indicator().is_some() {
                return Err(self.malformed("found unexpected document indicator").began([start]));
            }
            if self.cursor.here() == '\0' {
                return Err(self.malformed("found unexpected end of stream").began([start]));
            }
            let mut gap = Gap::default();
            while !is_blank_or_end(self.cursor.here()) {
                match self.cursor.here() {
                    '\'' if single && self.cursor.at(1) == '\'' => {
                        self.cursor.skip();
                        self.cursor.read(&mut text);
                    }
                    c if c == quote => break,
                    '\\' if !single && is_break(self.cursor.at(1)) => {
                        self.cursor.skip();
                        self.cursor.skip_line();
                        gap.broken = true;
                        break;
                    }
                    '\\' if !single => self.escape(&mut text)?,
                    _ => self.cursor.read(&mut text),
                }
            }
            if self.cursor.here() == quote {
                break;
            }
            while is_blank(self.cursor.here()) || is_break(self.cursor.here()) {
                self.gap(&mut gap);
            }
            gap.fold(&mut text);
        }
        self.cursor.skip();
        self.push_text(Kind::Scalar { plain: false }, start, self.cursor.mark, text, String::new());
        Ok(())
    }

    fn escape(&mut self, text: &mut String) -> Result<(), Malformed> {
        let digits = match self.cursor.at(1) {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            c => {
                let meant = match c {
                    '0' => '\0',
                    'a' => '\u{7}',
                    'b' => '\u{8}',
                    't' | '\t' => '\t',
                    'n' => '\n',
                    'v' => '\u{b}',
                    'f' => '\u{c}',
                    'r' => '\r',
                    'e' => '\u{1b}',
                    ' ' | '"' | '\'' | '\\' => c,
                    'N' => '\u{85}',
                    '_' => '\u{a0}',
                    'L' => '\u{2028}',
                    'P' => '\u{2029}',
                    _ => return Err(self.malformed("found unknown escape character")),
                };
                text.push(meant);
                0
            }
        };
        self.cursor.skip();
        self.cursor.skip();
        let mut code: u32 = 0;
        for ahead in 0..digits {
            let Some(digit) = self.cursor.at(ahead).to_digit(16) else {
                return Err(self.malformed("did not find expected hexdecimal number"));
            };
            code = (code << 4) | digit;
        }
        if digits > 0 {
            let c = char::from_u32(code);
            text.push(c.ok_or_else(|| self.malformed("found invalid Unicode character escape code"))?);
            (0..digits).for_each(|_| self.cursor.skip());
        }
        Ok(())
    }

    /// Reads a block: literal (`|`) if `literal`, otherwise folded (`>`).
    pub(super) fn block_scalar(&mut self, literal: bool) -> Result<(), Malformed> {
        let start = self.cursor.mark;
        self.cursor.skip();
        let (chomping, increment) = self.block_header()?;
        let mut indent = match increment {
            0 => 0,
            _ => increment + usize::try_from(self.indent).unwrap_or(0),
        };
        let (mut text, mut first, mut more) = (String::new(), String::new(), String::new());
        let mut end = self.cursor.mark;
        self.block_breaks(&mut indent, &mut more, &mut end)?;
        let mut was_blank = false;
        while self.cursor.column() == indent && self.cursor.here() != '\0' {
            // Lines that begin with a blank keep the line breaks before and after them.
            let blank = is_blank(self.cursor.here());
            if !literal && !was_blank && !blank && first.starts_with('\n') {
                if more.is_empty() {
                    text.push(' ');
                }
            } else {
                text.push_str(&first);
            }
            first.clear();
            text.push_str(&std::mem::take(&mut more));
            was_blank = blank;
            while !is_break_or_end(self.cursor.here()) {
                self.cursor.read(&mut text);
            }
            self.cursor.read_line(&mut first);
            self.block_breaks(&mut indent, &mut more, &mut end)?;
        }
        if chomping != Some('-') {
            text.push_str(&first);
        }
        if chomping == Some('+') {
            text.push_str(&more);
        }
        self.push_text(Kind::Scalar { plain: false }, start, end, text, String::new());
        Ok(())
    }

    /// Reads a header such as `+2` or `2-` and the rest of the line. Returns the chomping indicator and the
    /// indentation indicator (0 if absent).
    fn block_header(&mut self) -> Result<(Option<char>, usize), Malformed> {
        let (mut chomping, mut increment) = (None, 0);
        for _ in 0..2 {
            match self.cursor.here() {
                c @ ('+' | '-') if chomping.is_none() => chomping = Some(c),
                '0' if increment == 0 => {
                    return Err(self.malformed("found an indentation indicator equal to 0"));
                }
                c @ '1'..='9' if increment == 0 => {
                    increment = c.to_digit(10).and_then(|digit| usize::try_from(digit).ok()).unwrap_or_default();
                }
                _ => break,
            }
            self.cursor.skip();
        }
        self.cursor.skip_comment();
        if !is_break_or_end(self.cursor.here()) {
            return Err(self.malformed("did not find expected comment or line break"));
        }
        self.cursor.skip_line();
        Ok((chomping, increment))
    }

    /// Reads empty lines and the indentation of the next line. If `indent` is 0, the widest of these lines sets it.
    fn block_breaks(
        &mut self,
        indent: &mut usize,
        breaks: &mut String,
        end: &mut super::Mark,
    ) -> Result<(), Malformed> {
        *end = self.cursor.mark;
        let mut widest = 0;
        loop {
            while (*indent == 0 || self.cursor.column() < *indent) && self.cursor.here() == ' ' {
                self.cursor.skip();
            }
            widest = widest.max(self.cursor.column());
            if (*indent == 0 || self.cursor.column() < *indent) && self.cursor.here() == '\t' {
                return Err(self.malformed("found a tab character where an indentation space is expected"));
            }
            if !is_break(self.cursor.here()) {
                break;
            }
            self.cursor.read_line(breaks);
            *end = self.cursor.mark;
        }
        if *indent == 0 {
            *indent = widest.max(usize::try_from(self.indent + 1).unwrap_or(0)).max(1);
        }
        Ok(())
    }
}
