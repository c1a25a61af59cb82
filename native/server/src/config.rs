//! The configuration of a server.

use crate::keeper::Keeper;
use crate::responder::Responder;
use crate::tuning::Tuning;
use std::net::SocketAddr;
use std::sync::Arc;
use todana_command::Databases;
use todana_group::Homes;
use todana_kyoto::KyotoSettings;
use todana_protocol::{
    Changeable, Limits, MB, OptionField, OptionType, OptionValue, ReadLevel, Service, TB, bytes,
    bytes_or, integer, integer_or,
};
use todana_table::{Budget, Options, Table, WhenFull};

/// The largest number of 31 bits, which is the maximum of most options that are times.
const MAX: u64 = 0x7fff_ffff;

/// The highest value of the option that limits connections.
pub(crate) const CONNECTIONS_MAX: u64 = 1_000_000;

todana_protocol::options! {
    /// Everything that a server needs to know.
    ///
    /// Fields with a name after `option` are options of Todana: one row here, one in
    /// `src/options/todana_options.erl`. [`Config::set_option`] sets them by name and checks the
    /// value. If a field is set directly, [`crate::Server::start`] checks it only for values with
    /// which the server could not work.
    #[derive(Clone, Debug)]
    pub struct Config {
        /// The byte budget that the databases share. It contains `memory_limit` and
        /// `memory_policy`.
        budget: Arc<Budget> = Arc::new(Budget::new(i64::MAX, WhenFull::Evict));
        /// The databases to serve.
        databases: Arc<Databases> = databases_within(&budget);
        /// The keeper of the log of durable databases, if there are any.
        keeper: Option<Arc<dyn Keeper>> = None;
        /// The part of the node that has questions about names and groups answered.
        responder: Option<Arc<dyn Responder>> = None;
        /// The groups of the durable databases; `None` if there are none.
        homes: Option<Homes> = None;
        /// The addresses to listen on, with what they offer. Port 0 selects any free port.
        listeners: Vec<(Service, SocketAddr)> = Vec::new();
        /// Number of event-loop threads; `None` means one for each CPU online.
        event_loops: Option<usize> = None, option integer_or("auto", 1, 1024);
        /// How connections are distributed among event loops.
        event_loop_balance: LoopBalance = LoopBalance::Even,
            option OptionType::Choice(&LoopBalance::WORDS);
        /// The mechanism that reports ready sockets to loops.
        event_backend: Backend = Backend::Native, option OptionType::Choice(&Backend::WORDS);
        /// Password that clients must give; `None` requires none. Without one, the server may
        /// listen only on loopback addresses.
        password: Option<Vec<u8>> = None;
        /// Limits that parsers enforce.
        limits: Limits = Limits::default();
        /// Settings of the Kyoto Tycoon protocol.
        kyoto: KyotoSettings = KyotoSettings::default();
        /// A Kyoto Tycoon client that has sent a part of a request and then nothing for this long
        /// is closed; `None` means never.
        kyoto_timeout_ms: Option<u64> = Some(30_000), option integer_or("off", 1, MAX);
        /// Maximum number of clients.
        connections_max: Changeable<usize> = 10_000.into(), option integer(1, CONNECTIONS_MAX),
            redis "maxclients" Number;
        /// Clients that neither send nor take anything for this long are closed, unless they have a
        /// request in progress; `None` means never.
        idle_timeout_ms: Changeable<Option<u64>> = None.into(),
            option integer_or("off", 1, MAX * 1_000), redis "timeout" Seconds;
        /// If a password is set, clients that have not authenticated within this time are closed.
        /// The delay of a reply to a password that arrived before does not count.
        authentication_timeout_ms: u64 = 10_000, option integer(1, MAX);
        /// Maximum bytes of unparsed input per client.
        input_bytes_max: usize = 128 << 20, option bytes(64 << 10, TB);
        /// A client with more output waiting is closed at once.
        output_bytes_hard: usize = 256 << 20, option bytes(64 << 10, TB);
        /// A client with more output waiting for `output_soft_ms` is closed.
        output_bytes_soft: usize = 32 << 20, option bytes(64 << 10, TB);
        /// See `output_bytes_soft`.
        output_soft_ms: u64 = 60_000, option integer(1, MAX);
        /// Maximum number of keys that are tracked for clients that cache values. Beyond that, the
        /// server has the clients forget other keys.
        tracking_keys_max: Changeable<usize> = 1_000_000.into(), option integer(1, 1_000_000_000),
            redis "tracking-table-max-keys" Number;
        /// Like `output_bytes_hard`, for clients with subscriptions.
        subscriber_output_bytes_hard: usize = 32 << 20, option bytes(64 << 10, TB);
        /// Like `output_bytes_soft`, for clients with subscriptions.
        subscriber_output_bytes_soft: usize = 8 << 20, option bytes(64 << 10, TB);
        /// See `subscriber_output_bytes_soft`.
        subscriber_output_soft_ms: u64 = 60_000, option integer(1, MAX);
        /// Maximum bytes that the server holds for all clients together; 0 is no limit. `None`
        /// means a share of the machine's memory, which [`crate::Server::start`] computes.
        clients_memory_limit: Changeable<Option<u64>> = None.into(),
            option bytes_or("auto", 0, 1024 * TB), redis "maxmemory-clients" Bytes;
        /// How long a write to a durable database waits for its log, and a read for the leader.
        write_timeout_ms: u64 = 5_000, option integer(1, MAX);
        /// How new the records of durable databases must be that clients read, unless they choose
        /// another level.
        read_level: ReadLevel = ReadLevel::Bounded, option OptionType::Choice(&ReadLevel::WORDS);
        /// TCP keepalive in seconds; `None` is off.
        tcp_keepalive_s: Option<u32> = Some(300), option integer_or("off", 1, 32_767);
        /// Commands that take longer appear in the slow log; `None` is off.
        slow_log_us: Changeable<Option<u64>> = Some(10_000).into(),
            option integer_or("off", 0, MAX * 1_000),
            redis "slowlog-log-slower-than" NumberOrMinusOne;
        /// Maximum number of entries in the slow log.
        slow_log_entries_max: Changeable<usize> = 128.into(), option integer(0, 1_000_000),
            redis "slowlog-max-len" Number;
        /// Options of Redis without an effect.
        tuning: Tuning = Tuning::default();
        /// Path of the configuration file, for display.
        config_file: String = String::new();
        /// All options as name and value, for display (`CONFIG GET`).
        options: Vec<(String, String)> = Vec::new();
    }
}

/// The form of `memory_limit`.
pub(crate) const MEMORY_LIMIT: OptionType = bytes_or("off", MB, 1024 * TB);

/// Empty databases that share a budget.
fn databases_within(budget: &Arc<Budget>) -> Arc<Databases> {
    let options = Options { budget: Some(Arc::clone(budget)), ..Options::default() };
    let tables = std::array::from_fn(|_| Arc::new(Table::new(options.clone())));
    let databases = Databases::new(tables);
    databases.set_interpreter(todana_resp::interpreter());
    Arc::new(databases)
}

/// How connections are distributed among event loops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoopBalance {
    /// They gather on as few loops as the load needs. With `poll` and `select`, whose cost grows
    /// with the connections of a loop, the same as `Even`.
    Load,
    /// Each loop gets as many, and keeps them.
    #[default]
    Even,
}

impl LoopBalance {
    /// All of them, in the order of [`LoopBalance::WORDS`].
    pub const ALL: [LoopBalance; 2] = [LoopBalance::Load, LoopBalance::Even];
    /// Their names.
    pub const WORDS: [&'static str; 2] = ["load", "even"];
}

impl OptionField for LoopBalance {
    fn value(&self) -> OptionValue {
        OptionValue::Word(LoopBalance::WORDS[*self as usize].into())
    }

    fn put(&mut self, value: OptionValue) -> bool {
        let OptionValue::Word(word) = value else { return false };
        let named = LoopBalance::WORDS.iter().position(|name| *name == word);
        if let Some(number) = named {
            *self = LoopBalance::ALL[number];
        }
        named.is_some()
    }
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
