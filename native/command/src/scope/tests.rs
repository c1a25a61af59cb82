//! Every command keeps to the keys of its scope.

use super::{Keys, Scope};
use crate::dispatch::dispatch;
use crate::{Command, Context, Error, LcsSpan, LeaseState, Record, Refusal, Reply, Scratch};
use std::cell::RefCell;
use std::collections::BTreeSet;
use todana_table::{
    Entry, KeyOrder, Keyspace, Meta, NotOrdered, Options, Slot, Table, Walk, Walked,
};

const NOW_MS: u64 = 1_000;

/// A table that notes which keys are read or written.
struct Noting {
    table: Table,
    touched: RefCell<BTreeSet<Vec<u8>>>,
}

impl Keyspace for Noting {
    fn read<R>(&self, key: &[u8], now_ms: u64, look: impl FnOnce(Option<Entry<'_>>) -> R) -> R {
        self.touched.borrow_mut().insert(key.to_vec());
        self.table.read(key, now_ms, look)
    }
    fn update<R>(&self, key: &[u8], now_ms: u64, change: impl FnOnce(&mut Slot<'_>) -> R) -> R {
        self.touched.borrow_mut().insert(key.to_vec());
        self.table.update(key, now_ms, change)
    }
    fn prefetch(&self, _: &[&[u8]]) {}
    fn len(&self) -> u64 {
        self.table.len()
    }
    fn len_at(&self, now_ms: u64) -> u64 {
        self.table.len_at(now_ms)
    }
    fn scan(&self, at: u64, count: usize, now_ms: u64, visit: impl FnMut(Entry<'_>)) -> u64 {
        self.table.scan(at, count, now_ms, visit)
    }
    fn order(&self) -> Option<KeyOrder> {
        self.table.order()
    }
    fn walk(
        &self,
        walk: &Walk<'_>,
        now_ms: u64,
        visit: impl FnMut(Entry<'_>),
    ) -> Result<Walked, NotOrdered> {
        self.table.walk(walk, now_ms, visit)
    }
    fn random<R>(&self, seed: u64, now_ms: u64, look: impl FnOnce(Option<Entry<'_>>) -> R) -> R {
        self.table.random(seed, now_ms, look)
    }
    fn clear(&self) -> u64 {
        self.table.clear()
    }
}

/// A reply that nobody reads.
struct Unread;

impl Reply for Unread {
    fn done(&mut self) {}
    fn none(&mut self) {}
    fn record(&mut self, _: Record<'_>) {}
    fn lease(&mut self, _: Record<'_>, _: LeaseState) {}
    fn stored(&mut self, _: u64) {}
    fn refused(&mut self, _: Refusal) {}
    fn integer(&mut self, _: i64) {}
    fn number(&mut self, _: Record<'_>) {}
    fn length(&mut self, _: usize, _: u64) {}
    fn flag(&mut self, _: bool) {}
    fn bytes(&mut self, _: &[u8]) {}
    fn expiry(&mut self, _: Option<u64>) {}
    fn list(&mut self, _: usize) {}
    fn page(&mut self, _: u64, _: usize) {}
    fn slice(&mut self, _: Option<&[u8]>, _: usize) {}
    fn key(&mut self, _: &[u8]) {}
    fn matches(&mut self, _: &[LcsSpan], _: usize, _: bool) {}
    fn error(&mut self, _: Error) {}
}

/// Runs a command, and compares the keys that it touches with those of its scope.
fn check(command: &Command<'_>) {
    let space = Noting { table: Table::new(Options::default()), touched: RefCell::default() };
    for key in [&b""[..], b"\0", b"\x01"] {
        space.table.update(key, NOW_MS, |slot| slot.put(&[b"1"], Meta::default())).expect("room");
    }
    let context = Context { now_ms: NOW_MS, value_bytes_max: 1_024 };
    dispatch(&space, command, context, &mut Unread);
    let mut named = BTreeSet::new();
    match command.scope() {
        Scope::Key(key) => _ = named.insert(key.to_vec()),
        Scope::Keys(keys) => named.extend(keys.iter().map(<[u8]>::to_vec)),
        // They visit records, and name none; or another function runs them.
        Scope::Database | Scope::Script(_) | Scope::Expired { .. } | Scope::Databases(_) => {}
    }
    let touched = space.touched.into_inner();
    let of = "reads or writes a key that Command::scope does not name, so it is not locked";
    assert!(touched.is_subset(&named), "{command:?} {of}: {touched:?}");
}

#[test]
fn no_command_touches_a_key_beside_its_scope() {
    // Commands are made of random bytes, so that a new one is among them.
    let mut random = 1_u64;
    let mut byte = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // Mostly lengths, flags and variants that exist.
        [0, 1, 1, 0, 1, 0, 1, 2][(random >> 33) as usize % 8]
    };
    let mut variants = 0;
    for variant in 0..=u8::MAX {
        let mut known = false;
        for _ in 0..500 {
            let mut bytes = vec![1, variant];
            bytes.extend((0..32).map(|_| byte()));
            if let Ok((command, _)) = Command::decode(&bytes, &mut Scratch::default()) {
                check(&command);
                known = true;
            }
        }
        variants += usize::from(known);
    }
    assert!(variants >= 42, "{variants} variants were decoded");
}

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
    use crate::{Expires, Set};
    let set = |key, value, expires| Command::Set(Set { expires, ..Set::new(key, value) });
    let print = set(b"a", b"1", Expires::Never).fingerprint();
    assert_eq!(print, set(b"a", b"2", Expires::At(5)).fingerprint());
    for other in [
        set(b"b", b"1", Expires::Never),
        Command::Get { key: b"a" },
        Command::Count,
        Command::Rename { from: b"a", to: b"b", if_absent: false },
    ] {
        assert_ne!(print, other.fingerprint());
    }
}
