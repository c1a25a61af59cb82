//! Messages to channels that go to the other nodes of the cluster, and those that come from them.
//!
//! Publishers append to a bounded queue and do not wait. An Erlang process (`todana_spread`) is
//! woken once for all of them, takes them in batches and sends each batch to the other members.
//!
//! ```text
//! 0   topic: 0 channel, 2 sharded channel      9 bytes, the channel and the message, repeated
//! 1   length of the channel
//! 5   length of the message
//! 9   channel, message
//! ```

use crate::{atoms, erts};
use parking_lot::Mutex;
use rustler::types::atom::Atom;
use rustler::{Binary, Encoder, Env, LocalPid, NewBinary, Term};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use todana_resp::Topic;

/// Maximum bytes that wait for the process.
const WAITING_BYTES_MAX: usize = 16 << 20;
/// Maximum bytes of a batch, unless a single message has more.
const BATCH_BYTES_MAX: usize = 256 << 10;
const HEADER_BYTES: usize = 9;

static QUEUE: Mutex<Queue> =
    Mutex::new(Queue { batches: VecDeque::new(), bytes: 0, process: None, is_awake: false });

/// Whether there is a process, so that a node without a cluster takes no lock.
static IS_ATTACHED: AtomicBool = AtomicBool::new(false);

/// Messages that were dropped since the node was started.
static DROPPED: AtomicU64 = AtomicU64::new(0);

struct Queue {
    batches: VecDeque<Vec<u8>>,
    bytes: usize,
    process: Option<LocalPid>,
    /// The process will take the next batch without being woken.
    is_awake: bool,
}

/// The number of messages that were dropped.
pub(crate) fn dropped() -> u64 {
    DROPPED.load(Relaxed)
}

/// Passes a message to the other nodes, or drops it.
pub(crate) fn publish(topic: Topic, channel: &[u8], message: &[u8]) {
    if !IS_ATTACHED.load(Relaxed) {
        return;
    }
    let (Ok(channel_len), Ok(message_len)) =
        (u32::try_from(channel.len()), u32::try_from(message.len()))
    else {
        return;
    };
    let bytes = HEADER_BYTES + channel.len() + message.len();
    let mut queue = QUEUE.lock();
    if queue.bytes + bytes > WAITING_BYTES_MAX && queue.bytes > 0 {
        DROPPED.fetch_add(1, Relaxed);
        return;
    }
    let has_room = |batch: &&mut Vec<u8>| batch.len() + bytes <= BATCH_BYTES_MAX;
    if queue.batches.back_mut().filter(has_room).is_none() {
        queue.batches.push_back(Vec::with_capacity(bytes));
    }
    if let Some(batch) = queue.batches.back_mut() {
        batch.push(topic as u8);
        batch.extend_from_slice(&channel_len.to_le_bytes());
        batch.extend_from_slice(&message_len.to_le_bytes());
        batch.extend_from_slice(channel);
        batch.extend_from_slice(message);
    }
    queue.bytes += bytes;
    let process = queue.process.filter(|_| !std::mem::replace(&mut queue.is_awake, true));
    drop(queue);
    if let Some(process) = process {
        erts::send(process, |_| atoms::todana_spread().as_c_arg());
    }
}

/// The messages of a batch, up to the first that is not well formed.
pub(crate) fn messages(mut rest: &[u8]) -> impl Iterator<Item = (Topic, &[u8], &[u8])> {
    std::iter::from_fn(move || {
        let (&topic, after) = rest.split_first()?;
        let (channel_len, after) = after.split_first_chunk()?;
        let (message_len, after) = after.split_first_chunk()?;
        let (channel, after) = after.split_at_checked(u32::from_le_bytes(*channel_len) as usize)?;
        let (message, after) = after.split_at_checked(u32::from_le_bytes(*message_len) as usize)?;
        rest = after;
        let topic = *Topic::ALL.get(usize::from(topic))?;
        (topic != Topic::Pattern).then_some((topic, channel, message))
    })
}

/// `spread_attach(Pid) -> ok`: this process receives `todana_spread` when there is a batch, and
/// then takes batches until there is none.
#[rustler::nif]
fn spread_attach(process: LocalPid) -> Atom {
    let mut queue = QUEUE.lock();
    (queue.process, queue.is_awake) = (Some(process), true);
    IS_ATTACHED.store(true, Relaxed);
    atoms::ok()
}

/// `spread_detach() -> ok`: the node belongs to no cluster any more.
#[rustler::nif]
fn spread_detach() -> Atom {
    IS_ATTACHED.store(false, Relaxed);
    let mut queue = QUEUE.lock();
    (queue.process, queue.bytes) = (None, 0);
    queue.batches.clear();
    atoms::ok()
}

/// `spread_take() -> Batch | empty`: the next batch. After `empty`, the next message wakes the
/// process.
#[rustler::nif(schedule = "DirtyCpu")]
fn spread_take(env: Env<'_>) -> Term<'_> {
    let mut queue = QUEUE.lock();
    let Some(batch) = queue.batches.pop_front() else {
        queue.is_awake = false;
        return atoms::empty().encode(env);
    };
    queue.bytes -= batch.len();
    drop(queue);
    let mut binary = NewBinary::new(env, batch.len());
    binary.as_mut_slice().copy_from_slice(&batch);
    Binary::from(binary).encode(env)
}

/// `spread_dropped(Batch) -> ok`: the messages of this batch did not reach another node.
#[rustler::nif(schedule = "DirtyCpu")]
fn spread_dropped(batch: Binary<'_>) -> Atom {
    DROPPED.fetch_add(messages(batch.as_slice()).count() as u64, Relaxed);
    atoms::ok()
}
