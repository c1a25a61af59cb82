//! The classes of commands, and what commands that read leave unchanged.

use crate::recorder::{Recorder, Store};
use proptest::prelude::*;
use todana_command::testing::{Dice, KEYS, numbers};
use todana_command::{
    Access, Command, Condition, DATABASES, Databases, Expires, KeyCommand, LeaseCommand,
    LeaseOptions, Set, StringCommand, execute, execute_lease_read,
};
use todana_table::{Keyspace, Table};

/// All that is durable of a record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct State {
    key: Vec<u8>,
    value: Vec<u8>,
    flags: u32,
    expires_at_ms: Option<u64>,
    pub(crate) version: u64,
    /// Whether it is stale, and whether a reader has won.
    marks: Option<(bool, bool)>,
}

/// All that is durable of a table.
pub(crate) fn state(table: &Table, now_ms: u64) -> (u64, Vec<State>) {
    let (mut states, mut cursor) = (Vec::new(), 0);
    loop {
        cursor = table.scan(cursor, 1_000, now_ms, |entry| {
            states.push(State {
                key: entry.key().to_vec(),
                value: entry.stored().bytes().to_vec(),
                flags: entry.flags(),
                expires_at_ms: entry.expires_at_ms(),
                version: entry.version(),
                marks: entry.meta().access.map(|access| (access.stale, access.won)),
            });
        });
        if cursor == 0 {
            states.sort();
            return (table.version(), states);
        }
    }
}

pub(crate) fn states(databases: &Databases, now_ms: u64) -> Vec<(u64, Vec<State>)> {
    databases.tables().iter().map(|table| state(table, now_ms)).collect()
}

/// Random records, from random writes.
fn filled(seed: u64) -> Store {
    let (mut store, mut dice) = (Store::new(), Dice(seed));
    for key in KEYS {
        let track_access = dice.bit();
        store.run(Command::String(StringCommand::Set(Set {
            track_access,
            ..Set::new(key, b"127")
        })));
        if dice.bit() {
            let (condition, expires) = (Condition::Always, Expires::Keep);
            store.run(Command::Lease(LeaseCommand::Invalidate { key, condition, expires }));
        }
    }
    for _ in 0..20 {
        let command = dice.any_command();
        if command.access() == Access::Write {
            store.all_in(dice.below(2), command);
        }
    }
    store
}

proptest! {
    #[test]
    fn reads_change_nothing(seed: u64) {
        let (mut store, mut dice) = (filled(seed), Dice(!seed));
        for number in numbers() {
            let command = dice.command(number);
            let before = states(&store.databases, store.now_ms);
            match command.access() {
                Access::Read | Access::Walk => {
                    store.all_in(dice.below(DATABASES), command.clone());
                }
                Access::Lease => {
                    let (databases, context) = (&store.databases, store.context());
                    let mut reply = Recorder::default();
                    execute_lease_read(databases, 0, &command, context, &mut reply);
                }
                Access::Write | Access::Sweep => continue,
            }
            prop_assert_eq!(states(&store.databases, store.now_ms), before, "{:?}", command);
        }
    }

    #[test]
    fn a_lease_is_a_read_where_it_changes_nothing(seed: u64) {
        let (store, mut dice) = (filled(seed), Dice(!seed));
        let command = Command::Lease(LeaseCommand::Get { key: dice.key(), options: dice.any() });
        let (databases, context) = (&store.databases, store.context());
        let [mut read, mut executed] = [Recorder::default(), Recorder::default()];
        let is_read = execute_lease_read(databases, 0, &command, context, &mut read);
        let before = states(&store.databases, store.now_ms);
        execute(databases, 0, &command, context, &mut executed);
        if is_read {
            // The first read counts as an access.
            let again = |answer: &mut crate::recorder::Answer| {
                if let crate::recorder::Answer::Lease { state, .. } = answer {
                    (state.fetched_before, state.idle_s) = (false, 0);
                }
            };
            read.answers.iter_mut().for_each(again);
            executed.answers.iter_mut().for_each(again);
            prop_assert_eq!(read.answers, executed.answers);
            prop_assert_eq!(states(&store.databases, store.now_ms), before);
        } else {
            prop_assert_eq!(read.answers, vec![]);
        }
    }
}

#[test]
fn a_lease_that_wins_is_no_read() {
    let mut store = Store::new();
    let key = b"k";
    let read = |store: &Store, options| {
        let (mut reply, context) = (Recorder::default(), store.context());
        let lease = Command::Lease(LeaseCommand::Get { key, options });
        execute_lease_read(&store.databases, 0, &lease, context, &mut reply)
    };
    let vivify = LeaseOptions { vivify: Some(Expires::Never), ..LeaseOptions::default() };
    assert!(!read(&store, vivify), "it would create the record");
    assert!(read(&store, LeaseOptions::default()), "there is nothing to read");

    store.run(Command::String(StringCommand::Set(Set {
        expires: Expires::After(5_000),
        ..Set::new(key, b"v")
    })));
    assert!(read(&store, vivify));
    let touch = LeaseOptions { touch: Some(Expires::Never), ..LeaseOptions::default() };
    assert!(!read(&store, touch), "it would change the expiry");
    let recache = LeaseOptions { recache_below_ms: Some(5_001), ..LeaseOptions::default() };
    assert!(!read(&store, recache), "it would win");
    assert!(read(&store, LeaseOptions { never_win: true, ..recache }));
    store.run(Command::Lease(LeaseCommand::Get { key, options: recache }));
    assert!(read(&store, recache), "another one has won");
}

#[test]
fn a_command_of_many_keys_is_no_point_read() {
    let keys = vec![&b"k"[..]; 65];
    for (keys, access) in [(&keys[..64], Access::Read), (&keys[..], Access::Walk)] {
        assert_eq!(Command::String(StringCommand::GetMany { keys }).access(), access);
        assert_eq!(Command::Key(KeyCommand::Exists { keys }).access(), access);
        assert_eq!(Command::Key(KeyCommand::NoteAccess { keys }).access(), access);
    }
}

#[test]
fn a_new_expiry_makes_a_write_of_a_read() {
    let read =
        |expires| Command::String(StringCommand::GetAndExpire { key: b"k", expires }).access();
    assert_eq!(read(Expires::Keep), Access::Read);
    assert_eq!(read(Expires::After(1)), Access::Write);
}

/// A write that waits in the log lives as long as one that does not.
#[test]
fn a_relative_expiry_begins_when_the_write_is_executed() {
    let mut store = Store::new();
    for (expires, at_ms) in [(Expires::After(250), 1_002_750), (Expires::AfterSecond(7), 1_010_000)]
    {
        store.now_ms = 1_002_500;
        store.run(Command::String(StringCommand::Set(Set { expires, ..Set::new(b"k", b"v") })));
        let table = store.databases.table(0);
        let stored = table.read(b"k", store.now_ms, |entry| entry.unwrap().expires_at_ms());
        assert_eq!(stored, Some(at_ms));
    }
    for expires in [Expires::After(u64::MAX), Expires::AfterSecond(u64::MAX)] {
        assert!(expires.resolve(None, store.now_ms) >= Some(u64::MAX / 1000 * 1000));
    }
}
