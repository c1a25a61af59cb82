//! The clock of a group: what the time of the log is now, as far as this node knows.
//!
//! The log's time is that of its last entry. Between entries it goes on with the monotonic clock of
//! each node, so that nobody's wall clock decides what has expired. Readers hide records by this
//! *estimate*, and a batch carries it when it is taken for the log:
//!
//! ```text
//!  estimate = the larger of  monotonic clock + offset  and  floor
//!
//!  an entry with a later time    floor = its time; moves the offset forward if that is much later
//!  a correction forward          the same, by at most 5 % of the time that has passed
//!  a correction back             floor = estimate, then the offset goes back, by at most 50 %: the
//!                                estimate stands still until the clock has caught up
//! ```
//!
//! So the estimate never goes back by itself. Only an operator sets it back, by the log; each time
//! begins a new *era*, and estimates of an earlier one count for nothing. A reader needs no lock.
//! The leader decides how far the time is from the true one; the other members follow it.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::time::Instant;

use parking_lot::Mutex;

/// A clock that is late gains one millisecond in this number of them.
const LATE_SHARE: u64 = 20;

/// A clock that is early loses one millisecond in this number of them.
const EARLY_SHARE: u64 = 2;

/// A leader's estimate may be older than this if the node is busy, but seldom.
const DELAY_MS_MAX: u64 = 1_000;

/// The offset of a clock that nobody has set.
const UNSET: u64 = u64::MAX;

/// A time of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The number of times that an operator has set the time. Stamps of different eras are not
    /// compared.
    pub era: u64,
    /// Milliseconds since the Unix epoch.
    pub ms: u64,
}

/// The clock of a group. It is unset until [`Clock::begin`] or [`Clock::follow`].
pub struct Clock {
    /// The monotonic clock, in milliseconds.
    monotonic_ms: Box<dyn Fn() -> u64 + Send + Sync>,
    /// Added to the monotonic clock, modulo 2^64. Stored after the floor.
    offset: AtomicU64,
    /// The estimate is not earlier than this.
    floor_ms: AtomicU64,
    correction: Mutex<Correction>,
}

#[derive(Default)]
struct Correction {
    era: u64,
    /// By how much the clock is early, or late if negative.
    early_ms: i64,
    /// Until when it was corrected, by the monotonic clock.
    done_ms: u64,
}

impl Default for Clock {
    fn default() -> Clock {
        let began = Instant::now();
        let elapsed_ms = move || began.elapsed().as_millis() as u64;
        Clock::new(elapsed_ms)
    }
}

impl Clock {
    /// A clock by this monotonic clock.
    pub fn new(monotonic_ms: impl Fn() -> u64 + Send + Sync + 'static) -> Clock {
        Clock {
            monotonic_ms: Box::new(monotonic_ms),
            offset: AtomicU64::new(UNSET),
            floor_ms: AtomicU64::new(0),
            correction: Mutex::default(),
        }
    }

    /// The estimate; `None` while the clock is unset.
    #[inline]
    pub fn now_ms(&self) -> Option<u64> {
        self.at((self.monotonic_ms)())
    }

    /// The estimate at a reading of the same monotonic clock.
    #[inline]
    pub fn at(&self, monotonic_ms: u64) -> Option<u64> {
        let offset = self.offset.load(Acquire);
        let floor_ms = self.floor_ms.load(Relaxed);
        (offset != UNSET).then(|| monotonic_ms.wrapping_add(offset).max(floor_ms))
    }

    /// The time for a batch, and its era: the estimate, so that a write finds expired what a read
    /// before it has found expired. A clock that was much ahead of the leader's gives the leader's
    /// time instead: its own must not get into the log.
    pub fn stamp(&self) -> Option<Stamp> {
        let Correction { era, .. } = *self.correction.lock();
        let monotonic_ms = (self.monotonic_ms)();
        let now_ms = self.at(monotonic_ms)?;
        let running_ms = self.running_ms(monotonic_ms);
        let is_near = now_ms.saturating_sub(running_ms) <= DELAY_MS_MAX;
        Some(Stamp { era, ms: if is_near { now_ms } else { running_ms } })
    }

    /// The time by which clocks are compared, and its era: that of the leader, also while this
    /// clock stands still.
    pub fn running(&self) -> Option<Stamp> {
        let Correction { era, .. } = *self.correction.lock();
        self.now_ms()?;
        Some(Stamp { era, ms: self.running_ms((self.monotonic_ms)()) })
    }

    /// The time without the floor.
    fn running_ms(&self, monotonic_ms: u64) -> u64 {
        monotonic_ms.wrapping_add(self.offset.load(Relaxed))
    }

    /// By how much the clock is early, as far as is known; late if negative.
    pub fn early_ms(&self) -> i64 {
        self.correction.lock().early_ms
    }

    /// Sets a clock that is unset, but not to a time before that of the log.
    pub fn begin(&self, now_ms: u64, log: Stamp) {
        let mut correction = self.correction.lock();
        if self.offset.load(Relaxed) == UNSET {
            *correction = Correction { era: log.era, ..Correction::default() };
            self.set(now_ms.max(log.ms), (self.monotonic_ms)());
        }
    }

    /// Forgets the time: for another group, or for one that goes on without its last entries.
    pub fn unset(&self) {
        let mut correction = self.correction.lock();
        *correction = Correction::default();
        self.offset.store(UNSET, Release);
    }

    /// The log has reached this time. A clock that is unset stays so.
    pub(crate) fn meet(&self, log: Stamp) {
        let mut correction = self.correction.lock();
        let monotonic_ms = (self.monotonic_ms)();
        let Some(now_ms) = self.at(monotonic_ms) else { return };
        if log.era > correction.era {
            *correction = Correction { era: log.era, ..Correction::default() };
            self.set(log.ms, monotonic_ms);
        } else if log.era == correction.era && log.ms > now_ms {
            if log.ms.saturating_sub(self.running_ms(monotonic_ms)) <= DELAY_MS_MAX {
                // The member that wrote it may be corrected at other moments than this one: if
                // each moved the others' clocks on, none would ever stand still.
                self.floor_ms.store(log.ms, Relaxed);
                return;
            }
            let gained = (log.ms - now_ms).cast_signed();
            correction.early_ms = correction.early_ms.saturating_add(gained);
            self.set(log.ms, monotonic_ms);
        }
    }

    /// The leader's estimate, some time ago, and by how much it is early. A clock that is ahead of
    /// it by more than a message takes goes on from there, and stands still until it is reached.
    pub fn follow(&self, leader: Stamp, early_ms: i64) {
        let mut correction = self.correction.lock();
        if leader.era < correction.era {
            return;
        }
        let monotonic_ms = (self.monotonic_ms)();
        match self.at(monotonic_ms).filter(|_| leader.era == correction.era) {
            Some(now_ms) if now_ms > leader.ms => {
                let running_ms = self.running_ms(monotonic_ms);
                if running_ms > leader.ms.saturating_add(DELAY_MS_MAX) || running_ms < leader.ms {
                    self.hold(now_ms, leader.ms, monotonic_ms);
                }
            }
            _ => self.set(leader.ms, monotonic_ms),
        }
        (correction.era, correction.early_ms) = (leader.era, early_ms);
    }

    /// Notes by how much the clock is early.
    pub fn note_early(&self, early_ms: i64) {
        self.correction.lock().early_ms = early_ms;
    }

    /// Corrects the clock for the time since the last call. Returns whether it is wrong still.
    pub fn correct(&self) -> bool {
        let mut correction = self.correction.lock();
        let monotonic_ms = (self.monotonic_ms)();
        let elapsed_ms = monotonic_ms.saturating_sub(correction.done_ms);
        correction.done_ms = monotonic_ms;
        let Some(now_ms) = self.at(monotonic_ms) else { return false };
        let early_ms = correction.early_ms;
        let share = if early_ms > 0 { EARLY_SHARE } else { LATE_SHARE };
        // Not more than a second: nobody may have called for a long time.
        let step_ms = (elapsed_ms.min(1_000) / share).min(early_ms.unsigned_abs());
        let running_ms = self.running_ms(monotonic_ms);
        if early_ms > 0 {
            self.hold(now_ms, running_ms.saturating_sub(step_ms), monotonic_ms);
            correction.early_ms -= step_ms.cast_signed();
        } else if early_ms < 0 {
            self.run_from(running_ms + step_ms, monotonic_ms);
            correction.early_ms += step_ms.cast_signed();
        }
        correction.early_ms != 0
    }

    /// Sets the estimate at this reading of the monotonic clock.
    ///
    /// Here and below it is the reading by which the present estimate was taken: with a later one
    /// the clock would lose the time between the two, and go back.
    fn set(&self, now_ms: u64, monotonic_ms: u64) {
        self.run_from(now_ms, monotonic_ms);
        if self.floor_ms.load(Relaxed) > now_ms {
            self.floor_ms.store(0, Relaxed);
        }
    }

    /// Lets the clock run from this time, whatever the floor is.
    fn run_from(&self, ms: u64, monotonic_ms: u64) {
        let offset = ms.wrapping_sub(monotonic_ms);
        self.offset.store(if offset == UNSET { 0 } else { offset }, Release);
    }

    /// Lets the clock run from an earlier time, and stand still until it has reached `now_ms`.
    fn hold(&self, now_ms: u64, from_ms: u64, monotonic_ms: u64) {
        self.floor_ms.store(now_ms, Relaxed);
        self.run_from(from_ms, monotonic_ms);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, OnceLock};

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const START_MS: u64 = 1_700_000_000_000;
    const HOUR_MS: u64 = 3_600_000;

    /// A clock, and the monotonic clock under it.
    struct Fake(Arc<Clock>, Arc<AtomicU64>);

    impl Fake {
        fn unset() -> Fake {
            Fake::slow(0, |_| ())
        }

        /// On a machine where each reading of the monotonic clock takes this time, and where
        /// another thread reads the estimate meanwhile.
        fn slow(reading_ms: u64, see: impl Fn(Option<u64>) + Send + Sync + 'static) -> Fake {
            let monotonic = Arc::new(AtomicU64::new(5));
            let (read, other) = (Arc::clone(&monotonic), Arc::new(OnceLock::<Arc<Clock>>::new()));
            let reader = Arc::clone(&other);
            let clock = Arc::new(Clock::new(move || {
                let now_ms = read.fetch_add(reading_ms, Relaxed);
                see(reader.get().and_then(|clock| clock.at(now_ms)));
                now_ms
            }));
            other.set(Arc::clone(&clock)).unwrap_or_else(|_| panic!("set before"));
            Fake(clock, monotonic)
        }

        fn begun() -> Fake {
            let fake = Fake::unset();
            fake.0.begin(START_MS, Stamp::default());
            assert!(!fake.0.correct());
            fake
        }

        fn pass(&self, ms: u64) {
            self.1.fetch_add(ms, Relaxed);
        }

        fn now_ms(&self) -> u64 {
            self.0.now_ms().expect("set")
        }
    }

    #[test]
    fn it_begins_with_the_later_one_of_a_time_and_the_log() {
        let log = Stamp { era: 2, ms: START_MS + HOUR_MS };
        for (now_ms, begun_ms) in [(START_MS, log.ms), (log.ms + 7, log.ms + 7)] {
            let fake = Fake::unset();
            fake.0.meet(log);
            assert_eq!((fake.0.now_ms(), fake.0.stamp()), (None, None));
            fake.0.begin(now_ms, log);
            assert_eq!(fake.0.stamp(), Some(Stamp { era: 2, ms: begun_ms }));
            fake.0.begin(now_ms + HOUR_MS, log);
            assert_eq!(fake.now_ms(), begun_ms, "it is set already");
        }
    }

    #[test]
    fn it_goes_on_by_itself_and_forward_with_the_log() {
        let fake = Fake::begun();
        fake.pass(40);
        assert_eq!(fake.now_ms(), START_MS + 40);
        fake.0.meet(Stamp { era: 0, ms: START_MS });
        assert_eq!(fake.now_ms(), START_MS + 40);
        fake.0.meet(Stamp { era: 0, ms: START_MS + HOUR_MS });
        assert_eq!(fake.now_ms(), START_MS + HOUR_MS);
    }

    #[test]
    fn an_early_clock_loses_half_of_the_time_and_a_late_one_gains_a_twentieth() {
        let fake = Fake::begun();
        fake.0.note_early(1_000);
        for _ in 0..10 {
            fake.pass(100);
            assert!(fake.0.correct());
        }
        // It stands still for the last step, and a batch is not earlier than what readers see.
        assert_eq!((fake.now_ms(), fake.0.early_ms()), (START_MS + 550, 500));
        assert_eq!(fake.0.stamp(), Some(Stamp { era: 0, ms: START_MS + 550 }));
        assert_eq!(fake.0.running(), Some(Stamp { era: 0, ms: START_MS + 500 }));
        fake.pass(2_000);
        assert!(!fake.0.correct());
        fake.pass(500);
        assert_eq!(fake.now_ms(), START_MS + 2_500);
        fake.0.note_early(-80);
        fake.pass(500);
        assert!(fake.0.correct());
        assert_eq!((fake.now_ms(), fake.0.early_ms()), (START_MS + 3_050, -30));
    }

    #[test]
    fn early_clocks_lose_time_although_all_members_write() {
        let members = [Fake::begun(), Fake::begun()];
        members.iter().for_each(|member| member.0.note_early(2_000));
        for ms in 0..10_000 {
            members.iter().for_each(|member| member.pass(1));
            for (member, shift) in members.iter().zip([0, 50]) {
                if ms % 100 == shift {
                    member.0.correct();
                }
                let written = member.0.stamp().expect("set");
                members.iter().for_each(|other| other.0.meet(written));
            }
        }
        for member in &members {
            let passed_ms = member.now_ms() - START_MS;
            assert!((8_000..8_100).contains(&passed_ms), "{passed_ms}");
        }
    }

    #[test]
    fn a_follower_goes_forward_at_once_and_back_by_standing_still() {
        let fake = Fake::begun();
        fake.0.follow(Stamp { era: 0, ms: START_MS + HOUR_MS }, 7);
        assert_eq!((fake.now_ms(), fake.0.early_ms()), (START_MS + HOUR_MS, 7));
        fake.0.follow(Stamp { era: 0, ms: START_MS + HOUR_MS - DELAY_MS_MAX }, 7);
        fake.pass(1);
        assert_eq!(fake.now_ms(), START_MS + HOUR_MS + 1, "the message was late");
        fake.0.follow(Stamp { era: 0, ms: START_MS }, 0);
        fake.pass(HOUR_MS);
        assert_eq!(fake.now_ms(), START_MS + HOUR_MS + 1);
        fake.pass(2);
        assert_eq!(fake.now_ms(), START_MS + HOUR_MS + 2);
    }

    /// Whatever the leader says meanwhile, and however often the clock is corrected.
    #[test]
    fn a_follower_that_is_years_ahead_stands_still_until_the_leader_has_reached_it() {
        const AHEAD_MS: u64 = 10 * 365 * 24 * HOUR_MS;
        for early_ms in [0, 300, -300] {
            let fake = Fake::unset();
            fake.0.begin(START_MS + AHEAD_MS, Stamp::default());
            for second in 0..200 {
                let leader = Stamp { era: 0, ms: START_MS + second * 1_000 };
                for _ in 0..3 {
                    fake.0.follow(leader, early_ms);
                    fake.0.correct();
                    let stamp_ms = fake.0.stamp().expect("set").ms;
                    assert!(stamp_ms.abs_diff(leader.ms) <= 1_500, "{stamp_ms}, {leader:?}");
                }
                assert_eq!(fake.now_ms(), START_MS + AHEAD_MS);
                fake.pass(1_000);
            }
            fake.pass(AHEAD_MS);
            fake.0.correct();
            assert!(fake.now_ms() > START_MS + AHEAD_MS);
        }
    }

    #[test]
    fn only_a_later_era_sets_it_back() {
        let fake = Fake::begun();
        fake.0.note_early(9);
        fake.0.meet(Stamp { era: 1, ms: START_MS - HOUR_MS });
        assert_eq!((fake.now_ms(), fake.0.early_ms()), (START_MS - HOUR_MS, 0));
        fake.0.meet(Stamp { era: 0, ms: START_MS });
        fake.0.follow(Stamp { era: 0, ms: START_MS }, 3);
        assert_eq!((fake.now_ms(), fake.0.early_ms()), (START_MS - HOUR_MS, 0));
        fake.0.follow(Stamp { era: 2, ms: 1 }, 0);
        assert_eq!(fake.0.stamp(), Some(Stamp { era: 2, ms: 1 }));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Pass(u64),
        Meet(u64),
        Follow(u64, i64),
        Early(i64),
        Correct,
    }

    fn step() -> impl Strategy<Value = Step> {
        let ms = START_MS - 2 * HOUR_MS..START_MS + 2 * HOUR_MS;
        let early = -5_000..5_000_i64;
        prop_oneof![
            (0..3_000_u64).prop_map(Step::Pass),
            ms.clone().prop_map(Step::Meet),
            (ms, early.clone()).prop_map(|(ms, early)| Step::Follow(ms, early)),
            early.prop_map(Step::Early),
            Just(Step::Correct),
        ]
    }

    proptest! {
        #[test]
        fn it_never_goes_back_in_an_era(steps in vec(step(), 1..100), reading_ms in 0..4_u64) {
            let seen_ms = AtomicU64::new(0);
            let fake = Fake::slow(reading_ms, move |now_ms| {
                let now_ms = now_ms.unwrap_or(0);
                assert!(seen_ms.fetch_max(now_ms, Relaxed) <= now_ms);
            });
            fake.0.begin(START_MS, Stamp::default());
            let mut before_ms = fake.now_ms();
            for step in steps {
                let stamp = |ms| Stamp { era: 0, ms };
                match step {
                    Step::Pass(ms) => fake.pass(ms),
                    Step::Meet(ms) => {
                        fake.0.meet(stamp(ms));
                        prop_assert!(fake.now_ms() >= ms);
                    }
                    Step::Follow(ms, early_ms) => fake.0.follow(stamp(ms), early_ms),
                    Step::Early(ms) => fake.0.note_early(ms),
                    Step::Correct => drop(fake.0.correct()),
                }
                prop_assert!(fake.now_ms() >= before_ms);
                before_ms = fake.now_ms();
            }
        }
    }
}
