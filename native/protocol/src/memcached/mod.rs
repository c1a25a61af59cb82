//! memcached: the text protocol and its meta commands, as memcached 1.6 speaks them.
//!
//! ```text
//!   set alpha 7 60 5\r\n                a line; CR may be missing
//!   hello\r\n                           for storage commands: so many bytes of value, then CR LF
//!
//!   STORED\r\n                          the answer: a line,
//!
//!   VALUE alpha 7 5\r\n                 or for retrieval: a line and a value for each record,
//!   hello\r\n
//!   END\r\n                             and a last line
//! ```
//!
//! A session works on database 0. It speaks neither the binary protocol nor UDP, and it closes on a
//! line of HTTP. Where it differs from memcached is said in `docs/commands-memcached.md`, whose
//! table is made from the one in `table.rs`.

mod ahead;
mod answer;
mod authentication;
#[cfg(test)]
mod document;
mod exptime;
mod keys;
mod line;
mod meta;
mod meta_flags;
mod meta_set;
mod range_search;
mod retrieval;
mod server;
mod session;
mod stats;
mod storage;
mod table;
#[cfg(test)]
mod tests;
mod turn;

pub use session::MemcachedSession;
pub use table::COMMANDS;
