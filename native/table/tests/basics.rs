//! The guarantees of a table, one behaviour at a time.

use std::sync::Arc;

use todana_table::{
    Abandoned, Access, Budget, Full, KeyOrder, Keyspace, Limits, LockedKey, Meta, Options,
    Prepared, Table, Time, WhenFull, Written,
};

const NOW_MS: u64 = 1_800_000_000_000;

fn table() -> Table {
    Table::new(Options { shards: Some(16), seed: Some(1), ..Options::default() })
}

fn set(table: &impl Keyspace, key: &[u8], value: &[u8]) -> u64 {
    set_meta(table, key, value, Meta::default())
}

fn set_meta(table: &impl Keyspace, key: &[u8], value: &[u8], meta: Meta) -> u64 {
    table.update(key, NOW_MS, |record| record.put(&[value], meta)).expect("room")
}

/// Sets one-byte keys.
fn fill(table: &impl Keyspace, keys: std::ops::Range<u8>, value: &[u8]) {
    for key in keys {
        set(table, &[key], value);
    }
}

/// Sets four-byte keys.
fn fill_many(table: &impl Keyspace, keys: std::ops::Range<u32>, value: &[u8]) {
    for key in keys {
        set(table, &key.to_le_bytes(), value);
    }
}

fn get(table: &impl Keyspace, key: &[u8]) -> Option<Vec<u8>> {
    get_at(table, key, NOW_MS)
}

fn get_at(table: &impl Keyspace, key: &[u8], now_ms: u64) -> Option<Vec<u8>> {
    table.read(key, now_ms, |entry| entry.map(|entry| entry.stored().bytes().to_vec()))
}

fn expiring(at_ms: u64) -> Meta {
    Meta { expires_at_ms: Some(at_ms), ..Meta::default() }
}

#[test]
fn keys_and_values_of_every_length_are_returned() {
    let table = table();
    let lengths = [0, 1, 7, 8, 9, 254, 255, 256, 257, 1_000, 65_536, 1_000_000];
    // Interpreters are slow.
    let lengths = if cfg!(miri) { &lengths[..10] } else { &lengths[..] };
    for &key_len in lengths {
        for &value_len in lengths {
            let (key, value) = (vec![b'k'; key_len], vec![b'v'; value_len]);
            set(&table, &key, &value);
            assert_eq!(get(&table, &key).as_deref(), Some(&*value), "{key_len} {value_len}");
        }
    }
    assert_eq!(table.len(), lengths.len() as u64);
}

#[test]
fn every_combination_of_metadata_is_returned() {
    let table = table();
    for value_len in [5, 300] {
        for bits in 0..8 {
            let meta = Meta {
                expires_at_ms: (bits & 1 != 0).then_some(NOW_MS + 1),
                flags: if bits & 2 != 0 { u32::MAX - 1 } else { 0 },
                access: (bits & 4 != 0).then_some(Access {
                    last_s: 77,
                    stale: true,
                    ..Access::default()
                }),
            };
            let version = set_meta(&table, b"key", &vec![9; value_len], meta);
            table.read(b"key", NOW_MS, |entry| {
                let entry = entry.expect("live");
                assert_eq!(entry.key(), b"key");
                assert_eq!(entry.stored().bytes(), vec![9; value_len]);
                assert_eq!(entry.meta(), meta);
                assert_eq!(entry.version(), version);
            });
        }
    }
}

#[test]
fn a_small_entry_takes_one_48_byte_chunk() {
    let table = table();
    set(&table, &[0; 16], &[0; 16]);
    assert_eq!(table.bytes(), 48);
    set(&table, &[0; 16], &[0; 1_000]);
    assert_eq!(table.bytes(), 1_056);
}

#[test]
fn versions_grow_with_every_write() {
    let table = table();
    let versions = [set(&table, b"a", b"1"), set(&table, b"b", b"1"), set(&table, b"a", b"2")];
    assert_eq!(versions, [1, 2, 3]);
    assert_eq!(table.counts().version, 3);
}

#[test]
fn parts_are_concatenated() {
    let table = table();
    table
        .update(b"k", NOW_MS, |record| record.put(&[b"one", b"", b"two"], Meta::default()))
        .unwrap();
    assert_eq!(get(&table, b"k").as_deref(), Some(&b"onetwo"[..]));
}

#[test]
fn an_entry_can_be_prepared_before_its_shard_is_locked() {
    let table = table();
    let meta = Meta { flags: 3, ..Meta::default() };
    for len in [10, 100_000, 100_001] {
        let prepared = Prepared::new(b"k", &[&vec![1; len], b"end"], meta).unwrap();
        assert_eq!(prepared.key(), b"k");
        let version = table.update(b"k", NOW_MS, |record| record.put_prepared(prepared)).unwrap();
        table.read(b"k", NOW_MS, |entry| {
            let entry = entry.unwrap();
            assert_eq!((entry.stored().bytes().len(), entry.version()), (len + 3, version));
        });
    }
}

#[test]
#[should_panic(expected = "prepared for another key")]
fn a_prepared_entry_belongs_to_its_key() {
    let prepared = Prepared::new(b"a", &[], Meta::default()).unwrap();
    let _ = table().update(b"b", NOW_MS, |record| record.put_prepared(prepared));
}

#[test]
fn a_locked_key_shows_its_own_writes() {
    let table = table();
    table.update(b"k", NOW_MS, |record| {
        assert!(record.entry().is_none());
        assert!(!record.remove());
        record.put(&[b"1"], Meta::default()).unwrap();
        assert_eq!(record.entry().unwrap().stored().bytes(), b"1");
        record.set_meta(Meta { flags: 5, ..Meta::default() }).unwrap().unwrap();
        assert_eq!(record.entry().unwrap().meta().flags, 5);
        assert!(record.remove());
        assert!(record.entry().is_none());
        assert!(record.set_meta(Meta::default()).is_none());
        record.put(&[b"2"], Meta::default()).unwrap();
    });
    assert_eq!(get(&table, b"k").as_deref(), Some(&b"2"[..]));
    assert_eq!(table.len(), 1);
}

#[test]
fn access_changes_in_place() {
    let table = table();
    let access = Access { won: true, ..Access::default() };
    let version = set_meta(&table, b"k", b"v", Meta { access: Some(access), ..Meta::default() });
    table.read(b"k", NOW_MS, |entry| entry.unwrap().note_access(NOW_MS));
    let expected = Access { last_s: (NOW_MS / 1_000) as u32, fetched: true, ..access };
    table.update(b"k", NOW_MS, |record| {
        let entry = record.entry().unwrap();
        assert_eq!((entry.meta().access, entry.version()), (Some(expected), version));
        assert!(record.set_access(Access { stale: true, ..expected }));
        assert!(record.entry().unwrap().meta().access.unwrap().stale);
    });
    set(&table, b"plain", b"v");
    assert!(!table.update(b"plain", NOW_MS, |record| record.set_access(access)));
}

#[test]
fn an_entry_expires_on_time_and_not_before() {
    let table = table();
    set_meta(&table, b"k", b"v", expiring(NOW_MS + 10));
    assert!(get_at(&table, b"k", NOW_MS + 9).is_some());
    assert!(get_at(&table, b"k", NOW_MS + 10).is_none());
    assert_eq!(table.scan(0, 10, NOW_MS + 10, |_| panic!("expired")), 0);
    assert!(!table.random(1, NOW_MS + 10, |entry| entry.is_some()));
    assert_eq!(table.len(), 1);
    assert!(table.update(b"k", NOW_MS + 10, |record| record.entry().is_none()));
    assert_eq!((table.len(), table.bytes(), table.counts().expired), (0, 0, 1));
}

#[test]
fn a_sweep_does_bounded_work_and_continues_where_it_ended() {
    let table = table();
    for key in 0..1_000u32 {
        set_meta(&table, &key.to_le_bytes(), b"v", expiring(NOW_MS + 1 + u64::from(key % 2)));
    }
    assert_eq!(table.sweep(NOW_MS, 0), (0, false));
    assert_eq!(table.sweep(NOW_MS + 1, 1), (1, true));
    assert_eq!(table.sweep(NOW_MS + 1, 100), (100, true));
    assert_eq!(table.sweep(NOW_MS + 1, 10_000), (399, false));
    assert_eq!(table.sweep(NOW_MS + 1, 100), (0, false));
    assert_eq!(table.sweep(NOW_MS + 2, 500), (500, false));
    let counts = table.counts();
    assert_eq!((counts.entries, counts.entries_with_expiry, counts.bytes), (0, 0, 0));
    assert_eq!(counts.expired, 1_000);
}

#[test]
fn a_table_is_at_rest_while_a_sweep_has_nothing_to_do_now_or_later() {
    let table = table();
    assert!(table.is_at_rest());
    set(&table, b"k", b"v");
    assert!(table.is_at_rest());
    set_meta(&table, b"expires", b"v", expiring(NOW_MS + 1));
    assert!(!table.is_at_rest());
    table.sweep(NOW_MS + 1, 10);
    assert!(table.is_at_rest());
    table.schedule_clear(NOW_MS + 5);
    assert!(!table.is_at_rest());
    table.sweep(NOW_MS + 5, 10);
    assert!(table.is_at_rest() && table.is_empty());

    // A lowered limit leaves entries that the sweeper evicts.
    let limits = |max| Limits { entries_max: Some(max), ..Limits::default() };
    let options = Options { shards: Some(16), limits: limits(1_000), ..Options::default() };
    let limited = Table::new(options);
    fill_many(&limited, 0..900, b"v");
    assert!(limited.is_at_rest());
    limited.set_limits(limits(10));
    assert!(!limited.is_at_rest());
    while limited.sweep(NOW_MS, 100).1 {}
    assert!(limited.is_at_rest());
}

#[test]
fn the_cost_of_a_sweep_does_not_depend_on_the_number_of_entries() {
    for others in [0, 10_000u32] {
        let table = Table::new(Options { shards: Some(4), ..Options::default() });
        for key in 0..others {
            let later = expiring(NOW_MS + 1_000_000 + u64::from(key));
            let meta = if key % 2 == 0 { later } else { Meta::default() };
            set_meta(&table, &key.to_be_bytes(), b"v", meta);
        }
        for key in 0..10u8 {
            set_meta(&table, &[key], b"v", expiring(NOW_MS + 1));
        }
        assert_eq!(table.sweep(NOW_MS + 1, 10), (10, false), "beside {others}");
    }
}

#[test]
fn a_key_that_is_rewritten_repeatedly_has_one_deadline() {
    let table = table();
    for after in 0..1_000 {
        set_meta(&table, b"session", b"v", expiring(NOW_MS + 1_000 + after));
    }
    // Its first deadline has passed, and it is still alive.
    assert_eq!(table.sweep(NOW_MS + 1_000, 1), (0, false));
    assert_eq!(table.sweep(NOW_MS + 1_998, 1), (0, false));
    assert_eq!(table.sweep(NOW_MS + 1_999, 1), (1, false));
}

#[test]
fn an_entry_that_expires_in_years_lives_until_then() {
    const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
    let table = table();
    let times = [1, 30, 50, 400, 4_000].map(|days| NOW_MS + days * DAY_MS);
    for at_ms in times {
        set_meta(&table, &at_ms.to_le_bytes(), b"v", expiring(at_ms));
    }
    let mut now_ms = NOW_MS;
    while now_ms < NOW_MS + 4_001 * DAY_MS {
        assert!(!table.sweep(now_ms, 100).1);
        let live = times.iter().filter(|&&at_ms| at_ms > now_ms).count();
        assert_eq!(table.len(), live as u64);
        now_ms += 7 * DAY_MS + 1;
    }
}

#[test]
fn deadlines_without_an_entry_do_not_pile_up() {
    let table = Table::new(Options { shards: Some(4), ..Options::default() });
    let bytes = || table.counts().index_bytes;
    let churn = |from: u64| {
        for round in from..from + 50 {
            for key in 0..100u8 {
                // Removed and created again, or set to expire earlier than before.
                if key % 2 == 0 {
                    table.update(&[key], NOW_MS, |record| record.remove());
                }
                set_meta(&table, &[key], b"v", expiring(NOW_MS + 1_000_000 - round));
            }
        }
    };
    churn(0);
    let before = bytes();
    churn(50);
    churn(100);
    // 10,000 more deadlines of seven bytes. In each shard there remain about 64 beyond two for each
    // entry, or fewer if others were just dropped.
    assert!(bytes() < before + 5_000, "{before} {}", bytes());
    assert_eq!(table.sweep(NOW_MS + 1_000_000, 1_000), (100, false));
}

#[test]
fn memory_kept_for_a_snapshot_is_counted_until_it_is_freed() {
    let table = Table::new(Options { shards: Some(16), ..Options::default() });
    fill_many(&table, 0..1_000, b"old");
    let (bytes, kept) = (table.bytes(), || table.counts().kept_bytes);
    let snapshot = table.snapshot().unwrap();
    assert_eq!(kept(), 0);
    fill_many(&table, 0..1_000, b"new");
    // In addition, a pointer for each entry.
    assert_eq!((table.bytes(), kept()), (bytes, bytes + 8 * 1_000));
    fill_many(&table, 0..1_000, b"newer");
    assert_eq!(kept(), bytes + 8 * 1_000);
    drop(snapshot);
    assert_eq!(kept(), 0);
    let mut snapshot = table.snapshot().unwrap();
    table.clear();
    assert_eq!(kept(), bytes);
    fill_many(&table, 0..10, b"v");
    table.clear();
    assert_eq!(kept(), bytes);
    while snapshot.next_part(10, |_| ()).unwrap() {}
    assert_eq!(kept(), 0);
}

#[test]
fn a_full_table_counts_memory_kept_for_a_snapshot() {
    let bytes_max = Some(100_000);
    let limits = Limits { bytes_max, when_full: WhenFull::Refuse, ..Limits::default() };
    let table = Table::new(Options { shards: Some(16), limits, ..Options::default() });
    fill_many(&table, 0..1_500, b"old");
    let snapshot = table.snapshot().unwrap();
    for key in 0..1_000u32 {
        table.update(&key.to_le_bytes(), NOW_MS, |record| record.remove());
    }
    let put = |key: u32| {
        let put = |record: &mut LockedKey<'_>| record.put(&[b"new"], Meta::default());
        table.update(&key.to_le_bytes(), NOW_MS, put)
    };
    let written = (10_000..13_000).take_while(|&key| put(key).is_ok()).count();
    assert!((1_000..1_300).contains(&written), "{written}");
    let counts = table.counts();
    assert!(counts.bytes + counts.kept_bytes <= 100_000);
    drop(snapshot);
    assert!(put(0).is_ok());
}

#[test]
fn a_snapshot_that_keeps_half_of_a_limit_is_abandoned() {
    let bytes_max = Some(100_000);
    for by_budget in [false, true] {
        let budget = Arc::new(Budget::new(100_000, WhenFull::Evict));
        let limits = Limits { bytes_max, ..Limits::default() };
        let options = Options { shards: Some(16), ..Options::default() };
        let table = Table::new(if by_budget {
            Options { budget: Some(budget), ..options }
        } else {
            Options { limits, ..options }
        });
        fill_many(&table, 0..2_000, b"old");
        let mut snapshot = table.snapshot().unwrap();
        assert_eq!(snapshot.next_part(1, |_| ()), Ok(true));
        for round in 0..20 {
            fill_many(&table, 0..2_000, b"new");
            let kept = table.counts().kept_bytes;
            assert!(kept <= 52_000, "{kept} in round {round}");
        }
        assert!(table.snapshot().is_none(), "until its owner drops it");
        assert_eq!(snapshot.next_part(1, |_| panic!("a visit")), Err(Abandoned));
        assert_eq!(snapshot.next_part(1, |_| panic!("a visit")), Err(Abandoned));
        drop(snapshot);
        assert_eq!(table.counts().kept_bytes, 0);
        assert!(table.snapshot().is_some());
    }
}

#[test]
fn a_cursor_beyond_the_end_ends() {
    let table = table();
    set(&table, b"k", b"v");
    for cursor in [16, 17, u64::MAX] {
        assert_eq!(table.scan(cursor, 1, NOW_MS, |_| panic!("beyond")), 0);
    }
}

#[test]
fn clear_removes_everything_and_counts_it() {
    let table = table();
    assert_eq!(table.clear(), 0);
    fill(&table, 0..100, b"v");
    assert_eq!(table.clear(), 100);
    assert_eq!((table.len(), table.bytes()), (0, 0));
    assert!(get(&table, &[5]).is_none());
}

#[test]
fn a_scheduled_clear_removes_entries_written_before_its_time() {
    let table = table();
    set(&table, b"a", b"1");
    table.schedule_clear(NOW_MS + 100);
    set(&table, b"b", b"1");
    assert!(get_at(&table, b"a", NOW_MS + 99).is_some());
    assert!(get_at(&table, b"a", NOW_MS + 100).is_none());
    assert!(get_at(&table, b"b", NOW_MS + 100).is_none());
    set(&table, b"c", b"1");
    assert!(get_at(&table, b"c", NOW_MS + 1_000).is_some());
}

#[test]
fn a_later_schedule_replaces_a_pending_one() {
    let table = table();
    set(&table, b"a", b"1");
    table.schedule_clear(NOW_MS + 100);
    table.schedule_clear(NOW_MS + 200);
    assert!(get_at(&table, b"a", NOW_MS + 150).is_some());
    table.schedule_clear(u64::MAX);
    assert!(get_at(&table, b"a", NOW_MS + 250).is_some());
}

#[test]
fn a_transaction_begins_with_a_due_clear() {
    let table = table();
    fill(&table, 0..100, b"old");
    table.schedule_clear(NOW_MS + 1);
    let locked = table.lock([&[1u8][..]], NOW_MS + 1);
    assert!(get_at(&locked, &[1], NOW_MS + 1).is_none());
    locked.update(&[1], NOW_MS + 1, |record| record.put(&[b"new"], Meta::default())).unwrap();
    drop(locked);
    assert_eq!(table.len(), 1);
    table.schedule_clear(NOW_MS + 1_000_000);
    assert_eq!(get_at(&table, &[1], NOW_MS + 2).as_deref(), Some(&b"new"[..]));
}

#[test]
fn a_locked_table_counts_no_entries_that_a_due_clear_removes() {
    let table = table();
    fill(&table, 0..100, b"old");
    table.schedule_clear(NOW_MS);
    assert_eq!(table.lock_all(NOW_MS).len(), 0);
}

#[test]
fn a_clear_that_becomes_due_waits_for_the_locks() {
    let table = table();
    fill(&table, 0..100, b"old");
    table.schedule_clear(NOW_MS + 1);
    let locked = table.lock([&[1u8][..]], NOW_MS);
    assert!(get_at(&locked, &[1], NOW_MS + 1).is_some());
    drop(locked);
    assert!(get_at(&table, &[1], NOW_MS + 1).is_none());
    assert_eq!(table.len(), 0);
}

#[test]
fn transactions_hold_several_keys_and_several_tables() {
    let (a, b) = (table(), table());
    let (in_a, in_b) = (a.lock([&b"x"[..], b"y", b"x"], NOW_MS), b.lock([&b"x"[..]], NOW_MS));
    set(&in_a, b"x", b"1");
    set(&in_a, b"y", b"2");
    set(&in_b, b"x", b"3");
    assert_eq!(get(&in_a, b"x").as_deref(), Some(&b"1"[..]));
    drop((in_a, in_b));
    assert_eq!((a.len(), b.len()), (2, 1));
}

#[test]
#[should_panic(expected = "was not named when the table was locked")]
fn a_key_that_was_not_locked_panics() {
    let table = table();
    let locked = table.lock([], NOW_MS);
    get(&locked, b"x");
}

#[test]
#[should_panic(expected = "needs lock_all")]
fn a_partial_lock_cannot_see_the_whole_table() {
    let table = table();
    table.lock([&b"x"[..]], NOW_MS).len();
}

#[test]
fn a_fully_locked_table_can_do_everything() {
    let table = table();
    fill(&table, 0..100, b"v");
    let locked = table.lock_all(NOW_MS);
    assert_eq!(locked.len(), 100);
    let mut seen = 0;
    assert_eq!(locked.scan(0, 1_000, NOW_MS, |_| seen += 1), 0);
    assert_eq!(seen, 100);
    assert!(locked.random(3, NOW_MS, |entry| entry.is_some()));
    assert_eq!(locked.clear(), 100);
    assert!(locked.is_empty());
    set(&locked, b"k", b"v");
    drop(locked);
    assert_eq!((table.len(), table.bytes()), (1, 32));
}

#[test]
fn a_panic_in_a_closure_leaves_the_shard_usable_and_unchanged() {
    let table = table();
    set(&table, b"k", b"v");
    let bytes = table.bytes();
    let update = |change: &dyn Fn(&mut todana_table::LockedKey<'_>)| {
        let attempt = std::panic::AssertUnwindSafe(|| table.update(b"k", NOW_MS, change));
        assert!(std::panic::catch_unwind(attempt).is_err());
    };
    update(&|_| panic!("at once"));
    let look =
        std::panic::AssertUnwindSafe(|| table.read_in_place(b"k", NOW_MS, |_| panic!("in a read")));
    assert!(std::panic::catch_unwind(look).is_err());
    let transaction = std::panic::AssertUnwindSafe(|| {
        let _locked = table.lock_all(NOW_MS);
        panic!("in a transaction");
    });
    assert!(std::panic::catch_unwind(transaction).is_err());
    assert_eq!(get(&table, b"k").as_deref(), Some(&b"v"[..]));
    assert_eq!((table.len(), table.bytes()), (1, bytes));
}

#[test]
#[cfg_attr(miri, ignore = "many calls")]
fn random_choice_reaches_every_entry() {
    let table = table();
    fill(&table, 0..50, b"v");
    let mut seen = [0u32; 50];
    for seed in 0..5_000 {
        table.random(seed, NOW_MS, |entry| seen[usize::from(entry.unwrap().key()[0])] += 1);
    }
    assert!(seen.iter().all(|&times| (20..500).contains(&times)), "{seen:?}");
}

/// With far more shards than entries, the empty ones before an entry must not affect its
/// probability.
#[test]
#[cfg_attr(miri, ignore = "many calls")]
fn random_choice_is_fair_with_few_entries() {
    for seed in 0..20 {
        let table = Table::new(Options { seed: Some(seed), ..Options::default() });
        fill(&table, 0..3, b"v");
        let mut seen = [0u32; 3];
        for seed in 0..2_000 {
            table.random(seed, NOW_MS, |entry| seen[usize::from(entry.unwrap().key()[0])] += 1);
        }
        assert!(seen.iter().all(|&times| (560..780).contains(&times)), "{seed}: {seen:?}");
        let locked = table.lock_all(NOW_MS);
        let mut seen = [0u32; 3];
        for seed in 0..300 {
            locked.random(seed, NOW_MS, |entry| seen[usize::from(entry.unwrap().key()[0])] += 1);
        }
        assert!(seen.iter().all(|&times| (60..140).contains(&times)), "{seed}: {seen:?}");
    }
}

#[test]
fn an_unused_table_has_no_shards() {
    let table = Table::new(Options::default());
    assert!(get(&table, b"k").is_none());
    assert_eq!(table.counts().index_bytes, 0);
}

#[test]
fn a_table_that_refuses_writes_refuses_only_growth() {
    let limits = Limits { entries_max: Some(2), bytes_max: Some(200), when_full: WhenFull::Refuse };
    let table = Table::new(Options { limits, ..Options::default() });
    let put = |key: &[u8], len: usize| {
        table
            .update(key, NOW_MS, |record| record.put(&[&vec![0; len]], Meta::default()))
            .map(|_| ())
    };
    assert_eq!(put(b"a", 16), Ok(()));
    assert_eq!(put(b"b", 16), Ok(()));
    assert_eq!(put(b"c", 16), Err(Full));
    assert_eq!(put(b"a", 250), Err(Full));
    assert_eq!(put(b"a", 100), Ok(()));
    table.set_limits(Limits { bytes_max: Some(50), ..limits });
    assert_eq!(put(b"a", 90), Err(Full), "alone beyond the limit");
    assert_eq!(put(b"a", 10), Ok(()), "shrinking");
    assert_eq!(table.counts().refused, 3);
    assert_eq!(table.len(), 2);
}

#[test]
fn limits_refuse_neither_metadata_nor_moves() {
    let budget = std::sync::Arc::new(Budget::new(i64::MAX, WhenFull::Refuse));
    let limits = Limits { entries_max: Some(1), bytes_max: Some(48), when_full: WhenFull::Refuse };
    let table = Table::new(Options { limits, budget: Some(budget.clone()), ..Options::default() });
    set(&table, b"key", &[1; 20]);
    let bytes = table.bytes() as i64;
    budget.bytes_max.store(bytes, std::sync::atomic::Ordering::SeqCst);
    table.set_limits(Limits { bytes_max: Some(bytes as u64), ..limits });
    let meta = Meta { flags: 7, ..expiring(NOW_MS + 10) };
    table.update(b"key", NOW_MS, |record| record.set_meta(meta)).unwrap().unwrap();
    assert!(table.bytes() as i64 > bytes);
    assert_eq!(table.counts().entries_with_expiry, 1);
    let locked = table.lock_all(NOW_MS);
    let value = [1; 20];
    locked
        .update(b"longer key", NOW_MS, |record| {
            record.put_moved(todana_table::Stored::string(&value), meta)
        })
        .unwrap();
    locked.update(b"key", NOW_MS, |record| record.remove());
    drop(locked);
    assert_eq!((table.len(), table.counts().refused), (1, 0));
    assert_eq!(budget.bytes.load(std::sync::atomic::Ordering::SeqCst), table.bytes() as i64);
    assert_eq!(table.bytes(), table.read(b"longer key", NOW_MS, |it| it.unwrap().bytes() as u64));
    let put = table.update(b"k", NOW_MS, |record| record.put(&[b"v"], Meta::default()));
    assert_eq!(put, Err(Full));
}

#[test]
#[cfg_attr(miri, ignore = "many entries")]
fn a_lowered_limit_is_reached_in_steps() {
    let table = table();
    (0..10_000u32).for_each(|key| {
        set(&table, &key.to_le_bytes(), b"v");
    });
    table.set_limits(Limits { entries_max: Some(2_000), ..Limits::default() });
    set(&table, b"new", b"v");
    assert!((9_000..10_000).contains(&table.len()), "{} are left after a write", table.len());
    (0..10u32).for_each(|key| {
        set(&table, &key.to_be_bytes(), b"v");
    });
    let left = table.len();
    assert!((5_000..8_000).contains(&left), "{left} are left after some writes");
    assert!(table.sweep(NOW_MS, 1).1);
    assert!((left - 500..left).contains(&table.len()), "a sweep continues");
    while table.sweep(NOW_MS, 1).1 {}
    assert_eq!(table.len(), 2_000);
    // A large transaction, and large values, make room for all that they add.
    table.set_limits(Limits { bytes_max: Some(200_000), ..Limits::default() });
    for round in 0..20u32 {
        let locked = table.lock_all(NOW_MS);
        for key in 0..1_000u32 {
            set(&locked, &(round * 1_000 + key).to_le_bytes(), b"v");
        }
        drop(locked);
        set(&table, b"large", &vec![0; 1_000 * round as usize]);
        while round == 0 && table.sweep(NOW_MS, 1).1 {}
        assert!(table.bytes() <= 200_000, "{} bytes", table.bytes());
    }
}

#[test]
#[cfg_attr(miri, ignore = "many calls")]
fn evicting_tables_keep_their_limits_and_their_last_write() {
    for (entries_max, bytes_max) in [(Some(100), None), (None, Some(5_000)), (Some(1), None)] {
        let limits = Limits { entries_max, bytes_max, when_full: WhenFull::Evict };
        let table = Table::new(Options { limits, ..Options::default() });
        for key in 0..1_000u32 {
            set(&table, &key.to_le_bytes(), &[7; 20]);
            assert!(table.len() <= entries_max.unwrap_or(u64::MAX));
            assert!(table.bytes() <= bytes_max.unwrap_or(u64::MAX));
            assert!(get(&table, &key.to_le_bytes()).is_some());
        }
        assert_eq!(table.counts().evicted, 1_000 - table.len());
        let whole =
            table.update(b"k", NOW_MS, |record| record.put(&[&[0; 5_000]], Meta::default()));
        assert_eq!(whole.is_err(), bytes_max.is_some());
    }
}

#[test]
fn transactions_evict_when_they_end() {
    let limits = Limits { entries_max: Some(10), ..Limits::default() };
    let table = Table::new(Options { limits, shards: Some(4), ..Options::default() });
    fill(&table, 0..10, b"v");
    let locked = table.lock_all(NOW_MS);
    fill(&locked, 100..105, b"v");
    drop(locked);
    assert_eq!(table.len(), 10);
    assert!((100..105u8).all(|key| get(&table, &[key]).is_some()));
}

#[test]
fn expired_entries_are_evicted_first() {
    let limits = Limits { entries_max: Some(10), ..Limits::default() };
    let table = Table::new(Options { limits, shards: Some(1), ..Options::default() });
    fill(&table, 0..9, b"v");
    set_meta(&table, b"short", b"v", expiring(NOW_MS + 1));
    table.update(b"new", NOW_MS + 1, |record| record.put(&[b"v"], Meta::default())).unwrap();
    let counts = table.counts();
    assert_eq!((counts.entries, counts.evicted, counts.expired), (10, 0, 1));
}

#[test]
fn tables_of_a_budget_make_room_for_each_other() {
    let budget = std::sync::Arc::new(Budget::new(i64::MAX, WhenFull::Evict));
    let options = || Options { budget: Some(budget.clone()), ..Options::default() };
    let (full, empty) = (Table::new(options()), Table::new(options()));
    fill(&full, 0..100, &[1; 100]);
    budget.bytes_max.store(full.bytes() as i64, std::sync::atomic::Ordering::SeqCst);
    set(&empty, b"k", b"v");
    assert_eq!((full.len(), empty.len()), (99, 1));
    assert!(get(&empty, b"k").is_some());
    budget.set_when_full(WhenFull::Refuse);
    let refused = empty.update(b"big", NOW_MS, |record| record.put(&[&[0; 500]], Meta::default()));
    assert_eq!(refused, Err(Full));
    drop(full);
    assert_eq!(budget.bytes.load(std::sync::atomic::Ordering::SeqCst), empty.bytes() as i64);
}

#[test]
fn a_snapshot_is_a_point_in_time() {
    let table = table();
    fill(&table, 0..200, b"old");
    let mut snapshot = table.snapshot().expect("the only one");
    assert!(table.snapshot().is_none());
    let mut seen = std::collections::BTreeMap::new();
    let mut step = 0u8;
    while snapshot.next_part(usize::MAX, |entry| {
        assert!(seen.insert(entry.key().to_vec(), entry.stored().bytes().to_vec()).is_none());
    }) == Ok(true)
    {
        set(&table, &[step], b"new");
        set(&table, &[step, step], b"new");
        table.update(&[199 - step], NOW_MS, |record| record.remove());
        step += 1;
        if step == 8 {
            table.clear();
        }
    }
    assert_eq!(seen.len(), 200);
    assert!(seen.values().all(|value| value == b"old"));
    drop(snapshot);
    assert!(table.snapshot().is_some());
}

#[test]
fn an_owned_snapshot_outlives_the_table() {
    let table = table();
    set(&table, b"k", b"v");
    let mut snapshot = table.snapshot_owned().unwrap();
    drop(table);
    let mut seen = 0;
    while snapshot.next_part(usize::MAX, |entry| {
        assert_eq!(entry.stored().bytes(), b"v");
        seen += 1;
    }) == Ok(true)
    {}
    assert_eq!(seen, 1);
}

#[test]
fn shared_entries_outlive_their_keys() {
    let table = table();
    set(&table, b"small", &[1; 255]);
    set(&table, b"large", &[2; 256]);
    let share = |key: &[u8]| table.read(key, NOW_MS, |entry| entry.unwrap().share());
    assert!(share(b"small").is_none());
    let shared = share(b"large").unwrap();
    let another = shared.clone();
    table.clear();
    drop(shared);
    assert_eq!(&*another, &[2; 256]);
    assert_eq!(another.entry().key(), b"large");
}

#[test]
fn a_value_of_the_same_size_is_replaced_in_place_if_nobody_else_has_it() {
    let address = |table: &Table| {
        table.read(b"key", NOW_MS, |entry| entry.unwrap().stored().bytes().as_ptr().addr())
    };
    let value = |byte: u8, len: usize| vec![byte; len];
    for len in [1, 255, 256, 16_000] {
        let table = table();
        let first = set(&table, b"key", &value(1, len));
        let place = address(&table);
        assert!(set(&table, b"key", &value(2, len)) > first);
        assert_eq!((get(&table, b"key"), address(&table)), (Some(value(2, len)), place));
        if let Some(handle) = table.read(b"key", NOW_MS, |entry| entry.unwrap().share()) {
            set(&table, b"key", &value(3, len));
            assert_eq!((&*handle, handle.as_ptr().addr()), (&*value(2, len), place));
        }
        set(&table, b"key", &value(4, len));
        let mut snapshot = table.snapshot().unwrap();
        set(&table, b"key", &value(5, len));
        while snapshot
            .next_part(usize::MAX, |entry| assert_eq!(entry.stored().bytes(), value(4, len)))
            == Ok(true)
        {}
        drop(snapshot);
        assert_eq!(get(&table, b"key"), Some(value(5, len)));
        // Alone again.
        let place = address(&table);
        set(&table, b"key", &value(6, len));
        assert_eq!((get(&table, b"key"), address(&table)), (Some(value(6, len)), place));
        let flagged = Meta { flags: 7, ..Meta::default() };
        set_meta(&table, b"key", &value(7, len), flagged);
        set(&table, b"key", &value(8, len));
        let flags = table.read(b"key", NOW_MS, |entry| entry.unwrap().flags());
        assert_eq!((get(&table, b"key"), flags), (Some(value(8, len)), 0));
    }
}

/// Writes `new` over the value of "key". Whether only bytes were replaced.
fn write(table: &Table, now: impl Time, new: &[u8]) -> bool {
    let changed = table.write(
        b"key",
        now,
        |_| Some(new),
        |record, now_ms| {
            assert_eq!(now_ms, NOW_MS);
            record.put(&[new], Meta::default())
        },
    );
    assert_eq!(get(table, b"key"), Some(new.to_vec()));
    match changed {
        Written::Over(_) => true,
        Written::Changed(put) => put.map(|_| false).expect("room"),
    }
}

#[test]
fn a_write_does_more_than_to_replace_bytes_only_if_it_must() {
    /// Nobody may ask for it.
    #[derive(Clone, Copy)]
    struct NoTime;
    impl Time for NoTime {
        fn ms(self) -> u64 {
            panic!("the time is needed only where an entry is made")
        }
    }
    let ordered = Table::new(Options { order: Some(KeyOrder::default()), ..Options::default() });
    for table in [&table(), &ordered] {
        assert!(!write(table, NOW_MS, b"old"), "there was none");
        assert!(write(table, NoTime, b"new"));
        assert!(!write(table, NOW_MS, b"other size"));
        assert!(write(table, NoTime, b"same size!"));
        let snapshot = table.snapshot();
        assert!(!write(table, NOW_MS, b"kept aside"));
        drop(snapshot);
        for meta in [expiring(NOW_MS + 1), Meta { flags: 1, ..Meta::default() }] {
            set_meta(table, b"key", b"metadata", meta);
            assert!(!write(table, NOW_MS, b"data....."[..8].as_ref()));
        }
        set_meta(table, b"key", b"expired", expiring(NOW_MS));
        assert!(!write(table, NOW_MS, b"written"));
        set(table, b"key", &[1; 300]);
        let handle = table.read(b"key", NOW_MS, |entry| entry.unwrap().share());
        assert!(!write(table, NOW_MS, &[2; 300]));
        assert_eq!(handle.as_deref(), Some(&[1; 300][..]));
        assert!(write(table, NoTime, &[3; 300]));
        table.schedule_clear(NOW_MS);
        assert!(!write(table, NOW_MS, &[4; 300]));
        assert_eq!(table.len(), 1);
    }
    let limited = full_table(1 << 20);
    set(&limited, b"key", b"old");
    assert!(!write(&limited, NOW_MS, b"new"));
    // What the caller does not want to replace is changed by its other function.
    let changed = table().write(b"key", NOW_MS, |_| None, |record, _| record.entry().is_none());
    assert!(matches!(changed, Written::Changed(true)));
}

#[test]
fn values_of_every_short_length_are_replaced_completely_and_nothing_beside_them() {
    for (key_len, len) in (0..20).flat_map(|key| (0..20).map(move |len| (key, len))) {
        let table = table();
        let key = vec![b'k'; key_len];
        let mut last = set(&table, &key, &vec![0; len]);
        for byte in 1..40 {
            let new = vec![byte; len];
            let written = table.write(
                &key,
                NOW_MS,
                |old| {
                    assert_eq!(old, vec![byte - 1; len]);
                    Some(&new)
                },
                |_, _| (),
            );
            let Written::Over(version) = written else { panic!("only bytes are to be replaced") };
            assert!(version > last);
            last = version;
            let found = table.read(&key, NOW_MS, |entry| {
                entry.map(|entry| {
                    (entry.key().to_vec(), entry.stored().bytes().to_vec(), entry.version())
                })
            });
            assert_eq!(found, Some((key.clone(), new.clone(), version)));
            assert_eq!(table.counts().entries, 1);
        }
    }
}

#[test]
fn a_handle_owns_its_bytes_once_the_table_has_released_them() {
    let table = table();
    set(&table, b"wide", &[1; 1_000]);
    set(&table, b"bodied", &[2; 60_000]);
    let share = |key: &[u8]| table.read(key, NOW_MS, |it| it.unwrap().share()).unwrap();
    let (wide, bodied) = (share(b"wide"), share(b"bodied"));
    assert_eq!((wide.own_bytes(), bodied.own_bytes()), (0, 0));
    set(&table, b"wide", b"new");
    // A new expiry makes another entry over the same body, which the table still has.
    let meta = Meta { expires_at_ms: Some(NOW_MS + 1_000), ..Meta::default() };
    table.update(b"bodied", NOW_MS, |record| record.put_same(&bodied.entry(), meta)).unwrap();
    assert!((1_000..1_100).contains(&wide.own_bytes()), "{}", wide.own_bytes());
    assert!((30_000..30_100).contains(&bodied.own_bytes()), "{}", bodied.own_bytes());
    let (another, copy) = (share(b"bodied"), bodied.clone());
    table.update(b"bodied", NOW_MS, |record| record.remove());
    let all = bodied.own_bytes() + copy.own_bytes() + another.own_bytes();
    assert!((60_000..60_300).contains(&all), "three handles, two entries, one body: {all}");
    // What a snapshot needs belongs to the table.
    set(&table, b"wide", &[1; 1_000]);
    let wide = share(b"wide");
    let snapshot = table.snapshot().unwrap();
    set(&table, b"wide", b"new");
    assert_eq!(wide.own_bytes(), 0);
    drop(snapshot);
}

/// A table full of small entries.
fn full_table(bytes_max: u64) -> Table {
    let table = table();
    let mut key = 0u32;
    while table.bytes() + 200 < bytes_max {
        set(&table, &key.to_le_bytes(), &[7; 20]);
        key += 1;
    }
    table.set_limits(Limits { bytes_max: Some(bytes_max), ..Limits::default() });
    table
}

fn put_large(table: &Table, key: &[u8], len: usize) -> Result<u64, Full> {
    table.update(key, NOW_MS, |record| record.put(&[&vec![0; len]], Meta::default()))
}

#[test]
#[cfg_attr(miri, ignore = "many entries")]
fn one_large_write_evicts_a_bounded_number_and_sweeps_do_the_rest() {
    let bytes_max = 4 << 20;
    let table = full_table(bytes_max);
    let mut evicted = 0;
    for round in 0..10u8 {
        put_large(&table, &[round], 1 << 18).unwrap();
        let now = table.counts().evicted;
        assert!(now - evicted <= 256 + 4, "{} evictions for one write", now - evicted);
        evicted = now;
    }
    assert!(table.bytes() > bytes_max + (1 << 20), "most of the eviction is still to be done");
    let mut sweeps = 0;
    while table.sweep(NOW_MS, 1).1 {
        let now = table.counts().evicted;
        assert!(now - evicted <= 256 + 4);
        (evicted, sweeps) = (now, sweeps + 1);
    }
    assert!(sweeps > 100);
    assert!((bytes_max - 1_000..=bytes_max).contains(&table.bytes()), "{} bytes", table.bytes());
    // The newest and largest entries were not evicted.
    assert!((0..10u8).all(|round| get(&table, &[round]).is_some()));
}

#[test]
#[cfg_attr(miri, ignore = "many entries")]
fn large_writes_exceed_a_limit_by_a_bounded_amount() {
    const OVERSHOOT_BYTES: u64 = 8 << 20;
    let bytes_max = 4 << 20;
    let budget = std::sync::Arc::new(Budget::new(i64::MAX, WhenFull::Evict));
    for shared in [false, true] {
        let table = match shared {
            false => full_table(bytes_max),
            true => {
                let options = Options { budget: Some(budget.clone()), ..Options::default() };
                let table = Table::new(options);
                (0..50_000u32).for_each(|key| {
                    set(&table, &key.to_le_bytes(), &[7; 70]);
                });
                let max = bytes_max as i64;
                assert!(table.bytes() > bytes_max);
                budget.bytes_max.store(max, std::sync::atomic::Ordering::SeqCst);
                while table.sweep(NOW_MS, 1).1 {}
                table
            }
        };
        let refused = (0..100u8).find(|round| {
            let put = put_large(&table, &[*round], 1 << 20);
            assert!(table.bytes() <= bytes_max + OVERSHOOT_BYTES);
            put.is_err()
        });
        assert!((6..9).contains(&refused.expect("a refusal")), "{refused:?}");
        // Small writes succeed meanwhile, and so does eviction.
        let bytes = table.bytes();
        set(&table, b"small", b"v");
        assert!(table.bytes() < bytes);
        // The refused write fits when the sweeper has made room for it.
        while table.sweep(NOW_MS, 1).1 {}
        assert!(table.bytes() <= bytes_max - (1 << 20), "{} bytes", table.bytes());
        put_large(&table, b"again", 1 << 20).unwrap();
        assert!(table.bytes() <= bytes_max);
        // The room is not kept any longer than that.
        while table.sweep(NOW_MS, 1).1 {}
        set(&table, b"small", b"w");
        assert_eq!(get(&table, b"small").as_deref(), Some(&b"w"[..]));
        assert_eq!(put_large(&table, b"never", 5 << 20), Err(Full));
        table.clear();
    }
}

#[test]
#[cfg_attr(miri, ignore = "many entries")]
fn a_value_larger_than_the_overshoot_fits_into_a_full_table_at_the_second_try() {
    let bytes_max = 20 << 20;
    let table = full_table(bytes_max);
    assert_eq!(put_large(&table, b"large", 16 << 20), Err(Full));
    assert!(table.counts().evicted > 0, "eviction has begun");
    while table.sweep(NOW_MS, 1).1 {}
    put_large(&table, b"large", 16 << 20).unwrap();
    assert!(table.bytes() <= bytes_max);
}
