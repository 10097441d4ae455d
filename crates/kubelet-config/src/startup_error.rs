//! The last error in a kubelet's log, and the field of the configuration that it concerns, by the table
//! `crates/kubelet-config/data/startup-errors.csv`.
//!
//! Kubelets log with `klog`: a severity letter and the date, the process and the place in the source, `]`, a message in
//! quotes, and values such as `err="…"` (`k8s.io/klog/v2`, KEP-1602). Kubelets before 1.21 log texts without quotes.

use std::sync::LazyLock;

use crate::secrets::{self, NOT_SHOWN};
use crate::table;

static TEXT: &str = include_str!("../data/startup-errors.csv");
static TABLE: LazyLock<Vec<[String; 2]>> = LazyLock::new(|| {
    table::rows(TEXT)
        .filter_map(|cells| <[String; 3]>::try_from(cells).ok())
        .map(|[text, field, _]| [text, field])
        .collect()
});

/// Messages that say nothing beside their error.
const WRAPPERS: [&str; 3] = ["command failed", "Failed to run kubelet", "failed to run Kubelet"];
/// Words before a value that may be secret.
const SECRET_NAMES: [&str; 5] = ["bearer", "basic", "token", "password", "secret"];
/// Length of a word from which it may be a key or token, in bytes. No name of a field, gate or signal is as long.
const MIN_SECRET: usize = 40;

/// Returns the last error in a kubelet's log, on one line: the field of the configuration that it concerns, if known,
/// and the kubelet's message without values that may be secret. `None` without an error.
///
/// An error in the table is preferred to later ones, which are often its consequence.
#[must_use]
pub fn last(log: &str) -> Option<String> {
    let errors: Vec<String> = log.lines().rev().filter_map(error).collect();
    let known = errors.iter().find_map(|error| Some(format!("{}: {}", field(error)?, without_secrets(error))));
    known.or_else(|| errors.first().map(|error| without_secrets(error)))
}

/// Returns the field that an error concerns, or a choice of fields: `systemReserved, kubeReserved or evictionHard`.
/// `None` for errors that are not in the table.
#[must_use]
pub fn field(error: &str) -> Option<&'static str> {
    TABLE.iter().find(|[text, _]| error.contains(text.as_str())).map(|[_, field]| field.as_str())
}

/// Returns the text of a line that reports an error.
fn error(line: &str) -> Option<String> {
    if let Some(rest) = line.strip_prefix("Error: ") {
        return Some(unwrapped(rest.to_owned()));
    }
    if line.starts_with("panic: ") || line.starts_with("fatal error: ") {
        return Some(line.to_owned());
    }
    let is_error = line.starts_with(['E', 'F']) && line.get(1..5)?.bytes().all(|digit| digit.is_ascii_digit());
    let (_, text) = line.split_once("] ").filter(|_| is_error)?;
    let Some((message, values)) = quoted(text) else { return Some(unwrapped(text.to_owned())) };
    let cause = values.split_once("err=").and_then(|(_, cause)| quoted(cause)).map(|(cause, _)| cause);
    Some(match cause {
        Some(cause) if WRAPPERS.contains(&message.as_str()) => unwrapped(cause),
        Some(cause) => format!("{message}: {}", unwrapped(cause)),
        None => message,
    })
}

/// Removes the words with which kubelets begin an error of their start.
fn unwrapped(error: String) -> String {
    let inner = WRAPPERS.iter().find_map(|wrapper| error.strip_prefix(wrapper)?.strip_prefix(": "));
    inner.map_or(error.clone(), str::to_owned)
}

/// Returns a text in double quotes, with its escapes resolved (Go `strconv.Quote`), and the rest.
fn quoted(text: &str) -> Option<(String, &str)> {
    let inner = text.strip_prefix('"')?;
    let mut content = String::new();
    let mut letters = inner.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((content, inner.get(at + 1..).unwrap_or_default())),
            '\\' => match letters.next()?.1 {
                'n' | 't' | 'r' => content.push(' '),
                escaped => content.push(escaped),
            },
            letter => content.push(letter),
        }
    }
    None
}

/// Replaces words that may be secret: keys and tokens, values after a name such as `token`, and the credentials and
/// queries of URLs. All of a text with a PEM block is replaced.
fn without_secrets(error: &str) -> String {
    if error.contains("-----BEGIN") {
        return NOT_SHOWN.to_owned();
    }
    let mut is_value = false;
    let words = error.split_whitespace().map(|word| {
        let bare = word.trim_matches(|letter: char| !letter.is_alphanumeric());
        let is_secret = is_value || may_be_key(bare);
        is_value = SECRET_NAMES.iter().any(|name| bare.eq_ignore_ascii_case(name));
        let names_secret = bare.split_once(['=', ':']).is_some_and(|(name, value)| {
            !value.is_empty() && SECRET_NAMES.iter().any(|secret| name.to_ascii_lowercase().ends_with(secret))
        });
        match bare {
            _ if is_secret || names_secret => NOT_SHOWN.to_owned(),
            url if url.contains("://") && url.contains(['@', '?', '#']) => {
                word.replace(url, &secrets::without_credentials(url))
            }
            _ => word.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Reports whether a word may be a key or a token: long, with digits and letters, and neither a path nor an address.
fn may_be_key(word: &str) -> bool {
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'_' | b'-' | b'=' | b'.');
    let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
    word.len() >= MIN_SECRET && has_digit && word.bytes().all(is_base64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields;

    #[test]
    fn table_names_known_fields_and_sources() {
        assert_eq!(TEXT.lines().next(), Some("text,field,source"));
        assert_eq!(TABLE.len(), TEXT.lines().count() - 1, "malformed row");
        for cells in table::rows(TEXT) {
            assert!(cells.len() == 3 && cells.iter().all(|cell| !cell.is_empty()), "{cells:?}");
            for name in cells[1].split([',', ' ']).filter(|name| !name.is_empty() && *name != "or") {
                assert!(fields::lookup(name).is_some(), "{name}");
            }
        }
    }

    /// Errors of kubelets, as their source words them.
    #[test]
    fn names_field_of_each_known_error() {
        let klog =
            |message: &str, error: &str| format!("E1124 08:00:00.123456    4711 run.go:72] {message:?} err={error:?}");
        let failed = |error: &str| klog("command failed", &format!("failed to run Kubelet: {error}"));
        let manager = |error: &str| klog("Failed to start ContainerManager", error);
        for (line, expected) in [
            (
                klog(
                    "command failed",
                    "failed to construct kubelet dependencies: unable to load client CA file /etc/k/ca.crt: open \
                     /etc/k/ca.crt: no such file or directory",
                ),
                "authentication.x509.clientCAFile: failed to construct kubelet dependencies: unable to load client CA \
                 file /etc/k/ca.crt: open /etc/k/ca.crt: no such file or directory",
            ),
            (
                "F0611 14:01:52.353546   21142 server.go:266] failed to run Kubelet: misconfiguration: kubelet cgroup \
                 driver: \"cgroupfs\" is different from docker cgroup driver: \"systemd\""
                    .to_owned(),
                "cgroupDriver: misconfiguration: kubelet cgroup driver: \"cgroupfs\" is different from docker cgroup \
                 driver: \"systemd\"",
            ),
            (
                failed(
                    "validate service connection: validate CRI v1 runtime API for endpoint \"unix:///run/no.sock\": rpc \
                     error: code = Unavailable",
                ),
                "containerRuntimeEndpoint: validate service connection: validate CRI v1 runtime API for endpoint \
                 \"unix:///run/no.sock\": rpc error: code = Unavailable",
            ),
            (
                manager(
                    "invalid Node Allocatable configuration. Resource \"memory\" has a reservation of 9Gi but capacity of \
                     8Gi. Expected capacity >= reservation.",
                ),
                "systemReserved, kubeReserved or evictionHard: Failed to start ContainerManager: invalid Node \
                 Allocatable configuration. Resource \"memory\" has a reservation of 9Gi but capacity of 8Gi. Expected \
                 capacity >= reservation.",
            ),
            (
                klog("Failed to listen and serve", "listen tcp 0.0.0.0:10250: bind: address already in use"),
                "port: Failed to listen and serve: listen tcp 0.0.0.0:10250: bind: address already in use",
            ),
            (
                failed(
                    "running with swap on is not supported, please disable swap or set --fail-swap-on flag to false",
                ),
                "failSwapOn: running with swap on is not supported, please disable swap or set --fail-swap-on flag to \
                 false",
            ),
            (
                manager(
                    "start cpu manager error: could not restore state from checkpoint: configured policy \"static\" \
                     differs from state checkpoint policy \"none\", please drain this node and delete the CPU manager \
                     checkpoint file \"/var/lib/kubelet/cpu_manager_state\" before restarting Kubelet",
                ),
                "cpuManagerPolicy: Failed to start ContainerManager: start cpu manager error: could not restore state \
                 from checkpoint: configured policy \"static\" differs from state checkpoint policy \"none\", please \
                 drain this node and delete the CPU manager checkpoint file \"/var/lib/kubelet/cpu_manager_state\" \
                 before restarting Kubelet",
            ),
            (
                failed(
                    "[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero",
                ),
                "reservedSystemCPUs, systemReserved or kubeReserved: [cpumanager] the static policy requires \
                 systemreserved.cpu + kubereserved.cpu to be greater than zero",
            ),
            (
                manager("Failed to enforce System Reserved Cgroup Limits on \"/system.slice\": cgroup does not exist"),
                "systemReservedCgroup: Failed to start ContainerManager: Failed to enforce System Reserved Cgroup \
                 Limits on \"/system.slice\": cgroup does not exist",
            ),
            (
                failed("invalid configuration: cgroup-root [\"pods\"] doesn't exist"),
                "cgroupRoot: invalid configuration: cgroup-root [\"pods\"] doesn't exist",
            ),
        ] {
            assert_eq!(last(&line).as_deref(), Some(expected));
        }
    }

    #[test]
    fn finds_last_error_and_prefers_known_ones() {
        let log = "I1124 08:00:00.1 1 server.go:1] \"started\"\n\
                   E1124 08:00:00.2 1 a.go:1] \"first\" err=\"one\"\n\
                   E1124 08:00:00.3 1 a.go:2] \"second\"\n\
                   Eagerly waiting\n\
                   kubelet.service: Main process exited, code=exited, status=1/FAILURE";
        assert_eq!(last(log).as_deref(), Some("second"));
        let known = "E1124 08:00:00.2 1 a.go:1] \"Failed to listen and serve\" err=\"listen tcp :1: no\"\n";
        assert_eq!(
            last(&format!("{known}{log}")).as_deref(),
            Some("port: Failed to listen and serve: listen tcp :1: no")
        );
        assert_eq!(last("Error: failed to run Kubelet: no luck").as_deref(), Some("no luck"));
        assert_eq!(last("panic: runtime error\ngoroutine 1").as_deref(), Some("panic: runtime error"));
        for nothing in ["", "I1124 fine", "E", "Eé", "E1124", "E1124 no place"] {
            assert_eq!(last(nothing), None, "{nothing}");
        }
        assert_eq!(last("E1124 08:00 1 a.go:1] \"open").as_deref(), Some("\"open"));
    }

    #[test]
    fn withholds_values_that_may_be_secret() {
        let key = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0";
        for (text, shown) in [
            (format!("sent {key} to it"), "sent (not shown) to it".to_owned()),
            ("Authorization: Bearer abc, then".to_owned(), "Authorization: Bearer (not shown) then".to_owned()),
            ("with password=abc set".to_owned(), "with (not shown) set".to_owned()),
            ("bad X-Token:abc".to_owned(), "bad (not shown)".to_owned()),
            (
                "get \"https://me:pw@host/pods?key=1\": EOF".to_owned(),
                "get \"https://(not shown)@host/pods?(not shown)\": EOF".to_owned(),
            ),
            ("see -----BEGIN RSA PRIVATE KEY----- abc".to_owned(), NOT_SHOWN.to_owned()),
            ("open /var/lib/kubelet/pki/a-very-long-name-of-a-file-1.pem".to_owned(), String::new()),
            ("resource.quantity \"12345678901234567890\"".to_owned(), String::new()),
        ] {
            let expected = if shown.is_empty() { text.clone() } else { shown };
            assert_eq!(last(&format!("panic: {text}")), Some(without_secrets(&format!("panic: {text}"))));
            assert_eq!(without_secrets(&text), expected);
        }
    }
}
