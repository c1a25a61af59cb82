//! Several pairs at once without enough room: all or nothing, and without a trace.

use crate::recorder::{Answer, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use todana_command::{
    Command, Condition, DatabaseCommand, Databases, Error, Expires, KeyCommand, StringCommand,
    Transaction, execute_transaction, watch,
};
use todana_table::{Budget, Keyspace, Meta, Options, WhenFull, entry_bytes};

/// Databases that share a budget for this many records of a one-byte key and 100 bytes.
fn full_with(records: u64, meta: &Meta) -> Store {
    let bytes = (records * entry_bytes(1, 100, meta)).cast_signed();
    let budget = Some(Arc::new(Budget::new(bytes, WhenFull::Refuse)));
    let databases = Databases::with_options(&Options { budget, ..Options::default() });
    Store { databases, ..Store::new() }
}

fn set_many<'a>(pairs: &'a [(&'a [u8], &'a [u8])], expires: Expires) -> Command<'a> {
    Command::String(StringCommand::SetMany { pairs, condition: Condition::Always, expires })
}

#[test]
fn refused_pairs_leave_no_trace() {
    let expires = Expires::At(Store::new().now_ms + 1_000);
    let mut store = full_with(2, &Meta { expires_at_ms: Some(1), ..Meta::default() });
    let value = "v".repeat(100);
    store.set("a", &value);
    let table = store.databases.table(0).clone();
    let watched = [b"a", b"b", b"c"].map(|key| watch(&store.databases, 0, key, store.now_ms));
    let state = || (table.version(), table.bytes(), table.len());
    let before = state();
    let [a, b, c]: [(&[u8], &[u8]); 3] = [b"a", b"b", b"c"].map(|key| (&key[..], value.as_bytes()));
    for pairs in [[a, b, c], [b, c, a], [c, a, b]] {
        assert_eq!(store.run(set_many(&pairs, expires)), Answer::Error(Error::Full));
        assert_eq!(state(), before);
    }
    assert_eq!(store.run(Command::Key(KeyCommand::Expiry { key: b"a" })), Answer::Expiry(None));
    // No watched key has changed.
    let transaction = Transaction { other_units: 0, watches: &watched, commands: &[] };
    let mut recorder = crate::recorder::Recorder::default();
    let done = execute_transaction(
        &store.databases,
        &transaction,
        store.context(),
        &mut recorder,
        |_, _| {},
    );
    assert_eq!(done, Ok(true));
    // The room is available to other commands.
    assert_eq!(store.run(set_many(&[a, b], expires)), Answer::Done);
    assert_eq!(store.run(set_many(&[a, b], Expires::Keep)), Answer::Done);
    assert_eq!(
        store.run(Command::Key(KeyCommand::Expiry { key: b"a" })),
        Answer::Expiry(Some(store.now_ms + 1_000))
    );
}

#[test]
fn no_record_is_lost_to_a_writer_who_takes_the_room_meanwhile() {
    let mut store = full_with(3, &Meta { expires_at_ms: Some(1), ..Meta::default() });
    let value = "v".repeat(100);
    store.set("a", &value);
    let expires = Expires::At(store.now_ms + 1_000);
    let pairs: [(&[u8], &[u8]); 4] =
        [b"a", b"b", b"c", b"d"].map(|key| (&key[..], value.as_bytes()));
    let (ended, other) = (AtomicBool::new(false), store.databases.table(1).clone());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(SeqCst) {
                for key in [b"x", b"y"] {
                    let _ =
                        other.update(key, 1, |locked| locked.put(&[&[1; 100]], Meta::default()));
                }
                for key in [b"x", b"y"] {
                    other.update(key, 1, |locked| locked.remove());
                }
            }
        });
        for _ in 0..2_000 {
            assert_eq!(store.run(set_many(&pairs, expires)), Answer::Error(Error::Full));
            assert_eq!(store.get("a").as_ref(), Some(&value));
        }
        ended.store(true, SeqCst);
    });
    assert_eq!(store.run(Command::Database(DatabaseCommand::Count)), Answer::Integer(1));
}

#[test]
fn a_key_that_is_named_twice_keeps_its_last_value() {
    let mut store = full_with(4, &Meta::default());
    let (long, short) = ([b'l'; 100], [b's'; 10]);
    for values in [[&long[..], &short], [&short, &long]] {
        let pairs: [(&[u8], &[u8]); 3] = [(b"a", values[0]), (b"b", b"1"), (b"a", values[1])];
        assert_eq!(store.run(set_many(&pairs, Expires::Never)), Answer::Done);
        assert_eq!(store.get("a").map(String::into_bytes).as_deref(), Some(values[1]));
    }
    let past = Expires::At(store.now_ms);
    assert_eq!(store.run(set_many(&[(b"a", b"1"), (b"c", b"1")], past)), Answer::Done);
    assert_eq!(store.run(Command::Database(DatabaseCommand::Count)), Answer::Integer(1));
}

#[test]
fn a_key_that_is_named_twice_is_written_once_where_there_is_a_limit() {
    // Room for one record, of which the present value takes a tenth.
    let mut store = full_with(1, &Meta::default());
    let (long, short) = ([b'l'; 100], [b's'; 10]);
    for values in [[&long[..], &long], [&short, &long]] {
        store.set("a", "0123456789");
        let table = store.databases.table(0).clone();
        // With few pairs, and with many.
        for times in [1, 100] {
            let pairs: Vec<(&[u8], &[u8])> = [(&b"a"[..], values[0])]
                .repeat(times)
                .into_iter()
                .chain([(&b"a"[..], values[1])])
                .collect();
            let before = table.version();
            assert_eq!(store.run(set_many(&pairs, Expires::Never)), Answer::Done);
            assert_eq!(table.version(), before + 1);
            assert_eq!(store.get("a").map(String::into_bytes).as_deref(), Some(values[1]));
            store.set("a", "0123456789");
            let transaction = [(0, set_many(&pairs, Expires::Never))];
            let transaction = Transaction { other_units: 0, watches: &[], commands: &transaction };
            let mut recorder = crate::recorder::Recorder::default();
            let context = store.context();
            let done = execute_transaction(
                &store.databases,
                &transaction,
                context,
                &mut recorder,
                |_, _| {},
            );
            assert_eq!((done, recorder.answers), (Ok(true), vec![Answer::Done]));
            store.set("a", "0123456789");
        }
    }
}
