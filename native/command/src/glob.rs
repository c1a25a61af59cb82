//! Glob patterns of KEYS and SCAN: `*`, `?`, `[abc]`, `[a-z]`, `[^a]`, `\x`.
//!
//! Stars split a pattern into segments. The first and the last are anchored at the ends of the
//! text; every other segment is searched from the end of the match before it, since an earlier
//! match is never worse than a later one. A long segment is searched with one bit for each of its
//! items (Shift-And): bit i means that the items up to i match the bytes before this position,
//!
//! ```text
//! next = ((bits << 1) | 1) & items that the byte matches
//! ```
//!
//! so the cost is the length of the text times the words of the longest segment, for every pattern
//! and text. A short segment is compared at each position.

/// Segments with at least this many items have masks; below, comparing is as fast.
const MASKED_ITEMS_MIN: usize = 9;
const WORD_BITS: usize = u64::BITS as usize;

/// The bytes that an item of a pattern matches.
type Set = [u64; 4];

const ANY: Set = [u64::MAX; 4];

/// A pattern, prepared for comparison with many texts.
#[derive(Clone, Debug)]
pub struct Glob {
    segments: Vec<Segment>,
    /// Whether the first segment is anchored at the beginning of the text, and the last at its end.
    ends: [bool; 2],
    /// Most steps for each byte of a text.
    steps_per_byte: usize,
}

#[derive(Clone, Debug, Default)]
struct Segment {
    items: Vec<Set>,
    /// For each byte, the items that match it.
    masks: Vec<u64>,
}

/// Whether the whole text matches the pattern. Compares bytes, not characters.
pub fn glob(pattern: &[u8], text: &[u8]) -> bool {
    Glob::new(pattern).matches(text)
}

impl Glob {
    /// Parses a pattern. Every sequence of bytes is valid.
    pub fn new(mut pattern: &[u8]) -> Glob {
        let mut segments = vec![Segment::default()];
        let starts_open = pattern.first() == Some(&b'*');
        let mut ends_open = false;
        while !pattern.is_empty() {
            ends_open = pattern[0] == b'*';
            if ends_open {
                segments.push(Segment::default());
                pattern = &pattern[1..];
            } else {
                let (set, len) = item(pattern);
                segments.iter_mut().rev().take(1).for_each(|segment| segment.items.push(set));
                pattern = &pattern[len..];
            }
        }
        let tied = [!starts_open, !ends_open];
        // Consecutive stars count as one.
        let is_one = segments.len() == 1;
        segments.retain(|segment| is_one || !segment.items.is_empty());
        let last = segments.len().saturating_sub(1);
        let mut steps_per_byte = 1;
        for (at, segment) in segments.iter_mut().enumerate() {
            let is_tied = at == 0 && tied[0] || at == last && tied[1];
            if !is_tied && segment.items.len() >= MASKED_ITEMS_MIN {
                segment.make_masks();
                steps_per_byte = steps_per_byte.max(segment.words());
            } else if !is_tied {
                steps_per_byte = steps_per_byte.max(segment.items.len());
            }
        }
        Glob { segments, ends: tied, steps_per_byte }
    }

    /// Most steps for a text of this length; a step is about a nanosecond.
    pub fn steps(&self, text_len: usize) -> usize {
        text_len.saturating_mul(self.steps_per_byte).saturating_add(1)
    }

    /// Whether the whole text matches. Compares bytes, not characters.
    pub fn matches(&self, mut text: &[u8]) -> bool {
        let mut segments = &self.segments[..];
        let [at_start, at_end] = self.ends;
        if let ([only], true, true) = (segments, at_start, at_end) {
            return only.items.len() == text.len() && only.is_at_start(text);
        }
        if let (true, Some((first, rest))) = (at_start, segments.split_first()) {
            if !first.is_at_start(text) {
                return false;
            }
            (segments, text) = (rest, &text[first.items.len()..]);
        }
        if let (true, Some((last, rest))) = (at_end, segments.split_last()) {
            let Some(start) = text.len().checked_sub(last.items.len()) else { return false };
            if !last.is_at_start(&text[start..]) {
                return false;
            }
            (segments, text) = (rest, &text[..start]);
        }
        segments.iter().all(|segment| match segment.find_end(text) {
            Some(end) => {
                text = &text[end..];
                true
            }
            None => false,
        })
    }
}

impl Segment {
    fn words(&self) -> usize {
        self.items.len().div_ceil(WORD_BITS)
    }

    fn make_masks(&mut self) {
        let words = self.words();
        self.masks = vec![0; 256 * words];
        for (at, set) in self.items.iter().enumerate() {
            for byte in (0..=u8::MAX).filter(|byte| holds(set, *byte)) {
                self.masks[usize::from(byte) * words + at / WORD_BITS] |= 1 << (at % WORD_BITS);
            }
        }
    }

    fn is_at_start(&self, text: &[u8]) -> bool {
        text.len() >= self.items.len()
            && self.items.iter().zip(text).all(|(set, byte)| holds(set, *byte))
    }

    /// The end of the first match of the segment.
    fn find_end(&self, text: &[u8]) -> Option<usize> {
        let len = self.items.len();
        if self.masks.is_empty() {
            let start =
                (0..=text.len().checked_sub(len)?).find(|at| self.is_at_start(&text[*at..]));
            return start.map(|start| start + len);
        }
        let words = self.words();
        let (last_word, last_bit) = ((len - 1) / WORD_BITS, (len - 1) % WORD_BITS);
        let mut bits = vec![0u64; words];
        for (at, byte) in text.iter().enumerate() {
            let masks = &self.masks[usize::from(*byte) * words..][..words];
            let mut carry = 1;
            for (word, mask) in bits.iter_mut().zip(masks) {
                let next = *word >> (WORD_BITS - 1);
                *word = ((*word << 1) | carry) & mask;
                carry = next;
            }
            if bits[last_word] >> last_bit & 1 == 1 {
                return Some(at + 1);
            }
        }
        None
    }
}

fn holds(set: &Set, byte: u8) -> bool {
    set[usize::from(byte) / WORD_BITS] >> (usize::from(byte) % WORD_BITS) & 1 == 1
}

fn add(set: &mut Set, byte: u8) {
    set[usize::from(byte) / WORD_BITS] |= 1 << (usize::from(byte) % WORD_BITS);
}

/// The set that the first item of a pattern matches, and the item's length. The item is not a star.
fn item(pattern: &[u8]) -> (Set, usize) {
    let one = |byte| {
        let mut set = [0; 4];
        add(&mut set, byte);
        set
    };
    match pattern {
        [b'?', ..] => (ANY, 1),
        [b'[', ..] => set(pattern),
        [b'\\', escaped, ..] => (one(*escaped), 2),
        [literal, ..] => (one(*literal), 1),
        [] => (ANY, 0),
    }
}

/// The set that starts at `[`, and its length. An unterminated set extends to the end of the
/// pattern.
fn set(pattern: &[u8]) -> (Set, usize) {
    let negated = pattern.get(1) == Some(&b'^');
    let mut at = if negated { 2 } else { 1 };
    let mut set = [0; 4];
    loop {
        match pattern[at..] {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', escaped, ..] => {
                add(&mut set, escaped);
                at += 2;
            }
            [from, b'-', to, ..] => {
                (from.min(to)..=from.max(to)).for_each(|byte| add(&mut set, byte));
                at += 3;
            }
            [literal, ..] => {
                add(&mut set, literal);
                at += 1;
            }
        }
    }
    (if negated { set.map(|word| !word) } else { set }, at)
}

#[cfg(test)]
mod tests {
    use super::{Glob, glob};
    use proptest::prelude::*;

    /// The simple method: the positions of the text at which each item may end.
    fn plain(mut pattern: &[u8], text: &[u8]) -> bool {
        let mut places: Vec<usize> = vec![0];
        while !pattern.is_empty() {
            if pattern[0] == b'*' {
                places = places.first().map_or(Vec::new(), |first| (*first..=text.len()).collect());
                pattern = &pattern[1..];
                continue;
            }
            let (set, len) = super::item(pattern);
            let matches = |at: &usize| text.get(*at).is_some_and(|byte| super::holds(&set, *byte));
            places = places.into_iter().filter(matches).map(|at| at + 1).collect();
            pattern = &pattern[len..];
        }
        places.contains(&text.len())
    }

    proptest! {
        #[test]
        fn segments_find_what_the_plain_way_finds(
            pattern in concat!(
                "[ab*?]{0,6}",
                "(\\*[ab]{0,2}(a\\?b|[ab]{9,12}|\\[ab\\]{1,2})[ab]{0,3}){0,2}",
                "[*ab]{0,2}",
            ),
            text in "[ab]{0,40}",
        ) {
            let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
            prop_assert_eq!(glob(pattern, text), plain(pattern, text));
        }
    }

    #[test]
    fn steps_go_by_the_text_and_the_longest_segment() {
        for (pattern, steps) in [
            ("*".to_owned(), 1),
            ("abc*".to_owned(), 1),
            ("*abc*".to_owned(), 3),
            (format!("*{}*", "a".repeat(64)), 1),
            (format!("*{}*", "a".repeat(65)), 2),
            (format!("*{}b", "a".repeat(1_000)), 1),
            (format!("*{}b*", "a".repeat(1_000)), 16),
            ("*a".repeat(500) + "*", 1),
        ] {
            assert_eq!(Glob::new(pattern.as_bytes()).steps(1_000), 1_000 * steps + 1, "{pattern}");
        }
        let text = "a".repeat(100_000);
        assert!(!glob(format!("*{}b*", "a".repeat(1_000)).as_bytes(), text.as_bytes()));
        assert!(glob(format!("*{}*?", "a".repeat(1_000)).as_bytes(), text.as_bytes()));
        let found = text.clone() + "b" + &text;
        assert!(glob(format!("*{}b*", "a".repeat(1_000)).as_bytes(), found.as_bytes()));
    }

    #[test]
    fn patterns_match_whole_texts() {
        let matching = [
            ("*", ""),
            ("*", "anything"),
            ("", ""),
            ("h?llo", "hello"),
            ("h*llo", "heeeello"),
            ("h*llo", "hllo"),
            ("h[ae]llo", "hallo"),
            ("h[^e]llo", "hallo"),
            ("h[a-b]llo", "hbllo"),
            ("h[b-a]llo", "hallo"),
            ("h\\*llo", "h*llo"),
            ("[\\]]", "]"),
            ("a*b*c", "aXbYbZc"),
            ("*a*a", "aaaa"),
            ("[a", "a"),
            ("a\\", "a\\"),
        ];
        for (pattern, text) in matching {
            assert!(glob(pattern.as_bytes(), text.as_bytes()), "{pattern:?} ~ {text:?}");
        }
        let different = [
            ("", "a"),
            ("?", ""),
            ("h?llo", "hllo"),
            ("h[^e]llo", "hello"),
            ("h\\*llo", "hello"),
            ("a*b*c", "aXbYbZ"),
            ("[]a", "a"),
            ("abc", "ab"),
            ("ab", "abc"),
        ];
        for (pattern, text) in different {
            assert!(!glob(pattern.as_bytes(), text.as_bytes()), "{pattern:?} ~ {text:?}");
        }
    }

    #[test]
    fn many_stars_cost_no_more_than_pattern_times_text() {
        let pattern = "*a".repeat(2_000);
        let text = "a".repeat(1_999) + "b";
        assert!(!glob(pattern.as_bytes(), text.as_bytes()));
    }
}
