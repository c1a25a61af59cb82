//! Walks over ordered and other tables, compared with a model at each step.

// The model is that of the property test.
#[path = "../../table/tests/walk_model/mod.rs"]
mod walk_model;

/// Decodes operations from the bytes and runs them on a table and on its model.
pub fn ordered(data: &[u8]) {
    walk_model::run(data);
}
