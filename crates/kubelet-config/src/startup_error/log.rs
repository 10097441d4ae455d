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

/// Other messages after which a kubelet exits (`klog.ErrorS` and `os.Exit` in cmd/kubelet/app/server.go until 1.22,
/// pkg/kubelet/kubelet.go and pkg/kubelet/server/server.go).
const LAST_WORDS: [&str; 10] = [
    "Failed to parse kubelet flag",
    "Failed to validate kubelet flags",
    "Failed to load kubelet config file",
    "Failed to set feature gates from initial flags-based config",
    "Failed to validate kubelet configuration",
    "Failed to construct kubelet dependencies",
    "Failed to initialize internal modules",
    "Failed to start cAdvisor",
    "Failed to start ContainerManager",
    "Failed to listen and serve",
];

/// An error in a log, on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoggedError {
    pub(crate) text: String,
    /// Whether the kubelet exits after it.
    pub(crate) ends_kubelet: bool,
}

/// Returns the errors in a log, in its order. Lines that are no errors are left out.
pub(crate) fn errors(log: &str) -> Vec<LoggedError> {
    let mut lines = log.lines();
    let mut errors = Vec::new();
    while let Some(line) = lines.next() {
        errors.extend(error(line, lines.clone()));
    }
    errors
}

/// Returns the error that a line reports, if any.
fn error<'l>(line: &'l str, next: impl Iterator<Item = &'l str>) -> Option<LoggedError> {
    let fatal = |text: &str| Some(LoggedError { text: text.to_owned(), ends_kubelet: true });
    if let Some(rest) = line.strip_prefix("Error: ") {
        return fatal(unwrapped(rest));
    }
    if line.starts_with("panic: ") || line.starts_with("fatal error: ") {
        return fatal(line);
    }
    if line.starts_with('{') {
        let entry: JsonEntry<'_> = serde_json::from_str(line).ok().filter(|entry: &JsonEntry<'_>| entry.v.is_none())?;
        return Some(with_cause(&entry.msg, entry.err.as_deref()));
    }
    let is_error = line.starts_with(['E', 'F']) && line.get(1..5)?.bytes().all(|digit| digit.is_ascii_digit());
    let (_, text) = line.split_once("] ").filter(|_| is_error)?;
    let mut error = match quoted(text) {
        None => LoggedError { text: unwrapped(text).to_owned(), ends_kubelet: is_last_word(text) },
        Some((message, values)) => {
            let cause = values.split_once("err=").and_then(|(_, cause)| match cause {
                "<" => Some(next.take_while(|line| line.starts_with([' ', '\t']) && !line.starts_with(" >")).collect()),
                _ => quoted(cause).map(|(cause, _)| cause),
            });
            with_cause(&message, cause.as_deref())
        }
    };
    error.ends_kubelet |= line.starts_with('F');
    Some(error)
}

/// Reports whether a kubelet exits after a message.
fn is_last_word(message: &str) -> bool {
    WRAPPERS.iter().chain(&LAST_WORDS).any(|words| message.starts_with(words))
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

fn with_cause(message: &str, cause: Option<&str>) -> LoggedError {
    let text = match cause.filter(|cause| !cause.trim().is_empty()) {
        Some(cause) if WRAPPERS.contains(&message) => unwrapped(cause).to_owned(),
        Some(cause) => format!("{message}: {}", unwrapped(cause)),
        None => message.to_owned(),
    };
    LoggedError { text: one_line(&text), ends_kubelet: is_last_word(message) }
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

    fn texts(log: &str) -> Vec<String> {
        errors(log).into_iter().map(|error| error.text).collect()
    }

    fn only(log: &str) -> String {
        let mut texts = texts(log);
        assert_eq!(texts.len(), 1, "{texts:?}");
        texts.remove(0)
    }

    #[test]
    fn recognizes_errors_after_which_a_kubelet_exits() {
        let line = |severity: &str, text: &str| format!("{severity}1124 08:00:00.1 1 a.go:1] {text}");
        for (log, ends_kubelet) in [
            ("Error: no luck".to_owned(), true),
            ("panic: no luck".to_owned(), true),
            (line("F", "no luck"), true),
            (line("E", "\"command failed\" err=\"no luck\""), true),
            (line("E", "\"Failed to start ContainerManager\" err=\"no luck\""), true),
            (line("E", "Failed to start ContainerManager no luck"), true),
            (r#"{"msg":"Failed to listen and serve","err":"no luck"}"#.to_owned(), true),
            (line("E", "\"Failed to initialize cpu manager\" err=\"no luck\""), false),
            (r#"{"msg":"no luck"}"#.to_owned(), false),
        ] {
            let found: Vec<bool> = errors(&log).iter().map(|error| error.ends_kubelet).collect();
            assert_eq!(found, [ends_kubelet], "{log}");
        }
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
        assert_eq!(texts(log), expected);
        assert_eq!(only("E1124 08:00 1 a.go:1] \"open"), "\"open");
        for nothing in ["", "I1124 fine", "E", "Eé", "E1124", "E1124 no place", "Eagerly waiting", "{", "{}", "[]"] {
            assert_eq!(texts(nothing), [""; 0], "{nothing}");
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
            assert_eq!(texts(fine), [""; 0], "{fine}");
        }
    }
}
