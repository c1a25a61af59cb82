"""Section 3: records as HTTP resources."""

import time
from email.utils import formatdate, parsedate_to_datetime

import pytest

from kyoto_wire import NEVER, http, ok

pytestmark = [pytest.mark.todana_only, pytest.mark.one_backend]

BINARY = bytes(range(256))
NO_RECORD = "DB: 7: no record: no record"
DUPLICATE = "DB: 6: record duplication: record duplication"


def test_get(kyoto):
    """The body is the value; there is no content type."""
    kyoto.call("set", key="k", value=BINARY)
    response = kyoto.ask("GET", "/k")
    assert (response.status, response.body, list(response.headers)) == (200, BINARY, ["Server", "Date", "Content-Length"])


def test_get_of_nothing(kyoto):
    """The answer is 404, with the error in a header."""
    response = kyoto.ask("GET", "/k")
    assert (response.status, response.headers["X-Kt-Error"]) == (404, NO_RECORD)
    assert "Content-Type" not in response.headers


def test_head(kyoto):
    """The answer has the length of the value."""
    kyoto.call("set", key="k", value="hello")
    response = kyoto.ask("HEAD", "/k")
    assert (response.status, response.headers["Content-Length"]) == (200, "5")
    assert kyoto.ask("GET", "/k").body == b"hello"


def test_head_of_nothing(kyoto):
    """The answer is 404 with length 0."""
    response = kyoto.ask("HEAD", "/k")
    assert (response.status, response.headers["Content-Length"], response.headers["X-Kt-Error"]) == (404, "0", NO_RECORD)


@pytest.mark.parametrize("value", [b"hello", b"", BINARY, b"x" * 2_000_000])
def test_put(kyoto, value):
    """The body is the value, whatever its content type."""
    response = kyoto.ask("PUT", "/k", [("Content-Type", "image/png")], value)
    assert (response.status, response.body) == (201, b"")
    assert kyoto.value("k") == value


def test_put_returns_the_location(kyoto):
    """`Location` repeats the target of the request."""
    response = kyoto.ask("PUT", "/1/a%20b?x=y", body=b"v")
    assert response.headers["Location"] in (
        f"http://localhost:{kyoto.address[1]}/1/a%20b?x=y",
        f"http://localhost:{kyoto.address[1]}/1/a%20b",
    )


def test_put_overwrites(kyoto):
    """The answer is again 201."""
    assert [kyoto.ask("PUT", "/k", body=value).status for value in (b"a", b"b")] == [201, 201]
    assert kyoto.value("k") == b"b"


@pytest.mark.parametrize(
    "mode, there, status",
    [
        ("add", False, 201), ("add", True, 450), ("replace", True, 201), ("replace", False, 450), ("set", True, 201), ("ADD", True, 450),
        ("Replace", False, 450), ("nonesuch", True, 201), ("", True, 201),
    ],
)
def test_put_modes(kyoto, mode, there, status):
    """`X-Kt-Mode` is case-insensitive."""
    if there:
        kyoto.call("set", key="k", value="old")
    response = kyoto.ask("PUT", "/k", [("X-Kt-Mode", mode)], b"new")
    assert response.status == status
    assert response.headers.get("X-Kt-Error") == {201: None, 450: DUPLICATE if there else NO_RECORD}[status]
    assert kyoto.value("k") == (b"new" if status == 201 else b"old" if there else None)


def test_delete(kyoto):
    """The answer is 204, with a length."""
    kyoto.call("set", key="k", value="v")
    response = kyoto.ask("DELETE", "/k")
    assert (response.status, response.headers["Content-Length"]) == (204, "0")
    response = kyoto.ask("DELETE", "/k")
    assert (response.status, response.headers["X-Kt-Error"]) == (404, NO_RECORD)


@pytest.mark.parametrize("method", ["POST", "OPTIONS", "PATCH"])
def test_other_methods(kyoto, method):
    """Other methods are not implemented."""
    response = kyoto.ask(method, "/k", body=b"v")
    assert (response.status, response.body) == (501, b"")
    assert kyoto.value("k") is None


# --- paths


@pytest.mark.parametrize(
    "target, database, key",
    [
        ("/k", 0, b"k"), ("/0/k", 0, b"k"), ("/1/k", 1, b"k"), ("//k", 0, b"k"), ("/", 0, b""), ("/1/", 1, b""), ("//", 0, b""),
        ("/a%20b", 0, b"a b"), ("/a+b", 0, b"a b"), ("/a%2Fb", 0, b"a/b"), ("/0/a/b", 0, b"a/b"), ("/1//b", 1, b"/b"), ("/%31/k", 1, b"k"),
        ("/:/k", 0, b"k"), ("/%3A/k", 0, b"k"), ("/-/k", 3, b"k"), ("/k?x=1", 0, b"k"), ("/%00%ff", 0, b"\0\xff"), ("/rpc", 0, b"rpc"),
        ("/k%3Fx", 0, b"k?x"), ("/1x/k", 1, b"k"),
    ],
)
@pytest.mark.memory_only
def test_paths(kyoto, target, database, key):
    """Database and key are URL-encoded; one additional slash is skipped."""
    assert kyoto.ask("PUT", target, body=b"v").status == 201
    assert kyoto.call("get", DB=database, key=key) == ok(value="v")
    assert kyoto.ask("GET", target).body == b"v"
    assert kyoto.ask("DELETE", target).status == 204
    assert kyoto.count(database) == 0


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE"])
@pytest.mark.parametrize("segment", ["none", "7", "99999999999999999999"])
def test_an_unknown_database(kyoto, method, segment):
    """The error is in the body."""
    response = kyoto.ask(method, f"/{segment}/k", body=b"" if method == "PUT" else None)
    assert response.status == 400 and "Content-Type" not in response.headers
    assert response.body == (b"" if method == "HEAD" else b"no such database\n")


# --- expiry


def at(seconds):
    """A point in time in all formats of X-Kt-Xt."""
    moment = time.gmtime(seconds)
    east = time.gmtime(seconds + 9 * 3600)
    return {
        "decimal": str(seconds), "hexadecimal": hex(seconds), "W3CDTF": time.strftime("%Y-%m-%dT%H:%M:%SZ", moment),
        "W3CDTF east": time.strftime("%Y-%m-%dT%H:%M:%S+09:00", east), "RFC 1123": formatdate(seconds, usegmt=True),
        "RFC 822 east": time.strftime("%a, %d %b %Y %H:%M:%S +0900", east),
    }


@pytest.mark.parametrize("words", at(0))
def test_put_with_a_time(kyoto, words):
    """The time is absolute, in any format."""
    moment = int(time.time()) + 1000
    assert kyoto.ask("PUT", "/k", [("X-Kt-Xt", at(moment)[words])], b"v").status == 201
    assert kyoto.xt("k") == moment


def test_get_and_head_return_the_time(kyoto):
    """The time is in HTTP's date format."""
    moment = int(time.time()) + 1000
    kyoto.call("set", key="k", value="v", xt=-moment)
    for method in ("GET", "HEAD"):
        returned = kyoto.ask(method, "/k").headers["X-Kt-Xt"]
        assert returned == formatdate(moment, usegmt=True) and parsedate_to_datetime(returned).timestamp() == moment


@pytest.mark.parametrize("xt", ["0", "-1", "-9999999999", str(NEVER), str(NEVER + 1), "9" * 30])
def test_times_that_are_never(kyoto, xt):
    """Times up to 0, and from 2^40 - 1 on."""
    kyoto.ask("PUT", "/k", [("X-Kt-Xt", xt)], b"v")
    assert kyoto.call("get", key="k") == ok(value="v")
    assert "X-Kt-Xt" not in kyoto.ask("GET", "/k").headers


def test_a_small_time_has_passed(kyoto):
    """X-Kt-Xt is not a duration."""
    assert kyoto.ask("PUT", "/k", [("X-Kt-Xt", "60")], b"v").status == 201
    assert kyoto.ask("GET", "/k").status == 404


def test_put_without_a_time_is_for_ever(kyoto):
    """A write without X-Kt-Xt removes the expiry."""
    kyoto.call("set", key="k", value="v", xt=100)
    kyoto.ask("PUT", "/k", body=b"w")
    assert kyoto.xt("k") is None


def test_header_names_in_any_case(kyoto):
    """Header names are case-insensitive in HTTP."""
    kyoto.call("set", key="k", value="v")
    assert kyoto.ask("PUT", "/k", [("x-kt-mode", "add")], b"w").status == 450
    assert kyoto.ask("PUT", "/k", [("X-KT-XT", "60")], b"w").status == 201
    assert kyoto.value("k") is None


def test_pipelines(kyoto):
    """One packet stores, reads and removes a value."""
    kyoto.send(http("PUT", "/k", body=b"v") + http("GET", "/k") + http("HEAD", "/k") + http("DELETE", "/k") + http("GET", "/k"))
    answers = [kyoto.response(head=number == 2) for number in range(5)]
    assert [answer.status for answer in answers] == [201, 200, 200, 204, 404]
