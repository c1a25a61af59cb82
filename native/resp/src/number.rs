//! Numbers in Redis' strict syntax of arguments.

/// A 64-bit whole number: no plus sign, no leading zeros, no space. Arguments have the same syntax
/// as stored numbers.
pub(super) use todana_command::parse_signed as integer;

/// A cursor of SCAN: an unsigned 64-bit number in the syntax of C's `strtoul`, which accepts a
/// sign, and an empty text as 0.
pub(super) fn cursor(bytes: &[u8]) -> Option<u64> {
    let (negative, digits) = match bytes {
        [] => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let mut number: u64 = 0;
    for byte in digits {
        if !byte.is_ascii_digit() {
            return None;
        }
        number = number.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
    }
    Some(if negative { number.wrapping_neg() } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_strict() {
        assert_eq!(integer(b"0"), Some(0));
        assert_eq!(integer(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(integer(b"9223372036854775807"), Some(i64::MAX));
        for bad in ["", "-", "-0", "00", "01", "+1", " 1", "1 ", "1.0", "9223372036854775808"] {
            assert_eq!(integer(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn cursors_are_unsigned() {
        assert_eq!(cursor(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(cursor(b"0"), Some(0));
        assert_eq!(cursor(b""), Some(0));
        for bad in ["-", "x", "1x", "18446744073709551616", " 1"] {
            assert_eq!(cursor(bad.as_bytes()), None, "{bad}");
        }
    }
}
