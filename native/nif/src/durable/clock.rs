//! The clock of the group, as `todana_clock` corrects it.

use super::running::Numbered;
use crate::atoms;
use crate::submit::{self, Form};

use rustler::types::atom::Atom;
use rustler::{Encoder, Env, NifResult, Term};
use todana_group::Stamp;

/// `group_clock(Group) -> {Era, NowMs, EarlyMs} | unknown`: the time of the log, how often an
/// operator has set it, and by how much it is known to be early.
#[rustler::nif]
fn group_clock(env: Env<'_>, of: Numbered) -> NifResult<Term<'_>> {
    let group = of.the_group()?;
    let clock = group.clock();
    Ok(match clock.running() {
        Some(Stamp { era, ms }) => (era, ms, clock.early_ms()).encode(env),
        None => atoms::unknown().encode(env),
    })
}

/// `group_clock_begin(Group, NowMs) -> ok`: sets the clock, unless it is set.
#[rustler::nif(schedule = "DirtyCpu")]
fn group_clock_begin(of: Numbered, now_ms: u64) -> NifResult<Atom> {
    of.the_group()?.begin_time(now_ms);
    Ok(atoms::ok())
}

/// `group_clock_follow(Group, Era, NowMs, EarlyMs) -> ok`: what another member's clock says.
#[rustler::nif]
fn group_clock_follow(of: Numbered, era: u64, ms: u64, early_ms: i64) -> NifResult<Atom> {
    of.the_group()?.clock().follow(Stamp { era, ms }, early_ms);
    Ok(atoms::ok())
}

/// `group_clock_forget(Group) -> ok`: forgets what the clock has from entries that are lost.
#[rustler::nif]
fn group_clock_forget(of: Numbered) -> NifResult<Atom> {
    of.the_group()?.clock().unset();
    Ok(atoms::ok())
}

/// `group_clock_early(Group, EarlyMs) -> ok`: by how much it is early, or late if negative.
#[rustler::nif]
fn group_clock_early(of: Numbered, early_ms: i64) -> NifResult<Atom> {
    of.the_group()?.clock().note_early(early_ms);
    Ok(atoms::ok())
}

/// `group_clock_correct(Group) -> IsWrong`: corrects it for the time since the last call.
#[rustler::nif]
fn group_clock_correct(of: Numbered) -> NifResult<bool> {
    Ok(of.the_group()?.clock().correct())
}

/// `group_set_time(Group, TimeMs, Form)`: sets the time of the log.
#[rustler::nif]
fn group_set_time<'a>(env: Env<'a>, of: Numbered, time_ms: u64, form: Form<'a>) -> Term<'a> {
    submit::to_group(env, of.group(), form, |records| records.set_time(time_ms))
}
