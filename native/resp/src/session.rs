//! The session of a connection: parses bytes into requests, executes them as commands or as the
//! session's own commands, and writes the replies as bytes.

use super::ahead::Ahead;
use super::channels;
use super::encoder::Encoder;
use super::flow::Flow;
use super::lookup;
use super::monitor;
use super::names;
use super::parser::{Bounds, Parsed, Parser};
use super::persistence;
use super::request::Arguments;
use super::respond::{observe_lookups, respond};
use super::ride::ride;
use super::state::{State, Unfinished};
use crate::Host;
use todana_command::prefetch;
use todana_protocol::{Advance, Budget, Limits, Next, Progress, Session};

/// A RESP connection.
#[derive(Debug, Default)]
pub struct RespSession {
    parser: Parser,
    state: State,
}

impl<H: Host> Advance<H> for RespSession {
    fn advance(
        &mut self,
        input: &[u8],
        output: &mut Vec<u8>,
        host: &mut H,
        budget: Budget,
    ) -> Progress {
        let RespSession { parser, state } = self;
        if !state.authenticated && host.is_admitted() {
            state.authenticated = true;
        }
        let mut bounds = bounds(state, host.limits());
        let output_bytes_max = host.limits().output_bytes_max;
        let mut encoder = Encoder::new(output, state.resp3, output_bytes_max);
        let mut consumed = 0;
        let mut requests_left = budget.requests_max;
        let mut ahead = Ahead::default();
        let mut ended = state.write_rest(&mut encoder, budget.output_bytes_max);
        let next = loop {
            if let Some(next) = ended {
                break next;
            }
            let rest = &input[consumed..];
            let enough = encoder.len() > budget.output_bytes_max || host.turn_is_over();
            if requests_left == 0 || enough {
                break if rest.is_empty() { Next::Read { wanted: 0 } } else { Next::Yield };
            }
            if ahead.is_empty() && parser.is_idle() {
                ahead.read(rest, bounds, requests_left);
                let keys = ahead.first_keys();
                if keys.len() > 1 && state.authenticated && state.queued.is_none() {
                    prefetch(host.databases(), state.database, &keys);
                }
            }
            let random = state.random;
            let (length, flow) = if let Some((read, arguments)) = ahead.take() {
                let length = read.length;
                (length, respond(state, read.name, arguments, length, &mut encoder, host))
            } else {
                match parser.advance(rest, bounds) {
                    Parsed::Request(length) => {
                        let arguments: Arguments<'_> = parser.arguments(rest).collect();
                        let name = lookup::command(arguments[0]);
                        let flow = respond(state, name, &arguments, length, &mut encoder, host);
                        let unusual = arguments.spilled();
                        drop(arguments);
                        if state.begun.is_some() {
                            parser.stay(length);
                        } else if unusual {
                            parser.shrink();
                        }
                        (length, flow)
                    }
                    // Empty requests count too, or a flood of them would occupy the thread.
                    Parsed::Nothing(length) => (length, Flow::Continue),
                    Parsed::Incomplete(wanted) => break Next::Read { wanted },
                    Parsed::Broken(text) => {
                        if !state.silent {
                            encoder.error(&format!("ERR {text}"));
                        }
                        break Next::Close;
                    }
                    Parsed::Http => break Next::Close,
                }
            };
            if encoder.overflowed {
                break Next::Close;
            }
            if let Some(unfinished) = &state.begun {
                let next = next_of(unfinished, state.database, host);
                // The request stays in the input and is parsed again. It then gets the same random
                // number, and so do those that ride with it.
                let drawn = std::mem::replace(&mut state.random, random);
                if let Unfinished::Commit { goes_on } = *unfinished {
                    state.begun = None;
                    *parser = Parser::default();
                    if goes_on {
                        let left = requests_left - 1;
                        state.random = drawn;
                        ride(state, &rest[length..], bounds, left, &mut encoder, host);
                        state.random = random;
                    }
                }
                break next;
            }
            consumed += length;
            requests_left -= 1;
            if state.tail.is_none() {
                ended = flow.ends();
            } else {
                state.tail.iter_mut().for_each(|tail| tail.then = flow);
                ended = state.write_rest(&mut encoder, budget.output_bytes_max);
            }
            if bounds.unauthenticated == state.authenticated {
                bounds = self::bounds(state, host.limits());
                ahead.forget();
            }
        };
        observe_lookups(&mut encoder, host);
        std::mem::take(&mut encoder.splices).into_iter().for_each(|splice| host.splice(splice));
        if state.authenticated {
            host.note_authenticated();
        }
        Progress { consumed, next }
    }
}

impl Session for RespSession {
    #[inline]
    fn held_bytes(&self) -> usize {
        self.parser.held_bytes() + self.state.held_bytes()
    }

    fn is_mid_reply(&self) -> bool {
        matches!(self.state.begun, Some(Unfinished::Command(_))) || self.state.tail.is_some()
    }
}

/// What an unfinished request waits for.
fn next_of<H: Host>(unfinished: &Unfinished, database: usize, host: &H) -> Next {
    match *unfinished {
        Unfinished::Command(_)
        | Unfinished::Listing(_)
        | Unfinished::Subscribing { waits: false, .. }
        | Unfinished::Topics(_)
        | Unfinished::Publishing { is_full: false, .. } => Next::Yield,
        Unfinished::Publishing { is_full: true, .. } => Next::Wait { ms: channels::FULL_MS },
        Unfinished::Subscribing { waits: true, .. } => Next::Wait { ms: channels::ANNOUNCING_MS },
        Unfinished::Saving(_) => Next::Wait { ms: persistence::POLL_MS },
        Unfinished::Waiting { until_ms, pause_ms, .. } => {
            Next::Wait { ms: persistence::wait_ms(until_ms, pause_ms, database, host) }
        }
        Unfinished::Asking { until_ms, is_asked } => {
            Next::Wait { ms: names::wait_ms(until_ms, is_asked, host.now_ms()) }
        }
        Unfinished::Held { until_ms } => {
            Next::Wait { ms: monitor::held_ms(until_ms, host.now_ms()) }
        }
        Unfinished::Paused => Next::Pause,
        Unfinished::Commit { .. } => Next::Commit,
    }
}

fn bounds(state: &State, limits: &Limits) -> Bounds {
    if state.authenticated {
        return Bounds {
            arguments_max: limits.arguments_max,
            argument_bytes_max: limits.value_bytes_max.max(limits.key_bytes_max),
            line_bytes_max: limits.line_bytes_max,
            unauthenticated: false,
        };
    }
    Bounds {
        arguments_max: limits.unauthenticated_arguments_max,
        argument_bytes_max: limits.unauthenticated_argument_bytes_max,
        line_bytes_max: limits.line_bytes_max.min(limits.unauthenticated_argument_bytes_max),
        unauthenticated: true,
    }
}
