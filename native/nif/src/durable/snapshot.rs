//! Snapshots of the group, and their files ([`todana_group::GroupSnapshot`]): a worker process
//! writes them, a slice per call, and `group_tick` drops a handle that nobody asks for.

use super::running::Numbered;
use crate::{atoms, disk};
use rustler::types::atom::Atom;
use rustler::{Binary, Encoder, Env, NifResult, Term};
use todana_group::{Damage, SnapshotError, SnapshotFile, SnapshotProgress};

/// `group_restore(Group, Path) -> ok | {damaged | newer | error, Sentence}`: loads a snapshot in
/// place of all records.
#[rustler::nif(schedule = "DirtyIo")]
fn group_restore<'a>(env: Env<'a>, of: Numbered, file: Binary<'a>) -> NifResult<Term<'a>> {
    let group = of.group_to_load()?;
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

/// `group_snapshot(Group, Index) -> ok | busy`: takes the handle of a snapshot, of what has been
/// applied. Called between two entries of the log.
#[rustler::nif(schedule = "DirtyCpu")]
fn group_snapshot(of: Numbered, index: u64) -> NifResult<Atom> {
    let (group, snapshot) = of.group_and_snapshot()?;
    Ok(if snapshot.begin(&group, index) { atoms::ok() } else { atoms::busy() })
}

/// `group_snapshot_write(Group, Index, Path, Bytes) -> more | {done, FileBytes} | {error,
/// Sentence}`: writes about this many bytes of the snapshot taken at an entry of the log. The first
/// call creates the file, and with the last one it is on the disk.
#[rustler::nif(schedule = "DirtyIo")]
fn group_snapshot_write<'a>(
    env: Env<'a>,
    of: Numbered,
    index: u64,
    file: Binary<'a>,
    bytes: usize,
) -> NifResult<Term<'a>> {
    let (_, snapshot) = of.group_and_snapshot()?;
    Ok(match snapshot.write(index, disk::path(&file), bytes) {
        Ok(SnapshotProgress::More) => atoms::more().encode(env),
        Ok(SnapshotProgress::Done(file_bytes)) => (atoms::done(), file_bytes).encode(env),
        Ok(SnapshotProgress::Gone) => (atoms::error(), "its handle is gone").encode(env),
        Err(error) => (atoms::error(), error.to_string()).encode(env),
    })
}

/// `group_snapshot_end(Group, Index) -> ok`: drops the handle, if it is still there.
#[rustler::nif(schedule = "DirtyCpu")]
fn group_snapshot_end(of: Numbered, index: u64) -> NifResult<Atom> {
    let (_, snapshot) = of.group_and_snapshot()?;
    snapshot.end(index);
    Ok(atoms::ok())
}
