//! Room that an operation of several writes reserves before the first write.
//!
//! A table that refuses writes at a limit may refuse any of them, and an operation that found this
//! out halfway could not undo its earlier writes: others may have taken the room meanwhile. So the
//! operation reserves what it may need, under its locks and before it writes. Gauges of reserved
//! room stand beside the gauges of used room, and other writers leave reserved room alone. Each
//! write of the operation turns a part of the reserved room into used room, and the end of the
//! operation returns the rest.
//!
//! If two writers reach for the last bytes, one by a reservation and one by a plain write, both
//! first add and then check the sum of both gauges: at least one of them sees the other, and takes
//! back what it added.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicI64,
    Ordering::{Relaxed, SeqCst},
};

use crate::body::{BODY_BYTES_MIN, capacity_for};
use crate::budget::Budget;
use crate::core::{Change, Core};
use crate::entry;
use crate::eviction::{Refusal, bytes_ceiling};
use crate::limits::{Full, Gauge, WhenFull};
use crate::meta::Meta;

/// The most that an operation of several writes may add to a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    /// Entries.
    pub entries: u64,
    /// Bytes of entries, see [`entry_bytes`].
    pub bytes: u64,
    /// Bytes of the largest entry that is written.
    pub largest_bytes: u64,
}

/// Bytes that an entry of a key and a value of these lengths counts for.
pub fn entry_bytes(key_len: usize, value_len: usize, meta: &Meta) -> u64 {
    entry::bytes_for(key_len, value_len, meta) as u64
}

/// Like [`entry_bytes`], for a value that has grown to this length and may have spare capacity.
pub fn grown_entry_bytes(key_len: usize, value_len: usize, meta: &Meta) -> u64 {
    let room = if value_len >= BODY_BYTES_MIN { usize::MAX } else { 0 };
    entry_bytes(key_len, capacity_for(value_len, room), meta)
}

/// The reserved part of a limit.
#[derive(Debug, Default)]
pub(crate) struct Reserved {
    pub(crate) entries: AtomicI64,
    pub(crate) bytes: AtomicI64,
}

/// The remainder of an operation's own reservation; `None` before it made one.
pub(crate) type Left = Cell<Option<Change>>;

impl Core {
    /// Whether a write of this many bytes may be refused for lack of room: by a table, or a budget,
    /// that refuses writes beyond its limit, or because a large value would go too far beyond a
    /// limit that eviction enforces.
    pub(crate) fn refuses(&self, largest_bytes: u64) -> bool {
        let largest = i64::try_from(largest_bytes).unwrap_or(i64::MAX);
        let evicts_for_all = bytes_ceiling(0, largest) == i64::MAX;
        let own = self.limits.any() && (self.limits.refuse() || !evicts_for_all);
        let shared = |budget: &Arc<Budget>| {
            budget.is_limited() && (budget.when_full() == WhenFull::Refuse || !evicts_for_all)
        };
        own || self.budget.as_ref().is_some_and(shared)
    }

    /// See [`Table::is_full`](crate::Table::is_full).
    pub(crate) fn is_full(&self) -> bool {
        let least = entry::bytes_for(0, 0, &Meta::default()) as i64;
        let lacks = |bytes: i64, max: i64| bytes.saturating_add(least) > max;
        let taken = |bytes: &AtomicI64, kept: &AtomicI64| bytes.load(SeqCst) + kept.load(Relaxed);
        let own = self.limits.any() && self.limits.refuse() && {
            let entries = self.gauges.entries.load(SeqCst);
            entries >= self.limits.entries_max()
                || lacks(taken(&self.gauges.bytes, &self.gauges.kept), self.limits.bytes_max())
        };
        own || self.budget.as_ref().is_some_and(|budget| {
            budget.when_full() == WhenFull::Refuse
                && lacks(taken(&budget.bytes, &budget.kept), budget.bytes_max())
        })
    }

    /// Reserves room or refuses; if it refuses, it requests room. Reserves nothing if the table
    /// refuses no writes for lack of room; it then refuses only an entry that is too large for the
    /// table alone.
    pub(crate) fn reserve(&self, growth: &Growth) -> Result<Change, Full> {
        let reserved = self.reserve_own(growth);
        if reserved.is_err() {
            self.note_refused();
        }
        reserved
    }

    fn reserve_own(&self, growth: &Growth) -> Result<Change, Full> {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX / 4);
        let largest = number(growth.largest_bytes);
        let limits = &self.limits;
        let alone = limits.any() && (largest > limits.bytes_max() || limits.entries_max() == 0);
        if largest > 0 && (alone || self.budget.as_ref().is_some_and(|it| largest > it.bytes_max()))
        {
            return Err(Full);
        }
        if !self.refuses(growth.largest_bytes) {
            return Ok(Change::default());
        }
        let (entries, bytes) = (number(growth.entries), number(growth.bytes));
        let (entries_max, bytes_max) = match (limits.any(), limits.refuse()) {
            (false, _) => (i64::MAX, i64::MAX),
            (true, true) => {
                (limits.entries_max(), limits.bytes_max() - self.gauges.kept.load(Relaxed))
            }
            (true, false) => (i64::MAX, bytes_ceiling(limits.bytes_max(), largest)),
        };
        self.gauges.entries.reserve(&self.reserved.entries, entries, entries_max)?;
        let reserved = self.gauges.bytes.reserve(&self.reserved.bytes, bytes, bytes_max);
        if reserved.is_err() {
            self.reserved.entries.change(-entries);
            self.want_room(Refusal::Own, bytes);
            return Err(Full);
        }
        if let Some(budget) = &self.budget {
            let bytes_max = match budget.when_full() {
                WhenFull::Refuse => budget.bytes_max() - budget.kept.load(Relaxed),
                WhenFull::Evict => bytes_ceiling(budget.bytes_max(), largest),
            };
            if budget.bytes.reserve(&budget.reserved, bytes, bytes_max).is_err() {
                self.reserved.entries.change(-entries);
                self.reserved.bytes.change(-bytes);
                self.want_room(Refusal::Shared, bytes);
                return Err(Full);
            }
        }
        Ok(Change { entries, bytes, expiring: 0 })
    }

    /// Returns a reservation, or a part of it.
    pub(crate) fn release(&self, reserved: Change) {
        self.reserved.entries.change(-reserved.entries);
        self.reserved.bytes.change(-reserved.bytes);
        if let Some(budget) = &self.budget {
            budget.reserved.change(-reserved.bytes);
        }
    }

    /// Accounts for a write of an operation that has `left` reserved. Whatever exceeds the
    /// reservation is charged like other writes.
    pub(crate) fn charge_reserved(
        &self,
        change: Change,
        entry_bytes: i64,
        left: &Left,
    ) -> Result<(), Full> {
        let mut room = left.get().unwrap_or_default();
        let covered = Change {
            entries: change.entries.clamp(0, room.entries),
            bytes: change.bytes.clamp(0, room.bytes),
            expiring: 0,
        };
        let rest = Change {
            entries: change.entries - covered.entries,
            bytes: change.bytes - covered.bytes,
            expiring: change.expiring,
        };
        if rest.entries > 0 || rest.bytes > 0 {
            self.charge(rest, entry_bytes)?;
        } else {
            self.add(rest);
        }
        self.add(covered);
        self.release(covered);
        room.entries -= covered.entries;
        room.bytes -= covered.bytes;
        left.set(Some(room));
        Ok(())
    }
}

/// A gauge of used room, beside one of reserved room.
trait Reserve {
    /// Reserves this amount, unless it would exceed `max` together with what is used.
    fn reserve(&self, reserved: &AtomicI64, amount: i64, max: i64) -> Result<(), Full>;
}

impl Reserve for AtomicI64 {
    fn reserve(&self, reserved: &AtomicI64, amount: i64, max: i64) -> Result<(), Full> {
        let after = reserved.fetch_add(amount, SeqCst).saturating_add(amount);
        if amount > 0 && self.load(SeqCst).saturating_add(after) > max {
            reserved.fetch_sub(amount, SeqCst);
            return Err(Full);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Keyspace, Limits, Options, Slot, Table};

    const NOW_MS: u64 = 1_800_000_000_000;

    fn put(table: &impl Keyspace, key: &[u8], value: &[u8]) -> Result<u64, Full> {
        table.update(key, NOW_MS, |slot: &mut Slot<'_>| slot.put(&[value], Meta::default()))
    }

    fn growth(entries: u64, value_bytes: usize) -> Growth {
        let each = entry_bytes(1, value_bytes, &Meta::default());
        Growth { entries, bytes: entries * each, largest_bytes: each }
    }

    /// Options for tables that hold four entries of a one-byte key and 100 bytes, by their own
    /// limits or by that of a budget, and refuse more.
    fn options() -> [Options; 3] {
        let bytes = growth(4, 100).bytes;
        let when_full = WhenFull::Refuse;
        let limits = Limits { bytes_max: Some(bytes), when_full, ..Limits::default() };
        let few = Limits { entries_max: Some(4), when_full, ..Limits::default() };
        let budget = Some(Arc::new(Budget::new(bytes as i64, when_full)));
        let options = Options { shards: Some(64), seed: Some(7), ..Options::default() };
        [
            Options { limits, ..options.clone() },
            Options { limits: few, ..options.clone() },
            Options { budget, ..options },
        ]
    }

    /// Keys of one byte, each in another shard.
    fn apart(table: &Core) -> impl Iterator<Item = [u8; 1]> {
        let mut seen = std::collections::HashSet::new();
        (0..=u8::MAX).map(|key| [key]).filter(move |key| seen.insert(table.locate(key).1))
    }

    #[test]
    fn a_reservation_that_never_fits_evicts_nothing() {
        let limits = Limits { bytes_max: Some(100_000), ..Limits::default() };
        let core = Core::new(Options { limits, ..Options::default() });
        assert_eq!(core.reserve(&growth(1, 200_000)).err(), Some(Full));
        assert_eq!(core.limits.bytes_aim(), 100_000);
    }

    #[test]
    fn reserved_room_is_not_used_by_others_until_the_operation_ends() {
        for options in options() {
            let core = Core::new(options);
            let table = Table::of(core.clone());
            let keys: Vec<[u8; 1]> = apart(&core).take(5).collect();
            let value = [7; 100];
            let step = table.lock(keys[..3].iter().map(|key| &key[..]), NOW_MS);
            step.reserve(growth(3, 100)).expect("room for four");
            assert_eq!(table.len(), 0, "reserved room is not used yet");
            put(&table, &keys[3], &value).expect("room for one more");
            assert_eq!(put(&table, &keys[4], &value), Err(Full), "the room is reserved");
            for key in &keys[..2] {
                put(&step, key, &value).expect("room that was reserved");
            }
            assert_eq!(put(&table, &keys[4], &value), Err(Full), "the third is still reserved");
            drop(step);
            put(&table, &keys[4], &value).expect("the third was not written");
            assert_eq!(put(&table, &keys[2], &value), Err(Full));
            assert_eq!(table.len(), 4);
        }
    }

    #[test]
    fn a_refused_reservation_leaves_nothing_behind() {
        for table in options().map(Table::new) {
            let step = table.lock([&b"a"[..]], NOW_MS);
            assert_eq!(step.reserve(growth(5, 100)), Err(Full));
            step.reserve(growth(2, 100)).expect("room");
            assert_eq!(step.reserve(growth(5, 100)), Err(Full));
            step.reserve(growth(4, 100)).expect("two are reserved already");
            drop(step);
            for key in [b"a", b"b", b"c", b"d"] {
                assert!(!table.is_full());
                put(&table, key, &[7; 100]).expect("room for four");
            }
            assert!(table.is_full());
            assert_eq!(table.counts().refused, 2);
        }
    }

    #[test]
    fn room_that_a_snapshot_keeps_cannot_be_reserved() {
        let [own, _, shared] = options();
        for options in [own, shared] {
            let table = Table::new(options);
            let max = growth(4, 100).bytes;
            for (key, len) in [(b"a", 100), (b"b", 100), (b"c", 100), (b"d", 80)] {
                put(&table, key, &vec![7; len]).expect("room for four");
            }
            let left = || max - table.bytes() - table.counts().kept_bytes;
            let snapshot = table.snapshot().expect("the only one");
            table.update(b"d", NOW_MS, |slot| slot.remove());
            let reserve = |bytes| {
                let growth = Growth { entries: 1, bytes, largest_bytes: bytes };
                table.lock([&b"d"[..]], NOW_MS).reserve(growth)
            };
            let rest = left();
            assert!(rest < 32 && table.is_full(), "{rest}");
            assert_eq!(reserve(rest + 1), Err(Full));
            reserve(rest).expect("room that is left");
            drop(snapshot);
            assert!(!table.is_full() && left() > rest);
            let rest = left();
            reserve(rest).expect("room that was released");
        }
    }

    #[test]
    fn a_table_that_evicts_refuses_only_what_it_cannot_hold() {
        let bytes = growth(4, 100).bytes;
        let limits = Limits { bytes_max: Some(bytes), ..Limits::default() };
        let table = Table::new(Options { limits, ..Options::default() });
        let step = table.lock([&b"a"[..]], NOW_MS);
        assert!(!step.refuses(1_000) && step.refuses(1 << 20));
        step.reserve(growth(1_000, 100)).expect("room made by eviction");
        assert_eq!(step.reserve(growth(1, 1_000)), Err(Full));
    }

    #[test]
    fn an_entry_counts_for_the_predicted_number_of_bytes() {
        let table = Table::new(Options::default());
        for meta in
            [Meta::default(), Meta { expires_at_ms: Some(NOW_MS + 1), flags: 3, access: None }]
        {
            for (key_len, value_len) in
                [(0, 0), (1, 255), (16, 16), (255, 256), (256, 1), (9, 70_000)]
            {
                let (key, value) = (vec![1; key_len], vec![2; value_len]);
                table.update(&key, NOW_MS, |slot| slot.put(&[&value], meta)).expect("room");
                assert_eq!(table.bytes(), entry_bytes(key_len, value_len, &meta));
                table.update(&key, NOW_MS, |slot| slot.remove());
            }
        }
    }
}
