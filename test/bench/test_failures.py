"""What goes wrong with an arm or a node of an experiment stays with its cell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))

import e1  # noqa: E402
import e2  # noqa: E402
import local  # noqa: E402
import machine  # noqa: E402
import nodes  # noqa: E402
import sections  # noqa: E402

RUNS = [([name], [{"arm": name}]) for name in ("first", "second", "third")]
# One arm raises, one does not open, one goes on.
TURNS = """
    Opened = turns:open([
        {raises, fun() -> fun() -> error(broken) end end},
        {shut, fun() -> exit(shut) end},
        {good, fun() -> fun() -> 1 end end}
    ]),
    Played = turns:play(2, turns:warm_up(Opened)),
    Told = [turns:figures(Arm, fun(Samples) -> #{samples => Samples} end) || Arm <- Played],
    io:format("~0tp", [Told]),
    halt().
"""


def dies_at(*names):
    """In place of local.results: nodes of which these end too early."""

    def results(_module, arguments, _say, **_options):
        if arguments[0] in names:
            raise RuntimeError("the Erlang node ended with 137")
        return [{"arm": arguments[0], "figure": 1.0}]

    return results


def test_a_node_that_dies_takes_no_other_cell_with_it(monkeypatch):
    monkeypatch.setattr(local, "results", dies_at("second"))
    said = []
    assert nodes.results("e0", RUNS, said.append) == [
        {"arm": "first", "figure": 1.0},
        {"arm": "second", "failed": "the Erlang node ended with 137"},
        {"arm": "third", "figure": 1.0},
    ]
    assert said == ["e0: failed: the Erlang node ended with 137"]


def test_an_experiment_of_which_every_node_dies_has_failed(monkeypatch):
    monkeypatch.setattr(local, "results", dies_at("first", "second", "third"))
    with pytest.raises(RuntimeError, match="ended with 137"):
        nodes.results("e0", RUNS, print)


def test_an_arm_that_fails_has_no_more_turns_and_the_others_go_on(tmp_path):
    environment = machine.erlang_environment()
    subprocess.run(["erlc", "-o", tmp_path, BENCH / "turns.erl"], check=True, env=environment)
    command = ["erl", "-noinput", "-kernel", "logger_level", "none", "-pa", tmp_path, "-eval", TURNS]
    told = subprocess.run(command, check=True, env=environment, capture_output=True, text=True, timeout=60).stdout
    raises, shut, good = told.split("#{")[1:]
    assert "failed" in raises and "broken" in raises
    assert "failed" in shut and "shut" in shut
    assert good.startswith("samples => [1,1]")


@pytest.mark.parametrize("gone", ["ets", "todana"])
def test_a_failed_arm_of_e1_shows_in_its_row(gone):
    results = [
        {**cell, "failed": "gone"} if cell["arm"] == gone
        else {**cell, "reads_per_second": [1e6] * 3, "cpu_us_per_read": [None] * 3}
        for cell in e1.told("integer", 8, "spread", 1)
    ]  # fmt: skip
    (row,) = sections.e1(results).tables[0].rows
    assert [cell.reason for cell in row[1:] if cell.missing == "failed"] == ["gone"]


def test_a_dead_node_of_e2_shows_in_each_of_its_cells():
    figures = {"operations_per_second": [1e6] * 3, "profile": []}
    results = [{"arm": arm, "processes": 1, **figures} for arm in e2.ARMS]
    results += [{"arm": arm, "processes": 2, "failed": "gone"} for arm in e2.ARMS]
    first, second = sections.e2(results).tables[0].rows
    assert not any(cell.missing for cell in first[1:])
    assert sum(cell.missing == "failed" for cell in second[1:]) == len(e2.ARMS)
