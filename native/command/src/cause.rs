//! Why records change: which command the present thread executes, and for whom.
//!
//! Observers of a table see that a record was written or removed. Some must know more: Redis'
//! keyspace notifications have names that follow the command, and a client may not want to hear of
//! its own writes. While someone listens, each thread notes both; otherwise a command costs a
//! relaxed load.

use crate::{Command, Expires};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Listeners of all servers.
static LISTENERS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static WRITER: Cell<Writer> = const { Cell::new(Writer::Unknown) };
    static NAMES: Cell<Names> = const { Cell::new(Names::UNKNOWN) };
}

/// The party that writes a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// Another node, a timer, or a caller that has no identity.
    Unknown,
    /// A client of this node, by its id.
    Client(u64),
    /// A client of this node whose write went through the log: where it is served, and the number
    /// of the submission.
    Ticket {
        /// Its loop and slot.
        place: (u32, u32),
        /// The number.
        number: u64,
    },
}

/// The class of a change, by the letters of Redis' `notify-keyspace-events`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// `$`: commands on strings.
    String,
    /// `g`: commands on keys of any type.
    Generic,
}

/// The names of the changes that a command makes, as in Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names {
    /// Of a record that is written.
    pub put: &'static [(&'static str, Class)],
    /// Of a record that is removed.
    pub delete: &'static str,
}

const SET: &[(&str, Class)] = &[("set", Class::String)];
const SET_AND_EXPIRE: &[(&str, Class)] = &[("set", Class::String), ("expire", Class::Generic)];
const INCREMENT: &[(&str, Class)] = &[("incrby", Class::String)];
const INCREMENT_FLOAT: &[(&str, Class)] = &[("incrbyfloat", Class::String)];
const APPEND: &[(&str, Class)] = &[("append", Class::String)];
const SET_RANGE: &[(&str, Class)] = &[("setrange", Class::String)];
const SET_BIT: &[(&str, Class)] = &[("setbit", Class::String)];
const ADD_TO_SKETCH: &[(&str, Class)] = &[("pfadd", Class::String)];
const RESTORE: &[(&str, Class)] = &[("restore", Class::Generic)];
const EXPIRE: &[(&str, Class)] = &[("expire", Class::Generic)];
const PERSIST: &[(&str, Class)] = &[("persist", Class::Generic)];
const RENAME: &[(&str, Class)] = &[("rename_to", Class::Generic)];
const COPY: &[(&str, Class)] = &[("copy_to", Class::Generic)];
const MOVE: &[(&str, Class)] = &[("move_to", Class::Generic)];

impl Names {
    /// Whether the command moves a record: it is removed elsewhere after it was written.
    pub fn moves(&self) -> bool {
        self.delete != "del"
    }

    /// Of a change outside of a command.
    const UNKNOWN: Names = Names { put: SET, delete: "del" };

    fn of(command: &Command<'_>) -> Names {
        let stored = |expires: Expires| match expires {
            Expires::Never | Expires::Keep => SET,
            Expires::At(_) | Expires::After(_) | Expires::AfterSecond(_) => SET_AND_EXPIRE,
        };
        let expired = |expires: Expires| if expires == Expires::Never { PERSIST } else { EXPIRE };
        let (put, delete) = match command {
            Command::Set(set) => (stored(set.expires), "del"),
            Command::SetMany { expires, .. }
            | Command::CompareValue { expires, .. }
            | Command::ReplaceIf { expires, .. } => (stored(*expires), "del"),
            Command::Increment(_)
            | Command::IncrementBinary { .. }
            | Command::IncrementFraction { .. } => (INCREMENT, "del"),
            Command::IncrementFloat { .. } => (INCREMENT_FLOAT, "del"),
            Command::Concat { .. } => (APPEND, "del"),
            Command::SetRange { .. } => (SET_RANGE, "del"),
            Command::SetBit { .. } => (SET_BIT, "del"),
            Command::Expire { expires, .. } | Command::GetAndExpire { expires, .. } => {
                (expired(*expires), "del")
            }
            Command::Rename { .. } => (RENAME, "rename_from"),
            Command::Copy { .. } => (COPY, "del"),
            Command::Move { .. } => (MOVE, "move_from"),
            Command::BitFields { .. } => (SET_BIT, "del"),
            Command::AddToSketch { .. } | Command::MergeSketches { .. } => (ADD_TO_SKETCH, "del"),
            Command::Restore { .. } => (RESTORE, "del"),
            Command::BitOperation { .. }
            | Command::Lease { .. }
            | Command::Invalidate { .. }
            | Command::Sweep { .. }
            | Command::Clear { .. }
            | Command::ClearAll { .. }
            | Command::Swap { .. }
            | Command::Delete { .. }
            | Command::DeleteIf { .. }
            | Command::Take { .. }
            | Command::StoreNothing { .. } => (SET, "del"),
            // Its commands have their own names.
            Command::Script(_) => (SET, "del"),
            // They change no record that an observer sees.
            Command::Get { .. }
            | Command::GetMany { .. }
            | Command::Length { .. }
            | Command::GetRange { .. }
            | Command::GetBit { .. }
            | Command::BitCount { .. }
            | Command::BitPosition { .. }
            | Command::Lcs { .. }
            | Command::Dump { .. }
            | Command::CountSketches { .. }
            | Command::Exists { .. }
            | Command::Expiry { .. }
            | Command::MemoryUsage { .. }
            | Command::NoteAccess { .. }
            | Command::Count
            | Command::Scan { .. }
            | Command::Range { .. }
            | Command::Keys { .. }
            | Command::KeysOfSlot { .. }
            | Command::RandomKey { .. } => (SET, "del"),
        };
        Names { put, delete }
    }
}

/// Whether someone wants to know the causes of changes.
#[inline]
pub fn is_listened() -> bool {
    LISTENERS.load(Relaxed) > 0
}

/// Adds a listener, before it observes tables.
pub fn listen() {
    LISTENERS.fetch_add(1, Relaxed);
}

/// Removes a listener.
pub fn end_listening() {
    LISTENERS.fetch_sub(1, Relaxed);
}

/// Notes for whom the present thread executes commands from now on.
#[inline]
pub fn note_writer(writer: Writer) {
    WRITER.set(writer);
}

/// For whom the present thread executes a command.
pub fn writer() -> Writer {
    WRITER.get()
}

/// The names of the changes that the present thread makes.
pub fn names() -> Names {
    NAMES.get()
}

/// The command is executed until this is dropped.
pub(crate) struct Executing(bool);

/// Notes which command the present thread executes, if someone listens.
#[inline]
pub(crate) fn executing(command: &Command<'_>) -> Executing {
    let is_listened = is_listened();
    if is_listened {
        NAMES.set(Names::of(command));
    }
    Executing(is_listened)
}

impl Drop for Executing {
    #[inline]
    fn drop(&mut self) {
        if self.0 {
            NAMES.set(Names::UNKNOWN);
        }
    }
}
