use super::*;
use crate::Hold;
use std::sync::atomic::Ordering::Relaxed;

fn tracked(host: &FakeHost) -> Vec<String> {
    host.part.tracked.iter().map(|key| String::from_utf8(key.clone()).unwrap()).collect()
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
        // Alone, a script is announced only.
        "EVAL \"return 1\" 1 h",
        "MULTI",
        "EVAL \"return 1\" 1 i",
        "EXEC",
        "MULTI",
        "EVAL \"return 1\" 1 j",
        "SET j 1",
        "EXEC",
        "CLIENT TRACKING OFF",
        "GET after",
    ] {
        ask(&mut session, &mut host, request);
    }
    assert_eq!(tracked(&host), ["a", "c", "d", "e", "f", "j"]);
}

#[test]
fn nothing_rides_behind_a_script_whose_keys_are_tracked() {
    for (mode, commits) in [("OFF", 1), ("ON", 2)] {
        let mut host = todana_protocol::testing::with_durable_hosts(host);
        let mut session = RespSession::default();
        ask(&mut session, &mut host, &format!("CLIENT TRACKING {mode}"));
        let eval = "EVAL \"return redis.call('GET', KEYS[1])\" 1 a";
        // Its steps are known afterwards: until then nothing rides behind it anyway.
        ask(&mut session, &mut host, eval);
        let before = host.written().1;
        let input = ["SET a 1", eval, "SET a 2"].map(array).concat();
        let replies = shown(&converse(&mut session, &mut host, [&input[..]]).output);
        assert_eq!(replies, "+OK $1 1 +OK");
        assert_eq!(host.written().1 - before, commits, "{mode}");
    }
}

#[test]
fn the_seat_reports_changes_of_what_a_client_of_a_guest_has_read() {
    use todana_protocol::testing::Changed::{All, Key};
    use todana_protocol::testing::{with_durable_hosts, with_guest_hosts};
    let mut host = with_guest_hosts(host);
    let databases = host.databases.clone();
    let mut other = with_durable_hosts(|| FakeHost::on(databases, ProtocolName::Resp));
    let (mut session, mut writer) = (RespSession::default(), RespSession::default());
    let mut ask_here = |requests: &[&str]| {
        for request in requests {
            ask(&mut session, &mut host, request);
        }
        host.changes()
    };
    let mut ask_there = |requests: &[&str]| {
        for request in requests {
            ask(&mut writer, &mut other, request);
        }
    };
    let key = |name: &str| Key(name.to_string(), false);
    let own = |name: &str| Key(name.to_string(), true);
    assert_eq!(ask_here(&["GET a", "CLIENT TRACKING ON", "SET z 1", "MGET b c"]), []);
    ask_there(&["SET a 1", "MSET b 1 d 1", "SET b 2", "DEL z"]);
    assert_eq!(ask_here(&[]), [key("b")]);
    // Own writes.
    assert_eq!(ask_here(&["SET c 1"]), [own("c")]);
    assert_eq!(ask_here(&["SET c 2"]), []);
    // A script has read its key perhaps after it has written it.
    assert_eq!(ask_here(&["EVAL \"redis.call('SET', KEYS[1], 1)\" 1 s"]), [own("s")]);
    ask_there(&["SET s 2", "SET s 3"]);
    assert_eq!(ask_here(&[]), [key("s")]);
    // A transaction.
    assert_eq!(ask_here(&["MULTI", "GET e", "STRLEN f", "SET e 1", "EXEC"]), [own("e")]);
    ask_there(&["SET e 2", "SET f 2", "SET f 3"]);
    assert_eq!(ask_here(&[]), [key("e"), key("f")]);
    // All at once, and one after the other in a pipeline.
    ask_there(&["FLUSHALL"]);
    assert_eq!(ask_here(&["GET g"]), [All]);
    ask_there(&["SET g 1"]);
    assert_eq!(ask_here(&["CLIENT TRACKING OFF", "GET g"]), [key("g")]);
    ask_there(&["SET g 2"]);
    assert_eq!(ask_here(&[]), []);
    host.lose_seat();
    assert_eq!(host.changes(), [All]);
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
fn caching_is_about_one_request_of_a_pipeline() {
    use todana_protocol::testing::with_guest_hosts;
    for (mode, caching, expected) in [("OPTIN", "YES", ["a"]), ("OPTOUT", "NO", ["b"])] {
        let (mut host, mut session) = (with_guest_hosts(host), RespSession::default());
        ask(&mut session, &mut host, &format!("CLIENT TRACKING ON {mode}"));
        let requests = [&format!("CLIENT CACHING {caching}"), "GET a", "GET b"];
        let input = requests.map(array).concat();
        let replies = shown(&converse(&mut session, &mut host, [&input[..]]).output);
        assert_eq!(
            (replies.as_str(), tracked(&host)),
            ("+OK $-1 $-1", expected.map(String::from).to_vec())
        );
    }
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
        *host.part.hold.lock().unwrap() = hold(writes_only);
        let budget = todana_protocol::Budget { requests_max: 1, output_bytes_max: 1_000 };
        let (mut output, bytes) = (Vec::new(), array(request));
        let progress = session.advance(&bytes, &mut output, &mut host, budget);
        assert_eq!((progress.consumed, progress.next), (0, todana_protocol::Next::Wait { ms: 50 }));
        *host.part.hold.lock().unwrap() = None;
        while session.advance(&bytes, &mut output, &mut host, budget).consumed == 0 {}
        assert!(!output.is_empty(), "{request}");
    }
}

#[test]
fn a_pause_of_writes_holds_what_may_write() {
    const READS: &str = "EVAL \"#!lua flags=no-writes\\nreturn 1\" 0";
    const NAMED_READS: &str = "EVALSHA 77f21361171213377cb083e2ffc2ae24ffdff8fb 0";
    const NAMED: &str = "EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0";
    let (mut host, mut session) = (host(), RespSession::default());
    let budget = todana_protocol::Budget { requests_max: 1, output_bytes_max: 1_000 };
    for (queued, request, may_write) in [
        (&["MULTI", "GET k"][..], "EXEC", false),
        (&["MULTI", "EVAL_RO \"return 1\" 0"], "EXEC", false),
        (&["MULTI", READS], "EXEC", false),
        (&["MULTI", READS, "SET k v"], "EXEC", true),
        (&["MULTI"], "EXEC", false),
        (&[], "EXEC", false),
        (&["MULTI", "GET k", "SET k v"], "EXEC", true),
        (&["MULTI", "EVAL \"return 1\" 0"], "EXEC", true),
        (&["MULTI", "PUBLISH a b"], "EXEC", true),
        (&[], READS, false),
        (&["SCRIPT LOAD \"#!lua flags=no-writes\\nreturn 1\""], NAMED_READS, false),
        (&[], "EVAL_RO \"return 1\" 0", false),
        (&[], "EVAL \"return 1\" 0", true),
        (&[], "EVAL \"#!lua\\nreturn 1\" 0", true),
        (&["SCRIPT LOAD \"return 1\""], NAMED, true),
        (&[], "EVALSHA unknown 0", true),
    ] {
        for writes_only in [true, false] {
            let what = format!("{queued:?} {request} {writes_only}");
            queued.iter().for_each(|request| _ = ask(&mut session, &mut host, request));
            let until_ms = host.now_ms + 100;
            *host.part.hold.lock().unwrap() = Some(Hold { until_ms, writes_only });
            let (mut output, bytes) = (Vec::new(), array(request));
            let progress = session.advance(&bytes, &mut output, &mut host, budget);
            let is_held = progress.next == todana_protocol::Next::Wait { ms: 50 };
            assert_eq!(is_held, may_write || !writes_only, "{what}");
            assert_eq!(host.client.is_held.load(Relaxed), is_held, "{what}");
            *host.part.hold.lock().unwrap() = None;
            if is_held {
                while session.advance(&bytes, &mut output, &mut host, budget).consumed == 0 {}
            }
            assert!(!output.is_empty(), "{what}");
            assert!(!host.client.is_held.load(Relaxed), "{what}");
        }
    }
}

#[test]
fn monitor_shows_what_was_executed() {
    let (mut host, mut session) = (host(), RespSession::default());
    host.password = Some(b"secret".to_vec());
    host.part.monitored = Some(Default::default());
    for request in ["AUTH secret", "SET k \"a b\"", "CONFIG GET x", "SELECT 1", "GET k"] {
        ask(&mut session, &mut host, request);
    }
    let lines = host.part.monitored.unwrap().into_inner().unwrap();
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
