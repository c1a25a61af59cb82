//! Which messages to channels the nodes of a cluster want ([`Interest`], [`Announced`]): the Erlang
//! process that carries announcements (`todana_interest`).

use crate::{atoms, erts};
use parking_lot::Mutex;
use rustler::types::atom::Atom;
use rustler::{Binary, Encoder, Env, LocalPid, NewBinary, Term};
use std::sync::{Arc, LazyLock};
use std::time::Instant;
use todana_resp::Topic;
use todana_server::{Announced, Announcement, Change, Interest, Item, Selection};

static INTEREST: LazyLock<Interest> = LazyLock::new(Interest::new);

static ANNOUNCED: LazyLock<Announced<Atom>> = LazyLock::new(Announced::new);

/// The process that carries announcements.
static PROCESS: Mutex<Option<LocalPid>> = Mutex::new(None);

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

fn now_ms() -> u64 {
    START.elapsed().as_millis() as u64
}

fn wake(is_due: bool) {
    let process = if is_due { *PROCESS.lock() } else { None };
    if let Some(process) = process {
        erts::send(process, |_| atoms::todana_interest().as_c_arg());
    }
}

/// A client is about to subscribe to these names. Returns whether all other nodes know it.
pub(crate) fn want(topic: Topic, names: &[&[u8]]) -> bool {
    let (is_known, wakes) = INTEREST.want(topic, names, now_ms());
    wake(wakes);
    is_known
}

/// A name has its first subscriber.
pub(crate) fn begin(topic: Topic, name: &Arc<[u8]>) {
    wake(INTEREST.hold(Item::shared(topic, name), now_ms()));
}

/// The last subscriber of a name has left.
pub(crate) fn end(topic: Topic, name: &[u8]) {
    INTEREST.release(&Item::of(topic, name), now_ms());
}

/// What each of these nodes gets of a bundle.
pub(crate) fn select(bundle: &[u8], nodes: &[Atom]) -> Vec<Selection> {
    ANNOUNCED.select(bundle, nodes)
}

/// This node wants what its guests want.
fn hold(changes: Vec<Change>) {
    let now_ms = now_ms();
    for (item, is_wanted) in changes {
        if is_wanted {
            wake(INTEREST.hold(item, now_ms));
        } else {
            INTEREST.release(&item, now_ms);
        }
    }
}

/// `interest_attach(Pid) -> ok`: this process receives `todana_interest` when there is something to
/// announce, and then takes announcements until there is none. Nothing is known of other nodes.
#[rustler::nif]
fn interest_attach(process: LocalPid) -> Atom {
    *PROCESS.lock() = Some(process);
    hold(ANNOUNCED.forget_all());
    INTEREST.attach();
    atoms::ok()
}

/// `interest_detach() -> ok`: the node belongs to no cluster any more.
#[rustler::nif]
fn interest_detach() -> Atom {
    INTEREST.detach();
    *PROCESS.lock() = None;
    hold(ANNOUNCED.forget_all());
    atoms::ok()
}

/// `interest_take() -> {Number, IsFull, Items} | empty`: the next announcement.
#[rustler::nif(schedule = "DirtyCpu")]
fn interest_take(env: Env<'_>) -> Term<'_> {
    INTEREST.take(now_ms()).map_or_else(|| atoms::empty().encode(env), |it| announcement(env, it))
}

/// `interest_full() -> {Number, true, Items}`: all that was announced.
#[rustler::nif(schedule = "DirtyCpu")]
fn interest_full(env: Env<'_>) -> Term<'_> {
    announcement(env, INTEREST.full())
}

fn announcement(env: Env<'_>, announcement: Announcement) -> Term<'_> {
    let mut items = NewBinary::new(env, announcement.items.len());
    items.as_mut_slice().copy_from_slice(&announcement.items);
    (announcement.number, announcement.is_full, Binary::from(items)).encode(env)
}

/// `interest_known(Number | infinity) -> ok`: all other nodes know this announcement; `infinity` if
/// there are none.
#[rustler::nif]
fn interest_known(number: Term<'_>) -> Atom {
    INTEREST.note_known(number.decode().unwrap_or(u64::MAX));
    atoms::ok()
}

/// `interest_note(Node, IsGuest, {Number, IsFull, Items}) -> boolean()`: a node has announced
/// something. False if an announcement before this one is missing.
#[rustler::nif(schedule = "DirtyCpu")]
fn interest_note(node: Atom, is_guest: bool, announced: (u64, bool, Binary<'_>)) -> bool {
    let (number, is_full, items) = announced;
    let noted = ANNOUNCED.note(node, is_guest, number, is_full, items.as_slice());
    let is_complete = noted.is_some();
    hold(noted.unwrap_or_else(|| ANNOUNCED.forget(node)));
    is_complete
}

/// `interest_forget(Node) -> ok`: nothing is known of a node any more.
#[rustler::nif(schedule = "DirtyCpu")]
fn interest_forget(node: Atom) -> Atom {
    hold(ANNOUNCED.forget(node));
    atoms::ok()
}
