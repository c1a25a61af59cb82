//! The figures of a running server, for monitors: since its start, whatever clients have reset.

use crate::Server;
use crate::clock::{Clock, wall_ms};
use crate::command_names::command_names;
use crate::histogram::powers_us;
use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;
use todana_protocol::{CommandStats, ProtocolName, ServerInfo, SlowEntry};
use todana_table::Counts;

const PROTOCOLS: [ProtocolName; 3] =
    [ProtocolName::Resp, ProtocolName::Memcached, ProtocolName::Kyoto];

/// What [`Server::figures`] returns.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Sums over the loops.
    pub info: ServerInfo,
    /// The commands that were called.
    pub commands: Vec<CommandFigures>,
    /// One for each loop.
    pub loops: Vec<LoopFigures>,
}

/// The calls of one command.
#[derive(Clone, Debug)]
pub struct CommandFigures {
    /// Its protocol.
    pub protocol: ProtocolName,
    /// Its name there.
    pub name: &'static str,
    /// Its figures.
    pub stats: CommandStats,
}

/// How busy a loop is.
#[derive(Clone, Debug, Default)]
pub struct LoopFigures {
    /// Connections that it serves.
    pub connections: u64,
    /// Nanoseconds in which it did not wait for sockets.
    pub busy_nanos: u64,
    /// Rounds by power of two of microseconds, as [`CommandStats::histogram`].
    pub rounds: Vec<u64>,
    /// How long the present round takes already; 0 if the loop waits for sockets.
    pub round_nanos: u64,
}

/// What [`Server::incidents`] returns.
#[derive(Clone, Copy, Debug, Default)]
pub struct Incidents {
    /// Clients that were rejected at the limit.
    pub connections_rejected: u64,
    /// Wrong passwords.
    pub authentication_failures: u64,
    /// Where the last one came from.
    pub last_failure: Option<IpAddr>,
    /// Clients closed because they read too slowly.
    pub output_limit_disconnections: u64,
    /// Records removed to make room.
    pub evicted: u64,
    /// Writes refused because there was no room.
    pub refused: u64,
}

impl Server {
    /// All figures at one moment.
    pub fn figures(&self) -> Figures {
        let totals = self.shared.totals();
        let commands = PROTOCOLS.into_iter().flat_map(|protocol| {
            let stats = totals.command_stats(protocol);
            command_names(protocol)
                .iter()
                .zip(stats)
                .filter(|(_, stats)| stats.calls > 0)
                .map(move |(name, stats)| CommandFigures { protocol, name, stats })
        });
        Figures {
            commands: commands.collect(),
            info: self.shared.info_since_start(),
            loops: self.loops(),
        }
    }

    /// What operators should know of, as counts since the start.
    pub fn incidents(&self) -> Incidents {
        let info = self.shared.info_since_start();
        let sum = |what: fn(&Counts) -> u64| info.databases.iter().map(what).sum();
        Incidents {
            connections_rejected: info.connections_rejected,
            authentication_failures: info.authentication_failures,
            last_failure: self.shared.guesses.last_failure(),
            output_limit_disconnections: info.output_limit_disconnections,
            evicted: sum(|it| it.evicted),
            refused: sum(|it| it.refused),
        }
    }

    /// The newest entries of the slow log, newest first.
    pub fn slow_log(&self, count: usize) -> Vec<SlowEntry> {
        self.shared.slow_log.newest(Some(count))
    }

    fn loops(&self) -> Vec<LoopFigures> {
        let clock = Clock::new();
        let figures = self.shared.loops.iter().map(|part| {
            let statistics = &part.statistics;
            let buckets: Vec<u64> = statistics.rounds.buckets().collect();
            LoopFigures {
                connections: part.connections.load(Relaxed) as u64,
                busy_nanos: statistics.busy_nanos.get(),
                rounds: powers_us(&buckets),
                round_nanos: match statistics.round_began.get() {
                    0 => 0,
                    began => clock.nanos(began, clock.raw()),
                },
            }
        });
        figures.collect()
    }

    /// Milliseconds since the loop that is longest in its round has waited for sockets: the sign of
    /// a loop that hangs.
    pub fn longest_round_ms(&self) -> u64 {
        self.loops().iter().map(|it| it.round_nanos / 1_000_000).max().unwrap_or(0)
    }

    /// Compares a password that did not come through a loop. Wrong ones are counted, and slow down
    /// further guesses from the address. Returns the verdict, and for how many milliseconds the
    /// answer is to be delayed.
    pub fn check_password(&self, password: &[u8], address: IpAddr) -> (bool, u64) {
        let now_ms = wall_ms();
        let delay_ms = self.shared.guesses.delay_ms(address, now_ms);
        let right = self.shared.secret.is(password);
        if !right {
            self.shared.failures_elsewhere.fetch_add(1, Relaxed);
            self.shared.guesses.note_failure(address, now_ms);
        }
        (right, delay_ms)
    }

    /// Changes an option while the server runs. The error is a sentence.
    pub fn set_option(&self, name: &str, value: &str) -> Result<(), String> {
        self.shared.set_option(name, value)
    }

    /// Changes the password, or removes it. Clients that are authenticated remain so.
    pub fn set_password(&self, password: Option<Vec<u8>>) -> Result<(), String> {
        self.shared.set_password(password)
    }

    /// Whether clients must give a password.
    pub fn requires_password(&self) -> bool {
        self.shared.secret.is_set()
    }
}
