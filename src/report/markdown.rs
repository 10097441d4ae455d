//! Text from elsewhere within GitHub-flavoured markdown: it must show as what it is, and never become markup.

/// What keeps apart what must not be read together: `@` and a name notify somebody, `#` and a number refer to an issue and are
/// told there, and both do so after entities and backslashes are gone.
const APART: char = '\u{200b}';

/// Text as code within a table cell: longer backtick runs than the text has, no cell border, and no line end.
pub(super) fn code(text: &str) -> String {
    if text.is_empty() {
        // Two backticks alone would open a code of that length.
        return "` `".to_owned();
    }
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    let shown = text.replace('|', "\\|").replace(|c: char| c.is_control(), " ");
    format!("{fence}{pad}{shown}{pad}{fence}")
}

/// Prose of nodecfg itself, which may quote names and values, within a table cell or a list. What it sets in backticks
/// stays code; outside of them nothing opens a tag, a link or an emphasis, and nobody is notified.
pub(super) fn prose(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    // Within code, entities and backslashes would show; without a closing backtick there is no code.
    let paired = text.matches('`').count().is_multiple_of(2) && !text.contains("``");
    let mut in_code = false;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '`' if paired => {
                in_code = !in_code;
                shown.push('`');
            }
            '|' => shown.push_str("\\|"),
            '\n' => shown.push_str(if in_code { " " } else { "<br>" }),
            control if control.is_control() => shown.push(' '),
            '<' if !in_code => shown.push_str("&lt;"),
            '&' if !in_code => shown.push_str("&amp;"),
            '*' | '_' | '`' | '[' | '~' | '\\' if !in_code => {
                shown.push('\\');
                shown.push(character);
            }
            '@' | '#' if !in_code => shown.extend([character, APART]),
            ':' if !in_code && characters.peek() == Some(&'/') => shown.extend([character, APART]),
            // Without a scheme, too, this would be a link.
            '.' if !in_code && ends_with_www(&shown) => shown.extend([APART, character]),
            '-' if !in_code && shown.ends_with(['H', 'h']) => shown.extend([APART, character]),
            other => shown.push(other),
        }
    }
    shown
}

fn ends_with_www(text: &str) -> bool {
    let mut last = text.chars().rev();
    (0..3).all(|_| last.next().is_some_and(|letter| letter.eq_ignore_ascii_case(&'w')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_survives_backticks_and_borders() {
        assert_eq!(code("a"), "`a`");
        assert_eq!(code("a`b"), "``a`b``");
        assert_eq!(code("`a"), "`` `a ``");
        assert_eq!(code("a|b"), "`a\\|b`");
        assert_eq!(code("a\r\nb"), "`a  b`");
        assert_eq!(code("a\\|b"), "`a\\\\|b`");
        assert_eq!(code(""), "` `");
    }

    #[test]
    fn prose_never_becomes_markup() {
        assert_eq!(prose("`spec.x[0]`: \"<b>\" | a_b"), "`spec.x[0]`: \"&lt;b>\" \\| a\\_b");
        assert_eq!(prose("a ` b < c"), "a \\` b &lt; c");
        assert_eq!(prose("one\ntwo `<x>`"), "one<br>two `<x>`");
        assert_eq!(prose("a `` b"), "a \\`\\` b");
    }

    #[test]
    fn prose_notifies_nobody() {
        let apart = |text: &str| text.replace('^', "\u{200b}");
        assert_eq!(prose("ask @octocat, see o/r#12 or GH-3"), apart("ask @^octocat, see o/r#^12 or GH^-3"));
        assert_eq!(prose("https://github.com/o/r/issues/1"), apart("https:^//github.com/o/r/issues/1"));
        assert_eq!(prose("www.e.x, (WwW.e.x)"), apart("www^.e.x, (WwW^.e.x)"));
        assert_eq!(prose("`www.e.x` stays"), "`www.e.x` stays");
        assert_eq!(prose("`@octocat` stays"), "`@octocat` stays");
    }
}
