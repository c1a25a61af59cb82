//! A number by which replicas compare what they have made of the log.

use std::fmt;

use todana_table::{Abandoned, Meta, TableState, digest_of_entry};

use crate::group::Group;
use crate::origins::Origin;
use crate::snapshot::{Content, SourceTable};
use crate::wire::put_bytes;

/// A digest that is being made of the state after one entry of the log. It reads every record.
/// While it lives, the tables keep what the log changes and it has not read yet. If the log begins
/// a snapshot meanwhile, the digest is abandoned.
///
/// The digest is the same for all replicas that have applied the same entries: it is made of all
/// records with their versions, of what was removed, of the databases' order, of the origins and
/// the time of the log.
pub struct Digest {
    content: Content,
    /// Those of the first tables; the last one is not complete.
    digests: Vec<u64>,
    /// The tables that are left, the next one last.
    tables: Vec<SourceTable>,
}

impl Digest {
    /// `tables` are those of `content`.
    pub(crate) fn new(content: Content, mut tables: Vec<SourceTable>) -> Digest {
        tables.reverse();
        Digest { content, digests: vec![0], tables }
    }

    /// The index of the last entry of the log that is part of it.
    pub fn index(&self) -> u64 {
        self.content.index
    }

    /// Reads some more records, at most this number. Returns the digest if none are left.
    pub fn go_on(&mut self, records: usize) -> Result<Option<u64>, Abandoned> {
        let (Some(table), Some(digest)) = (self.tables.last_mut(), self.digests.last_mut()) else {
            return Ok(Some(self.whole()));
        };
        if !table.snapshot.digest_part(records, digest)? {
            self.digests.push(0);
            self.tables.pop();
        }
        Ok(None)
    }

    /// That of the tables' digests, and of the rest of the state.
    fn whole(&self) -> u64 {
        let mut parts = Vec::new();
        let mut put = |numbers: &[u64], texts: &[&[u8]]| {
            numbers.iter().for_each(|number| parts.extend_from_slice(&number.to_le_bytes()));
            texts.iter().for_each(|text| put_bytes(&mut parts, text));
        };
        for (it, digest) in self.content.tables.iter().zip(&self.digests) {
            let TableState { seed, shards, version, clear_at_ms, ref removed, .. } = it.state;
            let numbers = [it.home.number(), *digest, seed, shards as u64, version, clear_at_ms];
            put(&numbers, &[&it.name, &it.opaque, &removed.to_bytes()]);
        }
        put(&[self.content.time.now.ms, self.content.next_id], &[]);
        put(&self.content.order.map(|index| index as u64), &[]);
        for (number, Origin { floor, window, last_ms }) in self.content.origins.iter() {
            put(&[number, floor, window, last_ms], &[]);
        }
        digest_of_entry(&parts, &[], &Meta::default(), 0)
    }
}

impl Group {
    /// The digest of the present state, made at once. `None` if none can begin
    /// ([`Group::begin_digest`]), or if it is abandoned.
    pub fn digest(&self) -> Option<u64> {
        let mut digest = self.begin_digest()?;
        loop {
            if let Some(number) = digest.go_on(usize::MAX).ok()? {
                return Some(number);
            }
        }
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Digest")
            .field("index", &self.content.index)
            .field("tables_left", &self.tables.len())
            .finish_non_exhaustive()
    }
}
