//! Commands on HyperLogLogs.

pub(crate) mod commands;
pub(crate) mod registers;
mod slices;

use crate::access::Access;
use crate::cause::Names;
use crate::cost::{Reads, copied};
use crate::family::{Brings, Kinds, commands};
use crate::scope::{Keys, Scope};
use crate::sizes::{Room, Sizes, Written};
use crate::sketch::registers::DENSE_BYTES;

const SKETCH_UNITS: u64 = 64;
const ELEMENT_UNITS: u64 = 2;

/// Maximum number of HyperLogLogs of a command that counts as a point read: each takes some ten
/// microseconds.
const READ_SKETCHES_MAX: usize = 16;

/// A command may store a HyperLogLog.
fn written<'a>(sizes: &mut Sizes<'_, '_, 'a>, key: &'a [u8]) {
    let meta = sizes.present_meta(key);
    sizes.write(key, Written { length: DENSE_BYTES, certain: false, meta });
}

commands! {
    /// Commands on HyperLogLogs.
    SketchCommand<'a> {
        /// Adds elements to a HyperLogLog, which is created if it is missing. Reply: `flag`, or
        /// `error(NotASketch)`, `error(CorruptSketch)`.
        52 AddToSketch { key: &'a [u8], elements: &'a [&'a [u8]] } => {
            format: 3,
            keys: Scope::Key(key),
            access: Access::Write,
            removes: false,
            events: Names::ADD_TO_SKETCH,
            reads: Reads::Nothing,
            kinds: Kinds::Strings,
            brings: Brings::Nothing,
            units: |_| {
                let bytes = elements.iter().map(|element| element.len()).sum();
                SKETCH_UNITS + elements.len() as u64 * ELEMENT_UNITS + copied(bytes)
            },
            room: Room::Entry(key.len() + DENSE_BYTES),
            foresee: |sizes| written(sizes, key),
            slices: [never],
            alone: [by_keys],
            run: |space, context, reply| commands::add(space, key, elements, context.now_ms, reply),
        }

        /// Estimated number of different elements in HyperLogLogs together; missing records have
        /// none. Reply: `integer`, or `error(NotASketch)`, `error(CorruptSketch)`.
        53 CountSketches { keys: &'a [&'a [u8]] } => {
            format: 3,
            keys: Scope::of(keys),
            access: if keys.len() <= READ_SKETCHES_MAX { Access::Read } else { Access::Walk },
            removes: false,
            events: Names::NONE,
            reads: Reads::Nothing,
            kinds: Kinds::Strings,
            brings: Brings::Nothing,
            units: |_| (1 + keys.len() as u64).saturating_mul(SKETCH_UNITS),
            room: Room::Nothing,
            foresee: |_| {},
            slices: [if keys.len() > slices::SKETCHES => |slice, stage| {
                slice.unite(keys, stage, false)
            }],
            alone: [by_keys],
            run: |space, context, reply| commands::count(space, keys, context.now_ms, reply),
        }

        /// Adds the elements of HyperLogLogs to the first. Reply: `done`, or `error(NotASketch)`,
        /// `error(CorruptSketch)`.
        54 MergeSketches { keys: &'a [&'a [u8]] } => {
            format: 3,
            // Reading and writing are two accesses, even of one key.
            keys: Scope::Keys(Keys::List(keys)),
            access: Access::Write,
            removes: false,
            events: Names::ADD_TO_SKETCH,
            reads: Reads::Nothing,
            kinds: Kinds::Strings,
            brings: Brings::Nothing,
            units: |_| (1 + keys.len() as u64).saturating_mul(SKETCH_UNITS),
            room: Room::Entry(keys.first().map_or(0, |key| key.len()) + DENSE_BYTES),
            foresee: |sizes| {
                if let Some(key) = keys.first() {
                    written(sizes, key);
                }
            },
            slices: [if keys.len() > slices::SKETCHES => |slice, stage| {
                slice.unite(keys, stage, true)
            }],
            alone: [by_keys],
            run: |space, context, reply| commands::merge(space, keys, context.now_ms, reply),
        }
    }
}
