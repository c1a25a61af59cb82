//! What a connection remembers from request to request.

use super::encoder::Encoder;
use super::flow::Flow;
use super::queue::{QueuedCommands, Watches};
use super::tail::Tail;
use crate::{Host, Publishing};
use std::sync::Arc;
use todana_command::Begun;
use todana_protocol::Next;

/// The state of a connection between requests.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) authenticated: bool,
    /// Whether the client has sent HELLO 3.
    pub(super) resp3: bool,
    /// Selected database.
    pub(super) database: usize,
    /// Whether the client has chosen a read level, so that its reads are not redirected.
    pub(super) reads_here: bool,
    /// `CLIENT REPLY OFF`.
    pub(super) silent: bool,
    /// `CLIENT REPLY SKIP`: the present request, or the next one, gets no reply.
    pub(super) skip_this: bool,
    pub(super) skip_next: bool,
    /// How keys that the client reads are tracked.
    pub(super) tracks: Option<Tracks>,
    /// Whether the client has subscriptions.
    pub(super) is_subscribed: bool,
    /// Commands queued since MULTI.
    pub(super) queued: Option<QueuedCommands>,
    pub(super) watches: Watches,
    /// Whether the session executes its own commands of a transaction, which must not wait.
    pub(super) is_in_exec: bool,
    /// The state of the request at the front of the input, if it has begun.
    pub(super) begun: Option<Unfinished>,
    /// Whether a request before the present one in this turn must be committed. Only commands on
    /// records may be handed over together with it.
    pub(super) rides: bool,
    /// The scripts that requests named which wait for the log.
    pub(super) scripts: Vec<(Vec<u8>, Arc<[u8]>)>,
    /// Nanoseconds that it has taken so far.
    pub(super) begun_ns: u64,
    /// The rest of the reply to a transaction, which precedes the input.
    pub(super) tail: Option<Tail>,
    pub(super) random: u64,
}

/// A request that continues in the next turn.
#[derive(Debug)]
pub(super) enum Unfinished {
    /// A command on records.
    Command(Begun),
    /// CLIENT LIST.
    Listing(Listing),
    /// A request that waits for the log.
    Saving(Saving),
    /// WAIT, until this time in milliseconds since the Unix epoch, or until enough other members
    /// have this entry.
    Waiting { until_ms: u64, index: u64, pause_ms: u64 },
    /// A question to Erlang, until this time in milliseconds since the Unix epoch, and whether it
    /// was asked.
    Asking { until_ms: u64, is_asked: bool },
    /// A request that CLIENT PAUSE holds back until this time in milliseconds since the Unix epoch.
    Held { until_ms: u64 },
    /// A script or a transaction that waits for the turn of its connection.
    Paused,
    /// SUBSCRIBE and its relatives, from this argument on; UNSUBSCRIBE from everything. It may wait
    /// until other nodes know of the next subscriptions.
    Subscribing { at: usize, waits: bool },
    /// PUBLISH, and whether it waits for subscribers.
    Publishing { begun: Publishing, is_full: bool },
    /// PUBSUB CHANNELS.
    Topics(TopicListing),
    /// A request that the log must commit. It is run again after that.
    Commit {
        /// Whether the next request may be handed over together with it.
        goes_on: bool,
    },
}

impl Unfinished {
    fn held_bytes(&self) -> usize {
        match self {
            Unfinished::Command(begun) => begun.held_bytes(),
            Unfinished::Listing(listing) => listing.held_bytes(),
            Unfinished::Publishing { begun, .. } => begun.held_bytes(),
            Unfinished::Topics(listing) => listing.held_bytes(),
            Unfinished::Saving(_)
            | Unfinished::Waiting { .. }
            | Unfinished::Asking { .. }
            | Unfinished::Held { .. }
            | Unfinished::Paused
            | Unfinished::Subscribing { .. }
            | Unfinished::Commit { .. } => 0,
        }
    }
}

/// A request that waits for the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Saving {
    /// Its number.
    pub(super) number: u64,
    /// When the client stops waiting, in milliseconds since the Unix epoch; 0 for never.
    pub(super) deadline_ms: u64,
}

/// Progress of CLIENT LIST: the length of its reply is known only when all clients are described.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// The last client that has been described, or has left.
    pub(super) after: u64,
    pub(super) text: Vec<u8>,
}

impl Listing {
    pub(super) fn held_bytes(&self) -> usize {
        self.text.capacity()
    }
}

/// Progress of PUBSUB CHANNELS: the length of its reply is known only at its end.
#[derive(Debug, Default)]
pub(super) struct TopicListing {
    /// The last name that was compared.
    pub(super) after: Option<Arc<[u8]>>,
    /// The names, encoded.
    pub(super) names: Vec<u8>,
    pub(super) count: usize,
}

impl TopicListing {
    pub(super) fn held_bytes(&self) -> usize {
        self.names.capacity()
    }
}

/// What the session must know of the mode for each read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tracks {
    pub(super) opt_in: bool,
    pub(super) opt_out: bool,
    /// `CLIENT CACHING` was called for the next command.
    pub(super) is_chosen: bool,
}

impl State {
    /// Bytes that it holds between turns.
    #[inline]
    pub(super) fn held_bytes(&self) -> usize {
        self.queued.as_ref().map_or(0, QueuedCommands::held_bytes)
            + self.watches.held_bytes()
            + self.begun.as_ref().map_or(0, Unfinished::held_bytes)
            + self.tail.as_ref().map_or(0, Tail::held_bytes)
    }

    /// The present request is not answered before the log has committed it.
    #[cold]
    pub(super) fn begins_commit(&mut self, goes_on: bool) -> Flow {
        self.begun = Some(Unfinished::Commit { goes_on });
        Flow::Continue
    }

    /// Writes the rest of a reply, as much as a turn may. Returns the next action unless that is
    /// the next request.
    pub(super) fn write_rest(
        &mut self,
        encoder: &mut Encoder<'_>,
        output_bytes_max: usize,
    ) -> Option<Next> {
        let tail = self.tail.as_mut()?;
        if !tail.write(encoder, output_bytes_max) {
            return Some(Next::Yield);
        }
        let then = tail.then;
        self.tail = None;
        then.ends()
    }

    /// A random number: xorshift, seeded with the client's number and the time.
    pub(super) fn random<H: Host>(&mut self, host: &H) -> u64 {
        if self.random == 0 {
            let id = host.client().id.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            self.random = (id ^ host.now_ms()) | 1;
        }
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}
