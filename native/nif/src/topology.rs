//! The cluster, as the Erlang process that watches it (`todana_topology`) has noted it.

use crate::atoms;
use parking_lot::Mutex;
use rustler::types::atom::Atom;
use rustler::{Env, Error, NifResult, Term};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use todana_resp::{ClusterNode, Topology};

static NOTED: Mutex<Option<Arc<Topology>>> = Mutex::new(None);

/// [`Topology::is_led_elsewhere`] of what was noted.
static LED_ELSEWHERE: AtomicBool = AtomicBool::new(false);

/// The cluster; `None` if the node belongs to none.
pub(crate) fn noted() -> Option<Arc<Topology>> {
    NOTED.lock().clone()
}

/// Whether another node leads.
pub(crate) fn is_led_elsewhere() -> bool {
    LED_ELSEWHERE.load(Relaxed)
}

/// `cluster_topology(Topology | none) -> ok`: what clients see from now on.
#[rustler::nif]
fn cluster_topology<'a>(env: Env<'a>, topology: Term<'a>) -> NifResult<Atom> {
    let topology = match topology.is_map() {
        true => Some(Arc::new(read(env, topology)?)),
        false => None,
    };
    let led = topology.as_ref().is_some_and(|topology| topology.is_led_elsewhere());
    *NOTED.lock() = topology;
    LED_ELSEWHERE.store(led, Relaxed);
    Ok(atoms::ok())
}

fn read<'a>(env: Env<'a>, map: Term<'a>) -> NifResult<Topology> {
    type Words = (String, String, String, u16, u16, bool, u64);
    let term = |name: &str| -> NifResult<Term<'a>> { map.map_get(Atom::from_str(env, name)?) };
    let nodes: Vec<Words> = term("nodes")?.decode()?;
    let node = |(id, name, host, resp_port, redirect_port, is_connected, offset)| ClusterNode {
        id,
        name,
        host,
        resp_port,
        redirect_port,
        is_connected,
        offset,
    };
    let topology = Topology {
        id: term("id")?.decode()?,
        epoch: term("epoch")?.decode()?,
        nodes: nodes.into_iter().map(node).collect(),
        own: term("own")?.decode()?,
        leader: term("leader")?.decode().ok(),
        is_led: term("is_led")?.decode()?,
    };
    let exists = |at: usize| at < topology.nodes.len();
    match exists(topology.own) && topology.leader.is_none_or(exists) {
        true => Ok(topology),
        false => Err(Error::BadArg),
    }
}
