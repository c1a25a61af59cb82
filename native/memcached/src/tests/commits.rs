//! Requests on durable databases.

use super::Conversation;
use crate::MemcachedSession;
use crate::testing::MemcachedPart;
use todana_group::Gate;
use todana_protocol::testing::{Peer, TestLog, with_durable_hosts};
use todana_protocol::{Advance, Budget, Limits, Next, NotDone, Progress, ProtocolName};

/// One turn of a conversation.
fn turn(of: &mut Conversation, input: &[u8]) -> (Vec<u8>, Progress) {
    let budget = Budget { requests_max: 128, output_bytes_max: 1 << 16 };
    let mut output = Vec::new();
    of.host.commits.begin_turn();
    let progress = of.session.advance(input, &mut output, &mut of.host, budget);
    (output, progress)
}

#[test]
fn what_is_appended_keeps_within_the_limit_of_the_protocol_and_of_the_log() {
    // The second request of a pipeline finds a value that is not there when it is submitted.
    let append = "append a 0 0 4\r\nxxxx\r\n";
    let requests = format!("set a 0 0 4\r\nxxxx\r\n{append}{append}ms a 4 MP\r\nyyyy\r\nget a\r\n");
    let play = |mut client: Conversation, protocol_max, log_max| {
        client.host.limits =
            Limits { memcached_value_bytes_max: protocol_max, ..Limits::default() };
        client.host.log = TestLog::of::<MemcachedPart>(&client.host.databases, log_max);
        client.ask(&requests)
    };
    let expected = play(Conversation::new(), 10, 0);
    assert!(expected.ends_with("\r\nVALUE a 0 8\r\nxxxxxxxx\r\nEND\r\n"), "{expected}");
    for (protocol_max, log_max) in [(10, 1 << 20), (1 << 20, 10)] {
        let client = with_durable_hosts(Conversation::new);
        assert_eq!(play(client, protocol_max, log_max), expected);
    }
}

/// Stores values of some length under `k0`, `k1`, and so on.
fn with_values(start: impl FnOnce() -> Conversation, count: usize, length: usize) -> Conversation {
    let mut client = start();
    let value = "x".repeat(length);
    for key in 0..count {
        assert_eq!(client.ask(format!("set k{key} 0 0 {length}\r\n{value}\r\n")), "STORED\r\n");
    }
    client
}

fn gat(count: usize) -> String {
    let keys: String = (0..count).map(|key| format!(" k{key}")).collect();
    format!("gat 100{keys}\r\n")
}

#[test]
fn a_line_of_more_keys_than_a_commit_has_is_several_commits() {
    // More keys than one turn looks up, and the reply to those is longer than a turn's output.
    let (count, length) = (2_500, 100);
    let (long, short) = (gat(count), gat(800));
    let reads = long.replace("gat 100", "gets");
    for request in [
        format!("{long}get k0\r\nmn\r\n"),
        format!("{short}{short}{long}{short}"),
        // The reads join the commit.
        format!("set z 0 0 1\r\n1\r\n{reads}incr z 1\r\n{reads}"),
        format!("{short}{reads}touch k7 5\r\n{long}"),
    ] {
        let mut in_memory = with_values(Conversation::new, count, length);
        let expected = in_memory.ask(&request);
        let mut client = with_values(|| with_durable_hosts(Conversation::new), count, length);
        let answer = client.ask(&request);
        assert!(answer == expected, "durable databases answer otherwise: {:.100}", request);
        assert_eq!(client.host.lookups, in_memory.host.lookups, "{:.100}", request);
        assert_eq!(client.host.commands, in_memory.host.commands, "{:.100}", request);
        assert!(!client.host.commits.is_broken());
    }
}

#[test]
fn a_line_of_keys_with_an_error_in_the_middle_disturbs_no_other_request() {
    // The reply to the keys behind the error is longer than a turn's output.
    let (count, length) = (9, 20_000);
    for broken in 0..count {
        let mut client = with_values(|| with_durable_hosts(Conversation::new), count, length);
        let request = format!("{}incr k0 1\r\nget k1\r\n", gat(count));
        let (_, progress) = turn(&mut client, request.as_bytes());
        assert_eq!(progress, Progress { consumed: 0, next: Next::Commit });
        let mut handover = client.host.commits.hand_over().expect("records");
        // The length of the key is wrong, so the record is executed by nobody.
        let key = format!("k{broken}");
        let at = memchr::memmem::find(&handover.records, key.as_bytes()).expect("the key");
        handover.records[at - 1] = 0x7f;
        let log = client.host.log.as_ref().expect("a log");
        let outcome = log.apply(handover, client.host.now_ms);
        client.host.commits.settle(outcome);
        let answer = client.ask(&request);
        let (_, rest) = answer.split_once("SERVER_ERROR internal error\r\n").expect("an error");
        let value = format!("VALUE k1 0 {length}\r\n{}\r\nEND\r\n", "x".repeat(length));
        let not_a_number = "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
        assert!(rest == format!("{not_a_number}{value}"), "{broken}: {:.200}", rest);
        assert!(!client.host.commits.is_broken());
    }
}

#[test]
fn a_line_of_keys_is_answered_once_if_the_log_refuses_them() {
    let unknown = "SERVER_ERROR outcome unknown\r\n";
    let request = format!("{}mn\r\n", gat(2_500));
    let mut client = with_durable_hosts(Conversation::new);
    turn(&mut client, request.as_bytes());
    client.host.commits.hand_over().expect("records");
    client.host.commits.give_up(NotDone::Unknown);
    assert_eq!(client.ask(&request), format!("{unknown}MN\r\n"));
    assert!(!client.host.commits.is_broken());

    // A line that is processed in pieces as it arrives.
    let mut client = with_durable_hosts(Conversation::new);
    client.host.limits.line_bytes_max = 100;
    client.host.log.as_ref().expect("a log").group.set_gate(Gate::Closed, "");
    let request = gat(2_500).replace("gat 100", "get");
    assert_eq!(client.ask(format!("{request}mn\r\n")), "SERVER_ERROR loading\r\nMN\r\n");
}

#[test]
fn a_description_has_one_answer_while_the_records_are_loaded() {
    let mut peer = Peer::<MemcachedSession, MemcachedPart>::new(ProtocolName::Memcached);
    peer.host.log.as_ref().expect("a log").group.set_gate(Gate::Closed, "");
    assert_eq!(peer.ask("me a\r\nmn\r\n").0, "SERVER_ERROR loading\r\nMN\r\n");
}

#[test]
fn a_pipeline_of_reads_needs_one_proof() {
    let mut peer = Peer::<MemcachedSession, MemcachedPart>::new(ProtocolName::Memcached);
    assert_eq!(peer.ask("get a b c\r\nmg a v\r\nget b\r\n"), ("END\r\nEN\r\nEND\r\n".into(), 1));
}

#[test]
fn while_the_disk_is_nearly_full_records_can_be_removed() {
    let mut peer = Peer::<MemcachedSession, MemcachedPart>::new(ProtocolName::Memcached);
    let group = peer.host.log.as_ref().expect("a log").group.clone();
    assert_eq!(peer.ask("set a 0 0 1\r\nx\r\nset b 0 0 1\r\nx\r\n").0, "STORED\r\nSTORED\r\n");
    group.set_gate(Gate::Removals, "the disk is nearly full");
    let answer = "DELETED\r\nSERVER_ERROR temporary failure\r\nHD\r\nOK\r\n";
    let pipeline = "delete a\r\nset a 0 0 1\r\nx\r\nmd b\r\nflush_all\r\n";
    assert_eq!(peer.ask(pipeline).0, answer);
}
