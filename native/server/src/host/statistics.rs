//! Counters and figures.

use super::TurnHost;
use crate::command_names::command_names;
use crate::work::Lane;
use todana_memcached::Prefixes;
use todana_protocol::{CommandStats, ProtocolName, ServerInfo, SlowEntry, Work as _};

impl todana_protocol::Statistics for TurnHost<'_> {
    #[inline]
    fn observe(&mut self, protocol: ProtocolName, command: usize, failed: bool) -> Option<u64> {
        let nanos = self.pause();
        self.commands += 1;
        // As in Redis, a command is not slow because the disk is.
        self.statistics.record(protocol, command, failed, nanos + self.committed_ns);
        (nanos >= self.slow_log_ns).then_some(nanos / 1_000)
    }

    fn observe_lookups(&mut self, hits: u64, misses: u64) {
        self.hits += hits;
        self.misses += misses;
    }

    fn log_slow(&self, micros: u64, arguments: &[&[u8]]) {
        let entries_max = self.shared.config.slow_log_entries_max.get();
        self.shared.slow_log.add(self.client, self.now_ms, micros, arguments, entries_max);
    }
}

impl todana_protocol::Work for TurnHost<'_> {
    #[inline]
    fn pause(&mut self) -> u64 {
        let now = self.clock.raw();
        let nanos = self.clock.nanos(self.observed_at, now);
        self.observed_at = now;
        self.spent_ns += nanos;
        nanos + std::mem::take(&mut self.resumed_ns)
    }

    fn resume(&mut self, nanos: u64) {
        self.resumed_ns = nanos;
    }

    fn begin_work(&mut self, is_long: bool) -> bool {
        let lane = if is_long { Lane::Long } else { Lane::Short };
        let begins = self.work.begin(lane, &self.shared.work_place, self.clock);
        self.statistics.long_works.add(u64::from(begins && is_long));
        begins
    }

    fn end_work(&mut self) {
        let next = self.work.end(&self.shared.work_place, self.clock);
        self.shared.give_work_place(next);
    }
}

impl todana_resp::ErrorCounts for TurnHost<'_> {
    #[inline]
    fn observe_error(&mut self, code: usize) {
        if let Some(counter) = self.statistics.error_codes.get(code) {
            counter.add(1);
        }
    }
}

impl todana_resp::SlowLog for TurnHost<'_> {
    fn slow_log(&self, count: Option<usize>) -> Vec<SlowEntry> {
        self.shared.slow_log.newest(count)
    }

    fn slow_log_len(&self) -> usize {
        self.shared.slow_log.len()
    }

    fn slow_log_reset(&self) {
        self.shared.slow_log.clear();
    }
}

impl todana_protocol::Figures for TurnHost<'_> {
    fn server_info(&self) -> ServerInfo {
        self.shared.info()
    }

    fn command_stats(&self, protocol: ProtocolName) -> Vec<CommandStats> {
        self.shared.totals_since_reset().command_stats(protocol)
    }

    fn reset_stats(&self) {
        self.shared.reset_stats();
    }
}

impl todana_resp::CommandNames for TurnHost<'_> {
    fn command_names(&self, protocol: ProtocolName) -> &'static [&'static str] {
        command_names(protocol)
    }
}

impl todana_memcached::PrefixCounts for TurnHost<'_> {
    fn prefixes(&self) -> &Prefixes {
        &self.shared.prefixes
    }
}
