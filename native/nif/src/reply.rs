//! A command's reply as terms.
//!
//! A reply becomes a list of [`Answer`]s in the order in which `execute` gives them; each NIF
//! converts them to the terms that its caller expects.

use crate::atoms;
use crate::codec::{Decoded, Misuse};
use crate::erts::{self, Raw, RawEnv};
use rustler::types::atom::Atom;
use todana_command::{
    Description, Error, LcsSpan, LeaseState, Record, Refusal, Reply, parse_signed,
};

/// One reply.
#[derive(Clone, Copy)]
pub(crate) enum Answer {
    Done,
    None,
    Stored(u64),
    Refused(Refusal),
    Integer(i64),
    /// The new value of a counter.
    Number(i64),
    Flag(bool),
    Expiry(Option<u64>),
    Failed(Error),
    /// The reply of a command that no NIF uses.
    Other,
    /// The table is durable: see [`crate::submit`].
    Durable,
    /// Queued for the log; the ticket.
    Submitted(u64),
    /// The queue of the log is full for now.
    Busy,
    /// The log is being read.
    Recovering,
    /// The log accepts no writes.
    NotExecuted,
}

/// Collects the replies of a command that returns no records. Records are read by
/// [`Store::look_up`](crate::store::Store::look_up), which lends large values.
#[derive(Default)]
pub(crate) struct Answers {
    /// The first reply.
    first: Option<Answer>,
    /// The first error.
    failure: Option<Error>,
    /// The value of the last record, if it is wanted.
    value: Option<Vec<u8>>,
    keeps_value: bool,
}

impl Answers {
    /// The answer of a command that has exactly one.
    pub(crate) fn only(self) -> Answer {
        self.first.unwrap_or(Answer::Other)
    }

    /// Keeps the value of a record.
    pub(crate) fn keeping_value() -> Answers {
        Answers { keeps_value: true, ..Answers::default() }
    }

    /// The value that was kept.
    pub(crate) fn value(self) -> Option<Vec<u8>> {
        self.value
    }

    /// The first error among the answers of several commands.
    pub(crate) fn failure(self) -> Option<Error> {
        self.failure
    }

    #[inline]
    fn push(&mut self, answer: Answer) {
        self.first.get_or_insert(answer);
    }
}

impl Reply for Answers {
    fn done(&mut self) {
        self.push(Answer::Done);
    }
    fn none(&mut self) {
        self.push(Answer::None);
    }
    fn record(&mut self, record: Record<'_>) {
        if self.keeps_value {
            self.value = Some(record.value.to_vec());
        }
        self.push(Answer::Done);
    }
    fn description(&mut self, _description: Description<'_>) {
        self.push(Answer::Other);
    }
    fn lease(&mut self, record: Record<'_>, _state: LeaseState) {
        self.record(record);
    }
    fn stored(&mut self, version: u64) {
        self.push(Answer::Stored(version));
    }
    fn refused(&mut self, refusal: Refusal) {
        self.push(Answer::Refused(refusal));
    }
    fn integer(&mut self, number: i64) {
        self.push(Answer::Integer(number));
    }
    fn number(&mut self, record: Record<'_>) {
        self.push(parse_signed(record.value).map_or(Answer::Other, Answer::Number));
    }
    fn length(&mut self, _length: usize, version: u64) {
        self.push(Answer::Stored(version));
    }
    fn flag(&mut self, flag: bool) {
        self.push(Answer::Flag(flag));
    }
    fn bytes(&mut self, _bytes: &[u8]) {
        self.push(Answer::Other);
    }
    fn expiry(&mut self, expires_at_ms: Option<u64>) {
        self.push(Answer::Expiry(expires_at_ms));
    }
    fn list(&mut self, _length: usize) {}
    fn page(&mut self, _cursor: u64, _length: usize) {
        self.push(Answer::Other);
    }
    fn slice(&mut self, _after: Option<&[u8]>, _length: usize) {
        self.push(Answer::Other);
    }
    fn key(&mut self, _key: &[u8]) {
        self.push(Answer::Other);
    }
    fn matches(&mut self, _spans: &[LcsSpan], _length: usize, _with_lengths: bool) {
        self.push(Answer::Other);
    }
    fn error(&mut self, error: Error) {
        self.failure.get_or_insert(error);
        self.push(Answer::Failed(error));
    }
}

/// `{ok, Value}`, or `{encoded, Bytes}`.
#[inline]
pub(crate) fn value(env: RawEnv, decoded: Decoded) -> Raw {
    match decoded {
        Decoded::Term(term) => erts::tuple(env, &[atoms::ok().as_c_arg(), term]),
        Decoded::Encoded(term) => erts::tuple(env, &[atoms::encoded().as_c_arg(), term]),
    }
}

/// `{ok, Number}`.
#[inline]
pub(crate) fn number(env: RawEnv, number: i64) -> Raw {
    erts::tuple(env, &[atoms::ok().as_c_arg(), erts::make_i64(env, number)])
}

/// `{Value, Version, Flags, ExpiresAtMs, IsEncoded, State}`, with `infinity` for no expiry.
pub(crate) fn entry(
    env: RawEnv,
    value: Decoded,
    version: u64,
    flags: u32,
    expires_at_ms: Option<u64>,
    state: u64,
) -> Raw {
    let (value, encoded) = parts(value);
    erts::tuple(
        env,
        &[
            value,
            erts::make_u64(env, version),
            erts::make_u64(env, u64::from(flags)),
            expiry(env, expires_at_ms),
            encoded,
            erts::make_u64(env, state),
        ],
    )
}

/// `{Key, Value}`, or `[{Key, IsKeyEncoded} | {Value, IsValueEncoded}]` if the Erlang side has to
/// decode.
pub(crate) fn pair(env: RawEnv, key: Decoded, value: Decoded) -> Raw {
    if let (Decoded::Term(key), Decoded::Term(value)) = (&key, &value) {
        return erts::tuple(env, &[*key, *value]);
    }
    let ((key, key_encoded), (value, value_encoded)) = (parts(key), parts(value));
    let key = erts::tuple(env, &[key, key_encoded]);
    let value = erts::tuple(env, &[value, value_encoded]);
    erts::cons(env, key, value)
}

fn parts(decoded: Decoded) -> (Raw, Raw) {
    match decoded {
        Decoded::Term(term) => (term, atoms::false_().as_c_arg()),
        Decoded::Encoded(term) => (term, atoms::true_().as_c_arg()),
    }
}

/// Milliseconds since the Unix epoch, or `infinity`.
pub(crate) fn expiry(env: RawEnv, expires_at_ms: Option<u64>) -> Raw {
    match expires_at_ms {
        Some(at_ms) => erts::make_u64(env, at_ms),
        None => atoms::infinity().as_c_arg(),
    }
}

/// `ok`, `error` or `{error, Reason}` for an answer that carries no other value.
pub(crate) fn fact(env: RawEnv, answer: Answer) -> Raw {
    match answer {
        Answer::Done | Answer::Stored(_) | Answer::Flag(true) => atoms::ok().as_c_arg(),
        Answer::None | Answer::Flag(false) => atoms::error().as_c_arg(),
        Answer::Refused(refusal) => failed(env, refused(refusal)),
        Answer::Failed(Error::WrongKind(kind)) => Misuse::WrongKind(kind).raw(env),
        Answer::Failed(error) => failed(env, reason(error)),
        Answer::Durable => atoms::durable().as_c_arg(),
        Answer::Submitted(ticket) => {
            erts::tuple(env, &[atoms::submitted().as_c_arg(), erts::make_u64(env, ticket)])
        }
        Answer::Busy => atoms::busy().as_c_arg(),
        Answer::Recovering => atoms::recovering().as_c_arg(),
        Answer::NotExecuted => atoms::not_executed().as_c_arg(),
        _ => failed(env, atoms::undefined()),
    }
}

pub(crate) fn failed(env: RawEnv, reason: Atom) -> Raw {
    erts::tuple(env, &[atoms::error().as_c_arg(), reason.as_c_arg()])
}

fn refused(refusal: Refusal) -> Atom {
    match refusal {
        Refusal::Present => atoms::present(),
        Refusal::Absent => atoms::absent(),
        Refusal::VersionDiffers | Refusal::ValueDiffers => atoms::version_differs(),
    }
}

/// The atom for an error of a command.
pub(crate) fn reason(error: Error) -> Atom {
    match error {
        Error::NotAnInteger => atoms::not_an_integer(),
        Error::NotAFloat => atoms::not_a_float(),
        Error::Overflow => atoms::overflow(),
        Error::NotFinite => atoms::not_finite(),
        Error::ValueTooLarge => atoms::value_too_long(),
        Error::Full => atoms::full(),
        Error::NoSuchDatabase => atoms::no_such_database(),
        Error::SameObject => atoms::same_object(),
        Error::ReplyTooLarge | Error::TooManyKeys => atoms::reply_too_large(),
        Error::NotOrdered => atoms::not_ordered(),
        // The command crate may add errors.
        #[allow(unreachable_patterns, reason = "see above")]
        _ => atoms::undefined(),
    }
}
