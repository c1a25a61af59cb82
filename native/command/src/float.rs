//! Decimal fractions, for INCRBYFLOAT.
//!
//! Redis adds in the x87 format (64-bit mantissa) and prints 17 decimals without trailing zeros, so that 0.1 + 0.2 is
//! 0.3. We add exactly, as decimals of 28 digits (`rust_decimal`), and round to the same 17 decimals; the texts are the same
//! wherever Redis' own result is not touched by its binary rounding. Numbers too large for that (from about 7.9e28) are
//! added as doubles.

use crate::Error;
use rust_decimal::Decimal;
use std::str::FromStr;

/// Decimals that a result keeps.
const DECIMALS: u32 = 17;
/// A longer text is no number that Redis would read into its buffer either.
const TEXT_BYTES_MAX: usize = 256;

/// Adds two decimal texts. The first is the stored value, the second the client's number.
pub(crate) fn add(value: &[u8], delta: &[u8]) -> Result<String, Error> {
    let (value, delta) = (parse(value)?, parse(delta)?);
    let exact = match (value.exact, delta.exact) {
        (Some(a), Some(b)) => a.checked_add(b),
        _ => None,
    };
    if let Some(sum) = exact {
        let text = sum.round_dp(DECIMALS).normalize().to_string();
        return Ok(if text == "-0" { "0".to_owned() } else { text });
    }
    let sum = value.double + delta.double;
    if sum.is_finite() { Ok(sum.to_string()) } else { Err(Error::NotFinite) }
}

/// Whether a text is a decimal number at all, however large.
pub fn is_float(text: &[u8]) -> bool {
    parse(text).is_ok()
}

struct Parsed {
    exact: Option<Decimal>,
    double: f64,
}

fn parse(text: &[u8]) -> Result<Parsed, Error> {
    let text = std::str::from_utf8(text).map_err(|_| Error::NotAFloat)?;
    let plausible = |c: u8| c.is_ascii_digit() || matches!(c, b'+' | b'-' | b'.' | b'e' | b'E');
    let is_infinity = matches!(
        text.trim_start_matches(['+', '-']).to_ascii_lowercase().as_str(),
        "inf" | "infinity"
    );
    if text.len() > TEXT_BYTES_MAX || !(is_infinity || text.bytes().all(plausible)) {
        return Err(Error::NotAFloat);
    }
    let double = f64::from_str(text).map_err(|_| Error::NotAFloat)?;
    let exact = Decimal::from_str_exact(text).or_else(|_| Decimal::from_scientific(text)).ok();
    // A decimal keeps 28 digits; what does not fit is told by a difference that no rounding explains.
    let exact = exact.filter(|decimal| decimal.is_zero() == (double == 0.0));
    Ok(Parsed { exact, double })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_read_as_redis_prints_them() {
        let sums = [
            ("10.50", "0.1", "10.6"),
            ("10.6", "-5", "5.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("0.1", "0.2", "0.3"),
            ("3.0", "1.1", "4.1"),
            ("3", "0.00000000000000000001", "3"),
            ("1", "-1", "0"),
            ("-0.5", "0.5", "0"),
            ("0", "-0", "0"),
            ("1e28", "1", "10000000000000000000000000001"),
            (".5", "1.", "1.5"),
            ("+1", "1", "2"),
        ];
        for (a, b, sum) in sums {
            assert_eq!(add(a.as_bytes(), b.as_bytes()).as_deref(), Ok(sum), "{a} + {b}");
        }
    }

    #[test]
    fn numbers_beyond_decimals_are_added_as_doubles() {
        assert_eq!(add(b"1e30", b"1e30").as_deref(), Ok("2000000000000000000000000000000"));
        assert_eq!(add(b"inf", b"1"), Err(Error::NotFinite));
        assert_eq!(add(b"1e308", b"1e308"), Err(Error::NotFinite));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in ["", " 1", "1 ", "abc", "1.2.3", "nan", "0x10", "1e", "--1", "1_000"] {
            assert_eq!(add(text.as_bytes(), b"1"), Err(Error::NotAFloat), "{text:?}");
            assert!(!is_float(text.as_bytes()), "{text:?}");
        }
    }
}
