//! Errors in a kubelet's log.
//!
//! Kubelets log with `klog` (`k8s.io/klog/v2`, KEP-1602): a severity letter and the date, the process and the place in
//! the source, `]`, a message in quotes, and values such as `err="…"`. A value with line breaks is `err=<`, indented
//! lines, and a line ` >`. Kubelets before 1.21 log texts without quotes. With `logging.format: json`, a line is an
//! object, and that of an error has no verbosity `v` (`k8s.io/component-base/logs/json`).

use std::borrow::Cow;

use serde::Deserialize;

/// Messages that say nothing beside their error.
const WRAPPERS: [&str; 3] = ["command failed", "Failed to run kubelet", "failed to run Kubelet"];

/// Returns the errors in a log, each on one line, in its order. Lines that are no errors are left out.
pub(crate) fn errors(log: &str) -> Vec<String> {
    let mut lines = log.lines();
    let mut errors = Vec::new();
    while let Some(line) = lines.next() {
        errors.extend(error(line, lines.clone()));
    }
    errors
}

/// Returns the error that a line reports, if any.
fn error<'l>(line: &'l str, next: impl Iterator<Item = &'l str>) -> Option<String> {
    if let Some(rest) = line.strip_prefix("Error: ") {
        return Some(unwrapped(rest).to_owned());
    }
    if line.starts_with("panic: ") || line.starts_with("fatal error: ") {
        return Some(line.to_owned());
    }
    if line.starts_with('{') {
        let entry: JsonEntry<'_> = serde_json::from_str(line).ok().filter(|entry: &JsonEntry<'_>| entry.v.is_none())?;
        return Some(one_line(&with_cause(&entry.msg, entry.err.as_deref())));
    }
    let is_error = line.starts_with(['E', 'F']) && line.get(1..5)?.bytes().all(|digit| digit.is_ascii_digit());
    let (_, text) = line.split_once("] ").filter(|_| is_error)?;
    let Some((message, values)) = quoted(text) else { return Some(unwrapped(text).to_owned()) };
    let cause = values.split_once("err=").and_then(|(_, cause)| match cause {
        "<" => Some(next.take_while(|line| line.starts_with([' ', '\t']) && !line.starts_with(" >")).collect()),
        _ => quoted(cause).map(|(cause, _)| cause),
    });
    Some(one_line(&with_cause(&message, cause.as_deref())))
}

/// An entry of a log in JSON.
#[derive(Deserialize)]
struct JsonEntry<'l> {
    #[serde(borrow)]
    msg: Cow<'l, str>,
    #[serde(borrow)]
    err: Option<Cow<'l, str>>,
    v: Option<serde::de::IgnoredAny>,
}

fn with_cause(message: &str, cause: Option<&str>) -> String {
    match cause.filter(|cause| !cause.trim().is_empty()) {
        Some(cause) if WRAPPERS.contains(&message) => unwrapped(cause).to_owned(),
        Some(cause) => format!("{message}: {}", unwrapped(cause)),
        None => message.to_owned(),
    }
}

/// The error without the words with which kubelets begin an error of their start.
fn unwrapped(error: &str) -> &str {
    let error = error.trim_start();
    WRAPPERS.iter().find_map(|wrapper| error.strip_prefix(wrapper)?.strip_prefix(": ")).unwrap_or(error)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns a text in double quotes, with its escapes resolved (Go `strconv.Quote`), and the rest. Characters that Go
/// escapes by their number are left out: they are not printable.
fn quoted(text: &str) -> Option<(String, &str)> {
    let inner = text.strip_prefix('"')?;
    let mut content = String::new();
    let mut letters = inner.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((content, inner.get(at + 1..).unwrap_or_default())),
            '\\' => {
                let digits = match letters.next()?.1 {
                    'n' | 't' | 'r' => {
                        content.push(' ');
                        0
                    }
                    'a' | 'b' | 'f' | 'v' => 0,
                    'x' => 2,
                    'u' => 4,
                    'U' => 8,
                    escaped => {
                        content.push(escaped);
                        0
                    }
                };
                letters.by_ref().take(digits).for_each(drop);
            }
            letter => content.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(log: &str) -> String {
        let mut errors = errors(log);
        assert_eq!(errors.len(), 1, "{errors:?}");
        errors.remove(0)
    }

    #[test]
    fn reads_klog_go_and_cobra() {
        let log = "I1124 08:00:00.1 1 server.go:1] \"started\"\n\
                   E1124 08:00:00.2 1 a.go:1] \"first\" err=\"one\\ntwo \\\"q\\\" \\u200bx\\x1b[31m\" pod=\"a\"\n\
                   W1124 08:00:00.2 1 a.go:1] \"no error\" err=\"one\"\n\
                   Error: failed to run Kubelet: no luck\n\
                   panic: runtime error\n\
                   goroutine 1\n\
                   fatal error: out of memory\n\
                   F1124 08:00:00.3 1 a.go:2] Failed to run kubelet: old";
        let expected =
            ["first: one two \"q\" x[31m", "no luck", "panic: runtime error", "fatal error: out of memory", "old"];
        assert_eq!(errors(log), expected);
        assert_eq!(only("E1124 08:00 1 a.go:1] \"open"), "\"open");
        for nothing in ["", "I1124 fine", "E", "Eé", "E1124", "E1124 no place", "Eagerly waiting", "{", "{}", "[]"] {
            assert_eq!(errors(nothing), [""; 0], "{nothing}");
        }
    }

    #[test]
    fn reads_errors_of_several_lines() {
        let log = "E1124 08:00:00.2 1 run.go:72] \"command failed\" err=<\n\
                   \tfailed to run Kubelet: first\n\
                   \t\n\
                   \tsecond\n \
                   > pod=\"a\"\n\
                   I1124 08:00:00.3 1 a.go:1] \"fine\"";
        assert_eq!(only(log), "first second");
        assert_eq!(only("E1124 08:00:00.2 1 a.go:72] \"cut\" err=<"), "cut");
    }

    #[test]
    fn reads_json() {
        let error = r#"{"ts":1.5,"caller":"app/run.go:72","msg":"command failed","err":"failed to run Kubelet: a\nb"}"#;
        assert_eq!(only(error), "a b");
        assert_eq!(only(r#"{"ts":1.5,"msg":"no \"cause\"","pod":{"name":"a"}}"#), "no \"cause\"");
        for fine in [r#"{"msg":"fine","v":0}"#, r#"{"msg":"fine","v":2,"err":"known"}"#, r#"{"ts":1}"#] {
            assert_eq!(errors(fine), [""; 0], "{fine}");
        }
    }
}
