//! MULTI, EXEC, DISCARD, WATCH, UNWATCH: commands are queued, then executed as one step.

use super::call::{Call, Done};
use super::commit::not_done;
use super::dispatch;
use super::encoder::{Encoder, Failure};
use super::error_code::ErrorCode;
use super::flow::Flow;
use super::latency::observe;
use super::queue::{
    ARGUMENT_BYTES, COMMAND_BYTES, Part, QUEUED_WORDS_MAX, QueuedCommands, WATCHED_KEYS_MAX,
    Watches, too_many_watched,
};
use super::reply::Formatted;
use super::reply_format::{FULL, ReplyFormat};
use super::request::{self, Pairs, Request, pairs};
use super::spec::DENYOOM;
use super::state::{State, Unfinished};
use super::table::Name;
use super::tail::{TRANSACTION_VALUE_BYTES_MIN, Tail};
use super::work::Work;
use super::{monitor, scripts, source, turns};
use crate::Host;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use todana_command::{Command, Context, Inadmissible, Transaction, prefetch};
use todana_protocol::{Ran, Splice};
use todana_table::PREFETCH_KEYS_MAX;

/// Whether a request runs a script that must not begin while the memory is full.
fn begins_with_room<H: Host>(name: Name, arguments: &[&[u8]], host: &H) -> bool {
    match name {
        Name::Eval | Name::EvalRo => scripts::needs_room(arguments[1]),
        _ if dispatch::takes_source(name) => {
            let known = host.databases().interpreter().and_then(|it| it.source(arguments[1]));
            known.is_some_and(|source| scripts::needs_room(&source))
        }
        _ => false,
    }
}

impl State {
    /// Queues a command for EXEC.
    pub(super) fn queue<H: Host>(
        &mut self,
        name: Name,
        arguments: &[&[u8]],
        host: &H,
    ) -> Result<(), Failure> {
        let Some(queued) = &mut self.queued else { return Ok(()) };
        if queued.broken {
            // EXEC will be refused, so nothing needs to be queued.
            return Ok(());
        }
        let of_argument = |argument: &&[u8]| argument.len() + ARGUMENT_BYTES;
        let bytes = COMMAND_BYTES + arguments.iter().map(of_argument).sum::<usize>();
        let held = queued.held_bytes() + self.watches.held_bytes();
        let full = || host.is_full(self.database);
        if full() && (name.spec().is(DENYOOM) || begins_with_room(name, arguments, host)) {
            queued.broken = true;
            return Err(FULL.into());
        }
        let refusal = if queued.ends.len() + arguments.len() > QUEUED_WORDS_MAX {
            Some(format!("ERR more than {QUEUED_WORDS_MAX} words in queued commands").into())
        } else if held.saturating_add(bytes) > host.limits().queued_bytes_max {
            Some("ERR queued commands take too many bytes".into())
        } else {
            None
        };
        if let Some(refusal) = refusal {
            *queued = QueuedCommands { broken: true, ..QueuedCommands::default() };
            return Err(refusal);
        }
        for argument in arguments {
            queued.bytes.extend_from_slice(argument);
            queued.ends.push(queued.bytes.len());
        }
        queued.commands.push((name, arguments.len()));
        queued.may_write |= monitor::may_write(name, arguments, host);
        host.client().queued.store(queued.commands.len(), Relaxed);
        Ok(())
    }

    /// Writes the error for a request that is not executed.
    #[cold]
    pub(super) fn reject<H: Host>(
        &mut self,
        name: Option<Name>,
        failure: Failure,
        encoder: &mut Encoder<'_>,
        host: &H,
    ) {
        if name == Some(Name::Exec) {
            self.forget(host);
            let reason = failure.as_ref();
            let reason = reason.strip_prefix(b"ERR ").unwrap_or(reason);
            let text = [b"EXECABORT Transaction discarded because of: ", reason].concat();
            return encoder.error(&text);
        }
        if let Some(queued) = &mut self.queued {
            queued.broken = true;
        }
        encoder.error(&failure);
    }

    /// Drops the queued commands and the watched keys.
    pub(super) fn forget<H: Host>(&mut self, host: &H) {
        self.queued = None;
        self.watches = Watches::default();
        host.client().queued.store(usize::MAX, Relaxed);
        host.client().watched.store(0, Relaxed);
    }
}

impl<H: Host> Call<'_, '_, H> {
    pub(super) fn multi(&mut self) -> Done {
        if self.state.queued.is_some() {
            return Err("ERR MULTI calls can not be nested".into());
        }
        self.state.queued = Some(QueuedCommands::default());
        self.host.client().queued.store(0, Relaxed);
        self.ok()
    }

    pub(super) fn discard(&mut self) -> Done {
        if self.state.queued.is_none() {
            return Err("ERR DISCARD without MULTI".into());
        }
        self.state.forget(self.host);
        self.ok()
    }

    pub(super) fn watch(&mut self) -> Done {
        if self.state.queued.is_some() {
            return Err("ERR WATCH inside MULTI is not allowed".into());
        }
        let database = self.state.database;
        self.host.admit_read(database).map_err(|why| not_done(why, database, self.host))?;
        let keys = &self.arguments[1..];
        if keys.len() > WATCHED_KEYS_MAX {
            // Keys that are already watched count, too.
            return Err(too_many_watched());
        }
        if self.host.is_away(database) {
            return self.watch_away(keys);
        }
        let watches = &mut self.state.watches;
        let (now_ms, host) = (self.host.records_ms(database), &*self.host);
        let added = keys.chunks(PREFETCH_KEYS_MAX).try_for_each(|keys| {
            if keys.len() > 1 {
                prefetch(host.databases(), database, keys);
            }
            keys.iter().try_for_each(|key| watches.add(database, key, now_ms, host))
        });
        host.client().watched.store(watches.list.len(), Relaxed);
        added?;
        self.ok()
    }

    /// Watches keys of which a member has the records.
    fn watch_away(&mut self, keys: &[&[u8]]) -> Done {
        let (database, mut begun) = (self.state.database, Vec::new());
        let (mut is_whole, mut refused) = (true, None);
        for key in keys.iter().collect::<BTreeSet<_>>() {
            if self.state.watches.has(database, key) {
                continue;
            }
            match self.host.watch_away(database, key) {
                Ran::Done(watch) => begun.push((key, watch)),
                Ran::Submitted => is_whole = false,
                Ran::Later => return Ok(self.state.begins_commit(false)),
                // The answers for the other keys are not those of the next request.
                Ran::Refused(why) => refused = refused.or(Some(why)),
            }
        }
        if !is_whole {
            return Ok(self.state.begins_commit(false));
        }
        if let Some(why) = refused {
            return Err(not_done(why, database, self.host));
        }
        let watches = &mut self.state.watches;
        let added = begun
            .into_iter()
            .try_for_each(|(key, watch)| watches.add_new(database, key, &*self.host, || watch));
        self.host.client().watched.store(watches.list.len(), Relaxed);
        added?;
        self.ok()
    }

    pub(super) fn unwatch(&mut self) -> Done {
        self.state.watches = Watches::default();
        self.host.client().watched.store(0, Relaxed);
        self.ok()
    }

    pub(super) fn exec(&mut self) -> Done {
        let Some(queued) = self.state.queued.take() else {
            return Err("ERR EXEC without MULTI".into());
        };
        let watches = std::mem::take(&mut self.state.watches);
        let done = self.exec_queued(&queued, &watches);
        if let Some(Unfinished::Commit { .. } | Unfinished::Paused) = self.state.begun {
            // EXEC runs again when the log has committed it, or when it is its turn.
            (self.state.queued, self.state.watches) = (Some(queued), watches);
        }
        done
    }

    fn exec_queued(&mut self, queued: &QueuedCommands, watches: &Watches) -> Done {
        if queued.broken {
            self.state.forget(self.host);
            let text = "EXECABORT Transaction discarded because of previous errors.";
            return Err(text.into());
        }
        let arguments = queued.arguments();
        let requests = requests(&queued.commands, &arguments);
        let paired: Vec<Pairs<'_>> = requests.iter().map(paired).collect();
        source::begin(self.state, &*self.host);
        let mut sources: Vec<Option<Arc<[u8]>>> = Vec::with_capacity(requests.len());
        for (name, arguments) in &requests {
            sources.push(source::source(self.state, *name, arguments, &*self.host));
        }
        let (parts, commands) = self.parts(&requests, &paired, &sources);
        let other_units = self.units_of_own(&requests, &parts);
        let transaction = Transaction { watches: &watches.list, commands: &commands, other_units };
        if !turns::may_execute(&transaction, self.host) {
            self.state.begun = Some(Unfinished::Paused);
            return Ok(Flow::Continue);
        }
        let mut is_away = false;
        if self.state.tracks.is_some() {
            is_away = commands.iter().any(|(database, _)| self.host.is_away(*database));
            self.state.track(&requests, is_away, self.host);
        }
        let executed = self.execute(&transaction, &parts);
        self.host.end_work();
        let executed = match executed {
            Ran::Submitted | Ran::Later => return Ok(self.state.begins_commit(false)),
            Ran::Done(executed) => executed.map_err(aborted),
            Ran::Refused(why) => Err(not_done(why, self.state.database, self.host)),
        };
        if self.state.tracks.is_some() {
            self.state.end_pending(&requests, is_away, self.host);
        }
        self.state.forget(self.host);
        let Some(replies) = executed? else {
            self.encoder.null_array();
            return Ok(Flow::Continue);
        };
        if self.encoder.overflowed {
            return Ok(Flow::Close);
        }
        self.encoder.array(parts.len());
        Ok(self.assemble(&requests, parts, replies))
    }

    /// The units of the session's own work: the words of the commands, and the commands that it
    /// executes itself.
    fn units_of_own(&self, requests: &[(Name, &[&[u8]])], parts: &[Part<'_>]) -> u64 {
        let (mut work, mut words) = (Work::new(&*self.host), 0);
        for ((_, arguments), part) in requests.iter().zip(parts) {
            match part {
                Part::Local(name, arguments) => work.add(dispatch::effort(*name), arguments),
                _ => words += arguments.len() as u64,
            }
        }
        work.units + words
    }

    /// Builds the commands, with the database and the protocol version that SELECT and HELLO among
    /// them set. Returns the transaction's commands with their databases, and the parts.
    fn parts<'a, 'b: 'a>(
        &mut self,
        requests: &[(Name, &'b [&'b [u8]])],
        paired: &'a [Pairs<'b>],
        sources: &'a [Option<Arc<[u8]>>],
    ) -> (Vec<Part<'a>>, Vec<(usize, Command<'a>)>) {
        let mut database = self.state.database;
        let mut resp3 = self.state.resp3;
        let mut commands = Vec::new();
        let mut parts = Vec::with_capacity(requests.len());
        let (now_ms, value_bytes_max) = (self.host.now_ms(), self.host.limits().value_bytes_max);
        let script_limits = scripts::limits(&*self.host);
        for ((&(name, arguments), pairs), source) in requests.iter().zip(paired).zip(sources) {
            let seed = if dispatch::takes_seed(name) { self.state.random(self.host) } else { 0 };
            let request = Request { name, arguments, now_ms, value_bytes_max, script_limits };
            parts.push(match dispatch::build(&request, pairs, seed, source.as_deref()) {
                Some(Ok((command, format))) => {
                    commands.push((database, command));
                    Part::Store(format, resp3)
                }
                Some(Err(failure)) => Part::Fail(failure),
                None if name == Name::Hello => match self.foresee_hello(arguments) {
                    Ok(chosen) => {
                        resp3 = chosen.unwrap_or(resp3);
                        Part::Local(name, arguments)
                    }
                    Err(failure) => Part::Fail(failure),
                },
                None => {
                    if let (Name::Select, [_, number]) = (name, arguments) {
                        database = request::database(number).unwrap_or(database);
                    }
                    Part::Local(name, arguments)
                }
            });
        }
        (parts, commands)
    }

    /// Runs the transaction. Returns the replies, and for each its end and whether it is an error;
    /// `None` if a watched key has changed.
    fn execute(
        &mut self,
        transaction: &Transaction<'_>,
        parts: &[Part<'_>],
    ) -> Ran<Result<Option<Replies>, Inadmissible>> {
        let formats = parts.iter().filter_map(|part| match part {
            Part::Store(format, resp3) => Some((*format, *resp3)),
            _ => None,
        });
        let formats: Vec<(ReplyFormat, bool)> = formats.collect();
        let mut replies = Replies::default();
        let limits = self.host.limits();
        let context =
            Context { now_ms: self.host.now_ms(), value_bytes_max: limits.value_bytes_max };
        let room = limits.output_bytes_max.saturating_sub(self.encoder.len());
        let now_ms = self.host.records_ms(self.state.database);
        let resp3 = self.encoder.resp3;
        let mut encoder = Encoder::new(&mut replies.bytes, resp3, room);
        encoder.spliced_bytes_min = TRANSACTION_VALUE_BYTES_MIN;
        let ends = &mut replies.ends;
        let each = |reply: &mut Formatted<'_, Encoder<'_>>, index: usize| {
            let encoder = &mut *reply.sink;
            if index > 0 {
                ends.push((encoder.out.len(), encoder.failed));
            }
            encoder.failed = None;
            (reply.format, encoder.resp3) = formats[index];
        };
        let format = ReplyFormat::Plain;
        let reply = &mut Formatted { sink: &mut encoder, format, now_ms };
        match self.host.run_transaction(transaction, context, reply, each) {
            Ran::Done(Ok(true)) => {}
            Ran::Done(Ok(false)) => return Ran::Done(Ok(None)),
            Ran::Done(Err(why)) => return Ran::Done(Err(why)),
            Ran::Submitted => return Ran::Submitted,
            Ran::Later => return Ran::Later,
            Ran::Refused(why) => return Ran::Refused(why),
        }
        if !formats.is_empty() {
            ends.push((encoder.out.len(), encoder.failed));
        }
        self.encoder.overflowed |= encoder.overflowed;
        self.encoder.lookups.0 += encoder.lookups.0;
        self.encoder.lookups.1 += encoder.lookups.1;
        replies.splices = encoder.splices;
        Ran::Done(Ok(Some(replies)))
    }

    /// Writes the replies in the order of the commands, and executes the session's own commands.
    fn assemble(
        &mut self,
        requests: &[(Name, &[&[u8]])],
        parts: Vec<Part<'_>>,
        replies: Replies,
    ) -> Flow {
        let mut ends = replies.ends.into_iter();
        let mut tail = Tail::new(replies.bytes, replies.splices);
        let spliced_bytes = self.encoder.spliced_bytes;
        // Until the end, all of it counts towards the maximum length of a reply.
        self.encoder.spliced_bytes += tail.bytes();
        let start = self.encoder.out.len();
        // The replies of the session's own commands, with their positions.
        let mut own: Vec<(usize, Vec<u8>)> = Vec::new();
        let mut place = 0;
        let mut flow = Flow::Continue;
        for (&(name, arguments), part) in requests.iter().zip(parts) {
            self.encoder.failed = None;
            match part {
                Part::Store(..) => {
                    (place, self.encoder.failed) = ends.next().unwrap_or((place, None));
                }
                Part::Fail(failure) => self.encoder.error(&failure),
                Part::Local(name, arguments) => {
                    let (state, encoder) = (&mut *self.state, &mut *self.encoder);
                    let host = &mut *self.host;
                    state.is_in_exec = true;
                    let mut call = Call { name, arguments, state, encoder, host };
                    let mut after = call.run();
                    // A command that runs in slices outside EXEC is limited here by its units.
                    while call.state.begun.is_some() {
                        after = call.run();
                    }
                    self.state.is_in_exec = false;
                    self.encoder.resp3 = self.state.resp3;
                    flow = flow.and(after);
                }
            }
            observe(name, arguments, self.encoder.failed, self.host);
            if self.encoder.overflowed {
                return Flow::Close;
            }
            let words = &self.encoder.out[start..];
            self.encoder.spliced_bytes += words.len();
            match own.last_mut() {
                _ if words.is_empty() => {}
                Some((last, before)) if *last == place => before.extend_from_slice(words),
                _ => own.push((place, words.to_vec())),
            }
            self.encoder.out.truncate(start);
        }
        tail.insert(own);
        self.state.tail = Some(tail);
        (self.encoder.failed, self.encoder.spliced_bytes) = (None, spliced_bytes);
        flow
    }
}

/// The error for a refused transaction, with Redis' text if Redis has one.
fn aborted(why: Inadmissible) -> Failure {
    let reason = match why {
        Inadmissible::Full => FULL,
        Inadmissible::TooMuchWork => "the commands are too much work for one step",
        Inadmissible::DifferentDurability => {
            "the commands concern databases that are durable and others that are not"
        }
        Inadmissible::ValueTooLarge => "a value is longer than a durable database accepts",
    };
    format!("EXECABORT Transaction discarded because of: {reason}").into()
}

/// The replies of a transaction.
#[derive(Default)]
struct Replies {
    bytes: Vec<u8>,
    /// The end of each reply, and whether it is an error.
    ends: Vec<(usize, Option<ErrorCode>)>,
    /// Parts of large values, with their positions in `bytes`.
    splices: Vec<Splice>,
}

/// The queued commands, each with its own arguments.
fn requests<'a>(
    commands: &[(Name, usize)],
    arguments: &'a [&'a [u8]],
) -> Vec<(Name, &'a [&'a [u8]])> {
    let mut rest = arguments;
    let split = |&(name, count): &(Name, usize)| {
        let (own, others) = rest.split_at(count);
        rest = others;
        (name, own)
    };
    commands.iter().map(split).collect()
}

fn paired<'a>(request: &(Name, &'a [&'a [u8]])) -> Pairs<'a> {
    if dispatch::takes_pairs(request.0) { pairs(request.1) } else { Pairs::default() }
}
