//! Commands on whole databases.

pub(crate) mod glob;
pub(crate) mod page;
pub(crate) mod range;
mod scan;
pub(crate) mod slices;

use crate::access::Access;
use crate::cause::Names;
use crate::cost::{Reads, TABLE_UNITS};
use crate::database::page::Collection;
use crate::family::{Brings, Kinds, commands};
use crate::scope::{Across, Scope};
use crate::sizes::Room;
use crate::{Error, Reply};
use todana_table::{KeyRange, Walk};

/// The answer of a command that only a transaction executes, because it concerns more than a table.
fn across<R: Reply>(reply: &mut R) {
    reply.error(Error::NoSuchDatabase);
}

commands! {
    /// Commands on whole databases.
    DatabaseCommand<'a> {
        /// Number of records. Reply: `integer`.
        29 Count => {
            format: 1,
            keys: Scope::Database,
            access: Access::Walk,
            removes: false,
            events: Names::NONE,
            reads: Reads::Nothing,
            kinds: Kinds::All,
            brings: Brings::Nothing,
            units: |_| TABLE_UNITS,
            room: Room::Nothing,
            foresee: |_| {},
            slices: [never],
            alone: [by_keys],
            run: |space, context, reply| scan::count(space, context.now_ms, reply),
        }

        /// A page of keys. Visits `count` records, but at most 4,096, and the rest of a shard.
        /// Reply: `page(next cursor, n)`, then n times `key` (or `record` with `values`).
        30 Scan { cursor: u64, count: usize, pattern: Option<&'a [u8]>, values: bool } => {
            format: 1,
            keys: Scope::Database,
            access: Access::Walk,
            removes: false,
            events: Names::NONE,
            reads: Reads::Nothing,
            kinds: if values { Kinds::LeavesOut } else { Kinds::All },
            brings: Brings::Nothing,
            units: |table| {
                // It visits whole shards.
                let records = count.min(scan::RECORDS_MAX) as u64;
                table.visits(records.saturating_add(table.in_shard()))
            },
            room: Room::Nothing,
            foresee: |_| {},
            slices: [if true => |slice, stage| {
                let count = count.min(scan::RECORDS_MAX);
                let begin = || Collection::new(cursor, count, pattern, values);
                slice.collect(begin, slices::Collected::Page, stage)
            }],
            alone: [by_keys],
            run: |space, context, reply| {
                scan::scan(space, cursor, count, pattern, values, context.now_ms, reply);
            },
        }

        /// All keys that match. Reply: `list(n)`, then n times `key`.
        31 Keys { pattern: &'a [u8] } => {
            format: 1,
            keys: Scope::Database,
            access: Access::Walk,
            removes: false,
            events: Names::NONE,
            reads: Reads::Nothing,
            kinds: Kinds::All,
            brings: Brings::Nothing,
            units: |table| table.visits(u64::MAX),
            room: Room::Nothing,
            foresee: |_| {},
            slices: [if true => |slice, stage| {
                slice.collect(|| Collection::of_all(pattern), slices::Collected::Keys, stage)
            }],
            alone: [by_keys],
            run: |space, context, reply| {
                scan::keys(space, Collection::of_all(pattern), context.now_ms, reply);
            },
        }

        /// A random key, chosen by the seed. Reply: `key` or `none`.
        32 RandomKey { seed: u64 } => {
            format: 1,
            keys: Scope::Database,
            access: Access::Walk,
            removes: false,
            events: Names::NONE,
            reads: Reads::Nothing,
            kinds: Kinds::All,
            brings: Brings::Nothing,
            // It picks shards at random until it finds one that is not empty.
            units: |_| TABLE_UNITS,
            room: Room::Nothing,
            foresee: |_| {},
            slices: [never],
            alone: [by_keys],
            run: |space, context, reply| scan::random_key(space, seed, context.now_ms, reply),
        }

        /// Removes all records, at once or at the later time `at_ms`. Reply: `done`.
        33 Clear { at_ms: Option<u64> } => {
            format: 1,
            keys: Scope::Databases(Across::Clear { at_ms }),
            access: Access::Write,
            removes: true,
            events: Names::PLAIN,
            reads: Reads::Nothing,
            kinds: Kinds::All,
            brings: Brings::Nothing,
            // `units_of` adds those for the shards, because it knows whether a table is empty.
            units: |_| 1,
            room: Room::Nothing,
            foresee: |sizes| sizes.clear(),
            slices: [never],
            alone: [by_keys],
            run: |_, _, reply| across(reply),
        }

        /// Clears all databases that are durable if this one is, or all that are not. Reply:
        /// `done`.
        34 ClearAll { at_ms: Option<u64> } => {
            format: 1,
            keys: Scope::Databases(Across::ClearAll { at_ms }),
            access: Access::Write,
            removes: true,
            events: Names::PLAIN,
            reads: Reads::Nothing,
            kinds: Kinds::All,
            brings: Brings::Nothing,
            // As those of `Clear`.
            units: |_| 1,
            room: Room::Nothing,
            foresee: |sizes| sizes.clear_all(),
            slices: [never],
            alone: [by_keys],
            run: |_, _, reply| across(reply),
        }

        /// Exchanges two databases. Reply: `done`, or `error(DifferentDurability)`.
        35 Swap { first: usize, second: usize } => {
            format: 1,
            keys: Scope::Databases(Across::Swap { first, second }),
            access: Access::Write,
            removes: false,
            events: Names::PLAIN,
            reads: Reads::Nothing,
            kinds: Kinds::All,
            brings: Brings::Nothing,
            units: |_| 1,
            room: Room::Nothing,
            foresee: |_| {},
            slices: [never],
            alone: [by_keys],
            run: |_, _, reply| across(reply),
        }

        /// A step of a walk over the database in order. The step may end before `count` if it holds
        /// many bytes, or has skipped thousands of keys (because they have expired, or a prefix is
        /// not found at once). In a transaction it ends after a thousand skipped keys, with
        /// `error(TooManyKeys)` if it found none before. Reply: `slice(key after which to continue,
        /// n)`, then n times `key` (or `record` with `values`); `error(NotOrdered)`.
        40 Range {
            keys: KeyRange<'a>,
            after: Option<&'a [u8]>,
            reverse: bool,
            // 0 counts as 1.
            count: usize,
            values: bool,
        } => {
            format: 1,
            keys: Scope::Database,
            access: Access::Walk,
            removes: false,
            events: Names::NONE,
            reads: Reads::Nothing,
            kinds: if values { Kinds::LeavesOut } else { Kinds::All },
            brings: Brings::Nothing,
            units: |table| {
                let records = (count as u64).saturating_mul(2);
                table.visits(records.saturating_add(range::TRANSACTION_SPARE_KEYS))
            },
            room: Room::Nothing,
            foresee: |_| {},
            slices: [if true => |slice, stage| {
                slice.walk(&Walk { keys, after, reverse, count: count.max(1) }, values, stage)
            }],
            alone: [by_keys],
            run: |space, context, reply| {
                let walk = Walk { keys, after, reverse, count };
                range::range(space, &walk, values, context.now_ms, reply);
            },
        }

        /// Removes about `work_max` expired records at most: see [`todana_table::Table::sweep`].
        /// Only the counts change visibly. Reply: `flag` (whether more may be due).
        41 Sweep { work_max: usize } => {
            format: 1,
            keys: Scope::Expired { work_max },
            access: Access::Sweep,
            removes: true,
            events: Names::PLAIN,
            reads: Reads::Nothing,
            kinds: Kinds::All,
            brings: Brings::Nothing,
            units: |_| 1,
            room: Room::Nothing,
            foresee: |_| {},
            slices: [never],
            alone: [by_keys],
            // A locked table is not swept; see `execute_in`.
            run: |_, _, reply| reply.flag(false),
        }

        /// Keys of a hash slot, at most `count`. Reply: `list(n)`, then n times `key`.
        42 KeysOfSlot { slot: u16, count: usize } => {
            format: 2,
            keys: Scope::Database,
            access: Access::Walk,
            removes: false,
            events: Names::NONE,
            reads: Reads::Nothing,
            kinds: Kinds::All,
            brings: Brings::Nothing,
            units: |table| table.visits(u64::MAX),
            room: Room::Nothing,
            foresee: |_| {},
            slices: [if true => |slice, stage| {
                slice.collect(|| Collection::of_slot(slot, count), slices::Collected::Keys, stage)
            }],
            alone: [by_keys],
            run: |space, context, reply| {
                scan::keys(space, Collection::of_slot(slot, count), context.now_ms, reply);
            },
        }
    }
}
