//! Checks, before the kubelet is restarted, that this host has what a configuration needs. Runs with the privileges of
//! the restart, and answers with facts about the host, never with the content of a file. What it cannot tell, the host
//! counts as having.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::net::IpAddr;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, StatVfsMountFlags};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use serde::{Deserialize, Serialize};

use super::process;
use kubelet_config::risk::StateFile;
use kubelet_config::verdict::{HostNeed, KeptMemory};

/// Maximum number of needs in a question. A configuration has fewer than 30.
const MAX_NEEDS: usize = 64;
/// Maximum size of a file that is read, in bytes.
const MAX_FILE: u64 = 1024 * 1024;
/// Maximum number of links in a path, as Linux has it (`MAXSYMLINKS`).
const MAX_LINKS: u32 = 40;
/// File systems of the kernel, in which no program creates a folder, and where reading a file may have effects: proc, sysfs,
/// debugfs, tracefs, securityfs, configfs, bpf, efivarfs, pstore, cgroup and cgroup2 (`linux/magic.h`).
const OF_KERNEL: [u64; 11] = [
    0x9fa0,
    0x6265_6572,
    0x6462_6720,
    0x7472_6163,
    0x7363_6673,
    0x6265_6570,
    0xcafe_4a11,
    0xde5e_81e4,
    0x6165_676c,
    0x0027_e0eb,
    0x6367_7270,
];
/// Hierarchies of cgroup v1 in which the kubelet creates its groups.
const CONTROLLERS: [&str; 5] = ["cpu", "cpuacct", "cpuset", "memory", "pids"];

/// What this host lacks, as it may be published.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Unmet {
    /// A file, folder or socket is missing.
    #[error("{0} does not exist on this host")]
    Missing(String),
    /// Another kind of entry.
    #[error("{0} is no regular file on this host")]
    NotFile(String),
    /// Another kind of entry.
    #[error("{0} is no folder on this host")]
    NotFolder(String),
    /// The folder is missing and cannot be created.
    #[error("{0} does not exist on this host, and cannot be created there")]
    NotCreatable(String),
    /// Another kind of entry.
    #[error("{0} is no socket on this host")]
    NotSocket(String),
    /// No certificate in a file.
    #[error("{0} has no PEM certificate on this host")]
    NoCertificate(String),
    /// No key in a file.
    #[error("{0} has no PEM private key on this host")]
    NoKey(String),
    /// A key of another certificate.
    #[error("{key} is not the private key of {certificate} on this host")]
    OtherKey {
        /// File of the certificate.
        certificate: String,
        /// File of the key.
        key: String,
    },
    /// No such cgroup.
    #[error("this host has no cgroup {0}")]
    NoCgroup(String),
    /// Cgroup v1.
    #[error("this host has cgroup v1")]
    CgroupV1,
    /// Another init system.
    #[error("systemd does not run on this host")]
    NoSystemd,
    /// Swap is on.
    #[error("swap is on on this host")]
    Swap,
    /// CPUs are missing.
    #[error("this host has only the CPUs {0} online")]
    Cpus(String),
    /// Too few CPUs.
    #[error("this host has {has} CPUs, and {needed_millis}m are reserved")]
    FewCpus {
        /// Number of CPUs.
        has: u64,
        /// Reservation in thousandths.
        needed_millis: u64,
    },
    /// Too little memory.
    #[error("this host has {has} bytes of memory, and {needed} are reserved")]
    LittleMemory {
        /// Memory of the host.
        has: u64,
        /// Reservation with the hard eviction threshold.
        needed: u64,
    },
    /// Another sum of `reservedMemory`.
    #[error(
        "reservedMemory has {sum} bytes of memory, and kubeReserved, systemReserved and the hard eviction threshold have \
         {needed} on this host"
    )]
    OtherSum {
        /// Sum of `reservedMemory`.
        sum: u64,
        /// Reservation with the hard eviction threshold.
        needed: u64,
    },
    /// A NUMA node is missing.
    #[error("this host has no NUMA node {0}")]
    NoNumaNode(u64),
    /// Too many NUMA nodes.
    #[error("this host has {0} NUMA nodes")]
    ManyNumaNodes(u64),
    /// A state file of another policy.
    #[error(
        "{file} on this host is of another policy: drain the node, and delete the file while the kubelet is stopped"
    )]
    OtherState {
        /// The file.
        file: StateFile,
    },
    /// A state file that the kubelet cannot read.
    #[error("{file} on this host is damaged: drain the node, and delete the file while the kubelet is stopped")]
    DamagedState {
        /// The file.
        file: StateFile,
    },
    /// An address of another host.
    #[error("this host does not have the address {0}")]
    NoAddress(String),
    /// Another program listens.
    #[error("another program listens on port {0} of this host")]
    PortInUse(u16),
}

/// This host, as the kubelet sees it.
#[derive(Debug)]
pub struct HostView {
    /// The file system of processes.
    proc: PathBuf,
    /// Folder of the kubelet's process, or of the first process if no kubelet runs.
    process: PathBuf,
    /// Whether the process is a kubelet.
    is_kubelet: bool,
    /// Root folder of that process.
    root: PathBuf,
    /// Root directory of the kubelet, with its state files, as this process sees it.
    state: PathBuf,
}

impl HostView {
    /// The host of this process. `proc`: usually [`process::PROC`]. `state`: root directory of the kubelet. `own_root`: where
    /// this process sees the host's files, if it does, for the case that it may not look into another process. `None` if
    /// the kubelet's view is unknown.
    #[must_use]
    pub fn new(proc: &Path, state: &Path, own_root: Option<&Path>) -> Option<Self> {
        let (process, is_kubelet) = match process::folder_of_kubelet(proc) {
            Ok(process) => (process, true),
            Err(process::ProcessProblem::NotRunning) => (proc.join("1"), false),
            Err(_) => return None,
        };
        let root = process.join("root");
        let root = if root.read_dir().is_ok() { root } else { own_root?.to_owned() };
        Some(Self { proc: proc.to_owned(), process, is_kubelet, root, state: state.to_owned() })
    }

    /// What the host lacks, for each need; `None` if it has it, or that is unknown. Only the first 64 are checked.
    #[must_use]
    pub(crate) fn unmet(&self, needs: &[HostNeed]) -> Vec<Option<Unmet>> {
        let checked = needs.iter().take(MAX_NEEDS);
        checked
            .map(|need| {
                self.check(need)
                    .inspect_err(|error| tracing::debug!(?need, "cannot tell whether this host has it: {error}"))
                    .unwrap_or_default()
            })
            .collect()
    }

    /// # Errors
    /// The answer is unknown.
    fn check(&self, need: &HostNeed) -> io::Result<Option<Unmet>> {
        match need {
            HostNeed::Certificates(path) => self.certificates(path).map(Result::err),
            HostNeed::KeyPair { certificate, key } => self.key_pair(certificate, key),
            HostNeed::Folder(path) => self.folder(path),
            HostNeed::Socket(path) => self.socket(path),
            HostNeed::Cgroup(paths) => self.cgroup(paths),
            HostNeed::CgroupV2 => Ok((!self.has_cgroup_v2()?).then_some(Unmet::CgroupV1)),
            HostNeed::Systemd => Ok((!self.exists("/run/systemd/system")?).then_some(Unmet::NoSystemd)),
            HostNeed::SwapOff => {
                let swaps = self.read_text("/proc/swaps")?;
                Ok(swaps.lines().skip(1).any(|line| !line.trim().is_empty()).then_some(Unmet::Swap))
            }
            HostNeed::Cpus(wanted) => {
                let online = self.read_text("/sys/devices/system/cpu/online")?;
                let has = ranges(&online).ok_or(ErrorKind::InvalidData)?;
                let is_online = |(first, last): &(u64, u64)| has.iter().any(|(from, to)| from <= first && last <= to);
                Ok((!wanted.iter().all(is_online)).then(|| Unmet::Cpus(online.trim().to_owned())))
            }
            HostNeed::CpuMillis(needed) => {
                // More than the kubelet may count, so that no configuration is refused that would run.
                let present =
                    ranges(&self.read_text("/sys/devices/system/cpu/present")?).ok_or(ErrorKind::InvalidData)?;
                let has = present.iter().fold(0_u64, |sum, (first, last)| {
                    sum.saturating_add(last.saturating_sub(*first).saturating_add(1))
                });
                let needed_millis = *needed;
                Ok((needed_millis > has.saturating_mul(1000)).then_some(Unmet::FewCpus { has, needed_millis }))
            }
            HostNeed::Memory(kept) => {
                let (has, needed) = self.kept(kept)?;
                Ok((needed > has).then_some(Unmet::LittleMemory { has, needed }))
            }
            HostNeed::ReservedMemory { sum, kept } => {
                let (_, needed) = self.kept(kept)?;
                Ok((needed != *sum).then_some(Unmet::OtherSum { sum: *sum, needed }))
            }
            HostNeed::NumaNodes(wanted) => {
                let has = self.numa_nodes()?;
                Ok(wanted.iter().find(|node| !has.contains(node)).map(|node| Unmet::NoNumaNode(*node)))
            }
            HostNeed::NumaNodesAtMost(most) => {
                let has = u64::try_from(self.numa_nodes()?.len()).unwrap_or(u64::MAX);
                Ok((has > *most).then_some(Unmet::ManyNumaNodes(has)))
            }
            HostNeed::StateFile { file, policy } => self.state_file(*file, policy),
            HostNeed::Address(address) => self.address(address),
            HostNeed::Port { address, port } => self.port(address, *port),
        }
    }

    /// Finds a path in the kubelet's root folder. `None` if it is missing, or a folder on the way to it.
    fn find(&self, path: &str) -> io::Result<Option<OwnedFd>> {
        match self.walk(path) {
            Ok(found) => Ok(Some(found)),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens a path as the kubelet would: links lead to where they lead in the kubelet's root folder.
    fn walk(&self, path: &str) -> io::Result<OwnedFd> {
        let found = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if !path.starts_with('/') {
            return Err(ErrorKind::InvalidInput.into());
        }
        let root = rustix::fs::open(&self.root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        // The folders on the way, so that `..` cannot leave the root folder while another program moves folders.
        let (mut way, mut here) = (Vec::new(), root);
        let mut rest: Vec<String> = path.rsplit('/').map(str::to_owned).collect();
        let mut links = 0_u32;
        while let Some(name) = rest.pop() {
            match name.as_str() {
                "" | "." => continue,
                ".." => {
                    here = way.pop().unwrap_or(here);
                    continue;
                }
                _ => {}
            }
            let next = rustix::fs::openat(&here, name.as_str(), found, Mode::empty())?;
            if !file_type(&next)?.is_symlink() {
                way.push(std::mem::replace(&mut here, next));
                continue;
            }
            links = links.saturating_add(1);
            if links > MAX_LINKS {
                return Err(rustix::io::Errno::LOOP.into());
            }
            let target = rustix::fs::readlinkat(&here, name.as_str(), Vec::new())?;
            let target = target.to_str().map_err(|_| ErrorKind::InvalidData)?;
            if target.starts_with('/') && !way.is_empty() {
                way.truncate(1);
                here = way.pop().ok_or(ErrorKind::InvalidData)?;
            }
            rest.extend(target.rsplit('/').map(str::to_owned));
        }
        Ok(here)
    }

    fn exists(&self, path: &str) -> io::Result<bool> {
        Ok(self.find(path)?.is_some())
    }

    /// Content of a regular file.
    fn read(&self, path: &str) -> io::Result<Result<Vec<u8>, Unmet>> {
        let Some(found) = self.find(path)? else { return Ok(Err(Unmet::Missing(path.to_owned()))) };
        if !file_type(&found)?.is_file() {
            return Ok(Err(Unmet::NotFile(path.to_owned())));
        }
        if is_of_kernel(&found)? {
            return Err(ErrorKind::Unsupported.into());
        }
        read_found(&found).map(Ok)
    }

    /// Text of a file of the kernel that this program names itself.
    fn read_text(&self, path: &str) -> io::Result<String> {
        String::from_utf8(read_found(&self.walk(path)?)?).map_err(|_| ErrorKind::InvalidData.into())
    }

    /// A file of the kernel that is the same for all processes.
    fn read_proc(&self, name: &str) -> io::Result<String> {
        text_of(&self.proc.join(name))
    }

    fn certificates(&self, path: &str) -> io::Result<Result<Vec<CertificateDer<'static>>, Unmet>> {
        let content = match self.read(path)? {
            Ok(content) => content,
            Err(unmet) => return Ok(Err(unmet)),
        };
        let found: Vec<CertificateDer<'static>> =
            CertificateDer::pem_slice_iter(&content).filter_map(Result::ok).collect();
        Ok(if found.is_empty() { Err(Unmet::NoCertificate(path.to_owned())) } else { Ok(found) })
    }

    fn key_pair(&self, certificate: &str, key: &str) -> io::Result<Option<Unmet>> {
        let (found, content) = match (self.certificates(certificate)?, self.read(key)?) {
            (Err(unmet), _) | (_, Err(unmet)) => return Ok(Some(unmet)),
            (Ok(found), Ok(content)) => (found, content),
        };
        let Ok(private) = PrivateKeyDer::from_pem_slice(&content) else {
            // The kubelet accepts kinds of keys that this program does not know.
            let has_key = String::from_utf8_lossy(&content).contains("PRIVATE KEY-----");
            return Ok((!has_key).then(|| Unmet::NoKey(key.to_owned())));
        };
        let Ok(private) = rustls::crypto::ring::sign::any_supported_type(&private) else { return Ok(None) };
        match CertifiedKey::new(found, private).keys_match() {
            Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch)) => {
                Ok(Some(Unmet::OtherKey { certificate: certificate.to_owned(), key: key.to_owned() }))
            }
            _ => Ok(None),
        }
    }

    fn folder(&self, path: &str) -> io::Result<Option<Unmet>> {
        let mut existing = Path::new(path);
        let found = loop {
            match self.walk(existing.to_str().unwrap_or("/")) {
                Ok(found) => break found,
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) if error.kind() == ErrorKind::NotADirectory => {
                    return Ok(Some(Unmet::NotCreatable(path.to_owned())));
                }
                Err(error) => return Err(error),
            }
            existing = existing.parent().ok_or(ErrorKind::InvalidInput)?;
        };
        let is_folder = file_type(&found)?.is_dir();
        if existing == Path::new(path) {
            return Ok((!is_folder).then(|| Unmet::NotFolder(path.to_owned())));
        }
        let is_read_only = rustix::fs::fstatvfs(&found)?.f_flag.contains(StatVfsMountFlags::RDONLY);
        let is_creatable = is_folder && !is_read_only && !is_of_kernel(&found)?;
        Ok((!is_creatable).then(|| Unmet::NotCreatable(path.to_owned())))
    }

    /// Whether a program listens there now is not asked: a runtime may be restarting.
    fn socket(&self, path: &str) -> io::Result<Option<Unmet>> {
        let Some(found) = self.find(path)? else { return Ok(Some(Unmet::Missing(path.to_owned()))) };
        Ok((!file_type(&found)?.is_socket()).then(|| Unmet::NotSocket(path.to_owned())))
    }

    fn has_cgroup_v2(&self) -> io::Result<bool> {
        if self.exists("/sys/fs/cgroup/cgroup.controllers")? {
            return Ok(true);
        }
        // A host without any hierarchy says nothing.
        for controller in CONTROLLERS {
            if self.exists(&format!("/sys/fs/cgroup/{controller}"))? {
                return Ok(false);
            }
        }
        Err(ErrorKind::NotFound.into())
    }

    fn cgroup(&self, paths: &[String]) -> io::Result<Option<Unmet>> {
        let mut hierarchies = Vec::new();
        if self.has_cgroup_v2()? {
            hierarchies.push("/sys/fs/cgroup".to_owned());
        } else {
            for controller in CONTROLLERS {
                let hierarchy = format!("/sys/fs/cgroup/{controller}");
                if self.exists(&hierarchy)? {
                    hierarchies.push(hierarchy);
                }
            }
        }
        for path in paths.iter().filter(|path| path.split('/').all(|name| name != "..")) {
            let mut is_everywhere = true;
            for hierarchy in &hierarchies {
                is_everywhere &= self.exists(&format!("{hierarchy}/{path}"))?;
            }
            if is_everywhere {
                return Ok(None);
            }
        }
        Ok(paths.first().map(|path| Unmet::NoCgroup(format!("/{path}"))))
    }

    /// Memory of the host, and what is kept of it, in bytes.
    fn kept(&self, kept: &KeptMemory) -> io::Result<(u64, u64)> {
        let text = self.read_text("/proc/meminfo")?;
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB"));
        let kilobytes: u64 = line.and_then(|number| number.trim().parse().ok()).ok_or(ErrorKind::InvalidData)?;
        let has = kilobytes.checked_mul(1024).ok_or(ErrorKind::InvalidData)?;
        Ok((has, kept.of(has).ok_or(ErrorKind::InvalidData)?))
    }

    fn numa_nodes(&self) -> io::Result<BTreeSet<u64>> {
        let nodes = ranges(&self.read_text("/sys/devices/system/node/online")?).ok_or(ErrorKind::InvalidData)?;
        // A host has at most 1,024 (`MAX_NUMNODES`).
        Ok(nodes.into_iter().flat_map(|(first, last)| first..=last.min(first.saturating_add(1024))).collect())
    }

    fn state_file(&self, file: StateFile, policy: &str) -> io::Result<Option<Unmet>> {
        let content = match text_of(&self.state.join(file.as_str())) {
            Ok(content) => content,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == ErrorKind::InvalidData => return Ok(Some(Unmet::DamagedState { file })),
            Err(error) => return Err(error),
        };
        let Ok(state) = serde_json::from_str::<serde_json::Value>(&content) else {
            return Ok(Some(Unmet::DamagedState { file }));
        };
        match state.get("policyName").and_then(serde_json::Value::as_str) {
            Some(found) if found != policy => Ok(Some(Unmet::OtherState { file })),
            Some(_) | None => Ok(None),
        }
    }

    fn address(&self, text: &str) -> io::Result<Option<Unmet>> {
        let missing = || Some(Unmet::NoAddress(text.to_owned()));
        match text.parse::<IpAddr>().map_err(|_| ErrorKind::InvalidInput)?.to_canonical() {
            address if address.is_loopback() || address.is_unspecified() => Ok(None),
            IpAddr::V4(address) => {
                if self.read_proc("sys/net/ipv4/ip_nonlocal_bind").is_ok_and(|on| on.trim() == "1") {
                    return Ok(None);
                }
                let routes = text_of(&self.process.join("net/fib_trie"))?;
                let local = local_routes(&routes);
                let is_local = local.iter().any(|(network, bits)| {
                    let shift = 32_u32.saturating_sub(*bits);
                    network.to_bits().checked_shr(shift) == address.to_bits().checked_shr(shift)
                });
                if local.is_empty() {
                    Err(ErrorKind::InvalidData.into())
                } else {
                    Ok((!is_local).then(missing).flatten())
                }
            }
            IpAddr::V6(address) => {
                if self.read_proc("sys/net/ipv6/ip_nonlocal_bind").is_ok_and(|on| on.trim() == "1") {
                    return Ok(None);
                }
                let list = text_of(&self.process.join("net/if_inet6"))?;
                let wanted = format!("{:032x}", address.to_bits());
                Ok((!list.lines().any(|line| line.starts_with(&wanted))).then(missing).flatten())
            }
        }
    }

    fn port(&self, address: &str, port: u16) -> io::Result<Option<Unmet>> {
        if !self.is_kubelet {
            // A program of another name may be the kubelet, and listen there.
            return Err(ErrorKind::NotFound.into());
        }
        let IpAddr::V4(address) = address.parse::<IpAddr>().map_err(|_| ErrorKind::InvalidInput)? else {
            // A listener for IPv4 conflicts or does not, depending on options of both sockets.
            return Ok(None);
        };
        let listeners = text_of(&self.process.join("net/tcp"))?;
        let mut sockets = BTreeSet::new();
        for line in listeners.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (Some(local), Some(state), Some(inode)) = (fields.get(1), fields.get(3), fields.get(9)) else {
                continue;
            };
            let Some((ip, at)) = local.split_once(':') else { continue };
            let ip = u32::from_str_radix(ip, 16).map_err(|_| ErrorKind::InvalidData)?;
            let ip = std::net::Ipv4Addr::from(ip.to_le_bytes());
            let conflicts = ip == address || ip.is_unspecified() || address.is_unspecified();
            // 0A: listens (`TCP_LISTEN`).
            if *state == "0A" && u16::from_str_radix(at, 16) == Ok(port) && conflicts {
                sockets.insert(format!("socket:[{inode}]"));
            }
        }
        if !sockets.is_empty() {
            for entry in std::fs::read_dir(self.process.join("fd"))? {
                // The kubelet closes files at any moment.
                if let Some(target) = std::fs::read_link(entry?.path()).ok().as_deref().and_then(Path::to_str) {
                    sockets.remove(target);
                }
            }
        }
        Ok((!sockets.is_empty()).then_some(Unmet::PortInUse(port)))
    }
}

fn is_of_kernel(found: &OwnedFd) -> io::Result<bool> {
    // A number of 32 bits, which some architectures have as a negative one.
    let kind = u64::from(u32::try_from(rustix::fs::fstatfs(found)?.f_type & 0xffff_ffff).unwrap_or_default());
    Ok(OF_KERNEL.contains(&kind))
}

fn file_type(found: &OwnedFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(found)?.st_mode))
}

/// Reads what was found, also if another entry has its path now.
fn read_found(found: &OwnedFd) -> io::Result<Vec<u8>> {
    read_all(&Path::new("/proc/self/fd").join(found.as_raw_fd().to_string()))
}

/// Reads a file. What is cut off could be what is looked for, so a file above the limit is an error.
fn read_all(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::open(path)?.take(MAX_FILE).read_to_end(&mut content)?;
    if u64::try_from(content.len()).is_ok_and(|length| length < MAX_FILE) {
        Ok(content)
    } else {
        Err(ErrorKind::FileTooLarge.into())
    }
}

fn text_of(path: &Path) -> io::Result<String> {
    String::from_utf8(read_all(path)?).map_err(|_| ErrorKind::InvalidData.into())
}

/// Ranges of a list as the kernel writes it: `0-3,8`.
fn ranges(text: &str) -> Option<Vec<(u64, u64)>> {
    let number = |text: &str| text.parse::<u64>().ok();
    let range = |part: &str| match part.split_once('-') {
        None => number(part).map(|one| (one, one)),
        Some((first, last)) => number(first).zip(number(last)),
    };
    text.trim().split(',').map(range).collect()
}

/// Networks whose addresses are those of the host (`/proc/net/fib_trie`), with their number of bits.
fn local_routes(text: &str) -> Vec<(std::net::Ipv4Addr, u32)> {
    let mut leaf = None;
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            leaf = address.parse().ok();
        } else if let Some(network) = leaf
            && let Some((bits, "host LOCAL")) = line.strip_prefix('/').and_then(|rest| rest.split_once(' '))
            && let Ok(bits) = bits.parse::<u32>()
        {
            found.push((network, bits));
        }
    }
    found
}

#[cfg(test)]
#[path = "preflight_tests.rs"]
mod tests;
