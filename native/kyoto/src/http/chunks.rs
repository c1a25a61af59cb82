//! Chunked bodies.
//!
//! ```text
//!   5;extension\r\n       hexadecimal length; extensions are ignored
//!   hello\r\n
//!   0\r\n
//!   Trailer: x\r\n        trailers are ignored too
//!   \r\n
//! ```
//!
//! Chunks are consumed as they arrive, so at most one line waits in the input.

use httparse::{Status, parse_chunk_size};
use memchr::memchr;

/// Longest line with the length of a chunk.
const LINE_BYTES_MAX: usize = 1024;

/// Most bytes of trailers.
const TRAILER_BYTES_MAX: usize = 64 << 10;

/// Why a body is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The chunks are malformed.
    Invalid,
    /// The body exceeds its limit.
    TooLarge,
}

/// A chunked body that is being received.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    /// The bytes received so far.
    pub(crate) body: Vec<u8>,
    next: Next,
}

/// The next part of the body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Next {
    /// The length of a chunk.
    #[default]
    Length,
    /// This many more bytes of a chunk, and the end of a line.
    Bytes(usize),
    /// A line after the last chunk; `bytes` is the length of the trailers so far.
    Trailer { bytes: usize },
    /// Nothing.
    End,
}

impl Chunks {
    /// Consumes the available input and returns the number of bytes consumed.
    pub(crate) fn take(&mut self, input: &[u8], body_bytes_max: usize) -> Result<usize, Trouble> {
        let mut taken = 0;
        loop {
            let rest = &input[taken..];
            let step = match self.next {
                Next::Length => self.length(rest, body_bytes_max)?,
                Next::Bytes(0) => self.line_end(rest)?,
                Next::Bytes(left) => {
                    let length = left.min(rest.len());
                    self.body.extend_from_slice(&rest[..length]);
                    self.next = Next::Bytes(left - length);
                    length
                }
                Next::Trailer { bytes } => self.trailer(rest, bytes)?,
                Next::End => 0,
            };
            if step == 0 {
                return Ok(taken);
            }
            taken += step;
        }
    }

    /// Whether the body is complete.
    pub(crate) fn is_whole(&self) -> bool {
        self.next == Next::End
    }

    /// Bytes known to be missing. The end of the line after them may be wrong as soon as its first
    /// byte has arrived.
    pub(crate) fn wanted(&self) -> usize {
        match self.next {
            Next::Bytes(left) => left,
            _ => 0,
        }
    }

    fn length(&mut self, input: &[u8], body_bytes_max: usize) -> Result<usize, Trouble> {
        if input.first().is_some_and(|byte| !byte.is_ascii_hexdigit()) {
            return Err(Trouble::Invalid);
        }
        match parse_chunk_size(input) {
            Ok(Status::Complete((bytes, length))) => {
                // An extension could hide a line from a peer that ends lines at LF alone.
                let has_one_line = memchr(b'\n', input) == Some(bytes - 1);
                if bytes > LINE_BYTES_MAX || !has_one_line {
                    return Err(Trouble::Invalid);
                }
                let room = body_bytes_max.saturating_sub(self.body.len());
                let length = usize::try_from(length).ok().filter(|&length| length <= room);
                self.next = match length.ok_or(Trouble::TooLarge)? {
                    0 => Next::Trailer { bytes: 0 },
                    length => Next::Bytes(length),
                };
                Ok(bytes)
            }
            Ok(Status::Partial)
                if input.len() <= LINE_BYTES_MAX && memchr(b'\n', input).is_none() =>
            {
                Ok(0)
            }
            _ => Err(Trouble::Invalid),
        }
    }

    fn line_end(&mut self, input: &[u8]) -> Result<usize, Trouble> {
        match input {
            [] | [b'\r'] => Ok(0),
            [b'\r', b'\n', ..] => {
                self.next = Next::Length;
                Ok(2)
            }
            _ => Err(Trouble::Invalid),
        }
    }

    fn trailer(&mut self, input: &[u8], bytes: usize) -> Result<usize, Trouble> {
        let line = memchr(b'\n', input).map(|end| &input[..end]);
        if bytes.saturating_add(line.unwrap_or(input).len()) > TRAILER_BYTES_MAX {
            return Err(Trouble::Invalid);
        }
        let Some(line) = line else { return Ok(0) };
        self.next = match line {
            [] | [b'\r'] => Next::End,
            _ => Next::Trailer { bytes: bytes + line.len() + 1 },
        };
        Ok(line.len() + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The body and the rest of the input.
    fn decode(
        input: &[u8],
        body_bytes_max: usize,
        piece: usize,
    ) -> Result<(Vec<u8>, usize), Trouble> {
        let (mut chunks, mut waiting) = (Chunks::default(), Vec::new());
        let mut pieces = input.chunks(piece);
        while !chunks.is_whole() {
            waiting.extend_from_slice(pieces.next().unwrap_or_default());
            let taken = chunks.take(&waiting, body_bytes_max)?;
            waiting.drain(..taken);
        }
        Ok((chunks.body, waiting.len() + pieces.map(<[u8]>::len).sum::<usize>()))
    }

    #[test]
    fn chunks_become_a_body_however_they_come() {
        let input =
            b"5\r\nhello\r\n1;name=\"value\"\r\n,\r\n0A \r\n0123456789\r\n0\r\nA: b\r\n\r\nPUT";
        for piece in 1..=input.len() {
            let (body, left) = decode(input, 16, piece).unwrap();
            assert_eq!((body.as_slice(), left), (b"hello,0123456789".as_slice(), 3), "{piece}");
        }
    }

    #[test]
    fn a_body_has_up_to_the_limit() {
        let input = b"5\r\nhello\r\n5\r\nhello\r\n0\r\n\r\n";
        for (limit, trouble) in [(9, Some(Trouble::TooLarge)), (10, None), (11, None)] {
            assert_eq!(decode(input, limit, 1).err(), trouble, "{limit}");
        }
        assert_eq!(decode(b"ffffffffffffffff\r\n", 16, 1).err(), Some(Trouble::TooLarge));
    }

    #[test]
    fn malformed_chunks_are_refused() {
        let long = [b"1;", [b'x'; 2000].as_slice(), b"\r\nx\r\n0\r\n\r\n"].concat();
        let trailers = [b"0\r\n".as_slice(), &b"a: b\r\n".repeat(20_000), b"\r\n"].concat();
        let wrong: [&[u8]; 9] = [
            b"\r\n\r\n",
            b" 1\r\nx\r\n0\r\n\r\n",
            b"g\r\n",
            b"-1\r\n",
            b"1\nx\n",
            b"1\r\nxy\r\n0\r\n\r\n",
            b"1;a\nb\r\nx\r\n0\r\n\r\n",
            &long,
            &trailers,
        ];
        for input in wrong {
            for piece in [1, 7, input.len()] {
                let trouble = decode(input, 1 << 20, piece).err();
                assert_eq!(trouble, Some(Trouble::Invalid), "{}", input.escape_ascii());
            }
        }
        assert_eq!(decode(b"10000000000000000\r\n", 16, 1).err(), Some(Trouble::Invalid));
    }
}
