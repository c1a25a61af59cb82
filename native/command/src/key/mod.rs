//! Commands on keys, whatever their values are: existence, removal, names, expiry, copies, dumps.

pub(crate) mod arguments;
mod crc64;
pub(crate) mod dump;
pub(crate) mod expiry;
mod lzf;
pub(crate) mod records;
mod slices;

use crate::access::Access;
use crate::cause::Names;
use crate::cost::{Reads, dumped};
use crate::family::{Brings, Kinds, commands};
use crate::key::records::{Counted, Transfer};
use crate::scope::{Across, Keys, Scope};
use crate::sizes::{Room, Written};
use crate::slice::STEP_KEYS_MAX;
use crate::{Condition, Error, ExpireWhen, Expires};
use todana_table::Meta;

commands! {
    /// Commands on keys, whatever their values are.
    KeyCommand<'a> {
        /// How many of these keys exist; repeated keys count again. Reply: `integer`.
        8 Exists { keys: &'a [&'a [u8]] } => {
            format: 1,
            keys: Scope::of(keys),
            access: Access::of_reading(keys),
            removes: false,
            events: Names::NONE,
            reads: Reads::Nothing,
            kinds: Kinds::All,
            brings: Brings::Nothing,
            units: |_| keys.len() as u64,
            room: Room::Nothing,
            foresee: |_| {},
            slices: [if keys.len() > STEP_KEYS_MAX => |slice, stage| {
                slice.count(Counted::Existing, keys, stage)
            }],
            alone: [by_keys],
            run: |space, context, reply| {
                records::count(space, Counted::Existing, keys, context.now_ms, reply);
            },
        }

        /// The expiry of the record. Reply: `expiry`, or `none` without a record.
        9 Expiry { key: &'a [u8] } => {
            format: 1,
            keys: Scope::Key(key),
            access: Access::Read,
            removes: false,
            events: Names::NONE,
            reads: Reads::Nothing,
            kinds: Kinds::All,
            brings: Brings::Nothing,
            units: |_| 1,
            room: Room::Nothing,
            foresee: |_| {},
            slices: [never],
            alone: [by_keys],
            run: |space, context, reply| expiry::expiry(space, key, context.now_ms, reply),
        }

        /// Bytes that the record occupies in the table. Reply: `integer`, or `none`.
        10 MemoryUsage { key: &'a [u8] } => {
            format: 1,
            keys: Scope::Key(key),
            access: Access::Read,
            removes: false,
            events: Names::NONE,
            reads: Reads::Nothing,
            kinds: Kinds::All,
            brings: Brings::Nothing,
            units: |_| 1,
            room: Room::Nothing,
            foresee: |_| {},
            slices: [never],
            alone: [by_keys],
            run: |space, context, reply| records::memory_usage(space, key, context.now_ms, reply),
        }

        /// Removes keys. Reply: `integer` (how many existed).
        18 Delete { keys: &'a [&'a [u8]] } => {
            format: 1,
            keys: Scope::of(keys),
            access: Access::Write,
            removes: true,
            events: Names::PLAIN,
            reads: Reads::Nothing,
            kinds: Kinds::All,
            brings: Brings::Nothing,
            units: |_| 2 * keys.len() as u64,
            room: Room::Nothing,
            foresee: |sizes| keys.iter().for_each(|key| sizes.forget(key)),
            slices: [if keys.len() > STEP_KEYS_MAX => |slice, stage| {
                slice.count(Counted::Removed, keys, stage)
            }],
            alone: [by_keys],
            run: |space, context, reply| {
                records::count(space, Counted::Removed, keys, context.now_ms, reply);
            },
        }

        /// Removes one key under a condition. Reply: `done`, or `refused`.
        19 DeleteIf { key: &'a [u8], condition: Condition } => {
            format: 1,
            keys: Scope::Key(key),
            access: Access::Write,
            removes: true,
            events: Names::PLAIN,
            reads: Reads::Nothing,
            kinds: Kinds::All,
            brings: Brings::Nothing,
            units: |_| 1,
            room: Room::Nothing,
            foresee: |sizes| sizes.remove(key),
            slices: [never],
            alone: [by_keys],
            run: |space, context, reply| {
                records::delete_if(space, key, condition, context.now_ms, reply);
            },
        }

        /// Changes the expiry. Reply: `flag`.
        23 Expire { key: &'a [u8], expires: Expires, when: ExpireWhen } => {
            format: 1,
            keys: Scope::Key(key),
            access: Access::Write,
            removes: false,
            events: Names::expiring(expires),
            reads: Reads::Nothing,
            kinds: Kinds::All,
            brings: Brings::Nothing,
            units: |_| 1,
            room: Room::Nothing,
            foresee: |sizes| sizes.keep_until(key, expires),
            slices: [never],
            alone: [by_keys],
            run: |space, context, reply| {
                expiry::expire(space, key, expires, when, context.now_ms, reply);
            },
        }

        /// Counts existing keys and records an access to each (Redis' TOUCH). Reply: `integer`.
        24 NoteAccess { keys: &'a [&'a [u8]] } => {
            format: 1,
            keys: Scope::of(keys),
            access: Access::of_reading(keys),
            removes: false,
            events: Names::NONE,
            reads: Reads::Nothing,
            kinds: Kinds::All,
            brings: Brings::Nothing,
            units: |_| keys.len() as u64,
            room: Room::Nothing,
            foresee: |_| {},
            slices: [if keys.len() > STEP_KEYS_MAX => |slice, stage| {
                slice.count(Counted::Touched, keys, stage)
            }],
            alone: [by_keys],
            run: |space, context, reply| {
                records::count(space, Counted::Touched, keys, context.now_ms, reply);
            },
        }

        /// Renames. Reply: `done`, `refused(Present)` with `if_absent`, or `refused(Absent)`
        /// without a source.
        26 Rename { from: &'a [u8], to: &'a [u8], if_absent: bool } => {
            format: 1,
            keys: Scope::Keys(Keys::Two([from, to])),
            access: Access::Write,
            removes: false,
            events: Names::RENAME,
            reads: Reads::Nothing,
            kinds: Kinds::All,
            brings: Brings::Nothing,
            units: |_| 3,
            room: Room::Nothing,
            foresee: |sizes| sizes.rename(from, to, None),
            slices: [never],
            alone: [by_keys],
            run: |space, context, reply| {
                records::rename(space, from, to, if_absent, context.now_ms, reply);
            },
        }

        /// Copies a record, optionally to another database. Reply: `flag`, or
        /// `error(DifferentDurability)`.
        27 Copy { from: &'a [u8], to: &'a [u8], database: Option<usize>, replace: bool } => {
            format: 1,
            keys: match database {
                None => Scope::Keys(Keys::Two([from, to])),
                Some(database) => {
                    let transfer = Transfer { from, to, keep: true, replace };
                    Scope::Databases(Across::Transfer(transfer, database))
                }
            },
            access: Access::Write,
            removes: false,
            events: Names::COPY,
            reads: Reads::Nothing,
            kinds: Kinds::All,
            brings: Brings::Nothing,
            units: |_| 3,
            room: Room::Any,
            foresee: |sizes| sizes.copy(from, to, database),
            slices: [never],
            alone: [by_keys],
            run: |space, context, reply| match database {
                None => records::copy(space, from, to, replace, context.now_ms, reply),
                // A transaction copies across databases.
                Some(_) => reply.error(Error::NoSuchDatabase),
            },
        }

        /// Moves a record to another database. Reply: `flag`, or `error(DifferentDurability)`.
        28 Move { key: &'a [u8], database: usize } => {
            format: 1,
            keys: {
                let transfer = Transfer { from: key, to: key, keep: false, replace: false };
                Scope::Databases(Across::Transfer(transfer, database))
            },
            access: Access::Write,
            removes: false,
            events: Names::MOVE,
            reads: Reads::Nothing,
            kinds: Kinds::All,
            brings: Brings::Nothing,
            units: |_| 3,
            room: Room::Nothing,
            foresee: |sizes| sizes.rename(key, key, Some(database)),
            slices: [never],
            alone: [by_keys],
            run: |_, _, reply| {
                // A transaction moves across databases.
                reply.error(Error::NoSuchDatabase);
            },
        }

        /// The value in the form of Redis' DUMP. Reply: `bytes`, or `none`.
        55 Dump { key: &'a [u8] } => {
            format: 3,
            keys: Scope::Key(key),
            access: Access::Walk,
            removes: false,
            events: Names::NONE,
            reads: Reads::Dumped,
            kinds: Kinds::Strings,
            brings: Brings::Nothing,
            units: |_| 1,
            room: Room::ByLengths,
            foresee: |sizes| {
                let length = sizes.most_length(key);
                sizes.count(dumped(length));
                sizes.lend(key);
            },
            slices: [if true => |slice, stage| slice.dump(key, stage)],
            alone: [by_keys],
            run: |space, context, reply| dump::dump(space, key, context.now_ms, reply),
        }

        /// Stores the value of a payload of DUMP. Reply: `done`, `refused(Present)` unless
        /// `replace`, or `error(BadPayload)`, `error(BadFormat)`, `error(OtherType)`,
        /// `error(ValueTooLarge)`.
        56 Restore { key: &'a [u8], payload: &'a [u8], expires: Expires, replace: bool } => {
            format: 3,
            keys: Scope::Key(key),
            access: Access::Write,
            removes: false,
            events: Names::RESTORE,
            reads: Reads::Nothing,
            kinds: Kinds::All,
            brings: Brings::Part(0),
            units: |_| 1 + dumped(payload.len().max(dump::value_length(payload))),
            room: Room::Entry(key.len() + dump::value_length(payload)),
            foresee: |sizes| {
                let length = dump::value_length(payload);
                let meta = sizes.meta(expires, Meta::default());
                sizes.write(key, Written { length, certain: false, meta });
                sizes.remove(key);
            },
            slices: [if slices::restores_long(payload) => |slice, stage| {
                slice.restore(&dump::Restored { key, payload, expires, replace }, stage)
            }],
            alone: [by_keys],
            run: |space, context, reply| {
                let restored = dump::Restored { key, payload, expires, replace };
                dump::restore(space, &restored, context, reply);
            },
        }

        /// Removes the second key, provided that there is no record of the first: SORT with STORE,
        /// since there are no lists to be sorted. Reply: `integer` (0), or `refused(Present)`.
        57 StoreNothing { keys: [&'a [u8]; 2] } => {
            format: 3,
            keys: Scope::Keys(Keys::Two(keys)),
            access: Access::Write,
            removes: true,
            events: Names::PLAIN,
            reads: Reads::Nothing,
            kinds: Kinds::All,
            brings: Brings::Nothing,
            units: |_| 3,
            room: Room::Nothing,
            foresee: |sizes| sizes.remove(keys[1]),
            slices: [never],
            alone: [by_keys],
            run: |space, context, reply| {
                let [key, to] = keys;
                records::store_nothing(space, key, to, context.now_ms, reply);
            },
        }

        /// What the record is, without its value. Reply: `description` or `none`.
        58 Describe { key: &'a [u8] } => {
            format: 6,
            keys: Scope::Key(key),
            access: Access::Read,
            removes: false,
            events: Names::NONE,
            reads: Reads::Nothing,
            kinds: Kinds::All,
            brings: Brings::Nothing,
            units: |_| 1,
            room: Room::Nothing,
            foresee: |_| {},
            slices: [never],
            alone: [by_keys],
            run: |space, context, reply| records::describe(space, key, context.now_ms, reply),
        }
    }
}
