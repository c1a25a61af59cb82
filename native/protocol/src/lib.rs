//! What the protocols share. Each has a crate of its own: `todana_resp`, `todana_memcached` and
//! `todana_kyoto`.
//!
//! A protocol is a pure state machine, its [`Session`]: it takes bytes and returns bytes. It parses
//! requests into commands, executes them, and formats the replies. It does no I/O, owns no socket
//! and reads no clock: it reaches the server only through the traits of [`Host`], and through those
//! that its crate adds.

#![forbid(unsafe_code)]

mod class;
mod commit;
mod host;
mod limits;
mod options;
mod persistence;
mod promises;
mod session;
mod spelling;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tracking;
mod visit;
mod visits;
mod watching;
mod written;

pub use class::Class;
pub use commit::{Commits, Handover, Log, NotDone, Ran, ReadLevel, Wait};
pub use host::*;
pub use limits::Limits;
pub use options::*;
pub use persistence::*;
pub use promises::{Promise, Promises};
pub use session::*;
pub use spelling::memory_bytes;
pub use tracking::{PendingKind, Tracker, TrackingTable};
pub use visit::{Step, Visit};
pub use visits::{Left, Seat, Visits};
pub use watching::{MakeObserver, Watching};
pub use written::wrapped;
