//! Which requests the port accepts.

use super::{Conversation, answers, answers_with};
use crate::KyotoSession;
use crate::testing::FakeHost;

const MISS: &str = "HTTP/1.1 404 Not Found\nContent-Length: 0\n\
    X-Kt-Error: DB: 7: no record: no record\n\n";
const RIGHT: &str = "Authorization: Basic YW55OnNlY3JldA==\r\n";
const WRONG: &str = "Authorization: Basic YW55Omd1ZXNz\r\n";

fn get(headers: &str) -> String {
    format!("GET /a HTTP/1.1\r\n{headers}\r\n")
}

fn forbidden(what: &str) -> String {
    let length = 29 + what.len();
    format!(
        "HTTP/1.1 403 Forbidden\nConnection: close\nContent-Length: {length}\nContent-Type: \
         text/plain\n\n403 Forbidden ({what} not allowed)\nclosed"
    )
}

fn unauthorized(connection: &str, why: &str, end: &str) -> String {
    let length = 20 + why.len();
    format!(
        "HTTP/1.1 401 Unauthorized\n{connection}Content-Length: {length}\nContent-Type: \
         text/plain\nWww-Authenticate: Basic realm=\"todana\"\n\n401 Unauthorized ({why})\n{end}"
    )
}

fn with_password(host: &mut FakeHost) {
    host.password = Some(b"secret".to_vec());
}

#[test]
fn a_request_must_name_this_server() {
    for host in
        ["", "Host:\r\n", "Host: :1978\r\n", "Host: 10.0.0.1:1978\r\n", "Host: localhost\r\n"]
    {
        assert_eq!(answers(get(host)), MISS, "{host}");
    }
    let input = get("Host: rebound.example.org:1978\r\n");
    assert_eq!(answers(&input), forbidden("host"));
    let settings = |host: &mut FakeHost| host.part.kyoto.hosts = vec!["rebound.example.org".into()];
    assert_eq!(answers_with(&input, settings), MISS);
}

#[test]
fn pages_of_other_sites_are_refused() {
    for headers in [
        "Origin: https://example.org\r\n",
        "Origin: null\r\n",
        "Origin: http://localhost\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: Same-Site\r\n",
        "Origin: https://example.org\r\nSec-Fetch-Site: same-origin\r\n",
    ] {
        assert_eq!(answers(get(headers)), forbidden("origin"), "{headers}");
    }
    for headers in ["Sec-Fetch-Site: none\r\n", "Sec-Fetch-Site: same-origin\r\n"] {
        assert_eq!(answers(get(headers)), MISS, "{headers}");
    }
}

#[test]
fn pages_that_only_their_referer_gives_away_are_refused() {
    let get = |headers: &str| get(&format!("Host: localhost:1978\r\n{headers}"));
    for headers in [
        "Referer: https://example.org/page\r\n",
        "Referer: https://example.org\r\n",
        "Referer: http://localhost:8080/\r\n",
        "Referer: http://localhost:1978@example.org/\r\n",
        "Referer: https://example.org/http://localhost:1978/\r\n",
        "Referer: about:blank\r\n",
    ] {
        assert_eq!(answers(get(headers)), forbidden("origin"), "{headers}");
    }
    for headers in [
        "",
        "Referer:\r\n",
        "Referer: http://LOCALHOST:1978/some/key\r\n",
        "Referer: https://example.org/\r\nSec-Fetch-Site: none\r\n",
    ] {
        assert_eq!(answers(get(headers)), MISS, "{headers}");
    }
    let settings =
        |host: &mut FakeHost| host.part.kyoto.origins = vec!["https://example.org".into()];
    assert_eq!(answers_with(get("Referer: https://example.org/page?x\r\n"), settings), MISS);
}

#[test]
fn pages_of_the_settings_are_answered() {
    let settings =
        |host: &mut FakeHost| host.part.kyoto.origins = vec!["https://example.org".into()];
    let own = "Origin: https://Example.org\r\nSec-Fetch-Site: cross-site\r\n";
    assert!(answers_with(get(own), settings).starts_with("HTTP/1.1 404"));
    let other = "Origin: https://example.org:8443\r\n";
    assert_eq!(answers_with(get(other), settings), forbidden("origin"));
    let any = |host: &mut FakeHost| host.part.kyoto.origins = vec!["*".into()];
    assert!(answers_with(get("Origin: null\r\n"), any).starts_with("HTTP/1.1 404"));
    assert_eq!(answers_with(get("Sec-Fetch-Site: cross-site\r\n"), any), MISS);
}

const ORIGIN: &str = "https://example.org";

fn with_origin(host: &mut FakeHost) {
    host.part.kyoto.origins = vec![ORIGIN.into()];
}

#[test]
fn pages_of_the_settings_may_read_what_is_answered() {
    let readable = |answer: &str, before: &str| {
        let headers = "Access-Control-Allow-Origin: https://example.org\n";
        answer.replacen(before, &format!("{headers}{before}"), 1)
    };
    let page = get("Origin: https://example.org\r\n");
    let read = readable(MISS, "X-Kt").replace("X-Kt", "Vary: Origin\nX-Kt");
    assert_eq!(answers_with(&page, with_origin), read);
    // Responses to other requests on the same connection are not readable for pages.
    let own = get("");
    let input = [&page, &own, &page, &own].map(String::as_str).concat();
    assert_eq!(answers_with(input, with_origin), (read + MISS).repeat(2));

    let chunked = "POST /rpc/echo HTTP/1.1\r\nOrigin: https://example.org\r\n\
                   Content-Type: text/tab-separated-values\r\n\
                   Transfer-Encoding: chunked\r\n\r\n4\r\na\tb\n\r\n0\r\n\r\n";
    let echoed = "HTTP/1.1 200 OK\nContent-Length: 4\n\
                  Access-Control-Allow-Origin: https://example.org\n\
                  Content-Type: text/tab-separated-values\nVary: Origin\n\na\\tb\n";
    assert_eq!(answers_with(chunked, with_origin), echoed);

    let asks_for_password = |host: &mut FakeHost| {
        with_origin(host);
        with_password(host);
    };
    let required = unauthorized("", "password required", "");
    let required = readable(&required, "Content-Type").replace("Www", "Vary: Origin\nWww");
    assert_eq!(answers_with(&page, asks_for_password), required);
}

#[test]
fn a_browser_learns_what_pages_of_the_settings_may_send() {
    let preflight = |origin: &str, more: &str| {
        format!(
            "OPTIONS /rpc/clear HTTP/1.1\r\nOrigin: {origin}\r\n\
             Access-Control-Request-Method: POST\r\n{more}\r\n"
        )
    };
    let allowed = |connection: &str, end: &str| {
        format!(
            "HTTP/1.1 204 No Content\n{connection}Content-Length: 0\n\
             Access-Control-Allow-Headers: Authorization, Content-Type, X-Kt-Mode, X-Kt-Xt\n\
             Access-Control-Allow-Methods: GET, HEAD, POST, PUT, DELETE\n\
             Access-Control-Allow-Origin: https://example.org\nVary: Origin\n\n{end}"
        )
    };
    let both = |host: &mut FakeHost| {
        with_origin(host);
        with_password(host);
    };
    for settings in [with_origin, both] {
        let twice = preflight(ORIGIN, "").repeat(2);
        assert_eq!(answers_with(twice, settings), allowed("", "").repeat(2));
        let with_body = preflight(ORIGIN, "Content-Length: 1\r\n");
        assert_eq!(answers_with(with_body, settings), allowed("Connection: close\n", "closed"));
    }
    assert_eq!(answers_with(preflight("https://example.com", ""), both), forbidden("origin"));
    assert_eq!(answers(preflight(ORIGIN, "")), forbidden("origin"));
    assert_eq!(answers_with(preflight(ORIGIN, "Host: example.org\r\n"), both), forbidden("host"));
}

#[test]
fn a_preflight_carries_nothing_out() {
    let mut conversation = Conversation::new();
    with_origin(&mut conversation.host);
    conversation.ask("PUT /a HTTP/1.1\r\nContent-Length: 1\r\n\r\nx");
    conversation.ask(
        "OPTIONS /rpc/clear HTTP/1.1\r\nOrigin: https://example.org\r\n\
         Access-Control-Request-Method: POST\r\n\r\n",
    );
    assert!(conversation.ask(get("")).ends_with("\n\nx"));
}

#[test]
fn a_refused_request_changes_nothing() {
    for headers in ["Host: example.org\r\n", "Origin: https://example.org\r\n", WRONG] {
        let mut conversation = Conversation::new();
        with_password(&mut conversation.host);
        let input = format!("PUT /a HTTP/1.1\r\n{headers}Content-Length: 1\r\n\r\nx");
        assert!(conversation.ask(input).ends_with("closed"), "{headers}");
        conversation.session = KyotoSession::default();
        conversation.waiting.clear();
        assert_eq!(conversation.ask(get(RIGHT)), MISS, "{headers}");
    }
}

#[test]
fn a_password_is_asked_for() {
    let required = unauthorized("", "password required", "");
    assert_eq!(answers_with(get(""), with_password), required);
    assert_eq!(answers_with(get("").repeat(2), with_password), required.repeat(2));
    let head = "HEAD /a HTTP/1.1\r\n\r\n";
    let expected = "HTTP/1.1 401 Unauthorized\nContent-Type: text/plain\nWww-Authenticate: Basic \
                    realm=\"todana\"\n\n";
    assert_eq!(answers_with(head, with_password), expected);
}

#[test]
fn a_right_password_is_good_for_the_connection() {
    assert_eq!(answers_with(get(RIGHT) + &get(""), with_password), MISS.repeat(2));
    let any_user = get("Authorization: basic OnNlY3JldA==\r\n");
    assert_eq!(answers_with(any_user, with_password), MISS);
    assert_eq!(answers_with(get("") + &get(RIGHT) + &get(WRONG), with_password), {
        unauthorized("", "password required", "") + &MISS.repeat(2)
    });
}

#[test]
fn the_host_hears_of_a_right_password_only() {
    for (headers, authenticated) in [("", false), (WRONG, false), (RIGHT, true)] {
        let mut conversation = Conversation::new();
        with_password(&mut conversation.host);
        conversation.ask(get(headers));
        assert_eq!(conversation.host.authenticated, authenticated, "{headers}");
    }
}

#[test]
fn a_wrong_password_closes() {
    for headers in [WRONG, "Authorization: Bearer secret\r\n", "Authorization: secret\r\n"] {
        let expected = unauthorized("Connection: close\n", "wrong password", "closed");
        assert_eq!(answers_with(get(headers) + &get(RIGHT), with_password), expected, "{headers}");
    }
}

#[test]
fn no_body_is_waited_for_without_a_password() {
    let expected = unauthorized("Connection: close\n", "password required", "closed");
    for body in ["Content-Length: 1\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n"] {
        let input = format!("PUT /a HTTP/1.1\r\n{body}");
        assert_eq!(answers_with(input, with_password), expected, "{body}");
    }
    let empty = "PUT /a HTTP/1.1\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(answers_with(empty, with_password), unauthorized("", "password required", ""));
}

#[test]
fn a_head_is_shorter_without_a_password() {
    let mut conversation = Conversation::new();
    with_password(&mut conversation.host);
    let max = conversation.host.limits.unauthenticated_argument_bytes_max;
    let long = |length: usize| get(&format!("A: {}\r\n", "x".repeat(length - 24)));
    assert!(conversation.ask(long(max)).starts_with("HTTP/1.1 401"));
    assert!(conversation.ask(long(max + 1)).starts_with("HTTP/1.1 400"));
}

#[test]
fn binary_requests_need_a_password_sent_before() {
    for first in ["\u{0}", "\x7f"] {
        assert_eq!(
            answers_with(first, with_password),
            if first == "\0" { "\\xbfclosed" } else { "closed" }
        );
    }
    for magic in [0xb8, 0xb9, 0xba, 0xb4, 0xb1, 0xff] {
        assert_eq!(answers_with([magic, 0, 0, 0, 1], with_password), "\\xbfclosed", "{magic:x}");
    }
    let input = [get(RIGHT).as_bytes(), &[0xb9, 0, 0, 0, 0, 0, 0, 0, 0]].concat();
    assert_eq!(answers_with(input, with_password), format!("{MISS}\\xb9\\x00\\x00\\x00\\x00"));
}
