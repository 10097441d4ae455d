//! Fields that may hold secrets, and the redaction of their values in output.
//!
//! Secret values are compared, hashed and rolled out like all others. Only reports redact them; ConfigMaps and
//! `explain` are unaffected.

use std::ops::RangeInclusive;

/// Fields with secret values at any depth. HTTP headers carry tokens. All other fields that need keys name files
/// (`k8s.io/kubelet/config/v1beta1`).
pub const SECRET: [&str; 1] = ["staticPodURLHeader"];

/// The URL field. It may hold a password before the host, or a token in the query.
pub const URL: &str = "staticPodURL";

/// Replacement for a secret value.
pub const NOT_SHOWN: &str = "(not shown)";

/// Reports whether the value at a path of a file may be a secret. Case is ignored, because the value of a misspelled
/// field is secret too.
#[must_use]
pub fn is_secret(path: &str) -> bool {
    let first = path.trim_start_matches('/').split(['.', '[', '/', '{']).next().unwrap_or_default();
    SECRET.iter().any(|field| field.eq_ignore_ascii_case(first))
}

/// Returns a value for output, redacted if it may be secret. `path` is its path in the file.
#[must_use]
pub fn redacted(path: &str, value: &str) -> String {
    if is_secret(path) {
        return NOT_SHOWN.to_owned();
    }
    if path.trim_start_matches('/').eq_ignore_ascii_case(URL) { without_credentials(value) } else { value.to_owned() }
}

/// Returns a URL, quoted or not, without credentials, query and fragment.
fn without_credentials(value: &str) -> String {
    let quoted = value.len() > 1 && value.starts_with('"') && value.ends_with('"');
    let url = value.trim_matches(|letter| quoted && letter == '"');
    let in_quotes = |url: String| if quoted { format!("\"{url}\"") } else { url };
    let is_scheme = |text: &str| text.chars().all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter));
    let Some((scheme, rest)) = url.split_once("://").filter(|(scheme, _)| is_scheme(scheme)) else {
        return if url.contains(['@', '?', '#']) { NOT_SHOWN.to_owned() } else { value.to_owned() };
    };
    // As Go's net/url: query and fragment end the host, whatever follows.
    let (place, query) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
    let (authority, path) = place.split_at(place.find('/').unwrap_or(place.len()));
    let (user, place) = match authority.rsplit_once('@') {
        Some((_, host)) => (format!("{NOT_SHOWN}@"), format!("{host}{path}")),
        None => (String::new(), place.to_owned()),
    };
    let host = place.split('/').next().unwrap_or_default();
    let port = host.rsplit_once(']').map_or(host, |(_, port)| port).split_once(':').map(|(_, port)| port);
    if port.is_some_and(|port| !port.chars().all(|digit| digit.is_ascii_digit())) {
        // The text may be a password that contains a slash.
        return NOT_SHOWN.to_owned();
    }
    let query = query.chars().next().map_or(String::new(), |mark| format!("{mark}{NOT_SHOWN}"));
    in_quotes(format!("{scheme}://{user}{place}{query}"))
}

/// Redacts the values in a message: quoted texts, and a value after `the number` or `the boolean`. For example: `must
/// be text, not the number (not shown)`.
#[must_use]
pub fn redacted_message(sentence: &str) -> String {
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
        if let Some((before, after)) = masked.split_once(unquoted).filter(|(_, after)| !after.starts_with(NOT_SHOWN)) {
            let after = after.split_once(' ').map_or(String::new(), |(_, after)| format!(" {after}"));
            masked = format!("{before}{unquoted}{NOT_SHOWN}{after}");
        }
    }
    masked
}

/// Returns the end of a text in double quotes. A backslash escapes a quote.
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

/// Returns the lines of a file, from 1, that may hold secrets.
///
/// The text is searched, because malformed files hold secrets too. A range starts at the field's name. It ends after
/// the lines indented below the name, or at the closing bracket. A JSON patch with the field in a path counts as a
/// whole, because the value may precede the path. A line with the URL field is included if it may hold credentials.
#[must_use]
pub fn lines(text: &str) -> Vec<RangeInclusive<usize>> {
    let lower = text.to_ascii_lowercase();
    let lines: Vec<&str> = text.lines().collect();
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
    let mut secret = Vec::new();
    for field in SECRET {
        let field = field.to_ascii_lowercase();
        for (at, _) in lower.match_indices(&field) {
            if lower.get(..at).is_some_and(|before| before.ends_with('/')) {
                return vec![1..=usize::MAX];
            }
            let first = ends.partition_point(|end| *end < at);
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

/// Counts the following lines that are blank or indented deeper than the key.
fn below(lines: &[&str], first: usize) -> usize {
    let depth = |line: &str| line.len() - line.trim_start_matches([' ', '-', '"', '\'', '?']).len();
    let key = lines.get(first).map_or(0, |line| depth(line));
    let deeper = |line: &&&str| line.trim().is_empty() || depth(line) > key;
    lines.iter().skip(first + 1).take_while(deeper).count()
}

/// Counts the lines of a value in brackets after a key. Brackets in quotes count too, which at worst adds a few
/// lines.
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
    use super::*;
    use crate::fields;

    #[test]
    fn secret_fields_exist() {
        for field in SECRET {
            assert!(fields::lookup(field).is_some(), "{field}");
        }
    }

    #[test]
    fn path_below_a_secret_is_secret() {
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
    fn redacts_credentials_in_urls() {
        for (url, expected) in [
            ("https://e.x/a@b", "https://e.x/a@b"),
            ("\"https://e.x:8443/a\"", "\"https://e.x:8443/a\""),
            ("\"https://bot:hunter2@e.x/a\"", "\"https://(not shown)@e.x/a\""),
            ("https://bot:hun@ter2@e.x", "https://(not shown)@e.x"),
            ("https://bot:hun?ter2@e.x", "(not shown)"),
            ("https://evil.x?@e.x/pods", "https://evil.x?(not shown)"),
            ("https://evil.x#@e.x/pods", "https://evil.x#(not shown)"),
            ("https://evil.x/?@e.x/pods", "https://evil.x/?(not shown)"),
            ("bot:hunter2@e.x/?a=b://c", "(not shown)"),
            ("https://bot:hun/ter2@e.x", "(not shown)"),
            ("https://e.x/a?token=hunter2", "https://e.x/a?(not shown)"),
            ("https://e.x?token=hunter2", "https://e.x?(not shown)"),
            ("http://[::1]:80/a#hunter2", "http://[::1]:80/a#(not shown)"),
            ("http://[::1]/a", "http://[::1]/a"),
            ("bot:hunter2@e.x", "(not shown)"),
            ("\"\"", "\"\""),
            ("", ""),
        ] {
            assert_eq!(redacted("staticPodURL", url), expected, "{url}");
        }
        assert_eq!(redacted("clusterDNS", "https://a@b"), "https://a@b");
        assert_eq!(redacted("staticPodURLHeader.X", "a"), NOT_SHOWN);
        assert_eq!(lines("a: 1\nstaticPodURL: https://a:b@c\n").first(), Some(&(2..=2)));
        assert!(lines("staticPodURL: https://c\n").is_empty());
    }

    #[test]
    fn redacts_quotes_in_messages() {
        for (sentence, expected) in [
            ("a.b must be a list, not the text \"s3cret\"", "a.b must be a list, not the text (not shown)"),
            ("a.b must be text, not the number 12345", "a.b must be text, not the number (not shown)"),
            ("not the boolean true, here", "not the boolean (not shown) here"),
            ("write \"a\\\"b\", in quotes", "write (not shown), in quotes"),
            ("\"a\" and \"b", "(not shown) and (not shown)"),
            ("must be a list, not a map", "must be a list, not a map"),
        ] {
            assert_eq!(redacted_message(sentence), expected);
        }
    }

    #[test]
    fn finds_lines_with_secrets_in_every_notation() {
        let of = |text: &str| lines(text).into_iter().map(|one| (*one.start(), *one.end())).collect::<Vec<_>>();
        assert_eq!(of("a: 1\nb: 2\n"), []);
        assert_eq!(of("a: 1\nstaticPodURLHeader:\n  X:\n  - s\n\n  Y: [t]\nb: 2\n"), [(2, 6)]);
        assert_eq!(of("staticPodURLHeader: {X: [s],\n Y: [t]}\nb: 2\n"), [(1, 2)]);
        assert_eq!(of("{\n\"staticPodURLHeader\":\n{\n\"X\": [\n\"s\"\n]\n},\n\"b\": 2\n}"), [(2, 7)]);
        assert_eq!(of("staticPodURLHeader:\n  X: [@s\n  Y: \"t\n"), [(1, 3)]);
        assert_eq!(of("- op: add\n  value: [s]\n  path: /staticPodURLHeader/X\n"), [(1, usize::MAX)]);
    }
}
