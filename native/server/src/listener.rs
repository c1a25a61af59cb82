//! Listening sockets: bound before any thread starts, served by loop 0.

use crate::{Config, StartError};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;
use todana_protocol::Service;

/// Connections that the system completes before we accept them. The system has its own limit.
const BACKLOG: i32 = 1_024;

/// A bound socket.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: TcpListener,
    pub(crate) service: Service,
    pub(crate) address: SocketAddr,
}

impl Listener {
    /// Binds, or returns one sentence that says why not.
    pub(crate) fn bind(service: Service, address: SocketAddr) -> Result<Self, StartError> {
        let socket = bound(address).map_err(|error| {
            StartError(format!("cannot listen on {address}: {}", in_words(&error)))
        })?;
        let address = socket.local_addr().unwrap_or(address);
        Ok(Listener { socket, service, address })
    }

    /// The local address of a connection to this listener.
    pub(crate) fn local_address(&self, socket: &TcpStream) -> SocketAddr {
        match self.address.ip().is_unspecified() {
            true => socket.local_addr().unwrap_or(self.address),
            false => self.address,
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn bound(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // `[::]` and `0.0.0.0` are separate listeners on every system.
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// The text of a system error without its number.
pub(crate) fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "address already in use".into(),
        io::ErrorKind::AddrNotAvailable => "this machine has no such address".into(),
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        _ => {
            let text = error.to_string();
            let text = text.split(" (os error").next().unwrap_or_default();
            text.to_lowercase()
        }
    }
}

/// Without a password only this machine may connect.
pub(crate) fn check_exposure(config: &Config) -> Result<(), StartError> {
    let exposed = config.listeners.iter().find(|(_, address)| !is_loopback(address.ip()));
    match (exposed, &config.password) {
        (Some((_, address)), None) => Err(StartError(format!(
            "cannot listen on {address}: other machines could connect, and no password is set"
        ))),
        (Some((_, address)), Some(password)) if password.is_empty() => Err(StartError(format!(
            "cannot listen on {address}: other machines could connect, and the password is empty"
        ))),
        _ => Ok(()),
    }
}

fn is_loopback(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_loopback(),
        IpAddr::V6(ip) => {
            ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback())
        }
    }
}

/// Configures an accepted socket. If the system refuses an option, the client is served all the
/// same.
pub(crate) fn prepare(socket: &TcpStream, keepalive_s: Option<u32>) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    let _ = socket.set_nodelay(true);
    #[cfg(target_vendor = "apple")]
    SockRef::from(socket).set_nosigpipe(true)?;
    if let Some(seconds) = keepalive_s.filter(|seconds| *seconds > 0) {
        let time = Duration::from_secs(seconds.into());
        // Like Redis: three probes within another `seconds`.
        let interval = Duration::from_secs((seconds / 3).max(1).into());
        let keepalive = TcpKeepalive::new().with_time(time).with_interval(interval);
        #[cfg(not(any(target_os = "openbsd", target_os = "solaris")))]
        let keepalive = keepalive.with_retries(3);
        let _ = SockRef::from(socket).set_tcp_keepalive(&keepalive);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_addresses_count_as_local() {
        let loopback = ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"];
        let exposed = ["0.0.0.0", "::", "10.0.0.1", "::ffff:10.0.0.1", "fe80::1"];
        assert!(loopback.iter().all(|ip| is_loopback(ip.parse().unwrap())));
        assert!(exposed.iter().all(|ip| !is_loopback(ip.parse().unwrap())));
    }
}
