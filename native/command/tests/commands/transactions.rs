//! Transactions: several commands as one step.

use crate::recorder::{Answer, Recorder, Store, value};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use todana_command::{
    Command, Condition, DatabaseCommand, Delta, Error, ExpireWhen, Expires, Increment, Initial,
    KeyCommand, Set, StringCommand, Transaction, Watch, execute_transaction, watch,
};

fn increment(key: &[u8], delta: i64) -> Command<'_> {
    Command::String(StringCommand::Increment(Increment {
        key,
        delta: Delta::Signed(delta),
        initial: Some((Initial::Zero, Expires::Never)),
        condition: Condition::Always,
        expires: Expires::Keep,
        track_access: false,
    }))
}

fn run(store: &Store, watches: &[Watch], commands: &[(usize, Command<'_>)]) -> Option<Vec<Answer>> {
    let mut recorder = Recorder::default();
    let transaction = Transaction { other_units: 0, watches, commands };
    let mut indexes = Vec::new();
    let context = store.context();
    let done =
        execute_transaction(&store.databases, &transaction, context, &mut recorder, |_, index| {
            indexes.push(index);
        });
    let done = done.expect("it is admitted");
    let expected: Vec<usize> = if done { (0..commands.len()).collect() } else { Vec::new() };
    assert_eq!(indexes, expected);
    done.then_some(recorder.answers)
}

#[test]
fn commands_run_in_order_and_a_failure_undoes_nothing() {
    let mut store = Store::new();
    let answers = run(
        &store,
        &[],
        &[
            (0, Command::String(StringCommand::Set(Set::new(b"k", b"text")))),
            (0, increment(b"k", 1)),
            (0, increment(b"n", 2)),
            (0, Command::String(StringCommand::Get { key: b"k" })),
            (0, Command::Database(DatabaseCommand::Count)),
        ],
    );
    let error = Answer::Error(Error::NotAnInteger);
    let number = Answer::Number("2".into());
    assert_eq!(
        answers,
        Some(vec![Answer::Stored, error, number, value("text"), Answer::Integer(2)])
    );
    assert_eq!(store.get("n").as_deref(), Some("2"));
}

#[test]
fn a_watched_key_that_changed_stops_the_transaction() {
    let mut store = Store::new();
    store.set("k", "1");
    let now_ms = store.now_ms;
    let watched = |store: &Store, key: &[u8]| watch(&store.databases, 0, key, now_ms);
    let write = [(0, Command::String(StringCommand::Set(Set::new(b"done", b"yes"))))];

    let unchanged = [watched(&store, b"k"), watched(&store, b"absent")];
    assert!(run(&store, &unchanged, &write).is_some());

    let touched = [watched(&store, b"k")];
    store.set("k", "1");
    assert!(run(&store, &touched, &write).is_none(), "the same value is another version");

    let appeared = [watched(&store, b"new")];
    store.set("new", "x");
    assert!(run(&store, &appeared, &write).is_none());

    let removed = [watched(&store, b"new")];
    store.run(Command::Key(KeyCommand::Delete { keys: &[b"new"] }));
    assert!(run(&store, &removed, &write).is_none());

    let expired = [watched(&store, b"k")];
    store.run(Command::Key(KeyCommand::Expire {
        key: b"k",
        expires: Expires::At(store.now_ms + 10),
        when: ExpireWhen::default(),
    }));
    assert!(run(&store, &expired, &write).is_none(), "another expiry is another version");
    let expired = [watched(&store, b"k")];
    store.now_ms += 10;
    assert!(run(&store, &expired, &write).is_none());
    store.set("k", "1");

    let swapped = [watched(&store, b"k")];
    store.run(Command::Database(DatabaseCommand::Swap { first: 0, second: 1 }));
    assert!(run(&store, &swapped, &write).is_none(), "the number means another table now");
    let swapped = [watched(&store, b"absent")];
    store.run(Command::Database(DatabaseCommand::Swap { first: 0, second: 1 }));
    assert!(run(&store, &swapped, &write).is_some(), "absent from both tables");
}

#[test]
fn a_watched_key_that_came_and_went_stops_the_transaction() {
    let mut store = Store::new();
    let read = [(0, Command::String(StringCommand::Get { key: b"k" }))];
    let endings: [fn(&mut Store); 7] = [
        |store| drop(store.run(Command::Key(KeyCommand::Delete { keys: &[b"k"] }))),
        |store| {
            drop(store.run(Command::Key(KeyCommand::Rename {
                from: b"k",
                to: b"other",
                if_absent: false,
            })))
        },
        |store| drop(store.run(Command::Key(KeyCommand::Move { key: b"k", database: 1 }))),
        |store| drop(store.run(Command::Database(DatabaseCommand::ClearAll { at_ms: None }))),
        |store| drop(store.run(Command::Database(DatabaseCommand::Clear { at_ms: None }))),
        |store| {
            let (expires, when) = (Expires::At(store.now_ms + 10), ExpireWhen::default());
            store.run(Command::Key(KeyCommand::Expire { key: b"k", expires, when }));
            store.now_ms += 10;
        },
        |store| {
            store.run(Command::Database(DatabaseCommand::Clear { at_ms: Some(store.now_ms + 10) }));
            store.now_ms += 10;
        },
    ];
    for (number, end) in endings.into_iter().enumerate() {
        store.set("k", "from before");
        store.run(Command::Key(KeyCommand::Delete { keys: &[b"k"] }));
        let watches = [watch(&store.databases, 0, b"k", store.now_ms)];
        assert!(run(&store, &watches, &read).is_some(), "{number}: absent throughout");
        store.set("k", "in between");
        end(&mut store);
        assert_eq!(store.get("k"), None);
        assert!(run(&store, &watches, &read).is_none(), "{number}");
        store.run(Command::Database(DatabaseCommand::ClearAll { at_ms: None }));
    }
}

#[test]
fn a_watched_key_that_others_bring_and_take_away_stops_the_transaction() {
    let mut store = Store::new();
    let beginnings: [fn(&mut Store); 4] = [
        |store| {
            drop(store.run(Command::Key(KeyCommand::Rename {
                from: b"old",
                to: b"k",
                if_absent: false,
            })))
        },
        |store| {
            let (from, to) = (b"old", b"k");
            store.run(Command::Key(KeyCommand::Copy { from, to, database: None, replace: false }));
        },
        |store| drop(store.run(increment(b"k", 1))),
        |store| {
            let commands = [(0, Command::String(StringCommand::Set(Set::new(b"k", b"v"))))];
            assert!(run(store, &[], &commands).is_some());
        },
    ];
    for (number, begin) in beginnings.into_iter().enumerate() {
        store.set("old", "v");
        let watches = [watch(&store.databases, 0, b"k", store.now_ms)];
        begin(&mut store);
        assert_eq!(
            store.run(Command::Key(KeyCommand::Delete { keys: &[b"k"] })),
            Answer::Integer(1),
            "{number}"
        );
        assert!(run(&store, &watches, &[]).is_none(), "{number}");
    }
}

#[test]
fn changes_of_other_keys_do_not_break_a_watch_of_an_absent_key() {
    let mut store = Store::new();
    let watches = [watch(&store.databases, 0, b"k", store.now_ms)];
    // Enough for every shard to see records come and go.
    for number in 0..60_000 {
        let key = number.to_string();
        store.set(&key, "v");
        if number % 2 == 0 {
            store.run(Command::Key(KeyCommand::Delete { keys: &[key.as_bytes()] }));
        }
    }
    store.run(Command::Database(DatabaseCommand::Clear { at_ms: None }));
    let set = [(0, Command::String(StringCommand::Set(Set::new(b"k", b"v"))))];
    assert!(run(&store, &watches, &set).is_some());
    // A transaction's own writes break the same watches.
    assert!(run(&store, &watches, &set).is_none());
}

#[test]
fn a_watched_absent_key_follows_its_database_through_a_swap() {
    let swap = || Command::Database(DatabaseCommand::Swap { first: 0, second: 1 });
    let mut store = Store::new();
    let watches = [watch(&store.databases, 0, b"k", store.now_ms)];
    store.run(swap());
    assert!(run(&store, &watches, &[]).is_some(), "neither table has it");
    store.set("k", "v");
    assert!(run(&store, &watches, &[]).is_none(), "the new table has it");
    store.run(swap());
    store.set("k", "v");
    store.run(Command::Key(KeyCommand::Delete { keys: &[b"k"] }));
    store.run(swap());
    store.run(Command::Key(KeyCommand::Delete { keys: &[b"k"] }));
    assert!(run(&store, &watches, &[]).is_none(), "it came and went before the swap");
}

#[test]
fn a_count_leaves_out_what_a_due_clear_takes() {
    let mut store = Store::new();
    for count_in_transaction in [false, true] {
        store.set("k", "v");
        store.run(Command::Database(DatabaseCommand::Clear { at_ms: Some(store.now_ms + 10) }));
        assert_eq!(store.run(Command::Database(DatabaseCommand::Count)), Answer::Integer(1));
        store.now_ms += 10;
        if count_in_transaction {
            let answers = run(&store, &[], &[(0, Command::Database(DatabaseCommand::Count))]);
            assert_eq!(answers, Some(vec![Answer::Integer(0)]));
        } else {
            assert_eq!(store.run(Command::Database(DatabaseCommand::Count)), Answer::Integer(0));
        }
    }
}

#[test]
fn a_transaction_may_work_in_several_databases_and_swap_them() {
    let mut store = Store::new();
    store.set("k", "zero");
    let answers = run(
        &store,
        &[],
        &[
            (1, Command::String(StringCommand::Set(Set::new(b"k", b"one")))),
            (0, Command::Database(DatabaseCommand::Swap { first: 0, second: 1 })),
            (0, Command::String(StringCommand::Get { key: b"k" })),
            (1, Command::Key(KeyCommand::Move { key: b"k", database: 5 })),
            (5, Command::String(StringCommand::Get { key: b"k" })),
            (
                5,
                Command::Key(KeyCommand::Copy {
                    from: b"k",
                    to: b"c",
                    database: Some(0),
                    replace: false,
                }),
            ),
            (0, Command::Database(DatabaseCommand::Keys { pattern: b"c" })),
            (0, Command::Database(DatabaseCommand::ClearAll { at_ms: None })),
            (5, Command::Database(DatabaseCommand::Count)),
            (0, Command::Database(DatabaseCommand::Swap { first: 0, second: 16 })),
        ],
    );
    let expected = vec![
        Answer::Stored,
        Answer::Done,
        value("one"),
        Answer::Flag(true),
        value("zero"),
        Answer::Flag(true),
        Answer::List(1),
        Answer::Key(b"c".into()),
        Answer::Done,
        Answer::Integer(0),
        Answer::Error(Error::NoSuchDatabase),
    ];
    assert_eq!(answers, Some(expected));
}

#[test]
fn nobody_sees_a_transfer_half_done() {
    const ACCOUNTS: usize = 16;
    const TRANSFERS: usize = 5_000;
    let store = Store::new();
    let keys: Vec<String> = (0..ACCOUNTS).map(|n| format!("account:{n}")).collect();
    let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
    let (keys, store, stop) = (&keys, &store, &AtomicBool::new(false));
    std::thread::scope(|scope| {
        let transfers: Vec<_> = (0..2usize)
            .map(|thread| {
                scope.spawn(move || {
                    for n in 0..TRANSFERS {
                        let (a, b) = (keys[(n * 7 + thread) % ACCOUNTS], keys[n % ACCOUNTS]);
                        // Source and destination in both directions, so that lock order matters.
                        run(store, &[], &[(0, increment(a, -3)), (0, increment(b, 3))]);
                    }
                })
            })
            .collect();
        let reader = scope.spawn(move || {
            let mut looks = 0u64;
            while !stop.load(SeqCst) {
                let answers =
                    run(store, &[], &[(0, Command::String(StringCommand::GetMany { keys }))]);
                let numbers = answers.into_iter().flatten().filter_map(|answer| match answer {
                    Answer::Record { value, .. } => {
                        String::from_utf8(value).ok()?.parse::<i64>().ok()
                    }
                    _ => None,
                });
                assert_eq!(numbers.sum::<i64>(), 0);
                looks += 1;
            }
            looks
        });
        transfers.into_iter().for_each(|thread| thread.join().expect("a transfer failed"));
        stop.store(true, SeqCst);
        assert!(reader.join().expect("a reader saw a torn state") > 0);
    });
}

#[test]
fn moves_in_both_directions_do_not_wait_for_each_other() {
    let store = &Store::new();
    std::thread::scope(|scope| {
        for (from, to) in [(0, 1), (1, 0)] {
            scope.spawn(move || {
                for n in 0..3_000u32 {
                    let key = (n % 8).to_le_bytes();
                    let mut recorder = Recorder::default();
                    let context = store.context();
                    let run = |command, recorder: &mut Recorder| {
                        todana_command::execute(
                            &store.databases,
                            from,
                            &command,
                            context,
                            recorder,
                        );
                    };
                    run(Command::String(StringCommand::Set(Set::new(&key, b"v"))), &mut recorder);
                    run(Command::Key(KeyCommand::Move { key: &key, database: to }), &mut recorder);
                    run(
                        Command::Database(DatabaseCommand::Swap { first: 2, second: 3 }),
                        &mut recorder,
                    );
                }
            });
        }
    });
}

#[test]
fn several_keys_are_read_as_they_are_at_one_moment() {
    let store = &Store::new();
    let stop = &AtomicBool::new(false);
    let pair = |value: &[u8]| {
        let pairs: [(&[u8], &[u8]); 2] = [(b"x", value), (b"y", value)];
        let command = Command::String(StringCommand::SetMany {
            pairs: &pairs,
            condition: Condition::Always,
            expires: Expires::Never,
        });
        let mut recorder = Recorder::default();
        todana_command::execute(&store.databases, 0, &command, store.context(), &mut recorder);
    };
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            while !stop.load(SeqCst) {
                let mut recorder = Recorder::default();
                let command = Command::String(StringCommand::GetMany { keys: &[b"x", b"y"] });
                let context = store.context();
                todana_command::execute(&store.databases, 0, &command, context, &mut recorder);
                assert_eq!(recorder.answers[1], recorder.answers[2]);
            }
        });
        (0..20_000u32).for_each(|n| pair(&n.to_le_bytes()));
        stop.store(true, SeqCst);
        reader.join().expect("a reader saw a pair half stored");
    });
}
