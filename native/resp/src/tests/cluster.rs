//! The cluster as clients of Redis Cluster see it.

use super::*;
use crate::{ClusterNode, Topology};
use std::sync::Arc;
use todana_group::Gate;
use todana_protocol::testing::with_durable_hosts;
use todana_protocol::{Advance, Budget, Next, Progress};

const IDS: [&str; 3] = ["aaaa", "bbbb", "cccc"];

/// The second node of three, of which this one leads.
fn topology(leader: usize) -> Topology {
    let node = |at: usize| ClusterNode {
        id: IDS[at].into(),
        name: format!("n{at}@127.0.0.1"),
        host: "127.0.0.1".into(),
        resp_port: 7001 + at as u16,
        redirect_port: 7101 + at as u16,
        is_connected: true,
        offset: 40 + at as u64,
    };
    let nodes = (0..3).map(node).collect();
    Topology { id: "ffff".into(), epoch: 5, nodes, own: 1, leader: Some(leader), is_led: true }
}

fn with(topology: Topology) -> FakeHost {
    let mut host = host();
    host.part.topology = Some(Arc::new(topology));
    host
}

/// A host whose client came by a listener that redirects.
fn redirecting(topology: Topology) -> FakeHost {
    let mut host = with(topology);
    Arc::get_mut(&mut host.client).expect("the only reference").redirects = true;
    host
}

#[test]
fn without_a_cluster_there_is_nothing_to_describe() {
    script(
        r#"
        > CLUSTER INFO
        -ERR This instance has cluster support disabled
        > CLUSTER SLOTS
        -ERR This instance has cluster support disabled
        > CLUSTER COUNTKEYSINSLOT 5
        -ERR This instance has cluster support disabled
        > CLUSTER KEYSLOT a
        -ERR This instance has cluster support disabled
        > ASKING
        -ERR This instance has cluster support disabled
        > CLUSTER
        -ERR wrong number of arguments for 'cluster' command
        > CLUSTER NONE
        -ERR unknown subcommand 'NONE'. Try CLUSTER HELP.
        "#,
    );
}

#[test]
fn the_leader_has_all_slots_and_the_others_are_its_replicas() {
    script_on(
        r#"
        > CLUSTER SLOTS
        *1 *5 :0 :16383 *4 $9 127.0.0.1 :7003 $4 cccc *0 *4 $9 127.0.0.1 :7001 $4 aaaa *0
        *4 $9 127.0.0.1 :7002 $4 bbbb *0
        > CLUSTER MYID
        $4 bbbb
        > CLUSTER MYSHARDID
        $4 ffff
        > CLUSTER KEYSLOT foo{hash_tag}
        :2515
        > CLUSTER LINKS
        *0
        > CLUSTER COUNT-FAILURE-REPORTS aaaa
        :0
        > CLUSTER REPLICAS aaaa
        -ERR The specified node is not a master
        > CLUSTER REPLICAS nobody
        -ERR Unknown node nobody
        > CLUSTER SLAVES cccc
        *2 $48 aaaa 127.0.0.1:7001@0 slave cccc 0 0 5 connected $55
        bbbb 127.0.0.1:7002@0 myself,slave cccc 0 0 5 connected
        > ASKING
        +OK
        "#,
        || with(topology(2)),
    );
}

#[test]
fn lines_of_nodes_and_shards_say_who_fails() {
    let start = || {
        let mut topology = topology(0);
        topology.nodes[2].is_connected = false;
        with(topology)
    };
    let (mut session, mut host) = (RespSession::default(), start());
    let mut ask = |line| ask(&mut session, &mut host, line);
    let nodes = ask("CLUSTER NODES");
    assert!(nodes.contains("aaaa 127.0.0.1:7001@0 master - 0 0 5 connected 0-16383"), "{nodes}");
    assert!(nodes.contains("bbbb 127.0.0.1:7002@0 myself,slave aaaa 0 0 5 connected"), "{nodes}");
    assert!(nodes.contains("cccc 127.0.0.1:7003@0 slave,fail aaaa 0 0 5 disconnected"), "{nodes}");
    let shards = ask("CLUSTER SHARDS");
    let last = "$2 id $4 cccc $4 port :7003 $2 ip $9 127.0.0.1 $8 endpoint $9 127.0.0.1 $4 role \
                $7 replica $18 replication-offset :42 $6 health $4 fail";
    assert!(shards.starts_with("*1 *4 $5 slots *2 :0 :16383 $5 nodes *3 *14 "), "{shards}");
    assert!(shards.ends_with(last), "{shards}");
    assert!(!ask("CLUSTER SLOTS").contains("cccc"), "no client is sent to a node that is down");
}

#[test]
fn the_state_follows_the_leader() {
    let mut session = RespSession::default();
    let led = ask(&mut session, &mut with(topology(0)), "CLUSTER INFO");
    for line in ["cluster_state:ok", "cluster_slots_ok:16384", "cluster_known_nodes:3"] {
        assert!(led.contains(line), "{led}");
    }
    let alone = Topology { is_led: false, ..topology(0) };
    let fails = ask(&mut session, &mut with(alone.clone()), "CLUSTER INFO");
    assert!(fails.contains("cluster_state:fail") && fails.contains("cluster_slots_fail:16384"));
    let down = ask(&mut session, &mut with(alone), "INFO replication");
    assert!(down.contains("role:slave") && down.contains("master_link_status:down"), "{down}");
}

#[test]
fn without_a_leader_clients_stay_at_a_node_that_lives() {
    let mut alone = Topology { is_led: false, ..topology(0) };
    alone.nodes[0].is_connected = false;
    let (mut session, mut host) = (RespSession::default(), with(alone));
    let mut ask = |line| ask(&mut session, &mut host, line);
    let slots = ask("CLUSTER SLOTS");
    assert!(slots.starts_with("*1 *4 :0 :16383 *4 $9 127.0.0.1 :7002 $4 bbbb *0 "), "{slots}");
    assert!(!slots.contains("aaaa"), "{slots}");
    let nodes = ask("CLUSTER NODES");
    assert!(nodes.contains("aaaa 127.0.0.1:7001@0 slave,fail bbbb 0 0 5 disconnected"), "{nodes}");
    assert!(nodes.contains("7002@0 myself,master - 0 0 5 connected 0-16383"), "{nodes}");
    assert!(ask("INFO replication").contains("role:slave"), "nobody else takes it for the leader");
}

#[test]
fn a_node_that_reads_its_log_sends_nobody_to_itself() {
    let mut session = RespSession::default();
    let mut host = with_durable_hosts(|| with(Topology { is_led: false, ..topology(0) }));
    host.set_gate(Gate::Closed);
    let mut ask = |host: &mut FakeHost, line| ask(&mut session, host, line);
    for line in ["CLUSTER SLOTS", "CLUSTER SHARDS", "CLUSTER NODES"] {
        let loading = "-LOADING Todana is loading the dataset in memory";
        assert_eq!(ask(&mut host, line), loading, "{line}");
    }
    assert_eq!(ask(&mut host, "CLUSTER MYID"), "$4 bbbb");
    host.part.topology = Some(Arc::new(topology(0)));
    assert!(ask(&mut host, "CLUSTER SLOTS").starts_with("*1 *5 :0 :16383 *4 $9 127.0.0.1 :7001"));
}

#[test]
fn info_names_the_leader_and_its_replicas() {
    let mut session = RespSession::default();
    let follower = ask(&mut session, &mut with(topology(2)), "INFO replication");
    for line in ["role:slave", "master_port:7003", "master_link_status:up", "slave_read_only:0"] {
        assert!(follower.contains(line), "{follower}");
    }
    let leader = ask(&mut session, &mut with(topology(1)), "INFO replication");
    for line in [
        "role:master",
        "connected_slaves:2",
        "slave0:ip=127.0.0.1,port=7001,state=online,offset=40,lag=0",
        "slave1:ip=127.0.0.1,port=7003,state=online,offset=42,lag=0",
        "master_replid:ffff",
    ] {
        assert!(leader.contains(line), "{leader}");
    }
    let alone = ask(&mut session, &mut host(), "INFO replication");
    assert!(alone.contains("role:master") && alone.contains("master_repl_offset:0"), "{alone}");
}

#[test]
fn role_is_that_of_the_node() {
    let mut session = RespSession::default();
    let mut role = |mut host: FakeHost| ask(&mut session, &mut host, "ROLE");
    assert_eq!(role(host()), "*3 $6 master :0 *0");
    assert_eq!(role(with(topology(2))), "*5 $5 slave $9 127.0.0.1 :7003 $9 connected :0");
    let alone = Topology { is_led: false, ..topology(2) };
    assert_eq!(role(with(alone)), "*5 $5 slave $9 127.0.0.1 :7003 $7 connect :0");
    let not_yet = Topology { leader: None, is_led: false, ..topology(2) };
    assert_eq!(role(with(not_yet)), "*5 $5 slave $0  :0 $7 connect :0");
    let replicas = "*2 *3 $9 127.0.0.1 $4 7001 $2 40 *3 $9 127.0.0.1 $4 7003 $2 42";
    assert_eq!(role(with(topology(1))), format!("*3 $6 master :0 {replicas}"));
}

#[test]
fn hello_has_the_role_too() {
    let mut session = RespSession::default();
    let mut hello = |topology| ask(&mut session, &mut with(topology), "HELLO");
    assert!(hello(topology(1)).contains("$4 role $6 master"));
    assert!(hello(topology(2)).contains("$4 role $7 replica"));
    let not_yet = Topology { leader: None, is_led: false, ..topology(2) };
    assert!(hello(not_yet).contains("$4 role $7 replica"));
}

#[test]
fn keys_of_a_slot_are_counted_and_listed() {
    script_on(
        r#"
        > MSET {user}1 a {user}2 b page c
        +OK
        > CLUSTER KEYSLOT user
        :5474
        > CLUSTER COUNTKEYSINSLOT 5474
        :2
        > CLUSTER COUNTKEYSINSLOT 16383
        :0
        > CLUSTER GETKEYSINSLOT 5474 0
        *0
        > DEL {user}1
        :1
        > CLUSTER GETKEYSINSLOT 5474 10
        *1 $7 {user}2
        > CLUSTER COUNTKEYSINSLOT 16384
        -ERR Invalid slot
        > CLUSTER GETKEYSINSLOT -1 10
        -ERR Invalid slot or number of keys
        > CLUSTER GETKEYSINSLOT 5474 -1
        -ERR Invalid slot or number of keys
        "#,
        || with(topology(1)),
    );
}

#[test]
fn a_listener_that_redirects_sends_clients_to_the_leader() {
    script_on(
        r#"
        > SET foo 1
        -MOVED 12182 127.0.0.1:7101
        > GET foo{hash_tag}
        -MOVED 2515 127.0.0.1:7101
        > MGET foo bar
        -MOVED 12182 127.0.0.1:7101
        > DBSIZE
        :0
        > READONLY
        +OK
        > GET foo
        $-1
        > SET foo 1
        -MOVED 12182 127.0.0.1:7101
        > READWRITE
        +OK
        > GET foo
        -MOVED 12182 127.0.0.1:7101
        > MULTI
        +OK
        > GET foo
        -MOVED 12182 127.0.0.1:7101
        > EXEC
        -EXECABORT Transaction discarded because of previous errors.
        > SELECT 0
        +OK
        > SELECT 1
        -ERR SELECT is not allowed in cluster mode
        > SWAPDB 0 1
        -ERR SWAPDB is not allowed in cluster mode
        > MOVE foo 1
        -ERR MOVE is not allowed in cluster mode
        > COPY foo bar DB 1
        -ERR Copying to another database is not allowed in cluster mode
        "#,
        || redirecting(topology(0)),
    );
}

#[test]
fn addresses_of_version_6_have_no_brackets() {
    let mut topology = topology(0);
    topology.nodes[0].host = "::1".into();
    let (mut session, mut host) = (RespSession::default(), redirecting(topology));
    let mut ask = |line| ask(&mut session, &mut host, line);
    assert_eq!(ask("SET foo 1"), "-MOVED 12182 ::1:7101");
    assert!(ask("CLUSTER NODES").contains("aaaa ::1:7101@0 master"));
}

#[test]
fn a_listener_that_redirects_serves_what_nobody_else_can() {
    let nowhere = |change: fn(&mut Topology)| {
        let mut topology = topology(0);
        change(&mut topology);
        redirecting(topology)
    };
    for mut host in [
        redirecting(topology(1)),
        nowhere(|topology| topology.is_led = false),
        nowhere(|topology| topology.nodes[0].redirect_port = 0),
        nowhere(|topology| topology.nodes[0].host = String::new()),
    ] {
        assert_eq!(ask(&mut RespSession::default(), &mut host, "SET foo 1"), "+OK");
    }
}

#[test]
fn what_the_log_has_is_answered_here_although_another_node_leads_now() {
    let mut session = RespSession::default();
    let mut host = with_durable_hosts(|| redirecting(topology(1)));
    let input = [array("INCR n"), array("GET n"), array("PING"), array("INCR n")].concat();
    let budget = Budget { requests_max: 16, output_bytes_max: 1 << 16 };
    let mut output = Vec::new();
    host.commits.begin_turn();
    let Progress { consumed, next } = session.advance(&input, &mut output, &mut host, budget);
    assert_eq!((consumed, next, output.as_slice()), (0, Next::Commit, &b""[..]));
    assert!(host.commit());
    host.part.topology = Some(Arc::new(topology(0)));
    let outcome = converse(&mut session, &mut host, [&*input]);
    assert_eq!(shown(&outcome.output), ":1 $1 1 +PONG -MOVED 3432 127.0.0.1:7101");
    host.part.topology = Some(Arc::new(topology(1)));
    assert_eq!(ask(&mut session, &mut host, "GET n"), "$1 1");
}

#[test]
fn a_listener_that_redirects_names_its_own_kind() {
    let mut host = redirecting(topology(0));
    let mut session = RespSession::default();
    let slots = ask(&mut session, &mut host, "CLUSTER SLOTS");
    assert!(slots.contains(":7101") && !slots.contains(":7001"), "{slots}");
    assert!(ask(&mut session, &mut host, "INFO cluster").contains("cluster_enabled:1"));
    assert!(ask(&mut session, &mut host, "INFO server").contains("redis_mode:cluster"));
    let hello = ask(&mut session, &mut host, "HELLO 2");
    assert!(hello.contains("$4 mode $7 cluster $4 role $7 replica"), "{hello}");
}
