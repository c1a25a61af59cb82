//! Options as data: [`options!`](crate::options!) declares a structure whose fields are options,
//! with the name, type and default of each in one row.
//!
//! The structures are [`Limits`](crate::Limits), Kyoto Tycoon's `KyotoSettings`
//! and the server's `Config`. Native code reads their fields; the Erlang side sets them by name,
//! through [`OptionRow::put`]. `src/options/todana_options.erl` has a row for each option too, and
//! `test/todana_options_tests.erl` compares the two sides.

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Kibibyte, mebibyte and tebibyte, in bytes.
pub const KB: u64 = 1 << 10;
/// See [`KB`].
pub const MB: u64 = 1 << 20;
/// See [`KB`].
pub const TB: u64 = 1 << 40;

/// Which values an option may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionType {
    /// A whole number.
    Integer(Range),
    /// A size in bytes.
    Bytes(Range),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Names of hosts.
    Hosts,
    /// Origins of web pages.
    Origins,
    /// Databases by Kyoto Cabinet's names: rows, whose first value is the name.
    Databases,
}

/// The range of a number, and the word that stands for no number: `off` or `auto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The smallest number.
    pub min: u64,
    /// The largest number.
    pub max: u64,
    /// The word that the option may have instead.
    pub word: Option<&'static str>,
}

/// A whole number from `min` to `max`.
pub const fn integer(min: u64, max: u64) -> OptionType {
    OptionType::Integer(Range { min, max, word: None })
}

/// A whole number, or a word.
pub const fn integer_or(word: &'static str, min: u64, max: u64) -> OptionType {
    OptionType::Integer(Range { min, max, word: Some(word) })
}

/// A size in bytes from `min` to `max`.
pub const fn bytes(min: u64, max: u64) -> OptionType {
    OptionType::Bytes(Range { min, max, word: None })
}

/// A size in bytes, or a word.
pub const fn bytes_or(word: &'static str, min: u64, max: u64) -> OptionType {
    OptionType::Bytes(Range { min, max, word: Some(word) })
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionValue {
    /// `off` or `auto`.
    Absent,
    /// A number, or a size in bytes.
    Number(u64),
    /// One of several words.
    Word(String),
    /// Names of hosts, or origins.
    Names(Vec<String>),
    /// Rows of values, for an option that is a list of structures.
    Rows(Vec<Vec<OptionValue>>),
}

const UNITS: [(&str, u32); 10] = [
    ("", 0),
    ("b", 0),
    ("k", 10),
    ("kb", 10),
    ("m", 20),
    ("mb", 20),
    ("g", 30),
    ("gb", 30),
    ("t", 40),
    ("tb", 40),
];

impl OptionType {
    /// The word that an option may have instead of a number.
    pub fn word(self) -> Option<&'static str> {
        match self {
            OptionType::Integer(range) | OptionType::Bytes(range) => range.word,
            _ => None,
        }
    }

    /// Whether an option of this type may have this value.
    pub fn allows(self, value: &OptionValue) -> bool {
        match (self, value) {
            (OptionType::Integer(range) | OptionType::Bytes(range), value) => match value {
                OptionValue::Absent => range.word.is_some(),
                OptionValue::Number(number) => (range.min..=range.max).contains(number),
                _ => false,
            },
            (OptionType::Choice(words), OptionValue::Word(word)) => words.contains(&word.as_str()),
            (OptionType::Hosts | OptionType::Origins, OptionValue::Names(_)) => true,
            (OptionType::Databases, OptionValue::Rows(_)) => true,
            _ => false,
        }
    }

    /// The value that a text stands for, as `todana_option_type:parse/2` reads it. Lists have none.
    pub fn parse(self, text: &str) -> Option<OptionValue> {
        let value = match self {
            _ if self.word() == Some(text) => OptionValue::Absent,
            OptionType::Integer(_) => OptionValue::Number(digits(text)?),
            OptionType::Bytes(_) => {
                let end = text.bytes().take_while(u8::is_ascii_digit).count();
                let (number, unit) = text.split_at(end);
                let (_, power) = UNITS.iter().find(|(name, _)| *name == unit)?;
                OptionValue::Number(digits(number)?.checked_mul(1 << power)?)
            }
            OptionType::Choice(_) => OptionValue::Word(text.to_owned()),
            OptionType::Hosts | OptionType::Origins | OptionType::Databases => return None,
        };
        self.allows(&value).then_some(value)
    }

    /// A value as a configuration file has it: what `todana_option_type:format/2` returns.
    pub fn format(self, value: &OptionValue) -> String {
        match (self, value) {
            (OptionType::Integer(range) | OptionType::Bytes(range), OptionValue::Absent) => {
                range.word.unwrap_or("off").to_owned()
            }
            (OptionType::Bytes(_), OptionValue::Number(number)) => {
                let whole = |(_, power): &&(&str, u32)| number % (1 << power) == 0;
                let units = UNITS.iter().rev().filter(|(unit, _)| matches!(unit.len(), 0 | 2));
                match units.filter(|_| *number > 0).find(|unit| whole(unit)) {
                    Some((unit, power)) => format!("{}{unit}", number >> power),
                    None => number.to_string(),
                }
            }
            (_, OptionValue::Number(number)) => number.to_string(),
            (_, OptionValue::Word(word)) => word.clone(),
            (_, OptionValue::Names(names)) if names.is_empty() => "off".to_owned(),
            (_, OptionValue::Names(names)) => names.join(","),
            (_, OptionValue::Rows(rows)) => {
                let first = |row: &Vec<OptionValue>| row.first().map(|value| self.format(value));
                rows.iter().filter_map(first).collect::<Vec<String>>().join(" ")
            }
            (_, OptionValue::Absent) => "off".to_owned(),
        }
    }
}

impl fmt::Display for OptionType {
    /// What a value looks like, for error messages.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionType::Integer(range) | OptionType::Bytes(range) => {
                let [min, max] =
                    [range.min, range.max].map(|it| self.format(&OptionValue::Number(it)));
                let what = if matches!(self, OptionType::Bytes(_)) {
                    "a number of bytes"
                } else {
                    "a whole number"
                };
                write!(formatter, "{what} from {min} to {max}")?;
                range.word.map_or(Ok(()), |word| write!(formatter, " or {word}"))
            }
            OptionType::Choice(words) => formatter.write_str(&words.join(" or ")),
            OptionType::Hosts => formatter.write_str("names of hosts"),
            OptionType::Origins => formatter.write_str("origins"),
            OptionType::Databases => formatter.write_str("names of databases"),
        }
    }
}

/// Decimal digits only, which `u64::from_str` does not insist on.
fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// One option of a structure `T`.
pub struct OptionRow<T: 'static> {
    /// The name of the option, the same in `src/options/todana_options.erl`.
    pub name: &'static str,
    /// Which values it may have.
    pub option_type: OptionType,
    /// How it changes while the server runs, if it may.
    pub change: Option<Change<T>>,
    /// Reads the field.
    pub value: fn(&T) -> OptionValue,
    /// Sets the field. False if the value does not fit its Rust type.
    pub put: fn(&mut T, OptionValue) -> bool,
}

/// How Redis writes the values of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// As a decimal number.
    Number,
    /// As a number with or without a unit, in which `k` is 1,000 and `kb` is 1,024. 0 is `off`, if
    /// the option has that word. The smallest number of the option's range does not count: Redis
    /// has none.
    Bytes,
    /// In seconds, where the option is in milliseconds. 0 is `off`.
    Seconds,
    /// As a decimal number. Negative numbers are `off`.
    NumberOrMinusOne,
    /// By words of its own: the option's word, and Redis'. If several of Redis' words have the same
    /// effect here, the first is the one that is shown.
    Words(&'static [(&'static str, &'static str)]),
}

/// How an option of a running server is changed.
pub struct Change<T: 'static> {
    /// Redis' name of the option.
    pub redis_name: &'static str,
    /// How Redis writes its values.
    pub spelling: Spelling,
    /// Sets the field.
    pub put: fn(&T, OptionValue) -> bool,
}

impl<T> OptionRow<T> {
    /// Sets the field to a value of the option's type and range; false for others.
    pub fn set(&self, of: &mut T, value: OptionValue) -> bool {
        self.option_type.allows(&value) && (self.put)(of, value)
    }
}

/// A field that can be an option.
pub trait OptionField {
    /// The value of the field.
    fn value(&self) -> OptionValue;
    /// Sets the field. False if the value does not fit.
    fn put(&mut self, value: OptionValue) -> bool;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl OptionField for $number {
            fn value(&self) -> OptionValue {
                u64::try_from(*self).map_or(OptionValue::Absent, OptionValue::Number)
            }
            fn put(&mut self, value: OptionValue) -> bool {
                let OptionValue::Number(number) = value else { return false };
                <$number>::try_from(number).map(|number| *self = number).is_ok()
            }
        }
        impl OptionField for Option<$number> {
            fn value(&self) -> OptionValue {
                self.as_ref().map_or(OptionValue::Absent, OptionField::value)
            }
            fn put(&mut self, value: OptionValue) -> bool {
                if value == OptionValue::Absent {
                    *self = None;
                    return true;
                }
                let mut number = 0;
                let fits = <$number as OptionField>::put(&mut number, value);
                if fits {
                    *self = Some(number);
                }
                fits
            }
        }
    )*};
}
numbers!(u32, u64, usize);

/// An item of an option that is a list.
pub trait OptionItem: Sized {
    /// The value of a list of items.
    fn value_of(items: &[Self]) -> OptionValue;
    /// The items of a value; `None` if it does not fit.
    fn items_of(value: OptionValue) -> Option<Vec<Self>>;
}

impl<T: OptionItem> OptionField for Vec<T> {
    fn value(&self) -> OptionValue {
        T::value_of(self)
    }
    fn put(&mut self, value: OptionValue) -> bool {
        T::items_of(value).map(|items| *self = items).is_some()
    }
}

impl OptionItem for String {
    fn value_of(items: &[String]) -> OptionValue {
        OptionValue::Names(items.to_vec())
    }
    fn items_of(value: OptionValue) -> Option<Vec<String>> {
        let OptionValue::Names(names) = value else { return None };
        Some(names)
    }
}

/// A number that may change while the server runs. Reading it is a plain load.
pub struct Changeable<T> {
    /// The number; `u64::MAX` is `None`.
    word: AtomicU64,
    of: PhantomData<T>,
}

/// What a [`Changeable`] may hold.
pub trait Word: Copy + OptionField {
    /// The number as a word.
    fn to_word(self) -> u64;
    /// The number of a word.
    fn of_word(word: u64) -> Self;
}

impl Word for usize {
    #[inline]
    fn to_word(self) -> u64 {
        self as u64
    }
    #[inline]
    fn of_word(word: u64) -> usize {
        word as usize
    }
}

impl Word for Option<u64> {
    #[inline]
    fn to_word(self) -> u64 {
        self.unwrap_or(u64::MAX)
    }
    #[inline]
    fn of_word(word: u64) -> Option<u64> {
        (word != u64::MAX).then_some(word)
    }
}

impl<T: Word> Changeable<T> {
    /// The present number.
    #[inline]
    pub fn get(&self) -> T {
        T::of_word(self.word.load(Relaxed))
    }

    /// Changes the number, for all that read it from now on.
    pub fn set(&self, number: T) {
        self.word.store(number.to_word(), Relaxed);
    }

    /// Changes the number to the value of an option. False if it does not fit.
    pub fn change(&self, value: OptionValue) -> bool {
        let mut number = self.get();
        let fits = number.put(value);
        if fits {
            self.set(number);
        }
        fits
    }
}

impl<T: Word> From<T> for Changeable<T> {
    fn from(number: T) -> Changeable<T> {
        Changeable { word: number.to_word().into(), of: PhantomData }
    }
}

impl<T: Word> Clone for Changeable<T> {
    fn clone(&self) -> Changeable<T> {
        self.get().into()
    }
}

impl<T: Word + fmt::Debug> fmt::Debug for Changeable<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(formatter)
    }
}

impl<T: Word> OptionField for Changeable<T> {
    fn value(&self) -> OptionValue {
        self.get().value()
    }
    fn put(&mut self, value: OptionValue) -> bool {
        self.change(value)
    }
}

/// Declares a structure whose fields are options, with its `Default` and its `OPTIONS`.
///
/// ```
/// use todana_protocol::{Changeable, OptionType, bytes, integer, options};
///
/// options! {
///     /// Limits of a server.
///     pub struct Limits {
///         /// An option: its type, its default, and which values it may have.
///         key_bytes_max: usize = 64 << 10, option bytes(1, 1 << 20);
///         /// An option that `CONFIG SET` changes, and Redis' name for it.
///         slow_log_entries_max: Changeable<usize> = 128.into(), option integer(0, 1_000_000),
///             redis "slowlog-max-len" Number;
///         /// An option with another name than the field.
///         hosts: Vec<String> = Vec::new(), option as kyoto_hosts: OptionType::Hosts;
///         /// A field that is no option. Defaults may read the fields above.
///         bytes_max: usize = 2 * key_bytes_max;
///     }
/// }
///
/// assert_eq!(Limits::OPTIONS.len(), 3);
/// assert_eq!(Limits::default().bytes_max, 128 << 10);
/// ```
#[macro_export]
macro_rules! options {
    (
        $(#[$attribute:meta])*
        pub struct $name:ident {$(
            $(#[$doc:meta])*
            $field:ident: $type:ty = $default:expr
                $(, option $(as $option:ident:)? $option_type:expr
                    $(, redis $redis:literal $spelling:expr)?)?;
        )*}
    ) => {
        $(#[$attribute])*
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl Default for $name {
            fn default() -> $name {
                $(let $field: $type = $default;)*
                $name { $($field),* }
            }
        }

        impl $name {
            /// The fields that are options.
            pub const OPTIONS: &'static [$crate::OptionRow<$name>] = {
                #[allow(unused_imports)]
                use $crate::Spelling::*;
                &[$($($crate::OptionRow {
                    name: $crate::options!(@name $field $($option)?),
                    option_type: $option_type,
                    change: $crate::options!(@change $name $field $($redis $spelling)?),
                    value: |it| $crate::OptionField::value(&it.$field),
                    put: |it, value| $crate::OptionField::put(&mut it.$field, value),
                },)?)*]
            };
        }
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $option:ident) => { stringify!($option) };
    (@change $name:ident $field:ident) => { None };
    (@change $name:ident $field:ident $redis:literal $spelling:expr) => {
        Some($crate::Change::<$name> {
            redis_name: $redis,
            spelling: $spelling,
            put: |it, value| it.$field.change(value),
        })
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use OptionValue::{Absent, Number, Word};

    #[test]
    fn values_are_read_and_written_as_in_a_file() {
        let limit = bytes_or("auto", 0, 2 * TB);
        let interval = integer_or("off", 1, 100);
        let choice = OptionType::Choice(&["evict", "refuse"]);
        for (option_type, text, value) in [
            (limit, "0", Number(0)),
            (limit, "17", Number(17)),
            (limit, "3kb", Number(3 << 10)),
            (limit, "1536mb", Number(1536 << 20)),
            (limit, "1gb", Number(1 << 30)),
            (limit, "2tb", Number(2 << 40)),
            (limit, "auto", Absent),
            (interval, "100", Number(100)),
            (interval, "off", Absent),
            (choice, "refuse", Word("refuse".into())),
        ] {
            assert_eq!(option_type.parse(text), Some(value.clone()), "{text}");
            assert_eq!(option_type.format(&value), text);
        }
        for (option_type, texts) in [
            (limit, &["", "kb", "1 kb", "-1", "+1", "1KB", "3tb", "off", "99999999999tb"][..]),
            (interval, &["", "0", "101", "+5", "1kb", "auto", "99999999999999999999"]),
            (choice, &["", "Evict", "off"]),
        ] {
            assert!(texts.iter().all(|text| option_type.parse(text).is_none()), "{texts:?}");
        }
    }

    #[test]
    fn a_number_that_a_field_cannot_hold_is_refused() {
        let mut field = 7_u32;
        assert!(field.put(Number(u64::from(u32::MAX))));
        assert!(!field.put(Number(1 << 32)));
        assert!(!field.put(Absent));
        assert_eq!(field, u32::MAX);
        let mut field = Some(7_usize);
        assert!(!field.put(Word("x".into())));
        assert!(field.put(Absent));
        assert_eq!(field, None);
    }

    #[test]
    fn a_changeable_number_is_changed_in_place() {
        let limit: Changeable<Option<u64>> = Some(5).into();
        assert!(limit.change(Number(6)));
        assert_eq!(
            (limit.get(), limit.clone().get(), limit.value()),
            (Some(6), Some(6), Number(6))
        );
        assert!(limit.change(Absent));
        assert_eq!(limit.get(), None);
        assert!(!limit.change(Word("x".into())));
    }
}
