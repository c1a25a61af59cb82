//! Decimal digits.

/// The number that the digits represent. `None` if there is another character, or none, or if it is
/// too large.
#[inline]
pub(crate) fn parse(digits: &[u8]) -> Option<u64> {
    match digits.len() {
        0 => None,
        1..=8 => parse_short(digits),
        9..=16 => {
            let (high, low) = digits.split_at(digits.len() - 8);
            Some(eight(padded(high))? * 100_000_000 + eight(padded(low))?)
        }
        _ => digits.iter().try_fold(0u64, |number, digit| match digit {
            b'0'..=b'9' => number.checked_mul(10)?.checked_add(u64::from(digit - b'0')),
            _ => None,
        }),
    }
}

/// The same for up to eight digits.
#[inline]
pub(crate) fn parse_short(digits: &[u8]) -> Option<u64> {
    eight(padded(digits))
}

const ZEROS: u64 = u64::from_le_bytes(*b"00000000");

/// One to eight characters, with zeros before them, as a word whose lowest byte is the first.
#[inline]
fn padded(text: &[u8]) -> u64 {
    if let Some(whole) = text.first_chunk::<8>() {
        return u64::from_le_bytes(*whole);
    }
    let before = 8 * (8 - text.len()) as u32;
    let zeros = ZEROS >> (64 - before);
    // Parts that overlap have the same characters where they do.
    match (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        (Some(first), Some(last)) => {
            let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
            zeros | u64::from(first) << before | u64::from(last) << 32
        }
        // The middle one of two characters is the last.
        _ => {
            let [first, middle, last] = [0, text.len() / 2, text.len() - 1].map(|at| text[at]);
            let middle = u64::from(middle) << (before + 8 * (text.len() / 2) as u32);
            zeros | u64::from(first) << before | middle | u64::from(last) << 56
        }
    }
}

/// The number of eight digits: pairs of digits become numbers, then pairs of these.
#[inline]
fn eight(characters: u64) -> Option<u64> {
    const HIGHEST_BITS: u64 = 0x8080_8080_8080_8080;
    let digits = characters ^ ZEROS;
    // Digits are below 10: adding 118 to a larger number reaches the byte's highest bit.
    if (digits | digits.wrapping_add(0x7676_7676_7676_7676)) & HIGHEST_BITS != 0 {
        return None;
    }
    // What overflows is masked out.
    let joined =
        |numbers: u64, by: u64, bits: u32| numbers.wrapping_mul(by).wrapping_add(numbers >> bits);
    let twos = joined(digits, 10, 8) & 0x00ff_00ff_00ff_00ff;
    let fours = joined(twos, 100, 16) & 0x0000_ffff_0000_ffff;
    Some(joined(fours, 10_000, 32) & 0xffff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_the_standard_library(text: &[u8]) -> Option<u64> {
        let text = std::str::from_utf8(text).ok()?;
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
    }

    #[test]
    fn numbers_of_every_length() {
        for text in [
            "",
            "0",
            "007",
            "00000000",
            "000000000000000001",
            "18446744073709551615",
            "18446744073709551616",
            "99999999999999999999",
            "100000000000000000000",
        ] {
            assert_eq!(parse(text.as_bytes()), by_the_standard_library(text.as_bytes()), "{text}");
        }
        let digits = b"9182736450192837465091";
        for (from, to) in (0..22).flat_map(|from| (from..=22).map(move |to| (from, to))) {
            let text = &digits[from..to];
            assert_eq!(parse(text), by_the_standard_library(text), "{text:?}");
        }
    }

    #[test]
    fn no_other_character_counts_as_a_digit() {
        for len in 1..=20 {
            for (at, byte) in (0..len).flat_map(|at| (0..=u8::MAX).map(move |byte| (at, byte))) {
                let mut text = vec![b'7'; len];
                text[at] = byte;
                assert_eq!(parse(&text), by_the_standard_library(&text), "{text:?}");
            }
        }
    }
}
