//! Both protocols on one connection.

use super::{answers, answers_with};
use crate::testing::FakeHost;
use todana_command::{Command, Context, Expires, NullReply, Set, StringCommand, execute};

const SET: &[u8] =
    b"\xb8\0\0\0\0\0\0\0\x01\0\0\0\0\0\x01\0\0\0\x01\x7f\xff\xff\xff\xff\xff\xff\xffax";
const REMOVE: &[u8] = b"\xb9\0\0\0\0\0\0\0\x01\0\0\0\0\0\x01a";
const GET: &[u8] = b"GET /a HTTP/1.1\r\n\r\n";
const PUT: &[u8] = b"PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\ny\r\n0\r\n\r\n";
const VOID: &[u8] = b"POST /rpc/void HTTP/1.1\r\nContent-Length: 0\r\n\r\n";

const STORED: &str = "\\xb8\\x00\\x00\\x00\\x01";
const REMOVED: &str = "\\xb9\\x00\\x00\\x00\\x01";
const MISS: &str = "HTTP/1.1 404 Not Found\nContent-Length: 0\n\
    X-Kt-Error: DB: 7: no record: no record\n\n";
const CREATED: &str = "HTTP/1.1 201 Created\nContent-Length: 0\n\
    Location: http://localhost:6379/a\n\n";
const DONE: &str =
    "HTTP/1.1 200 OK\nContent-Length: 0\nContent-Type: text/tab-separated-values\n\n";

fn got(value: &str) -> String {
    format!("HTTP/1.1 200 OK\nContent-Length: 1\n\n{value}")
}

#[test]
fn requests_of_both_protocols_follow_each_other() {
    let input = [SET, GET, VOID, REMOVE, GET, PUT, SET, PUT, GET, VOID, GET, REMOVE].concat();
    let expected = [
        STORED,
        &got("x"),
        DONE,
        REMOVED,
        MISS,
        CREATED,
        STORED,
        CREATED,
        &got("y"),
        DONE,
        &got("y"),
        REMOVED,
    ];
    assert_eq!(answers(input), expected.concat());
}

#[test]
fn a_body_is_not_taken_for_a_request_of_the_other_protocol() {
    let body = [b"PUT /b HTTP/1.1\r\nContent-Length: 16\r\n\r\n", REMOVE].concat();
    let input = [SET, &body, GET].concat();
    let created = CREATED.replace("/a\n", "/b\n");
    assert_eq!(answers(input), format!("{STORED}{created}{}", got("x")));
}

#[test]
fn procedures_are_distinguished_from_keys_by_their_path() {
    for (path, is_procedure) in [
        ("/rpc/void", true),
        ("/rpc/", true),
        ("/rpc", false),
        ("/RPC/void", false),
        ("//rpc/void", false),
    ] {
        let answer = answers(format!("GET {path} HTTP/1.1\r\n\r\n"));
        assert_eq!(answer.contains("text/tab-separated-values"), is_procedure, "{path}: {answer}");
    }
}

#[test]
fn procedures_answer_head_without_a_body_or_its_length() {
    let input = b"HEAD /rpc/echo?a=b HTTP/1.1\r\n\r\nGET /rpc/echo?a=b HTTP/1.1\r\n\r\n";
    let expected = "HTTP/1.1 200 OK\nContent-Type: text/tab-separated-values\n\nHTTP/1.1 200 \
                    OK\nContent-Length: 4\nContent-Type: text/tab-separated-values\n\na\\tb\n";
    assert_eq!(answers(input), expected);
}

#[test]
fn procedures_close_where_the_client_asks_for_it() {
    let input = [b"POST /rpc/void HTTP/1.0\r\n\r\n", VOID].concat();
    let expected = DONE.replace("Content-Length", "Connection: close\nContent-Length") + "closed";
    assert_eq!(answers(input), expected);
}

#[test]
fn a_record_that_lives_longer_than_a_time_can_say_lives_for_ever() {
    // A value as other protocols can store it.
    let prepare = |host: &mut FakeHost| {
        let set = Set { expires: Expires::At((1 << 40) * 1000), ..Set::new(b"a", b"x") };
        let context = Context { now_ms: host.now_ms, value_bytes_max: 1 };
        execute(
            &host.databases,
            0,
            &Command::String(StringCommand::Set(set)),
            context,
            &mut NullReply,
        );
    };
    assert_eq!(answers_with(GET, prepare), got("x"));
    let answer = answers_with("GET /rpc/get?key=a HTTP/1.1\r\n\r\n", prepare);
    assert!(answer.ends_with("\n\nvalue\\tx\n"), "{answer}");
    let get_bulk = b"\xba\0\0\0\0\0\0\0\x01\0\0\0\0\0\x01a";
    let answer = answers_with(get_bulk, prepare);
    assert!(answer.ends_with("\\x00\\x00\\x00\\xff\\xff\\xff\\xff\\xffax"), "{answer}");
}
