//! Requests to a member of a group of several.

use super::*;
use crate::testing::RespPart;
use std::sync::Arc;
use todana_command::{FORMAT_MAX, FORMAT_MIN, LONG_UNITS};
use todana_group::{Deliver, Gate, Outcome, QUEUE_BYTES_MAX, Submission, Submit, Ticket};
use todana_protocol::testing::{Peer, TestLog};
use todana_protocol::{Next, ReadLevel, Wait};

type Client = Peer<RespSession, RespPart>;

const READ: Next = Next::Read { wanted: 0 };

fn resp() -> Client {
    Peer::new(ProtocolName::Resp)
}

/// What the connection begins to wait for.
fn waited(peer: &mut Client) -> Option<Wait> {
    peer.host.commits.begin_wait().map(|(_, wait)| wait)
}

#[test]
fn a_read_that_waits_while_the_records_are_replaced_is_refused() {
    let mut peer = resp();
    peer.receive("GET a\r\n");
    assert_eq!(peer.turn().1, Next::Commit);
    assert_eq!(waited(&mut peer), Some(Wait::Proof));
    peer.host.log.as_ref().expect("a log").group.set_gate(Gate::Closed, "");
    peer.host.commits.settle(Outcome::Dropped);
    let loading = "-LOADING Todana is loading the dataset in memory\r\n";
    assert_eq!(peer.turn(), (loading.into(), READ));
    // It does not wait for a leader first.
    assert_eq!(peer.ask("GET a\r\n"), (loading.into(), 0));
}

#[test]
fn a_pipeline_of_reads_needs_one_proof() {
    let mut peer = resp();
    assert_eq!(peer.ask("GET a\r\n".repeat(300)), ("$-1\r\n".repeat(300), 1));
    let walks = "KEYS *\r\nDBSIZE\r\nMULTI\r\nGET a\r\nGET b\r\nEXEC\r\nSCAN 0\r\n";
    let (answer, proofs) = peer.ask(walks);
    assert!(answer.starts_with("*0\r\n:0\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n$-1\r\n$-1\r\n"));
    assert_eq!(proofs, 1);
    for read in ["KEYS *\r\n", "DBSIZE\r\n", "RANDOMKEY\r\n", "MULTI\r\nGET a\r\nEXEC\r\n"] {
        assert_eq!(peer.ask(read).1, 1, "{read}");
    }
}

#[test]
fn a_read_behind_a_write_needs_no_proof() {
    let mut peer = resp();
    assert_eq!(peer.ask("SET a 1\r\nGET a\r\n"), ("+OK\r\n$1\r\n1\r\n".into(), 0));
    // Not in the same entry of the log, but the node has applied what was before it.
    let requests = "SET a 2\r\nPING\r\nGET a\r\nKEYS *\r\n";
    assert_eq!(peer.ask(requests), ("+OK\r\n+PONG\r\n$1\r\n2\r\n*1\r\n$1\r\na\r\n".into(), 0));
    assert_eq!(peer.ask("GET a\r\nSET a 3\r\nGET a\r\n").1, 1);
    assert_eq!(peer.ask("SET a 4\r\n"), ("+OK\r\n".into(), 0));
    assert_eq!(peer.ask("GET a\r\n"), ("$1\r\n4\r\n".into(), 1));
}

#[test]
fn a_connection_reads_at_its_level() {
    let mut peer = resp();
    let proofs = |peer: &mut Client, choice: &str| {
        if !choice.is_empty() {
            assert_eq!(peer.ask(format!("{choice}\r\n")).0, "+OK\r\n", "{choice}");
        }
        peer.ask("GET a\r\n").1
    };
    assert_eq!(proofs(&mut peer, ""), 1);
    assert_eq!(proofs(&mut peer, "READONLY"), 0);
    assert_eq!(proofs(&mut peer, "READWRITE"), 1);
    assert_eq!(proofs(&mut peer, "TODANA.READ local"), 0);
    assert_eq!(proofs(&mut peer, "TODANA.READ Bounded"), 1);
    peer.refresh();
    assert_eq!(proofs(&mut peer, ""), 0, "the records are fresh");
    assert_eq!(proofs(&mut peer, "TODANA.READ LINEAR"), 1);
    let refused = "-ERR the level must be local, bounded or linear\r\n";
    assert_eq!(peer.ask("TODANA.READ strong\r\n"), (refused.into(), 0));
    peer.host.read_level = ReadLevel::Bounded;
    assert_eq!(proofs(&mut peer, ""), 1);
    assert_eq!(peer.ask("RESET\r\n").0, "+RESET\r\n");
    assert_eq!(proofs(&mut peer, ""), 0, "the default of the server");
    // The only member has nobody to ask.
    peer.host.log.as_ref().expect("a log").group.set_others(None);
    assert_eq!(proofs(&mut peer, "TODANA.READ linear"), 0);
}

#[test]
fn a_client_can_wait_for_a_write_that_another_node_has_made() {
    let mut peer = resp();
    assert_eq!(peer.ask("TODANA.INDEX\r\n"), (":0\r\n".into(), 0));
    assert_eq!(peer.ask("SET a 1\r\nTODANA.INDEX\r\n"), ("+OK\r\n:1\r\n".into(), 0));
    assert_eq!(peer.ask("TODANA.AFTER 1\r\n"), ("+OK\r\n".into(), 0));
    // It waits for the entry.
    peer.receive("TODANA.AFTER 2 70\r\nTODANA.INDEX\r\n");
    assert_eq!(peer.turn(), (String::new(), Next::Commit));
    assert_eq!(waited(&mut peer), Some(Wait::Applied { index: 2, ms: 70 }));
    peer.host.log.as_ref().expect("a log").group.skip(2);
    peer.host.commits.settle(Outcome::Fresh);
    assert_eq!(peer.turn(), ("+OK\r\n:2\r\n".into(), READ));
    // Or not.
    let late = "-CLUSTERDOWN this node has not applied entry 3 of the log\r\n";
    assert_eq!(peer.ask("TODANA.AFTER 3 0\r\n"), (late.into(), 0));
    assert_eq!(peer.ask("TODANA.AFTER 3\r\n"), (late.into(), 1));
    assert_eq!(peer.host.awaited, [Wait::Applied { index: 3, ms: 5_000 }]);
    let transaction = "MULTI\r\nTODANA.AFTER 3\r\nEXEC\r\n";
    let queued = format!("+OK\r\n+QUEUED\r\n*1\r\n{late}");
    assert_eq!(peer.ask(transaction), (queued, 0));
    // That this node has some entry proves nothing, and that it has not disproves nothing.
    peer.host.log.as_ref().expect("a log").group.skip(3);
    assert_eq!(
        peer.ask("TODANA.AFTER 4 1\r\nGET a\r\n"),
        ("-CLUSTERDOWN this node has not applied entry 4 of the log\r\n$1\r\n1\r\n".into(), 2)
    );
    peer.receive("TODANA.AFTER 4\r\nGET a\r\n");
    assert_eq!(peer.turn().1, Next::Commit);
    assert!(peer.host.commits.begin_wait().is_some());
    peer.host.log.as_ref().expect("a log").group.skip(4);
    peer.host.commits.settle(Outcome::Fresh);
    assert_eq!(peer.turn(), ("+OK\r\n".into(), Next::Commit));
    assert_eq!(waited(&mut peer), Some(Wait::Proof));
    for bad in ["TODANA.AFTER x", "TODANA.AFTER -1", "TODANA.AFTER 1 x", "TODANA.AFTER 1 2 3"] {
        peer.host.commits.settle(Outcome::Fresh);
        assert!(peer.ask(format!("{bad}\r\n")).0.contains("-ERR "), "{bad}");
    }
    let mut memory = resp();
    memory.host = FakeHost::new(ProtocolName::Resp);
    for request in ["TODANA.INDEX\r\n", "TODANA.AFTER 0\r\n"] {
        let none = "-ERR this server keeps its records in memory, and has no log\r\n";
        assert_eq!(memory.ask(request).0, none);
    }
    assert_eq!(memory.ask("TODANA.READ linear\r\nGET a\r\n").0, "+OK\r\n$-1\r\n");
}

#[test]
fn a_write_without_a_leader_is_sent_again_by_clients() {
    let mut peer = resp();
    let group = peer.host.log.as_ref().expect("a log").group.clone();
    group.set_gate(Gate::Leaderless, "no leader: this node is cut off");
    let down = "-CLUSTERDOWN no leader: this node is cut off\r\n";
    assert_eq!(peer.ask("SET a 1\r\n"), (down.into(), 0));
    assert_eq!(peer.ask("READONLY\r\nGET a\r\n").0, "+OK\r\n$-1\r\n");
}

#[test]
fn wait_counts_the_members_that_have_the_writes() {
    let mut peer = resp();
    let group = peer.host.log.as_ref().expect("a log").group.clone();
    group.set_others(Some(2));
    // A majority has what is confirmed.
    group.set_copies(1, Vec::new());
    let answer = "+OK\r\n:1\r\n:1\r\n".into();
    assert_eq!(peer.ask("SET a 1\r\nWAIT 1 0\r\nWAIT 0 0\r\n"), (answer, 0));
    // The time is over, or the other member has it.
    peer.receive("WAIT 2 70\r\n");
    assert_eq!(peer.turn(), (String::new(), Next::Wait { ms: 20 }));
    assert_eq!(peer.turn(), (String::new(), Next::Wait { ms: 40 }));
    peer.host.now_ms += 60;
    assert_eq!(peer.turn(), (String::new(), Next::Wait { ms: 10 }));
    peer.host.now_ms += 10;
    assert_eq!(peer.turn(), (":1\r\n".into(), READ));
    peer.receive("WAIT 2 0\r\n");
    assert_eq!(peer.turn(), (String::new(), Next::Wait { ms: 20 }));
    let applied = group.applied_index();
    group.set_copies(1, vec![applied, applied - 1]);
    for ms in [40, 80, 160, 320, 640, 640] {
        assert_eq!(peer.turn(), (String::new(), Next::Wait { ms }));
    }
    group.set_copies(1, vec![applied; 2]);
    assert_eq!(peer.turn(), (":2\r\n".into(), READ));
    // There are no three others.
    peer.receive("WAIT 3 700\r\n");
    assert_eq!(peer.turn(), (String::new(), Next::Wait { ms: 640 }));
    peer.host.now_ms += 700;
    assert_eq!(peer.turn(), (":2\r\n".into(), READ));
    // A transaction does not wait.
    let answer = "+OK\r\n+QUEUED\r\n*1\r\n:2\r\n".into();
    assert_eq!(peer.ask("MULTI\r\nWAIT 9 0\r\nEXEC\r\n"), (answer, 0));
}

#[test]
fn a_command_that_a_member_of_an_older_version_does_not_know_is_refused() {
    let mut peer = resp();
    let log = peer.host.log.as_ref().expect("a log").group.clone();
    log.set_common_formats(Some((1, 1)));
    let refused = "-ERR a member of the cluster has an older version of Todana that does not know \
        this command: upgrade all members first\r\n";
    assert_eq!(peer.ask("SET a 1\r\n").0, "+OK\r\n");
    for request in [
        "SET a 2 IFEQ 1\r\n",
        "DELEX a IFEQ 1\r\n",
        "EVAL \"return redis.call('set', KEYS[1], 2)\" 1 a\r\n",
        "BITOP NOT b a\r\n",
        "PFADD b x\r\n",
        "MULTI\r\nSET a 2\r\nBITOP NOT b a\r\nEXEC\r\n",
    ] {
        let written = peer.host.written();
        let answer = peer.ask(request).0;
        assert!(answer.ends_with(refused), "{request}: {answer}");
        assert_eq!(peer.host.written(), written, "{request}");
    }
    // Nothing else is refused, and what was before it in the pipeline is executed.
    let pipeline = "SET b 1\r\nBITOP NOT c a\r\nSET d 1\r\nMGET a b c d\r\n";
    let expected = format!("+OK\r\n{refused}+OK\r\n*4\r\n$1\r\n1\r\n$1\r\n1\r\n$-1\r\n$1\r\n1\r\n");
    assert_eq!(peer.ask(pipeline).0, expected);
    let reads = "BITFIELD_RO a GET u8 0\r\nPFCOUNT x\r\nEVAL_RO \"return 1\" 0\r\n";
    assert_eq!(peer.ask(reads).0, "*1\r\n:49\r\n:0\r\n:1\r\n");
    log.set_common_formats(Some((3, 3)));
    assert_eq!(peer.ask("BITOP NOT c a\r\n").0, ":1\r\n");
}

#[test]
fn a_transaction_is_logged_in_the_words_that_all_members_know() {
    let transaction = "MULTI\r\nSET a 1\r\nTYPE a\r\nOBJECT ENCODING a\r\nTYPE none\r\nEXEC\r\n";
    let queued = "+QUEUED\r\n".repeat(4);
    let answer = format!("+OK\r\n{queued}*4\r\n+OK\r\n+string\r\n$3\r\nint\r\n+none\r\n");
    // Of the formats that all members read, those up to the second are written unasked.
    for (formats, format_max) in [((FORMAT_MAX, FORMAT_MAX), FORMAT_MAX), ((6, 3), 3), ((1, 1), 1)]
    {
        let mut peer = resp();
        let group = peer.host.log.as_ref().expect("a log").group.clone();
        group.set_common_formats(Some(formats));
        assert_eq!(peer.ask(transaction).0, answer, "{formats:?}");
        peer.receive(transaction);
        while peer.turn().1 != Next::Commit {}
        let format = peer.host.commits.hand_over().expect("records").format;
        assert!(format <= format_max, "{formats:?}: {format}");
    }
}

#[test]
fn while_the_disk_is_nearly_full_records_can_be_removed() {
    let mut peer = resp();
    let group = peer.host.log.as_ref().expect("a log").group.clone();
    assert_eq!(peer.ask("MSET a 1 b 1 c 1 d 1 e 1\r\n").0, "+OK\r\n");
    group.set_gate(Gate::Removals, "the disk is nearly full");
    let full = "-MISCONF Errors writing to the AOF file: the disk is nearly full\r\n";
    for request in [
        "SET a 2",
        "APPEND a x",
        "EXPIRE a 9",
        "RENAME a z",
        "EVAL \"return redis.call('del', KEYS[1])\" 1 a",
    ] {
        assert_eq!(peer.ask(format!("{request}\r\n")).0, full, "{request}");
    }
    let answer = format!(":1\r\n{full}$-1\r\n:1\r\n$1\r\n1\r\n");
    let pipeline = "DEL a\r\nSET a 2\r\nGET a\r\nUNLINK b\r\nGETDEL c\r\n";
    assert_eq!(peer.ask(pipeline).0, answer);
    let answer = "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n$-1\r\n";
    assert_eq!(peer.ask("MULTI\r\nDEL d\r\nGET d\r\nEXEC\r\n").0, answer);
    let answer = format!("+OK\r\n+QUEUED\r\n+QUEUED\r\n{full}");
    assert_eq!(peer.ask("MULTI\r\nDEL e\r\nSET e 2\r\nEXEC\r\n").0, answer);
    assert_eq!(
        peer.ask("DBSIZE\r\nFLUSHDB\r\nFLUSHALL\r\nDBSIZE\r\n").0,
        ":1\r\n+OK\r\n+OK\r\n:0\r\n"
    );
}

#[test]
fn a_write_that_a_full_disk_drops_is_refused_as_later_ones_are() {
    for (gate, reason, answer) in [
        (Gate::ReadOnly, "full", "-MISCONF Errors writing to the AOF file: full\r\n"),
        (Gate::Removals, "full", "-MISCONF Errors writing to the AOF file: full\r\n"),
        (Gate::Leaderless, "alone", "-CLUSTERDOWN alone\r\n"),
        (Gate::Closed, "", "-LOADING Todana is loading the dataset in memory\r\n"),
    ] {
        let mut peer = resp();
        let group = peer.host.log.as_ref().expect("a log").group.clone();
        let mut wait = |gate, outcome| {
            peer.receive("SET a 1\r\n");
            assert_eq!(peer.turn(), (String::new(), Next::Commit));
            assert!(peer.host.commits.hand_over().is_some());
            group.set_gate(gate, reason);
            peer.host.commits.settle(outcome);
            let (output, _) = peer.turn();
            group.set_gate(Gate::Open, "");
            output
        };
        assert_eq!(wait(gate, Outcome::Dropped), answer, "{gate:?}");
        // What may be in the log is not called refused.
        let unknown = "-UNKNOWN the write may or may not have been executed\r\n";
        assert_eq!(wait(gate, Outcome::Unknown), unknown, "{gate:?}");
        let busy = "-CLUSTERDOWN the log accepts no writes: it did not take this one in time\r\n";
        assert_eq!(wait(Gate::Open, Outcome::Dropped), busy);
    }
}

#[test]
fn requests_of_much_work_are_committed_one_by_one() {
    // A pair is five units, and a commit has some 16,384.
    for (pairs, count) in [(1_000, 3), (1_700, 2), (4_000, 1)] {
        let mut peer = resp();
        let words = 2 * pairs + 1;
        let pair = |n| format!("$5\r\nk{n:04}\r\n$1\r\nv\r\n");
        let mset =
            format!("*{words}\r\n$4\r\nMSET\r\n") + &(0..pairs).map(pair).collect::<String>();
        peer.receive([mset.as_str(), &mset, "SET a 1\r\n"].concat());
        assert_eq!(peer.turn(), (String::new(), Next::Commit));
        assert_eq!(peer.host.commits.hand_over().expect("records").count, count, "{pairs}");
    }
}

#[test]
fn a_third_of_plain_work_counts_in_the_queue() {
    let words = |words: &[&str]| {
        let word = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
        format!("*{}\r\n", words.len()) + &words.iter().map(word).collect::<String>()
    };
    let pairs = |command: &'static str, count: usize| {
        words(&[&[command][..], &["k", "v"].repeat(count)].concat())
    };
    let exec = |count: usize| {
        words(&["MULTI"]) + &words(&["SET", "a", "1"]).repeat(count) + &words(&["EXEC"])
    };
    let long = "x".repeat(1 << 20);
    for (request, units) in [
        (words(&["SET", "a", "1"]), 0),
        (words(&["SET", "a", "1"]).repeat(99), 33),
        (pairs("MSET", 300), 500),
        (pairs("MSET", 3_000), 5_000),
        (words(&["SET", "a", &long]), 1_024),
        (exec(120), 480),
    ] {
        let mut peer = resp();
        peer.receive(request);
        while peer.turn().1 != Next::Commit {}
        let handover = peer.host.commits.hand_over().expect("records");
        let most = units + units / 8 + 10;
        assert!((units..=most).contains(&handover.units), "{units}: {}", handover.units);
    }
}

#[derive(Debug)]
struct Nobody;

impl Deliver for Nobody {
    fn deliver(&self, _outcomes: Vec<(Ticket, Outcome)>) {}
}

#[test]
fn what_joins_a_short_submission_does_not_take_its_room() {
    let mset = |pairs: usize| {
        let words = 2 * pairs + 1;
        format!("*{words}\r\n$4\r\nMSET\r\n") + &"$1\r\nk\r\n$1\r\nv\r\n".repeat(pairs)
    };
    for (request, count) in [(mset(600), 2), (mset(640), 1)] {
        let mut peer = resp();
        // Long submissions fill the queue.
        let group = peer.host.log.as_ref().expect("a log").group.clone();
        let records = vec![0; QUEUE_BYTES_MAX];
        let ticket = Ticket { place: (9, 9), number: 9 };
        let deliver = Arc::new(Nobody);
        group.submit(&mut vec![Submission {
            records,
            count: 1,
            format: FORMAT_MIN,
            units: LONG_UNITS,
            ticket,
            deliver,
        }]);
        peer.receive(["SET a 1\r\n", &request].concat());
        assert_eq!(peer.turn(), (String::new(), Next::Commit));
        let handover = peer.host.commits.hand_over().expect("records");
        assert_eq!(handover.count, count);
        assert!(handover.units < LONG_UNITS);
    }
}

#[test]
fn the_error_of_a_value_that_is_too_long_for_the_log_names_its_limit() {
    let mut peer = resp();
    peer.host.log = TestLog::of::<RespPart>(&peer.host.databases, 100);
    assert!(peer.host.limits.value_bytes_max > 1_000);
    let long = "x".repeat(1_000);
    let of_log = "-ERR string exceeds maximum allowed size of a durable database \
        (durable_value_bytes_max: 100 bytes)\r\n";
    for request in [format!("SET a {long}"), format!("APPEND a {long}"), "SETRANGE a 100 x".into()]
    {
        assert_eq!(peer.ask(format!("{request}\r\n")).0, of_log, "{request}");
    }
    let of_both = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n";
    assert_eq!(peer.ask("SETRANGE a 4611686018427387904 x\r\n").0, of_both);
}
