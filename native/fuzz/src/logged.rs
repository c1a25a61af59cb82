//! Records of a log: transactions, or commands one after another.
//!
//! A decoded transaction must be the same after it is encoded again. Two replicas that execute the
//! bytes must have the same records, although only one of them collects the replies.

use std::sync::Arc;

use todana_command::{
    Command, Context, DATABASES, Databases, NullReply, Place, Reply, Scratch, Tape,
    decode_transaction, encode_transaction, execute, execute_logged_transaction,
};
use todana_table::{KeyOrder, Options, Table};

const CONTEXT: Context = Context { now_ms: 1_000, value_bytes_max: 4_096 };

/// Executes the records that the bytes are, on two replicas.
pub fn logged(data: &[u8]) {
    let (mut origin, mut other) = (Replica::new(Tape::new()), Replica::new(NullReply));
    if let Ok(transaction) = decode_transaction(data, &mut Vec::new()) {
        let mut bytes = Vec::new();
        encode_transaction(&mut bytes, &transaction.watches, &transaction.commands);
        let mut scratch = Vec::new();
        assert_eq!(decode_transaction(&bytes, &mut scratch).as_ref(), Ok(&transaction));
        let each = |tape: &mut Tape, _| tape.next_command();
        let place = Place::Database(&origin.databases, 0);
        let one = execute_logged_transaction(place, &transaction, CONTEXT, &mut origin.reply, each);
        let place = Place::Database(&other.databases, 0);
        let two =
            execute_logged_transaction(place, &transaction, CONTEXT, &mut other.reply, |_, _| {});
        assert_eq!(one, two);
    } else {
        let mut rest = data;
        while let Some((database, after)) = rest.split_first() {
            let mut scratch = Scratch::default();
            let Ok((command, after)) = Command::decode(after, &mut scratch) else { break };
            origin.execute(usize::from(*database), &command);
            other.execute(usize::from(*database), &command);
            rest = after;
        }
    }
    assert_eq!(origin.state(), other.state());
}

struct Replica<R> {
    databases: Databases,
    reply: R,
}

impl<R: Reply> Replica<R> {
    /// Databases of which some are ordered and some are not durable.
    fn new(reply: R) -> Replica<R> {
        let table = |number: usize| {
            let order = (number % 2 == 1).then(KeyOrder::default);
            let (durable, seed) = (number < 4, Some(7));
            let options = Options { shards: Some(4), order, durable, seed, ..Options::default() };
            Arc::new(Table::new(options))
        };
        Replica { databases: Databases::new(std::array::from_fn(table)), reply }
    }

    fn execute(&mut self, database: usize, command: &Command<'_>) {
        execute(&self.databases, database, command, CONTEXT, &mut self.reply);
    }

    fn state(&self) -> Vec<(u64, u64, usize)> {
        let tables = self.databases.tables().iter().zip(0..DATABASES);
        let state = |(table, number): (&Arc<Table>, usize)| {
            (table.digest(), table.version(), self.databases.index(number))
        };
        tables.map(state).collect()
    }
}
