//! Scanning of directives, anchors, aliases and tags.

use std::collections::BTreeMap;

use super::cursor::{is_blank, is_blank_or_end, is_break_or_end, is_name_character};
use super::scanner::{Kind, Scanner};
use super::{Malformed, Mark};
use crate::scalar::CORE;

impl Scanner<'_> {
    /// Reads `%YAML 1.1` or `%TAG ! tag:example.org,2000:`, to the end of the line.
    pub(super) fn directive(&mut self) -> Result<(), Malformed> {
        let start = self.cursor.mark;
        self.cursor.skip();
        let name = self.name();
        if name.is_empty() {
            return Err(self.malformed("could not find expected directive name"));
        }
        if !is_blank_or_end(self.cursor.here()) {
            return Err(self.malformed("found unexpected non-alphabetical character"));
        }
        let (kind, text, suffix) = match name.as_str() {
            "YAML" => {
                self.blanks();
                let major = self.version_number()?;
                if self.cursor.here() != '.' {
                    return Err(self.malformed("did not find expected digit or '.' character"));
                }
                self.cursor.skip();
                (Kind::VersionDirective, format!("{major}.{}", self.version_number()?), String::new())
            }
            "TAG" => {
                self.blanks();
                let handle = self.tag_handle(true)?;
                if !is_blank(self.cursor.here()) {
                    return Err(self.malformed("did not find expected whitespace"));
                }
                self.blanks();
                let prefix = self.tag_uri("")?;
                if !is_blank_or_end(self.cursor.here()) {
                    return Err(self.malformed("did not find expected whitespace or line break"));
                }
                (Kind::TagDirective, handle, prefix)
            }
            _ => return Err(self.malformed("found unknown directive name")),
        };
        self.push_text(kind, start, self.cursor.mark, text, suffix);
        self.cursor.skip_comment();
        if !is_break_or_end(self.cursor.here()) {
            return Err(self.malformed("did not find expected comment or line break"));
        }
        self.cursor.skip_line();
        Ok(())
    }

    fn blanks(&mut self) {
        while is_blank(self.cursor.here()) {
            self.cursor.skip();
        }
    }

    fn name(&mut self) -> String {
        let mut name = String::new();
        while is_name_character(self.cursor.here()) {
            self.cursor.read(&mut name);
        }
        name
    }

    fn version_number(&mut self) -> Result<u32, Malformed> {
        let mut digits = String::new();
        while self.cursor.here().is_ascii_digit() {
            if digits.len() == 2 {
                return Err(self.malformed("found extremely long version number"));
            }
            self.cursor.read(&mut digits);
        }
        digits.parse().map_err(|_| self.malformed("did not find expected version number"))
    }

    /// Reads `&name` or `*name`.
    pub(super) fn anchor(&mut self, kind: Kind) -> Result<(), Malformed> {
        let start = self.cursor.mark;
        self.cursor.skip();
        let name = self.name();
        let next = self.cursor.here();
        if name.is_empty() || !(is_blank_or_end(next) || "?:,]}%@`".contains(next)) {
            return Err(self.malformed("did not find expected alphabetic or numeric character"));
        }
        self.push_text(kind, start, self.cursor.mark, name, String::new());
        Ok(())
    }

    /// Reads `!<tag>`, `!handle!suffix`, `!suffix` or `!`.
    pub(super) fn tag(&mut self) -> Result<(), Malformed> {
        let start = self.cursor.mark;
        let (handle, suffix) = if self.cursor.at(1) == '<' {
            self.cursor.skip();
            self.cursor.skip();
            let tag = self.tag_uri("")?;
            if self.cursor.here() != '>' {
                return Err(self.malformed("did not find the expected '>'"));
            }
            self.cursor.skip();
            (String::new(), tag)
        } else {
            let handle = self.tag_handle(false)?;
            if handle.len() > 1 && handle.ends_with('!') {
                let suffix = self.tag_uri("")?;
                (handle, suffix)
            } else {
                // The handle is the beginning of the suffix.
                let suffix = self.tag_uri(&handle)?;
                if suffix.is_empty() { (String::new(), "!".to_owned()) } else { ("!".to_owned(), suffix) }
            }
        };
        if !is_blank_or_end(self.cursor.here()) {
            return Err(self.malformed("did not find expected whitespace or line break"));
        }
        self.push_text(Kind::Tag, start, self.cursor.mark, handle, suffix);
        Ok(())
    }

    /// Reads a tag handle. In a `%TAG` directive (`directive`), it must end with `!`. Elsewhere, the result may be the
    /// beginning of a local tag.
    fn tag_handle(&mut self, directive: bool) -> Result<String, Malformed> {
        if self.cursor.here() != '!' {
            return Err(self.malformed("did not find expected '!'"));
        }
        self.cursor.skip();
        let mut handle = format!("!{}", self.name());
        if self.cursor.here() == '!' {
            self.cursor.read(&mut handle);
        } else if directive && handle != "!" {
            return Err(self.malformed("did not find expected '!'"));
        }
        Ok(handle)
    }

    /// Reads the rest of a tag. `head` is the beginning that was read as a handle, with its `!`; empty if there is
    /// none.
    fn tag_uri(&mut self, head: &str) -> Result<String, Malformed> {
        let mut uri = head.strip_prefix('!').unwrap_or_default().to_owned();
        let start = self.cursor.mark;
        loop {
            let c = self.cursor.here();
            if c == '%' {
                self.escaped_character(&mut uri)?;
            } else if is_name_character(c) || ";/?:@&=+$,.!~*'()[]".contains(c) {
                self.cursor.read(&mut uri);
            } else {
                break;
            }
        }
        if head.is_empty() && start == self.cursor.mark {
            return Err(self.malformed("did not find expected tag URI"));
        }
        Ok(uri)
    }

    /// Reads one percent-encoded character of a tag, such as `%C3%A9`.
    fn escaped_character(&mut self, into: &mut String) -> Result<(), Malformed> {
        let (mut bytes, mut length) = (Vec::new(), 1);
        while bytes.len() < length {
            let digits = (self.cursor.at(1).to_digit(16), self.cursor.at(2).to_digit(16));
            let ('%', (Some(high), Some(low))) = (self.cursor.here(), digits) else {
                return Err(self.malformed("did not find URI escaped octet"));
            };
            let byte = u8::try_from(high * 16 + low).unwrap_or_default();
            if bytes.is_empty() {
                length = match byte {
                    0..0x80 => 1,
                    0xc0..0xe0 => 2,
                    0xe0..0xf0 => 3,
                    0xf0..0xf8 => 4,
                    _ => return Err(self.malformed("found an incorrect leading UTF-8 octet")),
                };
            } else if byte & 0xc0 != 0x80 {
                return Err(self.malformed("found an incorrect trailing UTF-8 octet"));
            }
            bytes.push(byte);
            (0..3).for_each(|_| self.cursor.skip());
        }
        into.push_str(&String::from_utf8_lossy(&bytes));
        Ok(())
    }
}

/// The tag handles of a document, each with its prefix.
#[derive(Default)]
pub(super) struct Handles(BTreeMap<String, String>);

impl Handles {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds the default handles that the document does not redefine.
    pub(super) fn add_default(&mut self) {
        for (handle, prefix) in [("!", "!"), ("!!", CORE)] {
            self.0.entry(handle.to_owned()).or_insert_with(|| prefix.to_owned());
        }
    }

    pub(super) fn add(&mut self, handle: String, prefix: String, mark: Mark) -> Result<(), Malformed> {
        match self.0.insert(handle, prefix) {
            Some(_) => Err(Malformed::new("found duplicate %TAG directive", mark)),
            None => Ok(()),
        }
    }

    /// Expands a tag.
    pub(super) fn resolve(&self, handle: &str, suffix: &str, mark: Mark) -> Result<String, Malformed> {
        if handle.is_empty() {
            return Ok(suffix.to_owned());
        }
        let tag = self.0.get(handle).map(|prefix| format!("{prefix}{suffix}"));
        tag.filter(|tag| !tag.is_empty()).ok_or_else(|| Malformed::new("found undefined tag handle", mark))
    }
}
