//! A log of random changes, applied to a durable table as a log would: one thread, with the log's
//! time. Other uses of the table come between the changes and must not alter anything.

use todana_table::{
    Access, Comparison, Edit, KeyOrder, Keyspace, Loader, Meta, Options, Seen, Snapshot, Table,
    TableState, Walk, digest_of_entry,
};

pub(crate) const START_MS: u64 = 1_800_000_000_000;
/// Bytes that decode to one change, or to one other use.
pub(crate) const STEP_BYTES: usize = 5;
const KEYS: u8 = 60;
/// Keys that are long, so that their entries are counted.
const KEY_LONG_FROM: u8 = 50;

pub(crate) fn key(number: u8) -> Vec<u8> {
    let number = number % KEYS;
    if number < KEY_LONG_FROM { vec![number] } else { vec![number; 300] }
}

/// A durable table; `choice` determines its shards and its order.
pub(crate) fn table(choice: u8) -> Table {
    let lexical = KeyOrder::default();
    let decimal = KeyOrder { comparison: Comparison::Decimal, descending: true };
    let order = [None, Some(lexical), Some(decimal)][usize::from(choice) / 4 % 3];
    let shards = Some(1 << (choice % 4));
    Table::new(Options { durable: true, shards, order, seed: Some(3), ..Options::default() })
}

/// What applies a log.
pub(crate) struct Log<'t> {
    pub(crate) table: &'t Table,
    pub(crate) now_ms: u64,
    /// What a client would have received.
    pub(crate) replies: Vec<u64>,
    /// Versions at which clients saw keys.
    seen: Vec<(u8, u64)>,
}

impl<'t> Log<'t> {
    pub(crate) fn new(table: &'t Table) -> Log<'t> {
        Log { table, now_ms: START_MS, replies: Vec::new(), seen: Vec::new() }
    }

    /// The same log, which goes on with another table.
    pub(crate) fn on<'u>(&self, table: &'u Table) -> Log<'u> {
        let (replies, seen) = (Vec::new(), self.seen.clone());
        Log { table, now_ms: self.now_ms, replies, seen }
    }

    pub(crate) fn apply(&mut self, [kind, a, b, c, d]: [u8; STEP_BYTES]) {
        self.now_ms += u64::from(d % 8);
        let now_ms = self.now_ms;
        self.table.apply_due_clear(now_ms);
        let space = self.table;
        let reply = match kind % 16 {
            0..=6 => change(space, &key(a), b, c, now_ms),
            7 => {
                let (first, second) = (key(a), key(b));
                let locked = space.lock([&first[..], &second], now_ms);
                let replies = [&first, &second].map(|key| change(&locked, key, b, c, now_ms));
                replies[0] << 32 ^ replies[1]
            }
            8 => space.collect(usize::from(a % 8)..usize::from(a % 8 + b % 8), now_ms),
            9 => space.collect(0..space.shards(), now_ms),
            10 => {
                self.seen.push((a, space.version()));
                0
            }
            11 => {
                let since = |(number, version): &(u8, u64)| {
                    let is_absent = !space.read(&key(*number), now_ms, |entry| entry.is_some());
                    is_absent && !space.created_since(&key(*number), *version)
                };
                self.seen.drain(..).fold(0, |all, seen| all << 1 ^ u64::from(since(&seen)))
            }
            12 if a < 64 => {
                space.schedule_clear(now_ms + u64::from(b));
                0
            }
            13 if a < 16 => space.clear(),
            14 if a < 64 => {
                let locked = space.lock_all(now_ms);
                if b < 64 {
                    locked.clear();
                }
                change(&locked, &key(b), b, c, now_ms)
            }
            _ => {
                self.now_ms += u64::from(c);
                space.len_at(now_ms)
            }
        };
        self.replies.push(reply);
        self.replies.push(space.version());
    }
}

/// Changes one key. Returns a number for everything that the change found and did.
fn change(space: &impl Keyspace, key: &[u8], kind: u8, size: u8, now_ms: u64) -> u64 {
    // Large enough for a body, sometimes.
    let len = if size < 240 { usize::from(size) % 20 } else { 16_384 + usize::from(size) };
    let value = vec![size; len];
    let meta = Meta {
        expires_at_ms: (kind & 1 > 0).then_some(now_ms + u64::from(size)),
        flags: u32::from(size & 2),
        access: (size & 1 > 0).then_some(Access { won: size & 4 > 0, ..Access::default() }),
    };
    if kind % 16 >= 14 {
        return space.edit(key, now_ms, Edit::Append(&value), |record, draft| {
            record.put_edited(draft, meta).expect("room")
        });
    }
    space.update(key, now_ms, |record| {
        let found = record.entry().map_or(0, |entry| {
            digest_of_entry(entry.key(), entry.stored().bytes(), &entry.meta(), entry.version())
        });
        let done = match kind % 16 {
            0..=5 => record.put(&[&value], meta).expect("room"),
            6..=9 => u64::from(record.remove()),
            10..=11 => record.set_meta(meta).map_or(0, |put| put.expect("room")),
            _ => {
                let access = record.entry().and_then(|entry| entry.meta().access);
                let stale = access.map(|access| Access { stale: size & 8 > 0, ..access });
                stale.map_or(0, |access| u64::from(record.set_access(access)))
            }
        };
        found ^ done
    })
}

/// A use of the table that may not change it; `clock_ms` is the user's clock.
pub(crate) fn use_table(table: &Table, [kind, a, b, c, _]: [u8; STEP_BYTES], clock_ms: u64) {
    let key = key(a);
    match kind % 10 {
        0 => table
            .read(&key, clock_ms, |entry| entry.iter().for_each(|it| it.note_access(u64::from(b)))),
        1 => table.read_in_place(&key, clock_ms, |entry| drop(entry.map(|it| it.share()))),
        2 => drop(table.scan(u64::from(a % 8), usize::from(b), clock_ms, |_| ())),
        3 => {
            let walk = Walk { after: Some(&key), count: usize::from(b % 8), ..Walk::default() };
            assert!(table.walk(&walk, clock_ms, |_| ()).is_ok());
        }
        4 => table.random(c.into(), clock_ms, |_| ()),
        5 => match table.see(&key, clock_ms) {
            Seen::Version(version) => assert!(version <= table.version()),
            Seen::Absent(absence) => drop(absence.until()),
        },
        6 => {
            let locked = table.lock_all(clock_ms);
            locked.scan(0, usize::MAX, clock_ms, |_| ());
            locked.read(&key, clock_ms, |_| ());
            locked.random(c.into(), clock_ms, |_| ());
            assert!(locked.walk(&Walk { count: 3, ..Walk::default() }, clock_ms, |_| ()).is_ok());
        }
        7 => assert_eq!(table.sweep(clock_ms, 1_000).0, 0),
        8 => drop(table.due_shards(clock_ms, usize::from(a % 8), usize::from(b))),
        _ => drop((table.len_at(clock_ms), table.digest(), table.state())),
    }
}

/// The time of a clock that is up to two minutes off.
pub(crate) fn clock(log_ms: u64, byte: u8) -> u64 {
    match byte % 3 {
        0 => log_ms,
        1 => log_ms + u64::from(byte) * 500,
        _ => log_ms - u64::from(byte) * 500,
    }
}

/// An entry of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) meta: Meta,
    pub(crate) version: u64,
}

/// A snapshot in progress.
pub(crate) struct Dump<'t> {
    pub(crate) state: TableState,
    snapshot: Snapshot<'t>,
    rows: Vec<Row>,
    more: bool,
}

impl<'t> Dump<'t> {
    pub(crate) fn begin(table: &'t Table) -> Dump<'t> {
        let snapshot = table.snapshot_for_log();
        Dump { state: table.state(), snapshot, rows: Vec::new(), more: true }
    }

    /// Reads some entries. `None` if the snapshot was abandoned.
    pub(crate) fn step(&mut self, count: usize) -> Option<()> {
        let rows = &mut self.rows;
        let more = self.snapshot.next_part(count, |entry| {
            let (key, value) = (entry.key().to_vec(), entry.stored().bytes().to_vec());
            rows.push(Row { key, value, meta: entry.meta(), version: entry.version() });
        });
        self.more = more.ok()?;
        Some(())
    }

    /// Reads the rest.
    pub(crate) fn finish(mut self) -> (TableState, Vec<Row>) {
        while self.more {
            self.step(7).expect("not abandoned");
        }
        (self.state, self.rows)
    }
}

/// The digest of these entries.
pub(crate) fn digest_of(rows: &[Row]) -> u64 {
    let digest = |row: &Row| digest_of_entry(&row.key, &row.value, &row.meta, row.version);
    rows.iter().map(digest).fold(0, |all, one| all ^ one)
}

/// Loads entries into a table that has been restored, from several threads.
pub(crate) fn load(table: &Table, rows: &[Row], now_ms: u64, threads: usize) {
    let put = |loader: &mut Loader, row: &Row| {
        loader
            .put(&row.key, todana_table::Stored::string(&row.value), row.meta, row.version)
            .expect("a valid entry");
    };
    std::thread::scope(|scope| {
        for part in rows.chunks(rows.len().div_ceil(threads).max(1)) {
            let mut loader = table.loader(now_ms);
            scope.spawn(move || part.iter().for_each(|row| put(&mut loader, row)));
        }
    });
}

/// Everything of a table that decides later replies.
pub(crate) fn whole(table: &Table) -> (TableState, u64, Vec<Row>) {
    let (state, mut rows) = Dump::begin(table).finish();
    assert_eq!(table.digest(), digest_of(&rows));
    rows.sort_by_key(|row| row.version);
    // When entries were read is not part of it.
    for row in &mut rows {
        if let Some(access) = &mut row.meta.access {
            (access.last_s, access.fetched) = (0, false);
        }
    }
    (state, table.digest(), rows)
}
