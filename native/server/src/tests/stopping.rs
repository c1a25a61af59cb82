//! Failures to start, and stopping at any time.

use super::*;
use crate::StartError;
use std::net::{SocketAddr, TcpListener};

fn refused(config: Config) -> String {
    match Server::start_with::<ScriptedDoor>(config, poller::open) {
        Err(StartError(sentence)) => sentence,
        Ok(_) => panic!("the server started"),
    }
}

#[test]
fn an_error_names_the_port_in_use_and_nothing_stays_bound() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let free: SocketAddr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let taken = (taken.local_addr().unwrap(), taken);
    let mut config = config(Backend::Native);
    config.listeners =
        vec![(ProtocolName::Resp.into(), free), (ProtocolName::Memcached.into(), taken.0)];
    let sentence = format!("cannot listen on {}: address already in use", taken.0);
    assert_eq!(refused(config), sentence);
    TcpListener::bind(free).unwrap();
}

#[test]
fn other_machines_need_a_password() {
    let mut config = config(Backend::Native);
    config.listeners[0].1 = "0.0.0.0:0".parse().unwrap();
    let begin = "cannot listen on 0.0.0.0:0: other machines could connect, and ";
    assert_eq!(refused(config.clone()), format!("{begin}no password is set"));
    config.password = Some(Vec::new());
    assert_eq!(refused(config.clone()), format!("{begin}the password is empty"));
    config.password = Some(b"secret".to_vec());
    assert!(Server::start_with::<ScriptedDoor>(config, poller::open).is_ok());
}

#[test]
fn select_refuses_more_connections_than_it_can_watch() {
    let config = config(Backend::Select);
    config.connections_max.set(10_000);
    let sentence = "the event back end select serves at most 960 connections, but the configured \
                    maximum is 10000";
    assert_eq!(refused(config), sentence);
}

#[test]
fn stopping_ends_idle_busy_and_stuck_clients_alike() {
    each(
        |config| config.output_bytes_soft = 60 << 20,
        |server| {
            let mut idle = Peer::connect(server);
            assert_eq!(idle.ask("x"), "x");
            let mut stuck = Peer::connect(server);
            stuck.send("big 30000000\n");
            let mut asleep = Peer::connect(server);
            asleep.send("sleep 100000\n");
            let busy = Peer::connect(server);
            let stream = busy.socket().try_clone().unwrap();
            let sender =
                std::thread::spawn(move || while (&stream).write_all(b"a\nb\nc\n").is_ok() {});
            until("all are there", || server.info().connections == 4);
            until("output waits", || server.info().client_buffer_bytes > 1_000_000);
            let begun = Instant::now();
            server.stop();
            server.stop();
            assert!(begun.elapsed() < PATIENCE);
            assert_eq!(server.info().connections, 0);
            assert_eq!(idle.rest(), b"");
            drop(busy);
            sender.join().unwrap();
            let refused = TcpStream::connect(server.addresses()[0].1);
            assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        },
    );
}

#[test]
fn replies_in_flight_have_a_grace_period() {
    each(
        |_| {},
        |server| {
            let mut peer = Peer::connect(server);
            peer.send("big 20000000\n");
            until("output waits", || server.info().client_buffer_bytes > 1_000_000);
            let reader = std::thread::spawn(move || peer.rest().len());
            let begun = Instant::now();
            server.stop();
            // A client that is slow because of other work has no longer than that.
            let has_ended = begun.elapsed() >= Duration::from_millis(250);
            assert!(reader.join().unwrap() == 20_000_001 || has_ended);
        },
    );
}

#[test]
fn a_server_stops_when_it_is_dropped() {
    let server = Server::start_with::<ScriptedDoor>(config(Backend::Native), poller::open).unwrap();
    let address = server.addresses()[0].1;
    let mut peer = Peer::connect(&server);
    assert_eq!(peer.ask("x"), "x");
    drop(server);
    assert_eq!(peer.rest(), b"");
    TcpListener::bind(address).unwrap();
}
