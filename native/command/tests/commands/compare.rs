//! Writes under a condition on the value.

use crate::recorder::{Answer, Store, value};
use todana_command::{Command, Error, Expires, Refusal, Set, StringCommand};

type Bytes<'a> = Option<&'a [u8]>;

fn compare<'a>(old: Bytes<'a>, new: Bytes<'a>) -> Command<'a> {
    Command::String(StringCommand::CompareValue { key: b"k", old, new, expires: Expires::Never })
}

const DIFFERS: Answer = Answer::Refused(Refusal::ValueDiffers);

#[test]
fn a_value_that_is_as_expected_gives_way() {
    let mut store = Store::new();
    store.set("k", "old");
    assert_eq!(store.run(compare(Some(b"old"), Some(b"new"))), Answer::Done);
    assert_eq!(store.run(Command::String(StringCommand::Get { key: b"k" })), value("new"));
}

#[test]
fn another_value_stays() {
    let mut store = Store::new();
    for other in ["", "ol", "older", "OLD"] {
        store.set("k", other);
        assert_eq!(store.run(compare(Some(b"old"), Some(b"new"))), DIFFERS);
        assert_eq!(store.run(compare(Some(b"old"), None)), DIFFERS);
        assert_eq!(store.get("k").as_deref(), Some(other));
    }
}

#[test]
fn a_missing_record_is_expected_without_an_old_value() {
    let mut store = Store::new();
    assert_eq!(store.run(compare(Some(b""), Some(b"new"))), DIFFERS);
    assert_eq!(store.run(compare(None, Some(b"new"))), Answer::Done);
    assert_eq!(store.run(compare(None, Some(b"newer"))), DIFFERS);
    assert_eq!(store.get("k").as_deref(), Some("new"));
}

#[test]
fn an_expired_record_is_missing() {
    let mut store = Store::new();
    store.run(Command::String(StringCommand::Set(Set {
        expires: Expires::At(1_000_100),
        ..Set::new(b"k", b"old")
    })));
    store.now_ms = 1_000_100;
    assert_eq!(store.run(compare(Some(b"old"), Some(b"new"))), DIFFERS);
    assert_eq!(store.run(compare(None, Some(b"new"))), Answer::Done);
}

#[test]
fn without_a_new_value_the_record_goes() {
    let mut store = Store::new();
    store.set("k", "old");
    assert_eq!(store.run(compare(None, None)), DIFFERS);
    assert_eq!(store.run(compare(Some(b"old"), None)), Answer::Done);
    assert_eq!(store.get("k"), None);
    assert_eq!(store.run(compare(None, None)), Answer::Done);
}

#[test]
fn the_new_record_has_the_expiry_of_the_command_and_no_flags() {
    let mut store = Store::new();
    let old = Set { flags: 9, expires: Expires::At(9_000_000), ..Set::new(b"k", b"v") };
    let cases = [
        (Expires::Never, None),
        (Expires::Keep, Some(9_000_000)),
        (Expires::At(8_000_000), Some(8_000_000)),
    ];
    for length in [1, 5_000] {
        let new = vec![b'n'; length];
        for (expires, expires_at_ms) in cases {
            store.run(Command::String(StringCommand::Set(old.clone())));
            let (old, new) = (Some(&b"v"[..]), Some(&new[..]));
            store.run(Command::String(StringCommand::CompareValue {
                key: b"k",
                old,
                new,
                expires,
            }));
            let record = Answer::Record { value: vec![b'n'; length], flags: 0, expires_at_ms };
            assert_eq!(store.run(Command::String(StringCommand::Get { key: b"k" })), record);
        }
    }
}

#[test]
fn a_new_value_whose_expiry_has_passed_is_gone() {
    let mut store = Store::new();
    for length in [1, 5_000] {
        let (new, expires) = (vec![b'n'; length], Expires::At(1));
        let command = Command::String(StringCommand::CompareValue {
            key: b"k",
            old: None,
            new: Some(&new),
            expires,
        });
        assert_eq!(store.run(command), Answer::Done);
        assert_eq!(store.get("k"), None);
    }
}

#[test]
fn a_new_value_beyond_the_limit_changes_nothing() {
    let mut store = Store::new();
    store.value_bytes_max = 4;
    store.set("k", "old");
    let too_large = Answer::Error(Error::ValueTooLarge);
    assert_eq!(store.run(compare(Some(b"old"), Some(b"12345"))), too_large);
    assert_eq!(store.get("k").as_deref(), Some("old"));
}

#[test]
fn where_there_is_no_room_nothing_is_stored() {
    let mut store = Store::with_room_for(1);
    store.set("other", "v");
    assert_eq!(store.run(compare(None, Some(b"new"))), Answer::Error(Error::Full));
    assert_eq!(store.get("k"), None);
}

fn replace<'a>(value: &'a [u8], equal: bool, new: Bytes<'a>) -> Command<'a> {
    let (expires, return_old) = (Expires::Never, false);
    Command::String(StringCommand::ReplaceIf { key: b"k", value, equal, new, expires, return_old })
}

#[test]
fn an_equal_value_is_replaced_or_removed() {
    let mut store = Store::new();
    assert_eq!(store.run(replace(b"", true, Some(b"new"))), DIFFERS, "a missing record");
    store.set("k", "old");
    assert_eq!(store.run(replace(b"other", true, Some(b"new"))), DIFFERS);
    assert_eq!(store.run(replace(b"other", true, None)), DIFFERS);
    assert_eq!(store.run(replace(b"old", true, Some(b"new"))), Answer::Done);
    assert_eq!(store.get("k").as_deref(), Some("new"));
    assert_eq!(store.run(replace(b"new", true, None)), Answer::Done);
    assert_eq!(store.get("k"), None);
}

#[test]
fn another_value_is_replaced_or_removed() {
    let mut store = Store::new();
    assert_eq!(store.run(replace(b"x", false, None)), DIFFERS, "there is nothing to remove");
    assert_eq!(store.run(replace(b"x", false, Some(b"old"))), Answer::Done);
    assert_eq!(store.run(replace(b"old", false, Some(b"new"))), DIFFERS);
    assert_eq!(store.run(replace(b"old", false, None)), DIFFERS);
    assert_eq!(store.run(replace(b"new", false, Some(b"newer"))), Answer::Done);
    assert_eq!(store.run(replace(b"new", false, None)), Answer::Done);
    assert_eq!(store.get("k"), None);
}

#[test]
fn the_old_record_is_the_reply_in_either_case() {
    let mut store = Store::new();
    let old = |command| match command {
        Command::String(StringCommand::ReplaceIf { key, value, equal, new, expires, .. }) => {
            Command::String(StringCommand::ReplaceIf {
                key,
                value,
                equal,
                new,
                expires,
                return_old: true,
            })
        }
        other => other,
    };
    assert_eq!(store.run(old(replace(b"a", true, Some(b"b")))), Answer::None);
    assert_eq!(store.run(old(replace(b"a", false, Some(b"b")))), Answer::None);
    assert_eq!(store.run(old(replace(b"a", true, Some(b"c")))), value("b"));
    assert_eq!(store.run(old(replace(b"b", true, Some(b"c")))), value("b"));
    assert_eq!(store.get("k").as_deref(), Some("c"));
}
