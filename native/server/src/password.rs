//! Compares passwords in a time that does not reveal how much of a guess was right.

use std::hint::black_box;
use subtle::{Choice, ConstantTimeEq};

/// Whether both are equal. The time depends only on the length of `given`, which its sender knows
/// anyway.
pub(crate) fn equal(secret: &[u8], given: &[u8]) -> bool {
    let mut same: Choice = (secret.len() as u64).ct_eq(&(given.len() as u64));
    // If the lengths differ, the result is already known; the comparison only takes the same time.
    let secret = if secret.is_empty() { &[0][..] } else { secret };
    let mut index = 0;
    for byte in given {
        same &= byte.ct_eq(&secret[black_box(index)]);
        index += 1;
        if index == secret.len() {
            index = 0;
        }
    }
    same.into()
}

#[cfg(test)]
mod tests {
    use super::equal;

    #[test]
    fn only_identical_passwords_are_equal() {
        assert!(equal(b"secret", b"secret"));
        assert!(equal(b"", b""));
        for wrong in [&b""[..], b"secre", b"secrets", b"Secret", b"secreT", b"secretsecret"] {
            assert!(!equal(b"secret", wrong), "{wrong:?}");
        }
        assert!(!equal(b"", b"x"));
        assert!(!equal(b"", b"\0"));
    }
}
