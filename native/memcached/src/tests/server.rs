use super::Conversation;
use crate::COMMANDS;
use crate::answer::Writing;
use crate::table::{KINDS, Kind};
use crate::turn::Turn;
use crate::{PREFIXES_MAX, Prefixes};
use todana_command::{Command, Set, StringCommand};
use todana_protocol::testing::{client, with_durable_hosts};
use todana_protocol::{CommandStats, ProtocolName};
use todana_table::Counts;

/// Names of the rows that counted a request, with `!` if it failed.
fn counted(conversation: &mut Conversation, input: &str) -> String {
    conversation.host.keep_observed = true;
    conversation.host.observed.clear();
    conversation.ask(input);
    let name = |&(protocol, row, failed): &(ProtocolName, usize, bool)| {
        assert_eq!(protocol, ProtocolName::Memcached);
        format!("{}{}", COMMANDS[row], if failed { "!" } else { "" })
    };
    conversation.host.observed.iter().map(name).collect::<Vec<_>>().join(" ")
}

#[test]
fn every_command_is_counted_by_how_it_came_out() {
    let mut conversation = Conversation::new();
    let mut check = |input: &str, rows: &str| {
        assert_eq!(counted(&mut conversation, input), rows, "{input}");
    };
    check("get a\r\ngets a\r\ngat 0 a\r\ngats 0 a\r\n", "get gets gat gats");
    check("get\r\nset a\r\nset a 0 0 1\r\nxyz\r\n", "get! set! set! unknown!");
    check(
        "incr a 1\r\ndecr a 1\r\ndelete a\r\ntouch a 1\r\n",
        "incr_miss decr_miss delete_miss touch_miss",
    );
    check(
        "cas a 0 0 1 1\r\nx\r\nset a 0 0 1\r\n5\r\ncas a 0 0 1 99\r\nx\r\n",
        "cas_miss set cas_badval",
    );
    check("incr a 1\r\ndecr a 1\r\nincr a x\r\ntouch a 0\r\n", "incr decr incr! touch");
    check(
        "ma a\r\nma b\r\nma a MD\r\nma b MD\r\nma a Mx\r\n",
        "ma ma_miss ma_decr ma_decr_miss ma!",
    );
    check(
        "mg a\r\nmg b\r\nms b 1\r\nx\r\nme b\r\nmn\r\nmd b\r\nmd b\r\n",
        "mg mg ms me mn md md_miss",
    );
    check(
        "delete a\r\nflush_all\r\nversion\r\nverbosity 1\r\n",
        "delete flush_all version verbosity",
    );
    check(
        "stats\r\nstats x\r\nshutdown\r\nfoo\r\n\r\nquit\r\n",
        "stats stats! shutdown! unknown! unknown! quit",
    );
}

#[test]
fn lookups_are_counted_by_key() {
    let mut conversation = Conversation::new();
    conversation.ask("set a 0 0 1\r\nx\r\nget a b c\r\nmg a\r\nmg b\r\nmg c N0\r\ngat 0 a c d\r\n");
    assert_eq!(conversation.host.lookups, (4, 5));
    // Stores, removals and touches are not look-ups.
    conversation.ask(
        "touch a 0\r\ntouch z 0\r\nincr z 1\r\ndelete z\r\nadd a 0 0 1\r\nx\r\nme a\r\nme z\r\n",
    );
    assert_eq!(conversation.host.lookups, (4, 5));
}

#[test]
fn slow_commands_are_logged_with_their_words() {
    let mut conversation = Conversation::new();
    conversation.host.slow_us = Some(12);
    conversation.ask("set a 0 0 1\r\nx\r\n");
    let log = conversation.host.slow_log.lock().unwrap();
    assert_eq!(log[0].micros, 12);
    assert_eq!(log[0].arguments, [b"set".as_slice(), b"a", b"0", b"0", b"1"]);
}

#[test]
fn stats_has_what_exporters_read() {
    let mut conversation = Conversation::new();
    let stats = CommandStats { calls: 10, errors: 3, ..CommandStats::default() };
    conversation.host.stats = vec![stats; COMMANDS.len()];
    conversation.host.info.version = "1.2.3".to_owned();
    conversation.host.info.hits = 90;
    conversation.host.info.misses = 9;
    conversation.host.info.lookups_by_protocol = [(40, 6), (40, 2), (10, 1)];
    conversation.host.info.cpu_seconds = [0.25, 1.5];
    conversation.host.info.databases = vec![Default::default(); 16];
    let answer = conversation.ask("stats\r\n");
    let has =
        |line: &str| assert!(answer.contains(&format!("STAT {line}\r\n")), "{line}\n{answer}");
    for line in [
        "version 1.6.18-todana-1.2.3",
        "cmd_get 42",
        "get_hits 40",
        "get_misses 2",
        "cmd_set 90",
        "cmd_flush 7",
        "delete_hits 14",
        "delete_misses 14",
        "incr_hits 14",
        "decr_misses 14",
        "cas_badval 7",
        "touch_hits 7",
        "auth_cmds 10",
        "auth_errors 3",
        "rusage_user 1.500000",
        "rusage_system 0.250000",
        "curr_items 0",
        "bytes 0",
        "limit_maxbytes 0",
        "accepting_conns 1",
        "time 1700000000",
    ] {
        has(line);
    }
    for name in ["pid", "uptime", "threads", "curr_connections", "total_items", "evictions"] {
        assert!(answer.contains(&format!("STAT {name} ")), "{name}");
    }
    assert!(answer.ends_with("END\r\n"));
    assert!(answer.lines().all(|line| line == "END" || line.split(' ').count() == 3));
}

#[test]
fn stats_reports_settings_items_and_connections() {
    let mut conversation = Conversation::new();
    conversation.host.password = None;
    let settings = conversation.ask("stats settings\r\n");
    assert!(settings.contains("STAT item_size_max 1048576\r\n"));
    assert!(settings.contains("STAT auth_enabled_ascii no\r\n"));
    assert_eq!(conversation.ask("stats items\r\n"), "END\r\n");
    let counts = Counts { entries: 3, bytes: 300, ..Counts::default() };
    conversation.host.info.databases = vec![counts];
    let items = conversation.ask("stats items\r\n");
    assert!(items.starts_with("STAT items:1:number 3\r\nSTAT items:1:mem_requested 300\r\n"));
    let slabs = conversation.ask("stats slabs\r\n");
    let chunks = "STAT 1:chunk_size 100\r\nSTAT 1:chunks_per_page 10485\r\nSTAT 1:total_pages 1\r\n\
                  STAT 1:total_chunks 3\r\nSTAT 1:used_chunks 3\r\nSTAT 1:free_chunks 0\r\n";
    assert!(slabs.starts_with(chunks), "{slabs}");
    assert!(slabs.ends_with("STAT active_slabs 1\r\nSTAT total_malloced 300\r\nEND\r\n"));
    for name in ["get_hits", "cmd_set", "delete_hits", "incr_hits", "cas_badval", "touch_hits"] {
        assert!(slabs.contains(&format!("\r\nSTAT 1:{name} ")), "{name}");
    }
    conversation.host.info.databases.clear();
    assert_eq!(
        conversation.ask("stats slabs\r\n"),
        "STAT active_slabs 0\r\nSTAT total_malloced 0\r\nEND\r\n"
    );
    conversation.host.others =
        vec![client(9, ProtocolName::Memcached), client(10, ProtocolName::Resp)];
    let conns = conversation.ask("stats conns\r\n");
    assert_eq!(conns.lines().count(), 2 * 3 + 1, "{conns}");
    assert!(conns.contains("STAT 8:addr tcp:127.0.0.1:50009\r\n"));
    assert_eq!(conversation.ask("stats reset\r\n"), "RESET\r\n");
    assert_eq!(conversation.host.stats_resets.into_inner(), 1);
}

#[test]
fn http_closes() {
    for line in ["GET / HTTP/1.1", "POST / HTTP/1.1", "PUT /", "Host: x", "HOST: x", "OPTIONS *"] {
        assert_eq!(Conversation::new().ask(format!("mn\r\n{line}\r\nmn\r\n")), "MN\r\nclosed");
    }
}

#[test]
fn records_of_other_doors_are_the_same_records() {
    let mut conversation = Conversation::new();
    let mut output = Vec::new();
    let mut turn = Turn::new(&mut conversation.host, &mut output);
    // As RESP stores: without flags and without an access word.
    turn.execute(&Command::String(StringCommand::Set(Set::new(b"n", b"41"))), Writing::Silent);
    assert_eq!(conversation.ask("incr n 1\r\n"), "42\r\n");
    assert_eq!(conversation.ask("get n\r\n"), "VALUE n 0 2\r\n42\r\nEND\r\n");
    assert_eq!(conversation.ask("mg n v f t h l\r\n"), "VA 2 f0 t-1 h0 l0\r\n42\r\n");
}

#[test]
fn nothing_is_read_after_quit() {
    let mut conversation = Conversation::new();
    let outcome = conversation.send("quit\r\nmn\r\n");
    assert!(outcome.closed && outcome.output.is_empty());
}

#[test]
fn every_command_of_the_table_is_known() {
    for (name, kind) in COMMANDS.iter().zip(KINDS) {
        if let Kind::Command(..) = kind {
            let counted = counted(&mut Conversation::new(), &format!("{name}\r\n"));
            assert_eq!(counted.trim_end_matches('!'), *name, "MemcachedSession::respond");
        }
    }
}

#[test]
fn requests_are_counted_by_prefix_while_detail_is_on() {
    for converse in [Conversation::new, || with_durable_hosts(Conversation::new)] {
        let mut conversation = converse();
        let mut ask = |input: &str| {
            let mut answer = conversation.ask(input);
            while conversation.host.commit() {
                answer.push_str(&conversation.ask(""));
            }
            answer
        };
        let dump = "stats detail dump\r\n";
        assert_eq!(
            ask(&format!("set a:1 0 0 1\r\nx\r\nget a:1\r\n{dump}")).matches("END").count(),
            2
        );
        assert_eq!(
            ask("stats detail on\r\nget a:1 a:2:3 b:1 plain :\r\n").matches("VALUE").count(),
            1
        );
        assert_eq!(
            ask(dump),
            "PREFIX  get 1 hit 0 set 0 del 0\r\nPREFIX a get 2 hit 1 set 0 del 0\r\n\
             PREFIX b get 1 hit 0 set 0 del 0\r\nEND\r\n"
        );
        assert_eq!(ask("stats reset\r\nstats detail dump\r\n"), "RESET\r\nEND\r\n");
        // Stores count, whatever comes of them, and so do deletions. Numbers and meta commands
        // do not.
        for request in [
            "set a:1 0 0 1\r\n1\r\n",
            "add a:1 0 0 1\r\n1\r\n",
            "replace a:2 0 0 1\r\n1\r\n",
            "append a:1 0 0 1\r\n1\r\n",
            "cas a:2 0 0 1 1\r\n1\r\n",
            "ms a:1 1\r\n1\r\n",
            "incr a:1 1\r\n",
            "ma a:1\r\n",
            "touch a:1 0\r\n",
            "me a:1\r\n",
            "gat 0 a:1 a:2\r\n",
            "mg a:1 v\r\n",
            "mg a:2 v\r\n",
            "md a:1\r\n",
            "delete a:1\r\n",
        ] {
            assert!(!ask(request).contains("ERROR"), "{request}");
        }
        assert_eq!(ask(dump), "PREFIX a get 2 hit 1 set 5 del 1\r\nEND\r\n");
        assert_eq!(ask("stats detail off\r\nget a:1\r\n"), "OK\r\nEND\r\n");
        assert_eq!(ask(dump), "PREFIX a get 2 hit 1 set 5 del 1\r\nEND\r\n");
        for words in ["detail", "detail x", "detail ON"] {
            let usage = "CLIENT_ERROR usage: stats detail on|off|dump\r\n";
            assert_eq!(ask(&format!("stats {words}\r\n")), usage);
        }
    }
}

#[test]
fn the_number_of_counted_prefixes_is_limited() {
    let prefixes = Prefixes::default();
    let count = |number: usize| {
        prefixes.count(
            &Command::String(StringCommand::Get { key: format!("{number}:x").as_bytes() }),
            true,
        );
    };
    (0..PREFIXES_MAX + 1).for_each(count);
    count(0);
    let mut dump = Vec::new();
    prefixes.dump(&mut dump);
    let dump = String::from_utf8(dump).unwrap();
    assert_eq!(dump.lines().count(), PREFIXES_MAX + 1);
    assert!(dump.starts_with("PREFIX 0 get 2 hit 2 set 0 del 0\r\n"));
    assert!(!dump.contains(&format!("PREFIX {PREFIXES_MAX} ")));
}
