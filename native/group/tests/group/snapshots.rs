//! Snapshots: what is in the file, what a restoration brings back, and what damage does.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use todana_command::{
    Command, DatabaseCommand, Expires, KeyCommand, LeaseCommand, Set, StringCommand,
};
use todana_group::record::{self, TableOptions};
use todana_group::{
    Applied, Damage, Gate, Group, GroupSnapshot, Home, SnapshotError, SnapshotFile,
    SnapshotProgress, SnapshotSource, Submit, Ticket,
};
use todana_table::{Abandoned, KeyOrder, Keyspace};

use crate::harness::{Harness, NOW_MS, SLICE, Seen, append, options, set};

/// A file of this test run, which is removed at the end.
pub(crate) struct Place(pub(crate) PathBuf);

impl Place {
    fn new() -> Place {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("{}-{}.tds", std::process::id(), NUMBER.fetch_add(1, SeqCst));
        Place(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn write(mut source: SnapshotSource) -> Place {
    let place = Place::new();
    let mut file = File::create(&place.0).expect("a file");
    while !source.write_slice(&mut file, 4 << 20).expect("room on the disk") {}
    assert_eq!(file.metadata().expect("its length").len(), source.bytes_written());
    place
}

pub(crate) fn snapshot(group: &Arc<Group>) -> Place {
    let index = group.figures().applied_index;
    write(group.begin_snapshot(index).expect("no entry is being applied"))
}

/// Records of every kind that a snapshot treats in its own way.
fn fill(harness: &mut Harness) {
    let mut records = Vec::new();
    let mut count = 0;
    let mut put = |home: u64, command: &Command<'_>| {
        record::put_command(&mut records, Home::of(home), command);
        count += 1;
    };
    for number in 0..3_000_u32 {
        let (key, value) = (format!("key-{number}"), format!("value-{number}"));
        put(
            u64::from(number % 3),
            &Command::String(StringCommand::Set(Set::new(key.as_bytes(), value.as_bytes()))),
        );
    }
    for length in [255, 256, 16_383, 16_384, (256 << 10) + 1, (3 << 20) + 7] {
        let value: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        let key = format!("large-{length}");
        let large = Set { flags: 7, track_access: true, ..Set::new(key.as_bytes(), &value) };
        put(1, &Command::String(StringCommand::Set(large.clone())));
        put(
            5,
            &Command::String(StringCommand::Set(Set { expires: Expires::At(NOW_MS + 5), ..large })),
        );
    }
    // An expired record that was not collected, a removed one, a scheduled clear.
    let expires = Expires::At(NOW_MS + 1);
    put(0, &Command::String(StringCommand::Set(Set { expires, ..Set::new(b"expires", b"") })));
    put(0, &Command::Key(KeyCommand::Delete { keys: &[b"key-0"] }));
    put(5, &Command::Database(DatabaseCommand::Clear { at_ms: Some(NOW_MS + 1_000) }));
    put(
        0,
        &Command::Lease(LeaseCommand::Invalidate {
            key: b"key-3",
            condition: Default::default(),
            expires: Expires::Keep,
        }),
    );
    put(0, &Command::Database(DatabaseCommand::Swap { first: 0, second: 7 }));
    let order = Some(KeyOrder { descending: true, ..KeyOrder::default() });
    let ordered = TableOptions { order, shards: Some(64), opaque: b"opaque" };
    record::put_create_table(&mut records, b"dropped", &TableOptions::default());
    record::put_create_table(&mut records, b"ordered", &ordered);
    record::put_drop_table(&mut records, b"dropped");
    (0..500).for_each(|n: u32| records.extend(set(17, format!("o-{n}").as_bytes(), b"v")));
    harness.commit(records, count + 503);
}

/// A group of another process, restored.
fn restored(place: &Place, threads: usize) -> Harness {
    let harness = Harness::of(options(2));
    let info = harness.group.restore(&place.0, threads).expect("a whole file");
    assert_eq!(harness.group.figures().applied_index, info.index);
    harness
}

#[test]
fn a_restored_group_is_the_same_and_goes_on_the_same_way() {
    let mut live = Harness::new();
    fill(&mut live);
    let digest = live.digest();
    let place = snapshot(&live.group);
    for threads in [1, 3] {
        let mut copy = restored(&place, threads);
        assert_eq!(copy.digest(), digest);
        assert_eq!(copy.group.gate(), Gate::Closed);
        let (table, other) = (live.group.databases().table(7), copy.group.databases().table(7));
        assert_eq!((table.len(), table.version()), (other.len(), other.version()));
        let named = copy.group.table(b"ordered").expect("it was there");
        assert_eq!(
            (named.home().number(), named.options().opaque, named.table().len()),
            (17, &b"opaque"[..], 500)
        );
        assert!(copy.group.table(b"dropped").is_none());
        // The same entry has the same effect, and the same batch is applied once.
        let mut twin = restored(&place, 1);
        for number in 0..5 {
            live.submit(1, [append(b"k", b"x"), set(17, &[number], b"v")].concat(), 2);
            let sealed = live.seal();
            copy.apply(&sealed.bytes);
            copy.apply(&sealed.bytes);
            twin.apply(&sealed.bytes);
        }
        let mut records = Vec::new();
        record::put_create_table(&mut records, b"next", &TableOptions::default());
        live.submit(1, records, 1);
        let sealed = live.seal();
        copy.apply(&sealed.bytes);
        twin.apply(&sealed.bytes);
        assert_eq!(copy.digest(), twin.digest());
        assert_eq!(copy.group.table(b"next").map(|table| table.home().number()), Some(18));
    }
}

#[test]
fn a_snapshot_is_of_one_moment_whatever_is_applied_while_it_is_written() {
    let mut harness = Harness::new();
    fill(&mut harness);
    let digest = harness.digest();
    let index = harness.group.figures().applied_index;
    let mut source = harness.group.begin_snapshot(index).expect("between entries");
    let place = Place::new();
    let mut file = File::create(&place.0).expect("a file");
    let mut slices = 0;
    while !source.write_slice(&mut file, 20_000).expect("room") {
        slices += 1;
        change(&mut harness, slices);
    }
    assert!(slices > 10, "{slices}");
    assert_ne!(harness.digest(), digest);
    assert_eq!(restored(&place, 2).digest(), digest);
    assert_eq!(harness.group.figures().snapshots, 1);
}

#[test]
fn a_group_has_one_snapshot_until_it_is_written_or_dropped() {
    let mut harness = Harness::new();
    fill(&mut harness);
    let index = harness.group.figures().applied_index;
    let (snapshot, place) = (GroupSnapshot::default(), Place::new());
    assert_eq!(snapshot.write(index, &place.0, 1).expect("no file"), SnapshotProgress::Gone);
    assert!(snapshot.begin(&harness.group, index));
    assert!(!snapshot.begin(&harness.group, index), "it is taken");
    assert_eq!(snapshot.write(index + 1, &place.0, 1).expect("no file"), SnapshotProgress::Gone);
    assert!(!place.0.exists());
    assert_eq!(snapshot.write(index, &place.0, 20_000).expect("room"), SnapshotProgress::More);
    assert!(!snapshot.begin(&harness.group, index), "it is half written");
    let bytes = loop {
        match snapshot.write(index, &place.0, 1 << 20).expect("room") {
            SnapshotProgress::More => {}
            SnapshotProgress::Done(bytes) => break bytes,
            SnapshotProgress::Gone => panic!("it was there"),
        }
    };
    assert_eq!(fs::metadata(&place.0).expect("a file").len(), bytes);
    assert_eq!(restored(&place, 1).digest(), harness.digest());
    // A file that cannot be written, an end and a load free its place.
    assert!(snapshot.begin(&harness.group, index));
    assert!(snapshot.write(index, Path::new("/"), 1).is_err());
    assert!(snapshot.begin(&harness.group, index));
    snapshot.end(index + 1);
    assert!(!snapshot.begin(&harness.group, index), "the end of another one");
    snapshot.end(index);
    assert!(snapshot.begin(&harness.group, index));
    snapshot.drop_abandoned();
    assert!(!snapshot.begin(&harness.group, index), "it has not waited for long");
    snapshot.clear();
    assert!(snapshot.begin(&harness.group, index));
}

/// What changes while a snapshot or a digest is made: records are replaced, removed and created,
/// databases cleared and exchanged, a table is dropped.
fn change(harness: &mut Harness, number: u64) {
    let mut records = set(1, format!("key-{}", 3 * number + 1).as_bytes(), b"new");
    let key = format!("key-{}", 3 * number + 2);
    record::put_command(
        &mut records,
        Home::of(2),
        &Command::Key(KeyCommand::Delete { keys: &[key.as_bytes()] }),
    );
    record::put_command(
        &mut records,
        Home::of(0),
        &Command::Database(DatabaseCommand::Swap { first: 1, second: 2 }),
    );
    record::put_command(
        &mut records,
        Home::of(5),
        &Command::Database(DatabaseCommand::Clear { at_ms: None }),
    );
    records.extend(set(17, key.as_bytes(), b"new"));
    records.extend(append(b"large-16384", b"more"));
    if number == 3 {
        record::put_drop_table(&mut records, b"ordered");
    }
    harness.commit(records, if number == 3 { 7 } else { 6 });
}

#[test]
fn a_digest_is_of_one_moment_and_writes_go_on_while_it_is_made() {
    let (mut harness, mut replica) = (Harness::new(), Harness::of(options(1)));
    fill(&mut harness);
    fill(&mut replica);
    let expected = harness.digest();
    let mut digest = harness.group.begin_digest().expect("between entries");
    assert_eq!(digest.index(), 1);
    let mut slices = 0;
    let made = loop {
        match digest.go_on(10).expect("no snapshot of the log begins") {
            Some(number) => break number,
            None => slices += 1,
        }
        if slices <= 100 {
            change(&mut harness, slices);
            change(&mut replica, slices);
        }
    };
    assert!(slices > 300, "{slices}");
    assert_eq!(made, expected);
    assert_ne!(harness.digest(), expected);
    assert_eq!(harness.digest(), replica.digest());
}

#[test]
fn a_digest_never_delays_the_snapshot_of_the_log() {
    let mut harness = Harness::new();
    fill(&mut harness);
    let mut digest = harness.group.begin_digest().expect("between entries");
    assert!(harness.group.begin_digest().is_none(), "one at a time");
    assert_eq!(digest.go_on(10), Ok(None));
    let place = snapshot(&harness.group);
    assert_eq!(restored(&place, 1).digest(), restored(&place, 1).digest());
    assert_eq!(digest.go_on(10), Err(Abandoned));
    drop(digest);
    let source = harness.group.begin_snapshot(1).expect("between entries");
    assert!(harness.group.begin_digest().is_none(), "the log's snapshot is being written");
    drop(write(source));

    harness.submit(1, [append(b"k", b"x").repeat(100)].concat(), 100);
    let sealed = harness.seal();
    let zero = std::time::Duration::ZERO;
    let applied = harness.group.apply(&sealed.bytes, 0, 2, NOW_MS, zero);
    let Applied::More(offset) = applied else { panic!("{applied:?}") };
    assert!(harness.group.begin_digest().is_none(), "in the middle of an entry");
    harness.group.apply(&sealed.bytes, offset, 2, NOW_MS, SLICE);
    assert!(harness.group.digest().is_some());
}

#[test]
fn an_empty_group_has_a_snapshot_too() {
    let live = Harness::new();
    let place = snapshot(&live.group);
    assert_eq!(restored(&place, 4).digest(), live.digest());
    assert_eq!(SnapshotFile::verify(&place.0).expect("whole").records, 0);
}

#[test]
fn the_reader_of_a_file_sees_each_record_once() {
    let mut live = Harness::new();
    fill(&mut live);
    let place = snapshot(&live.group);
    let file = SnapshotFile::open(&place.0).expect("whole");
    let (info, mut records, mut named, mut largest) = (file.info(), 0, 0, 0);
    file.each(|table, record| {
        records += 1;
        named += u64::from(table.name == b"ordered");
        largest = largest.max(record.value.bytes().len());
        if record.key == b"key-1" {
            assert_eq!((table.database, record.value.bytes()), (Some(1), &b"value-1"[..]));
        }
        if record.key == b"key-3" {
            assert_eq!(table.database, Some(7), "the databases were exchanged");
        }
    })
    .expect("whole");
    assert_eq!((records, named, largest), (info.records, 500, (3 << 20) + 7));
    assert_eq!((info.log_time_ms, info.seed), (NOW_MS, 7));
    assert_eq!(SnapshotFile::verify_header(&place.0).expect("whole"), info);
}

#[test]
fn a_restoration_replaces_what_was_there_and_keeps_the_instances() {
    let mut harness = Harness::new();
    fill(&mut harness);
    let place = snapshot(&harness.group);
    let digest = harness.digest();
    let ordered = harness.group.table(b"ordered").expect("it exists");
    let mut records = set(1, b"later", b"v");
    record::put_drop_table(&mut records, b"ordered");
    record::put_create_table(&mut records, b"later", &TableOptions::default());
    harness.commit(records, 3);
    let later = harness.group.table(b"later").expect("it exists");
    assert!(ordered.is_dropped() && !later.is_dropped());

    harness.group.restore(&place.0, 2).expect("whole");
    assert_eq!(harness.digest(), digest);
    assert!(harness.group.table(b"later").is_none() && later.is_dropped());
    assert_eq!(later.table().len(), 0);
    let again = harness.group.table(b"ordered").expect("it is back");
    assert!(!again.is_dropped());
    // It is kept only from one restoration to the next: a dropped table is gone.
    harness.group.restore(&place.0, 2).expect("whole");
    let once_more = harness.group.table(b"ordered").expect("it is back");
    assert!(Arc::ptr_eq(&again, &once_more));
    assert_eq!(once_more.table().len(), 500);
}

#[test]
fn a_group_that_is_reset_and_replayed_is_the_same_and_answers_what_is_in_flight() {
    let mut harness = Harness::new();
    let mut log: Vec<Vec<u8>> = Vec::new();
    let mut create = Vec::new();
    record::put_create_table(&mut create, b"named", &TableOptions::default());
    for records in [set(0, b"a", b"1"), create, set(16, b"b", b"2"), append(b"a", b"x")] {
        harness.submit(1, records, 1);
        log.push(harness.seal().bytes);
    }
    let (last, before) = log.split_last().expect("four");
    for entry in before {
        harness.apply(entry);
    }
    harness.outcomes();
    let named = harness.group.table(b"named").expect("it exists");
    let digest = harness.digest();

    harness.group.reset();
    assert_eq!(harness.group.gate(), Gate::Closed);
    assert!(harness.group.table(b"named").is_none() && named.is_dropped());
    assert_eq!((harness.value(b"a"), named.table().len()), (None, 0));
    assert_eq!(harness.digest(), Harness::new().digest());
    for (index, entry) in before.iter().enumerate() {
        let applied = harness.group.apply(entry, 0, index as u64 + 1, NOW_MS, SLICE);
        assert_eq!(applied, Applied::Done { snapshot_due: false });
    }
    assert_eq!(harness.digest(), digest);
    let again = harness.group.table(b"named").expect("it is back");
    assert!(Arc::ptr_eq(&named, &again) && !named.is_dropped());
    assert_eq!(harness.outcomes(), [], "they were delivered before");
    assert_eq!(harness.group.in_flight(), [4]);
    harness.group.apply(last, 0, 4, NOW_MS, SLICE);
    assert_eq!(harness.outcomes().len(), 1);
}

#[test]
fn an_entry_that_was_interrupted_is_applied_again_and_answered() {
    let mut harness = Harness::new();
    let records: Vec<u8> = (0..100).flat_map(|_| append(b"k", b"x")).collect();
    harness.submit(1, records, 100);
    let sealed = harness.seal();
    let zero = std::time::Duration::ZERO;
    assert!(matches!(harness.group.apply(&sealed.bytes, 0, 1, NOW_MS, zero), Applied::More(_)));
    assert!(harness.group.begin_snapshot(1).is_none(), "in the middle of an entry");
    harness.group.reset();
    harness.apply(&sealed.bytes);
    assert_eq!(harness.value(b"k").map(|value| value.len()), Some(100));
    assert_eq!(harness.outcomes().len(), 1);
}

#[test]
fn a_snapshot_is_due_after_some_bytes_and_when_somebody_asks() {
    let due = |harness: &mut Harness| {
        harness.submit(1, set(0, b"k", &[b'x'; 500]), 1);
        let sealed = harness.seal();
        harness.apply(&sealed.bytes) == Applied::Done { snapshot_due: true }
    };
    let mut harness =
        Harness::of(todana_group::GroupOptions { snapshot_log_bytes: Some(3_000), ..options(1) });
    let entries = (0..100).take_while(|_| !due(&mut harness)).count();
    assert_eq!(entries, 3);
    assert!(harness.group.figures().log_bytes > 3_000);
    drop(snapshot(&harness.group));
    assert_eq!(harness.group.figures().log_bytes, 0);
    assert!(!due(&mut harness));
    harness.group.request_snapshot();
    let mark = harness.seal();
    assert_eq!(harness.apply(&mark.bytes), Applied::Done { snapshot_due: true });
    // A user's snapshot is waited for, up to a quarter more.
    drop(snapshot(&harness.group));
    let users = harness.group.databases().table(0).snapshot_owned();
    let entries = (0..100).take_while(|_| !due(&mut harness)).count();
    assert_eq!(entries, 4);
    drop(users);
    assert!(due(&mut harness));
}

/// All have the same log, and not all write at the same time.
#[test]
fn the_members_of_a_cluster_make_their_snapshots_after_different_entries() {
    let entries_until_due = |incarnation| {
        let options = options(incarnation);
        let mut harness = Harness::of(todana_group::GroupOptions {
            snapshot_log_bytes: Some(100_000),
            ..options
        });
        harness.group.set_others(Some(2));
        let is_due = |harness: &mut Harness| {
            harness.submit(1, set(0, b"k", &[b'x'; 500]), 1);
            let sealed = harness.seal();
            harness.apply(&sealed.bytes) == Applied::Done { snapshot_due: true }
        };
        (1..1_000).find(|_| is_due(&mut harness)).expect("a snapshot is due")
    };
    let mut found: Vec<usize> = (1..=8).map(entries_until_due).collect();
    found.sort_unstable();
    found.dedup();
    assert!(found.len() > 4, "{found:?}");
    // 100,000 bytes, and three quarters of them, with some bytes around each value.
    assert!(found.iter().all(|entries| (75..=150).contains(entries)), "{found:?}");
}

/// The time of a start depends on the number of entries, too.
#[test]
fn each_entry_counts_however_short_it_is() {
    let entries_until_due = |records: usize| {
        let mut harness = Harness::of(todana_group::GroupOptions {
            snapshot_log_bytes: Some(100_000),
            ..options(1)
        });
        let is_due = |harness: &mut Harness| {
            let sets: Vec<u8> = (0..records).flat_map(|_| set(0, b"k", b"x")).collect();
            harness.submit(1, sets, records);
            let sealed = harness.seal();
            harness.apply(&sealed.bytes) == Applied::Done { snapshot_due: true }
        };
        (1..100_000).find(|_| is_due(&mut harness)).expect("a snapshot is due")
    };
    let most = 100_000 / usize::try_from(todana_group::ENTRY_BYTES).expect("small");
    let (single, many) = (entries_until_due(1), entries_until_due(100));
    assert!((most / 2..=most).contains(&single), "{single}");
    assert!(many < single / 2, "{many} of {single}");
}

fn damage(result: Result<impl Sized, SnapshotError>) -> SnapshotError {
    match result {
        Ok(_) => panic!("damage was not found"),
        Err(error) => error,
    }
}

#[test]
fn every_flipped_bit_is_found() {
    let mut live = Harness::new();
    live.commit([set(0, b"a", b"1"), set(3, b"b", &[7; 300])].concat(), 2);
    let place = snapshot(&live.group);
    let whole = fs::read(&place.0).expect("whole");
    let damaged = Place::new();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&damaged.0, &bytes).expect("room");
        let error = damage(SnapshotFile::verify(&damaged.0));
        let sentence = error.to_string();
        assert!(sentence.contains(damaged.0.to_str().expect("a name")), "{sentence}");
        assert!(error.offset <= whole.len() as u64);
        if at % 8 == 0 {
            let group = Harness::of(options(2)).group;
            damage(group.restore(&damaged.0, 2));
            assert_eq!(group.gate(), Gate::Closed);
        }
    }
}

#[test]
fn a_file_that_is_cut_off_anywhere_is_found() {
    let mut live = Harness::new();
    live.commit(set(0, b"a", &[1; 100]), 1);
    let place = snapshot(&live.group);
    let whole = fs::read(&place.0).expect("whole");
    let cut = Place::new();
    for length in 0..whole.len() {
        fs::write(&cut.0, &whole[..length]).expect("room");
        let error = damage(SnapshotFile::verify_header(&cut.0));
        let expected = match length {
            ..8 => matches!(error.damage, Damage::NotASnapshot),
            _ => matches!(error.damage, Damage::Unfinished),
        };
        assert!(expected && error.is_damage(), "{length}: {error}");
    }
}

#[test]
fn errors_name_the_file_and_the_cause() {
    let live = Harness::new();
    let place = snapshot(&live.group);
    let other = Harness::of(todana_group::GroupOptions { seed: 8, ..options(2) });
    let error = damage(other.group.restore(&place.0, 1));
    assert!(matches!(error.damage, Damage::OtherGroup) && !error.is_damage());
    let name = place.0.display();
    assert_eq!(error.to_string(), format!("{name} belongs to another data directory"));

    let error = damage(SnapshotFile::open(Path::new("/nowhere/data.tds")));
    assert!(!error.is_damage());
    let expected =
        "cannot read /nowhere/data.tds at offset 0: No such file or directory (os error 2)";
    assert_eq!(error.to_string(), expected);

    let mut bytes = fs::read(&place.0).expect("whole");
    bytes[8] = 3;
    fs::write(&place.0, &bytes).expect("room");
    let error = damage(SnapshotFile::open(&place.0));
    let expected = format!("{name} has format 3: a newer version of Todana has written it");
    assert_eq!((error.to_string(), error.is_damage()), (expected, false));
}

#[test]
fn batches_that_a_snapshot_contains_are_unknown_and_the_others_stay_in_flight() {
    let (member, mut leader) = (Harness::new(), Harness::of(options(2)));
    member.submit(1, append(b"k", b"1"), 1);
    let first = member.seal();
    member.submit(2, append(b"k", b"2"), 1);
    let second = member.seal();
    member.submit(3, append(b"k", b"3"), 1);
    let third = member.seal();
    member.group.await_applied(2, Ticket { place: (0, 0), number: 9 }, member.outcomes.clone());
    leader.apply(&first.bytes);
    leader.apply(&third.bytes);
    member.group.restore(&snapshot(&leader.group).0, 1).expect("a whole file");
    let mut seen = member.outcomes();
    seen.sort_by_key(|(number, _)| *number);
    let dropped = (9, Seen::Dropped);
    assert_eq!(seen, [(1, Seen::Unknown), (3, Seen::Unknown), dropped]);
    assert_eq!(member.group.in_flight(), [second.sequence]);
    member.group.set_gate(Gate::Open, "");
    let applied = member.group.apply(&second.bytes, 0, 3, NOW_MS, SLICE);
    assert_eq!(applied, Applied::Done { snapshot_due: false });
    assert!(matches!(member.outcomes()[..], [(2, Seen::Applied(_))]));
    assert_eq!(member.value(b"k").as_deref(), Some(&b"132"[..]));
    assert!(member.group.in_flight().is_empty());
}
