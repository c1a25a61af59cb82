//! After any sequence of operations, the walks of a table equal those of a simple model.

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

mod walk_model;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..ProptestConfig::default()
    })]

    #[test]
    fn walks_see_the_same_keys_as_their_model(
        operations in prop::collection::vec(any::<[u8; walk_model::OPERATION_BYTES]>(), 0..150),
        // Remaining bytes choose the order and the number of shards.
        rest in prop::collection::vec(any::<u8>(), 1..walk_model::OPERATION_BYTES),
    ) {
        let mut bytes = operations.concat();
        bytes.extend(rest);
        walk_model::run(&bytes);
    }
}

/// Interpreters are slow.
fn cases() -> u32 {
    if cfg!(miri) { 3 } else { 4_000 }
}
