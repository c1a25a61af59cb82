//! memcached: the text protocol with its meta commands, and the binary protocol, compatible with
//! memcached 1.6.
//!
//! ```text
//!   set alpha 7 60 5\r\n                a line; CR may be missing
//!   hello\r\n                           for storage commands: the value, then CR LF
//!
//!   STORED\r\n                          the reply: a line,
//!
//!   VALUE alpha 7 5\r\n                 or for retrieval: a line and a value for each record,
//!   hello\r\n
//!   END\r\n                             and a last line
//! ```
//!
//! A session works on database 0. The first byte of a connection decides between the text protocol,
//! which the files of this folder implement, and the binary protocol ([`binary`]). There is no UDP,
//! and a line of HTTP closes the connection. `docs/commands-memcached.md`, whose tables are
//! generated from `table.rs` and `binary/opcode.rs`, lists the differences from memcached.

#![forbid(unsafe_code)]

mod ahead;
mod answer;
mod authentication;
mod binary;
mod commit;
mod connection;
#[cfg(test)]
mod document;
mod exptime;
mod flow;
mod host;
mod keys;
mod line;
mod meta;
mod meta_flags;
mod meta_set;
mod number;
mod prefixes;
mod range_search;
mod retrieval;
mod server;
mod session;
mod stats;
mod storage;
mod table;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod turn;

pub use connection::MemcachedSession;
pub use host::{Host, PrefixCounts};
pub use prefixes::{PREFIXES_MAX, Prefixes};
pub use table::COMMANDS;
