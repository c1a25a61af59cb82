//! What an entry stores beside its key and value.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What an entry stores beside key and value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// When the entry expires, in milliseconds since the Unix epoch; `None` is never.
    pub expires_at_ms: Option<u64>,
    /// The client's opaque flags (memcached).
    pub flags: u32,
    /// The [`Access`] word, if the entry keeps one (memcached's `h`, `l` and its stale and win
    /// marks).
    pub access: Option<Access>,
}

/// When and how an entry was read. Only entries whose protocol requested it keep this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Second of the last read, since the Unix epoch.
    pub last_s: u32,
    /// Whether it was fetched since it was stored.
    pub fetched: bool,
    /// Whether it is marked stale (memcached `md I`).
    pub stale: bool,
    /// Whether a client has been granted the right to recache it.
    pub won: bool,
}

const FETCHED: u64 = 1 << 32;
const STALE: u64 = 1 << 33;
const WON: u64 = 1 << 34;

impl Meta {
    /// Whether an entry with this metadata has no optional fields.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.expires_at_ms.is_none() && self.flags == 0 && self.access.is_none()
    }
}

impl Access {
    /// The word that an entry stores: seconds in the low half, marks above.
    pub(crate) fn to_word(self) -> u64 {
        let mark = |set: bool, bit: u64| if set { bit } else { 0 };
        u64::from(self.last_s)
            | mark(self.fetched, FETCHED)
            | mark(self.stale, STALE)
            | mark(self.won, WON)
    }

    pub(crate) fn from_word(word: u64) -> Access {
        Access {
            last_s: word as u32,
            fetched: word & FETCHED != 0,
            stale: word & STALE != 0,
            won: word & WON != 0,
        }
    }

    /// Records a read in a stored word, without changing the other marks.
    pub(crate) fn note(word: &AtomicU64, now_ms: u64) {
        let last_s = u64::from(u32::try_from(now_ms / 1_000).unwrap_or(u32::MAX));
        let marks = !u64::from(u32::MAX);
        // Readers record reads concurrently; a plain load and store could undo another reader's
        // mark.
        let noted = |old: u64| Some((old & marks) | last_s | FETCHED);
        let _ = word.fetch_update(Relaxed, Relaxed, noted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_keeps_every_field() {
        for bits in 0..8u32 {
            let access = Access {
                last_s: u32::MAX - bits,
                fetched: bits & 1 != 0,
                stale: bits & 2 != 0,
                won: bits & 4 != 0,
            };
            assert_eq!(Access::from_word(access.to_word()), access);
        }
    }

    #[test]
    fn noting_a_read_keeps_the_other_marks() {
        let before = Access { stale: true, won: true, ..Access::default() };
        let word = AtomicU64::new(before.to_word());
        Access::note(&word, 1_700_000_000_999);
        let after = Access::from_word(word.load(Relaxed));
        assert_eq!(after, Access { last_s: 1_700_000_000, fetched: true, ..before });
    }
}
