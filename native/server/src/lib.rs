//! The network side: listeners, connections, event loops, limits, statistics.
//!
//! Knows sockets and time, nothing of Erlang, and of protocols only that they are [`todana_protocol::Session`]s.

mod config;
mod server;

pub use config::*;
pub use server::*;
