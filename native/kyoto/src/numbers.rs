//! Numbers in Kyoto Tycoon's syntax, and its expiry times.
//!
//! ```text
//!   xt = 60            in 60 seconds
//!   xt = -1700000000   at that moment, in seconds since 1970
//!   no xt              never; so is any value from 2^40 - 1 on
//! ```
//!
//! A record lives to the end of the second `xt`: in the milliseconds of the table, it expires at
//! the beginning of the next second.

use todana_command::Expires;

/// The second that means never.
pub(super) const XT_MAX: u64 = (1 << 40) - 1;

/// A whole number: blanks, a sign, digits, and any other text. Text that is not a number is 0; a
/// number that is too large wraps around.
pub(super) fn integer(text: &[u8]) -> i64 {
    let (is_negative, digits) = signed(text);
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let number = digits
        .fold(0_i64, |number, digit| number.wrapping_mul(10).wrapping_add(i64::from(digit - b'0')));
    if is_negative { number.wrapping_neg() } else { number }
}

/// A fraction: like a whole number, but with a decimal point, an exponent, `inf` or `nan`.
pub(super) fn fraction(text: &[u8]) -> f64 {
    let (is_negative, rest) = signed(text);
    let begins_with =
        |word: &[u8]| rest.get(..3).is_some_and(|start| start.eq_ignore_ascii_case(word));
    let number = if begins_with(b"inf") {
        f64::INFINITY
    } else if begins_with(b"nan") {
        f64::NAN
    } else {
        decimal(rest)
    };
    if is_negative { -number } else { number }
}

fn decimal(text: &[u8]) -> f64 {
    let digits = |from: usize| text[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits(0);
    let mut end = whole;
    if text.get(end) == Some(&b'.') {
        let places = digits(end + 1);
        if whole + places == 0 {
            return 0.0;
        }
        end += 1 + places;
    }
    if end > 0 && matches!(text.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(end + 1), Some(b'+' | b'-')));
        let places = if end + 1 + sign < text.len() { digits(end + 1 + sign) } else { 0 };
        if places > 0 {
            end += 1 + sign + places;
        }
    }
    std::str::from_utf8(&text[..end]).ok().and_then(|text| text.parse().ok()).unwrap_or(0.0)
}

/// Whether there is a minus sign, and the text after blanks and sign.
fn signed(text: &[u8]) -> (bool, &[u8]) {
    let blanks = text.iter().take_while(|byte| **byte <= b' ').count();
    match &text[blanks..] {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    }
}

/// The expiry that `xt` sets.
pub(super) fn expires(xt: Option<i64>, now_ms: u64) -> Expires {
    let Some(xt) = xt else { return Expires::Never };
    let seconds = xt.unsigned_abs();
    let (at_s, expires) = match xt < 0 {
        true => (seconds, Expires::At(expires_at_ms(seconds))),
        false => ((now_ms / 1000).saturating_add(seconds), Expires::AfterSecond(seconds)),
    };
    if at_s >= XT_MAX { Expires::Never } else { expires }
}

/// The moment in milliseconds at which a record expires that lives to the end of this second.
pub(super) fn expires_at_ms(xt_absolute: u64) -> u64 {
    xt_absolute.saturating_add(1).saturating_mul(1000)
}

/// The last second of a record's life. `None` if it is too late for Kyoto Tycoon's format, as a
/// record written by another protocol may be.
pub(super) fn xt_of(expires_at_ms: u64) -> Option<u64> {
    Some(expires_at_ms.saturating_sub(1) / 1000).filter(|&xt| xt < XT_MAX)
}

/// A stored fraction: a whole part and 10^-15ths, both signed 64-bit numbers. An infinity has the
/// largest or smallest whole part; NaN has the smallest number in both parts.
pub(super) fn stored_fraction(bytes: &[u8]) -> Option<f64> {
    let halves = bytes.as_chunks::<8>();
    let (&[whole, parts], []) = (halves.0, halves.1) else { return None };
    Some(match (i64::from_be_bytes(whole), i64::from_be_bytes(parts)) {
        (i64::MIN, i64::MIN) => f64::NAN,
        (i64::MAX, _) => f64::INFINITY,
        (i64::MIN, _) => f64::NEG_INFINITY,
        (whole, parts) => whole as f64 + parts as f64 / 1e15,
    })
}

/// A fraction with six decimal places.
pub(super) fn fraction_text(number: f64) -> String {
    if number.is_nan() { "nan".into() } else { format!("{number:.6}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_read_leniently() {
        for (text, number) in [
            ("12", 12),
            ("  -7x", -7),
            ("+5", 5),
            ("", 0),
            ("x", 0),
            ("- 5", 0),
            ("1.9", 1),
            ("99999999999999999999", 7_766_279_631_452_241_919),
            ("-99999999999999999999", -7_766_279_631_452_241_919),
            ("9223372036854775808", i64::MIN),
            ("18446744073709551615", -1),
            ("-9223372036854775808", i64::MIN),
            ("9223372036854775807", i64::MAX),
        ] {
            assert_eq!(integer(text.as_bytes()), number, "{text}");
        }
    }

    #[test]
    fn fractions_are_read_leniently() {
        for (text, number) in [
            ("1.5", 1.5),
            (" -2.25e2z", -225.0),
            (".5", 0.5),
            ("5.", 5.0),
            ("1e", 1.0),
            ("1e+", 1.0),
            (".", 0.0),
            ("e5", 0.0),
            ("x", 0.0),
            ("", 0.0),
            ("inf", f64::INFINITY),
            ("-INFINITY", f64::NEG_INFINITY),
        ] {
            assert_eq!(fraction(text.as_bytes()), number, "{text}");
        }
        assert!(fraction(b"nan").is_nan());
    }

    #[test]
    fn expiry_times_are_relative_absolute_or_never() {
        let now_ms = 1_700_000_000_500;
        for (xt, at_s) in [
            (Some(0), Some(1_700_000_000)),
            (Some(60), Some(1_700_000_060)),
            (Some(-1_700_000_009), Some(1_700_000_009)),
            (Some(-1), Some(1)),
            (None, None),
            (Some(XT_MAX as i64), None),
            (Some(-(XT_MAX as i64)), None),
            (Some(-(XT_MAX as i64) + 1), Some(XT_MAX - 1)),
            (Some(i64::MAX), None),
            (Some(i64::MIN), None),
        ] {
            let at_ms = expires(xt, now_ms).resolve(None, now_ms);
            assert_eq!(at_ms, at_s.map(|at_s| (at_s + 1) * 1000), "{xt:?}");
        }
    }

    #[test]
    fn the_second_is_the_same_both_ways() {
        for xt in [0, 1, 1_700_000_000, XT_MAX - 1] {
            assert_eq!(xt_of(expires_at_ms(xt)), Some(xt));
        }
        // Other protocols can set expiries within a second, or later than this format can express.
        assert_eq!(xt_of(1_700_000_000_001), Some(1_700_000_000));
        assert_eq!(xt_of(1_700_000_000_000), Some(1_699_999_999));
        assert_eq!(xt_of(expires_at_ms(XT_MAX)), None);
        assert_eq!(xt_of(u64::MAX), None);
    }

    #[test]
    fn stored_fractions_are_shown_with_six_places() {
        let text = |whole: i64, parts: i64| {
            let bytes = [whole.to_be_bytes(), parts.to_be_bytes()].concat();
            fraction_text(stored_fraction(&bytes).unwrap())
        };
        assert_eq!(text(1, 500_000_000_000_000), "1.500000");
        assert_eq!(text(-1, -250_000_000_000_000), "-1.250000");
        assert_eq!(text(i64::MAX, 0), "inf");
        assert_eq!(text(i64::MIN, 0), "-inf");
        assert_eq!(text(i64::MIN, i64::MIN), "nan");
        assert_eq!(stored_fraction(b"short"), None);
    }
}
