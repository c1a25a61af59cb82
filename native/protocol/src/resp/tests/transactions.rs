//! MULTI and EXEC, WATCH.

use super::*;

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
        %7 $6 server $5 redis $7 version $5 7.2.0 $5 proto :3 $2 id :7 $4 mode $10 standalone $4
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
