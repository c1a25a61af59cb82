//! The state that all threads of a server share.

use crate::Config;
use crate::balance::Balance;
use crate::clients::Clients;
use crate::clock::wall_ms;
use crate::guesses::Guesses;
use crate::inbox::{Inbox, Message};
use crate::listening::Listeners;
use crate::memory::ProcessUsage;
use crate::options;
use crate::password::Secret;
use crate::place::Place;
use crate::questions::{Asking, Ended, Questions};
use crate::slow_log::SlowLog;
use crate::statistics::{LoopStatistics, Totals, counts_since};
use crate::waiters::Waiters;
use crate::work::WorkPlace;
use std::net::SocketAddr;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst, fence,
};
use std::sync::{Mutex, PoisonError};
use todana_command::DATABASES;
use todana_group::RecordCounts;
use todana_memcached::Prefixes;
use todana_protocol::{ProtocolName, ServerInfo, Service};
use todana_resp::Answer;
use todana_table::Counts;

/// Redis' name of the password, which is no option of the start: that names a file.
pub(crate) const PASSWORD: &str = "requirepass";

/// The state that all threads of a server share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) addresses: Vec<(Service, SocketAddr)>,
    /// The number of connections cannot be raised above this while the server runs.
    pub(crate) connections_ceiling: usize,
    pub(crate) clients: Clients,
    pub(crate) waiters: Waiters,
    pub(crate) questions: Questions,
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
        self.loops[place.event_loop].inbox.send(Message::Kill { index: place.index, id });
        true
    }

    /// Sends an answer to the loop of the connection that has asked.
    pub(crate) fn answer(&self, number: u64, answer: Answer) {
        let Ended { place, next } = self.questions.end(number);
        if let Some(Place { event_loop, index }) = place {
            let answer = Box::new(answer);
            self.loops[event_loop].inbox.send(Message::Answer { index, number, answer });
        }
        self.let_ask(next);
    }

    /// Has a connection ask the question with which it has waited in line.
    fn let_ask(&self, next: Option<(u64, Place)>) {
        if let Some((number, Place { event_loop, index })) = next {
            self.loops[event_loop].inbox.send(Message::Ask { index, number });
        }
    }

    /// A connection gives up its question. If that was asked, it counts until it is answered.
    pub(crate) fn leave_line(&self, asking: &Asking) {
        if let Some(number) = asking.before_asking() {
            self.let_ask(self.questions.end(number).next);
        }
    }

    /// Answers all questions with an error, but for those in line.
    pub(crate) fn fail_questions(&self, text: &str) {
        for number in self.questions.asked() {
            self.answer(number, Answer::Failure(text.to_owned()));
        }
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
                let homes = self.config.homes.as_ref().filter(|_| table.is_durable());
                let log_ms = homes.and_then(|it| it.group(it.of_database(number)).now_ms());
                table.mean_ttl_ms(log_ms.unwrap_or_else(wall_ms))
            }
        }
    }

    fn counts(&self, number: usize) -> Counts {
        let databases = &self.config.databases;
        databases.tables()[databases.index(number)].counts()
    }

    /// Counts of a database; counters that only grow are relative to the last reset. At a guest,
    /// the records of a durable one are those of the seat.
    fn counts_since_reset(&self, number: usize) -> Counts {
        let index = self.config.databases.index(number);
        let mut counts = self.counts(number);
        if let Some(away) = self.counts_away(number) {
            counts.entries = away.entries;
            counts.entries_with_expiry = away.entries_with_expiry;
        }
        let baseline = self.baseline.lock().unwrap_or_else(PoisonError::into_inner);
        baseline.tables.get(index).map_or(counts, |before| counts_since(counts, before))
    }

    fn counts_away(&self, number: usize) -> Option<RecordCounts> {
        let homes = self.config.homes.as_ref()?;
        let is_durable = self.config.databases.table(number).is_durable();
        is_durable.then(|| homes.group(homes.of_database(number)).counts(number))?
    }
}
