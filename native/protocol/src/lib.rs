//! Doors without doors' hinges: protocols as pure state machines.
//!
//! A session takes bytes and gives bytes. It parses requests into commands, has them executed, and
//! words the replies. It does no I/O, owns no socket and reads no clock: what it needs from the
//! server around it comes through [`Host`].

#![forbid(unsafe_code)]

mod host;
pub mod kyoto;
pub mod memcached;
pub mod resp;
mod session;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod written;

pub use host::*;
pub use session::*;
