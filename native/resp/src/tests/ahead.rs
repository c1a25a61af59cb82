//! Pipelines: parsing ahead changes nothing but the time it takes.

use super::*;

/// The lines as one pipeline, which may also contain raw bytes.
fn pipeline(lines: &[&str]) -> Vec<u8> {
    lines.iter().flat_map(|line| array(line)).collect()
}

#[test]
fn a_long_pipeline_is_answered_in_order() {
    let lines: Vec<String> =
        (0..40).flat_map(|n| [format!("SET k{n} {n}"), format!("GET k{n}")]).collect();
    let input = pipeline(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    let mut wanted = String::new();
    for n in 0..40 {
        wanted += &format!("+OK ${} {n} ", n.to_string().len());
    }
    assert_eq!(shown(&raw(&input).output), wanted.trim_end());
}

#[test]
fn requests_that_cannot_be_parsed_ahead_keep_their_place() {
    let long = format!("MGET {}", "a ".repeat(20));
    let mut input = pipeline(&["SET a 1", "INCR a"]);
    input.extend(b"GET a\r\n\r\n*0\r\n");
    input.extend(pipeline(&["GET a", &long, "NO such", "DEL a"]));
    input.extend(b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n*1\r\n:\r\n");
    let outcome = raw(&input);
    let wanted = format!(
        "+OK :2 $1 2 $1 2 *20 {}-ERR unknown command 'NO', with args beginning with: 'such'  \
         :1 $-1 -ERR Protocol error: expected '$', got ':'",
        "$1 2 ".repeat(20)
    );
    assert_eq!((shown(&outcome.output), outcome.closed), (wanted, true));
}

#[test]
fn bounds_change_in_the_middle_of_a_pipeline() {
    let start = || {
        let limits = todana_protocol::Limits {
            unauthenticated_argument_bytes_max: 20,
            ..todana_protocol::Limits::default()
        };
        (RespSession::default(), FakeHost { password: Some(b"secret".to_vec()), limits, ..host() })
    };
    let long = format!("SET k {}", "x".repeat(21));
    let input =
        pipeline(&["GET k", "AUTH secret", &long, "STRLEN k", "RESET", "GET k", &long, "PING"]);
    let outcome = converse_in_every_way(start, &input, |it| it);
    assert_eq!(
        (shown(&outcome.output).as_str(), outcome.closed),
        (
            "-NOAUTH Authentication required. +OK +OK :21 +RESET -NOAUTH Authentication required. \
             -ERR Protocol error: unauthenticated bulk length",
            true
        )
    );
}

#[test]
fn pauses_and_ends_leave_the_rest_of_a_pipeline_for_later() {
    let outcome = raw(&pipeline(&["SET a 1", "DEBUG SLEEP 0.01", "GET a", "QUIT", "SET a 2"]));
    assert_eq!(shown(&outcome.output), "+OK +OK $1 1 +OK");
    assert_eq!((outcome.slept_ms, outcome.closed), (10, true));
    assert_eq!(outcome.left > 0, outcome.closed);
}
