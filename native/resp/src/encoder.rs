//! Encodes replies in RESP2 or RESP3.

use super::error_code::ErrorCode;
use std::borrow::Cow;
use std::ops::Range;
use todana_command::HELD_BYTES_MIN;
use todana_protocol::Splice;
use todana_table::Shared;

/// Most bytes of a client's text that an error quotes.
pub(super) const ERROR_QUOTE_BYTES_MAX: usize = 128;

/// The text of a failure with its code: `ERR syntax error`. Bytes, since it may quote a client's
/// text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure(Cow<'static, [u8]>);

impl Failure {
    pub(super) const fn new(text: &'static str) -> Failure {
        Failure(Cow::Borrowed(text.as_bytes()))
    }

    /// A failure that quotes a client's text.
    pub(super) fn quoting(before: &str, text: &[u8], after: &str) -> Failure {
        Failure([before.as_bytes(), quoted(text), after.as_bytes()].concat().into())
    }
}

impl From<&'static str> for Failure {
    fn from(text: &'static str) -> Failure {
        Failure::new(text)
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Failure {
        Failure(text.into_bytes().into())
    }
}

impl From<Vec<u8>> for Failure {
    fn from(text: Vec<u8>) -> Failure {
        Failure(text.into())
    }
}

impl AsRef<[u8]> for Failure {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Appends replies to the output.
#[derive(Debug)]
pub(super) struct Encoder<'o> {
    pub(super) out: &'o mut Vec<u8>,
    /// Whether the client has switched to RESP3 (`HELLO 3`).
    pub(super) resp3: bool,
    /// The code of the last error that was written.
    pub(super) failed: Option<ErrorCode>,
    /// Whether the error that was written last is that of a value that is too large.
    pub(super) is_too_large: bool,
    /// Most bytes of output.
    pub(super) bytes_max: usize,
    /// Whether the output exceeded them. The content of `out` is then not a valid sequence of
    /// replies.
    pub(super) overflowed: bool,
    /// Look-ups that hit, and that missed.
    pub(super) lookups: (u64, u64),
    /// Parts of large values that belong into `out`, in the order of their positions.
    pub(super) splices: Vec<Splice>,
    /// Their total length.
    pub(super) spliced_bytes: usize,
    /// Values of at least this length are large.
    pub(super) spliced_bytes_min: usize,
}

impl<'o> Encoder<'o> {
    pub(super) fn new(out: &'o mut Vec<u8>, resp3: bool, bytes_max: usize) -> Encoder<'o> {
        let (failed, overflowed, lookups) = (None, false, (0, 0));
        let (splices, spliced_bytes, spliced_bytes_min) = (Vec::new(), 0, HELD_BYTES_MIN);
        Encoder {
            out,
            resp3,
            failed,
            is_too_large: false,
            bytes_max,
            overflowed,
            lookups,
            splices,
            spliced_bytes,
            spliced_bytes_min,
        }
    }

    /// Bytes of all replies.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.out.len().saturating_add(self.spliced_bytes)
    }

    /// Removes the replies after the first `len` bytes of `out`.
    pub(super) fn truncate(&mut self, len: usize) {
        self.out.truncate(len);
        while let Some(splice) = self.splices.pop_if(|splice| splice.at > len) {
            self.spliced_bytes -= splice.range.len();
        }
    }

    /// Whether this many more bytes, apart from a header, are within the limit. If not, nothing is
    /// written from now on.
    #[inline]
    fn fits(&mut self, bytes: usize) -> bool {
        let bytes = self.len().saturating_add(bytes);
        let fits = !self.overflowed && bytes <= self.bytes_max;
        self.overflowed = !fits;
        fits
    }

    /// Replies that are already encoded.
    pub(super) fn replies(&mut self, bytes: &[u8]) {
        if self.fits(bytes.len()) {
            self.out.extend_from_slice(bytes);
        }
    }

    /// A type byte and the rest of its line.
    #[inline]
    fn line(&mut self, kind: u8, text: &[u8]) {
        if self.fits(text.len()) {
            self.out.push(kind);
            self.out.extend_from_slice(text);
            self.out.extend_from_slice(b"\r\n");
        }
    }

    /// `+text`. The text is the server's own.
    pub(super) fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// A truth value; a number in RESP2.
    pub(super) fn boolean(&mut self, flag: bool) {
        match self.resp3 {
            true => self.replies(if flag { b"#t\r\n" } else { b"#f\r\n" }),
            false => self.integer(i64::from(flag)),
        }
    }

    /// `+text`. CR and LF become spaces.
    pub(super) fn status(&mut self, text: &[u8]) {
        self.line(b'+', &one_line(text));
    }

    /// A whole number of any length; a bulk string in RESP2.
    pub(super) fn big_number(&mut self, digits: &[u8]) {
        match self.resp3 {
            true => self.line(b'(', &one_line(digits)),
            false => self.bulk(digits),
        }
    }

    pub(super) fn ok(&mut self) {
        self.replies(b"+OK\r\n");
    }

    /// `-text`, which begins with a code. CR and LF become spaces.
    #[cold]
    pub(super) fn error(&mut self, text: &(impl AsRef<[u8]> + ?Sized)) {
        let text = text.as_ref();
        self.failed = Some(ErrorCode::of(text));
        if !self.fits(text.len()) {
            return;
        }
        self.out.push(b'-');
        self.out.extend_from_slice(&one_line(text));
        self.out.extend_from_slice(b"\r\n");
    }

    #[inline]
    pub(super) fn integer(&mut self, number: i64) {
        self.header(b':', number);
    }

    /// An integer in decimal digits.
    #[inline]
    pub(super) fn digits(&mut self, digits: &[u8]) {
        self.line(b':', digits);
    }

    /// A number of bytes, entries or milliseconds.
    pub(super) fn count(&mut self, number: u64) {
        self.integer(i64::try_from(number).unwrap_or(i64::MAX));
    }

    #[inline]
    pub(super) fn bulk(&mut self, bytes: &[u8]) {
        if !self.fits(bytes.len()) {
            return;
        }
        // One reservation, so that the writes below do not have to grow the buffer.
        self.out.reserve(bytes.len() + 32);
        self.header(b'$', bytes.len() as i64);
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// A part of a large value as a bulk string, without a copy.
    pub(super) fn bulk_of(&mut self, value: Shared, range: Range<usize>) {
        if range.len() < self.spliced_bytes_min {
            return self.bulk(value.get(range).unwrap_or_default());
        }
        if !self.fits(range.len()) {
            return;
        }
        self.header(b'$', range.len() as i64);
        self.splice(value, range);
        self.out.extend_from_slice(b"\r\n");
    }

    /// A part of a large value at this position, which fits the limit.
    pub(super) fn splice(&mut self, value: Shared, range: Range<usize>) {
        if self.fits(range.len()) {
            self.spliced_bytes += range.len();
            self.splices.push(Splice { at: self.out.len(), value, range });
        }
    }

    pub(super) fn text(&mut self, text: &str) {
        self.bulk(text.as_bytes());
    }

    /// A null in place of a bulk string.
    #[inline]
    pub(super) fn null(&mut self) {
        self.replies(if self.resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// A null in place of an array.
    pub(super) fn null_array(&mut self) {
        self.replies(if self.resp3 { b"_\r\n" } else { b"*-1\r\n" });
    }

    pub(super) fn array(&mut self, length: usize) {
        self.header(b'*', length as i64);
    }

    /// Begins a map of `pairs` pairs; an array in RESP2.
    pub(super) fn map(&mut self, pairs: usize) {
        match self.resp3 {
            true => self.header(b'%', pairs as i64),
            false => self.header(b'*', pairs as i64 * 2),
        }
    }

    /// Begins a set of `length` elements; an array in RESP2.
    pub(super) fn set(&mut self, length: usize) {
        self.header(if self.resp3 { b'~' } else { b'*' }, length as i64);
    }

    /// Begins a push of `length` elements; an array in RESP2.
    pub(super) fn push(&mut self, length: usize) {
        self.header(if self.resp3 { b'>' } else { b'*' }, length as i64);
    }

    /// A fraction; a bulk string in RESP2.
    pub(super) fn double(&mut self, number: f64) {
        let text = number.to_string();
        match self.resp3 {
            true => self.line(b',', text.as_bytes()),
            false => self.text(&text),
        }
    }

    /// Text for humans; a bulk string in RESP2.
    pub(super) fn verbatim(&mut self, text: &[u8]) {
        self.verbatim_as(*b"txt", text);
    }

    /// Text with a format of three letters; a bulk string in RESP2.
    pub(super) fn verbatim_as(&mut self, format: [u8; 3], text: &[u8]) {
        if !self.resp3 {
            return self.bulk(text);
        }
        if !self.fits(text.len()) {
            return;
        }
        self.header(b'=', text.len() as i64 + 4);
        self.out.extend_from_slice(&format);
        self.out.push(b':');
        self.out.extend_from_slice(text);
        self.out.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn header(&mut self, kind: u8, number: i64) {
        if !self.fits(0) {
            return;
        }
        if let 0..=9 = number {
            self.out.extend_from_slice(&[kind, b'0' + number as u8, b'\r', b'\n']);
            return;
        }
        let mut digits = itoa::Buffer::new();
        self.out.push(kind);
        self.out.extend_from_slice(digits.format(number).as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }
}

/// A text in which CR and LF are spaces.
pub(super) fn one_line(text: &[u8]) -> Cow<'_, [u8]> {
    let breaks = |byte: &u8| matches!(byte, b'\r' | b'\n');
    if !text.iter().any(breaks) {
        return text.into();
    }
    text.iter().map(|byte| if breaks(byte) { b' ' } else { *byte }).collect()
}

/// A client's text for an error: truncated, and ended at a zero byte as a C string would be.
pub(super) fn quoted(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    &text[..end.min(ERROR_QUOTE_BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(resp3: bool, write: impl FnOnce(&mut Encoder<'_>)) -> String {
        let mut out = Vec::new();
        write(&mut Encoder::new(&mut out, resp3, 1000));
        out.escape_ascii().to_string()
    }

    #[test]
    fn both_versions_have_their_words() {
        let write = |e: &mut Encoder<'_>| {
            e.null();
            e.null_array();
            e.map(2);
            e.set(3);
            e.double(1.5);
            e.verbatim(b"hi");
        };
        assert_eq!(encoded(false, write), r"$-1\r\n*-1\r\n*4\r\n*3\r\n$3\r\n1.5\r\n$2\r\nhi\r\n");
        assert_eq!(encoded(true, write), r"_\r\n_\r\n%2\r\n~3\r\n,1.5\r\n=6\r\ntxt:hi\r\n");
    }

    #[test]
    fn errors_are_one_line() {
        assert_eq!(encoded(false, |e| e.error("ERR a\r\nb")), r"-ERR a  b\r\n");
        assert_eq!(quoted(b"ab\0c"), b"ab");
        assert_eq!(quoted(&[b'x'; 200]).len(), 128);
    }

    #[test]
    fn output_ends_at_its_limit() {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out, false, 10);
        encoder.bulk(&[b'x'; 11]);
        assert!(encoder.overflowed);
        // Shorter replies are not written either.
        encoder.bulk(b"x");
        encoder.ok();
        encoder.null();
        encoder.array(2);
        encoder.error("ERR x");
        assert!(out.is_empty());
    }

    #[test]
    fn large_values_are_left_out_and_counted() {
        use super::super::sink::Sink;
        let (mut out, mut values) = (Vec::new(), Vec::new());
        let table = todana_table::Table::new(todana_table::Options::default());
        for len in [255, 256, 600] {
            todana_table::Keyspace::update(&table, b"k", 1, |record| {
                record.put(&[&vec![b'v'; len]], Default::default()).unwrap();
                values.push(record.entry().unwrap().share());
            });
        }
        assert!(values.remove(0).is_none(), "a small entry cannot be lent");
        let mut encoder = Encoder::new(&mut out, false, 1_000);
        encoder.spliced_bytes_min = super::super::tail::TRANSACTION_VALUE_BYTES_MIN;
        assert!(!encoder.shares(255) && encoder.shares(256));
        for value in values.into_iter().flatten() {
            let range = 0..value.len();
            encoder.bulk_of(value.clone(), range.clone());
            encoder.bulk_of(value, range);
        }
        assert!(encoder.overflowed);
        assert_eq!(encoder.splices.len(), 2);
        assert_eq!(out.escape_ascii().to_string(), r"$256\r\n\r\n$256\r\n\r\n");
    }

    #[test]
    fn every_kind_of_reply_has_its_limit() {
        let writes: [fn(&mut Encoder<'_>); 11] = [
            |e| e.simple("text"),
            |e| e.ok(),
            |e| e.error("ERR text"),
            |e| e.integer(1234),
            |e| e.digits(b"1234"),
            |e| e.text("text"),
            |e| e.null(),
            |e| e.null_array(),
            |e| e.map(1000),
            |e| e.double(1.5),
            |e| e.verbatim(b"text"),
        ];
        for (number, write) in writes.into_iter().enumerate() {
            for resp3 in [false, true] {
                let mut out = Vec::new();
                let mut encoder = Encoder::new(&mut out, resp3, 1000);
                (0..1000).for_each(|_| write(&mut encoder));
                assert!(encoder.overflowed, "{number}");
                assert!((990..1040).contains(&out.len()), "{number}: {}", out.len());
            }
        }
    }
}
