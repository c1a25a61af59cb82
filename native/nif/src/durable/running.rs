//! The group, which outlives the Erlang processes that serve it.

use parking_lot::{Mutex, RwLock};
use rustler::NifResult;
use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};
use todana_group::{Gate, Group, SnapshotSource, Submit};

/// The group, and what is known about it.
pub(super) struct Running {
    pub(super) group: Arc<Group>,
    pub(super) settings: Settings,
    /// Number of loads; see `mod.rs`.
    pub(super) load: u64,
    pub(super) snapshot: Slot,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) value_bytes_max: usize,
    pub(super) queue_bytes_max: usize,
    pub(super) snapshot_log_bytes: Option<u64>,
}

/// Locked only briefly, never while the log is applied or a file is written.
pub(super) static RUNNING: Mutex<Option<Running>> = Mutex::new(None);

/// The same group, for readers and writers of records, who must not wait for each other.
static GROUP: RwLock<Option<Arc<Group>>> = RwLock::new(None);

/// The group of the durable databases, if this node has a data directory.
pub(crate) fn group() -> Option<Arc<Group>> {
    GROUP.read().clone()
}

/// Its gate.
#[inline]
pub(crate) fn gate() -> Option<Gate> {
    GROUP.read().as_ref().map(|group| group.gate())
}

/// Replaces the group. Called with [`RUNNING`] locked.
pub(super) fn publish(group: Option<Arc<Group>>) {
    *GROUP.write() = group;
}

/// The group; a bad argument if there is none.
pub(super) fn the_group() -> NifResult<Arc<Group>> {
    group().ok_or(rustler::Error::BadArg)
}

/// Looks at the group; a bad argument if there is none.
pub(super) fn with<R>(work: impl FnOnce(&mut Running) -> R) -> NifResult<R> {
    RUNNING.lock().as_mut().map(work).ok_or(rustler::Error::BadArg)
}

/// Begins a load: closes the gate, and drops the snapshot of what will be replaced.
pub(super) fn begin_load(reason: &str) -> NifResult<Arc<Group>> {
    let (group, dropped) = with(|running| {
        running.load += 1;
        running.group.set_gate(Gate::Closed, reason);
        let dropped = std::mem::replace(&mut running.snapshot, Slot::None);
        (Arc::clone(&running.group), dropped)
    })?;
    drop(dropped);
    Ok(group)
}

/// A handle that nobody writes is dropped after this time.
const UNCLAIMED_AFTER: Duration = Duration::from_secs(10);

/// The snapshot of the group; there is at most one.
pub(super) enum Slot {
    None,
    /// Taken after the entry `index` of the log, and not written yet.
    Taken {
        index: u64,
        source: Box<SnapshotSource>,
        at: Instant,
    },
    /// Between two slices.
    Written {
        index: u64,
        writing: Writing,
        at: Instant,
    },
    /// A thread is writing a slice.
    Busy {
        index: u64,
    },
}

/// A snapshot and its file.
pub(super) struct Writing {
    pub(super) source: Box<SnapshotSource>,
    pub(super) file: File,
}

impl Slot {
    /// The entry of a snapshot that no thread is writing at the moment.
    pub(super) fn index(&self) -> Option<u64> {
        match self {
            Slot::Taken { index, .. } | Slot::Written { index, .. } => Some(*index),
            _ => None,
        }
    }

    /// The handle, if it has waited for too long.
    pub(super) fn take_abandoned(&mut self) -> Option<Slot> {
        let abandoned = match self {
            Slot::Taken { at, .. } | Slot::Written { at, .. } => at.elapsed() > UNCLAIMED_AFTER,
            _ => false,
        };
        abandoned.then(|| std::mem::replace(self, Slot::None))
    }
}
