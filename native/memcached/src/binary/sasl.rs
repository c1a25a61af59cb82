//! Authentication by SASL, with the mechanism PLAIN.
//!
//! ```text
//!   sasl auth, key PLAIN, value [identity] \0 user \0 password     Authenticated
//! ```
//!
//! As in the text protocol, any user name is accepted.

use super::super::turn::Turn;
use super::opcode::Action;
use super::request::Request;
use super::status::Status;
use super::step::Step;
use crate::Host;

const MECHANISM: &[u8] = b"PLAIN";

/// How far a client has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sasl {
    pub(super) authenticated: bool,
    /// The mechanism was chosen without a value, which follows in a step.
    chosen: bool,
}

impl Sasl {
    /// Answers one of the requests of this file.
    pub(super) fn answer<H: Host>(
        &mut self,
        turn: &mut Turn<'_, H>,
        request: &Request<'_>,
    ) -> Step {
        let (row, bytes) = (request.opcode.row, request.bytes());
        let next = Step::Next(bytes);
        if !turn.host.requires_password() {
            request.fail(turn, Status::UnknownCommand, row);
            return next;
        }
        if request.opcode.action == Action::ListMechanisms {
            request.succeed(turn, MECHANISM, 0);
            return next;
        }
        let begins = request.opcode.action == Action::Authenticate;
        let was_chosen = std::mem::take(&mut self.chosen);
        self.authenticated = false;
        if request.key != MECHANISM || !begins && !was_chosen {
            request.fail(turn, Status::AuthenticationError, row);
            return next;
        }
        if begins && request.value.is_empty() {
            self.chosen = true;
            request.fail(turn, Status::AuthenticationContinue, row);
            return next;
        }
        let delay_ms = turn.host.password_delay_ms();
        let password = password(request.value);
        self.authenticated = password.is_some_and(|password| turn.host.check_password(password));
        match self.authenticated {
            true => request.frame.succeed(turn.out, b"Authenticated", 0),
            false => request.frame.fail(turn.out, Status::AuthenticationError),
        }
        request.observe(turn, row, !self.authenticated);
        match delay_ms {
            0 => next,
            ms => Step::Sleep { bytes, ms },
        }
    }
}

/// The third part of the value of PLAIN.
fn password(value: &[u8]) -> Option<&[u8]> {
    let mut parts = value.split(|&byte| byte == 0);
    let [_identity, _user, password] = [parts.next()?, parts.next()?, parts.next()?];
    parts.next().is_none().then_some(password)
}
