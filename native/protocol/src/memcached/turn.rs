//! What a command's handler uses: the host, the output, and access to the commands.

use super::answer::{Answer, Lookups, Outcome, Writing};
use super::line::{Words, is_word};
use super::table::Row;
use crate::{Host, ProtocolName};
use std::sync::atomic::Ordering::Relaxed;
use todana_command::{Command, Context, execute};

/// The database that memcached's clients see.
pub(super) const DATABASE: usize = 0;

/// One call of `advance`.
#[derive(Debug)]
pub(super) struct Turn<'t, H> {
    pub(super) host: &'t mut H,
    pub(super) out: &'t mut Vec<u8>,
    pub(super) lookups: Lookups,
}

impl<'t, H: Host> Turn<'t, H> {
    pub(super) fn new(host: &'t mut H, out: &'t mut Vec<u8>) -> Turn<'t, H> {
        Turn { host, out, lookups: Lookups::default() }
    }

    /// Executes a command.
    #[inline]
    pub(super) fn execute(&mut self, command: &Command<'_>, writing: Writing<'_>) -> Outcome {
        let context = Context { now_ms: self.host.now_ms(), value_bytes_max: self.value_max() };
        let mut answer = Answer {
            out: self.out,
            writing,
            now_ms: context.now_ms,
            lookups: &mut self.lookups,
            outcome: Outcome::Missed,
        };
        execute(self.host.databases(), DATABASE, command, context, &mut answer);
        answer.outcome
    }

    /// Counts an executed command, and adds it to the slow log if it was slow.
    #[inline]
    pub(super) fn observe(&mut self, row: Row, failed: bool, line: &[u8]) {
        let index = row as usize;
        self.host.client().last_command.store(index, Relaxed);
        if let Some(micros) = self.host.observe(ProtocolName::Memcached, index, failed) {
            self.log_slow(micros, line);
        }
    }

    #[cold]
    fn log_slow(&self, micros: u64, line: &[u8]) {
        /// The number of arguments that Redis keeps too.
        const ARGUMENTS_MAX: usize = 32;
        let words: Vec<&[u8]> = Words::of(line).take(ARGUMENTS_MAX).collect();
        self.host.log_slow(micros, &words);
    }

    /// Writes a line.
    #[inline]
    pub(super) fn say(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    /// Writes a line unless the client suppressed the reply.
    #[inline]
    pub(super) fn say_unless(&mut self, noreply: bool, text: &str) {
        if !noreply {
            self.say(text);
        }
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.host.now_ms()
    }

    /// Longest value in bytes.
    pub(super) fn value_max(&self) -> usize {
        self.host.limits().memcached_value_bytes_max
    }

    /// Whether a key is valid: within the length limit, without spaces and control characters.
    #[inline]
    pub(super) fn admits_key(&self, key: &[u8]) -> bool {
        key.len() <= self.host.limits().key_bytes_max && is_word(key)
    }
}
