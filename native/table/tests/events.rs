//! Replaying the events of a table leads to the same records.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::thread;

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use todana_table::{
    Comparison, Edit, Event, EventFilter, EventKind, EventQueue, KeyOrder, Keyspace, Limits, Meta,
    OBSERVERS_MAX, Observer, Options, QueueLimits, Queued, Table, TooManyObservers, WhenFull,
};

const START_MS: u64 = 1_800_000_000_000;

/// A queue, and the number of events that occurred.
struct Counted {
    queue: EventQueue,
    made: AtomicU64,
}

impl Counted {
    fn new(events_max: usize) -> Arc<Counted> {
        let limits = QueueLimits { events_max, bytes_max: 64 << 20 };
        let queue = EventQueue::new(EventFilter::default(), limits);
        Arc::new(Counted { queue, made: AtomicU64::new(0) })
    }
}

impl Observer for Counted {
    fn observe(&self, event: &Event<'_>) {
        self.made.fetch_add(1, SeqCst);
        let _ = self.queue.push(event);
    }
}

/// The contents of the table according to the events: the version of each key.
#[derive(Default)]
struct Replica {
    versions: HashMap<Vec<u8>, u64>,
    kinds: HashMap<EventKind, u64>,
}

impl Replica {
    fn replay(&mut self, queue: &EventQueue) {
        loop {
            let (events, more) = queue.take();
            for queued in events.iter() {
                let Queued::Event(event) = queued else { panic!("the queue is large enough") };
                self.apply(&event);
            }
            if !more {
                return;
            }
        }
    }

    fn apply(&mut self, event: &Event<'_>) {
        *self.kinds.entry(event.kind).or_default() += 1;
        match event.kind {
            EventKind::Put => {
                let before = self.versions.insert(event.key.to_vec(), event.version);
                assert!(before.is_none_or(|before| before < event.version), "{event:?}");
            }
            EventKind::Delete | EventKind::Expire | EventKind::Evict => {
                assert_eq!(self.versions.remove(event.key), Some(event.version), "{event:?}");
            }
            EventKind::Clear => {
                assert!(self.versions.values().all(|version| *version <= event.version));
                self.versions.clear();
            }
            EventKind::Swap => panic!("no databases are exchanged"),
        }
    }
}

/// The version of each record, expired ones included.
fn stored(table: &Table) -> HashMap<Vec<u8>, u64> {
    let (mut versions, mut cursor) = (HashMap::new(), 0);
    loop {
        // Before anything expires.
        cursor = table.scan(cursor, 1_000, 0, |entry| {
            versions.insert(entry.key().to_vec(), entry.version());
        });
        if cursor == 0 {
            return versions;
        }
    }
}

/// Executes one operation, in one of several ways that change the table.
fn operate(table: &Table, operation: u8, key: u8, number: u16, now_ms: &mut u64) {
    let (name, other) = ([key; 3], [key ^ 1; 3]);
    let value = vec![key; usize::from(number) * 64];
    let expires_at_ms = (number.is_multiple_of(3)).then_some(*now_ms + u64::from(number) * 4);
    let meta = Meta { expires_at_ms, ..Meta::default() };
    let append = |space: &Table, name: &[u8]| {
        space.edit(name, *now_ms, Edit::Append(&value), |record, draft| {
            let meta = record.entry().map(|entry| entry.meta()).unwrap_or_default();
            record.put_edited(draft, meta).transpose()
        })
    };
    match operation {
        0..=5 => drop(table.update(&name, *now_ms, |record| record.put(&[&value], meta))),
        6 => drop(table.update(&name, *now_ms, |record| record.remove())),
        7 => {
            // Taken out and put back in one operation, and the other way round.
            let _ = table.update(&name, *now_ms, |record| {
                record.remove();
                record.put(&[b"again"], meta)
            });
            table.update(&other, *now_ms, |record| {
                let _ = record.put(&[b"for a moment"], meta);
                record.remove()
            });
        }
        8 => drop(table.update(&name, *now_ms, |record| record.set_meta(meta))),
        9 => drop(append(table, &name)),
        10 => {
            let edit = Edit::SetBits { at: usize::from(number), mask: 1, on: true };
            let _ = table.edit(&name, *now_ms, edit, |record, draft| {
                record.put_edited(draft, meta).transpose()
            });
        }
        11 => {
            // As a transaction that renames, with one key that is written twice.
            let step = table.lock([&name[..], &other[..]], *now_ms);
            let moved = step.update(&name, *now_ms, |record| record.remove());
            if moved {
                let _ = step.update(&other, *now_ms, |record| {
                    record.put_moved(todana_table::Stored::string(b"moved"), meta)
                });
                let _ = step.update(&other, *now_ms, |record| record.set_meta(Meta::default()));
            }
        }
        12 => *now_ms += u64::from(number),
        13 => drop(table.sweep(*now_ms, usize::from(number) / 8)),
        14 if number < 8 => drop(table.clear()),
        14 if number < 16 => table.schedule_clear(*now_ms + 50),
        14 if number < 24 => {
            let all = table.lock_all(*now_ms);
            let _ = all.update(&name, *now_ms, |record| record.put(&[b"cleared"], meta));
            all.clear();
            let _ = all.update(&other, *now_ms, |record| record.put(&[b"left"], meta));
        }
        15 if number < 64 => {
            let when_full =
                if number.is_multiple_of(2) { WhenFull::Evict } else { WhenFull::Refuse };
            let entries_max = Some(u64::from(number) + 1);
            table.set_limits(Limits { entries_max, bytes_max: Some(100_000), when_full });
            table.sweep(*now_ms, 0);
        }
        15 if number < 128 => table.set_limits(Limits::default()),
        _ => drop(table.read(&name, *now_ms, |entry| entry.is_some())),
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 300 },
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..ProptestConfig::default()
    })]

    #[test]
    fn replayed_events_lead_to_the_records_of_the_table(
        operations in prop::collection::vec((0..17u8, any::<u8>(), 0..400u16), 0..600),
        shards in 1..4usize,
        is_ordered in any::<bool>(),
        has_snapshot in any::<bool>(),
    ) {
        let order = KeyOrder { comparison: Comparison::Lexical, descending: false };
        let table = Table::new(Options {
            shards: Some(shards),
            order: is_ordered.then_some(order),
            ..Options::default()
        });
        let mut now_ms = START_MS;
        table.update(b"before", now_ms, |record| record.put(&[], Meta::default())).expect("room");
        let counted = Counted::new(1 << 20);
        table.observe(counted.clone()).expect("the first");
        let mut replica = Replica { versions: stored(&table), ..Replica::default() };
        let mut snapshot = None;
        for (number, (operation, key, argument)) in operations.into_iter().enumerate() {
            if has_snapshot && number % 50 == 10 {
                snapshot = None;
                snapshot = table.snapshot().or(snapshot);
            }
            operate(&table, operation, key % 32, argument, &mut now_ms);
            if number % 16 == 0 {
                replica.replay(&counted.queue);
                prop_assert_eq!(&replica.versions, &stored(&table), "after {}", number);
            }
        }
        drop(snapshot);
        replica.replay(&counted.queue);
        prop_assert_eq!(&replica.versions, &stored(&table));
        let made: u64 = replica.kinds.values().sum();
        prop_assert_eq!(made, counted.made.load(SeqCst));
    }
}

/// Takes all present events. Returns how many were seen and how many were lost; the version of a
/// key's events never decreases.
fn drain(queue: &EventQueue, versions: &mut HashMap<Vec<u8>, u64>) -> (u64, u64) {
    let (mut seen, mut lost) = (0, 0);
    loop {
        let (events, more) = queue.take();
        for queued in events.iter() {
            match queued {
                Queued::Lost(count) => lost += count,
                Queued::Event(event) => {
                    seen += 1;
                    if !event.kind.concerns_all() {
                        let last = versions.entry(event.key.to_vec()).or_default();
                        assert!(*last <= event.version, "{event:?} after version {last}");
                        *last = event.version;
                    }
                }
            }
        }
        if !more {
            return (seen, lost);
        }
    }
}

#[test]
fn a_slow_reader_knows_how_many_events_it_lost() {
    const WRITERS: u64 = 4;
    const WRITES: u64 = if cfg!(miri) { 60 } else { 20_000 };
    const EVENTS_MAX: usize = 16;
    let limits = Limits { entries_max: Some(40), ..Limits::default() };
    let table = Table::new(Options { limits, shards: Some(8), ..Options::default() });
    let counted = Counted::new(EVENTS_MAX);
    table.observe(counted.clone()).expect("the first");
    let (done, start) = (AtomicBool::new(false), Barrier::new(WRITERS as usize + 1));
    let (seen, lost) = thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (table, start) = (&table, &start);
                scope.spawn(move || {
                    start.wait();
                    for number in 0..WRITES {
                        let key = [(number * 7 + writer) as u8 % 64];
                        let now_ms = START_MS + number;
                        let meta = Meta { expires_at_ms: Some(now_ms + 5), ..Meta::default() };
                        match number % 8 {
                            5 => drop(table.update(&key, now_ms, |record| record.remove())),
                            6 => drop(table.sweep(now_ms, 4)),
                            7 if number % 1_024 == 7 => drop(table.clear()),
                            _ => drop(table.update(&key, now_ms, |record| record.put(&[], meta))),
                        }
                    }
                })
            })
            .collect();
        let reader = {
            let (counted, done, start) = (&counted, &done, &start);
            scope.spawn(move || {
                let (mut versions, mut seen, mut lost) = (HashMap::new(), 0, 0);
                start.wait();
                // Slower than the writers: it waits for more events than the queue can hold, so
                // most of them are lost.
                let mut next = EVENTS_MAX as u64 * 4;
                while !done.load(SeqCst) {
                    if counted.made.load(SeqCst) >= next {
                        let (more_seen, more_lost) = drain(&counted.queue, &mut versions);
                        (seen, lost) = (seen + more_seen, lost + more_lost);
                        next = counted.made.load(SeqCst) + EVENTS_MAX as u64 * 4;
                    }
                    thread::yield_now();
                }
                let (more_seen, more_lost) = drain(&counted.queue, &mut versions);
                (seen + more_seen, lost + more_lost)
            })
        };
        writers.into_iter().for_each(|writer| writer.join().expect("a writer"));
        done.store(true, SeqCst);
        reader.join().expect("the reader")
    });
    assert!(seen > 0 && lost > 0, "{seen} seen, {lost} lost");
    assert_eq!(seen + lost, counted.made.load(SeqCst));
}

#[test]
fn observers_are_bounded_and_leave_nothing_behind() {
    let table = Table::new(Options::default());
    let observers: Vec<Arc<Counted>> = (0..=OBSERVERS_MAX).map(|_| Counted::new(8)).collect();
    for observer in &observers[..OBSERVERS_MAX] {
        table.observe(observer.clone()).expect("within the bound");
    }
    assert_eq!(table.observe(observers[OBSERVERS_MAX].clone()), Err(TooManyObservers));
    let put = || table.update(b"key", START_MS, |record| record.put(&[], Meta::default()));
    put().expect("room");
    for (number, observer) in observers.iter().enumerate() {
        let expected = u64::from(number < OBSERVERS_MAX);
        assert_eq!(observer.made.load(SeqCst), expected);
        let as_observer: Arc<dyn Observer> = observer.clone();
        assert_eq!(table.forget(&as_observer), number < OBSERVERS_MAX);
        drop(as_observer);
        assert_eq!(Arc::strong_count(observer), 1);
    }
    put().expect("room");
    assert!(observers.iter().all(|observer| observer.made.load(SeqCst) <= 1));
}

#[test]
fn adopted_observers_see_the_exchange_before_any_event_of_the_new_table() {
    let tables = [Table::new(Options::default()), Table::new(Options::default())];
    let put = |table: &Table, key: &[u8]| {
        table.update(key, START_MS, |record| record.put(&[], Meta::default())).expect("room")
    };
    let counted = Counted::new(8);
    tables[0].observe(counted.clone()).expect("the first");
    put(&tables[1], b"unseen");
    put(&tables[0], b"a");
    tables[1].adopt_observers(tables[0].take_observers());
    put(&tables[0], b"unseen");
    put(&tables[1], b"b");
    let (events, _) = counted.queue.take();
    let event = |kind, key, version| Queued::Event(Event { kind, key, version });
    assert_eq!(
        events.iter().collect::<Vec<_>>(),
        [
            event(EventKind::Put, &b"a"[..], 1),
            event(EventKind::Swap, &b""[..], 1),
            event(EventKind::Put, &b"b"[..], 2),
        ]
    );
}
