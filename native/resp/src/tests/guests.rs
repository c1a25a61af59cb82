//! Requests of a guest's clients that its seat refuses, or answers no more.

use super::*;
use todana_group::{Gate, Outcome as LogOutcome};
use todana_protocol::testing::with_guest_hosts;
use todana_protocol::{Budget, Next};

const BUDGET: Budget = Budget { requests_max: 128, output_bytes_max: 1 << 16 };
const NO_MEMBER: &str = "-CLUSTERDOWN no member of the cluster answers this node";

fn start() -> (RespSession, FakeHost) {
    (RespSession::default(), with_guest_hosts(host))
}

#[test]
fn a_long_answer_that_is_refused_is_not_gone_on_with() {
    const VALUE_BYTES: usize = 15 << 20;
    let (mut session, mut host) = start();
    let value = vec![b'x'; VALUE_BYTES];
    let set = [b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$15728640\r\n", &value[..], b"\r\n"].concat();
    converse(&mut session, &mut host, [&set[..]]);
    for (keys, is_answered) in [(6, true), (10, false)] {
        let get = array(&format!("MGET{}", " k".repeat(keys)));
        let behind = ["MSET x 1 y 2", "MGET x y"].map(array).concat();
        let output = converse(&mut session, &mut host, [&[get, behind].concat()[..]]).output;
        let rest = match is_answered {
            true => {
                let (whole, rest) = output.split_at(keys * (VALUE_BYTES + 13) + 4);
                assert!(whole.starts_with(b"*6\r\n$15728640\r\nxxx") && whole.ends_with(b"xx\r\n"));
                rest
            }
            false => &output[..],
        };
        // Those behind a long answer are not executed; there is room behind a refusal.
        let (expected, stored) = match is_answered {
            true => ([NO_MEMBER; 2].join(" "), "*2 $-1 $-1"),
            false => (format!("{NO_MEMBER} +OK *2 $1 1 $1 2"), "*2 $1 1 $1 2"),
        };
        assert_eq!(shown(rest), expected, "{keys} keys");
        assert_eq!(ask(&mut session, &mut host, "MGET x y"), stored);
    }
}

#[test]
fn a_watch_that_is_refused_does_not_disturb_the_next_request() {
    for outcome in [LogOutcome::Dropped, LogOutcome::Unknown] {
        let (mut session, mut host) = start();
        let mut input = ["WATCH a b", "GET a"].map(array).concat();
        let mut output = Vec::new();
        let progress = session.advance(&input, &mut output, &mut host, BUDGET);
        assert_eq!((progress.consumed, progress.next), (0, Next::Commit));
        assert_eq!(host.commits.hand_over().expect("records").count, 2);
        host.commits.settle(outcome);
        while !input.is_empty() {
            host.commits.begin_turn();
            let progress = session.advance(&input, &mut output, &mut host, BUDGET);
            input.drain(..progress.consumed);
            match progress.next {
                Next::Commit => assert!(host.commit()),
                Next::Read { .. } => assert!(!host.commits.is_playing(), "a reply is left"),
                _ => {}
            }
            assert!(!host.commits.is_broken());
        }
        assert_eq!(shown(&output), format!("{NO_MEMBER} $-1"));
        host.commits.begin_turn();
        assert_eq!(ask(&mut session, &mut host, "WATCH a b"), "+OK");
    }
}

#[test]
fn a_watch_without_a_seat_is_refused() {
    let (mut session, mut host) = start();
    host.set_gate(Gate::Closed);
    assert_eq!(ask(&mut session, &mut host, "WATCH a b"), NO_MEMBER);
    host.set_gate(Gate::Open);
    assert_eq!(ask(&mut session, &mut host, "WATCH a b"), "+OK");
}
