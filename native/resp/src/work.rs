//! The cost of the session's own commands in one EXEC.
//!
//! They hold no lock, but their event loop serves no other client meanwhile. They count towards the
//! same limit as the commands on records, in the same units of a quarter of a microsecond
//! ([`TRANSACTION_UNITS_MAX`](todana_command::TRANSACTION_UNITS_MAX)):
//!
//! | of a command | units |
//! |---|---|
//! | each word, its name's included | 1 |
//! | a KiB of arguments | 3 |
//! | INFO, MEMORY STATS, MEMORY DOCTOR, LOLWUT, CONFIG RESETSTAT: statistics | 3,072 |
//! | COMMAND, COMMAND INFO, COMMAND DOCS, LATENCY HISTOGRAM, which return all commands | 512 |
//! | COMMAND LIST, CONFIG GET, CONFIG SET, CLIENT LIST, CLIENT KILL, HELP, SLOWLOG GET | 64 |
//! | a word of CONFIG GET, CONFIG SET, COMMAND INFO, COMMAND DOCS, LATENCY HISTOGRAM | 5 more |
//! | a KiB of patterns (CONFIG GET, COMMAND LIST), compared with each name | 512 |
//! | a client of CLIENT LIST | 4 |
//! | a client of CLIENT KILL, INFO | 1 |
//! | an entry of the slow log for SLOWLOG GET, returned or not | 8 |
//! | PUBLISH | 16, and 4 for each pattern |
//! | a channel for PUBSUB CHANNELS, returned or not | 4 |

use crate::{Host, Topic};

const KIB_COPIED_UNITS: u64 = 3;
const SERVER_UNITS: u64 = 3_072;
const COMMANDS_UNITS: u64 = 512;
const NAMES_UNITS: u64 = 64;
const LOOKUP_UNITS: u64 = 5;
const PATTERN_KIB_UNITS: u64 = 512;
const CLIENT_LINE_UNITS: u64 = 4;
const CLIENT_UNITS: u64 = 1;
const SLOW_ENTRY_UNITS: u64 = 8;
const PUBLISH_UNITS: u64 = 16;
const TOPIC_UNITS: u64 = 4;

/// The cost of a command of the session in addition to its words. Each row of the command table
/// selects one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effort {
    /// Nothing.
    Words,
    /// The server's statistics.
    Figures,
    /// The server's statistics, and a visit of each client.
    FiguresAndClients,
    /// Rows of the command table.
    Commands,
    /// A list of names.
    NameTable,
    /// The commands whose names match a pattern.
    CommandNames,
    /// The options whose names match patterns.
    OptionNames,
    /// Options by their names.
    Options,
    /// A line for each client.
    ClientLines,
    /// A visit of each client.
    Clients,
    /// The entries of the slow log.
    SlowLog,
    /// A message, compared with all patterns.
    Publish,
    /// The channels that have subscribers.
    Topics,
}

/// Adds up the cost of the session's own commands in one EXEC.
pub(super) struct Work<'h, H> {
    host: &'h H,
    /// The number of connected clients, after the first query.
    clients: Option<u64>,
    pub(super) units: u64,
}

impl<'h, H: Host> Work<'h, H> {
    pub(super) fn new(host: &'h H) -> Work<'h, H> {
        Work { host, clients: None, units: 0 }
    }

    pub(super) fn add(&mut self, effort: Effort, arguments: &[&[u8]]) {
        let words = arguments.len() as u64;
        let bytes = arguments.iter().map(|argument| argument.len() as u64).sum::<u64>();
        let patterns = NAMES_UNITS + bytes * PATTERN_KIB_UNITS / 1_024;
        let own = match effort {
            Effort::Words => 0,
            Effort::Figures => SERVER_UNITS,
            Effort::FiguresAndClients => SERVER_UNITS + self.clients() * CLIENT_UNITS,
            Effort::Commands => COMMANDS_UNITS + words * LOOKUP_UNITS,
            Effort::NameTable => NAMES_UNITS,
            Effort::CommandNames => patterns,
            Effort::OptionNames => patterns + words * LOOKUP_UNITS,
            Effort::Options => NAMES_UNITS + words * LOOKUP_UNITS,
            Effort::ClientLines => NAMES_UNITS + self.clients() * CLIENT_LINE_UNITS,
            Effort::Clients => NAMES_UNITS + self.clients() * CLIENT_UNITS,
            Effort::Publish => PUBLISH_UNITS + self.topics(&[Topic::Pattern]) * TOPIC_UNITS,
            Effort::Topics => patterns + self.topics(&[Topic::Channel, Topic::Shard]) * TOPIC_UNITS,
            Effort::SlowLog => NAMES_UNITS + self.host.slow_log_len() as u64 * SLOW_ENTRY_UNITS,
        };
        let units = own + words + bytes * KIB_COPIED_UNITS / 1_024;
        self.units = self.units.saturating_add(units);
    }

    fn topics(&self, topics: &[Topic]) -> u64 {
        topics.iter().map(|topic| self.host.topic_count(*topic) as u64).sum()
    }

    /// Counts the clients only once, because the server builds a list for it.
    fn clients(&mut self) -> u64 {
        *self.clients.get_or_insert_with(|| self.host.clients().len() as u64)
    }
}
