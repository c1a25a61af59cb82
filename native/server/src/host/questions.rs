//! Questions that Erlang answers.

use super::TurnHost;
use crate::questions::Asking;
use todana_resp::{Answer, Asked, Question};

impl todana_resp::Questions for TurnHost<'_> {
    fn ask(&mut self, question: &Question<'_>) -> Asked {
        let Some(responder) = &self.shared.config.responder else { return Asked::InVain };
        if *self.asking == Asking::Nothing {
            let Some(begun) = self.shared.questions.begin(self.place) else {
                return Asked::TooMany;
            };
            *self.asking = begun;
        }
        let Asking::Due(number) = *self.asking else { return Asked::Yes };
        if !responder.ask(number, question) {
            self.forget_question();
            return Asked::InVain;
        }
        *self.asking = Asking::Asked(number);
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
        self.shared.leave_line(self.asking);
        *self.asking = Asking::Nothing;
    }
}
