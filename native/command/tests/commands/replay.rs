//! A durable database is a function of its log: the same log makes the same records and the same
//! replies, whatever else the threads of a node do meanwhile, and whatever its clocks show.

use crate::recorder::Recorder;
use crate::tape::{Call, Collector};
use proptest::prelude::*;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use todana_command::testing::{Dice, KEYS};
use todana_command::{
    Access, Check, Command, Context, DATABASES, Databases, KeyCommand, NullReply, OptimisticCommit,
    Place, Player, Scratch, Set, Side, Status, StringCommand, Tape, Watch, Write,
    decode_transaction, encode_transaction, execute, execute_lease_read,
    execute_logged_transaction, look_up_state, watch,
};
use todana_table::{Options, Table};

/// Databases that the commands use; the others stay empty.
const USED: usize = 3;

/// A value that replies pass by a handle, and that is appended to in place.
static LARGE: [u8; 40_000] = [7; 40_000];

/// The log's times, and the expiries of the dice, are below.
const TIME_MAX_MS: u64 = 400;

/// A record of the log.
#[derive(Clone, Debug)]
enum Logged {
    Command(usize, Vec<u8>),
    Transaction(Vec<u8>),
    /// Removes what has expired in these shards of a table.
    Collect(usize, Range<usize>),
}

/// Records that were logged together, and their time.
#[derive(Clone, Debug)]
struct Entry {
    time_ms: u64,
    records: Vec<Logged>,
}

/// Databases as every replica makes them: the seeds decide which keys share a shard.
fn replica() -> Databases {
    let table = |number: usize| {
        let seed = Some(number as u64);
        let options = Options { shards: Some(8), durable: true, seed, ..Options::default() };
        Arc::new(Table::new(options))
    };
    Databases::new(std::array::from_fn(table))
}

fn context(now_ms: u64) -> Context {
    Context { now_ms, value_bytes_max: 100_000 }
}

/// Applies an entry, and returns the replies to its records.
fn apply(databases: &Databases, entry: &Entry) -> Tape {
    let (mut tape, context) = (Tape::new(), context(entry.time_ms));
    databases.tables().iter().for_each(|table| table.apply_due_clear(entry.time_ms));
    for record in &entry.records {
        let status = match record {
            Logged::Command(database, bytes) => {
                let mut scratch = Scratch::default();
                let (command, _) = Command::decode(bytes, &mut scratch).expect("a command");
                execute(databases, *database, &command, context, &mut tape);
                Status::Done
            }
            Logged::Transaction(bytes) => {
                let mut scratch = Vec::new();
                let transaction = decode_transaction(bytes, &mut scratch).expect("a transaction");
                let each = |tape: &mut Tape, _| tape.next_command();
                execute_logged_transaction(
                    Place::Database(databases, 0),
                    &transaction,
                    context,
                    &mut tape,
                    each,
                )
            }
            Logged::Collect(index, shards) => {
                databases.tables()[*index].collect(shards.clone(), entry.time_ms);
                Status::Done
            }
        };
        tape.end(status);
    }
    tape
}

/// The replies of a tape, without what local reads may change: when a record was read.
fn played(tape: Tape) -> Vec<(Status, Vec<Call>)> {
    let (mut player, mut all) = (Player::new(tape), Vec::new());
    let mut collector = Collector::new();
    let each = |it: &mut Collector, index| it.push(Call::Command(index));
    while let Some(status) = player.next_transaction(&mut collector, each) {
        let mut calls = collector.take();
        for call in &mut calls {
            if let Call::Lease(_, state) = call {
                (state.fetched_before, state.idle_s) = (false, 0);
            }
        }
        all.push((status, calls));
    }
    all
}

/// All that the log determines.
fn state(databases: &Databases) -> Vec<(u64, u64, usize)> {
    let numbers = databases.tables().iter().zip(0..DATABASES);
    numbers
        .map(|(table, number)| (table.digest(), table.version(), databases.index(number)))
        .collect()
}

/// A command that the log may have: a write, or a point read behind one.
fn command(dice: &mut Dice) -> Command<'static> {
    loop {
        let key = dice.key();
        match dice.below(12) {
            0 => return Command::String(StringCommand::Set(Set::new(key, &LARGE))),
            1 => {
                let (condition, expires) = (dice.any(), dice.any());
                let side = dice.one_of(&[Side::Append, Side::Prepend]);
                let bytes = &LARGE[..dice.below(20_000)];
                return Command::String(StringCommand::Concat {
                    key,
                    bytes,
                    side,
                    create: true,
                    condition,
                    expires,
                });
            }
            _ => {}
        }
        let command = dice.any_command();
        let is_memory = matches!(command, Command::Key(KeyCommand::MemoryUsage { .. }));
        if matches!(command.access(), Access::Read | Access::Write | Access::Lease) && !is_memory {
            return command;
        }
    }
}

/// A log as clients would make it: their watches and reads are those of a replica that applies the
/// log meanwhile, by clocks that are a little apart.
fn log(seed: u64) -> Vec<Entry> {
    let (databases, mut dice) = (replica(), Dice(seed));
    let (mut entries, mut watches, mut checks) = (Vec::new(), Vec::new(), Vec::new());
    let mut time_ms = 1;
    for _ in 0..dice.below(60) {
        let local_ms = time_ms + dice.below(20) as u64;
        let mut records = Vec::new();
        for _ in 0..1 + dice.below(6) {
            let database = dice.below(USED);
            match dice.below(10) {
                0 => watches.push(watch(&databases, database, dice.key(), local_ms)),
                1 => {
                    let (place, key) = (Place::Database(&databases, 0), dice.key());
                    let (_, state) = look_up_state(place, key, local_ms, |_| ());
                    checks.push(Check { key, state });
                }
                2 => records.extend(exec(&mut dice, &std::mem::take(&mut watches))),
                3 => records.push(optimistic_commit(&mut dice, &std::mem::take(&mut checks))),
                4 => {
                    let table = &databases.tables()[database];
                    let due = table.due_shards(local_ms, dice.below(8), 10);
                    records.extend(due.map(|shards| Logged::Collect(database, shards)));
                }
                _ => {
                    let mut bytes = Vec::new();
                    command(&mut dice).encode(&mut bytes);
                    records.push(Logged::Command(database, bytes));
                }
            }
        }
        let entry = Entry { time_ms, records };
        apply(&databases, &entry);
        entries.push(entry);
        time_ms += dice.below(25) as u64;
    }
    entries
}

/// EXEC; `None` if a watch has failed already.
fn exec(dice: &mut Dice, watches: &[Watch]) -> Option<Logged> {
    let watches: Option<Vec<_>> = watches.iter().map(Watch::logged).collect();
    let commands: Vec<_> = (0..dice.below(5)).map(|_| (dice.below(USED), command(dice))).collect();
    let mut bytes = Vec::new();
    encode_transaction(&mut bytes, &watches?, &commands);
    Some(Logged::Transaction(bytes))
}

/// A transaction of an Erlang process.
fn optimistic_commit(dice: &mut Dice, checks: &[Check<'_>]) -> Logged {
    let mut writes = Vec::new();
    for key in KEYS {
        if dice.bit() && writes.iter().all(|write: &Write<'_>| write.key != *key) {
            let put = dice.perhaps(|dice| (dice.key(), 7, dice.any()));
            writes.push(Write { key, put });
        }
    }
    let transaction = OptimisticCommit { checks, writes: &writes }.logged(0).expect("small");
    let mut bytes = Vec::new();
    encode_transaction(&mut bytes, &transaction.watches, &transaction.commands);
    Logged::Transaction(bytes)
}

/// What other threads of a node do, until the replica has applied the log: they read, watch, sweep
/// and take snapshots, with clocks of their own.
fn disturb(databases: &Databases, seed: u64, is_done: &AtomicBool) {
    let mut dice = Dice(seed);
    let mut watches: Vec<Watch> = Vec::new();
    while !is_done.load(Relaxed) {
        let now_ms = dice.below(2 * TIME_MAX_MS as usize) as u64;
        let (database, context) = (dice.below(DATABASES), context(now_ms));
        let command = dice.any_command();
        match command.access() {
            Access::Read | Access::Walk | Access::Sweep => {
                execute(databases, database, &command, context, &mut NullReply);
            }
            Access::Lease => {
                let reply = &mut Recorder::default();
                execute_lease_read(databases, database, &command, context, reply);
            }
            Access::Write => {}
        }
        let table = &databases.tables()[database];
        match dice.below(12) {
            0 => watches.push(watch(databases, database, dice.key(), now_ms)),
            1 => drop(watches.pop().map(|watch| watch.logged().is_some())),
            2 => drop(table.sweep(now_ms, 100)),
            3 => drop(table.snapshot()),
            4 => drop(table.due_shards(now_ms, 0, 10)),
            5 => {
                // Reads some of a snapshot while the log goes on.
                let mut snapshot = table.snapshot();
                let part = |it: &mut todana_table::Snapshot<'_>| it.next_part(10, |_| {});
                let _ = snapshot.as_mut().map(part);
            }
            6 => std::thread::yield_now(),
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 4))]

    #[test]
    fn replay_is_live(seed: u64) {
        let entries = log(seed);
        let mut replicas = Vec::new();
        for disturbances in [0, 1, 2] {
            let (databases, is_done) = (replica(), AtomicBool::new(false));
            let tapes: Vec<Tape> = std::thread::scope(|scope| {
                for number in 0..disturbances {
                    let (databases, is_done) = (&databases, &is_done);
                    scope.spawn(move || disturb(databases, seed ^ number, is_done));
                }
                let done = scope.spawn(|| {
                    entries.iter().map(|entry| apply(&databases, entry)).collect()
                });
                let tapes = done.join();
                is_done.store(true, Relaxed);
                tapes.expect("no panic")
            });
            let replies: Vec<_> = tapes.into_iter().map(played).collect();
            replicas.push((replies, state(&databases)));
        }
        for (replies, state) in &replicas[1..] {
            for (at, (one, other)) in replicas[0].0.iter().zip(replies).enumerate() {
                prop_assert_eq!(one, other, "entry {}", at);
            }
            prop_assert_eq!(&replicas[0].1, state);
        }
    }
}

/// The logs of the test above do what they are for.
#[test]
fn random_logs_have_all_kinds_of_outcomes() {
    let (mut done, mut failed, mut errors, mut collected, mut large) = (0, 0, 0, 0, 0);
    for seed in 0..200 {
        let databases = replica();
        for entry in log(seed) {
            for record in &entry.records {
                if let Logged::Collect(..) = record {
                    collected += 1;
                }
            }
            for (status, calls) in played(apply(&databases, &entry)) {
                done += usize::from(status == Status::Done && calls.len() > 1);
                failed += usize::from(status == Status::WatchFailed);
                errors += calls.iter().filter(|it| matches!(it, Call::Error(_))).count();
                large += calls.iter().filter(|it| matches!(it, Call::Held(_))).count();
            }
        }
    }
    for (what, count) in [
        ("transactions", done),
        ("failed watches", failed),
        ("errors", errors),
        ("collected shards", collected),
        ("large values", large),
    ] {
        assert!(count >= 20, "{count} {what}");
    }
}
