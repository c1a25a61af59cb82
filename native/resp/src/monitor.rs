//! MONITOR, and CLIENT PAUSE: what an operator does with the requests of other clients.

use super::call::{Call, Done};
use super::number;
use super::scripts;
use super::spec::ADMIN;
use super::state::{State, Unfinished};
use super::table::Name;
use crate::{Hold, Host};
use std::io::Write;
use std::sync::atomic::Ordering::Relaxed;
use todana_protocol::Class;

/// How often a request that is held back looks whether it may go on.
const HELD_MS: u64 = 50;
/// Longest line of MONITOR, before its bytes are escaped.
const LINE_BYTES_MAX: usize = 16 << 10;

/// How long a request that is held back sleeps.
pub(super) fn held_ms(until_ms: u64, now_ms: u64) -> u64 {
    until_ms.saturating_sub(now_ms).clamp(1, HELD_MS)
}

/// Whether the present request is held back. A request that the log has committed is not, nor is
/// one that is queued, nor one that can end it.
#[inline]
pub(super) fn is_held<H: Host>(
    state: &mut State,
    name: Name,
    arguments: &[&[u8]],
    host: &H,
) -> bool {
    // All that is held back at times includes what may write.
    host.held_until_ms(true).is_some() && hold(state, name, arguments, host)
}

/// Whether a request may change what other nodes or clients see. A script may say that it does not
/// write, and EXEC does what was queued.
pub(super) fn may_write<H: Host>(name: Name, arguments: &[&[u8]], host: &H) -> bool {
    match name {
        Name::Exec => false,
        Name::Eval => !scripts::only_reads(arguments[1]),
        Name::EvalSha => {
            let known = host.databases().interpreter().and_then(|it| it.source(arguments[1]));
            !known.is_some_and(|source| scripts::only_reads(&source))
        }
        Name::Publish | Name::SPublish => true,
        name => name.class() == Class::Write,
    }
}

#[cold]
fn hold<H: Host>(state: &mut State, name: Name, arguments: &[&[u8]], host: &H) -> bool {
    let queued = state.queued.as_ref().filter(|_| name == Name::Exec);
    let may_write = may_write(name, arguments, host) || queued.is_some_and(|it| it.may_write);
    let Some(until_ms) = host.held_until_ms(may_write) else {
        return false;
    };
    let is_queued = state.queued.is_some() && name != Name::Exec;
    let is_exempt = matches!(name, Name::ClientPause | Name::ClientUnpause);
    if is_queued || is_exempt || host.is_playing() || state.begun.is_some() {
        return false;
    }
    state.begun = Some(Unfinished::Held { until_ms });
    host.client().is_held.store(true, Relaxed);
    true
}

/// Sends a command to the clients that receive all of them. As in Redis, administrative commands
/// are not shown.
#[cold]
pub(super) fn note<H: Host>(name: Name, arguments: &[&[u8]], host: &H) {
    if name.spec().is(ADMIN) {
        return;
    }
    let now_us = host.now_us();
    let client = host.client();
    let mut line = Vec::new();
    // Writing to a vector does not fail.
    let _ = write!(
        line,
        "+{}.{:06} [{} {}]",
        now_us / 1_000_000,
        now_us % 1_000_000,
        client.database.load(Relaxed),
        client.address
    );
    let mut room = LINE_BYTES_MAX;
    for argument in without_password(name, arguments) {
        let shown = &argument[..argument.len().min(room)];
        room -= shown.len();
        line.extend_from_slice(b" \"");
        shown.iter().for_each(|byte| escape(*byte, &mut line));
        line.push(b'"');
        if shown.len() < argument.len() || room == 0 {
            line.extend_from_slice(b" ...");
            break;
        }
    }
    line.extend_from_slice(b"\r\n");
    host.monitor(line);
}

/// The arguments of a command, unless one of them may be a password.
pub(super) fn without_password<'a>(name: Name, arguments: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let mut arguments = arguments.to_vec();
    let sets_password = || arguments.iter().any(|it| it.eq_ignore_ascii_case(b"requirepass"));
    if name.spec().syntax.contains("password") || name == Name::ConfigSet && sets_password() {
        arguments[1..].fill(b"(redacted)");
    }
    arguments
}

/// A byte as in Redis' `sdscatrepr`.
fn escape(byte: u8, line: &mut Vec<u8>) {
    match byte {
        b'\\' | b'"' => line.extend_from_slice(&[b'\\', byte]),
        b'\n' => line.extend_from_slice(b"\\n"),
        b'\r' => line.extend_from_slice(b"\\r"),
        b'\t' => line.extend_from_slice(b"\\t"),
        0x07 => line.extend_from_slice(b"\\a"),
        0x08 => line.extend_from_slice(b"\\b"),
        b' '..=b'~' => line.push(byte),
        _ => {
            let _ = write!(line, "\\x{byte:02x}");
        }
    }
}

impl<H: Host> Call<'_, '_, H> {
    pub(super) fn monitor(&mut self) -> Done {
        self.host.set_monitor(true);
        self.ok()
    }

    pub(super) fn client_pause(&mut self) -> Done {
        let writes_only = match &self.arguments[3..] {
            [] => false,
            [word] if word.eq_ignore_ascii_case(b"all") => false,
            [word] if word.eq_ignore_ascii_case(b"write") => true,
            [_] => return Err("ERR CLIENT PAUSE mode must be WRITE or ALL".into()),
            _ => return Err(super::request::wrong_arity(self.name)),
        };
        let ms = number::integer(self.argument(2));
        let ms = ms.ok_or("ERR timeout is not an integer or out of range")?;
        let ms = u64::try_from(ms).map_err(|_| "ERR timeout is negative")?;
        let now_ms = self.host.now_ms();
        self.host.hold_clients(Some(Hold { until_ms: now_ms.saturating_add(ms), writes_only }));
        self.ok()
    }

    pub(super) fn client_unpause(&mut self) -> Done {
        self.host.hold_clients(None);
        self.ok()
    }
}
