//! Durable tables: readers and the sweeper change nothing, and the log's operations are functions
//! of the table's state.

use todana_table::{
    Abandoned, Access, Budget, Keyspace, Limits, Meta, Options, Seen, Snapshot, Table, Walk,
    Walked, WhenFull,
};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

const NOW_MS: u64 = 1_800_000_000_000;

fn durable(shards: usize) -> Table {
    let options = Options { durable: true, shards: Some(shards), ..Options::default() };
    Table::new(Options { seed: Some(7), ..options })
}

fn put_until(table: &Table, key: &[u8], expires_at_ms: Option<u64>) -> u64 {
    let meta = Meta { expires_at_ms, ..Meta::default() };
    table.update(key, NOW_MS, |record| record.put(&[b"v"], meta)).expect("room")
}

fn put(table: &Table, key: &[u8]) -> u64 {
    put_until(table, key, None)
}

fn remove(table: &Table, key: &[u8]) -> bool {
    table.update(key, NOW_MS, |record| record.remove())
}

fn has(table: &Table, key: &[u8], now_ms: u64) -> bool {
    table.read(key, now_ms, |entry| entry.is_some())
}

/// The keys that each kind of read finds.
fn found(table: &Table, key: &[u8], now_ms: u64) -> [bool; 8] {
    let keys = [key];
    let mut scanned = false;
    table.scan(0, usize::MAX, now_ms, |entry| scanned |= entry.key() == key);
    let walk = Walk { count: 1_000, ..Walk::default() };
    let mut walked = false;
    let _ = table.walk(&walk, now_ms, |entry| walked |= entry.key() == key);
    let mut locked_scan = false;
    let all = table.lock_all(now_ms);
    all.scan(0, usize::MAX, now_ms, |entry| locked_scan |= entry.key() == key);
    drop(all);
    [
        has(table, key, now_ms),
        table.read_in_place(key, now_ms, |entry| entry.is_some()),
        scanned,
        walked,
        (0..100).any(|seed| table.random(seed, now_ms, |it| it.is_some_and(|it| it.key() == key))),
        matches!(table.see(key, now_ms), Seen::Version(_)),
        table.lock(keys, now_ms).read(key, now_ms, |entry| entry.is_some()),
        locked_scan,
    ]
}

#[test]
fn readers_hide_expired_entries_and_the_sweeper_leaves_them() {
    let table = durable(4);
    put_until(&table, b"k", Some(NOW_MS + 10));
    put(&table, b"other");
    assert_eq!(found(&table, b"k", NOW_MS + 9), [true; 8]);
    assert_eq!(found(&table, b"k", NOW_MS + 10), [false; 8]);
    assert_eq!(table.sweep(NOW_MS + 1_000, 1_000), (0, false));
    assert_eq!((table.len(), table.counts().expired), (2, 0));
    assert_eq!(found(&table, b"k", NOW_MS + 9), [true; 8]);
    assert_eq!(table.collect(0..4, NOW_MS + 9), 0);
    assert_eq!(table.collect(0..4, NOW_MS + 10), 1);
    assert_eq!((table.len(), table.counts().expired), (1, 1));
}

#[test]
fn readers_hide_all_entries_once_a_clear_is_due_and_only_the_log_applies_it() {
    for order in [None, Some(Default::default())] {
        let options = Options { durable: true, shards: Some(4), order, ..Options::default() };
        let table = Table::new(options);
        put(&table, b"k");
        table.schedule_clear(NOW_MS + 10);
        assert_eq!(found(&table, b"k", NOW_MS + 9), [true; 8]);
        let before = table.snapshot().expect("the only one");
        assert_eq!([before.is_cleared(NOW_MS + 9), before.is_cleared(NOW_MS + 10)], [false, true]);
        drop(before);
        for _ in 0..2 {
            assert_eq!(found(&table, b"k", NOW_MS + 10), [false; 8]);
            assert_eq!(table.len_at(NOW_MS + 10), 0);
            assert_eq!(table.lock_all(NOW_MS + 10).len_at(NOW_MS + 10), 0);
            assert_eq!(table.sweep(NOW_MS + 10, 10), (0, false));
            assert_eq!(found(&table, b"k", NOW_MS + 9), [true; 8]);
        }
        let after = Walk { after: Some(b"a"), count: 0, ..Walk::default() };
        let stays = Walked::Until(b"a".to_vec());
        assert_eq!(table.walk(&after, NOW_MS + 10, |_| ()), Ok(stays));
        let all = Walk { count: 10, ..Walk::default() };
        assert_eq!(table.walk(&all, NOW_MS + 10, |_| ()), Ok(Walked::End));
        let reverse = Walk { reverse: true, ..all };
        assert_eq!(table.walk(&reverse, NOW_MS + 10, |_| ()).is_err(), order.is_none());
        table.apply_due_clear(NOW_MS + 9);
        assert_eq!(table.len(), 1);
        table.apply_due_clear(NOW_MS + 10);
        assert_eq!(table.len(), 0);
        put(&table, b"k");
        assert_eq!(found(&table, b"k", NOW_MS + 10), [true; 8]);
    }
}

#[test]
fn a_durable_table_has_no_limits() {
    let limits = Limits { entries_max: Some(3), bytes_max: Some(100), ..Limits::default() };
    for when_full in [WhenFull::Evict, WhenFull::Refuse] {
        let limits = Limits { when_full, ..limits };
        let budget = Some(Arc::new(Budget::new(10, when_full)));
        let options = Options { durable: true, limits, budget, ..Options::default() };
        assert_eq!(Table::new(options.clone()).shards(), 4_096);
        let table = Table::new(Options { shards: Some(16), ..options });
        table.set_limits(limits);
        assert!(table.is_durable());
        (0..100u32).for_each(|key| assert!(put(&table, &key.to_le_bytes()) > 0));
        assert_eq!((table.len(), table.is_full()), (100, false));
    }
    assert!(!Table::new(Options::default()).is_durable());
}

#[test]
fn due_shards_are_found_in_parts_and_collected() {
    let table = durable(16);
    for key in 0..1_000u32 {
        let expires_at_ms = (key % 2 == 0).then_some(NOW_MS + 10);
        put_until(&table, &key.to_le_bytes(), expires_at_ms);
    }
    assert_eq!(table.due_shards(NOW_MS + 9, 0, 100), None);
    let (mut from, mut removed, mut ranges) = (0, 0, 0);
    while let Some(shards) = table.due_shards(NOW_MS + 10, from, 100) {
        assert!(shards.start >= from && shards.end > shards.start && shards.end <= 16);
        from = shards.end;
        let here = table.collect(shards, NOW_MS + 10);
        assert!((1..=100).contains(&here), "{here}");
        removed += here;
        ranges += 1;
    }
    assert_eq!((removed, table.len(), table.due_shards(u64::MAX, 0, 100)), (500, 500, None));
    assert!((5..=10).contains(&ranges), "{ranges}");
    // One shard at least, and all of it.
    let table = durable(1);
    (0..1_000u32).for_each(|key| assert!(put_until(&table, &key.to_le_bytes(), Some(NOW_MS)) > 0));
    assert_eq!(table.due_shards(NOW_MS, 0, 0), Some(0..1));
    assert_eq!(table.collect(0..1, NOW_MS), 1_000);
}

#[test]
fn a_key_counts_as_created_by_what_was_removed() {
    let table = durable(4);
    assert!(!table.created_since(b"k", 0));
    let first = put(&table, b"k");
    assert!(table.created_since(b"k", first - 1));
    assert!(!table.created_since(b"k", first));
    assert!(remove(&table, b"k"));
    put(&table, b"other");
    assert!(remove(&table, b"other"));
    assert!(table.created_since(b"k", first - 1));
    assert!(!table.created_since(b"k", first));
    // By a transaction, seen from within.
    {
        let locked = table.lock([&b"k"[..]], NOW_MS);
        let seen = table.version();
        assert!(!locked.created_since(b"k", seen));
        assert!(locked.update(b"k", NOW_MS, |record| record.put(&[b"v"], Meta::default())).is_ok());
        assert!(locked.created_since(b"k", seen));
        assert!(locked.update(b"k", NOW_MS, |record| record.remove()));
        assert!(locked.created_since(b"k", seen));
    }
    // By expiry, collected or not.
    let seen = table.version();
    put_until(&table, b"k", Some(NOW_MS + 1));
    assert!(!has(&table, b"k", NOW_MS + 1));
    assert!(table.created_since(b"k", seen));
    assert_eq!(table.collect(0..4, NOW_MS + 1), 1);
    assert!(table.created_since(b"k", seen));
    // By a clear: all keys, up to the last version.
    let seen = table.version();
    put(&table, b"k");
    table.clear();
    assert!(table.created_since(b"k", seen) && table.created_since(b"never", seen));
    assert!(!table.created_since(b"k", table.version()));
    // Other tables cannot tell.
    assert!(Table::new(Options::default()).created_since(b"k", 0));
}

#[test]
fn an_absence_ends_by_a_creation_before_its_version_is_read() {
    let table = durable(4);
    let Seen::Absent(absence) = table.see(b"k", NOW_MS) else { panic!("absent") };
    put(&table, b"other");
    assert_eq!(absence.until(), Some(table.version()));
    put(&table, b"k");
    assert!(remove(&table, b"k"));
    assert_eq!(absence.until(), None);
}

/// The keys of a snapshot, in order.
fn keys(mut snapshot: Snapshot<'_>) -> Result<Vec<u32>, Abandoned> {
    let mut keys = Vec::new();
    while snapshot.next_part(3, |entry| keys.push(key_of(entry.key())))? {}
    keys.sort_unstable();
    Ok(keys)
}

fn key_of(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("four bytes"))
}

#[test]
fn the_logs_snapshot_abandons_the_users_even_while_that_is_read() {
    for clear in [false, true] {
        let table = durable(4);
        (0..100u32).for_each(|key| assert!(put(&table, &key.to_le_bytes()) > 0));
        let mut users = table.snapshot_owned().expect("the only one");
        assert!(table.has_other_snapshot());
        let mut visited = Vec::new();
        let shard = users.next_part(usize::MAX, |entry| {
            visited.push(key_of(entry.key()));
            if visited.len() == 1 {
                let logs = table.snapshot_for_log();
                assert!(table.snapshot().is_none(), "the log's is not abandoned");
                if clear {
                    table.clear();
                } else {
                    (0..100u32).for_each(|key| assert!(remove(&table, &key.to_le_bytes())));
                }
                // The entries that the user reads must outlive the log's snapshot.
                assert_eq!(keys(logs), Ok((0..100).collect()));
                logs_again(&table);
            }
            assert_eq!(entry.stored().bytes(), b"v");
        });
        assert_eq!(shard, Ok(true));
        assert!(visited.len() > 5);
        assert_eq!(users.next_part(1, |_| panic!("a visit")), Err(Abandoned));
        assert!(table.snapshot().is_none(), "until its owner drops it");
        drop(users);
        assert_eq!(table.counts().kept_bytes, 0);
        assert!(!table.has_other_snapshot());
        assert!(table.snapshot().is_some());
    }
    /// A second one of the log, of the empty table.
    fn logs_again(table: &Table) {
        put(table, &500u32.to_le_bytes());
        let logs = table.snapshot_for_log();
        assert!(remove(table, &500u32.to_le_bytes()));
        assert_eq!(keys(logs), Ok(vec![500]));
    }
}

#[test]
fn a_later_snapshot_of_the_log_abandons_an_earlier_one() {
    let table = durable(4);
    (0..100u32).for_each(|key| assert!(put(&table, &key.to_le_bytes()) > 0));
    let mut first = table.snapshot_for_log();
    assert_eq!(first.next_part(1, |_| ()), Ok(true));
    let second = table.snapshot_for_log();
    assert!(remove(&table, &1u32.to_le_bytes()));
    assert_eq!(first.next_part(1, |_| panic!("a visit")), Err(Abandoned));
    drop(first);
    assert!(table.has_other_snapshot());
    assert_eq!(keys(second), Ok((0..100).collect()));
    assert_eq!(table.counts().kept_bytes, 0);
}

#[test]
fn the_sweeper_releases_what_was_kept_for_an_abandoned_snapshot() {
    let table = durable(8);
    (0..100u32).for_each(|key| assert!(put(&table, &key.to_le_bytes()) > 0));
    let users = table.snapshot_owned().expect("the only one");
    (0..50u32).for_each(|key| assert!(remove(&table, &key.to_le_bytes())));
    drop(table.snapshot_for_log());
    assert!(table.counts().kept_bytes > 0);
    while table.sweep(NOW_MS, 1).1 {}
    assert_eq!(table.counts().kept_bytes, 0);
    drop(users);
    assert_eq!(table.counts().kept_bytes, 0);
}

#[test]
fn a_snapshot_shows_the_marks_of_its_moment() {
    for value in [&[b'v'; 3][..], &[b'v'; 40_000]] {
        let table = durable(1);
        let access = Access { last_s: 5, ..Access::default() };
        let meta = Meta { access: Some(access), ..Meta::default() };
        table.update(b"k", NOW_MS, |record| record.put(&[value], meta)).expect("room");
        let (bytes, version) = (table.bytes(), table.version());
        let stale = |stale| {
            let access = Access { stale, ..access };
            assert!(table.update(b"k", NOW_MS, |record| record.set_access(access)));
        };
        let mut seen = Vec::new();
        let mut snapshot = table.snapshot_for_log();
        stale(true);
        while snapshot.next_part(1, |entry| seen.push(entry.meta())).expect("not abandoned") {}
        drop(snapshot);
        assert_eq!(seen, [meta]);
        stale(false);
        stale(true);
        let now = table.read(b"k", NOW_MS, |entry| entry.map(|it| (it.meta(), it.version())));
        let access = Some(Access { stale: true, ..access });
        assert_eq!(now, Some((Meta { access, ..meta }, version)));
        assert_eq!((table.bytes(), table.counts().kept_bytes), (bytes, 0));
        assert!(!table.update(b"none", NOW_MS, |record| record.set_access(Access::default())));
    }
}

#[test]
fn the_version_of_an_absence_is_read_between_changes_of_its_key() {
    let table = durable(4);
    let Seen::Absent(absence) = table.see(b"k", NOW_MS) else { panic!("absent") };
    let locked = table.lock([&b"k"[..]], NOW_MS);
    let (has_begun, has_ended) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            has_begun.store(true, SeqCst);
            assert_eq!(absence.until(), Some(0));
            has_ended.store(true, SeqCst);
        });
        while !has_begun.load(SeqCst) {
            thread::yield_now();
        }
        // A slow thread makes the test easier to pass, never harder.
        thread::sleep(Duration::from_millis(20));
        let has_ended = has_ended.load(SeqCst);
        drop(locked);
        assert!(!has_ended, "while the key was locked");
    });
}
