//! Tapes as values that can be compared.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use parking_lot::Mutex;
use todana_command::{
    Description, Error, LcsSpan, LeaseState, Player, Record, Refusal, Reply, Status, Tape,
};
use todana_group::{Deliver, Outcome, Ticket};

/// The replies to one record: the calls, as hashes of their arguments, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Played {
    pub(crate) calls: Vec<(&'static str, u64)>,
    pub(crate) status: Status,
}

pub(crate) fn play(tape: Tape) -> Vec<Played> {
    let mut player = Player::new(tape);
    std::iter::from_fn(|| {
        let mut calls = Calls(Vec::new());
        let status =
            player.next_transaction(&mut calls, |calls, index| calls.add("next", &index))?;
        Some(Played { calls: calls.0, status })
    })
    .collect()
}

struct Calls(Vec<(&'static str, u64)>);

impl Calls {
    fn add(&mut self, name: &'static str, fields: &impl Hash) {
        let mut hasher = DefaultHasher::new();
        fields.hash(&mut hasher);
        self.0.push((name, hasher.finish()));
    }
    fn add_record(&mut self, name: &'static str, it: &Record<'_>) {
        self.add(name, &(it.key, it.value, it.flags, it.version, it.expires_at_ms));
    }
}

impl Reply for Calls {
    fn done(&mut self) {
        self.add("done", &());
    }
    fn none(&mut self) {
        self.add("none", &());
    }
    fn record(&mut self, record: Record<'_>) {
        self.add_record("record", &record);
    }
    fn description(&mut self, it: Description<'_>) {
        self.add("description", &(it.kind, it.version, it.length));
    }
    fn lease(&mut self, record: Record<'_>, state: LeaseState) {
        self.add_record("lease", &record);
        self.add("state", &(state.won, state.already_won, state.stale, state.created));
    }
    fn stored(&mut self, version: u64) {
        self.add("stored", &version);
    }
    fn refused(&mut self, refusal: Refusal) {
        self.add("refused", &(refusal as u8));
    }
    fn integer(&mut self, number: i64) {
        self.add("integer", &number);
    }
    fn number(&mut self, record: Record<'_>) {
        self.add_record("number", &record);
    }
    fn length(&mut self, length: usize, version: u64) {
        self.add("length", &(length, version));
    }
    fn flag(&mut self, flag: bool) {
        self.add("flag", &flag);
    }
    fn bytes(&mut self, bytes: &[u8]) {
        self.add("bytes", &bytes);
    }
    fn expiry(&mut self, expires_at_ms: Option<u64>) {
        self.add("expiry", &expires_at_ms);
    }
    fn list(&mut self, length: usize) {
        self.add("list", &length);
    }
    fn page(&mut self, cursor: u64, length: usize) {
        self.add("page", &(cursor, length));
    }
    fn slice(&mut self, after: Option<&[u8]>, length: usize) {
        self.add("slice", &(after, length));
    }
    fn key(&mut self, key: &[u8]) {
        self.add("key", &key);
    }
    fn matches(&mut self, spans: &[LcsSpan], length: usize, with_lengths: bool) {
        self.add("matches", &(spans.len(), length, with_lengths));
    }
    fn error(&mut self, error: Error) {
        self.add("error", &format!("{error:?}"));
    }
}

/// Keeps outcomes until they are looked at.
#[derive(Default)]
pub(crate) struct Outcomes(Mutex<Vec<(u64, Outcome)>>);

impl Outcomes {
    pub(crate) fn new() -> Arc<Outcomes> {
        Arc::default()
    }

    pub(crate) fn take(&self) -> Vec<(u64, Outcome)> {
        std::mem::take(&mut *self.0.lock())
    }
}

impl Deliver for Outcomes {
    fn deliver(&self, outcomes: Vec<(Ticket, Outcome)>) {
        self.0
            .lock()
            .extend(outcomes.into_iter().map(|(ticket, outcome)| (ticket.number, outcome)));
    }
}
