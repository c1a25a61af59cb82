//! Strings: read, store, extend, cut.

use crate::recorder::{Answer, Recorder, Store, value};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use todana_command::{
    BitsCommand, Command, Condition, DatabaseCommand, Error, ExpireWhen, Expires, KeyCommand,
    LeaseCommand, LeaseOptions, Refusal, Set, Side, StringCommand, execute,
};
use todana_table::{Entry, Keyspace, Meta, Table};

fn concat<'a>(key: &'a [u8], bytes: &'a [u8], side: Side, create: bool) -> Command<'a> {
    let (condition, expires) = (Condition::Always, Expires::Keep);
    Command::String(StringCommand::Concat { key, bytes, side, create, condition, expires })
}

#[test]
fn a_value_is_read_as_it_was_stored() {
    let mut store = Store::new();
    assert_eq!(store.run(Command::String(StringCommand::Get { key: b"k" })), Answer::None);
    store.set("k", "");
    assert_eq!(store.run(Command::String(StringCommand::Get { key: b"k" })), value(""));
    let set = Set { flags: 7, expires: Expires::At(2_000_000), ..Set::new(b"k", b"v") };
    assert_eq!(store.run(Command::String(StringCommand::Set(set))), Answer::Stored);
    let record = Answer::Record { value: b"v".into(), flags: 7, expires_at_ms: Some(2_000_000) };
    assert_eq!(store.run(Command::String(StringCommand::Get { key: b"k" })), record);
    store.now_ms = 2_000_000;
    assert_eq!(store.run(Command::String(StringCommand::Get { key: b"k" })), Answer::None);
}

#[test]
fn conditions_are_checked_before_anything_changes() {
    let mut store = Store::new();
    let set = |condition| {
        Command::String(StringCommand::Set(Set { condition, ..Set::new(b"k", b"new") }))
    };
    assert_eq!(store.run(set(Condition::IfPresent)), Answer::Refused(Refusal::Absent));
    assert_eq!(store.run(set(Condition::IfVersion(1))), Answer::Refused(Refusal::Absent));
    store.set("k", "old");
    let version = store.version;
    assert_eq!(store.run(set(Condition::IfAbsent)), Answer::Refused(Refusal::Present));
    let other = set(Condition::IfVersion(version + 1));
    assert_eq!(store.run(other), Answer::Refused(Refusal::VersionDiffers));
    assert_eq!(store.get("k").as_deref(), Some("old"));
    assert_eq!(store.run(set(Condition::IfVersion(version))), Answer::Stored);
    assert_eq!(store.get("k").as_deref(), Some("new"));
}

#[test]
fn the_old_record_is_the_reply_where_asked_for() {
    let mut store = Store::new();
    let set = |value, condition| {
        Command::String(StringCommand::Set(Set {
            return_old: true,
            condition,
            ..Set::new(b"k", value)
        }))
    };
    assert_eq!(store.run(set(b"1", Condition::Always)), Answer::None);
    assert_eq!(store.run(set(b"2", Condition::Always)), value("1"));
    assert_eq!(store.run(set(b"3", Condition::IfAbsent)), value("2"));
    assert_eq!(store.get("k").as_deref(), Some("2"));
}

#[test]
fn an_expiry_that_has_passed_removes_the_record() {
    let mut store = Store::new();
    store.set("k", "v");
    let set = Set { expires: Expires::At(store.now_ms), ..Set::new(b"k", b"w") };
    assert_eq!(store.run(Command::String(StringCommand::Set(set))), Answer::Stored);
    assert_eq!(store.run(Command::Database(DatabaseCommand::Count)), Answer::Integer(0));
}

#[test]
fn keep_leaves_the_expiry_and_never_drops_it() {
    let mut store = Store::new();
    let set =
        |expires| Command::String(StringCommand::Set(Set { expires, ..Set::new(b"k", b"v") }));
    store.run(set(Expires::At(5_000_000)));
    store.run(set(Expires::Keep));
    assert_eq!(
        store.run(Command::Key(KeyCommand::Expiry { key: b"k" })),
        Answer::Expiry(Some(5_000_000))
    );
    store.run(set(Expires::Never));
    assert_eq!(store.run(Command::Key(KeyCommand::Expiry { key: b"k" })), Answer::Expiry(None));
}

#[test]
fn adding_at_an_end_keeps_flags_and_expiry() {
    let mut store = Store::new();
    let refused = Answer::Refused(Refusal::Absent);
    assert_eq!(store.run(concat(b"k", b"x", Side::Append, false)), refused);
    assert_eq!(store.run(concat(b"k", b"b", Side::Append, true)), Answer::Length(1));
    let set = Set { flags: 3, expires: Expires::At(9_000_000), ..Set::new(b"k", b"b") };
    store.run(Command::String(StringCommand::Set(set)));
    assert_eq!(store.run(concat(b"k", b"c", Side::Append, true)), Answer::Length(2));
    assert_eq!(store.run(concat(b"k", b"a", Side::Prepend, false)), Answer::Length(3));
    let record = Answer::Record { value: b"abc".into(), flags: 3, expires_at_ms: Some(9_000_000) };
    assert_eq!(store.run(Command::String(StringCommand::Get { key: b"k" })), record);
}

#[test]
fn no_command_builds_a_value_beyond_the_limit() {
    let mut store = Store::new();
    store.value_bytes_max = 4;
    let too_large = Answer::Error(Error::ValueTooLarge);
    assert_eq!(store.run(concat(b"k", b"abcd", Side::Append, true)), Answer::Length(4));
    assert_eq!(store.run(concat(b"k", b"e", Side::Append, true)), too_large);
    assert_eq!(store.run(concat(b"new", b"abcde", Side::Append, true)), too_large);
    let set_range =
        |offset| Command::String(StringCommand::SetRange { key: b"k", offset, bytes: b"x" });
    assert_eq!(store.run(set_range(3)), Answer::Integer(4));
    assert_eq!(store.run(set_range(4)), too_large);
    assert_eq!(store.run(set_range(u64::MAX)), too_large);
    let set_bit = |offset| Command::Bits(BitsCommand::SetBit { key: b"k", offset, bit: true });
    assert_eq!(store.run(set_bit(31)), Answer::Integer(0));
    assert_eq!(store.run(set_bit(32)), too_large);
    assert_eq!(store.run(set_bit(u64::MAX)), too_large);
    assert_eq!(store.get("k").as_deref(), Some("abcy"));
}

#[test]
fn ranges_count_from_either_end() {
    let mut store = Store::new();
    store.set("k", "This is a string");
    let ranges = [
        (0, 3, "This"),
        (-3, -1, "ing"),
        (0, -1, "This is a string"),
        (10, 100, "string"),
        (5, 3, ""),
        (-1, -3, ""),
        (16, 20, ""),
        (-100, 3, "This"),
        (-100, -100, "T"),
        (i64::MIN, i64::MAX, "This is a string"),
        (i64::MAX, i64::MAX, ""),
    ];
    for (start, end, part) in ranges {
        let answer = store.run(Command::String(StringCommand::GetRange { key: b"k", start, end }));
        assert_eq!(answer, Answer::Bytes(part.into()), "{start}..{end}");
    }
    let missing = Command::String(StringCommand::GetRange { key: b"none", start: 0, end: -1 });
    assert_eq!(store.run(missing), Answer::Bytes(vec![]));
}

#[test]
fn setting_a_range_pads_with_zero_bytes() {
    let mut store = Store::new();
    let set_range =
        |offset, bytes| Command::String(StringCommand::SetRange { key: b"k", offset, bytes });
    assert_eq!(store.run(set_range(5, b"")), Answer::Integer(0));
    assert_eq!(store.run(Command::Database(DatabaseCommand::Count)), Answer::Integer(0));
    assert_eq!(store.run(set_range(2, b"ab")), Answer::Integer(4));
    assert_eq!(store.get("k").as_deref(), Some("\0\0ab"));
    assert_eq!(store.run(set_range(1, b"x")), Answer::Integer(4));
    assert_eq!(store.get("k").as_deref(), Some("\0xab"));
}

#[test]
fn many_pairs_are_stored_all_or_none() {
    let mut store = Store::new();
    let pairs: [(&[u8], &[u8]); 2] = [(b"a", b"1"), (b"b", b"2")];
    let set_many = |condition| {
        Command::String(StringCommand::SetMany {
            pairs: &pairs,
            condition,
            expires: Expires::Never,
        })
    };
    store.set("b", "old");
    assert_eq!(store.run(set_many(Condition::IfAbsent)), Answer::Refused(Refusal::Present));
    assert_eq!(store.get("a"), None);
    assert_eq!(store.run(set_many(Condition::Always)), Answer::Done);
    let answers =
        store.all(Command::String(StringCommand::GetMany { keys: &[b"a", b"b", b"none"] }));
    assert_eq!(answers, [Answer::List(3), value("1"), value("2"), Answer::None]);
}

#[test]
fn where_one_of_many_pairs_does_not_fit_none_is_stored() {
    use todana_table::{Limits, Options, WhenFull};
    let limits = Limits { entries_max: Some(2), bytes_max: None, when_full: WhenFull::Refuse };
    let mut store = Store::new();
    store.databases =
        todana_command::Databases::with_options(&Options { limits, ..Options::default() });
    store.set("a", "old");
    let pairs: [(&[u8], &[u8]); 3] = [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")];
    let set_many = Command::String(StringCommand::SetMany {
        pairs: &pairs,
        condition: Condition::Always,
        expires: Expires::Never,
    });
    assert_eq!(store.run(set_many), Answer::Error(Error::Full));
    assert_eq!(store.get("a").as_deref(), Some("old"));
    assert_eq!(store.run(Command::Database(DatabaseCommand::Count)), Answer::Integer(1));
}

#[test]
fn a_record_is_taken_once() {
    let mut store = Store::new();
    store.set("k", "v");
    assert_eq!(store.run(Command::String(StringCommand::Take { key: b"k" })), value("v"));
    assert_eq!(store.run(Command::String(StringCommand::Take { key: b"k" })), Answer::None);
}

/// Makes another thread write the keys for each record of a reply, which succeeds only if the keys
/// are not locked.
fn write_meanwhile(table: Arc<Table>, keys: &[&str]) -> Option<Box<dyn FnMut()>> {
    let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.as_bytes().to_vec()).collect();
    Some(Box::new(move || {
        let (table, keys, (sender, done)) = (table.clone(), keys.clone(), mpsc::channel());
        std::thread::spawn(move || {
            for key in keys {
                table.update(&key, 1, |locked| locked.set_meta(Meta::default()));
            }
            sender.send(())
        });
        done.recv_timeout(Duration::from_secs(60)).expect("the keys are locked");
    }))
}

#[test]
fn a_large_record_that_is_changed_is_returned_without_the_lock() {
    let large = vec![b'x'; 100_000];
    let at = Expires::At(2_000_000);
    let touch = LeaseOptions { touch: Some(at), ..LeaseOptions::default() };
    let set = Set { return_old: true, ..Set::new(b"k", b"new") };
    for command in [
        Command::String(StringCommand::Take { key: b"k" }),
        Command::String(StringCommand::GetAndExpire { key: b"k", expires: at }),
        Command::String(StringCommand::GetAndExpire { key: b"k", expires: Expires::At(1) }),
        Command::String(StringCommand::Set(set)),
        Command::Lease(LeaseCommand::Get { key: b"k", options: touch }),
    ] {
        let mut store = Store::new();
        store.run(Command::String(StringCommand::Set(Set::new(b"k", &large))));
        let on_record = write_meanwhile(store.databases.table(0).clone(), &["k"]);
        let mut recorder = Recorder { on_record, ..Recorder::default() };
        execute(&store.databases, 0, &command, store.context(), &mut recorder);
        match &recorder.answers[..] {
            [Answer::Record { value, .. } | Answer::Lease { value, .. }] => {
                assert!(*value == large, "{command:?}");
            }
            answers => panic!("{command:?}: {} answers", answers.len()),
        }
    }
}

/// The address of a key's value.
fn address(store: &Store, key: &[u8]) -> usize {
    let look = |entry: Option<Entry<'_>>| entry.map(|entry| entry.stored().bytes().as_ptr().addr());
    store.databases.table(0).read(key, 1, look).expect("a record")
}

#[test]
fn a_large_value_stays_where_it_is_while_all_around_it_changes() {
    let mut store = Store::new();
    store.run(Command::String(StringCommand::Set(Set::new(b"k", &vec![b'x'; 1 << 20]))));
    let before = address(&store, b"k");
    let at = Expires::At(2_000_000);
    let (when, condition) = (ExpireWhen::default(), Condition::Always);
    for command in [
        Command::Key(KeyCommand::Expire { key: b"k", expires: at, when }),
        Command::Key(KeyCommand::Expire { key: b"k", expires: Expires::Never, when }),
        Command::String(StringCommand::GetAndExpire { key: b"k", expires: at }),
        Command::Lease(LeaseCommand::Invalidate { key: b"k", condition, expires: Expires::Keep }),
        Command::String(StringCommand::SetRange { key: b"k", offset: 1_000, bytes: b"new" }),
        Command::Bits(BitsCommand::SetBit { key: b"k", offset: 8, bit: true }),
    ] {
        store.run(command.clone());
        assert_eq!(address(&store, b"k"), before, "{command:?}");
    }
    let copy =
        Command::Key(KeyCommand::Copy { from: b"k", to: b"copy", database: None, replace: true });
    assert_eq!(store.run(copy), Answer::Flag(true));
    assert_eq!(
        store.run(Command::Key(KeyCommand::Rename { from: b"k", to: b"l", if_absent: false })),
        Answer::Done
    );
    assert_eq!(
        store.run(Command::Key(KeyCommand::Move { key: b"l", database: 1 })),
        Answer::Flag(true)
    );
    assert_eq!(address(&store, b"copy"), before);
    assert_eq!(
        store.run(Command::String(StringCommand::Length { key: b"copy" })),
        Answer::Integer(1 << 20)
    );
    // A change of one record does not change the value that it shares with another.
    store.run(Command::String(StringCommand::SetRange { key: b"copy", offset: 0, bytes: b"mine" }));
    assert_ne!(address(&store, b"copy"), before);
    let look = |entry: Option<Entry<'_>>| entry.map(|entry| entry.stored().bytes()[..4].to_vec());
    assert_eq!(store.databases.table(1).read(b"l", 1, look).as_deref(), Some(&b"x\xf8xx"[..]));
}

#[test]
fn large_values_of_several_keys_are_returned_without_locks() {
    let mut store = Store::new();
    let large = "x".repeat(100_000);
    ["a", "b"].iter().for_each(|key| store.set(key, &large));
    store.set("small", "v");
    let databases = &store.databases;
    let on_record = write_meanwhile(databases.table(0).clone(), &["a", "b", "small"]);
    let mut recorder = Recorder { on_record, ..Recorder::default() };
    let command = Command::String(StringCommand::GetMany {
        keys: &[b"none", b"a", b"small", b"b", b"none", b"a"],
    });
    execute(databases, 0, &command, store.context(), &mut recorder);
    let (large, none) = (value(&large), Answer::None);
    let values = [&none, &large, &value("v"), &large, &none, &large].map(Answer::clone);
    assert_eq!(recorder.answers, [&[Answer::List(6)], &values[..]].concat());
}
