//! Values as decimal numbers. Every protocol's increment and decrement is [`increment`].

use crate::record::{check, fresh_access, is_past, resolve};
use crate::string::digits;
use crate::string::float;
use crate::{Condition, Delta, Error, Expires, Increment, Initial, Record, Refusal, Reply};
use todana_table::{Entry, Full, Keyspace, LockedKey, Meta, Table, Time, Written};

/// INCR, DECR, INCRBY, DECRBY; `incr`, `decr`, `ma`; `todana:update_counter`.
#[inline]
pub(crate) fn increment<K: Keyspace, R: Reply>(
    space: &K,
    increment: &Increment<'_>,
    now_ms: u64,
    reply: &mut R,
) {
    space.update(increment.key, now_ms, |locked| add_and_reply(locked, increment, now_ms, reply));
}

/// The same on a table of its own, which asks for the time only if it needs it. Returns the sum if
/// only digits had to be replaced; otherwise it is in the reply.
#[inline]
pub fn increment_in_table<R: Reply>(
    table: &Table,
    increment: &Increment<'_>,
    now: impl Time,
    reply: &mut R,
) -> Option<i64> {
    let (mut text, mut sum) = (itoa::Buffer::new(), None);
    let (digits, summed) = (&mut text, &mut sum);
    let is_plain = increment.condition == Condition::Always && increment.expires == Expires::Keep;
    let written = table.write(
        increment.key,
        now,
        move |old| {
            let Delta::Signed(delta) = increment.delta else { return None };
            let number = parse_signed(old).filter(|_| is_plain)?.checked_add(delta)?;
            *summed = Some(number);
            Some(digits.format(number).as_bytes())
        },
        |locked, now_ms| add_and_reply(locked, increment, now_ms, reply),
    );
    sum.filter(|_| matches!(written, Written::Over(_)))
}

fn add_and_reply<R: Reply>(
    locked: &mut LockedKey<'_>,
    increment: &Increment<'_>,
    now_ms: u64,
    reply: &mut R,
) {
    let entry = locked.entry();
    if let Err(refusal) = check(increment.condition, entry.as_ref()) {
        return reply.refused(refusal);
    }
    let (number, meta) = match (entry, increment.initial) {
        (Some(entry), _) => {
            let expires_at_ms = resolve(increment.expires, Some(&entry), now_ms);
            let meta = Meta { expires_at_ms, ..entry.meta() };
            (add_to(entry, increment.delta), meta)
        }
        (None, Some((initial, expires))) => {
            (start(initial, increment.delta), new_meta(expires, increment, now_ms))
        }
        (None, None) => return reply.refused(Refusal::Absent),
    };
    match number {
        Ok(number) => put_number(locked, number, meta, now_ms, reply),
        Err(error) => reply.error(error),
    }
}

fn new_meta(expires: Expires, increment: &Increment<'_>, now_ms: u64) -> Meta {
    Meta {
        expires_at_ms: resolve(expires, None, now_ms),
        flags: 0,
        access: increment.track_access.then(|| fresh_access(now_ms)),
    }
}

/// A number as stored. Signed and unsigned arithmetic share the range from 0 to 2^63 - 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Signed(i64),
    Unsigned(u64),
}

fn put_number<R: Reply>(
    locked: &mut LockedKey<'_>,
    number: Number,
    meta: Meta,
    now_ms: u64,
    reply: &mut R,
) {
    let mut text = itoa::Buffer::new();
    let text = match number {
        Number::Signed(number) => text.format(number),
        Number::Unsigned(number) => text.format(number),
    };
    if locked.put(&[text.as_bytes()], meta) == Err(Full) {
        return reply.error(Error::Full);
    }
    if let Some(Ok(record)) = locked.entry().as_ref().map(Record::of) {
        reply.number(record);
    }
    if is_past(meta.expires_at_ms, now_ms) {
        locked.remove();
    }
}

fn add_to(entry: Entry<'_>, delta: Delta) -> Result<Number, Error> {
    add(entry.text()?, delta)
}

fn add(text: &[u8], delta: Delta) -> Result<Number, Error> {
    match delta {
        Delta::Signed(delta) => {
            let number = parse_signed(text).ok_or(Error::NotAnInteger)?;
            number.checked_add(delta).map(Number::Signed).ok_or(Error::Overflow)
        }
        Delta::WrappingAdd(delta) => {
            let number = parse_unsigned(text).ok_or(Error::NotAnInteger)?;
            Ok(Number::Unsigned(number.wrapping_add(delta)))
        }
        Delta::SaturatingSubtract(delta) => {
            let number = parse_unsigned(text).ok_or(Error::NotAnInteger)?;
            Ok(Number::Unsigned(number.saturating_sub(delta)))
        }
    }
}

fn start(initial: Initial, delta: Delta) -> Result<Number, Error> {
    match (initial, delta) {
        (Initial::Exactly(number), _) => Ok(Number::Unsigned(number)),
        (Initial::Zero, delta) => add(b"0", delta),
        (Initial::From(number), Delta::Signed(delta)) => {
            number.checked_add(delta).map(Number::Signed).ok_or(Error::Overflow)
        }
        (Initial::From(number), delta) => add(itoa::Buffer::new().format(number).as_bytes(), delta),
    }
}

/// A signed decimal integer, as strict as Redis: no plus sign, no leading zeros, no spaces, no
/// `-0`.
#[inline]
pub fn parse_signed(text: &[u8]) -> Option<i64> {
    match text {
        [b'1'..=b'9', ..] if text.len() <= 8 => digits::parse_short(text).map(u64::cast_signed),
        _ => parse_long(text),
    }
}

/// The same for every text.
fn parse_long(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] => {}
        _ => return None,
    }
    let magnitude = digits::parse(digits)?;
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// Whether a value is a signed decimal integer of 64 bits in its only form.
pub(crate) fn is_integer(text: &[u8]) -> bool {
    parse_signed(text).is_some()
}

/// Longest value that may be an unsigned number. memcached stores longer ones in chunks, which are
/// not numbers.
const UNSIGNED_BYTES_MAX: usize = 512 << 10;

/// An unsigned decimal integer in memcached's syntax (C's `strtoull` up to white space or a zero
/// byte): leading white space, a sign and leading zeros are accepted. With a minus sign the number
/// is negated, and accepted if the result is below 2^63.
fn parse_unsigned(text: &[u8]) -> Option<u64> {
    if text.len() > UNSIGNED_BYTES_MAX {
        return None;
    }
    let is_space = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    let start = text.iter().position(|byte| !is_space(byte))?;
    let end = |byte: &u8| is_space(byte) || *byte == 0;
    let number = text[start..].split(end).next()?;
    let (is_negative, digits) = match number {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let magnitude = digits::parse(digits)?;
    let number = if is_negative { magnitude.wrapping_neg() } else { magnitude };
    (!is_negative || number <= i64::MAX as u64).then_some(number)
}

/// INCRBYFLOAT.
pub(crate) fn increment_float<K: Keyspace, R: Reply>(
    space: &K,
    key: &[u8],
    delta: &[u8],
    now_ms: u64,
    reply: &mut R,
) {
    space.update(key, now_ms, |locked| {
        let entry = locked.entry();
        let text = entry.map_or(Ok(&b"0"[..]), |entry| entry.text());
        let sum = text.map_err(Error::from).and_then(|text| float::add(text, delta));
        let meta = entry.as_ref().map_or_else(Meta::default, Entry::meta);
        match sum {
            Ok(text) => match locked.put(&[text.as_bytes()], meta) {
                Ok(_) => reply.bytes(text.as_bytes()),
                Err(Full) => reply.error(Error::Full),
            },
            Err(error) => reply.error(error),
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signed_numbers_are_strict() {
        let good = [("0", 0), ("-1", -1), ("10", 10), ("9223372036854775807", i64::MAX)];
        for (text, number) in good {
            assert_eq!(parse_signed(text.as_bytes()), Some(number), "{text}");
        }
        assert_eq!(parse_signed(b"-9223372036854775808"), Some(i64::MIN));
        let bad = ["", "-", "+1", "01", "-0", " 1", "1 ", "1.0", "0x1", "9223372036854775808"];
        for text in bad {
            assert_eq!(parse_signed(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse_signed(b"-9223372036854775809"), None);
        assert_eq!(parse_signed(b"18446744073709551616"), None);
    }

    /// The reply of memcached 1.6.18 to `incr key 0`.
    #[test]
    fn unsigned_numbers_are_read_like_memcached() {
        let good = [
            ("0", 0),
            ("007", 7),
            ("9  ", 9),
            ("1029 000", 1029),
            ("\t2", 2),
            ("\r\n5", 5),
            ("7\x0b", 7),
            ("+1", 1),
            ("1 abc", 1),
            ("12\0abc", 12),
            ("-0", 0),
            (" -0", 0),
            ("-18446744073709551615", 1),
            ("-9223372036854775809", i64::MAX as u64),
            ("18446744073709551615", u64::MAX),
        ];
        for (text, number) in good {
            assert_eq!(parse_unsigned(text.as_bytes()), Some(number), "{text}");
        }
        let bad = ["", "  ", "+", "-", "- 1", "-1", "+-1", "-+1", "\0", "1abc", "0x1", "1.5"];
        let beyond = ["18446744073709551616", "-18446744073709551616", "-9223372036854775808"];
        for text in bad.into_iter().chain(beyond) {
            assert_eq!(parse_unsigned(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_long_value_is_no_unsigned_number() {
        let mut text = vec![b'0'; UNSIGNED_BYTES_MAX];
        assert_eq!(parse_unsigned(&text), Some(0));
        text.push(b'0');
        assert_eq!(parse_unsigned(&text), None);
    }
}
