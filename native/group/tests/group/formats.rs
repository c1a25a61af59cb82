//! Formats of batches: what a node writes, and what earlier versions have written.

use todana_command::{
    Command, DatabaseCommand, Expires, FORMAT_MAX, KeyCommand, LoggedSeen, LoggedWatch, Script,
    ScriptCommand, StringCommand,
};
use todana_group::record::{self, TableOptions};
use todana_group::{Applied, Home, Submit};
use todana_table::KeyOrder;

use crate::harness::{Harness, Seen, command, set};

/// The entry of [`every_kind`] as the last version wrote it that had no other format.
const ENTRY: &str = include_str!("formats/entry.txt");

/// A record of each kind, with commands of the first format.
fn every_kind() -> (Vec<u8>, usize) {
    let mut records = set(0, b"a", b"1");
    let expire = Command::String(StringCommand::GetAndExpire {
        key: b"a",
        expires: Expires::At(1_800_000_000_000),
    });
    record::put_command_within(&mut records, Home::of(3), &expire, 300);
    let watch = |seen| LoggedWatch { database: 1, table: 1, key: &b"w"[..], seen };
    let watches = [
        watch(LoggedSeen::Version(7)),
        watch(LoggedSeen::AbsentSince(300)),
        watch(LoggedSeen::Absent),
    ];
    let delete = Command::Key(KeyCommand::Delete { keys: &[&b"w"[..], b"v"] });
    record::put_transaction(
        &mut records,
        Home::of(0),
        &watches,
        &[(1, delete), (2, Command::Database(DatabaseCommand::Count))],
    );
    record::put_read(&mut records, Home::of(0), &Command::String(StringCommand::Get { key: b"a" }));
    let order = Some(KeyOrder::default());
    let options = TableOptions { order, shards: Some(64), opaque: b"term" };
    record::put_create_table(&mut records, b"named", &options);
    record::put_drop_table(&mut records, b"named");
    record::put_collect(&mut records, Home::of(0), 5..4_096);
    record::put_time_mark(&mut records);
    (records, 8)
}

/// A command of each format but the first.
fn replace_if() -> Command<'static> {
    Command::String(StringCommand::ReplaceIf {
        key: b"a",
        value: b"1",
        equal: true,
        new: Some(b"2"),
        expires: Expires::Keep,
        return_old: false,
    })
}

fn describe() -> Command<'static> {
    Command::Key(KeyCommand::Describe { key: b"a" })
}

fn script() -> Command<'static> {
    Command::Script(ScriptCommand::Run(Script {
        source: b"return redis.call('get', KEYS[1])",
        words: &[b"a"],
        keys: 1,
        steps_max: 1_000,
        bytes_max: 1 << 20,
        reads: false,
    }))
}

fn transaction(command: Command<'static>) -> Vec<u8> {
    let mut records = Vec::new();
    record::put_transaction(
        &mut records,
        Home::of(0),
        &[],
        &[(0, Command::Database(DatabaseCommand::Count)), (1, command)],
    );
    records
}

fn read(command: &Command<'_>) -> Vec<u8> {
    let mut records = Vec::new();
    record::put_read(&mut records, Home::of(0), command);
    records
}

/// The format of the next batch.
fn format_of(harness: &Harness) -> u8 {
    harness.seal().bytes[1]
}

#[test]
fn old_commands_are_written_as_the_old_version_wrote_them() {
    let mut harness = Harness::new();
    harness.group.set_common_formats(Some((FORMAT_MAX, FORMAT_MAX)));
    let (records, count) = every_kind();
    harness.submit(1, records, count);
    let sealed = harness.seal();
    let hex: String = sealed.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, ENTRY.trim_end());
    assert_eq!(harness.apply(&sealed.bytes), Applied::Done { snapshot_due: false });
    assert_eq!(harness.group.figures().malformed, 0);
}

#[test]
fn a_member_writes_the_lowest_format_that_has_the_commands() {
    let harness = Harness::new();
    harness.group.set_common_formats(Some((FORMAT_MAX, FORMAT_MAX)));
    let keys_of_slot = Command::Database(DatabaseCommand::KeysOfSlot { slot: 1, count: 2 });
    for (records, format) in [
        (set(0, b"a", b"1"), 1),
        (command(0, &replace_if()), 2),
        (command(0, &script()), 3),
        (transaction(Command::Database(DatabaseCommand::Count)), 1),
        (transaction(replace_if()), 2),
        (transaction(script()), 3),
        (transaction(describe()), 6),
        // Only the node that wrote it decodes a read.
        (read(&keys_of_slot), 1),
        (read(&script()), 1),
        (read(&describe()), 1),
    ] {
        harness.submit(1, records, 1);
        assert_eq!(format_of(&harness), format);
    }
    // Of all submissions of a batch, and of all their records.
    harness.submit(1, set(0, b"a", b"1"), 1);
    harness.submit(2, [set(0, b"a", b"1"), command(0, &script())].concat(), 2);
    harness.submit(3, command(0, &replace_if()), 1);
    assert_eq!(format_of(&harness), 3);
    harness.submit(4, set(0, b"a", b"1"), 1);
    assert_eq!(format_of(&harness), 1, "the next batch needs less");
}

#[test]
fn a_node_alone_writes_its_newest_format() {
    let harness = Harness::new();
    assert_eq!(harness.group.format(), FORMAT_MAX);
    harness.submit(1, set(0, b"a", b"1"), 1);
    assert_eq!(format_of(&harness), 3, "it does not know the time");
    harness.group.begin_time(1);
    harness.submit(1, set(0, b"a", b"1"), 1);
    assert_eq!(format_of(&harness), 4, "each batch carries the time");
    harness.submit(1, transaction(describe()), 1);
    assert_eq!(format_of(&harness), 6, "a command needs it");
}

/// Within an hour after an upgrade, a member may go back if no command needed the new version.
#[test]
fn a_format_may_be_written_for_a_command_before_it_is_written_unasked() {
    let mut harness = Harness::new();
    harness.group.begin_time(1);
    harness.group.set_common_formats(Some((6, 3)));
    assert_eq!((harness.group.format(), harness.group.unasked_format()), (6, 3));
    harness.submit(1, set(0, b"a", b"1"), 1);
    assert_eq!(format_of(&harness), 1);
    harness.commit(transaction(describe()), 1);
    assert_eq!(harness.group.figures().format_used, 6);
    // The log has it now, so no member can go back.
    assert_eq!((harness.group.format(), harness.group.unasked_format()), (6, 6));
    harness.submit(1, set(0, b"a", b"1"), 1);
    assert_eq!(format_of(&harness), 4);
}

#[test]
fn no_format_is_written_that_a_member_does_not_read() {
    let harness = Harness::new();
    for (common, written) in [(1, [true, false, false]), (2, [true, true, false]), (3, [true; 3])] {
        harness.group.set_common_formats(Some((common, common)));
        assert_eq!(harness.group.format(), common);
        let submissions = [set(0, b"a", b"1"), command(0, &replace_if()), command(0, &script())];
        for (number, records) in (0..).zip(submissions) {
            harness.submit(number, records, 1);
        }
        assert!(format_of(&harness) <= common);
        let dropped: Vec<u64> = harness
            .outcomes()
            .into_iter()
            .map(|(number, outcome)| {
                assert_eq!(outcome, Seen::Dropped, "it was not executed, and never will be");
                number
            })
            .collect();
        let expected: Vec<u64> =
            (0..).zip(written).filter(|(_, is_written)| !is_written).map(|(n, _)| n).collect();
        assert_eq!(dropped, expected, "{common}");
    }
    harness.group.set_common_formats(Some((1, 1)));
    harness.submit(7, transaction(script()), 1);
    assert_eq!(harness.group.take(0), None, "a batch with nothing in it");
    assert_eq!(harness.outcomes(), [(7, Seen::Dropped)]);
}

#[test]
fn the_newest_format_in_the_log_is_known() {
    let mut harness = Harness::new();
    harness.group.set_common_formats(Some((FORMAT_MAX, FORMAT_MAX)));
    assert_eq!(harness.group.figures().format_used, 0);
    for (records, used) in [
        (set(0, b"a", b"1"), 1),
        (command(0, &replace_if()), 2),
        (set(0, b"a", b"1"), 2),
        (command(0, &script()), 3),
    ] {
        harness.commit(records, 1);
        assert_eq!(harness.group.figures().format_used, used);
    }
    harness.group.reset();
    assert_eq!(harness.group.figures().format_used, 0);
}
