//! Decimal fractions, for INCRBYFLOAT.
//!
//! Redis reads, adds and prints C's `long double` and stores the printed text, so the same texts
//! require the same arithmetic. This is the x87 format (64-bit mantissa), here in software, printed
//! with 17 decimals, correctly rounded and without trailing zeros: 0.1 + 0.2 is 0.3. The result is
//! the same on every processor. It differs from Redis only if Redis runs on a processor whose `long
//! double` has another format (ARM).

use crate::Error;
use rustc_apfloat::Float;
use rustc_apfloat::ieee::X87DoubleExtended as LongDouble;
use std::fmt::Write;

/// Most decimals of a result.
const DECIMALS: usize = 17;
const TEN_TO_DECIMALS: u128 = 10u128.pow(DECIMALS as u32);
/// Longer texts are not numbers, because they would not fit Redis' buffer.
const TEXT_BYTES_MAX: usize = 5 * 1024 - 1;

/// Adds two decimal texts: the stored value and the client's number.
pub(crate) fn add(value: &[u8], delta: &[u8]) -> Result<String, Error> {
    let (value, delta) = (parse(value), parse(delta));
    let sum = (value.ok_or(Error::NotAFloat)? + delta.ok_or(Error::NotAFloat)?).value;
    if sum.is_finite() { Ok(print(sum)) } else { Err(Error::NotFinite) }
}

/// The number that C's `strtold` reads, if it consumes the whole text and stays in range. NaN is
/// refused.
fn parse(text: &[u8]) -> Option<LongDouble> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.len() <= TEXT_BYTES_MAX)?;
    let (negative, magnitude) = match text.strip_prefix('-') {
        Some(magnitude) => (true, magnitude),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let infinite = ["inf", "infinity"].iter().any(|word| magnitude.eq_ignore_ascii_case(word));
    let number = if infinite { LongDouble::INFINITY } else { parse_finite(magnitude)? };
    Some(if negative { -number } else { number })
}

fn parse_finite(text: &str) -> Option<LongDouble> {
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, base, mark) = match hexadecimal {
        Some(digits) => (digits, 16, ['p', 'P']),
        None => (text, 10, ['e', 'E']),
    };
    let (significand, exponent) = match digits.split_once(mark) {
        Some((significand, exponent)) => (significand, Some(exponent)),
        None => (digits, None),
    };
    let (whole, fraction) = significand.split_once('.').unwrap_or((significand, ""));
    let all_digits = |text: &str, base| text.chars().all(|digit| digit.is_digit(base));
    let is_exponent = |text: &str| {
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        !digits.is_empty() && all_digits(digits, 10)
    };
    if whole.len() + fraction.len() == 0
        || !all_digits(whole, base)
        || !all_digits(fraction, base)
        || !exponent.is_none_or(is_exponent)
    {
        return None;
    }
    let is_zero = !significand.contains(|digit: char| digit.is_digit(base) && digit != '0');
    if is_zero {
        // Whatever the exponent is.
        return Some(LongDouble::ZERO);
    }
    let number: LongDouble = match (hexadecimal, exponent) {
        (Some(_), None) => format!("{text}p0").parse().ok()?,
        _ => text.parse().ok()?,
    };
    (number.is_finite() && !number.is_zero()).then_some(number)
}

/// C's `%.17Lf`, without trailing zeros.
fn print(number: LongDouble) -> String {
    // Sign, 15 bits of exponent, and a mantissa with its leading 1: number = mantissa * 2^exponent.
    let bits = number.to_bits();
    let mantissa = bits as u64;
    let exponent = ((bits >> 64) as i32 & 0x7fff).max(1) - 16_383 - 63;
    let mut text = match u32::try_from(exponent) {
        Ok(shift) => print_whole(mantissa, shift),
        Err(_) => print_scaled(u128::from(mantissa) * TEN_TO_DECIMALS, exponent.unsigned_abs()),
    };
    if number.is_negative() && text != "0" {
        text.insert(0, '-');
    }
    text
}

/// `scaled / 2^shift`, rounded half to even, in units of the last decimal.
fn print_scaled(scaled: u128, shift: u32) -> String {
    let units = match scaled.checked_shr(shift) {
        // The product has at most 121 bits, so a fraction that is shifted out entirely is less than
        // half a unit.
        None => 0,
        Some(units) => {
            let rest = scaled - (units << shift);
            let half = 1u128 << (shift - 1);
            units + u128::from(rest > half || (rest == half && units % 2 == 1))
        }
    };
    let mut text = format!("{}.{:017}", units / TEN_TO_DECIMALS, units % TEN_TO_DECIMALS);
    text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    text
}

/// `mantissa * 2^shift`, a whole number of up to 4,933 digits.
fn print_whole(mantissa: u64, mut shift: u32) -> String {
    /// The base of a limb.
    const LIMB: u64 = 1_000_000_000;
    /// `LIMB << STEP` and a carry fit into 64 bits.
    const STEP: u32 = 32;
    // Lowest limb first.
    let mut limbs = vec![mantissa % LIMB, mantissa / LIMB % LIMB, mantissa / LIMB / LIMB];
    while shift > 0 {
        let step = shift.min(STEP);
        shift -= step;
        let mut carry = 0;
        for limb in &mut limbs {
            let shifted = (*limb << step) + carry;
            *limb = shifted % LIMB;
            carry = shifted / LIMB;
        }
        while carry > 0 {
            limbs.push(carry % LIMB);
            carry /= LIMB;
        }
    }
    let mut text = String::new();
    for limb in limbs.iter().rev().skip_while(|limb| **limb == 0) {
        let width = if text.is_empty() { 0 } else { 9 };
        // Writing to a string cannot fail.
        let _ = write!(text, "{limb:0width$}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(a: &str, b: &str) -> Result<String, Error> {
        add(a.as_bytes(), b.as_bytes())
    }

    #[test]
    fn sums_are_those_of_redis() {
        let sums = [
            ("10.50", "0.1", "10.6"),
            ("10.6", "-5", "5.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("0.1", "0.2", "0.3"),
            ("3.0", "1.1", "4.1"),
            ("1.23", "0", "1.23"),
            ("1", "0.00000000000000001", "1.00000000000000001"),
            ("3", "0.00000000000000000001", "3"),
            ("17179869184", "1.5", "17179869185.5"),
            ("1e20", "0.5", "100000000000000000000"),
            ("1e28", "1", "9999999999999999999731564544"),
            ("9223372036854775807", "1", "9223372036854775808"),
        ];
        for (a, b, expected) in sums {
            assert_eq!(sum(a, b).as_deref(), Ok(expected), "{a} + {b}");
        }
    }

    #[test]
    fn zero_has_no_sign() {
        for (a, b) in [("0", "-0"), ("-0.5", "0.5"), ("-0", "-0"), ("0", "-1e-30")] {
            assert_eq!(sum(a, b).as_deref(), Ok("0"), "{a} + {b}");
        }
    }

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        let numbers = [
            (".5", "0.5"),
            ("5.", "5"),
            ("+1", "1"),
            ("-1", "-1"),
            ("007", "7"),
            ("1E+2", "100"),
            ("1e-2", "0.01"),
            ("0e99999999999999999999", "0"),
            ("0x10", "16"),
            ("0X.8", "0.5"),
            ("-0x1.8p1", "-3"),
            ("0x0p0", "0"),
        ];
        for (text, expected) in numbers {
            assert_eq!(sum(text, "0").as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn texts_that_c_does_not_read_to_the_end_are_refused() {
        let texts = [
            "",
            " 1",
            "1 ",
            "+",
            "-",
            ".",
            "e5",
            "1e",
            "1e+",
            "1.2.3",
            "--1",
            "+-1",
            "1_000",
            "1,5",
            "abc",
            "nan",
            "NAN(1)",
            "-nan",
            "0x",
            "0x.",
            "0x1p",
            "0xg",
            "1p3",
            "infinit",
            "\u{661}",
            "1e99999",
            "1e-99999",
            "0x1p99999",
            "1\0",
        ];
        for text in texts {
            assert_eq!(sum(text, "1"), Err(Error::NotAFloat), "{text:?}");
            assert_eq!(sum("1", text), Err(Error::NotAFloat), "{text:?}");
        }
        assert_eq!(add(b"\xff", b"1"), Err(Error::NotAFloat));
        assert_eq!(sum(&"1".repeat(TEXT_BYTES_MAX + 1), "1"), Err(Error::NotAFloat));
    }

    #[test]
    fn results_are_finite() {
        for (a, b) in [("inf", "1"), ("1", "-Infinity"), ("inf", "-inf"), ("1e4932", "1e4932")] {
            assert_eq!(sum(a, b), Err(Error::NotFinite), "{a} + {b}");
        }
    }

    #[test]
    fn the_largest_and_the_smallest_are_printed() {
        let largest = sum("1.189731495357231765e4932", "0").unwrap();
        assert_eq!(largest.len(), 4_933);
        assert!(largest.starts_with("11897314953572317650"), "{largest}");
        assert_eq!(sum("3.6e-4951", "0").as_deref(), Ok("0"));
        assert_eq!(sum(&"1".repeat(TEXT_BYTES_MAX - 300), "1").map(|text| text.len()), Ok(4_819));
    }

    /// Every double is a long double, and `{:.17}` prints doubles exactly rounded.
    #[test]
    fn printing_agrees_with_the_standard_library_on_doubles() {
        let mut bits = 0x9e37_79b9_7f4a_7c15u64;
        for _ in 0..5_000 {
            bits = bits
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let double = f64::from_bits(bits);
            let double =
                if bits.is_multiple_of(4) { double } else { (bits as i64 >> 20) as f64 * 1e-9 };
            if !double.is_finite() || double.abs() < 1e-300 {
                continue;
            }
            let text = format!("{double:.17}");
            let text = text.trim_end_matches('0').trim_end_matches('.');
            let expected = if text == "-0" { "0" } else { text };
            let exactly = format!("{double:.1074}");
            assert_eq!(sum(&exactly, "0").as_deref(), Ok(expected), "{double:?}");
        }
    }
}
