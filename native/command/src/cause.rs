//! Why records change: which command the present thread executes, and for whom.
//!
//! Observers of a table see that a record was written or removed. Some must know more: Redis'
//! keyspace notifications have names that follow the command, and a client may not want to hear of
//! its own writes. While someone listens, each thread notes both; otherwise a command costs a
//! relaxed load.

use crate::Expires;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Listeners of all servers.
static LISTENERS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static WRITER: Cell<Writer> = const { Cell::new(Writer::Unknown) };
    static NAMES: Cell<Names> = const { Cell::new(Names::PLAIN) };
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
        /// Its loop and index there.
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

impl Names {
    /// Of a change outside of a command, and of a command whose writes have no name of their own.
    pub(crate) const PLAIN: Names = Names::written(&[("set", Class::String)]);
    /// Of a command that changes no record which an observer sees.
    pub(crate) const NONE: Names = Names::written(&[]);
    pub(crate) const INCREMENT: Names = Names::written(&[("incrby", Class::String)]);
    pub(crate) const INCREMENT_FLOAT: Names = Names::written(&[("incrbyfloat", Class::String)]);
    pub(crate) const APPEND: Names = Names::written(&[("append", Class::String)]);
    pub(crate) const SET_RANGE: Names = Names::written(&[("setrange", Class::String)]);
    pub(crate) const SET_BIT: Names = Names::written(&[("setbit", Class::String)]);
    pub(crate) const ADD_TO_SKETCH: Names = Names::written(&[("pfadd", Class::String)]);
    pub(crate) const RESTORE: Names = Names::written(&[("restore", Class::Generic)]);
    pub(crate) const COPY: Names = Names::written(&[("copy_to", Class::Generic)]);
    pub(crate) const RENAME: Names =
        Names { put: &[("rename_to", Class::Generic)], delete: "rename_from" };
    pub(crate) const MOVE: Names =
        Names { put: &[("move_to", Class::Generic)], delete: "move_from" };

    const fn written(put: &'static [(&'static str, Class)]) -> Names {
        Names { put, delete: "del" }
    }

    /// Of a value that is stored with this expiry.
    pub(crate) fn stored(expires: Expires) -> Names {
        match expires {
            Expires::Never | Expires::Keep => Names::PLAIN,
            Expires::At(_) | Expires::After(_) | Expires::AfterSecond(_) => {
                Names::written(&[("set", Class::String), ("expire", Class::Generic)])
            }
        }
    }

    /// Of a record that gets this expiry.
    pub(crate) fn expiring(expires: Expires) -> Names {
        match expires {
            Expires::Never => Names::written(&[("persist", Class::Generic)]),
            Expires::Keep | Expires::At(_) | Expires::After(_) | Expires::AfterSecond(_) => {
                Names::written(&[("expire", Class::Generic)])
            }
        }
    }

    /// Whether the command moves a record: it is removed elsewhere after it was written.
    pub fn moves(&self) -> bool {
        self.delete != "del"
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

/// Notes the names of the command that the present thread executes, if someone listens.
#[inline]
pub(crate) fn executing(names: impl FnOnce() -> Names) -> Executing {
    let is_listened = is_listened();
    if is_listened {
        NAMES.set(names());
    }
    Executing(is_listened)
}

impl Drop for Executing {
    #[inline]
    fn drop(&mut self) {
        if self.0 {
            NAMES.set(Names::PLAIN);
        }
    }
}
