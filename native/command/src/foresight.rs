//! What a batch will do to the lengths of values, foreseen under its locks and before its first
//! command: how much it will copy, and how much room it needs.
//!
//! It goes through the commands as they will be executed and keeps, of each key, how much room is
//! set aside for its entry and the greatest length that its value may have: a command may have a
//! condition that does not hold, or may fail. So what is foreseen is never less than what happens.
//! It is more only where it has to be: room that the batch itself makes by removals and by shorter
//! values is not counted, what a condition may refuse is counted as written, and a value that grows
//! is counted with the quarter that it gets beyond its need.

use crate::databases::{DATABASES, Order};
use crate::plan::LockedTables;
use crate::record::is_past;
use crate::work::{self, BATCH_UNITS_MAX};
use crate::{Batch, Command, Condition, Context, Expires};
use std::collections::HashMap;
use todana_table::{Growth, Keyspace, Locked, Meta, entry_bytes, grown_entry_bytes};

/// Longest text that INCRBYFLOAT stores, and more than any other counter does.
const NUMBER_BYTES_MAX: usize = 5 * 1_024;
/// Digits and sign of a whole number.
const INTEGER_BYTES_MAX: usize = 20;

/// More than an entry takes beside its key and its value.
const ENTRY_BYTES_BESIDE: u64 = 128;

/// What a batch will do.
pub(crate) struct Foresight {
    /// Work that depends on the lengths of values.
    pub(crate) units: u64,
    /// What it adds to each table at most.
    pub(crate) growth: [Growth; DATABASES],
}

/// What is known of a key at some point of the batch.
#[derive(Clone, Copy)]
struct Size {
    /// Bytes of the entry that is there, and what is set aside for it beyond that; as few as it may
    /// have where it may have become smaller, 0 where there may be none.
    room_bytes: u64,
    /// Length of the value at most; `None` where there is no record for certain.
    most_length: Option<usize>,
    /// What the entry keeps beside the value at most.
    meta: Meta,
    /// Bytes of the value that need not be copied again before the value is changed.
    copied_bytes: usize,
}

const ABSENT: Size = Size {
    room_bytes: 0,
    most_length: None,
    meta: Meta { expires_at_ms: None, flags: 0, access: None },
    copied_bytes: 0,
};

/// Whether what a batch needs depends on the records that are there.
pub(crate) fn is_needed(batch: &Batch<'_>, tables: &LockedTables<'_>) -> bool {
    let largest = batch.commands.iter().map(|(_, command)| largest_bytes(command)).max();
    let refuses = |table: &Locked<'_>| table.refuses(largest.unwrap_or(0));
    tables.iter().flatten().any(refuses)
        || batch.commands.iter().any(|(_, command)| {
            matches!(
                command,
                Command::Concat { .. }
                    | Command::SetRange { .. }
                    | Command::SetBit { .. }
                    | Command::GetRange { .. }
                    | Command::BitCount { .. }
                    | Command::BitPosition { .. }
            )
        })
}

/// Bytes of the largest entry that a command may write, about, where they do not depend on the
/// lengths of values.
fn largest_bytes(command: &Command<'_>) -> u64 {
    let bytes = match command {
        Command::Set(set) => set.key.len() + set.value.len(),
        Command::SetMany { pairs, .. } => {
            pairs.iter().map(|(key, value)| key.len() + value.len()).max().unwrap_or(0)
        }
        Command::CompareValue { key, new, .. } => key.len() + new.map_or(0, <[u8]>::len),
        Command::Copy { .. } | Command::IncrementFloat { .. } => return u64::MAX,
        Command::Increment(increment) => increment.key.len(),
        Command::IncrementWord { key, .. }
        | Command::IncrementFraction { key, .. }
        | Command::Lease { key, .. } => key.len(),
        _ => return 0,
    };
    bytes as u64 + ENTRY_BYTES_BESIDE
}

/// Looks ahead. What is beyond the bound on work is not looked at to its end.
pub(crate) fn foresee(
    batch: &Batch<'_>,
    tables: &LockedTables<'_>,
    order: Order,
    context: Context,
) -> Foresight {
    let mut foreseen = Foreseen {
        tables,
        context,
        sizes: HashMap::with_capacity(batch.commands.len()),
        cleared: [false; DATABASES],
        foresight: Foresight { units: 0, growth: Default::default() },
    };
    let mut order = order;
    for (database, command) in batch.commands {
        if let Command::Swap { first, second } = *command {
            order = order.swapped(first, second).unwrap_or(order);
        }
        let Some(index) = order.index(*database) else { continue };
        if tables[index].is_some() {
            foreseen.command(index, order, command);
        }
        if foreseen.foresight.units > BATCH_UNITS_MAX {
            break;
        }
    }
    foreseen.foresight
}

struct Foreseen<'t, 'l, 'a> {
    tables: &'t LockedTables<'l>,
    context: Context,
    sizes: HashMap<(usize, &'a [u8]), Size>,
    /// Tables that the batch has cleared.
    cleared: [bool; DATABASES],
    foresight: Foresight,
}

/// A value that is written.
struct Written {
    length: usize,
    /// Whether it is written for certain.
    certain: bool,
    meta: Meta,
}

impl<'a> Foreseen<'_, '_, 'a> {
    fn command(&mut self, index: usize, order: Order, command: &Command<'a>) {
        match *command {
            Command::Set(ref set) => {
                let at = (index, set.key);
                let certain = set.condition == Condition::Always;
                let before = self.size(at).meta;
                let access = set.track_access.then(Default::default).or(before.access);
                let meta = self.meta(set.expires, Meta { flags: set.flags, access, ..before });
                self.write(at, Written { length: set.value.len(), certain, meta });
                self.expire(at, set.expires);
            }
            Command::SetMany { pairs, condition, expires } => {
                for (key, value) in pairs {
                    let certain = condition == Condition::Always;
                    let meta = self.meta(expires, Meta::default());
                    self.write((index, key), Written { length: value.len(), certain, meta });
                    self.expire((index, key), expires);
                }
            }
            Command::Concat { key, bytes, expires, .. } => {
                let length = self.size((index, key)).most_length.unwrap_or(0);
                self.change((index, key), length.saturating_add(bytes.len()), expires);
            }
            Command::SetRange { key, offset, bytes } if !bytes.is_empty() => {
                let offset = usize::try_from(offset).unwrap_or(usize::MAX);
                self.reach((index, key), offset.saturating_add(bytes.len()));
            }
            Command::SetBit { key, offset, .. } => {
                let byte = usize::try_from(offset / 8).unwrap_or(usize::MAX);
                self.reach((index, key), byte.saturating_add(1));
            }
            Command::Increment(ref increment) => {
                let expires = increment.initial.map_or(increment.expires, |(_, expires)| expires);
                self.count((index, increment.key), INTEGER_BYTES_MAX, expires);
            }
            Command::IncrementFloat { key, .. } => {
                self.count((index, key), NUMBER_BYTES_MAX, Expires::Keep);
            }
            Command::IncrementWord { key, expires, .. }
            | Command::IncrementFraction { key, expires, .. } => {
                self.count((index, key), INTEGER_BYTES_MAX, expires);
            }
            Command::CompareValue { key, new, expires, .. } => {
                let before = self.size((index, key)).meta;
                let meta = self.meta(expires, before);
                let length = new.map_or(0, <[u8]>::len);
                self.write((index, key), Written { length, certain: false, meta });
                self.remove((index, key));
            }
            Command::Lease { key, .. } => self.count((index, key), 0, Expires::At(u64::MAX)),
            Command::Copy { from, to, database, .. } => {
                if let Some(other) = database.map_or(Some(index), |number| order.index(number)) {
                    self.copy((index, from), (other, to));
                }
            }
            Command::Rename { from, to, .. } => {
                self.moved((index, from), (index, to));
            }
            Command::Move { key, database } => {
                if let Some(other) = order.index(database) {
                    self.moved((index, key), (other, key));
                }
            }
            Command::Delete { keys } => keys.iter().for_each(|key| self.remove((index, key))),
            Command::Take { key } | Command::DeleteIf { key, .. } => self.remove((index, key)),
            Command::Expire { key, expires, .. } | Command::GetAndExpire { key, expires } => {
                let size = self.size((index, key));
                let meta = self.meta(expires, size.meta);
                self.sizes.insert((index, key), Size { meta, ..size });
                self.expire((index, key), expires);
            }
            Command::GetRange { key, start, end } => {
                let length = self.size((index, key)).most_length.unwrap_or(0);
                // From the end it may be all of the value.
                let asked = match start >= 0 && end >= 0 {
                    true => end.saturating_sub(start).saturating_add(1).max(0),
                    false => i64::MAX,
                };
                let asked = usize::try_from(asked).unwrap_or(usize::MAX);
                self.foresight.units += work::copied(length.min(asked));
            }
            Command::BitCount { key, .. } | Command::BitPosition { key, .. } => {
                let length = self.size((index, key)).most_length.unwrap_or(0);
                self.foresight.units += work::looked_at(length);
            }
            Command::Clear { .. } => self.clear(index),
            Command::ClearAll { .. } => (0..DATABASES).for_each(|index| self.clear(index)),
            _ => {}
        }
    }

    fn size(&mut self, at: (usize, &'a [u8])) -> Size {
        if let Some(size) = self.sizes.get(&at) {
            return *size;
        }
        let (index, key) = at;
        let table = self.tables[index].as_ref().filter(|_| !self.cleared[index]);
        let size = table.and_then(|table| {
            table.read(key, self.context.now_ms, |entry| {
                entry.map(|entry| Size {
                    room_bytes: entry.bytes() as u64,
                    most_length: Some(entry.value().len()),
                    meta: entry.meta(),
                    copied_bytes: 0,
                })
            })
        });
        *self.sizes.entry(at).or_insert(size.unwrap_or(ABSENT))
    }

    /// What a record keeps at most that may or may not get another expiry.
    fn meta(&self, expires: Expires, before: Meta) -> Meta {
        match expires {
            Expires::At(at_ms) => Meta { expires_at_ms: Some(at_ms), ..before },
            Expires::Never | Expires::Keep => before,
        }
    }

    /// A record is written, or may be.
    fn write(&mut self, at: (usize, &'a [u8]), written: Written) {
        let Written { length, certain, meta } = written;
        let size = self.size(at);
        // The least that the entry can have is found without what it may keep.
        let least = entry_bytes(at.1.len(), length, &Meta::default());
        let room_bytes = self.set_aside(at, entry_bytes(at.1.len(), length, &meta), least);
        let most_length = match size.most_length {
            Some(old) if !certain => old.max(length),
            _ => length,
        };
        let most_length = Some(most_length);
        self.sizes.insert(at, Size { room_bytes, most_length, meta, copied_bytes: 0 });
    }

    /// Counts what an entry of so many bytes at most adds to what is set aside. Returns what is
    /// then, where the entry has `least` bytes.
    fn set_aside(&mut self, at: (usize, &'a [u8]), bytes: u64, least: u64) -> u64 {
        let room = self.size(at).room_bytes;
        let growth = &mut self.foresight.growth[at.0];
        growth.entries += u64::from(room == 0);
        growth.bytes += bytes.saturating_sub(room);
        growth.largest_bytes = growth.largest_bytes.max(bytes);
        if least >= room { bytes } else { least }
    }

    /// A value is changed within, or behind its end.
    fn change(&mut self, at: (usize, &'a [u8]), length: usize, expires: Expires) {
        if length > self.context.value_bytes_max {
            return;
        }
        let size = self.size(at);
        let old_length = size.most_length.unwrap_or(0);
        let mut copied_bytes = size.copied_bytes;
        if length > copied_bytes {
            // It moves to an allocation of its own, a quarter larger.
            self.foresight.units += work::copied(old_length);
            copied_bytes = grown(length);
        }
        let meta = self.meta(expires, size.meta);
        // Where its room was less, it has moved again.
        let bytes = grown_entry_bytes(at.1.len(), length, &meta);
        // It does not become smaller.
        let room_bytes = self.set_aside(at, bytes, size.room_bytes);
        let most_length = Some(old_length.max(length));
        self.sizes.insert(at, Size { room_bytes, most_length, meta, copied_bytes });
    }

    /// A value is changed up to this length, which it has then at least.
    fn reach(&mut self, at: (usize, &'a [u8]), end: usize) {
        let length = self.size(at).most_length.unwrap_or(0);
        if end <= self.context.value_bytes_max {
            self.change(at, end.max(length), Expires::Keep);
        }
    }

    /// A short value is written in place of what is there, or is not.
    fn count(&mut self, at: (usize, &'a [u8]), length: usize, expires: Expires) {
        let size = self.size(at);
        let meta = self.meta(expires, size.meta);
        self.write(at, Written { length, certain: false, meta });
        self.expire(at, expires);
    }

    fn copy(&mut self, from: (usize, &'a [u8]), to: (usize, &'a [u8])) {
        let source = self.size(from);
        let Some(length) = source.most_length else { return };
        // From now on the value has two owners: who changes it copies it.
        self.sizes.insert(from, Size { copied_bytes: 0, ..source });
        let target = self.size(to);
        // What a value has beyond its need counts for each entry that has it.
        let beside = grown_entry_bytes(to.1.len(), length, &source.meta);
        let bytes = beside.max(source.room_bytes + to.1.len() as u64 + ENTRY_BYTES_BESIDE);
        let room_bytes = self.set_aside(to, bytes, 1);
        let most_length = target.most_length.max(source.most_length);
        let meta = source.meta;
        self.sizes.insert(to, Size { room_bytes, most_length, meta, copied_bytes: 0 });
    }

    /// RENAME and MOVE need no room: see [`todana_table::Slot::put_moved`].
    fn moved(&mut self, from: (usize, &'a [u8]), to: (usize, &'a [u8])) {
        let (source, target) = (self.size(from), self.size(to));
        let most_length = source.most_length.max(target.most_length);
        let room_bytes = source.room_bytes.min(target.room_bytes);
        let meta = Meta {
            expires_at_ms: source.meta.expires_at_ms.or(target.meta.expires_at_ms),
            flags: source.meta.flags | target.meta.flags,
            access: source.meta.access.or(target.meta.access),
        };
        self.sizes.insert(to, Size { room_bytes, most_length, meta, copied_bytes: 0 });
        if from != to {
            self.remove(from);
        }
    }

    /// A record is removed, or may be.
    fn remove(&mut self, at: (usize, &'a [u8])) {
        let size = self.size(at);
        self.sizes.insert(at, Size { room_bytes: 0, copied_bytes: 0, ..size });
    }

    /// A record gets an expiry that has passed, and is removed by it.
    fn expire(&mut self, at: (usize, &'a [u8]), expires: Expires) {
        if let Expires::At(at_ms) = expires
            && is_past(Some(at_ms), self.context.now_ms)
        {
            self.remove(at);
        }
    }

    fn clear(&mut self, index: usize) {
        self.cleared[index] = true;
        self.sizes.retain(|(table, _), _| *table != index);
    }
}

/// The room that a value of this length has after it has grown.
fn grown(length: usize) -> usize {
    length.saturating_add(length / 4)
}
