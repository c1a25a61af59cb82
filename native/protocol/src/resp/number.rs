//! Numbers as Redis reads them from arguments: strictly.

/// A whole number of 64 bits: no plus sign, no leading zeros, no space. The numbers that clients
/// write are read like the numbers that they store.
pub(super) use todana_command::parse_signed as integer;

/// A cursor of SCAN: an unsigned number of 64 bits as C's `strtoul` reads it, which takes a sign
/// and no digits at all.
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
