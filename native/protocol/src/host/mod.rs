//! The interface of the server to its sessions.
//!
//! It is a set of traits, one for each subject. [`Host`] names those that every protocol needs; the
//! crate of a protocol adds those that it alone uses, and a server implements all of them. No
//! method has a default that does nothing: a host that forgot one would compile and be wrong.

mod authentication;
mod clients;
mod clock;
mod connection;
mod service;
mod statistics;
mod store;
mod work;

pub use authentication::Authentication;
pub use clients::{Client, ClientNames, Clients};
pub use clock::Clock;
pub use connection::{Connection, Splice, Splices};
pub use service::{ProtocolName, Service};
pub use statistics::{CommandStats, Figures, ServerInfo, SlowEntry, Statistics};
pub use store::Store;
pub use work::Work;

/// What every protocol needs of the server. Methods with `&mut self` change the connection, or the
/// counters of its event loop.
pub trait Host: Clock + Store + Connection + Authentication + Statistics {}

impl<H: Clock + Store + Connection + Authentication + Statistics> Host for H {}
