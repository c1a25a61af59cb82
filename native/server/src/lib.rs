//! The network side: listeners, connections, event loops, limits, statistics.
//!
//! Knows sockets and time, nothing of Erlang, and of protocols only that they are
//! [`todana_protocol::Session`]s. Where to begin: [`Server::start`], then the essay on top of
//! `event_loop.rs`.

#![deny(unsafe_code)]

mod clients;
mod clients_memory;
mod clock;
mod config;
mod connection;
mod door;
mod event_loop;
mod guesses;
mod histogram;
mod host;
mod inbox;
mod listener;
mod memory;
mod options;
mod password;
mod poller;
mod server;
mod slots;
mod slow_log;
mod statistics;
#[cfg(test)]
mod tests;
mod waiters;

pub use config::*;
pub use server::*;
