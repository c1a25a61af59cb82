//! A connection: bytes to requests, requests to commands.
//!
//! Between two calls the session keeps whether the client has authenticated, how many bytes the
//! current request needs, and how much of a value that is too long is left to be skipped.

use super::super::line::KEY_BYTES_MAX;
use super::super::table::Row;
use super::super::turn::{Committing, Turn};
use super::frame::{HEAD_BYTES, Head, REQUEST};
use super::opcode::{Action, Opcode};
use super::request::{Request, value_bytes};
use super::sasl::Sasl;
use super::status::{Status, not_done};
use super::step::Step;
use super::{ahead, keys, retrieval, server, storage};
use crate::Host;
use crate::answer::Lookups;
use todana_protocol::{Budget, Next, Progress};

/// A connection that speaks the binary protocol.
#[derive(Debug, Default)]
pub(crate) struct BinarySession {
    sasl: Sasl,
    /// Bytes of a value to be skipped.
    unwanted_bytes: usize,
    /// Known length in bytes of the request at the front of the input.
    needed: usize,
}

/// The state of a turn before a request.
#[derive(Clone, Copy, Debug)]
struct Start {
    consumed: usize,
    output_bytes: usize,
    lookups: Lookups,
}

impl BinarySession {
    /// As [`Advance::advance`](todana_protocol::Advance::advance).
    pub(crate) fn advance<H: Host>(
        &mut self,
        input: &[u8],
        output: &mut Vec<u8>,
        host: &mut H,
        budget: Budget,
    ) -> Progress {
        if host.is_admitted() {
            self.sasl.authenticated = true;
        }
        let mut turn = Turn::new(host, output);
        let mut consumed = 0;
        // The offset up to which keys have been prefetched; a single request does not pay for it.
        let mut fetched = 1;
        let mut requests_left = budget.requests_max;
        // Where the first request begins that the log must commit.
        let mut uncommitted = None;
        let next = loop {
            let rest = &input[consumed..];
            let skipped = self.unwanted_bytes.min(rest.len());
            if skipped > 0 {
                self.unwanted_bytes -= skipped;
                consumed += skipped;
                continue;
            }
            if rest.len() < self.needed || rest.is_empty() {
                break Next::Read { wanted: self.needed.saturating_sub(rest.len()) };
            }
            let enough = turn.out.len() > budget.output_bytes_max || turn.host.turn_is_over();
            if requests_left == 0 || enough {
                break Next::Yield;
            }
            if consumed >= fetched && self.sasl.authenticated {
                fetched = consumed.saturating_add(ahead::fetch_for_requests(turn.host, rest));
            }
            requests_left -= 1;
            if rest[0] != REQUEST {
                break Next::Close;
            }
            let Some(head) = Head::of(rest) else {
                self.needed = HEAD_BYTES;
                break Next::Read { wanted: HEAD_BYTES - rest.len() };
            };
            let opcode = admitted(head, turn.host.limits().key_bytes_max);
            // A request that concerns no record waits for the commit before it.
            if uncommitted.is_some() && !opcode.is_ok_and(Opcode::has_record) {
                break Next::Commit;
            }
            let (output_bytes, lookups) = (turn.out.len(), turn.lookups);
            let start = Start { consumed, output_bytes, lookups };
            let step = match opcode {
                Ok(opcode) => self.respond(&mut turn, opcode, head, rest),
                Err(malformed) => malformed.answer(&mut turn, head, self.sasl.authenticated),
            };
            if turn.is_committing() {
                let first = uncommitted.get_or_insert(start);
                turn.out.truncate(first.output_bytes);
                turn.lookups = first.lookups;
                match step {
                    Step::Next(bytes) if turn.may_go_on() => {
                        consumed += self.begin_at(bytes);
                        continue;
                    }
                    _ => break Next::Commit,
                }
            }
            if let Committing::Refused(why) = std::mem::take(&mut turn.committing) {
                turn.out.truncate(start.output_bytes);
                let (status, text) = not_done(why);
                head.frame.fail_with(turn.out, status, text);
            }
            match step {
                Step::Next(bytes) => consumed += self.begin_at(bytes),
                Step::Sleep { bytes, ms } => {
                    consumed += self.begin_at(bytes);
                    break Next::Sleep { ms };
                }
                Step::Missing(bytes) => {
                    self.needed = bytes;
                    break Next::Read { wanted: bytes.saturating_sub(rest.len()) };
                }
                Step::Swallow { at, bytes } => {
                    consumed += self.begin_at(at);
                    self.unwanted_bytes = bytes;
                }
                Step::Close => break Next::Close,
            }
        };
        let next = match uncommitted {
            Some(Start { consumed: first, output_bytes, .. }) => {
                // This request and those after it are run again when they are committed.
                turn.out.truncate(output_bytes);
                consumed = self.begin_at(first);
                Next::Commit
            }
            None => next,
        };
        let lookups = turn.lookups;
        if self.sasl.authenticated {
            host.note_authenticated();
        }
        if lookups.hits + lookups.misses > 0 {
            host.observe_lookups(lookups.hits, lookups.misses);
        }
        Progress { consumed, next }
    }

    /// The next request begins at this offset.
    #[inline]
    fn begin_at(&mut self, bytes: usize) -> usize {
        self.needed = 0;
        bytes
    }

    /// Answers the request at the front of `input`, whose lengths are valid.
    #[inline]
    fn respond<H: Host>(
        &mut self,
        turn: &mut Turn<'_, H>,
        opcode: &'static Opcode,
        head: Head,
        input: &[u8],
    ) -> Step {
        let value_max = match self.sasl.authenticated {
            true => turn.value_max(),
            false => match refused_before_authentication(turn, opcode, head) {
                Some(step) => return step,
                None => value_bytes(head),
            },
        };
        let request = match Request::of(opcode, head, input, value_max) {
            Ok(request) => request,
            Err(total) => return Step::Missing(total),
        };
        let bytes = request.bytes();
        if request.value_bytes > request.value.len() {
            storage::refuse_value(turn, &request);
            return Step::Swallow { at: bytes, bytes: request.value_bytes };
        }
        match opcode.action {
            Action::Get { with_key } => retrieval::get(turn, &request, with_key, false),
            Action::GetAndTouch { with_key } => retrieval::get(turn, &request, with_key, true),
            Action::Touch => retrieval::touch(turn, &request),
            Action::Store => storage::store(turn, &request),
            Action::Concat => storage::concat(turn, &request),
            Action::Delete => keys::delete(turn, &request),
            Action::Increase => keys::increase(turn, &request),
            Action::Decrease => keys::decrease(turn, &request),
            Action::Flush => server::flush(turn, &request),
            Action::Noop | Action::Verbosity => request.succeed(turn, &[], 0),
            Action::Version => server::version(turn, &request),
            Action::Stat => server::stat(turn, &request),
            Action::ListMechanisms | Action::Authenticate | Action::ContinueAuthentication => {
                return self.sasl.answer(turn, &request);
            }
            Action::Quit => {
                request.succeed(turn, &[], 0);
                return Step::Close;
            }
        }
        Step::Next(bytes)
    }
}

/// An error in a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Malformed {
    /// No opcode has this code. The request is skipped.
    Unknown,
    /// Key and extras are longer than the body.
    Body,
    /// The opcode does not allow these lengths, or the key is too long.
    Lengths,
}

impl Malformed {
    #[cold]
    fn answer<H: Host>(self, turn: &mut Turn<'_, H>, head: Head, authenticated: bool) -> Step {
        let (status, step) = match self {
            Malformed::Body => (Status::UnknownCommand, Step::Close),
            _ if !authenticated => (Status::AuthenticationError, Step::Close),
            Malformed::Lengths => (Status::Invalid, Step::Close),
            Malformed::Unknown => {
                let step = Step::Swallow { at: HEAD_BYTES, bytes: head.body_bytes };
                (Status::UnknownCommand, step)
            }
        };
        head.frame.fail(turn.out, status);
        turn.observe(Row::Unknown, true, &[]);
        step
    }
}

/// The opcode of a request, if the lengths in its head are valid.
#[inline]
fn admitted(head: Head, key_bytes_max: usize) -> Result<&'static Opcode, Malformed> {
    let before_value = head.extras_bytes + head.key_bytes;
    if before_value > head.body_bytes {
        return Err(Malformed::Body);
    }
    if head.key_bytes > KEY_BYTES_MAX.min(key_bytes_max) {
        return Err(Malformed::Lengths);
    }
    let opcode = Opcode::find(head.frame.opcode).ok_or(Malformed::Unknown)?;
    let value_bytes = head.body_bytes - before_value;
    match opcode.admits(head.extras_bytes, head.key_bytes, value_bytes) {
        true => Ok(opcode),
        false => Err(Malformed::Lengths),
    }
}

/// The answer to a request that a client may not send before it has authenticated.
#[cold]
fn refused_before_authentication<H: Host>(
    turn: &mut Turn<'_, H>,
    opcode: &Opcode,
    head: Head,
) -> Option<Step> {
    let is_admitted = matches!(
        opcode.action,
        Action::ListMechanisms
            | Action::Authenticate
            | Action::ContinueAuthentication
            | Action::Version
    );
    let bytes_max = turn.host.limits().unauthenticated_argument_bytes_max;
    if is_admitted && value_bytes(head) <= bytes_max {
        return None;
    }
    head.frame.fail(turn.out, Status::AuthenticationError);
    let row = if is_admitted { opcode.row } else { Row::Unknown };
    turn.observe(row, true, &[]);
    Some(Step::Close)
}
