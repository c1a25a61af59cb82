//! The inputs of a procedure: a map from names to values, out of the query and the body.
//!
//! ```text
//!   ?DB=1&key=a%20b                                    the query is form data
//!   Content-Type: application/x-www-form-urlencoded    so is this body
//!   Content-Type: text/tab-separated-values; colenc=U  name TAB value LF, encoded or not
//! ```
//!
//! Of fields with the same name the last counts. Columns that need no decoding stay where they are
//! in the body; the others are decoded into one buffer (`reading.rs`).

use smallvec::SmallVec;
use std::borrow::Cow;
use std::cmp::Ordering;

/// The inputs.
#[derive(Debug, Default)]
pub(super) struct Inputs<'i> {
    pub(super) text: Text<'i>,
    /// In order of names; of those with the same name, the last counts.
    pub(super) fields: SmallVec<[Field; 8]>,
}

/// The bytes of names and values.
#[derive(Debug, Default)]
pub(super) struct Text<'i> {
    pub(super) body: Cow<'i, [u8]>,
    /// Bytes that stand for others, addressed as if they followed the body.
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

    /// What was decoded since the buffer had this length.
    pub(super) fn decoded_since(&self, start: usize) -> Span {
        span(self.body.len() + start, self.decoded.len() - start)
    }
}

pub(super) fn compare(text: &Text<'_>, left: &Field, right: &Field) -> Ordering {
    text.bytes(left.name).cmp(text.bytes(right.name))
}

/// Offsets were checked to fit when reading began.
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

    /// Whether there is a value of this name, whatever it is.
    pub(super) fn has(&self, name: &[u8]) -> bool {
        self.get(name).is_some()
    }

    /// The next name and value, in order of names, and moves on behind it.
    pub(super) fn next_field(&self, position: &mut usize) -> Option<(&[u8], &[u8])> {
        let field = self.field_at(position)?;
        Some((self.text.bytes(field.name), self.text.bytes(field.value)))
    }

    /// Where the records of a bulk request begin: fields whose names begin with `_`.
    pub(super) fn records_start(&self) -> usize {
        self.fields.partition_point(|field| self.text.bytes(field.name) < b"_".as_slice())
    }

    /// The next record, a key without its `_` and a value, and moves on behind it. In byte order of
    /// keys.
    pub(super) fn next_record(&self, position: &mut usize) -> Option<(&[u8], &[u8])> {
        let (name, value) = self.next_field(position)?;
        Some((name.strip_prefix(b"_")?, value))
    }

    /// The records of a bulk request.
    pub(super) fn records(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut position = self.records_start();
        std::iter::from_fn(move || self.next_record(&mut position))
    }

    /// Inputs that can be kept when the request's bytes are gone.
    pub(super) fn into_owned(self) -> Inputs<'static> {
        Inputs { text: self.text.into_owned(), fields: self.fields }
    }

    /// The field at a position, and moves on behind it. Fields are passed over that another with
    /// the same name follows.
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
