//! The submissions of a guest that this node runs now.

use crate::commit::{Log, NotDone, ReadLevel, Wait};
use crate::promises::{Promise, ticket_number};
use crate::visit::{Step, Visit};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use todana_command::Databases;
use todana_group::parcel::{self, Answer, News, Wanted};
use todana_group::{Deliver, GroupNumber, Homes, Outcome, Submission, Ticket};

/// After this time, a submission waits no longer: the guest has given up before.
const WAIT_MS_MAX: u64 = 15_000;

/// For how long a write may wait for room in the log.
const ROOM_MS_MAX: u64 = 5_000;

/// What this node runs submissions on.
#[derive(Clone, Copy, Debug)]
pub struct Seat<'s> {
    /// The groups of this node.
    pub homes: &'s Homes,
    /// The databases.
    pub databases: &'s Databases,
    /// A clock that never goes back, in milliseconds.
    pub clock_ms: u64,
    /// The time of day, for a log that knows no time.
    pub wall_ms: u64,
}

/// The submissions of a guest.
pub struct Visits {
    /// Has the place of their tickets: that of no other guest.
    promise: Promise,
    deliver: Arc<dyn Deliver>,
    /// By the numbers of their tickets.
    visits: HashMap<u64, Running>,
    /// Those that can go on, by their tickets.
    ready: VecDeque<u64>,
    /// Those that wait for room in the log.
    busy: Vec<u64>,
    last_ticket: u64,
}

struct Running {
    /// The guest's number.
    number: u64,
    task: Task,
    begun_ms: u64,
    /// Since when there has been no room for it.
    busy_since_ms: Option<u64>,
}

enum Task {
    Visit(Box<Visit>),
    /// The guest waits for an entry of the log.
    Entry(u64),
    /// It is not run.
    Dropped,
}

/// The work that is left at the end of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Nothing that this node could do now.
    Nothing,
    /// Submissions that need room in the log: go on a little later.
    Busy,
    /// Submissions that need time.
    More,
    /// The next one probably takes long: go on where that is permitted.
    Long,
}

impl Visits {
    /// None so far. Outcomes come back by [`Visits::settle`].
    pub fn new(promise: Promise, deliver: Arc<dyn Deliver>) -> Visits {
        Visits {
            promise,
            deliver,
            visits: HashMap::new(),
            ready: VecDeque::new(),
            busy: Vec::new(),
            last_ticket: 0,
        }
    }

    /// Whether the guest waits for nothing.
    pub fn is_empty(&self) -> bool {
        self.visits.is_empty()
    }

    /// Takes what a guest has sent. False if the bytes are broken.
    pub fn receive(&mut self, parcel: &[u8], clock_ms: u64) -> bool {
        let mut wanted = parcel::wanted(parcel);
        wanted.by_ref().for_each(|(number, wanted)| {
            let task = match wanted {
                Wanted::News(news) => return self.note(news),
                Wanted::Entry(index) => Task::Entry(index),
                Wanted::Submission(bytes) => match Visit::new(bytes.to_vec()) {
                    Some(visit) => Task::Visit(Box::new(visit)),
                    None => Task::Dropped,
                },
            };
            self.last_ticket = ticket_number(self.last_ticket, false);
            let running = Running { number, task, begun_ms: clock_ms, busy_since_ms: None };
            self.visits.insert(self.last_ticket, running);
            self.ready.push_back(self.last_ticket);
        });
        wanted.is_whole()
    }

    fn note(&mut self, news: News<'_>) {
        match news {
            News::Prefix(prefix) => self.promise.add_prefix(prefix),
            News::NoPrefix(prefix) => self.promise.remove_prefix(prefix),
            News::Nothing => {
                for running in self.visits.values_mut() {
                    if let Task::Visit(visit) = &mut running.task {
                        visit.track_nothing();
                    }
                }
                self.promise.end();
            }
        }
    }

    /// Appends the changes of which the guest must learn. Called after [`Visits::settle`] and
    /// before [`Visits::go_on`]: changes that the guest's own submissions have made come before
    /// their answers.
    pub fn take_changes(&mut self, changes: &mut Vec<u8>) {
        let visits = &self.visits;
        self.promise.take_changes(changes, |ticket| visits.get(&ticket).map(|it| it.number));
    }

    /// Takes the outcomes of what was handed over, by the numbers of the tickets.
    pub fn settle(&mut self, outcomes: impl IntoIterator<Item = (u64, Outcome)>) {
        for (ticket, outcome) in outcomes {
            let Some(running) = self.visits.get_mut(&ticket) else { continue };
            match (&mut running.task, outcome) {
                (Task::Visit(visit), outcome) => visit.settle(outcome),
                (task @ Task::Entry(_), Outcome::Dropped | Outcome::Unknown) => {
                    *task = Task::Dropped;
                }
                (Task::Entry(_) | Task::Dropped, _) => {}
            }
            self.ready.push_back(ticket);
        }
    }

    /// Runs submissions until `is_over`, and appends answers.
    pub fn go_on(
        &mut self,
        seat: Seat<'_>,
        may_take_long: bool,
        mut is_over: impl FnMut() -> bool,
        answers: &mut Vec<u8>,
    ) -> Left {
        self.ready.extend(self.busy.drain(..));
        let mut handed_over: Vec<Submission> = Vec::new();
        let mut is_long = false;
        let mut turns = self.ready.len();
        while turns > 0
            && let Some(ticket) = self.ready.pop_front()
        {
            turns -= 1;
            if !may_take_long && self.takes_long(ticket, seat.databases) {
                self.ready.push_front(ticket);
                is_long = true;
                break;
            }
            self.run(ticket, seat, &mut is_over, &mut handed_over, answers);
            if is_over() {
                break;
            }
        }
        if !handed_over.is_empty() {
            seat.homes.group(GroupNumber::default()).submit(&mut handed_over);
        }
        match (self.ready.is_empty(), self.busy.is_empty()) {
            (false, _) if is_long => Left::Long,
            (false, _) => Left::More,
            (true, false) => Left::Busy,
            (true, true) => Left::Nothing,
        }
    }

    fn takes_long(&self, ticket: u64, databases: &Databases) -> bool {
        match self.visits.get(&ticket) {
            Some(Running { task: Task::Visit(visit), .. }) => visit.takes_long(databases),
            _ => false,
        }
    }

    fn run(
        &mut self,
        ticket: u64,
        seat: Seat<'_>,
        is_over: &mut impl FnMut() -> bool,
        handed_over: &mut Vec<Submission>,
        answers: &mut Vec<u8>,
    ) {
        let Some(mut running) = self.visits.remove(&ticket) else { return };
        let group = seat.homes.group(GroupNumber::default());
        let visit = match &mut running.task {
            Task::Visit(visit) => visit,
            Task::Dropped => {
                parcel::put_answer(answers, running.number, Answer::Dropped);
                return;
            }
            Task::Entry(index) if group.applied_index() >= *index => {
                parcel::put_answer(answers, running.number, Answer::Fresh);
                return;
            }
            Task::Entry(index) => {
                let index = *index;
                let (ticket, deliver) = self.insert(running);
                return group.await_applied(index, ticket, deliver);
            }
        };
        let may_wait = running
            .busy_since_ms
            .is_none_or(|since_ms| seat.clock_ms.saturating_sub(since_ms) < ROOM_MS_MAX);
        let log = Log {
            group: GroupNumber::default(),
            submit: group,
            databases: seat.databases,
            may_wait,
            level: ReadLevel::default(),
            clock_ms: group.clock_ms(),
            now_ms: group.now_ms().unwrap_or(seat.wall_ms),
            of_guest: true,
        };
        match visit.go_on(log, &mut self.promise, is_over) {
            Step::Answered(tape) => {
                parcel::put_answer(answers, running.number, Answer::Applied(&tape));
            }
            Step::Commit(handover) => {
                running.busy_since_ms = None;
                let (ticket, deliver) = self.insert(running);
                handed_over.push(Submission {
                    records: handover.records,
                    count: handover.count,
                    format: handover.format,
                    units: handover.units,
                    ticket,
                    deliver,
                });
            }
            Step::Wait(number, wait) => {
                let group = seat.homes.group(number);
                let (ticket, deliver) = self.insert(running);
                match wait {
                    Wait::Proof => group.await_fresh(ticket, deliver),
                    Wait::Applied { index, .. } => group.await_applied(index, ticket, deliver),
                }
            }
            Step::Busy => {
                running.busy_since_ms.get_or_insert(seat.clock_ms);
                let (ticket, _) = self.insert(running);
                self.busy.push(ticket.number);
            }
            Step::More => {
                let (ticket, _) = self.insert(running);
                self.ready.push_back(ticket.number);
            }
        }
    }

    /// Keeps a submission under a ticket that was never used.
    fn insert(&mut self, running: Running) -> (Ticket, Arc<dyn Deliver>) {
        let is_tracked = matches!(&running.task, Task::Visit(visit) if visit.is_tracked());
        self.last_ticket = ticket_number(self.last_ticket, is_tracked);
        self.visits.insert(self.last_ticket, running);
        let ticket = Ticket { place: self.promise.place(), number: self.last_ticket };
        (ticket, Arc::clone(&self.deliver))
    }

    /// Ends the waits that have lasted too long, and does what else is to be done about once a
    /// second.
    pub fn end_waits(&mut self, seat: Seat<'_>, answers: &mut Vec<u8>) {
        self.promise.renew();
        let is_late =
            |running: &Running| seat.clock_ms.saturating_sub(running.begun_ms) >= WAIT_MS_MAX;
        let late: Vec<u64> =
            self.visits.iter().filter(|(_, it)| is_late(it)).map(|(ticket, _)| *ticket).collect();
        for number in late {
            let ticket = Ticket { place: self.promise.place(), number };
            let is_withdrawn = seat.homes.groups().any(|group| group.withdraw(ticket));
            let Some(running) = self.visits.get_mut(&number) else { continue };
            match &mut running.task {
                Task::Entry(_) | Task::Dropped => {
                    parcel::put_answer(answers, running.number, Answer::Dropped);
                    self.visits.remove(&number);
                }
                Task::Visit(visit) if visit.is_waiting() => {
                    visit.give_up(if is_withdrawn { NotDone::Busy } else { NotDone::Unknown });
                    self.ready.push_back(number);
                }
                Task::Visit(_) => {}
            }
        }
    }
}

impl fmt::Debug for Visits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Visits").field("running", &self.visits.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Promises;
    use crate::commit::put_tracked;
    use todana_group::{Gate, Group, GroupOptions, QUEUE_BYTES_MAX, Submit, Wake};

    struct Nobody;

    impl Wake for Nobody {
        fn wake(&self) {}
    }

    impl Deliver for Nobody {
        fn deliver(&self, _outcomes: Vec<(Ticket, Outcome)>) {}
    }

    #[test]
    fn a_submission_that_ends_with_tracked_keys_is_answered() {
        let databases = Arc::new(Databases::with_options(&todana_table::Options {
            durable: true,
            ..Default::default()
        }));
        let options = GroupOptions {
            databases: databases.clone(),
            seed: 1,
            incarnation: 1,
            value_bytes_max: 1 << 20,
            queue_bytes_max: QUEUE_BYTES_MAX,
            snapshot_log_bytes: None,
        };
        let group = Group::new(options, Box::new(Nobody));
        group.set_gate(Gate::Open, "");
        let homes = Homes::in_one(group as Arc<dyn Submit>);
        let seat = Seat { homes: &homes, databases: &databases, clock_ms: 1, wall_ms: 1 };
        let promises = Promises::new(databases.clone());
        let promise = promises.join((1, 1), Box::new(|| ()));
        let mut visits = Visits::new(promise, Arc::new(Nobody));
        let mut submission = vec![0];
        put_tracked(&mut submission, &[b"a"]);
        let mut parcel = 7_u64.to_le_bytes().to_vec();
        parcel.extend_from_slice(&(submission.len() as u32).to_le_bytes());
        parcel.extend_from_slice(&submission);
        assert!(visits.receive(&parcel, 1));
        let mut answers = Vec::new();
        assert_eq!(visits.go_on(seat, true, || false, &mut answers), Left::Nothing);
        assert!(visits.is_empty() && answers.starts_with(&7_u64.to_le_bytes()));
        assert_eq!(promises.counts(), [1, 1, 0]);
    }
}
