//! Requests for one record by its path.
//!
//! ```text
//!   GET /key                    database 0             200, 404
//!   HEAD /1/key                 database 1             200 with the value's length, 404
//!   PUT /casket.kch/a%20b       by name                201, 450 if X-Kt-Mode does not allow it
//!   DELETE //key                database 0             204, 404
//! ```
//!
//! A key that contains a slash needs its database as the first segment, or `%2F`.

use super::failure::Failure;
use super::http::{Common, Dated, Head, Method, Response, Status};
use super::outcome::{Outcome, ask, ask_for_one};
use super::table::Row;
use super::turn::{Committing, Turn};
use super::{date, numbers, records, url};
use crate::Host;
use memchr::memchr;
use smallvec::SmallVec;
use std::borrow::Cow;
use todana_command::{
    Command, Condition, Expires, HELD_BYTES_MIN, KeyCommand, Refusal, Set, StringCommand,
};

/// A request for one record.
struct Request<'r> {
    head: &'r Head<'r>,
    common: &'r Common,
    database: usize,
    key: &'r [u8],
    /// Whether records of the database expire.
    expiring: bool,
}

/// Answers a request whose path is not under `/rpc/`, unless it waits for the log.
#[inline]
pub(super) fn answer<H: Host>(
    turn: &mut Turn<'_, H>,
    common: &Common,
    head: &Head<'_>,
    path: &[u8],
    body: &[u8],
) {
    let start = turn.out.len();
    let path = path.strip_prefix(b"/").unwrap_or(path);
    let (database, key) = match memchr(b'/', path) {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&b""[..], path),
    };
    let (row, status) = match turn.settings().resolve(&decoded(database)) {
        None => {
            let response =
                Response { keep_alive: head.keep_alive, ..Response::of(Status::BadRequest) };
            let with_body = head.method != Method::Head;
            response.write(turn.out, common, b"no such database\n", with_body);
            (Row::Unknown, Status::BadRequest)
        }
        Some(database) => {
            let expiring = !turn.database(database).persistent;
            let request = Request { head, common, database, key: &decoded(key), expiring };
            request.answer(turn, body)
        }
    };
    if turn.committing != Committing::Nothing {
        turn.out.truncate(start);
    }
    turn.observe(row, status as u16 >= 400, &[head.name, head.target]);
}

/// Decodes a part of a path. Most parts need no decoding.
#[inline]
fn decoded(part: &[u8]) -> Cow<'_, [u8]> {
    let is_plain = |byte: &u8| matches!(byte, 0x21..=0x7e) && *byte != b'%' && *byte != b'+';
    match part.iter().all(is_plain) {
        true => Cow::Borrowed(part),
        false => Cow::Owned(url::decode(part)),
    }
}

impl Request<'_> {
    fn answer<H: Host>(&self, turn: &mut Turn<'_, H>, body: &[u8]) -> (Row, Status) {
        let status = match self.head.method {
            Method::Get => self.get(turn, true),
            Method::Head => self.get(turn, false),
            Method::Put => self.put(turn, body),
            Method::Delete => self.delete(turn),
            Method::Post | Method::Other => self.say(turn, Status::NotImplemented, &[]),
        };
        (self.row(), status)
    }

    fn row(&self) -> Row {
        match self.head.method {
            Method::Get => Row::RestGet,
            Method::Head => Row::RestHead,
            Method::Put => Row::RestPut,
            Method::Delete => Row::RestDelete,
            Method::Post | Method::Other => Row::Unknown,
        }
    }

    #[inline]
    fn get<H: Host>(&self, turn: &mut Turn<'_, H>, with_value: bool) -> Status {
        // The response is written while the entry is borrowed, so that its value is copied once or
        // not at all.
        // From another node they are not handles.
        let is_away = turn.host.is_away(self.database);
        let mut out = std::mem::take(turn.out);
        let start = out.len();
        let get = Command::String(StringCommand::Get { key: self.key });
        let (outcome, large) = ask_for_one(turn, self.database, &get, |record| {
            let Some(record) = record else { return };
            let expires_at_ms = record.expires_at_ms.filter(|_| self.expiring);
            let xt = expires_at_ms.and_then(numbers::xt_of).map(Dated::of);
            let header = xt.as_ref().map(|xt| [("X-Kt-Xt", xt.text())]);
            let headers = header.as_ref().map_or(&[][..], |header| header);
            let length = Some(record.value.len());
            let response = self.response(Status::Ok, headers);
            Response { length, ..response }.write_head(&mut out, self.common);
            if with_value && (is_away || record.value.len() < HELD_BYTES_MIN) {
                out.extend_from_slice(record.value);
            }
        });
        *turn.out = out;
        if let Some(value) = large.filter(|_| with_value) {
            turn.splice(value);
        }
        match outcome {
            Outcome::Done => {
                turn.lookups.0 += 1;
                Status::Ok
            }
            Outcome::Absent => {
                turn.lookups.1 += 1;
                self.fail(turn, Status::NotFound, &Failure::NO_RECORD)
            }
            outcome => {
                turn.out.truncate(start);
                self.fail_otherwise(turn, outcome)
            }
        }
    }

    fn put<H: Host>(&self, turn: &mut Turn<'_, H>, value: &[u8]) -> Status {
        if let Err(failure) = records::admit(turn, self.key, value) {
            return self.fail(turn, failure.status, &failure);
        }
        let mode = self.head.mode.unwrap_or_default();
        let condition = match () {
            () if mode.eq_ignore_ascii_case(b"add") => Condition::IfAbsent,
            () if mode.eq_ignore_ascii_case(b"replace") => Condition::IfPresent,
            () => Condition::Always,
        };
        let xt = self.head.xt.filter(|_| self.expiring).and_then(date::parse);
        let expires = xt.map_or(Expires::Never, |xt| Expires::At(numbers::expires_at_ms(xt)));
        let set = Set { condition, expires, ..Set::new(self.key, value) };
        match ask(turn, self.database, &Command::String(StringCommand::Set(set)), |_| {}) {
            Outcome::Done => {
                let mut location: SmallVec<[u8; 256]> = SmallVec::from_slice(b"http://localhost:");
                let port = turn.host.client().local_address.port();
                location.extend_from_slice(itoa::Buffer::new().format(port).as_bytes());
                location.extend_from_slice(self.head.target);
                self.say(turn, Status::Created, &[("Location", &location)])
            }
            Outcome::Refused(refusal) => self.fail(turn, Status::Logical, &refusal.into()),
            outcome => self.fail_otherwise(turn, outcome),
        }
    }

    fn delete<H: Host>(&self, turn: &mut Turn<'_, H>) -> Status {
        let command =
            Command::Key(KeyCommand::DeleteIf { key: self.key, condition: Condition::Always });
        match ask(turn, self.database, &command, |_| {}) {
            Outcome::Done => self.say(turn, Status::NoContent, &[]),
            Outcome::Refused(Refusal::Absent) => {
                self.fail(turn, Status::NotFound, &Failure::NO_RECORD)
            }
            outcome => self.fail_otherwise(turn, outcome),
        }
    }

    fn response<'h>(
        &self,
        status: Status,
        headers: &'h [(&'static str, &'h [u8])],
    ) -> Response<'h> {
        Response { status, keep_alive: self.head.keep_alive, length: Some(0), headers }
    }

    /// Sends a response without a body.
    #[inline]
    fn say<H: Host>(
        &self,
        turn: &mut Turn<'_, H>,
        status: Status,
        headers: &[(&'static str, &[u8])],
    ) -> Status {
        self.response(status, headers).write_head(turn.out, self.common);
        status
    }

    fn fail<H: Host>(&self, turn: &mut Turn<'_, H>, status: Status, why: &Failure) -> Status {
        self.say(turn, status, &[("X-Kt-Error", why.text.as_bytes())])
    }

    #[cold]
    fn fail_otherwise<H: Host>(&self, turn: &mut Turn<'_, H>, outcome: Outcome) -> Status {
        let status = match &outcome {
            Outcome::NotRun(why) => why.status,
            _ => Status::Internal,
        };
        let why = outcome.check().err().unwrap_or(Failure::INCONSISTENT);
        self.fail(turn, status, &why)
    }
}
