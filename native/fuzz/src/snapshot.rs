//! Snapshots of a durable group.
//!
//! The bytes are read as they are, and once more with all checksums corrected, so that damage
//! reaches what is behind them. A file that is whole must be the same after it was loaded and
//! written again.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use todana_group::SnapshotFile;

use crate::entry::group;

/// Reads the bytes as a snapshot.
pub fn snapshot(data: &[u8]) {
    let folder = Some(Path::new("/dev/shm")).filter(|folder| folder.is_dir());
    let folder = folder.map_or_else(std::env::temp_dir, Path::to_owned);
    let path = folder.join(format!("todana-fuzz-{}.tds", std::process::id()));
    read(&path, data);
    let mut corrected = data.to_vec();
    correct(&mut corrected);
    read(&path, &corrected);
    let _ = fs::remove_file(path);
}

fn read(path: &PathBuf, bytes: &[u8]) {
    fs::write(path, bytes).expect("a file");
    let group_of_file = group(1);
    let restored = group_of_file.restore(path, 1);
    let verified = SnapshotFile::verify(path);
    if let Err(error) = &verified {
        assert!(error.offset <= bytes.len() as u64, "{error}");
        assert!(restored.is_err(), "{error}");
    }
    if restored.is_ok() {
        write(path, &group_of_file);
        let again = group(2);
        again.restore(path, 2).expect("it was written just now");
        assert!(again.digest().is_some_and(|digest| group_of_file.digest() == Some(digest)));
    }
}

fn write(path: &PathBuf, group: &std::sync::Arc<todana_group::Group>) {
    let index = group.figures().applied_index;
    let mut source = group.begin_snapshot(index).expect("no entry is being applied");
    let mut file = File::create(path).expect("a file");
    while !source.write_slice(&mut file, 1).expect("room") {}
}

/// Makes the checksums right, as far as the bytes have the shape of a snapshot.
fn correct(bytes: &mut [u8]) -> Option<()> {
    let end = bytes.len();
    let length = u32_at(bytes, 12)? as usize;
    put_checksum(bytes, 0..16 + length, 16 + length)?;
    let footer = end.checked_sub(40)?;
    let index = u64_at(bytes, footer + 16)? as usize;
    let mut at = index;
    while at.checked_add(25)? <= footer {
        let (block, length) = (u64_at(bytes, at)? as usize, u32_at(bytes, at + 16)? as usize);
        let content = block.checked_add(28)?..block.checked_add(28 + length)?;
        if bytes.get(content.clone()).is_some() {
            let header = crc32c::crc32c(&bytes[block..block + 24]);
            let checksum = crc32c::crc32c_append(header, &bytes[content]);
            bytes[block + 24..block + 28].copy_from_slice(&checksum.to_le_bytes());
        }
        at += 25;
    }
    put_checksum(bytes, index..footer, footer + 24)?;
    put_checksum(bytes, footer..footer + 28, footer + 28)
}

fn put_checksum(bytes: &mut [u8], of: std::ops::Range<usize>, at: usize) -> Option<()> {
    let checksum = crc32c::crc32c(bytes.get(of)?);
    bytes.get_mut(at..at.checked_add(4)?)?.copy_from_slice(&checksum.to_le_bytes());
    Some(())
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let number = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(number.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let number = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(number.try_into().ok()?))
}
