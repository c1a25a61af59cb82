//! A connection that speaks text: bytes to lines, lines to commands.
//!
//! Between two calls the session keeps five values: how far it has searched the front of the input
//! for the end of a line, how many bytes the current request needs, how much of a skipped value is
//! left, the state of a line of keys, and a search in progress. It copies nothing from the input
//! except the bounds of a search.
//!
//! A line is processed when it is complete, and must not exceed a limit. Only lines of `get` and
//! `gets` may be longer: they are processed in pieces, with as many whole keys as fit the limit.

use super::answer::Lookups;
use super::flow::Flow;
use super::keys::OneKey;
use super::line::{Words, is_http};
use super::range_search::{self, Search};
use super::retrieval::{self, Retrieval, Retrieved};
use super::table::Row;
use super::turn::{Committing, Turn};
use super::{ahead, authentication, commit, keys, meta, meta_set, server, stats, storage};
use crate::Host;
use memchr::{memchr, memrchr};
use todana_protocol::{Advance, Budget, Next, Progress, Session};

/// A connection that speaks the text protocol.
#[derive(Debug, Default)]
pub(super) struct TextSession {
    authenticated: bool,
    state: State,
    /// Number of bytes at the front of the input without a line end.
    searched: usize,
    /// Known length in bytes of the request at the front of the input.
    needed: usize,
    /// The search that [`State::Search`] continues.
    search: Option<Box<Search>>,
}

/// What the bytes at the front of the input belong to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// A request.
    #[default]
    Request,
    /// A value to be skipped, with this many bytes left.
    Unwanted(u64),
    /// The rest of a line to be skipped.
    UnwantedLine,
    /// More keys of a line whose beginning has been processed.
    Keys(Retrieval),
    /// The end of the line of a search that has begun.
    Search,
}

/// The state of a turn before a request.
#[derive(Clone, Copy, Debug)]
struct Start {
    consumed: usize,
    output_bytes: usize,
    lookups: Lookups,
    state: State,
}

impl Start {
    fn of<H>(turn: &Turn<'_, H>, consumed: usize, state: State) -> Start {
        Start { consumed, output_bytes: turn.out.len(), lookups: turn.lookups, state }
    }
}

/// The front of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Front<'i> {
    /// A line without its end, and the offset of its body.
    Line(&'i [u8], usize),
    /// Whole keys of a line that is too long to be processed at once.
    Keys(&'i [u8]),
    /// An incomplete line.
    Unfinished,
    /// A word that is too long for a key, in a line of keys.
    NoKey(Retrieval),
    /// An error that closes the connection. The reply has been written.
    Refused,
}

impl<H: Host> Advance<H> for TextSession {
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
        let mut turn = Turn::new(host, output);
        let mut consumed = 0;
        // The offset up to which keys have been prefetched. Prefetching begins with the second
        // request, so that a single request, as most clients send, does not pay for it.
        let mut fetched = 1;
        let mut requests_left = budget.requests_max;
        // Where the first request begins that the log must commit.
        let mut uncommitted = None;
        let next = loop {
            let rest = &input[consumed..];
            if let State::Unwanted(left) = &mut self.state {
                let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                consumed += taken;
                *left -= taken as u64;
                if *left > 0 {
                    break Next::Read { wanted: 0 };
                }
                self.state = State::Request;
                continue;
            }
            if self.state == State::UnwantedLine {
                let end = memchr(b'\n', rest);
                consumed += end.map_or(rest.len(), |end| end + 1);
                if end.is_none() {
                    break Next::Read { wanted: 1 };
                }
                self.state = State::Request;
                continue;
            }
            if rest.len() < self.needed || rest.is_empty() {
                break Next::Read { wanted: self.needed.saturating_sub(rest.len()) };
            }
            let enough = turn.out.len() > budget.output_bytes_max || turn.host.turn_is_over();
            if requests_left == 0 || enough {
                break Next::Yield;
            }
            if consumed >= fetched && self.is_before_request() {
                fetched = consumed.saturating_add(ahead::fetch_for_requests(turn.host, rest));
            }
            requests_left -= 1;
            let start = Start::of(&turn, consumed, self.state);
            let (line, body) = match self.front(&mut turn, rest) {
                Front::Line(line, body) => (line, body),
                _ if uncommitted.is_some() => break Next::Commit,
                Front::Keys(keys) => {
                    let (taken, is_whole) = self.keys(&mut turn, keys, budget.output_bytes_max);
                    if turn.is_committing() {
                        // At a guest. They are asked for again when the member has answered.
                        turn.lookups = start.lookups;
                        uncommitted = Some(start);
                        break Next::Commit;
                    }
                    consumed += taken;
                    if commit::replace_words(&mut turn, start.output_bytes, true) {
                        self.state = State::UnwantedLine;
                    }
                    if !is_whole {
                        break Next::Yield;
                    }
                    continue;
                }
                Front::Unfinished => break Next::Read { wanted: 0 },
                Front::NoKey(retrieval) => {
                    retrieval::no_key(&mut turn, retrieval);
                    self.consumed(0, State::UnwantedLine);
                    continue;
                }
                Front::Refused => break Next::Close,
            };
            if uncommitted.is_some() && !commit::may_ride(line) {
                break Next::Commit;
            }
            let flow = self.respond(&mut turn, line, rest, body, budget.output_bytes_max);
            let was_refused = turn.committing != Committing::Nothing;
            if was_refused {
                if turn.is_committing() {
                    let first = uncommitted.get_or_insert(start);
                    turn.out.truncate(first.output_bytes);
                    turn.lookups = first.lookups;
                    match flow {
                        Flow::Consumed(bytes) if turn.may_go_on() => {
                            consumed += self.consumed(bytes, State::Request);
                            continue;
                        }
                        _ => break Next::Commit,
                    }
                }
                commit::replace_words(&mut turn, start.output_bytes, false);
            }
            let flow = match flow {
                // The rest of a line that was refused is not answered again.
                Flow::Pause { .. } | Flow::PauseSearch { .. } if was_refused => {
                    Flow::Consumed(body)
                }
                flow => flow,
            };
            match flow {
                Flow::Consumed(bytes) => consumed += self.consumed(bytes, State::Request),
                Flow::Sleep { bytes, ms } => {
                    consumed += self.consumed(bytes, State::Request);
                    break Next::Sleep { ms };
                }
                Flow::Swallow { body, bytes } => {
                    consumed += self.consumed(body, State::Unwanted(bytes));
                }
                Flow::Missing(bytes) => {
                    self.needed = bytes;
                    self.searched = body - 1;
                    break Next::Read { wanted: bytes.saturating_sub(rest.len()) };
                }
                Flow::Pause { at, retrieval } => {
                    consumed += self.consumed(at, State::Keys(retrieval));
                    break Next::Yield;
                }
                Flow::PauseSearch { at } => {
                    consumed += self.consumed(at, State::Search);
                    break Next::Yield;
                }
                Flow::Close => break Next::Close,
            }
        };
        let next = match uncommitted {
            Some(first) => {
                // This request and those after it are run again when they are committed.
                turn.out.truncate(first.output_bytes);
                consumed = first.consumed;
                if first.state != State::Search {
                    self.search = None;
                }
                self.consumed(0, first.state);
                Next::Commit
            }
            None => next,
        };
        let lookups = turn.lookups;
        if self.authenticated {
            host.note_authenticated();
        }
        if lookups.hits + lookups.misses > 0 {
            host.observe_lookups(lookups.hits, lookups.misses);
        }
        Progress { consumed, next }
    }
}

impl Session for TextSession {
    #[inline]
    fn held_bytes(&self) -> usize {
        self.search.as_ref().map_or(0, |search| search.held_bytes())
    }

    fn is_mid_reply(&self) -> bool {
        matches!(self.state, State::Keys(_) | State::Search)
    }
}

impl TextSession {
    /// Whether the front of the input is the beginning of a new request.
    #[inline]
    fn is_before_request(&self) -> bool {
        self.authenticated && self.state == State::Request && self.searched == 0 && self.needed == 0
    }

    /// Records that the request at the front of the input is complete.
    #[inline]
    fn consumed(&mut self, bytes: usize, state: State) -> usize {
        self.state = state;
        self.searched = 0;
        self.needed = 0;
        bytes
    }

    /// Examines the front of the input.
    #[inline]
    fn front<'i, H: Host>(&mut self, turn: &mut Turn<'_, H>, input: &'i [u8]) -> Front<'i> {
        let limits = turn.host.limits();
        let line_bytes_max = match self.authenticated {
            true => limits.line_bytes_max,
            false => limits.line_bytes_max.min(limits.unauthenticated_argument_bytes_max),
        };
        let window = &input[..input.len().min(line_bytes_max.saturating_add(1))];
        let unsearched = window.get(self.searched..).unwrap_or_default();
        let Some(end) = memchr(b'\n', unsearched).map(|at| at + self.searched) else {
            if window.len() > line_bytes_max {
                return self.piece(turn, &window[..line_bytes_max]);
            }
            self.searched = input.len();
            return Front::Unfinished;
        };
        let line = &input[..end];
        Front::Line(line.strip_suffix(b"\r").unwrap_or(line), end + 1)
    }

    /// The keys at the front of a line that is too long, as far as they have arrived.
    #[cold]
    fn piece<'i, H: Host>(&self, turn: &mut Turn<'_, H>, start: &'i [u8]) -> Front<'i> {
        let keys = &start[..memrchr(b' ', start).unwrap_or(0)];
        match self.state {
            State::Keys(retrieval) if keys.is_empty() => Front::NoKey(retrieval),
            State::Keys(_) => Front::Keys(keys),
            State::Request if self.authenticated && is_get(keys) => Front::Keys(keys),
            _ => {
                turn.say("CLIENT_ERROR line too long");
                Front::Refused
            }
        }
    }

    /// Answers for the keys in a piece of a line. Returns the number of bytes processed, and
    /// whether the piece is complete.
    #[cold]
    fn keys<H: Host>(
        &mut self,
        turn: &mut Turn<'_, H>,
        piece: &[u8],
        output_bytes_max: usize,
    ) -> (usize, bool) {
        let mut words = Words::of(piece);
        let retrieval = match self.state {
            State::Keys(retrieval) => retrieval,
            _ => Retrieval::get(words.next() == Some(b"gets")),
        };
        match retrieval::retrieve_piece(turn, retrieval, words, piece, output_bytes_max) {
            Retrieved::All => (self.consumed(piece.len(), State::Keys(retrieval)), true),
            Retrieved::Until { left } => {
                (self.consumed(piece.len() - left, State::Keys(retrieval)), false)
            }
            Retrieved::Refused => (self.consumed(piece.len(), State::UnwantedLine), true),
        }
    }

    /// Answers the request whose line is at the front of `input`.
    #[inline]
    fn respond<H: Host>(
        &mut self,
        turn: &mut Turn<'_, H>,
        line: &[u8],
        input: &[u8],
        body: usize,
        output_bytes_max: usize,
    ) -> Flow {
        let mut words = Words::of(line);
        if let State::Keys(retrieval) = self.state {
            return retrieve(turn, retrieval, words, line, body, output_bytes_max);
        }
        if self.state == State::Search {
            return self.search(turn, line, body, output_bytes_max);
        }
        let name = words.next().unwrap_or_default();
        if !self.authenticated {
            return authentication::answer(turn, &mut self.authenticated, line, input, body);
        }
        match name {
            b"get" | b"gets" => {
                let retrieval = Retrieval::get(name == b"gets");
                if words.clone().next().is_none() {
                    retrieval::no_keys(turn, retrieval, line);
                    return Flow::Consumed(body);
                }
                if range_search::is_search(&words) {
                    self.search = range_search::begin(turn, name == b"gets", words, line);
                    return self.search(turn, line, body, output_bytes_max);
                }
                return retrieve(turn, retrieval, words, line, body, output_bytes_max);
            }
            b"gat" | b"gats" => {
                let with_cas = name == b"gats";
                return match retrieval::get_and_touch(turn, with_cas, &mut words, line) {
                    Some(retrieval) => {
                        retrieve(turn, retrieval, words, line, body, output_bytes_max)
                    }
                    None => Flow::Consumed(body),
                };
            }
            b"set" => return storage::store(turn, Row::Set, words, line, input, body),
            b"add" => return storage::store(turn, Row::Add, words, line, input, body),
            b"replace" => return storage::store(turn, Row::Replace, words, line, input, body),
            b"append" => return storage::store(turn, Row::Append, words, line, input, body),
            b"prepend" => return storage::store(turn, Row::Prepend, words, line, input, body),
            b"cas" => return storage::store(turn, Row::Cas, words, line, input, body),
            b"ms" => return meta_set::set(turn, words, line, input, body),
            b"mg" => meta::get(turn, words, line),
            b"md" => meta::delete(turn, words, line),
            b"ma" => meta::arithmetic(turn, words, line),
            b"me" => meta::debug(turn, words, line),
            b"mn" => {
                turn.say("MN");
                turn.observe(Row::Mn, false, line);
            }
            b"delete" => keys::answer(turn, OneKey::Delete, words, line),
            b"incr" => keys::answer(turn, OneKey::Increase, words, line),
            b"decr" => keys::answer(turn, OneKey::Decrease, words, line),
            b"touch" => keys::answer(turn, OneKey::Touch, words, line),
            b"flush_all" => server::flush_all(turn, words, line),
            b"version" => server::version(turn, line),
            b"verbosity" => server::verbosity(turn, words, line),
            b"stats" => stats::answer(turn, words, line),
            b"shutdown" => server::shutdown(turn, line),
            b"quit" => {
                turn.observe(Row::Quit, false, line);
                return Flow::Close;
            }
            _ if is_http(line) => return Flow::Close,
            _ => {
                turn.say("ERROR");
                turn.observe(Row::Unknown, true, line);
            }
        }
        Flow::Consumed(body)
    }

    /// Continues the search, if there is one.
    #[cold]
    fn search<H: Host>(
        &mut self,
        turn: &mut Turn<'_, H>,
        line: &[u8],
        body: usize,
        output_bytes_max: usize,
    ) -> Flow {
        if let Some(search) = &mut self.search
            && !range_search::go_on(turn, search, line, output_bytes_max)
        {
            return Flow::PauseSearch { at: line.len() };
        }
        self.search = None;
        Flow::Consumed(body)
    }
}

#[inline]
fn retrieve<H: Host>(
    turn: &mut Turn<'_, H>,
    retrieval: Retrieval,
    words: Words<'_>,
    line: &[u8],
    body: usize,
    output_bytes_max: usize,
) -> Flow {
    match retrieval::retrieve(turn, retrieval, words, line, output_bytes_max) {
        Retrieved::All | Retrieved::Refused => Flow::Consumed(body),
        Retrieved::Until { left } => Flow::Pause { at: line.len() - left, retrieval },
    }
}

/// Whether a line with this beginning is a retrieval and not a range search.
fn is_get(start: &[u8]) -> bool {
    let mut words = Words::of(start);
    matches!(words.next(), Some(b"get" | b"gets"))
        && !range_search::is_search(&words)
        && words.next().is_some()
}
