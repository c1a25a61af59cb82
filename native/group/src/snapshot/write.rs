//! Writes a snapshot, a slice at a time.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};

use todana_table::{Entry, Shared, Snapshot};

use crate::home::Home;

use super::block::{Block, Head, block_header, put_head};
use super::{
    BLOCK_BYTES, BLOCK_HEADER_BYTES, Content, END_MAGIC, INLINE_VALUE_BYTES, LARGE, PIECE, RECORDS,
};

/// After this many bytes they are forced to the disk, so that the log's own synchronisation never
/// waits for many bytes of a snapshot.
const SYNC_BYTES: u64 = 4 << 20;

/// Entries visited at a time.
const ENTRIES: usize = 64;

/// A snapshot that is being written. It can be sent to another thread. While it lives, the tables
/// keep what the log changes and the file does not have yet.
pub struct SnapshotSource {
    content: Content,
    /// The tables that are left, the next one last.
    tables: Vec<SourceTable>,
    /// Records of the present table that are not in the file.
    block: Vec<u8>,
    block_records: u32,
    /// The large records that are not in the file, the next one last, and how many bytes of the
    /// value of that one are.
    large: Vec<Shared>,
    large_at: Option<usize>,
    blocks: Vec<Block>,
    records: u64,
    /// Bytes in the file.
    written: u64,
    synced: u64,
    stage: Stage,
    /// Learns how the snapshot ended.
    end: Option<Box<dyn FnOnce(bool) + Send>>,
}

/// A table and its point in time.
pub(crate) struct SourceTable {
    pub(crate) home: Home,
    pub(crate) snapshot: Snapshot<'static>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Header,
    Tables,
    Done,
}

impl SnapshotSource {
    /// `tables` in the order of their homes. `end` is called once: with true when the file is
    /// complete, with false if the snapshot is dropped before.
    pub(crate) fn new(
        content: Content,
        mut tables: Vec<SourceTable>,
        end: Box<dyn FnOnce(bool) + Send>,
    ) -> SnapshotSource {
        tables.reverse();
        SnapshotSource {
            content,
            tables,
            block: Vec::new(),
            block_records: 0,
            large: Vec::new(),
            large_at: None,
            blocks: Vec::new(),
            records: 0,
            written: 0,
            synced: 0,
            stage: Stage::Header,
            end: Some(end),
        }
    }

    /// The index of the last entry of the log that is part of it.
    pub fn index(&self) -> u64 {
        self.content.index
    }

    /// Bytes in the file so far.
    pub fn bytes_written(&self) -> u64 {
        self.written
    }

    /// Writes about `bytes` more to the file, which must be empty before the first call and which
    /// nothing else writes to. True when the file is complete and on the disk. After an error the
    /// snapshot is of no use.
    pub fn write_slice(&mut self, file: &mut File, bytes: usize) -> io::Result<bool> {
        let until = self.written + bytes as u64;
        while self.stage != Stage::Done && self.written < until {
            self.step(file)?;
            if self.written - self.synced >= SYNC_BYTES {
                file.sync_data()?;
                self.synced = self.written;
            }
        }
        if self.stage != Stage::Done {
            return Ok(false);
        }
        if let Some(end) = self.end.take() {
            file.sync_all()?;
            end(true);
        }
        Ok(true)
    }

    fn step(&mut self, file: &mut File) -> io::Result<()> {
        match self.stage {
            Stage::Header => {
                let header = self.content.header();
                self.write(file, &header)?;
                self.stage = Stage::Tables;
                Ok(())
            }
            Stage::Tables if !self.large.is_empty() => self.large_step(file),
            Stage::Tables if self.block.len() >= BLOCK_BYTES - INLINE_VALUE_BYTES => {
                self.end_block(file)
            }
            Stage::Tables => self.visit(file),
            Stage::Done => Ok(()),
        }
    }

    /// Reads some entries of the present table.
    fn visit(&mut self, file: &mut File) -> io::Result<()> {
        let Some(table) = self.tables.last_mut() else { return self.finish(file) };
        let (block, large, count) = (&mut self.block, &mut self.large, &mut self.block_records);
        // Blocks that were closed while entries were visited.
        let mut full: Vec<(Vec<u8>, u32)> = Vec::new();
        let visited = table.snapshot.next_part(ENTRIES, |entry| {
            let (key, value) = (entry.key(), entry.stored().bytes());
            let head = head_of(&entry);
            if value.len() > INLINE_VALUE_BYTES
                && let Some(shared) = entry.share()
            {
                return large.push(shared);
            }
            if block.len() + key.len() + value.len() > BLOCK_BYTES - 64 {
                full.push((std::mem::take(block), std::mem::take(count)));
            }
            put_head(block, &head);
            block.extend_from_slice(value);
            *count += 1;
        });
        let more = visited.map_err(io::Error::other)?;
        let home = table.home;
        for (content, records) in full {
            self.put_block(file, RECORDS, home, records, &content)?;
        }
        if !more {
            self.end_block(file)?;
            self.tables.pop();
        }
        Ok(())
    }

    /// Writes the records that were visited.
    fn end_block(&mut self, file: &mut File) -> io::Result<()> {
        let Some(home) = self.tables.last().map(|table| table.home) else { return Ok(()) };
        let (content, records) = (std::mem::take(&mut self.block), self.block_records);
        self.block_records = 0;
        if records > 0 {
            self.put_block(file, RECORDS, home, records, &content)?;
        }
        self.block = content;
        self.block.clear();
        Ok(())
    }

    /// Writes the head of a large record, or a piece of its value.
    fn large_step(&mut self, file: &mut File) -> io::Result<()> {
        let Some(home) = self.tables.last().map(|table| table.home) else { return Ok(()) };
        let Some(shared) = self.large.last().cloned() else { return Ok(()) };
        let entry = shared.entry();
        let value = entry.stored().bytes();
        let Some(at) = self.large_at else {
            let mut content = Vec::new();
            put_head(&mut content, &head_of(&entry));
            self.put_block(file, LARGE, home, 1, &content)?;
            self.large_at = Some(0);
            return Ok(());
        };
        let piece = &value[at..value.len().min(at + BLOCK_BYTES)];
        self.put_block(file, PIECE, home, 0, piece)?;
        self.large_at = Some(at + piece.len());
        if at + piece.len() == value.len() {
            self.large_at = None;
            self.large.pop();
        }
        Ok(())
    }

    fn put_block(
        &mut self,
        file: &mut File,
        kind: u8,
        home: Home,
        records: u32,
        content: &[u8],
    ) -> io::Result<()> {
        let header: [u8; BLOCK_HEADER_BYTES] =
            block_header(kind, self.blocks.len() as u64, home, content);
        let length = content.len() as u32;
        self.blocks.push(Block { offset: self.written, home, length, records, kind });
        self.records += u64::from(records);
        self.write(file, &header)?;
        self.write(file, content)
    }

    /// Writes the index and the footer.
    fn finish(&mut self, file: &mut File) -> io::Result<()> {
        let offset = self.written;
        let mut index = Vec::new();
        self.blocks.iter().for_each(|block| block.put(&mut index));
        self.write(file, &index)?;
        let mut footer = Vec::new();
        for number in [self.blocks.len() as u64, self.records, offset] {
            footer.extend_from_slice(&number.to_le_bytes());
        }
        footer.extend_from_slice(&crc32c::crc32c(&index).to_le_bytes());
        let checksum = crc32c::crc32c(&footer);
        footer.extend_from_slice(&checksum.to_le_bytes());
        footer.extend_from_slice(&END_MAGIC);
        self.write(file, &footer)?;
        self.stage = Stage::Done;
        Ok(())
    }

    fn write(&mut self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        file.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }
}

fn head_of<'a>(entry: &Entry<'a>) -> Head<'a> {
    let stored = entry.stored();
    Head {
        key: entry.key(),
        value_len: stored.bytes().len(),
        is_collection: stored.is_collection(),
        meta: entry.meta(),
        version: entry.version(),
    }
}

impl Drop for SnapshotSource {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            end(false);
        }
    }
}

impl fmt::Debug for SnapshotSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotSource")
            .field("index", &self.content.index)
            .field("written", &self.written)
            .finish_non_exhaustive()
    }
}
