//! TODANA.SCOPES and its relatives, whose answers come from elsewhere.

use super::*;
use crate::Answer;
use todana_protocol::{Budget, Next, Progress};

fn bytes(text: &str) -> Answer {
    Answer::Bytes(text.into())
}

fn list(texts: &[&str]) -> Answer {
    Answer::List(texts.iter().copied().map(bytes).collect())
}

/// A host with these answers.
fn answering(answers: &[(&str, Answer)]) -> FakeHost {
    let mut host = host();
    let answers = answers.iter().map(|(question, answer)| (question.to_string(), answer.clone()));
    host.part.answers = answers.collect();
    host
}

fn with_names() -> FakeHost {
    let process = Answer::Map(vec![
        (bytes("node"), bytes("a@host")),
        (bytes("pid"), bytes("<0.7.0>")),
        (bytes("token"), Answer::Number(7)),
    ]);
    answering(&[
        ("scopes", Answer::Map(vec![(bytes("services"), bytes("cluster"))])),
        ("services {user,7}", process),
        (r"services \x83a\x07", Answer::Nothing),
        ("services names 100 from 0", Answer::List(vec![bytes("x"), list(&["a", "b"])])),
        ("services names 2 from x", Answer::List(vec![bytes("0"), list(&[])])),
        ("services groups 7 from 0", Answer::List(vec![bytes("0"), list(&["{room,9}"])])),
        ("services {room,9} 1000 from y", Answer::List(vec![bytes("0"), list(&[])])),
        ("none names 100 from 0", Answer::Failure("ERR there is no scope of this name".into())),
    ])
}

#[test]
fn answers_are_replies() {
    script_on(
        r#"
        > TODANA.SCOPES
        *2 $8 services $7 cluster
        > TODANA.WHEREIS services {user,7}
        *6 $4 node $6 a@host $3 pid $7 <0.7.0> $5 token :7
        > TODANA.WHEREIS services "\x83a\x07"
        *-1
        > TODANA.NAMES services
        *2 $1 x *2 $1 a $1 b
        > todana.names services cursor x count 2
        *2 $1 0 *0
        > TODANA.GROUPS services COUNT 7
        *2 $1 0 *1 $8 {room,9}
        > TODANA.MEMBERS services {room,9} COUNT 1000 CURSOR y
        *2 $1 0 *0
        > TODANA.NAMES none
        -ERR there is no scope of this name
        > PING
        +PONG
        "#,
        with_names,
    );
}

#[test]
fn the_replies_of_resp3_have_maps_and_nulls() {
    let (mut host, mut session) = (with_names(), RespSession::default());
    assert!(ask(&mut session, &mut host, "HELLO 3").starts_with("%7"));
    assert_eq!(ask(&mut session, &mut host, "TODANA.SCOPES"), "%1 $8 services $7 cluster");
    assert!(ask(&mut session, &mut host, "TODANA.WHEREIS services {user,7}").starts_with("%3 $4"));
    assert_eq!(ask(&mut session, &mut host, r#"TODANA.WHEREIS services "\x83a\x07""#), "_");
}

#[test]
fn bad_options_are_not_asked() {
    script_on(
        r#"
        > TODANA.NAMES services COUNT
        -ERR syntax error
        > TODANA.NAMES services 7
        -ERR syntax error
        > TODANA.MEMBERS services x CURSOR
        -ERR syntax error
        > TODANA.GROUPS services COUNT x
        -ERR value is not an integer or out of range
        > TODANA.GROUPS services COUNT 0
        -ERR COUNT must be between 1 and 1000
        > TODANA.GROUPS services COUNT 1001
        -ERR COUNT must be between 1 and 1000
        > TODANA.WHEREIS services
        -ERR wrong number of arguments for 'todana.whereis' command
        "#,
        with_names,
    );
}

#[test]
fn what_waits_is_refused_in_transactions_and_scripts() {
    script_on(
        r#"
        > MULTI
        +OK
        > TODANA.SCOPES
        -ERR Command not allowed inside a transaction
        > EXEC
        -EXECABORT Transaction discarded because of previous errors.
        "#,
        with_names,
    );
    let (mut host, mut session) = (with_names(), RespSession::default());
    let refused = ask(&mut session, &mut host, r#"EVAL "return redis.call('TODANA.SCOPES')" 0"#);
    assert!(refused.starts_with("-ERR This Redis command is not allowed from script"), "{refused}");
}

#[test]
fn a_server_that_nobody_answers_says_so() {
    let nobody = "-CLUSTERDOWN nobody answers questions about names: the node starts or stops";
    let (mut host, mut session) = (host(), RespSession::default());
    assert_eq!(ask(&mut session, &mut host, "TODANA.SCOPES"), nobody);
}

fn turn(session: &mut RespSession, host: &mut FakeHost) -> (Progress, String) {
    let mut output = Vec::new();
    let request = array("TODANA.NAMES never");
    let budget = Budget { requests_max: 9, output_bytes_max: 1 << 16 };
    let progress = session.advance(&request, &mut output, host, budget);
    (progress, shown(&output))
}

#[test]
fn a_client_waits_for_a_limited_time() {
    let (mut host, mut session) = (with_names(), RespSession::default());
    let waits = |ms| (Progress { consumed: 0, next: Next::Wait { ms } }, String::new());
    assert_eq!(turn(&mut session, &mut host), waits(7_000));
    assert!(host.part.question.is_some());
    host.now_ms += 6_999;
    assert_eq!(turn(&mut session, &mut host), waits(1));
    host.now_ms += 1;
    let late = "-CLUSTERDOWN this node did not answer in time";
    assert_eq!(turn(&mut session, &mut host).1, late);
    assert_eq!(host.part.question, None);
    // The next one has its own time.
    assert_eq!(turn(&mut session, &mut host), waits(7_000));
}

#[test]
fn a_question_that_is_one_too_many_is_asked_again() {
    let (mut host, mut session) = (with_names(), RespSession::default());
    host.part.questions_too_many = 2;
    for _ in 0..2 {
        let (progress, _) = turn(&mut session, &mut host);
        assert_eq!(progress, Progress { consumed: 0, next: Next::Wait { ms: 5 } });
        assert_eq!(host.part.question, None);
    }
    let (progress, _) = turn(&mut session, &mut host);
    assert_eq!(progress, Progress { consumed: 0, next: Next::Wait { ms: 7_000 } });
    let (mut host, mut session) = (with_names(), RespSession::default());
    host.part.questions_too_many = usize::MAX;
    turn(&mut session, &mut host);
    host.now_ms += 7_000;
    let late = "-CLUSTERDOWN this node did not answer in time";
    assert_eq!(turn(&mut session, &mut host).1, late);
}
