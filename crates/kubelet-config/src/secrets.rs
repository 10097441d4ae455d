//! Fields whose values may be secrets, and how they are kept out of what people and programs are shown.
//!
//! They are compared, hashed and rolled out like any other; only what is written about them leaves them out. What stands in
//! a ConfigMap, and what `explain` says of a field, is not touched.

use std::ops::RangeInclusive;

/// The fields: their values, and all values below them. HTTP headers carry tokens; nothing else in a KubeletConfiguration
/// is a secret by itself, as `k8s.io/kubelet/config/v1beta1` names files where it needs keys.
pub const SECRET: [&str; 1] = ["staticPodURLHeader"];

/// The field that is a URL, which may hold a password before its host or a token in its query.
pub const URL: &str = "staticPodURL";

/// What stands in place of a value.
pub const NOT_SHOWN: &str = "(not shown)";

/// Whether the value at a path of a file may be a secret. Fields that differ by case alone count too: they are mistakes,
/// with a value that is no less secret.
#[must_use]
pub fn is_secret(path: &str) -> bool {
    let first = path.trim_start_matches('/').split(['.', '[', '/', '{']).next().unwrap_or_default();
    SECRET.iter().any(|field| field.eq_ignore_ascii_case(first))
}

/// A value as it may be shown. `path` is where it stands in a file.
#[must_use]
pub fn shown(path: &str, value: &str) -> String {
    if is_secret(path) {
        return NOT_SHOWN.to_owned();
    }
    if path.trim_start_matches('/').eq_ignore_ascii_case(URL) { without_credentials(value) } else { value.to_owned() }
}

/// A URL, in quotes or not, without what stands before its host and after its path.
fn without_credentials(value: &str) -> String {
    let quoted = value.len() > 1 && value.starts_with('"') && value.ends_with('"');
    let url = value.trim_matches(|letter| quoted && letter == '"');
    let in_quotes = |url: String| if quoted { format!("\"{url}\"") } else { url };
    let Some((scheme, rest)) = url.split_once("://") else {
        return if url.contains(['@', '?', '#']) { NOT_SHOWN.to_owned() } else { value.to_owned() };
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (user, place) = match authority.rsplit_once('@') {
        Some((_, host)) => (format!("{NOT_SHOWN}@"), format!("{host}{path}")),
        None => (String::new(), rest.to_owned()),
    };
    let end = place.find(['?', '#']).unwrap_or(place.len());
    let (place, query) = place.split_at(end);
    let host = place.split('/').next().unwrap_or_default();
    let port = host.rsplit_once(']').map_or(host, |(_, port)| port).split_once(':').map(|(_, port)| port);
    if port.is_some_and(|port| !port.chars().all(|digit| digit.is_ascii_digit())) {
        // A password with a slash in it, perhaps.
        return NOT_SHOWN.to_owned();
    }
    let query = query.chars().next().map_or(String::new(), |mark| format!("{mark}{NOT_SHOWN}"));
    in_quotes(format!("{scheme}://{user}{place}{query}"))
}

/// A sentence about such a value without what it quotes: `must be text, not the number (not shown)`.
#[must_use]
pub fn masked(sentence: &str) -> String {
    let mut masked = String::with_capacity(sentence.len());
    let mut rest = sentence;
    while let Some(at) = rest.find('"') {
        let (before, quoted) = rest.split_at(at);
        masked.push_str(before);
        masked.push_str(NOT_SHOWN);
        rest = quoted.get(end_of_quote(quoted)..).unwrap_or_default();
    }
    masked.push_str(rest);
    for unquoted in ["the number ", "the boolean "] {
        if let Some((before, after)) = masked.split_once(unquoted) {
            let after = after.split_once(' ').map_or(String::new(), |(_, after)| format!(" {after}"));
            masked = format!("{before}{unquoted}{NOT_SHOWN}{after}");
        }
    }
    masked
}

/// Where a text in double quotes ends, which begins with one: quotes within it have a backslash in front.
fn end_of_quote(text: &str) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            '"' if !escaped => return at + 1,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

/// The lines of a file, from 1, on which such values may stand. Read as text, since a file that is malformed keeps its
/// secrets too: from the name of the field to the end of what is indented below it, or to the bracket that closes it. A
/// JSON patch, which has the value before the path or after it, counts as a whole.
#[must_use]
pub fn lines(text: &str) -> Vec<RangeInclusive<usize>> {
    let lower = text.to_ascii_lowercase();
    let lines: Vec<&str> = text.lines().collect();
    let mut secret = Vec::new();
    for field in SECRET {
        let field = field.to_ascii_lowercase();
        for (at, _) in lower.match_indices(&field) {
            if lower.get(..at).is_some_and(|before| before.ends_with('/')) {
                return vec![1..=usize::MAX];
            }
            let first = text.get(..at).map_or(0, |before| before.matches('\n').count());
            let after = text.get(at + field.len()..).unwrap_or_default();
            let last = first + below(&lines, first).max(bracketed(after));
            secret.push(first + 1..=last + 1);
        }
    }
    let url = URL.to_ascii_lowercase();
    let may_hold_one = |line: &str| line.to_ascii_lowercase().contains(&url) && line.contains(['@', '?', '#']);
    secret.extend((1..).zip(&lines).filter(|(_, line)| may_hold_one(line)).map(|(number, _)| number..=number));
    secret
}

/// How many lines after this one are indented deeper than it, or blank.
fn below(lines: &[&str], first: usize) -> usize {
    let depth = |line: &str| line.len() - line.trim_start_matches([' ', '-', '"', '\'', '?']).len();
    let key = lines.get(first).map_or(0, |line| depth(line));
    let deeper = |line: &&&str| line.trim().is_empty() || depth(line) > key;
    lines.iter().skip(first + 1).take_while(deeper).count()
}

/// How many lines the value takes that follows a key, if it is in brackets. Brackets in quotes count too, which at worst
/// takes a few lines more.
fn bracketed(after: &str) -> usize {
    let value = after.trim_start_matches(['"', '\'', ':', ' ', '\t', '\r', '\n']);
    if !value.starts_with(['{', '[']) {
        return 0;
    }
    let start = after.len() - value.len();
    let (mut depth, mut end) = (0_usize, after.len());
    for (at, letter) in value.char_indices() {
        match letter {
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            end = start + at;
            break;
        }
    }
    after.get(..end).map_or(0, |value| value.matches('\n').count())
}

#[cfg(test)]
mod tests {
    use super::super::fields;
    use super::*;

    #[test]
    fn the_fields_are_fields() {
        for field in SECRET {
            assert!(fields::lookup(field).is_some(), "{field}");
        }
    }

    #[test]
    fn a_path_below_a_secret_is_one() {
        for path in [
            "staticPodURLHeader",
            "staticPodURLHeader.X-Token",
            "staticPodURLHeader.X-Token[0]",
            "staticPodURLHeader[\"a.b\"]",
            "staticPodUrlHeader.X",
            "/staticPodURLHeader/X-Token/0",
        ] {
            assert!(is_secret(path), "{path}");
        }
        for path in ["", "staticPodURL", "maxPods", "staticPodURLHeaders", "evictionHard.staticPodURLHeader"] {
            assert!(!is_secret(path), "{path}");
        }
    }

    #[test]
    fn a_url_is_shown_without_what_may_be_secret() {
        for (url, expected) in [
            ("https://e.x/a@b", "https://e.x/a@b"),
            ("\"https://e.x:8443/a\"", "\"https://e.x:8443/a\""),
            ("\"https://bot:hunter2@e.x/a\"", "\"https://(not shown)@e.x/a\""),
            ("https://bot:hun@ter2@e.x", "https://(not shown)@e.x"),
            ("https://bot:hun?ter2@e.x", "https://(not shown)@e.x"),
            ("https://bot:hun/ter2@e.x", "(not shown)"),
            ("https://e.x/a?token=hunter2", "https://e.x/a?(not shown)"),
            ("https://e.x?token=hunter2", "https://e.x?(not shown)"),
            ("http://[::1]:80/a#hunter2", "http://[::1]:80/a#(not shown)"),
            ("http://[::1]/a", "http://[::1]/a"),
            ("bot:hunter2@e.x", "(not shown)"),
            ("\"\"", "\"\""),
            ("", ""),
        ] {
            assert_eq!(shown("staticPodURL", url), expected, "{url}");
        }
        assert_eq!(shown("clusterDNS", "https://a@b"), "https://a@b");
        assert_eq!(shown("staticPodURLHeader.X", "a"), NOT_SHOWN);
        assert_eq!(lines("a: 1\nstaticPodURL: https://a:b@c\n").first(), Some(&(2..=2)));
        assert!(lines("staticPodURL: https://c\n").is_empty());
    }

    #[test]
    fn sentences_lose_what_they_quote() {
        for (sentence, expected) in [
            ("a.b must be a list, not the text \"s3cret\"", "a.b must be a list, not the text (not shown)"),
            ("a.b must be text, not the number 12345", "a.b must be text, not the number (not shown)"),
            ("not the boolean true, here", "not the boolean (not shown) here"),
            ("write \"a\\\"b\", in quotes", "write (not shown), in quotes"),
            ("\"a\" and \"b", "(not shown) and (not shown)"),
            ("must be a list, not a map", "must be a list, not a map"),
        ] {
            assert_eq!(masked(sentence), expected);
        }
    }

    #[test]
    fn lines_with_secrets_are_found_in_every_spelling() {
        let of = |text: &str| lines(text).into_iter().map(|one| (*one.start(), *one.end())).collect::<Vec<_>>();
        assert_eq!(of("a: 1\nb: 2\n"), []);
        assert_eq!(of("a: 1\nstaticPodURLHeader:\n  X:\n  - s\n\n  Y: [t]\nb: 2\n"), [(2, 6)]);
        assert_eq!(of("staticPodURLHeader: {X: [s],\n Y: [t]}\nb: 2\n"), [(1, 2)]);
        assert_eq!(of("{\n\"staticPodURLHeader\":\n{\n\"X\": [\n\"s\"\n]\n},\n\"b\": 2\n}"), [(2, 7)]);
        assert_eq!(of("staticPodURLHeader:\n  X: [@s\n  Y: \"t\n"), [(1, 3)]);
        assert_eq!(of("- op: add\n  value: [s]\n  path: /staticPodURLHeader/X\n"), [(1, usize::MAX)]);
    }
}
