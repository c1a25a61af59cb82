"""Connection commands: AUTH, ECHO, HELLO, PING, QUIT, RESET, SELECT."""

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

import wire
from fixtures import PASSWORD
from wire import OK, QUEUED, Error, Status

NOAUTH = Error("NOAUTH Authentication required.")
WRONGPASS = Error("WRONGPASS invalid username-password pair or user is disabled.")


@pytest.fixture
def stranger(guarded):
    """A connection that has not authenticated."""
    with wire.Resp(guarded.resp) as connection:
        yield connection


def test_auth_without_a_password_configured(resp):
    """AUTH on a server without a password returns an error that explains this."""
    error = Error(
        "ERR AUTH <password> called without any password configured for the default user. "
        "Are you sure your configuration is correct?"
    )
    assert resp.call("AUTH", "x") == error
    assert resp.call("AUTH") == Error("ERR wrong number of arguments for 'auth' command")
    assert resp.call("AUTH", "a", "b", "c") == Error("ERR syntax error")


def test_auth_as_default_user_of_an_open_server(resp):
    """The default user of a server without a password accepts any password."""
    assert resp.call("AUTH", "default", "x") == OK
    assert resp.call("AUTH", "nobody", "x") == WRONGPASS


def test_echo(resp):
    """ECHO returns its argument."""
    resp.transcript("""
        ECHO hello => "hello"
        ECHO "" => ""
        ECHO => -ERR wrong number of arguments for 'echo' command
    """)


def test_hello_describes_the_server(resp):
    """HELLO returns properties of server and connection, as a flat list in RESP2."""
    answer = resp.call("HELLO")
    fields = dict(zip(answer[::2], answer[1::2]))
    assert list(fields) == [b"server", b"version", b"proto", b"id", b"mode", b"role", b"modules"]
    assert fields[b"server"] == b"redis"
    assert fields[b"proto"] == 2
    assert fields[b"mode"] == b"standalone"
    assert fields[b"role"] == b"master"
    assert fields[b"modules"] == []
    assert fields[b"id"] == resp.call("CLIENT", "ID")


def test_hello_3_answers_a_map(resp):
    """HELLO 3 switches the protocol before its reply; HELLO 2 switches back."""
    answer = resp.call("HELLO", 3)
    assert isinstance(answer, dict)
    assert answer[b"proto"] == 3
    assert resp.call("GET", "missing") is None
    answer = resp.call("HELLO", "2")
    assert isinstance(answer, list)
    assert answer[5] == 2


def test_hello_refuses_other_versions(resp):
    """The only versions are 2 and 3."""
    resp.transcript("""
        HELLO 1 => -NOPROTO unsupported protocol version
        HELLO 4 => -NOPROTO unsupported protocol version
        HELLO 99999999999 => -NOPROTO unsupported protocol version
        HELLO x => -ERR Protocol version is not an integer or out of range
        HELLO 3 FOO => -ERR Syntax error in HELLO option 'FOO'
        HELLO 3 AUTH a => -ERR Syntax error in HELLO option 'AUTH'
        HELLO 3 SETNAME => -ERR Syntax error in HELLO option 'SETNAME'
    """)


def test_hello_setname(resp):
    """HELLO may set the connection's name."""
    assert isinstance(resp.call("HELLO", 2, "SETNAME", "worker"), list)
    assert resp.call("CLIENT", "GETNAME") == b"worker"
    assert resp.call("HELLO", 2, "SETNAME", "two words") == Error(
        "ERR Client names cannot contain spaces, newlines or special characters."
    )


def test_ping(resp):
    """PING returns PONG, or its argument."""
    resp.transcript("""
        PING => +PONG
        PING hello => "hello"
        PING a b => -ERR wrong number of arguments for 'ping' command
    """)


def test_quit_answers_and_closes(resp):
    """QUIT is answered, then the server closes the connection; it does not execute later requests."""
    resp.send(b"SET a 1\r\nQUIT\r\nSET a 2\r\n")
    assert resp.rest() == b"+OK\r\n+OK\r\n"


def test_quit_runs_nothing_behind_it(resp, connect):
    """The server drops requests after QUIT."""
    resp.send(b"SET a 1\r\nQUIT\r\nSET a 2\r\n")
    resp.rest()
    assert connect.resp().call("GET", "a") == b"1"


def test_reset(resp):
    """RESET restores the initial state: RESP2, database 0, no name, no transaction, no watch."""
    resp.call("HELLO", 3, "SETNAME", "n")
    resp.call("SELECT", 3)
    resp.call("MULTI")
    assert resp.call("SET", "a", 1) == QUEUED
    assert resp.call("RESET") == Status("RESET")
    assert resp.call("CLIENT", "GETNAME") in (None, b"")
    resp.talk(b"GET missing\r\n", b"$-1\r\n")
    assert resp.call("EXEC") == Error("ERR EXEC without MULTI")
    assert resp.call("EXISTS", "a") == 0
    assert b" db=0 " in resp.call("CLIENT", "INFO")


def test_select(resp):
    """SELECT accepts databases 0 to 15."""
    resp.transcript("""
        SELECT 0 => +OK
        SELECT 15 => +OK
        SELECT 16 => -ERR DB index is out of range
        SELECT -1 => -ERR DB index is out of range
        SELECT x => -ERR value is not an integer or out of range
        SELECT => -ERR wrong number of arguments for 'select' command
    """)


@pytest.mark.one_backend
def test_nothing_before_authentication(stranger):
    """Without authentication, every command except AUTH, HELLO, QUIT and RESET is refused."""
    for words in (["GET", "a"], ["PING"], ["SET", "a", 1], ["INFO"], ["MULTI"], ["CLIENT", "LIST"], ["COMMAND"], ["SELECT", 1]):
        assert stranger.call(*words) == NOAUTH, words
    assert stranger.call("RESET") == Status("RESET")
    stranger.talk(b"QUIT\r\n", b"+OK\r\n")


@pytest.mark.one_backend
def test_unknown_commands_before_authentication(stranger):
    """As in Redis, an unauthenticated client learns whether a command exists, and nothing more."""
    assert stranger.call("FOO").text.startswith("ERR unknown command")


@pytest.mark.one_backend
def test_auth(stranger):
    """The password authenticates, alone or with the user default."""
    assert stranger.call("AUTH", "wrong") == WRONGPASS
    assert stranger.call("AUTH", "default", "wrong") == WRONGPASS
    assert stranger.call("AUTH", "nobody", PASSWORD) == WRONGPASS
    assert stranger.call("AUTH", PASSWORD[:-1]) == WRONGPASS
    assert stranger.call("AUTH", PASSWORD + " ") == WRONGPASS
    assert stranger.call("AUTH", "") == WRONGPASS
    assert stranger.call("GET", "a") == NOAUTH
    assert stranger.call("AUTH", PASSWORD) == OK
    assert stranger.call("GET", "a") is None
    assert stranger.call("AUTH", "default", PASSWORD) == OK


@pytest.mark.one_backend
def test_a_failed_auth_keeps_the_connection_authenticated(stranger):
    """A wrong password after the correct one is refused and changes nothing."""
    stranger.call("AUTH", PASSWORD)
    assert stranger.call("AUTH", "wrong") == WRONGPASS
    assert stranger.call("PING") == Status("PONG")


@pytest.mark.one_backend
def test_reset_forgets_authentication(stranger):
    """After RESET a client is unauthenticated."""
    stranger.call("AUTH", PASSWORD)
    assert stranger.call("RESET") == Status("RESET")
    assert stranger.call("GET", "a") == NOAUTH


@pytest.mark.one_backend
def test_hello_auth(stranger):
    """HELLO may authenticate; without a password, the error explains how."""
    error = stranger.call("HELLO", 3)
    assert error.text.startswith("NOAUTH HELLO must be called with the client already authenticated")
    assert stranger.call("HELLO", 3, "AUTH", "default", "wrong") == WRONGPASS
    assert stranger.call("GET", "a") == NOAUTH
    answer = stranger.call("HELLO", 3, "AUTH", "default", PASSWORD, "SETNAME", "me")
    assert answer[b"proto"] == 3
    assert stranger.call("CLIENT", "GETNAME") == b"me"


@pytest.mark.one_backend
def test_library_authentication(guarded):
    """redis-py with and without the password, in both protocol versions."""
    once = Retry(NoBackoff(), 0)
    for version in (2, 3):
        with redis.Redis(*guarded.resp, password=PASSWORD, protocol=version, retry=once) as client:
            assert client.ping() is True
        for password in ("wrong", None):
            with redis.Redis(*guarded.resp, password=password, protocol=version, retry=once) as client:
                with pytest.raises(redis.AuthenticationError):
                    client.ping()


def test_library_connection(client_of_either_version):
    """PING, ECHO and SELECT with redis-py."""
    client = client_of_either_version
    assert client.ping() is True
    assert client.echo("x") == b"x"
    host_port = client.connection_pool.connection_kwargs
    with redis.Redis(host_port["host"], host_port["port"], db=5) as fifth:
        fifth.set("a", 5)
    assert client.get("a") is None
