//! A log without a disk: what is handed over is applied at once, or when a test wants it.

use super::{FakeHost, Part};
use crate::{Handover, Promises, Seat, Visits};
use std::cell::Cell;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use todana_command::cause::Writer;
use todana_command::{DATABASES, Databases, FORMAT_MAX};
use todana_group::{
    Applied, Deliver, Follow, Following, Gate, Group, GroupOptions, Guest, Homes, Outcome,
    QUEUE_BYTES_MAX, SeatFacts, Submission, Submit, Ticket, Wake, full_databases,
};
use todana_table::{Keyspace, Options, Table};

/// What new hosts are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Their databases are in memory.
    Memory,
    /// They are the only members of a group.
    Durable,
    /// They are members of a group of three.
    Member,
    /// They have no records, and are guests of a node that has.
    Guest,
}

thread_local! {
    static KIND: Cell<Kind> = const { Cell::new(Kind::Memory) };
}

/// Whether new hosts have durable databases.
pub(super) fn hosts_are_durable() -> bool {
    KIND.get() != Kind::Memory
        || std::env::var_os("TODANA_TEST_DURABLE").is_some_and(|set| set == "1")
}

/// Calls a function that makes hosts with durable databases.
pub fn with_durable_hosts<T>(test: impl FnOnce() -> T) -> T {
    with(Kind::Durable, test)
}

/// Calls a function that makes hosts with durable databases that have replicas, so that a read
/// needs a proof.
pub fn with_member_hosts<T>(test: impl FnOnce() -> T) -> T {
    with(Kind::Member, test)
}

/// Calls a function that makes hosts that have no records: a seat runs their commands.
pub fn with_guest_hosts<T>(test: impl FnOnce() -> T) -> T {
    with(Kind::Guest, test)
}

fn with<T>(kind: Kind, test: impl FnOnce() -> T) -> T {
    let before = KIND.replace(kind);
    let result = test();
    KIND.set(before);
    result
}

/// Receives the outcome of one submission.
#[derive(Default)]
struct Collector(Mutex<Option<Outcome>>);

impl Deliver for Collector {
    fn deliver(&self, outcomes: Vec<(Ticket, Outcome)>) {
        *self.0.lock().unwrap() = outcomes.into_iter().next().map(|(_, outcome)| outcome);
    }
}

struct NobodyToWake;

impl Wake for NobodyToWake {
    fn wake(&self) {}
}

/// A group and its toy log.
#[derive(Debug)]
pub struct TestLog {
    /// The group. Its gate is open.
    pub group: Arc<Group>,
    /// The index of the last entry.
    index: Mutex<u64>,
    away: Option<Away>,
}

/// What a host without records has: its log, and what its seat runs for it.
#[derive(Debug)]
pub(super) struct Away {
    pub(super) guest: Arc<Guest>,
    /// Its own databases, which stay empty.
    pub(super) databases: Arc<Databases>,
    visits: Mutex<Visits>,
    outcomes: Arc<Outcomes>,
    changes: Arc<Changes>,
}

/// A change that a guest has learned of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// This key, and whether the guest's client has changed it.
    Key(String, bool),
    /// Any key.
    All,
}

/// The changes that a guest has learned of.
#[derive(Debug, Default)]
struct Changes(Mutex<Vec<Changed>>);

impl Follow for Changes {
    fn changed(&self, key: &[u8], writer: Writer) {
        let key = String::from_utf8_lossy(key).into_owned();
        let is_own = matches!(writer, Writer::Ticket { place: (0, 0), .. });
        self.0.lock().unwrap().push(Changed::Key(key, is_own));
    }

    fn all_changed(&self) {
        self.0.lock().unwrap().push(Changed::All);
    }
}

impl Away {
    fn of(group: &Group, value_bytes_max: usize) -> Away {
        let guest = Guest::new(Box::new(NobodyToWake), QUEUE_BYTES_MAX, value_bytes_max);
        let facts = SeatFacts {
            gate: Gate::Open,
            value_bytes_max,
            format: FORMAT_MAX,
            now_ms: super::START_MS,
            others: 0,
        };
        guest.set_seat(facts, "");
        let empty = |number| {
            let table = group.databases().table(number);
            if !table.is_durable() {
                return Arc::clone(table);
            }
            Arc::new(Table::new(Options {
                shards: Some(16),
                durable: true,
                order: table.order(),
                ..Options::default()
            }))
        };
        let databases = Databases::new(std::array::from_fn(empty));
        let outcomes = Arc::new(Outcomes::default());
        let promise = Promises::new(group.databases().clone()).join((1, 1), Box::new(|| ()));
        let changes = Arc::new(Changes::default());
        let follower: Weak<dyn Follow> = Arc::downgrade(&changes) as Weak<dyn Follow>;
        guest.follow(follower);
        // A client tracks keys all the time.
        guest.begin();
        let visits = Mutex::new(Visits::new(promise, outcomes.clone()));
        Away { guest, databases: Arc::new(databases), visits, outcomes, changes }
    }

    fn send_changes(&self, visits: &mut Visits) {
        let mut changes = Vec::new();
        visits.take_changes(&mut changes);
        self.guest.take_changes(&changes);
    }

    /// Sends everything that waits to the seat, and takes the answers.
    fn converse(&self, log: &TestLog, time_ms: u64) {
        let homes = Homes::in_one(log.group.clone());
        let mut visits = self.visits.lock().unwrap();
        while let Some(parcel) = self.guest.take() {
            assert!(visits.receive(&parcel, time_ms), "a broken parcel");
            while !visits.is_empty() {
                let seat = Seat {
                    homes: &homes,
                    databases: log.group.databases(),
                    clock_ms: time_ms,
                    wall_ms: time_ms,
                };
                let mut answers = Vec::new();
                visits.go_on(seat, true, || true, &mut answers);
                log.apply_all(time_ms);
                visits.settle(std::mem::take(&mut *self.outcomes.0.lock().unwrap()));
                self.send_changes(&mut visits);
                let full = full_databases(log.group.databases());
                self.guest.answer(&answers, log.group.applied_index(), full);
            }
        }
    }
}

/// Receives the outcomes of what a seat has handed over.
#[derive(Debug, Default)]
struct Outcomes(Mutex<Vec<(u64, Outcome)>>);

impl Deliver for Outcomes {
    fn deliver(&self, outcomes: Vec<(Ticket, Outcome)>) {
        let outcomes = outcomes.into_iter().map(|(ticket, outcome)| (ticket.number, outcome));
        self.0.lock().unwrap().extend(outcomes);
    }
}

impl TestLog {
    /// The log of these databases, for values of some length; `None` if none is durable.
    pub fn of<P: Part>(databases: &Arc<Databases>, value_bytes_max: usize) -> Option<TestLog> {
        if !(0..DATABASES).any(|number| databases.is_durable(number)) {
            return None;
        }
        let options = GroupOptions {
            databases: databases.clone(),
            seed: 7,
            incarnation: 1,
            value_bytes_max,
            queue_bytes_max: QUEUE_BYTES_MAX,
            snapshot_log_bytes: None,
        };
        let group = Group::new(options, Box::new(NobodyToWake));
        if KIND.get() == Kind::Member {
            // As if all others had left: WAIT is answered as without a cluster.
            group.set_others(Some(0));
        }
        group.set_gate(Gate::Open, "");
        let away = (KIND.get() == Kind::Guest).then(|| Away::of(&group, value_bytes_max));
        away.iter().for_each(|away| P::prepare(&away.databases));
        Some(TestLog { group, index: Mutex::default(), away })
    }

    pub(super) fn submit(&self) -> &dyn Submit {
        match &self.away {
            Some(away) => &*away.guest,
            None => &*self.group,
        }
    }

    /// What a host of these databases has, if it has no records.
    pub(super) fn away(&self, databases: &Arc<Databases>) -> Option<&Away> {
        // A test may have replaced them.
        let is_of_log = Arc::ptr_eq(databases, self.group.databases());
        self.away.as_ref().filter(|_| is_of_log)
    }

    /// Submits, and applies everything that waits.
    pub fn apply(&self, handover: Handover, time_ms: u64) -> Outcome {
        let collector = Arc::new(Collector::default());
        let Handover { records, count, format, units, .. } = handover;
        let ticket = Ticket { place: (0, 0), number: 1 };
        let deliver = collector.clone();
        self.submit().submit(&mut vec![Submission {
            records,
            count,
            format,
            units,
            ticket,
            deliver,
        }]);
        match &self.away {
            Some(away) => away.converse(self, time_ms),
            None => self.apply_all(time_ms),
        }
        let outcome = collector.0.lock().unwrap().take();
        outcome.expect("an outcome")
    }

    fn apply_all(&self, time_ms: u64) {
        while let Some(sealed) = self.group.take(0) {
            let mut index = self.index.lock().unwrap();
            *index += 1;
            let mut offset = 0;
            loop {
                let slice = Duration::from_millis(1);
                match self.group.apply(&sealed.bytes, offset, *index, time_ms, slice) {
                    Applied::More(more) => offset = more,
                    Applied::Done { .. } => break,
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}

impl<P: Part> FakeHost<P> {
    /// Opens or closes the gate of the log, as if the disk were full.
    pub fn set_gate(&self, gate: Gate) {
        let log = self.log.as_ref().expect("a log");
        log.group.set_gate(gate, "the disk is full");
        if let Some(away) = log.away(&self.databases) {
            away.guest.set_gate(gate, "the disk is full");
        }
    }

    /// The changes of which this host, a guest, has learned since the last time.
    pub fn changes(&self) -> Vec<Changed> {
        let away = self.log.as_ref().and_then(|log| log.away(&self.databases)).expect("a guest");
        away.send_changes(&mut away.visits.lock().unwrap());
        std::mem::take(&mut *away.changes.0.lock().unwrap())
    }

    /// Leaves no room in the queue of this host, a guest.
    pub fn crowd(&self) {
        let away = self.log.as_ref().and_then(|log| log.away(&self.databases)).expect("a guest");
        let deliver = Arc::new(Collector::default());
        away.guest.submit(&mut vec![Submission {
            records: vec![0; QUEUE_BYTES_MAX],
            count: 1,
            format: FORMAT_MAX,
            units: 1,
            ticket: Ticket { place: (0, 0), number: 2 },
            deliver,
        }]);
    }

    /// The seat is lost.
    pub fn lose_seat(&self) {
        let away = self.log.as_ref().and_then(|log| log.away(&self.databases)).expect("a guest");
        away.guest.lose_seat();
    }

    /// What writes change, and nothing else: the records of each database, and the log.
    pub fn written(&self) -> (Vec<u64>, u64) {
        let log = self.log.as_ref().expect("a log");
        (self.digests(), log.group.figures().applied_index)
    }
}

/// Checks that a request changes records, and that it changes none and is refused while the log
/// accepts no writes. Each time with a new connection, of which `host` is the host.
pub fn check_write<C, P: Part + 'static>(
    connect: impl Fn() -> C,
    host: impl Fn(&C) -> &FakeHost<P>,
    ask: impl Fn(&mut C) -> String,
    is_refusal: impl Fn(&str) -> bool,
) {
    for gate in [Gate::Open, Gate::ReadOnly] {
        let mut connection = connect();
        host(&connection).set_gate(gate);
        let before = host(&connection).digests();
        let answer = ask(&mut connection);
        let is_refused = gate == Gate::ReadOnly;
        assert_eq!(is_refusal(&answer), is_refused, "{gate:?}: {answer}");
        assert_eq!(host(&connection).digests() == before, is_refused, "{gate:?}: {answer}");
    }
}
