//! Each row of a family, compared with what execution does.

use crate::bits::BitsCommand;
use crate::cause::Names;
use crate::cost::Reads;
use crate::scope::Scope;
use crate::sizes::Room;
use crate::sketch::registers::DENSE_BYTES;
use crate::testing::{Dice, KEYS, numbers, rows};
use crate::{
    Access, Brings, Command, Context, Description, Error, FORMAT_MAX, FORMAT_MIN, Kinds, LcsSpan,
    LeaseState, Record, Refusal, Reply, own_units,
};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use todana_table::{
    Entry, KeyOrder, Keyspace, Kind, LockedKey, Meta, NotOrdered, Options, Stored, Table, Walk,
    Walked,
};

const NOW_MS: u64 = 1_000;
const ROLLS: u64 = 500;
/// The longest values of [`Noting::filled`]. Those of the commands by the dice are shorter.
const LONG_VALUE_BYTES: usize = 700;

/// A table that notes which keys are read or written.
struct Noting {
    table: Table,
    touched: RefCell<BTreeSet<Vec<u8>>>,
}

impl Noting {
    /// A table with some of the keys that commands by the dice have. Of eight records, this many
    /// are collections.
    fn filled(dice: &mut Dice, collections: usize) -> Noting {
        let space = Noting { table: Table::new(Options::default()), touched: RefCell::default() };
        for key in KEYS {
            let text = [&b"1"[..], b"127", &[b'0'; LONG_VALUE_BYTES], b"12345678"][dice.below(4)];
            let kind = 1 + dice.below(Kind::ALL.len() - 1);
            let block = [&[kind as u8][..], text].concat();
            let value = match dice.below(8) < collections {
                true => Stored::block(&block).expect("a block"),
                false => Stored::string(text),
            };
            if dice.bit() {
                let put = space
                    .table
                    .update(key, NOW_MS, |locked| locked.put_stored(value, Meta::default()));
                put.expect("room");
            }
        }
        space
    }

    /// The kind, the value and the version of each key.
    fn records(&self) -> BTreeMap<Vec<u8>, (Kind, Vec<u8>, u64)> {
        let mut records = BTreeMap::new();
        let visit = |it: Entry<'_>| {
            let value = it.stored().bytes().to_vec();
            records.insert(it.key().to_vec(), (it.kind(), value, it.version()));
        };
        assert_eq!(self.table.scan(0, usize::MAX, NOW_MS, visit), 0, "all records at once");
        records
    }

    /// The length of the value of each key, and the bytes of its entry.
    fn sizes(&self) -> BTreeMap<Vec<u8>, (usize, u64)> {
        let mut sizes = BTreeMap::new();
        let visit = |entry: Entry<'_>| {
            sizes
                .insert(entry.key().to_vec(), (entry.stored().bytes().len(), entry.bytes() as u64));
        };
        assert_eq!(self.table.scan(0, usize::MAX, NOW_MS, visit), 0, "all records at once");
        sizes
    }
}

impl Keyspace for Noting {
    fn read<R>(&self, key: &[u8], now_ms: u64, look: impl FnOnce(Option<Entry<'_>>) -> R) -> R {
        self.touched.borrow_mut().insert(key.to_vec());
        self.table.read(key, now_ms, look)
    }
    fn update<R>(
        &self,
        key: &[u8],
        now_ms: u64,
        change: impl FnOnce(&mut LockedKey<'_>) -> R,
    ) -> R {
        self.touched.borrow_mut().insert(key.to_vec());
        self.table.update(key, now_ms, change)
    }
    fn prefetch(&self, _: &[&[u8]]) {}
    fn len(&self) -> u64 {
        self.table.len()
    }
    fn len_at(&self, now_ms: u64) -> u64 {
        self.table.len_at(now_ms)
    }
    fn scan(&self, at: u64, count: usize, now_ms: u64, visit: impl FnMut(Entry<'_>)) -> u64 {
        self.table.scan(at, count, now_ms, visit)
    }
    fn order(&self) -> Option<KeyOrder> {
        self.table.order()
    }
    fn walk(
        &self,
        walk: &Walk<'_>,
        now_ms: u64,
        visit: impl FnMut(Entry<'_>),
    ) -> Result<Walked, NotOrdered> {
        self.table.walk(walk, now_ms, visit)
    }
    fn random<R>(&self, seed: u64, now_ms: u64, look: impl FnOnce(Option<Entry<'_>>) -> R) -> R {
        self.table.random(seed, now_ms, look)
    }
    fn clear(&self) -> u64 {
        self.table.clear()
    }
}

/// The bytes of an entry beside its key and its value, at most.
const ENTRY_BYTES_BESIDE: u64 = 128;

/// Executes a command, and compares its effects with the columns of its row.
fn check(command: &Command<'_>, dice: &mut Dice) {
    let collections = [0, 0, 4, 8][dice.below(4)];
    let space = Noting::filled(dice, collections);
    let context = Context { now_ms: NOW_MS, value_bytes_max: 1_024 };
    let (before, version) = (space.sizes(), space.table.version());
    let mut shown = Shown::default();
    command.run(&space, context, &mut shown);
    let (after, touched) = (space.sizes(), space.touched.take());

    let mut named = BTreeSet::new();
    command.scope().each_key(|key| _ = named.insert(key.to_vec()));
    assert!(touched.is_subset(&named), "`keys` of {command:?} does not name {touched:?}");
    if matches!(command.scope(), Scope::Key(_) | Scope::Keys(_)) {
        assert!(own_units(command) >= named.len() as u64, "`units` of {command:?} are too few");
        if shown.longest >= LONG_VALUE_BYTES {
            assert_ne!(command.reads(), Reads::Nothing, "`reads` of {command:?} misses the reply");
        }
    }

    if space.table.version() != version {
        let access = command.access();
        assert!(
            matches!(access, Access::Write | Access::Lease | Access::Sweep),
            "`access` of {command:?} is {access:?}, and it writes"
        );
        assert_ne!(command.names(), Names::NONE, "`events` of {command:?} are none, and it writes");
    }
    let added = after.iter().filter(|(key, size)| before.get(*key) != Some(*size));
    if command.only_removes() {
        // A removal may be the replacement of a value by a shorter one only for `new`, which is
        // then none.
        assert_eq!(added.clone().count(), 0, "`removes` of {command:?} is true, and it stores");
    }
    let longest = before.values().map(|(length, _)| *length).max().unwrap_or(0);
    for (key, (length, bytes)) in added {
        match command.brings() {
            // Numbers are short, and HyperLogLogs have a length of their own.
            Brings::Nothing => {
                let short = if let Command::Sketch(_) = command { DENSE_BYTES } else { 20 };
                let most = longest.max(short);
                assert!(*length <= most, "{command:?} brings nothing, and stores {length} bytes");
            }
            Brings::Values(most) => assert!(*length <= most, "`brings` of {command:?} is {most}"),
            Brings::Part(_) => {}
        }
        let old = before.get(key).map_or(0, |(_, bytes)| *bytes);
        // A new expiry takes eight bytes, and an allocation has steps of sixteen.
        let same = old + 16;
        match command.room() {
            Room::Nothing => {
                let moved = before.values().map(|(_, bytes)| *bytes).max().unwrap_or(0) + 320;
                // A command on several keys may give the record of one to another.
                let most = if named.len() > 1 { moved } else { same };
                assert!(*bytes <= most, "`room` of {command:?} is nothing, and an entry grew");
            }
            Room::Entry(most) => {
                let most = (most as u64 + ENTRY_BYTES_BESIDE + 20).max(same);
                assert!(*bytes <= most, "`room` of {command:?} is {most}, not {bytes}");
            }
            Room::Any | Room::ByLengths => {}
        }
    }
}

#[test]
fn every_row_says_what_execution_does() {
    for number in numbers() {
        for seed in 0..ROLLS {
            let mut dice = Dice(seed);
            let command = dice.command(number);
            check(&command, &mut dice);
        }
    }
}

/// Executes a command on collections, and compares the outcome with the column `kinds` of its row.
fn check_kinds(command: &Command<'_>, dice: &mut Dice) -> bool {
    let space = Noting::filled(dice, 8);
    let context = Context { now_ms: NOW_MS, value_bytes_max: 1_024 };
    let before = space.records();
    let mut shown = Shown::default();
    command.run(&space, context, &mut shown);
    let wrong = shown.errors.iter().find_map(|error| match error {
        Error::WrongKind(kind) => Some(*kind),
        _ => None,
    });
    if let Some(kind) = wrong {
        assert_ne!(kind, Kind::String, "{command:?}");
        assert_eq!(command.kinds(), Kinds::Strings, "`kinds` of {command:?}");
        assert_eq!(space.records(), before, "{command:?} fails, and changes records");
    }
    // A command on an absent key may make a value, and show that.
    let mut are_there = true;
    command.scope().each_key(|key| are_there &= before.contains_key(key));
    if are_there {
        assert_eq!(shown.values, 0, "{command:?} shows a value of a collection");
    }
    let blocks = |records: &BTreeMap<_, (Kind, Vec<u8>, u64)>| -> BTreeSet<Vec<u8>> {
        records.values().filter(|it| it.0 != Kind::String).map(|it| it.1.clone()).collect()
    };
    let after = space.records();
    assert!(blocks(&after).is_subset(&blocks(&before)), "{command:?} changes a collection");
    let is_block =
        |it: &(Kind, Vec<u8>, u64)| it.0 == Kind::String && blocks(&before).contains(&it.1);
    assert!(!after.values().any(is_block), "{command:?} makes a string of a collection");
    if command.kinds() == Kinds::Strings
        && let Scope::Key(key) = command.scope()
        && before.contains_key(key)
        && shown.errors.is_empty()
        && shown.refused == 0
    {
        panic!("{command:?} does not fail");
    }
    if command.kinds() != Kinds::All && wrong.is_none() {
        // Others may be refused for another reason, or be of absent keys.
        for (key, (kind, value, _)) in &before {
            let same = after.get(key).is_some_and(|it| (it.0, &it.1) == (*kind, value));
            let is_destination = matches!(
                command,
                Command::Bits(BitsCommand::BitOperation { keys, .. })
                    if keys.first() == Some(&key.as_slice())
            );
            assert!(same || is_destination, "{command:?} changes a collection");
        }
    }
    wrong.is_some()
}

#[test]
fn no_command_takes_a_collection_for_a_string() {
    for number in numbers() {
        let mut dice = Dice(1);
        let kinds = (0..ROLLS).map(|seed| {
            dice = Dice(seed);
            let command = dice.command(number);
            (check_kinds(&command, &mut dice), command.kinds())
        });
        let kinds: Vec<_> = kinds.collect();
        if kinds.iter().any(|(_, kinds)| *kinds == Kinds::Strings) {
            assert!(kinds.iter().any(|(failed, _)| *failed), "command {number} never fails");
        }
    }
}

/// Notes errors, and the values that a reply shows.
#[derive(Default)]
struct Shown {
    errors: Vec<Error>,
    refused: usize,
    /// How many values there are, and the bytes of the longest.
    values: usize,
    longest: usize,
}

impl Shown {
    fn value(&mut self, value: &[u8]) {
        self.values += 1;
        self.longest = self.longest.max(value.len());
    }
}

impl Reply for Shown {
    fn error(&mut self, error: Error) {
        self.errors.push(error);
    }
    fn record(&mut self, record: Record<'_>) {
        self.value(record.value);
    }
    fn lease(&mut self, record: Record<'_>, _: LeaseState) {
        self.value(record.value);
    }
    fn number(&mut self, record: Record<'_>) {
        self.value(record.value);
    }
    fn bytes(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.value(bytes);
        }
    }
    fn done(&mut self) {}
    fn none(&mut self) {}
    fn description(&mut self, _: Description<'_>) {}
    fn stored(&mut self, _: u64) {}
    fn refused(&mut self, _: Refusal) {
        self.refused += 1;
    }
    fn integer(&mut self, _: i64) {}
    fn length(&mut self, _: usize, _: u64) {}
    fn flag(&mut self, _: bool) {}
    fn expiry(&mut self, _: Option<u64>) {}
    fn list(&mut self, _: usize) {}
    fn page(&mut self, _: u64, _: usize) {}
    fn slice(&mut self, _: Option<&[u8]>, _: usize) {}
    fn key(&mut self, _: &[u8]) {}
    fn matches(&mut self, _: &[LcsSpan], _: usize, _: bool) {}
}

#[test]
fn no_two_commands_have_a_number() {
    let numbers: BTreeSet<u16> = rows().map(|(number, _)| number).collect();
    assert_eq!(numbers.len(), rows().count());
}

#[test]
fn every_command_is_of_a_format_that_exists() {
    for number in numbers() {
        let format = Dice(1).command(number).format();
        assert!((FORMAT_MIN..=FORMAT_MAX).contains(&format), "{number}");
    }
}
