//! Options that may change while the server runs, and how they are spelt.

use crate::clients_memory::default_limit_bytes;
use crate::{Config, memory};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use todana_table::{Budget, WhenFull};

/// The current values. Loops read them with plain loads.
#[derive(Debug)]
pub(crate) struct Settings {
    budget: Arc<Budget>,
    connections_max: AtomicUsize,
    /// 0 is never.
    idle_timeout_ms: AtomicU64,
    /// `u64::MAX` is off.
    slow_log_ns: AtomicU64,
    slow_log_entries_max: AtomicUsize,
    /// 0 is none.
    clients_memory_limit_bytes: AtomicU64,
    /// More connections than this cannot be allowed at run time.
    connections_ceiling: usize,
    /// All options as they were given, to show.
    given: Vec<(String, String)>,
}

/// Options that this module shows and changes, in Redis' names.
const CHANGEABLE: [&str; 7] = [
    "maxclients",
    "maxmemory",
    "maxmemory-clients",
    "maxmemory-policy",
    "slowlog-log-slower-than",
    "slowlog-max-len",
    "timeout",
];

impl Settings {
    pub(crate) fn new(config: &Config, connections_ceiling: usize) -> Settings {
        let slow_log_ns = config.slow_log_us.map_or(u64::MAX, |us| us.saturating_mul(1_000));
        Settings {
            budget: config.budget.clone(),
            connections_max: config.connections_max.into(),
            idle_timeout_ms: config.idle_timeout_ms.unwrap_or(0).into(),
            slow_log_ns: slow_log_ns.into(),
            slow_log_entries_max: config.slow_log_entries_max.into(),
            clients_memory_limit_bytes: config
                .clients_memory_limit_bytes
                .unwrap_or_else(|| default_limit_bytes(memory::available_bytes()))
                .into(),
            connections_ceiling,
            given: config.options.clone(),
        }
    }

    pub(crate) fn connections_max(&self) -> usize {
        self.connections_max.load(Relaxed)
    }
    /// 0 is never.
    pub(crate) fn idle_timeout_ms(&self) -> u64 {
        self.idle_timeout_ms.load(Relaxed)
    }
    /// `u64::MAX` is off.
    pub(crate) fn slow_log_ns(&self) -> u64 {
        self.slow_log_ns.load(Relaxed)
    }
    pub(crate) fn slow_log_entries_max(&self) -> usize {
        self.slow_log_entries_max.load(Relaxed)
    }
    /// 0 is none.
    #[inline]
    pub(crate) fn clients_memory_limit_bytes(&self) -> u64 {
        self.clients_memory_limit_bytes.load(Relaxed)
    }
    /// 0 is none.
    pub(crate) fn memory_limit_bytes(&self) -> u64 {
        match self.budget.bytes_max.load(Relaxed) {
            i64::MAX => 0,
            bytes => bytes.max(0) as u64,
        }
    }
    pub(crate) fn memory_policy(&self) -> &'static str {
        match self.budget.when_full() {
            WhenFull::Evict => "allkeys-lfu",
            WhenFull::Refuse => "noeviction",
        }
    }

    /// All options as name and value: those given at the start with their present values, and the
    /// changeable ones.
    pub(crate) fn list(&self) -> Vec<(String, String)> {
        let given = self.given.iter().map(|(name, value)| {
            (name.clone(), self.current(name).unwrap_or_else(|| value.clone()))
        });
        let missing = CHANGEABLE.iter().filter(|name| !self.given.iter().any(|(n, _)| n == *name));
        let missing = missing.filter_map(|name| Some((name.to_string(), self.current(name)?)));
        given.chain(missing).collect()
    }

    fn current(&self, name: &str) -> Option<String> {
        Some(match name {
            "maxclients" => self.connections_max().to_string(),
            "maxmemory" => self.memory_limit_bytes().to_string(),
            "maxmemory-clients" => self.clients_memory_limit_bytes().to_string(),
            "maxmemory-policy" => self.memory_policy().to_string(),
            "slowlog-log-slower-than" => match self.slow_log_ns() {
                u64::MAX => "-1".to_string(),
                nanos => (nanos / 1_000).to_string(),
            },
            "slowlog-max-len" => self.slow_log_entries_max().to_string(),
            "timeout" => (self.idle_timeout_ms() / 1_000).to_string(),
            _ => return None,
        })
    }

    /// Changes an option. The error is a sentence without CR or LF.
    pub(crate) fn set(&self, name: &str, value: &str) -> Result<(), String> {
        let name = name.to_ascii_lowercase();
        match name.as_str() {
            "maxclients" => {
                let max = whole(&name, value, 1, self.connections_ceiling as u64)?;
                self.connections_max.store(max as usize, Relaxed);
            }
            "maxmemory" => {
                let bytes = memory_bytes(value).filter(|bytes| *bytes < i64::MAX as u64);
                let bytes = bytes.ok_or("maxmemory must be a number of bytes, such as 100mb")?;
                let limit = if bytes == 0 { i64::MAX } else { bytes as i64 };
                self.budget.bytes_max.store(limit, Relaxed);
            }
            "maxmemory-clients" => {
                let bytes = memory_bytes(value);
                let bytes =
                    bytes.ok_or("maxmemory-clients must be a number of bytes, such as 100mb")?;
                self.clients_memory_limit_bytes.store(bytes, Relaxed);
            }
            "maxmemory-policy" => self.budget.set_when_full(match value {
                "allkeys-lfu" => WhenFull::Evict,
                "noeviction" => WhenFull::Refuse,
                _ => return Err("maxmemory-policy must be allkeys-lfu or noeviction".into()),
            }),
            "slowlog-log-slower-than" => {
                let micros = value.parse::<i64>().map_err(
                    |_| "slowlog-log-slower-than must be a whole number of microseconds",
                )?;
                let nanos = u64::try_from(micros).map_or(u64::MAX, |us| us.saturating_mul(1_000));
                self.slow_log_ns.store(nanos, Relaxed);
            }
            "slowlog-max-len" => {
                let entries = whole(&name, value, 0, 1_000_000)?;
                self.slow_log_entries_max.store(entries as usize, Relaxed);
            }
            "timeout" => {
                let seconds = whole(&name, value, 0, i32::MAX as u64)?;
                self.idle_timeout_ms.store(seconds * 1_000, Relaxed);
            }
            // What the option is already may be said again.
            _ if self.given.iter().any(|(given, old)| *given == name && old == value) => {}
            _ if self.given.iter().any(|(given, _)| *given == name) => {
                return Err(format!("option {name} cannot be changed while the server runs"));
            }
            _ => return Err("there is no option of this name".into()),
        }
        Ok(())
    }
}

fn whole(name: &str, value: &str, min: u64, max: u64) -> Result<u64, String> {
    let number = value.parse().ok().filter(|number| (min..=max).contains(number));
    number.ok_or_else(|| format!("{name} must be a whole number from {min} to {max}"))
}

/// `100`, `100b`, `1k` (1,000), `1kb` (1,024), `1m`, `1mb`, `1g`, `1gb`, in any case: as Redis
/// spells bytes.
fn memory_bytes(value: &str) -> Option<u64> {
    let lower = value.to_ascii_lowercase();
    let digits = lower.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = lower.split_at(digits);
    let unit: u64 = match unit {
        "" | "b" => 1,
        "k" => 1_000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_sizes_are_spelt_as_in_redis() {
        let spelt = ["0", "17", "17b", "1k", "1kb", "2M", "100mb", "3g", "1GB"];
        let bytes = [0, 17, 17, 1_000, 1_024, 2_000_000, 100 << 20, 3_000_000_000, 1 << 30];
        assert_eq!(spelt.map(memory_bytes), bytes.map(Some));
        for wrong in
            ["", "mb", "-1", "1.5gb", "1tb", "1 mb", "99999999999999999999", "99999999999gb"]
        {
            assert_eq!(memory_bytes(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn whole_numbers_outside_their_range_are_refused() {
        assert_eq!(whole("timeout", "0", 0, 5), Ok(0));
        assert_eq!(whole("timeout", "5", 0, 5), Ok(5));
        let refused = Err("timeout must be a whole number from 0 to 5".to_string());
        assert_eq!(whole("timeout", "6", 0, 5), refused);
        assert_eq!(whole("timeout", "-1", 0, 5), refused);
        assert_eq!(whole("timeout", "x", 0, 5), refused);
    }
}
