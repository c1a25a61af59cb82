//! The records of a submission, as bytes.
//!
//! ```text
//!  record   kind 1 | length 4 | home varint | body
//!
//!  length   of all that follows it, the lowest byte first
//!  home     what the record concerns: 0 to 15 a database by its number, 16 and more a named table
//!           by its id; 0 where the kind does not need one
//!
//!  kind              body
//!  0  Command        a command, as `todana_command` encodes it | nothing, or varint: the longest
//!                    value that it may build, if that is less than the entry's
//!  1  Transaction    watches and commands, one step, as `todana_command` encodes them; with a
//!                    named table as home, that table is database 0
//!  2  Read           a command that only reads, behind a write of the same client; executed at its
//!                    origin only
//!  3  CreateTable    name: length varint, bytes | order 1 | shards varint | options: the rest
//!                    order: 0 none, else 1 + comparison (0 lexical, 1 decimal) + 2 if descending
//!                    shards: 0 for the default
//!  4  DropTable      name: the rest
//!  5  Collect        first shard varint | end varint: removes what has expired in these shards
//!  6  TimeMark       nothing: only the time of the log goes on
//!  7  SetTime        time 8: the time of the log is this one, even if it goes back, and its next
//!                    era begins; from format 4 on
//!
//!  SET a b    00 0c000000 00 | 01 0c 01 61 01 62 00 00 00 00 00
//! ```
//!
//! The numbers of kinds never change. A replica that finds a kind that it does not know stops: a
//! newer version has written it. Records may follow each other without a separator. Because the
//! length comes first, a replica skips the reads of other nodes undecoded, and a record whose body
//! is broken does not hide those behind it.

use todana_command::{
    Command, FORMAT_MIN, LoggedWatch, Scratch, decode_transaction, encode_transaction,
};
use todana_table::{Comparison, KeyOrder};

use crate::batch::STAMPED;
use crate::home::Home;
use crate::wire::{Input, put_bytes, put_varint};

/// In place of the home of a record whose kind does not need one.
const NO_HOME: Home = Home::Database(0);

/// Bytes of a record before its home.
const FRAME_BYTES: usize = 5;

/// The most shards of a named table.
pub(crate) const TABLE_SHARDS_MAX: usize = 65_536;

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Command,
    Transaction,
    Read,
    CreateTable,
    DropTable,
    Collect,
    TimeMark,
    SetTime,
}

impl Kind {
    #[inline]
    fn of(number: u8) -> Option<Kind> {
        Some(match number {
            0 => Kind::Command,
            1 => Kind::Transaction,
            2 => Kind::Read,
            3 => Kind::CreateTable,
            4 => Kind::DropTable,
            5 => Kind::Collect,
            6 => Kind::TimeMark,
            7 => Kind::SetTime,
            _ => return None,
        })
    }
}

/// The options of a named table. The group itself needs the first two; the rest belongs to the
/// caller, which gets it back from [`Group::tables`](crate::Group::tables).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableOptions<'a> {
    /// How the table is ordered; `None` if it is not.
    pub order: Option<KeyOrder>,
    /// Number of shards, up to 65,536; `None` for the default.
    pub shards: Option<usize>,
    /// Whatever else the caller wants to keep with the table.
    pub opaque: &'a [u8],
}

/// Appends a command. Its reply is what [`execute`](todana_command::execute) replies.
pub fn put_command(out: &mut Vec<u8>, home: Home, command: &Command<'_>) {
    put(out, Kind::Command, home, |out| command.encode(out));
}

/// Appends a command of a client whose values have a limit of their own.
pub fn put_command_within(
    out: &mut Vec<u8>,
    home: Home,
    command: &Command<'_>,
    value_bytes_max: usize,
) {
    put(out, Kind::Command, home, |out| {
        command.encode(out);
        put_varint(out, value_bytes_max as u64);
    });
}

/// The limit behind a command: `Some(None)` if it has none of its own, `None` if the bytes are
/// broken.
pub(crate) fn limit_of(rest: &[u8]) -> Option<Option<usize>> {
    if rest.is_empty() {
        return Some(None);
    }
    let mut input = Input::new(rest);
    let limit = input.length()?;
    (limit > 0 && input.rest().is_empty()).then_some(Some(limit))
}

/// Appends a transaction that was admitted: all its commands are one step, which runs if the
/// watches hold. With a named table as home, that table is database 0 of the transaction. Otherwise
/// the transaction names its databases itself. The replies are those of its commands; the record
/// ends with `Status::WatchFailed` if a watch fails.
pub fn put_transaction(
    out: &mut Vec<u8>,
    home: Home,
    watches: &[LoggedWatch<'_>],
    commands: &[(usize, Command<'_>)],
) {
    put(out, Kind::Transaction, home, |out| encode_transaction(out, watches, commands));
}

/// Appends a command that only reads (`Access::Read`). It sees the writes before it.
pub fn put_read(out: &mut Vec<u8>, home: Home, command: &Command<'_>) {
    put(out, Kind::Read, home, |out| command.encode(out));
}

/// Appends the creation of a named table. Reply: `integer` (the table's id), or `refused(Present)`.
pub fn put_create_table(out: &mut Vec<u8>, name: &[u8], options: &TableOptions<'_>) {
    put(out, Kind::CreateTable, NO_HOME, |out| {
        put_bytes(out, name);
        out.push(order_byte(options.order));
        put_varint(out, options.shards.unwrap_or(0) as u64);
        out.extend_from_slice(options.opaque);
    });
}

/// Appends the removal of a named table. Reply: `done`, or `refused(Absent)`.
pub fn put_drop_table(out: &mut Vec<u8>, name: &[u8]) {
    put(out, Kind::DropTable, NO_HOME, |out| out.extend_from_slice(name));
}

/// Appends the removal of what has expired in some shards. Reply: `integer` (how many records).
pub fn put_collect(out: &mut Vec<u8>, home: Home, shards: std::ops::Range<usize>) {
    put(out, Kind::Collect, home, |out| {
        put_varint(out, shards.start as u64);
        put_varint(out, shards.end as u64);
    });
}

/// Appends a time mark. Reply: `done`.
pub fn put_time_mark(out: &mut Vec<u8>) {
    put(out, Kind::TimeMark, NO_HOME, |_| ());
}

/// The format that [`put_set_time`] needs.
pub const SET_TIME_FORMAT: u8 = STAMPED;

/// Appends the order that the time of the log is this one, in milliseconds. Reply: `done`.
pub fn put_set_time(out: &mut Vec<u8>, time_ms: u64) {
    put(out, Kind::SetTime, NO_HOME, |out| out.extend_from_slice(&time_ms.to_le_bytes()));
}

fn put(out: &mut Vec<u8>, kind: Kind, home: Home, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[kind as u8, 0, 0, 0, 0]);
    put_varint(out, home.number());
    body(out);
    // A record is a value of a limited length and little else.
    let length = u32::try_from(out.len() - start - FRAME_BYTES).expect("a record of 4 GiB");
    out[start + 1..start + FRAME_BYTES].copy_from_slice(&length.to_le_bytes());
}

/// The byte for an order.
pub(crate) fn order_byte(order: Option<KeyOrder>) -> u8 {
    let Some(KeyOrder { comparison, descending }) = order else { return 0 };
    let comparison = match comparison {
        Comparison::Lexical => 0,
        Comparison::Decimal => 1,
    };
    1 + comparison + 2 * u8::from(descending)
}

/// The order for a byte.
pub(crate) fn order_of(byte: u8) -> Option<Option<KeyOrder>> {
    let Some(number) = byte.checked_sub(1) else { return Some(None) };
    let comparison = match number & 1 {
        0 => Comparison::Lexical,
        _ => Comparison::Decimal,
    };
    (number < 4).then_some(Some(KeyOrder { comparison, descending: number & 2 != 0 }))
}

/// A record that is not decoded further.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'b> {
    pub(crate) kind: Kind,
    pub(crate) home: Home,
    pub(crate) body: &'b [u8],
}

/// The front of some bytes.
pub(crate) enum Front<'b> {
    /// A record, and what follows it.
    Record(Record<'b>, &'b [u8]),
    /// A record of a known kind without a home, and what follows it.
    Broken(&'b [u8]),
    /// No record: its length exceeds the bytes.
    Unframed,
    /// A record of a kind that this version does not know.
    Unknown(u8),
    /// The bytes are used up.
    End,
}

/// The record at the front of `bytes`.
#[inline]
pub(crate) fn front(bytes: &[u8]) -> Front<'_> {
    let mut input = Input::new(bytes);
    let Some(number) = input.byte() else { return Front::End };
    let Some(kind) = Kind::of(number) else { return Front::Unknown(number) };
    let content = input.u32().and_then(|length| input.take(length as usize));
    let Some(content) = content else { return Front::Unframed };
    let mut content = Input::new(content);
    match content.varint() {
        Some(home) => {
            let (home, body) = (Home::of(home), content.rest());
            Front::Record(Record { kind, home, body }, input.rest())
        }
        None => Front::Broken(input.rest()),
    }
}

/// Whether the bytes are this number of whole records of known kinds.
pub(crate) fn are_records(mut bytes: &[u8], count: usize) -> bool {
    let mut found = 0;
    loop {
        match front(bytes) {
            Front::Record(_, rest) => (found, bytes) = (found + 1, rest),
            Front::End => return found == count,
            Front::Broken(_) | Front::Unframed | Front::Unknown(_) => return false,
        }
    }
}

/// The lowest format of batches that has all commands of these records. Reads do not count: only
/// their origin decodes them. The maker of a submission knows it without decoding.
pub fn format_of(mut bytes: &[u8]) -> u8 {
    let mut format = FORMAT_MIN;
    while let Front::Record(record, rest) = front(bytes) {
        bytes = rest;
        format = format.max(match record.kind {
            Kind::Command => {
                let mut scratch = Scratch::default();
                let command = Command::decode(record.body, &mut scratch);
                command.map_or(FORMAT_MIN, |(command, _)| command.format())
            }
            Kind::Transaction => {
                let mut scratch = Vec::new();
                let transaction = decode_transaction(record.body, &mut scratch);
                let formats = transaction.iter().flat_map(|transaction| &transaction.commands);
                formats.map(|(_, command)| command.format()).max().unwrap_or(FORMAT_MIN)
            }
            Kind::SetTime => STAMPED,
            Kind::Read | Kind::CreateTable | Kind::DropTable | Kind::Collect | Kind::TimeMark => {
                FORMAT_MIN
            }
        });
    }
    format
}

/// Whether these records remove records and change nothing else. Reads among them do not count.
pub fn only_remove(mut bytes: &[u8]) -> bool {
    loop {
        let Front::Record(record, rest) = front(bytes) else { return bytes.is_empty() };
        bytes = rest;
        let only_removes = match record.kind {
            Kind::Command => {
                let mut scratch = Scratch::default();
                let command = Command::decode(record.body, &mut scratch);
                command.is_ok_and(|(command, _)| command.never_adds())
            }
            Kind::Transaction => {
                let mut scratch = Vec::new();
                let transaction = decode_transaction(record.body, &mut scratch);
                transaction.is_ok_and(|transaction| {
                    transaction.commands.iter().all(|(_, it)| it.never_adds())
                })
            }
            Kind::Read | Kind::DropTable | Kind::Collect | Kind::TimeMark | Kind::SetTime => true,
            Kind::CreateTable => false,
        };
        if !only_removes {
            return false;
        }
    }
}

/// The key of an encoded command whose first field is a key, as that of most commands is. For any
/// other command, some bytes or none: good enough for a prefetch.
#[inline]
pub(crate) fn probable_key(body: &[u8]) -> Option<&[u8]> {
    // Its format and its variant come first.
    Input::new(body.get(2..)?).bytes()
}

/// The name and the options in the body of a `CreateTable`.
pub(crate) fn create_table_of(body: &[u8]) -> Option<(&[u8], TableOptions<'_>)> {
    let mut input = Input::new(body);
    let name = input.bytes()?;
    let order = order_of(input.byte()?)?;
    let shards = input.length()?;
    if shards > TABLE_SHARDS_MAX {
        return None;
    }
    let options =
        TableOptions { order, shards: (shards > 0).then_some(shards), opaque: input.rest() };
    Some((name, options))
}

/// The shards in the body of a `Collect`.
pub(crate) fn collect_of(body: &[u8]) -> Option<std::ops::Range<usize>> {
    let mut input = Input::new(body);
    let shards = input.length()?..input.length()?;
    input.rest().is_empty().then_some(shards)
}

/// The time in the body of a `SetTime`.
pub(crate) fn set_time_of(body: &[u8]) -> Option<u64> {
    let mut input = Input::new(body);
    let time_ms = input.u64()?;
    input.rest().is_empty().then_some(time_ms)
}

#[cfg(test)]
mod tests {
    use todana_command::{Scratch, Set};

    use super::*;
    use todana_command::StringCommand;

    /// The first record, which is whole.
    fn first(bytes: &[u8]) -> (Record<'_>, &[u8]) {
        match front(bytes) {
            Front::Record(record, rest) => (record, rest),
            _ => panic!("no record in {bytes:?}"),
        }
    }

    #[test]
    fn the_example_of_the_documentation() {
        let mut bytes = Vec::new();
        put_command(
            &mut bytes,
            Home::Database(0),
            &Command::String(StringCommand::Set(Set::new(b"a", b"b"))),
        );
        let expected = [0, 12, 0, 0, 0, 0, 1, 12, 1, b'a', 1, b'b', 0, 0, 0, 0, 0];
        assert_eq!(bytes, expected);
    }

    #[test]
    fn records_are_read_in_the_order_in_which_they_were_put() {
        let (get, order) = (Command::String(StringCommand::Get { key: b"k" }), KeyOrder::default());
        let options = TableOptions { order: Some(order), shards: Some(64), opaque: b"rest" };
        let mut bytes = Vec::new();
        put_command(&mut bytes, Home::Table(300), &get);
        put_read(&mut bytes, Home::Database(15), &get);
        put_create_table(&mut bytes, b"name", &options);
        put_drop_table(&mut bytes, b"name");
        put_collect(&mut bytes, Home::Database(2), 5..4_096);
        put_time_mark(&mut bytes);
        let (record, rest) = first(&bytes);
        assert_eq!((record.kind, record.home), (Kind::Command, Home::Table(300)));
        let mut scratch = Scratch::default();
        assert_eq!(Command::decode(record.body, &mut scratch), Ok((get, &[][..])));
        let (record, rest) = first(rest);
        assert_eq!((record.kind, record.home), (Kind::Read, Home::Database(15)));
        let (record, rest) = first(rest);
        assert_eq!(record.kind, Kind::CreateTable);
        assert_eq!(create_table_of(record.body), Some((&b"name"[..], options)));
        let (record, rest) = first(rest);
        assert_eq!((record.kind, record.body), (Kind::DropTable, &b"name"[..]));
        let (record, rest) = first(rest);
        assert_eq!((record.kind, collect_of(record.body)), (Kind::Collect, Some(5..4_096)));
        let (record, rest) = first(rest);
        assert_eq!((record.kind, record.body), (Kind::TimeMark, &[][..]));
        assert!(matches!(front(rest), Front::End));
    }

    #[test]
    fn a_command_may_have_a_limit_of_its_own() {
        let (get, mut bytes) = (Command::String(StringCommand::Get { key: b"k" }), Vec::new());
        put_command_within(&mut bytes, Home::Database(0), &get, 300);
        let (record, _) = first(&bytes);
        let mut scratch = Scratch::default();
        let (command, rest) = Command::decode(record.body, &mut scratch).expect("a command");
        assert_eq!((command, limit_of(rest)), (get, Some(Some(300))));
        assert_eq!(limit_of(&[]), Some(None));
        for broken in [&[0][..], &[0x80], &[1, 1], &[0x80; 11]] {
            assert_eq!(limit_of(broken), None);
        }
    }

    #[test]
    fn every_order_has_a_byte() {
        let comparisons = [Comparison::Lexical, Comparison::Decimal];
        for comparison in comparisons {
            for descending in [false, true] {
                let order = Some(KeyOrder { comparison, descending });
                assert_eq!(order_of(order_byte(order)), Some(order));
            }
        }
        assert_eq!(order_of(order_byte(None)), Some(None));
        assert_eq!(order_of(5), None);
    }

    #[test]
    fn what_is_no_record_is_distinguished() {
        let mut bytes = Vec::new();
        put_time_mark(&mut bytes);
        assert!(matches!(front(&bytes[..bytes.len() - 1]), Front::Unframed));
        assert!(matches!(front(&[8, 0, 0, 0, 0]), Front::Unknown(8)));
        // A known kind whose home is cut off.
        assert!(matches!(front(&[6, 1, 0, 0, 0, 0x80, 6]), Front::Broken([6])));
        assert!(matches!(front(&[6, 0, 0, 0, 0]), Front::Broken([])));
    }
}
