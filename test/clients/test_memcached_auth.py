"""Text authentication: the first command is a `set` whose data is `user password`."""

import pytest

import wire
from fixtures import PASSWORD

pytestmark = pytest.mark.one_backend


@pytest.fixture
def stranger(guarded):
    """A connection that has not authenticated."""
    with wire.Memcached(guarded.memcached) as connection:
        yield connection


def authenticate(connection, text):
    """Sends the authentication command."""
    return connection.command("set any_key 0 0 %d" % len(text), text)


@pytest.mark.parametrize("line", ["get k", "delete k", "incr k 1", "touch k 1", "flush_all", "mg k", "md k", "mn", "stats", "version"])
def test_nothing_before_authentication(stranger, line):
    """Every other command is refused."""
    assert stranger.command(line).startswith(b"CLIENT_ERROR")


def test_the_right_password(stranger):
    """After STORED, all commands are available; the authentication itself stores nothing."""
    assert authenticate(stranger, f"default {PASSWORD}") == b"STORED"
    stranger.talk(b"get any_key\r\n", b"END\r\n")
    assert stranger.command("set k 0 0 1", "v") == b"STORED"


@pytest.mark.parametrize(
    "text", ["default wrong", f"default {PASSWORD[:-1]}", f"default {PASSWORD}x", "default ", "default", " "]
)
def test_a_wrong_password(stranger, text):
    """Anything else is a failure, and the client remains unauthenticated."""
    answer = authenticate(stranger, text)
    assert answer in (b"CLIENT_ERROR authentication failure", b"CLIENT_ERROR bad authentication token format")
    try:
        assert stranger.command("get any_key").startswith(b"CLIENT_ERROR")
    except (wire.Closed, OSError):
        pass


def test_authentication_in_pieces(stranger):
    """The authentication may arrive byte by byte."""
    text = f"default {PASSWORD}"
    for byte in b"set a 0 0 %d\r\n%s\r\n" % (len(text), text.encode()):
        stranger.send(bytes([byte]))
    stranger.hear(b"STORED\r\n")


def test_a_huge_authentication_is_cut_off(guarded):
    """An unauthenticated client cannot make the server hold much memory."""
    with wire.Memcached(guarded.memcached) as stranger:
        try:
            stranger.send(b"set a 0 0 1000000\r\n" + b"x" * 1_000_000 + b"\r\n")
        except OSError:
            pass
        answer = stranger.rest() if stranger.is_closed() else bytes(stranger.buffer)
        assert b"STORED" not in answer


def test_each_connection_authenticates(guarded):
    """Authentication applies to one connection."""
    with wire.Memcached(guarded.memcached) as first, wire.Memcached(guarded.memcached) as second:
        assert authenticate(first, f"default {PASSWORD}") == b"STORED"
        assert second.command("get k").startswith(b"CLIENT_ERROR")
