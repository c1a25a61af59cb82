//! Behaviour when descriptors run out, or have numbers that `select` cannot watch. In a separate
//! process, because it takes the descriptors of the whole process.

mod serving;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serving::{config, connect, expect, until};
use std::fs::File;
use std::io::Read;
use std::net::TcpStream;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use todana_server::{Backend, Server};

/// One test at a time.
static DESCRIPTORS: Mutex<()> = Mutex::new(());

fn held(count: usize) -> Vec<File> {
    (0..count).map_while(|_| File::open("/dev/null").ok()).collect()
}

#[test]
fn a_connection_that_select_cannot_watch_is_refused_and_the_server_survives() {
    let _alone = DESCRIPTORS.lock().unwrap_or_else(PoisonError::into_inner);
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    if hard < 1_200 {
        eprintln!("skipped: the limit of open files is too low");
        return;
    }
    setrlimit(Resource::RLIMIT_NOFILE, soft.max(1_200), hard).unwrap();
    let server = Server::start(config(Backend::Select, 900)).unwrap();
    let early = connect(&server, 0);
    expect(&early, "PING\r\n", "+PONG\r\n");
    let taken = held(1_024);
    for (listener, words) in
        [(0, "-ERR max number of clients reached\r\n"), (1, "ERROR Too many open connections\r\n")]
    {
        let mut text = String::new();
        connect(&server, listener).read_to_string(&mut text).unwrap();
        assert_eq!(text, words);
    }
    expect(&early, "PING\r\n", "+PONG\r\n");
    drop(taken);
    expect(&connect(&server, 0), "PING\r\n", "+PONG\r\n");
    assert_eq!((server.info().connections_rejected, server.panics()), (2, 0));
    drop(server);
    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
}

#[test]
fn a_server_without_free_descriptors_accepts_later() {
    let _alone = DESCRIPTORS.lock().unwrap_or_else(PoisonError::into_inner);
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    for backend in [Backend::Native, Backend::Poll] {
        let server = Server::start(config(backend, 100)).unwrap();
        let early = connect(&server, 0);
        expect(&early, "PING\r\n", "+PONG\r\n");
        setrlimit(Resource::RLIMIT_NOFILE, 256.min(soft), hard).unwrap();
        let mut taken = held(300);
        // Leaves descriptors for the client's end of one connection, and none for the server's.
        taken.pop();
        let late = connect(&server, 0);
        let before = cpu_ms();
        std::thread::sleep(Duration::from_millis(400));
        let spent = cpu_ms() - before;
        assert!(spent < 200, "{spent} ms of CPU while there was nothing to do");
        expect(&early, "PING\r\n", "+PONG\r\n");
        assert_eq!(server.info().connections, 1);
        drop(taken);
        expect(&late, "PING\r\n", "+PONG\r\n");
        setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
        until("both are there", || server.info().connections == 2);
    }
}

#[test]
fn two_thousand_idle_connections_cost_little() {
    let _alone = DESCRIPTORS.lock().unwrap_or_else(PoisonError::into_inner);
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let connections: usize = if hard >= 4_300 { 2_000 } else { hard as usize / 2 - 150 };
    setrlimit(Resource::RLIMIT_NOFILE, soft.max(hard.min(4_300)), hard).unwrap();
    for backend in [Backend::Native, Backend::Portable, Backend::Poll] {
        let server = Server::start(config(backend, connections)).unwrap();
        let before = server.info().resident_bytes;
        let clients: Vec<TcpStream> = (0..connections).map(|_| connect(&server, 0)).collect();
        clients.iter().for_each(|client| expect(client, "PING\r\n", "+PONG\r\n"));
        let info = server.info();
        assert_eq!((info.connections, info.client_buffer_bytes), (connections as u64, 0));
        let each = info.resident_bytes.saturating_sub(before) as usize / connections;
        eprintln!("{}: {each} resident bytes for each idle connection", info.event_backend);
        assert!(each < 4_096, "{each} resident bytes for each idle connection");
        drop(clients);
        until("all are gone", || server.info().connections == 0);
    }
    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
}

fn cpu_ms() -> u64 {
    use nix::sys::resource::{UsageWho, getrusage};
    use nix::sys::time::TimeValLike;
    let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    (usage.user_time().num_milliseconds() + usage.system_time().num_milliseconds()) as u64
}
