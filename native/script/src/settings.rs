//! What a script may set of the library `cjson`.

use std::cell::Cell;

/// What a script may set.
pub(crate) struct Settings {
    pub(crate) sparse_convert: Cell<bool>,
    pub(crate) sparse_ratio: Cell<u32>,
    pub(crate) sparse_safe: Cell<u32>,
    pub(crate) encode_depth_max: Cell<usize>,
    pub(crate) decode_depth_max: Cell<usize>,
    pub(crate) precision: Cell<usize>,
    pub(crate) invalid_numbers: Cell<bool>,
}

/// Deepest nesting that scripts can set.
pub(crate) const DEPTH_MAX: usize = 1_000;

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            sparse_convert: Cell::new(false),
            sparse_ratio: Cell::new(2),
            sparse_safe: Cell::new(10),
            encode_depth_max: Cell::new(DEPTH_MAX),
            decode_depth_max: Cell::new(DEPTH_MAX),
            precision: Cell::new(14),
            invalid_numbers: Cell::new(false),
        }
    }
}

impl Settings {
    /// As at the beginning of a script.
    pub(crate) fn reset(&mut self) {
        *self = Settings::default();
    }
}
