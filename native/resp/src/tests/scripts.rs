//! EVAL and SCRIPT. The snippets are those of clients' libraries.

use super::*;
use std::sync::Arc;
use todana_command::{Databases, ScriptCommand};
use todana_protocol::testing::with_durable_hosts;
use todana_protocol::{Budget, Next, Progress};
use todana_script::name_of;
use todana_table::{Options, Table};

/// Plays a script of requests and replies once, line by line.
fn lines(text: &str) {
    let (mut host, mut session) = (host(), RespSession::default());
    let mut request = "";
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.strip_prefix("> ") {
            Some(line) => request = line,
            None => assert_eq!(ask(&mut session, &mut host, request), line, "{request}"),
        }
    }
}

fn hex(source: &str) -> String {
    String::from_utf8(name_of(source.as_bytes()).to_vec()).expect("hexadecimal digits")
}

#[rustfmt::skip]
#[test]
fn scripts_read_and_write_their_keys() {
    lines(
        r#"
        > EVAL "return redis.call('SET', KEYS[1], ARGV[1])" 1 k v
        +OK
        > EVAL "return redis.call('get', KEYS[1])" 1 k
        $1 v
        > EVAL "return {KEYS[1], KEYS[2], ARGV[1], #ARGV}" 2 a b c
        *4 $1 a $1 b $1 c :1
        > EVAL "return redis.call('INCRBY', KEYS[1], 5) + redis.call('INCR', KEYS[1])" 1 n
        :11
        > EVAL "return redis.call('MGET', KEYS[1], KEYS[2], KEYS[3])" 3 k absent n
        *3 $1 v $-1 $1 6
        > EVAL "redis.call('MSET', KEYS[1], 1, KEYS[2], 2) return redis.call('DEL', KEYS[1], KEYS[2])" 2 x y
        :2
        > EVAL "return {redis.call('EXPIRE', KEYS[1], 100), redis.call('TTL', KEYS[1]), redis.call('TYPE', KEYS[1])}" 1 k
        *3 :1 :100 +string
        > EVAL "return {redis.call('SET', KEYS[1], 'w', 'NX'), redis.call('SET', KEYS[1], 'w', 'XX', 'GET', 'EX', 10)}" 1 k
        *2 $-1 $1 v
        > EVAL "return redis.call('STRLEN', KEYS[1]) .. redis.call('APPEND', KEYS[1], 'xyz') .. redis.call('GETRANGE', KEYS[1], 1, 2)" 1 k
        $4 14xy
        > EVAL "return redis.call('SETBIT', KEYS[1], 7, 1) + redis.call('BITCOUNT', KEYS[1]) * 10" 1 bits
        :10
        > EVAL "return {redis.call('PING'), redis.call('ECHO', 'hi'), #redis.call('TIME')}" 0
        *3 +PONG $2 hi :2
        > EVAL "return redis.call('COPY', KEYS[1], KEYS[2]) + redis.call('EXISTS', KEYS[1], KEYS[2])" 2 k k2
        :3
        > EVAL "return redis.call('RENAME', KEYS[1], KEYS[2])" 2 k2 k3
        +OK
        > EVAL "return redis.call('GETDEL', KEYS[1])" 1 k3
        $4 wxyz
        > EVAL "return redis.call('OBJECT', 'ENCODING', KEYS[1])" 1 n
        $3 int
        > EVAL "return 1" 0 ""
        :1
        "#,
    );
}

#[rustfmt::skip]
#[test]
fn wrong_scripts_have_the_errors_of_redis() {
    let of =
        |text: &str, source: &str| format!("{text} script: {}, on @user_script:1.", hex(source));
    let not_allowed = |name: &str| {
        format!(
            "-ERR This Redis command is not allowed from script: {name} concerns other things than \
             the keys of the script."
        )
    };
    let unknown = of(
        "-ERR Unknown Redis command called from script: there is no command 'nope'.",
        "return redis.call('nope')",
    );
    let hash = of(
        "-ERR 'HSET': hashes are not supported.",
        "return redis.call('HSET', KEYS[1], 'f', 1)",
    );
    let arity = of(
        "-ERR Wrong number of args calling Redis command from script: GET does not take 1 words.",
        "return redis.call('get')",
    );
    let denied =
        of(&not_allowed("MULTI"), "return redis.call('MULTI')");
    let whole =
        of(&not_allowed("FLUSHALL"), "return redis.call('FLUSHALL')");
    let remote = of(
        "-ERR Script attempted to access a non local key: GET names a key that is not among KEYS.",
        "return redis.call('GET', 'other')",
    );
    let integer = of(
        "-ERR value is not an integer or out of range",
        "redis.call('SET', KEYS[1], 'x') return redis.call('INCR', KEYS[1])",
    );
    let read_only = of(
        "-ERR Write commands are not allowed from read-only scripts: SET may change records.",
        "return redis.call('SET', KEYS[1], 1)",
    );
    let keys = of(&not_allowed("KEYS"), "return redis.call('KEYS', '*')");
    let usage = of(
        "-ERR This Redis command is not allowed from script: MEMORY USAGE may differ between the \
         nodes of a cluster.",
        "return redis.call('MEMORY', 'USAGE', KEYS[1])",
    );
    let subcommand = of(
        "-ERR Unknown Redis command called from script: OBJECT has no subcommand 'nope'.",
        "return redis.call('OBJECT', 'nope')",
    );
    lines(&format!(
        r#"
        > EVAL "return 1"
        -ERR wrong number of arguments for 'eval' command
        > EVAL "return 1" x
        -ERR value is not an integer or out of range
        > EVAL "return 1" 2 a
        -ERR Number of keys can't be greater than number of args
        > EVAL "return 1" -1
        -ERR Number of keys can't be negative
        > EVALSHA 0123456789012345678901234567890123456789 0
        -NOSCRIPT No matching script. Please use EVAL.
        > EVALSHA x 0
        -NOSCRIPT No matching script. Please use EVAL.
        > EVAL "return redis.call('nope')" 0
        {unknown}
        > EVAL "return redis.call('HSET', KEYS[1], 'f', 1)" 1 k
        {hash}
        > EVAL "return redis.call('get')" 0
        {arity}
        > EVAL "return redis.call('MULTI')" 0
        {denied}
        > EVAL "return redis.call('FLUSHALL')" 0
        {whole}
        > EVAL "return redis.call('GET', 'other')" 1 k
        {remote}
        > EVAL "return redis.call('EVAL', 'return 1', 0)" 0
        {}
        > EVAL "redis.call('SET', KEYS[1], 'x') return redis.call('INCR', KEYS[1])" 1 k
        {integer}
        > GET k
        $1 x
        > EVAL "return redis.pcall('INCR', KEYS[1])" 1 k
        -ERR value is not an integer or out of range
        > EVAL_RO "return redis.call('GET', KEYS[1])" 1 k
        $1 x
        > EVAL_RO "return redis.call('SET', KEYS[1], 1)" 1 k
        {read_only}
        > EVAL_RO "return redis.call('KEYS', '*')" 0
        {keys}
        > EVAL "return redis.call('MEMORY', 'USAGE', KEYS[1])" 1 k
        {usage}
        > EVAL "return redis.call('OBJECT', 'nope')" 0
        {subcommand}
        > EVAL '#!js' 0
        -ERR Invalid script shebang
        > FCALL f 0
        -ERR 'FCALL': functions are not supported by Todana {}
        "#,
        of(&not_allowed("EVAL"), "return redis.call('EVAL', 'return 1', 0)"),
        env!("CARGO_PKG_VERSION"),
    ));
}

#[test]
fn a_script_may_say_that_it_does_not_write() {
    let source = "#!lua flags=no-writes\nreturn redis.call('SET', KEYS[1], 1)";
    let mut host = host();
    let mut session = RespSession::default();
    let request = array("EVAL x 1 k");
    let request = String::from_utf8(request).expect("text");
    let request = request.replace("$1\r\nx", &format!("${}\r\n{source}", source.len()));
    let output = converse(&mut session, &mut host, [request.as_bytes()]).output;
    let text =
        "-ERR Write commands are not allowed from read-only scripts: SET may change records.";
    assert!(shown(&output).starts_with(text), "{}", shown(&output));
}

/// Runs a script by a command with this many keys.
fn run(session: &mut RespSession, host: &mut FakeHost, command: &str, source: &str) -> String {
    let head = format!("*3\r\n${}\r\n{command}\r\n", command.len());
    let request = format!("{head}${}\r\n{source}\r\n$1\r\n0\r\n", source.len());
    shown(&converse(session, host, [request.as_bytes()]).output)
}

#[test]
fn a_read_only_command_refuses_a_script_that_may_write() {
    let (mut host, mut session) = (host(), RespSession::default());
    let mut ask = |command: &str, source: &str| run(&mut session, &mut host, command, source);
    let refused = "-ERR Can not execute a script with write flag using *_ro command.";
    assert_eq!(ask("EVAL", "#!lua\nreturn 1"), ":1");
    assert_eq!(ask("EVAL_RO", "#!lua\nreturn 1"), refused);
    assert_eq!(ask("EVAL_RO", "#!lua flags=allow-oom\nreturn 1"), refused);
    assert_eq!(ask("EVALSHA_RO", &hex("#!lua\nreturn 1")), refused);
    assert_eq!(ask("EVAL_RO", "#!lua flags=no-writes\nreturn 1"), ":1");
    assert_eq!(ask("EVAL_RO", "return 1"), ":1");
    // Errors of the source come first.
    let wrong = ask("EVAL_RO", "#!lua\nx x");
    assert!(wrong.starts_with("-ERR Error compiling script (new function): "), "{wrong}");
    assert_eq!(ask("EVAL_RO", "#!lua"), "-ERR Invalid script shebang");
    let engine = ask("EVAL_RO", "#!js\nreturn 1");
    assert_eq!(engine, "-ERR Unexpected engine in script shebang: #!js");
}

#[test]
fn a_script_with_flags_needs_room_unless_it_says_otherwise() {
    // The smallest entry does not fit into a byte.
    let full = |is_full| super::transactions::host_with_room(if is_full { 1 } else { 1 << 20 });
    for (source, reply) in [
        ("#!lua\nreturn 1", "-OOM command not allowed when used memory > 'maxmemory'."),
        ("#!lua flags=allow-oom\nreturn 1", ":1"),
        ("#!lua flags=no-writes\nreturn 1", ":1"),
        ("return 1", ":1"),
    ] {
        let (mut host, mut session) = (full(true), RespSession::default());
        assert_eq!(run(&mut session, &mut host, "EVAL", source), reply, "{source}");
        ask(&mut session, &mut host, "MULTI");
        let queued = if reply == ":1" { "+QUEUED" } else { reply };
        assert_eq!(run(&mut session, &mut host, "EVAL", source), queued, "{source}");
        let (mut host, mut session) = (full(false), RespSession::default());
        assert_eq!(run(&mut session, &mut host, "EVAL", source), ":1", "{source}");
    }
}

/// Database 0 is in memory and full, and the others are durable.
#[test]
fn a_script_behind_a_commit_is_answered_once() {
    let start = || {
        let full = super::transactions::host_with_room(1);
        let tables = std::array::from_fn(|number| match number {
            0 => full.databases.table(0).clone(),
            _ => Arc::new(Table::new(Options { durable: true, ..Options::default() })),
        });
        FakeHost::on(Arc::new(Databases::new(tables)), ProtocolName::Resp)
    };
    let full = "-OOM command not allowed when used memory > 'maxmemory'.";
    let eval =
        |source: &str| format!("*3\r\n$4\r\nEVAL\r\n${}\r\n{source}\r\n$1\r\n0\r\n", source.len());
    for (before, reply) in [("FLUSHALL", "+OK"), ("SWAPDB 1 2", "+OK")] {
        for (source, second) in [("#!lua\nreturn 1", full), ("return 1", ":1")] {
            let input = [array(before), eval(source).into(), array("PING")].concat();
            let play = || (RespSession::default(), start());
            let outcome = converse_in_every_way(play, &input, |it| it);
            assert_eq!(shown(&outcome.output), format!("{reply} {second} +PONG"), "{before}");
        }
    }
}

#[test]
fn a_verbatim_string_keeps_its_format() {
    let source = "return {verbatim_string = {format = 'mkd', string = 'a b'}}";
    let (mut two, mut session) = (host(), RespSession::default());
    assert_eq!(run(&mut session, &mut two, "EVAL", source), "$3 a b");
    let (mut three, mut session) = (host(), RespSession::default());
    ask(&mut session, &mut three, "HELLO 3");
    let mut eval = |source: &str| run(&mut session, &mut three, "EVAL", source);
    assert_eq!(eval(source), "=7 mkd:a b");
    assert_eq!(eval("return {verbatim_string = {format = 'markdown', string = ''}}"), "=4 mar:");
    assert_eq!(eval("return {verbatim_string = {format = 't', string = 'x'}}"), "=5 t  :x");
    assert_eq!(eval("return {verbatim_string = {string = 'x'}}"), "*0");
}

#[test]
fn scripts_are_known_by_name() {
    let name = hex("return 5");
    script(&format!(
        r#"
        > SCRIPT LOAD "return 5"
        $40 {name}
        > SCRIPT EXISTS {name} 0123456789012345678901234567890123456789 x
        *3 :1 :0 :0
        > EVALSHA {name} 0
        :5
        > EVALSHA {} 0
        :5
        > EVALSHA_RO {name} 0
        :5
        > SCRIPT LOAD "return ("
        -ERR Error compiling script (new function): user_script:1: unexpected symbol near '<eof>'
        > SCRIPT FLUSH LATER
        -ERR SCRIPT FLUSH only support SYNC|ASYNC option
        > SCRIPT FLUSH SYNC
        +OK
        > SCRIPT EXISTS {name}
        *1 :0
        > EVALSHA {name} 0
        -NOSCRIPT No matching script. Please use EVAL.
        > EVAL "return 5" 0
        :5
        > EVALSHA {name} 0
        :5
        > SCRIPT KILL
        -NOTBUSY No scripts in execution right now.
        > SCRIPT
        -ERR wrong number of arguments for 'script' command
        > SCRIPT NOPE
        -ERR unknown subcommand 'NOPE'. Try SCRIPT HELP.
        "#,
        name.to_ascii_uppercase()
    ));
}

#[test]
fn there_are_no_functions() {
    lines(
        r#"
        > FUNCTION LIST
        *0
        > FUNCTION LIST withcode LIBRARYNAME a*
        *0
        > FUNCTION LIST WITHCODE WITHCODE
        -ERR Unknown argument WITHCODE
        > FUNCTION LIST LIBRARYNAME
        -ERR library name argument was not given
        > FUNCTION FLUSH
        +OK
        > FUNCTION FLUSH async
        +OK
        > FUNCTION FLUSH LATER
        -ERR FUNCTION FLUSH only supports SYNC|ASYNC option
        > FUNCTION FLUSH SYNC SYNC
        -ERR unknown subcommand or wrong number of arguments for 'FLUSH'. Try FUNCTION HELP.
        > FUNCTION DELETE x
        -ERR Library not found
        > FUNCTION KILL
        -NOTBUSY No scripts in execution right now.
        > FUNCTION STATS
        *4 $14 running_script $-1 $7 engines *2 $3 LUA *4 $15 libraries_count :0 $15 functions_count :0
        > FUNCTION NONESUCH
        -ERR unknown subcommand 'NONESUCH'. Try FUNCTION HELP.
        "#,
    );
    let (mut host, mut session) = (host(), RespSession::default());
    let load = ask(&mut session, &mut host, "FUNCTION LOAD x");
    let wanted = "-ERR 'function|LOAD': functions are not supported by Todana ";
    assert!(load.starts_with(wanted), "{load}");
}

#[test]
fn a_transaction_may_have_scripts() {
    let name = hex("return redis.call('INCR', KEYS[1])");
    script(&format!(
        r#"
        > MULTI
        +OK
        > SET k 1
        +QUEUED
        > EVAL "return redis.call('INCR', KEYS[1])" 1 k
        +QUEUED
        > EVALSHA 0123456789012345678901234567890123456789 0
        +QUEUED
        > EVAL "return 'no keys'" 0
        +QUEUED
        > GET k
        +QUEUED
        > EXEC
        *5 +OK :2 -NOSCRIPT No matching script. Please use EVAL. $7 no keys $1 2
        > MULTI
        +OK
        > EVALSHA {name} 1 k
        +QUEUED
        > EVALSHA {name} 1 k
        +QUEUED
        > EXEC
        *2 :3 :4
        > WATCH k
        +OK
        > EVAL "return redis.call('INCR', KEYS[1])" 1 k
        :5
        > MULTI
        +OK
        > EVALSHA {name} 1 k
        +QUEUED
        > EXEC
        *-1
        "#
    ));
}

#[test]
fn replies_have_the_version_of_the_client() {
    script(
        r#"
        > EVAL "return {double = 1.5}" 0
        $3 1.5
        > EVAL "return {map = {a = 1}}" 0
        *2 $1 a :1
        > EVAL "redis.setresp(3) return {true, false, {set = {x = true}}}" 0
        *3 :1 :0 *1 $1 x
        > EVAL "return {false, true}" 0
        *2 $-1 :1
        > EVAL "return {err = 'A\\r\\nB'}" 0
        -A  B
        > EVAL "return {ok = 'A\\r\\nB'}" 0
        +A  B
        "#,
    );
    let (mut host, mut session) = (host(), RespSession::default());
    ask(&mut session, &mut host, "HELLO 3");
    let ask = |line: &str, host: &mut FakeHost, session: &mut RespSession| ask(session, host, line);
    for (line, reply) in [
        (r#"EVAL "return {double = 1.5}" 0"#, ",1.5"),
        (r#"EVAL "return {map = {a = 1}}" 0"#, "%1 $1 a :1"),
        (r#"EVAL "return {big_number = '123'}" 0"#, "(123"),
        (
            r#"EVAL "redis.setresp(3) return {true, false, {set = {x = true}}}" 0"#,
            "*3 #t #f ~1 $1 x",
        ),
        (r#"EVAL "return {false, true}" 0"#, "*2 _ :1"),
        (r#"EVAL "return redis.call('GET', KEYS[1])" 1 absent"#, "_"),
    ] {
        assert_eq!(ask(line, &mut host, &mut session), reply, "{line}");
    }
}

#[test]
fn a_script_that_is_stopped_changes_nothing() {
    let (mut host, mut session) = (host(), RespSession::default());
    let mut ask = |line: &str| ask(&mut session, &mut host, line);
    let large = "v".repeat(20_000);
    ask(&format!("MSET a 1 large {large}"));
    ask("EXPIRE a 100");
    let stopped = "-ERR The script was stopped, and has changed nothing:";
    for source in [
        "for i = 1, 4 do redis.call('SET', KEYS[i], 'x') end redis.call('DEL', KEYS[1]) \
         redis.call('APPEND', KEYS[2], 'y') while true do end",
        "redis.call('SET', KEYS[1], 2) local t = {} \
         while true do t[#t + 1] = ('x'):rep(100000) .. #t end",
        "redis.call('SET', KEYS[3], 2) while true do pcall(redis.call, 'BITCOUNT', KEYS[2]) end",
    ] {
        let reply = ask(&format!("EVAL \"{source}\" 4 a large b c"));
        assert!(reply.starts_with(stopped), "{reply}");
        assert_eq!(ask("MGET a b c"), "*3 $1 1 $-1 $-1");
        assert_eq!(ask("TTL a"), ":100");
        assert_eq!(ask("GET large"), format!("$20000 {large}"));
    }
}

#[test]
fn a_large_argument_is_within_the_limits() {
    let mut host = FakeHost { limits: todana_protocol::Limits::default(), ..host() };
    let mut session = RespSession::default();
    let source = "return redis.call('SET', KEYS[1], ARGV[1])";
    let value = "v".repeat(7 << 20);
    let head = format!("*5\r\n$4\r\nEVAL\r\n${}\r\n{source}\r\n", source.len());
    let request = format!("{head}$1\r\n1\r\n$1\r\nk\r\n${}\r\n{value}\r\n", value.len());
    // The second one replaces a value of this size.
    for _ in 0..2 {
        let output = converse(&mut session, &mut host, [request.as_bytes()]).output;
        assert_eq!(shown(&output), "+OK");
    }
    assert_eq!(ask(&mut session, &mut host, "STRLEN k"), format!(":{}", value.len()));
}

/// A command takes steps by the lengths of the values that it reads or stores.
#[test]
fn a_script_takes_steps_for_values() {
    let (mut host, mut session) = (host(), RespSession::default());
    for request in ["SETRANGE short 99 x", "SETRANGE long 999999 x"] {
        ask(&mut session, &mut host, request);
    }
    for call in [
        "'BITCOUNT', KEYS[1]",
        "'BITOP', 'or', KEYS[2], KEYS[1]",
        "'DUMP', KEYS[1]",
        "'GET', KEYS[1]",
    ] {
        let mut run = |key: &str| {
            let source = format!("for i = 1, 100 do redis.call({call}) end return 1");
            ask(&mut session, &mut host, &format!("EVAL \"{source}\" 2 {key} to"))
        };
        assert_eq!(run("short"), ":1", "{call}");
        let reply = run("long");
        assert!(reply.ends_with("(script_steps_max)."), "{call}: {reply}");
    }
}

/// The scripts of a transaction together may take what one may.
#[test]
fn scripts_of_a_transaction_share_their_steps() {
    let (mut host, mut session) = (host(), RespSession::default());
    ask(&mut session, &mut host, "MULTI");
    for _ in 0..20 {
        let reply = ask(&mut session, &mut host, r#"EVAL "for i = 1, 300000 do end return 1" 0"#);
        assert_eq!(reply, "+QUEUED");
    }
    let reply = ask(&mut session, &mut host, "EXEC");
    assert!(reply.starts_with("*20 :1 :1"), "{reply}");
    assert!(reply.ends_with("(script_steps_max)."), "{reply}");
}

#[test]
fn a_transaction_of_too_many_scripts_is_refused() {
    let refused = "-EXECABORT Transaction discarded because of: \
                   the commands are too much work for one step";
    for (count, is_admitted) in [(160, true), (170, false)] {
        let (mut host, mut session) = (host(), RespSession::default());
        ask(&mut session, &mut host, "MULTI");
        let eval = array(r#"EVAL "return 1" 0"#).repeat(count);
        converse(&mut session, &mut host, [eval.as_slice()]);
        let reply = ask(&mut session, &mut host, "EXEC");
        assert_eq!(reply.starts_with(&format!("*{count} :1")), is_admitted, "{count}: {reply}");
        assert_eq!(reply == refused, !is_admitted, "{count}: {reply}");
    }
}

#[test]
fn a_script_asks_before_it_begins_and_says_whether_it_probably_takes_long() {
    let mut host = FakeHost { refuses_work: true, ..host() };
    let mut session = RespSession::default();
    let budget = Budget { requests_max: 128, output_bytes_max: 1 << 16 };
    let script = r#"EVAL "for i = 1, ARGV[1] do redis.call('INCR', KEYS[1]) end" 1 k"#;
    let input = [array("SET k 5"), array(&format!("{script} 1")), array("GET k")].concat();
    let mut output = Vec::new();
    let Progress { consumed, next } = session.advance(&input, &mut output, &mut host, budget);
    assert_eq!((shown(&output).as_str(), next), ("+OK", Next::Pause));
    let rest = &input[consumed..];
    assert_eq!(rest, &input[array("SET k 5").len()..]);
    output.clear();
    assert_eq!(session.advance(rest, &mut output, &mut host, budget).consumed, rest.len());
    assert_eq!(shown(&output), "$-1 $1 6");
    // The first time nobody knows what it takes.
    assert_eq!(std::mem::take(&mut host.work), [(true, false), (true, true)]);
    host.refuses_work = false;
    for (count, was_long) in [(1, false), (1_000, false), (1, true), (1, true)] {
        ask(&mut session, &mut host, &format!("{script} {count}"));
        assert_eq!(std::mem::take(&mut host.work), [(was_long, true)], "{count}");
    }
}

#[test]
fn the_words_of_a_script_count_for_its_turn() {
    let (mut host, mut session) = (host(), RespSession::default());
    let ask = |session: &mut _, host: &mut FakeHost, keys: usize, arguments: usize| {
        let words = "w ".repeat(keys + arguments);
        ask(session, host, &format!(r#"EVAL "return 1" {keys} {words}"#));
        std::mem::take(&mut host.work)
    };
    ask(&mut session, &mut host, 0, 0);
    // 1,024 units take long: a script has 400, a word one, and so have some steps.
    for (keys, arguments, is_long) in
        [(0, 0, false), (300, 300, false), (500, 0, false), (700, 0, true), (0, 700, true)]
    {
        let work = ask(&mut session, &mut host, keys, arguments);
        assert_eq!(work, [(is_long, true)], "{keys} and {arguments}");
    }
}

#[test]
fn a_transaction_asks_before_it_begins_and_says_whether_it_probably_takes_long() {
    let long = format!("EXISTS {}", "k ".repeat(2_000));
    for (command, is_long) in [("SET k 5", false), (long.trim(), true)] {
        let mut host = FakeHost { refuses_work: true, ..host() };
        let mut session = RespSession::default();
        let reply = ["WATCH w", "MULTI", command].map(|it| ask(&mut session, &mut host, it));
        assert_eq!(reply, ["+OK", "+OK", "+QUEUED"]);
        assert!(host.work.is_empty());
        let budget = Budget { requests_max: 128, output_bytes_max: 1 << 16 };
        let (mut output, exec) = (Vec::new(), array("EXEC"));
        let progress = session.advance(&exec, &mut output, &mut host, budget);
        assert_eq!(progress, Progress { consumed: 0, next: Next::Pause });
        assert!(output.is_empty());
        // A key that changes meanwhile is noticed.
        ask(
            &mut RespSession::default(),
            &mut FakeHost::on(host.databases.clone(), ProtocolName::Resp),
            "SET w 1",
        );
        session.advance(&exec, &mut output, &mut host, budget);
        assert_eq!(shown(&output), "*-1");
        assert_eq!(host.work, [(is_long, false), (is_long, true)], "{command}");
    }
}

#[test]
fn what_goes_through_the_log_asks_for_no_turn() {
    with_durable_hosts(|| {
        let (mut host, mut session) = (host(), RespSession::default());
        let script = r#""return redis.call('EXISTS', KEYS[1])" 1 k"#;
        assert_eq!(ask(&mut session, &mut host, &format!("EVAL {script}")), ":0");
        assert_eq!(host.work, []);
        assert_eq!(ask(&mut session, &mut host, &format!("EVAL_RO {script}")), ":0");
        assert_eq!(host.work.len(), 1);
    });
}

#[test]
fn commands_describe_their_keys() {
    script(
        r#"
        > COMMAND GETKEYS EVAL "return 1" 2 a b c
        *2 $1 a $1 b
        > COMMAND GETKEYS EVALSHA x 0 a
        *0
        "#,
    );
}

/// redis-py's Lock: release, extend and reacquire.
#[test]
fn locks_of_redis_py() {
    let release = "local token = redis.call('get', KEYS[1]) \
        if not token or token ~= ARGV[1] then return 0 end \
        redis.call('del', KEYS[1]) return 1";
    let extend = "local token = redis.call('get', KEYS[1]) \
        if not token or token ~= ARGV[1] then return 0 end \
        local expiration = redis.call('pttl', KEYS[1]) \
        if not expiration then expiration = 0 end \
        if expiration < 0 then return 0 end \
        local newttl = ARGV[2] \
        if ARGV[3] == '0' then newttl = ARGV[2] + expiration end \
        redis.call('pexpire', KEYS[1], newttl) return 1";
    lines(&format!(
        r#"
        > SET lock token NX PX 10000
        +OK
        > EVAL "{extend}" 1 lock other 5000 0
        :0
        > EVAL "{extend}" 1 lock token 5000 0
        :1
        > PTTL lock
        :15000
        > EVAL "{extend}" 1 lock token 5000 1
        :1
        > PTTL lock
        :5000
        > EVAL "{release}" 1 lock other
        :0
        > EVAL "{release}" 1 lock token
        :1
        > EVAL "{release}" 1 lock token
        :0
        "#
    ));
}

/// The algorithm of Redlock, and counters with a window.
#[rustfmt::skip]
#[test]
fn locks_and_limiters_of_other_clients() {
    let unlock = "if redis.call('get', KEYS[1]) == ARGV[1] then \
        return redis.call('del', KEYS[1]) else return 0 end";
    let acquire = "for i, key in ipairs(KEYS) do \
        if redis.call('exists', key) == 1 then return 0 end end \
        for i, key in ipairs(KEYS) do redis.call('set', key, ARGV[1], 'PX', ARGV[2]) end return #KEYS";
    let window = "local current = redis.call('INCR', KEYS[1]) \
        if tonumber(current) == 1 then redis.call('EXPIRE', KEYS[1], ARGV[1]) end \
        if current > tonumber(ARGV[2]) then return {0, redis.call('TTL', KEYS[1])} end \
        return {1, tonumber(ARGV[2]) - current}";
    let bucket = "local state = redis.call('GET', KEYS[1]) \
        local tokens, at = tonumber(ARGV[1]), tonumber(ARGV[3]) \
        if state then local s = cjson.decode(state) \
          tokens = math.min(tonumber(ARGV[1]), s.tokens + (at - s.at) * tonumber(ARGV[2])) end \
        local allowed = tokens >= 1 \
        if allowed then tokens = tokens - 1 end \
        redis.call('SET', KEYS[1], cjson.encode({tokens = tokens, at = at}), 'EX', 60) \
        return {allowed and 1 or 0, tostring(tokens)}";
    lines(&format!(
        r#"
        > EVAL "{acquire}" 2 r1 r2 id 1000
        :2
        > EVAL "{acquire}" 2 r2 r3 id2 1000
        :0
        > EVAL "{unlock}" 1 r1 other
        :0
        > EVAL "{unlock}" 1 r1 id
        :1
        > EVAL "{window}" 1 w 60 2
        *2 :1 :1
        > EVAL "{window}" 1 w 60 2
        *2 :1 :0
        > EVAL "{window}" 1 w 60 2
        *2 :0 :60
        > EVAL "{bucket}" 1 b 2 1 100
        *2 :1 $1 1
        > EVAL "{bucket}" 1 b 2 1 100
        *2 :1 $1 0
        > EVAL "{bucket}" 1 b 2 1 100
        *2 :0 $1 0
        > EVAL "{bucket}" 1 b 2 1 101.5
        *2 :1 $3 0.5
        "#
    ));
}

/// Scripts of all kinds, with addresses, hashes and limits in them, on replicas with another past.
#[rustfmt::skip]
#[test]
fn replicas_agree() {
    use todana_command::{Command, Context, Databases, NullReply, Script, execute};
    use todana_table::{Keyspace, Options};
    let sources = [
        "for i, key in ipairs(KEYS) do redis.call('SET', key, i .. ARGV[1], 'PX', 100 * i) end",
        "local t = {} for i = 1, 50 do t[{}] = i t['k' .. i] = i end
         local o = {} for _, v in pairs(t) do o[#o + 1] = v end
         redis.call('APPEND', KEYS[1], table.concat(o, ','))",
        "redis.call('SET', KEYS[2], math.random() .. tostring({}) .. redis.call('TIME')[1])",
        "redis.call('INCR', KEYS[3]) while true do end",
        "redis.call('SET', KEYS[1], 'x') local t = {} while true do t[#t + 1] = {} end",
        "redis.call('DEL', KEYS[3]) redis.call('INCRBYFLOAT', KEYS[3], ARGV[1] / 3)",
        "for i = 1, 1e9 do redis.call('SETBIT', KEYS[2], i, 1) end",
        "redis.call('SET', KEYS[1], cjson.encode({a = ARGV[1], b = {1, 2}, c = KEYS}))",
        "redis.call('SET', KEYS[2], cmsgpack.pack({x = ARGV[1], y = 2.5}), 'KEEPTTL')",
        "redis.call('INCR', KEYS[1]) error('fails')",
        "if redis.call('EXISTS', KEYS[3]) == 1 then redis.call('RENAME', KEYS[3], KEYS[2]) end",
        "for s = 1, 300 do if s * tonumber(ARGV[1]) % 7 == 3 then redis.call('APPEND', KEYS[3], s) end end",
    ];
    let play = |past: usize| {
        let _garbage: Vec<Vec<u8>> = (0..past).map(|len| vec![0; len]).collect();
        let shards = Some(16);
        let databases =
            Databases::with_options(&Options { seed: Some(7), shards, ..Options::default() });
        databases.set_interpreter(super::super::interpreter());
        for step in 0..120_u64 {
            let argument = (step * 37 % 101).to_string();
            let words: &[&[u8]] = &[b"a", b"b", b"c", argument.as_bytes()];
            let source = sources[(step * 7 % sources.len() as u64) as usize].as_bytes();
            let steps_max = 3_000 + step * step * 31 % 50_000;
            let (bytes_max, keys, reads) = (1 << 20, 3, false);
            let script = Script { source, words, keys, steps_max, bytes_max, reads };
            let context = Context { now_ms: 1_000_000 + step * 40, value_bytes_max: 100_000 };
            execute(&databases, 0, &Command::Script(ScriptCommand::Run(script)), context, &mut NullReply);
        }
        let mut records = Vec::new();
        databases.table(0).scan(0, usize::MAX, 1_000_000, |entry| {
            let key = (entry.key().to_vec(), entry.version());
            records.push((key, entry.stored().bytes().to_vec(), entry.expires_at_ms()));
        });
        records.sort();
        records
    };
    let first = play(0);
    assert!(first.len() >= 2, "{first:?}");
    for past in [100, 1_000] {
        let again = std::thread::scope(|scope| scope.spawn(|| play(past)).join());
        assert_eq!(first, again.expect("no panic"));
    }
}

#[test]
fn a_script_may_store_a_large_argument() {
    let sources = [
        "return redis.call('set', KEYS[1], ARGV[1])",
        // The present value is not copied.
        "return redis.call('SET', KEYS[1], ARGV[1], 'PX', 100000)",
        "redis.call('exists', KEYS[1]) redis.call('strlen', KEYS[1]) \
         return redis.call('set', KEYS[1], ARGV[1])",
    ];
    for bytes in [7_000_000, 7 << 20, 10 << 20] {
        let (mut host, mut session) = (host(), RespSession::default());
        let value = "v".repeat(bytes);
        for source in sources {
            let words = ["EVAL", source, "1", "k", &value];
            let word = |word: &str| format!("${}\r\n{word}\r\n", word.len());
            let request = format!("*5\r\n{}", words.map(word).concat());
            let outcome = converse(&mut session, &mut host, [request.as_bytes()]);
            assert_eq!(shown(&outcome.output), "+OK", "{bytes} bytes: {source}");
        }
    }
}
