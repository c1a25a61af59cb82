//! Counting bits and searching for one: BITCOUNT, BITPOS.

use crate::string::text::{clamp, clamp_each, text};
use crate::{Reply, Span, Unit};
use todana_table::{Keyspace, WrongKind};

/// BITCOUNT.
pub(crate) fn bit_count<K: Keyspace, R: Reply>(
    space: &K,
    key: &[u8],
    span: Option<Span>,
    now_ms: u64,
    reply: &mut R,
) {
    let count = space.read(key, now_ms, |entry| {
        let value = text(entry)?;
        Ok(Look::counting(span, value.len()).map_or(0, |look| look.finish(value)))
    });
    reply_with(count, reply);
}

/// First and last bit of a span, clamped to the value by one of the rules for that; `None` if the
/// span is empty.
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

/// The arguments of [`bit_position`].
#[derive(Clone, Copy)]
pub(crate) struct Search {
    pub(crate) bit: bool,
    pub(crate) start: Option<i64>,
    pub(crate) end: Option<i64>,
    pub(crate) unit: Unit,
}

/// BITPOS. Without an explicit end, the value counts as if zeroes followed it.
pub(crate) fn bit_position<K: Keyspace, R: Reply>(
    space: &K,
    key: &[u8],
    search: &Search,
    now_ms: u64,
    reply: &mut R,
) {
    let position = space.read(key, now_ms, |entry| {
        let Some(entry) = entry else { return Ok(if search.bit { -1 } else { 0 }) };
        let value = entry.text()?;
        Ok(Look::searching(search, value.len()).map_or(-1, |look| look.finish(value)))
    });
    reply_with(position, reply);
}

fn reply_with<R: Reply>(found: Result<i64, WrongKind>, reply: &mut R) {
    match found {
        Ok(number) => reply.integer(number),
        Err(wrong) => reply.error(wrong.into()),
    }
}

/// What a command looks for.
pub(crate) enum Sought {
    /// The number of bits that are set.
    Count(Option<Span>),
    /// The first bit of a kind.
    Position(Search),
}

impl Sought {
    /// Finds it in one go.
    pub(super) fn find<K: Keyspace, R: Reply>(
        &self,
        space: &K,
        key: &[u8],
        now_ms: u64,
        reply: &mut R,
    ) {
        match self {
            Sought::Count(span) => bit_count(space, key, *span, now_ms, reply),
            Sought::Position(search) => bit_position(space, key, search, now_ms, reply),
        }
    }

    /// Begins at a value of this length; `None` if there are no bits to examine.
    pub(crate) fn look(&self, bytes: usize) -> Option<Look> {
        match self {
            Sought::Count(span) => Look::counting(*span, bytes),
            Sought::Position(search) => Look::searching(search, bytes),
        }
    }
}

/// A BITCOUNT or BITPOS in progress.
#[derive(Debug)]
pub(crate) struct Look {
    /// The next bit to examine.
    next: usize,
    last: usize,
    aim: Aim,
}

#[derive(Debug)]
enum Aim {
    /// The number of ones so far.
    Count(i64),
    /// The bit to find, and the answer if there is none.
    Find(bool, i64),
}

impl Look {
    fn counting(span: Option<Span>, bytes: usize) -> Option<Look> {
        let span = span.unwrap_or(Span { start: 0, end: -1, unit: Unit::Byte });
        let (next, last) = bit_span(&span, bytes, clamp)?;
        Some(Look { next, last, aim: Aim::Count(0) })
    }

    fn searching(search: &Search, bytes: usize) -> Option<Look> {
        let (start, end) = (search.start.unwrap_or(0), search.end.unwrap_or(-1));
        let span = Span { start, end, unit: search.unit };
        let (next, last) = bit_span(&span, bytes, clamp_each)?;
        let goes_on = !search.bit && search.end.is_none();
        let none = if goes_on { bytes as i64 * 8 } else { -1 };
        Some(Look { next, last, aim: Aim::Find(search.bit, none) })
    }

    fn finish(mut self, value: &[u8]) -> i64 {
        self.go_on(value, usize::MAX).unwrap_or(0)
    }

    /// Examines up to `bytes_max` more bytes. Returns the answer once it is known.
    pub(crate) fn go_on(&mut self, value: &[u8], bytes_max: usize) -> Option<i64> {
        let (first, end) = (self.next, (self.next / 8).saturating_add(bytes_max));
        let last = self.last.min(end.saturating_mul(8) - 1);
        self.next = last + 1;
        let is_done = last == self.last;
        match &mut self.aim {
            Aim::Count(count) => {
                *count += count_ones(value, first, last);
                is_done.then_some(*count)
            }
            Aim::Find(bit, none) => {
                let found = find(value, *bit, first, last).map(|position| position as i64);
                found.or(is_done.then_some(*none))
            }
        }
    }
}

/// The first bit of this kind in a part of a value.
fn find(value: &[u8], bit: bool, first: usize, last: usize) -> Option<usize> {
    let flip = if bit { 0 } else { 0xff };
    let start = first / 8;
    let found = |index: usize, ones: u8| {
        let position = index * 8 + ones.leading_zeros() as usize;
        (position <= last).then_some(position)
    };
    let ones = (value[start] ^ flip) & (0xff >> (first % 8));
    if ones != 0 {
        return found(start, ones);
    }
    let rest = &value[start + 1..=last / 8];
    // A long value is scanned sixteen bytes at a time.
    let (words, _) = rest.as_chunks::<16>();
    let other = words.iter().position(|word| *word != [flip; 16]);
    let passed = other.unwrap_or(words.len()) * 16;
    let index = passed + rest[passed..].iter().position(|byte| *byte != flip)?;
    found(start + 1 + index, rest[index] ^ flip)
}
