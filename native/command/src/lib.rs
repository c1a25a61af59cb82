//! The waist of the hourglass: what the store can do, defined once.
//!
//! The doors (RESP, memcached, Kyoto Tycoon, Erlang) turn bytes or terms into a [`Command`] and
//! implement [`Reply`]; [`execute`] runs a command on a table. There is no protocol below this
//! layer and no storage above it.
//!
//! Each command's meaning is one function, in the file of its subject: `strings`, `numbers`,
//! `look_up`, `counters`, `bits`, `compare`, `keys`, `range`, `expiry`, `lease`, `lcs`. The
//! functions access a table through `Keyspace`, so the same code runs with a lock for each key and
//! inside a [`Batch`].

#![forbid(unsafe_code)]

mod access;
mod batch;
mod bit_operation;
mod bits;
pub mod cause;
mod command;
mod compare;
mod counters;
mod crc64;
mod databases;
mod digits;
mod dispatch;
mod dump;
mod encode;
mod execute;
mod expiry;
mod fields;
mod float;
mod foresight;
mod format;
mod glob;
mod interpreter;
mod keys;
mod lcs;
mod lease;
mod logged;
mod look_up;
mod lzf;
mod numbers;
mod page;
mod pairs;
mod plan;
mod range;
mod record;
mod reply;
mod scope;
mod script;
mod sketch;
mod sketches;
mod slices;
mod slot;
mod strings;
mod tape;
mod target;
mod transaction;
mod value;
mod watch;
mod wire;
mod work;

pub use access::{Access, execute_lease_read};
pub use batch::*;
pub use command::*;
pub use databases::{DATABASES, Databases};
pub use execute::{VALUE_BYTES_MAX, execute, execute_on, prefetch};
pub use fields::{Fields, NotFields};
pub use format::{FORMAT_MAX, FORMAT_MIN};
pub use glob::{Glob, glob};
pub use interpreter::{Interpreter, ScriptCall, ScriptMemory, ScriptRecords, Scripted};
pub use logged::{
    LoggedBatch, admit_logged_batch, decode_batch, encode_batch, execute_logged_batch,
    execute_logged_batch_on, is_batch_logged, is_logged,
};
pub use look_up::{Place, is_key, look_up, take};
pub use numbers::{increment_in_table, parse_signed};
pub use plan::Batch;
pub use reply::*;
pub use sketches::MERGED_KEYS_MAX;
pub use slices::{Begun, STEP_KEYS_MAX, execute_slice};
pub use slot::{SLOTS, slot_of};
pub use strings::{set_in_table, set_lent};
pub use tape::{NullReply, Player, Status, Tape};
pub use todana_table::PREFETCH_KEYS_MAX;
pub use todana_table::{Bound, KeyRange};
pub use transaction::{Check, KeyState, Transaction, Uncommitted, Write, commit, look_up_state};
pub use value::Value;
pub use watch::{LoggedSeen, LoggedWatch, Watch, watch};
pub use wire::{Malformed, Scratch};
pub use work::{
    BATCH_UNITS_MAX, LONG_UNITS, estimated_units, own_units, probable_script_units, probable_units,
    units_of_transaction,
};
