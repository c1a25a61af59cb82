//! Slices of long commands on HyperLogLogs.

use crate::Reply;
use crate::sketch::commands::Union;
use crate::slice::{Slice, Stage};
use crate::target::Target;

/// HyperLogLogs that a slice reads: about a millisecond.
pub(super) const SKETCHES: usize = 64;

impl<T: Target, R: Reply> Slice<'_, T, R> {
    /// PFCOUNT, PFMERGE.
    pub(super) fn unite(self, keys: &[&[u8]], stage: Option<Stage>, merges: bool) -> Option<Stage> {
        let (done, mut union) = match stage {
            Some(Stage::Uniting(done, union)) => (done, union),
            _ => (0, Union::new()),
        };
        let now_ms = self.context.now_ms;
        let step = &keys[done..keys.len().min(done + SKETCHES)];
        if let Err(error) = union.add(&self.target, step, now_ms) {
            self.reply.error(error);
            return None;
        }
        let done = done + step.len();
        if done < keys.len() {
            return Some(Stage::Uniting(done, union));
        }
        match keys.first() {
            Some(to) if merges => union.store(&self.target, to, now_ms, self.reply),
            _ => union.count(self.reply),
        }
        None
    }
}
