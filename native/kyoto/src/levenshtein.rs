//! The Levenshtein distance of two keys, in bytes or in code points.
//!
//! A column of the distance matrix is stored as its differences, one bit for each row (G. Myers
//! 1999, in the form of H. Hyyrö 2003), so a character of a key costs one step for every 64
//! characters of the origin. The comparison stops as soon as the rest of a key cannot bring its
//! distance within the limit.

/// Longest origin, in characters.
pub(super) const ORIGIN_CHARACTERS_MAX: usize = 1_024;

/// The origin has more than [`ORIGIN_CHARACTERS_MAX`] characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// The text that keys are compared with.
#[derive(Debug)]
pub(super) struct Origin {
    utf: bool,
    /// Its length in characters.
    characters: usize,
    /// Number of 64-row words in a column.
    words: usize,
    /// Its distinct characters, sorted.
    distinct: Vec<u32>,
    /// For each distinct character, the rows that contain it.
    rows: Vec<u64>,
    /// A column: the rows whose distance is one more, and one less, than in the row above.
    more: Vec<u64>,
    less: Vec<u64>,
}

impl Origin {
    /// Prepares an origin for comparisons by code points (`utf`) or by bytes.
    pub(super) fn new(origin: &[u8], utf: bool) -> Result<Origin, TooLong> {
        // Kyoto Cabinet treats a UTF origin as a C string, which ends at its first zero byte.
        let end = origin.iter().position(|byte| utf && *byte == 0).unwrap_or(origin.len());
        let mut text = Vec::new();
        for character in characters(&origin[..end], utf) {
            if text.len() == ORIGIN_CHARACTERS_MAX {
                return Err(TooLong);
            }
            text.push(character);
        }
        let mut distinct = text.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let words = text.len().div_ceil(64);
        let mut rows = vec![0; distinct.len() * words];
        for (row, character) in text.iter().enumerate() {
            if let Ok(at) = distinct.binary_search(character) {
                rows[at * words + row / 64] |= 1 << (row % 64);
            }
        }
        let (more, less) = (vec![0; words], vec![0; words]);
        Ok(Origin { utf, characters: text.len(), words, distinct, rows, more, less })
    }

    /// The distance of a key, if it is at most `limit`.
    pub(super) fn distance(&mut self, key: &[u8], limit: usize) -> Option<usize> {
        let length = self.length(key);
        if length.abs_diff(self.characters) > limit {
            return None;
        }
        self.more.fill(u64::MAX);
        self.less.fill(0);
        let mut distance = self.characters;
        for (done, character) in (1..).zip(characters(key, self.utf)) {
            distance = distance.checked_add_signed(self.add(character))?;
            if distance.saturating_sub(length - done) > limit {
                return None;
            }
        }
        (distance <= limit).then_some(distance)
    }

    /// The most words that one comparison with a key processes.
    pub(super) fn work(&self, key: &[u8], limit: usize) -> usize {
        let length = self.length(key);
        let counting = if self.utf { key.len() / 8 } else { 0 };
        if length.abs_diff(self.characters) > limit {
            return counting;
        }
        length.saturating_mul(self.words.max(1)).saturating_add(counting)
    }

    /// Length of a key in characters.
    fn length(&self, key: &[u8]) -> usize {
        if self.utf { characters(key, true).count() } else { key.len() }
    }

    /// Advances by one character of the key. Returns the change of the distance in the last row.
    fn add(&mut self, character: u32) -> isize {
        let found = self.distinct.binary_search(&character).ok();
        let last = (self.characters.wrapping_sub(1)) % 64;
        // Above the first row, the distance is the length of the key so far: it grows.
        let mut carry = 1;
        for word in 0..self.words {
            let (more, less) = (self.more[word], self.less[word]);
            let mut equal = found.map_or(0, |at| self.rows[at * self.words + word]);
            let vertical = equal | less;
            equal |= u64::from(carry < 0);
            let horizontal = ((equal & more).wrapping_add(more) ^ more) | equal;
            let grows = less | !(horizontal | more);
            let shrinks = more & horizontal;
            let row = if word + 1 == self.words { last } else { 63 };
            let next = (grows >> row & 1) as isize - (shrinks >> row & 1) as isize;
            let grows = grows << 1 | u64::from(carry > 0);
            let shrinks = shrinks << 1 | u64::from(carry < 0);
            self.more[word] = shrinks | !(vertical | grows);
            self.less[word] = grows & vertical;
            carry = next;
        }
        carry
    }
}

/// The characters of a key: its bytes, or its code points as Kyoto Cabinet finds them. A byte that
/// cannot begin a code point is skipped. So is a sequence that is cut off by the end of the key or
/// by a zero byte, and one that is longer than necessary. The bytes after the first are not
/// checked.
fn characters(key: &[u8], utf: bool) -> impl Iterator<Item = u32> {
    let mut rest = key;
    std::iter::from_fn(move || {
        loop {
            let (&first, after) = rest.split_first()?;
            rest = after;
            let first = u32::from(first);
            // Number of bytes that follow, the mask of the first byte, and the least valid code
            // point.
            let (following, mask, least) = match first {
                _ if !utf => return Some(first),
                0..=0x7f => return Some(first),
                0x80..=0xdf => (1, 0x1f, 0x80),
                0xe0..=0xef => (2, 0x0f, 0x800),
                0xf0..=0xf7 => (3, 0x07, 0x1_0000),
                0xf8..=0xfb => (4, 0x03, 0x20_0000),
                0xfc..=0xfd => (5, 0x01, 0x400_0000),
                _ => continue,
            };
            let Some((bytes, after)) = rest.split_at_checked(following) else { continue };
            if bytes.contains(&0) {
                continue;
            }
            rest = after;
            let point =
                bytes.iter().fold(first & mask, |point, byte| point << 6 | u32::from(byte & 0x3f));
            if point >= least {
                return Some(point);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn distance(origin: &[u8], key: &[u8], utf: bool, limit: usize) -> Option<usize> {
        Origin::new(origin, utf).expect("a short origin").distance(key, limit)
    }

    /// The distance by its definition.
    fn plain(origin: &[u32], key: &[u32]) -> usize {
        let mut row: Vec<usize> = (0..=key.len()).collect();
        for (at, one) in origin.iter().enumerate() {
            let mut diagonal = row[0];
            row[0] = at + 1;
            for (column, other) in key.iter().enumerate() {
                let change = diagonal + usize::from(one != other);
                diagonal = row[column + 1];
                row[column + 1] = change.min(diagonal + 1).min(row[column] + 1);
            }
        }
        row[key.len()]
    }

    #[test]
    fn distances_count_insertions_removals_and_changes() {
        for (origin, key, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("flaw", "lawn", 2),
            ("same", "same", 0),
        ] {
            let found = distance(origin.as_bytes(), key.as_bytes(), false, 9);
            assert_eq!(found, Some(expected), "{origin} {key}");
        }
    }

    #[test]
    fn a_key_beyond_the_limit_has_no_distance() {
        assert_eq!(distance(b"kitten", b"sitting", false, 3), Some(3));
        assert_eq!(distance(b"kitten", b"sitting", false, 2), None);
        assert_eq!(distance(b"a", b"b", false, 0), None);
    }

    #[test]
    fn code_points_count_once_and_bytes_each() {
        let (origin, key) = ("größe".as_bytes(), "grosse".as_bytes());
        assert_eq!(distance(origin, key, true, 9), Some(3));
        assert_eq!(distance(origin, key, false, 9), Some(4));
    }

    #[test]
    fn bytes_that_are_no_utf8_are_no_characters() {
        assert_eq!(distance(b"a\xffb", b"ab", true, 9), Some(0));
        assert_eq!(distance(b"", b"\xff\xfe\x80", true, 0), Some(0));
        assert_eq!(distance(b"\xe2\x82", "€".as_bytes(), true, 9), Some(1));
        // A sequence cut off by a zero byte, and an overlong one.
        assert_eq!(distance(b"", b"\xe2\x82\0x", true, 9), Some(2));
        assert_eq!(distance(b"", b"\xc1\x81", true, 0), Some(0));
    }

    #[test]
    fn an_origin_of_code_points_ends_at_a_zero_byte() {
        assert_eq!(distance(b"ab\0cd", b"ab", true, 9), Some(0));
        assert_eq!(distance(b"ab\0cd", b"ab", false, 9), Some(3));
    }

    #[test]
    fn a_key_out_of_reach_is_not_compared() {
        let origin = |utf| Origin::new(&[b'a'; ORIGIN_CHARACTERS_MAX], utf).expect("short");
        let key = [b'a'; 64 << 10];
        assert_eq!(origin(false).work(&key, 10), 0);
        assert_eq!(origin(true).work(&key, 10), key.len() / 8);
        assert_eq!(origin(true).work(&key, key.len()), key.len() / 8 + key.len() * 16);
    }

    #[test]
    fn whatever_follows_a_first_byte_belongs_to_it() {
        let text = |key: &[u8]| characters(key, true).collect::<Vec<u32>>();
        assert_eq!(text(b"\xc3ab"), [0xe1, 0x62]);
        assert_eq!(text("é€𝄞".as_bytes()), [0xe9, 0x20ac, 0x1d11e]);
        assert_eq!(text(b"\xf8\x88\x80\x80\x80\xfc\x84\x80\x80\x80\x80"), [0x20_0000, 0x400_0000]);
    }

    #[test]
    fn a_long_origin_is_refused() {
        let longest = "é".repeat(ORIGIN_CHARACTERS_MAX);
        assert!(Origin::new(longest.as_bytes(), true).is_ok());
        assert_eq!(Origin::new(longest.as_bytes(), false).err(), Some(TooLong));
    }

    #[test]
    fn one_origin_serves_many_keys() {
        let mut origin = Origin::new(b"origin", false).expect("a short origin");
        assert_eq!(origin.distance(b"xxxxxxxxxxxxx", 99), Some(13));
        assert_eq!(origin.distance(b"origin", 99), Some(0));
    }

    /// Two letters, and the two bytes of a third.
    fn letters() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop::sample::select(vec![b'a', b'b', 0xc3, 0xa4]), 0..200)
    }

    proptest! {
        #[test]
        fn distances_are_those_of_the_definition(
            origin in letters(),
            key in letters(),
            utf: bool,
            limit in 0usize..250,
        ) {
            let text = |bytes: &[u8]| characters(bytes, utf).collect::<Vec<u32>>();
            let expected = plain(&text(&origin), &text(&key));
            let found = distance(&origin, &key, utf, limit);
            prop_assert_eq!(found, (expected <= limit).then_some(expected));
        }
    }
}
