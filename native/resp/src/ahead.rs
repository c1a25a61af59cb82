//! Parses several complete requests of the input before the first is executed.
//!
//! A pipeline brings many keys at once, and looking them all up costs much less if the memory that
//! they need is fetched together (see [`todana_command::prefetch`]). The session therefore parses
//! up to [`REQUESTS_MAX`] requests ahead, but only plain ones: complete arrays of few arguments,
//! within the bounds. Any other request (incomplete, long, inline or invalid) ends the parsing
//! ahead, and the resumable [`Parser`](super::parser::Parser) handles it in its turn.
//!
//! Nothing of this outlives a turn: requests that were parsed but not executed are parsed again.

use super::lookup;
use super::parser::{Bounds, Line, number_line};
use super::table::Name;
use smallvec::SmallVec;
use todana_command::PREFETCH_KEYS_MAX;

/// Most requests parsed ahead.
const REQUESTS_MAX: usize = PREFETCH_KEYS_MAX;
/// Most arguments of a request that is parsed ahead.
const ARGUMENTS_MAX: usize = 8;

/// Requests at the front of the input, in order.
#[derive(Debug, Default)]
pub(super) struct Ahead<'i> {
    /// The arguments of all requests, one after another.
    arguments: SmallVec<[&'i [u8]; 4 * REQUESTS_MAX]>,
    requests: SmallVec<[Read; REQUESTS_MAX]>,
    /// How many of the requests, and of the arguments, have been taken.
    requests_taken: usize,
    arguments_taken: usize,
}

/// One parsed request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    /// Its length in bytes.
    pub(super) length: usize,
    /// The command that its first argument names, if there is one.
    pub(super) name: Option<Name>,
    /// The number of its arguments.
    count: usize,
}

/// The first keys of the requests parsed ahead.
pub(super) type FirstKeys<'i> = SmallVec<[&'i [u8]; PREFETCH_KEYS_MAX]>;

impl<'i> Ahead<'i> {
    /// Parses the front of the input, and replaces the earlier result.
    pub(super) fn read(&mut self, input: &'i [u8], bounds: Bounds, requests_max: usize) {
        self.forget();
        let mut rest = input;
        while self.requests.len() < requests_max.min(REQUESTS_MAX) && !rest.is_empty() {
            let before = self.arguments.len();
            let Some(length) = self.request(rest, bounds) else {
                self.arguments.truncate(before);
                break;
            };
            let name = lookup::command(self.arguments[before]);
            self.requests.push(Read { length, name, count: self.arguments.len() - before });
            rest = &rest[length..];
        }
    }

    /// Forgets the requests that were not taken.
    pub(super) fn forget(&mut self) {
        self.arguments.clear();
        self.requests.clear();
        (self.requests_taken, self.arguments_taken) = (0, 0);
    }

    /// The next request and its arguments.
    #[inline]
    pub(super) fn take(&mut self) -> Option<(Read, &[&'i [u8]])> {
        let read = *self.requests.get(self.requests_taken)?;
        let start = self.arguments_taken;
        self.requests_taken += 1;
        self.arguments_taken += read.count;
        Some((read, &self.arguments[start..self.arguments_taken]))
    }

    /// Whether all requests have been taken.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.requests_taken == self.requests.len()
    }

    /// The first key of each request that has one, if there are several requests.
    pub(super) fn first_keys(&self) -> FirstKeys<'i> {
        let mut keys = FirstKeys::new();
        if self.requests.len() < 2 {
            return keys;
        }
        let mut start = 0;
        for read in &self.requests {
            let arguments = &self.arguments[start..start + read.count];
            start += read.count;
            let run = read.name.and_then(|name| name.spec().keys.first());
            keys.extend(run.and_then(|run| arguments.get(run.first)).copied());
        }
        keys
    }

    /// Appends the arguments of the request at the front of the input and returns its length, if it
    /// may be parsed ahead.
    #[inline]
    fn request(&mut self, input: &'i [u8], bounds: Bounds) -> Option<usize> {
        let (count, mut at) = line(input, 0, b'*', bounds.arguments_max.min(ARGUMENTS_MAX))?;
        if count == 0 {
            return None;
        }
        for _ in 0..count {
            let (length, start) = line(input, at, b'$', bounds.argument_bytes_max)?;
            // Both are lengths of bytes in memory, or bounded by the limits: no overflow.
            at = start + length + 2;
            if at > input.len() {
                return None;
            }
            self.arguments.push(&input[start..start + length]);
        }
        Some(at)
    }
}

/// The number in a line that begins at `at` with `kind`, and the offset of the next line.
#[inline]
fn line(input: &[u8], at: usize, kind: u8, most: usize) -> Option<(usize, usize)> {
    if *input.get(at)? != kind {
        return None;
    }
    let Line::Number(number, end) = number_line(input, at + 1) else { return None };
    let number = usize::try_from(number).ok()?;
    (number <= most).then_some((number, end))
}
