//! A connection: distinguishes the protocol of each request, and resumes requests that take several
//! turns.
//!
//! A request waits in the input until its last byte has arrived, and is then processed without a
//! copy. Three kinds of requests are consumed as they arrive instead, with their state kept here:
//! chunked bodies, bulks of the binary protocol, and procedures that continue ([`Pending`]) after
//! their request has been consumed. Long responses are sent in pieces too.
//!
//! On a durable database, pipelined requests of one command each share a commit ([`ride`]).

mod ride;

use super::access::{self, Refused};
use super::binary::{self, Bulk};
use super::cursors::Cursors;
use super::flow::Flow;
use super::http::{
    Body, CONTINUE, Chunks, Common, Found, Head, Method, Response, Seen, Status, Trouble,
    answer_preflight, find, parse, refuse,
};
use super::rest;
use super::rpc::{self, Answer, Call};
use super::table::{COMMANDS, Row};
use super::turn::{Committing, Turn};
use crate::Host;
use std::borrow::Cow;
use todana_protocol::{Advance, Budget, Next, Progress, Session};

/// A Kyoto Tycoon connection.
#[derive(Debug, Default)]
pub struct KyotoSession {
    authenticated: bool,
    /// The response to the password of the current request has already been delayed.
    delayed: bool,
    state: State,
    /// A procedure that must continue before any other input is processed.
    pending: Option<Pending>,
    cursors: Cursors,
    /// The known part of the head at the front of the input.
    seen: Seen,
    /// Known length in bytes of the request at the front of the input.
    needed: usize,
    /// Whether `100 Continue` was sent for that request.
    continued: bool,
    /// Headers common to the response of the current request.
    common: Common,
}

/// What the bytes at the front of the input belong to.
#[derive(Debug, Default)]
enum State {
    /// A request.
    #[default]
    Request,
    /// The body of a request whose head has been consumed.
    Chunked(Box<Chunked>),
    /// Records of a bulk.
    Bulk(Bulk),
}

/// A request with a chunked body.
#[derive(Debug)]
struct Chunked {
    head: Vec<u8>,
    /// The offset of its headers.
    headers: usize,
    chunks: Chunks,
}

/// Work that takes several turns.
#[derive(Debug)]
enum Pending {
    /// A procedure, and the form of its response.
    Task { task: Box<rpc::Task>, keep_alive: bool, with_body: bool },
    /// The rest of a response.
    Body { body: Vec<u8>, sent: usize, keep_alive: bool },
}

/// The path of procedures.
const PROCEDURES: &[u8] = b"/rpc/";

/// Bytes of a response sent in one turn.
const SENT_BYTES: usize = 256 << 10;

impl<H: Host> Advance<H> for KyotoSession {
    fn advance(
        &mut self,
        input: &[u8],
        output: &mut Vec<u8>,
        host: &mut H,
        budget: Budget,
    ) -> Progress {
        if !self.authenticated && host.is_admitted() {
            self.authenticated = true;
        }
        self.common.date.set(host.replied_at_ms() / 1000);
        let mut turn = Turn::new(host, output);
        let mut consumed = 0;
        let mut requests_left = budget.requests_max;
        let next = loop {
            let rest = &input[consumed..];
            if self.pending.is_none()
                && (rest.is_empty() || rest.len() < self.needed)
                && !self.has_whole_body()
            {
                break self.read(self.needed.saturating_sub(rest.len()));
            }
            let output_bytes = turn.out.len().saturating_add(turn.spliced_bytes);
            let enough = output_bytes > budget.output_bytes_max || turn.host.turn_is_over();
            if requests_left == 0 || enough {
                break Next::Yield;
            }
            requests_left -= 1;
            let step = match self.pending.take() {
                Some(pending) => self.resume(&mut turn, pending),
                None => self.step(&mut turn, rest, budget.output_bytes_max),
            };
            match step {
                Flow::Done(taken) => consumed += taken,
                Flow::Read { taken, needed, wanted } => {
                    self.needed = needed;
                    consumed += taken;
                    break self.read(wanted);
                }
                Flow::Yield(taken) => {
                    consumed += taken;
                    break Next::Yield;
                }
                Flow::Wait { taken, ms } => {
                    consumed += taken;
                    break Next::Wait { ms };
                }
                Flow::Sleep { ms } => break Next::Sleep { ms },
                Flow::Commit(taken) => {
                    consumed += taken;
                    if let Some(at) = turn.behind {
                        self.ride(&mut turn, &rest[at..], requests_left);
                    }
                    break Next::Commit;
                }
                Flow::Close => break Next::Close,
            }
        };
        let (hits, misses) = turn.lookups;
        if self.authenticated {
            host.note_authenticated();
        }
        if hits + misses > 0 {
            host.observe_lookups(hits, misses);
        }
        Progress { consumed, next }
    }
}

impl Session for KyotoSession {
    fn held_bytes(&self) -> usize {
        let state = match &self.state {
            State::Request => 0,
            State::Chunked(chunked) => chunked.head.capacity() + chunked.chunks.body.capacity(),
            State::Bulk(bulk) => bulk.held_bytes(),
        };
        let pending = match &self.pending {
            None => 0,
            Some(Pending::Task { task, .. }) => task.held_bytes(),
            Some(Pending::Body { body, .. }) => body.capacity(),
        };
        state + pending + self.cursors.held_bytes()
    }

    fn is_mid_reply(&self) -> bool {
        // Responses to a bulk are in a protocol other than the error that a closing server sends.
        matches!(self.state, State::Bulk(_)) || matches!(self.pending, Some(Pending::Body { .. }))
    }
}

impl KyotoSession {
    /// Processes the front of the input, which is not empty.
    #[inline]
    fn step<H: Host>(
        &mut self,
        turn: &mut Turn<'_, H>,
        input: &[u8],
        output_bytes_max: usize,
    ) -> Flow {
        match &mut self.state {
            State::Request if is_binary(input[0]) => {
                if !self.authenticated {
                    return binary::refuse(turn);
                }
                match binary::begin(turn, input) {
                    Ok((bulk, from)) => {
                        self.becomes(State::Bulk(bulk));
                        self.bulk(turn, input, from, output_bytes_max)
                    }
                    Err(step) => step,
                }
            }
            State::Request => self.http(turn, input),
            State::Chunked(_) => self.chunked(turn, input),
            State::Bulk(_) => self.bulk(turn, input, 0, output_bytes_max),
        }
    }

    fn bulk<H: Host>(
        &mut self,
        turn: &mut Turn<'_, H>,
        input: &[u8],
        from: usize,
        output_bytes_max: usize,
    ) -> Flow {
        let State::Bulk(bulk) = &mut self.state else { return Flow::Close };
        self.needed = 0;
        let step = bulk.go_on(turn, input, from, output_bytes_max);
        if bulk.is_over() {
            self.becomes(State::Request);
        }
        step
    }

    /// Asks for more input. In the middle of a request it asks for at least one byte, even if all
    /// input was consumed: otherwise the connection would count as idle and never be closed.
    fn read(&self, wanted: usize) -> Next {
        let is_between = matches!(self.state, State::Request);
        Next::Read { wanted: if is_between { wanted } else { wanted.max(1) } }
    }

    /// Whether a request with a chunked body has arrived, but waited for the log.
    fn has_whole_body(&self) -> bool {
        matches!(&self.state, State::Chunked(chunked) if chunked.chunks.is_whole())
    }

    /// Forgets what was known of the front of the input.
    #[inline]
    fn becomes(&mut self, state: State) {
        self.state = state;
        self.seen = Seen::default();
        self.needed = 0;
        self.continued = false;
        self.delayed = false;
    }

    #[inline]
    fn http<H: Host>(&mut self, turn: &mut Turn<'_, H>, input: &[u8]) -> Flow {
        let limits = turn.host.limits();
        let head_bytes_max = match self.authenticated {
            true => limits.line_bytes_max,
            false => limits.line_bytes_max.min(limits.unauthenticated_argument_bytes_max),
        };
        self.common.origin.clear();
        let (head, length) = match find(input, &mut self.seen, head_bytes_max) {
            Found::Head(head, length) => (head, length),
            Found::Unfinished => return Flow::Read { taken: 0, needed: 0, wanted: 0 },
            Found::Other => {
                turn.observe(Row::Unknown, true, &[]);
                return Flow::Close;
            }
            Found::Bad(why) => return self.refuse(turn, (Status::BadRequest, why), None),
        };
        if !self.authenticated && !self.delayed && head.authorization.is_some() {
            let ms = turn.host.password_delay_ms();
            if ms > 0 {
                self.delayed = true;
                return Flow::Sleep { ms };
            }
        }
        let has_body = !matches!(head.body, Body::None | Body::Bytes(0));
        if let Err(refused) = self.admit(turn, &head) {
            let reason = (refused.status, refused.why);
            if !refused.keep_alive || !head.keep_alive || has_body {
                return self.refuse(turn, reason, Some(&head));
            }
            refuse(turn.out, &self.common, reason, true, head.method != Method::Head);
            turn.observe(Row::Unknown, true, &[head.name, head.target]);
            self.becomes(State::Request);
            return Flow::Done(length);
        }
        if head.is_preflight {
            let keep_alive = head.keep_alive && !has_body;
            answer_preflight(turn.out, &self.common, keep_alive);
            turn.observe(Row::Unknown, false, &[head.name, head.target]);
            self.becomes(State::Request);
            return if keep_alive { Flow::Done(length) } else { Flow::Close };
        }
        let body_bytes_max = turn.settings().body_bytes_max;
        let body_bytes = match head.body {
            Body::None => 0,
            Body::Bytes(bytes) => match usize::try_from(bytes) {
                Ok(bytes) if bytes <= body_bytes_max => bytes,
                _ => return self.refuse(turn, TOO_LARGE, Some(&head)),
            },
            Body::Chunks => {
                if head.expects_continue {
                    turn.out.extend_from_slice(CONTINUE);
                }
                let head = input[..length].to_vec();
                let (headers, chunks) = (self.seen.headers(), Chunks::default());
                self.becomes(State::Chunked(Box::new(Chunked { head, headers, chunks })));
                return Flow::Done(length);
            }
        };
        // Sent whether or not the body has already arrived, so that responses do not depend on
        // timing.
        if head.expects_continue && body_bytes > 0 && !self.continued {
            self.continued = true;
            turn.out.extend_from_slice(CONTINUE);
        }
        let total = length.saturating_add(body_bytes);
        match input.get(length..total) {
            Some(body) => {
                self.becomes(State::Request);
                let flow = self.answer(turn, &head, Cow::Borrowed(body), total);
                if let Flow::Commit(_) = flow {
                    // Neither its delay nor its interim response comes again.
                    (self.delayed, self.continued) = (true, true);
                    let is_whole = self.pending.is_none() && head.keep_alive;
                    if is_whole && turn.committing == Committing::Recorded && may_share(&head) {
                        turn.behind = Some(total);
                    }
                }
                flow
            }
            None => Flow::missing(input, total),
        }
    }

    /// Decides whether a request is refused. A preflight is admitted without a password, since it
    /// executes nothing.
    #[inline]
    fn admit<H: Host>(&mut self, turn: &Turn<'_, H>, head: &Head<'_>) -> Result<(), Refused> {
        access::check_sender(turn.settings(), head)?;
        self.common.origin.extend_from_slice(head.origin.unwrap_or_default());
        if head.is_preflight {
            return Ok(());
        }
        access::check_password(turn.host, &mut self.authenticated, head)
    }

    fn chunked<H: Host>(&mut self, turn: &mut Turn<'_, H>, input: &[u8]) -> Flow {
        let State::Chunked(chunked) = &mut self.state else { return Flow::Close };
        let taken = match chunked.chunks.take(input, turn.settings().body_bytes_max) {
            Ok(taken) => taken,
            Err(Trouble::Invalid) => {
                return self.refuse(turn, (Status::BadRequest, "invalid chunk"), None);
            }
            Err(Trouble::TooLarge) => return self.refuse(turn, TOO_LARGE, None),
        };
        if !chunked.chunks.is_whole() {
            let wanted = chunked.chunks.wanted();
            return Flow::Read { taken, needed: 0, wanted };
        }
        let State::Chunked(mut chunked) = std::mem::take(&mut self.state) else {
            return Flow::Close;
        };
        self.becomes(State::Request);
        let flow = match parse(&chunked.head, chunked.headers) {
            Found::Head(head, _) if is_procedure(&head) => {
                let body = std::mem::take(&mut chunked.chunks.body);
                self.answer(turn, &head, Cow::Owned(body), taken)
            }
            Found::Head(head, _) => {
                self.answer(turn, &head, Cow::Borrowed(&chunked.chunks.body), taken)
            }
            _ => Flow::Close,
        };
        if matches!(flow, Flow::Commit(_)) && self.pending.is_none() {
            self.becomes(State::Chunked(chunked));
            return Flow::Commit(taken);
        }
        flow
    }

    /// Answers a complete request; its last bytes are the first `taken` of the input.
    #[inline]
    fn answer<H: Host>(
        &mut self,
        turn: &mut Turn<'_, H>,
        head: &Head<'_>,
        body: Cow<'_, [u8]>,
        taken: usize,
    ) -> Flow {
        let (path, query) = head.path_and_query();
        let body = if head.method.takes_body() { body } else { Cow::Borrowed(&[][..]) };
        let Some(name) = path.strip_prefix(PROCEDURES) else {
            rest::answer(turn, &self.common, head, path, &body);
            if turn.committing != Committing::Nothing {
                return Flow::Commit(0);
            }
            return if head.keep_alive { Flow::Done(taken) } else { Flow::Close };
        };
        let is_in_input = !matches!(head.body, Body::Chunks);
        let call = Call { name, query, content_type: head.content_type, body, is_in_input };
        let step = rpc::begin(turn, &mut self.cursors, call);
        let how = (head.keep_alive, head.method != Method::Head);
        self.settle(turn, step, how, taken, &[head.name, head.target])
    }

    fn resume<H: Host>(&mut self, turn: &mut Turn<'_, H>, pending: Pending) -> Flow {
        match pending {
            Pending::Task { task, keep_alive, with_body } => {
                let step = rpc::resume(turn, &mut self.cursors, task);
                self.settle(turn, step, (keep_alive, with_body), 0, &[])
            }
            Pending::Body { body, sent, keep_alive } => self.send(turn, body, sent, keep_alive),
        }
    }

    /// Sends more of a long response.
    #[cold]
    fn send<H: Host>(
        &mut self,
        turn: &mut Turn<'_, H>,
        body: Vec<u8>,
        sent: usize,
        keep_alive: bool,
    ) -> Flow {
        let end = body.len().min(sent + SENT_BYTES);
        turn.out.extend_from_slice(&body[sent..end]);
        if end < body.len() {
            self.pending = Some(Pending::Body { body, sent: end, keep_alive });
            return Flow::Yield(0);
        }
        if keep_alive { Flow::Done(0) } else { Flow::Close }
    }

    /// Sends the response of a procedure, or keeps the remaining work.
    #[inline]
    fn settle<H: Host>(
        &mut self,
        turn: &mut Turn<'_, H>,
        step: rpc::Handled,
        (keep_alive, with_body): (bool, bool),
        taken: usize,
        words: &[&[u8]],
    ) -> Flow {
        let task = match step {
            rpc::Handled::Answered(answer) => {
                let Answer { status, content_type, body, row, failed } = answer;
                let headers: [(&str, &[u8]); 1] = [("Content-Type", content_type.as_bytes())];
                let response = Response { status, keep_alive, length: None, headers: &headers };
                let name = [COMMANDS[row as usize].as_bytes()];
                let words = if words.is_empty() { &name } else { words };
                if with_body && body.len() > SENT_BYTES {
                    let head = Response { length: Some(body.len()), ..response };
                    head.write_head(turn.out, &self.common);
                    turn.observe(row, failed, words);
                    self.pending = Some(Pending::Body { body, sent: 0, keep_alive });
                    return Flow::Yield(taken);
                }
                response.write(turn.out, &self.common, &body, with_body);
                turn.observe(row, failed, words);
                return if keep_alive { Flow::Done(taken) } else { Flow::Close };
            }
            rpc::Handled::Pause(task) => (task, Flow::Yield(taken)),
            rpc::Handled::Wait { ms, task } => (task, Flow::Wait { taken, ms }),
            rpc::Handled::Commit(Some(task)) => (task, Flow::Commit(taken)),
            rpc::Handled::Commit(None) => return Flow::Commit(0),
        };
        self.pending = Some(Pending::Task { task: task.0, keep_alive, with_body });
        task.1
    }

    /// Answers a request that was not executed; the connection ends.
    #[cold]
    fn refuse<H: Host>(
        &mut self,
        turn: &mut Turn<'_, H>,
        reason: (Status, &str),
        head: Option<&Head<'_>>,
    ) -> Flow {
        let with_body = head.is_none_or(|head| head.method != Method::Head);
        refuse(turn.out, &self.common, reason, false, with_body);
        turn.observe(Row::Unknown, true, &[reason.1.as_bytes()]);
        Flow::Close
    }
}

/// The response to a body that exceeds the limit.
const TOO_LARGE: (Status, &str) = (Status::TooLarge, "request entity too large");

/// Whether a request calls a procedure.
fn is_procedure(head: &Head<'_>) -> bool {
    head.path_and_query().0.starts_with(PROCEDURES)
}

/// Whether a request runs at most one command, so that others may share its commit.
fn may_share(head: &Head<'_>) -> bool {
    let name = head.path_and_query().0.strip_prefix(PROCEDURES);
    name.is_none_or(|name| Row::procedure(name).is_some_and(Row::runs_one_command))
}

/// Whether the first byte of a request belongs to the binary protocol.
fn is_binary(first: u8) -> bool {
    first == 0 || first >= 0x80
}
