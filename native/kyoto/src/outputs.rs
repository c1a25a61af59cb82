//! The outputs of a procedure: a map from names to values, and the choice of their encoding.
//!
//! Rows are sent in byte order of their encoded names. If a column is long or contains control
//! characters, all columns are encoded, by Base64 or URL encoding, whichever an estimate finds
//! shorter. `body_writer.rs` writes them.

use super::columns::Encoding;
use smallvec::SmallVec;

/// Bytes of a column that the choice of the encoding considers.
const COLUMN_BYTES: usize = 255;

/// The outputs.
#[derive(Debug)]
pub(super) struct Outputs {
    pub(super) bytes: Vec<u8>,
    pub(super) lines: SmallVec<[Line; 4]>,
    /// Whether the names so far came in order and without duplicates.
    pub(super) in_order: bool,
    /// Length of the longest name.
    pub(super) name_bytes_max: usize,
    needs_encoding: bool,
    /// Estimated total lengths, encoded.
    base64_bytes: usize,
    url_bytes: usize,
}

/// The spans of a name and its value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) name: (usize, usize),
    pub(super) value: (usize, usize),
}

impl Default for Outputs {
    fn default() -> Outputs {
        Outputs {
            bytes: Vec::new(),
            lines: SmallVec::new(),
            in_order: true,
            name_bytes_max: 0,
            needs_encoding: false,
            base64_bytes: 0,
            url_bytes: 0,
        }
    }
}

impl Outputs {
    /// Adds a row. If a name occurs several times, its last row counts.
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8]) {
        self.bytes.reserve(name.len() + value.len());
        self.bytes.extend_from_slice(name);
        self.add(name.len(), value);
    }

    /// Adds a row whose name is `_` and a key.
    pub(super) fn insert_record(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.reserve(1 + key.len() + value.len());
        self.bytes.push(b'_');
        self.bytes.extend_from_slice(key);
        self.add(1 + key.len(), value);
    }

    /// Adds a row whose value is a whole number.
    pub(super) fn insert_number(&mut self, name: &str, number: impl itoa::Integer) {
        self.insert(name.as_bytes(), itoa::Buffer::new().format(number).as_bytes());
    }

    /// Bytes kept between turns.
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.lines.capacity() * size_of::<Line>()
    }

    /// Bytes of all names and values.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Removes all rows.
    pub(super) fn clear(&mut self) {
        *self = Outputs::default();
    }

    /// The encoding of the columns.
    pub(super) fn encoding(&self) -> Option<Encoding> {
        let shorter =
            if self.base64_bytes < self.url_bytes { Encoding::Base64 } else { Encoding::Url };
        self.needs_encoding.then_some(shorter)
    }

    /// Adds a row whose name is the last `name_bytes` bytes.
    fn add(&mut self, name_bytes: usize, value: &[u8]) {
        let end = self.bytes.len();
        let name = (end - name_bytes, end);
        self.name_bytes_max = self.name_bytes_max.max(name_bytes);
        self.bytes.extend_from_slice(value);
        let value = (end, self.bytes.len());
        for (start, end) in [name, value] {
            self.weigh(start, end);
        }
        if let Some(last) = self.lines.last() {
            let last = &self.bytes[last.name.0..last.name.1];
            self.in_order &= last < &self.bytes[name.0..name.1];
        }
        self.lines.push(Line { name, value });
    }

    /// Counts a column towards the choice of the encoding.
    fn weigh(&mut self, start: usize, end: usize) {
        let length = (end - start).min(COLUMN_BYTES);
        self.needs_encoding |= end - start > COLUMN_BYTES;
        self.base64_bytes += length * 6 / 4 + 3;
        for &byte in &self.bytes[start..start + length] {
            self.needs_encoding |= byte < b' ' || byte == 0x7f;
            self.url_bytes += if is_plain(byte) { 1 } else { 3 };
        }
    }
}

/// Whether the estimate takes a byte for one that needs no escape. (It is wrong for some of them.)
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'_' | b'.' | b'!' | b'~' | b'*' | b'\'' | b'(' | b')' | b'-')
}
