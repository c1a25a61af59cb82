//! The longest common subsequence of two values.
//!
//! Dynamic programming over a table of one `u32` for each pair of prefixes: time and memory are the product of the
//! lengths, so the product is bounded. Within the bound a call takes some tens of milliseconds at the most.

use crate::{Error, LcsSpan, LcsWant, Reply};
use todana_table::{Entry, Keyspace};

/// Most pairs of prefixes: two values of 4,095 bytes, 64 MiB of memory.
const CELLS_MAX: usize = 16 << 20;

/// LCS. A missing key counts as empty.
pub(crate) fn longest_common<K: Keyspace, R: Reply>(
    space: &K,
    keys: [&[u8]; 2],
    want: LcsWant,
    now_ms: u64,
    reply: &mut R,
) {
    let value = |key| {
        space.read(key, now_ms, |entry| entry.as_ref().map_or(&[][..], Entry::value).to_vec())
    };
    let (first, second) = (value(keys[0]), value(keys[1]));
    let cells = (first.len() + 1).checked_mul(second.len() + 1);
    if cells.is_none_or(|cells| cells > CELLS_MAX) {
        return reply.error(Error::ValueTooLarge);
    }
    let table = Lengths::of(&first, &second);
    match want {
        LcsWant::Text => reply.bytes(&table.text(&first, &second)),
        LcsWant::Length => reply.integer(table.total().into()),
        LcsWant::Spans { length_min, with_lengths } => {
            let mut spans = table.spans(&first, &second);
            spans.retain(|span| span.first.1 - span.first.0 + 1 >= length_min);
            reply.matches(&spans, table.total() as usize, with_lengths);
        }
    }
}

/// For each pair of prefixes the length of their longest common subsequence.
struct Lengths {
    cells: Vec<u32>,
    columns: usize,
}

impl Lengths {
    fn of(first: &[u8], second: &[u8]) -> Lengths {
        let columns = second.len() + 1;
        let mut cells = vec![0u32; (first.len() + 1) * columns];
        for (i, a) in first.iter().enumerate() {
            let (above, below) = cells[i * columns..(i + 2) * columns].split_at_mut(columns);
            for (j, b) in second.iter().enumerate() {
                below[j + 1] = if a == b { above[j] + 1 } else { above[j + 1].max(below[j]) };
            }
        }
        Lengths { cells, columns }
    }

    fn at(&self, i: usize, j: usize) -> u32 {
        self.cells[i * self.columns + j]
    }

    fn total(&self) -> u32 {
        self.cells.last().copied().unwrap_or(0)
    }

    /// The pairs of equal bytes that make up the subsequence, last first.
    fn pairs(&self, first: &[u8], second: &[u8], mut each: impl FnMut(usize, usize)) {
        let (mut i, mut j) = (first.len(), second.len());
        while i > 0 && j > 0 {
            if first[i - 1] == second[j - 1] {
                (i, j) = (i - 1, j - 1);
                each(i, j);
            } else if self.at(i - 1, j) > self.at(i, j - 1) {
                i -= 1;
            } else {
                j -= 1;
            }
        }
    }

    fn text(&self, first: &[u8], second: &[u8]) -> Vec<u8> {
        let mut text = Vec::with_capacity(self.total() as usize);
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
