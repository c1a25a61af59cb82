//! Time-dependent work of a loop: waking sleepers, closing clients that exceeded a time limit,
//! measuring the rate of commands.

use super::{EventLoop, NEVER, RESUMED, ROUND_MAX, TICK_NS};
use crate::door::Door;
use crate::histogram::Counter;
use crate::inbox::Message;
use crate::poller::{self, Ready};
use crate::statistics::{LoopStatistics, index};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use todana_group::Outcome;
use todana_protocol::ProtocolName;
use todana_resp::Answer;
use todana_table::reaper;

/// The answer to a question that a client could not ask.
const UNREAD: &str = "TRYAGAIN the client did not take its replies when its question was due";

impl<D: Door> EventLoop<D> {
    /// How long the wait may take.
    pub(super) fn timeout(&self) -> Option<Duration> {
        let idle = self.yielded.is_empty() && self.messages.is_empty() && self.to_close.is_empty();
        if !idle || self.work.has_next() || self.has_deliveries() || self.is_gathering() {
            return Some(Duration::ZERO);
        }
        // Loop 0 measures the rate of commands; the others have no work each second if they have no
        // connections.
        let ticks = match self.number {
            0 => !self.shared.seconds_rest.load(Relaxed),
            _ => self.connections.len() > 0,
        };
        let tick = if ticks { self.next_tick_ns } else { NEVER };
        let sleeper = self.sleepers.first().map_or(NEVER, |(at_ns, _)| *at_ns);
        let deadline = tick.min(sleeper).min(self.accept_again_ns).min(self.stop_at_ns);
        if deadline == NEVER {
            return None;
        }
        Some(Duration::from_nanos(deadline.saturating_sub(self.now_ns())))
    }

    pub(super) fn wake_sleepers(&mut self, now_ns: u64) {
        let (mut woken, mut has_looked) = (0, false);
        while woken < ROUND_MAX && self.sleepers.first().is_some_and(|(at_ns, _)| *at_ns <= now_ns)
        {
            if let Some((_, index)) = self.sleepers.pop_first() {
                if self.connections.get(index).is_some_and(|it| it.is_committing()) {
                    if !std::mem::replace(&mut has_looked, true) {
                        self.take_messages();
                    }
                    self.look_for_outcome(index);
                }
                self.resume(index);
                woken += 1;
            }
        }
        if woken > 0 {
            self.note_round(woken);
        }
    }

    /// The loop may have been late: then the outcome for which a connection waits is among the
    /// messages, though its time is over.
    fn look_for_outcome(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        for message in &mut self.messages {
            if let Message::Commit { index: of, ticket, outcome } = message
                && *of == index
                && connection.awaits(*ticket)
            {
                // The message stays, with an outcome that nobody waits for.
                let outcome = std::mem::replace(outcome, Outcome::Unknown);
                connection.take_outcome(*ticket, outcome);
                return;
            }
        }
    }

    /// Records how many sleepers, messages or closed clients a round had, for tests.
    pub(super) fn note_round(&self, count: usize) {
        let most = &self.part().statistics.round_most;
        if count as u64 > most.get() {
            most.set(count as u64);
        }
    }

    /// Closes some of the clients that exceeded a time limit.
    pub(super) fn close_marked(&mut self) {
        let count = self.to_close.len().min(ROUND_MAX);
        for _ in 0..count {
            let Some((index, id)) = self.to_close.pop_front() else { break };
            if self.connections.get(index).is_some_and(|it| it.client.id == id) {
                self.close(index);
            }
        }
        if count > 0 {
            self.note_round(count);
        }
    }

    /// Lets a sleeping connection continue.
    pub(super) fn resume(&mut self, index: usize) {
        if self.end_sleep(index) {
            if let Some(connection) = self.connections.get_mut(index) {
                // The client was not idle meanwhile: the loop did not read from it.
                let now_ms = self.clock.wall_ms();
                connection.client.active_at_ms.store(now_ms, Relaxed);
            }
            // A reply is due: try to send at once.
            self.turn(index, Ready { writable: true, ..RESUMED });
        }
    }

    /// Lets a connection ask its question, whose turn has come. One whose client does not take its
    /// replies executes nothing, and must not keep the place from others.
    pub(super) fn let_ask(&mut self, index: usize, number: u64) {
        let connection = self.connections.get_mut(index);
        if connection.is_none_or(|it| !it.may_ask(number)) {
            return;
        }
        self.resume(index);
        let connection = self.connections.get(index);
        if connection.is_some_and(|it| it.cannot_ask(number, &self.shared)) {
            self.shared.answer(number, Answer::Failure(UNREAD.to_owned()));
        }
    }

    /// Ends the sleep of a connection. False if it did not sleep.
    pub(super) fn end_sleep(&mut self, index: usize) -> bool {
        let Some(connection) = self.connections.get_mut(index) else { return false };
        let Some(at_ns) = connection.wakes_at_ns.take() else { return false };
        self.sleepers.remove(&(at_ns, index));
        true
    }

    /// Marks sleeping connections for closing if their clients disconnected and left unread input.
    /// Without this, a client could occupy a place for as long as it asked to wait, without a
    /// socket of its own.
    fn mark_disconnected(&mut self, now_ns: u64) {
        let asleep = self.sleepers.iter().filter_map(|(_, index)| {
            let connection = self.connections.get(*index).filter(|it| it.hides_its_end())?;
            Some(((*index, connection.client.id), connection.as_ref().as_fd()))
        });
        for (index, id) in poller::ended(asleep) {
            if self.connections.get_mut(index).is_some_and(|it| it.has_left_by(now_ns)) {
                self.to_close.push_back((index, id));
            }
        }
    }

    /// Sums the waiting replies, and updates what they hold: a large value counts only once the
    /// table has released it, which no turn of the client would notice.
    fn note_waiting(&mut self) -> u64 {
        let statistics = &self.shared.loops[self.number].statistics;
        let mut waiting = 0;
        for index in self.connections.indices() {
            if let Some(connection) = self.connections.get_mut(index)
                && connection.waiting() > 0
            {
                waiting += connection.waiting() as u64;
                connection.note_held(statistics);
                connection.note_soft_limit(&self.shared.config);
            }
        }
        waiting
    }

    /// The work that is due about once a second.
    pub(super) fn tick(&mut self, now_ns: u64) {
        if self.number == 0 {
            let commands: u64 = self.shared.loops.iter().map(|l| l.statistics.commands.get()).sum();
            let elapsed_ns = (now_ns - (self.next_tick_ns - TICK_NS)).max(1);
            let rate = |count: u64| (count as f64 * 1e9 / elapsed_ns as f64).round() as u64;
            let commands_rate = rate(commands - self.commands_at_tick);
            self.shared.commands_per_second.store(commands_rate, Relaxed);
            self.commands_at_tick = commands;
            let sum = |what: fn(&LoopStatistics) -> &Counter| -> u64 {
                self.shared.loops.iter().map(|part| what(&part.statistics).get()).sum()
            };
            let traffic = [sum(|it| &it.input_bytes), sum(|it| &it.output_bytes)];
            for ((bytes, before), rates) in
                traffic.iter().zip(self.traffic_at_tick).zip(&self.shared.traffic_per_second)
            {
                rates.store(rate(bytes - before), Relaxed);
            }
            let is_quiet = commands_rate == 0 && traffic == self.traffic_at_tick;
            self.traffic_at_tick = traffic;
            self.clients_peak.note(self.shared.clients_peak_bytes.swap(0, Relaxed));
            let are_leaving = self.shared.listeners.channels.leaving.load(Relaxed) > 0;
            if self.clients_peak.has_passed(self.shared.clients_bytes(), are_leaving)
                && reaper::release_free_memory(reaper::RELEASE_SHARE)
            {
                self.clients_peak.forget();
            }
            if is_quiet && !are_leaving && self.clients_peak.is_settled() {
                self.shared.end_seconds();
            }
        }
        self.next_tick_ns = now_ns + TICK_NS;
        if !self.to_close.is_empty() {
            return;
        }
        self.mark_disconnected(now_ns);
        self.close_all_evicted();
        let waiting = self.note_waiting();
        if self.shared.clients_hold_too_much() {
            self.evict();
        }
        let config = &self.shared.config;
        let kyoto_clients = self.shared.clients.by_protocol()[index(ProtocolName::Kyoto)];
        let watched = self.shared.secret.is_set()
            || config.kyoto_timeout_ms.is_some() && kyoto_clients > 0
            || config.idle_timeout_ms.get().is_some()
            || waiting > config.output_bytes_soft.min(config.subscriber_output_bytes_soft) as u64;
        if !watched {
            return;
        }
        let now_ms = self.clock.wall_ms();
        for index in self.connections.indices() {
            let part = &self.shared.loops[self.number];
            let Some(connection) = self.connections.get_mut(index) else { continue };
            if connection.is_overdue(&self.shared, &part.statistics, now_ms) {
                self.to_close.push_back((index, connection.client.id));
            }
        }
    }
}
