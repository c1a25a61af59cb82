//! Slices of commands on whole databases.

use crate::database::page::{Collection, EARLY_ENDS_MAX, Page, Progress, WALK_BYTES_MAX};
use crate::slice::{Slice, Stage};
use crate::target::Target;
use crate::{Error, Reply};
use todana_table::{NotOrdered, Walk, Walked};

/// Records that a slice visits, in addition to the rest of a shard: a millisecond or two.
pub(crate) const SLICE_RECORDS: usize = 2_048;
/// Steps of comparing and copying keys in a slice: about a millisecond.
pub(crate) const SLICE_STEPS: usize = 1 << 20;

/// How the records that a command has collected are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Collected {
    /// As a page, with the cursor of the next one.
    Page,
    /// As a list, which is complete.
    Keys,
}

impl<T: Target, R: Reply> Slice<'_, T, R> {
    /// KEYS, SCAN, CLUSTER GETKEYSINSLOT. Visits the table that the database was at the beginning.
    pub(super) fn collect(
        self,
        begin: impl FnOnce() -> Collection,
        written: Collected,
        stage: Option<Stage>,
    ) -> Option<Stage> {
        let (table, mut collection) = match stage {
            Some(Stage::Collecting(table, collection)) => (table, collection),
            _ => (self.table.clone(), begin()),
        };
        if !collection.collect(&*table, SLICE_RECORDS, SLICE_STEPS, self.context.now_ms) {
            return Some(Stage::Collecting(table, collection));
        }
        let (cursor, page) = collection.end();
        match written {
            Collected::Page => self.reply.page(cursor, page.len()),
            Collected::Keys if page.is_full() => {
                self.reply.error(Error::ReplyTooLarge);
                return None;
            }
            Collected::Keys => self.reply.list(page.len()),
        }
        self.write(page, Progress::default())
    }

    /// RANGE, PREFIX.
    pub(super) fn walk(self, walk: &Walk<'_>, values: bool, stage: Option<Stage>) -> Option<Stage> {
        match stage {
            Some(Stage::Walking(page, after)) => {
                self.walk_on(&Walk { after: Some(&after), ..*walk }, page)
            }
            _ => self.walk_on(walk, Page::new(values, WALK_BYTES_MAX)),
        }
    }

    fn walk_on(self, walk: &Walk<'_>, mut page: Page) -> Option<Stage> {
        let slice = Walk { count: walk.count.min(page.len() + SLICE_RECORDS), ..*walk };
        let walked = page.walk(&self.target, &slice, EARLY_ENDS_MAX, self.context.now_ms);
        let after = match walked {
            Err(NotOrdered) => {
                self.reply.error(Error::NotOrdered);
                return None;
            }
            Ok(Walked::End) => None,
            // An empty reply would mean the end.
            Ok(Walked::Until(key)) if page.len() == 0 => return Some(Stage::Walking(page, key)),
            Ok(Walked::Until(key)) if page.len() == slice.count && slice.count < walk.count => {
                return Some(Stage::Walking(page, key));
            }
            Ok(Walked::Until(key)) => Some(key),
        };
        self.reply.slice(after.as_deref(), page.len());
        self.write(page, Progress::default())
    }
}
