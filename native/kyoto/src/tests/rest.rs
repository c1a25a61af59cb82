//! Section 3 of the specification: one record by its path.

use super::{Conversation, answers, answers_with};
use crate::table::{COMMANDS, Row};
use crate::testing::FakeHost;
use crate::{KyotoDatabase, KyotoKind, KyotoSession};
use todana_protocol::ProtocolName;
use todana_protocol::testing::{START_MS, converse};

const MISS: &str = "HTTP/1.1 404 Not Found\nContent-Length: 0\n\
    X-Kt-Error: DB: 7: no record: no record\n\n";
const ABSENT: &str = "HTTP/1.1 450 Logical Inconsistency\nContent-Length: 0\n\
    X-Kt-Error: DB: 7: no record: no record\n\n";
const PRESENT: &str = "HTTP/1.1 450 Logical Inconsistency\nContent-Length: 0\n\
    X-Kt-Error: DB: 6: record duplication: record duplication\n\n";
const NO_CONTENT: &str = "HTTP/1.1 204 No Content\nContent-Length: 0\n\n";

fn created(target: &str) -> String {
    format!("HTTP/1.1 201 Created\nContent-Length: 0\nLocation: http://localhost:6379{target}\n\n")
}

fn got(value: &str) -> String {
    format!("HTTP/1.1 200 OK\nContent-Length: {}\n\n{value}", value.len())
}

fn put(target: &str, headers: &str, value: &str) -> String {
    let length = value.len();
    format!("PUT {target} HTTP/1.1\r\n{headers}Content-Length: {length}\r\n\r\n{value}")
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

/// Databases `:`, `%`, `casket`, and a persistent one.
fn four_databases(host: &mut FakeHost) {
    let database = |name: &str, kind, persistent| KyotoDatabase {
        name: name.into(),
        kind,
        persistent,
        ..KyotoDatabase::default()
    };
    host.part.kyoto.databases = vec![
        database(":", KyotoKind::Stash, false),
        database("%", KyotoKind::CacheTree, false),
        database("casket.kch", KyotoKind::Stash, false),
        database("-", KyotoKind::ProtoHash, true),
    ];
}

#[test]
fn get_returns_a_value() {
    let found = "HTTP/1.1 200 OK\nContent-Length: 4\n\nx\\x00\n";
    assert_eq!(answers(put("/a", "", "x\0\r\n") + &get("/a")), created("/a") + found);
    assert_eq!(answers(get("/a")), MISS);
}

#[test]
fn head_returns_the_length_of_a_value() {
    let head = "HEAD /a HTTP/1.1\r\n\r\n";
    let found = "HTTP/1.1 200 OK\nContent-Length: 5\n\n";
    assert_eq!(answers(put("/a", "", "hello") + head), created("/a") + found);
    assert_eq!(answers(head), MISS);
}

#[test]
fn delete_removes_a_record() {
    let delete = "DELETE /a HTTP/1.1\r\n\r\n";
    let input = put("/a", "", "x") + delete + delete;
    assert_eq!(answers(input), created("/a") + NO_CONTENT + MISS);
}

#[test]
fn other_methods_are_not_implemented() {
    for method in ["POST", "OPTIONS", "get", "X"] {
        let input = format!("{method} /a HTTP/1.1\r\nContent-Length: 1\r\n\r\nx") + &get("/a");
        let expected = format!("HTTP/1.1 501 Not Implemented\nContent-Length: 0\n\n{MISS}");
        assert_eq!(answers(input), expected, "{method}");
    }
}

#[test]
fn a_path_is_a_database_and_a_key() {
    for (stored, read) in [
        ("/k", "//k"),
        ("/k", "/0/k"),
        ("/1/b", "/%25/b"),
        ("/casket.kch/a%20b", "/2/a+b"),
        ("/1/a/b", "/1/a%2Fb"),
        ("/%2F", "///"),
        ("/", "//"),
        ("/k?query", "/k"),
        ("/k", "/k?other"),
        ("/1x/k", "/1/k"),
        ("k", "/k"),
        ("/%00", "/0/%00"),
    ] {
        let input = put(stored, "", "x") + &get(read);
        let expected = created(stored) + &got("x");
        assert_eq!(answers_with(input, four_databases), expected, "{stored} {read}");
    }
    for (stored, read) in [("/k", "/1/k"), ("/1/k", "/2/k"), ("/a%2Fb", "/b"), ("/k", "/K")] {
        let input = put(stored, "", "x") + &get(read);
        assert_eq!(answers_with(input, four_databases), created(stored) + MISS, "{stored} {read}");
    }
}

#[test]
fn a_database_that_there_is_not_is_refused() {
    let refused = "HTTP/1.1 400 Bad Request\nContent-Length: 17\n\nno such database\n";
    for target in ["/1/k", "/x/k", "/99999999999999999999/k", "http://localhost/k"] {
        assert_eq!(answers(get(target)), refused, "{target}");
        assert_eq!(answers(put(target, "", "x")), refused, "{target}");
    }
    let head = "HEAD /x/k HTTP/1.1\r\n\r\n";
    assert_eq!(answers(head), "HTTP/1.1 400 Bad Request\n\n");
}

#[test]
fn put_has_modes() {
    let (add, replace) = ("X-Kt-Mode: add\r\n", "x-kt-mode: REPLACE\r\n");
    let created = created("/a");
    let twice = |mode: &str| put("/a", mode, "one") + &put("/a", mode, "two") + &get("/a");
    assert_eq!(answers(twice("")), format!("{created}{created}{}", got("two")));
    assert_eq!(answers(twice("X-Kt-Mode: x\r\n")), format!("{created}{created}{}", got("two")));
    assert_eq!(answers(twice(add)), format!("{created}{PRESENT}{}", got("one")));
    assert_eq!(answers(twice(replace)), format!("{ABSENT}{ABSENT}{MISS}"));
    let input = put("/a", "", "one") + &put("/a", replace, "two") + &get("/a");
    assert_eq!(answers(input), format!("{created}{created}{}", got("two")));
}

#[test]
fn a_time_is_returned_as_it_was_given() {
    for xt in ["1700000001", "0x6553f101", "2023-11-14T22:13:21Z", "Tue, 14 Nov 2023 22:13:21 GMT"]
    {
        for method in ["GET", "HEAD"] {
            let input = put("/a", &format!("X-Kt-Xt: {xt}\r\n"), "x")
                + &format!("{method} /a HTTP/1.1\r\n\r\n");
            let value = if method == "GET" { "x" } else { "" };
            let expected = format!(
                "{}HTTP/1.1 200 OK\nContent-Length: 1\nX-Kt-Xt: Tue, 14 Nov 2023 22:13:21 \
                 GMT\n\n{value}",
                created("/a")
            );
            assert_eq!(answers(input), expected, "{xt}");
        }
    }
}

#[test]
fn a_record_lives_to_the_end_of_its_second() {
    for (after_ms, lives) in [(0, true), (999, true), (1_000, true), (1_999, true), (2_000, false)]
    {
        let mut conversation = Conversation::new();
        conversation.ask(put("/a", "X-Kt-Xt: 1700000001\r\n", "x"));
        conversation.host.now_ms = START_MS + after_ms;
        let answer = conversation.ask(get("/a"));
        assert_eq!(answer.starts_with("HTTP/1.1 200"), lives, "{after_ms}");
    }
}

#[test]
fn a_time_that_has_passed_stores_nothing_that_can_be_read() {
    let input = put("/a", "X-Kt-Xt: 60\r\n", "x") + &get("/a");
    assert_eq!(answers(input), created("/a") + MISS);
}

#[test]
fn invalid_times_mean_never() {
    for xt in ["0", "-1", "x", "1099511627775"] {
        let input = put("/a", &format!("X-Kt-Xt: {xt}\r\n"), "x") + &get("/a");
        assert_eq!(answers(input), created("/a") + &got("x"), "{xt}");
    }
}

#[test]
fn a_put_without_a_time_ends_an_expiry() {
    let input = put("/a", "X-Kt-Xt: 1700000001\r\n", "x") + &put("/a", "", "y") + &get("/a");
    assert_eq!(answers(input), created("/a").repeat(2) + &got("y"));
}

#[test]
fn a_persistent_database_neither_takes_nor_returns_a_time() {
    let input = put("/3/a", "X-Kt-Xt: 60\r\n", "x") + &get("/3/a");
    assert_eq!(answers_with(input, four_databases), created("/3/a") + &got("x"));
    let expiring = |host: &mut FakeHost| {
        four_databases(host);
        host.part.kyoto.databases[3].persistent = false;
        let put = put("/3/a", "X-Kt-Xt: 1700000001\r\n", "x");
        converse(&mut KyotoSession::default(), host, [put.as_bytes()]);
        four_databases(host);
    };
    assert_eq!(answers_with(get("/3/a"), expiring), got("x"));
}

#[test]
fn keys_have_up_to_the_limit() {
    let prepare = |host: &mut FakeHost| host.limits.key_bytes_max = 4;
    let refused = "HTTP/1.1 500 Internal Server Error\nContent-Length: 0\n\
                   X-Kt-Error: DB: 9: system error: the key is too long\n\n";
    for (key, fits) in
        [("", true), ("abc", true), ("abcd", true), ("%41bcd", true), ("abcde", false)]
    {
        let target = format!("/{key}");
        let expected = if fits { created(&target) + &got("x") } else { refused.to_owned() + MISS };
        assert_eq!(answers_with(put(&target, "", "x") + &get(&target), prepare), expected, "{key}");
    }
}

#[test]
fn values_have_up_to_the_limit() {
    let prepare = |host: &mut FakeHost| host.limits.value_bytes_max = 4;
    let refused = "HTTP/1.1 500 Internal Server Error\nContent-Length: 0\n\
                   X-Kt-Error: DB: 9: system error: the value is too long\n\n";
    for (value, fits) in [("", true), ("abc", true), ("abcd", true), ("abcde", false)] {
        let expected = if fits { created("/a") + &got(value) } else { refused.to_owned() + MISS };
        assert_eq!(answers_with(put("/a", "", value) + &get("/a"), prepare), expected, "{value}");
    }
}

#[test]
fn requests_and_look_ups_are_counted() {
    let mut conversation = Conversation::new();
    conversation.host.keep_observed = true;
    let more = "HEAD /a HTTP/1.1\r\n\r\nDELETE /a HTTP/1.1\r\n\r\nPOST /a HTTP/1.1\r\n\r\n";
    let add = put("/a", "X-Kt-Mode: add\r\n", "x");
    conversation.ask(get("/a") + &put("/a", "", "x") + &add + &get("/a") + more + "?\r\n");
    let rows: Vec<_> = conversation
        .host
        .observed
        .iter()
        .map(|&(protocol, row, failed)| (protocol, COMMANDS[row], failed))
        .collect();
    let row = |row: Row, failed| (ProtocolName::Kyoto, COMMANDS[row as usize], failed);
    let expected = [
        row(Row::RestGet, true),
        row(Row::RestPut, false),
        row(Row::RestPut, true),
        row(Row::RestGet, false),
        row(Row::RestHead, false),
        row(Row::RestDelete, false),
        row(Row::Unknown, true),
        row(Row::Unknown, true),
    ];
    assert_eq!(rows, expected);
    assert_eq!(conversation.host.lookups, (2, 1));
}

#[test]
fn slow_requests_are_logged_with_method_and_target() {
    let mut conversation = Conversation::new();
    conversation.host.slow_us = Some(20_000);
    conversation.ask(get("/a?b"));
    let log = conversation.host.slow_log.lock().unwrap();
    assert_eq!(log[0].arguments, [b"GET".to_vec(), b"/a?b".to_vec()]);
}
