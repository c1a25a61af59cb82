//! Many threads on one table: readers see only what was written, and snapshots are points in time.
//!
//! Under ThreadSanitizer (nightly; the standard library must be instrumented too, hence
//! `rust-src`):
//!
//! ```text
//! RUSTFLAGS=-Zsanitizer=thread cargo +nightly test -Zbuild-std --target x86_64-unknown-linux-gnu \
//!     -p todana_table --test threads
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::thread;

use todana_table::{
    Access, Budget, Draft, Edit, Entry, Keyspace, Lent, Limits, LockedKey, Meta, Options, Prepared,
    Shared, Table, WhenFull, reaper, set_pin_release,
};

use together::{Dice, together};

mod together;

const NOW_MS: u64 = 1_800_000_000_000;

/// A value that repeats its key and its stamp in every eight bytes.
fn value_of(key: u64, stamp: u64) -> Vec<u8> {
    let words = if stamp.is_multiple_of(3) { 40 + stamp % 50 } else { 1 + stamp % 20 };
    (0..words).flat_map(|_| (key << 32 | stamp & 0xffff_ffff).to_le_bytes()).collect()
}

/// Panics if key and value do not belong together, or are not from one write.
fn assert_whole(entry: &Entry<'_>) {
    let key = u64::from_le_bytes(entry.key().try_into().expect("8 bytes"));
    let (words, rest) = entry.stored().bytes().as_chunks::<8>();
    assert!(rest.is_empty());
    let first = u64::from_le_bytes(words[0]);
    assert_eq!(first >> 32, key);
    assert!(words.iter().all(|word| u64::from_le_bytes(*word) == first));
    assert_eq!(entry.stored().bytes(), value_of(key, first & 0xffff_ffff));
}

/// Keeps the bytes of a value that is lent.
struct Owner {
    bytes: Box<[u8]>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        // A reader that is not excluded may see it.
        self.bytes.fill(0xff);
    }
}

/// Writes a value that is not copied.
fn write_lent(table: &Table, dice: &mut Dice, keys: u64, now_ms: u64) {
    let (key, stamp) = (dice.roll(keys), dice.roll(1 << 32));
    let owner = Owner { bytes: value_of(key, stamp).into() };
    let bytes: *const [u8] = &raw const *owner.bytes;
    // SAFETY: a boxed slice stays at its address while it is moved, and changes when it is dropped.
    let lent = unsafe { Lent::new(&*bytes, 0, owner) }.expect("memory");
    let key = key.to_le_bytes();
    let _ = table.write_lent(&key, now_ms, lent, true, |record, lent, _| {
        record.entry().iter().for_each(assert_whole);
        record.put_prepared(Prepared::lent(&key, lent, Meta::default())?)
    });
}

fn write(space: &impl Keyspace, dice: &mut Dice, keys: u64, now_ms: u64) {
    let (key, stamp) = (dice.roll(keys), dice.roll(1 << 32));
    let meta = Meta {
        expires_at_ms: stamp.is_multiple_of(7).then_some(now_ms + stamp % 16),
        flags: (stamp % 2) as u32,
        ..Meta::default()
    };
    space.update(&key.to_le_bytes(), now_ms, |record| {
        if let Some(entry) = record.entry() {
            assert_whole(&entry);
        }
        match stamp % 11 {
            0 => drop(record.remove()),
            1 => drop(record.set_meta(meta)),
            _ => drop(record.put(&[&value_of(key, stamp)], meta)),
        }
    });
}

#[test]
fn readers_see_only_complete_writes_during_all_other_operations() {
    const KEYS: u64 = 2_000;
    let budget = Arc::new(Budget::new(150_000, WhenFull::Evict));
    let options = || Options {
        shards: Some(64),
        budget: Some(Arc::clone(&budget)),
        limits: Limits { entries_max: Some(1_500), ..Limits::default() },
        ..Options::default()
    };
    let (table, sibling) = (&Table::new(options()), &Table::new(options()));
    let clock = &AtomicU64::new(NOW_MS);
    let now = || clock.load(SeqCst);
    let read = |dice: &mut Dice| {
        for _ in 0..100 {
            let key = dice.roll(KEYS).to_le_bytes();
            let other = dice.roll(KEYS).to_le_bytes();
            table.prefetch(&[&key, &other]);
            table.read(&key, now(), |entry| entry.iter().for_each(assert_whole));
            table.read_in_place(&key, now(), |entry| entry.iter().for_each(assert_whole));
            let shared = table.read(&key, now(), |entry| entry.and_then(|entry| entry.share()));
            write(table, dice, KEYS, now());
            write_lent(table, dice, KEYS, now());
            shared.iter().for_each(|shared| assert_whole(&shared.entry()));
        }
    };
    let transaction = |dice: &mut Dice| {
        let keys: Vec<[u8; 8]> = (0..KEYS / 500).map(|_| dice.roll(KEYS).to_le_bytes()).collect();
        sibling.prefetch(&[&keys[0], &keys[1]]);
        let locked = table.lock(keys.iter().map(<[u8; 8]>::as_slice), now());
        let beside = sibling.lock_all(now());
        for key in &keys {
            locked.read(key, now(), |entry| entry.iter().for_each(assert_whole));
        }
        write(&beside, dice, KEYS, now());
    };
    let walk = |dice: &mut Dice| {
        let mut cursor = 0;
        loop {
            cursor = table.scan(cursor, 10, now(), |entry| assert_whole(&entry));
            table.random(dice.roll(1 << 20), now(), |entry| entry.iter().for_each(assert_whole));
            if cursor == 0 {
                break;
            }
        }
        clock.fetch_add(1, SeqCst);
        table.sweep(now(), 4);
        match dice.roll(50) {
            0 => drop(table.clear()),
            1 => table.schedule_clear(now() + 2),
            2 => drop(table.lock_all(now()).clear()),
            _ => {}
        }
    };
    let snapshot = |_: &mut Dice| {
        let mut snapshot = table.snapshot().expect("the only one");
        while snapshot.next_part(5, |entry| assert_whole(&entry)) == Ok(true) {}
    };
    together(vec![
        Box::new(read),
        Box::new(read),
        Box::new(transaction),
        Box::new(walk),
        Box::new(snapshot),
        Box::new(|dice| write(sibling, dice, KEYS, now())),
    ]);
    assert_sums(table);
    table.clear();
    sibling.clear();
    assert_eq!((table.bytes(), sibling.bytes(), budget.bytes.load(SeqCst)), (0, 0, 0));
}

static PINS: AtomicI64 = AtomicI64::new(0);

fn make_pin(shared: Shared) -> NonNull<c_void> {
    PINS.fetch_add(1, SeqCst);
    NonNull::from(Box::leak(Box::new(shared))).cast()
}

fn release_pin(pin: *mut c_void) {
    PINS.fetch_sub(1, SeqCst);
    // SAFETY: pins are made by `make_pin`, and released once.
    drop(unsafe { Box::from_raw(pin.cast::<Shared>()) });
}

#[test]
fn in_place_readers_see_only_complete_writes_during_all_other_operations() {
    // Few keys, so that threads collide, and no limit, so that in-place reads take no lock.
    const KEYS: u64 = 24;
    set_pin_release(release_pin);
    let table = &Table::new(Options { shards: Some(8), ..Options::default() });
    let clock = &AtomicU64::new(NOW_MS);
    let now = || clock.load(SeqCst);
    let read = |dice: &mut Dice| {
        let key = dice.roll(KEYS).to_le_bytes();
        for _ in 0..if cfg!(miri) { 20 } else { 100 } {
            table.read_in_place(&key, now(), |entry| {
                let Some(entry) = entry else { return };
                assert_whole(&entry);
                entry.note_access(now());
                if let Some(pin) = entry.pin(make_pin) {
                    assert_eq!(entry.pin(make_pin), Some(pin));
                    // SAFETY: a pin made by `make_pin`, which lives at least until the read ends.
                    let shared = unsafe { pin.cast::<Shared>().as_ref() };
                    assert_eq!(shared.entry().version(), entry.version());
                    assert_whole(&shared.entry());
                }
            });
        }
    };
    let change = |dice: &mut Dice| {
        let (key, stamp) = (dice.roll(KEYS), dice.roll(1 << 32));
        let meta = Meta {
            expires_at_ms: stamp.is_multiple_of(7).then_some(now() + stamp % 16),
            access: Some(Access::default()),
            ..Meta::default()
        };
        table.update(&key.to_le_bytes(), now(), |record| match stamp % 8 {
            0 => drop(record.remove()),
            1 => drop(record.set_access(Access::default())),
            _ => drop(record.put(&[&value_of(key, stamp)], meta)),
        });
        write_lent(table, dice, KEYS, now());
        write_lent(table, dice, KEYS, now());
        thread::yield_now();
    };
    let transaction = |dice: &mut Dice| {
        let names = [(); 4].map(|()| dice.roll(KEYS).to_le_bytes());
        let locked = table.lock(names.iter().map(<[u8; 8]>::as_slice), now());
        for name in &names {
            locked.read(name, now(), |entry| entry.iter().for_each(assert_whole));
            let key = u64::from_le_bytes(*name);
            let value = value_of(key, dice.roll(1 << 32));
            locked
                .update(name, now(), |record| record.put(&[&value], Meta::default()))
                .expect("room");
        }
    };
    let whole = |dice: &mut Dice| {
        let mut snapshot = table.snapshot().expect("the only one");
        while snapshot.next_part(5, |entry| assert_whole(&entry)) == Ok(true) {}
        clock.fetch_add(1, SeqCst);
        table.sweep(now(), 4);
        table.counts();
        let key = dice.roll(KEYS).to_le_bytes();
        table.prefetch(&[&key]);
        table.read(&key, now(), |entry| entry.iter().for_each(assert_whole));
        table.random(dice.roll(99), now(), |entry| entry.iter().for_each(assert_whole));
        match dice.roll(40) {
            0 => drop(table.clear()),
            1 => table.schedule_clear(now() + 2),
            2 => drop(table.lock_all(now()).clear()),
            // For a moment in-place reads take the lock, and writes make room.
            3 => table.set_limits(Limits { entries_max: Some(KEYS / 2), ..Limits::default() }),
            _ => table.set_limits(Limits::default()),
        }
        thread::yield_now();
    };
    together(vec![
        Box::new(read),
        Box::new(read),
        Box::new(read),
        Box::new(change),
        Box::new(transaction),
        Box::new(whole),
    ]);
    assert_sums(table);
    table.clear();
    while reaper::pending_entries() > 0 {
        thread::yield_now();
    }
    assert_eq!(PINS.load(SeqCst), 0);
}

#[test]
fn in_place_readers_see_changes_in_order() {
    // A writer counts up in one key and then in another, so a reader that reads the other key first
    // never sees a higher number there.
    let table = &Table::new(Options { shards: Some(4), ..Options::default() });
    let (first, second) = (&0u64.to_le_bytes(), &1u64.to_le_bytes());
    let count = |key: &[u8; 8], round: u64| {
        let put = |record: &mut todana_table::LockedKey<'_>| {
            record.put(&[&round.to_le_bytes()], Meta::default())
        };
        table.update(key, NOW_MS, put).expect("room");
    };
    count(first, 0);
    count(second, 0);
    let mut round = 0;
    let write = |_: &mut Dice| {
        round += 1;
        count(first, round);
        count(second, round);
        for _ in 0..round % 64 {
            thread::yield_now();
        }
    };
    let look =
        |key: &[u8; 8]| table.read_in_place(key, NOW_MS, |entry| amount(&entry.expect("it stays")));
    let read = |_: &mut Dice| {
        let later = look(second);
        let earlier = look(first);
        assert!(earlier >= later, "{earlier} {later}");
    };
    together(vec![Box::new(read), Box::new(read), Box::new(read), Box::new(write)]);
}

/// The counts match the entries.
fn assert_sums(table: &Table) {
    let (mut entries, mut bytes, mut expiring) = (0, 0, 0);
    table.scan(0, usize::MAX, 0, |entry| {
        entries += 1;
        bytes += entry.bytes() as u64;
        expiring += u64::from(entry.meta().expires_at_ms.is_some());
    });
    let counts = table.counts();
    assert_eq!(
        (counts.entries, counts.bytes, counts.entries_with_expiry),
        (entries, bytes, expiring)
    );
}

const ACCOUNTS: u64 = 200;
const DEPOSIT: u64 = 1_000;

fn amount(entry: &Entry<'_>) -> u64 {
    u64::from_le_bytes(entry.stored().bytes()[..8].try_into().expect("8 bytes"))
}

/// Moves money between two accounts as one step.
fn transfer(table: &Table, dice: &mut Dice) {
    let [from, to] = [dice.roll(ACCOUNTS), dice.roll(ACCOUNTS)].map(u64::to_le_bytes);
    if from == to {
        return;
    }
    let locked = table.lock([&from[..], &to[..]], NOW_MS);
    let balance =
        |key: &[u8]| locked.read(key, NOW_MS, |entry| amount(&entry.expect("an account")));
    let moved = dice.roll(balance(&from) + 1);
    let (left, right) = (balance(&from) - moved, balance(&to) + moved);
    // Some accounts have large entries, so that transfers involve both kinds.
    let padding = vec![0; if dice.roll(2) == 0 { 300 } else { 0 }];
    for (key, amount) in [(from, left), (to, right)] {
        let parts: [&[u8]; 2] = [&amount.to_le_bytes(), &padding];
        locked.update(&key, NOW_MS, |record| record.put(&parts, Meta::default())).expect("room");
    }
}

#[test]
fn a_clear_cancelled_while_a_transaction_applies_it_affects_no_later_operation() {
    let table = &Table::new(Options { shards: Some(4), ..Options::default() });
    let key = &b"key"[..];
    let put = || {
        let put =
            |record: &mut todana_table::LockedKey<'_>| record.put(&[b"value"], Meta::default());
        table.update(key, NOW_MS, put).expect("room");
    };
    let rounds = if cfg!(miri) { 5 } else { 2_000 };
    for _ in 0..rounds {
        put();
        let start = &Barrier::new(2);
        thread::scope(|scope| {
            table.schedule_clear(NOW_MS + 1);
            scope.spawn(|| {
                start.wait();
                let locked = table.lock([key], NOW_MS + 1);
                locked.read(key, NOW_MS + 1, |_| ());
            });
            start.wait();
            table.schedule_clear(u64::MAX);
        });
        put();
        table.schedule_clear(NOW_MS + 1);
        assert!(table.read(key, NOW_MS + 1, |entry| entry.is_none()));
    }
}

#[test]
fn a_snapshot_contains_all_of_a_transaction_or_nothing() {
    let table = &Table::new(Options { shards: Some(64), ..Options::default() });
    for account in 0..ACCOUNTS {
        let put = |record: &mut todana_table::LockedKey<'_>| {
            record.put(&[&DEPOSIT.to_le_bytes()], Meta::default())
        };
        table.update(&account.to_le_bytes(), NOW_MS, put).expect("room");
    }
    let snapshots = AtomicU64::new(0);
    let snapshot = |_: &mut Dice| {
        let mut snapshot = table.snapshot().expect("the only one");
        let mut seen = BTreeMap::new();
        while snapshot.next_part(7, |entry| {
            assert!(seen.insert(entry.key().to_vec(), amount(&entry)).is_none());
        }) == Ok(true)
        {
            thread::yield_now();
        }
        assert_eq!(seen.len() as u64, ACCOUNTS);
        assert_eq!(seen.values().sum::<u64>(), ACCOUNTS * DEPOSIT);
        snapshots.fetch_add(1, SeqCst);
    };
    together(vec![
        Box::new(|dice| transfer(table, dice)),
        Box::new(|dice| transfer(table, dice)),
        Box::new(|dice| transfer(table, dice)),
        Box::new(snapshot),
    ]);
    assert!(snapshots.load(SeqCst) > 0);
}

#[test]
fn a_snapshot_keeps_the_order_of_one_writer() {
    // One writer counts up in key after key, so at any point in time the numbers fall by at most
    // one, once.
    const KEYS: u64 = 100;
    let table = &Table::new(Options { shards: Some(32), ..Options::default() });
    let count = |round: u64| {
        for key in 0..KEYS {
            let put = |record: &mut todana_table::LockedKey<'_>| {
                record.put(&[&round.to_le_bytes()], Meta::default())
            };
            table.update(&key.to_be_bytes(), NOW_MS, put).expect("room");
        }
    };
    count(0);
    let mut round = 0;
    let write = |_: &mut Dice| {
        round += 1;
        count(round);
    };
    let snapshot = |_: &mut Dice| {
        let mut snapshot = table.snapshot().expect("the only one");
        let mut seen = BTreeMap::new();
        while snapshot.next_part(7, |entry| {
            assert!(seen.insert(entry.key().to_vec(), amount(&entry)).is_none());
        }) == Ok(true)
        {}
        let rounds: Vec<u64> = seen.into_values().collect();
        assert_eq!(rounds.len() as u64, KEYS);
        assert!(rounds.is_sorted_by(|a, b| a >= b), "{rounds:?}");
        assert!(rounds[0] - rounds[KEYS as usize - 1] <= 1, "{rounds:?}");
    };
    together(vec![Box::new(write), Box::new(snapshot)]);
}

#[test]
fn a_scan_visits_all_lasting_entries_while_the_table_grows_and_shrinks() {
    const STAYING: u64 = 500;
    let table = &Table::new(Options { shards: Some(16), ..Options::default() });
    let put = |key: u64| {
        let value = value_of(key, key);
        table
            .update(&key.to_le_bytes(), NOW_MS, |record| record.put(&[&value], Meta::default()))
            .expect("room");
    };
    (0..STAYING).for_each(put);
    let passing = STAYING..STAYING + if cfg!(miri) { 500 } else { 20_000 };
    let swell = |_: &mut Dice| {
        passing.clone().for_each(put);
        for key in passing.clone() {
            table.update(&key.to_le_bytes(), NOW_MS, |record| record.remove());
        }
    };
    let scan = |dice: &mut Dice| {
        let mut seen = BTreeSet::new();
        let mut cursor = 0;
        loop {
            cursor = table.scan(cursor, dice.roll(50) as usize, NOW_MS, |entry| {
                assert_whole(&entry);
                seen.insert(entry.key().to_vec());
            });
            if cursor == 0 {
                break;
            }
        }
        assert!((0..STAYING).all(|key| seen.contains(&key.to_le_bytes()[..])));
    };
    let fetch = |dice: &mut Dice| {
        let names = [(); 16].map(|()| dice.roll(passing.end).to_le_bytes());
        let keys = names.each_ref().map(<[u8; 8]>::as_slice);
        table.prefetch(&keys);
        let staying = dice.roll(STAYING).to_le_bytes();
        table.read(&staying, NOW_MS, |entry| assert_whole(&entry.expect("it stays")));
    };
    together(vec![Box::new(swell), Box::new(scan), Box::new(scan), Box::new(fetch)]);
}

/// Words of a large value before an addition, and of each addition.
const BASE_WORDS: usize = 2_100;
const ADDED_WORDS: usize = 16;

fn words(stamp: u64, count: usize) -> Vec<u8> {
    std::iter::repeat_n(stamp.to_le_bytes(), count).flatten().collect()
}

/// Panics if the value was read while it was written. Returns its first word and its length.
fn assert_unmixed(value: &[u8]) -> (u64, usize) {
    let (words, rest) = value.as_chunks::<8>();
    assert!(rest.is_empty());
    let (base, added) = words.split_at(BASE_WORDS);
    for part in std::iter::once(base).chain(added.chunks(ADDED_WORDS)) {
        assert!(part.iter().all(|word| word == &part[0]), "half written");
    }
    (u64::from_le_bytes(words[0]), value.len())
}

#[test]
fn visible_bytes_never_change_while_values_are_shared_and_edited() {
    const KEYS: u64 = 6;
    set_pin_release(release_pin);
    let table = &Table::new(Options { shards: Some(2), ..Options::default() });
    let put_key = |key: u64, stamp: u64| {
        let put =
            |record: &mut LockedKey<'_>| record.put(&[&words(stamp, BASE_WORDS)], Meta::default());
        table.update(&key.to_le_bytes(), NOW_MS, put).expect("room");
    };
    (0..KEYS).for_each(|key| put_key(key, 1));
    let share = |key: &[u8]| {
        table.read(key, NOW_MS, |entry| entry.and_then(|entry| entry.share())).expect("large")
    };
    let edit = |dice: &mut Dice| {
        let (key, stamp) = (dice.roll(KEYS), dice.roll(1 << 40));
        let key_bytes = key.to_le_bytes();
        let (base, added) = (words(stamp, BASE_WORDS), words(stamp, ADDED_WORDS));
        match dice.roll(8) {
            0..=2 => Some(Edit::Write { at: 0, bytes: &base }),
            3..=5 => Some(Edit::Append(&added)),
            6 => {
                let value = share(&dice.roll(KEYS).to_le_bytes());
                let copy =
                    |record: &mut LockedKey<'_>| record.put_same(&value.entry(), Meta::default());
                table.update(&key_bytes, NOW_MS, copy).expect("room");
                None
            }
            _ if dice.roll(20) == 0 => {
                put_key(key, stamp);
                None
            }
            _ => {
                let meta = Meta { flags: stamp as u32, ..Meta::default() };
                table.update(&key_bytes, NOW_MS, |record| record.set_meta(meta));
                None
            }
        }
        .into_iter()
        .for_each(|edit| {
            let edited = |record: &mut LockedKey<'_>, draft: &mut Draft<'_>| {
                record.put_edited(draft, Meta::default()).transpose()
            };
            let version = if dice.roll(4) == 0 {
                table.lock([&key_bytes[..]], NOW_MS).edit(&key_bytes, NOW_MS, edit, edited)
            } else {
                table.edit(&key_bytes, NOW_MS, edit, edited)
            };
            version.expect("room");
        });
    };
    let look = |dice: &mut Dice| {
        let key = dice.roll(KEYS).to_le_bytes();
        table.read_in_place(&key, NOW_MS, |entry| {
            let entry = entry.expect("present");
            assert_unmixed(entry.stored().bytes());
            if dice.roll(10) == 0 {
                entry.pin(make_pin);
            }
        });
        let kept = share(&key);
        let seen = assert_unmixed(&kept);
        thread::yield_now();
        assert_eq!(assert_unmixed(&kept), seen);
    };
    let snapshot = |_: &mut Dice| {
        let mut snapshot = table.snapshot().expect("the only one");
        while snapshot.next_part(1, |entry| {
            let seen = assert_unmixed(entry.stored().bytes());
            thread::yield_now();
            assert_eq!(assert_unmixed(entry.stored().bytes()), seen);
        }) == Ok(true)
        {}
        thread::yield_now();
    };
    together(vec![
        Box::new(edit),
        Box::new(edit),
        Box::new(look),
        Box::new(look),
        Box::new(snapshot),
    ]);
    table.clear();
    assert_eq!(table.bytes(), 0);
}
