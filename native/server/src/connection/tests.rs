//! The time limits that apply to a connection in each state.

use super::*;
use crate::tests::scripted::ScriptedDoor;
use crate::{Backend, Server, clients, poller};

/// Limits of 1,000 ms, and a connection that connected at 0 and last sent something at 500.
fn overdue(change: impl Fn(&mut Connection<ScriptedDoor>), now_ms: u64) -> bool {
    let config = crate::Config {
        password: Some(b"secret".to_vec()),
        authentication_timeout_ms: 1_000,
        idle_timeout_ms: Some(1_000).into(),
        ..crate::tests::config(Backend::Native)
    };
    let (server, mut connection) = connection(config);
    connection.client.active_at_ms.store(500, Relaxed);
    change(&mut connection);
    connection.is_overdue(&server.shared, &LoopStatistics::new(), now_ms)
}

fn connection(config: crate::Config) -> (Server, Connection<ScriptedDoor>) {
    let server = Server::start_with::<ScriptedDoor>(config, poller::open).unwrap();
    let socket = TcpStream::connect(server.addresses()[0].1).unwrap();
    let connection = Connection::<ScriptedDoor>::new(socket, clients::tests::client(1), true);
    (server, connection)
}

#[test]
fn a_silent_client_is_idle_unless_its_request_is_in_progress() {
    assert_eq!([1_499, 1_500].map(|now_ms| overdue(|_| (), now_ms)), [false, true]);
    assert!(!overdue(|it| it.queued = true, 100_000), "it has another turn to come");
    assert!(!overdue(|it| it.wakes_at_ns = Some(1), 100_000), "it waits for a signal");
    // A client that does not take its replies has no request in progress.
    let waits = |it: &mut Connection<_>| {
        it.pending = true;
        it.output.push(vec![0; 10], 0);
    };
    assert!(overdue(waits, 1_500));
}

#[test]
fn a_password_that_arrived_in_time_is_checked_even_if_delayed() {
    let sleeping = |it: &mut Connection<ScriptedDoor>| {
        (it.authenticated, it.asleep, it.wakes_at_ns) = (false, Asleep::Mute, Some(1));
    };
    assert!(!overdue(sleeping, 100_000));
    let late = |it: &mut Connection<ScriptedDoor>| {
        sleeping(it);
        it.client.active_at_ms.store(1_000, Relaxed);
    };
    assert!(overdue(late, 1_000), "one that came too late is not");
    assert!(overdue(|it| it.authenticated = false, 1_000));
}

#[test]
fn the_time_above_the_soft_limit_begins_anew() {
    let config = crate::Config {
        output_bytes_soft: 10,
        output_soft_ms: 1_000,
        ..crate::tests::config(Backend::Native)
    };
    let (server, mut connection) = connection(config);
    let (statistics, clock) = (LoopStatistics::new(), Clock::new());
    let overdue = |it: &mut Connection<_>, now_ms| {
        it.is_overdue(&server.shared, &LoopStatistics::new(), now_ms)
    };
    connection.output.push(vec![0; 11], 0);
    assert!(!overdue(&mut connection, 5_000));
    assert!(!overdue(&mut connection, 5_999));
    // The client takes all of it, and is slow later.
    connection.flush(&statistics, &clock).unwrap();
    connection.output.push(vec![0; 11], 0);
    assert!(!overdue(&mut connection, 9_000));
    // It takes a part.
    connection.output = Outgoing::default();
    connection.output.push(vec![0; 10], 0);
    connection.note_soft_limit(&server.shared.config);
    connection.output.push(vec![0; 1], 0);
    assert!(!overdue(&mut connection, 20_000));
    assert!(overdue(&mut connection, 21_000));
}
