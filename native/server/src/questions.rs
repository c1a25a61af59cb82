//! Questions of clients that no event loop answers.
//!
//! A session asks, and its connection sleeps as for a signal. The question goes to the
//! [`Responder`](crate::Responder), which must not wait, and somebody answers later by the number
//! of the question ([`Server::answer`](crate::Server::answer)), on any thread. The answer travels
//! as a message to the loop, and wakes the connection if it still waits for this number: its time
//! may be over, the client may have left, and the index may be another connection's by now.
//!
//! At most [`ASKED_MAX`] are without an answer. One counts until it is answered, also if its client
//! has left: a client that asks, leaves and asks again must not make work without a bound.
//!
//! Further ones wait in line, in the order in which they came, each with its request in the input
//! of its connection. When a question ends, the first in line takes its place at once, so that no
//! later one overtakes it, and its loop receives [`Message::Ask`](crate::inbox::Message::Ask). A
//! connection that gives up or closes before it has asked leaves the line, or gives the place back.

use crate::place::Place;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use todana_resp::Answer;

/// Maximum number of questions that are asked and have no answer.
const ASKED_MAX: usize = 64;
/// Maximum number of questions that wait in line.
const LINE_MAX: usize = 1_024;

/// The question of a connection.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Asking {
    #[default]
    Nothing,
    /// The one of this number waits in line.
    InLine(u64),
    /// It may be asked now.
    Due(u64),
    /// It was asked, and has no answer yet.
    Asked(u64),
    /// The session has not taken the answer yet.
    Answered(Answer),
}

impl Asking {
    /// Its time has come. False if the connection does not wait for that.
    pub(crate) fn is_due(&mut self, number: u64) -> bool {
        let is_expected = *self == Asking::InLine(number);
        if is_expected {
            *self = Asking::Due(number);
        }
        is_expected
    }

    /// Takes an answer. False if the connection does not wait for it. It may be an error that comes
    /// before the question was asked.
    pub(crate) fn take(&mut self, number: u64, answer: Answer) -> bool {
        let is_expected = *self == Asking::Asked(number) || self.before_asking() == Some(number);
        if is_expected {
            *self = Asking::Answered(answer);
        }
        is_expected
    }

    /// The number of a question that was not asked yet.
    pub(crate) fn before_asking(&self) -> Option<u64> {
        match *self {
            Asking::InLine(number) | Asking::Due(number) => Some(number),
            Asking::Nothing | Asking::Asked(_) | Asking::Answered(_) => None,
        }
    }
}

/// The questions of all connections.
#[derive(Debug)]
pub(crate) struct Questions {
    lists: Mutex<Lists>,
}

#[derive(Debug)]
struct Lists {
    /// Those that are asked, or may be.
    asked: HashMap<u64, Place>,
    /// Empty unless those are as many as may be. Numbers increase, so their order is that of
    /// arrival.
    line: BTreeMap<u64, Place>,
    last: u64,
}

/// A question has ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ended {
    /// The connection that has asked it, unless it ended before.
    pub(crate) place: Option<Place>,
    /// The question that may be asked now, with its connection.
    pub(crate) next: Option<(u64, Place)>,
}

impl Questions {
    /// Numbers begin with the time of the start, so that a late answer to a question of an earlier
    /// server is none to one of this server.
    pub(crate) fn new(started_at_ms: u64) -> Questions {
        let last = started_at_ms << 20;
        let lists = Lists { asked: HashMap::new(), line: BTreeMap::new(), last };
        Questions { lists: Mutex::new(lists) }
    }

    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a question of the connection at this place, which is due or waits in line; `None` if
    /// the line is full.
    pub(crate) fn begin(&self, place: Place) -> Option<Asking> {
        let lists = &mut *self.lists();
        let number = lists.last + 1;
        let asking = if lists.asked.len() < ASKED_MAX {
            lists.asked.insert(number, place);
            Asking::Due(number)
        } else if lists.line.len() < LINE_MAX {
            lists.line.insert(number, place);
            Asking::InLine(number)
        } else {
            return None;
        };
        lists.last = number;
        Some(asking)
    }

    /// Ends the question of this number, wherever it is. The first in line takes its place.
    pub(crate) fn end(&self, number: u64) -> Ended {
        let lists = &mut *self.lists();
        if let Some(place) = lists.asked.remove(&number) {
            let next = lists.line.pop_first();
            lists.asked.extend(next);
            return Ended { place: Some(place), next };
        }
        Ended { place: lists.line.remove(&number), next: None }
    }

    /// Number of those in line.
    #[cfg(test)]
    pub(crate) fn in_line(&self) -> usize {
        self.lists().line.len()
    }

    /// Those that are asked, or may be.
    pub(crate) fn asked(&self) -> Vec<u64> {
        self.lists().asked.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(index: usize) -> Place {
        Place { event_loop: 0, index }
    }

    /// As many questions as may be asked and may wait, by their numbers.
    fn full(questions: &Questions) -> (Vec<u64>, Vec<u64>) {
        let (mut due, mut in_line) = (vec![], vec![]);
        for asking in (0..).map_while(|index| questions.begin(place(index))) {
            match asking {
                Asking::Due(number) => due.push(number),
                Asking::InLine(number) => in_line.push(number),
                other => panic!("{other:?}"),
            }
        }
        (due, in_line)
    }

    #[test]
    fn questions_are_bounded_until_they_are_answered() {
        let questions = Questions::new(1);
        let (due, in_line) = full(&questions);
        assert_eq!((due.len(), in_line.len()), (ASKED_MAX, LINE_MAX));
        assert!(in_line.is_sorted() && due[ASKED_MAX - 1] < in_line[0]);
        let next = Some((in_line[0], place(ASKED_MAX)));
        assert_eq!(questions.end(due[7]), Ended { place: Some(place(7)), next });
        assert_eq!(questions.end(due[7]), Ended::default());
        assert!(matches!(questions.begin(place(9_999)), Some(Asking::InLine(_))));
        assert_eq!(questions.begin(place(9_999)), None);
    }

    #[test]
    fn the_line_keeps_its_order_and_its_places() {
        let questions = Questions::new(1);
        let (due, in_line) = full(&questions);
        // One leaves from the middle of the line: no place becomes free.
        let left = Ended { place: Some(place(ASKED_MAX + 1)), next: None };
        assert_eq!(questions.end(in_line[1]), left);
        let next = |number| questions.end(number).next.map(|(number, _)| number);
        assert_eq!(next(due[0]), Some(in_line[0]));
        // One that may be asked gives its place to the next one.
        assert_eq!(next(in_line[0]), Some(in_line[2]));
        assert_eq!(questions.asked().len(), ASKED_MAX);
        for (ended, expected) in due[1..].iter().zip(&in_line[3..]) {
            assert_eq!(next(*ended), Some(*expected));
        }
        for number in &in_line {
            questions.end(*number);
        }
        assert_eq!(questions.asked(), []);
        assert!(matches!(questions.begin(place(1)), Some(Asking::Due(_))));
    }

    #[test]
    fn an_answer_to_another_question_is_dropped() {
        let mut asking = Asking::Asked(7);
        assert!(!asking.take(6, Answer::Nothing));
        assert!(asking.take(7, Answer::Number(1)));
        assert!(!asking.take(7, Answer::Nothing));
        assert_eq!(asking, Asking::Answered(Answer::Number(1)));
        assert!(!Asking::Nothing.take(7, Answer::Nothing));
    }

    #[test]
    fn a_question_in_line_becomes_due_once() {
        let mut asking = Asking::InLine(7);
        assert!(!asking.is_due(6));
        assert!(asking.is_due(7));
        assert!(!asking.is_due(7));
        assert_eq!((asking.before_asking(), Asking::Asked(7).before_asking()), (Some(7), None));
        assert!(asking.take(7, Answer::Nothing), "all questions fail");
    }
}
