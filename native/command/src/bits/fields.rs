//! BITFIELD: integers of any width at any bit of a value.
//!
//! The operations of one command are executed in order on a copy of the bytes that they concern,
//! and then written. They are given as the words of Redis' command, which [`Fields::of`] reads; a
//! protocol uses it to refuse wrong words, and the execution to run them.

use crate::cost::Reads;
use crate::string::text::text;
use crate::target::Target;
use crate::{Context, Error, Reply};
use std::fmt;
use todana_table::{Edit, Keyspace, WrongKind};

/// The largest gap in bytes between fields that are written together.
const GAP_BYTES_MAX: usize = 4 << 10;

/// The longest field in bytes: 64 bits that do not begin at a byte.
const FIELD_BYTES_MAX: usize = 9;

/// An integer type: `i1` to `i64`, `u1` to `u63`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    signed: bool,
    bits: u32,
}

impl Kind {
    fn of(word: &[u8]) -> Option<Kind> {
        let (letter, digits) = word.split_first()?;
        let signed = match letter.to_ascii_lowercase() {
            b'i' => true,
            b'u' => false,
            _ => return None,
        };
        let bits = u32::try_from(integer(digits)?).ok()?;
        (1..=if signed { 64 } else { 63 }).contains(&bits).then_some(Kind { signed, bits })
    }

    /// The number that these bits are.
    fn number(self, bits: u64) -> i128 {
        let is_negative = self.signed && bits >> (self.bits - 1) & 1 == 1;
        i128::from(bits) - if is_negative { 1_i128 << self.bits } else { 0 }
    }

    fn least(self) -> i128 {
        if self.signed { -(1_i128 << (self.bits - 1)) } else { 0 }
    }

    fn most(self) -> i128 {
        (1_i128 << (self.bits - u32::from(self.signed))) - 1
    }
}

/// What happens to a number that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Get,
    Set(i64, Overflow),
    Increase(i64, Overflow),
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    action: Action,
    kind: Kind,
    /// The first bit.
    at: u64,
}

impl Field {
    fn first_byte(&self) -> u64 {
        self.at / 8
    }

    fn end_byte(&self) -> u64 {
        (self.at + u64::from(self.kind.bits)).div_ceil(8)
    }

    fn writes(&self) -> bool {
        self.action != Action::Get
    }
}

/// Why words are not operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotFields {
    /// A word that is no operation, or words are missing.
    Syntax,
    /// An unknown type.
    Type,
    /// An offset that is no number, or beyond the longest value.
    Offset,
    /// A word after OVERFLOW that is no rule.
    Overflow,
    /// A value that is not an integer.
    Value,
}

impl fmt::Display for NotFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotFields::Syntax => "syntax error",
            NotFields::Type => {
                "Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported \
                 but i64 is."
            }
            NotFields::Offset => "bit offset is not an integer or out of range",
            NotFields::Overflow => "Invalid OVERFLOW type specified",
            NotFields::Value => "value is not an integer or out of range",
        })
    }
}

/// The operations of one command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(Vec<Field>);

impl Fields {
    /// Reads the words of a command after its key: `GET type offset`, `SET type offset value`,
    /// `INCRBY type offset increment`, `OVERFLOW WRAP|SAT|FAIL`. No field may end behind this
    /// number of bytes.
    pub fn of(words: &[&[u8]], value_bytes_max: usize) -> Result<Fields, NotFields> {
        let mut fields = Vec::new();
        let mut overflow = Overflow::Wrap;
        let mut rest = words;
        while let [name, more @ ..] = rest {
            let is = |word: &str| name.eq_ignore_ascii_case(word.as_bytes());
            if let ([rule, more @ ..], true) = (more, is("overflow")) {
                overflow = rule_of(rule).ok_or(NotFields::Overflow)?;
                rest = more;
                continue;
            }
            let (kind, offset, more) = match more {
                [kind, offset, more @ ..] if is("get") || is("set") || is("incrby") => {
                    (kind, offset, more)
                }
                _ => return Err(NotFields::Syntax),
            };
            let (value, more) = match more {
                _ if is("get") => (None, more),
                [value, more @ ..] => (Some(value), more),
                [] => return Err(NotFields::Syntax),
            };
            let kind = Kind::of(kind).ok_or(NotFields::Type)?;
            let at = offset_of(offset, kind, value_bytes_max).ok_or(NotFields::Offset)?;
            let value = value.map(|value| integer(value).ok_or(NotFields::Value)).transpose()?;
            let action = match value {
                None => Action::Get,
                Some(value) if is("set") => Action::Set(value, overflow),
                Some(value) => Action::Increase(value, overflow),
            };
            fields.push(Field { action, kind, at });
            rest = more;
        }
        Ok(Fields(fields))
    }

    /// Whether one of the operations is a SET or an INCRBY.
    pub fn write(&self) -> bool {
        self.0.iter().any(Field::writes)
    }

    /// Length in bytes that the value has at least when fields were written.
    pub(crate) fn length(&self) -> usize {
        let ends = self.0.iter().filter(|field| field.writes()).map(Field::end_byte);
        usize::try_from(ends.max().unwrap_or(0)).unwrap_or(usize::MAX)
    }

    /// Bytes that are read, and written at most.
    pub(crate) fn bytes(&self) -> usize {
        self.spans().iter().map(|span| span.end - span.first).sum()
    }

    /// The spans of bytes that are read and written together, in order.
    fn spans(&self) -> Vec<Span> {
        let mut each: Vec<(usize, usize)> = self
            .0
            .iter()
            .map(|field| (field.first_byte() as usize, field.end_byte() as usize))
            .collect();
        each.sort_unstable();
        let mut spans: Vec<Span> = Vec::new();
        for (first, end) in each {
            match spans.last_mut() {
                Some(last) if first <= last.end + GAP_BYTES_MAX => last.end = last.end.max(end),
                _ => spans.push(Span { first, end, bytes: Vec::new() }),
            }
        }
        spans
    }
}

/// Some bytes of a value.
struct Span {
    first: usize,
    end: usize,
    bytes: Vec<u8>,
}

/// The field's number as it is, and where its bytes begin.
fn window<'s>(spans: &'s mut [Span], field: &Field) -> &'s mut [u8] {
    let (first, end) = (field.first_byte() as usize, field.end_byte() as usize);
    let at = spans.partition_point(|span| span.first <= first).saturating_sub(1);
    let Span { first: begin, bytes, .. } = &mut spans[at];
    &mut bytes[first - *begin..end - *begin]
}

fn read(window: &[u8], field: &Field) -> u64 {
    let whole = window.iter().fold(0_u128, |number, byte| number << 8 | u128::from(*byte));
    let after = window.len() as u32 * 8 - (field.at % 8) as u32 - field.kind.bits;
    (whole >> after) as u64 & mask(field.kind.bits)
}

fn write(window: &mut [u8], field: &Field, number: u64) {
    let after = window.len() as u32 * 8 - (field.at % 8) as u32 - field.kind.bits;
    let whole = window.iter().fold(0_u128, |number, byte| number << 8 | u128::from(*byte));
    let kept = whole & !(u128::from(mask(field.kind.bits)) << after);
    let whole = kept | u128::from(number & mask(field.kind.bits)) << after;
    let bytes = whole.to_be_bytes();
    window.copy_from_slice(&bytes[bytes.len() - window.len()..]);
}

fn mask(bits: u32) -> u64 {
    u64::MAX >> (64 - bits)
}

/// The number to be stored; `None` if it does not fit and the rule is to fail.
fn fitted(kind: Kind, wanted: i128, overflow: Overflow) -> Option<u64> {
    let (least, most) = (kind.least(), kind.most());
    let number = match overflow {
        _ if (least..=most).contains(&wanted) => wanted,
        Overflow::Wrap => wanted,
        Overflow::Saturate => wanted.clamp(least, most),
        Overflow::Fail => return None,
    };
    Some(number as u64 & mask(kind.bits))
}

fn rule_of(word: &[u8]) -> Option<Overflow> {
    match word.to_ascii_lowercase().as_slice() {
        b"wrap" => Some(Overflow::Wrap),
        b"sat" => Some(Overflow::Saturate),
        b"fail" => Some(Overflow::Fail),
        _ => None,
    }
}

/// A bit, or with `#` a multiple of the type's width.
fn offset_of(word: &[u8], kind: Kind, value_bytes_max: usize) -> Option<u64> {
    let (digits, unit) = match word.strip_prefix(b"#") {
        Some(digits) => (digits, u64::from(kind.bits)),
        None => (word, 1),
    };
    let at = u64::try_from(integer(digits)?).ok()?.checked_mul(unit)?;
    let end = at.checked_add(u64::from(kind.bits))?.div_ceil(8);
    (end <= value_bytes_max as u64).then_some(at)
}

/// A decimal integer as Redis reads it: no sign but `-`, no leading zero.
fn integer(word: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(word).ok()?;
    let number: i64 = text.parse().ok()?;
    (itoa::Buffer::new().format(number) == text).then_some(number)
}

/// The operations of a command that may write, or not.
pub(crate) fn admitted(words: &[&[u8]], writes: bool) -> Option<Fields> {
    Fields::of(words, usize::MAX).ok().filter(|fields| writes || !fields.write())
}

/// BITFIELD. `writes` is false for BITFIELD_RO and for a command that only gets.
pub(crate) fn bit_fields<K: Keyspace, R: Reply>(
    space: &K,
    key: &[u8],
    fields: &Fields,
    context: Context,
    reply: &mut R,
) {
    let now_ms = context.now_ms;
    if fields.length() > context.value_bytes_max {
        return reply.error(Error::ValueTooLarge);
    }
    loop {
        let mut spans = fields.spans();
        let read = space.read(key, now_ms, |entry| {
            let value = text(entry)?;
            for span in &mut spans {
                let end = span.end.min(value.len());
                span.bytes.extend_from_slice(value.get(span.first..end).unwrap_or_default());
                span.bytes.resize(span.end - span.first, 0);
            }
            Ok((entry.map_or(0, |entry| entry.version()), value.len()))
        });
        let (version, length) = match read {
            Ok(read) => read,
            Err(WrongKind(kind)) => return reply.error(Error::WrongKind(kind)),
        };
        let before: Vec<Vec<u8>> = spans.iter().map(|span| span.bytes.clone()).collect();
        let answers: Vec<Option<i64>> =
            fields.0.iter().map(|field| carry_out(&mut spans, field)).collect();
        let grows = fields.length() > length;
        // What lies behind the last field that is written was only read.
        let end = fields.length().max(length);
        let mut written = spans.iter().zip(&before).filter(|(span, before)| {
            span.first < end && (&span.bytes != *before || grows && span.end >= fields.length())
        });
        // With several spans, the caller holds the lock, so that this is one step.
        let stored = written.try_for_each(|(span, _)| {
            let bytes = &span.bytes[..span.bytes.len().min(end - span.first)];
            put(space, key, Some(version).filter(|_| spans.len() == 1), span.first, bytes, now_ms)
        });
        match stored {
            Err(NotPut::Changed) => continue,
            Err(NotPut::Failed(error)) => return reply.error(error),
            Ok(()) => {
                reply.list(answers.len());
                for answer in answers {
                    match answer {
                        Some(number) => reply.integer(number),
                        None => reply.none(),
                    }
                }
                return;
            }
        }
    }
}

/// BITFIELD outside a transaction. Fields that lie far apart are written one after the other, with
/// the lock held until the end.
pub(super) fn alone<T: Target, R: Reply>(
    target: &T,
    key: &[u8],
    fields: &Fields,
    context: Context,
    reply: &mut R,
) {
    if fields.write() && fields.spans().len() > 1 {
        bit_fields(&target.lock([key], context.now_ms), key, fields, context, reply);
    } else {
        bit_fields(target, key, fields, context, reply);
    }
}

/// What the operations do with the value.
pub(super) fn reads(words: &[&[u8]], writes: bool) -> Reads {
    let fields = Fields::of(words, usize::MAX).unwrap_or_default();
    match writes {
        true => Reads::Changed { zeroes_until: fields.length() as u64 },
        false => Reads::Fields { bytes: fields.bytes() },
    }
}

/// Carries out an operation on the copies. Returns its answer; `None` if its number does not fit.
fn carry_out(spans: &mut [Span], field: &Field) -> Option<i64> {
    let window = window(spans, field);
    debug_assert!(window.len() <= FIELD_BYTES_MAX);
    let kind = field.kind;
    let present = kind.number(read(window, field));
    let (wanted, overflow) = match field.action {
        Action::Get => return i64::try_from(present).ok(),
        // A negative number is beyond the greatest of an unsigned type, as in Redis.
        Action::Set(value, overflow) if !kind.signed => {
            (i128::from(value.cast_unsigned()), overflow)
        }
        Action::Set(value, overflow) => (i128::from(value), overflow),
        Action::Increase(by, overflow) => (present + i128::from(by), overflow),
    };
    let bits = fitted(kind, wanted, overflow)?;
    write(window, field, bits);
    match field.action {
        Action::Set(..) => i64::try_from(present).ok(),
        _ => i64::try_from(kind.number(bits)).ok(),
    }
}

enum NotPut {
    Changed,
    Failed(Error),
}

/// Writes bytes of the value, if it still has this version.
fn put<K: Keyspace>(
    space: &K,
    key: &[u8],
    version: Option<u64>,
    at: usize,
    bytes: &[u8],
    now_ms: u64,
) -> Result<(), NotPut> {
    space.edit(key, now_ms, Edit::Write { at, bytes }, |locked, draft| {
        let entry = locked.entry();
        let found = entry.as_ref().map_or(0, |entry| entry.version());
        if version.is_some_and(|version| version != found) {
            return Some(Err(NotPut::Changed));
        }
        let meta = entry.map(|entry| entry.meta()).unwrap_or_default();
        match locked.put_edited(draft, meta) {
            Ok(None) => None,
            Ok(Some(_)) => Some(Ok(())),
            Err(refused) => Some(Err(NotPut::Failed(refused.into()))),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<&[u8]> {
        text.split(' ').filter(|word| !word.is_empty()).map(str::as_bytes).collect()
    }

    #[test]
    fn words_are_read_in_order_and_checked() {
        let read = |text: &str| Fields::of(&words(text), 100);
        assert_eq!(read("").unwrap(), Fields::default());
        let fields = read("get u8 0 overflow fail incrby i5 #3 -1 SET u63 9 7").unwrap();
        assert_eq!((fields.0.len(), fields.write(), fields.length()), (3, true, 9));
        assert_eq!(fields.0[1].at, 15);
        assert!(!read("get i64 0").unwrap().write());
        for (text, error) in [
            ("get", NotFields::Syntax),
            ("get u8", NotFields::Syntax),
            ("set u8 0", NotFields::Syntax),
            ("put u8 0", NotFields::Syntax),
            ("overflow", NotFields::Syntax),
            ("get u64 0", NotFields::Type),
            ("get i65 0", NotFields::Type),
            ("get i0 0", NotFields::Type),
            ("get 8 0", NotFields::Type),
            ("get u08 0", NotFields::Type),
            ("get u8 -1", NotFields::Offset),
            ("get u8 #-1", NotFields::Offset),
            ("get u8 793", NotFields::Offset),
            ("get u8 #9223372036854775807", NotFields::Offset),
            ("get u8 x", NotFields::Offset),
            ("set u8 0 x", NotFields::Value),
            ("set u8 0 9223372036854775808", NotFields::Value),
            ("overflow never", NotFields::Overflow),
        ] {
            assert_eq!(read(text), Err(error), "{text}");
        }
        assert!(read("get u8 792").is_ok());
    }

    #[test]
    fn numbers_of_every_width_keep_their_value_at_every_bit() {
        for bits in 1..=64 {
            for signed in [false, true] {
                if bits == 64 && !signed {
                    continue;
                }
                let kind = Kind { signed, bits };
                for at in 0..16 {
                    for wanted in [kind.least(), kind.most(), kind.most() / 3, kind.least() / 3] {
                        let field = Field { action: Action::Get, kind, at };
                        let mut window =
                            vec![0xa5; (field.end_byte() - field.first_byte()) as usize];
                        write(&mut window, &field, wanted as u64);
                        assert_eq!(kind.number(read(&window, &field)), wanted, "{kind:?} {at}");
                        let before = read(&vec![0xa5; window.len()], &field);
                        write(&mut window, &field, before);
                        assert!(window.iter().all(|byte| *byte == 0xa5), "{kind:?} {at}");
                    }
                }
            }
        }
    }

    #[test]
    fn numbers_that_do_not_fit_wrap_saturate_or_fail() {
        let (i8, u4) = (Kind { signed: true, bits: 8 }, Kind { signed: false, bits: 4 });
        for (kind, wanted, wrapped, saturated) in [
            (i8, 128, -128, 127),
            (i8, -129, 127, -128),
            (i8, 1000, -24, 127),
            (u4, 16, 0, 15),
            (u4, -1, 15, 0),
        ] {
            let number = |rule| fitted(kind, wanted, rule).map(|bits| kind.number(bits));
            assert_eq!(number(Overflow::Wrap), Some(wrapped));
            assert_eq!(number(Overflow::Saturate), Some(saturated));
            assert_eq!(number(Overflow::Fail), None);
            assert!(fitted(kind, kind.most(), Overflow::Fail).is_some());
        }
    }
}
