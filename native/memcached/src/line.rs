//! Words and numbers of a command line.
//!
//! ```text
//!   s e t   k e y   0   6 0   5 \r \n
//!   `---'   `---'   `   `--'  `        words, cut at spaces; runs of spaces count as one
//! ```

use memchr::memchr;

/// Longest key in bytes.
pub(super) const KEY_BYTES_MAX: usize = 250;

/// The error for a line that does not fit its command.
pub(super) const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format";

/// The words of a line, split at spaces on demand.
#[derive(Clone, Debug, Default)]
pub(super) struct Words<'l> {
    rest: &'l [u8],
}

impl<'l> Words<'l> {
    pub(super) fn of(line: &'l [u8]) -> Words<'l> {
        Words { rest: line }
    }

    /// The words not read yet.
    pub(super) fn rest(&self) -> &'l [u8] {
        self.rest
    }
}

impl<'l> Iterator for Words<'l> {
    type Item = &'l [u8];

    #[inline]
    fn next(&mut self) -> Option<&'l [u8]> {
        let start = self.rest.iter().position(|&byte| byte != b' ')?;
        let from_here = &self.rest[start..];
        let end = memchr(b' ', from_here).unwrap_or(from_here.len());
        let (word, rest) = from_here.split_at(end);
        self.rest = rest;
        Some(word)
    }
}

/// Most arguments of a command with a fixed number of them.
const ARGUMENTS_MAX: usize = 7;

/// The arguments of a command with a fixed number of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arguments<'l> {
    words: [&'l [u8]; ARGUMENTS_MAX],
    len: usize,
}

impl<'l> Arguments<'l> {
    /// `None` if there are more than any such command takes.
    pub(super) fn of(words: Words<'l>) -> Option<Arguments<'l>> {
        let mut arguments = Arguments { words: [&[]; ARGUMENTS_MAX], len: 0 };
        for word in words {
            *arguments.words.get_mut(arguments.len)? = word;
            arguments.len += 1;
        }
        Some(arguments)
    }

    pub(super) fn as_slice(&self) -> &[&'l [u8]] {
        &self.words[..self.len]
    }

    /// Whether the last word suppresses the reply.
    pub(super) fn noreply(&self) -> bool {
        self.as_slice().last() == Some(&b"noreply".as_slice())
    }
}

/// An unsigned 64-bit decimal number, with an optional plus sign.
pub(super) fn unsigned(word: &[u8]) -> Option<u64> {
    let digits = word.strip_prefix(b"+").unwrap_or(word);
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// A signed 64-bit decimal number.
pub(super) fn signed(word: &[u8]) -> Option<i64> {
    match word.strip_prefix(b"-") {
        Some(digits) if digits.first() == Some(&b'+') => None,
        Some(digits) => 0_i64.checked_sub_unsigned(unsigned(digits)?),
        None => i64::try_from(unsigned(word)?).ok(),
    }
}

/// Whether a line belongs to HTTP: a web page may make a browser connect to this port.
#[cold]
pub(super) fn is_http(line: &[u8]) -> bool {
    const METHODS: [&[u8]; 9] =
        [b"GET", b"POST", b"PUT", b"HEAD", b"DELETE", b"OPTIONS", b"PATCH", b"CONNECT", b"TRACE"];
    let first = Words::of(line).next().unwrap_or_default();
    let host = line.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"host:"));
    host || METHODS.contains(&first)
}

/// Whether a key can stand in a line: within the length limit, without spaces and control
/// characters. Keys written through other protocols may not.
#[inline]
pub(super) fn is_word(key: &[u8]) -> bool {
    key.len() <= KEY_BYTES_MAX && key.iter().all(|&byte| byte > b' ' && byte != 0x7f)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_at_spaces() {
        let words = |line: &'static str| Words::of(line.as_bytes()).collect::<Vec<_>>();
        assert_eq!(words("get a  b "), [b"get".as_slice(), b"a", b"b"]);
        assert_eq!(words("  get\ta"), [b"get\ta".as_slice()]);
        assert!(words("").is_empty());
        assert!(words("   ").is_empty());
    }

    #[test]
    fn arguments_are_counted() {
        assert_eq!(Arguments::of(Words::of(b"1 2 3 4 5 6 7")).unwrap().as_slice().len(), 7);
        assert!(Arguments::of(Words::of(b"1 2 3 4 5 6 7 8")).is_none());
        assert!(Arguments::of(Words::of(b"k 1 noreply")).unwrap().noreply());
        assert!(!Arguments::of(Words::of(b"noreply 1")).unwrap().noreply());
    }

    #[test]
    fn numbers_have_64_bits() {
        assert_eq!(unsigned(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(unsigned(b"18446744073709551616"), None);
        assert_eq!(unsigned(b"+5"), Some(5));
        assert_eq!(signed(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(signed(b"9223372036854775808"), None);
        assert_eq!(signed(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(signed(b"-9223372036854775809"), None);
        for word in ["", "-", "+", "1x", "x", "--1", "-+1", "+-1", "0x1", "1 "] {
            assert_eq!(signed(word.as_bytes()), None, "{word}");
        }
        assert_eq!(unsigned(b"-1"), None);
    }

    #[test]
    fn http_is_known_by_its_first_word() {
        for line in ["GET / HTTP/1.1", "POST /x HTTP/1.0", "Host: a", "host:a", "TRACE"] {
            assert!(is_http(line.as_bytes()), "{line}");
        }
        for line in ["get a", "GETS a", "hosts", ""] {
            assert!(!is_http(line.as_bytes()), "{line}");
        }
    }
}
