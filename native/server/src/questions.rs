//! Questions of clients that no event loop answers.
//!
//! A session asks, and its connection sleeps as for a signal. The question goes to the
//! [`Responder`](crate::Responder), which must not wait, and somebody answers later by the number
//! of the question ([`Server::answer`](crate::Server::answer)), on any thread. The answer travels
//! as a message to the loop, and wakes the connection if it still waits for this number: its time
//! may be over, the client may have left, and the index may be another connection's by now.
//!
//! At most [`QUESTIONS_MAX`] are without an answer. One counts until it is answered, also if its
//! client has left: a client that asks, leaves and asks again must not make work without a bound.

use crate::place::Place;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use todana_resp::Answer;

/// Most questions without an answer.
const QUESTIONS_MAX: usize = 64;

/// The question of a connection.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Asking {
    #[default]
    Nothing,
    /// The one of this number has no answer yet.
    Waits(u64),
    /// The session has not taken the answer yet.
    Answered(Answer),
}

impl Asking {
    /// Takes an answer. False if the connection does not wait for it.
    pub(crate) fn take(&mut self, number: u64, answer: Answer) -> bool {
        let is_expected = *self == Asking::Waits(number);
        if is_expected {
            *self = Asking::Answered(answer);
        }
        is_expected
    }
}

/// The questions without an answer.
#[derive(Debug)]
pub(crate) struct Questions {
    asked: Mutex<AskedQuestions>,
}

#[derive(Debug)]
struct AskedQuestions {
    places: HashMap<u64, Place>,
    last: u64,
}

impl Questions {
    /// Numbers begin with the time of the start, so that a late answer to a question of an earlier
    /// server is none to one of this server.
    pub(crate) fn new(started_at_ms: u64) -> Questions {
        let last = started_at_ms << 20;
        Questions { asked: Mutex::new(AskedQuestions { places: HashMap::new(), last }) }
    }

    fn asked(&self) -> MutexGuard<'_, AskedQuestions> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a question of the connection at this place; `None` if there are too many.
    pub(crate) fn begin(&self, place: Place) -> Option<u64> {
        let mut asked = self.asked();
        if asked.places.len() >= QUESTIONS_MAX {
            return None;
        }
        asked.last += 1;
        let number = asked.last;
        asked.places.insert(number, place);
        Some(number)
    }

    /// Ends the question of this number, and returns the connection that waits for its answer.
    pub(crate) fn end(&self, number: u64) -> Option<Place> {
        self.asked().places.remove(&number)
    }

    /// All that have none.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.asked().places.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_bounded_until_they_are_answered() {
        let questions = Questions::new(1);
        let place = |index| Place { event_loop: 0, index };
        let numbers: Vec<u64> = (0..).map_while(|index| questions.begin(place(index))).collect();
        assert_eq!(numbers.len(), QUESTIONS_MAX);
        assert_eq!(questions.end(numbers[7]), Some(place(7)));
        assert_eq!(questions.end(numbers[7]), None);
        let next = questions.begin(place(99)).expect("one was answered");
        assert!(next > numbers[QUESTIONS_MAX - 1]);
        assert_eq!(questions.begin(place(100)), None);
    }

    #[test]
    fn an_answer_to_another_question_is_dropped() {
        let mut asking = Asking::Waits(7);
        assert!(!asking.take(6, Answer::Nothing));
        assert!(asking.take(7, Answer::Number(1)));
        assert!(!asking.take(7, Answer::Nothing));
        assert_eq!(asking, Asking::Answered(Answer::Number(1)));
        assert!(!Asking::Nothing.take(7, Answer::Nothing));
    }
}
