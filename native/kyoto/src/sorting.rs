//! Sorts many rows, a slice at a time.
//!
//! Runs of a thousand rows are sorted first; then pairs of runs are merged until one is left. Each
//! step does a bounded part of this, so that a request with a million rows does not block the event
//! loop. If rows take long to compare, runs and steps have fewer of them. Rows that arrive in
//! order, as most clients send them, are not merged at all.

use std::cmp::Ordering;

/// Most rows sorted at once.
const RUN_ROWS: usize = 1024;

/// Most bytes that comparisons within one run may read for a row.
const RUN_BYTES: usize = 256 << 10;

/// Runs sorted in one step, or rows merged in one step as a number of runs.
const RUNS_PER_STEP: usize = 4;

/// Rows that are being sorted. The sort is stable.
#[derive(Debug)]
pub(super) struct Sorting<T> {
    rows: Vec<T>,
    /// The output of this pass.
    merged: Vec<T>,
    /// Length of the runs that are sorted first.
    first_run: usize,
    /// Length of the sorted runs; 0 while the first runs are made.
    run: usize,
    /// While the first runs are made, the number of sorted rows; then the first of the two runs
    /// that are being merged.
    start: usize,
    /// The next rows of the two runs.
    left: usize,
    right: usize,
    in_order: bool,
}

impl<T: Copy> Sorting<T> {
    /// Sorts rows of which a comparison reads at most `row_bytes_max` bytes.
    pub(super) fn new(rows: Vec<T>, row_bytes_max: usize) -> Sorting<T> {
        let (merged, in_order) = (Vec::new(), true);
        let first_run = (RUN_BYTES / row_bytes_max.max(1)).clamp(1, RUN_ROWS);
        Sorting { rows, merged, first_run, run: 0, start: 0, left: 0, right: 0, in_order }
    }

    /// Continues for a slice. True when all rows are sorted.
    pub(super) fn step(&mut self, compare: impl Fn(&T, &T) -> Ordering) -> bool {
        let mut count = RUNS_PER_STEP * self.first_run;
        while self.run == 0 {
            if count == 0 {
                return false;
            }
            let end = self.rows.len().min(self.start + self.first_run);
            self.rows[self.start..end].sort_by(&compare);
            if self.start > 0 && self.start < end {
                let [before, first] = [self.start - 1, self.start].map(|at| &self.rows[at]);
                self.in_order &= compare(before, first) != Ordering::Greater;
            }
            count = count.saturating_sub(end - self.start);
            self.start = end;
            if end == self.rows.len() {
                self.run = if self.in_order { end.max(1) } else { self.first_run };
                if self.run < end {
                    self.merged.reserve_exact(end);
                }
                self.begin_pair(0);
            }
        }
        while self.run < self.rows.len() {
            if self.start >= self.rows.len() {
                std::mem::swap(&mut self.rows, &mut self.merged);
                self.merged.clear();
                self.run = self.run.saturating_mul(2);
                self.begin_pair(0);
                continue;
            }
            let middle = self.rows.len().min(self.start + self.run);
            let end = self.rows.len().min(middle + self.run);
            while self.left < middle || self.right < end {
                if count == 0 {
                    return false;
                }
                count -= 1;
                let takes_left = self.right >= end
                    || (self.left < middle
                        && compare(&self.rows[self.left], &self.rows[self.right])
                            != Ordering::Greater);
                let next = if takes_left { &mut self.left } else { &mut self.right };
                self.merged.push(self.rows[*next]);
                *next += 1;
            }
            self.begin_pair(end);
        }
        true
    }

    /// The sorted rows.
    pub(super) fn into_rows(self) -> Vec<T> {
        self.rows
    }

    fn begin_pair(&mut self, start: usize) {
        self.start = start;
        self.left = start;
        self.right = self.rows.len().min(start + self.run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sorted(rows: Vec<(u16, usize)>, row_bytes: usize) -> Vec<(u16, usize)> {
        let mut sorting = Sorting::new(rows, row_bytes);
        while !sorting.step(|a, b| a.0.cmp(&b.0)) {}
        sorting.into_rows()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn rows_are_sorted_as_a_stable_sort_sorts_them(
            keys in prop::collection::vec(0_u16..2000, 0..6000),
            row_bytes in prop::sample::select(&[0, 1_000, 30_000, 100_000, usize::MAX][..]),
        ) {
            let rows: Vec<_> = keys.into_iter().enumerate().map(|(at, key)| (key, at)).collect();
            let mut expected = rows.clone();
            expected.sort_by_key(|row| row.0);
            prop_assert_eq!(sorted(rows, row_bytes), expected);
        }
    }

    #[test]
    fn rows_that_are_in_order_are_not_merged() {
        let rows: Vec<_> = (0..5000).map(|at| (at as u16, at)).collect();
        let mut sorting = Sorting::new(rows, 2);
        while !sorting.step(|a, b| a.0.cmp(&b.0)) {}
        assert!(sorting.merged.is_empty());
    }

    #[test]
    fn a_step_reads_few_bytes_however_long_the_rows_are() {
        for row_bytes in [1, 100, 10_000, 60_000, 1 << 20] {
            let rows: Vec<_> = (0..5000).rev().map(|at| (at as u16, at)).collect();
            let mut sorting = Sorting::new(rows, row_bytes);
            let (compared, mut most) = (std::cell::Cell::new(0), 0);
            let mut done = false;
            while !done {
                compared.set(0);
                done = sorting.step(|a, b| {
                    compared.set(compared.get() + 1);
                    a.0.cmp(&b.0)
                });
                most = most.max(compared.get());
            }
            assert!(most * row_bytes <= 40 * RUN_BYTES.max(row_bytes), "{most} of {row_bytes}");
        }
    }
}
