//! Leases, in the words of memcached's meta commands. Expectations were compared with memcached
//! 1.6.18.

use crate::recorder::{Answer, Store};
use todana_command::{
    Command, Condition, Expires, KeyCommand, LeaseCommand, LeaseOptions, LeaseState, Refusal, Set,
    Side, StringCommand,
};

const KEY: &[u8] = b"k";

fn stored(value: &[u8]) -> Set<'_> {
    Set { track_access: true, ..Set::new(KEY, value) }
}

fn look(store: &mut Store, options: LeaseOptions) -> LeaseState {
    match store.run(Command::Lease(LeaseCommand::Get { key: KEY, options })) {
        Answer::Lease { state, .. } => state,
        other => panic!("no lease: {other:?}"),
    }
}

fn expiry(store: &mut Store) -> Answer {
    store.run(Command::Key(KeyCommand::Expiry { key: KEY }))
}

#[test]
fn looks_are_remembered() {
    let mut store = Store::new();
    store.run(Command::String(StringCommand::Set(stored(b"x"))));
    store.now_ms += 3_000;
    let quiet = LeaseOptions { quiet_access: true, ..LeaseOptions::default() };
    let first = LeaseState { idle_s: 3, ..LeaseState::default() };
    assert_eq!(look(&mut store, quiet), first);
    assert_eq!(look(&mut store, LeaseOptions::default()), first, "a quiet look leaves no trace");
    let second = LeaseState { fetched_before: true, ..LeaseState::default() };
    assert_eq!(look(&mut store, quiet), second);
    store.now_ms += 2_000;
    store.run(Command::String(StringCommand::Get { key: KEY }));
    assert_eq!(look(&mut store, quiet), second, "`get` is a look too");
}

#[test]
fn a_record_made_by_a_look_is_for_its_maker_to_fill() {
    let mut store = Store::new();
    let at_ms = store.now_ms + 30_000;
    let vivify = LeaseOptions { vivify: Some(Expires::At(at_ms)), ..LeaseOptions::default() };
    let made = LeaseState { won: true, created: true, ..LeaseState::default() };
    assert_eq!(look(&mut store, vivify), made);
    assert_eq!(expiry(&mut store), Answer::Expiry(Some(at_ms)));
    let late = LeaseState { already_won: true, fetched_before: true, ..LeaseState::default() };
    assert_eq!(look(&mut store, vivify), late);
    store.run(Command::String(StringCommand::Set(stored(b"filled"))));
    assert_eq!(look(&mut store, vivify), LeaseState::default());
}

#[test]
fn an_old_record_is_won_once_and_before_the_touch() {
    let mut store = Store::new();
    let expires = Expires::At(store.now_ms + 10_000);
    store.run(Command::String(StringCommand::Set(Set { expires, ..stored(b"x") })));
    let at_ms = store.now_ms + 100_000;
    let options = LeaseOptions {
        recache_below_ms: Some(30_000),
        touch: Some(Expires::At(at_ms)),
        ..LeaseOptions::default()
    };
    assert!(look(&mut store, options).won);
    assert_eq!(expiry(&mut store), Answer::Expiry(Some(at_ms)));
    let state = look(&mut store, options);
    assert!(!state.won && state.already_won);
}

#[test]
fn a_record_of_another_door_can_be_won_too() {
    let mut store = Store::new();
    let expires = Expires::At(store.now_ms + 10_000);
    store.run(Command::String(StringCommand::Set(Set { expires, ..Set::new(KEY, b"x") })));
    let options = LeaseOptions { recache_below_ms: Some(30_000), ..LeaseOptions::default() };
    assert!(look(&mut store, options).won);
    assert!(look(&mut store, options).already_won);
}

#[test]
fn an_expiry_that_has_passed_shows_the_record_for_the_last_time() {
    let mut store = Store::new();
    store.run(Command::String(StringCommand::Set(stored(b"x"))));
    let options = LeaseOptions { touch: Some(Expires::At(1)), ..LeaseOptions::default() };
    look(&mut store, options);
    assert_eq!(store.run(Command::Lease(LeaseCommand::Get { key: KEY, options })), Answer::None);
    let options = LeaseOptions { vivify: Some(Expires::At(1)), ..LeaseOptions::default() };
    assert!(look(&mut store, options).created);
    assert!(look(&mut store, options).created);
}

#[test]
fn a_late_value_is_stale_and_keeps_expiry_and_winner() {
    let mut store = Store::new();
    let at_ms = store.now_ms + 100_000;
    store.run(Command::String(StringCommand::Set(Set {
        expires: Expires::At(at_ms),
        ..stored(b"x")
    })));
    let version = store.version;
    let late = |value, version| {
        let (condition, expires) = (Condition::NotNewer(version), Expires::At(5_000_000));
        Command::String(StringCommand::Set(Set { condition, expires, ..stored(value) }))
    };
    assert_eq!(store.run(late(b"y", version - 1)), Answer::Stored);
    assert_eq!(expiry(&mut store), Answer::Expiry(Some(at_ms)));
    let state = look(&mut store, LeaseOptions::default());
    assert!(state.stale && state.won && !state.already_won && !state.fetched_before);
    assert_eq!(store.run(late(b"z", version - 1)), Answer::Stored);
    let state = look(&mut store, LeaseOptions::default());
    assert!(state.stale && !state.won && state.already_won && !state.fetched_before);
    let version = store.version;
    let refused = Answer::Refused(Refusal::VersionDiffers);
    assert_eq!(store.run(late(b"w", version + 1)), refused);
    assert_eq!(store.run(late(b"in time", version)), Answer::Stored);
    assert_eq!(expiry(&mut store), Answer::Expiry(Some(5_000_000)));
    assert_eq!(look(&mut store, LeaseOptions::default()), LeaseState::default());
    store.run(Command::Key(KeyCommand::Delete { keys: &[KEY] }));
    assert_eq!(store.run(late(b"v", 1)), Answer::Refused(Refusal::Absent));
}

#[test]
fn an_extended_value_is_fresh() {
    let mut store = Store::new();
    store.run(Command::String(StringCommand::Set(stored(b"x"))));
    let (condition, expires) = (Condition::Always, Expires::Keep);
    store.run(Command::Lease(LeaseCommand::Invalidate { key: KEY, condition, expires }));
    assert!(look(&mut store, LeaseOptions::default()).stale);
    let (side, create) = (Side::Append, false);
    store.run(Command::String(StringCommand::Concat {
        key: KEY,
        bytes: b"y",
        side,
        create,
        condition,
        expires: Expires::Keep,
    }));
    assert_eq!(look(&mut store, LeaseOptions::default()), LeaseState::default());
}
