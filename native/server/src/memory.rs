//! The memory and CPU time of the process. Read on request, never stored.

use nix::sys::resource::{UsageWho, getrusage};

/// Figures of the whole process, including the Erlang node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProcessUsage {
    /// Resident bytes; 0 if the system has no `/proc`.
    pub(crate) resident_bytes: u64,
    /// The highest number of resident bytes so far.
    pub(crate) resident_bytes_peak: u64,
    /// Seconds of CPU, system and user.
    pub(crate) cpu_seconds: [f64; 2],
}

impl ProcessUsage {
    /// Reads the figures from the system.
    pub(crate) fn now() -> ProcessUsage {
        let resident_bytes = resident_bytes().unwrap_or(0);
        let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else {
            return ProcessUsage { resident_bytes, ..ProcessUsage::default() };
        };
        // Kilobytes everywhere except on macOS.
        let unit = if cfg!(target_os = "macos") { 1 } else { 1_024 };
        let peak = u64::try_from(usage.max_rss()).unwrap_or(0) * unit;
        let seconds =
            |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        ProcessUsage {
            resident_bytes,
            resident_bytes_peak: peak.max(resident_bytes),
            cpu_seconds: [seconds(usage.system_time()), seconds(usage.user_time())],
        }
    }
}

fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// Bytes of memory of the machine.
pub(crate) fn system_memory_bytes() -> Option<u64> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1_024)
}

/// Bytes of memory that this process may use: the machine's, or its container's if that is less.
pub(crate) fn available_bytes() -> Option<u64> {
    let limits = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let limits = limits.into_iter().filter_map(|file| std::fs::read_to_string(file).ok());
    // Without a limit the file contains the word `max`, or a number larger than any machine's
    // memory.
    limits.filter_map(|text| text.trim().parse().ok()).chain(system_memory_bytes()).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_takes_less_than_the_machine_has() {
        let resident_bytes = ProcessUsage::now().resident_bytes;
        assert!(available_bytes() <= system_memory_bytes());
        assert!((1..system_memory_bytes().unwrap_or(0)).contains(&resident_bytes));
    }
}
