//! Systemd units of the agent: the service, and the boot before the first start of the kubelet.

use super::{GRACE, Host, STORE, agent_arguments, placement_arguments};

/// Time limit of a boot, in seconds: the default timeout of `nodecfg-agent boot`, and time for the kubelet's version, for
/// the lock and for the disk.
const BOOT_LIMIT: u64 = 120;
/// Settings of the boot on a node. The unit does nothing without this file.
const BOOT_SETTINGS: &str = "/etc/default/nodecfg-boot";

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
    let (program, exec, hardening) = (quoted(program), continued(&arguments), hardening(host, ""));
    format!(
        "\
# Written by nodecfg install. The privileges are explained in docs/reference/agents.md of nodecfg.
[Unit]
Description=nodecfg node agent: applies the NodeConfig of this node to the kubelet
Wants=network-online.target
# A boot that is about to run decides first: it leaves nodes with state of an agent alone.
After=network-online.target nodecfg-boot.service
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
{hardening}
[Install]
WantedBy=multi-user.target
"
    )
}

/// Unit file of the boot, `nodecfg-boot.service`, which runs before each start of the kubelet. `program` is the path of
/// the binary on the nodes.
///
/// The kubelet only wants it, so it starts after a failed boot, too. Fleet and pool come from a file, so that one image
/// serves all pools. A node without this file, or whose kubelet has no configuration yet, as before `kubeadm join`,
/// skips the unit.
#[must_use]
pub fn boot_unit(program: &str, host: &Host) -> String {
    let mut arguments = vec![format!("--store-dir={STORE}")];
    arguments.extend(placement_arguments(host));
    arguments.push(format!("--kubelet-root-dir={}", host.kubelet_root));
    // The kubelet may not have made its folders yet.
    let (program, exec, hardening) = (quoted(program), continued(&arguments), hardening(host, "-"));
    // A kubelet with drop-ins needs no `--config`.
    let config = host.kubelet_config_dir.as_ref().unwrap_or(&host.kubelet_config).replace('%', "%%");
    format!(
        "\
# Written by nodecfg install. The privileges are explained in docs/reference/agents.md of nodecfg.
[Unit]
Description=First boot with nodecfg: puts the configuration of the pool in place before the kubelet starts
Before=kubelet.service
Wants=network-online.target
After=network-online.target
ConditionPathExists={BOOT_SETTINGS}
ConditionPathExists={config}

[Service]
Type=oneshot
# NODECFG_FLEET and NODECFG_POOL. Optionally NODECFG_BOOT_OPTIONS, such as --startup-taint or --file=FILE.
EnvironmentFile={BOOT_SETTINGS}
ExecStart={program} boot{exec} \\
  $NODECFG_BOOT_OPTIONS
# Longer than --timeout, which is 1m by default.
TimeoutStartSec={BOOT_LIMIT}s
MemoryMax=256M

# Root without capabilities: root owns the kubelet's files.
{hardening}
[Install]
WantedBy=kubelet.service
"
    )
}

/// Settings that both units share. `optional`: prefix of folders that may be missing.
fn hardening(host: &Host, optional: &str) -> String {
    // A change of a policy deletes state files in the kubelet's root directory.
    let mut writable = vec![host.kubelet_root.as_str(), host.placement_folder()];
    writable.sort_unstable();
    writable.dedup();
    let paths: Vec<String> = writable.iter().map(|path| quoted(&format!("{optional}{path}"))).collect();
    let (paths, state) = (paths.join(" "), STORE.trim_start_matches("/var/lib/"));
    format!(
        "\
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
"
    )
}

/// Arguments of a command, each on a line of its own.
fn continued(arguments: &[String]) -> String {
    arguments.iter().map(|argument| format!(" \\\n  {}", quoted(argument))).collect()
}

/// Quotes a word of a command or of a list of paths for systemd: `%` begins a specifier, `$` a variable.
fn quoted(word: &str) -> String {
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$");
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=%$,@+".contains(c);
    if escaped.chars().all(plain) { escaped } else { format!("\"{escaped}\"") }
}
