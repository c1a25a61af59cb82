//! Durable databases: their records change only by a log that is on disk.
//!
//! Clients submit encoded commands ([`Submission`]). A batcher outside this crate seals waiting
//! submissions into one log entry, and a consensus library writes it. When the entry is committed,
//! every replica applies it, and the node where a client is connected delivers the outcome to it
//! ([`Deliver`]). This crate knows neither Erlang nor sockets, nor which library writes the log.

mod submission;

pub use submission::{Deliver, Gate, Outcome, Submission, Submit, Ticket};
