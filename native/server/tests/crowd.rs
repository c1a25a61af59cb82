//! Many Kyoto Tycoon clients that only wait: in a separate process, because of their descriptors.

mod serving;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serving::{config, connect, expect, until};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::{Mutex, PoisonError};
use todana_server::{Backend, Server};

const BACK_ENDS: [Backend; 3] = [Backend::Native, Backend::Portable, Backend::Poll];

/// One test at a time.
static DESCRIPTORS: Mutex<()> = Mutex::new(());

/// The number of connections that a test may open, both ends of which are in this process: at most
/// `wanted`.
fn affordable(wanted: usize) -> usize {
    let descriptors = 2 * wanted as u64 + 300;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let limit = soft.max(hard.min(descriptors));
    setrlimit(Resource::RLIMIT_NOFILE, limit, hard).unwrap();
    wanted.min((limit as usize - 300) / 2)
}

fn request(procedure: &str) -> String {
    format!("GET /rpc/{procedure} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
}

/// The body of the next response.
fn body(stream: &mut BufReader<TcpStream>) -> String {
    let mut length = 0;
    loop {
        let mut line = String::new();
        assert!(stream.read_line(&mut line).unwrap() > 0, "the connection ended");
        if let Some(text) = line.strip_prefix("Content-Length: ") {
            length = text.trim_end().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    String::from_utf8(body).unwrap()
}

#[test]
fn a_thousand_clients_wait_without_a_thread_and_one_signal_wakes_them() {
    let _alone = DESCRIPTORS.lock().unwrap_or_else(PoisonError::into_inner);
    let waiters = affordable(1_000);
    for backend in BACK_ENDS {
        let server = Server::start(config(backend, waiters + 2)).unwrap();
        let mut signaller = BufReader::new(connect(&server, 2));
        let mut ask = |procedure: &str| {
            signaller.get_mut().write_all(request(procedure).as_bytes()).unwrap();
            body(&mut signaller)
        };
        assert_eq!(ask("set?key=k&value=v"), "");
        let mut peers: Vec<_> = (0..waiters).map(|_| BufReader::new(connect(&server, 2))).collect();
        let behind = request("void?SIGNAL=nobody");
        let wait = request("get?key=k&WAIT=go&WAITTIME=60") + &behind;
        for peer in &mut peers {
            peer.get_mut().write_all(wait.as_bytes()).unwrap();
        }
        until("all wait", || server.info().blocked_clients == waiters as u64);
        // The input behind the waits is kept.
        let kept = (behind.len() * waiters) as u64;
        until("the rest is there", || server.info().client_buffer_bytes >= kept);
        expect(&connect(&server, 0), "PING\r\n", "+PONG\r\n");
        assert_eq!(ask("void?SIGNAL=go"), format!("SIGNALED\t{waiters}\n"));
        assert_eq!(ask("void?SIGNAL=go&SIGNALBROAD"), format!("SIGNALED\t{}\n", waiters - 1));
        assert_eq!(ask("void?SIGNAL=go&SIGNALBROAD"), "SIGNALED\t0\n");
        for peer in &mut peers {
            assert_eq!((body(peer).as_str(), body(peer).as_str()), ("value\tv\n", "SIGNALED\t0\n"));
        }
        assert_eq!(server.panics(), 0);
    }
}

#[test]
fn half_sent_requests_take_no_more_memory_than_was_sent() {
    let _alone = DESCRIPTORS.lock().unwrap_or_else(PoisonError::into_inner);
    let clients = affordable(2_000);
    let head = "POST /rpc/set HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\n";
    let half = format!("{head}{}", "x".repeat(1_024 - head.len()));
    for backend in BACK_ENDS {
        let server = Server::start(config(backend, clients + 1)).unwrap();
        let before = server.info().resident_bytes;
        let mut peers: Vec<TcpStream> = (0..clients).map(|_| connect(&server, 2)).collect();
        for peer in &mut peers {
            peer.write_all(half.as_bytes()).unwrap();
        }
        let sent = clients * half.len();
        until("all is there", || server.info().client_buffer_bytes >= sent as u64);
        expect(&connect(&server, 0), "PING\r\n", "+PONG\r\n");
        let info = server.info();
        let held = info.client_buffer_bytes as usize;
        assert!(held <= 2 * sent, "{held} bytes are held for {sent}");
        let each = info.resident_bytes.saturating_sub(before) as usize / clients;
        eprintln!("{}: {each} resident bytes for each half-sent request", info.event_backend);
        assert!(each < 1_024 + 4_096, "{each} resident bytes for each half-sent request");
        drop(peers);
        until("all is given back", || server.info().client_buffer_bytes == 0);
    }
}
