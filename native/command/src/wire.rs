//! The types of which encoded commands, transactions and tapes consist. `encode.rs` shows the
//! format.

use todana_table::Kind;

/// The bytes are not a command of a known format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("no encoded command")
    }
}

impl std::error::Error for Malformed {}

/// Storage for a decoded command's list of keys or pairs.
#[derive(Debug, Default)]
pub struct Scratch<'b> {
    keys: Vec<&'b [u8]>,
    pairs: Vec<(&'b [u8], &'b [u8])>,
}

/// The bytes that are not decoded yet.
pub(crate) struct Input<'b, 's> {
    pub(crate) rest: &'b [u8],
    /// `None` once a list was decoded: no command has two.
    pub(crate) scratch: Option<&'s mut Scratch<'b>>,
}

impl<'b> Input<'b, '_> {
    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        let (byte, rest) = self.rest.split_first().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*byte)
    }

    pub(crate) fn bytes(&mut self) -> Result<&'b [u8], Malformed> {
        let length = usize::take(self)?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(Malformed)?;
        self.rest = rest;
        Ok(bytes)
    }
}

/// A type that can be encoded.
pub(crate) trait Put {
    fn put(&self, out: &mut Vec<u8>);
}

/// A type that can be decoded, from bytes of lifetime `'b` with storage of lifetime `'s`.
pub(crate) trait Take<'b, 's>: Sized {
    fn take(input: &mut Input<'b, 's>) -> Result<Self, Malformed>;
}

impl Put for u64 {
    fn put(&self, out: &mut Vec<u8>) {
        let mut left = *self;
        while left >= 0x80 {
            out.push(left as u8 | 0x80);
            left >>= 7;
        }
        out.push(left as u8);
    }
}

impl Take<'_, '_> for u64 {
    fn take(input: &mut Input<'_, '_>) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = input.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(Malformed);
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Malformed)
    }
}

impl Put for i64 {
    fn put(&self, out: &mut Vec<u8>) {
        ((*self << 1) ^ (*self >> 63)).cast_unsigned().put(out);
    }
}

impl Take<'_, '_> for i64 {
    fn take(input: &mut Input<'_, '_>) -> Result<i64, Malformed> {
        let zigzag = u64::take(input)?;
        Ok((zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed())
    }
}

/// Integers encoded as `u64`.
macro_rules! as_u64 {
    ($($type:ty)*) => { $(
        impl Put for $type {
            fn put(&self, out: &mut Vec<u8>) {
                (*self as u64).put(out);
            }
        }

        impl Take<'_, '_> for $type {
            fn take(input: &mut Input<'_, '_>) -> Result<$type, Malformed> {
                u64::take(input)?.try_into().map_err(|_| Malformed)
            }
        }
    )* };
}

as_u64!(u16 u32 usize);

impl Put for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
}

impl Take<'_, '_> for bool {
    fn take(input: &mut Input<'_, '_>) -> Result<bool, Malformed> {
        match input.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }
}

impl<T: Put> Put for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        self.iter().for_each(|value| value.put(out));
    }
}

impl<'b, 's, T: Take<'b, 's>> Take<'b, 's> for Option<T> {
    fn take(input: &mut Input<'b, 's>) -> Result<Option<T>, Malformed> {
        if bool::take(input)? { T::take(input).map(Some) } else { Ok(None) }
    }
}

impl<T: Put, U: Put> Put for (T, U) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }
}

impl<'b, 's, T: Take<'b, 's>, U: Take<'b, 's>> Take<'b, 's> for (T, U) {
    fn take(input: &mut Input<'b, 's>) -> Result<(T, U), Malformed> {
        Ok((T::take(input)?, U::take(input)?))
    }
}

impl Put for &[u8] {
    fn put(&self, out: &mut Vec<u8>) {
        self.len().put(out);
        out.extend_from_slice(self);
    }
}

impl<'b: 's, 's> Take<'b, 's> for &'s [u8] {
    fn take(input: &mut Input<'b, 's>) -> Result<&'s [u8], Malformed> {
        input.bytes()
    }
}

impl Put for [&[u8]; 2] {
    fn put(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|key| key.put(out));
    }
}

impl<'b: 's, 's> Take<'b, 's> for [&'s [u8]; 2] {
    fn take(input: &mut Input<'b, 's>) -> Result<[&'s [u8]; 2], Malformed> {
        Ok([input.bytes()?, input.bytes()?])
    }
}

impl Put for &[&[u8]] {
    fn put(&self, out: &mut Vec<u8>) {
        self.len().put(out);
        self.iter().for_each(|key| key.put(out));
    }
}

impl<'b: 's, 's> Take<'b, 's> for &'s [&'s [u8]] {
    fn take(input: &mut Input<'b, 's>) -> Result<&'s [&'s [u8]], Malformed> {
        let Scratch { keys, .. } = input.scratch.take().ok_or(Malformed)?;
        keys.clear();
        for _ in 0..usize::take(input)? {
            keys.push(input.bytes()?);
        }
        Ok(keys)
    }
}

impl Put for &[(&[u8], &[u8])] {
    fn put(&self, out: &mut Vec<u8>) {
        self.len().put(out);
        self.iter().for_each(|pair| pair.put(out));
    }
}

impl<'b: 's, 's> Take<'b, 's> for &'s [(&'s [u8], &'s [u8])] {
    fn take(input: &mut Input<'b, 's>) -> Result<&'s [(&'s [u8], &'s [u8])], Malformed> {
        let Scratch { pairs, .. } = input.scratch.take().ok_or(Malformed)?;
        pairs.clear();
        for _ in 0..usize::take(input)? {
            pairs.push((input.bytes()?, input.bytes()?));
        }
        Ok(pairs)
    }
}

impl Put for Kind {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(self.number());
    }
}

impl Take<'_, '_> for Kind {
    fn take(input: &mut Input<'_, '_>) -> Result<Kind, Malformed> {
        Kind::of(input.byte()?).ok_or(Malformed)
    }
}

/// Structs, by their fields.
macro_rules! structs {
    ($($name:ident $(<$life:lifetime>)? { $($field:ident),* })*) => { $(
        impl $(<$life>)? Put for $name $(<$life>)? {
            fn put(&self, out: &mut Vec<u8>) {
                $( self.$field.put(out); )*
            }
        }

        impl<'b: 's, 's> Take<'b, 's> for structs!(@taken $name $($life)?) {
            fn take(input: &mut Input<'b, 's>) -> Result<Self, Malformed> {
                Ok($name { $( $field: Take::take(input)? ),* })
            }
        }
    )* };
    (@taken $name:ident) => { $name };
    (@taken $name:ident $life:lifetime) => { $name<'s> };
}

/// Enums: the number of each variant, and its fields. A field of a tuple is written `0: name`.
macro_rules! enums {
    ($($name:ident $(<$life:lifetime>)? {
        $( $number:literal $variant:ident { $( $field:tt $(: $alias:ident)? ),* } )*
    })*) => { $(
        impl $(<$life>)? Put for $name $(<$life>)? {
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $( $name::$variant { $( $field $(: $alias)? ),* } => {
                        out.push($number);
                        $( enums!(@name $field $($alias)?).put(out); )*
                    } )*
                }
            }
        }

        impl<'b: 's, 's> Take<'b, 's> for enums!(@taken $name $($life)?) {
            fn take(input: &mut Input<'b, 's>) -> Result<Self, Malformed> {
                match input.byte()? {
                    $( $number => Ok($name::$variant { $( $field: Take::take(input)? ),* }), )*
                    _ => Err(Malformed),
                }
            }
        }
    )* };
    (@name $field:ident) => { $field };
    (@name $field:tt $alias:ident) => { $alias };
    (@taken $name:ident) => { $name };
    (@taken $name:ident $life:lifetime) => { $name<'s> };
}

pub(crate) use {enums, structs};
