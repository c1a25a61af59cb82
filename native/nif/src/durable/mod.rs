//! The groups of the durable databases: their life, and what the processes around the log call.
//!
//! The processes of a group name it by its number (`running.rs`), and one is started in a node. A
//! group outlives the Erlang processes that serve it, as tables do, so a restart of any of them
//! loses nothing.
//!
//! # The gate and loads
//!
//! Ra may restart the server at any time, and then loads the databases anew, in place. Each such
//! load has a number. The process that opens the gate names the load that it knows to be complete,
//! so that it cannot open the gate of a later one by mistake. Readers of records compare the number
//! before and after, so that none takes a record for absent because it is not loaded yet
//! (`todana_group::SharedGate`).
//!
//! A load that has begun also drops the snapshot of what it replaces.

mod clock;
mod digest;
mod log;
mod running;
mod snapshot;

pub(crate) use digest::DIGEST;
pub(crate) use log::{figure_of, gate_of, word_of};
pub(crate) use running::{
    LocalGroup, Numbered, first, for_named_table, homes, named_table, named_tables, of_database,
    withdraw,
};
