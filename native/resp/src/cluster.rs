//! The cluster as clients of Redis Cluster see it: CLUSTER, ASKING, and redirection.
//!
//! The nodes of a cluster have the same records, and one of them leads. So all hash slots belong to
//! the leader, and the other nodes are its replicas. Each node executes all commands. A listener
//! for clients of Redis Cluster redirects them to the leader, which saves a hop.

use super::call::{Call, Done};
use super::commit::not_done;
use super::encoder::{Encoder, Failure};
use super::flow::Flow;
use super::info::{field, write_lines};
use super::number;
use super::reply_format::ReplyFormat;
use super::request::{Built, Request};
use super::state::State;
use super::table::Name;
use crate::{ClusterNode, Host, Topology};
use std::sync::Arc;
use todana_command::{Command, DatabaseCommand, SLOTS, slot_of};
use todana_protocol::Class;

const DISABLED: Failure = Failure::new("ERR This instance has cluster support disabled");
const LAST_SLOT: u16 = SLOTS - 1;

/// Whether a subcommand of CLUSTER can be answered. A node that reads its log does not know the
/// leader yet, and a client that asks for the nodes asks another one then.
pub(super) fn admit<H: Host>(name: Name, host: &H) -> Result<(), Failure> {
    let topology = host.topology();
    let places = [Name::ClusterNodes, Name::ClusterShards, Name::ClusterSlots];
    if places.contains(&name) && !topology.as_ref().is_some_and(|it| it.is_led) {
        host.admit_read(0).map_err(|why| not_done(why, 0, host))?;
    }
    if name == Name::ClusterHelp || topology.is_some() { Ok(()) } else { Err(DISABLED) }
}

/// The failure of a request on a connection that redirects, if it is not for this node.
#[cold]
pub(super) fn elsewhere<H: Host>(
    state: &State,
    name: Name,
    arguments: &[&[u8]],
    host: &H,
) -> Result<(), Failure> {
    let word = |at: usize| arguments.get(at).copied().unwrap_or_default();
    let names_database = || arguments[3..].iter().any(|it| it.eq_ignore_ascii_case(b"db"));
    match name {
        Name::Select if number::integer(word(1)).is_some_and(|it| it != 0) => {
            return Err("ERR SELECT is not allowed in cluster mode".into());
        }
        Name::Move => return Err("ERR MOVE is not allowed in cluster mode".into()),
        Name::SwapDb => return Err("ERR SWAPDB is not allowed in cluster mode".into()),
        Name::CopyTo if names_database() => {
            return Err("ERR Copying to another database is not allowed in cluster mode".into());
        }
        _ => {}
    }
    let Some((at, _)) = name.spec().keys_in(arguments).next() else { return Ok(()) };
    let reads_here = state.reads_here || host.client().read_level.is_some();
    if name.class() == Class::Read && reads_here || !host.is_led_elsewhere() {
        return Ok(());
    }
    // Another node may lead since the log has the request. It is executed all the same, and a
    // client that is redirected would repeat it.
    if host.is_playing() {
        return Ok(());
    }
    let Some(topology) = host.topology() else { return Ok(()) };
    match &topology.nodes[topology.main()] {
        // It has no such listener, so this node serves its clients.
        node if node.redirect_port == 0 || node.host.is_empty() => Ok(()),
        ClusterNode { host, redirect_port, .. } => {
            Err(format!("MOVED {} {host}:{redirect_port}", slot_of(word(at))).into())
        }
    }
}

/// CLUSTER COUNTKEYSINSLOT.
pub(super) fn count_keys_in_slot<'a>(request: &Request<'a>) -> Built<'a> {
    let slot = slot(request.arguments[2]).ok_or("ERR Invalid slot")?;
    Ok((
        Command::Database(DatabaseCommand::KeysOfSlot { slot, count: usize::MAX }),
        ReplyFormat::ListLength,
    ))
}

/// CLUSTER GETKEYSINSLOT.
pub(super) fn get_keys_in_slot<'a>(request: &Request<'a>) -> Built<'a> {
    let count = number::integer(request.arguments[3]).and_then(|it| usize::try_from(it).ok());
    match (slot(request.arguments[2]), count) {
        (Some(slot), Some(count)) => {
            Ok((Command::Database(DatabaseCommand::KeysOfSlot { slot, count }), ReplyFormat::Plain))
        }
        _ => Err("ERR Invalid slot or number of keys".into()),
    }
}

fn slot(argument: &[u8]) -> Option<u16> {
    let slot = u16::try_from(number::integer(argument)?).ok()?;
    (slot <= LAST_SLOT).then_some(slot)
}

impl<H: Host> Call<'_, '_, H> {
    fn topology(&self) -> Result<Arc<Topology>, Failure> {
        self.host.topology().ok_or(DISABLED)
    }

    /// Where clients of this connection reach a node.
    fn port(&self, node: &ClusterNode) -> u16 {
        node.port(self.host.client().redirects)
    }

    pub(super) fn asking(&mut self) -> Done {
        self.topology()?;
        self.ok()
    }

    pub(super) fn cluster_key_slot(&mut self) -> Done {
        self.encoder.count(slot_of(self.argument(2)).into());
        Ok(Flow::Continue)
    }

    /// CLUSTER MYID, CLUSTER MYSHARDID.
    pub(super) fn cluster_id(&mut self, of_shard: bool) -> Done {
        let topology = self.topology()?;
        let id = if of_shard { &topology.id } else { &topology.nodes[topology.own].id };
        self.encoder.text(id);
        Ok(Flow::Continue)
    }

    /// CLUSTER LINKS: the links between nodes are not this protocol's.
    pub(super) fn cluster_links(&mut self) -> Done {
        self.encoder.array(0);
        Ok(Flow::Continue)
    }

    pub(super) fn cluster_failure_reports(&mut self) -> Done {
        self.named(&*self.topology()?)?;
        self.encoder.count(0);
        Ok(Flow::Continue)
    }

    pub(super) fn cluster_slots(&mut self) -> Done {
        let topology = self.topology()?;
        let nodes: Vec<&ClusterNode> = in_order(&topology)
            .filter(|(at, node)| *at == topology.main() || node.is_connected)
            .map(|(_, node)| node)
            .filter(|node| !node.host.is_empty())
            .collect();
        if nodes.is_empty() {
            self.encoder.array(0);
            return Ok(Flow::Continue);
        }
        self.encoder.array(1);
        self.encoder.array(2 + nodes.len());
        self.encoder.count(0);
        self.encoder.count(LAST_SLOT.into());
        for node in nodes {
            let port = self.port(node);
            let encoder = &mut *self.encoder;
            encoder.array(4);
            encoder.text(&node.host);
            encoder.count(port.into());
            encoder.text(&node.id);
            encoder.map(0);
        }
        Ok(Flow::Continue)
    }

    pub(super) fn cluster_shards(&mut self) -> Done {
        let topology = self.topology()?;
        self.encoder.array(1);
        self.encoder.map(2);
        self.encoder.text("slots");
        self.encoder.array(2);
        self.encoder.count(0);
        self.encoder.count(LAST_SLOT.into());
        self.encoder.text("nodes");
        self.encoder.array(topology.nodes.len());
        for (at, node) in in_order(&topology) {
            let port = self.port(node);
            let encoder = &mut *self.encoder;
            let role = if at == topology.main() { "master" } else { "replica" };
            let health = if node.is_connected { "online" } else { "fail" };
            encoder.map(7);
            pair(encoder, "id", &node.id);
            encoder.text("port");
            encoder.count(port.into());
            pair(encoder, "ip", &node.host);
            pair(encoder, "endpoint", &node.host);
            pair(encoder, "role", role);
            encoder.text("replication-offset");
            encoder.count(node.offset);
            pair(encoder, "health", health);
        }
        Ok(Flow::Continue)
    }

    pub(super) fn cluster_nodes(&mut self) -> Done {
        let topology = self.topology()?;
        let mut text = String::new();
        for (at, _) in in_order(&topology) {
            text.push_str(&self.line(&topology, at));
            text.push('\n');
        }
        self.encoder.verbatim(text.as_bytes());
        Ok(Flow::Continue)
    }

    /// CLUSTER REPLICAS, CLUSTER SLAVES.
    pub(super) fn cluster_replicas(&mut self) -> Done {
        let topology = self.topology()?;
        if self.named(&topology)? != topology.main() {
            return Err("ERR The specified node is not a master".into());
        }
        let others = in_order(&topology).skip(1);
        let lines: Vec<String> = others.map(|(at, _)| self.line(&topology, at)).collect();
        self.encoder.array(lines.len());
        lines.iter().for_each(|line| self.encoder.text(line));
        Ok(Flow::Continue)
    }

    /// The node whose id is the last argument.
    fn named(&self, topology: &Topology) -> Result<usize, Failure> {
        let id = self.argument(2);
        let found = topology.nodes.iter().position(|node| node.id.as_bytes() == id);
        found.ok_or_else(|| Failure::quoting("ERR Unknown node ", id, ""))
    }

    /// A node's line of CLUSTER NODES.
    fn line(&self, topology: &Topology, at: usize) -> String {
        let node = &topology.nodes[at];
        let ClusterNode { id, host, is_connected, .. } = node;
        let myself = if at == topology.own { "myself," } else { "" };
        let failed = if *is_connected { "" } else { ",fail" };
        let link = if *is_connected { "connected" } else { "disconnected" };
        let (main, epoch, port) = (topology.main(), topology.epoch, self.port(node));
        let (role, of, slots) = match at == main {
            true => ("master", "-", format!(" 0-{LAST_SLOT}")),
            false => ("slave", topology.nodes[main].id.as_str(), String::new()),
        };
        format!("{id} {host}:{port}@0 {myself}{role}{failed} {of} 0 0 {epoch} {link}{slots}")
    }

    pub(super) fn cluster_info(&mut self) -> Done {
        let topology = self.topology()?;
        let state = if topology.is_led { "ok" } else { "fail" };
        let served = if topology.is_led { SLOTS } else { 0 };
        let fields = vec![
            field("cluster_enabled", 1),
            field("cluster_state", state),
            field("cluster_slots_assigned", SLOTS),
            field("cluster_slots_ok", served),
            field("cluster_slots_pfail", 0),
            field("cluster_slots_fail", SLOTS - served),
            field("cluster_known_nodes", topology.nodes.len()),
            field("cluster_size", 1),
            field("cluster_current_epoch", topology.epoch),
            field("cluster_my_epoch", topology.epoch),
            field("cluster_stats_messages_sent", 0),
            field("cluster_stats_messages_received", 0),
            field("total_cluster_links_buffer_limit_exceeded", 0),
        ];
        let mut text = String::new();
        write_lines(fields, &mut text);
        self.encoder.verbatim(text.as_bytes());
        Ok(Flow::Continue)
    }
}

/// The nodes, the one with the slots first.
fn in_order(topology: &Topology) -> impl Iterator<Item = (usize, &ClusterNode)> {
    let main = topology.main();
    let nodes = || topology.nodes.iter().enumerate();
    nodes().filter(move |(at, _)| *at == main).chain(nodes().filter(move |(at, _)| *at != main))
}

fn pair(encoder: &mut Encoder<'_>, name: &str, value: &str) {
    encoder.text(name);
    encoder.text(value);
}
