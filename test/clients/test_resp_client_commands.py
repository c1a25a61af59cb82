"""CLIENT and its subcommands."""

import pytest

from wire import OK, Error, Status, wait_until

BAD_NAME = Error("ERR Client names cannot contain spaces, newlines or special characters.")


def fields(line):
    """One row of CLIENT LIST as a dictionary."""
    return dict(field.split("=", 1) for field in line.decode().strip().split(" "))


def test_id_grows(resp, connect):
    """Every connection has its own number, and later ones have higher numbers."""
    first = resp.call("CLIENT", "ID")
    second = connect.resp().call("CLIENT", "ID")
    assert second > first
    assert resp.call("CLIENT", "ID") == first


def test_info(resp):
    """CLIENT INFO describes the connection that sends it."""
    resp.call("CLIENT", "SETNAME", "me")
    resp.call("SELECT", 3)
    own = fields(resp.call("CLIENT", "INFO"))
    assert own["id"] == str(resp.call("CLIENT", "ID"))
    assert own["name"] == "me"
    assert own["db"] == "3"
    assert own["cmd"] == "client|info"
    assert own["resp"] == "2"
    host, port = resp.socket.getsockname()
    assert own["addr"] == f"{host}:{port}"
    assert own["laddr"] == "%s:%d" % resp.socket.getpeername()
    assert own["user"] == "default"
    for name in ("fd", "age", "idle", "flags", "sub", "psub", "multi", "qbuf", "qbuf-free", "omem", "tot-mem", "events"):
        assert name in own


@pytest.mark.since_redis_7_2
def test_info_has_library_fields(resp):
    """lib-name and lib-ver are in the row."""
    resp.transcript("""
        CLIENT SETINFO LIB-NAME speaker => +OK
        CLIENT SETINFO lib-ver 1.2.3 => +OK
        CLIENT SETINFO LIB-FOO x => -ERR Unrecognized option 'LIB-FOO'
        CLIENT SETINFO LIB-NAME => -ERR wrong number of arguments for 'client|setinfo' command
    """)
    own = fields(resp.call("CLIENT", "INFO"))
    assert own["lib-name"] == "speaker"
    assert own["lib-ver"] == "1.2.3"
    error = resp.call("CLIENT", "SETINFO", "LIB-NAME", "two words")
    assert error.text.startswith("ERR lib-name cannot contain spaces, newlines or special characters")


def test_list(resp, connect):
    """CLIENT LIST has a line for each client."""
    other = connect.resp()
    other.call("CLIENT", "SETNAME", "other")
    rows = [fields(line) for line in resp.call("CLIENT", "LIST").splitlines()]
    assert {"other"} <= {row["name"] for row in rows}
    assert {str(resp.call("CLIENT", "ID")), str(other.call("CLIENT", "ID"))} <= {row["id"] for row in rows}


def test_list_filters(resp, connect):
    """Filters by type and by id."""
    other = connect.resp()
    own_id, other_id = resp.call("CLIENT", "ID"), other.call("CLIENT", "ID")
    rows = [fields(line) for line in resp.call("CLIENT", "LIST", "ID", other_id, own_id).splitlines()]
    assert {row["id"] for row in rows} == {str(own_id), str(other_id)}
    assert len(resp.call("CLIENT", "LIST", "TYPE", "normal").splitlines()) >= 2
    assert resp.call("CLIENT", "LIST", "TYPE", "pubsub") == b""
    resp.transcript("""
        CLIENT LIST TYPE foo => -ERR Unknown client type 'foo'
        CLIENT LIST FOO => -ERR syntax error
        CLIENT LIST ID x => -ERR Invalid client ID
    """)


def test_names(resp):
    """A connection has no name until it sets one; the empty name removes it."""
    resp.transcript("""
        CLIENT GETNAME => nil
        CLIENT SETNAME worker-1 => +OK
        CLIENT GETNAME => "worker-1"
        CLIENT SETNAME "" => +OK
        CLIENT GETNAME => nil
    """)
    for name in ("two words", "line\nbreak", "\x7f\x80", "tab\t"):
        assert resp.call("CLIENT", "SETNAME", name.encode("latin-1")) == BAD_NAME


def test_kill_by_id(resp, connect):
    """CLIENT KILL ID closes one connection and returns the number closed."""
    other = connect.resp()
    number = other.call("CLIENT", "ID")
    assert resp.call("CLIENT", "KILL", "ID", number) == 1
    assert other.is_closed()
    assert wait_until(lambda: resp.call("CLIENT", "KILL", "ID", number) == 0)


def test_kill_by_address(resp, connect):
    """The old form returns OK; the new one returns a count."""
    for words, answer in ((["CLIENT", "KILL"], OK), (["CLIENT", "KILL", "ADDR"], 1)):
        other = connect.resp()
        other.call("PING")
        assert resp.call(*words, "%s:%d" % other.socket.getsockname()) == answer
        assert other.is_closed()


def test_kill_skips_the_caller_by_default(resp, connect):
    """SKIPME yes is the default of the filters."""
    other = connect.resp()
    other.call("PING")
    assert resp.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") >= 1
    assert other.is_closed()
    assert resp.call("PING") == Status("PONG")


def test_kill_oneself(resp):
    """A client may close itself; it still receives the reply."""
    number = resp.call("CLIENT", "ID")
    assert resp.call("CLIENT", "KILL", "ID", number, "SKIPME", "no") == 1
    assert resp.is_closed()


def test_kill_refuses(resp):
    """Filters are checked."""
    resp.transcript("""
        CLIENT KILL 1.2.3.4:5 => -ERR No such client
        CLIENT KILL ID x => -ERR client-id should be greater than 0
        CLIENT KILL ID 0 => -ERR client-id should be greater than 0
        CLIENT KILL FOO bar => -ERR syntax error
        CLIENT KILL TYPE foo => -ERR Unknown client type 'foo'
        CLIENT KILL ID 1 SKIPME maybe => -ERR syntax error
    """)


def test_reply_off_and_on(resp):
    """OFF suppresses all replies until ON."""
    resp.send(b"CLIENT REPLY OFF\r\nPING\r\nSET a 1\r\nNONESUCH\r\nCLIENT REPLY ON\r\nGET a\r\n")
    resp.hear(b"+OK\r\n$1\r\n1\r\n")


def test_reply_skip(resp):
    """SKIP suppresses the reply to the next command."""
    resp.send(b"CLIENT REPLY SKIP\r\nSET a 1\r\nGET a\r\n")
    resp.hear(b"$1\r\n1\r\n")
    assert resp.call("CLIENT", "REPLY", "x") == Error("ERR syntax error")


def test_no_evict(resp):
    """NO-EVICT accepts on or off."""
    resp.transcript("""
        CLIENT NO-EVICT on => +OK
        CLIENT NO-EVICT off => +OK
        CLIENT NO-EVICT x => -ERR syntax error
    """)


@pytest.mark.since_redis_7_2
def test_no_touch(resp):
    """NO-TOUCH accepts on or off."""
    resp.transcript("""
        CLIENT NO-TOUCH on => +OK
        CLIENT NO-TOUCH off => +OK
        CLIENT NO-TOUCH x => -ERR syntax error
    """)


def test_unknown_subcommands_and_arity(resp):
    """Errors name the subcommand."""
    resp.transcript("""
        CLIENT => -ERR wrong number of arguments for 'client' command
        CLIENT nonesuch => -ERR unknown subcommand 'nonesuch'. Try CLIENT HELP.
        CLIENT ID x => -ERR wrong number of arguments for 'client|id' command
        CLIENT GETNAME x => -ERR wrong number of arguments for 'client|getname' command
        CLIENT SETNAME => -ERR wrong number of arguments for 'client|setname' command
    """)


def test_memcached_clients_are_listed_too(server, resp, memcached):
    """The list has the clients of all protocols."""
    if server.kind == "oracle":
        pytest.skip("two servers")
    memcached.command("version")
    address = "%s:%d" % memcached.socket.getsockname()
    assert address in [fields(line)["addr"] for line in resp.call("CLIENT", "LIST").splitlines()]


def test_library_client(client_of_either_version):
    """redis-py's view of clients."""
    client = client_of_either_version
    assert client.client_setname("lib") is True
    assert client.client_getname() in ("lib", b"lib")
    assert client.client_id() > 0
    assert client.client_info()["name"] == "lib"
    assert "lib" in [row["name"] for row in client.client_list()]
    assert client.client_no_evict("on") in (True, "OK", b"OK")
