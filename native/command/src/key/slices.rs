//! Slices of long commands on keys.

use crate::Reply;
use crate::key::dump::{self, Dumping, Restored, Restoring};
use crate::key::records::{self, Counted};
use crate::slice::{STEP_KEYS_MAX, Slice, Stage};
use crate::target::Target;

/// Payloads of DUMP from this length on may be restored in slices.
const RESTORED_BYTES_MIN: usize = 64 << 10;

/// Whether a payload is restored in slices.
pub(super) fn restores_long(payload: &[u8]) -> bool {
    payload.len().max(dump::value_length(payload)) >= RESTORED_BYTES_MIN
}

impl<T: Target, R: Reply> Slice<'_, T, R> {
    /// DEL, UNLINK, EXISTS, TOUCH.
    pub(super) fn count(
        self,
        what: Counted,
        keys: &[&[u8]],
        stage: Option<Stage>,
    ) -> Option<Stage> {
        let (done, found) = match stage {
            Some(Stage::Counting { done, found }) => (done, found),
            _ => (0, 0),
        };
        let step = &keys[done..keys.len().min(done + STEP_KEYS_MAX)];
        let locked = self.target.lock(step.iter().copied(), self.context.now_ms);
        let found = found + records::found(&locked, what, step, self.context.now_ms);
        let done = done + step.len();
        if done < keys.len() {
            return Some(Stage::Counting { done, found });
        }
        drop(locked);
        self.reply.integer(found);
        None
    }

    /// DUMP.
    pub(super) fn dump(self, key: &[u8], stage: Option<Stage>) -> Option<Stage> {
        let now_ms = self.context.now_ms;
        match stage {
            Some(Stage::Dumping(dumping)) => dumping.go_on(self.reply).map(Stage::Dumping),
            _ => match Dumping::begin(&self.target, key, now_ms) {
                Some(dumping) => Some(Stage::Dumping(dumping)),
                None => {
                    dump::dump(&self.target, key, now_ms, self.reply);
                    None
                }
            },
        }
    }

    /// RESTORE.
    pub(super) fn restore(self, restored: &Restored<'_>, stage: Option<Stage>) -> Option<Stage> {
        let restoring = match stage {
            Some(Stage::Restoring(restoring)) => restoring,
            _ => Restoring::default(),
        };
        let more = restoring.go_on(&self.target, restored, self.context, self.reply);
        more.map(Stage::Restoring)
    }
}
