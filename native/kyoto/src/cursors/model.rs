//! Compares cursors with a model, while other clients write and records expire.

use super::tests::{Connection, DESCENDING, LEXICAL, NO_RECORD};
use crate::table::Row;
use proptest::prelude::*;
use std::collections::BTreeMap;
use todana_command::Expires;

/// An action of the client or of other clients.
#[derive(Clone, Copy, Debug)]
enum Action {
    /// Another client stores a record, which expires after this many seconds.
    Put(u8, Option<u64>),
    /// Another client removes a record.
    Remove(u8),
    /// This many seconds pass.
    Pass(u64),
    Jump(Option<u8>),
    JumpBack(Option<u8>),
    Move {
        backward: bool,
    },
    Look {
        step: bool,
    },
    SetValue {
        step: bool,
    },
    Take {
        look: bool,
    },
}

fn step() -> impl Strategy<Value = Action> {
    // The model does not cover keys at the very ends.
    let key = || b'a'..=b'h';
    prop_oneof![
        4 => (key(), prop::option::of(1u64..4)).prop_map(|(key, ttl)| Action::Put(key, ttl)),
        3 => key().prop_map(Action::Remove),
        1 => (1u64..3).prop_map(Action::Pass),
        1 => prop::option::of(key()).prop_map(Action::Jump),
        1 => prop::option::of(key()).prop_map(Action::JumpBack),
        4 => any::<bool>().prop_map(|backward| Action::Move { backward }),
        6 => any::<bool>().prop_map(|step| Action::Look { step }),
        1 => any::<bool>().prop_map(|step| Action::SetValue { step }),
        2 => any::<bool>().prop_map(|look| Action::Take { look }),
    ]
}

/// Records by their rank in the order, and a cursor on one of them.
struct Model {
    descending: bool,
    now_ms: u64,
    /// The expiry of each record.
    records: BTreeMap<u8, Option<u64>>,
    /// The cursor's rank, and the expiry of its record when it was last read.
    place: Option<(u8, Option<u64>)>,
    backward: bool,
}

impl Model {
    /// The rank of a key in the order, and the reverse.
    fn rank(&self, key: u8) -> u8 {
        if self.descending { u8::MAX - key } else { key }
    }

    /// Removes expired records.
    fn expire(&mut self) {
        self.records.retain(|_, at_ms| at_ms.is_none_or(|at_ms| at_ms > self.now_ms));
    }

    /// Moves to the record beside a rank, or off the records.
    fn go(&mut self, beside: u8) -> Option<u8> {
        let found = match self.backward {
            false => self.records.range(beside.saturating_add(1)..).next(),
            true => self.records.range(..beside).next_back(),
        };
        self.place = found.map(|(&rank, &at_ms)| (rank, at_ms));
        self.rank_of_place()
    }

    fn rank_of_place(&self) -> Option<u8> {
        self.place.map(|(rank, _)| rank)
    }

    /// The record at the cursor: its own, or the next in its direction.
    fn find(&mut self) -> Option<u8> {
        let (rank, _) = self.place?;
        match self.records.get(&rank) {
            Some(&at_ms) => {
                self.place = Some((rank, at_ms));
                Some(rank)
            }
            None => self.go(rank),
        }
    }

    /// The key that a client's action finds.
    fn take(&mut self, step: Action) -> Option<u8> {
        match step {
            Action::Jump(key) => {
                self.backward = false;
                match key.map(|key| self.rank(key)) {
                    None => self.go(0),
                    Some(rank) => self.go(rank - 1),
                }
            }
            Action::JumpBack(key) => {
                self.backward = true;
                match key.map(|key| self.rank(key)) {
                    None => self.go(u8::MAX),
                    Some(rank) => self.go(rank + 1),
                }
            }
            Action::Move { backward: true } => {
                self.backward = true;
                let (rank, _) = self.place?;
                self.go(rank)
            }
            Action::Move { backward: false } => {
                self.backward = false;
                let (rank, at_ms) = self.place?;
                let is_gone = !self.records.contains_key(&rank);
                if is_gone && at_ms.is_none_or(|at_ms| at_ms > self.now_ms) {
                    let rank = self.go(rank)?;
                    return self.go(rank);
                }
                self.go(rank)
            }
            Action::Look { step } => {
                let rank = self.find()?;
                if step {
                    self.go(rank);
                }
                Some(rank)
            }
            Action::SetValue { step } => {
                let rank = self.find()?;
                self.records.insert(rank, None);
                self.place = Some((rank, None));
                if step {
                    self.go(rank);
                }
                Some(rank)
            }
            Action::Take { .. } => {
                let rank = self.find()?;
                self.records.remove(&rank);
                self.go(rank);
                Some(rank)
            }
            Action::Put(..) | Action::Remove(_) | Action::Pass(_) => None,
        }
    }
}

fn name(key: u8) -> String {
    char::from(key).to_string()
}

/// The procedure of a client's action and its inputs.
fn request(step: Action) -> Option<(Row, String)> {
    let key = |key: Option<u8>| key.map(|key| format!("&key={}", name(key))).unwrap_or_default();
    let flag = |step: bool| if step { "&step" } else { "" };
    let (row, inputs) = match step {
        Action::Jump(to) => (Row::CurJump, key(to)),
        Action::JumpBack(to) => (Row::CurJumpBack, key(to)),
        Action::Move { backward: false } => (Row::CurStep, String::new()),
        Action::Move { backward: true } => (Row::CurStepBack, String::new()),
        Action::Look { step } => (Row::CurGetKey, flag(step).to_owned()),
        Action::SetValue { step } => (Row::CurSetValue, format!("&value=x{}", flag(step))),
        Action::Take { look: false } => (Row::CurRemove, String::new()),
        Action::Take { look: true } => (Row::CurSeize, String::new()),
        Action::Put(..) | Action::Remove(_) | Action::Pass(_) => return None,
    };
    Some((row, format!("CUR=1{inputs}")))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn cursors_do_what_their_model_does(
        descending: bool,
        steps in prop::collection::vec(step(), 0..120),
    ) {
        let order = if descending { DESCENDING } else { LEXICAL };
        let mut connection = Connection::new(order);
        let now_ms = connection.host.now_ms;
        let (records, place, backward) = Default::default();
        let mut model = Model { descending, now_ms, records, place, backward };
        // The rank before the last move of a walk, and whether it went backward.
        let mut walked: Option<(u8, bool)> = None;
        for step in steps {
            match step {
                Action::Put(key, seconds) => {
                    let at_ms = seconds.map(|seconds| model.now_ms + seconds * 1_000);
                    connection.put(&name(key), at_ms.map_or(Expires::Never, Expires::At));
                    model.records.insert(model.rank(key), at_ms);
                }
                Action::Remove(key) => {
                    connection.remove(&name(key));
                    model.records.remove(&model.rank(key));
                }
                Action::Pass(seconds) => {
                    connection.host.now_ms += seconds * 1_000;
                    model.now_ms = connection.host.now_ms;
                    model.expire();
                }
                _ => {}
            }
            let Some((row, query)) = request(step) else { continue };
            let rank = model.take(step);
            let key = rank.map(|rank| name(model.rank(rank)));
            let answer = connection.ask(row, &query);
            let expected = match (row, &key) {
                (_, None) => NO_RECORD.to_owned(),
                (Row::CurGetKey, Some(key)) => format!("key={key}"),
                (Row::CurSeize, Some(key)) => {
                    prop_assert!(answer.starts_with(&format!("key={key} ")), "{answer}");
                    answer.clone()
                }
                _ => String::new(),
            };
            prop_assert_eq!(answer, expected, "{:?}", step);
            // All moves of a walk have one direction. A jump, a change of direction and the end of
            // the records end a walk.
            let goes_on = walked.is_some_and(|(_, backward)| backward == model.backward);
            match (step, rank) {
                (Action::Jump(_) | Action::JumpBack(_), _) | (_, None) => walked = None,
                (Action::Move { .. }, _) if !goes_on => walked = None,
                (Action::Move { .. }, _) => {}
                (_, Some(rank)) => {
                    if let Some((before, backward)) = walked.filter(|_| goes_on) {
                        let passes = if backward { rank <= before } else { rank >= before };
                        prop_assert!(passes, "{rank} after {before}");
                    }
                    walked = Some((rank, model.backward));
                }
            }
        }
    }
}
