//! The digest of the group, made while the log goes on.

use super::log::DIRTY_SLICE;
use super::running::Numbered;
use crate::atoms;
use crate::erts::ResourceType;
use parking_lot::Mutex;
use rustler::{Encoder, Env, NifResult, Term};
use std::time::Instant;
use todana_group::Digest;
use todana_table::Abandoned;

/// Resources for digests that are being made.
pub(crate) static DIGEST: ResourceType<Making> = ResourceType::new(c"todana_digest");

/// Records between two reads of the clock.
const PART: usize = 64;

/// A digest that one process is making. Ended when that process drops it.
pub(crate) struct Making(Mutex<Option<Digest>>);

/// `group_digest(Group) -> {ok, Digest} | {error, busy}`: begins a digest of what has been applied;
/// busy in the middle of an entry, and while there is a snapshot of a table. See
/// [`Group::begin_digest`](todana_group::Group::begin_digest).
#[rustler::nif(schedule = "DirtyCpu")]
fn group_digest(env: Env<'_>, of: Numbered) -> NifResult<Term<'_>> {
    let Some(digest) = of.the_group()?.begin_digest() else {
        return Ok((atoms::error(), atoms::busy()).encode(env));
    };
    let making = DIGEST.make(Making(Mutex::new(Some(digest))), 0);
    // SAFETY: the term was made in this environment.
    let term = unsafe { Term::new(env, making.term(env.as_c_arg())) };
    Ok((atoms::ok(), term).encode(env))
}

/// `group_digest_next(Digest) -> more | {done, Number} | {error, abandoned}`: reads more records.
#[rustler::nif(schedule = "DirtyCpu")]
fn group_digest_next<'a>(env: Env<'a>, digest: Term<'a>) -> NifResult<Term<'a>> {
    // SAFETY: both belong to the present call.
    let making = unsafe { DIGEST.get(env.as_c_arg(), digest.as_c_arg()) };
    let mut making = making.ok_or(rustler::Error::BadArg)?.0.lock();
    let digest = making.as_mut().ok_or(rustler::Error::BadArg)?;
    let until = Instant::now() + DIRTY_SLICE;
    loop {
        let answer = match digest.go_on(PART) {
            Ok(None) if Instant::now() < until => continue,
            Ok(None) => return Ok(atoms::more().encode(env)),
            Ok(Some(number)) => (atoms::done(), number).encode(env),
            Err(Abandoned) => (atoms::error(), atoms::abandoned()).encode(env),
        };
        *making = None;
        return Ok(answer);
    }
}
