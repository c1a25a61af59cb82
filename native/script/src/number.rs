//! Numbers as text, in the manner of C.

/// A number as `%.<digits>g` prints it.
pub(crate) fn general(number: f64, digits: usize) -> String {
    if number.is_nan() {
        return if number.is_sign_negative() { "-nan".into() } else { "nan".into() };
    }
    if number.is_infinite() {
        return if number < 0.0 { "-inf".into() } else { "inf".into() };
    }
    let precision = digits.max(1) - 1;
    let scientific = format!("{number:.precision$e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= digits.max(1) as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", without_zeroes(mantissa), exponent.unsigned_abs());
    }
    let decimals = usize::try_from(precision as i32 - exponent).unwrap_or(0);
    without_zeroes(&format!("{number:.decimals$}")).to_owned()
}

fn without_zeroes(text: &str) -> &str {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => text,
    }
}

/// A number as the argument of a command: an integer if it is one.
pub(crate) fn argument(number: f64) -> String {
    let whole = number as i64;
    match whole as f64 == number && number.abs() < 9.2e18 {
        true => whole.to_string(),
        false => general(number, 17),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_in_c() {
        let cases = [
            (0.0, 14, "0"),
            (-0.0, 14, "-0"),
            (0.1, 14, "0.1"),
            (0.1, 17, "0.10000000000000001"),
            (3.3, 17, "3.2999999999999998"),
            (100.0, 14, "100"),
            (1e14, 14, "1e+14"),
            (123456789012345680.0, 17, "1.2345678901234568e+17"),
            (1e13, 14, "10000000000000"),
            (1e-5, 14, "1e-05"),
            (0.0001, 14, "0.0001"),
            (1.5e300, 14, "1.5e+300"),
            (-2.5, 14, "-2.5"),
            (f64::INFINITY, 14, "inf"),
            (0.99999999999999999, 14, "1"),
            (9.9999999999999e13, 3, "1e+14"),
        ];
        for (number, digits, text) in cases {
            assert_eq!(general(number, digits), text, "{number}");
        }
        assert_eq!(argument(10.0), "10");
        assert_eq!(argument(-3.0), "-3");
        assert_eq!(argument(1e15), "1000000000000000");
        assert_eq!(argument(1.5), "1.5");
    }
}
