//! Columns of tab-separated values: names and values, encoded or plain.
//!
//! ```text
//!   colenc=B    YWJj            Base64
//!   colenc=Q    a=62c           quoted-printable
//!   colenc=U    a%62c           URL encoding
//! ```
//!
//! Columns may be long, so both directions process them in pieces.

use super::url;
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use smallvec::SmallVec;

/// The encoding of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Base64,
    Quoted,
    Url,
}

/// Accepts missing padding, and bits after the last byte.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

impl Encoding {
    /// The encoding that this letter selects.
    pub(super) fn of_letter(letter: u8) -> Option<Encoding> {
        match letter.to_ascii_uppercase() {
            b'B' => Some(Encoding::Base64),
            b'Q' => Some(Encoding::Quoted),
            b'U' => Some(Encoding::Url),
            _ => None,
        }
    }

    /// The encoding that the `colenc` parameter of a media type selects.
    pub(super) fn of_media_type(media_type: &[u8]) -> Option<Encoding> {
        media_type.split(|&byte| byte == b';').skip(1).find_map(|parameter| {
            let equals = parameter.iter().position(|&byte| byte == b'=')?;
            let (name, value) = (&parameter[..equals], &parameter[equals + 1..]);
            let value = value.trim_ascii();
            let value = value.strip_prefix(b"\"").unwrap_or(value);
            let is_it = name.trim_ascii().eq_ignore_ascii_case(b"colenc");
            value.first().filter(|_| is_it).and_then(|&letter| Encoding::of_letter(letter))
        })
    }

    /// Encodes a piece of a column whose length is a multiple of 3, or the last piece.
    /// Quoted-printable is never sent.
    pub(super) fn encode_piece(self, bytes: &[u8], out: &mut Vec<u8>) {
        match self {
            Encoding::Base64 => {
                let start = out.len();
                out.resize(start + bytes.len().div_ceil(3) * 4, 0);
                let written = BASE64.encode_slice(bytes, &mut out[start..]);
                out.truncate(start + written.unwrap_or(0));
            }
            Encoding::Quoted | Encoding::Url => url::encode(bytes, out),
        }
    }
}

/// Decodes one column, piece by piece.
#[derive(Debug)]
pub(super) struct Decoder {
    encoding: Encoding,
    /// The incomplete end of the last piece: fewer than four characters of Base64, or of an escape.
    carried: SmallVec<[u8; 4]>,
    /// Padding was seen; the rest of the column is ignored.
    ended: bool,
}

impl Decoder {
    pub(super) fn new(encoding: Encoding) -> Decoder {
        Decoder { encoding, carried: SmallVec::new(), ended: false }
    }

    /// Decodes a piece. `last` means that no piece follows.
    pub(super) fn push(&mut self, piece: &[u8], last: bool, out: &mut Vec<u8>) {
        match self.encoding {
            Encoding::Base64 => self.push_base64(piece, last, out),
            Encoding::Quoted => self.push_escaped(piece, last, out, decode_quoted),
            Encoding::Url => self.push_escaped(piece, last, out, url::decode_piece),
        }
    }

    /// Skips characters outside the alphabet, and everything after the padding.
    fn push_base64(&mut self, piece: &[u8], last: bool, out: &mut Vec<u8>) {
        let mut rest = piece;
        if self.carried.is_empty() && !self.ended {
            let whole = if last { piece.len() } else { piece.len() / 4 * 4 };
            // The slow path handles padding in the middle of a column.
            if (last || !piece[..whole].ends_with(b"=")) && decode_groups(&piece[..whole], out) {
                rest = &piece[whole..];
            }
        }
        for &byte in rest {
            if self.ended {
                return;
            }
            if byte == b'=' {
                self.ended = true;
                decode_groups(&self.carried, out);
                self.carried.clear();
            } else if byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/') {
                self.carried.push(byte);
                if self.carried.len() == 4 {
                    decode_groups(&self.carried, out);
                    self.carried.clear();
                }
            }
        }
        if last {
            // A single character holds less than a byte.
            if self.carried.len() > 1 {
                decode_groups(&self.carried, out);
            }
            self.carried.clear();
        }
    }

    fn push_escaped(
        &mut self,
        mut piece: &[u8],
        last: bool,
        out: &mut Vec<u8>,
        decode: impl Fn(&[u8], bool, &mut Vec<u8>) -> usize,
    ) {
        while let (false, [byte, rest @ ..]) = (self.carried.is_empty(), piece) {
            self.carried.push(*byte);
            piece = rest;
            let done = decode(&self.carried, last && rest.is_empty(), out);
            self.carried.drain(..done);
        }
        if self.carried.is_empty() {
            let done = decode(piece, last, out);
            self.carried.extend_from_slice(&piece[done..]);
        } else if last {
            decode(&self.carried, true, out);
            self.carried.clear();
        }
    }
}

/// Decodes Base64 without foreign characters. Returns false, and writes nothing, if there are any.
fn decode_groups(text: &[u8], out: &mut Vec<u8>) -> bool {
    let start = out.len();
    out.resize(start + text.len().div_ceil(4) * 3, 0);
    let decoded = BASE64.decode_slice(text, &mut out[start..]);
    out.truncate(start + decoded.as_ref().map_or(0, |length| *length));
    decoded.is_ok()
}

/// Decodes quoted-printable text up to an incomplete escape. Drops an `=` that does not begin an
/// escape.
fn decode_quoted(text: &[u8], last: bool, out: &mut Vec<u8>) -> usize {
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match (byte, text.get(at + 1..at + 3)) {
            (b'=', Some(&[high, low])) => match (url::hex(high), url::hex(low)) {
                (Some(high), Some(low)) => {
                    out.push(high << 4 | low);
                    at += 3;
                }
                _ => at += 1,
            },
            (b'=', _) if !last => break,
            (b'=', _) => at += 1,
            _ => {
                out.push(byte);
                at += 1;
            }
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(encoding: Encoding, text: &[u8], piece: usize) -> Vec<u8> {
        let (mut decoder, mut out) = (Decoder::new(encoding), Vec::new());
        let mut pieces = text.chunks(piece).peekable();
        while let Some(piece) = pieces.next() {
            decoder.push(piece, pieces.peek().is_none(), &mut out);
        }
        out
    }

    #[test]
    fn foreign_characters_and_missing_padding_are_tolerated() {
        for (text, bytes) in [
            ("YWJj", "abc"),
            ("YW Jj\r", "abc"),
            ("Y*W*J*j*ZA", "abcd"),
            ("YWI", "ab"),
            ("YWI=", "ab"),
            ("YQ==", "a"),
            ("YQ", "a"),
            ("Y", ""),
            ("YQ==YWJj", "a"),
            ("YWJjYQ==YWJj", "abca"),
            ("", ""),
        ] {
            for piece in 1..12 {
                let decoded = decode(Encoding::Base64, text.as_bytes(), piece);
                assert_eq!(decoded, bytes.as_bytes(), "{text} by {piece}");
            }
        }
    }

    #[test]
    fn quoted_printable_is_decoded() {
        for (text, bytes) in [("a=62c", "abc"), ("=3D=3d", "=="), ("a=", "a"), ("=zz=4", "zz4")] {
            for piece in 1..6 {
                assert_eq!(decode(Encoding::Quoted, text.as_bytes(), piece), bytes.as_bytes());
            }
        }
    }

    #[test]
    fn the_media_type_says_the_encoding() {
        for (media_type, encoding) in [
            ("text/tab-separated-values; colenc=B", Some(Encoding::Base64)),
            ("text/tab-separated-values;colenc=u", Some(Encoding::Url)),
            ("text/tab-separated-values; charset=utf-8; ColEnc = \"q\"", Some(Encoding::Quoted)),
            ("text/tab-separated-values", None),
            ("text/tab-separated-values; colenc=x", None),
            ("text/tab-separated-values; colenc", None),
        ] {
            assert_eq!(Encoding::of_media_type(media_type.as_bytes()), encoding, "{media_type}");
        }
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded_in_whatever_pieces(
            bytes in prop::collection::vec(any::<u8>(), 0..400),
            piece in 1_usize..50,
        ) {
            for encoding in [Encoding::Base64, Encoding::Url] {
                let mut text = Vec::new();
                for piece in bytes.chunks(piece * 3) {
                    encoding.encode_piece(piece, &mut text);
                }
                prop_assert_eq!(decode(encoding, &text, piece), bytes.as_slice());
            }
        }

        #[test]
        fn quoted_printable_of_others_is_decoded(
            bytes in prop::collection::vec(any::<u8>(), 0..100),
            piece in 1_usize..50,
        ) {
            // An independent encoder, without the line breaks that a column cannot have.
            let text: Vec<u8> = bytes
                .iter()
                .flat_map(|byte| quoted_printable::encode_binary([*byte]))
                .collect();
            prop_assert_eq!(decode(Encoding::Quoted, &text, piece), bytes);
        }

        #[test]
        fn pieces_of_anything_come_to_the_same_as_the_whole(
            text in prop::collection::vec(prop::sample::select(&b"aZ4+/=%* "[..]), 1..60),
            piece in 1_usize..9,
        ) {
            for encoding in [Encoding::Base64, Encoding::Quoted, Encoding::Url] {
                let whole = decode(encoding, &text, text.len());
                prop_assert_eq!(decode(encoding, &text, piece), whole);
            }
        }
    }
}
