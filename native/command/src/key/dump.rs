//! DUMP and RESTORE: a value in the form of Redis' snapshots.
//!
//! ```text
//!   type 1: 00 string | the string | version 2 | CRC-64 of all before it 8     lowest byte first
//!
//!   the string    00llllll                    l bytes follow
//!                 01llllll llllllll           the same
//!                 80 llll.., 81 llllllll..    the same, with a length of 4 or 8 bytes
//!                 c0 n, c1 nn, c2 nnnn        a decimal integer, lowest byte first
//!                 c3 length, length, bytes    compressed by LZF: both lengths, as above
//! ```

use crate::key::crc64::crc64;
use crate::key::lzf::{Decompression, NotLzf};
use crate::record::{Held, is_past, resolve};
use crate::{Context, Error, Expires, Refusal, Reply};
use todana_table::{Filling, Full, Keyspace, Meta};

/// The version of the format, that of Redis 7.0. Later versions have the same strings.
const VERSION: u16 = 10;

const STRING: u8 = 0;
const FOOT_BYTES: usize = 10;

/// Longest decimal integer that is stored as one.
const INTEGER_TEXT_BYTES_MAX: usize = 11;

/// Bytes that a slice checks, copies or decompresses: about a millisecond.
const SLICE_BYTES: usize = 1 << 20;

/// Payloads from this length on are made in slices.
const FILLED_BYTES_MIN: usize = 256 << 10;

/// What precedes the bytes of a value.
type Front = Vec<u8>;

/// The front of a payload, which is all of the string if the value is an integer.
fn front(value: &[u8]) -> (Front, bool) {
    let mut front = Front::with_capacity(12);
    front.push(STRING);
    if let Some(number) = short_integer(value) {
        match (i8::try_from(number), i16::try_from(number)) {
            (Ok(byte), _) => front.extend([0xc0, byte.cast_unsigned()]),
            (_, Ok(word)) => {
                front.push(0xc1);
                front.extend_from_slice(&word.to_le_bytes());
            }
            _ => {
                front.push(0xc2);
                front.extend_from_slice(&number.to_le_bytes());
            }
        }
        return (front, true);
    }
    let length = value.len();
    match length {
        0..0x40 => front.push(length as u8),
        0x40..0x4000 => front.extend([0x40 | (length >> 8) as u8, length as u8]),
        _ => match u32::try_from(length) {
            Ok(length) => {
                front.push(0x80);
                front.extend_from_slice(&length.to_be_bytes());
            }
            Err(_) => {
                front.push(0x81);
                front.extend_from_slice(&(length as u64).to_be_bytes());
            }
        },
    }
    (front, false)
}

fn short_integer(value: &[u8]) -> Option<i32> {
    if value.len() > INTEGER_TEXT_BYTES_MAX {
        return None;
    }
    let text = std::str::from_utf8(value).ok()?;
    let number: i32 = text.parse().ok()?;
    (itoa::Buffer::new().format(number) == text).then_some(number)
}

fn foot(sum: u64) -> [u8; FOOT_BYTES] {
    let version = VERSION.to_le_bytes();
    let mut foot = [0; FOOT_BYTES];
    foot[..2].copy_from_slice(&version);
    foot[2..].copy_from_slice(&crc64(sum, &version).to_le_bytes());
    foot
}

/// The payload of a value.
fn payload(value: &[u8]) -> Vec<u8> {
    let (front, is_complete) = front(value);
    let value = if is_complete { &[][..] } else { value };
    let mut payload = Vec::with_capacity(front.len() + value.len() + FOOT_BYTES);
    payload.extend_from_slice(&front);
    payload.extend_from_slice(value);
    payload.extend_from_slice(&foot(crc64(0, &payload)));
    payload
}

/// DUMP.
pub(crate) fn dump<K: Keyspace, R: Reply>(space: &K, key: &[u8], now_ms: u64, reply: &mut R) {
    // The payload of a large value is made without the lock.
    match Held::read(space, key, now_ms) {
        Ok(Some(held)) => reply.bytes(&payload(held.value())),
        Ok(None) => reply.none(),
        Err(wrong) => reply.error(wrong.into()),
    }
}

/// A DUMP of a large value in progress.
#[derive(Debug)]
pub(crate) struct Dumping {
    value: Held,
    front: Front,
    sum: u64,
    payload: Filling,
}

impl Dumping {
    /// Begins; `None` if the value is short, or there is no record.
    pub(crate) fn begin<K: Keyspace>(space: &K, key: &[u8], now_ms: u64) -> Option<Dumping> {
        let value = space.read(key, now_ms, |entry| {
            Held::of(&entry?).ok().filter(|held| held.value().len() >= FILLED_BYTES_MIN)
        })?;
        let (front, _) = front(value.value());
        let length = front.len() + value.value().len() + FOOT_BYTES;
        let mut payload = Filling::new(length).ok()?;
        payload.push(&front);
        Some(Dumping { sum: crc64(0, &front), value, front, payload })
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.value.own_bytes() + self.payload.len()
    }

    /// Makes some more of the payload, and replies at the end.
    pub(crate) fn go_on<R: Reply>(mut self, reply: &mut R) -> Option<Dumping> {
        let value = self.value.value();
        let at = self.payload.filled() - self.front.len();
        let part = &value[at..value.len().min(at + SLICE_BYTES)];
        self.payload.push(part);
        self.sum = crc64(self.sum, part);
        if at + part.len() < value.len() {
            return Some(self);
        }
        self.payload.push(&foot(self.sum));
        let Ok(prepared) = self.payload.prepared(&[], Meta::default()) else {
            reply.error(Error::Full);
            return None;
        };
        match prepared.entry().share() {
            Some(payload) => {
                let length = payload.len();
                reply.part(payload, 0..length);
            }
            None => reply.bytes(prepared.entry().stored().bytes()),
        }
        None
    }
}

/// The string of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content<'p> {
    Plain(&'p [u8]),
    Integer(i32),
    Compressed { bytes: &'p [u8], length: usize },
}

impl<'p> Content<'p> {
    /// Reads what lies between type and foot.
    fn of(payload: &'p [u8]) -> Result<Content<'p>, Error> {
        let end = payload.len().checked_sub(FOOT_BYTES).ok_or(Error::BadPayload)?;
        let (kind, mut rest) = payload[..end].split_first().ok_or(Error::BadPayload)?;
        if *kind != STRING {
            return Err(Error::OtherType);
        }
        let content = Content::take(&mut rest).ok_or(Error::BadFormat)?;
        if rest.is_empty() { Ok(content) } else { Err(Error::BadFormat) }
    }

    fn take(rest: &mut &'p [u8]) -> Option<Content<'p>> {
        let first = *rest.first()?;
        if first >> 6 != 3 {
            let length = length(rest)?;
            return bytes(rest, length).map(Content::Plain);
        }
        *rest = &rest[1..];
        match first & 0x3f {
            0 => Some(Content::Integer(i8::from_le_bytes(array(rest)?).into())),
            1 => Some(Content::Integer(i16::from_le_bytes(array(rest)?).into())),
            2 => Some(Content::Integer(i32::from_le_bytes(array(rest)?))),
            3 => {
                let (compressed, length) = (length(rest)?, length(rest)?);
                Some(Content::Compressed { bytes: bytes(rest, compressed)?, length })
            }
            _ => None,
        }
    }

    fn length(&self) -> usize {
        match self {
            Content::Plain(bytes) => bytes.len(),
            Content::Integer(_) => INTEGER_TEXT_BYTES_MAX,
            Content::Compressed { length, .. } => *length,
        }
    }
}

fn bytes<'p>(rest: &mut &'p [u8], count: usize) -> Option<&'p [u8]> {
    let (bytes, after) = rest.split_at_checked(count)?;
    *rest = after;
    Some(bytes)
}

fn array<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    bytes(rest, N)?.try_into().ok()
}

fn length(rest: &mut &[u8]) -> Option<usize> {
    let [first] = array(rest)?;
    match (first >> 6, first) {
        (0, _) => Some(usize::from(first)),
        (1, _) => {
            let [low] = array(rest)?;
            Some(usize::from(first & 0x3f) << 8 | usize::from(low))
        }
        (_, 0x80) => Some(u32::from_be_bytes(array(rest)?) as usize),
        (_, 0x81) => usize::try_from(u64::from_be_bytes(array(rest)?)).ok(),
        _ => None,
    }
}

/// The length of the value in a payload, as far as it says; 0 if it is none.
pub(crate) fn value_length(payload: &[u8]) -> usize {
    Content::of(payload).map_or(0, |content| content.length())
}

/// The arguments of RESTORE.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Restored<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) payload: &'a [u8],
    pub(crate) expires: Expires,
    pub(crate) replace: bool,
}

/// A RESTORE in progress.
#[derive(Debug, Default)]
pub(crate) struct Restoring {
    /// Bytes of the payload that are in the checksum.
    checked: usize,
    sum: u64,
    decompression: Decompression,
    filling: Option<Filling>,
}

impl Restoring {
    pub(crate) fn held_bytes(&self) -> usize {
        self.decompression.held_bytes() + self.filling.as_ref().map_or(0, Filling::len)
    }

    /// Does some more of the work, and replies at the end.
    pub(crate) fn go_on<K: Keyspace, R: Reply>(
        self,
        space: &K,
        restored: &Restored<'_>,
        context: Context,
        reply: &mut R,
    ) -> Option<Restoring> {
        self.step(space, restored, context, SLICE_BYTES, reply).unwrap_or_else(|error| {
            reply.error(error);
            None
        })
    }

    fn step<K: Keyspace, R: Reply>(
        mut self,
        space: &K,
        restored: &Restored<'_>,
        context: Context,
        bytes_max: usize,
        reply: &mut R,
    ) -> Result<Option<Restoring>, Error> {
        let Restored { key, payload, replace, .. } = *restored;
        let now_ms = context.now_ms;
        let is_first = self.checked == 0;
        if is_first && !replace && space.read(key, now_ms, |entry| entry.is_some()) {
            reply.refused(Refusal::Present);
            return Ok(None);
        }
        let (body, sum) = payload.split_last_chunk::<8>().ok_or(Error::BadPayload)?;
        if self.checked < body.len() || is_first {
            let end = body.len().min(self.checked.saturating_add(bytes_max));
            self.sum = crc64(self.sum, &body[self.checked..end]);
            self.checked = end;
            if end < body.len() {
                return Ok(Some(self));
            }
            if self.sum != u64::from_le_bytes(*sum) {
                return Err(Error::BadPayload);
            }
        }
        let content = Content::of(payload)?;
        if content.length() > context.value_bytes_max {
            return Err(Error::ValueTooLarge);
        }
        match content {
            Content::Integer(number) => {
                let text = itoa::Buffer::new().format(number).to_owned();
                store(space, restored, text.as_bytes(), now_ms, reply)?;
            }
            Content::Plain(value) if value.len() < FILLED_BYTES_MIN => {
                store(space, restored, value, now_ms, reply)?;
            }
            Content::Plain(value) => {
                let mut filling = match self.filling.take() {
                    Some(filling) => filling,
                    None => Filling::new(value.len()).map_err(|Full| Error::Full)?,
                };
                let at = filling.filled();
                filling.push(&value[at..value.len().min(at.saturating_add(bytes_max))]);
                if filling.filled() < value.len() {
                    self.filling = Some(filling);
                    return Ok(Some(self));
                }
                store_filled(space, restored, filling, now_ms, reply)?;
            }
            Content::Compressed { bytes, length } => {
                let ended = self.decompression.go_on(bytes, length, bytes_max);
                if !ended.map_err(|NotLzf| Error::BadFormat)? {
                    return Ok(Some(self));
                }
                store(space, restored, &self.decompression.into_bytes(), now_ms, reply)?;
            }
        }
        Ok(None)
    }
}

/// RESTORE in one go.
pub(crate) fn restore<K: Keyspace, R: Reply>(
    space: &K,
    restored: &Restored<'_>,
    context: Context,
    reply: &mut R,
) {
    let mut stage = Some(Restoring::default());
    while let Some(restoring) = stage {
        stage = match restoring.step(space, restored, context, usize::MAX, reply) {
            Ok(stage) => stage,
            Err(error) => {
                reply.error(error);
                None
            }
        };
    }
}

fn store<K: Keyspace, R: Reply>(
    space: &K,
    restored: &Restored<'_>,
    value: &[u8],
    now_ms: u64,
    reply: &mut R,
) -> Result<(), Error> {
    if value.len() >= FILLED_BYTES_MIN {
        let mut filling = Filling::new(value.len()).map_err(|Full| Error::Full)?;
        filling.push(value);
        return store_filled(space, restored, filling, now_ms, reply);
    }
    let meta = meta(restored, now_ms);
    put(space, restored, now_ms, reply, |locked| locked.put(&[value], meta))
}

fn store_filled<K: Keyspace, R: Reply>(
    space: &K,
    restored: &Restored<'_>,
    filling: Filling,
    now_ms: u64,
    reply: &mut R,
) -> Result<(), Error> {
    let meta = meta(restored, now_ms);
    let prepared = filling.prepared(restored.key, meta).map_err(|Full| Error::Full)?;
    put(space, restored, now_ms, reply, |locked| locked.put_prepared(prepared))
}

fn meta(restored: &Restored<'_>, now_ms: u64) -> Meta {
    let expires_at_ms = resolve(restored.expires, None, now_ms);
    Meta { expires_at_ms, ..Meta::default() }
}

fn put<K: Keyspace, R: Reply>(
    space: &K,
    restored: &Restored<'_>,
    now_ms: u64,
    reply: &mut R,
    put: impl FnOnce(&mut todana_table::LockedKey<'_>) -> Result<u64, Full>,
) -> Result<(), Error> {
    let stored = space.update(restored.key, now_ms, |locked| {
        if !restored.replace && locked.entry().is_some() {
            return Ok(false);
        }
        put(locked)?;
        if is_past(resolve(restored.expires, None, now_ms), now_ms) {
            locked.remove();
        }
        Ok(true)
    });
    match stored {
        Ok(true) => reply.done(),
        Ok(false) => reply.refused(Refusal::Present),
        Err(Full) => return Err(Error::Full),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_those_of_redis() {
        // By redis-server 7.0.
        for (value, dumped) in [
            ("10", "00c00a0a00"),
            ("-129", "00c17fff0a00"),
            ("70000", "00c2701101000a00"),
            ("hello", "000568656c6c6f0a00"),
            ("007", "00033030370a00"),
            ("", "00000a00"),
        ] {
            let payload = payload(value.as_bytes());
            let hex: String = payload.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(&hex[..hex.len() - 16], dumped, "{value}");
        }
    }

    #[test]
    fn contents_of_every_length_are_read_back() {
        for length in [0, 1, 63, 64, 16_383, 16_384, 70_000] {
            let value = vec![b'x'; length];
            let payload = payload(&value);
            assert_eq!(Content::of(&payload), Ok(Content::Plain(&value)));
            assert_eq!(value_length(&payload), length);
        }
        for number in [0, -1, 127, 128, -128, -129, 32_767, 32_768, i32::MAX, i32::MIN] {
            let payload = payload(number.to_string().as_bytes());
            assert_eq!(Content::of(&payload), Ok(Content::Integer(number)));
        }
    }

    #[test]
    fn other_contents_are_refused() {
        let with_foot = |bytes: &[u8]| [bytes, &[0; FOOT_BYTES]].concat();
        for (bytes, error) in [
            (&b""[..], Error::BadPayload),
            (b"\x01\x00", Error::OtherType),
            (b"\x00", Error::BadFormat),
            (b"\x00\x05abcd", Error::BadFormat),
            (b"\x00\x03abcd", Error::BadFormat),
            (b"\x00\xc1\x00", Error::BadFormat),
            (b"\x00\xc4\x00", Error::BadFormat),
            (b"\x00\xc3\x05\x05ab", Error::BadFormat),
            (b"\x00\x81\xff\xff\xff\xff\xff\xff\xff\xff", Error::BadFormat),
            (b"\x00\x82\x00", Error::BadFormat),
        ] {
            assert_eq!(Content::of(&with_foot(bytes)), Err(error), "{bytes:?}");
        }
        assert_eq!(Content::of(b"short"), Err(Error::BadPayload));
    }
}
