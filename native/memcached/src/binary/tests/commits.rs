//! Pipelines on durable databases.

use super::{Conversation, Sent, get, request, set};
use todana_protocol::testing::with_durable_hosts;
use todana_protocol::{Advance, Budget, Next, NotDone};

/// A pipeline with reads, writes, and requests that wait for a commit.
fn pipeline() -> Vec<Sent> {
    let mut requests = Vec::new();
    for round in 0..40 {
        let key = format!("k{}", round % 7);
        requests.extend([
            request("setq").key(&key).value("10").u32(round).u32(0),
            request("getk").key(&key),
            request("increment").key(&key).u64(u64::from(round)).u64(0).u32(0),
            request("gatkq").key(&key).u32(100),
            get(&key),
        ]);
        if round % 9 == 0 {
            requests.extend([request("noop"), request("version")]);
        }
        if round % 13 == 0 {
            requests.push(request("flushq"));
        }
        requests.push(request("deleteq").key(&key));
        requests.push(request("deleteq").key(&key).opaque(round));
    }
    requests
}

#[test]
fn a_pipeline_has_the_same_answers_on_durable_databases() {
    let mut in_memory = Conversation::new();
    let expected = in_memory.texts(&pipeline());
    let mut durable = with_durable_hosts(Conversation::new);
    assert_eq!(durable.texts(&pipeline()), expected);
    assert_eq!(durable.host.lookups, in_memory.host.lookups);
    assert_eq!(durable.host.commands, in_memory.host.commands);
    assert!(!durable.host.commits.is_broken());
}

#[test]
fn quiet_writes_are_one_commit() {
    let mut client = with_durable_hosts(Conversation::new);
    let requests: Vec<u8> = (0..100)
        .flat_map(|n| request("setq").key(format!("k{n}")).value("x").u32(0).u32(0).bytes())
        .chain(request("noop").bytes())
        .collect();
    let budget = Budget { requests_max: 128, output_bytes_max: 1 << 16 };
    let mut output = Vec::new();
    client.host.commits.begin_turn();
    let progress = client.session.advance(&requests, &mut output, &mut client.host, budget);
    assert_eq!((progress.consumed, progress.next), (0, Next::Commit));
    assert_eq!(client.host.commits.hand_over().expect("records").count, 100);
}

#[test]
fn requests_are_answered_once_if_their_outcome_is_unknown() {
    let mut client = with_durable_hosts(Conversation::new);
    let quiet = request("setq").key("b").value("x").u32(0).u32(0);
    let input: Vec<u8> =
        [set("a", "1"), quiet, request("noop")].iter().flat_map(Sent::bytes).collect();
    let budget = Budget { requests_max: 128, output_bytes_max: 1 << 16 };
    client.host.commits.begin_turn();
    client.session.advance(&input, &mut Vec::new(), &mut client.host, budget);
    client.host.commits.hand_over().expect("records");
    client.host.commits.give_up(NotDone::Unknown);
    let outcome = client.send(&input);
    let texts: Vec<String> =
        super::responses(&outcome.output).iter().map(super::Received::text).collect();
    assert_eq!(texts, ["0x84 Outcome unknown", "0x84 Outcome unknown", "0x00 "]);
}

#[test]
fn a_value_that_is_too_long_removes_the_record_through_the_log() {
    let mut client = with_durable_hosts(Conversation::new);
    client.host.limits.memcached_value_bytes_max = 10;
    let answers =
        client.texts(&[set("a", "1"), set("a", &"x".repeat(11)), get("a"), request("noop")]);
    assert_eq!(answers, ["0x00 ", "0x03 Too large.", "0x01 Not found", "0x00 "]);
}
