//! Random commands of every variant.

use todana_command::{
    BitOperator, Bound, Command, Condition, Delta, ExpireWhen, Expires, Increment, Initial,
    KeyRange, LcsWant, LeaseOptions, Origin, Script, Set, Side, Span, Unit,
};

pub(crate) const KEYS: &[&[u8]] = &[b"", b"k", b"key", &[0xff; 300], b"\0\r\n", b"k"];
const PAIRS: &[(&[u8], &[u8])] = &[(b"a", b"1"), (b"", b""), (b"a", &[7; 1000])];
const WORDS: &[&[u8]] =
    &[b"get", b"u8", b"0", b"set", b"i7", b"#3", b"-1", b"incrby", b"u5", b"3", b"4"];
const PAYLOADS: &[&[u8]] = &[b"", b"\x00\x01a\x0a\x00\0\0\0\0\0\0\0\0", TEN];
/// The value 10, dumped.
const TEN: &[u8] = b"\x00\xc0\x0a\x0a\x00\x6e\x5a\x9e\x0f\x9f\x7b\x2f\x2b";
const NUMBERS: &[u64] = &[0, 1, 127, 128, 300, 1 << 32, i64::MAX as u64, u64::MAX];

/// Builds commands from the digits of a number, as if from dice.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % count
    }
    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
    pub(crate) fn some_of<T>(&mut self, all: &'static [T]) -> &'static [T] {
        let end = self.below(all.len() + 1);
        &all[self.below(end + 1)..end]
    }
    pub(crate) fn bit(&mut self) -> bool {
        self.below(2) == 1
    }
    pub(crate) fn key(&mut self) -> &'static [u8] {
        self.one_of(KEYS)
    }
    pub(crate) fn number(&mut self) -> u64 {
        self.one_of(NUMBERS)
    }
    pub(crate) fn signed(&mut self) -> i64 {
        self.number().cast_signed()
    }
    pub(crate) fn perhaps<T>(&mut self, make: impl Fn(&mut Dice) -> T) -> Option<T> {
        if self.bit() { Some(make(self)) } else { None }
    }
    pub(crate) fn condition(&mut self) -> Condition {
        let version = self.number();
        self.one_of(&[
            Condition::Always,
            Condition::IfAbsent,
            Condition::IfPresent,
            Condition::IfVersion(version),
            Condition::NotNewer(version),
        ])
    }
    pub(crate) fn expires(&mut self) -> Expires {
        let at_ms = self.number();
        self.one_of(&[
            Expires::Never,
            Expires::Keep,
            Expires::At(at_ms),
            Expires::After(at_ms),
            Expires::AfterSecond(at_ms),
        ])
    }
    pub(crate) fn unit(&mut self) -> Unit {
        self.one_of(&[Unit::Byte, Unit::Bit])
    }
    pub(crate) fn want(&mut self) -> LcsWant {
        let spans = LcsWant::Spans { length_min: self.below(1_000), with_lengths: self.bit() };
        self.one_of(&[LcsWant::Text, LcsWant::Length, spans])
    }
    pub(crate) fn delta(&mut self) -> Delta {
        let number = self.number();
        let signed = Delta::Signed(number.cast_signed());
        self.one_of(&[signed, Delta::WrappingAdd(number), Delta::SaturatingSubtract(number)])
    }
    pub(crate) fn initial(&mut self) -> Initial {
        let number = self.number();
        let from = Initial::From(number.cast_signed());
        self.one_of(&[Initial::Zero, Initial::Exactly(number), from])
    }

    pub(crate) fn operator(&mut self) -> BitOperator {
        use BitOperator::{And, AndOr, Diff, Diff1, Not, One, Or, Xor};
        self.one_of(&[And, Or, Xor, Not, Diff, Diff1, AndOr, One])
    }

    pub(crate) fn origin<T: Copy>(&mut self, make: impl Fn(&mut Dice) -> T) -> Origin<T> {
        let number = make(self);
        self.one_of(&[Origin::Refuse, Origin::Set, Origin::From(number)])
    }
    pub(crate) fn bound(&mut self) -> Bound<'static> {
        let key = self.key();
        self.one_of(&[Bound::Included(key), Bound::Excluded(key), Bound::Unbounded])
    }
    pub(crate) fn key_range(&mut self) -> KeyRange<'static> {
        let between = KeyRange::Between(self.bound(), self.bound());
        let prefix = KeyRange::Prefix(self.key());
        self.one_of(&[KeyRange::All, between, prefix])
    }

    pub(crate) fn set(&mut self) -> Set<'static> {
        Set {
            key: self.key(),
            value: self.key(),
            flags: self.number() as u32,
            condition: self.condition(),
            expires: self.expires(),
            return_old: self.bit(),
            track_access: self.bit(),
        }
    }

    pub(crate) fn increment(&mut self) -> Increment<'static> {
        Increment {
            key: self.key(),
            delta: self.delta(),
            initial: self.perhaps(|dice| (dice.initial(), dice.expires())),
            condition: self.condition(),
            expires: self.expires(),
            track_access: self.bit(),
        }
    }

    pub(crate) fn lease_options(&mut self) -> LeaseOptions {
        LeaseOptions {
            vivify: self.perhaps(Dice::expires),
            recache_below_ms: self.perhaps(Dice::number),
            touch: self.perhaps(Dice::expires),
            quiet_access: self.bit(),
            never_win: self.bit(),
        }
    }

    pub(crate) fn when(&mut self) -> ExpireWhen {
        ExpireWhen {
            if_none: self.bit(),
            if_some: self.bit(),
            if_later: self.bit(),
            if_earlier: self.bit(),
        }
    }

    pub(crate) fn span(&mut self) -> Span {
        Span { start: self.signed(), end: self.signed(), unit: self.unit() }
    }

    /// The variant with this number in the encoding.
    pub(crate) fn command(&mut self, variant: usize) -> Command<'static> {
        let (key, keys) = (self.key(), self.some_of(KEYS));
        let at_ms = self.perhaps(Dice::number);
        let database = self.below(20);
        match variant {
            0 => Command::Get { key },
            1 => Command::GetMany { keys },
            2 => Command::Length { key },
            3 => Command::GetRange { key, start: self.signed(), end: self.signed() },
            4 => Command::GetBit { key, offset: self.number() },
            5 => Command::BitCount { key, span: self.perhaps(Dice::span) },
            6 => Command::BitPosition {
                key,
                bit: self.bit(),
                start: self.perhaps(Dice::signed),
                end: self.perhaps(Dice::signed),
                unit: self.unit(),
            },
            7 => Command::Lcs { keys: [key, self.key()], want: self.want() },
            8 => Command::Exists { keys },
            9 => Command::Expiry { key },
            10 => Command::MemoryUsage { key },
            11 => Command::Lease { key, options: self.lease_options() },
            12 => Command::Set(self.set()),
            14 => Command::SetRange { key, offset: self.number(), bytes: self.key() },
            15 => Command::SetBit { key, offset: self.number(), bit: self.bit() },
            16 => Command::Increment(self.increment()),
            17 => Command::IncrementFloat { key, delta: self.key() },
            18 => Command::Delete { keys },
            19 => Command::DeleteIf { key, condition: self.condition() },
            20 => Command::Invalidate { key, condition: self.condition(), expires: self.expires() },
            21 => Command::Take { key },
            22 => Command::GetAndExpire { key, expires: self.expires() },
            23 => Command::Expire { key, expires: self.expires(), when: self.when() },
            24 => Command::NoteAccess { keys },
            25 => Command::SetMany {
                pairs: self.some_of(PAIRS),
                condition: self.condition(),
                expires: self.expires(),
            },
            26 => Command::Rename { from: key, to: self.key(), if_absent: self.bit() },
            27 => Command::Copy {
                from: key,
                to: self.key(),
                database: self.perhaps(|dice| dice.below(20)),
                replace: self.bit(),
            },
            28 => Command::Move { key, database },
            29 => Command::Count,
            30 => Command::Scan {
                cursor: self.number(),
                count: self.below(1_000),
                pattern: self.perhaps(Dice::key),
                values: self.bit(),
            },
            31 => Command::Keys { pattern: key },
            32 => Command::RandomKey { seed: self.number() },
            33 => Command::Clear { at_ms },
            34 => Command::ClearAll { at_ms },
            35 => Command::Swap { first: database, second: self.below(20) },
            36 => Command::Concat {
                key,
                bytes: self.key(),
                side: self.one_of(&[Side::Append, Side::Prepend]),
                create: self.bit(),
                condition: self.condition(),
                expires: self.expires(),
            },
            37 => Command::IncrementBinary {
                key,
                delta: self.signed(),
                origin: self.origin(Dice::signed),
                expires: self.expires(),
            },
            38 => Command::IncrementFraction {
                key,
                delta_bits: self.number(),
                origin: self.origin(Dice::number),
                expires: self.expires(),
            },
            39 => Command::CompareValue {
                key,
                old: self.perhaps(Dice::key),
                new: self.perhaps(Dice::key),
                expires: self.expires(),
            },
            43 => Command::ReplaceIf {
                key,
                value: self.key(),
                equal: self.bit(),
                new: self.perhaps(Dice::key),
                expires: self.expires(),
                return_old: self.bit(),
            },
            40 => Command::Range {
                keys: self.key_range(),
                after: self.perhaps(Dice::key),
                reverse: self.bit(),
                count: self.below(1_000),
                values: self.bit(),
            },
            41 => Command::Sweep { work_max: self.below(1_000) },
            42 => {
                Command::KeysOfSlot { slot: todana_command::slot_of(key), count: self.below(1_000) }
            }
            44 => Command::Script(Script {
                source: self.key(),
                words: keys,
                keys: self.below(4),
                steps_max: self.number(),
                bytes_max: self.number(),
                reads: self.bit(),
            }),
            50 => Command::BitOperation { operator: self.operator(), keys },
            51 => Command::BitFields { key, words: self.some_of(WORDS), writes: self.bit() },
            52 => Command::AddToSketch { key, elements: keys },
            53 => Command::CountSketches { keys },
            54 => Command::MergeSketches { keys },
            55 => Command::Dump { key },
            56 => Command::Restore {
                key,
                payload: self.one_of(PAYLOADS),
                expires: self.expires(),
                replace: self.bit(),
            },
            57 => Command::StoreNothing { keys: [key, self.key()] },
            _ => panic!("no example of variant {variant}"),
        }
    }
}

/// The variants and their numbers. The compiler demands every variant.
macro_rules! variants {
    ($($number:literal $variant:ident)*) => {
        pub(crate) const VARIANTS: &[usize] = &[$($number),*];

        pub(crate) fn number(command: &Command<'_>) -> usize {
            match command {
                $(Command::$variant { .. } => $number,)*
            }
        }
    };
}

#[rustfmt::skip]
variants! {
    0 Get 1 GetMany 2 Length 3 GetRange 4 GetBit 5 BitCount 6 BitPosition 7 Lcs 8 Exists 9 Expiry
    10 MemoryUsage 11 Lease 12 Set 14 SetRange 15 SetBit 16 Increment 17 IncrementFloat 18 Delete
    19 DeleteIf 20 Invalidate 21 Take 22 GetAndExpire 23 Expire 24 NoteAccess 25 SetMany 26 Rename
    27 Copy 28 Move 29 Count 30 Scan 31 Keys 32 RandomKey 33 Clear 34 ClearAll 35 Swap 36 Concat
    37 IncrementBinary 38 IncrementFraction 39 CompareValue 40 Range 41 Sweep
    42 KeysOfSlot 43 ReplaceIf 44 Script
    50 BitOperation 51 BitFields 52 AddToSketch 53 CountSketches 54 MergeSketches 55 Dump 56 Restore
    57 StoreNothing
}
