//! RANGE and PREFIX.

use super::*;
use std::sync::Arc;
use todana_command::Databases;
use todana_protocol::Budget;
use todana_table::{Comparison, KeyOrder, Keyspace, Meta, Options};

/// A host whose databases are ordered.
fn ordered(order: KeyOrder) -> FakeHost {
    let options =
        Options { shards: Some(16), seed: Some(7), order: Some(order), ..Options::default() };
    FakeHost::on(Arc::new(Databases::with_options(&options)), ProtocolName::Resp)
}

pub(super) fn lexical() -> FakeHost {
    ordered(KeyOrder::default())
}

const NOT_ORDERED: &str =
    "-ERR the database is not ordered: name it + or % when the server is started";

#[test]
fn keys_come_in_order_with_both_ends() {
    script_on(
        r#"
        > MSET b 2 d 4 a 1 c 3 ab 12
        +OK
        > RANGE a c
        *4 $1 a $2 ab $1 b $1 c
        > RANGE a1 b9
        *2 $2 ab $1 b
        > range A z rev
        *5 $1 d $1 c $1 b $2 ab $1 a
        > RANGE c a
        *0
        > RANGE e z
        *0
        "#,
        lexical,
    );
}

#[test]
fn an_empty_end_is_open() {
    script_on(
        r#"
        > MSET a 1 b 2 c 3 "" 0
        +OK
        > RANGE "" ""
        *4 $0  $1 a $1 b $1 c
        > RANGE b ""
        *2 $1 b $1 c
        > RANGE "" b REV
        *3 $1 b $1 a $0
        "#,
        lexical,
    );
}

#[test]
fn any_bytes_can_be_an_end() {
    script_on(
        r#"
        > MSET ( 1 [a 2 - 3 + 4 "\xff\xff" 5 "\x00" 6
        +OK
        > RANGE ( +
        *2 $1 ( $1 +
        > RANGE [a [a
        *1 $2 [a
        > RANGE "\xff" ""
        *1 $2 \xff\xff
        > RANGE "\x00" "\x00"
        *1 $1 \x00
        "#,
        lexical,
    );
}

#[test]
fn a_limit_ends_an_answer_and_after_goes_on() {
    script_on(
        r#"
        > MSET a 1 b 2 c 3 d 4 e 5
        +OK
        > RANGE a z LIMIT 2
        *2 $1 a $1 b
        > RANGE a z LIMIT 2 AFTER b
        *2 $1 c $1 d
        > RANGE a z AFTER d LIMIT 2
        *1 $1 e
        > RANGE a z LIMIT 2 AFTER e
        *0
        > RANGE a d REV LIMIT 3
        *3 $1 d $1 c $1 b
        > RANGE a d REV LIMIT 3 AFTER b
        *1 $1 a
        > RANGE a z AFTER cc
        *2 $1 d $1 e
        "#,
        lexical,
    );
}

#[test]
fn a_prefix_has_its_keys() {
    script_on(
        r#"
        > MSET user:1 a user:10 b user:2 c user; d use e
        +OK
        > PREFIX user:
        *3 $6 user:1 $7 user:10 $6 user:2
        > PREFIX user:1 REV WITHVALUES
        *4 $7 user:10 $1 b $6 user:1 $1 a
        > PREFIX user: LIMIT 1 AFTER user:1
        *1 $7 user:10
        > PREFIX x
        *0
        > PREFIX "" LIMIT 1
        *1 $3 use
        "#,
        lexical,
    );
}

#[test]
fn values_come_as_redis_writes_scores() {
    script_on(
        r#"
        > MSET a 1 b 2
        +OK
        > RANGE a b WITHVALUES
        *4 $1 a $1 1 $1 b $1 2
        > HELLO 3 SETNAME x
        %7 $6 server $5 redis $7 version $5 7.4.0 $5 proto :3 $2 id :7 $4 mode $10 standalone $4
        role $6 master $7 modules *0
        > RANGE a b WITHVALUES
        *2 *2 $1 a $1 1 *2 $1 b $1 2
        > RANGE c d WITHVALUES
        *0
        "#,
        lexical,
    );
}

#[test]
fn invalid_ranges_are_errors() {
    script_on(
        r#"
        > RANGE a
        -ERR wrong number of arguments for 'range' command
        > RANGE a b c
        -ERR syntax error
        > RANGE a b LIMIT
        -ERR syntax error
        > RANGE a b AFTER
        -ERR syntax error
        > RANGE a b LIMIT x
        -ERR value is not an integer or out of range
        > RANGE a b LIMIT 0
        -ERR LIMIT must be between 1 and 65536
        > RANGE a b LIMIT 65537
        -ERR LIMIT must be between 1 and 65536
        > RANGE a b LIMIT -1
        -ERR LIMIT must be between 1 and 65536
        > RANGE a b LIMIT 65536
        *0
        > PREFIX a b
        -ERR syntax error
        "#,
        lexical,
    );
}

#[test]
fn a_database_without_order_has_no_ranges() {
    script(&format!(
        r#"
        > SET a 1
        +OK
        > RANGE a b
        {NOT_ORDERED}
        > RANGE "" "" REV
        {NOT_ORDERED}
        > RANGE "" ""
        {NOT_ORDERED}
        > PREFIX a
        {NOT_ORDERED}
        > PREFIX ""
        {NOT_ORDERED}
        "#
    ));
}

#[test]
fn a_transaction_shows_what_it_wrote() {
    script_on(
        r#"
        > SET b 1
        +OK
        > MULTI
        +OK
        > MSET a 1 c 3
        +QUEUED
        > RANGE a z LIMIT 2
        +QUEUED
        > DEL b
        +QUEUED
        > PREFIX "" WITHVALUES
        +QUEUED
        > EXEC
        *4 +OK *2 $1 a $1 b :1 *4 $1 a $1 1 $1 c $1 3
        "#,
        lexical,
    );
}

#[test]
fn other_orders_are_followed() {
    let descending = || ordered(KeyOrder { descending: true, ..KeyOrder::default() });
    script_on(
        r#"
        > MSET a 1 b 2 c 3
        +OK
        > RANGE c b
        *2 $1 c $1 b
        > RANGE c b REV
        *2 $1 b $1 c
        > RANGE b ""
        *2 $1 b $1 a
        "#,
        descending,
    );
    let decimal = || ordered(KeyOrder { comparison: Comparison::Decimal, descending: false });
    script_on(
        r#"
        > MSET 9 a 10 b 100 c
        +OK
        > RANGE 9 10
        *2 $1 9 $2 10
        > RANGE 10 ""
        *2 $2 10 $3 100
        "#,
        decimal,
    );
}

#[test]
fn an_expired_key_is_in_no_range() {
    let (mut host, mut session) = (lexical(), RespSession::default());
    let mut ask = |host: &mut FakeHost, line: &str| ask(&mut session, host, line);
    ask(&mut host, "MSET a 1 c 3");
    ask(&mut host, "SET b 2 PX 100");
    assert_eq!(ask(&mut host, "RANGE a c LIMIT 2"), "*2 $1 a $1 b");
    host.now_ms += 100;
    assert_eq!(ask(&mut host, "RANGE a c LIMIT 2"), "*2 $1 a $1 c");
}

#[test]
fn a_thousand_keys_are_the_answer_unless_asked_for_more() {
    let (mut host, mut session) = (lexical(), RespSession::default());
    for number in 0..1_500 {
        ask(&mut session, &mut host, &format!("SET {number:04} v"));
    }
    let keys = |numbers: std::ops::Range<usize>| {
        let keys: Vec<String> = numbers.map(|number| format!(" $4 {number:04}")).collect();
        format!("*{}{}", keys.len(), keys.concat())
    };
    assert_eq!(ask(&mut session, &mut host, "RANGE 0 9"), keys(0..1_000));
    assert_eq!(ask(&mut session, &mut host, "PREFIX 0 AFTER 0499"), keys(500..1_000));
    assert_eq!(ask(&mut session, &mut host, "RANGE 0 9 LIMIT 2000"), keys(0..1_500));
}

/// A host whose database is ordered by numbers, and has `count` keys before two others.
fn numbered(count: usize) -> FakeHost {
    let host = ordered(KeyOrder { comparison: Comparison::Decimal, descending: false });
    let table = host.databases.table(0);
    let keys = (0..count).map(|number| format!("{number:07}"));
    for key in keys.chain(["9999999a".into(), "9999999b".into()]) {
        table.update(key.as_bytes(), 1, |record| record.put(&[b"v"], Meta::default())).unwrap();
    }
    host
}

#[test]
fn a_command_goes_on_in_other_turns_until_it_finds_something() {
    let input = [
        array("PREFIX 9999999"),
        array("CLIENT REPLY SKIP"),
        array("PREFIX 9999999"),
        b"PREFIX 9999999b\r\n".to_vec(),
        array("PREFIX x"),
        array("PING"),
    ];
    let mut rest = input.concat();
    let (mut host, mut session) = (numbered(50_000), RespSession::default());
    let (mut output, mut turns) = (Vec::new(), 0);
    while !rest.is_empty() {
        let budget = Budget { requests_max: 100, output_bytes_max: 1 << 16 };
        let progress = session.advance(&rest, &mut output, &mut host, budget);
        rest.drain(..progress.consumed);
        turns += 1;
    }
    let answer = "*2 $8 9999999a $8 9999999b *1 $8 9999999b *0 +PONG";
    assert_eq!(shown(&output), answer);
    assert!(turns > 4 * 5, "{turns} turns");
    assert_eq!(host.commands, 6, "each is one call");
}

#[test]
fn a_transaction_finds_it_in_one_step_or_says_that_it_cannot() {
    let play = |keys| {
        let (mut host, mut session) = (numbered(keys), RespSession::default());
        ask(&mut session, &mut host, "MULTI");
        ask(&mut session, &mut host, "PREFIX 9999999 LIMIT 1");
        ask(&mut session, &mut host, "EXEC")
    };
    assert_eq!(play(1_000), "*1 *1 $8 9999999a");
    let refused = "*1 -ERR too many keys are passed over to do this within EXEC";
    assert_eq!(play(50_000), refused);
}

#[test]
fn ranges_are_reported_as_commands_of_a_module() {
    script(
        r#"
        > COMMAND LIST FILTERBY MODULE todana
        *10 $5 range $6 prefix $11 todana.read $12 todana.index $12 todana.after
        $13 todana.groups $14 todana.members $12 todana.names $13 todana.scopes $14 todana.whereis
        > COMMAND GETKEYS RANGE a b
        -ERR The command has no key arguments
        > COMMAND INFO prefix
        *1 *10 $6 prefix :-2 *2 +readonly +module :0 :0 :0 *3 +@keyspace +@read +@slow *2 $25
        request_policy:all_shards $23 response_policy:special *0 *0
        "#,
    );
}
