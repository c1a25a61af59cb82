//! Glob patterns of KEYS, SCAN and PSUBSCRIBE: `*`, `?`, `[abc]`, `[a-z]`, `[^a]`, `\x`.
//!
//! Stars split a pattern into segments. The first and the last are anchored at the ends of the
//! text; every other segment is searched from the end of the match before it, since an earlier
//! match is never worse than a later one. A segment of plain bytes is searched as a substring,
//! others with one bit for each of their items (Shift-And): bit i means that the items up to i
//! match the bytes before this position,
//!
//! ```text
//! next = ((bits << 1) | 1) & items that the byte matches
//! ```
//!
//! so the cost is the length of the text times the words of the longest segment, for every pattern
//! and text.
//!
//! A pattern is kept as it was written and parsed as far as a comparison gets, so ten thousand
//! subscriptions take little more memory than their patterns. The masks of a segment take 32 bytes
//! for each item, and at least 2 KB. So they are made once in a pattern that is compared with many
//! texts one after another ([`Glob::prepared`]), and otherwise in each comparison that gets to
//! them.

use memchr::{memchr, memchr_iter, memmem};
use std::sync::Arc;

const WORD_BITS: usize = u64::BITS as usize;
/// The masks of a word of items: one for each byte, and the usual one.
const MASK_BYTES: usize = 257 * size_of::<u64>();
/// Most bytes of masks that are kept with a pattern.
const MASKS_BYTES_MAX: usize = 64 << 10;

/// A pattern for comparison with many texts.
#[derive(Clone, Debug)]
pub struct Glob {
    pattern: Arc<[u8]>,
    /// The offsets of the first and of the last star. Without a star, the whole pattern is one
    /// segment, which is anchored at both ends.
    stars: Option<(usize, usize)>,
    /// The items of all segments: the length of the shortest text that matches.
    items: usize,
    /// The items before the first star, and those after the last.
    first_items: usize,
    last_items: usize,
    /// Whether all items of the first segment, and of the last, are plain bytes.
    plain_ends: [bool; 2],
    /// Most steps for each byte of a text, and for a text of any length.
    steps: (usize, usize),
    /// The masks of the segments between stars that are not plain, in their order.
    masks: Option<Box<[Masks]>>,
}

/// The beginning of a pattern up to a star or the end.
#[derive(Clone, Copy, Debug)]
struct Segment<'p> {
    bytes: &'p [u8],
    items: usize,
    /// Whether each byte matches itself.
    is_plain: bool,
}

/// Which items of a segment each byte matches.
#[derive(Clone, Debug)]
struct Masks {
    items: usize,
    /// The items that match most bytes.
    usual: Box<[u64]>,
    /// For each byte, the items for which it is not as usual.
    others: Box<[u64]>,
}

/// Whether the whole text matches the pattern. Compares bytes, not characters.
pub fn glob(pattern: &[u8], text: &[u8]) -> bool {
    Glob::new(pattern).matches(text)
}

impl Glob {
    /// Parses a pattern. Every sequence of bytes is valid. The pattern takes little more memory
    /// than its bytes, or none if they are shared.
    pub fn new(pattern: impl Into<Arc<[u8]>>) -> Glob {
        let pattern = pattern.into();
        let (mut stars, mut items) = (None, 0usize);
        let (mut each, mut once) = (1, 1);
        let mut segment = Segment::of(&pattern);
        let (first_items, first_is_plain) = (segment.items, segment.is_plain);
        let mut at = 0;
        loop {
            items += segment.items;
            at += segment.bytes.len();
            let is_last = at == pattern.len();
            let is_searched = stars.is_some() && !is_last;
            if is_searched {
                each = each.max(segment.steps_per_byte());
            }
            once += segment.steps_once(is_searched);
            if is_last {
                break;
            }
            stars = Some((stars.map_or(at, |(first, _)| first), at));
            at += 1;
            segment = Segment::of(&pattern[at..]);
        }
        let (last_items, plain_ends) = (segment.items, [first_is_plain, segment.is_plain]);
        let (steps, masks) = ((each, once), None);
        Glob { pattern, stars, items, first_items, last_items, plain_ends, steps, masks }
    }

    /// The same for a pattern that is compared with many texts and not kept: it keeps what would
    /// be computed for each of them, unless that is more than [`MASKS_BYTES_MAX`].
    pub fn prepared(pattern: impl Into<Arc<[u8]>>) -> Glob {
        let glob = Glob::new(pattern);
        let unlike = || Segments(glob.between()).filter(|segment| !segment.is_plain);
        if unlike().map(|segment| segment.words() * MASK_BYTES).sum::<usize>() > MASKS_BYTES_MAX {
            return glob;
        }
        let masks: Box<[Masks]> = unlike().map(Masks::of).collect();
        Glob { steps: (glob.steps.0, 1), masks: Some(masks), ..glob }
    }

    /// The bytes of the pattern and of what is kept with it.
    pub fn held_bytes(&self) -> usize {
        let masks = self.masks.iter().flatten();
        self.pattern.len() + masks.map(|masks| masks.usual.len() * MASK_BYTES).sum::<usize>()
    }

    /// Most steps for a text of this length; a step is about a nanosecond.
    pub fn steps(&self, text_len: usize) -> usize {
        let (each, once) = self.steps;
        if text_len < self.items { 1 } else { text_len.saturating_mul(each).saturating_add(once) }
    }

    /// Whether the whole text matches. Compares bytes, not characters.
    pub fn matches(&self, text: &[u8]) -> bool {
        if text.len() < self.items {
            return false;
        }
        if self.items == 0 && self.stars.is_some() {
            // As in Redis. KEYS and SCAN do not compare keys with a single star.
            return !text.is_empty();
        }
        let begins = |segment: &[u8], is_plain, text: &[u8]| match is_plain {
            true => text.starts_with(segment),
            false => start_matches(segment, text).is_some(),
        };
        let [is_plain, last_is_plain] = self.plain_ends;
        let Some((first, last)) = self.stars else {
            return text.len() == self.items && begins(&self.pattern, is_plain, text);
        };
        // Both ends are there, because the text has as many bytes as all segments have items.
        let (between, end) = (self.between(), text.len() - self.last_items);
        if !begins(&self.pattern[..first], is_plain, text)
            || !begins(&self.pattern[last + 1..], last_is_plain, &text[end..])
        {
            return false;
        }
        let mut rest = &text[self.first_items..end];
        let mut masks = self.masks.as_ref().map(|masks| masks.iter());
        Segments(between).all(|segment| {
            let end = match &mut masks {
                _ if segment.is_plain => segment.find_plain(rest),
                Some(masks) => masks.next().and_then(|masks| masks.find_end(rest)),
                None if rest.len() < segment.items => None,
                None => find_once(segment, rest),
            };
            rest = &rest[end.unwrap_or(0)..];
            end.is_some()
        })
    }

    /// The pattern from its first star to its last.
    fn between(&self) -> &[u8] {
        self.stars.map_or(&[], |(first, last)| &self.pattern[first..last])
    }
}

/// The segments of a part of a pattern. Consecutive stars count as one.
struct Segments<'p>(&'p [u8]);

impl<'p> Iterator for Segments<'p> {
    type Item = Segment<'p>;

    fn next(&mut self) -> Option<Segment<'p>> {
        while let [b'*', rest @ ..] = self.0 {
            self.0 = rest;
        }
        let segment = Segment::of(self.0);
        self.0 = &self.0[segment.bytes.len()..];
        (segment.items > 0).then_some(segment)
    }
}

impl<'p> Segment<'p> {
    /// The segment at the front of a pattern.
    fn of(pattern: &'p [u8]) -> Segment<'p> {
        let (mut at, mut items, mut is_plain) = (0, 0, true);
        while let Some(&byte) = pattern.get(at) {
            at += match byte {
                b'*' => break,
                b'?' | b'[' | b'\\' => {
                    is_plain = false;
                    item(&pattern[at..]).1
                }
                _ => 1,
            };
            items += 1;
        }
        Segment { bytes: &pattern[..at], items, is_plain }
    }

    fn words(&self) -> usize {
        self.items.div_ceil(WORD_BITS)
    }

    /// Steps of a search for each byte of a text.
    fn steps_per_byte(&self) -> usize {
        if self.is_plain { 1 } else { self.words() }
    }

    /// Steps before the first byte of a text.
    fn steps_once(&self, is_searched: bool) -> usize {
        let bytes = self.bytes.len();
        if !is_searched || self.is_plain {
            return bytes;
        }
        // Clearing masks takes much less than a step for each word, and a set is entered into them
        // byte by byte.
        let sets = memchr_iter(b'[', self.bytes).count();
        bytes.saturating_add(self.words() * 64).saturating_add(sets * 256)
    }

    /// The end of the first match of a plain segment.
    fn find_plain(&self, text: &[u8]) -> Option<usize> {
        let start = match self.bytes {
            [byte] => memchr(*byte, text),
            bytes => memmem::find(text, bytes),
        };
        start.map(|start| start + self.items)
    }
}

/// Whether a text begins with a match of the items of one segment, and the length of the match.
#[inline]
fn start_matches(mut segment: &[u8], text: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(&first) = segment.first() {
        let byte = *text.get(at)?;
        let (matches, length) = match first {
            b'?' => (true, 1),
            b'[' | b'\\' => {
                let (item, length) = item(segment);
                (item.holds(byte), length)
            }
            _ => (first == byte, 1),
        };
        if !matches {
            return None;
        }
        segment = &segment[length..];
        at += 1;
    }
    Some(at)
}

impl Masks {
    fn of(segment: Segment<'_>) -> Masks {
        let words = segment.words();
        let (mut usual, mut others) = (vec![0; words], vec![0; 256 * words]);
        fill(segment, &mut usual, &mut others);
        Masks { items: segment.items, usual: usual.into(), others: others.into() }
    }

    /// The end of the first match.
    fn find_end(&self, text: &[u8]) -> Option<usize> {
        if let ([usual], Ok(others)) = (&self.usual[..], (&*self.others).try_into()) {
            return find_by_word(text, self.items, *usual, others);
        }
        let words = self.usual.len();
        let last = self.items - 1;
        let (last_word, last_bit) = (last / WORD_BITS, last % WORD_BITS);
        let mut bits = vec![0u64; words];
        for (at, byte) in text.iter().enumerate() {
            let others = &self.others[usize::from(*byte) * words..][..words];
            let mut carry = 1;
            for ((word, usual), other) in bits.iter_mut().zip(&self.usual).zip(others) {
                let next = *word >> (WORD_BITS - 1);
                *word = ((*word << 1) | carry) & (usual ^ other);
                carry = next;
            }
            if bits[last_word] >> last_bit & 1 == 1 {
                return Some(at + 1);
            }
        }
        None
    }
}

/// The end of the first match of a segment whose masks are not kept.
fn find_once(segment: Segment<'_>, text: &[u8]) -> Option<usize> {
    if segment.words() > 1 {
        return Masks::of(segment).find_end(text);
    }
    let (mut usual, mut others) = ([0], [0; 256]);
    fill(segment, &mut usual, &mut others);
    find_by_word(text, segment.items, usual[0], &others)
}

/// The end of the first match of a segment of one word.
fn find_by_word(text: &[u8], items: usize, usual: u64, others: &[u64; 256]) -> Option<usize> {
    let mut bits = 0u64;
    let end = text.iter().position(|byte| {
        bits = ((bits << 1) | 1) & (usual ^ others[usize::from(*byte)]);
        bits >> (items - 1) & 1 == 1
    });
    end.map(|end| end + 1)
}

/// Enters the items of a segment into its masks.
fn fill(segment: Segment<'_>, usual: &mut [u64], others: &mut [u64]) {
    let words = usual.len();
    let mut at = 0;
    each_item(segment.bytes, |item| {
        let (word, bit) = (at / WORD_BITS, 1u64 << (at % WORD_BITS));
        at += 1;
        let is_usual = match item {
            Item::One(byte) => {
                others[usize::from(byte) * words + word] |= bit;
                false
            }
            Item::Any => true,
            Item::Set { .. } => {
                let set = item.set();
                let is_usual = set.iter().map(|part| part.count_ones()).sum::<u32>() > 128;
                for (at, part) in set.into_iter().enumerate() {
                    let mut part = if is_usual { !part } else { part };
                    while part != 0 {
                        let byte = at * WORD_BITS + part.trailing_zeros() as usize;
                        others[byte * words + word] |= bit;
                        part &= part - 1;
                    }
                }
                is_usual
            }
        };
        usual[word] |= if is_usual { bit } else { 0 };
    });
}

/// One item of a pattern, which is not a star.
#[derive(Clone, Copy, Debug)]
enum Item<'p> {
    One(u8),
    Any,
    /// The inside of the brackets.
    Set {
        inside: &'p [u8],
        is_negated: bool,
    },
}

/// The bytes that an item matches.
type Set = [u64; 4];

impl Item<'_> {
    fn holds(self, byte: u8) -> bool {
        match self {
            Item::One(one) => one == byte,
            Item::Any => true,
            Item::Set { inside, is_negated } => {
                let mut found = false;
                each_range(inside, |from, to| found |= (from..=to).contains(&byte));
                found != is_negated
            }
        }
    }

    fn set(self) -> Set {
        let mut set = [0; 4];
        if let Item::Set { inside, .. } = self {
            each_range(inside, |from, to| add_range(&mut set, from, to));
        }
        if matches!(self, Item::Set { is_negated: true, .. }) { set.map(|word| !word) } else { set }
    }
}

/// Adds the bytes of a range, which takes as long for all bytes as for one.
fn add_range(set: &mut Set, from: u8, to: u8) {
    for (first, part) in [0, 64, 128, 192].into_iter().zip(set) {
        let (low, high) = (from.max(first), to.min(first + 63));
        if low <= high {
            *part |= u64::MAX >> (63 - (high - low)) << (low - first);
        }
    }
}

/// Visits the items of a segment.
fn each_item<'p>(mut segment: &'p [u8], mut visit: impl FnMut(Item<'p>)) {
    while !segment.is_empty() {
        let (item, length) = item(segment);
        visit(item);
        segment = &segment[length..];
    }
}

/// The first item of a pattern that does not begin with a star, and its length.
fn item(pattern: &[u8]) -> (Item<'_>, usize) {
    match pattern {
        [b'?', ..] => (Item::Any, 1),
        [b'[', ..] => set(pattern),
        [b'\\', escaped, ..] => (Item::One(*escaped), 2),
        [literal, ..] => (Item::One(*literal), 1),
        [] => (Item::Any, 0),
    }
}

/// The set that starts at `[`, and its length. An unterminated set extends to the end of the
/// pattern.
fn set(pattern: &[u8]) -> (Item<'_>, usize) {
    let is_negated = pattern.get(1) == Some(&b'^');
    let start = if is_negated { 2 } else { 1 };
    let mut inside = &pattern[start..];
    let length = each_range(inside, |_, _| ());
    inside = &inside[..length];
    let is_closed = pattern.get(start + length) == Some(&b']');
    (Item::Set { inside, is_negated }, start + length + usize::from(is_closed))
}

/// Visits the ranges inside a set, up to its end, and returns their length.
fn each_range(inside: &[u8], mut visit: impl FnMut(u8, u8)) -> usize {
    let mut at = 0;
    loop {
        match inside[at..] {
            [] | [b']', ..] => return at,
            [b'\\', escaped, ..] => {
                visit(escaped, escaped);
                at += 2;
            }
            [from, b'-', to, ..] => {
                visit(from.min(to), from.max(to));
                at += 3;
            }
            [literal, ..] => {
                visit(literal, literal);
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Glob, glob};
    use proptest::prelude::*;
    use std::sync::Arc;

    /// The simple method: the positions of the text at which each item may end. As in Redis, only
    /// the empty pattern matches an empty text.
    fn plain(mut pattern: &[u8], text: &[u8]) -> bool {
        if text.is_empty() {
            return pattern.is_empty();
        }
        let mut places: Vec<usize> = vec![0];
        while !pattern.is_empty() {
            if pattern[0] == b'*' {
                places = places.first().map_or(Vec::new(), |first| (*first..=text.len()).collect());
                pattern = &pattern[1..];
                continue;
            }
            let (item, len) = super::item(pattern);
            let matches = |at: &usize| text.get(*at).is_some_and(|byte| item.holds(*byte));
            places = places.into_iter().filter(matches).map(|at| at + 1).collect();
            pattern = &pattern[len..];
        }
        places.contains(&text.len())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn segments_find_what_the_plain_way_finds(
            pattern in concat!(
                "[ab*?]{0,6}",
                "(\\*[ab]{0,2}(a\\?b|[ab]{9,12}|[ab?]{17,24}|\\[ab\\]{1,2}|\\[\\^a\\]b{1,16}))",
                "{0,2}[ab]{0,3}[*ab]{0,2}",
            ),
            text in "[ab]{0,60}",
        ) {
            let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
            prop_assert_eq!(glob(pattern, text), plain(pattern, text));
            prop_assert_eq!(Glob::prepared(pattern).matches(text), plain(pattern, text));
        }

        #[test]
        fn any_bytes_match_as_in_the_plain_way(
            pattern in "[ab*?\\[\\]^\\\\-]{0,30}",
            around in any::<[bool; 2]>(),
            text in "[ab\\[\\]^\\\\-]{0,40}",
        ) {
            let star = |is_there| if is_there { "*" } else { "" };
            let pattern = [star(around[0]), &pattern, star(around[1])].concat();
            let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
            prop_assert_eq!(glob(pattern, text), plain(pattern, text));
            prop_assert_eq!(Glob::prepared(pattern).matches(text), plain(pattern, text));
        }
    }

    /// A segment of that many items, not all of them plain.
    fn mixed(items: usize) -> String {
        "a".repeat(items - 1) + "?"
    }

    #[test]
    fn steps_go_by_the_text_and_the_longest_segment() {
        for (pattern, steps) in [
            ("*".to_owned(), 1),
            ("abc*".to_owned(), 1),
            ("*abc*".to_owned(), 1),
            (format!("*{}*", "a".repeat(1_000)), 1),
            (format!("*{}*", mixed(3)), 1),
            (format!("*{}*", mixed(64)), 1),
            (format!("*{}*", mixed(65)), 2),
            (format!("*{}b", mixed(900)), 1),
            (format!("*{}b*", mixed(900)), 15),
            ("*a".repeat(500) + "*", 1),
            ("*?".repeat(31) + "*", 1),
        ] {
            let glob = Glob::prepared(pattern.as_bytes());
            assert_eq!(glob.steps(1_000), 1_000 * steps + 1, "{pattern}");
        }
        let kept = Glob::new(format!("*{}*", mixed(65)).as_bytes());
        assert_eq!(kept.steps(10_001) - kept.steps(10_000), 2);
        assert_eq!(kept.steps(100), 2 * 100 + 1 + 65 + 2 * 64, "the masks are made each time");
        assert_eq!(Glob::new(format!("*{}*", mixed(1_000)).as_bytes()).steps(999), 1);
        let text = "a".repeat(100_000);
        for segment in ["a".repeat(1_000), mixed(1_000)] {
            assert!(!glob(format!("*{segment}b*").as_bytes(), text.as_bytes()));
            assert!(glob(format!("*{segment}*?").as_bytes(), text.as_bytes()));
            let found = text.clone() + "b" + &text;
            assert!(glob(format!("*{segment}b*").as_bytes(), found.as_bytes()));
        }
    }

    #[test]
    fn a_pattern_that_is_kept_takes_no_memory_beside_its_bytes() {
        for pattern in ["*a".repeat(500), mixed(1_000), "[^a]".repeat(200), mixed(20) + "*"] {
            let shared: Arc<[u8]> = format!("*{pattern}*").into_bytes().into();
            let kept = Glob::new(shared.clone());
            assert!(Arc::ptr_eq(&shared, &kept.pattern) && kept.masks.is_none());
        }
    }

    #[test]
    fn patterns_match_whole_texts() {
        let matching = [
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
            ("[a-]", "_"),
            ("*[^a-y]*", "abcz"),
            ("a\\", "a\\"),
        ];
        for (pattern, text) in matching {
            assert!(glob(pattern.as_bytes(), text.as_bytes()), "{pattern:?} ~ {text:?}");
        }
        let different = [
            ("", "a"),
            ("*", ""),
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
    fn a_set_has_the_bytes_of_all_its_ranges() {
        let edges = [0, 1, 62, 63, 64, 65, 127, 128, 191, 192, 254, 255];
        for from in edges {
            for to in edges {
                let mut set = [0; 4];
                super::add_range(&mut set, from, to);
                let has = |byte: u8| set[usize::from(byte) / 64] >> (byte % 64) & 1 == 1;
                let expected = |byte| (from..=to).contains(&byte);
                assert!((0..=255).all(|byte| has(byte) == expected(byte)), "{from} to {to}");
            }
        }
    }

    #[test]
    fn a_prepared_pattern_holds_a_bounded_number_of_bytes() {
        let (segments, mask) = (|count: usize| "*?".repeat(count) + "*", super::MASK_BYTES);
        let few = Glob::prepared(segments(31).as_bytes());
        assert_eq!(few.held_bytes(), 63 + 31 * mask);
        for count in [32, 512] {
            let many = Glob::prepared(segments(count).as_bytes());
            assert_eq!(many.held_bytes(), 2 * count + 1);
            assert_eq!(many.steps(1_000), Glob::new(segments(count).as_bytes()).steps(1_000));
            assert!(many.matches(&vec![b'a'; count]) && !many.matches(&vec![b'a'; count - 1]));
        }
    }

    #[test]
    fn many_stars_cost_no_more_than_pattern_times_text() {
        let pattern = "*a".repeat(2_000);
        let text = "a".repeat(1_999) + "b";
        assert!(!glob(pattern.as_bytes(), text.as_bytes()));
    }
}
