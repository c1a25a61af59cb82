//! Section 1 of the specification: HTTP requests and responses, whatever their purpose.

use super::{Conversation, answers, answers_with};
use crate::KyotoSession;
use crate::testing::FakeHost;
use todana_protocol::{Advance, Budget, Next, ProtocolName};

const MISS: &str = "HTTP/1.1 404 Not Found\nContent-Length: 0\n\
    X-Kt-Error: DB: 7: no record: no record\n\n";
const CREATED: &str = "HTTP/1.1 201 Created\nContent-Length: 0\n\
    Location: http://localhost:6379/a\n\n";

/// A response with a sentence as its body, after which the connection closes.
fn refusal(status: &str, why: &str) -> String {
    let length = status.len() + why.len() + 4;
    format!(
        "HTTP/1.1 {status}\nConnection: close\nContent-Length: {length}\nContent-Type: \
         text/plain\n\n{status} ({why})\nclosed"
    )
}

#[test]
fn headers_come_in_the_order_of_kyoto_tycoon() {
    let mut conversation = Conversation::new();
    let outcome = conversation.send("GET /a HTTP/1.1\r\nConnection: close\r\n\r\n");
    let version = env!("CARGO_PKG_VERSION");
    let expected = format!(
        "HTTP/1.1 404 Not Found\r\nServer: Todana/{version}\r\nDate: Tue, 14 Nov 2023 22:13:20 \
         GMT\r\nConnection: close\r\nContent-Length: 0\r\nX-Kt-Error: DB: 7: no record: no \
         record\r\n\r\n"
    );
    assert_eq!(String::from_utf8_lossy(&outcome.output), expected);
    assert!(outcome.closed);
}

#[test]
fn the_date_goes_on() {
    let mut conversation = Conversation::new();
    for (second, date) in [(0, "Thu, 01 Jan 1970 00:00:00"), (86_399, "Thu, 01 Jan 1970 23:59:59")]
    {
        conversation.host.now_ms = second * 1000 + 999;
        let answer = conversation.ask("GET /a HTTP/1.1\r\n\r\n");
        assert!(answer.contains(&format!("\nDate: {date} GMT\n")), "{answer}");
    }
}

#[test]
fn requests_are_answered_in_their_order() {
    let input = "PUT /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nonePUT /a HTTP/1.1\r\n\
                 Content-Length: 3\r\n\r\ntwoGET /a HTTP/1.1\r\n\r\nDELETE /a HTTP/1.1\r\n\r\n\
                 GET /a HTTP/1.1\r\n\r\n";
    let expected = format!(
        "{CREATED}{CREATED}HTTP/1.1 200 OK\nContent-Length: 3\n\ntwoHTTP/1.1 204 No \
         Content\nContent-Length: 0\n\n{MISS}"
    );
    assert_eq!(answers(input), expected);
}

#[test]
fn a_connection_goes_on_as_version_and_header_say() {
    for (version, connection, goes_on) in [
        ("1.1", "", true),
        ("1.1", "Connection: close\r\n", false),
        ("1.1", "connection:CLOSE\r\n", false),
        ("1.1", "Connection: keep-alive, Close\r\n", false),
        ("1.1", "Connection: upgrade\r\n", true),
        ("1.0", "", false),
        ("1.0", "Connection: Keep-Alive\r\n", true),
        ("1.0", "Connection: upgrade\r\n", false),
    ] {
        let answer = answers(format!("GET /a HTTP/{version}\r\n{connection}\r\n"));
        assert_eq!(answer.ends_with("closed"), !goes_on, "{version} {connection}");
        assert_eq!(answer.contains("\nConnection: close\n"), !goes_on, "{version} {connection}");
    }
}

#[test]
fn anything_but_a_request_closes_silently() {
    for line in [
        "\r\n",
        "GET\r\n",
        "GET /a\r\n",
        "GET /a HTTP/1.2\r\n",
        "GET /a HTTP/2.0\r\n",
        "GET /a http/1.1\r\n",
        "GET  /a HTTP/1.1\r\n",
        "GET /a b HTTP/1.1\r\n",
        "GET /a HTTP/1.1 \r\n",
        "GET /a\x01b HTTP/1.1\r\n",
        "GET /a\rb HTTP/1.1\r\n",
        " GET /a HTTP/1.1\r\n",
        "G(T /a HTTP/1.1\r\n",
        "(",
        "\x16\x03\x01\x02",
        "*1\r\n$4\r\nPING\r\n",
        "set a 0 0 1\r\n1\r\n",
        "FLUSHALL\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let input = format!("{line}GET /a HTTP/1.1\r\n\r\n");
        assert_eq!(answers(&input), "closed", "{}", line.escape_debug());
    }
}

#[test]
fn the_words_of_other_protocols_change_nothing() {
    for words in
        ["*1\r\n$8\r\nFLUSHALL\r\n", "FLUSHALL\r\n", "set a 0 0 1\r\n1\r\n", "flush_all\r\n"]
    {
        let mut conversation = Conversation::new();
        conversation.ask("PUT /a HTTP/1.1\r\nContent-Length: 1\r\n\r\nx");
        assert_eq!(conversation.ask(words), "closed", "{words}");
        conversation.session = KyotoSession::default();
        conversation.waiting.clear();
        let answer = conversation.ask("GET /a HTTP/1.1\r\n\r\n");
        assert!(answer.ends_with("\n\nx"), "{words}: {answer}");
    }
}

#[test]
fn lines_may_end_without_a_cr() {
    assert_eq!(
        answers("GET /a HTTP/1.1\nHost: localhost\n\nGET /a HTTP/1.1\n\r\n"),
        MISS.repeat(2)
    );
}

#[test]
fn of_a_header_that_comes_twice_the_last_counts() {
    let input = "GET /a HTTP/1.1\r\nConnection: close\r\nConnection: keep-alive\r\n\r\n";
    assert_eq!(answers(input), MISS);
    let input = "PUT /a HTTP/1.1\r\nX-Kt-Mode: set\r\nX-Kt-Mode: replace\r\n\r\n";
    assert!(answers(input).starts_with("HTTP/1.1 450"));
}

#[test]
fn header_lines_that_http_does_not_know_are_refused() {
    for line in ["no colon", "Name : x", " folded: x", ": x", "A: \x01", "A\x7f: x"] {
        let input = format!("GET /a HTTP/1.1\r\n{line}\r\n\r\nGET /a HTTP/1.1\r\n\r\n");
        assert_eq!(answers(input), refusal("400 Bad Request", "invalid header"), "{line}");
    }
}

#[test]
fn two_lengths_of_a_body_are_refused() {
    for (headers, why) in [
        ("Content-Length: 1\r\nContent-Length: 2", "invalid content length"),
        ("Content-Length: 1\r\nTransfer-Encoding: chunked", "invalid transfer encoding"),
        ("Transfer-Encoding: chunked\r\nContent-Length: 1", "invalid content length"),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "invalid transfer encoding"),
        ("Transfer-Encoding: gzip, chunked", "invalid transfer encoding"),
        ("Content-Length: ", "invalid content length"),
        ("Content-Length: +1", "invalid content length"),
        ("Content-Length: -1", "invalid content length"),
        ("Content-Length: 1x", "invalid content length"),
        ("Content-Length: 1, 1", "invalid content length"),
        ("Content-Length: 18446744073709551616", "invalid content length"),
    ] {
        let input =
            format!("POST /a HTTP/1.1\r\n{headers}\r\n\r\n0\r\n\r\nGET /a HTTP/1.1\r\n\r\n");
        assert_eq!(answers(input), refusal("400 Bad Request", why), "{headers}");
    }
    let input = "PUT /a HTTP/1.1\r\nContent-Length: 1\r\ncontent-length: 01\r\n\r\nx";
    assert_eq!(answers(input), CREATED);
}

#[test]
fn a_body_may_come_in_chunks() {
    let input = "PUT /a HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n2;x=y\r\n, \r\n\
                 05\r\nworld\r\n0\r\nTrailer: x\r\n\r\nGET /a HTTP/1.1\r\n\r\n";
    let got = "HTTP/1.1 200 OK\nContent-Length: 12\n\nhello, world";
    assert_eq!(answers(input), format!("{CREATED}{got}"));
}

#[test]
fn a_body_without_a_length_is_empty() {
    let input = "PUT /a HTTP/1.1\r\n\r\nGET /a HTTP/1.1\r\n\r\n";
    assert_eq!(answers(input), format!("{CREATED}HTTP/1.1 200 OK\nContent-Length: 0\n\n"));
}

#[test]
fn malformed_chunks_are_refused() {
    for chunk in ["x\r\n", "1\r\nab\r\n", "\r\n", "-1\r\n"] {
        let input = format!("PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}");
        assert_eq!(answers(input), refusal("400 Bad Request", "invalid chunk"), "{chunk}");
    }
}

#[test]
fn chunks_end_a_connection_of_http_1_0() {
    let input = "PUT /a HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n\
                 0\r\n\r\nGET /a HTTP/1.1\r\n\r\n";
    assert!(answers(input).starts_with("HTTP/1.1 201 Created\nConnection: close\n"));
    assert!(answers(input).ends_with("/a\n\nclosed"));
}

#[test]
fn methods_without_a_use_for_a_body_pass_it_over() {
    for method in ["GET", "DELETE"] {
        let inner = "GET /b HTTP/1.1\r\n\r\n";
        let length = inner.len();
        for body in [
            format!("Content-Length: {length}\r\n\r\n{inner}"),
            format!("Transfer-Encoding: chunked\r\n\r\n{length:x}\r\n{inner}\r\n0\r\n\r\n"),
        ] {
            let input = format!("{method} /a HTTP/1.1\r\n{body}");
            assert_eq!(answers(input), MISS, "{method} {body}");
        }
    }
}

#[test]
fn a_client_that_waits_before_its_body_gets_one_permission() {
    let go_on = "HTTP/1.1 100 Continue\n\n";
    let head = "PUT /a HTTP/1.1\r\nExpect: 100-Continue\r\n";
    let sized = format!("{head}Content-Length: 1\r\n\r\nx");
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n");
    assert_eq!(answers(sized.repeat(2)), format!("{go_on}{CREATED}").repeat(2));
    assert_eq!(answers(chunked), format!("{go_on}{CREATED}"));
    assert_eq!(answers(format!("{head}Content-Length: 0\r\n\r\n")), CREATED);
    assert_eq!(answers(format!("{head}\r\n")), CREATED);
    assert_eq!(answers("PUT /a HTTP/1.1\r\nExpect: x\r\nContent-Length: 1\r\n\r\nx"), CREATED);

    let mut conversation = Conversation::new();
    let before = sized.len() - 1;
    assert_eq!(conversation.ask(&sized[..before]), go_on);
    assert_eq!(conversation.ask(&sized[before..]), CREATED);
}

#[test]
fn a_body_has_up_to_the_limit() {
    let too_large = refusal("413 Request Entity Too Large", "request entity too large");
    let prepare = |host: &mut FakeHost| host.part.kyoto.body_bytes_max = 10;
    for (length, fits) in [(0, true), (9, true), (10, true), (11, false), (u64::MAX, false)] {
        let body = "x".repeat(length.min(11) as usize);
        let input = format!("PUT /a HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}");
        let expected = if fits { CREATED } else { &too_large };
        assert_eq!(answers_with(&input, prepare), expected, "{length}");
        let input = format!(
            "PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n\
             {:x}\r\n{body}\r\n0\r\n\r\n",
            length.saturating_sub(1)
        );
        if length > 10 {
            assert_eq!(answers_with(&input, prepare), too_large, "{length} in chunks");
        }
    }
    let chunked = |more: usize| {
        let body = "x".repeat(more);
        format!(
            "PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nxxxx\r\n\
             {more:x}\r\n{body}\r\n0\r\n\r\n"
        )
    };
    assert_eq!(answers_with(chunked(5), prepare), CREATED);
    assert_eq!(answers_with(chunked(6), prepare), CREATED);
    assert_eq!(answers_with(chunked(7), prepare), too_large);
}

#[test]
fn a_body_that_is_too_long_is_refused_before_it_comes() {
    let mut conversation = Conversation::new();
    let length = conversation.host.part.kyoto.body_bytes_max + 1;
    let answer = conversation.ask(format!("PUT /a HTTP/1.1\r\nContent-Length: {length}\r\n\r\n"));
    assert_eq!(answer, refusal("413 Request Entity Too Large", "request entity too large"));
}

#[test]
fn a_refusal_of_head_has_no_body() {
    let input = "HEAD /a HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n";
    let expected = "HTTP/1.1 413 Request Entity Too Large\nConnection: close\nContent-Type: \
                    text/plain\n\nclosed";
    assert_eq!(answers(input), expected);
}

#[test]
fn request_lines_have_up_to_8191_bytes() {
    let line = |length: usize| format!("GET /{} HTTP/1.1", "a".repeat(length - 14));
    for (length, fits) in [(8190, true), (8191, true), (8192, false)] {
        for end in ["\n", "\r\n"] {
            let line = line(length);
            let answer = Conversation::new().ask(format!("{line}{end}\r\n"));
            assert_eq!(answer, if fits { MISS } else { "closed" }, "{length}");
        }
    }
    // The last byte may be a CR, which does not count.
    assert_eq!(Conversation::new().ask("a".repeat(8192)), "");
    assert_eq!(Conversation::new().ask("a".repeat(8193)), "closed");
}

#[test]
fn heads_have_up_to_the_limit() {
    let max = Conversation::new().host.limits.line_bytes_max;
    let head = |length: usize| {
        let start = "GET /a HTTP/1.1\r\nA: ";
        format!("{start}{}\r\n\r\n", "x".repeat(length - start.len() - 4))
    };
    let too_large = refusal("400 Bad Request", "request header too large");
    for (length, expected) in [(max - 1, MISS), (max, MISS), (max + 1, &too_large)] {
        assert_eq!(Conversation::new().ask(head(length)), expected, "{length}");
        let mut conversation = Conversation::new();
        let head = head(length);
        let (front, back) = head.split_at(max - 100);
        assert_eq!(conversation.ask(front), "");
        assert_eq!(conversation.ask(back), expected, "{length}, in two pieces");
    }
}

#[test]
fn a_head_has_up_to_128_headers() {
    let too_many = refusal("400 Bad Request", "too many headers");
    for (count, expected) in [(16, MISS), (17, MISS), (127, MISS), (128, MISS), (129, &too_many)] {
        let input = format!("GET /a HTTP/1.1\r\n{}\r\n", "a:\r\n".repeat(count));
        assert_eq!(answers(input), expected, "{count}");
    }
}

#[test]
fn a_body_in_pieces_is_asked_for_by_length() {
    let mut session = KyotoSession::default();
    let mut host = FakeHost::new(ProtocolName::Kyoto);
    let budget = Budget { requests_max: 10, output_bytes_max: 1000 };
    let mut output = Vec::new();
    let mut input = b"PUT /a HTTP/1.1\r\nContent-Length: 1000\r\n\r\n".to_vec();
    for arrived in 0..100 {
        let progress = session.advance(&input, &mut output, &mut host, budget);
        assert_eq!(progress.next, Next::Read { wanted: 1000 - arrived * 10 });
        assert_eq!(progress.consumed, 0);
        input.extend_from_slice(&[b'x'; 10]);
    }
    let progress = session.advance(&input, &mut output, &mut host, budget);
    assert_eq!(progress.consumed, input.len());
    assert!(output.starts_with(b"HTTP/1.1 201"));
}

#[test]
fn the_middle_of_a_request_is_never_taken_for_its_end() {
    let head = "PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    let middles = [
        head.to_owned(),
        format!("{head}1\r\nx\r\n"),
        format!("{head}0\r\n"),
        format!("{head}0\r\nA: b\r\n"),
    ];
    let script = b"\xb4\0\0\0\0\0\0\0\x05\0\0\0\0name".to_vec();
    let budget = Budget { requests_max: 10, output_bytes_max: 1000 };
    for input in middles.map(String::into_bytes).into_iter().chain([script]) {
        let mut host = FakeHost::new(ProtocolName::Kyoto);
        let mut session = KyotoSession::default();
        let progress = session.advance(&input, &mut Vec::new(), &mut host, budget);
        assert_eq!(progress.consumed, input.len(), "{}", input.escape_ascii());
        for progress in [progress, session.advance(b"", &mut Vec::new(), &mut host, budget)] {
            assert_eq!(progress.next, Next::Read { wanted: 1 }, "{}", input.escape_ascii());
        }
    }
}

#[test]
fn chunks_are_taken_as_they_come() {
    let mut session = KyotoSession::default();
    let mut host = FakeHost::new(ProtocolName::Kyoto);
    let budget = Budget { requests_max: 10, output_bytes_max: 1000 };
    let mut output = Vec::new();
    let head = b"PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n";
    let progress = session.advance(head, &mut output, &mut host, budget);
    assert_eq!((progress.consumed, progress.next), (head.len(), Next::Read { wanted: 1000 }));
    for arrived in 1..100 {
        let progress = session.advance(&[b'x'; 10], &mut output, &mut host, budget);
        let wanted = 1000 - arrived * 10;
        assert_eq!((progress.consumed, progress.next), (10, Next::Read { wanted }));
    }
}
