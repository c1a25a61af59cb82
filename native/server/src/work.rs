//! Scripts and transactions take turns with the other clients of their loop.
//!
//! One script takes up to some twenty milliseconds, and so does one EXEC. If many clients send them
//! and each is served in the same round, the loop's other clients wait for all of them. So a loop
//! counts the time that they take in a round. When [`ROUND_NS`] are used up, the connections that
//! want to begin another are *paused*: they keep their requests, and continue in later rounds, in
//! the order in which they were paused, while all others have their turns in each round.
//!
//! # Two lanes
//!
//! A session says whether its request probably takes long. Those that do not, such as most
//! transactions and the scripts of rate limiters, have a lane of their own, with the same time, so
//! that they do not wait for those that do. A script that was wrongly taken for a short one closes
//! that lane for the round.
//!
//! # Slow connections
//!
//! Other requests are not asked about. KEYS and MGET run in slices, one in each turn, and a bulk
//! request of Kyoto Tycoon is one step. One turn is bounded, and those of many clients in one round
//! are not. So a connection whose last turn took long has its next one after all others, in a lane
//! with the same time. It does not need the place of the next paragraph: a turn that locks many
//! records is short beside those of scripts.
//!
//! # Several loops
//!
//! A script keeps the shards of its keys locked, and another loop whose client needs one of them
//! waits for the whole script. If two loops executed scripts on the same key, the clients of each
//! would wait for both. So the loops of a server share one place for long work ([`WorkPlace`]): a
//! loop that finds it taken serves its other clients, and gets a message when it is its turn.

use crate::clock::Clock;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Time for the work of each lane in a round. What begins before it is used up is completed.
const ROUND_NS: u64 = 2_000_000;

/// Work that took this time was long.
const LONG_NS: u64 = 500_000;

/// The kind of work that a session expects its request to be, or that a connection did before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Short,
    Long,
    /// The turns of connections whose last turn took long, whatever it was for.
    Slow,
}

const LANES: usize = Lane::Slow as usize + 1;

/// What a loop knows of its scripts and transactions.
#[derive(Debug)]
pub(crate) struct Work {
    event_loop: usize,
    /// By [`Lane`].
    lanes: [Waiting; LANES],
    /// Work for a short one took long in this round.
    was_deceived: bool,
    /// Another loop has the place for long work; a message will tell when it is free.
    is_blocked: bool,
    /// Whether this loop has asked for the place since it last gave it back.
    has_asked: bool,
    /// The present turn is that of a connection that was paused.
    is_resumed: bool,
    /// The present turn has begun some work.
    has_begun: bool,
    /// The lane in which the present turn must wait.
    refused: Option<Lane>,
    /// The work in progress: its lane, and the clock's reading when it began.
    running: Option<(Lane, u64)>,
    /// The time that work of the present turn has taken.
    worked_ns: u64,
}

/// One lane.
#[derive(Debug, Default)]
struct Waiting {
    /// The indices of paused connections, those that wait for longest first.
    paused: VecDeque<usize>,
    /// The time that work has taken in this round.
    spent_ns: u64,
}

impl Work {
    pub(crate) fn new(event_loop: usize) -> Work {
        Work {
            event_loop,
            lanes: Default::default(),
            was_deceived: false,
            is_blocked: false,
            has_asked: false,
            is_resumed: false,
            has_begun: false,
            refused: None,
            running: None,
            worked_ns: 0,
        }
    }

    pub(crate) fn begin_round(&mut self) {
        self.lanes.iter_mut().for_each(|lane| lane.spent_ns = 0);
        self.was_deceived = false;
    }

    /// Begins a turn; `is_resumed` if it is that of a connection from [`Work::next`].
    pub(crate) fn begin_turn(&mut self, is_resumed: bool) {
        (self.is_resumed, self.has_begun) = (is_resumed, false);
        (self.refused, self.running, self.worked_ns) = (None, None, 0);
    }

    /// Whether the present turn may begin this work now.
    pub(crate) fn begin(&mut self, lane: Lane, place: &WorkPlace, clock: &Clock) -> bool {
        let is_first = self.is_resumed || self.lanes[lane as usize].paused.is_empty();
        let may_begin = is_first && self.is_open(lane) && self.takes_place(lane, place);
        if may_begin {
            self.has_begun = true;
            self.running = Some((lane, clock.raw()));
        } else {
            self.refused = Some(lane);
        }
        may_begin
    }

    /// The work that was begun is done. Returns the loop that may go on now, if one waits.
    pub(crate) fn end(&mut self, place: &WorkPlace, clock: &Clock) -> Option<usize> {
        let (lane, began) = self.running.take()?;
        let taken_ns = clock.nanos(began, clock.raw());
        self.lanes[lane as usize].spent_ns += taken_ns;
        self.worked_ns += taken_ns;
        if lane == Lane::Short && taken_ns >= LONG_NS {
            self.lanes[Lane::Long as usize].spent_ns += taken_ns;
            self.was_deceived = true;
        }
        if lane == Lane::Long { self.give_back(place) } else { None }
    }

    /// Gives the place for long work back, if this loop has it. Returns the loop that has it now.
    pub(crate) fn give_back(&mut self, place: &WorkPlace) -> Option<usize> {
        if !self.has_asked || self.is_blocked {
            // A blocked loop keeps the place that it may just be getting: the message is on its
            // way.
            return None;
        }
        let given = place.give_back(self.event_loop)?;
        self.has_asked = false;
        given
    }

    /// The place for long work is this loop's.
    pub(crate) fn unblock(&mut self) {
        self.is_blocked = false;
    }

    /// The turn of a connection is over. Returns whether it took long beside the work of the other
    /// lanes. The time of one that was put off counts for its lane.
    pub(crate) fn end_turn(&mut self, turn_ns: u64, was_put_off: bool) -> bool {
        let taken_ns = turn_ns.saturating_sub(self.worked_ns);
        if was_put_off {
            self.lanes[Lane::Slow as usize].spent_ns += taken_ns;
        }
        taken_ns >= LONG_NS
    }

    /// Puts the turn of a slow connection off until all others had theirs.
    pub(crate) fn put_off(&mut self, index: usize) {
        self.lanes[Lane::Slow as usize].paused.push_back(index);
    }

    /// Pauses the connection of this index, whose turn was refused some work.
    pub(crate) fn pause(&mut self, index: usize) {
        let lane = self.refused.take().unwrap_or(Lane::Long);
        let paused = &mut self.lanes[lane as usize].paused;
        match self.is_resumed && !self.has_begun {
            true => paused.push_front(index),
            false => paused.push_back(index),
        }
    }

    /// The number of paused connections in a lane.
    pub(crate) fn paused(&self, lane: Lane) -> usize {
        self.lanes[lane as usize].paused.len()
    }

    /// Takes the index of the connection that is next in a lane, if it may begin some work.
    pub(crate) fn next(&mut self, lane: Lane) -> Option<usize> {
        if !self.is_open(lane) {
            return None;
        }
        self.lanes[lane as usize].paused.pop_front()
    }

    /// Whether paused connections can go on in the next round, or the place for long work is to be
    /// given back in it: the connection that asked for it may have been closed.
    pub(crate) fn has_next(&self) -> bool {
        let is_next = self.paused(Lane::Long) > 0 || self.has_asked;
        let is_due = [Lane::Short, Lane::Slow].iter().any(|lane| self.paused(*lane) > 0);
        is_due || is_next && !self.is_blocked
    }

    /// Whether work of this lane may begin in this round.
    fn is_open(&self, lane: Lane) -> bool {
        let is_shut = match lane {
            Lane::Short => self.was_deceived,
            Lane::Long => self.is_blocked,
            Lane::Slow => false,
        };
        !is_shut && self.lanes[lane as usize].spent_ns < ROUND_NS
    }

    fn takes_place(&mut self, lane: Lane, place: &WorkPlace) -> bool {
        if lane != Lane::Long {
            return true;
        }
        self.has_asked = true;
        self.is_blocked = !place.take(self.event_loop);
        !self.is_blocked
    }
}

/// The place for long work, which one loop of a server has at a time.
#[derive(Debug, Default)]
pub(crate) struct WorkPlace {
    state: Mutex<PlaceState>,
}

#[derive(Debug, Default)]
struct PlaceState {
    /// The loop that has it.
    owner: Option<usize>,
    /// The loops that wait for it. Empty if nobody has it.
    waiting: VecDeque<usize>,
}

impl WorkPlace {
    fn state(&self) -> MutexGuard<'_, PlaceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the place for this loop. If another one has it, the loop is noted: it will be returned
    /// from [`WorkPlace::give_back`] when the place is its own.
    fn take(&self, event_loop: usize) -> bool {
        let mut state = self.state();
        let owner = *state.owner.get_or_insert(event_loop);
        if owner != event_loop && !state.waiting.contains(&event_loop) {
            state.waiting.push_back(event_loop);
        }
        owner == event_loop
    }

    /// Gives the place to the loop that has waited for longest, and returns it. `None` if this loop
    /// does not have the place.
    fn give_back(&self, event_loop: usize) -> Option<Option<usize>> {
        let mut state = self.state();
        if state.owner != Some(event_loop) {
            return None;
        }
        state.owner = state.waiting.pop_front();
        Some(state.owner)
    }

    /// This loop ends. Returns the loop that has the place instead of it.
    pub(crate) fn leave(&self, event_loop: usize) -> Option<usize> {
        let mut state = self.state();
        state.waiting.retain(|waiting| *waiting != event_loop);
        drop(state);
        self.give_back(event_loop).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_have_the_place_in_the_order_in_which_they_asked() {
        let place = WorkPlace::default();
        assert!(place.take(0) && place.take(0));
        for _ in 0..2 {
            assert!(!place.take(2) && !place.take(1));
        }
        assert_eq!(place.give_back(1), None);
        assert_eq!(place.give_back(0), Some(Some(2)));
        assert!(!place.take(0) && place.take(2));
        assert_eq!(place.give_back(2), Some(Some(1)));
        assert_eq!(place.leave(0), None);
        assert_eq!(place.leave(1), None);
        assert!(place.take(3));
    }

    #[test]
    fn a_connection_that_was_refused_stays_first_until_it_has_begun() {
        let (place, clock) = (WorkPlace::default(), Clock::new());
        let mut work = Work::new(0);
        work.begin_round();
        assert!(place.take(1));
        for index in [10, 11] {
            work.begin_turn(false);
            assert!(!work.begin(Lane::Long, &place, &clock));
            work.pause(index);
        }
        assert!(!work.has_next() && work.next(Lane::Long).is_none());
        assert_eq!(place.give_back(1), Some(Some(0)));
        assert!(!place.take(2));
        // It knows that the place is its own when the message arrives.
        assert_eq!(work.give_back(&place), None);
        work.unblock();
        assert!(work.has_next());
        // A short one does not wait for them, a new long one does.
        work.begin_turn(false);
        assert!(work.begin(Lane::Short, &place, &clock));
        assert_eq!(work.end(&place, &clock), None);
        work.begin_turn(false);
        assert!(!work.begin(Lane::Long, &place, &clock));
        work.pause(12);
        assert_eq!(work.next(Lane::Long), Some(10));
        work.begin_turn(true);
        assert!(work.begin(Lane::Long, &place, &clock));
        assert_eq!(work.end(&place, &clock), Some(2));
        assert_eq!(place.give_back(2), Some(None));
        work.lanes[Lane::Long as usize].spent_ns = ROUND_NS;
        // Its next request waits behind the others.
        assert!(!work.begin(Lane::Long, &place, &clock));
        work.pause(10);
        assert_eq!(work.next(Lane::Long), None);
        work.begin_round();
        assert_eq!(work.next(Lane::Long), Some(11));
        work.begin_turn(true);
        work.lanes[Lane::Long as usize].spent_ns = ROUND_NS;
        assert!(!work.begin(Lane::Long, &place, &clock));
        work.pause(11);
        work.begin_round();
        let order: Vec<usize> = std::iter::from_fn(|| work.next(Lane::Long)).collect();
        assert_eq!(order, [11, 12, 10]);
    }

    /// Its loop must not sleep with the place: nobody is paused who would give it back.
    #[test]
    fn a_loop_whose_client_left_gives_the_place_back_in_the_next_round() {
        let (place, clock) = (WorkPlace::default(), Clock::new());
        let mut work = Work::new(0);
        work.begin_round();
        assert!(place.take(1));
        work.begin_turn(false);
        assert!(!work.begin(Lane::Long, &place, &clock) && !work.has_next());
        assert_eq!(place.give_back(1), Some(Some(0)));
        assert!(!place.take(2));
        work.unblock();
        assert!(work.has_next());
        assert_eq!(work.give_back(&place), Some(2));
        assert!(!work.has_next());
    }

    #[test]
    fn work_that_was_wrongly_taken_for_short_shuts_both_lanes_for_the_round() {
        let (place, clock) = (WorkPlace::default(), Clock::new());
        let mut work = Work::new(0);
        work.begin_round();
        work.begin_turn(false);
        assert!(work.begin(Lane::Short, &place, &clock));
        std::thread::sleep(std::time::Duration::from_nanos(ROUND_NS));
        work.end(&place, &clock);
        for lane in [Lane::Short, Lane::Long] {
            assert!(!work.begin(lane, &place, &clock), "{lane:?}");
        }
        work.begin_round();
        for lane in [Lane::Short, Lane::Long] {
            assert!(work.begin(lane, &place, &clock), "{lane:?}");
        }
    }
}
