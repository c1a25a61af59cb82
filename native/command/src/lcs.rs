//! The longest common subsequence of two values.
//!
//! The textbook keeps a number for each pair of prefixes. Two neighbours in a row of that table
//! differ by 0 or 1, so a row is kept as bits here, and computed 64 columns at a time (Crochemore
//! et al., 2001): for each byte of the first value, with `matches` the positions of that byte in
//! the second,
//!
//! ```text
//! next = (row + (row & matches)) | (row & !matches)   a bit of 0: the length grows in this column
//! ```
//!
//! which is all that the way back needs. Time and memory are the product of the lengths over 64 and
//! 8: at the bound that is 64 MiB and some ten milliseconds.

use crate::record::Kept;
use crate::{Error, LcsSpan, LcsWant, Reply};
use todana_table::Keyspace;

/// Most pairs of bytes to compare: two values of 16 KiB.
const PAIRS_MAX: usize = 1 << 28;

const WORD_BITS: usize = u64::BITS as usize;

/// Two values whose longest common subsequence is asked for, out of the table.
pub(crate) struct Values([Option<Kept>; 2]);

impl Values {
    /// Takes the values; copying large ones is not needed. A missing record counts as an empty
    /// value.
    pub(crate) fn read<K: Keyspace>(space: &K, keys: [&[u8]; 2], now_ms: u64) -> Values {
        Values(keys.map(|key| space.read(key, now_ms, |entry| entry.as_ref().map(Kept::of))))
    }

    /// LCS. Takes its time: locks should be gone by now.
    pub(crate) fn longest_common<R: Reply>(&self, want: LcsWant, reply: &mut R) {
        let [first, second] =
            self.0.each_ref().map(|kept| kept.as_ref().map_or(&[][..], Kept::value));
        let way_back = want != LcsWant::Length;
        let Some(table) = Rows::of(first, second, way_back) else {
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

/// For each prefix of the first value (or only for all of it), in which columns the length grows.
struct Rows {
    words: Vec<u64>,
    words_per_row: usize,
    columns: usize,
}

impl Rows {
    /// `None` where the product of the lengths is beyond the bound, or memory is short.
    fn of(first: &[u8], second: &[u8], keep_all: bool) -> Option<Rows> {
        first.len().checked_mul(second.len()).filter(|pairs| *pairs <= PAIRS_MAX)?;
        if first.is_empty() || second.is_empty() {
            return Some(Rows { words: Vec::new(), words_per_row: 0, columns: second.len() });
        }
        let words_per_row = second.len().div_ceil(WORD_BITS);
        let positions = Positions::of(first, second, words_per_row)?;
        let kept_rows = if keep_all { first.len() } else { 1 };
        let mut words = zeroed(kept_rows * words_per_row)?;
        words[..words_per_row].fill(u64::MAX);
        for (row, byte) in first.iter().enumerate() {
            if keep_all && row > 0 {
                let above = (row - 1) * words_per_row;
                words.copy_within(above..above + words_per_row, row * words_per_row);
            }
            let row = if keep_all { row } else { 0 };
            advance(&mut words[row * words_per_row..][..words_per_row], positions.of_byte(*byte));
        }
        Some(Rows { words, words_per_row, columns: second.len() })
    }

    /// Length of the subsequence: the columns of the last row in which it grows.
    fn length(&self) -> usize {
        let last_row = &self.words[self.words.len() - self.words_per_row..];
        let grows: usize = last_row.iter().map(|word| word.count_zeros() as usize).sum();
        // The last word's bits behind the last column never become 0.
        grows
    }

    /// Whether the length of row `i` grows in column `j`.
    fn grows(&self, i: usize, j: usize) -> bool {
        self.words[i * self.words_per_row + j / WORD_BITS] >> (j % WORD_BITS) & 1 == 0
    }

    /// The pairs of equal bytes that make up the subsequence, last first; among several, those that
    /// Redis chooses.
    fn pairs(&self, first: &[u8], second: &[u8], mut each: impl FnMut(usize, usize)) {
        let (mut i, mut j) = (first.len(), self.columns);
        while i > 0 && j > 0 {
            if first[i - 1] == second[j - 1] {
                (i, j) = (i - 1, j - 1);
                each(i, j);
            } else if self.grows(i - 1, j - 1) {
                // Without this column the subsequence is shorter, without this row it is not.
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

    /// Runs of pairs that lie side by side in both values, last first.
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

/// One row from the one above.
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

/// Where each byte of the first value occurs in the second, as bits.
struct Positions {
    /// Where a byte's words start, in rows; `None` for those that the first value does not have.
    rows: [Option<usize>; 256],
    words: Vec<u64>,
    words_per_row: usize,
}

impl Positions {
    fn of(first: &[u8], second: &[u8], words_per_row: usize) -> Option<Positions> {
        let mut rows = [None; 256];
        let mut count = 0;
        for byte in first {
            rows[usize::from(*byte)].get_or_insert_with(|| {
                count += 1;
                count - 1
            });
        }
        // As many rows at the most as the first value has bytes, so this keeps to the bound too.
        let mut words = zeroed(count * words_per_row)?;
        for (column, byte) in second.iter().enumerate() {
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
