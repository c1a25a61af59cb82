//! Scripts in turn, each of which must do what it does alone.

/// Runs scripts that the bytes choose, in interpreters that have run others before.
pub fn scripts(data: &[u8]) {
    todana_script::testing::reuse(data);
}
