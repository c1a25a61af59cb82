//! The table: the one place that stores records.
//!
//! A table maps byte-string keys to immutable entries. It knows nothing of protocols, clocks or
//! processes: time is a parameter of every call, in milliseconds since the Unix epoch, and the
//! caller decides what to do with a record while it is being read.
//!
//! ```text
//! Table, Locked          two ways to use a table: a lock for each call, or locks held over several
//!    |                   (Keyspace is what both can do)
//!   Core                 the state of one table: hash, limits, gauges, and 4,096 shards, which the
//!    |                   first write creates
//!   Shard                one cache line: a lock over an index of tagged pointers (Records),
//!    |                   changed by Writer only
//!   EntryBox -> entry    one allocation, written once
//!
//!   Ordered              beside the shards of an ordered table: its keys, sorted, for walks
//! ```
//!
//! Locks: a thread holds at most one shard's lock at a time, except for `Locked` and clearing,
//! which take several in ascending order. A lock holder waits for no other lock (eviction only
//! tries), except that writers of an ordered table take the locks of its order while they hold a
//! shard's. So several tables can be locked one after another in any fixed order.

mod abandonment;
mod absences;
mod allocation;
mod body;
mod budget;
mod clear;
mod copied_keys;
mod copies;
mod core;
mod counts;
mod deadlines;
mod durable;
mod edit;
mod entry;
mod event;
mod event_queue;
mod eviction;
mod expiry;
mod hash;
mod heap;
mod index_hint;
mod keyspace;
mod kind;
mod lent;
mod limits;
mod loader;
mod locked;
mod locked_key;
pub mod malloc;
mod meta;
mod names;
mod observers;
mod options;
mod ordered;
mod overshoot;
mod peak;
mod prefetch;
mod preserved;
mod range;
mod readers;
pub mod reaper;
mod removals;
mod reservation;
mod scan;
mod shard;
mod short;
mod snapshot;
mod state;
mod sync;
mod table;
mod time;
mod walk;
mod writer;

pub use absences::{Absence, Seen};
pub use body::BODY_BYTES_MIN;
pub use budget::{Budget, Padded};
pub use counts::Counts;
pub use edit::{Draft, Edit};
pub use entry::{Entry, PinnedEntry, Shared, set_pin_release};
pub use event::{Event, EventKind, Observer};
pub use event_queue::{EventFilter, EventQueue, Events, KeyFilter, QueueLimits, Queued};
pub use keyspace::Keyspace;
pub use kind::{BLOCK_BYTES_MAX, Kind, Refused, Stored, StoredCopy, WrongKind};
pub use lent::{Lent, lent_bytes_max};
pub use limits::{Full, Limits, WhenFull};
pub use loader::{Loader, Unloadable};
pub use locked::Locked;
pub use locked_key::{Filling, LockedKey, Prepared};
pub use meta::{Access, Meta};
pub use names::{Named, Names};
pub use observers::{OBSERVERS_MAX, TooManyObservers};
pub use options::Options;
pub use peak::Peak;
pub use prefetch::PREFETCH_KEYS_MAX;
pub use range::{Bound, Comparison, KeyOrder, KeyRange, NotOrdered, Walk, Walked};
pub use removals::Removed;
pub use reservation::{Growth, entry_bytes, grown_entry_bytes, shared_entry_bytes};
pub use snapshot::{Abandoned, Snapshot};
pub use state::{OtherTable, TableState, digest_of_entry};
pub use table::{Table, Written};
pub use time::Time;
