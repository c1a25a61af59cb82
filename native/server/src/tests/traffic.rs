//! Requests and replies, in pieces of any size.

use super::*;

#[test]
fn a_request_is_answered() {
    each(|_| {}, |server| assert_eq!(Peer::connect(server).ask("hello"), "hello"));
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    each(
        |_| {},
        |server| {
            let mut peer = Peer::connect(server);
            let requests: String = (0..5_000).map(|i| format!("{i}\n")).collect();
            peer.send(&requests);
            (0..5_000).for_each(|i| assert_eq!(peer.line(), i.to_string()));
        },
    );
}

#[test]
fn a_request_may_arrive_byte_by_byte() {
    each(
        |_| {},
        |server| {
            let mut peer = Peer::connect(server);
            peer.socket().set_nodelay(true).unwrap();
            for _ in 0..3 {
                for byte in "little\n".chars() {
                    peer.send(&byte.to_string());
                    std::thread::sleep(Duration::from_millis(1));
                }
                assert_eq!(peer.line(), "little");
            }
            let client = &server.shared.clients.list()[0];
            let held = || client.input_bytes.load(std::sync::atomic::Ordering::Relaxed);
            assert_eq!(held(), 0);
            peer.send("begun");
            until("the server holds what was begun", || held() == 5);
            assert!(server.info().client_buffer_bytes >= 5);
            assert_eq!(peer.ask(""), "begun");
            until("the buffer is given back", || server.info().client_buffer_bytes == 0);
        },
    );
}

#[test]
fn long_requests_continue_over_many_turns() {
    each(
        |_| {},
        |server| {
            let mut peer = Peer::connect(server);
            for length in [0, 1, 16_000, 16_384, 65_536, 700_000, 1_000_000] {
                peer.send(&format!("swallow {length}\n"));
                for part in vec!["y".repeat(10_000); length / 10_000] {
                    peer.send(&part);
                }
                peer.send(&"y".repeat(length % 10_000));
                peer.send("next\n");
                assert_eq!((peer.line(), peer.line()), ("swallowed".into(), "next".into()));
            }
            until("the buffer is given back", || server.info().client_buffer_bytes == 0);
        },
    );
}

#[test]
fn a_long_request_may_end_with_bytes_of_an_unknown_number() {
    each(
        |config| config.input_bytes_max = 8 << 20,
        |server| {
            let mut peer = Peer::connect(server);
            let received = || server.info().input_bytes as usize;
            for length in [16_384, 65_536, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3 << 20] {
                let before = received();
                // Less than is known to be missing arrives first, then all of it, then the tail.
                peer.send(&format!("swallow {length}\n")).send(&"y".repeat(length - 1));
                until("most has arrived", || received() - before >= length);
                peer.send("ytai");
                until("a part of the tail has arrived", || received() - before >= length + 4);
                peer.send("l\n");
                assert_eq!((peer.line(), peer.line()), ("swallowed".into(), "tail".into()));
                // The session knows nothing about the end of a line.
                let before = received();
                peer.send(&"z".repeat(length));
                until("all but the end has arrived", || received() - before == length);
                peer.send("\n");
                assert_eq!(peer.line().len(), length);
            }
            until("the buffer is given back", || server.info().client_buffer_bytes == 0);
        },
    );
}

#[test]
fn long_replies_reach_a_slow_reader() {
    each(
        |_| {},
        |server| {
            let mut peer = Peer::connect(server);
            peer.send(&"big 3000000\n".repeat(4));
            std::thread::sleep(Duration::from_millis(50));
            peer.send("done\n");
            (0..4).for_each(|_| assert_eq!(peer.line().len(), 3_000_000));
            assert_eq!(peer.line(), "done");
            until("the buffer is given back", || server.info().client_buffer_bytes == 0);
        },
    );
}

#[test]
fn a_client_that_ends_its_side_gets_all_answers() {
    each(
        |_| {},
        |server| {
            let mut peer = Peer::connect(server);
            let requests = "big 1000\n".repeat(3_000);
            peer.send(&requests).send("incomplete");
            peer.socket().shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(peer.rest().len(), 3_000 * 1_001);
            until("the client is gone", || gone(server));
        },
    );
}

#[test]
fn a_client_that_disconnects_in_a_request_leaves_nothing() {
    each(
        |_| {},
        |server| {
            for unread in [false, true] {
                let mut peer = Peer::connect(server);
                assert_eq!(peer.ask("x"), "x");
                // A reply that is not read turns the end into a reset.
                peer.send(if unread { "big 100000\nhal" } else { "hal" });
                std::thread::sleep(Duration::from_millis(20));
                drop(peer);
                until("the client is gone", || gone(server));
            }
            assert_eq!(server.info().client_buffer_bytes, 0);
            assert_eq!(Peer::connect(server).ask("alive"), "alive");
        },
    );
}

#[test]
fn the_last_replies_arrive_when_the_session_closes() {
    each(
        |_| {},
        |server| {
            let mut peer = Peer::connect(server);
            peer.send("one\nclose\n").send(&"never\n".repeat(20_000));
            assert_eq!(peer.rest(), b"one\nclose\n");
            until("the client is gone", || gone(server));
        },
    );
}

#[test]
fn a_sleeping_connection_delays_no_other() {
    each(
        |config| config.event_loops = Some(1),
        |server| {
            let (mut sleeper, mut other) = (Peer::connect(server), Peer::connect(server));
            let begun = Instant::now();
            sleeper.send("sleep 300\nafter\n");
            std::thread::sleep(Duration::from_millis(20));
            sleeper.send("later\n");
            for _ in 0..50 {
                assert_eq!(other.ask("awake"), "awake");
            }
            let awake_after = begun.elapsed();
            assert_eq!(sleeper.line(), "slept");
            assert!(begun.elapsed() >= Duration::from_millis(300));
            assert!(awake_after < begun.elapsed());
            assert_eq!((sleeper.line(), sleeper.line()), ("after".into(), "later".into()));
        },
    );
}

#[test]
fn a_client_that_disconnects_while_it_sleeps_frees_its_place() {
    each(
        |_| {},
        |server| {
            let mut sleeper = Peer::connect(server);
            sleeper.send("sleep 3600000\n");
            until("it sleeps", || server.info().commands == 1);
            drop(sleeper);
            until("the client is gone", || gone(server));
        },
    );
}

#[test]
fn a_flood_does_not_starve_another_client() {
    const FLOOD: usize = 5_000;
    each(
        |config| config.event_loops = Some(1),
        |server| {
            let peer = || {
                let mut peer = Peer::connect(server);
                assert_eq!(peer.ask("x"), "x");
                peer
            };
            let (mut slow, mut flood, mut other) = (peer(), peer(), peer());
            // While the loop is busy with one client, the requests of two others arrive. If the
            // machine is too slow for that, the loop is busy for longer.
            for busy_ms in (0..8).map(|power| 100 << power) {
                let work = format!("work {busy_ms}");
                slow.send(&format!("{work}\n"));
                flood.send(&"turn\n".repeat(FLOOD));
                other.send("turn\n");
                let stream = slow.socket();
                stream.set_nonblocking(true).unwrap();
                let was_busy = stream.peek(&mut [0]).is_err();
                stream.set_nonblocking(false).unwrap();
                assert_eq!(slow.line(), work);
                let turn = |peer: &mut Peer| peer.line().parse::<usize>().unwrap();
                let (first, others) = (turn(&mut flood), turn(&mut other));
                (1..FLOOD).for_each(|_| _ = turn(&mut flood));
                if was_busy {
                    // One turn has at most 128 requests.
                    assert!(
                        others < first + 300,
                        "{} requests went before",
                        others.saturating_sub(first)
                    );
                    return;
                }
            }
            panic!("the requests never arrived in time");
        },
    );
}

#[test]
fn each_slow_command_takes_one_turn() {
    each(
        |config| config.event_loops = Some(1),
        |server| {
            let (mut busy, mut other) = (Peer::connect(server), Peer::connect(server));
            assert_eq!((busy.ask("x"), other.ask("x")), ("x".into(), "x".into()));
            busy.send(&"work 5\n".repeat(100));
            assert_eq!(busy.line(), "work 5");
            let before = server.info().commands;
            assert_eq!(other.ask("calm"), "calm");
            let between = server.info().commands - before;
            assert!(between < 50, "{between} commands went before the answer");
            (1..100).for_each(|_| assert_eq!(busy.line(), "work 5"));
        },
    );
}

#[test]
fn a_panic_closes_only_its_connection() {
    for backend in [Backend::Native, Backend::Poll] {
        let server = Server::start_with::<ScriptedDoor>(config(backend), poller::open).unwrap();
        let mut peers: Vec<Peer> = (0..4).map(|_| Peer::connect(&server)).collect();
        assert_eq!(peers[0].send("before\npanic\n").rest(), b"");
        for peer in &mut peers[1..] {
            assert_eq!(peer.ask("alive"), "alive");
        }
        assert_eq!((server.panics(), server.info().connections), (1, 3));
    }
}

#[test]
fn statistics_are_summed_over_loops() {
    each(
        |_| {},
        |server| {
            let mut peers: Vec<Peer> = (0..4).map(|_| Peer::connect(server)).collect();
            for peer in &mut peers {
                peer.send("a\nmiss\nfail\n");
            }
            for peer in &mut peers {
                ["a", "miss", "fail"].iter().for_each(|line| assert_eq!(peer.line(), *line));
            }
            until("all is counted", || server.info().output_bytes > 0);
            let info = server.info();
            assert!(server.shared.loops.iter().all(|part| part.statistics.commands.get() == 6));
            assert_eq!((info.commands, info.errors, info.misses, info.hits), (12, 4, 4, 0));
            assert_eq!((info.connections, info.connections_total), (4, 4));
            assert_eq!(info.connections_by_protocol, [4, 0, 0]);
            assert_eq!((info.input_bytes, info.event_loops), (4 * 12, 2));
            assert_eq!(info.resp_port, server.addresses()[0].1.port());
            assert!(info.cpu_seconds.iter().all(|seconds| *seconds >= 0.0));
            assert!(info.resident_bytes > 0 && info.resident_bytes_peak >= info.resident_bytes);
            let stats = &server.command_stats(ProtocolName::Resp)[0];
            assert_eq!((stats.calls, stats.errors), (12, 4));
            assert!(stats.micros > 0.0 && stats.percentiles_us[0] > 0.0);
            assert_eq!(stats.histogram.iter().sum::<u64>(), 12);

            assert_eq!(peers[0].ask("reset"), "reset");
            assert_eq!(peers[1].ask("one"), "one");
            until("the command is counted", || server.info().commands == 2);
            assert_eq!((server.info().misses, server.info().connections_total), (0, 0));
            assert_eq!(server.info().connections, 4);
        },
    );
}
