//! The waist of the hourglass: what the store can do, defined once.
//!
//! The doors (RESP, memcached, Kyoto Tycoon, Erlang) turn bytes or terms into a [`Command`] and
//! implement [`Reply`]; [`execute`] runs a command on a table. There is no protocol below this
//! layer and no storage above it.
//!
//! Commands stand in families, one folder each, and each command is one row of its family, which
//! says everything that is asked of it (`family.rs`). Its meaning is one function. The functions
//! access a table through `Keyspace`, so the same code runs with a lock for each key and inside a
//! [`Transaction`].

#![forbid(unsafe_code)]

mod access;
mod bits;
pub mod cause;
mod command;
mod cost;
mod database;
mod database_map;
mod databases;
mod encode;
mod execute;
mod family;
mod foresight;
mod format;
mod key;
mod lease;
mod logged;
mod logged_watch;
mod look_up;
mod numbered;
mod optimistic;
mod place;
mod plan;
mod record;
mod reply;
mod scope;
mod script;
mod sizes;
mod sketch;
mod slice;
mod slot;
mod string;
mod tape;
mod target;
mod terms;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod transaction;
mod value;
mod watch;
mod wire;
mod work;

pub use access::Access;
pub use bits::BitsCommand;
pub use bits::arguments::{BitOperator, Span, Unit};
pub use bits::fields::{Fields, NotFields};
pub use command::*;
pub use database::DatabaseCommand;
pub use database::glob::{Glob, glob};
pub use database_map::DATABASES;
pub use databases::Databases;
pub use execute::{
    VALUE_BYTES_MAX, execute, execute_at, execute_lease_read, execute_on, execute_slice, prefetch,
    set_lent,
};
pub use family::{Brings, Kinds};
pub use format::{FORMAT_MAX, FORMAT_MIN};
pub use key::KeyCommand;
pub use key::arguments::ExpireWhen;
pub use key::records::describe_record;
pub use lease::LeaseCommand;
pub use lease::arguments::LeaseOptions;
pub use logged::{
    LoggedTransaction, admit_logged_transaction, decode_transaction, encode_transaction,
    execute_logged_transaction, is_logged, is_transaction_logged,
};
pub use logged_watch::{LoggedSeen, LoggedWatch};
pub use look_up::{is_key, look_up, take};
pub use optimistic::{
    Check, KeyState, OptimisticCommit, Uncommitted, Write, commit, look_up_state,
};
pub use place::Place;
pub use plan::Transaction;
pub use reply::*;
pub use script::interpreter::{Interpreter, ScriptCall, ScriptMemory, ScriptRecords, Scripted};
pub use script::{Script, ScriptCommand};
pub use sketch::SketchCommand;
pub use sketch::commands::MERGED_KEYS_MAX;
pub use slice::{Begun, STEP_KEYS_MAX};
pub use slot::{SLOTS, slot_of};
pub use string::StringCommand;
pub use string::arguments::{Delta, Increment, Initial, LcsWant, Origin, Set, Side};
pub use string::numbers::{increment_in_table, parse_signed};
pub use string::text::set_in_table;
pub use tape::{NullReply, Player, Status, Tape};
pub use terms::{Condition, Context, Expires};
pub use todana_table::PREFETCH_KEYS_MAX;
pub use todana_table::{Bound, KeyRange, Kind, WrongKind};
pub use transaction::*;
pub use value::Value;
pub use watch::{Watch, watch};
pub use wire::{Malformed, Scratch};
pub use work::{
    LONG_UNITS, TRANSACTION_UNITS_MAX, estimated_units, own_units, probable_script_units,
    probable_units, units_of_optimistic_commit,
};
