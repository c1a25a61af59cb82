//! The sizes of records in the course of a transaction, as far as they can be known before it.

use crate::cost;
use crate::database_map::{DATABASES, DatabaseMap, LockedTables};
use crate::record::is_past;
use crate::{Context, Expires};
use std::collections::HashMap;
use todana_table::{
    BODY_BYTES_MIN, Growth, Keyspace, Meta, entry_bytes, grown_entry_bytes, shared_entry_bytes,
};

/// An upper bound of the bytes of an entry in addition to its key and its value.
const ENTRY_BYTES_BESIDE: u64 = 128;

/// From this length on, malloc maps new values, and zeroed pages cost nothing.
const MAPPED_BYTES_MIN: usize = 32 << 20;

/// The estimate for a transaction.
#[derive(Default)]
pub(crate) struct Foresight {
    /// Work that depends on the lengths of values.
    pub(crate) units: u64,
    /// The most that it adds to each table.
    pub(crate) growth: [Growth; DATABASES],
}

/// The estimated size of a key's record at some point of the transaction.
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

/// The room that a command may need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// None.
    Nothing,
    /// That of an entry whose key and value together have this number of bytes.
    Entry(usize),
    /// That of an entry of any size.
    Any,
    /// It follows from the lengths of the present values, and so does the work.
    ByLengths,
}

impl Room {
    /// An upper bound of the bytes of the entry, if that does not depend on present values.
    pub(crate) fn bytes(self) -> Option<u64> {
        match self {
            Room::Nothing => Some(0),
            Room::Entry(bytes) => Some(bytes as u64 + ENTRY_BYTES_BESIDE),
            Room::Any => Some(u64::MAX),
            Room::ByLengths => None,
        }
    }
}

/// The sizes of the records of a transaction at some point of it. The column `foresee` of a command
/// changes them, by the methods that take a key of the command's own database.
pub(crate) struct Sizes<'t, 'l, 'a> {
    tables: &'t LockedTables<'l>,
    /// The bit of each table's index: whether the table is durable.
    durable: u16,
    context: Context,
    /// The databases after the present command.
    pub(crate) map: DatabaseMap,
    /// The table of its database.
    pub(crate) index: usize,
    sizes: HashMap<(usize, &'a [u8]), Size>,
    /// Tables that the transaction has cleared.
    cleared: [bool; DATABASES],
    /// Tables with known sizes.
    known: [bool; DATABASES],
    foresight: Foresight,
}

/// A write of a value.
pub(crate) struct Written {
    /// The length of the value.
    pub(crate) length: usize,
    /// Whether the write certainly happens.
    pub(crate) certain: bool,
    /// The most metadata that the record may have.
    pub(crate) meta: Meta,
}

/// A change of a part of a value, or at its end.
pub(crate) struct Changed {
    /// The greatest length afterwards.
    pub(crate) most: usize,
    /// The least length afterwards.
    pub(crate) least: usize,
    /// The most bytes between the end and the written bytes.
    pub(crate) zeroes: usize,
    /// The expiry.
    pub(crate) expires: Expires,
}

impl<'t, 'l, 'a> Sizes<'t, 'l, 'a> {
    /// The sizes before a transaction of this number of commands. `durable` has a bit for each
    /// table.
    pub(crate) fn new(
        tables: &'t LockedTables<'l>,
        durable: u16,
        map: DatabaseMap,
        context: Context,
        commands: usize,
    ) -> Sizes<'t, 'l, 'a> {
        Sizes {
            tables,
            durable,
            context,
            map,
            index: 0,
            sizes: HashMap::with_capacity(commands),
            cleared: [false; DATABASES],
            known: [false; DATABASES],
            foresight: Foresight::default(),
        }
    }

    /// The estimate so far.
    pub(crate) fn foresight(&self) -> &Foresight {
        &self.foresight
    }

    /// The estimate.
    pub(crate) fn into_foresight(self) -> Foresight {
        self.foresight
    }

    /// The longest value that a command may build.
    pub(crate) fn value_bytes_max(&self) -> usize {
        self.context.value_bytes_max
    }

    /// The greatest length that the value of a key may have.
    pub(crate) fn most_length(&mut self, key: &'a [u8]) -> usize {
        self.here(key).most_length.unwrap_or(0)
    }

    /// The least length that it may have.
    pub(crate) fn least_length(&mut self, key: &'a [u8]) -> usize {
        self.here(key).least_length
    }

    /// The most metadata that the record of a key may have.
    pub(crate) fn present_meta(&mut self, key: &'a [u8]) -> Meta {
        self.here(key).meta
    }

    /// Counts work that depends on lengths.
    pub(crate) fn count(&mut self, units: u64) {
        self.foresight.units = self.foresight.units.saturating_add(units);
    }

    fn here(&mut self, key: &'a [u8]) -> Size {
        self.size((self.index, key))
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
                    most_length: Some(entry.stored().bytes().len()),
                    least_length: entry.stored().bytes().len(),
                    meta: entry.meta(),
                    copied_bytes: 0,
                })
            })
        });
        *self.sizes.entry(at).or_insert(size.unwrap_or(ABSENT))
    }

    /// The most metadata of a record whose expiry may or may not change.
    pub(crate) fn meta(&self, expires: Expires, before: Meta) -> Meta {
        match expires.resolve(None, self.context.now_ms) {
            Some(at_ms) => Meta { expires_at_ms: Some(at_ms), ..before },
            None => before,
        }
    }

    /// A command writes a record, or may write it.
    pub(crate) fn write(&mut self, key: &'a [u8], written: Written) {
        let Written { length, certain, meta } = written;
        let at = (self.index, key);
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
    pub(crate) fn lend(&mut self, key: &'a [u8]) {
        if let Some(size) = self.sizes.get_mut(&(self.index, key)) {
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
    pub(crate) fn change(&mut self, key: &'a [u8], changed: Changed) {
        let Changed { most, least, zeroes, expires } = changed;
        let at = (self.index, key);
        let size = self.size(at);
        let old_length = size.most_length.unwrap_or(0);
        let table = self.tables[at.0].as_ref();
        let (units, copied_bytes) = if most < BODY_BYTES_MIN {
            // A short value is always written completely.
            (cost::written(most), 0)
        } else if most <= size.copied_bytes {
            (cost::written(zeroes), size.copied_bytes)
        } else {
            // The value moves to its own allocation; one that was empty gets no spare room.
            let zeroes = if zeroes < MAPPED_BYTES_MIN { zeroes } else { 0 };
            let room = match size.least_length {
                0 => least,
                _ => table.map_or(0, |table| table.grown_length(least)),
            };
            (cost::copied(old_length) + cost::written(zeroes), room)
        };
        self.count(units);
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
    pub(crate) fn reach(&mut self, key: &'a [u8], offset: usize, count: usize) {
        let end = offset.saturating_add(count);
        if end > self.context.value_bytes_max {
            return;
        }
        let Size { most_length, least_length, .. } = self.here(key);
        let changed = Changed {
            most: end.max(most_length.unwrap_or(0)),
            least: end.max(least_length),
            zeroes: offset.saturating_sub(least_length),
            expires: Expires::Keep,
        };
        self.change(key, changed);
    }

    /// A command may replace the record by a short value.
    pub(crate) fn replace(&mut self, key: &'a [u8], length: usize, expires: Expires) {
        let present = self.present_meta(key);
        let meta = self.meta(expires, present);
        self.write(key, Written { length, certain: false, meta });
        self.expire(key, expires);
    }

    /// A command changes the expiry of a record.
    pub(crate) fn keep_until(&mut self, key: &'a [u8], expires: Expires) {
        let size = self.here(key);
        let meta = self.meta(expires, size.meta);
        self.sizes.insert((self.index, key), Size { meta, ..size });
        self.expire(key, expires);
    }

    /// A command copies a record, to another database if one is given.
    pub(crate) fn copy(&mut self, from: &'a [u8], to: &'a [u8], database: Option<usize>) {
        let Some(other) = database.map_or(Some(self.index), |number| self.map.index(number)) else {
            return;
        };
        let (from, to) = ((self.index, from), (other, to));
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

    /// RENAME and MOVE need no room: see [`todana_table::LockedKey::put_moved`].
    pub(crate) fn rename(&mut self, from: &'a [u8], to: &'a [u8], database: Option<usize>) {
        let Some(other) = database.map_or(Some(self.index), |number| self.map.index(number)) else {
            return;
        };
        let (from, to) = ((self.index, from), (other, to));
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
            self.remove(from.1);
        }
    }

    /// Afterwards there is no record.
    pub(crate) fn forget(&mut self, key: &'a [u8]) {
        self.sizes.insert((self.index, key), ABSENT);
    }

    /// A command removes a record, or may remove it.
    pub(crate) fn remove(&mut self, key: &'a [u8]) {
        let at = (self.index, key);
        let size = self.size(at);
        self.sizes.insert(at, Size { room_bytes: 0, least_length: 0, copied_bytes: 0, ..size });
    }

    /// A command sets an expiry in the past, which removes the record.
    pub(crate) fn expire(&mut self, key: &'a [u8], expires: Expires) {
        let now_ms = self.context.now_ms;
        if is_past(expires.resolve(None, now_ms), now_ms) {
            self.remove(key);
        }
    }

    /// A command clears its database.
    pub(crate) fn clear(&mut self) {
        self.clear_table(self.index);
    }

    /// A command clears all databases that are durable if its own is, or all that are not.
    pub(crate) fn clear_all(&mut self) {
        let is_durable = |durable: u16, index: usize| durable >> index & 1;
        let own = is_durable(self.durable, self.index);
        for index in 0..DATABASES {
            if is_durable(self.durable, index) == own {
                self.clear_table(index);
            }
        }
    }

    fn clear_table(&mut self, index: usize) {
        self.cleared[index] = true;
        if std::mem::take(&mut self.known[index]) {
            self.sizes.retain(|(table, _), _| *table != index);
        }
    }
}
