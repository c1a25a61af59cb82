//! How Redis writes the values of options, for `CONFIG GET` and `CONFIG SET` by Redis' names.

use crate::options::{OptionType, OptionValue, Range, Spelling};

impl Spelling {
    /// The value of an option as Redis writes it.
    pub fn write(self, value: &OptionValue) -> String {
        match (self, value) {
            // A time below a second is not shown as 0, which is none.
            (Spelling::Seconds, OptionValue::Number(ms)) => ms.div_ceil(1_000).to_string(),
            (_, OptionValue::Number(number)) => number.to_string(),
            (Spelling::NumberOrMinusOne, OptionValue::Absent) => "-1".to_owned(),
            (_, OptionValue::Absent) => "0".to_owned(),
            (Spelling::Words(words), OptionValue::Word(word)) => {
                let known = words.iter().find(|(own, _)| own == word);
                known.map_or(word.as_str(), |(_, redis)| redis).to_owned()
            }
            (_, other) => OptionType::Hosts.format(other),
        }
    }

    /// The value of an option that Redis writes as this text, if it may have one, and what is
    /// expected of the text.
    pub fn read(self, option_type: OptionType, text: &str) -> (Option<OptionValue>, String) {
        let (OptionType::Integer(range) | OptionType::Bytes(range)) = option_type else {
            let Spelling::Words(words) = self else { return (None, option_type.to_string()) };
            let known = words.iter().find(|(_, redis)| redis.eq_ignore_ascii_case(text));
            let expected: Vec<&str> = words.iter().map(|(_, redis)| *redis).collect();
            return (known.map(|(own, _)| OptionValue::Word((*own).into())), expected.join(" or "));
        };
        let Range { min, max, word } = range;
        let or_off = |number, off| match number {
            0 if word == Some(off) => OptionValue::Absent,
            number => OptionValue::Number(number),
        };
        match self {
            Spelling::Bytes => {
                let bytes = memory_bytes(text).filter(|bytes| *bytes <= max);
                (bytes.map(|it| or_off(it, "off")), "a number of bytes, such as 100mb".into())
            }
            Spelling::Seconds => {
                let max = max / 1_000;
                let seconds = text.parse().ok().filter(|seconds| *seconds <= max);
                let value = seconds.map(|seconds: u64| or_off(seconds * 1_000, "off"));
                (value, format!("a whole number from 0 to {max}"))
            }
            Spelling::NumberOrMinusOne => {
                let number = text.parse::<i64>().ok();
                let value = number.map(|number| {
                    u64::try_from(number).map_or(OptionValue::Absent, OptionValue::Number)
                });
                let value = value.filter(|value| option_type.allows(value));
                (value, format!("a whole number from -1 to {max}"))
            }
            Spelling::Number | Spelling::Words(_) => {
                let number = text.parse().ok().filter(|number| (min..=max).contains(number));
                (number.map(OptionValue::Number), format!("a whole number from {min} to {max}"))
            }
        }
    }
}

/// A size as Redis reads it: `100`, `100b`, `1k` (1,000), `1kb` (1,024), `1m`, `1mb`, `1g`, `1gb`,
/// in any case.
pub fn memory_bytes(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = lower.split_at(digits);
    let unit: u64 = match unit {
        "" | "b" => 1,
        "k" => 1_000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{MB, bytes, bytes_or, integer, integer_or};
    use OptionValue::{Absent, Number, Word};

    #[test]
    fn bytes_have_the_units_of_redis() {
        let texts = ["0", "17", "17b", "1k", "1kb", "2M", "100mb", "3g", "1GB"];
        let numbers = [0, 17, 17, 1_000, 1_024, 2_000_000, 100 << 20, 3_000_000_000, 1 << 30];
        assert_eq!(texts.map(memory_bytes), numbers.map(Some));
        for wrong in
            ["", "mb", "-1", "1.5gb", "1tb", "1 mb", "99999999999999999999", "99999999999gb"]
        {
            assert_eq!(memory_bytes(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn values_are_read_and_written() {
        let policies = Spelling::Words(&[
            ("evict", "allkeys-lfu"),
            ("refuse", "noeviction"),
            ("evict", "allkeys-lru"),
        ]);
        let choice = OptionType::Choice(&["evict", "refuse"]);
        for (spelling, option_type, text, value) in [
            (Spelling::Number, integer(0, 5), "5", Number(5)),
            (Spelling::Bytes, bytes_or("off", MB, 8 * MB), "0", Absent),
            (Spelling::Bytes, bytes_or("off", MB, 8 * MB), "10", Number(10)),
            (Spelling::Bytes, bytes(0, 8 * MB), "0", Number(0)),
            (Spelling::Seconds, integer_or("off", 1, 5_000), "0", Absent),
            (Spelling::Seconds, integer_or("off", 1, 5_000), "5", Number(5_000)),
            (Spelling::NumberOrMinusOne, integer_or("off", 0, 9), "-1", Absent),
            (Spelling::NumberOrMinusOne, integer_or("off", 0, 9), "0", Number(0)),
            (policies, choice, "noeviction", Word("refuse".into())),
        ] {
            assert_eq!(spelling.read(option_type, text).0, Some(value.clone()), "{text}");
            assert_eq!(spelling.write(&value), text);
        }
        for text in ["allkeys-lru", "ALLKEYS-LRU"] {
            assert_eq!(policies.read(choice, text).0, Some(Word("evict".into())));
        }
        assert_eq!(Spelling::Seconds.write(&Number(1)), "1", "0 would be none");
    }

    #[test]
    fn other_texts_are_refused_with_what_is_expected() {
        let policies = Spelling::Words(&[("evict", "allkeys-lfu"), ("refuse", "noeviction")]);
        let choice = OptionType::Choice(&["evict", "refuse"]);
        for (spelling, option_type, texts, expected) in [
            (
                Spelling::Number,
                integer(1, 5),
                &["0", "6", "-1", "x"][..],
                "a whole number from 1 to 5",
            ),
            (Spelling::Bytes, bytes(1, 5), &["6", "1kb", "x"], "a number of bytes, such as 100mb"),
            (
                Spelling::Seconds,
                integer_or("off", 1, 5_000),
                &["6", "-1", "18446744073709551615"],
                "a whole number from 0 to 5",
            ),
            (
                Spelling::NumberOrMinusOne,
                integer_or("off", 0, 9),
                &["10", "x", ""],
                "a whole number from -1 to 9",
            ),
            (policies, choice, &["evict", "lru"], "allkeys-lfu or noeviction"),
        ] {
            for text in texts {
                let refused = (None, expected.to_owned());
                assert_eq!(spelling.read(option_type, text), refused, "{text}");
            }
        }
    }
}
