//! Messages to channels that go to the other nodes of the cluster ([`SpreadQueue`]): the Erlang
//! process that sends them (`todana_spread`).

use crate::{atoms, erts, interest};
use parking_lot::Mutex;
use rustler::types::atom::Atom;
use rustler::{Binary, Encoder, Env, LocalPid, NewBinary, Term};
use todana_resp::Topic;
use todana_server::{Selection, SpreadQueue};

static QUEUE: SpreadQueue = SpreadQueue::new();

/// The process that takes the bundles.
static PROCESS: Mutex<Option<LocalPid>> = Mutex::new(None);

/// The number of messages that were dropped.
pub(crate) fn dropped() -> u64 {
    QUEUE.dropped()
}

/// Passes a message to the other nodes, or drops it.
pub(crate) fn publish(topic: Topic, channel: &[u8], message: &[u8]) {
    if !QUEUE.publish(topic, channel, message) {
        return;
    }
    let process = *PROCESS.lock();
    if let Some(process) = process {
        erts::send(process, |_| atoms::todana_spread().as_c_arg());
    }
}

/// `spread_attach(Pid) -> ok`: this process receives `todana_spread` when there is a bundle, and
/// then takes bundles until there is none.
#[rustler::nif]
fn spread_attach(process: LocalPid) -> Atom {
    *PROCESS.lock() = Some(process);
    QUEUE.attach();
    atoms::ok()
}

/// `spread_detach() -> ok`: the node belongs to no cluster any more.
#[rustler::nif]
fn spread_detach() -> Atom {
    QUEUE.detach();
    *PROCESS.lock() = None;
    atoms::ok()
}

/// `spread_take(Nodes) -> {Bundle, [Bundle | nothing]} | empty`: the next bundle, and what each of
/// these nodes gets of it. After `empty`, the next message wakes the process.
#[rustler::nif(schedule = "DirtyCpu")]
fn spread_take<'a>(env: Env<'a>, nodes: Vec<Atom>) -> Term<'a> {
    let Some(bundle) = QUEUE.take() else { return atoms::empty().encode(env) };
    let binary = binary(env, &bundle);
    (binary, selected(env, binary, &bundle, &nodes)).encode(env)
}

/// `spread_select(Bundle, Nodes) -> [Bundle | nothing]`: what each of these nodes gets of a bundle
/// of another node.
#[rustler::nif(schedule = "DirtyCpu")]
fn spread_select<'a>(env: Env<'a>, bundle: Binary<'a>, nodes: Vec<Atom>) -> Vec<Term<'a>> {
    let bytes = bundle.as_slice();
    selected(env, bundle.encode(env), bytes, &nodes)
}

fn selected<'a>(env: Env<'a>, whole: Term<'a>, bundle: &[u8], nodes: &[Atom]) -> Vec<Term<'a>> {
    let mut terms: Vec<Term<'a>> = Vec::with_capacity(nodes.len());
    for selection in interest::select(bundle, nodes) {
        terms.push(match selection {
            Selection::Nothing => atoms::nothing().encode(env),
            Selection::Everything => whole,
            Selection::Same(number) => terms[number],
            Selection::Some(some) => binary(env, &some),
        });
    }
    terms
}

fn binary<'a>(env: Env<'a>, bytes: &[u8]) -> Term<'a> {
    let mut binary = NewBinary::new(env, bytes.len());
    binary.as_mut_slice().copy_from_slice(bytes);
    Binary::from(binary).encode(env)
}

/// `spread_dropped(Bundle) -> ok`: the messages of this bundle did not reach another node.
#[rustler::nif(schedule = "DirtyCpu")]
fn spread_dropped(bundle: Binary<'_>) -> Atom {
    QUEUE.note_dropped(bundle.as_slice());
    atoms::ok()
}
