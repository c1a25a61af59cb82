//! Keys of a command, and its fingerprint.

use super::Keys;
use crate::{Command, DatabaseCommand, Expires, KeyCommand, Set, StringCommand};

#[test]
fn keys_of_every_kind_are_named_in_order() {
    let list: &[&[u8]] = &[b"a", b"b", b"c"];
    let pairs: &[(&[u8], &[u8])] = &[(b"a", b"1"), (b"b", b"2")];
    for (keys, named) in
        [(Keys::Two([b"a", b"b"]), 2), (Keys::List(list), 3), (Keys::OfPairs(pairs), 2)]
    {
        assert!(keys.iter().eq(list[..named].iter().copied()));
    }
}

#[test]
fn fingerprints_follow_from_the_variant_and_the_first_key() {
    let set = |key, value, expires| {
        Command::String(StringCommand::Set(Set { expires, ..Set::new(key, value) }))
    };
    let print = set(b"a", b"1", Expires::Never).fingerprint();
    assert_eq!(print, set(b"a", b"2", Expires::At(5)).fingerprint());
    for other in [
        set(b"b", b"1", Expires::Never),
        Command::String(StringCommand::Get { key: b"a" }),
        Command::Database(DatabaseCommand::Count),
        Command::Key(KeyCommand::Rename { from: b"a", to: b"b", if_absent: false }),
    ] {
        assert_ne!(print, other.fingerprint());
    }
}
