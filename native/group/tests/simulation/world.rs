//! One node, its clients, and a log that loses, doubles, reorders and forgets.
//!
//! The log stands for the consensus library and the disk. A command that is sent to it may be lost,
//! or arrive late and in any order. Commands that have arrived are applied only after a
//! synchronisation; a crash of the node loses some of those that were not synchronised. The batcher
//! sends a batch again until it learns that the batch was applied, so the log has some batches
//! twice.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use todana_command::{Databases, Status, Watch, watch};
use todana_group::record::{format_of, put_set_time};
use todana_group::{
    Applied, Clock, Deliver, Digest, Gate, Group, GroupOptions, Outcome, SnapshotSource,
    Submission, Submit, Ticket, Wake,
};
use todana_table::{Keyspace, Options, Snapshot};

use crate::dice::Dice;
use crate::played::{Outcomes, Played, play};
use crate::work::{KEPT, KEYS, MARKER_BYTES, Op, Request, WATCHED, Watched};

const START_MS: u64 = 1_700_000_000_000;
const IN_FLIGHT_MAX: usize = 4;
const SESSIONS: usize = 4;
/// Long enough for everything that a small entry does.
pub(crate) const ALL: Duration = Duration::from_secs(60);

/// An entry of the log.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) bytes: Vec<u8>,
    pub(crate) time_ms: u64,
}

/// The outcome of a request, as its client knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Waiting,
    Applied(Vec<Played>),
    Dropped,
    Unknown,
}

#[derive(Default)]
struct Session {
    waits_for: Option<u64>,
    watches: Vec<(usize, u64, Watch)>,
}

/// One life of the node's process.
struct Life {
    incarnation: u64,
    group: Arc<Group>,
    outcomes: Arc<Outcomes>,
    /// Number of entries that were applied, and the offset in the next one.
    applied: usize,
    offset: usize,
    /// The gate opens when this number of entries was applied.
    recovered_at: usize,
    /// The requests that were submitted and not sealed, in order, and their numbers of records.
    queued: VecDeque<(u64, usize)>,
    /// The batches that the batcher believes to be in flight.
    in_flight: BTreeMap<u64, Vec<u8>>,
    writing: Option<(SnapshotSource, File, PathBuf)>,
    users_snapshot: Option<Snapshot<'static>>,
    digest: Option<Digest>,
    /// Whether anything was missing after the recovery.
    is_checked: bool,
}

struct NoWake;

/// Waits for the outcome of a `SetTime`.
struct Nobody;

impl Deliver for Nobody {
    fn deliver(&self, _: Vec<(Ticket, Outcome)>) {}
}

impl Wake for NoWake {
    fn wake(&self) {}
}

/// A group as all nodes make it.
pub(crate) fn new_group(incarnation: u64) -> Arc<Group> {
    new_group_by(incarnation, Clock::default())
}

fn new_group_by(incarnation: u64, clock: Clock) -> Arc<Group> {
    let options = Options { shards: Some(4), seed: Some(9), durable: true, ..Options::default() };
    let options = GroupOptions {
        databases: Arc::new(Databases::with_options(&options)),
        seed: 9,
        incarnation,
        value_bytes_max: 1 << 20,
        queue_bytes_max: 1 << 20,
        snapshot_log_bytes: Some(3_000),
    };
    Group::with_gate(options, Box::new(NoWake), Arc::default(), Arc::new(clock))
}

/// What the submissions of each sealed batch were: requests, or records of the group's own.
pub(crate) type History = HashMap<(u64, u64), Vec<Part>>;

#[derive(Clone, Debug)]
pub(crate) enum Part {
    Request(u64),
    Own(Vec<u8>),
}

pub(crate) struct World {
    dice: Dice,
    /// The wall clock, which may be set, and the monotonic one.
    now_ms: u64,
    monotonic_ms: Arc<AtomicU64>,
    life: Life,
    incarnations: u64,
    sessions: Vec<Session>,
    /// Sent and not arrived.
    sent: Vec<Vec<u8>>,
    pub(crate) log: Vec<Entry>,
    synced: usize,
    /// The newest complete snapshot: its index and file.
    pub(crate) snapshot: Option<(u64, PathBuf)>,
    /// Digests: the index of an entry, and the number after it.
    pub(crate) digests: Vec<(u64, u64)>,
    tickets: u64,
    markers: u32,
    pub(crate) requests: HashMap<u64, (Request, Fate)>,
    pub(crate) history: History,
    /// How often things happened without which a run shows little.
    pub(crate) crashes: u64,
    pub(crate) restorations: u64,
}

impl World {
    pub(crate) fn new(seed: u64) -> World {
        let monotonic_ms = Arc::new(AtomicU64::new(0));
        let mut world = World {
            dice: Dice::new(seed),
            now_ms: START_MS,
            life: Life::new(1, &monotonic_ms),
            monotonic_ms,
            incarnations: 1,
            sessions: (0..SESSIONS).map(|_| Session::default()).collect(),
            sent: Vec::new(),
            log: Vec::new(),
            synced: 0,
            snapshot: None,
            digests: Vec::new(),
            tickets: 0,
            markers: 0,
            requests: HashMap::new(),
            history: HashMap::new(),
            crashes: 0,
            restorations: 0,
        };
        world.recover_if_done();
        world
    }

    pub(crate) fn group(&self) -> &Arc<Group> {
        &self.life.group
    }

    /// How often what happened.
    pub(crate) fn counts(&self) -> Vec<(&'static str, u64)> {
        let fates = |is: fn(&Fate) -> bool| {
            self.requests.values().filter(|(_, fate)| is(fate)).count() as u64
        };
        let transactions = |status| {
            let requests = self.requests.values();
            let all = requests.flat_map(|(request, fate)| match fate {
                Fate::Applied(played) => request.ops.iter().zip(played).collect(),
                _ => Vec::new(),
            });
            all.filter(|(op, played)| matches!(op, Op::Exec { .. }) && played.status == status)
                .count() as u64
        };
        vec![
            ("entries", self.log.len() as u64),
            ("crashes", self.crashes),
            ("restorations", self.restorations),
            ("digests", self.digests.len() as u64),
            ("duplicates", self.life.group.figures().duplicates),
            ("applied", fates(|fate| matches!(fate, Fate::Applied(_)))),
            ("dropped", fates(|fate| *fate == Fate::Dropped)),
            ("unknown", fates(|fate| *fate == Fate::Unknown)),
            ("transactions", transactions(Status::Done)),
            ("failed watches", transactions(Status::WatchFailed)),
            ("tables", self.life.group.tables().len() as u64),
        ]
    }

    /// Something happens.
    pub(crate) fn step(&mut self) {
        let passed_ms = self.dice.below(3);
        self.pass(passed_ms);
        match self.dice.below(100) {
            0..20 => self.submit(),
            20..34 => self.seal(),
            34..48 => self.arrive(),
            48..56 => self.synced = self.log.len(),
            56..78 => self.apply(),
            78..81 => self.send_again(),
            81 => self.forget(),
            82 => self.withdraw(),
            83..85 => {
                let now_ms = self.now_ms + self.dice.below(20);
                self.life.group.tick(now_ms);
            }
            85 => self.begin_snapshot(),
            86..90 => self.write_snapshot(),
            90..92 => self.look_around(),
            92 => self.set_time(),
            93 => self.watch(),
            94 => self.watch(),
            95 => self.pass(30),
            // The clock is set back.
            96 => self.now_ms -= self.dice.below(30),
            97 => self.flip_gate(),
            98 => match self.dice.below(3) {
                0 => self.restart_log(),
                1 => self.restart_batcher(),
                _ => {}
            },
            _ if self.dice.once_in(2) => self.crash(),
            _ => {}
        }
        self.collect_outcomes();
        self.recover_if_done();
    }

    /// Lets everything in flight come to its end, without further trouble.
    pub(crate) fn settle(&mut self) {
        for _ in 0..1_000 {
            self.life.group.set_gate(Gate::Open, "");
            let group = self.life.group.clone();
            while self.seal_one() {}
            for bytes in self.life.in_flight.values().cloned().chain(self.sent.drain(..)) {
                self.log.push(Entry { bytes, time_ms: self.now_ms });
            }
            self.life.in_flight.clear();
            self.synced = self.log.len();
            while self.life.applied < self.synced {
                self.apply_slice(ALL);
            }
            self.collect_outcomes();
            self.recover_if_done();
            let waits = |session: &Session| session.waits_for.is_some();
            if !self.sessions.iter().any(waits) && group.figures().queue_bytes == 0 {
                assert_eq!(group.figures().in_flight, 0, "a batch was never applied");
                self.stop_writing();
                (self.life.users_snapshot, self.life.digest) = (None, None);
                return;
            }
        }
        panic!("requests go on waiting: {:?}", self.life.group);
    }

    fn submit(&mut self) {
        let place = self.dice.index(SESSIONS);
        let group = self.life.group.clone();
        if self.sessions[place].waits_for.is_some() || group.gate() != Gate::Open {
            return;
        }
        let mut ops: Vec<Op> = (0..self.dice.below(6))
            .map(|_| Op::random(&mut self.dice, &mut self.markers, self.now_ms))
            .collect();
        let session = &mut self.sessions[place];
        if !session.watches.is_empty() && self.dice.once_in(2) {
            let watches: Option<Vec<Watched>> = session
                .watches
                .iter()
                .map(|(key, at, watch)| {
                    let logged = watch.logged()?;
                    Some(Watched { key: *key, seen: logged.seen, table: logged.table, at: *at })
                })
                .collect();
            session.watches.clear();
            if let Some(watches) = watches {
                self.markers += 1;
                let key = self.dice.index(KEYS.len());
                ops.push(Op::Exec { watches, key, marker: self.markers });
            }
        }
        self.tickets += 1;
        let request = Request::new(self.tickets, ops);
        let submission = Submission {
            records: request.records.clone(),
            count: request.ops.len(),
            format: format_of(&request.records),
            units: 0,
            ticket: Ticket { place: (0, 0), number: self.tickets },
            deliver: self.life.outcomes.clone(),
        };
        self.life.queued.push_back((self.tickets, request.ops.len()));
        self.requests.insert(self.tickets, (request, Fate::Waiting));
        self.sessions[place].waits_for = Some(self.tickets);
        group.submit(&mut vec![submission]);
    }

    fn seal(&mut self) {
        if self.life.in_flight.len() < IN_FLIGHT_MAX {
            self.seal_one();
        }
    }

    fn seal_one(&mut self) -> bool {
        let Some(sealed) = self.life.group.take(0) else { return false };
        let parts = self.parts_of(&sealed.bytes);
        self.history.insert((self.life.incarnation, sealed.sequence), parts);
        if !self.dice.once_in(8) {
            self.sent.push(sealed.bytes.clone());
        }
        self.life.in_flight.insert(sealed.sequence, sealed.bytes);
        true
    }

    fn pass(&mut self, ms: u64) {
        self.now_ms += ms;
        self.monotonic_ms.fetch_add(ms, SeqCst);
    }

    /// An operator sets the time of the log, or the leader corrects it.
    fn set_time(&mut self) {
        let group = &self.life.group;
        if self.dice.once_in(2) {
            group.clock().note_early(50_i64 - self.dice.below(100) as i64);
            group.clock().correct();
            return;
        }
        self.tickets += 1;
        let mut records = Vec::new();
        put_set_time(&mut records, self.now_ms - self.dice.below(60));
        let ticket = Ticket { place: (0, 1), number: self.tickets };
        let submission = Submission {
            records,
            count: 1,
            format: 4,
            units: 0,
            ticket,
            deliver: Arc::new(Nobody),
        };
        group.submit(&mut vec![submission]);
    }

    /// Which submissions a batch consists of.
    fn parts_of(&mut self, bytes: &[u8]) -> Vec<Part> {
        let (_, mut records) = header_of(bytes);
        let mut parts = Vec::new();
        while !records.is_empty() {
            let (first, rest) = records.split_at(record_bytes(records));
            if matches!(first[0], 5..=7) {
                parts.push(Part::Own(first.to_vec()));
                records = rest;
                continue;
            }
            let (ticket, count) = self.life.queued.pop_front().expect("it was submitted");
            (0..count).for_each(|_| records = &records[record_bytes(records)..]);
            parts.push(Part::Request(ticket));
        }
        // Submissions without records leave no trace in the bytes.
        while let Some((ticket, 0)) = self.life.queued.front() {
            parts.push(Part::Request(*ticket));
            self.life.queued.pop_front();
        }
        parts
    }

    fn arrive(&mut self) {
        if self.sent.is_empty() {
            return;
        }
        let place = self.dice.index(self.sent.len());
        let bytes = match self.dice.below(10) {
            0 => {
                self.sent.swap_remove(place);
                return;
            }
            1 => self.sent[place].clone(),
            _ => self.sent.swap_remove(place),
        };
        self.log.push(Entry { bytes, time_ms: self.now_ms });
    }

    fn apply(&mut self) {
        for _ in 0..1 + self.dice.below(4) {
            let slice = if self.dice.once_in(2) { ALL } else { Duration::ZERO };
            if self.life.applied < self.synced {
                self.apply_slice(slice);
            }
        }
    }

    fn apply_slice(&mut self, slice: Duration) {
        let life = &mut self.life;
        let Entry { bytes, time_ms } = &self.log[life.applied];
        let index = life.applied as u64 + 1;
        match life.group.apply(bytes, life.offset, index, *time_ms, slice) {
            Applied::More(offset) => life.offset = offset,
            Applied::Done { snapshot_due } => {
                (life.applied, life.offset) = (life.applied + 1, 0);
                let ((origin, sequence), _) = header_of(bytes);
                if origin == life.incarnation && !self.dice.once_in(4) {
                    life.in_flight.remove(&sequence);
                }
                if snapshot_due && self.dice.once_in(2) {
                    self.begin_snapshot();
                }
            }
            other => panic!("{other:?}"),
        }
    }

    fn send_again(&mut self) {
        self.sent.extend(self.life.in_flight.values().cloned());
    }

    fn forget(&mut self) {
        if let Some((sequence, _)) = self.life.in_flight.pop_first() {
            self.life.group.forget(sequence);
        }
    }

    fn withdraw(&mut self) {
        let place = self.dice.index(SESSIONS);
        let Some(number) = self.sessions[place].waits_for else { return };
        if self.life.group.withdraw(Ticket { place: (0, 0), number }) {
            self.end(number, Fate::Dropped);
        }
    }

    fn begin_snapshot(&mut self) {
        let life = &mut self.life;
        let Some(source) = life.group.begin_snapshot(life.applied as u64) else {
            return assert!(life.offset > 0);
        };
        let path = new_path();
        let file = File::create(&path).expect("a file");
        if let Some((_, _, path)) = life.writing.replace((source, file, path)) {
            let _ = fs::remove_file(path);
        }
    }

    fn write_snapshot(&mut self) {
        let life = &mut self.life;
        let Some((source, file, path)) = &mut life.writing else { return };
        let slice = [1, 1_000, 100_000][self.dice.index(3)];
        if source.write_slice(file, slice).expect("a snapshot is written") {
            let newest = (source.index(), path.clone());
            life.writing = None;
            if let Some((_, path)) = self.snapshot.replace(newest) {
                let _ = fs::remove_file(path);
            }
        }
    }

    fn stop_writing(&mut self) {
        if let Some((_, _, path)) = self.life.writing.take() {
            let _ = fs::remove_file(path);
        }
    }

    fn make_digest(&mut self) {
        let life = &mut self.life;
        let Some(digest) = &mut life.digest else {
            life.digest = life.group.begin_digest();
            return;
        };
        let made = digest.go_on(1 + self.dice.index(30));
        if let Ok(Some(number)) = made {
            self.digests.push((digest.index(), number));
        }
        if made != Ok(None) {
            life.digest = None;
        }
    }

    /// What other threads of the node do must leave no trace.
    fn look_around(&mut self) {
        let now_ms = self.now_ms + self.dice.below(200);
        let key = KEYS[self.dice.index(KEYS.len())];
        let table = self.life.group.databases().table(self.dice.index(3)).clone();
        table.read(key, now_ms, |entry| {
            entry.into_iter().for_each(|entry| entry.note_access(now_ms));
        });
        table.sweep(now_ms, 10);
        table.len_at(now_ms);
        if self.dice.once_in(2) {
            return (0..10).for_each(|_| self.make_digest());
        }
        self.life.users_snapshot = match self.dice.once_in(2) {
            true => table.snapshot_owned(),
            false => None,
        };
    }

    fn watch(&mut self) {
        let life = &self.life;
        if life.offset > 0 || life.group.gate() != Gate::Open {
            return;
        }
        let (place, key) = (self.dice.index(SESSIONS), self.dice.index(KEYS.len()));
        let databases = life.group.databases();
        let watch = watch(databases, WATCHED as usize, KEYS[key], self.now_ms);
        self.sessions[place].watches.push((key, life.applied as u64, watch));
    }

    fn flip_gate(&mut self) {
        if self.life.is_checked {
            let gate = match self.life.group.gate() {
                Gate::Open if self.dice.index(2) == 0 => Gate::Removals,
                Gate::Open => Gate::ReadOnly,
                _ => Gate::Open,
            };
            self.life.group.set_gate(gate, "the disk is full");
        }
    }

    /// The consensus library starts anew: it loads the snapshot and applies the log again.
    fn restart_log(&mut self) {
        self.life.writing = None;
        self.recover();
        self.sessions.iter_mut().for_each(|session| session.watches.clear());
    }

    fn restart_batcher(&mut self) {
        self.life.in_flight.clear();
        let group = &self.life.group;
        group.in_flight().into_iter().for_each(|sequence| group.forget(sequence));
    }

    /// The node's process dies, and another one is started.
    fn crash(&mut self) {
        self.collect_outcomes();
        let waiting: Vec<u64> =
            self.sessions.iter_mut().filter_map(|session| session.waits_for.take()).collect();
        waiting.into_iter().for_each(|number| self.end(number, Fate::Unknown));
        self.sessions.iter_mut().for_each(|session| session.watches.clear());
        // A part of what was not synchronised is on the disk.
        let unsynced = self.log.len() - self.synced;
        self.log.truncate(self.synced + self.dice.index(unsynced + 1));
        self.synced = self.log.len();
        self.sent.clear();
        self.crashes += 1;
        self.incarnations += 1;
        self.stop_writing();
        self.life = Life::new(self.incarnations, &self.monotonic_ms);
        self.recover();
    }

    fn recover(&mut self) {
        let life = &mut self.life;
        life.applied = match &self.snapshot {
            Some((index, path)) => {
                self.restorations += 1;
                let threads = 1 + self.dice.index(2);
                let info = life.group.restore(path, threads).expect("a whole snapshot");
                assert_eq!(info.index, *index);
                *index as usize
            }
            None => {
                life.group.reset();
                0
            }
        };
        (life.offset, life.recovered_at, life.is_checked) = (0, self.synced, false);
    }

    /// Opens the gate when the log was read, if all that was acknowledged is there.
    fn recover_if_done(&mut self) {
        let life = &mut self.life;
        if life.is_checked || life.applied < life.recovered_at || life.offset > 0 {
            return;
        }
        life.is_checked = true;
        let group = life.group.clone();
        // Some lives are those of a version whose batches do not carry the time.
        if self.dice.once_in(2) {
            group.begin_time(self.now_ms);
        }
        group.set_gate(Gate::Open, "");
        self.check_markers(&group);
    }

    fn collect_outcomes(&mut self) {
        for (number, outcome) in self.life.outcomes.take() {
            let fate = match outcome {
                Outcome::Applied(tape) => Fate::Applied(play(tape)),
                Outcome::Dropped => {
                    self.life.queued.retain(|(queued, _)| *queued != number);
                    Fate::Dropped
                }
                Outcome::Unknown => Fate::Unknown,
                Outcome::Fresh => panic!("nobody waits for that"),
            };
            self.end(number, fate);
        }
    }

    /// A request has its outcome. A later one is dropped, as a server does.
    fn end(&mut self, number: u64, fate: Fate) {
        let (_, known) = self.requests.get_mut(&number).expect("it was submitted");
        if *known == Fate::Waiting {
            if fate == Fate::Dropped {
                self.life.queued.retain(|(queued, _)| *queued != number);
            }
            *known = fate;
        }
        let waits = |session: &&mut Session| session.waits_for == Some(number);
        self.sessions.iter_mut().find(waits).into_iter().for_each(|it| it.waits_for = None);
    }

    /// Every acknowledged marker is there, none is there twice, and none of a request that was
    /// dropped.
    pub(crate) fn check_markers(&self, group: &Group) {
        let mut there: HashMap<u32, u64> = HashMap::new();
        let table = group.databases().table(KEPT as usize);
        for key in KEYS {
            table.read(key, self.now_ms, |entry| {
                let value = entry.map_or(&[][..], |entry| entry.stored().bytes());
                for marker in value.chunks(MARKER_BYTES) {
                    let marker = u32::from_le_bytes(marker.try_into().expect("whole markers"));
                    *there.entry(marker).or_default() += 1;
                }
            });
        }
        assert!(there.values().all(|&times| times == 1), "a write was applied twice");
        for (Request { ticket, ops, .. }, fate) in self.requests.values() {
            for (place, op) in ops.iter().enumerate() {
                let Some(marker) = op.markers() else { continue };
                let is_there = there.contains_key(&marker);
                match fate {
                    Fate::Applied(replies) => {
                        let is_done = replies[place].status == Status::Done;
                        assert_eq!(is_there, is_done, "acknowledged: {ticket} {op:?}");
                    }
                    Fate::Dropped => assert!(!is_there, "dropped, and applied: {ticket} {op:?}"),
                    Fate::Unknown | Fate::Waiting => {}
                }
            }
        }
    }
}

impl Life {
    fn new(incarnation: u64, monotonic_ms: &Arc<AtomicU64>) -> Life {
        let monotonic_ms = Arc::clone(monotonic_ms);
        Life {
            incarnation,
            group: new_group_by(incarnation, Clock::new(move || monotonic_ms.load(SeqCst))),
            outcomes: Outcomes::new(),
            applied: 0,
            offset: 0,
            recovered_at: 0,
            queued: VecDeque::new(),
            in_flight: BTreeMap::new(),
            writing: None,
            digest: None,
            users_snapshot: None,
            is_checked: false,
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let writing = self.life.writing.take().map(|(_, _, path)| path);
        let complete = self.snapshot.take().map(|(_, path)| path);
        writing.into_iter().chain(complete).for_each(|path| drop(fs::remove_file(path)));
    }
}

/// Origin and sequence of a batch, and its records.
pub(crate) fn header_of(bytes: &[u8]) -> ((u64, u64), &[u8]) {
    let origin = u64::from_le_bytes(bytes[4..12].try_into().expect("eight bytes"));
    let (sequence, rest) = varint(&bytes[12..]);
    let (_value_bytes_max, mut records) = varint(rest);
    if bytes[1] >= 4 {
        let (_era, rest) = varint(records);
        (_, records) = varint(rest);
    }
    ((origin, sequence), records)
}

fn varint(bytes: &[u8]) -> (u64, &[u8]) {
    let end = bytes.iter().position(|byte| *byte < 0x80).expect("an end") + 1;
    let (number, rest) = bytes.split_at(end);
    let number = number.iter().rev().fold(0, |number, byte| number << 7 | u64::from(byte & 0x7f));
    (number, rest)
}

/// Bytes of the first record.
fn record_bytes(records: &[u8]) -> usize {
    5 + u32::from_le_bytes(records[1..5].try_into().expect("four bytes")) as usize
}

/// A file in memory where there is such a place: the simulation writes some ten thousand snapshots.
fn new_path() -> PathBuf {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let memory = PathBuf::from("/dev/shm");
    let folder = if memory.is_dir() { memory } else { PathBuf::from(env!("CARGO_TARGET_TMPDIR")) };
    let number = NUMBER.fetch_add(1, SeqCst);
    folder.join(format!("todana-simulation-{}-{number}.tds", std::process::id()))
}
