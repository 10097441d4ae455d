//! Escaping of text for GitHub-flavoured markdown, so that text never becomes markup.

use nodecfg_contract::printable;

/// Zero-width space. Breaks up text that GitHub would turn into a notification or a link: `@name`, `#1`, `GH-1` and
/// URLs. An entity or a backslash does not, because GitHub resolves both first.
const ZERO_WIDTH_SPACE: char = '\u{200b}';

/// Text as a code span. The fence is longer than any run of backticks, and controls such as line ends become spaces.
/// Hidden characters are removed.
pub(super) fn code(text: &str) -> String {
    let text = printable::lines(text).replace('\n', " ");
    if text.is_empty() {
        // Two backticks alone would open a code span.
        return "` `".to_owned();
    }
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

/// A row of a table, of cells in markdown. Borders within cells are escaped.
pub(super) fn row(cells: impl IntoIterator<Item = String>) -> String {
    let cells: Vec<String> = cells.into_iter().map(|cell| cell.replace('|', "\\|")).collect();
    format!("| {} |\n", cells.join(" | "))
}

/// Escapes a message of nodecfg, which may quote names and values. Text in backticks stays code. Other text creates no tag, link, emphasis or notification. Hidden characters are removed.
pub(super) fn prose(text: &str) -> String {
    let text = printable::lines(text);
    let mut shown = String::with_capacity(text.len());
    // Code is not escaped, because it would show entities and backslashes. If backticks are unpaired or adjacent, the
    // text counts as without code.
    let paired = text.matches('`').count().is_multiple_of(2) && !text.contains("``");
    let mut in_code = false;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '`' if paired => {
                in_code = !in_code;
                shown.push('`');
            }
            '\n' => shown.push_str(if in_code { " " } else { "<br>" }),
            '<' if !in_code => shown.push_str("&lt;"),
            '&' if !in_code => shown.push_str("&amp;"),
            '*' | '_' | '`' | '[' | '~' | '\\' if !in_code => {
                shown.push('\\');
                shown.push(character);
            }
            '@' | '#' if !in_code => shown.extend([character, ZERO_WIDTH_SPACE]),
            ':' if !in_code && characters.peek() == Some(&'/') => shown.extend([character, ZERO_WIDTH_SPACE]),
            // GitHub links `www.` without a scheme too.
            '.' if !in_code && ends_with_www(&shown) => shown.extend([ZERO_WIDTH_SPACE, character]),
            '-' if !in_code && shown.ends_with(['H', 'h']) => shown.extend([ZERO_WIDTH_SPACE, character]),
            other => shown.push(other),
        }
    }
    shown
}

/// Escapes a text on a line of HTML, where markdown has no effect: it creates no tag, link or notification.
pub(super) fn html(text: &str) -> String {
    let text = printable::one_line(text);
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => shown.push_str("&lt;"),
            '&' => shown.push_str("&amp;"),
            '@' | '#' => shown.extend([character, ZERO_WIDTH_SPACE]),
            '/' if shown.ends_with(':') => shown.extend([ZERO_WIDTH_SPACE, character]),
            '.' if ends_with_www(&shown) => shown.extend([ZERO_WIDTH_SPACE, character]),
            '-' if shown.ends_with(['H', 'h']) => shown.extend([ZERO_WIDTH_SPACE, character]),
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
    fn code_keeps_backticks_and_borders() {
        assert_eq!(code("a"), "`a`");
        assert_eq!(code("a`b"), "``a`b``");
        assert_eq!(code("`a"), "`` `a ``");
        assert_eq!(row([code("a|b"), prose("c|d")]), "| `a\\|b` | c\\|d |\n");
        assert_eq!(code("a\r\nb"), "`a  b`");
        assert_eq!(code("`\u{200b}`a"), "``` ``a ```");
        assert_eq!(code("a\u{202e}b\u{1b}[31m"), "`ab [31m`");
        assert_eq!(code("a\\|b"), "`a\\|b`");
        assert_eq!(code(""), "` `");
    }

    #[test]
    fn prose_never_becomes_markup() {
        assert_eq!(prose("`spec.x[0]`: \"<b>\" | a_b"), "`spec.x[0]`: \"&lt;b>\" | a\\_b");
        assert_eq!(prose("a ` b < c"), "a \\` b &lt; c");
        assert_eq!(prose("one\ntwo `<x>`"), "one<br>two `<x>`");
        assert_eq!(prose("a `` b"), "a \\`\\` b");
        assert_eq!(prose("a\u{202e}b\u{200b}c\u{1b}\\[31m"), "abc \\\\\\[31m");
    }

    #[test]
    fn prose_creates_no_notification_or_link() {
        let apart = |text: &str| text.replace('^', "\u{200b}");
        assert_eq!(prose("ask @octocat, see o/r#12 or GH-3"), apart("ask @^octocat, see o/r#^12 or GH^-3"));
        assert_eq!(prose("https://github.com/o/r/issues/1"), apart("https:^//github.com/o/r/issues/1"));
        assert_eq!(prose("www.e.x, (WwW.e.x)"), apart("www^.e.x, (WwW^.e.x)"));
        assert_eq!(prose("`www.e.x` stays"), "`www.e.x` stays");
        assert_eq!(prose("`@octocat` stays"), "`@octocat` stays");
    }
}
