//! The limits of a client.

use super::*;
use crate::clock::wall_ms;
use crate::frame::Frame;
use crate::invalidations;
use std::net::Shutdown;
use std::sync::atomic::Ordering::Relaxed;

#[test]
fn clients_beyond_the_limit_receive_an_error_and_are_closed() {
    each(
        |config| config.connections_max.set(2),
        |server| {
            let mut first = Peer::connect(server);
            let mut second = Peer::connect(server);
            assert_eq!((first.ask("a"), second.ask("b")), ("a".into(), "b".into()));
            let third = Peer::connect(server).rest();
            assert_eq!(third, b"-ERR max number of clients reached\r\n");
            let info = server.info();
            assert_eq!((info.connections, info.connections_rejected), (2, 1));
            assert_eq!((info.connections_peak, info.connections_max), (2, 2));
            drop(first);
            until("a place is free", || server.info().connections == 1);
            assert_eq!(Peer::connect(server).ask("c"), "c");
            assert_eq!(second.ask("set maxclients 1"), "ok");
            until("the place is free again", || server.info().connections == 1);
            assert!(Peer::connect(server).rest().starts_with(b"-ERR max"));
        },
    );
}

#[test]
fn a_request_longer_than_the_input_limit_ends_the_connection() {
    each(
        |config| config.input_bytes_max = 100_000,
        |server| {
            let mut peer = Peer::connect(server);
            let line = "y".repeat(99_998);
            assert_eq!(peer.ask(&line).len(), 99_998);
            peer.send(&"y".repeat(100_001));
            assert_eq!(peer.rest(), b"-ERR Protocol error: too big input buffer\r\n");
            // The announced length counts as well, before the bytes arrive.
            let mut peer = Peer::connect(server);
            assert_eq!(peer.ask("swallow 200000"), "-ERR Protocol error: too big input buffer");
            until("both are gone", || server.info().connections == 0);
        },
    );
}

#[test]
fn an_announced_length_takes_no_memory() {
    each(
        |config| config.input_bytes_max = 1 << 30,
        |server| {
            let mut peer = Peer::connect(server);
            peer.send("swallow 1000000000\n").send(&"y".repeat(20_000));
            until("the server has it", || server.info().input_bytes > 20_000);
            std::thread::sleep(Duration::from_millis(10));
            assert!(server.info().client_buffer_bytes < 300_000);
        },
    );
}

#[test]
fn a_client_that_reads_nothing_is_held_and_then_closed() {
    let limits = |config: &mut Config| {
        config.output_bytes_soft = 2 << 20;
        config.output_soft_ms = 1_000;
    };
    each(limits, |server| {
        let peer = Peer::connect(server);
        let stream = peer.socket().try_clone().unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        let sender = std::thread::spawn(move || {
            let requests = "big 100000\n".repeat(1_000);
            while (&stream).write_all(requests.as_bytes()).is_ok() {}
        });
        let mut most = 0;
        until("the client is closed", || {
            most = most.max(server.info().client_buffer_bytes);
            gone(server)
        });
        sender.join().unwrap();
        assert!(most > 2 << 20 && most < 6 << 20, "{most} bytes waited at most");
        assert_eq!(server.info().output_limit_disconnections, 1);
    });
}

#[test]
fn a_held_client_continues_when_it_reads() {
    each(
        |config| config.output_bytes_soft = 100_000,
        |server| {
            let mut peer = Peer::connect(server);
            peer.send(&"big 100000\n".repeat(300)).send("end\n");
            until("output waits", || server.info().client_buffer_bytes > 100_000);
            (0..300).for_each(|_| assert_eq!(peer.line().len(), 100_000));
            assert_eq!(peer.line(), "end");
        },
    );
}

#[test]
fn too_much_output_ends_the_connection_at_once() {
    each(
        |config| config.output_bytes_hard = 10 << 20,
        |server| {
            let mut peer = Peer::connect(server);
            peer.send("big 60000000\n");
            until("the client is closed", || gone(server));
            assert_eq!(server.info().output_limit_disconnections, 1);
            assert!(peer.rest().len() < 60_000_000);
        },
    );
}

#[test]
fn idle_clients_are_closed_and_busy_ones_are_not() {
    each(
        |config| config.idle_timeout_ms.set(Some(3_000)),
        |server| {
            let (mut idle, mut busy) = (Peer::connect(server), Peer::connect(server));
            let begun = Instant::now();
            let mut asked = begun;
            assert_eq!(idle.ask("x"), "x");
            until("the idle client is closed", || {
                match busy.send("x\n").try_line() {
                    Some(answer) => assert_eq!(answer, "x"),
                    // If this test was stopped for long, the client was idle.
                    None => {
                        assert!(asked.elapsed() >= Duration::from_millis(3_000));
                        busy = Peer::connect(server);
                    }
                }
                asked = Instant::now();
                server.info().connections == 1
            });
            assert!(begun.elapsed() >= Duration::from_millis(3_000));
            assert_eq!(idle.rest(), b"");
            assert_eq!(busy.ask("set timeout 0"), "ok");
            assert_eq!(busy.ask("get timeout"), "0");
        },
    );
}

#[test]
fn a_client_is_active_while_it_is_served_and_when_it_takes_replies() {
    each(
        |_| {},
        |server| {
            let mut peer = Peer::connect(server);
            let sent_at_ms = wall_ms();
            peer.send("work 40\nlast\n");
            assert_eq!((peer.line(), peer.line()), ("work 40".into(), "last".into()));
            let active_at_ms = || server.shared.clients.list()[0].active_at_ms.load(Relaxed);
            // The second request was executed in a separate turn, after the first.
            assert!(active_at_ms() >= sent_at_ms + 39);

            peer.send("big 50000000\n");
            until("output waits", || server.info().client_buffer_bytes > 1_000_000);
            std::thread::sleep(Duration::from_millis(20));
            let read_at_ms = wall_ms();
            peer.stream.read_exact(&mut vec![0; 30_000_000]).unwrap();
            until("taking replies counts", || active_at_ms() >= read_at_ms);
            assert_eq!(peer.line().len(), 20_000_000);
        },
    );
}

/// Kyoto Tycoon's timeout of half-sent requests on the first listener, and none on the second.
fn half_sent_requests_for(ms: Option<u64>) -> impl Fn(&mut Config) {
    move |config| {
        let address = config.listeners[0].1;
        config.listeners =
            vec![(ProtocolName::Kyoto.into(), address), (ProtocolName::Resp.into(), address)];
        config.kyoto_timeout_ms = ms;
    }
}

#[test]
fn a_kyoto_client_that_sends_half_a_request_is_closed() {
    each(half_sent_requests_for(Some(1_000)), |server| {
        let begun = Instant::now();
        let mut peers: Vec<Peer> = (0..3).map(|_| Peer::connect(server)).collect();
        peers[0].send("half");
        peers[1].send("swallow 1000\nhalf");
        peers[2].send("whole\nhalf");
        assert_eq!(peers.remove(2).rest(), b"whole\n");
        peers.iter_mut().for_each(|peer| assert_eq!(peer.rest(), b""));
        // By the time of day, which the system may correct meanwhile.
        assert!(begun.elapsed() >= Duration::from_millis(900));
        until("their buffers are given back", || server.info().client_buffer_bytes == 0);
    });
}

#[test]
fn half_a_request_may_take_any_time_without_a_timeout() {
    each(half_sent_requests_for(None), |server| {
        let mut peer = Peer::connect(server);
        peer.send("half");
        std::thread::sleep(Duration::from_millis(1_500));
        assert_eq!(peer.ask(" and whole"), "half and whole");
    });
}

#[test]
fn the_kyoto_timeout_affects_only_clients_with_half_a_request() {
    each(half_sent_requests_for(Some(3_000)), |server| {
        let [mut idle, mut waiting, mut slow] = [(); 3].map(|()| Peer::connect(server));
        assert_eq!(idle.ask("x"), "x");
        waiting.send("wait a 4000\nhalf");
        let resp = TcpStream::connect(server.addresses()[1].1).unwrap();
        (&resp).write_all(b"half").unwrap();
        for part in ["a", "b", "c", "d", "e", "f"] {
            slow.send(part);
            std::thread::sleep(Duration::from_millis(700));
        }
        assert_eq!((slow.ask(""), idle.ask("y")), ("abcdef".into(), "y".into()));
        // The time limit starts again when the wait ends.
        assert_eq!(
            (waiting.line(), waiting.ask(" and whole")),
            ("late".into(), "half and whole".into())
        );
        assert_eq!(server.info().connections_by_protocol, [1, 0, 3]);
    });
}

#[test]
fn clients_must_authenticate_in_time() {
    let limits = |config: &mut Config| {
        config.password = Some(b"secret".to_vec());
        config.authentication_timeout_ms = 4_000;
    };
    each(limits, |server| {
        let mut known = Peer::connect(server);
        assert_eq!(
            (known.ask("auth wrong"), known.ask("auth secret")),
            ("false".into(), "true".into())
        );
        let mut unknown = Peer::connect(server);
        assert_eq!(unknown.ask("auth guess"), "false");
        let mut stranger = Peer::connect(server);
        assert_eq!(stranger.ask("stranger secret"), "true", "but the user's name is wrong");
        assert_eq!((unknown.rest(), stranger.rest()), (vec![], vec![]));
        assert_eq!(known.ask("still here"), "still here");
        assert_eq!(server.info().authentication_failures, 2);
    });
}

#[test]
fn all_connections_of_an_address_share_its_count_of_wrong_passwords() {
    each(
        |config| config.password = Some(b"secret".to_vec()),
        |server| {
            let address = "127.0.0.1".parse().unwrap();
            let delay_ms = || server.shared.guesses.delay_ms(address, wall_ms());
            let mut known = Peer::connect(server);
            assert_eq!(known.ask("auth secret"), "true");
            for _ in 0..5 {
                assert_eq!(Peer::connect(server).ask("auth guess"), "false");
            }
            // Some may be forgiven by now, if the machine is slow.
            assert!([100, 200].contains(&delay_ms()), "{}", delay_ms());
            // A right password is delayed, and accepted.
            let begun = Instant::now();
            assert_eq!(Peer::connect(server).ask("auth secret"), "true");
            assert!(begun.elapsed() >= Duration::from_millis(100));
            assert_eq!(known.ask("not slowed"), "not slowed");
            // A guesser that disconnects while its reply is delayed frees its place.
            Peer::connect(server).send("auth guess\nx");
            until("it is gone", || server.info().connections == 1);
        },
    );
}

#[test]
fn a_client_that_has_ended_its_side_still_gets_the_result_of_auth() {
    each(
        |config| config.password = Some(b"secret".to_vec()),
        |server| {
            let address = "127.0.0.1".parse().unwrap();
            (0..16).for_each(|_| server.shared.guesses.note_failure(address, wall_ms()));
            for (requests, answers) in
                [("auth secret\nx\n", "true\nx\n"), ("auth guess\n", "false\n")]
            {
                assert!(server.shared.guesses.delay_ms(address, wall_ms()) >= 100);
                let mut peer = Peer::connect(server);
                peer.send(requests).socket().shutdown(Shutdown::Write).unwrap();
                assert_eq!(peer.rest(), answers.as_bytes());
            }
            until("nobody is left", || server.info().connections == 0);
        },
    );
}

#[test]
fn a_client_is_killed_by_its_id() {
    each(
        |_| {},
        |server| {
            let mut peers: Vec<Peer> = (0..4).map(|_| Peer::connect(server)).collect();
            peers.iter_mut().for_each(|peer| assert_eq!(peer.ask("x"), "x"));
            let clients = server.shared.clients.list();
            let killer = peers[0].socket().local_addr().unwrap();
            let victim = clients.iter().find(|c| c.address != killer).unwrap();
            let address = victim.address;
            assert_eq!(peers[0].ask("kill 999"), "false");
            assert_eq!(peers[0].ask(&format!("kill {}", victim.id)), "true");
            let killed = peers.iter_mut().find(|p| p.socket().local_addr().unwrap() == address);
            assert_eq!(killed.unwrap().rest(), b"");
            assert_eq!(server.shared.clients.list().len(), 3);
            // A client that kills itself gets its reply first.
            let own = clients.iter().find(|c| c.address == killer).unwrap().id;
            assert_eq!(peers[0].ask(&format!("kill {own}")), "true");
            assert_eq!(peers[0].rest(), b"");
            assert_eq!(server.shared.clients.list().len(), 2);
        },
    );
}

#[test]
fn options_change_while_the_server_runs() {
    each(
        |_| {},
        |server| {
            let mut peer = Peer::connect(server);
            assert_eq!(peer.ask("set maxmemory 100mb"), "ok");
            assert_eq!(peer.ask("get maxmemory"), "104857600");
            assert_eq!(server.info().memory_limit_bytes, 100 << 20);
            assert_eq!(peer.ask("set maxmemory 0"), "ok");
            assert_eq!(server.info().memory_limit_bytes, 0);
            assert_eq!(peer.ask("get maxmemory-policy"), "noeviction");
            assert_eq!(peer.ask("set maxmemory-policy allkeys-lfu"), "ok");
            assert_eq!(server.info().memory_policy, "allkeys-lfu");
            assert_eq!(peer.ask("get slowlog-log-slower-than"), "-1");
            assert_eq!(peer.ask("set slowlog-log-slower-than 10"), "ok");
            assert_eq!(peer.ask("get slowlog-log-slower-than"), "10");
            assert_eq!(peer.ask("get bind"), "127.0.0.1");
            assert_eq!(
                peer.ask("set bind 0.0.0.0"),
                "option bind cannot be changed while the server runs"
            );
            assert_eq!(peer.ask("set bind 127.0.0.1"), "ok");
            assert_eq!(peer.ask("set nonsense 1"), "there is no option of this name");
            assert_eq!(peer.ask("set requirepass x"), "ok");
            assert_eq!(peer.ask("get requirepass"), "x");
            let mut other = Peer::connect(server);
            assert_eq!((other.ask("auth y"), other.ask("auth x")), ("false".into(), "true".into()));
        },
    );
}

#[test]
fn a_redirection_that_overloads_a_loop_ends() {
    each(
        |_| {},
        |server| {
            let mut peer = Peer::connect(server);
            assert_eq!(peer.ask("a"), "a");
            let id = server.shared.clients.list()[0].id;
            let frame = Frame::invalidation(None);
            assert!(server.shared.redirect(id, &frame));
            let bytes = || server.shared.loops.iter().map(|it| it.redirected_bytes.load(Relaxed));
            until("it is delivered", || bytes().sum::<usize>() == 0);
            for part in server.shared.loops.iter() {
                part.redirected_bytes.store(invalidations::WAITING_BYTES_MAX + 1, Relaxed);
            }
            assert!(!server.shared.redirect(id, &frame));
            assert_eq!(peer.rest(), b"");
        },
    );
}
