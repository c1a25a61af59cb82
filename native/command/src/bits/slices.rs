//! Slices of long commands on bits.

use crate::bits::{operation, search};
use crate::slice::{Slice, Stage};
use crate::target::Target;
use crate::{BitOperator, Reply};

/// Bytes whose bits a slice reads: about a millisecond.
const READ_BYTES: usize = 4 << 20;

impl<T: Target, R: Reply> Slice<'_, T, R> {
    /// BITCOUNT, BITPOS. A large value is read as it was at the beginning.
    pub(super) fn look(
        self,
        key: &[u8],
        sought: &search::Sought,
        stage: Option<Stage>,
    ) -> Option<Stage> {
        let (value, mut look) = match stage {
            Some(Stage::Looking(value, look)) => (value, look),
            _ => {
                let begun = self.target.read(key, self.context.now_ms, |entry| {
                    let length = entry?.text().ok()?.len();
                    let value = if length > READ_BYTES { entry?.share() } else { None };
                    Some((value?, sought.look(length)?))
                });
                let Some(begun) = begun else {
                    sought.find(&self.target, key, self.context.now_ms, self.reply);
                    return None;
                };
                begun
            }
        };
        match look.go_on(&value, READ_BYTES) {
            None => Some(Stage::Looking(value, look)),
            Some(result) => {
                self.reply.integer(result);
                None
            }
        }
    }

    /// BITOP.
    pub(super) fn operate(
        self,
        operator: BitOperator,
        keys: &[&[u8]],
        stage: Option<Stage>,
    ) -> Option<Stage> {
        let stage = match stage {
            Some(Stage::Operating(mut operation)) => {
                if !operation.go_on() {
                    return Some(Stage::Operating(operation));
                }
                operation::Stage::Finished(operation)
            }
            _ => operation::Stage::Begin,
        };
        let now_ms = self.context.now_ms;
        operation::step(&self.target, operator, keys, now_ms, stage, self.reply)
            .map(Stage::Operating)
    }
}
