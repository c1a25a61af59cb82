//! The configuration of a server.

use std::net::SocketAddr;
use std::sync::Arc;
use todana_command::Databases;
use todana_protocol::kyoto::KyotoSettings;
use todana_protocol::{Limits, ProtocolName};
use todana_table::Budget;

/// Everything a server needs to know. Checked by the Erlang side's option table and once more by
/// [`crate::Server::start`].
#[derive(Clone, Debug)]
pub struct Config {
    /// The databases to serve.
    pub databases: Arc<Databases>,
    /// The byte budget that the databases share.
    pub budget: Arc<Budget>,
    /// What to listen on. Port 0 takes any free port.
    pub listeners: Vec<(ProtocolName, SocketAddr)>,
    /// Event-loop threads; `None` is one for each CPU online.
    pub event_loops: Option<usize>,
    /// How loops learn of ready sockets.
    pub event_backend: Backend,
    /// Password that clients must give; `None` asks for none. Without one, only loopback addresses
    /// may be listened on.
    pub password: Option<Vec<u8>>,
    /// Limits that parsers enforce.
    pub limits: Limits,
    /// Settings of the Kyoto Tycoon door.
    pub kyoto: KyotoSettings,
    /// A Kyoto Tycoon client that has sent a part of a request and then nothing for so long is
    /// closed; `None` never.
    pub kyoto_timeout_ms: Option<u64>,
    /// Most clients at one time.
    pub connections_max: usize,
    /// Clients that send and take nothing for so long are closed, unless a request of theirs is
    /// under way; `None` never.
    pub idle_timeout_ms: Option<u64>,
    /// Clients that have not authenticated for so long are closed, where a password is set. The
    /// delay of an answer to a password that came before is not counted.
    pub authentication_timeout_ms: u64,
    /// Most bytes of unparsed input that one client may hold.
    pub input_bytes_max: usize,
    /// A client with more output waiting is closed at once.
    pub output_bytes_hard: usize,
    /// A client with more output waiting for `output_soft_ms` is closed.
    pub output_bytes_soft: usize,
    /// See `output_bytes_soft`.
    pub output_soft_ms: u64,
    /// Most bytes that the server holds for all clients together; 0 is no limit, `None` a share of
    /// the machine's memory.
    pub clients_memory_limit_bytes: Option<u64>,
    /// TCP keepalive in seconds; `None` is off.
    pub tcp_keepalive_s: Option<u32>,
    /// Commands that take longer are in the slow log; `None` is off.
    pub slow_log_us: Option<u64>,
    /// Most entries in the slow log.
    pub slow_log_entries_max: usize,
    /// Path of the configuration file, to show.
    pub config_file: String,
    /// All options as name and value, to show (`CONFIG GET`).
    pub options: Vec<(String, String)>,
}

/// The mechanism that reports ready sockets to event loops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// The best mechanism of the system: epoll, kqueue, event ports.
    #[default]
    Native,
    /// The choice of the `polling` crate: the same as `Native` except on systems with epoll.
    Portable,
    /// `poll(2)`.
    Poll,
    /// `select(2)`: only descriptors below 1,024.
    Select,
}
