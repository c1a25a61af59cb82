"""README's `A minute of use`, command by command, against a server on free ports."""

from __future__ import annotations

import re
import subprocess

import pytest

import served
from erlang_node import Node

pytestmark = [pytest.mark.todana_only, pytest.mark.one_backend]

README = (served.ROOT / "README.md").read_text()
SECTION = README.split("## A minute of use\n")[1].split("\n## ")[0]
BLOCKS = [
    "\n".join(line[4:] for line in found.splitlines()) for found in re.findall(r"(?:^    .*\n?)+", SECTION, re.MULTILINE)
]
TIMEOUT_S = 60


@pytest.fixture(autouse=True)
def only_the_real_program(request):
    """The page is about bin/todana."""
    if request.config.getoption("--server") != "todana" or request.config.getoption("--durable"):
        pytest.skip("runs once")


def steps(block):
    """The commands of a block, each with the output that the page shows."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output.strip("\n")


def on(server, command):
    """The command at the ports of this server. redis-cli prints for a person, though its output is no terminal."""
    for port, (_, own) in {"1978": server.kyoto, "11211": server.memcached}.items():
        command = re.sub(rf"(?<=127\.0\.0\.1[:/]){port}\b", str(own), command)
    return command.replace("redis-cli ", f"redis-cli --no-raw -p {server.resp[1]} ")


def test_each_command_prints_what_the_page_shows(start_server):
    server, done = start_server(), 0
    for block in BLOCKS:
        for command, expected in steps(block):
            if command.startswith("bin/todana start "):
                words = command.removesuffix("&").split()[2:]
                server = start_server(databases=[word.strip("'") for word in words])
                continue
            found = subprocess.run(
                ["bash", "-c", on(server, command)], capture_output=True, text=True, timeout=TIMEOUT_S, check=True,
            )
            assert found.stdout.strip("\n").replace("\r", "") == expected or not expected, command
            done += 1
    assert done >= 8


def test_the_erlang_lines_match():
    node = Node((":",))
    try:
        lines = [line for block in BLOCKS if "todana:open" in block for line in block.splitlines()]
        for line in lines:
            expression = line.split("   %")[0].rstrip().removesuffix(".")
            answer = node.say(expression)
            assert not re.match(r"\{(error|exit|throw),", answer), (line, answer)
        assert len(lines) >= 10
    finally:
        node.stop()


def test_make_run_prints_the_line_that_the_page_names(start_server):
    assert "wait for the line `todana ready`" in SECTION
    assert any(line.startswith("todana ready ") for line in start_server().processes[0].lines)
    made = subprocess.run(["make", "--no-print-directory", "-n", "run"], cwd=served.ROOT, capture_output=True, text=True, check=True).stdout
    assert made.splitlines()[-1] == "exec bin/todana start"
