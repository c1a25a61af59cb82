//! Kyoto Tycoon: HTTP (TSV-RPC and REST) and the binary protocol on one port, compatible with
//! ktserver 0.9.56.
//!
//! ```text
//!   first byte of a request          protocol
//!   0x00, 0x80 .. 0xff               binary protocol: B8 set_bulk, B9 remove_bulk, BA get_bulk,
//!                                    B4 play_script, B1 replication
//!   anything else                    HTTP: /rpc/NAME is TSV-RPC, any other path is a key
//!
//!   session    chooses the protocol; turns, tasks that take several turns, waiting
//!   |- http    request heads, bodies, responses        access   which requests are accepted
//!   |- rest    GET HEAD PUT DELETE of one key          date     times in REST's form
//!   |- binary  bulk operations, record by record
//!   `- rpc     common parameters, tasks                reading, inputs: the map of inputs
//!      `- procedures   which row calls what            outputs, body_writer: the map of outputs
//!         |- records   set to seize                    columns, url: their encodings
//!         |- bulk      several keys                    numbers  lenient numbers, expiry times
//!         |- cursors   cur_*                           matching, vacuum  match_*, vacuum
//!         `- status    report, status, echo            failure  statuses and their texts
//! ```
//!
//! `docs/commands-kyoto.md` lists the differences from ktserver.

#![forbid(unsafe_code)]

mod access;
mod binary;
mod body_writer;
mod bulk;
mod columns;
mod cursors;
mod database;
mod date;
#[cfg(test)]
mod document;
mod failure;
mod flow;
mod host;
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
mod synchronize;
mod table;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod turn;
mod url;
mod vacuum;
mod walk;

pub use database::{KyotoDatabase, KyotoKind};
pub use host::{Host, Settings, Signals};
pub use session::KyotoSession;
pub use settings::KyotoSettings;
pub use table::COMMANDS;
