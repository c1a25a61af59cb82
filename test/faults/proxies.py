"""The network between the nodes without root: connections of nodes go through this process.

Each node has a port mapper of its own, which Erlang calls epmd. It answers with the port of a proxy instead of that of the
other node. A link with a fault holds bytes back, or passes them on late. Bytes of a connection are never lost, as TCP
promises: a lost packet is a pause. What a cut link holds back arrives when it is healed, unless the connection was closed.
"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
import time

from network import Link

ALIVE, ALIVE_ANSWER, PORT_PLEASE, PORT_ANSWER, NAMES = 120, 118, 122, 119, 110
CHUNK_BYTES = 1 << 16
POLL_S = 0.02
# How long a lost packet stays away, about as long as TCP waits until it repeats one.
REPEATED_S = 0.25


class PortMapper:
    """Answers one node's questions for the ports of all nodes."""

    def __init__(self, proxies, host, port):
        self.proxies, self.host = proxies, host
        self.listeners = [socket.create_server((address, port)) for address in ("127.0.0.1", *proxies.hosts)]
        for listener in self.listeners:
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def _accept(self, listener):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=(listener.accept()[0],), daemon=True).start()

    def _serve(self, connection):
        with connection, contextlib.suppress(OSError, EOFError, struct.error):
            request = _take(connection, struct.unpack(">H", _take(connection, 2))[0])
            if request[0] == ALIVE:
                port, _, _, _, _, length = struct.unpack_from(">HBBHHH", request, 1)
                self.proxies.registered(self.host, request[11 : 11 + length].decode(), port)
                connection.sendall(struct.pack(">BBI", ALIVE_ANSWER, 0, self.proxies.creation()))
                # The name is known as long as the connection is open.
                connection.recv(1)
                self.proxies.forgotten(self.host, port)
            elif request[0] == PORT_PLEASE:
                name = request[1:]
                port = self.proxies.port(self.host, name.decode())
                if port is None:
                    connection.sendall(bytes((PORT_ANSWER, 1)))
                else:
                    connection.sendall(struct.pack(">BBHBBHHH", PORT_ANSWER, 0, port, 77, 0, 6, 5, len(name)) + name + bytes(2))
            elif request[0] == NAMES:
                connection.sendall(struct.pack(">I", connection.getsockname()[1]))

    def close(self):
        """Ends the service."""
        for listener in self.listeners:
            listener.close()


def _take(connection, count) -> bytes:
    """Exactly this number of bytes."""
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


class Proxies:
    """Links between nodes, with the same interface as network.Network."""

    def __init__(self, hosts, free_port, seed=0):
        self.hosts = list(hosts)
        self.dropped = self.forwarded = 0
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._links, self._real, self._names, self._creations = {}, {}, {}, 0
        self._listeners, self._connections = {}, set()
        for source in self.hosts:
            for target in self.hosts:
                if source != target:
                    listener = socket.create_server((target, 0))
                    self._listeners[source, target] = listener
                    threading.Thread(target=self._accept, args=(source, target, listener), daemon=True).start()
        self.mapper_ports = {host: free_port() for host in self.hosts}
        self._mappers = [PortMapper(self, host, port) for host, port in self.mapper_ports.items()]

    # For the port mappers.

    def registered(self, host, name, port):
        """A node listens."""
        with self._lock:
            self._real[host], self._names[name] = port, host

    def forgotten(self, host, port):
        """A node has ended."""
        with self._lock:
            if self._real.get(host) == port:
                del self._real[host]

    def creation(self) -> int:
        """A number that no node had before."""
        with self._lock:
            self._creations += 1
            return self._creations + 3

    def port(self, source, name):
        """Where a node reaches another one, or itself."""
        with self._lock:
            target = self._names.get(name)
            if target not in self._real:
                return None
            if target == source:
                return self._real[target]
            return self._listeners[source, target].getsockname()[1]

    # As in network.Network.

    def set(self, source, target, link):
        """Gives a link a fault, or none with None."""
        with self._lock:
            self._links.pop((source, target), None)
            if link is not None:
                self._links[source, target] = link

    def heal(self):
        """All links work again."""
        with self._lock:
            self._links.clear()

    def close(self):
        """Ends everything."""
        self.heal()
        for mapper in self._mappers:
            mapper.close()
        for listener in self._listeners.values():
            listener.close()
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
                connection.close()

    # The connections.

    def _link(self, source, target) -> Link:
        with self._lock:
            return self._links.get((source, target), Link())

    def _wait_until_open(self, source, target):
        """Returns when the link is not cut."""
        was_cut = False
        while self._link(source, target).loss >= 1:
            was_cut = True
            time.sleep(POLL_S)
        self.dropped += was_cut

    def _accept(self, source, target, listener):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._join, args=(source, target, listener.accept()[0]), daemon=True).start()

    def _join(self, source, target, near):
        """One connection from its beginning, which needs both directions."""
        self._wait_until_open(source, target)
        self._wait_until_open(target, source)
        try:
            far = socket.create_connection((target, self._real[target]), 5)
        except (OSError, KeyError):
            near.close()
            return
        for connection in (near, far):
            connection.settimeout(None)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections.add(connection)
        threading.Thread(target=self._carry, args=(source, target, near, far), daemon=True).start()
        self._carry(target, source, far, near)

    def _carry(self, source, target, near, far):
        """One direction of a connection. The end of it passes a cut link no sooner than its bytes."""
        with contextlib.suppress(OSError):
            while data := near.recv(CHUNK_BYTES):
                self._wait_until_open(source, target)
                link = self._link(source, target)
                pause_s = link.delay_s + self._random.random() * link.jitter_s + (REPEATED_S if self._random.random() < link.loss else 0)
                if pause_s:
                    self.forwarded += 1
                    time.sleep(pause_s)
                far.sendall(data)
        self._wait_until_open(source, target)
        for connection in (near, far):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
            self._connections.discard(connection)
