//! HyperLogLogs: PFADD, PFCOUNT, PFMERGE.

use super::request::{Built, Request, plain};
use todana_command::{Command, MERGED_KEYS_MAX, SketchCommand};

/// PFADD.
pub(super) fn add<'a>(request: &Request<'a>) -> Built<'a> {
    plain(Command::Sketch(SketchCommand::AddToSketch {
        key: request.arguments[1],
        elements: &request.arguments[2..],
    }))
}

/// PFCOUNT.
pub(super) fn count<'a>(request: &Request<'a>) -> Built<'a> {
    plain(Command::Sketch(SketchCommand::CountSketches { keys: &request.arguments[1..] }))
}

/// PFMERGE.
pub(super) fn merge<'a>(request: &Request<'a>) -> Built<'a> {
    let keys = &request.arguments[1..];
    if keys.len() > MERGED_KEYS_MAX {
        return Err(format!("ERR PFMERGE accepts at most {MERGED_KEYS_MAX} keys").into());
    }
    plain(Command::Sketch(SketchCommand::MergeSketches { keys }))
}
