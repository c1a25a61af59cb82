//! The waist of the hourglass: what the store can do, said once.
//!
//! Doors (RESP, memcached, Erlang, later Kyoto Tycoon) turn bytes or terms into a [`Command`] and implement [`Reply`];
//! [`execute`] carries a command out on a table. No protocol below this line, no storage above it.

mod command;
mod databases;
mod execute;
mod reply;

pub use command::*;
pub use databases::*;
pub use execute::*;
pub use reply::*;
