//! Observers of a table: every change is reported, in the order of each key.
//!
//! [`Writer`](crate::writer::Writer) and [`Core::clear_locked`] are the only code that changes an
//! index, so they report every change, whatever caused it: commands, transactions, expiry, eviction
//! and clears. A change is reported while its shard is locked (a clear: all shards), so events of
//! one key arrive in the order of its changes, and an event of a clear separates what came before
//! from what came after. Events of different keys have no order.
//!
//! A table without observers pays for a load and a branch per change. The flag is in the cache line
//! of [`Core::snapshot`], which every writer reads in any case.
//!
//! Events do not contain values. An observer would have to copy each value under the lock, and to
//! bound what it keeps by bytes instead of by events; a reader of the table gets the present value,
//! without a copy if it is large.
//!
//! An observer that was added between two operations sees every change of the later one. A
//! transaction that is in progress meanwhile may be observed in part.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::core::Core;
use crate::event::{Event, EventKind, Observer};
use crate::table::Table;

/// Maximum number of observers of a table. Each of them is called for each change.
pub const OBSERVERS_MAX: usize = 32;

/// The table has [`OBSERVERS_MAX`] observers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyObservers;

impl fmt::Display for TooManyObservers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a table has at most {OBSERVERS_MAX} observers")
    }
}

impl std::error::Error for TooManyObservers {}

impl Core {
    /// Whether to report changes.
    #[inline]
    pub(crate) fn is_observed(&self) -> bool {
        // Relaxed: a writer that locks a shard after another thread added an observer and then read
        // that shard sees the flag because of the lock.
        self.observed.load(Relaxed)
    }

    /// Reports a change. The caller holds the lock of the key's shard, or all locks.
    #[cold]
    #[inline(never)]
    pub(crate) fn report(&self, kind: EventKind, key: &[u8], version: u64) {
        if self.muted.load(Relaxed) {
            return;
        }
        let event = Event { kind, key, version };
        self.observers.read().iter().for_each(|observer| observer.observe(&event));
    }
}

impl Table {
    /// Reports no changes from now on, or reports them again. For a durable table whose log is
    /// applied once more: observers have seen the changes. If they have not, the caller reports
    /// that afterwards ([`Table::report_replaced`]).
    pub fn mute(&self, muted: bool) {
        self.shared_core().muted.store(muted, Relaxed);
    }

    /// Reports that any record may have changed ([`EventKind::Swap`]).
    pub fn report_replaced(&self) {
        let core = self.shared_core();
        if core.is_observed() {
            core.report(EventKind::Swap, &[], core.version());
        }
    }

    /// Adds an observer, which sees every later change.
    pub fn observe(&self, observer: Arc<dyn Observer>) -> Result<(), TooManyObservers> {
        let core = self.shared_core();
        let mut observers = core.observers.write();
        if observers.len() >= OBSERVERS_MAX {
            return Err(TooManyObservers);
        }
        observers.push(observer);
        core.observed.store(true, Relaxed);
        Ok(())
    }

    /// Removes an observer, which is no longer called once this returns. False if it does not
    /// observe the table.
    pub fn forget(&self, observer: &Arc<dyn Observer>) -> bool {
        let core = self.shared_core();
        let mut observers = core.observers.write();
        let Some(at) = observers.iter().position(|other| Arc::ptr_eq(other, observer)) else {
            return false;
        };
        let removed = observers.swap_remove(at);
        core.observed.store(!observers.is_empty(), Relaxed);
        drop(observers);
        drop(removed);
        true
    }

    /// Removes all observers and returns them, for another table to adopt.
    pub fn take_observers(&self) -> Vec<Arc<dyn Observer>> {
        let core = self.shared_core();
        let mut observers = core.observers.write();
        core.observed.store(false, Relaxed);
        std::mem::take(&mut observers)
    }

    /// Adds observers that observed another table under the same number until now. Their next event
    /// is [`EventKind::Swap`], and the events of this table follow it.
    pub fn adopt_observers(&self, adopted: Vec<Arc<dyn Observer>>) {
        let core = self.shared_core();
        let mut observers = core.observers.write();
        let event = Event { kind: EventKind::Swap, key: &[], version: core.version() };
        if !core.muted.load(Relaxed) {
            adopted.iter().for_each(|observer| observer.observe(&event));
        }
        observers.extend(adopted);
        core.observed.store(!observers.is_empty(), Relaxed);
    }
}
