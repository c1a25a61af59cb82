//! Estimates, under the locks of a batch and before its first command, the bytes that it will copy
//! and the room that it needs.
//!
//! The estimate visits the commands in the order of execution. For each key it maintains the room
//! reserved for the entry and the greatest length that the value may have, because a command may
//! fail, or have a condition that does not hold. The estimate is therefore never too low. It is too
//! high only in these cases: memory that the batch itself frees by removals and by shorter values
//! does not count, a write counts even if its condition may not hold, and a value that grows counts
//! with the spare quarter that it gets.

use crate::databases::{DATABASES, DatabaseMap, Databases, LockedTables};
use crate::dump;
use crate::plan::Batch;
use crate::record::is_past;
use crate::sketch::DENSE_BYTES;
use crate::work::{self, BATCH_UNITS_MAX};
use crate::{Command, Condition, Context, Expires, Fields, Side};
use std::collections::HashMap;
use todana_table::{
    BODY_BYTES_MIN, Growth, Keyspace, Meta, entry_bytes, grown_entry_bytes, shared_entry_bytes,
};

/// Length of the longest text that INCRBYFLOAT stores; other counters are shorter.
const NUMBER_BYTES_MAX: usize = 5 * 1_024;
/// Digits and sign of an integer.
const INTEGER_BYTES_MAX: usize = 20;

/// An upper bound of the bytes of an entry in addition to its key and its value.
const ENTRY_BYTES_BESIDE: u64 = 128;

/// From this length on, malloc maps new values, and zeroed pages cost nothing.
const MAPPED_BYTES_MIN: usize = 32 << 20;

/// The estimate for a batch.
#[derive(Default)]
pub(crate) struct Foresight {
    /// Work that depends on the lengths of values.
    pub(crate) units: u64,
    /// The most that it adds to each table.
    pub(crate) growth: [Growth; DATABASES],
}

/// The estimated size of a key's record at some point of the batch.
#[derive(Clone, Copy)]
struct Size {
    /// Bytes of the existing entry, and the room reserved in addition. The least possible number if
    /// the entry may have become smaller, 0 if there may be none.
    room_bytes: u64,
    /// The greatest length of the value; `None` if there certainly is no record.
    most_length: Option<usize>,
    /// The least length of the value; 0 if there may be no record.
    least_length: usize,
    /// The most metadata that the entry may have.
    meta: Meta,
    /// Up to this length, the value is changed in its present allocation.
    copied_bytes: usize,
}

const ABSENT: Size = Size {
    room_bytes: 0,
    most_length: None,
    least_length: 0,
    meta: Meta { expires_at_ms: None, flags: 0, access: None },
    copied_bytes: 0,
};

/// The information needed to admit a command of a batch.
enum Unknown {
    /// Nothing.
    Nothing,
    /// Whether there is room for an entry of about this many bytes.
    Room(u64),
    /// The length of the present value.
    Length,
}

/// Whether the needs of a batch depend on the existing records.
pub(crate) fn is_needed(batch: &Batch<'_>, tables: &LockedTables<'_>) -> bool {
    let mut largest = 0;
    for (_, command) in batch.commands {
        match unknown(command) {
            Unknown::Nothing => {}
            Unknown::Room(bytes) => largest = largest.max(bytes),
            Unknown::Length => return true,
        }
    }
    tables.iter().flatten().any(|table| table.refuses(largest))
}

fn unknown(command: &Command<'_>) -> Unknown {
    let bytes = match command {
        Command::Concat { .. }
        | Command::SetRange { .. }
        | Command::SetBit { .. }
        | Command::GetRange { .. }
        | Command::BitCount { .. }
        | Command::BitPosition { .. }
        | Command::BitFields { .. }
        | Command::BitOperation { .. }
        | Command::Dump { .. } => return Unknown::Length,
        Command::AddToSketch { key, .. } => key.len() + DENSE_BYTES,
        Command::MergeSketches { keys } => keys.first().map_or(0, |key| key.len()) + DENSE_BYTES,
        Command::Restore { key, payload, .. } => key.len() + dump::value_length(payload),
        Command::Set(set) => set.key.len() + set.value.len(),
        Command::SetMany { pairs, .. } => {
            pairs.iter().map(|(key, value)| key.len() + value.len()).max().unwrap_or(0)
        }
        Command::CompareValue { key, new, .. } | Command::ReplaceIf { key, new, .. } => {
            key.len() + new.map_or(0, <[u8]>::len)
        }
        Command::Copy { .. } | Command::IncrementFloat { .. } => return Unknown::Room(u64::MAX),
        Command::Increment(increment) => increment.key.len(),
        Command::IncrementBinary { key, .. }
        | Command::IncrementFraction { key, .. }
        | Command::Lease { key, .. } => key.len(),
        // Its writes are admitted one by one.
        Command::Script(_)
        | Command::Get { .. }
        | Command::GetMany { .. }
        | Command::Length { .. }
        | Command::GetBit { .. }
        | Command::Lcs { .. }
        | Command::CountSketches { .. }
        | Command::StoreNothing { .. }
        | Command::Exists { .. }
        | Command::Expiry { .. }
        | Command::MemoryUsage { .. }
        | Command::Delete { .. }
        | Command::DeleteIf { .. }
        | Command::Invalidate { .. }
        | Command::Take { .. }
        | Command::GetAndExpire { .. }
        | Command::Expire { .. }
        | Command::NoteAccess { .. }
        | Command::Rename { .. }
        | Command::Move { .. }
        | Command::Count
        | Command::Scan { .. }
        | Command::Range { .. }
        | Command::Sweep { .. }
        | Command::Keys { .. }
        | Command::KeysOfSlot { .. }
        | Command::RandomKey { .. }
        | Command::Clear { .. }
        | Command::ClearAll { .. }
        | Command::Swap { .. } => return Unknown::Nothing,
    };
    Unknown::Room(bytes as u64 + ENTRY_BYTES_BESIDE)
}

/// Estimates a batch. Stops when the limit of work is exceeded.
pub(crate) fn foresee(
    batch: &Batch<'_>,
    databases: &Databases,
    tables: &LockedTables<'_>,
    map: DatabaseMap,
    context: Context,
) -> Foresight {
    let mut foreseen = Foreseen {
        databases,
        tables,
        context,
        sizes: HashMap::with_capacity(batch.commands.len()),
        cleared: [false; DATABASES],
        known: [false; DATABASES],
        foresight: Foresight::default(),
    };
    let mut map = map;
    for (database, command) in batch.commands {
        map = command.scope().map_after(map, databases);
        let Some(index) = map.index(*database) else { continue };
        if tables[index].is_some() {
            foreseen.command(index, map, command);
        }
        if foreseen.foresight.units > BATCH_UNITS_MAX {
            break;
        }
    }
    foreseen.foresight
}

struct Foreseen<'t, 'l, 'a> {
    databases: &'t Databases,
    tables: &'t LockedTables<'l>,
    context: Context,
    sizes: HashMap<(usize, &'a [u8]), Size>,
    /// Tables that the batch has cleared.
    cleared: [bool; DATABASES],
    /// Tables with known sizes.
    known: [bool; DATABASES],
    foresight: Foresight,
}

/// A write of a value.
struct Written {
    length: usize,
    /// Whether the write certainly happens.
    certain: bool,
    meta: Meta,
}

/// A change of a part of a value, or at its end.
struct Changed {
    /// The greatest and the least length afterwards.
    most: usize,
    least: usize,
    /// The most bytes between the end and the written bytes.
    zeroes: usize,
    expires: Expires,
}

impl<'a> Foreseen<'_, '_, 'a> {
    fn command(&mut self, index: usize, map: DatabaseMap, command: &Command<'a>) {
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
            Command::Concat { key, bytes, side, create, condition, expires } => {
                let Size { most_length, least_length, .. } = self.size((index, key));
                let max = self.context.value_bytes_max;
                let most = most_length.unwrap_or(0).saturating_add(bytes.len());
                let is_certain =
                    condition == Condition::Always && most <= max && (create || least_length > 0);
                let least = least_length + if is_certain { bytes.len() } else { 0 };
                // If it would be longer than the limit, it does not change.
                let most = most.min(max.max(most_length.unwrap_or(0)));
                self.change((index, key), Changed { most, least, zeroes: 0, expires });
                if side == Side::Prepend {
                    // The next change moves the whole value again.
                    self.lend((index, key));
                }
            }
            // Nothing is written.
            Command::SetRange { bytes: [], .. } => {}
            Command::SetRange { key, offset, bytes } => {
                let offset = usize::try_from(offset).unwrap_or(usize::MAX);
                self.reach((index, key), offset, bytes.len());
            }
            Command::SetBit { key, offset, .. } => {
                let byte = usize::try_from(offset / 8).unwrap_or(usize::MAX);
                self.reach((index, key), byte, 1);
            }
            Command::BitFields { key, words, writes } => {
                let fields = Fields::of(words, usize::MAX).unwrap_or_default();
                if writes && fields.length() > 0 {
                    // Read, and written again at most.
                    self.foresight.units += work::copied(fields.bytes());
                    self.reach((index, key), 0, fields.length());
                }
            }
            Command::AddToSketch { key, .. } => self.sketch((index, key)),
            Command::MergeSketches { keys } => {
                if let Some(key) = keys.first() {
                    self.sketch((index, key));
                }
            }
            Command::Restore { key, payload, expires, .. } => {
                let length = dump::value_length(payload);
                let meta = self.meta(expires, Meta::default());
                self.write((index, key), Written { length, certain: false, meta });
                self.remove((index, key));
            }
            Command::BitOperation { keys, .. } => self.combine(index, keys),
            Command::Dump { key } => {
                let length = self.size((index, key)).most_length.unwrap_or(0);
                self.foresight.units += work::dumped(length);
                self.lend((index, key));
            }
            Command::StoreNothing { keys } => self.remove((index, keys[1])),
            Command::Increment(ref increment) => {
                let expires = increment.initial.map_or(increment.expires, |(_, expires)| expires);
                self.count((index, increment.key), INTEGER_BYTES_MAX, expires);
            }
            Command::IncrementFloat { key, .. } => {
                self.count((index, key), NUMBER_BYTES_MAX, Expires::Keep);
            }
            Command::IncrementBinary { key, expires, .. }
            | Command::IncrementFraction { key, expires, .. } => {
                self.count((index, key), INTEGER_BYTES_MAX, expires);
            }
            Command::CompareValue { key, new, expires, .. }
            | Command::ReplaceIf { key, new, expires, .. } => {
                let before = self.size((index, key)).meta;
                let meta = self.meta(expires, before);
                let length = new.map_or(0, <[u8]>::len);
                self.write((index, key), Written { length, certain: false, meta });
                self.remove((index, key));
            }
            Command::Lease { key, .. } => self.count((index, key), 0, Expires::At(u64::MAX)),
            Command::Copy { from, to, database, .. } => {
                if let Some(other) = database.map_or(Some(index), |number| map.index(number)) {
                    self.copy((index, from), (other, to));
                }
            }
            Command::Rename { from, to, .. } => {
                self.moved((index, from), (index, to));
            }
            Command::Move { key, database } => {
                if let Some(other) = map.index(database) {
                    self.moved((index, key), (other, key));
                }
            }
            Command::Delete { keys } => keys.iter().for_each(|key| self.forget((index, key))),
            Command::Take { key } => self.forget((index, key)),
            Command::DeleteIf { key, .. } => self.remove((index, key)),
            Command::Get { key } => self.lend((index, key)),
            Command::GetMany { keys } => keys.iter().for_each(|key| self.lend((index, key))),
            Command::Expire { key, expires, .. } | Command::GetAndExpire { key, expires } => {
                if let Command::GetAndExpire { .. } = command {
                    self.lend((index, key));
                }
                let size = self.size((index, key));
                let meta = self.meta(expires, size.meta);
                self.sizes.insert((index, key), Size { meta, ..size });
                self.expire((index, key), expires);
            }
            Command::GetRange { key, start, end } => {
                let length = self.size((index, key)).most_length.unwrap_or(0);
                self.foresight.units += work::returned(length, start, end);
                self.lend((index, key));
            }
            Command::BitCount { key, .. } | Command::BitPosition { key, .. } => {
                let length = self.size((index, key)).most_length.unwrap_or(0);
                self.foresight.units += work::looked_at(length);
            }
            Command::Clear { .. } => self.clear(index),
            Command::ClearAll { .. } => {
                let alike = self.databases.alike(self.databases.is_durable_table(index));
                alike.for_each(|index| self.clear(index));
            }
            // Nobody knows what it writes. Its writes take room that was reserved for commands
            // behind it, so that one of these may be refused alone.
            Command::Script(_) => {}
            // They change no length and keep no value.
            Command::Length { .. }
            | Command::GetBit { .. }
            | Command::Lcs { .. }
            | Command::CountSketches { .. }
            | Command::Exists { .. }
            | Command::Expiry { .. }
            | Command::MemoryUsage { .. }
            | Command::Invalidate { .. }
            | Command::NoteAccess { .. }
            | Command::Count
            | Command::Scan { .. }
            | Command::Range { .. }
            | Command::Sweep { .. }
            | Command::Keys { .. }
            | Command::KeysOfSlot { .. }
            | Command::RandomKey { .. }
            | Command::Swap { .. } => {}
        }
    }

    fn size(&mut self, at: (usize, &'a [u8])) -> Size {
        if let Some(size) = self.sizes.get(&at) {
            return *size;
        }
        let (index, key) = at;
        self.known[index] = true;
        let table = self.tables[index].as_ref().filter(|_| !self.cleared[index]);
        let size = table.and_then(|table| {
            table.read(key, self.context.now_ms, |entry| {
                entry.map(|entry| Size {
                    room_bytes: entry.bytes() as u64,
                    most_length: Some(entry.value().len()),
                    least_length: entry.value().len(),
                    meta: entry.meta(),
                    copied_bytes: 0,
                })
            })
        });
        *self.sizes.entry(at).or_insert(size.unwrap_or(ABSENT))
    }

    /// The most metadata of a record whose expiry may or may not change.
    fn meta(&self, expires: Expires, before: Meta) -> Meta {
        match expires.resolve(None, self.context.now_ms) {
            Some(at_ms) => Meta { expires_at_ms: Some(at_ms), ..before },
            None => before,
        }
    }

    /// A command writes a record, or may write it.
    fn write(&mut self, at: (usize, &'a [u8]), written: Written) {
        let Written { length, certain, meta } = written;
        let size = self.size(at);
        // The least size of the entry excludes metadata that it may not have.
        let least = entry_bytes(at.1.len(), length, &Meta::default());
        let room_bytes = self.set_aside(at, entry_bytes(at.1.len(), length, &meta), least);
        let most_length = match size.most_length {
            Some(old) if !certain => old.max(length),
            _ => length,
        };
        let most_length = Some(most_length);
        let least_length = if certain { length } else { size.least_length.min(length) };
        let copied_bytes = 0;
        self.sizes.insert(at, Size { room_bytes, most_length, least_length, meta, copied_bytes });
    }

    /// A reply may keep the value, so that the next change has to copy it.
    fn lend(&mut self, at: (usize, &'a [u8])) {
        if let Some(size) = self.sizes.get_mut(&at) {
            size.copied_bytes = 0;
        }
    }

    /// Adds the room that an entry of at most this many bytes needs in addition to its reserved
    /// room. Returns the reserved room for an entry of at least `least` bytes.
    fn set_aside(&mut self, at: (usize, &'a [u8]), bytes: u64, least: u64) -> u64 {
        let room = self.size(at).room_bytes;
        let growth = &mut self.foresight.growth[at.0];
        growth.entries += u64::from(room == 0);
        growth.bytes += bytes.saturating_sub(room);
        growth.largest_bytes = growth.largest_bytes.max(bytes);
        if least >= room { bytes } else { least }
    }

    /// A command changes a part of a value, or appends to it.
    fn change(&mut self, at: (usize, &'a [u8]), changed: Changed) {
        let Changed { most, least, zeroes, expires } = changed;
        let size = self.size(at);
        let old_length = size.most_length.unwrap_or(0);
        let table = self.tables[at.0].as_ref();
        let (units, copied_bytes) = if most < BODY_BYTES_MIN {
            // A short value is always written completely.
            (work::written(most), 0)
        } else if most <= size.copied_bytes {
            (work::written(zeroes), size.copied_bytes)
        } else {
            // The value moves to its own allocation; one that was empty gets no spare room.
            let zeroes = if zeroes < MAPPED_BYTES_MIN { zeroes } else { 0 };
            let room = match size.least_length {
                0 => least,
                _ => table.map_or(0, |table| table.grown_length(least)),
            };
            (work::copied(old_length) + work::written(zeroes), room)
        };
        self.foresight.units = self.foresight.units.saturating_add(units);
        let meta = self.meta(expires, size.meta);
        // If its room was too small, it has moved again.
        let bytes = grown_entry_bytes(at.1.len(), most, &meta);
        // The value does not become shorter.
        let room_bytes = self.set_aside(at, bytes, size.room_bytes);
        let most_length = Some(old_length.max(most));
        let least_length = size.least_length.max(least);
        self.sizes.insert(at, Size { room_bytes, most_length, least_length, meta, copied_bytes });
    }

    /// A command writes bytes of a value, and zeroes between its end and these bytes.
    fn reach(&mut self, at: (usize, &'a [u8]), offset: usize, count: usize) {
        let end = offset.saturating_add(count);
        if end > self.context.value_bytes_max {
            return;
        }
        let Size { most_length, least_length, .. } = self.size(at);
        let changed = Changed {
            most: end.max(most_length.unwrap_or(0)),
            least: end.max(least_length),
            zeroes: offset.saturating_sub(least_length),
            expires: Expires::Keep,
        };
        self.change(at, changed);
    }

    /// A command may store a HyperLogLog.
    fn sketch(&mut self, at: (usize, &'a [u8])) {
        let meta = self.size(at).meta;
        self.write(at, Written { length: DENSE_BYTES, certain: false, meta });
    }

    /// BITOP reads values, and stores one that is as long as the longest, or removes the record.
    fn combine(&mut self, index: usize, keys: &[&'a [u8]]) {
        let Some((to, from)) = keys.split_first() else { return };
        let mut length = 0;
        for key in from {
            let most = self.size((index, key)).most_length.unwrap_or(0);
            self.foresight.units = self.foresight.units.saturating_add(work::looked_at(most));
            length = length.max(most);
        }
        self.foresight.units = self.foresight.units.saturating_add(work::copied(length));
        let meta = Meta::default();
        self.write((index, to), Written { length, certain: false, meta });
        self.remove((index, to));
    }

    /// A command may replace the record by a short value.
    fn count(&mut self, at: (usize, &'a [u8]), length: usize, expires: Expires) {
        let size = self.size(at);
        let meta = self.meta(expires, size.meta);
        self.write(at, Written { length, certain: false, meta });
        self.expire(at, expires);
    }

    fn copy(&mut self, from: (usize, &'a [u8]), to: (usize, &'a [u8])) {
        let source = self.size(from);
        let Some(length) = source.most_length else { return };
        // The value now has two owners, so that a change has to copy it.
        self.sizes.insert(from, Size { copied_bytes: 0, ..source });
        let target = self.size(to);
        // The spare room of a value, and what a lent one keeps, count for each entry with it.
        let beside = shared_entry_bytes(to.1.len(), length, &source.meta);
        let bytes = beside.max(source.room_bytes + to.1.len() as u64 + ENTRY_BYTES_BESIDE);
        let room_bytes = self.set_aside(to, bytes, 1);
        let most_length = target.most_length.max(source.most_length);
        let least_length = target.least_length.min(source.least_length);
        let (meta, copied_bytes) = (source.meta, 0);
        self.sizes.insert(to, Size { room_bytes, most_length, least_length, meta, copied_bytes });
    }

    /// RENAME and MOVE need no room: see [`todana_table::Slot::put_moved`].
    fn moved(&mut self, from: (usize, &'a [u8]), to: (usize, &'a [u8])) {
        let (source, target) = (self.size(from), self.size(to));
        let most_length = source.most_length.max(target.most_length);
        let least_length = source.least_length.min(target.least_length);
        // Room reserved for a longer key does not apply to this one.
        let least = entry_bytes(to.1.len(), source.least_length, &Meta::default());
        let room_bytes = source.room_bytes.min(target.room_bytes).min(least);
        let copied_bytes = 0;
        let meta = Meta {
            expires_at_ms: source.meta.expires_at_ms.or(target.meta.expires_at_ms),
            flags: source.meta.flags | target.meta.flags,
            access: source.meta.access.or(target.meta.access),
        };
        self.sizes.insert(to, Size { room_bytes, most_length, least_length, meta, copied_bytes });
        if from != to {
            self.remove(from);
        }
    }

    /// Afterwards there is no record.
    fn forget(&mut self, at: (usize, &'a [u8])) {
        self.sizes.insert(at, ABSENT);
    }

    /// A command removes a record, or may remove it.
    fn remove(&mut self, at: (usize, &'a [u8])) {
        let size = self.size(at);
        self.sizes.insert(at, Size { room_bytes: 0, least_length: 0, copied_bytes: 0, ..size });
    }

    /// A command sets an expiry in the past, which removes the record.
    fn expire(&mut self, at: (usize, &'a [u8]), expires: Expires) {
        let now_ms = self.context.now_ms;
        if is_past(expires.resolve(None, now_ms), now_ms) {
            self.remove(at);
        }
    }

    fn clear(&mut self, index: usize) {
        self.cleared[index] = true;
        if std::mem::take(&mut self.known[index]) {
            self.sizes.retain(|(table, _), _| *table != index);
        }
    }
}
