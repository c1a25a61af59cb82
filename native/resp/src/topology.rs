//! What clients learn about the cluster.

use std::sync::Arc;

/// The cluster as this node knows it. The offsets may be a second old.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// The identity of the cluster: 40 hex digits.
    pub id: String,
    /// The term of the leader, which grows with each election.
    pub epoch: u64,
    /// The members, in the order of their names.
    pub nodes: Vec<ClusterNode>,
    /// Which of them is this node.
    pub own: usize,
    /// Which of them leads, or has led last; `None` before the first is known.
    pub leader: Option<usize>,
    /// Whether a leader is known now.
    pub is_led: bool,
}

/// A member of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterNode {
    /// Its identity: 40 hex digits.
    pub id: String,
    /// Its name as an Erlang node.
    pub name: String,
    /// The address or the name of its host, as clients reach it; empty if it has not been
    /// announced.
    pub host: String,
    /// Port of the listener that serves all commands; 0 for none.
    pub resp_port: u16,
    /// Port of the listener that redirects; 0 for none.
    pub redirect_port: u16,
    /// Whether this node is connected to it.
    pub is_connected: bool,
    /// The last entry of the log that it is known to have.
    pub offset: u64,
}

impl Topology {
    /// The node to which clients go: the one that leads. If no leader is known, this one, since it
    /// waits for a leader, and the last one may be dead.
    pub fn main(&self) -> usize {
        self.leader.filter(|_| self.is_led).unwrap_or(self.own)
    }

    /// Whether another node leads, or has led last, or may lead: no leader has been known yet.
    pub fn is_replica(&self) -> bool {
        self.leader != Some(self.own)
    }

    /// The node that leads, or has led last. Without one it has no host and no port.
    pub fn last_leader(&self) -> ClusterNode {
        self.leader.map(|leader| self.nodes[leader].clone()).unwrap_or_default()
    }

    /// Whether another node leads.
    pub fn is_led_elsewhere(&self) -> bool {
        self.is_led && self.leader.is_some_and(|leader| leader != self.own)
    }
}

impl ClusterNode {
    /// Where a client goes that came by a listener of the same kind. A node without one has the
    /// port of the other kind.
    pub fn port(&self, redirects: bool) -> u16 {
        match (redirects, self.redirect_port, self.resp_port) {
            (true, 0, port) | (false, port, 0) | (true, port, _) | (false, _, port) => port,
        }
    }
}

/// The cluster of the node.
pub trait Cluster {
    /// The cluster; `None` if the node belongs to none.
    fn topology(&self) -> Option<Arc<Topology>>;
    /// Whether another node of the cluster leads. Cheaper than [`Cluster::topology`].
    fn is_led_elsewhere(&self) -> bool;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_of_the_same_kind_if_there_is_one() {
        let node = |resp_port, redirect_port| ClusterNode {
            resp_port,
            redirect_port,
            ..ClusterNode::default()
        };
        let ports = |node: ClusterNode| [node.port(false), node.port(true)];
        assert_eq!(ports(node(1, 2)), [1, 2]);
        assert_eq!(ports(node(1, 0)), [1, 1]);
        assert_eq!(ports(node(0, 2)), [2, 2]);
        assert_eq!(ports(node(0, 0)), [0, 0]);
    }
}
