//! Formats the replies of the store's commands.

use super::reply_format::{BUSY_KEY, FULL, INVALID_TTL, ReplyFormat, WRONG_TYPE};
use super::request::NOT_AN_INTEGER;
use super::sink::Sink;
use std::ops::Range;
use todana_command::{
    Description, Error, LcsSpan, LeaseState, Record, Refusal, Reply, Value, describe_record,
};
use todana_table::{Kind, Shared};

/// A reply in the format of its command.
pub(super) struct Formatted<'s, S> {
    pub(super) sink: &'s mut S,
    pub(super) format: ReplyFormat,
    /// The current time, for formats that show the time to live.
    pub(super) now_ms: u64,
}

impl<S: Sink> Formatted<'_, S> {
    fn fail(&mut self, text: &(impl AsRef<[u8]> + ?Sized)) {
        self.sink.error(text.as_ref());
    }

    /// A key and its value.
    fn pair(&mut self, record: Record<'_>) {
        if self.sink.is_resp3() {
            self.sink.array(2);
        }
        self.sink.bulk(record.key);
        self.sink.bulk(record.value);
    }
}

impl<S: Sink> Reply for Formatted<'_, S> {
    #[inline]
    fn done(&mut self) {
        match self.format {
            ReplyFormat::OneOrZero | ReplyFormat::RenameNx => self.sink.integer(1),
            _ => self.sink.ok(),
        }
    }

    #[inline]
    fn none(&mut self) {
        if self.format == ReplyFormat::Fields {
            return self.sink.null();
        }
        if self.format == ReplyFormat::Type {
            return self.sink.status(b"none");
        }
        self.sink.count_lookups(0, 1);
        match self.format {
            ReplyFormat::Expiry { .. } => self.sink.integer(-2),
            ReplyFormat::DebugObject => self.fail("ERR no such key"),
            _ => self.sink.null(),
        }
    }

    #[inline]
    fn record(&mut self, record: Record<'_>) {
        if self.format == ReplyFormat::Pairs {
            return self.pair(record);
        }
        // A transaction of the log describes a record by itself until all members know better.
        if let ReplyFormat::Type
        | ReplyFormat::Encoding
        | ReplyFormat::Always(_)
        | ReplyFormat::DebugObject
        | ReplyFormat::NotTracked = self.format
        {
            return self.description(describe_record(record));
        }
        self.sink.count_lookups(1, 0);
        match self.format {
            ReplyFormat::GetExFailure { integer: false } => Reply::error(self, Error::NotAnInteger),
            ReplyFormat::GetExFailure { integer: true } => {
                self.fail("ERR invalid expire time in 'getex' command");
            }
            _ => self.sink.bulk(record.value),
        }
    }

    fn description(&mut self, it: Description<'_>) {
        if self.format == ReplyFormat::Type {
            return self.sink.status(it.kind.name().as_bytes());
        }
        self.sink.count_lookups(1, 0);
        match self.format {
            ReplyFormat::Always(number) => self.sink.integer(number),
            ReplyFormat::DebugObject => {
                let (encoding, length) = (encoding(&it), it.length);
                self.sink.status(format!(
                    "Value at:0x0 refcount:1 encoding:{encoding} serializedlength:{length} lru:0 \
                     lru_seconds_idle:0"
                ).as_bytes());
            }
            ReplyFormat::NotTracked => self.fail("ERR access frequency is not tracked"),
            _ => self.sink.text(encoding(&it)),
        }
    }

    #[inline]
    fn holds(&self, value_bytes: usize) -> bool {
        self.sink.shares(value_bytes)
    }

    fn held(&mut self, shared: Shared) {
        if self.format == ReplyFormat::Plain {
            self.sink.count_lookups(1, 0);
            let range = 0..shared.len();
            return self.sink.bulk_of(shared, range);
        }
        self.record(Record::of_shared(&shared));
    }

    fn lease(&mut self, record: Record<'_>, _state: LeaseState) {
        self.sink.bulk(record.value);
    }

    #[inline]
    fn stored(&mut self, _version: u64) {
        self.done();
    }

    fn refused(&mut self, refusal: Refusal) {
        match self.format {
            ReplyFormat::Rename | ReplyFormat::RenameNx if refusal == Refusal::Absent => {
                self.fail("ERR no such key");
            }
            ReplyFormat::OneOrZero | ReplyFormat::RenameNx => self.sink.integer(0),
            ReplyFormat::Restore => self.fail(BUSY_KEY),
            ReplyFormat::Sort { .. } => self.fail(WRONG_TYPE),
            _ => self.sink.null(),
        }
    }

    #[inline]
    fn integer(&mut self, number: i64) {
        match self.format {
            ReplyFormat::Found(asked) => {
                let found = u64::try_from(number).unwrap_or(0);
                self.sink.count_lookups(found, (asked as u64).saturating_sub(found));
                self.sink.integer(number);
            }
            ReplyFormat::RestoreFailure { .. } if number > 0 => self.fail(BUSY_KEY),
            ReplyFormat::RestoreFailure { integer: true } => self.fail(INVALID_TTL),
            ReplyFormat::RestoreFailure { integer: false } => self.fail(&NOT_AN_INTEGER),
            ReplyFormat::Sort { stores: false } if number > 0 => self.fail(WRONG_TYPE),
            ReplyFormat::Sort { stores: false } => self.sink.array(0),
            _ => self.sink.integer(number),
        }
    }

    #[inline]
    fn number(&mut self, record: Record<'_>) {
        self.sink.digits(record.value);
    }

    #[inline]
    fn length(&mut self, length: usize, _version: u64) {
        self.sink.integer(i64::try_from(length).unwrap_or(i64::MAX));
    }

    fn flag(&mut self, flag: bool) {
        self.sink.integer(i64::from(flag));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.sink.bulk(bytes);
    }

    fn part(&mut self, shared: Shared, range: Range<usize>) {
        self.sink.bulk_of(shared, range);
    }

    fn expiry(&mut self, expires_at_ms: Option<u64>) {
        self.sink.count_lookups(1, 0);
        let Some(at_ms) = expires_at_ms else { return self.sink.integer(-1) };
        let (absolute, seconds) = match self.format {
            ReplyFormat::Expiry { absolute, seconds } => (absolute, seconds),
            _ => (true, false),
        };
        let ms = if absolute { at_ms } else { at_ms.saturating_sub(self.now_ms) };
        self.sink.count(if seconds { ms.saturating_add(500) / 1000 } else { ms });
    }

    fn list(&mut self, length: usize) {
        match self.format {
            ReplyFormat::ListLength => self.sink.count(length as u64),
            _ => self.sink.array(length),
        }
    }

    fn page(&mut self, cursor: u64, length: usize) {
        self.sink.array(2);
        self.sink.bulk(itoa::Buffer::new().format(cursor).as_bytes());
        self.sink.array(if self.format == ReplyFormat::NoKeys { 0 } else { length });
    }

    fn slice(&mut self, _after: Option<&[u8]>, length: usize) {
        match self.format {
            ReplyFormat::Pairs if !self.sink.is_resp3() => self.sink.array(2 * length),
            _ => self.sink.array(length),
        }
    }

    #[inline]
    fn key(&mut self, key: &[u8]) {
        if !matches!(self.format, ReplyFormat::NoKeys | ReplyFormat::ListLength) {
            self.sink.bulk(key);
        }
    }

    fn matches(&mut self, spans: &[LcsSpan], length: usize, with_lengths: bool) {
        self.sink.map(2);
        self.sink.text("matches");
        self.sink.array(spans.len());
        for LcsSpan { first, second } in spans {
            self.sink.array(2 + usize::from(with_lengths));
            for (from, to) in [first, second] {
                self.sink.array(2);
                self.sink.count(*from as u64);
                self.sink.count(*to as u64);
            }
            if with_lengths {
                self.sink.count((first.1 - first.0 + 1) as u64);
            }
        }
        self.sink.text("len");
        self.sink.count(length as u64);
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.sink.null(),
            Value::Boolean(flag) => self.sink.boolean(*flag),
            Value::Integer(number) => self.sink.integer(*number),
            Value::Double(number) => self.sink.double(*number),
            Value::Bytes(bytes) => self.sink.bulk(bytes),
            Value::Status(text) => self.sink.status(text),
            Value::Error(text) => self.fail(text),
            Value::BigNumber(digits) => self.sink.big_number(digits),
            Value::Verbatim(format, text) => self.sink.verbatim_as(*format, text),
            Value::List(values) => {
                self.sink.array(values.len());
                values.iter().for_each(|value| self.value(value));
            }
            Value::Set(values) => {
                self.sink.set(values.len());
                values.iter().for_each(|value| self.value(value));
            }
            Value::Map(pairs) => {
                self.sink.map(pairs.len());
                for (key, value) in pairs {
                    self.value(key);
                    self.value(value);
                }
            }
        }
    }

    fn error(&mut self, error: Error) {
        let text = match error {
            Error::NotAnInteger => "ERR value is not an integer or out of range",
            Error::NotAFloat => "ERR value is not a valid float",
            Error::Overflow => "ERR increment or decrement would overflow",
            Error::NotFinite => "ERR increment would produce NaN or Infinity",
            Error::ValueTooLarge => "ERR string exceeds maximum allowed size (proto-max-bulk-len)",
            Error::Full => FULL,
            Error::NoSuchDatabase => "ERR DB index is out of range",
            Error::SameObject => "ERR source and destination objects are the same",
            Error::NotACounter => "ERR value is not a counter of this kind",
            Error::NotOrdered => {
                "ERR the database is not ordered: name it + or % when the server is started"
            }
            Error::ReplyTooLarge => "ERR too many keys for one reply, use SCAN",
            Error::TooManyKeys => "ERR too many keys are passed over to do this within EXEC",
            Error::NoScripts => "ERR scripts are not available",
            Error::DifferentDurability => {
                "ERR one of the databases is durable and the other is not"
            }
            Error::NotASketch => "WRONGTYPE Key is not a valid HyperLogLog string value.",
            Error::CorruptSketch => "INVALIDOBJ Corrupted HLL object detected",
            Error::BadPayload => "ERR DUMP payload version or checksum are wrong",
            Error::BadFormat => "ERR Bad data format",
            Error::OtherType => {
                "ERR the payload is not a string: Todana has no lists, hashes, sets, sorted sets \
                 or streams"
            }
            Error::WrongKind(_) => WRONG_TYPE,
            Error::Contended => "ERR the values were changed too often while BITOP read them",
        };
        self.sink.note_too_large(error == Error::ValueTooLarge);
        self.fail(text);
    }
}

/// Longest value that Redis stores beside its object.
const EMBEDDED_BYTES_MAX: usize = 44;

/// Redis' name for the encoding of this record.
fn encoding(it: &Description<'_>) -> &'static str {
    match it.kind {
        Kind::String if it.is_integer => "int",
        Kind::String if it.length <= EMBEDDED_BYTES_MAX => "embstr",
        Kind::String => "raw",
        Kind::Stream => "stream",
        // A block.
        Kind::Hash | Kind::List | Kind::Set | Kind::SortedSet => "listpack",
    }
}
