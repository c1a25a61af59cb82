//! The clients of the server.

use super::ProtocolName;
use crate::commit::ReadLevel;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};

/// All clients of the server.
pub trait Clients {
    /// All clients, in the order of their ids.
    fn clients(&self) -> Vec<Arc<Client>>;
    /// The first `count` clients whose ids are above `id`.
    fn clients_after(&self, id: u64, count: usize) -> Vec<Arc<Client>>;
    /// Whether there is a client of this id.
    fn has_client(&self, id: u64) -> bool;
    /// Asks the loop that owns this client to close it. False if there is no such client.
    fn kill(&self, id: u64) -> bool;
}

/// A connected client, as the server knows it. Shared between its loop and commands that list
/// clients.
#[derive(Debug)]
pub struct Client {
    /// Unique during the life of the server, increasing, from 1.
    pub id: u64,
    /// Its protocol.
    pub protocol: ProtocolName,
    /// [`Service::redirects`] of its listener.
    pub redirects: bool,
    /// [`Service::read_level`] of its listener.
    pub read_level: Option<ReadLevel>,
    /// Its address.
    pub address: SocketAddr,
    /// The address it connected to.
    pub local_address: SocketAddr,
    /// The socket's descriptor number.
    pub fd: i32,
    /// When it connected, in milliseconds since the Unix epoch.
    pub connected_at_ms: u64,
    /// When it last sent something, in milliseconds since the Unix epoch.
    pub active_at_ms: AtomicU64,
    /// Selected database.
    pub database: AtomicUsize,
    /// Index of its last command in the protocol's table; `usize::MAX` before the first.
    pub last_command: AtomicUsize,
    /// RESP version, 2 or 3.
    pub resp_version: AtomicUsize,
    /// Commands queued by MULTI; `usize::MAX` outside of MULTI.
    pub queued: AtomicUsize,
    /// Keys watched.
    pub watched: AtomicUsize,
    /// Bytes of unparsed input it holds.
    pub input_bytes: AtomicUsize,
    /// Bytes of output waiting for it.
    pub output_bytes: AtomicUsize,
    /// Bytes that the server holds for it: buffers, and the state of its session.
    pub held_bytes: AtomicU64,
    /// Bytes that it held when it was chosen to be closed for the memory of all clients; otherwise
    /// 0.
    pub evicted_bytes: AtomicU64,
    /// Bytes received and sent.
    pub traffic_bytes: [AtomicU64; 2],
    /// `CLIENT NO-EVICT`.
    pub no_evict: AtomicBool,
    /// Whether a request of it is held back by `CLIENT PAUSE`.
    pub is_held: AtomicBool,
    /// Whether it receives all commands.
    pub is_monitor: AtomicBool,
    /// Whether keys are tracked for it, whether it has a broadcast mode, and whether the client to
    /// which it redirects has left.
    pub tracking: [AtomicBool; 3],
    /// The client to which it redirects; 0 for none.
    pub redirect: AtomicU64,
    /// Number of its subscriptions, by the topics of RESP: channels, patterns, sharded channels.
    pub subscriptions: [AtomicUsize; 3],
    /// Set by `kill`.
    pub killed: AtomicBool,
    /// Names that the client has given itself.
    pub names: Mutex<ClientNames>,
}

/// Names that a client has given itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientNames {
    /// `CLIENT SETNAME`.
    pub name: Vec<u8>,
    /// `CLIENT SETINFO LIB-NAME`.
    pub library: Vec<u8>,
    /// `CLIENT SETINFO LIB-VER`.
    pub library_version: Vec<u8>,
}
