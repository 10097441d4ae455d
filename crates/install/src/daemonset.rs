//! DaemonSet of the agents. A pod has two containers. `agent` has credentials for the API server and no privileges.
//! `host-step` is privileged and has no credentials. Over a socket, it accepts only six requests: restart the kubelet
//! and set its state files aside meanwhile, delete these files, report the kubelet's version, its exits and last error,
//! its command line, and what the host lacks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::{Value, json};

use super::{AGENT, DaemonSet, GRACE, Host, STORE, agent_arguments, labels};

/// Folder of the socket between the two containers.
const SOCKET_FOLDER: &str = "/run/nodecfg";
const SOCKET: &str = "/run/nodecfg/host-step.sock";
/// Runs a command in the host's mount namespace, which is that of process 1.
const ON_HOST: &str = "nsenter -t 1 -m --";
/// File system of the host, by way of process 1.
const HOST_ROOT: &str = "/proc/1/root";
/// Path where client libraries expect the token of a ServiceAccount.
const TOKEN_FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

pub(super) fn daemon_set(pods: &DaemonSet) -> Value {
    let selector = json!({"app.kubernetes.io/component": "agent", "app.kubernetes.io/name": "nodecfg"});
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": AGENT, "namespace": pods.namespace.as_str(), "labels": labels(Some("agent"))},
        "spec": {
            "selector": {"matchLabels": selector},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
            "template": {
                "metadata": {
                    "labels": labels(Some("agent")),
                    "annotations": {"kubectl.kubernetes.io/default-container": "agent"},
                },
                "spec": pod(pods),
            },
        },
    })
}

fn pod(pods: &DaemonSet) -> Value {
    json!({
        "serviceAccountName": AGENT,
        // The token is mounted into one container only, see below.
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        // The kubelet answers /healthz on the loopback of the host. Also, a configuration that breaks the pod network
        // must not stop the agent from rolling it back.
        "hostNetwork": true,
        "dnsPolicy": "Default",
        // host-step enters the host by process 1, and systemctl reaches systemd only from the host's PID namespace.
        // The setting applies to the whole pod, so the agent can see the processes of the host and, as root, signal
        // them.
        "hostPID": true,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        // Nodes that are not Ready, under pressure or drained still run a kubelet.
        "tolerations": [{"operator": "Exists"}],
        "priorityClassName": "system-node-critical",
        "terminationGracePeriodSeconds": GRACE,
        "securityContext": {"runAsUser": 0, "runAsGroup": 0, "seccompProfile": {"type": "RuntimeDefault"}},
        // In start order: the agent depends on host-step.
        "containers": [host_step(pods), agent(pods)],
        "volumes": volumes(&pods.host),
    })
}

fn agent(pods: &DaemonSet) -> Value {
    let host = &pods.host;
    let mut arguments = vec!["--log-format=json".to_owned(), format!("--host-step={SOCKET}")];
    arguments.extend(agent_arguments(host));
    // A server on all addresses is probed on loopback.
    let address = match host.listen.ip() {
        IpAddr::V4(address) if address.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(address) if address.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        address => address,
    };
    let probe = json!({
        "httpGet": {"host": address.to_string(), "path": "/healthz", "port": host.listen.port()},
        "periodSeconds": 20,
        "timeoutSeconds": 5,
    });
    let mut mounts = vec![
        json!({"name": "socket", "mountPath": SOCKET_FOLDER}),
        json!({"name": "store", "mountPath": STORE}),
        // Mounts of pods below this folder must disappear with those of the host; otherwise their devices stay busy.
        json!({"name": "placement", "mountPath": host.placement_folder(), "mountPropagation": "HostToContainer"}),
        json!({"name": "token", "mountPath": TOKEN_FOLDER, "readOnly": true}),
    ];
    if let Some(folder) = host.read_folder() {
        mounts.push(json!({
            "name": "config",
            "mountPath": folder,
            "mountPropagation": "HostToContainer",
            "readOnly": true,
        }));
    }
    json!({
        "name": "agent",
        "image": pods.image,
        "args": arguments,
        "env": [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "livenessProbe": probe,
        "readinessProbe": probe,
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "privileged": false,
            "readOnlyRootFilesystem": true,
            // With SELinux in enforcing mode, no confined container may write to the kubelet's folders. Without
            // SELinux, the option has no effect.
            "seLinuxOptions": {"type": "spc_t"},
        },
        "volumeMounts": mounts,
    })
}

fn host_step(pods: &DaemonSet) -> Value {
    json!({
        "name": "host-step",
        "image": pods.image,
        "args": [
            "host-step",
            "--log-format=json",
            format!("--socket={SOCKET}"),
            format!("--restart-command={ON_HOST} systemctl restart kubelet"),
            format!("--stop-command={ON_HOST} systemctl stop kubelet"),
            format!("--kubelet={ON_HOST} kubelet"),
            format!("--restarts-command={ON_HOST} systemctl show kubelet --property=NRestarts --value"),
            format!("--log-command={ON_HOST} journalctl --unit=kubelet --output=cat --no-pager --reverse --lines=1000"),
            format!("--kubelet-root-dir={HOST_ROOT}{}", pods.host.kubelet_root),
        ],
        "resources": {"requests": {"cpu": "1m", "memory": "16Mi"}, "limits": {"memory": "128Mi"}},
        "securityContext": {"privileged": true, "readOnlyRootFilesystem": true},
        "volumeMounts": [{"name": "socket", "mountPath": SOCKET_FOLDER}],
    })
}

fn volumes(host: &Host) -> Value {
    let mut volumes = vec![
        json!({"name": "socket", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}),
        json!({"name": "store", "hostPath": {"path": STORE, "type": "DirectoryOrCreate"}}),
        json!({"name": "placement", "hostPath": {"path": host.placement_folder(), "type": "Directory"}}),
        json!({"name": "token", "projected": {"sources": [
            {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
        ]}}),
    ];
    if let Some(folder) = host.read_folder() {
        volumes.push(json!({"name": "config", "hostPath": {"path": folder, "type": "Directory"}}));
    }
    Value::Array(volumes)
}
