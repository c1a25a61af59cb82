//! The progress of one walk: the range of sort keys that is left.

use std::ops::Bound as End;

use super::{Ordered, sort_key};
use crate::copied_keys::CopiedKeys;
use crate::range::{Bound, Comparison, KeyRange, Walk};

/// Keys copied at once.
const COPY_KEYS_MAX: usize = 128;

/// The rest of a walk.
pub(crate) struct Steps<'a> {
    ordered: &'a Ordered,
    low: End<Vec<u8>>,
    high: End<Vec<u8>>,
    /// Whether the walk visits sort keys in descending order.
    backward: bool,
    /// A prefix that keys must have, if the range does not ensure it.
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

    /// Whether to visit this key of the range.
    #[inline]
    pub(crate) fn wants(&self, key: &[u8]) -> bool {
        // Comparing nothing is not free: glibc's `memcmp` loads, under an empty mask, from the
        // address of an empty slice, and such a load from an address that is not mapped takes 60
        // ns.
        self.prefix.is_empty() || key.starts_with(self.prefix)
    }

    /// The key among those copied.
    pub(crate) fn key<'b>(&self, copied: &'b CopiedKeys, at: usize) -> &'b [u8] {
        sort_key::key(self.ordered.order.comparison, copied.get(at))
    }

    /// Copies the next keys, about as many as requested. Returns whether there are more.
    pub(crate) fn copy(&mut self, wanted: usize, to: &mut CopiedKeys) -> bool {
        let range = (borrowed(&self.low), borrowed(&self.high));
        let most = wanted.min(COPY_KEYS_MAX);
        let more = self.ordered.index.copy(range, self.backward, most, to);
        if more && let Some(last) = to.last() {
            self.go_beyond(last.to_vec());
        }
        more
    }

    /// Excludes a sort key and all before it in the direction of the walk.
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

/// The first byte string after all strings with this prefix, if any.
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
    fn the_end_of_a_prefix_increments_its_last_byte_below_255() {
        assert_eq!(after_all_with(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(after_all_with(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(after_all_with(b"\xff\xff"), None);
        assert_eq!(after_all_with(b""), None);
    }
}
