//! Options by name: set before the server starts, shown and changed while it runs.

use crate::Config;
use crate::config::MEMORY_LIMIT;
use std::sync::atomic::Ordering::Relaxed;
use todana_kyoto::KyotoSettings;
use todana_protocol::{Change, Limits, OptionRow, OptionType, OptionValue, Spelling};
use todana_table::{Budget, WhenFull};

/// Options that are stored in the budget, which exists before a server does.
static OF_BUDGET: [OptionRow<Config>; 2] = [
    OptionRow {
        name: "memory_limit",
        option_type: MEMORY_LIMIT,
        change: Some(Change {
            redis_name: "maxmemory",
            spelling: Spelling::Bytes,
            put: put_memory_limit,
        }),
        value: |config| match memory_limit_bytes(&config.budget) {
            0 => OptionValue::Absent,
            bytes => OptionValue::Number(bytes),
        },
        put: |config, value| put_memory_limit(config, value),
    },
    OptionRow {
        name: "memory_policy",
        option_type: OptionType::Choice(&["evict", "refuse"]),
        change: Some(Change {
            redis_name: "maxmemory-policy",
            spelling: Spelling::Words(&POLICIES),
            put: put_memory_policy,
        }),
        value: |config| OptionValue::Word(POLICIES[policy_index(&config.budget)].0.into()),
        put: |config, value| put_memory_policy(config, value),
    },
];

/// The policies, and their names in Redis. The first two are what the policies are. The volatile
/// ones keep records without an expiry, which `evict` would not: they refuse the write.
const POLICIES: [(&str, &str); 8] = [
    ("evict", "allkeys-lfu"),
    ("refuse", "noeviction"),
    ("evict", "allkeys-lru"),
    ("evict", "allkeys-random"),
    ("refuse", "volatile-lru"),
    ("refuse", "volatile-lfu"),
    ("refuse", "volatile-random"),
    ("refuse", "volatile-ttl"),
];

fn policy_index(budget: &Budget) -> usize {
    usize::from(budget.when_full() == WhenFull::Refuse)
}

fn put_memory_policy(config: &Config, value: OptionValue) -> bool {
    config.budget.set_when_full(match value {
        OptionValue::Word(word) if word == POLICIES[0].0 => WhenFull::Evict,
        OptionValue::Word(word) if word == POLICIES[1].0 => WhenFull::Refuse,
        _ => return false,
    });
    true
}

fn put_memory_limit(config: &Config, value: OptionValue) -> bool {
    let bytes = match value {
        OptionValue::Absent => Some(i64::MAX),
        OptionValue::Number(bytes) => i64::try_from(bytes).ok(),
        _ => None,
    };
    if let Some(bytes) = bytes {
        config.budget.bytes_max.store(bytes, Relaxed);
    }
    bytes.is_some()
}

/// The limit of a budget; 0 is no limit.
pub(crate) fn memory_limit_bytes(budget: &Budget) -> u64 {
    match budget.bytes_max.load(Relaxed) {
        i64::MAX => 0,
        bytes => bytes.max(0) as u64,
    }
}

/// The policy of a budget at its limit, by Redis' name.
pub(crate) fn memory_policy(budget: &Budget) -> &'static str {
    POLICIES[policy_index(budget)].1
}

/// Why an option was not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSet {
    /// There is no option of this name.
    Unknown,
    /// The option cannot have this value. Its type describes the possible ones.
    Value(OptionType),
}

/// An option and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionInfo {
    /// Its name.
    pub name: &'static str,
    /// The values that it may have.
    pub option_type: OptionType,
    /// Its value, as written in a configuration file.
    pub text: String,
}

impl Config {
    /// The options that are fields of a configuration, with their values.
    pub fn list_options(&self) -> Vec<OptionInfo> {
        list(Config::OPTIONS, self)
            .chain(list(Limits::OPTIONS, &self.limits))
            .chain(list(KyotoSettings::OPTIONS, &self.kyoto))
            .collect()
    }

    /// The options that are stored in the budget: they are set before a server starts, and
    /// restarting a server does not reset them.
    pub fn list_budget_options(&self) -> Vec<OptionInfo> {
        list(&OF_BUDGET, self).collect()
    }

    /// Sets an option by its name. Refuses values out of its range.
    pub fn set_option(&mut self, name: &str, value: OptionValue) -> Result<(), NotSet> {
        if let Some(row) = find(Config::OPTIONS, name).or_else(|| find(&OF_BUDGET, name)) {
            set(row, self, value)
        } else if let Some(row) = find(Limits::OPTIONS, name) {
            set(row, &mut self.limits, value)
        } else if let Some(row) = find(KyotoSettings::OPTIONS, name) {
            set(row, &mut self.kyoto, value)
        } else {
            Err(NotSet::Unknown)
        }
    }

    /// Options as name and value: those given at the start, and the changeable ones with their
    /// present values, under both of their names.
    pub(crate) fn shown_options(&self) -> Vec<(String, String)> {
        let mut shown = self.options.clone();
        let present = changeable().flat_map(|(row, change)| {
            let value = (row.value)(self);
            let redis = change.spelling.write(&value);
            [(row.name, row.option_type.format(&value)), (change.redis_name, redis)]
        });
        for (name, text) in present.chain(self.tuning.shown()) {
            match shown.iter_mut().find(|(given, _)| given == name) {
                Some((_, given)) => *given = text,
                None => shown.push((name.to_owned(), text)),
            }
        }
        shown
    }

    /// Changes an option of a running server, by its own name or Redis' name. The error is a
    /// sentence without CR or LF.
    pub(crate) fn change_option(
        &self,
        name: &str,
        text: &str,
        connections_max: u64,
    ) -> Result<(), String> {
        let name = name.to_ascii_lowercase();
        let row =
            changeable().find(|(row, change)| [row.name, change.redis_name].contains(&&*name));
        let Some((row, change)) = row else {
            if let Some(set) = self.tuning.set(&name, text) {
                return set;
            }
            return match self.options.iter().find(|(given, _)| *given == name) {
                None => Err("there is no option of this name".into()),
                // Setting an option to its present value is allowed.
                Some((_, value)) if value == text => Ok(()),
                Some(_) => Err(format!("option {name} cannot be changed while the server runs")),
            };
        };
        let mut option_type = row.option_type;
        if let (OptionType::Integer(range), "connections_max") = (&mut option_type, row.name) {
            range.max = range.max.min(connections_max);
        }
        let (value, expected) = if name == row.name {
            (option_type.parse(text), option_type.to_string())
        } else {
            change.spelling.read(option_type, text)
        };
        if value == Some(OptionValue::Absent) && option_type.word() == Some("auto") {
            return Err(format!("{name} can be auto only when the server starts"));
        }
        let changed = value.is_some_and(|value| (change.put)(self, value));
        if changed { Ok(()) } else { Err(format!("{name} must be {expected}")) }
    }
}

fn find<T>(rows: &'static [OptionRow<T>], name: &str) -> Option<&'static OptionRow<T>> {
    rows.iter().find(|row| row.name == name)
}

fn set<T>(row: &OptionRow<T>, of: &mut T, value: OptionValue) -> Result<(), NotSet> {
    if row.set(of, value) { Ok(()) } else { Err(NotSet::Value(row.option_type)) }
}

fn list<'a, T>(rows: &'static [OptionRow<T>], of: &'a T) -> impl Iterator<Item = OptionInfo> + 'a {
    rows.iter().map(|row| OptionInfo {
        name: row.name,
        option_type: row.option_type,
        text: row.option_type.format(&(row.value)(of)),
    })
}

/// Options that may change while the server runs.
fn changeable() -> impl Iterator<Item = (&'static OptionRow<Config>, &'static Change<Config>)> {
    let rows = Config::OPTIONS.iter().chain(&OF_BUDGET);
    rows.filter_map(|row| Some((row, row.change.as_ref()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn all(config: &Config) -> Vec<OptionInfo> {
        config.list_options().into_iter().chain(config.list_budget_options()).collect()
    }

    fn shown(config: &Config, name: &str) -> String {
        let options = config.shown_options();
        options.into_iter().find(|(shown, _)| shown == name).expect(name).1
    }

    #[test]
    fn names_are_unique_and_defaults_are_in_their_ranges() {
        let mut config = Config::default();
        let options = all(&config);
        let names = options.iter().map(|option| option.name);
        let redis = changeable().map(|(_, change)| change.redis_name);
        assert!(names.chain(redis).all({
            let mut seen = HashSet::new();
            move |name| seen.insert(name)
        }));
        for OptionInfo { name, option_type, text } in options {
            if let Some(value) = option_type.parse(&text) {
                assert_eq!(config.set_option(name, value), Ok(()), "{name} is {text}");
            } else {
                assert_eq!(option_type.word(), None, "{name} is {text}");
                assert!(!text.is_empty(), "{name}");
            }
        }
    }

    #[test]
    fn an_option_is_set_by_its_name_or_refused() {
        let mut config = Config::default();
        let number = |number| OptionValue::Number(number);
        assert_eq!(config.set_option("key_bytes_max", number(1_000)), Ok(()));
        assert_eq!(config.set_option("kyoto_body_bytes_max", number(2_000)), Ok(()));
        assert_eq!(config.set_option("idle_timeout_ms", number(3_000)), Ok(()));
        assert_eq!(config.set_option("memory_limit", number(4 << 20)), Ok(()));
        assert_eq!(config.limits.key_bytes_max, 1_000);
        assert_eq!(config.kyoto.body_bytes_max, 2_000);
        assert_eq!(config.idle_timeout_ms.get(), Some(3_000));
        assert_eq!(memory_limit_bytes(&config.budget), 4 << 20);
        assert_eq!(config.set_option("nonsense", number(1)), Err(NotSet::Unknown));
        let word = OptionValue::Word("epoll".into());
        for (name, value) in [
            ("event_backend", word.clone()),
            ("key_bytes_max", word),
            ("key_bytes_max", number(0)),
            ("key_bytes_max", OptionValue::Absent),
            ("memory_limit", number(1)),
        ] {
            let refused = config.set_option(name, value.clone());
            assert!(matches!(refused, Err(NotSet::Value(_))), "{name} is {value:?}");
        }
        assert_eq!(config.limits.key_bytes_max, 1_000);
    }

    #[test]
    fn both_names_of_an_option_show_the_same_value() {
        let given = all(&Config::default()).into_iter();
        let given = given.map(|option| (option.name.to_owned(), option.text)).collect();
        let config = Config { options: given, ..Config::default() };
        let mut names = Vec::new();
        for (name, text, redis_name, redis) in [
            ("connections_max", "77", "maxclients", "77"),
            ("memory_limit", "100mb", "maxmemory", "104857600"),
            ("memory_limit", "off", "maxmemory", "0"),
            ("memory_policy", "refuse", "maxmemory-policy", "noeviction"),
            ("memory_policy", "evict", "maxmemory-policy", "allkeys-lfu"),
            ("tracking_keys_max", "7", "tracking-table-max-keys", "7"),
            ("clients_memory_limit", "0", "maxmemory-clients", "0"),
            ("clients_memory_limit", "3kb", "maxmemory-clients", "3072"),
            ("slow_log_us", "5", "slowlog-log-slower-than", "5"),
            ("slow_log_us", "off", "slowlog-log-slower-than", "-1"),
            ("slow_log_entries_max", "64", "slowlog-max-len", "64"),
            ("idle_timeout_ms", "5000", "timeout", "5"),
            ("idle_timeout_ms", "off", "timeout", "0"),
        ] {
            names.push(name);
            for (by, value) in [(name, text), (redis_name, redis)] {
                assert_eq!(config.change_option(by, value, 1_000), Ok(()), "{by} {value}");
                let both = (shown(&config, name), shown(&config, redis_name));
                assert_eq!(both, (text.into(), redis.into()), "after {by} {value}");
            }
        }
        let tried = |(row, _): &(&OptionRow<Config>, _)| names.contains(&row.name);
        assert!(changeable().all(|option| tried(&option)), "an option is missing above");
    }

    #[test]
    fn every_policy_of_redis_has_the_effect_of_one_here() {
        let config = Config::default();
        for (redis, own, present) in [
            ("allkeys-lru", "evict", "allkeys-lfu"),
            ("noeviction", "refuse", "noeviction"),
            ("ALLKEYS-RANDOM", "evict", "allkeys-lfu"),
            ("volatile-lru", "refuse", "noeviction"),
            ("allkeys-lfu", "evict", "allkeys-lfu"),
            ("volatile-ttl", "refuse", "noeviction"),
            ("volatile-lfu", "refuse", "noeviction"),
            ("volatile-random", "refuse", "noeviction"),
        ] {
            assert_eq!(config.change_option("maxmemory-policy", redis, 1), Ok(()), "{redis}");
            let both = (shown(&config, "memory_policy"), shown(&config, "maxmemory-policy"));
            assert_eq!(both, (own.into(), present.into()), "after {redis}");
            assert_eq!(memory_policy(&config.budget), present);
        }
        let refused = config.change_option("maxmemory-policy", "lru", 1).unwrap_err();
        assert!(refused.contains("allkeys-lfu or noeviction or allkeys-lru"), "{refused}");
    }

    #[test]
    fn options_that_tune_redis_are_accepted_and_shown() {
        let config = Config::default();
        assert_eq!(shown(&config, "hash-max-listpack-value"), "64");
        assert_eq!(config.change_option("Lua-Time-Limit", "250", 1), Ok(()));
        assert_eq!(shown(&config, "lua-time-limit"), "250");
        assert_eq!(shown(&config, "busy-reply-threshold"), "250");
        let names: Vec<String> = config.shown_options().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
    }

    #[test]
    fn a_change_out_of_range_reports_the_expected_values() {
        let config = Config::default();
        for (name, text, reason) in [
            ("maxclients", "961", "maxclients must be a whole number from 1 to 960"),
            ("connections_max", "961", "connections_max must be a whole number from 1 to 960"),
            (
                "clients_memory_limit",
                "auto",
                "clients_memory_limit can be auto only when the server starts",
            ),
            ("memory_policy", "lru", "memory_policy must be evict or refuse"),
            (
                "memory_limit",
                "1kb",
                "memory_limit must be a number of bytes from 1mb to 1024tb or off",
            ),
        ] {
            assert_eq!(config.change_option(name, text, 960), Err(reason.into()), "{name} {text}");
        }
    }
}
