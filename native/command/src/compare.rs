//! Writes with a condition on the value itself.

use crate::record::{is_past, resolve};
use crate::strings::PREPARED_BYTES_MIN;
use crate::{Context, Error, Expires, Refusal, Reply};
use todana_table::{Entry, Full, Keyspace, Meta, Prepared};

/// The arguments of [`compare_value`]: the expected value and the new one.
pub(crate) struct Comparison<'a> {
    pub(crate) old: Option<&'a [u8]>,
    pub(crate) new: Option<&'a [u8]>,
    pub(crate) expires: Expires,
}

/// Kyoto Tycoon's cas. The new record has no flags and no access word.
pub(crate) fn compare_value<K: Keyspace, R: Reply>(
    space: &K,
    key: &[u8],
    comparison: &Comparison<'_>,
    context: Context,
    reply: &mut R,
) {
    let Comparison { old, new, expires } = *comparison;
    let mut prepared = match prepare(key, comparison, context) {
        Ok(prepared) => prepared,
        Err(Full) => return reply.error(Error::Full),
    };
    // Large values are compared without the lock, and compared again only if another write has
    // replaced the value meanwhile. The handle keeps the value's bytes unchanged and in place, so
    // the same address means the same value. The version is not enough, since the database may be
    // another table by then (SWAPDB).
    let same = match old {
        Some(old) if old.len() >= PREPARED_BYTES_MIN => space.read(key, context.now_ms, |entry| {
            entry.filter(|entry| entry.value() == old).and_then(|entry| entry.share())
        }),
        _ => None,
    };
    space.update(key, context.now_ms, |slot| {
        let entry = slot.entry();
        let is_same = same
            .as_ref()
            .zip(entry)
            .is_some_and(|(same, entry)| std::ptr::eq(&**same, entry.value()));
        if !is_same && entry.as_ref().map(Entry::value) != old {
            return reply.refused(Refusal::ValueDiffers);
        }
        let Some(new) = new else {
            slot.remove();
            return reply.done();
        };
        if new.len() > context.value_bytes_max {
            return reply.error(Error::ValueTooLarge);
        }
        let expires_at_ms = resolve(expires, slot.entry().as_ref(), context.now_ms);
        let written = match prepared.take() {
            Some(prepared) => slot.put_prepared(prepared),
            None => slot.put(&[new], Meta { expires_at_ms, ..Meta::default() }),
        };
        match written {
            Ok(_) => reply.done(),
            Err(Full) => return reply.error(Error::Full),
        }
        if is_past(expires_at_ms, context.now_ms) {
            slot.remove();
        }
    });
}

/// The entry of a large new value, unless its expiry depends on the present record.
fn prepare(
    key: &[u8],
    comparison: &Comparison<'_>,
    context: Context,
) -> Result<Option<Prepared>, Full> {
    let sizes = PREPARED_BYTES_MIN..=context.value_bytes_max;
    match comparison.new.filter(|new| sizes.contains(&new.len())) {
        Some(new) if comparison.expires != Expires::Keep => {
            let expires_at_ms = resolve(comparison.expires, None, context.now_ms);
            Prepared::new(key, &[new], Meta { expires_at_ms, ..Meta::default() }).map(Some)
        }
        _ => Ok(None),
    }
}
