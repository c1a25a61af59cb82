//! Messages that the client has not requested, between its replies.

use super::{Asleep, Connection};
use crate::clock::Clock;
use crate::config::Config;
use crate::door::Door;
use crate::frame::Frame;
use crate::shared::Shared;
use crate::statistics::LoopStatistics;
use std::sync::atomic::Ordering::Relaxed;
use todana_command::cause::Writer;

/// From this length on, a message is not copied to the output of each subscriber.
const SHARED_BYTES_MIN: usize = 16 << 10;

/// The limits of a client's pending output.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutputLimits {
    pub(super) hard: usize,
    pub(super) soft: usize,
    pub(super) soft_ms: u64,
}

impl<D: Door> Connection<D> {
    /// The limits that apply to this client.
    pub(super) fn output_limits(&self, config: &Config) -> OutputLimits {
        if !self.listening.is_listener() {
            return OutputLimits {
                hard: config.output_bytes_hard,
                soft: config.output_bytes_soft,
                soft_ms: config.output_soft_ms,
            };
        }
        OutputLimits {
            hard: config.subscriber_output_bytes_hard,
            soft: config.subscriber_output_bytes_soft,
            soft_ms: config.subscriber_output_soft_ms,
        }
    }

    /// Appends a message to the output, or keeps it until the present reply is complete. Returns
    /// the number of bytes that were copied.
    pub(crate) fn push(&mut self, frame: &Frame) -> usize {
        if self.closing {
            return 0;
        }
        self.release_pushes();
        let output = match self.session.is_mid_reply() {
            true => &mut self.pushes,
            false => &mut self.output,
        };
        let (kind, bytes) = match (self.client.resp_version.load(Relaxed), &frame.resp2) {
            _ if frame.is_line => (b'+', &frame.resp3),
            (3, _) => (b'>', &frame.resp3),
            (_, Some(resp2)) => (b'*', resp2),
            (_, None) => (b'*', &frame.resp3),
        };
        if bytes.len() < SHARED_BYTES_MIN {
            output.push_bytes(kind, &bytes[1..]);
            return bytes.len();
        }
        output.push_bytes(kind, &[]);
        output.push_message(bytes.clone(), 1);
        0
    }

    /// Appends an invalidation. A client that uses RESP2 receives only those that others redirect
    /// to it, while it has subscriptions.
    pub(crate) fn push_invalidation(&mut self, frame: &Frame, is_redirected: bool) -> usize {
        let is_resp3 = self.client.resp_version.load(Relaxed) == 3;
        let is_subscriber = !self.listening.subscriptions.is_empty();
        match is_resp3 || is_redirected && is_subscriber {
            true => self.push(frame),
            false => 0,
        }
    }

    /// Whether the client wants the invalidation of a change by this writer.
    pub(crate) fn wants_invalidation(&self, place: (u32, u32), writer: Writer) -> bool {
        let is_own = |writer| match writer {
            Writer::Client(id) => id == self.client.id,
            Writer::Ticket { place: of, number } => {
                of == place && self.commit.is_last_ticket(number)
            }
            Writer::Unknown => false,
        };
        self.listening.wants_invalidation(is_own, writer)
    }

    /// The client to which invalidations are redirected has left.
    pub(crate) fn note_broken_redirection(&mut self) {
        self.listening.tracking.iter_mut().for_each(|tracking| tracking.is_broken = true);
        self.client.tracking[2].store(true, Relaxed);
    }

    /// Appends the messages that were kept, if no reply is in progress. True if there are some.
    pub(super) fn release_pushes(&mut self) -> bool {
        let has_some = self.pushes.len() > 0 && !self.session.is_mid_reply();
        if has_some {
            self.output.append(std::mem::take(&mut self.pushes));
        }
        has_some
    }

    /// Sends what was appended. False if the connection must be closed.
    pub(crate) fn send_pushes(
        &mut self,
        shared: &Shared,
        statistics: &LoopStatistics,
        clock: &Clock,
    ) -> bool {
        let is_mute = self.wakes_at_ns.is_some() && self.asleep == Asleep::Mute;
        if !is_mute && self.waiting() > 0 && self.flush(statistics, clock).is_err() {
            return false;
        }
        self.note_held(statistics);
        let is_within =
            self.waiting() + self.pushes.len() <= self.output_limits(&shared.config).hard;
        if !is_within {
            statistics.output_limit_disconnections.add(1);
        }
        is_within
    }
}
