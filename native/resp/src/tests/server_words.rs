//! Words about the server that clients use: ACL, MODULE, SHUTDOWN and others.

use super::*;

#[test]
fn there_is_one_user_who_may_do_everything() {
    script(include_str!("transcripts/acl.txt"));
    let (mut host, mut session) = (host(), RespSession::default());
    assert!(ask(&mut session, &mut host, "ACL CAT").starts_with("*14 $8 keyspace $4 read"));
    host.password = Some(b"secret".to_vec());
    ask(&mut session, &mut host, "AUTH secret");
    let list = ask(&mut session, &mut host, "ACL LIST");
    assert!(!list.contains("nopass") && !list.contains("secret"), "{list}");
}

#[test]
fn clients_may_not_stop_the_server() {
    let refused = "-ERR clients may not stop the server: it is a part of an Erlang node, which \
                   SIGTERM or init:stop/0 ends";
    let (mut host, mut session) = (host(), RespSession::default());
    for words in ["", " SAVE", " NOSAVE", " now force", " NOSAVE NOW FORCE"] {
        assert_eq!(ask(&mut session, &mut host, &format!("SHUTDOWN{words}")), refused, "{words}");
    }
    for words in ["SAVE NOSAVE", "ABORT NOW", "LATER"] {
        let answer = ask(&mut session, &mut host, &format!("SHUTDOWN {words}"));
        assert_eq!(answer, "-ERR syntax error", "{words}");
    }
    assert_eq!(ask(&mut session, &mut host, "SHUTDOWN ABORT"), "-ERR No shutdown in progress.");
}

#[test]
fn words_without_an_effect_are_accepted() {
    script(
        r#"
        > MEMORY PURGE
        +OK
        > MEMORY MALLOC-STATS
        $45 Stats not supported for the current allocator
        > MODULE LIST
        *0
        > LATENCY GRAPH command
        -ERR No samples available for event 'command'
        > DEBUG SET-ACTIVE-EXPIRE 0
        +OK
        > DEBUG OBJECT none
        -ERR no such key
        > SET k 12
        +OK
        > DEBUG OBJECT k
        +Value at:0x0 refcount:1 encoding:int serializedlength:2 lru:0 lru_seconds_idle:0
        "#,
    );
}
