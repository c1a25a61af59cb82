//! The limit on what all clients hold together.

use super::*;
use std::sync::atomic::Ordering::SeqCst;

const LIMIT_BYTES: u64 = 1_000_000;

fn limited(config: &mut Config) {
    config.clients_memory_limit = Some(LIMIT_BYTES).into();
}

const LAST_WORDS: &[u8] = b"-OOM clients take too much memory, and this one takes most\r\n";

#[test]
fn the_client_that_holds_most_is_closed_and_the_others_stay() {
    each(limited, |server| {
        let mut peers: Vec<Peer> = (0..4).map(|_| Peer::connect(server)).collect();
        for (peer, bytes) in peers.iter_mut().zip([200_000, 500_000, 250_000, 50_000]) {
            assert_eq!(peer.ask(&format!("hold {bytes}")), format!("hold {bytes}"));
        }
        until("all is counted", || server.info().client_buffer_bytes == LIMIT_BYTES);
        // One more byte, from the client that holds least.
        assert_eq!(peers[3].ask("hold 50001"), "hold 50001");
        assert_eq!(peers.remove(1).rest(), LAST_WORDS);
        for peer in &mut peers {
            assert_eq!(peer.ask("still here"), "still here");
        }
        until("its memory is free", || server.info().client_buffer_bytes == 500_001);
        until("it is counted", || server.info().evicted_clients == 1);
        assert_eq!(server.shared.evicting_bytes.load(SeqCst), 0);
    });
}

#[test]
fn no_message_is_sent_in_the_middle_of_a_reply() {
    each(limited, |server| {
        let mut peer = Peer::connect(server);
        assert_eq!(peer.ask("begin 900000"), "begin 900000");
        until("that is counted", || server.info().client_buffer_bytes == 900_000);
        assert_eq!(Peer::connect(server).ask("hold 100001"), "hold 100001");
        assert_eq!(peer.rest(), b"");
    });
}

#[test]
fn twelve_growing_clients_exceed_the_limit_by_at_most_one_turn_per_loop() {
    const STEP_BYTES: u64 = 10_000;
    each(limited, |server| {
        let mut witness = Peer::connect(server);
        assert_eq!(witness.ask("hold 1000"), "hold 1000");
        let growing = |_| {
            let mut peer = Peer::connect(server);
            std::thread::spawn(move || {
                let mut held = 0;
                for step in 1..=60 {
                    let request = format!("hold {}", step * STEP_BYTES);
                    match writeln!(peer.socket(), "{request}").map(|()| peer.try_line()) {
                        Ok(Some(line)) if line == request => held = step * STEP_BYTES,
                        _ => return 0,
                    }
                }
                held
            })
        };
        let threads: Vec<_> = (0..12).map(growing).collect();
        let mut most = 0;
        while threads.iter().any(|thread| !thread.is_finished()) {
            most = most.max(server.info().client_buffer_bytes);
        }
        let ends: Vec<u64> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        let evicted = ends.iter().filter(|held| **held == 0).count() as u64;
        assert!(most <= LIMIT_BYTES + 2 * STEP_BYTES, "{most} bytes were held");
        until("the others are closed", || server.info().evicted_clients == evicted);
        assert!(evicted >= 10, "{evicted} were closed, but one of 600,000 bytes fits at most");
        assert_eq!(witness.ask("hold 1000"), "hold 1000");
    });
}

#[test]
fn a_client_with_no_evict_is_closed_last() {
    each(limited, |server| {
        let [mut kept, mut other, mut third] = [(); 3].map(|()| Peer::connect(server));
        assert_eq!(
            (kept.ask("keep"), kept.ask("hold 800000")),
            ("keep".into(), "hold 800000".into())
        );
        other.send("hold 300000\n");
        assert!(other.rest().ends_with(LAST_WORDS));
        assert_eq!(kept.ask("x"), "x");
        // With no other client to close, the limit is still enforced.
        kept.send("hold 1000001\n");
        assert!(kept.rest().ends_with(LAST_WORDS));
        assert_eq!(third.ask("x"), "x");
        until("both are counted", || server.info().evicted_clients == 2);
    });
}

#[test]
fn the_limit_can_be_changed_at_run_time() {
    each(limited, |server| {
        let mut peer = Peer::connect(server);
        assert_eq!(peer.ask("get maxmemory-clients"), "1000000");
        assert_eq!(peer.ask("set maxmemory-clients 0"), "ok");
        assert_eq!(peer.ask("hold 9000000000000000000"), "hold 9000000000000000000");
        assert_eq!(server.info().clients_memory_limit_bytes, 0);
        assert_eq!(peer.ask("hold 1"), "hold 1");
        assert_eq!(peer.ask("set maxmemory-clients 1048576gb"), "ok");
        assert_eq!(peer.ask("hold 1"), "hold 1");
        assert_eq!(peer.ask("hold 1000000000000000"), "hold 1000000000000000");
        assert_eq!(peer.ask("hold 1"), "hold 1");
        for wrong in ["-1", "", "x", "1048577gb", "18446744073709551616"] {
            assert_eq!(
                peer.ask(&format!("set maxmemory-clients {wrong}")),
                "maxmemory-clients must be a number of bytes, such as 100mb"
            );
        }
        assert_eq!(peer.ask("set maxmemory-clients 1"), "ok");
        assert_eq!(peer.ask("hold 1"), "hold 1");
        peer.send("hold 2\n");
        assert!(peer.rest().ends_with(LAST_WORDS));
    });
}
