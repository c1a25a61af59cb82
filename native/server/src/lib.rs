//! The network side: listeners, connections, event loops, limits, statistics.
//!
//! It knows sockets and time, but nothing of Erlang, and of protocols only that they are
//! [`todana_protocol::Session`]s. Start reading at [`Server::start`], then the module documentation
//! of `event_loop`.

#![deny(unsafe_code)]

mod arena;
mod balance;
mod channels;
mod clients;
mod clients_memory;
mod clock;
mod command_names;
mod commits;
mod config;
mod connection;
mod databases;
mod door;
mod event_loop;
mod figures;
mod frame;
mod guesses;
mod histogram;
mod host;
mod inbox;
mod interest;
mod invalidations;
mod keeper;
mod listener;
mod listening;
mod memory;
mod node_log;
mod notices;
mod operator;
mod options;
mod password;
mod place;
mod poller;
mod questions;
mod responder;
mod selection;
mod sending;
mod server;
mod shared;
mod slow_log;
mod spread;
mod start_error;
mod statistics;
#[cfg(test)]
mod tests;
mod tuning;
mod waiters;
mod work;

pub use config::*;
pub use databases::{DatabaseOptions, DurableDatabases, NotChanged, NumberedDatabases};
pub use figures::{CommandFigures, Figures, Incidents, LoopFigures};
pub use interest::{Announcement, Interest, Item};
pub use keeper::Keeper;
pub use node_log::{Level, Sink, set_log_sink};
pub use options::{NotSet, OptionInfo};
pub use responder::Responder;
pub use selection::{Announced, Change, Selection};
pub use server::*;
pub use spread::{SpreadQueue, spread_messages};
pub use start_error::StartError;
