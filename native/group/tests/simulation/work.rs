//! What sessions submit.

use std::sync::Arc;

use todana_command::{
    Command, Condition, DatabaseCommand, Expires, KeyCommand, LeaseCommand, LeaseOptions,
    LoggedSeen, LoggedWatch, Set, Side, StringCommand,
};
use todana_group::Home;
use todana_group::record::{self, TableOptions};
use todana_table::KeyOrder;

use crate::dice::Dice;

/// The database of the markers and of the counter. Nothing removes its records.
pub(crate) const KEPT: u64 = 15;
/// The database of the keys that are watched. Its records never expire.
pub(crate) const WATCHED: u64 = 14;
/// The databases with records of all kinds.
const OTHERS: u64 = 3;
/// Homes of named tables that sessions try.
const NAMED: std::ops::Range<u64> = 16..20;

pub(crate) const KEYS: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
pub(crate) const MARKER_BYTES: usize = 4;

/// One record of a submission.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Appends a number that nobody else uses.
    Mark {
        key: usize,
        marker: u32,
    },
    /// Adds one to the counter.
    Count,
    Put {
        home: u64,
        key: usize,
        bytes: usize,
        after_ms: Option<u64>,
    },
    Patch {
        home: u64,
        key: usize,
        offset: u64,
    },
    Delete {
        home: u64,
        key: usize,
    },
    Read {
        home: u64,
        key: usize,
    },
    Lease {
        home: u64,
        key: usize,
    },
    Invalidate {
        home: u64,
        key: usize,
    },
    Rename {
        home: u64,
        from: usize,
        to: usize,
    },
    Swap {
        first: u64,
        second: u64,
    },
    Clear {
        home: u64,
        at_ms: Option<u64>,
    },
    Create {
        name: usize,
        ordered: bool,
    },
    Drop {
        name: usize,
    },
    PutWatched {
        key: usize,
    },
    DeleteWatched {
        key: usize,
    },
    ClearWatched,
    /// Puts a watched key and a marker, if the watches hold.
    Exec {
        watches: Vec<Watched>,
        key: usize,
        marker: u32,
    },
}

/// A watched key, and what it was.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub(crate) key: usize,
    pub(crate) seen: LoggedSeen,
    pub(crate) table: usize,
    /// The number of entries that had been applied.
    pub(crate) at: u64,
}

impl Op {
    pub(crate) fn random(dice: &mut Dice, marker: &mut u32, now_ms: u64) -> Op {
        let key = dice.index(KEYS.len());
        let home = match dice.once_in(4) {
            true => NAMED.start + dice.below(NAMED.end - NAMED.start),
            false => dice.below(OTHERS),
        };
        match dice.below(32) {
            0..7 => {
                *marker += 1;
                Op::Mark { key, marker: *marker }
            }
            7..9 => Op::Count,
            9..14 => {
                let bytes = if dice.once_in(40) { 20_000 } else { dice.below(40) as usize };
                let after_ms = dice.once_in(3).then(|| dice.below(60));
                Op::Put { home, key, bytes, after_ms }
            }
            14 => Op::Patch { home, key, offset: dice.below(100) },
            15..17 => Op::Delete { home, key },
            17..20 => Op::Read { home, key },
            20 => Op::Lease { home, key },
            21 => Op::Invalidate { home, key },
            22 => Op::Rename { home, from: key, to: dice.index(KEYS.len()) },
            23 => Op::Swap { first: dice.below(OTHERS), second: dice.below(OTHERS) },
            24 if dice.once_in(2) => {
                let at_ms = dice.once_in(2).then(|| now_ms + dice.below(60));
                Op::Clear { home, at_ms }
            }
            24 => Op::ClearWatched,
            25 => Op::Create { name: dice.index(2), ordered: dice.once_in(2) },
            26 if dice.once_in(2) => Op::Drop { name: dice.index(2) },
            26..30 => Op::PutWatched { key },
            _ => Op::DeleteWatched { key },
        }
    }

    pub(crate) fn markers(&self) -> Option<u32> {
        match self {
            Op::Mark { marker, .. } | Op::Exec { marker, .. } => Some(*marker),
            _ => None,
        }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let value = [b'v'; 20_000];
        let put = |out: &mut Vec<u8>, home: u64, command: &Command<'_>| {
            record::put_command(out, Home::of(home), command);
        };
        match *self {
            Op::Mark { key, marker } => put(out, KEPT, &mark(key, &marker.to_le_bytes())),
            Op::Count => {
                let delta = todana_command::Delta::Signed(1);
                let increment = todana_command::Increment {
                    key: b"counter",
                    delta,
                    initial: Some((todana_command::Initial::Zero, Expires::Never)),
                    condition: Condition::Always,
                    expires: Expires::Keep,
                    track_access: false,
                };
                put(out, KEPT, &Command::String(StringCommand::Increment(increment)));
            }
            Op::Put { home, key, bytes, after_ms } => {
                let expires = after_ms.map_or(Expires::Never, Expires::After);
                let (flags, track_access) = (bytes as u32 % 3, bytes % 2 == 0);
                let set = Set::new(KEYS[key], &value[..bytes]);
                put(
                    out,
                    home,
                    &Command::String(StringCommand::Set(Set {
                        flags,
                        expires,
                        track_access,
                        ..set
                    })),
                );
            }
            Op::Patch { home, key, offset } => {
                put(
                    out,
                    home,
                    &Command::String(StringCommand::SetRange {
                        key: KEYS[key],
                        offset,
                        bytes: b"patch",
                    }),
                );
            }
            Op::Delete { home, key } => {
                put(out, home, &Command::Key(KeyCommand::Delete { keys: &[KEYS[key]] }))
            }
            Op::Read { home, key } => {
                record::put_read(
                    out,
                    Home::of(home),
                    &Command::String(StringCommand::Get { key: KEYS[key] }),
                );
            }
            Op::Lease { home, key } => {
                let vivify = Some(Expires::After(30));
                let options = LeaseOptions { vivify, ..LeaseOptions::default() };
                put(out, home, &Command::Lease(LeaseCommand::Get { key: KEYS[key], options }));
            }
            Op::Invalidate { home, key } => {
                let (condition, expires) = (Condition::Always, Expires::Keep);
                put(
                    out,
                    home,
                    &Command::Lease(LeaseCommand::Invalidate {
                        key: KEYS[key],
                        condition,
                        expires,
                    }),
                );
            }
            Op::Rename { home, from, to } => {
                let (from, to) = (KEYS[from], KEYS[to]);
                put(out, home, &Command::Key(KeyCommand::Rename { from, to, if_absent: false }));
            }
            Op::Swap { first, second } => {
                let (first, second) = (first as usize, second as usize);
                put(out, 0, &Command::Database(DatabaseCommand::Swap { first, second }));
            }
            Op::Clear { home, at_ms } => {
                put(out, home, &Command::Database(DatabaseCommand::Clear { at_ms }))
            }
            Op::Create { name, ordered } => {
                let order = ordered.then(KeyOrder::default);
                let options = TableOptions { order, shards: Some(4), opaque: b"opaque" };
                record::put_create_table(out, KEYS[name], &options);
            }
            Op::Drop { name } => record::put_drop_table(out, KEYS[name]),
            Op::PutWatched { key } => {
                put(out, WATCHED, &Command::String(StringCommand::Set(Set::new(KEYS[key], b"v"))));
            }
            Op::DeleteWatched { key } => {
                put(out, WATCHED, &Command::Key(KeyCommand::Delete { keys: &[KEYS[key]] }));
            }
            Op::ClearWatched => {
                put(out, WATCHED, &Command::Database(DatabaseCommand::Clear { at_ms: None }))
            }
            Op::Exec { ref watches, key, marker } => {
                let logged = |it: &Watched| LoggedWatch {
                    database: WATCHED as usize,
                    table: it.table,
                    key: KEYS[it.key],
                    seen: it.seen,
                };
                let watches: Vec<_> = watches.iter().map(logged).collect();
                let marker = marker.to_le_bytes();
                let set = Command::String(StringCommand::Set(Set::new(KEYS[key], b"exec")));
                let commands = [(WATCHED as usize, set), (KEPT as usize, mark(key, &marker))];
                record::put_transaction(out, Home::of(0), &watches, &commands);
            }
        }
    }
}

fn mark(key: usize, marker: &[u8; MARKER_BYTES]) -> Command<'_> {
    Command::String(StringCommand::Concat {
        key: KEYS[key],
        bytes: marker,
        side: Side::Append,
        create: true,
        condition: Condition::Always,
        expires: Expires::Keep,
    })
}

/// The records that a session has submitted together.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) ticket: u64,
    pub(crate) ops: Arc<[Op]>,
    pub(crate) records: Vec<u8>,
}

impl Request {
    pub(crate) fn new(ticket: u64, ops: Vec<Op>) -> Request {
        let mut records = Vec::new();
        ops.iter().for_each(|op| op.put(&mut records));
        Request { ticket, ops: ops.into(), records }
    }
}
