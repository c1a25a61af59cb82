//! The group, which outlives the Erlang processes that serve it.

use crate::store::{self, clock_ms};
use parking_lot::{Mutex, RwLock};
use rustler::NifResult;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};
use todana_command::VALUE_BYTES_MAX;
use todana_group::{Clock, Gate, Group, GroupSnapshot, SharedGate, Submit};

/// The group, and what is known about it.
pub(super) struct Running {
    pub(super) group: Arc<Group>,
    pub(super) settings: Settings,
    pub(super) snapshot: Arc<GroupSnapshot>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) value_bytes_max: usize,
    pub(super) queue_bytes_max: usize,
    pub(super) snapshot_log_bytes: Option<u64>,
    pub(super) read_bound_ms: u64,
    /// The number of the other members; `None` if there never are any.
    pub(super) others: Option<usize>,
}

/// Locked only briefly, never while the log is applied or a file is written.
pub(super) static RUNNING: Mutex<Option<Running>> = Mutex::new(None);

/// The same group, for writers of records, who must not wait for each other.
static GROUP: RwLock<Option<Arc<Group>>> = RwLock::new(None);

/// The gate of each group of this node, one after the other; closed while there is none. Readers of
/// records look at it alone.
static GATE: LazyLock<Arc<SharedGate>> = LazyLock::new(Arc::default);

/// The clock of each group of this node, likewise.
static CLOCK: LazyLock<Arc<Clock>> =
    LazyLock::new(|| Arc::new(Clock::new(|| clock_ms(libc::CLOCK_MONOTONIC))));

/// The longest value that the group accepts.
static LONGEST_VALUE_BYTES: AtomicUsize = AtomicUsize::new(VALUE_BYTES_MAX);

/// The group of the durable databases, if this node has a data directory.
pub(crate) fn group() -> Option<Arc<Group>> {
    GROUP.read().clone()
}

/// Its gate.
pub(crate) fn gate() -> Option<Gate> {
    GROUP.read().as_ref().map(|group| group.gate())
}

/// The number of the load whose records may be read, see [`SharedGate::readable`].
#[inline]
pub(crate) fn readable() -> Option<u64> {
    GATE.readable()
}

/// The time of the log, in milliseconds since the Unix epoch. While nobody knows it, and so nothing
/// can be read, the time of day.
pub(crate) fn now_ms() -> u64 {
    CLOCK.now_ms().unwrap_or_else(store::now_ms)
}

/// The same at the kernel's last clock tick, see [`store::tick_ms`].
#[inline]
pub(crate) fn tick_ms() -> u64 {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    return CLOCK.at(clock_ms(libc::CLOCK_MONOTONIC_COARSE)).unwrap_or_else(store::now_ms);
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    return now_ms();
}

/// The longest value of a durable table, in bytes.
#[inline]
pub(crate) fn value_bytes_max() -> usize {
    LONGEST_VALUE_BYTES.load(Relaxed)
}

/// The gate for a new group.
pub(super) fn shared_gate() -> Arc<SharedGate> {
    Arc::clone(&GATE)
}

/// The clock for a new group.
pub(super) fn shared_clock() -> Arc<Clock> {
    Arc::clone(&CLOCK)
}

/// Replaces the group. Called with [`RUNNING`] locked.
pub(super) fn publish(group: Option<Arc<Group>>) {
    let longest = group.as_ref().map_or(VALUE_BYTES_MAX, |group| group.value_bytes_max());
    LONGEST_VALUE_BYTES.store(longest, Relaxed);
    *GROUP.write() = group;
}

/// The group; a bad argument if there is none.
pub(crate) fn the_group() -> NifResult<Arc<Group>> {
    group().ok_or(rustler::Error::BadArg)
}

/// Looks at the group; a bad argument if there is none.
fn with<R>(work: impl FnOnce(&mut Running) -> R) -> NifResult<R> {
    RUNNING.lock().as_mut().map(work).ok_or(rustler::Error::BadArg)
}

/// The group, for a load that begins. Drops the snapshot of what will be replaced.
pub(super) fn group_to_load() -> NifResult<Arc<Group>> {
    let (group, snapshot) = group_and_snapshot()?;
    snapshot.clear();
    Ok(group)
}

/// The group and its snapshot.
pub(super) fn group_and_snapshot() -> NifResult<(Arc<Group>, Arc<GroupSnapshot>)> {
    with(|running| (Arc::clone(&running.group), Arc::clone(&running.snapshot)))
}
