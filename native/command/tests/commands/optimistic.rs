//! Optimistic commits: what is checked, and that nothing is written where they are refused.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use todana_command::{
    Check, DATABASES, Databases, Expires, KeyState, OptimisticCommit, Place, Uncommitted, Write,
    commit, look_up_state,
};
use todana_table::{Entry, KeyOrder, Keyspace, Limits, Options, Table, WhenFull, entry_bytes};

const NOW_MS: u64 = 1_800_000_000_000;

fn put<'a>(key: &'a [u8], value: &'a [u8], expires: Expires) -> Write<'a> {
    Write { key, put: Some((value, 0, expires)) }
}

fn set<'a>(key: &'a [u8], value: &'a [u8]) -> Write<'a> {
    put(key, value, Expires::Never)
}

fn remove(key: &[u8]) -> Write<'_> {
    Write { key, put: None }
}

fn run(place: Place<'_>, checks: &[Check<'_>], writes: &[Write<'_>]) -> Result<(), Uncommitted> {
    commit(place, &OptimisticCommit { checks, writes }, NOW_MS)
}

fn value(place: Place<'_>, key: &[u8]) -> (Option<Vec<u8>>, KeyState) {
    look_up_state(place, key, NOW_MS, |entry| entry.map(|entry| entry.stored().bytes().to_vec()))
}

fn check<'a>(place: Place<'_>, key: &'a [u8]) -> Check<'a> {
    Check { key, state: value(place, key).1 }
}

/// A table, and each of the same options as a database.
fn each_place(options: &Options, test: impl Fn(Place<'_>, &Table)) {
    let table = Table::new(options.clone());
    test(Place::Table(&table), &table);
    let databases = Databases::with_options(options);
    assert!(databases.swap(0, 3), "numbers are no indexes");
    for number in [0, DATABASES - 1] {
        test(Place::Database(&databases, number), databases.table(number));
    }
}

fn kinds() -> [Options; 2] {
    let order = Some(KeyOrder::default());
    [Options::default(), Options { order, ..Options::default() }]
}

#[test]
fn a_commit_writes_all_where_nothing_that_was_read_has_changed() {
    for options in kinds() {
        each_place(&options, |place, table| {
            let absent = check(place, b"a");
            assert_eq!(absent.state, KeyState::Absent);
            run(place, &[absent], &[set(b"a", b"1"), set(b"b", b"2")]).expect("nothing changed");
            let [a, b] = [check(place, b"a"), check(place, b"b")];
            run(place, &[a, b], &[set(b"a", b"3"), remove(b"b"), remove(b"never")]).expect("same");
            assert_eq!(value(place, b"a").0.as_deref(), Some(&b"3"[..]));
            assert_eq!((value(place, b"b").0, table.len()), (None, 1));
            run(place, &[], &[]).expect("nothing to do");
        });
    }
}

#[test]
fn a_commit_after_another_state_was_read_writes_nothing() {
    each_place(&Options::default(), |place, table| {
        run(place, &[], &[set(b"a", b"1"), set(b"b", b"2")]).expect("room");
        let [a, b, absent] = [b"a", b"b", b"c"].map(|key| check(place, key));
        let changes: [&[Write<'_>]; 3] =
            [&[set(b"a", b"1")], &[remove(b"b")], &[set(b"c", b"created")]];
        for change in changes {
            run(place, &[], change).expect("room");
            let before = table.version();
            let refused = run(place, &[a, b, absent], &[set(b"d", b"4"), remove(b"a")]);
            assert_eq!(refused, Err(Uncommitted::Conflict));
            assert_eq!((table.version(), value(place, b"d").0), (before, None));
            run(place, &[], &[remove(b"a"), remove(b"b"), remove(b"c")]).expect("room");
        }
        // A key that is absent again is what it was.
        run(place, &[absent], &[set(b"d", b"4")]).expect("absent again");
    });
}

#[test]
fn a_record_that_expired_meanwhile_is_a_conflict() {
    each_place(&Options::default(), |place, _| {
        run(place, &[], &[put(b"a", b"1", Expires::At(NOW_MS + 1))]).expect("room");
        let checks = [check(place, b"a")];
        let late = OptimisticCommit { checks: &checks, writes: &[set(b"b", b"2")] };
        assert_eq!(commit(place, &late, NOW_MS + 1), Err(Uncommitted::Conflict));
        commit(place, &late, NOW_MS).expect("it lives");
    });
}

#[test]
fn expiries_and_flags_are_as_asked() {
    each_place(&Options::default(), |place, _| {
        let meta = |key: &[u8]| {
            let meta = |entry: Entry<'_>| (entry.expires_at_ms(), entry.flags());
            look_up_state(place, key, NOW_MS, |entry| entry.map(meta)).0
        };
        let at = Expires::At(NOW_MS + 9);
        let flagged = Write { key: b"a", put: Some((b"1", 7, at)) };
        run(place, &[], &[flagged, set(b"b", b"1")]).expect("room");
        assert_eq!(meta(b"a"), Some((Some(NOW_MS + 9), 7)));
        let keep = |key| put(key, b"2", Expires::Keep);
        run(place, &[], &[keep(b"a"), keep(b"b"), keep(b"new")]).expect("room");
        assert_eq!(
            [b"a", b"b"].map(|key| meta(key)),
            [Some((Some(NOW_MS + 9), 0)), Some((None, 0))]
        );
        assert_eq!(meta(b"new"), Some((None, 0)));
        run(place, &[], &[put(b"a", b"3", Expires::At(NOW_MS))]).expect("room");
        assert_eq!(meta(b"a"), None, "that moment has passed");
    });
}

#[test]
fn a_refused_commit_leaves_no_trace() {
    let bytes_max = Some(2 * entry_bytes(1, 100, &Default::default()));
    let limits = |when_full| Limits { bytes_max, when_full, ..Limits::default() };
    for when_full in [WhenFull::Refuse, WhenFull::Evict] {
        let table = Table::new(Options { limits: limits(when_full), ..Options::default() });
        let place = Place::Table(&table);
        let (small, large) = ([1; 100], [2; 1_000]);
        run(place, &[], &[set(b"a", &small)]).expect("room");
        let before = (table.version(), table.bytes());
        // The last one fits neither beside the others nor alone.
        let writes = [remove(b"a"), set(b"b", &small), set(b"c", &large)];
        assert_eq!(run(place, &[], &writes), Err(Uncommitted::Full), "{when_full:?}");
        assert_eq!((table.version(), table.bytes()), before);
        if when_full == WhenFull::Refuse {
            let writes = [set(b"b", &small), set(b"c", &small)];
            assert_eq!(run(place, &[], &writes), Err(Uncommitted::Full));
            assert_eq!((table.version(), table.bytes()), before);
        }
        run(place, &[], &[set(b"a", &small), set(b"b", &small)]).expect("room for two");
    }
}

#[test]
fn more_than_one_step_may_do_is_refused() {
    let table = Table::new(Options::default());
    let keys: Vec<[u8; 4]> = (0..13_108u32).map(u32::to_le_bytes).collect();
    let writes: Vec<Write<'_>> = keys.iter().map(|key| set(key, b"v")).collect();
    let place = Place::Table(&table);
    assert_eq!(run(place, &[], &writes), Err(Uncommitted::TooMuchWork));
    assert!(table.is_empty());
    run(place, &[], &writes[1..]).expect("65,535 units");
    assert_eq!(table.len(), 13_107);
}

/// Two databases that were filled alike have the same versions.
#[test]
fn a_record_of_an_exchanged_database_is_another_one() {
    let databases = Databases::with_options(&Options::default());
    for number in [0, 1] {
        let value = [number as u8];
        run(Place::Database(&databases, number), &[], &[set(b"a", &value)]).expect("room");
    }
    let place = Place::Database(&databases, 0);
    let a = check(place, b"a");
    assert!(databases.swap(0, 1));
    assert_eq!(run(place, &[a], &[set(b"a", b"x")]), Err(Uncommitted::Conflict));
    assert!(databases.swap(0, 1));
    run(place, &[a], &[set(b"a", b"x")]).expect("it is the one that was read");
    let nowhere = Place::Database(&databases, DATABASES);
    assert_eq!(run(nowhere, &[], &[set(b"a", b"x")]), Err(Uncommitted::Conflict));
}

#[test]
fn concurrent_transfers_keep_the_sum() {
    const ACCOUNTS: u64 = 8;
    const START: u64 = 1_000;
    let key = |account: u64| account.to_le_bytes();
    each_place(&Options { shards: Some(4), ..Options::default() }, |place, _| {
        for account in 0..ACCOUNTS {
            run(place, &[], &[set(&key(account), &START.to_le_bytes())]).expect("room");
        }
        let balance = |account: u64| {
            let (value, state) = value(place, &key(account));
            (u64::from_le_bytes(value.expect("there").try_into().expect("8 bytes")), state)
        };
        let conflicts = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let conflicts = &conflicts;
                scope.spawn(move || {
                    for round in 0..2_000 {
                        let from = (thread + round) % ACCOUNTS;
                        let to = (from + 1 + round % 3) % ACCOUNTS;
                        let ((have, a), (had, b)) = (balance(from), balance(to));
                        let less = have.wrapping_sub(1).to_le_bytes();
                        let more = had.wrapping_add(1).to_le_bytes();
                        let [from, to] = [key(from), key(to)];
                        let checks = [Check { key: &from, state: a }, Check { key: &to, state: b }];
                        let writes = [set(&from, &less), set(&to, &more)];
                        match run(place, &checks, &writes) {
                            Ok(()) => {}
                            Err(Uncommitted::Conflict) => {
                                conflicts.fetch_add(1, SeqCst);
                            }
                            Err(refused) => panic!("{refused:?}"),
                        }
                    }
                });
            }
        });
        let sum = (0..ACCOUNTS).map(|account| balance(account).0).fold(0, u64::wrapping_add);
        assert_eq!(sum, ACCOUNTS * START, "{conflicts:?} conflicts");
    });
}
