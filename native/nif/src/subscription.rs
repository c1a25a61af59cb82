//! Subscriptions: report the changes of a table to one process.
//!
//! Events wait in a bounded queue outside the process ([`EventQueue`]), and the process takes a
//! bundle when it is ready for one. It receives one message, `{todana, Subscription, ready}`, when
//! the queue gets its first event; the next such message follows only after it has taken a bundle.
//! So neither its mailbox nor its heap grows with the rate of changes, and no other process is
//! between it and the table.
//!
//! # What keeps a subscription alive, and what ends it
//!
//! The table's list of observers owns a reference to the resource, and so does the [`Store`], which
//! ends its subscriptions when the table is closed. [`Subscription::end`] gives up both references:
//! it is called when the subscriber unsubscribes, when the subscriber dies (the BEAM's monitor
//! calls it through [`Watched::down`]), when the table is closed, and when the module is loaded
//! after it was deleted and purged. A term of the subscription that still exists then refers to an
//! empty queue and to no table.

use crate::codec::{self, Decoded, EncodeBuffer, Misuse};
use crate::erts::{self, Raw, RawEnv, ResourceRef, ResourceType, Watched};
use crate::store::{Codec, Store, Subscribed};
use crate::{atoms, tables, values};
use parking_lot::Mutex;
use rustler::types::atom::Atom;
use rustler::{Encoder, Env, LocalPid, Term};
use std::sync::Arc;
use std::time::Instant;
use todana_table::{
    Event, EventFilter, EventKind, EventQueue, Events, KeyFilter, Observer, QueueLimits, Queued,
};

/// Resources for subscriptions.
pub(crate) static SUBSCRIPTION: ResourceType<Subscription> =
    ResourceType::new(c"todana_subscription");

/// Maximum bytes of the events in one queue: keys, and 13 bytes for each event.
const QUEUE_BYTES_MAX: usize = 8 << 20;

/// Bytes of external terms that are decoded for one bundle, in at most 1 ms; the Erlang side
/// decodes the others.
const EXTERNAL_BYTES_PER_BUNDLE: usize = 16 << 10;

/// A subscription of one process to one table.
pub(crate) struct Subscription {
    queue: EventQueue,
    codec: Codec,
    subscriber: LocalPid,
    /// `None` when it has ended.
    observed: Mutex<Option<Observed>>,
}

struct Observed {
    store: Arc<Store>,
    observer: Arc<dyn Observer>,
}

/// The observer that the table calls for each change.
struct Tap(ResourceRef<Subscription>);

impl Observer for Tap {
    fn observe(&self, event: &Event<'_>) {
        if self.0.queue.push(event) {
            notify(&self.0, atoms::ready());
        }
    }
}

/// Sends `{todana, Subscription, Word}` to the subscriber.
fn notify(subscription: &ResourceRef<Subscription>, word: Atom) {
    erts::send(subscription.subscriber, |env| {
        let term = subscription.term(env);
        erts::tuple(env, &[atoms::todana().as_c_arg(), term, word.as_c_arg()])
    });
}

impl Subscription {
    /// Ends it and calls `finish`, or does nothing if it has ended before. When this returns, the
    /// subscriber receives no more messages, whichever thread ended the subscription.
    fn end(&self, finish: impl FnOnce()) {
        // Held until the last message is sent: another thread that ends the subscription waits for
        // it. No observer takes this lock, so `forget` may wait for observers meanwhile.
        let mut observed = self.observed.lock();
        let Some(ended) = observed.take() else { return };
        // Returns when no report of a change is in progress.
        ended.store.forget(&ended.observer);
        ended.store.subscriptions().lock().retain(|other| other.address() != self.address());
        self.queue.clear();
        finish();
        drop(observed);
        // Last: the observer may own the last reference to this subscription.
        drop(ended);
    }

    fn address(&self) -> *const () {
        std::ptr::from_ref(self).cast()
    }

    /// Calls `send` unless the subscription has ended.
    fn unless_ended(&self, send: impl FnOnce()) {
        let observed = self.observed.lock();
        if observed.is_some() {
            send();
        }
    }
}

impl Watched for Subscription {
    fn down(&self) {
        self.end(|| ());
    }
}

impl Subscribed for ResourceRef<Subscription> {
    fn close(&self) {
        self.end(|| notify(self, atoms::closed()));
    }

    fn address(&self) -> *const () {
        (**self).address()
    }
}

/// `subscribe(Handle, Keys, Kinds, EventsMax, Form) -> {ok, Subscription} | {error,
/// too_many_subscriptions}`. `Keys` is `all`, `{prefix, Bytes}` or `{key, Key}`; `Form` indicates
/// whether `Key` is encoded.
#[rustler::nif]
fn subscribe<'a>(
    env: Env<'a>,
    handle: Term<'a>,
    keys: Term<'a>,
    kinds: Vec<Atom>,
    events_max: usize,
    form: u32,
) -> Term<'a> {
    open(env, handle, keys, &kinds, events_max, form).unwrap_or_else(|misuse| misuse.term(env))
}

fn open<'a>(
    env: Env<'a>,
    handle: Term<'a>,
    keys: Term<'a>,
    kinds: &[Atom],
    events_max: usize,
    form: u32,
) -> Result<Term<'a>, Misuse> {
    let raw_env = env.as_c_arg();
    // SAFETY: both belong to the present call.
    let store = unsafe { tables::shared(raw_env, handle.as_c_arg())? };
    let kinds = EventKind::ALL.into_iter().filter(|kind| kinds.contains(&word(*kind))).collect();
    let filter = EventFilter { kinds, keys: key_filter(&store, env, keys, form)? };
    let limits = QueueLimits { events_max, bytes_max: QUEUE_BYTES_MAX };
    let queue = EventQueue::new(filter, limits);
    let (codec, subscriber, observed) = (store.codec, env.pid(), Mutex::new(None));
    let subscription = SUBSCRIPTION.make(Subscription { queue, codec, subscriber, observed }, 0);
    let observer: Arc<dyn Observer> = Arc::new(Tap(subscription.clone()));
    // Held until the subscription is complete: a thread that closes the table, or that handles the
    // death of the subscriber, waits for it.
    let mut observed = subscription.observed.lock();
    let mut subscriptions = store.subscriptions().lock();
    if store.is_closed() {
        return Err(Misuse::Argument(1, atoms::no_such_table()));
    }
    if store.observe(Arc::clone(&observer)).is_err() {
        return Ok(env.error_tuple(atoms::too_many_subscriptions()));
    }
    subscriptions.push(Box::new(subscription.clone()));
    drop(subscriptions);
    *observed = Some(Observed { store, observer });
    drop(observed);
    if !SUBSCRIPTION.watch(raw_env, &subscription, &subscriber) {
        // The process is about to die.
        subscription.end(|| ());
    }
    // SAFETY: the term was made in this environment.
    let term = unsafe { Term::new(env, subscription.term(raw_env)) };
    Ok((atoms::ok(), term).encode(env))
}

fn key_filter<'a>(
    store: &Store,
    env: Env<'a>,
    keys: Term<'a>,
    form: u32,
) -> Result<KeyFilter, Misuse> {
    let raw_env = env.as_c_arg();
    // SAFETY: the term belongs to the present call.
    let words = unsafe { erts::elements(raw_env, keys.as_c_arg()) };
    let Some(&[what, key]) = words else { return Ok(KeyFilter::All) };
    if what == atoms::prefix().as_c_arg() {
        // SAFETY: as above.
        let prefix = unsafe { erts::binary(raw_env, key) };
        let prefix = prefix.ok_or(Misuse::Argument(2, atoms::not_iodata()))?;
        return Ok(KeyFilter::Prefix(Box::from(prefix)));
    }
    let mut buffer = EncodeBuffer::new();
    // SAFETY: as above.
    let key = unsafe { codec::key(store, raw_env, key, form, &mut buffer)? };
    Ok(KeyFilter::Key(Box::from(key)))
}

/// The atom for a kind of event.
fn word(kind: EventKind) -> Atom {
    match kind {
        EventKind::Put => atoms::put(),
        EventKind::Delete => atoms::delete(),
        EventKind::Expire => atoms::expire(),
        EventKind::Evict => atoms::evict(),
        EventKind::Clear => atoms::clear(),
        EventKind::Swap => atoms::swap(),
    }
}

/// `events(Subscription) -> [{Kind, Key, Version} | {Kind, Key, Version, encoded} | {clear | swap,
/// Version} | {lost, Count}]`, the oldest bundle. The Erlang side decodes keys that are `encoded`.
#[rustler::nif]
fn events<'a>(env: Env<'a>, subscription: Term<'a>) -> Term<'a> {
    let (started, raw_env) = (Instant::now(), env.as_c_arg());
    // SAFETY: both belong to the present call.
    let Some(subscription) = (unsafe { SUBSCRIPTION.shared(raw_env, subscription.as_c_arg()) })
    else {
        return Misuse::Argument(1, atoms::not_a_subscription()).term(env);
    };
    let (bundle, more) = subscription.queue.take();
    let list = list_of(raw_env, subscription.codec, &bundle);
    if more {
        subscription.unless_ended(|| notify(&subscription, atoms::ready()));
    }
    erts::consume_timeslice(raw_env, started.elapsed());
    // SAFETY: the list was made in this environment.
    unsafe { Term::new(env, list) }
}

fn list_of(env: RawEnv, codec: Codec, bundle: &Events) -> Raw {
    let mut left = EXTERNAL_BYTES_PER_BUNDLE;
    let mut term = |queued: Queued<'_>| match queued {
        Queued::Lost(count) => {
            erts::tuple(env, &[atoms::lost().as_c_arg(), erts::make_u64(env, count)])
        }
        Queued::Event(Event { kind, key, version }) => {
            let (kind, concerns_all) = (word(kind).as_c_arg(), kind.concerns_all());
            let version = erts::make_u64(env, version);
            if concerns_all {
                return erts::tuple(env, &[kind, version]);
            }
            let copied = |bytes: &[u8]| values::copied(env, bytes);
            match codec::decode_within(codec, env, key, &mut left, copied) {
                Decoded::Term(key) => erts::tuple(env, &[kind, key, version]),
                Decoded::Encoded(key) => {
                    erts::tuple(env, &[kind, key, version, atoms::encoded().as_c_arg()])
                }
            }
        }
    };
    let terms: Vec<Raw> = bundle.iter().map(&mut term).collect();
    terms.iter().rev().fold(erts::nil(env), |list, term| erts::cons(env, *term, list))
}

/// Ends a subscription in any state. On a dirty scheduler, since it waits for reports in progress
/// and frees the queue.
#[rustler::nif(schedule = "DirtyCpu")]
fn unsubscribe<'a>(env: Env<'a>, subscription: Term<'a>) -> Term<'a> {
    // SAFETY: both belong to the present call.
    match unsafe { SUBSCRIPTION.get(env.as_c_arg(), subscription.as_c_arg()) } {
        Some(subscription) => {
            subscription.end(|| ());
            atoms::ok().encode(env)
        }
        None => Misuse::Argument(1, atoms::not_a_subscription()).term(env),
    }
}
