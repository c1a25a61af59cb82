//! Durable databases behind a log that applies on another thread, late, never, or not at all.

use super::{Peer, config, until};
use crate::clock::{Clock, Moment};
use crate::commits::{Commit, Round};
use crate::waiters::Place;
use crate::{Backend, Config, Server};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use todana_command::{Command, Context, Databases, NullReply, Set, StringCommand};
use todana_group::{
    Applied, Deliver, Gate, Group, GroupNumber, GroupOptions, Homes, Outcome, QUEUE_BYTES_MAX,
    Submission, Submit, Ticket, Wake,
};
use todana_protocol::{Log, Next, NotDone, ProtocolName, Ran, ReadLevel};
use todana_table::{Options, Table};

/// What the log does with submissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Applies them at once, on another thread.
    Apply,
    /// Takes them, and keeps them until they are released.
    Hold,
    /// Leaves them in the queue, from which they can be withdrawn.
    Queue,
    /// Drops them, as a closing gate does.
    Drop,
}

#[derive(Debug)]
struct FakeLog {
    group: Arc<Group>,
    mode: Mutex<Mode>,
    held: Mutex<Vec<Submission>>,
    has_room: AtomicBool,
    /// While it is locked, the loop that submits stands still.
    stall: Mutex<()>,
    /// After this number of looks at the gate, the records are loaded anew between any two.
    looks_before_loads: AtomicU64,
    looks: AtomicU64,
}

struct NobodyToWake;

impl Wake for NobodyToWake {
    fn wake(&self) {}
}

/// Waits at its end.
struct Stalled<'a>(&'a Mutex<()>);

impl Drop for Stalled<'_> {
    fn drop(&mut self) {
        drop(self.0.lock());
    }
}

impl FakeLog {
    fn set(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
    }

    fn held(&self) -> usize {
        self.held.lock().unwrap().len()
    }

    /// From now on, after this number of looks at the gate, the records are loaded anew whenever
    /// somebody reads them.
    fn load_after(&self, looks: u64) {
        self.looks.store(0, SeqCst);
        self.looks_before_loads.store(looks, SeqCst);
    }

    /// Applies what is held.
    fn release(&self) {
        let mut held = std::mem::take(&mut *self.held.lock().unwrap());
        apply(&self.group, &mut held);
    }

    fn value(&self, key: &[u8]) -> Option<Vec<u8>> {
        use todana_table::Keyspace;
        let table = self.group.databases().table(0);
        table.read(key, 1, |entry| entry.map(|entry| entry.stored().bytes().to_vec()))
    }
}

fn apply(group: &Group, submissions: &mut Vec<Submission>) {
    static INDEX: Mutex<u64> = Mutex::new(0);
    let mut index = INDEX.lock().unwrap();
    group.submit(submissions);
    while let Some(sealed) = group.take(0) {
        *index += 1;
        let (mut offset, slice) = (0, Duration::from_secs(1));
        while let Applied::More(more) = group.apply(&sealed.bytes, offset, *index, 1, slice) {
            offset = more;
        }
    }
}

impl Submit for FakeLog {
    fn gate(&self) -> Gate {
        self.group.gate()
    }
    fn readable(&self) -> Option<u64> {
        let look = self.looks.fetch_add(1, SeqCst);
        let loads = look.saturating_sub(self.looks_before_loads.load(SeqCst));
        self.group.readable().map(|load| load + loads)
    }
    fn has_room(&self, _units: u64) -> bool {
        self.has_room.load(SeqCst)
    }
    fn submit(&self, submissions: &mut Vec<Submission>) {
        let mut taken = std::mem::take(submissions);
        let _stalled = Stalled(&self.stall);
        match *self.mode.lock().unwrap() {
            Mode::Apply => {
                let group = self.group.clone();
                std::thread::spawn(move || apply(&group, &mut taken));
            }
            Mode::Hold | Mode::Queue => self.held.lock().unwrap().append(&mut taken),
            Mode::Drop => taken.into_iter().for_each(|it| {
                it.deliver.deliver(vec![(it.ticket, todana_group::Outcome::Dropped)]);
            }),
        }
    }
    fn withdraw(&self, ticket: Ticket) -> bool {
        if self.group.withdraw(ticket) {
            return true;
        }
        let mut held = self.held.lock().unwrap();
        let before = held.len();
        if *self.mode.lock().unwrap() == Mode::Queue {
            held.retain(|it| it.ticket != ticket);
        }
        held.len() < before
    }
    fn value_bytes_max(&self) -> usize {
        1 << 20
    }
    fn trouble(&self) -> String {
        self.group.trouble()
    }
    fn collect(&self, now_ms: u64) {
        self.group.collect(now_ms);
    }
    fn is_alone(&self) -> bool {
        self.group.is_alone()
    }
    fn is_fresh(&self, clock_ms: u64) -> bool {
        self.group.is_fresh(clock_ms)
    }
    fn clock_ms(&self) -> u64 {
        self.group.clock_ms()
    }
    fn await_fresh(&self, ticket: Ticket, deliver: Arc<dyn Deliver>) {
        self.group.await_fresh(ticket, deliver);
    }
    fn await_applied(&self, index: u64, ticket: Ticket, deliver: Arc<dyn Deliver>) {
        self.group.await_applied(index, ticket, deliver);
    }
    fn applied_index(&self) -> u64 {
        self.group.applied_index()
    }
}

/// A server with durable databases, and its log.
fn start(mode: Mode, change: impl Fn(&mut Config)) -> (Server, Arc<FakeLog>) {
    let options = Options { shards: Some(16), seed: Some(1), durable: true, ..Options::default() };
    let table = |_| Arc::new(Table::new(options.clone()));
    let databases = Arc::new(Databases::new(std::array::from_fn(table)));
    let group = Group::new(
        GroupOptions {
            databases: databases.clone(),
            seed: 1,
            incarnation: 1,
            value_bytes_max: 1 << 20,
            queue_bytes_max: QUEUE_BYTES_MAX,
            snapshot_log_bytes: None,
        },
        Box::new(NobodyToWake),
    );
    group.set_gate(Gate::Open, "");
    let (mode, has_room) = (Mutex::new(mode), AtomicBool::new(true));
    let looks_before_loads = AtomicU64::new(u64::MAX);
    let (held, stall, looks) = (Mutex::default(), Mutex::default(), AtomicU64::new(0));
    let log = Arc::new(FakeLog { group, mode, held, has_room, stall, looks_before_loads, looks });
    let mut config = config(Backend::Native);
    config.databases = databases;
    config.homes = Some(Homes::in_one(log.clone()));
    change(&mut config);
    (Server::start(config).unwrap(), log)
}

fn lines(peer: &mut Peer, count: usize) -> Vec<String> {
    (0..count).map(|_| peer.line()).collect()
}

#[test]
fn a_pipeline_is_answered_in_order_when_it_is_committed() {
    let (server, _log) = start(Mode::Apply, |_| {});
    let mut peers: Vec<Peer> = (0..8).map(|_| Peer::connect(&server)).collect();
    for (number, peer) in peers.iter_mut().enumerate() {
        let request = format!("SET k{number} 1\nINCR k{number}\nGET k{number}\nPING\nDBSIZE\n");
        peer.send(&request.repeat(40));
    }
    for peer in &mut peers {
        for _ in 0..40 {
            let replies = lines(peer, 6);
            assert_eq!(replies[..5], ["+OK", ":2", "$1", "2", "+PONG"]);
            assert!(replies[5].starts_with(':'), "{replies:?}");
        }
    }
    assert_eq!(server.panics(), 0);
}

#[test]
fn a_connection_that_only_writes_moves_between_its_writes() {
    let (server, log) = start(Mode::Apply, |config| config.event_loops = Some(3));
    server.shared.balance.moves_always.store(true, Relaxed);
    let mut peers: Vec<Peer> = (0..4).map(|_| Peer::connect(&server)).collect();
    for round in 0..50 {
        for (number, peer) in peers.iter_mut().enumerate() {
            assert_eq!(peer.ask(&format!("SET k{number} {round}")), "+OK");
        }
    }
    assert_eq!(log.value(b"k3").as_deref(), Some(&b"49"[..]));
    until("each has moved after each write", || server.info().connections_moved == 200);
    assert_eq!(server.panics(), 0);
}

#[test]
fn a_connection_whose_write_may_be_applied_later_moves() {
    let (server, log) = start(Mode::Hold, |config| {
        (config.write_timeout_ms, config.event_loops) = (100, Some(3));
    });
    server.shared.balance.moves_always.store(true, Relaxed);
    let mut peer = Peer::connect(&server);
    let unknown = "-UNKNOWN the write may or may not have been executed";
    assert_eq!(peer.ask("SET a 1"), unknown);
    assert_eq!((peer.ask("PING"), peer.ask("PING")), ("+PONG".into(), "+PONG".into()));
    until("it has moved", || server.info().connections_moved > 0);
    // The late outcome is not taken for that of another write.
    *log.mode.lock().unwrap() = Mode::Apply;
    log.release();
    assert_eq!(peer.ask("INCR a"), ":2");
    assert_eq!(peer.ask("GET a"), "$1");
    assert_eq!(peer.line(), "2");
    assert_eq!(server.panics(), 0);
}

#[test]
fn replies_to_earlier_requests_do_not_wait_for_the_log() {
    let (server, log) = start(Mode::Hold, |_| {});
    let mut peer = Peer::connect(&server);
    peer.send("PING\nSET a 1\nGET a\nECHO x\n");
    assert_eq!(peer.line(), "+PONG");
    until("the log has it", || log.held() == 1);
    assert_eq!(Peer::connect(&server).ask("GET a"), "$-1", "other clients are served");
    log.release();
    assert_eq!(lines(&mut peer, 5), ["+OK", "$1", "1", "$1", "x"]);
}

#[test]
fn an_outcome_that_comes_too_late_is_unknown_and_disturbs_nothing() {
    let (server, log) = start(Mode::Hold, |config| config.write_timeout_ms = 100);
    let mut peer = Peer::connect(&server);
    peer.send("SET a 1\nINCR b\nPING\n");
    let unknown = "-UNKNOWN the write may or may not have been executed";
    assert_eq!(lines(&mut peer, 3), [unknown, unknown, "+PONG"]);
    log.release();
    assert_eq!(peer.ask("PING"), "+PONG");
    assert_eq!(log.value(b"a").as_deref(), Some(&b"1"[..]));
    // The outcome of the next commit is not that of the last one.
    log.set(Mode::Apply);
    assert_eq!(peer.ask("INCR b"), ":2");
}

#[test]
fn an_outcome_that_came_in_time_is_known_however_late_the_loop_is() {
    let (server, log) = start(Mode::Hold, |config| config.write_timeout_ms = 50);
    let mut peer = Peer::connect(&server);
    let stalled = log.stall.lock().unwrap();
    peer.send("SET a 1\nINCR a\n");
    until("the log has it", || log.held() == 1);
    log.release();
    std::thread::sleep(Duration::from_millis(100));
    drop(stalled);
    assert_eq!(lines(&mut peer, 2), ["+OK", ":2"]);
}

#[test]
fn a_write_that_the_log_did_not_take_was_not_executed() {
    let (server, log) = start(Mode::Queue, |config| config.write_timeout_ms = 100);
    let mut peer = Peer::connect(&server);
    assert!(peer.ask("SET a 1").starts_with("-CLUSTERDOWN the log accepts no writes"));
    assert_eq!(log.held(), 0);
    log.set(Mode::Drop);
    assert!(peer.ask("SET a 1").starts_with("-CLUSTERDOWN the log accepts no writes"));
    log.set(Mode::Apply);
    assert_eq!((peer.ask("EXISTS a"), peer.ask("SET a 1")), (":0".into(), "+OK".into()));
}

#[test]
fn a_write_waits_for_room_in_the_log_for_a_time() {
    let (server, log) = start(Mode::Apply, |_| {});
    log.has_room.store(false, SeqCst);
    let mut peer = Peer::connect(&server);
    peer.send("PING\nSET a 1\nGET a\n");
    assert_eq!(peer.line(), "+PONG");
    log.has_room.store(true, SeqCst);
    assert_eq!(lines(&mut peer, 3), ["+OK", "$1", "1"]);
    let (server, log) = start(Mode::Apply, |config| config.write_timeout_ms = 50);
    log.has_room.store(false, SeqCst);
    let mut peer = Peer::connect(&server);
    assert!(peer.ask("SET a 1").starts_with("-CLUSTERDOWN"));
    assert_eq!(peer.ask("EXISTS a"), ":0");
    log.has_room.store(true, SeqCst);
    assert_eq!(peer.ask("SET a 1"), "+OK");
}

/// A server of all protocols, its log, and a connection for each.
fn start_all() -> (Server, Arc<FakeLog>, [Peer; 3]) {
    let protocols = [ProtocolName::Resp, ProtocolName::Memcached, ProtocolName::Kyoto];
    let (server, log) = start(Mode::Apply, |config| {
        config.listeners = protocols.map(|it| (it.into(), "127.0.0.1:0".parse().unwrap())).to_vec();
    });
    let connect = |protocol: usize| {
        let stream = std::net::TcpStream::connect(server.addresses()[protocol].1).unwrap();
        stream.set_read_timeout(Some(super::PATIENCE)).unwrap();
        Peer { stream: std::io::BufReader::new(stream) }
    };
    let peers = [0, 1, 2].map(connect);
    (server, log, peers)
}

#[test]
fn a_read_of_records_that_are_loaded_anew_meanwhile_is_not_answered() {
    let (server, log, [mut resp, mut memcached, mut kyoto]) = start_all();
    assert_eq!((resp.ask("SET a 1"), resp.ask("GET a"), resp.line()), {
        ("+OK".into(), "$1".into(), "1".into())
    });
    log.load_after(0);
    let loading = "-LOADING Todana is loading the dataset in memory";
    let reads = ["GET a", "GET b", "MGET a b", "KEYS *", "SCAN 0", "DBSIZE", "BITCOUNT a"];
    for request in reads {
        assert_eq!(resp.ask(request), loading, "{request}");
    }
    assert_eq!(lines(resp.send("MULTI\nGET a\nEXEC\n"), 3), ["+OK", "+QUEUED", loading]);
    for request in ["get a b", "get b", "mg a v"] {
        assert_eq!(memcached.ask(&format!("{request}\r")), "SERVER_ERROR loading", "{request}");
    }
    for key in ["a", "b"] {
        kyoto.send(&format!("GET /{key} HTTP/1.1\r\n\r\n"));
        assert_eq!(kyoto.line(), "HTTP/1.1 503 Service Unavailable");
        until("the response has ended", || kyoto.line().is_empty());
    }
    // The client has a part of the reply when the log is begun anew.
    let keys: String = (0..5_000).map(|key| format!(" {key}")).collect();
    log.load_after(2);
    assert_eq!(resp.ask(&format!("MGET{keys}")), "*5000");
    let rest = String::from_utf8(resp.rest()).unwrap();
    assert_eq!(rest, "$-1\r\n".repeat(4_096));
    log.load_after(u64::MAX);
    assert_eq!(Peer::connect(&server).ask("GET a"), "$1");
    assert_eq!(server.panics(), 0);
}

#[test]
fn a_closed_gate_refuses_reads_and_writes_in_the_words_of_each_protocol() {
    let (_server, log, [mut resp, mut memcached, mut kyoto]) = start_all();
    log.group.set_gate(Gate::Closed, "the log is being read");
    for request in ["GET a", "SET a 1", "WATCH a", "KEYS *"] {
        let loading = "-LOADING Todana is loading the dataset in memory";
        assert_eq!(resp.ask(request), loading, "{request}");
    }
    assert_eq!(resp.ask("PING"), "+PONG");
    for request in ["get a b", "mg a v", "set a 0 0 1\r\nx", "incr a 1", "delete a"] {
        assert_eq!(memcached.ask(&format!("{request}\r")), "SERVER_ERROR loading", "{request}");
    }
    memcached.send("set a 0 0 1 noreply\r\nx\r\nmn\r\n");
    assert_eq!(memcached.line(), "MN");
    kyoto.send("GET /a HTTP/1.1\r\n\r\n");
    assert_eq!(kyoto.line(), "HTTP/1.1 503 Service Unavailable");
    log.group.set_gate(Gate::ReadOnly, "the disk is full");
    assert_eq!(resp.ask("GET a"), "$-1");
    let full = "-MISCONF Errors writing to the AOF file: the disk is full";
    assert_eq!(resp.ask("SET a 1"), full);
    assert_eq!(memcached.ask("set a 0 0 1\r\nx\r"), "SERVER_ERROR temporary failure");
    log.group.set_gate(Gate::Open, "");
    assert_eq!(memcached.ask("set a 0 0 1\r\nx\r"), "STORED");
    assert_eq!((resp.ask("GET a"), resp.line()), ("$1".into(), "x".into()));
}

#[test]
fn a_client_that_leaves_does_not_cancel_its_write() {
    let (server, log) = start(Mode::Hold, |_| {});
    let mut peer = Peer::connect(&server);
    peer.send("SET a 1\n");
    until("the log has it", || log.held() == 1);
    drop(peer);
    let mut killed = Peer::connect(&server);
    let id = killed.ask("CLIENT ID").trim_start_matches(':').to_string();
    killed.send("SET b 1\n");
    until("the log has it", || log.held() == 2);
    let mut other = Peer::connect(&server);
    assert_eq!(other.ask(&format!("CLIENT KILL ID {id}")), ":1");
    assert_eq!(killed.rest(), b"");
    log.release();
    assert_eq!(log.value(b"a").as_deref(), Some(&b"1"[..]));
    assert_eq!(log.value(b"b").as_deref(), Some(&b"1"[..]));
    assert_eq!(other.ask("PING"), "+PONG");
    drop(other);
    until("all are gone", || server.info().connections == 0);
}

/// A RESP3 client that tracks keys.
fn tracking(server: &Server, mode: &str) -> Peer {
    let mut peer = Peer::connect(server);
    peer.send(&format!("HELLO 3\nCLIENT TRACKING ON{mode}\n"));
    while peer.line() != "+OK" {}
    peer
}

/// The key that the next message invalidates.
fn invalidated(peer: &mut Peer) -> String {
    let lines = lines(peer, 6);
    assert_eq!(lines[..5], [">2", "$10", "invalidate", "*1", "$1"]);
    lines[5].clone()
}

#[test]
fn a_read_that_follows_a_write_is_invalidated_after_its_reply() {
    let (server, _log) = start(Mode::Apply, |_| {});
    for mode in ["", " BCAST PREFIX k"] {
        let mut peer = tracking(&server, mode);
        peer.send("SET x 1\nGET k\nGET j\n");
        assert_eq!(lines(&mut peer, 3), ["+OK", "_", "_"], "{mode}");
        assert_eq!(invalidated(&mut peer), "k");
    }
}

#[test]
fn a_script_learns_of_a_write_of_the_client_that_had_the_same_place() {
    let (server, log) = start(Mode::Hold, |config| {
        config.event_loops = Some(1);
        config.databases.set_interpreter(todana_resp::interpreter());
    });
    let mut first = Peer::connect(&server);
    first.send("SET a 1\n");
    until("the log has it", || log.held() == 1);
    drop(first);
    until("it has left", || server.info().connections == 0);
    let mut peer = tracking(&server, "");
    peer.send("EVAL \"return redis.call('GET', KEYS[1])\" 1 a\n");
    until("the log has it", || log.held() == 2);
    // The script is executed first, as it may be if the other submission takes long.
    let write = log.held.lock().unwrap().remove(0);
    log.release();
    apply(&log.group, &mut vec![write]);
    assert_eq!(peer.line(), "_");
    assert_eq!(invalidated(&mut peer), "a");
}

#[test]
fn a_client_that_has_ended_its_side_still_gets_its_reply() {
    let (server, log) = start(Mode::Hold, |_| {});
    let mut peer = Peer::connect(&server);
    peer.send("SET a 1\nGET a\n");
    peer.socket().shutdown(Shutdown::Write).unwrap();
    until("the log has it", || log.held() == 1);
    log.release();
    assert_eq!(peer.rest(), b"+OK\r\n$1\r\n1\r\n");
}

#[test]
fn a_server_that_stops_gives_the_log_a_moment() {
    let (server, log) = start(Mode::Hold, |_| {});
    let mut peer = Peer::connect(&server);
    peer.send("SET a 1\n");
    until("the log has it", || log.held() == 1);
    std::thread::scope(|scope| {
        scope.spawn(|| server.stop());
        log.release();
    });
    // The outcome arrives before the order to stop, after it, or after the grace period.
    let reply = peer.rest();
    assert!(reply == b"+OK\r\n" || reply.is_empty(), "{}", reply.escape_ascii());
    let (server, log) = start(Mode::Hold, |_| {});
    let mut peer = Peer::connect(&server);
    peer.send("SET a 1\n");
    until("the log has it", || log.held() == 1);
    server.stop();
    assert_eq!(peer.rest(), b"");
}

/// Has the leader answer that this node has everything.
fn answer(log: &FakeLog) {
    let question = log.group.begin_question(log.clock_ms());
    log.group.question_answered(question, log.group.applied_index());
}

/// Calls the leader's answers until something has happened: a client may come after one of them.
fn answer_until(log: &FakeLog, what: &str, is_so: impl Fn() -> bool) {
    until(what, || {
        answer(log);
        is_so()
    });
}

#[test]
fn a_read_waits_for_the_leader_unless_the_records_are_fresh() {
    let (server, log) = start(Mode::Apply, |config| config.write_timeout_ms = 60_000);
    log.group.set_others(Some(2));
    log.group.set_read_bound_ms(1 << 40);
    let (mut reader, mut other) = (Peer::connect(&server), Peer::connect(&server));
    reader.send("GET a\nGET a\n");
    // It delays no other client, and itself no longer than needed.
    assert_eq!(other.ask("SET a 1"), "+OK");
    std::thread::scope(|scope| {
        let replied = Arc::new(AtomicBool::new(false));
        let seen = replied.clone();
        scope.spawn(move || {
            let replies = [reader.line(), reader.line(), reader.line(), reader.line()];
            seen.store(true, SeqCst);
            assert_eq!(replies, ["$1", "1", "$1", "1"]);
        });
        answer_until(&log, "the replies", || replied.load(SeqCst));
    });
    // From now on the records are fresh.
    assert_eq!((other.ask("GET a"), other.line()), ("$1".into(), "1".into()));
    assert_eq!(other.ask("TODANA.READ linear"), "+OK");
    std::thread::scope(|scope| {
        let replied = Arc::new(AtomicBool::new(false));
        let seen = replied.clone();
        scope.spawn(move || {
            let reply = other.ask("GET b");
            seen.store(true, SeqCst);
            assert_eq!(reply, "$-1");
        });
        answer_until(&log, "the reply", || replied.load(SeqCst));
    });
}

#[test]
fn a_read_without_a_leader_is_refused_when_its_time_is_over() {
    let (server, log) = start(Mode::Apply, |config| config.write_timeout_ms = 50);
    log.group.set_others(Some(2));
    let mut peer = Peer::connect(&server);
    let down = "-CLUSTERDOWN no leader confirms that this node is up to date";
    assert_eq!(peer.ask("GET a"), down);
    // Its time begins when it arrives.
    assert_eq!(peer.ask("GET a"), down);
    peer.send("TODANA.AFTER 9 30\nTODANA.READ local\nGET a\n");
    let late = "-CLUSTERDOWN this node has not applied entry 9 of the log";
    assert_eq!([peer.line(), peer.line(), peer.line()], [late, "+OK", "$-1"]);
    // A client that waits may leave.
    let mut leaver = Peer::connect(&server);
    leaver.send("GET a\n");
    drop(leaver);
    until("it has left", || server.info().connections == 1);
    assert_eq!(peer.ask("PING"), "+PONG");
}

#[test]
fn a_client_that_waits_for_an_entry_goes_on_when_it_is_applied() {
    let (server, log) = start(Mode::Apply, |config| config.write_timeout_ms = 60_000);
    let index = log.group.applied_index() + 1;
    let mut peer = Peer::connect(&server);
    peer.send(&format!("TODANA.AFTER {index} 60000\nTODANA.INDEX\n"));
    until("it is there", || server.info().connections == 1);
    log.group.skip(index);
    assert_eq!([peer.line(), peer.line()], ["+OK".to_string(), format!(":{index}")]);
}

/// A connection's part in the log, without the connection.
struct Part {
    server: Server,
    log: Arc<FakeLog>,
    clock: Clock,
    commit: Commit,
    round: Round,
    now: Moment,
}

impl Part {
    const PLACE: Place = Place { event_loop: 0, index: 0 };

    fn new(mode: Mode) -> Part {
        let (server, log) = start(mode, |config| config.write_timeout_ms = 1_000);
        let (clock, round) = (Clock::new(), Round::new(&server.shared));
        let now = clock.now();
        Part { server, log, clock, commit: Commit::default(), round, now }
    }

    fn pass(&mut self, ms: u64) {
        let us = self.now.wall_us + ms * 1_000;
        while self.clock.nanos(self.now.raw, self.clock.raw()) < 1_000_000 {
            std::hint::spin_loop();
        }
        self.now = Moment { raw: self.clock.raw(), wall_us: us };
    }

    /// Begins a turn. Returns whether it may wait for room.
    fn resume(&mut self) -> bool {
        let (shared, round) = (&self.server.shared, &self.round);
        self.commit.resume(shared, Part::PLACE, &self.clock, self.now, round).may_wait
    }

    fn set(&mut self, value: &[u8]) -> Ran<()> {
        let (databases, may_wait) = (self.log.group.databases().clone(), true);
        let level = ReadLevel::Local;
        let log = Log {
            group: GroupNumber::default(),
            submit: &*self.log,
            databases: &databases,
            may_wait,
            level,
            clock_ms: 0,
            now_ms: self.now.wall_ms(),
            of_guest: false,
        };
        let context = Context { now_ms: self.now.wall_ms(), value_bytes_max: usize::MAX };
        let set = Command::String(StringCommand::Set(Set::new(b"a", value)));
        self.commit.commits.run(log, 0, &set, context, &mut NullReply)
    }

    /// Ends a turn.
    fn end(&mut self, next: Next) -> u64 {
        let shared = &self.server.shared;
        let ms = match next {
            Next::Commit => self.commit.begin(shared, Part::PLACE, self.now, &mut self.round),
            _ => 0,
        };
        let client = crate::clients::tests::client(1);
        assert!(!self.commit.end_turn(next, &shared.loops[0].statistics, &client));
        ms
    }
}

#[test]
fn the_latency_of_a_request_includes_its_own_commit_only() {
    let mut part = Part::new(Mode::Hold);
    part.resume();
    assert_eq!(part.set(b"1"), Ran::Submitted);
    part.end(Next::Commit);
    part.round.hand_over(&part.server.shared);
    part.pass(1);
    assert!(part.commit.take_outcome(1, Outcome::Unknown));
    part.resume();
    assert!(part.commit.taken_ns > 0);
    assert_eq!(part.set(b"1"), Ran::Refused(NotDone::Unknown));
    part.end(Next::Read { wanted: 0 });
    part.pass(1);
    part.resume();
    assert_eq!(part.commit.taken_ns, 0);
}

#[test]
fn each_write_may_wait_for_room_as_long_as_the_one_before() {
    let mut part = Part::new(Mode::Hold);
    for _ in 0..2 {
        assert!(part.resume());
        part.end(Next::Commit);
        part.pass(999);
        assert!(part.resume());
        part.end(Next::Commit);
        part.pass(1);
        assert!(!part.resume(), "the time is over");
        part.end(Next::Read { wanted: 0 });
    }
}

#[test]
fn a_loop_does_not_collect_more_than_the_log_has_room_for() {
    let mut part = Part::new(Mode::Hold);
    part.resume();
    assert_eq!(part.set(b"1"), Ran::Submitted);
    part.end(Next::Commit);
    assert_eq!(part.log.held(), 0, "it is handed over at the end of the round");
    part.commit = Commit::default();
    assert_eq!(part.set(&vec![b'x'; 1 << 20]), Ran::Submitted);
    part.end(Next::Commit);
    assert_eq!(part.log.held(), 2);
}
