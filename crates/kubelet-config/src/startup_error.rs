//! The last error in a kubelet's log, and the field of the configuration that it concerns, by the table
//! `crates/kubelet-config/data/startup-errors.csv`.

use std::sync::LazyLock;

use crate::secret_words::without_secrets;
use crate::{kubelet_log, table};

static TEXT: &str = include_str!("../data/startup-errors.csv");
static TABLE: LazyLock<Vec<[String; 2]>> = LazyLock::new(|| {
    table::rows(TEXT)
        .filter_map(|cells| <[String; 3]>::try_from(cells).ok())
        .map(|[text, field, _]| [text, field])
        .collect()
});

/// Returns the last error in a kubelet's log, on one line: the field of the configuration that it concerns, if known,
/// and the kubelet's message without values that may be secret. `None` without an error. The oldest line comes first,
/// and hidden characters are already removed: they could divide the name of a secret.
///
/// An error in the table is preferred to later ones, which are often its consequence.
#[must_use]
pub fn last(log: &str) -> Option<String> {
    let errors = kubelet_log::errors(log);
    let known = errors.iter().rev().find_map(|error| Some(format!("{}: {}", field(error)?, without_secrets(error))));
    known.or_else(|| errors.last().map(|error| without_secrets(error)))
}

/// Returns the field that an error concerns, or a choice of fields: `systemReserved, kubeReserved or evictionHard`.
/// `None` for errors that are not in the table.
#[must_use]
pub fn field(error: &str) -> Option<&'static str> {
    TABLE.iter().find(|[text, _]| error.contains(text.as_str())).map(|[_, field]| field.as_str())
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
                "port, readOnlyPort or address: Failed to listen and serve: listen tcp 0.0.0.0:10250: bind: address already in use",
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
            Some("port, readOnlyPort or address: Failed to listen and serve: listen tcp :1: no")
        );
        assert_eq!(last("Error: failed to run Kubelet: no luck").as_deref(), Some("no luck"));
        assert_eq!(last("panic: runtime error\ngoroutine 1").as_deref(), Some("panic: runtime error"));
        for nothing in ["", "I1124 fine", "E", "Eé", "E1124", "E1124 no place"] {
            assert_eq!(last(nothing), None, "{nothing}");
        }
        assert_eq!(last("E1124 08:00 1 a.go:1] \"open").as_deref(), Some("\"open"));
    }
}
