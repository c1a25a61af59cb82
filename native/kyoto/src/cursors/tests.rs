use super::*;
use crate::reading::Reading;
use crate::testing::FakeHost;
use crate::walk::see;
use std::sync::Arc;
use todana_command::{
    Command, DatabaseCommand, Databases, Expires, KeyCommand, Set, StringCommand,
};
use todana_protocol::ProtocolName;
use todana_protocol::testing::START_MS;
use todana_table::{Comparison, KeyOrder, Options};

pub(super) const NO_RECORD: &str = "DB: 7: no record: no record";
const NOT_IMPLEMENTED: &str = "DB: 1: not implemented: not implemented";
pub(super) const LEXICAL: Option<KeyOrder> =
    Some(KeyOrder { comparison: Comparison::Lexical, descending: false });
pub(super) const DESCENDING: Option<KeyOrder> =
    Some(KeyOrder { comparison: Comparison::Lexical, descending: true });

/// A connection to databases of one kind.
pub(super) struct Connection {
    pub(super) host: FakeHost,
    cursors: Cursors,
    /// Turns that the last procedure took.
    turns: usize,
}

impl Connection {
    pub(super) fn new(order: Option<KeyOrder>) -> Connection {
        let options = Options { shards: Some(16), seed: Some(7), order, ..Options::default() };
        let databases = Arc::new(Databases::with_options(&options));
        let mut host = FakeHost::on(databases, ProtocolName::Kyoto);
        host.part.kyoto.databases = vec![Default::default(); 2];
        Connection { host, cursors: Cursors::default(), turns: 0 }
    }

    /// A database whose values are their keys in capitals.
    fn with(order: Option<KeyOrder>, keys: &[&str]) -> Connection {
        let mut connection = Connection::new(order);
        keys.iter().for_each(|key| connection.put(key, Expires::Never));
        connection
    }

    /// A write by another client.
    pub(super) fn put(&mut self, key: &str, expires: Expires) {
        let value = key.to_uppercase();
        let set = Set { expires, ..Set::new(key.as_bytes(), value.as_bytes()) };
        self.others(0, &Command::String(StringCommand::Set(set)));
    }

    pub(super) fn remove(&mut self, key: &str) {
        self.others(0, &Command::Key(KeyCommand::Delete { keys: &[key.as_bytes()] }));
    }

    fn others(&mut self, database: usize, command: &Command<'_>) {
        let mut out = Vec::new();
        let mut turn = Turn::new(&mut self.host, &mut out);
        see(&mut turn, database, command, &mut |_| {}).expect("a command that succeeds");
    }

    /// Sends a request. Returns the outputs as `name=value` in order of arrival, or the error.
    pub(super) fn ask(&mut self, row: Row, query: &str) -> String {
        let mut reading = Reading::new(query.as_bytes(), None, b"".into()).expect("a query");
        assert!(reading.step(), "a short query");
        let inputs = reading.finish().expect("few inputs");
        let database = self.host.part.kyoto.resolve(inputs.get(b"DB").unwrap_or_default());
        let mut out = Vec::new();
        let mut turn = Turn::new(&mut self.host, &mut out);
        let mut outputs = Outputs::default();
        let chosen = self.cursors.choose(&inputs, database);
        let done = chosen.and_then(|chosen| {
            let cursors = &mut self.cursors;
            let mut done = run(&mut turn, cursors, row, chosen, &inputs, &mut outputs);
            self.turns = 1;
            while is_unfinished(&done) {
                done = resume(&mut turn, cursors, row, chosen, &inputs, &mut outputs);
                self.turns += 1;
            }
            done
        });
        let (hits, misses) = turn.lookups;
        self.host.lookups.0 += hits;
        self.host.lookups.1 += misses;
        if let Err(failure) = done {
            return failure.text.into_owned();
        }
        let text = |(start, end): (usize, usize)| outputs.bytes[start..end].escape_ascii();
        let lines = outputs.lines.iter();
        let lines = lines.map(|line| format!("{}={}", text(line.name), text(line.value)));
        lines.collect::<Vec<_>>().join(" ")
    }

    #[track_caller]
    fn check(&mut self, row: Row, query: &str, expected: &str) {
        assert_eq!(self.ask(row, query), expected, "{row:?} {query}");
    }

    /// The keys from the cursor on.
    fn keys(&mut self) -> Vec<String> {
        let mut keys = Vec::new();
        loop {
            let key = self.ask(Row::CurGetKey, "CUR=1&step");
            match key.strip_prefix("key=") {
                Some(key) => keys.push(key.to_owned()),
                None => {
                    assert_eq!(key, NO_RECORD);
                    return keys;
                }
            }
        }
    }
}

#[test]
fn jump_goes_to_the_first_record_and_steps_to_the_others() {
    let mut connection = Connection::with(LEXICAL, &["c", "a", "b"]);
    connection.check(Row::CurJump, "CUR=1", "");
    connection.check(Row::CurGetKey, "CUR=1", "key=a");
    connection.check(Row::CurStep, "CUR=1", "");
    connection.check(Row::CurGetKey, "CUR=1", "key=b");
    connection.check(Row::CurStepBack, "CUR=1", "");
    connection.check(Row::CurGetKey, "CUR=1", "key=a");
    assert_eq!(connection.keys(), ["a"], "the last step was backward");
    connection.check(Row::CurJump, "CUR=1", "");
    assert_eq!(connection.keys(), ["a", "b", "c"]);
}

#[test]
fn a_walk_without_order_meets_every_record_once() {
    let keys: Vec<String> = (0..200).map(|number| format!("key{number:03}")).collect();
    let mut connection = Connection::new(None);
    keys.iter().for_each(|key| connection.put(key, Expires::Never));
    connection.check(Row::CurJump, "CUR=1", "");
    let mut met = connection.keys();
    met.sort();
    assert_eq!(met, keys);
}

#[test]
fn an_empty_database_has_no_first_record() {
    for order in [None, LEXICAL] {
        let mut connection = Connection::new(order);
        connection.check(Row::CurJump, "CUR=1", NO_RECORD);
        connection.check(Row::CurGet, "CUR=1", NO_RECORD);
    }
    Connection::new(LEXICAL).check(Row::CurJumpBack, "CUR=1", NO_RECORD);
}

#[test]
fn a_cursor_that_is_not_set_meets_no_record() {
    let mut connection = Connection::with(LEXICAL, &["a"]);
    let rows = [Row::CurStep, Row::CurStepBack, Row::CurRemove, Row::CurGetKey];
    for row in rows.into_iter().chain([Row::CurGetValue, Row::CurGet, Row::CurSeize]) {
        connection.check(row, "CUR=1", NO_RECORD);
    }
    connection.check(Row::CurSetValue, "CUR=1&value=x", NO_RECORD);
}

#[test]
fn a_jump_to_a_key_lands_beside_it_in_the_order() {
    for (order, at_b, back_at_b) in [(LEXICAL, "c", "a"), (DESCENDING, "a", "c")] {
        let mut connection = Connection::with(order, &["a", "c"]);
        connection.check(Row::CurJump, "CUR=1&key=b", "");
        connection.check(Row::CurGetKey, "CUR=1", &format!("key={at_b}"));
        connection.check(Row::CurJumpBack, "CUR=1&key=b", "");
        connection.check(Row::CurGetKey, "CUR=1", &format!("key={back_at_b}"));
        connection.check(Row::CurJump, "CUR=1&key=c", "");
        connection.check(Row::CurGetKey, "CUR=1", "key=c");
        connection.check(Row::CurJumpBack, "CUR=1&key=c", "");
        connection.check(Row::CurGetKey, "CUR=1", "key=c");
    }
}

#[test]
fn a_jump_to_a_key_without_order_needs_that_key() {
    let mut connection = Connection::with(None, &["a", "c"]);
    connection.check(Row::CurJump, "CUR=1&key=c", "");
    connection.check(Row::CurGetKey, "CUR=1", "key=c");
    connection.check(Row::CurJump, "CUR=1&key=b", NO_RECORD);
}

#[test]
fn a_failed_jump_unsets_the_cursor() {
    for (order, row, query) in [
        (None, Row::CurJump, "CUR=1&key=x"),
        (LEXICAL, Row::CurJump, "CUR=1&key=x"),
        (LEXICAL, Row::CurJumpBack, "CUR=1&key="),
    ] {
        let mut connection = Connection::with(order, &["a"]);
        connection.check(Row::CurJump, "CUR=1", "");
        connection.check(row, query, NO_RECORD);
        connection.check(Row::CurGetKey, "CUR=1", NO_RECORD);
    }
}

#[test]
fn without_order_there_is_no_way_back() {
    let mut connection = Connection::with(None, &["a"]);
    connection.check(Row::CurJump, "CUR=1", "");
    connection.check(Row::CurJumpBack, "CUR=1", NOT_IMPLEMENTED);
    connection.check(Row::CurJumpBack, "CUR=1&key=a", NOT_IMPLEMENTED);
    connection.check(Row::CurStepBack, "CUR=1", NOT_IMPLEMENTED);
    connection.check(Row::CurGetKey, "CUR=1", "key=a");
}

#[test]
fn looks_that_step_go_the_way_of_the_last_move() {
    let mut connection = Connection::with(LEXICAL, &["a", "b", "c", "d"]);
    connection.check(Row::CurJumpBack, "CUR=1", "");
    connection.check(Row::CurGet, "CUR=1&step", "key=d value=D");
    connection.check(Row::CurGetValue, "CUR=1&step=", "value=C");
    connection.check(Row::CurSetValue, "CUR=1&value=new&step=1", "");
    connection.check(Row::CurGetKey, "CUR=1", "key=a");
    connection.check(Row::CurStep, "CUR=1", "");
    connection.check(Row::CurGet, "CUR=1&step", "key=b value=new");
    connection.check(Row::CurGetKey, "CUR=1", "key=c");
}

#[test]
fn beyond_the_ends_there_is_no_record() {
    for order in [LEXICAL, None] {
        let mut connection = Connection::with(order, &["a"]);
        connection.check(Row::CurJump, "CUR=1", "");
        connection.check(Row::CurStep, "CUR=1", NO_RECORD);
        connection.check(Row::CurGetKey, "CUR=1", NO_RECORD);
    }
    let mut connection = Connection::with(LEXICAL, &["a"]);
    connection.check(Row::CurJump, "CUR=1", "");
    connection.check(Row::CurStepBack, "CUR=1", NO_RECORD);
    connection.check(Row::CurGetKey, "CUR=1", NO_RECORD);
}

#[test]
fn the_look_that_steps_off_the_end_succeeds() {
    for order in [LEXICAL, None] {
        let mut connection = Connection::with(order, &["a"]);
        connection.check(Row::CurJump, "CUR=1", "");
        connection.check(Row::CurGet, "CUR=1&step", "key=a value=A");
        connection.check(Row::CurGet, "CUR=1&step", NO_RECORD);
    }
}

#[test]
fn looks_report_when_the_record_expires() {
    let mut connection = Connection::new(LEXICAL);
    connection.put("a", Expires::At(START_MS + 61_000));
    connection.check(Row::CurJump, "CUR=1", "");
    let xt = START_MS / 1000 + 60;
    connection.check(Row::CurGet, "CUR=1", &format!("key=a value=A xt={xt}"));
    connection.check(Row::CurGetValue, "CUR=1", "value=A");
    connection.host.part.kyoto.databases[0].persistent = true;
    connection.check(Row::CurGet, "CUR=1", "key=a value=A");
}

#[test]
fn set_value_gives_a_new_expiry_or_none() {
    let mut connection = Connection::with(None, &["a"]);
    connection.check(Row::CurJump, "CUR=1", "");
    connection.check(Row::CurSetValue, "CUR=1&value=x&xt=60", "");
    let xt = START_MS / 1000 + 60;
    connection.check(Row::CurGet, "CUR=1", &format!("key=a value=x xt={xt}"));
    connection.check(Row::CurSetValue, "CUR=1&value=", "");
    connection.check(Row::CurGet, "CUR=1", "key=a value=");
}

#[test]
fn set_value_needs_a_value_that_is_not_too_long() {
    let mut connection = Connection::with(None, &["a"]);
    connection.host.limits.value_bytes_max = 4;
    connection.check(Row::CurJump, "CUR=1", "");
    connection.check(Row::CurSetValue, "CUR=1", "invalid parameters");
    let too_long = "DB: 9: system error: the value is too long";
    connection.check(Row::CurSetValue, "CUR=1&value=12345", too_long);
    connection.check(Row::CurGetValue, "CUR=1", "value=A");
}

#[test]
fn remove_moves_on_to_the_record_that_follows() {
    let mut connection = Connection::with(LEXICAL, &["a", "b", "c"]);
    connection.check(Row::CurJump, "CUR=1&key=b", "");
    connection.check(Row::CurRemove, "CUR=1", "");
    connection.check(Row::CurGetKey, "CUR=1", "key=c");
    connection.put("b", Expires::Never);
    connection.check(Row::CurGetKey, "CUR=1", "key=c");
    connection.check(Row::CurRemove, "CUR=1", "");
    connection.check(Row::CurRemove, "CUR=1", NO_RECORD);
    connection.check(Row::CurJump, "CUR=1", "");
    assert_eq!(connection.keys(), ["a", "b"]);
}

#[test]
fn all_records_can_be_removed_one_after_the_other() {
    for order in [LEXICAL, None] {
        let keys: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        let mut connection = Connection::new(order);
        keys.iter().for_each(|key| connection.put(key, Expires::Never));
        connection.check(Row::CurJump, "CUR=1", "");
        for _ in &keys {
            connection.check(Row::CurRemove, "CUR=1", "");
        }
        connection.check(Row::CurRemove, "CUR=1", NO_RECORD);
        connection.check(Row::CurJump, "CUR=1", NO_RECORD);
    }
}

#[test]
fn seize_returns_the_record_and_removes_it() {
    let mut connection = Connection::with(LEXICAL, &["a", "b"]);
    connection.put("a", Expires::At(START_MS + 61_000));
    connection.check(Row::CurJump, "CUR=1", "");
    let xt = START_MS / 1000 + 60;
    connection.check(Row::CurSeize, "CUR=1", &format!("key=a value=A xt={xt}"));
    connection.check(Row::CurSeize, "CUR=1", "key=b value=B");
    connection.check(Row::CurSeize, "CUR=1", NO_RECORD);
    connection.check(Row::CurJump, "CUR=1", NO_RECORD);
}

#[test]
fn remove_and_seize_move_on_backward_after_a_backward_move() {
    let mut connection = Connection::with(LEXICAL, &["a", "b", "c", "d", "e"]);
    connection.check(Row::CurJumpBack, "CUR=1&key=c", "");
    connection.check(Row::CurRemove, "CUR=1", "");
    connection.check(Row::CurGetKey, "CUR=1", "key=b");
    connection.check(Row::CurSeize, "CUR=1", "key=b value=B");
    connection.check(Row::CurGetKey, "CUR=1", "key=a");
    connection.check(Row::CurRemove, "CUR=1", "");
    connection.check(Row::CurGetKey, "CUR=1", NO_RECORD);
    connection.check(Row::CurJump, "CUR=1", "");
    connection.check(Row::CurStep, "CUR=1", "");
    connection.check(Row::CurStepBack, "CUR=1", "");
    connection.check(Row::CurRemove, "CUR=1", "");
    connection.check(Row::CurGetKey, "CUR=1", NO_RECORD);
    connection.check(Row::CurJump, "CUR=1", "");
    assert_eq!(connection.keys(), ["e"]);
}

#[test]
fn all_records_can_be_listed_and_removed_from_the_last_to_the_first() {
    let mut connection = Connection::with(LEXICAL, &["a", "b", "c"]);
    connection.check(Row::CurJumpBack, "CUR=1", "");
    for key in ["c", "b", "a"] {
        let value = key.to_uppercase();
        connection.check(Row::CurSeize, "CUR=1", &format!("key={key} value={value}"));
    }
    connection.check(Row::CurSeize, "CUR=1", NO_RECORD);
}

#[test]
fn a_record_that_others_remove_leaves_the_cursor_on_the_next_in_its_direction() {
    for (row, [first, second]) in [(Row::CurJump, ["d", "e"]), (Row::CurJumpBack, ["b", "a"])] {
        let mut connection = Connection::with(LEXICAL, &["a", "b", "c", "d", "e"]);
        connection.check(row, "CUR=1&key=c", "");
        connection.remove("c");
        connection.check(Row::CurGetKey, "CUR=1", &format!("key={first}"));
        connection.remove(first);
        connection.check(Row::CurSetValue, "CUR=1&value=x", "");
        connection.check(Row::CurGet, "CUR=1", &format!("key={second} value=x"));
        connection.remove(second);
        connection.check(Row::CurGetKey, "CUR=1", NO_RECORD);
    }
}

#[test]
fn a_step_back_from_a_record_that_others_removed_goes_to_the_one_before() {
    for row in [Row::CurJump, Row::CurJumpBack] {
        let mut connection = Connection::with(LEXICAL, &["a", "b", "c"]);
        connection.check(row, "CUR=1&key=c", "");
        connection.remove("c");
        connection.check(Row::CurStepBack, "CUR=1", "");
        connection.check(Row::CurGetKey, "CUR=1", "key=b");
    }
}

#[test]
fn steps_after_a_removal_by_others_begin_at_the_following_record() {
    let mut connection = Connection::with(LEXICAL, &["a", "b", "c", "d"]);
    connection.check(Row::CurJump, "CUR=1&key=b", "");
    connection.remove("b");
    connection.check(Row::CurStep, "CUR=1", "");
    connection.check(Row::CurGetKey, "CUR=1", "key=d");
    connection.remove("d");
    connection.check(Row::CurSeize, "CUR=1", NO_RECORD);
    connection.check(Row::CurJump, "CUR=1&key=a", "");
    connection.remove("a");
    connection.check(Row::CurSeize, "CUR=1", "key=c value=C");
}

#[test]
fn records_that_others_remove_without_order_are_passed_over() {
    let mut connection = Connection::with(None, &["a", "b", "c", "d", "e"]);
    connection.check(Row::CurJump, "CUR=1", "");
    let order = connection.keys();
    connection.check(Row::CurJump, "CUR=1", "");
    for gone in [0, 1, 3] {
        connection.remove(&order[gone]);
    }
    assert_eq!(connection.keys(), [&order[2][..], &order[4][..]]);
}

#[test]
fn expired_records_are_passed_over() {
    let mut connection = Connection::with(LEXICAL, &["b", "d"]);
    for key in ["a", "c", "e"] {
        connection.put(key, Expires::At(START_MS + 1_000));
    }
    connection.host.now_ms += 1_000;
    connection.check(Row::CurJump, "CUR=1", "");
    assert_eq!(connection.keys(), ["b", "d"]);
    connection.check(Row::CurJumpBack, "CUR=1", "");
    assert_eq!(connection.keys(), ["d", "b"]);
    connection.check(Row::CurJump, "CUR=1&key=c", "");
    connection.check(Row::CurGetKey, "CUR=1", "key=d");
    connection.check(Row::CurJumpBack, "CUR=1&key=c", "");
    connection.check(Row::CurGetKey, "CUR=1", "key=b");
}

#[test]
fn many_expired_records_are_passed_over_in_several_turns() {
    /// Keys visited in a turn: two commands, each of eight steps of a walk over 1,024 keys.
    const KEYS_PER_TURN: usize = 16_384;
    let mut connection = Connection::with(LEXICAL, &["a", "z"]);
    let expired = 5 * KEYS_PER_TURN;
    for number in 0..expired {
        connection.put(&format!("m{number:06}"), Expires::At(START_MS + 1_000));
    }
    connection.host.now_ms += 1_000;
    for (row, query, key) in [
        (Row::CurJump, "CUR=1&key=b", "z"),
        (Row::CurStepBack, "CUR=1", "a"),
        (Row::CurStep, "CUR=1", "z"),
        (Row::CurJumpBack, "CUR=1&key=y", "a"),
    ] {
        connection.check(row, query, "");
        assert!(connection.turns >= expired / KEYS_PER_TURN, "{row:?}: {}", connection.turns);
        connection.check(Row::CurGetKey, "CUR=1", &format!("key={key}"));
        assert_eq!(connection.turns, 1);
    }
    // A step from a record that another client removed makes two moves, each over as many turns as
    // needed.
    for key in ["b", "zz"] {
        connection.put(key, Expires::Never);
    }
    connection.check(Row::CurJump, "CUR=1&key=b", "");
    connection.remove("b");
    connection.check(Row::CurStep, "CUR=1", "");
    assert!(connection.turns >= expired / KEYS_PER_TURN);
    connection.check(Row::CurGetKey, "CUR=1", "key=zz");
    connection.remove("zz");
    // A read that steps leaves its move to the next operation.
    connection.check(Row::CurJump, "CUR=1", "");
    connection.check(Row::CurGetKey, "CUR=1&step", "key=a");
    connection.check(Row::CurSeize, "CUR=1", "key=z value=Z");
    assert!(connection.turns > 1);
    assert_eq!(connection.host.lookups, (7, 0), "no turn is taken for a miss");
}

#[test]
fn a_cursor_on_a_record_that_expires_goes_on_in_its_direction() {
    for (row, next) in [(Row::CurJump, "c"), (Row::CurJumpBack, "a")] {
        let mut connection = Connection::with(LEXICAL, &["a", "c"]);
        connection.put("b", Expires::At(START_MS + 1_000));
        connection.check(row, "CUR=1&key=b", "");
        connection.check(Row::CurGetKey, "CUR=1", "key=b");
        connection.host.now_ms += 1_000;
        connection.check(Row::CurGetKey, "CUR=1", &format!("key={next}"));
    }
}

#[test]
fn a_step_from_a_record_that_expired_goes_to_its_neighbour() {
    for (row, next) in [(Row::CurStep, "c"), (Row::CurStepBack, "a")] {
        let mut connection = Connection::with(LEXICAL, &["a", "c", "d"]);
        connection.put("b", Expires::At(START_MS + 1_000));
        connection.check(Row::CurJump, "CUR=1&key=b", "");
        connection.host.now_ms += 1_000;
        connection.check(row, "CUR=1", "");
        connection.check(Row::CurGetKey, "CUR=1", &format!("key={next}"));
    }
}

#[test]
fn expired_records_are_passed_over_by_writes() {
    for order in [LEXICAL, None] {
        let mut connection = Connection::new(order);
        connection.put("a", Expires::At(START_MS + 1_000));
        connection.check(Row::CurJump, "CUR=1", "");
        connection.host.now_ms += 1_000;
        connection.check(Row::CurSetValue, "CUR=1&value=x", NO_RECORD);
        connection.check(Row::CurJump, "CUR=1", NO_RECORD);
    }
}

#[test]
fn records_that_come_before_a_cursor_are_met() {
    let mut connection = Connection::with(LEXICAL, &["a", "e"]);
    connection.check(Row::CurJump, "CUR=1", "");
    connection.check(Row::CurGetKey, "CUR=1&step", "key=a");
    connection.put("f", Expires::Never);
    connection.check(Row::CurGetKey, "CUR=1", "key=e");
    connection.put("b", Expires::Never);
    assert_eq!(connection.keys(), ["e", "f"]);
}

#[test]
fn keys_may_be_empty_and_binary() {
    let mut connection = Connection::with(LEXICAL, &["", "\0", "a\tb", "é"]);
    connection.check(Row::CurJump, "CUR=1", "");
    assert_eq!(connection.keys(), ["", r"\x00", r"a\tb", r"\xc3\xa9"]);
    connection.check(Row::CurJump, "CUR=1&key=", "");
    connection.check(Row::CurGetKey, "CUR=1", "key=");
    connection.check(Row::CurJumpBack, "CUR=1&key=", "");
    connection.check(Row::CurSeize, "CUR=1", "key= value=");
    connection.check(Row::CurGetKey, "CUR=1", NO_RECORD);
}

#[test]
fn a_cursor_stays_with_the_database_it_was_made_on() {
    let mut connection = Connection::with(LEXICAL, &["a"]);
    connection.others(1, &Command::String(StringCommand::Set(Set::new(b"z", b"Z"))));
    connection.check(Row::CurJump, "CUR=1&DB=1", "");
    connection.check(Row::CurJump, "CUR=2", "");
    connection.check(Row::CurGetKey, "CUR=1", "key=z");
    connection.check(Row::CurGetKey, "CUR=1&DB=0", "key=z");
    connection.check(Row::CurGetKey, "CUR=1&DB=nonsense", "key=z");
    connection.check(Row::CurGetKey, "CUR=2&DB=1", "key=a");
}

#[test]
fn requests_without_a_cursor_are_refused() {
    let mut connection = Connection::with(LEXICAL, &["a"]);
    for query in
        ["", "CUR=", "CUR=x", "CUR=-1", "CUR=+1", "CUR=9223372036854775808", "CUR=1&DB=nonsense"]
    {
        connection.check(Row::CurJump, query, "no such cursor");
    }
    connection.check(Row::CurJump, "CUR=9223372036854775807", "");
    connection.check(Row::CurJump, "CUR=7x", "");
    connection.check(Row::CurGetKey, "CUR=7", "key=a");
}

#[test]
fn delete_forgets_a_cursor_that_there_was() {
    let mut connection = Connection::with(LEXICAL, &["a"]);
    connection.check(Row::CurJump, "CUR=1", "");
    connection.check(Row::CurDelete, "CUR=1", "");
    connection.check(Row::CurGetKey, "CUR=1", NO_RECORD);
    for query in ["CUR=2", "", "CUR=3&DB=nonsense"] {
        connection.check(Row::CurDelete, query, "not implemented: cur_delete");
    }
}

#[test]
fn a_connection_has_so_many_cursors_and_no_more() {
    let mut connection = Connection::with(LEXICAL, &["a"]);
    for number in 0..CURSORS_MAX {
        connection.check(Row::CurJump, &format!("CUR={number}"), "");
    }
    let refused = "DB: 9: system error: the connection has too many cursors";
    connection.check(Row::CurJump, "CUR=5000", refused);
    connection.check(Row::CurGetKey, "CUR=0", "key=a");
    connection.check(Row::CurDelete, "CUR=0", "");
    connection.check(Row::CurJump, "CUR=5000", "");
}

#[test]
fn a_cleared_database_leaves_no_cursor_on_its_place() {
    let mut connection = Connection::with(LEXICAL, &["a", "b"]);
    connection.check(Row::CurJump, "CUR=1", "");
    connection.others(0, &Command::Database(DatabaseCommand::Clear { at_ms: None }));
    connection.check(Row::CurGetKey, "CUR=1", NO_RECORD);
    connection.put("c", Expires::Never);
    connection.check(Row::CurJump, "CUR=1", "");
    connection.cursors.unset(1);
    connection.check(Row::CurGetKey, "CUR=1", "key=c");
    connection.cursors.unset(0);
    connection.check(Row::CurGetKey, "CUR=1", NO_RECORD);
}

#[test]
fn looks_are_counted() {
    let mut connection = Connection::with(LEXICAL, &["a"]);
    connection.check(Row::CurJump, "CUR=1", "");
    connection.check(Row::CurGet, "CUR=1", "key=a value=A");
    connection.check(Row::CurSeize, "CUR=1", "key=a value=A");
    connection.check(Row::CurGetKey, "CUR=1", NO_RECORD);
    assert_eq!(connection.host.lookups, (2, 1));
}
