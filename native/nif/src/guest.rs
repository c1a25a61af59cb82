//! The log of a node without records, and the process that talks to its seat.

use crate::{atoms, durable, erts};
use parking_lot::{Mutex, RwLock};
use rustler::types::atom::Atom;
use rustler::{Binary, Encoder, Env, LocalPid, NewBinary, NifResult, Term};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use todana_command::{DATABASES, FORMAT_MAX, VALUE_BYTES_MAX};
use todana_group::{
    GUEST_WIRE, Guest, Homes, QUEUE_BYTES_MAX, RecordCounts, SeatFacts, Submit, Wake,
};

/// Bytes of answers that may be copied on a normal scheduler: some ten microseconds.
const ANSWER_BYTES_MAX: usize = 256 << 10;

/// Bytes of changes that may be passed on by a normal scheduler: some hundred keys.
const CHANGE_BYTES_MAX: usize = 8 << 10;

static GUEST: RwLock<Option<Arc<Guest>>> = RwLock::new(None);

/// Whether each write of the members is on disk when it is answered.
static ALWAYS: AtomicBool = AtomicBool::new(false);

/// The process that takes parcels.
static LINK: Mutex<Option<LocalPid>> = Mutex::new(None);

struct WakeLink;

impl Wake for WakeLink {
    fn wake(&self) {
        let link = *LINK.lock();
        if let Some(link) = link {
            erts::send(link, |_| atoms::todana_ready().as_c_arg());
        }
    }
}

/// The guest, if this node is one.
fn guest() -> Option<Arc<Guest>> {
    GUEST.read().clone()
}

/// Where the durable databases live, if this node is a guest.
pub(crate) fn homes() -> Option<Homes> {
    Some(Homes::in_one(guest()? as Arc<dyn Submit>))
}

/// Whether durable databases of this node have no records here.
pub(crate) fn is_away() -> bool {
    GUEST.read().is_some()
}

/// Whether each write of the members is on disk when it is answered, as far as this guest knows.
pub(crate) fn always() -> bool {
    ALWAYS.load(Relaxed)
}

fn the_guest() -> NifResult<Arc<Guest>> {
    guest().ok_or(rustler::Error::BadArg)
}

/// `guest_wire() -> Number`: the version of what a guest and its seat send each other.
#[rustler::nif]
fn guest_wire() -> u8 {
    GUEST_WIRE
}

/// `guest_open() -> ok`: this node is a guest from now on. If it is one, that stays.
#[rustler::nif]
fn guest_open() -> Atom {
    let mut guest = GUEST.write();
    if guest.is_none() {
        *guest = Some(Guest::new(Box::new(WakeLink), QUEUE_BYTES_MAX, VALUE_BYTES_MAX));
    }
    atoms::ok()
}

/// `guest_close() -> ok`: this node is no guest any more. What waits is dropped.
#[rustler::nif(schedule = "DirtyCpu")]
fn guest_close() -> Atom {
    let ended = GUEST.write().take();
    if let Some(guest) = ended {
        guest.close("the application was stopped");
    }
    atoms::ok()
}

/// `guest_attach(Pid) -> ok`: this process receives `todana_ready` when there is a parcel. What its
/// predecessor has sent is lost.
#[rustler::nif(schedule = "DirtyCpu")]
fn guest_attach(link: LocalPid) -> NifResult<Atom> {
    let guest = the_guest()?;
    *LINK.lock() = Some(link);
    guest.lose_seat();
    Ok(atoms::ok())
}

/// `guest_seat(Gate, #{value_bytes_max, format, now_ms, others, always, counts}, Reason) -> ok`:
/// what the seat says of itself. An older one does not count its records.
#[rustler::nif(schedule = "DirtyCpu")]
fn guest_seat(word: Atom, facts: Term<'_>, reason: &str) -> NifResult<Atom> {
    let number = |name: &str| -> NifResult<u64> {
        facts.map_get(Atom::from_str(facts.get_env(), name)?)?.decode()
    };
    let is_always = number("always")? > 0;
    let counted = facts.map_get(Atom::from_str(facts.get_env(), "counts")?);
    let counted = counted.map_or_else(|_| Ok(Vec::new()), |it| it.decode::<Vec<(u64, u64)>>())?;
    let mut counts = [RecordCounts::default(); DATABASES];
    for (place, (entries, entries_with_expiry)) in counts.iter_mut().zip(counted) {
        *place = RecordCounts { entries, entries_with_expiry };
    }
    let facts = SeatFacts {
        gate: durable::gate_of(word).ok_or(rustler::Error::BadArg)?,
        value_bytes_max: usize::try_from(number("value_bytes_max")?).unwrap_or(usize::MAX),
        format: u8::try_from(number("format")?).unwrap_or(FORMAT_MAX),
        now_ms: number("now_ms")?,
        others: usize::try_from(number("others")?).unwrap_or(usize::MAX),
    };
    ALWAYS.store(is_always, Relaxed);
    let guest = the_guest()?;
    guest.set_counts(counts);
    guest.set_seat(facts, reason);
    Ok(atoms::ok())
}

/// `guest_lose_seat() -> ok`: the seat answers no more. Reads wait for the next one, and the
/// outcome of writes that were sent is unknown.
#[rustler::nif(schedule = "DirtyCpu")]
fn guest_lose_seat() -> NifResult<Atom> {
    the_guest()?.lose_seat();
    Ok(atoms::ok())
}

/// `guest_shut(Reason) -> ok`: no member can be reached, so nothing is read or written.
#[rustler::nif(schedule = "DirtyCpu")]
fn guest_shut(reason: &str) -> NifResult<Atom> {
    the_guest()?.close(reason);
    Ok(atoms::ok())
}

/// `guest_take() -> {ok, Parcel} | empty`.
#[rustler::nif]
fn guest_take(env: Env<'_>) -> NifResult<Term<'_>> {
    let Some(bytes) = the_guest()?.take() else { return Ok(atoms::empty().encode(env)) };
    let mut parcel = NewBinary::new(env, bytes.len());
    parcel.as_mut_slice().copy_from_slice(&bytes);
    erts::bill(env.as_c_arg(), bytes.len());
    Ok((atoms::ok(), Binary::from(parcel)).encode(env))
}

/// `guest_answer(Answers, Index, Full) -> ok | dirty`: what the seat has answered, when it had
/// applied the entry of this index and these databases were full.
#[rustler::nif]
fn guest_answer(answers: Binary<'_>, index: u64, full: u16) -> NifResult<Atom> {
    if answers.len() > ANSWER_BYTES_MAX {
        return Ok(atoms::dirty());
    }
    the_guest()?.answer(&answers, index, full);
    Ok(atoms::ok())
}

/// The same, of any length.
#[rustler::nif(schedule = "DirtyCpu")]
fn guest_answer_dirty(answers: Binary<'_>, index: u64, full: u16) -> NifResult<Atom> {
    the_guest()?.answer(&answers, index, full);
    Ok(atoms::ok())
}

/// `guest_changed(Changes) -> ok | dirty`: keys that have changed at the seat. Those that a
/// submission of this node has changed come before its answer.
#[rustler::nif]
fn guest_changed(changes: Binary<'_>) -> NifResult<Atom> {
    if changes.len() > CHANGE_BYTES_MAX {
        return Ok(atoms::dirty());
    }
    the_guest()?.take_changes(&changes);
    Ok(atoms::ok())
}

/// The same, of any length.
#[rustler::nif(schedule = "DirtyCpu")]
fn guest_changed_dirty(changes: Binary<'_>) -> NifResult<Atom> {
    the_guest()?.take_changes(&changes);
    Ok(atoms::ok())
}

/// `guest_index() -> Index`: the last entry of the log that a seat had applied when it answered a
/// client of this node. The next seat must have it, too: clients read their own writes.
#[rustler::nif]
fn guest_index() -> NifResult<u64> {
    Ok(the_guest()?.applied_index())
}

/// `guest_note_index(Index) -> ok`: a seat has answered a process of this node.
#[rustler::nif]
fn guest_note_index(index: u64) -> NifResult<Atom> {
    the_guest()?.note_index(index);
    Ok(atoms::ok())
}

/// `guest_forget_index() -> ok`: the log of the members is another one.
#[rustler::nif]
fn guest_forget_index() -> NifResult<Atom> {
    the_guest()?.forget_index();
    Ok(atoms::ok())
}

/// `guest_info() -> {Gate, QueueBytes, Sent}`: whether the seat accepts writes, and how much waits.
#[rustler::nif]
fn guest_info(env: Env<'_>) -> NifResult<Term<'_>> {
    let guest = the_guest()?;
    let (queue_bytes, sent) = guest.figures();
    Ok((durable::figure_of(guest.gate()), queue_bytes, sent).encode(env))
}
