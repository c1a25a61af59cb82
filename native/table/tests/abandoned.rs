//! Snapshots that a limit ends early, and the release of what was kept for them.

use todana_table::{Abandoned, Full, Keyspace, Limits, LockedKey, Meta, Options, Table, WhenFull};

const NOW_MS: u64 = 1_800_000_000_000;
const SHARDS: usize = 16;
const BYTES_MAX: u64 = 100_000;
/// So full that there is room for the pointers of only two or three shards.
const NEARLY: u64 = 96_000;

fn put(table: &Table, key: u32) -> Result<u64, Full> {
    let put = |record: &mut LockedKey<'_>| record.put(&[b"value"], Meta::default());
    table.update(&key.to_le_bytes(), NOW_MS, put)
}

fn remove(table: &Table, key: u32) -> bool {
    table.update(&key.to_le_bytes(), NOW_MS, |record| record.remove())
}

/// A table that refuses writes, with up to this many bytes of entries, and the number of entries.
fn refusing(bytes: u64) -> (Table, u32) {
    let when_full = WhenFull::Refuse;
    let limits = Limits { bytes_max: Some(BYTES_MAX), when_full, ..Limits::default() };
    let table = Table::new(Options { shards: Some(SHARDS), limits, ..Options::default() });
    let full = |key: &u32| table.bytes() >= bytes || put(&table, *key).is_err();
    let entries = (0..).find(full).expect("a limit");
    (table, entries)
}

fn kept(table: &Table) -> u64 {
    table.counts().kept_bytes
}

#[test]
fn the_sweeper_frees_what_a_full_table_keeps_for_an_abandoned_snapshot() {
    for begun in [false, true] {
        let (table, entries) = refusing(NEARLY);
        let mut snapshot = table.snapshot().expect("the only one");
        if begun {
            assert_eq!(snapshot.next_part(1, |_| ()), Ok(true));
        }
        // Each shard is copied before its first change, until there is no room.
        let mut removed = 0;
        while table.bytes() + kept(&table) <= BYTES_MAX {
            assert!(remove(&table, removed));
            removed += 1;
        }
        assert_eq!(put(&table, entries), Err(Full), "because of the kept memory");
        let mut sweeps = 0;
        while table.sweep(NOW_MS, 1).1 {
            sweeps += 1;
        }
        assert!(sweeps >= SHARDS - 1, "one shard at a time");
        assert!(put(&table, entries).is_ok());
        assert_eq!(kept(&table) > 0, begun, "for the shard that the snapshot may be reading");
        assert_eq!(snapshot.next_part(1, |_| panic!("a visit")), Err(Abandoned));
        assert_eq!(kept(&table), 0);
        // The sweeper has nothing else to do about it.
        drop(snapshot);
        assert!(!table.sweep(NOW_MS, 1).1);
    }
}

#[test]
fn a_clear_leaves_room_for_the_snapshot_that_keeps_the_entries() {
    let (table, entries) = refusing(BYTES_MAX);
    let mut snapshot = table.snapshot().expect("the only one");
    assert_eq!(table.clear(), u64::from(entries));
    assert!(kept(&table) <= BYTES_MAX);
    let mut seen = 0;
    while snapshot.next_part(100, |_| seen += 1).expect("it is within the limit") {}
    assert_eq!((seen, kept(&table)), (entries, 0));
}
