//! Versions: unique within their table, and increasing for each key, however a value is written.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use todana_table::{Keyspace, LockedKey, Meta, Options, Table, Written};

const NOW_MS: u64 = 1_800_000_000_000;

/// Writes under the lock; returns the version.
fn set(table: &Table, key: &[u8], value: &[u8]) -> u64 {
    table.update(key, NOW_MS, |record| record.put(&[value], Meta::default())).expect("room")
}

/// Writes over the value if only bytes have to be replaced.
fn write(table: &Table, key: &[u8], value: &[u8]) -> u64 {
    let put = |record: &mut LockedKey<'_>, _| record.put(&[value], Meta::default());
    match table.write(key, NOW_MS, |_| Some(value), put) {
        Written::Over(version) => version,
        Written::Changed(put) => put.expect("room"),
    }
}

#[test]
fn an_entry_takes_longer_and_longer_runs_and_leaves_at_most_half_of_them_unused() {
    let table = Table::new(Options::default());
    let mut last = set(&table, b"key", b"0");
    let mut taken = Vec::new();
    for writes in 2..1_000 {
        let version = write(&table, b"key", b"1");
        assert_eq!(version, last + 1, "nobody else writes");
        last = version;
        assert!(table.version() >= version && table.version() <= 2 * writes + 1);
        taken.push(table.version());
    }
    taken.dedup();
    assert_eq!(taken[..6], [3, 7, 15, 31, 47, 63]);
}

#[test]
fn a_write_that_counts_ends_the_run() {
    let table = Table::new(Options::default());
    for counted in [b"same".as_slice(), b"other size"] {
        let mut versions = HashSet::new();
        for _ in 0..6 {
            assert!(versions.insert(write(&table, b"key", b"over")));
        }
        assert!(versions.insert(set(&table, b"key", counted)));
        for other in 0..40u8 {
            assert!(versions.insert(set(&table, &[other], b"")));
        }
        for _ in 0..40 {
            assert!(versions.insert(write(&table, b"key", counted)), "given twice");
        }
    }
}

#[test]
fn a_durable_table_counts_each_write() {
    let table = Table::new(Options { durable: true, ..Options::default() });
    for writes in 1..100 {
        assert_eq!((write(&table, b"key", b"value"), table.version()), (writes, writes));
    }
}

#[test]
fn a_record_that_is_made_again_has_a_higher_version() {
    let table = Table::new(Options::default());
    let mut last = 0;
    for _ in 0..10 {
        for _ in 0..6 {
            let version = write(&table, b"key", b"over");
            assert!(version > last);
            last = version;
        }
        table.update(b"key", NOW_MS, |record| record.remove());
    }
}

#[test]
fn a_snapshot_keeps_no_value_that_is_younger() {
    let table = Table::new(Options::default());
    for _ in 0..20 {
        write(&table, b"key", b"old");
    }
    let mut snapshot = table.snapshot().expect("none is running");
    write(&table, b"key", b"new");
    let kept_bytes = table.counts().kept_bytes;
    assert!(kept_bytes > 0);
    for _ in 0..100 {
        write(&table, b"key", b"new");
    }
    assert_eq!(table.counts().kept_bytes, kept_bytes);
    while snapshot.next_part(usize::MAX, |entry| assert_eq!(entry.stored().bytes(), b"old"))
        == Ok(true)
    {}
    assert_eq!(table.counts().kept_bytes, 0);
}

#[test]
fn versions_are_unique_and_increase_for_each_key_among_threads_and_snapshots() {
    const KEYS: u64 = 8;
    const WRITES: usize = if cfg!(miri) { 300 } else { 50_000 };
    let table = &Table::new(Options { shards: Some(64), ..Options::default() });
    let write_some = |seed: u64| {
        let mut dice = seed;
        let mut last = [0; KEYS as usize];
        let mut versions = Vec::new();
        for _ in 0..WRITES {
            dice = (dice ^ dice >> 33).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let (key, kind) = ((dice >> 32) % KEYS, (dice >> 40) % 40);
            let name = key.to_le_bytes();
            let version = match kind {
                0 => {
                    table.update(&name, NOW_MS, |record| record.remove());
                    continue;
                }
                1 => set(table, &name, &[1; 20]),
                2..6 => set(table, &name, b"12345678"),
                _ => write(table, &name, b"12345678"),
            };
            assert!(version > std::mem::replace(&mut last[key as usize], version));
            assert!(version <= table.version());
            versions.push(version);
        }
        versions
    };
    let over = &AtomicBool::new(false);
    let take_snapshots = || {
        while !over.load(SeqCst) {
            let mut snapshot = table.snapshot().expect("none is running");
            while snapshot.next_part(1, |_| ()) == Ok(true) {}
            drop(snapshot);
            // Meanwhile writers take runs.
            thread::sleep(Duration::from_millis(2));
        }
    };
    let given: Vec<u64> = thread::scope(|scope| {
        let writers = [1, 2, 3].map(|seed| scope.spawn(move || write_some(seed)));
        scope.spawn(take_snapshots);
        let given = writers.map(|writer| writer.join());
        over.store(true, SeqCst);
        given.into_iter().flat_map(|versions| versions.expect("a writer")).collect()
    });
    let count = given.len();
    assert_eq!(given.into_iter().collect::<HashSet<u64>>().len(), count, "given twice");
}
