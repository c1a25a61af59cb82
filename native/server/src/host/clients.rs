//! What clients do to each other and to the server.

use super::TurnHost;
use crate::notices;
use crate::shared::PASSWORD;
use std::sync::Arc;
use todana_kyoto::KyotoSettings;
use todana_protocol::Client;
use todana_resp::Hold;

/// The option of keyspace notifications, as Redis calls it.
const NOTIFICATIONS: &str = "notify-keyspace-events";

impl todana_protocol::Clients for TurnHost<'_> {
    fn clients(&self) -> Vec<Arc<Client>> {
        self.shared.clients.list()
    }

    fn clients_after(&self, id: u64, count: usize) -> Vec<Arc<Client>> {
        self.shared.clients.after(id, count)
    }

    fn has_client(&self, id: u64) -> bool {
        self.shared.clients.find(id).is_some()
    }

    fn kill(&self, id: u64) -> bool {
        self.shared.kill(id)
    }
}

impl todana_resp::Operator for TurnHost<'_> {
    #[inline]
    fn held_until_ms(&self, may_write: bool) -> Option<u64> {
        self.shared.listeners.operator.held_until_ms(may_write, self.replied_at_ms)
    }

    fn hold_clients(&self, hold: Option<Hold>) {
        self.shared.listeners.operator.hold(hold, self.replied_at_ms);
    }

    #[inline]
    fn is_monitored(&self) -> bool {
        self.shared.listeners.operator.is_monitored()
    }

    fn monitor(&self, line: Vec<u8>) {
        self.shared.monitor(line);
    }

    fn set_monitor(&mut self, is_on: bool) {
        self.listening.set_monitor(&self.shared.listeners, self.place, self.client, is_on);
    }
}

impl todana_resp::Configuration for TurnHost<'_> {
    fn options(&self) -> Vec<(String, String)> {
        let mut options = self.shared.config.shown_options();
        // As in Redis, a client that has given the password may see it.
        options.push((PASSWORD.to_owned(), self.shared.secret.shown()));
        let classes = self.shared.listeners.notices.classes();
        options.push((NOTIFICATIONS.into(), notices::format(classes)));
        options
    }

    fn set_option(&self, name: &str, value: &str) -> Result<(), String> {
        if name == NOTIFICATIONS {
            let Some(classes) = notices::parse(value) else {
                return Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".into());
            };
            return match self.shared.set_notices(classes) {
                true => Ok(()),
                false => Err("the databases have too many observers".into()),
            };
        }
        self.shared.set_option(name, value)
    }
}

impl todana_kyoto::Settings for TurnHost<'_> {
    fn kyoto(&self) -> &KyotoSettings {
        &self.shared.config.kyoto
    }
}

impl todana_kyoto::Signals for TurnHost<'_> {
    fn begin_wait(&mut self, name: &[u8]) {
        self.end_wait();
        // No client can signal a longer name either: the time passes, and nothing is stored for it.
        if name.len() <= self.shared.config.limits.key_bytes_max {
            *self.wait = Some(self.shared.waiters.begin(name, self.place));
        }
    }

    fn end_wait(&mut self) -> bool {
        self.wait.take().is_some_and(|wait| self.shared.waiters.end(wait))
    }

    fn signal(&mut self, name: &[u8], all: bool) -> usize {
        self.shared.signal(name, all)
    }
}
