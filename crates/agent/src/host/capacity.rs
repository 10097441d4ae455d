//! Capacity of this machine, as its kubelet reports it in `status.capacity` of its Node.

use std::path::Path;

use kubelet_config::capacity::{Capacity, Resource};

/// CPUs that are online, as the kubelet counts them (cAdvisor, `sysinfo.GetNodesInfo`).
const CPUS: &str = "/sys/devices/system/cpu/online";
/// Memory of the machine (cAdvisor, `machine.GetMachineMemoryCapacity`).
const MEMORY: &str = "/proc/meminfo";

/// Reads the capacity of this machine. `root` is the kubelet's root directory, whose file system has the ephemeral storage.
/// What cannot be read is unknown.
pub(crate) fn of_machine(root: &Path) -> Capacity {
    let text = |path| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = cpus_in(&text(CPUS)).unwrap_or_default();
    let memory = memory_in(&text(MEMORY)).unwrap_or_default();
    // The first boot may come before the kubelet has made its folder.
    let mut folders = root.ancestors().filter_map(|folder| rustix::fs::statvfs(folder).ok());
    let storage = folders.next().map_or(0, |stat| stat.f_blocks.saturating_mul(stat.f_frsize));
    Capacity::default()
        .with(Resource::Cpu, cpus.saturating_mul(1000))
        .with(Resource::Memory, memory)
        .with(Resource::EphemeralStorage, storage)
}

/// Number of CPUs in a list such as `0-3,8`. `None` for any other text.
fn cpus_in(list: &str) -> Option<u64> {
    list.trim().split(',').try_fold(0_u64, |cpus, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        cpus.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

/// Bytes of `MemTotal`.
fn memory_in(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_kernel_writes() {
        for (list, cpus) in
            [("0\n", Some(1)), ("0-15\n", Some(16)), ("0-3,8,10-11\n", Some(7)), ("", None), ("3-1", None)]
        {
            assert_eq!(cpus_in(list), cpus, "{list}");
        }
        let meminfo = "MemTotal:       16380004 kB\nMemFree:         9 kB\n";
        assert_eq!((memory_in(meminfo), memory_in("MemTotal: x kB")), (Some(16_380_004 * 1024), None));
    }

    #[test]
    fn machine_has_a_capacity() {
        let capacity = of_machine(Path::new("/nonexistent/kubelet"));
        assert!(Resource::ALL.iter().all(|resource| capacity.of(*resource).is_some()), "{capacity}");
    }
}
