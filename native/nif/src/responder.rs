//! The Erlang process that receives questions of clients (`todana_questions`).

use crate::values::fresh;
use crate::{atoms, erts};
use parking_lot::Mutex;
use rustler::LocalPid;
use std::sync::Arc;
use todana_resp::Question;
use todana_server::Responder;

/// The process that receives questions.
static PROCESS: Mutex<Option<LocalPid>> = Mutex::new(None);

#[derive(Debug)]
struct ErlangResponder;

/// Has the process answer.
pub(crate) fn responder() -> Arc<dyn Responder> {
    Arc::new(ErlangResponder)
}

/// The process receives questions from now on.
pub(crate) fn attach(process: LocalPid) {
    *PROCESS.lock() = Some(process);
}

impl Responder for ErlangResponder {
    fn ask(&self, number: u64, question: &Question<'_>) -> bool {
        let Some(process) = *PROCESS.lock() else { return false };
        erts::send(process, |env| {
            let question = encoded(env, question);
            let word = atoms::todana_question().as_c_arg();
            erts::tuple(env, &[word, erts::make_u64(env, number), question])
        })
    }
}

/// A tuple of a word and what the question is about, as `todana_questions` has it.
fn encoded(env: erts::RawEnv, question: &Question<'_>) -> erts::Raw {
    let (word, bytes, page) = match *question {
        Question::Scopes => (atoms::scopes(), [None, None], None),
        Question::WhereIs { scope, name } => (atoms::whereis(), [Some(scope), Some(name)], None),
        Question::Names { scope, page } => (atoms::names(), [Some(scope), None], Some(page)),
        Question::Groups { scope, page } => (atoms::groups(), [Some(scope), None], Some(page)),
        Question::Members { scope, group, page } => {
            (atoms::members(), [Some(scope), Some(group)], Some(page))
        }
    };
    let mut terms = vec![word.as_c_arg()];
    terms.extend(bytes.into_iter().flatten().map(|bytes| fresh(env, bytes)));
    if let Some(page) = page {
        terms.extend([fresh(env, page.cursor), erts::make_u64(env, page.count as u64)]);
    }
    erts::tuple(env, &terms)
}
