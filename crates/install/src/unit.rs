//! Systemd unit of the agent.

use super::{GRACE, Host, STORE, agent_arguments};

/// Unit file of the agent, `nodecfg-agent.service`. `program` is the path of the binary on the nodes.
///
/// The agent runs as root, because the kubelet's files belong to root and systemd restarts units only for root. It
/// has no Linux capabilities. It may only write to its own folder, to the folder of the kubelet's configuration and
/// to the kubelet's root directory, which contains the state files.
#[must_use]
pub fn unit(program: &str, kubeconfig: &str, host: &Host) -> String {
    let mut arguments = vec![format!("--kubeconfig={kubeconfig}")];
    arguments.extend(agent_arguments(host));
    arguments.push(format!("--kubelet-root-dir={}", host.kubelet_root));
    // A change of a policy deletes state files in the kubelet's root directory.
    let mut writable = vec![host.kubelet_root.as_str(), host.placement_folder()];
    writable.sort_unstable();
    writable.dedup();
    let exec: String = arguments.iter().map(|argument| format!(" \\\n  {}", quoted(argument))).collect();
    let paths: Vec<String> = writable.iter().map(|path| quoted(path)).collect();
    let (program, paths, state) = (quoted(program), paths.join(" "), STORE.trim_start_matches("/var/lib/"));
    format!(
        "\
# Written by nodecfg install. The privileges are explained in docs/reference/agents.md of nodecfg.
[Unit]
Description=nodecfg node agent: applies the NodeConfig of this node to the kubelet
Wants=network-online.target
After=network-online.target
# Restart without limit: the agent rolls back bad configurations.
StartLimitIntervalSec=0

[Service]
Type=exec
# If the name of the node differs from the host name, set NODE_NAME=… in this file.
Environment=NODE_NAME=%H
EnvironmentFile=-/etc/default/nodecfg-agent
ExecStart={program}{exec}
Restart=always
RestartSec=5s
# Only the agent receives SIGTERM. It completes a started restart of the kubelet within this time.
TimeoutStopSec={GRACE}s
KillMode=mixed
OOMScoreAdjust=-900
MemoryMax=256M

# Root without capabilities: root owns the kubelet's files, and systemd restarts units only for root.
CapabilityBoundingSet=
NoNewPrivileges=yes
ProtectSystem=strict
StateDirectory={state}
StateDirectoryMode=0700
ReadWritePaths={paths}
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
# AF_UNIX is for systemd; the others are for the API server, the kubelet's /healthz and the agent's own server.
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
KeyringMode=private
RemoveIPC=yes
UMask=0077

[Install]
WantedBy=multi-user.target
"
    )
}

/// Quotes a word of a command or of a list of paths for systemd: `%` begins a specifier, `$` a variable.
fn quoted(word: &str) -> String {
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$");
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=%$,@+".contains(c);
    if escaped.chars().all(plain) { escaped } else { format!("\"{escaped}\"") }
}
