//! A running server.

use crate::balance::Balance;
use crate::clients_memory::default_limit_bytes;
use crate::clock::wall_ms;
use crate::commits;
use crate::config::CONNECTIONS_MAX;
use crate::door::{Door, ProtocolDoor};
use crate::event_loop::{EventLoop, LISTENERS_MAX};
use crate::inbox::{Inbox, Message, Waker};
use crate::listener::{self, Listener};
use crate::listening::Listeners;
use crate::memory::{self, ProcessUsage};
use crate::node_log;
use crate::password::Secret;
use crate::poller::{self, Poller};
use crate::questions::Questions;
use crate::sending;
use crate::shared::{LoopPart, Shared};
use crate::start_error::StartError;
use crate::statistics::LoopStatistics;
use crate::{Backend, Config, LoopBalance};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use todana_group::Follow;
use todana_protocol::{CommandStats, ProtocolName, ServerInfo, Service, Watching};
use todana_resp::{Answer, Topic};

/// With `select`, the number of descriptors that the process needs for other purposes than
/// connections.
const SELECT_RESERVE: usize = 64;

/// A running server. Dropping it stops it.
#[derive(Debug)]
pub struct Server {
    pub(crate) shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Server {
    /// Binds all listeners and starts the loops. If it fails, nothing remains.
    pub fn start(config: Config) -> Result<Server, StartError> {
        Server::start_with::<ProtocolDoor>(config, poller::open)
    }

    pub(crate) fn start_with<D: Door>(
        config: Config,
        open: fn(Backend) -> io::Result<Box<dyn Poller>>,
    ) -> Result<Server, StartError> {
        let ceiling = check(&config)?;
        if config.clients_memory_limit.get().is_none() {
            let limit = default_limit_bytes(memory::available_bytes());
            config.clients_memory_limit.set(Some(limit));
        }
        let listeners = config.listeners.iter();
        let listeners: Vec<Listener> = listeners
            .map(|(service, address)| Listener::bind(*service, *address))
            .collect::<Result<_, _>>()?;
        let loops = event_loops(&config);
        let mut parts = Vec::with_capacity(loops);
        let mut ends = Vec::with_capacity(loops);
        for _ in 0..loops {
            let (part, waker, poller) = open_loop(config.event_backend, open)
                .map_err(|error| cannot("start an event loop", &error))?;
            parts.push(part);
            ends.push((waker, poller));
        }
        let shared = Arc::new_cyclic(|myself| Shared {
            addresses: listeners.iter().map(|l| (l.service, l.address)).collect(),
            connections_ceiling: ceiling,
            clients: Default::default(),
            waiters: Default::default(),
            questions: Questions::new(wall_ms()),
            listeners: Listeners::new(
                Watching::new(config.databases.clone(), sending::observers(myself.clone())),
                config.homes.clone(),
                config.keeper.clone(),
            ),
            loops: parts,
            balance: Balance::new(is_by_load(&config)),
            backend_name: ends[0].1.name(),
            slow_log: Default::default(),
            run_id: run_id(),
            started_at_ms: wall_ms(),
            commands_per_second: 0.into(),
            seconds_rest: false.into(),
            clients_peak_bytes: 0.into(),
            traffic_per_second: Default::default(),
            startup_bytes: startup_bytes(&config),
            evicting_bytes: 0.into(),
            guesses: Default::default(),
            work_place: Default::default(),
            secret: Secret::new(config.password.clone()),
            failures_elsewhere: 0.into(),
            baseline: Default::default(),
            prefixes: Default::default(),
            durable: commits::has_durable_databases(&config),
            config,
        });
        let follower: Weak<dyn Follow> = Arc::downgrade(&shared) as Weak<dyn Follow>;
        shared.listeners.each_following(|it| it.follow(follower.clone()));
        let mut listeners = Some(listeners);
        let mut event_loops = Vec::with_capacity(loops);
        for (number, (waker, poller)) in ends.into_iter().enumerate() {
            let listeners = listeners.take().unwrap_or_default();
            let event_loop = EventLoop::<D>::new(number, shared.clone(), poller, waker, listeners)
                .map_err(|error| cannot("watch the listening sockets", &error))?;
            event_loops.push(event_loop);
        }
        // From here on a failure stops what was started, by dropping the server.
        let server = Server { shared, threads: Mutex::default() };
        for (number, event_loop) in event_loops.into_iter().enumerate() {
            let thread =
                spawn(number, event_loop).map_err(|error| cannot("start a thread", &error))?;
            server.threads().push(thread);
        }
        Ok(server)
    }

    fn threads(&self) -> std::sync::MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers the question of this number, if its client still waits.
    pub fn answer(&self, number: u64, answer: Answer) {
        self.shared.answer(number, answer);
    }

    /// Clients that wait until other nodes know of their subscriptions ask again
    /// ([`Keeper::announce`](crate::Keeper::announce)).
    pub fn wake_subscribers(&self) {
        self.shared.wake_subscribers();
    }

    /// Answers all questions that were asked with an error: nobody else will.
    pub fn fail_questions(&self, text: &str) {
        self.shared.fail_questions(text);
    }

    /// The bound addresses, in the order of `Config::listeners`.
    pub fn addresses(&self) -> &[(Service, SocketAddr)] {
        &self.shared.addresses
    }

    /// Closes listeners and clients, stops the loops and joins their threads. Safe to call twice.
    ///
    /// Clients have a quarter of a second to receive replies that were already made.
    pub fn stop(&self) {
        self.shared.listeners.watching.stop();
        let mut threads = self.threads();
        for part in &self.shared.loops {
            part.inbox.send(Message::Stop);
        }
        for thread in threads.drain(..) {
            // A loop that stops its own server ends after this call.
            if thread.thread().id() != thread::current().id() {
                let _ = thread.join();
            }
        }
        self.shared.loops.iter().for_each(|part| part.inbox.close_adopted());
    }

    /// Sends a message that was published on another node to the subscribers of this one, or drops
    /// it if they have too much to take.
    pub fn publish(&self, topic: Topic, channel: &[u8], message: &[u8]) {
        self.shared.publish_or_drop(topic, channel, message);
    }

    /// Figures of the server, summed over its loops.
    pub fn info(&self) -> ServerInfo {
        self.shared.info()
    }

    /// Statistics of each command of a protocol, by index into its table.
    pub fn command_stats(&self, protocol: ProtocolName) -> Vec<CommandStats> {
        self.shared.totals_since_reset().command_stats(protocol)
    }

    /// Turns of connections that panicked. These connections were closed; any number but 0 is a bug
    /// in Todana.
    pub fn panics(&self) -> u64 {
        self.shared.loops.iter().map(|part| part.statistics.panics.get()).sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn cannot(what: &str, error: &io::Error) -> StartError {
    StartError(format!("cannot {what}: {}", listener::in_words(error)))
}

/// Refuses configurations that cannot work. Returns how many connections could be allowed at run
/// time.
fn check(config: &Config) -> Result<usize, StartError> {
    listener::check_exposure(config)?;
    if config.listeners.len() > LISTENERS_MAX {
        let given = config.listeners.len();
        return Err(StartError(format!("{given} listeners exceed the maximum of {LISTENERS_MAX}")));
    }
    if config.connections_max.get() == 0 {
        return Err(StartError("the maximum number of connections must not be 0".into()));
    }
    if config.event_backend != Backend::Select {
        return Ok(CONNECTIONS_MAX as usize);
    }
    let ceiling = poller::SELECT_DESCRIPTORS_MAX - SELECT_RESERVE;
    if config.connections_max.get() > ceiling {
        let max = config.connections_max.get();
        return Err(StartError(format!(
            "the event back end select serves at most {ceiling} connections, but the \
             configured maximum is {max}"
        )));
    }
    Ok(ceiling)
}

fn event_loops(config: &Config) -> usize {
    let loops = config.event_loops.filter(|loops| *loops > 0);
    loops.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from)).min(1_024)
}

/// Whether connections gather on as few loops as the load needs. With `poll` and `select`, each
/// wait costs more with every connection of the loop.
fn is_by_load(config: &Config) -> bool {
    let is_cheap = matches!(config.event_backend, Backend::Native | Backend::Portable);
    is_cheap && config.event_loop_balance == LoopBalance::Load
}

fn open_loop(
    backend: Backend,
    open: fn(Backend) -> io::Result<Box<dyn Poller>>,
) -> io::Result<(LoopPart, Waker, Box<dyn Poller>)> {
    let (inbox, waker) = Inbox::open()?;
    let part = LoopPart {
        inbox,
        statistics: LoopStatistics::new(),
        connections: 0.into(),
        load: 0.into(),
        waiting_bytes: 0.into(),
        invalidation_bytes: 0.into(),
        redirected_bytes: 0.into(),
        line_bytes: 0.into(),
        invalidates_all: false.into(),
    };
    Ok((part, waker, open(backend)?))
}

/// Starts a loop's thread with signals blocked: they belong to the surrounding process (the Erlang
/// node).
fn spawn<D: Door>(number: usize, event_loop: EventLoop<D>) -> io::Result<JoinHandle<()>> {
    let mut blocked = SigSet::all();
    // These concern the thread itself, and blocking them would only hide a crash.
    for signal in [Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGFPE, Signal::SIGILL] {
        blocked.remove(signal);
    }
    // The mask is inherited: there is no moment at which the new thread could be interrupted.
    let before = blocked.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let thread = thread::Builder::new().name(format!("todana-loop-{number}")).spawn(move || {
        if catch_unwind(AssertUnwindSafe(|| event_loop.run())).is_err() {
            node_log::error!("event loop {number} panicked and has ended");
        }
    });
    before.thread_set_mask()?;
    thread
}

/// What the process holds now, without the records that there are already.
fn startup_bytes(config: &Config) -> u64 {
    let counts = config.databases.tables().iter().map(|table| table.counts());
    let records: u64 = counts.map(|counts| counts.bytes + counts.index_bytes).sum();
    ProcessUsage::now().resident_bytes.saturating_sub(records)
}

/// 40 random hex digits, from the seeds of the standard library's hash maps.
fn run_id() -> String {
    let word = || RandomState::new().hash_one(wall_ms());
    format!("{:016x}{:016x}{:08x}", word(), word(), word() as u32)
}
