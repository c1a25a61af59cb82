//! The procedures by their rows: what each needs, and which function implements it.

use super::bulk::{Bulk, Kind};
use super::cursors::{self, Chosen, Cursors};
use super::failure::Failure;
use super::flow::Step;
use super::inputs::Inputs;
use super::matching::Search;
use super::outputs::Outputs;
use super::records::{self, Done};
use super::status::Echo;
use super::synchronize::Synchronize;
use super::table::Row;
use super::turn::Turn;
use super::vacuum::Vacuum;
use super::{status, url};
use crate::Host;
use todana_command::{Command, Condition, StringCommand};

/// The procedure that a request calls.
#[derive(Clone, Debug)]
pub(super) struct Procedure {
    pub(super) row: Row,
    /// The name of an unknown procedure; otherwise empty.
    unknown: Vec<u8>,
}

impl Procedure {
    /// The procedure of a URL-encoded name.
    pub(super) fn of(encoded: &[u8]) -> Procedure {
        if let Some(row) = Row::procedure(encoded) {
            return Procedure { row, unknown: Vec::new() };
        }
        let name = url::decode(encoded);
        match Row::procedure(&name) {
            Some(row) => Procedure { row, unknown: Vec::new() },
            None => Procedure { row: Row::Unknown, unknown: name },
        }
    }
}

/// The database and the inputs of a procedure.
pub(super) struct Target {
    pub(super) database: Result<usize, Failure>,
    pub(super) cursor: Option<Chosen>,
}

/// The remaining work of a procedure.
#[derive(Debug)]
pub(super) enum Work {
    Bulk(Bulk),
    Search(Box<Search>),
    Vacuum(Vacuum),
    Echo(Echo),
    Synchronize(Synchronize),
    /// A cursor's move over many expired records.
    Cursor(Option<Chosen>),
}

/// Begins a procedure that may take several turns. Runs any other procedure to its end, and returns
/// `None`.
pub(super) fn begin<H: Host>(
    turn: &mut Turn<'_, H>,
    cursors: &mut Cursors,
    procedure: &Procedure,
    target: Target,
    inputs: &Inputs<'_>,
    outputs: &mut Outputs,
) -> Result<Option<Work>, Failure> {
    let Target { database, cursor } = target;
    let bulk = |turn: &mut Turn<'_, H>, kind, database| {
        Work::Bulk(Bulk::new(turn, kind, database, inputs))
    };
    let done: Done = match procedure.row {
        Row::Void => Ok(()),
        Row::Echo => return Ok(Some(Work::Echo(Echo::default()))),
        Row::Report => status::report(turn, outputs),
        Row::Status => status::status(turn, database?, outputs),
        Row::Synchronize => {
            let begun = Synchronize::begin(turn, database?, inputs)?;
            return Ok(begun.map(Work::Synchronize));
        }
        Row::PlayScript => Err(Failure::NO_SCRIPTS),
        Row::TuneReplication => Err(Failure::NO_POSITION_FILE),
        Row::UlogList | Row::UlogRemove => Err(Failure::NO_UPDATE_LOG),
        Row::Clear => {
            let database = database?;
            records::clear(turn, database)?;
            cursors.unset(database);
            Ok(())
        }
        Row::Set => records::set(turn, database?, inputs, Condition::Always),
        Row::Add => records::set(turn, database?, inputs, Condition::IfAbsent),
        Row::Replace => records::set(turn, database?, inputs, Condition::IfPresent),
        Row::Append => records::append(turn, database?, inputs),
        Row::Increment => records::increment(turn, database?, inputs, outputs),
        Row::IncrementDouble => records::increment_double(turn, database?, inputs, outputs),
        Row::Cas => records::cas(turn, database?, inputs),
        Row::Remove => records::remove(turn, database?, inputs),
        Row::Get => records::read(turn, database?, inputs, outputs, |key| {
            Command::String(StringCommand::Get { key })
        }),
        Row::Check => records::check(turn, database?, inputs, outputs),
        Row::Seize => records::read(turn, database?, inputs, outputs, |key| {
            Command::String(StringCommand::Take { key })
        }),
        Row::SetBulk => return Ok(Some(bulk(turn, Kind::Set, database?))),
        Row::RemoveBulk => return Ok(Some(bulk(turn, Kind::Remove, database?))),
        Row::GetBulk => return Ok(Some(bulk(turn, Kind::Get, database?))),
        Row::Vacuum => return Ok(Some(Work::Vacuum(Vacuum::begin(database?, inputs)))),
        row @ (Row::MatchPrefix | Row::MatchRegex | Row::MatchSimilar) => {
            let search = Search::begin(turn, row, database?, inputs)?;
            return Ok(Some(Work::Search(Box::new(search))));
        }
        row @ (Row::CurJump
        | Row::CurJumpBack
        | Row::CurStep
        | Row::CurStepBack
        | Row::CurSetValue
        | Row::CurRemove
        | Row::CurGetKey
        | Row::CurGetValue
        | Row::CurGet
        | Row::CurSeize
        | Row::CurDelete) => {
            let done = cursors::run(turn, cursors, row, cursor, inputs, outputs);
            if cursors::is_unfinished(&done) {
                return Ok(Some(Work::Cursor(cursor)));
            }
            done
        }
        Row::RestGet
        | Row::RestHead
        | Row::RestPut
        | Row::RestDelete
        | Row::BinarySetBulk
        | Row::BinaryRemoveBulk
        | Row::BinaryGetBulk
        | Row::BinaryPlayScript
        | Row::BinaryReplication
        | Row::Unknown => Err(Failure::no_procedure(&procedure.unknown)),
    };
    done.map(|()| None)
}

impl Work {
    /// Bytes that it keeps beside its inputs and outputs.
    pub(super) fn held_bytes(&self) -> usize {
        match self {
            Work::Search(search) => search.held_bytes(),
            Work::Bulk(_)
            | Work::Vacuum(_)
            | Work::Echo(_)
            | Work::Synchronize(_)
            | Work::Cursor(_) => 0,
        }
    }

    /// Continues for a slice.
    pub(super) fn step<H: Host>(
        &mut self,
        turn: &mut Turn<'_, H>,
        cursors: &mut Cursors,
        row: Row,
        inputs: &Inputs<'_>,
        outputs: &mut Outputs,
    ) -> Result<Step, Failure> {
        match self {
            Work::Bulk(bulk) => bulk.step(turn, inputs, outputs).map(Step::of),
            Work::Search(search) => search.step(turn, outputs).map(Step::of),
            Work::Vacuum(vacuum) => vacuum.step(turn).map(Step::of),
            Work::Echo(echo) => Ok(Step::of(echo.step(inputs, outputs))),
            Work::Synchronize(synchronize) => synchronize.step(turn),
            Work::Cursor(chosen) => {
                let done = cursors::resume(turn, cursors, row, *chosen, inputs, outputs);
                if cursors::is_unfinished(&done) {
                    Ok(Step::More)
                } else {
                    done.map(|()| Step::Done)
                }
            }
        }
    }
}
