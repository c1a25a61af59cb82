//! Operations on a table, compared with a model at each step.

// The model is that of the property test.
#[path = "../../table/tests/model/mod.rs"]
mod model;

/// Decodes operations from the bytes and runs them on a table and on its model.
pub fn table(data: &[u8]) {
    model::run(data);
}
