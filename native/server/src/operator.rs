//! What an operator does with the requests of all clients: MONITOR and CLIENT PAUSE.

use crate::frame::Frame;
use crate::invalidations::Recipients;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use todana_protocol::Tracker;
use todana_resp::Hold;

/// Maximum bytes of lines that a loop has to deliver.
pub(crate) const WAITING_BYTES_MAX: usize = 16 << 20;

/// The clients that receive all commands, and how requests are held back.
#[derive(Debug, Default)]
pub(crate) struct Operator {
    monitors: Mutex<Vec<Tracker>>,
    count: AtomicUsize,
    /// 0 if no request is held back.
    held_until_ms: AtomicU64,
    holds_writes_only: AtomicBool,
}

/// A command that was executed, as the clients receive it.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) frame: Frame,
    pub(crate) recipients: Recipients,
}

impl Line {
    pub(crate) fn bytes(&self) -> usize {
        self.frame.resp3.len() + self.recipients.bytes()
    }
}

impl Operator {
    /// Whether a client receives all commands.
    #[inline]
    pub(crate) fn is_monitored(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// Calls `send` with a line and the clients that receive it. Lines are sent one after the
    /// other, so that each loop receives them in their order.
    pub(crate) fn each_line(&self, line: Vec<u8>, send: impl FnOnce(Arc<Line>)) {
        let monitors = self.monitors.lock().unwrap_or_else(PoisonError::into_inner);
        let recipients = Recipients::new(monitors.clone());
        send(Arc::new(Line { frame: Frame::line(line), recipients }));
    }

    /// Adds or removes a client that receives all commands.
    pub(crate) fn set_monitor(&self, monitor: Tracker, is_on: bool) {
        let mut monitors = self.monitors.lock().unwrap_or_else(PoisonError::into_inner);
        match (monitors.binary_search(&monitor), is_on) {
            (Err(at), true) => monitors.insert(at, monitor),
            (Ok(at), false) => drop(monitors.remove(at)),
            _ => {}
        }
        self.count.store(monitors.len(), Relaxed);
    }

    /// Until when a request waits, if it does.
    #[inline]
    pub(crate) fn held_until_ms(&self, may_write: bool, now_ms: u64) -> Option<u64> {
        match self.held_until_ms.load(Relaxed) {
            0 => None,
            until_ms => {
                let holds = may_write || !self.holds_writes_only.load(Relaxed);
                (holds && now_ms < until_ms).then_some(until_ms)
            }
        }
    }

    /// Whether requests may be held back, or were not long ago.
    pub(crate) fn has_held(&self) -> bool {
        self.held_until_ms.load(Relaxed) != 0
    }

    /// Holds requests back. As in Redis, a hold is never shortened, nor limited to writes, by
    /// another one.
    pub(crate) fn hold(&self, hold: Option<Hold>, now_ms: u64) {
        let Some(Hold { until_ms, writes_only }) = hold else {
            return self.held_until_ms.store(0, Relaxed);
        };
        let holds_all =
            self.held_until_ms(false, now_ms).is_some() && !self.holds_writes_only.load(Relaxed);
        self.holds_writes_only.store(writes_only && !holds_all, Relaxed);
        if now_ms < self.held_until_ms.load(Relaxed) {
            self.held_until_ms.fetch_max(until_ms, Relaxed);
        } else {
            self.held_until_ms.store(until_ms, Relaxed);
        }
    }
}
