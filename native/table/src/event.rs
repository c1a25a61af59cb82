//! Changes of a table, as they are reported to observers ([`observers`](crate::observers)).

use std::sync::Arc;

use parking_lot::RwLock;

/// What happened to a key, or to all keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EventKind {
    /// A record was written: its value, or only its expiry or flags.
    Put,
    /// A record was removed by a command.
    Delete,
    /// A record was removed because it had expired.
    Expire,
    /// A record was removed to make room.
    Evict,
    /// All records were removed.
    Clear,
    /// The database has become another table (`SWAPDB`), or changes were not reported for a time
    /// ([`Table::mute`](crate::Table::mute)).
    Swap,
}

impl EventKind {
    /// All kinds.
    pub const ALL: [EventKind; 6] = [
        EventKind::Put,
        EventKind::Delete,
        EventKind::Expire,
        EventKind::Evict,
        EventKind::Clear,
        EventKind::Swap,
    ];

    /// Whether the event is about all keys of the table.
    pub fn concerns_all(self) -> bool {
        matches!(self, EventKind::Clear | EventKind::Swap)
    }
}

/// One change of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// What happened.
    pub kind: EventKind,
    /// The key; empty if the event is about all keys.
    pub key: &'a [u8],
    /// The version of the record that was written or removed; if the event is about all keys, no
    /// record had a higher one.
    pub version: u64,
}

/// Code that is called for every change of a table.
pub trait Observer: Send + Sync {
    /// Reports a change. The caller holds locks of the table: the observer must not call the table,
    /// wait for a thread that does, or panic.
    fn observe(&self, event: &Event<'_>);
}

/// The observers of a table.
pub(crate) type Observers = RwLock<Vec<Arc<dyn Observer>>>;
