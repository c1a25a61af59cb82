//! The configuration of a server.

use std::net::SocketAddr;
use std::sync::Arc;
use todana_command::Databases;
use todana_protocol::kyoto::KyotoSettings;
use todana_protocol::{
    Changeable, Limits, MB, OptionField, OptionType, OptionValue, ProtocolName, TB, bytes,
    bytes_or, integer, integer_or,
};
use todana_table::{Budget, Options, Table, WhenFull};

/// The largest number of 31 bits: the maximum of most options that are times.
const MAX: u64 = 0x7fff_ffff;

/// Most connections that an option may allow.
pub(crate) const CONNECTIONS_MAX: u64 = 1_000_000;

todana_protocol::options! {
    /// Everything a server needs to know.
    ///
    /// Fields with a name behind `option` are options of Todana: one row here, one in
    /// `src/todana_options.erl`. [`Config::set_option`] sets them by name and checks the value; a
    /// field that is set directly is checked by [`crate::Server::start`] only as far as the server
    /// could not work.
    #[derive(Clone, Debug)]
    pub struct Config {
        /// The byte budget that the databases share. `memory_limit` and `memory_policy` are kept
        /// here.
        budget: Arc<Budget> = Arc::new(Budget::new(i64::MAX, WhenFull::Evict));
        /// The databases to serve.
        databases: Arc<Databases> = databases_within(&budget);
        /// What to listen on. Port 0 takes any free port.
        listeners: Vec<(ProtocolName, SocketAddr)> = Vec::new();
        /// Event-loop threads; `None` is one for each CPU online.
        event_loops: Option<usize> = None, option integer_or("auto", 1, 1024);
        /// How loops learn of ready sockets.
        event_backend: Backend = Backend::Native, option OptionType::Choice(&Backend::WORDS);
        /// Password that clients must give; `None` asks for none. Without one, only loopback
        /// addresses may be listened on.
        password: Option<Vec<u8>> = None;
        /// Limits that parsers enforce.
        limits: Limits = Limits::default();
        /// Settings of the Kyoto Tycoon door.
        kyoto: KyotoSettings = KyotoSettings::default();
        /// A Kyoto Tycoon client that has sent a part of a request and then nothing for so long is
        /// closed; `None` never.
        kyoto_timeout_ms: Option<u64> = Some(30_000), option integer_or("off", 1, MAX);
        /// Most clients at one time.
        connections_max: Changeable<usize> = 10_000.into(), option integer(1, CONNECTIONS_MAX),
            redis "maxclients" Number;
        /// Clients that send and take nothing for so long are closed, unless a request of theirs is
        /// under way; `None` never.
        idle_timeout_ms: Changeable<Option<u64>> = None.into(),
            option integer_or("off", 1, MAX * 1_000), redis "timeout" Seconds;
        /// Clients that have not authenticated for so long are closed, where a password is set. The
        /// delay of an answer to a password that came before is not counted.
        authentication_timeout_ms: u64 = 10_000, option integer(1, MAX);
        /// Most bytes of unparsed input that one client may hold.
        input_bytes_max: usize = 128 << 20, option bytes(64 << 10, TB);
        /// A client with more output waiting is closed at once.
        output_bytes_hard: usize = 256 << 20, option bytes(64 << 10, TB);
        /// A client with more output waiting for `output_soft_ms` is closed.
        output_bytes_soft: usize = 32 << 20, option bytes(64 << 10, TB);
        /// See `output_bytes_soft`.
        output_soft_ms: u64 = 60_000, option integer(1, MAX);
        /// Most bytes that the server holds for all clients together; 0 is no limit. `None` is a
        /// share of the machine's memory, which [`crate::Server::start`] puts in its place.
        clients_memory_limit: Changeable<Option<u64>> = None.into(),
            option bytes_or("auto", 0, 1024 * TB), redis "maxmemory-clients" Bytes;
        /// TCP keepalive in seconds; `None` is off.
        tcp_keepalive_s: Option<u32> = Some(300), option integer_or("off", 1, 32_767);
        /// Commands that take longer are in the slow log; `None` is off.
        slow_log_us: Changeable<Option<u64>> = Some(10_000).into(),
            option integer_or("off", 0, MAX * 1_000),
            redis "slowlog-log-slower-than" NumberOrMinusOne;
        /// Most entries in the slow log.
        slow_log_entries_max: Changeable<usize> = 128.into(), option integer(0, 1_000_000),
            redis "slowlog-max-len" Number;
        /// Path of the configuration file, to show.
        config_file: String = String::new();
        /// All options as name and value, to show (`CONFIG GET`).
        options: Vec<(String, String)> = Vec::new();
    }
}

/// The form of `memory_limit`.
pub(crate) const MEMORY_LIMIT: OptionType = bytes_or("off", MB, 1024 * TB);

/// Empty databases that share a budget.
fn databases_within(budget: &Arc<Budget>) -> Arc<Databases> {
    let options = Options { budget: Some(Arc::clone(budget)), ..Options::default() };
    Arc::new(Databases::new(std::array::from_fn(|_| Arc::new(Table::new(options.clone())))))
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

impl Backend {
    /// All of them, in the order of [`Backend::WORDS`].
    pub const ALL: [Backend; 4] =
        [Backend::Native, Backend::Portable, Backend::Poll, Backend::Select];
    /// Their names.
    pub const WORDS: [&'static str; 4] = ["native", "portable", "poll", "select"];
}

impl OptionField for Backend {
    fn value(&self) -> OptionValue {
        OptionValue::Word(Backend::WORDS[*self as usize].into())
    }

    fn put(&mut self, value: OptionValue) -> bool {
        let OptionValue::Word(word) = value else { return false };
        let named = Backend::WORDS.iter().position(|name| *name == word);
        if let Some(number) = named {
            *self = Backend::ALL[number];
        }
        named.is_some()
    }
}
