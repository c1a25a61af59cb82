//! Messages to channels that go to the other nodes of the cluster ([`SpreadQueue`]): the Erlang
//! process that sends them (`todana_spread`).

use crate::{atoms, erts};
use parking_lot::Mutex;
use rustler::types::atom::Atom;
use rustler::{Binary, Encoder, Env, LocalPid, NewBinary, Term};
use todana_resp::Topic;
use todana_server::SpreadQueue;

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

/// `spread_take() -> Bundle | empty`: the next bundle. After `empty`, the next message wakes the
/// process.
#[rustler::nif(schedule = "DirtyCpu")]
fn spread_take(env: Env<'_>) -> Term<'_> {
    let Some(bundle) = QUEUE.take() else { return atoms::empty().encode(env) };
    let mut binary = NewBinary::new(env, bundle.len());
    binary.as_mut_slice().copy_from_slice(&bundle);
    Binary::from(binary).encode(env)
}

/// `spread_dropped(Bundle) -> ok`: the messages of this bundle did not reach another node.
#[rustler::nif(schedule = "DirtyCpu")]
fn spread_dropped(bundle: Binary<'_>) -> Atom {
    QUEUE.note_dropped(bundle.as_slice());
    atoms::ok()
}
