use super::*;
use crate::Topic;
use todana_protocol::{Advance, Budget, Next};

const BUDGET: Budget = Budget { requests_max: 128, output_bytes_max: 1 << 16 };

#[test]
fn subscriptions_are_confirmed_with_their_number() {
    script(
        r#"
        > SUBSCRIBE news sport news
        *3 $9 subscribe $4 news :1 *3 $9 subscribe $5 sport :2 *3 $9 subscribe $4 news :2
        > PSUBSCRIBE n*
        *3 $10 psubscribe $2 n* :3
        > SSUBSCRIBE part
        *3 $10 ssubscribe $4 part :1
        > UNSUBSCRIBE sport other
        *3 $11 unsubscribe $5 sport :2 *3 $11 unsubscribe $5 other :2
        > PUNSUBSCRIBE
        *3 $12 punsubscribe $2 n* :1
        > PUNSUBSCRIBE
        *3 $12 punsubscribe $-1 :1
        > SUNSUBSCRIBE
        *3 $12 sunsubscribe $4 part :0
        > UNSUBSCRIBE
        *3 $11 unsubscribe $4 news :0
        > UNSUBSCRIBE
        *3 $11 unsubscribe $-1 :0
        > SUNSUBSCRIBE x y
        *3 $12 sunsubscribe $1 x :0 *3 $12 sunsubscribe $1 y :0
        > GET k
        $-1
        "#,
    );
}

#[test]
fn in_resp3_confirmations_are_pushes_and_every_command_is_allowed() {
    script(
        r#"
        > HELLO 3
        %7 $6 server $5 redis $7 version $5 7.4.0 $5 proto :3 $2 id :7 $4 mode $10 standalone $4
        role $6 master $7 modules *0
        > SUBSCRIBE news
        >3 $9 subscribe $4 news :1
        > GET k
        _
        > PING
        +PONG
        > PUNSUBSCRIBE
        >3 $12 punsubscribe _ :1
        "#,
    );
}

#[test]
fn a_resp2_subscriber_may_send_only_a_few_commands() {
    script(
        r#"
        > SUBSCRIBE news
        *3 $9 subscribe $4 news :1
        > GET k
        -ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are
        allowed in this context
        > CLIENT ID
        -ERR Can't execute 'client|id': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT /
        RESET are allowed in this context
        > PING
        *2 $4 pong $0
        > PING hello
        *2 $4 pong $5 hello
        > SSUBSCRIBE part
        *3 $10 ssubscribe $4 part :1
        > UNSUBSCRIBE
        *3 $11 unsubscribe $4 news :0
        > GET k
        -ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are
        allowed in this context
        > RESET
        +RESET
        > GET k
        $-1
        > PUBSUB SHARDCHANNELS
        *0
        "#,
    );
}

#[test]
fn channels_can_be_listed_and_their_subscribers_counted() {
    script(
        r#"
        > HELLO 3
        %7 $6 server $5 redis $7 version $5 7.4.0 $5 proto :3 $2 id :7 $4 mode $10 standalone $4
        role $6 master $7 modules *0
        > SUBSCRIBE b a bb
        >3 $9 subscribe $1 b :1 >3 $9 subscribe $1 a :2 >3 $9 subscribe $2 bb :3
        > PSUBSCRIBE *
        >3 $10 psubscribe $1 * :4
        > SSUBSCRIBE s
        >3 $10 ssubscribe $1 s :1
        > PUBSUB CHANNELS
        *3 $1 a $1 b $2 bb
        > PUBSUB CHANNELS b*
        *2 $1 b $2 bb
        > PUBSUB CHANNELS a b
        -ERR wrong number of arguments for 'pubsub|channels' command
        > PUBSUB NUMSUB a none
        *4 $1 a :1 $4 none :0
        > PUBSUB NUMSUB
        *0
        > PUBSUB NUMPAT
        :1
        > PUBSUB SHARDCHANNELS
        *1 $1 s
        > PUBSUB SHARDNUMSUB s a
        *4 $1 s :1 $1 a :0
        > PUBSUB NONSENSE
        -ERR unknown subcommand 'NONSENSE'. Try PUBSUB HELP.
        "#,
    );
}

#[test]
fn messages_are_published_once_even_in_exec() {
    let (mut host, mut session) = (host(), RespSession::default());
    host.part.refusals = 3;
    for (request, replies) in [
        ("PUBLISH a first", ":0"),
        ("MULTI", "+OK"),
        ("PUBLISH a second", "+QUEUED"),
        ("SET k v", "+QUEUED"),
        ("SPUBLISH a third", "+QUEUED"),
        ("EXEC", "*3 :0 +OK :0"),
        ("PUBLISH a", "-ERR wrong number of arguments for 'publish' command"),
    ] {
        assert_eq!(ask(&mut session, &mut host, request), replies, "{request}");
    }
    let published: Vec<_> =
        host.part.published.iter().map(|(topic, _, text)| (*topic, text.as_slice())).collect();
    let expected: [(Topic, &[u8]); 3] =
        [(Topic::Channel, b"first"), (Topic::Channel, b"second"), (Topic::Shard, b"third")];
    assert_eq!(published, expected);
}

#[test]
fn a_subscription_waits_until_all_nodes_know_of_it() {
    let (mut host, mut session) = (host(), RespSession::default());
    host.part.announcing.set(2);
    let (input, mut out) = (b"SUBSCRIBE news\r\n", Vec::new());
    for _ in 0..2 {
        let progress = session.advance(input, &mut out, &mut host, BUDGET);
        assert_eq!((progress.consumed, progress.next), (0, Next::Wait { ms: 1 }));
        assert!(out.is_empty() && host.part.subscribed[0].is_empty());
    }
    let progress = session.advance(input, &mut out, &mut host, BUDGET);
    assert_eq!(progress.consumed, input.len());
    assert_eq!(out, b"*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    // A transaction does not wait.
    assert_eq!(ask(&mut session, &mut host, "RESET"), "+RESET");
    host.part.announcing.set(1);
    for (request, replies) in
        [("MULTI", "+OK"), ("SUBSCRIBE news", "+QUEUED"), ("EXEC", "*1 *3 $9 subscribe $4 news :1")]
    {
        assert_eq!(ask(&mut session, &mut host, request), replies, "{request}");
    }
    assert_eq!(host.part.announcing.get(), 0);
}

#[test]
fn confirmations_are_sent_though_replies_are_off() {
    let (mut host, mut session) = (host(), RespSession::default());
    for (request, replies) in [
        ("CLIENT REPLY OFF", ""),
        ("SUBSCRIBE a", "*3 $9 subscribe $1 a :1"),
        ("PING", ""),
        ("UNSUBSCRIBE", "*3 $11 unsubscribe $1 a :0"),
    ] {
        assert_eq!(ask(&mut session, &mut host, request), replies, "{request}");
    }
}

#[test]
fn subscriptions_are_limited() {
    let (mut host, mut session) = (host(), RespSession::default());
    host.limits.subscriptions_max = 3;
    let long = "x".repeat(1_025);
    for (request, replies) in [
        ("SUBSCRIBE a b", "*3 $9 subscribe $1 a :1 *3 $9 subscribe $1 b :2"),
        ("PSUBSCRIBE a b", "-ERR a client has at most 3 subscriptions"),
        (&format!("PSUBSCRIBE {long}"), "-ERR pattern is longer than 1024 bytes"),
        ("PSUBSCRIBE a", "*3 $10 psubscribe $1 a :3"),
    ] {
        assert_eq!(ask(&mut session, &mut host, request), replies, "{request}");
    }
    assert_eq!(host.part.subscribed[Topic::Channel as usize].len(), 2);
}

#[test]
fn many_names_are_subscribed_in_slices() {
    let (mut host, mut session) = (host(), RespSession::default());
    let names: Vec<String> = (0..2_000).map(|number| format!("c{number:04}")).collect();
    let shown = ask(&mut session, &mut host, &format!("SUBSCRIBE {}", names.join(" ")));
    assert!(shown.ends_with("*3 $9 subscribe $5 c1999 :2000"));
    assert_eq!(shown.matches("subscribe").count(), 2_000);
    let shown = ask(&mut session, &mut host, "UNSUBSCRIBE");
    assert!(shown.ends_with("*3 $11 unsubscribe $5 c1999 :0"));
    assert_eq!(shown.matches("unsubscribe").count(), 2_000);
    assert_eq!(ask(&mut session, &mut host, "GET k"), "$-1");
}
