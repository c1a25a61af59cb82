//! Kyoto Tycoon: HTTP (TSV-RPC and REST) and the binary protocol, on one port, as ktserver 0.9.56
//! speaks them.
//!
//! ```text
//!   first byte of a request          what it is
//!   0x00, 0x80 .. 0xff               binary protocol: B8 set_bulk, B9 remove_bulk, BA get_bulk,
//!                                    B4 play_script, B1 replication
//!   anything else                    HTTP: /rpc/NAME is TSV-RPC, any other path is a key
//!
//!   session    which of them; turns, tasks that take several turns, waiting
//!   |- http    request heads, bodies, responses        access   whom the port answers
//!   |- rest    GET HEAD PUT DELETE of one key          date     times as REST words them
//!   |- binary  bulk operations, record by record
//!   `- rpc     common parameters, tasks                reading, inputs: the map that it takes
//!      `- procedures   which row does what             outputs, writer: the map that it gives
//!         |- records   set to seize                    columns, url: their encodings
//!         |- bulk      several keys                    numbers  lenient numbers, expiry times
//!         |- cursors   cur_*                           matching, vacuum  match_*, vacuum
//!         `- status    report, status, echo            failure  statuses and their words
//! ```
//!
//! Where it differs from ktserver is said in `docs/commands-kyoto.md`.

mod access;
mod binary;
mod body_writer;
mod bulk;
mod columns;
mod cursors;
mod date;
#[cfg(test)]
mod document;
mod failure;
mod http;
mod inputs;
mod levenshtein;
mod matching;
mod numbers;
mod outcome;
mod outputs;
mod procedures;
mod reading;
mod records;
mod regular;
mod rest;
mod rpc;
mod session;
mod settings;
mod sorting;
mod status;
mod table;
#[cfg(test)]
mod tests;
mod turn;
mod url;
mod vacuum;
mod walk;

pub use session::KyotoSession;
pub use settings::{KyotoDatabase, KyotoKind, KyotoSettings};
pub use table::COMMANDS;
