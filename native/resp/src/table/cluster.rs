//! Commands on the cluster.

/// Passes these rows, after others, on to the next macro.
#[rustfmt::skip]
macro_rules! cluster {
    ([$($before:tt)*] $($then:ident)+) => { $crate::table::chain! { [ $($before)*
        Asking { name: "asking", handler: Session(Words, asking), arity: 1, keys: NO_KEYS, flags: FAST | CONNECTION,
            group: Cluster, since: "3.0.0", syntax: "", cost: "O(1)",
            summary: "Accepted without effect, because no slot is ever in transit." }
        Cluster { name: "cluster", handler: Container, arity: -2, keys: NO_KEYS, flags: NONE, group: Cluster,
            since: "3.0.0", syntax: "", cost: "", summary: "Describes the cluster." }
        ClusterCountFailureReports { name: "cluster|count-failure-reports", handler: Session(Words, cluster_failure_reports),
            arity: 3, keys: NO_KEYS, flags: ADMIN | STALE | RANDOM, group: Cluster, since: "3.0.0", syntax: "node-id",
            cost: "O(1)", summary: "Returns 0: nodes do not vote about others." }
        ClusterCountKeysInSlot { name: "cluster|countkeysinslot", handler: Store(cluster::count_keys_in_slot), arity: 3,
            keys: NO_KEYS, flags: READONLY | STALE, group: Cluster, since: "3.0.0", syntax: "slot",
            cost: "O(n), n keys of the database", summary: "Returns the number of keys of a hash slot." }
        ClusterGetKeysInSlot { name: "cluster|getkeysinslot", handler: Store(cluster::get_keys_in_slot), arity: 4,
            keys: NO_KEYS, flags: READONLY | STALE | RANDOM, group: Cluster, since: "3.0.0", syntax: "slot count",
            cost: "O(n), n keys of the database", summary: "Returns keys of a hash slot." }
        ClusterHelp { name: "cluster|help", handler: Session(NameTable, help), arity: 2, keys: NO_KEYS, flags: ANYTIME,
            group: Cluster, since: "5.0.0", syntax: "", cost: "O(1)", summary: "Lists the subcommands." }
        ClusterInfo { name: "cluster|info", handler: Session(Words, cluster_info), arity: 2, keys: NO_KEYS,
            flags: ANYTIME | RANDOM, group: Cluster, since: "3.0.0", syntax: "", cost: "O(1)",
            summary: "Returns the state of the cluster: ok if a leader is known." }
        ClusterKeySlot { name: "cluster|keyslot", handler: Session(Words, cluster_key_slot), arity: 3, keys: NO_KEYS,
            flags: ANYTIME, group: Cluster, since: "3.0.0", syntax: "key", cost: "O(n), n bytes of the key",
            summary: "Returns the hash slot of a key." }
        ClusterLinks { name: "cluster|links", handler: Session(Words, cluster_links), arity: 2, keys: NO_KEYS,
            flags: ANYTIME | RANDOM, group: Cluster, since: "7.0.0", syntax: "", cost: "O(1)",
            summary: "Returns an empty list: nodes are connected by Erlang's distribution." }
        ClusterMyId { name: "cluster|myid", handler: Session(Words, cluster_id, false), arity: 2, keys: NO_KEYS,
            flags: ANYTIME, group: Cluster, since: "3.0.0", syntax: "", cost: "O(1)",
            summary: "Returns the identity of this node." }
        ClusterMyShardId { name: "cluster|myshardid", handler: Session(Words, cluster_id, true), arity: 2, keys: NO_KEYS,
            flags: ANYTIME, group: Cluster, since: "7.2.0", syntax: "", cost: "O(1)",
            summary: "Returns the identity of the cluster, which is one shard." }
        ClusterNodes { name: "cluster|nodes", handler: Session(Words, cluster_nodes), arity: 2, keys: NO_KEYS,
            flags: ANYTIME | RANDOM, group: Cluster, since: "3.0.0", syntax: "", cost: "O(n), n nodes",
            summary: "Describes the nodes, a line for each." }
        ClusterReplicas { name: "cluster|replicas", handler: Session(Words, cluster_replicas), arity: 3, keys: NO_KEYS,
            flags: ADMIN | STALE | RANDOM, group: Cluster, since: "5.0.0", syntax: "node-id", cost: "O(n), n nodes",
            summary: "Describes the nodes that follow the leader." }
        ClusterShards { name: "cluster|shards", handler: Session(Words, cluster_shards), arity: 2, keys: NO_KEYS,
            flags: ANYTIME | RANDOM, group: Cluster, since: "7.0.0", syntax: "", cost: "O(n), n nodes",
            summary: "Returns the slots and the nodes." }
        ClusterSlaves { name: "cluster|slaves", handler: Session(Words, cluster_replicas), arity: 3, keys: NO_KEYS,
            flags: ADMIN | STALE | RANDOM | DEPRECATED, group: Cluster, since: "3.0.0", syntax: "node-id",
            cost: "O(n), n nodes", summary: "Describes the nodes that follow the leader." }
        ClusterSlots { name: "cluster|slots", handler: Session(Words, cluster_slots), arity: 2, keys: NO_KEYS,
            flags: ANYTIME | RANDOM, group: Cluster, since: "3.0.0", syntax: "", cost: "O(n), n nodes",
            summary: "Returns the slots and the nodes that serve them; the leader is the first." }
    ] $($then)+ } };
}
pub(crate) use cluster;
