//! Commands on leases, in the terms of memcached's meta commands.

pub(crate) mod arguments;
pub(crate) mod marks;

use crate::access::Access;
use crate::cause::Names;
use crate::cost::Reads;
use crate::family::{Brings, Kinds, commands};
use crate::scope::Scope;
use crate::sizes::Room;
use crate::{Condition, Expires, LeaseOptions};

commands! {
    /// Commands on leases.
    LeaseCommand<'a> {
        /// The record in the manner of memcached's meta get: vivify, recache, touch, stale marks.
        /// Reply: `lease` or `none`.
        11 Get { key: &'a [u8], options: LeaseOptions } => {
            format: 1,
            keys: Scope::Key(key),
            access: Access::Lease,
            removes: false,
            events: Names::PLAIN,
            reads: Reads::Returned,
            kinds: Kinds::Strings,
            brings: Brings::Nothing,
            units: |_| 1,
            room: Room::Entry(key.len()),
            foresee: |sizes| sizes.replace(key, 0, Expires::At(u64::MAX)),
            slices: [never],
            alone: [by_keys],
            run: |space, context, reply| marks::lease(space, key, options, context.now_ms, reply),
        }

        /// Marks a record stale for readers with leases (memcached `md I`), with a new expiry if
        /// given. Reply: `done` or `refused`.
        20 Invalidate { key: &'a [u8], condition: Condition, expires: Expires } => {
            format: 1,
            keys: Scope::Key(key),
            access: Access::Write,
            removes: false,
            events: Names::PLAIN,
            reads: Reads::Nothing,
            kinds: Kinds::All,
            brings: Brings::Nothing,
            units: |_| 1,
            room: Room::Nothing,
            foresee: |_| {},
            slices: [never],
            alone: [by_keys],
            run: |space, context, reply| {
                marks::invalidate(space, key, condition, expires, context.now_ms, reply);
            },
        }
    }
}
