//! Sanitizing of external texts for display: removes characters that control a terminal, change the text direction,
//! or are invisible.
//!
//! All texts from a cluster, a node, a commit or a command line must pass through this module before display.

/// Reports whether a character is invisible or affects other characters: controls, formats, line ends, unassigned
/// characters and blank letters.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    if c.is_whitespace() {
        // Other white space is harmless; these characters end lines.
        return matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}');
    }
    matches!(c, '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{3164}' | '\u{ffa0}')
        || matches!(c, '\u{180b}'..='\u{180f}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0000}'..='\u{e0fff}')
        // The standard library knows the categories. The preceding letter carries combining marks.
        || format!("a{c}").escape_debug().nth(1) == Some('\\')
}

/// The text on one line, without hidden characters.
#[must_use]
pub fn one_line(text: &str) -> String {
    let parts = text.split(|c: char| c.is_control() || c.is_whitespace());
    let parts = parts.map(|part| part.chars().filter(|c| !is_hidden(*c)).collect::<String>());
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// The text with its line breaks. Other controls become spaces, other hidden characters are removed.
#[must_use]
pub fn lines(text: &str) -> String {
    let shown = |c: char| match c {
        '\n' => Some('\n'),
        c if c.is_control() => Some(' '),
        c => (!is_hidden(c)).then_some(c),
    };
    text.chars().filter_map(shown).collect()
}

/// The text on one line, with hidden characters and all white space except spaces escaped, for example as `\u{2028}`.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c == ' ' || !(is_hidden(c) || c.is_whitespace()) {
            shown.push(c);
        } else {
            shown.extend(c.escape_unicode());
        }
    }
    shown
}

/// The first `characters` characters of a text, with a mark if the text is longer.
#[must_use]
pub fn at_most(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Maximum length of an external remark, in characters.
const REMARK: usize = 200;

/// An external remark on one line, cut to its maximum length.
#[must_use]
pub fn remark(text: &str) -> String {
    at_most(&one_line(text), REMARK)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Terminal escapes and their C1 forms, YAML line ends, direction changes, and invisible characters.
    const HOSTILE: &str = "a\u{1b}]52;c;eA==\u{7}b\u{9b}2Jc\u{85}d\u{2028}e\u{2029}f\u{202e}g\u{2066}h\u{200b}i\u{feff}j\u{ad}k\u{61c}l\u{e0041}m\u{3164}n";

    #[test]
    fn removes_hidden_characters() {
        let quiet = |text: &str| !text.chars().any(|c| is_hidden(c) || (c.is_whitespace() && c != ' '));
        assert_eq!(one_line(HOSTILE), "a ]52;c;eA== b 2Jc d e fghijklmn");
        for shown in [one_line(HOSTILE), lines(HOSTILE), escaped(HOSTILE), remark(HOSTILE)] {
            assert!(quiet(&shown), "{shown:?}");
        }
        assert_eq!(escaped("a\u{2028}b\nc"), "a\\u{2028}b\\u{a}c");
    }

    #[test]
    fn keeps_words_of_every_language() {
        for text in ["plain \"text\" 'with' \\ marks", "Zürich", "e\u{301}te\u{301}", "日本語", "ไทย", "हिन्दी", "…×→"]
        {
            assert_eq!(one_line(text), text);
            assert_eq!(escaped(text), text);
        }
        assert_eq!(escaped("1\u{a0}node"), "1\\u{a0}node");
        assert!(!is_hidden('\u{a0}'));
        assert_eq!(lines("first\n  - second\tthird"), "first\n  - second third");
    }

    #[test]
    fn cuts_long_texts_between_characters() {
        assert_eq!(remark(&"é".repeat(300)).chars().count(), 201);
        assert_eq!(at_most("été", 3), "été");
    }
}
