//! The limits of a client, and clients that speak another protocol.

use super::*;
use crate::testing::RespPart;
use proptest::prelude::*;
use todana_protocol::{Limits, Session};

/// The outcome of bytes under limits, in every cut: the replies, and whether the connection closed.
fn under(limits: &Limits, password: Option<&[u8]>, input: &[u8]) -> (String, bool) {
    let start = || {
        let password = password.map(<[u8]>::to_vec);
        (RespSession::default(), FakeHost { limits: limits.clone(), password, ..host() })
    };
    let outcome = converse_in_every_way(start, input, |it| it);
    (shown(&outcome.output), outcome.closed)
}

fn answer(text: &str) -> (String, bool) {
    (text.to_owned(), false)
}

fn closed(text: &str) -> (String, bool) {
    (text.to_owned(), true)
}

#[test]
fn protocol_errors_are_reported_and_close() {
    for (input, error) in [
        ("*1\r\n:3\r\n", "-ERR Protocol error: expected '$', got ':'"),
        ("*1\r\n\r\n", "-ERR Protocol error: expected '$', got ' '"),
        ("*x\r\n", "-ERR Protocol error: invalid multibulk length"),
        ("*1\r\n$x\r\n", "-ERR Protocol error: invalid bulk length"),
        ("*1\r\n$-1\r\n", "-ERR Protocol error: invalid bulk length"),
        ("SET k \"a\r\n", "-ERR Protocol error: unbalanced quotes in request"),
    ] {
        let outcome = raw(format!("{input}PING\r\n").as_bytes());
        assert_eq!((shown(&outcome.output).as_str(), outcome.closed), (error, true), "{input}");
    }
    let digits = format!("*{}", "1".repeat(70));
    let outcome = raw(digits.as_bytes());
    assert_eq!(shown(&outcome.output), "-ERR Protocol error: too big mbulk count string");
    let digits = format!("*1\r\n${}", "1".repeat(70));
    let outcome = raw(digits.as_bytes());
    assert_eq!(shown(&outcome.output), "-ERR Protocol error: too big bulk count string");
}

#[test]
fn http_is_closed_without_an_answer() {
    for request in [
        "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 20\r\n\r\nSET k v\r\n",
        "Host: localhost\r\nFLUSHALL\r\n",
        "OPTIONS * HTTP/1.1\r\n",
    ] {
        let outcome = raw(request.as_bytes());
        assert_eq!(
            (outcome.output.as_slice(), outcome.closed),
            (b"".as_slice(), true),
            "{request}"
        );
    }
    assert_eq!(shown(&raw(b"GET key\r\n").output), "$-1");
}

#[test]
fn inline_requests_work() {
    let input = b"SET k \"a b\"\r\nGET k\n\r\n  \r\nPING\r\n*0\r\n*-1\r\nPING\r\n";
    assert_eq!(shown(&raw(input).output), "+OK $3 a b +PONG +PONG");
}

#[test]
fn long_keys_are_refused_and_the_connection_goes_on() {
    let limits = Limits { key_bytes_max: 10, ..Limits::default() };
    let request = |length: usize| {
        let key = "k".repeat(length);
        [array(&format!("SET {key} v")), array("PING")].concat()
    };
    assert_eq!(under(&limits, None, &request(10)), answer("+OK +PONG"));
    let refused = answer("-ERR key is longer than 10 bytes +PONG");
    assert_eq!(under(&limits, None, &request(11)), refused);
    // Any of several keys, and no value.
    let request = array("MSET a 12345678901 b 12345678901");
    assert_eq!(under(&limits, None, &request), answer("+OK"));
    let request = array("MSET a 1 12345678901 1");
    assert_eq!(under(&limits, None, &request), answer("-ERR key is longer than 10 bytes"));
}

#[test]
fn long_values_and_long_commands_close() {
    let limits = Limits {
        key_bytes_max: 10,
        value_bytes_max: 20,
        arguments_max: 4,
        line_bytes_max: 30,
        ..Limits::default()
    };
    let value = |length: usize| array(&format!("SET k {}", "v".repeat(length)));
    assert_eq!(under(&limits, None, &value(20)), answer("+OK"));
    assert!(!under(&limits, None, &value(0)).1);
    assert_eq!(
        under(&limits, None, &value(21)),
        closed("-ERR Protocol error: invalid bulk length")
    );
    assert_eq!(under(&limits, None, &array("DEL a b c")), answer(":0"));
    let refused = closed("-ERR Protocol error: invalid multibulk length");
    assert_eq!(under(&limits, None, &array("DEL a b c d")), refused);
    let line = |length: usize| format!("PING {}\r\n", "x".repeat(length - 6)).into_bytes();
    assert!(!under(&limits, None, &line(30)).1);
    let refused = closed("-ERR Protocol error: too big inline request");
    assert_eq!(under(&limits, None, &line(31)), refused);
}

#[test]
fn before_authentication_limits_are_narrow() {
    let limits = Limits {
        unauthenticated_arguments_max: 3,
        unauthenticated_argument_bytes_max: 10,
        ..Limits::default()
    };
    let password = Some(b"pw".as_slice());
    let refused = "-NOAUTH Authentication required.";
    assert_eq!(under(&limits, password, &array("SET k 1234567890")), answer(refused));
    assert_eq!(
        under(&limits, password, &array("SET k 12345678901")),
        closed("-ERR Protocol error: unauthenticated bulk length")
    );
    assert_eq!(
        under(&limits, password, &array("DEL a b c")),
        closed("-ERR Protocol error: unauthenticated multibulk length")
    );
    let both = [array("AUTH pw"), array("SET k 12345678901"), array("DEL a b c d")].concat();
    assert_eq!(under(&limits, password, &both), answer("+OK +OK :0"));
}

#[test]
fn queued_commands_are_bounded() {
    let limits = Limits { queued_bytes_max: 2000, ..Limits::default() };
    let input = [
        array("MULTI"),
        array("SET k 1"),
        array(&format!("SET k {}", "x".repeat(1500))),
        array("SET k 2"),
        array("EXEC"),
        array("PING"),
    ];
    let refused = "+OK +QUEUED -ERR queued commands take too many bytes +QUEUED \
                   -EXECABORT Transaction discarded because of previous errors. +PONG";
    assert_eq!(under(&limits, None, &input.concat()), answer(refused));
}

#[test]
fn short_queued_commands_are_counted_and_weighed() {
    let most = super::super::queue::QUEUED_WORDS_MAX;
    let play = |limits: Limits, commands: usize| {
        let mut host = FakeHost { limits, ..host() };
        let output = converse(
            &mut RespSession::default(),
            &mut host,
            [&*transaction(&vec!["PING"; commands])],
        );
        shown(&output.output)
    };
    let done = play(Limits::default(), most);
    assert!(done.ends_with("+PONG +PONG +PONG") && !done.contains("-E"));
    let refused = play(Limits::default(), most + 1);
    let replied = "+QUEUED -ERR more than 65536 words in queued commands \
                -EXECABORT Transaction discarded because of previous errors. +PONG";
    assert!(refused.ends_with(replied));
    // A short command takes several hundred bytes, not only the four of its name.
    let refused = play(Limits { queued_bytes_max: 20_000, ..Limits::default() }, 100);
    assert!(refused.contains("-ERR queued commands take too many bytes"));
}

#[test]
fn watched_keys_are_bounded_and_cost_the_same_each() {
    let most = super::super::queue::WATCHED_KEYS_MAX;
    let (mut host, mut session) = (host(), RespSession::default());
    let mut watch = |from: usize, to: usize| {
        let keys: Vec<String> = (from..to).map(|number| format!("k{number}")).collect();
        ask(&mut session, &mut host, &format!("WATCH {}", keys.join(" ")))
    };
    assert_eq!(watch(0, 8_000), "+OK");
    assert_eq!(watch(0, 8_000), "+OK");
    assert_eq!(watch(8_000, most), "+OK");
    assert_eq!(watch(most - 10, most + 1), "-ERR more than 8192 watched keys");
    assert_eq!(watch(most - 10, most), "+OK");
    let watched = || host.client.watched.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(watched(), most);
    // Repeated keys count, and so do keys watched before.
    let again = format!("WATCH{}", " k".repeat(most + 1));
    assert_eq!(ask(&mut session, &mut host, &again), "-ERR more than 8192 watched keys");
    let limits = Limits { queued_bytes_max: 300, ..Limits::default() };
    let answers = "+OK -ERR watched keys take too many bytes";
    assert_eq!(under(&limits, None, &[array("WATCH a"), array("WATCH b c")].concat()).0, answers);
    // The limit of bytes admits fewer long keys.
    let (mut host, mut session) = (super::host(), RespSession::default());
    let mut watch = |digit: char, count: usize| {
        let key = |number| format!(" {}{number}", digit.to_string().repeat(60_000));
        let keys: String = (0..count).map(key).collect();
        ask(&mut session, &mut host, &format!("WATCH{keys}"))
    };
    assert_eq!(watch('a', 100), "+OK");
    assert_eq!(watch('b', 50), "-ERR watched keys take too many bytes");
    assert!(session.held_bytes() <= (8 << 20) + (64 << 10));
}

#[test]
fn pairs_of_one_step_are_bounded() {
    let most = super::super::strings::PAIRS_MAX;
    for (command, done) in [("MSET", "+OK"), ("MSETNX", ":0")] {
        let (mut host, mut session) = (host(), RespSession::default());
        ask(&mut session, &mut host, "SET k v");
        let line = |pairs: usize| format!("{command}{}", " k v".repeat(pairs));
        assert_eq!(ask(&mut session, &mut host, &line(most)), done);
        let refused = ask(&mut session, &mut host, &line(most + 1));
        assert_eq!(refused, "-ERR more than 8192 pairs");
    }
}

#[test]
fn long_names_are_refused() {
    let (long, longest) = ("n".repeat(257), "n".repeat(256));
    for (request, refused) in [
        ("CLIENT SETNAME", "Client names"),
        ("CLIENT SETINFO lib-name", "lib-name"),
        ("CLIENT SETINFO LIB-VER", "lib-ver"),
        ("HELLO 2 SETNAME", "Client names"),
    ] {
        let (mut host, mut session) = (host(), RespSession::default());
        let refused = format!("-ERR {refused} cannot be longer than 256 bytes.");
        assert_eq!(ask(&mut session, &mut host, &format!("{request} {long}")), refused);
        assert!(!ask(&mut session, &mut host, &format!("{request} {longest}")).starts_with('-'));
    }
}

#[test]
fn long_patterns_are_refused() {
    let (long, longest) = ("*".repeat(1025), "*".repeat(1024));
    for request in ["KEYS", "SCAN 0 MATCH", "CONFIG GET", "COMMAND LIST FILTERBY PATTERN"] {
        let (mut host, mut session) = (host(), RespSession::default());
        let refused = "-ERR pattern is longer than 1024 bytes";
        assert_eq!(ask(&mut session, &mut host, &format!("{request} {long}")), refused);
        assert!(!ask(&mut session, &mut host, &format!("{request} {longest}")).starts_with('-'));
    }
    let request = format!("CONFIG GET{} x", format!(" {longest}").repeat(16));
    let refused = "-ERR patterns are longer than 16384 bytes";
    assert_eq!(ask(&mut RespSession::default(), &mut host(), &request), refused);
}

#[test]
fn an_answer_beyond_the_output_limit_closes() {
    let limits = Limits { output_bytes_max: 1000, ..Limits::default() };
    let input = [
        array(&format!("SET k {}", "x".repeat(300))),
        array("MGET k k k k k k k k k k k k"),
        array("PING"),
    ];
    assert!(under(&limits, None, &input.concat()).1);
}

/// Commands between MULTI and EXEC, and a PING that should find the connection closed.
fn transaction(lines: &[&str]) -> Vec<u8> {
    let lines = [&["MULTI"], lines, &["EXEC", "PING"]].concat();
    lines.iter().flat_map(|line| array(line)).collect()
}

#[test]
fn answers_of_a_transaction_are_bounded_together() {
    let limits = Limits { output_bytes_max: 5000, ..Limits::default() };
    for line in ["CLIENT HELP", "CLIENT ID", "PING", "GET k", "INCR n", "STRLEN k", "TIME"] {
        let mut host = FakeHost { limits: limits.clone(), ..host() };
        // Fewer of the commands that list something, because they are more work.
        let count = if line == "CLIENT HELP" { 900 } else { 3000 };
        let input = transaction(&vec![line; count]);
        let mut session = RespSession::default();
        // Only the reply to EXEC: the QUEUED replies were sent in earlier turns.
        let (queued, exec) =
            input.split_at(input.len() - array("EXEC").len() - array("PING").len());
        assert!(!converse(&mut session, &mut host, [queued]).closed, "{line}");
        let outcome = converse(&mut session, &mut host, [exec]);
        assert!(outcome.closed, "{line}");
        assert!(outcome.output.len() < 5100, "{line}: {} bytes", outcome.output.len());
    }
}

#[test]
fn a_list_of_clients_is_bounded() {
    let limits = Limits { output_bytes_max: 5000, ..Limits::default() };
    let mut host = FakeHost { limits, ..host() };
    host.others =
        (100..200).map(|id| todana_protocol::testing::client(id, ProtocolName::Resp)).collect();
    let outcome = converse(&mut RespSession::default(), &mut host, [&*array("CLIENT LIST")]);
    assert!(outcome.closed && outcome.output.is_empty());
}

#[test]
fn invalid_utf8_is_quoted_byte_by_byte() {
    let (mut session, mut host) = (RespSession::default(), host());
    let input = b"*2\r\n$3\r\n\xff\xfe\n\r\n$2\r\n\xc3a\r\n*2\r\n$6\r\nCLIENT\r\n$1\r\n\x80\r\n";
    let outcome = converse(&mut session, &mut host, [&input[..]]);
    let answers = [
        &b"-ERR unknown command '\xff\xfe ', with args beginning with: '\xc3a' \r\n"[..],
        &b"-ERR unknown subcommand '\x80'. Try CLIENT HELP.\r\n"[..],
    ];
    assert_eq!(
        outcome.output.escape_ascii().to_string(),
        answers.concat().escape_ascii().to_string()
    );
}

#[test]
fn error_texts_are_cut_and_stay_on_their_line() {
    script(
        r#"
        > "foo\r\nbar" "x\ny"
        -ERR unknown command 'foo  bar', with args beginning with: 'x y'
        > FOO a b
        -ERR unknown command 'FOO', with args beginning with: 'a' 'b'
        > EXPIRE k 1 "a\nb"
        -ERR Unsupported option a b
        "#,
    );
    let long = array(&format!("{} {} z", "a".repeat(200), "b".repeat(200)));
    let text = format!(
        "-ERR unknown command '{}', with args beginning with: '{}'",
        "a".repeat(128),
        "b".repeat(128)
    );
    assert_eq!(shown(&raw(&long).output), text);
}

/// Lines that resemble requests, so that arbitrary bytes get past the first check.
fn requests() -> impl Strategy<Value = Vec<u8>> {
    let word = prop::sample::select(
        super::super::table::COMMANDS
            .iter()
            .flat_map(|name| name.split('|'))
            .chain([
                "k", "j", "", "0", "1", "-1", "10", "NX", "XX", "GET", "EX", "PX", "LEN", "IDX",
                "3", "*", "x\r\n",
            ])
            .collect::<Vec<_>>(),
    );
    let words = prop::collection::vec(word, 1..6);
    let request = words.prop_map(|words| {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
        }
        bytes
    });
    let noise = prop::collection::vec(any::<u8>(), 0..20);
    let piece = prop_oneof![12 => request, 1 => noise];
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

/// A request that waits runs again, with the random number that it had.
#[test]
fn random_keys_are_the_same_in_all_circumstances() {
    let mut requests = String::new();
    for key in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        requests += &format!("SET {key} 1\r\nRANDOMKEY\r\nRANDOMKEY\r\n");
        requests += "MULTI\r\nRANDOMKEY\r\nSET i 1\r\nRANDOMKEY\r\nEXEC\r\nRANDOMKEY\r\n";
    }
    for piece in 1..=60 {
        let data = [&[0, piece], requests.as_bytes()].concat();
        todana_protocol::testing::survive::<RespPart, RespSession>(ProtocolName::Resp, &data);
    }
}

proptest! {
    #[test]
    fn any_requests_are_survived(circumstances in any::<[u8; 2]>(), requests in requests()) {
        let data = [circumstances.as_slice(), &requests].concat();
        todana_protocol::testing::survive::<RespPart, RespSession>(ProtocolName::Resp, &data);
    }

    #[test]
    fn any_bytes_are_survived(data in prop::collection::vec(any::<u8>(), 0..400)) {
        todana_protocol::testing::survive::<RespPart, RespSession>(ProtocolName::Resp, &data);
    }
}
