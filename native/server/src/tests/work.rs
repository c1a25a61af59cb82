//! Scripts and transactions take turns with other clients.

use super::scripted::{AT_GATE, GATE, RUNNING_MOST, TICKS};
use super::*;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The numbers of lines belong to the process.
static TURN: Mutex<()> = Mutex::new(());

/// All loops of a server, kept busy until the test opens the gate.
struct Gate {
    keepers: Vec<Peer>,
    _turn: MutexGuard<'static, ()>,
}

impl Gate {
    /// A loop gets the connection if it has the fewest.
    fn shut(server: &Server, loops: usize) -> Gate {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        [&TICKS, &RUNNING_MOST].iter().for_each(|it| it.store(0, Relaxed));
        GATE.store(false, Relaxed);
        Gate { keepers: (0..loops).map(|_| Peer::connect(server)).collect(), _turn: turn }
    }

    /// Has the peers send while no loop serves anyone. All have connected before.
    fn pass(&mut self, send: impl FnOnce()) {
        let loops = self.keepers.len();
        for keeper in &mut self.keepers {
            assert_eq!(keeper.ask("ready"), "ready");
            keeper.send("gate\n");
        }
        until("all loops are busy", || AT_GATE.load(Relaxed) == loops);
        send();
        GATE.store(true, Relaxed);
        self.keepers.iter_mut().for_each(|keeper| assert_eq!(keeper.line(), "gate"));
    }
}

fn peers(server: &Server, count: usize) -> Vec<Peer> {
    let mut peers: Vec<Peer> = (0..count).map(|_| Peer::connect(server)).collect();
    peers.iter_mut().for_each(|peer| assert_eq!(peer.ask("ready"), "ready"));
    peers
}

/// Peers whose next turns are not put off. A turn also takes long if the system suspends the thread
/// in it.
fn quick_peers(server: &Server, count: usize) -> Vec<Peer> {
    let slow_turns = || server.shared.loops[0].statistics.slow_turns.get();
    let mut found = Vec::new();
    until("no turn was slow", || {
        let before = slow_turns();
        found = peers(server, count);
        // The turn before this one is over, and counted.
        assert_eq!(Peer::connect(server).ask("ready"), "ready");
        slow_turns() == before
    });
    found
}

fn number(peer: &mut Peer) -> usize {
    peer.line().parse().unwrap()
}

#[test]
fn between_two_scripts_of_a_loop_its_other_clients_are_served() {
    each(
        |config| config.event_loops = Some(1),
        |server| {
            let mut gate = Gate::shut(server, 1);
            let (mut first, mut scripts, mut last) =
                (quick_peers(server, 10), peers(server, 20), quick_peers(server, 10));
            gate.pass(|| {
                first.iter_mut().for_each(|peer| _ = peer.send("tick\n"));
                scripts.iter_mut().for_each(|peer| _ = peer.send("script 4\nscript 4\nend\n"));
                let mut word = ["tick\n", "short 0\n"].into_iter().cycle();
                last.iter_mut().for_each(|peer| _ = peer.send(word.next().unwrap()));
            });
            let others: Vec<usize> = first.iter_mut().chain(&mut last).map(number).collect();
            let mut own: Vec<[usize; 2]> =
                scripts.iter_mut().map(|peer| [number(peer), number(peer)]).collect();
            scripts.iter_mut().for_each(|peer| assert_eq!(peer.line(), "end"));
            own.sort_unstable();
            let second = own[1][0];
            assert!(others.iter().all(|it| *it < second), "{second} was before {others:?}");
            // Each client with scripts has its turn before one of them has the next.
            let (last_first, next) = (own[19][0], own.iter().map(|it| it[1]).min().unwrap());
            assert!(last_first < next, "{own:?}");
        },
    );
}

#[test]
fn between_two_slow_turns_of_a_loop_its_other_clients_are_served() {
    each(
        |config| config.event_loops = Some(1),
        |server| {
            let mut gate = Gate::shut(server, 1);
            let mut slow = peers(server, 20);
            slow.iter_mut().for_each(|peer| assert_eq!(peer.ask("work 4"), "work 4"));
            let mut others = quick_peers(server, 20);
            gate.pass(|| {
                slow.iter_mut().for_each(|peer| _ = peer.send("tick\nwork 4\n"));
                others.iter_mut().for_each(|peer| _ = peer.send("tick\n"));
            });
            let others: Vec<usize> = others.iter_mut().map(number).collect();
            let own: Vec<usize> = slow.iter_mut().map(number).collect();
            let first = own.iter().min().unwrap();
            assert!(others.iter().all(|it| it < first), "{own:?} {others:?}");
        },
    );
}

#[test]
fn short_work_takes_turns_too() {
    each(
        |config| config.event_loops = Some(1),
        |server| {
            let mut gate = Gate::shut(server, 1);
            let (mut scripts, mut others) = (peers(server, 20), quick_peers(server, 10));
            gate.pass(|| {
                // Each takes much longer than was expected.
                scripts.iter_mut().for_each(|peer| _ = peer.send("short 4\n"));
                others.iter_mut().for_each(|peer| _ = peer.send("tick\n"));
            });
            let others: Vec<usize> = others.iter_mut().map(number).collect();
            let mut own: Vec<usize> = scripts.iter_mut().map(number).collect();
            own.sort_unstable();
            assert!(others.iter().all(|it| *it < own[1]), "{own:?} {others:?}");
        },
    );
}

#[test]
fn one_loop_at_a_time_executes_long_scripts() {
    each(
        |_| (),
        |server| {
            let mut gate = Gate::shut(server, 2);
            let mut scripts = peers(server, 20);
            gate.pass(|| {
                let lines = "script 2\n".repeat(5);
                scripts.iter_mut().for_each(|peer| _ = peer.send(&lines));
            });
            for peer in &mut scripts {
                let own: Vec<usize> = (0..5).map(|_| number(peer)).collect();
                assert!(own.is_sorted(), "{own:?}");
            }
            assert_eq!(RUNNING_MOST.load(Relaxed), 1);
        },
    );
}

#[test]
fn a_paused_client_may_leave() {
    each(
        |_| (),
        |server| {
            let mut gate = Gate::shut(server, 2);
            let (mut leaving, mut scripts) = (peers(server, 20), peers(server, 4));
            gate.pass(|| {
                leaving.iter_mut().for_each(|peer| _ = peer.send("script 4\nscript 4\n"));
                scripts.iter_mut().for_each(|peer| _ = peer.send("script 4\n"));
                leaving.clear();
            });
            scripts.iter_mut().for_each(|peer| _ = number(peer));
            until("they are gone", || server.info().connections == 6);
            let mut other = Peer::connect(server);
            assert!(other.ask("script 1").parse::<usize>().is_ok());
        },
    );
}
