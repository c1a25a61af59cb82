//! Calls on a tape, which must be played as they were recorded.

use std::sync::OnceLock;

use todana_command::{
    Error, Inadmissible, LcsSpan, LeaseState, Player, Record, Refusal, Reply, Status, Tape,
};
use todana_table::{Keyspace, Kind, Meta, Options, Shared, Table};

/// Records the calls that the bytes choose, and plays the tape onto another one.
pub fn tape(data: &[u8]) {
    let mut input = Input(data);
    let (mut tape, mut statuses) = (Tape::new(), Vec::new());
    while let Some(number) = input.byte() {
        if let Some(status) = input.record(number, &mut tape) {
            tape.end(status);
            statuses.push(status);
        }
    }
    tape.end(Status::Done);
    statuses.push(Status::Done);
    let recorded = format!("{tape:?}");
    let (mut player, mut again) = (Player::new(tape), Tape::new());
    for status in statuses {
        let each = |tape: &mut Tape, _| tape.next_command();
        assert_eq!(player.next_transaction(&mut again, each), Some(status));
        again.end(status);
    }
    assert_eq!(player.next(&mut again), None);
    assert_eq!(format!("{again:?}"), recorded);
}

/// A large value.
fn handle() -> Shared {
    static SHARED: OnceLock<Shared> = OnceLock::new();
    let make = || {
        let table = Table::new(Options { shards: Some(1), ..Options::default() });
        table.update(b"k", 0, |record| record.put(&[&[7; 20_000]], Meta::default())).expect("room");
        table.read(b"k", 0, |entry| entry.and_then(|entry| entry.share())).expect("large")
    };
    SHARED.get_or_init(make).clone()
}

/// Bytes that choose; 0 after their end.
struct Input<'d>(&'d [u8]);

impl<'d> Input<'d> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn bytes(&mut self) -> &'d [u8] {
        let length = usize::from(self.byte().unwrap_or(0)).min(self.0.len());
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        bytes
    }

    fn number(&mut self) -> u64 {
        let mut bytes = [0; 8];
        let length = self.0.len().min(8);
        let (these, rest) = self.0.split_at(length);
        bytes[..length].copy_from_slice(these);
        self.0 = rest;
        u64::from_le_bytes(bytes)
    }

    fn length(&mut self) -> usize {
        self.number() as usize
    }

    fn flag(&mut self) -> bool {
        self.byte().unwrap_or(0) & 1 != 0
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::from(self.byte().unwrap_or(0)) % all.len()]
    }

    fn stored(&mut self) -> Record<'d> {
        let (key, value) = (self.bytes(), self.bytes());
        let expires_at_ms = if self.flag() { Some(self.number()) } else { None };
        Record { key, value, flags: self.number() as u32, version: self.number(), expires_at_ms }
    }

    /// Makes the call of this number, or returns the status that ends the record.
    fn record(&mut self, number: u8, tape: &mut Tape) -> Option<Status> {
        match number % 22 {
            0 => tape.done(),
            1 => tape.none(),
            2 => tape.record(self.stored()),
            3 => tape.held(handle()),
            4 => tape.part(handle(), self.length()..self.length()),
            5 => {
                let state = LeaseState {
                    won: self.flag(),
                    already_won: self.flag(),
                    stale: self.flag(),
                    fetched_before: self.flag(),
                    idle_s: self.number(),
                    created: self.flag(),
                };
                tape.lease(self.stored(), state);
            }
            6 => tape.stored(self.number()),
            7 => {
                use Refusal::{Absent, Present, ValueDiffers, VersionDiffers};
                tape.refused(self.one_of(&[Present, Absent, VersionDiffers, ValueDiffers]));
            }
            8 => tape.integer(self.number().cast_signed()),
            9 => tape.number(self.stored()),
            10 => tape.length(self.length(), self.number()),
            11 => tape.flag(self.flag()),
            12 => tape.bytes(self.bytes()),
            13 => {
                let at_ms = self.number();
                tape.expiry(self.flag().then_some(at_ms));
            }
            14 => tape.list(self.length()),
            15 => tape.page(self.number(), self.length()),
            16 => {
                let after = self.bytes();
                tape.slice(self.flag().then_some(after), self.length());
            }
            17 => tape.key(self.bytes()),
            18 => {
                let mut pair = || (self.length(), self.length());
                let span = LcsSpan { first: pair(), second: pair() };
                tape.matches(&[span; 3][..self.length() % 4], self.length(), self.flag());
            }
            19 => tape.error(self.one_of(&[
                Error::NotAnInteger,
                Error::NotAFloat,
                Error::Overflow,
                Error::NotFinite,
                Error::ValueTooLarge,
                Error::Full,
                Error::NoSuchDatabase,
                Error::SameObject,
                Error::NotACounter,
                Error::NotOrdered,
                Error::ReplyTooLarge,
                Error::TooManyKeys,
                Error::DifferentDurability,
                Error::NoScripts,
                Error::NotASketch,
                Error::CorruptSketch,
                Error::BadPayload,
                Error::BadFormat,
                Error::OtherType,
                Error::Contended,
                Error::WrongKind(Kind::SortedSet),
            ])),
            20 => tape.next_command(),
            _ => {
                return Some(self.one_of(&[
                    Status::Done,
                    Status::WatchFailed,
                    Status::Inadmissible(Inadmissible::TooMuchWork),
                    Status::Inadmissible(Inadmissible::Full),
                    Status::Inadmissible(Inadmissible::DifferentDurability),
                    Status::Internal,
                ]));
            }
        }
        None
    }
}
