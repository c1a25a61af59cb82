//! Numbered databases: exchanging, clearing, and what other clients see of it.

use crate::recorder::{Answer, Recorder, Store, value};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use todana_command::{
    Command, DatabaseCommand, ExpireWhen, Expires, KeyCommand, Place, Set, StringCommand,
    Transaction, execute, execute_on, execute_transaction, take, watch,
};
use todana_table::{Entry, Keyspace, Limits, LockedKey, Meta, Options, Table, WhenFull};

#[test]
fn a_database_that_does_not_exist_is_an_error_everywhere() {
    let mut store = Store::new();
    store.set("k", "v");
    let error = Answer::Error(todana_command::Error::NoSuchDatabase);
    let commands = [
        Command::String(StringCommand::Get { key: b"k" }),
        Command::String(StringCommand::Set(Set::new(b"k", b"v"))),
        Command::Database(DatabaseCommand::Count),
        Command::Database(DatabaseCommand::Clear { at_ms: None }),
        Command::String(StringCommand::SetMany {
            pairs: &[(b"k", b"v")],
            condition: Default::default(),
            expires: Default::default(),
        }),
        Command::Key(KeyCommand::Move { key: b"k", database: 0 }),
    ];
    for command in commands {
        for database in [16, usize::MAX] {
            assert_eq!(store.run_in(database, command.clone()), error, "{command:?}");
            let mut recorder = Recorder::default();
            let transaction = Transaction {
                other_units: 0,
                watches: &[],
                commands: &[(database, command.clone())],
            };
            let context = store.context();
            let done = execute_transaction(
                &store.databases,
                &transaction,
                context,
                &mut recorder,
                |_, _| {},
            );
            assert_eq!(done, Ok(true));
            assert_eq!(recorder.answers, std::slice::from_ref(&error), "{command:?}");
        }
    }
    assert_eq!(store.run(Command::Key(KeyCommand::Move { key: b"k", database: 16 })), error);
    assert_eq!(store.run(Command::Database(DatabaseCommand::Swap { first: 0, second: 16 })), error);
    let replace = false;
    let copy = Command::Key(KeyCommand::Copy { from: b"k", to: b"l", database: Some(99), replace });
    assert_eq!(store.run(copy), error);
    let watched = [watch(&store.databases, 16, b"k", store.now_ms)];
    let transaction = Transaction { other_units: 0, watches: &watched, commands: &[] };
    let mut recorder = Recorder::default();
    let done = execute_transaction(
        &store.databases,
        &transaction,
        store.context(),
        &mut recorder,
        |_, _| {},
    );
    assert_eq!(done, Ok(true));
}

#[test]
fn a_table_by_itself_knows_no_other_database() {
    let table = Table::new(Options::default());
    let context = Store::new().context();
    let run = |command: Command<'_>| {
        let mut recorder = Recorder::default();
        execute_on(&table, &command, context, &mut recorder);
        recorder.answers.remove(0)
    };
    assert_eq!(run(Command::String(StringCommand::Set(Set::new(b"k", b"v")))), Answer::Stored);
    assert_eq!(
        run(Command::Key(KeyCommand::Rename { from: b"k", to: b"l", if_absent: false })),
        Answer::Done
    );
    assert_eq!(run(Command::String(StringCommand::Get { key: b"l" })), value("v"));
    let error = Answer::Error(todana_command::Error::NoSuchDatabase);
    let replace = false;
    assert_eq!(
        run(Command::Key(KeyCommand::Copy { from: b"l", to: b"m", database: Some(0), replace })),
        error
    );
    assert_eq!(run(Command::Key(KeyCommand::Move { key: b"l", database: 1 })), error);
    assert_eq!(run(Command::Database(DatabaseCommand::Swap { first: 0, second: 1 })), error);
    assert_eq!(run(Command::Database(DatabaseCommand::ClearAll { at_ms: None })), error);
    assert_eq!(run(Command::Database(DatabaseCommand::Clear { at_ms: None })), Answer::Done);
    assert_eq!(run(Command::Database(DatabaseCommand::Count)), Answer::Integer(0));
}

#[test]
fn a_clear_takes_the_place_of_one_to_come() {
    let mut store = Store::new();
    let at_ms = Some(store.now_ms + 1_000);
    store.run(Command::Database(DatabaseCommand::ClearAll { at_ms }));
    store.set("k", "v");
    store.run(Command::Database(DatabaseCommand::Clear { at_ms: None }));
    assert_eq!(store.get("k"), None);
    store.set("k", "v");
    store.now_ms += 1_000;
    assert_eq!(store.get("k").as_deref(), Some("v"), "only the other databases are cleared now");
}

#[test]
fn a_clear_in_a_transaction_can_wait_for_its_time() {
    let mut store = Store::new();
    let at_ms = Some(store.now_ms + 1_000);
    let commands = [
        (0, Command::Database(DatabaseCommand::Clear { at_ms })),
        (0, Command::String(StringCommand::Set(Set::new(b"k", b"v")))),
    ];
    let transaction = Transaction { other_units: 0, watches: &[], commands: &commands };
    let mut recorder = Recorder::default();
    let done = execute_transaction(
        &store.databases,
        &transaction,
        store.context(),
        &mut recorder,
        |_, _| {},
    );
    assert_eq!(done, Ok(true));
    assert_eq!(recorder.answers, [Answer::Done, Answer::Stored]);
    assert_eq!(store.get("k").as_deref(), Some("v"));
    store.now_ms += 1_000;
    assert_eq!(store.get("k"), None);
}

/// The next data set is filled in database 1, swapped in, and the old one cleared: a reader of
/// database 0 always finds the key.
#[test]
fn a_swapped_in_data_set_is_never_missed() {
    const ROUNDS: usize = 3_000;
    let store = &Store::new();
    let stop = &AtomicBool::new(false);
    let run = move |database, command: Command<'_>| {
        let mut recorder = Recorder::default();
        execute(&store.databases, database, &command, store.context(), &mut recorder);
        recorder.answers
    };
    let transaction = move |commands: &[(usize, Command<'_>)]| {
        let mut recorder = Recorder::default();
        let transaction = Transaction { other_units: 0, watches: &[], commands };
        let done = execute_transaction(
            &store.databases,
            &transaction,
            store.context(),
            &mut recorder,
            |_, _| {},
        );
        assert_eq!(done, Ok(true));
        recorder.answers
    };
    run(0, Command::String(StringCommand::Set(Set::new(b"k", b"v"))));
    let get = &Command::String(StringCommand::Get { key: b"k" });
    std::thread::scope(|scope| {
        let readers = [
            scope.spawn(move || {
                while !stop.load(SeqCst) {
                    assert_eq!(run(0, get.clone()), [value("v")]);
                    assert_eq!(
                        run(0, Command::Key(KeyCommand::Exists { keys: &[b"k"] })),
                        [Answer::Integer(1)]
                    );
                }
            }),
            scope.spawn(move || {
                while !stop.load(SeqCst) {
                    // In a transaction, which sees one map of the databases throughout.
                    let answers = transaction(&[
                        (0, get.clone()),
                        (0, Command::Database(DatabaseCommand::Count)),
                    ]);
                    assert_eq!(answers, [value("v"), Answer::Integer(1)]);
                }
            }),
        ];
        for round in 0..ROUNDS {
            run(1, Command::String(StringCommand::Set(Set::new(b"k", b"v"))));
            let (swap, clear) = (
                Command::Database(DatabaseCommand::Swap { first: 0, second: 1 }),
                Command::Database(DatabaseCommand::Clear { at_ms: None }),
            );
            if round % 2 == 0 {
                run(0, swap);
                run(1, clear);
            } else {
                transaction(&[(0, swap), (1, clear)]);
            }
        }
        stop.store(true, SeqCst);
        readers.into_iter().for_each(|reader| reader.join().expect("a reader missed the key"));
    });
}

/// Commands that add only a few bytes of metadata succeed in a full server too, as in Redis.
#[test]
fn a_full_server_still_moves_and_lets_expire() {
    let budget = std::sync::Arc::new(todana_table::Budget::new(i64::MAX, WhenFull::Refuse));
    let options = Options { budget: Some(budget.clone()), shards: Some(64), ..Options::default() };
    let databases = todana_command::Databases::with_options(&options);
    let mut store = Store { databases, ..Store::new() };
    let text = "v".repeat(300);
    store.set("k", &text);
    budget.bytes_max.store(budget.bytes.load(SeqCst), SeqCst);
    let full = Answer::Error(todana_command::Error::Full);
    assert_eq!(store.run(Command::String(StringCommand::Set(Set::new(b"more", b"v")))), full);
    let at_ms = store.now_ms + 1_000;
    let (expires, when) = (Expires::At(at_ms), ExpireWhen::default());
    assert_eq!(
        store.run(Command::Key(KeyCommand::Expire { key: b"k", expires, when })),
        Answer::Flag(true)
    );
    assert_eq!(
        store.run(Command::Key(KeyCommand::Expiry { key: b"k" })),
        Answer::Expiry(Some(at_ms))
    );
    let expires = Expires::Never;
    assert_eq!(
        store.run(Command::Key(KeyCommand::Expire { key: b"k", expires, when })),
        Answer::Flag(true)
    );
    let expires = Expires::At(at_ms);
    let expected = Answer::Record { value: text.into(), flags: 0, expires_at_ms: Some(at_ms) };
    assert_eq!(
        store.run(Command::String(StringCommand::GetAndExpire { key: b"k", expires })),
        expected
    );
    assert_eq!(
        store.run(Command::Key(KeyCommand::Expiry { key: b"k" })),
        Answer::Expiry(Some(at_ms))
    );
    let to = b"another name";
    assert_eq!(
        store.run(Command::Key(KeyCommand::Rename { from: b"k", to, if_absent: false })),
        Answer::Done
    );
    assert_eq!(
        store.run(Command::Key(KeyCommand::Move { key: to, database: 3 })),
        Answer::Flag(true)
    );
    let copy =
        Command::Key(KeyCommand::Copy { from: to, to: b"c", database: None, replace: false });
    assert_eq!(store.run_in(3, copy), full, "a copy adds");
    let sum: u64 = store.databases.tables().iter().map(|table| table.bytes()).sum();
    assert_eq!(budget.bytes.load(SeqCst), sum as i64);
}

/// Pairs that do not fit are taken back, although other clients use the free room in between.
#[test]
fn pairs_that_do_not_fit_are_taken_back_among_writers() {
    let limits =
        Limits { bytes_max: Some(40_000), when_full: WhenFull::Refuse, ..Limits::default() };
    let table = &Table::new(Options { limits, shards: Some(64), ..Options::default() });
    let context = Store::new().context();
    let run = |command: Command<'_>| {
        let mut recorder = Recorder::default();
        execute_on(table, &command, context, &mut recorder);
        recorder.answers.remove(0)
    };
    let (large, small) = ([b'l'; 8_000], [b's'; 10]);
    assert_eq!(
        run(Command::String(StringCommand::Set(Set::new(b"shrinks", &large)))),
        Answer::Stored
    );
    assert_eq!(
        run(Command::String(StringCommand::Set(Set::new(b"grows", &small)))),
        Answer::Stored
    );
    let stop = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let run = &run;
        scope.spawn(move || {
            // Repeatedly takes all the free room.
            while !stop.load(SeqCst) {
                let keys: Vec<_> = (0..200u32).map(u32::to_le_bytes).collect();
                for key in &keys {
                    run(Command::String(StringCommand::Set(Set::new(key, &[b'x'; 400]))));
                }
                keys.iter().for_each(|key| {
                    run(Command::Key(KeyCommand::Delete { keys: &[key] }));
                });
            }
        });
        let (condition, expires) = Default::default();
        let mut refused = 0;
        for _ in 0..2_000 {
            let pairs: [(&[u8], &[u8]); 3] =
                [(b"shrinks", &small), (b"new", &small), (b"grows", &[b'g'; 35_000])];
            match run(Command::String(StringCommand::SetMany { pairs: &pairs, condition, expires }))
            {
                Answer::Done => {
                    let pairs: [(&[u8], &[u8]); 2] = [(b"grows", &small), (b"shrinks", &large)];
                    while run(Command::String(StringCommand::SetMany {
                        pairs: &pairs,
                        condition,
                        expires,
                    })) != Answer::Done
                    {
                        std::thread::yield_now();
                    }
                    run(Command::Key(KeyCommand::Delete { keys: &[b"new"] }));
                }
                _ => refused += 1,
            }
            assert_eq!(
                run(Command::String(StringCommand::Length { key: b"shrinks" })),
                Answer::Integer(8_000)
            );
            assert_eq!(
                run(Command::String(StringCommand::Length { key: b"grows" })),
                Answer::Integer(10)
            );
            assert_eq!(
                run(Command::Key(KeyCommand::Exists { keys: &[b"new"] })),
                Answer::Integer(0)
            );
        }
        stop.store(true, SeqCst);
        assert!(refused > 0);
    });
}

#[test]
fn the_last_of_several_values_for_a_key_stays() {
    let mut store = Store::new();
    let (condition, expires) = Default::default();
    let values: [&[u8]; 4] = [b"", b"1", b"22", b"333"];
    for before in [None, Some("xx")] {
        for first in values {
            for second in values {
                for third in values {
                    store.run(Command::Key(KeyCommand::Delete { keys: &[b"k"] }));
                    before.iter().for_each(|value| store.set("k", value));
                    let pairs: [(&[u8], &[u8]); 3] = [(b"k", first), (b"k", second), (b"k", third)];
                    store.run(Command::String(StringCommand::SetMany {
                        pairs: &pairs,
                        condition,
                        expires,
                    }));
                    let stored = store.get("k").unwrap_or_default().into_bytes();
                    assert_eq!(stored, third, "{pairs:?}");
                }
            }
        }
    }
}

/// A command that waits for a record's lock while databases are exchanged takes the record of the
/// database that has the number afterwards, and leaves the other one unchanged.
#[test]
fn a_record_is_taken_from_the_database_that_has_the_number_now() {
    let store = Store::new();
    let databases = &store.databases;
    for (database, value) in [(0, b"zero"), (1, b"one.")] {
        let table = &databases.tables()[database];
        let put = |locked: &mut LockedKey<'_>| locked.put(&[value], Meta::default());
        table.update(b"k", 1, put).expect("room");
    }
    let locked = databases.tables()[0].lock([&b"k"[..]], 1);
    std::thread::scope(|scope| {
        let look = |entry: Option<Entry<'_>>| entry.map(|entry| entry.stored().bytes().to_vec());
        let taker = scope.spawn(move || take(Place::Database(databases, 0), b"k", 1, look));
        // Gives the command time to wait for the lock. If it comes later, the test passes without
        // testing this.
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(databases.swap(0, 1));
        drop(locked);
        assert_eq!(taker.join().expect("no panic").as_deref(), Some(&b"one."[..]));
    });
    let lens = databases.tables().iter().map(|table| table.len()).take(2);
    assert_eq!(lens.collect::<Vec<_>>(), [1, 0]);
}
