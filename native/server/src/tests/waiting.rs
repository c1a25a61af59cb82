//! Clients that wait for a signal.

use super::*;
use std::net::Shutdown;

/// This many clients that wait for `name`, in the order in which they began.
fn waiters(server: &Server, count: usize, name: &str, ms: u64) -> Vec<Peer> {
    let before = server.shared.waiters.count().1;
    let wait = |number| {
        let mut peer = Peer::connect(server);
        peer.send(&format!("wait {name} {ms}\n"));
        until("the client waits", || server.shared.waiters.count().1 == before + number);
        peer
    };
    (1..=count).map(wait).collect()
}

fn nobody_waits(server: &Server) -> bool {
    server.shared.waiters.count() == (0, 0)
}

/// Long enough for an unwanted event to happen.
fn pause() {
    std::thread::sleep(Duration::from_millis(30));
}

/// Whether nothing has arrived for this client.
fn receives_nothing(peer: &Peer) -> bool {
    peer.socket().set_nonblocking(true).unwrap();
    let arrived = peer.socket().peek(&mut [0]);
    peer.socket().set_nonblocking(false).unwrap();
    arrived.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

#[test]
fn a_signal_wakes_the_first_waiter_on_any_loop() {
    each(
        |_| {},
        |server| {
            let mut signaller = Peer::connect(server);
            let mut peers = waiters(server, 5, "a", 60_000);
            for waiting in (1..=5).rev() {
                assert_eq!(signaller.ask("signal a"), waiting.to_string());
                assert_eq!(peers.remove(0).line(), "signalled");
                pause();
                assert!(peers.iter().all(receives_nothing));
            }
            assert_eq!(signaller.ask("signal a"), "0");
            assert!(nobody_waits(server));
            assert!(server.shared.loops.iter().all(|part| part.statistics.commands.get() > 1));
        },
    );
}

#[test]
fn a_signal_to_all_wakes_all_waiters_for_this_name() {
    each(
        |_| {},
        |server| {
            let mut peers = waiters(server, 4, "a", 60_000);
            let mut other = waiters(server, 1, "b", 60_000);
            let mut signaller = Peer::connect(server);
            assert_eq!(signaller.ask("signal a all"), "4");
            peers.iter_mut().for_each(|peer| assert_eq!(peer.line(), "signalled"));
            assert_eq!(peers[0].ask("awake"), "awake");
            assert_eq!(
                (signaller.ask("signal a all"), receives_nothing(&other[0])),
                ("0".into(), true)
            );
            assert_eq!(signaller.ask("signal b all"), "1");
            assert_eq!(other[0].line(), "signalled");
        },
    );
}

#[test]
fn a_wait_ends_when_its_time_is_over() {
    each(
        |_| {},
        |server| {
            let mut peer = Peer::connect(server);
            let begun = Instant::now();
            assert_eq!(peer.ask("wait a 120"), "late");
            assert!(begun.elapsed() >= Duration::from_millis(120));
            assert!(nobody_waits(server));
            assert_eq!((peer.ask("signal a"), peer.ask("wait a 0")), ("0".into(), "late".into()));
        },
    );
}

#[test]
fn an_earlier_deadline_does_not_end_a_later_wait() {
    each(
        |_| {},
        |server| {
            let mut signaller = Peer::connect(server);
            // On a slow machine the first wait may end before the signal arrives.
            let (mut peer, ms) = [150, 1_500, 15_000]
                .into_iter()
                .find_map(|ms| {
                    let mut peer = Peer::connect(server);
                    peer.send(&format!("waits\nwait a {ms}\n"));
                    assert_eq!(peer.line(), "waits");
                    let signalled = signaller.ask("signal a");
                    assert_eq!(peer.line(), if signalled == "1" { "signalled" } else { "late" });
                    (signalled == "1").then_some((peer, ms))
                })
                .unwrap();
            peer.send("wait a 600000\n");
            until("the client waits again", || server.shared.waiters.count().1 == 1);
            std::thread::sleep(Duration::from_millis(ms + 100));
            assert!(receives_nothing(&peer));
            assert_eq!(signaller.ask("signal a"), "1");
            assert_eq!(peer.line(), "signalled");
        },
    );
}

#[test]
fn a_wait_for_a_name_that_is_too_long_times_out() {
    each(
        |config| config.limits.key_bytes_max = 3,
        |server| {
            let mut peer = Peer::connect(server);
            peer.send("wait abcd 100\n");
            pause();
            assert!(nobody_waits(server));
            assert_eq!(Peer::connect(server).ask("signal abcd"), "0");
            assert_eq!(peer.line(), "late");
        },
    );
}

#[test]
fn replies_before_a_wait_are_sent_at_once() {
    each(
        |_| {},
        |server| {
            let mut peer = Peer::connect(server);
            peer.send("before\nbig 3000000\nwait a 60000\n");
            assert_eq!((peer.line(), peer.line().len()), ("before".into(), 3_000_000));
            until("the client waits", || server.shared.waiters.count().1 == 1);
            pause();
            assert!(receives_nothing(&peer));
            assert_eq!(Peer::connect(server).ask("signal a"), "1");
            assert_eq!(peer.line(), "signalled");
        },
    );
}

#[test]
fn requests_behind_a_wait_are_executed_after_it() {
    each(
        |_| {},
        |server| {
            let mut peer = Peer::connect(server);
            peer.send("wait a 60000\nsignal b\nbegun ");
            until("the client waits", || server.shared.waiters.count().1 == 1);
            peer.send("and ended\n").send("last\n");
            pause();
            assert!(receives_nothing(&peer));
            let mut other = waiters(server, 1, "b", 60_000);
            assert_eq!(Peer::connect(server).ask("signal a"), "1");
            let lines: Vec<String> = (0..4).map(|_| peer.line()).collect();
            assert_eq!(lines, ["signalled", "1", "begun and ended", "last"]);
            assert_eq!(other[0].line(), "signalled");
        },
    );
}

#[test]
fn a_client_that_disconnects_while_it_waits_is_not_signalled() {
    each(
        |_| {},
        |server| {
            let mut peers = waiters(server, 3, "a", 60_000);
            drop(peers.remove(1));
            until("the client is gone", || server.info().connections == 2);
            let mut signaller = Peer::connect(server);
            for (waiting, mut peer) in [("2", peers.remove(0)), ("1", peers.remove(0))] {
                assert_eq!(
                    (signaller.ask("signal a"), peer.line()),
                    (waiting.into(), "signalled".into())
                );
            }
        },
    );
}

#[test]
fn disconnected_clients_with_unread_input_free_their_places() {
    each(
        |_| {},
        |server| {
            let requests = ["wait a 4000000000\n", "sleep 4000000000\n"];
            for (request, in_all) in requests.into_iter().zip([100, 200]) {
                for number in 0..100 {
                    let mut peer = Peer::connect(server);
                    peer.send(request);
                    if number % 2 == 0 {
                        until("the request is there", || server.info().input_bytes > 0);
                    }
                    peer.send("x");
                }
                until("all have come", || server.shared.clients.totals().0 == in_all);
                until("none is left", || server.info().connections == 0);
                assert!(nobody_waits(server));
            }
        },
    );
}

#[test]
fn a_waiting_client_that_has_sent_more_stays() {
    each(
        |_| {},
        |server| {
            let mut peer = waiters(server, 1, "a", 60_000).remove(0);
            peer.send("next\n");
            let left = waiters(server, 1, "b", 60_000)
                .remove(0)
                .send("next\n")
                .socket()
                .shutdown(Shutdown::Write);
            left.unwrap();
            // When this one is gone, the loops have checked for disconnected clients.
            until("the other is gone", || server.info().connections == 1);
            assert_eq!(Peer::connect(server).ask("signal a"), "1");
            assert_eq!((peer.line(), peer.line()), ("signalled".into(), "next".into()));
        },
    );
}

#[test]
fn a_waiting_client_can_be_killed() {
    each(
        |_| {},
        |server| {
            let mut peer = waiters(server, 1, "a", 60_000).remove(0);
            let id = server.shared.clients.list()[0].id;
            assert_eq!(Peer::connect(server).ask(&format!("kill {id}")), "true");
            assert_eq!(peer.rest(), b"");
            until("its place is free", || nobody_waits(server));
        },
    );
}

#[test]
fn a_server_with_waiting_clients_stops() {
    each(
        |_| {},
        |server| {
            let mut peers = waiters(server, 4, "a", 60_000);
            let begun = Instant::now();
            server.stop();
            assert!(begun.elapsed() < PATIENCE);
            peers.iter_mut().for_each(|peer| assert_eq!(peer.rest(), b""));
            assert!(nobody_waits(server));
        },
    );
}

#[test]
fn many_simultaneous_wake_ups_kills_or_timeouts_take_several_rounds() {
    const COUNT: usize = 150;
    each(
        |config| config.idle_timeout_ms.set(Some(1_000_000)),
        |server| {
            let most = || server.shared.loops.iter().map(|it| it.statistics.round_most.get()).max();
            let mut peers = waiters(server, COUNT, "a", 60_000);
            let mut other = Peer::connect(server);
            assert_eq!(other.ask("signal a all"), COUNT.to_string());
            peers.iter_mut().for_each(|peer| assert_eq!(peer.line(), "signalled"));
            // All sleep until the same moment, as far as possible.
            for peer in &mut peers {
                peer.send("sleep 300\n");
            }
            peers.iter_mut().for_each(|peer| assert_eq!(peer.line(), "slept"));
            for client in server.shared.clients.list() {
                if client.address != other.socket().local_addr().unwrap() {
                    server.shared.kill(client.id);
                }
            }
            until("all are killed", || server.info().connections == 1);
            assert_eq!(other.ask("x"), "x");
            assert!(most() <= Some(64), "{:?} in one round", most());
        },
    );
}

#[test]
fn many_waiters_are_each_woken_once() {
    const COUNT: usize = 150;
    each(
        |_| {},
        |server| {
            let mut peers: Vec<Peer> = (0..COUNT).map(|_| Peer::connect(server)).collect();
            for peer in &mut peers {
                peer.send("wait a 60000\nafter\n");
            }
            until("all wait", || server.shared.waiters.count() == (1, COUNT));
            let signal = |_| {
                let mut signaller = Peer::connect(server);
                std::thread::spawn(move || {
                    (0..30).filter(|_| signaller.ask("signal a") != "0").count()
                })
            };
            let signallers: Vec<_> = (0..4).map(signal).collect();
            let woken: usize = signallers.into_iter().map(|thread| thread.join().unwrap()).sum();
            assert_eq!(woken, 120);
            assert_eq!(Peer::connect(server).ask("signal a all"), "30");
            for peer in &mut peers {
                assert_eq!((peer.line(), peer.line()), ("signalled".into(), "after".into()));
            }
            assert!(nobody_waits(server) && peers.iter().all(receives_nothing));
        },
    );
}
