//! URL encoding in Kyoto Tycoon's form.

/// Decodes the front of `text`, up to an incomplete escape, and returns the number of bytes
/// processed. `last` means that no text follows; an incomplete escape is then dropped.
///
/// `+` is a blank. Bytes that a URL cannot contain are dropped: blanks, control characters, and all
/// above 0x7e.
pub(super) fn decode_piece(text: &[u8], last: bool, out: &mut Vec<u8>) -> usize {
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'%' => match text.get(at + 1..at + 3) {
                Some(&[high, low]) => match (hex(high), hex(low)) {
                    (Some(high), Some(low)) => {
                        out.push(high << 4 | low);
                        at += 3;
                    }
                    _ => at += 1,
                },
                _ if last => at += 1,
                _ => break,
            },
            b'+' => {
                out.push(b' ');
                at += 1;
            }
            0x21..=0x7e => {
                out.push(byte);
                at += 1;
            }
            _ => at += 1,
        }
    }
    at
}

/// Decodes all of a text.
pub(super) fn decode(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    decode_piece(text, true, &mut out);
    out
}

/// Escapes everything but letters, digits, `_`, `.`, `~` and `-`.
pub(super) fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'~' | b'-') {
            out.push(byte);
        } else {
            let [high, low] = [byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)]);
            out.extend_from_slice(&[b'%', high, low]);
        }
    }
}

/// The value of a hexadecimal digit.
pub(super) fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escapes_are_decoded_and_bytes_that_do_not_belong_are_dropped() {
        for (text, bytes) in [
            (&b"a%20b+c"[..], &b"a b c"[..]),
            (b"%C3%a9", b"\xc3\xa9"),
            (b"\xc3\xa9 x\x7f\t", b"x"),
            (b"%", b""),
            (b"%4", b"4"),
            (b"%zz", b"zz"),
            (b"%41%", b"A"),
            (b"a/b?c", b"a/b?c"),
        ] {
            assert_eq!(decode(text), bytes, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn hexadecimal_digits_are_lower_case() {
        let mut out = Vec::new();
        encode(b"\xab-/*~", &mut out);
        assert_eq!(out, b"%ab-%2f%2a~");
    }

    proptest! {
        #[test]
        fn encoded_text_decodes_to_itself(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut text = Vec::new();
            encode(&bytes, &mut text);
            prop_assert_eq!(decode(&text), bytes);
        }

        #[test]
        fn pieces_are_decoded_as_the_whole(
            text in prop::collection::vec(prop::sample::select(&b"a%4+ z"[..]), 0..60),
            piece in 3_usize..9,
        ) {
            let (mut out, mut at) = (Vec::new(), 0);
            while at < text.len() {
                let end = text.len().min(at + piece);
                at += decode_piece(&text[at..end], end == text.len(), &mut out);
            }
            prop_assert_eq!(out, decode(&text));
        }
    }
}
