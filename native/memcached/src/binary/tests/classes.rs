//! The class of each opcode, compared with what it does to the records of durable databases.

use super::{Conversation, OPCODES, Sent, get, request, set};
use crate::binary::opcode::Opcode;
use crate::table::CLASSES;
use todana_group::Gate;
use todana_protocol::Class;
use todana_protocol::testing::{check_write, with_durable_hosts};

fn connection() -> Conversation {
    let mut connection = with_durable_hosts(Conversation::new);
    assert_eq!(connection.texts(&[set("a", "5"), set("b", "hello")]), ["0x00 ", "0x00 "]);
    connection
}

/// A request of an opcode that succeeds on [`connection`].
fn example(opcode: &Opcode) -> Sent {
    let key = if opcode.name.starts_with("add") { "z" } else { "a" };
    let mut sent = match opcode.extras {
        [20] => request(opcode.name).u64(1).u64(0).u32(u32::MAX),
        [8] => request(opcode.name).u32(0).u32(0),
        [4] => request(opcode.name).u32(100),
        _ => request(opcode.name),
    };
    if opcode.has_record() {
        sent = sent.key(key);
    }
    if opcode.has_record() && opcode.value == super::super::opcode::Has::Sometimes {
        sent = sent.value("6");
    }
    if opcode.name.starts_with("sasl") && !opcode.name.ends_with("mechs") {
        sent = sent.key("PLAIN").value("x");
    }
    sent
}

#[test]
fn opcodes_do_to_records_what_their_rows_say() {
    for opcode in OPCODES {
        let request = example(opcode);
        println!("{}", opcode.name);
        let ask = |it: &mut Conversation| it.texts(std::slice::from_ref(&request)).join(", ");
        if CLASSES[opcode.row as usize].1 == Class::Write {
            let is_refusal = |answer: &str| answer == "0x86 Temporary failure";
            check_write(connection, |it| &it.host, ask, is_refusal);
            continue;
        }
        for gate in [Gate::Open, Gate::ReadOnly] {
            let mut connection = connection();
            connection.host.set_gate(gate);
            let before = connection.host.written();
            let answer = ask(&mut connection);
            assert!(!answer.contains("0x86"), "{}: {answer}", opcode.name);
            assert_eq!(connection.host.written(), before, "{}", opcode.name);
        }
    }
}

#[test]
fn reads_are_refused_while_the_log_is_read() {
    let mut connection = connection();
    connection.host.set_gate(Gate::Closed);
    assert_eq!(connection.texts(&[get("a"), request("getq").key("a")]), ["0x86 Loading"; 2]);
}
