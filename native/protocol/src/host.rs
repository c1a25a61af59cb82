//! The interface of the server to its sessions.

use crate::commit::{Commits, Log, NotDone, Ran, ReadLevel};
use crate::kyoto::KyotoSettings;
use crate::memcached::Prefixes;
use crate::options::{MB, TB, bytes, integer};
use crate::persistence::{Persistence, Request};
use crate::topic::{Published, Publishing, Topic};
use crate::topology::Topology;
use crate::tracking::Tracking;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use todana_command::{
    Batch, Begun, Command, Context, Databases, Inadmissible, Reply, execute, execute_batch,
    execute_slice,
};
use todana_table::Shared;

/// The server as its sessions see it. There is one for each event loop; methods with `&mut self`
/// change that loop's own counters.
pub trait Host {
    /// The databases.
    fn databases(&self) -> &Databases;
    /// The log of the durable databases, and what this connection has in it; `None` if no database
    /// is durable.
    fn commits(&mut self) -> Option<(Log<'_>, &mut Commits)> {
        None
    }
    /// The log alone.
    fn log(&self) -> Option<Log<'_>> {
        None
    }
    /// Whether requests that the log has committed are run again.
    fn is_playing(&self) -> bool {
        false
    }
    /// Whether enough is recorded for the log, so that the next request waits for the next commit.
    fn commit_is_full(&self) -> bool {
        false
    }
    /// Runs a command: executes it, or hands it over to the log of a durable database.
    #[inline]
    fn run<R: Reply>(
        &mut self,
        database: usize,
        command: &Command<'_>,
        context: Context,
        reply: &mut R,
    ) -> Ran<()> {
        if let Some((log, commits)) = self.commits() {
            return commits.run(log, database, command, context, reply);
        }
        execute(self.databases(), database, command, context, reply);
        Ran::Done(())
    }
    /// Runs a slice of a long command. If the command is executed in slices, this returns where to
    /// continue; a command that goes through the log has only one.
    #[inline]
    fn run_slice<R: Reply>(
        &mut self,
        database: usize,
        command: &Command<'_>,
        context: Context,
        begun: Option<Begun>,
        reply: &mut R,
    ) -> Ran<Option<Begun>> {
        if let Some((log, commits)) = self.commits() {
            return commits.run_slice(log, database, command, context, begun, reply);
        }
        Ran::Done(execute_slice(self.databases(), database, command, context, begun, reply))
    }
    /// Runs a batch, as [`execute_batch`] does.
    fn run_batch<R: Reply>(
        &mut self,
        batch: &Batch<'_>,
        context: Context,
        reply: &mut R,
        each: impl FnMut(&mut R, usize),
    ) -> Ran<Result<bool, Inadmissible>> {
        if let Some((log, commits)) = self.commits() {
            return commits.run_batch(log, batch, context, reply, each);
        }
        Ran::Done(execute_batch(self.databases(), batch, context, reply, each))
    }
    /// Drops the replies of the log to the commands of the present request that it will not run any
    /// more, because one before them has failed. No other request may share their commit.
    fn drop_replies(&mut self) {
        if let Some((_, commits)) = self.commits() {
            commits.drop_replies();
        }
    }
    /// Sets how new the records must be that this client reads; `None` for the default.
    fn set_read_level(&mut self, level: Option<ReadLevel>) {
        if let Some((_, commits)) = self.commits() {
            commits.set_level(level);
        }
    }
    /// Has the connection wait, if the session returns [`Next::Commit`](crate::Next::Commit): the
    /// request is run again when the entry is applied, or after this time. False if that time is
    /// over.
    fn await_applied(&mut self, index: u64, ms: u64) -> bool {
        self.commits().is_some_and(|(_, commits)| commits.want_applied(index, ms))
    }
    /// Why the log accepts no writes ([`NotDone::ReadOnly`]): a sentence without CR or LF.
    fn log_trouble(&self) -> String {
        self.log().map_or_else(String::new, |log| log.submit.trouble())
    }
    /// Whether the records of a database may be read now.
    fn admit_read(&self, database: usize) -> Result<(), NotDone> {
        match self.log() {
            Some(log) if log.databases.is_durable(database) => log.admit_read(),
            _ => Ok(()),
        }
    }
    /// The time in milliseconds since the Unix epoch. It is constant during a turn, and not earlier
    /// than the arrival of the turn's input.
    fn now_ms(&self) -> u64;
    /// The time to which replies refer (how long a record still lives). If requests are run again
    /// after a commit, it is later than [`Host::now_ms`], which is the same in both runs.
    fn replied_at_ms(&self) -> u64 {
        self.now_ms()
    }
    /// The time by which records of a database expire: in a durable one, that of the log.
    fn records_ms(&self, database: usize) -> u64 {
        match self.log() {
            Some(log) if log.databases.is_durable(database) => log.now_ms,
            _ => self.replied_at_ms(),
        }
    }
    /// The time in microseconds since the Unix epoch (`TIME`).
    fn now_us(&self) -> u64 {
        self.now_ms().saturating_mul(1000)
    }
    /// Limits that parsers enforce.
    fn limits(&self) -> &Limits;
    /// Whether clients must authenticate.
    fn requires_password(&self) -> bool;
    /// Whether this client need not authenticate: no password is set, or, in its first turn, none
    /// was when it connected.
    fn is_admitted(&self) -> bool {
        !self.requires_password()
    }
    /// Compares in constant time. True if no password is set.
    fn check_password(&self, password: &[u8]) -> bool;
    /// How long to delay the reply to the next password, right or wrong, because this client's
    /// address has sent many wrong ones. The session asks before it checks the password, and sleeps
    /// ([`Next::Sleep`](crate::Next::Sleep)).
    fn password_delay_ms(&self) -> u64 {
        0
    }
    /// Records that this client has authenticated, so that the server need not close it for not
    /// doing so in time. A correct password with an unknown user name does not authenticate.
    fn note_authenticated(&mut self) {}
    /// The client of this connection.
    fn client(&self) -> &Arc<Client>;
    /// All clients, in the order of their ids.
    fn clients(&self) -> Vec<Arc<Client>>;
    /// The first `count` clients whose ids are above `id`.
    fn clients_after(&self, id: u64, count: usize) -> Vec<Arc<Client>>;
    /// Asks the loop that owns this client to close it. False if there is no such client.
    fn kill(&self, id: u64) -> bool;
    /// Takes a part of a large value that is sent with the output of this turn. A turn passes its
    /// parts in the order of their positions.
    fn splice(&mut self, splice: Splice);
    /// Counts one executed command (an index into the protocol's command table), whether it failed,
    /// and the time since the last observation of this turn. Returns the time in microseconds if
    /// the command belongs in the slow log.
    fn observe(&mut self, protocol: ProtocolName, command: usize, failed: bool) -> Option<u64>;
    /// Returns the time in nanoseconds since the last observation of this turn. It belongs to a
    /// command that continues in a later turn and is observed when it is complete.
    fn pause(&mut self) -> u64 {
        0
    }
    /// Resumes a command that took `nanos` in earlier turns: the next observation includes them.
    fn resume(&mut self, nanos: u64) {
        let _ = nanos;
    }
    /// Whether the observed commands have used up the time of this turn. If so, the session yields
    /// before the next command.
    fn turn_is_over(&self) -> bool {
        false
    }
    /// Asks whether a script or a transaction may begin in this turn. They take turns: if not, the
    /// session leaves the request in its input and returns [`Next::Pause`](crate::Next::Pause).
    /// `is_long` is whether it probably takes long
    /// ([`LONG_UNITS`](todana_command::LONG_UNITS)).
    fn begin_work(&mut self, is_long: bool) -> bool {
        let _ = is_long;
        true
    }
    /// The work that [`Host::begin_work`] has permitted is done.
    fn end_work(&mut self) {}
    /// Counts an error reply of RESP by its first word, an index of
    /// [`ERROR_CODES`](crate::resp::ERROR_CODES).
    fn observe_error(&mut self, code: usize) {
        let _ = code;
    }
    /// Counts key look-ups that hit or missed (`keyspace_hits`, `keyspace_misses`).
    fn observe_lookups(&mut self, hits: u64, misses: u64);
    /// Adds to the slow log.
    fn log_slow(&self, micros: u64, arguments: &[&[u8]]);
    /// The newest entries of the slow log, newest first; `None` for all.
    fn slow_log(&self, count: Option<usize>) -> Vec<SlowEntry>;
    /// Number of entries in the slow log.
    fn slow_log_len(&self) -> usize;
    /// Empties the slow log.
    fn slow_log_reset(&self);
    /// Settings of the Kyoto Tycoon protocol.
    fn kyoto(&self) -> &KyotoSettings;
    /// Begins to wait for a signal of this name; called before the session returns
    /// [`Next::Wait`](crate::Next::Wait).
    fn begin_wait(&mut self, name: &[u8]);
    /// Ends the wait. True if the signal came, false if the time ran out first.
    fn end_wait(&mut self) -> bool;
    /// Signals one client that waits for this name, or all of them. Returns how many waited.
    fn signal(&mut self, name: &[u8], all: bool) -> usize;
    /// The number of subscriptions of this client, by [`Topic`].
    fn subscriptions(&self) -> [usize; 3] {
        [0; 3]
    }
    /// Subscribes this client. The session has checked the length of the name and the number of
    /// subscriptions.
    fn subscribe(&mut self, topic: Topic, name: &[u8]) {
        let _ = (topic, name);
    }
    /// Ends a subscription of this client, if there is one.
    fn unsubscribe(&mut self, topic: Topic, name: &[u8]) {
        let _ = (topic, name);
    }
    /// The first name to which this client is subscribed, in the order of their bytes.
    fn first_subscribed(&self, topic: Topic) -> Option<Arc<[u8]>> {
        let _ = topic;
        None
    }
    /// Sends a message to the subscribers of a channel, whose topic is not a pattern. With
    /// `may_wait`, it may be refused for now ([`Published::Full`]).
    fn publish(
        &mut self,
        topic: Topic,
        channel: &[u8],
        message: &[u8],
        begun: &mut Publishing,
        may_wait: bool,
    ) -> Published {
        let _ = (topic, channel, message, begun, may_wait);
        Published::To(0)
    }
    /// The first `count` names that have subscribers on this node and are greater than `after`, in
    /// the order of their bytes.
    fn topics_after(&self, topic: Topic, after: Option<&[u8]>, count: usize) -> Vec<Arc<[u8]>> {
        let _ = (topic, after, count);
        Vec::new()
    }
    /// The number of names of a topic that have subscribers on this node.
    fn topic_count(&self, topic: Topic) -> usize {
        let _ = topic;
        0
    }
    /// The number of subscribers of a name on this node.
    fn subscribers(&self, topic: Topic, name: &[u8]) -> usize {
        let _ = (topic, name);
        0
    }
    /// Until when requests wait (`CLIENT PAUSE`): all, or only those that may write. `None` if this
    /// one does not wait.
    fn held_until_ms(&self, may_write: bool) -> Option<u64> {
        let _ = may_write;
        None
    }
    /// Has requests wait until a time: all, or only those that may write. `None` ends that.
    fn hold_clients(&self, hold: Option<Hold>) {
        let _ = hold;
    }
    /// Whether a client receives all commands (`MONITOR`).
    fn is_monitored(&self) -> bool {
        false
    }
    /// Sends a line to the clients that receive all commands.
    fn monitor(&self, line: Vec<u8>) {
        let _ = line;
    }
    /// Whether this client receives all commands from now on.
    fn set_monitor(&mut self, is_on: bool) {
        let _ = is_on;
    }
    /// Whether there is a client of this id.
    fn has_client(&self, id: u64) -> bool {
        let _ = id;
        false
    }
    /// The mode in which keys are tracked for this client.
    fn tracking(&self) -> Option<&Tracking> {
        None
    }
    /// Sets this mode. False if the databases have too many observers.
    fn set_tracking(&mut self, tracking: Option<Tracking>) -> bool {
        tracking.is_none()
    }
    /// Registers a key that this client is about to read. While requests are run again after a
    /// commit, the key is also invalidated after the reply.
    fn track(&mut self, key: &[u8]) {
        let _ = key;
    }
    /// A script that this client is about to run may read the key.
    fn begin_script(&mut self, key: &[u8]) {
        let _ = key;
    }
    /// The script of [`Host::begin_script`] has a reply. Registers the key, or invalidates it if
    /// another client has changed it since.
    fn end_script(&mut self, key: &[u8]) {
        let _ = key;
    }
    /// Statistics of the whole server, summed over its loops.
    fn server_info(&self) -> ServerInfo;
    /// The state of the log of durable databases.
    fn persistence(&self) -> Arc<Persistence> {
        Arc::default()
    }
    /// Passes a request on to the keeper of the log, and returns its number.
    fn request_persistence(&mut self, request: Request) -> u64 {
        let _ = request;
        0
    }
    /// The cluster; `None` if the node belongs to none.
    fn topology(&self) -> Option<Arc<Topology>> {
        None
    }
    /// Whether another node of the cluster leads. Cheaper than [`Host::topology`].
    fn is_led_elsewhere(&self) -> bool {
        false
    }
    /// Names of the commands of a protocol, by table index.
    fn command_names(&self, protocol: ProtocolName) -> &'static [&'static str];
    /// Calls, errors and latency of each command of a protocol, by table index.
    fn command_stats(&self, protocol: ProtocolName) -> Vec<CommandStats>;
    /// Counts of requests by the prefix of their key (`stats detail`).
    fn prefixes(&self) -> &Prefixes;
    /// Resets counters (`CONFIG RESETSTAT`, `stats reset`).
    fn reset_stats(&self);
    /// Options as name and value, with Redis' names for those that Redis has (`maxmemory`,
    /// `timeout`, `slowlog-log-slower-than`).
    fn options(&self) -> Vec<(String, String)>;
    /// Changes an option at run time; the error is a sentence without CR or LF.
    fn set_option(&self, name: &str, value: &str) -> Result<(), String>;
}

crate::options! {
    /// Limits that parsers enforce. They refuse a request beyond them and never truncate it.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Limits {
        /// Longest key (memcached: 250 at most in any case).
        key_bytes_max: usize = 64 << 10, option bytes(1, MB);
        /// Longest value in RESP.
        value_bytes_max: usize = 64 << 20, option bytes(1, 512 * MB);
        /// Longest value in memcached.
        memcached_value_bytes_max: usize = 1 << 20, option bytes(1, 512 * MB);
        /// Most steps of a script: an instruction of Lua is one.
        script_steps_max: u64 = 2_000_000, option integer(1_000, 1_000_000_000);
        /// Most bytes of memory of a script.
        script_bytes_max: usize = 16 << 20, option bytes(64 << 10, 1024 * MB);
        /// Most arguments of a RESP command.
        arguments_max: usize = 65_536, option integer(1, 1_048_576);
        /// Longest inline or text line.
        line_bytes_max: usize = 64 << 10, option bytes(64, 16 * MB);
        /// Most arguments before authentication.
        unauthenticated_arguments_max: usize = 10, option integer(1, 1_048_576);
        /// Longest argument before authentication.
        unauthenticated_argument_bytes_max: usize = 16 << 10, option bytes(1, MB);
        /// Most bytes of commands queued by MULTI.
        queued_bytes_max: usize = 128 << 20, option bytes(1, TB);
        /// Most subscriptions of a client: channels, patterns and sharded channels together.
        subscriptions_max: usize = 10_000, option integer(1, 1_048_576);
        /// Most bytes of output that may wait for a client. Beyond that a session stops writing
        /// replies and asks to close.
        output_bytes_max: usize = 256 << 20;
    }
}

/// How requests are held back (`CLIENT PAUSE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Until this time, in milliseconds since the Unix epoch.
    pub until_ms: u64,
    /// Whether only requests that may write wait.
    pub writes_only: bool,
}

/// The protocols by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProtocolName {
    /// RESP2 and RESP3.
    Resp,
    /// memcached text and meta.
    Memcached,
    /// Kyoto Tycoon: HTTP and binary.
    Kyoto,
}

/// What a listening address offers its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// The protocol.
    pub protocol: ProtocolName,
    /// Whether requests for the leader of the cluster are redirected to it (RESP only). Otherwise
    /// this node executes them.
    pub redirects: bool,
    /// How new the records must be that its clients read; `None` for the server's level.
    pub read_level: Option<ReadLevel>,
}

impl From<ProtocolName> for Service {
    fn from(protocol: ProtocolName) -> Service {
        Service { protocol, redirects: false, read_level: None }
    }
}

/// A connected client, as the server knows it. Shared between its loop and commands that list
/// clients.
#[derive(Debug)]
pub struct Client {
    /// Unique during the life of the server, increasing, from 1.
    pub id: u64,
    /// Its protocol.
    pub protocol: ProtocolName,
    /// [`Service::redirects`] of its listener.
    pub redirects: bool,
    /// [`Service::read_level`] of its listener.
    pub read_level: Option<ReadLevel>,
    /// Its address.
    pub address: SocketAddr,
    /// The address it connected to.
    pub local_address: SocketAddr,
    /// The socket's descriptor number.
    pub fd: i32,
    /// When it connected, in milliseconds since the Unix epoch.
    pub connected_at_ms: u64,
    /// When it last sent something, in milliseconds since the Unix epoch.
    pub active_at_ms: AtomicU64,
    /// Selected database.
    pub database: AtomicUsize,
    /// Index of its last command in the protocol's table; `usize::MAX` before the first.
    pub last_command: AtomicUsize,
    /// RESP version, 2 or 3.
    pub resp_version: AtomicUsize,
    /// Commands queued by MULTI; `usize::MAX` outside of MULTI.
    pub queued: AtomicUsize,
    /// Keys watched.
    pub watched: AtomicUsize,
    /// Bytes of unparsed input it holds.
    pub input_bytes: AtomicUsize,
    /// Bytes of output waiting for it.
    pub output_bytes: AtomicUsize,
    /// Bytes that the server holds for it: buffers, and the state of its session.
    pub held_bytes: AtomicU64,
    /// Bytes that it held when it was chosen to be closed for the memory of all clients; otherwise
    /// 0.
    pub evicted_bytes: AtomicU64,
    /// Bytes received and sent.
    pub traffic_bytes: [AtomicU64; 2],
    /// `CLIENT NO-EVICT`.
    pub no_evict: AtomicBool,
    /// Whether a request of it is held back by `CLIENT PAUSE`.
    pub is_held: AtomicBool,
    /// Whether it receives all commands.
    pub is_monitor: AtomicBool,
    /// Whether keys are tracked for it, whether it has a broadcast mode, and whether the client to
    /// which it redirects has left.
    pub tracking: [AtomicBool; 3],
    /// The client to which it redirects; 0 for none.
    pub redirect: AtomicU64,
    /// Number of its subscriptions, by [`Topic`].
    pub subscriptions: [AtomicUsize; 3],
    /// Set by `kill`.
    pub killed: AtomicBool,
    /// Names that the client has given itself.
    pub names: Mutex<ClientNames>,
}

/// Names that a client has given itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientNames {
    /// `CLIENT SETNAME`.
    pub name: Vec<u8>,
    /// `CLIENT SETINFO LIB-NAME`.
    pub library: Vec<u8>,
    /// `CLIENT SETINFO LIB-VER`.
    pub library_version: Vec<u8>,
}

/// One entry of the slow log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowEntry {
    /// The entry's number, increasing.
    pub id: u64,
    /// Time of the command, in seconds since the Unix epoch.
    pub at_s: u64,
    /// Duration of the command in microseconds.
    pub micros: u64,
    /// The arguments, truncated as in Redis.
    pub arguments: Vec<Vec<u8>>,
    /// The client's address.
    pub address: String,
    /// The client's name.
    pub name: Vec<u8>,
}

/// Calls, errors and latency of one command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandStats {
    /// Calls.
    pub calls: u64,
    /// Calls with an error as the reply.
    pub errors: u64,
    /// Total time of all calls, in microseconds.
    pub micros: f64,
    /// Latency at 50, 99 and 99.9 percent, in microseconds.
    pub percentiles_us: [f64; 3],
    /// Calls by power of two of microseconds (`LATENCY HISTOGRAM`): bucket `i` counts those up to
    /// `2^i` us.
    pub histogram: Vec<u64>,
}

/// Statistics of the whole server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerInfo {
    /// Version of Todana.
    pub version: String,
    /// Random identifier of this run, 40 hex digits.
    pub run_id: String,
    /// Process id.
    pub process_id: u32,
    /// RESP port, 0 if none.
    pub resp_port: u16,
    /// memcached port, 0 if none.
    pub memcached_port: u16,
    /// Kyoto Tycoon port, 0 if none.
    pub kyoto_port: u16,
    /// Path of the configuration file, empty if none.
    pub config_file: String,
    /// Name of the event back end (`epoll`, `poll`, `select` ...).
    pub event_backend: String,
    /// Event loops.
    pub event_loops: usize,
    /// Event loops that serve a client now.
    pub event_loops_in_use: usize,
    /// How often an event loop handed a client to another.
    pub connections_moved: u64,
    /// When it started, in milliseconds since the Unix epoch.
    pub started_at_ms: u64,
    /// Clients connected now.
    pub connections: u64,
    /// Most clients at the same time.
    pub connections_peak: u64,
    /// Most clients allowed.
    pub connections_max: u64,
    /// Clients since the start.
    pub connections_total: u64,
    /// Clients refused at the limit.
    pub connections_rejected: u64,
    /// Present clients of each protocol: RESP, memcached, Kyoto Tycoon.
    pub connections_by_protocol: [u64; 3],
    /// Commands executed.
    pub commands: u64,
    /// Commands in the last second.
    pub commands_per_second: u64,
    /// Bytes received.
    pub input_bytes: u64,
    /// Bytes sent.
    pub output_bytes: u64,
    /// Key look-ups that hit.
    pub hits: u64,
    /// Key look-ups that missed.
    pub misses: u64,
    /// The same look-ups by protocol, hits and misses: RESP, memcached, Kyoto Tycoon.
    pub lookups_by_protocol: [(u64, u64); 3],
    /// Replies that were errors.
    pub errors: u64,
    /// Error replies of RESP by their first word: see [`ERROR_CODES`](crate::resp::ERROR_CODES).
    pub errors_by_code: Vec<u64>,
    /// System calls that received bytes, and that sent some.
    pub transfers: [u64; 2],
    /// Bytes received and sent in the last second.
    pub traffic_per_second: [u64; 2],
    /// Failed authentications.
    pub authentication_failures: u64,
    /// Bytes held for clients: input and output buffers, and the state of sessions.
    pub client_buffer_bytes: u64,
    /// Limit of these bytes, 0 if none.
    pub clients_memory_limit_bytes: u64,
    /// Clients closed because all clients together exceeded the limit.
    pub evicted_clients: u64,
    /// Clients closed because they read too slowly.
    pub output_limit_disconnections: u64,
    /// Clients for which keys are tracked.
    pub tracking_clients: u64,
    /// Keys that are tracked, pairs of a key and a client, and prefixes.
    pub tracked: [u64; 3],
    /// Names that have subscribers, by [`Topic`].
    pub topics: [u64; 3],
    /// Clients that wait for a signal, or for the end of `CLIENT PAUSE`.
    pub blocked_clients: u64,
    /// Clients with subscriptions.
    pub subscribed_clients: u64,
    /// Messages that were dropped because subscribers did not take those before.
    pub dropped_messages: u64,
    /// Limit of bytes of entries, 0 if none.
    pub memory_limit_bytes: u64,
    /// The policy at the limit, in Redis' terms: `allkeys-lfu` or `noeviction`.
    pub memory_policy: String,
    /// Resident bytes of the process.
    pub resident_bytes: u64,
    /// Resident bytes when the server started, without the records that there were.
    pub startup_bytes: u64,
    /// Most resident bytes seen.
    pub resident_bytes_peak: u64,
    /// Bytes of memory of the machine, 0 if unknown.
    pub system_memory_bytes: u64,
    /// CPU seconds of the process, system and user.
    pub cpu_seconds: [f64; 2],
    /// Counts of each database.
    pub databases: Vec<todana_table::Counts>,
    /// The estimated mean time to live of the records that expire, in milliseconds, by database.
    pub mean_ttl_ms: Vec<u64>,
}

/// A part of a large value that belongs into the output, and is sent without a copy.
#[derive(Debug)]
pub struct Splice {
    /// Number of bytes of the output that precede it.
    pub at: usize,
    /// The value.
    pub value: Shared,
    /// The part of the value.
    pub range: Range<usize>,
}

impl Splice {
    /// The bytes of the part.
    pub fn bytes(&self) -> &[u8] {
        self.value.get(self.range.clone()).unwrap_or_default()
    }
}
