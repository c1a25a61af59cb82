//! Writes to durable tables by Erlang processes.
//!
//! A function that writes to a durable table changes nothing itself. It answers `durable`, and the
//! caller (`todana_durable`) calls it again with `{Form, Ref}` in place of `Form`. The function
//! then queues its commands as records of the log and answers `{submitted, Ticket}`. When the log
//! has executed them, the process receives `{Ref, Answer}`, where `Answer` is what the function
//! answers for a table in memory; `{Ref, not_executed}` if the log did not accept them, and `{Ref,
//! unknown}` if nobody knows.

use crate::codec::Misuse;
use crate::durable::LocalGroup;
use crate::erts::{self, Message, Raw, RawEnv};
use crate::reply::{self, Answer, Answers};
use crate::store::{Codec, Store};
use crate::{atoms, durable, guest, values};
use parking_lot::Mutex;
use rustler::types::atom::Atom;
use rustler::{Decoder, Env, LocalPid, NifResult, Term};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};
use todana_command::{
    Command, FORMAT_MIN, LoggedTransaction, Player, Refusal, Status, Tape, own_units,
    units_of_optimistic_commit,
};
use todana_group::record::TableOptions;
use todana_group::{
    Deliver, Gate, Group, Home, Outcome, Submission, Submit, Ticket, plain_units, read_in_one_load,
    record,
};

/// The place of the tickets of Erlang processes; event loops of servers have lower numbers.
const PLACE: (u32, u32) = (u32::MAX, 0);

/// Bytes of the keys and values that one step writes to a durable table, beside the longest value.
/// A step is one entry of the log.
const STEP_BYTES_MAX: usize = 16 << 20;

/// Whether a step of several writes with this number of bytes is too long for the log.
pub(crate) fn is_too_long(store: &Store, bytes: usize) -> bool {
    store.is_durable() && bytes > STEP_BYTES_MAX + store.value_bytes_max()
}

/// How the caller has prepared the arguments of a function, and how it waits for a durable write.
#[derive(Clone, Copy)]
pub(crate) struct Form<'a> {
    /// Which arguments are encoded, and whether this is a dirty scheduler: see [`crate::codec`].
    pub(crate) bits: u32,
    /// The reference that comes with the answer.
    reference: Option<Term<'a>>,
}

impl Form<'_> {
    /// Nothing is encoded, and nobody waits.
    #[inline]
    pub(crate) fn plain<'a>() -> Form<'a> {
        Form { bits: 0, reference: None }
    }

    /// The form of a plain NIF, whose argument may be missing.
    ///
    /// # Safety
    /// `env` and `term` belong to the present call, and `'a` does not outlast it.
    pub(crate) unsafe fn of<'a>(env: RawEnv, term: Raw) -> Form<'a> {
        // SAFETY: see the function.
        let term = unsafe { Term::new(Env::new(&(), env), term) };
        term.decode().unwrap_or(Form::plain())
    }

    /// The same, on a dirty scheduler.
    pub(crate) fn on_dirty(self) -> Self {
        Form { bits: self.bits | crate::codec::ON_DIRTY, ..self }
    }
}

impl<'a> Decoder<'a> for Form<'a> {
    fn decode(term: Term<'a>) -> NifResult<Form<'a>> {
        if let Ok(bits) = term.decode::<u32>() {
            return Ok(Form { bits, reference: None });
        }
        let (bits, reference) = term.decode::<(u32, Term<'a>)>()?;
        Ok(Form { bits, reference: Some(reference) })
    }
}

/// What the answer to a durable write is made of.
#[derive(Clone, Copy)]
pub(crate) enum Shape {
    /// `ok`, `error` or `{error, Reason}`.
    Fact,
    /// `{ok, Version}`, or a fact.
    Stored,
    /// Of a removal: `ok`, `error`, or a fact.
    Removed,
    /// `{ok, Number}`, `error`, or a fact.
    Counted,
    /// A number.
    Number,
    /// Of a changed expiry: the second record reads the expiry, to find out whether there is one.
    Expired,
    /// `{ok, Value}`, `{encoded, Bytes}` or `error`.
    Taken(Codec),
    /// Of a transaction: `ok`, `conflict` or `{error, Reason}`.
    Committed,
}

/// A process that waits.
struct Waiting {
    pid: LocalPid,
    /// Its reference.
    message: Message,
    shape: Shape,
}

/// The processes that wait, by the numbers of their tickets.
static WAITING: LazyLock<Mutex<HashMap<u64, Waiting>>> = LazyLock::new(Mutex::default);

/// The number of the last ticket.
static TICKETS: AtomicU64 = AtomicU64::new(0);

struct Callers;

static CALLERS: LazyLock<Arc<Callers>> = LazyLock::new(|| Arc::new(Callers));

impl Deliver for Callers {
    fn deliver(&self, outcomes: Vec<(Ticket, Outcome)>) {
        // With the lock: once a caller has withdrawn its ticket, or has learned that it is too
        // late, no message is on its way.
        let mut waiting = WAITING.lock();
        for (ticket, outcome) in outcomes {
            let Some(Waiting { pid, message, shape }) = waiting.remove(&ticket.number) else {
                continue;
            };
            message.send(pid, |env, reference| {
                let answer = match outcome {
                    Outcome::Applied(tape) => answer(env, shape, tape),
                    Outcome::Dropped => atoms::not_executed().as_c_arg(),
                    Outcome::Unknown => atoms::unknown().as_c_arg(),
                    Outcome::Fresh => atoms::fresh().as_c_arg(),
                };
                erts::tuple(env, &[reference, answer])
            });
        }
    }
}

/// The records of a submission.
pub(crate) struct Records<'g> {
    group: &'g Group,
    home: Home,
    bytes: Vec<u8>,
    count: usize,
    /// The newest format that one of them needs.
    format: u8,
    units: u64,
    /// Whether the queue has room for them. Those for which it has none are not encoded: the caller
    /// tries again every few milliseconds.
    fit: bool,
}

impl Records<'_> {
    /// Adds a command.
    pub(crate) fn put(&mut self, command: &Command<'_>) {
        if self.admit(plain_units(own_units(command))) {
            record::put_command(&mut self.bytes, self.home, command);
            self.format = self.format.max(command.format());
            self.count += 1;
        }
    }

    /// Adds commands that are one step.
    pub(crate) fn put_transaction(&mut self, transaction: &LoggedTransaction<'_>) {
        if self.admit(units_of_optimistic_commit(
            transaction.watches.len(),
            transaction.commands.len(),
        )) {
            record::put_transaction(
                &mut self.bytes,
                self.home,
                &transaction.watches,
                &transaction.commands,
            );
            let formats = transaction.commands.iter().map(|(_, command)| command.format());
            self.format = self.format.max(formats.max().unwrap_or(FORMAT_MIN));
            self.count += 1;
        }
    }

    fn admit(&mut self, units: u64) -> bool {
        self.units = self.units.saturating_add(units);
        self.fit = self.fit && self.group.has_room(self.units);
        self.fit
    }

    /// Adds the creation of a named table.
    pub(crate) fn create_table(&mut self, name: &[u8], options: &TableOptions<'_>) {
        record::put_create_table(&mut self.bytes, name, options);
        self.count += 1;
    }

    /// Adds the removal of a named table.
    pub(crate) fn drop_table(&mut self, name: &[u8]) {
        record::put_drop_table(&mut self.bytes, name);
        self.count += 1;
    }

    /// Adds the order that the time of the log is this one.
    pub(crate) fn set_time(&mut self, time_ms: u64) {
        record::put_set_time(&mut self.bytes, time_ms);
        self.format = self.format.max(record::SET_TIME_FORMAT);
        self.count += 1;
    }

    /// Adds a command that only reads.
    pub(crate) fn put_read(&mut self, command: &Command<'_>) {
        record::put_read(&mut self.bytes, self.home, command);
        self.count += 1;
    }
}

/// The misuse with which the first call of a function on a durable table ends.
pub(crate) fn begin(store: &Store, form: Form<'_>) -> Result<(), Misuse> {
    match (store.is_durable(), form.reference) {
        (true, None) if guest::is_away() => Err(recovering()),
        (true, None) => Err(Misuse::Durable),
        _ => Ok(()),
    }
}

/// Queues the records that `fill` puts, for the process that calls. `{submitted, Ticket}`.
pub(crate) fn submit(
    env: Env<'_>,
    store: &Store,
    form: Form<'_>,
    shape: Shape,
    fill: impl FnOnce(&mut Records<'_>),
) -> Answer {
    let group = store.group().and_then(LocalGroup::group);
    let (Some(group), Some(home)) = (group, store.home()) else {
        return Answer::NotExecuted;
    };
    submit_to(env, &group, home, form, shape, fill)
}

/// Queues records that concern no table, or this one.
fn submit_to(
    env: Env<'_>,
    group: &Arc<Group>,
    home: Home,
    form: Form<'_>,
    shape: Shape,
    fill: impl FnOnce(&mut Records<'_>),
) -> Answer {
    let Some(reference) = form.reference else { return Answer::Durable };
    let gate = group.gate();
    match gate {
        Gate::Open | Gate::Removals if group.has_room(0) => (),
        // The caller tries again.
        Gate::Open | Gate::Removals => return Answer::Busy,
        Gate::Closed => return Answer::Recovering,
        Gate::ReadOnly | Gate::Leaderless => return Answer::NotExecuted,
    }
    let (bytes, format) = (Vec::new(), FORMAT_MIN);
    let mut records = Records { group, home, bytes, count: 0, format, units: 0, fit: true };
    fill(&mut records);
    if !records.fit {
        return Answer::Busy;
    }
    if gate == Gate::Removals && !record::only_remove(&records.bytes) {
        return Answer::NotExecuted;
    }
    let number = TICKETS.fetch_add(1, Relaxed) + 1;
    let ticket = Ticket { place: PLACE, number };
    let message = Message::new(reference.as_c_arg());
    WAITING.lock().insert(number, Waiting { pid: env.pid(), message, shape });
    erts::bill(env.as_c_arg(), records.bytes.len());
    group.submit(&mut vec![Submission {
        records: records.bytes,
        count: records.count,
        format: records.format,
        units: records.units,
        ticket,
        deliver: CALLERS.clone(),
    }]);
    Answer::Submitted(number)
}

/// Adds the calling process to those that wait, without a submission. It receives `{Ref, fresh}`.
pub(crate) fn reader(env: Env<'_>, reference: Term<'_>) -> (Ticket, Arc<dyn Deliver>) {
    let number = TICKETS.fetch_add(1, Relaxed) + 1;
    let message = Message::new(reference.as_c_arg());
    WAITING.lock().insert(number, Waiting { pid: env.pid(), message, shape: Shape::Fact });
    (Ticket { place: PLACE, number }, CALLERS.clone())
}

/// The term for an answer of [`submit`].
pub(crate) fn term(env: Env<'_>, answer: Answer) -> Term<'_> {
    // SAFETY: the term is made in this environment.
    unsafe { Term::new(env, reply::fact(env.as_c_arg(), answer)) }
}

/// Queues records that concern a group as a whole: its named tables, its time.
pub(crate) fn to_group<'a>(
    env: Env<'a>,
    group: Option<Arc<Group>>,
    form: Form<'a>,
    fill: impl FnOnce(&mut Records<'_>),
) -> Term<'a> {
    let answer = match group {
        Some(group) => submit_to(env, &group, Home::Database(0), form, Shape::Number, fill),
        None => Answer::NotExecuted,
    };
    term(env, answer)
}

/// `durable_withdraw(Ticket) -> not_executed | unknown | answered`: the caller waits no longer. If
/// `answered`, the message is in its mailbox; otherwise none comes.
#[rustler::nif]
fn durable_withdraw(number: u64) -> Atom {
    let ticket = Ticket { place: PLACE, number };
    let is_queued = durable::withdraw(ticket);
    match (WAITING.lock().remove(&number), is_queued) {
        (None, _) => atoms::answered(),
        (Some(_), true) => atoms::not_executed(),
        (Some(_), false) => atoms::unknown(),
    }
}

/// `durable_state() -> open | read_only | closed | none`: whether the log accepts writes.
#[rustler::nif]
fn durable_state() -> Atom {
    match durable::first().group().map(|group| group.gate()) {
        None => atoms::none(),
        Some(Gate::Open) => atoms::open(),
        Some(Gate::ReadOnly | Gate::Removals | Gate::Leaderless) => atoms::read_only(),
        Some(Gate::Closed) => atoms::closed(),
    }
}

/// Fails if the records of the table cannot be read yet.
#[inline]
pub(crate) fn readable(store: &Store) -> Result<(), Misuse> {
    match store.group().is_some_and(|group| group.readable().is_none()) {
        true => Err(recovering()),
        false => Ok(()),
    }
}

/// Reads records. Fails if they cannot be read yet, or were replaced meanwhile: what was read may
/// then be of a table that is being loaded. Not for writes, which the log may execute in any case.
#[inline(always)]
pub(crate) fn reading<'a, R>(
    store: &'a Store,
    read: impl FnOnce(&'a Store) -> Result<R, Misuse>,
) -> Result<R, Misuse> {
    match store.group() {
        Some(group) => reading_durable(group, store, read),
        None => read(store),
    }
}

#[cold]
#[inline(never)]
fn reading_durable<'a, R>(
    group: &LocalGroup,
    store: &'a Store,
    read: impl FnOnce(&'a Store) -> Result<R, Misuse>,
) -> Result<R, Misuse> {
    read_in_one_load(|| group.readable(), || read(store)).unwrap_or_else(|| Err(recovering()))
}

/// The records of a log cannot be read or written now.
#[cold]
pub(crate) fn recovering() -> Misuse {
    let why = if guest::is_away() { atoms::away() } else { atoms::recovering() };
    Misuse::Argument(0, why)
}

/// The term for the replies on a tape.
fn answer(env: RawEnv, shape: Shape, tape: Tape) -> Raw {
    let mut player = Player::new(tape);
    match shape {
        Shape::Taken(codec) => {
            let mut answers = Answers::keeping_value();
            match (player.next(&mut answers), answers.value()) {
                (Some(Status::Done), Some(value)) => taken(env, codec, &value),
                (Some(Status::Done), None) => atoms::error().as_c_arg(),
                _ => failed(env),
            }
        }
        Shape::Committed => committed(env, &mut player),
        shape => {
            let mut answers = Answers::default();
            if player.next(&mut answers) != Some(Status::Done) {
                return failed(env);
            }
            let answer = answers.only();
            let answer = match shape {
                Shape::Expired => expired(&mut player, answer),
                _ => answer,
            };
            shaped(env, shape, answer)
        }
    }
}

/// The record that was taken. Not decoded here: the environment is that of a message.
fn taken(env: RawEnv, codec: Codec, value: &[u8]) -> Raw {
    let word = if codec == Codec::Raw { atoms::ok() } else { atoms::encoded() };
    erts::tuple(env, &[word.as_c_arg(), values::fresh(env, value)])
}

/// The execution of a record failed because of a bug, which the log of the node reports.
fn failed(env: RawEnv) -> Raw {
    reply::failed(env, atoms::internal())
}

fn shaped(env: RawEnv, shape: Shape, answer: Answer) -> Raw {
    match (shape, answer) {
        (Shape::Stored, Answer::Stored(number)) => {
            erts::tuple(env, &[atoms::ok().as_c_arg(), erts::make_u64(env, number)])
        }
        (Shape::Counted, Answer::Number(number)) => {
            erts::tuple(env, &[atoms::ok().as_c_arg(), erts::make_i64(env, number)])
        }
        (Shape::Counted, Answer::Refused(_))
        | (Shape::Removed, Answer::Refused(Refusal::Absent)) => atoms::error().as_c_arg(),
        (Shape::Removed, Answer::Integer(number)) => reply::fact(env, Answer::Flag(number > 0)),
        (Shape::Number, Answer::Integer(number)) => erts::make_i64(env, number),
        (_, answer) => reply::fact(env, answer),
    }
}

/// `Expire` reports whether the expiry changed, and the caller asks whether there is a record.
fn expired(player: &mut Player, changed: Answer) -> Answer {
    let mut answers = Answers::default();
    match (changed, player.next(&mut answers)) {
        (Answer::Flag(false), Some(Status::Done)) => match answers.only() {
            Answer::Expiry(None) => Answer::Done,
            answer => answer,
        },
        (changed, _) => changed,
    }
}

/// Of a transaction: the first of its commands that failed, if any did.
fn committed(env: RawEnv, player: &mut Player) -> Raw {
    let mut answers = Answers::default();
    match player.next_transaction(&mut answers, |_, _| ()) {
        Some(Status::Done) => match answers.failure() {
            None => atoms::ok().as_c_arg(),
            Some(error) => reply::failed(env, reply::reason(error)),
        },
        Some(Status::WatchFailed) => atoms::conflict().as_c_arg(),
        Some(Status::Inadmissible(_)) => reply::failed(env, atoms::too_large()),
        Some(Status::Internal | Status::Refused(_)) | None => failed(env),
    }
}
