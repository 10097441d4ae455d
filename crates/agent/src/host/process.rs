//! The running kubelet: its command line, from `/proc`. Another host process cannot pass for it: only processes of this
//! user or of root count, in the namespace of process ids in which this process runs.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::problem::OsError;

/// The file system of processes. The host step shares the process ids of its host.
pub const PROC: &str = "/proc";
/// Name of the kubelet's program, also if a script has started it (`/proc/PID/comm`).
const NAME: &str = "kubelet";
/// Maximum size of a command line, in bytes. That of a kubelet has about one thousand.
const MAX_COMMAND_LINE: u64 = 8 * 1024;

/// The running kubelet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeletProcess {
    /// Arguments after the name of the program.
    pub arguments: Vec<String>,
    /// Start of the process, in Unix seconds.
    pub started: i64,
    /// Id of the process.
    pub pid: u32,
}

/// Reason why the command line of the kubelet is unknown, as it may be published.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ProcessProblem {
    /// No process is a kubelet.
    #[error("no process named kubelet runs on the host")]
    NotRunning,
    /// Several are.
    #[error("{0} processes named kubelet run on the host")]
    Several(usize),
    /// The command line is too long.
    #[error("the kubelet's command line is longer than {} KiB", MAX_COMMAND_LINE / 1024)]
    TooLong,
    /// The command line is not UTF-8.
    #[error("the kubelet's command line is not UTF-8 text")]
    NotUtf8,
    /// The start of the process is unknown.
    #[error("the start of the kubelet's process is unknown")]
    NoStart,
    /// `/proc` cannot be read.
    #[error("the kubelet's process cannot be read: {0}")]
    Unreadable(OsError),
    /// The host step did not answer.
    #[error("the host step did not tell the kubelet's command line")]
    NoAnswer,
}

impl From<&io::Error> for ProcessProblem {
    fn from(error: &io::Error) -> Self {
        Self::Unreadable(OsError::from(error))
    }
}

/// Reads the running kubelet below this folder, usually [`PROC`].
///
/// # Errors
/// There is not exactly one, or it cannot be read.
pub fn find(proc: &Path) -> Result<KubeletProcess, ProcessProblem> {
    read(&folder_of_kubelet(proc)?)
}

/// Finds the folder of the running kubelet below this one, usually [`PROC`].
///
/// # Errors
/// There is not exactly one, or the processes cannot be read.
pub(super) fn folder_of_kubelet(proc: &Path) -> Result<PathBuf, ProcessProblem> {
    let unreadable = |error: io::Error| ProcessProblem::from(&error);
    let own = namespaces(&proc.join("self")).map_err(unreadable)?;
    let user = rustix::process::geteuid().as_raw();
    let mut found = Vec::new();
    for entry in std::fs::read_dir(proc).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let is_process = entry.file_name().to_str().is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
        let process = entry.path();
        // A process may end at any moment.
        let is_kubelet = || {
            let name = std::fs::read_to_string(process.join("comm")).ok()?;
            let owner = std::fs::metadata(&process).ok()?.uid();
            Some(name.trim_end() == NAME && (owner == 0 || owner == user))
        };
        if !is_process || is_kubelet() != Some(true) {
            continue;
        }
        match namespaces(&process) {
            Ok(number) if number == own => found.push(process),
            Ok(_) => {}
            // The process has ended, and `ESRCH` if it ended while it was read.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {}
            Err(error) => return Err(unreadable(error)),
        }
    }
    let pids: Vec<&str> = found.iter().filter_map(|process| process.file_name()?.to_str()).collect();
    let agent = std::process::id().to_string();
    // The kubelet's own children have its name until they start their program, and the agent asks a kubelet for its version.
    let is_child =
        |process: &Path| parent_of(process).is_some_and(|parent| parent == agent || pids.contains(&parent.as_str()));
    let found: Vec<&PathBuf> = found.iter().filter(|process| !is_child(process) && !has_ended(process)).collect();
    match &found[..] {
        [] => Err(ProcessProblem::NotRunning),
        [process] => Ok((*process).clone()),
        several => Err(ProcessProblem::Several(several.len())),
    }
}

/// Number of namespaces of process ids in which a process has an id, from that of `/proc` on: a container without the ids of
/// its host adds one. Every user may read it (`NSpid` of `/proc/PID/status`, Linux 4.1), unlike the link `ns/pid`, which
/// needs the right to trace the process.
fn namespaces(process: &Path) -> io::Result<usize> {
    let status = std::fs::read_to_string(process.join("status"))?;
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    ids.map(|ids| ids.split_whitespace().count()).ok_or_else(|| io::ErrorKind::Unsupported.into())
}

/// A field of `/proc/PID/stat`, by its number from 3 on. The second is the name in parentheses, which may have any character.
fn field(process: &Path, number: usize) -> Option<String> {
    let stat = std::fs::read_to_string(process.join("stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(number.checked_sub(3)?).map(str::to_owned)
}

/// Reports whether a process has ended, and its parent has not read its exit status.
fn has_ended(process: &Path) -> bool {
    field(process, 3).is_some_and(|state| matches!(state.as_str(), "Z" | "X"))
}

/// Process id of the parent.
fn parent_of(process: &Path) -> Option<String> {
    field(process, 4)
}

/// Start of a process in Unix seconds: the boot of the host (`btime` of `/proc/stat`), and the ticks since then.
fn start_of_process(process: &Path) -> Option<i64> {
    let stat = std::fs::read_to_string(process.parent()?.join("stat")).ok()?;
    let boot: i64 = stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    let ticks: u64 = field(process, 22)?.parse().ok()?;
    let seconds = ticks.checked_div(rustix::param::clock_ticks_per_second())?;
    boot.checked_add(i64::try_from(seconds).ok()?)
}

fn read(process: &Path) -> Result<KubeletProcess, ProcessProblem> {
    let line = start_of(&process.join("cmdline"), MAX_COMMAND_LINE.saturating_add(1))?;
    if u64::try_from(line.len()).is_ok_and(|length| length > MAX_COMMAND_LINE) {
        return Err(ProcessProblem::TooLong);
    }
    let line = String::from_utf8(line).map_err(|_| ProcessProblem::NotUtf8)?;
    let arguments = line.strip_suffix('\0').unwrap_or(&line).split('\0').skip(1).map(str::to_owned).collect();
    let started = start_of_process(process).ok_or(ProcessProblem::NoStart)?;
    let pid = process.file_name().and_then(|name| name.to_str()?.parse().ok()).ok_or(ProcessProblem::NoStart)?;
    Ok(KubeletProcess { arguments, started, pid })
}

/// The first bytes of a file.
fn start_of(path: &Path, length: u64) -> Result<Vec<u8>, ProcessProblem> {
    let mut content = Vec::new();
    let read = File::open(path).and_then(|file| file.take(length).read_to_end(&mut content));
    read.map(|_| content).map_err(|error| ProcessProblem::from(&error))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A folder like `/proc` with these processes: name, command line and process ids.
    fn proc(processes: &[(&str, &[u8], &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("stat"), "cpu 1 2\nbtime 1000\n").expect("written");
        let put = |pid: &str, (name, line, ids): (&str, &[u8], &str)| {
            let process = folder.path().join(pid);
            fs::create_dir_all(&process).expect("created");
            fs::write(process.join("comm"), format!("{name}\n")).expect("written");
            fs::write(process.join("cmdline"), line).expect("written");
            fs::write(process.join("stat"), format!("{pid} (a ) b) S 999 {} 500 0", "0 ".repeat(17))).expect("written");
            fs::write(process.join("status"), format!("Name:\t{name}\nNSpid:\t{ids}\nNSpgid:\t1\n")).expect("written");
        };
        put("self", ("nodecfg-agent", b"", "7"));
        put("kubelet", ("kubelet", b"no process", "7"));
        for (number, process) in processes.iter().enumerate() {
            put(&number.to_string(), *process);
        }
        folder
    }

    fn found(processes: &[(&str, &[u8], &str)]) -> Result<Vec<String>, ProcessProblem> {
        find(proc(processes).path()).map(|process| process.arguments)
    }

    const KUBELET: (&str, &[u8], &str) = ("kubelet", b"/usr/bin/kubelet\0--max-pods=50\0--v\0\x32\0", "7");

    #[test]
    fn reads_the_command_line_of_the_only_kubelet() {
        let others: [(&str, &[u8], &str); 2] = [("sh", b"sh\0-c\0kubelet", "7"), ("kubelet", b"x\0", "7\t1")];
        let arguments = ["--max-pods=50", "--v", "2"].map(str::to_owned).to_vec();
        assert_eq!(found(&[others[0], KUBELET, others[1]]), Ok(arguments), "a pod has its own namespace");
        assert_eq!(found(&[("kubelet", b"kubelet\0", "7")]), Ok(vec![]));
        assert_eq!(found(&others), Err(ProcessProblem::NotRunning));
        assert_eq!(found(&[KUBELET, KUBELET]), Err(ProcessProblem::Several(2)));
        let ticks = i64::try_from(rustix::param::clock_ticks_per_second()).expect("few");
        assert_eq!(find(proc(&[KUBELET]).path()).map(|process| process.started), Ok(1000 + 500 / ticks));
        // A child of the kubelet, between its fork and its exec, and one of this agent, which asks for the version.
        let folder = proc(&[KUBELET, KUBELET]);
        for parent in [0, std::process::id()] {
            fs::write(folder.path().join("1/stat"), format!("1 (kubelet) S {parent} 1 1 0")).expect("written");
            assert!(find(folder.path()).is_ok(), "{parent}");
        }
        fs::write(folder.path().join("1/stat"), "1 (kubelet) Z 999 1 1 0").expect("written");
        assert!(find(folder.path()).is_ok(), "one that has ended runs nothing");
    }

    #[test]
    fn refuses_what_it_cannot_read() {
        let long = [b"kubelet\0".as_slice(), &b"--v=2\0".repeat(10_000)].concat();
        assert_eq!(found(&[("kubelet", &long, "7")]), Err(ProcessProblem::TooLong));
        assert_eq!(found(&[("kubelet", b"kubelet\0--x=\xff\0", "7")]), Err(ProcessProblem::NotUtf8));
        let folder = proc(&[KUBELET]);
        fs::remove_file(folder.path().join("0/cmdline")).expect("removed");
        assert!(matches!(find(folder.path()), Err(ProcessProblem::Unreadable(_))));
        assert!(matches!(find(Path::new("/no/such/folder")), Err(ProcessProblem::Unreadable(_))));
    }

    #[test]
    fn reads_this_host() {
        assert!(matches!(find(Path::new(PROC)), Ok(_) | Err(ProcessProblem::NotRunning)));
    }
}
