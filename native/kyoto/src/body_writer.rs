//! Writes outputs as the body of a response, a slice at a time.

use super::columns::Encoding;
use super::outputs::{Line, Outputs};
use super::sorting::Sorting;

/// Bytes written in one slice; a multiple of 3, so that pieces of Base64 fit together.
const SLICE_BYTES: usize = 3 << 16;

/// Rows written in one slice.
const SLICE_ROWS: usize = 4096;

/// A body that is being written.
#[derive(Debug)]
pub(super) struct BodyWriter {
    outputs: Outputs,
    encoding: Option<Encoding>,
    /// Encoded names, if the encoding changes them.
    names: Vec<u8>,
    stage: Stage,
    body: Vec<u8>,
}

#[derive(Debug)]
enum Stage {
    /// Encodes names; this many are encoded.
    Names(usize),
    Sort(Sorting<Line>),
    /// Writes rows.
    Write {
        /// The current row.
        row: usize,
        /// Bytes of its value written so far; `None` before its name.
        written: Option<usize>,
    },
}

/// The result of one slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Worded {
    All,
    More,
    /// The body exceeds its limit.
    TooLong,
}

impl BodyWriter {
    /// Bytes kept between turns.
    pub(super) fn held_bytes(&self) -> usize {
        self.outputs.held_bytes() + self.names.capacity() + self.body.capacity()
    }

    pub(super) fn new(mut outputs: Outputs) -> BodyWriter {
        let encoding = outputs.encoding();
        let length = outputs.bytes.len() + 2 * outputs.lines.len();
        let length = match encoding {
            None => length,
            Some(_) => length + length / 3 + 8 * outputs.lines.len(),
        };
        let stage = match encoding {
            Some(_) => Stage::Names(0),
            None if outputs.in_order => Stage::Write { row: 0, written: None },
            None => {
                let lines = std::mem::take(&mut outputs.lines).into_vec();
                Stage::Sort(Sorting::new(lines, outputs.name_bytes_max))
            }
        };
        let body = Vec::with_capacity(length);
        BodyWriter { outputs, encoding, names: Vec::new(), stage, body }
    }

    /// Writes one slice.
    pub(super) fn step(&mut self, body_bytes_max: usize) -> Worded {
        loop {
            match &mut self.stage {
                Stage::Names(_) => {
                    if !self.encode_names() {
                        return Worded::More;
                    }
                }
                Stage::Sort(sorting) => {
                    let names =
                        if self.encoding.is_some() { &self.names } else { &self.outputs.bytes };
                    let name = |line: &Line| &names[line.name.0..line.name.1];
                    if !sorting.step(|left, right| name(left).cmp(name(right))) {
                        return Worded::More;
                    }
                    let sorting = std::mem::replace(sorting, Sorting::new(Vec::new(), 0));
                    self.outputs.lines = sorting.into_rows().into();
                    self.stage = Stage::Write { row: 0, written: None };
                }
                Stage::Write { .. } => return self.write(body_bytes_max),
            }
        }
    }

    /// The media type of the body.
    pub(super) fn content_type(&self) -> &'static str {
        match self.encoding {
            None => "text/tab-separated-values",
            Some(Encoding::Base64) => "text/tab-separated-values; colenc=B",
            Some(Encoding::Quoted | Encoding::Url) => "text/tab-separated-values; colenc=U",
        }
    }

    /// The complete body.
    pub(super) fn into_body(self) -> Vec<u8> {
        self.body
    }

    /// Encodes names. True when all are encoded.
    fn encode_names(&mut self) -> bool {
        let BodyWriter {
            outputs, encoding: Some(encoding), names, stage: Stage::Names(done), ..
        } = self
        else {
            return true;
        };
        let (mut bytes, start) = (0, *done);
        if start == 0 {
            outputs.in_order = true;
        }
        let mut last = match start.checked_sub(1) {
            Some(last) => outputs.lines[last].name,
            None => (0, 0),
        };
        for line in &mut outputs.lines[start..] {
            if bytes > SLICE_BYTES || *done - start >= SLICE_ROWS {
                return false;
            }
            let name = names.len();
            encoding.encode_piece(&outputs.bytes[line.name.0..line.name.1], names);
            line.name = (name, names.len());
            outputs.in_order &= *done == 0 || names[last.0..last.1] < names[name..];
            last = line.name;
            bytes += names.len() - name;
            *done += 1;
        }
        self.stage = if self.outputs.in_order {
            Stage::Write { row: 0, written: None }
        } else {
            let lines = std::mem::take(&mut self.outputs.lines).into_vec();
            // Encoding a byte produces at most three.
            let name_bytes_max = self.outputs.name_bytes_max.saturating_mul(3);
            Stage::Sort(Sorting::new(lines, name_bytes_max))
        };
        true
    }

    fn write(&mut self, body_bytes_max: usize) -> Worded {
        let Stage::Write { row, written } = &mut self.stage else { return Worded::All };
        let (start, first) = (self.body.len(), *row);
        let names = if self.encoding.is_some() { &self.names } else { &self.outputs.bytes };
        let lines = &self.outputs.lines;
        while let Some(line) = lines.get(*row) {
            if self.body.len() - start >= SLICE_BYTES || *row - first >= SLICE_ROWS {
                return Worded::More;
            }
            let name = &names[line.name.0..line.name.1];
            let is_outdated =
                |next: &Line| !self.outputs.in_order && &names[next.name.0..next.name.1] == name;
            if lines.get(*row + 1).is_some_and(is_outdated) {
                *row += 1;
                continue;
            }
            let value = &self.outputs.bytes[line.value.0..line.value.1];
            let at = *written.get_or_insert_with(|| {
                self.body.extend_from_slice(name);
                self.body.push(b'\t');
                0
            });
            let end = value.len().min(at + SLICE_BYTES);
            match self.encoding {
                Some(encoding) => encoding.encode_piece(&value[at..end], &mut self.body),
                None => self.body.extend_from_slice(&value[at..end]),
            }
            *written = Some(end);
            if self.body.len() > body_bytes_max {
                return Worded::TooLong;
            }
            if end == value.len() {
                self.body.push(b'\n');
                *row += 1;
                *written = None;
            }
        }
        Worded::All
    }
}
