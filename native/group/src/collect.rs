//! Removes what has expired, by the log.
//!
//! Readers of a durable table hide a record that has expired; only a `Collect` in the log removes
//! it. Once a second, and after each `Collect`, the group looks which shards have expired records
//! and submits the next one. A clear that was scheduled takes effect with any entry of the log; if
//! one is due and no entry comes, a `TimeMark` is submitted.

use std::collections::HashSet;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use todana_command::FORMAT_MIN;
use todana_table::Table;

use crate::home::Home;
use crate::record::{put_collect, put_time_mark};
use crate::submission::{Deliver, Outcome, Submission, Ticket};

/// About this many records are removed by one `Collect`, which is one step: some hundred
/// microseconds.
const COLLECT_RECORDS: usize = 1_000;

/// The place in the tickets of the group's own submissions.
const OWN_PLACE: (u32, u32) = (u32::MAX - 1, 0);

/// What looks after expired records needs of the group.
pub(crate) trait Collect: Send + Sync {
    /// The durable table that is the home of records.
    fn durable_table(&self, home: Home) -> Option<Arc<Table>>;
    /// The time of the log.
    fn log_time_ms(&self) -> u64;
    /// Queues a submission.
    fn submit_own(&self, submission: Submission);
    /// The collector itself.
    fn collector(&self) -> &Collector;
}

/// Submits `Collect` and `TimeMark` records, one at a time for each table.
pub(crate) struct Collector {
    group: Weak<dyn Collect>,
    /// The `Collect` records of homes, and the time mark (`None`), that are on their way.
    on_the_way: Mutex<HashSet<Option<Home>>>,
}

/// Learns that a record of the collector was applied, or will not be.
struct Collected {
    group: Weak<dyn Collect>,
    /// Of a `Collect`.
    home: Option<Home>,
    /// Where to look next.
    from: usize,
}

impl Collector {
    pub(crate) fn new(group: Weak<dyn Collect>) -> Collector {
        Collector { group, on_the_way: Mutex::default() }
    }

    /// Looks at the shards of a table from `from` on, and submits a `Collect` if there is anything
    /// to remove.
    pub(crate) fn look(&self, group: &dyn Collect, home: Home, from: usize, now_ms: u64) {
        let Some(table) = group.durable_table(home) else { return };
        if self.on_the_way.lock().contains(&Some(home)) {
            return;
        }
        let Some(shards) = table.due_shards(now_ms, from, COLLECT_RECORDS) else { return };
        let mut records = Vec::new();
        let end = shards.end;
        put_collect(&mut records, home, shards);
        self.submit(group, Some(home), end, records);
    }

    /// Submits a time mark.
    pub(crate) fn mark(&self, group: &dyn Collect) {
        let mut records = Vec::new();
        put_time_mark(&mut records);
        self.submit(group, None, 0, records);
    }

    fn submit(&self, group: &dyn Collect, home: Option<Home>, from: usize, records: Vec<u8>) {
        if !self.on_the_way.lock().insert(home) {
            return;
        }
        let deliver = Arc::new(Collected { group: self.group.clone(), home, from });
        let ticket = Ticket { place: OWN_PLACE, number: home.map_or(u64::MAX, Home::number) };
        group.submit_own(Submission {
            records,
            count: 1,
            format: FORMAT_MIN,
            units: 0,
            ticket,
            deliver,
        });
    }
}

impl Deliver for Collected {
    fn deliver(&self, outcomes: Vec<(Ticket, Outcome)>) {
        let Some(group) = self.group.upgrade() else { return };
        let collector = group.collector();
        collector.on_the_way.lock().remove(&self.home);
        if let [(_, Outcome::Applied(_))] = outcomes[..]
            && let Some(home) = self.home
        {
            collector.look(&*group, home, self.from, group.log_time_ms());
        }
    }
}
