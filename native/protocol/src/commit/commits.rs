//! The commits of one connection.

use super::away;
use super::freshness::{Freshness, Wait};
use super::level::ReadLevel;
use super::log::{Log, Work};
use super::{NotDone, Ran};
use std::hash::{DefaultHasher, Hash, Hasher};
use todana_command::{
    Access, Begun, Command, Context, Error, FORMAT_MIN, Inadmissible, LoggedWatch, NullReply,
    Player, Reply, Status, Tape, Transaction, Watch, admit_logged_transaction, execute,
    execute_lease_read, execute_slice, execute_watched_transaction, is_transaction_logged,
    probable_units, watch,
};
use todana_group::record::{put_command, put_command_within, put_read, put_transaction};
use todana_group::{GroupNumber, Home, LONG_UNITS_MAX, Outcome};

/// Bytes of records from which on no further request joins them.
const RECORDS_BYTES_MAX: usize = 256 << 10;

/// Most bytes of one record in addition to its longest value: other values, keys, names of fields.
const RECORD_OTHER_BYTES_MAX: usize = 1 << 20;

/// The commands of a connection that wait for the log, or the replies to them, and what its reads
/// wait for. Takes a few words if there is nothing.
#[derive(Debug, Default)]
pub struct Commits {
    commit: Option<Box<Commit>>,
    freshness: Freshness,
    /// At a guest, the record of the tracked keys that the next command reads.
    tracked: Box<[u8]>,
}

#[derive(Debug)]
struct Commit {
    stage: Stage,
    /// The group to which the records go. Those of another one wait for their commit.
    group: GroupNumber,
    /// The time by which the requests are interpreted, in both runs.
    now_ms: u64,
    /// The records, one after another.
    records: Vec<u8>,
    /// The newest format that one of them needs.
    format: u8,
    /// The fingerprint of each record.
    prints: Vec<u64>,
    /// The units of work that they probably take, and those of scripts and transactions alone.
    work: Work,
    /// Bytes of the replies.
    tape_bytes: usize,
    /// At a guest.
    away: Option<Away>,
}

/// What a commit at a guest has beside.
#[derive(Debug, Default)]
struct Away {
    /// Whether its records only read.
    only_reads: bool,
    /// Whether the same turn has had a write executed before them.
    has_written: bool,
    /// The replies to the commands that the same turn ran before them.
    earlier: Tape,
    /// Their number: the first prints are theirs.
    split: usize,
    /// The replies to the present records, until the session has run its first command again.
    newest: Option<Tape>,
}

#[derive(Debug)]
enum Stage {
    /// Commands are recorded.
    Recording,
    /// The log has them.
    Waiting,
    /// The session runs the requests again. Holds the number of replies played so far.
    Playing(Replies, usize),
    /// All replies were played.
    Over,
    /// The second run differed from the first: a bug. The connection must be closed.
    Broken,
}

#[derive(Debug)]
enum Replies {
    Tape(Player),
    /// There is none, and why.
    None(NotDone),
}

/// What a connection hands over to the log.
#[derive(Debug)]
pub struct Handover {
    /// The group to which they go.
    pub group: GroupNumber,
    /// The records, one after another.
    pub records: Vec<u8>,
    /// Number of records.
    pub count: usize,
    /// The newest format that one of them needs.
    pub format: u8,
    /// What they count for in the queue of the log.
    pub units: u64,
}

impl Commits {
    /// Forgets a commit whose replies were played. Called at the beginning of a turn.
    #[inline]
    pub fn begin_turn(&mut self) {
        self.freshness.begin_turn();
        self.forget_over();
    }

    /// Forgets a commit whose replies were played, if no request is left that was in its turn.
    #[inline]
    pub fn forget_over(&mut self) {
        if let Some(commit) = &self.commit
            && matches!(commit.stage, Stage::Over)
        {
            self.commit = None;
        }
    }

    /// The time of the first run, while requests are run again.
    #[inline]
    pub fn now_ms(&self) -> Option<u64> {
        self.commit.as_ref().map(|commit| commit.now_ms)
    }

    /// Whether commands were recorded in this turn.
    #[inline]
    pub fn is_recording(&self) -> bool {
        self.commit.as_ref().is_some_and(|commit| matches!(commit.stage, Stage::Recording))
    }

    /// Whether so much was recorded that the next request has to wait for the next commit.
    pub fn is_full(&self) -> bool {
        let full = |commit: &Commit| {
            matches!(commit.stage, Stage::Recording)
                && (commit.records.len() >= RECORDS_BYTES_MAX
                    || commit.work.units >= LONG_UNITS_MAX)
        };
        self.commit.as_ref().is_some_and(|commit| full(commit))
    }

    /// Whether the records, or the reads, wait for their outcome.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        self.freshness.is_waiting()
            || self.commit.as_ref().is_some_and(|commit| matches!(commit.stage, Stage::Waiting))
    }

    /// Sets how new the records must be that the client reads; `None` for the default.
    pub fn set_level(&mut self, level: Option<ReadLevel>) {
        self.freshness.level = level;
    }

    /// A request waits for this entry of a group. False if the connection has just done so in vain.
    pub fn want_applied(&mut self, group: GroupNumber, index: u64, ms: u64) -> bool {
        self.freshness.want_applied(group, index, ms)
    }

    /// Begins to wait for what a request of this turn wants; `None` if none does. Called if nothing
    /// was recorded.
    pub fn begin_wait(&mut self) -> Option<(GroupNumber, Wait)> {
        self.freshness.begin_wait()
    }

    /// The connection has received more input.
    #[inline]
    pub fn forget_proof(&mut self) {
        self.freshness.forget();
    }

    /// Whether the replies to all recorded commands have been played. The turn should end: the time
    /// by which requests are interpreted is that of the first run.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.commit.as_ref().is_some_and(|commit| matches!(commit.stage, Stage::Over))
    }

    /// Whether recorded commands are being run again.
    #[inline]
    pub fn is_playing(&self) -> bool {
        let stage = self.commit.as_ref().map(|commit| &commit.stage);
        matches!(stage, Some(Stage::Playing(..) | Stage::Broken))
    }

    /// Whether the two runs of a request differed, which is a bug. The connection must be closed.
    #[inline]
    pub fn is_broken(&self) -> bool {
        self.commit.as_ref().is_some_and(|commit| matches!(commit.stage, Stage::Broken))
    }

    /// The next command reads these keys, which the client tracks. Of use at a guest only: the
    /// member that runs the command reports when they change.
    pub fn track(&mut self, keys: &[&[u8]]) {
        if self.is_playing() {
            return;
        }
        let mut record = Vec::new();
        if !keys.is_empty() {
            away::put_tracked(&mut record, keys);
        }
        self.tracked = record.into_boxed_slice();
    }

    /// Bytes of memory.
    pub fn held_bytes(&self) -> usize {
        let held = |commit: &Commit| {
            let prints = commit.prints.capacity() * size_of::<u64>();
            size_of::<Commit>() + commit.records.capacity() + prints + commit.tape_bytes
        };
        self.tracked.len() + self.commit.as_ref().map_or(0, |commit| held(commit))
    }

    /// Takes the records, which then wait for their outcome. `None` if nothing was recorded.
    pub fn hand_over(&mut self) -> Option<Handover> {
        let commit = self.commit.as_mut().filter(|it| matches!(it.stage, Stage::Recording))?;
        commit.stage = Stage::Waiting;
        let mut records = std::mem::take(&mut commit.records);
        if let (Some(away), Some(head)) = (&commit.away, records.first_mut()) {
            *head = away::head(ReadLevel::ALL[usize::from(*head)], away.only_reads);
        }
        let (count, format) = (commit.prints.len(), commit.format);
        let (group, units) = (commit.group, commit.work.queued());
        Some(Handover { group, records, count, format, units })
    }

    /// The outcome of the records has arrived; the session runs the requests again.
    pub fn settle(&mut self, outcome: Outcome) {
        if self.freshness.is_waiting() {
            return self.freshness.settle(matches!(outcome, Outcome::Fresh));
        }
        let group = self.commit.as_ref().map_or(GroupNumber::default(), |commit| commit.group);
        let (replies, tape_bytes) = match outcome {
            Outcome::Applied(tape) => {
                if let Some(away) = self.commit.as_mut().and_then(|commit| commit.away.as_mut()) {
                    away.newest = Some(tape.clone());
                }
                let bytes = tape.recorded_bytes();
                self.freshness.prove(group);
                (Replies::Tape(Player::new(tape)), bytes)
            }
            Outcome::Dropped => (Replies::None(NotDone::Busy), 0),
            Outcome::Unknown | Outcome::Fresh => (Replies::None(NotDone::Unknown), 0),
        };
        self.resume(replies, tape_bytes);
    }

    /// There is no outcome. The session runs the requests again, and each gets this answer.
    pub fn give_up(&mut self, why: NotDone) {
        if self.freshness.is_waiting() {
            return self.freshness.give_up();
        }
        self.resume(Replies::None(why), 0);
    }

    fn resume(&mut self, replies: Replies, tape_bytes: usize) {
        if let Some(commit) = &mut self.commit
            && matches!(commit.stage, Stage::Waiting)
        {
            let replies = match (replies, &mut commit.away) {
                (Replies::None(why), Some(away)) => {
                    away.earlier.clear();
                    Replies::None(match (away.only_reads, away.has_written) {
                        // The session may run the request again from its beginning.
                        (_, true) => NotDone::Unknown,
                        (true, false) => NotDone::Unanswered,
                        (false, false) => why,
                    })
                }
                (replies, _) => replies,
            };
            commit.stage = Stage::Playing(replies, 0);
            commit.tape_bytes = tape_bytes;
        }
    }

    /// Drops the replies that were not played, because a request of several commands has failed at
    /// one of them. No other request may have commands in the same commit.
    pub fn drop_replies(&mut self) {
        if let Some(commit) = &mut self.commit
            && matches!(commit.stage, Stage::Playing(..))
        {
            commit.stage = Stage::Over;
        }
    }

    /// Runs a command, see [`Store::run`](crate::Store::run). Cold for the sake of servers without
    /// durable databases.
    #[cold]
    pub fn run<R: Reply>(
        &mut self,
        log: Log<'_>,
        database: usize,
        command: &Command<'_>,
        context: Context,
        reply: &mut R,
    ) -> Ran<()> {
        if !log.concerns(database, command) {
            if self.is_recording() {
                return Ran::Later;
            }
            execute(log.databases, database, command, context, reply);
            return Ran::Done(());
        }
        let context = log.limit(context);
        if command.brings().longest() > context.value_bytes_max {
            if self.is_recording() {
                return Ran::Later;
            }
            reply.error(Error::ValueTooLarge);
            return Ran::Done(());
        }
        let access = command.access();
        if access == Access::Sweep {
            log.submit.collect(log.now_ms);
            reply.flag(false);
            return Ran::Done(());
        }
        let print = fingerprint(database, command);
        let clears_all = log.is_clear_of_all(command);
        if self.is_playing() {
            let ran = self.play(log, print, |player| player.next(reply)).map(drop);
            if clears_all && ran == Ran::Done(()) {
                let others = log.database_of(false);
                execute(log.databases, others, command, context, &mut NullReply);
            }
            return ran;
        }
        if log.submit.is_away() {
            return self.run_away(log, database, command, context, print, reply);
        }
        match access {
            Access::Read if self.is_recording() => {
                let put = |out: &mut Vec<u8>| {
                    put_read(out, Home::Database(database), command);
                    FORMAT_MIN
                };
                let work = log.work(database, command);
                if !self.may_join(log, work) {
                    return Ran::Later;
                }
                return self.record(log, context, print, work, reply, put);
            }
            Access::Read | Access::Walk => {
                return match self.is_recording() {
                    true => Ran::Later,
                    false => {
                        let context = log.reading(context);
                        self.read(log, || execute(log.databases, database, command, context, reply))
                    }
                };
            }
            Access::Lease if !self.is_recording() => {
                let (databases, context) = (log.databases, log.reading(context));
                let read = || execute_lease_read(databases, database, command, context, reply);
                match self.read(log, read) {
                    Ran::Done(false) => {}
                    ran => return ran.map(drop),
                }
            }
            Access::Lease | Access::Write | Access::Sweep => {}
        }
        let work = log.work(database, command);
        if let Some(ran) = self.admit_write(log, work, || command.only_removes()) {
            return ran;
        }
        if let Err(why) = log.admit_format(command) {
            return if self.is_recording() { Ran::Later } else { Ran::Refused(why) };
        }
        let home = log.home(database, command);
        self.record(log, context, print, work, reply, |out| {
            match log.own_limit(context, command) {
                Some(limit) => put_command_within(out, home, command, limit),
                None => put_command(out, home, command),
            }
            command.format()
        })
    }

    /// Records a command for a member, where this node has no records.
    fn run_away<R: Reply>(
        &mut self,
        log: Log<'_>,
        database: usize,
        command: &Command<'_>,
        context: Context,
        print: u64,
        reply: &mut R,
    ) -> Ran<()> {
        let only_reads = matches!(command.access(), Access::Read | Access::Walk);
        let work = log.work(database, command);
        let tracked = std::mem::take(&mut self.tracked);
        if let Some(ran) = self.admit_away(log, only_reads, work, || command.only_removes()) {
            return ran;
        }
        if !only_reads && let Err(why) = log.admit_format(command) {
            return if self.is_recording() { Ran::Later } else { Ran::Refused(why) };
        }
        let database = match log.home(database, command) {
            Home::Database(number) => number,
            Home::Table(_) => database,
        };
        let put = |out: &mut Vec<u8>| {
            out.extend_from_slice(&tracked);
            away::put_command(out, database, command, context.value_bytes_max);
            command.format()
        };
        let context = with_room(context, tracked.len());
        match self.record_away(log, only_reads, context, print, work, put) {
            true => {
                log.remember_script(command);
                Ran::Submitted
            }
            false if self.is_recording() => Ran::Later,
            false => {
                reply.error(Error::ValueTooLarge);
                Ran::Done(())
            }
        }
    }

    /// The answer to a command for a member that cannot be recorded.
    fn admit_away<T>(
        &self,
        log: Log<'_>,
        only_reads: bool,
        work: Work,
        only_removes: impl Fn() -> bool,
    ) -> Option<Ran<T>> {
        if let Some(commit) = &self.commit
            && matches!(commit.stage, Stage::Over)
        {
            return match &commit.away {
                Some(away) if !away.earlier.is_empty() => {
                    admit_rest(log, only_reads, only_removes, away)
                }
                // The request has gone on although there was no reply.
                _ => Some(Ran::Refused(NotDone::Unanswered)),
            };
        }
        if !only_reads {
            return self.admit_write(log, work, only_removes);
        }
        if self.is_recording() {
            return (!self.may_join(log, work)).then_some(Ran::Later);
        }
        if self.freshness.is_wanted() {
            return Some(Ran::Later);
        }
        match log.admit_read() {
            Ok(()) if log.submit.has_room(work.queued()) => None,
            Ok(()) if log.may_wait => Some(Ran::Later),
            Ok(()) => Some(Ran::Refused(NotDone::Unanswered)),
            Err(_) => Some(Ran::Refused(NotDone::Unanswered)),
        }
    }

    /// Records what a member is to run.
    fn record_away(
        &mut self,
        log: Log<'_>,
        only_reads: bool,
        context: Context,
        print: u64,
        work: Work,
        put: impl FnOnce(&mut Vec<u8>) -> u8,
    ) -> bool {
        let level = self.freshness.level.unwrap_or(log.level);
        // A request goes on behind the replies that it has.
        let before = self.commit.take_if(|commit| matches!(commit.stage, Stage::Over));
        let recorded = self.record_within(log, context, print, work, |records| {
            if records.is_empty() {
                records.push(level as u8);
            }
            put(records)
        });
        if let Some(commit) = &mut self.commit {
            let away =
                commit.away.get_or_insert_with(|| Away { only_reads: true, ..Away::default() });
            away.only_reads &= only_reads;
            if let Some(before) = before
                && let Some(earlier) = before.away
            {
                away.has_written = earlier.has_written || !earlier.only_reads;
                (away.earlier, away.split) = (earlier.earlier, before.prints.len());
                commit.now_ms = before.now_ms;
                commit.prints.splice(0..0, before.prints);
            }
        } else {
            self.commit = before;
        }
        recorded
    }

    /// Begins to watch a key of this node, for a guest.
    pub fn watch(&mut self, log: Log<'_>, database: usize, key: &[u8]) -> Ran<Watch> {
        if self.is_recording() {
            return Ran::Later;
        }
        self.read(log, || watch(log.databases, database, key, log.now_ms))
    }

    /// Begins to watch a key of which this node has no record.
    pub fn watch_away(&mut self, log: Log<'_>, database: usize, key: &[u8]) -> Ran<Watch> {
        let mut hasher = DefaultHasher::new();
        (database, key, "watch").hash(&mut hasher);
        let print = hasher.finish() | 1;
        if self.is_playing() {
            let mut watch = None;
            let played = self.play(log, print, |player| {
                player.next_watch(|begun| watch = Some(Watch::elsewhere(begun)))
            });
            return match (played, watch) {
                (Ran::Done(_), Some(watch)) => Ran::Done(watch),
                (Ran::Done(_), None) => Ran::Refused(NotDone::Internal),
                (Ran::Submitted, _) => Ran::Submitted,
                (Ran::Later, _) => Ran::Later,
                (Ran::Refused(why), _) => Ran::Refused(why),
            };
        }
        let work = Work { units: 1, of_scripts: 0 };
        if let Some(ran) = self.admit_away(log, true, work, || false) {
            return ran;
        }
        let context = Context { now_ms: log.now_ms, value_bytes_max: key.len() };
        let put = |out: &mut Vec<u8>| {
            away::put_watch(out, database, key);
            FORMAT_MIN
        };
        match self.record_away(log, true, context, print, work, put) {
            true => Ran::Submitted,
            false => Ran::Later,
        }
    }

    /// Runs a slice of a long command, see [`Store::run_slice`](crate::Store::run_slice).
    #[cold]
    pub fn run_slice<R: Reply>(
        &mut self,
        log: Log<'_>,
        database: usize,
        command: &Command<'_>,
        context: Context,
        begun: Option<Begun>,
        reply: &mut R,
    ) -> Ran<Option<Begun>> {
        let is_here = !log.submit.is_away() || !log.databases.is_durable(database);
        let only_reads = matches!(command.access(), Access::Read | Access::Walk);
        let is_executed = !log.concerns(database, command)
            || only_reads && (begun.is_some() || is_here && !self.is_playing());
        if is_executed && !self.is_recording() {
            let databases = log.databases;
            let is_durable = databases.is_durable(database);
            let reads = is_durable && begun.as_ref().is_none_or(Begun::reads);
            let begins = begun.is_none();
            let context = if is_durable { log.reading(context) } else { context };
            let slice = || execute_slice(databases, database, command, context, begun, reply);
            return match reads {
                true if begins => self.read(log, slice),
                true => log.read(slice),
                false => Ran::Done(slice()),
            };
        }
        self.run(log, database, command, context, reply).map(|()| None)
    }

    /// Runs a transaction, see [`Store::run_transaction`](crate::Store::run_transaction). `watched`
    /// are further watches, which were begun for another node.
    pub fn run_transaction<R: Reply>(
        &mut self,
        log: Log<'_>,
        transaction: &Transaction<'_>,
        watched: &[LoggedWatch<'_>],
        context: Context,
        reply: &mut R,
        each: impl FnMut(&mut R, usize),
    ) -> Ran<Result<bool, Inadmissible>> {
        let mut hasher = DefaultHasher::new();
        for (database, command) in transaction.commands {
            (database, command.fingerprint()).hash(&mut hasher);
        }
        let print = hasher.finish() | 1;
        if self.is_playing() {
            return match self.play(log, print, |player| player.next_transaction(reply, each)) {
                Ran::Done(Status::WatchFailed) => Ran::Done(Ok(false)),
                Ran::Done(Status::Inadmissible(why)) => Ran::Done(Err(why)),
                ran => ran.map(|_| Ok(true)),
            };
        }
        if self.is_recording() {
            return Ran::Later;
        }
        let is_durable = |(database, _): &(usize, Command<'_>)| log.databases.is_durable(*database);
        let is_durable = transaction.commands.iter().any(is_durable);
        let is_elsewhere = transaction.watches.iter().any(Watch::is_elsewhere);
        if log.submit.is_away() && (is_durable || is_elsewhere) {
            return self.record_transaction_away(log, transaction, context, print);
        }
        if is_durable && let Err(why) = log.admit_read() {
            return Ran::Refused(why);
        }
        let reading = if is_durable { log.reading(context) } else { context };
        match is_transaction_logged(log.databases, transaction) {
            Ok(true) => {}
            Ok(false) => {
                let databases = log.databases;
                let execute = || {
                    execute_watched_transaction(
                        databases,
                        transaction,
                        watched,
                        reading,
                        reply,
                        each,
                    )
                };
                return if is_durable { self.read(log, execute) } else { Ran::Done(execute()) };
            }
            Err(why) => return Ran::Done(Err(why)),
        }
        let only_removes = || transaction.commands.iter().all(|(_, command)| command.never_adds());
        let units = probable_units(transaction, log.databases, u64::MAX);
        let work = Work { units, of_scripts: units };
        if let Some(ran) = self.admit_write(log, work, only_removes) {
            return ran;
        }
        let commands = log.in_words_of_all(transaction.commands);
        let transaction = &Transaction { commands: &commands, ..*transaction };
        let admit_format = |(_, command): &(usize, Command<'_>)| log.admit_format(command);
        if let Err(why) = transaction.commands.iter().try_for_each(admit_format) {
            return Ran::Refused(why);
        }
        let context = log.limit(context);
        let too_long = |(_, command): &(usize, Command<'_>)| {
            command.brings().longest() > context.value_bytes_max
        };
        if transaction.commands.iter().any(too_long) {
            return Ran::Done(Err(Inadmissible::ValueTooLarge));
        }
        if let Err(why) = admit_logged_transaction(log.databases, transaction, log.reading(context))
        {
            return Ran::Done(Err(why));
        }
        let Some(mut watches) = logged(transaction.watches) else { return Ran::Done(Ok(false)) };
        watches.extend_from_slice(watched);
        let put = |out: &mut Vec<u8>| {
            put_transaction(out, Home::Database(0), &watches, transaction.commands);
            let formats = transaction.commands.iter().map(|(_, command)| command.format());
            formats.max().unwrap_or(FORMAT_MIN)
        };
        match self.record_within(log, context, print, work, put) {
            true => Ran::Submitted,
            false => Ran::Done(Err(Inadmissible::TooMuchWork)),
        }
    }

    /// Records a transaction for a member.
    fn record_transaction_away(
        &mut self,
        log: Log<'_>,
        transaction: &Transaction<'_>,
        context: Context,
        print: u64,
    ) -> Ran<Result<bool, Inadmissible>> {
        let is_other = |(database, _): &(usize, Command<'_>)| !log.databases.is_durable(*database);
        let is_logged = is_transaction_logged(log.databases, transaction);
        if is_logged == Ok(false) && transaction.commands.iter().any(is_other) {
            return Ran::Done(Err(Inadmissible::DifferentDurability));
        }
        let only_reads = match is_logged {
            Ok(writes) => !writes,
            Err(why) => return Ran::Done(Err(why)),
        };
        let units = probable_units(transaction, log.databases, u64::MAX);
        let work = Work { units, of_scripts: units };
        let only_removes = || transaction.commands.iter().all(|(_, command)| command.never_adds());
        let tracked = std::mem::take(&mut self.tracked);
        if let Some(ran) = self.admit_away(log, only_reads, work, only_removes) {
            return ran;
        }
        let admit_format = |(_, command): &(usize, Command<'_>)| log.admit_format(command);
        if !only_reads && let Err(why) = transaction.commands.iter().try_for_each(admit_format) {
            return Ran::Refused(why);
        }
        let Some(watches) = logged(transaction.watches) else { return Ran::Done(Ok(false)) };
        let context = log.limit(context);
        let put = |out: &mut Vec<u8>| {
            let (commands, units) = (transaction.commands, transaction.other_units);
            out.extend_from_slice(&tracked);
            away::put_transaction(out, &watches, commands, units, context.value_bytes_max);
            FORMAT_MIN
        };
        let context = with_room(context, tracked.len());
        match self.record_away(log, only_reads, context, print, work, put) {
            true => {
                transaction.commands.iter().for_each(|(_, it)| log.remember_script(it));
                Ran::Submitted
            }
            false => Ran::Done(Err(Inadmissible::TooMuchWork)),
        }
    }

    /// Reads records, if they are new enough.
    #[inline]
    fn read<T>(&mut self, log: Log<'_>, read: impl FnOnce() -> T) -> Ran<T> {
        if self.freshness.may_run(log) { log.read(read) } else { self.freshness.put_off(log) }
    }

    /// Whether this work may join what is recorded. If not, it waits for that commit: there may be
    /// room in the log for short submissions only.
    fn may_join(&self, log: Log<'_>, work: Work) -> bool {
        self.commit
            .as_ref()
            .is_none_or(|commit| commit.group == log.group && log.may_join(commit.work.and(work)))
    }

    /// The answer to a write that cannot be recorded.
    fn admit_write<T>(
        &self,
        log: Log<'_>,
        work: Work,
        only_removes: impl Fn() -> bool,
    ) -> Option<Ran<T>> {
        if self.is_recording() {
            let may_join = self.may_join(log, work) && log.admits_another(only_removes);
            return (!may_join).then_some(Ran::Later);
        }
        if self.freshness.is_wanted() {
            return Some(Ran::Later);
        }
        match log.admit_write(work, only_removes) {
            Ok(true) => None,
            Ok(false) => Some(Ran::Later),
            Err(why) => Some(Ran::Refused(why)),
        }
    }

    fn record<R: Reply>(
        &mut self,
        log: Log<'_>,
        context: Context,
        print: u64,
        work: Work,
        reply: &mut R,
        put: impl FnOnce(&mut Vec<u8>) -> u8,
    ) -> Ran<()> {
        if self.record_within(log, context, print, work, put) {
            return Ran::Submitted;
        }
        if self.is_recording() {
            return Ran::Later;
        }
        reply.error(Error::ValueTooLarge);
        Ran::Done(())
    }

    /// Appends a record with `put`, which returns the format that it needs. False if it is too long
    /// for the log.
    fn record_within(
        &mut self,
        log: Log<'_>,
        context: Context,
        print: u64,
        work: Work,
        put: impl FnOnce(&mut Vec<u8>) -> u8,
    ) -> bool {
        let mut commit = match self.commit.take() {
            Some(commit) if matches!(commit.stage, Stage::Recording) => commit,
            _ => Box::new(Commit {
                stage: Stage::Recording,
                group: log.group,
                now_ms: context.now_ms,
                records: Vec::new(),
                format: FORMAT_MIN,
                prints: Vec::new(),
                work: Work { units: 0, of_scripts: 0 },
                tape_bytes: 0,
                away: None,
            }),
        };
        let before = commit.records.len();
        let format = put(&mut commit.records);
        let bytes = commit.records.len() - before;
        let fits = bytes <= context.value_bytes_max.saturating_add(RECORD_OTHER_BYTES_MAX);
        if fits {
            commit.prints.push(print);
            commit.work = commit.work.and(work);
            commit.format = commit.format.max(format);
        } else {
            commit.records.truncate(before);
        }
        if !commit.prints.is_empty() {
            self.commit = Some(commit);
        }
        fits
    }

    /// Plays the replies to the next record, which must have this fingerprint.
    fn play(
        &mut self,
        log: Log<'_>,
        print: u64,
        next: impl FnOnce(&mut Player) -> Option<Status>,
    ) -> Ran<Status> {
        let Some(commit) = &mut self.commit else { return Ran::Refused(NotDone::Unknown) };
        commit.choose_replies(print);
        let Stage::Playing(replies, played) = &mut commit.stage else {
            return Ran::Refused(NotDone::Unknown);
        };
        if commit.prints.get(*played) != Some(&print) {
            commit.stage = Stage::Broken;
            return Ran::Refused(NotDone::Unknown);
        }
        *played += 1;
        let is_last = *played == commit.prints.len();
        let ran = match replies {
            Replies::None(why) => Ran::Refused(log.refine(*why)),
            Replies::Tape(player) => match next(player) {
                Some(Status::Internal) => Ran::Refused(NotDone::Internal),
                Some(Status::Refused(reason)) => Ran::Refused(NotDone::of_number(reason)),
                Some(status) => Ran::Done(status),
                None => {
                    commit.stage = Stage::Broken;
                    return Ran::Refused(NotDone::Unknown);
                }
            },
        };
        if is_last {
            commit.stage = Stage::Over;
        }
        ran
    }
}

impl Commit {
    /// At a guest, decides where the session goes on, by the first command that it runs again.
    /// Either it has consumed the commands before the present records, or it runs the request again
    /// from its beginning, because the present records follow from the earlier replies.
    fn choose_replies(&mut self, print: u64) {
        let Some(away) = &mut self.away else { return };
        let newest = away.newest.take();
        if self.prints.get(away.split) == Some(&print) {
            self.prints.drain(..away.split);
            away.has_written &= away.split == 0;
            away.earlier = newest.unwrap_or_default();
        } else if away.split > 0
            && let Some(newest) = newest
        {
            away.earlier.append(newest);
            if let Stage::Playing(replies @ Replies::Tape(_), _) = &mut self.stage {
                *replies = Replies::Tape(Player::new(away.earlier.clone()));
            }
        } else if away.split > 0 {
            // Without replies, the request fails at its first command.
            self.prints.truncate(1);
        }
        away.split = 0;
    }
}

/// The answer to a command of a request that goes on behind its earlier replies, which would be
/// lost if it waited: it needs no room. Refused, it does not say that nothing was executed.
fn admit_rest<T>(
    log: Log<'_>,
    only_reads: bool,
    only_removes: impl Fn() -> bool,
    away: &Away,
) -> Option<Ran<T>> {
    let admitted = match only_reads {
        true => log.admit_read().map_err(|_| NotDone::Unanswered),
        false => log.admit_by_gate(only_removes),
    };
    let why = admitted.err()?;
    let has_written = away.has_written || !away.only_reads;
    Some(Ran::Refused(if has_written { NotDone::Unknown } else { why }))
}

/// Watches as the log has them; `None` if one has failed already.
fn logged(watches: &[Watch]) -> Option<Vec<LoggedWatch<'_>>> {
    watches.iter().map(Watch::logged).collect()
}

/// The context of a record with this number of other bytes before it.
fn with_room(context: Context, bytes: usize) -> Context {
    Context { value_bytes_max: context.value_bytes_max.saturating_add(bytes), ..context }
}

/// A few bits of a command, by which its second run is recognised.
fn fingerprint(database: usize, command: &Command<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (database, command.fingerprint()).hash(&mut hasher);
    hasher.finish() | 1
}
