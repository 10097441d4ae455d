//! Untrusted text in HTML pages: escaped, with visible hidden characters, and cut at a maximum length.
//!
//! maud escapes all texts. [`Plain`] and [`Prose`] also show hidden characters and cut long texts. Templates must use
//! them for texts from a cluster, a repository or a command line.

use std::fmt::Write as _;

use maud::{Escaper, Render, html};

use nodecfg_contract::printable::is_hidden;

/// The maximum length of a text, in characters.
const MAX_LENGTH: usize = 2000;

/// A text to insert into a page.
pub(super) struct Plain<'a>(pub(super) &'a str);

impl Render for Plain<'_> {
    fn render_to(&self, out: &mut String) {
        let mut out = Escaper::new(out);
        for (number, character) in self.0.chars().enumerate() {
            // Writing to a string does not fail.
            let _ = match character {
                _ if number == MAX_LENGTH => return out.write_char('…').unwrap_or_default(),
                '\n' => out.write_char('\n'),
                '\t' => out.write_char(' '),
                hidden if is_hidden(hidden) => write!(out, "⟨U+{:04X}⟩", u32::from(hidden)),
                other => out.write_char(other),
            };
        }
    }
}

/// A message of nodecfg, which may quote other texts. Plain between backticks becomes code.
pub(super) struct Prose<'a>(pub(super) &'a str);

impl Render for Prose<'_> {
    fn render_to(&self, out: &mut String) {
        // An unpaired backtick opens no code, and cutting could remove its pair.
        if self.0.chars().count() > MAX_LENGTH || !self.0.matches('`').count().is_multiple_of(2) {
            return Plain(self.0).render_to(out);
        }
        for (number, part) in self.0.split('`').enumerate() {
            if number.is_multiple_of(2) {
                Plain(part).render_to(out);
            } else {
                html! { code { (Plain(part)) } }.render_to(out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(text: &str) -> String {
        Plain(text).render().into_string()
    }

    #[test]
    fn escapes_markup() {
        assert_eq!(text("<script>alert('&')</script>"), "&lt;script&gt;alert('&amp;')&lt;/script&gt;");
        assert_eq!(text("\" onmouseover=\"x"), "&quot; onmouseover=&quot;x");
        let shown = html! { p aria-label=(Plain("\"><b>")) { (Prose("see `a<b` and `c`")) } };
        assert_eq!(
            shown.into_string(),
            "<p aria-label=\"&quot;&gt;&lt;b&gt;\">see <code>a&lt;b</code> and <code>c</code></p>"
        );
    }

    #[test]
    fn shows_hidden_characters() {
        assert_eq!(text("a\u{202e}b\u{0}c\u{200b}"), "a⟨U+202E⟩b⟨U+0000⟩c⟨U+200B⟩");
        assert_eq!(text("one\ntwo\tthree é 漢"), "one\ntwo three é 漢");
    }

    #[test]
    fn cuts_long_texts() {
        let long = text(&"x".repeat(1_000_000));
        assert_eq!(long.chars().count(), MAX_LENGTH + 1);
        assert!(long.ends_with('…'));
        let prose = Prose(&"`x` ".repeat(1_000_000)).render().into_string();
        assert_eq!(prose.chars().count(), MAX_LENGTH + 1);
    }

    proptest! {
        #[test]
        fn no_text_escapes_its_element(given in any::<String>()) {
            for shown in [text(&given), Prose(&given).render().into_string()] {
                let without_code = shown.replace("<code>", "").replace("</code>", "");
                prop_assert!(!without_code.contains(['<', '>', '"']), "{shown}");
                let entities = ["&amp;", "&lt;", "&gt;", "&quot;"];
                let rest = entities.iter().fold(without_code, |text, entity| text.replace(entity, ""));
                prop_assert!(!rest.contains('&'), "{shown}");
            }
        }
    }
}
