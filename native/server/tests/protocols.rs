//! The real sessions in the real loops: just enough to know that they work together.

mod serving;

use serving::{config, connect, expect, until};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use todana_protocol::{Persistence, ProtocolName, Request};
use todana_resp::Topic;
use todana_server::{Backend, Config, Keeper, Server};

const BACK_ENDS: [Backend; 4] =
    [Backend::Native, Backend::Portable, Backend::Poll, Backend::Select];

#[test]
fn resp_and_memcached_see_the_same_records() {
    for backend in BACK_ENDS {
        let server = Server::start(config(backend, 100)).unwrap();
        let (resp, memcached) = (connect(&server, 0), connect(&server, 1));
        expect(&resp, "PING\r\n", "+PONG\r\n");
        expect(&resp, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nvalue\r\n", "+OK\r\n");
        expect(&memcached, "get k\r\n", "VALUE k 0 5\r\nvalue\r\nEND\r\n");
        expect(&memcached, "set n 0 0 2\r\n41\r\n", "STORED\r\n");
        expect(&resp, "INCR n\r\n", ":42\r\n");
        until("all commands are counted", || server.info().commands == 5);
        assert_eq!(server.info().connections_by_protocol, [1, 1, 0]);
        let calls = |name| server.command_stats(name).iter().map(|c| c.calls).sum::<u64>();
        assert_eq!((calls(ProtocolName::Resp), calls(ProtocolName::Memcached)), (3, 2));
    }
}

#[test]
fn pipelines_and_large_values_pass_in_pieces_of_any_size() {
    let server = Server::start(config(Backend::Native, 100)).unwrap();
    let mut stream = connect(&server, 0);
    let value = "v".repeat(3_000_000);
    let mut request = format!("*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n${}\r\n{value}\r\n", value.len());
    request += &"*2\r\n$3\r\nGET\r\n$4\r\nnone\r\n".repeat(1_000);
    request += "GET big\r\n";
    let answers = format!("+OK\r\n{}${}\r\n{value}\r\n", "$-1\r\n".repeat(1_000), value.len());
    for piece in [1 << 30, 100_000, 65_536, 9_999] {
        let writer = stream.try_clone().unwrap();
        let request = request.clone();
        let thread = std::thread::spawn(move || {
            request.as_bytes().chunks(piece).for_each(|part| (&writer).write_all(part).unwrap());
        });
        let mut bytes = vec![0; answers.len()];
        stream.read_exact(&mut bytes).unwrap();
        assert!(bytes == answers.as_bytes(), "in pieces of {piece}");
        thread.join().unwrap();
    }
    until("all buffers are given back", || server.info().client_buffer_bytes == 0);
}

/// Other nodes, which know of subscriptions or not.
#[derive(Debug, Default)]
struct Others {
    know: AtomicBool,
    questions: AtomicUsize,
}

impl Keeper for Others {
    fn persistence(&self) -> Arc<Persistence> {
        Arc::default()
    }

    fn request(&self, _request: Request) -> u64 {
        0
    }

    fn announce(&self, _topic: Topic, _names: &[&[u8]]) -> bool {
        self.questions.fetch_add(1, SeqCst);
        self.know.load(SeqCst)
    }
}

#[test]
fn clients_that_wait_for_other_nodes_sleep_until_they_are_woken() {
    let others = Arc::new(Others::default());
    let keeper: Arc<dyn Keeper> = others.clone();
    let config = Config { keeper: Some(keeper), ..config(Backend::Native, 100) };
    let server = Server::start(config).unwrap();
    let clients: Vec<TcpStream> = (0..20).map(|_| connect(&server, 0)).collect();
    for mut client in &clients {
        client.write_all(b"SUBSCRIBE news\r\n").unwrap();
    }
    until("all have asked", || others.questions.load(SeqCst) >= 2 * clients.len());
    let before = others.questions.load(SeqCst);
    std::thread::sleep(Duration::from_millis(250));
    // Each asks again a few times, in case that nobody wakes it.
    let asked = others.questions.load(SeqCst) - before;
    assert!(asked <= 8 * clients.len(), "{asked}");
    others.know.store(true, SeqCst);
    server.wake_subscribers();
    for client in &clients {
        expect(client, "", "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    }
    server.stop();
}

/// A request as an array of bulk strings.
fn array(words: &[&str]) -> String {
    let bulk = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
    format!("*{}\r\n", words.len()) + &words.iter().map(bulk).collect::<String>()
}

#[test]
fn a_turn_may_end_where_a_large_value_begins() {
    let server = Server::start(config(Backend::Native, 100)).unwrap();
    let mut stream = connect(&server, 0);
    let [small, other, large] = [200, 224, 300_000].map(|len| "v".repeat(len));
    for (key, value) in [("small", &small), ("other", &other), ("large", &large)] {
        expect(&stream, &array(&["SET", key, value]), "+OK\r\n");
    }
    let gets = [&["small"; 1_258][..], &["other", "other", "large"]].concat();
    let queued = gets.iter().map(|key| array(&["GET", key])).collect::<String>();
    let bulk = |value: &str| format!("${}\r\n{value}\r\n", value.len());
    let before =
        format!("*1261\r\n{}{}$300000\r\n", bulk(&small).repeat(1_258), bulk(&other).repeat(2));
    assert_eq!(before.len(), 256 << 10, "as much as a turn may answer");
    expect(&stream, "MULTI\r\n", "+OK\r\n");
    expect(&stream, &queued, &"+QUEUED\r\n".repeat(1_261));
    stream.write_all(b"EXEC\r\nPING\r\n").unwrap();
    let answer = format!("{before}{large}\r\n+PONG\r\n");
    let mut bytes = vec![0; answer.len()];
    stream.read_exact(&mut bytes).unwrap();
    assert!(bytes == answer.as_bytes());
}

#[test]
fn large_values_that_wait_for_a_client_are_limited() {
    const VALUE_BYTES: usize = 32 << 20;
    // The reply is built without being sent.
    let store = format!("DEL k\r\nSETRANGE k {} v\r\n", VALUE_BYTES - 1);
    let limited = |soft_ms, memory_bytes| {
        let mut config = config(Backend::Native, 100);
        (config.output_bytes_soft, config.output_soft_ms) = (1 << 20, soft_ms);
        config.clients_memory_limit.set(Some(memory_bytes));
        Server::start(config).unwrap()
    };
    // The table holds the value, so it counts for no client; but the client does not take it.
    let server = limited(1_000, 1 << 30);
    let writer = connect(&server, 0);
    expect(&writer, &store, &format!(":0\r\n:{VALUE_BYTES}\r\n"));
    let mut silent = connect(&server, 0);
    silent.write_all(b"GET k\r\n").unwrap();
    until("it is closed", || server.info().output_limit_disconnections == 1);
    // Each waits for another value, which only its output keeps alive.
    let server = limited(3_600_000, 3 * VALUE_BYTES as u64 / 2);
    let writer = connect(&server, 0);
    let silent: Vec<_> = (0..2)
        .map(|number| {
            expect(&writer, &store, &format!(":{number}\r\n:{VALUE_BYTES}\r\n"));
            let mut silent = connect(&server, 0);
            silent.write_all(b"GET k\r\n").unwrap();
            until("it waits", || server.info().hits == number + 1);
            silent
        })
        .collect();
    expect(&writer, &array(&["DEL", "k"]), ":1\r\n");
    until("one is closed", || server.info().evicted_clients == 1);
    drop(silent);
}

#[test]
fn a_sleep_is_answered_when_it_ends() {
    let server = Server::start(config(Backend::Native, 100)).unwrap();
    let stream = connect(&server, 0);
    let begun = std::time::Instant::now();
    expect(&stream, "DEBUG SLEEP 0.1\r\nPING\r\n", "+OK\r\n+PONG\r\n");
    assert!(begun.elapsed().as_millis() >= 100);
}

#[test]
fn the_slow_log_contains_slow_commands() {
    let server = Server::start(config(Backend::Native, 100)).unwrap();
    let stream = connect(&server, 0);
    expect(&stream, "SLOWLOG LEN\r\n", ":0\r\n");
    expect(&stream, "CONFIG SET slowlog-log-slower-than 0\r\n", "+OK\r\n");
    expect(&stream, "SLOWLOG RESET\r\nPING\r\nSLOWLOG GET 1\r\n", "+OK\r\n+PONG\r\n*1\r\n*6\r\n:");
}

#[test]
fn a_password_is_required() {
    let mut config = config(Backend::Native, 100);
    config.password = Some(b"secret".to_vec());
    let server = Server::start(config).unwrap();
    let stream = connect(&server, 0);
    expect(&stream, "GET k\r\n", "-NOAUTH ");
    let stream = connect(&server, 0);
    expect(&stream, "AUTH wrong\r\n", "-WRONGPASS ");
    let stream = connect(&server, 0);
    expect(&stream, "AUTH secret\r\nGET k\r\n", "+OK\r\n$-1\r\n");
    assert_eq!(server.info().authentication_failures, 1);
}

#[test]
fn commands_queued_by_many_clients_share_one_limit() {
    const LIMIT_BYTES: u64 = 8 << 20;
    /// The most that the turns of two loops may add: each receives at most 64 KiB, and keeps some
    /// of it as input and the rest as queued commands with their bookkeeping.
    const TURNS_BYTES: u64 = 2 * (256 << 10);
    let config = config(Backend::Native, 100);
    config.clients_memory_limit.set(Some(LIMIT_BYTES));
    let server = Server::start(config).unwrap();
    let witness = connect(&server, 0);
    expect(&witness, "PING\r\n", "+PONG\r\n");
    let set = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$8192\r\n{}\r\n", "v".repeat(8_192));
    let queue = |_| {
        let (stream, set) = (connect(&server, 0), set.clone());
        std::thread::spawn(move || {
            let queued = (&stream).write_all(b"MULTI\r\n").is_ok()
                && (0..512).all(|_| (&stream).write_all(set.as_bytes()).is_ok());
            let mut answers = Vec::new();
            let finished = queued && (&stream).write_all(b"DISCARD\r\nQUIT\r\n").is_ok();
            let _ = (&stream).read_to_end(&mut answers);
            finished && answers.ends_with(b"+OK\r\n+OK\r\n")
        })
    };
    let threads: Vec<_> = (0..12).map(queue).collect();
    let mut most = 0;
    while threads.iter().any(|thread| !thread.is_finished()) {
        most = most.max(server.info().client_buffer_bytes);
    }
    let finished = threads.into_iter().map(|thread| thread.join().unwrap());
    let closed = finished.filter(|finished| !finished).count() as u64;
    assert!(most <= LIMIT_BYTES + TURNS_BYTES, "{most} bytes were held");
    until("all that were closed are counted", || server.info().evicted_clients == closed);
    expect(&witness, "PING\r\n", "+PONG\r\n");
    until("all is given back", || server.info().client_buffer_bytes == 0);
}

/// The bulk strings of a reply.
fn bulks(stream: &TcpStream, request: &str, count: usize) -> Vec<u64> {
    let mut stream = BufReader::new(stream);
    stream.get_mut().write_all(request.as_bytes()).unwrap();
    let mut lines = (&mut stream).lines().map(|line| line.unwrap());
    assert_eq!(lines.next().unwrap(), format!("*{count}"));
    (0..count).map(|_| (lines.next(), lines.next().unwrap().parse().unwrap()).1).collect()
}

#[test]
fn the_time_of_a_request_lies_between_its_sending_and_its_answer() {
    for backend in BACK_ENDS {
        let server = Server::start(config(backend, 100)).unwrap();
        let stream = connect(&server, 0);
        let now_us = || {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            since.as_micros() as u64
        };
        let mut parts_of_milliseconds = 0;
        for _ in 0..500 {
            let sent_us = now_us();
            let time = bulks(&stream, "TIME\r\n", 2);
            let clock_us = time[0] * 1_000_000 + time[1];
            // Microseconds are rounded up.
            assert!((sent_us..=now_us() + 1).contains(&clock_us), "{clock_us}, sent at {sent_us}");
            parts_of_milliseconds += u32::from(!clock_us.is_multiple_of(1_000));
        }
        assert!(parts_of_milliseconds > 400);
    }
}

#[test]
fn no_record_outlives_its_expiry_by_the_clients_clock() {
    let server = Server::start(config(Backend::Native, 100)).unwrap();
    let stream = connect(&server, 0);
    for _ in 0..1_000 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let ends_at_ms = now.as_millis() as u64 + 10_000;
        expect(&stream, &format!("SET k 1 PXAT {ends_at_ms}\r\n"), "+OK\r\n");
        let mut answer = [0; 64];
        (&stream).write_all(b"PTTL k\r\n").unwrap();
        let length = (&stream).read(&mut answer).unwrap();
        let left_ms = std::str::from_utf8(&answer[1..length]).unwrap().trim().parse::<u64>();
        assert!(left_ms.clone().is_ok_and(|left_ms| left_ms <= 10_000), "{left_ms:?}");
    }
}

#[test]
fn a_reset_also_resets_the_counts_of_tables() {
    let server = Server::start(config(Backend::Native, 100)).unwrap();
    let (resp, memcached) = (connect(&server, 0), connect(&server, 1));
    let counted = || {
        let info = server.info();
        let sum = |what: fn(&todana_table::Counts) -> u64| info.databases.iter().map(what).sum();
        let sums: [u64; 2] = [sum(|counts| counts.expired), sum(|counts| counts.version)];
        sums
    };
    let expire = |key: &str| {
        expect(&resp, &format!("SET {key} 1 PX 1\r\n"), "+OK\r\n");
        std::thread::sleep(std::time::Duration::from_millis(5));
        expect(&resp, &format!("GET {key}\r\nSET {key} 2\r\n"), "$-1\r\n+OK\r\n");
    };
    expire("a");
    until("it is counted", || counted()[1] >= 2);
    expect(&resp, "CONFIG RESETSTAT\r\n", "+OK\r\n");
    assert_eq!(counted(), [0, 0]);
    expect(&resp, "SET b 1\r\nSWAPDB 0 1\r\n", "+OK\r\n+OK\r\n");
    assert_eq!(counted()[1], 1, "the counts follow their tables");
    expect(&memcached, "stats reset\r\n", "RESET\r\n");
    assert_eq!(counted(), [0, 0]);
    assert_eq!(server.info().databases.iter().map(|counts| counts.entries).sum::<u64>(), 2);
}
