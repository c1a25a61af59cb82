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
//!
//! Limits may change at any time. A transaction reads them once, when it has its locks
//! ([`LimitsRead`]): it decides by them what to reserve, and its writes are charged by them.
//! Otherwise a limit that was lowered or introduced after the reservation would refuse some of the
//! writes.

use std::cell::Cell;
use std::sync::atomic::{
    AtomicI64,
    Ordering::{Relaxed, SeqCst},
};

use crate::body::{BODY_BYTES_MIN, capacity_for};
use crate::core::{Change, Core};
use crate::entry::{self, VERSION_END};
use crate::lent;
use crate::limits::{Full, Gauge, LimitsRead};
use crate::meta::Meta;
use crate::overshoot::{Refusal, bytes_ceiling};

/// Room is reserved only while a table has this many versions left. Everything that is written
/// between a reservation and the writes that it is for takes far fewer (at a hundred million
/// versions a second it would take 40 seconds), so these writes find versions.
const VERSIONS_LEFT_MIN: u64 = 1 << 32;

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

/// The most that an entry counts for that shares the value of another one, which has this length:
/// the value may have grown, or be lent.
pub fn shared_entry_bytes(key_len: usize, value_len: usize, meta: &Meta) -> u64 {
    let lent = entry::bytes_with_body(key_len, lent::memory_bytes_max(value_len), meta) as u64;
    grown_entry_bytes(key_len, value_len, meta).max(lent)
}

/// The reserved part of a limit.
#[derive(Debug, Default)]
pub(crate) struct Reserved {
    pub(crate) entries: AtomicI64,
    pub(crate) bytes: AtomicI64,
}

/// The limits of a transaction, and what it has reserved and not used; `None` before it reserved.
#[derive(Debug)]
pub(crate) struct ReservedRoom {
    pub(crate) limits: LimitsRead,
    pub(crate) left: Cell<Option<Change>>,
}

impl ReservedRoom {
    pub(crate) fn new(limits: LimitsRead) -> ReservedRoom {
        ReservedRoom { limits, left: Cell::default() }
    }
}

impl LimitsRead {
    /// Whether a write of this many bytes may be refused for lack of room: by a table, or a budget,
    /// that refuses writes beyond its limit, or because a large value would go too far beyond a
    /// limit that eviction enforces, or would exceed it even if the table were empty.
    pub(crate) fn may_refuse(&self, largest_bytes: u64) -> bool {
        let largest = i64::try_from(largest_bytes).unwrap_or(i64::MAX);
        let refuse = self.entries.refuse || self.bytes.refuse || self.shared.refuse;
        refuse || self.any() && (bytes_ceiling(0, largest) != i64::MAX || self.excludes(largest))
    }

    /// Whether an entry of this many bytes finds no room, whatever is evicted.
    fn excludes(&self, entry_bytes: i64) -> bool {
        entry_bytes > 0 && (self.exceeded_alone(entry_bytes) || entry_bytes > self.shared.max)
    }
}

impl Core {
    /// See [`Table::is_full`](crate::Table::is_full).
    pub(crate) fn is_full(&self) -> bool {
        let least = entry::bytes_for(0, 0, &Meta::default()) as i64;
        let lacks = |bytes: i64, max: i64| bytes.saturating_add(least) > max;
        let taken =
            |bytes: &AtomicI64, preserved: &AtomicI64| bytes.load(SeqCst) + preserved.load(Relaxed);
        let LimitsRead { entries, bytes, shared } = self.limits_now();
        let gauges = &self.gauges;
        entries.refuse && gauges.entries.load(SeqCst) >= entries.max
            || bytes.refuse && lacks(taken(&gauges.bytes, &gauges.preserved), bytes.max)
            || shared.refuse
                && self.budget.as_ref().is_some_and(|budget| {
                    lacks(taken(&budget.bytes, &budget.preserved), shared.max)
                })
    }

    /// Reserves room or refuses; if it refuses, it requests room. Reserves nothing if the table
    /// refuses no writes for lack of room; it then refuses only an entry that is too large for the
    /// table alone.
    pub(crate) fn reserve(&self, limits: &LimitsRead, growth: &Growth) -> Result<Change, Full> {
        let reserved = self.reserve_own(limits, growth);
        if reserved.is_err() {
            self.note_refused();
        }
        reserved
    }

    fn reserve_own(&self, limits: &LimitsRead, growth: &Growth) -> Result<Change, Full> {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX / 4);
        let largest = number(growth.largest_bytes);
        if limits.excludes(largest) {
            return Err(Full);
        }
        if largest > 0 && self.version() >= VERSION_END - VERSIONS_LEFT_MIN {
            return Err(Full);
        }
        if !limits.may_refuse(growth.largest_bytes) {
            return Ok(Change::default());
        }
        let (entries, bytes) = (number(growth.entries), number(growth.bytes));
        let entries_max = if limits.entries.refuse { limits.entries.max } else { i64::MAX };
        let bytes_max = match limits.bytes.refuse {
            true => limits.bytes.max - self.gauges.preserved.load(Relaxed),
            false => bytes_ceiling(limits.bytes.max, largest),
        };
        self.gauges.entries.reserve(&self.reserved.entries, entries, entries_max)?;
        let reserved = self.gauges.bytes.reserve(&self.reserved.bytes, bytes, bytes_max);
        if reserved.is_err() {
            self.reserved.entries.change(-entries);
            self.want_room(Refusal::Own, bytes);
            return Err(Full);
        }
        if let Some(budget) = &self.budget {
            let bytes_max = match limits.shared.refuse {
                true => limits.shared.max - budget.preserved.load(Relaxed),
                false => bytes_ceiling(limits.shared.max, largest),
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

    /// Accounts for a write of a transaction. Whatever exceeds its reservation is charged like
    /// other writes, by the limits of the transaction.
    pub(crate) fn charge_reserved(
        &self,
        change: Change,
        entry_bytes: i64,
        room: &ReservedRoom,
    ) -> Result<(), Full> {
        if !room.limits.any() {
            self.add(change);
            return Ok(());
        }
        let Some(mut left) = room.left.get() else {
            return self.charge_noted(&room.limits, change, entry_bytes);
        };
        let covered = Change {
            entries: change.entries.clamp(0, left.entries),
            bytes: change.bytes.clamp(0, left.bytes),
            expiring: 0,
        };
        let rest = Change {
            entries: change.entries - covered.entries,
            bytes: change.bytes - covered.bytes,
            expiring: change.expiring,
        };
        if rest.entries > 0 || rest.bytes > 0 {
            self.charge_noted(&room.limits, rest, entry_bytes)?;
        } else {
            self.add(rest);
        }
        self.add(covered);
        self.release(covered);
        left.entries -= covered.entries;
        left.bytes -= covered.bytes;
        room.left.set(Some(left));
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
    use std::sync::Arc;

    use super::*;
    use crate::budget::Budget;
    use crate::limits::WhenFull;
    use crate::{Keyspace, Limits, LockedKey, Options, Table};

    const NOW_MS: u64 = 1_800_000_000_000;

    fn put(table: &impl Keyspace, key: &[u8], value: &[u8]) -> Result<u64, Full> {
        table
            .update(key, NOW_MS, |record: &mut LockedKey<'_>| record.put(&[value], Meta::default()))
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
        assert_eq!(core.reserve(&core.limits_now(), &growth(1, 200_000)).err(), Some(Full));
        assert_eq!(core.limits.wanted_bytes(), 0);
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

    /// Limits that refuse what a reservation for three entries of 100 bytes was made for.
    fn lowered() -> [Limits; 4] {
        let when_full = WhenFull::Refuse;
        [
            Limits { entries_max: Some(1), when_full, ..Limits::default() },
            Limits { bytes_max: Some(200), when_full, ..Limits::default() },
            Limits { bytes_max: Some(50), ..Limits::default() },
            Limits { entries_max: Some(0), ..Limits::default() },
        ]
    }

    #[test]
    fn a_limit_that_is_lowered_after_a_reservation_refuses_none_of_its_writes() {
        let unlimited = Options { shards: Some(64), seed: Some(7), ..Options::default() };
        for options in options().into_iter().chain([unlimited]) {
            for lowered in lowered() {
                let (core, budget) = (Core::new(options.clone()), options.budget.as_ref());
                let table = Table::of(core.clone());
                let keys: Vec<[u8; 1]> = apart(&core).take(4).collect();
                let step = table.lock(keys[..3].iter().map(|key| &key[..]), NOW_MS);
                step.reserve(growth(3, 100)).expect("room for four");
                table.set_limits(lowered);
                for key in &keys[..3] {
                    put(&step, key, &[7; 100]).expect("room that was reserved");
                }
                step.reserve(growth(1, 100))
                    .expect("the limits of the transaction are the earlier ones");
                step.update(&keys[0], NOW_MS, |record| {
                    let expires = Meta { expires_at_ms: Some(NOW_MS + 1), ..Meta::default() };
                    record.set_meta(expires).expect("it is there").expect("not refused");
                    record
                        .put_moved(crate::Stored::string(&[8; 100]), Meta::default())
                        .expect("not refused");
                });
                assert_eq!((table.len(), table.counts().refused), (3, 0));
                drop(step);
                assert_eq!(core.reserved.entries.load(SeqCst), 0);
                assert_eq!(core.reserved.bytes.load(SeqCst), 0);
                assert_eq!(budget.map_or(0, |budget| budget.reserved.load(SeqCst)), 0);
                assert_eq!(put(&table, &keys[3], &[7; 100]), Err(Full), "{lowered:?}");
            }
        }
    }

    #[test]
    fn a_budget_that_is_lowered_after_a_reservation_refuses_none_of_its_writes() {
        for (when_full, bytes_max) in [(WhenFull::Refuse, 200), (WhenFull::Evict, 50)] {
            for limited in [true, false] {
                let [_, _, options] = options();
                let budget = options.budget.clone().expect("the tables share one");
                if !limited {
                    budget.bytes_max.store(i64::MAX, SeqCst);
                }
                let table = Table::new(options);
                let keys = [b"a", b"b", b"c"];
                let step = table.lock(keys.iter().map(|key| &key[..]), NOW_MS);
                step.reserve(growth(3, 100)).expect("room for four");
                budget.set_when_full(when_full);
                budget.bytes_max.store(bytes_max, SeqCst);
                for key in keys {
                    put(&step, key, &[7; 100]).expect("room that was reserved");
                }
                drop(step);
                assert_eq!(budget.reserved.load(SeqCst), 0);
                assert_eq!(put(&table, b"d", &[7; 100]), Err(Full));
            }
        }
    }

    #[test]
    fn a_reservation_is_refused_before_the_versions_can_end_in_the_middle_of_the_writes() {
        let core = Core::new(Options::default());
        let table = Table::of(core.clone());
        let reserve = |growth| table.lock([&b"a"[..]], NOW_MS).reserve(growth);
        core.set_version(VERSION_END - VERSIONS_LEFT_MIN - 1);
        reserve(growth(1, 1)).expect("enough versions");
        core.set_version(VERSION_END - VERSIONS_LEFT_MIN);
        assert_eq!(reserve(growth(1, 1)), Err(Full));
        reserve(Growth::default()).expect("removals need no versions");
        put(&table, b"a", b"1").expect("a single write may use the last versions");
        core.set_version(VERSION_END - 1);
        assert_eq!(put(&table, b"a", b"2"), Err(Full));
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
            table.update(b"d", NOW_MS, |record| record.remove());
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
        assert!(!step.refuses(bytes) && step.refuses(bytes + 1) && step.refuses(1 << 20));
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
                table.update(&key, NOW_MS, |record| record.put(&[&value], meta)).expect("room");
                assert_eq!(table.bytes(), entry_bytes(key_len, value_len, &meta));
                table.update(&key, NOW_MS, |record| record.remove());
            }
        }
    }
}
