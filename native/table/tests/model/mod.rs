//! A table beside a model of it: decodes operations from bytes, runs them on both, and compares at
//! each step.
//!
//! The property test in this folder and the fuzz target use it. Six bytes are one operation, so
//! that removing some leaves the others unchanged.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use todana_table::{
    Access, Budget, Comparison, Edit, Entry, Full, KeyOrder, Keyspace, Lent, Limits, LockedKey,
    Meta, Options, Prepared, Shared, Snapshot, Table, Walk, Walked, WhenFull, Written,
};

/// Bytes that decode to one operation.
pub(crate) const OPERATION_BYTES: usize = 6;

const KEYS: u8 = 40;
const START_MS: u64 = 1_800_000_000_000;

/// An operation on one key, in a table or in a transaction.
#[derive(Clone, Copy, Debug)]
enum KeyOperation {
    Read,
    ReadInPlace,
    Note,
    Put {
        len: usize,
        meta: u8,
    },
    Edit {
        choice: u8,
        len: usize,
        meta: u8,
    },
    /// Takes a handle to the entry.
    Share,
    /// Writes a value that most often only replaces bytes.
    Over {
        len: usize,
    },
    /// Writes a value that is not copied.
    PutLent {
        len: usize,
        meta: u8,
    },
    /// Writes the value of the last handle that was taken.
    PutSame {
        meta: u8,
    },
    SetMeta {
        meta: u8,
    },
    SetAccess,
    Remove,
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Key(u8, KeyOperation),
    Transaction { first: u8, second: u8, operation: KeyOperation },
    TransactionOfAll { key: u8, operation: KeyOperation, clear: bool, seed: u8 },
    Scan { cursor: u8, count: u8 },
    Random { seed: u8 },
    Sweep { work_max: u8 },
    Advance { ms: u8 },
    Clear,
    ScheduleClear { after_ms: u8 },
    BeginSnapshot,
    StepSnapshot { count: u8 },
    EndSnapshot,
    SetLimits { entries_max: u8, bytes_max: u8 },
    DropHandles,
    Check,
}

impl KeyOperation {
    fn decode(choice: u8, size: u8, meta: u8) -> KeyOperation {
        // Around the boundary of the layouts, and sometimes well beyond.
        let len = if size < 200 { usize::from(size) } else { usize::from(size - 200) * 20 + 245 };
        match choice % 16 {
            0 => KeyOperation::Read,
            1 => KeyOperation::Over { len },
            2 => KeyOperation::ReadInPlace,
            3 => KeyOperation::Note,
            4..=6 => KeyOperation::Put { len, meta },
            7 | 12..=13 => KeyOperation::Edit { choice: size ^ meta, len, meta },
            8 => KeyOperation::SetMeta { meta },
            9 => KeyOperation::SetAccess,
            11 => KeyOperation::PutLent { len, meta },
            14 => KeyOperation::Share,
            15 => KeyOperation::PutSame { meta },
            _ => KeyOperation::Remove,
        }
    }
}

impl Operation {
    fn decode([kind, a, b, c, d, e]: [u8; OPERATION_BYTES]) -> Operation {
        let operation = KeyOperation::decode(c, d, e);
        match kind % 32 {
            0..=13 => Operation::Key(a % KEYS, operation),
            14..=16 => Operation::Transaction { first: a % KEYS, second: b % KEYS, operation },
            17..=18 => {
                Operation::TransactionOfAll { key: a % KEYS, operation, clear: b < 20, seed: b }
            }
            19 => Operation::Scan { cursor: a % 10, count: b },
            20 => Operation::Random { seed: a },
            21 => Operation::Sweep { work_max: a % 10 },
            22..=23 => Operation::Advance { ms: a },
            24 if a < 64 => Operation::Clear,
            25 => Operation::ScheduleClear { after_ms: a },
            26 => Operation::BeginSnapshot,
            27..=28 => Operation::StepSnapshot { count: a },
            29 if a < 64 => Operation::EndSnapshot,
            29 if a < 128 => Operation::DropHandles,
            30 => Operation::SetLimits { entries_max: a, bytes_max: b },
            _ => Operation::Check,
        }
    }
}

/// The model's view of an entry.
#[derive(Clone)]
struct Row {
    value: Vec<u8>,
    meta: Meta,
    version: u64,
    /// Size of the entry: once it was read, including the spare capacity of its value.
    bytes: u64,
    /// Whether the value is lent; unknown of a row that was read.
    lent: bool,
}

/// Keeps the bytes of a value that is lent.
struct Owner {
    _bytes: Box<[u8]>,
    _alive: Arc<()>,
}

/// What an owner is said to keep beside the value.
const BESIDE_BYTES: usize = 64;

impl PartialEq for Row {
    fn eq(&self, other: &Row) -> bool {
        (self.version, self.meta, &self.value) == (other.version, other.meta, &other.value)
    }
}

impl std::fmt::Debug for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Row { value, meta, version, bytes, lent } = self;
        let start = &value[..value.len().min(32)];
        let lent = if *lent { "lent, " } else { "" };
        write!(f, "{version}: {start:?} of {}, {lent}{bytes} bytes, {meta:?}", value.len())
    }
}

/// Values of this length and more are stored apart from their entries, with possible spare
/// capacity.
const BODY_BYTES_MIN: usize = 16 * 1024;

impl Row {
    fn new(key: &[u8], value: Vec<u8>, meta: Meta, version: u64, lent: bool) -> Row {
        let row = Row { value, meta, version, bytes: 0, lent };
        Row { bytes: row.bytes(key, 0), ..row }
    }

    fn of(entry: &Entry<'_>) -> Row {
        let (value, meta, version) =
            (entry.stored().bytes().to_vec(), entry.meta(), entry.version());
        Row { value, meta, version, bytes: entry.bytes() as u64, lent: false }
    }

    fn is_live(&self, now_ms: u64) -> bool {
        self.meta.expires_at_ms.is_none_or(|at_ms| at_ms > now_ms)
    }

    /// The entry's bytes, computed from the documented layout, for a value with this much spare
    /// capacity.
    fn bytes(&self, key: &[u8], room: usize) -> u64 {
        let allocated = |bytes: usize| (bytes + 8).div_ceil(16).max(2) as u64 * 16;
        let has_body = self.value.len() >= BODY_BYTES_MIN || self.lent;
        let wide = key.len() > 255 || self.value.len() > 255 || self.lent;
        let mut bytes = if wide { 32 } else { 8 };
        bytes += if self.meta.expires_at_ms.is_some() { 8 } else { 0 };
        bytes += if self.meta.access.is_some() { 8 } else { 0 };
        bytes += if self.meta.flags != 0 && !wide { 4 } else { 0 };
        bytes += if has_body { 8 } else { self.value.len() };
        let body = match has_body {
            _ if self.lent => {
                let held = (self.value.len() + BESIDE_BYTES) as u64;
                held + allocated(32 + size_of::<Owner>())
            }
            true => allocated(16 + self.value.len() + room),
            false => 0,
        };
        allocated(bytes + key.len()) + body
    }

    /// Records the entry's bytes after checking them against the layout.
    fn note_bytes(&mut self, key: &[u8], bytes: u64) {
        let room = self.value.len() / 4;
        let expected = self.bytes(key, 0)..=self.bytes(key, room);
        assert!(expected.contains(&bytes), "{bytes} bytes for {self:?}");
        self.bytes = bytes;
    }
}

type Rows = BTreeMap<Vec<u8>, Row>;

/// The relation that must hold between table and model.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    /// They are equal.
    Exact,
    /// They are equal, and the model predicts refusals.
    Refuse,
    /// The table may have fewer entries, but none that the model does not have.
    Evict,
}

struct Model<'t> {
    table: &'t Table,
    mode: Mode,
    limits: Limits,
    /// Expired rows may linger here, as in the table.
    rows: Rows,
    now_ms: u64,
    clear_at_ms: u64,
    stamp: u32,
    version: u64,
    snapshot: Option<(Snapshot<'t>, Rows, u64, Rows)>,
    /// Handles, and the values that they must show even after their keys change.
    handles: Vec<(Shared, Row)>,
    /// Owners of lent values have references.
    alive: Arc<()>,
    /// Whether some values are large. It takes time to compare them.
    large: bool,
}

/// Prints the operations that led to a failure.
struct Trace(Vec<Operation>);

impl Drop for Trace {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.iter().for_each(|operation| eprintln!("{operation:?}"));
        }
    }
}

/// Runs the operations on a table and on the model. Panics if they differ.
pub(crate) fn run(bytes: &[u8]) {
    let (operations, rest) = bytes.as_chunks::<OPERATION_BYTES>();
    let mode = match rest.first().map_or(0, |byte| byte % 3) {
        0 => Mode::Exact,
        1 => Mode::Refuse,
        _ => Mode::Evict,
    };
    let budget = Arc::new(Budget::new(i64::MAX, WhenFull::Evict));
    let options = Options {
        shards: Some(if bytes.len().is_multiple_of(2) { 8 } else { 1 }),
        seed: Some(bytes.len() as u64),
        budget: Some(Arc::clone(&budget)),
        order: order_of(rest.first().map_or(0, |byte| byte / 3)),
        ..Options::default()
    };
    let table = Table::new(options);
    let large = rest.first().is_some_and(|byte| byte / 24 % 8 == 7);
    let mut model = Model::new(&table, mode, large);
    let mut trace = Trace(Vec::new());
    for operation in operations {
        let operation = Operation::decode(*operation);
        trace.0.push(operation);
        model.step(operation);
        assert_eq!(budget.bytes.load(SeqCst), table.bytes() as i64);
    }
    model.check();
    model.snapshot = None;
    model.drop_handles();
    table.clear();
    assert_eq!((table.len(), table.bytes(), table.counts().entries_with_expiry), (0, 0, 0));
    // The reaper may have some.
    let began = Instant::now();
    while Arc::strong_count(&model.alive) > 1 && began.elapsed() < Duration::from_secs(60) {
        std::thread::yield_now();
    }
    assert_eq!(Arc::strong_count(&model.alive), 1, "values that nobody has released");
}

fn order_of(choice: u8) -> Option<KeyOrder> {
    let comparison = if choice & 2 == 0 { Comparison::Lexical } else { Comparison::Decimal };
    (choice % 8 < 4).then_some(KeyOrder { comparison, descending: choice & 1 != 0 })
}

/// Short keys, and some that make their entry a wide one.
fn key_of(number: u8) -> Vec<u8> {
    let len = if number.is_multiple_of(5) { 300 } else { usize::from(number % 5) * 4 };
    let mut key = vec![b'k'; len];
    key.push(number);
    key
}

fn access_of(bits: u8) -> Access {
    let bit = |n: u8| bits & n != 0;
    Access { last_s: u32::from(bits), fetched: bit(1), stale: bit(2), won: bit(4) }
}

impl<'t> Model<'t> {
    fn new(table: &'t Table, mode: Mode, large: bool) -> Model<'t> {
        Model {
            table,
            mode,
            limits: Limits::default(),
            rows: Rows::new(),
            now_ms: START_MS,
            clear_at_ms: u64::MAX,
            stamp: 0,
            version: 0,
            snapshot: None,
            handles: Vec::new(),
            alive: Arc::new(()),
            large,
        }
    }

    fn step(&mut self, operation: Operation) {
        if self.mode == Mode::Refuse {
            // Refusals depend on what is stored, so make that equal to the model first.
            self.collect();
        }
        let version = self.version;
        match operation {
            Operation::Key(key, operation) => self.key(self.table, key, operation),
            Operation::Transaction { first, second, operation } => {
                self.transaction(first, second, operation)
            }
            Operation::TransactionOfAll { key, operation, clear, seed } => {
                self.transaction_of_all(key, operation, clear, seed)
            }
            Operation::Scan { cursor, count } => self.scan(cursor, count),
            Operation::Random { seed } => self.random(self.table, seed),
            Operation::Sweep { work_max } => {
                self.observe();
                self.table.sweep(self.now_ms, usize::from(work_max));
            }
            Operation::Advance { ms } => self.now_ms += u64::from(ms),
            Operation::Clear => self.clear(),
            Operation::ScheduleClear { after_ms } => {
                self.clear_at_ms = self.now_ms + u64::from(after_ms);
                self.table.schedule_clear(self.clear_at_ms);
            }
            Operation::BeginSnapshot => self.begin_snapshot(),
            Operation::StepSnapshot { count } => self.step_snapshot(count),
            Operation::EndSnapshot => self.snapshot = None,
            Operation::SetLimits { entries_max, bytes_max } => {
                self.set_limits(entries_max, bytes_max)
            }
            Operation::DropHandles => self.drop_handles(),
            Operation::Check => self.check(),
        }
        self.assert_limits(version);
    }

    /// The first effect of any operation that has the time.
    fn observe(&mut self) {
        if self.now_ms >= self.clear_at_ms {
            self.clear_at_ms = u64::MAX;
            self.rows.clear();
        }
    }

    /// Removes everything that has expired from table and model.
    fn collect(&mut self) {
        self.observe();
        while self.table.sweep(self.now_ms, 3).1 {}
        let now_ms = self.now_ms;
        self.rows.retain(|_, row| row.is_live(now_ms));
    }

    fn live(&self, key: &[u8]) -> Option<&Row> {
        self.rows.get(key).filter(|row| row.is_live(self.now_ms))
    }

    /// Compares what was read at a key with the model.
    fn compare(&mut self, key: &[u8], seen: Option<Row>) {
        if self.mode == Mode::Evict && seen.is_none() && self.live(key).is_some() {
            self.rows.remove(key);
        }
        assert_eq!(seen.as_ref(), self.live(key), "{}", key.escape_ascii());
        if let (Some(seen), Some(row)) = (seen, self.rows.get_mut(key)) {
            row.note_bytes(key, seen.bytes);
        }
    }

    fn key(&mut self, space: &impl Keyspace, number: u8, operation: KeyOperation) {
        self.observe();
        let (key, now_ms) = (key_of(number), self.now_ms);
        space.prefetch(&[&key, b"another"]);
        let seen = space.read(&key, now_ms, |entry| entry.map(|entry| Row::of(&entry)));
        self.compare(&key, seen);
        match operation {
            KeyOperation::Read => {}
            // In a transaction the shard is locked already.
            KeyOperation::ReadInPlace if !std::ptr::addr_eq(space, self.table) => {}
            KeyOperation::ReadInPlace => {
                let look = |entry: Option<Entry<'_>>| entry.map(|entry| Row::of(&entry));
                let seen = self.table.read_in_place(&key, now_ms, look);
                self.compare(&key, seen);
            }
            KeyOperation::Note => self.note(space, &key),
            KeyOperation::Put { len, meta } => self.put(space, &key, self.len(number, len), meta),
            KeyOperation::Over { len } => self.put_over(space, &key, self.len(number, len)),
            KeyOperation::PutLent { len, meta } => {
                self.put_lent(space, &key, self.len(number, len), meta)
            }
            KeyOperation::Edit { choice, len, meta } => {
                self.edit(space, &key, choice, self.len(number, len), meta)
            }
            KeyOperation::Share => {
                let share = |entry: Option<Entry<'_>>| Some((entry?.share()?, Row::of(&entry?)));
                let lent = self.live(&key).is_some_and(|row| row.lent);
                let shared = space.read(&key, now_ms, share);
                self.handles.extend(shared.map(|(handle, row)| (handle, Row { lent, ..row })));
            }
            KeyOperation::PutSame { meta } => self.put_same(space, &key, meta),
            KeyOperation::SetMeta { meta } => self.set_meta(space, &key, meta),
            KeyOperation::SetAccess => self.set_access(space, &key),
            KeyOperation::Remove => {
                let removed = space.update(&key, now_ms, |record| record.remove());
                assert_eq!(removed, self.live(&key).is_some());
                self.rows.remove(&key);
            }
        }
        let seen = space.read(&key, now_ms, |entry| entry.map(|entry| Row::of(&entry)));
        self.compare(&key, seen);
    }

    fn note(&mut self, space: &impl Keyspace, key: &[u8]) {
        let now_ms = self.now_ms;
        space.read(key, now_ms, |entry| {
            if let Some(entry) = entry {
                entry.note_access(now_ms);
            }
        });
        let last_s = (self.now_ms / 1_000) as u32;
        self.change_access(key, |access| Access { last_s, fetched: true, ..access });
    }

    fn set_access(&mut self, space: &impl Keyspace, key: &[u8]) {
        self.stamp += 1;
        let access = access_of(self.stamp as u8);
        let set = space.update(key, self.now_ms, |record| record.set_access(access));
        assert_eq!(set, self.live(key).is_some_and(|row| row.meta.access.is_some()));
        self.change_access(key, |_| access);
    }

    fn change_access(&mut self, key: &[u8], change: impl Fn(Access) -> Access) {
        // A snapshot shows the present access words: they are not part of the immutable entry.
        let snapshot = self.snapshot.iter_mut().flat_map(|(_, rows, ..)| rows.get_mut(key));
        let Some(row) = self.rows.get(key) else { return };
        let version = row.version;
        for row in self.rows.get_mut(key).into_iter().chain(snapshot) {
            if row.version == version && row.is_live(self.now_ms) {
                row.meta.access = row.meta.access.map(&change);
            }
        }
    }

    fn put(&mut self, space: &impl Keyspace, key: &[u8], len: usize, meta: u8) {
        let (value, meta) = (self.value(len), self.meta(meta));
        let (left, right) = value.split_at(len / 3);
        let put = space.update(key, self.now_ms, |record| record.put(&[left, &[], right], meta));
        self.wrote(key, value, meta, put);
    }

    fn put_lent(&mut self, space: &impl Keyspace, key: &[u8], len: usize, meta: u8) {
        // Most of them only replace the value.
        let (value, meta) = (self.value(len), self.meta(if meta < 128 { 0 } else { meta }));
        let owner = Owner { _bytes: value.clone().into(), _alive: Arc::clone(&self.alive) };
        let bytes: *const [u8] = &raw const *owner._bytes;
        // SAFETY: a boxed slice stays at its address while it is moved, and nothing changes it.
        let lent = unsafe { Lent::new(&*bytes, len + BESIDE_BYTES, owner) }.expect("memory");
        let put = |record: &mut LockedKey<'_>, lent: Lent| {
            record.put_prepared(Prepared::lent(key, lent, meta)?)
        };
        let put = if std::ptr::addr_eq(space, self.table) {
            let is_plain = meta == Meta::default();
            let put = |record: &mut LockedKey<'_>, lent, _| put(record, lent);
            match self.table.write_lent(key, self.now_ms, lent, is_plain, put) {
                Written::Over(version) => return self.wrote_over(key, value, version, true),
                Written::Changed(put) => put,
            }
        } else {
            space.update(key, self.now_ms, |record| put(record, lent))
        };
        self.wrote_lent(key, value, meta, put);
    }

    fn put_over(&mut self, space: &impl Keyspace, key: &[u8], len: usize) {
        let value = self.value(self.live(key).map_or(len, |row| row.value.len()));
        let put = |record: &mut LockedKey<'_>| record.put(&[&value], Meta::default());
        let put = if std::ptr::addr_eq(space, self.table) {
            let over = |_: &[u8]| Some(&*value);
            match self.table.write(key, self.now_ms, over, |record, _| put(record)) {
                Written::Over(version) => return self.wrote_over(key, value, version, false),
                Written::Changed(put) => put,
            }
        } else {
            space.update(key, self.now_ms, put)
        };
        self.wrote(key, value, Meta::default(), put);
    }

    /// An entry that is written over takes several versions at a time.
    fn wrote_over(&mut self, key: &[u8], value: Vec<u8>, version: u64, lent: bool) {
        let before = self.live(key).expect("a record").version;
        self.version = self.table.version();
        assert!(before < version && version <= self.version);
        let row = Row::new(key, value, Meta::default(), version, lent);
        self.rows.insert(key.to_vec(), row);
    }

    /// In some cases some keys have values near the length from which they are shared.
    fn len(&self, number: u8, len: usize) -> usize {
        let large = self.large && number.is_multiple_of(8) && len >= 200;
        if large { BODY_BYTES_MIN - 400 + len } else { len }
    }

    fn edit(&mut self, space: &impl Keyspace, key: &[u8], choice: u8, len: usize, meta: u8) {
        // An entry that is never read alive has spare capacity unknown to the model.
        let (bytes, meta) = (self.value(len), self.meta(meta | 16));
        let mut value = self.live(key).map(|row| row.value.clone()).unwrap_or_default();
        // Some go far beyond the end, which requires a draft.
        let at = match choice / 8 {
            0..=9 => len / 2,
            10..=19 => value.len() / 2,
            20..=29 => value.len() + 3,
            _ if !self.large => value.len(),
            _ => value.len() + (300 << 10),
        };
        let edit = match choice % 8 {
            0..=2 => Edit::Append(&bytes),
            3 => Edit::Prepend(&bytes),
            4 => Edit::SetBits { at, mask: choice, on: choice & 8 != 0 },
            _ => Edit::Write { at, bytes: &bytes },
        };
        match edit {
            // The only limit is the model's running time.
            _ if value.len() > 1 << 20 => return,
            Edit::Append(bytes) => value.extend_from_slice(bytes),
            Edit::Prepend(bytes) => value = [bytes, &value].concat(),
            Edit::SetBits { at, mask, on } => {
                value.resize(value.len().max(at + 1), 0);
                value[at] = if on { value[at] | mask } else { value[at] & !mask };
            }
            Edit::Write { at, bytes } => {
                value.resize(value.len().max(at + bytes.len()), 0);
                value[at..at + bytes.len()].copy_from_slice(bytes);
            }
        }
        let put = space.edit(key, self.now_ms, edit, |record, draft| {
            record.put_edited(draft, meta).transpose()
        });
        let put = put.map_err(|refused| {
            assert_eq!(refused, todana_table::Refused::Full);
            Full
        });
        self.wrote(key, value, meta, put);
    }

    fn put_same(&mut self, space: &impl Keyspace, key: &[u8], meta: u8) {
        let meta = self.meta(meta);
        let Some((handle, row)) = self.handles.last() else { return };
        let (value, lent) = (row.value.clone(), row.lent);
        let put = space.update(key, self.now_ms, |record| record.put_same(&handle.entry(), meta));
        match lent {
            true => self.wrote_lent(key, value, meta, put),
            false => self.wrote(key, value, meta, put),
        }
    }

    /// The values of handles have not changed, except for the access word.
    fn drop_handles(&mut self) {
        for (handle, row) in self.handles.drain(..) {
            let seen = Row::of(&handle.entry());
            let access = seen.meta.access;
            assert_eq!(seen, Row { meta: Meta { access, ..row.meta }, ..row });
        }
    }

    fn set_meta(&mut self, space: &impl Keyspace, key: &[u8], meta: u8) {
        let meta = self.meta(meta);
        let set = space.update(key, self.now_ms, |record| record.set_meta(meta));
        assert_eq!(set.is_some(), self.live(key).is_some());
        if let Some(put) = set {
            let (value, lent) = (self.rows[key].value.clone(), self.rows[key].lent);
            let row = Row::new(key, value, meta, self.version + 1, lent);
            if self.mode == Mode::Evict {
                return self.wrote_row(key, row, put);
            }
            // A table that may not evict accepts other metadata even at its limit.
            self.version += 1;
            assert_eq!(put, Ok(self.version));
            self.rows.insert(key.to_vec(), row);
        }
    }

    fn wrote(&mut self, key: &[u8], value: Vec<u8>, meta: Meta, put: Result<u64, Full>) {
        let row = Row::new(key, value, meta, self.version + 1, false);
        self.wrote_row(key, row, put);
    }

    fn wrote_lent(&mut self, key: &[u8], value: Vec<u8>, meta: Meta, put: Result<u64, Full>) {
        let row = Row::new(key, value, meta, self.version + 1, true);
        self.wrote_row(key, row, put);
    }

    /// Records a write, or checks that its refusal was right.
    fn wrote_row(&mut self, key: &[u8], row: Row, put: Result<u64, Full>) {
        // The update collects an expired entry even if its write is refused.
        if self.live(key).is_none() {
            self.rows.remove(key);
        }
        let room = if row.lent { 0 } else { row.value.len() / 4 };
        if self.is_refused(key, &row, 0) == self.is_refused(key, &row, room) {
            let refused = self.is_refused(key, &row, 0);
            // What a snapshot keeps counts against the limit, and the model does not know it.
            let kept = self.snapshot.is_some() && self.mode == Mode::Refuse;
            assert!(put.is_err() == refused || kept && !refused, "{row:?}");
        }
        if let Ok(version) = put {
            assert_eq!(version, row.version);
            self.version = version;
            self.rows.insert(key.to_vec(), row);
        }
    }

    /// Whether the table must refuse an entry whose value has this much spare capacity.
    fn is_refused(&self, key: &[u8], row: &Row, room: usize) -> bool {
        let entries_max = self.limits.entries_max.unwrap_or(u64::MAX);
        let bytes_max = self.limits.bytes_max.unwrap_or(u64::MAX);
        let new = row.bytes(key, room);
        if new > bytes_max || entries_max == 0 {
            return true;
        }
        let old = self.live(key).map_or(0, |row| row.bytes);
        let growth = u64::from(old == 0);
        self.mode == Mode::Refuse
            && ((growth > 0 && self.rows.len() as u64 + growth > entries_max)
                || (new > old && self.bytes() + new - old > bytes_max))
    }

    fn bytes(&self) -> u64 {
        self.rows.values().map(|row| row.bytes).sum()
    }

    fn value(&mut self, len: usize) -> Vec<u8> {
        self.stamp += 1;
        self.stamp.to_le_bytes().into_iter().cycle().take(len).collect()
    }

    fn meta(&self, bits: u8) -> Meta {
        Meta {
            expires_at_ms: (bits & 1 != 0).then(|| self.now_ms + u64::from(bits >> 4) * 8),
            flags: if bits & 2 != 0 { u32::from(bits) << 20 } else { 0 },
            access: (bits & 4 != 0).then(|| access_of(bits)),
        }
    }

    fn transaction(&mut self, first: u8, second: u8, operation: KeyOperation) {
        let keys = [key_of(first), key_of(second)];
        let locked = self.table.lock(keys.iter().map(Vec::as_slice), self.now_ms);
        self.key(&locked, first, operation);
        self.key(&locked, second, operation);
    }

    fn transaction_of_all(&mut self, key: u8, operation: KeyOperation, clear: bool, seed: u8) {
        let locked = self.table.lock_all(self.now_ms);
        self.key(&locked, key, operation);
        let mut seen = Rows::new();
        let see = |entry: Entry<'_>| {
            assert!(seen.insert(entry.key().to_vec(), Row::of(&entry)).is_none())
        };
        assert_eq!(locked.scan(0, usize::MAX, self.now_ms, see), 0);
        self.compare_all(seen);
        self.random(&locked, seed);
        if clear {
            let len = locked.len();
            assert_eq!(locked.clear(), len);
            assert!(locked.is_empty());
            self.rows.clear();
            self.key(&locked, key, operation);
        }
    }

    /// Compares all live entries.
    fn compare_all(&mut self, seen: Rows) {
        let now_ms = self.now_ms;
        let live = |(_, row): &(&Vec<u8>, &Row)| row.is_live(now_ms);
        if self.mode == Mode::Evict {
            self.rows.retain(|key, row| seen.contains_key(key) || !row.is_live(now_ms));
        }
        assert!(seen.iter().eq(self.rows.iter().filter(live)), "{seen:#?}\n{:#?}", self.rows);
    }

    fn scan(&mut self, cursor: u8, count: u8) {
        self.observe();
        if self.mode == Mode::Exact && count == 0 {
            // An empty step still advances.
            let next = self.table.scan(u64::from(cursor), 0, self.now_ms, |_| ());
            assert!(next == 0 || next == u64::from(cursor) + 1);
        }
        let mut seen = Rows::new();
        let mut cursor = 0;
        loop {
            let mut in_step = 0;
            let next = self.table.scan(cursor, usize::from(count), self.now_ms, |entry| {
                in_step += 1;
                assert!(seen.insert(entry.key().to_vec(), Row::of(&entry)).is_none());
            });
            if next == 0 {
                break;
            }
            assert!(next > cursor && in_step >= usize::from(count));
            cursor = next;
        }
        self.compare_all(seen);
        let (mut seen, everything) = (Rows::new(), Walk { count: usize::MAX, ..Walk::default() });
        let walked = self.table.walk(&everything, self.now_ms, |entry| {
            assert!(seen.insert(entry.key().to_vec(), Row::of(&entry)).is_none());
        });
        assert_eq!(walked, Ok(Walked::End));
        self.compare_all(seen);
    }

    fn random(&mut self, space: &impl Keyspace, seed: u8) {
        self.observe();
        let look =
            |entry: Option<Entry<'_>>| entry.map(|entry| (entry.key().to_vec(), Row::of(&entry)));
        match space.random(u64::from(seed), self.now_ms, look) {
            Some((key, row)) => self.compare(&key, Some(row)),
            None if self.mode == Mode::Evict => {
                let now_ms = self.now_ms;
                self.rows.retain(|_, row| !row.is_live(now_ms));
            }
            None => assert!(!self.rows.values().any(|row| row.is_live(self.now_ms))),
        }
    }

    fn clear(&mut self) {
        let len = self.table.len();
        assert_eq!(self.table.clear(), len);
        assert_eq!((self.table.len(), self.table.bytes()), (0, 0));
        self.rows.clear();
    }

    fn begin_snapshot(&mut self) {
        // Applies a due clear, which a snapshot cannot do, since it has no time.
        self.observe();
        self.table.sweep(self.now_ms, 0);
        let begun = self.table.snapshot();
        assert_eq!(begun.is_some(), self.snapshot.is_none());
        if let Some(snapshot) = begun {
            self.snapshot = Some((snapshot, self.rows.clone(), self.now_ms, Rows::new()));
        }
    }

    fn step_snapshot(&mut self, count: u8) {
        let Some((snapshot, rows, at_ms, seen)) = &mut self.snapshot else { return };
        let count = if count < 128 { usize::from(count) } else { usize::MAX };
        let more = snapshot.next_part(count, |entry| {
            let row = Row::of(&entry);
            assert_eq!(rows.get(entry.key()), Some(&row));
            assert!(seen.insert(entry.key().to_vec(), row).is_none());
        });
        if more == Ok(true) {
            return;
        }
        assert!(more.is_ok() || self.mode != Mode::Exact, "abandoned without a limit");
        if self.mode == Mode::Exact || self.mode == Mode::Refuse && more.is_ok() {
            let missed =
                rows.iter().find(|(key, row)| row.is_live(*at_ms) && !seen.contains_key(*key));
            assert_eq!(missed, None);
        }
        self.snapshot = None;
    }

    fn set_limits(&mut self, entries_max: u8, bytes_max: u8) {
        if self.mode == Mode::Exact {
            return;
        }
        let when_full = if self.mode == Mode::Refuse { WhenFull::Refuse } else { WhenFull::Evict };
        self.limits = Limits {
            entries_max: (entries_max < 128).then_some(u64::from(entries_max) / 4),
            bytes_max: match bytes_max {
                0..64 => Some(u64::from(bytes_max) * 64),
                64..128 => Some(u64::from(bytes_max - 64) * 4_096),
                _ => None,
            },
            when_full,
        };
        self.table.set_limits(self.limits);
    }

    /// After a write the table keeps its limits (they may have been lowered since the last write).
    fn assert_limits(&self, version_before: u64) {
        if self.mode == Mode::Evict && self.version > version_before {
            assert!(self.table.len() <= self.limits.entries_max.unwrap_or(u64::MAX));
            assert!(self.table.bytes() <= self.limits.bytes_max.unwrap_or(u64::MAX));
        }
    }

    /// Compares everything, including sums.
    fn check(&mut self) {
        self.collect();
        self.scan(0, 255);
        if self.mode == Mode::Evict {
            return;
        }
        let counts = self.table.counts();
        let expiring = self.rows.values().filter(|row| row.meta.expires_at_ms.is_some()).count();
        assert_eq!(counts.entries, self.rows.len() as u64);
        assert_eq!(counts.bytes, self.bytes());
        assert_eq!(counts.entries_with_expiry, expiring as u64);
        assert_eq!(counts.version, self.version);
    }
}
