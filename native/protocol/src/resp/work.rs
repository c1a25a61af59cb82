//! What the commands that a session answers itself cost in one EXEC.
//!
//! No lock is held for them, but their event loop serves nobody else meanwhile. They count towards
//! the same limit as the commands on records, in the same units of a quarter of a microsecond
//! ([`BATCH_UNITS_MAX`](todana_command::BATCH_UNITS_MAX)):
//!
//! | of a command | units |
//! |---|---|
//! | each word, its name's included | 1 |
//! | a KiB of arguments | 3 |
//! | INFO, MEMORY STATS, MEMORY DOCTOR, LOLWUT, CONFIG RESETSTAT: server's figures | 3,072 |
//! | COMMAND, COMMAND INFO, COMMAND DOCS, LATENCY HISTOGRAM, which tell of all commands | 512 |
//! | COMMAND LIST, CONFIG GET, CONFIG SET, CLIENT LIST, CLIENT KILL, HELP, SLOWLOG GET | 64 |
//! | a word of CONFIG GET, CONFIG SET, COMMAND INFO, COMMAND DOCS, LATENCY HISTOGRAM | 5 more |
//! | a KiB of patterns (CONFIG GET, COMMAND LIST), compared with each name | 512 |
//! | a client of CLIENT LIST | 4 |
//! | a client of CLIENT KILL, INFO | 1 |
//! | an entry of SLOWLOG GET, whether wanted or not | 8 |

use super::table::Name;
use crate::Host;

const KIB_COPIED_UNITS: u64 = 3;
const SERVER_UNITS: u64 = 3_072;
const COMMANDS_UNITS: u64 = 512;
const NAMES_UNITS: u64 = 64;
const LOOKUP_UNITS: u64 = 5;
const PATTERN_KIB_UNITS: u64 = 512;
const CLIENT_TOLD_UNITS: u64 = 4;
const CLIENT_UNITS: u64 = 1;
const SLOW_ENTRY_UNITS: u64 = 8;

/// Adds up what the session's own commands of one EXEC cost.
pub(super) struct Work<'h, H> {
    host: &'h H,
    /// Clients connected, once it was asked.
    clients: Option<u64>,
    pub(super) units: u64,
}

impl<'h, H: Host> Work<'h, H> {
    pub(super) fn new(host: &'h H) -> Work<'h, H> {
        Work { host, clients: None, units: 0 }
    }

    pub(super) fn add(&mut self, name: Name, arguments: &[&[u8]]) {
        use Name::*;
        let words = arguments.len() as u64;
        let bytes = arguments.iter().map(|argument| argument.len() as u64).sum::<u64>();
        let patterns = NAMES_UNITS + bytes * PATTERN_KIB_UNITS / 1_024;
        let own = match name {
            Info => SERVER_UNITS + self.clients() * CLIENT_UNITS,
            MemoryStats | MemoryDoctor | LolWut | ConfigResetStat => SERVER_UNITS,
            Command | CommandInfo | CommandDocs | LatencyHistogram => {
                COMMANDS_UNITS + words * LOOKUP_UNITS
            }
            CommandList => patterns,
            ConfigGet => patterns + words * LOOKUP_UNITS,
            ConfigSet => NAMES_UNITS + words * LOOKUP_UNITS,
            ClientList => NAMES_UNITS + self.clients() * CLIENT_TOLD_UNITS,
            ClientKill => NAMES_UNITS + self.clients() * CLIENT_UNITS,
            SlowLogGet => NAMES_UNITS + self.host.slow_log_len() as u64 * SLOW_ENTRY_UNITS,
            ObjectHelp | ClientHelp | ConfigHelp | CommandHelp | MemoryHelp | SlowLogHelp
            | LatencyHelp | DebugHelp => NAMES_UNITS,
            _ => 0,
        };
        let units = own + words + bytes * KIB_COPIED_UNITS / 1_024;
        self.units = self.units.saturating_add(units);
    }

    /// The server makes a list to count them, so once is enough.
    fn clients(&mut self) -> u64 {
        *self.clients.get_or_insert_with(|| self.host.clients().len() as u64)
    }
}
