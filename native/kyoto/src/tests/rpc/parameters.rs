//! Section 2.4 of the specification: parameters that every procedure takes, and limits.

use super::{call, conversation};

#[test]
fn a_wait_that_times_out_runs_nothing() {
    let mut conversation = conversation();
    let answer = call(&mut conversation, "set", "key=a&value=1&WAIT=bell&SIGNAL=other");
    assert_eq!(answer, "503 ERROR=the condition timed out");
    assert_eq!(conversation.host.part.waits, [b"bell"]);
    assert!(conversation.host.part.signals.is_empty());
    assert!(call(&mut conversation, "check", "key=a").starts_with("450"));
}

#[test]
fn a_signal_ends_the_wait_and_the_procedure_runs() {
    let mut conversation = conversation();
    conversation.host.part.signalled = true;
    assert_eq!(call(&mut conversation, "set", "key=a&value=1&WAIT="), "200");
    assert_eq!(conversation.host.part.waits, [b""]);
    assert_eq!(call(&mut conversation, "check", "key=a"), "200 vsiz=1");
}

#[test]
fn the_time_to_wait_is_a_fraction_of_seconds() {
    for (waittime, ms) in [
        ("", 30_000),
        ("&WAITTIME=", 30_000),
        ("&WAITTIME=0", 30_000),
        ("&WAITTIME=-1", 30_000),
        ("&WAITTIME=nan", 30_000),
        ("&WAITTIME=0.25", 250),
        ("&WAITTIME=0.0001", 1),
        ("&WAITTIME=2", 2_000),
        ("&WAITTIME=inf", 24 * 60 * 60 * 1_000),
    ] {
        let mut conversation = conversation();
        let body = format!("WAIT=bell{waittime}");
        let request = super::post("/rpc/void", "application/x-www-form-urlencoded", body);
        assert_eq!(conversation.send(request).slept_ms, ms, "{waittime}");
    }
}

#[test]
fn a_signal_goes_out_after_the_procedure_also_when_it_failed() {
    let mut conversation = conversation();
    conversation.host.part.waiting = 3;
    let answer = call(&mut conversation, "set", "key=a&value=1&SIGNAL=bell");
    assert_eq!(answer, "200 SIGNALED=3");
    let answer = call(&mut conversation, "get", "key=x&SIGNAL=bell&SIGNALBROAD=");
    assert_eq!(answer, "450 ERROR=DB: 7: no record: no record SIGNALED=3");
    let answer = call(&mut conversation, "nothing", "SIGNAL=");
    assert_eq!(answer, "501 ERROR=not implemented: nothing SIGNALED=3");
    let signals = [(b"bell".to_vec(), false), (b"bell".to_vec(), true), (Vec::new(), false)];
    assert_eq!(conversation.host.part.signals, signals);
}

#[test]
fn deleting_a_cursor_signals_nobody() {
    let mut conversation = conversation();
    call(&mut conversation, "void", "CUR=1");
    assert_eq!(call(&mut conversation, "cur_delete", "CUR=1&SIGNAL=bell"), "200");
    assert!(conversation.host.part.signals.is_empty());
    let answer = call(&mut conversation, "cur_delete", "CUR=1&SIGNAL=bell");
    assert_eq!(answer, "501 ERROR=not implemented: cur_delete SIGNALED=0");
}

#[test]
fn any_procedure_makes_a_cursor_on_its_database() {
    let mut conversation = conversation();
    assert_eq!(call(&mut conversation, "set_bulk", "DB=1&_a=1&_b=2"), "200 num=2");
    assert_eq!(call(&mut conversation, "void", "DB=1&CUR=5"), "200");
    // A known cursor makes the database irrelevant.
    assert_eq!(call(&mut conversation, "cur_jump", "DB=9&CUR=5"), "200");
    assert_eq!(call(&mut conversation, "cur_get_key", "CUR=5"), "200 key=a");
}

#[test]
fn numbers_of_cursors_are_not_negative() {
    for number in ["-1", "", "x", "9223372036854775808"] {
        let answer = call(&mut conversation(), "cur_jump", &format!("CUR={number}"));
        assert_eq!(answer, "400 ERROR=no such cursor", "{number}");
    }
    let answer = call(&mut conversation(), "cur_step", "CUR=9223372036854775807");
    assert_eq!(answer, "450 ERROR=DB: 7: no record: no record");
}

#[test]
fn databases_are_named_by_number_or_name() {
    let mut conversation = conversation();
    call(&mut conversation, "set", "DB=1&key=a&value=tree");
    for id in ["1", "01", "1th", "%25"] {
        assert_eq!(call(&mut conversation, "get", &format!("DB={id}&key=a")), "200 value=tree");
    }
    for id in ["3", "-1", "%25x", "casket"] {
        let answer = call(&mut conversation, "get", &format!("DB={id}&key=a"));
        assert_eq!(answer, "400 ERROR=no such database", "{id}");
    }
}

const KEY: &str = "500 ERROR=DB: 9: system error: the key is too long";
const VALUE: &str = "500 ERROR=DB: 9: system error: the value is too long";

#[test]
fn keys_and_values_that_are_too_long_are_refused() {
    let mut conversation = conversation();
    conversation.host.limits.key_bytes_max = 4;
    conversation.host.limits.value_bytes_max = 10;
    for (name, form, answer) in [
        ("set", "key=12345&value=", KEY),
        ("add", "key=12345&value=", KEY),
        ("replace", "key=12345&value=", KEY),
        ("append", "key=12345&value=", KEY),
        ("cas", "key=12345&nval=", KEY),
        ("increment", "key=12345&num=1", KEY),
        ("increment_double", "key=12345&num=1", KEY),
        ("set", "key=1234&value=12345678901", VALUE),
        ("cas", "key=1234&nval=12345678901", VALUE),
        ("append", "key=1234&value=12345678901", VALUE),
        ("set", "key=1234&value=1234567890", "200"),
        ("append", "key=1234&value=1", VALUE),
        ("check", "key=1234", "200 vsiz=10"),
        ("set_bulk", "_1=&_12345=&_2=", KEY),
        ("get_bulk", "_1=&_12345=&_2=", "200 _1= num=1"),
        ("set_bulk", "atomic=&_3=&_12345=&_4=", KEY),
        ("get_bulk", "_3=&_4=", "200 num=0"),
        ("get", "key=12345", "450 ERROR=DB: 7: no record: no record"),
        ("remove_bulk", "_12345=", "200 num=0"),
    ] {
        assert_eq!(call(&mut conversation, name, form), answer, "{name} {form}");
    }
}

#[test]
fn a_reply_that_is_too_long_is_refused() {
    let mut conversation = conversation();
    conversation.host.limits.output_bytes_max = 100;
    let value = "x".repeat(60);
    call(&mut conversation, "set_bulk", &format!("_a={value}&_b={value}"));
    let answer = "500 ERROR=DB: 9: system error: the reply is too long";
    assert_eq!(call(&mut conversation, "get_bulk", "_a=&_b="), answer);
    assert_eq!(call(&mut conversation, "get_bulk", "_a=&_b=&atomic="), answer);
    assert_eq!(call(&mut conversation, "echo", &format!("a={value}&b={value}")), answer);
    assert_eq!(call(&mut conversation, "get", "key=a"), format!("200 value={value}"));
}

#[test]
fn a_full_table_is_an_error_of_the_system() {
    use todana_table::{Limits, WhenFull};
    let mut conversation = conversation();
    let limits = Limits { entries_max: Some(1), bytes_max: None, when_full: WhenFull::Refuse };
    conversation.host.databases.table(0).set_limits(limits);
    assert_eq!(call(&mut conversation, "set", "key=a&value=1"), "200");
    let full = "500 ERROR=DB: 9: system error: the database is full";
    assert_eq!(call(&mut conversation, "set", "key=b&value=1"), full);
    assert_eq!(call(&mut conversation, "set_bulk", "_b=1"), full);
    assert_eq!(call(&mut conversation, "set_bulk", "_a=2&_b=1&atomic="), full);
    assert_eq!(call(&mut conversation, "increment", "key=b&num=1"), full);
    assert_eq!(call(&mut conversation, "get", "key=a"), "200 value=1");
}

#[test]
fn a_persistent_database_takes_and_returns_no_times() {
    let mut conversation = conversation();
    for (name, form) in [
        ("set", "key=a&value=1&xt=5"),
        ("append", "key=a&value=1&xt=5"),
        ("cas", "key=b&nval=1&xt=5"),
        ("set_bulk", "_c=1&xt=5"),
        ("increment", "key=d&num=1&xt=5"),
    ] {
        let answer = call(&mut conversation, name, &format!("DB=2&{form}"));
        assert!(answer.starts_with("200"), "{name}: {answer}");
    }
    conversation.host.now_ms += 60_000;
    for key in ["a", "b", "c", "d"] {
        let answer = call(&mut conversation, "check", &format!("DB=2&key={key}"));
        assert!(answer.starts_with("200 vsiz=") && !answer.contains("xt"), "{answer}");
    }
}

#[test]
fn every_request_is_observed_once_and_looks_are_counted() {
    use crate::table::Row;
    use todana_protocol::ProtocolName::Kyoto;
    let mut conversation = conversation();
    conversation.host.keep_observed = true;
    call(&mut conversation, "set_bulk", "_a=1&_b=2");
    call(&mut conversation, "get", "key=a");
    call(&mut conversation, "get", "key=x");
    call(&mut conversation, "get_bulk", "_a=&_x=&_b=");
    call(&mut conversation, "get_bulk", "_a=&_x=&atomic=");
    call(&mut conversation, "nothing", "");
    let observed: Vec<_> = conversation.host.observed.clone();
    let wanted = [
        (Row::SetBulk, false),
        (Row::Get, false),
        (Row::Get, true),
        (Row::GetBulk, false),
        (Row::GetBulk, false),
        (Row::Unknown, true),
    ];
    assert_eq!(observed, wanted.map(|(row, failed)| (Kyoto, row as usize, failed)));
    assert_eq!(conversation.host.lookups, (4, 3));
}
