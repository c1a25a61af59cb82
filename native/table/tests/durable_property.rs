//! Whatever else happens to a durable table, the log decides its content; and a table that was
//! restored from a snapshot is like the one before.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use todana_table::{Abandoned, Keyspace, Seen, Snapshot, Table, digest_of_entry};

use log::{Dump, Log, START_MS, STEP_BYTES, digest_of, load, use_table, whole};

mod log;

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases: if cfg!(miri) { 3 } else { cases },
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..ProptestConfig::default()
    }
}

fn steps(max: usize) -> impl Strategy<Value = Vec<[u8; STEP_BYTES]>> {
    prop::collection::vec(any::<[u8; STEP_BYTES]>(), 0..max)
}

/// Snapshots of users and of the log.
#[derive(Default)]
struct Snapshots<'t> {
    users: Option<Users<'t>>,
    logs: Option<Dump<'t>>,
    /// The digest of the table when the log's began.
    digest: u64,
}

struct Users<'t> {
    snapshot: Snapshot<'t>,
    /// The digest of what has not been visited.
    left: u64,
    is_abandoned: bool,
}

impl<'t> Snapshots<'t> {
    fn step(&mut self, table: &'t Table, [kind, a, ..]: [u8; STEP_BYTES]) {
        let count = usize::from(a % 32);
        match kind % 8 {
            0 => {
                self.users = None;
                let users =
                    |snapshot| Users { snapshot, left: table.digest(), is_abandoned: false };
                self.users = table.snapshot_owned().map(users);
                assert_eq!(self.users.is_none(), self.logs.is_some());
            }
            1..=2 => {
                let Some(users) = &mut self.users else { return };
                let left = &mut users.left;
                let step = users.snapshot.next_part(count, |entry| {
                    *left ^= digest_of_entry(
                        entry.key(),
                        entry.stored().bytes(),
                        &entry.meta(),
                        entry.version(),
                    );
                });
                assert_eq!(step == Err(Abandoned), users.is_abandoned);
                if step == Ok(false) {
                    assert_eq!(users.left, 0);
                }
            }
            3 if a < 128 => self.users = None,
            4 => {
                self.logs = Some(Dump::begin(table));
                self.digest = table.digest();
                self.users.iter_mut().for_each(|users| users.is_abandoned = true);
            }
            5..=6 => {
                let step = self.logs.as_mut().map(|it| it.step(count));
                assert_ne!(step, Some(None), "nothing abandons the log's");
            }
            7 => {
                if let Some(dump) = self.logs.take() {
                    assert_eq!(digest_of(&dump.finish().1), self.digest);
                }
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn only_the_log_decides(
        changes in steps(300),
        others in steps(900),
        choice in any::<u8>(),
    ) {
        let tables = [log::table(choice), log::table(choice)];
        let [mut quiet, mut busy] = tables.each_ref().map(Log::new);
        let mut snapshots = Snapshots::default();
        let mut others = others.into_iter();
        for (number, change) in changes.into_iter().enumerate() {
            for other in others.by_ref().take(number % 7) {
                if other[0] < 128 {
                    use_table(busy.table, other, log::clock(busy.now_ms, other[4]));
                } else {
                    snapshots.step(busy.table, other);
                }
            }
            quiet.apply(change);
            busy.apply(change);
            prop_assert_eq!(quiet.replies.last_chunk::<2>(), busy.replies.last_chunk::<2>());
        }
        drop(snapshots);
        prop_assert_eq!(busy.table.counts().kept_bytes, 0);
        prop_assert_eq!(whole(&tables[0]), whole(&tables[1]));
        let [quiet, busy] = tables.each_ref().map(|table| (table.len(), table.bytes()));
        prop_assert_eq!(quiet, busy);
    }

    #[test]
    fn a_restored_table_is_like_the_one_before(
        before in steps(300),
        meanwhile in steps(60),
        after in steps(200),
        choice in any::<u8>(),
    ) {
        let table = log::table(choice);
        let mut original = Log::new(&table);
        before.into_iter().for_each(|change| original.apply(change));
        // The log goes on while the snapshot is written, and is replayed after the restart.
        let mut dump = Dump::begin(&table);
        let digest = table.digest();
        let restored = log::table(choice);
        let mut replay = original.on(&restored);
        original.replies.clear();
        for (number, change) in meanwhile.iter().enumerate() {
            original.apply(*change);
            if number % 3 == 0 {
                dump.step(2).expect("not abandoned");
            }
        }
        let (state, rows) = dump.finish();
        prop_assert_eq!(digest_of(&rows), digest);
        // The restored table had other entries before.
        let mut other = Log::new(&restored);
        after.iter().for_each(|change| other.apply(*change));
        restored.restore(&state).expect("a table of the same seed");
        prop_assert_eq!((restored.len(), restored.digest()), (0, 0));
        load(&restored, &rows, replay.now_ms, 3);
        prop_assert_eq!((restored.len(), restored.digest()), (rows.len() as u64, digest));
        prop_assert_eq!(&restored.state(), &state);
        for change in meanwhile {
            replay.apply(change);
        }
        prop_assert_eq!(whole(&table), whole(&restored));
        for change in after {
            original.apply(change);
            replay.apply(change);
        }
        prop_assert_eq!(&original.replies, &replay.replies);
        prop_assert_eq!(whole(&table), whole(&restored));
        for cursor in 0..table.shards() as u64 {
            let scan = |table: &Table| {
                let mut keys = Vec::new();
                let visit = |entry: todana_table::Entry<'_>| keys.push(entry.key().to_vec());
                let next = table.scan(cursor, 1, original.now_ms, visit);
                keys.sort();
                (next, keys)
            };
            prop_assert_eq!(scan(&table), scan(&restored));
        }
        let walk = |table: &Table| {
            let walk = todana_table::Walk { count: 1_000, ..Default::default() };
            let mut keys = Vec::new();
            let end = table.walk(&walk, original.now_ms, |it| keys.push(it.key().to_vec()));
            (end, keys)
        };
        prop_assert_eq!(walk(&table), walk(&restored));
        let counts = |table: &Table| {
            let counts = table.counts();
            (counts.entries, counts.entries_with_expiry, counts.version)
        };
        prop_assert_eq!(counts(&table), counts(&restored));
        // Nothing is left in the indexes, the deadlines and the order but what the entries need.
        for table in [&table, &restored] {
            table.collect(0..table.shards(), u64::MAX - 1);
            table.clear();
        }
        prop_assert_eq!([table.bytes(), restored.bytes()], [0, 0]);
    }

    #[test]
    fn collecting_does_not_depend_on_the_past(
        changes in steps(300),
        collected in prop::collection::vec((0..8usize, 0..8usize, 0..100u64), 0..20),
        choice in any::<u8>(),
    ) {
        let (table, restored) = (log::table(choice), log::table(choice));
        let mut log = Log::new(&table);
        changes.into_iter().for_each(|change| log.apply(change));
        let (state, rows) = Dump::begin(&table).finish();
        restored.restore(&state).expect("a table of the same seed");
        load(&restored, &rows, log.now_ms, 1);
        let mut now_ms = log.now_ms;
        for (from, count, after_ms) in collected {
            now_ms += after_ms;
            let shards = from..from + count;
            let due = |row: &&log::Row| row.meta.expires_at_ms.is_some_and(|at| at <= now_ms);
            let removed = table.collect(shards.clone(), now_ms);
            prop_assert_eq!(restored.collect(shards, now_ms), removed);
            prop_assert_eq!(restored.digest(), table.digest());
            if table.shards() == 1 && from == 0 && count > 0 {
                let left = rows.len() - rows.iter().filter(due).count();
                prop_assert_eq!(table.len(), left as u64);
            }
        }
        prop_assert_eq!(whole(&table), whole(&restored));
    }
}

/// A sequence that prints its seed if a test fails.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn step(&mut self) -> [u8; STEP_BYTES] {
        std::array::from_fn(|_| (self.roll() >> 32) as u8)
    }
}

#[test]
fn only_the_log_decides_while_other_threads_use_the_table() {
    let (rounds, changes) = if cfg!(miri) { (1, 60) } else { (40, 2_000) };
    for round in 1..=rounds {
        let seed = 0x9e37_79b9_7f4a_7c15 ^ round << 32;
        let choice = round as u8;
        let tables = [log::table(choice), log::table(choice)];
        let [mut quiet, mut busy] = tables.each_ref().map(Log::new);
        let (over, log_ms) = (AtomicBool::new(false), AtomicU64::new(START_MS));
        thread::scope(|scope| {
            for number in 1..=3 {
                let (table, over, log_ms) = (busy.table, &over, &log_ms);
                scope.spawn(move || {
                    let mut dice = Dice(seed ^ number);
                    let mut users = None;
                    while !over.load(SeqCst) {
                        let step = dice.step();
                        if number > 1 || step[0] < 200 {
                            use_table(table, step, log::clock(log_ms.load(SeqCst), step[4]));
                        } else if step[0] < 210 {
                            users = table.snapshot_owned();
                        } else if let Some(snapshot) = &mut users {
                            let _ = snapshot.next_part(9, |entry| drop(entry.share()));
                        }
                    }
                });
            }
            let mut dice = Dice(seed);
            let mut dump = None;
            for _ in 0..changes {
                let change = dice.step();
                quiet.apply(change);
                busy.apply(change);
                log_ms.store(busy.now_ms, SeqCst);
                match dice.roll() % 64 {
                    0 => dump = Some((quiet.table.digest(), Dump::begin(busy.table))),
                    1 => {
                        if let Some((digest, dump)) = dump.take() {
                            assert_eq!(digest_of(&dump.finish().1), digest, "seed {seed}");
                        }
                    }
                    _ => {}
                }
            }
            over.store(true, SeqCst);
        });
        assert_eq!(quiet.replies, busy.replies, "seed {seed}");
        assert_eq!(whole(&tables[0]), whole(&tables[1]), "seed {seed}");
        assert_eq!(busy.table.counts().kept_bytes, 0, "seed {seed}");
    }
}

#[test]
fn the_version_of_an_absence_misses_no_creation() {
    let rounds = if cfg!(miri) { 10 } else { 20_000 };
    let table = log::table(0);
    let key = &b"k"[..];
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for _ in 0..rounds {
                let put =
                    table.update(key, START_MS, |record| record.put(&[b"v"], Default::default()));
                assert!(put.is_ok());
                assert!(table.update(key, START_MS, |record| record.remove()));
            }
        });
        while !writer.is_finished() {
            if let Seen::Absent(absence) = table.see(key, START_MS)
                && let Some(version) = absence.until()
            {
                let locked = table.lock([key], START_MS);
                assert_eq!(absence.lasts(), !locked.created_since(key, version));
            }
        }
    });
}
