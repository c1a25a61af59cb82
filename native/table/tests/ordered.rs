//! Walks over tables in their order, one behaviour at a time.

use todana_table::{
    Bound, Comparison, KeyOrder, KeyRange, Keyspace, Limits, Meta, NotOrdered, Options, Table,
    Walk, Walked,
};

const NOW_MS: u64 = 1_800_000_000_000;

fn ordered(comparison: Comparison, descending: bool) -> Table {
    let order = Some(KeyOrder { comparison, descending });
    Table::new(Options { shards: Some(16), seed: Some(1), order, ..Options::default() })
}

fn lexical() -> Table {
    ordered(Comparison::Lexical, false)
}

fn unordered() -> Table {
    Table::new(Options { shards: Some(16), seed: Some(1), ..Options::default() })
}

fn set(table: &impl Keyspace, key: &[u8]) {
    table.update(key, NOW_MS, |record| record.put(&[b"value"], Meta::default())).expect("room");
}

fn fill(table: &impl Keyspace, keys: &[&str]) {
    keys.iter().for_each(|key| set(table, key.as_bytes()));
}

fn remove(table: &impl Keyspace, key: &str) {
    assert!(table.update(key.as_bytes(), NOW_MS, |record| record.remove()));
}

/// The keys of one step, and where it ended.
fn step(table: &impl Keyspace, walk: Walk<'_>) -> (Vec<String>, Walked) {
    let mut keys = Vec::new();
    let mut visit = |key: &[u8]| keys.push(String::from_utf8_lossy(key).into_owned());
    let walked = table.walk(&walk, NOW_MS, |entry| visit(entry.key())).expect("an order");
    (keys, walked)
}

/// The keys of a whole walk, `count` per step.
fn keys_by(table: &impl Keyspace, walk: Walk<'_>, count: usize) -> Vec<String> {
    let (mut all, mut after) = (Vec::new(), walk.after.map(<[u8]>::to_vec));
    loop {
        let (keys, walked) = step(table, Walk { after: after.as_deref(), count, ..walk });
        assert!(keys.len() <= count);
        all.extend(keys);
        match walked {
            Walked::End => return all,
            Walked::Until(key) => after = Some(key),
        }
    }
}

fn keys(table: &impl Keyspace, keys: KeyRange<'_>, reverse: bool) -> Vec<String> {
    keys_by(table, Walk { keys, reverse, ..Walk::default() }, usize::MAX)
}

fn included(key: &str) -> Bound<'_> {
    Bound::Included(key.as_bytes())
}

fn excluded(key: &str) -> Bound<'_> {
    Bound::Excluded(key.as_bytes())
}

const ALL: KeyRange<'static> = KeyRange::All;

#[test]
fn a_lexical_table_walks_by_bytes() {
    let table = lexical();
    fill(&table, &["b", "", "a", "ab", "B", "10", "9"]);
    assert_eq!(keys(&table, ALL, false), ["", "10", "9", "B", "a", "ab", "b"]);
    assert_eq!(keys(&table, ALL, true), ["b", "ab", "a", "B", "9", "10", ""]);
}

#[test]
fn a_decimal_table_walks_by_leading_numbers_then_by_bytes() {
    let table = ordered(Comparison::Decimal, false);
    fill(&table, &["10", "9", "-1", "apple", "9 b", "9 a", "0.5", "-10", "009"]);
    let ascending = ["-10", "-1", "apple", "0.5", "009", "9", "9 a", "9 b", "10"];
    assert_eq!(keys(&table, ALL, false), ascending);
}

#[test]
fn a_descending_table_walks_in_reverse() {
    for comparison in [Comparison::Lexical, Comparison::Decimal] {
        let table = ordered(comparison, true);
        fill(&table, &["1", "2", "3", "02"]);
        let up = if comparison == Comparison::Lexical {
            ["02", "1", "2", "3"]
        } else {
            ["1", "02", "2", "3"]
        };
        assert_eq!(keys(&table, ALL, true), up);
        assert!(keys(&table, ALL, false).iter().eq(up.iter().rev()));
    }
}

#[test]
fn bounds_are_in_the_order_of_the_table() {
    let table = lexical();
    fill(&table, &["a", "b", "c", "d"]);
    let between = |first, second| KeyRange::Between(first, second);
    assert_eq!(keys(&table, between(included("b"), included("c")), false), ["b", "c"]);
    assert_eq!(keys(&table, between(excluded("a"), excluded("d")), true), ["c", "b"]);
    assert_eq!(keys(&table, between(Bound::Unbounded, excluded("bb")), false), ["a", "b"]);
    let table = ordered(Comparison::Lexical, true);
    fill(&table, &["a", "b", "c", "d"]);
    assert_eq!(keys(&table, between(included("c"), excluded("a")), false), ["c", "b"]);
    assert_eq!(keys(&table, between(included("c"), excluded("a")), true), ["b", "c"]);
    assert_eq!(keys(&table, between(Bound::Unbounded, included("c")), false), ["d", "c"]);
}

#[test]
fn an_empty_or_inverted_range_has_no_keys() {
    let table = lexical();
    fill(&table, &["a", "b", "c"]);
    for (first, second) in [
        (included("c"), included("a")),
        (excluded("b"), excluded("b")),
        (excluded("b"), included("b")),
        (included("b"), excluded("b")),
        (excluded("c"), excluded("a")),
        (excluded("a"), excluded("b")),
    ] {
        for reverse in [false, true] {
            let range = KeyRange::Between(first, second);
            let walk = Walk { keys: range, reverse, count: 10, ..Walk::default() };
            assert_eq!(step(&table, walk), (vec![], Walked::End), "{range:?}");
        }
    }
}

#[test]
fn a_prefix_is_found_in_every_order() {
    for comparison in [Comparison::Lexical, Comparison::Decimal] {
        for descending in [false, true] {
            let table = ordered(comparison, descending);
            fill(&table, &["1", "12", "123", "13", "2", "0", "12 x"]);
            let mut found = keys(&table, KeyRange::Prefix(b"12"), descending);
            assert_eq!(found, ["12", "12 x", "123"]);
            found.reverse();
            assert_eq!(keys(&table, KeyRange::Prefix(b"12"), !descending), found);
            assert_eq!(keys(&table, KeyRange::Prefix(b""), false).len(), 7);
            assert!(keys(&table, KeyRange::Prefix(b"4"), false).is_empty());
        }
    }
}

#[test]
fn a_prefix_of_the_highest_bytes_extends_to_the_end_of_the_table() {
    let table = lexical();
    for key in [&b"\xff"[..], b"\xff\xff", b"\xff\xff\x01", b"\xff\x00", b"a\xff", b"b"] {
        set(&table, key);
    }
    let count = |prefix| {
        let mut count = 0;
        let walk = Walk { keys: KeyRange::Prefix(prefix), count: 10, ..Walk::default() };
        assert_eq!(table.walk(&walk, NOW_MS, |_| count += 1), Ok(Walked::End));
        count
    };
    assert_eq!((count(b"\xff"), count(b"\xff\xff"), count(b"a\xff")), (4, 2, 1));
}

#[test]
fn steps_of_any_size_make_the_same_walk() {
    for table in [lexical(), ordered(Comparison::Decimal, true), unordered()] {
        (0..1_000u32).for_each(|number| set(&table, number.to_string().as_bytes()));
        let whole = keys(&table, ALL, false);
        assert_eq!(whole.len(), 1_000);
        for count in [1, 2, 7, 100, 128, 129, 999, 1_000, 1_001] {
            assert_eq!(keys_by(&table, Walk::default(), count), whole);
        }
    }
}

#[test]
fn a_walk_continues_after_an_absent_key() {
    let table = lexical();
    fill(&table, &["a", "c", "e"]);
    let after = |after, reverse| {
        keys_by(&table, Walk { after: Some(after), reverse, ..Walk::default() }, 10)
    };
    assert_eq!(after(b"b", false), ["c", "e"]);
    assert_eq!(after(b"c", false), ["e"]);
    assert_eq!(after(b"d", true), ["c", "a"]);
    assert_eq!(after(b"c", true), ["a"]);
    assert!(after(b"e", false).is_empty());
}

#[test]
fn the_start_key_does_not_widen_the_range() {
    let table = lexical();
    fill(&table, &["a", "b", "c", "d"]);
    let range = KeyRange::Between(included("b"), included("c"));
    let after = |after, reverse| {
        keys_by(&table, Walk { keys: range, after: Some(after), reverse, ..Walk::default() }, 10)
    };
    assert_eq!(after(b"a", false), ["b", "c"]);
    assert_eq!(after(b"d", true), ["c", "b"]);
    assert!(after(b"c", false).is_empty());
    assert!(after(b"b", true).is_empty());
    assert!(after(b"z", false).is_empty());
}

#[test]
fn a_full_step_that_ends_with_the_last_key_reports_the_end() {
    let table = lexical();
    fill(&table, &["a", "b", "c"]);
    let ended = |count| step(&table, Walk { count, ..Walk::default() }).1;
    assert_eq!(ended(2), Walked::Until(b"b".to_vec()));
    assert_eq!(ended(3), Walked::End);
    assert_eq!(ended(4), Walked::End);
}

#[test]
fn a_step_with_count_0_stays_where_it_is() {
    let table = lexical();
    fill(&table, &["a"]);
    let after = Some(&b"Z"[..]);
    let stayed = step(&table, Walk { after, count: 0, ..Walk::default() });
    assert_eq!(stayed, (vec![], Walked::Until(b"Z".to_vec())));
    assert_eq!(step(&table, Walk::default()), (vec![], Walked::End));
}

#[test]
fn a_step_skips_some_thousand_expired_entries() {
    let table = lexical();
    for number in 0..3_000u32 {
        let meta = Meta { expires_at_ms: Some(NOW_MS + 1), ..Meta::default() };
        let key = format!("{number:05}");
        table.update(key.as_bytes(), NOW_MS, |record| record.put(&[], meta)).expect("room");
    }
    set(&table, b"x");
    let (mut after, mut steps, mut seen) = (None, 0, Vec::new());
    loop {
        let walk = Walk { after: after.as_deref(), count: 10, ..Walk::default() };
        let walked = table.walk(&walk, NOW_MS + 1, |entry| seen.push(entry.key().to_vec()));
        steps += 1;
        match walked.expect("an order") {
            Walked::End => break,
            Walked::Until(key) => after = Some(key),
        }
    }
    assert_eq!((steps, seen), (3, vec![b"x".to_vec()]));
}

#[test]
fn every_kind_of_removal_removes_the_key_from_the_order() {
    let table = lexical();
    let all = || keys(&table, ALL, false);
    fill(&table, &["a", "b", "c", "d"]);
    remove(&table, "b");
    assert_eq!(all(), ["a", "c", "d"]);
    table.schedule_clear(NOW_MS);
    assert!(all().is_empty());
    fill(&table, &["e", "f"]);
    table.clear();
    assert!(all().is_empty());
    fill(&table, &["g"]);
    assert_eq!(all(), ["g"]);
}

#[test]
fn the_order_takes_memory_only_for_present_keys() {
    let table = lexical();
    let bytes = || table.counts().index_bytes;
    set(&table, b"first");
    let fresh = bytes();
    // No shard's index grows for this few keys, so any growth is that of the order.
    let meta = Meta { expires_at_ms: Some(NOW_MS + 1), ..Meta::default() };
    let put = |number: u8| {
        let key = [b"a long key that takes much memory".as_slice(), &[number]].concat();
        table.update(&key, NOW_MS, |record| record.put(&[], meta)).expect("room");
        key
    };
    let keys: Vec<_> = (0..100).map(put).collect();
    assert!(bytes() > fresh + 100 * 34);
    table.sweep(NOW_MS + 1, 100);
    let few = |bytes: u64| bytes < fresh + 6_000;
    assert!(few(bytes()));
    (0..100).for_each(|number| drop(put(number)));
    for key in &keys {
        assert!(table.update(key, NOW_MS, |record| record.remove()));
    }
    assert!(few(bytes()));
    (0..100).for_each(|number| drop(put(number)));
    table.set_limits(Limits { entries_max: Some(1), ..Limits::default() });
    set(&table, b"second");
    assert!(few(bytes()));
    table.set_limits(Limits::default());
    (0..100).for_each(|number| drop(put(number)));
    table.schedule_clear(NOW_MS);
    let locked = table.lock_all(NOW_MS);
    set(&locked, b"third");
    drop(locked);
    assert_eq!(self::keys(&table, ALL, false), ["third"]);
    assert!(few(bytes()));
}

#[test]
fn a_transaction_walks_over_its_own_changes() {
    let table = lexical();
    fill(&table, &["a", "b", "c"]);
    let locked = table.lock_all(NOW_MS);
    remove(&locked, "b");
    fill(&locked, &["d"]);
    remove(&locked, "c");
    fill(&locked, &["c"]);
    assert_eq!(keys(&locked, ALL, true), ["d", "c", "a"]);
    locked.clear();
    assert!(keys(&locked, ALL, false).is_empty());
    fill(&locked, &["e"]);
    assert_eq!(keys(&locked, ALL, false), ["e"]);
    drop(locked);
    assert_eq!(keys(&table, ALL, false), ["e"]);
}

#[test]
fn a_transaction_without_an_order_walks_too() {
    let table = unordered();
    (0..100u32).for_each(|number| set(&table, number.to_string().as_bytes()));
    let whole = keys(&table, ALL, false);
    assert_eq!(keys_by(&table.lock_all(NOW_MS), Walk::default(), 7), whole);
}

#[test]
#[should_panic(expected = "walk sees the whole table")]
fn a_transaction_of_some_keys_cannot_walk() {
    let table = lexical();
    let locked = table.lock([&b"a"[..]], NOW_MS);
    drop(locked.walk(&Walk::default(), NOW_MS, |_| ()));
}

#[test]
fn a_table_without_an_order_supports_only_full_forward_walks() {
    let table = unordered();
    fill(&table, &["a"]);
    let between = KeyRange::Between(Bound::Unbounded, Bound::Unbounded);
    for (keys, reverse) in [(ALL, true), (KeyRange::Prefix(b""), false), (between, false)] {
        let walk = Walk { keys, reverse, count: 1, ..Walk::default() };
        assert_eq!(table.walk(&walk, NOW_MS, |_| ()), Err(NotOrdered));
    }
    assert_eq!(table.order(), None);
}

#[test]
fn a_walk_over_an_unused_table_is_empty() {
    for table in [lexical(), unordered()] {
        let walk = Walk { count: 1, ..Walk::default() };
        assert_eq!(step(&table, walk), (vec![], Walked::End));
    }
}

#[test]
fn a_walk_without_an_order_continues_after_a_removed_key() {
    let table = unordered();
    (0..100u32).for_each(|number| set(&table, number.to_string().as_bytes()));
    let mut left = keys(&table, ALL, false);
    let (mut after, mut seen) = (None, Vec::new());
    loop {
        let walk = Walk { after: after.as_deref(), count: 1, ..Walk::default() };
        let (keys, walked) = step(&table, walk);
        keys.iter().for_each(|key| remove(&table, key));
        seen.extend(keys);
        match walked {
            Walked::End => break,
            Walked::Until(key) => after = Some(key),
        }
    }
    left.retain(|key| !seen.contains(key));
    assert!(left.is_empty() && table.is_empty());
}

#[test]
fn the_table_returns_its_order() {
    let table = ordered(Comparison::Decimal, true);
    let order = Some(KeyOrder { comparison: Comparison::Decimal, descending: true });
    assert_eq!((table.order(), table.lock_all(NOW_MS).order()), (order, order));
}
