//! The place of a snapshot between the entry of the log after which it is taken and the last slice
//! of its file.
//!
//! The handle of a snapshot is taken while the log is applied, and waits until a worker writes it,
//! a slice per call. The log may never ask for the file: a handle that nobody asks for is dropped
//! by [`GroupSnapshot::drop_abandoned`]. Until then no other one takes its place, since the log
//! writes the first of several that are taken in a row and ignores the rest.

use crate::{Group, SnapshotSource};
use parking_lot::Mutex;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A handle that nobody writes is dropped after this time.
const UNCLAIMED_AFTER: Duration = Duration::from_secs(10);

/// The snapshot of a group; there is at most one. Locked only briefly, never while a file is
/// written or a handle is dropped, which frees what the log has changed meanwhile.
#[derive(Default)]
pub struct GroupSnapshot(Mutex<Stage>);

#[derive(Default)]
enum Stage {
    #[default]
    Empty,
    /// Taken after the entry `index` of the log, and not written yet.
    Taken { index: u64, source: Box<SnapshotSource>, at: Instant },
    /// Between two slices.
    Written { index: u64, writing: Writing, at: Instant },
    /// A thread is writing a slice.
    Busy { index: u64 },
}

/// A snapshot and its file.
struct Writing {
    source: Box<SnapshotSource>,
    file: File,
}

/// The result of writing a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotProgress {
    /// The rest is still to be written.
    More,
    /// The file is complete and on the disk. Holds its length in bytes.
    Done(u64),
    /// There is no snapshot of this entry.
    Gone,
}

impl GroupSnapshot {
    /// Takes the handle of a snapshot of what has been applied, up to the entry `index`. Called
    /// between two entries by the thread that applies the log. False if there is one already, or if
    /// none can be taken.
    pub fn begin(&self, group: &Arc<Group>, index: u64) -> bool {
        // Otherwise it will be complete, and then the next one is due.
        if !matches!(*self.0.lock(), Stage::Empty) {
            return false;
        }
        let Some(source) = group.begin_snapshot(index) else { return false };
        *self.0.lock() = Stage::Taken { index, source: Box::new(source), at: Instant::now() };
        true
    }

    /// Writes about this many bytes of the snapshot taken at an entry. The first call creates the
    /// file, and with the last one it is on the disk. After an error the handle is gone.
    pub fn write(&self, index: u64, path: &Path, bytes: usize) -> io::Result<SnapshotProgress> {
        let taken = {
            let mut stage = self.0.lock();
            let own = stage.index() == Some(index);
            own.then(|| std::mem::replace(&mut *stage, Stage::Busy { index }))
        };
        let writing = match taken {
            Some(Stage::Taken { source, .. }) => create(path).map(|file| Writing { source, file }),
            Some(Stage::Written { writing, .. }) => Ok(writing),
            _ => return Ok(SnapshotProgress::Gone),
        };
        // After a panic the handle would count as being written for ever.
        let written = catch_unwind(AssertUnwindSafe(|| {
            let mut writing = writing?;
            let complete = writing.source.write_slice(&mut writing.file, bytes)?;
            Ok((writing, complete))
        }));
        let written = written.unwrap_or_else(|_| Err(io::Error::other("a bug of Todana")));
        let (rest, result) = match written {
            Ok((writing, false)) => {
                let rest = Stage::Written { index, writing, at: Instant::now() };
                (rest, Ok(SnapshotProgress::More))
            }
            Ok((writing, true)) => {
                (Stage::Empty, Ok(SnapshotProgress::Done(writing.source.bytes_written())))
            }
            Err(error) => (Stage::Empty, Err(error)),
        };
        let mut stage = self.0.lock();
        let dropped = match *stage {
            Stage::Busy { index: own } if own == index => std::mem::replace(&mut *stage, rest),
            // A load has begun meanwhile.
            _ => rest,
        };
        drop(stage);
        drop(dropped);
        result
    }

    /// Drops the handle of the snapshot taken at an entry, if it is still there.
    pub fn end(&self, index: u64) {
        self.drop_if(|stage| stage.index() == Some(index));
    }

    /// Drops the handle if it has waited for too long.
    pub fn drop_abandoned(&self) {
        self.drop_if(|stage| match stage {
            Stage::Taken { at, .. } | Stage::Written { at, .. } => at.elapsed() > UNCLAIMED_AFTER,
            _ => false,
        });
    }

    /// Drops the handle, for a load that replaces what it shows.
    pub fn clear(&self) {
        self.drop_if(|_| true);
    }

    fn drop_if(&self, condition: impl FnOnce(&Stage) -> bool) {
        let mut stage = self.0.lock();
        let dropped = condition(&stage).then(|| std::mem::take(&mut *stage));
        drop(stage);
        drop(dropped);
    }
}

impl Stage {
    /// The entry of a snapshot that no thread is writing at the moment.
    fn index(&self) -> Option<u64> {
        match self {
            Stage::Taken { index, .. } | Stage::Written { index, .. } => Some(*index),
            _ => None,
        }
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}
