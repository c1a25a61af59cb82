//! SLOWLOG and LATENCY: slow commands.

use super::COMMANDS;
use super::call::{Call, Done};
use super::encoder::{Encoder, Failure};
use super::error_code::ErrorCode;
use super::flow::Flow;
use super::info::called;
use super::lookup::{self, subcommands};
use super::monitor;
use super::number;
use super::spec::SKIP_SLOWLOG;
use super::table::Name;
use crate::Host;
use todana_protocol::{CommandStats, ProtocolName};

/// Entries of SLOWLOG GET without a count.
const ENTRIES: usize = 10;

/// Reports an executed command to the host, and adds it to the slow log if it was slow.
#[inline]
pub(super) fn observe<H: Host>(
    name: Name,
    arguments: &[&[u8]],
    failed: Option<ErrorCode>,
    host: &mut H,
) {
    if host.is_monitored() {
        monitor::note(name, arguments, host);
    }
    if let Some(code) = failed {
        host.observe_error(usize::from(code.0));
    }
    if let Some(micros) = host.observe(ProtocolName::Resp, name as usize, failed.is_some())
        && !name.spec().is(SKIP_SLOWLOG)
    {
        log_slow(name, arguments, micros, host);
    }
}

/// Adds a command to the slow log, without its arguments if they include a password. The host
/// truncates long ones.
#[cold]
fn log_slow<H: Host>(name: Name, arguments: &[&[u8]], micros: u64, host: &H) {
    host.log_slow(micros, &monitor::without_password(name, arguments));
}

impl<H: Host> Call<'_, '_, H> {
    pub(super) fn slow_log_get(&mut self) -> Done {
        let count = match self.arguments[2..] {
            [] => Some(ENTRIES),
            [count] => match number::integer(count) {
                Some(-1) => None,
                Some(count @ 0..) => Some(usize::try_from(count).unwrap_or(usize::MAX)),
                _ => return Err("ERR count should be greater than or equal to -1".into()),
            },
            _ => {
                let text = "ERR unknown subcommand or wrong number of arguments for 'get'. Try \
                            SLOWLOG HELP.";
                return Err(text.into());
            }
        };
        let entries = self.host.slow_log(count);
        self.encoder.array(entries.len());
        for entry in entries {
            self.encoder.array(6);
            self.encoder.count(entry.id);
            self.encoder.count(entry.at_s);
            self.encoder.count(entry.micros);
            self.encoder.array(entry.arguments.len());
            entry.arguments.iter().for_each(|argument| self.encoder.bulk(argument));
            self.encoder.text(&entry.address);
            self.encoder.bulk(&entry.name);
        }
        Ok(Flow::Continue)
    }

    pub(super) fn slow_log_len(&mut self) -> Done {
        let length = self.host.slow_log_len();
        self.encoder.count(length as u64);
        Ok(Flow::Continue)
    }

    pub(super) fn slow_log_reset(&mut self) -> Done {
        self.host.slow_log_reset();
        self.ok()
    }

    pub(super) fn latency_histogram(&mut self) -> Done {
        let stats = self.host.command_stats(ProtocolName::Resp);
        let wanted = &self.arguments[2..];
        let mut histograms: Vec<(&str, &CommandStats)> = Vec::new();
        if wanted.is_empty() {
            histograms.extend(called(&stats));
        }
        for name in lookup::distinct(wanted) {
            let family = std::iter::once(name).chain(subcommands(name));
            for number in family.map(|name| name as usize) {
                if let Some(stats) = stats.get(number).filter(|it| it.calls > 0)
                    && !histograms.iter().any(|(known, _)| *known == COMMANDS[number])
                {
                    histograms.push((COMMANDS[number], stats));
                }
            }
        }
        self.encoder.map(histograms.len());
        histograms.iter().for_each(|(name, stats)| histogram(name, stats, self.encoder));
        Ok(Flow::Continue)
    }

    pub(super) fn latency_doctor(&mut self) -> Done {
        let text = "Spikes are not recorded. LATENCY HISTOGRAM, INFO latencystats and SLOWLOG \
                    report the duration of commands.\n";
        self.encoder.verbatim(text.as_bytes());
        Ok(Flow::Continue)
    }

    pub(super) fn latency_history(&mut self) -> Done {
        self.encoder.array(0);
        Ok(Flow::Continue)
    }

    pub(super) fn latency_graph(&mut self) -> Done {
        Err(Failure::quoting("ERR No samples available for event '", self.argument(2), "'"))
    }

    pub(super) fn latency_latest(&mut self) -> Done {
        self.encoder.array(0);
        Ok(Flow::Continue)
    }

    pub(super) fn latency_reset(&mut self) -> Done {
        self.encoder.integer(0);
        Ok(Flow::Continue)
    }
}

/// Calls up to each power of two of microseconds at which the number changes.
fn histogram(name: &str, stats: &CommandStats, encoder: &mut Encoder<'_>) {
    let mut so_far = 0;
    let mut buckets = Vec::new();
    for (power, &count) in stats.histogram.iter().enumerate().filter(|(_, count)| **count > 0) {
        so_far += count;
        buckets.push((1_u64.checked_shl(power as u32).unwrap_or(u64::MAX), so_far));
    }
    encoder.text(name);
    encoder.map(2);
    encoder.text("calls");
    encoder.count(stats.calls);
    encoder.text("histogram_usec");
    encoder.map(buckets.len());
    for (micros, calls) in buckets {
        encoder.count(micros);
        encoder.count(calls);
    }
}
