//! The protocols as pure state machines.
//!
//! A session takes bytes and returns bytes. It parses requests into commands, executes them, and
//! formats the replies. It does no I/O, owns no socket and reads no clock: it reaches the server
//! only through the traits of [`Host`].

#![forbid(unsafe_code)]

mod class;
mod commit;
mod host;
pub mod kyoto;
mod limits;
pub mod memcached;
mod options;
mod persistence;
pub mod resp;
mod session;
mod spelling;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod written;

pub use class::Class;
pub use commit::{Commits, Handover, Log, NotDone, Ran, ReadLevel, Wait};
pub use host::*;
pub use limits::Limits;
pub use options::*;
pub use persistence::*;
pub use session::*;
pub use spelling::memory_bytes;
pub use written::wrapped;
