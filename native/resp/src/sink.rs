//! Where the parts of a reply go: the output of a connection, or a value that a script gets.

use super::encoder::{Encoder, one_line};
use std::ops::Range;
use todana_command::Value;
use todana_table::Shared;

/// The words of RESP.
pub(super) trait Sink {
    /// Whether the receiver reads RESP3.
    fn is_resp3(&self) -> bool;
    /// Whether values of this length are taken by reference.
    fn shares(&self, bytes: usize) -> bool;
    /// Counts look-ups that hit, and that missed.
    fn count_lookups(&mut self, hits: u64, misses: u64);
    /// Notes whether the error that follows is that of a value that is too large.
    fn note_too_large(&mut self, is_too_large: bool);

    fn null(&mut self);
    fn boolean(&mut self, flag: bool);
    fn integer(&mut self, number: i64);
    /// An integer in decimal digits.
    fn digits(&mut self, digits: &[u8]);
    fn double(&mut self, number: f64);
    fn big_number(&mut self, digits: &[u8]);
    fn bulk(&mut self, bytes: &[u8]);
    /// A part of a value.
    fn bulk_of(&mut self, value: Shared, range: Range<usize>);
    /// Text with a format of three letters.
    fn verbatim_as(&mut self, format: [u8; 3], text: &[u8]);
    fn status(&mut self, text: &[u8]);
    fn error(&mut self, text: &[u8]);
    /// Begins an array of `length` elements.
    fn array(&mut self, length: usize);
    /// Begins a map of `pairs` pairs.
    fn map(&mut self, pairs: usize);
    /// Begins a set of `length` elements.
    fn set(&mut self, length: usize);

    fn ok(&mut self) {
        self.status(b"OK");
    }

    fn text(&mut self, text: &str) {
        self.bulk(text.as_bytes());
    }

    /// A number of bytes, entries or milliseconds.
    fn count(&mut self, number: u64) {
        self.integer(i64::try_from(number).unwrap_or(i64::MAX));
    }
}

impl Sink for Encoder<'_> {
    #[inline]
    fn is_resp3(&self) -> bool {
        self.resp3
    }
    #[inline]
    fn shares(&self, bytes: usize) -> bool {
        bytes >= self.spliced_bytes_min
    }
    #[inline]
    fn count_lookups(&mut self, hits: u64, misses: u64) {
        self.lookups.0 += hits;
        self.lookups.1 += misses;
    }
    fn note_too_large(&mut self, is_too_large: bool) {
        self.is_too_large = is_too_large;
    }
    #[inline]
    fn null(&mut self) {
        Encoder::null(self);
    }
    fn boolean(&mut self, flag: bool) {
        Encoder::boolean(self, flag);
    }
    #[inline]
    fn integer(&mut self, number: i64) {
        Encoder::integer(self, number);
    }
    #[inline]
    fn digits(&mut self, digits: &[u8]) {
        Encoder::digits(self, digits);
    }
    fn double(&mut self, number: f64) {
        Encoder::double(self, number);
    }
    fn big_number(&mut self, digits: &[u8]) {
        Encoder::big_number(self, digits);
    }
    #[inline]
    fn bulk(&mut self, bytes: &[u8]) {
        Encoder::bulk(self, bytes);
    }
    fn bulk_of(&mut self, value: Shared, range: Range<usize>) {
        Encoder::bulk_of(self, value, range);
    }
    fn verbatim_as(&mut self, format: [u8; 3], text: &[u8]) {
        Encoder::verbatim_as(self, format, text);
    }
    fn status(&mut self, text: &[u8]) {
        Encoder::status(self, text);
    }
    fn error(&mut self, text: &[u8]) {
        Encoder::error(self, text);
    }
    fn array(&mut self, length: usize) {
        Encoder::array(self, length);
    }
    fn map(&mut self, pairs: usize) {
        Encoder::map(self, pairs);
    }
    fn set(&mut self, length: usize) {
        Encoder::set(self, length);
    }
    #[inline]
    fn ok(&mut self) {
        Encoder::ok(self);
    }
}

/// Builds the value of one reply. In RESP2 it has the types of RESP2 only.
#[derive(Debug)]
pub(super) struct ValueSink {
    resp3: bool,
    /// The containers that are not complete, the innermost at the end.
    open: Vec<Open>,
    complete: Option<Value>,
}

#[derive(Debug)]
struct Open {
    kind: Container,
    /// The values that it will have.
    length: usize,
    values: Vec<Value>,
}

#[derive(Clone, Copy, Debug)]
enum Container {
    List,
    Set,
    Map,
}

impl Open {
    fn value(self) -> Value {
        match self.kind {
            Container::List => Value::List(self.values),
            Container::Set => Value::Set(self.values),
            Container::Map => {
                let mut values = self.values.into_iter();
                let mut pairs = Vec::with_capacity(self.length / 2);
                while let (Some(key), Some(value)) = (values.next(), values.next()) {
                    pairs.push((key, value));
                }
                Value::Map(pairs)
            }
        }
    }
}

impl ValueSink {
    pub(super) fn new(resp3: bool) -> ValueSink {
        ValueSink { resp3, open: Vec::new(), complete: None }
    }

    /// The value; null if the reply is not complete.
    pub(super) fn into_value(self) -> Value {
        self.complete.unwrap_or(Value::Null)
    }

    /// Adds a complete value to the innermost container, which may complete that.
    fn add(&mut self, mut value: Value) {
        while let Some(open) = self.open.last_mut() {
            open.values.push(value);
            if open.values.len() < open.length {
                return;
            }
            match self.open.pop() {
                Some(open) => value = open.value(),
                None => return,
            }
        }
        self.complete.get_or_insert(value);
    }

    /// Begins a container of this number of values.
    fn begin(&mut self, kind: Container, length: usize) {
        let open = Open { kind, length, values: Vec::new() };
        match length {
            0 => self.add(open.value()),
            _ => self.open.push(open),
        }
    }
}

impl Sink for ValueSink {
    fn is_resp3(&self) -> bool {
        self.resp3
    }
    fn shares(&self, _: usize) -> bool {
        false
    }
    fn count_lookups(&mut self, _: u64, _: u64) {}
    fn note_too_large(&mut self, _: bool) {}
    fn null(&mut self) {
        self.add(Value::Null);
    }
    fn boolean(&mut self, flag: bool) {
        self.add(match self.resp3 {
            true => Value::Boolean(flag),
            false => Value::Integer(i64::from(flag)),
        });
    }
    fn integer(&mut self, number: i64) {
        self.add(Value::Integer(number));
    }
    fn digits(&mut self, digits: &[u8]) {
        let number = todana_command::parse_signed(digits);
        self.add(number.map_or(Value::Null, Value::Integer));
    }
    fn double(&mut self, number: f64) {
        self.add(match self.resp3 {
            true => Value::Double(number),
            false => Value::Bytes(number.to_string().into_bytes()),
        });
    }
    fn big_number(&mut self, digits: &[u8]) {
        self.add(match self.resp3 {
            true => Value::BigNumber(one_line(digits).into_owned()),
            false => Value::Bytes(digits.to_vec()),
        });
    }
    fn bulk(&mut self, bytes: &[u8]) {
        self.add(Value::Bytes(bytes.to_vec()));
    }
    fn bulk_of(&mut self, value: Shared, range: Range<usize>) {
        self.bulk(value.get(range).unwrap_or_default());
    }
    fn verbatim_as(&mut self, format: [u8; 3], text: &[u8]) {
        self.add(match self.resp3 {
            true => Value::Verbatim(format, text.to_vec()),
            false => Value::Bytes(text.to_vec()),
        });
    }
    fn status(&mut self, text: &[u8]) {
        self.add(Value::Status(one_line(text).into_owned()));
    }
    fn error(&mut self, text: &[u8]) {
        self.add(Value::Error(one_line(text).into_owned()));
    }
    fn array(&mut self, length: usize) {
        self.begin(Container::List, length);
    }
    fn map(&mut self, pairs: usize) {
        match self.resp3 {
            true => self.begin(Container::Map, 2 * pairs),
            false => self.begin(Container::List, 2 * pairs),
        }
    }
    fn set(&mut self, length: usize) {
        self.begin(if self.resp3 { Container::Set } else { Container::List }, length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(resp3: bool, write: impl Fn(&mut ValueSink)) -> Value {
        let mut sink = ValueSink::new(resp3);
        write(&mut sink);
        sink.into_value()
    }

    fn number(number: i64) -> Value {
        Value::Integer(number)
    }

    #[test]
    fn containers_end_with_their_last_value() {
        let nested = built(true, |sink| {
            sink.array(3);
            sink.integer(1);
            sink.map(1);
            sink.integer(2);
            sink.set(2);
            sink.integer(3);
            sink.array(0);
            sink.integer(4);
        });
        let set = Value::Set(vec![number(3), Value::List(vec![])]);
        let map = Value::Map(vec![(number(2), set)]);
        assert_eq!(nested, Value::List(vec![number(1), map, number(4)]));
    }

    #[test]
    fn resp2_has_its_own_types_only() {
        let bytes = |text: &str| Value::Bytes(text.as_bytes().to_vec());
        assert_eq!(built(false, |sink| sink.boolean(true)), number(1));
        assert_eq!(built(false, |sink| sink.double(1.5)), bytes("1.5"));
        assert_eq!(built(false, |sink| sink.big_number(b"7")), bytes("7"));
        assert_eq!(built(false, |sink| sink.verbatim_as(*b"txt", b"a")), bytes("a"));
        assert_eq!(built(false, |sink| sink.set(0)), Value::List(vec![]));
        let pairs = built(false, |sink| {
            sink.map(1);
            sink.null();
            sink.digits(b"-5");
        });
        assert_eq!(pairs, Value::List(vec![Value::Null, number(-5)]));
    }

    #[test]
    fn texts_are_one_line() {
        assert_eq!(
            built(true, |sink| sink.error(b"ERR a\r\nb")),
            Value::Error(b"ERR a  b".to_vec())
        );
        assert_eq!(built(true, |sink| sink.ok()), Value::Status(b"OK".to_vec()));
    }

    #[test]
    fn an_incomplete_reply_is_null() {
        assert_eq!(built(true, |_| {}), Value::Null);
        assert_eq!(built(true, |sink| sink.array(1)), Value::Null);
    }
}
