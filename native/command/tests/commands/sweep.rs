//! Removing expired records.

use crate::recorder::{Answer, Recorder, Store};
use todana_command::{
    Command, DatabaseCommand, Expires, Set, StringCommand, Transaction, execute_transaction,
};

/// Twenty records that have expired, and one that has not.
fn store() -> Store {
    let mut store = Store::new();
    for key in 0..20u8 {
        let expires = Expires::At(1_000_100);
        store.run(Command::String(StringCommand::Set(Set { expires, ..Set::new(&[key], b"v") })));
    }
    store.set("stays", "v");
    store.now_ms = 1_000_200;
    store
}

#[test]
fn a_sweep_removes_what_has_expired_and_nothing_else() {
    let mut store = store();
    assert_eq!(store.run(Command::Database(DatabaseCommand::Count)), Answer::Integer(21));
    assert_eq!(
        store.run(Command::Database(DatabaseCommand::Sweep { work_max: 64 })),
        Answer::Flag(false)
    );
    assert_eq!(store.run(Command::Database(DatabaseCommand::Count)), Answer::Integer(1));
    assert_eq!(store.get("stays").as_deref(), Some("v"));
}

#[test]
fn a_sweep_of_few_records_reports_that_more_are_due() {
    let mut store = store();
    let mut sweeps = 1;
    while store.run(Command::Database(DatabaseCommand::Sweep { work_max: 1 })) == Answer::Flag(true)
    {
        sweeps += 1;
    }
    assert_eq!(sweeps, 20);
    assert_eq!(store.run(Command::Database(DatabaseCommand::Count)), Answer::Integer(1));
}

#[test]
fn a_sweep_in_a_transaction_does_nothing() {
    let store = store();
    let commands = [
        (0, Command::Database(DatabaseCommand::Sweep { work_max: 64 })),
        (0, Command::Database(DatabaseCommand::Count)),
    ];
    let mut recorder = Recorder::default();
    let transaction = Transaction { other_units: 0, watches: &[], commands: &commands };
    let done = execute_transaction(
        &store.databases,
        &transaction,
        store.context(),
        &mut recorder,
        |_, _| {},
    );
    assert_eq!(done, Ok(true));
    assert_eq!(recorder.answers, [Answer::Flag(false), Answer::Integer(21)]);
}
