//! The interface of the server to its sessions.
//!
//! [`Shared`] is the one value that all threads of a server hold; [`TurnHost`] lends it to a
//! session for one turn of one connection, together with that loop's counters.

use crate::Config;
use crate::balance::Balance;
use crate::clients::Clients;
use crate::clock::{Clock, Moment, wall_ms};
use crate::guesses::Guesses;
use crate::inbox::{Inbox, Message};
use crate::listening::{Listeners, Listening};
use crate::memory::ProcessUsage;
use crate::notices;
use crate::options;
use crate::password::Secret;
use crate::slow_log::SlowLog;
use crate::statistics::{LoopStatistics, Totals, counts_since, index};
use crate::tracking::Tracker;
use crate::waiters::{Place, Wait, Waiters};
use crate::work::{Lane, Work, WorkPlace};
use std::net::SocketAddr;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst, fence,
};
use std::sync::{Arc, Mutex, PoisonError};
use todana_command::cause::Writer;
use todana_command::{DATABASES, Databases};
use todana_protocol::kyoto::KyotoSettings;
use todana_protocol::memcached::Prefixes;
use todana_protocol::{
    Client, CommandStats, Commits, Hold, Host, Limits, Log, Persistence, ProtocolName, Published,
    Publishing, Request, ServerInfo, Service, SlowEntry, Splice, Topic, Topology, Tracking,
};
use todana_table::Counts;

/// Redis' name of the password, which is no option of the start: that names a file.
const PASSWORD: &str = "requirepass";

/// The time limit of a turn: the command that exceeds it is the last of the turn.
const TURN_NS: u64 = 2_000_000;

/// The option of keyspace notifications, as Redis calls it.
const NOTIFICATIONS: &str = "notify-keyspace-events";

/// The state that all threads of a server share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) addresses: Vec<(Service, SocketAddr)>,
    /// The number of connections cannot be raised above this while the server runs.
    pub(crate) connections_ceiling: usize,
    pub(crate) clients: Clients,
    pub(crate) waiters: Waiters,
    pub(crate) listeners: Listeners,
    pub(crate) loops: Vec<LoopPart>,
    pub(crate) balance: Balance,
    pub(crate) backend_name: &'static str,
    pub(crate) slow_log: SlowLog,
    pub(crate) run_id: String,
    pub(crate) started_at_ms: u64,
    /// Commands in the last second, written by loop 0.
    pub(crate) commands_per_second: AtomicU64,
    /// Whether loop 0 measures nothing until a client comes.
    pub(crate) seconds_rest: AtomicBool,
    /// The most that clients held when one of them left, since the last second.
    pub(crate) clients_peak_bytes: AtomicU64,
    /// Bytes received and sent in the last second, written by loop 0.
    pub(crate) traffic_per_second: [AtomicU64; 2],
    /// Resident bytes at the start, without those of the records.
    pub(crate) startup_bytes: u64,
    /// Bytes held by clients that are about to be closed to free memory.
    pub(crate) evicting_bytes: AtomicU64,
    pub(crate) guesses: Guesses,
    /// One loop at a time executes long scripts and transactions.
    pub(crate) work_place: WorkPlace,
    pub(crate) secret: Secret,
    /// Wrong passwords at the port for monitors, which no loop serves.
    pub(crate) failures_elsewhere: AtomicU64,
    /// Whether there are durable databases.
    pub(crate) durable: bool,
    /// Sums at the last reset.
    pub(crate) baseline: Mutex<Totals>,
    /// Counts of memcached's requests by the prefix of their key.
    pub(crate) prefixes: Prefixes,
}

/// The part of a loop's state that other threads see.
#[derive(Debug)]
pub(crate) struct LoopPart {
    pub(crate) inbox: Inbox,
    pub(crate) statistics: LoopStatistics,
    /// Connections assigned to this loop, which it has neither closed nor handed over.
    pub(crate) connections: AtomicUsize,
    /// The load at the last decision, in thousandths ([`crate::balance`]).
    pub(crate) load: AtomicU32,
    /// Bytes of messages to subscribers that the loop has not delivered.
    pub(crate) waiting_bytes: AtomicUsize,
    /// Bytes of invalidations that the loop has not delivered.
    pub(crate) invalidation_bytes: AtomicUsize,
    /// Bytes of invalidations that others redirect to clients of the loop.
    pub(crate) redirected_bytes: AtomicUsize,
    /// Bytes of commands for MONITOR that the loop has not delivered.
    pub(crate) line_bytes: AtomicUsize,
    /// The loop is about to have its clients forget what they have read.
    pub(crate) invalidates_all: AtomicBool,
}

impl Shared {
    /// Nothing changes from one second to the next while there are no clients.
    pub(crate) fn end_seconds(&self) {
        if self.clients.count().0 > 0 {
            return;
        }
        self.seconds_rest.store(true, SeqCst);
        fence(SeqCst);
        // One that came meanwhile may not have seen that.
        if self.clients.count().0 > 0 {
            self.seconds_rest.store(false, SeqCst);
        }
    }

    /// A client has come.
    pub(crate) fn begin_seconds(&self) {
        fence(SeqCst);
        if self.seconds_rest.load(SeqCst) && self.seconds_rest.swap(false, SeqCst) {
            self.loops[0].inbox.send(Message::Seconds);
        }
    }

    /// Sums over loops since the start of the server.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals::of(self.loops.iter().map(|part| &part.statistics));
        (totals.connections_total, totals.connections_rejected) = self.clients.totals();
        totals.authentication_failures += self.failures_elsewhere.load(Relaxed);
        totals
    }

    /// Sums over loops since the last reset.
    pub(crate) fn totals_since_reset(&self) -> Totals {
        let baseline = self.baseline.lock().unwrap_or_else(PoisonError::into_inner);
        self.totals().since(&baseline)
    }

    /// Changes an option while the server runs.
    pub(crate) fn set_option(&self, name: &str, value: &str) -> Result<(), String> {
        if name.eq_ignore_ascii_case(PASSWORD) {
            let password = Some(value.as_bytes().to_vec());
            return self.set_password(password.filter(|it| !it.is_empty()));
        }
        self.config.change_option(name, value, self.connections_ceiling as u64)
    }

    /// Without a password only this machine may connect.
    pub(crate) fn set_password(&self, password: Option<Vec<u8>>) -> Result<(), String> {
        let exposed = self.addresses.iter().find(|(_, it)| !it.ip().is_loopback());
        if let (None, Some((_, address))) = (&password, exposed) {
            return Err(format!("other machines can connect to {address}, which needs a password"));
        }
        self.secret.replace(password);
        Ok(())
    }

    pub(crate) fn reset_stats(&self) {
        self.prefixes.reset();
        let mut baseline = self.baseline.lock().unwrap_or_else(PoisonError::into_inner);
        let tables = self.config.databases.tables();
        *baseline = self.totals();
        baseline.tables = tables.iter().map(|table| table.counts()).collect();
    }

    /// Event loops that serve a client.
    pub(crate) fn loops_in_use(&self) -> usize {
        self.loops.iter().filter(|part| part.connections.load(Relaxed) > 0).count()
    }

    /// Asks the loop that serves this client to close it.
    pub(crate) fn kill(&self, id: u64) -> bool {
        let Some(place) = self.clients.find(id) else { return false };
        place.client.killed.store(true, Relaxed);
        self.loops[place.event_loop].inbox.send(Message::Kill { slot: place.slot, id });
        true
    }

    /// Has this loop go on with its long work.
    pub(crate) fn give_work_place(&self, event_loop: Option<usize>) {
        if let Some(part) = event_loop.and_then(|number| self.loops.get(number)) {
            part.inbox.send(Message::Work);
        }
    }

    /// Figures whose counters begin at the last reset.
    pub(crate) fn info(&self) -> ServerInfo {
        let databases = (0..DATABASES).map(|number| self.counts_since_reset(number)).collect();
        self.describe(self.totals_since_reset(), databases)
    }

    /// Figures whose counters begin at the start of the server.
    pub(crate) fn info_since_start(&self) -> ServerInfo {
        let databases = (0..DATABASES).map(|number| self.counts(number)).collect();
        let mut info = self.describe(self.totals(), databases);
        if (0..DATABASES).all(|number| self.config.databases.is_durable(number)) {
            // Durable databases have no limit.
            info.memory_limit_bytes = 0;
        }
        info
    }

    /// Clients with a request that CLIENT PAUSE holds back.
    fn held_clients(&self) -> u64 {
        match self.listeners.operator.has_held() {
            true => self.clients.held(),
            false => 0,
        }
    }

    fn describe(&self, totals: Totals, databases: Vec<Counts>) -> ServerInfo {
        let usage = ProcessUsage::now();
        let port = |protocol| {
            let of = self.addresses.iter().filter(|(service, _)| service.protocol == protocol);
            of.min_by_key(|(service, _)| service.redirects).map_or(0, |(_, address)| address.port())
        };
        let (connections, connections_peak) = self.clients.count();
        ServerInfo {
            version: env!("CARGO_PKG_VERSION").to_string(),
            run_id: self.run_id.clone(),
            process_id: std::process::id(),
            resp_port: port(ProtocolName::Resp),
            memcached_port: port(ProtocolName::Memcached),
            kyoto_port: port(ProtocolName::Kyoto),
            config_file: self.config.config_file.clone(),
            event_backend: self.backend_name.to_string(),
            event_loops: self.loops.len(),
            event_loops_in_use: self.loops_in_use(),
            connections_moved: totals.moved,
            started_at_ms: self.started_at_ms,
            connections,
            connections_peak,
            connections_max: self.config.connections_max.get() as u64,
            connections_total: totals.connections_total,
            connections_rejected: totals.connections_rejected,
            connections_by_protocol: self.clients.by_protocol(),
            commands: totals.commands,
            commands_per_second: self.commands_per_second.load(Relaxed),
            input_bytes: totals.input_bytes,
            output_bytes: totals.output_bytes,
            hits: totals.lookups.iter().map(|(hits, _)| hits).sum(),
            misses: totals.lookups.iter().map(|(_, misses)| misses).sum(),
            lookups_by_protocol: totals.lookups,
            errors_by_code: totals.error_codes.clone(),
            transfers: [totals.receipts, totals.sends],
            traffic_per_second: self.traffic_per_second.each_ref().map(|it| it.load(Relaxed)),
            errors: totals.errors,
            authentication_failures: totals.authentication_failures,
            client_buffer_bytes: self.clients_bytes(),
            clients_memory_limit_bytes: self.clients_memory_limit_bytes(),
            evicted_clients: totals.evicted_clients,
            output_limit_disconnections: totals.output_limit_disconnections,
            tracking_clients: self.listeners.tracking.clients.load(Relaxed) as u64,
            tracked: self.listeners.tracking.counts(),
            topics: self.listeners.channels.counts().map(|count| count as u64),
            blocked_clients: self.waiters.count().1 as u64 + self.held_clients(),
            subscribed_clients: self.listeners.channels.clients.load(Relaxed) as u64,
            dropped_messages: self.listeners.channels.dropped.load(Relaxed)
                + self.config.keeper.as_ref().map_or(0, |keeper| keeper.dropped_messages()),
            memory_limit_bytes: options::memory_limit_bytes(&self.config.budget),
            memory_policy: options::memory_policy(&self.config.budget).to_string(),
            resident_bytes: usage.resident_bytes,
            startup_bytes: self.startup_bytes,
            resident_bytes_peak: usage.resident_bytes_peak,
            system_memory_bytes: crate::memory::system_memory_bytes().unwrap_or(0),
            cpu_seconds: usage.cpu_seconds,
            databases,
            mean_ttl_ms: (0..DATABASES).map(|number| self.mean_ttl_ms(number)).collect(),
        }
    }

    /// The estimated mean time to live of a database's records, if some expire.
    fn mean_ttl_ms(&self, number: usize) -> u64 {
        let table = self.config.databases.table(number);
        match table.counts().entries_with_expiry {
            0 => 0,
            _ => {
                let log = self.config.log.as_ref().filter(|_| table.is_durable());
                table.mean_ttl_ms(log.and_then(|log| log.now_ms()).unwrap_or_else(wall_ms))
            }
        }
    }

    fn counts(&self, number: usize) -> Counts {
        let databases = &self.config.databases;
        databases.tables()[databases.index(number)].counts()
    }

    /// Counts of a database; counters that only grow are relative to the last reset.
    fn counts_since_reset(&self, number: usize) -> Counts {
        let index = self.config.databases.index(number);
        let counts = self.counts(number);
        let baseline = self.baseline.lock().unwrap_or_else(PoisonError::into_inner);
        baseline.tables.get(index).map_or(counts, |before| counts_since(counts, before))
    }
}

/// How a turn stands to the log.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Resumed {
    /// Whether the connection may wait for room.
    pub(crate) may_wait: bool,
    /// The time of the turn, by which records are fresh or not.
    pub(crate) clock_ms: u64,
    /// The time of the log.
    pub(crate) now_ms: u64,
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
    /// What the client has in the log, which its connection keeps.
    commits: &'a mut Commits,
    /// What the client listens to, which its connection keeps.
    listening: &'a mut Listening,
    /// Whether the connection may still wait for room in the log.
    may_wait: bool,
    /// The time of the turn, by which records are fresh or not.
    clock_ms: u64,
    log_ms: u64,
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
        (wait, commits, listening): (&'a mut Option<Wait>, &'a mut Commits, &'a mut Listening),
        now: Moment,
    ) -> TurnHost<'a> {
        let now_ms = now.wall_ms();
        TurnHost {
            shared,
            statistics,
            clock,
            work,
            client,
            place,
            wait,
            may_wait: true,
            clock_ms: 0,
            log_ms: now_ms,
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
        self.log_ms = resumed.now_ms;
        self.committed_ns = committed_ns;
    }

    /// The client need not authenticate.
    pub(crate) fn admit(&mut self) {
        self.is_admitted = true;
    }

    /// The log, if there are durable databases.
    #[inline]
    fn durable_log(&self) -> Option<Log<'a>> {
        if self.shared.durable { self.log_of_config() } else { None }
    }

    #[cold]
    fn log_of_config(&self) -> Option<Log<'a>> {
        let Config { log, databases, read_level, .. } = &self.shared.config;
        let (may_wait, clock_ms, now_ms) = (self.may_wait, self.clock_ms, self.log_ms);
        let submit = &**log.as_ref()?;
        let level = self.client.read_level.unwrap_or(*read_level);
        Some(Log { submit, databases, may_wait, level, clock_ms, now_ms })
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

impl Host for TurnHost<'_> {
    fn databases(&self) -> &Databases {
        &self.shared.config.databases
    }

    #[inline]
    fn commits(&mut self) -> Option<(Log<'_>, &mut Commits)> {
        Some((self.durable_log()?, self.commits))
    }

    fn log(&self) -> Option<Log<'_>> {
        self.durable_log()
    }

    fn is_playing(&self) -> bool {
        self.commits.is_playing()
    }

    fn commit_is_full(&self) -> bool {
        self.commits.is_full()
    }

    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn replied_at_ms(&self) -> u64 {
        self.replied_at_ms
    }

    fn now_us(&self) -> u64 {
        self.now_us
    }

    fn limits(&self) -> &Limits {
        &self.shared.config.limits
    }

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

    fn client(&self) -> &Arc<Client> {
        self.client
    }

    fn clients(&self) -> Vec<Arc<Client>> {
        self.shared.clients.list()
    }

    fn clients_after(&self, id: u64, count: usize) -> Vec<Arc<Client>> {
        self.shared.clients.after(id, count)
    }

    fn kill(&self, id: u64) -> bool {
        self.shared.kill(id)
    }

    fn splice(&mut self, splice: Splice) {
        self.splices.push(splice);
    }

    #[inline]
    fn observe(&mut self, protocol: ProtocolName, command: usize, failed: bool) -> Option<u64> {
        let nanos = self.pause();
        self.commands += 1;
        // As in Redis, a command is not slow because the disk is.
        self.statistics.record(protocol, command, failed, nanos + self.committed_ns);
        (nanos >= self.slow_log_ns).then_some(nanos / 1_000)
    }

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

    #[inline]
    fn turn_is_over(&self) -> bool {
        // After a commit the next request gets the present time, which only the next turn has.
        self.spent_ns >= TURN_NS || self.commits.is_over()
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

    #[inline]
    fn observe_error(&mut self, code: usize) {
        if let Some(counter) = self.statistics.error_codes.get(code) {
            counter.add(1);
        }
    }

    fn observe_lookups(&mut self, hits: u64, misses: u64) {
        self.hits += hits;
        self.misses += misses;
    }

    fn log_slow(&self, micros: u64, arguments: &[&[u8]]) {
        let entries_max = self.shared.config.slow_log_entries_max.get();
        self.shared.slow_log.add(self.client, self.now_ms, micros, arguments, entries_max);
    }

    fn slow_log(&self, count: Option<usize>) -> Vec<SlowEntry> {
        self.shared.slow_log.newest(count)
    }

    fn slow_log_len(&self) -> usize {
        self.shared.slow_log.len()
    }

    fn slow_log_reset(&self) {
        self.shared.slow_log.clear();
    }

    fn kyoto(&self) -> &KyotoSettings {
        &self.shared.config.kyoto
    }

    fn begin_wait(&mut self, name: &[u8]) {
        self.end_wait();
        // No client can signal a longer name either: the time passes, and nothing is stored for it.
        if name.len() <= self.shared.config.limits.key_bytes_max {
            *self.wait = Some(self.shared.waiters.begin(name, self.place));
        }
    }

    fn end_wait(&mut self) -> bool {
        self.wait.take().is_some_and(|wait| self.shared.waiters.end(wait))
    }

    fn signal(&mut self, name: &[u8], all: bool) -> usize {
        self.shared.signal(name, all)
    }

    #[inline]
    fn held_until_ms(&self, may_write: bool) -> Option<u64> {
        self.shared.listeners.operator.held_until_ms(may_write, self.replied_at_ms)
    }

    fn hold_clients(&self, hold: Option<Hold>) {
        self.shared.listeners.operator.hold(hold, self.replied_at_ms);
    }

    #[inline]
    fn is_monitored(&self) -> bool {
        self.shared.listeners.operator.is_monitored()
    }

    fn monitor(&self, line: Vec<u8>) {
        self.shared.monitor(line);
    }

    fn set_monitor(&mut self, is_on: bool) {
        self.listening.set_monitor(&self.shared.listeners, self.place, self.client, is_on);
    }

    fn has_client(&self, id: u64) -> bool {
        self.shared.clients.find(id).is_some()
    }

    fn tracking(&self) -> Option<&Tracking> {
        self.listening.tracking.as_deref()
    }

    fn set_tracking(&mut self, tracking: Option<Tracking>) -> bool {
        self.listening.set_tracking(&self.shared.listeners, self.place, self.client, tracking)
    }

    fn track(&mut self, key: &[u8]) {
        let tracker = Tracker::new(self.place, self.client.id);
        if self.commits.is_playing() {
            // Later changes may have been applied before it is registered.
            self.shared.send_invalidation(key, vec![tracker], Writer::Unknown);
        } else {
            self.shared.track(key, tracker);
        }
    }

    fn begin_script(&mut self, key: &[u8]) {
        // The log has executed it already.
        if !self.commits.is_playing() {
            let tracker = Tracker::new(self.place, self.client.id);
            let keys_max = self.shared.config.tracking_keys_max.get();
            let table = &self.shared.listeners.tracking;
            self.listening.begin_script(key, table, tracker, keys_max);
        }
    }

    fn end_script(&mut self, key: &[u8]) {
        self.listening.script_keys.remove(key);
        self.shared.track_script(key, Tracker::new(self.place, self.client.id));
    }

    fn subscriptions(&self) -> [usize; 3] {
        self.listening.subscriptions.counts()
    }

    fn subscribe(&mut self, topic: Topic, name: &[u8]) {
        self.listening.subscriptions.subscribe(
            &self.shared.listeners.channels,
            (topic, name),
            self.place,
            self.client,
        );
    }

    fn unsubscribe(&mut self, topic: Topic, name: &[u8]) {
        self.listening.subscriptions.unsubscribe(
            &self.shared.listeners.channels,
            (topic, name),
            self.place,
            self.client,
        );
    }

    fn first_subscribed(&self, topic: Topic) -> Option<Arc<[u8]>> {
        self.listening.subscriptions.first(topic)
    }

    fn publish(
        &mut self,
        topic: Topic,
        channel: &[u8],
        message: &[u8],
        begun: &mut Publishing,
        may_wait: bool,
    ) -> Published {
        let published = self.shared.publish(topic, channel, message, begun, may_wait);
        if matches!(published, Published::To(_))
            && let Some(keeper) = &self.shared.config.keeper
        {
            keeper.publish(topic, channel, message);
        }
        published
    }

    fn topics_after(&self, topic: Topic, after: Option<&[u8]>, count: usize) -> Vec<Arc<[u8]>> {
        self.shared.listeners.channels.after(topic, after, count)
    }

    fn topic_count(&self, topic: Topic) -> usize {
        self.shared.listeners.channels.counts()[topic as usize]
    }

    fn subscribers(&self, topic: Topic, name: &[u8]) -> usize {
        self.shared.listeners.channels.subscribers(topic, name)
    }

    fn server_info(&self) -> ServerInfo {
        self.shared.info()
    }

    fn persistence(&self) -> Arc<Persistence> {
        let keeper = self.shared.config.keeper.as_ref();
        keeper.map_or_else(Arc::default, |keeper| keeper.persistence())
    }

    fn request_persistence(&mut self, request: Request) -> u64 {
        self.shared.config.keeper.as_ref().map_or(0, |keeper| keeper.request(request))
    }

    fn topology(&self) -> Option<Arc<Topology>> {
        self.shared.config.keeper.as_ref()?.topology()
    }

    fn is_led_elsewhere(&self) -> bool {
        self.shared.config.keeper.as_ref().is_some_and(|keeper| keeper.is_led_elsewhere())
    }

    fn command_names(&self, protocol: ProtocolName) -> &'static [&'static str] {
        todana_protocol::command_names(protocol)
    }

    fn command_stats(&self, protocol: ProtocolName) -> Vec<CommandStats> {
        self.shared.totals_since_reset().command_stats(protocol)
    }

    fn prefixes(&self) -> &Prefixes {
        &self.shared.prefixes
    }

    fn reset_stats(&self) {
        self.shared.reset_stats();
    }

    fn options(&self) -> Vec<(String, String)> {
        let mut options = self.shared.config.shown_options();
        // As in Redis, a client that has given the password may see it.
        options.push((PASSWORD.to_owned(), self.shared.secret.shown()));
        let classes = self.shared.listeners.notices.classes();
        options.push((NOTIFICATIONS.into(), notices::format(classes)));
        options
    }

    fn set_option(&self, name: &str, value: &str) -> Result<(), String> {
        if name == NOTIFICATIONS {
            let Some(classes) = notices::parse(value) else {
                return Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".into());
            };
            return match self.shared.set_notices(classes) {
                true => Ok(()),
                false => Err("the databases have too many observers".into()),
            };
        }
        self.shared.set_option(name, value)
    }
}
