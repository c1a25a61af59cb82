//! Reads and verifies snapshots.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use todana_table::Stored;

use super::block::{Block, Head, SnapshotRecord, block_header, take_head, take_record};
use super::{
    BLOCK_BYTES, BLOCK_HEADER_BYTES, CONTENT_BYTES_MAX, Content, Damage, END_MAGIC, FOOTER_BYTES,
    HEAD_BYTES, INDEX_ENTRY_BYTES, LARGE, MAGIC, PIECE, RECORDS, STAMPED, SnapshotError,
    SnapshotInfo, SnapshotTable, UNSTAMPED,
};
use crate::home::Home;
use crate::wire::Input;

/// A snapshot that is whole as far as its header, its index and its footer say. The blocks are
/// verified when they are read.
#[derive(Debug)]
pub struct SnapshotFile {
    path: PathBuf,
    file: File,
    content: Content,
    blocks: Vec<Block>,
    records: u64,
    bytes: u64,
}

/// What one or several blocks hold: a unit that can be read without the others.
pub(crate) enum Unit<'a> {
    /// Records.
    Records(Records<'a>),
    /// A record whose value is in pieces.
    Large(Large<'a>),
}

/// The records of a block, which is verified.
pub(crate) struct Records<'a> {
    file: &'a SnapshotFile,
    block: Block,
    input: Input<'a>,
    left: u32,
}

/// A record whose value is in the next blocks.
pub(crate) struct Large<'a> {
    pub(crate) head: Head<'a>,
    file: &'a SnapshotFile,
    pieces: Range<usize>,
}

impl SnapshotFile {
    /// Opens a snapshot and verifies all but its records.
    pub fn open(path: &Path) -> Result<SnapshotFile, SnapshotError> {
        let fail = |offset, damage| SnapshotError::new(path, offset, damage);
        let io = |error| fail(0, Damage::Io(error));
        let file = File::open(path).map_err(io)?;
        let bytes = file.metadata().map_err(io)?.len();
        let read = |offset: u64, length: usize| read_at(path, &file, offset, length);

        let head = read(0, HEAD_BYTES.min(usize::try_from(bytes).unwrap_or(usize::MAX)))?;
        let mut input = Input::new(&head);
        if input.array() != Some(MAGIC) {
            return Err(fail(0, Damage::NotASnapshot));
        }
        let unfinished = || fail(bytes, Damage::Unfinished);
        let format = input.u32().ok_or_else(unfinished)?;
        if !(UNSTAMPED..=STAMPED).contains(&format) {
            return Err(fail(8, Damage::Newer(format)));
        }
        let length = input.u32().ok_or_else(unfinished)? as usize;
        let blocks_from = (HEAD_BYTES + length + 4) as u64;
        if bytes < blocks_from + FOOTER_BYTES as u64 || length > CONTENT_BYTES_MAX {
            return Err(unfinished());
        }
        let header = read(0, HEAD_BYTES + length + 4)?;
        let (header, checksum) = header.split_at(HEAD_BYTES + length);
        if checksum != crc32c::crc32c(header).to_le_bytes() {
            return Err(fail(0, Damage::Checksum("the header")));
        }
        let meaningless = |offset, what| fail(offset, Damage::Meaningless(what));
        let content = Content::take(format, &header[HEAD_BYTES..])
            .ok_or_else(|| meaningless(0, "its header makes no sense"))?;

        let footer_at = bytes - FOOTER_BYTES as u64;
        let footer = read(footer_at, FOOTER_BYTES)?;
        let (numbers, end) = footer.split_at(FOOTER_BYTES - 12);
        let (checksum, end) = end.split_at(4);
        if end != END_MAGIC {
            return Err(unfinished());
        }
        if checksum != crc32c::crc32c(numbers).to_le_bytes() {
            return Err(fail(footer_at, Damage::Checksum("the footer")));
        }
        let mut input = Input::new(numbers);
        let mut number = || input.u64().unwrap_or_default();
        let (blocks, records, index_at) = (number(), number(), number());
        let index_checksum = input.u32();
        let index_bytes = blocks.checked_mul(INDEX_ENTRY_BYTES as u64);
        if index_at < blocks_from
            || index_bytes.and_then(|it| it.checked_add(index_at)) != Some(footer_at)
        {
            return Err(meaningless(footer_at, "its footer does not fit the file"));
        }
        let index = read(index_at, (footer_at - index_at) as usize)?;
        if index_checksum != Some(crc32c::crc32c(&index)) {
            return Err(fail(index_at, Damage::Checksum("the index")));
        }
        let mut input = Input::new(&index);
        let blocks: Vec<Block> = std::iter::from_fn(|| Block::take(&mut input)).collect();
        if !are_blocks(&blocks, blocks_from..index_at, records, &content) {
            return Err(meaningless(index_at, "its index does not fit the file"));
        }
        Ok(SnapshotFile { path: path.to_owned(), file, content, blocks, records, bytes })
    }

    /// What the file says of itself, if all but its records is whole.
    pub fn verify_header(path: &Path) -> Result<SnapshotInfo, SnapshotError> {
        Ok(SnapshotFile::open(path)?.info())
    }

    /// What the file says of itself, if every byte of it is whole.
    pub fn verify(path: &Path) -> Result<SnapshotInfo, SnapshotError> {
        let file = SnapshotFile::open(path)?;
        file.each(|_, _| {})?;
        Ok(file.info())
    }

    /// What the file says of itself.
    pub fn info(&self) -> SnapshotInfo {
        SnapshotInfo {
            index: self.content.index,
            log_time_ms: self.content.time.now.ms,
            seed: self.content.seed,
            records: self.records,
            bytes: self.bytes,
            tables: self.content.tables.clone(),
        }
    }

    /// Calls `visit` with each record and its table, table by table.
    pub fn each(
        &self,
        mut visit: impl FnMut(&SnapshotTable, &SnapshotRecord<'_>),
    ) -> Result<(), SnapshotError> {
        let mut buffer = Vec::new();
        for number in self.units() {
            match self.unit(number, &mut buffer)? {
                Unit::Records(mut records) => {
                    let table = self.table(self.unit_home(number));
                    while let Some(record) = records.next()? {
                        table.into_iter().for_each(|table| visit(table, &record));
                    }
                }
                Unit::Large(large) => {
                    let mut value = Vec::with_capacity(large.head.value_len);
                    large.each_piece(|piece| value.extend_from_slice(piece))?;
                    let Head { key, meta, version, .. } = large.head;
                    let record =
                        SnapshotRecord { key, value: Stored::string(&value), meta, version };
                    self.table(self.unit_home(number))
                        .into_iter()
                        .for_each(|table| visit(table, &record));
                }
            }
        }
        Ok(())
    }

    pub(crate) fn content(&self) -> &Content {
        &self.content
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The units: numbers of their first blocks.
    pub(crate) fn units(&self) -> impl Iterator<Item = usize> {
        (0..self.blocks.len()).filter(|&number| self.blocks[number].kind != PIECE)
    }

    /// The unit that begins with this block.
    pub(crate) fn unit<'a>(
        &'a self,
        number: usize,
        buffer: &'a mut Vec<u8>,
    ) -> Result<Unit<'a>, SnapshotError> {
        let block = self.blocks[number];
        let mut input = Input::new(self.read_block(number, buffer)?);
        if block.kind == RECORDS {
            return Ok(Unit::Records(Records { file: self, block, input, left: block.records }));
        }
        let pieces = self.blocks[number + 1..].iter().take_while(|it| it.kind == PIECE);
        let (count, bytes) =
            pieces.fold((0, 0_u64), |(n, bytes), it| (n + 1, bytes + u64::from(it.length)));
        let head = take_head(&mut input)
            .filter(|head| input.rest().is_empty() && head.value_len as u64 == bytes)
            // A block is short.
            .filter(|head| !head.is_collection);
        let head = head.ok_or_else(|| self.no_record(block))?;
        Ok(Unit::Large(Large { head, file: self, pieces: number + 1..number + 1 + count }))
    }

    /// The home of a unit's records.
    pub(crate) fn unit_home(&self, number: usize) -> Home {
        self.blocks[number].home
    }

    /// Bytes of the file that a unit takes.
    pub(crate) fn unit_bytes(&self, number: usize) -> u64 {
        let pieces = self.blocks[number + 1..].iter().take_while(|it| it.kind == PIECE);
        pieces.last().unwrap_or(&self.blocks[number]).end() - self.blocks[number].offset
    }

    /// The error for a record in this unit that the table cannot have.
    pub(crate) fn unloadable(&self, number: usize) -> SnapshotError {
        let what = "a record that its table cannot have";
        SnapshotError::new(&self.path, self.blocks[number].offset, Damage::Meaningless(what))
    }

    fn no_record(&self, block: Block) -> SnapshotError {
        let what = "a block that is not made of records";
        SnapshotError::new(&self.path, block.offset, Damage::Meaningless(what))
    }

    /// The content of a block, verified.
    fn read_block<'a>(
        &self,
        number: usize,
        buffer: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], SnapshotError> {
        let block = self.blocks[number];
        let length = BLOCK_HEADER_BYTES + block.length as usize;
        buffer.resize(length, 0);
        let error = |damage| SnapshotError::new(&self.path, block.offset, damage);
        self.file.read_exact_at(buffer, block.offset).map_err(|it| error(Damage::Io(it)))?;
        let (header, content) = buffer.split_at(BLOCK_HEADER_BYTES);
        if *header != block_header(block.kind, number as u64, block.home, content) {
            return Err(error(Damage::Checksum("a block")));
        }
        Ok(content)
    }

    fn table(&self, home: Home) -> Option<&SnapshotTable> {
        let tables = &self.content.tables;
        tables.get(tables.binary_search_by_key(&home, |table| table.home).ok()?)
    }
}

impl<'a> Records<'a> {
    /// The next record.
    pub(crate) fn next(&mut self) -> Result<Option<SnapshotRecord<'a>>, SnapshotError> {
        if self.left == 0 {
            return match self.input.rest().is_empty() {
                true => Ok(None),
                false => Err(self.file.no_record(self.block)),
            };
        }
        self.left -= 1;
        let record = take_record(&mut self.input);
        record.map(Some).ok_or_else(|| self.file.no_record(self.block))
    }
}

impl Large<'_> {
    /// Calls `visit` with the pieces of the value, whose lengths add up to `head.value_len`.
    pub(crate) fn each_piece(&self, mut visit: impl FnMut(&[u8])) -> Result<(), SnapshotError> {
        let mut buffer = Vec::new();
        for number in self.pieces.clone() {
            visit(self.file.read_block(number, &mut buffer)?);
        }
        Ok(())
    }
}

/// Whether these blocks fill this part of the file, with this number of records.
fn are_blocks(blocks: &[Block], place: Range<u64>, records: u64, content: &Content) -> bool {
    let mut at = place.start;
    let mut before: Option<&Block> = None;
    let mut sum = 0;
    let all = blocks.iter().all(|block| {
        let follows = |before: &Block| before.kind != RECORDS && before.home == block.home;
        let fits = match block.kind {
            RECORDS => true,
            LARGE => block.records == 1,
            PIECE => block.records == 0 && before.is_some_and(follows),
            _ => false,
        };
        let is_known = content.tables.binary_search_by_key(&block.home, |table| table.home).is_ok();
        let is_here = block.offset == at && block.length as usize <= BLOCK_BYTES;
        // The sum cannot overflow: each block has at most 2^32 records.
        (at, before, sum) = (block.end(), Some(block), sum + u64::from(block.records));
        fits && is_known && is_here
    });
    all && at == place.end && sum == records
}

fn read_at(path: &Path, file: &File, offset: u64, length: usize) -> Result<Vec<u8>, SnapshotError> {
    let mut bytes = vec![0; length];
    let read: io::Result<()> = file.read_exact_at(&mut bytes, offset);
    read.map_err(|error| SnapshotError::new(path, offset, Damage::Io(error)))?;
    Ok(bytes)
}
