//! The longest common subsequence of two values.
//!
//! The textbook algorithm keeps a number for each pair of prefixes. Two neighbours in a row of that
//! table differ by 0 or 1, so this one stores a row as bits and computes 64 columns at a time
//! (Crochemore et al., 2001): for each byte of the first value, with `matches` the positions of
//! that byte in the second,
//!
//! ```text
//! next = (row + (row & matches)) | (row & !matches)   a bit of 0: the length grows in this column
//! ```
//!
//! The rows are sufficient for backtracking. The columns are the bytes of the shorter value. Time
//! and memory are proportional to the words of all rows: at the bound these are 4 MiB and five to
//! ten milliseconds, most of them spent on touching memory for the first time.

use crate::record::Held;
use crate::target::Target;
use crate::{Error, LcsSpan, LcsWant, Reply};
use todana_table::{Keyspace, WrongKind};

/// Most words of all rows: two values of 5.7 KiB, or one of 512 KiB and one of 64 bytes.
const WORDS_MAX: usize = 1 << 19;
/// The same in a transaction, which holds locks meanwhile: two values of 512 bytes.
pub(crate) const TRANSACTION_WORDS_MAX: usize = 1 << 12;

const WORD_BITS: usize = u64::BITS as usize;

/// Two values read from the table for LCS.
pub(crate) struct Values([Option<Held>; 2]);

impl Values {
    /// Reads the values, large ones by handle. A missing record counts as an empty value.
    pub(crate) fn read<K: Keyspace>(
        space: &K,
        keys: [&[u8]; 2],
        now_ms: u64,
    ) -> Result<Values, WrongKind> {
        let [first, second] = keys.map(|key| Held::read(space, key, now_ms));
        Ok(Values([first?, second?]))
    }

    /// LCS. This may be slow: the caller must have released its locks, or `words_max` must be
    /// small.
    pub(crate) fn longest_common<R: Reply>(&self, want: LcsWant, words_max: usize, reply: &mut R) {
        let [first, second] =
            self.0.each_ref().map(|held| held.as_ref().map_or(&[][..], Held::value));
        let way_back = want != LcsWant::Length;
        let Some(table) = Rows::of(first, second, way_back, words_max) else {
            return reply.error(Error::ValueTooLarge);
        };
        match want {
            LcsWant::Length => reply.integer(table.length() as i64),
            LcsWant::Text => reply.bytes(&table.text(first, second)),
            LcsWant::Spans { length_min, with_lengths } => {
                let mut spans = table.spans(first, second);
                spans.retain(|span| span.first.1 - span.first.0 + 1 >= length_min);
                reply.matches(&spans, table.length(), with_lengths);
            }
        }
    }
}

/// LCS, without the locks once the values have been read.
pub(crate) fn alone<T: Target, R: Reply>(
    target: &T,
    keys: [&[u8]; 2],
    want: LcsWant,
    now_ms: u64,
    reply: &mut R,
) {
    let values = Values::read(&target.lock(keys, now_ms), keys, now_ms);
    longest_common(values, want, WORDS_MAX, reply);
}

/// The same with the locks held, on short values.
pub(crate) fn in_transaction<K: Keyspace, R: Reply>(
    space: &K,
    keys: [&[u8]; 2],
    want: LcsWant,
    now_ms: u64,
    reply: &mut R,
) {
    longest_common(Values::read(space, keys, now_ms), want, TRANSACTION_WORDS_MAX, reply);
}

fn longest_common<R: Reply>(
    values: Result<Values, WrongKind>,
    want: LcsWant,
    words_max: usize,
    reply: &mut R,
) {
    match values {
        Ok(values) => values.longest_common(want, words_max, reply),
        Err(wrong) => reply.error(wrong.into()),
    }
}

/// For each prefix of the longer value (or only for the whole value), the columns, which are the
/// bytes of the shorter value, in which the length grows.
struct Rows {
    words: Vec<u64>,
    words_per_row: usize,
    /// Whether the rows belong to the second value.
    turned: bool,
}

impl Rows {
    /// `None` if the rows exceed the bound, or memory is short.
    fn of(first: &[u8], second: &[u8], keep_all: bool, words_max: usize) -> Option<Rows> {
        let turned = first.len() < second.len();
        let (long, short) = if turned { (second, first) } else { (first, second) };
        let words_per_row = short.len().div_ceil(WORD_BITS);
        long.len().checked_mul(words_per_row).filter(|words| *words <= words_max)?;
        if short.is_empty() {
            return Some(Rows { words: Vec::new(), words_per_row: 0, turned });
        }
        let positions = Positions::of(long, short, words_per_row)?;
        let kept_rows = if keep_all { long.len() } else { 1 };
        let mut words = zeroed(kept_rows * words_per_row)?;
        words[..words_per_row].fill(u64::MAX);
        for (row, byte) in long.iter().enumerate() {
            if keep_all && row > 0 {
                let above = (row - 1) * words_per_row;
                words.copy_within(above..above + words_per_row, row * words_per_row);
            }
            let row = if keep_all { row } else { 0 };
            advance(&mut words[row * words_per_row..][..words_per_row], positions.of_byte(*byte));
        }
        Some(Rows { words, words_per_row, turned })
    }

    /// Length of the subsequence: the number of columns in which the last row grows.
    fn length(&self) -> usize {
        let last_row = &self.words[self.words.len() - self.words_per_row..];
        let grows: usize = last_row.iter().map(|word| word.count_zeros() as usize).sum();
        // The last word's bits beyond the last column never become 0.
        grows
    }

    /// Whether the length of row `row` grows in column `column`.
    fn grows(&self, row: usize, column: usize) -> bool {
        let word = self.words[row * self.words_per_row + column / WORD_BITS];
        word >> (column % WORD_BITS) & 1 == 0
    }

    /// The length for the first `rows` bytes of the longer and `columns` of the shorter value.
    fn length_of(&self, rows: usize, columns: usize) -> usize {
        let Some(row) = rows.checked_sub(1) else { return 0 };
        let words = &self.words[row * self.words_per_row..][..self.words_per_row];
        let (whole, rest) = (columns / WORD_BITS, columns % WORD_BITS);
        let mut length: u32 = words[..whole].iter().map(|word| word.count_zeros()).sum();
        if rest > 0 {
            length += (!words[whole] & ((1 << rest) - 1)).count_ones();
        }
        length as usize
    }

    /// The pairs of equal bytes in the subsequence, last first. Of several subsequences it chooses
    /// the same as Redis: it skips a byte of the first value only if skipping one of the second
    /// would make the subsequence shorter.
    fn pairs(&self, first: &[u8], second: &[u8], mut each: impl FnMut(usize, usize)) {
        let (mut i, mut j) = (first.len(), second.len());
        // Used in the turned case only, whose rows do not show directly what one row fewer would
        // mean.
        let mut length = if i > 0 && j > 0 && self.turned { self.length() } else { 0 };
        while i > 0 && j > 0 {
            if first[i - 1] == second[j - 1] {
                (i, j) = (i - 1, j - 1);
                length = length.saturating_sub(1);
                each(i, j);
            } else if self.turned {
                let without_second = self.length_of(j - 1, i);
                let without_first = length - usize::from(self.grows(j - 1, i - 1));
                if without_first > without_second {
                    (i, length) = (i - 1, without_first);
                } else {
                    (j, length) = (j - 1, without_second);
                }
            } else if self.grows(i - 1, j - 1) {
                // Without this column the subsequence is shorter; without this row it is not.
                i -= 1;
            } else {
                j -= 1;
            }
        }
    }

    fn text(&self, first: &[u8], second: &[u8]) -> Vec<u8> {
        let mut text = Vec::with_capacity(self.length());
        self.pairs(first, second, |i, _| text.push(first[i]));
        text.reverse();
        text
    }

    /// Runs of pairs that are adjacent in both values, last first.
    fn spans(&self, first: &[u8], second: &[u8]) -> Vec<LcsSpan> {
        let mut spans: Vec<LcsSpan> = Vec::new();
        self.pairs(first, second, |i, j| match spans.last_mut() {
            Some(span) if span.first.0 == i + 1 && span.second.0 == j + 1 => {
                (span.first.0, span.second.0) = (i, j);
            }
            _ => spans.push(LcsSpan { first: (i, i), second: (j, j) }),
        });
        spans
    }
}

/// Computes a row from the one above.
fn advance(row: &mut [u64], matches: &[u64]) {
    let mut carry = false;
    for (word, matches) in row.iter_mut().zip(matches) {
        let matching = *word & matches;
        let (sum, first) = word.overflowing_add(matching);
        let (sum, second) = sum.overflowing_add(u64::from(carry));
        carry = first || second;
        *word = sum | (*word & !matches);
    }
}

/// The positions of each byte of the longer value in the shorter, as bits.
struct Positions {
    /// The start of a byte's words, in rows; `None` for bytes that the longer value does not
    /// contain.
    rows: [Option<usize>; 256],
    words: Vec<u64>,
    words_per_row: usize,
}

impl Positions {
    fn of(long: &[u8], short: &[u8], words_per_row: usize) -> Option<Positions> {
        let mut rows = [None; 256];
        let mut count = 0;
        for byte in long {
            rows[usize::from(*byte)].get_or_insert_with(|| {
                count += 1;
                count - 1
            });
        }
        // There are at most as many rows as the longer value has bytes, so the bound holds for
        // these too.
        let mut words = zeroed(count * words_per_row)?;
        for (column, byte) in short.iter().enumerate() {
            if let Some(row) = rows[usize::from(*byte)] {
                words[row * words_per_row + column / WORD_BITS] |= 1 << (column % WORD_BITS);
            }
        }
        Some(Positions { rows, words, words_per_row })
    }

    fn of_byte(&self, byte: u8) -> &[u64] {
        let row = self.rows[usize::from(byte)].unwrap_or(0);
        &self.words[row * self.words_per_row..][..self.words_per_row]
    }
}

fn zeroed(words: usize) -> Option<Vec<u64>> {
    let mut zeroed = Vec::new();
    zeroed.try_reserve_exact(words).ok()?;
    zeroed.resize(words, 0);
    Some(zeroed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The textbook algorithm with Redis' backtracking.
    fn plain(first: &[u8], second: &[u8]) -> Vec<(usize, usize)> {
        let mut table = vec![vec![0u32; second.len() + 1]; first.len() + 1];
        for i in 1..=first.len() {
            for j in 1..=second.len() {
                table[i][j] = if first[i - 1] == second[j - 1] {
                    table[i - 1][j - 1] + 1
                } else {
                    table[i - 1][j].max(table[i][j - 1])
                };
            }
        }
        let (mut i, mut j, mut pairs) = (first.len(), second.len(), Vec::new());
        while i > 0 && j > 0 {
            if first[i - 1] == second[j - 1] {
                (i, j) = (i - 1, j - 1);
                pairs.push((i, j));
            } else if table[i - 1][j] > table[i][j - 1] {
                i -= 1;
            } else {
                j -= 1;
            }
        }
        pairs
    }

    #[test]
    fn bits_find_what_the_textbook_finds_whichever_value_is_longer() {
        let mut dice = 7u64;
        let mut value = |length: usize| -> Vec<u8> {
            let letter = |_| {
                dice = dice.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                b'a' + ((dice >> 40) % 4) as u8
            };
            (0..length).map(letter).collect()
        };
        for first_len in [0, 1, 2, 3, 7, 63, 64, 65, 130, 200] {
            for second_len in [0, 1, 2, 5, 8, 63, 64, 66, 129, 190] {
                let (first, second) = (value(first_len), value(second_len));
                let rows = Rows::of(&first, &second, true, WORDS_MAX).unwrap();
                let mut pairs = Vec::new();
                rows.pairs(&first, &second, |i, j| pairs.push((i, j)));
                assert_eq!(pairs, plain(&first, &second), "{first_len} {second_len}");
                let length = Rows::of(&first, &second, false, WORDS_MAX).unwrap().length();
                assert_eq!(length, pairs.len());
            }
        }
    }

    #[test]
    fn the_bound_is_on_words_whichever_value_is_longer() {
        let long = vec![b'x'; WORDS_MAX + 1];
        for short in [&b"x"[..], &[b'x'; 64]] {
            assert!(Rows::of(&long, short, true, WORDS_MAX).is_none());
            assert!(Rows::of(short, &long, false, WORDS_MAX).is_none());
            let long = &long[1..];
            assert_eq!(Rows::of(long, short, false, WORDS_MAX).unwrap().length(), short.len());
            assert_eq!(Rows::of(short, long, false, WORDS_MAX).unwrap().length(), short.len());
        }
    }
}
