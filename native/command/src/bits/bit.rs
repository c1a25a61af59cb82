//! One bit: GETBIT, SETBIT.

use crate::string::text::text;
use crate::{Context, Error, Reply};
use todana_table::{Edit, Entry, Keyspace, WrongKind};

/// GETBIT.
pub(super) fn get<K: Keyspace, R: Reply>(
    space: &K,
    key: &[u8],
    offset: u64,
    now_ms: u64,
    reply: &mut R,
) {
    let bit = space.read(key, now_ms, |entry| {
        let value = text(entry)?;
        let byte = usize::try_from(offset / 8).ok().and_then(|byte| value.get(byte));
        Ok(byte.is_some_and(|byte| byte & mask(offset) != 0))
    });
    match bit {
        Ok(bit) => reply.integer(bit.into()),
        Err(WrongKind(kind)) => reply.error(Error::WrongKind(kind)),
    }
}

/// SETBIT. Fills the gap between the old end and the bit with zeroes.
pub(super) fn set<K: Keyspace, R: Reply>(
    space: &K,
    key: &[u8],
    offset: u64,
    bit: bool,
    context: Context,
    reply: &mut R,
) {
    let byte = usize::try_from(offset / 8).ok().filter(|byte| *byte < context.value_bytes_max);
    let Some(at) = byte else {
        return reply.error(Error::ValueTooLarge);
    };
    let edit = Edit::SetBits { at, mask: mask(offset), on: bit };
    space.edit(key, context.now_ms, edit, |locked, draft| {
        let entry = locked.entry();
        let value = match text(entry) {
            Ok(value) => value,
            Err(wrong) => {
                reply.error(wrong.into());
                return Some(());
            }
        };
        let meta = entry.as_ref().map(Entry::meta).unwrap_or_default();
        let was_set = value.get(at).is_some_and(|byte| byte & mask(offset) != 0);
        if was_set == bit && at < value.len() {
            // Nothing changes, so nothing is written, and watches of the key do not fail.
            reply.integer(was_set.into());
            return Some(());
        }
        match locked.put_edited(draft, meta) {
            Ok(None) => return None,
            Ok(Some(_)) => reply.integer(was_set.into()),
            Err(refused) => reply.error(refused.into()),
        }
        Some(())
    });
}

fn mask(offset: u64) -> u8 {
    0x80 >> (offset % 8)
}
