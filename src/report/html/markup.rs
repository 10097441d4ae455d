//! HTML in which no text from elsewhere can become anything but text.
//!
//! Names of elements and attributes are the program's own, and known when it is compiled. Everything else goes through
//! [`Markup::text`] or one of the few attributes that may hold it; each escapes, shows what would be invisible, and has an end.
//! No attribute that leads anywhere, or does anything, takes a text: links lead to places of the page itself.

use std::fmt::{self, Write as _};

use nodecfg_contract::printable::is_hidden;

/// How long one text may be, in characters. What is longer is cut, and shows that it was.
const MOST: usize = 2000;

/// A place of the page that links lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    /// A section, by a name of the program's own.
    Section(&'static str),
    /// A node, by its number on the page.
    Node(usize),
    /// A pool, by its number on the page.
    Pool(usize),
}

impl fmt::Display for Anchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Section(name) => f.write_str(name),
            Self::Node(number) => write!(f, "n{number}"),
            Self::Pool(number) => write!(f, "p{number}"),
        }
    }
}

/// What is drawn by a `path` of SVG: numbers and nothing else.
#[derive(Debug, Clone, Default)]
pub(super) struct Drawing(String);

impl Drawing {
    /// Puts the pen down somewhere.
    pub(super) fn begin(&mut self, x: u32, y: u32) {
        // Writing to a string does not fail.
        let _ = write!(self.0, "M{x} {y}");
    }

    /// Draws a line to there.
    pub(super) fn line(&mut self, x: u32, y: u32) {
        let _ = write!(self.0, "L{x} {y}");
    }

    /// Closes the shape.
    pub(super) fn close(&mut self) {
        self.0.push('Z');
    }
}

/// An attribute.
#[derive(Debug, Clone, Copy)]
pub(super) enum Attribute<'a> {
    /// One that is the program's own.
    Fixed(&'static str, &'static str),
    /// The name of a place.
    Id(Anchor),
    /// A link to a place.
    Href(Anchor),
    /// The name of an element for those who do not see it.
    Label(&'a str),
    /// The shape of a path.
    Shape(&'a Drawing),
}

/// A class.
pub(super) fn class(name: &'static str) -> Attribute<'static> {
    Attribute::Fixed("class", name)
}

/// A page while it is written.
#[derive(Debug, Default)]
pub(super) struct Markup {
    html: String,
}

impl Markup {
    /// What was written.
    pub(super) fn finish(self) -> String {
        self.html
    }

    /// Adds an element with what is in it.
    pub(super) fn element(
        &mut self,
        name: &'static str,
        attributes: &[Attribute<'_>],
        content: impl FnOnce(&mut Self),
    ) {
        self.open(name, attributes);
        content(self);
        let _ = write!(self.html, "</{name}>");
    }

    /// Adds an element with a text in it.
    pub(super) fn leaf(&mut self, name: &'static str, attributes: &[Attribute<'_>], text: &str) {
        self.element(name, attributes, |inner| inner.text(text));
    }

    /// Adds the beginning of an element; for one that has no end, all of it.
    pub(super) fn open(&mut self, name: &'static str, attributes: &[Attribute<'_>]) {
        self.html.push('<');
        self.html.push_str(name);
        for attribute in attributes {
            self.attribute(*attribute);
        }
        self.html.push('>');
    }

    fn attribute(&mut self, attribute: Attribute<'_>) {
        let _ = match attribute {
            Attribute::Fixed(name, "") => write!(self.html, " {name}"),
            Attribute::Fixed(name, value) => write!(self.html, " {name}=\"{value}\""),
            Attribute::Id(anchor) => write!(self.html, " id=\"{anchor}\""),
            Attribute::Href(anchor) => write!(self.html, " href=\"#{anchor}\""),
            Attribute::Shape(drawing) => write!(self.html, " d=\"{}\"", drawing.0),
            Attribute::Label(text) => {
                self.html.push_str(" aria-label=\"");
                self.text(text);
                self.html.push('"');
                Ok(())
            }
        };
    }

    /// Adds a text as text.
    pub(super) fn text(&mut self, text: &str) {
        for (number, character) in text.chars().enumerate() {
            if number == MOST {
                self.html.push('…');
                break;
            }
            self.character(character);
        }
    }

    fn character(&mut self, character: char) {
        match character {
            '&' => self.html.push_str("&amp;"),
            '<' => self.html.push_str("&lt;"),
            '>' => self.html.push_str("&gt;"),
            '"' => self.html.push_str("&quot;"),
            '\'' => self.html.push_str("&#39;"),
            '\n' => self.html.push('\n'),
            '\t' => self.html.push(' '),
            hidden if is_hidden(hidden) => {
                let _ = write!(self.html, "⟨U+{:04X}⟩", u32::from(hidden));
            }
            other => self.html.push(other),
        }
    }

    /// Adds a text of nodecfg's own, which may quote others: what stands between backticks is code.
    pub(super) fn prose(&mut self, text: &str) {
        // Without a closing one there is no code; a cut could take it away.
        if text.chars().count() > MOST || !text.matches('`').count().is_multiple_of(2) {
            return self.text(text);
        }
        for (number, part) in text.split('`').enumerate() {
            if number.is_multiple_of(2) { self.text(part) } else { self.leaf("code", &[], part) }
        }
    }

    /// Adds something of the program's own as it is: its style, its script.
    pub(super) fn own(&mut self, text: &'static str) {
        self.html.push_str(text);
    }

    /// Adds a hash, in base64, of something of the program's own.
    pub(super) fn digest(&mut self, hash: &[u8]) {
        use base64::Engine as _;
        self.html.push_str(&base64::engine::general_purpose::STANDARD.encode(hash));
    }

    /// A line end, for those who read the source.
    pub(super) fn line(&mut self) {
        self.html.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(text: &str) -> String {
        let mut markup = Markup::default();
        markup.text(text);
        markup.finish()
    }

    #[test]
    fn what_could_be_markup_is_text() {
        assert_eq!(text("<script>alert('&')</script>"), "&lt;script&gt;alert(&#39;&amp;&#39;)&lt;/script&gt;");
        assert_eq!(text("\" onmouseover=\"x"), "&quot; onmouseover=&quot;x");
        let mut markup = Markup::default();
        markup.element("p", &[class("x"), Attribute::Label("\"><b>"), Attribute::Id(Anchor::Node(3))], |inner| {
            inner.prose("see `a<b` and `c`");
        });
        assert_eq!(
            markup.finish(),
            "<p class=\"x\" aria-label=\"&quot;&gt;&lt;b&gt;\" id=\"n3\">see <code>a&lt;b</code> and <code>c</code></p>"
        );
    }

    #[test]
    fn what_is_not_seen_is_shown() {
        assert_eq!(text("a\u{202e}b\u{0}c\u{200b}"), "a⟨U+202E⟩b⟨U+0000⟩c⟨U+200B⟩");
        assert_eq!(text("one\ntwo\tthree é 漢"), "one\ntwo three é 漢");
    }

    #[test]
    fn a_text_has_an_end() {
        let long = text(&"x".repeat(1_000_000));
        assert_eq!(long.chars().count(), MOST + 1);
        assert!(long.ends_with('…'));
        let mut markup = Markup::default();
        markup.prose(&"`x` ".repeat(1_000_000));
        assert_eq!(markup.finish().chars().count(), MOST + 1);
    }

    proptest! {
        #[test]
        fn no_text_leaves_its_place(given in any::<String>()) {
            for shown in [text(&given), { let mut markup = Markup::default(); markup.prose(&given); markup.finish() }] {
                let without_code = shown.replace("<code>", "").replace("</code>", "");
                prop_assert!(!without_code.contains(['<', '>', '"', '\'']), "{shown}");
                let entities = ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"];
                let rest = entities.iter().fold(without_code, |text, entity| text.replace(entity, ""));
                prop_assert!(!rest.contains('&'), "{shown}");
            }
        }
    }
}
