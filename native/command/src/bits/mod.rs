//! Commands on strings of bits. Bit 0 is the highest bit of the first byte.

pub(crate) mod arguments;
mod bit;
pub(crate) mod fields;
pub(crate) mod operation;
pub(crate) mod search;
mod slices;

use crate::access::Access;
use crate::cause::Names;
use crate::cost::{Reads, copied, looked_at};
use crate::family::{Brings, Kinds, commands};
use crate::scope::{Keys, Scope};
use crate::sizes::{Room, Sizes, Written};
use crate::{BitOperator, Error, Fields, Span, Unit};
use todana_table::Meta;

/// A command reads the bits of a whole value.
fn looked_at_all<'a>(sizes: &mut Sizes<'_, '_, 'a>, key: &'a [u8]) {
    let length = sizes.most_length(key);
    sizes.count(looked_at(length));
}

/// BITOP reads values, and stores one that is as long as the longest, or removes the record.
fn combined<'a>(sizes: &mut Sizes<'_, '_, 'a>, keys: &[&'a [u8]]) {
    let Some((to, from)) = keys.split_first() else { return };
    let mut length = 0;
    for key in from {
        let most = sizes.most_length(key);
        sizes.count(looked_at(most));
        length = length.max(most);
    }
    sizes.count(copied(length));
    sizes.write(to, Written { length, certain: false, meta: Meta::default() });
    sizes.remove(to);
}

commands! {
    /// Commands on strings of bits.
    BitsCommand<'a> {
        /// One bit. Reply: `integer`.
        4 GetBit { key: &'a [u8], offset: u64 } => {
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
            run: |space, context, reply| bit::get(space, key, offset, context.now_ms, reply),
        }

        /// Number of set bits in a span (in the whole value if `None`). Reply: `integer`.
        5 BitCount { key: &'a [u8], span: Option<Span> } => {
            format: 1,
            keys: Scope::Key(key),
            access: Access::Walk,
            removes: false,
            events: Names::NONE,
            reads: Reads::Bits,
            kinds: Kinds::Strings,
            brings: Brings::Nothing,
            units: |_| 1,
            room: Room::ByLengths,
            foresee: |sizes| looked_at_all(sizes, key),
            slices: [if true => |slice, stage| {
                slice.look(key, &search::Sought::Count(span), stage)
            }],
            alone: [by_keys],
            run: |space, context, reply| {
                search::bit_count(space, key, span, context.now_ms, reply);
            },
        }

        /// Position of the first bit that is `bit`, or -1 (rules of Redis' BITPOS). Reply:
        /// `integer`.
        6 BitPosition {
            key: &'a [u8],
            bit: bool,
            start: Option<i64>,
            end: Option<i64>,
            unit: Unit,
        } => {
            format: 1,
            keys: Scope::Key(key),
            access: Access::Walk,
            removes: false,
            events: Names::NONE,
            reads: Reads::Bits,
            kinds: Kinds::Strings,
            brings: Brings::Nothing,
            units: |_| 1,
            room: Room::ByLengths,
            foresee: |sizes| looked_at_all(sizes, key),
            slices: [if true => |slice, stage| {
                let search = search::Search { bit, start, end, unit };
                slice.look(key, &search::Sought::Position(search), stage)
            }],
            alone: [by_keys],
            run: |space, context, reply| {
                let search = search::Search { bit, start, end, unit };
                search::bit_position(space, key, &search, context.now_ms, reply);
            },
        }

        /// Sets one bit, zero-padded. Reply: `integer` (the old bit).
        15 SetBit { key: &'a [u8], offset: u64, bit: bool } => {
            format: 1,
            keys: Scope::Key(key),
            access: Access::Write,
            removes: false,
            events: Names::SET_BIT,
            reads: Reads::Changed { zeroes_until: offset / 8 },
            kinds: Kinds::Strings,
            brings: Brings::Part(0),
            units: |_| 1,
            room: Room::ByLengths,
            foresee: |sizes| sizes.reach(key, usize::try_from(offset / 8).unwrap_or(usize::MAX), 1),
            slices: [never],
            alone: [by_keys],
            run: |space, context, reply| bit::set(space, key, offset, bit, context, reply),
        }

        /// Combines the values of the keys after the first bit by bit, and stores the result at the
        /// first; an empty result removes the record. In one step, the values have 256 MiB at most.
        /// Reply: `integer` (the length), or `error(ValueTooLarge)`, `error(Contended)`.
        50 BitOperation { operator: BitOperator, keys: &'a [&'a [u8]] } => {
            format: 3,
            // Reading and writing are two accesses, even of one key.
            keys: Scope::Keys(Keys::List(keys)),
            access: Access::Write,
            removes: false,
            events: Names::PLAIN,
            reads: Reads::Combined,
            kinds: Kinds::Strings,
            brings: Brings::Part(0),
            units: |_| 2 * keys.len() as u64,
            room: Room::ByLengths,
            foresee: |sizes| combined(sizes, keys),
            slices: [if true => |slice, stage| slice.operate(operator, keys, stage)],
            alone: [|target, context, reply| {
                operation::as_one_step(target, operator, keys, context.now_ms, reply);
            }],
            run: |space, context, reply| {
                operation::bit_operation(space, operator, keys, context.now_ms, reply);
            },
        }

        /// Reads and changes integers of any width at any bit: the words of Redis' BITFIELD after
        /// the key, see [`Fields::of`]. `writes` says whether one of them changes the value; the
        /// others are refused otherwise. Reply: `list(n)`, then n times `integer`, or `none` for a
        /// number that does not fit; `error(ValueTooLarge)`.
        51 BitFields { key: &'a [u8], words: &'a [&'a [u8]], writes: bool } => {
            format: 3,
            keys: Scope::Key(key),
            access: if writes { Access::Write } else { Access::Read },
            removes: false,
            events: Names::SET_BIT,
            reads: fields::reads(words, writes),
            kinds: Kinds::Strings,
            brings: Brings::Part(0),
            units: |_| 1 + words.len() as u64,
            room: Room::ByLengths,
            foresee: |sizes| {
                let fields = Fields::of(words, usize::MAX).unwrap_or_default();
                if writes && fields.length() > 0 {
                    // Read, and written again at most.
                    sizes.count(copied(fields.bytes()));
                    sizes.reach(key, 0, fields.length());
                }
            },
            slices: [never],
            alone: [|target, context, reply| match fields::admitted(words, writes) {
                Some(fields) => fields::alone(target, key, &fields, context, reply),
                None => reply.error(Error::BadFormat),
            }],
            run: |space, context, reply| match fields::admitted(words, writes) {
                Some(fields) => fields::bit_fields(space, key, &fields, context, reply),
                None => reply.error(Error::BadFormat),
            },
        }
    }
}
