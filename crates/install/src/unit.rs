//! The agent as a service of its node.

use super::{GRACE, Host, STORE, agent_arguments};

/// The unit file of the agent, `nodecfg-agent.service`. `program` is where the binary is on the nodes.
///
/// The agent is root, since the kubelet's files are and since systemd restarts a unit only for root; it has no capability
/// beyond that, and may write to its own folder and to the kubelet's configuration.
#[must_use]
pub fn unit(program: &str, kubeconfig: &str, host: &Host) -> String {
    let mut arguments = vec![format!("--kubeconfig={kubeconfig}")];
    arguments.extend(agent_arguments(host));
    arguments.push(format!("--kubelet-root-dir={}", host.kubelet_root));
    // The state files of a policy that changes are in the kubelet's root directory.
    let mut writable = vec![host.kubelet_root.as_str(), host.placement_folder()];
    writable.sort_unstable();
    writable.dedup();
    let exec: String = arguments.iter().map(|argument| format!(" \\\n  {}", quoted(argument))).collect();
    let paths: Vec<String> = writable.iter().map(|path| quoted(path)).collect();
    let (program, paths, state) = (quoted(program), paths.join(" "), STORE.trim_start_matches("/var/lib/"));
    format!(
        "\
# Written by nodecfg install. The privileges are explained in docs/deploy.md of nodecfg.
[Unit]
Description=nodecfg node agent: has the kubelet run what its NodeConfig names
Wants=network-online.target
After=network-online.target
# It never gives up: it is what takes a bad configuration back.
StartLimitIntervalSec=0

[Service]
Type=exec
# Where the node is not called as its host, a line NODE_NAME=… in this file says how.
Environment=NODE_NAME=%H
EnvironmentFile=-/etc/default/nodecfg-agent
ExecStart={program}{exec}
Restart=always
RestartSec=5s
# The agent alone is asked to end: it sees a restart of the kubelet through that has begun, which takes this long at most.
TimeoutStopSec={GRACE}s
KillMode=mixed
OOMScoreAdjust=-900
MemoryMax=256M

# Root, with no capability: the kubelet's files are root's, and systemd takes orders from root.
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
# AF_UNIX is for systemd; the others are for the API server, the kubelet's /healthz and the agent's own.
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

/// A word of a command or of a list of paths, as systemd reads it: `%` begins a specifier, `$` a variable.
fn quoted(word: &str) -> String {
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$");
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=%$,@+".contains(c);
    if escaped.chars().all(plain) { escaped } else { format!("\"{escaped}\"") }
}
