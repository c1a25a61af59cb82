//! Transactions in the log of durable databases.

use crate::access::{State, states};
use crate::recorder::{Answer, Recorder, Store, value};
use proptest::collection::vec;
use proptest::prelude::*;
use todana_command::testing::{Dice, KEYS};
use todana_command::{
    Check, Command, Condition, DatabaseCommand, Databases, Error, Expires, Inadmissible,
    KeyCommand, KeyState, LeaseCommand, LoggedSeen, LoggedTransaction, LoggedWatch,
    OptimisticCommit, Place, Set, Status, StringCommand, Transaction, Watch, Write,
    admit_logged_transaction, commit, decode_transaction, encode_transaction,
    execute_logged_transaction, execute_transaction, is_logged, is_transaction_logged,
    look_up_state, watch,
};
use todana_table::{Options, Table};

fn set(key: &'static [u8], value: &'static [u8]) -> Command<'static> {
    Command::String(StringCommand::Set(Set::new(key, value)))
}

/// A transaction without other work.
fn transaction<'a>(watches: &'a [Watch], commands: &'a [(usize, Command<'a>)]) -> Transaction<'a> {
    Transaction { watches, commands, other_units: 0 }
}

/// The watches of a transaction and its commands as the bytes of the log; `None` if a watch failed.
fn logged(transaction: &Transaction<'_>) -> Option<Vec<u8>> {
    let watches: Option<Vec<_>> = transaction.watches.iter().map(Watch::logged).collect();
    let mut bytes = Vec::new();
    encode_transaction(&mut bytes, &watches?, transaction.commands);
    Some(bytes)
}

/// Executes a transaction as the log does.
fn apply(store: &Store, bytes: &[u8]) -> (Status, Vec<Answer>) {
    let mut scratch = Vec::new();
    let transaction = decode_transaction(bytes, &mut scratch).expect("a transaction");
    let mut reply = Recorder::default();
    let (place, context) = (Place::Database(&store.databases, 0), store.context());
    let status = execute_logged_transaction(place, &transaction, context, &mut reply, |_, _| {});
    (status, reply.answers)
}

fn dice_transaction(seed: u64) -> LoggedTransaction<'static> {
    let mut dice = Dice(seed);
    let watches = (0..dice.below(4))
        .map(|_| {
            let (database, table, key) = (dice.below(20), dice.below(20), dice.key());
            let version = dice.number();
            let seen = dice.one_of(&[
                LoggedSeen::Version(version),
                LoggedSeen::AbsentSince(version),
                LoggedSeen::Absent,
            ]);
            LoggedWatch { database, table, key, seen }
        })
        .collect();
    let commands = (0..dice.below(6))
        .map(|_| {
            let command = dice.any_command();
            (dice.below(20), command)
        })
        .collect();
    LoggedTransaction { watches, commands }
}

fn encoded(transaction: &LoggedTransaction<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_transaction(&mut bytes, &transaction.watches, &transaction.commands);
    bytes
}

proptest! {
    #[test]
    fn encoded_transactions_decode(seed: u64, garbage in vec(any::<u8>(), 1..5)) {
        let transaction = dice_transaction(seed);
        let mut bytes = encoded(&transaction);
        let mut scratch = Vec::new();
        prop_assert_eq!(decode_transaction(&bytes, &mut scratch).unwrap(), transaction);
        drop(scratch);
        for end in 0..bytes.len() {
            let broken = decode_transaction(&bytes[..end], &mut Vec::new()).is_err();
            prop_assert!(broken, "{} bytes", end);
        }
        bytes.extend(garbage);
        prop_assert!(decode_transaction(&bytes, &mut Vec::new()).is_err());
    }

    #[test]
    fn whatever_is_decoded_is_a_transaction(seed: u64, at: usize, mut bytes: Vec<u8>, whole: bool) {
        if whole {
            bytes.insert(0, 1);
        } else {
            bytes = encoded(&dice_transaction(seed));
            let at = at % (bytes.len() * 8);
            bytes[at / 8] ^= 1 << (at % 8);
        }
        if let Ok(transaction) = decode_transaction(&bytes, &mut Vec::new()) {
            let again = encoded(&transaction);
            let mut scratch = Vec::new();
            prop_assert_eq!(decode_transaction(&again, &mut scratch).unwrap(), transaction);
        }
    }
}

/// A step between WATCH and EXEC.
#[derive(Clone, Debug)]
enum Step {
    Set(usize, usize),
    SetBriefly(usize, usize),
    Delete(usize, usize),
    Clear(usize),
    Swap(usize, usize),
    Wait(u64),
    Watch(usize, usize),
    /// EXEC is submitted here; the steps after it come before it in the log.
    Submit,
}

const WATCHED: [&[u8]; 3] = [b"a", b"b", b"c"];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (database, key) = (0..2_usize, 0..3_usize);
    let place = (database.clone(), key);
    vec(
        prop_oneof![
            2 => place.clone().prop_map(|(database, key)| Step::Set(database, key)),
            2 => place.clone().prop_map(|(database, key)| Step::SetBriefly(database, key)),
            4 => place.clone().prop_map(|(database, key)| Step::Delete(database, key)),
            1 => database.clone().prop_map(Step::Clear),
            1 => (database.clone(), database).prop_map(|(one, other)| Step::Swap(one, other)),
            2 => (1..20_u64).prop_map(Step::Wait),
            4 => place.prop_map(|(database, key)| Step::Watch(database, key)),
            1 => Just(Step::Submit),
        ],
        0..14,
    )
}

fn take_step(store: &mut Store, step: &Step) {
    match *step {
        Step::Set(database, key) => {
            store.run_in(database, set(WATCHED[key], b"1"));
        }
        Step::SetBriefly(database, key) => {
            let expires = Expires::After(15);
            let set = Set { expires, ..Set::new(WATCHED[key], b"1") };
            store.run_in(database, Command::String(StringCommand::Set(set)));
        }
        Step::Delete(database, key) => {
            store.run_in(database, Command::Key(KeyCommand::Delete { keys: &[WATCHED[key]] }));
        }
        Step::Clear(database) => {
            store.run_in(database, Command::Database(DatabaseCommand::Clear { at_ms: None }));
        }
        Step::Swap(first, second) => {
            store.run(Command::Database(DatabaseCommand::Swap { first, second }));
        }
        Step::Wait(ms) => store.now_ms += ms,
        Step::Watch(..) | Step::Submit => {}
    }
}

fn watch_step(store: &Store, step: &Step, watches: &mut Vec<Watch>) {
    if let Step::Watch(database, key) = *step {
        watches.push(watch(&store.databases, database, WATCHED[key], store.now_ms));
    }
}

proptest! {
    /// A table in memory counts what happens to watched keys; a durable one knows it from its log.
    #[test]
    fn a_logged_transaction_is_executed_if_one_in_memory_is(steps in steps()) {
        let commands = [(0, set(b"result", b"1"))];
        let (mut memory, mut durable) = (Store::new(), Store::durable(|_| true));
        let (mut memory_watches, mut durable_watches) = (Vec::new(), Vec::new());
        let mut submitted = None;
        for step in &steps {
            match (step, submitted.is_some()) {
                (Step::Submit, false) => {
                    submitted = Some(logged(&transaction(&durable_watches, &commands)));
                }
                // The client waits.
                (Step::Watch(..), true) => {}
                _ => {
                    watch_step(&memory, step, &mut memory_watches);
                    watch_step(&durable, step, &mut durable_watches);
                    take_step(&mut memory, step);
                    take_step(&mut durable, step);
                }
            }
        }
        let submitted =
            submitted.unwrap_or_else(|| logged(&transaction(&durable_watches, &commands)));
        drop(durable_watches);
        let status = submitted.map_or(Status::WatchFailed, |bytes| apply(&durable, &bytes).0);
        let memory_transaction = transaction(&memory_watches, &commands);
        let (databases, context) = (&memory.databases, memory.context());
        let mut reply = Recorder::default();
        let executed =
            execute_transaction(databases, &memory_transaction, context, &mut reply, |_, _| {});
        // A clear counts as the removal of every key, also of those that did not exist.
        let cleared = steps.iter().any(|step| matches!(step, Step::Clear(_)));
        if status == Status::Done || !cleared {
            prop_assert_eq!(status == Status::Done, executed == Ok(true));
        }
        let written = durable.get("result").is_some();
        prop_assert_eq!(written, status == Status::Done);
    }
}

#[test]
fn a_key_created_and_removed_before_the_log_executes_the_transaction_fails_the_watch() {
    let mut store = Store::durable(|_| true);
    let watches = [watch(&store.databases, 0, b"k", store.now_ms)];
    let bytes = logged(&transaction(&watches, &[(0, set(b"r", b"1"))])).expect("the key is absent");
    drop(watches);
    store.set("k", "v");
    store.run(Command::Key(KeyCommand::Delete { keys: &[b"k"] }));
    assert_eq!(apply(&store, &bytes), (Status::WatchFailed, vec![]));
    assert_eq!(store.get("r"), None);
}

#[test]
fn a_watch_that_has_failed_is_not_logged() {
    let mut store = Store::durable(|_| true);
    let watches = [watch(&store.databases, 0, b"k", store.now_ms)];
    store.set("k", "v");
    assert_eq!(watches[0].logged(), None);
}

#[test]
fn a_watch_of_a_database_that_does_not_exist_holds() {
    let store = Store::durable(|_| true);
    let watches = [watch(&store.databases, 99, b"k", store.now_ms)];
    let bytes = logged(&transaction(&watches, &[(0, set(b"r", b"1"))])).expect("nothing changed");
    assert_eq!(apply(&store, &bytes), (Status::Done, vec![Answer::Stored]));
}

#[test]
fn each_command_of_a_logged_transaction_replies_and_a_failed_one_undoes_nothing() {
    let mut store = Store::durable(|_| true);
    store.set("n", "many");
    let increment = Command::String(StringCommand::IncrementFloat { key: b"n", delta: b"1" });
    let commands = [
        (0, set(b"a", b"1")),
        (0, increment),
        (0, Command::String(StringCommand::Get { key: b"a" })),
    ];
    let bytes = logged(&transaction(&[], &commands)).expect("no watches");
    let answers = vec![Answer::Stored, Answer::Error(Error::NotAFloat), value("1")];
    assert_eq!(apply(&store, &bytes), (Status::Done, answers));
}

#[test]
fn commands_across_durable_and_other_databases_change_nothing() {
    let mut store = Store::durable(|number| number < 2);
    for database in [0, 2] {
        store.run_in(database, set(b"k", b"v"));
    }
    let transfers = [
        (0, Command::Key(KeyCommand::Move { key: b"k", database: 3 })),
        (2, Command::Key(KeyCommand::Move { key: b"k", database: 1 })),
        (
            0,
            Command::Key(KeyCommand::Copy {
                from: b"k",
                to: b"l",
                database: Some(2),
                replace: true,
            }),
        ),
        (0, Command::Database(DatabaseCommand::Swap { first: 1, second: 2 })),
        (2, Command::Database(DatabaseCommand::Swap { first: 2, second: 0 })),
    ];
    for (database, command) in transfers {
        let before = states(&store.databases, store.now_ms);
        let refused = Answer::Error(Error::DifferentDurability);
        let decided = is_logged(&store.databases, database, &command);
        assert_eq!(decided, Err(Error::DifferentDurability), "{command:?}");
        assert_eq!(store.run_in(database, command.clone()), refused);
        let bytes = logged(&transaction(&[], &[(database, command.clone())])).expect("no watches");
        assert_eq!(apply(&store, &bytes), (Status::Done, vec![refused]));
        assert_eq!(states(&store.databases, store.now_ms), before, "{command:?}");
        assert_eq!([0, 2].map(|number| store.databases.index(number)), [0, 2]);
    }
}

#[test]
fn databases_of_one_durability_are_exchanged() {
    let mut store = Store::durable(|number| number < 2);
    for (first, second, durable) in [(0, 1, true), (2, 3, false)] {
        let swap = Command::Database(DatabaseCommand::Swap { first, second });
        // The database of the client that sends the command does not matter.
        assert_eq!(is_logged(&store.databases, 9, &swap), Ok(durable));
        assert_eq!(store.run_in(9, swap), Answer::Done);
        assert_eq!(store.databases.index(first), second);
    }
}

#[test]
fn what_changes_durable_databases_is_logged() {
    let store = Store::durable(|number| number == 0);
    let is_logged = |database, command| is_logged(&store.databases, database, &command);
    assert_eq!(is_logged(0, set(b"k", b"v")), Ok(true));
    assert_eq!(is_logged(1, set(b"k", b"v")), Ok(false));
    assert_eq!(is_logged(0, Command::String(StringCommand::Get { key: b"k" })), Ok(false));
    assert_eq!(is_logged(0, Command::Database(DatabaseCommand::Sweep { work_max: 1 })), Ok(false));
    let options = Default::default();
    assert_eq!(is_logged(0, Command::Lease(LeaseCommand::Get { key: b"k", options })), Ok(true));
    // There is no such database, and execution says so.
    assert_eq!(is_logged(0, Command::Key(KeyCommand::Move { key: b"k", database: 16 })), Ok(true));
    assert_eq!(is_logged(16, set(b"k", b"v")), Ok(false));
    assert_eq!(
        is_logged(0, Command::Database(DatabaseCommand::ClearAll { at_ms: None })),
        Ok(true)
    );
    assert_eq!(
        is_logged(1, Command::Database(DatabaseCommand::ClearAll { at_ms: None })),
        Ok(false)
    );
}

#[test]
fn all_databases_of_one_durability_are_cleared_together() {
    let mut store = Store::durable(|number| number < 2);
    assert!(store.databases.are_mixed());
    for number in 0..4 {
        store.run_in(number, set(b"k", b"v"));
    }
    let clear_all = Command::Database(DatabaseCommand::ClearAll { at_ms: None });
    let counts = |store: &mut Store| {
        [0, 1, 2, 3].map(|it| store.run_in(it, Command::Database(DatabaseCommand::Count)))
    };
    let (none, one) = (Answer::Integer(0), Answer::Integer(1));
    store.run_in(1, clear_all.clone());
    assert_eq!(counts(&mut store), [none.clone(), none.clone(), one.clone(), one]);
    store.run_in(2, clear_all);
    assert_eq!(counts(&mut store), [none.clone(), none.clone(), none.clone(), none]);
}

#[test]
fn a_transaction_that_is_logged_concerns_durable_databases_only() {
    let store = Store::durable(|number| number == 0);
    let decide = |watches: &[Watch], commands: &[(usize, Command<'_>)]| {
        is_transaction_logged(&store.databases, &transaction(watches, commands))
    };
    let (get, refused) =
        (Command::String(StringCommand::Get { key: b"k" }), Err(Inadmissible::DifferentDurability));
    assert_eq!(decide(&[], &[(0, set(b"k", b"v")), (0, get.clone())]), Ok(true));
    assert_eq!(decide(&[], &[(0, get.clone()), (1, set(b"k", b"v"))]), Ok(false));
    assert_eq!(decide(&[], &[(0, set(b"k", b"v")), (1, get.clone())]), refused);
    assert_eq!(
        decide(&[], &[(0, Command::Database(DatabaseCommand::ClearAll { at_ms: None }))]),
        refused
    );
    let swap = Command::Database(DatabaseCommand::Swap { first: 1, second: 2 });
    assert_eq!(decide(&[], &[(0, swap.clone()), (0, get.clone())]), Ok(false));
    assert_eq!(decide(&[], &[(0, swap), (0, set(b"k", b"v"))]), refused);
    let watches = [watch(&store.databases, 1, b"k", store.now_ms)];
    assert_eq!(decide(&watches, &[(0, set(b"k", b"v"))]), refused);
    assert_eq!(decide(&watches, &[(0, get)]), Ok(false));
}

#[test]
fn a_transaction_is_admitted_where_it_comes_from() {
    let store = Store::durable(|_| true);
    let admit = |commands: &[(usize, Command<'_>)]| {
        admit_logged_transaction(&store.databases, &transaction(&[], commands), store.context())
    };
    assert_eq!(admit(&[(0, set(b"k", b"v"))]), Ok(()));
    let keys = vec![&b"k"[..]; 40_000];
    let delete = (0, Command::Key(KeyCommand::Delete { keys: &keys }));
    assert_eq!(admit(&[delete]), Err(Inadmissible::TooMuchWork));
}

/// Which the version counter shows.
#[test]
fn a_refused_write_of_many_keys_leaves_no_trace() {
    let mut store = Store::durable(|_| true);
    store.set("b", "1");
    let before = states(&store.databases, store.now_ms);
    let pairs: &[(&[u8], &[u8])] = &[(b"a", b"2"), (b"b", b"2")];
    let set_many = |condition| {
        Command::String(StringCommand::SetMany { pairs, condition, expires: Expires::Never })
    };
    store.run(set_many(Condition::IfAbsent));
    store.run(set_many(Condition::IfPresent));
    store.run(Command::Key(KeyCommand::Rename { from: b"b", to: b"b", if_absent: true }));
    store.run(Command::Key(KeyCommand::Rename { from: b"a", to: b"b", if_absent: false }));
    store.run(Command::Key(KeyCommand::Copy {
        from: b"b",
        to: b"b",
        database: None,
        replace: true,
    }));
    store.run(Command::Key(KeyCommand::Move { key: b"b", database: 16 }));
    assert_eq!(states(&store.databases, store.now_ms), before);
}

/// The records, without versions.
fn contents(databases: &Databases, now_ms: u64) -> Vec<State> {
    let records = states(databases, now_ms).into_iter().flat_map(|(_, records)| records);
    let without_version = |mut record: State| {
        record.version = 0;
        record
    };
    records.map(without_version).collect()
}

proptest! {
    /// The log commits what is committed in memory, with the same result.
    #[test]
    fn a_logged_optimistic_commit_is_the_commit(seed: u64, wait_ms in 0..30_u64) {
        let mut dice = Dice(seed);
        let mut stores = [Store::new(), Store::durable(|_| true)];
        let mut checks = Vec::new();
        for _ in 0..dice.below(8) {
            let key = dice.one_of(&KEYS[..3]);
            let now = dice.below(3);
            let states = stores.each_mut().map(|store| {
                if now == 0 {
                    let expires = Expires::After(20);
                    let set = Set { expires, ..Set::new(key, b"1") };
                    store.run(Command::String(StringCommand::Set(set)));
                } else if now == 1 {
                    store.run(Command::Key(KeyCommand::Delete { keys: &[key] }));
                }
                look_up_state(Place::Database(&store.databases, 0), key, store.now_ms, |_| ()).1
            });
            checks.push((key, states));
            if dice.below(6) == 0 {
                stores.iter_mut().for_each(|store| {
                    store.run(Command::Database(DatabaseCommand::Swap { first: 0, second: 1 }));
                });
            }
        }
        let mut writes = Vec::new();
        for key in &KEYS[..3] {
            if dice.bit() {
                let put = dice.perhaps(|dice| (dice.key(), 7, dice.any()));
                writes.push(Write { key, put });
            }
        }
        let [memory, durable] = &mut stores;
        memory.now_ms += wait_ms;
        durable.now_ms += wait_ms;
        let checks_of = |which: usize| -> Vec<Check<'_>> {
            checks.iter().map(|(key, states)| Check { key, state: states[which] }).collect()
        };
        let (now_ms, context) = (memory.now_ms, durable.context());
        let optimistic = OptimisticCommit { checks: &checks_of(0), writes: &writes };
        let committed = commit(Place::Database(&memory.databases, 0), &optimistic, now_ms);
        let checks = checks_of(1);
        let transaction =
            OptimisticCommit { checks: &checks, writes: &writes }.logged(0).expect("small");
        let bytes = encoded(&transaction);
        let (status, _) = apply(durable, &bytes);
        prop_assert_eq!(status == Status::Done, committed.is_ok());
        let contents = [&*memory, &*durable].map(|it| contents(&it.databases, context.now_ms));
        prop_assert_eq!(&contents[0], &contents[1]);
    }
}

#[test]
fn an_optimistic_commit_on_a_table_that_is_no_database_is_logged_too() {
    let options = Options { shards: Some(64), durable: true, ..Options::default() };
    let (table, store) = (Table::new(options), Store::new());
    let state = |key: &[u8]| look_up_state(Place::Table(&table), key, store.now_ms, |_| ()).1;
    let execute = |transaction: &LoggedTransaction<'_>| {
        let (place, mut reply) = (Place::Table(&table), Recorder::default());
        let each = |_: &mut Recorder, _| {};
        let context = store.context();
        let status = execute_logged_transaction(place, transaction, context, &mut reply, each);
        (status, reply.answers)
    };
    let run = |checks: &[Check<'_>], writes: &[Write<'_>]| {
        execute(&OptimisticCommit { checks, writes }.logged(0).expect("small"))
    };
    let put = |key: &'static [u8]| Write { key, put: Some((b"1", 0, Expires::Never)) };
    let absent = Check { key: b"a", state: KeyState::Absent };
    let stored = || (Status::Done, vec![Answer::Stored]);
    assert_eq!(run(&[absent], &[put(b"a")]), stored());
    assert_eq!(run(&[absent], &[put(b"b")]), (Status::WatchFailed, vec![]));
    let seen = Check { key: b"a", state: state(b"a") };
    assert_eq!(run(&[seen], &[put(b"a")]), stored());
    assert_eq!(run(&[seen], &[put(b"b")]), (Status::WatchFailed, vec![]));
    assert_eq!(state(b"b"), KeyState::Absent);
    // Only keys of this table.
    let transaction = LoggedTransaction {
        watches: vec![],
        commands: vec![(1, set(b"k", b"v")), (0, Command::Database(DatabaseCommand::Count))],
    };
    let nowhere = Answer::Error(Error::NoSuchDatabase);
    assert_eq!(execute(&transaction), (Status::Done, vec![nowhere.clone(), nowhere]));
}
