//! A session for tests: one request is one line.

use crate::door::Door;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use todana_kyoto::Signals;
use todana_protocol::{Advance, Budget, Next, Progress, ProtocolName, Session};

/// Counts lines of all servers of this process.
pub(super) static TICKS: AtomicUsize = AtomicUsize::new(0);
thread_local! {
    static TURNS: Cell<usize> = const { Cell::new(0) };
}
/// Scripts that are being executed, and the most there were at a time.
pub(super) static RUNNING: AtomicUsize = AtomicUsize::new(0);
pub(super) static RUNNING_MOST: AtomicUsize = AtomicUsize::new(0);
/// Loops that wait at the gate, and whether it is open.
pub(super) static AT_GATE: AtomicUsize = AtomicUsize::new(0);
pub(super) static GATE: AtomicBool = AtomicBool::new(false);

/// | request | answer |
/// |---|---|
/// | `big N` | a line of N bytes |
/// | `sleep MS` | `slept`, when the time is over |
/// | `wait NAME MS` | `signalled` or `late` |
/// | `signal NAME [all]` | how many waited |
/// | `work MS` | the same line, after keeping the loop busy for this long |
/// | `gate` | the same line, after keeping the loop busy until [`GATE`] is open |
/// | `tick` | the number of lines counted before |
/// | `turn` | the number of `turn` lines that this loop has answered before |
/// | `script MS`, `short MS` | the same; the loop is busy for this long, in a turn for such work |
/// | `auth PASSWORD` | `true` or `false` |
/// | `stranger PASSWORD` | the same with an unknown user name |
/// | `slow` | an entry in the slow log, and `slow` |
/// | `kill ID` | whether there is such a client |
/// | `set NAME VALUE` | sets an option; `ok` or the error |
/// | `get NAME` | the option's value |
/// | `reset` | resets counters |
/// | `hold N` | the same line, and N bytes held from then on |
/// | `begin N` | the same line, as the start of a long reply, and N bytes held from then on |
/// | `keep` | the same line, after `CLIENT NO-EVICT ON` |
/// | `miss` | counts a look-up that found nothing |
/// | `fail` | counts an error |
/// | `swallow N` | takes the N bytes after the line, then `swallowed` |
/// | `close` | closes |
/// | `panic` | panics |
/// | anything else | the same line |
#[derive(Debug)]
pub(crate) struct ScriptedDoor {
    protocol: ProtocolName,
    waiting: bool,
    held: usize,
    mid_reply: bool,
}

impl Door for ScriptedDoor {
    fn open(protocol: ProtocolName) -> ScriptedDoor {
        ScriptedDoor { protocol, waiting: false, held: 0, mid_reply: false }
    }
}

impl<H: todana_resp::Host + Signals> Advance<H> for ScriptedDoor {
    fn advance(
        &mut self,
        input: &[u8],
        output: &mut Vec<u8>,
        host: &mut H,
        budget: Budget,
    ) -> Progress {
        let mut consumed = 0;
        if std::mem::take(&mut self.waiting) {
            let answer: &[u8] = if host.end_wait() { b"signalled\n" } else { b"late\n" };
            output.extend_from_slice(answer);
            host.observe(self.protocol, 0, false);
        }
        for _ in 0..budget.requests_max {
            let rest = &input[consumed..];
            let Some(length) = rest.iter().position(|byte| *byte == b'\n') else {
                return Progress { consumed, next: Next::Read { wanted: 0 } };
            };
            let line = std::str::from_utf8(&rest[..length]).unwrap().to_string();
            let (word, argument) = line.split_once(' ').unwrap_or((&line, ""));
            let number = || argument.parse::<usize>().unwrap_or(0);
            let mut answer = line.clone();
            let mut next = None;
            let mut failed = false;
            match word {
                "big" => answer = "x".repeat(number()),
                "sleep" => {
                    answer = "slept".into();
                    next = Some(Next::Sleep { ms: number() as u64 });
                }
                "wait" => {
                    let (name, ms) = argument.split_once(' ').unwrap();
                    host.begin_wait(name.as_bytes());
                    self.waiting = true;
                    let next = Next::Wait { ms: ms.parse().unwrap() };
                    return Progress { consumed: consumed + length + 1, next };
                }
                "signal" => {
                    let (name, all) = argument.split_once(' ').unwrap_or((argument, ""));
                    answer = host.signal(name.as_bytes(), all == "all").to_string();
                }
                "work" => std::thread::sleep(Duration::from_millis(number() as u64)),
                "gate" => {
                    AT_GATE.fetch_add(1, Relaxed);
                    while !GATE.load(Relaxed) {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    AT_GATE.fetch_sub(1, Relaxed);
                }
                "tick" => answer = TICKS.fetch_add(1, Relaxed).to_string(),
                "turn" => answer = TURNS.replace(TURNS.get() + 1).to_string(),
                "script" | "short" => {
                    if !host.begin_work(word == "script") {
                        return Progress { consumed, next: Next::Pause };
                    }
                    RUNNING_MOST.fetch_max(RUNNING.fetch_add(1, Relaxed) + 1, Relaxed);
                    answer = TICKS.fetch_add(1, Relaxed).to_string();
                    std::thread::sleep(Duration::from_millis(number() as u64));
                    RUNNING.fetch_sub(1, Relaxed);
                    host.end_work();
                }
                "auth" | "stranger" => {
                    next = match host.password_delay_ms() {
                        0 => None,
                        ms => Some(Next::Sleep { ms }),
                    };
                    let right = host.check_password(argument.as_bytes());
                    if right && word == "auth" {
                        host.note_authenticated();
                    }
                    answer = right.to_string();
                }
                "slow" => host.log_slow(number() as u64, &[b"slow"]),
                "kill" => answer = host.kill(number() as u64).to_string(),
                "set" => {
                    let (name, value) = argument.split_once(' ').unwrap();
                    answer = host.set_option(name, value).map_or_else(|e| e, |()| "ok".into());
                }
                "get" => {
                    let found = host.options().into_iter().find(|(name, _)| name == argument);
                    answer = found.map_or("none".into(), |(_, value)| value);
                }
                "hold" => self.held = number(),
                "begin" => (self.held, self.mid_reply) = (number(), true),
                "keep" => host.client().no_evict.store(true, Relaxed),
                "reset" => host.reset_stats(),
                "miss" => host.observe_lookups(0, 1),
                "fail" => failed = true,
                "swallow" => {
                    let there = rest.len() - length - 1;
                    if there < number() {
                        let wanted = number() - there;
                        return Progress { consumed, next: Next::Read { wanted } };
                    }
                    consumed += number();
                    answer = "swallowed".into();
                }
                "close" => next = Some(Next::Close),
                "panic" => panic!("a test asked for it"),
                _ => {}
            }
            consumed += length + 1;
            output.extend_from_slice(answer.as_bytes());
            output.push(b'\n');
            host.observe(self.protocol, 0, failed);
            if let Some(next) = next {
                return Progress { consumed, next };
            }
            if output.len() >= budget.output_bytes_max || host.turn_is_over() {
                return Progress { consumed, next: Next::Yield };
            }
        }
        Progress { consumed, next: Next::Yield }
    }
}

impl Session for ScriptedDoor {
    fn held_bytes(&self) -> usize {
        self.held
    }

    fn is_mid_reply(&self) -> bool {
        self.mid_reply
    }
}
