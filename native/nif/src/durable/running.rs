//! The groups of this node. They outlive the Erlang processes that serve them.

use crate::time::{self, clock_ms};
use crate::{atoms, erts, guest};
use parking_lot::{Mutex, RwLock};
use rustler::{Decoder, LocalPid, NifResult, Term};
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};
use todana_command::VALUE_BYTES_MAX;
use todana_group::{
    Clock, GROUPS_MAX, Group, GroupNumber, GroupSnapshot, Homes, NamedTable, SharedGate, Submit,
};

/// A group, and what is known about it.
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

/// What this node has of the group with one number, whether it runs or not.
pub(crate) struct LocalGroup {
    /// Locked only briefly, never while the log is applied or a file is written.
    pub(super) running: Mutex<Option<Running>>,
    /// The same group, for writers of records, who must not wait for each other.
    group: RwLock<Option<Arc<Group>>>,
    /// The gate of each group that had this number, one after the other; closed while there is
    /// none. Readers of records look at it alone.
    gate: Arc<SharedGate>,
    /// The clock, likewise.
    clock: Arc<Clock>,
    /// The longest value that the group accepts.
    longest_value_bytes: AtomicUsize,
    /// The process that takes batches.
    pub(super) batcher: Mutex<Option<LocalPid>>,
    /// The process that asks the leader.
    pub(crate) asker: Mutex<Option<LocalPid>>,
}

/// By number. A node of one group uses the first.
static GROUPS: LazyLock<[LocalGroup; GROUPS_MAX]> =
    LazyLock::new(|| std::array::from_fn(|_| LocalGroup::new()));

/// What this node has of a group.
fn local(number: GroupNumber) -> &'static LocalGroup {
    &GROUPS[number.index()]
}

/// What this node has of the group that a node of one group has, and whose state is that of the
/// node.
pub(crate) fn first() -> &'static LocalGroup {
    local(GroupNumber::default())
}

/// The groups that run.
fn groups() -> impl Iterator<Item = (&'static LocalGroup, Arc<Group>)> {
    GROUPS.iter().filter_map(|local| Some((local, local.group()?)))
}

/// Where the durable databases live, if this node has a data directory or is a guest.
pub(crate) fn homes() -> Option<Homes> {
    match first().group() {
        Some(group) => Some(Homes::in_one(group as Arc<dyn Submit>)),
        None => guest::homes(),
    }
}

/// What this node has of the group of a numbered database: of the first one while none runs.
pub(crate) fn of_database(number: usize) -> &'static LocalGroup {
    local(homes().map_or_else(GroupNumber::default, |homes| homes.of_database(number)))
}

/// The named tables of all groups.
pub(crate) fn named_tables() -> Vec<Arc<NamedTable>> {
    groups().flat_map(|(_, group)| group.tables().to_vec()).collect()
}

/// A named table, and what has it.
pub(crate) fn named_table(name: &[u8]) -> Option<(&'static LocalGroup, Arc<NamedTable>)> {
    groups().find_map(|(local, group)| Some((local, group.table(name)?)))
}

/// The group for records about a named table: the one that has it, and for a new one the first.
pub(crate) fn for_named_table(name: &[u8]) -> Option<Arc<Group>> {
    let with_table = named_table(name).and_then(|(local, _)| local.group());
    with_table.or_else(|| first().group())
}

/// Has no group execute what this ticket is for, if it still waits there.
pub(crate) fn withdraw(ticket: todana_group::Ticket) -> bool {
    groups().any(|(_, group)| group.withdraw(ticket))
}

impl LocalGroup {
    fn new() -> LocalGroup {
        LocalGroup {
            running: Mutex::new(None),
            group: RwLock::new(None),
            gate: Arc::default(),
            clock: Arc::new(Clock::new(|| clock_ms(libc::CLOCK_MONOTONIC))),
            longest_value_bytes: AtomicUsize::new(VALUE_BYTES_MAX),
            batcher: Mutex::new(None),
            asker: Mutex::new(None),
        }
    }

    /// The group, if it runs.
    pub(crate) fn group(&self) -> Option<Arc<Group>> {
        self.group.read().clone()
    }

    /// The group; a bad argument if it does not run.
    pub(crate) fn the_group(&self) -> NifResult<Arc<Group>> {
        self.group().ok_or(rustler::Error::BadArg)
    }

    /// Wakes the process that takes batches.
    pub(super) fn wake_batcher(&self) {
        let batcher = *self.batcher.lock();
        if let Some(batcher) = batcher {
            erts::send(batcher, |_| atoms::todana_ready().as_c_arg());
        }
    }

    /// Wakes the process that asks the leader, for a reader.
    pub(crate) fn wake_asker(&self) {
        let asker = *self.asker.lock();
        if let Some(asker) = asker {
            erts::send(asker, |_| atoms::todana_read().as_c_arg());
        }
    }

    /// The number of the load whose records may be read, see [`SharedGate::readable`].
    #[inline]
    pub(crate) fn readable(&self) -> Option<u64> {
        self.gate.readable()
    }

    /// The time of the log, in milliseconds since the Unix epoch. While nobody knows it, and so
    /// nothing can be read, the time of day.
    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.now_ms().unwrap_or_else(time::now_ms)
    }

    /// The same at the kernel's last clock tick, see [`time::tick_ms`].
    #[inline]
    pub(crate) fn tick_ms(&self) -> u64 {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        return self.clock.at(clock_ms(libc::CLOCK_MONOTONIC_COARSE)).unwrap_or_else(time::now_ms);
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        return self.now_ms();
    }

    /// The longest value of its tables, in bytes.
    #[inline]
    pub(crate) fn value_bytes_max(&self) -> usize {
        self.longest_value_bytes.load(Relaxed)
    }

    /// The gate for a new group.
    pub(super) fn shared_gate(&self) -> Arc<SharedGate> {
        Arc::clone(&self.gate)
    }

    /// The clock for a new group.
    pub(super) fn shared_clock(&self) -> Arc<Clock> {
        Arc::clone(&self.clock)
    }

    /// Replaces the group. Called with [`LocalGroup::running`] locked.
    pub(super) fn publish(&self, group: Option<Arc<Group>>) {
        let longest = group.as_ref().map_or(VALUE_BYTES_MAX, |group| group.value_bytes_max());
        self.longest_value_bytes.store(longest, Relaxed);
        *self.group.write() = group;
    }

    /// The group, for a load that begins. Drops the snapshot of what will be replaced.
    pub(super) fn group_to_load(&self) -> NifResult<Arc<Group>> {
        let (group, snapshot) = self.group_and_snapshot()?;
        snapshot.clear();
        Ok(group)
    }

    /// The group and its snapshot; a bad argument if it does not run.
    pub(super) fn group_and_snapshot(&self) -> NifResult<(Arc<Group>, Arc<GroupSnapshot>)> {
        let running = self.running.lock();
        let running = running.as_ref().ok_or(rustler::Error::BadArg)?;
        Ok((Arc::clone(&running.group), Arc::clone(&running.snapshot)))
    }
}

/// The group that a process names by its number; a bad argument if no group can have it.
#[derive(Clone, Copy)]
pub(crate) struct Numbered(&'static LocalGroup);

impl Numbered {
    /// What this node has of it.
    pub(crate) fn local(self) -> &'static LocalGroup {
        self.0
    }
}

impl Deref for Numbered {
    type Target = LocalGroup;

    fn deref(&self) -> &LocalGroup {
        self.0
    }
}

impl<'a> Decoder<'a> for Numbered {
    fn decode(term: Term<'a>) -> NifResult<Numbered> {
        let number = GroupNumber::new(term.decode()?).ok_or(rustler::Error::BadArg)?;
        Ok(Numbered(local(number)))
    }
}
