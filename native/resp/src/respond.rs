//! One request: checks it, and executes it as a command on records or as the session's own.

use super::call::Call;
use super::channels;
use super::cluster;
use super::commit::{log_limit, not_done};
use super::dispatch;
use super::encoder::{Encoder, Failure, quoted};
use super::flow::Flow;
use super::latency::observe;
use super::lookup;
use super::monitor;
use super::reply::Formatted;
use super::reply_format::{FULL, ReplyFormat};
use super::request::{Request, pairs, wrong_arity};
use super::spec::{CONTAINER, IMMEDIATE, NO_AUTH, NO_MULTI};
use super::state::{State, Unfinished};
use super::table::Name;
use super::unsupported;
use super::{scripts, source, turns};
use crate::Host;
use std::sync::atomic::Ordering::Relaxed;
use todana_command::{Begun, Command, Context, ScriptCommand};
use todana_protocol::Ran;

/// Executes one request of `length` bytes. `name` is the command of its first argument, if any.
#[inline]
pub(super) fn respond<H: Host>(
    state: &mut State,
    name: Option<Name>,
    arguments: &[&[u8]],
    length: usize,
    encoder: &mut Encoder<'_>,
    host: &mut H,
) -> Flow {
    let start = encoder.out.len();
    state.skip_this = std::mem::take(&mut state.skip_next);
    encoder.failed = None;
    match state.begun {
        Some(Unfinished::Held { .. }) => {
            state.begun = None;
            host.client().is_held.store(false, Relaxed);
        }
        Some(Unfinished::Paused) => state.begun = None,
        _ => {}
    }
    let flow = match admitted(state, name, arguments, length, host) {
        Ok(name) if monitor::is_held(state, name, arguments, host) => Flow::Continue,
        Ok(name) if state.queued.is_some() && !name.spec().is(IMMEDIATE) => {
            match state.queue(name, arguments, host) {
                Ok(()) => encoder.simple("QUEUED"),
                Err(failure) => {
                    encoder.error(&failure);
                    observe_error(encoder, host);
                }
            }
            Flow::Continue
        }
        Ok(name) => carry_out(state, name, arguments, encoder, host),
        Err(_) if state.rides => state.begins_commit(false),
        Err((name, failure)) => {
            state.reject(name, failure, encoder, host);
            observe_error(encoder, host);
            Flow::Continue
        }
    };
    if (state.silent || state.skip_this) && !name.is_some_and(Name::pushes) {
        encoder.truncate(start);
        state.tail = None;
    }
    if state.begun.is_some() {
        state.skip_next = state.skip_this;
    }
    if state.tracks.is_some() {
        state.end_caching(name);
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
    let mut is_of_cluster = false;
    if spec.is(CONTAINER) || (name == Name::Command && arguments.len() > 1) {
        let Some(word) = arguments.get(1) else { return Err((Some(name), wrong_arity(name))) };
        let found = lookup::subcommand(name, word);
        // DEBUG has one error text for an unknown subcommand and for wrong arguments.
        let found = found.filter(|it| name != Name::Debug || it.spec().takes(arguments.len()));
        let Some(subcommand) = found else {
            if let Some(failure) = unsupported::subcommand_failure(spec.name, word) {
                return Err((Some(name), failure));
            }
            let unknown = match name {
                Name::Debug => "ERR unknown subcommand or wrong number of arguments for '",
                _ => "ERR unknown subcommand '",
            };
            let help = format!("'. Try {} HELP.", spec.name.to_ascii_uppercase());
            return Err((Some(name), Failure::quoting(unknown, word, &help)));
        };
        is_of_cluster = name == Name::Cluster;
        name = subcommand;
        spec = name.spec();
    }
    if !spec.takes(arguments.len()) {
        return Err((Some(name), wrong_arity(name)));
    }
    if !state.authenticated && !spec.is(NO_AUTH) {
        return Err((Some(name), "NOAUTH Authentication required.".into()));
    }
    channels::admit(state, name).map_err(|failure| (Some(name), failure))?;
    if is_of_cluster && let Err(failure) = cluster::admit(name, host) {
        return Err((Some(name), failure));
    }
    if state.queued.is_some() && spec.is(NO_MULTI) {
        return Err((Some(name), "ERR Command not allowed inside a transaction".into()));
    }
    let key_bytes_max = host.limits().key_bytes_max;
    if length > key_bytes_max {
        let mut keys = spec.keys_in(arguments);
        if keys.any(|(at, _)| arguments[at].len() > key_bytes_max) {
            let text = format!("ERR key is longer than {key_bytes_max} bytes");
            return Err((Some(name), text.into()));
        }
    }
    if host.client().redirects
        && let Err(failure) = cluster::elsewhere(state, name, arguments, host)
    {
        return Err((Some(name), failure));
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
    let start = encoder.out.len();
    let pairs = if dispatch::takes_pairs(name) { pairs(arguments) } else { Default::default() };
    let value_bytes_max = host.limits().value_bytes_max;
    let now_ms = host.now_ms();
    if state.begun.is_some() {
        host.resume(state.begun_ns);
    }
    let seed = if dispatch::takes_seed(name) { state.random(host) } else { 0 };
    let source = match dispatch::takes_source(name) {
        true => {
            source::begin(state, host);
            source::source(state, name, arguments, host)
        }
        false => None,
    };
    let request =
        Request { name, arguments, now_ms, value_bytes_max, script_limits: scripts::limits(host) };
    let mut flow = Flow::Continue;
    match dispatch::build(&request, &pairs, seed, source.as_deref()) {
        Some(Ok((Command::Script(ScriptCommand::Run(script)), _)))
            if !state.rides
                && host.is_full(state.database)
                && scripts::needs_room(script.source) =>
        {
            encoder.error(FULL);
        }
        Some(Ok((Command::Script(ScriptCommand::Run(script)), _)))
            if !turns::may_run(state.database, &script, host) =>
        {
            state.begun = Some(Unfinished::Paused);
            return Flow::Continue;
        }
        Some(Ok((command, format))) => {
            debug_assert!(name.class().admits(command.access()), "{command:?}");
            let context = Context { now_ms, value_bytes_max };
            let database = state.database;
            // The time left of a record is that by the clock of its database.
            let now_ms = match format {
                ReplyFormat::Expiry { absolute: false, .. } => host.records_ms(database),
                _ => now_ms,
            };
            let mut is_away = false;
            if state.tracks.is_some() {
                is_away = host.is_away(database);
                state.track(&[(name, arguments)], is_away, host);
            }
            let mut has_replied = false;
            let reply = &mut Formatted { sink: &mut *encoder, format, now_ms };
            let ran = if command.is_long() {
                let before = match state.begun.take() {
                    Some(Unfinished::Command(begun)) => Some(begun),
                    _ => None,
                };
                has_replied = before.as_ref().is_some_and(Begun::has_replied);
                let ran = host.run_slice(database, &command, context, before, reply);
                if let Ran::Done(Some(begun)) = ran {
                    state.begun = Some(Unfinished::Command(begun));
                    state.begun_ns = host.pause();
                    return Flow::Continue;
                }
                ran.map(drop)
            } else {
                host.run(database, &command, context, reply)
            };
            if let Command::Script(ScriptCommand::Run(_)) = command {
                host.end_work();
            }
            match ran {
                Ran::Done(()) => {
                    if std::mem::take(&mut encoder.is_too_large)
                        && let Some(failure) = log_limit(database, &command, context, host)
                    {
                        encoder.truncate(start);
                        encoder.error(&failure);
                    }
                }
                Ran::Submitted => return state.begins_commit(state.may_be_followed(name)),
                Ran::Later => return state.begins_commit(false),
                Ran::Refused(why) => {
                    encoder.truncate(start);
                    if has_replied {
                        // The client has a part of the reply.
                        return Flow::Close;
                    }
                    encoder.error(&not_done(why, database, host));
                }
            }
            if state.tracks.is_some() {
                state.end_pending(&[(name, arguments)], is_away, host);
            }
        }
        _ if state.rides => return state.begins_commit(false),
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

/// Counts the error of a request that was not executed.
#[cold]
fn observe_error<H: Host>(encoder: &Encoder<'_>, host: &mut H) {
    if let Some(code) = encoder.failed {
        host.observe_error(usize::from(code.0));
    }
}

#[inline]
pub(super) fn observe_lookups<H: Host>(encoder: &mut Encoder<'_>, host: &mut H) {
    if encoder.lookups != (0, 0) {
        let (hits, misses) = std::mem::take(&mut encoder.lookups);
        host.observe_lookups(hits, misses);
    }
}

#[cold]
fn unknown_command(arguments: &[&[u8]]) -> Failure {
    use super::encoder::ERROR_QUOTE_BYTES_MAX;
    if let Some(failure) = unsupported::failure(arguments[0]) {
        return failure;
    }
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
