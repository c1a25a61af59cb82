//! What must hold at the end of a run.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use todana_command::Status;
use todana_group::record::format_of;
use todana_group::{Applied, Gate, Group, Outcome, Submission, Submit, Ticket};

use crate::played::{Outcomes, Played, play};
use crate::work::{KEYS, Op, Watched};
use crate::world::{ALL, Entry, Fate, Part, World, header_of, new_group};

/// All checks.
pub(crate) fn check(world: &World) {
    world.check_markers(world.group());
    let digest = digest_of(world.group());
    check_snapshot(world, digest);
    check_digests(world);
    let replies = check_replicas(world, digest);
    check_fates(world, &replies);
    check_watches(world, &replies);
    check_counter(world);
}

fn digest_of(group: &Group) -> u64 {
    group.digest().expect("between entries, without a snapshot")
}

/// Each digest is that of a replica that has applied the same entries, though more were applied
/// while it was made.
fn check_digests(world: &World) {
    let Some(last) = world.digests.iter().map(|(index, _)| *index).max() else { return };
    let group = new_group(u64::MAX);
    for index in 0..=last {
        if index > 0 {
            apply(&group, &world.log[..index as usize], index as usize - 1);
        }
        for (_, digest) in world.digests.iter().filter(|(of, _)| *of == index) {
            assert_eq!(*digest, digest_of(&group), "the digest at {index}");
        }
    }
}

/// A snapshot and the entries behind it make the same state as all entries.
fn check_snapshot(world: &World, digest: u64) {
    let Some((index, path)) = &world.snapshot else { return };
    let group = new_group(u64::MAX);
    group.restore(path, 1).expect("a whole snapshot");
    apply(&group, &world.log, *index as usize);
    assert_eq!(digest_of(&group), digest, "the snapshot at {index} and the tail differ");
}

/// Each life of the node once more, from the beginning, with all its own batches: the same state,
/// and the replies to everything that was applied.
fn check_replicas(world: &World, digest: u64) -> HashMap<u64, Vec<Played>> {
    let mut replies = HashMap::new();
    for incarnation in 1..=world.crashes + 1 {
        let group = new_group(incarnation);
        let outcomes = Outcomes::new();
        group.set_gate(Gate::Open, "");
        for sequence in 1.. {
            let Some(parts) = world.history.get(&(incarnation, sequence)) else { break };
            let mut submissions =
                (0..).zip(parts).map(|(at, part)| submission(world, at, part, &outcomes)).collect();
            group.submit(&mut submissions);
            let sealed = group.take(0).expect("it was submitted");
            assert_eq!((sealed.sequence, group.take(0)), (sequence, None));
        }
        apply(&group, &world.log, 0);
        assert_eq!(digest_of(&group), digest, "a replica of life {incarnation} differs");
        for (number, outcome) in outcomes.take() {
            if let Outcome::Applied(tape) = outcome {
                replies.insert(number, play(tape));
            }
        }
    }
    replies
}

fn submission(world: &World, at: u32, part: &Part, outcomes: &Arc<Outcomes>) -> Submission {
    let (number, records, count) = match part {
        Part::Request(number) => {
            let (request, _) = &world.requests[number];
            (*number, request.records.clone(), request.ops.len())
        }
        Part::Own(records) => (0, records.clone(), 1),
    };
    let ticket = Ticket { place: (0, at), number };
    let format = format_of(&records);
    Submission { records, count, format, units: 0, ticket, deliver: outcomes.clone() }
}

fn apply(group: &Group, log: &[Entry], from: usize) {
    for (place, Entry { bytes, time_ms }) in log.iter().enumerate().skip(from) {
        let applied = group.apply(bytes, 0, place as u64 + 1, *time_ms, ALL);
        assert!(matches!(applied, Applied::Done { .. }), "{applied:?}");
    }
}

/// A client that was answered got the replies that every replica makes; a request that was dropped
/// was applied by none.
fn check_fates(world: &World, replies: &HashMap<u64, Vec<Played>>) {
    for (number, (request, fate)) in &world.requests {
        match fate {
            Fate::Applied(played) => {
                assert_eq!(Some(played), replies.get(number), "the replies to {request:?}");
            }
            Fate::Dropped => {
                assert!(!replies.contains_key(number), "dropped, and applied: {request:?}");
            }
            Fate::Unknown => {}
            Fate::Waiting => panic!("{request:?} has no outcome"),
        }
    }
}

/// Every increment that was acknowledged has its own result.
fn check_counter(world: &World) {
    let mut seen = HashSet::new();
    for (request, fate) in world.requests.values() {
        let Fate::Applied(played) = fate else { continue };
        for (op, played) in request.ops.iter().zip(played) {
            if let Op::Count = op {
                assert!(seen.insert(played.calls.clone()), "two increments, one result");
            }
        }
    }
}

/// A watched key, by the log.
#[derive(Clone, Copy, Default)]
struct Key {
    exists: bool,
    /// The entries that last changed it, created it, and cleared its database.
    changed: u64,
    created: u64,
    cleared: u64,
}

/// A transaction with watches ran if and only if its keys had not changed between the watch and its
/// place in the log.
fn check_watches(world: &World, replies: &HashMap<u64, Vec<Played>>) {
    let mut keys = [Key::default(); KEYS.len()];
    let mut applied = HashSet::new();
    let mut highest: HashMap<u64, u64> = HashMap::new();
    for (place, Entry { bytes, .. }) in world.log.iter().enumerate() {
        let index = place as u64 + 1;
        let (batch, _) = header_of(bytes);
        let highest = highest.entry(batch.0).or_default();
        if batch.1 + 64 <= *highest || !applied.insert(batch) {
            continue;
        }
        *highest = batch.1.max(*highest);
        for part in &world.history[&batch] {
            let Part::Request(number) = part else { continue };
            let (request, _) = &world.requests[number];
            for (op, played) in request.ops.iter().zip(&replies[number]) {
                step(&mut keys, index, op, played.status);
            }
        }
    }
}

fn step(keys: &mut [Key; KEYS.len()], index: u64, op: &Op, status: Status) {
    match op {
        Op::PutWatched { key } => put(&mut keys[*key], index),
        Op::DeleteWatched { key } if keys[*key].exists => {
            keys[*key] = Key { exists: false, changed: index, ..keys[*key] };
        }
        Op::ClearWatched => {
            for key in keys {
                let changed = if key.exists { index } else { key.changed };
                *key = Key { exists: false, changed, cleared: index, ..*key };
            }
        }
        Op::Exec { watches, key, .. } => {
            let holds = |it: &Watched| {
                let key = keys[it.key];
                match it.seen {
                    todana_command::LoggedSeen::Version(_) => key.changed <= it.at,
                    _ => !key.exists && key.created <= it.at,
                }
            };
            // A clear makes the watch of an absent key fail, though nothing was there.
            let may_fail = watches.iter().any(|it| keys[it.key].cleared > it.at);
            let expected = watches.iter().all(holds);
            match status {
                Status::Done => assert!(expected, "{op:?} ran at {index}, and must not"),
                _ => assert!(!expected || may_fail, "{op:?} did not run at {index}: {status:?}"),
            }
            if status == Status::Done {
                put(&mut keys[*key], index);
            }
        }
        _ => {}
    }
}

fn put(key: &mut Key, index: u64) {
    let created = if key.exists { key.created } else { index };
    *key = Key { exists: true, changed: index, created, ..*key };
}
