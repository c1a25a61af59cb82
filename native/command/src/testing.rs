//! Random commands of every kind, for tests: the rows of the families say which fields a command
//! has, and each type says what its values may be.

use crate::bits::BitsCommand;
use crate::database::DatabaseCommand;
use crate::key::KeyCommand;
use crate::lease::LeaseCommand;
use crate::script::ScriptCommand;
use crate::sketch::SketchCommand;
use crate::string::StringCommand;
use crate::{
    BitOperator, Bound, Command, Condition, Delta, ExpireWhen, Expires, Increment, Initial,
    KeyRange, LcsWant, LeaseOptions, Origin, Script, Set, Side, Span, Unit, slot_of,
};

/// The keys, and most other bytes.
pub const KEYS: &[&[u8]] = &[b"", b"k", b"key", &[0xff; 300], b"\0\r\n", b"k"];
const PAIRS: &[(&[u8], &[u8])] = &[(b"a", b"1"), (b"", b""), (b"a", &[7; 1000])];
const WORDS: &[&[u8]] =
    &[b"get", b"u8", b"0", b"set", b"i7", b"#3", b"-1", b"incrby", b"u5", b"3", b"4"];
const PAYLOADS: &[&[u8]] = &[b"", b"\x00\x01a\x0a\x00\0\0\0\0\0\0\0\0", TEN];
/// The value 10, dumped.
const TEN: &[u8] = b"\x00\xc0\x0a\x0a\x00\x6e\x5a\x9e\x0f\x9f\x7b\x2f\x2b";
const NUMBERS: &[u64] = &[0, 1, 127, 128, 300, 1 << 32, i64::MAX as u64, u64::MAX];

/// Makes values from the digits of a number, as if from dice.
#[derive(Debug)]
pub struct Dice(pub u64);

impl Dice {
    /// A number below this one.
    pub fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % count
    }

    /// One of these.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// Some of these, which follow each other.
    pub fn some_of<T>(&mut self, all: &'static [T]) -> &'static [T] {
        let end = self.below(all.len() + 1);
        &all[self.below(end + 1)..end]
    }

    /// One time in two.
    pub fn bit(&mut self) -> bool {
        self.below(2) == 1
    }

    /// A key.
    pub fn key(&mut self) -> &'static [u8] {
        self.one_of(KEYS)
    }

    /// A number at an edge.
    pub fn number(&mut self) -> u64 {
        self.one_of(NUMBERS)
    }

    /// What this makes, one time in two.
    pub fn perhaps<T>(&mut self, make: impl Fn(&mut Dice) -> T) -> Option<T> {
        if self.bit() { Some(make(self)) } else { None }
    }

    /// A value of this type.
    pub fn any<T: Roll>(&mut self) -> T {
        T::roll(self, "")
    }

    /// A command of any number.
    pub fn any_command(&mut self) -> Command<'static> {
        let number = self.one_of(&numbers());
        self.command(number)
    }

    /// A command of this number.
    ///
    /// # Panics
    ///
    /// If no command has it.
    pub fn command(&mut self, number: u16) -> Command<'static> {
        macro_rules! first_of {
            ($($name:ident($family:ident))*) => {$(
                if let Some(command) = $family::roll(number, self) {
                    return Command::$name(command);
                }
            )*};
        }
        first_of! {
            String(StringCommand) Key(KeyCommand) Bits(BitsCommand) Sketch(SketchCommand)
            Lease(LeaseCommand) Script(ScriptCommand) Database(DatabaseCommand)
        }
        panic!("no command has the number {number}")
    }
}

/// The numbers of all commands, in order.
pub fn numbers() -> Vec<u16> {
    let mut all: Vec<u16> = rows().map(|(number, _)| number).collect();
    all.sort_unstable();
    all
}

/// The number and the name of each command, family by family.
pub fn rows() -> impl Iterator<Item = (u16, &'static str)> {
    [
        StringCommand::ALL,
        KeyCommand::ALL,
        BitsCommand::ALL,
        SketchCommand::ALL,
        LeaseCommand::ALL,
        ScriptCommand::ALL,
        DatabaseCommand::ALL,
    ]
    .into_iter()
    .flatten()
    .copied()
}

/// The number of a command.
pub fn number_of(command: &Command<'_>) -> u16 {
    command.number()
}

/// The keys of a command, in its order.
pub fn keys_of<'a>(command: &Command<'a>) -> Vec<&'a [u8]> {
    let mut keys = Vec::new();
    command.scope().each_key(|key| keys.push(key));
    keys
}

/// A type that fields of commands have.
pub trait Roll: Sized {
    /// A value for the field of this name.
    fn roll(dice: &mut Dice, field: &str) -> Self;
}

/// Types, and how a value of each is made.
macro_rules! rolls {
    ($($type:ty: |$dice:pat_param, $field:pat_param| $value:expr;)*) => {$(
        impl Roll for $type {
            fn roll($dice: &mut Dice, $field: &str) -> Self {
                $value
            }
        }
    )*};
}

rolls! {
    bool: |dice, _| dice.bit();
    u64: |dice, _| dice.number();
    i64: |dice, _| dice.number().cast_signed();
    u32: |dice, _| dice.number() as u32;
    u16: |dice, _| slot_of(dice.key());
    usize: |dice, field| match field {
        "database" | "first" | "second" => dice.below(20),
        "keys" => dice.below(4),
        _ => dice.below(1_000),
    };
    &'static [u8]: |dice, field| match field {
        "payload" => dice.one_of(PAYLOADS),
        _ => dice.key(),
    };
    &'static [&'static [u8]]: |dice, field| match field {
        "words" => dice.some_of(WORDS),
        _ => dice.some_of(KEYS),
    };
    [&'static [u8]; 2]: |dice, _| [dice.key(), dice.key()];
    &'static [(&'static [u8], &'static [u8])]: |dice, _| dice.some_of(PAIRS);
    (Initial, Expires): |dice, _| (dice.any(), dice.any());

    Condition: |dice, _| {
        let version = dice.number();
        dice.one_of(&[
            Condition::Always,
            Condition::IfAbsent,
            Condition::IfPresent,
            Condition::IfVersion(version),
            Condition::NotNewer(version),
        ])
    };
    Expires: |dice, _| {
        let at_ms = dice.number();
        dice.one_of(&[
            Expires::Never,
            Expires::Keep,
            Expires::At(at_ms),
            Expires::After(at_ms),
            Expires::AfterSecond(at_ms),
        ])
    };
    ExpireWhen: |dice, _| ExpireWhen {
        if_none: dice.bit(),
        if_some: dice.bit(),
        if_later: dice.bit(),
        if_earlier: dice.bit(),
    };
    Unit: |dice, _| dice.one_of(&[Unit::Byte, Unit::Bit]);
    Span: |dice, _| Span { start: dice.any(), end: dice.any(), unit: dice.any() };
    BitOperator: |dice, _| {
        use BitOperator::{And, AndOr, Diff, Diff1, Not, One, Or, Xor};
        dice.one_of(&[And, Or, Xor, Not, Diff, Diff1, AndOr, One])
    };
    Side: |dice, _| dice.one_of(&[Side::Append, Side::Prepend]);
    LcsWant: |dice, _| {
        let spans = LcsWant::Spans { length_min: dice.below(1_000), with_lengths: dice.bit() };
        dice.one_of(&[LcsWant::Text, LcsWant::Length, spans])
    };
    Delta: |dice, _| {
        let number = dice.number();
        let signed = Delta::Signed(number.cast_signed());
        dice.one_of(&[signed, Delta::WrappingAdd(number), Delta::SaturatingSubtract(number)])
    };
    Initial: |dice, _| {
        let number = dice.number();
        let from = Initial::From(number.cast_signed());
        dice.one_of(&[Initial::Zero, Initial::Exactly(number), from])
    };
    Bound<'static>: |dice, _| {
        let key = dice.key();
        dice.one_of(&[Bound::Included(key), Bound::Excluded(key), Bound::Unbounded])
    };
    KeyRange<'static>: |dice, _| {
        let between = KeyRange::Between(dice.any(), dice.any());
        let prefix = KeyRange::Prefix(dice.key());
        dice.one_of(&[KeyRange::All, between, prefix])
    };
    LeaseOptions: |dice, _| LeaseOptions {
        vivify: dice.any(),
        recache_below_ms: dice.any(),
        touch: dice.any(),
        quiet_access: dice.bit(),
        never_win: dice.bit(),
    };
    Set<'static>: |dice, _| Set {
        key: dice.key(),
        value: dice.key(),
        flags: dice.any(),
        condition: dice.any(),
        expires: dice.any(),
        return_old: dice.bit(),
        track_access: dice.bit(),
    };
    Increment<'static>: |dice, _| Increment {
        key: dice.key(),
        delta: dice.any(),
        initial: dice.any(),
        condition: dice.any(),
        expires: dice.any(),
        track_access: dice.bit(),
    };
    Script<'static>: |dice, _| Script {
        source: dice.key(),
        words: dice.any(),
        keys: usize::roll(dice, "keys"),
        steps_max: dice.number(),
        bytes_max: dice.number(),
        reads: dice.bit(),
    };
}

impl<T: Roll> Roll for Option<T> {
    fn roll(dice: &mut Dice, field: &str) -> Self {
        if dice.bit() { Some(T::roll(dice, field)) } else { None }
    }
}

impl<T: Roll + Copy> Roll for Origin<T> {
    fn roll(dice: &mut Dice, field: &str) -> Self {
        let number = T::roll(dice, field);
        dice.one_of(&[Origin::Refuse, Origin::Set, Origin::From(number)])
    }
}
