//! The counters of the loops.
//!
//! Only the loop itself writes its counters, so counting costs no atomic read-modify-write and no
//! shared cache line. Readers sum over the loops. Resetting therefore never changes a counter: it
//! stores the current sums, which later readers subtract.

use crate::command_names::command_names;
use crate::histogram::{self, BUCKETS, Counter, Histogram};
use std::sync::OnceLock;
use todana_protocol::{CommandStats, ProtocolName};
use todana_resp::ERROR_CODES;
use todana_table::Counts;

/// The counters of one loop. Aligned so that two loops share no cache line (nor a pair of them).
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct LoopStatistics {
    pub(crate) commands: Counter,
    pub(crate) input_bytes: Counter,
    pub(crate) output_bytes: Counter,
    /// By protocol.
    pub(crate) hits: [Counter; PROTOCOLS],
    pub(crate) misses: [Counter; PROTOCOLS],
    /// Errors of RESP by their first word.
    pub(crate) error_codes: [Counter; ERROR_CODES.len()],
    /// System calls that received bytes, and that sent some.
    pub(crate) receipts: Counter,
    pub(crate) sends: Counter,
    pub(crate) authentication_failures: Counter,
    pub(crate) output_limit_disconnections: Counter,
    /// Turns that panicked.
    pub(crate) panics: Counter,
    /// The highest number of messages, sleepers or closed clients in one round.
    pub(crate) round_most: Counter,
    /// The durations of rounds, without the wait for sockets.
    pub(crate) rounds: Histogram,
    /// Their sum in nanoseconds.
    pub(crate) busy_nanos: Counter,
    /// The clock reading at which the present round began; 0 while the loop waits.
    pub(crate) round_began: Counter,
    /// Turns after which the connection's next one is put off.
    pub(crate) slow_turns: Counter,
    /// Scripts and transactions that were expected to take long.
    pub(crate) long_works: Counter,
    /// Connections that had a turn in the present window ([`crate::balance`]).
    pub(crate) active: Counter,
    /// The same of the window before.
    pub(crate) active_before: Counter,
    /// Connections handed to other loops.
    pub(crate) moved: Counter,
    /// Clients closed because all clients together held too much memory.
    pub(crate) evicted_clients: Counter,
    /// Bytes that this loop holds for its clients now: buffers, and the state of sessions.
    pub(crate) held_bytes: Counter,
    by_command: [Box<[OnceLock<Box<CommandCounters>>]>; PROTOCOLS],
}

#[derive(Debug, Default)]
struct CommandCounters {
    errors: Counter,
    nanos: Counter,
    latency: Histogram,
}

/// Number of protocols.
pub(crate) const PROTOCOLS: usize = 3;

/// Index of a protocol in arrays that have one element for each.
pub(crate) fn index(protocol: ProtocolName) -> usize {
    match protocol {
        ProtocolName::Resp => 0,
        ProtocolName::Memcached => 1,
        ProtocolName::Kyoto => 2,
    }
}

/// A value for each command of each protocol.
fn for_each_command<T>(value: impl Fn() -> T) -> [Vec<T>; PROTOCOLS] {
    let protocols = [ProtocolName::Resp, ProtocolName::Memcached, ProtocolName::Kyoto];
    protocols.map(|protocol| command_names(protocol).iter().map(|_| value()).collect())
}

impl LoopStatistics {
    pub(crate) fn new() -> LoopStatistics {
        LoopStatistics {
            commands: Counter::default(),
            input_bytes: Counter::default(),
            output_bytes: Counter::default(),
            hits: Default::default(),
            misses: Default::default(),
            error_codes: std::array::from_fn(|_| Counter::default()),
            receipts: Counter::default(),
            sends: Counter::default(),
            authentication_failures: Counter::default(),
            output_limit_disconnections: Counter::default(),
            panics: Counter::default(),
            round_most: Counter::default(),
            rounds: Histogram::default(),
            busy_nanos: Counter::default(),
            round_began: Counter::default(),
            slow_turns: Counter::default(),
            long_works: Counter::default(),
            active: Counter::default(),
            active_before: Counter::default(),
            moved: Counter::default(),
            evicted_clients: Counter::default(),
            held_bytes: Counter::default(),
            by_command: for_each_command(OnceLock::new).map(Vec::into_boxed_slice),
        }
    }

    /// Counts one call. The counters of a command are created with its first call.
    #[inline]
    pub(crate) fn record(&self, protocol: ProtocolName, command: usize, failed: bool, nanos: u64) {
        let Some(counters) = self.by_command[index(protocol)].get(command) else { return };
        let counters = counters.get_or_init(Box::default);
        counters.nanos.add(nanos);
        counters.latency.record(nanos);
        if failed {
            counters.errors.add(1);
        }
    }
}

/// Sums over loops at one moment.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) commands: u64,
    pub(crate) errors: u64,
    pub(crate) input_bytes: u64,
    pub(crate) output_bytes: u64,
    /// Hits and misses by protocol.
    pub(crate) lookups: [(u64, u64); PROTOCOLS],
    pub(crate) error_codes: Vec<u64>,
    pub(crate) receipts: u64,
    pub(crate) sends: u64,
    pub(crate) authentication_failures: u64,
    pub(crate) output_limit_disconnections: u64,
    pub(crate) evicted_clients: u64,
    pub(crate) moved: u64,
    pub(crate) connections_total: u64,
    pub(crate) connections_rejected: u64,
    /// The counts of the tables, by their indexes; empty before the first reset.
    pub(crate) tables: Vec<Counts>,
    by_command: [Vec<CommandTotals>; PROTOCOLS],
}

#[derive(Clone, Debug, Default)]
struct CommandTotals {
    errors: u64,
    nanos: u64,
    /// Empty, or [`BUCKETS`] long.
    latency: Vec<u64>,
}

impl Totals {
    /// Sums the loops' counters.
    pub(crate) fn of<'a>(loops: impl Iterator<Item = &'a LoopStatistics>) -> Totals {
        let mut totals = Totals {
            by_command: for_each_command(CommandTotals::default),
            error_codes: vec![0; ERROR_CODES.len()],
            ..Totals::default()
        };
        for statistics in loops {
            totals.commands += statistics.commands.get();
            totals.input_bytes += statistics.input_bytes.get();
            totals.output_bytes += statistics.output_bytes.get();
            for (protocol, (hits, misses)) in totals.lookups.iter_mut().enumerate() {
                *hits += statistics.hits[protocol].get();
                *misses += statistics.misses[protocol].get();
            }
            let codes = totals.error_codes.iter_mut().zip(&statistics.error_codes);
            codes.for_each(|(total, counter)| *total += counter.get());
            totals.receipts += statistics.receipts.get();
            totals.sends += statistics.sends.get();
            totals.authentication_failures += statistics.authentication_failures.get();
            totals.output_limit_disconnections += statistics.output_limit_disconnections.get();
            totals.evicted_clients += statistics.evicted_clients.get();
            totals.moved += statistics.moved.get();
            for protocol in 0..PROTOCOLS {
                for (command, counters) in statistics.by_command[protocol].iter().enumerate() {
                    let Some(counters) = counters.get() else { continue };
                    totals.errors += counters.errors.get();
                    totals.by_command[protocol][command].add(counters);
                }
            }
        }
        totals
    }

    /// Subtracts what was counted before a reset.
    pub(crate) fn since(mut self, baseline: &Totals) -> Totals {
        self.commands = self.commands.saturating_sub(baseline.commands);
        self.errors = self.errors.saturating_sub(baseline.errors);
        self.input_bytes = self.input_bytes.saturating_sub(baseline.input_bytes);
        self.output_bytes = self.output_bytes.saturating_sub(baseline.output_bytes);
        for (now, before) in self.lookups.iter_mut().zip(&baseline.lookups) {
            *now = (now.0.saturating_sub(before.0), now.1.saturating_sub(before.1));
        }
        let codes = self.error_codes.iter_mut().zip(&baseline.error_codes);
        codes.for_each(|(now, before)| *now = now.saturating_sub(*before));
        self.receipts = self.receipts.saturating_sub(baseline.receipts);
        self.sends = self.sends.saturating_sub(baseline.sends);
        self.authentication_failures =
            self.authentication_failures.saturating_sub(baseline.authentication_failures);
        self.output_limit_disconnections =
            self.output_limit_disconnections.saturating_sub(baseline.output_limit_disconnections);
        self.evicted_clients = self.evicted_clients.saturating_sub(baseline.evicted_clients);
        self.moved = self.moved.saturating_sub(baseline.moved);
        self.connections_total = self.connections_total.saturating_sub(baseline.connections_total);
        self.connections_rejected =
            self.connections_rejected.saturating_sub(baseline.connections_rejected);
        for protocol in 0..PROTOCOLS {
            let pairs = self.by_command[protocol].iter_mut().zip(&baseline.by_command[protocol]);
            pairs.for_each(|(now, before)| now.subtract(before));
        }
        self
    }

    /// The statistics of a protocol's commands, by table index.
    pub(crate) fn command_stats(&self, protocol: ProtocolName) -> Vec<CommandStats> {
        self.by_command[index(protocol)].iter().map(CommandTotals::stats).collect()
    }
}

/// Subtracts what a table had counted before a reset. Its present contents stay.
pub(crate) fn counts_since(now: Counts, baseline: &Counts) -> Counts {
    Counts {
        expired: now.expired.saturating_sub(baseline.expired),
        evicted: now.evicted.saturating_sub(baseline.evicted),
        refused: now.refused.saturating_sub(baseline.refused),
        version: now.version.saturating_sub(baseline.version),
        ..now
    }
}

impl CommandTotals {
    fn add(&mut self, counters: &CommandCounters) {
        self.errors += counters.errors.get();
        self.nanos += counters.nanos.get();
        self.latency.resize(BUCKETS, 0);
        self.latency.iter_mut().zip(counters.latency.buckets()).for_each(|(sum, n)| *sum += n);
    }

    fn subtract(&mut self, before: &CommandTotals) {
        self.errors = self.errors.saturating_sub(before.errors);
        self.nanos = self.nanos.saturating_sub(before.nanos);
        let pairs = self.latency.iter_mut().zip(&before.latency);
        pairs.for_each(|(now, before)| *now = now.saturating_sub(*before));
    }

    fn stats(&self) -> CommandStats {
        CommandStats {
            calls: self.latency.iter().sum(),
            errors: self.errors,
            micros: self.nanos as f64 / 1_000.0,
            percentiles_us: [0.5, 0.99, 0.999]
                .map(|quantile| histogram::quantile_us(&self.latency, quantile)),
            histogram: histogram::powers_us(&self.latency),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_over_loops_and_since_the_reset() {
        let loops = [LoopStatistics::new(), LoopStatistics::new()];
        for statistics in &loops {
            statistics.commands.add(2);
            statistics.record(ProtocolName::Resp, 0, false, 1_000);
            statistics.record(ProtocolName::Resp, 0, true, 3_000);
        }
        let before = Totals::of(loops.iter());
        assert_eq!((before.commands, before.errors), (4, 2));
        let stats = &before.command_stats(ProtocolName::Resp)[0];
        assert_eq!((stats.calls, stats.errors, stats.micros), (4, 2, 8.0));

        loops[1].record(ProtocolName::Resp, 0, false, 1_900);
        let after = Totals::of(loops.iter()).since(&before);
        let stats = &after.command_stats(ProtocolName::Resp)[0];
        assert_eq!((stats.calls, stats.errors, stats.micros), (1, 0, 1.9));
        assert_eq!(stats.histogram, [0, 1]);
    }

    #[test]
    #[ignore = "a measurement: cargo test --release -p todana_server -- --ignored --nocapture"]
    fn timing_a_command_costs() {
        let (statistics, clock) = (LoopStatistics::new(), crate::clock::Clock::new());
        let mut last = clock.raw();
        let begun = std::time::Instant::now();
        for call in 0..10_000_000 {
            let now = clock.raw();
            let nanos = clock.nanos(last, now);
            last = now;
            statistics.record(ProtocolName::Resp, call % 2, false, nanos);
        }
        eprintln!("{:.1} ns for each command", begun.elapsed().as_nanos() as f64 / 1e7);
    }

    #[test]
    fn a_command_out_of_range_is_not_counted() {
        let statistics = LoopStatistics::new();
        statistics.record(ProtocolName::Memcached, usize::MAX, true, 1);
        assert_eq!(Totals::of([&statistics].into_iter()).errors, 0);
    }
}
