//! Snapshots of the group, and their files.
//!
//! The handle of a snapshot is taken while the log is applied, and waits until a worker process
//! writes it, a slice per call. Ra may never ask for it: a handle that nobody asks for is dropped
//! by `group_tick`. Until then no other one takes its place, since Ra writes the first of several
//! that are taken in a row and ignores the rest.

use super::running::{Slot, Writing, group_to_load, the_group, with};
use crate::{atoms, disk};
use rustler::types::atom::Atom;
use rustler::{Binary, Encoder, Env, NifResult, Term};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Instant;
use todana_group::{Damage, SnapshotError, SnapshotFile};

/// `group_restore(Path) -> ok | {damaged | newer | error, Sentence}`: loads a snapshot in place of
/// all records.
#[rustler::nif(schedule = "DirtyIo")]
fn group_restore<'a>(env: Env<'a>, file: Binary<'a>) -> NifResult<Term<'a>> {
    let group = group_to_load()?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(verdict(env, group.restore(disk::path(&file), threads)))
}

/// `snapshot_verify_header(Path) -> ok | {damaged | newer | error, Sentence}`: checks the frame of
/// a snapshot file, and none of its records.
#[rustler::nif(schedule = "DirtyIo")]
fn snapshot_verify_header<'a>(env: Env<'a>, file: Binary<'a>) -> Term<'a> {
    verdict(env, SnapshotFile::verify_header(disk::path(&file)))
}

/// `snapshot_verify(Path) -> ok | {damaged | newer | error, Sentence}`: checks every byte of a
/// snapshot file.
#[rustler::nif(schedule = "DirtyIo")]
fn snapshot_verify<'a>(env: Env<'a>, file: Binary<'a>) -> Term<'a> {
    verdict(env, SnapshotFile::verify(disk::path(&file)))
}

fn verdict<T>(env: Env<'_>, result: Result<T, SnapshotError>) -> Term<'_> {
    match result {
        Ok(_) => atoms::ok().encode(env),
        Err(error) => {
            let word = match error.damage {
                Damage::Newer(_) => atoms::newer(),
                _ if error.is_damage() => atoms::damaged(),
                _ => atoms::error(),
            };
            (word, error.to_string()).encode(env)
        }
    }
}

/// `group_snapshot(Index) -> ok | busy`: takes the handle of a snapshot, of what has been applied.
/// Called between two entries of the log.
#[rustler::nif(schedule = "DirtyCpu")]
fn group_snapshot(index: u64) -> NifResult<Atom> {
    let group = the_group()?;
    // Otherwise it will be complete, and then the next one is due.
    let is_free = with(|running| matches!(running.snapshot, Slot::None))?;
    if !is_free {
        return Ok(atoms::busy());
    }
    let Some(source) = group.begin_snapshot(index) else { return Ok(atoms::busy()) };
    let taken = Slot::Taken { index, source: Box::new(source), at: Instant::now() };
    with(|running| running.snapshot = taken)?;
    Ok(atoms::ok())
}

/// `group_snapshot_write(Index, Path, Bytes) -> more | {done, FileBytes} | {error, Sentence}`:
/// writes about this many bytes of the snapshot taken at an entry of the log. The first call
/// creates the file, and with the last one it is on the disk.
#[rustler::nif(schedule = "DirtyIo")]
fn group_snapshot_write<'a>(
    env: Env<'a>,
    index: u64,
    file: Binary<'a>,
    bytes: usize,
) -> NifResult<Term<'a>> {
    let taken = with(|running| {
        let own = running.snapshot.index() == Some(index);
        own.then(|| std::mem::replace(&mut running.snapshot, Slot::Busy { index }))
    })?;
    let writing = match taken {
        Some(Slot::Taken { source, .. }) => {
            create(disk::path(&file)).map(|file| Writing { source, file })
        }
        Some(Slot::Written { writing, .. }) => Ok(writing),
        _ => return Ok((atoms::error(), "its handle is gone").encode(env)),
    };
    // After a panic the handle would count as being written for ever.
    let written = catch_unwind(AssertUnwindSafe(|| {
        let mut writing = writing?;
        let complete = writing.source.write_slice(&mut writing.file, bytes)?;
        Ok((writing, complete))
    }));
    let written = written.unwrap_or_else(|_| Err(std::io::Error::other("a bug of Todana")));
    let (rest, answer) = match written {
        Ok((writing, false)) => {
            let rest = Slot::Written { index, writing, at: Instant::now() };
            (rest, atoms::more().encode(env))
        }
        Ok((writing, true)) => {
            (Slot::None, (atoms::done(), writing.source.bytes_written()).encode(env))
        }
        Err(error) => (Slot::None, (atoms::error(), error.to_string()).encode(env)),
    };
    let dropped = with(|running| match running.snapshot {
        Slot::Busy { index: own } if own == index => std::mem::replace(&mut running.snapshot, rest),
        // A load has begun meanwhile.
        _ => rest,
    })?;
    // Outside the lock: it frees what the log has changed meanwhile.
    drop(dropped);
    Ok(answer)
}

fn create(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// `group_snapshot_end(Index) -> ok`: drops the handle, if it is still there.
#[rustler::nif(schedule = "DirtyCpu")]
fn group_snapshot_end(index: u64) -> NifResult<Atom> {
    let dropped = with(|running| {
        let own = running.snapshot.index() == Some(index);
        own.then(|| std::mem::replace(&mut running.snapshot, Slot::None))
    })?;
    drop(dropped);
    Ok(atoms::ok())
}
