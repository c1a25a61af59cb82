//! Admission of transactions: the bound on their work, and room for all their writes.

use crate::recorder::{Answer, Recorder, Store};
use proptest::prelude::*;
use std::sync::Arc;
use todana_command::{
    BitsCommand, Command, Condition, DatabaseCommand, Databases, Delta, Error, Expires,
    Inadmissible, Increment, Initial, KeyCommand, LcsWant, Set, Side, StringCommand,
    TRANSACTION_UNITS_MAX, Transaction, Unit, execute_transaction, watch,
};
use todana_table::{Budget, Growth, Keyspace, Limits, Meta, Options, WhenFull, entry_bytes};

fn run(store: &Store, commands: &[(usize, Command<'_>)]) -> Result<Vec<Answer>, Inadmissible> {
    let mut recorder = Recorder::default();
    let transaction = Transaction { other_units: 0, watches: &[], commands };
    execute_transaction(&store.databases, &transaction, store.context(), &mut recorder, |_, _| {})?;
    Ok(recorder.answers)
}

fn in_database(command: Command<'_>, count: usize) -> Vec<(usize, Command<'_>)> {
    vec![(0, command); count]
}

fn append<'a>(key: &'a [u8], bytes: &'a [u8]) -> Command<'a> {
    let (condition, expires) = (Condition::Always, Expires::Keep);
    Command::String(StringCommand::Concat {
        key,
        bytes,
        side: Side::Append,
        create: true,
        condition,
        expires,
    })
}

fn too_much(store: &Store, command: &Command<'_>, count: usize) {
    let (table, version) = (store.databases.table(0), store.databases.table(0).version());
    let refused = run(store, &in_database(command.clone(), count));
    assert_eq!(refused, Err(Inadmissible::TooMuchWork), "{count} x {command:?}");
    assert_eq!(table.version(), version, "nothing was done");
}

#[test]
fn commands_on_single_keys_are_a_unit_each() {
    let store = Store::new();
    let most = usize::try_from(TRANSACTION_UNITS_MAX).unwrap();
    for command in [
        Command::String(StringCommand::Get { key: b"k" }),
        Command::String(StringCommand::Set(Set::new(b"k", b"v"))),
    ] {
        assert_eq!(run(&store, &in_database(command.clone(), most)).map(|it| it.len()), Ok(most));
        too_much(&store, &command, most + 1);
    }
    let delete = Command::Key(KeyCommand::Delete { keys: &[b"k"] });
    assert!(run(&store, &in_database(delete.clone(), most / 2)).is_ok());
    too_much(&store, &delete, most / 2 + 1);
    let keys = vec![&b"k"[..]; most];
    too_much(&store, &Command::Key(KeyCommand::Exists { keys: &keys }), 2);
    let watch = |_| watch(&store.databases, 0, b"k", store.now_ms);
    let watched: Vec<_> = (0..most / 2).map(watch).collect();
    let get = [(0, Command::String(StringCommand::Get { key: b"k" }))];
    for (commands, admitted) in [(&get[..0], Ok(true)), (&get, Err(Inadmissible::TooMuchWork))] {
        let transaction = Transaction { other_units: 0, watches: &watched, commands };
        let (mut recorder, context) = (Recorder::default(), store.context());
        let done =
            execute_transaction(&store.databases, &transaction, context, &mut recorder, |_, _| {});
        assert_eq!(done, admitted);
    }
}

#[test]
fn a_database_that_the_transaction_itself_uses_is_not_cleared_for_nothing() {
    let store = Store { databases: Databases::with_options(&Options::default()), ..Store::new() };
    let (set, get) = (
        Command::String(StringCommand::Set(Set::new(b"k", b"v"))),
        Command::String(StringCommand::Get { key: b"k" }),
    );
    let clear = Command::Database(DatabaseCommand::Clear { at_ms: None });
    for other in [set, get] {
        let both = |times: usize| vec![[(0, other.clone()), (0, clear.clone())]; times].concat();
        assert!(run(&store, &both(63)).is_ok());
        assert_eq!(run(&store, &both(64)), Err(Inadmissible::TooMuchWork));
        // A later use, or a use by another number, does not change that.
        let mut clears = in_database(clear.clone(), 64);
        clears.push((0, other.clone()));
        assert_eq!(run(&store, &clears), Err(Inadmissible::TooMuchWork));
        let swapped = |times: usize| {
            let swap = (0, Command::Database(DatabaseCommand::Swap { first: 0, second: 1 }));
            [vec![(1, other.clone()), swap], in_database(clear.clone(), times)].concat()
        };
        assert!(run(&store, &swapped(63)).is_ok());
        assert_eq!(run(&store, &swapped(64)), Err(Inadmissible::TooMuchWork));
    }
    let copy =
        Command::Key(KeyCommand::Copy { from: b"k", to: b"k", database: Some(0), replace: true });
    let clears = [vec![(1, copy)], in_database(clear.clone(), 64)].concat();
    assert_eq!(run(&store, &clears), Err(Inadmissible::TooMuchWork));
    let all = Command::Database(DatabaseCommand::ClearAll { at_ms: None });
    let set = (5, Command::String(StringCommand::Set(Set::new(b"k", b"v"))));
    let with_all = |times: usize| [vec![set.clone()], in_database(all.clone(), times)].concat();
    assert!(run(&store, &with_all(63)).is_ok());
    assert_eq!(run(&store, &with_all(64)), Err(Inadmissible::TooMuchWork));
}

/// Checks that `most` of these commands are admitted, and not one more.
fn admits(
    store: &Store,
    before: &[(usize, Command<'_>)],
    again: &[(usize, Command<'_>)],
    n: usize,
) {
    for (times, admitted) in [(n + 1, false), (n, true)] {
        let commands = [before, &vec![again; times].concat()[..]].concat();
        let done = run(store, &commands);
        assert_eq!(done.is_ok(), admitted, "{times} x {again:?}: {:?}", done.err());
    }
}

#[test]
fn a_value_that_was_empty_has_no_room_to_grow_into() {
    let store = Store { value_bytes_max: 64 << 20, ..Store::new() };
    let far = |key| {
        (0, Command::String(StringCommand::SetRange { key, offset: (7 << 20) - 1, bytes: b"x" }))
    };
    let of = |key| [far(key), (0, append(key, b"x"))];
    // Each takes 7,167 units for zeroes, and the first that is appended takes 21,504.
    assert!(run(&store, &[of(b"a"), of(b"b")].concat()).is_ok());
    assert_eq!(
        run(&store, &[of(b"c"), of(b"d"), of(b"e")].concat()),
        Err(Inadmissible::TooMuchWork)
    );
    // After that the value has spare capacity.
    let again = [(0, append(b"f", b"x"))];
    admits(&store, &of(b"f"), &again, 65_536 - 7_167 - 21_504 - 2);
}

#[test]
fn zeroes_are_work_in_whatever_room_they_are_written() {
    let mut store = Store { value_bytes_max: 64 << 20, ..Store::new() };
    let large = vec![b'l'; 16 << 20];
    assert_eq!(
        store.run(Command::String(StringCommand::Set(Set::new(b"k", &large)))),
        Answer::Stored
    );
    let grow = (0, append(b"k", b"x"));
    let fill = (
        0,
        Command::String(StringCommand::SetRange { key: b"k", offset: (20 << 20) - 1, bytes: b"x" }),
    );
    let get = [(0, Command::String(StringCommand::Get { key: b"other" }))];
    admits(&store, &[grow, fill], &get, 65_536 - 3 * (16 << 10) - 2 - 4_095);
    // In a new allocation too, unless the system maps its pages.
    let far = |offset: u64| {
        [(0, Command::Bits(BitsCommand::SetBit { key: b"new", offset: 8 * offset, bit: true }))]
    };
    let delete = (0, Command::Key(KeyCommand::Delete { keys: &[b"new"] }));
    for (offset, times) in [(200u64 << 10, 322), (33 << 20, 21_845)] {
        admits(&store, &[], &[&far(offset)[..], std::slice::from_ref(&delete)].concat(), times);
    }
}

#[test]
fn short_values_are_work_each_time_that_they_are_written_anew() {
    let mut store = Store::new();
    store.set("k", &"x".repeat(15 << 10));
    let bit = [(0, Command::Bits(BitsCommand::SetBit { key: b"k", offset: 7, bit: true }))];
    admits(&store, &[], &bit, 65_536 / 16);
}

#[test]
fn a_handle_in_a_reply_makes_the_next_edit_copy_the_value() {
    let mut store = Store { value_bytes_max: 64 << 20, ..Store::new() };
    let large = vec![b'l'; 8 << 20];
    assert_eq!(
        store.run(Command::String(StringCommand::Set(Set::new(b"k", &large)))),
        Answer::Stored
    );
    let write = (0, Command::String(StringCommand::SetRange { key: b"k", offset: 0, bytes: b"x" }));
    let get_and_expire =
        Command::String(StringCommand::GetAndExpire { key: b"k", expires: Expires::Never });
    let part = Command::String(StringCommand::GetRange { key: b"k", start: 0, end: 255 });
    let many = Command::String(StringCommand::GetMany { keys: &[b"k"] });
    for get in [Command::String(StringCommand::Get { key: b"k" }), many, get_and_expire, part] {
        admits(&store, &[], &[write.clone(), (0, get)], 2);
    }
    let lengthen = Command::Key(KeyCommand::Expire {
        key: b"k",
        expires: Expires::Never,
        when: Default::default(),
    });
    admits(&store, &[], &[write, (0, lengthen)], (65_536 - 24_576) / 2);
}

#[test]
fn an_edit_that_may_pass_the_greatest_length_is_foreseen_all_the_same() {
    let mut store = Store { value_bytes_max: 1_000_000, ..Store::new() };
    store.set("k", &"x".repeat(600_000));
    let most = vec![b'y'; 1_000_000];
    let unless_there = Set { condition: Condition::IfAbsent, ..Set::new(b"k", &most) };
    let before = [(0, Command::String(StringCommand::Set(unless_there)))];
    let again = [(0, append(b"k", b"x")), (0, Command::String(StringCommand::Get { key: b"k" }))];
    admits(&store, &before, &again, (65_536 - 1 - 2_929) / (2_929 + 2));
}

#[test]
fn a_record_that_is_renamed_has_no_room_of_its_former_key() {
    let long = [b'k'; 60_000];
    let entry = entry_bytes(1, 60_000, &Meta::default());
    let mut store = room_for(entry + entry_bytes(60_000, 1, &Meta::default()) + 1_000);
    let value = "v".repeat(60_000);
    store.set("k", &value);
    assert_eq!(
        store.run(Command::String(StringCommand::Set(Set::new(&long, b"v")))),
        Answer::Stored
    );
    let commands = [
        (0, Command::Key(KeyCommand::Rename { from: &long, to: b"k", if_absent: false })),
        (0, Command::String(StringCommand::Set(Set::new(b"k", value.as_bytes())))),
    ];
    assert_eq!(run(&store, &commands), Err(Inadmissible::Full));
    assert_eq!(store.run(Command::Key(KeyCommand::Delete { keys: &[b"k"] })), Answer::Integer(1));
    assert_eq!(run(&store, &commands).map(|it| it.len()), Ok(2));
}

#[test]
fn commands_on_a_whole_database_cost_by_its_records() {
    let mut store = Store::new();
    for number in 0..5_000 {
        store.set(&number.to_string(), "v");
    }
    let keys = Command::Database(DatabaseCommand::Keys { pattern: b"1" });
    assert_eq!(run(&store, &in_database(keys.clone(), 4)).map(|it| it.len()), Ok(8));
    too_much(&store, &keys, 5);
    let scan = |count| {
        Command::Database(DatabaseCommand::Scan { cursor: 0, count, pattern: None, values: false })
    };
    assert!(run(&store, &in_database(scan(10), 50)).is_ok());
    // COUNT is limited to the records that a page may visit.
    too_much(&store, &scan(usize::MAX), 6);
    too_much(&store, &Command::Database(DatabaseCommand::Count), 257);
    too_much(&store, &Command::Database(DatabaseCommand::RandomKey { seed: 7 }), 257);
    let databases = Databases::with_options(&Options::default());
    let mut store = Store { databases, ..Store::new() };
    store.set("k", "v");
    too_much(&store, &Command::Database(DatabaseCommand::Clear { at_ms: None }), 64);
    store.run(Command::Database(DatabaseCommand::Clear { at_ms: None }));
    assert!(
        run(&store, &in_database(Command::Database(DatabaseCommand::Clear { at_ms: None }), 1_000))
            .is_ok()
    );
}

#[test]
fn bytes_count_those_of_arguments_and_those_that_are_found() {
    let mut store = Store { value_bytes_max: 64 << 20, ..Store::new() };
    let (mega, large) = (vec![b'm'; 1_000_000], vec![b'l'; 8 << 20]);
    assert!(
        run(&store, &in_database(Command::String(StringCommand::Set(Set::new(b"m", &mega))), 16))
            .is_ok()
    );
    too_much(&store, &Command::String(StringCommand::Set(Set::new(b"m", &mega))), 23);
    assert_eq!(
        store.run(Command::String(StringCommand::Set(Set::new(b"l", &large)))),
        Answer::Stored
    );
    // The value is copied once and then has spare capacity.
    let answers = run(&store, &in_database(append(b"l", b"x"), 200)).unwrap();
    assert_eq!(answers[199], Answer::Length((8 << 20) + 200));
    // A handle to the old value makes the next write copy it.
    let (copy, bit) = (
        Command::Key(KeyCommand::Copy { from: b"l", to: b"other", database: None, replace: true }),
        Command::Bits(BitsCommand::SetBit { key: b"l", offset: 0, bit: true }),
    );
    let version = store.databases.table(0).version();
    let both = |times: usize| vec![[(0, copy.clone()), (0, bit.clone())]; times].concat();
    assert_eq!(run(&store, &both(3)), Err(Inadmissible::TooMuchWork));
    assert_eq!(store.databases.table(0).version(), version);
    assert!(run(&store, &both(2)).is_ok());
    let count = Command::Bits(BitsCommand::BitCount { key: b"l", span: None });
    assert!(run(&store, &in_database(count.clone(), 3)).is_ok());
    too_much(&store, &count, 4);
    let position = Command::Bits(BitsCommand::BitPosition {
        key: b"l",
        bit: true,
        start: None,
        end: None,
        unit: Unit::Byte,
    });
    too_much(&store, &position, 4);
}

#[test]
fn a_long_subsequence_is_an_error_of_its_own_in_a_transaction() {
    let mut store = Store::new();
    let values = [512, 513, 32 << 10].map(|length| "x".repeat(length));
    for (key, value) in ["a", "b", "c"].iter().zip(&values) {
        store.set(key, value);
    }
    let lcs = |keys: [&'static [u8]; 2]| {
        Command::String(StringCommand::Lcs { keys, want: LcsWant::Length })
    };
    let commands = [
        (0, lcs([b"a", b"a"])),
        (0, lcs([b"b", b"c"])),
        (0, Command::Database(DatabaseCommand::Count)),
    ];
    let refused = Answer::Error(Error::ValueTooLarge);
    assert_eq!(run(&store, &commands), Ok(vec![Answer::Integer(512), refused, Answer::Integer(3)]));
    assert_eq!(store.run(lcs([b"b", b"c"])), Answer::Integer(513));
    too_much(&store, &lcs([b"a", b"a"]), 257);
}

#[test]
fn large_values_are_replied_by_handles() {
    let mut store = Store::new();
    for (key, length) in [("small", 16_383), ("large", 16_384)] {
        store.set(key, &"x".repeat(length));
    }
    let commands = [
        (0, Command::String(StringCommand::Get { key: b"small" })),
        (0, Command::String(StringCommand::GetMany { keys: &[b"large", b"small", b"none"] })),
        (
            0,
            Command::String(StringCommand::Set(Set {
                return_old: true,
                ..Set::new(b"large", &[b'y'; 20_000])
            })),
        ),
        (
            0,
            Command::String(StringCommand::GetAndExpire { key: b"large", expires: Expires::Never }),
        ),
        (0, Command::String(StringCommand::Take { key: b"large" })),
    ];
    for (commands, held) in [(&commands[..1], 0), (&commands[1..2], 1), (&commands[2..], 3)] {
        let mut recorder = Recorder::default();
        let transaction = Transaction { other_units: 0, watches: &[], commands };
        let done = execute_transaction(
            &store.databases,
            &transaction,
            store.context(),
            &mut recorder,
            |_, _| {},
        );
        assert_eq!((done, recorder.held), (Ok(true), held));
    }
    let range = |end| Command::String(StringCommand::GetRange { key: b"large", start: 0, end });
    store.value_bytes_max = 8 << 20;
    store.set("large", &"x".repeat(8 << 20));
    too_much(&store, &range(-1), 3);
    assert!(run(&store, &in_database(range(99), 10_000)).is_ok());
}

/// Databases that share a limit of `bytes` and refuse more.
fn room_for(bytes: u64) -> Store {
    let budget = Some(Arc::new(Budget::new(bytes.cast_signed(), WhenFull::Refuse)));
    let databases = Databases::with_options(&Options { budget, ..Options::default() });
    Store { databases, value_bytes_max: 1 << 30, ..Store::new() }
}

/// The limits change after the transaction was admitted, and before its first write or its second
/// one.
#[test]
fn limits_that_change_during_a_transaction_refuse_none_of_its_commands() {
    let when_full = WhenFull::Refuse;
    let few = Limits { entries_max: Some(1), when_full, ..Limits::default() };
    let small = Limits { bytes_max: Some(200), ..Limits::default() };
    let large = [7; 300];
    let pairs = [(&b"c"[..], &large[..]), (b"d", b"2"), (b"e", b"3")];
    let (condition, expires) = (Condition::Always, Expires::Never);
    let key = b"a";
    let commands = [
        Command::String(StringCommand::Set(Set::new(b"a", b"1"))),
        Command::String(StringCommand::Set(Set::new(b"b", &large))),
        Command::String(StringCommand::SetMany { pairs: &pairs, condition, expires }),
        append(b"b", &large),
        Command::Key(KeyCommand::Expire {
            key,
            expires: Expires::At(u64::MAX),
            when: Default::default(),
        }),
        Command::Key(KeyCommand::Rename { from: b"b", to: b"longer", if_absent: false }),
    ]
    .map(|command| (0, command));
    for (room, index, lowered) in
        [(u64::MAX / 2, 0, few), (100_000, 1, few), (u64::MAX / 2, 1, small), (100_000, 0, small)]
    {
        let store = room_for(room);
        let (table, mut recorder) = (store.databases.table(0), Recorder::default());
        let transaction = Transaction { other_units: 0, watches: &[], commands: &commands };
        let done = execute_transaction(
            &store.databases,
            &transaction,
            store.context(),
            &mut recorder,
            |_, at| {
                if at == index {
                    table.set_limits(lowered);
                }
            },
        );
        assert_eq!(done, Ok(true));
        let failed = |answer: &Answer| matches!(answer, Answer::Error(_) | Answer::Refused(_));
        assert!(!recorder.answers.iter().any(failed), "{:?}", recorder.answers);
        assert_eq!(table.counts().refused, 0);
        if lowered.when_full == WhenFull::Refuse {
            assert_eq!(table.len(), 5, "a limit that refuses writes removes nothing");
            let more =
                run(&store, &[(0, Command::String(StringCommand::Set(Set::new(b"f", b"4"))))]);
            assert_eq!(more, Err(Inadmissible::Full), "the next transaction has the new limits");
        }
    }
}

fn mega_entry() -> u64 {
    entry_bytes(2, 1_000_000, &Meta::default())
}

#[test]
fn where_there_is_room_for_half_nothing_is_done() {
    let store = room_for(8 * mega_entry() + 100);
    let value = vec![b'v'; 1_000_000];
    let keys: Vec<String> = (10..26).map(|number| number.to_string()).collect();
    let sets: Vec<(usize, Command<'_>)> = keys
        .iter()
        .map(|key| (0, Command::String(StringCommand::Set(Set::new(key.as_bytes(), &value)))))
        .collect();
    assert_eq!(run(&store, &sets), Err(Inadmissible::Full));
    assert_eq!((store.databases.table(0).len(), store.databases.table(0).version()), (0, 0));
    assert_eq!(run(&store, &sets[..8]).map(|it| it.len()), Ok(8));
    assert!(!store.databases.table(0).is_full());
    // Other records of the same lengths replace them.
    assert_eq!(run(&store, &[&sets[..8], &sets[..8]].concat()).map(|it| it.len()), Ok(16));
    assert_eq!(run(&store, &sets[8..9]), Err(Inadmissible::Full));
    // Room that the transaction itself frees does not count.
    let commands = [(0, Command::Key(KeyCommand::Delete { keys: &[b"10"] })), sets[8].clone()];
    assert_eq!(run(&store, &commands), Err(Inadmissible::Full));
    assert_eq!(store.databases.table(0).len(), 8);
    // Commands that need no room succeed although the table is full.
    let rest = [
        (0, Command::Key(KeyCommand::Rename { from: b"10", to: b"xx", if_absent: false })),
        (0, Command::Key(KeyCommand::Move { key: b"11", database: 3 })),
        (
            0,
            Command::Key(KeyCommand::Expire {
                key: b"12",
                expires: Expires::Never,
                when: Default::default(),
            }),
        ),
        (0, Command::Key(KeyCommand::Delete { keys: &[b"13"] })),
    ];
    assert_eq!(run(&store, &rest).map(|it| it.len()), Ok(4));
    assert_eq!(run(&store, &sets[8..9]).map(|it| it.len()), Ok(1));
}

#[test]
fn a_limit_on_records_is_looked_at_too() {
    let limits = Limits { entries_max: Some(2), when_full: WhenFull::Refuse, bytes_max: None };
    let databases = Databases::with_options(&Options { limits, ..Options::default() });
    let store = Store { databases, ..Store::new() };
    let set = |key: &'static [u8]| (0, Command::String(StringCommand::Set(Set::new(key, b"v"))));
    assert_eq!(run(&store, &[set(b"a"), set(b"b"), set(b"c")]), Err(Inadmissible::Full));
    assert!(run(&store, &[set(b"a"), set(b"b"), set(b"a")]).is_ok());
    assert!(store.databases.table(0).is_full());
}

#[test]
fn writes_larger_than_the_limit_are_refused_despite_eviction() {
    let limits = Limits { bytes_max: Some(10_000), ..Limits::default() };
    let databases = Databases::with_options(&Options { limits, ..Options::default() });
    let store = Store { databases, ..Store::new() };
    let value = [b'v'; 4_000];
    let keys: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    let sets: Vec<(usize, Command<'_>)> = keys
        .iter()
        .map(|key| (0, Command::String(StringCommand::Set(Set::new(key.as_bytes(), &value)))))
        .collect();
    assert_eq!(run(&store, &sets).map(|it| it.len()), Ok(20));
}

const KEYS: [&[u8]; 4] = [b"a", b"b", b"cc", b"dddd"];

/// Commands on few keys that write, remove, grow and copy.
fn command(numbers: (u8, u8, u8, usize)) -> (usize, Command<'static>) {
    static BYTES: [u8; 60_000] = [b'7'; 60_000];
    let (kind, first, second, length) = numbers;
    let (key, other) = (KEYS[usize::from(first % 4)], KEYS[usize::from(second % 4)]);
    let length = if second & 64 == 0 { length % 60_000 } else { length % 300 };
    let value = &BYTES[..length];
    let database = usize::from(first / 4 % 2);
    let conditions = [Condition::Always, Condition::IfAbsent, Condition::IfPresent];
    let condition = conditions[usize::from(second / 4 % 3)];
    let expires = match second / 16 % 4 {
        0 => Expires::At(2_000_000),
        1 => Expires::Keep,
        2 if kind & 64 != 0 => Expires::At(1),
        2 => Expires::After(1),
        _ => Expires::Never,
    };
    let initial = Some((Initial::Zero, Expires::Never));
    let command = match kind % 16 {
        0..=3 => {
            Command::String(StringCommand::Set(Set { condition, expires, ..Set::new(key, value) }))
        }
        4 | 5 => append(key, value),
        6 => {
            Command::String(StringCommand::SetRange { key, offset: length as u64, bytes: b"range" })
        }
        7 => Command::Bits(BitsCommand::SetBit { key, offset: length as u64 * 8, bit: true }),
        8 => Command::String(StringCommand::Increment(Increment {
            key,
            delta: Delta::Signed(length as i64),
            initial,
            condition: Condition::Always,
            expires: Expires::Keep,
            track_access: false,
        })),
        9 => Command::String(StringCommand::IncrementFloat { key, delta: b"1e300" }),
        10 => Command::Key(KeyCommand::Copy {
            from: key,
            to: other,
            database: None,
            replace: second & 32 == 0,
        }),
        11 => Command::Key(KeyCommand::Copy {
            from: key,
            to: other,
            database: Some(1),
            replace: true,
        }),
        12 => {
            Command::Key(KeyCommand::Rename { from: key, to: other, if_absent: second & 32 == 0 })
        }
        13 => Command::Key(KeyCommand::Delete { keys: &KEYS[..2] }),
        14 => Command::Key(KeyCommand::Expire { key, expires, when: Default::default() }),
        _ if second & 32 == 0 => Command::Key(KeyCommand::Move { key, database: 1 - database }),
        _ if second & 16 == 0 => Command::Database(DatabaseCommand::Swap { first: 0, second: 1 }),
        _ => Command::String(StringCommand::Take { key }),
    };
    (database, command)
}

proptest! {
    /// An admitted transaction finds room, and returns the room that it does not use.
    #[test]
    fn no_admitted_command_fails_for_want_of_room(
        room in 1_000u64..200_000,
        transactions in prop::collection::vec(
            prop::collection::vec(any::<(u8, u8, u8, usize)>(), 1..12), 1..12),
    ) {
        let store = room_for(room);
        let bytes = |store: &Store| {
            store.databases.tables().iter().map(|table| table.bytes()).sum::<u64>()
        };
        for numbers in transactions {
            let commands: Vec<_> = numbers.into_iter().map(command).collect();
            let before = bytes(&store);
            match run(&store, &commands) {
                Ok(answers) => {
                    prop_assert!(!answers.contains(&Answer::Error(Error::Full)), "{commands:?}");
                }
                Err(_) => prop_assert_eq!(bytes(&store), before),
            }
            let least = entry_bytes(0, 0, &Meta::default());
            let left = room.saturating_sub(bytes(&store));
            prop_assert_eq!(store.databases.table(0).is_full(), left < least);
            // All the remaining room can be reserved, and no more.
            let all = store.databases.table(0).lock_all(store.now_ms);
            let growth = |bytes| Growth { bytes, ..Growth::default() };
            prop_assert!(all.reserve(growth(left)).is_ok());
            prop_assert!(left == 0 || all.reserve(growth(left + 1)).is_err());
        }
    }
}
