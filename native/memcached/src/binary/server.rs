//! `flush`, `noop`, `version`, `verbosity`, `stat`.

use super::super::line::Words;
use super::super::server::{clear, version_text};
use super::super::stats::{self, Form, Found};
use super::super::turn::Turn;
use super::answer::{Writing, run};
use super::request::Request;
use super::status::Status;
use crate::Host;

/// Removes all records, now or later.
pub(super) fn flush<H: Host>(turn: &mut Turn<'_, H>, request: &Request<'_>) {
    let command = clear(turn, i64::from(request.u32_at(0)));
    run(turn, &command, Writing::Silent);
    request.succeed(turn, &[], 0);
}

/// Returns the version.
pub(super) fn version<H: Host>(turn: &mut Turn<'_, H>, request: &Request<'_>) {
    let version = version_text(&turn.host.server_info().version);
    request.succeed(turn, version.as_bytes(), 0);
}

/// Returns statistics.
pub(super) fn stat<H: Host>(turn: &mut Turn<'_, H>, request: &Request<'_>) {
    let row = request.opcode.row;
    match stats::write(turn, Words::of(request.key), Form::Binary(request.frame)) {
        Found::Unknown | Found::NoSwitch => request.fail(turn, Status::NotFound, row),
        Found::Group | Found::Reset | Found::Switched | Found::Dumped => {
            request.frame.stat(turn.out, "", "");
            request.observe(turn, row, false);
        }
    }
}
