//! Which batches of which origins were applied: each is applied once, however often it is in the
//! log.
//!
//! An origin is one life of a node's native library, which draws a random number and counts its
//! batches. It has few batches in flight, so that a floor (everything up to here was applied, or is
//! given up) and one word of bits above it are enough. A batch far above the floor moves the floor
//! up: what falls out of the window unapplied will never be applied.
//!
//! The state is a function of the log alone, and part of every snapshot.

use std::collections::BTreeMap;

/// Origins that are remembered. Beyond them, the one that has been silent for the longest time is
/// forgotten.
pub const ORIGINS_MAX: usize = 4_096;

/// The batches of one origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Every batch up to this one was applied or is given up.
    pub(crate) floor: u64,
    /// Bit `i`: batch `floor + 1 + i` was applied.
    pub(crate) window: u64,
    /// The time of its last batch.
    pub(crate) last_ms: u64,
}

/// The origins, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origins(BTreeMap<u64, Origin>);

impl Origins {
    /// Records a batch. False if it was applied before, or given up.
    pub(crate) fn admit(&mut self, origin: u64, sequence: u64, now_ms: u64) -> bool {
        if let Some(known) = self.0.get_mut(&origin) {
            known.last_ms = now_ms;
            return known.admit(sequence);
        }
        self.make_room();
        let mut new = Origin { last_ms: now_ms, ..Origin::default() };
        let admitted = new.admit(sequence);
        self.0.insert(origin, new);
        admitted
    }

    /// Whether a batch was applied, or is given up.
    pub(crate) fn contain(&self, origin: u64, sequence: u64) -> bool {
        self.0.get(&origin).is_some_and(|known| {
            let mut known = *known;
            !known.admit(sequence)
        })
    }

    /// The time of the log goes back to this one. Otherwise an origin that was silent since then
    /// would be remembered rather than one that goes on.
    pub(crate) fn set_back(&mut self, now_ms: u64) {
        self.0.values_mut().for_each(|known| known.last_ms = known.last_ms.min(now_ms));
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (u64, Origin)> {
        self.0.iter().map(|(&number, &origin)| (number, origin))
    }

    /// Forgets the origin that has been silent for the longest time, before another one comes, and
    /// only if there are many: the time of the log can jump with a clock, and a batch of an origin
    /// that is forgotten would be applied again if it was sent again.
    fn make_room(&mut self) {
        while self.0.len() >= ORIGINS_MAX {
            let oldest = self.0.iter().min_by_key(|(number, origin)| (origin.last_ms, **number));
            let Some((&number, _)) = oldest else { return };
            self.0.remove(&number);
        }
    }
}

impl FromIterator<(u64, Origin)> for Origins {
    fn from_iter<I: IntoIterator<Item = (u64, Origin)>>(origins: I) -> Origins {
        Origins(origins.into_iter().collect())
    }
}

impl Origin {
    fn admit(&mut self, sequence: u64) -> bool {
        if sequence <= self.floor {
            return false;
        }
        let above = sequence - self.floor - 1;
        let bit = match u32::try_from(above) {
            Ok(bit) if bit < u64::BITS => bit,
            _ => {
                let rise = above - u64::from(u64::BITS - 1);
                self.floor += rise;
                self.window = u32::try_from(rise)
                    .ok()
                    .and_then(|rise| self.window.checked_shr(rise))
                    .unwrap_or(0);
                u64::BITS - 1
            }
        };
        if self.window >> bit & 1 == 1 {
            return false;
        }
        self.window |= 1 << bit;
        let applied = self.window.trailing_ones();
        self.floor += u64::from(applied);
        self.window = self.window.checked_shr(applied).unwrap_or(0);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// The same as a set of all that was applied.
    #[derive(Default)]
    struct Model(BTreeMap<u64, BTreeSet<u64>>);

    impl Model {
        fn admit(&mut self, origin: u64, sequence: u64) -> bool {
            let applied = self.0.entry(origin).or_default();
            let highest = applied.last().copied().unwrap_or(0);
            sequence > highest.saturating_sub(64) && applied.insert(sequence)
        }
    }

    /// By which a clock may be set forward.
    const DAY_MS: u64 = 86_400_000;

    proptest! {
        #[test]
        fn each_batch_is_admitted_as_by_the_model(
            steps in vec((0..4_u64, 0..200_u64, 0..DAY_MS), 1..200),
        ) {
            let (mut origins, mut model, mut now_ms) = (Origins::default(), Model::default(), 0);
            for (origin, sequence, passed_ms) in steps {
                now_ms += passed_ms;
                // 0 is no batch's number.
                let expected = sequence > 0 && model.admit(origin, sequence);
                if sequence > 0 {
                    prop_assert_eq!(origins.admit(origin, sequence, now_ms), expected);
                }
            }
            let known: Vec<u64> = origins.0.keys().copied().collect();
            let expected: Vec<u64> = model.0.keys().copied().collect();
            prop_assert_eq!(known, expected);
        }

        #[test]
        fn sequences_may_begin_and_jump_anywhere(sequences in vec(any::<u64>(), 1..50)) {
            let (mut origins, mut model) = (Origins::default(), Model::default());
            for sequence in sequences.into_iter().flat_map(|it| [it, it.saturating_add(1), it]) {
                let expected = sequence > 0 && model.admit(1, sequence);
                prop_assert_eq!(origins.admit(1, sequence, 0), expected, "{}", sequence);
            }
        }
    }

    #[test]
    fn the_origins_that_go_on_are_remembered_after_the_time_went_back() {
        let mut origins = Origins::default();
        (0..ORIGINS_MAX as u64).for_each(|number| {
            assert!(origins.admit(number, 1, 365 * DAY_MS));
        });
        origins.set_back(DAY_MS);
        assert!(origins.admit(0, 2, DAY_MS + 1));
        assert!(origins.admit(u64::MAX, 1, DAY_MS + 2));
        assert!(origins.0.contains_key(&0) && !origins.0.contains_key(&1));
    }

    #[test]
    fn the_origin_that_was_silent_for_longest_makes_room() {
        let mut origins = Origins::default();
        (0..ORIGINS_MAX as u64).for_each(|number| {
            assert!(origins.admit(number, 1, 1_000 + number));
        });
        // Origin 0 goes on, so origin 1 is the oldest.
        assert!(origins.admit(0, 2, 6_000));
        assert!(origins.admit(u64::MAX, 1, 6_000));
        assert_eq!(origins.0.len(), ORIGINS_MAX);
        assert!(origins.0.contains_key(&0) && !origins.0.contains_key(&1));
        // However long the others have been silent, one is enough.
        assert!(origins.admit(u64::MAX - 1, 1, 6_000 + DAY_MS));
        assert_eq!(origins.0.len(), ORIGINS_MAX);
        assert!(!origins.0.contains_key(&2));
        assert!(!origins.admit(0, 2, 6_000 + DAY_MS));
    }
}
