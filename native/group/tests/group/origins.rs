//! De-duplication, seen from outside: each batch of each origin takes effect once.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::harness::{Harness, append, options};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Several nodes seal batches; the log has them late, in another order, and several times.
    #[test]
    fn each_batch_is_applied_once(
        steps in vec((0..3_u64, 0..6_usize, any::<bool>()), 1..80),
    ) {
        let nodes: Vec<Harness> = (0..3).map(|n| Harness::of(options(n))).collect();
        let mut replica = Harness::of(options(99));
        let mut flying: Vec<Vec<u8>> = Vec::new();
        for (number, (node, place, again)) in steps.iter().enumerate() {
            let marker = [number as u8];
            let node = &nodes[*node as usize];
            node.submit(0, append(b"k", &marker), 1);
            flying.push(node.seal().bytes);
            let place = place % flying.len();
            let entry = if *again { flying[place].clone() } else { flying.remove(place) };
            replica.apply(&entry);
        }
        flying.iter().for_each(|entry| { replica.apply(entry); });
        let mut value = replica.value(b"k").unwrap_or_default();
        value.sort_unstable();
        let expected: Vec<u8> = (0..steps.len() as u8).collect();
        prop_assert_eq!(value, expected);
    }
}
