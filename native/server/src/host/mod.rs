//! The interface of the server to its sessions.
//!
//! [`TurnHost`] lends the [`Shared`] state to a session for one turn of one connection, together
//! with its loop's counters. The files of this folder implement the traits of hosts, by subject.

mod channels;
mod clients;
mod log;
mod questions;
mod statistics;

use crate::Config;
use crate::clock::{Clock, Moment};
use crate::listening::Listening;
use crate::questions::Asking;
use crate::shared::Shared;
use crate::statistics::{LoopStatistics, index};
use crate::waiters::{Place, Wait};
use crate::work::Work;
use std::sync::Arc;
use todana_protocol::{Client, Commits, Limits, Log, Splice};

/// The time limit of a turn: the command that exceeds it is the last of the turn.
const TURN_NS: u64 = 2_000_000;

/// How a turn stands to the log.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Resumed {
    /// Whether the connection may wait for room.
    pub(crate) may_wait: bool,
    /// The time of the turn, by which records are fresh or not.
    pub(crate) clock_ms: u64,
    /// The time of the log.
    pub(crate) now_ms: u64,
    /// The number of the last ticket of the loop.
    pub(crate) last_ticket: u64,
}

/// What a connection keeps from turn to turn for its session.
pub(crate) struct Kept<'a> {
    pub(crate) wait: &'a mut Option<Wait>,
    pub(crate) asking: &'a mut Asking,
    pub(crate) commits: &'a mut Commits,
    pub(crate) listening: &'a mut Listening,
}

/// The server during one turn of one connection.
pub(crate) struct TurnHost<'a> {
    shared: &'a Shared,
    statistics: &'a LoopStatistics,
    clock: &'a Clock,
    /// The scripts and transactions of the loop.
    work: &'a mut Work,
    client: &'a Arc<Client>,
    place: Place,
    /// The client's wait, which its connection keeps.
    wait: &'a mut Option<Wait>,
    /// The client's question, which its connection keeps.
    asking: &'a mut Asking,
    /// What the client has in the log, which its connection keeps.
    commits: &'a mut Commits,
    /// What the client listens to, which its connection keeps.
    listening: &'a mut Listening,
    /// Whether the connection may still wait for room in the log.
    may_wait: bool,
    /// The time of the turn, by which records are fresh or not.
    clock_ms: u64,
    log_ms: u64,
    /// The number of the last ticket of the loop.
    last_ticket: u64,
    /// Nanoseconds since the present commit was handed over. They belong to the latency of each of
    /// its commands.
    committed_ns: u64,
    now_ms: u64,
    replied_at_ms: u64,
    now_us: u64,
    slow_log_ns: u64,
    /// Clock reading at the last observation.
    observed_at: u64,
    /// Time of all commands of the turn.
    spent_ns: u64,
    /// Time that the present command took in earlier turns.
    resumed_ns: u64,
    // Counted here and added to the loop's counters once per turn.
    commands: u64,
    hits: u64,
    misses: u64,
    authenticated: bool,
    /// Whether no password was set when the client connected, in its first turn.
    is_admitted: bool,
    /// Parts of large values in the output of this turn.
    splices: Vec<Splice>,
}

impl<'a> TurnHost<'a> {
    /// Begins a turn at `now`, after its input arrived.
    pub(crate) fn begin(
        shared: &'a Shared,
        statistics: &'a LoopStatistics,
        (clock, work): (&'a Clock, &'a mut Work),
        client: &'a Arc<Client>,
        place: Place,
        kept: Kept<'a>,
        now: Moment,
    ) -> TurnHost<'a> {
        let now_ms = now.wall_ms();
        let Kept { wait, asking, commits, listening } = kept;
        TurnHost {
            shared,
            statistics,
            clock,
            work,
            client,
            place,
            wait,
            asking,
            may_wait: true,
            clock_ms: 0,
            log_ms: now_ms,
            last_ticket: 0,
            committed_ns: 0,
            now_ms: commits.now_ms().unwrap_or(now_ms),
            replied_at_ms: now_ms,
            commits,
            listening,
            now_us: now.wall_us,
            slow_log_ns: (shared.config.slow_log_us.get())
                .map_or(u64::MAX, |us| us.saturating_mul(1_000)),
            observed_at: now.raw,
            spent_ns: 0,
            resumed_ns: 0,
            commands: 0,
            hits: 0,
            misses: 0,
            authenticated: false,
            is_admitted: false,
            splices: Vec::new(),
        }
    }

    /// Sets how the turn stands to the log.
    pub(crate) fn set_commit(&mut self, resumed: Resumed, committed_ns: u64) {
        (self.may_wait, self.clock_ms) = (resumed.may_wait, resumed.clock_ms);
        (self.log_ms, self.last_ticket) = (resumed.now_ms, resumed.last_ticket);
        self.committed_ns = committed_ns;
    }

    /// The client need not authenticate.
    pub(crate) fn admit(&mut self) {
        self.is_admitted = true;
    }

    /// The log of a database, if there are durable ones.
    #[inline]
    fn durable_log(&self, database: usize) -> Option<Log<'a>> {
        if self.shared.durable { self.log_of_config(database) } else { None }
    }

    #[cold]
    fn log_of_config(&self, database: usize) -> Option<Log<'a>> {
        let Config { homes, databases, read_level, .. } = &self.shared.config;
        let (may_wait, clock_ms, now_ms) = (self.may_wait, self.clock_ms, self.log_ms);
        let homes = homes.as_ref()?;
        let group = homes.of_database(database);
        let submit = homes.group(group);
        let level = self.client.read_level.unwrap_or(*read_level);
        let of_guest = false;
        Some(Log { group, submit, databases, may_wait, level, clock_ms, now_ms, of_guest })
    }

    /// Ends the turn. Returns whether the session considers the client authenticated, and the parts
    /// of large values that belong in the output.
    pub(crate) fn finish(self) -> (bool, Vec<Splice>) {
        let statistics = self.statistics;
        statistics.commands.add(self.commands);
        if self.hits + self.misses > 0 {
            let protocol = index(self.client.protocol);
            statistics.hits[protocol].add(self.hits);
            statistics.misses[protocol].add(self.misses);
        }
        (self.authenticated, self.splices)
    }
}

impl todana_protocol::Clock for TurnHost<'_> {
    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn replied_at_ms(&self) -> u64 {
        self.replied_at_ms
    }

    fn now_us(&self) -> u64 {
        self.now_us
    }
}

impl todana_protocol::Connection for TurnHost<'_> {
    fn client(&self) -> &Arc<Client> {
        self.client
    }

    fn limits(&self) -> &Limits {
        &self.shared.config.limits
    }

    #[inline]
    fn turn_is_over(&self) -> bool {
        // After a commit the next request gets the present time, which only the next turn has.
        self.spent_ns >= TURN_NS || self.commits.is_over()
    }
}

impl todana_protocol::Splices for TurnHost<'_> {
    fn splice(&mut self, splice: Splice) {
        self.splices.push(splice);
    }
}

impl todana_protocol::Authentication for TurnHost<'_> {
    fn requires_password(&self) -> bool {
        self.shared.secret.is_set()
    }

    fn is_admitted(&self) -> bool {
        self.is_admitted || !self.shared.secret.is_set()
    }

    fn check_password(&self, password: &[u8]) -> bool {
        let right = self.shared.secret.is(password);
        if !right {
            self.statistics.authentication_failures.add(1);
            self.shared.guesses.note_failure(self.client.address.ip(), self.now_ms);
        }
        right
    }

    fn password_delay_ms(&self) -> u64 {
        self.shared.guesses.delay_ms(self.client.address.ip(), self.now_ms)
    }

    fn note_authenticated(&mut self) {
        self.authenticated = true;
    }
}
