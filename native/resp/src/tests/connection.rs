use super::*;

#[test]
fn ping_and_echo() {
    script(
        r#"
        > PING
        +PONG
        > ping hello
        $5 hello
        > PING a b
        -ERR wrong number of arguments for 'ping' command
        > ECHO "a b"
        $3 a b
        "#,
    );
}

#[test]
fn hello_reports_who_is_there_and_chooses_the_version() {
    script(
        r#"
        > HELLO
        *14 $6 server $5 redis $7 version $5 7.4.0 $5 proto :2 $2 id :7 $4 mode $10 standalone $4
        role $6 master $7 modules *0
        > HELLO 3 SETNAME me
        %7 $6 server $5 redis $7 version $5 7.4.0 $5 proto :3 $2 id :7 $4 mode $10 standalone $4
        role $6 master $7 modules *0
        > GET missing
        _
        > CLIENT GETNAME
        $2 me
        > HELLO 4
        -NOPROTO unsupported protocol version
        > HELLO x
        -ERR Protocol version is not an integer or out of range
        > HELLO 3 FOO
        -ERR Syntax error in HELLO option 'FOO'
        > RESET
        +RESET
        > GET missing
        $-1
        > CLIENT GETNAME
        $-1
        "#,
    );
}

#[test]
fn select_takes_sixteen_databases() {
    script(
        r#"
        > SET k zero
        +OK
        > SELECT 15
        +OK
        > GET k
        $-1
        > SELECT 16
        -ERR DB index is out of range
        > SELECT -1
        -ERR DB index is out of range
        > SELECT x
        -ERR value is not an integer or out of range
        > SELECT 0
        +OK
        > GET k
        $4 zero
        "#,
    );
}

fn with_password() -> FakeHost {
    FakeHost { password: Some(b"secret".to_vec()), ..host() }
}

#[test]
fn authentication_comes_first() {
    script_on(
        r#"
        > PING
        -NOAUTH Authentication required.
        > FOO
        -ERR unknown command 'FOO', with args beginning with:
        > CLUSTER INFO
        -NOAUTH Authentication required.
        > AUTH wrong
        -WRONGPASS invalid username-password pair or user is disabled.
        > AUTH other secret
        -WRONGPASS invalid username-password pair or user is disabled.
        > HELLO 3
        -NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO
        <proto> AUTH <user> <pass> option can be used to authenticate the client and select the
        RESP protocol version at the same time
        > AUTH secret
        +OK
        > PING
        +PONG
        > AUTH wrong
        -WRONGPASS invalid username-password pair or user is disabled.
        > PING
        +PONG
        > RESET
        +RESET
        > PING
        -NOAUTH Authentication required.
        > HELLO 2 AUTH default secret
        *14 $6 server $5 redis $7 version $5 7.4.0 $5 proto :2 $2 id :7 $4 mode $10 standalone $4
        role $6 master $7 modules *0
        > PING
        +PONG
        "#,
        with_password,
    );
    script(
        r#"
        > AUTH secret
        -ERR AUTH <password> called without any password configured for the default user. Are you
        sure your configuration is correct?
        > AUTH default secret
        +OK
        > AUTH a b c
        -ERR syntax error
        "#,
    );
}

#[test]
fn quit_answers_and_closes() {
    let outcome = raw(b"QUIT\r\nPING\r\n");
    assert_eq!((shown(&outcome.output).as_str(), outcome.closed), ("+OK", true));
}

#[test]
fn replies_can_be_switched_off_and_skipped() {
    script(
        r#"
        > CLIENT REPLY SKIP
        > PING
        > PING
        +PONG
        > CLIENT REPLY OFF
        > PING
        > FOO
        > CLIENT REPLY ON
        +OK
        > PING
        +PONG
        > CLIENT REPLY MAYBE
        -ERR syntax error
        "#,
    );
}

#[test]
fn clients_have_names() {
    script(
        r#"
        > CLIENT ID
        :7
        > CLIENT GETNAME
        $-1
        > CLIENT SETNAME me
        +OK
        > CLIENT GETNAME
        $2 me
        > CLIENT SETNAME "a b"
        -ERR Client names cannot contain spaces, newlines or special characters.
        > CLIENT SETINFO lib-name redis-py
        +OK
        > CLIENT SETINFO LIB-VER 5.0
        +OK
        > CLIENT SETINFO lib-ver "5 0"
        -ERR lib-ver cannot contain spaces, newlines or special characters.
        > CLIENT SETINFO foo bar
        -ERR Unrecognized option 'foo'
        > CLIENT FOO
        -ERR unknown subcommand 'FOO'. Try CLIENT HELP.
        > CLIENT
        -ERR wrong number of arguments for 'client' command
        > CLIENT ID x
        -ERR wrong number of arguments for 'client|id' command
        > CLIENT NO-EVICT on
        +OK
        > CLIENT NO-TOUCH off
        +OK
        > CLIENT NO-TOUCH x
        -ERR syntax error
        "#,
    );
}

fn with_others() -> FakeHost {
    let other = |id| todana_protocol::testing::client(id, ProtocolName::Resp);
    FakeHost { others: vec![other(8), other(9)], ..host() }
}

#[test]
fn clients_are_listed_with_all_fields() {
    let (mut host, mut session) = (with_others(), RespSession::default());
    ask(&mut session, &mut host, "CLIENT SETNAME me");
    let list = ask(&mut session, &mut host, "CLIENT LIST");
    let mine = "id=7 addr=127.0.0.1:50007 laddr=127.0.0.1:6379 fd=8 name=me age=0 idle=0 flags=N \
                db=0 sub=0 psub=0";
    assert!(list.contains(mine));
    assert!(list.contains("cmd=client|list user=default redir=-1 resp=2 lib-name= lib-ver=\\n"));
    assert_eq!(list.matches("id=").count(), 3);
    let some = ask(&mut session, &mut host, "CLIENT LIST ID 8 9 10");
    assert_eq!(some.matches("id=").count(), 2);
    assert_eq!(ask(&mut session, &mut host, "CLIENT LIST TYPE pubsub"), "$0");
    assert_eq!(ask(&mut session, &mut host, "CLIENT LIST TYPE x"), "-ERR Unknown client type 'x'");
    assert_eq!(ask(&mut session, &mut host, "CLIENT LIST ID x"), "-ERR Invalid client ID");
    ask(&mut session, &mut host, "HELLO 3");
    assert!(ask(&mut session, &mut host, "CLIENT INFO").starts_with('='));
}

#[test]
fn clients_are_killed_by_filter() {
    script_on(
        r#"
        > CLIENT KILL 127.0.0.1:50008
        +OK
        > CLIENT KILL 127.0.0.1:1
        -ERR No such client
        > CLIENT KILL ID 9
        :1
        > CLIENT KILL ID 0
        -ERR client-id should be greater than 0
        > CLIENT KILL TYPE pubsub
        :0
        > CLIENT KILL TYPE x
        -ERR Unknown client type 'x'
        > CLIENT KILL USER x
        -ERR No such user 'x'
        > CLIENT KILL LADDR 127.0.0.1:6379
        :2
        > CLIENT KILL MAXAGE 1
        :0
        > CLIENT KILL ID 7
        :0
        > CLIENT KILL ID
        -ERR No such client
        > CLIENT KILL ID 1 ADDR
        -ERR syntax error
        > CLIENT KILL ID 7 SKIPME no
        :1
        "#,
        with_others,
    );
}

#[test]
fn killing_oneself_answers_first() {
    let outcome = raw(b"CLIENT KILL ID 7 SKIPME no\r\nPING\r\n");
    assert_eq!((shown(&outcome.output).as_str(), outcome.closed), (":1", true));
}

#[test]
fn containers_explain_themselves() {
    let (mut host, mut session) = (host(), RespSession::default());
    for container in
        ["CLIENT", "CONFIG", "OBJECT", "COMMAND", "MEMORY", "SLOWLOG", "LATENCY", "DEBUG"]
    {
        let help = ask(&mut session, &mut host, &format!("{container} HELP"));
        assert!(help.starts_with('*'), "{container}: {help}");
        assert!(help.contains("+HELP +    Lists the subcommands."), "{container}: {help}");
    }
}
