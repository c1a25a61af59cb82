//! The connection: HELLO, AUTH, PING, ECHO, SELECT, QUIT, RESET.

use super::call::{Call, Done};
use super::client::{USER, check_name};
use super::encoder::Failure;
use super::flow::Flow;
use super::request::{SYNTAX, database};
use super::{REDIS_VERSION, number};
use crate::Host;
use std::sync::atomic::Ordering::Relaxed;

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";

/// The arguments of HELLO.
struct Hello<'a> {
    /// Another version, if given: whether it is RESP3.
    resp3: Option<bool>,
    /// User and password.
    credentials: Option<(&'a [u8], &'a [u8])>,
    name: Option<&'a [u8]>,
}

impl<'a> Hello<'a> {
    fn read(arguments: &[&'a [u8]]) -> Result<Hello<'a>, Failure> {
        let resp3 = match arguments.get(1) {
            None => None,
            Some(argument) => match number::integer(argument) {
                Some(version @ 2..=3) => Some(version == 3),
                Some(_) => return Err("NOPROTO unsupported protocol version".into()),
                None => {
                    let text = "ERR Protocol version is not an integer or out of range";
                    return Err(text.into());
                }
            },
        };
        let (mut credentials, mut name) = (None, None);
        let mut at = 2;
        while let Some(option) = arguments.get(at) {
            if option.eq_ignore_ascii_case(b"auth") && at + 2 < arguments.len() {
                credentials = Some((arguments[at + 1], arguments[at + 2]));
                at += 3;
            } else if option.eq_ignore_ascii_case(b"setname") && at + 1 < arguments.len() {
                let wanted = arguments[at + 1];
                check_name("Client names", wanted)?;
                name = Some(wanted);
                at += 2;
            } else {
                let text = "ERR Syntax error in HELLO option '";
                return Err(Failure::quoting(text, option, "'"));
            }
        }
        Ok(Hello { resp3, credentials, name })
    }
}

impl<H: Host> Call<'_, '_, H> {
    /// The version that a HELLO of an authenticated client will choose; an error if the HELLO will
    /// fail.
    pub(super) fn foresee_hello(&self, arguments: &[&[u8]]) -> Result<Option<bool>, Failure> {
        let hello = Hello::read(arguments)?;
        if let Some((user, password)) = hello.credentials {
            self.check_credentials(user, password)?;
        }
        Ok(hello.resp3)
    }

    pub(super) fn hello(&mut self) -> Done {
        let Hello { resp3, credentials, name } = Hello::read(self.arguments)?;
        let mut after = Flow::Continue;
        if let Some((user, password)) = credentials {
            after = self.after_password();
            if let Err(failure) = self.authenticate(user, password) {
                self.encoder.error(&failure);
                return Ok(after);
            }
        }
        if !self.state.authenticated {
            let text = "NOAUTH HELLO must be called with the client already authenticated, \
                        otherwise the HELLO <proto> AUTH <user> <pass> option can be used to \
                        authenticate the client and select the RESP protocol version at the same \
                        time";
            return Err(text.into());
        }
        if let Some(name) = name {
            self.set_name(name);
        }
        if let Some(resp3) = resp3 {
            self.set_version(resp3);
        }
        self.greet();
        Ok(after)
    }

    fn greet(&mut self) {
        let client = self.host.client();
        let (id, mode) = (client.id, if client.redirects { "cluster" } else { "standalone" });
        let is_replica = self.host.topology().is_some_and(|topology| topology.is_replica());
        let role = if is_replica { "replica" } else { "master" };
        let encoder = &mut *self.encoder;
        encoder.map(7);
        encoder.text("server");
        encoder.text("redis");
        encoder.text("version");
        encoder.text(REDIS_VERSION);
        encoder.text("proto");
        encoder.integer(if encoder.resp3 { 3 } else { 2 });
        encoder.text("id");
        encoder.count(id);
        encoder.text("mode");
        encoder.text(mode);
        encoder.text("role");
        encoder.text(role);
        encoder.text("modules");
        encoder.array(0);
    }

    fn set_version(&mut self, resp3: bool) {
        self.state.resp3 = resp3;
        self.encoder.resp3 = resp3;
        self.host.client().resp_version.store(if resp3 { 3 } else { 2 }, Relaxed);
    }

    pub(super) fn auth(&mut self) -> Done {
        let (user, password) = match self.arguments {
            [_, password] => {
                if !self.host.requires_password() {
                    let text = "ERR AUTH <password> called without any password configured for the \
                                default user. Are you sure your configuration is correct?";
                    return Err(text.into());
                }
                (USER.as_bytes(), *password)
            }
            [_, user, password] => (*user, *password),
            _ => return Err(SYNTAX),
        };
        let after = self.after_password();
        match self.authenticate(user, password) {
            Ok(()) => self.encoder.ok(),
            Err(failure) => self.encoder.error(&failure),
        }
        Ok(after)
    }

    /// The effect of checking a password now: a sleep, if this address has sent many wrong ones.
    /// The reply is sent after it.
    fn after_password(&self) -> Flow {
        match self.host.password_delay_ms() {
            0 => Flow::Continue,
            ms => Flow::Sleep(ms),
        }
    }

    /// A wrong password does not revoke an earlier authentication.
    fn authenticate(&mut self, user: &[u8], password: &[u8]) -> Result<(), Failure> {
        self.check_credentials(user, password)?;
        self.state.authenticated = true;
        Ok(())
    }

    fn check_credentials(&self, user: &[u8], password: &[u8]) -> Result<(), Failure> {
        // The password is compared for every user name, so that the time does not reveal which
        // users exist.
        let right = self.host.check_password(password);
        if !right || user != USER.as_bytes() {
            return Err(WRONG_PASSWORD.into());
        }
        Ok(())
    }

    pub(super) fn ping(&mut self) -> Done {
        match self.arguments {
            [_] | [_, _] if self.state.is_subscribed && !self.state.resp3 => {
                self.encoder.array(2);
                self.encoder.text("pong");
                self.encoder.bulk(self.arguments.get(1).copied().unwrap_or_default());
            }
            [_] => self.encoder.simple("PONG"),
            [_, message] => self.encoder.bulk(message),
            _ => return Err(super::request::wrong_arity(self.name)),
        }
        Ok(Flow::Continue)
    }

    pub(super) fn echo(&mut self) -> Done {
        self.encoder.bulk(self.argument(1));
        Ok(Flow::Continue)
    }

    pub(super) fn select(&mut self) -> Done {
        let number = database(self.argument(1))?;
        self.set_database(number);
        self.ok()
    }

    fn set_database(&mut self, number: usize) {
        self.state.database = number;
        self.host.client().database.store(number, Relaxed);
    }

    pub(super) fn quit(&mut self) -> Done {
        self.encoder.ok();
        Ok(Flow::Close)
    }

    pub(super) fn reset(&mut self) -> Done {
        self.state.forget(self.host);
        self.end_subscriptions();
        self.end_tracking();
        self.host.set_monitor(false);
        self.state.silent = false;
        self.state.authenticated = !self.host.requires_password();
        self.set_version(false);
        self.set_database(0);
        self.set_name(b"");
        self.host.client().no_evict.store(false, Relaxed);
        self.host.set_read_level(None);
        self.state.reads_here = false;
        self.encoder.simple("RESET");
        Ok(Flow::Continue)
    }
}
