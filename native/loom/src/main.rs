//! Checks `table/src/readers.rs` with loom, which executes a model in each order of its threads'
//! steps, and with each value that a load may return.
//!
//! Without arguments: all models with both encodings of sequential consistency, each in a process
//! of its own, since a model that fails ends its process. A line for each; fails if any fails.
//! `todana_loom --first-failure` stops at the first one. `todana_loom MODEL ENCODING` is one model.

mod models;
#[path = "../../table/src/readers.rs"]
mod readers;
mod sync;

use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;
use std::{env, io};

use models::{MODELS, Model};
use sync::Encoding;

const ENCODINGS: [(&str, Encoding); 2] =
    [("fences", Encoding::Fences), ("latest", Encoding::Latest)];

fn main() -> io::Result<ExitCode> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => all(false),
        ["--first-failure"] => all(true),
        [model, encoding] => {
            let model = MODELS.iter().find(|known| known.name == model).expect("a model");
            let encoding = ENCODINGS.iter().find(|known| known.0 == encoding).expect("an encoding");
            one(model, encoding.1);
            Ok(ExitCode::SUCCESS)
        }
        _ => panic!("unknown arguments: {arguments:?}"),
    }
}

/// Runs a model and prints the number of executions.
fn one(model: &Model, encoding: Encoding) {
    sync::ENCODING.set(encoding).expect("one model in a process");
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = model.preemptions_max;
    let (run, executions) = (model.run, Arc::new(AtomicUsize::new(0)));
    let counted = executions.clone();
    builder.check(move || {
        counted.fetch_add(1, Relaxed);
        sync::begin_execution();
        run();
    });
    println!("{}", executions.load(Relaxed));
}

fn all(first_failure: bool) -> io::Result<ExitCode> {
    let mut failed = 0;
    for model in MODELS {
        for (encoding, _) in ENCODINGS {
            let started = Instant::now();
            let output = Command::new(env::current_exe()?).args([model.name, encoding]).output()?;
            let outcome = if output.status.success() {
                let executions = String::from_utf8_lossy(&output.stdout);
                let bound = model.preemptions_max;
                let bound = bound.map_or(String::new(), |max| format!(", up to {max} preemptions"));
                format!("passed, {} executions{bound}", executions.trim())
            } else {
                failed += 1;
                format!("FAILED: {}", complaint(&String::from_utf8_lossy(&output.stderr)))
            };
            let (name, seconds) = (model.name, started.elapsed().as_secs_f64());
            println!("{name:27} {encoding}  {seconds:6.1} s  {outcome}");
            if first_failure && failed > 0 {
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The first sentence of the first panic.
fn complaint(errors: &str) -> &str {
    let mut lines = errors.lines().skip_while(|line| !line.contains("panicked at")).skip(1);
    lines.next().unwrap_or("no message").trim()
}
