//! Requests on durable databases whose log does not execute them.

use super::{Conversation, shown};
use crate::KyotoSession;
use crate::testing::{FakeHost, KyotoPart};
use todana_group::{Gate, Outcome as LogOutcome};
use todana_protocol::testing::{Peer, with_durable_hosts, with_guest_hosts};
use todana_protocol::{
    Advance, Budget, Next, NotDone, Persistence, Progress, ProtocolName, Request,
};

const BUDGET: Budget = Budget { requests_max: 128, output_bytes_max: 1 << 16 };

fn durable() -> Conversation {
    with_durable_hosts(Conversation::new)
}

/// One turn of a conversation.
fn turn(of: &mut Conversation, input: &[u8]) -> (String, Progress) {
    let mut output = Vec::new();
    of.host.commits.begin_turn();
    let progress = of.session.advance(input, &mut output, &mut of.host, BUDGET);
    of.host.put_splices_into(&mut output);
    let outcome = todana_protocol::testing::Outcome { output, closed: false, slept_ms: 0, left: 0 };
    (shown(&outcome), progress)
}

fn post(procedure: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST /rpc/{procedure} HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

#[test]
fn a_bulk_whose_outcome_is_unknown_does_not_disturb_the_next_request() {
    for why in [NotDone::Unknown, NotDone::Busy] {
        let mut client = durable();
        let bulk = post("set_bulk", "_a=1&_b=2&_c=3");
        let (_, progress) = turn(&mut client, &bulk);
        assert_eq!(progress, Progress { consumed: 0, next: Next::Commit });
        assert_eq!(client.host.commits.hand_over().expect("records").count, 3);
        client.host.commits.give_up(why);
        let (answer, progress) = turn(&mut client, &bulk);
        assert_eq!(progress.consumed, bulk.len());
        let status = if why == NotDone::Unknown { "500" } else { "503" };
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
        let answer = client.ask(post("set", "key=d&value=4"));
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(!client.host.commits.is_broken());
    }
}

#[test]
fn a_bulk_with_an_error_in_the_middle_does_not_disturb_the_next_request() {
    let keys = [b"k1", b"k2", b"k3"];
    for (procedure, broken) in keys.map(|key| [("set_bulk", key), ("remove_bulk", key)]).concat() {
        let mut client = durable();
        let bulk = post(procedure, "_k1=1&_k2=2&_k3=3");
        let (_, progress) = turn(&mut client, &bulk);
        assert_eq!(progress, Progress { consumed: 0, next: Next::Commit });
        let mut handover = client.host.commits.hand_over().expect("records");
        // The length of the key is wrong, so nobody executes the record.
        let at = memchr::memmem::find(&handover.records, broken).expect("the key");
        handover.records[at - 1] = 0x7f;
        let log = client.host.log.as_ref().expect("a log");
        let outcome = log.apply(handover, client.host.now_ms);
        client.host.commits.settle(outcome);
        let (answer, progress) = turn(&mut client, &bulk);
        assert_eq!(progress.consumed, bulk.len());
        assert!(answer.starts_with("HTTP/1.1 500"), "{answer}");
        let answer = client.ask(post("set", "key=d&value=4"));
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(!client.host.commits.is_broken());
    }
}

#[test]
fn a_read_that_waits_for_its_commit_is_not_a_miss() {
    let mut client = durable();
    client.ask(post("set", "key=a&value=1"));
    client.ask(post("cur_jump", "CUR=1"));
    let seized = client.ask(post("cur_seize", "CUR=1"));
    assert!(seized.contains("value\\t1"), "{seized}");
    assert_eq!(client.host.lookups, (1, 0));
}

#[test]
fn the_host_counts_what_it_holds_for_a_commit() {
    let mut client = durable();
    let get: Vec<u8> =
        b"\xb8\0\0\0\0\0\0\0\x01\0\0\0\0\0\x01\0\0\0\x64\0\0\0\0\0\0\0\x63a".to_vec();
    let value = [b'x'; 100];
    let (_, progress) = turn(&mut client, &[&get[..], &value].concat());
    assert_eq!(progress.next, Next::Commit);
    let recorded = client.host.commits.held_bytes();
    assert!(recorded > 100, "{recorded}");
    assert!(client.host.commit());
    assert!(client.host.commits.held_bytes() > 0);
    let FakeHost { commits, .. } = &mut client.host;
    commits.drop_replies();
    commits.begin_turn();
    assert_eq!(commits.held_bytes(), 0);
}

/// A node that synchronizes its log each second.
fn every_second() -> Conversation {
    let mut client = durable();
    let log = Persistence { data_dir: "/data".into(), writable: true, ..Persistence::default() };
    client.host.persistence = Some(log);
    client
}

#[test]
fn synchronize_waits_for_the_disk() {
    let mut client = every_second();
    let done = client.ask(post("synchronize", "hard="));
    assert!(done.starts_with("HTTP/1.1 200"), "{done}");
    assert_eq!(client.host.requests, [Request::Sync]);
    assert!(client.host.looks.into_inner() > 3, "it looked until it was done");

    let mut client = every_second();
    client.host.disk_is_stuck = true;
    let request = post("synchronize", "");
    let (_, progress) = turn(&mut client, &request);
    assert_eq!(progress, Progress { consumed: request.len(), next: Next::Wait { ms: 5 } });
    client.host.now_ms += 29_999;
    assert_eq!(turn(&mut client, b"").1.next, Next::Wait { ms: 5 });
    client.host.now_ms += 1;
    let (answer, _) = turn(&mut client, b"");
    assert!(answer.starts_with("HTTP/1.1 500"), "{answer}");
    assert!(answer.contains("the disk does not answer"), "{answer}");
}

#[test]
fn synchronize_asks_for_nothing_that_is_on_disk_already() {
    let mut always = every_second();
    always.host.persistence.as_mut().expect("a log").always = true;
    let mut in_memory = Conversation::new();
    in_memory.host.persistence = every_second().host.persistence;
    for client in [&mut always, &mut in_memory] {
        let done = client.ask(post("synchronize", ""));
        assert!(done.starts_with("HTTP/1.1 200"), "{done}");
        assert!(client.host.requests.is_empty());
    }
}

#[test]
fn a_cursor_changes_the_record_that_it_is_on_when_the_log_is_applied() {
    use todana_command::{Command, Context, KeyCommand, NullReply, Set, StringCommand, execute};
    const REMOVED: Option<&str> = None;
    let stored = Some("other");
    for (procedure, before, after, expected) in [
        // Another client has changed the record: it is the same record.
        ("cur_set_value", stored, stored, "a=other b=2 "),
        ("cur_remove", stored, REMOVED, "b=2 "),
        ("cur_seize", stored, REMOVED, "b=2 "),
        // It has removed the record: the cursor is on the next one.
        ("cur_set_value", REMOVED, REMOVED, "b=new "),
        ("cur_remove", REMOVED, REMOVED, ""),
        ("cur_seize", REMOVED, REMOVED, ""),
        // It has removed the record and stored it again, before and after the cursor's write.
        ("cur_set_value", REMOVED, stored, "a=new b=2 "),
        ("cur_remove", REMOVED, stored, "b=2 "),
        ("cur_seize", REMOVED, stored, "b=2 "),
        // The other way round, the cursor's write came in between.
        ("cur_set_value", stored, REMOVED, "b=2 "),
        ("cur_remove", stored, stored, "a=other b=2 "),
        ("cur_seize", stored, stored, "a=other b=2 "),
    ] {
        let mut client = durable();
        client.ask(post("set_bulk", "_a=1&_b=2"));
        client.ask(post("cur_jump", "CUR=1&key=a"));
        let request = post(procedure, "CUR=1&value=new");
        let (_, progress) = turn(&mut client, &request);
        assert_eq!(progress.next, Next::Commit);
        let handover = client.host.commits.hand_over().expect("a record");
        // The log has the other client's write before this one.
        let context = Context { now_ms: client.host.now_ms, value_bytes_max: 100 };
        let databases = client.host.databases.clone();
        let write = |other| {
            let command = match other {
                None => Command::Key(KeyCommand::Delete { keys: &[b"a"] }),
                Some(value) => {
                    Command::String(StringCommand::Set(Set::new(b"a", str::as_bytes(value))))
                }
            };
            execute(&databases, 0, &command, context, &mut NullReply);
        };
        write(before);
        let log = client.host.log.as_ref().expect("a log");
        let outcome = log.apply(handover, client.host.now_ms);
        write(after);
        client.host.commits.settle(outcome);
        let answer = client.ask(&request);
        let shown = ["a", "b"].map(|key| {
            let got = client.ask(format!("GET /{key} HTTP/1.1\r\n\r\n"));
            match got.rsplit_once("\n\n") {
                Some((head, value)) if head.starts_with("HTTP/1.1 200") => {
                    format!("{key}={value} ")
                }
                _ => String::new(),
            }
        });
        assert!(answer.starts_with("HTTP/1.1 200"), "{procedure}: {answer}");
        if procedure == "cur_seize" {
            let is_first = before.or(after).is_some();
            let seized = if is_first { "a\nvalue\\tother" } else { "b\nvalue\\t2" };
            assert!(answer.contains(seized), "{answer}");
        }
        assert_eq!(shown.concat(), expected, "{procedure} between {before:?} and {after:?}");
        assert!(!client.host.commits.is_broken());
    }
}

fn put(key: &str, value: &str) -> Vec<u8> {
    let length = value.len();
    format!("PUT /{key} HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{value}").into_bytes()
}

fn get(key: &str) -> Vec<u8> {
    format!("GET /{key} HTTP/1.1\r\n\r\n").into_bytes()
}

/// Requests of one command each: some fail, and none is sent alone.
fn pipeline() -> Vec<Vec<u8>> {
    vec![
        put("a", "1"),
        post("set", "key=b&value=2"),
        get("a"),
        post("add", "key=b&value=3"),
        post("set", "key=b"),
        post("increment", "key=n&num=5"),
        post("get", "key=none"),
        b"DELETE /a HTTP/1.1\r\n\r\n".to_vec(),
        get("a"),
        post("seize", "key=b"),
        post("append", "key=c&value=xy"),
        post("cas", "key=c&oval=xy&nval=z"),
        get("c"),
    ]
}

#[test]
fn pipelined_requests_share_a_commit() {
    let requests = pipeline();
    let mut client = durable();
    let input = requests.concat();
    let (sent, progress) = turn(&mut client, &input);
    assert_eq!((sent.as_str(), progress), ("", Progress { consumed: 0, next: Next::Commit }));
    assert!(client.host.observed.is_empty() && client.host.commands == 0);
    assert!(client.host.commit());
    let (sent, progress) = turn(&mut client, &input);
    assert_eq!(progress.consumed, input.len());
    let mut one_by_one = Conversation::new();
    let expected: String = requests.iter().map(|request| one_by_one.ask(request)).collect();
    assert_eq!(sent, expected);
    assert_eq!(client.host.commands, requests.len() as u64);
    assert_eq!(client.host.lookups, one_by_one.host.lookups);
    assert_eq!(client.host.log.as_ref().expect("a log").group.figures().applied_index, 1);
}

#[test]
fn what_cannot_share_a_commit_waits_for_it() {
    for (request, records) in [
        (post("set", "key=b&value=2"), 2),
        (post("set", "key=b&value=2&SIGNAL=x"), 1),
        (post("set", "key=b&value=2&WAIT=x"), 1),
        (post("set_bulk", "_b=2"), 1),
        (post("cur_jump", "CUR=1"), 1),
        (post("synchronize", ""), 1),
        (b"\xb9\0\0\0\0\0\0\0\x01\0\0\0\0\0\x01a".to_vec(), 1),
        (b"PUT /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n2\r\n0\r\n\r\n".to_vec(), 1),
        (b"PUT /b HTTP/1.0\r\nContent-Length: 1\r\n\r\nx".to_vec(), 2),
    ] {
        let mut client = durable();
        let input = [put("a", "1"), request.clone(), put("c", "3")].concat();
        let (_, progress) = turn(&mut client, &input);
        assert_eq!(progress, Progress { consumed: 0, next: Next::Commit });
        assert!(client.host.part.signals.is_empty() && client.host.part.waits.is_empty());
        let count = client.host.commits.hand_over().expect("records").count;
        let shown = request.escape_ascii();
        // What follows a request that shares shares, too, unless the connection ends with it.
        let more = usize::from(records == 2 && !shown.to_string().contains("1.0"));
        assert_eq!(count, records + more, "{shown}");
    }
}

#[test]
fn every_request_of_a_commit_with_an_unknown_outcome_says_so() {
    let mut client = durable();
    let input = pipeline().concat();
    turn(&mut client, &input);
    assert!(client.host.commits.hand_over().is_some());
    client.host.commits.give_up(NotDone::Unknown);
    let (answer, progress) = turn(&mut client, &input);
    assert_eq!(progress.consumed, input.len());
    // All but the one that lacks a value.
    assert_eq!(answer.matches("outcome unknown").count(), pipeline().len() - 1, "{answer}");
    assert!(!client.host.commits.is_broken());
}

#[test]
fn while_the_disk_is_nearly_full_records_can_be_removed() {
    let mut peer = Peer::<KyotoSession, KyotoPart>::new(ProtocolName::Kyoto);
    let group = peer.host.log.as_ref().expect("a log").group.clone();
    let put = "PUT /a HTTP/1.1\r\nContent-Length: 1\r\n\r\nx";
    assert!(peer.ask(put).0.starts_with("HTTP/1.1 201"));
    group.set_gate(Gate::Removals, "the disk is nearly full");
    for (request, status) in [
        (put, "HTTP/1.1 503"),
        ("DELETE /a HTTP/1.1\r\n\r\n", "HTTP/1.1 204"),
        ("POST /rpc/clear HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200"),
    ] {
        let answer = peer.ask(request).0;
        assert!(answer.starts_with(status), "{request}: {answer}");
    }
}

/// A guest's client, whose cursor has removed its record and is to find the next one.
fn has_removed(request: &[u8]) -> Conversation {
    let mut client = with_guest_hosts(Conversation::new);
    client.ask(post("set_bulk", "_a=1&_b=2&_c=3"));
    client.ask(post("cur_jump", "CUR=1&key=a"));
    let (_, progress) = turn(&mut client, request);
    assert_eq!(progress, Progress { consumed: 0, next: Next::Commit });
    assert!(client.host.commit());
    client
}

fn left(client: &mut Conversation) -> String {
    let found = ["a", "b", "c"].map(|key| {
        let got = client.ask(format!("GET /{key} HTTP/1.1\r\n\r\n"));
        if got.starts_with("HTTP/1.1 200") { key } else { "-" }
    });
    found.concat()
}

#[test]
fn a_cursor_of_a_guest_goes_on_without_room() {
    for procedure in ["cur_seize", "cur_remove"] {
        let request = post(procedure, "CUR=1");
        let mut client = has_removed(&request);
        client.host.crowd();
        let (_, progress) = turn(&mut client, &request);
        assert_eq!(progress, Progress { consumed: 0, next: Next::Commit }, "{procedure}");
        client.host.commits.hand_over().expect("a record");
    }
}

#[test]
fn a_cursor_of_a_guest_whose_second_command_is_not_answered_has_perhaps_written() {
    for (procedure, outcome) in
        [("cur_seize", LogOutcome::Dropped), ("cur_remove", LogOutcome::Unknown)]
    {
        let request = post(procedure, "CUR=1");
        let mut client = has_removed(&request);
        let (_, progress) = turn(&mut client, &request);
        assert_eq!(progress, Progress { consumed: 0, next: Next::Commit }, "{procedure}");
        client.host.commits.hand_over().expect("a record");
        client.host.commits.settle(outcome);
        let (answer, progress) = turn(&mut client, &request);
        assert_eq!(progress.consumed, request.len(), "{procedure}");
        assert!(answer.starts_with("HTTP/1.1 500"), "{procedure}: {answer}");
        let commits = &client.host.commits;
        assert!(!commits.is_broken() && !commits.is_playing(), "{procedure}");
        assert_eq!(left(&mut client), "-bc", "{procedure}");
    }
    // It is refused before that.
    let request = post("cur_seize", "CUR=1");
    let mut client = has_removed(&request);
    client.host.set_gate(Gate::Closed);
    let (answer, progress) = turn(&mut client, &request);
    assert_eq!(progress.consumed, request.len());
    assert!(answer.starts_with("HTTP/1.1 500"), "{answer}");
    client.host.set_gate(Gate::Open);
    client.host.commits.begin_turn();
    assert_eq!(left(&mut client), "-bc");
}
