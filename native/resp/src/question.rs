//! Questions that no event loop answers: about names and groups of processes, which Erlang knows.
//!
//! A session asks its host and waits. The answer comes from another thread, and wakes it.

use super::encoder::{Encoder, Failure};

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question<'a> {
    /// The scopes.
    Scopes,
    /// The process that has a name.
    WhereIs {
        /// The scope.
        scope: &'a [u8],
        /// The name.
        name: &'a [u8],
    },
    /// Some names of a scope.
    Names {
        /// The scope.
        scope: &'a [u8],
        /// Which ones.
        page: Page<'a>,
    },
    /// Some groups of a scope.
    Groups {
        /// The scope.
        scope: &'a [u8],
        /// Which ones.
        page: Page<'a>,
    },
    /// Some members of a group.
    Members {
        /// The scope.
        scope: &'a [u8],
        /// The group.
        group: &'a [u8],
        /// Which ones.
        page: Page<'a>,
    },
}

/// A part of a long answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page<'a> {
    /// Where the page before has ended, as that said.
    pub cursor: &'a [u8],
    /// The most that it has.
    pub count: usize,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// There is none of this name.
    Nothing,
    /// A number.
    Number(u64),
    /// A text or bytes.
    Bytes(Vec<u8>),
    /// Several ones.
    List(Vec<Answer>),
    /// Several ones with their names.
    Map(Vec<(Answer, Answer)>),
    /// An error, with its first word.
    Failure(String),
}

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The answer comes.
    Yes,
    /// As many wait for answers as may: ask again.
    Later,
    /// Nobody answers.
    InVain,
}

/// Questions of clients. A connection has one at most.
pub trait Questions {
    /// Asks, in a turn that ends with [`Next::Wait`](todana_protocol::Next::Wait).
    fn ask(&mut self, question: &Question<'_>) -> Asked;
    /// The answer, if it has come.
    fn take_answer(&mut self) -> Option<Answer>;
    /// Waits for the answer no longer.
    fn forget_question(&mut self);
}

impl Answer {
    /// Writes it as a reply.
    pub(super) fn write(&self, encoder: &mut Encoder<'_>) {
        match self {
            Answer::Nothing => encoder.null_array(),
            Answer::Number(number) => encoder.count(*number),
            Answer::Bytes(bytes) => encoder.bulk(bytes),
            Answer::List(items) => {
                encoder.array(items.len());
                items.iter().for_each(|item| item.write(encoder));
            }
            Answer::Map(pairs) => {
                encoder.map(pairs.len());
                for (name, value) in pairs {
                    name.write(encoder);
                    value.write(encoder);
                }
            }
            Answer::Failure(text) => encoder.error(text.as_str()),
        }
    }

    /// The error that it is, if it is one.
    pub(super) fn into_result(self) -> Result<Answer, Failure> {
        match self {
            Answer::Failure(text) => Err(text.into()),
            answer => Ok(answer),
        }
    }
}
