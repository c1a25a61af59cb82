//! `flush_all`, `version`, `verbosity`, `shutdown`: commands about the server.

use super::answer::Writing;
use super::exptime::moment_ms;
use super::line::{Arguments, BAD_FORMAT, Words, signed, unsigned};
use super::table::Row;
use super::turn::{DATABASE, Turn};
use crate::Host;
use todana_command::{Command, DatabaseCommand};

/// The version of memcached whose protocol this server implements. Clients decide by it which
/// features to use.
const PROTOCOL_VERSION: &str = "1.6.18";

/// Answers `flush_all`.
pub(super) fn flush_all<H: Host>(turn: &mut Turn<'_, H>, words: Words<'_>, line: &[u8]) {
    let arguments = match Arguments::of(words) {
        Some(arguments) if arguments.as_slice().len() <= 2 => arguments,
        _ => {
            turn.say("ERROR");
            return turn.observe(Row::FlushAll, true, line);
        }
    };
    let noreply = arguments.noreply();
    let delay_s = match arguments.as_slice() {
        [] | [b"noreply"] => Some(0),
        [delay, ..] => signed(delay),
    };
    let Some(delay_s) = delay_s else {
        turn.say_unless(noreply, "CLIENT_ERROR invalid exptime argument");
        return turn.observe(Row::FlushAll, true, line);
    };
    let command = clear(turn, delay_s);
    turn.execute(&command, Writing::Silent);
    turn.say_unless(noreply, "OK");
    turn.observe(Row::FlushAll, false, line);
}

/// The removal of all records, now or after a delay by the time of the records.
pub(super) fn clear<H: Host>(turn: &Turn<'_, H>, delay_s: i64) -> Command<'static> {
    let now_ms = turn.host.records_ms(DATABASE);
    let at_ms = Some(moment_ms(delay_s, now_ms)).filter(|at_ms| *at_ms > now_ms);
    Command::Database(DatabaseCommand::Clear { at_ms })
}

/// Answers `verbosity`, which has no effect.
pub(super) fn verbosity<H: Host>(turn: &mut Turn<'_, H>, words: Words<'_>, line: &[u8]) {
    let arguments = match Arguments::of(words) {
        Some(arguments) if (1..=2).contains(&arguments.as_slice().len()) => arguments,
        _ => {
            turn.say("ERROR");
            return turn.observe(Row::Verbosity, true, line);
        }
    };
    let known = unsigned(arguments.as_slice()[0]).is_some();
    turn.say_unless(arguments.noreply(), if known { "OK" } else { BAD_FORMAT });
    turn.observe(Row::Verbosity, !known, line);
}

/// Answers `version`.
pub(super) fn version<H: Host>(turn: &mut Turn<'_, H>, line: &[u8]) {
    let version = version_text(&turn.host.server_info().version);
    turn.say(&format!("VERSION {version}"));
    turn.observe(Row::Version, false, line);
}

/// Answers `shutdown`.
pub(super) fn shutdown<H: Host>(turn: &mut Turn<'_, H>, line: &[u8]) {
    turn.say("ERROR: shutdown not enabled");
    turn.observe(Row::Shutdown, true, line);
}

/// The version of the protocol, then the name of this server.
pub(super) fn version_text(own: &str) -> String {
    format!("{PROTOCOL_VERSION}-todana-{own}")
}
