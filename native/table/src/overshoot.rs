//! How far writes may exceed a limit until room is made for them ([`eviction`](crate::eviction)).

/// Entries that one call evicts in addition to as many as its writes added.
pub(crate) const EVICTIONS_MAX: i64 = 256;
/// A write that adds no more than this is not refused while room is made: the evictions of one call
/// free this many bytes even if all entries have the minimum size.
pub(crate) const UNREFUSED_BYTES: i64 = EVICTIONS_MAX * 32;
/// Bytes by which a table with a small limit may exceed it temporarily.
const OVERSHOOT_BYTES_MIN: i64 = 8 * 1024 * 1024;

/// Bytes by which large values may exceed a limit until room is made for them: a sixteenth of the
/// limit, or 8 MiB if that is more.
pub(crate) fn overshoot_bytes(bytes_max: i64) -> i64 {
    (bytes_max / 16).max(OVERSHOOT_BYTES_MIN)
}

/// The number of bytes up to which a write that adds `added_bytes` may go, if eviction enforces the
/// limit.
pub(crate) fn bytes_ceiling(bytes_max: i64, added_bytes: i64) -> i64 {
    match added_bytes {
        ..=UNREFUSED_BYTES => i64::MAX,
        _ => bytes_max.saturating_add(overshoot_bytes(bytes_max)),
    }
}

/// The limit that refused a write: the table's own, or that of the shared budget.
#[derive(Clone, Copy)]
pub(crate) enum Refusal {
    Own,
    Shared,
}
