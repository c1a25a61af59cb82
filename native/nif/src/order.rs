//! Converts the orders of tables to atoms and back.

use crate::atoms;
use crate::store::Codec;
use rustler::types::atom::Atom;
use todana_table::{Comparison, KeyOrder};

/// The order that an atom denotes; none means no order, and so does an atom that the Erlang side
/// does not let through.
pub(crate) fn of_word(word: Option<Atom>) -> Option<KeyOrder> {
    let word = word?;
    let order = |comparison, descending| Some(KeyOrder { comparison, descending });
    // The keys of a table with codec `term` compare as bytes, see `ordered_key`.
    if word == atoms::lexical() || word == atoms::term() {
        order(Comparison::Lexical, false)
    } else if word == atoms::decimal() {
        order(Comparison::Decimal, false)
    } else if word == atoms::lexical_descending() || word == atoms::term_descending() {
        order(Comparison::Lexical, true)
    } else if word == atoms::decimal_descending() {
        order(Comparison::Decimal, true)
    } else {
        None
    }
}

/// The atom for an order of a table with this codec.
pub(crate) fn word(order: KeyOrder, codec: Codec) -> Atom {
    match (codec, order.comparison, order.descending) {
        (Codec::OrderedTerm, _, false) => atoms::term(),
        (Codec::OrderedTerm, _, true) => atoms::term_descending(),
        (_, Comparison::Lexical, false) => atoms::lexical(),
        (_, Comparison::Decimal, false) => atoms::decimal(),
        (_, Comparison::Lexical, true) => atoms::lexical_descending(),
        (_, Comparison::Decimal, true) => atoms::decimal_descending(),
    }
}
