//! Reads that must see what other nodes have acknowledged: what asks the leader, and Erlang
//! processes that wait.

use crate::codec::Misuse;
use crate::durable::Numbered;
use crate::values::fresh;
use crate::{atoms, submit, tables};
use rustler::types::atom::Atom;
use rustler::{Encoder, Env, LocalPid, NifResult, Term};
use std::sync::Arc;
use todana_group::{Group, NamedTable, Submit, read_in_one_load};

/// `group_read_attach(Group, Pid) -> ok`: this process receives `todana_read` when somebody waits
/// for the next question. The questions of another one have no answer any more.
#[rustler::nif]
fn group_read_attach(of: Numbered, asker: LocalPid) -> NifResult<Atom> {
    *of.asker.lock() = Some(asker);
    if of.the_group()?.questions_failed() {
        of.wake_asker();
    }
    Ok(atoms::ok())
}

/// `group_read_begin(Group) -> Question`: the leader is about to be asked, for all who have waited
/// until now.
#[rustler::nif]
fn group_read_begin(of: Numbered) -> NifResult<u64> {
    let group = of.the_group()?;
    Ok(group.begin_question(group.clock_ms()))
}

/// `group_read_answered(Group, Question, Index) -> ok`: the leader has this answer.
#[rustler::nif]
fn group_read_answered(of: Numbered, question: u64, index: u64) -> NifResult<Atom> {
    of.the_group()?.question_answered(question, index);
    Ok(atoms::ok())
}

/// `group_read_failed(Group, Question) -> boolean()`: there is no answer. Whether somebody waits
/// for the next one.
#[rustler::nif]
fn group_read_failed(of: Numbered, question: u64) -> NifResult<bool> {
    Ok(of.the_group()?.question_failed(question))
}

/// `group_read_several(Group, Others) -> ok`: the number of the other members.
#[rustler::nif]
fn group_read_several(of: Numbered, others: usize) -> NifResult<Atom> {
    of.the_group()?.set_others(Some(others));
    Ok(atoms::ok())
}

/// `group_was_read(Group) -> boolean()`: whether somebody has read, and accepts records of some
/// age, since the last call of this.
#[rustler::nif]
fn group_was_read(of: Numbered) -> NifResult<bool> {
    Ok(of.the_group()?.was_read())
}

/// `group_copies(Group, AtLeast, Known) -> ok`: the last entries that other members have on disk,
/// and how many of them have each confirmed entry anyway.
#[rustler::nif]
fn group_copies(of: Numbered, at_least: usize, known: Vec<u64>) -> NifResult<Atom> {
    of.the_group()?.set_copies(at_least, known);
    Ok(atoms::ok())
}

/// The group of a table, if its records come from the log; a misuse if they cannot be read now.
fn group_of(env: Env<'_>, table: Term<'_>) -> Result<Option<Arc<Group>>, Misuse> {
    // SAFETY: both belong to the present call, which runs on a normal scheduler.
    let store = unsafe { tables::get(env.as_c_arg(), table.as_c_arg()) }?;
    submit::readable(store)?;
    Ok(store.group().and_then(|local| local.group()))
}

/// `read_await(Table, bounded | linear, Ref) -> fresh | {submitted, Ticket}`: whether the records
/// are new enough. If not, the process receives `{Ref, fresh}` when they are, or `{Ref,
/// not_executed}` if they cannot be read any more.
#[rustler::nif]
fn read_await<'a>(env: Env<'a>, table: Term<'a>, level: Atom, reference: Term<'a>) -> Term<'a> {
    let group = match group_of(env, table) {
        Ok(Some(group)) => group,
        Ok(None) => return atoms::fresh().encode(env),
        Err(misuse) => return misuse.term(env),
    };
    await_fresh(env, &group, level, reference)
}

fn await_fresh<'a>(env: Env<'a>, group: &Group, level: Atom, reference: Term<'a>) -> Term<'a> {
    let is_fresh = match level == atoms::linear() {
        true => group.is_alone(),
        false => group.is_fresh(group.clock_ms()),
    };
    if is_fresh {
        return atoms::fresh().encode(env);
    }
    let (ticket, deliver) = submit::reader(env, reference);
    group.await_fresh(ticket, deliver);
    (atoms::submitted(), ticket.number).encode(env)
}

/// `group_read_await(Group, bounded | linear, Ref) -> fresh | {submitted, Ticket}`: the same for
/// what is in no table: which tables there are.
#[rustler::nif]
fn group_read_await<'a>(
    env: Env<'a>,
    of: Numbered,
    level: Atom,
    reference: Term<'a>,
) -> NifResult<Term<'a>> {
    let group = of.the_group()?;
    Ok(match of.readable() {
        Some(_) => await_fresh(env, &group, level, reference),
        None => submit::recovering().term(env),
    })
}

/// `group_tables(Group) -> [Name]`: the named tables, as a read: it fails if they cannot be read
/// yet, or were replaced meanwhile.
#[rustler::nif]
fn group_tables(env: Env<'_>, of: Numbered) -> NifResult<Term<'_>> {
    let group = of.the_group()?;
    let named = read_in_one_load(|| of.readable(), || group.tables().to_vec());
    Ok(match named {
        Some(named) => {
            let name = |table: &Arc<NamedTable>| {
                let term = fresh(env.as_c_arg(), table.name());
                // SAFETY: the term was made in this environment.
                unsafe { Term::new(env, term) }
            };
            named.iter().map(name).collect::<Vec<_>>().encode(env)
        }
        None => submit::recovering().term(env),
    })
}

/// `read_after(Table, Index, Ref) -> fresh | {submitted, Ticket}`: the same for an entry of the
/// log.
#[rustler::nif]
fn read_after<'a>(env: Env<'a>, table: Term<'a>, index: u64, reference: Term<'a>) -> Term<'a> {
    let group = match group_of(env, table) {
        Ok(Some(group)) => group,
        Ok(None) => return atoms::fresh().encode(env),
        Err(misuse) => return misuse.term(env),
    };
    if group.applied_index() >= index {
        return atoms::fresh().encode(env);
    }
    let (ticket, deliver) = submit::reader(env, reference);
    group.await_applied(index, ticket, deliver);
    (atoms::submitted(), ticket.number).encode(env)
}

/// `read_index(Table) -> Index`: the last entry of the log that has a write of which somebody here
/// knows the outcome, 0 for a table in memory.
#[rustler::nif]
fn read_index<'a>(env: Env<'a>, table: Term<'a>) -> Term<'a> {
    match group_of(env, table) {
        Ok(group) => group.map_or(0, |group| group.answered_index()).encode(env),
        Err(misuse) => misuse.term(env),
    }
}
