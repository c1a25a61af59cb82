//! The session of a connection: parses bytes into requests, executes them as commands or as the
//! session's own commands, and writes the replies as bytes.

use super::ahead::Ahead;
use super::call::Call;
use super::dispatch;
use super::encoder::{Encoder, Failure, quoted};
use super::flow::Flow;
use super::latency::observe;
use super::lookup;
use super::parser::{Bounds, Parsed, Parser};
use super::persistence;
use super::request::{Arguments, Request, pairs, wrong_arity};
use super::spec::{CONTAINER, IMMEDIATE, NO_AUTH, NO_MULTI};
use super::state::{State, Unfinished};
use super::table::Name;
use crate::{Budget, Host, Limits, Next, Progress, Session};
use std::sync::atomic::Ordering::Relaxed;
use todana_command::{Context, execute, execute_slice, prefetch};

/// A RESP connection.
#[derive(Debug, Default)]
pub struct RespSession {
    parser: Parser,
    state: State,
}

impl Session for RespSession {
    fn advance<H: Host>(
        &mut self,
        input: &[u8],
        output: &mut Vec<u8>,
        host: &mut H,
        budget: Budget,
    ) -> Progress {
        let RespSession { parser, state } = self;
        if !state.authenticated && !host.requires_password() {
            state.authenticated = true;
        }
        let mut bounds = bounds(state, host.limits());
        let output_bytes_max = host.limits().output_bytes_max;
        let mut encoder = Encoder::new(output, state.resp3, output_bytes_max, host.now_ms());
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
                if keys.len() > 1 && state.authenticated && state.transaction.is_none() {
                    prefetch(host.databases(), state.database, &keys);
                }
            }
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
            if state.begun.is_some() {
                // The request stays in the input and is parsed again.
                if let Some(Unfinished::Saving(_)) = state.begun {
                    break Next::Sleep { ms: persistence::POLL_MS };
                }
                break Next::Yield;
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

    #[inline]
    fn held_bytes(&self) -> usize {
        self.parser.held_bytes() + self.state.held_bytes()
    }

    fn is_mid_reply(&self) -> bool {
        matches!(self.state.begun, Some(Unfinished::Command(_))) || self.state.tail.is_some()
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

/// Executes one request of `length` bytes. `name` is the command of its first argument, if any.
#[inline]
fn respond<H: Host>(
    state: &mut State,
    name: Option<Name>,
    arguments: &[&[u8]],
    length: usize,
    encoder: &mut Encoder<'_>,
    host: &mut H,
) -> Flow {
    let start = encoder.out.len();
    state.skip_this = std::mem::take(&mut state.skip_next);
    encoder.failed = false;
    let flow = match admitted(state, name, arguments, length, host) {
        Ok(name) if state.transaction.is_some() && !name.spec().is(IMMEDIATE) => {
            match state.queue(name, arguments, host) {
                Ok(()) => encoder.simple("QUEUED"),
                Err(failure) => encoder.error(&failure),
            }
            Flow::Continue
        }
        Ok(name) => carry_out(state, name, arguments, encoder, host),
        Err((name, failure)) => {
            state.reject(name, failure, encoder, host);
            Flow::Continue
        }
    };
    if state.silent || state.skip_this {
        encoder.truncate(start);
        state.tail = None;
    }
    if state.begun.is_some() {
        state.skip_next = state.skip_this;
    }
    flow
}

/// Finds the command and checks the request against its row of the table.
#[inline]
fn admitted<H: Host>(
    state: &State,
    name: Option<Name>,
    arguments: &[&[u8]],
    length: usize,
    host: &H,
) -> Result<Name, (Option<Name>, Failure)> {
    let Some(mut name) = name else {
        return Err((None, unknown_command(arguments)));
    };
    let mut spec = name.spec();
    if spec.is(CONTAINER) || (name == Name::Command && arguments.len() > 1) {
        let Some(word) = arguments.get(1) else { return Err((Some(name), wrong_arity(name))) };
        let found = lookup::subcommand(name, word);
        // DEBUG has one error text for an unknown subcommand and for wrong arguments.
        let found = found.filter(|it| name != Name::Debug || it.spec().takes(arguments.len()));
        let Some(subcommand) = found else {
            let unknown = match name {
                Name::Debug => "ERR unknown subcommand or wrong number of arguments for '",
                _ => "ERR unknown subcommand '",
            };
            let help = format!("'. Try {} HELP.", spec.name.to_ascii_uppercase());
            return Err((Some(name), Failure::quoting(unknown, word, &help)));
        };
        name = subcommand;
        spec = name.spec();
    }
    if !spec.takes(arguments.len()) {
        return Err((Some(name), wrong_arity(name)));
    }
    if !state.authenticated && !spec.is(NO_AUTH) {
        return Err((Some(name), "NOAUTH Authentication required.".into()));
    }
    if state.transaction.is_some() && spec.is(NO_MULTI) {
        return Err((Some(name), "ERR Command not allowed inside a transaction".into()));
    }
    let key_bytes_max = host.limits().key_bytes_max;
    if length > key_bytes_max {
        let mut keys = spec.keys_in(arguments.len());
        if keys.any(|(at, _)| arguments[at].len() > key_bytes_max) {
            let text = format!("ERR key is longer than {key_bytes_max} bytes");
            return Err((Some(name), text.into()));
        }
    }
    Ok(name)
}

#[inline]
fn carry_out<H: Host>(
    state: &mut State,
    name: Name,
    arguments: &[&[u8]],
    encoder: &mut Encoder<'_>,
    host: &mut H,
) -> Flow {
    host.client().last_command.store(name as usize, Relaxed);
    let pairs = if dispatch::takes_pairs(name) { pairs(arguments) } else { Default::default() };
    let value_bytes_max = host.limits().value_bytes_max;
    let now_ms = encoder.now_ms;
    if state.begun.is_some() {
        host.resume(state.begun_ns);
    }
    let seed = if dispatch::takes_seed(name) { state.random(host) } else { 0 };
    let request = Request { name, arguments, now_ms, value_bytes_max };
    let mut flow = Flow::Continue;
    match dispatch::build(&request, &pairs, seed) {
        Some(Ok((command, format))) => {
            encoder.format = format;
            let context = Context { now_ms, value_bytes_max };
            if command.is_long() {
                let before = match state.begun.take() {
                    Some(Unfinished::Command(begun)) => Some(begun),
                    _ => None,
                };
                let (databases, database) = (host.databases(), state.database);
                let after = execute_slice(databases, database, &command, context, before, encoder);
                state.begun = after.map(Unfinished::Command);
                if state.begun.is_some() {
                    state.begun_ns = host.pause();
                    return Flow::Continue;
                }
            } else {
                let (databases, database) = (host.databases(), state.database);
                execute(databases, database, &command, context, encoder);
            }
        }
        Some(Err(failure)) => encoder.error(&failure),
        None => {
            observe_lookups(encoder, host);
            flow = Call { name, arguments, state, encoder, host }.run();
            encoder.resp3 = state.resp3;
            if state.begun.is_some() {
                state.begun_ns = host.pause();
                return Flow::Continue;
            }
        }
    }
    observe(name, arguments, encoder.failed, host);
    flow
}

#[inline]
fn observe_lookups<H: Host>(encoder: &mut Encoder<'_>, host: &mut H) {
    if encoder.lookups != (0, 0) {
        let (hits, misses) = std::mem::take(&mut encoder.lookups);
        host.observe_lookups(hits, misses);
    }
}

#[cold]
fn unknown_command(arguments: &[&[u8]]) -> Failure {
    use super::encoder::ERROR_QUOTE_BYTES_MAX;
    let mut text = Vec::from(b"ERR unknown command '");
    text.extend_from_slice(quoted(arguments[0]));
    text.extend_from_slice(b"', with args beginning with: ");
    let begin = text.len();
    for argument in &arguments[1..] {
        let listed = text.len() - begin;
        let Some(room) = ERROR_QUOTE_BYTES_MAX.checked_sub(listed).filter(|room| *room > 0) else {
            break;
        };
        text.push(b'\'');
        text.extend_from_slice(quoted(&argument[..argument.len().min(room)]));
        text.extend_from_slice(b"' ");
    }
    text.into()
}
