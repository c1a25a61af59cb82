//! Answers to questions of clients about names and groups of processes, by `todana_questions`.

use crate::{atoms, responder, server};
use rustler::types::atom::Atom;
use rustler::types::tuple::get_tuple;
use rustler::{Binary, Error, LocalPid, NifResult, Term, TermType};
use todana_resp::Answer;

/// Answers in answers.
const DEPTH_MAX: usize = 8;

const RESTARTED: &str = "CLUSTERDOWN this node could not answer: ask again";

/// `question_attach(Pid) -> ok`: this process receives `{todana_question, Number, Question}`. What
/// another one has received has no answer any more.
#[rustler::nif(schedule = "DirtyCpu")]
fn question_attach(process: LocalPid) -> Atom {
    responder::attach(process);
    server::running().iter().for_each(|server| server.fail_questions(RESTARTED));
    atoms::ok()
}

/// `question_answer(Number, Answer) -> ok`: `Answer` is `none`, a number, a binary, a list of
/// answers, `{map, [{Name, Answer}]}` or `{error, Text}`.
#[rustler::nif(schedule = "DirtyCpu")]
fn question_answer(number: u64, answer: Term<'_>) -> NifResult<Atom> {
    let answer = decoded(answer, DEPTH_MAX)?;
    server::running().iter().for_each(|server| server.answer(number, answer.clone()));
    Ok(atoms::ok())
}

fn decoded(term: Term<'_>, depth: usize) -> NifResult<Answer> {
    let inner = depth.checked_sub(1).ok_or(Error::BadArg)?;
    let list = |term: Term<'_>| -> NifResult<Vec<Answer>> {
        term.into_list_iterator()?.map(|item| decoded(item, inner)).collect()
    };
    match term.get_type() {
        TermType::Atom if term.decode::<Atom>()? == atoms::none() => Ok(Answer::Nothing),
        TermType::Integer => Ok(Answer::Number(term.decode()?)),
        TermType::Binary => Ok(Answer::Bytes(term.decode::<Binary<'_>>()?.as_slice().to_vec())),
        TermType::List => Ok(Answer::List(list(term)?)),
        TermType::Tuple => match get_tuple(term)?[..] {
            [word, text] if word.decode::<Atom>()? == atoms::error() => {
                Ok(Answer::Failure(text.decode()?))
            }
            [word, pairs] if word.decode::<Atom>()? == atoms::map() => {
                let pair = |pair: Term<'_>| match get_tuple(pair)?[..] {
                    [name, value] => Ok((decoded(name, inner)?, decoded(value, inner)?)),
                    _ => Err(Error::BadArg),
                };
                Ok(Answer::Map(pairs.into_list_iterator()?.map(pair).collect::<NifResult<_>>()?))
            }
            _ => Err(Error::BadArg),
        },
        _ => Err(Error::BadArg),
    }
}
