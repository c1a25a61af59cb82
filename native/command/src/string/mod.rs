//! Commands on strings: values as bytes, as numbers, and under conditions.

pub(crate) mod arguments;
pub(crate) mod compare;
pub(crate) mod counters;
pub(crate) mod digits;
pub(crate) mod float;
pub(crate) mod lcs;
pub(crate) mod numbers;
pub(crate) mod pairs;
mod sizes;
mod slices;
pub(crate) mod text;

use crate::access::Access;
use crate::cause::Names;
use crate::cost::{PAIR_UNITS, Reads, copied, returned};
use crate::family::{Brings, Kinds, commands};
use crate::key::expiry;
use crate::scope::{Keys, Scope};
use crate::sizes::Room;
use crate::{Condition, Expires, Increment, LcsWant, Origin, Set, Side};

/// The units of LCS, whose values have a limit of their own in a transaction.
const LCS_UNITS: u64 = 256;
/// Length of the longest text that INCRBYFLOAT stores; other counters are shorter.
const NUMBER_BYTES_MAX: usize = 5 * 1_024;
/// Digits and sign of an integer.
const INTEGER_BYTES_MAX: usize = 20;

fn length(value: Option<&[u8]>) -> usize {
    value.map_or(0, <[u8]>::len)
}

commands! {
    /// Commands on strings.
    StringCommand<'a> {
        /// The record of a key. Reply: `record` or `none`.
        0 Get { key: &'a [u8] } => {
            format: 1,
            keys: Scope::Key(key),
            access: Access::Read,
            removes: false,
            events: Names::NONE,
            reads: Reads::Returned,
            kinds: Kinds::Strings,
            brings: Brings::Nothing,
            units: |_| 1,
            room: Room::Nothing,
            foresee: |sizes| sizes.lend(key),
            slices: [never],
            alone: [by_keys],
            run: |space, context, reply| text::get(space, key, context.now_ms, reply),
        }

        /// The records of several keys, in order, all of the same moment. Reply: `list(n)`, then
        /// `record` or `none` for each.
        1 GetMany { keys: &'a [&'a [u8]] } => {
            format: 1,
            keys: Scope::of(keys),
            access: Access::of_reading(keys),
            removes: false,
            events: Names::NONE,
            reads: Reads::Returned,
            kinds: Kinds::LeavesOut,
            brings: Brings::Nothing,
            units: |_| keys.len() as u64,
            room: Room::Nothing,
            foresee: |sizes| keys.iter().for_each(|key| sizes.lend(key)),
            slices: [if keys.len() > 1 => |slice, stage| slice.fetch(keys, stage)],
            // A single key is read without a lock.
            alone: [|target, context, reply| match keys {
                [_] => text::get_many(target, keys, context.now_ms, reply),
                _ => text::get_at_once(target, keys, context.now_ms, reply),
            }],
            run: |space, context, reply| text::get_many(space, keys, context.now_ms, reply),
        }

        /// Length of the value in bytes, 0 without a record. Reply: `integer`.
        2 Length { key: &'a [u8] } => {
            format: 1,
            keys: Scope::Key(key),
            access: Access::Read,
            removes: false,
            events: Names::NONE,
            reads: Reads::Nothing,
            kinds: Kinds::Strings,
            brings: Brings::Nothing,
            units: |_| 1,
            room: Room::Nothing,
            foresee: |_| {},
            slices: [never],
            alone: [by_keys],
            run: |space, context, reply| text::length(space, key, context.now_ms, reply),
        }

        /// Part of the value, by Redis' inclusive and possibly negative offsets. Reply: `bytes`
        /// (empty without a record).
        3 GetRange { key: &'a [u8], start: i64, end: i64 } => {
            format: 1,
            keys: Scope::Key(key),
            access: Access::Read,
            removes: false,
            events: Names::NONE,
            reads: Reads::Part { start, end },
            kinds: Kinds::Strings,
            brings: Brings::Nothing,
            units: |_| 1,
            room: Room::ByLengths,
            foresee: |sizes| {
                let length = sizes.most_length(key);
                sizes.count(returned(length, start, end));
                sizes.lend(key);
            },
            slices: [never],
            alone: [by_keys],
            run: |space, context, reply| {
                text::get_range(space, key, start, end, context.now_ms, reply);
            },
        }

        /// Longest common subsequence of two values (Redis' LCS). The product of their lengths is
        /// at most 2^25, which takes up to ten milliseconds; in a transaction 2^18. Reply: `bytes`,
        /// `integer`, `matches`, or `error(ValueTooLarge)`.
        7 Lcs { keys: [&'a [u8]; 2], want: LcsWant } => {
            format: 1,
            keys: Scope::Keys(Keys::Two(keys)),
            // It reads whole values.
            access: Access::Walk,
            removes: false,
            events: Names::NONE,
            reads: Reads::Returned,
            kinds: Kinds::Strings,
            brings: Brings::Nothing,
            units: |_| LCS_UNITS,
            room: Room::Nothing,
            foresee: |_| {},
            slices: [never],
            alone: [|target, context, reply| lcs::alone(target, keys, want, context.now_ms, reply)],
            run: |space, context, reply| {
                lcs::in_transaction(space, keys, want, context.now_ms, reply);
            },
        }

        /// Stores a value. Reply: `stored(version)`, or `refused`; with `return_old`, the old
        /// `record` or `none` instead (`refused` follows Redis' `SET .. GET`: the old record is the
        /// reply in either case).
        12 Set(set: Set<'a>) => {
            format: 1,
            keys: Scope::Key(set.key),
            access: Access::Write,
            removes: false,
            events: Names::stored(set.expires),
            reads: if set.return_old { Reads::Returned } else { Reads::Nothing },
            kinds: if set.return_old { Kinds::Strings } else { Kinds::All },
            brings: Brings::Values(set.value.len()),
            units: |_| 1 + copied(set.value.len()),
            room: Room::Entry(set.key.len() + set.value.len()),
            foresee: |sizes| sizes::set(sizes, set),
            slices: [if set.value.len() >= slices::COPIED_BYTES =>
                |slice, stage| slice.set(set, stage)],
            alone: [by_keys],
            run: |space, context, reply| text::set(space, set, context.now_ms, reply),
        }

        /// Overwrites part of the value, zero-padded (Redis' SETRANGE). Reply: `integer` (new
        /// length).
        14 SetRange { key: &'a [u8], offset: u64, bytes: &'a [u8] } => {
            format: 1,
            keys: Scope::Key(key),
            access: Access::Write,
            removes: false,
            events: Names::SET_RANGE,
            reads: Reads::Changed { zeroes_until: offset },
            kinds: Kinds::Strings,
            brings: Brings::Part(bytes.len()),
            units: |_| 1 + copied(bytes.len()),
            room: Room::ByLengths,
            foresee: |sizes| {
                // Without bytes, nothing is written.
                if !bytes.is_empty() {
                    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
                    sizes.reach(key, offset, bytes.len());
                }
            },
            slices: [never],
            alone: [by_keys],
            run: |space, context, reply| {
                text::set_range(space, key, offset, bytes, context, reply);
            },
        }

        /// Adds to a decimal number; every protocol's increment and decrement. Reply: `number`,
        /// `refused(Absent)` without a record and `initial`, or `error`.
        16 Increment(increment: Increment<'a>) => {
            format: 1,
            keys: Scope::Key(increment.key),
            access: Access::Write,
            removes: false,
            events: Names::INCREMENT,
            reads: Reads::Nothing,
            kinds: Kinds::Strings,
            brings: Brings::Nothing,
            units: |_| 1,
            room: Room::Entry(increment.key.len()),
            foresee: |sizes| {
                let expires = increment.initial.map_or(increment.expires, |(_, expires)| expires);
                sizes.replace(increment.key, INTEGER_BYTES_MAX, expires);
            },
            slices: [never],
            alone: [by_keys],
            run: |space, context, reply| {
                numbers::increment(space, increment, context.now_ms, reply);
            },
        }

        /// Adds to a decimal fraction in x87 arithmetic (Redis' INCRBYFLOAT). Reply: `bytes` (the
        /// new text).
        17 IncrementFloat { key: &'a [u8], delta: &'a [u8] } => {
            format: 1,
            keys: Scope::Key(key),
            access: Access::Write,
            removes: false,
            events: Names::INCREMENT_FLOAT,
            reads: Reads::Nothing,
            kinds: Kinds::Strings,
            brings: Brings::Nothing,
            units: |_| 1,
            room: Room::Any,
            foresee: |sizes| sizes.replace(key, NUMBER_BYTES_MAX, Expires::Keep),
            slices: [never],
            alone: [by_keys],
            run: |space, context, reply| {
                numbers::increment_float(space, key, delta, context.now_ms, reply);
            },
        }

        /// Removes the record and returns it. Reply: `record` or `none`.
        21 Take { key: &'a [u8] } => {
            format: 1,
            keys: Scope::Key(key),
            access: Access::Write,
            removes: true,
            events: Names::PLAIN,
            reads: Reads::Returned,
            kinds: Kinds::Strings,
            brings: Brings::Nothing,
            units: |_| 2,
            room: Room::Nothing,
            foresee: |sizes| sizes.forget(key),
            slices: [never],
            alone: [by_keys],
            run: |space, context, reply| text::take(space, key, context.now_ms, reply),
        }

        /// Returns the record and changes its expiry (GETEX, gat). Reply: `record` or `none`.
        22 GetAndExpire { key: &'a [u8], expires: Expires } => {
            format: 1,
            keys: Scope::Key(key),
            // GETEX without an option only reads.
            access: if expires == Expires::Keep { Access::Read } else { Access::Write },
            removes: false,
            events: Names::expiring(expires),
            reads: Reads::Returned,
            kinds: Kinds::Strings,
            brings: Brings::Nothing,
            units: |_| 1,
            room: Room::Nothing,
            foresee: |sizes| {
                sizes.lend(key);
                sizes.keep_until(key, expires);
            },
            slices: [never],
            alone: [by_keys],
            run: |space, context, reply| {
                expiry::get_and_expire(space, key, expires, context.now_ms, reply);
            },
        }

        /// Stores pairs. `IfAbsent` stores all of them, or none if any key exists. Reply: `done` or
        /// `refused(Present)`.
        25 SetMany {
            pairs: &'a [(&'a [u8], &'a [u8])],
            condition: Condition,
            expires: Expires,
        } => {
            format: 1,
            // A condition on one key is a step before the write of the other, even with one pair.
            keys: Scope::Keys(Keys::OfPairs(pairs)),
            access: Access::Write,
            removes: false,
            events: Names::stored(expires),
            reads: Reads::Nothing,
            kinds: Kinds::All,
            brings: Brings::Values(pairs.iter().map(|(_, value)| value.len()).max().unwrap_or(0)),
            units: |_| pairs.iter().map(|(_, value)| PAIR_UNITS + copied(value.len())).sum(),
            room: {
                let largest = pairs.iter().map(|(key, value)| key.len() + value.len()).max();
                Room::Entry(largest.unwrap_or(0))
            },
            foresee: |sizes| sizes::set_many(sizes, &pairs::Pairs { pairs, condition, expires }),
            slices: [if true => |slice, stage| {
                slice.store(&pairs::Pairs { pairs, condition, expires }, stage)
            }],
            alone: [|target, context, reply| {
                let pairs = pairs::Pairs { pairs, condition, expires };
                pairs::set_at_once(target, &pairs, context.now_ms, reply);
            }],
            run: |space, context, reply| {
                let pairs = pairs::Pairs { pairs, condition, expires };
                let prepared = pairs.prepare(context.now_ms);
                pairs::set_many(space, &pairs, prepared, context.now_ms, reply);
            },
        }

        /// Adds bytes at one end of the value. With `create`, a missing record counts as empty;
        /// otherwise the reply is `refused(Absent)`. Reply: `length(new length, version)`.
        36 Concat {
            key: &'a [u8],
            bytes: &'a [u8],
            side: Side,
            create: bool,
            condition: Condition,
            expires: Expires,
        } => {
            format: 1,
            keys: Scope::Key(key),
            access: Access::Write,
            removes: false,
            events: Names::APPEND,
            reads: Reads::Changed { zeroes_until: 0 },
            kinds: Kinds::Strings,
            brings: Brings::Part(bytes.len()),
            units: |_| 1 + copied(bytes.len()),
            room: Room::ByLengths,
            foresee: |sizes| {
                let added = text::Added { bytes, side, create, condition, expires };
                sizes::concat(sizes, key, &added);
            },
            slices: [never],
            alone: [by_keys],
            run: |space, context, reply| {
                let added = text::Added { bytes, side, create, condition, expires };
                text::concat(space, key, &added, context, reply);
            },
        }

        /// Adds to a signed 64-bit number that is stored as 8 big-endian bytes, and wraps around
        /// (Kyoto Tycoon's increment). A `delta` of 0 does not change an existing record. Reply:
        /// `integer`, `refused(Absent)`, or `error(NotACounter)`.
        37 IncrementBinary {
            key: &'a [u8],
            delta: i64,
            origin: Origin<i64>,
            expires: Expires,
        } => {
            format: 1,
            keys: Scope::Key(key),
            access: Access::Write,
            removes: false,
            events: Names::INCREMENT,
            reads: Reads::Nothing,
            kinds: Kinds::Strings,
            brings: Brings::Nothing,
            units: |_| 1,
            room: Room::Entry(key.len()),
            foresee: |sizes| sizes.replace(key, INTEGER_BYTES_MAX, expires),
            slices: [never],
            alone: [by_keys],
            run: |space, context, reply| {
                let written = counters::Written { now_ms: context.now_ms, expires };
                counters::increment_word(space, key, delta, origin, written, reply);
            },
        }

        /// Adds to a fraction that is stored as 16 bytes (Kyoto Tycoon's increment_double). `delta`
        /// and `origin` are the bits of doubles. Reply: `bytes` (the new value),
        /// `refused(Absent)`, or `error(NotACounter)`.
        38 IncrementFraction {
            key: &'a [u8],
            delta_bits: u64,
            origin: Origin<u64>,
            expires: Expires,
        } => {
            format: 1,
            keys: Scope::Key(key),
            access: Access::Write,
            removes: false,
            events: Names::INCREMENT,
            reads: Reads::Nothing,
            kinds: Kinds::Strings,
            brings: Brings::Nothing,
            units: |_| 1,
            room: Room::Entry(key.len()),
            foresee: |sizes| sizes.replace(key, INTEGER_BYTES_MAX, expires),
            slices: [never],
            alone: [by_keys],
            run: |space, context, reply| {
                let written = counters::Written { now_ms: context.now_ms, expires };
                counters::increment_fraction(space, key, delta_bits, origin, written, reply);
            },
        }

        /// Stores `new`, or removes the record if `new` is `None`, provided that the value is `old`
        /// (`None`: that there is no record). Reply: `done`, or `refused(ValueDiffers)`.
        39 CompareValue {
            key: &'a [u8],
            old: Option<&'a [u8]>,
            new: Option<&'a [u8]>,
            expires: Expires,
        } => {
            format: 1,
            keys: Scope::Key(key),
            access: Access::Write,
            removes: new.is_none(),
            events: Names::stored(expires),
            reads: Reads::Nothing,
            kinds: Kinds::Strings,
            brings: Brings::Values(length(new)),
            units: |_| 1 + copied(length(old) + length(new)),
            room: Room::Entry(key.len() + length(new)),
            foresee: |sizes| sizes::compare(sizes, key, new, expires),
            slices: [never],
            alone: [by_keys],
            run: |space, context, reply| {
                let wanted = compare::Wanted::Is(old);
                let comparison = compare::Comparison { wanted, new, expires, return_old: false };
                compare::compare_value(space, key, &comparison, context, reply);
            },
        }

        /// Stores `new`, or removes the record if `new` is `None`, provided that the value is
        /// `value`, or is not if `equal` is false (Redis' IFEQ and IFNE). A missing record is not
        /// equal; there is nothing to remove then. Reply: `done`, or `refused(ValueDiffers)`; with
        /// `return_old`, the old `record` or `none` in either case.
        43 ReplaceIf {
            key: &'a [u8],
            value: &'a [u8],
            equal: bool,
            new: Option<&'a [u8]>,
            expires: Expires,
            return_old: bool,
        } => {
            format: 2,
            keys: Scope::Key(key),
            access: Access::Write,
            removes: new.is_none(),
            events: Names::stored(expires),
            reads: if return_old { Reads::Returned } else { Reads::Nothing },
            kinds: Kinds::Strings,
            brings: Brings::Values(length(new)),
            units: |_| 1 + copied(value.len() + length(new)),
            room: Room::Entry(key.len() + length(new)),
            foresee: |sizes| sizes::compare(sizes, key, new, expires),
            slices: [never],
            alone: [by_keys],
            run: |space, context, reply| {
                let wanted = match equal {
                    true => compare::Wanted::Is(Some(value)),
                    false => compare::Wanted::IsNot(value),
                };
                let comparison = compare::Comparison { wanted, new, expires, return_old };
                compare::compare_value(space, key, &comparison, context, reply);
            },
        }
    }
}
