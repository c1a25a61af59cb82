//! `match_prefix`, `match_regex`, `match_similar`: searches through all keys, a slice in each turn.
//!
//! A slice ends after a number of keys or an amount of work, because an expression or an edit
//! distance may be expensive for a single key. Keys that were read but not compared wait for the
//! next slice. A search sees every key that exists during the whole search exactly once. It may or
//! may not see a key that is created or removed meanwhile.

use super::failure::Failure;
use super::http::Status;
use super::inputs::Inputs;
use super::levenshtein::Origin;
use super::outputs::Outputs;
use super::regular::Expression;
use super::table::Row;
use super::turn::Turn;
use super::walk::see;
use super::{numbers, records};
use crate::Host;
use std::collections::{BTreeSet, VecDeque};
use todana_command::{Command, DatabaseCommand};
use todana_table::{Comparison, KeyRange, Keyspace};

/// Most keys compared in a slice.
const SLICE_KEYS: usize = 1_024;
/// Keys read at a time if comparing each may be expensive.
const COSTLY_KEYS: usize = 256;
/// Most work on expressions and distances in a slice. A unit is one state of an expression for one
/// byte of a key: up to 20 ns if the search has to follow all states, which makes this about a
/// millisecond; usually far less.
const SLICE_WORK: usize = 1 << 16;
/// Bytes that a match occupies beside its key while its distance is kept.
const NEAREST_BYTES: usize = 96;
/// Most work for a single key: some milliseconds in the worst case.
const KEY_WORK_MAX: usize = 1 << 18;

const TOO_MUCH_WORK: Failure = Failure::new(
    Status::Internal,
    "DB: 9: system error: there is a key too long for this expression",
);

/// A search in progress.
#[derive(Debug)]
pub(super) struct Search {
    database: usize,
    road: Road,
    /// Keys that were read but not compared yet.
    unseen: VecDeque<Vec<u8>>,
    sieve: Sieve,
}

/// The source of the keys.
#[derive(Debug)]
enum Road {
    /// In order, the keys after `after`: those with a prefix, or all.
    Walk {
        prefix: Option<Vec<u8>>,
        after: Option<Vec<u8>>,
    },
    /// Without an order, from this cursor on.
    Scan(u64),
    End,
}

/// The condition of the search, and the matches found.
#[derive(Debug)]
struct Sieve {
    wanted: Wanted,
    matches_max: usize,
    /// Number of matches among the outputs.
    matches: usize,
    /// Matches sorted by distance, if that is their order: they are written at the end.
    nearest: BTreeSet<(usize, Vec<u8>)>,
    nearest_bytes: usize,
    bytes_max: usize,
}

#[derive(Debug)]
enum Wanted {
    Prefix(Vec<u8>),
    Expression(Expression),
    Near { origin: Origin, range: usize },
}

/// Progress within a slice.
#[derive(Debug, Default)]
struct Slice {
    keys: usize,
    work: usize,
}

impl Search {
    /// Begins the search of a row.
    pub(super) fn begin<H: Host>(
        turn: &Turn<'_, H>,
        row: Row,
        database: usize,
        inputs: &Inputs<'_>,
    ) -> Result<Search, Failure> {
        let wanted = Wanted::of(row, inputs)?;
        let max = inputs.get(b"max").map_or(-1, numbers::integer);
        let matches_max = usize::try_from(max).unwrap_or(usize::MAX);
        let road = match turn.host.databases().table(database).order() {
            _ if matches_max == 0 => Road::End,
            None => Road::Scan(0),
            Some(order) => {
                let prefix = match &wanted {
                    Wanted::Prefix(prefix) if order.comparison == Comparison::Lexical => {
                        Some(prefix.clone())
                    }
                    _ => None,
                };
                Road::Walk { prefix, after: None }
            }
        };
        let (nearest, nearest_bytes) = (BTreeSet::new(), 0);
        let bytes_max = turn.host.limits().output_bytes_max;
        let sieve = Sieve { wanted, matches_max, matches: 0, nearest, nearest_bytes, bytes_max };
        Ok(Search { database, road, unseen: VecDeque::new(), sieve })
    }

    /// Bytes of the matches that are kept until all are known.
    pub(super) fn held_bytes(&self) -> usize {
        self.sieve.nearest_bytes
    }

    /// Continues for a slice. True when all matches are among the outputs.
    pub(super) fn step<H: Host>(
        &mut self,
        turn: &mut Turn<'_, H>,
        outputs: &mut Outputs,
    ) -> Result<bool, Failure> {
        let mut slice = Slice::default();
        while !slice.is_over()
            && let Some(key) = self.unseen.pop_front()
        {
            slice.look(&mut self.sieve, &key, outputs)?;
        }
        if !slice.is_over() && self.unseen.is_empty() {
            self.read(turn, &mut slice, outputs)?;
        }
        if self.sieve.is_full() {
            self.unseen.clear();
            self.road = Road::End;
        }
        if !self.unseen.is_empty() || !matches!(self.road, Road::End) {
            return Ok(false);
        }
        self.sieve.conclude(outputs)
    }

    /// Reads and compares keys within the bounds of this slice.
    fn read<H: Host>(
        &mut self,
        turn: &mut Turn<'_, H>,
        slice: &mut Slice,
        outputs: &mut Outputs,
    ) -> Result<(), Failure> {
        let Search { database, road, unseen, sieve } = self;
        let count = match sieve.wanted {
            Wanted::Prefix(_) => SLICE_KEYS,
            _ => COSTLY_KEYS,
        };
        let command = match road {
            Road::Walk { prefix, after } => Command::Database(DatabaseCommand::Range {
                keys: prefix.as_deref().map_or(KeyRange::All, KeyRange::Prefix),
                after: after.as_deref(),
                reverse: false,
                count,
                values: false,
            }),
            Road::Scan(cursor) => Command::Database(DatabaseCommand::Scan {
                cursor: *cursor,
                count,
                pattern: None,
                values: false,
            }),
            Road::End => return Ok(()),
        };
        let mut looked = Ok(());
        let seen = see(turn, *database, &command, &mut |record| {
            if looked.is_err() {
                return;
            }
            if slice.is_over() {
                unseen.push_back(record.key.to_vec());
            } else {
                looked = slice.look(sieve, record.key, outputs);
            }
        })?;
        looked?;
        match road {
            Road::Walk { after, .. } if seen.after.is_some() => *after = seen.after,
            Road::Scan(cursor) if seen.cursor != 0 => *cursor = seen.cursor,
            _ => *road = Road::End,
        }
        Ok(())
    }
}

impl Wanted {
    fn of(row: Row, inputs: &Inputs<'_>) -> Result<Wanted, Failure> {
        match row {
            Row::MatchPrefix => Ok(Wanted::Prefix(records::required(inputs, b"prefix")?.to_vec())),
            Row::MatchRegex => {
                let expression = Expression::compile(records::required(inputs, b"regex")?);
                expression.map(Wanted::Expression).map_err(|_| Failure::BAD_EXPRESSION)
            }
            Row::MatchSimilar => {
                let origin = records::required(inputs, b"origin")?;
                let origin = Origin::new(origin, inputs.has(b"utf"));
                let origin = origin.map_err(|_| Failure::INVALID_PARAMETERS)?;
                let range = inputs.get(b"range").map_or(1, numbers::integer);
                Ok(Wanted::Near { origin, range: usize::try_from(range).unwrap_or(1) })
            }
            _ => Err(Failure::NOT_IMPLEMENTED),
        }
    }

    /// The most work that comparing a key takes.
    fn work(&self, key: &[u8]) -> usize {
        match self {
            Wanted::Prefix(_) => 0,
            Wanted::Expression(expression) => expression.work(key.len()),
            // A word of a distance costs at most half as much as a state of an expression.
            Wanted::Near { origin, range } => origin.work(key, *range) / 2,
        }
    }
}

impl Slice {
    fn is_over(&self) -> bool {
        self.keys >= SLICE_KEYS || self.work >= SLICE_WORK
    }

    fn look(
        &mut self,
        sieve: &mut Sieve,
        key: &[u8],
        outputs: &mut Outputs,
    ) -> Result<(), Failure> {
        let work = sieve.wanted.work(key);
        if work > KEY_WORK_MAX {
            return Err(TOO_MUCH_WORK);
        }
        self.keys += 1;
        self.work += work;
        sieve.look(key, outputs)
    }
}

impl Sieve {
    /// Whether no further key can change the result.
    fn is_full(&self) -> bool {
        self.matches >= self.matches_max
    }

    fn look(&mut self, key: &[u8], outputs: &mut Outputs) -> Result<(), Failure> {
        match &mut self.wanted {
            Wanted::Prefix(prefix) if key.starts_with(prefix) => self.add(key, outputs),
            Wanted::Expression(expression) if expression.matches(key) => self.add(key, outputs),
            Wanted::Near { origin, range } => {
                let worst = self.nearest.last().map(|(distance, _)| *distance);
                let is_crowded = self.nearest.len() >= self.matches_max;
                let limit = worst.filter(|_| is_crowded).unwrap_or(*range);
                match origin.distance(key, limit) {
                    Some(distance) => self.keep(distance, key),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// Keeps a match until all matches are known.
    fn keep(&mut self, distance: usize, key: &[u8]) -> Result<(), Failure> {
        if self.nearest.insert((distance, key.to_vec())) {
            self.nearest_bytes += key.len() + NEAREST_BYTES;
        }
        if self.nearest.len() > self.matches_max
            && let Some((_, key)) = self.nearest.pop_last()
        {
            self.nearest_bytes -= key.len() + NEAREST_BYTES;
        }
        if self.nearest_bytes > self.bytes_max { Err(Failure::REPLY_TOO_LONG) } else { Ok(()) }
    }

    /// Adds a match to the outputs.
    fn add(&mut self, key: &[u8], outputs: &mut Outputs) -> Result<(), Failure> {
        if self.is_full() {
            return Ok(());
        }
        let mut rank = itoa::Buffer::new();
        outputs.insert_record(key, rank.format(self.matches).as_bytes());
        self.matches += 1;
        if outputs.bytes() > self.bytes_max { Err(Failure::REPLY_TOO_LONG) } else { Ok(()) }
    }

    /// Adds a slice of the kept matches to the outputs. True when none are left.
    fn conclude(&mut self, outputs: &mut Outputs) -> Result<bool, Failure> {
        for _ in 0..SLICE_KEYS {
            let Some((_, key)) = self.nearest.pop_first() else {
                outputs.insert_number("num", self.matches);
                return Ok(true);
            };
            self.nearest_bytes -= key.len() + NEAREST_BYTES;
            self.add(&key, outputs)?;
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests;
