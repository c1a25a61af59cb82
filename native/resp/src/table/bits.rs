//! Commands on strings of bits.

/// Passes these rows, after others, on to the next macro.
#[rustfmt::skip]
macro_rules! bits {
    ([$($before:tt)*] $($then:ident)+) => { $crate::table::chain! { [ $($before)*
        SetBit { name: "setbit", handler: Store(bits::set), arity: 4, keys: MODIFY, flags: WRITE | DENYOOM,
            group: Bitmap, since: "2.2.0", syntax: "key offset bit", cost: "O(n), n bytes of the whole value",
            summary: "Sets one bit of a value and returns the old bit." }
        GetBit { name: "getbit", handler: Store(bits::get), arity: 3, keys: READ, flags: READONLY | FAST, group: Bitmap,
            since: "2.2.0", syntax: "key offset", cost: "O(1)", summary: "Returns one bit of a value." }
        BitCount { name: "bitcount", handler: Store(bits::count), arity: -2, keys: READ, flags: READONLY, group: Bitmap,
            since: "2.6.0", syntax: "key [start end [BYTE|BIT]]", cost: "O(n), n bytes of the span",
            summary: "Counts the bits that are set in a value or a range of it." }
        BitPos { name: "bitpos", handler: Store(bits::position), arity: -3, keys: READ, flags: READONLY, group: Bitmap,
            since: "2.8.7", syntax: "key bit [start [end [BYTE|BIT]]]", cost: "O(n), n bytes of the span",
            summary: "Returns the position of the first bit that is set, or clear." }

        BitOp { name: "bitop", handler: Store(bits::operation), arity: -4, keys: COMBINE, flags: WRITE | DENYOOM,
            group: Bitmap, since: "2.6.0", syntax: "operation destkey key...",
            cost: "O(n), n bytes of the values",
            summary: "Combines values bit by bit (AND, OR, XOR, NOT, DIFF, DIFF1, ANDOR, ONE) and stores the result." }
        BitField { name: "bitfield", handler: Store(bits::fields, false), arity: -2, keys: MAY_MODIFY,
            flags: WRITE | DENYOOM, group: Bitmap, since: "3.2.0",
            syntax: "key [(GET encoding offset)|([OVERFLOW WRAP|SAT|FAIL] (SET encoding offset value)|(INCRBY encoding offset increment))...]",
            cost: "O(n), n operations", summary: "Reads and changes integers of any width at any bit of a value." }
        BitFieldRo { name: "bitfield_ro", handler: Store(bits::fields, true), arity: -2, keys: READ,
            flags: READONLY | FAST, group: Bitmap, since: "6.0.0", syntax: "key [GET encoding offset...]",
            cost: "O(n), n operations", summary: "Reads integers of any width at any bit of a value." }
    ] $($then)+ } };
}
pub(crate) use bits;
