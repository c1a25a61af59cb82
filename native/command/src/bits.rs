//! Values as strings of bits. Bit 0 is the highest bit of the first byte.

use crate::strings::{clamp, clamp_each};
use crate::{Context, Error, Reply, Span, Unit};
use todana_table::{Edit, Entry, Full, Keyspace, Meta};

/// GETBIT.
pub(crate) fn get_bit<K: Keyspace, R: Reply>(
    space: &K,
    key: &[u8],
    offset: u64,
    now_ms: u64,
    reply: &mut R,
) {
    let bit = space.read(key, now_ms, |entry| {
        let byte = usize::try_from(offset / 8).ok()?;
        entry?.value().get(byte).map(|byte| byte & mask(offset) != 0)
    });
    reply.integer(bit.unwrap_or(false).into());
}

/// SETBIT. What lies between the old end and the bit becomes zero.
pub(crate) fn set_bit<K: Keyspace, R: Reply>(
    space: &K,
    key: &[u8],
    offset: u64,
    bit: bool,
    context: Context,
    reply: &mut R,
) {
    let byte = usize::try_from(offset / 8).ok().filter(|byte| *byte < context.value_bytes_max);
    let Some(at) = byte else {
        return reply.error(Error::ValueTooLarge);
    };
    let edit = Edit::SetBits { at, mask: mask(offset), on: bit };
    space.edit(key, context.now_ms, edit, |slot, draft| {
        let (value, meta) =
            slot.entry().map_or((&[][..], Meta::default()), |entry| (entry.value(), entry.meta()));
        let was_set = value.get(at).is_some_and(|byte| byte & mask(offset) != 0);
        if was_set == bit && at < value.len() {
            // Nothing changes, so nothing is written: no watch fails for it.
            reply.integer(was_set.into());
            return Some(());
        }
        match slot.put_edited(draft, meta) {
            Ok(None) => return None,
            Ok(Some(_)) => reply.integer(was_set.into()),
            Err(Full) => reply.error(Error::Full),
        }
        Some(())
    });
}

fn mask(offset: u64) -> u8 {
    0x80 >> (offset % 8)
}

/// BITCOUNT.
pub(crate) fn bit_count<K: Keyspace, R: Reply>(
    space: &K,
    key: &[u8],
    span: Option<Span>,
    now_ms: u64,
    reply: &mut R,
) {
    let count = space.read(key, now_ms, |entry| {
        let value = entry.as_ref().map_or(&[][..], Entry::value);
        let span = span.unwrap_or(Span { start: 0, end: -1, unit: Unit::Byte });
        let Some((first, last)) = bit_span(&span, value.len(), clamp) else { return 0 };
        count_ones(value, first, last)
    });
    reply.integer(count);
}

/// First and last bit of a span, cut to the value by one of the rules for that; `None` where it is
/// empty.
fn bit_span(
    span: &Span,
    bytes: usize,
    clamp: impl Fn(i64, i64, usize) -> Option<(usize, usize)>,
) -> Option<(usize, usize)> {
    match span.unit {
        Unit::Bit => clamp(span.start, span.end, bytes.checked_mul(8)?),
        Unit::Byte => {
            let (first, last) = clamp(span.start, span.end, bytes)?;
            Some((first * 8, last * 8 + 7))
        }
    }
}

fn count_ones(value: &[u8], first: usize, last: usize) -> i64 {
    let (words, rest) = value[first / 8..=last / 8].as_chunks::<8>();
    let in_words: u64 =
        words.iter().map(|word| u64::from(u64::from_ne_bytes(*word).count_ones())).sum();
    let in_rest: u64 = rest.iter().map(|byte| u64::from(byte.count_ones())).sum();
    let whole = (in_words + in_rest) as i64;
    let before = value[first / 8] & !(0xff >> (first % 8));
    let after = value[last / 8] & (0x7f >> (last % 8));
    whole - i64::from(before.count_ones()) - i64::from(after.count_ones())
}

/// What [`bit_position`] looks for, and where.
pub(crate) struct Search {
    pub(crate) bit: bool,
    pub(crate) start: Option<i64>,
    pub(crate) end: Option<i64>,
    pub(crate) unit: Unit,
}

/// BITPOS. A value without an explicit end is taken to go on with zeroes.
pub(crate) fn bit_position<K: Keyspace, R: Reply>(
    space: &K,
    key: &[u8],
    search: &Search,
    now_ms: u64,
    reply: &mut R,
) {
    let position = space.read(key, now_ms, |entry| {
        let Some(entry) = entry else { return if search.bit { -1 } else { 0 } };
        let value = entry.value();
        let (start, end) = (search.start.unwrap_or(0), search.end.unwrap_or(-1));
        let span = Span { start, end, unit: search.unit };
        let Some((first, last)) = bit_span(&span, value.len(), clamp_each) else { return -1 };
        match find(value, search.bit, first, last) {
            Some(position) => position as i64,
            None if !search.bit && search.end.is_none() => value.len() as i64 * 8,
            None => -1,
        }
    });
    reply.integer(position);
}

fn find(value: &[u8], bit: bool, first: usize, last: usize) -> Option<usize> {
    let flip = if bit { 0 } else { 0xff };
    for (index, byte) in value[..=last / 8].iter().enumerate().skip(first / 8) {
        let before = if index == first / 8 { 0xff >> (first % 8) } else { 0xff };
        let wanted = (byte ^ flip) & before;
        if wanted != 0 {
            let position = index * 8 + wanted.leading_zeros() as usize;
            return (position <= last).then_some(position);
        }
    }
    None
}
