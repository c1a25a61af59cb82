//! The gate: whether records may be read and written, and which load of the records this is.
//!
//! The log may be applied anew at any time, in place: Ra restarts its server in a living node. A
//! reader that has passed the gate just before would then see emptied tables, and take an
//! acknowledged record for absent. It cannot be waited for, since readers take no lock of the
//! group. So each load has a number, and a reader asks for it twice, before it reads and after:
//!
//! ```text
//!  word   number of the load | gate, the lowest 3 bits
//!
//!  reader   word = open, load 7      reads the table (a shard's lock)       word = closed, load 8
//!  loader           word = closed, load 8     empties the table (the same lock)
//! ```
//!
//! If the reader has seen anything of the load, it has taken a lock that the loader released after
//! it changed the word, and so it sees the new word.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, SeqCst},
    fence,
};

use crate::submission::Gate;

const GATE_BITS: u32 = 3;

/// The gate of a group, and the number of loads so far.
#[derive(Debug)]
pub struct SharedGate(AtomicU64);

impl Default for SharedGate {
    fn default() -> SharedGate {
        SharedGate(AtomicU64::new(word(0, Gate::Closed)))
    }
}

impl SharedGate {
    /// Whether records may be read and written.
    #[inline]
    pub fn gate(&self) -> Gate {
        gate_of(self.0.load(SeqCst))
    }

    /// The number of the load whose records may be read; `None` while the gate is closed. To be
    /// asked again after a read: if the answer differs, the reader drops its result.
    #[inline]
    pub fn readable(&self) -> Option<u64> {
        // Orders the look behind the read.
        fence(Acquire);
        let word = self.0.load(SeqCst);
        (gate_of(word) != Gate::Closed).then_some(word >> GATE_BITS)
    }

    /// The number of loads so far.
    pub fn loads(&self) -> u64 {
        self.0.load(SeqCst) >> GATE_BITS
    }

    /// Sets the gate, for whichever load this is, or only for one. False if it is another one.
    pub(crate) fn set(&self, gate: Gate, load: Option<u64>) -> bool {
        let set = |old: u64| {
            let present = old >> GATE_BITS;
            load.is_none_or(|load| load == present).then(|| word(present, gate))
        };
        self.0.fetch_update(SeqCst, SeqCst, set).is_ok()
    }

    /// Closes the gate for the next load, which may begin when this returns.
    pub(crate) fn begin_load(&self) {
        let next = |old: u64| Some(word((old >> GATE_BITS) + 1, Gate::Closed));
        let _ = self.0.fetch_update(SeqCst, SeqCst, next);
        fence(SeqCst);
    }
}

/// Reads records that may be read only in one load, whose number `readable` knows: see
/// [`SharedGate::readable`]. `None` if they cannot be read, or if what was read may be of records
/// that were being replaced.
#[inline]
pub fn read_in_one_load<T>(
    readable: impl Fn() -> Option<u64>,
    read: impl FnOnce() -> T,
) -> Option<T> {
    let load = readable()?;
    let result = read();
    (readable() == Some(load)).then_some(result)
}

fn word(load: u64, gate: Gate) -> u64 {
    load << GATE_BITS | gate as u64
}

#[inline]
fn gate_of(word: u64) -> Gate {
    match word & ((1 << GATE_BITS) - 1) {
        gate if gate == Gate::Open as u64 => Gate::Open,
        gate if gate == Gate::ReadOnly as u64 => Gate::ReadOnly,
        gate if gate == Gate::Removals as u64 => Gate::Removals,
        gate if gate == Gate::Leaderless as u64 => Gate::Leaderless,
        _ => Gate::Closed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_seen_by_readers_that_began_before_it_however_soon_it_ends() {
        let gate = SharedGate::default();
        assert_eq!((gate.gate(), gate.readable()), (Gate::Closed, None));
        assert!(gate.set(Gate::Open, None));
        let before = gate.readable();
        assert!(before.is_some());
        assert!(gate.set(Gate::ReadOnly, Some(0)));
        assert_eq!((gate.gate(), gate.readable()), (Gate::ReadOnly, before));
        for other in [Gate::Leaderless, Gate::Removals] {
            assert!(gate.set(other, Some(0)));
            assert_eq!((gate.gate(), gate.readable()), (other, before));
        }
        gate.begin_load();
        assert_eq!((gate.gate(), gate.readable(), gate.loads()), (Gate::Closed, None, 1));
        assert!(!gate.set(Gate::Open, Some(0)), "another load");
        assert_eq!(gate.gate(), Gate::Closed);
        assert!(gate.set(Gate::Open, Some(1)));
        assert_ne!(gate.readable(), before);
    }

    #[test]
    fn what_is_read_while_a_load_begins_counts_for_nothing() {
        let gate = SharedGate::default();
        let read = |meanwhile: &dyn Fn()| read_in_one_load(|| gate.readable(), meanwhile);
        let set = |to| assert!(gate.set(to, None));
        assert_eq!(read(&|| panic!("the gate is closed")), None);
        for readable in [Gate::Open, Gate::ReadOnly] {
            set(readable);
            assert_eq!(read(&|| ()), Some(()));
            assert_eq!(read(&|| set(Gate::ReadOnly)), Some(()), "the same load");
            assert_eq!(read(&|| gate.begin_load()), None, "a load has begun");
            set(readable);
            let begin_and_end = || {
                gate.begin_load();
                set(readable);
            };
            assert_eq!(read(&begin_and_end), None, "and ended");
            assert_eq!(read(&|| set(Gate::Closed)), None);
        }
    }
}
