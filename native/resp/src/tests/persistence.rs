//! The commands about persistence, in a server with and without a log.

use super::*;
use todana_protocol::{Budget, Persistence, Request};

fn with_log(log: Persistence) -> FakeHost {
    let log = Persistence { data_dir: "/data".into(), writable: true, ..log };
    FakeHost { persistence: Some(log), ..host() }
}

fn every_second() -> FakeHost {
    with_log(Persistence::default())
}

#[test]
fn without_a_log_there_is_nothing_to_save_to() {
    let nothing = "-ERR there is nothing to save to: this server keeps its records in memory, and \
                   has no data_dir";
    let (mut session, mut host) = (RespSession::default(), host());
    for command in ["SAVE", "BGSAVE", "BGSAVE SCHEDULE", "BGREWRITEAOF"] {
        assert_eq!(ask(&mut session, &mut host, command), nothing);
    }
    script(
        r#"
        > BGSAVE NOW
        -ERR syntax error
        > LASTSAVE
        :0
        > WAIT 0 0
        :0
        > WAIT -1 0
        -ERR value is out of range, must be positive
        > WAITAOF 0 0 0
        *2 :0 :0
        > WAITAOF 1 0 0
        -ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.
        > CONFIG GET appendonly
        *2 $10 appendonly $2 no
        > CONFIG GET dir
        *2 $3 dir $0
        "#,
    );
}

#[test]
fn a_reply_means_that_the_write_is_on_disk() {
    let start = || with_log(Persistence { always: true, snapshot_at_s: 17, ..Default::default() });
    script_on(
        r#"
        > WAITAOF 1 0 0
        *2 :1 :0
        > WAITAOF 1 1 5
        *2 :1 :0
        > WAITAOF 2 0 0
        -ERR value is out of range, must be between 0 and 1
        > LASTSAVE
        :17
        > CONFIG GET append*
        *4 $11 appendfsync $6 always $10 appendonly $3 yes
        > CONFIG GET dir
        *2 $3 dir $5 /data
        "#,
        start,
    );
}

#[test]
fn save_and_waitaof_wait_for_the_log() {
    let mut session = RespSession::default();
    let mut host = every_second();
    assert_eq!(ask(&mut session, &mut host, "WAITAOF 1 0 0"), "*2 :1 :0");
    assert_eq!(ask(&mut session, &mut host, "SAVE"), "+OK");
    assert_eq!(ask(&mut session, &mut host, "BGSAVE"), "+Background saving started");
    let rewriting = "+Background append only file rewriting started";
    assert_eq!(ask(&mut session, &mut host, "BGREWRITEAOF"), rewriting);
    let [sync, saved, begun, rewritten] = host.requests[..] else { panic!("four requests") };
    assert_eq!([sync, saved], [Request::Sync, Request::WaitedSnapshot]);
    assert_eq!([begun, rewritten], [Request::Snapshot; 2]);
}

#[test]
fn waitaof_gives_up_after_its_time() {
    let mut session = RespSession::default();
    let mut host = FakeHost { disk_is_stuck: true, ..every_second() };
    let progress = |session: &mut RespSession, host: &mut FakeHost| {
        let mut output = Vec::new();
        let request = array("WAITAOF 1 0 50");
        let budget = Budget { requests_max: 9, output_bytes_max: 1 << 16 };
        let progress = session.advance(&request, &mut output, host, budget);
        (progress.consumed, shown(&output))
    };
    assert_eq!(progress(&mut session, &mut host), (0, String::new()));
    host.now_ms += 49;
    assert_eq!(progress(&mut session, &mut host), (0, String::new()));
    host.now_ms += 1;
    assert_eq!(progress(&mut session, &mut host).1, "*2 :0 :0");
    assert_eq!(host.requests, [Request::Sync]);
}

#[test]
fn what_waits_is_refused_in_a_transaction() {
    script_on(
        r#"
        > MULTI
        +OK
        > SAVE
        -ERR Command not allowed inside a transaction
        > EXEC
        -EXECABORT Transaction discarded because of previous errors.
        > MULTI
        +OK
        > BGSAVE
        +QUEUED
        > EXEC
        *1 +Background saving started
        "#,
        every_second,
    );
}

#[test]
fn a_snapshot_in_progress() {
    let start = || with_log(Persistence { snapshot_in_progress: true, ..Persistence::default() });
    script_on(
        r#"
        > BGSAVE
        -ERR Background save already in progress
        > BGSAVE SCHEDULE
        +Background saving scheduled
        > SAVE
        -ERR Background save already in progress
        "#,
        start,
    );
}

#[test]
fn info_has_the_figures_of_the_log() {
    let log = Persistence {
        loading: true,
        loading_percent: 43,
        snapshot_bytes: 100,
        log_bytes: 11,
        snapshot_failed: true,
        commit_us: Some((310, 1_890)),
        ..Persistence::default()
    };
    let (mut session, mut host) = (RespSession::default(), with_log(log));
    let info = ask(&mut session, &mut host, "INFO persistence");
    for line in [
        "loading:1",
        "loading_loaded_perc:43",
        "aof_enabled:1",
        "aof_current_size:111",
        "aof_base_size:100",
        "rdb_last_bgsave_status:err",
        "aof_last_write_status:ok",
        "log_commit_usec:p50=310,p99=1890",
    ] {
        assert!(info.split(' ').any(|word| word == line), "{line} in {info}");
    }
    assert!(!info.contains("log_fsync_usec"), "{info}");
}

/// One turn: how much was consumed, what is next, and the replies.
fn turn(
    session: &mut RespSession,
    host: &mut FakeHost,
    input: &[u8],
) -> (usize, todana_protocol::Next, String) {
    let mut output = Vec::new();
    let budget = Budget { requests_max: 9, output_bytes_max: 1 << 16 };
    let progress = session.advance(input, &mut output, host, budget);
    (progress.consumed, progress.next, shown(&output))
}

#[test]
fn wait_takes_its_time_because_there_are_no_replicas() {
    use todana_protocol::Next::{Read, Wait};
    let (mut session, mut host) = (RespSession::default(), host());
    let input = [array("ECHO x"), array("WAIT 1 100")].concat();
    let echo = array("ECHO x").len();
    let first = turn(&mut session, &mut host, &input);
    assert_eq!(first, (echo, Wait { ms: 100 }, "$1 x".into()), "earlier replies do not wait");
    host.now_ms += 60;
    let second = turn(&mut session, &mut host, &input[echo..]);
    assert_eq!(second, (0, Wait { ms: 40 }, String::new()));
    host.now_ms += 40;
    let third = turn(&mut session, &mut host, &input[echo..]);
    assert_eq!(third, (input.len() - echo, Read { wanted: 0 }, ":0".into()));

    let for_ever = array("WAIT 1 0");
    for _ in 0..3 {
        let (consumed, next, replies) = turn(&mut session, &mut host, &for_ever);
        assert!(matches!(next, Wait { ms } if ms > 1 << 40), "{next:?}");
        assert_eq!((consumed, replies), (0, String::new()));
        host.now_ms += 1 << 32;
    }
}

#[test]
fn a_conversation_ends_where_only_another_client_could_end_the_wait() {
    for line in ["WAIT 1 100", "WAIT 1 0"] {
        let input = [array("ECHO x"), array(line)].concat();
        let outcome = converse(&mut RespSession::default(), &mut host(), [&input[..]]);
        assert_eq!(shown(&outcome.output), "$1 x", "{line}");
        assert_eq!(outcome.left, array(line).len(), "{line}");
    }
}

#[test]
fn wait_does_not_wait_in_a_transaction() {
    script(
        r#"
        > MULTI
        +OK
        > WAIT 1 0
        +QUEUED
        > WAIT 5 100000
        +QUEUED
        > EXEC
        *2 :0 :0
        > WAIT 0 100000
        :0
        "#,
    );
}
