//! Durable databases: their records change only by a log that is on disk.
//!
//! Clients submit encoded commands ([`Submission`]). A batcher outside this crate seals waiting
//! submissions into one log entry, and a consensus library writes it. When the entry is committed,
//! every replica applies it, and the node where a client is connected delivers the outcome to it
//! ([`Deliver`]). This crate knows neither Erlang nor sockets, nor which library writes the log.

#![forbid(unsafe_code)]

mod apply;
mod batch;
mod clock;
mod collect;
mod digest;
mod figures;
mod flights;
mod following;
mod gate;
mod group;
mod group_snapshot;
mod guest;
mod home;
mod load;
mod origins;
pub mod parcel;
mod queue;
pub mod record;
mod recovery;
mod reports;
mod snapshot;
mod submission;
mod tables;
mod trigger;
mod waiting_reads;
mod wire;

pub use apply::{Applied, Slice};
pub use batch::{BATCH_BYTES_MAX, BATCH_RECORDS_MAX, Newer, VALUE_BYTES_CEILING};
pub use clock::{Clock, Stamp};
pub use digest::Digest;
pub use figures::{Figures, Progress};
pub use following::{Follow, Following};
pub use gate::{SharedGate, read_in_one_load};
pub use group::{Group, GroupOptions, QUEUE_BYTES_MAX, Sealed, Wake};
pub use group_snapshot::{GroupSnapshot, SnapshotProgress};
pub use guest::{Guest, SeatFacts, full_databases};
pub use home::{GROUPS_MAX, GroupNumber, Home, Homes};
pub use origins::ORIGINS_MAX;
pub use parcel::{GUEST_WIRE, ONLY_READS};
pub use queue::{LONG_UNITS_MAX, TooLong, plain_units};
pub use snapshot::{
    Damage, SnapshotError, SnapshotFile, SnapshotInfo, SnapshotRecord, SnapshotSource,
    SnapshotTable,
};
pub use submission::{Deliver, Gate, Outcome, RecordCounts, Submission, Submit, Ticket};
pub use tables::NamedTable;
pub use trigger::{ENTRY_BYTES, SNAPSHOT_LOG_BYTES_MAX, SNAPSHOT_LOG_BYTES_MIN};
pub use waiting_reads::READ_BOUND_MS;
