//! How commands on strings change the sizes of records, for the commands behind them in a
//! transaction.

use crate::sizes::{Changed, Sizes, Written};
use crate::string::pairs::Pairs;
use crate::string::text::Added;
use crate::{Condition, Expires, Set, Side};
use todana_table::Meta;

pub(super) fn set<'a>(sizes: &mut Sizes<'_, '_, 'a>, set: &Set<'a>) {
    let certain = set.condition == Condition::Always;
    let before = sizes.present_meta(set.key);
    let access = set.track_access.then(Default::default).or(before.access);
    let meta = sizes.meta(set.expires, Meta { flags: set.flags, access, ..before });
    sizes.write(set.key, Written { length: set.value.len(), certain, meta });
    sizes.expire(set.key, set.expires);
}

pub(super) fn set_many<'a>(sizes: &mut Sizes<'_, '_, 'a>, pairs: &Pairs<'a>) {
    let certain = pairs.condition == Condition::Always;
    let meta = sizes.meta(pairs.expires, Meta::default());
    for (key, value) in pairs.pairs {
        sizes.write(key, Written { length: value.len(), certain, meta });
        sizes.expire(key, pairs.expires);
    }
}

pub(super) fn concat<'a>(sizes: &mut Sizes<'_, '_, 'a>, key: &'a [u8], added: &Added<'_>) {
    let Added { bytes, side, create, condition, expires } = *added;
    let (present, least) = (sizes.most_length(key), sizes.least_length(key));
    let max = sizes.value_bytes_max();
    let most = present.saturating_add(bytes.len());
    let is_certain = condition == Condition::Always && most <= max && (create || least > 0);
    let least = least + if is_certain { bytes.len() } else { 0 };
    // If it would be longer than the limit, it does not change.
    let most = most.min(max.max(present));
    sizes.change(key, Changed { most, least, zeroes: 0, expires });
    if side == Side::Prepend {
        // The next change moves the whole value again.
        sizes.lend(key);
    }
}

/// Stores a value, or removes the record, if the present value is the right one.
pub(super) fn compare<'a>(
    sizes: &mut Sizes<'_, '_, 'a>,
    key: &'a [u8],
    new: Option<&[u8]>,
    expires: Expires,
) {
    let before = sizes.present_meta(key);
    let meta = sizes.meta(expires, before);
    let length = new.map_or(0, <[u8]>::len);
    sizes.write(key, Written { length, certain: false, meta });
    sizes.remove(key);
}
