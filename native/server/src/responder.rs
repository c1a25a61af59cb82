//! The part of the node that has questions of clients answered.

use std::fmt::Debug;
use todana_resp::Question;

/// Passes questions on.
pub trait Responder: Debug + Send + Sync {
    /// Passes on the question of this number. It does not wait. False if nobody will answer.
    fn ask(&self, number: u64, question: &Question<'_>) -> bool;
}
