//! Walks over a table beside a model of them: operations decoded from bytes, run on both.
//!
//! The model has the keys that should be present, and compares keys with code of its own. It also
//! follows walks that continue while the table changes: each key that was present from the first
//! step to the last must have been visited, all visits must be in order, and no visit may be of a
//! key that is not present.
//!
//! The property test `walks` and the fuzz target `ordered` use it. Eight bytes are one operation.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use todana_table::{
    Bound, Comparison, KeyOrder, KeyRange, Keyspace, Limits, Meta, NotOrdered, Options, Table,
    Walk, Walked,
};

/// Bytes that decode to one operation.
pub(crate) const OPERATION_BYTES: usize = 8;

const START_MS: u64 = 1_800_000_000_000;
/// Keys that a step may examine in addition to those it visits.
const SPARE_KEYS_MAX: usize = 1_024;

#[derive(Clone, Copy, Debug)]
enum Operation {
    Put {
        key: u16,
        ttl_ms: Option<u8>,
    },
    Remove {
        key: u16,
    },
    /// Takes a key out and puts it back as one step, in a transaction or not.
    Replace {
        key: u16,
        transaction: bool,
    },
    PutMany {
        key: u16,
        count: u8,
    },
    RemoveMany {
        key: u16,
        count: u8,
    },
    Transaction {
        removed: u16,
        put: u16,
        clear: bool,
        walk: bool,
    },
    Advance {
        ms: u8,
    },
    Sweep {
        work_max: u8,
    },
    Clear,
    ScheduleClear {
        after_ms: u8,
    },
    Evict {
        entries_max: u8,
    },
    Walk(Way),
    BeginWalk(Way),
    StepWalk {
        count: u8,
    },
}

/// A range and a direction, without keys yet.
#[derive(Clone, Copy, Debug)]
struct Way {
    kind: u8,
    first: u16,
    second: u16,
    count: u8,
    reverse: bool,
}

impl Operation {
    fn decode([kind, a, b, c, d, e, f, g]: [u8; OPERATION_BYTES]) -> Operation {
        let (key, other) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
        let way = Way { kind: e, first: key, second: other, count: f, reverse: g & 1 != 0 };
        match kind % 24 {
            0..=4 => Operation::Put { key, ttl_ms: (c < 100).then_some(d) },
            5..=7 => Operation::Remove { key },
            8 => Operation::Replace { key, transaction: c & 1 != 0 },
            9 => Operation::PutMany { key, count: c },
            10..=11 => Operation::RemoveMany { key, count: c },
            12 => {
                Operation::Transaction { removed: key, put: other, clear: e < 40, walk: e & 1 != 0 }
            }
            13 => Operation::Advance { ms: a },
            14 => Operation::Sweep { work_max: a % 10 },
            15 if a < 64 => Operation::Clear,
            15 => Operation::ScheduleClear { after_ms: b },
            16 => Operation::Evict { entries_max: a },
            17..=18 => Operation::Walk(way),
            19..=20 => Operation::BeginWalk(way),
            _ => Operation::StepWalk { count: a },
        }
    }
}

/// Numbers, prefixes of one another, long keys that soon fill a leaf, and the lowest and highest
/// bytes.
fn key_of(number: u16) -> Vec<u8> {
    let small = number >> 3;
    match number % 8 {
        0 => small.to_string().into_bytes(),
        1 => format!("-{}.{}", small % 50, small / 50 % 8).into_bytes(),
        2 => format!(" 0{}.50 apples", small % 90).into_bytes(),
        3 => vec![u8::MAX; usize::from(small % 5)],
        4 => vec![b'1'; usize::from(small % 300)],
        5 => [&vec![b'k'; 1_500][..], &[small as u8 % 100]].concat(),
        6 => vec![0, small as u8, b'5'],
        _ => small.to_be_bytes().to_vec(),
    }
}

/// The number at the start of a key, as text without leading and trailing zeros.
#[derive(PartialEq, Eq)]
struct Number {
    negative: bool,
    integer: String,
    fraction: String,
}

impl Number {
    fn of(key: &[u8]) -> Number {
        let text: String = key.iter().map(|&byte| char::from(byte)).collect();
        let text = text.trim_start_matches(|c: char| c <= ' ' || c == '\x7f');
        let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
        let integer = digits(text);
        let fraction = text[integer.len()..].strip_prefix('.').map(digits).unwrap_or_default();
        let integer = integer.trim_start_matches('0').to_string();
        let fraction = fraction.trim_end_matches('0').to_string();
        let negative = negative && !(integer.is_empty() && fraction.is_empty());
        Number { negative, integer, fraction }
    }

    /// More digits, or greater ones.
    fn size(&self) -> (usize, &str, &str) {
        (self.integer.len(), &self.integer, &self.fraction)
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Number) -> Ordering {
        let sizes = self.size().cmp(&other.size());
        match (self.negative, other.negative) {
            (false, false) => sizes,
            (true, true) => sizes.reverse(),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Number) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn compare(order: KeyOrder, left: &[u8], right: &[u8]) -> Ordering {
    let ascending = match order.comparison {
        Comparison::Lexical => left.cmp(right),
        Comparison::Decimal => Number::of(left).cmp(&Number::of(right)).then(left.cmp(right)),
    };
    if order.descending { ascending.reverse() } else { ascending }
}

/// A range with its own keys.
#[derive(Clone, Debug)]
enum Range {
    All,
    Between(u8, Vec<u8>, u8, Vec<u8>),
    Prefix(Vec<u8>),
}

fn bound(kind: u8, key: &[u8]) -> Bound<'_> {
    match kind % 3 {
        0 => Bound::Included(key),
        1 => Bound::Excluded(key),
        _ => Bound::Unbounded,
    }
}

impl Range {
    fn of(way: Way) -> Range {
        let (first, second) = (key_of(way.first), key_of(way.second));
        match way.kind % 4 {
            0 => Range::All,
            1..=2 => Range::Between(way.kind / 4, first, way.kind / 12, second),
            _ => Range::Prefix(first[..first.len().min(usize::from(way.kind) % 7)].to_vec()),
        }
    }

    fn keys(&self) -> KeyRange<'_> {
        match self {
            Range::All => KeyRange::All,
            Range::Between(first_kind, first, second_kind, second) => {
                KeyRange::Between(bound(*first_kind, first), bound(*second_kind, second))
            }
            Range::Prefix(prefix) => KeyRange::Prefix(prefix),
        }
    }

    fn contains(&self, order: KeyOrder, key: &[u8]) -> bool {
        match self {
            Range::All => true,
            Range::Prefix(prefix) => key.starts_with(prefix),
            Range::Between(first_kind, first, second_kind, second) => {
                let (first_kind, second_kind) = (first_kind % 3, second_kind % 3);
                let after_first = compare(order, key, first);
                let before_second = compare(order, second, key);
                let inside = |kind: u8, compared: Ordering| {
                    kind == 2 || compared.is_gt() || (kind == 0 && compared.is_eq())
                };
                inside(first_kind, after_first) && inside(second_kind, before_second)
            }
        }
    }
}

/// A walk that continues while the table changes.
struct Walking {
    range: Range,
    reverse: bool,
    after: Option<Vec<u8>>,
    /// Keys that were present from its first step on, and were not visited yet.
    awaited: BTreeSet<Vec<u8>>,
    /// The key that was visited last.
    last: Option<Vec<u8>>,
}

struct Model<'t> {
    table: &'t Table,
    order: Option<KeyOrder>,
    /// When each key expires. Expired ones may linger.
    rows: BTreeMap<Vec<u8>, u64>,
    now_ms: u64,
    clear_at_ms: u64,
    walking: Option<Walking>,
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
    let choice = rest.first().map_or(0, |byte| byte % 5);
    let comparison = if choice & 2 == 0 { Comparison::Lexical } else { Comparison::Decimal };
    let order = (choice < 4).then_some(KeyOrder { comparison, descending: choice & 1 != 0 });
    let table = Table::new(Options {
        shards: Some(if bytes.len().is_multiple_of(2) { 8 } else { 1 }),
        seed: Some(bytes.len() as u64),
        order,
        ..Options::default()
    });
    let mut model = Model {
        table: &table,
        order,
        rows: BTreeMap::new(),
        now_ms: START_MS,
        clear_at_ms: u64::MAX,
        walking: None,
    };
    let mut trace = Trace(Vec::new());
    for operation in operations {
        let operation = Operation::decode(*operation);
        trace.0.push(operation);
        model.step(operation);
    }
    while model.walking.is_some() {
        model.step_walk(250);
    }
    model.observe();
    model.walk(&Range::All, false, 100);
    table.clear();
    model.rows.clear();
    model.walk(&Range::All, false, 1);
}

impl Model<'_> {
    fn step(&mut self, operation: Operation) {
        match operation {
            Operation::Put { key, ttl_ms } => self.put(self.table, key, ttl_ms),
            Operation::Remove { key } => self.remove(self.table, key),
            Operation::Replace { key, transaction } => self.replace(key, transaction),
            Operation::PutMany { key, count } => {
                (0..u16::from(count)).for_each(|n| self.put(self.table, key.wrapping_add(n), None));
            }
            Operation::RemoveMany { key, count } => {
                (0..u16::from(count)).for_each(|n| self.remove(self.table, key.wrapping_add(n)));
            }
            Operation::Transaction { removed, put, clear, walk } => {
                self.transaction(removed, put, clear, walk)
            }
            Operation::Advance { ms } => {
                self.now_ms += u64::from(ms);
                let (rows, now_ms) = (&self.rows, self.now_ms);
                if let Some(walking) = &mut self.walking {
                    walking.awaited.retain(|key| rows.get(key).is_some_and(|&at| at > now_ms));
                }
            }
            Operation::Sweep { work_max } => {
                self.observe();
                self.table.sweep(self.now_ms, usize::from(work_max));
            }
            Operation::Clear => {
                self.table.clear();
                self.lose_all();
            }
            Operation::ScheduleClear { after_ms } => {
                self.clear_at_ms = self.now_ms + u64::from(after_ms);
                self.table.schedule_clear(self.clear_at_ms);
            }
            Operation::Evict { entries_max } => self.evict(entries_max),
            Operation::Walk(way) => {
                self.observe();
                // Without an order a step examines a whole shard, so it must visit many keys.
                let count = usize::from(way.count).max(1).max(self.rows.len() / 64);
                self.walk(&Range::of(way), way.reverse, count);
            }
            Operation::BeginWalk(way) => self.begin_walk(way),
            Operation::StepWalk { count } => self.step_walk(count),
        }
    }

    /// The first effect of any operation that has the time.
    fn observe(&mut self) {
        if self.now_ms >= self.clear_at_ms {
            self.clear_at_ms = u64::MAX;
            self.lose_all();
        }
    }

    fn lose_all(&mut self) {
        self.rows.clear();
        if let Some(walking) = &mut self.walking {
            walking.awaited.clear();
        }
    }

    fn lose(&mut self, key: &[u8]) {
        self.rows.remove(key);
        if let Some(walking) = &mut self.walking {
            walking.awaited.remove(key);
        }
    }

    fn is_live(&self, key: &[u8]) -> bool {
        self.rows.get(key).is_some_and(|&at_ms| at_ms > self.now_ms)
    }

    fn put(&mut self, space: &impl Keyspace, number: u16, ttl_ms: Option<u8>) {
        self.observe();
        let key = key_of(number);
        let expires_at_ms = ttl_ms.map(|ttl_ms| self.now_ms + u64::from(ttl_ms));
        let meta = Meta { expires_at_ms, ..Meta::default() };
        let long = vec![7; if number.is_multiple_of(11) { 300 } else { 3 }];
        space.update(&key, self.now_ms, |record| record.put(&[&long], meta)).expect("room");
        let at_ms = expires_at_ms.unwrap_or(u64::MAX);
        if at_ms <= self.now_ms {
            self.lose(&key);
        }
        self.rows.insert(key, at_ms);
    }

    fn remove(&mut self, space: &impl Keyspace, number: u16) {
        self.observe();
        let key = key_of(number);
        let removed = space.update(&key, self.now_ms, |record| record.remove());
        assert_eq!(removed, self.is_live(&key));
        self.lose(&key);
    }

    fn replace(&mut self, number: u16, transaction: bool) {
        self.observe();
        let (key, now_ms) = (key_of(number), self.now_ms);
        let live = self.is_live(&key);
        if !live {
            self.lose(&key);
        }
        if transaction {
            let locked = self.table.lock([&*key], self.now_ms);
            assert_eq!(locked.update(&key, now_ms, |record| record.remove()), live);
            let put = locked.update(&key, now_ms, |record| record.put(&[], Meta::default()));
            put.expect("room");
        } else {
            let change = |record: &mut todana_table::LockedKey<'_>| {
                assert_eq!(record.remove(), live);
                record.put(&[], Meta::default())
            };
            self.table.update(&key, now_ms, change).expect("room");
        }
        self.rows.insert(key, u64::MAX);
    }

    fn transaction(&mut self, removed: u16, put: u16, clear: bool, walk: bool) {
        let locked = self.table.lock_all(self.now_ms);
        self.remove(&locked, removed);
        self.put(&locked, put, None);
        if clear {
            // For other threads, a key that is put again afterwards was always present, but the
            // model need not know that.
            locked.clear();
            self.lose_all();
            self.put(&locked, put, None);
        }
        if walk {
            self.walk_in(&locked, &Range::All, false, 40);
        }
        self.remove(&locked, put);
        self.put(&locked, removed, None);
    }

    fn evict(&mut self, entries_max: u8) {
        self.observe();
        let limits = Limits { entries_max: Some(u64::from(entries_max)), ..Limits::default() };
        self.table.set_limits(limits);
        while self.table.sweep(self.now_ms, 100).1 {}
        self.table.set_limits(Limits::default());
        let mut left = BTreeSet::new();
        self.table.scan(0, usize::MAX, self.now_ms, |entry| {
            left.insert(entry.key().to_vec());
        });
        assert!(left.iter().all(|key| self.is_live(key)));
        self.rows.retain(|key, _| left.contains(key));
        if let Some(walking) = &mut self.walking {
            walking.awaited.retain(|key| left.contains(key));
        }
    }

    /// The live keys of a range in the order of a walk.
    fn expected(&self, order: KeyOrder, range: &Range, reverse: bool) -> Vec<Vec<u8>> {
        let inside = |key: &&Vec<u8>| self.is_live(key) && range.contains(order, key);
        let mut keys: Vec<Vec<u8>> = self.rows.keys().filter(inside).cloned().collect();
        if order.comparison == Comparison::Decimal {
            // They are sorted by their bytes already.
            keys.sort_by_cached_key(|key| Number::of(key));
        }
        if reverse != order.descending {
            keys.reverse();
        }
        keys
    }

    fn walk(&self, range: &Range, reverse: bool, count: usize) {
        self.walk_in(self.table, range, reverse, count);
    }

    /// Walks to the end, while the table is unchanged.
    fn walk_in(&self, space: &impl Keyspace, range: &Range, reverse: bool, count: usize) {
        let (mut seen, mut after) = (Vec::new(), None::<Vec<u8>>);
        loop {
            let walk = Walk { keys: range.keys(), after: after.as_deref(), reverse, count };
            let before = seen.len();
            let walked = space.walk(&walk, self.now_ms, |entry| seen.push(entry.key().to_vec()));
            assert!(seen.len() - before <= count);
            match walked {
                Err(NotOrdered) => {
                    assert!(self.order.is_none() && (reverse || !matches!(range, Range::All)));
                    return;
                }
                Ok(Walked::End) => break,
                Ok(Walked::Until(key)) => {
                    // A step that visits few keys has examined many (in a transaction that has
                    // cleared the table, keys that were present before).
                    let visited = seen.len() - before;
                    let much = self.table.len() as usize >= SPARE_KEYS_MAX;
                    assert!(visited == count || much || !std::ptr::addr_eq(space, self.table));
                    after = Some(key);
                }
            }
        }
        match self.order {
            Some(order) => assert_eq!(seen, self.expected(order, range, reverse), "{range:?}"),
            None => {
                let count = seen.len();
                let seen: BTreeSet<Vec<u8>> = seen.into_iter().collect();
                assert_eq!(seen.len(), count);
                let live = self.rows.keys().filter(|key| self.is_live(key));
                assert!(seen.iter().eq(live));
            }
        }
    }

    fn begin_walk(&mut self, way: Way) {
        self.observe();
        // Gives the table the time, which beginning a walk does not.
        self.table.sweep(self.now_ms, 0);
        let (range, reverse) = match self.order {
            Some(_) => (Range::of(way), way.reverse),
            None => (Range::All, false),
        };
        let order = self.order.unwrap_or_default();
        let awaited = self.expected(order, &range, reverse).into_iter().collect();
        self.walking = Some(Walking { range, reverse, after: None, awaited, last: None });
    }

    fn step_walk(&mut self, count: u8) {
        if self.walking.is_some() {
            self.observe();
        }
        let Some(mut walking) = self.walking.take() else { return };
        let mut seen = Vec::new();
        let walk = Walk {
            keys: walking.range.keys(),
            after: walking.after.as_deref(),
            reverse: walking.reverse,
            count: usize::from(count).max(1),
        };
        let walked = self.table.walk(&walk, self.now_ms, |entry| seen.push(entry.key().to_vec()));
        for key in seen {
            assert!(self.is_live(&key));
            walking.awaited.remove(&key);
            if let (Some(order), Some(last)) = (self.order, &walking.last) {
                let compared = compare(order, last, &key);
                assert!(if walking.reverse { compared.is_gt() } else { compared.is_lt() });
                assert!(walking.range.contains(order, &key));
            }
            walking.last = Some(key);
        }
        match walked.expect("a walk that the table supports") {
            Walked::End => assert_eq!(walking.awaited, BTreeSet::new()),
            Walked::Until(key) => {
                walking.after = Some(key);
                self.walking = Some(walking);
            }
        }
    }
}
