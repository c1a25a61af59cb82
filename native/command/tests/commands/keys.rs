//! Keys: expiry, renaming, copying, listing, leases.

use crate::recorder::{Answer, Store, value};
use todana_command::{
    Command, Condition, DatabaseCommand, Error, ExpireWhen, Expires, KeyCommand, LcsWant,
    LeaseCommand, LeaseOptions, LeaseState, Refusal, Set, StringCommand,
};

fn expire(expires: Expires, when: ExpireWhen) -> Command<'static> {
    Command::Key(KeyCommand::Expire { key: b"k", expires, when })
}

#[test]
fn expiry_conditions_follow_redis() {
    let when = |if_none, if_some, if_later, if_earlier| ExpireWhen {
        if_none,
        if_some,
        if_later,
        if_earlier,
    };
    let (nx, xx) = (when(true, false, false, false), when(false, true, false, false));
    let (gt, lt) = (when(false, false, true, false), when(false, false, false, true));
    let at = Expires::At;
    let mut store = Store::new();
    assert_eq!(store.run(expire(at(5_000_000), nx)), Answer::Flag(false));
    store.set("k", "v");
    assert_eq!(store.run(expire(at(5_000_000), xx)), Answer::Flag(false));
    assert_eq!(store.run(expire(at(5_000_000), gt)), Answer::Flag(false));
    assert_eq!(store.run(expire(at(5_000_000), lt)), Answer::Flag(true));
    assert_eq!(store.run(expire(at(6_000_000), nx)), Answer::Flag(false));
    assert_eq!(store.run(expire(at(6_000_000), lt)), Answer::Flag(false));
    assert_eq!(store.run(expire(at(6_000_000), gt)), Answer::Flag(true));
    assert_eq!(store.run(expire(at(7_000_000), xx)), Answer::Flag(true));
    let always = ExpireWhen::default();
    assert_eq!(store.run(expire(Expires::Never, always)), Answer::Flag(true));
    assert_eq!(store.run(expire(Expires::Never, always)), Answer::Flag(false));
    assert_eq!(store.run(expire(at(0), always)), Answer::Flag(true));
    assert_eq!(store.get("k"), None);
}

#[test]
fn renaming_moves_value_and_expiry() {
    let mut store = Store::new();
    let rename = |if_absent| Command::Key(KeyCommand::Rename { from: b"a", to: b"b", if_absent });
    assert_eq!(store.run(rename(false)), Answer::Refused(Refusal::Absent));
    store.run(Command::String(StringCommand::Set(Set {
        expires: Expires::At(9_000_000),
        ..Set::new(b"a", b"1")
    })));
    store.set("b", "2");
    assert_eq!(store.run(rename(true)), Answer::Refused(Refusal::Present));
    assert_eq!(store.run(rename(false)), Answer::Done);
    assert_eq!(store.get("a"), None);
    assert_eq!(
        store.run(Command::Key(KeyCommand::Expiry { key: b"b" })),
        Answer::Expiry(Some(9_000_000))
    );
    let same = Command::Key(KeyCommand::Rename { from: b"b", to: b"b", if_absent: false });
    assert_eq!(store.run(same), Answer::Done);
    assert_eq!(store.get("b").as_deref(), Some("1"));
}

#[test]
fn records_are_copied_and_moved_between_databases() {
    let mut store = Store::new();
    store.set("a", "1");
    let to = |database| Command::Key(KeyCommand::Move { key: b"a", database });
    assert_eq!(store.run(to(0)), Answer::Error(Error::SameObject));
    assert_eq!(store.run(to(16)), Answer::Error(Error::NoSuchDatabase));
    assert_eq!(store.run(to(3)), Answer::Flag(true));
    assert_eq!(store.run(to(3)), Answer::Flag(false));
    let back = |database, replace| {
        Command::Key(KeyCommand::Copy { from: b"a", to: b"b", database, replace })
    };
    assert_eq!(store.run_in(3, back(Some(0), false)), Answer::Flag(true));
    assert_eq!(store.run_in(3, back(Some(0), false)), Answer::Flag(false));
    assert_eq!(store.run_in(3, back(Some(0), true)), Answer::Flag(true));
    assert_eq!(store.run_in(3, back(None, false)), Answer::Flag(true));
    assert_eq!(store.get("b").as_deref(), Some("1"));
    assert_eq!(
        store.run(Command::Database(DatabaseCommand::Swap { first: 0, second: 3 })),
        Answer::Done
    );
    assert_eq!(store.run_in(0, Command::Database(DatabaseCommand::Count)), Answer::Integer(2));
    assert_eq!(store.run_in(3, Command::Database(DatabaseCommand::Count)), Answer::Integer(1));
    assert_eq!(
        store.run(Command::Database(DatabaseCommand::ClearAll { at_ms: None })),
        Answer::Done
    );
    assert_eq!(store.run_in(3, Command::Database(DatabaseCommand::Count)), Answer::Integer(0));
}

#[test]
fn keys_are_counted_and_deleted_by_name() {
    let mut store = Store::new();
    store.set("a", "1");
    store.set("b", "2");
    let keys: [&[u8]; 3] = [b"a", b"a", b"none"];
    assert_eq!(store.run(Command::Key(KeyCommand::Exists { keys: &keys })), Answer::Integer(2));
    assert_eq!(store.run(Command::Key(KeyCommand::NoteAccess { keys: &keys })), Answer::Integer(2));
    assert_eq!(store.run(Command::Key(KeyCommand::Delete { keys: &keys })), Answer::Integer(1));
    let delete_if = |condition| Command::Key(KeyCommand::DeleteIf { key: b"b", condition });
    let version = store.run(Command::String(StringCommand::Get { key: b"b" }));
    assert_eq!(version, value("2"));
    let wrong = delete_if(Condition::IfVersion(store.version + 1));
    assert_eq!(store.run(wrong), Answer::Refused(Refusal::VersionDiffers));
    assert_eq!(store.run(delete_if(Condition::Always)), Answer::Done);
    assert_eq!(store.run(delete_if(Condition::Always)), Answer::Refused(Refusal::Absent));
}

#[test]
fn a_scan_of_pages_finds_each_matching_key() {
    let mut store = Store::new();
    for n in 0..500 {
        store.set(&format!("user:{n}"), "x");
        store.set(&format!("page:{n}"), "x");
    }
    let (mut cursor, mut found) = (0, Vec::new());
    loop {
        let pattern = Some(&b"user:*"[..]);
        let scan =
            Command::Database(DatabaseCommand::Scan { cursor, count: 10, pattern, values: false });
        let mut answers = store.all(scan).into_iter();
        let Some(Answer::Page(next, length)) = answers.next() else { panic!("no page") };
        assert_eq!(answers.len(), length);
        found.extend(answers);
        cursor = next;
        if cursor == 0 {
            break;
        }
    }
    found.sort_by_key(|answer| format!("{answer:?}"));
    found.dedup();
    assert_eq!(found.len(), 500);
    let keys = store.all(Command::Database(DatabaseCommand::Keys { pattern: b"page:1?" }));
    assert_eq!(keys[0], Answer::List(10));
    let one = store.run(Command::Database(DatabaseCommand::RandomKey { seed: 42 }));
    assert_eq!(store.run(Command::Database(DatabaseCommand::RandomKey { seed: 42 })), one);
}

#[test]
fn keys_of_a_slot_are_found_among_others() {
    let mut store = Store::new();
    for n in 0..300 {
        store.set(&format!("{{user}}:{n}"), "x");
        store.set(&format!("page:{n}"), "x");
    }
    let slot = todana_command::slot_of(b"user");
    let others =
        (0..300).filter(|n| slot == todana_command::slot_of(format!("page:{n}").as_bytes()));
    let expected = 300 + others.count();
    let found = |store: &mut Store, count| {
        let mut answers =
            store.all(Command::Database(DatabaseCommand::KeysOfSlot { slot, count })).into_iter();
        let Some(Answer::List(length)) = answers.next() else { panic!("no list") };
        assert_eq!(answers.len(), length);
        length
    };
    assert_eq!(found(&mut store, usize::MAX), expected);
    assert_eq!(found(&mut store, 10), 10);
    assert_eq!(found(&mut store, 0), 0);
}

#[test]
fn a_lease_is_won_once() {
    let mut store = Store::new();
    let lease = |options| Command::Lease(LeaseCommand::Get { key: b"k", options });
    let state = |answer| match answer {
        Answer::Lease { state, .. } => state,
        other => panic!("{other:?}"),
    };
    assert_eq!(store.run(lease(LeaseOptions::default())), Answer::None);
    let vivify = LeaseOptions { vivify: Some(Expires::At(2_000_000)), ..LeaseOptions::default() };
    let first = state(store.run(lease(vivify)));
    assert_eq!((first.won, first.created, first.already_won), (true, true, false));
    let second = state(store.run(lease(vivify)));
    assert_eq!((second.won, second.created, second.already_won), (false, false, true));

    let set = Set { expires: Expires::At(1_030_000), track_access: true, ..Set::new(b"k", b"v") };
    store.run(Command::String(StringCommand::Set(set)));
    let recache = |below_ms| {
        lease(LeaseOptions { recache_below_ms: Some(below_ms), ..LeaseOptions::default() })
    };
    assert!(!state(store.run(recache(30_000))).won);
    store.now_ms += 5_000;
    let won = state(store.run(recache(30_000)));
    assert_eq!((won.won, won.fetched_before, won.idle_s), (true, true, 5));
    assert_eq!(
        state(store.run(recache(30_000))),
        LeaseState { already_won: true, fetched_before: true, ..LeaseState::default() }
    );
}

#[test]
fn an_invalidated_record_is_stale_and_offered_once() {
    let mut store = Store::new();
    store.set("k", "v");
    let invalidate = Command::Lease(LeaseCommand::Invalidate {
        key: b"k",
        condition: Condition::Always,
        expires: Expires::At(9_000_000),
    });
    assert_eq!(store.run(invalidate), Answer::Done);
    let lease =
        || Command::Lease(LeaseCommand::Get { key: b"k", options: LeaseOptions::default() });
    let Answer::Lease { value, state } = store.run(lease()) else { panic!("no lease") };
    assert_eq!((value, state.stale, state.won), (b"v".to_vec(), true, true));
    let Answer::Lease { state, .. } = store.run(lease()) else { panic!("no lease") };
    assert_eq!((state.stale, state.won, state.already_won), (true, false, true));
    assert_eq!(
        store.run(Command::Key(KeyCommand::Expiry { key: b"k" })),
        Answer::Expiry(Some(9_000_000))
    );
}

#[test]
fn the_longest_common_subsequence_is_that_of_redis_documentation() {
    let mut store = Store::new();
    store.set("a", "ohmytext");
    store.set("b", "mynewtext");
    let lcs = |want| Command::String(StringCommand::Lcs { keys: [b"a", b"b"], want });
    assert_eq!(store.run(lcs(LcsWant::Text)), Answer::Bytes(b"mytext".into()));
    assert_eq!(store.run(lcs(LcsWant::Length)), Answer::Integer(6));
    let spans = |length_min| LcsWant::Spans { length_min, with_lengths: true };
    let Answer::Matches(found, 6) = store.run(lcs(spans(0))) else { panic!("no matches") };
    let pairs: Vec<_> = found.iter().map(|span| (span.first, span.second)).collect();
    assert_eq!(pairs, [((4, 7), (5, 8)), ((2, 3), (0, 1))]);
    let Answer::Matches(found, 6) = store.run(lcs(spans(4))) else { panic!("no matches") };
    assert_eq!(found.len(), 1);
    store.set("a", &"x".repeat(1 << 13));
    store.set("b", &"x".repeat(1 << 12));
    assert_eq!(store.run(lcs(LcsWant::Length)), Answer::Integer(1 << 12));
    store.set("b", &"x".repeat((1 << 12) + 1));
    assert_eq!(store.run(lcs(LcsWant::Length)), Answer::Error(Error::ValueTooLarge));
}

#[test]
fn clearing_can_wait_for_its_time() {
    let mut store = Store::new();
    store.set("a", "1");
    let at_ms = Some(store.now_ms + 1_000);
    assert_eq!(store.run(Command::Database(DatabaseCommand::Clear { at_ms })), Answer::Done);
    store.now_ms += 999;
    store.set("b", "2");
    assert_eq!(store.get("a").as_deref(), Some("1"));
    store.now_ms += 1;
    assert_eq!((store.get("a"), store.get("b")), (None, None));
    store.set("c", "3");
    assert_eq!(store.get("c").as_deref(), Some("3"));
}
