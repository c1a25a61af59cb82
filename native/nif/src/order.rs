//! Converts the orders of tables to atoms and back.

use crate::atoms;
use rustler::types::atom::Atom;
use todana_table::{Comparison, KeyOrder};

/// The order that an atom denotes; none means no order, and so does an atom that the Erlang side
/// does not let through.
pub(crate) fn of_word(word: Option<Atom>) -> Option<KeyOrder> {
    let word = word?;
    let order = |comparison, descending| Some(KeyOrder { comparison, descending });
    if word == atoms::lexical() {
        order(Comparison::Lexical, false)
    } else if word == atoms::decimal() {
        order(Comparison::Decimal, false)
    } else if word == atoms::lexical_descending() {
        order(Comparison::Lexical, true)
    } else if word == atoms::decimal_descending() {
        order(Comparison::Decimal, true)
    } else {
        None
    }
}

/// The word for an order.
pub(crate) fn word(order: KeyOrder) -> Atom {
    match (order.comparison, order.descending) {
        (Comparison::Lexical, false) => atoms::lexical(),
        (Comparison::Decimal, false) => atoms::decimal(),
        (Comparison::Lexical, true) => atoms::lexical_descending(),
        (Comparison::Decimal, true) => atoms::decimal_descending(),
    }
}
