//! The header of a snapshot.

use todana_command::DATABASES;
use todana_table::{Removed, TableState};

use super::{CONTENT_BYTES_MAX, HEAD_BYTES, MAGIC, STAMPED, UNSTAMPED};
use crate::apply::LogTime;
use crate::clock::Stamp;
use crate::home::Home;
use crate::origins::{Origin, Origins};
use crate::record::{TABLE_SHARDS_MAX, order_byte, order_of};
use crate::wire::{Input, put_bytes, put_varint};

/// What the header of a snapshot says, and how much the file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// The index of the last entry of the log that is part of it.
    pub index: u64,
    /// The time of the log, in milliseconds since the Unix epoch.
    pub log_time_ms: u64,
    /// The group's seed.
    pub seed: u64,
    /// Records in all tables.
    pub records: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// The tables, those of databases first.
    pub tables: Vec<SnapshotTable>,
}

/// A table of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotTable {
    /// Names the table in the file.
    pub home: Home,
    /// The number of the database whose table it is; `None` for a named table.
    pub database: Option<usize>,
    /// The name of a named table.
    pub name: Vec<u8>,
    /// The opaque part of the options with which a named table was created.
    pub opaque: Vec<u8>,
    /// What the table has beside its records.
    pub state: TableState,
}

/// What a snapshot has beside records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) index: u64,
    pub(crate) time: LogTime,
    pub(crate) seed: u64,
    /// The index of each database's table.
    pub(crate) order: [usize; DATABASES],
    pub(crate) next_id: u64,
    pub(crate) origins: Origins,
    pub(crate) tables: Vec<SnapshotTable>,
}

impl Content {
    /// The whole header.
    pub(super) fn header(&self) -> Vec<u8> {
        let format = if self.time.is_stamped { STAMPED } else { UNSTAMPED };
        let mut out = [MAGIC.as_slice(), &format.to_le_bytes(), &[0; 4]].concat();
        let order = self.order.iter().rev().fold(0, |word, index| word << 4 | *index as u64);
        let era = self.time.is_stamped.then_some(self.time.now.era);
        let numbers = [self.index, self.time.now.ms, self.seed, order, self.next_id];
        for number in numbers.into_iter().chain(era) {
            out.extend_from_slice(&number.to_le_bytes());
        }
        put_varint(&mut out, self.origins.iter().len() as u64);
        for (number, Origin { floor, window, last_ms }) in self.origins.iter() {
            for number in [number, floor, window, last_ms] {
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
        put_varint(&mut out, self.tables.len() as u64);
        for table in &self.tables {
            out.extend_from_slice(&table.home.number().to_le_bytes());
            put_bytes(&mut out, &table.name);
            put_bytes(&mut out, &table.opaque);
            let TableState { seed, shards, order, version, clear_at_ms, removed } = &table.state;
            out.extend_from_slice(&seed.to_le_bytes());
            put_varint(&mut out, *shards as u64);
            out.push(order_byte(*order));
            put_varint(&mut out, *version);
            out.extend_from_slice(&clear_at_ms.to_le_bytes());
            put_bytes(&mut out, &removed.to_bytes());
        }
        let length = out.len() - HEAD_BYTES;
        assert!(length <= CONTENT_BYTES_MAX, "the header of a snapshot has {length} bytes");
        out[12..16].copy_from_slice(&(length as u32).to_le_bytes());
        let checksum = crc32c::crc32c(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        out
    }

    /// The content of a header of this format.
    pub(super) fn take(format: u32, bytes: &[u8]) -> Option<Content> {
        let mut input = Input::new(bytes);
        let (index, ms, seed) = (input.u64()?, input.u64()?, input.u64()?);
        let word = input.u64()?;
        let order = std::array::from_fn(|number| (word >> (4 * number)) as usize & 0xf);
        if (0..DATABASES).any(|index| !order.contains(&index)) {
            return None;
        }
        let next_id = input.u64()?;
        let is_stamped = format == STAMPED;
        let era = if is_stamped { input.u64()? } else { 0 };
        let time = LogTime { now: Stamp { era, ms }, is_stamped };
        let mut origins = Vec::new();
        for _ in 0..input.length()? {
            let (number, floor) = (input.u64()?, input.u64()?);
            origins.push((number, Origin { floor, window: input.u64()?, last_ms: input.u64()? }));
        }
        let mut tables: Vec<SnapshotTable> = Vec::new();
        for _ in 0..input.length()? {
            let home = Home::of(input.u64()?);
            // Ascending, so that none is there twice.
            if tables.last().is_some_and(|last| last.home >= home) {
                return None;
            }
            let (name, opaque) = (input.bytes()?.to_vec(), input.bytes()?.to_vec());
            let state = TableState {
                seed: input.u64()?,
                shards: Some(input.length()?).filter(|it| *it <= TABLE_SHARDS_MAX)?,
                order: order_of(input.byte()?)?,
                version: input.varint()?,
                clear_at_ms: input.u64()?,
                removed: Removed::from_bytes(input.bytes()?)?,
            };
            let database = order.iter().position(|index| Home::Database(*index) == home);
            tables.push(SnapshotTable { home, database, name, opaque, state });
        }
        let origins = origins.into_iter().collect();
        let content = Content { index, time, seed, order, next_id, origins, tables };
        input.rest().is_empty().then_some(content)
    }
}
