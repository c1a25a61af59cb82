//! Sort keys: keys as bytes whose lexical order is the order of the table.
//!
//! Lexical tables sort their keys as they are. Decimal ones sort by the number at the start of a
//! key, then by its bytes. There, a sort key is the number, encoded so that comparing bytes
//! compares numbers, followed by the key itself, which can thus be recovered and decides between
//! equal numbers.
//!
//! The number is parsed as Kyoto Cabinet does: after blanks and control characters an optional `-`,
//! digits, and optionally `.` and more digits. No number counts as 0. There is no limit of length
//! and no rounding. Without leading and trailing zeros it is 0.d1 d2 .. dn * 10^e, where neither d1
//! nor dn is 0:
//!
//! ```text
//!   0          80
//!   positive   82 + 32 + e           -32 <= e < 32
//!              81 or c2, e as 8 bytes  below, above (sign bit inverted)
//!              then two digits a byte, 1 + 10 d1 + d2 and so on, and 00
//!   negative   like the positive number, every bit inverted
//! ```
//!
//! No number's encoding is a prefix of another's, so the start of the key is known.

use std::borrow::Cow;

use crate::range::Comparison;

const ZERO: u8 = 0x80;
/// Exponents below the small ones.
const TINY: u8 = 0x81;
/// The smallest exponent that has a byte of its own.
const SMALL: u8 = 0x82;
/// Exponents above the small ones.
const HUGE: u8 = 0xc2;
const SMALL_EXPONENTS: std::ops::Range<i64> = -32..32;
const EXPONENT_BYTES: usize = 8;
const DIGITS_END: u8 = 0;

/// The bytes by which an index sorts a key.
pub(crate) fn of(comparison: Comparison, key: &[u8]) -> Cow<'_, [u8]> {
    match comparison {
        Comparison::Lexical => Cow::Borrowed(key),
        Comparison::Decimal => Cow::Owned(decimal(key)),
    }
}

/// The key from which a sort key was made.
pub(crate) fn key(comparison: Comparison, sort_key: &[u8]) -> &[u8] {
    match comparison {
        Comparison::Lexical => sort_key,
        Comparison::Decimal => &sort_key[number_bytes(sort_key)..],
    }
}

fn decimal(key: &[u8]) -> Vec<u8> {
    let number = Number::at_front(key);
    let mut sort_key = Vec::with_capacity(key.len() + number.digits().count() / 2 + 3);
    number.write(&mut sort_key);
    sort_key.extend_from_slice(key);
    sort_key
}

/// Length of the encoded number at the start of a sort key.
fn number_bytes(sort_key: &[u8]) -> usize {
    let Some(&head) = sort_key.first() else { return 0 };
    if head == ZERO {
        return 1;
    }
    let turned = if head < ZERO { u8::MAX } else { 0 };
    let head = head ^ turned;
    let digits = if head == TINY || head == HUGE { 1 + EXPONENT_BYTES } else { 1 };
    let end = |&byte: &u8| byte ^ turned == DIGITS_END;
    let end = sort_key.iter().skip(digits).position(end);
    end.map_or(sort_key.len(), |end| digits + end + 1)
}

/// A decimal number in its key, without leading and trailing zeros; zero has no digits.
struct Number<'k> {
    negative: bool,
    /// The power of ten that multiplies 0.ddd.
    exponent: i64,
    integer: &'k [u8],
    fraction: &'k [u8],
}

impl<'k> Number<'k> {
    fn at_front(key: &'k [u8]) -> Number<'k> {
        let blank = |byte: &u8| *byte <= b' ' || *byte == 0x7f;
        let key = skip(key, blank);
        let (negative, key) = match key.strip_prefix(b"-") {
            Some(rest) => (true, rest),
            None => (false, key),
        };
        let (integer, rest) = split(key, u8::is_ascii_digit);
        let fraction = rest.strip_prefix(b".").unwrap_or_default();
        let (fraction, _) = split(fraction, u8::is_ascii_digit);
        Number { negative, exponent: 0, integer, fraction }.trimmed()
    }

    fn trimmed(self) -> Number<'k> {
        let zero = |byte: &u8| *byte == b'0';
        let (mut integer, mut fraction) = (skip(self.integer, zero), self.fraction);
        // A slice is shorter than 2^63 bytes.
        let mut exponent = integer.len() as i64;
        if integer.is_empty() {
            let significant = skip(fraction, zero);
            exponent = -((fraction.len() - significant.len()) as i64);
            fraction = significant;
        }
        fraction = trim_end(fraction, zero);
        if fraction.is_empty() {
            integer = trim_end(integer, zero);
        }
        Number { exponent, integer, fraction, ..self }
    }

    fn digits(&self) -> impl Iterator<Item = u8> {
        self.integer.iter().chain(self.fraction).map(|digit| digit - b'0')
    }

    fn write(&self, to: &mut Vec<u8>) {
        let mut digits = self.digits().peekable();
        if digits.peek().is_none() {
            return to.push(ZERO);
        }
        let first = to.len();
        if SMALL_EXPONENTS.contains(&self.exponent) {
            to.push(SMALL + (self.exponent - SMALL_EXPONENTS.start) as u8);
        } else {
            to.push(if self.exponent < 0 { TINY } else { HUGE });
            to.extend_from_slice(&(self.exponent ^ i64::MIN).to_be_bytes());
        }
        while let Some(digit) = digits.next() {
            to.push(1 + digit * 10 + digits.next().unwrap_or(0));
        }
        to.push(DIGITS_END);
        if self.negative {
            to[first..].iter_mut().for_each(|byte| *byte = !*byte);
        }
    }
}

/// The longest prefix whose bytes are all of one kind, and the rest.
fn split(bytes: &[u8], kind: impl Fn(&u8) -> bool) -> (&[u8], &[u8]) {
    bytes.split_at(bytes.iter().take_while(|byte| kind(byte)).count())
}

fn skip(bytes: &[u8], kind: impl Fn(&u8) -> bool) -> &[u8] {
    split(bytes, kind).1
}

fn trim_end(bytes: &[u8], kind: impl Fn(&u8) -> bool) -> &[u8] {
    let kept = bytes.iter().rposition(|byte| !kind(byte)).map_or(0, |last| last + 1);
    &bytes[..kept]
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use super::*;

    fn number(key: &[u8]) -> Vec<u8> {
        let sort_key = decimal(key);
        sort_key[..number_bytes(&sort_key)].to_vec()
    }

    /// The keys of each group have equal numbers, less than those of the next group.
    fn assert_ascending(groups: &[&[&str]]) {
        for (rank, group) in groups.iter().enumerate() {
            for (other_rank, other_group) in groups.iter().enumerate() {
                for (key, other) in
                    group.iter().flat_map(|key| other_group.iter().map(move |other| (key, other)))
                {
                    let (left, right) = (number(key.as_bytes()), number(other.as_bytes()));
                    assert_eq!(left.cmp(&right), rank.cmp(&other_rank), "{key:?} {other:?}");
                }
            }
        }
    }

    #[test]
    fn whole_numbers_of_any_length_sort_by_value() {
        assert_ascending(&[
            &["-1000"],
            &["-101"],
            &["-100", "-0100"],
            &["-99"],
            &["-10"],
            &["-9"],
            &["-1"],
            &["0", "-0", "00", ""],
            &["1", "01"],
            &["2"],
            &["9"],
            &["10"],
            &["11"],
            &["99"],
            &["100", "0000100"],
            &["101"],
            &["110"],
        ]);
    }

    #[test]
    fn fractions_sort_by_value() {
        assert_ascending(&[
            &["-1.5", "-01.500"],
            &["-1.25"],
            &["-1", "-1.", "-1.0"],
            &["-.5", "-0.5"],
            &["-0.05"],
            &["0.0", "-0.0", ".", "-.", ".0"],
            &["0.001"],
            &["0.01", "0.0100"],
            &["0.1", ".1"],
            &["0.123"],
            &["0.1234"],
            &["0.124"],
            &["1"],
            &["1.0001"],
            &["1.01"],
            &["10.5"],
        ]);
    }

    #[test]
    fn numbers_longer_than_any_machine_number_sort_by_value() {
        let zeroes = "0".repeat(400);
        let (huge, huger) = (format!("1{zeroes}"), format!("1{zeroes}0"));
        let (next, tiny) = (format!("1{zeroes}.5"), format!("0.{zeroes}1"));
        let (minus_huge, minus_tiny) = (format!("-{huge}"), format!("-{tiny}"));
        let small = format!("0.{}1", "0".repeat(33));
        assert_ascending(&[
            &[&format!("-{huger}")],
            &[&minus_huge],
            &["-99999999999999999999999999999999999999"],
            &[&minus_tiny],
            &["0"],
            &[&tiny],
            &[&small],
            &["1"],
            &["99999999999999999999999999999999"],
            &["99999999999999999999999999999999999999"],
            &[&huge],
            &[&next],
            &[&huger],
        ]);
    }

    #[test]
    fn other_text_counts_as_zero_and_text_after_a_number_is_ignored() {
        assert_ascending(&[
            &["-7", " -7 apples", "\t\x7f-7e3"],
            &["apple", "-apple", "--7", "+7", "- 7", ",5"],
            &["7", "7 apples", "\n7", "7-3", "7e3", "7.0.9"],
        ]);
    }

    #[test]
    fn keys_of_one_number_sort_by_their_bytes() {
        let mut keys = [&b"5"[..], b"05", b"5.0", b"5\xff", b" 5", b"5a", b"5\0"];
        keys.sort_by_key(|key| decimal(key));
        assert_eq!(keys, [&b" 5"[..], b"05", b"5", b"5\0", b"5.0", b"5a", b"5\xff"]);
    }

    #[test]
    fn a_sort_key_yields_its_key() {
        let keys: [&[u8]; 8] =
            [b"", b"\0", b"\xff\xff", b"-12.50 x", b"0", b"-\x80", &[b'9'; 500], b"-0.001"];
        for key in keys {
            for comparison in [Comparison::Lexical, Comparison::Decimal] {
                assert_eq!(super::key(comparison, &of(comparison, key)), key);
            }
        }
    }

    #[test]
    fn every_number_of_a_few_characters_sorts_by_value() {
        let mut cases = Vec::new();
        for sign in ["", "-"] {
            for integer in ["", "0", "1", "2", "9", "10", "12", "90", "123"] {
                for fraction in ["", ".", ".0", ".1", ".01", ".10", ".12", ".9"] {
                    let text = format!("{sign}{integer}{fraction}");
                    let whole: f64 = integer.parse().unwrap_or(0.0);
                    let part: f64 = format!("0{fraction}").parse().expect("a fraction");
                    let value = whole + part;
                    cases.push((text, if sign.is_empty() { value } else { -value }));
                }
            }
        }
        for (left, left_value) in &cases {
            for (right, right_value) in &cases {
                let expected = left_value.partial_cmp(right_value).unwrap_or(Ordering::Equal);
                let seen = number(left.as_bytes()).cmp(&number(right.as_bytes()));
                assert_eq!(seen, expected, "{left:?} {right:?}");
            }
        }
    }
}
