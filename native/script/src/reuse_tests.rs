//! A run does not depend on what ran before, nor on whether its source is known.

use crate::testing::{Answers, fresh, random, sequence};
use crate::{CompiledScript, Job, Limits, Outcome, Stop, run_compiled};
use todana_command::Value;

/// `TODANA_SCRIPT_SEQUENCES` is the number of sequences.
#[test]
fn runs_do_not_depend_on_each_other() {
    let count = std::env::var("TODANA_SCRIPT_SEQUENCES").ok().and_then(|text| text.parse().ok());
    let first = u64::from(std::process::id()) << 20;
    for seed in first..first + count.unwrap_or(60) {
        // A failure names it.
        eprintln!("sequence {seed}");
        sequence(random(seed), 16);
    }
}

/// The limits are met where they are without a known source.
#[test]
fn a_known_script_meets_each_limit_at_the_same_step() {
    let source = "local t = {} for i = 1, 40 do t[i] = 'name' .. i .. ARGV[1] end \
                  return cjson.encode(t)";
    let compiled = CompiledScript::default();
    let job = |steps, bytes| Job {
        source: source.as_bytes(),
        keys: &[b"KEYS", b"cjson"],
        arguments: &[b"name"],
        limits: Limits { steps, bytes },
    };
    let whole = run_compiled(&job(1 << 30, 1 << 20), &compiled, &mut Answers).1;
    for steps in (0..whole + 3).filter(|steps| *steps < 600 || steps % 7 == 0 || *steps > whole - 9)
    {
        let job = job(steps, 1 << 20);
        let known = run_compiled(&job, &compiled, &mut Answers);
        assert_eq!(Some(&known), fresh(&job).as_ref(), "{steps}");
        assert_eq!(known.0 == Outcome::Stopped(Stop::Steps), steps < whole, "{steps}");
    }
    for bytes in (16_000..40_000).step_by(50) {
        let job = job(1 << 30, bytes);
        assert_eq!(Some(run_compiled(&job, &compiled, &mut Answers)), fresh(&job), "{bytes}");
    }
}

/// More scripts than there is room for.
#[test]
fn forgotten_scripts_are_compiled_again() {
    let scripts: Vec<_> = (0..60)
        .map(|at| {
            let lines = (0..3_000).map(|line| format!("local x = 'a{line}b{at}'\nx = nil\n"));
            (
                format!("do {} end return {at}", lines.collect::<Vec<_>>().join(" end do ")),
                CompiledScript::default(),
            )
        })
        .collect();
    for _ in 0..2 {
        for (at, (source, compiled)) in scripts.iter().enumerate() {
            let limits = Limits { steps: 10_000_000, bytes: 16 << 20 };
            let job = Job { source: source.as_bytes(), keys: &[], arguments: &[], limits };
            let outcome = run_compiled(&job, compiled, &mut Answers).0;
            assert_eq!(outcome, Outcome::Reply(Value::Integer(at as i64)));
        }
        assert!(crate::memory().scripts_bytes <= 16 << 20, "{:?}", crate::memory());
    }
}

/// What a large script took is not kept.
#[test]
fn a_large_script_leaves_no_memory_behind() {
    let source = "local t = {} for i = 1, 14 do t[i] = ('x'):rep(1000000 + i) end return #t";
    let limits = Limits { steps: 100_000_000, bytes: 16 << 20 };
    let job = Job { source: source.as_bytes(), keys: &[], arguments: &[], limits };
    for _ in 0..3 {
        let outcome = run_compiled(&job, &CompiledScript::default(), &mut Answers).0;
        assert_eq!(outcome, Outcome::Reply(Value::Integer(14)));
        let memory = crate::memory();
        let most = memory.scripts_bytes + memory.interpreters * (3 << 20);
        assert!(memory.bytes <= most, "{memory:?}");
    }
}
