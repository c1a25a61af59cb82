//! The server as clients and monitors see it.

use super::*;
use crate::spec::CONTAINER;
use crate::table::NAMES;
use std::sync::Mutex;
use todana_protocol::{CommandStats, ServerInfo};

#[test]
#[ignore = "a measurement: cargo test --release -p todana_resp -- --ignored --nocapture"]
fn timing_a_list_of_ten_thousand_clients() {
    let (mut session, mut host) = (RespSession::default(), host());
    host.others =
        (8..10_008).map(|id| todana_protocol::testing::client(id, ProtocolName::Resp)).collect();
    for line in ["CLIENT LIST", "CLIENT KILL ADDR 1.2.3.4:5 MAXAGE 1", "INFO clients"] {
        let request = array(line);
        let begun = std::time::Instant::now();
        let outcome = converse(&mut session, &mut host, [request.as_slice()]);
        eprintln!("{line}: {} bytes in {:?}", outcome.output.len(), begun.elapsed());
    }
}

#[test]
fn a_list_of_all_commands_has_the_subcommands() {
    let (mut session, mut host) = (RespSession::default(), host());
    let list = ask(&mut session, &mut host, "COMMAND LIST");
    for name in ["get", "config|get", "client|kill", "command|list"] {
        assert!(list.contains(&format!("${} {name} ", name.len())), "{name}");
    }
}

#[test]
fn a_type_of_redis_that_is_not_there_is_no_misspelt_word() {
    let mut session = RespSession::default();
    let mut said = |line: &str| ask(&mut session, &mut host(), line);
    let version = env!("CARGO_PKG_VERSION");
    for (line, words) in [
        ("HSET k f v", format!("'HSET': hashes are not supported by Todana {version}")),
        ("zadd k 1 a", format!("'zadd': sorted sets are not supported by Todana {version}")),
        ("HSETT k f v", "unknown command 'HSETT', with args beginning with: 'k' 'f' 'v'".into()),
    ] {
        assert_eq!(said(line).trim_end(), format!("-ERR {words}"));
    }
}

#[test]
fn command_describes_the_commands_of_the_table() {
    script(
        r#"
        > COMMAND INFO get nosuch
        *2 *10 $3 get :2 *2 +readonly +fast :1 :1 :1 *3 +@read +@string +@fast *0 *1 *6 $5 flags *2
        +RO +access $12 begin_search *4 $4 type $5 index $4 spec *2 $5 index :1 $9 find_keys *4 $4
        type $5 range $4 spec *6 $7 lastkey :0 $7 keystep :1 $5 limit :0 *0 $-1
        > COMMAND GETKEYS MSET a 1 b 2
        *2 $1 a $1 b
        > COMMAND GETKEYSANDFLAGS COPY a b
        *2 *2 $1 a *2 +RO +access *2 $1 b *2 +OW +update
        > COMMAND GETKEYS PING
        -ERR The command has no key arguments
        > COMMAND GETKEYS GET
        -ERR Invalid number of arguments specified for command
        > COMMAND GETKEYS NOSUCH k
        -ERR Invalid command specified
        > COMMAND LIST FILTERBY PATTERN expire*
        *3 $6 expire $8 expireat $10 expiretime
        > COMMAND LIST FILTERBY ACLCAT transaction
        *5 $5 multi $4 exec $7 discard $5 watch $7 unwatch
        > COMMAND LIST FILTERBY MODULE x
        *0
        > COMMAND LIST FILTERBY X y
        -ERR syntax error
        > COMMAND DOCS strlen nosuch
        *2 $6 strlen *10 $7 summary $39 Returns the length of a value in bytes. $5 since $5 2.2.0 $5
        group $6 string $10 complexity $4 O(1) $9 arguments *1 *8 $4 name $3 key $4 type $3 key $12
        display_text $3 key $14 key_spec_index :0
        > COMMAND FOO
        -ERR unknown subcommand 'FOO'. Try COMMAND HELP.
        "#,
    );
}

#[test]
fn command_counts_the_commands_of_the_table() {
    let (mut host, mut session) = (host(), RespSession::default());
    let commands = NAMES.iter().filter(|name| name.spec().container().is_none()).count();
    assert_eq!(ask(&mut session, &mut host, "COMMAND COUNT"), format!(":{commands}"));
}

/// The fewest and the most words that a command takes, one less and one more.
#[test]
fn a_wrong_number_of_arguments_is_an_error_with_the_name() {
    let (mut host, mut session) = (host(), RespSession::default());
    for name in NAMES {
        let spec = name.spec();
        let least = usize::from(spec.arity.unsigned_abs());
        let own: Vec<&str> = spec.name.split('|').collect();
        let counts = [least - 1, least + 1].map(|count| count as isize - own.len() as isize);
        for count in counts.into_iter().filter_map(|count| usize::try_from(count).ok()) {
            // DEBUG has one error for an unknown subcommand and for wrong arguments.
            let is_other = spec.is(CONTAINER) || spec.container() == Some("debug");
            if is_other || spec.takes(own.len() + count) {
                continue;
            }
            let line = [own.clone(), vec!["1"; count]].concat().join(" ");
            let answer = ask(&mut session, &mut host, &line);
            let wanted = format!("wrong number of arguments for '{}' command", spec.name);
            assert!(answer.starts_with('-') && answer.ends_with(&wanted), "{line}: {answer}");
        }
    }
}

#[test]
fn names_asked_for_again_and_again_are_returned_once() {
    let (mut host, mut session) = (host(), RespSession::default());
    for request in ["COMMAND DOCS", "LATENCY HISTOGRAM"] {
        let once = ask(&mut session, &mut host, &format!("{request} client get"));
        let often = ask(
            &mut session,
            &mut host,
            &format!("{request}{}", " client GET Client".repeat(20_000)),
        );
        assert!(once == often, "{request}: {} bytes", often.len());
    }
    let names = |count| format!("COMMAND INFO{}", " get".repeat(count));
    assert!(ask(&mut session, &mut host, &names(1024)).starts_with("*1024 "));
    assert_eq!(ask(&mut session, &mut host, &names(1025)), "-ERR more than 1024 names");
}

#[test]
fn clients_are_listed_by_many_ids() {
    let mut host = host();
    host.others =
        (100..2100).map(|id| todana_protocol::testing::client(id, ProtocolName::Resp)).collect();
    let ids: String = (100..50_000).rev().map(|id| format!(" {id}")).collect();
    let request = array(&format!("CLIENT LIST ID{ids}"));
    let outcome = converse(&mut RespSession::default(), &mut host, [&*request]);
    let lines = outcome.output.split(|byte| *byte == b'\n');
    assert_eq!(lines.filter(|line| line.starts_with(b"id=")).count(), 2000);
}

#[test]
fn resp3_answers_have_their_types() {
    script(
        r#"
        > HELLO 3
        %7 $6 server $5 redis $7 version $5 7.4.0 $5 proto :3 $2 id :7 $4 mode $10 standalone $4
        role $6 master $7 modules *0
        > CONFIG GET databases
        %1 $9 databases $2 16
        > COMMAND INFO ping
        *1 *10 $4 ping :-1 ~1 +fast :0 :0 :0 ~2 +@fast +@connection ~2 $25
        request_policy:all_shards $29 response_policy:all_succeeded ~0 ~0
        > COMMAND INFO nosuch
        *1 _
        > INFO cluster
        =34 txt:# Cluster cluster_enabled:0
        > INFO nosuch
        =4 txt:
        > TIME
        *2 $10 1700000000 $1 0
        > LATENCY HISTOGRAM
        %0
        "#,
    );
}

fn with_options() -> FakeHost {
    let option = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let options = vec![option("maxmemory", "0"), option("timeout", "5")];
    let mut host = host();
    host.part.options = Mutex::new(options);
    host
}

#[test]
fn options_are_read_and_changed() {
    script_on(
        r#"
        > CONFIG GET max*y timeout
        *4 $9 maxmemory $1 0 $7 timeout $1 5
        > CONFIG GET nosuch
        *0
        > CONFIG GET SAVE
        *2 $4 save $0
        > CONFIG SET maxmemory 10 TIMEOUT 6
        +OK
        > CONFIG GET timeout
        *2 $7 timeout $1 6
        > CONFIG SET timeout 7 timeout 8
        -ERR CONFIG SET failed (possibly related to argument 'timeout') - duplicate parameter
        > CONFIG SET nosuch 1
        -ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'
        > CONFIG SET timeout
        -ERR wrong number of arguments for 'config|set' command
        > CONFIG SET timeout 1 maxmemory
        -ERR syntax error
        > CONFIG SET databases 17
        -ERR CONFIG SET failed (possibly related to argument 'databases') - can't set immutable
        config
        > CONFIG SET save "" databases 16
        +OK
        > CONFIG SET min-replicas-to-write 0
        +OK
        > CONFIG SET min-replicas-to-write 1
        -ERR CONFIG SET failed (possibly related to argument 'min-replicas-to-write') - a cluster
        confirms each write by the majority of its nodes, and has no other number
        > CONFIG RESETSTAT
        +OK
        > CONFIG REWRITE
        -ERR Rewriting config file: the configuration file is not written by the server
        "#,
        with_options,
    );
}

#[test]
fn keys_of_requests_whose_keys_move() {
    script(
        r#"
        > COMMAND GETKEYS SORT a STORE b
        *2 $1 a $1 b
        > COMMAND GETKEYS SORT a BY store LIMIT 0 store GET # STORE b store c
        *2 $1 a $1 c
        > COMMAND GETKEYS SORT a STORE
        *1 $1 a
        > COMMAND GETKEYSANDFLAGS SORT a STORE b
        *2 *2 $1 a *2 +RO +access *2 $1 b *2 +OW +update
        > COMMAND GETKEYS SORT_RO a STORE b
        *1 $1 a
        > COMMAND GETKEYS EVAL x 99
        *0
        > COMMAND GETKEYS EVAL x 3 a b
        *0
        > COMMAND GETKEYS EVAL x -1 a
        *0
        > COMMAND GETKEYS EVAL x 2 a b c
        *2 $1 a $1 b
        "#,
    );
}

#[test]
fn figures_come_in_sections() {
    let (mut host, mut session) = (host(), RespSession::default());
    let counts = todana_table::Counts {
        entries: 3,
        entries_with_expiry: 1,
        bytes: 300,
        index_bytes: 50,
        expired: 7,
        ..Default::default()
    };
    host.info = ServerInfo {
        version: "0.1.0".into(),
        started_at_ms: host.now_ms - 90_000,
        hits: 5,
        memcached_port: 11_211,
        kyoto_port: 1_978,
        resident_bytes: 2 << 20,
        startup_bytes: (1 << 20) - 350,
        traffic_per_second: [1024, 1536],
        transfers: [11, 12],
        errors_by_code: vec![5, 0, 2],
        mean_ttl_ms: vec![0, 1234],
        databases: vec![Default::default(), counts],
        ..ServerInfo::default()
    };
    let mut stats = vec![CommandStats::default(); super::super::COMMANDS.len()];
    stats[0] = CommandStats { calls: 4, micros: 6.0, histogram: vec![3, 0, 1], ..stats[0].clone() };
    host.stats = stats;
    let info = ask(&mut session, &mut host, "INFO");
    for field in [
        "# Server redis_version:7.4.0 todana_version:0.1.0 ",
        " memcached_port:11211 kyoto_port:1978 ",
        " uptime_in_seconds:90 ",
        " used_memory:350 used_memory_human:350B \
         used_memory_rss:2097152 used_memory_rss_human:2.00M ",
        " maxmemory_policy:noeviction ",
        " expired_keys:7 ",
        " keyspace_hits:5 ",
        " role:master connected_slaves:0 ",
        " mem_fragmentation_ratio:2.00 mem_fragmentation_bytes:1048576 ",
        " instantaneous_input_kbps:1.00 instantaneous_output_kbps:1.50 ",
        " total_reads_processed:11 total_writes_processed:12 ",
        "# Errorstats errorstat_ERR:count=5 errorstat_NOAUTH:count=2 ",
        " # Keyspace db1:keys=3,expires=1,avg_ttl=1234",
    ] {
        assert!(info.contains(field), "{field} in {info}");
    }
    assert!(!info.contains("# Commandstats"));
    let info = ask(&mut session, &mut host, "INFO commandstats LATENCYSTATS");
    assert!(
        info.contains(
            "cmdstat_get:calls=4,usec=6,usec_per_call=1.50,rejected_calls=0,failed_calls=0"
        )
    );
    assert!(info.contains("# Latencystats latency_percentiles_usec_get:p50=0.000"));
    for section in ["all", "everything"] {
        let info = ask(&mut session, &mut host, &format!("INFO {section}"));
        assert!(info.contains("# Commandstats"));
        assert_eq!(info.contains("# Modules"), section == "everything");
    }
    assert_eq!(
        ask(&mut session, &mut host, "LATENCY HISTOGRAM get set"),
        "*2 $3 get *4 $5 calls :4 $14 histogram_usec *4 :1 :3 :4 :4"
    );
    assert!(ask(&mut session, &mut host, "MEMORY STATS").contains("$10 keys.count :3"));
}

#[test]
fn errors_are_counted_by_their_first_word() {
    let (mut host, mut session) = (host(), RespSession::default());
    for line in ["GET", "NOSUCH", "SET a x", "INCR a", "PFADD a x", "MULTI", "PFADD a y", "NOSUCH"]
    {
        ask(&mut session, &mut host, line);
    }
    assert!(ask(&mut session, &mut host, "EXEC").starts_with("-EXECABORT"));
    for line in ["MULTI", "PFADD a y", "INCR a", "EXEC"] {
        ask(&mut session, &mut host, line);
    }
    let count = |word: &str| {
        let code = crate::ERROR_CODES.iter().position(|code| *code == word).unwrap();
        host.part.error_codes.iter().filter(|seen| **seen == code).count()
    };
    assert_eq!(["ERR", "WRONGTYPE", "EXECABORT", "OTHER"].map(count), [5, 2, 1, 0]);
}

#[test]
fn options_have_the_same_value_by_both_names() {
    let (mut host, mut session) = (host(), RespSession::default());
    let options = [("tcp_keepalive_s", "300"), ("timeout", "0")];
    host.part.options =
        options.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec().into();
    let mut get = |name: &str| ask(&mut session, &mut host, &format!("CONFIG GET {name}"));
    assert_eq!(get("tcp-keepalive"), "*2 $13 tcp-keepalive $3 300");
    assert_eq!(get("port"), "*2 $4 port $4 6379");
    assert_eq!(get("cluster-enabled"), "*2 $15 cluster-enabled $2 no");
}

fn slow() -> FakeHost {
    FakeHost { slow_us: Some(20_000), ..host() }
}

#[test]
fn slow_commands_are_logged_without_secrets() {
    script_on(
        r#"
        > GET k
        $-1
        > AUTH default secret
        +OK
        > SLOWLOG LEN
        :2
        > SLOWLOG GET -1
        *3 *6 :2 :1700000000 :20000 *2 $7 SLOWLOG $3 LEN $15 127.0.0.1:50007 $0  *6 :1 :1700000000
        :20000 *3 $4 AUTH $10 (redacted) $10 (redacted) $15 127.0.0.1:50007 $0  *6 :0 :1700000000
        :20000 *2 $3 GET $1 k $15 127.0.0.1:50007 $0
        > SLOWLOG GET -2
        -ERR count should be greater than or equal to -1
        > SLOWLOG GET 0
        *0
        > SLOWLOG RESET
        +OK
        > SLOWLOG GET
        *1 *6 :0 :1700000000 :20000 *2 $7 SLOWLOG $5 RESET $15 127.0.0.1:50007 $0
        "#,
        slow,
    );
}

#[test]
fn commands_and_lookups_are_observed() {
    let (mut host, mut session) = (host(), RespSession::default());
    host.keep_observed = true;
    for line in [
        "SET k v",
        "GET k",
        "GET missing",
        "EXISTS k missing",
        "SET k v FOO",
        "NOSUCH",
        "CLIENT ID",
    ] {
        ask(&mut session, &mut host, line);
    }
    let observed: Vec<(&str, bool)> = host
        .observed
        .iter()
        .map(|(_, index, failed)| (super::super::COMMANDS[*index], *failed))
        .collect();
    assert_eq!(
        observed,
        [
            ("set", false),
            ("get", false),
            ("get", false),
            ("exists", false),
            ("set", true),
            ("client|id", false)
        ]
    );
    assert_eq!(host.lookups, (2, 2));
}

#[test]
fn debug_sleep_asks_the_loop_to_wait() {
    let outcome = raw(b"DEBUG SLEEP 0.25\r\nPING\r\n");
    assert_eq!((shown(&outcome.output).as_str(), outcome.slept_ms), ("+OK +PONG", 250));
    assert_eq!(shown(&raw(b"DEBUG SLEEP x\r\n").output), "-ERR value is not a valid float");
    let refused = "-ERR value is out of range, a sleep is 0 to 60 seconds";
    for seconds in ["-1", "nan", "60.1", "1e9"] {
        let request = format!("DEBUG SLEEP {seconds}\r\n");
        assert_eq!(shown(&raw(request.as_bytes()).output), refused, "{seconds}");
    }
    assert_eq!(raw(b"DEBUG SLEEP 60\r\n").slept_ms, 60_000);
}

#[test]
fn there_is_a_cupboard() {
    let (mut host, mut session) = (host(), RespSession::default());
    assert!(ask(&mut session, &mut host, "LOLWUT").contains("Redis ver. 7.4.0"));
}
