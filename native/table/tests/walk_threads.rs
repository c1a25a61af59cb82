//! Walks beside threads that create and remove keys: a key that is always present is seen exactly
//! once.
//!
//! Under ThreadSanitizer like `threads`.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use todana_table::{
    Comparison, KeyOrder, KeyRange, Keyspace, LockedKey, Meta, Options, Table, Walk, Walked,
};

use together::{Action, Dice, together};

mod together;

const NOW_MS: u64 = 1_800_000_000_000;
/// All keys that may be present. Every tenth is always present.
const KEYS: u64 = if cfg!(miri) { 300 } else { 4_000 };

fn key_of(number: u64) -> [u8; 5] {
    let mut key = *b"00000";
    let mut rest = number;
    for digit in key.iter_mut().rev() {
        *digit += (rest % 10) as u8;
        rest /= 10;
    }
    key
}

fn is_fixed(key: &[u8]) -> bool {
    key.ends_with(b"0")
}

fn put(record: &mut LockedKey<'_>) {
    record.put(&[b"value"], Meta::default()).expect("room");
}

fn fill(space: &impl Keyspace) {
    (0..KEYS).step_by(10).for_each(|number| space.update(&key_of(number), NOW_MS, put));
}

/// Creates or removes keys that are not always present: some here and there, or all from one on, so
/// that leaves are split and joined.
fn churn(table: &Table, clock: &AtomicU64, dice: &mut Dice) {
    let now_ms = clock.load(SeqCst);
    let from = dice.roll(KEYS);
    let numbers = from..(from + [1, 1, 10, 600][dice.roll(4) as usize]).min(KEYS);
    let (made, short) = (dice.roll(2) == 0, dice.roll(3) == 0);
    for key in numbers.map(key_of).filter(|key| !is_fixed(key)) {
        table.update(&key, now_ms, |record| {
            let expires_at_ms = short.then_some(now_ms + 2);
            let meta = Meta { expires_at_ms, ..Meta::default() };
            if made {
                record.put(&[b"value"], meta).expect("room");
            } else {
                record.remove();
            }
        });
    }
    if dice.roll(20) == 0 {
        clock.fetch_add(1, SeqCst);
        table.sweep(now_ms, 8);
    }
}

/// Takes fixed keys out and puts them back in one step: other threads always find them.
fn replace(table: &Table, dice: &mut Dice) {
    let key = key_of(dice.roll(KEYS / 10) * 10);
    let other = key_of(dice.roll(KEYS / 10) * 10);
    match dice.roll(40) {
        0 => {
            let locked = table.lock_all(NOW_MS);
            locked.clear();
            fill(&locked);
        }
        1 => {
            let locked = table.lock_all(NOW_MS);
            locked.update(&key, NOW_MS, |record| record.remove());
            let walk = Walk { after: Some(&other), count: 20, ..Walk::default() };
            locked.walk(&walk, NOW_MS, |entry| assert_ne!(entry.key(), key)).expect("an order");
            locked.update(&key, NOW_MS, put);
        }
        2..=20 => {
            let locked = table.lock([&key[..], &other], NOW_MS);
            locked.update(&key, NOW_MS, |record| record.remove());
            locked.update(&other, NOW_MS, |record| record.remove());
            locked.update(&key, NOW_MS, put);
            locked.update(&other, NOW_MS, put);
        }
        _ => table.update(&key, NOW_MS, |record| {
            assert!(record.remove());
            put(record);
        }),
    }
}

/// Walks over everything in steps of random size.
fn walk(table: &Table, clock: &AtomicU64, reverse: bool, dice: &mut Dice) {
    let (mut seen, mut after) = (Vec::<Vec<u8>>::new(), None::<Vec<u8>>);
    loop {
        let count_max = [3, 200][dice.roll(2) as usize];
        let count = 1 + dice.roll(count_max) as usize;
        let walk = Walk { keys: KeyRange::All, after: after.as_deref(), reverse, count };
        let now_ms = clock.load(SeqCst);
        let walked = table.walk(&walk, now_ms, |entry| seen.push(entry.key().to_vec()));
        match walked.expect("an order") {
            Walked::End => break,
            Walked::Until(key) => after = Some(key),
        }
    }
    if let Some(order) = table.order() {
        let ascending = reverse == order.descending;
        assert!(seen.is_sorted_by(|left, right| (left < right) == ascending && left != right));
    }
    let mut fixed: Vec<Vec<u8>> = seen.into_iter().filter(|key| is_fixed(key)).collect();
    fixed.sort();
    assert!(fixed.into_iter().eq((0..KEYS).step_by(10).map(|number| key_of(number).to_vec())));
}

fn walks_beside_writers(order: Option<KeyOrder>) {
    let table = &Table::new(Options { shards: Some(64), order, ..Options::default() });
    let clock = &AtomicU64::new(NOW_MS);
    fill(table);
    let mut actions: Vec<Action<'_>> = vec![
        Box::new(|dice| churn(table, clock, dice)),
        Box::new(|dice| churn(table, clock, dice)),
        Box::new(|dice| replace(table, dice)),
        Box::new(|dice| walk(table, clock, false, dice)),
    ];
    if order.is_some() {
        actions.push(Box::new(|dice| walk(table, clock, true, dice)));
    }
    together(actions);
    // The order contains exactly the keys of the table.
    clock.fetch_add(10, SeqCst);
    while table.sweep(clock.load(SeqCst), 64).1 {}
    let mut visited = 0;
    let everything = Walk { count: usize::MAX, ..Walk::default() };
    table.walk(&everything, NOW_MS, |_| visited += 1).expect("an order");
    assert_eq!(visited, table.len());
}

#[test]
fn a_walk_of_a_lexical_table_visits_lasting_keys_exactly_once() {
    walks_beside_writers(Some(KeyOrder::default()));
}

#[test]
fn a_walk_of_a_descending_decimal_table_visits_lasting_keys_exactly_once() {
    let order = KeyOrder { comparison: Comparison::Decimal, descending: true };
    walks_beside_writers(Some(order));
}

#[test]
fn a_walk_of_a_table_without_an_order_visits_lasting_keys_exactly_once() {
    walks_beside_writers(None);
}
