//! The inputs of a procedure: a map from names to values, taken from the query and the body.
//!
//! ```text
//!   ?DB=1&key=a%20b                                    the query is form data
//!   Content-Type: application/x-www-form-urlencoded    so is this body
//!   Content-Type: text/tab-separated-values; colenc=U  name TAB value LF, encoded or not
//! ```
//!
//! If a name occurs several times, its last field counts. Columns without encoding stay where they
//! are in the body; the others are decoded into one buffer (`reading.rs`).

use smallvec::SmallVec;
use std::borrow::Cow;
use std::cmp::Ordering;

/// The inputs.
#[derive(Debug, Default)]
pub(super) struct Inputs<'i> {
    pub(super) text: Text<'i>,
    /// Sorted by name; if a name occurs several times, its last field counts.
    pub(super) fields: SmallVec<[Field; 8]>,
}

/// The bytes that hold names and values.
#[derive(Debug, Default)]
pub(super) struct Text<'i> {
    pub(super) body: Cow<'i, [u8]>,
    /// Decoded bytes, addressed as if they followed the body.
    pub(super) decoded: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub(super) name: Span,
    pub(super) value: Span,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    at: u32,
    pub(super) length: u32,
}

impl Text<'_> {
    /// Bytes of its own.
    pub(super) fn held_bytes(&self) -> usize {
        let body = if let Cow::Owned(body) = &self.body { body.capacity() } else { 0 };
        body + self.decoded.capacity()
    }

    pub(super) fn bytes(&self, span: Span) -> &[u8] {
        let (at, length) = (span.at as usize, span.length as usize);
        match at.checked_sub(self.body.len()) {
            Some(at) => &self.decoded[at..at + length],
            None => &self.body[at..at + length],
        }
    }

    pub(super) fn into_owned(self) -> Text<'static> {
        Text { body: Cow::Owned(self.body.into_owned()), decoded: self.decoded }
    }

    /// The bytes decoded since the buffer had this length.
    pub(super) fn decoded_since(&self, start: usize) -> Span {
        span(self.body.len() + start, self.decoded.len() - start)
    }
}

pub(super) fn compare(text: &Text<'_>, left: &Field, right: &Field) -> Ordering {
    text.bytes(left.name).cmp(text.bytes(right.name))
}

/// The caller checked that these offsets fit when reading began.
pub(super) fn span(at: usize, length: usize) -> Span {
    let [at, length] = [at, length].map(|number| u32::try_from(number).unwrap_or(u32::MAX));
    Span { at, length }
}

impl Inputs<'_> {
    /// Bytes of its own.
    pub(super) fn held_bytes(&self) -> usize {
        self.text.held_bytes() + self.fields.capacity() * size_of::<Field>()
    }

    /// The value of a name.
    pub(super) fn get(&self, name: &[u8]) -> Option<&[u8]> {
        let end = self.fields.partition_point(|field| self.text.bytes(field.name) <= name);
        let field = self.fields[..end].last()?;
        (self.text.bytes(field.name) == name).then(|| self.text.bytes(field.value))
    }

    /// Whether a field of this name exists.
    pub(super) fn has(&self, name: &[u8]) -> bool {
        self.get(name).is_some()
    }

    /// Returns the next name and value in order of names, and advances the position.
    pub(super) fn next_field(&self, position: &mut usize) -> Option<(&[u8], &[u8])> {
        let field = self.field_at(position)?;
        Some((self.text.bytes(field.name), self.text.bytes(field.value)))
    }

    /// The position of the first record of a bulk request: the first field whose name begins with
    /// `_`.
    pub(super) fn records_start(&self) -> usize {
        self.fields.partition_point(|field| self.text.bytes(field.name) < b"_".as_slice())
    }

    /// Returns the next record, a key without its `_` and a value, in byte order of keys, and
    /// advances the position.
    pub(super) fn next_record(&self, position: &mut usize) -> Option<(&[u8], &[u8])> {
        let (name, value) = self.next_field(position)?;
        Some((name.strip_prefix(b"_")?, value))
    }

    /// The records of a bulk request.
    pub(super) fn records(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut position = self.records_start();
        std::iter::from_fn(move || self.next_record(&mut position))
    }

    /// Inputs that own their bytes.
    pub(super) fn into_owned(self) -> Inputs<'static> {
        Inputs { text: self.text.into_owned(), fields: self.fields }
    }

    /// Returns the field at a position, and advances the position. Skips a field if another one
    /// with the same name follows.
    fn field_at(&self, position: &mut usize) -> Option<Field> {
        loop {
            let field = *self.fields.get(*position)?;
            *position += 1;
            let next = self.fields.get(*position);
            if next.is_none_or(|next| self.text.bytes(next.name) != self.text.bytes(field.name)) {
                return Some(field);
            }
        }
    }
}
