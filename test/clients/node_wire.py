"""The handshake between Erlang nodes, as a program without the cookie can do it."""

from __future__ import annotations

import re
import socket
import struct
import subprocess

import three_nodes

# What OTP's nodes can do, without the names that the other side invents.
FLAGS = 0x5_07FF_FFFF
TIMEOUT_S = 60


class Stranger:
    """A program that says a node's name, and does not know the cookie."""

    def __init__(self, port, name):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        text = name.encode()
        self.send(b"N" + struct.pack(">QIH", FLAGS, 1, len(text)) + text)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, message):
        """Sends a message of the handshake."""
        self.socket.sendall(struct.pack(">H", len(message)) + message)

    def receive(self) -> bytes:
        """The next message, or nothing if the node has closed the connection."""
        try:
            head = self.exactly(2)
            return self.exactly(struct.unpack(">H", head)[0])
        except OSError:
            return b""

    def exactly(self, size) -> bytes:
        """This number of bytes."""
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise OSError("closed")
            data += part
        return data

    def is_known(self) -> bool:
        """Whether the node has taken the name."""
        return self.receive().startswith(b"s")


def distribution_port(environment, name) -> int:
    """The port of a node, as epmd knows it; 0 before it is there."""
    listed = subprocess.run([three_nodes.epmd_program(), "-port", environment["ERL_EPMD_PORT"], "-names"], capture_output=True, text=True)
    found = re.search(rf"name {name} at port (\d+)", listed.stdout)
    return int(found.group(1)) if found else 0
