use super::*;
use crate::Hold;

fn tracked(host: &FakeHost) -> Vec<String> {
    host.tracked.iter().map(|key| String::from_utf8(key.clone()).unwrap()).collect()
}

#[test]
fn keys_are_tracked_that_are_read() {
    let (mut host, mut session) = (host(), RespSession::default());
    for request in [
        "GET before",
        "CLIENT TRACKING ON",
        "GET a",
        "SET b 1",
        "MGET c d",
        "STRLEN e",
        "MULTI",
        "GET f",
        "SET g 1",
        "EXEC",
        "CLIENT TRACKING OFF",
        "GET after",
    ] {
        ask(&mut session, &mut host, request);
    }
    assert_eq!(tracked(&host), ["a", "c", "d", "e", "f"]);
}

#[test]
fn caching_is_about_the_next_command_or_transaction() {
    let (mut host, mut session) = (host(), RespSession::default());
    for request in [
        "CLIENT TRACKING ON OPTIN",
        "GET a",
        "CLIENT CACHING YES",
        "CLIENT ID",
        "GET b",
        "GET c",
        "CLIENT CACHING YES",
        "MULTI",
        "GET d",
        "GET e",
        "EXEC",
        "GET f",
        "CLIENT CACHING YES",
        "NONSENSE",
        "GET g",
        "RESET",
        "CLIENT TRACKING ON OPTOUT",
        "GET h",
        "CLIENT CACHING NO",
        "GET i",
        "GET j",
    ] {
        ask(&mut session, &mut host, request);
    }
    assert_eq!(tracked(&host), ["b", "d", "e", "h", "j"]);
}

#[test]
fn a_broadcast_mode_tracks_no_key() {
    let (mut host, mut session) = (host(), RespSession::default());
    for (request, reply) in [
        ("CLIENT TRACKING ON BCAST PREFIX a PREFIX b", "+OK"),
        ("GET a", "$-1"),
        ("CLIENT TRACKING ON BCAST PREFIX c", "+OK"),
        (
            "CLIENT TRACKINGINFO",
            "*6 $5 flags *2 $2 on $5 bcast $8 redirect :0 $8 prefixes *3 $1 a $1 b $1 c",
        ),
        (
            "CLIENT TRACKING ON BCAST PREFIX x PREFIX xy",
            "-ERR Prefix 'xy' overlaps with another provided prefix 'x'. Prefixes for a single \
             client must not overlap.",
        ),
        ("CLIENT TRACKING ON REDIRECT 8", "-ERR The client ID you want redirect to does not exist"),
    ] {
        assert_eq!(ask(&mut session, &mut host, request), reply, "{request}");
    }
    assert!(tracked(&host).is_empty());
}

#[test]
fn a_request_waits_for_the_end_of_a_pause() {
    let (mut host, mut session) = (host(), RespSession::default());
    for (request, reply) in [
        ("CLIENT PAUSE 100 WRITE", "+OK"),
        ("GET k", "$-1"),
        ("MULTI", "+OK"),
        ("SET k v", "+QUEUED"),
        ("DISCARD", "+OK"),
        // The clock of the host stands still.
        ("CLIENT UNPAUSE", "+OK"),
        ("SET k v", "+OK"),
    ] {
        assert_eq!(ask(&mut session, &mut host, request), reply, "{request}");
    }
    let until_ms = host.now_ms + 100;
    let hold = |writes_only| Some(Hold { until_ms, writes_only });
    for (writes_only, request) in [(true, "SET k w"), (true, "PUBLISH a b"), (false, "PING")] {
        *host.hold.lock().unwrap() = hold(writes_only);
        let budget = crate::Budget { requests_max: 1, output_bytes_max: 1_000 };
        let (mut output, bytes) = (Vec::new(), array(request));
        let progress = session.advance(&bytes, &mut output, &mut host, budget);
        assert_eq!((progress.consumed, progress.next), (0, crate::Next::Wait { ms: 50 }));
        *host.hold.lock().unwrap() = None;
        while session.advance(&bytes, &mut output, &mut host, budget).consumed == 0 {}
        assert!(!output.is_empty(), "{request}");
    }
}

#[test]
fn monitor_shows_what_was_executed() {
    let (mut host, mut session) = (host(), RespSession::default());
    host.password = Some(b"secret".to_vec());
    host.monitored = Some(Default::default());
    for request in ["AUTH secret", "SET k \"a b\"", "CONFIG GET x", "SELECT 1", "GET k"] {
        ask(&mut session, &mut host, request);
    }
    let lines = host.monitored.unwrap().into_inner().unwrap();
    assert_eq!(
        lines,
        [
            "+1700000000.000000 [0 127.0.0.1:50007] \"AUTH\" \"(redacted)\"\r\n",
            "+1700000000.000000 [0 127.0.0.1:50007] \"SET\" \"k\" \"a b\"\r\n",
            "+1700000000.000000 [1 127.0.0.1:50007] \"SELECT\" \"1\"\r\n",
            "+1700000000.000000 [1 127.0.0.1:50007] \"GET\" \"k\"\r\n",
        ]
    );
}
