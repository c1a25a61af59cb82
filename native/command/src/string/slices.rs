//! Slices of long commands on strings.

use crate::slice::{SLICE_REPLY_BYTES, STEP_KEYS_MAX, Slice, Stage};
use crate::string::pairs::{self, Pairs};
use crate::string::text;
use crate::target::Target;
use crate::{Error, Reply, Set};
use todana_table::{Filling, Full};

/// Values from this length on are copied in slices of this length: about a millisecond.
pub(super) const COPIED_BYTES: usize = 2 << 20;

impl<T: Target, R: Reply> Slice<'_, T, R> {
    /// MGET.
    pub(super) fn fetch(self, keys: &[&[u8]], stage: Option<Stage>) -> Option<Stage> {
        let (mut done, mut rest) = match stage {
            Some(Stage::Fetching { done, rest }) => (done, rest),
            _ => {
                self.reply.list(keys.len());
                (0, Vec::new())
            }
        };
        if rest.is_empty() {
            let step = &keys[done..keys.len().min(done + STEP_KEYS_MAX)];
            let now_ms = self.context.now_ms;
            let locked = self.target.lock(step.iter().copied(), now_ms);
            rest = text::get_each_small(&locked, step, now_ms, self.reply);
            done += step.len();
            // Records are popped from the end, so they are stored in reverse order.
            rest.reverse();
        }
        let mut bytes = 0;
        while bytes < SLICE_REPLY_BYTES
            && let Some(held) = rest.pop()
        {
            let key = keys[done - rest.len() - 1];
            bytes += held.as_ref().map_or(0, |held| held.value().len());
            text::reply_with_held(key, held, self.reply);
        }
        (done < keys.len() || !rest.is_empty()).then_some(Stage::Fetching { done, rest })
    }

    /// SET of a large value.
    pub(super) fn set(self, set: &Set<'_>, stage: Option<Stage>) -> Option<Stage> {
        let filling = match stage {
            Some(Stage::Filling(filling)) => Ok(filling),
            _ => Filling::new(set.value.len()),
        };
        let Ok(mut filling) = filling else {
            self.reply.error(Error::Full);
            return None;
        };
        let rest = &set.value[filling.filled()..];
        filling.push(&rest[..rest.len().min(COPIED_BYTES)]);
        if filling.filled() < filling.len() {
            return Some(Stage::Filling(filling));
        }
        text::set_filled(&self.target, set, filling, self.context.now_ms, self.reply);
        None
    }

    /// MSET.
    pub(super) fn store(self, pairs: &Pairs<'_>, stage: Option<Stage>) -> Option<Stage> {
        let mut prepared = match stage {
            Some(Stage::Preparing(prepared)) => prepared,
            _ => Vec::new(),
        };
        let now_ms = self.context.now_ms;
        let prepared = match pairs.prepare_some(&mut prepared, now_ms) {
            Some(Ok(false)) => return Some(Stage::Preparing(prepared)),
            Some(Ok(true)) => Some(Ok(prepared)),
            Some(Err(Full)) => Some(Err(Full)),
            None => None,
        };
        let locked = self.target.lock(pairs.pairs.iter().map(|(key, _)| *key), now_ms);
        pairs::set_many(&locked, pairs, prepared, now_ms, self.reply);
        None
    }
}
