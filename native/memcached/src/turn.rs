//! What a command's handler uses: the host, the output, and access to the commands.

use super::answer::{Answer, Lookups, Outcome, Writing};
use super::line::{Words, is_word};
use super::table::Row;
use crate::Host;
use std::sync::atomic::Ordering::Relaxed;
use todana_command::{Command, Context, Error, StringCommand};
use todana_protocol::{NotDone, ProtocolName, Ran};

/// The database that memcached's clients see.
pub(super) const DATABASE: usize = 0;

/// One call of `advance`.
#[derive(Debug)]
pub(super) struct Turn<'t, H> {
    pub(super) host: &'t mut H,
    pub(super) out: &'t mut Vec<u8>,
    pub(super) lookups: Lookups,
    /// What became of the commands of the present request, or of a request before it in this turn
    /// that the log must commit.
    pub(super) committing: Committing,
    /// Whether requests are counted by the prefix of their key.
    pub(super) counts_prefixes: bool,
}

/// Whether requests are answered in this turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Committing {
    /// They are.
    #[default]
    Nothing,
    /// A command was recorded for the log. The replies from this request on are dropped, and the
    /// requests are run again.
    Recorded,
    /// The same, and a command must wait for the commit: the turn ends before its request.
    Later,
    /// The log refused a command of the present request.
    Refused(NotDone),
}

impl<'t, H: Host> Turn<'t, H> {
    pub(super) fn new(host: &'t mut H, out: &'t mut Vec<u8>) -> Turn<'t, H> {
        let counts_prefixes = host.prefixes().is_on();
        let lookups = Lookups::default();
        Turn { host, out, lookups, committing: Committing::Nothing, counts_prefixes }
    }

    /// Executes a command of a request that `stats detail` counts.
    #[inline]
    pub(super) fn execute(&mut self, command: &Command<'_>, writing: Writing<'_>) -> Outcome {
        let hits = self.lookups.hits;
        let outcome = self.execute_uncounted(command, writing);
        if self.counts_prefixes && !is_touch(command, writing) {
            self.count_prefix(command, hits);
        }
        outcome
    }

    /// Counts a command by the prefix of its key, unless the log has it or has refused it. Before
    /// it, there were `hits`.
    #[cold]
    pub(super) fn count_prefix(&self, command: &Command<'_>, hits: u64) {
        if self.committing == Committing::Nothing {
            self.host.prefixes().count(command, self.lookups.hits > hits);
        }
    }

    /// Executes a command that it does not count, as those of meta commands.
    #[inline]
    pub(super) fn execute_uncounted(
        &mut self,
        command: &Command<'_>,
        writing: Writing<'_>,
    ) -> Outcome {
        let context = Context { now_ms: self.host.now_ms(), value_bytes_max: self.value_max() };
        let mut answer = Answer {
            out: self.out,
            writing,
            now_ms: self.host.records_ms(DATABASE),
            lookups: &mut self.lookups,
            outcome: Outcome::Missed,
        };
        let ran = self.host.run(DATABASE, command, context, &mut answer);
        let outcome = answer.outcome;
        if ran == Ran::Done(()) { outcome } else { self.not_run(ran) }
    }

    /// The outcome of a command that has no reply. The words that its request makes of it are
    /// replaced.
    #[cold]
    fn not_run(&mut self, ran: Ran<()>) -> Outcome {
        self.put_off(ran);
        Outcome::Failed(Error::Full)
    }

    /// Notes what became of a command that has no reply.
    #[cold]
    pub(super) fn put_off(&mut self, ran: Ran<()>) {
        self.committing = match (ran, self.committing) {
            (Ran::Later, _) | (_, Committing::Later) => Committing::Later,
            (Ran::Submitted, _) | (_, Committing::Recorded) => Committing::Recorded,
            (Ran::Refused(why), _) => Committing::Refused(why),
            (Ran::Done(()), before) => before,
        };
    }

    /// Whether the present request waits for a commit.
    #[inline]
    pub(super) fn is_committing(&self) -> bool {
        matches!(self.committing, Committing::Recorded | Committing::Later)
    }

    /// Whether the log refused a command of the present request.
    #[inline]
    pub(super) fn is_refused(&self) -> bool {
        matches!(self.committing, Committing::Refused(_))
    }

    /// Whether all replies of the last commit were played.
    pub(super) fn commit_is_over(&mut self) -> bool {
        self.host.own_commits().is_some_and(|commits| commits.is_over())
    }

    /// Whether the next request may be handed over together with the present one.
    pub(super) fn may_go_on(&self) -> bool {
        self.committing == Committing::Recorded && !self.host.commit_is_full()
    }

    /// Counts an executed command, and adds it to the slow log if it was slow.
    #[inline]
    pub(super) fn observe(&mut self, row: Row, failed: bool, line: &[u8]) {
        /// The number of arguments that Redis keeps too.
        const ARGUMENTS_MAX: usize = 32;
        self.observe_words(row, failed, || Words::of(line).take(ARGUMENTS_MAX));
    }

    /// The same for a request that is no line.
    #[inline]
    pub(super) fn observe_words<'w, W: IntoIterator<Item = &'w [u8]>>(
        &mut self,
        row: Row,
        failed: bool,
        words: impl FnOnce() -> W,
    ) {
        if self.is_committing() {
            return;
        }
        let failed = failed || self.committing != Committing::Nothing;
        let index = row as usize;
        self.host.client().last_command.store(index, Relaxed);
        if let Some(micros) = self.host.observe(ProtocolName::Memcached, index, failed) {
            self.log_slow(micros, words());
        }
    }

    #[cold]
    fn log_slow<'w>(&self, micros: u64, words: impl IntoIterator<Item = &'w [u8]>) {
        let words: Vec<&[u8]> = words.into_iter().collect();
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

/// Whether a command is that of `touch`, which `stats detail` does not count.
fn is_touch(command: &Command<'_>, writing: Writing<'_>) -> bool {
    matches!(
        (command, writing),
        (Command::String(StringCommand::GetAndExpire { .. }), Writing::Silent)
    )
}
