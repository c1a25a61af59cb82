//! What a session may ask of the server it lives in.

use crate::Splice;
use crate::kyoto::KyotoSettings;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use todana_command::Databases;

/// The server as its sessions see it. One per event loop: methods with `&mut self` touch that
/// loop's own counters.
pub trait Host {
    /// The databases.
    fn databases(&self) -> &Databases;
    /// Now, in milliseconds since the Unix epoch; constant during a turn, and not before the input
    /// of the turn was received.
    fn now_ms(&self) -> u64;
    /// Now, in microseconds since the Unix epoch (`TIME`).
    fn now_us(&self) -> u64 {
        self.now_ms().saturating_mul(1000)
    }
    /// Limits that parsers enforce.
    fn limits(&self) -> &Limits;
    /// Whether clients must authenticate.
    fn requires_password(&self) -> bool;
    /// Compares in constant time. True where no password is set.
    fn check_password(&self, password: &[u8]) -> bool;
    /// How long the answer to the password that is checked next is to be held back, right or wrong,
    /// since many wrong ones came from this client's address. The session asks before it checks,
    /// and sleeps ([`Next::Sleep`](crate::Next::Sleep)).
    fn password_delay_ms(&self) -> u64 {
        0
    }
    /// Notes that the session lets this client do what a password protects: it need not be closed
    /// for not authenticating in time. A right password alone does not say so, where the name of
    /// the user is wrong.
    fn note_authenticated(&mut self) {}
    /// The client of this connection.
    fn client(&self) -> &Arc<Client>;
    /// All clients, in the order of their ids.
    fn clients(&self) -> Vec<Arc<Client>>;
    /// The first of them whose ids are above this one, at most so many.
    fn clients_after(&self, id: u64, count: usize) -> Vec<Arc<Client>>;
    /// Asks the loop that owns this client to close it. False if there is no such client.
    fn kill(&self, id: u64) -> bool;
    /// Takes a part of a large value that is sent with the output of this turn. Those of one turn
    /// come in the order of their places.
    fn splice(&mut self, splice: Splice);
    /// Counts one executed command (an index into the protocol's command table), whether it failed,
    /// and the time since the last observation of this turn. Returns the time in microseconds
    /// if it belongs in the slow log.
    fn observe(&mut self, protocol: ProtocolName, command: usize, failed: bool) -> Option<u64>;
    /// Takes the time, in nanoseconds, since the last observation of this turn: a command took it
    /// that goes on in a later turn, and is observed when it is done.
    fn pause(&mut self) -> u64 {
        0
    }
    /// A command goes on that took so much time in its turns before: the next observation counts
    /// that, too.
    fn resume(&mut self, nanos: u64) {
        let _ = nanos;
    }
    /// Whether the time of this turn is used up, by what was observed: the session yields before
    /// the next command.
    fn turn_is_over(&self) -> bool {
        false
    }
    /// Notes key look-ups that found something or did not (`keyspace_hits`, `keyspace_misses`).
    fn observe_lookups(&mut self, hits: u64, misses: u64);
    /// Adds to the slow log.
    fn log_slow(&self, micros: u64, arguments: &[&[u8]]);
    /// The newest entries of the slow log, newest first; `None` for all.
    fn slow_log(&self, count: Option<usize>) -> Vec<SlowEntry>;
    /// Number of entries in the slow log.
    fn slow_log_len(&self) -> usize;
    /// Empties the slow log.
    fn slow_log_reset(&self);
    /// Settings of the Kyoto Tycoon door.
    fn kyoto(&self) -> &KyotoSettings;
    /// Begins to wait for a signal of this name, before [`Next::Wait`](crate::Next::Wait) is asked
    /// for.
    fn begin_wait(&mut self, name: &[u8]);
    /// Ends the wait that was begun. True if the signal came, false if the time was over first.
    fn end_wait(&mut self) -> bool;
    /// Signals one client that waits for this name, or all. Returns how many waited.
    fn signal(&mut self, name: &[u8], all: bool) -> usize;
    /// Figures of the whole server, summed over loops.
    fn server_info(&self) -> ServerInfo;
    /// Calls, errors and latency of each command of a protocol, by table index.
    fn command_stats(&self, protocol: ProtocolName) -> Vec<CommandStats>;
    /// Sets counters back (`CONFIG RESETSTAT`, `stats reset`).
    fn reset_stats(&self);
    /// Options as name and value, in Redis' names where Redis has one (`maxmemory`, `timeout`,
    /// `slowlog-log-slower-than`).
    fn options(&self) -> Vec<(String, String)>;
    /// Changes an option at run time; the error is a sentence without CR or LF.
    fn set_option(&self, name: &str, value: &str) -> Result<(), String>;
}

/// Limits that parsers enforce. Beyond them the request is refused, never cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest key (memcached: 250 at most in any case).
    pub key_bytes_max: usize,
    /// Longest value by RESP.
    pub value_bytes_max: usize,
    /// Longest value by memcached.
    pub memcached_value_bytes_max: usize,
    /// Most arguments of a RESP command.
    pub arguments_max: usize,
    /// Longest inline or text line.
    pub line_bytes_max: usize,
    /// Before authentication: most arguments.
    pub unauthenticated_arguments_max: usize,
    /// Before authentication: longest argument.
    pub unauthenticated_argument_bytes_max: usize,
    /// Most bytes that commands queued by MULTI may hold.
    pub queued_bytes_max: usize,
    /// Most bytes of output that may wait for a client: a session stops wording replies there and
    /// asks to close.
    pub output_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            key_bytes_max: 64 << 10,
            value_bytes_max: 64 << 20,
            memcached_value_bytes_max: 1 << 20,
            arguments_max: 65_536,
            line_bytes_max: 64 << 10,
            unauthenticated_arguments_max: 10,
            unauthenticated_argument_bytes_max: 16 << 10,
            queued_bytes_max: 128 << 20,
            output_bytes_max: 256 << 20,
        }
    }
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

/// What the server knows of a connected client. Shared between its loop and whoever lists clients.
#[derive(Debug)]
pub struct Client {
    /// Unique for the life of the server, growing, from 1.
    pub id: u64,
    /// Its protocol.
    pub protocol: ProtocolName,
    /// Its address.
    pub address: SocketAddr,
    /// The address it connected to.
    pub local_address: SocketAddr,
    /// The socket's descriptor number.
    pub fd: i32,
    /// When it connected, in milliseconds since the Unix epoch.
    pub connected_at_ms: u64,
    /// When it last sent something.
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
    /// Bytes that the server holds for it: buffers, and what its session keeps.
    pub held_bytes: AtomicU64,
    /// What it held when it was chosen to be closed for the memory of all clients; 0 if it was not.
    pub evicted_bytes: AtomicU64,
    /// Bytes received and sent.
    pub traffic_bytes: [AtomicU64; 2],
    /// `CLIENT NO-EVICT`.
    pub no_evict: AtomicBool,
    /// Set by `kill`.
    pub killed: AtomicBool,
    /// Names it gave itself.
    pub names: Mutex<ClientNames>,
}

/// Names that a client gave itself.
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
    /// Growing number.
    pub id: u64,
    /// When, in seconds since the Unix epoch.
    pub at_s: u64,
    /// How long it took.
    pub micros: u64,
    /// The arguments, cut as Redis cuts them.
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
    /// Calls that answered an error.
    pub errors: u64,
    /// Time of all calls, in microseconds.
    pub micros: f64,
    /// Latency at 50, 99 and 99.9 percent, in microseconds.
    pub percentiles_us: [f64; 3],
    /// Calls per power of two of microseconds (`LATENCY HISTOGRAM`): bucket `i` counts those up to
    /// `2^i` us.
    pub histogram: Vec<u64>,
}

/// Figures of the whole server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerInfo {
    /// Version of Todana.
    pub version: String,
    /// Random identity of this run, 40 hex digits.
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
    /// When it started, in milliseconds since the Unix epoch.
    pub started_at_ms: u64,
    /// Clients connected now.
    pub connections: u64,
    /// Most clients at one time.
    pub connections_peak: u64,
    /// Most clients allowed.
    pub connections_max: u64,
    /// Clients that came since the start.
    pub connections_total: u64,
    /// Clients turned away at the limit.
    pub connections_rejected: u64,
    /// Clients of each protocol now: RESP, memcached, Kyoto Tycoon.
    pub connections_by_protocol: [u64; 3],
    /// Commands executed.
    pub commands: u64,
    /// Commands of the last second.
    pub commands_per_second: u64,
    /// Bytes received.
    pub input_bytes: u64,
    /// Bytes sent.
    pub output_bytes: u64,
    /// Key look-ups that found something.
    pub hits: u64,
    /// Key look-ups that did not.
    pub misses: u64,
    /// Replies that were errors.
    pub errors: u64,
    /// Failed authentications.
    pub authentication_failures: u64,
    /// Bytes held for clients: input and output buffers, and what sessions keep.
    pub client_buffer_bytes: u64,
    /// Limit on these, 0 if none.
    pub clients_memory_limit_bytes: u64,
    /// Clients closed because all together held more.
    pub evicted_clients: u64,
    /// Clients closed because they read too slowly.
    pub output_limit_disconnections: u64,
    /// Limit on bytes of entries, 0 if none.
    pub memory_limit_bytes: u64,
    /// `allkeys-lfu` or `noeviction`: what happens at the limit, in Redis' words.
    pub memory_policy: String,
    /// Resident bytes of the process.
    pub resident_bytes: u64,
    /// Most resident bytes seen.
    pub resident_bytes_peak: u64,
    /// Bytes of memory of the machine, 0 where that is not known.
    pub system_memory_bytes: u64,
    /// CPU seconds of the process, system and user.
    pub cpu_seconds: [f64; 2],
    /// Counts of each database.
    pub databases: Vec<todana_table::Counts>,
}
