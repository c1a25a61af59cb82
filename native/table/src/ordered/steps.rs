//! One walk's way through the order: what range of sort keys is left of it.

use std::ops::Bound as End;

use super::{Ordered, sort_key};
use crate::range::{Bound, Comparison, KeyRange, Walk};
use crate::walk::Batch;

/// Keys copied at once.
const COPY_KEYS_MAX: usize = 128;

/// What is left of a walk.
pub(crate) struct Steps<'a> {
    ordered: &'a Ordered,
    low: End<Vec<u8>>,
    high: End<Vec<u8>>,
    /// Whether sort keys are walked over in descending order.
    backward: bool,
    /// What keys have to begin with, where the range does not say it.
    prefix: &'a [u8],
}

impl<'a> Steps<'a> {
    pub(crate) fn new(ordered: &'a Ordered, walk: &Walk<'a>) -> Steps<'a> {
        let comparison = ordered.order.comparison;
        let of = |key: &[u8]| sort_key::of(comparison, key).into_owned();
        let (mut low, mut high) = (End::Unbounded, End::Unbounded);
        let mut filter = &[][..];
        match walk.keys {
            KeyRange::All => {}
            KeyRange::Between(first, second) => {
                (low, high) = (end(first, of), end(second, of));
                if ordered.order.descending {
                    (low, high) = (high, low);
                }
            }
            KeyRange::Prefix(prefix) if comparison == Comparison::Lexical => {
                low = End::Included(prefix.to_vec());
                high = after_all_with(prefix).map_or(End::Unbounded, End::Excluded);
            }
            KeyRange::Prefix(prefix) => filter = prefix,
        }
        let backward = walk.reverse != ordered.order.descending;
        let mut steps = Steps { ordered, low, high, backward, prefix: filter };
        if let Some(after) = walk.after {
            steps.go_beyond(of(after));
        }
        steps
    }

    /// Whether a key of the range is one to visit.
    #[inline]
    pub(crate) fn wants(&self, key: &[u8]) -> bool {
        // To compare nothing is not free: glibc's `memcmp` loads, under an empty mask, from where
        // an empty slice points, and such a load from an address that is not mapped takes 60 ns.
        self.prefix.is_empty() || key.starts_with(self.prefix)
    }

    /// The key in a batch.
    pub(crate) fn key<'b>(&self, batch: &'b Batch, at: usize) -> &'b [u8] {
        sort_key::key(self.ordered.order.comparison, batch.get(at))
    }

    /// Copies the next keys, about as many as wanted. Returns whether there are more.
    pub(crate) fn copy(&mut self, wanted: usize, to: &mut Batch) -> bool {
        let range = (borrowed(&self.low), borrowed(&self.high));
        let most = wanted.min(COPY_KEYS_MAX);
        let more = self.ordered.index.copy(range, self.backward, most, to);
        if more && let Some(last) = to.last() {
            self.go_beyond(last.to_vec());
        }
        more
    }

    /// Leaves out a sort key, and all before it on the way.
    fn go_beyond(&mut self, sort_key: Vec<u8>) {
        let nearer = match if self.backward { &self.high } else { &self.low } {
            End::Unbounded => true,
            End::Included(end) | End::Excluded(end) if self.backward => sort_key <= *end,
            End::Included(end) | End::Excluded(end) => sort_key >= *end,
        };
        if nearer {
            let end = if self.backward { &mut self.high } else { &mut self.low };
            *end = End::Excluded(sort_key);
        }
    }
}

fn end(bound: Bound<'_>, of: impl Fn(&[u8]) -> Vec<u8>) -> End<Vec<u8>> {
    match bound {
        Bound::Included(key) => End::Included(of(key)),
        Bound::Excluded(key) => End::Excluded(of(key)),
        Bound::Unbounded => End::Unbounded,
    }
}

fn borrowed(end: &End<Vec<u8>>) -> End<&[u8]> {
    end.as_ref().map(Vec::as_slice)
}

/// What comes after all bytes with this prefix, if anything.
fn after_all_with(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut after = prefix[..=last].to_vec();
    after[last] += 1;
    Some(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_after_a_prefix_has_its_last_byte_raised_that_can_be() {
        assert_eq!(after_all_with(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(after_all_with(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(after_all_with(b"\xff\xff"), None);
        assert_eq!(after_all_with(b""), None);
    }
}
