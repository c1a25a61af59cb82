//! Reads the inputs of a procedure, a slice at a time.
//!
//! A body may have 64 MiB, in one value or in millions of small ones. Searching for the end of a
//! field, decoding a column and sorting can each stop in the middle, so a slice takes about the
//! same time whatever the body contains.

use super::columns::{Decoder, Encoding};
use super::failure::Failure;
use super::inputs::{Field, Inputs, Span, Text, compare, span};
use super::sorting::Sorting;
use memchr::{memchr, memchr3};
use smallvec::SmallVec;
use std::borrow::Cow;

/// Bytes read in one slice.
const SLICE_BYTES: usize = 256 << 10;

/// Rows read in one slice.
const SLICE_ROWS: usize = 4096;

/// Most inputs of a request. Each takes memory beside its bytes, which may be only one or two.
const INPUTS_MAX: usize = 1 << 20;

/// Inputs that are being read.
#[derive(Debug)]
pub(super) struct Reading<'i> {
    text: Text<'i>,
    fields: SmallVec<[Field; 8]>,
    /// Length of the longest name.
    name_bytes_max: usize,
    format: Format,
    /// The offset of the current field in the body.
    at: usize,
    /// The end of the body's last field.
    end: usize,
    /// How far the search for the end of the field has come.
    searched: usize,
    stage: Stage,
}

/// The format of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Form,
    Tabs(Option<Encoding>),
    /// A format without inputs.
    Foreign,
}

#[derive(Debug)]
enum Stage {
    /// Searching for the end of a field.
    Seek,
    /// Decoding the columns of a field.
    Decode(Columns),
    Sort(Sorting<Field>),
}

/// A field whose columns are being decoded, the name first.
#[derive(Debug)]
struct Columns {
    decoder: Decoder,
    encoding: Encoding,
    /// The rest of the current column, in the body.
    rest: (usize, usize),
    /// Its beginning in the decoded bytes.
    start: usize,
    /// The name, once decoded.
    name: Option<Span>,
    /// The span of the value in the body.
    value: (usize, usize),
}

impl<'i> Reading<'i> {
    /// Bytes of its own.
    pub(super) fn held_bytes(&self) -> usize {
        self.text.held_bytes() + self.fields.capacity() * size_of::<Field>()
    }

    /// Begins. `None` if the request is too long for 32-bit offsets.
    pub(super) fn new(
        query: &[u8],
        content_type: Option<&[u8]>,
        body: Cow<'i, [u8]>,
    ) -> Option<Reading<'i>> {
        let format = content_type.map_or(Format::Foreign, Format::of);
        let body = if format == Format::Foreign { Cow::Borrowed(&b""[..]) } else { body };
        let encoding = format.encoding();
        // Decoding never lengthens the text; the query may be decoded twice.
        let decoded_max = query.len() * 2 + encoding.map_or(0, |_| body.len());
        u32::try_from(body.len().checked_add(decoded_max)?).ok()?;
        let mut text = Text { body, decoded: Vec::with_capacity(decoded_max) };
        let mut fields = SmallVec::new();
        let twice = if let Format::Tabs(encoding) = format { encoding } else { None };
        read_query(query, twice, &mut text, &mut fields);
        let (end, stage) = (text.body.len(), Stage::Seek);
        let name_bytes_max = query.len();
        Some(Reading { text, fields, name_bytes_max, format, at: 0, end, searched: 0, stage })
    }

    /// Reads one slice. True when all is read.
    pub(super) fn step(&mut self) -> bool {
        let (mut bytes, mut rows) = (SLICE_BYTES, SLICE_ROWS);
        loop {
            match &mut self.stage {
                Stage::Sort(sorting) => {
                    return sorting.step(|left, right| compare(&self.text, left, right));
                }
                _ if bytes == 0 || rows == 0 => return false,
                Stage::Decode(columns) => {
                    if let Some(field) = columns.step(&mut self.text, &mut bytes) {
                        self.push(field);
                        self.stage = Stage::Seek;
                    }
                }
                Stage::Seek => {
                    if let Some(end) = self.seek(&mut bytes) {
                        rows -= 1;
                        self.begin_field(end);
                    }
                }
            }
            if self.has_too_many() {
                return true;
            }
            if matches!(self.stage, Stage::Seek) && self.at >= self.end {
                if !self.fields.spilled() {
                    self.fields.sort_by(|left, right| compare(&self.text, left, right));
                    return true;
                }
                let fields = std::mem::take(&mut self.fields).into_vec();
                self.stage = Stage::Sort(Sorting::new(fields, self.name_bytes_max));
            }
        }
    }

    /// The inputs, when all is read.
    pub(super) fn finish(self) -> Result<Inputs<'i>, Failure> {
        if self.has_too_many() {
            return Err(Failure::TOO_MANY_INPUTS);
        }
        let fields = match self.stage {
            Stage::Sort(sorting) => SmallVec::from_vec(sorting.into_rows()),
            _ => self.fields,
        };
        Ok(Inputs { text: self.text, fields })
    }

    /// The same, independent of the request's bytes.
    pub(super) fn into_owned(self) -> Reading<'static> {
        Reading {
            text: self.text.into_owned(),
            fields: self.fields,
            name_bytes_max: self.name_bytes_max,
            format: self.format,
            at: self.at,
            end: self.end,
            searched: self.searched,
            stage: self.stage,
        }
    }

    /// Searches for the end of the current field. A form ends at its first NUL.
    fn seek(&mut self, bytes: &mut usize) -> Option<usize> {
        let limit = self.end.min(self.searched.saturating_add(*bytes));
        let piece = &self.text.body[self.searched..limit];
        let found = match self.format {
            Format::Form => memchr3(b'&', b';', 0, piece),
            Format::Tabs(_) => memchr(b'\n', piece),
            Format::Foreign => None,
        };
        let end = match found {
            Some(found) => self.searched + found,
            None if limit == self.end => limit,
            None => {
                self.searched = limit;
                *bytes = 0;
                return None;
            }
        };
        *bytes -= end - self.searched;
        if self.format == Format::Form && self.text.body.get(end) == Some(&0) {
            self.end = end;
        }
        Some(end)
    }

    /// Ends the current field here and moves on to the next.
    fn begin_field(&mut self, end: usize) {
        let start = self.at;
        self.at = end + 1;
        self.searched = end + 1;
        let line = &self.text.body[start..end];
        let (separator, line) = match self.format {
            Format::Form => (b'=', line),
            _ => (b'\t', line.strip_suffix(b"\r").unwrap_or(line)),
        };
        let end = start + line.len();
        let (name, value) = match memchr(separator, line) {
            Some(found) => ((start, start + found), (start + found + 1, end)),
            None if self.format == Format::Form && !line.is_empty() => ((start, end), (end, end)),
            None => return,
        };
        match self.format.encoding() {
            Some(encoding) => {
                let (decoder, start) = (Decoder::new(encoding), self.text.decoded.len());
                self.stage = Stage::Decode(Columns {
                    decoder,
                    encoding,
                    rest: name,
                    start,
                    name: None,
                    value,
                });
            }
            None => {
                let [name, value] = [name, value].map(|(at, end)| span(at, end - at));
                self.push(Field { name, value });
            }
        }
    }

    fn push(&mut self, field: Field) {
        self.name_bytes_max = self.name_bytes_max.max(field.name.length as usize);
        self.fields.push(field);
    }

    fn has_too_many(&self) -> bool {
        self.fields.len() > INPUTS_MAX
    }
}

impl Format {
    /// The format that a media type names; only its beginning counts.
    fn of(media_type: &[u8]) -> Format {
        let begins_with = |prefix: &[u8]| {
            media_type.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
        };
        if begins_with(b"application/x-www-form-urlencoded") {
            Format::Form
        } else if begins_with(b"text/tab-separated-values") {
            Format::Tabs(Encoding::of_media_type(media_type))
        } else {
            Format::Foreign
        }
    }

    fn encoding(self) -> Option<Encoding> {
        match self {
            Format::Form => Some(Encoding::Url),
            Format::Tabs(encoding) => encoding,
            Format::Foreign => None,
        }
    }
}

impl Columns {
    /// Decodes further. Returns the field when both its columns are complete.
    fn step(&mut self, text: &mut Text<'_>, bytes: &mut usize) -> Option<Field> {
        loop {
            let (at, end) = self.rest;
            let until = end.min(at.saturating_add(*bytes));
            self.decoder.push(&text.body[at..until], until == end, &mut text.decoded);
            *bytes -= until - at;
            self.rest.0 = until;
            if until < end {
                return None;
            }
            let column = text.decoded_since(self.start);
            let Some(name) = self.name else {
                self.name = Some(column);
                self.decoder = Decoder::new(self.encoding);
                self.start = text.decoded.len();
                self.rest = self.value;
                continue;
            };
            return Some(Field { name, value: column });
        }
    }
}

/// Reads the query, whose length the request line bounds.
fn read_query(
    query: &[u8],
    twice: Option<Encoding>,
    text: &mut Text<'_>,
    fields: &mut SmallVec<[Field; 8]>,
) {
    let mut decode = |encoded: &[u8]| {
        let start = text.decoded.len();
        Decoder::new(Encoding::Url).push(encoded, true, &mut text.decoded);
        if let Some(encoding) = twice {
            let once = text.decoded.split_off(start);
            Decoder::new(encoding).push(&once, true, &mut text.decoded);
        }
        text.decoded_since(start)
    };
    for field in query.split(|byte| matches!(byte, b'&' | b';')) {
        if field.is_empty() {
            continue;
        }
        let equals = memchr(b'=', field).unwrap_or(field.len());
        let name = decode(&field[..equals]);
        let value = decode(field.get(equals + 1..).unwrap_or_default());
        fields.push(Field { name, value });
    }
}
