//! Times in memcached's form.

use todana_command::Expires;

/// 30 days in seconds: up to here a time is relative, beyond it counts from the Unix epoch.
const RELATIVE_S_MAX: i64 = 60 * 60 * 24 * 30;

/// Most by which the clocks of two event loops differ.
const CLOCKS_APART_MS: u64 = 20;

/// The expiry that a client's number sets: 0 is never, a negative number is in the past.
pub(super) fn expires(exptime_s: i64, now_ms: u64) -> Expires {
    match exptime_s {
        0 => Expires::Never,
        1..=RELATIVE_S_MAX => Expires::After(milliseconds(exptime_s)),
        _ => Expires::At(moment_ms(exptime_s, now_ms)),
    }
}

/// The moment of a client's number, in milliseconds since the Unix epoch.
pub(super) fn moment_ms(exptime_s: i64, now_ms: u64) -> u64 {
    match exptime_s {
        // The first millisecond of the epoch, the earliest moment there is.
        ..0 => 1,
        0 => now_ms,
        1..=RELATIVE_S_MAX => now_ms.saturating_add(milliseconds(exptime_s)),
        _ => milliseconds(exptime_s),
    }
}

/// Seconds left to live as `t` and `me` report them; -1 is for ever. Fractions are rounded up,
/// except for the first 20 ms of a second: event loops read the clock once in each turn, so a loop
/// may be some milliseconds behind the one that stored the record, and would report one second more
/// than the client set.
pub(super) fn left_s(expires_at_ms: Option<u64>, now_ms: u64) -> i64 {
    match expires_at_ms {
        None => -1,
        Some(at_ms) => {
            let left_ms = at_ms.saturating_sub(now_ms);
            let begun = u64::from(left_ms % 1000 > CLOCKS_APART_MS || (1..1000).contains(&left_ms));
            i64::try_from(left_ms / 1000 + begun).unwrap_or(i64::MAX)
        }
    }
}

fn milliseconds(seconds: i64) -> u64 {
    u64::try_from(seconds).unwrap_or(0).saturating_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: u64 = 1_700_000_000_500;

    #[test]
    fn thirty_days_are_relative_and_more_is_absolute() {
        assert_eq!(expires(0, NOW_MS), Expires::Never);
        assert_eq!(expires(1, NOW_MS), Expires::After(1000));
        assert_eq!(expires(2_592_000, NOW_MS), Expires::After(2_592_000_000));
        assert_eq!(expires(2_592_001, NOW_MS), Expires::At(2_592_001_000));
        assert_eq!(expires(1_800_000_000, NOW_MS), Expires::At(1_800_000_000_000));
    }

    #[test]
    fn extremes_neither_wrap_nor_panic() {
        assert_eq!(expires(-1, NOW_MS), Expires::At(1));
        assert_eq!(expires(i64::MIN, NOW_MS), Expires::At(1));
        assert_eq!(expires(i64::MAX, NOW_MS), Expires::At(u64::MAX));
        assert_eq!(moment_ms(5, u64::MAX), u64::MAX);
    }

    #[test]
    fn begun_seconds_count_as_left() {
        assert_eq!(left_s(None, NOW_MS), -1);
        assert_eq!(left_s(Some(NOW_MS + 30_000), NOW_MS), 30);
        assert_eq!(left_s(Some(NOW_MS + 29_021), NOW_MS), 30);
        assert_eq!(left_s(Some(NOW_MS + 30_020), NOW_MS), 30);
        assert_eq!(left_s(Some(NOW_MS + 1), NOW_MS), 1);
        assert_eq!(left_s(Some(NOW_MS), NOW_MS), 0);
        assert_eq!(left_s(Some(1), NOW_MS), 0);
        assert_eq!(left_s(Some(u64::MAX), 0), 18_446_744_073_709_552);
    }
}
