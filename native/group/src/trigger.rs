//! When a snapshot is due.

use parking_lot::Mutex;

/// No snapshot is due, unless asked for, before this number of bytes was logged.
pub const SNAPSHOT_LOG_BYTES_MIN: u64 = 64 << 20;

/// After this number of logged bytes a snapshot is due, however much data there is.
pub const SNAPSHOT_LOG_BYTES_MAX: u64 = 4 << 30;

/// What an entry counts besides the bytes of its batch: about its headers in the files of the log,
/// and its share of the time of a start, which a log of many short entries would make long.
pub const ENTRY_BYTES: u64 = 256;

/// While a user's snapshot of a table is running, the group's own is put off until this share of
/// the bytes after which it was due was logged in addition.
const PATIENCE_SHARE: u64 = 4;

/// A member of a cluster begins its snapshots earlier, by up to this share of the threshold.
const EARLY_SHARE: u64 = 4;

/// A snapshot that failed is due again after this number of logged bytes.
const RETRY_BYTES: u64 = 16 << 20;

/// Bytes logged after which a snapshot of this number of bytes is due.
pub(crate) fn threshold(data_bytes: u64) -> u64 {
    (data_bytes / 2).clamp(SNAPSHOT_LOG_BYTES_MIN, SNAPSHOT_LOG_BYTES_MAX)
}

/// The threshold of one member of a cluster. All members log the same bytes; if all wrote their
/// snapshots after the same entry, every node would be slow at the same time, and with them every
/// write. So each begins earlier by a part that `draw`, a random number of the node, decides. The
/// records do not depend on it.
pub(crate) fn early(threshold: u64, draw: u64) -> u64 {
    // The upper byte of a product depends on all bits, so consecutive numbers lead to other parts.
    let part = draw.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56;
    threshold - ((threshold / EARLY_SHARE) >> 8) * part
}

/// Decides when a snapshot is due. The bytes are those logged since the group was last emptied or
/// restored.
#[derive(Default)]
pub(crate) struct Trigger(Mutex<Record>);

#[derive(Default)]
struct Record {
    /// Bytes logged when the last complete snapshot began.
    complete_at: u64,
    /// The snapshot that is being written: its number, and the bytes logged when it began.
    running: Option<(u64, u64)>,
    /// Snapshots begun so far, and those of them that do not count any more.
    begun: u64,
    void: u64,
    complete: u64,
    /// None is due before this number of bytes.
    not_before: u64,
    requested: bool,
}

impl Trigger {
    /// Whether a snapshot is due, given the bytes logged in all. The functions are called only if
    /// the answer depends on them.
    pub(crate) fn is_due(
        &self,
        logged: u64,
        threshold: impl FnOnce() -> u64,
        users_snapshot_is_running: impl FnOnce() -> bool,
    ) -> bool {
        let record = self.0.lock();
        if record.requested {
            return true;
        }
        // One that is being written may be ignored by its owner: the next one replaces it.
        let since = record.running.map_or(record.complete_at, |(_, begun_at)| begun_at);
        let logged_since = logged.saturating_sub(since.max(record.complete_at));
        drop(record);
        let threshold = threshold();
        logged_since >= threshold
            && logged >= self.0.lock().not_before
            && (logged_since >= threshold + threshold / PATIENCE_SHARE
                || !users_snapshot_is_running())
    }

    /// A snapshot begins. Returns its number.
    pub(crate) fn begin(&self, logged: u64) -> u64 {
        let record = &mut *self.0.lock();
        record.begun += 1;
        record.requested = false;
        record.running = Some((record.begun, logged));
        record.begun
    }

    /// A snapshot has ended.
    pub(crate) fn end(&self, number: u64, begun_at: u64, complete: bool) {
        let record = &mut *self.0.lock();
        if number <= record.void {
            return;
        }
        if complete {
            record.complete += 1;
            record.complete_at = record.complete_at.max(begun_at);
        } else {
            record.not_before = record.not_before.max(begun_at + RETRY_BYTES);
        }
        record.running.take_if(|(running, _)| *running == number);
    }

    /// Somebody asks for a snapshot.
    pub(crate) fn request(&self) {
        self.0.lock().requested = true;
    }

    /// The bytes logged are counted anew.
    pub(crate) fn begin_anew(&self) {
        let record = &mut *self.0.lock();
        let Record { begun, complete, .. } = *record;
        *record = Record { begun, void: begun, complete, ..Record::default() };
    }

    /// Bytes logged when the last complete snapshot began, the number of complete snapshots, and
    /// whether one is being written.
    pub(crate) fn figures(&self) -> (u64, u64, bool) {
        let record = self.0.lock();
        (record.complete_at, record.complete, record.running.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn is_due(trigger: &Trigger, logged: u64, users: bool) -> bool {
        trigger.is_due(logged, || 100 * MIB, || users)
    }

    #[test]
    fn the_threshold_is_half_of_the_data_within_bounds() {
        assert_eq!(threshold(0), 64 * MIB);
        assert_eq!(threshold(1_000 * MIB), 500 * MIB);
        assert_eq!(threshold(u64::MAX), 4_096 * MIB);
    }

    #[test]
    fn members_differ_in_their_thresholds_within_a_quarter() {
        let thresholds: Vec<u64> = (1..=100).map(|draw| early(1_024 * MIB, draw)).collect();
        assert!(thresholds.iter().all(|bytes| (768 * MIB..=1_024 * MIB).contains(bytes)));
        let (least, most) = (thresholds.iter().min(), thresholds.iter().max());
        assert!(least < Some(&(800 * MIB)) && most > Some(&(990 * MIB)));
        assert_eq!(early(1_000, 7), early(1_000, 7));
        assert_eq!(early(u64::MAX, 0), u64::MAX);
    }

    #[test]
    fn bytes_count_from_the_beginning_of_the_last_complete_snapshot() {
        let trigger = Trigger::default();
        assert!(!is_due(&trigger, 100 * MIB - 1, false));
        assert!(is_due(&trigger, 100 * MIB, false));
        let first = trigger.begin(100 * MIB);
        assert!(!is_due(&trigger, 199 * MIB, false));
        trigger.end(first, 100 * MIB, true);
        assert!(!is_due(&trigger, 199 * MIB, false) && is_due(&trigger, 200 * MIB, false));
        assert_eq!(trigger.figures(), (100 * MIB, 1, false));
    }

    #[test]
    fn a_snapshot_that_failed_is_due_again_soon_and_one_that_hangs_is_replaced() {
        let trigger = Trigger::default();
        let first = trigger.begin(100 * MIB);
        trigger.end(first, 100 * MIB, false);
        assert!(!is_due(&trigger, 115 * MIB, false) && is_due(&trigger, 116 * MIB, false));
        let hanging = trigger.begin(116 * MIB);
        assert!(!is_due(&trigger, 215 * MIB, false) && is_due(&trigger, 216 * MIB, false));
        let next = trigger.begin(216 * MIB);
        trigger.end(hanging, 116 * MIB, false);
        assert!(trigger.figures().2);
        trigger.end(next, 216 * MIB, true);
        assert_eq!(trigger.figures(), (216 * MIB, 1, false));
    }

    #[test]
    fn a_users_snapshot_is_waited_for_but_not_for_ever() {
        let trigger = Trigger::default();
        assert!(!is_due(&trigger, 124 * MIB, true));
        assert!(is_due(&trigger, 125 * MIB, true));
        trigger.request();
        assert!(is_due(&trigger, 1, true));
        trigger.begin(1);
        assert!(!is_due(&trigger, 1, true));
    }

    #[test]
    fn snapshots_from_before_a_restoration_do_not_count() {
        let trigger = Trigger::default();
        let old = trigger.begin(1_000 * MIB);
        trigger.begin_anew();
        trigger.end(old, 1_000 * MIB, true);
        assert_eq!(trigger.figures(), (0, 0, false));
    }
}
