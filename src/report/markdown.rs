//! Text from elsewhere within GitHub-flavoured markdown: it must show as what it is, and never become markup.

/// Text as code within a table cell: longer backtick runs than the text has, and no cell border.
pub(super) fn code(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{pad}{}{pad}{fence}", text.replace('|', "\\|").replace('\n', " "))
}

/// Prose of nodecfg itself, which may quote names and values, within a table cell or a list. What it sets in backticks
/// stays code; outside of them nothing opens a tag or an emphasis.
pub(super) fn prose(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    // Within code, entities and backslashes would show; without a closing backtick there is no code.
    let paired = text.matches('`').count().is_multiple_of(2);
    let mut in_code = false;
    for character in text.chars() {
        match character {
            '`' if paired => {
                in_code = !in_code;
                shown.push('`');
            }
            '|' => shown.push_str("\\|"),
            '\n' => shown.push_str(if in_code { " " } else { "<br>" }),
            '<' if !in_code => shown.push_str("&lt;"),
            '&' if !in_code => shown.push_str("&amp;"),
            '*' | '_' | '`' | '[' | '\\' if !in_code => {
                shown.push('\\');
                shown.push(character);
            }
            other => shown.push(other),
        }
    }
    shown
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
        assert_eq!(code("a\nb"), "`a b`");
    }

    #[test]
    fn prose_never_becomes_markup() {
        assert_eq!(prose("`spec.x[0]`: \"<b>\" | a_b"), "`spec.x[0]`: \"&lt;b>\" \\| a\\_b");
        assert_eq!(prose("a ` b < c"), "a \\` b &lt; c");
        assert_eq!(prose("one\ntwo `<x>`"), "one<br>two `<x>`");
    }
}
