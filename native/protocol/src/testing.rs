//! A host without a server, for tests, benchmarks and fuzz targets. Its clock stands still until a
//! test moves it, and it records the calls of the session.
//!
//! A host can have durable databases, whose log is a group without a disk. [`converse`] commits
//! when the session asks for it, and [`converse_in_every_way`] plays each input on both kinds. With
//! `TODANA_TEST_DURABLE=1` in the environment, all hosts have durable databases.

mod peer;
mod test_log;
mod written;

pub use peer::Peer;
pub use test_log::{
    Changed, TestLog, check_write, with_durable_hosts, with_guest_hosts, with_member_hosts,
};
pub use written::is_written;

use crate::{
    Advance, Authentication, Budget, Client, ClientNames, Clients, Clock, CommandStats, Commits,
    Connection, Durability, Figures, Limits, Log, Next, NotDone, Persistence, Progress,
    ProtocolName, ReadLevel, Request, ServerInfo, SlowEntry, Splice, Splices, Statistics, Store,
    Wait, Work,
};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering::{self, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use todana_command::{DATABASES, Databases};
use todana_group::{GroupNumber, Submit};
use todana_table::{Options, Table};

/// The time of a new host's clock: 2023-11-14 22:13:20 UTC.
pub const START_MS: u64 = 1_700_000_000_000;

/// What a host has for one protocol only.
pub trait Part: Default {
    /// Prepares new databases.
    fn prepare(databases: &Databases) {
        let _ = databases;
    }
    /// The part for arbitrary bytes ([`survive`]), whose first one chooses the circumstances.
    fn small(circumstances: u8) -> Self {
        let _ = circumstances;
        Self::default()
    }
    /// Resets counters.
    fn reset_stats(&self) {}
}

impl Part for () {}

/// A host whose answers are fields.
#[derive(Debug)]
pub struct FakeHost<P = ()> {
    /// What it has for its protocol only.
    pub part: P,
    /// Empty databases of few shards; `Arc` so that several hosts can share them.
    pub databases: Arc<Databases>,
    /// The clock.
    pub now_ms: u64,
    /// Limits.
    pub limits: Limits,
    /// The state of the log, if there is one.
    pub persistence: Option<Persistence>,
    /// What the session has asked of the log.
    pub requests: Vec<Request>,
    /// Whether requests to the log are never done; otherwise they are after some looks.
    pub disk_is_stuck: bool,
    /// How often the session has looked at the state of the log.
    pub looks: AtomicU64,
    /// The password, if clients need one.
    pub password: Option<Vec<u8>>,
    /// The delay of replies to passwords.
    pub password_delay_ms: u64,
    /// Whether the session has reported that the client authenticated.
    pub authenticated: bool,
    /// The client of the connection.
    pub client: Arc<Client>,
    /// Other clients, listed after `client`.
    pub others: Vec<Arc<Client>>,
    /// Observed commands and whether they failed. Empty unless `keep_observed`.
    pub observed: Vec<(ProtocolName, usize, bool)>,
    /// Whether to fill `observed`.
    pub keep_observed: bool,
    /// Number of observed commands.
    pub commands: u64,
    /// Nanoseconds that each turn of a command takes.
    pub turn_ns: u64,
    /// Nanoseconds of the current command's earlier turns.
    pub resumed_ns: u64,
    /// Nanoseconds of all turns of the last observed command.
    pub observed_ns: u64,
    /// Look-ups that hit, and that missed.
    pub lookups: (u64, u64),
    /// The number of observed commands at which the turn is over.
    pub turn_ends_at: u64,
    /// Whether each script and transaction is refused once before it may begin.
    pub refuses_work: bool,
    /// Whether the present one was refused.
    pub has_refused: bool,
    /// For each script and transaction that was to begin, whether it was expected to take long, and
    /// whether it might begin.
    pub work: Vec<(bool, bool)>,
    /// The result of `observe` for every command.
    pub slow_us: Option<u64>,
    /// The slow log, oldest first.
    pub slow_log: Mutex<Vec<SlowEntry>>,
    /// Statistics returned as they are.
    pub info: ServerInfo,
    /// Statistics of commands returned as they are.
    pub stats: Vec<CommandStats>,
    /// Number of times that statistics were reset.
    pub stats_resets: AtomicUsize,
    /// Parts of large values in the output of the last turn.
    pub splices: Vec<Splice>,
    /// The log of the databases, if they are durable.
    pub log: Option<TestLog>,
    /// By how much the time of the log is behind that of the host.
    pub log_is_late_ms: u64,
    /// What the session has in the log.
    pub commits: Commits,
    /// Whether the connection may wait for room in the log.
    pub may_wait: bool,
    /// How new the records must be that a read sees. Only a host that is a member of a group of
    /// several is asked for it.
    pub read_level: ReadLevel,
    /// Whether the leader answers.
    pub has_leader: bool,
    /// What the connection has waited for without a submission.
    pub awaited: Vec<Wait>,
}

impl<P: Part> FakeHost<P> {
    /// A host with empty databases and one client of this protocol.
    pub fn new(protocol: ProtocolName) -> FakeHost<P> {
        let tables = std::array::from_fn::<_, DATABASES, _>(|_| {
            let durable = test_log::hosts_are_durable();
            let (shards, seed) = (Some(16), Some(7));
            Arc::new(Table::new(Options { shards, seed, durable, ..Options::default() }))
        });
        FakeHost::on(Arc::new(Databases::new(tables)), protocol)
    }

    /// A host on databases that other hosts may share.
    pub fn on(databases: Arc<Databases>, protocol: ProtocolName) -> FakeHost<P> {
        let limits = Limits::default();
        // What a command may build is limited by the log.
        let value_bytes_max = match protocol {
            ProtocolName::Memcached => limits.memcached_value_bytes_max,
            ProtocolName::Resp | ProtocolName::Kyoto => limits.value_bytes_max,
        };
        P::prepare(&databases);
        let log = TestLog::of::<P>(&databases, value_bytes_max);
        FakeHost {
            part: P::default(),
            databases,
            now_ms: START_MS,
            limits: Limits::default(),
            password: None,
            password_delay_ms: 0,
            authenticated: false,
            client: client(7, protocol),
            persistence: None,
            requests: Vec::new(),
            disk_is_stuck: false,
            looks: AtomicU64::new(0),
            others: Vec::new(),
            observed: Vec::new(),
            keep_observed: false,
            commands: 0,
            turn_ns: 1,
            resumed_ns: 0,
            observed_ns: 0,
            lookups: (0, 0),
            turn_ends_at: u64::MAX,
            refuses_work: false,
            has_refused: false,
            work: Vec::new(),
            slow_us: None,
            slow_log: Mutex::default(),
            info: ServerInfo::default(),
            stats: Vec::new(),
            stats_resets: AtomicUsize::new(0),
            splices: Vec::new(),
            log,
            log_is_late_ms: 0,
            commits: Commits::default(),
            may_wait: true,
            read_level: ReadLevel::Linear,
            has_leader: true,
            awaited: Vec::new(),
        }
    }

    /// The records of each database, as one number.
    pub fn digests(&self) -> Vec<u64> {
        (0..DATABASES).map(|number| self.databases.table(number).digest()).collect()
    }

    /// Has the log apply what the session has recorded, or ends the wait of its reads. False if
    /// there is nothing of both.
    pub fn commit(&mut self) -> bool {
        let log_ms = self.log_ms();
        let Some(log) = &self.log else { return false };
        if let Some((_, wait)) = self.commits.begin_wait() {
            self.awaited.push(wait);
            let is_fresh = match wait {
                Wait::Proof => self.has_leader,
                Wait::Applied { index, .. } => log.group.applied_index() >= index,
            };
            match is_fresh {
                true => self.commits.settle(todana_group::Outcome::Fresh),
                false => self.commits.give_up(NotDone::NoLeader),
            }
            return true;
        }
        let Some(handover) = self.commits.hand_over() else { return false };
        let outcome = log.apply(handover, log_ms);
        self.commits.settle(outcome);
        true
    }
}

impl<P: Part> FakeHost<P> {
    fn log_ms(&self) -> u64 {
        self.now_ms - self.log_is_late_ms
    }

    /// Those of the session: of a guest, the empty ones.
    fn own_databases(&self) -> &Databases {
        let away = self.log.as_ref().and_then(|log| log.away(&self.databases));
        away.map_or(&self.databases, |away| &away.databases)
    }

    #[cold]
    fn durable_commits(&mut self) -> Option<(Log<'_>, &mut Commits)> {
        let (may_wait, level, now_ms) = (self.may_wait, self.read_level, self.log_ms());
        let log = self.log.as_ref()?;
        let databases = log.away(&self.databases).map_or(&self.databases, |away| &away.databases);
        let log = Log {
            group: GroupNumber::default(),
            submit: log.submit(),
            databases,
            may_wait,
            level,
            clock_ms: 0,
            now_ms,
            of_guest: false,
        };
        Some((log, &mut self.commits))
    }
}

/// A client as a listener would create it, at address `127.0.0.1:50000 + id`.
pub fn client(id: u64, protocol: ProtocolName) -> Arc<Client> {
    let port = 50_000 + u16::try_from(id).unwrap_or(0);
    Arc::new(Client {
        id,
        protocol,
        redirects: false,
        read_level: None,
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        local_address: SocketAddr::from((Ipv4Addr::LOCALHOST, 6379)),
        fd: 8,
        connected_at_ms: START_MS,
        active_at_ms: AtomicU64::new(START_MS),
        database: AtomicUsize::new(0),
        last_command: AtomicUsize::new(usize::MAX),
        resp_version: AtomicUsize::new(2),
        queued: AtomicUsize::new(usize::MAX),
        watched: AtomicUsize::new(0),
        input_bytes: AtomicUsize::new(0),
        output_bytes: AtomicUsize::new(0),
        held_bytes: AtomicU64::new(0),
        evicted_bytes: AtomicU64::new(0),
        traffic_bytes: [AtomicU64::new(0), AtomicU64::new(0)],
        no_evict: AtomicBool::new(false),
        is_held: AtomicBool::new(false),
        is_monitor: AtomicBool::new(false),
        tracking: Default::default(),
        redirect: AtomicU64::new(0),
        subscriptions: Default::default(),
        killed: AtomicBool::new(false),
        names: Mutex::new(ClientNames::default()),
    })
}

impl<P: Part> FakeHost<P> {
    /// Inserts the parts of large values into the output.
    pub fn put_splices_into(&mut self, output: &mut Vec<u8>) {
        for splice in self.splices.drain(..).rev() {
            output.splice(splice.at..splice.at, splice.bytes().iter().copied());
        }
    }
}

impl<P: Part> Clock for FakeHost<P> {
    #[inline]
    fn now_ms(&self) -> u64 {
        if self.log.is_some() { self.commits.now_ms().unwrap_or(self.now_ms) } else { self.now_ms }
    }
    fn replied_at_ms(&self) -> u64 {
        self.now_ms
    }
    fn now_us(&self) -> u64 {
        self.now_ms().saturating_mul(1000)
    }
}

impl<P: Part> Store for FakeHost<P> {
    fn databases(&self) -> &Databases {
        self.own_databases()
    }
    #[inline]
    fn commits(&mut self, _: usize) -> Option<(Log<'_>, &mut Commits)> {
        if self.log.is_some() { self.durable_commits() } else { None }
    }
    fn own_commits(&mut self) -> Option<&mut Commits> {
        self.log.is_some().then_some(&mut self.commits)
    }
    fn log(&self, _: usize) -> Option<Log<'_>> {
        let submit = self.log.as_ref()?.submit();
        let (may_wait, level, now_ms) = (self.may_wait, self.read_level, self.log_ms());
        Some(Log {
            group: GroupNumber::default(),
            submit,
            databases: self.own_databases(),
            may_wait,
            level,
            clock_ms: 0,
            now_ms,
            of_guest: false,
        })
    }
    fn is_playing(&self) -> bool {
        self.commits.is_playing()
    }
    fn commit_is_full(&self) -> bool {
        self.commits.is_full()
    }
}

impl<P: Part> Connection for FakeHost<P> {
    fn client(&self) -> &Arc<Client> {
        &self.client
    }
    fn limits(&self) -> &Limits {
        &self.limits
    }
    fn turn_is_over(&self) -> bool {
        self.commands >= self.turn_ends_at || self.log.is_some() && self.commits.is_over()
    }
}

impl<P: Part> Splices for FakeHost<P> {
    fn splice(&mut self, splice: Splice) {
        assert!(self.splices.last().is_none_or(|last| last.at <= splice.at));
        self.splices.push(splice);
    }
}

impl<P: Part> Authentication for FakeHost<P> {
    fn requires_password(&self) -> bool {
        self.password.is_some()
    }
    fn is_admitted(&self) -> bool {
        !self.requires_password()
    }
    fn check_password(&self, password: &[u8]) -> bool {
        self.password.as_deref().is_none_or(|set| set == password)
    }
    fn password_delay_ms(&self) -> u64 {
        self.password_delay_ms
    }
    fn note_authenticated(&mut self) {
        self.authenticated = true;
    }
}

impl<P: Part> Clients for FakeHost<P> {
    fn clients(&self) -> Vec<Arc<Client>> {
        let mut clients = vec![self.client.clone()];
        clients.extend(self.others.iter().cloned());
        clients.sort_by_key(|client| client.id);
        clients
    }
    fn clients_after(&self, id: u64, count: usize) -> Vec<Arc<Client>> {
        self.clients().into_iter().filter(|client| client.id > id).take(count).collect()
    }
    fn has_client(&self, id: u64) -> bool {
        self.clients().iter().any(|client| client.id == id)
    }
    fn kill(&self, id: u64) -> bool {
        let clients = self.clients();
        let found = clients.iter().find(|client| client.id == id);
        found.inspect(|client| client.killed.store(true, Ordering::Relaxed)).is_some()
    }
}

impl<P: Part> Statistics for FakeHost<P> {
    fn observe(&mut self, protocol: ProtocolName, command: usize, failed: bool) -> Option<u64> {
        self.commands += 1;
        self.observed_ns = self.pause();
        if self.keep_observed {
            self.observed.push((protocol, command, failed));
        }
        self.slow_us
    }
    fn observe_lookups(&mut self, hits: u64, misses: u64) {
        self.lookups.0 += hits;
        self.lookups.1 += misses;
    }
    fn log_slow(&self, micros: u64, arguments: &[&[u8]]) {
        let mut log = self.slow_log.lock().unwrap();
        let id = log.len() as u64;
        log.push(SlowEntry {
            id,
            at_s: self.now_ms / 1000,
            micros,
            arguments: arguments.iter().map(|argument| argument.to_vec()).collect(),
            address: self.client.address.to_string(),
            name: self.client.names.lock().unwrap().name.clone(),
        });
    }
}

impl<P: Part> Figures for FakeHost<P> {
    fn server_info(&self) -> ServerInfo {
        self.info.clone()
    }
    fn command_stats(&self, _protocol: ProtocolName) -> Vec<CommandStats> {
        self.stats.clone()
    }
    fn reset_stats(&self) {
        self.part.reset_stats();
        self.stats_resets.fetch_add(1, Ordering::Relaxed);
    }
}

impl<P: Part> Durability for FakeHost<P> {
    fn persistence(&self) -> Arc<Persistence> {
        let looks = self.looks.fetch_add(1, Relaxed);
        let done = if self.disk_is_stuck { 0 } else { looks };
        let without = Persistence { always: self.log.is_some(), ..Persistence::default() };
        let log = self.persistence.clone();
        Arc::new(log.map_or(without, |log| Persistence { done, ..log }))
    }
    fn request_persistence(&mut self, request: Request) -> u64 {
        self.requests.push(request);
        self.looks.load(Relaxed) + 3
    }
}

impl<P: Part> Work for FakeHost<P> {
    fn pause(&mut self) -> u64 {
        self.turn_ns + std::mem::take(&mut self.resumed_ns)
    }
    fn resume(&mut self, nanos: u64) {
        self.resumed_ns = nanos;
    }
    fn begin_work(&mut self, is_long: bool) -> bool {
        self.has_refused = self.refuses_work && !self.has_refused;
        self.work.push((is_long, !self.has_refused));
        !self.has_refused
    }
    fn end_work(&mut self) {}
}

/// The result of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// All output of the session.
    pub output: Vec<u8>,
    /// Whether the session asked to close; the rest of the input was not offered then.
    pub closed: bool,
    /// Total milliseconds of the requested sleeps. The host's clock does not move, so a session
    /// that waits for something other than time waits until the conversation is ended.
    pub slept_ms: u64,
    /// Number of unconsumed bytes.
    pub left: usize,
}

/// Most consecutive turns without consumption: a request may take several.
const IDLE_TURNS_MAX: usize = 10_000;

/// Passes pieces of input to a session as an event loop would: appends each to a buffer, and offers
/// the buffer until the session needs more. The budgets are small, so that every test includes
/// yielding.
pub fn converse<'i, P: Part, S: Advance<FakeHost<P>>>(
    session: &mut S,
    host: &mut FakeHost<P>,
    pieces: impl IntoIterator<Item = &'i [u8]>,
) -> Outcome {
    converse_in_turns(session, host, pieces, 3)
}

/// Like [`converse`], in turns of at most `requests_max` requests.
pub fn converse_in_turns<'i, P: Part, S: Advance<FakeHost<P>>>(
    session: &mut S,
    host: &mut FakeHost<P>,
    pieces: impl IntoIterator<Item = &'i [u8]>,
    requests_max: usize,
) -> Outcome {
    let budget = Budget { requests_max, output_bytes_max: 1 << 16 };
    let mut outcome = Outcome { output: Vec::new(), closed: false, slept_ms: 0, left: 0 };
    let mut buffer: Vec<u8> = Vec::new();
    let (mut idle, mut has_waited, mut missing) = (0, false, 0usize);
    'pieces: for piece in pieces {
        buffer.extend_from_slice(piece);
        missing = missing.saturating_sub(piece.len());
        loop {
            let mut turn = Vec::new();
            if !has_waited {
                // Earlier than a server does: each turn needs a proof of its own.
                host.commits.forget_proof();
            }
            host.commits.begin_turn();
            let Progress { consumed, next } = session.advance(&buffer, &mut turn, host, budget);
            host.put_splices_into(&mut turn);
            assert!(consumed <= buffer.len(), "consumed more than was offered");
            buffer.drain(..consumed);
            outcome.output.extend_from_slice(&turn);
            has_waited = next == Next::Commit;
            // A server does not call the session before these bytes have arrived.
            let is_silent = turn.is_empty() && matches!(next, Next::Read { .. });
            assert!(missing == 0 || is_silent, "{missing} bytes were missing, and it answered");
            match next {
                Next::Read { wanted } => {
                    missing = wanted;
                    assert!(!host.commits.is_playing(), "a reply of the log was not taken");
                    break;
                }
                Next::Yield | Next::Pause => {
                    idle = if consumed > 0 { 0 } else { idle + 1 };
                    assert!(idle < IDLE_TURNS_MAX, "yielded again and again without progress");
                }
                Next::Sleep { ms } => outcome.slept_ms += ms,
                Next::Wait { ms } => {
                    outcome.slept_ms = outcome.slept_ms.saturating_add(ms);
                    idle = if consumed > 0 { 0 } else { idle + 1 };
                    if idle == IDLE_TURNS_MAX {
                        // For an event of another client: here none comes.
                        break 'pieces;
                    }
                }
                Next::Commit => {
                    assert!(host.commit(), "nothing was recorded");
                    idle = if consumed > 0 { 0 } else { idle + 1 };
                    assert!(idle < IDLE_TURNS_MAX, "waited again and again without progress");
                }
                Next::Close => {
                    outcome.closed = true;
                    break 'pieces;
                }
            }
        }
    }
    outcome.left = buffer.len();
    outcome
}

/// Plays the same input in turns of few and of many requests, cut in two at every offset, and byte
/// by byte, each time with a new session and host, with databases in memory, with durable ones, and
/// with those of a cluster, where each turn that reads needs a proof first.
/// Returns the outcome, which must be the same every time. `same` can blank out differences that
/// are allowed.
pub fn converse_in_every_way<P: Part, S: Advance<FakeHost<P>>>(
    mut start: impl FnMut() -> (S, FakeHost<P>),
    input: &[u8],
    same: impl Fn(Outcome) -> Outcome,
) -> Outcome {
    let play = |pieces: Vec<&[u8]>, requests_max, start: &mut dyn FnMut() -> (S, FakeHost<P>)| {
        let (mut session, mut host) = start();
        same(converse_in_turns(&mut session, &mut host, pieces, requests_max))
    };
    let whole = play(vec![input], 3, &mut start);
    for requests_max in [1, 2, 128] {
        let other = play(vec![input], requests_max, &mut start);
        assert_eq!(readable(&other), readable(&whole), "in turns of {requests_max}");
    }
    for at in 1..input.len() {
        let cut =
            play(vec![&input[..at], &input[at..]], if at % 2 == 0 { 3 } else { 128 }, &mut start);
        assert_eq!(readable(&cut), readable(&whole), "input cut at {at}");
    }
    let bytes = play(input.chunks(1).collect(), 3, &mut start);
    assert_eq!(readable(&bytes), readable(&whole), "input byte by byte");
    let mut refusing = || {
        let (session, host) = start();
        (session, FakeHost { refuses_work: true, ..host })
    };
    for requests_max in [1, 128] {
        let other = play(vec![input], requests_max, &mut refusing);
        let turns = format!("pausing, in turns of {requests_max}");
        assert_eq!(readable(&other), readable(&whole), "{turns}");
    }
    with_durable_hosts(|| {
        let other = play(vec![input], 128, &mut refusing);
        assert_eq!(readable(&other), readable(&whole), "durable, pausing");
    });
    with_member_hosts(|| {
        for requests_max in [1, 3, 128] {
            let other = play(vec![input], requests_max, &mut start);
            let turns = format!("in a cluster, in turns of {requests_max}");
            assert_eq!(readable(&other), readable(&whole), "{turns}");
        }
        let bytes = play(input.chunks(1).collect(), 3, &mut start);
        assert_eq!(readable(&bytes), readable(&whole), "in a cluster, byte by byte");
    });
    with_guest_hosts(|| {
        for requests_max in [1, 3, 128] {
            let other = play(vec![input], requests_max, &mut start);
            let turns = format!("at a guest, in turns of {requests_max}");
            assert_eq!(readable(&other), readable(&whole), "{turns}");
        }
        let bytes = play(input.chunks(1).collect(), 3, &mut start);
        assert_eq!(readable(&bytes), readable(&whole), "at a guest, byte by byte");
    });
    with_durable_hosts(|| {
        for requests_max in [1, 2, 3, 128] {
            let other = play(vec![input], requests_max, &mut start);
            let turns = format!("durable, in turns of {requests_max}");
            assert_eq!(readable(&other), readable(&whole), "{turns}");
        }
        for at in 1..input.len() {
            let cut = play(
                vec![&input[..at], &input[at..]],
                if at % 2 == 0 { 3 } else { 128 },
                &mut start,
            );
            assert_eq!(readable(&cut), readable(&whole), "durable, input cut at {at}");
        }
    });
    whole
}

fn readable(outcome: &Outcome) -> (String, bool, u64) {
    (outcome.output.escape_ascii().to_string(), outcome.closed, outcome.slept_ms)
}

/// Plays arbitrary bytes to a session, whole and in pieces, and panics unless both have the same
/// outcome and keep within the limits. The first two bytes choose the configuration. For property
/// tests and fuzz targets.
pub fn survive<P: Part, S: Advance<FakeHost<P>> + Default>(protocol: ProtocolName, data: &[u8]) {
    let [circumstances, piece, input @ ..] = data else { return };
    let limits = Limits {
        key_bytes_max: 300,
        value_bytes_max: 4_000,
        memcached_value_bytes_max: 4_000,
        arguments_max: 40,
        line_bytes_max: 400,
        unauthenticated_arguments_max: 4,
        unauthenticated_argument_bytes_max: 40,
        script_steps_max: 20_000,
        script_bytes_max: 1 << 20,
        queued_bytes_max: 6_000,
        subscriptions_max: 6,
        output_bytes_max: 1 << 20,
    };
    let play = |pieces: &mut dyn Iterator<Item = &[u8]>, requests_max| {
        let mut host = FakeHost::<P>::new(protocol);
        (host.limits, host.part) = (limits.clone(), P::small(*circumstances));
        host.log = TestLog::of::<P>(&host.databases, limits.value_bytes_max);
        host.password = (circumstances & 1 != 0).then(|| b"secret".to_vec());
        host.refuses_work = circumstances & 8 != 0;
        host.slow_us = (circumstances & 2 != 0).then_some(20_000);
        host.others.push(self::client(8, protocol));
        // `CONFIG GET appendfsync` has the same answer with durable databases and without.
        host.persistence = Some(Persistence { always: true, ..Persistence::default() });
        converse_in_turns(&mut S::default(), &mut host, pieces, requests_max)
    };
    let whole = play(&mut std::iter::once(input), 128);
    let pieces = play(&mut input.chunks(usize::from(*piece).max(1)), 3);
    assert_eq!(readable(&whole), readable(&pieces));
    // Every turn ends soon after its limit, and there are at most as many turns as bytes.
    assert!(whole.closed || whole.left <= 40 * 4_100 + 400, "{} bytes kept", whole.left);
    // The answers to TODANA.INDEX and TODANA.AFTER depend on the log.
    if data.to_ascii_lowercase().windows(7).any(|word| word == b"todana.") {
        return;
    }
    let durable = with_durable_hosts(|| play(&mut std::iter::once(input), 128));
    assert_eq!(readable(&durable), readable(&whole), "with durable databases");
    // A long line of memcached may prove broken after its first keys were answered. In a cluster
    // the error is all that is answered if a key had to wait.
    if readable(&whole).0.contains("CLIENT_ERROR") {
        return;
    }
    let member = with_member_hosts(|| play(&mut std::iter::once(input), 3));
    assert_eq!(readable(&member), readable(&whole), "in a cluster");
    let guest = with_guest_hosts(|| play(&mut std::iter::once(input), 3));
    assert_eq!(readable(&guest), readable(&whole), "at a guest");
}
