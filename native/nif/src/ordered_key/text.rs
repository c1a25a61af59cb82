//! Strings of bytes or bits that compare from left to right and contain their own end.
//!
//! ```text
//! 00 n        the end, where only the upper n bits (1 to 7) of the last byte belong to the string
//! 01          the end
//! 02 00..02   the bytes 00, 01 and 02
//! 03..ff      a byte
//! ```
//!
//! An end is less than a byte, and an end within a byte is less than the end after it.

use std::borrow::Cow;

const END_IN_BYTE: u8 = 0;
const END: u8 = 1;
const ESCAPE: u8 = 2;

/// A string of whole bytes.
pub(super) fn write(to: &mut Vec<u8>, bytes: &[u8]) {
    write_open(to, bytes);
    to.push(END);
}

/// A string of which only some upper bits (1 to 7) of the last byte belong to it; the others are 0.
pub(super) fn write_bits(to: &mut Vec<u8>, bytes: &[u8], bits_of_last: u8) {
    write_open(to, bytes);
    to.extend_from_slice(&[END_IN_BYTE, bits_of_last]);
}

/// The bytes with which the encoding of every string with this prefix begins.
pub(super) fn write_open(to: &mut Vec<u8>, mut bytes: &[u8]) {
    while let Some(at) = bytes.iter().position(|byte| *byte <= ESCAPE) {
        to.extend_from_slice(&bytes[..at]);
        to.extend_from_slice(&[ESCAPE, bytes[at]]);
        bytes = &bytes[at + 1..];
    }
    to.extend_from_slice(bytes);
}

/// A string in a key.
pub(super) struct Text<'k> {
    pub(super) bytes: Cow<'k, [u8]>,
    /// Number of bits of the last byte that belong to the string, if not all do.
    pub(super) bits_of_last: Option<u8>,
}

impl<'k> Text<'k> {
    /// The string at the start, and the bytes after it.
    pub(super) fn read(key: &'k [u8]) -> Option<(Text<'k>, &'k [u8])> {
        let mut bytes = Cow::Borrowed(&[][..]);
        let mut rest = key;
        loop {
            let at = rest.iter().position(|byte| *byte <= ESCAPE)?;
            let plain = &rest[..at];
            if bytes.is_empty() {
                bytes = Cow::Borrowed(plain);
            } else {
                bytes.to_mut().extend_from_slice(plain);
            }
            match rest[at..] {
                [END, ..] => return Some((Text { bytes, bits_of_last: None }, &rest[at + 1..])),
                [END_IN_BYTE, bits @ 1..=7, ..] => {
                    let text = Text { bytes, bits_of_last: Some(bits) };
                    return Some((text, &rest[at + 2..]));
                }
                [ESCAPE, byte @ ..=ESCAPE, ..] => bytes.to_mut().push(byte),
                _ => return None,
            }
            rest = &rest[at + 2..];
        }
    }
}
