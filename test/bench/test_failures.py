"""A failure of an arm or a node of an experiment affects only its cell."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))

import e1  # noqa: E402
import e2  # noqa: E402
import e4  # noqa: E402
import local  # noqa: E402
import machine  # noqa: E402
import nodes  # noqa: E402
from findings import SECTIONS  # noqa: E402
import servers  # noqa: E402

TINY = [
    (e1, {"cell_ms": 1, "rounds": 1, "clients": [1, 2], "sizes": [16], "entries": 10}),
    (e2, {"cell_ms": 1, "rounds": 1, "processes": [1]}),
    (e4, {"rounds": 1, "deadline_ms": 5_000, "messages": [10]}),
]
RUNS = [([name], [{"arm": name}]) for name in ("first", "second", "third")]
# One arm raises an error, one does not open, one continues.
TURNS = """
    Opened = interleave:open([
        {raises, fun() -> fun() -> error(broken) end end},
        {shut, fun() -> exit(shut) end},
        {good, fun() -> fun() -> 1 end end}
    ]),
    Played = interleave:play(2, interleave:warm_up(Opened)),
    Figures = [interleave:figures(Arm, fun(Samples) -> #{samples => Samples} end) || Arm <- Played],
    io:format("~0tp", [Figures]),
    halt().
"""


@pytest.fixture
def run_node(monkeypatch):
    """Replaces the run of a node by a function of the name of its arm."""

    def replace(node):
        monkeypatch.setattr(local, "compiled", lambda *_: contextlib.nullcontext("nowhere"))
        monkeypatch.setattr(local, "run_node", lambda _directory, _module, arguments, _say: node(*arguments))

    return replace


def dies_at(*names):
    """Nodes of which those of these arms end too early."""

    def node(name):
        if name in names:
            raise local.NodeFailed("the Erlang node ended with 137", [])
        return [{"arm": name, "figure": 1.0}]

    return node


def test_what_a_node_printed_before_it_died_is_kept(run_node):
    def node(name):
        raise local.NodeFailed("the Erlang node ended with 137", [{"arm": name, "figure": 1.0}])

    run_node(node)
    assert nodes.results("e0", RUNS, lambda _: None) == [{"arm": arm, "figure": 1.0} for arm in ("first", "second", "third")]


def test_a_node_that_dies_affects_no_other_cell(run_node):
    run_node(dies_at("second"))
    said = []
    assert nodes.results("e0", RUNS, said.append) == [
        {"arm": "first", "figure": 1.0},
        {"arm": "second", "failed": "the Erlang node ended with 137"},
        {"arm": "third", "figure": 1.0},
    ]
    assert said == ["e0: failed: the Erlang node ended with 137"]


def test_an_experiment_whose_nodes_all_die_has_failed(run_node):
    run_node(dies_at("first", "second", "third"))
    with pytest.raises(RuntimeError, match="ended with 137"):
        nodes.results("e0", RUNS, print)


def test_cells_that_a_node_does_not_print_have_failed(run_node):
    run_node(lambda name: [] if name == "second" else [{"arm": name, "figures": [1.0]}])
    first, second, third = nodes.results("e0", RUNS, print)
    assert second == {"arm": "second", "failed": "the Erlang node ended too early"}
    assert "failed" not in {**first, **third}


def test_an_experiment_whose_nodes_print_nothing_has_failed(run_node):
    run_node(lambda _name: [])
    with pytest.raises(RuntimeError, match="too early"):
        nodes.results("e0", RUNS, print)


@pytest.mark.parametrize("line", ["", '{"arm": "first", "figu'])
def test_a_line_that_was_cut_off_is_a_failure_like_others(line):
    with pytest.raises(RuntimeError, match="within a line"):
        servers.parsed(line)


@pytest.mark.parametrize(("part", "plan"), TINY)
def test_nodes_print_the_cells_that_are_expected_of_them(part, plan):
    said = []
    found = part.run(plan, said.append)
    assert [each for each in found if "failed" in each] == []
    # An unexpected cell would be reported too.
    assert len(said) == part.steps(plan)


def test_a_server_that_keeps_connections_open_is_a_failure(monkeypatch):
    monkeypatch.setattr(servers, "SETTLE_TIMEOUT_S", 0.05)
    with pytest.raises(RuntimeError, match="still open"):
        servers._await(lambda: False, "still open")


def test_an_arm_that_fails_has_no_more_rounds_and_the_others_continue(tmp_path):
    environment = machine.erlang_environment()
    subprocess.run(["erlc", "-o", tmp_path, BENCH / "interleave.erl"], check=True, env=environment)
    command = ["erl", "-noinput", "-kernel", "logger_level", "none", "-pa", tmp_path, "-eval", TURNS]
    printed = subprocess.run(command, check=True, env=environment, capture_output=True, text=True, timeout=300).stdout
    raises, shut, good = printed.split("#{")[1:]
    assert "failed" in raises and "broken" in raises
    assert "failed" in shut and "shut" in shut
    assert good.startswith("samples => [1,1]")


@pytest.mark.parametrize("gone", ["ets", "todana"])
def test_a_failed_arm_of_e1_shows_in_its_row(gone):
    results = [
        {**cell, "failed": "gone"} if cell["arm"] == gone
        else {**cell, "reads_per_second": [1e6] * 3, "cpu_us_per_read": [None] * 3}
        for cell in e1.expected("integer", 8, "spread", 1)
    ]  # fmt: skip
    (row,) = SECTIONS["e1"](results).tables[0].rows
    assert [cell.reason for cell in row[1:] if cell.missing == "failed"] == ["gone"]


def test_a_dead_node_of_e2_shows_in_each_of_its_cells():
    figures = {"operations_per_second": [1e6] * 3, "profile": []}
    results = [{"arm": arm, "processes": 1, **figures} for arm in e2.ARMS]
    results += [{"arm": arm, "processes": 2, "failed": "gone"} for arm in e2.ARMS]
    first, second = SECTIONS["e2"](results).tables[0].rows
    assert not any(cell.missing for cell in first[1:])
    assert sum(cell.missing == "failed" for cell in second[1:]) == len(e2.ARMS)
