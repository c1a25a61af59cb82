//! Times in the form of REST's `X-Kt-Xt`.
//!
//! ```text
//!   1795262400                           seconds since the Unix epoch, also 0x6b01a2c0
//!   2026-11-21T12:00:00+09:00            W3CDTF; omitted parts have their first value
//!   Sat, 21 Nov 2026 12:00:00 GMT        RFC 1123; RFC 822 has years of two digits
//! ```

use super::numbers::XT_MAX;

/// The last second of a record's life, from a text of REST. `None` means that the record does not
/// expire; text that is not a time means the same.
pub(super) fn parse(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii();
    let second = number(text).or_else(|| w3c(text)).or_else(|| rfc_822(text))?;
    u64::try_from(second).ok().filter(|second| (1..XT_MAX).contains(second))
}

fn number(text: &[u8]) -> Option<i64> {
    let (digits, radix) = match text {
        [b'0', b'x' | b'X', digits @ ..] => (digits, 16),
        _ => (text.strip_prefix(b"-").unwrap_or(text), 10),
    };
    if digits.is_empty() {
        return None;
    }
    let number = digits.iter().try_fold(0_i64, |number, &digit| {
        let digit = char::from(digit).to_digit(radix)?;
        Some(number.saturating_mul(radix.into()).saturating_add(digit.into()))
    })?;
    Some(if text.starts_with(b"-") { -number } else { number })
}

/// `YYYY[-MM[-DD[Thh:mm[:ss[.s]]zone]]]`
fn w3c(text: &[u8]) -> Option<i64> {
    let mut rest = Rest(text);
    let year = rest.digits(4, 4)?;
    let month = if rest.skip(b"-") { rest.digits(2, 2)? } else { 1 };
    let day = if rest.skip(b"-") { rest.digits(2, 2)? } else { 1 };
    let mut time = [0; 3];
    let mut zone_s = 0;
    if rest.skip(b"T") || rest.skip(b"t") || rest.skip(b" ") {
        time = rest.time()?;
        if rest.skip(b".") {
            while rest.digits(1, 9).is_some() {}
        }
        zone_s = rest.zone_s()?;
    }
    rest.0.is_empty().then(|| moment([year, month, day], time, zone_s))?
}

/// `[Day, ]D Mon YY[YY] hh:mm[:ss] zone`
fn rfc_822(text: &[u8]) -> Option<i64> {
    const MONTHS: &[u8; 36] = b"janfebmaraprmayjunjulaugsepoctnovdec";
    let mut rest = Rest(text);
    rest.word();
    rest.skip(b",");
    rest.blanks();
    let day = rest.digits(1, 2)?;
    rest.separator();
    let name = rest.word().get(..3)?;
    let month = MONTHS.chunks(3).position(|month| month.eq_ignore_ascii_case(name))? as i64 + 1;
    rest.separator();
    let before = rest.0.len();
    let year = rest.digits(2, 4)?;
    let year = match before - rest.0.len() {
        2 if year < 70 => 2000 + year,
        2 => 1900 + year,
        _ => year,
    };
    rest.blanks();
    let time = rest.time()?;
    rest.blanks();
    let zone_s = rest.zone_s()?;
    rest.0.is_empty().then(|| moment([year, month, day], time, zone_s))?
}

/// The rest of a text.
struct Rest<'t>(&'t [u8]);

impl<'t> Rest<'t> {
    /// A number with at least `least` and at most `most` digits.
    fn digits(&mut self, least: usize, most: usize) -> Option<i64> {
        let count = self.0.iter().take(most).take_while(|byte| byte.is_ascii_digit()).count();
        if count < least {
            return None;
        }
        let (digits, rest) = self.0.split_at(count);
        self.0 = rest;
        Some(digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0')))
    }

    fn skip(&mut self, what: &[u8]) -> bool {
        let found = self.0.strip_prefix(what);
        self.0 = found.unwrap_or(self.0);
        found.is_some()
    }

    fn blanks(&mut self) {
        self.0 = self.0.trim_ascii_start();
    }

    /// Skips what separates the parts of a date.
    fn separator(&mut self) {
        self.blanks();
        self.skip(b"-");
    }

    fn word(&mut self) -> &'t [u8] {
        let count = self.0.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let (word, rest) = self.0.split_at(count);
        self.0 = rest;
        word
    }

    /// `hh:mm[:ss]`
    fn time(&mut self) -> Option<[i64; 3]> {
        let hour = self.digits(2, 2)?;
        let minute = if self.skip(b":") { self.digits(2, 2)? } else { return None };
        let second = if self.skip(b":") { self.digits(2, 2)? } else { 0 };
        Some([hour, minute, second])
    }

    /// Seconds that a zone is east of Greenwich; without a zone, 0.
    fn zone_s(&mut self) -> Option<i64> {
        let sign = match self.0.first() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => return zone_s(self.word()),
        };
        self.0 = &self.0[1..];
        let hours = self.digits(2, 2)?;
        self.skip(b":");
        let minutes = if self.0.is_empty() { 0 } else { self.digits(2, 2)? };
        Some(sign * (hours * 3600 + minutes * 60))
    }
}

/// The zones of RFC 822 except the military ones.
fn zone_s(name: &[u8]) -> Option<i64> {
    let hours = match name.to_ascii_uppercase().as_slice() {
        b"" | b"GMT" | b"UT" | b"UTC" | b"Z" => 0,
        b"EDT" => -4,
        b"EST" | b"CDT" => -5,
        b"CST" | b"MDT" => -6,
        b"MST" | b"PDT" => -7,
        b"PST" => -8,
        b"JST" => 9,
        _ => return None,
    };
    Some(hours * 3600)
}

/// Seconds since the Unix epoch.
fn moment(
    [year, month, day]: [i64; 3],
    [hour, minute, second]: [i64; 3],
    zone_s: i64,
) -> Option<i64> {
    let is_date = (1..=12).contains(&month) && (1..=31).contains(&day);
    let is_time = hour <= 24 && minute <= 59 && second <= 60;
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - zone_s;
    (is_date && is_time).then_some(seconds)
}

/// Days since the Unix epoch in the Gregorian calendar. Here years begin in March, so that the leap
/// day is the last day of its year.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // March to January have 31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 31 days.
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    year * 365 + leap_days + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::super::http::Dated;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_read_in_every_form() {
        let noon = 1_795_262_400;
        for text in [
            "1795262400",
            " 1795262400 ",
            "0x6b0187c0",
            "0X6B0187C0",
            "2026-11-21T12:00:00Z",
            "2026-11-21T12:00Z",
            "2026-11-21T12:00:00.25Z",
            "2026-11-21T21:00:00+09:00",
            "2026-11-21T07:30:00-0430",
            "2026-11-21 12:00:00",
            "Sat, 21 Nov 2026 12:00:00 GMT",
            "21 nov 26 12:00 UT",
            "Sat, 21 Nov 2026 21:00:00 +0900",
            "Sat, 21 Nov 2026 07:00:00 EST",
            "Saturday, 21-Nov-26 12:00:00 GMT",
        ] {
            assert_eq!(parse(text.as_bytes()), Some(noon), "{text}");
        }
        assert_eq!(parse(b"2026-11-21"), Some(noon - 43_200));
        assert_eq!(parse(b"2026-11"), Some(noon - 43_200 - 20 * 86_400));
        assert_eq!(parse(b"60"), Some(60));
        assert_eq!(parse(b"1099511627774"), Some(XT_MAX - 1));
    }

    #[test]
    fn invalid_and_far_times_mean_never() {
        for text in [
            "",
            "x",
            "0",
            "-60",
            "1099511627775",
            "99999999999999999999999",
            "0x",
            "0xg",
            "12abc",
            "2026-13-01",
            "2026-00-01",
            "2026-11-21T",
            "2026-11-21T12",
            "2026-11-21T12:60:00Z",
            "2026-11-21T12:00:00+9",
            "2026-11-21T12:00:00Zx",
            "1960-01-01T00:00:00Z",
            "Sat, 21 Foo 2026 12:00:00 GMT",
            "Sat, 21 Nov 2026 12:00:00 XYZ",
            "Sat, 21 Nov 2026",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_time_in_a_response_can_be_parsed(xt in 1..253_402_300_799_u64) {
            prop_assert_eq!(parse(Dated::of(xt).text()), Some(xt));
        }

        #[test]
        fn any_text_is_survived(text in "[-0-9A-Za-z:,+. ]{0,30}") {
            prop_assert!(parse(text.as_bytes()) != Some(0));
        }
    }
}
