//! The records, and the log of those that are durable.

use super::Clock;
use crate::commit::{Commits, Log, NotDone, Ran, ReadLevel};
use todana_command::{
    Begun, Command, Context, Databases, Inadmissible, Reply, Transaction, Watch, execute,
    execute_slice, execute_transaction,
};

/// The databases, and what the connection has in the log of the durable ones.
///
/// Sessions run commands by the provided methods. A host implements the others: it names its
/// databases and its log.
pub trait Store: Clock {
    /// The databases.
    fn databases(&self) -> &Databases;
    /// The log of a database's records, and what this connection has in logs; `None` if no database
    /// is durable.
    fn commits(&mut self, database: usize) -> Option<(Log<'_>, &mut Commits)>;
    /// That log alone.
    fn log(&self, database: usize) -> Option<Log<'_>>;
    /// What this connection has in logs.
    fn own_commits(&mut self) -> Option<&mut Commits>;
    /// Whether requests that the log has committed are run again.
    fn is_playing(&self) -> bool;
    /// Whether enough is recorded for the log, so that the next request waits for the next commit.
    fn commit_is_full(&self) -> bool;
    /// Runs a command: executes it, or hands it over to the log of a durable database.
    #[inline]
    fn run<R: Reply>(
        &mut self,
        database: usize,
        command: &Command<'_>,
        context: Context,
        reply: &mut R,
    ) -> Ran<()> {
        if let Some((log, commits)) = self.commits(database) {
            return commits.run(log, database, command, context, reply);
        }
        execute(self.databases(), database, command, context, reply);
        Ran::Done(())
    }
    /// Runs a slice of a long command. If the command is executed in slices, this returns where to
    /// continue; a command that goes through the log has only one.
    #[inline]
    fn run_slice<R: Reply>(
        &mut self,
        database: usize,
        command: &Command<'_>,
        context: Context,
        begun: Option<Begun>,
        reply: &mut R,
    ) -> Ran<Option<Begun>> {
        if let Some((log, commits)) = self.commits(database) {
            return commits.run_slice(log, database, command, context, begun, reply);
        }
        Ran::Done(execute_slice(self.databases(), database, command, context, begun, reply))
    }
    /// Runs a transaction, as [`execute_transaction`] does.
    fn run_transaction<R: Reply>(
        &mut self,
        transaction: &Transaction<'_>,
        context: Context,
        reply: &mut R,
        each: impl FnMut(&mut R, usize),
    ) -> Ran<Result<bool, Inadmissible>> {
        let database = transaction.commands.first().map_or(0, |(database, _)| *database);
        if let Some((log, commits)) = self.commits(database) {
            return commits.run_transaction(log, transaction, &[], context, reply, each);
        }
        Ran::Done(execute_transaction(self.databases(), transaction, context, reply, each))
    }
    /// Whether the records of a database are on other nodes only.
    fn is_away(&self, database: usize) -> bool {
        self.log(database)
            .is_some_and(|log| log.submit.is_away() && log.databases.is_durable(database))
    }
    /// Whether a database has no room for more.
    fn is_full(&self, database: usize) -> bool {
        match self.log(database) {
            Some(log) if self.is_away(database) => log.submit.is_full(database),
            _ => self.databases().table(database).is_full(),
        }
    }
    /// Begins to watch a key of a database whose records are on other nodes.
    fn watch_away(&mut self, database: usize, key: &[u8]) -> Ran<Watch> {
        match self.commits(database) {
            Some((log, commits)) => commits.watch_away(log, database, key),
            None => Ran::Refused(NotDone::Internal),
        }
    }
    /// Drops the replies of the log to the commands of the present request that it will not run any
    /// more, because one before them has failed. No other request may share their commit.
    fn drop_replies(&mut self) {
        if let Some(commits) = self.own_commits() {
            commits.drop_replies();
        }
    }
    /// Sets how new the records must be that this client reads; `None` for the default.
    fn set_read_level(&mut self, level: Option<ReadLevel>) {
        if let Some(commits) = self.own_commits() {
            commits.set_level(level);
        }
    }
    /// Has the connection wait, if the session returns [`Next::Commit`](crate::Next::Commit): the
    /// request is run again when the entry is applied, or after this time. False if that time is
    /// over.
    fn await_applied(&mut self, database: usize, index: u64, ms: u64) -> bool {
        let commits = self.commits(database);
        commits.is_some_and(|(log, commits)| commits.want_applied(log.group, index, ms))
    }
    /// Why the log accepts no writes ([`NotDone::ReadOnly`]): a sentence without CR or LF.
    fn log_trouble(&self, database: usize) -> String {
        self.log(database).map_or_else(String::new, |log| log.submit.trouble())
    }
    /// Whether the records of a database may be read now.
    fn admit_read(&self, database: usize) -> Result<(), NotDone> {
        match self.log(database) {
            Some(log) if log.databases.is_durable(database) => log.admit_read(),
            _ => Ok(()),
        }
    }
    /// The time by which records of a database expire: in a durable one, that of the log.
    fn records_ms(&self, database: usize) -> u64 {
        match self.log(database) {
            Some(log) if log.databases.is_durable(database) => log.now_ms,
            _ => self.replied_at_ms(),
        }
    }
}
