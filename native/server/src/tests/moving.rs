//! Connections that move from loop to loop.

use super::*;
use crate::balance::Share;
use crate::inbox::Message;
use std::net::Shutdown;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

/// Runs a test on servers of lines, with each back end, whose connections move after every turn.
fn each_moving(test: impl Fn(&Server)) {
    each(
        |config| config.event_loops = Some(3),
        |server| {
            server.shared.balance.moves_always.store(true, Relaxed);
            test(server);
            eprintln!("{} moves", moved(server));
            assert!(moved(server) > 0, "no connection has moved");
        },
    );
}

/// The same with the protocols of users.
fn each_protocol_moving(test: impl Fn(&Server)) {
    for backend in Backend::ALL {
        let server = Server::start(Config { event_loops: Some(3), ..config(backend) }).unwrap();
        server.shared.balance.moves_always.store(true, Relaxed);
        test(&server);
        assert!(moved(&server) > 0, "no connection has moved");
        assert_eq!(server.panics(), 0);
    }
}

fn moved(server: &Server) -> u64 {
    server.info().connections_moved
}

/// The numbers of connections of the loops.
fn counts(server: &Server) -> Vec<usize> {
    server.shared.loops.iter().map(|part| part.connections.load(Relaxed)).collect()
}

fn hand_over(server: &Server, from: usize, to: usize, share: Share) {
    let window = server.shared.balance.window();
    server.shared.loops[from].inbox.send(Message::HandOver { to, share, window });
}

/// Sends numbered requests in pieces of all lengths, and checks that each has one reply, in order.
fn converse(mut peer: Peer, seed: usize, requests: usize) {
    let stream = peer.socket().try_clone().unwrap();
    let lines = (0..requests).map(|number| match number % 97 {
        13 => format!("big {}\n", 1_000 + number * 37 % 200_000),
        29 => format!("swallow {}\n{}", number % 20_000, "y".repeat(number % 20_000)),
        47 => "sleep 1\n".into(),
        59 => format!("script {}\n", number % 2),
        71 => format!("wait never{seed} 1\n"),
        83 => "hold 100\n".into(),
        86 => "hold 0\n".into(),
        _ => format!("{number}\n"),
    });
    let all: String = lines.collect();
    let sender = thread::spawn(move || {
        let (mut rest, mut length) = (all.as_bytes(), seed);
        while !rest.is_empty() {
            length = (length * 7 + 3) % 5_000;
            let mut end = (length % 1_400 + 1).min(rest.len());
            if length % 4 != 0 {
                // A few whole lines: the connection may move behind them.
                end = length % 60;
                let line = rest.iter().skip(end).position(|byte| *byte == b'\n');
                end = line.map_or(rest.len(), |at| end + at + 1);
            }
            let (piece, others) = rest.split_at(end);
            (&stream).write_all(piece).unwrap();
            rest = others;
            if length % 5 == 0 {
                thread::sleep(Duration::from_micros(length as u64));
            }
        }
    });
    for number in 0..requests {
        let line = peer.line();
        match number % 97 {
            13 => assert_eq!(line.len(), 1_000 + number * 37 % 200_000),
            29 => assert_eq!(line, "swallowed"),
            47 => assert_eq!(line, "slept"),
            59 => assert!(line.parse::<usize>().is_ok(), "{line}"),
            71 => assert_eq!(line, "late"),
            83 => assert_eq!(line, "hold 100"),
            86 => assert_eq!(line, "hold 0"),
            _ => assert_eq!(line, number.to_string()),
        }
    }
    sender.join().unwrap();
    assert_eq!(peer.ask("end"), "end");
}

#[test]
fn each_request_is_answered_once_and_in_order() {
    each_moving(|server| {
        let peers: Vec<Peer> = (0..12).map(|_| Peer::connect(server)).collect();
        thread::scope(|scope| {
            for (seed, peer) in peers.into_iter().enumerate() {
                scope.spawn(move || converse(peer, seed, 3_000));
            }
        });
        until("all are gone", || gone(server));
        assert_eq!(counts(server), [0, 0, 0]);
        assert_eq!(server.info().client_buffer_bytes, 0);
        assert_eq!(server.shared.waiters.count(), (0, 0));
    });
}

#[test]
fn a_client_that_ends_its_side_gets_all_answers() {
    each_moving(|server| {
        for length in [1, 100, 5_000] {
            let mut peer = Peer::connect(server);
            assert_eq!(peer.ask("first"), "first");
            peer.send(&"x\n".repeat(length)).send("incomplete");
            peer.socket().shutdown(Shutdown::Write).unwrap();
            assert_eq!(peer.rest().len(), 2 * length);
        }
        until("all are gone", || gone(server));
    });
}

#[test]
fn a_reply_that_is_partly_sent_is_completed() {
    each_moving(|server| {
        let mut peer = Peer::connect(server);
        for length in [3_000_000, 12_000_000] {
            assert_eq!(peer.ask("first"), "first");
            peer.send(&format!("big {length}\n")).send("incom");
            thread::sleep(Duration::from_millis(20));
            peer.send("plete\nlast\n");
            assert_eq!(peer.line().len(), length);
            assert_eq!((peer.line(), peer.line()), ("incomplete".into(), "last".into()));
        }
    });
}

#[test]
fn a_monitor_that_has_moved_before_receives_each_command() {
    each_protocol_moving(|server| {
        let (mut monitor, mut other) = (Peer::connect(server), Peer::connect(server));
        (0..4).for_each(|_| assert_eq!(monitor.ask("PING"), "+PONG"));
        assert_eq!(monitor.ask("MONITOR"), "+OK");
        for number in 0..50 {
            let sent = format!("PING {number}");
            other.send(&format!("{sent}\n"));
            let line = monitor.line();
            assert!(line.ends_with(&format!("\"{number}\"")), "{line}");
        }
    });
}

#[test]
fn counters_and_transactions_are_executed_once() {
    const ROUNDS: usize = 300;
    each_protocol_moving(|server| {
        let clients = (0..6).map(|_| Peer::connect(server)).collect::<Vec<_>>();
        thread::scope(|scope| {
            for (number, mut peer) in clients.into_iter().enumerate() {
                scope.spawn(move || {
                    for round in 1..=ROUNDS {
                        let own = format!(":{round}");
                        match (round + number) % 4 {
                            0 => assert_eq!(peer.ask(&format!("INCR own{number}")), own),
                            1 => {
                                // In two pieces.
                                peer.send("INCR ow").send(&format!("n{number}\n"));
                                assert_eq!(peer.line(), own);
                            }
                            2 => {
                                assert_eq!(peer.ask(&format!("WATCH own{number}")), "+OK");
                                assert_eq!(peer.ask("MULTI"), "+OK");
                                assert_eq!(peer.ask(&format!("INCR own{number}")), "+QUEUED");
                                assert_eq!(peer.ask("EXEC"), "*1");
                                assert_eq!(peer.line(), own);
                            }
                            _ => {
                                peer.send(&format!("PING {round}\nINCR own{number}\nPING\n"));
                                assert_eq!(peer.line(), format!("${}", round.to_string().len()));
                                assert_eq!(peer.line(), round.to_string());
                                assert_eq!((peer.line(), peer.line()), (own, "+PONG".into()));
                            }
                        }
                        assert!(peer.ask("INCR all").starts_with(':'));
                    }
                });
            }
        });
        let mut peer = Peer::connect(server);
        assert_eq!(peer.ask("INCR all"), format!(":{}", 6 * ROUNDS + 1));
    });
}

#[test]
fn a_watched_key_is_noticed_on_another_loop() {
    each_protocol_moving(|server| {
        let (mut one, mut other) = (Peer::connect(server), Peer::connect(server));
        for _ in 0..20 {
            assert_eq!(one.ask("WATCH w"), "+OK");
            assert!(other.ask("INCR w").starts_with(':'));
            assert_eq!((one.ask("MULTI"), one.ask("PING")), ("+OK".into(), "+QUEUED".into()));
            assert_eq!(one.ask("EXEC"), "*-1");
            assert_eq!((one.ask("MULTI"), one.ask("PING")), ("+OK".into(), "+QUEUED".into()));
            assert_eq!((one.ask("EXEC"), one.line()), ("*1".into(), "+PONG".into()));
        }
    });
}

#[test]
fn messages_reach_subscribers_that_have_moved_before() {
    each_protocol_moving(|server| {
        let mut publisher = Peer::connect(server);
        let mut subscriber = Peer::connect(server);
        for round in 0..20 {
            (0..3).for_each(|_| assert_eq!(subscriber.ask("PING"), "+PONG"));
            let subscribed = subscriber.send("SUBSCRIBE c\n");
            (0..6).for_each(|_| drop(subscribed.line()));
            for number in 0..10 {
                let text = format!("{round}-{number}");
                assert_eq!(publisher.ask(&format!("PUBLISH c {text}")), ":1");
                let lines: Vec<String> = (0..7).map(|_| subscriber.line()).collect();
                assert_eq!(lines[6], text);
            }
            subscriber.send("UNSUBSCRIBE c\n");
            (0..6).for_each(|_| drop(subscriber.line()));
        }
    });
}

#[test]
fn redirected_invalidations_follow_a_client_that_moves() {
    each_protocol_moving(|server| {
        let (mut reader, mut writer) = (Peer::connect(server), Peer::connect(server));
        let mut target = Peer::connect(server);
        target.send("HELLO 3\nCLIENT ID\n");
        let id = std::iter::from_fn(|| Some(target.line())).skip_while(|line| line != "*0").nth(1);
        let id = id.unwrap()[1..].to_owned();
        assert_eq!(reader.ask(&format!("CLIENT TRACKING ON REDIRECT {id}")), "+OK");
        for round in 0..200 {
            assert!(matches!(&*reader.ask("GET k"), "$-1" | "$1"));
            if round > 0 {
                reader.line();
            }
            target.send("PING\nPING\n");
            assert_eq!(writer.ask("SET k v"), "+OK");
            // The replies, and the invalidation between them or behind.
            let mut lines: Vec<String> = (0..8).map(|_| target.line()).collect();
            lines.retain(|line| line != "+PONG");
            let invalidation = [">2", "$10", "invalidate", "*1", "$1", "k"];
            assert_eq!(lines, invalidation, "in round {round}");
        }
    });
}

#[test]
fn signals_find_clients_that_have_moved_before() {
    each_moving(|server| {
        let (mut waiter, mut signaller) = (Peer::connect(server), Peer::connect(server));
        for _ in 0..50 {
            assert_eq!(waiter.ask("x"), "x");
            waiter.send("wait a 60000\n");
            until("it waits", || server.shared.waiters.count().1 == 1);
            assert_eq!(signaller.ask("signal a"), "1");
            assert_eq!(waiter.line(), "signalled");
        }
    });
}

#[test]
fn clients_that_move_can_be_killed() {
    each_moving(|server| {
        let peers: Vec<Peer> = (0..20).map(|_| Peer::connect(server)).collect();
        thread::scope(|scope| {
            for mut peer in peers {
                scope.spawn(move || {
                    while peer.stream.get_mut().write_all(b"x\n").is_ok() {
                        let Some(line) = peer.try_line() else { break };
                        assert_eq!(line, "x");
                    }
                });
            }
            until("all move", || moved(server) > 1_000);
            for client in server.shared.clients.list() {
                server.shared.kill(client.id);
            }
            until("all are gone", || gone(server));
        });
        assert_eq!(counts(server), [0, 0, 0]);
    });
}

#[test]
fn a_message_to_the_former_place_of_a_client_follows_it() {
    each(
        |_| {},
        |server| {
            let mut peer = Peer::connect(server);
            assert_eq!(peer.ask("x"), "x");
            let id = server.shared.clients.list()[0].id;
            let before = server.shared.clients.find(id).unwrap();
            let (from, index) = (before.event_loop, before.index);
            hand_over(server, from, 1 - from, Share::All);
            until("it has moved", || server.shared.clients.find(id).unwrap().event_loop != from);
            assert_eq!(peer.ask("y"), "y");
            server.shared.loops[from].inbox.send(Message::Kill { index, id });
            assert_eq!(peer.rest(), b"");
            until("it is gone", || gone(server));
        },
    );
}

#[test]
fn a_loop_hands_over_all_that_are_between_requests() {
    const IDLE: usize = 300;
    each(
        |_| {},
        |server| {
            let mut idle: Vec<Peer> = (0..IDLE).map(|_| Peer::connect(server)).collect();
            idle.iter_mut().for_each(|peer| assert_eq!(peer.ask("x"), "x"));
            let mut bound: Vec<Peer> = (0..4).map(|_| Peer::connect(server)).collect();
            bound[0].send("wait a 60000\n");
            bound[1].send("wait a 60000\n");
            bound[2].send("incom");
            bound[3].send("incom");
            until("two wait", || server.shared.waiters.count().1 == 2);
            until("all is there", || server.info().client_buffer_bytes >= 10);
            assert_eq!(counts(server), [IDLE / 2 + 2, IDLE / 2 + 2]);
            for (from, to) in [(1, 0), (0, 1), (1, 0)] {
                hand_over(server, from, to, Share::All);
                until("all have moved", || counts(server)[from] == 2);
                assert_eq!(counts(server)[to], IDLE + 2);
                idle.iter_mut().for_each(|peer| assert_eq!(peer.ask("x"), "x"));
            }
            assert_eq!(server.info().event_loops_in_use, 2);
            bound[2].send("plete\n");
            bound[3].send("plete\n");
            assert_eq!(
                (bound[2].line(), bound[3].line()),
                ("incomplete".into(), "incomplete".into())
            );
            assert_eq!(idle[0].ask("signal a all"), "2");
            hand_over(server, 1, 0, Share::All);
            until("all have moved", || counts(server) == [IDLE + 4, 0]);
            assert_eq!(server.info().event_loops_in_use, 1);
            drop((idle, bound));
            until("all are gone", || gone(server));
        },
    );
}

#[test]
fn a_loop_hands_over_the_requested_number_of_active_connections() {
    each(
        |_| {},
        |server| {
            let mut peers: Vec<Peer> = (0..20).map(|_| Peer::connect(server)).collect();
            peers.iter_mut().for_each(|peer| assert_eq!(peer.ask("x"), "x"));
            hand_over(server, 1, 0, Share::All);
            until("all have moved", || counts(server) == [20, 0]);
            hand_over(server, 0, 1, Share::Some { count: 7, budget_ns: u64::MAX });
            for _ in 0..3 {
                // The first ones are idle.
                peers[5..].iter_mut().for_each(|peer| assert_eq!(peer.ask("x"), "x"));
            }
            assert_eq!(counts(server), [13, 7]);
        },
    );
}

#[test]
fn a_server_whose_connections_move_stops() {
    each_moving(|server| {
        let peers: Vec<Peer> = (0..20).map(|_| Peer::connect(server)).collect();
        thread::scope(|scope| {
            for mut peer in peers {
                scope.spawn(move || {
                    while peer.stream.get_mut().write_all(b"x\n").is_ok() {
                        if peer.try_line().is_none() {
                            break;
                        }
                    }
                });
            }
            until("all move", || moved(server) > 1_000);
            server.stop();
        });
    });
}

#[test]
fn new_connections_gather_on_the_first_loop_that_is_not_busy() {
    for (backend, expected) in [(Backend::Native, [10, 0, 0]), (Backend::Poll, [4, 3, 3])] {
        let balance = LoopBalance::Load;
        let config =
            Config { event_loops: Some(3), event_loop_balance: balance, ..config(backend) };
        let server = Server::start_with::<ScriptedDoor>(config, poller::open).unwrap();
        let _peers: Vec<Peer> = (0..10).map(|_| Peer::connect(&server)).collect();
        until("all are there", || counts(&server).iter().sum::<usize>() == 10);
        assert_eq!(counts(&server), expected);
    }
}

#[test]
fn a_client_that_takes_large_replies_moves() {
    each_moving(|server| {
        let mut peer = Peer::connect(server);
        for length in [1_000, 1_000_000, 12_000_000] {
            let before = moved(server);
            for _ in 0..3 {
                assert_eq!(peer.ask(&format!("big {length}")).len(), length);
            }
            until("it has moved", || moved(server) > before + 1);
        }
    });
}
