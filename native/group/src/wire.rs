//! Numbers and byte strings of the formats of this crate.
//!
//! A *varint* is an unsigned number in LEB128: seven bits a byte, lowest first, the high bit means
//! that more follow. All other numbers have a fixed width and begin with the lowest byte.

/// Appends a varint.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a byte string: its length as a varint, and its bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The bytes that are not read yet. Every method returns `None` if there are too few.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'b> {
    rest: &'b [u8],
}

impl<'b> Input<'b> {
    #[inline]
    pub(crate) fn new(bytes: &'b [u8]) -> Input<'b> {
        Input { rest: bytes }
    }

    #[inline]
    pub(crate) fn rest(self) -> &'b [u8] {
        self.rest
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(byte)
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (&array, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(array)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    #[inline]
    pub(crate) fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    /// A varint of at most 64 bits.
    #[inline]
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return None;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// A varint that is a `usize`.
    #[inline]
    pub(crate) fn length(&mut self) -> Option<usize> {
        usize::try_from(self.varint()?).ok()
    }

    /// A byte string.
    #[inline]
    pub(crate) fn bytes(&mut self) -> Option<&'b [u8]> {
        let length = self.length()?;
        self.take(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_are_read_as_written_and_too_long_ones_are_refused() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, number);
            let mut input = Input::new(&bytes);
            assert_eq!((input.varint(), input.rest()), (Some(number), &[][..]));
            assert_eq!(Input::new(&bytes[..bytes.len() - 1]).varint(), None);
        }
        assert_eq!(Input::new(&[0xff; 11]).varint(), None);
        let beyond = [&[0xff; 9][..], &[2]].concat();
        assert_eq!(Input::new(&beyond).varint(), None);
    }
}
