//! Compares single-key commands with a model of two dozen lines each: a map and a clock.

use crate::recorder::{Answer, Store};
use proptest::prelude::*;
use std::collections::HashMap;
use todana_command::{
    BitsCommand, Command, Condition, Delta, Error, ExpireWhen, Expires, Increment, Initial,
    KeyCommand, Origin, Refusal, Set, Side, StringCommand,
};

const KEYS: [&[u8]; 2] = [b"a", b"another key"];
const VALUE_BYTES_MAX: usize = 40;

#[derive(Clone, Debug, PartialEq)]
struct Held {
    value: Vec<u8>,
    flags: u32,
    expires_at_ms: Option<u64>,
    version: u64,
}

/// A counter of fixed width.
trait Number: Copy + Default + PartialEq {
    const BYTES: usize;
    fn read(bytes: &[u8]) -> Self;
    fn bytes(self) -> Vec<u8>;
    fn plus(self, delta: Self) -> Self;
    /// Whether no delta changes the number.
    fn stays(self) -> bool;
}

impl Number for i64 {
    const BYTES: usize = 8;
    fn read(bytes: &[u8]) -> i64 {
        bytes.iter().fold(0, |number, byte| number << 8 | i64::from(*byte))
    }
    fn bytes(self) -> Vec<u8> {
        self.to_be_bytes().to_vec()
    }
    fn plus(self, delta: i64) -> i64 {
        (i128::from(self) + i128::from(delta)) as i64
    }
    fn stays(self) -> bool {
        false
    }
}

/// Units of a fraction in one.
const UNITS: i64 = 1_000_000_000_000_000;

/// An integer part, and a fraction in units of 10^-15.
#[derive(Clone, Copy, Default, PartialEq)]
struct Parts(i64, i64);

impl Parts {
    fn of_eighths(eighths: i64) -> Parts {
        Parts(eighths / 8, eighths % 8 * (UNITS / 8))
    }
}

impl Number for Parts {
    const BYTES: usize = 16;
    fn read(bytes: &[u8]) -> Parts {
        match (i64::read(&bytes[..8]), i64::read(&bytes[8..])) {
            // An infinity has no fraction; NaN has one.
            (i64::MIN, rest) if rest != i64::MIN => Parts(i64::MIN, 0),
            (i64::MAX, _) => Parts(i64::MAX, 0),
            (integer, rest) => Parts(integer, rest),
        }
    }
    fn bytes(self) -> Vec<u8> {
        [self.0.to_be_bytes(), self.1.to_be_bytes()].concat()
    }
    fn plus(self, delta: Parts) -> Parts {
        let mut integer = i128::from(self.0) + i128::from(delta.0);
        let mut units = i128::from(self.1) + i128::from(delta.1);
        let carried = match units {
            _ if units >= i128::from(UNITS)
                && units - i128::from(UNITS) <= i128::from(i64::MAX) =>
            {
                1
            }
            _ if units < i128::from(i64::MIN) => units / i128::from(UNITS),
            _ => 0,
        };
        integer += carried;
        units -= carried * i128::from(UNITS);
        match integer {
            _ if integer >= i128::from(i64::MAX) => Parts(i64::MAX, 0),
            _ if integer <= i128::from(i64::MIN) => Parts(i64::MIN, 0),
            _ => Parts(integer as i64, units as i64),
        }
    }
    fn stays(self) -> bool {
        self.0 == i64::MIN || self.0 == i64::MAX
    }
}

#[derive(Default)]
struct Model {
    held: HashMap<usize, Held>,
    now_ms: u64,
}

#[derive(Clone, Debug)]
enum Action {
    Wait { ms: u64 },
    Get,
    Take,
    Delete,
    DeleteIf(Condition),
    Set { value: Vec<u8>, flags: u32, condition: Condition, expires: Expires, return_old: bool },
    Concat { bytes: Vec<u8>, side: Side, create: bool, condition: Condition, expires: Expires },
    SetRange { offset: u64, bytes: Vec<u8> },
    SetBit { offset: u64, bit: bool },
    Add { delta: Delta, initial: Option<(Initial, Expires)>, expires: Expires },
    AddWord { delta: i64, origin: Origin<i64>, expires: Expires },
    AddEighths { delta: i64, origin: Origin<i64>, expires: Expires },
    Compare { old: Expected, new: Option<Vec<u8>>, expires: Expires },
    Expire { expires: Expires, when: ExpireWhen },
    GetAndExpire(Expires),
    GetRange { start: i64, end: i64 },
}

/// The value that a comparison expects: the present one, or this.
#[derive(Clone, Debug)]
enum Expected {
    AsItIs,
    This(Option<Vec<u8>>),
}

impl Expected {
    fn value<'a>(&'a self, held: Option<&'a Held>) -> Option<&'a [u8]> {
        match self {
            Expected::AsItIs => held.map(|held| &held.value[..]),
            Expected::This(value) => value.as_deref(),
        }
    }
}

impl Held {
    fn answer(&self) -> Answer {
        let (flags, expires_at_ms) = (self.flags, self.expires_at_ms);
        Answer::Record { value: self.value.clone(), flags, expires_at_ms }
    }
}

impl Model {
    fn expiry(&self, expires: Expires, old: Option<&Held>) -> Option<u64> {
        match expires {
            Expires::Never => None,
            Expires::Keep => old.and_then(|held| held.expires_at_ms),
            Expires::At(at_ms) => Some(at_ms),
            Expires::After(ms) => Some(self.now_ms + ms),
            Expires::AfterSecond(seconds) => Some((self.now_ms / 1000 + seconds + 1) * 1000),
        }
    }

    fn refusal(condition: Condition, held: Option<&Held>) -> Option<Refusal> {
        match (condition, held) {
            (Condition::IfAbsent, Some(_)) => Some(Refusal::Present),
            (Condition::Always | Condition::IfAbsent, _) | (Condition::IfPresent, Some(_)) => None,
            (_, None) => Some(Refusal::Absent),
            (Condition::IfVersion(version), Some(held)) => {
                (held.version != version).then_some(Refusal::VersionDiffers)
            }
            (Condition::NotNewer(version), Some(held)) => {
                (held.version < version).then_some(Refusal::VersionDiffers)
            }
        }
    }

    /// Stores a record whose version is not known yet.
    fn put(&mut self, key: usize, value: Vec<u8>, flags: u32, expires_at_ms: Option<u64>) {
        self.held.insert(key, Held { value, flags, expires_at_ms, version: u64::MAX });
    }

    /// Replaces the value; flags and expiry stay.
    fn change(&mut self, key: usize, value: Vec<u8>) {
        let (flags, expires_at_ms) =
            self.held.get(&key).map_or((0, None), |held| (held.flags, held.expires_at_ms));
        self.put(key, value, flags, expires_at_ms);
    }

    /// Removes expired records.
    fn drop_expired(&mut self) {
        let now_ms = self.now_ms;
        self.held.retain(|_, held| held.expires_at_ms.is_none_or(|at_ms| at_ms > now_ms));
    }

    fn run(&mut self, key: usize, action: &Action) -> Answer {
        let old = self.held.get(&key).cloned();
        match action.clone() {
            Action::Wait { ms } => {
                self.now_ms += ms;
                Answer::None
            }
            Action::Get => old.map_or(Answer::None, |held| held.answer()),
            Action::Take => {
                self.held.remove(&key);
                old.map_or(Answer::None, |held| held.answer())
            }
            Action::Delete => Answer::Integer(self.held.remove(&key).is_some().into()),
            Action::DeleteIf(condition) => match (Model::refusal(condition, old.as_ref()), old) {
                (Some(refusal), _) => Answer::Refused(refusal),
                (None, None) => Answer::Refused(Refusal::Absent),
                (None, Some(_)) => {
                    self.held.remove(&key);
                    Answer::Done
                }
            },
            Action::Set { value, flags, condition, expires, return_old } => {
                let refusal = Model::refusal(condition, old.as_ref());
                if refusal.is_none() {
                    let expires_at_ms = match condition {
                        // Late, so that only the value and its flags change.
                        Condition::NotNewer(version)
                            if old.as_ref().is_some_and(|held| held.version > version) =>
                        {
                            self.expiry(Expires::Keep, old.as_ref())
                        }
                        _ => self.expiry(expires, old.as_ref()),
                    };
                    self.put(key, value, flags, expires_at_ms);
                }
                match (return_old, old, refusal) {
                    (true, old, _) => old.map_or(Answer::None, |held| held.answer()),
                    (false, _, Some(refusal)) => Answer::Refused(refusal),
                    (false, _, None) => Answer::Stored,
                }
            }
            Action::Concat { bytes, side, create, condition, expires } => {
                if let Some(refusal) = Model::refusal(condition, old.as_ref()) {
                    return Answer::Refused(refusal);
                }
                if old.is_none() && !create {
                    return Answer::Refused(Refusal::Absent);
                }
                let flags = old.as_ref().map_or(0, |held| held.flags);
                let expires_at_ms = self.expiry(expires, old.as_ref());
                let old = old.map_or(Vec::new(), |held| held.value);
                let value = match side {
                    Side::Append => [old, bytes].concat(),
                    Side::Prepend => [bytes, old].concat(),
                };
                if value.len() > VALUE_BYTES_MAX {
                    return Answer::Error(Error::ValueTooLarge);
                }
                let length = value.len();
                self.put(key, value, flags, expires_at_ms);
                Answer::Length(length)
            }
            Action::SetRange { offset, bytes } => {
                let mut value = old.map_or(Vec::new(), |held| held.value);
                if bytes.is_empty() {
                    return Answer::Integer(value.len() as i64);
                }
                let end = offset.saturating_add(bytes.len() as u64);
                if end > VALUE_BYTES_MAX as u64 {
                    return Answer::Error(Error::ValueTooLarge);
                }
                let (start, end) = (offset as usize, end as usize);
                value.resize(value.len().max(end), 0);
                value[start..end].copy_from_slice(&bytes);
                let length = value.len();
                self.change(key, value);
                Answer::Integer(length as i64)
            }
            Action::SetBit { offset, bit } => {
                let byte = offset / 8;
                if byte >= VALUE_BYTES_MAX as u64 {
                    return Answer::Error(Error::ValueTooLarge);
                }
                let mut value = old.as_ref().map_or(Vec::new(), |held| held.value.clone());
                value.resize(value.len().max(byte as usize + 1), 0);
                let mask = 0x80 >> (offset % 8);
                let before = value[byte as usize] & mask != 0;
                value[byte as usize] =
                    if bit { value[byte as usize] | mask } else { value[byte as usize] & !mask };
                if old.is_none_or(|held| held.value != value) {
                    self.change(key, value);
                }
                Answer::Integer(before.into())
            }
            Action::Add { delta, initial, expires } => self.add(key, delta, initial, expires),
            Action::AddWord { delta, origin, expires } => {
                let starts = |number: i64| number.plus(delta);
                let new = self.count(key, delta, origin, starts, expires);
                new.map_or_else(|it| it, Answer::Integer)
            }
            Action::AddEighths { delta, origin, expires } => {
                let starts = |number: i64| Parts::of_eighths(number + delta);
                let new = self.count(key, Parts::of_eighths(delta), origin, starts, expires);
                new.map_or_else(|it| it, |parts| Answer::Bytes(parts.bytes()))
            }
            Action::Compare { old: expected, new, expires } => {
                if expected.value(old.as_ref()) != old.as_ref().map(|held| &held.value[..]) {
                    return Answer::Refused(Refusal::ValueDiffers);
                }
                match new {
                    None => {
                        self.held.remove(&key);
                    }
                    Some(value) if value.len() > VALUE_BYTES_MAX => {
                        return Answer::Error(Error::ValueTooLarge);
                    }
                    Some(value) => {
                        let expires_at_ms = self.expiry(expires, old.as_ref());
                        self.put(key, value, 0, expires_at_ms);
                    }
                }
                Answer::Done
            }
            Action::Expire { expires, when } => {
                let Some(held) = old else { return Answer::Flag(false) };
                let new = self.expiry(expires, Some(&held));
                // Never is later than any time.
                let late = |at_ms: Option<u64>| at_ms.map_or(u128::MAX, u128::from);
                let (from, to) = (held.expires_at_ms, new);
                let stays = (when.if_none && from.is_some())
                    || (when.if_some && from.is_none())
                    || (when.if_later && late(to) <= late(from))
                    || (when.if_earlier && late(to) >= late(from))
                    || (expires == Expires::Never && from.is_none());
                let applies = !stays;
                if applies {
                    self.put(key, held.value, held.flags, new);
                }
                Answer::Flag(applies)
            }
            Action::GetAndExpire(expires) => {
                let Some(held) = old else { return Answer::None };
                let new = self.expiry(expires, Some(&held));
                if new != held.expires_at_ms {
                    self.put(key, held.value.clone(), held.flags, new);
                }
                let is_past = new.is_some_and(|at_ms| at_ms <= self.now_ms);
                let shown = if is_past { held.expires_at_ms } else { new };
                Held { expires_at_ms: shown, ..held }.answer()
            }
            Action::GetRange { start, end } => {
                let value = old.map_or(Vec::new(), |held| held.value);
                if start < 0 && end < 0 && start > end {
                    return Answer::Bytes(Vec::new());
                }
                let length = value.len() as i64;
                let place = |at: i64| if at < 0 { (length + at).max(0) } else { at };
                let span = place(start)..=place(end);
                let bytes = (0..length).zip(value).filter(|(at, _)| span.contains(at));
                Answer::Bytes(bytes.map(|(_, byte)| byte).collect())
            }
        }
    }

    /// Adds to a counter that [`Number`] reads and writes. `starts` is the result for a missing
    /// counter.
    fn count<N: Number>(
        &mut self,
        key: usize,
        delta: N,
        origin: Origin<i64>,
        starts: impl Fn(i64) -> N,
        expires: Expires,
    ) -> Result<N, Answer> {
        let old = self.held.get(&key).cloned();
        let number = match &old {
            Some(held) if held.value.len() != N::BYTES => {
                return Err(Answer::Error(Error::NotACounter));
            }
            Some(held) => Some(N::read(&held.value)),
            None => None,
        };
        let new = match (origin, number) {
            (Origin::Set, _) => delta,
            (_, Some(number)) if delta == N::default() || number.stays() => return Ok(number),
            (_, Some(number)) => number.plus(delta),
            (Origin::From(number), None) => starts(number),
            (Origin::Refuse, None) => return Err(Answer::Refused(Refusal::Absent)),
        };
        let expires_at_ms = self.expiry(expires, old.as_ref());
        self.put(key, new.bytes(), old.map_or(0, |held| held.flags), expires_at_ms);
        Ok(new)
    }

    fn add(
        &mut self,
        key: usize,
        delta: Delta,
        initial: Option<(Initial, Expires)>,
        expires: Expires,
    ) -> Answer {
        let old = self.held.get(&key).cloned();
        let text = old.as_ref().map(|held| String::from_utf8_lossy(&held.value).into_owned());
        let (start, expires_at_ms) = match (&text, initial) {
            (None, None) => return Answer::Refused(Refusal::Absent),
            (None, Some((Initial::Exactly(number), expires))) => {
                let expires_at_ms = self.expiry(expires, None);
                self.put(key, number.to_string().into_bytes(), 0, expires_at_ms);
                return Answer::Number(number.to_string());
            }
            (None, Some((Initial::Zero, expires))) => ("0".to_owned(), self.expiry(expires, None)),
            (None, Some((Initial::From(number), expires))) => {
                (number.to_string(), self.expiry(expires, None))
            }
            (Some(text), _) => (text.clone(), self.expiry(expires, old.as_ref())),
        };
        let sum = match delta {
            Delta::Signed(delta) => {
                // Only a text that is printed in the same way is a number.
                let number = start.parse::<i64>().ok().filter(|n| n.to_string() == start);
                let Some(number) = number else { return Answer::Error(Error::NotAnInteger) };
                match number.checked_add(delta) {
                    Some(sum) => sum.to_string(),
                    None => return Answer::Error(Error::Overflow),
                }
            }
            Delta::WrappingAdd(_) | Delta::SaturatingSubtract(_) => {
                let Some(number) = unsigned(start.as_bytes()) else {
                    return Answer::Error(Error::NotAnInteger);
                };
                match delta {
                    Delta::WrappingAdd(delta) => number.wrapping_add(delta).to_string(),
                    Delta::SaturatingSubtract(delta) => number.saturating_sub(delta).to_string(),
                    Delta::Signed(_) => unreachable!(),
                }
            }
        };
        let flags = old.map_or(0, |held| held.flags);
        self.put(key, sum.clone().into_bytes(), flags, expires_at_ms);
        Answer::Number(sum)
    }
}

/// The number in a value by C's `strtoull`, as memcached calls it: white space, a sign and digits,
/// and then white space, a zero byte, or the end. A negative number counts if it wraps around to
/// less than 2^63.
fn unsigned(value: &[u8]) -> Option<u64> {
    let text: String = value.iter().map(|byte| char::from(*byte)).collect();
    let spaces = [' ', '\t', '\n', '\u{b}', '\u{c}', '\r'];
    let text = text.trim_start_matches(spaces);
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
    let ends = text[digits.len()..].chars().next().is_none_or(|c| c == '\0' || spaces.contains(&c));
    let number = digits.parse::<u64>().ok().filter(|_| ends)?;
    if !negative {
        return Some(number);
    }
    let wrapped = 0u64.wrapping_sub(number);
    (wrapped < 1 << 63).then_some(wrapped)
}

/// The command of an action; `held` is the record before it.
fn command<'a>(key: &'a [u8], action: &'a Action, held: Option<&'a Held>) -> Option<Command<'a>> {
    Some(match *action {
        Action::Wait { .. } => return None,
        Action::Get => Command::String(StringCommand::Get { key }),
        Action::Take => Command::String(StringCommand::Take { key }),
        Action::Delete => match key {
            b"a" => Command::Key(KeyCommand::Delete { keys: &[b"a"] }),
            _ => Command::Key(KeyCommand::Delete { keys: &[b"another key"] }),
        },
        Action::DeleteIf(condition) => Command::Key(KeyCommand::DeleteIf { key, condition }),
        Action::Set { ref value, flags, condition, expires, return_old } => {
            let set = Set::new(key, value);
            Command::String(StringCommand::Set(Set {
                flags,
                condition,
                expires,
                return_old,
                ..set
            }))
        }
        Action::Concat { ref bytes, side, create, condition, expires } => {
            Command::String(StringCommand::Concat { key, bytes, side, create, condition, expires })
        }
        Action::SetRange { offset, ref bytes } => {
            Command::String(StringCommand::SetRange { key, offset, bytes })
        }
        Action::SetBit { offset, bit } => Command::Bits(BitsCommand::SetBit { key, offset, bit }),
        Action::Add { delta, initial, expires } => {
            let (condition, track_access) = (Condition::Always, false);
            let increment = Increment { key, delta, initial, condition, expires, track_access };
            Command::String(StringCommand::Increment(increment))
        }
        Action::AddWord { delta, origin, expires } => {
            Command::String(StringCommand::IncrementBinary { key, delta, origin, expires })
        }
        Action::AddEighths { delta, origin, expires } => {
            let bits = |eighths: i64| (eighths as f64 / 8.0).to_bits();
            let origin = match origin {
                Origin::Refuse => Origin::Refuse,
                Origin::Set => Origin::Set,
                Origin::From(number) => Origin::From(bits(number)),
            };
            Command::String(StringCommand::IncrementFraction {
                key,
                delta_bits: bits(delta),
                origin,
                expires,
            })
        }
        Action::Compare { ref old, ref new, expires } => {
            Command::String(StringCommand::CompareValue {
                key,
                old: old.value(held),
                new: new.as_deref(),
                expires,
            })
        }
        Action::Expire { expires, when } => Command::Key(KeyCommand::Expire { key, expires, when }),
        Action::GetAndExpire(expires) => {
            Command::String(StringCommand::GetAndExpire { key, expires })
        }
        Action::GetRange { start, end } => {
            Command::String(StringCommand::GetRange { key, start, end })
        }
    })
}

fn conditions() -> impl Strategy<Value = Condition> {
    prop_oneof![
        3 => Just(Condition::Always),
        1 => Just(Condition::IfAbsent),
        1 => Just(Condition::IfPresent),
        1 => (1..20u64).prop_map(Condition::IfVersion),
        1 => (1..20u64).prop_map(Condition::NotNewer),
    ]
}

fn expiries() -> impl Strategy<Value = Expires> {
    prop_oneof![
        Just(Expires::Never),
        Just(Expires::Keep),
        (999_900..1_000_300u64).prop_map(Expires::At),
        (0..300u64).prop_map(Expires::After),
        (0..2u64).prop_map(Expires::AfterSecond),
    ]
}

fn origins(numbers: impl Strategy<Value = i64>) -> impl Strategy<Value = Origin<i64>> {
    prop_oneof![
        1 => Just(Origin::Refuse),
        1 => Just(Origin::Set),
        2 => numbers.prop_map(Origin::From),
    ]
}

fn expected() -> impl Strategy<Value = Expected> {
    prop_oneof![Just(Expected::AsItIs), proptest::option::of(values()).prop_map(Expected::This)]
}

fn values() -> impl Strategy<Value = Vec<u8>> {
    // The last values are counters of fixed width, or halves of one.
    let counters: [&[u8]; 4] = [&[0; 8], &[0xff; 8], &[0; 16], &[0xff; 16]];
    let numbers = [
        "0",
        "-0",
        "01",
        "7",
        "-3",
        "+1",
        " 7",
        "8 9",
        "5\0x",
        "5\u{b}",
        "- 5",
        "9223372036854775807",
        "18446744073709551615",
        "-18446744073709551615",
    ];
    prop_oneof![
        proptest::sample::select(numbers.to_vec()).prop_map(|text| text.as_bytes().to_vec()),
        proptest::sample::select(counters.to_vec()).prop_map(<[u8]>::to_vec),
        proptest::collection::vec(any::<u8>().prop_map(|byte| byte & 0x7f | 0x40), 0..16),
    ]
}

fn actions() -> impl Strategy<Value = Action> {
    let whens = any::<[bool; 4]>().prop_map(|[if_none, if_some, if_later, if_earlier]| {
        ExpireWhen { if_none, if_some, if_later, if_earlier }
    });
    let deltas = prop_oneof![
        any::<i64>().prop_map(Delta::Signed),
        (-9..9i64).prop_map(Delta::Signed),
        any::<u64>().prop_map(Delta::WrappingAdd),
        any::<u64>().prop_map(Delta::SaturatingSubtract),
    ];
    let initials = prop_oneof![
        Just(Initial::Zero),
        any::<u64>().prop_map(Initial::Exactly),
        any::<i64>().prop_map(Initial::From),
    ];
    prop_oneof![
        (0..60u64).prop_map(|ms| Action::Wait { ms }),
        Just(Action::Get),
        Just(Action::Take),
        Just(Action::Delete),
        conditions().prop_map(Action::DeleteIf),
        (values(), any::<u32>(), conditions(), expiries(), any::<bool>()).prop_map(
            |(value, flags, condition, expires, return_old)| {
                Action::Set { value, flags, condition, expires, return_old }
            }
        ),
        (values(), any::<bool>(), any::<bool>(), conditions(), expiries()).prop_map(
            |(bytes, append, create, condition, expires)| {
                let side = if append { Side::Append } else { Side::Prepend };
                Action::Concat { bytes, side, create, condition, expires }
            }
        ),
        (prop_oneof![0..50u64, any::<u64>()], values())
            .prop_map(|(offset, bytes)| Action::SetRange { offset, bytes }),
        (prop_oneof![0..400u64, any::<u64>()], any::<bool>())
            .prop_map(|(offset, bit)| Action::SetBit { offset, bit }),
        (deltas, proptest::option::of((initials, expiries())), expiries())
            .prop_map(|(delta, initial, expires)| Action::Add { delta, initial, expires }),
        (prop_oneof![-2..3i64, any::<i64>()], origins(any::<i64>()), expiries())
            .prop_map(|(delta, origin, expires)| Action::AddWord { delta, origin, expires }),
        (-30..30i64, origins(-30..30i64), expiries())
            .prop_map(|(delta, origin, expires)| Action::AddEighths { delta, origin, expires }),
        (expected(), proptest::option::of(values()), expiries())
            .prop_map(|(old, new, expires)| Action::Compare { old, new, expires }),
        (expiries(), whens).prop_map(|(expires, when)| Action::Expire { expires, when }),
        expiries().prop_map(Action::GetAndExpire),
        (-30..30i64, -30..30i64).prop_map(|(start, end)| Action::GetRange { start, end }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn commands_answer_as_the_model_does(
        actions in proptest::collection::vec((0..KEYS.len(), actions()), 1..60)
    ) {
        let mut store = Store::new();
        store.value_bytes_max = VALUE_BYTES_MAX;
        let mut model = Model { now_ms: store.now_ms, ..Model::default() };
        for (key, action) in &actions {
            let held = model.held.get(key).cloned();
            let expected = model.run(*key, action);
            if let Some(command) = command(KEYS[*key], action, held.as_ref()) {
                prop_assert_eq!(store.run(command), expected, "{:?}", action);
            }
            store.now_ms = model.now_ms;
            model.drop_expired();
            // The model learns the version of the write, and checks the record as well.
            let shown = store.run(Command::String(StringCommand::Get { key: KEYS[*key] }));
            let version = store.version;
            match model.held.get_mut(key) {
                None => prop_assert_eq!(shown, Answer::None, "{:?}", action),
                Some(held) => {
                    prop_assert_eq!(shown, held.answer(), "{:?}", action);
                    let is_written = held.version == u64::MAX;
                    prop_assert!(is_written || held.version == version, "{:?}", action);
                    held.version = version;
                }
            }
        }
    }
}
