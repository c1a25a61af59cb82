//! Questions that Erlang answers.

use super::TurnHost;
use crate::questions::Asking;
use todana_resp::{Answer, Asked, Question};

impl todana_resp::Questions for TurnHost<'_> {
    fn ask(&mut self, question: &Question<'_>) -> Asked {
        let Some(responder) = &self.shared.config.responder else { return Asked::InVain };
        let Some(number) = self.shared.questions.begin(self.place) else { return Asked::Later };
        if !responder.ask(number, question) {
            self.shared.questions.end(number);
            return Asked::InVain;
        }
        *self.asking = Asking::Waits(number);
        Asked::Yes
    }

    fn take_answer(&mut self) -> Option<Answer> {
        match std::mem::take(self.asking) {
            Asking::Answered(answer) => Some(answer),
            waits => {
                *self.asking = waits;
                None
            }
        }
    }

    fn forget_question(&mut self) {
        *self.asking = Asking::Nothing;
    }
}
