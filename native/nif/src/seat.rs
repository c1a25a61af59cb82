//! What this node runs for a guest. A process for each guest calls these functions.

use crate::erts::{self, ResourceType};
use crate::time::{clock_ms, now_ms};
use crate::{atoms, durable};
use parking_lot::Mutex;
use rustler::types::atom::Atom;
use rustler::{Binary, Encoder, Env, LocalPid, NewBinary, NifResult, Term};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use todana_command::{DATABASES, Databases};
use todana_group::{Deliver, Homes, Outcome, Submit, Ticket, full_databases};
use todana_protocol::{Left, Promises, Seat, Visits};

/// Resources for the submissions of a guest.
pub(crate) static SEAT: ResourceType<GuestSeat> = ResourceType::new(c"todana_seat");

/// The place of the tickets: those of Erlang processes and of event loops have others.
const PLACE: u32 = u32::MAX - 1;

/// What a call on a normal scheduler may take.
const SLICE: Duration = Duration::from_micros(500);

/// The same on a dirty scheduler.
const DIRTY_SLICE: Duration = Duration::from_millis(20);

static LAST: AtomicU32 = AtomicU32::new(0);

/// The promises to all guests, while there are some.
static PROMISES: Mutex<Weak<Promises>> = Mutex::new(Weak::new());

/// The submissions of a guest.
pub(crate) struct GuestSeat {
    promises: Arc<Promises>,
    visits: Mutex<Visits>,
    outcomes: Arc<Outcomes>,
}

/// Receives the outcomes of what was handed over to the log, and wakes the process.
struct Outcomes {
    process: LocalPid,
    arrived: Mutex<Vec<(u64, Outcome)>>,
}

impl Deliver for Outcomes {
    fn deliver(&self, outcomes: Vec<(Ticket, Outcome)>) {
        let mut arrived = self.arrived.lock();
        let is_first = arrived.is_empty();
        arrived.extend(outcomes.into_iter().map(|(ticket, outcome)| (ticket.number, outcome)));
        drop(arrived);
        if is_first {
            erts::send(self.process, |_| atoms::todana_ready().as_c_arg());
        }
    }
}

/// `seat_open() -> Seat`: for one guest. The calling process receives `todana_ready` when it should
/// go on.
#[rustler::nif]
fn seat_open(env: Env<'_>) -> NifResult<Term<'_>> {
    let promises = promises_of(durable::first().the_group()?.databases());
    let process = env.pid();
    let outcomes = Arc::new(Outcomes { process, arrived: Mutex::default() });
    let place = (PLACE, LAST.fetch_add(1, Relaxed));
    let wake = move || {
        erts::send(process, |_| atoms::todana_ready().as_c_arg());
    };
    let promise = promises.join(place, Box::new(wake));
    let visits = Mutex::new(Visits::new(promise, outcomes.clone()));
    let seat = SEAT.make(GuestSeat { promises, visits, outcomes }, 0);
    // SAFETY: the term was made in this environment.
    Ok(unsafe { Term::new(env, seat.term(env.as_c_arg())) })
}

/// The promises to all guests about these databases.
fn promises_of(databases: &Arc<Databases>) -> Arc<Promises> {
    let mut present = PROMISES.lock();
    if let Some(promises) = present.upgrade()
        && promises.are_of(databases)
    {
        return promises;
    }
    let promises = Promises::new(Arc::clone(databases));
    *present = Arc::downgrade(&promises);
    promises
}

fn the_seat<'a>(env: Env<'a>, seat: Term<'a>) -> NifResult<&'a GuestSeat> {
    // SAFETY: both belong to the present call, which `'a` does not outlast.
    unsafe { SEAT.get(env.as_c_arg(), seat.as_c_arg()) }.ok_or(rustler::Error::BadArg)
}

/// `seat_receive(Seat, Parcel) -> boolean()`: takes what the guest has sent; false if the bytes are
/// broken.
#[rustler::nif]
fn seat_receive<'a>(env: Env<'a>, seat: Term<'a>, parcel: Binary<'a>) -> NifResult<bool> {
    let seat = the_seat(env, seat)?;
    erts::bill(env.as_c_arg(), parcel.len());
    Ok(seat.visits.lock().receive(&parcel, clock_ms(libc::CLOCK_MONOTONIC)))
}

/// `seat_go_on(Seat) -> {nothing | busy | more | long, Changes, Answers, Index, Full}`: runs what
/// it can, for half a millisecond. `busy`: to be called again a little later; `long`: by
/// `seat_go_on_dirty`. The guest gets the changes before the answers
/// ([`todana_group::Guest::take_changes`]). The last two are for [`todana_group::Guest::answer`].
#[rustler::nif]
fn seat_go_on<'a>(env: Env<'a>, seat: Term<'a>) -> NifResult<Term<'a>> {
    let started = Instant::now();
    let went_on = go_on(env, seat, started + SLICE, false);
    erts::consume_timeslice(env.as_c_arg(), started.elapsed());
    went_on
}

/// The same, for what takes long.
#[rustler::nif(schedule = "DirtyCpu")]
fn seat_go_on_dirty<'a>(env: Env<'a>, seat: Term<'a>) -> NifResult<Term<'a>> {
    go_on(env, seat, Instant::now() + DIRTY_SLICE, true)
}

fn go_on<'a>(
    env: Env<'a>,
    seat: Term<'a>,
    until: Instant,
    may_take_long: bool,
) -> NifResult<Term<'a>> {
    with(env, seat, |visits, seat, answers| {
        match visits.go_on(seat, may_take_long, || Instant::now() >= until, answers) {
            Left::Nothing => atoms::nothing(),
            Left::Busy => atoms::busy(),
            Left::More => atoms::more(),
            Left::Long => atoms::long(),
        }
    })
}

/// `seat_tick(Seat) -> {ok, Changes, Answers, Index, Full}`: once a second. Ends waits that
/// have lasted too long.
#[rustler::nif(schedule = "DirtyCpu")]
fn seat_tick<'a>(env: Env<'a>, seat: Term<'a>) -> NifResult<Term<'a>> {
    with(env, seat, |visits, seat, answers| {
        visits.end_waits(seat, answers);
        atoms::ok()
    })
}

fn with<'a>(
    env: Env<'a>,
    seat: Term<'a>,
    run: impl FnOnce(&mut Visits, Seat<'_>, &mut Vec<u8>) -> Atom,
) -> NifResult<Term<'a>> {
    let seat = the_seat(env, seat)?;
    let group = durable::first().the_group()?;
    let databases = Arc::clone(group.databases());
    if !seat.promises.are_of(&databases) {
        // The log was opened again: the guest needs another seat.
        return Err(rustler::Error::BadArg);
    }
    let homes = Homes::in_one(Arc::clone(&group) as Arc<dyn Submit>);
    let place = Seat {
        homes: &homes,
        databases: &databases,
        clock_ms: clock_ms(libc::CLOCK_MONOTONIC),
        wall_ms: now_ms(),
    };
    let mut visits = seat.visits.lock();
    // A separate statement: those that arrive later wake the process again.
    let arrived = std::mem::take(&mut *seat.outcomes.arrived.lock());
    visits.settle(arrived);
    let (mut changes, mut answers) = (Vec::new(), Vec::new());
    visits.take_changes(&mut changes);
    let word = run(&mut visits, place, &mut answers);
    let binary = |bytes: &[u8]| {
        let mut binary = NewBinary::new(env, bytes.len());
        binary.as_mut_slice().copy_from_slice(bytes);
        Binary::from(binary)
    };
    let full = if answers.is_empty() { 0 } else { full_databases(&databases) };
    let (changes, answers) = (binary(&changes), binary(&answers));
    Ok((word, changes, answers, group.applied_index(), full).encode(env))
}

/// `seat_facts() -> {Gate, Facts, Reason}`: what guests learn about this node. Facts are
/// `value_bytes_max`, `format`, `now_ms`, `applied_index`, `others` and `counts`: for each numbered
/// database its records, and those of them that expire.
#[rustler::nif]
fn seat_facts(env: Env<'_>) -> NifResult<Term<'_>> {
    let group = durable::first().the_group()?;
    let atom = |name| Atom::from_str(env, name);
    let counts = (0..DATABASES).map(|number| {
        let counts = group.databases().table(number).counts();
        (counts.entries, counts.entries_with_expiry)
    });
    let facts = Term::map_from_pairs(
        env,
        &[
            (atom("value_bytes_max")?, (group.value_bytes_max() as u64).encode(env)),
            (atom("format")?, group.format().encode(env)),
            (atom("now_ms")?, Submit::now_ms(&*group).unwrap_or_else(now_ms).encode(env)),
            (atom("applied_index")?, group.applied_index().encode(env)),
            (atom("others")?, group.others().encode(env)),
            (atom("counts")?, counts.collect::<Vec<_>>().encode(env)),
        ],
    )?;
    Ok((durable::word_of(group.gate()), facts, group.trouble()).encode(env))
}
