//! Why a snapshot could not be written or read.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a snapshot could not be read. Says which file, and where.
#[derive(Debug)]
pub struct SnapshotError {
    /// The file.
    pub path: PathBuf,
    /// Offset in the file.
    pub offset: u64,
    /// The cause.
    pub damage: Damage,
}

/// The cause of an error.
#[derive(Debug)]
pub enum Damage {
    /// The file could not be opened or read. It may be whole.
    Io(io::Error),
    /// The file is not a snapshot.
    NotASnapshot,
    /// A newer version has written it, in this format.
    Newer(u32),
    /// The file was not written to its end.
    Unfinished,
    /// A checksum is wrong.
    Checksum(&'static str),
    /// The snapshot is one of another group: it has another seed.
    OtherGroup,
    /// The checksum is right, but the bytes make no sense.
    Meaningless(&'static str),
}

impl SnapshotError {
    pub(crate) fn new(path: &Path, offset: u64, damage: Damage) -> SnapshotError {
        SnapshotError { path: path.to_owned(), offset, damage }
    }

    /// Whether the file itself is to blame. Otherwise the same file may be readable later.
    pub fn is_damage(&self) -> bool {
        !matches!(self.damage, Damage::Io(_) | Damage::Newer(_) | Damage::OtherGroup)
    }
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SnapshotError { path, offset, damage } = self;
        let path = path.display();
        match damage {
            Damage::Io(error) => write!(f, "cannot read {path} at offset {offset}: {error}"),
            Damage::NotASnapshot => write!(f, "{path} is not a snapshot of Todana"),
            Damage::Newer(format) => {
                write!(f, "{path} has format {format}: a newer version of Todana has written it")
            }
            Damage::Unfinished => {
                write!(f, "{path} is incomplete: it ends at offset {offset} without a footer")
            }
            Damage::OtherGroup => write!(f, "{path} belongs to another data directory"),
            Damage::Checksum(what) => {
                write!(f, "{path} is damaged at offset {offset}: wrong checksum of {what}")
            }
            Damage::Meaningless(what) => {
                write!(f, "{path} is damaged at offset {offset}: {what}")
            }
        }
    }
}

impl std::error::Error for SnapshotError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.damage {
            Damage::Io(error) => Some(error),
            _ => None,
        }
    }
}
