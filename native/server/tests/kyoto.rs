//! Kyoto Tycoon's sessions in the real loops: both of its protocols on one connection, waiting, and
//! the messages of the server itself to its clients.

mod serving;

use serving::{config, connect, expect, until};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use todana_protocol::ProtocolName;
use todana_server::{Backend, Config, Server};

const BACK_ENDS: [Backend; 4] =
    [Backend::Native, Backend::Portable, Backend::Poll, Backend::Select];

/// The listener of `serving::config`.
const KYOTO: usize = 2;

/// `get_bulk` of key `k` in database 0.
const BINARY_GET: &[u8] = b"\xba\0\0\0\0\0\0\0\x01\0\0\0\0\0\x01k";

/// A client that speaks HTTP and the binary protocol.
struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(server: &Server) -> Client {
        Client(BufReader::new(connect(server, KYOTO)))
    }

    fn send(&mut self, bytes: &[u8]) -> &mut Client {
        self.0.get_mut().write_all(bytes).unwrap();
        self
    }

    /// The next response: its status, its constant headers, its body.
    fn response(&mut self) -> (String, Vec<String>, String) {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the end after {lines:?}");
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_string()),
            }
        }
        let status = lines.remove(0);
        let length = lines.iter().find_map(|line| line.strip_prefix("Content-Length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        self.0.read_exact(&mut body).unwrap();
        lines.retain(|line| !line.starts_with("Date: ") && !line.starts_with("Server: "));
        let status = status.strip_prefix("HTTP/1.1 ").unwrap().to_string();
        (status, lines, String::from_utf8(body).unwrap())
    }

    /// Calls a procedure, with its inputs as a query string.
    fn call(&mut self, procedure: &str) -> (String, String) {
        let request = format!("GET /rpc/{procedure} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        let (status, _, body) = self.send(request.as_bytes()).response();
        (status, body)
    }

    /// The answer to [`BINARY_GET`], if it is this value without an expiry time.
    fn expect_binary(&mut self, value: &str) {
        let mut answer = b"\xba\0\0\0\x01\0\0\0\0\0\x01".to_vec();
        answer.extend((value.len() as u32).to_be_bytes());
        answer.extend(b"\0\0\0\xff\xff\xff\xff\xffk");
        answer.extend(value.as_bytes());
        let mut bytes = vec![0; answer.len()];
        self.0.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes.escape_ascii().to_string(), answer.escape_ascii().to_string());
    }

    /// Everything that arrives until the server closes.
    fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.0.read_to_string(&mut rest).unwrap();
        rest
    }
}

fn ok(body: &str) -> (String, String) {
    ("200 OK".into(), body.into())
}

fn each(change: impl Fn(&mut Config), test: impl Fn(&Server)) {
    for backend in BACK_ENDS {
        let mut config = config(backend, 100);
        change(&mut config);
        let server = Server::start(config).unwrap();
        test(&server);
        assert_eq!(server.panics(), 0);
    }
}

#[test]
fn http_and_binary_mix_on_one_connection_and_other_protocols_see_the_records() {
    each(
        |_| {},
        |server| {
            let mut client = Client::connect(server);
            assert_eq!(client.call("set?key=k&value=one"), ok(""));
            assert_eq!(client.call("get?key=k"), ok("value\tone\n"));
            client.send(BINARY_GET).expect_binary("one");
            expect(&connect(server, 0), "GET k\r\n", "$3\r\none\r\n");
            // All in one write.
            let set = b"POST /rpc/set HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 11\r\n\
                Content-Type: text/tab-separated-values\r\n\r\nkey\tk\nvalue\ttwo\n";
            let set = String::from_utf8_lossy(set).replace("Length: 11", "Length: 16");
            let get = "GET /k HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
            let requests = [BINARY_GET, set.as_bytes(), BINARY_GET, get.as_bytes()].concat();
            client.send(&requests).expect_binary("one");
            assert_eq!(client.response().0, "200 OK");
            client.expect_binary("two");
            let (status, headers, body) = client.response();
            assert_eq!((status.as_str(), body.as_str()), ("200 OK", "two"));
            assert_eq!(headers, ["Content-Length: 3"]);
        },
    );
}

#[test]
fn requests_may_arrive_byte_by_byte() {
    each(
        |_| {},
        |server| {
            let mut client = Client::connect(server);
            assert_eq!(client.call("set?key=k&value=v"), ok(""));
            let get = b"GET /rpc/get?key=k HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
            for byte in [BINARY_GET, get].concat() {
                client.send(&[byte]);
            }
            client.expect_binary("v");
            assert_eq!(client.response().2, "value\tv\n");
            until("the buffer is given back", || server.info().client_buffer_bytes == 0);
        },
    );
}

#[test]
fn a_signal_releases_a_waiting_procedure() {
    each(
        |_| {},
        |server| {
            let mut waiting = Client::connect(server);
            let wait = "GET /rpc/get?key=k&WAIT=set HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
            waiting.send(wait.as_bytes()).send(BINARY_GET);
            let mut other = Client::connect(server);
            until("the client waits", || {
                let (status, body) = other.call("set?key=k&value=v&SIGNAL=set");
                assert_eq!(status, "200 OK");
                body == "SIGNALED\t1\n"
            });
            assert_eq!(waiting.response().2, "value\tv\n");
            waiting.expect_binary("v");
            assert_eq!(other.call("void?SIGNAL=set"), ok("SIGNALED\t0\n"));
        },
    );
}

#[test]
fn a_wait_without_a_signal_takes_the_requested_time() {
    each(
        |_| {},
        |server| {
            let mut client = Client::connect(server);
            let begun = Instant::now();
            let (status, body) = client.call("set?key=k&value=v&WAIT=never&WAITTIME=0.1");
            assert!(begun.elapsed() >= Duration::from_millis(100));
            assert_eq!(status, "503 Service Unavailable");
            assert_eq!(body, "ERROR\tthe condition timed out\n");
            assert_eq!(client.call("count"), client.call("count?DB=0"));
            assert_eq!(client.call("check?key=k").0, "450 Logical Inconsistency");
        },
    );
}

#[test]
fn a_client_beyond_the_limit_receives_an_http_error() {
    each(
        |config| config.connections_max.set(1),
        |server| {
            let mut first = Client::connect(server);
            assert_eq!(first.call("void"), ok(""));
            let mut second = Client::connect(server);
            let (status, headers, body) = second.response();
            assert_eq!(status, "503 Service Unavailable");
            assert_eq!(headers[0], "Connection: close");
            assert_eq!(body, "503 Service Unavailable (too many clients)\n");
            assert_eq!(second.rest(), "");
            assert_eq!(first.call("void"), ok(""));
        },
    );
}

#[test]
fn a_request_beyond_the_input_limit_is_refused_by_http() {
    each(
        |config| config.input_bytes_max = 10_000,
        |server| {
            let mut client = Client::connect(server);
            client.send(
                b"POST /rpc/set HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 20000\r\n\r\nkey",
            );
            let (status, headers, body) = client.response();
            assert_eq!(status, "413 Request Entity Too Large");
            assert_eq!(headers[0], "Connection: close");
            assert_eq!(body, "413 Request Entity Too Large (request entity too large)\n");
            assert_eq!(client.rest(), "");
        },
    );
}

#[test]
fn half_sent_requests_of_every_kind_end_in_time_and_idle_clients_do_not() {
    const HALVES: [&[u8]; 9] = [
        b"GET /rpc/vo",
        b"POST /rpc/set HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\nkey",
        b"POST /rpc/set HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nkey",
        b"POST /rpc/set HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /rpc/set HTTP/1.1\r\nHost: :1978\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nkey\r\n",
        b"\xb4\0\0\0\0\0\0\0\x05\0\0\0\0name",
        b"\xba\0\0",
        b"\xba\0\0\0\0\0\0\0\x02",
        b"\xba\0\0\0\0\0\0\0\x02\0\0\0\0\0\x01k",
    ];
    each(
        |config| config.kyoto_timeout_ms = Some(1_000),
        |server| {
            let mut idle = Client::connect(server);
            assert_eq!(idle.call("void"), ok(""));
            let mut clients = HALVES.map(|_| Client::connect(server));
            let begun = Instant::now();
            for (client, half) in clients.iter_mut().zip(HALVES) {
                client.send(half);
            }
            for (client, half) in clients.iter_mut().zip(HALVES) {
                assert_eq!(client.rest(), "", "after {}", half.escape_ascii());
            }
            // By the time of day, which the system may correct meanwhile.
            assert!(begun.elapsed() >= Duration::from_millis(900));
            assert_eq!(server.info().connections, 1);
            assert_eq!(idle.call("void"), ok(""));
        },
    );
}

#[test]
fn kyoto_clients_and_their_calls_are_counted_as_such() {
    let server = Server::start(config(Backend::Native, 100)).unwrap();
    let mut client = Client::connect(&server);
    client.call("set?key=k&value=v");
    client.call("get?key=none");
    client.send(BINARY_GET).expect_binary("v");
    until("all is counted", || server.info().commands == 3);
    let info = server.info();
    assert_eq!(info.connections_by_protocol, [0, 0, 1]);
    assert_eq!(info.kyoto_port, server.addresses()[KYOTO].1.port());
    assert_eq!((info.hits, info.misses), (1, 1));
    let stats = server.command_stats(ProtocolName::Kyoto);
    assert_eq!(stats.iter().map(|c| c.calls).sum::<u64>(), 3);
    assert!(server.command_stats(ProtocolName::Resp).iter().all(|c| c.calls == 0));
    let info = ask_info(&server);
    let line = "connected_kyoto_clients:1\r\n";
    assert!(info.contains(line), "{line} is not in {info}");
}

/// A section of RESP's `INFO`.
fn ask_info(server: &Server) -> String {
    let mut stream = BufReader::new(connect(server, 0));
    stream.get_mut().write_all(b"INFO\r\n").unwrap();
    let mut length = String::new();
    stream.read_line(&mut length).unwrap();
    let mut text = vec![0; length[1..].trim_end().parse().unwrap()];
    stream.read_exact(&mut text).unwrap();
    String::from_utf8(text).unwrap()
}
