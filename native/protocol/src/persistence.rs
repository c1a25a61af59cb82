//! What clients learn about the log of durable databases, and what they may ask of it.

use std::sync::Arc;

/// The state of the log and of its snapshots. The figures may be a second old.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Persistence {
    /// The data directory; empty if all records are in memory only.
    pub data_dir: String,
    /// Whether a reply to a write means that the write is on disk. Otherwise it is a second later.
    pub always: bool,
    /// Whether the records are being read from disk.
    pub loading: bool,
    /// How much of it is done.
    pub loading_percent: u64,
    /// Whether the log accepts writes.
    pub writable: bool,
    /// Bytes of log since the last snapshot.
    pub log_bytes: u64,
    /// Bytes of the last snapshot.
    pub snapshot_bytes: u64,
    /// Records that were written to the log since the last snapshot.
    pub changes: u64,
    /// Snapshots that were written since the start.
    pub snapshots: u64,
    /// Whether one is being written.
    pub snapshot_in_progress: bool,
    /// Whether the last one failed.
    pub snapshot_failed: bool,
    /// When the last one was written, in seconds since the Unix epoch; 0 for never.
    pub snapshot_at_s: u64,
    /// How long the last one took, in seconds.
    pub snapshot_seconds: Option<u64>,
    /// Median and 99th percentile of the microseconds from the hand-over of a write to the log to
    /// its execution: with `always`, after its fdatasync.
    pub commit_us: Option<(u64, u64)>,
    /// The same of an fdatasync, unless each write waits for one.
    pub fsync_us: Option<(u64, u64)>,
    /// The highest number of [`Request::Sync`] and of [`Request::WaitedSnapshot`] that is done.
    pub done: u64,
}

impl Persistence {
    /// Whether there are durable databases.
    pub fn is_durable(&self) -> bool {
        !self.data_dir.is_empty()
    }
}

/// What a client asks of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A snapshot.
    Snapshot,
    /// A snapshot; its number becomes [`Persistence::done`].
    WaitedSnapshot,
    /// Everything that was replied to is to be on disk; then its number becomes
    /// [`Persistence::done`].
    Sync,
}

/// The log of durable databases, as clients see it.
pub trait Durability {
    /// The state of the log of durable databases.
    fn persistence(&self) -> Arc<Persistence>;
    /// Passes a request on to the keeper of the log, and returns its number.
    fn request_persistence(&mut self, request: Request) -> u64;
}
