//! A protocol without bytes: collects replies as values.

use todana_command::{
    Command, Context, Databases, Description, Error, LcsSpan, LeaseState, Record, Refusal, Reply,
    StringCommand, execute,
};
use todana_table::Kind;

/// One call on [`Reply`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Done,
    None,
    Record { value: Vec<u8>, flags: u32, expires_at_ms: Option<u64> },
    Lease { value: Vec<u8>, state: LeaseState },
    Description { kind: Kind, length: usize },
    Stored,
    Refused(Refusal),
    Integer(i64),
    Number(String),
    Length(usize),
    Flag(bool),
    Bytes(Vec<u8>),
    Expiry(Option<u64>),
    List(usize),
    Page(u64, usize),
    Slice(Option<Vec<u8>>, usize),
    Key(Vec<u8>),
    Matches(Vec<LcsSpan>, usize),
    Error(Error),
}

/// A value without flags and expiry.
pub(crate) fn value(bytes: &str) -> Answer {
    Answer::Record { value: bytes.into(), flags: 0, expires_at_ms: None }
}

/// Collects replies, and the version of the last record or write.
#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) answers: Vec<Answer>,
    pub(crate) version: u64,
    /// Called with each record.
    pub(crate) on_record: Option<Box<dyn FnMut()>>,
    /// Records passed by a handle.
    pub(crate) held: usize,
}

impl Recorder {
    fn add(&mut self, answer: Answer) {
        self.answers.push(answer);
    }
}

impl Reply for Recorder {
    fn done(&mut self) {
        self.add(Answer::Done);
    }
    fn none(&mut self) {
        self.add(Answer::None);
    }
    fn held(&mut self, shared: todana_table::Shared) {
        self.held += 1;
        self.record(Record::of_shared(&shared));
    }
    fn record(&mut self, record: Record<'_>) {
        if let Some(on_record) = &mut self.on_record {
            on_record();
        }
        let Record { flags, expires_at_ms, version, .. } = record;
        self.version = version;
        self.add(Answer::Record { value: record.value.to_vec(), flags, expires_at_ms });
    }
    fn description(&mut self, it: Description<'_>) {
        self.version = it.version;
        self.add(Answer::Description { kind: it.kind, length: it.length });
    }
    fn lease(&mut self, record: Record<'_>, state: LeaseState) {
        if let Some(on_record) = &mut self.on_record {
            on_record();
        }
        self.version = record.version;
        self.add(Answer::Lease { value: record.value.to_vec(), state });
    }
    fn stored(&mut self, version: u64) {
        self.version = version;
        self.add(Answer::Stored);
    }
    fn refused(&mut self, refusal: Refusal) {
        self.add(Answer::Refused(refusal));
    }
    fn integer(&mut self, number: i64) {
        self.add(Answer::Integer(number));
    }
    fn number(&mut self, record: Record<'_>) {
        self.version = record.version;
        self.add(Answer::Number(String::from_utf8_lossy(record.value).into_owned()));
    }
    fn length(&mut self, length: usize, version: u64) {
        self.version = version;
        self.add(Answer::Length(length));
    }
    fn flag(&mut self, flag: bool) {
        self.add(Answer::Flag(flag));
    }
    fn bytes(&mut self, bytes: &[u8]) {
        self.add(Answer::Bytes(bytes.to_vec()));
    }
    fn expiry(&mut self, expires_at_ms: Option<u64>) {
        self.add(Answer::Expiry(expires_at_ms));
    }
    fn list(&mut self, length: usize) {
        self.add(Answer::List(length));
    }
    fn page(&mut self, cursor: u64, length: usize) {
        self.add(Answer::Page(cursor, length));
    }
    fn slice(&mut self, after: Option<&[u8]>, length: usize) {
        self.add(Answer::Slice(after.map(<[u8]>::to_vec), length));
    }
    fn key(&mut self, key: &[u8]) {
        self.add(Answer::Key(key.to_vec()));
    }
    fn matches(&mut self, spans: &[LcsSpan], length: usize, _with_lengths: bool) {
        self.add(Answer::Matches(spans.to_vec(), length));
    }
    fn error(&mut self, error: Error) {
        self.add(Answer::Error(error));
    }
}

/// Databases, a clock that the test sets, and the longest value.
pub(crate) struct Store {
    pub(crate) databases: Databases,
    pub(crate) now_ms: u64,
    pub(crate) value_bytes_max: usize,
    pub(crate) version: u64,
}

impl Store {
    pub(crate) fn new() -> Store {
        Store::with_order(None)
    }

    /// Databases with this order.
    pub(crate) fn with_order(order: Option<todana_table::KeyOrder>) -> Store {
        let options = todana_table::Options { shards: Some(64), order, ..Default::default() };
        let databases = Databases::with_options(&options);
        Store { databases, now_ms: 1_000_000, value_bytes_max: 1 << 20, version: 0 }
    }

    /// Databases whose records change only by a log, in these numbers; the others are in memory.
    pub(crate) fn durable(numbers: impl Fn(usize) -> bool) -> Store {
        let table = |number| {
            let durable = numbers(number);
            let options = todana_table::Options { shards: Some(64), durable, ..Default::default() };
            std::sync::Arc::new(todana_table::Table::new(options))
        };
        Store { databases: Databases::new(std::array::from_fn(table)), ..Store::new() }
    }

    /// Databases that are full with `records` records each, and refuse more.
    pub(crate) fn with_room_for(records: u64) -> Store {
        use todana_table::{Limits, Options, WhenFull};
        let (entries_max, when_full) = (Some(records), WhenFull::Refuse);
        let limits = Limits { entries_max, bytes_max: None, when_full };
        let databases = Databases::with_options(&Options { limits, ..Options::default() });
        Store { databases, ..Store::new() }
    }

    pub(crate) fn context(&self) -> Context {
        Context { now_ms: self.now_ms, value_bytes_max: self.value_bytes_max }
    }

    /// All answers of a command in database 0.
    pub(crate) fn all(&mut self, command: Command<'_>) -> Vec<Answer> {
        self.all_in(0, command)
    }

    /// All answers of a command.
    pub(crate) fn all_in(&mut self, database: usize, command: Command<'_>) -> Vec<Answer> {
        let mut recorder = Recorder::default();
        execute(&self.databases, database, &command, self.context(), &mut recorder);
        self.version = recorder.version;
        recorder.answers
    }

    /// The only answer of a command in database 0.
    #[track_caller]
    pub(crate) fn run(&mut self, command: Command<'_>) -> Answer {
        self.run_in(0, command)
    }

    /// The only answer of a command.
    #[track_caller]
    pub(crate) fn run_in(&mut self, database: usize, command: Command<'_>) -> Answer {
        let mut answers = self.all_in(database, command);
        assert_eq!(answers.len(), 1, "{answers:?}");
        answers.remove(0)
    }

    /// Stores a value without conditions.
    pub(crate) fn set(&mut self, key: &str, value: &str) {
        let set = todana_command::Set::new(key.as_bytes(), value.as_bytes());
        assert_eq!(self.run(Command::String(StringCommand::Set(set))), Answer::Stored);
    }

    /// The value of a key in database 0.
    pub(crate) fn get(&mut self, key: &str) -> Option<String> {
        match self.run(Command::String(StringCommand::Get { key: key.as_bytes() })) {
            Answer::Record { value, .. } => Some(String::from_utf8_lossy(&value).into_owned()),
            _ => None,
        }
    }
}
