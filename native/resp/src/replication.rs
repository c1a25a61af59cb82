//! ROLE and INFO replication: the leader of a cluster is what Redis calls a master, the other nodes
//! are its replicas. The offsets are entries of the log.

use super::call::{Call, Done};
use super::flow::Flow;
use super::info::{Fields, field};
use crate::{ClusterNode, Host, Topology};

const NO_ID: &str = "0000000000000000000000000000000000000000";

impl<H: Host> Call<'_, '_, H> {
    pub(super) fn role(&mut self) -> Done {
        let offset = self.offset();
        let redirects = self.host.client().redirects;
        let topology = self.host.topology();
        let encoder = &mut *self.encoder;
        let Some(topology) = topology else {
            encoder.array(3);
            encoder.text("master");
            encoder.count(0);
            encoder.array(0);
            return Ok(Flow::Continue);
        };
        if topology.is_replica() {
            let leader = topology.last_leader();
            encoder.array(5);
            encoder.text("slave");
            encoder.text(&leader.host);
            encoder.count(leader.port(redirects).into());
            encoder.text(if topology.is_led { "connected" } else { "connect" });
            encoder.count(offset);
            return Ok(Flow::Continue);
        }
        let replicas = replicas(&topology);
        encoder.array(3);
        encoder.text("master");
        encoder.count(offset);
        encoder.array(replicas.len());
        for node in replicas {
            encoder.array(3);
            encoder.text(&node.host);
            encoder.text(&node.port(redirects).to_string());
            encoder.text(&node.offset.to_string());
        }
        Ok(Flow::Continue)
    }

    /// The last entry of the log that is applied here.
    fn offset(&self) -> u64 {
        self.host.log(self.state.database).map_or(0, |log| log.submit.applied_index())
    }

    pub(super) fn replication(&self) -> Fields {
        let offset = self.offset();
        let topology = self.host.topology();
        let redirects = self.host.client().redirects;
        let (mut fields, id, offset) = match &topology {
            None => (vec![field("role", "master"), field("connected_slaves", 0)], NO_ID, 0),
            Some(topology) if topology.is_replica() => {
                (follower(topology, redirects, offset), &*topology.id, offset)
            }
            Some(topology) => (leader(topology, redirects), &*topology.id, offset),
        };
        fields.extend([
            field("master_failover_state", "no-failover"),
            field("master_replid", id),
            field("master_replid2", NO_ID),
            field("master_repl_offset", offset),
            field("second_repl_offset", -1),
            field("repl_backlog_active", 0),
            field("repl_backlog_size", 0),
            field("repl_backlog_first_byte_offset", 0),
            field("repl_backlog_histlen", 0),
        ]);
        fields
    }
}

/// The other nodes that this one is connected to.
fn replicas(topology: &Topology) -> Vec<&ClusterNode> {
    let nodes = topology.nodes.iter().enumerate();
    nodes
        .filter(|(at, node)| *at != topology.own && node.is_connected)
        .map(|(_, node)| node)
        .collect()
}

fn leader(topology: &Topology, redirects: bool) -> Fields {
    let replicas = replicas(topology);
    let mut fields = vec![field("role", "master"), field("connected_slaves", replicas.len())];
    for (number, node) in replicas.into_iter().enumerate() {
        let ClusterNode { host, offset, .. } = node;
        let port = node.port(redirects);
        let value = format!("ip={host},port={port},state=online,offset={offset},lag=0");
        fields.push(field(&format!("slave{number}"), value));
    }
    fields
}

fn follower(topology: &Topology, redirects: bool, offset: u64) -> Fields {
    let leader = topology.last_leader();
    vec![
        field("role", "slave"),
        field("master_host", &leader.host),
        field("master_port", leader.port(redirects)),
        field("master_link_status", if topology.is_led { "up" } else { "down" }),
        field("master_last_io_seconds_ago", if topology.is_led { 0 } else { -1 }),
        field("master_sync_in_progress", 0),
        field("slave_read_repl_offset", offset),
        field("slave_repl_offset", offset),
        field("slave_priority", 100),
        // Writes are executed through the leader.
        field("slave_read_only", 0),
        field("replica_announced", 1),
        field("connected_slaves", 0),
    ]
}
