//! TSV-RPC: `/rpc/NAME`, from a request to its answer.
//!
//! ```text
//!   read the inputs -> WAIT -> DB -> CUR -> the procedure -> SIGNAL -> write the outputs
//! ```
//!
//! A small request passes through all stages in one call, on borrowed bytes. A stage that may take
//! long stops after a slice and becomes a [`Task`], which owns its data; the session resumes it
//! after other connections had their turns.

use super::body_writer::{BodyWriter, Worded};
use super::cursors::Cursors;
use super::failure::Failure;
use super::flow::Step;
use super::http::Status;
use super::inputs::Inputs;
use super::numbers;
use super::outputs::Outputs;
use super::procedures::{self, Procedure, Target, Work};
use super::reading::Reading;
use super::records::Done;
use super::table::Row;
use super::turn::{Committing, Turn};
use crate::Host;
use std::borrow::Cow;

/// Default time that a client waits, in milliseconds.
const WAIT_MS: u64 = 30_000;

/// Longest time that a client waits, in milliseconds.
const WAIT_MS_MAX: u64 = 24 * 60 * 60 * 1_000;

/// A request.
#[derive(Debug)]
pub(super) struct Call<'i> {
    /// The text after `/rpc/`, still URL-encoded.
    pub(super) name: &'i [u8],
    pub(super) query: &'i [u8],
    pub(super) content_type: Option<&'i [u8]>,
    /// Without chunks; empty if the method has none.
    pub(super) body: Cow<'i, [u8]>,
    /// Whether the session can read all of it again.
    pub(super) is_in_input: bool,
}

/// What happened to a request in this turn.
#[derive(Debug)]
pub(super) enum Handled {
    Answered(Answer),
    /// There is more to do: call [`resume`] in a later turn.
    Pause(Box<Task>),
    /// The request waits for the log. Begin it again with the same input, or [`resume`] its task.
    Commit(Option<Box<Task>>),
    /// Call [`resume`] after this time, or when the signal of [`Signals::begin_wait`] arrives.
    Wait {
        ms: u64,
        task: Box<Task>,
    },
}

/// A response without its head.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: Status,
    pub(super) content_type: &'static str,
    pub(super) body: Vec<u8>,
    pub(super) row: Row,
    pub(super) failed: bool,
}

/// A request that takes several turns.
#[derive(Debug)]
pub(super) struct Task {
    procedure: Procedure,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Read(Reading<'static>),
    Wait(Inputs<'static>),
    /// The procedure runs from its beginning.
    Begin(Inputs<'static>),
    Run(Box<Running>),
    Word(BodyWriter, Status),
}

/// A procedure in progress.
#[derive(Debug)]
struct Running {
    inputs: Inputs<'static>,
    outputs: Outputs,
    work: Work,
}

impl Task {
    /// Bytes kept between turns.
    pub(super) fn held_bytes(&self) -> usize {
        let kept = match &self.stage {
            Stage::Read(reading) => reading.held_bytes(),
            Stage::Wait(inputs) | Stage::Begin(inputs) => inputs.held_bytes(),
            Stage::Run(running) => {
                let Running { inputs, outputs, work } = &**running;
                inputs.held_bytes() + outputs.held_bytes() + work.held_bytes()
            }
            Stage::Word(writer, _) => writer.held_bytes(),
        };
        size_of::<Task>() + kept
    }
}

/// Where a request is when it has to wait for the log.
#[derive(Clone, Copy, Debug)]
enum Origin {
    /// In the input, from which it can be read again.
    Input,
    /// Only in its task.
    Task,
}

/// Begins a request.
pub(super) fn begin<H: Host>(
    turn: &mut Turn<'_, H>,
    cursors: &mut Cursors,
    call: Call<'_>,
) -> Handled {
    let procedure = Procedure::of(call.name);
    let origin = if call.is_in_input { Origin::Input } else { Origin::Task };
    let Some(mut reading) = Reading::new(call.query, call.content_type, call.body) else {
        return fail(turn, procedure, Failure::INVALID_PARAMETERS);
    };
    if reading.step() {
        return admit(turn, cursors, procedure, reading, origin);
    }
    pause(procedure, Stage::Read(reading.into_owned()))
}

/// Continues a request.
pub(super) fn resume<H: Host>(
    turn: &mut Turn<'_, H>,
    cursors: &mut Cursors,
    mut task: Box<Task>,
) -> Handled {
    if let Stage::Read(reading) = &mut task.stage
        && !reading.step()
    {
        return Handled::Pause(task);
    }
    let Task { procedure, stage } = *task;
    match stage {
        Stage::Read(reading) => admit(turn, cursors, procedure, reading, Origin::Task),
        Stage::Wait(inputs) => {
            if turn.host.end_wait() {
                run(turn, cursors, procedure, inputs, Origin::Task)
            } else {
                fail(turn, procedure, Failure::TIMED_OUT)
            }
        }
        Stage::Begin(inputs) => run(turn, cursors, procedure, inputs, Origin::Task),
        Stage::Run(running) => {
            let Running { inputs, outputs, work } = *running;
            go_on(turn, cursors, procedure, inputs, (outputs, work), Origin::Task)
        }
        Stage::Word(writer, status) => word(turn, procedure, writer, status),
    }
}

/// Continues when all inputs are read; waits for a signal first if the request asks for it.
fn admit<H: Host>(
    turn: &mut Turn<'_, H>,
    cursors: &mut Cursors,
    procedure: Procedure,
    reading: Reading<'_>,
    origin: Origin,
) -> Handled {
    let inputs = match reading.finish() {
        Ok(inputs) => inputs,
        Err(failure) => return fail(turn, procedure, failure),
    };
    if turn.rides && (inputs.has(b"WAIT") || inputs.has(b"SIGNAL")) {
        // Signals are not sent twice.
        turn.committing = Committing::Later;
        return Handled::Commit(None);
    }
    let Some(name) = inputs.get(b"WAIT") else {
        return run(turn, cursors, procedure, inputs, origin);
    };
    turn.host.begin_wait(name);
    let ms = inputs.get(b"WAITTIME").map_or(WAIT_MS, wait_ms);
    let stage = Stage::Wait(inputs.into_owned());
    Handled::Wait { ms, task: Box::new(Task { procedure, stage }) }
}

/// The time in `WAITTIME`.
fn wait_ms(seconds: &[u8]) -> u64 {
    let ms = numbers::fraction(seconds) * 1000.0;
    // This is false for NaN too.
    if ms > 0.0 { (ms.ceil() as u64).min(WAIT_MS_MAX) } else { WAIT_MS }
}

/// Runs the procedure.
fn run<H: Host>(
    turn: &mut Turn<'_, H>,
    cursors: &mut Cursors,
    procedure: Procedure,
    inputs: Inputs<'_>,
    origin: Origin,
) -> Handled {
    let database = turn.settings().resolve(inputs.get(b"DB").unwrap_or_default());
    let mut outputs = Outputs::default();
    let begun = cursors.choose(&inputs, database).and_then(|cursor| {
        let target = Target { database: database.ok_or(Failure::NO_SUCH_DATABASE), cursor };
        procedures::begin(turn, cursors, &procedure, target, &inputs, &mut outputs)
    });
    match begun {
        Ok(Some(Work::Cursor(cursor))) => {
            pause_run(procedure, inputs, outputs, Work::Cursor(cursor))
        }
        Ok(Some(work)) => go_on(turn, cursors, procedure, inputs, (outputs, work), origin),
        Err(failure) if failure == Failure::COMMITTING => match origin {
            Origin::Input => Handled::Commit(None),
            Origin::Task => {
                let stage = Stage::Begin(inputs.into_owned());
                Handled::Commit(Some(Box::new(Task { procedure, stage })))
            }
        },
        Ok(None) => conclude(turn, procedure, &inputs, outputs, Ok(())),
        Err(failure) => conclude(turn, procedure, &inputs, outputs, Err(failure)),
    }
}

/// Runs a procedure for one slice.
fn go_on<H: Host>(
    turn: &mut Turn<'_, H>,
    cursors: &mut Cursors,
    procedure: Procedure,
    inputs: Inputs<'_>,
    (mut outputs, mut work): (Outputs, Work),
    origin: Origin,
) -> Handled {
    match work.step(turn, cursors, procedure.row, &inputs, &mut outputs) {
        Ok(Step::More) => pause_run(procedure, inputs, outputs, work),
        Ok(Step::Wait { ms }) => match pause_run(procedure, inputs, outputs, work) {
            Handled::Pause(task) => Handled::Wait { ms, task },
            handled => handled,
        },
        Ok(Step::Done) => conclude(turn, procedure, &inputs, outputs, Ok(())),
        Err(failure) if failure == Failure::COMMITTING => match origin {
            Origin::Input => Handled::Commit(None),
            Origin::Task => match pause_run(procedure, inputs, outputs, work) {
                Handled::Pause(task) => Handled::Commit(Some(task)),
                handled => handled,
            },
        },
        Err(failure) => conclude(turn, procedure, &inputs, outputs, Err(failure)),
    }
}

/// Sends the signal after the procedure has run, and writes its outputs.
fn conclude<H: Host>(
    turn: &mut Turn<'_, H>,
    procedure: Procedure,
    inputs: &Inputs<'_>,
    mut outputs: Outputs,
    done: Done,
) -> Handled {
    let forgets_cursor = procedure.row == Row::CurDelete && done.is_ok();
    let status = match done {
        Ok(()) => Status::Ok,
        Err(Failure { status, text }) => {
            outputs.clear();
            outputs.insert(b"ERROR", text.as_bytes());
            status
        }
    };
    if let (Some(name), false) = (inputs.get(b"SIGNAL"), forgets_cursor) {
        let waiting = turn.host.signal(name, inputs.has(b"SIGNALBROAD"));
        outputs.insert_number("SIGNALED", waiting);
    }
    word(turn, procedure, BodyWriter::new(outputs), status)
}

/// Answers with a failure before the procedure runs.
fn fail<H: Host>(turn: &mut Turn<'_, H>, procedure: Procedure, failure: Failure) -> Handled {
    let mut outputs = Outputs::default();
    outputs.insert(b"ERROR", failure.text.as_bytes());
    word(turn, procedure, BodyWriter::new(outputs), failure.status)
}

fn word<H: Host>(
    turn: &mut Turn<'_, H>,
    procedure: Procedure,
    mut writer: BodyWriter,
    status: Status,
) -> Handled {
    match writer.step(turn.host.limits().output_bytes_max) {
        Worded::All => Handled::Answered(Answer {
            status,
            content_type: writer.content_type(),
            body: writer.into_body(),
            row: procedure.row,
            failed: status != Status::Ok,
        }),
        Worded::More => pause(procedure, Stage::Word(writer, status)),
        // The error itself is short: it is always below the limit.
        Worded::TooLong if status == Status::Ok => fail(turn, procedure, Failure::REPLY_TOO_LONG),
        Worded::TooLong => Handled::Answered(Answer {
            status,
            content_type: writer.content_type(),
            body: Vec::new(),
            row: procedure.row,
            failed: true,
        }),
    }
}

fn pause_run(procedure: Procedure, inputs: Inputs<'_>, outputs: Outputs, work: Work) -> Handled {
    let inputs = inputs.into_owned();
    pause(procedure, Stage::Run(Box::new(Running { inputs, outputs, work })))
}

fn pause(procedure: Procedure, stage: Stage) -> Handled {
    Handled::Pause(Box::new(Task { procedure, stage }))
}
