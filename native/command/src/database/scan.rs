//! Commands that visit all records, in no order.

use crate::database::page::{Collection, Page};
use crate::{Error, Reply};
use todana_table::Keyspace;

/// DBSIZE.
pub(super) fn count<K: Keyspace, R: Reply>(space: &K, now_ms: u64, reply: &mut R) {
    reply.integer(i64::try_from(space.len_at(now_ms)).unwrap_or(i64::MAX));
}

/// Maximum number of records that one page of SCAN visits, for any COUNT; with the rest of a
/// shard, two or three milliseconds.
pub(super) const RECORDS_MAX: usize = 4_096;

/// Most steps of comparing and copying keys in a transaction for each record, and the most beyond
/// that.
const TRANSACTION_RECORD_STEPS: usize = 1_024;
const TRANSACTION_STEPS: usize = 1 << 18;

/// SCAN, `todana:scan`. Returns the cursor of the table unchanged. A page ends before its count if
/// it has enough bytes or has visited enough records.
pub(super) fn scan<K: Keyspace, R: Reply>(
    space: &K,
    cursor: u64,
    count: usize,
    pattern: Option<&[u8]>,
    values: bool,
    now_ms: u64,
    reply: &mut R,
) {
    let count = count.min(RECORDS_MAX);
    let collection = Collection::new(cursor, count, pattern, values);
    let Some((next, page)) = collected(space, collection, now_ms) else {
        return reply.error(Error::TooManyKeys);
    };
    reply.page(next, page.len());
    page.write(reply);
}

/// Collects all keys at once, for callers that hold the locks or block no other client. `None` if
/// the keys are so long that a transaction may not compare all of them.
fn collected<K: Keyspace>(
    space: &K,
    mut collection: Collection,
    now_ms: u64,
) -> Option<(u64, Page)> {
    let records = usize::try_from(space.len()).unwrap_or(usize::MAX).min(collection.left());
    let steps = records.saturating_mul(TRANSACTION_RECORD_STEPS).saturating_add(TRANSACTION_STEPS);
    let done = collection.collect(space, usize::MAX, steps, now_ms);
    done.then(|| collection.end())
}

/// KEYS, CLUSTER GETKEYSINSLOT. Returns all keys of the collection or an error, and stops
/// collecting if there are too many.
pub(super) fn keys<K: Keyspace, R: Reply>(
    space: &K,
    collection: Collection,
    now_ms: u64,
    reply: &mut R,
) {
    let Some((_, page)) = collected(space, collection, now_ms) else {
        return reply.error(Error::TooManyKeys);
    };
    if page.is_full() {
        return reply.error(Error::ReplyTooLarge);
    }
    reply.list(page.len());
    page.write(reply);
}

/// RANDOMKEY.
pub(super) fn random_key<K: Keyspace, R: Reply>(space: &K, seed: u64, now_ms: u64, reply: &mut R) {
    space.random(seed, now_ms, |entry| match entry {
        Some(entry) => reply.key(entry.key()),
        None => reply.none(),
    });
}
