//! Random sequences of scripts, for tests and fuzzers.

use crate::engine::run_in;
use crate::interpreter::Interpreter;
use crate::random::Random;
use crate::{Called, Calls, CompiledScript, Job, Limits, Outcome, run, run_compiled};
use std::panic::{AssertUnwindSafe, catch_unwind};
use todana_command::Value;

/// Runs scripts that follow from bytes, and panics if one depends on those before it.
pub fn reuse(bytes: &[u8]) {
    let mut bytes = bytes.iter().copied();
    let mut next = move || bytes.next().map(u32::from);
    let mut ends = 0;
    let choice = move || match (next(), next()) {
        (Some(low), Some(high)) => low | high << 8,
        // Without bytes, choices differ, so that what is made of them has an end.
        _ => {
            ends += 7;
            ends
        }
    };
    sequence(Random::new(choice), 6);
}

/// Answers each command in the same way.
pub(crate) struct Answers;

impl Calls for Answers {
    fn call(&mut self, arguments: &[&[u8]], resp3: bool, _: u64) -> Called {
        let text = |text: &str| Value::Bytes(text.as_bytes().to_vec());
        let value = match arguments[0] {
            b"fail" => Value::Error(b"ERR it fails".to_vec()),
            b"null" => Value::Null,
            b"status" => Value::Status(b"OK".to_vec()),
            b"number" => Value::Integer(7),
            b"costly" => return Called::TooMuch,
            b"panic" => std::panic::resume_unwind(Box::new("asked for")),
            b"get" if resp3 => Value::Map(vec![
                (text("a"), Value::Double(1.5)),
                (Value::Integer(3), Value::Set(vec![Value::Integer(1)])),
            ]),
            _ => Value::List(arguments.iter().map(|it| Value::Bytes(it.to_vec())).collect()),
        };
        Called::Reply(value, 10)
    }
}

/// Choices that follow from a number.
#[cfg(test)]
pub(crate) fn random(seed: u64) -> Random<impl FnMut() -> u32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    Random::new(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 20) as u32
    })
}

/// Runs in an interpreter that has run nothing.
pub(crate) fn fresh(job: &Job<'_>) -> Option<(Outcome, u64)> {
    let mut interpreter = Interpreter::new(job.limits.bytes).expect("memory");
    run_in(&mut interpreter, job, None, &mut Answers).ok()
}

fn same(first: &Option<(Outcome, u64)>, second: &Option<(Outcome, u64)>) -> bool {
    // Numbers that are none differ from themselves.
    format!("{first:?}") == format!("{second:?}")
}

/// Runs scripts in turn, in any order and with any limits, and compares each with one that runs
/// alone.
pub(crate) fn sequence(mut random: Random<impl FnMut() -> u32>, runs: u32) {
    let mut scripts: Vec<(String, CompiledScript)> = Vec::new();
    for _ in 0..5 {
        scripts.push((random.script(), CompiledScript::default()));
    }
    scripts.push(("return redis.call('panic')".to_owned(), CompiledScript::default()));
    scripts.push((format!("--{}\nreturn #ARGV", "x".repeat(5_000)), CompiledScript::default()));
    for _ in 0..runs {
        let (source, compiled) = &scripts[random.below(7) as usize];
        let count = [0, 1, 3, 20, 300][random.below(5) as usize];
        let words: Vec<String> = (0..count).map(|at| format!("w{at}")).collect();
        let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        let limits = Limits {
            steps: [100, 1_000, 5_000, 40_000][random.below(4) as usize]
                + u64::from(random.below(500)),
            bytes: [64 << 10, 96 << 10, 1 << 20, 16 << 20][random.below(4) as usize],
        };
        let job = Job { source: source.as_bytes(), keys: &[b"k1"], arguments: &words, limits };
        let alone = fresh(&job);
        let known =
            catch_unwind(AssertUnwindSafe(|| run_compiled(&job, compiled, &mut Answers))).ok();
        assert!(same(&alone, &known), "{limits:?} {count} words: {source}\n{alone:?}\n{known:?}");
        let unknown = catch_unwind(AssertUnwindSafe(|| run(&job, &mut Answers))).ok();
        assert!(same(&alone, &unknown), "{limits:?} {count} words: {source}");
        crate::pool::check();
    }
}
