//! memcached's binary protocol, compatible with memcached 1.6.18.
//!
//! ```text
//!   offset   0        1        2         4        5      6            8         12       16
//!         +--------+--------+---------+--------+------+------------+---------+--------+-------+
//!         | 0x80   | opcode | bytes   | bytes  | 0    | 0          | bytes   | opaque | cas   |
//!         |        |        | of key  | of ext.|      |            | of body |        |       |
//!         +--------+--------+---------+--------+------+------------+---------+--------+-------+
//!           then the body: extras, key, value
//! ```
//!
//! All numbers are big-endian. A response has the same head, with 0x81 in front and the status at
//! offset 6; it repeats opcode and opaque. The extras of a request are what the lines of the text
//! protocol have as words: flags, expiry, numbers.
//!
//! A connection whose first byte is 0x80 speaks this protocol until it ends. Requests become the
//! same commands as those of the text protocol, and are counted in the same rows of statistics.

mod ahead;
mod answer;
mod frame;
mod keys;
mod opcode;
mod request;
mod retrieval;
mod sasl;
mod server;
mod session;
mod status;
mod step;
mod storage;
#[cfg(test)]
mod tests;

pub(super) use frame::{Frame, REQUEST};
#[cfg(test)]
pub(super) use opcode::OPCODES;
pub(super) use session::BinarySession;
