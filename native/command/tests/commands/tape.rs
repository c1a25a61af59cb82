//! Tapes play what was recorded.

use std::ops::Range;

use proptest::collection::vec;
use proptest::prelude::*;
use todana_command::{
    Command, Context, Databases, Description, Error, HELD_BYTES_MIN, Inadmissible, LcsSpan,
    LeaseState, NullReply, Player, Record, Refusal, Reply, Set, Status, StringCommand, Tape,
    execute,
};
use todana_table::{Keyspace, Kind, Meta, Options, Shared, Table};

/// A call on [`Reply`], with all its arguments.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Call {
    Done,
    None,
    Record(Owned),
    /// The record of a handle.
    Held(Owned),
    Part(Vec<u8>, Range<usize>),
    Description(Vec<u8>, Kind, [u64; 4], [bool; 2], Option<u64>),
    Lease(Owned, LeaseState),
    Stored(u64),
    Refused(Refusal),
    Integer(i64),
    Number(Owned),
    Length(usize, u64),
    Flag(bool),
    Bytes(Vec<u8>),
    Expiry(Option<u64>),
    List(usize),
    Page(u64, usize),
    Slice(Option<Vec<u8>>, usize),
    Key(Vec<u8>),
    Matches(Vec<LcsSpan>, usize, bool),
    Error(Error),
    /// Not a method: the next command of a transaction begins.
    Command(usize),
}

/// A record that borrows nothing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Owned {
    key: Vec<u8>,
    value: Vec<u8>,
    flags: u32,
    version: u64,
    expires_at_ms: Option<u64>,
}

impl Owned {
    fn of(record: Record<'_>) -> Owned {
        let Record { key, value, flags, version, expires_at_ms } = record;
        Owned { key: key.to_vec(), value: value.to_vec(), flags, version, expires_at_ms }
    }

    fn record(&self) -> Record<'_> {
        let Owned { flags, version, expires_at_ms, .. } = *self;
        Record { key: &self.key, value: &self.value, flags, version, expires_at_ms }
    }
}

/// Collects all calls.
pub(crate) struct Collector {
    calls: Vec<Call>,
    holds_bytes_min: usize,
}

impl Collector {
    pub(crate) fn new() -> Collector {
        Collector { calls: Vec::new(), holds_bytes_min: HELD_BYTES_MIN }
    }

    pub(crate) fn push(&mut self, call: Call) {
        self.calls.push(call);
    }

    pub(crate) fn take(&mut self) -> Vec<Call> {
        std::mem::take(&mut self.calls)
    }
}

impl Reply for Collector {
    fn done(&mut self) {
        self.calls.push(Call::Done);
    }
    fn none(&mut self) {
        self.calls.push(Call::None);
    }
    fn record(&mut self, record: Record<'_>) {
        self.calls.push(Call::Record(Owned::of(record)));
    }
    fn holds(&self, value_bytes: usize) -> bool {
        value_bytes >= self.holds_bytes_min
    }
    fn held(&mut self, shared: Shared) {
        self.calls.push(Call::Held(Owned::of(Record::of_shared(&shared))));
    }
    fn part(&mut self, shared: Shared, range: Range<usize>) {
        self.calls.push(Call::Part(shared.to_vec(), range));
    }
    fn description(&mut self, it: Description<'_>) {
        let numbers = [it.length as u64, it.bytes as u64, it.version, it.idle_s];
        let flags = [it.is_integer, it.fetched];
        let call = Call::Description(it.key.to_vec(), it.kind, numbers, flags, it.expires_at_ms);
        self.calls.push(call);
    }
    fn lease(&mut self, record: Record<'_>, state: LeaseState) {
        self.calls.push(Call::Lease(Owned::of(record), state));
    }
    fn stored(&mut self, version: u64) {
        self.calls.push(Call::Stored(version));
    }
    fn refused(&mut self, refusal: Refusal) {
        self.calls.push(Call::Refused(refusal));
    }
    fn integer(&mut self, number: i64) {
        self.calls.push(Call::Integer(number));
    }
    fn number(&mut self, record: Record<'_>) {
        self.calls.push(Call::Number(Owned::of(record)));
    }
    fn length(&mut self, length: usize, version: u64) {
        self.calls.push(Call::Length(length, version));
    }
    fn flag(&mut self, flag: bool) {
        self.calls.push(Call::Flag(flag));
    }
    fn bytes(&mut self, bytes: &[u8]) {
        self.calls.push(Call::Bytes(bytes.to_vec()));
    }
    fn expiry(&mut self, expires_at_ms: Option<u64>) {
        self.calls.push(Call::Expiry(expires_at_ms));
    }
    fn list(&mut self, length: usize) {
        self.calls.push(Call::List(length));
    }
    fn page(&mut self, cursor: u64, length: usize) {
        self.calls.push(Call::Page(cursor, length));
    }
    fn slice(&mut self, after: Option<&[u8]>, length: usize) {
        self.calls.push(Call::Slice(after.map(<[u8]>::to_vec), length));
    }
    fn key(&mut self, key: &[u8]) {
        self.calls.push(Call::Key(key.to_vec()));
    }
    fn matches(&mut self, spans: &[LcsSpan], length: usize, with_lengths: bool) {
        self.calls.push(Call::Matches(spans.to_vec(), length, with_lengths));
    }
    fn error(&mut self, error: Error) {
        self.calls.push(Call::Error(error));
    }
}

/// Makes the call.
fn call(call: &Call, tape: &mut Tape) {
    match call {
        Call::Done => tape.done(),
        Call::None => tape.none(),
        Call::Record(record) => tape.record(record.record()),
        Call::Held(record) => tape.held(handle(record)),
        Call::Part(value, range) => {
            let record = Owned { value: value.clone(), ..large(HELD_BYTES_MIN) };
            tape.part(handle(&record), range.clone());
        }
        Call::Description(key, kind, [length, bytes, version, idle_s], flags, expires_at_ms) => {
            tape.description(Description {
                key,
                kind: *kind,
                is_integer: flags[0],
                length: *length as usize,
                bytes: *bytes as usize,
                version: *version,
                expires_at_ms: *expires_at_ms,
                idle_s: *idle_s,
                fetched: flags[1],
            });
        }
        Call::Lease(record, state) => tape.lease(record.record(), *state),
        Call::Stored(version) => tape.stored(*version),
        Call::Refused(refusal) => tape.refused(*refusal),
        Call::Integer(number) => tape.integer(*number),
        Call::Number(record) => tape.number(record.record()),
        Call::Length(length, version) => tape.length(*length, *version),
        Call::Flag(flag) => tape.flag(*flag),
        Call::Bytes(bytes) => tape.bytes(bytes),
        Call::Expiry(expires_at_ms) => tape.expiry(*expires_at_ms),
        Call::List(length) => tape.list(*length),
        Call::Page(cursor, length) => tape.page(*cursor, *length),
        Call::Slice(after, length) => tape.slice(after.as_deref(), *length),
        Call::Key(key) => tape.key(key),
        Call::Matches(spans, length, with_lengths) => tape.matches(spans, *length, *with_lengths),
        Call::Error(error) => tape.error(*error),
        Call::Command(_) => tape.next_command(),
    }
}

/// A record that is kept by a handle. Its table numbers it 1.
fn large(bytes: usize) -> Owned {
    Owned { key: b"k".into(), value: vec![7; bytes], flags: 3, version: 1, expires_at_ms: None }
}

/// A handle of a record of a table of its own.
fn handle(record: &Owned) -> Shared {
    let table = Table::new(Options { shards: Some(1), ..Options::default() });
    let meta = Meta { flags: record.flags, ..Meta::default() };
    table.update(&record.key, 0, |locked| locked.put(&[&record.value], meta)).unwrap();
    table.read(&record.key, 0, |entry| entry.unwrap().share()).expect("a large value")
}

fn refusals() -> impl Strategy<Value = Refusal> {
    use Refusal::{Absent, Present, ValueDiffers, VersionDiffers};
    prop::sample::select(vec![Present, Absent, VersionDiffers, ValueDiffers])
}

fn errors() -> impl Strategy<Value = Error> {
    prop::sample::select(vec![
        Error::NotAnInteger,
        Error::NotAFloat,
        Error::Overflow,
        Error::NotFinite,
        Error::ValueTooLarge,
        Error::Full,
        Error::NoSuchDatabase,
        Error::SameObject,
        Error::NotACounter,
        Error::NotOrdered,
        Error::ReplyTooLarge,
        Error::TooManyKeys,
        Error::DifferentDurability,
        Error::NoScripts,
    ])
}

fn records() -> impl Strategy<Value = Owned> {
    let (key, value) = (vec(any::<u8>(), 0..40), vec(any::<u8>(), 0..300));
    (key, value, any::<u32>(), any::<u64>(), any::<Option<u64>>()).prop_map(
        |(key, value, flags, version, expires_at_ms)| Owned {
            key,
            value,
            flags,
            version,
            expires_at_ms,
        },
    )
}

fn lease_states() -> impl Strategy<Value = LeaseState> {
    (any::<[bool; 5]>(), any::<u64>()).prop_map(
        |([won, already_won, stale, fetched_before, created], idle_s)| LeaseState {
            won,
            already_won,
            stale,
            fetched_before,
            idle_s,
            created,
        },
    )
}

fn kinds() -> impl Strategy<Value = Kind> {
    (0..Kind::ALL.len()).prop_map(|at| Kind::ALL[at])
}

fn spans() -> impl Strategy<Value = Vec<LcsSpan>> {
    let pair = || (any::<usize>(), any::<usize>());
    vec((pair(), pair()).prop_map(|(first, second)| LcsSpan { first, second }), 0..5)
}

fn calls() -> impl Strategy<Value = Call> {
    let bytes = || vec(any::<u8>(), 0..200);
    let large_bytes = || HELD_BYTES_MIN..HELD_BYTES_MIN + 100;
    prop_oneof![
        Just(Call::Done),
        Just(Call::None),
        records().prop_map(Call::Record),
        large_bytes().prop_map(|bytes| Call::Held(large(bytes))),
        (large_bytes(), 0_usize..100, 0_usize..100)
            .prop_map(|(bytes, start, len)| Call::Part(vec![1; bytes], start..start + len)),
        (bytes(), kinds(), any::<[u64; 4]>(), any::<[bool; 2]>(), any::<Option<u64>>()).prop_map(
            |(key, kind, numbers, flags, expiry)| Call::Description(
                key, kind, numbers, flags, expiry
            )
        ),
        (records(), lease_states()).prop_map(|(record, state)| Call::Lease(record, state)),
        any::<u64>().prop_map(Call::Stored),
        refusals().prop_map(Call::Refused),
        any::<i64>().prop_map(Call::Integer),
        records().prop_map(Call::Number),
        any::<(usize, u64)>().prop_map(|(length, version)| Call::Length(length, version)),
        any::<bool>().prop_map(Call::Flag),
        bytes().prop_map(Call::Bytes),
        any::<Option<u64>>().prop_map(Call::Expiry),
        any::<usize>().prop_map(Call::List),
        any::<(u64, usize)>().prop_map(|(cursor, length)| Call::Page(cursor, length)),
        (prop::option::of(bytes()), any::<usize>())
            .prop_map(|(after, length)| Call::Slice(after, length)),
        bytes().prop_map(Call::Key),
        (spans(), any::<usize>(), any::<bool>())
            .prop_map(|(spans, length, lengths)| Call::Matches(spans, length, lengths)),
        errors().prop_map(Call::Error),
    ]
}

/// A record of the log: the commands of a transaction, each with its calls; one for a single
/// command.
fn parts() -> impl Strategy<Value = (Vec<Vec<Call>>, Status)> {
    use Inadmissible::{Full, TooMuchWork};
    let status = prop_oneof![
        8 => Just(Status::Done),
        1 => Just(Status::WatchFailed),
        1 => Just(Status::Inadmissible(TooMuchWork)),
        1 => Just(Status::Inadmissible(Full)),
        1 => Just(Status::Internal),
    ];
    (vec(vec(calls(), 0..5), 0..4), status)
}

proptest! {
    #[test]
    fn a_tape_plays_each_record_as_it_was_recorded(records in vec(parts(), 0..8)) {
        let mut tape = Tape::new();
        for (commands, status) in &records {
            for calls in commands {
                tape.next_command();
                calls.iter().for_each(|it| call(it, &mut tape));
            }
            tape.end(*status);
        }
        let (mut player, mut collector) = (Player::new(tape), Collector::new());
        for (commands, status) in records {
            let each = |it: &mut Collector, index| it.calls.push(Call::Command(index));
            prop_assert!(!player.is_at_end());
            prop_assert_eq!(player.next_transaction(&mut collector, each), Some(status));
            let mut expected = Vec::new();
            for (index, calls) in commands.into_iter().enumerate() {
                expected.push(Call::Command(index));
                expected.extend(calls);
            }
            if status != Status::Done {
                expected.clear();
            }
            prop_assert_eq!(collector.take(), expected);
        }
        prop_assert!(player.is_at_end());
        prop_assert_eq!(player.next(&mut collector), None);
        prop_assert_eq!(collector.take(), vec![]);
    }
}

#[test]
fn a_reply_without_handles_gets_a_large_record_as_a_record() {
    let mut tape = Tape::new();
    tape.held(handle(&large(HELD_BYTES_MIN)));
    tape.end(Status::Done);
    let mut collector = Collector { holds_bytes_min: usize::MAX, ..Collector::new() };
    assert_eq!(Player::new(tape).next(&mut collector), Some(Status::Done));
    assert_eq!(collector.take(), [Call::Record(large(HELD_BYTES_MIN))]);
}

#[test]
fn a_skipped_record_takes_its_handles_along() {
    let mut tape = Tape::new();
    for bytes in [HELD_BYTES_MIN, HELD_BYTES_MIN + 1] {
        tape.held(handle(&large(bytes)));
        tape.end(Status::Done);
    }
    let (mut player, mut collector) = (Player::new(tape), Collector::new());
    assert_eq!(player.next(&mut NullReply), Some(Status::Done));
    assert_eq!(player.next(&mut collector), Some(Status::Done));
    assert_eq!(collector.take(), [Call::Held(large(HELD_BYTES_MIN + 1))]);
}

#[test]
fn a_record_without_an_end_is_an_internal_error() {
    let mut tape = Tape::new();
    tape.stored(5);
    let mut player = Player::new(tape);
    assert_eq!(player.next(&mut NullReply), Some(Status::Internal));
    assert_eq!(player.next(&mut NullReply), None);
}

#[test]
fn the_reply_to_a_write_takes_a_few_bytes() {
    for (version, bytes) in [(1, 3), (1 << 20, 5), ((1 << 48) - 1, 9)] {
        let mut tape = Tape::new();
        tape.stored(version);
        tape.end(Status::Done);
        assert_eq!(tape.recorded_bytes(), bytes, "version {version}");
    }
}

#[test]
fn a_large_value_is_not_copied_to_the_tape() {
    let databases = Databases::with_options(&Options::default());
    let context = Context { now_ms: 1, value_bytes_max: 1 << 20 };
    let value = vec![1; 1 << 20];
    let mut tape = Tape::new();
    execute(
        &databases,
        0,
        &Command::String(StringCommand::Set(Set::new(b"k", &value))),
        context,
        &mut tape,
    );
    tape.end(Status::Done);
    execute(&databases, 0, &Command::String(StringCommand::Get { key: b"k" }), context, &mut tape);
    tape.end(Status::Done);
    assert!(tape.recorded_bytes() < 30, "{} bytes", tape.recorded_bytes());
    let (mut player, mut collector) = (Player::new(tape), Collector::new());
    assert_eq!(player.next(&mut NullReply), Some(Status::Done));
    assert_eq!(player.next(&mut collector), Some(Status::Done));
    assert!(matches!(&collector.take()[..], [Call::Held(record)] if record.value == value));
}

/// What the thread that applies the log does with the tape of another thread.
#[test]
fn a_player_can_be_sent_to_another_thread() {
    let mut tape = Tape::new();
    tape.integer(-5);
    tape.end(Status::Done);
    let mut player = Player::new(tape);
    let played = std::thread::spawn(move || {
        let mut collector = Collector::new();
        (player.next(&mut collector), collector.take())
    });
    assert_eq!(played.join().unwrap(), (Some(Status::Done), vec![Call::Integer(-5)]));
}
