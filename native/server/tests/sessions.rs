//! What sessions of all protocols have in common.

use todana_group::Outcome;
use todana_kyoto::KyotoSession;
use todana_kyoto::testing::{FakeHost as KyotoHost, KyotoPart};
use todana_memcached::MemcachedSession;
use todana_memcached::testing::{FakeHost as MemcachedHost, MemcachedPart};
use todana_protocol::testing::{FakeHost, Part, Peer};
use todana_protocol::{Advance, Budget, Commits, Next, NotDone, Progress, ProtocolName, Wait};
use todana_resp::RespSession;
use todana_resp::testing::{FakeHost as RespHost, RespPart};

/// A host that delays the replies to passwords.
fn slow<P: Part>(protocol: ProtocolName) -> FakeHost<P> {
    let mut host = FakeHost::new(protocol);
    host.password = Some(b"secret".to_vec());
    host.password_delay_ms = 700;
    host
}

#[test]
fn a_right_password_of_a_wrong_user_does_not_authenticate() {
    let budget = Budget { requests_max: 128, output_bytes_max: 1 << 16 };
    let mut session = RespSession::default();
    let mut host = RespHost::new(ProtocolName::Resp);
    host.password = Some(b"secret".to_vec());
    for (input, authenticated) in
        [("AUTH bob secret\r\n", false), ("AUTH default secret\r\n", true)]
    {
        session.advance(input.as_bytes(), &mut Vec::new(), &mut host, budget);
        assert_eq!(host.authenticated, authenticated, "{input}");
    }
    let mut session = MemcachedSession::default();
    let mut host = MemcachedHost::new(ProtocolName::Memcached);
    host.password = Some(b"secret".to_vec());
    for (secret, authenticated) in [("me guess!", false), ("me secret", true)] {
        let input = format!("set x 0 0 9\r\n{secret}\r\n");
        session.advance(input.as_bytes(), &mut Vec::new(), &mut host, budget);
        assert_eq!(host.authenticated, authenticated, "{input}");
    }
}

#[test]
fn the_answer_to_a_password_is_held_back_right_or_wrong() {
    let budget = Budget { requests_max: 128, output_bytes_max: 1 << 16 };
    let mut output = Vec::new();
    for (input, answer) in [
        ("AUTH guess\r\n", "-WRONGPASS invalid username-password pair or user is disabled.\r\n"),
        ("AUTH secret\r\n", "+OK\r\n"),
        ("HELLO 3 AUTH default guess\r\n", "-WRONGPASS invalid"),
        ("HELLO 3 AUTH default secret\r\n", "%7\r\n"),
    ] {
        let mut host = slow::<RespPart>(ProtocolName::Resp);
        let input = [input, "PING\r\n"].concat();
        output.clear();
        let mut session = RespSession::default();
        let progress = session.advance(input.as_bytes(), &mut output, &mut host, budget);
        let consumed = input.len() - 6;
        assert_eq!(progress, Progress { consumed, next: Next::Sleep { ms: 700 } });
        assert!(output.starts_with(answer.as_bytes()), "{input}");
    }
    for (secret, answer) in
        [("guess!", "CLIENT_ERROR authentication failure\r\n"), ("secret", "STORED\r\n")]
    {
        let mut host = slow::<MemcachedPart>(ProtocolName::Memcached);
        let input = format!("set x 0 0 6\r\n{secret}\r\nmn\r\n");
        output.clear();
        let mut session = MemcachedSession::default();
        let progress = session.advance(input.as_bytes(), &mut output, &mut host, budget);
        let consumed = input.len() - 4;
        assert_eq!(progress, Progress { consumed, next: Next::Sleep { ms: 700 } });
        assert_eq!(output, answer.as_bytes());
    }
    for (password, answer) in [("Omd1ZXNz", "HTTP/1.1 401"), ("OnNlY3JldA==", "HTTP/1.1 404")] {
        let mut host = slow::<KyotoPart>(ProtocolName::Kyoto);
        let input = format!("GET /k HTTP/1.1\r\nAuthorization: Basic {password}\r\n\r\n");
        output.clear();
        let mut session = KyotoSession::default();
        let progress = session.advance(input.as_bytes(), &mut output, &mut host, budget);
        assert_eq!(progress, Progress { consumed: 0, next: Next::Sleep { ms: 700 } });
        assert!(output.is_empty() && !host.authenticated);
        let progress = session.advance(input.as_bytes(), &mut output, &mut host, budget);
        assert!(!matches!(progress.next, Next::Sleep { .. }), "{password}");
        assert!(output.starts_with(answer.as_bytes()), "{password}");
    }
}

#[test]
fn what_is_asked_before_a_page_may_send_spares_no_delay() {
    let budget = Budget { requests_max: 128, output_bytes_max: 1 << 16 };
    let mut host = KyotoHost::new(ProtocolName::Kyoto);
    host.password = Some(b"secret".to_vec());
    host.password_delay_ms = 700;
    host.part.kyoto.origins = vec!["https://example.org".into()];
    let guess = "Authorization: Basic Omd1ZXNz\r\n\r\n";
    let asked = format!(
        "OPTIONS /k HTTP/1.1\r\nOrigin: https://example.org\r\n\
         Access-Control-Request-Method: GET\r\n{guess}"
    );
    let input = format!("{asked}GET /k HTTP/1.1\r\n{guess}");
    let (mut session, mut output, mut consumed, mut slept) =
        (KyotoSession::default(), Vec::new(), 0, 0);
    loop {
        let input = &input.as_bytes()[consumed..];
        let progress = session.advance(input, &mut output, &mut host, budget);
        consumed += progress.consumed;
        match progress.next {
            Next::Sleep { .. } => slept += 1,
            next => break assert_eq!((next, slept), (Next::Close, 2)),
        }
    }
}

#[test]
fn a_turn_whose_time_is_used_up_ends_with_the_command_under_way() {
    let budget = Budget { requests_max: 128, output_bytes_max: 1 << 16 };
    let mut output = Vec::new();

    let mut host = RespHost::new(ProtocolName::Resp);
    host.turn_ends_at = 2;
    let input = b"*1\r\n$4\r\nPING\r\n".repeat(5);
    let progress = RespSession::default().advance(&input, &mut output, &mut host, budget);
    assert_eq!(progress, Progress { consumed: 2 * 14, next: Next::Yield });

    let mut host = MemcachedHost::new(ProtocolName::Memcached);
    host.turn_ends_at = 2;
    let input = b"mn\r\n".repeat(5);
    let progress = MemcachedSession::default().advance(&input, &mut output, &mut host, budget);
    assert_eq!(progress, Progress { consumed: 2 * 4, next: Next::Yield });
}

/// A read, its answer, and the answer if there is no leader.
fn each_protocol(test: impl Fn(&mut dyn Reader, &str, &str)) {
    test(
        &mut Peer::<RespSession, RespPart>::new(ProtocolName::Resp),
        "$-1\r\n",
        "-CLUSTERDOWN no leader confirms that this node is up to date\r\n",
    );
    let memcached = &mut Peer::<MemcachedSession, MemcachedPart>::new(ProtocolName::Memcached);
    test(memcached, "END\r\n", "SERVER_ERROR temporary failure\r\n");
    let kyoto = &mut Peer::<KyotoSession, KyotoPart>::new(ProtocolName::Kyoto);
    test(kyoto, "HTTP/1.1 404", "HTTP/1.1 503");
}

/// A client of any protocol that reads a record.
trait Reader {
    fn read(&mut self);
    fn go_on(&mut self) -> (String, Next);
    fn commits(&mut self) -> &mut Commits;
    fn commit(&mut self) -> bool;
    fn lookups(&self) -> (u64, u64);
}

impl<P: Part, S: Advance<FakeHost<P>> + Default> Reader for Peer<S, P> {
    fn read(&mut self) {
        self.receive(match self.host.client.protocol {
            ProtocolName::Resp => "GET a\r\n",
            ProtocolName::Memcached => "get a\r\n",
            ProtocolName::Kyoto => "GET /a HTTP/1.1\r\n\r\n",
        });
    }
    fn go_on(&mut self) -> (String, Next) {
        self.turn()
    }
    fn commits(&mut self) -> &mut Commits {
        &mut self.host.commits
    }
    fn commit(&mut self) -> bool {
        self.host.commit()
    }
    fn lookups(&self) -> (u64, u64) {
        self.host.lookups
    }
}

const READ: Next = Next::Read { wanted: 0 };

#[test]
fn a_read_waits_for_its_proof_and_is_answered_in_the_second_run() {
    each_protocol(|peer, answer, _| {
        peer.read();
        assert_eq!(peer.go_on(), (String::new(), Next::Commit));
        let commits = peer.commits();
        assert!(commits.hand_over().is_none() && !commits.is_waiting());
        assert_eq!(commits.begin_wait().map(|(_, wait)| wait), Some(Wait::Proof));
        assert!(commits.is_waiting() && commits.begin_wait().is_none());
        commits.settle(Outcome::Fresh);
        let (output, next) = peer.go_on();
        assert!(output.starts_with(answer), "{output}");
        assert_eq!(next, READ);
        assert_eq!(peer.lookups(), (0, 1));
        // The proof was for that input.
        peer.read();
        assert_eq!(peer.go_on(), (String::new(), Next::Commit));
    });
}

#[test]
fn a_read_without_a_proof_in_time_is_not_executed() {
    each_protocol(|peer, answer, refusal| {
        peer.read();
        peer.read();
        assert_eq!(peer.go_on().1, Next::Commit);
        assert_eq!(peer.commits().begin_wait().map(|(_, wait)| wait), Some(Wait::Proof));
        peer.commits().give_up(NotDone::NoLeader);
        // The requests that had arrived do not wait one after the other.
        let (output, next) = peer.go_on();
        assert!(output.starts_with(refusal), "{output}");
        assert_eq!((output.matches(refusal).count(), next), (2, READ));
        assert_eq!(peer.lookups(), (0, 0));
        // Later ones do.
        peer.read();
        assert_eq!(peer.go_on(), (String::new(), Next::Commit));
        assert!(peer.commit());
        assert!(peer.go_on().0.starts_with(answer));
    });
}
