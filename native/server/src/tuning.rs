//! Options by which clients tune Redis for things that Todana does not have: encodings of data
//! types, Redis' own expiry and eviction, the time of a script. `CONFIG SET` accepts them within
//! Redis' ranges and `CONFIG GET` returns what was set, because configuration tools stop at an
//! error. They have no effect, and are forgotten at the next start.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use todana_protocol::memory_bytes;

/// How the values of an option are written.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// A whole number of this range.
    Number(i64, i64),
    /// A number of bytes, with or without a unit.
    Bytes,
    /// `yes` or `no`, as 1 or 0.
    Flag,
}

use Form::{Bytes, Flag, Number};

const INT_MAX: i64 = i32::MAX as i64;
const INT_MIN: i64 = i32::MIN as i64;

/// The names of each option, the first of which is the present one, and Redis' default.
const ROWS: [(&[&str], Form, i64); 29] = [
    (&["active-expire-effort"], Number(1, 10), 1),
    (&["activerehashing"], Flag, 1),
    (&["busy-reply-threshold", "lua-time-limit"], Number(0, i64::MAX), 5_000),
    (&["dynamic-hz"], Flag, 1),
    (&["hash-max-listpack-entries", "hash-max-ziplist-entries"], Number(0, i64::MAX), 512),
    (&["hash-max-listpack-value", "hash-max-ziplist-value"], Bytes, 64),
    (&["hll-sparse-max-bytes"], Bytes, 3_000),
    (&["hz"], Number(0, INT_MAX), 10),
    (&["latency-monitor-threshold"], Number(0, i64::MAX), 0),
    (&["lazyfree-lazy-eviction"], Flag, 0),
    (&["lazyfree-lazy-expire"], Flag, 0),
    (&["lazyfree-lazy-server-del"], Flag, 0),
    (&["lazyfree-lazy-user-del"], Flag, 0),
    (&["lazyfree-lazy-user-flush"], Flag, 0),
    (&["lfu-decay-time"], Number(0, INT_MAX), 1),
    (&["lfu-log-factor"], Number(0, INT_MAX), 10),
    (&["list-compress-depth"], Number(0, INT_MAX), 0),
    (&["list-max-listpack-size", "list-max-ziplist-size"], Number(INT_MIN, INT_MAX), -2),
    (&["maxmemory-eviction-tenacity"], Number(0, 100), 10),
    (&["maxmemory-samples"], Number(1, INT_MAX), 5),
    (&["min-replicas-max-lag", "min-slaves-max-lag"], Number(0, INT_MAX), 10),
    (&["set-max-intset-entries"], Number(0, i64::MAX), 512),
    (&["set-max-listpack-entries"], Number(0, i64::MAX), 128),
    (&["set-max-listpack-value"], Bytes, 64),
    (&["slowlog-max-argc"], Number(0, INT_MAX), 32),
    (&["stream-node-max-bytes"], Bytes, 4_096),
    (&["stream-node-max-entries"], Number(0, i64::MAX), 100),
    (&["zset-max-listpack-entries", "zset-max-ziplist-entries"], Number(0, i64::MAX), 128),
    (&["zset-max-listpack-value", "zset-max-ziplist-value"], Bytes, 64),
];

const NO_INTEGER: &str = "argument couldn't be parsed into an integer";

impl Form {
    /// The number of a text, or what Redis says about one that is refused.
    fn read(self, text: &str) -> Result<i64, String> {
        match self {
            // Redis reads no sign before a number that is not negative.
            Number(..) if text.starts_with('+') => Err(NO_INTEGER.to_owned()),
            Number(min, max) => match text.parse() {
                Ok(number) if (min..=max).contains(&number) => Ok(number),
                Ok(_) => Err(format!("argument must be between {min} and {max} inclusive")),
                Err(_) => Err(NO_INTEGER.to_owned()),
            },
            Bytes => {
                let bytes = memory_bytes(text).and_then(|bytes| i64::try_from(bytes).ok());
                bytes.ok_or_else(|| "argument must be a memory value".to_owned())
            }
            Flag => match text.to_ascii_lowercase().as_str() {
                "yes" => Ok(1),
                "no" => Ok(0),
                _ => Err("argument must be 'yes' or 'no'".to_owned()),
            },
        }
    }

    fn write(self, value: i64) -> String {
        match self {
            Flag if value == 0 => "no".to_owned(),
            Flag => "yes".to_owned(),
            Number(..) | Bytes => value.to_string(),
        }
    }
}

/// The values of these options, which all clones share.
#[derive(Clone, Debug)]
pub struct Tuning(Arc<[AtomicI64; ROWS.len()]>);

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning(Arc::new(ROWS.map(|(.., default)| default.into())))
    }
}

impl Tuning {
    /// The options by all of their names.
    pub(crate) fn shown(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        ROWS.iter().zip(self.0.iter()).flat_map(|((names, form, _), value)| {
            let text = form.write(value.load(Relaxed));
            names.iter().map(move |name| (*name, text.clone()))
        })
    }

    /// Sets an option; `None` if there is none of this name, which is in lower case.
    pub(crate) fn set(&self, name: &str, text: &str) -> Option<Result<(), String>> {
        let at = ROWS.iter().position(|(names, ..)| names.contains(&name))?;
        Some(ROWS[at].1.read(text).map(|value| self.0[at].store(value, Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(tuning: &Tuning, wanted: &str) -> String {
        tuning.shown().find(|(name, _)| *name == wanted).expect(wanted).1
    }

    #[test]
    fn options_are_shown_as_they_were_set() {
        let tuning = Tuning::default();
        for (names, form, default) in ROWS {
            for name in names {
                assert_eq!(shown(&tuning, name), form.write(default), "{name}");
            }
            let text = match form {
                Number(_, max) => max.to_string(),
                Bytes => "7kb".to_owned(),
                Flag => form.write(1 - default),
            };
            // Whichever name sets it, all of them show it.
            for name in names {
                assert_eq!(tuning.set(name, &form.write(default)), Some(Ok(())), "{name}");
                assert_eq!(tuning.set(name, &text), Some(Ok(())), "{name}");
                let wanted = if matches!(form, Bytes) { "7168".to_owned() } else { text.clone() };
                for name in names {
                    assert_eq!(shown(&tuning, name), wanted, "{name}");
                }
            }
        }
        assert_eq!(tuning.set("nonesuch", "1"), None);
    }

    #[test]
    fn other_texts_are_refused_as_redis_does() {
        let tuning = Tuning::default();
        for (name, text, error) in [
            (
                "lua-time-limit",
                "-5",
                "argument must be between 0 and 9223372036854775807 inclusive",
            ),
            ("maxmemory-samples", "0", "argument must be between 1 and 2147483647 inclusive"),
            ("hz", "x", "argument couldn't be parsed into an integer"),
            ("hz", "+5", "argument couldn't be parsed into an integer"),
            ("list-max-listpack-size", "5kb", "argument couldn't be parsed into an integer"),
            ("hll-sparse-max-bytes", "x", "argument must be a memory value"),
            ("lazyfree-lazy-expire", "maybe", "argument must be 'yes' or 'no'"),
        ] {
            let before = shown(&tuning, name);
            assert_eq!(tuning.set(name, text), Some(Err(error.to_owned())), "{name} {text}");
            assert_eq!(shown(&tuning, name), before);
        }
    }
}
