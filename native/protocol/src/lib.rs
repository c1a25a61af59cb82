//! The protocols as pure state machines.
//!
//! A session takes bytes and returns bytes. It parses requests into commands, executes them, and
//! formats the replies. It does no I/O, owns no socket and reads no clock: it reaches the server
//! only through [`Host`].

#![forbid(unsafe_code)]

mod class;
mod commit;
mod host;
pub mod kyoto;
pub mod memcached;
mod options;
mod persistence;
pub mod resp;
mod session;
mod spelling;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod topic;
mod topology;
mod tracking;
mod written;

pub use commit::{Commits, Handover, Log, NotDone, Ran, ReadLevel, Wait};
pub use host::*;
pub use options::*;
pub use persistence::*;
pub use session::*;
pub use spelling::memory_bytes;
pub use topic::*;
pub use topology::{ClusterNode, Topology};
pub use tracking::Tracking;

/// Names of the commands of a protocol, in the order of their statistics.
pub fn command_names(protocol: ProtocolName) -> &'static [&'static str] {
    match protocol {
        ProtocolName::Resp => resp::COMMANDS,
        ProtocolName::Memcached => memcached::COMMANDS,
        ProtocolName::Kyoto => kyoto::COMMANDS,
    }
}
