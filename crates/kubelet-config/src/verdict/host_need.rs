//! What a configuration needs of its host, in a form that a program on the host can answer.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Something that the host must have. Paths are absolute, as the kubelet sees them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum HostNeed {
    /// A file with certificates in PEM.
    Certificates(String),
    /// A certificate and its private key, both in PEM.
    KeyPair {
        /// File of the certificate.
        certificate: String,
        /// File of the key.
        key: String,
    },
    /// A folder, or one that the kubelet can create.
    Folder(String),
    /// A Unix socket.
    Socket(String),
    /// One of these cgroups, relative to the root of each hierarchy.
    Cgroup(Vec<String>),
    /// Cgroup v2.
    CgroupV2,
    /// systemd as the init system.
    Systemd,
    /// No swap.
    SwapOff,
    /// CPUs that are online: inclusive ranges.
    Cpus(Vec<(u64, u64)>),
    /// At least so many thousandths of a CPU.
    CpuMillis(u64),
    /// At least the memory that is reserved.
    Memory(KeptMemory),
    /// A capacity of memory with which the reservation equals this sum, in bytes.
    ReservedMemory {
        /// Sum of `reservedMemory`, in bytes.
        sum: u64,
        /// What it must equal.
        kept: KeptMemory,
    },
    /// NUMA nodes with these numbers.
    NumaNodes(Vec<u64>),
    /// At most so many NUMA nodes.
    NumaNodesAtMost(u64),
    /// No state file of another policy in the kubelet's root directory.
    StateFile {
        /// The file.
        file: StateFile,
        /// Policy of the configuration.
        policy: String,
    },
    /// An address of the host.
    Address(String),
    /// A port on which only the kubelet listens.
    Port {
        /// Address on which the kubelet listens.
        address: String,
        /// The port.
        port: u16,
    },
}

impl HostNeed {
    /// Reports whether a host can lose it while the kubelet runs, so that only the next start fails.
    #[must_use]
    pub fn can_vanish(&self) -> bool {
        match self {
            Self::Certificates(_) | Self::KeyPair { .. } | Self::Folder(_) => true,
            // A runtime removes its socket while it restarts, and a running kubelet writes its state files.
            Self::Socket(_)
            | Self::StateFile { .. }
            | Self::Cgroup(_)
            | Self::CgroupV2
            | Self::Systemd
            | Self::SwapOff
            | Self::Cpus(_)
            | Self::CpuMillis(_)
            | Self::Memory(_)
            | Self::ReservedMemory { .. }
            | Self::NumaNodes(_)
            | Self::NumaNodesAtMost(_)
            | Self::Address(_)
            | Self::Port { .. } => false,
        }
    }
}

/// Memory that is kept from pods: `kubeReserved`, `systemReserved`, and the hard eviction threshold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeptMemory {
    /// Bytes.
    pub bytes: u64,
    /// Further share of the host's memory, without the percent sign: `5`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<String>,
}

impl KeptMemory {
    /// Bytes on a host with this memory, computed as the kubelet does (`pkg/kubelet/eviction/api` `GetThresholdQuantity`,
    /// from a percentage of 32 bits). `None` if the percentage is no number.
    #[must_use]
    pub fn of(&self, capacity: u64) -> Option<u64> {
        let share = match &self.percent {
            None => 0,
            Some(percent) => (capacity as f64 * f64::from(percent.parse::<f32>().ok()? / 100.0)) as u64,
        };
        self.bytes.checked_add(share)
    }
}

/// A file in the kubelet's root directory with the resources that a manager assigned to containers. A kubelet does
/// not start with a file that contradicts its configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StateFile {
    /// `cpu_manager_state`.
    CpuManagerState,
    /// `memory_manager_state`.
    MemoryManagerState,
}

impl StateFile {
    /// All state files.
    pub const ALL: [Self; 2] = [Self::CpuManagerState, Self::MemoryManagerState];

    /// Returns the name in the kubelet's root directory, by default `/var/lib/kubelet`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CpuManagerState => "cpu_manager_state",
            Self::MemoryManagerState => "memory_manager_state",
        }
    }

    /// Returns the field and value with which the kubelet uses the file.
    #[must_use]
    pub fn policy(self) -> (&'static str, &'static str) {
        match self {
            Self::CpuManagerState => ("cpuManagerPolicy", "static"),
            Self::MemoryManagerState => ("memoryManagerPolicy", "Static"),
        }
    }
}

impl fmt::Display for StateFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
