//! RESP: the protocol of Redis, versions 2 and 3, with the behaviour of Redis 7.2.
//!
//! A request is an array of bulk strings, or a line of words:
//!
//! ```text
//!  count          length    bytes       length   bytes
//! ┌───┬───┬────┬ ┌───┬───┬────┬─────┬────┬───┬───┬────┬─────┬────┐
//! │ * │ 2 │CRLF│ │ $ │ 3 │CRLF│ GET │CRLF│ $ │ 3 │CRLF│ key │CRLF│
//! └───┴───┴────┴ └───┴───┴────┴─────┴────┴───┴───┴────┴─────┴────┘
//! ┌─────────┬────┐
//! │ GET key │ LF │   inline: CR before LF is optional, words may be quoted
//! └─────────┴────┘
//! ```
//!
//! The first byte of a reply indicates its type. The types of the second row need `HELLO 3`;
//! without it, those in the third row replace them:
//!
//! ```text
//!  +text CRLF   -CODE text CRLF  :number CRLF  $length CRLF bytes CRLF      *count CRLF answers
//!  _ CRLF       ,fraction CRLF   %pairs CRLF   =length CRLF txt:bytes CRLF  ~count CRLF answers
//!  ($-1, *-1)   ($)              (*)           ($)                          (*)
//! ```
//!
//! The commands are data ([`table`]). The module of a command's group parses the commands on
//! records, and [`reply_format`] formats their replies; this module answers the other commands
//! itself. `docs/commands-resp.md`, which [`document`] writes, lists the differences from Redis.

#![forbid(unsafe_code)]

mod acl;
mod ahead;
mod bits;
mod call;
mod channels;
mod client;
mod cluster;
mod command;
mod commit;
mod connection;
mod dispatch;
mod document;
mod dump;
mod encoder;
mod error_code;
mod expiry;
mod flow;
mod host;
mod info;
mod inline;
mod interpreter;
mod keys;
mod latency;
mod lookup;
mod monitor;
mod names;
mod number;
mod operator;
mod parser;
mod pattern;
mod persistence;
mod question;
mod queue;
mod range;
mod read_level;
mod replication;
mod reply;
mod reply_format;
mod request;
mod respond;
mod ride;
mod scripts;
mod server;
mod session;
mod sink;
mod sketches;
mod sort;
mod source;
mod spec;
mod state;
mod strings;
mod syntax;
mod table;
mod tail;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod topic;
mod topology;
mod tracking;
mod tracking_mode;
mod transactions;
mod turns;
mod unsupported;
mod work;

pub use document::{dictionary, document};
pub use error_code::ERROR_CODES;
pub use host::{CommandNames, Configuration, ErrorCounts, Host, SlowLog};
pub use interpreter::{interpreter, set_script_secret};
pub use operator::{Hold, Operator};
pub use question::{Answer, Asked, Page, Question, Questions};
pub use session::RespSession;
pub use table::COMMANDS;
pub use topic::{Channels, Published, Publishing, Topic};
pub use topology::{Cluster, ClusterNode, Topology};
pub use tracking_mode::{KeyTracking, Tracking};

/// The version of Redis that is reported to clients. Todana follows the behaviour of 7.2, and has
/// what 7.4 adds to it for strings; redis-py uses CLIENT TRACKING only from 7.4 on.
pub const REDIS_VERSION: &str = "7.4.0";
