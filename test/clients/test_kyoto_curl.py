"""curl, which is available everywhere."""

import shutil
import subprocess

import pytest

pytestmark = [
    pytest.mark.todana_only, pytest.mark.one_backend, pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed"),
]

TIMEOUT_S = 300


def curl(server, target, *arguments, data=None):
    """Runs curl on a path; returns its output, followed by the status."""
    url = "http://%s:%d%s" % (*server.kyoto, target)
    command = ["curl", "--silent", "--show-error", "--noproxy", "*", "--write-out", "%{http_code}", *arguments, url]
    done = subprocess.run(command, input=data, capture_output=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_put_get_delete(empty, kyoto):
    """A record by its path."""
    assert curl(empty, "/greeting", "--request", "PUT", "--data-binary", "hello") == b"201"
    assert curl(empty, "/greeting") == b"hello200"
    assert curl(empty, "/greeting", "--request", "DELETE") == b"204"
    assert curl(empty, "/greeting").endswith(b"404")


@pytest.mark.parametrize("megabytes", [0, 1, 5])
def test_upload(empty, kyoto, megabytes):
    """--upload-file, which waits for 100 Continue with large bodies."""
    data = bytes(range(256)) * 4096 * megabytes + b"end"
    assert curl(empty, "/large", "--upload-file", "-", data=data) == b"201"
    assert kyoto.value("large") == data
    assert curl(empty, "/large") == data + b"200"


def test_upload_in_chunks(empty, kyoto):
    """The length is not announced."""
    data = b"x" * 3_000_000
    assert curl(empty, "/large", "--header", "Transfer-Encoding: chunked", "--upload-file", "-", data=data) == b"201"
    assert kyoto.value("large") == data


def test_a_body_that_waits(empty, kyoto):
    """The server answers Expect: 100-continue at once, or curl stops waiting for it."""
    data = b"x" * 2_000_000
    arguments = ["--request", "PUT", "--header", "Expect: 100-continue", "--data-binary", "@-", "--max-time", "10"]
    assert curl(empty, "/large", *arguments, data=data) == b"201"
    assert kyoto.value("large") == data


def test_head(empty, kyoto):
    """--head."""
    kyoto.call("set", key="k", value="hello")
    output = curl(empty, "/k", "--head").decode()
    assert output.startswith("HTTP/1.1 200 OK\r\n") and "Content-Length: 5\r\n" in output and output.endswith("200")


def test_forms(empty, kyoto):
    """--data."""
    assert curl(empty, "/rpc/set", "--data", "key=a+b&value=c%2Bd") == b"200"
    assert kyoto.value("a b") == b"c+d"
    assert curl(empty, "/rpc/set", "--data-urlencode", "key=ü", "--data-urlencode", "value=&=") == b"200"
    assert curl(empty, "/rpc/get", "--get", "--data-urlencode", "key=ü") == b"value\t&=\n200"


def test_queries(empty, kyoto):
    """The whole request is in the URL."""
    assert curl(empty, "/rpc/set?key=a&value=b") == b"200"
    assert curl(empty, "/rpc/get?key=a") == b"value\tb\n200"
    assert curl(empty, "/rpc/get?key=none") == b"ERROR\tDB: 7: no record: no record\n450"


def test_maps(empty, kyoto):
    """--data-binary with the content type of maps."""
    header = ["--header", "Content-Type: text/tab-separated-values"]
    assert curl(empty, "/rpc/set_bulk", *header, "--data-binary", "_a\t1\n_b\t2\n") == b"num\t2\n200"
    assert curl(empty, "/rpc/match_prefix", *header, "--data-binary", "prefix\t\n") in (
        b"_a\t0\n_b\t1\nnum\t2\n200",
        b"_a\t1\n_b\t0\nnum\t2\n200",
    )


def test_several_on_one_connection(empty, kyoto):
    """curl keeps the connection open."""
    kyoto.call("set", key="k", value="v")
    url = "http://%s:%d/k" % empty.kyoto
    done = subprocess.run(
        ["curl", "--silent", "--noproxy", "*", "--write-out", "%{num_connects}", url, url, url],
        capture_output=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    assert done.stdout == b"v1v0v0"


def test_http_1_0(empty, kyoto):
    """--http1.0."""
    kyoto.call("set", key="k", value="v")
    assert curl(empty, "/k", "--http1.0") == b"v200"
