//! MULTI and EXEC, WATCH.

use super::*;
use std::sync::Arc;

#[test]
fn queued_commands_are_executed_in_order() {
    script(
        r#"
        > MULTI
        +OK
        > SET k 1
        +QUEUED
        > INCR k
        +QUEUED
        > SET k 2 FOO
        +QUEUED
        > PING
        +QUEUED
        > SELECT 3
        +QUEUED
        > GET k
        +QUEUED
        > SELECT 0
        +QUEUED
        > MSET a 1 b 2
        +QUEUED
        > MGET a b k
        +QUEUED
        > ECHO hi
        +QUEUED
        > GET k
        +QUEUED
        > EXEC
        *11 +OK :2 -ERR syntax error +PONG +OK $-1 +OK +OK *3 $1 1 $1 2 $1 2 $2 hi $1 2
        > MULTI
        +OK
        > EXEC
        *0
        "#,
    );
}

#[test]
fn errors_while_queueing_abort() {
    script(
        r#"
        > MULTI
        +OK
        > SET k 1
        +QUEUED
        > GET
        -ERR wrong number of arguments for 'get' command
        > EXEC
        -EXECABORT Transaction discarded because of previous errors.
        > EXISTS k
        :0
        > MULTI
        +OK
        > NOSUCH
        -ERR unknown command 'NOSUCH', with args beginning with:
        > PING
        +QUEUED
        > EXEC
        -EXECABORT Transaction discarded because of previous errors.
        > MULTI
        +OK
        > EXEC now
        -EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command
        > EXEC
        -ERR EXEC without MULTI
        "#,
    );
}

#[test]
fn words_out_of_place_are_errors() {
    script(
        r#"
        > EXEC
        -ERR EXEC without MULTI
        > DISCARD
        -ERR DISCARD without MULTI
        > MULTI
        +OK
        > MULTI
        -ERR MULTI calls can not be nested
        > WATCH k
        -ERR WATCH inside MULTI is not allowed
        > SET k 1
        +QUEUED
        > DISCARD
        +OK
        > EXISTS k
        :0
        > MULTI
        +OK
        > RESET
        +RESET
        > EXEC
        -ERR EXEC without MULTI
        "#,
    );
}

#[test]
fn a_changed_watched_key_calls_it_off() {
    script(
        r#"
        > WATCH k other
        +OK
        > SET k 1
        +OK
        > MULTI
        +OK
        > SET k 2
        +QUEUED
        > EXEC
        *-1
        > GET k
        $1 1
        > WATCH k
        +OK
        > MULTI
        +OK
        > SET k 3
        +QUEUED
        > EXEC
        *1 +OK
        > WATCH k
        +OK
        > SET k 4
        +OK
        > UNWATCH
        +OK
        > MULTI
        +OK
        > GET k
        +QUEUED
        > EXEC
        *1 $1 4
        > WATCH k
        +OK
        > SET k 5
        +OK
        > MULTI
        +OK
        > EXEC
        *-1
        > HELLO 3
        %7 $6 server $5 redis $7 version $5 7.4.0 $5 proto :3 $2 id :7 $4 mode $10 standalone $4
        role $6 master $7 modules *0
        > WATCH k
        +OK
        > SET k 6
        +OK
        > MULTI
        +OK
        > EXEC
        _
        "#,
    );
}

#[test]
fn only_a_hello_that_succeeds_changes_the_version() {
    let password = || FakeHost { password: Some(b"secret".to_vec()), ..host() };
    let play = |hello: &str| {
        let (mut host, mut session) = (password(), RespSession::default());
        for line in ["AUTH secret", "MULTI", hello, "GET missing"] {
            ask(&mut session, &mut host, line);
        }
        ask(&mut session, &mut host, "EXEC")
    };
    for hello in [
        "HELLO 3 FOO",
        "HELLO 4",
        "HELLO 3 AUTH default wrong",
        "HELLO 3 AUTH other secret",
        "HELLO 3 SETNAME \"a b\"",
    ] {
        let answer = play(hello);
        assert!(answer.starts_with("*2 -") && answer.ends_with(" $-1"), "{hello}: {answer}");
    }
    for hello in ["HELLO 3", "hello 3 setname x", "HELLO 3 AUTH default secret"] {
        let answer = play(hello);
        assert!(answer.starts_with("*2 %7 ") && answer.ends_with(" _"), "{hello}: {answer}");
    }
}

#[test]
fn a_transaction_can_close_and_its_sleeps_add_up() {
    let play = |lines: &[&str]| {
        let lines = [&["MULTI"], lines, &["EXEC", "PING"]].concat();
        raw(format!("{}\r\n", lines.join("\r\n")).as_bytes())
    };
    let (kill, sleep) = ("CLIENT KILL ID 7 SKIPME no", "DEBUG SLEEP 0.05");
    for lines in [[kill, sleep], [sleep, kill]] {
        let outcome = play(&lines);
        assert!(outcome.closed && !outcome.output.ends_with(b"+PONG\r\n"), "{lines:?}");
    }
    let outcome = play(&[sleep, "DEBUG SLEEP 1", "PING"]);
    assert_eq!((outcome.closed, outcome.slept_ms), (false, 1050));
    assert_eq!(play(&["DEBUG SLEEP 50", "DEBUG SLEEP 50"]).slept_ms, 60_000);
}

#[test]
fn a_limit_that_is_lowered_behind_a_queued_write_refuses_the_whole_transaction() {
    use todana_command::Databases;
    use todana_table::{Budget, Options, WhenFull};
    let value = "v".repeat(1_000);
    let entry = todana_table::entry_bytes(1, 1_000, &todana_table::Meta::default());
    for (bytes_max, answer) in [
        (entry, "*2 +OK $1000 "),
        (entry - 1, "-EXECABORT Transaction discarded because of: OOM"),
        (100, "-EXECABORT Transaction discarded because of: OOM"),
    ] {
        let budget = Arc::new(Budget::new(1 << 20, WhenFull::Evict));
        let options =
            Options { budget: Some(budget.clone()), shards: Some(16), ..Options::default() };
        let databases = Arc::new(Databases::with_options(&options));
        let mut host = FakeHost::on(databases, ProtocolName::Resp);
        let mut session = RespSession::default();
        for request in ["MULTI".into(), format!("SET a {value}"), "GET a".into()] {
            ask(&mut session, &mut host, &request);
        }
        budget.bytes_max.store(bytes_max.cast_signed(), std::sync::atomic::Ordering::SeqCst);
        let found = ask(&mut session, &mut host, "EXEC");
        assert!(found.starts_with(answer), "{bytes_max} of {entry}: {found}");
    }
}

/// A host with room for this many bytes, which refuses more.
pub(super) fn host_with_room(bytes: u64) -> FakeHost {
    use todana_command::Databases;
    use todana_table::{Budget, Options, WhenFull};
    let budget = Some(Arc::new(Budget::new(bytes.cast_signed(), WhenFull::Refuse)));
    let options = Options { budget, shards: Some(16), ..Options::default() };
    FakeHost::on(Arc::new(Databases::with_options(&options)), ProtocolName::Resp)
}

#[test]
fn a_full_store_refuses_while_queueing_and_as_a_whole() {
    let value = "v".repeat(1_000);
    let entry = todana_table::entry_bytes(1, 1_000, &todana_table::Meta::default());
    let refused = "OOM command not allowed when used memory > 'maxmemory'.";
    let text = format!(
        r#"
        > SET a {value}
        +OK
        > MULTI
        +OK
        > SET b {value}
        +QUEUED
        > SET c {value}
        +QUEUED
        > EXEC
        -EXECABORT Transaction discarded because of: {refused}
        > DBSIZE
        :1
        > WATCH a b c d
        +OK
        > MSET a 1 c {value} d {value}
        -OOM command not allowed when used memory > 'maxmemory'.
        > MULTI
        +OK
        > SET b {value}
        +QUEUED
        > EXEC
        *1 +OK
        > MULTI
        +OK
        > GET c
        +QUEUED
        > SET a 1
        -OOM command not allowed when used memory > 'maxmemory'.
        > DEL a
        +QUEUED
        > EXEC
        -EXECABORT Transaction discarded because of previous errors.
        > MULTI
        +OK
        > DEL a
        +QUEUED
        > EXEC
        *1 :1
        "#
    );
    script_on(&text, || host_with_room(2 * entry + 10));
}

#[test]
fn large_values_are_answered_in_their_places() {
    let (mut host, mut session) = (host(), RespSession::default());
    let [one, two] = ["1", "2"].map(|digit| digit.repeat(20_000));
    ask(&mut session, &mut host, &format!("MSET a {one} b {two} c small"));
    ask(&mut session, &mut host, "MULTI");
    for line in ["GET a", "MGET b c a", "GETDEL a", "SET b new GET", "STRLEN b", "GETEX b", "PING"]
    {
        ask(&mut session, &mut host, line);
    }
    let (one, two) = (format!("$20000 {one}"), format!("$20000 {two}"));
    let answer = format!("*7 {one} *3 {two} $5 small {one} {one} {two} :3 $3 new +PONG");
    assert_eq!(ask(&mut session, &mut host, "EXEC"), answer);
    assert_eq!(host.lookups.0, 7);
}

#[test]
fn too_much_work_for_one_step_is_refused() {
    let (mut host, mut session) = (host(), RespSession::default());
    let keys = |from: usize, to: usize| {
        (from..to).map(|number| format!("k{number}")).collect::<Vec<_>>().join(" ")
    };
    ask(&mut session, &mut host, "SET k v");
    ask(&mut session, &mut host, "MULTI");
    assert_eq!(ask(&mut session, &mut host, &format!("DEL k {}", keys(0, 30_000))), "+QUEUED");
    assert_eq!(ask(&mut session, &mut host, &format!("DEL {}", keys(0, 30_000))), "+QUEUED");
    let refused = "-EXECABORT Transaction discarded because of: \
                   the commands are too much work for one step";
    assert_eq!(ask(&mut session, &mut host, "EXEC"), refused);
    assert_eq!(ask(&mut session, &mut host, "GET k"), "$1 v");
}

#[test]
fn commands_that_the_session_answers_count_as_work() {
    let refused = "-EXECABORT Transaction discarded because of: \
                   the commands are too much work for one step";
    let mut host = host();
    let other = |id| todana_protocol::testing::client(id, ProtocolName::Resp);
    host.others = (100..200).map(other).collect();
    (0..128)
        .for_each(|micros| todana_protocol::Statistics::log_slow(&host, micros, &[b"GET", b"k"]));
    let docs = format!("COMMAND DOCS{}", " get".repeat(1_000));
    let patterns = format!("CONFIG GET{}", " a".repeat(1_000));
    let long = format!("ECHO {}", "x".repeat(1 << 20));
    // How many of each command fit one EXEC: 65,536 units, divided by the cost of one.
    for (line, units) in [
        ("PING", 1),
        ("TIME", 1),
        ("SELECT 1", 2),
        ("INFO everything", 3_072 + 101 + 2),
        ("MEMORY STATS", 3_072 + 2),
        ("MEMORY DOCTOR", 3_072 + 2),
        ("LOLWUT", 3_072 + 1),
        ("CONFIG RESETSTAT", 3_072 + 2),
        ("COMMAND", 512 + 5 + 1),
        ("COMMAND DOCS", 512 + 2 * 6),
        (&docs, 512 + 1_002 * 6 + 11),
        ("LATENCY HISTOGRAM", 512 + 2 * 6),
        ("CONFIG GET *", 64 + 5 + 3 * 6),
        (&patterns, 64 + 1_004 + 1_002 * 6 + 2),
        ("CLIENT LIST", 64 + 4 * 101 + 2),
        ("CLIENT KILL ID 1", 64 + 101 + 4),
        ("SLOWLOG GET", 64 + 128 * 8 + 2),
        ("CLIENT HELP", 64 + 2),
        (&long, 2 + 3 * 1_024),
    ] {
        let most = 65_536 / units;
        for count in [most, most + 1] {
            if count * line.split(' ').count() > super::super::queue::QUEUED_WORDS_MAX {
                continue;
            }
            let mut session = RespSession::default();
            ask(&mut session, &mut host, "MULTI");
            for _ in 0..count {
                assert_eq!(ask(&mut session, &mut host, line), "+QUEUED");
            }
            let answer = ask(&mut session, &mut host, "EXEC");
            assert_eq!(answer == refused, count > most, "{count} of {line:.40}");
        }
    }
    // Together with commands on records.
    let mut session = RespSession::default();
    let keys = (0..65_000).map(|number| format!("k{number}")).collect::<Vec<_>>().join(" ");
    for line in ["SET k0 v", "MULTI", "DEL k0", &format!("EXISTS {keys}"), "LOLWUT"] {
        ask(&mut session, &mut host, line);
    }
    assert_eq!(ask(&mut session, &mut host, "EXEC"), refused);
    assert_eq!(ask(&mut session, &mut host, "GET k0"), "$1 v");
}

#[test]
fn quit_in_a_transaction_closes() {
    let outcome = raw(b"MULTI\r\nSET k 1\r\nQUIT\r\nEXEC\r\n");
    assert_eq!((shown(&outcome.output).as_str(), outcome.closed), ("+OK +QUEUED +OK", true));
}

#[test]
fn queueing_is_seen_in_the_list_of_clients() {
    let (mut host, mut session) = (host(), RespSession::default());
    ask(&mut session, &mut host, "WATCH a b a");
    let info = |session: &mut RespSession, host: &mut FakeHost| ask(session, host, "CLIENT INFO");
    assert!(info(&mut session, &mut host).contains(" multi=-1 watch=2 "));
    ask(&mut session, &mut host, "MULTI");
    ask(&mut session, &mut host, "PING");
    assert_eq!(host.client.queued.load(std::sync::atomic::Ordering::Relaxed), 1);
    ask(&mut session, &mut host, "EXEC");
    assert!(info(&mut session, &mut host).contains(" multi=-1 watch=0 "));
}
