//! What RESP needs of the server.

use super::operator::Operator;
use super::question::Questions;
use super::topic::Channels;
use super::topology::Cluster;
use super::tracking_mode::KeyTracking;
use todana_protocol::{Clients, Durability, Figures, ProtocolName, SlowEntry, Splices, Work};

/// The server as sessions of RESP see it.
pub trait Host:
    todana_protocol::Host
    + Channels
    + Clients
    + Cluster
    + CommandNames
    + Configuration
    + Durability
    + ErrorCounts
    + Figures
    + KeyTracking
    + Operator
    + Questions
    + SlowLog
    + Splices
    + Work
{
}

impl<H> Host for H where
    H: todana_protocol::Host
        + Channels
        + Clients
        + Cluster
        + CommandNames
        + Configuration
        + Durability
        + ErrorCounts
        + Figures
        + KeyTracking
        + Operator
        + Questions
        + SlowLog
        + Splices
        + Work
{
}

/// The options of the server.
pub trait Configuration {
    /// Options as name and value, with Redis' names for those that Redis has (`maxmemory`,
    /// `timeout`, `slowlog-log-slower-than`).
    fn options(&self) -> Vec<(String, String)>;
    /// Changes an option at run time; the error is a sentence without CR or LF.
    fn set_option(&self, name: &str, value: &str) -> Result<(), String>;
}

/// The slow log, to which all protocols add.
pub trait SlowLog {
    /// The newest entries of the slow log, newest first; `None` for all.
    fn slow_log(&self, count: Option<usize>) -> Vec<SlowEntry>;
    /// Number of entries in the slow log.
    fn slow_log_len(&self) -> usize;
    /// Empties the slow log.
    fn slow_log_reset(&self);
}

/// Counters of error replies.
pub trait ErrorCounts {
    /// Counts an error reply of RESP by its first word, an index of
    /// [`ERROR_CODES`](crate::ERROR_CODES).
    fn observe_error(&mut self, code: usize);
}

/// Names of commands, which lists of clients contain.
pub trait CommandNames {
    /// Names of the commands of a protocol, by table index.
    fn command_names(&self, protocol: ProtocolName) -> &'static [&'static str];
}
