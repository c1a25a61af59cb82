//! Prefetches the keys of a pipeline.
//!
//! Looking up many keys costs much less if the memory that they need is fetched together (see
//! [`todana_command::prefetch`]). The session therefore scans the waiting requests for keys. The
//! scan is only a hint: a word that it takes for a key may turn out to be something else, and every
//! request is parsed properly in its turn.

use super::line::{Words, unsigned};
use super::turn::DATABASE;
use crate::Host;
use memchr::memchr;
use smallvec::SmallVec;
use todana_command::{PREFETCH_KEYS_MAX, prefetch};

/// Most bytes of input to scan.
const BYTES_MAX: usize = 16 << 10;

/// Keys to prefetch.
type Keys<'i> = SmallVec<[&'i [u8]; PREFETCH_KEYS_MAX]>;

/// Prefetches for the requests at the front of the input, which begins with a request. Returns the
/// number of bytes scanned.
pub(super) fn fetch_for_requests<H: Host>(host: &H, input: &[u8]) -> usize {
    let (keys, end) = keys_of_requests(&input[..input.len().min(BYTES_MAX)]);
    fetch(host, &keys);
    end
}

/// Prefetches for the keys at the front of a line.
pub(super) fn fetch_for_words<H: Host>(host: &H, words: Words<'_>) {
    let keys: Keys<'_> = words.take(PREFETCH_KEYS_MAX).collect();
    fetch(host, &keys);
}

fn fetch<H: Host>(host: &H, keys: &[&[u8]]) {
    // With a single key there is nothing to overlap the fetch with.
    if keys.len() > 1 {
        prefetch(host.databases(), DATABASE, keys);
    }
}

/// The keys of requests, and the offset of the request after them. Lines with several keys are left
/// to [`super::retrieval`].
fn keys_of_requests(input: &[u8]) -> (Keys<'_>, usize) {
    let mut keys = Keys::new();
    let mut at = 0;
    while keys.len() < PREFETCH_KEYS_MAX {
        let rest = input.get(at..).unwrap_or_default();
        let Some(end) = memchr(b'\n', rest) else { break };
        let line = &rest[..end];
        let mut words = Words::of(line.strip_suffix(b"\r").unwrap_or(line));
        let name = words.next().unwrap_or_default();
        if matches!(name, b"gat" | b"gats") {
            words.next();
        }
        let key = words.next();
        at += end + 1;
        let value_bytes = match name {
            b"get" | b"gets" | b"gat" | b"gats" if words.next().is_some() => continue,
            b"get" | b"gets" | b"gat" | b"gats" | b"mg" | b"md" | b"ma" | b"delete" | b"incr"
            | b"decr" | b"touch" => None,
            b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas" => words.nth(2),
            b"ms" => words.next(),
            _ => continue,
        };
        keys.extend(key);
        if let Some(bytes) = value_bytes.and_then(unsigned) {
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            at = at.saturating_add(bytes).saturating_add(b"\r\n".len());
        }
    }
    (keys, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(input: &str) -> (Vec<String>, usize) {
        let (keys, end) = keys_of_requests(input.as_bytes());
        (keys.iter().map(|key| key.escape_ascii().to_string()).collect(), end)
    }

    #[test]
    fn keys_are_found_behind_values() {
        let input =
            "get a\r\nset b 0 0 3\r\nget\r\nmg c v\nms d 2 T0\r\nxx\r\ngat 10 e\r\nincr f 1\r\n";
        assert_eq!(
            keys(input),
            (["a", "b", "c", "d", "e", "f"].map(String::from).into(), input.len())
        );
    }

    #[test]
    fn whatever_else_there_is_has_none() {
        assert_eq!(keys("get a b\r\nmn\r\n\r\nversion x\r\nget\r\n"), (vec![], 31));
        assert_eq!(keys("get a\r\nget b"), (vec!["a".into()], 7));
        assert_eq!(keys("set a 0 0 18446744073709551615\r\nget b\r\n").0, ["a"]);
        assert_eq!(keys("set a 0 0 9\r\nget b\r\n"), (vec!["a".into()], 24));
    }

    #[test]
    fn there_is_an_end_to_it() {
        assert_eq!(keys(&"get a\r\n".repeat(100)).0.len(), PREFETCH_KEYS_MAX);
    }
}
