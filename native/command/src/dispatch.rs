//! Dispatches a command to the function that implements it, on one table.

use crate::page::Collection;
use crate::{Command, Context, Error, Reply};
use crate::{
    bit_operation, bits, compare, counters, dump, expiry, fields, keys, lcs, lease, numbers, pairs,
    range, sketches, strings,
};
use todana_table::{Keyspace, Walk};

/// Executes a command on one table, whose locks are taken for each key or are already held.
#[inline]
pub(crate) fn dispatch<K: Keyspace, R: Reply>(
    space: &K,
    command: &Command<'_>,
    context: Context,
    reply: &mut R,
) {
    let now_ms = context.now_ms;
    match command {
        Command::Get { key } => strings::get(space, key, now_ms, reply),
        Command::Set(set) => strings::set(space, set, now_ms, reply),
        Command::Increment(increment) => numbers::increment(space, increment, now_ms, reply),
        Command::Delete { keys } => keys::count(space, command, keys, now_ms, reply),
        Command::GetMany { keys } => strings::get_many(space, keys, now_ms, reply),
        _ => dispatch_rest(space, command, context, reply),
    }
}

/// The commands for which inlining the call does not pay.
fn dispatch_rest<K: Keyspace, R: Reply>(
    space: &K,
    command: &Command<'_>,
    context: Context,
    reply: &mut R,
) {
    let now_ms = context.now_ms;
    match *command {
        Command::Get { .. }
        | Command::Set(_)
        | Command::Increment(_)
        | Command::Delete { .. }
        | Command::GetMany { .. } => dispatch(space, command, context, reply),

        Command::Length { key } => strings::length(space, key, now_ms, reply),
        Command::GetRange { key, start, end } => {
            strings::get_range(space, key, start, end, now_ms, reply);
        }
        Command::Concat { key, bytes, side, create, condition, expires } => {
            let added = strings::Added { bytes, side, create, condition, expires };
            strings::concat(space, key, &added, context, reply);
        }
        Command::SetRange { key, offset, bytes } => {
            strings::set_range(space, key, offset, bytes, context, reply);
        }
        Command::Take { key } => strings::take(space, key, now_ms, reply),
        Command::SetMany { pairs, condition, expires } => {
            let pairs = pairs::Pairs { pairs, condition, expires };
            pairs::set_many(space, &pairs, pairs.prepare(now_ms), now_ms, reply);
        }

        Command::GetBit { key, offset } => bits::get_bit(space, key, offset, now_ms, reply),
        Command::SetBit { key, offset, bit } => {
            bits::set_bit(space, key, offset, bit, context, reply);
        }
        Command::BitCount { key, span } => bits::bit_count(space, key, span, now_ms, reply),
        Command::BitPosition { key, bit, start, end, unit } => {
            let search = bits::Search { bit, start, end, unit };
            bits::bit_position(space, key, &search, now_ms, reply);
        }

        Command::BitFields { key, words, writes } => match fields::admitted(words, writes) {
            Some(fields) => fields::bit_fields(space, key, &fields, context, reply),
            None => reply.error(Error::BadFormat),
        },
        Command::BitOperation { operator, keys } => {
            bit_operation::bit_operation(space, operator, keys, now_ms, reply);
        }
        Command::AddToSketch { key, elements } => {
            sketches::add(space, key, elements, now_ms, reply);
        }
        Command::CountSketches { keys } => sketches::count(space, keys, now_ms, reply),
        Command::MergeSketches { keys } => sketches::merge(space, keys, now_ms, reply),
        Command::Dump { key } => dump::dump(space, key, now_ms, reply),
        Command::Restore { key, payload, expires, replace } => {
            let restored = dump::Restored { key, payload, expires, replace };
            dump::restore(space, &restored, context, reply);
        }
        Command::StoreNothing { keys: [key, to] } => {
            keys::store_nothing(space, key, to, now_ms, reply);
        }

        Command::IncrementFloat { key, delta } => {
            numbers::increment_float(space, key, delta, now_ms, reply);
        }
        Command::IncrementBinary { key, delta, origin, expires } => {
            let written = counters::Written { now_ms, expires };
            counters::increment_word(space, key, delta, origin, written, reply);
        }
        Command::IncrementFraction { key, delta_bits, origin, expires } => {
            let written = counters::Written { now_ms, expires };
            counters::increment_fraction(space, key, delta_bits, origin, written, reply);
        }
        Command::CompareValue { key, old, new, expires } => {
            let wanted = compare::Wanted::Is(old);
            let comparison = compare::Comparison { wanted, new, expires, return_old: false };
            compare::compare_value(space, key, &comparison, context, reply);
        }
        Command::ReplaceIf { key, value, equal, new, expires, return_old } => {
            let wanted = match equal {
                true => compare::Wanted::Is(Some(value)),
                false => compare::Wanted::IsNot(value),
            };
            let comparison = compare::Comparison { wanted, new, expires, return_old };
            compare::compare_value(space, key, &comparison, context, reply);
        }
        Command::Lcs { keys, want } => {
            let values = lcs::Values::read(space, keys, now_ms);
            values.longest_common(want, lcs::BATCH_WORDS_MAX, reply);
        }

        Command::Expiry { key } => expiry::expiry(space, key, now_ms, reply),
        Command::Expire { key, expires, when } => {
            expiry::expire(space, key, expires, when, now_ms, reply);
        }
        Command::GetAndExpire { key, expires } => {
            expiry::get_and_expire(space, key, expires, now_ms, reply);
        }

        Command::Exists { keys } | Command::NoteAccess { keys } => {
            keys::count(space, command, keys, now_ms, reply);
        }
        Command::DeleteIf { key, condition } => {
            keys::delete_if(space, key, condition, now_ms, reply);
        }
        Command::MemoryUsage { key } => keys::memory_usage(space, key, now_ms, reply),
        Command::Rename { from, to, if_absent } => {
            keys::rename(space, from, to, if_absent, now_ms, reply);
        }
        Command::Copy { from, to, database: None, replace } => {
            keys::copy(space, from, to, replace, now_ms, reply);
        }
        Command::Count => reply.integer(i64::try_from(space.len_at(now_ms)).unwrap_or(i64::MAX)),
        Command::Scan { cursor, count, pattern, values } => {
            keys::scan(space, cursor, count, pattern, values, now_ms, reply);
        }
        Command::Range { keys, after, reverse, count, values } => {
            let walk = Walk { keys, after, reverse, count };
            range::range(space, &walk, values, now_ms, reply);
        }
        // A locked table is not swept; see `execute_in`.
        Command::Sweep { .. } => reply.flag(false),
        Command::Keys { pattern } => {
            keys::keys(space, Collection::of_all(pattern), now_ms, reply);
        }
        Command::KeysOfSlot { slot, count } => {
            keys::keys(space, Collection::of_slot(slot, count), now_ms, reply);
        }
        Command::RandomKey { seed } => keys::random_key(space, seed, now_ms, reply),

        Command::Lease { key, options } => lease::lease(space, key, options, now_ms, reply),
        Command::Invalidate { key, condition, expires } => {
            lease::invalidate(space, key, condition, expires, now_ms, reply);
        }

        // A batch runs it, because only that knows the interpreter.
        Command::Script(_)
        | Command::Copy { database: Some(_), .. }
        | Command::Move { .. }
        | Command::Clear { .. }
        | Command::ClearAll { .. }
        | Command::Swap { .. } => reply.error(Error::NoSuchDatabase),
    }
}
