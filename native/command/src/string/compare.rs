//! Writes with a condition on the value itself.

use crate::record::{Held, is_past, resolve};
use crate::string::text::{PREPARED_BYTES_MIN, reply_with_held};
use crate::{Context, Error, Expires, Refusal, Reply};
use todana_table::{Full, Keyspace, Meta, Prepared};

/// The arguments of [`compare_value`]: what the value must be, and the new one.
pub(crate) struct Comparison<'a> {
    pub(crate) wanted: Wanted<'a>,
    pub(crate) new: Option<&'a [u8]>,
    pub(crate) expires: Expires,
    /// Whether the reply is the old record.
    pub(crate) return_old: bool,
}

/// What the present value must be.
#[derive(Clone, Copy)]
pub(crate) enum Wanted<'a> {
    /// This one; `None` if there must be no record.
    Is(Option<&'a [u8]>),
    /// Another one.
    IsNot(&'a [u8]),
}

impl<'a> Wanted<'a> {
    /// The value to compare with.
    fn value(self) -> Option<&'a [u8]> {
        match self {
            Wanted::Is(value) => value,
            Wanted::IsNot(value) => Some(value),
        }
    }
}

/// Kyoto Tycoon's cas, Redis' IFEQ and IFNE. The new record has no flags and no access word.
pub(crate) fn compare_value<K: Keyspace, R: Reply>(
    space: &K,
    key: &[u8],
    comparison: &Comparison<'_>,
    context: Context,
    reply: &mut R,
) {
    let Comparison { wanted, new, expires, return_old } = *comparison;
    let mut prepared = match prepare(key, comparison, context) {
        Ok(prepared) => prepared,
        Err(Full) => return reply.error(Error::Full),
    };
    // Large values are compared without the lock, and compared again only if another write has
    // replaced the value meanwhile. The handle keeps the value's bytes unchanged and in place, so
    // the same address means the same value. The version is not enough, since the database may be
    // another table by then (SWAPDB).
    let same = match wanted.value() {
        Some(old) if old.len() >= PREPARED_BYTES_MIN => space.read(key, context.now_ms, |entry| {
            entry.filter(|entry| entry.text() == Ok(old)).and_then(|entry| entry.share())
        }),
        _ => None,
    };
    let mut old = None;
    let answer = space.update(key, context.now_ms, |locked| {
        let entry = locked.entry();
        let value = entry.map(|entry| entry.text()).transpose();
        let value = value.map_err(|wrong| Unchanged::Failed(wrong.into()))?;
        let is_same =
            same.as_ref().zip(value).is_some_and(|(same, value)| std::ptr::eq(&**same, value));
        let is_equal = is_same || value == wanted.value();
        let holds = match wanted {
            Wanted::Is(_) => is_equal,
            Wanted::IsNot(_) => !is_equal && (entry.is_some() || new.is_some()),
        };
        if return_old {
            old = entry.as_ref().and_then(|entry| Held::of(entry).ok());
        }
        if !holds {
            return Err(Unchanged::Refused);
        }
        let Some(new) = new else {
            locked.remove();
            return Ok(());
        };
        if new.len() > context.value_bytes_max {
            return Err(Unchanged::Failed(Error::ValueTooLarge));
        }
        let expires_at_ms = resolve(expires, locked.entry().as_ref(), context.now_ms);
        let written = match prepared.take() {
            Some(prepared) => locked.put_prepared(prepared),
            None => locked.put(&[new], Meta { expires_at_ms, ..Meta::default() }),
        };
        written.map_err(|Full| Unchanged::Failed(Error::Full))?;
        if is_past(expires_at_ms, context.now_ms) {
            locked.remove();
        }
        Ok(())
    });
    match answer {
        Err(Unchanged::Failed(error)) => reply.error(error),
        _ if return_old => reply_with_held(key, old, reply),
        Ok(()) => reply.done(),
        Err(Unchanged::Refused) => reply.refused(Refusal::ValueDiffers),
    }
}

/// Why the record stays as it is.
enum Unchanged {
    Refused,
    Failed(Error),
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
