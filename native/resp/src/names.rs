//! TODANA.SCOPES, TODANA.WHEREIS, TODANA.NAMES, TODANA.GROUPS, TODANA.MEMBERS: the names and groups
//! of Erlang processes, which clients can read. Redis does not have these commands.
//!
//! ```text
//!   TODANA.WHEREIS services {user,7}    *8 node a@host pid <0.123.0> token 7 metadata undefined
//!   TODANA.NAMES services COUNT 100     *2 cursor *100 ...               until the cursor is 0
//! ```
//!
//! Erlang answers, while the connection waits as for a signal: the event loop serves other clients.

use super::call::{Call, Done};
use super::encoder::Failure;
use super::flow::Flow;
use super::number;
use super::request::{NOT_AN_INTEGER, SYNTAX};
use super::state::Unfinished;
use crate::{Asked, Host, Page, Question};

/// Items of a page without COUNT.
const COUNT: usize = 100;
/// Maximum number of items of a page.
const COUNT_MAX: usize = 1_000;
/// How long a client waits for an answer. Erlang gives up before.
const ANSWER_MS: u64 = 7_000;
/// How long until a question is asked again that was one too many.
const AGAIN_MS: u64 = 5;

const NOBODY: &str = "CLUSTERDOWN nobody answers questions about names: the node starts or stops";
const LATE: &str = "CLUSTERDOWN this node did not answer in time";

/// For how long a question waits, at most.
pub(super) fn wait_ms(until_ms: u64, is_asked: bool, now_ms: u64) -> u64 {
    let left_ms = until_ms.saturating_sub(now_ms);
    if is_asked { left_ms } else { left_ms.min(AGAIN_MS) }
}

impl<H: Host> Call<'_, '_, H> {
    pub(super) fn name_scopes(&mut self) -> Done {
        self.question(&Question::Scopes)
    }

    pub(super) fn where_is(&mut self) -> Done {
        self.question(&Question::WhereIs { scope: self.argument(1), name: self.argument(2) })
    }

    pub(super) fn names_of_scope(&mut self) -> Done {
        let page = page(&self.arguments[2..])?;
        self.question(&Question::Names { scope: self.argument(1), page })
    }

    pub(super) fn groups_of_scope(&mut self) -> Done {
        let page = page(&self.arguments[2..])?;
        self.question(&Question::Groups { scope: self.argument(1), page })
    }

    pub(super) fn members_of_group(&mut self) -> Done {
        let page = page(&self.arguments[3..])?;
        let (scope, group) = (self.argument(1), self.argument(2));
        self.question(&Question::Members { scope, group, page })
    }

    /// Asks once, and looks for the answer in each turn after that.
    fn question(&mut self, question: &Question<'_>) -> Done {
        let now_ms = self.host.now_ms();
        let (until_ms, was_asked) = match self.state.begun.take() {
            Some(Unfinished::Asking { until_ms, is_asked }) => (until_ms, is_asked),
            _ => (now_ms.saturating_add(ANSWER_MS), false),
        };
        if was_asked && let Some(answer) = self.host.take_answer() {
            answer.into_result()?.write(self.encoder);
            return Ok(Flow::Continue);
        }
        if now_ms >= until_ms {
            self.host.forget_question();
            return Err(LATE.into());
        }
        let is_asked = was_asked
            || match self.host.ask(question) {
                Asked::Yes => true,
                Asked::Later => false,
                Asked::InVain => return Err(NOBODY.into()),
            };
        self.state.begun = Some(Unfinished::Asking { until_ms, is_asked });
        Ok(Flow::Continue)
    }
}

/// The options COUNT and CURSOR.
fn page<'a>(words: &[&'a [u8]]) -> Result<Page<'a>, Failure> {
    let mut page = Page { cursor: b"0", count: COUNT };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word.eq_ignore_ascii_case(b"cursor") {
            page.cursor = words.next().ok_or(SYNTAX)?;
        } else if word.eq_ignore_ascii_case(b"count") {
            page.count = count(words.next().ok_or(SYNTAX)?)?;
        } else {
            return Err(SYNTAX);
        }
    }
    Ok(page)
}

fn count(word: &[u8]) -> Result<usize, Failure> {
    let wanted = number::integer(word).ok_or(NOT_AN_INTEGER)?;
    let count = usize::try_from(wanted).ok().filter(|count| (1..=COUNT_MAX).contains(count));
    count.ok_or_else(|| format!("ERR COUNT must be between 1 and {COUNT_MAX}").into())
}
