//! The bounds of one turn, and procedures that take several.

use super::Conversation;
use crate::KyotoSession;
use crate::testing::FakeHost;
use todana_protocol::{Advance, Budget, Next, Progress, ProtocolName};

const GET: &[u8] = b"GET /a HTTP/1.1\r\n\r\n";
const EMPTY_BULK: &[u8] = b"\xb9\0\0\0\0\0\0\0\0";

fn advance(input: &[u8], host: &mut FakeHost, budget: Budget) -> Progress {
    KyotoSession::default().advance(input, &mut Vec::new(), host, budget)
}

#[test]
fn a_turn_ends_after_its_requests() {
    let mut host = FakeHost::new(ProtocolName::Kyoto);
    let budget = Budget { requests_max: 2, output_bytes_max: 10_000 };
    for request in [GET, EMPTY_BULK] {
        let progress = advance(&request.repeat(3), &mut host, budget);
        assert_eq!(progress, Progress { consumed: 2 * request.len(), next: Next::Yield });
    }
}

#[test]
fn a_turn_ends_when_there_is_enough_to_send() {
    let mut host = FakeHost::new(ProtocolName::Kyoto);
    let budget = Budget { requests_max: 100, output_bytes_max: 200 };
    let progress = advance(&GET.repeat(10), &mut host, budget);
    assert_eq!(progress, Progress { consumed: 2 * GET.len(), next: Next::Yield });
}

#[test]
fn a_turn_ends_when_its_time_is_over() {
    let mut host = FakeHost::new(ProtocolName::Kyoto);
    host.turn_ends_at = 2;
    let budget = Budget { requests_max: 100, output_bytes_max: 10_000 };
    let progress = advance(&GET.repeat(3), &mut host, budget);
    assert_eq!(progress, Progress { consumed: 2 * GET.len(), next: Next::Yield });
}

#[test]
fn a_procedure_that_waits_keeps_the_requests_after_it() {
    let mut session = KyotoSession::default();
    let mut host = FakeHost::new(ProtocolName::Kyoto);
    host.part.signalled = true;
    let budget = Budget { requests_max: 100, output_bytes_max: 10_000 };
    let wait = b"GET /rpc/void?WAIT=name&WAITTIME=1.5 HTTP/1.1\r\n\r\n";
    let input = [GET, wait, GET].concat();
    let mut output = Vec::new();
    let progress = session.advance(&input, &mut output, &mut host, budget);
    let consumed = GET.len() + wait.len();
    assert_eq!(progress, Progress { consumed, next: Next::Wait { ms: 1500 } });
    assert!(output.starts_with(b"HTTP/1.1 404"));
    assert_eq!(host.part.waits, [b"name".to_vec()]);

    output.clear();
    let progress = session.advance(&input[consumed..], &mut output, &mut host, budget);
    assert_eq!(progress, Progress { consumed: GET.len(), next: Next::Read { wanted: 0 } });
    let answer = String::from_utf8_lossy(&output).into_owned();
    let (void, get) = (answer.find("HTTP/1.1 200"), answer.find("HTTP/1.1 404"));
    assert!(void == Some(0) && get > void, "{answer}");
}

#[test]
fn a_wait_takes_a_day_at_most() {
    let mut host = FakeHost::new(ProtocolName::Kyoto);
    let wait = b"GET /rpc/void?WAIT=name&WAITTIME=4000000000 HTTP/1.1\r\n\r\n";
    let budget = Budget { requests_max: 100, output_bytes_max: 10_000 };
    let progress = KyotoSession::default().advance(wait, &mut Vec::new(), &mut host, budget);
    assert_eq!(progress.next, Next::Wait { ms: 86_400_000 });
}

#[test]
fn a_procedure_that_waits_is_resumed_without_further_input() {
    let mut conversation = Conversation::new();
    let answer = conversation.ask("GET /rpc/void?WAIT=x&WAITTIME=1 HTTP/1.0\r\n\r\n");
    assert!(
        answer.starts_with("HTTP/1.1 503 Service Unavailable\nConnection: close\n"),
        "{answer}"
    );
    assert!(answer.ends_with("closed"), "{answer}");
}

#[test]
fn a_long_answer_goes_out_in_pieces() {
    const PIECE_BYTES: usize = 256 << 10;
    let mut session = KyotoSession::default();
    let mut host = FakeHost::new(ProtocolName::Kyoto);
    let budget = Budget { requests_max: 100, output_bytes_max: 10_000 };
    let echo = |connection: &str| {
        let body = format!("key\t{}\n", "v".repeat(1 << 20));
        let length = body.len();
        format!(
            "POST /rpc/echo HTTP/1.1\r\n{connection}Content-Type: text/tab-separated-values\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        )
    };
    let mut input = (echo("") + &echo("Connection: close\r\n")).into_bytes();
    let (mut answers, mut turns) = (Vec::new(), 0);
    loop {
        let mut output = Vec::new();
        let progress = session.advance(&input, &mut output, &mut host, budget);
        input.drain(..progress.consumed);
        assert!(output.len() <= PIECE_BYTES + 1_000, "{} bytes in a turn", output.len());
        answers.extend(output);
        turns += 1;
        if progress.next == Next::Close {
            break;
        }
    }
    assert!(turns >= 2 * (1 << 20) / PIECE_BYTES, "{turns} turns");
    // It is longer than an unencoded column may be.
    let body = format!("key\t{}\n", "v".repeat(1 << 20));
    assert_eq!(String::from_utf8(answers).unwrap().matches(&body).count(), 2);
}
