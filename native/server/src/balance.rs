//! Decides which loop serves which connections: as few loops as the load needs.
//!
//! A round costs a loop the same however few connections are ready, and a wake-up costs more than a
//! request. So connections gather on the first loops while these have time, and spread when a loop
//! is busy. The rules are a function of what the loops did since the last decision
//! ([`Policy::decide`]). Any loop that ends a round carries it out, at most once per [`WINDOW_NS`]:
//! there is no timer, and loops without work stay asleep.
//!
//! # Rules
//!
//! The *load* of a loop is its share of time outside the wait for sockets, in thousandths, smoothed
//! over about two windows.
//!
//! - **Spread.** A loop whose load is at least [`BUSY`], with two active connections or more, hands
//!   some of these to the first loop that has time, so that both have half of the sum. If all are
//!   about as busy, only the numbers of active connections are evened out. Long scripts and
//!   transactions delay the other clients of their loop, so a loop that has executed one counts as
//!   busy and evens out as well, and gets connections only if all others have executed one, too.
//! - **Gather.** If the loads of two loops are less than [`LIGHT`] together for [`LIGHT_NS`], and
//!   neither has executed long work for [`CALM_NS`], the later one hands all its connections to the
//!   earlier one. Between [`LIGHT`] and [`BUSY`] nothing changes. A load that comes and goes would
//!   send connections to and fro: each time that loops must spread soon after they have gathered,
//!   they wait twice as long the next time.
//! - **New connections** go to the first loop. While a loop is busy, they go to those that are not,
//!   first to that with the fewest connections.
//!
//! A connection that does more than the receiver may get stays where it is: moving it would only
//! move the problem.

use crate::clock::Clock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, TryLockError};

/// Minimum time between two decisions.
pub(crate) const WINDOW_NS: u64 = 100_000_000;
/// From this load on a loop hands over connections. Loads are thousandths.
pub(crate) const BUSY: u32 = 750;
/// Two loops whose loads are less than this together become one.
const LIGHT: u32 = 600;
/// How long that must last.
const LIGHT_NS: u64 = 1_000_000_000;
/// If loops become one and must spread within this time, it must last twice as long from then on.
const REGRET_NS: u64 = 10_000_000_000;
/// But no longer than this. It is forgotten after a time of this length without regret.
const LIGHT_NS_MAX: u64 = 60_000_000_000;
/// How long a loop that was to hand over everything is left alone.
const REST_NS: u64 = 10_000_000_000;
/// How long a loop counts as busy after long work.
const CALM_NS: u64 = 10_000_000_000;
/// Up to this load a loop has time for connections of others.
const FREE: u32 = BUSY / 2;
/// With a smaller difference of their loads, loops are equally busy.
const DIFFERENCE: u32 = 300;

/// What a loop did until now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    /// Nanoseconds outside the wait for sockets, since the start.
    pub(crate) busy_nanos: u64,
    /// Long scripts and transactions, since the start.
    pub(crate) long_works: u64,
    /// Connections now.
    pub(crate) connections: usize,
    /// Those that had a turn since the last decision.
    pub(crate) active: usize,
}

/// What a loop hands to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// At most `count` active connections, which together take at most this time in a window.
    Some { count: usize, budget_ns: u64 },
    /// All that can be moved.
    All,
}

/// A decision: a loop is to hand connections to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) share: Share,
}

/// The memory of earlier decisions.
#[derive(Debug)]
pub(crate) struct Policy {
    loops: Vec<Known>,
    /// The loop that could hand over all, and for how long that has been so.
    light: Option<(usize, u64)>,
    /// How long that must last.
    light_ns: u64,
    /// Time since a loop has handed over all.
    gathered_ns: u64,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy { loops: Vec::new(), light: None, light_ns: LIGHT_NS, gathered_ns: u64::MAX }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    busy_nanos: u64,
    long_works: u64,
    /// The load, or what it is expected to be after the last decision.
    load: u32,
    /// The load as it was measured.
    measured: u32,
    /// The load since the last decision, not smoothed.
    present: u32,
    /// How long it has not executed long work, up to [`CALM_NS`].
    calm_ns: u64,
    /// How long it is not asked again for everything: some of its connections could not move.
    rest_ns: u64,
    active: usize,
}

impl Known {
    fn is_calm(&self) -> bool {
        self.calm_ns >= CALM_NS
    }
}

impl Policy {
    /// The moves that follow from what the loops did in the time since the last decision.
    pub(crate) fn decide(&mut self, samples: &[Sample], elapsed_ns: u64) -> Vec<Move> {
        self.note(samples, elapsed_ns);
        self.gathered_ns = self.gathered_ns.saturating_add(elapsed_ns);
        let mut moves = Vec::new();
        for from in 0..samples.len() {
            moves.extend(self.spread(from));
        }
        if moves.is_empty() {
            moves.extend(self.gather(samples, elapsed_ns));
        } else {
            self.light = None;
            if self.gathered_ns < REGRET_NS {
                self.light_ns = (self.light_ns * 2).min(LIGHT_NS_MAX);
                self.gathered_ns = REGRET_NS;
            }
        }
        moves
    }

    /// The loads, by loop, for new connections.
    pub(crate) fn loads(&self) -> impl Iterator<Item = u32> + '_ {
        let load = |it: &Known| if it.is_calm() { it.measured } else { it.measured.max(BUSY) };
        self.loops.iter().map(load)
    }

    fn note(&mut self, samples: &[Sample], elapsed_ns: u64) {
        let elapsed_ns = elapsed_ns.max(1);
        let unknown = Known { calm_ns: CALM_NS, ..Known::default() };
        self.loops.resize(samples.len(), unknown);
        for (known, sample) in self.loops.iter_mut().zip(samples) {
            let busy_nanos = sample.busy_nanos.saturating_sub(known.busy_nanos).min(elapsed_ns);
            let smoothed = |load: u32| {
                let sum = u128::from(load) * u128::from(WINDOW_NS) + u128::from(busy_nanos) * 1_000;
                (sum / u128::from(WINDOW_NS + elapsed_ns)) as u32
            };
            known.present = (busy_nanos.saturating_mul(1_000) / elapsed_ns) as u32;
            (known.load, known.measured) = (smoothed(known.load), smoothed(known.measured));
            known.calm_ns = match sample.long_works == known.long_works {
                true => known.calm_ns.saturating_add(elapsed_ns).min(CALM_NS),
                false => 0,
            };
            known.rest_ns = known.rest_ns.saturating_sub(elapsed_ns);
            known.active = if busy_nanos == 0 { 0 } else { sample.active };
            (known.busy_nanos, known.long_works) = (sample.busy_nanos, sample.long_works);
        }
    }

    /// What a busy loop hands over.
    fn spread(&mut self, from: usize) -> Option<Move> {
        let of = self.loops[from];
        if of.load < BUSY && of.calm_ns > 0 || of.active < 2 {
            return None;
        }
        // Not to loops that delay their clients, if there are others.
        let is_other = |number: &usize| *number != from;
        let is_calm = |number: &usize| is_other(number) && self.loops[*number].is_calm();
        let any_calm = (0..self.loops.len()).any(|number| is_calm(&number));
        let others =
            || (0..self.loops.len()).filter(|it| if any_calm { is_calm(it) } else { is_other(it) });
        let free = others().find(|number| self.loops[*number].load <= FREE);
        let freest = free.or_else(|| others().min_by_key(|number| self.loops[*number].load))?;
        let load_of = |known: Known| known.load.max(known.present);
        let (load, other) = (load_of(of), load_of(self.loops[freest]));
        let difference = load.saturating_sub(other);
        if of.load >= BUSY && difference >= DIFFERENCE {
            let half = difference / 2;
            // The expected loads count until they are measured.
            for (number, load) in [(from, load - half), (freest, other + half)] {
                (self.loops[number].load, self.loops[number].present) = (load, load);
            }
            let budget_ns = u64::from(half) * (WINDOW_NS / 1_000);
            let share = Share::Some { count: of.active - 1, budget_ns };
            return Some(Move { from, to: freest, share });
        }
        let to = others().min_by_key(|number| self.loops[*number].active)?;
        let active = self.loops[to].active;
        if of.active < active + 2 || of.active * 4 <= active * 5 {
            return None;
        }
        let count = (of.active - active) / 2;
        self.loops[from].active -= count;
        self.loops[to].active += count;
        Some(Move { from, to, share: Share::Some { count, budget_ns: WINDOW_NS / 2 } })
    }

    /// The last loop that has nearly nothing to do hands over everything.
    fn gather(&mut self, samples: &[Sample], elapsed_ns: u64) -> Option<Move> {
        let found = (1..samples.len()).rev().find_map(|from| {
            let of = self.loops[from];
            if samples[from].connections == 0 || of.rest_ns > 0 || !of.is_calm() {
                return None;
            }
            let to = self.loops[..from]
                .iter()
                .position(|to| to.is_calm() && to.load + of.load < LIGHT)?;
            Some((from, to))
        });
        let Some((from, to)) = found else {
            self.light = None;
            return None;
        };
        let before_ns = self.light.filter(|(of, _)| *of == from).map_or(0, |(_, ns)| ns);
        let light_ns = before_ns.saturating_add(elapsed_ns);
        if self.gathered_ns >= LIGHT_NS_MAX {
            self.light_ns = LIGHT_NS;
        }
        if light_ns < self.light_ns {
            self.light = Some((from, light_ns));
            return None;
        }
        (self.light, self.gathered_ns) = (None, 0);
        self.loops[to].load += self.loops[from].load;
        (self.loops[from].load, self.loops[from].rest_ns) = (0, REST_NS);
        Some(Move { from, to, share: Share::All })
    }
}

/// The state of the decisions, which all loops of a server share.
#[derive(Debug)]
pub(crate) struct Balance {
    /// Whether connections gather and spread. If not, each loop gets as many.
    pub(crate) is_by_load: bool,
    /// The counter's reading at the last decision.
    decided_at: AtomicU64,
    /// The number of the present window.
    window: AtomicU32,
    policy: Mutex<Policy>,
    /// Each connection moves to the next loop after each of its turns.
    #[cfg(test)]
    pub(crate) moves_always: std::sync::atomic::AtomicBool,
}

impl Balance {
    pub(crate) fn new(is_by_load: bool) -> Balance {
        Balance {
            is_by_load,
            decided_at: Clock::new().raw().into(),
            window: 1.into(),
            policy: Mutex::default(),
            #[cfg(test)]
            moves_always: false.into(),
        }
    }

    /// The number of the present window. It wraps around.
    #[inline]
    pub(crate) fn window(&self) -> u32 {
        self.window.load(Relaxed)
    }

    /// Whether it is time for a decision.
    #[inline]
    pub(crate) fn is_due(&self, clock: &Clock, now: u64) -> bool {
        self.is_by_load && clock.nanos(self.decided_at.load(Relaxed), now) >= WINDOW_NS
    }

    /// Decides, unless another loop does so at this moment. `each_load` gets the load of each loop.
    pub(crate) fn decide(
        &self,
        clock: &Clock,
        now: u64,
        samples: impl FnOnce() -> Vec<Sample>,
        each_load: impl FnMut((usize, u32)),
    ) -> Vec<Move> {
        let mut policy = match self.policy.try_lock() {
            Ok(policy) => policy,
            Err(TryLockError::Poisoned(policy)) => policy.into_inner(),
            Err(TryLockError::WouldBlock) => return Vec::new(),
        };
        let elapsed_ns = clock.nanos(self.decided_at.load(Relaxed), now);
        if elapsed_ns < WINDOW_NS {
            return Vec::new();
        }
        let moves = policy.decide(&samples(), elapsed_ns);
        policy.loads().enumerate().for_each(each_load);
        self.decided_at.store(now, Relaxed);
        self.window.fetch_add(1, Relaxed);
        moves
    }
}

/// How much of a loop's time a connection takes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Activity {
    /// The window of its last turn; 0 if it had none on this loop.
    window: u32,
    spent_ns: u32,
    /// In the window before that.
    before_ns: u32,
}

impl Activity {
    /// Notes a turn. Returns whether it is the first one in this window.
    #[inline]
    pub(crate) fn note(&mut self, window: u32, nanos: u64) -> bool {
        let is_first = self.window != window;
        if is_first {
            (self.window, self.before_ns, self.spent_ns) = (window, self.spent_ns, 0);
        }
        self.spent_ns = self.spent_ns.saturating_add(nanos.min(u64::from(u32::MAX)) as u32);
        is_first
    }

    /// Whether the connection had a turn in this window.
    pub(crate) fn is_in(&self, window: u32) -> bool {
        self.window == window
    }

    /// The time that it takes in a window.
    pub(crate) fn nanos(&self) -> u64 {
        u64::from(self.spent_ns.max(self.before_ns))
    }

    /// The connection has moved to another loop.
    pub(crate) fn arrive(&mut self) {
        self.window = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loops whose connections take fixed parts of a loop's time.
    struct Model {
        policy: Policy,
        /// By loop: the load of each connection, in thousandths.
        loops: Vec<Vec<u64>>,
        samples: Vec<Sample>,
    }

    impl Model {
        fn new(loops: &[&[u64]]) -> Model {
            Model {
                policy: Policy::default(),
                loops: loops.iter().map(|of| of.to_vec()).collect(),
                samples: vec![Sample::default(); loops.len()],
            }
        }

        /// A window of this length, and what is decided at its end.
        fn decide(&mut self, ms: u64) -> Vec<Move> {
            for (sample, of) in self.samples.iter_mut().zip(&self.loops) {
                sample.busy_nanos += of.iter().sum::<u64>().min(1_000) * ms * 1_000;
                sample.connections = of.len();
                sample.active = of.iter().filter(|load| **load > 0).count();
            }
            self.policy.decide(&self.samples, ms * 1_000_000)
        }

        /// The same, and carries the decision out. Returns how many connections have moved.
        fn window(&mut self) -> usize {
            let moves = self.decide(100);
            let mut count = 0;
            for it in &moves {
                let (mut left, mut budget) = (usize::MAX, u64::MAX);
                if let Share::Some { count, budget_ns } = it.share {
                    (left, budget) = (count, budget_ns * 1_000 / WINDOW_NS);
                }
                let (mut moved, mut stays) = (Vec::new(), Vec::new());
                // A loop that has too much to do serves each connection less.
                let wanted = self.loops[it.from].iter().sum::<u64>().max(1_000);
                for load in std::mem::take(&mut self.loops[it.from]) {
                    let is_idle = load == 0 && it.share != Share::All;
                    let served = load * 1_000 / wanted;
                    if left == 0 || served > budget || is_idle {
                        stays.push(load);
                    } else {
                        (left, budget) = (left - 1, budget - served);
                        moved.push(load);
                    }
                }
                count += moved.len();
                self.loops[it.from] = stays;
                self.loops[it.to].extend(moved);
            }
            count
        }

        fn windows(&mut self, count: usize) -> usize {
            (0..count).map(|_| self.window()).sum()
        }

        fn counts(&self) -> Vec<usize> {
            self.loops.iter().map(Vec::len).collect()
        }
    }

    #[test]
    fn a_light_load_stays_on_one_loop() {
        let mut model = Model::new(&[&[70; 10], &[], &[]]);
        assert_eq!((model.windows(100), model.counts()), (0, vec![10, 0, 0]));
    }

    #[test]
    fn a_busy_loop_hands_half_of_its_load_to_one_that_has_time() {
        let mut model = Model::new(&[&[45; 20], &[], &[]]);
        assert_eq!(model.decide(100), []);
        assert_eq!(model.decide(100), []);
        let moves = model.decide(100);
        let share = Share::Some { count: 19, budget_ns: 45_000_000 };
        assert_eq!(moves, [Move { from: 0, to: 1, share }]);
        let mut model = Model::new(&[&[45; 20], &[], &[]]);
        model.windows(100);
        assert_eq!(model.counts(), [10, 10, 0]);
    }

    #[test]
    fn a_saturated_loop_hands_over_in_the_second_window() {
        let mut model = Model::new(&[&[100; 64], &[], &[], &[]]);
        assert_eq!((model.window(), model.window()), (0, 33));
        model.windows(20);
        let counts = model.counts();
        assert!(counts.iter().all(|count| (11..=22).contains(count)), "{counts:?}");
        assert_eq!(model.windows(100), 0);
    }

    #[test]
    fn a_connection_that_is_alone_or_too_heavy_stays() {
        let mut model = Model::new(&[&[1_000], &[]]);
        assert_eq!(model.windows(100), 0);
        let mut model = Model::new(&[&[800, 20, 20, 20, 0], &[]]);
        assert!(model.windows(100) < 10);
        assert_eq!(model.loops[0], [800, 0]);
        assert_eq!(model.windows(100), 0);
    }

    #[test]
    fn light_loops_become_one_after_a_second() {
        let mut model = Model::new(&[&[20; 10], &[30; 10], &[0; 5]]);
        assert_eq!(model.windows(9), 0);
        assert_eq!((model.window(), model.counts()), (5, vec![15, 10, 0]));
        assert_eq!(model.windows(9), 0);
        assert_eq!((model.window(), model.counts()), (10, vec![25, 0, 0]));
        assert_eq!(model.windows(100), 0);
    }

    #[test]
    fn nothing_changes_between_the_two_marks() {
        let mut model = Model::new(&[&[35; 10], &[30; 10]]);
        assert_eq!(model.windows(100), 0);
        // A busier moment begins the second anew.
        model.loops = vec![vec![20; 10], vec![20; 10]];
        assert_eq!(model.windows(9), 0);
        model.loops[0] = vec![70; 10];
        assert_eq!(model.windows(2), 0);
        model.loops[0] = vec![20; 10];
        assert_eq!(model.windows(9), 0);
        assert!(model.windows(10) == 10 && model.counts() == [20, 0]);
    }

    #[test]
    fn rare_rounds_decide_as_well() {
        let mut model = Model::new(&[&[1; 5], &[0; 5]]);
        let moves = model.decide(1_000);
        assert_eq!(moves, [Move { from: 1, to: 0, share: Share::All }]);
    }

    #[test]
    fn long_work_spreads_connections_and_keeps_them_apart() {
        let mut model = Model::new(&[&[10; 10], &[]]);
        model.window();
        model.samples[0].long_works += 1;
        assert_eq!((model.window(), model.counts()), (5, vec![5, 5]));
        assert!(model.policy.loads().next() >= Some(BUSY));
        assert_eq!((model.windows(99), model.counts()), (0, vec![5, 5]));
        assert_eq!((model.windows(20), model.counts()), (5, vec![10, 0]));
    }

    #[test]
    fn a_loop_whose_connections_cannot_move_holds_up_no_other() {
        let mut model = Model::new(&[&[10; 5], &[10; 2], &[0; 5]]);
        let all_of = |from| Move { from, to: 0, share: Share::All };
        // Nobody carries the decisions out.
        let asked = |model: &mut Model| -> Vec<(usize, Vec<Move>)> {
            let decisions = (0..100).map(|window| (window, model.decide(100)));
            decisions.filter(|(_, moves)| !moves.is_empty()).collect()
        };
        let expected = vec![(9, vec![all_of(2)]), (19, vec![all_of(1)])];
        assert_eq!(asked(&mut model), expected);
        assert_eq!(asked(&mut model), [(18, vec![all_of(2)]), (28, vec![all_of(1)])]);
    }

    #[test]
    fn a_loop_whose_connections_cannot_move_counts_as_busy() {
        let mut model = Model::new(&[&[100; 64], &[], &[]]);
        for window in 0..50 {
            // Nobody carries the decisions out.
            model.decide(100);
            let loads: Vec<u32> = model.policy.loads().collect();
            assert!(window < 2 || loads[0] >= BUSY && loads[1..] == [0, 0], "{window}: {loads:?}");
        }
    }

    #[test]
    fn a_loop_with_long_work_gets_no_connections_of_others() {
        let mut model = Model::new(&[&[45; 20], &[30; 10], &[40; 10]]);
        model.samples[1].long_works += 1;
        model.window();
        model.windows(10);
        assert!(model.loops[1].len() <= 10 && model.loops[2].len() > 10, "{:?}", model.counts());
    }

    #[test]
    fn a_load_that_comes_and_goes_moves_less_and_less() {
        let mut model = Model::new(&[&[], &[], &[], &[]]);
        model.loops[0] = vec![0; 300];
        let mut moves = Vec::new();
        for _ in 0..10 {
            let mut count = 0;
            // Two seconds of load, and two without.
            for load in [10, 0] {
                model.loops.iter_mut().flatten().for_each(|it| *it = load);
                count += model.windows(20);
            }
            moves.push(count);
        }
        assert!(moves[0] > 0 && moves[4..].iter().all(|count| *count == 0), "{moves:?}");
        // After an hour without load, they gather again.
        model.windows(36_000);
        assert_eq!(model.counts(), [300, 0, 0, 0]);
    }

    #[test]
    fn a_steady_load_comes_to_rest() {
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for case in 0..500 {
            let count = 1 + random(8) as usize;
            let most = [5, 40, 300, 900][random(4) as usize];
            let mut model = Model::new(&vec![&[] as &[u64]; count]);
            for _ in 0..random(100) {
                let at = random(count as u64) as usize;
                let load = random(most);
                model.loops[at].push(load);
            }
            let total: u64 = model.loops.iter().flatten().sum();
            let heaviest = model.loops.iter().flatten().max().copied().unwrap_or(0);
            model.windows(300);
            let moves = model.windows(100);
            // Heavy connections that do not fit go around, slowly.
            let fits = heaviest <= 300 && total <= count as u64 * 600;
            assert!(moves <= if fits { 0 } else { 100 }, "case {case}: {moves}, {:?}", model.loops);
            let busiest = model.loops.iter().map(|of| of.iter().sum::<u64>()).max();
            assert!(!fits || busiest < Some(1_000), "case {case}: {:?}", model.loops);
            assert_eq!(model.loops.iter().flatten().sum::<u64>(), total);
        }
    }
}
