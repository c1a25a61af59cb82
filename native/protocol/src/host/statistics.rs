//! What sessions count, and the figures of the server.

use super::ProtocolName;

/// Counters of the commands that sessions execute. There is one host for each event loop, which
/// counts for itself.
pub trait Statistics {
    /// Counts one executed command (an index into the protocol's command table), whether it failed,
    /// and the time since the last observation of this turn. Returns the time in microseconds if
    /// the command belongs in the slow log.
    fn observe(&mut self, protocol: ProtocolName, command: usize, failed: bool) -> Option<u64>;
    /// Counts key look-ups that hit or missed (`keyspace_hits`, `keyspace_misses`).
    fn observe_lookups(&mut self, hits: u64, misses: u64);
    /// Adds to the slow log.
    fn log_slow(&self, micros: u64, arguments: &[&[u8]]);
}

/// The figures of the whole server, summed over its loops.
pub trait Figures {
    /// Statistics of the whole server, summed over its loops.
    fn server_info(&self) -> ServerInfo;
    /// Calls, errors and latency of each command of a protocol, by table index.
    fn command_stats(&self, protocol: ProtocolName) -> Vec<CommandStats>;
    /// Resets counters (`CONFIG RESETSTAT`, `stats reset`).
    fn reset_stats(&self);
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
    /// Error replies of RESP by their first word: see `todana_resp::ERROR_CODES`.
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
    /// Names that have subscribers, by the topics of RESP.
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
