//! The data directory, as far as Erlang cannot look after it: a lock that ends with the process,
//! the free space, and room at the end of a file that another descriptor writes to.

use crate::atoms;
use parking_lot::Mutex;
use rustler::{Binary, Encoder, Env, Term};
use std::ffi::{CString, OsStr};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The files that this process has locked. The lock belongs to the open file, so the operating
/// system gives it up when the process ends, however that happens.
static LOCKED: Mutex<Vec<(PathBuf, File)>> = Mutex::new(Vec::new());

/// Bytes of the text in a lock that another process holds.
const HOLDER_BYTES_MAX: u64 = 64;

pub(crate) fn path<'a>(bytes: &'a Binary<'_>) -> &'a Path {
    Path::new(OsStr::from_bytes(bytes.as_slice()))
}

enum NotLocked {
    /// Another process holds it, and wrote this into it.
    By(Vec<u8>),
    Failed(std::io::Error),
}

impl From<std::io::Error> for NotLocked {
    fn from(error: std::io::Error) -> NotLocked {
        NotLocked::Failed(error)
    }
}

/// In a directory without the file `node` it may be somebody else's, so nothing is written to it
/// unless it looks like a lock. In our own it may look like anything, after a power failure.
fn lock(path: &Path, holder: &[u8]) -> Result<(), NotLocked> {
    let mut locked = LOCKED.lock();
    if locked.iter().any(|(other, _)| other == path) {
        return Ok(());
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).custom_flags(libc::O_NOFOLLOW);
    let mut file = options.open(path)?;
    let mut present = Vec::new();
    (&file).take(HOLDER_BYTES_MAX).read_to_end(&mut present)?;
    let is_ours = path.with_file_name("node").exists();
    if !is_ours && !present.trim_ascii().iter().all(u8::is_ascii_digit) {
        let sentence = "the file `lock` is not a lock of Todana: it has other contents";
        return Err(std::io::Error::other(sentence).into());
    }
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(NotLocked::By(present)),
        Err(TryLockError::Error(error)) => return Err(error.into()),
    }
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(holder)?;
    locked.push((path.to_owned(), file));
    Ok(())
}

/// `lock_file(Path, Holder) -> ok | {locked, OtherHolder} | {error, Sentence}`: locks a file for
/// this operating system process, and creates it if it is missing. Does nothing if this process
/// holds the lock.
#[rustler::nif(schedule = "DirtyIo")]
fn lock_file<'a>(env: Env<'a>, file: Binary<'a>, holder: Binary<'a>) -> Term<'a> {
    match lock(path(&file), holder.as_slice()) {
        Ok(()) => atoms::ok().encode(env),
        Err(NotLocked::By(other)) => {
            (atoms::locked(), String::from_utf8_lossy(&other).trim()).encode(env)
        }
        Err(NotLocked::Failed(error)) => (atoms::error(), error.to_string()).encode(env),
    }
}

/// `unlock_file(Path) -> ok`.
#[rustler::nif(schedule = "DirtyIo")]
fn unlock_file<'a>(env: Env<'a>, file: Binary<'a>) -> Term<'a> {
    LOCKED.lock().retain(|(other, _)| other != path(&file));
    atoms::ok().encode(env)
}

/// `disk_free(Path) -> {ok, Bytes} | {error, Sentence}`: the bytes that this process may still
/// write to the file system of a directory.
#[rustler::nif(schedule = "DirtyIo")]
fn disk_free<'a>(env: Env<'a>, directory: Binary<'a>) -> Term<'a> {
    match free_bytes(directory.as_slice()) {
        Ok(bytes) => (atoms::ok(), bytes).encode(env),
        Err(error) => (atoms::error(), error.to_string()).encode(env),
    }
}

fn free_bytes(directory: &[u8]) -> std::io::Result<u64> {
    let directory = CString::new(directory)?;
    let mut figures = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: a C string, and room for the result.
    if unsafe { libc::statvfs(directory.as_ptr(), figures.as_mut_ptr()) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so it has filled the structure in.
    let figures = unsafe { figures.assume_init() };
    #[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
    let (blocks, block_bytes) = (figures.f_bavail as u64, figures.f_frsize as u64);
    Ok(blocks.saturating_mul(block_bytes))
}

/// `extend_file(Path, Bytes) -> ok | {error, Sentence}`: synchronizes a file, and makes it this
/// long, with zeros, unless it is longer or nearly so. Nothing of it changes, also if somebody
/// writes to it meanwhile. An error on file systems that are not known to promise that.
#[rustler::nif(schedule = "DirtyIo")]
fn extend_file<'a>(env: Env<'a>, file: Binary<'a>, bytes: u64) -> Term<'a> {
    match extend(path(&file), bytes) {
        Ok(()) => atoms::ok().encode(env),
        Err(error) => (atoms::error(), error.to_string()).encode(env),
    }
}

/// A file is not extended by less.
#[cfg(target_os = "linux")]
const EXTENSION_BYTES_MIN: u64 = 1 << 20;

/// File systems that compare the length of a file and change it under one lock: ext2 to ext4, XFS,
/// Btrfs, F2FS, tmpfs. One that does not, such as OpenZFS, could cut what was written in between.
#[cfg(target_os = "linux")]
const EXTENDING: [u32; 5] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994];

/// `file:allocate/3` would not do: where the file system has no `fallocate`, it may write bytes
/// where somebody else just did.
#[cfg(target_os = "linux")]
fn extend(path: &Path, bytes: u64) -> std::io::Result<()> {
    use std::os::fd::AsRawFd;

    let file = OpenOptions::new().write(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
    let mut figures = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the descriptor is open, and there is room for the result.
    if unsafe { libc::fstatfs(file.as_raw_fd(), figures.as_mut_ptr()) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so it has filled the structure in.
    let kind = unsafe { figures.assume_init() }.f_type;
    #[allow(clippy::cast_possible_truncation, reason = "the numbers have 32 bits")]
    if !EXTENDING.contains(&(kind as u32)) {
        return Err(std::io::ErrorKind::Unsupported.into());
    }
    file.sync_data()?;
    let present = file.metadata()?.len();
    let missing = bytes.saturating_sub(present);
    if missing < EXTENSION_BYTES_MIN {
        return Ok(());
    }
    let from = libc::off_t::try_from(present).map_err(std::io::Error::other)?;
    let length = libc::off_t::try_from(missing).map_err(std::io::Error::other)?;
    // SAFETY: the descriptor is open, and no memory is involved.
    match unsafe { libc::fallocate(file.as_raw_fd(), 0, from, length) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

#[cfg(not(target_os = "linux"))]
fn extend(_path: &Path, _bytes: u64) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}
