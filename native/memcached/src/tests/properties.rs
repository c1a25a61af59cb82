use super::{Conversation, MemcachedSession};
use proptest::prelude::*;
use todana_protocol::testing::converse;

/// Pieces that requests are made of, so that random input gets beyond the first check.
const PIECES: &[&str] = &[
    "get ",
    "gets ",
    "get mio:range-search ",
    "get mio:range-search a b 2 desc\r\n",
    "asc\r\n",
    "gat ",
    "gats ",
    "set ",
    "add ",
    "replace ",
    "append ",
    "prepend ",
    "cas ",
    "delete ",
    "incr ",
    "decr ",
    "touch ",
    "mg ",
    "ms ",
    "md ",
    "ma ",
    "me ",
    "mn",
    "flush_all ",
    "version",
    "verbosity ",
    "stats ",
    "shutdown",
    "noreply",
    "a ",
    "b ",
    "YQ== ",
    "0 ",
    "1 ",
    "2 ",
    "-1 ",
    "20 ",
    "4294967296 ",
    "18446744073709551615 ",
    "9223372036854775807 ",
    "99999999999999999999 ",
    "b ",
    "c ",
    "f ",
    "h ",
    "k ",
    "l ",
    "O1 ",
    "q ",
    "s ",
    "t ",
    "v ",
    "u ",
    "I ",
    "N30 ",
    "R30 ",
    "T5 ",
    "T-1 ",
    "C1 ",
    "D5 ",
    "J7 ",
    "ME ",
    "MA ",
    "MP ",
    "MR ",
    "MD ",
    "F9 ",
    "\r\n",
    "\r\n",
    "\r\n",
    "\n",
    "x\r\n",
    "xy\r\n",
    "12\r\n",
    "\0",
    "settings",
];

fn requests() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        20 => prop::sample::select(PIECES).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..80).prop_map(|pieces| pieces.concat())
}

fn play(input: &[u8], cuts: &[usize]) -> (Vec<u8>, bool, usize) {
    let mut session = MemcachedSession::default();
    let mut host = super::range_search::host();
    let mut pieces = Vec::new();
    let mut rest = input;
    for cut in cuts {
        let (piece, after) = rest.split_at(cut % (rest.len() + 1));
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    let outcome = converse(&mut session, &mut host, pieces);
    (outcome.output, outcome.closed, outcome.left)
}

proptest! {
    #[test]
    fn any_bytes_are_survived(input in prop::collection::vec(any::<u8>(), 0..2000)) {
        let mut conversation = Conversation::new();
        conversation.send(&input);
    }

    #[test]
    fn any_requests_are_answered_alike_however_cut(
        input in requests(),
        cuts in prop::collection::vec(0..50_usize, 0..20),
    ) {
        let (output, closed, _) = play(&input, &[]);
        let (cut_output, cut_closed, _) = play(&input, &cuts);
        prop_assert_eq!(output.escape_ascii().to_string(), cut_output.escape_ascii().to_string());
        prop_assert_eq!(closed, cut_closed);
    }

    /// Unconsumed input is an incomplete line or value, within the limits.
    #[test]
    fn unconsumed_input_is_bounded(input in requests(), repeat in 1..200_usize) {
        let mut conversation = Conversation::new();
        conversation.host.limits.memcached_value_bytes_max = 100;
        conversation.host.limits.line_bytes_max = 300;
        let outcome = conversation.send(input.repeat(repeat));
        prop_assert!(outcome.closed || outcome.left <= 300 + 100 + 3, "{}", outcome.left);
    }
}
