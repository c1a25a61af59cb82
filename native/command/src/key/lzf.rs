//! Decompression of LZF, the format of compressed strings in Redis' DUMP.
//!
//! ```text
//!   000lllll                      l + 1 bytes follow
//!   lllooooo oooooooo             l + 2 bytes from o + 1 bytes before; l is 1 to 6
//!   111ooooo llllllll oooooooo    l + 9 bytes from o + 1 bytes before
//! ```

/// Decompression in progress.
#[derive(Debug, Default)]
pub(crate) struct Decompression {
    read: usize,
    out: Vec<u8>,
}

/// The bytes are no LZF, or the length is not as announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotLzf;

impl Decompression {
    pub(crate) fn held_bytes(&self) -> usize {
        self.out.capacity()
    }

    /// Decompresses about `bytes_max` more bytes. True at the end of the input.
    pub(crate) fn go_on(
        &mut self,
        input: &[u8],
        length: usize,
        bytes_max: usize,
    ) -> Result<bool, NotLzf> {
        let enough = self.out.len().saturating_add(bytes_max);
        while self.out.len() < enough {
            let Some(&control) = input.get(self.read) else {
                return if self.out.len() == length { Ok(true) } else { Err(NotLzf) };
            };
            self.read += 1;
            if control < 0x20 {
                let count = usize::from(control) + 1;
                let end = self.read.checked_add(count).ok_or(NotLzf)?;
                self.out.extend_from_slice(input.get(self.read..end).ok_or(NotLzf)?);
                self.read = end;
            } else {
                let mut byte = || {
                    let byte = input.get(self.read).copied().map(usize::from);
                    self.read += 1;
                    byte.ok_or(NotLzf)
                };
                let mut count = usize::from(control >> 5) + 2;
                if control >> 5 == 7 {
                    count += byte()?;
                }
                let distance = (usize::from(control & 0x1f) << 8 | byte()?) + 1;
                let from = self.out.len().checked_sub(distance).ok_or(NotLzf)?;
                // The bytes may overlap those that they make.
                for at in from..from + count {
                    self.out.push(self.out[at]);
                }
            }
            if self.out.len() > length {
                return Err(NotLzf);
            }
        }
        Ok(false)
    }

    /// The decompressed bytes.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decompress(input: &[u8], length: usize) -> Result<Vec<u8>, NotLzf> {
        let mut whole = Decompression::default();
        let result = whole.go_on(input, length, usize::MAX);
        let mut steps = Decompression::default();
        let in_steps = loop {
            match steps.go_on(input, length, 1) {
                Ok(false) => {}
                end => break end,
            }
        };
        assert_eq!(result, in_steps);
        result.map(|_| {
            assert_eq!(whole.out, steps.out);
            whole.into_bytes()
        })
    }

    #[test]
    fn bytes_and_references_are_decompressed() {
        assert_eq!(decompress(b"\x02abc", 3).unwrap(), b"abc");
        assert_eq!(decompress(b"\x00a\x20\x00", 4).unwrap(), b"aaaa");
        assert_eq!(decompress(b"\x01ab\xe0\x03\x01", 14).unwrap(), b"ababababababab");
    }

    #[test]
    fn damage_is_found() {
        for (input, length) in [
            (&b"\x02ab"[..], 3),
            (b"\x00a\x20\x01", 4),
            (b"\x00a\x20", 4),
            (b"\x00a\xe0\x00", 10),
            (b"\x02abc", 4),
            (b"\x02abc", 2),
            (b"\x20\x00", 3),
        ] {
            assert_eq!(decompress(input, length), Err(NotLzf), "{input:?}");
        }
    }
}
