//! After any sequence of operations, a table equals a simple model.

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

mod model;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_table_behaves_like_its_model(
        operations in prop::collection::vec(any::<[u8; model::OPERATION_BYTES]>(), 0..400),
        // Remaining bytes choose the mode and the number of shards.
        rest in prop::collection::vec(any::<u8>(), 0..model::OPERATION_BYTES),
    ) {
        let mut bytes = operations.concat();
        bytes.extend(rest);
        model::run(&bytes);
    }
}

/// Interpreters are slow.
fn cases() -> u32 {
    if cfg!(miri) { 4 } else { 20_000 }
}
