//! The Erlang process that keeps the log (`todana_status`), as servers see it.

use crate::{atoms, durable, erts, guest, interest, spread, topology};
use parking_lot::Mutex;
use rustler::types::atom::Atom;
use rustler::{Env, LocalPid, NifResult, Term};
use std::sync::Arc;
use todana_group::{Gate, GroupNumber};
use todana_protocol::{Persistence, Request};
use todana_resp::{Topic, Topology};
use todana_server::Keeper;

/// What the process noted last.
static NOTED: Mutex<Option<Arc<Persistence>>> = Mutex::new(None);

static REQUESTS: Mutex<Requests> = Mutex::new(Requests { keeper: None, last: 0 });

struct Requests {
    /// The process that receives them.
    keeper: Option<LocalPid>,
    /// The number of the last one.
    last: u64,
}

#[derive(Debug)]
struct NodeKeeper;

/// The keeper, if there are durable databases.
pub(crate) fn keeper() -> Option<Arc<dyn Keeper>> {
    durable::homes().map(|_| Arc::new(NodeKeeper) as Arc<dyn Keeper>)
}

impl Keeper for NodeKeeper {
    fn persistence(&self) -> Arc<Persistence> {
        let mut noted = NOTED.lock().clone().unwrap_or_default();
        if let Some(homes) = durable::homes() {
            let gate = homes.group(GroupNumber::default()).gate();
            let now = Arc::make_mut(&mut noted);
            now.always = now.always || guest::always();
            (now.loading, now.writable) = (gate == Gate::Closed, gate == Gate::Open);
        }
        noted
    }

    fn topology(&self) -> Option<Arc<Topology>> {
        topology::noted()
    }

    fn publish(&self, topic: Topic, channel: &[u8], message: &[u8]) {
        spread::publish(topic, channel, message);
    }

    fn announce(&self, topic: Topic, names: &[&[u8]]) -> bool {
        interest::want(topic, names)
    }

    fn begin_topic(&self, topic: Topic, name: &Arc<[u8]>) {
        interest::begin(topic, name);
    }

    fn end_topic(&self, topic: Topic, name: &[u8]) {
        interest::end(topic, name);
    }

    fn dropped_messages(&self) -> u64 {
        spread::dropped()
    }

    fn is_led_elsewhere(&self) -> bool {
        topology::is_led_elsewhere()
    }

    fn request(&self, request: Request) -> u64 {
        let word = match request {
            Request::Snapshot => atoms::snapshot(),
            Request::WaitedSnapshot => atoms::waited_snapshot(),
            Request::Sync => atoms::sync(),
        };
        let mut requests = REQUESTS.lock();
        requests.last += 1;
        let number = requests.last;
        if let Some(keeper) = requests.keeper {
            // With the lock, so that requests arrive in the order of their numbers.
            erts::send(keeper, |env| {
                let number = erts::make_u64(env, number);
                erts::tuple(env, &[atoms::todana_keeper().as_c_arg(), word.as_c_arg(), number])
            });
        }
        number
    }
}

/// `persistence_attach(Pid) -> {Done, Last}`: this process receives `{todana_keeper, Request,
/// Number}`, with numbers above `Last`, in their order. The requests between the two numbers were
/// received by a process that has not noted that they are done.
#[rustler::nif]
fn persistence_attach(keeper: LocalPid) -> (u64, u64) {
    let mut requests = REQUESTS.lock();
    requests.keeper = Some(keeper);
    let done = NOTED.lock().as_ref().map_or(0, |noted| noted.done);
    (done, requests.last)
}

/// `persistence_note(Figures) -> ok`: what clients see from now on.
#[rustler::nif]
fn persistence_note<'a>(env: Env<'a>, figures: Term<'a>) -> NifResult<Atom> {
    let term = |name: &str| -> NifResult<Term<'a>> { figures.map_get(Atom::from_str(env, name)?) };
    let number = |name: &str| -> NifResult<u64> { term(name)?.decode() };
    let flag = |name: &str| -> NifResult<bool> { term(name)?.decode() };
    *NOTED.lock() = Some(Arc::new(Persistence {
        data_dir: term("data_dir")?.decode()?,
        always: flag("always")?,
        loading: false,
        loading_percent: number("loading_percent")?,
        writable: true,
        log_bytes: number("log_bytes")?,
        snapshot_bytes: number("snapshot_bytes")?,
        changes: number("changes")?,
        snapshots: number("snapshots")?,
        snapshot_in_progress: flag("snapshot_in_progress")?,
        snapshot_failed: flag("snapshot_failed")?,
        snapshot_at_s: number("snapshot_at_s")?,
        snapshot_seconds: term("snapshot_seconds")?.decode().ok(),
        commit_us: term("commit_us")?.decode().ok(),
        fsync_us: term("fsync_us")?.decode().ok(),
        done: number("done")?,
    }));
    Ok(atoms::ok())
}
