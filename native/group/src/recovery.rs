//! The state of a group as a whole: snapshots, digests, restoration.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use todana_command::{DATABASES, Databases};
use todana_table::{Snapshot, Table};

use crate::apply::{LogTime, State};
use crate::batch::STAMPED;
use crate::digest::Digest;
use crate::group::{Group, RECOVERING};
use crate::home::Home;
use crate::load::{empty, load, reorder};
use crate::snapshot::{
    Content, Damage, SnapshotError, SnapshotFile, SnapshotInfo, SnapshotSource, SnapshotTable,
    SourceTable,
};
use crate::tables::NamedTable;

/// A durable table and its place.
struct DurableTable<'a> {
    home: Home,
    named: Option<&'a NamedTable>,
    table: &'a Table,
}

impl DurableTable<'_> {
    fn name(&self) -> &[u8] {
        self.named.map_or(&[], NamedTable::name)
    }

    fn opaque(&self) -> &[u8] {
        self.named.map_or(&[], |named| named.options().opaque)
    }
}

/// All durable tables: those of databases by their indexes, then the named ones.
fn durable_tables<'a>(
    databases: &'a Databases,
    state: &'a State,
) -> impl Iterator<Item = DurableTable<'a>> {
    let numbered = databases.tables().iter().enumerate();
    let numbered = numbered
        .map(|(index, table)| DurableTable { home: Home::Database(index), named: None, table })
        .filter(|it| it.table.is_durable());
    let named = state.tables.list().iter();
    numbered.chain(named.map(|it| DurableTable {
        home: it.home(),
        named: Some(it),
        table: it.table(),
    }))
}

impl Group {
    /// Begins a snapshot of the state after the entry `index`, the last one that was applied. To be
    /// called by the thread that applies the log. If a snapshot of one of the tables is running, it
    /// is abandoned. `None` in the middle of an entry.
    pub fn begin_snapshot(self: &Arc<Group>, index: u64) -> Option<SnapshotSource> {
        let state = self.state.lock();
        let (content, sources) = self.now(&state, index, |it| Some(it.snapshot_for_log()))?;
        let logged = self.counters.logged_bytes.load(Relaxed);
        let number = self.trigger.begin(logged);
        let group = self.clone();
        let end = move |complete| group.trigger.end(number, logged, complete);
        Some(SnapshotSource::new(content, sources, Box::new(end)))
    }

    /// Begins a digest of the state after the last entry that was applied. Any thread may call
    /// this, and the log goes on while the digest is made. `None` in the middle of an entry, and
    /// while there is a snapshot of one of the tables.
    pub fn begin_digest(&self) -> Option<Digest> {
        let state = self.state.lock();
        let (content, sources) = self.now(&state, state.applied, |it| it.snapshot_owned())?;
        Some(Digest::new(content, sources))
    }

    /// The state after the entry `index`, the last one that was applied. `None` in the middle of an
    /// entry, or if there is a table of which no snapshot can be taken.
    fn now(
        &self,
        state: &State,
        index: u64,
        take: impl Fn(&Table) -> Option<Snapshot<'static>>,
    ) -> Option<(Content, Vec<SourceTable>)> {
        if state.is_in_entry() {
            return None;
        }
        let databases = &self.options.databases;
        let (mut tables, mut sources) = (Vec::new(), Vec::new());
        for it in durable_tables(databases, state) {
            sources.push(SourceTable { home: it.home, snapshot: take(it.table)? });
            let (name, opaque, state) =
                (it.name().to_vec(), it.opaque().to_vec(), it.table.state());
            tables.push(SnapshotTable { home: it.home, database: None, name, opaque, state });
        }
        let content = Content {
            index,
            time: state.time,
            seed: self.options.seed,
            order: order(databases),
            next_id: state.tables.next_id(),
            origins: state.origins.clone(),
            tables,
        };
        Some((content, sources))
    }

    /// Closes the gate and removes everything that the log has made: the log will be applied from
    /// its beginning. Clients go on waiting for the batches in flight.
    pub fn reset(&self) {
        self.begin_load(RECOVERING);
        let mut state = self.state.lock();
        self.begin_quiet(&mut state, 0);
        state.begin_anew(&self.flights);
        let databases = &self.options.databases;
        durable_tables(databases, &state).for_each(|it| empty(it.table));
        state.tables.begin_anew();
        reorder(databases, &std::array::from_fn(|number| number));
        self.directory.publish(&state.tables);
        self.begin_anew(0, LogTime::default());
    }

    /// Closes the gate, and replaces everything that the log has made by a snapshot, with this
    /// number of threads: the log will be applied from the entry behind it.
    /// [`Group::figures`] report the progress. After an error, the tables are of no use; the error
    /// says whether the file is to blame.
    pub fn restore(&self, path: &Path, threads: usize) -> Result<SnapshotInfo, SnapshotError> {
        self.begin_load("a snapshot is being loaded");
        let file = SnapshotFile::open(path)?;
        let content = file.content();
        if content.seed != self.options.seed {
            return Err(SnapshotError::new(path, 0, Damage::OtherGroup));
        }
        let mut state = self.state.lock();
        self.begin_quiet(&mut state, content.index);
        state.begin_anew(&self.flights);
        let databases = &self.options.databases;
        durable_tables(databases, &state).for_each(|it| empty(it.table));
        let loaded = load(&file, databases, &mut state.tables, threads, &self.counters);
        self.directory.publish(&state.tables);
        loaded?;
        state.time = content.time;
        state.applied = content.index;
        state.origins = content.origins.clone();
        self.begin_anew(content.index, content.time);
        self.reads.applied(content.index);
        self.forget_contained(&state);
        Ok(file.info())
    }

    /// Gives up the batches of this node that a snapshot contains: their replies were made where
    /// they were applied. The others will be applied here.
    fn forget_contained(&self, state: &State) {
        let origin = self.options.incarnation;
        let sequences = self.flights.sequences().into_iter();
        sequences
            .filter(|sequence| state.origins.contain(origin, *sequence))
            .for_each(|sequence| self.forget(sequence));
    }

    fn begin_anew(&self, index: u64, time: LogTime) {
        self.counters.applied_index.store(index, SeqCst);
        time.publish(self.surroundings());
        if time.is_stamped {
            self.formats.note_used(STAMPED);
        }
        self.counters.logged_bytes.store(0, Relaxed);
        self.counters.format_used.store(0, Relaxed);
        self.trigger.begin_anew();
    }
}

/// The index of each database's table.
fn order(databases: &Databases) -> [usize; DATABASES] {
    std::array::from_fn(|number| databases.index(number))
}
