//! A table as the Erlang side sees it: a name, a codec, defaults, and the native table or database
//! behind it.

use crate::durable::{self, LocalGroup};
use crate::erts::{Raw, ResourceType};
use crate::guest;
use crate::time::{now_ms, tick_ms};
use parking_lot::Mutex;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use todana_command::{
    Command, Context, Databases, Expires, Increment, KeyState, OptimisticCommit, Place, Reply, Set,
    StringCommand, Uncommitted, VALUE_BYTES_MAX,
};
use todana_group::{Home, NamedTable};
use todana_table::{Entry, Lent, Limits, Observer, Options, Table, Time, TooManyObservers};

/// Resources for handles of tables.
pub(crate) static HANDLE: ResourceType<Arc<Store>> = ResourceType::new(c"todana_table");

/// Maximum length of a key, in bytes as the table stores it.
pub(crate) const KEY_BYTES_MAX: usize = 64 << 10;

/// How terms become keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    /// Keys and values are iodata, and are returned as binaries.
    Raw,
    /// Keys and values are arbitrary terms; see [`crate::codec`].
    Term,
    /// Like `Term`, in an ordered table, whose keys compare like terms; see [`crate::ordered_key`].
    OrderedTerm,
}

/// Mean number of records in a shard up to which a scan runs on a normal scheduler: it reads whole
/// shards, a record in about a microsecond. If there are more, it runs on a dirty scheduler, and so
/// does the sweeper, which may move a whole index or clean up all deadlines of a shard.
const SHARD_RECORDS_MAX: u64 = 1_024;

/// A table as the Erlang side sees it.
pub(crate) struct Store {
    /// The name, as an atom's term (atoms are the same in every environment).
    pub(crate) name: Raw,
    pub(crate) codec: Codec,
    /// The group of its records, if only a log changes them.
    group: Option<&'static LocalGroup>,
    /// Milliseconds to live of records that are written without an expiry; 0 if they do not expire.
    ttl_ms: AtomicU64,
    /// The options with which the table was opened, compared by a second `open`.
    pub(crate) options: Options,
    /// The present limits: those of the options, until they are changed.
    limits: Mutex<Limits>,
    backing: Backing,
    closed: AtomicBool,
    subscriptions: Mutex<Vec<Box<dyn Subscribed>>>,
    /// Boxed, because the BEAM aligns resources only for 8 bytes.
    looks: Box<[Looks; STRIPES]>,
}

/// A subscription to the changes of a table.
pub(crate) trait Subscribed: Send + Sync {
    /// Ends it, because the table is closed, and informs the subscriber.
    fn close(&self);

    /// What distinguishes it from the others.
    fn address(&self) -> *const ();
}

enum Backing {
    Own(Table),
    /// A named table of the log.
    Named(Arc<NamedTable>),
    Database(Arc<Databases>, usize),
}

/// Hits and misses counted by one thread (or by several, which then share the cost).
// Two cache lines: processors fetch them in pairs.
#[repr(align(128))]
#[derive(Default)]
struct Looks {
    hits: AtomicU64,
    misses: AtomicU64,
}

const STRIPES: usize = 16;

impl Store {
    pub(crate) fn own(name: Raw, codec: Codec, ttl_ms: Option<u64>, options: Options) -> Store {
        let table = Table::new(options.clone());
        Store::new(name, codec, ttl_ms, options, Backing::Own(table))
    }

    /// A numbered database of the server; its codec is raw, because all clients see the same bytes.
    pub(crate) fn database(name: Raw, databases: Arc<Databases>, number: usize) -> Store {
        Store::new(name, Codec::Raw, None, Options::default(), Backing::Database(databases, number))
    }

    /// A named table of a log.
    pub(crate) fn named(
        group: &'static LocalGroup,
        name: Raw,
        codec: Codec,
        ttl_ms: Option<u64>,
        shards: Option<usize>,
        table: Arc<NamedTable>,
    ) -> Store {
        let order = table.options().order;
        let options = Options { order, shards, ..Options::default() };
        let group = Some(group);
        Store { group, ..Store::new(name, codec, ttl_ms, options, Backing::Named(table)) }
    }

    /// A named table whose records other nodes have.
    pub(crate) fn away(name: Raw, codec: Codec, ttl_ms: Option<u64>, options: Options) -> Store {
        let options = Options { durable: true, ..options };
        Store { group: Some(durable::first()), ..Store::own(name, codec, ttl_ms, options) }
    }

    /// Whether the members of a cluster have its records, and this node has none.
    pub(crate) fn is_away(&self) -> bool {
        self.is_durable() && guest::is_away()
    }

    fn new(
        name: Raw,
        codec: Codec,
        ttl_ms: Option<u64>,
        options: Options,
        backing: Backing,
    ) -> Store {
        let group = match &backing {
            Backing::Database(databases, number) if databases.table(*number).is_durable() => {
                Some(durable::of_database(*number))
            }
            _ => None,
        };
        Store {
            name,
            codec,
            group,
            ttl_ms: AtomicU64::new(ttl_ms.unwrap_or(0)),
            limits: Mutex::new(options.limits),
            options,
            backing,
            closed: AtomicBool::new(false),
            subscriptions: Mutex::default(),
            looks: Box::default(),
        }
    }

    /// The table that is behind it now. For a database this may change (`SWAPDB`).
    #[inline]
    pub(crate) fn table(&self) -> &Table {
        self.place().table()
    }

    /// Whether only a log changes its records.
    #[inline]
    pub(crate) fn is_durable(&self) -> bool {
        self.group.is_some()
    }

    /// The group of its records, if they are in a log.
    #[inline]
    pub(crate) fn group(&self) -> Option<&'static LocalGroup> {
        self.group
    }

    /// Whether it is a named table of the log.
    pub(crate) fn is_named(&self) -> bool {
        matches!(self.backing, Backing::Named(_))
    }

    /// The longest value, in bytes.
    #[inline]
    pub(crate) fn value_bytes_max(&self) -> usize {
        self.group.map_or(VALUE_BYTES_MAX, LocalGroup::value_bytes_max)
    }

    /// The time by which its records expire: that of the log, or the time of day.
    pub(crate) fn now_ms(&self) -> u64 {
        self.group.map_or_else(now_ms, LocalGroup::now_ms)
    }

    #[inline]
    fn tick(&self) -> Tick {
        Tick { group: self.group }
    }

    /// What names it in records of the log.
    pub(crate) fn home(&self) -> Option<Home> {
        match &self.backing {
            Backing::Own(_) => None,
            Backing::Named(table) => Some(table.home()),
            Backing::Database(_, number) => Some(Home::Database(*number)),
        }
    }

    /// The target of commands: a table, or a numbered database.
    #[inline]
    fn place(&self) -> Place<'_> {
        match &self.backing {
            Backing::Own(table) => Place::Table(table),
            Backing::Named(table) => Place::Table(table.table()),
            Backing::Database(databases, number) => Place::Database(databases, *number),
        }
    }

    /// Reads a record under its shard's lock.
    #[inline]
    pub(crate) fn look_up<R>(&self, key: &[u8], look: impl FnOnce(Option<Entry<'_>>) -> R) -> R {
        todana_command::look_up(self.place(), key, self.tick(), look)
    }

    /// Whether there is a record; not a use of it.
    #[inline]
    pub(crate) fn is_key(&self, key: &[u8]) -> bool {
        todana_command::is_key(self.place(), key, self.tick())
    }

    /// The same as [`Store::look_up`]; also returns the state of the key.
    pub(crate) fn look_up_state<R>(
        &self,
        key: &[u8],
        look: impl FnOnce(Option<Entry<'_>>) -> R,
    ) -> (R, KeyState) {
        todana_command::look_up_state(self.place(), key, self.now_ms(), look)
    }

    /// Performs all writes, or none if a key is in another state than it was.
    pub(crate) fn commit(&self, transaction: &OptimisticCommit<'_>) -> Result<(), Uncommitted> {
        todana_command::commit(self.place(), transaction, self.now_ms())
    }

    /// Removes a record and reads it; a large one is read without its shard's lock.
    pub(crate) fn take<R>(&self, key: &[u8], look: impl FnOnce(Option<Entry<'_>>) -> R) -> R {
        todana_command::take(self.place(), key, self.now_ms(), look)
    }

    pub(crate) fn database_number(&self) -> Option<usize> {
        match &self.backing {
            Backing::Own(_) | Backing::Named(_) => None,
            Backing::Database(_, number) => Some(*number),
        }
    }

    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Relaxed);
    }

    /// The subscriptions that have not ended.
    pub(crate) fn subscriptions(&self) -> &Mutex<Vec<Box<dyn Subscribed>>> {
        &self.subscriptions
    }

    /// Ends the subscriptions, and informs the subscribers.
    pub(crate) fn end_subscriptions(&self) {
        let subscriptions = std::mem::take(&mut *self.subscriptions.lock());
        subscriptions.iter().for_each(|subscription| subscription.close());
    }

    /// Whether a call that processes whole shards must not run on a normal scheduler.
    pub(crate) fn has_large_shards(&self) -> bool {
        self.table().shard_len() > SHARD_RECORDS_MAX
    }

    /// Adds an observer of the table, or of the database number.
    pub(crate) fn observe(&self, observer: Arc<dyn Observer>) -> Result<(), TooManyObservers> {
        match &self.backing {
            Backing::Own(table) => table.observe(observer),
            Backing::Named(table) => table.table().observe(observer),
            Backing::Database(databases, number) => databases.observe(*number, observer),
        }
    }

    /// Removes an observer, which is no longer called once this returns.
    pub(crate) fn forget(&self, observer: &Arc<dyn Observer>) {
        match &self.backing {
            Backing::Own(table) => table.forget(observer),
            Backing::Named(table) => table.table().forget(observer),
            Backing::Database(databases, _) => databases.forget(observer),
        };
    }

    /// Executes a command.
    pub(crate) fn execute<R: Reply>(&self, command: &Command<'_>, reply: &mut R) {
        self.execute_at(self.now_ms(), command, reply);
    }

    /// Stores a record. Times are those of the last clock tick: see [`tick_ms`].
    #[inline]
    pub(crate) fn set<R: Reply>(&self, set: Set<'_>, reply: &mut R) {
        match &self.backing {
            Backing::Own(table) => todana_command::set_in_table(table, &set, self.tick(), reply),
            _ => {
                self.execute_at(self.tick().ms(), &Command::String(StringCommand::Set(set)), reply)
            }
        }
    }

    /// Whether a value of this length may be kept by reference.
    #[inline]
    pub(crate) fn keeps(&self, value_len: usize) -> bool {
        !self.is_durable() && self.codec == Codec::Raw && value_len <= VALUE_BYTES_MAX
    }

    /// Stores a record in the same way, with a value that is not copied.
    #[inline]
    pub(crate) fn set_lent<R: Reply>(&self, set: Set<'_>, value: Lent, reply: &mut R) {
        todana_command::set_lent(self.place(), &set, value, self.tick(), reply);
    }

    /// Adds to a counter in the same way. The sum is returned or in the reply.
    #[inline]
    pub(crate) fn increment<R: Reply>(
        &self,
        increment: Increment<'_>,
        reply: &mut R,
    ) -> Option<i64> {
        match &self.backing {
            Backing::Own(table) => {
                todana_command::increment_in_table(table, &increment, self.tick(), reply)
            }
            _ => {
                self.execute_at(
                    self.tick().ms(),
                    &Command::String(StringCommand::Increment(increment)),
                    reply,
                );
                None
            }
        }
    }

    #[inline]
    fn execute_at<R: Reply>(&self, now_ms: u64, command: &Command<'_>, reply: &mut R) {
        let context = Context { now_ms, value_bytes_max: self.value_bytes_max() };
        // In a table of a log only reads; `submit` records the writes.
        todana_command::execute_at(self.place(), command, context, reply);
    }

    /// Milliseconds to live of records that are written without an expiry.
    #[inline]
    pub(crate) fn ttl_ms(&self) -> Option<u64> {
        match self.ttl_ms.load(Relaxed) {
            0 => None,
            ttl_ms => Some(ttl_ms),
        }
    }

    /// Changes the expiry of records that are written from now on without one.
    pub(crate) fn set_ttl_ms(&self, ttl_ms: Option<u64>) {
        self.ttl_ms.store(ttl_ms.unwrap_or(0), Relaxed);
    }

    /// The limits of a table that is not a database.
    pub(crate) fn limits(&self) -> Limits {
        *self.limits.lock()
    }

    /// Changes the limits of a table that is not a database. Later writes and the sweeper enforce
    /// them.
    pub(crate) fn change_limits(&self, change: impl FnOnce(&mut Limits)) {
        let mut limits = self.limits.lock();
        change(&mut limits);
        // With the lock, so that two changes do not leave the limits of one in the table.
        self.table().set_limits(*limits);
    }

    /// The expiry of a record that is written without one.
    #[inline]
    pub(crate) fn default_expires(&self) -> Expires {
        match self.ttl_ms() {
            None => Expires::Never,
            Some(ttl_ms) => Expires::After(ttl_ms),
        }
    }

    /// Counts a look-up.
    #[inline]
    pub(crate) fn note_look(&self, hit: bool) {
        let looks = &self.looks[stripe()];
        let counter = if hit { &looks.hits } else { &looks.misses };
        // Not `fetch_add`: threads share a stripe only on nodes with more schedulers than stripes,
        // and a statistic that loses a count now and then is cheaper than a locked instruction in
        // every read.
        counter.store(counter.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Numbers of look-ups by this node's processes that found a record, and that did not.
    pub(crate) fn looks(&self) -> (u64, u64) {
        self.looks.iter().fold((0, 0), |(hits, misses), looks| {
            (hits + looks.hits.load(Relaxed), misses + looks.misses.load(Relaxed))
        })
    }
}

#[inline]
fn stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static STRIPE: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    STRIPE.with(|stripe| {
        if stripe.get() == usize::MAX {
            stripe.set(NEXT.fetch_add(1, Relaxed) % STRIPES);
        }
        stripe.get()
    })
}

/// The time by which the records of a table expire, at the last clock tick.
#[derive(Clone, Copy)]
struct Tick {
    group: Option<&'static LocalGroup>,
}

impl Time for Tick {
    #[inline]
    fn ms(self) -> u64 {
        self.group.map_or_else(tick_ms, LocalGroup::tick_ms)
    }
}
