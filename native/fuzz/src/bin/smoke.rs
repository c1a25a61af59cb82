//! Runs every target over its seeds and over mutations of them: the part of fuzzing that belongs in
//! every test run.
//!
//! ```text
//! smoke [--seconds N | --iterations N] [target ...]
//! ```
//!
//! The mutations come from a fixed sequence, so with `--iterations` (default 20,000 for each
//! target) a run is exactly reproducible. A failing input is written to `artifacts/<target>/`, and
//! its path is printed. The last line is `N passed, M failed`, counting inputs.

use std::fs;
use std::panic;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use todana_fuzz::{TARGETS, Target};

const ITERATIONS_DEFAULT: u64 = 20_000;
const INPUT_BYTES_MAX: usize = 4_096;
/// After this many failures of a target, further ones are likely to have the same cause.
const FAILURES_MAX: u64 = 5;

/// How long to feed mutations to each target.
#[derive(Clone, Copy)]
enum Effort {
    Iterations(u64),
    Seconds(u64),
}

#[derive(Default)]
struct Outcome {
    passed: u64,
    failed: u64,
}

fn main() -> ExitCode {
    let (effort, names) = match arguments(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(problem) => {
            eprintln!("smoke: {problem}\nusage: smoke [--seconds N | --iterations N] [target ...]");
            return ExitCode::from(2);
        }
    };
    let mut total = Outcome::default();
    for target in
        TARGETS.iter().filter(|(name, _)| names.is_empty() || names.iter().any(|n| n == name))
    {
        let outcome = run(*target, effort);
        println!("{}: {} passed, {} failed", target.0, outcome.passed, outcome.failed);
        total.passed += outcome.passed;
        total.failed += outcome.failed;
    }
    println!("{} passed, {} failed", total.passed, total.failed);
    if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn arguments(mut words: impl Iterator<Item = String>) -> Result<(Effort, Vec<String>), String> {
    let (mut effort, mut names) = (Effort::Iterations(ITERATIONS_DEFAULT), Vec::new());
    while let Some(word) = words.next() {
        let mut number = || {
            let value = words.next().and_then(|value| value.parse().ok());
            value.ok_or(format!("{word} needs a number"))
        };
        match word.as_str() {
            "--seconds" => effort = Effort::Seconds(number()?),
            "--iterations" => effort = Effort::Iterations(number()?),
            name if TARGETS.iter().any(|target| target.0 == name) => names.push(word),
            _ => return Err(format!("unknown target {word}")),
        }
    }
    Ok((effort, names))
}

/// Feeds one target its seeds and mutations.
fn run(target: Target, effort: Effort) -> Outcome {
    let seeds = seeds(target.0);
    let mut outcome = Outcome::default();
    for seed in &seeds {
        feed(target, seed, &mut outcome);
    }
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let start = Instant::now();
    let mut iterations = 0;
    let goes_on = |iterations: u64| match effort {
        Effort::Iterations(most) => iterations < most,
        Effort::Seconds(most) => start.elapsed() < Duration::from_secs(most),
    };
    while goes_on(iterations) && outcome.failed < FAILURES_MAX {
        feed(target, &mutation(&seeds, &mut dice), &mut outcome);
        iterations += 1;
    }
    outcome
}

fn feed((name, function): Target, input: &[u8], outcome: &mut Outcome) {
    match panic::catch_unwind(|| function(input)) {
        Ok(()) => outcome.passed += 1,
        Err(_) => {
            outcome.failed += 1;
            eprintln!("{name} fails on {}", keep(name, input).display());
        }
    }
}

/// Writes a failing input to a file whose name depends on its content.
fn keep(name: &str, input: &[u8]) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("artifacts").join(name);
    let fnv = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    let path = folder.join(format!("{:016x}", input.iter().fold(0xcbf2_9ce4_8422_2325, fnv)));
    if let Err(error) = fs::create_dir_all(&folder).and_then(|()| fs::write(&path, input)) {
        eprintln!("cannot keep the input: {error}");
    }
    path
}

/// The seeds of a target, sorted by name.
fn seeds(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(name);
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = files.map(|file| file.path()).collect();
    paths.sort();
    let mut seeds: Vec<Vec<u8>> = paths.iter().filter_map(|path| fs::read(path).ok()).collect();
    if seeds.is_empty() {
        seeds.push(Vec::new());
    }
    seeds
}

/// A seed with some changes, as the first mutations of fuzzers are.
fn mutation(seeds: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    let mut input = seeds[dice.roll(seeds.len())].clone();
    for _ in 0..=dice.roll(8) {
        let at = dice.roll(input.len() + 1);
        match dice.roll(7) {
            0 if at < input.len() => input[at] ^= 1 << dice.roll(8),
            1 if at < input.len() => input[at] = dice.byte(),
            2 => input.insert(at, dice.byte()),
            3 => input.truncate(at),
            4 => {
                let len = dice.roll(64);
                input.splice(at..at, (0..len).map(|_| dice.byte()));
            }
            5 => {
                // A part of a seed, perhaps of another one.
                let other = &seeds[dice.roll(seeds.len())];
                let from = dice.roll(other.len() + 1);
                let to = from + dice.roll(other.len() - from + 1);
                input.splice(at..at, other[from..to].iter().copied());
            }
            _ => {
                let to = at + dice.roll(input.len() - at + 1);
                input.drain(at..to.min(at + 32));
            }
        }
    }
    input.truncate(INPUT_BYTES_MAX);
    input
}

/// A fixed sequence of random numbers (xorshift64*).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `sides`.
    fn roll(&mut self, sides: usize) -> usize {
        ((self.next() >> 32) as usize) % sides.max(1)
    }

    /// A byte; often one with a meaning in the formats.
    fn byte(&mut self) -> u8 {
        const INTERESTING: &[u8] = b"\r\n\0 \t:$*-+09aZ\x7f\x80\xff";
        if self.roll(3) == 0 {
            INTERESTING[self.roll(INTERESTING.len())]
        } else {
            self.next() as u8
        }
    }
}
