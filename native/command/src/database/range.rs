//! Walks over a database in order.

use crate::database::page::{EARLY_ENDS_MAX, Page, WALK_BYTES_MAX};
use crate::{Error, Reply};
use todana_table::{Keyspace, NotOrdered, Walk, Walked};

/// Keys that RANGE may skip in a transaction, in which it cannot continue later.
pub(super) const TRANSACTION_SPARE_KEYS: u64 = 1_024;

/// RANGE, PREFIX, `mio:range-search`, Kyoto's cursors and searches. The caller asks for at least
/// one key: a step without a key after which to continue means the end.
pub(super) fn range<K: Keyspace, R: Reply>(
    space: &K,
    walk: &Walk<'_>,
    values: bool,
    now_ms: u64,
    reply: &mut R,
) {
    if K::IS_LOCKED {
        return range_at_once(space, walk, values, now_ms, reply);
    }
    match walked(space, walk, values, EARLY_ENDS_MAX, now_ms) {
        Ok((page, walked)) => write(&page, &walked, reply),
        Err(NotOrdered) => reply.error(Error::NotOrdered),
    }
}

/// The same if the walk cannot continue later, because locks are held until its end: it ends after
/// few skipped keys, and that is an error if it has found none.
fn range_at_once<K: Keyspace, R: Reply>(
    space: &K,
    walk: &Walk<'_>,
    values: bool,
    now_ms: u64,
    reply: &mut R,
) {
    let (page, walked) = match walked(space, walk, values, 1, now_ms) {
        Ok(found) => found,
        Err(NotOrdered) => return reply.error(Error::NotOrdered),
    };
    match walked {
        Walked::Until(_) if page.len() == 0 => reply.error(Error::TooManyKeys),
        walked => write(&page, &walked, reply),
    }
}

/// The result of a walk, and the key at which it ended.
fn walked<K: Keyspace>(
    space: &K,
    walk: &Walk<'_>,
    values: bool,
    early_ends_max: usize,
    now_ms: u64,
) -> Result<(Page, Walked), NotOrdered> {
    let mut page = Page::new(values, WALK_BYTES_MAX);
    let walk = Walk { count: walk.count.max(1), ..*walk };
    let walked = page.walk(space, &walk, early_ends_max, now_ms)?;
    Ok((page, walked))
}

fn write<R: Reply>(page: &Page, walked: &Walked, reply: &mut R) {
    let after = match walked {
        Walked::End => None,
        Walked::Until(key) => Some(&key[..]),
    };
    reply.slice(after, page.len());
    page.write(reply);
}
