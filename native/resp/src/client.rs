//! CLIENT: names, lists, kills.

use super::call::{Call, Done};
use super::encoder::Failure;
use super::flow::Flow;
use super::number;
use super::request::SYNTAX;
use super::state::{Listing, Unfinished};
use crate::{Host, Topic};
use std::io::Write;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard};
use todana_protocol::{Client, ClientNames};

/// The only user.
pub(super) const USER: &str = "default";
/// Longest name of a client, of its library or of the library's version.
const NAME_BYTES_MAX: usize = 256;
/// Clients that CLIENT LIST describes in one turn: a millisecond or two.
const CLIENTS_PER_TURN: usize = 1_024;

/// Checks that a name can stand in a line of CLIENT LIST.
pub(super) fn check_name(what: &str, name: &[u8]) -> Result<(), Failure> {
    if name.len() > NAME_BYTES_MAX {
        return Err(format!("ERR {what} cannot be longer than {NAME_BYTES_MAX} bytes.").into());
    }
    if !name.iter().all(u8::is_ascii_graphic) {
        let rule = "cannot contain spaces, newlines or special characters.";
        return Err(format!("ERR {what} {rule}").into());
    }
    Ok(())
}

/// The names of a client; a panic of another thread leaves them valid.
fn names(client: &Client) -> MutexGuard<'_, ClientNames> {
    client.names.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl<H: Host> Call<'_, '_, H> {
    pub(super) fn client_id(&mut self) -> Done {
        let id = self.host.client().id;
        self.encoder.count(id);
        Ok(Flow::Continue)
    }

    pub(super) fn client_get_name(&mut self) -> Done {
        let name = names(self.host.client()).name.clone();
        if name.is_empty() {
            self.encoder.null()
        } else {
            self.encoder.bulk(&name)
        }
        Ok(Flow::Continue)
    }

    pub(super) fn client_set_name(&mut self) -> Done {
        let name = self.argument(2);
        check_name("Client names", name)?;
        self.set_name(name);
        self.ok()
    }

    pub(super) fn set_name(&mut self, name: &[u8]) {
        names(self.host.client()).name = name.to_vec();
    }

    pub(super) fn client_set_info(&mut self) -> Done {
        let (option, value) = (self.argument(2), self.argument(3));
        let (word, is_library) = match option.to_ascii_lowercase().as_slice() {
            b"lib-name" => ("lib-name", true),
            b"lib-ver" => ("lib-ver", false),
            _ => return Err(Failure::quoting("ERR Unrecognized option '", option, "'")),
        };
        check_name(word, value)?;
        let mut names = names(self.host.client());
        *if is_library { &mut names.library } else { &mut names.library_version } = value.to_vec();
        drop(names);
        self.ok()
    }

    pub(super) fn client_no_evict(&mut self) -> Done {
        let on = switch(self.argument(2))?;
        self.host.client().no_evict.store(on, Relaxed);
        self.ok()
    }

    pub(super) fn client_no_touch(&mut self) -> Done {
        switch(self.argument(2))?;
        self.ok()
    }

    pub(super) fn client_reply(&mut self) -> Done {
        match self.argument(2).to_ascii_lowercase().as_slice() {
            b"on" => {
                self.state.silent = false;
                self.state.skip_this = false;
                return self.ok();
            }
            b"off" => self.state.silent = true,
            b"skip" => {
                self.state.skip_next = !self.state.silent;
                self.state.skip_this = true;
            }
            _ => return Err(SYNTAX),
        }
        Ok(Flow::Continue)
    }

    pub(super) fn client_info(&mut self) -> Done {
        let mut text = Vec::new();
        let client = self.host.client();
        line(client, self.host.command_names(client.protocol), self.now_ms(), &mut text);
        self.encoder.verbatim(&text);
        Ok(Flow::Continue)
    }

    fn now_ms(&self) -> u64 {
        self.host.replied_at_ms()
    }

    /// Continues the list with a number of clients in each turn. A client that stays connected is
    /// listed exactly once.
    pub(super) fn client_list(&mut self) -> Done {
        let (mut wanted, mut kept) = (None, Kind::Any);
        match self.arguments[2..] {
            [] => {}
            [option, kind] if option.eq_ignore_ascii_case(b"type") => {
                kept = Kind::of(kind)?;
            }
            [option, ref ids @ ..] if option.eq_ignore_ascii_case(b"id") && !ids.is_empty() => {
                let mut numbers = Vec::with_capacity(ids.len());
                for id in ids {
                    let id = number::integer(id).ok_or("ERR Invalid client ID")?;
                    numbers.push(u64::try_from(id).unwrap_or(0));
                }
                numbers.sort_unstable();
                wanted = Some(numbers);
            }
            _ => return Err(SYNTAX),
        }
        let Listing { mut after, mut text } = match self.state.begun.take() {
            Some(Unfinished::Listing(listing)) => listing,
            _ => Listing::default(),
        };
        let clients = self.host.clients_after(after, CLIENTS_PER_TURN);
        for client in &clients {
            after = client.id;
            let is_wanted = wanted.as_ref().is_none_or(|ids| ids.binary_search(&client.id).is_ok());
            if is_wanted && kept.includes(client) {
                let commands = self.host.command_names(client.protocol);
                line(client, commands, self.now_ms(), &mut text);
            }
        }
        // Beyond that the reply is too long, whatever follows.
        if clients.len() == CLIENTS_PER_TURN && text.len() <= self.encoder.bytes_max {
            self.state.begun = Some(Unfinished::Listing(Listing { after, text }));
        } else {
            self.encoder.verbatim(&text);
        }
        Ok(Flow::Continue)
    }

    pub(super) fn client_kill(&mut self) -> Done {
        let (filter, old) = match self.arguments {
            [_, _, address] => (Filter { address: Some(address), ..Filter::default() }, true),
            _ => (self.filter()?, false),
        };
        let me = self.host.client().id;
        let (mut killed, mut flow) = (0, Flow::Continue);
        for client in self.host.clients() {
            if !filter.takes(&client, me, self.now_ms()) {
                continue;
            }
            if client.id == me {
                flow = Flow::Close;
                killed += 1;
            } else if self.host.kill(client.id) {
                killed += 1;
            }
            if old {
                break;
            }
        }
        match (old, killed) {
            (true, 0) => return Err("ERR No such client".into()),
            (true, _) => self.encoder.ok(),
            (false, killed) => self.encoder.count(killed),
        }
        Ok(flow)
    }

    fn filter(&self) -> Result<Filter<'_>, Failure> {
        let mut filter = Filter { skip_me: true, ..Filter::default() };
        for option in self.arguments[2..].chunks(2) {
            let &[word, value] = option else { return Err(SYNTAX) };
            let positive = || number::integer(value).and_then(|it| u64::try_from(it).ok());
            match word.to_ascii_lowercase().as_slice() {
                b"id" => {
                    let id = positive().filter(|id| *id > 0);
                    filter.id = Some(id.ok_or("ERR client-id should be greater than 0")?);
                }
                b"type" => filter.kind = Kind::of(value)?,
                b"user" if value == USER.as_bytes() => {}
                b"user" => return Err(Failure::quoting("ERR No such user '", value, "'")),
                b"addr" => filter.address = Some(value),
                b"laddr" => filter.local_address = Some(value),
                b"skipme" if value.eq_ignore_ascii_case(b"yes") => filter.skip_me = true,
                b"skipme" if value.eq_ignore_ascii_case(b"no") => filter.skip_me = false,
                b"maxage" => {
                    let age = positive().filter(|age| *age > 0);
                    filter.age_s = Some(age.ok_or("ERR maxage is not an integer or out of range")?);
                }
                _ => return Err(SYNTAX),
            }
        }
        Ok(filter)
    }
}

/// The clients to kill.
#[derive(Default)]
struct Filter<'a> {
    id: Option<u64>,
    address: Option<&'a [u8]>,
    local_address: Option<&'a [u8]>,
    /// Connected for at least this many seconds.
    age_s: Option<u64>,
    skip_me: bool,
    kind: Kind,
}

impl Filter<'_> {
    fn takes(&self, client: &Arc<Client>, me: u64, now_ms: u64) -> bool {
        let is = |text: Option<&[u8]>, address: std::net::SocketAddr| {
            text.is_none_or(|text| text == address.to_string().as_bytes())
        };
        let age_s = now_ms.saturating_sub(client.connected_at_ms) / 1000;
        let spared = !self.kind.includes(client) || (self.skip_me && client.id == me);
        !spared
            && self.id.is_none_or(|id| id == client.id)
            && self.age_s.is_none_or(|least| age_s >= least)
            && is(self.address, client.address)
            && is(self.local_address, client.local_address)
    }
}

/// A type of clients, as CLIENT LIST and CLIENT KILL name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Any,
    /// Without subscriptions. Clients that send MONITOR are normal, too.
    Normal,
    /// With subscriptions.
    Subscriber,
    /// No client has this type.
    None,
}

impl Kind {
    fn of(word: &[u8]) -> Result<Kind, Failure> {
        match word.to_ascii_lowercase().as_slice() {
            b"normal" => Ok(Kind::Normal),
            b"pubsub" => Ok(Kind::Subscriber),
            b"master" | b"replica" | b"slave" => Ok(Kind::None),
            _ => Err(Failure::quoting("ERR Unknown client type '", word, "'")),
        }
    }

    fn includes(self, client: &Client) -> bool {
        let is_subscriber = || client.subscriptions.iter().any(|count| count.load(Relaxed) > 0);
        match self {
            Kind::Any => true,
            Kind::Normal => !is_subscriber(),
            Kind::Subscriber => is_subscriber(),
            Kind::None => false,
        }
    }
}

fn switch(word: &[u8]) -> Result<bool, Failure> {
    match word.to_ascii_lowercase().as_slice() {
        b"on" => Ok(true),
        b"off" => Ok(false),
        _ => Err(SYNTAX),
    }
}

/// One client's line with every field of Redis; fields without a meaning here have a neutral value.
fn line(client: &Client, commands: &[&str], now_ms: u64, text: &mut Vec<u8>) {
    let since_s = |at_ms: u64| now_ms.saturating_sub(at_ms) / 1000;
    let queued = client.queued.load(Relaxed);
    let output = client.output_bytes.load(Relaxed);
    let input = client.input_bytes.load(Relaxed);
    let command = commands.get(client.last_command.load(Relaxed)).unwrap_or(&"NULL");
    let subscriptions = Topic::ALL.map(|topic| client.subscriptions[topic as usize].load(Relaxed));
    let [channels, patterns, shards] = subscriptions;
    let names = names(client);
    // Writing to a vector does not fail.
    let _ = write!(
        text,
        "id={} addr={} laddr={} fd={} name=",
        client.id, client.address, client.local_address, client.fd
    );
    text.extend_from_slice(&names.name);
    let _ = write!(
        text,
        " age={} idle={} flags=",
        since_s(client.connected_at_ms),
        since_s(client.active_at_ms.load(Relaxed)),
    );
    let begin = text.len();
    let [is_tracking, is_broadcast, is_broken] =
        [0, 1, 2].map(|at: usize| client.tracking[at].load(Relaxed));
    for (flag, set) in [
        (b'O', client.is_monitor.load(Relaxed)),
        (b'P', subscriptions.iter().any(|count| *count > 0)),
        (b'x', queued != usize::MAX),
        (b't', is_tracking),
        (b'R', is_broken),
        (b'B', is_broadcast),
        (b'c', client.killed.load(Relaxed)),
        (b'e', client.no_evict.load(Relaxed)),
    ] {
        text.extend(set.then_some(flag));
    }
    if text.len() == begin {
        text.push(b'N');
    }
    let _ = write!(
        text,
        " db={} sub={channels} psub={patterns} ssub={shards} multi={} watch={} qbuf={input} \
         qbuf-free=0 argv-mem=0 \
         multi-mem=0 rbs=0 rbp=0 obl={output} oll=0 omem=0 tot-mem={} events=r cmd={command} \
         user={USER} redir={} resp={} lib-name=",
        client.database.load(Relaxed),
        i64::try_from(queued).unwrap_or(-1),
        client.watched.load(Relaxed),
        client.held_bytes.load(Relaxed).max((input + output) as u64),
        if is_tracking { client.redirect.load(Relaxed).cast_signed() } else { -1 },
        client.resp_version.load(Relaxed),
    );
    text.extend_from_slice(&names.library);
    text.extend_from_slice(b" lib-ver=");
    text.extend_from_slice(&names.library_version);
    text.push(b'\n');
}
