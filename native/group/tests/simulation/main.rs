//! The whole path of a write in one thread, from a seed: sessions, queue, batcher, a log that loses
//! and doubles entries, apply, snapshots, crashes and restarts at any step.
//!
//! At each restart and at the end: every acknowledged write is there and none is there twice; what
//! was dropped never happened; replicas that apply the log from its beginning, or from a snapshot,
//! have the same digest and the same replies; watches decide exactly.
//!
//! ```text
//! TODANA_SIMULATION_SEEDS=100000 cargo test -p todana_group --test simulation
//! TODANA_SIMULATION_SEED=1234    only this one
//! ```

mod checks;
mod dice;
mod played;
mod work;
mod world;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use parking_lot::Mutex;

use crate::dice::Dice;
use crate::world::World;

const SEEDS_DEFAULT: u64 = 10_000;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

/// How often something happened in all runs.
#[derive(Default)]
struct Totals(Mutex<BTreeMap<&'static str, u64>>);

fn run(seed: u64, totals: &Totals) {
    let mut world = World::new(seed);
    let steps = 80 + Dice::new(!seed).below(320);
    (0..steps).for_each(|_| world.step());
    world.settle();
    checks::check(&world);
    let mut totals = totals.0.lock();
    for (what, count) in world.counts() {
        *totals.entry(what).or_default() += count;
    }
}

#[test]
fn nothing_is_lost_or_done_twice() {
    let totals = Totals::default();
    if let Some(seed) = number("TODANA_SIMULATION_SEED") {
        return run(seed, &totals);
    }
    let seeds = number("TODANA_SIMULATION_SEEDS").unwrap_or(SEEDS_DEFAULT);
    let (next, failed) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
    let worker = || {
        loop {
            let seed = next.fetch_add(1, SeqCst);
            if seed >= seeds {
                return;
            }
            if catch_unwind(AssertUnwindSafe(|| run(seed, &totals))).is_err() {
                eprintln!("simulation: seed {seed} failed: TODANA_SIMULATION_SEED={seed}");
                failed.fetch_min(seed, SeqCst);
                next.store(seeds, SeqCst);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(worker))));
    assert_eq!(failed.into_inner(), u64::MAX, "the seed of a run that failed");
    let totals = totals.0.into_inner();
    println!("simulation: {seeds} seeds; {totals:?}");
    assert!(totals.values().all(|&count| count * 10 >= seeds), "too little happened: {totals:?}");
}
