"""Access to the Kyoto Tycoon port: `Host`, `Origin`, and the password.

ktserver answers all requests, so a web page could reach it through its visitor's browser. Todana checks requests.
"""

import base64

import pytest

from fixtures import PASSWORD
from kyoto_wire import FAILED, GET_BULK, INT64_MAX, SET_BULK, Kyoto, frame_of_keys, frame_of_set, http, ok

pytestmark = [pytest.mark.todana_only, pytest.mark.one_backend]


def basic(password, user="anybody"):
    """The header with a password."""
    return ("Authorization", "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode())


def status(connection, *headers, method="GET", version="HTTP/1.1"):
    """The status of a request with only these headers."""
    lines = b"".join(b"%s: %s\r\n" % (name.encode(), value.encode()) for name, value in headers)
    connection.send(b"%s /rpc/void %s\r\n%s\r\n" % (method.encode(), version.encode(), lines))
    return connection.response(head=method == "HEAD").status


# --- Host


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:1978", "LOCALHOST", "a.localhost", "127.0.0.1", "127.0.0.1:1", "10.0.0.1:1978", "[::1]:1978", ":1978", ""],
)
def test_hosts_that_are_answered(kyoto, host):
    """The server accepts addresses, and names of this machine."""
    assert status(kyoto, ("Host", host)) == 200


@pytest.mark.parametrize(
    "host", ["example.org", "example.org:1978", "localhost.example.org", "127.0.0.1.example.org", "xlocalhost", "1.2.3"]
)
def test_hosts_that_are_not(kyoto, host):
    """The server refuses names that an attacker could resolve to this address, and closes the connection."""
    assert status(kyoto, ("Host", host)) == 403
    assert kyoto.rest() == b""


def test_no_host(kyoto):
    """Old clients send no `Host`; the server accepts them."""
    assert status(kyoto) == 200
    assert status(kyoto, version="HTTP/1.0") == 200


def test_a_refused_request_does_nothing(connect, kyoto):
    """A refused request has no effect, whatever it asks for."""
    stranger = connect.kyoto()
    stranger.send(b"PUT /k HTTP/1.1\r\nHost: example.org\r\nContent-Length: 1\r\n\r\nv" + http("PUT", "/k", body=b"w"))
    assert b" 403 Forbidden" in stranger.rest()
    assert kyoto.value("k") is None


# --- Origin


@pytest.mark.parametrize("origin", ["https://example.org", "http://localhost", "http://127.0.0.1:1978", "null", ""])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS"])
def test_pages_are_not_answered(kyoto, origin, method):
    """A browser states the origin of a request in `Origin`."""
    assert status(kyoto, ("Host", "localhost"), ("Origin", origin), method=method) == 403


@pytest.mark.parametrize("site, answer", [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)])
def test_the_site_that_a_browser_states(kyoto, site, answer):
    """`Sec-Fetch-Site` counts if the browser sends no `Origin`, as for images."""
    assert status(kyoto, ("Host", "localhost"), ("Sec-Fetch-Site", site)) == answer


@pytest.fixture(scope="module")
def open_server(request):
    """A server with configured names and origins."""
    from fixtures import start

    server = start(request.config, "--kyoto-hosts", "db.example.org,other.example.org", "--kyoto-origins", "https://example.org")
    yield server
    server.stop()


@pytest.mark.parametrize(
    "host, answer",
    [("db.example.org", 200), ("DB.example.org:80", 200), ("other.example.org", 200), ("example.org", 403), ("x.db.example.org", 403)],
)
def test_hosts_of_the_settings(open_server, host, answer):
    """The server accepts a configured name with any port."""
    with Kyoto(open_server.kyoto) as kyoto:
        assert status(kyoto, ("Host", host)) == answer


@pytest.mark.parametrize(
    "origin, answer",
    [("https://example.org", 200), ("http://example.org", 403), ("https://example.org:444", 403), ("https://a.example.org", 403)],
)
def test_origins_of_the_settings(open_server, origin, answer):
    """Scheme, name and port of an origin have to match."""
    with Kyoto(open_server.kyoto) as kyoto:
        assert status(kyoto, ("Host", "localhost"), ("Origin", origin)) == answer


def test_any_host_and_origin(start_server):
    """`*` accepts any name and origin."""
    server = start_server("--kyoto-hosts", "*", "--kyoto-origins", "*")
    with Kyoto(server.kyoto) as kyoto:
        assert status(kyoto, ("Host", "example.org"), ("Origin", "https://example.org")) == 200
        assert status(kyoto, ("Host", "example.org"), ("Sec-Fetch-Site", "cross-site")) == 200


# --- the password


@pytest.fixture
def stranger(guarded):
    """A connection that has not authenticated."""
    with Kyoto(guarded.kyoto) as connection:
        yield connection


def test_without_a_password(stranger):
    """The server answers 401 with the scheme to use, and keeps the connection open."""
    response = stranger.ask("GET", "/k")
    assert (response.status, response.headers["Www-Authenticate"]) == (401, 'Basic realm="todana"')
    assert stranger.ask("GET", "/k", [basic(PASSWORD)]).status == 404


@pytest.mark.parametrize("user", ["", "anybody", "default"])
def test_with_the_password(stranger, user):
    """Any user name is accepted, and authentication lasts as long as the connection."""
    assert stranger.ask("PUT", "/k", [basic(PASSWORD, user)], b"v").status == 201
    assert stranger.ask("GET", "/k").body == b"v"
    assert stranger.get_bulk((0, b"k"))[0][2] == b"v"


@pytest.mark.parametrize(
    "header",
    [
        basic("wrong"), basic(""), basic(PASSWORD + "x"), basic(PASSWORD[:-1]), ("Authorization", "Basic"), ("Authorization", "Basic !!!"),
        ("Authorization", PASSWORD), ("Authorization", "Bearer " + PASSWORD),
        ("Authorization", "Basic " + base64.b64encode(PASSWORD.encode()).decode()), ("Authorization", ""),
    ],
    ids=lambda header: header[1][:20],
)
def test_a_wrong_password(stranger, header):
    """A wrong password gets 401, and nothing is stored."""
    assert stranger.ask("PUT", "/forbidden", [header], b"v").status == 401
    with Kyoto(stranger.address) as owner:
        assert owner.ask("GET", "/forbidden", [basic(PASSWORD)]).status == 404


@pytest.mark.parametrize("frame", [frame_of_set([(0, b"forbidden", b"v", INT64_MAX)]), frame_of_keys(GET_BULK, [(0, b"forbidden")])])
def test_the_binary_protocol_without_a_password(stranger, frame):
    """Without authentication, a binary request gets an error, or the connection is closed."""
    stranger.send(frame)
    assert stranger.rest() in (b"", FAILED)
    with Kyoto(stranger.address) as owner:
        assert owner.ask("GET", "/forbidden", [basic(PASSWORD)]).status == 404


def test_the_binary_protocol_after_authentication(stranger):
    """A connection that has authenticated over HTTP may use the binary protocol."""
    stranger.send(http("GET", "/rpc/void", [basic(PASSWORD)]) + frame_of_set([(0, b"allowed", b"v", INT64_MAX)]))
    assert stranger.answer() == ok()
    assert stranger.count_of(SET_BULK) == 1


def test_no_procedure_without_a_password(stranger):
    """Without authentication, no procedure runs, not even `void`, and none waits."""
    for target in ("/rpc/void", "/rpc/report", "/rpc/echo?WAIT=x&WAITTIME=5", "/rpc/nonesuch", "/"):
        assert stranger.ask("GET", target).status == 401


def test_a_long_body_before_the_password(stranger):
    """The server does not accept a long body before authentication."""
    stranger.send(b"PUT /k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50000000\r\n\r\n")
    assert stranger.line().startswith(b"HTTP/1.1 401 ")
