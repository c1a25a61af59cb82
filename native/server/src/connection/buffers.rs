//! The buffers that a connection keeps between turns, and how they are freed.

use super::outgoing::NO_SIGNAL;
use super::{CARRY_BYTES_MAX, Connection, INPUT_BYTES, LARGE_BYTES, Turn};
use crate::clock::Clock;
use crate::door::Door;
use crate::statistics::LoopStatistics;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering::Relaxed;
use todana_protocol::Splice;

/// A loop's output buffer that grew beyond this is freed after the turn.
const OUTPUT_BYTES_KEPT: usize = 1 << 20;

impl<D: Door> Connection<D> {
    /// Keeps the bytes after `consumed` in the loop's buffer for the next turn.
    pub(super) fn keep_input(&mut self, buffer: &[u8], consumed: usize) {
        let rest = &buffer[consumed..];
        self.input_start = 0;
        if rest.is_empty() {
            self.input = Vec::new();
        } else {
            self.input.clear();
            self.input.extend_from_slice(rest);
        }
    }

    /// Makes room in the connection's own buffer for the next receive: at least a byte, however
    /// little of the request is known to be missing.
    ///
    /// Memory follows what the client has sent, not what it announced. Address space for the known
    /// rest of a large request is reserved at once, because growing copies the present bytes. A
    /// request of which less is known, such as one of many arguments, grows by half of itself, so
    /// that its bytes are copied a few times at most.
    pub(super) fn make_room(&mut self, input_bytes_max: usize) {
        let (length, capacity) = (self.input.len(), self.input.capacity());
        if capacity - length >= self.wanted.clamp(1, CARRY_BYTES_MAX) {
            return;
        }
        // A request beyond the limit is refused when as many bytes have arrived.
        let left = input_bytes_max.saturating_sub(length).max(1);
        let more = self.wanted.max(length / 2).max(CARRY_BYTES_MAX).min(left);
        if length < LARGE_BYTES || self.input.try_reserve_exact(more).is_err() {
            self.input.reserve_exact(more.min(length.max(INPUT_BYTES)));
        }
    }

    /// Frees an empty buffer, and moves the remaining bytes to the front if the session waits for
    /// more of them.
    pub(super) fn trim_input(&mut self, compact: bool) {
        if self.input_start == self.input.len() {
            self.input = Vec::new();
            self.input_start = 0;
        } else if compact && self.input_start > 0 {
            self.input.drain(..self.input_start);
            self.input.shrink_to(self.input.len().max(CARRY_BYTES_MAX));
            self.input_start = 0;
        }
    }

    /// Sends the turn's output; the part that the socket does not accept waits.
    pub(super) fn deliver(
        &mut self,
        turn: &mut Turn<'_>,
        splices: &mut Vec<Splice>,
    ) -> Result<(), Errno> {
        if turn.output.is_empty() && splices.is_empty() {
            return Ok(());
        }
        let waited = self.waiting() > 0;
        if !splices.is_empty() {
            self.output.push_spliced(turn.output, splices);
            if !waited {
                self.flush(turn.statistics, turn.clock)?;
            }
        } else if waited {
            self.output.push(std::mem::take(turn.output), 0);
        } else {
            let sent = match rustix::net::send(&self.socket, turn.output, NO_SIGNAL) {
                Ok(sent) => sent,
                Err(Errno::AGAIN | Errno::INTR) => 0,
                Err(error) => return Err(error),
            };
            self.count_sent(sent, turn.statistics);
            if sent < turn.output.len() {
                self.output.push(std::mem::take(turn.output), sent);
            }
        }
        turn.output.clear();
        turn.output.shrink_to(OUTPUT_BYTES_KEPT);
        Ok(())
    }

    /// Sends waiting output.
    pub(super) fn flush(
        &mut self,
        statistics: &LoopStatistics,
        clock: &Clock,
    ) -> Result<(), Errno> {
        let sent = self.output.send(&self.socket)?;
        if sent > 0 {
            // A client that takes replies is not idle.
            self.client.active_at_ms.store(clock.wall_ms(), Relaxed);
        }
        if self.waiting() == 0 {
            self.over_soft_since_ms = 0;
        }
        self.count_sent(sent, statistics);
        Ok(())
    }

    fn count_sent(&self, sent: usize, statistics: &LoopStatistics) {
        statistics.output_bytes.add(sent as u64);
        statistics.sends.add(u64::from(sent > 0));
        let traffic = &self.client.traffic_bytes[1];
        traffic.store(traffic.load(Relaxed) + sent as u64, Relaxed);
    }

    /// Updates the loop's gauge and the client's own figures of what is held for it.
    pub(crate) fn note_held(&mut self, statistics: &LoopStatistics) {
        // The part of a buffer that was never written is not in memory.
        let input_bytes = self.input.capacity().min(self.input.len() * 2);
        let commit_bytes = self.commit.held_bytes();
        let pushes_bytes = self.pushes.held_bytes() + self.listening.held_bytes();
        let bytes = input_bytes
            + self.output.held_bytes()
            + pushes_bytes
            + self.session.held_bytes()
            + commit_bytes;
        let bytes = bytes as u64;
        if bytes == 0 && self.held_bytes == 0 {
            return;
        }
        self.report_held(statistics, bytes);
        self.client.input_bytes.store(self.input.len() - self.input_start, Relaxed);
        self.client.output_bytes.store(self.waiting(), Relaxed);
    }

    pub(super) fn report_held(&mut self, statistics: &LoopStatistics, bytes: u64) {
        let gauge = &statistics.held_bytes;
        gauge.set((gauge.get() + bytes).saturating_sub(self.held_bytes));
        self.held_bytes = bytes;
        self.client.held_bytes.store(bytes, Relaxed);
    }
}

/// Shuts down the sending side and receives what has arrived, without blocking and within a bound.
pub(crate) fn shut_down(socket: &TcpStream, buffer: &mut Vec<u8>) {
    let _ = socket.shutdown(Shutdown::Write);
    for _ in 0..16 {
        buffer.clear();
        let room = rustix::buffer::spare_capacity(buffer);
        match rustix::net::recv(socket, room, RecvFlags::DONTWAIT) {
            Ok((_, received)) if received > 0 => {}
            _ => break,
        }
    }
    buffer.clear();
}
